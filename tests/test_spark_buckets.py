"""Streams of Spark without Spark: what it calls, with a state in memory, against one process."""

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from streamcal import (
    Calibrator,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal.durable import KeyedCalibrator
from streamcal.durable.keys import name_of
from streamcal.spark import bundles, pages
from streamcal.spark.samples import Columns
from streamcal.spark.stream import _Learner

COLUMNS = Columns("key", "score", "label", "weight", None)


class Spark:
    """Runs micro-batches as Spark does: the state is kept only if no task fails.

    Attributes
    ----------
    state : dict
        The values of each bucket by the name of the state, and by the key of a map.
    read, written : list
        What has been read and written in the last micro-batch.
    """

    def __init__(self) -> None:
        self.state: dict[int, dict[Any, Any]] = {}
        self.read: list[Any] = []
        self.written: list[Any] = []
        self._bucket = 0

    def getValueState(self, name: str, schema: Any) -> "Spark.Values":
        return Spark.Values(self, name)

    def getMapState(self, name: str, key_schema: Any, value_schema: Any) -> "Spark.Values":
        return Spark.Values(self, name)

    class Values:
        """A state of the present bucket: one value, or a map."""

        def __init__(self, spark: "Spark", name: str) -> None:
            self.spark = spark
            self.name = name

        def getValue(self, key: Any) -> Any:
            found = self.spark.state.setdefault(self.spark._bucket, {}).get((self.name, key))
            self.spark.read.append((self.name, key, found))
            return found

        def updateValue(self, key: Any, value: Any) -> None:
            self.spark.state.setdefault(self.spark._bucket, {})[self.name, key] = value
            self.spark.written.append((self.name, key, value))

        def get(self) -> Any:
            return self.getValue(None)

        def update(self, value: Any) -> None:
            self.updateValue(None, value)

    def micro_batch(
        self,
        partitions: Sequence[pa.Table],
        make: Callable[[], Calibrator],
        columns: Columns = COLUMNS,
        n_buckets: int = 3,
    ) -> pa.Table:
        """Return the rows with calibrated values, as `streamcal.spark.calibrate` does."""
        before = copy.deepcopy(self.state)
        self.read, self.written = [], []
        try:
            return self._micro_batch(partitions, make, columns, n_buckets)
        except BaseException:
            self.state = before
            raise

    def _micro_batch(
        self, partitions: Sequence[pa.Table], make: Any, columns: Columns, n_buckets: int
    ) -> pa.Table:
        by_bucket: dict[int, list[Row]] = {}
        for number, table in enumerate(partitions):
            bundler = bundles.Bundler(table.column_names, columns.key, n_buckets)
            for batch in bundled(bundler, table.to_batches(), number):
                for row in batch.to_pylist():
                    by_bucket.setdefault(row["bucket"], []).append(Row(**row))
        learner = _Learner(make, columns, "calibrated", n_buckets)
        learner.init(cast("StatefulProcessorHandle", self))
        found = []
        for self._bucket, rows in by_bucket.items():
            found += list(learner.handleInputRows((self._bucket,), iter(rows[::-1]), None))
        return pa.concat_tables([bundles.unpack(row.rows) for row in found])

    def pages(self) -> Iterator[tuple[int, int, str]]:
        """Yield bucket and start of each page, and its text."""
        for bucket, state in self.state.items():
            for (name, key), value in state.items():
                if name == "calibrators":
                    yield bucket, key[0], value[0]

    def calibrators(self) -> dict[bytes | None, bytes]:
        """Return the calibrators by key; they are where they should be, and each once."""
        found: dict[bytes | None, bytes] = {}
        starts: dict[int, list[int]] = {}
        for bucket, state in self.state.items():
            if ("starts", None) in state:
                starts[bucket] = np.frombuffer(state["starts", None][0], np.int64).tolist()
        for bucket, start, text in self.pages():
            end = min((other for other in starts[bucket] if other > start), default=1 << 63)
            page = dict(entry.split(":") for entry in text.split(" "))
            hashes = {pages._hash_of(pages._bytes_of(name)) for name in page}
            assert len(text) <= pages.PAGE or len(hashes) == 1
            for name in page:
                key = pages._bytes_of(name)
                assert start <= pages._hash_of(key) < end
                assert key not in found
                found[key] = cast("bytes", pages.find(page, key))
        listed = {(bucket, start) for bucket in starts for start in starts[bucket]}
        assert listed == {(bucket, start) for bucket, start, _ in self.pages()}
        return found


def bundled(
    bundler: bundles.Bundler, batches: list[pa.RecordBatch], partition: int
) -> list[pa.RecordBatch]:
    """Return the bundles that a task of Spark makes of a partition."""

    class Context:
        @staticmethod
        def partitionId() -> int:
            return partition

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskContext, "get", Context)
        return list(bundler(iter(batches)))


