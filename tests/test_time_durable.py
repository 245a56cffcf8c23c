"""The time of a sample on its way to calibrators that forget by time: keys, stores and runs."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamcal import (
    Calibrator,
    HedgedCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
)
from streamcal.durable import Event, LabelJoin, Store, engine, run
from streamcal.durable.pace import Pace
from tests.timed import DecayedMean, expected_mean

NAN = float("nan")
START = datetime(2026, 3, 1, 12)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def aware(seconds: float) -> datetime:
    return at(seconds).replace(tzinfo=UTC)


class Always(Pace):
    """Commits after each batch."""

    def is_due(self) -> bool:
        return True


@pytest.fixture
def commits_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Pace", Always)


def stream(seed: int, n: int, as_time: Callable[[float], Any] = float) -> list[Event]:
    """Return samples of five keys, some without a label, whose times may go back a little."""
    draw = random.Random(seed)
    now, events = 0.0, []
    for _ in range(n):
        now += draw.choice([0.0, 0.25, 1.0, 30.0])
        events.append(
            Event(
                0.5,
                draw.choice([NAN, 0.0, 1.0, 1.0]),
                key=draw.choice("abcde"),
                t=as_time(now - draw.choice([0.0, 0.0, 0.5])),
            )
        )
    return events


def expected_of(events: list[Event], key: str) -> float:
    samples: list[Any] = [(e.t, float(e.y)) for e in events if e.key == key and e.y == e.y]
    return expected_mean(samples)


# Keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_live", [None, 2])
def test_each_key_forgets_by_time(max_live: Any) -> None:
    events = stream(1, 300)
    one_by_one, batch = (KeyedCalibrator(DecayedMean(), max_live=max_live) for _ in range(2))
    for event in events:
        if event.y == event.y:
            one_by_one.learn_one(event.key, event.score, event.y, t=event.t)
    scores, y, _, keys, _, _, _, t, *_ = zip(*events, strict=True)
    batch.learn_many(keys, scores, y, t=np.array(t))
    for key in "abcde":
        expected = pytest.approx(expected_of(events, key), abs=1e-12)
        assert one_by_one.predict_one(key, 0.5) == batch.predict_one(key, 0.5) == expected


def test_a_batch_takes_series_of_times() -> None:
    keyed, other = KeyedCalibrator(DecayedMean()), KeyedCalibrator(DecayedMean())
    moments = pd.Series([at(0), at(5), at(9)], index=[7, 8, 9])
    keyed.learn_many(["a", "b", "a"], [0.5] * 3, [1, 1, 0], t=moments)
    other.learn_many(["a", "b", "a"], [0.5] * 3, [1, 1, 0], t=moments.to_numpy())
    assert keyed.predict_one("a", 0.5) == other.predict_one("a", 0.5)
    assert keyed.predict_one("a", 0.5) == pytest.approx(expected_mean([(0.0, 1.0), (9.0, 0.0)]))


def test_groups_and_tickets_have_a_time() -> None:
    keyed, own = KeyedCalibrator(DecayedMean()), DecayedMean()
    own.learn_one(0.5, 1, t=0.0)
    own.learn_group([0.5, 0.5], [1, 0], t=8.0)
    keyed.learn_one("k", 0.5, 1, t=0.0)
    keyed.learn_group("k", [0.5, 0.5], [1, 0], t=8.0)
    assert keyed.predict_one("k", 0.5) == own.predict_one(0.5)


@pytest.mark.parametrize(
    ("t", "words"),
    [
        (None, "`t` must be (the time at which a sample is learned|a datetime or)"),
        (NAN, "`t` must be a datetime or a finite number of seconds, got nan"),
        ("2026", "`t` must be a datetime or a number of seconds, got '2026'"),
        (5.0, "`t` must have times of one kind, datetimes without a zone as before"),
        (aware(0), "`t` must have times of one kind, datetimes without a zone as before"),
    ],
)
@pytest.mark.parametrize("restart", [False, True])
def test_a_wrong_time_is_refused(tmp_path: Path, t: Any, words: str, restart: bool) -> None:
    with Store(tmp_path / "state.db") as store:
        keyed = KeyedCalibrator(DecayedMean(), store=store)
        keyed.learn_one("a", 0.5, 1, t=at(0))
        keyed.save()
        if restart:
            keyed = KeyedCalibrator(DecayedMean(), store=store)
        for key in ("a", "new"):  # of another key, too: all have one kind
            with pytest.raises((TypeError, ValueError), match=words):
                keyed.learn_one(key, 0.5, 1, t=t)
            with pytest.raises((TypeError, ValueError), match=words):
                keyed.learn_group(key, [0.5], [1], t=t)
            with pytest.raises((TypeError, ValueError), match=words):
                keyed.learn_many(["a", key], [0.5] * 2, [1, 1], t=[t, t])
        with pytest.raises((TypeError, ValueError), match="`t` must"):
            keyed.learn_many(["a", "b"], [0.5] * 2, [1, 1], t=[at(1), t])
        with pytest.raises((TypeError, ValueError), match="`t` must"):
            keyed.learn_many(["a", "b"], [0.5] * 2, [1, 1], t=t)
        assert list(keyed) == ["a"]
        assert not keyed.states()


def test_others_ignore_the_time() -> None:
    keyed, plain = KeyedCalibrator(HedgedCalibrator()), KeyedCalibrator(HedgedCalibrator())
    for i in range(20):
        keyed.learn_one("a", 0.5, i % 2, t=0.0)
        plain.learn_one("a", 0.5, i % 2)
    assert keyed.predict_one("a", 0.5) == plain.predict_one("a", 0.5)
    assert KeyedCalibrator(DecayedMean()).needs_time
    assert not keyed.needs_time


# Runs ---------------------------------------------------------------------------------------------


class Ends(Exception):  # noqa: N818  (a process that dies, not an error)
    """What ends a run as a crash does: nothing more is saved."""


def states_of(path: Path) -> dict[str, bytes]:
    with Store(path, read_only=True) as store:
        names = store.keys()
        return {name: store.get_bytes(name) for name in names if name != "timeline"}


HALF = timedelta(seconds=40)
OWN: list[Callable[[], Calibrator]] = [
    DecayedMean,
    lambda: PlattCalibrator(half_life=HALF),
    lambda: IsotonicCalibrator(half_life=HALF, window=10 * HALF),
    lambda: HedgedCalibrator([PlattCalibrator(half_life=HALF), IsotonicCalibrator(window=HALF)]),
]


@pytest.mark.parametrize("make", OWN)
@pytest.mark.parametrize("as_time", [float, aware])
@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("crash_at", [1, 37, 199])
@pytest.mark.usefixtures("commits_after_each_batch")
def test_a_run_that_is_killed_and_continued_gives_the_same_states(
    tmp_path: Path, make: Any, as_time: Any, join: bool, crash_at: int
) -> None:
    events = stream(2, 200, as_time)
    if join:
        events = [
            half
            for i, e in enumerate(events)
            for half in (
                e._replace(y=NAN, id=i),
                Event(NAN, 0.0 if e.y != e.y else e.y, id=max(i - 3, 0), t=e.t),
            )
        ]

    def go(name: str, crash: int | None) -> list[float]:
        answers: list[float] = []

        def sink(offset: int, values: Any) -> None:
            if crash is not None and offset + len(values) > crash:
                raise Ends
            answers[offset:] = values

        with Store(tmp_path / name) as store:
            given = LabelJoin(50) if join else None
            run(events, make(), sink, store, batch_size=8, join=given)
        return answers

    whole = go("whole.db", None)
    with pytest.raises(Ends):
        go("killed.db", crash_at)
    rest = go("killed.db", None)
    np.testing.assert_array_equal(rest, whole[-len(rest) :])
    assert states_of(tmp_path / "killed.db") == states_of(tmp_path / "whole.db")
    if not join and as_time is float and make is DecayedMean:
        with Store(tmp_path / "killed.db") as store:
            keyed = KeyedCalibrator(DecayedMean(), store=store)
            for key in "abcde":
                expected = pytest.approx(expected_of(events, key), abs=1e-12)
                assert keyed.predict_one(key, 0.5) == expected


def test_a_late_label_is_learned_when_it_arrives() -> None:
    events = [
        Event(0.5, id=1, t=0.0),
        Event(0.5, id=2, t=1.0),
        Event(NAN, 1, id=2, t=20.0),
        Event(NAN, 0, id=3, t=25.0),  # before its score
        Event(NAN, 1, id=1, t=27.0),
        Event(0.5, id=3, t=35.0),
    ]
    keyed = KeyedCalibrator(DecayedMean())
    run(events, keyed, lambda _, p: None, None, join=LabelJoin(10))
    learned = [(20.0, 1.0), (27.0, 1.0), (35.0, 0.0)]
    assert keyed.predict_one(None, 0.5) == pytest.approx(expected_mean(learned))


def test_what_waits_has_no_time() -> None:
    join = LabelJoin(10)
    join.add(Event(0.5, id=1, t=0.0))
    found = join.find(1)
    assert found is not None
    assert found.t is None
    joined = join.add(Event(NAN, 1.0, id=1, t=7.0))
    assert joined is not None
    assert joined.t == 7.0


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event(0.5, 1), "event 2: must have `t`, the time of the event, as `calibrator` forgets"),
        (Event(0.5, 1, t=NAN), "event 2: `t` must be a datetime or a finite number of seconds"),
        (Event(0.5, NAN, t=pd.NaT), "event 2: `t` must be a datetime or a number of seconds"),
        (Event(0.5, 1, t=at(0)), "event 2: `t` must have times of one kind, numbers of seconds"),
    ],
)
@pytest.mark.parametrize("join", [None, LabelJoin(5)])
def test_an_event_without_a_time_is_refused(event: Event, words: str, join: Any) -> None:
    keyed = KeyedCalibrator(DecayedMean())
    events = [Event(0.5, 1, t=0.0), Event(0.5, 1, t=1.0), event]
    with pytest.raises((TypeError, ValueError), match=words):
        run(events, keyed, lambda _, p: None, None, join=join, batch_size=2)
    assert keyed.predict_one(None, 0.5) == pytest.approx(expected_mean([(0.0, 1.0), (1.0, 1.0)]))


def test_events_may_have_times_that_nobody_needs(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        run([Event(0.5, 1, t=at(0))], HedgedCalibrator(), lambda _, p: None, store)
        assert store.offset == 1


def test_keys_expire_by_count(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        keyed = KeyedCalibrator(DecayedMean(), store=store, expire_after=4)
        events = [Event(0.5, 1, key="old", t=0.0)]
        events += [Event(0.5, 1, key="new", t=1e9 + i) for i in range(8)]
        run(events, keyed, lambda _, p: None, store)
        assert list(keyed) == ["new"]


def test_another_kind_of_time_is_refused_after_a_revert(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(half_life=timedelta(hours=1)), store=store)
        keyed.learn_group("a", [], [], t=at(0))  # this key learns nothing, and no kind
        keyed.learn_one("b", 0.5, 1, t=at(0))
        with pytest.raises(ValueError, match="`t` must have times of one kind"):
            keyed.learn_one("c", 0.5, 1, t=aware(0))
        keyed.revert()
        keyed.learn_one("b", 0.5, 1, t=aware(0))  # nothing was saved
        keyed.save()
        keyed.revert()
        with pytest.raises(ValueError, match="`t` must have times of one kind"):
            keyed.learn_one("c", 0.5, 1, t=at(0))


def test_another_kind_of_time_is_refused_when_a_run_continues(tmp_path: Path) -> None:
    with Store(tmp_path / "state.db") as store:
        run([Event(0.5, 1, t=at(0))], DecayedMean(), lambda _, p: None, store)
        more = [Event(0.5, 1, t=at(0)), Event(0.5, 1, key="new", t=aware(1))]
        with pytest.raises(ValueError, match="`t` must have times of one kind"):
            run(more, DecayedMean(), lambda _, p: None, store)
        assert store.offset == 1
