"""Times in reports: calendar periods, and two periods side by side."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal.cli.report_sources import Given, open_subject
from streamcal.metrics.log_loss import log_losses
from streamcal.report.periods import MOST, by_calendar
from streamcal.report.table_sections import Scored, of_sample
from streamcal.tables.times import as_times
from tests.runner import run

N = 1_200
BEGIN = datetime(2026, 3, 1)
TIMES = [BEGIN + timedelta(minutes=30 * i) for i in range(N)]  # 25 days


def written(path: Path, times: list[Any], order: Any = None) -> Path:
    """Write a table of rows with times, in this order."""
    rng = np.random.default_rng(0)
    p = rng.random(N).round(3)
    y = (rng.random(N) < p**2).astype(int)
    rows = [f"{t},{a},{b},{a * a}" for t, a, b in zip(times, p.tolist(), y.tolist(), strict=True)]
    order = range(N) if order is None else order
    path.write_text("\n".join(["at,p,y,calibrated", *(rows[i] for i in order), ""]))
    return path


def report(path: Path, **more: Any) -> Any:
    return open_subject(path, Given("p", "y", time="at", **more), quiet=True).report()


def section(page: Any, name: str) -> Any:
    return next(each for each in page.sections if each.id == name)


def test_periods_are_those_of_the_calendar(tmp_path: Path) -> None:
    page = report(written(tmp_path / "t.csv", [t.isoformat(" ") for t in TIMES]))
    over = section(page, "over-time")
    assert over.text.startswith("In weeks. ")  # a day has 48 rows
    assert over.tables[0].header[0] == "week"
    starts = ["2026-02-23", "2026-03-02", "2026-03-09", "2026-03-16", "2026-03-23"]
    rows = [48, 336, 336, 336, 144]  # of half an hour; the first week ends with a Sunday, 1 March
    named = [f"{day} ({n:,} rows)" for day, n in zip(starts, rows, strict=True)]
    assert [row[0] for row in over.tables[0].rows] == named
    assert " of 5 weeks" in page.verdict[0] or "in all 5 weeks" in page.verdict[0]
    for chart in over.charts:
        assert chart.x == "time"
        milliseconds = [1000.0 * datetime.fromisoformat(f"{day}T00Z").timestamp() for day in starts]
        assert chart.series[0].columns["x"].tolist() == milliseconds
    assert ("Times", "at") in page.facts
    assert any("begins at about 2026-03-" in sentence for sentence in page.verdict)


def test_rows_are_sorted_by_time(tmp_path: Path) -> None:
    given = [t.isoformat() for t in TIMES]
    expected = report(written(tmp_path / "t.csv", given))
    order = np.random.default_rng(1).permutation(N)
    page = report(written(tmp_path / "t.csv", given, order))
    assert page.verdict == expected.verdict
    assert [s.tables for s in page.sections] == [s.tables for s in expected.sections]


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.replace(tzinfo=UTC).isoformat(),
        lambda t: t.replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=5))).isoformat(" "),
        lambda t: repr(t.replace(tzinfo=UTC).timestamp()),
        lambda t: f"{t.isoformat()}Z",
    ],
)
def test_a_zone_may_be_given_in_any_form(tmp_path: Path, write: Any) -> None:
    expected = report(written(tmp_path / "t.csv", [t.isoformat() for t in TIMES]))
    page = report(written(tmp_path / "t.csv", list(map(write, TIMES))))
    assert section(page, "over-time").tables == section(expected, "over-time").tables
    sentences = [s.replace(" UTC", "") for s in page.verdict]
    assert sentences == list(expected.verdict)
    assert any(" UTC" in s for s in page.verdict)


def test_two_parts_are_shown_side_by_side(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [t.isoformat() for t in TIMES])
    page = report(path, since="2026-03-11T12:00")
    found = section(page, "before-and-since")
    assert found.title == "Before and since 2026-03-11 12:00"
    assert [chart.id for chart in found.charts] == ["reliability-before", "reliability-since"]
    at = TIMES.index(datetime(2026, 3, 11, 12))
    table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(1, 2, 3))
    rows = iter(found.tables[0].rows)
    for side, part in (("before", table[:at]), ("since", table[at:])):
        p, y, calibrated = part.T
        scores, _ = of_sample(Scored(p, calibrated, y, np.arange(len(p))), "p", "calibrated")
        for row in scores.tables[0].rows:
            np.testing.assert_equal(next(rows), (side, len(p), *row))
    assert next(rows, None) is None
    means = [
        [np.mean(log_losses(part[:, 1], part[:, column])) for column in (0, 2)]
        for part in (table[:at], table[at:])
    ]
    (before, after), (later, latest) = means
    assert page.verdict[-1] == (
        f"Log loss before 2026-03-11 12:00 {before:.4f} → {after:.4f}, since then {later:.4f} →"
        f" {latest:.4f}."
    )


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--since", "2026-03-11"], 2, "--since needs --time, got '2026-03-11' without it"),
        (["--time", "at", "--since", "soon"], 2, "--since must be a time such as 2026-03-01T12:30"),
        (["--time", "at", "--since", "2027-01-01"], 1, "labelled rows from 2026-03-01 00:00 to"),
        (["--time", "at", "--since", "2026-03-01"], 1, "so --since must be between these, got"),
        (["--time", "at", "--since", "2026-03-11T00Z"], 1, "without a zone, too, such as 2026-03-"),
        (["--time", "when"], 1, "has no column `when`"),
        (["--key", "y"], 2, "--key must be another column than --label, got 'y'"),
        (["--segment", "k", "--segment", "y"], 2, "--segment must be another column than --lab"),
        (["--time", "y"], 2, "--time must be another column than --label, got 'y'"),
    ],
)
def test_what_is_no_time_of_the_rows_is_refused(
    tmp_path: Path, options: list[str], status: int, message: str
) -> None:
    path = written(tmp_path / "t.csv", [t.isoformat() for t in TIMES])
    columns = ["--score", "p", "--label", "y", "--out", tmp_path / "page.html"]
    assert message in run("report", path, *columns, *options, status=status).output
    assert not (tmp_path / "page.html").exists()


def test_times_with_and_without_a_zone_do_not_mix(tmp_path: Path) -> None:
    times: list[Any] = [t.isoformat() for t in TIMES]
    times[700] += "+01:00"
    path = written(tmp_path / "t.csv", times)
    columns = ["--score", "p", "--label", "y", "--time", "at", "--out", tmp_path / "page.html"]
    printed = run("report", path, *columns, status=1).output
    assert "row 701: `at` must be a time without a zone, as those before, got" in printed
    times[700] = "soon"
    printed = run("report", written(path, times), *columns, status=1).output
    assert "row 701: `at` must be a time such as 2026-03-01T12:30, or a number" in printed
    assert not (tmp_path / "page.html").exists()
    run("report", path, *columns, "--on-error", "skip")
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich"])
def test_times_of_parquet(tmp_path: Path, unit: str, zone: str | None) -> None:
    moments = pa.array([t.replace(tzinfo=UTC) for t in TIMES], pa.timestamp("us", "UTC"))
    column = moments.cast(pa.timestamp(unit, zone)) if zone else moments.cast(pa.timestamp(unit))
    pq.write_table(pa.table({"at": column}), tmp_path / "t.parquet")
    read = pq.read_table(tmp_path / "t.parquet")["at"].combine_chunks()
    times = as_times(read)
    assert times.seconds.tolist() == [t.replace(tzinfo=UTC).timestamp() for t in TIMES]
    assert set(times.has_zone.tolist()) == {zone is not None}


def test_dates_and_values_of_other_types() -> None:
    dates = as_times(pa.array([BEGIN.date(), None], pa.date32()))
    np.testing.assert_equal(dates.seconds, [BEGIN.replace(tzinfo=UTC).timestamp(), np.nan])
    others = as_times([None, True, [1], {"a": 1}, "", "2026-13-01", float("inf"), 1e300, "1_0"])
    assert np.isnan(others.seconds).all()
    assert as_times([5, 5.5, "5", " 1970-01-01T00:00:05 "]).seconds.tolist() == [5, 5.5, 5, 5]
    assert as_times(["20260301", "2026-03-01", 20260301]).seconds.tolist() == [
        *(1_772_323_200, 1_772_323_200, 20_260_301)
    ]
    assert as_times(["20261301", "99999999"]).seconds.tolist() == [20_261_301, 99_999_999]


@given(
    st.lists(st.floats(-6e10, 2e11), min_size=1, max_size=60).map(sorted),
    st.sampled_from([1, 100, 4_000]),
)
def test_each_row_is_in_one_period(times: list[float], repeat: int) -> None:
    rows = np.repeat(times, repeat)
    periods = by_calendar(rows)
    assert 1 <= len(periods.x) == len(periods.names) <= MOST
    assert periods.bounds[0] == 0
    assert periods.bounds[-1] == len(rows)
    assert (np.diff(periods.bounds) > 0).all()
    assert (np.diff(periods.x) > 0).all()
    firsts = rows[periods.bounds[1:-1]]  # a row is not before the period that it is in
    assert (np.floor(firsts) >= periods.x[1:] / 1000.0).all()