def table_of(rows: Sequence[Any], first: int = 0) -> pa.Table:
    """Return rows of (key, score, label, weight) as a table, numbered."""
    names = "key", "score", "label", "weight"
    types = pa.string(), pa.float64(), pa.float64(), pa.float64()
    columns: Sequence[Any] = list(zip(*rows, strict=True)) or [[]] * 4
    table = {
        name: pa.array(column, kind)
        for name, column, kind in zip(names, columns, types, strict=True)
    }
    return pa.table(table | {"id": pa.array(range(first, first + len(rows)), pa.int64())})


def by_id(table: pa.Table) -> list[float | None]:
    """Return calibrated values in the order of the rows."""
    sorted_ = table.sort_by("id")
    assert len(set(sorted_["id"].to_pylist())) == len(sorted_)
    values: list[float | None] = sorted_["calibrated"].to_pylist()
    return values


KEYS = [None, "", "-", " ", ":", "null", "a", "ä", "b c", *(f"k{n}" for n in range(40))]
FACTORIES = [
    PlattCalibrator,
    lambda: IsotonicCalibrator(window=7),
    lambda: IsotonicCalibrator("squared", half_life=20),
    HedgedCalibrator,
]


@given(st.data())
def test_buckets_are_what_one_process_learns(data: Any) -> None:
    """Streams with skewed keys, micro-batches that fail, and a new process for each of the others.

    All values and all states are those of a `KeyedCalibrator`, to the last bit.
    """
    make = data.draw(st.sampled_from(FACTORIES))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_buckets = data.draw(st.sampled_from([1, 2, 7, 64]))
    ordered = data.draw(st.booleans())
    spark, keyed = Spark(), KeyedCalibrator(make)
    columns = COLUMNS._replace(order="id" if ordered else None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "PAGE", data.draw(st.sampled_from([1, 1_000, 3_000, 1 << 15])))
        patch.setattr(bundles, "BYTES", data.draw(st.sampled_from([500, 1 << 22])))
        for _ in range(data.draw(st.integers(1, 5))):
            n = data.draw(st.integers(0, 150))
            skew = random.zipf(data.draw(st.sampled_from([1.1, 1.5, 4.0])), n) - 1
            keys = [KEYS[at % len(KEYS)] for at in skew.tolist()]
            score = random.random(n).round(2)
            label = (random.random(n) < score).astype(float)
            label[random.random(n) < 0.1] = np.nan
            weight = random.integers(1, 4, n).astype(float)
            rows = list(zip(keys, score.tolist(), label.tolist(), weight.tolist(), strict=True))
            cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=2)))
            bounds = list(itertools.pairwise([0, *cuts, n]))
            if ordered:
                table = table_of(rows).take(random.permutation(n))
                parts = [table.slice(start, stop - start) for start, stop in bounds]
            else:
                parts = [table_of(rows[start:stop], start) for start, stop in bounds]
            if n and data.draw(st.booleans()):
                bad = table_of([("k1", 0.5, 7.0, 1.0)], n)
                if make is not FACTORIES[2]:
                    with pytest.raises(ValueError, match=r"key 'k1': `y` must .*7\.0"):
                        spark.micro_batch([*parts, bad], make, columns, n_buckets)
            if not n:
                continue
            out = spark.micro_batch(parts, make, columns, n_buckets)
            wanted = keyed.predict_learn_many(keys, score, label, weight)
            assert by_id(out) == wanted.tolist()
            for key in set(keys):  # its rows have the order in which it learned them
                ids = [row["id"] for row in out.to_pylist() if row["key"] == key]
                assert ids == sorted(ids)
            names = {name_of(key): None if key is None else key.encode() for key in KEYS}
            states = {names[name]: state for name, state in keyed.states().items()}
            assert spark.calibrators() == states


