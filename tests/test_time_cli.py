"""Times on the command line: `--time`, and durations for `--half-life` and `--window`."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamcal import (
    BetaCalibrator,
    Calibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal._advice import in_words
from streamcal.cli.calibrator_settings import parse_span
from streamcal.durable import Store
from tests.runner import run

START = datetime(2026, 3, 1, tzinfo=UTC)
CALIBRATORS: dict[str, Any] = {
    "isotonic": IsotonicCalibrator,
    "platt": PlattCalibrator,
    "beta": BetaCalibrator,
    "histogram": HistogramCalibrator,
}


class Table:
    """Rows with irregular times, two keys and some unknown labels."""

    def __init__(self, n: int, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.p = rng.random(n).round(2).tolist()
        labels = (rng.random(n) < np.square(self.p)).astype(int).tolist()
        self.y = [None if i % 11 == 5 else y for i, y in enumerate(labels)]
        gaps = rng.choice([0.0, 60.0, 1800.0, 86_400.0, -30.0], n, p=[0.2, 0.3, 0.3, 0.15, 0.05])
        self.seconds = np.cumsum(gaps).tolist()
        self.key = [("a", "b")[i % 3 == 0] for i in range(n)]

    def when(self, i: int) -> datetime:
        return START + timedelta(seconds=self.seconds[i])

    def write(self, path: Path, n: int | None = None, *, numbers: bool = False) -> Path:
        lines = ["p,y,k,when"]
        for i in range(len(self.p) if n is None else n):
            moment = self.when(i)
            when = moment.timestamp() if numbers else moment.isoformat()
            y = "" if self.y[i] is None else self.y[i]
            lines.append(f"{self.p[i]},{y},{self.key[i]},{when}")
        path.write_text("\n".join([*lines, ""]))
        return path

    def expected(self, make: Any, *, delay: int = 0, keys: bool = False) -> list[float]:
        """Return what calibrators answer; a label is learned before the row ``delay`` later."""
        known: dict[Any, Calibrator] = {}
        answers: list[float] = []
        waiting: list[tuple[int, int]] = []
        for i, p in enumerate(self.p):
            own = known.setdefault(self.key[i] if keys else None, make())
            while waiting and waiting[0][0] <= i:
                _, at = waiting.pop(0)
                of_label = known[self.key[at] if keys else None]
                label: Any = self.y[at]
                of_label.learn_one(self.p[at], label, t=self.when(i))
            answers.append(own.predict_one(p))
            label = self.y[i]
            if label is None:
                continue
            if delay:
                waiting.append((i + delay, i))
            else:
                own.learn_one(p, label, t=self.when(i))
        return answers


def calibrate(path: Any, *arguments: Any, **options: Any) -> Any:
    return run("calibrate", path, "--score", "p", "--label", "y", *arguments, **options)


def column(text: Any) -> list[float]:
    text = text.read_text() if isinstance(text, Path) else text
    return [float(row["calibrated"]) for row in csv.DictReader(io.StringIO(text))]


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("500", 500.0),
        ("7.5", 7.5),
        ("1e3", 1000.0),
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30min", timedelta(minutes=30)),
        ("45s", timedelta(seconds=45)),
        ("1.5h", timedelta(minutes=90)),
        ("0.25s", timedelta(milliseconds=250)),
        (None, None),
    ],
)
def test_spans(text: Any, span: Any) -> None:
    found = parse_span(text, "--half-life")
    assert found == span
    assert type(found) is type(span)
    if isinstance(span, timedelta):
        assert parse_span(in_words(span), "--half-life") == span


def test_spans_in_words() -> None:
    spans = ["7d", "168h", "90min", "36h", "0.5s", "1.5d"]
    words = [in_words(parse_span(text, "--window")) for text in spans]
    assert words == ["7d", "7d", "90min", "36h", "0.5s", "36h"]


@pytest.mark.parametrize("text", ["7 days", "7w", "d", "-3d", "7d12h", "1e3d", "", "9" * 400 + "d"])
@pytest.mark.parametrize("option", ["--half-life", "--window"])
def test_a_wrong_span_is_refused(tmp_path: Path, text: str, option: str) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    method = ("--calibrator", "isotonic", "--time", "when")
    result = calibrate(path, *method, f"{option}={text}", status=2)
    assert f"{option} must be a" in result.stderr
    assert "number of samples, or a duration such as 7d, 12h, 30min or 45s, got" in result.stderr


@pytest.mark.parametrize("text", ["0d", "0.0h", "0.0000001s"])
@pytest.mark.parametrize("option", ["--half-life", "--window"])
def test_a_span_that_is_too_short_is_refused(tmp_path: Path, text: str, option: str) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    method = ("--calibrator", "isotonic", "--time", "when")
    result = calibrate(path, *method, f"{option}={text}", status=2)
    assert f"30min or 45s of at least a microsecond, got '{text}'" in result.stderr


def test_a_window_counts_whole_samples(tmp_path: Path) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    result = calibrate(path, "--calibrator", "isotonic", "--window", "7.5", status=2)
    assert "--window must be a whole number of samples, or a duration" in result.stderr


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_half_life_of_time(tmp_path: Path, name: str, numbers: bool) -> None:
    table = Table(200)
    path = table.write(tmp_path / "t.csv", numbers=numbers)
    options = ("--calibrator", name, "--half-life", "12h", "--time", "when")
    expected = table.expected(lambda: CALIBRATORS[name](half_life=timedelta(hours=12)))
    for batch_size in (1, 7, 1000):
        result = calibrate(path, *options, "--batch-size", batch_size)
        assert column(result.stdout) == pytest.approx(expected, rel=1e-12)


def test_a_window_of_time(tmp_path: Path) -> None:
    table = Table(200)
    path = table.write(tmp_path / "t.csv")
    options = ("--calibrator", "isotonic", "--window", "2d", "--time", "when")
    expected = table.expected(lambda: IsotonicCalibrator(window=timedelta(days=2)))
    assert column(calibrate(path, *options).stdout) == pytest.approx(expected, rel=1e-12)


def test_times_of_parquet(tmp_path: Path) -> None:
    table, n = Table(100), 100
    columns = {
        "p": table.p,
        "y": table.y,
        "when": pa.array([table.when(i) for i in range(n)], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    out = tmp_path / "out.parquet"
    calibrate(
        tmp_path / "t.parquet",
        *("--calibrator", "platt", "--half-life", "3h", "--time", "when", "--out", out),
    )
    expected = table.expected(lambda: PlattCalibrator(half_life=timedelta(hours=3)))
    assert pq.read_table(out)["calibrated"].to_pylist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("delay", [0, 7])
def test_keys_and_delays(tmp_path: Path, delay: int) -> None:
    table = Table(150)
    path = table.write(tmp_path / "t.csv")
    options = ("--calibrator", "platt", "--half-life", "12h", "--time", "when", "--key", "k")
    more = ("--delay", delay) if delay else ()

    def make() -> PlattCalibrator:
        return PlattCalibrator(half_life=timedelta(hours=12))

    expected = table.expected(make, delay=delay, keys=True)
    result = calibrate(path, *options, *more)
    assert column(result.stdout) == pytest.approx(expected, rel=1e-12)


def test_segments_over_a_base_that_forgets_by_time(tmp_path: Path) -> None:
    table = Table(150)
    path = table.write(tmp_path / "t.csv")
    options = ("--calibrator", "platt", "--half-life", "12h", "--time", "when", "--segment", "k")
    calibrator = SegmentCalibrator(["k"], base=PlattCalibrator(half_life=timedelta(hours=12)))
    expected = []
    for i, (p, y, k) in enumerate(zip(table.p, table.y, table.key, strict=True)):
        expected.append(calibrator.predict_one(p, {"k": k}))
        if y is not None:
            calibrator.learn_one(p, y, x={"k": k}, t=table.when(i))
    result = calibrate(path, *options)
    assert column(result.stdout) == pytest.approx(expected, rel=1e-12)
    stored = calibrate(path, *options, "--store", tmp_path / "s.db", "--out", tmp_path / "o.csv")
    assert "150 rows calibrated" in stored.stderr
    assert (tmp_path / "o.csv").read_text() == result.stdout


MORE: list[tuple[Any, ...]] = [
    (),
    ("--key", "k"),
    ("--key", "k", "--delay", "9"),
    ("--expire-after", "20", "--key", "k"),
]


@pytest.mark.parametrize("more", MORE, ids=str)
def test_a_table_that_has_grown_gives_the_same_output(tmp_path: Path, more: Any) -> None:
    table, path, out = Table(120), tmp_path / "t.csv", tmp_path / "out.csv"
    options = ("--calibrator", "isotonic", "--half-life", "12h", "--window", "30d")
    options = (*options, "--time", "when", *more)
    stored = (*options, "--store", tmp_path / "run.db", "--out", out)
    for n in (40, 41, 120):
        calibrate(table.write(path, n), *stored, "--batch-size", 8)
    assert out.read_text() == calibrate(path, *options).stdout
    with Store(tmp_path / "run.db") as store:
        assert store.offset == 120
        calibrator = IsotonicCalibrator(half_life=timedelta(hours=12), window=timedelta(days=30))
        assert len(KeyedCalibrator(calibrator, store=store)) in (1, 2)
    # Options are compared as durations.
    same = ["168h" if option == "7d" else option for option in stored]
    assert "there is nothing to do" in calibrate(path, *same).stderr
    other = ["13h" if option == "12h" else option for option in stored]
    refused = calibrate(path, *other, status=1)
    assert "was started with --half-life 12h, and this command is with --half-life 13h" in (
        refused.stderr
    )


def test_a_changed_time_of_a_learned_row_is_noticed(tmp_path: Path) -> None:
    table, path = Table(60), tmp_path / "t.csv"
    options = ("--calibrator", "platt", "--half-life", "12h", "--time", "when")
    stored = (*options, "--store", tmp_path / "run.db", "--out", tmp_path / "out.csv")
    calibrate(table.write(path, 40), *stored)
    table.seconds[7] += 1.0
    refused = calibrate(table.write(path), *stored, status=1)
    assert "has learned 40 rows, but those at the beginning of this table are others" in (
        refused.stderr
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("soon", "`when` must be a time such as 2026-03-01T12:30, or a number of seconds since"),
        ("", "`when` must be a time such as 2026-03-01T12:30, or a number of seconds since"),
        ("2026-03-02", "`when` must be a time with a zone, as those before, got '2026-03-02'"),
    ],
)
def test_a_wrong_time_makes_a_row_bad(tmp_path: Path, cell: str, words: str) -> None:
    path = Table(20).write(tmp_path / "t.csv")
    lines = path.read_text().splitlines()
    lines[8] = lines[8].rpartition(",")[0] + f",{cell}"
    path.write_text("\n".join([*lines, ""]))
    options = ("--calibrator", "platt", "--half-life", "12h", "--time", "when")
    result = calibrate(path, *options, status=1)
    assert f"row 8: {words}" in result.stderr
    skipped = calibrate(path, *options, "--on-error", "skip", "--json")
    assert json.loads(skipped.stderr.splitlines()[-1])["rows"] == 19


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--half-life", "7d"], "--half-life 7d is a duration: it needs --time"),
        (["--window", "90min"], "--window 90min is a duration: it needs --time"),
        (["--time", "when"], "--time needs a --half-life or --window that is a duration"),
        (["--time", "when", "--half-life", "500"], "--time needs a --half-life or --window that"),
        (["--time", "y", "--half-life", "7d"], "--time must be another column than --label"),
        (["--time", "p", "--half-life", "7d"], "--time must be another column than --score"),
        (["--time", "when", "--half-life", "0d"], "or 45s of at least a microsecond, got '0d'"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: Any, words: str) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    result = calibrate(path, "--calibrator", "isotonic", *options, status=2)
    assert words in result.stderr


def test_a_hedge_counts_samples(tmp_path: Path) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    result = calibrate(path, "--time", "when", "--half-life", "7d", status=2)
    assert "--half-life needs --calibrator" in result.stderr


def test_a_column_of_times_that_is_missing(tmp_path: Path) -> None:
    path = Table(3).write(tmp_path / "t.csv")
    options = ("--calibrator", "platt", "--half-life", "12h", "--time", "moment")
    assert "moment" in calibrate(path, *options, status=1).stderr


def test_another_table_has_times_of_the_same_kind(tmp_path: Path) -> None:
    aware = Table(20).write(tmp_path / "aware.csv")
    naive, numbers = tmp_path / "naive.csv", tmp_path / "numbers.csv"
    naive.write_text(aware.read_text().replace("+00:00", ""))
    Table(20).write(numbers, numbers=True)
    by_time = ("--calibrator", "platt", "--half-life", "12h", "--time", "when")
    options = (*by_time, "--store", tmp_path / "run.db", "--out")
    calibrate(aware, *options, tmp_path / "out1.csv")
    calibrate(numbers, *options, tmp_path / "out2.csv")  # they are in UTC
    refused = calibrate(naive, *options, tmp_path / "out3.csv", status=1)
    assert "column `when` has times without a zone, but" in refused.stderr
    assert "has learned times with one" in refused.stderr
    with Store(tmp_path / "run.db") as store:
        assert store.offset == 40
