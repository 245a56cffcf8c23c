"""The report: its numbers are the library's, its page stands alone, and a real browser shows it."""

import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import dummy, linear_model, metrics
from sklearn.metrics import roc_auc_score

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal.calibration.base import Calibrator
from streamcal.cli.report_sources import Given, open_subject
from streamcal.decision import DecisionClassifier, EUMThreshold
from streamcal.durable.engine import run as run_stream
from streamcal.durable.keys import name_of
from streamcal.durable.labels import Event, LabelJoin
from streamcal.durable.store import Store
from streamcal.durable.timeline import Timeline
from streamcal.metrics import CORP, ECE, BrierScore, multicalibration_error
from streamcal.metrics.log_loss import log_losses
from streamcal.ordinal import StreamingThresholds
from streamcal.report import learner_sections, page, run_sections, watch
from streamcal.report.content import Chart, Report, Section, Series, Table, thin
from streamcal.report.key_sections import Keys, of_keys
from streamcal.report.label_sections import Answers, of_labels, verdict_of_labels
from streamcal.report.prometheus import exposition
from streamcal.report.segment_sections import (
    Segments,
    compare,
    of_segments,
    verdict_of_segments,
    wilson,
)
from streamcal.report.store_sections import of_store
from streamcal.report.table_sections import (
    Scored,
    area_under_curve,
    expected_calibration_error,
    metrics_of_table,
    miscalibration,
    of_table,
    of_two_parts,
)
from streamcal.report.verdict import LEVEL
from tests.accessible import VIEWS, NoBrowserError, started, violations
from tests.runner import run

HOSTILE = "</script><script>document.title='bad'</script>$$x$$"


def samples(n: Any, seed: int = 3) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    return scores, (rng.random(n) < scores**2).astype(float)


def scored(n: int = 1000) -> Any:
    scores, labels = samples(n)
    return Scored(scores, scores**2, labels, 1.0 + np.arange(n))


class Hedge(PlattCalibrator):
    """A calibrator with weights to be read."""

    @property
    def weights(self) -> dict[Any, Any]:
        return {"a": 0.25, HOSTILE: 0.75}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    scores, labels = samples(1200)
    keys = np.where(np.arange(1200) % 3, "plain", HOSTILE)
    lines = [f"{p!r},{y:g},{k}" for p, y, k in zip(scores.tolist(), labels, keys, strict=True)]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["p,y,key", *lines, ""]))
    return path


@pytest.fixture
def run_db(table: Any) -> Any:
    """A finished run, keyed, in a store."""
    store = table.with_name("run.db")
    options = ["--score", "p", "--label", "y", "--key", "key"]
    run("calibrate", table, *options, "--out", table.with_name("c.csv"), "--store", store)
    return store


@pytest.fixture
def kinds_db(tmp_path: Path) -> Any:
    """A store with a learner of each kind."""
    scores, labels = samples(400)
    learners: dict[str, Any] = {
        "staircase": IsotonicCalibrator(window=200),
        "platt": PlattCalibrator(),
        "hedge": Hedge(),
        "utility": EUMThreshold("f1"),
    }
    for learner in learners.values():
        learner.learn_many(scores, labels)
    ordinal = StreamingThresholds(4)
    ordinal.learn_many(scores, np.ceil(4 * scores).astype(int))
    decide = DecisionClassifier(linear_model.LogisticRegression(), "f1")
    for p, y in zip(scores[:50].tolist(), labels[:50], strict=True):
        decide.learn_one({"p": p}, bool(y))
    path = tmp_path / "kinds.db"
    with Store(path) as store:
        store.save({**learners, "ordinal": ordinal, "decide": decide, "empty": EUMThreshold()}, 400)
    return path


# Numbers ------------------------------------------------------------------------------------------


def test_scores_are_those_of_the_metric() -> None:
    data = scored()
    (scores, *_) = of_table(data, "raw", "new")
    rows = {row[:2]: row[2:] for row in scores.tables[0].rows}
    for name, kind in (("Brier score", "brier"), ("log loss", "log")):
        for column, p in (("raw", data.raw), ("new", data.calibrated)):
            metric = CORP(kind)
            for y, q in zip(data.labels == 1.0, p, strict=True):
                metric.update(bool(y), float(q))
            expected = (metric.mean_score, metric.mcb, metric.dsc, metric.unc)
            assert rows[name, column] == pytest.approx(expected, abs=1e-12)


def test_errors_and_areas_are_those_of_the_metrics() -> None:
    data = scored()
    data = data._replace(raw=data.raw.round(1))  # with ties, and at edges of bins
    rows = {row[:2]: row[2] for row in of_table(data, "raw", "new")[0].tables[0].rows}
    for column, p in (("raw", data.raw), ("new", data.calibrated)):
        metric = ECE()
        for y, q in zip(data.labels == 1.0, p, strict=True):
            metric.update(bool(y), float(q))
        assert rows["ECE", column] == pytest.approx(metric.get(), abs=1e-12)
        assert rows["AUC", column] == pytest.approx(roc_auc_score(data.labels, p))
    assert math.isnan(area_under_curve(data.raw, np.ones(1000)))


def test_keys_are_the_worst_first() -> None:
    data = scored(3000)
    places = np.arange(3000) % 3
    worse = np.where(places == 1, 0.2 + 0.6 * data.labels, data.calibrated)  # a good key
    worse = np.where(places == 2, 0.9 - 0.8 * data.labels, worse)  # a bad one
    data = data._replace(calibrated=worse)
    part = of_keys(data, Keys(["same", "good", "bad", "unseen"], places))
    (table,) = part.tables
    assert table.sortable
    assert [row[0] for row in table.rows] == ["bad", "same", "good"]
    for name, n, ones, before, after, saved, mcb, ece in table.rows:
        at = places == ["same", "good", "bad"].index(str(name))
        y, p = data.labels[at], worse[at]
        losses = log_losses(y, data.raw[at]), log_losses(y, p)
        assert (n, ones) == (at.sum(), y.mean())
        assert (before, after) == pytest.approx([loss.mean() for loss in losses])
        assert saved == pytest.approx((losses[0] - losses[1]).sum())
        assert mcb == pytest.approx(miscalibration(p, y))
        assert ece == pytest.approx(expected_calibration_error(p, y))
    assert "3 keys" in part.text
    assert "raises the log loss of 1 of them" in part.text
    raw = of_keys(data._replace(raw=5 * data.raw), Keys(["same", "good", "bad"], places))
    assert [row[0] for row in raw.tables[0].rows] == ["bad", "same", "good"]
    assert math.isnan(raw.tables[0].rows[0][5])


def test_of_many_keys_the_worst_are_shown() -> None:
    data = scored(3000)
    names = [f"{'k' * 200} {i}" for i in range(1000)]
    part = of_keys(data, Keys(names, np.arange(3000) % 1000), max_keys=7)
    assert len(part.tables[0].rows) == 7
    assert "1,000 keys, the worst first; the 7 worst are shown" in part.text
    saved = [row[5] for row in part.tables[0].rows]
    assert saved == sorted(saved)
    assert all(len(row[0]) <= 100 for row in part.tables[0].rows)


def in_segments(n: int = 3000) -> Any:
    """Rows of two columns; the calibrated values are wrong for "b" on the second device."""
    data, (rng, names) = scored(n), (np.random.default_rng(1), ["a", "b", "c", "unseen"])
    places = [rng.integers(3, size=n), rng.integers(2, size=n)]
    bad = (places[0] == 1) & (places[1] == 1)
    calibrated = np.where(bad, np.sqrt(data.raw), data.calibrated)
    columns = [Keys(names, places[0]), Keys(["tv", "phone"], places[1])]
    return data._replace(calibrated=calibrated), Segments(("region", "device"), columns)


def test_segments_are_those_of_the_metric_and_the_worst_first() -> None:
    data, segments = in_segments()
    worst, every = of_segments(compare(data, segments)).tables
    assert every.sortable
    assert worst.rows == every.rows[:10]
    assert every.rows[0][0] == "region = b, device = phone"
    columns = {
        name: np.array(keys.names)[keys.places]
        for name, keys in zip(segments.fields, segments.values, strict=True)
    }
    before, after = (
        {
            ", ".join(f"{k} = {v}" for k, v in each.segment.items()): each
            for each in multicalibration_error(data.labels == 1.0, p, columns).segments
            if each.segment
        }
        for p in (data.raw, data.calibrated)
    )
    assert {row[0] for row in every.rows} == set(after)
    for name, n, earlier, predicted, observed, low, high, error_before, error, p in every.rows:
        found = after[str(name)]
        assert earlier == before[str(name)].predicted
        assert (n, predicted, observed) == (found.n_samples, found.predicted, found.observed)
        assert float(low) < found.observed < float(high)
        assert error_before == pytest.approx(before[str(name)].sigmas)
        assert error == pytest.approx(found.sigmas)
        # The metric counts all rows as a segment, too.
        assert float(p) <= found.adjusted_p_value * (1.0 + 1e-9)


def test_the_interval_holds_the_probability_as_often_as_it_says() -> None:
    for p in (0.1, 0.5, 0.98):
        low, high = wilson(np.random.default_rng(0).binomial(200, p, 4_000) / 200, np.array([200]))
        assert ((low <= p) & (p <= high)).mean() == pytest.approx(0.9, abs=0.035)


def test_the_verdict_on_segments() -> None:
    data, segments = in_segments()
    (wrong,) = verdict_of_segments(compare(data, segments), "raw", "new")
    assert re.fullmatch(
        r"By segment, new is wrong for \d of 11, most clearly region = b, device = phone"
        r" \(0\.\d\d predicted, 0\.\d\d observed\); raw was wrong for 11\.",
        wrong,
    )
    (right,) = verdict_of_segments(compare(scored(3000), segments), "raw", "new")
    assert right == (
        "By segment, new shows no clear miscalibration in any of 11; raw was wrong for 11."
    )
    far = data._replace(raw=5.0 * data.raw)
    assert "raw" not in verdict_of_segments(compare(far, segments), "raw", "new")[0]
    (row, *_) = of_segments(compare(far, segments)).tables[0].rows
    assert [at for at, cell in enumerate(row[1:], 1) if math.isnan(cell)] == [2, 7]
    tiny = Segments(("a",), [Keys([str(i) for i in range(3000)], np.arange(3000))])
    assert verdict_of_segments(compare(data, tiny), "raw", "new") == ()
    (table,) = of_segments(compare(data, tiny)).tables
    assert table.rows == ()


def test_of_many_segments_the_worst_are_shown() -> None:
    data, names = scored(3000), [f"{'s' * 200} {i}" for i in range(100)]
    many = Segments(("a",), [Keys(names, np.arange(3000) % 100)])
    part = of_segments(compare(data, many, max_segments=7))
    assert "100 segments of at least 10 rows" in part.text
    assert "the 7 worst are shown" in part.text
    assert len(part.tables[0].rows) == 7
    assert all(len(row[0]) <= 100 for row in part.tables[0].rows)


def test_windows_are_those_of_the_metric() -> None:
    data = scored(1000)
    over_time = of_table(data, "raw", "new")[2]
    rows = over_time.tables[0].rows
    assert [row[0] for row in rows] == [200, 400, 600, 800, 1000]
    for i, row in enumerate(rows):
        part = slice(200 * i, 200 * i + 200)
        metric = CORP()
        for y, q in zip(data.labels[part] == 1.0, data.calibrated[part], strict=True):
            metric.update(bool(y), float(q))
        assert row[2] == pytest.approx(metric.mcb, abs=1e-12)
    (drawn,) = [s for s in over_time.charts[0].series if s.name == "new"]
    assert drawn.columns["y"].tolist() == [row[2] for row in rows]


