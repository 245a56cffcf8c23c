"""Reports on tables of which only some rows have a label, asked for with a known probability."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from streamcal import PlattCalibrator
from streamcal.calibration import AuditedCalibrator
from streamcal.cli.report_sources import Given, open_subject
from streamcal.durable import Event, LabelJoin, Store
from streamcal.durable.engine import run as run_stream
from streamcal.metrics import CORP
from streamcal.metrics.bands import corp_band, mean_band
from streamcal.monitoring import AuditSampler
from streamcal.plot import ReliabilityCurve
from streamcal.plot.accuracy_coverage_curve import curve_of, weighted_answers_under
from streamcal.report import page
from streamcal.report.content import Report
from streamcal.report.verdict import estimated_gain, state_of
from tests.runner import run

N = 20_000
COLUMNS = Given("p", "y", "q", "key", ("country", "device"), "at")


def rows_of(n: int = N, seed: int = 1) -> dict[str, Any]:
    """Scores that are too high, with labels of all; those of low scores are asked for."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 1.5, n).round(4)
    pi = np.where(p < 0.5, 1.0, 0.1)
    return {
        "p": p,
        "q": (0.1 + 0.8 * p).round(4),
        "y": (rng.random(n) < p**1.5).astype(np.int64),
        "n": rng.poisson(1.0 + 3.0 * p),
        "pi": pi,
        "asked": rng.random(n) < pi,
        "key": rng.integers(3, size=n),
        "country": rng.choice(["de", "fr"], n),
        "device": rng.choice(["tv", "phone"], n),
        "decision": (p > 0.6).astype(np.int64),
        "at": 60 * np.arange(n),
    }


def write(
    path: Path, rows: dict[str, Any], labelled: Any = None, label: str = "y", **others: Any
) -> Path:
    """Write rows; labels that are not known are empty."""
    columns = {**rows, **others}
    cells = {name: list(map(str, column)) for name, column in columns.items()}
    if labelled is not None:
        each = zip(cells[label], labelled, strict=True)
        cells[label] = [cell if known else "" for cell, known in each]
    body = map(",".join, zip(*cells.values(), strict=True))
    path.write_text("\n".join([",".join(cells), *body, ""]))
    return path


def report_of(path: Path, given: Given = COLUMNS, **options: Any) -> Report:
    return open_subject(path, given._replace(**options), quiet=True).report()


def table_of(report: Report, name: str) -> list[tuple[Any, ...]]:
    tables = {table.id: table for section in report.sections for table in section.tables}
    return list(tables[name].rows)


def numbers(report: Report, name: str) -> Any:
    """Return the numbers of a table, a matrix."""
    rows = table_of(report, name)
    return np.array([[cell for cell in row if not isinstance(cell, str)] for row in rows], float)


def series_of(report: Report, chart: str) -> dict[str, Any]:
    (found,) = (each for each in report.charts if each.id == chart)
    return {series.name: series.columns for series in found.series}


