"""What a run records for those who watch it: losses by period, recent samples, lag."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import HedgedCalibrator, IsotonicCalibrator, KeyedCalibrator, PlattCalibrator
from streamcal.durable.engine import run
from streamcal.durable.labels import Event, LabelJoin
from streamcal.durable.store import Store
from streamcal.durable.timeline import KEEP, LENGTH, RECENT, RUN_LENGTH, TIMELINE, Timeline
from streamcal.metrics.log_loss import log_losses
from streamcal.monitoring import CalibrationDrift, ForecastComparison

NAN = math.nan


def samples(n: int, seed: int = 0) -> np.ndarray:
    """Rows of score, value and label."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return np.column_stack([p, 0.1 + 0.8 * p, rng.random(n) < p])


def filled(rows: np.ndarray, batches: int = 7) -> Timeline:
    timeline, start = Timeline(), 0
    for i, part in enumerate(np.array_split(rows, batches)):
        timeline.add(start + 1.0 + np.arange(len(part)), *part.T, now=float(i))
        start += len(part)
    return timeline


@pytest.mark.parametrize("n", [1, LENGTH, 2 * LENGTH + 3, 50 * LENGTH, 100 * LENGTH + 1])
def test_periods_are_sums_of_consecutive_samples(n: int) -> None:
    rows = samples(n)
    periods = filled(rows).periods()
    start = 0
    for end, _, count, ones, raw, calibrated in zip(*periods, strict=True):
        part = rows[start : int(end)]
        assert count == len(part)
        assert ones == part[:, 2].sum()
        assert raw == pytest.approx(log_losses(part[:, 2], part[:, 0]).sum())
        assert calibrated == pytest.approx(log_losses(part[:, 2], part[:, 1]).sum())
        start = int(end)
    assert start == n
    lengths = (periods.n if periods.n[-1] == LENGTH else periods.n[:-1]).tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert all(lengths.count(length) <= KEEP for length in lengths)
    if lengths:
        assert lengths[-1] == LENGTH  # the last period is short


def test_it_does_not_depend_on_batches_and_survives_bytes() -> None:
    rows = samples(40 * LENGTH)
    expected, found = filled(rows, 1), Timeline.from_bytes(filled(rows, 999).to_bytes())
    for name in ("ends", "n", "ones", "raw", "calibrated"):
        assert getattr(found.periods(), name).tolist() == getattr(expected.periods(), name).tolist()
    assert found.recent.tolist() == rows[-RECENT:].tolist()
    times = found.periods().times
    assert (np.diff(times) > 0.0).all()


def test_alarms_are_those_of_the_detector() -> None:
    rows = samples(6_000)
    rng = np.random.default_rng(1)
    rows[:, 2] = rng.random(6_000) < np.where(np.arange(6_000) < 3_000, rows[:, 1], rows[:, 1] ** 3)
    detector, comparison = CalibrationDrift(RUN_LENGTH), ForecastComparison()
    alarms: list[tuple[int, int, str]] = []
    for at, (raw, calibrated, y) in enumerate(rows.tolist()):
        comparison.update(bool(y), raw, calibrated)
        detector.update(bool(y), calibrated)
        if detector.drift_detected:
            since = at + 1 - detector.n_samples + detector.since
            goes_on = bool(alarms) and at + 1 - alarms[-1][0] < RECENT
            alarms.append((at + 1, alarms[-1][1] if goes_on else since, detector.in_words))
    assert len(alarms) > 2
    for batches in (1, 6_000):
        timeline = Timeline.from_bytes(filled(rows, batches).to_bytes())
        assert (timeline.n_labels, timeline.n_alarms) == (6_000, len(alarms))
        assert timeline.alarm == alarms[-1]
        assert timeline.comparison.interval(0.05) == comparison.interval
    for n in (alarms[0][0], 6_000):  # lost calibration raises one alarm after another
        alarm = filled(rows[:n]).alarm
        assert alarm is not None
        assert abs(alarm.since - 3_000) < 200