def test_chance_is_about_what_calibrated_predictions_have() -> None:
    """Of labels that are drawn from the predictions the two lines agree on average."""
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = (rng.random(20_000) < p).astype(float)
    rows = of_table(Scored(p, p, y, 1.0 + np.arange(len(p))), "a", "b")[2]
    values = np.array([row[1:] for row in rows.tables[0].rows], dtype=float)
    assert values[:, 1].mean() == pytest.approx(values[:, 2].mean(), rel=0.15)


def test_scores_that_are_no_probabilities_are_not_compared() -> None:
    data = scored()._replace(raw=5.0 * scored().raw)
    parts = of_table(data, "raw", "new")
    assert {row[1] for row in parts[0].tables[0].rows} == {"new"}
    assert "outside [0, 1]" in parts[0].text
    assert {s.name for s in parts[1].charts[1].series} == {"new"}


def test_a_label_that_had_no_chance_costs_what_it_does_everywhere() -> None:
    """The rule of clipping is that of the command line and of river, and the page names it."""
    data = scored(1000)
    certain = data.calibrated.copy()
    certain[250:260] = 1.0 - data.labels[250:260]
    scores, _, over_time = of_table(data._replace(calibrated=certain), "raw", "new")
    expected = metrics.LogLoss()
    for y, p in zip(data.labels, certain, strict=True):
        expected.update(bool(y), float(p))
    shown = {row[:2]: row[2] for row in scores.tables[0].rows}["log loss", "new"]
    assert shown == pytest.approx(expected.get(), abs=1e-12)
    losses = over_time.charts[1].series[1].columns["y"]
    assert np.isfinite(losses).all()
    assert losses[1] > 10 * math.log(1e15) / 200
    for text in (scores.text, over_time.charts[1].summary):
        assert "probabilities below 1e-15 count as 1e-15" in text


def test_weights_of_many_hedges_have_a_mean() -> None:
    tables = learner_sections._weights({"a": Hedge(), "b": Hedge()}).tables
    assert tables[0].rows == (("a", 0, 0.25), (HOSTILE, 2, 0.75))
    assert len(tables[1].rows) == 4
    assert len(learner_sections._weights({"a": Hedge()}).tables) == 1


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_few_rows_and_certain_ones(n: int, label: float) -> None:
    data = Scored(np.zeros(n), np.ones(n), np.full(n, label), 1.0 + np.arange(n))
    html = page.render(Report("few", "here", tuple(of_table(data, "a", "b"))))
    assert "34.5" in html  # what was sure and wrong, by the rule of clipping
    assert "∞" not in html
    assert "NaN" not in html.split('id="charts">')[1].split("</script>")[0]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(-1, 1)), min_size=2, max_size=300),
    st.integers(1, 12),
)
def test_a_thinned_line_keeps_what_can_be_seen(points: Any, n_columns: int) -> None:
    x, y = np.array(sorted(points)).T
    thin_x, thin_y = thin(x, y, n_columns)
    assert set(zip(thin_x, thin_y, strict=True)) <= set(zip(x, y, strict=True))
    assert (np.diff(thin_x) >= 0.0).all()
    assert (thin_x[0], thin_x[-1]) == (x[0], x[-1])
    assert (thin_y.min(), thin_y.max()) == (y.min(), y.max())
    if len(thin_x) < len(x):
        column = np.floor((x - x[0]) / (x[-1] - x[0]) * n_columns)
        kept = np.floor((thin_x - x[0]) / (x[-1] - x[0]) * n_columns)
        for c in np.unique(column):
            assert y[column == c].max() == thin_y[kept == c].max()
            assert y[column == c].min() == thin_y[kept == c].min()
        assert len(thin_x) <= 4 * (n_columns + 1)


def test_each_kind_of_learner_is_shown(kinds_db: Any) -> None:
    with Store(kinds_db, read_only=True) as store:
        found = {section.id: section for section in of_store(store)}
        states = {k: store.get(k) for k in ("staircase", "utility", "ordinal")}
    assert list(found) == ["states", "hedge", "maps", "ordinal", "decisions-made"]
    weights = found["hedge"].tables[0].rows
    assert weights == (("hedge", "a", 0.25), ("hedge", HOSTILE, 0.75))

    (chart,) = found["maps"].charts
    assert set(chart.choices) == {"staircase", "platt", "hedge"}
    (drawn,) = [s for s in chart.series if s.choice == "staircase"]
    stairs = states["staircase"].staircase()
    assert drawn.columns["y"] == pytest.approx(stairs(drawn.columns["x"], outside="clip"))

    cuts = [row[2] for row in found["ordinal"].tables[0].rows]
    assert cuts == states["ordinal"].thresholds.tolist()
    line = next(s for s in found["ordinal"].charts[0].series if s.kind == "line").columns
    middles = (line["x"][1:] + line["x"][:-1])[::2] / 2.0
    assert states["ordinal"].predict_many(middles).tolist() == line["y"][::2].tolist()

    best = {row[0]: row[2:] for row in found["decisions-made"].tables[0].rows}
    utility = states["utility"]
    assert best == {"utility": (utility.threshold, utility.utility)}
    counts = found["decisions-made"].tables[1].rows
    assert counts[0][0] == "decide"
    assert sum(counts[0][2:6]) == 50


def test_of_many_states_the_largest_are_shown(tmp_path: Path) -> None:
    with Store(tmp_path / "many.db") as store:
        states = {}
        for i in range(20):
            states[f"s{i:02}"] = calibrator = IsotonicCalibrator()
            calibrator.learn_many(*samples(20 * i + 1))
        store.save(states, 1)
        assert store.sizes() == {key: len(store.get_bytes(key)) for key in states}
        part = of_store(store, max_states=3)[0]
    assert [row[0] for row in part.tables[0].rows] == ["s17", "s18", "s19"]
    assert "the 3 largest of 20" in part.text


def test_keys_that_read_alike_and_long_ones(tmp_path: Path) -> None:
    with Store(tmp_path / "alike.db") as store:
        states = {}
        for key in (1, "1", "k" * 5_000, "k" * 6_000):
            states[name_of(key)] = calibrator = IsotonicCalibrator()
            calibrator.learn_many(*samples(9))
        store.save(states, 36)
        found = {section.id: section for section in of_store(store)}
    long = "k" * 99 + "…"
    for part in ("states", "maps"):
        names = [row[0] for row in found[part].tables[0].rows]
        assert sorted(names) == ["1", "1 #2", long, f"{long} #2"]


def test_a_classifier_shows_its_calibrators(tmp_path: Path) -> None:
    classifier = CalibratedClassifier(dummy.PriorClassifier(), IsotonicCalibrator())
    for i in range(300):
        classifier.learn_one({}, f"label{i % 20}")
    one = CalibratedClassifier(dummy.PriorClassifier())
    for i in range(30):
        one.learn_one({}, i % 3 == 0)
    with Store(tmp_path / "wrapped.db") as store:
        store.save({"one": one, "untaught": IsotonicCalibrator()}, 30)
        found = {section.id: section for section in of_store(store)}
        weights = {row[1]: row[2] for row in found["hedge"].tables[0].rows}
        assert weights == one.calibrators[True].weights
        assert [row[0] for row in found["maps"].tables[0].rows] == ["one"]

        store.save({"many": classifier, "one": one}, 300)
        found = {section.id: section for section in of_store(store)}
    assert "They hold 22 learners, of which the first 12 are shown" in found["states"].text
    names = [row[0] for row in found["maps"].tables[0].rows]
    assert names[0].startswith("many: label")
    assert len(names) <= 12


# A run --------------------------------------------------------------------------------------------


def late_events(n: Any) -> Any:
    """Scores, and labels 40 events later; the calibrated value is the score squared."""
    scores, labels = samples(n)
    events = []
    for i in range(n):
        events.append(Event(scores[i], id=i))
        if i >= 40:
            events.append(Event(math.nan, labels[i - 40], id=i - 40))
    return events


class Feed:
    """A source that has more events than it gives out now."""

    def __init__(self, events: Any) -> None:
        self.events = events

    def read(self, offset: Any, n: Any) -> Any:
        return self.events[offset : offset + n]

    def end(self) -> Any:
        return len(self.events) + 7


@pytest.fixture
def late_db(tmp_path: Path) -> Any:
    """A store of a run with late labels."""
    path = tmp_path / "late.db"
    with Store(path) as store:
        feed = Feed(late_events(4000))
        run_stream(feed, PlattCalibrator(), lambda *_: None, store, join=LabelJoin(1000))
    return path


def test_a_run_shows_what_a_person_on_call_wants(late_db: Any) -> None:
    report = open_subject(late_db, Given()).report()
    found = {section.id: section for section in report.sections}
    assert list(found) == [
        *("status", "run-over-time", "expected", "reliability-before-after", "scores"),
        *("coverage", "states", "maps"),
    ]
    counts: dict[Any, Any] = dict(found["status"].tables[0].rows)
    assert counts == {
        "events learned": 7960,
        "events of the source that are not learned yet": 7,
        "labels in the log loss": 3960,
        "scores and labels that wait for each other": 40,
        "pairs joined": 3960,
        "dropped after the horizon": 0,
        "dropped as duplicates": 0,
    }
    with Store(late_db, read_only=True) as store:
        timeline = store.get("timeline")
    periods = timeline.periods()
    raw, calibrated = found["run-over-time"].charts[0].series
    assert raw.columns["y"].tolist() == (periods.raw / periods.n).tolist()
    assert calibrated.columns["y"].tolist() == (periods.calibrated / periods.n).tolist()
    scores = {row[:2]: row[2] for row in found["scores"].tables[0].rows}
    recent = timeline.recent
    assert scores["log loss", "calibrated"] == pytest.approx(
        log_losses(recent[:, 2], recent[:, 1]).mean()
    )
    assert report.updated == timeline.updated
    assert "in all 8 periods. Calibration lowers the Brier score, by " in report.verdict[0]
    assert report.verdict[-2].startswith("Of the last 2,000 labelled events: calibrated ")
    assert report.verdict[-1].startswith("Of the last 1,000 decisions, 960 have a label. ")
    assert report.facts[0][0] == "Calibrator"
    assert report.facts[0][1].startswith("PlattCalibrator(")
    assert "timeline" not in [row[0] for row in found["states"].tables[0].rows]


def test_a_run_with_segments_shows_its_parameters(tmp_path: Path) -> None:
    events = [Event(0.5, y, x={"device": "phone"}) for y in (0.0, 1.0)]
    with Store(tmp_path / "segments.db") as store:
        run_stream(events, SegmentCalibrator(["device"]), lambda *_: None, store)
    ((name, text),) = open_subject(tmp_path / "segments.db", Given()).report().facts
    assert name == "Calibrator"
    assert text.startswith("SegmentCalibrator(fields=('device',), ")


def run_of(tmp_path: Path, raw: Any, calibrated: Any, y: Any) -> Any:
    """A run whose timeline has these samples."""
    timeline = Timeline()
    timeline.add(1.0 + np.arange(len(y)), raw, calibrated, y, now=0.0)
    with Store(tmp_path / "alarm.db") as store:
        store.save({"timeline": timeline}, len(y))
        return run_sections.Run(store)