def rows_of(keys: Sequence[str | None], label: float = 1.0, first: int = 0) -> pa.Table:
    return table_of([(key, 0.25, label, 1.0) for key in keys], first)


MANY = [f"key {n}" for n in range(2_000)]


def test_few_rows_touch_few_pages() -> None:
    """A micro-batch reads and writes the pages of its keys, whatever else its buckets have."""
    spark = Spark()
    spark.micro_batch([rows_of(MANY)], PlattCalibrator)
    assert len(list(spark.pages())) > 20
    few = ["key 7", "key 8", "key 1999"]
    spark.micro_batch([rows_of(few)], PlattCalibrator)
    for touched in (spark.read, spark.written):
        texts = [value[0] for name, _, value in touched if name == "calibrators"]
        assert 1 <= len(texts) <= len(few)
        assert max(map(len, texts)) <= pages.PAGE
    assert len(spark.read) <= 3 + len(few) + 1  # starts, pages, columns
    assert len(spark.written) <= len(few)
    spark.micro_batch([rows_of(few, np.nan)], PlattCalibrator)
    assert spark.written == []  # nothing was learned


def test_many_keys_take_few_calls() -> None:
    spark = Spark()
    for _ in range(2):
        spark.micro_batch([rows_of(MANY)], PlattCalibrator)
    n_pages = len(list(spark.pages()))
    assert n_pages < len(MANY) / 20
    assert len(spark.read) == n_pages + 3 + 1
    assert len(spark.written) == n_pages


def test_keys_with_equal_hashes_share_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_hash_of", lambda key: 5 if key in (b"b", b"c") else 7)
    monkeypatch.setattr(pages, "PAGE", 1)
    spark = Spark()
    for _ in range(2):
        spark.micro_batch([rows_of(["a", "b", "c", "d"])], PlattCalibrator, n_buckets=1)
    assert [(start, text.count(":")) for _, start, text in spark.pages()] == [(0, 2), (7, 2)]
    assert len(set(spark.calibrators().values())) == 1


def test_a_stored_calibrator_keeps_its_parameters() -> None:
    """Its own checks hold for its samples, those of another ``calibrator`` for new keys."""
    spark = Spark()

    def squared() -> Calibrator:
        return IsotonicCalibrator("squared", prior=0.0)

    spark.micro_batch([rows_of(["old"])], squared)
    out = spark.micro_batch([rows_of(["old", "old", "new"], 0.5)], PlattCalibrator)
    assert by_id(out) == [1.0, 0.75, 0.25]
    with pytest.raises(ValueError, match=r"key 'new': `y` must .* got 7"):
        spark.micro_batch([rows_of(["old", "new"], 7.0)], PlattCalibrator)
    out = spark.micro_batch([rows_of(["old"], 7.0)], PlattCalibrator)
    assert by_id(out) == [2 / 3]


def test_columns_and_buckets_of_a_checkpoint() -> None:
    spark = Spark()
    rows = rows_of(["a", "b"])
    spark.micro_batch([rows], PlattCalibrator)
    before = copy.deepcopy(spark.state)
    for name, other in itertools.product(("key", "score", "label"), ("id", None)):
        if name != "key" and other is None:
            continue
        changed = COLUMNS._replace(**{name: other})
        listed = ", ".join(map(repr, changed[:3]))
        with pytest.raises(ValueError, match=re.escape(f"got {listed}; use another checkpoint")):
            spark.micro_batch([rows], PlattCalibrator, changed)
        assert spark.state == before
    message = "`n_buckets` must be that of the checkpoint, 3, got 4; pass 3, or learn the stream"
    with pytest.raises(ValueError, match=message):
        spark.micro_batch([rows], PlattCalibrator, n_buckets=4)
    assert spark.state == before
    changed = COLUMNS._replace(weight=None, order="id")
    spark.micro_batch([rows], PlattCalibrator, changed)  # these may change