def test_only_labels_0_and_1_and_probabilities_are_watched() -> None:
    timeline = Timeline()
    rows = np.array([[0.5, 0.5, 0.3], [5.0, 0.5, 1.0], [0.5, 1.5, 1.0], [0.5, 0.4, 0.0]])
    timeline.add(1.0 + np.arange(4), *rows.T, now=0.0)
    assert (timeline.n_labels, timeline.comparison.n_samples) == (4, 1)
    assert timeline.comparison.total == pytest.approx(0.5**2 - 0.4**2)
    timeline.add(np.array([5.0]), *np.array([[0.5, 0.0, 1.0]]).T, now=0.0)
    assert timeline.alarm is not None
    assert timeline.alarm.label == 5


def test_it_stays_small() -> None:
    """A thousand times as many samples take a few more periods."""
    sizes = [len(filled(samples(n)).to_bytes()) for n in (RECENT, 1_000 * LENGTH)]
    assert sizes[1] < 1.5 * sizes[0] < 100_000


def test_losses_that_are_not_defined_are_not_numbers() -> None:
    timeline = Timeline()
    rows = np.array([[2.0, 0.5, 1.0], [0.5, 0.5, 0.0]])
    timeline.add(np.array([1.0, 2.0]), *rows.T, now=0.0)
    periods = timeline.periods()
    assert math.isnan(periods.raw[0])
    assert periods.calibrated.tolist() == pytest.approx([2 * math.log(2)])
    timeline.add(np.array([3.0]), *np.array([[0.5, 0.5, 0.3]]).T, now=0.0)
    assert math.isnan(timeline.periods().calibrated[0])


def stored(path: Path) -> Timeline:
    with Store(path, read_only=True) as store:
        timeline: Timeline = store.get(TIMELINE)
    return timeline


@pytest.mark.parametrize("keyed", [False, True], ids=["one", "keyed"])
def test_a_run_records_what_it_served(tmp_path: Path, keyed: bool) -> None:
    rows = samples(1_300)
    events = [Event(p, y, key=i % 2) for i, (p, _, y) in enumerate(rows.tolist())]
    events[3] = events[3]._replace(y=NAN)
    served: list[float] = []
    with Store(tmp_path / "run.db") as store:
        for stop in (700, 1_300):  # with a restart
            calibrator: Any = IsotonicCalibrator(window=100)
            if keyed:
                calibrator = KeyedCalibrator(calibrator, store=store)
            run(events[:stop], calibrator, lambda at, p: served.extend(p), store, batch_size=90)
    timeline = stored(tmp_path / "run.db")
    expected = np.column_stack([rows[:, 0], served, rows[:, 2]])[np.arange(1_300) != 3]
    assert timeline.recent.tolist() == expected.tolist()
    periods = timeline.periods()
    assert periods.n.tolist() == [500, 500, 299]
    assert periods.ends.tolist() == [501, 1001, 1300]
    assert periods.calibrated.sum() == pytest.approx(
        log_losses(expected[:, 2], expected[:, 1]).sum()
    )