def test_alarms(tmp_path: Path) -> None:
    p, y = samples(5000)
    good, bad = p**2, np.sqrt(p)
    for values, expected in ((good, [False, False]), (bad, [True, True])):
        shown = run_of(tmp_path, p, values, y)
        assert [alarm.is_on for alarm in run_sections.alarms_of(shown)] == expected
        alarms = [s for s in run_sections.verdict_of_run(shown) if s.startswith("Alarm: ")]
        assert len(alarms) == sum(expected)
    # Long ago calibration was worse, and the alarm is over.
    values = np.concatenate([bad, good, good])
    again = run_of(tmp_path, np.tile(p, 3), values, np.tile(y, 3))
    assert [alarm.is_on for alarm in run_sections.alarms_of(again)] == [False, False]
    # A label that is not watched hides no alarm.
    part = run_of(tmp_path, p, bad, np.r_[y[:-9], [0.5] * 9])
    assert [alarm.is_on for alarm in run_sections.alarms_of(part)] == [None, True]
    assert run_sections.verdict_of_run(part)[0].startswith("Alarm: since about label")
    unknown = run_of(tmp_path, 5 * p[:9], 5 * p[:9], y[:9])
    assert [alarm.is_on for alarm in run_sections.alarms_of(unknown)] == [None, None]
    assert run_sections.verdict_of_run(unknown) == ()
    page.render(Report("unknown", "here", tuple(run_sections.of_run(unknown))))


def test_periods_of_different_times_are_shown_by_time(browser: Any, tmp_path: Path) -> None:
    timeline, (p, y) = Timeline(), samples(5000)
    for i in range(0, 5000, 250):
        part = slice(i, i + 250)
        timeline.add(i + 1.0 + np.arange(250), p[part], p[part] ** 2, y[part], now=1.7e9 + 36.0 * i)
    timeline.updated = 1.7e9 + 36.0 * 5000
    with Store(tmp_path / "days.db") as store:
        store.save({"timeline": timeline}, 5000)
        (chart,) = run_sections.of_run(run_sections.Run(store))[1].charts
    assert chart.x == "time"
    assert chart.series[0].columns["x"].tolist() == (1000.0 * timeline.periods().times).tolist()
    out = tmp_path / "days.html"
    run("report", store.path, "--out", out)
    assert "2023-11-17 00:13:20 UTC" in out.read_text()
    with opened(browser, out.as_uri()) as tab:
        assert tab.evaluate(DRAWN)["loss-of-run:0"][0]
        axis = "Bokeh.documents[0].roots()[0].below[0].type"
        assert tab.evaluate(f"() => {axis}") == "DatetimeAxis"


def test_a_user_may_have_states_of_these_names(tmp_path: Path) -> None:
    with Store(tmp_path / "own.db") as store:
        store.save({"timeline": PlattCalibrator(), "join": PlattCalibrator()}, 3)
    report = open_subject(tmp_path / "own.db", Given()).report()
    assert report.verdict == ()
    assert report.updated is None


def test_rows_keep_their_places_while_a_run_goes_on(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    orders = set()
    with Store(tmp_path / "run.db") as store:
        events: list[Any] = []
        for _ in range(6):
            key = rng.choice(["a", "b", "c"])
            events += [
                (p, y, 1.0, key) for p, y in zip(*samples(700, seed=len(events)), strict=True)
            ]
            if len(events) == 700:
                events += [(0.5, 1.0, 1.0, key) for key in "abc"]
            run_stream(events, HedgedCalibrator(), lambda *_: None, store)
            report = open_subject(store.path, Given()).report()
            names = [
                tuple(row[:2] if table.id == "weights" else row[0] for row in table.rows)
                for part in report.sections
                for table in part.tables
                if table.id in ("sizes", "weights", "mean-weights", "alarms", "status-numbers")
            ]
            orders.add(tuple(names))
    assert len(orders) == 1


@pytest.mark.parametrize("read", ["timeline", "join", "states"])
def test_a_page_shows_one_commit(late_db: Any, monkeypatch: pytest.MonkeyPatch, read: str) -> None:
    before = open_subject(late_db, Given()).report()
    with Store(late_db) as writer:

        def commit(*_: Any) -> None:
            """What a run commits while the page reads."""
            monkeypatch.undo()
            join = LabelJoin(1000)
            calibrator = PlattCalibrator()
            calibrator.learn_many([0.5, 0.6], [0, 1])
            states = {"timeline": Timeline(), "join": join, "key:null": calibrator}
            writer.save(states, 9000)

        def slow(of_library: Any) -> Any:
            def function(*given: Any) -> Any:
                commit()
                return of_library(*given)

            return function

        if read == "states":
            monkeypatch.setattr(Store, "sizes", slow(Store.sizes))
        else:
            kind = Timeline if read == "timeline" else LabelJoin
            monkeypatch.setattr(kind, "from_bytes", slow(kind.from_bytes))
        shown = open_subject(late_db, Given()).report()
        assert writer.offset == 9000
    assert shown.metrics == before.metrics
    assert page.update(shown) == page.update(before)


def test_metrics_for_prometheus(late_db: Any, table: Any) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    report = open_subject(late_db, Given()).report()
    with serving(lambda: report) as server:
        status, text = fetch_page(server, "/metrics")
        assert status == 200
        assert fetch_page(server, "/metrics", host="evil.example")[0] == 421
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    values = {(s.name, *s.labels.values()): s.value for f in families.values() for s in f.samples}
    with Store(late_db, read_only=True) as store:
        timeline = store.get("timeline")
    periods = timeline.periods()
    expected = [values.pop(name) for name in list(values) if name[0] == "streamcal_expected"]
    assert len(expected) == 18  # of six metrics
    assert values == {
        ("streamcal_events_total",): 7960,
        ("streamcal_lag_events",): 7,
        ("streamcal_waiting",): 40,
        ("streamcal_joined_total",): 3960,
        ("streamcal_expired_total",): 0,
        ("streamcal_duplicates_total",): 0,
        ("streamcal_labels_total",): 3960,
        ("streamcal_log_loss_sum_total", "score"): periods.raw.sum(),
        ("streamcal_log_loss_sum_total", "calibrated"): periods.calibrated.sum(),
        ("streamcal_calibration_alarms_total",): 0,
        ("streamcal_brier_gain", "mean"): timeline.comparison.total / timeline.comparison.weight,
        ("streamcal_brier_gain", "low"): timeline.comparison.interval(LEVEL)[0],
        ("streamcal_brier_gain", "high"): timeline.comparison.interval(LEVEL)[1],
        ("streamcal_unlabelled",): 40,
        ("streamcal_alarm", "worse"): 0,
        ("streamcal_alarm", "calibration"): 0,
        ("streamcal_last_update_seconds",): timeline.updated,
    }
    assert families["streamcal_events"].type == "counter"
    assert families["streamcal_waiting"].type == "gauge"
    assert all(f.documentation for f in families.values())

    hostile = 'p"\\\n{}'
    data = scored(50)
    text = exposition(metrics_of_table(data, hostile, "new"))
    (sums,) = [f for f in parser.text_string_to_metric_families(text) if "log_loss" in f.name]
    assert {s.labels["column"]: s.value for s in sums.samples} == {
        hostile: pytest.approx(log_losses(data.labels, data.raw).sum()),
        "new": pytest.approx(log_losses(data.labels, data.calibrated).sum()),
    }


# The file -----------------------------------------------------------------------------------------


def test_a_quiet_report_prints_nothing(table: Any) -> None:
    with table.open("a") as file:
        file.write("1.5,1,a\n")  # no probability
    of_table = ["--score", "p", "--prob", "p", "--label", "y", "--on-error", "skip"]
    command = ["report", table, *of_table, "--out", table.with_suffix(".html")]
    assert "1 row skipped" in run(*command).stderr
    assert run(*command, "--quiet").output == ""
    assert "there is no file" in run("report", "none.csv", "--quiet", status=2).stderr


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_a_report_of_a_table(table: Any, ending: str) -> None:
    path = table.with_suffix(f".{ending}")
    if ending == "ndjson":
        rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
        path.write_text("".join(f'{{"p": {p}, "y": {y}}}\n' for p, y, _ in rows))
    elif ending == "parquet":
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), path)
    out = path.with_suffix(".out.html")
    run("report", path, "--score", "p", "--prob", "p", "--label", "y", "--out", out)
    html = out.read_text()
    assert "1,200 rows with a label" in html
    assert len(html) < 3e6


# Several labels -----------------------------------------------------------------------------------


ANIMALS = ("cat", HOSTILE, "a label with a long name of several words")
COLUMNS = "p_cat=cat,p 2=" + HOSTILE + ",p 3=" + ANIMALS[2]


@pytest.fixture
def animals(tmp_path: Path) -> Any:
    """A table with three labels; the probability of the second is wrong. One row has no label."""
    path = tmp_path / "animals.csv"
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([2.0, 1.0, 1.0], 2000)
    y = [ANIMALS[rng.choice(3, p=row)] for row in truth]
    told = np.column_stack([truth[:, 0], truth[:, 1] ** 1.5, truth[:, 2]])
    pq.write_table(
        pa.table(
            {
                **dict(zip(("p_cat", "p 2", "p 3"), told.T, strict=True)),
                "animal": y,
                "at": np.arange(2000)[::-1] * 3600.0,
            }
        ),
        path.with_suffix(".parquet"),
    )
    lines = [
        ",".join([*map(repr, row), label, str(float(3600 * (1999 - i)))])
        for i, (row, label) in enumerate(zip(told.tolist(), y, strict=True))
    ]
    path.write_text("\n".join(["p_cat,p 2,p 3,animal,at", *lines, "0.5,0.25,0.25,,0", ""]))
    return path


def answers_in(path: Path) -> Iterator[tuple[str, dict[str, float]]]:
    for line in path.read_text().splitlines()[1:-1]:
        *p, label, _ = line.split(",")
        yield label, dict(zip(ANIMALS, map(float, p), strict=True))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_report_of_several_labels_has_the_numbers_of_the_metrics(
    animals: Path, ending: str
) -> None:
    top, each = ECE(multiclass="top-label"), ECE(multiclass="classwise")
    parts, split = CORP(multiclass="top-label"), CORP(multiclass="classwise")
    accuracy, brier = metrics.Accuracy(), BrierScore()
    losses = []
    for y, p in answers_in(animals):
        for metric in (top, each, parts, split, brier):
            metric.update(y, p)
        accuracy.update(y, max(p, key=p.__getitem__))
        losses.append(-math.log(p[y]))
    given = Given(label="animal", prob=COLUMNS)
    report = open_subject(animals.with_suffix(f".{ending}"), given).report()
    scores, reliability, _, labels, over_time, *_ = report.sections
    found = {(row[0], row[1]): row[2:] for row in scores.tables[0].rows}
    name = "predicted label"
    assert found["Accuracy", name][0] == pytest.approx(accuracy.get())
    assert found["Brier score", name] == pytest.approx(tuple(parts.split()))
    assert found["ECE", name][0] == pytest.approx(top.get())
    assert found["ECE", "each label"][0] == pytest.approx(each.get())
    assert found["log loss", "all labels"][0] == pytest.approx(np.mean(losses))
    assert found["Brier score", "all labels"][0] == pytest.approx(brier.get())
    assert {row[0]: row[4] for row in labels.tables[0].rows} == pytest.approx(each.by_label)
    errors = [row[4] for row in labels.tables[0].rows]
    assert errors == sorted(errors, reverse=True)
    assert labels.tables[0].rows[0][0] == HOSTILE
    assert {row[0]: row[5] for row in labels.tables[0].rows} == pytest.approx(split.by_label)
    assert [chart.title for chart in labels.charts] == list(ANIMALS)
    for chart in labels.charts:
        assert chart.summary.endswith(f" % of rows; MCB\xa0{split.by_label[chart.title]:.4f}")
    assert len(reliability.charts) == 2
    assert [series.name for series in over_time.charts[1].series] == ["all labels"]
    first, predicted, wrong, *_ = report.verdict
    assert first.startswith(
        f"The predicted label is right in {100 * accuracy.get():.0f} % of 2,000"
    )
    assert predicted.startswith("The probability of the predicted label ")
    assert wrong.startswith(
        f"1 of 3 labels is miscalibrated, {HOSTILE}: its probability is too low"
    )
    assert dict(report.facts)["Labels"] == "animal"
    assert HOSTILE not in page.render(report)
    text = exposition(report.metrics)
    assert 'streamcal_log_loss_sum_total{column="all labels"}' in text
    assert "streamcal_labels_total 2000.0" in text