def test_without_a_key_the_number_of_buckets_is_free() -> None:
    spark, columns = Spark(), COLUMNS._replace(key=None)
    spark.micro_batch([rows_of(["a", "b"])], PlattCalibrator, columns)
    spark.micro_batch([rows_of(["a", "b"])], PlattCalibrator, columns, n_buckets=9)
    wanted = PlattCalibrator()
    wanted.learn_many([0.25] * 4, [1.0] * 4)
    assert spark.calibrators() == {None: wanted.to_bytes()}


def replaced(spark: Spark, name: str, change: Callable[[Any], Any]) -> None:
    """Damage the first value of a name; None removes it."""
    for state in spark.state.values():
        for at in [at for at in state if at[0] == name][:1]:
            value = change(state[at][0])
            state[at] = (value,)
            if value is None:
                del state[at]
            return


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("calibrators", lambda text: text.replace(":", ""), "bucket 0 of keys: .* can't be read"),
        ("calibrators", lambda text: text.replace(":", "::"), "bucket 0 of keys: .* can't be read"),
        ("calibrators", lambda text: "", "bucket 0 of keys: .* can't be read"),
        ("calibrators", lambda text: None, "bucket 0 of keys: .* page 0 is missing"),
        ("calibrators", lambda text: text[:-9] + "AAAAAAA==", "key 'shop': .* checksum"),
        ("calibrators", lambda text: text[:-4] + "****", "key 'shop': the state is damaged"),
        ("starts", lambda data: data[:-1], "bucket 0 of keys: .* starts of pages"),
        ("starts", lambda data: b"", "bucket 0 of keys: .* starts of pages"),
        (
            "starts",
            lambda data: data[::-1] + b"\1" * 8,
            "bucket 0 of keys: .* page \\d+ is missing",
        ),
        ("starts", lambda data: b"\1" * 8, "bucket 0 of keys: .* starts of pages"),
    ],
)
def test_damage_is_named(name: str, change: Callable[[Any], Any], message: str) -> None:
    spark = Spark()
    spark.micro_batch([rows_of(["shop"])], PlattCalibrator, n_buckets=1)
    replaced(spark, name, change)
    before = copy.deepcopy(spark.state)
    with pytest.raises(ValueError, match=message):
        spark.micro_batch([rows_of(["shop", *MANY[:9]])], PlattCalibrator, n_buckets=1)
    assert spark.state == before


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Spark()
    spark.micro_batch([rows_of(MANY[:50])], PlattCalibrator, n_buckets=1)
    before = copy.deepcopy(spark.state)
    for module, limit, value, message in [
        (
            bundles,
            "MOST_BYTES",
            999,
            "bucket 0 of keys: its rows .* at most 999 bytes; .*n_buckets",
        ),
        (pages, "MOST_CHARACTERS", 40, "key 'key \\d+': .* at most 30 bytes, got .*`window`"),
        (pages, "MOST_PAGES", 3, "bucket 0 of keys: .* at most 3 pages .* greater `n_buckets`"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, value)
            with pytest.raises(ValueError, match=message):
                spark.micro_batch([rows_of(MANY)], PlattCalibrator, n_buckets=1)
        assert spark.state == before
    spark.micro_batch([rows_of(MANY)], PlattCalibrator, n_buckets=1)


@pytest.mark.parametrize("n_buckets", [1, 4])
def test_fields_of_many_keys(n_buckets: int) -> None:
    random = np.random.default_rng(0)
    n = 400
    keys, shops = (random.choice(list("abcdefgh"), n).tolist() for _ in range(2))
    score = random.random(n)
    label = (random.random(n) < score).astype(float)
    label[::7] = np.nan
    rows = table_of(list(zip(keys, score.tolist(), label.tolist(), [1.0] * n, strict=True)))
    rows = rows.append_column("shop", pa.array(shops))
    keyed = KeyedCalibrator(SegmentCalibrator(["shop"], base=PlattCalibrator()))
    spark, columns = Spark(), COLUMNS._replace(order="id")
    make = SegmentCalibrator(["shop"], base=PlattCalibrator()).clone
    found: list[float | None] = []
    for part in (rows.slice(0, 250), rows.slice(250)):
        mixed = part.take(random.permutation(len(part)))
        found += by_id(spark.micro_batch([mixed], make, columns, n_buckets))
    wanted = [
        keyed.predict_learn_many(keys[at], score[at], label[at], x={"shop": shops[at]})
        for at in (slice(250), slice(250, None))
    ]
    assert found == np.concatenate(wanted).tolist()
    states = keyed.states()
    assert spark.calibrators() == {key.encode(): states[name_of(key)] for key in sorted(set(keys))}
    with pytest.raises(ValueError, match=r"key '[a-h]': .* field 'shop' must be a column"):
        spark.micro_batch([rows.drop_columns("shop")], PlattCalibrator, columns, n_buckets)
    bad = rows.drop_columns("shop").append_column("shop", pa.array([b"\xff"] * n).view(pa.string()))
    with pytest.raises(ValueError, match=r"key '[a-h]': the field 'shop' must be UTF-8"):
        spark.micro_batch([bad], make, columns, n_buckets)


# Rows that are wide, or many of one key -----------------------------------------------------------


def batches_of(batches: list[pa.RecordBatch], key: str | None) -> list[pa.RecordBatch]:
    return bundled(bundles.Bundler(batches[0].schema.names, key, 100), batches, 7)


@pytest.mark.parametrize("key", ["key", None])
@pytest.mark.parametrize("width", [20, 1_000, 200_000])
def test_bundles_and_batches_are_limited_in_bytes(key: str | None, width: int) -> None:
    """Spark copies each bundle, and each batch, as a whole."""
    n = 40_000_000 // (width + 100)
    table = pa.table(
        {
            "id": np.arange(n),
            "key": [f"k{i % 3}" for i in range(n)],
            "text": [chr(65 + i % 50) * width for i in range(n)],
        }
    )
    found = batches_of(table.to_batches(max_chunksize=10_000), key)
    limit = bundles.BYTES
    mark, *rest = (bundle for batch in found for bundle in batch.to_pylist())
    assert (mark["bucket"], mark["rows"]) == (bundles.MARK, None)
    assert max(len(bundle["rows"]) for bundle in rest) < 1.1 * limit
    assert max(batch.nbytes for batch in found) < 2.1 * limit
    assert len(rest) < 10 + 5 * 40_000_000 / limit  # not far more than it takes
    assert {bundle["partition"] for bundle in rest} == {7}
    numbers = [bundle["number"] for bundle in rest]
    assert numbers == sorted(set(numbers))
    back = list(bundles.unbundle(iter([batch.slice(1) for batch in found[:1]] + found[1:])))
    assert max(batch.nbytes for batch in back) < 2.1 * limit
    rows = pa.Table.from_batches(back)
    if key is None:
        assert rows.equals(table)
    else:  # the rows of a key are in order
        for name in ("k0", "k1", "k2"):
            wanted = table.filter(pc.equal(table["key"], name))
            assert rows.filter(pc.equal(rows["key"], name)).equals(wanted)


def test_a_row_may_be_larger_than_a_bundle() -> None:
    table = pa.table({"key": ["a", "b", "a"], "text": ["x" * 9_000_000, "y", "z" * 5_000_000]})
    found = batches_of(table.to_batches(), "key")
    sizes = [len(bundle["rows"]) for batch in found[1:] for bundle in batch.to_pylist()]
    assert sorted(size // 1_000_000 for size in sizes) == [0, 5, 9]


@pytest.mark.parametrize("limit", [1, 300, 5_000, 1 << 22])
def test_rows_of_many_tables_in_any_order(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(bundles, "BYTES", limit)
    random = np.random.default_rng(limit)
    sizes = [5, 1, 0, 40, 17]
    tables = [
        pa.table(
            {"a": random.random(size), "b": pa.array(["b" * k for k in range(size)], pa.string())}
        )
        for size in sizes
    ]
    places = random.permutation(sum(sizes))
    found = list(bundles.in_order(tables, places))
    assert pa.concat_tables(found).equals(pa.concat_tables(tables).take(places))
    n_bytes = sum(table.nbytes for table in tables)
    assert len(found) >= min(len(places), n_bytes // limit)


# Times --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["us", "ns", "naive", "double", "date"])
def test_calibrators_forget_by_the_column_of_times(kind: str) -> None:
    random = np.random.default_rng(4)
    n = 120
    days = np.cumsum(random.integers(0, 3, n))
    moments = np.datetime64("2026-03-01", "D") + days
    kinds: dict[str, Callable[[], pa.Array]] = {
        "us": lambda: pa.array(moments.astype("M8[us]")).cast(pa.timestamp("us", "UTC")),
        "ns": lambda: pa.array(moments.astype("M8[ns]")).cast(pa.timestamp("ns", "UTC")),
        "naive": lambda: pa.array(moments.astype("M8[us]")),
        "double": lambda: pa.array(days * 86_400.0),
        "date": lambda: pa.array(moments),
    }
    missing = np.arange(n) % 10 == 0
    when = kinds[kind]()
    table = pa.table(
        {
            "key": [f"k{i % 3}" for i in range(n)],
            "score": random.random(n),
            "label": pa.array(np.where(missing, np.nan, random.integers(0, 2, n))),
            "weight": np.ones(n),
            "when": pc.if_else(pa.array(missing), pa.scalar(None, when.type), when),
        }
    )
    makers: list[Callable[[], Calibrator]] = [
        lambda: PlattCalibrator(half_life=timedelta(days=9)),
        lambda: IsotonicCalibrator(window=timedelta(days=30)),
        lambda: HedgedCalibrator([PlattCalibrator(half_life=timedelta(days=9))]),
    ]
    for make in makers:
        spark, keyed = Spark(), KeyedCalibrator(make())
        columns = COLUMNS._replace(time="when")
        seconds = np.where(missing, 0.0, days * 86_400.0)
        for start in range(0, n, 40):
            part = table.slice(start, 40)
            got = spark.micro_batch([part], make, columns)
            rows = [part[name].to_pylist() for name in ("key", "score", "label")]
            expected = keyed.predict_learn_many(*rows, t=seconds[start : start + 40])
            pairs = zip(got["score"].to_pylist(), got["calibrated"].to_pylist(), strict=True)
            by_score = dict(pairs)
            assert [by_score[score] for score in rows[1]] == expected.tolist()


def test_a_time_that_is_missing_ends_the_query() -> None:
    table = pa.table(
        {
            "key": ["a", "a"],
            "score": [0.2, 0.3],
            "label": [1.0, 0.0],
            "weight": [1.0, 1.0],
            "when": [0.0, None],
        }
    )

    def make() -> PlattCalibrator:
        return PlattCalibrator(half_life=timedelta(days=9))

    with pytest.raises(ValueError, match=r"`time` must be known in each row .* but 'when' has a"):
        Spark().micro_batch([table], make, COLUMNS._replace(time="when"))
    with pytest.raises(ValueError, match="forgets by time: `time` must be the column of times"):
        Spark().micro_batch([table], make)


def test_a_time_beyond_what_states_hold_ends_the_query() -> None:
    table = pa.table(
        {"key": ["a"], "score": [0.2], "label": [1.0], "weight": [1.0], "when": [1e305]}
    )

    def make() -> PlattCalibrator:
        return PlattCalibrator(half_life=timedelta(days=9))

    columns = COLUMNS._replace(time="when")
    with pytest.raises(ValueError, match=r"from -1e300 to 1e300, got .*1e\+305.* in 'when'"):
        Spark().micro_batch([table], make, columns)
    unlabelled = table.set_column(2, "label", pa.array([None], pa.float64()))
    Spark().micro_batch([unlabelled], make, columns)