@pytest.mark.parametrize("calibrator", [PlattCalibrator(), HedgedCalibrator()], ids=["platt", "h"])
def test_late_labels_count_the_value_that_was_served(tmp_path: Path, calibrator: Any) -> None:
    rows = samples(300)
    events: list[Event] = []
    for i, (p, _, y) in enumerate(rows.tolist()):
        halves = [Event(p, id=i), Event(p, id=i)]  # the second is a duplicate
        events += halves if i % 5 else [Event(NAN, y, id=i), *halves]
        if i >= 20 and i % 5 and i % 7:
            events.append(Event(NAN, rows[i - 20, 2], id=i - 20))
    served: list[float] = []
    with Store(tmp_path / "run.db") as store:
        for stop in (350, len(events)):
            run(
                events[:stop],
                calibrator,
                lambda at, p: served.extend(p),
                store,
                batch_size=40,
                join=LabelJoin(5_000),
            )
    expected, values, labels = [], {}, {}
    for event, value in zip(events, served, strict=True):
        assert event.id is not None
        if not math.isnan(value) and event.id not in values:
            values[event.id] = event.score, value
        elif math.isnan(event.score) and event.id not in labels:
            labels[event.id] = event.y
        else:
            continue
        if math.isnan(event.score) and event.id not in values:
            labels[event.id] = event.y
        if event.id in values and event.id in labels:
            expected.append([*values[event.id], labels[event.id]])
    timeline = stored(tmp_path / "run.db")
    assert timeline.recent.tolist() == expected
    assert len(expected) > 150
    ends, decided, y = timeline.decisions.T
    assert decided.tolist() == [value for _, value in values.values()]
    known = [labels.get(id, NAN) for id in values]
    np.testing.assert_array_equal(y, known)
    assert 0 < np.isnan(y).sum() < len(y)
    scores = [i for i, event in enumerate(events) if not math.isnan(event.score)]
    assert {int(end) - 1 for end in ends} < set(scores)


def test_a_join_may_begin_after_other_events(tmp_path: Path) -> None:
    rows = samples(1_500)
    early = [Event(p, y) for p, _, y in rows[:10].tolist()]
    early[4] = early[4]._replace(y=NAN)
    late = [Event(p, id=i) for i, p in enumerate(rows[10:, 0].tolist())]
    labels = [Event(NAN, 1.0, id=i) for i in range(0, 1_490, 2)]
    served: list[float] = []
    with Store(tmp_path / "run.db") as store:

        def learn(events: list[Event], join: LabelJoin | None) -> Timeline:
            run(events, PlattCalibrator(), lambda at, p: served.extend(p), store, join=join)
            return stored(tmp_path / "run.db")

        timeline = learn(early, None)
        assert timeline.decisions[:, 0].tolist() == list(range(1, 11))
        assert np.flatnonzero(np.isnan(timeline.decisions[:, 2])).tolist() == [4]
        timeline = learn([*early, *late, *labels], LabelJoin(2_000))
    ends, values, y = timeline.decisions.T
    assert ends.tolist() == list(range(501, 1_501))  # the last thousand
    assert values.tolist() == served[500:1_500]
    assert [label == 1.0 for label in y] == [(i - 10) % 2 == 0 for i in range(500, 1_500)]


class Endless:
    """A source with more events than are read, which may say how many."""

    def read(self, offset: int, n: int) -> list[Event]:
        return [Event(0.5, 1.0)] * min(n, max(0, 50 - offset))


class Known(Endless):
    def end(self) -> int:
        return 80


def test_when_it_was_saved_and_how_far_the_source_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_234.5)
    sources: list[tuple[Any, int | None]] = [
        (Endless(), None),
        (Known(), 80),
        ([(0.5, 1.0)] * 30, 30),
    ]
    for i, (source, end) in enumerate(sources):
        path = tmp_path / f"{i}.db"
        with Store(path) as store:
            run(source, PlattCalibrator(), lambda at, p: None, store)
        timeline = stored(path)
        assert (timeline.updated, timeline.end) == (1_234.5, end)
        assert timeline.periods().times.tolist() == [1_234.5]


def test_a_store_without_a_timeline_gets_one(tmp_path: Path) -> None:
    """As stores have that were written before there were timelines."""
    events = [(0.5, 1.0)] * 30
    with Store(tmp_path / "run.db") as store:
        run(events[:10], PlattCalibrator(), lambda at, p: None, store)
        store.save({}, forget=[TIMELINE])
        run(events, PlattCalibrator(), lambda at, p: None, store)
        assert store.get(TIMELINE).periods().ends.tolist() == [30]
        store.save({TIMELINE: PlattCalibrator()})
        with pytest.raises(ValueError, match="must be of a Timeline"):
            run(events, PlattCalibrator(), lambda at, p: None, store)