def told(report: Report) -> Any:
    """Return all that a report says, but its facts."""
    shown = page.update(report)
    return json.dumps([report.verdict, shown["charts"], [s.text for s in report.sections]]), str(
        [table.rows for section in report.sections for table in section.tables]
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Pages of all labels, of the chosen ones with weights, and without."""
    folder, rows = tmp_path_factory.mktemp("propensity"), rows_of()
    everything = write(folder / "all.csv", rows)
    chosen = write(folder / "chosen.csv", rows, rows["asked"])
    promises = {"promises": {"accuracy": 0.8, "precision": 0.7}}
    return {
        "all": report_of(everything, **promises),
        "weighted": report_of(chosen, propensity="pi", **promises),
        "unweighted": report_of(chosen, **promises),
    }


def test_weighted_scores_are_those_of_all_labels(reports: dict[str, Report]) -> None:
    of_all, weighted, unweighted = (
        np.nan_to_num(numbers(reports[name], "score-numbers"))
        for name in ("all", "weighted", "unweighted")
    )
    names = [row[:2] for row in table_of(reports["all"], "score-numbers")]
    # Mean, MCB, DSC and UNC of Brier score and log loss, ECE, AUC.
    assert np.abs(weighted - of_all).max() < 0.025
    mean = np.abs(unweighted - of_all)[:, 0] / np.abs(weighted - of_all)[:, 0].clip(1e-3)
    assert dict(zip(names, mean, strict=True))["log loss", "p"] > 5.0
    assert dict(zip(names, mean, strict=True))["Brier score", "q"] > 5.0
    assert np.abs(unweighted - of_all).max() > 0.1


@pytest.mark.parametrize(
    ("table", "column", "near", "far"),
    [
        ("coverage-numbers", 1, 0.03, 0.05),  # accuracy
        ("promises", 0, 0.02, 0.1),  # the share that is answered
        ("segment-errors", 2, 0.02, 0.05),  # predicted after
        ("segment-errors", 3, 0.03, 0.05),  # observed
        ("key-scores", 1, 0.03, 0.05),  # share of labels 1
        ("key-scores", 3, 0.03, 0.03),  # log loss after
        ("over-time-numbers", -3, 0.05, 0.02),  # log loss of q, in the mean of the periods
    ],
)
def test_other_means_are_those_of_all_labels(
    reports: dict[str, Report], table: str, column: int, near: float, far: float
) -> None:
    found: dict[str, Any] = {}
    for name, report in reports.items():
        try:
            values = numbers(report, table)[:, column]
        except KeyError:  # few segments
            values = numbers(report, "worst-segments")[:, column]
        order = np.argsort([str(row[0]) for row in _rows(report, table)], kind="stable")
        found[name] = values[order]
    if table == "over-time-numbers":
        found = {name: np.array([each.mean()]) for name, each in found.items()}
        near = 0.02
    assert np.abs(found["weighted"] - found["all"]).max() < near
    assert np.abs(found["unweighted"] - found["all"]).max() > far


def _rows(report: Report, table: str) -> list[tuple[Any, ...]]:
    return table_of(report, table if table != "segment-errors" else "worst-segments")


def test_curves_and_histograms_are_those_of_all_labels(reports: dict[str, Report]) -> None:
    def heights(name: str) -> Any:
        return series_of(reports[name], "histogram")["q"]["top"]

    assert np.abs(heights("weighted") - heights("all")).sum() < 0.1
    assert np.abs(heights("unweighted") - heights("all")).sum() > 0.3
    # At one score the labelled rows are like all rows, with and without weights.
    curves = [numbers(reports[name], "reliability-numbers") for name in ("weighted", "all")]
    assert np.nanmean(np.abs(curves[0] - curves[1])) < 0.03


def test_tests_count_each_labelled_row_once(reports: dict[str, Report]) -> None:
    weighted, unweighted = reports["weighted"], reports["unweighted"]
    evidence = [series_of(each, "evidence-over-time")["q"]["y"] for each in (weighted, unweighted)]
    assert np.array_equal(*evidence)
    errors = [
        {row[0]: row[-3:] for row in table_of(each, "worst-segments")}
        for each in (weighted, unweighted)
    ]
    assert errors[0] == errors[1]
    words = "\n".join(weighted.verdict)
    assert "Tests of calibration count each labelled row once" in words.replace("\n", " ")
    assert "among the labelled rows" in words
    assert "self-normalised" in weighted.sections[0].text
    assert "each counts once" not in weighted.sections[0].text


def test_with_propensities_of_one_it_is_the_same_page(tmp_path: Path) -> None:
    rows = rows_of(3_000)
    path = write(tmp_path / "t.csv", rows, rows["asked"], pi=np.ones(3_000))
    options = {"promises": {"accuracy": 0.8}, "since": "1970-01-02T00:00Z"}
    assert told(report_of(path, propensity="pi", **options)) == told(report_of(path, **options))


@pytest.mark.parametrize("loss", [None, "poisson"])
def test_whole_weights_are_repeated_rows(tmp_path: Path, loss: str | None) -> None:
    rows = rows_of(2_000, seed=2)
    rows |= {name: rows[name].round(2) for name in "pq"}  # all points of curves are shown
    times = np.random.default_rng(0).choice([1, 2, 4], 2_000)
    repeated = {name: np.repeat(column, times) for name, column in rows.items()}
    label = "y" if loss is None else "n"
    given = COLUMNS._replace(label=label, loss=loss)
    given = given._replace(time=None, segment=() if loss else given.segment)
    if loss:
        rows, repeated = ({**each, "q": 0.5 + each["p"]} for each in (rows, repeated))
        rows, repeated = ({**each, "p": 1.0 + each["p"]} for each in (rows, repeated))
    weighted = report_of(write(tmp_path / "w.csv", rows, pi=1.0 / times), given, propensity="pi")
    alone = report_of(write(tmp_path / "r.csv", repeated), given)
    for name in ("score-numbers", "reliability-numbers"):
        np.testing.assert_allclose(numbers(weighted, name), numbers(alone, name), rtol=1e-9)
    keys = [
        np.array(sorted(row[2:] for row in table_of(each, "key-scores")))
        for each in (weighted, alone)
    ]
    np.testing.assert_allclose(*keys, rtol=1e-7)
    for name in ("q", "p"):
        tops = [series_of(each, "histogram")[name]["top"] for each in (weighted, alone)]
        np.testing.assert_allclose(*tops, rtol=1e-9)
    if loss is None:
        for name in ("coverage-numbers", "worst-segments"):
            of = slice(0, 2) if name == "coverage-numbers" else slice(1, 4)
            both = [numbers(each, name) for each in (weighted, alone)]
            if name == "worst-segments":  # the order is that of evidence
                both = [each[np.argsort(each[:, 3])] for each in both]
            np.testing.assert_allclose(both[0][:, of], both[1][:, of], rtol=1e-9)
    metrics = [{m.name: m.samples for m in each.metrics} for each in (weighted, alone)]
    assert metrics[0].keys() == metrics[1].keys()
    for name in metrics[0]:
        values = [[value for _, value in each[name]] for each in metrics]
        np.testing.assert_allclose(*values, rtol=1e-9)


def test_the_parts_are_those_of_the_metric(reports: dict[str, Report]) -> None:
    rows = rows_of()
    metric = CORP()
    for i in np.flatnonzero(rows["asked"]).tolist():
        metric.update(bool(rows["y"][i]), float(rows["q"][i]), 1.0 / float(rows["pi"][i]))
    parts = (metric.mean_score, metric.mcb, metric.dsc, metric.unc)
    found = {row[:2]: row[2:] for row in table_of(reports["weighted"], "score-numbers")}
    assert found["Brier score", "q"] == pytest.approx(parts, abs=1e-9)


def test_several_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    truth = rng.dirichlet([1.0, 1.0, 1.0], n)
    names = np.array(["a", "b", "c"])
    y = names[(rng.random((n, 1)) > truth.cumsum(axis=1)).sum(axis=1)]
    after = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    pi = np.where(after.max(axis=1) > 0.7, 0.1, 1.0)
    rows = {**dict(zip("abc", after.T.round(6), strict=True)), "y": y, "pi": pi}
    rows |= dict(zip(("ra", "rb", "rc"), truth.T.round(6), strict=True))
    asked = rng.random(n) < pi
    given = Given("ra=a,rb=b,rc=c", "y", "a,b,c", promises={"accuracy": 0.7})
    paths = write(tmp_path / "all.csv", rows), write(tmp_path / "some.csv", rows, asked)
    of_all, weighted = report_of(paths[0], given), report_of(paths[1], given, propensity="pi")
    unweighted = report_of(paths[1], given)
    for name, near, far in (("score-numbers", 0.03, 0.04), ("promises", 0.03, 0.05)):
        numbers_of = [numbers(each, name)[:, -3:-1] for each in (of_all, weighted, unweighted)]
        if name == "score-numbers":
            numbers_of = [numbers(each, name) for each in (of_all, weighted, unweighted)]
        assert np.abs(numbers_of[1] - numbers_of[0]).max() < near
        assert np.abs(numbers_of[2] - numbers_of[0]).max() > far
    shares = [
        {row[0]: row[2] for row in table_of(each, "label-scores")} for each in (of_all, weighted)
    ]
    assert shares[1] == pytest.approx(shares[0], abs=0.03)
    ones = write(tmp_path / "ones.csv", rows, asked, pi=np.ones(n))
    assert told(report_of(ones, given, propensity="pi")) == told(report_of(ones, given))
    bad = write(tmp_path / "bad.csv", {k: v[:3] for k, v in rows.items()}, pi=[0.5, "", 0.5])
    message = run("report", bad, "--label", "y", "--prob", "a,b,c", "--propensity", "pi", status=1)
    assert "row 2: `pi` must be from 1e-60 to 1, got nothing" in message.stderr


@pytest.mark.parametrize(
    ("cell", "got"),
    [
        ("", "nothing; --on-error skip leaves such rows out"),
        ("0", "'0'"),
        ("nan", "'nan'; --on-error skip leaves such rows out"),
        ("1.5", "'1.5'"),
        ("-0.1", "'-0.1'"),
        ("1e-300", "'1e-300'"),
        ("inf", "'inf'"),
        ("often", "'often'"),
    ],
)
@pytest.mark.parametrize("command", ["report", "watch"])
def test_a_label_needs_a_propensity(tmp_path: Path, command: str, cell: str, got: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"p,calibrated,y,pi\n0.2,0.3,,{cell}\n0.2,0.3,1,1\n0.4,0.5,0,{cell}\n")
    options: list[Any] = ["--score", "p", "--label", "y", "--propensity", "pi"]
    options += ["--out", tmp_path / "t.html"] if command == "report" else ["--port", 0]
    error = run(command, path, *options, status=1).stderr
    assert f"row 3: `pi` must be from 1e-60 to 1, got {got}" in error
    assert not (tmp_path / "t.html").exists()


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p,calibrated,y,pi\n0.2,0.3,1,1\n")
    options = ["--score", "p", "--label", "y", "--out", tmp_path / "t.html", "--propensity"]
    for name, column in (("score", "p"), ("label", "y")):
        error = run("report", path, *options, column, status=2).stderr
        assert f"--propensity must be another column than --{name}, got '{column}'" in error
    assert "has no column `other`" in run("report", path, *options, "other", status=1).stderr


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("pi", [1e-60, 1e-9, 0.5])
def test_few_rows_and_tiny_propensities(tmp_path: Path, n: int, pi: float) -> None:
    path = tmp_path / "t.csv"
    lines = [f"0.2,0.3,{i % 2},{pi if i == 0 else 1.0}" for i in range(n)]
    path.write_text("\n".join(["p,calibrated,y,pi", *lines, "0.5,0.6,,", ""]))
    given = Given("p", "y", propensity="pi", promises={"accuracy": 0.6})
    if not n:
        with pytest.raises(ValueError, match="has no labelled rows"):
            report_of(path, given)
        return
    found = report_of(path, given)
    assert "may be chance" in found.verdict[1]
    scores = {row[:2]: row[2] for row in table_of(found, "score-numbers")}
    # The first row, whose label is 0, counts almost alone, or twice as much.
    weights = np.array([1.0 / pi, 1.0])[:n]
    expected = np.average(np.array([0.04, 0.64])[:n], weights=weights)
    assert scores["Brier score", "p"] == pytest.approx(expected)
    assert page.render(found)


def test_parquet_and_a_pipe(tmp_path: Path) -> None:
    rows = rows_of(1_000)
    path = write(tmp_path / "t.csv", rows, rows["asked"])
    options = ["--score", "p", "--label", "y", "--prob", "q", "--propensity", "pi"]
    first = run("report", path, *options, "--out", tmp_path / "t.html").stderr
    pq.write_table(pyarrow.csv.read_csv(path), tmp_path / "t.parquet")
    other = run("report", tmp_path / "t.parquet", *options, "--out", tmp_path / "p.html").stderr
    piped = ["report", "-", *options, "--out", tmp_path / "s.html"]
    third = run(*piped, input=path.read_text()).stderr
    assert "Estimates for all rows" in first
    assert first.split("\n")[:-2] == other.split("\n")[:-2] == third.split("\n")[:-2]


def test_a_run_with_propensities_is_weighted(tmp_path: Path) -> None:
    rows = rows_of(4_000)
    path = write(tmp_path / "t.csv", rows, rows["asked"])
    store, out = tmp_path / "run.db", tmp_path / "c.csv"
    options = ["--score", "p", "--label", "y", "--propensity", "pi"]
    run("calibrate", path, *options, "--store", store, "--out", out)
    of_store = open_subject(store, Given(), quiet=True).report()
    of_output = report_of(out, Given("p", "y", propensity="pi"))
    assert table_of(of_store, "score-numbers") == table_of(of_output, "score-numbers")
    assert "Estimates for all rows" in of_store.verdict[0]
    with pytest.raises(ValueError, match="--propensity does not apply to a store"):
        open_subject(store, Given(propensity="pi"))


@pytest.mark.parametrize("sampler", [None, AuditSampler(0.2, secret="s")])
def test_a_run_of_events_says_that_each_label_counts_once(tmp_path: Path, sampler: Any) -> None:
    rng = np.random.default_rng(0)
    events = [Event(p, id=i, propensity=1.0) for i, p in enumerate(rng.random(50))]
    events += [Event(math.nan, y=1, id=i) for i in range(50)]
    if sampler is not None:
        events.append(Event(0.5, id=99))
    calibrator = AuditedCalibrator(floor=0.05)
    with Store(tmp_path / "run.db") as store:
        run_stream(events, calibrator, lambda *_: None, store, join=LabelJoin(), sampler=sampler)
    (words,) = [
        sentence
        for sentence in open_subject(tmp_path / "run.db", Given(), quiet=True).report().verdict
        if "each label counts once" in sentence
    ]
    assert words.endswith("are of these decisions, not of all.")
    with Store(tmp_path / "other.db") as store:
        run_stream([(0.2, 0)] * 20, PlattCalibrator(), lambda *_: None, store)
    verdict = open_subject(tmp_path / "other.db", Given(), quiet=True).report().verdict
    assert "counts once" not in " ".join(verdict)


def test_bands_hold_as_often_as_they_say() -> None:
    rng, inside = np.random.default_rng(0), []
    for seed in range(60):
        p = rng.beta(1.0, 1.5, 3_000)
        w = np.where(p < 0.5, 1.0, 10.0) * rng.choice([1.0, 3.0], 3_000)
        y = rng.random(3_000) < p
        curve = ReliabilityCurve.from_predictions(y, p, w=w, n_resamples=100, seed=seed)
        assert curve.band is not None
        x, low, high = curve.band
        kept = (x > 0.1) & (x < 0.9)
        values = curve.staircase(x[kept])
        inside.append(np.mean((values >= low[kept]) & (values <= high[kept])))
    assert 0.86 < np.mean(inside) < 0.96


def test_equal_weights_change_no_band() -> None:
    x, n, k = np.array([0.2, 0.4, 0.8]), np.array([50.0, 30.0, 20.0]), np.array([9.0, 12.0, 18.0])
    for factor in (1.0, 7.0, 1e-3):
        weighted = corp_band(x, factor * n, factor * k, squares=factor**2 * n)
        for one, other in zip(weighted, corp_band(x, n, k), strict=True):
            np.testing.assert_allclose(one, other)
        mean = mean_band(x, factor * n, factor**2 * k, least=0.0, sizes=n)
        for one, other in zip(mean, mean_band(x, n, k, least=0.0), strict=True):
            np.testing.assert_allclose(one, other)
    with pytest.raises(ValueError, match="`method` must be 'resampling' where `w` is given"):
        corp_band(x, n, k, squares=n, method="asymptotic")


def test_many_scores_with_weights_are_grouped() -> None:
    rng = np.random.default_rng(1)
    p, w = np.sort(rng.random(5_000)), rng.choice([1.0, 4.0, 1e6], 5_000)
    y = (rng.random(5_000) < p).astype(float)
    for loss in (None, "squared"):
        band = ReliabilityCurve.from_predictions(y, p, w=w, n_resamples=20, loss=loss).band
        assert band is not None
        assert 200 < len(band.scores) <= 1_001
        assert (np.diff(band.scores) > 0.0).all()
        assert (band.lower <= band.upper).all()


def test_the_interval_of_a_gain_holds_as_often_as_it_says() -> None:
    rng, missed = np.random.default_rng(2), 0
    p = rng.beta(1.0, 1.5, 2_000)
    q = 0.1 + 0.8 * p
    pi = np.where(p < 0.5, 1.0, 0.1)
    for _ in range(1_000):
        y = rng.random(2_000) < p**1.5
        d = (p - y) ** 2 - (q - y) ** 2
        asked = rng.random(2_000) < pi
        gain = estimated_gain(d[asked], 1.0 / pi[asked], float(np.abs(d).max()), 1.0)
        missed += not gain.low <= float(d.mean()) <= gain.high
    assert missed <= 20  # of 1,000, at 1 %


def test_promises_with_weights() -> None:
    right = np.array([1.0, 1.0, 0.0, 1.0, 0.0])
    certainty = np.array([0.9, 0.8, 0.8, 0.6, 0.5])
    w = np.array([1.0, 2.0, 4.0, 1.0, 8.0])
    some = weighted_answers_under((right, certainty), 0.81, w)
    assert (some.coverage, some.accuracy) == pytest.approx((7.0 / 16.0, 3.0 / 7.0))
    assert some.expected == pytest.approx((0.9 + 6.0 * 0.8) / 7.0)
    assert some.n_answers == pytest.approx(49.0 / 21.0)
    none = weighted_answers_under((right, certainty), 0.95, w)
    assert (none.coverage, none.n_answers, none.expected) == (0.0, 0.0, 1.0)
    assert state_of(some) == "not refuted"
    curve = curve_of((right, certainty), level=0.9, w=w)
    assert curve.coverage == pytest.approx([1.0 / 16.0, 7.0 / 16.0, 0.5, 1.0])
    assert curve.accuracy == pytest.approx([1.0, 3.0 / 7.0, 0.5, 0.25])
    assert curve.lower is not None
    assert curve.upper is not None
    assert ((curve.lower <= curve.accuracy) & (curve.accuracy <= curve.upper)).all()