def test_the_predicted_label_is_drawn(animals: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = animals.with_suffix(".png")
    result = run("plot", animals, "--prob", COLUMNS, "--label", "animal", "--out", out, "--json")
    assert json.loads(result.stderr)["drawn"] == 2000
    assert out.stat().st_size > 10_000
    two = ["--prob", "p_cat=a,p 2=b", "--prob", "p 3=b,at=a"]
    shown: dict[str, Any] = {}

    def keep(models: Any, **options: Any) -> None:
        shown.update(models)

    monkeypatch.setattr("streamcal.plot.ReliabilityDisplay.from_models", keep)
    animals.write_text("p_cat,p 2,p 3,at,y\n0.25,0.75,0.125,0.875,a\n0.5,0.5,1,0,b\n")
    run("plot", animals, *two, "--label", "y", "--out", out)
    assert shown == {
        "p_cat, …": (
            ["a", "b"],
            {"a": pytest.approx([0.25, 0.5]), "b": pytest.approx([0.75, 0.5])},
        ),
        "p 3, …": (["a", "b"], {"a": pytest.approx([0.875, 0]), "b": pytest.approx([0.125, 1])}),
    }
    for other, message in (
        ("p 3=b,at=c", "--prob must name columns of the same labels each time, here a, b, got"),
        ("p_cat=b,at=a", "--prob must begin with another column each time, got 'p_cat=b,at=a'"),
    ):
        again = [*two[:2], "--prob", other, "--label", "y", "--out", out]
        assert message in run("plot", animals, *again, status=2).stderr
    decided = run("decide", animals, "--prob", "p_cat,p 2", "--out", "-", status=1)
    assert (
        "`decide` takes one column of probabilities; `report`, `watch`, `check`" in decided.stderr
    )


def test_several_labels_have_times(animals: Path) -> None:
    given = Given(label="animal", prob=COLUMNS, time="at")
    report = open_subject(animals, given).report()
    assert all(chart.x == "time" for chart in report.sections[-1].charts)
    assert dict(report.facts)["Times"] == "at"


def test_a_report_of_several_labels_before_and_after(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    after = rng.dirichlet([2.0, 1.0, 1.0], 4000)
    before = after**3 / (after**3).sum(axis=1, keepdims=True)
    y = (rng.random((4000, 1)) > after.cumsum(axis=1)).sum(axis=1)
    path = tmp_path / "both.csv"
    header = "a,b,c,raw c,raw b,raw a,y"  # columns before are in another order
    numbers = np.column_stack([after, before[:, ::-1]])
    lines = [
        ",".join([*map(repr, row), "abc"[at]])
        for row, at in zip(numbers.tolist(), y.tolist(), strict=True)
    ]
    path.write_text("\n".join([header, *lines]))
    score = "raw a=a,raw b=b,raw c=c"
    report = open_subject(path, Given(score=score, label="y", prob="a,b,c")).report()
    scores, reliability, _, labels, over_time = report.sections
    found = {row[:2]: row[2:] for row in scores.tables[0].rows}
    rows = np.arange(4000)
    brier = [((p - np.eye(3)[y]) ** 2).sum(axis=1) for p in (before, after)]
    for about, expected in (
        (
            ("Accuracy", "predicted label"),
            [(p.argmax(axis=1) == y).mean() for p in (before, after)],
        ),
        (("log loss", "all labels"), [-np.log(p[rows, y]).mean() for p in (before, after)]),
        (("Brier score", "all labels"), [each.mean() for each in brier]),
    ):
        assert found[about] == pytest.approx(expected)
    assert found["MCB", "predicted label"][0] > 5 * found["MCB", "predicted label"][1]
    for p, name in ((before, "before"), (after, "after")):
        (line,) = [
            s for s in reliability.charts[0].series if s.name == f"the predicted label {name}"
        ]
        assert float(line.columns["x"][-1]) == pytest.approx(p.max())
        each = ECE(multiclass="classwise")
        for row, at in zip(p, y, strict=True):
            each.update("abc"[at], dict(zip("abc", row.tolist(), strict=True)))
        column = labels.tables[0].header.index(f"ECE {name}")
        assert {row[0]: row[column] for row in labels.tables[0].rows} == pytest.approx(
            each.by_label
        )
    assert [chart.title for chart in labels.charts] == ["a", "b", "c"]
    assert {s.name for s in labels.charts[0].legend if s.kind == "line"} == {
        *("perfectly calibrated", "before", "after")
    }
    names = [series.name for series in over_time.charts[0].series]
    assert names[:2] == ["the predicted label before", "the predicted label after"]
    change, right, earlier, later, each_label = report.verdict
    losses = [-np.log(p[rows, y]).mean() for p in (before, after)]
    assert change.startswith(f"Log loss {losses[0]:.4f} → {losses[1]:.4f}, lower in all 10 periods")
    gain = (brier[0] - brier[1]).mean()
    assert f"Calibration lowers the Brier score, by {gain:.4f} on average" in change
    assert right.startswith("The predicted label is right in ")
    assert "before calibration is over-confident" in earlier or "is too high" in earlier
    assert "after calibration shows no clear miscalibration" in later
    assert each_label.endswith(" Before calibration 3 of 3 labels did.")
    facts = dict(report.facts)
    assert facts["Scores"] == "raw a (a), raw b (b), raw c (c)"
    assert facts["Calibrated"] == "a, b, c"
    text = exposition(report.metrics)
    assert 'streamcal_log_loss_sum_total{column="all labels before"}' in text
    assert page.render(report)


def test_calibrated_labels_and_single_rows() -> None:
    rng = np.random.default_rng(1)
    truth = rng.dirichlet([2.0, 1.0, 1.0], 2000)
    y = (rng.random((2000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    answers = Answers(("a", "b", "c"), truth, y, 1.0 + np.arange(2000))
    assert verdict_of_labels(answers)[-1].startswith("No label by itself shows clear")
    many = rng.dirichlet(np.ones(300), 400)
    names = tuple(map(str, range(300)))
    _, _, _, labels, _ = of_labels(Answers(names, many, many.argmax(axis=1), 1.0 + np.arange(400)))
    assert "Of 300 labels, the 200 worst are shown" in labels.text
    counts = np.bincount(many.argmax(axis=1), minlength=300)
    most = np.argsort(-counts, kind="stable")[:12]
    assert [chart.title for chart in labels.charts] == [str(at) for at in sorted(most)]
    assert labels.text.endswith("of the 12 labels with the most rows; 288 are left out.")
    for n in (1, 2):
        few = Answers(("a", "b"), np.full((n, 2), 0.5), np.zeros(n, np.int64), 1.0 + np.arange(n))
        for each in (few, few._replace(before=np.full((n, 2), 0.25))):
            report = Report("few", "here", tuple(of_labels(each)), verdict_of_labels(each))
            assert page.render(report)


def test_the_order_of_labels_stays_when_others_become_frequent() -> None:
    """A live page whose charts change is loaded again."""
    p = np.full((9, 3), 0.25)
    for y in ([0, 0, 1, 1, 1, 2, 2, 2, 2], [2, 2, 1, 1, 1, 0, 0, 0, 0]):
        answers = Answers(("a", "b", "c"), p, np.array(y), 1.0 + np.arange(9))
        assert [chart.title for chart in of_labels(answers)[3].charts] == ["a", "b", "c"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("is_compared", [False, True])
def test_a_page_of_several_labels_fits(
    browser: Any, animals: Path, width: int, is_compared: bool
) -> None:
    out = animals.with_suffix(".html")
    columns = ["--prob", COLUMNS]
    if is_compared:
        header, *lines = animals.read_text().splitlines()
        lines = [f"{header},b 1,b 2,b 3", *(f"{line},0.25,0.25,0.5" for line in lines)]
        animals.write_text("\n".join(lines))
        columns += ["--score", f"b 1=cat,b 2={HOSTILE},b 3={ANIMALS[2]}"]
    result = run("report", animals, *columns, "--label", "animal", "--out", out)
    assert "The predicted label is right in" in result.stderr
    with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(CUT) == []
        titles = tab.locator(".panel figcaption").all_inner_texts()
        assert sorted(titles) == sorted(ANIMALS)
        assert tab.locator("#labels .legend").count() == 1
        (drawn,) = {tuple(map(round, frame)) for frame in tab.evaluate(FRAMES)}  # of all panels
        assert drawn[0] == pytest.approx(drawn[1], abs=2)
        assert drawn[0] > (80 if width == 390 else 150)
        rows = {panel.bounding_box()["y"] for panel in tab.locator(".panel").all()}
        assert len(rows) == (2 if width == 390 else 1)


@pytest.mark.parametrize("command", ["report", "watch"])
@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--prob", COLUMNS], 2, "is not a store, and a table needs --label"),
        (["--prob", "a,,b", "--label", "animal"], 2, "--prob must be a column, or columns as in"),
        (["--prob", "p_cat,p_cat=b", "--label", "animal"], 2, "each column and each label once"),
        (
            ["--prob", "p 2,p 3", "--label", "animal", "--key", "p_cat"],
            2,
            "--key does not go with several columns of --prob, here p 2, p 3",
        ),
        (
            ["--prob", "p 2,p 3", "--label", "animal", "--score", "p_cat"],
            2,
            "--score must have a column for each label of --prob, here p 2, p 3, as in",
        ),
        (
            ["--prob", "p 2,p 3", "--label", "animal", "--score", "p 3,p 2"],
            2,
            "--score must name other columns than --prob, got p 2, p 3",
        ),
        (
            ["--prob", "p 2,p 3", "--label", "animal", "--score", "a,a=b"],
            2,
            "--score must name each column and each label once, got 'a,a=b'",
        ),
        (["--prob", "p 2,p 3", "--label", "animal", "--key", "at"], 2, "--key does not go with"),
        (["--prob", "p 2,p 3", "--label", "animal", "--segment", "at"], 2, "--segment does not go"),
        (["--prob", "p_cat,no", "--label", "animal"], 1, "has no column `no`"),
        (
            ["--prob", "p_cat=cat,p 2=dog", "--label", "animal"],
            1,
            "`animal` must be one of the labels of --prob, cat, dog, got",
        ),
    ],
)
def test_what_is_wrong_with_several_labels(
    animals: Path, command: str, options: Any, status: int, message: str
) -> None:
    result = run(command, animals, *options, status=status)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


# Segments of tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_has_its_segments(table: Any, ending: str) -> None:
    lines = table.read_text().splitlines()
    cells = [f"{line},{'' if i % 4 else i % 3},{i % 2}" for i, line in enumerate(lines[1:])]
    table.write_text("\n".join(["p,y,key,rank,empty labels", *cells, ""]))
    path = table.with_suffix(f".{ending}")
    if ending == "parquet":
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), path)
    given = Given("p", "y", "p", segment=("key", "rank", "empty labels"))
    report = open_subject(path, given).report()
    (section,) = [part for part in report.sections if part.id == "segments"]
    shown = {str(row[0]): row[1] for row in section.tables[1].rows}
    assert shown["key = plain"] == 800
    assert shown["rank = (empty)"] == 900
    assert shown["rank = 2"] == 100
    assert shown["rank = 2, empty labels = 0"] == 100
    assert shown[f"key = {HOSTILE}"] == 400
    assert [s.startswith("By segment, p ") for s in report.verdict].count(True) == 1
    assert dict(report.facts)["Segments"] == "key, rank, empty labels"
    assert HOSTILE not in page.render(report)


def test_a_store_has_the_segments_of_its_run(table: Any) -> None:
    columns = ["--score", "p", "--label", "y", "--segment", "key"]
    out, store = table.with_name("c.csv"), table.with_name("run.db")
    run("calibrate", table, *columns, "--out", out, "--store", store)
    found = open_subject(store, Given()).report()
    expected = open_subject(out, Given("p", "y", segment=("key",))).report()
    for report in (found, expected):
        assert [part.id for part in report.sections].count("segments") == 1
    of_run, of_table = ([s for s in r.verdict if "By seg" in s] for r in (found, expected))
    assert of_run == of_table != []


def test_the_page_stands_alone_and_escapes(run_db: Any) -> None:
    out = run_db.with_suffix(".html")
    run("report", run_db, "--out", out)
    html = out.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    assert unescape(policy).startswith("default-src 'none'")
    assert unescape(policy).endswith("connect-src 'none'")
    head, _, rest = html.partition("<body>")
    body, _, scripts = rest.partition('<script type="application/json" id="charts">')
    assert re.findall(r'href="([^"#]+)"', head + body) == ["data:,"]
    assert "src=" not in head + body
    assert HOSTILE not in html
    assert "&lt;script&gt;" in body
    assert "<" not in scripts[: scripts.index("</script>")]


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="names of files are text")
def test_a_name_of_a_file_that_is_not_text(table: Any, tmp_path: Path) -> None:
    copy, out = tmp_path / os.fsdecode(b"a\xff.csv"), tmp_path / "page.html"
    shutil.copy(table, copy)
    run("report", copy, "--score", "p", "--prob", "p", "--label", "y", "--out", out)
    assert "a?.csv" in out.read_text()


def test_no_two_elements_share_an_id(run_db: Any, kinds_db: Any) -> None:
    for store in (run_db, kinds_db):
        build = open_subject(store, Given()).report
        ids = re.findall(r'\sid="([^"]*)"', page.render(build(), live=True).partition("<script")[0])
        assert len(ids) == len(set(ids)) > 8
        assert set(page.update(build())["html"]) < set(ids)


def test_an_unfinished_run_shows_what_is_committed(table: Any) -> None:
    lines = table.read_text().splitlines(keepends=True)
    lines[701] = "oops,1,plain\n"
    table.write_text("".join(lines))
    store, out = table.with_name("run.db"), table.with_name("c.csv")
    options = ["--score", "p", "--label", "y", "--store", store, "--out", out]
    run("calibrate", table, *options, status=1)
    partial = out.with_name("c.csv.partial")
    with open(partial, "a") as file:  # what the next batch has written before it is committed
        file.write('0.5,1,plain,0.123\n0.5,1,"pla')
    run("report", store, "--out", table.with_name("r.html"))
    html = table.with_name("r.html").read_text()
    assert "700 rows with a label" in html
    assert "not finished yet, at row 700" in html

    partial.unlink()
    run("report", store, "--out", table.with_name("r.html"))
    html = table.with_name("r.html").read_text()
    assert "is not shown: No such file" in html
    assert "Calibration maps" in html


OF_TABLE = ["scores.csv", "--score", "p", "--label", "y", "--prob", "p"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["missing.db"], 2, "there is no file"),
        (["scores.csv"], 2, "scores.csv is not a store, and a table needs --score and --label"),
        (["scores.csv", "--score", "p", "--label", "y", "--out", "no/r.html"], 2, "no folder no"),
        (
            ["scores.csv", "--score", "p", "--label", "y"],
            1,
            "no column `calibrated`: run `streamcal calibrate scores.csv --score p --label y --out",
        ),
        (
            ["t.pq", "--score", "a score", "--label", "y"],
            1,
            "calibrate t.pq --score 'a score' --label y --out calibrated.parquet` first",
        ),
        (["scores.csv", "--score", "p", "--label", "y", "--prob", "no"], 1, "its columns are"),
        ([*OF_TABLE, "--key", "no"], 1, "has no column `no`"),
        (["run.db", "--score", "p"], 2, "--score does not apply to a store: run.db has"),
        (["run.db", "--prob", "calibrated"], 2, "--prob does not apply to a store"),
        (["run.db", "--key", "key"], 2, "--key does not apply to a store"),
        (["run.db", "--format", "csv"], 2, "--format does not apply to a store"),
        (["run.db", "--on-error", "skip"], 2, "--on-error does not apply to a store"),
        (["watch", "run.db", "--label", "y"], 2, "--label does not apply to a store"),
        (["scores.csv", "--score", "p", "--label", "y", "--prob", "y"], 0, ""),
        (["scores.csv", "--score", "p", "--label", "key", "--prob", "p"], 1, "must be 0 or 1"),
        (["scores.csv", "--score", "y", "--label", "y", "--prob", "big"], 1, "a probability"),
        (
            ["empty.csv", "--score", "p", "--label", "y", "--prob", "p"],
            1,
            "`streamcal check --expected`",
        ),
        (["bad.db"], 1, "bad.db is no store of states"),
        ([*OF_TABLE, "--out", "./scores.csv"], 2, "is a file of the report"),
        ([*OF_TABLE, "--segment", "land"], 1, "has no column `land`"),
        ([*OF_TABLE, *["--segment", "key"] * 2], 2, "--segment must name different columns"),
        (["run.db", "--segment", "key"], 2, "--segment does not apply to a store"),
        ([*OF_TABLE, "--out", "folder"], 1, "Is a directory"),
        (["none.csv", *OF_TABLE[1:]], 1, "is empty"),
        (["nan.csv", *OF_TABLE[1:]], 1, "row 1: `p` must be a finite number, got 'nan'"),
        (["watch", "-", *OF_TABLE[1:5]], 2, "can't be watched"),
    ],
)
def test_what_is_wrong_is_one_line(
    table: Any, monkeypatch: pytest.MonkeyPatch, arguments: Any, status: int, message: str
) -> None:
    import sqlite3

    monkeypatch.chdir(table.parent)
    lines = table.read_text().splitlines()
    table.write_text("\n".join([f"{lines[0]},big", *(f"{line},7" for line in lines[1:]), ""]))
    table.with_name("empty.csv").write_text("p,y\n")
    database = sqlite3.connect("bad.db")
    database.execute("CREATE TABLE a (b)")
    database.close()
    Store("run.db").close()
    table.with_name("none.csv").touch()
    pq.write_table(pa.table({"a score": [0.5], "y": [1]}), "t.pq")
    table.with_name("nan.csv").write_text("p,y\nnan,1\n")
    table.with_name("folder").mkdir()
    before = table.read_text()
    command = [] if arguments[0] == "watch" else ["report"]
    result = run(*command, *arguments, status=status)
    assert message in result.stderr
    assert table.read_text() == before
    if status:
        assert result.stderr.count("\n") == 1
        assert not table.with_name("report.html").exists()


