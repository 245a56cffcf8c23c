"""Streams on Spark, real ones: each is compared, bit for bit, with one process."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame

import streamcal
import streamcal.spark
from streamcal import (
    AnytimeCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    losses,
)
from tests.spark_cluster import cluster_session, session, states, wait_for


def java_version() -> int:
    """Return the version of the Java that Spark would run on, 0 if there is none."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    if shutil.which(java) is None:
        return 0
    done = subprocess.run([java, "-version"], capture_output=True, text=True)
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else 0


needs_java = pytest.mark.skipif(
    java_version() < 17, reason="Spark needs Java 17 or newer, and there is none (JAVA_HOME, PATH)"
)

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = "id long, key string, score double, label double, weight double"


@pytest.fixture
def spark() -> Any:
    return session()


def make_rows(n: int, n_keys: int = 5, seed: int = 0) -> pa.Table:
    """Return rows with ties in scores, and here and there a key, score, label or weight missing."""
    random = np.random.default_rng(seed)
    score = random.random(n).round(3)
    label = (random.random(n) < score**2).astype(float)

    def missing(share: float) -> np.ndarray:
        return random.random(n) < share

    return pa.table(
        {
            "id": np.arange(n),
            "key": pa.array([f"k{k}" for k in random.integers(0, n_keys, n)], mask=missing(0.1)),
            "score": pa.array(score, mask=missing(0.02)),
            "label": pa.array(np.where(missing(0.05), np.nan, label), mask=missing(0.05)),
            "weight": pa.array(random.integers(1, 4, n).astype(float), mask=missing(0.02)),
        }
    )


def write(folder: Path, tables: list[pa.Table]) -> Path:
    """Write one file per table, in an order in time that a file source keeps."""
    folder.mkdir()
    for number, table in enumerate(tables):
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    return folder