def test_a_store_that_holds_nothing_and_a_page_that_is_there(tmp_path: Path) -> None:
    store, out = tmp_path / "none.db", tmp_path / "r.html"
    out.write_text("older")
    with Store(store):
        pass
    run("report", store, "--out", out)
    html = out.read_text()
    assert "0 samples of the stream are learned. States: 0." in html
    assert html.endswith("</html>")


# The server ---------------------------------------------------------------------------------------


def tiny(n: Any, structure: Any = ("a",), source: str = "here") -> Any:
    table = Table("numbers", "Numbers", ("Key", "n"), tuple((name, n) for name in structure))
    return Report("Tiny", source, (Section("s", "S", f"n is {n}", (), (table,)),))


@contextmanager
def serving(
    build: Any, stamp: Any = None, *, host: str = watch.HOST, token: Any = None, **options: Any
) -> Iterator[Any]:
    source = watch.Source(build, stamp or object, **options)
    server = watch.Server(source, host=host, token=token)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch_page(server: Any, path: Any, host: Any = None) -> tuple[Any, Any]:
    connection = http.client.HTTPConnection(watch.HOST, server.server_port)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_server_answers_its_own_page_only() -> None:
    with serving(lambda: tiny(1)) as server:
        assert server.server_address[0] == "127.0.0.1"
        status, html = fetch_page(server, "/")
        assert status == 200
        assert 'id="live"' in html
        assert "connect-src" in html
        assert fetch_page(server, "/", host=f"localhost:{server.server_port}")[0] == 200
        for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1", ""):
            status, text = fetch_page(server, "/data.json", host=host)
            assert status == 421
            assert "n is 1" not in text
        mine = f"{watch.HOST}:{server.server_port}"
        for hosts in ((mine, "evil.example"), ("evil.example", mine), (mine, mine), ()):
            connection = http.client.HTTPConnection(watch.HOST, server.server_port)
            connection.putrequest("GET", "/data.json", skip_host=True)
            for host in hosts:
                connection.putheader("Host", host)
            connection.endheaders()
            assert connection.getresponse().status == 421
            connection.close()
        for line in ("bad header", "bad header\r\nHost: evil.example", " Host: evil.example"):
            with socket.create_connection((watch.HOST, server.server_port)) as raw:
                raw.sendall(f"GET / HTTP/1.1\r\nHost: {mine}\r\n{line}\r\n\r\n".encode())
                assert b" 421 " in raw.makefile("rb").readline()
        assert fetch_page(server, "/../etc/passwd")[0] == 404
        assert fetch_page(server, "http://[bad/", host=f"localhost:{server.server_port}")[0] == 404
        version = page.version(tiny(1))
        assert json.loads(fetch_page(server, f"/data.json?after={version}")[1]) == {
            "version": version
        }
        update = json.loads(fetch_page(server, "/data.json?after=older")[1])
        assert update["html"]["s-text"] == "n is 1"
        assert update["structure"] == page.structure(tiny(1)) == page.structure(tiny(2))
        assert update["version"] == version != page.version(tiny(2))
        assert page.structure(tiny(1)) == page.structure(tiny(1, ("a", "b")))
        further = tiny(1, source="row 2")
        assert page.structure(further) == page.structure(tiny(1))
        assert page.version(further) != version
        assert page.update(further)["html"]["source"] == "row 2"


TOKEN = "a-token.of_20~letters"


def asked(server: Any, path: str, **headers: str) -> tuple[int, Any, str]:
    """Return status, headers and text of an answer."""
    connection = http.client.HTTPConnection(watch.HOST, server.server_port)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["0.0.0.0", watch.HOST])
def test_a_server_with_a_token_answers_who_has_it(host: str) -> None:
    with serving(lambda: tiny(1), host=host, token=TOKEN) as server:
        assert server.server_address[0] == host
        assert server.url == f"http://{host}:{server.server_port}/"
        wrong: list[tuple[str, dict[str, str]]] = [
            *((path, {}) for path in ("/", "/data.json", "/metrics", "/nothing", "/?token=")),
            *((f"/?token={each}", {}) for each in (TOKEN[:-1], f"{TOKEN}x", TOKEN.upper(), "%ff")),
            *((f"/?token={TOKEN}&token={TOKEN}", {}), (f"/metrics?token={TOKEN}", {})),
            *(("/", {"Authorization": each}) for each in ("Bearer", f"Basic {TOKEN}", "Bearer é")),
            *(("/", {"Authorization": f"Bearer {each}"}) for each in (TOKEN[1:], f"{TOKEN} x")),
            *(("/", {"Cookie": f"{server.cookie}={each}"}) for each in ("", "x", TOKEN, '"')),
            ("/", {"Cookie": f"another={server.secret}"}),
            ("/", {"Cookie": f"{server.cookie}={server.secret}", "Authorization": "Bearer x"}),
        ]
        for path, headers in wrong:
            status, answered, text = asked(server, path, **headers)
            assert status == 401, (path, headers)
            assert answered["WWW-Authenticate"] == 'Bearer realm="streamcal"'
            assert "n is 1" not in text
            assert answered["Set-Cookie"] is None

        for path in ("/", "/data.json", "/metrics"):  # any name: a proxy may have another
            headers = {"Authorization": f"Bearer {TOKEN}", "Host": "stream.example"}
            assert asked(server, path, **headers)[0] == 200

        status, answered, text = asked(server, f"/?token={TOKEN}")
        assert (status, answered["Location"], text) == (303, "./", "")
        kept, *attributes = answered["Set-Cookie"].split("; ")
        assert attributes == ["HttpOnly", "SameSite=Lax"]
        assert TOKEN not in kept
        for path in ("/", "/data.json", "/metrics"):
            assert asked(server, path, Cookie=f"theme=dark; {kept}")[0] == 200
        # The address with the token stays in no history, however often it is opened.
        for headers in ({"Cookie": kept}, {"Authorization": f"Bearer {TOKEN}"}):
            assert asked(server, f"/?token={TOKEN}", **headers)[0] == 303
        with serving(lambda: tiny(1), token=TOKEN) as another:
            assert asked(another, "/", Cookie=kept)[0] == 401
        connection = http.client.HTTPConnection(watch.HOST, server.server_port)
        connection.putrequest("GET", "/metrics", skip_host=True)
        connection.putheader("Authorization", f"Bearer {TOKEN}")
        connection.endheaders()
        assert connection.getresponse().status == 421
        connection.close()


def test_a_server_on_a_network_needs_a_token() -> None:
    for host in ("0.0.0.0", "::", "", "192.0.2.1", "example"):
        with pytest.raises(ValueError, match=f"must be given for --host {host}$"):
            watch.Server(watch.Source(lambda: tiny(1), object), host=host)
    for token in ("", "short", "x" * 15, "x" * 20 + "é", "x" * 20 + " ", "x" * 20 + "\n"):
        for host in ("0.0.0.0", watch.HOST):
            with pytest.raises(ValueError, match="must be at least 16 letters") as error:
                watch.Server(watch.Source(lambda: tiny(1), object), host=host, token=token)
            assert not token or token not in str(error.value)
    with serving(lambda: tiny(1), host="localhost") as server:
        assert server.server_address[0] == watch.HOST
        assert fetch_page(server, "/")[0] == 200


def test_a_server_listens_on_an_address_of_ipv6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with serving(lambda: tiny(1), host="::1", token=TOKEN) as server:
        assert server.url == f"http://[::1]:{server.server_port}/"
        connection = http.client.HTTPConnection("::1", server.server_port)
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert connection.getresponse().status == 200
        connection.close()