def stream(spark: Any, folder: Path, schema: str = SCHEMA) -> DataFrame:
    """Return a stream of one file to a micro-batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frame: DataFrame = reader.parquet(str(folder))
    return frame


def run(
    calibrated: DataFrame, tmp_path: Path, meanwhile: Callable[..., Any] = lambda query: None
) -> pa.Table:
    """Run a stream to its end; return what it wrote."""
    query = (
        calibrated.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    try:
        meanwhile(query)
        assert query.awaitTermination(300), "the stream has not ended"
    finally:
        query.stop()
    return pq.read_table(tmp_path / "out")


def one_process(
    table: pa.Table,
    make: Callable[..., Any],
    *,
    weighted: bool = True,
    key: str | None = "key",
    fields: Sequence[str] = (),
) -> tuple[Any, Any]:
    """Return the values by id and the calibrators by key that one process comes to, row by row."""
    calibrators, values = {}, {}
    for row in table.to_pylist():
        group = None if key is None else row[key]
        if group not in calibrators:
            calibrators[group] = make()
        calibrator = calibrators[group]
        score, label, weight = row["score"], row["label"], row["weight"] if weighted else 1.0
        x = {name: row[name] for name in fields} if fields else None
        values[row["id"]] = None if score is None else calibrator.predict_one(score, x)
        if score is not None and label is not None and weight is not None and label == label:
            calibrator.learn_one(score, label, weight, x=x)
    return values, {key: calibrator.to_bytes() for key, calibrator in calibrators.items()}


def by_id(table: pa.Table) -> dict[Any, Any]:
    found = dict(zip(table["id"].to_pylist(), table["calibrated"].to_pylist(), strict=True))
    assert len(found) == len(table), "a row came twice"
    return found


@needs_java
@pytest.mark.parametrize("ordered", [True, False])
def test_a_stream_is_what_one_process_learns(spark: Any, tmp_path: Path, ordered: bool) -> None:
    rows = make_rows(6_000)

    def isotonic() -> Any:  # it is sent to the workers by value
        return IsotonicCalibrator(window=200)

    make = isotonic if ordered else PlattCalibrator
    batches = [rows.slice(0, 2_500), rows.slice(2_500, 1_500), rows.slice(4_000)]
    if ordered:  # within a micro-batch the rows come in any order
        shuffle = np.random.default_rng(1).permutation
        batches = [batch.take(shuffle(len(batch))) for batch in batches]
    calibrated = streamcal.spark.calibrate(
        stream(spark, write(tmp_path / "in", batches)),
        key="key",
        score="score",
        label="label",
        weight="weight",
        order="id" if ordered else None,
        calibrator=make,
    )
    assert calibrated.isStreaming
    assert calibrated.columns == ["id", "key", "score", "label", "weight", "calibrated"]
    out = run(calibrated, tmp_path)
    values, calibrators = one_process(rows, make)
    assert by_id(out) == values
    assert states(spark, tmp_path / "checkpoint") == calibrators


@needs_java
def test_a_query_that_is_stopped_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    rows = make_rows(4_000)
    folder = write(tmp_path / "in", [rows.slice(0, 2_000)])
    prototype = IsotonicCalibrator(half_life=500)
    prototype.learn_one(0.5, True)  # what a prototype has learned is not what keys start from
    options = {"key": "key", "score": "score", "label": "label", "order": "id"}
    run(streamcal.spark.calibrate(stream(spark, folder), calibrator=prototype, **options), tmp_path)
    write(tmp_path / "more", [rows.slice(2_000, 1_000), rows.slice(3_000)])
    for path in sorted((tmp_path / "more").iterdir()):
        path.rename(folder / f"more-{path.name}")
    # Another `calibrator` is for new keys only.
    other = IsotonicCalibrator(half_life=7)
    out = run(
        streamcal.spark.calibrate(stream(spark, folder), calibrator=other, **options), tmp_path
    )
    values, calibrators = one_process(
        rows, lambda: IsotonicCalibrator(half_life=500), weighted=False
    )
    assert by_id(out) == values
    assert states(spark, tmp_path / "checkpoint") == calibrators


@needs_java
@pytest.mark.parametrize("key", ["key", None])
def test_segments_are_columns(spark: Any, tmp_path: Path, key: str | None) -> None:
    n = 1_200
    random = np.random.default_rng(2)
    fields = {
        "word": pa.array([["tv", "ä", ""][i] for i in random.integers(0, 3, n)]),
        "whole": pa.array(random.integers(0, 3, n) - 2**60, mask=random.random(n) < 0.2),
        "float": pa.array(np.where(random.random(n) < 0.2, np.nan, random.integers(0, 3, n))),
        "flag": pa.array(random.random(n) < 0.5, mask=random.random(n) < 0.2),
    }
    rows = make_rows(n, n_keys=2)
    for name, column in fields.items():
        rows = rows.append_column(name, column)
    calibrated = streamcal.spark.calibrate(
        stream(
            spark,
            write(tmp_path / "in", [rows.slice(0, 700), rows.slice(700)]),
            f"{SCHEMA}, word string, whole long, float double, flag boolean",
        ),
        key=key,
        score="score",
        label="label",
        weight="weight",
        order="id",
        calibrator=SegmentCalibrator(list(fields), base=PlattCalibrator(), max_terms=60),
    )
    out = run(calibrated, tmp_path)
    make = SegmentCalibrator(list(fields), base=PlattCalibrator(), max_terms=60).clone
    values, calibrators = one_process(rows, make, key=key, fields=list(fields))
    assert by_id(out) == values
    assert states(spark, tmp_path / "checkpoint") == calibrators


@needs_java
def test_columns_that_are_passed_on_stay_as_they_are(spark: Any, tmp_path: Path) -> None:
    struct = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    n = 40
    rows = pa.table(
        {
            "key": pa.array([2**62 + i % 3 if i % 4 else None for i in range(n)], pa.int64()),
            "score": pa.array([Decimal(i) / 8 for i in range(n)], pa.decimal128(9, 3)),
            "label": pa.array([i % 2 == 0 for i in range(n)]),
            "date": pa.array([date(2024, 1, 1 + i % 3) if i % 3 else None for i in range(n)]),
            "small": pa.array([i if i % 4 else None for i in range(n)], pa.int8()),
            "money": pa.array([Decimal(f"{i}.05") for i in range(n)], pa.decimal128(30, 2)),
            "time": pa.array([datetime(2024, 5, 6, 7, i) for i in range(n)], pa.timestamp("us")),
            "raw": pa.array([bytes([i, 0]) for i in range(n)]),
            "nested": pa.array(
                [{"a": i, "b": ["x", None]} if i % 5 else None for i in range(n)], struct
            ),
            "map": pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
            "text": pa.array(["ä" * i if i % 6 else None for i in range(n)]),
            "float": pa.array([float("nan") if i % 7 else None for i in range(n)], pa.float32()),
        }
    )
    schema = (
        "key long, score decimal(9,3), label boolean, date date, small byte, money decimal(30,2),"
        " time timestamp_ntz, raw binary, nested struct<a int, b array<string>>,"
        " map map<string, long>, text string, float float"
    )
    calibrated = streamcal.spark.calibrate(
        stream(spark, write(tmp_path / "in", [rows]), schema),
        key="key",
        score="score",
        label="label",
        calibrator=IsotonicCalibrator,
        new_column="p",
    )
    out = run(calibrated, tmp_path).sort_by("score")
    assert out["p"].null_count == 0
    assert repr(out.drop_columns("p").to_pylist()) == repr(rows.to_pylist())
    keys = {None, str(2**62), str(2**62 + 1), str(2**62 + 2)}
    assert states(spark, tmp_path / "checkpoint").keys() == keys


NAMES = ["user.id", "a.b", "`a`", "A", "a", "score.x", "label y"]


@needs_java
def test_names_with_dots_are_names(spark: Any, tmp_path: Path) -> None:
    """Also those of columns that are only passed on, and two that differ in case."""
    n = 60
    random = np.random.default_rng(0)
    columns = [
        pa.array([f"u{k}" for k in random.integers(0, 2, n)]),
        pa.array(random.integers(0, 3, n)),
        pa.array(np.arange(n)),
        pa.array([f"{k}" for k in range(n)]),
        pa.array(random.random(n)),
        pa.array(random.random(n)),
        pa.array(random.random(n) < 0.5),
    ]
    rows = pa.table(dict(zip(NAMES, columns, strict=True)))
    plain = rows.rename_columns([f"c{number}" for number in range(len(NAMES))])
    schema = "c0 string, c1 long, c2 long, c3 string, c4 double, c5 double, c6 boolean"
    calibrated = streamcal.spark.calibrate(
        stream(spark, write(tmp_path / "in", [plain]), schema).toDF(*NAMES),
        key="user.id",
        score="score.x",
        label="label y",
        order="`a`",
        calibrator=SegmentCalibrator(["a.b", "a"], base=PlattCalibrator()),
        new_column="new.column",
    )
    assert calibrated.columns == [*NAMES, "new.column"]
    out = run(calibrated.toDF(*plain.column_names, "p"), tmp_path).sort_by("c2")
    assert out.drop_columns("p").equals(plain)
    assert out["p"].null_count == 0


@needs_java
def test_a_checkpoint_keeps_its_columns_and_buckets(spark: Any, tmp_path: Path) -> None:
    """Also if all values of the other column are new keys."""
    rows = make_rows(300).append_column("other", pa.array(np.full(300, "x")))
    folder = write(tmp_path / "in", [rows])

    def go(key: str, weight: str | None, n_buckets: int = 5) -> None:
        frame = stream(spark, folder, f"{SCHEMA}, other string")
        columns: Any = {"key": key, "score": "score", "label": "label", "weight": weight}
        columns["n_buckets"] = n_buckets
        run(streamcal.spark.calibrate(frame, calibrator=PlattCalibrator, **columns), tmp_path)

    go("key", None)
    before = states(spark, tmp_path / "checkpoint")
    pq.write_table(rows, folder / "more.parquet")
    message = "must be those of the checkpoint, 'key', 'score', 'label', got 'other', 'score', 'la"
    with pytest.raises(StreamingQueryException, match=message):
        go("other", None)
    with pytest.raises(StreamingQueryException, match=r"`n_buckets` .* 5, got 6; pass 5"):
        go("key", None, 6)
    assert states(spark, tmp_path / "checkpoint") == before
    go("key", "weight")
    assert states(spark, tmp_path / "checkpoint") != before


# Rows that are wide, or many of one key -----------------------------------------------------------


@needs_java
def test_wide_rows_in_many_bundles(spark: Any, tmp_path: Path) -> None:
    """The rows of a key have the order in which they were learned, over all bundles."""
    n = 6_000
    rows = make_rows(n, n_keys=2)
    rows = rows.append_column("text", pa.array([chr(65 + i % 50) * 2_000 for i in range(n)]))
    shuffled = rows.take(np.random.default_rng(4).permutation(n))
    calibrated = streamcal.spark.calibrate(
        stream(spark, write(tmp_path / "in", [shuffled]), f"{SCHEMA}, text string"),
        key="key",
        score="score",
        label="label",
        weight="weight",
        order="id",
        calibrator=IsotonicCalibrator(window=100),
    )
    out = run(calibrated, tmp_path)
    values, _ = one_process(rows, lambda: IsotonicCalibrator(window=100))
    assert by_id(out) == values
    assert out.sort_by("id")["text"].to_pylist() == rows["text"].to_pylist()
    for name in ("k0", "k1"):
        ids = out.filter(pc.equal(out["key"], name))["id"].to_pylist()
        assert ids == sorted(ids)


@needs_java
def test_what_is_wrong_ends_the_query(spark: Any, tmp_path: Path) -> None:
    row = {"id": 1, "key": "k1", "score": 0.5, "label": 2.0, "weight": 1.0}
    folder = write(tmp_path / "in", [pa.Table.from_pylist([row])])
    calibrated = streamcal.spark.calibrate(
        stream(spark, folder),
        key="key",
        score="score",
        label="label",
        calibrator=IsotonicCalibrator,
    )
    with pytest.raises(StreamingQueryException, match=r"key 'k1': `y` .* got 2\.0"):
        run(calibrated, tmp_path)


@needs_java
def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    n = 4_000
    tables = [make_rows(n, n_keys=8, seed=seed) for seed in range(3)]
    tables = [
        table.set_column(0, "id", pa.array(np.arange(n) + n * number))
        for number, table in enumerate(tables)
    ]
    folder = write(tmp_path / "in", tables)
    prototype = IsotonicCalibrator(window=400)
    with cluster_session(tmp_path) as (cluster, spark):
        calibrated = streamcal.spark.calibrate(
            stream(spark, folder),
            key="key",
            score="score",
            label="label",
            weight="weight",
            order="id",
            calibrator=prototype,
        )

        def kill(query: Any) -> None:
            wait_for(lambda: query.lastProgress or not query.isActive, "the first micro-batch")
            tracker = spark.sparkContext.statusTracker()
            wait_for(tracker.getActiveStageIds, "the next micro-batch")
            assert query.isActive
            cluster.kill_worker()

        out = run(calibrated, tmp_path, kill)
        found = states(spark, tmp_path / "checkpoint")
    values, calibrators = one_process(pa.concat_tables(tables), prototype.clone)
    assert by_id(out) == values
    assert found == calibrators


@pytest.fixture
def arguments(spark: Any) -> dict[Any, Any]:
    """Arguments that are right, on a stream that is never started."""
    return {
        "df": spark.readStream.format("rate")
        .load()
        .selectExpr(
            "string(value) key",
            "double(value) score",
            "value % 2 = 1 label",
            "double(value) f",
            "timestamp",
            "array(value) list",
        ),
        "key": "key",
        "score": "score",
        "label": "label",
        "calibrator": IsotonicCalibrator,
    }


@needs_java
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"df": 3}, TypeError, "`df` must be a pyspark.sql.DataFrame, got int"),
        ({"key": 3}, TypeError, "`key` must be the name of a column, got 3"),
        ({"key": "user"}, ValueError, r"`key` must be one of the columns \['key', .*, got 'user'"),
        ({"key": "f"}, TypeError, "`key` must be a column of strings, .* got 'f' of type double"),
        ({"score": "p"}, ValueError, "`score` must be one of the columns .*, got 'p'"),
        ({"score": "key"}, TypeError, "`score` must be a column of numbers, got 'key' of type str"),
        (
            {"label": "list"},
            TypeError,
            "`label` must be a column of numbers or booleans, got 'list'",
        ),
        ({"weight": "label"}, TypeError, "`weight` must be a column of numbers, got 'label'"),
        ({"order": "list"}, TypeError, "`order` must be .*, got 'list' of type array<bigint>"),
        ({"new_column": "score"}, ValueError, "`new_column` must be a new column, got 'score'"),
        ({"n_buckets": 0}, ValueError, "`n_buckets` must be .* got 0"),
        ({"n_buckets": 1 << 21}, ValueError, "`n_buckets` must be .* got 2097152"),
        ({"n_buckets": 2.5}, ValueError, "`n_buckets` must be .* got 2.5"),
        ({"time": "list"}, TypeError, "`time` must be a column of times, dates or .* got 'list'"),
        ({"time": "timestamp"}, ValueError, "`time` must be None, as calibrators forget by count"),
        (
            {"calibrator": PlattCalibrator(half_life=timedelta(days=1))},
            ValueError,
            "`time` must be the column of times, as calibrators forget by time, got None",
        ),
        ({"new_column": ""}, TypeError, "`new_column` must be the name of a column, got ''"),
        ({"calibrator": 3}, TypeError, "`calibrator` must be a Calibrator or a function .*, got 3"),
        (
            {"calibrator": dict},
            TypeError,
            "`calibrator` must be a Calibrator or make one, got dict",
        ),
        (
            {"calibrator": SegmentCalibrator(["key", "user"])},
            ValueError,
            r"`calibrator.fields` must be one of the columns \['key', .*, got 'user'",
        ),
        (
            {"calibrator": SegmentCalibrator(["list"])},
            TypeError,
            "`calibrator.fields` must be columns of strings, .* got 'list' of type array<bigint>",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, changes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        streamcal.spark.calibrate(**arguments | changes)


@needs_java
def test_calibrators_must_become_bytes(arguments: Any) -> None:
    own = losses.from_function(lambda z, y: (z - y) ** 2, name="own")
    with pytest.raises(TypeError, match=r"must make calibrators with `to_bytes`: .* got 'own'"):
        streamcal.spark.calibrate(**arguments | {"calibrator": AnytimeCalibrator(own, window=10)})


@needs_java
def test_bad_frames_are_refused(spark: Any, arguments: Any) -> None:
    frame = spark.createDataFrame([("a", 0.5, True)], "key string, score double, label boolean")
    with pytest.raises(ValueError, match=r"must be a stream .*, got a batch frame"):
        streamcal.spark.calibrate(**arguments | {"df": frame})
    twice = arguments["df"].selectExpr("*", "score as f")
    with pytest.raises(ValueError, match=r"unique column names, got \['f'\]"):
        streamcal.spark.calibrate(**arguments | {"df": twice})
    name = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = spark.conf.get(name)
    spark.conf.set(name, rocksdb.replace("RocksDB", "HDFSBacked"))
    try:
        with pytest.raises(ValueError, match=r"spark\.conf\.set\(.*RocksDB.*, got .*HDFSBacked"):
            streamcal.spark.calibrate(**arguments)
    finally:
        spark.conf.set(name, rocksdb)


def same(found: Any, wanted: Any, *, exactly: bool) -> None:
    compare = np.testing.assert_array_equal if exactly else np.testing.assert_allclose
    for name in ("lower", "upper", "values", "weights"):
        compare(getattr(found, name), getattr(wanted, name))
    np.testing.assert_allclose(found.centers, wanted.centers, rtol=1e-12)


@needs_java
@pytest.mark.parametrize("n_ranges", [None, 1, 7])
def test_a_fit_in_ranges_is_that_of_one_machine(spark: Any, n_ranges: int | None) -> None:
    rows = make_rows(5_000, seed=3)
    zeros = pa.array(np.where(np.arange(5_000) % 2, -0.0, 0.0))
    often = pa.array(np.arange(5_000) % 3 < 1)
    rows = rows.set_column(2, "score", pc.if_else(often, zeros, rows["score"]))
    frame = spark.createDataFrame(rows).repartition(3)
    used = rows.to_pandas().dropna(subset=["score", "label", "weight"])
    found = streamcal.spark.isotonic_fit(
        frame,
        score="score",
        label="label",
        weight="weight",
        loss="log",
        interpolation="step",
        n_ranges=n_ranges,
    )
    wanted = streamcal.isotonic_fit(
        used["score"], used["label"], used["weight"], loss="log", interpolation="step"
    )
    assert len(wanted) > 5
    same(found, wanted, exactly=True)
    assert found.interpolation == "step"


@needs_java
def test_a_fit_of_one_block_in_many_ranges(spark: Any) -> None:
    """Where labels fall with the score, what each range finds is wrong for the whole."""
    frame = spark.range(100).selectExpr("id as `a.b`", "sqrt(99 - id) as y", "id % 3 > 0 as z")
    found = streamcal.spark.isotonic_fit(frame, score="a.b", label="y", n_ranges=5)
    x = np.arange(100)
    same(found, streamcal.isotonic_fit(x, np.sqrt(99.0 - x)), exactly=False)
    assert len(found) == 1
    found = streamcal.spark.isotonic_fit(frame, score="a.b", label="z", n_ranges=20)
    same(found, streamcal.isotonic_fit(x, x % 3 > 0), exactly=True)


@needs_java
def test_bad_arguments_of_a_fit(spark: Any, arguments: Any) -> None:
    frame = spark.createDataFrame([(0.5, 2.0, "a")], "score double, label double, key string")
    infinite = frame.selectExpr("double('inf') as score", "label")
    names = {"score": "score", "label": "label"}
    for df, changes, error, message in [
        (3, {}, TypeError, "`df` must be a pyspark.sql.DataFrame, got int"),
        (arguments["df"], {}, ValueError, "`df` must be a batch frame, got a stream"),
        (frame, {"score": "p"}, ValueError, "`score` must be one of the columns"),
        (frame, {"label": "key"}, TypeError, "`label` must be a column of numbers or booleans"),
        (frame, {"n_ranges": 0}, ValueError, "`n_ranges` must be a positive int or None, got 0"),
        (frame, {"loss": "absolute"}, TypeError, "mean"),
        (frame, {"outside": "zero"}, ValueError, "`outside` must be one of"),
        (frame, {"loss": "log"}, PythonException, r"`y` must lie in \[0, 1\] .* got 2"),
        (infinite, {}, PythonException, "`scores` must be finite, got inf"),
        (frame.limit(0), {}, ValueError, "`df` must hold at least one row"),
    ]:
        with pytest.raises(error, match=message):
            streamcal.spark.isotonic_fit(df, **names | changes)


@needs_java
def test_the_document_does_what_it_says(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    rows = pa.table(
        {
            "time": pa.array(np.arange(300).astype("datetime64[s]"), pa.timestamp("us", "UTC")),
            "campaign": ["a", "b", "c"] * 100,
            "device": ["phone", "tv"] * 150,
            "p": random.random(300),
            "clicked": random.random(300) < 0.5,
        }
    )
    write(tmp_path / "events", [rows])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the document makes more events than are read here
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    names: dict[Any, Any] = {}
    for code in re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        # Java has a working directory of its own.
        exec(re.sub(r'"(events|checkpoint|calibrated)"\)', rf'"{tmp_path}/\1")', code), names)
    assert "a 100 0." in capfd.readouterr().out
    out = pq.read_table(tmp_path / "calibrated")
    assert out.column_names == ["time", "campaign", "device", "p", "clicked", "calibrated"]
    assert len(out) == 300
    wanted = streamcal.isotonic_fit(rows["p"].to_numpy(), rows["clicked"].to_numpy(), loss="log")
    same(names["stairs"], wanted, exactly=True)


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "pyarrow", "google.protobuf"])
def test_a_missing_package_is_named(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import streamcal.spark"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: streamcal.spark needs PySpark 4.1" in done.stderr
    assert "pip install '.[spark]'" in done.stderr
    assert missing in done.stderr.splitlines()[-1]