def test_watch_takes_host_and_token(run_db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr(
        watch.Server,
        "serve_forever",
        lambda server, **_: served.append((server.host, server.token)),
    )
    monkeypatch.delenv("STREAMCAL_TOKEN", raising=False)
    text = run("watch", run_db, "--port", 0, "--host", "0.0.0.0", "--token", TOKEN).stderr
    assert re.search(r"http://0\.0\.0\.0:\d+/ shows .* to those who open it with \?token=;", text)
    assert TOKEN not in text
    run("watch", run_db, "--port", 0)
    monkeypatch.setenv("STREAMCAL_TOKEN", TOKEN)
    run("watch", run_db, "--port", 0, "--host", "0.0.0.0")
    run("watch", run_db, "--port", 0)
    assert served == [
        ("0.0.0.0", TOKEN),
        (watch.HOST, None),
        ("0.0.0.0", TOKEN),
        (watch.HOST, TOKEN),
    ]
    monkeypatch.delenv("STREAMCAL_TOKEN")
    error = run("watch", run_db, "--host", "0.0.0.0", status=2).stderr
    assert error == ("streamcal: --token (or STREAMCAL_TOKEN) must be given for --host 0.0.0.0\n")
    error = run("watch", run_db, "--host", "0.0.0.0", "--token", "guess", status=2).stderr
    assert "must be at least 16 letters" in error
    assert "guess" not in error
    error = run("watch", run_db, "--host", "nowhere.invalid", "--token", TOKEN, status=2).stderr
    assert error.startswith("streamcal: --port 8765 of nowhere.invalid can't be used: ")


def test_a_report_is_computed_when_something_has_changed_and_not_all_the_time() -> None:
    now, stamp, computed = [0.0], [0], []

    def build() -> Any:
        computed.append(stamp[0])
        now[0] += 2.0
        return tiny(stamp[0])

    source = watch.Source(build, lambda: stamp[0], clock=lambda: now[0])
    assert source.report().sections[0].text == "n is 0"
    stamp[0] = 1
    assert source.report().sections[0].text == "n is 1"  # the time of the first one is no measure
    stamp[0] = 2
    assert source.report().sections[0].text == "n is 1"  # it took 2 s: rest for 10
    now[0] += 10.0
    assert source.report().sections[0].text == "n is 2"
    now[0] += 100.0
    source.report()
    assert computed == [0, 1, 2]


def test_what_cannot_be_reported_is_not_tried_all_the_time() -> None:
    now, stamp, computed = [0.0], [0], []

    def build() -> Any:
        computed.append(stamp[0])
        now[0] += 2.0
        if stamp[0] == 1:
            raise ValueError("row 1,000,000 is bad")
        return tiny(stamp[0])

    source = watch.Source(build, lambda: stamp[0], clock=lambda: now[0])
    source.report()
    stamp[0] = 1
    for _ in range(3):
        with pytest.raises(ValueError, match="is bad"):
            source.report()
    now[0] += 10.0
    with pytest.raises(ValueError, match="is bad"):
        source.report()
    stamp[0] = 0
    now[0] += 10.0
    assert source.report().sections[0].text == "n is 0"
    assert computed == [0, 1, 1, 0]


def test_a_store_damaged_while_served_is_reported(tmp_path: Path) -> None:
    def build() -> None:
        raise ValueError("the store is damaged")

    with serving(build) as server:
        assert fetch_page(server, "/") == (503, "the store is damaged\n")


def test_watch_ends_with_control_c_and_says_what_is_wrong_with_a_port(run_db: Any) -> None:
    command = [sys.executable, "-m", "streamcal.cli", "watch", str(run_db), "--port"]
    # A run of the tests in the background ignores Ctrl-C, and so do the processes that it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen([*command, "0"], stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    try:
        line = process.stderr.readline()
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", line)[1])
        taken = run("watch", run_db, "--port", port, status=2)
        assert taken.stderr == f"streamcal: --port {port} of 127.0.0.1 can't be used: {IN_USE}\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=300)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
    assert "--port" in run("watch", run_db, "--port", "70000", status=2).output


IN_USE = "Address already in use"


def test_a_table_that_is_replaced_by_a_pipe_is_not_waited_for(table: Any) -> None:
    subject = open_subject(table, Given("p", "y", "p"), quiet=True)
    subject.watched = True
    with serving(subject.report, subject.stamp, clock=lambda: 0.0) as server:
        assert fetch_page(server, "/")[0] == 200
        aside = table.rename(table.with_name("aside.csv"))
        os.mkfifo(table)
        for path in ("/", "/metrics", "/data.json"):
            status, text = fetch_page(server, path)
            assert (status, text) == (
                503,
                f"{table} is no file on a disk: it can be read only once\n",
            )
        aside.replace(table)
        assert fetch_page(server, "/")[0] == 200


def test_a_pipe_is_not_watched(tmp_path: Path) -> None:
    pipe = tmp_path / "p.csv"
    os.mkfifo(pipe)
    error = run("watch", pipe, "--score", "p", "--label", "y", status=2).stderr
    assert error == f"streamcal: {pipe} is no file on a disk: it can be read only once\n"


def test_a_pipe_in_place_of_the_output_of_a_run_is_not_read(run_db: Any) -> None:
    with Store(run_db, read_only=True) as store:
        out = Path(store.notes["sink"]["out"])
    out.unlink()
    os.mkfifo(out)
    report = open_subject(run_db, Given(), quiet=True).report()
    assert f"{out} is not shown: {out} is no file on a disk" in report.sections[0].text


def test_watch_prints_skipped_rows_once(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []

    def serve(server: Any, **options: Any) -> None:
        for _ in range(2):
            with table.open("a") as file:
                file.write("1.5,1,a\n")  # no probability
            reports.append(server.source.report())

    monkeypatch.setattr(watch.Server, "serve_forever", serve)
    monkeypatch.setattr(watch, "_PAUSE_FACTOR", 0.0)
    with table.open("a") as file:
        file.write("1.5,1,a\n0.5,1,a\n")
    of_table = ["--score", "p", "--prob", "p", "--label", "y", "--on-error", "skip"]
    printed = run("watch", table, *of_table, "--port", 0).stderr
    assert reports[0] is not reports[1]
    assert re.findall(r".* skipped$", printed, re.M) == ["1 row skipped"]


# A browser ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a headless Chromium."""
    pytest.importorskip("playwright.sync_api", reason="the page is not tried: no playwright")
    try:
        with started() as browser:
            yield browser
    except NoBrowserError as error:
        pytest.skip(f"the page is not tried in a browser: {error}")


@contextmanager
def opened(browser: Any, url: Any, **options: Any) -> Iterator[Any]:
    """Open a page; an error, a warning or a request to elsewhere fails the test."""
    tab = browser.new_page(**options)
    wrong: list[str] = []
    tab.on("console", lambda m: wrong.extend([m.text] * (m.type in ("error", "warning"))))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    own = ("data:", "blob:", url)
    tab.on("request", lambda r: wrong.extend([r.url] * (not r.url.startswith(own))))
    try:
        tab.goto(url)
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        yield tab
        assert wrong == []
    finally:
        tab.close()


FRAMES = """() => Bokeh.documents.map((d) => d.roots()[0]).filter(
    (p) => p.renderers[0].data_source.name.startsWith("label-")).map(
    (p) => [p.inner_width, p.inner_height])"""
DRAWN = """() => Object.fromEntries(Bokeh.documents.flatMap((d) => d.roots()[0].renderers.map((r) =>
    [r.data_source.name, [r.visible, Object.fromEntries(Object.entries(r.data_source.data).map(
        ([name, column]) => [name, Array.from(column)]))]])))"""


def test_a_browser_shows_the_numbers(browser: Any, run_db: Any) -> None:
    out = run_db.with_suffix(".html")
    run("report", run_db, "--out", out)
    build = open_subject(run_db, Given()).report
    expected = build()
    with opened(browser, out.as_uri()) as tab:
        drawn = tab.evaluate(DRAWN)
        assert len(drawn) == sum(len(chart.series) for chart in expected.charts)
        for chart in expected.charts:
            for i, series in enumerate(chart.series):
                visible, columns = drawn[f"{chart.id}:{i}"]
                assert columns == {k: v.tolist() for k, v in series.columns.items()}
                assert visible == (series.choice in ("", *chart.choices[:1]))
        for part in expected.sections:
            assert tab.inner_text(f"#{part.id} h2") == part.title
            for table in part.tables:
                cells = tab.eval_on_selector_all(
                    f"#{table.id} tbody td",
                    "all => all.map((td) => td.dataset.value ?? td.textContent)",
                )
                flat = [cell for row in table.rows for cell in row]
                assert [str(cell) for cell in flat] == [
                    cell if isinstance(value, str) else str(type(value)(cell))
                    for cell, value in zip(cells, flat, strict=True)
                ]
        assert tab.title() == "Calibration: run.db"  # no script of a key has run
        assert tab.locator("#staircase option").all_inner_texts() == [*expected.charts[-1].choices]
        # Each chart is drawn, as wide as its place.
        for chart in expected.charts:
            box = tab.locator(f"#{chart.id} .chart").bounding_box()
            inner = tab.locator(f"#{chart.id} .bk-Figure").bounding_box()
            assert inner["width"] == pytest.approx(box["width"], abs=2)
            assert inner["height"] > 300
        tab.select_option("#staircase select", index=1)
        drawn = tab.evaluate(DRAWN)
        chart = expected.charts[-1]
        assert [drawn[f"staircase:{i}"][0] for i in range(len(chart.series))] == [
            series.choice in ("", chart.choices[1]) for series in chart.series
        ]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_a_desk_by_day_and_night(
    browser: Any, kinds_db: Any, width: int, scheme: str
) -> None:
    out = kinds_db.with_suffix(".html")
    run("report", kinds_db, "--out", out)
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, out.as_uri(), **options) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(CONTRAST) > 4.5
        before = tab.evaluate(LINE)
        tab.emulate_media(color_scheme="dark" if scheme == "light" else "light")
        assert tab.evaluate(CHANGES, before)
        assert tab.evaluate(CONTRAST) > 4.5
        pdf = tab.pdf(format="A4")
        assert pdf.startswith(b"%PDF")


def test_of_a_large_number_it_is_enough_to_know_that() -> None:
    table = Table("t", "T", ("name", "error"), (("a", 10.5), ("b", 9.5)), most={1: 10.0})
    html = page.render(Report("title", "source", (Section("s", "S", "text", (), (table,)),)))
    assert 'data-value="10.5">&gt; 10</td>' in html
    assert 'data-value="9.5">9.5000</td>' in html


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_everybody_can_use_it(
    browser: Any, table: Any, animals: Any, late_db: Any, kinds_db: Any, width: int, scheme: str
) -> None:
    pytest.importorskip("axe_playwright_python")
    out = table.with_suffix(".html")
    columns = ["--score", "p", "--label", "y", "--prob", "p", "--key", "key", "--segment", "key"]
    view = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    labels = [animals, "--prob", COLUMNS, "--label", "animal"]
    for subject in ([table, *columns], labels, [late_db], [kinds_db]):
        run("report", *subject, "--out", out)
        with opened(browser, out.as_uri(), **view) as tab:
            assert violations(tab) == []
            assert tab.evaluate(CUT) == []
    build = open_subject(late_db, Given()).report
    with serving(build) as server, opened(browser, server.url, **view) as tab:
        assert violations(tab) == []
        assert tab.evaluate(CUT) == []


def test_nothing_is_cut_on_paper(
    browser: Any, table: Any, animals: Any, late_db: Any, kinds_db: Any
) -> None:
    long, out = table.with_name("long.csv"), table.with_suffix(".html")
    names = ["probability_before_calibration", "y", "country_of_the_visitor_as_text"]
    text = table.read_text().replace("p,y,key", ",".join(names), 1).replace("plain", "of " * 30)
    long.write_text(text)
    columns = ["--score", names[0], "--prob", names[0], "--label", "y"]
    pages: list[tuple[Path, list[str]]] = [
        (table, ["--score", "p", "--prob", "p", "--label", "y"]),
        (long, [*columns, "--key", names[2], "--segment", names[2]]),
        (animals, ["--prob", COLUMNS, "--label", "animal"]),
        (late_db, []),
        (kinds_db, []),
    ]
    a4 = {"width": 688, "height": 1000}  # 210 mm less the margins, in pixels of CSS
    for source, options in pages:
        run("report", source, *options, "--out", out)
        with opened(browser, out.as_uri(), viewport=a4) as tab:
            tab.emulate_media(media="print")
            assert tab.evaluate("document.documentElement.scrollWidth") == 688
            assert tab.evaluate(CUT) == []


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_sheets_are_full(browser: Any, table: Any, width: int) -> None:
    out = table.with_suffix(".html")
    run("report", table, "--score", "p", "--prob", "p", "--label", "y", "--out", out)
    with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
        sheets = tab.pdf(format="A4").count(b"/Type /Page\n")
    assert (
        1 <= sheets <= 5
    )  # the verdict and the scores; two charts on each of three; the last chart


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_twelve_labels_fit_a_sheet(browser: Any, tmp_path: Path, width: int) -> None:
    rng, names = np.random.default_rng(5), [f"label {at}" for at in range(14)]
    p = rng.dirichlet(np.ones(14), 500)
    y = (rng.random((500, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(0, 13)
    lines = [",".join([*map(repr, row), names[at]]) for row, at in zip(p.tolist(), y, strict=True)]
    source, out = tmp_path / "many.csv", tmp_path / "many.html"
    source.write_text("\n".join([",".join([*names, "y"]), *lines]))
    run("report", source, "--prob", ",".join(names), "--label", "y", "--out", out)
    with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
        whole = tab.pdf(format="A4").count(b"/Type /Page\n")
        tab.evaluate("document.querySelector('#labels').style.display = 'none'")
        assert whole == tab.pdf(format="A4").count(b"/Type /Page\n") + 1 <= 6


@pytest.mark.parametrize("width", [390, 1280])
def test_columns_with_long_names_are_not_cut(browser: Any, table: Any, width: int) -> None:
    long, out = table.with_name("long.csv"), table.with_suffix(".html")
    names = ["probability_of_default_before_calibration_version_2_final", "y", "country_of_birth"]
    long.write_text(table.read_text().replace("p,y,key", ",".join(names), 1))
    columns = ["--score", names[0], "--prob", names[0], "--label", "y", "--segment", names[2]]
    run("report", long, *columns, "--key", names[2], "--out", out)
    with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
        tab.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(CUT) == []


def test_segments_fit_a_phone(browser: Any, table: Any) -> None:
    out = table.with_suffix(".html")
    of_table = ["--score", "p", "--prob", "p", "--label", "y", "--out", out]
    run("report", table, *of_table, "--segment", "key")
    with opened(browser, out.as_uri(), viewport={"width": 390, "height": 800}) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert tab.evaluate(CUT) == []
        assert "key = plain" in tab.inner_text("#worst-segments")


FRAME = """() => Bokeh.index.roots.filter((view) => view.model.name === "square").map(
    (view) => [view.frame.bbox.width, view.frame.bbox.height])"""
CUT = """() => [...document.querySelectorAll("th, td, p, h1, h2, dd, figure, .legend")].filter(
    (part) => part.checkVisibility() && part.getBoundingClientRect().width > 0
        && part.getBoundingClientRect().right > document.documentElement.clientWidth
  ).map((part) => part.textContent)"""


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_cut_and_squares_are_square(
    browser: Any, table: Any, late_db: Any, width: int
) -> None:
    calibrated, out = table.with_name("c.csv"), table.with_suffix(".html")
    options = ["--score", "p", "--label", "y", "--key", "key"]
    run("calibrate", table, *options, "--out", calibrated)
    for subject in ([calibrated, *options], [late_db]):
        run("report", *subject, "--out", out)
        with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
            tab.wait_for_function(
                f"() => {{const all = ({FRAME})(); return all.length === 1 &&"
                " Math.abs(all[0][0] - all[0][1]) <= 2}"
            )
            assert tab.evaluate(FRAME)[0][0] > 200
            assert tab.evaluate("document.documentElement.scrollWidth") == width
            assert tab.evaluate(CUT) == []


@pytest.mark.parametrize(
    ("last", "labels"),
    [("9999-12-31", ["0001-01-01", "9999-01-01"]), ("0001-03-05", ["0001-01-01", "0001-03-05"])],
)
def test_early_years_are_written_in_full(
    browser: Any, tmp_path: Path, last: str, labels: list[str]
) -> None:
    table = tmp_path / "early.csv"
    rows = [f"{'0001-01-01' if i < 300 else last},{i / 600},{i % 2}" for i in range(600)]
    table.write_text("\n".join(["at,p,y", *rows]))
    options = ["--score", "p", "--prob", "p", "--label", "y", "--time", "at"]
    run("report", table, *options, "--out", table.with_suffix(".html"))
    with opened(browser, table.with_suffix(".html").as_uri()) as tab:
        shown = tab.locator("#mcb-over-time text").all_text_contents()
        assert sorted({text for text in shown if text.count("-") == 2}) == labels
        assert not {"1900", "Jan 1"} & set(shown)


# Words of headers that stand in two lines, and labels of axes that touch each other.
BROKEN = """() => [...document.querySelectorAll("th:not(:has(button))")].flatMap((th) => {
  const text = th.firstChild, words = [...text.data.matchAll(/[^\\s-]+/g)];
  return words.filter((word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return range.getClientRects().length > 1;
  }).map(String);
})"""
TOUCHING = """() => {
  const parts = (root) => [...root.querySelectorAll("*")].flatMap(
    (part) => [part, ...(part.shadowRoot ? parts(part.shadowRoot) : [])]);
  return [...document.querySelectorAll(".chart")].flatMap((chart) => {
    const dates = parts(chart).filter((part) => part.localName === "text"
      && /^[A-Z][a-z]+ [0-9]{4}$/.test(part.textContent));
    const boxes = dates.map((part) => part.getBoundingClientRect());
    return boxes.filter((a) => boxes.some((b) => b.left > a.left
      && b.left < a.right + 2 && b.top < a.bottom && a.top < b.bottom)).map((a) => a.left);
  });
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_headers_and_dates_stand_apart(browser: Any, tmp_path: Path, width: int) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "t.html"
    rng, long = np.random.default_rng(0), "a segment with a long name of several words " + "k" * 60
    p = rng.random(2000).round(3)
    y = rng.random(2000) < p
    at = np.datetime64("2026-01-01T00:00") + 90 * np.arange(2000)  # minutes
    path.write_text(
        "at,p,y,s,r\n"
        + "".join(f"{at[i]},{p[i]},{int(y[i])},{long},{i % 9}\n" for i in range(2000)),
        encoding="utf-8",
    )
    columns = ["--score", "p", "--prob", "p", "--label", "y", "--segment", "s", "--segment", "r"]
    run("report", path, *columns, "--time", "at", "--out", out)
    with opened(browser, out.as_uri(), viewport={"width": width, "height": 800}) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(BROKEN) == []
        assert tab.evaluate(TOUCHING) == []


def test_a_table_of_keys_is_sorted_by_a_click(browser: Any, table: Any) -> None:
    out = table.with_suffix(".html")
    header, *lines = table.read_text().splitlines()
    rows = [f"{line.rsplit(',', 1)[0]},{'bca'[i % 7 % 3]}" for i, line in enumerate(lines)]
    table.write_text("\n".join([header, *rows, ""]))
    run(
        "report", table, "--score", "p", "--label", "y", "--prob", "p", "--key", "key", "--out", out
    )
    with opened(browser, out.as_uri()) as tab:

        def column(place: Any) -> Any:
            return tab.locator(f"#key-scores td:nth-child({place})").all_inner_texts()

        assert len(set(column(2))) > 1
        tab.click("#key-scores th:nth-child(2) button")
        assert [int(n) for n in column(2)] == sorted((int(n) for n in column(2)), reverse=True)
        assert tab.get_attribute("#key-scores th:nth-child(2)", "aria-sort") == "descending"
        tab.focus("#key-scores th:nth-child(2) button")
        tab.keyboard.press("Enter")
        assert [int(n) for n in column(2)] == sorted(int(n) for n in column(2))
        for n, order in enumerate((["c", "b", "a"], ["a", "b", "c"])):
            tab.click("#key-scores th:nth-child(1) button")
            assert column(1) == order, n
        assert tab.get_attribute("#key-scores th:nth-child(2)", "aria-sort") is None


def test_a_page_of_a_run_keeps_up_and_keeps_its_order(browser: Any, tmp_path: Path) -> None:
    path, events = tmp_path / "live.db", [*zip(*samples(3_000), strict=True)]
    with Store(path) as store:
        run_stream(events[:1_000], HedgedCalibrator(), lambda *_: None, store)
        subject = open_subject(path, Given())
        with serving(subject.report, clock=float) as server, opened(browser, server.url) as tab:
            tab.wait_for_selector("#updated:has-text(' ago)')")
            tab.evaluate("window.same = true")
            tab.click("#weights th:nth-child(3) button")
            run_stream(events, HedgedCalibrator(), lambda *_: None, store)
            tab.wait_for_selector("#status-numbers td[data-value='3000']")
            weights = tab.eval_on_selector_all(
                "#weights td.bar", "all => all.map((td) => Number(td.dataset.value))"
            )
            assert weights == sorted(weights, reverse=True)  # as the reader has chosen
            assert tab.evaluate("window.same")  # nothing was loaded again
            assert tab.locator("#verdict p").all_inner_texts() == [*subject.report().verdict]


CHANGES = """async (before) => {
  const line = () => Bokeh.documents[0].roots()[0].renderers.at(-1).glyph.line_color.value;
  for (let i = 0; i < 600 && line() === before; i += 1) await new Promise(requestAnimationFrame);
  return line() !== before;
}"""
LINE = "() => Bokeh.documents[0].roots()[0].renderers.at(-1).glyph.line_color.value"
# Of the labels of an axis against the ground of the figure, as WCAG has it.
CONTRAST = """() => {
  const light = (color) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255).map(
      (v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const ground = light(getComputedStyle(document.querySelector("figure")).backgroundColor);
  const text = light(Bokeh.documents[0].roots()[0].below[0].major_label_text_color);
  return Math.max(ground, text) / Math.min(ground, text);
}"""


def test_a_live_page_keeps_up(browser: Any, tmp_path: Path) -> None:
    path, calibrator = tmp_path / "live.db", IsotonicCalibrator()

    def build() -> Any:
        with Store(path, read_only=True) as store:
            return Report("Live", "here", tuple(of_store(store)))

    with Store(path) as store:
        calibrator.learn_many(*samples(50))
        store.save({"a": calibrator}, 50)
        with serving(build, clock=float) as server, opened(browser, server.url) as tab:
            assert "50 samples" in tab.inner_text("#states-text")
            tab.evaluate("window.same = true")
            calibrator.learn_many(*samples(70, seed=4))
            store.save({"a": calibrator}, 120)
            tab.wait_for_selector("#states-text:has-text('120 samples')")
            (chart,) = build().charts
            (line,) = [i for i, series in enumerate(chart.series) if series.choice or i]
            assert tab.evaluate(DRAWN)[f"staircase:{line}"][1] == {
                k: v.tolist() for k, v in chart.series[line].columns.items()
            }
            assert tab.evaluate("window.same")  # nothing was loaded again
            store.save({"b": calibrator}, 130)
            tab.wait_for_selector("#staircase option:nth-child(2)", state="attached")
            assert tab.inner_text("#live") == "live"
            tab.select_option("#staircase select", "b")
            tab.wait_for_selector("html[data-ready]")
            store.save({"c": calibrator}, 140)
            tab.wait_for_selector("#staircase option:nth-child(3)", state="attached")
            tab.wait_for_selector("html[data-ready]")
            assert tab.input_value("#staircase select") == "b"  # as the reader has chosen


ENDS = "() => { const {y_range: y} = Bokeh.documents[0].roots()[0]; return [y.start, y.end]; }"


def test_axes_of_a_live_page_follow_their_numbers_until_the_reader_zooms(browser: Any) -> None:
    bottom = [0.5]

    def build() -> Any:
        values = {"x": np.arange(2.0), "y": np.array([bottom[0], 1.0])}
        line = Series("a", "line", values)
        chart = Chart("c", "C", "x", "y", (line,), f"From {bottom[0]}.", None, (bottom[0], 1.0))
        return Report("Live", "here", (Section("s", "S", "s", (chart,)),))

    with serving(build, clock=float) as server, opened(browser, server.url) as tab:
        assert tab.evaluate(ENDS) == [0.5, 1.0]
        bottom[0] = 0.25
        tab.wait_for_selector("#c-summary:has-text('From 0.25.')")
        assert tab.evaluate(ENDS) == [0.25, 1.0]
        tab.evaluate("Bokeh.documents[0].roots()[0].y_range.setv({start: 0.7, end: 0.8})")
        bottom[0] = 0.125
        tab.wait_for_selector("#c-summary:has-text('From 0.125.')")
        assert tab.evaluate(ENDS) == [0.7, 0.8]


def test_a_page_with_a_token_keeps_up_and_does_not_show_it(browser: Any) -> None:
    n = [1]
    with serving(lambda: tiny(n[0]), clock=float, host="0.0.0.0", token=TOKEN) as server:
        url = f"http://{watch.HOST}:{server.server_port}/"
        tab = browser.new_page()
        tab.set_content(f'<a href="{url}?token={TOKEN}">the page</a>')  # a link on another site
        tab.click("a")
        tab.wait_for_selector("html[data-ready]", timeout=60_000)
        assert tab.url == url
        n[0] = 2
        tab.wait_for_selector("#s-text:has-text('n is 2')")
        assert tab.inner_text("#live") == "live"
        assert tab.evaluate("document.cookie") == ""  # no script reads it
        tab.close()


def test_a_page_says_why_there_are_no_new_numbers(browser: Any) -> None:
    bad = [False]

    def build() -> Any:
        if bad[0]:
            raise ValueError("row 7: `y` must be <b>0</b>")
        return tiny(1)

    with serving(build, lambda: bad[0], clock=float) as server:
        tab = browser.new_page()
        tab.goto(server.url)
        tab.wait_for_selector("html[data-ready]")
        bad[0] = True
        tab.wait_for_selector("#live.lost")
        assert tab.inner_text("#live") == "these are the last numbers: row 7: `y` must be <b>0</b>"
        bad[0] = False
        tab.wait_for_selector("#live:not(.lost)")
        assert tab.inner_text("#live") == "live"
        tab.close()


def test_a_page_says_when_its_server_is_gone(browser: Any) -> None:
    with serving(lambda: tiny(1)) as server:
        tab = browser.new_page()
        tab.goto(server.url)
        tab.wait_for_selector("html[data-ready]")
    tab.wait_for_selector("#live.lost")
    assert "not connected" in tab.inner_text("#live")
    tab.close()


def test_a_hedge_is_a_calibrator() -> None:
    """The `Hedge` of these tests is saved and restored like any calibrator."""
    restored: Any = Calibrator.from_bytes(Hedge().to_bytes())
    assert restored.weights == Hedge().weights


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", "Mars/Olympus")])
def test_a_time_that_no_datetime_holds_is_a_bad_row(tmp_path: Path, kind: Any) -> None:
    times = pa.array([0, 2**62, 86_400_000], kind)
    columns = {"p": [0.1, 0.5, 0.9], "calibrated": [0.1, 0.5, 0.9], "y": [0, 1, 1]}
    pq.write_table(pa.table({**columns, "at": times}), path := tmp_path / "t.parquet")
    given = ["--score=p", "--label=y", "--time=at", "--out", tmp_path / "r.html"]
    printed = run("report", path, *given, status=1).stderr
    assert "row 2: `at` must be a time such as" in printed
    assert "got 4611686018427387904" in printed
    assert "1 row skipped" in run("report", path, *given, "--on-error=skip").stderr


def test_two_parts_of_scores_that_are_no_probabilities() -> None:
    p, y = samples(2000)
    raw = np.where(np.arange(2000) < 1000, p, np.log(p / (1.0 - p)))
    scored = Scored(raw, p, y, np.arange(1.0, 2001.0), np.arange(2000.0))
    (table,) = of_two_parts(scored, 1000.0, "logit", "q").tables
    assert {row[3] for row in table.rows} == {"q"}  # the same in both parts


def test_labels_with_the_same_beginning_are_told_apart() -> None:
    p = np.tile([[0.5, 0.3, 0.2]], (300, 1))
    names = (*(f"{'x' * 200}{i}" for i in range(2)), "z")
    labels = np.arange(300) % 3
    shown = of_labels(Answers(names, p, labels, np.arange(1.0, 301.0)))[3]
    assert len({chart.title for chart in shown.charts}) == 3
    assert len({row[0] for row in shown.tables[0].rows}) == 3


def test_cookies_of_other_servers_do_not_keep_a_browser_out() -> None:
    with serving(lambda: tiny(1), token=TOKEN) as server:
        kept = f"{server.cookie}={server.secret}"
        for other in ('a={"x":1}', 'a="open', "a", "a[]=1", "a=b c", "a@b=1", "path=/"):
            for cookies in (f"{other}; {kept}", f"{kept}; {other}"):
                assert asked(server, "/", Cookie=cookies)[0] == 200, cookies
            assert asked(server, "/", Cookie=other)[0] == 401


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-lock", "-journal", ".partial"])
def test_a_page_replaces_no_file_of_a_store(run_db: Any, ending: str) -> None:
    path = run_db.with_name(f"{run_db.name}{ending}")
    before = path.read_bytes() if path.exists() else None
    (link := run_db.with_name("link.html")).symlink_to(path)
    table = run_db.with_name("c.csv")
    for out in (path, link):
        printed = run("report", table, "--score=p", "--label=y", "--out", out, status=2).stderr
        assert f"{out} has a name of a file of the store {run_db}: choose another name" in printed
    assert (path.read_bytes() if path.exists() else None) == before
