"""The stream loop: after a crash at any point each event is learned and delivered once."""

import contextlib
import itertools
import math
import os
import random
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamcal import (
    AnytimeCalibrator,
    Calibrator,
    HedgedCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    VennAbersCalibrator,
)
from streamcal.calibration import PriorShiftCalibrator
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.durable.engine import run
from streamcal.durable.errors import StoreError
from streamcal.durable.keys import name_of
from streamcal.durable.labels import Event, LabelJoin
from streamcal.durable.pace import Pace
from streamcal.durable.store import Store
from streamcal.durable.timeline import TIMELINE, Timeline
from streamcal.monitoring import AuditSampler

NAN = math.nan
RNG = np.random.default_rng(3)
EVENTS = [
    Event(score, float(y), w, key)
    for score, y, w, key in zip(
        RNG.random(20).round(2).tolist(),
        RNG.integers(0, 2, 20).tolist(),
        RNG.integers(1, 3, 20).tolist(),
        RNG.choice(["a", "b", "c"], 20).tolist(),
        strict=True,
    )
]
EVENTS[7] = EVENTS[7]._replace(y=NAN)


def late(events: Sequence[Event]) -> list[Event]:
    """The same as scores and labels, the labels up to five events later; some first or twice."""
    halves: list[tuple[float, Event]] = []
    draw = random.Random(4)
    for at, event in enumerate(events):
        halves.append((at, event._replace(y=NAN, id=at)))
        if at != 5:  # whose label never comes
            halves.append((at + 5 * draw.random() - 0.5, Event(NAN, event.y, id=at)))
        if at % 6 == 0:
            halves.append((at + 6 * draw.random(), Event(NAN, event.y, id=at)))
    return [half for _, half in sorted(halves, key=lambda pair: pair[0]) if half[:2] != (NAN, NAN)]


LATE = [e for e in late(EVENTS) if not (math.isnan(e.score) and math.isnan(e.y))]


class CrashError(Exception):
    """Simulates the end of a process."""


class Bomb:
    """Raises at the ``at``-th call, from any caller."""

    def __init__(self, at: int) -> None:
        self.left = at

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise CrashError


class Replay:
    """A source that is not a sequence."""

    def __init__(self, events: Sequence[Event], bomb: Bomb) -> None:
        self.events, self.bomb = events, bomb

    def read(self, offset: int, n: int) -> list[tuple[Any, ...]]:
        self.bomb.tick()
        return [tuple(event) for event in self.events[offset : offset + n]]


class Kept:
    """A sink that keeps predictions by offset; repeated predictions must be the same."""

    def __init__(self, bomb: Bomb) -> None:
        self.bomb = bomb
        self.values: dict[int, float] = {}

    def __call__(self, offset: int, values: np.ndarray) -> None:
        self.bomb.tick()
        for at, value in enumerate(values.tolist(), offset):
            assert repr(self.values.setdefault(at, value)) == repr(value)
        self.bomb.tick()


class File:
    """An exactly-once sink: a list that can be truncated."""

    def __init__(self, bomb: Bomb) -> None:
        self.bomb = bomb
        self.lines: list[tuple[int, float]] = []

    def __call__(self, offset: int, values: np.ndarray) -> None:
        for at, value in enumerate(values.tolist(), offset):
            self.lines.append((at, value))
            self.bomb.tick()

    def commit(self) -> int:
        self.bomb.tick()
        return len(self.lines)

    def resume(self, token: int | None) -> None:
        self.bomb.tick()
        del self.lines[token or 0 :]


class Fragile(Store):
    """A store whose saves may fail, before or after the commit."""

    bomb = Bomb(0)

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.bomb.tick()
        super().save(*args, **kwargs)
        self.bomb.tick()


def make(calibrator: Calibrator, keyed: bool, store: Store) -> Calibrator | KeyedCalibrator:
    return KeyedCalibrator(calibrator, max_live=2, store=store) if keyed else calibrator


def contents(path: Path) -> tuple[int, dict[str, bytes]]:
    """The offset and the states; of the timeline all but the times and the end of the source."""
    with Store(path, read_only=True) as store:
        states = {key: store.get_bytes(key) for key in store.keys()}  # noqa: SIM118
        if TIMELINE in states:
            timeline = Timeline.from_bytes(states[TIMELINE])
            timeline.updated = timeline.end = None
            for period in [*timeline._closed, timeline._open]:
                period[1] = 0.0
            states[TIMELINE] = timeline.to_bytes()
        return store.offset, states


def undisturbed(path: Path, calibrator: Calibrator, keyed: bool, join: LabelJoin | None) -> File:
    """Predictions of a run without a crash, one event at a time."""
    sink = File(Bomb(0))
    events = EVENTS if join is None else LATE
    with Store(path) as store:
        assert run(
            events, make(calibrator, keyed, store), sink, store, batch_size=1, join=join
        ) == len(events)
    return sink


@pytest.mark.parametrize("sink_kind", [Kept, File])
@pytest.mark.parametrize("keyed", [False, True], ids=["one", "keyed"])
@pytest.mark.parametrize("joined", [False, True], ids=["whole", "late"])
@pytest.mark.parametrize("batch", [1, 3, 7])
def test_a_crash_at_every_instant(
    tmp_path: Path, sink_kind: Callable[[Bomb], Any], keyed: bool, joined: bool, batch: int
) -> None:
    """Each crash is the first of a run that then has more; all first instants by STREAMCAL_SOAK."""
    calibrator = IsotonicCalibrator(window=5)
    horizon = LabelJoin(12) if joined else None
    straight = undisturbed(tmp_path / "straight.db", calibrator, keyed, horizon)
    wanted = contents(tmp_path / "straight.db")
    events = LATE if joined else EVENTS
    for first in itertools.count(1, 1 if "STREAMCAL_SOAK" in os.environ else 13):
        path = tmp_path / f"{first}.db"
        bomb = Bomb(first)
        sink = sink_kind(bomb)
        crashed = 0
        while True:
            with Fragile(path) as store:
                store.bomb = bomb
                join = LabelJoin(12) if joined else None
                try:
                    offset = run(
                        Replay(events, bomb),
                        make(calibrator, keyed, store),
                        sink,
                        store,
                        batch_size=batch,
                        join=join,
                    )
                except CrashError:
                    crashed += 1
                    bomb.left = first + 3 * crashed
                    continue
            break
        assert offset == len(events)
        assert contents(path) == wanted
        if isinstance(sink, File):
            assert repr(sink.lines) == repr(straight.lines)
        else:
            assert repr(sorted(sink.values.items())) == repr(straight.lines)
        if not crashed:
            break
    assert calibrator.n_samples == 0


def test_the_same_objects_after_an_error(tmp_path: Path) -> None:
    """What was learned and not committed is dropped before it is learned again."""
    undisturbed(tmp_path / "straight.db", PlattCalibrator(), True, LabelJoin(12))
    bomb = Bomb(0)
    sink = Kept(bomb)
    join = LabelJoin(12)
    with Fragile(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), max_live=2, store=store)
        store.bomb = bomb
        for first in itertools.count(2, 3):
            bomb.left = first
            try:
                run(LATE, keyed, sink, store, batch_size=4, join=join)
                break
            except CrashError:
                pass
    assert contents(tmp_path / "run.db") == contents(tmp_path / "straight.db")


def test_what_it_learns_is_what_a_calibrator_would(tmp_path: Path) -> None:
    twins = {key: IsotonicCalibrator(window=5) for key in "abc"}
    received: list[float] = []
    with Store(tmp_path / "run.db") as store:
        run(
            EVENTS,
            IsotonicCalibrator(window=5),
            lambda at, p: received.extend(p),
            store,
            batch_size=6,
        )
        for event, value in zip(EVENTS, received, strict=True):
            twin = twins[str(event.key)]
            assert value == twin.predict_one(event.score)
            if event.y == event.y:
                twin.learn_one(event.score, event.y, event.w)
        for key, twin in twins.items():
            assert store.get_bytes(name_of(key)) == twin.to_bytes()


def test_a_calibrator_that_has_learned_is_the_start(tmp_path: Path) -> None:
    calibrator = PlattCalibrator()
    calibrator.learn_many([0.1, 0.9] * 10, [1, 0] * 10)
    twin = PlattCalibrator.from_bytes(calibrator.to_bytes())
    received: list[float] = []
    events = [(0.3, 1.0), (0.4, 0.0), (0.3, 1.0)]
    with Store(tmp_path / "run.db") as store:
        for stop in (2, 3):
            run(events[:stop], calibrator, lambda at, p: received.extend(p), store)
        assert store.get(name_of(None)).slope != calibrator.slope
    for (score, y), value in zip(events, received, strict=True):
        assert value == twin.predict_one(score)
        twin.learn_one(score, y)


def test_stop_is_asked_between_batches(tmp_path: Path) -> None:
    received: list[int] = []
    with Store(tmp_path / "run.db") as store:
        args = EVENTS, PlattCalibrator(), lambda at, p: received.append(len(p)), store
        assert run(*args, batch_size=6, stop=lambda: len(received) == 2) == store.offset == 12
        assert run(*args, batch_size=6, stop=lambda: True) == 12
        assert run(*args, batch_size=6) == run(*args, batch_size=6) == 20
    assert received == [6, 6, 6, 2]


@pytest.mark.parametrize("joined", [False, True], ids=["whole", "late"])
@pytest.mark.parametrize("seed", range(6))
def test_many_who_take_turns_on_a_store(tmp_path: Path, joined: bool, seed: int) -> None:
    """Old and new objects, whose states others have changed in the meantime."""
    straight = undisturbed(
        tmp_path / "straight.db", PlattCalibrator(), True, LabelJoin(12) if joined else None
    )
    events, draw, path = LATE if joined else EVENTS, random.Random(seed), tmp_path / "run.db"
    received = File(Bomb(0))
    left: set[str] = set()
    with Store(path) as store:
        banks = [KeyedCalibrator(PlattCalibrator(), max_live=n, store=store) for n in (None, 1)]
        joins = [LabelJoin(12), LabelJoin(12)] if joined else [None]
        stop = 0
        while stop < len(events):
            stop += draw.randint(1, 3)
            keyed: Any = draw.choice([*banks, PlattCalibrator()])
            if isinstance(keyed, KeyedCalibrator) and draw.random() < 0.3:
                keyed.learn_one("a", 0.5, 1)  # which is not saved, so it is dropped
            run(events[:stop], keyed, received, store, batch_size=2, join=draw.choice(joins))
            left.add(type(keyed).__name__)
            if draw.random() < 0.3:
                store.refresh()
        for keyed in banks:
            for key in "abc":
                assert keyed.predict_one(key, 0.4) == store.get(name_of(key)).predict_one(0.4)
    assert len(left) == 2
    assert contents(path) == contents(tmp_path / "straight.db")
    assert repr(received.lines) == repr(straight.lines)


def test_who_moves_the_offset_during_a_run_ends_it(tmp_path: Path) -> None:
    """A run within a run, and saves by hand; the outer run continues if its keys are unchanged."""
    with Store(tmp_path / "run.db") as store:
        for n, meddle in enumerate(
            [
                lambda: run(EVENTS[:9], PlattCalibrator(), lambda at, p: None, store),
                lambda: store.save({}, store.offset + 1),
            ]
        ):
            start = store.offset
            with pytest.raises(StoreError, match=f"was at offset {start} and is at .* during"):
                run(EVENTS, PlattCalibrator(), lambda at, p, m=meddle: m(), store, batch_size=4)
            assert store.offset == (9, 10)[n]
        before = contents(store.path)[1]
        other = PlattCalibrator()
        for name in map(name_of, "abc"):
            with pytest.raises(StoreError, match=r"the state of '.' in .* has changed since"):
                run(EVENTS, PlattCalibrator(), lambda at, p, n=name: store.save({n: other}), store)
            store.save({name: before[name]})
            assert contents(store.path) == (10, before)

        def note(at: int, p: Any) -> None:
            store.save({"mine": PlattCalibrator()}, notes={"received": at})

        assert run(EVENTS, PlattCalibrator(), note, store, batch_size=4) == 20
        assert store.notes == {"received": 18}


class Mailbox:
    """A source that knows where its events come from."""

    def read(self, offset: int, n: int) -> list[Any]:
        return [(0.5, 1.0), (0.5, 0.0), (0.5, "7"), (0.5, "8")][offset : offset + min(n, 2)]

    def where(self, offset: int) -> str:
        return f"message {1000 + offset}"


def test_a_source_says_where_a_bad_event_is(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(TypeError, match=r"^message 1002: `y` must be a number.*, got '7';"):
            run(Mailbox(), PlattCalibrator(), lambda *_: None, store)
        assert store.offset == 2


def test_an_error_that_is_not_about_an_event_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (ZeroDivisionError("a bug"), ValueError("a timeout")):
        with monkeypatch.context() as patch:

            def fail(*_: Any, error: Exception = error, patch: Any = patch) -> Any:
                patch.undo()
                raise error

            patch.setattr(KeyedCalibrator, "check", fail)
            with Store(tmp_path / "run.db") as store:
                with pytest.raises(type(error)) as found:
                    run([(0.5, 1.0)], PlattCalibrator(), lambda *_: None, store)
                assert found.value is error


def test_a_bad_event_stops_before_its_batch(tmp_path: Path) -> None:
    received: list[int] = []
    join = LabelJoin(5)
    bad: list[tuple[Any, type[Exception], str, LabelJoin | None]] = [
        ((NAN, 1.0), ValueError, "`score` must be finite, got nan.*", None),
        ((0.5, 7.0), ValueError, r"`y` must lie in \[0, 1\] for the log loss, got 7.0.*", None),
        ((0.5, 1.0, -1.0), ValueError, "`w` must be a positive finite number, got -1.0", None),
        ((0.5, 1.0, 1.0, ["a"]), TypeError, "`key` must .*", None),
        ((0.5, 1.0, 1.0, len), TypeError, "`key` must .*", None),
        (("x", 1.0), TypeError, "`score` must be a number, got 'x'.*", None),
        (
            (0.5, None),
            TypeError,
            "`y` must be a number, or NaN if it is not known, got None.*",
            None,
        ),
        ((0.5, 1.0, None), TypeError, "`w` must be a number, got None", None),
        (([0.5], 1.0), TypeError, r"`score` must be a number, got \[0.5\].*", None),
        ((NAN, NAN, 1.0, None, "id"), ValueError, "must have a score, or a label and.*", join),
        ((NAN, 1.0), ValueError, "must have a score, or a label and.*", join),
        ((NAN, 7.0, 1.0, None, "id"), ValueError, "`y` must lie in .* got 7.0.*", join),
        ((NAN, None, 1.0, None, "id"), TypeError, "`y` must be a number.*, got None.*", join),
        ((math.inf, NAN, 1.0, None, "id"), ValueError, "`score` must be finite, got inf.*", join),
        ((0.5, NAN, 1.0, None, ["id"]), TypeError, "`id` must be a string, number.*", join),
        ((0.5, NAN, 1.0, None, len), TypeError, "`id` must be a string, number.*", join),
        (0.5, TypeError, "must be an Event or a tuple like it, .*, got 0.5", None),
        ((0.5,) * 11, TypeError, "must be an Event or a tuple like it, .*", None),
    ]
    for n, (event, error, message, joined) in enumerate(bad):
        received.clear()
        events = [*EVENTS[:4], event, *EVENTS[4:]]
        with Store(tmp_path / f"{n}.db") as store:
            for _ in range(2):
                # The offset, not the position in the batch.
                with pytest.raises(error, match=f"^event 4: {message}$"):
                    run(
                        events,
                        PlattCalibrator(),
                        lambda at, p: received.append(at),
                        store,
                        batch_size=3,
                        join=joined,
                    )
                assert store.offset == 3
        assert received == [0]


def test_a_generator_function_starts_at_the_offset_of_the_store(tmp_path: Path) -> None:
    starts: list[int] = []

    def generate(offset: int) -> Iterator[Any]:
        starts.append(offset)
        yield from EVENTS[offset:]

    served: list[list[float]] = []
    for source, name in ((EVENTS, "list.db"), (generate, "function.db")):
        values: list[float] = []
        n_batches = iter([False, True])  # the first run stops after one batch
        with Store(tmp_path / name) as store:
            for stop in (lambda: next(n_batches), lambda: False):  # noqa: B023
                run(
                    source,
                    PlattCalibrator(),
                    lambda at, p: values.extend(p.tolist()),  # noqa: B023
                    store,
                    batch_size=7,
                    stop=stop,
                )
            assert store.offset == len(EVENTS) == len(values)
        served.append(values)
    assert starts == [0, 7]
    assert served[0] == served[1]


def test_a_source_function_must_return_events(tmp_path: Path) -> None:
    anything: Any = lambda offset: 5  # noqa: E731
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(TypeError, match="`source` must return an iterable of events, got int"):
            run(anything, PlattCalibrator(), lambda at, p: None, store)
        assert store.offset == len(store) == 0


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    def sink(at: int, p: Any) -> None:
        raise AssertionError

    anything: Any
    with Store(tmp_path / "run.db") as store, Store(tmp_path / "other.db") as other:
        for anything in (0, None, 2.5):
            with pytest.raises(ValueError, match="`batch_size` must be a positive int"):
                run(EVENTS, PlattCalibrator(), sink, store, batch_size=anything)
            with pytest.raises(ValueError, match="`horizon` must be a positive int"):
                LabelJoin(anything)
        anything = dict
        with pytest.raises(TypeError, match="`calibrator` must be a Calibrator or Keyed"):
            run(EVENTS, anything, sink, store)
        anything = (event for event in EVENTS)
        for source in ({}, {0: (0.5, 1.0)}, {(0.5, 1.0)}):
            with pytest.raises(TypeError, match=r"`source` must have `read.*, got (dict|set)$"):
                run(source, PlattCalibrator(), lambda *_: None, store)
        with pytest.raises(TypeError, match=r"`source` must have `read.*got generator"):
            run(anything, PlattCalibrator(), sink, store)
        anything = None
        with pytest.raises(TypeError, match="`sink` must be callable, got None"):
            run(EVENTS, PlattCalibrator(), anything, store)
        anything = 9
        with pytest.raises(TypeError, match="`store` must be a Store or None, got 9"):
            run(EVENTS, PlattCalibrator(), sink, anything)
        with pytest.raises(TypeError, match="`join` must be a LabelJoin or None, got 9"):
            run(EVENTS, PlattCalibrator(), sink, store, join=anything)
        with pytest.raises(ValueError, match="must have been made with this `store`"):
            run(EVENTS, KeyedCalibrator(PlattCalibrator(), store=other), sink, store)
        assert len(store) == len(other) == 0


@pytest.mark.parametrize("joined", [False, True], ids=["whole", "late"])
def test_a_run_without_a_store_gives_the_same_values(tmp_path: Path, joined: bool) -> None:
    events, found = LATE if joined else EVENTS, []
    with Store(tmp_path / "run.db") as store:
        for given in (store, None):
            received: dict[int, float] = {}
            join = LabelJoin(9) if joined else None
            sink = received_by(received)
            n = run(events, HedgedCalibrator(), sink, given, batch_size=4, join=join)
            assert n == len(events)
            found.append([received[at] for at in range(n)])
    np.testing.assert_array_equal(*found)


class Columns:
    """A source of batches, with as many samples in each as it likes."""

    def __init__(self) -> None:
        self.acts: list[Any] = []

    def while_waiting(self, act: Any) -> None:
        self.acts.append(act)

    def read_batch(self, offset: int, n: int) -> Any:
        for act in self.acts:
            act()
        return Piece(offset, min(offset + 1 + offset % 3, len(EVENTS))) if offset < 20 else None


class Piece:
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end

    def predict_learn(self, keyed: Any) -> Any:
        events = EVENTS[self.start : self.end]
        score, y, w, keys, *_ = zip(*events, strict=True)
        return keyed.predict_learn_checked(keyed.check(keys, score, y, w))


class Whole:
    """A sink that can commit only when it has all."""

    def __init__(self, values: list[float]) -> None:
        self.values = values
        self.calls: list[str] = []

    def __call__(self, offset: int, values: Any) -> None:
        assert offset == len(self.values)
        self.values += values.tolist()

    def can_commit(self) -> bool:
        return "end" in self.calls

    def end(self) -> None:
        self.calls.append("end")

    def commit(self) -> int:
        self.calls.append("commit")
        return len(self.values)

    def resume(self, token: Any) -> None:
        assert token is None


def test_batches_of_columns_and_a_sink_that_commits_at_the_end(tmp_path: Path) -> None:
    expected: dict[int, float] = {}
    with Store(tmp_path / "events.db") as store:
        run(EVENTS[:20], PlattCalibrator(), received_by(expected), store)
    with Store(tmp_path / "run.db") as store:
        sink = Whole([])
        with pytest.raises(KeyboardInterrupt):
            run(Columns(), PlattCalibrator(), sink, store, stop=Stops(4))
        assert (store.offset, store.notes, sink.calls) == (0, {}, [])
        sink = Whole([])
        n = run(Columns(), PlattCalibrator(), sink, store)
        assert (store.offset, sink.calls) == (n, ["end", "commit"])
        assert sink.values[:20] == [expected[at] for at in range(20)]


def test_columns_are_not_joined() -> None:
    with pytest.raises(ValueError, match="`join` must be None where `source` has `read_batch`"):
        run(Columns(), PlattCalibrator(), Whole([]), None, join=LabelJoin())
    sampler = AuditSampler(secret="s")
    with pytest.raises(ValueError, match="`join` must be given with a `sampler`"):
        run(Columns(), PlattCalibrator(), Whole([]), None, sampler=sampler)


class Placed(Columns):
    """The same with a position of its own."""

    def commit(self, offset: int) -> int:
        return -offset

    def resume(self, offset: int, token: Any) -> None:
        assert token == (-offset if offset else None)


def test_a_position_is_saved_when_the_sink_can_commit(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(KeyboardInterrupt):
            run(Placed(), PlattCalibrator(), Whole([]), store, stop=Stops(4))
        assert (store.offset, store.notes) == (0, {})
        n = run(Placed(), PlattCalibrator(), Whole([]), store)
        assert (store.offset, store.notes) == (n, {"source": -n, "sink": n})


class Stops:
    """Raises after some calls, as Ctrl-C does."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self) -> bool:
        self.n -= 1
        if self.n < 0:
            raise KeyboardInterrupt
        return False


def test_a_run_that_is_stopped_while_its_source_waits_commits(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        stops = iter([False, False, False, False, False, True])
        n = run(Columns(), PlattCalibrator(), lambda at, p: None, store, stop=lambda: next(stops))
        assert 0 < n == store.offset < 20


def test_what_the_store_has_must_fit(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        run(LATE[:9], IsotonicCalibrator(window=5), lambda at, p: None, store, join=LabelJoin(9))
        with pytest.raises(
            ValueError, match="`calibrator` must give the parameters that the states"
        ):
            run(LATE, IsotonicCalibrator(), print, store, join=LabelJoin(9))
        with pytest.raises(ValueError, match="`join` must have the store's horizon, 9, got 8"):
            run(LATE, IsotonicCalibrator(window=5), print, store, join=LabelJoin(8))
        with pytest.raises(ValueError, match="`join` must be given"):
            run(LATE, IsotonicCalibrator(window=5), print, store)
        assert store.offset == 9
        store.save({"join": PlattCalibrator()})
        with pytest.raises(ValueError, match="must be of a LabelJoin"):
            run(LATE, IsotonicCalibrator(window=5), print, store, join=LabelJoin(9))


@pytest.mark.parametrize("name", ["join", 'key:"b"'])
def test_a_key_without_its_state_is_not_taken_for_a_new_one(tmp_path: Path, name: str) -> None:
    """Otherwise its samples would be lost without an error."""
    path, join = tmp_path / "run.db", LabelJoin(9)
    events = [Event(0.5, 1.0, key="a"), Event(0.5, 1.0, key="b"), Event(0.5, id=1)]
    with Store(path) as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        run(events, keyed, lambda at, p: None, store, join=join)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("DELETE FROM states WHERE key = ?", (name,))
        for calibrators in (PlattCalibrator(), keyed):
            with pytest.raises(StoreError, match=r"not those of the last save \(3 of 4\)"):
                run(events * 2, calibrators, pytest.fail, store, join=join)
        with pytest.raises(StoreError, match=r"not those of the last save \(3 of 4\)"):
            KeyedCalibrator(PlattCalibrator(), store=store)
        assert store.offset == 3


def test_a_reader_is_refused_before_the_sink_goes_back(tmp_path: Path) -> None:
    sink = File(Bomb(-1))
    with Store(tmp_path / "run.db") as store:
        run(EVENTS, PlattCalibrator(), sink, store)
    sink(20, np.array([0.5]))
    before = list(sink.lines)
    with (
        Store(tmp_path / "run.db", read_only=True) as reader,
        pytest.raises(StoreError, match="was opened to be read only"),
    ):
        run([*EVENTS, *EVENTS], PlattCalibrator(), sink, reader)
    assert sink.lines == before


def test_a_calibrator_that_raises_in_a_batch(tmp_path: Path) -> None:
    """Its samples of the batch are not learned again when the same objects continue."""

    class Brittle(PlattCalibrator):
        fuse = -1

        def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
            super().learn_one(score, y, w)
            type(self).fuse -= 1
            if type(self).fuse == 0:
                raise CrashError

    for fuse in (-1, 1, 2, 5, 11):
        with Store(tmp_path / str(fuse)) as store:
            keyed, join = KeyedCalibrator(Brittle(), store=store), LabelJoin(12)
            run(LATE[:6], keyed, lambda at, p: None, store, join=join)
            Brittle.fuse = fuse
            with pytest.raises(CrashError) if fuse > 0 else contextlib.nullcontext():
                run(LATE, keyed, lambda at, p: None, store, join=join)
            run(LATE, keyed, lambda at, p: None, store, join=join)
        assert contents(tmp_path / str(fuse)) == contents(tmp_path / "-1")


def test_a_disk_that_is_full_and_then_is_not(tmp_path: Path) -> None:
    undisturbed(tmp_path / "straight.db", PlattCalibrator(), True, None)
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), max_live=2, store=store)
        run(EVENTS[:4], keyed, lambda at, p: None, store)
        database = store._connection.connected()
        database.execute("PRAGMA query_only = 1")  # stands for the disk
        with pytest.raises(StoreError, match="can't be written"):
            run(EVENTS, keyed, lambda at, p: None, store, batch_size=5)
        assert store.offset == 4
        database.execute("PRAGMA query_only = 0")
        assert run(EVENTS, keyed, lambda at, p: None, store, batch_size=5) == len(EVENTS)
    assert contents(tmp_path / "run.db") == contents(tmp_path / "straight.db")


# Delayed labels -----------------------------------------------------------------------------------


def score(name: Any, value: float = 0.5, w: float = 1.0, key: Any = None) -> Event:
    return Event(value, NAN, w, key, name)


def label(name: Any, y: float = 1.0) -> Event:
    return Event(NAN, y, 9.0, "unknown", name)


def test_the_score_that_was_served_is_learned() -> None:
    for first_label in (False, True):
        join = LabelJoin(10)
        halves = [score("a", 0.7, 2.0, "k"), label("a", 0.0)]
        if first_label:
            halves.reverse()
        assert join.add(halves[0]) is None
        assert (join.n_waiting, join.n_joined) == (1, 0)
        assert join.add(halves[1]) == Event(0.7, 0.0, 2.0, "k", "a")
        assert (join.n_waiting, join.n_joined) == (0, 1)


def test_what_comes_twice_counts_once() -> None:
    join = LabelJoin(10)
    answers = [join.add(e) for e in (score(1, 0.2), score(1, 0.3), label(1), label(1), score(1))]
    assert [answer.score if answer else None for answer in answers] == [None, None, 0.2, None, None]
    assert (join.n_joined, join.n_duplicates, join.n_waiting) == (1, 3, 0)


def test_a_retry_is_answered_as_before_and_its_score_counts_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    known = [Event(float(p), float(rng.random() < p)) for p in rng.random(200)]
    asked = [Event(0.9, id="r", key=("a", 1)), Event(0.9, id="s", key=("a", 1))]
    retries = [asked[0]] * 50
    other = [asked[0]._replace(score=0.8), asked[0]._replace(key="b")]

    def answers(events: Any, path: Path, parts: int = 1) -> tuple[list[float], Any]:
        values: list[float] = []
        for part in range(1, parts + 1):  # each run is a new process
            with Store(path) as store:
                keyed = KeyedCalibrator(PriorShiftCalibrator(PlattCalibrator()), store=store)
                until = events[: len(events) * part // parts]
                run(until, keyed, lambda _, p: values.extend(p), store, join=LabelJoin(999))
                last = keyed.snapshot(("a", 1)).predict_one(0.5)
        return values, last

    known = [event._replace(key=("a", 1)) for event in known]
    once, without = answers([*known, *asked], tmp_path / "once.db")
    for parts in (1, 7):
        events = [*known, *asked, *retries]
        values, last = answers(events, tmp_path / f"{parts}.db", parts)
        assert values == [*once, *once[-2:-1] * len(retries)]
        assert last == without
    values, _ = answers([*known, *asked, *other], tmp_path / "other.db")
    assert values[-2] != values[-4] != values[-1]


def test_what_waits_is_found_by_its_id() -> None:
    """It is what an event that comes next would be joined with, also after bytes."""
    join, served = LabelJoin(3), Prediction(0.25, None)
    join.add(score("a")._replace(served=served))
    join.add(label("b", 1.0))
    for each in (join, LabelJoin.from_bytes(join.to_bytes())):
        assert each.find("a").served == served
        assert each.find("b").y == 1.0
        assert each.find("c") is each.find(None) is None
    join.add(label("a"))
    assert join.find("a") is None  # joined
    join.add(score(None))
    assert join.find("b") is not None
    join.add(score(None))
    assert join.find("b") is None  # a score would be too late
    assert join.add(score("b")) is None
    for bad, kind in (([], TypeError), (NAN, ValueError), ("\ud83d\ude00", ValueError)):
        with pytest.raises(kind):
            join.find(bad)


def test_what_waits_in_vain_is_given_up() -> None:
    join = LabelJoin(3)
    join.add(score("never"))
    join.add(score("just in time"))
    join.add(score(None))
    assert join.n_waiting == 2
    assert join.add(label("just in time")) is not None
    assert join.add(label("never")) is None  # too late; it waits for a score by that name now
    assert (join.n_waiting, join.n_expired) == (1, 1)
    for _ in range(4):
        join.add(score(None))
    assert (join.n_waiting, join.n_expired, len(join._room)) == (0, 2, 0)
    join.add(score("never", 0.9))  # an id may be used again
    again = join.add(label("never"))
    assert again is not None
    assert again.score == 0.9


def test_whole_events_and_empty_ones() -> None:
    join = LabelJoin(3)
    whole = Event(0.5, 1.0, id="a")
    assert join.add(whole) is whole
    assert join.add(Event(NAN, NAN, id="a")) is None
    assert join.add(Event(NAN, 1.0)) is None
    assert join.n_waiting == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"id": NAN}, ValueError),
        ({"id": object()}, TypeError),
        ({"id": ("a", [])}, TypeError),
        ({"key": []}, TypeError),
        ({"key": NAN}, ValueError),
        ({"served": "x"}, TypeError),
        ({"served": Ticket((1, ()))}, TypeError),
        ({"served": Prediction(NAN, None)}, ValueError),
        ({"served": Prediction("x", None)}, TypeError),
        ({"served": Prediction(0.5, "x")}, TypeError),
        ({"served": Prediction(0.5, Ticket(("x", ())))}, ValueError),
        ({"served": Prediction(0.5, Ticket((1, (NAN,))))}, ValueError),
        ({"served": Prediction(0.5, Ticket((1, {})))}, ValueError),
        ({"served": Prediction(0.5, Ticket((None, [object()])))}, ValueError),
        ({"x": 5}, TypeError),
        ({"x": {"a": []}}, TypeError),
        ({"x": {1: "a"}}, TypeError),
        ({"x": {"a": 10**5000}}, ValueError),
        ({"x": {"a": "\ud800\udc00"}}, ValueError),
        ({"w": NAN}, ValueError),
        ({"w": "x"}, TypeError),
    ],
)
def test_the_join_takes_only_what_its_bytes_hold(
    change: dict[str, Any], error: type[Exception]
) -> None:
    join = LabelJoin(3)
    join.add(score("a"))
    before = join.to_bytes()
    for half in (score("b"), label("b"), label("a")):
        with pytest.raises(error):
            join.add(half._replace(**change))
        assert join.to_bytes() == before
    join.add(Event(0.5, id="b", key=("k", None), served=Prediction(0.75, None)))
    served = Prediction(0.25, Ticket(((2, (0.5,)), (3, (0.25, 1.0)))))
    x = {"a": np.float32(0.5), "b": NAN, "c": "é", "d": 2**64, "e": True, "f": pd.NA}
    join.add(Event(0.5, id="c", served=served, x=x))
    joined = LabelJoin.from_bytes(join.to_bytes()).add(label("c"))
    assert joined is not None
    kept = {"a": 0.5, "b": None, "c": "é", "d": 2**64, "e": True, "f": None}
    assert (joined.served, joined.x) == (served, kept)
    assert LabelJoin.from_bytes(join.to_bytes()).to_bytes() == join.to_bytes()


def test_what_was_served_is_not_read_from_the_source(tmp_path: Path) -> None:
    served: Any = "x"
    events = [Event(NAN, 1.0, id="a", served=served), Event(0.5, id="b", served=served)]
    with Store(tmp_path / "run.db") as store:
        assert run(events, PlattCalibrator(), lambda at, p: None, store, join=LabelJoin(5)) == 2
    assert contents(tmp_path / "run.db")[0] == 2


@pytest.mark.parametrize(
    "half",
    [
        Event(5.0, id="a"),
        Event(NAN, 7.0, id="a"),
        Event(0.5, id="a", served=Prediction(0.5, Ticket((0, (0.5,))))),
        Event(0.5, id="a", served=Prediction(0.5, Ticket((None, (0, (0.5,)))))),
        Event(0.5, id="a", w=-1.0),
    ],
)
def test_a_half_that_waits_and_cannot_be_learned_is_damage(tmp_path: Path, half: Event) -> None:
    join, other = LabelJoin(9), label("a") if math.isnan(half.y) else score("a")
    join._room.add(1, "a", half)
    join._now = 1
    with Store(tmp_path / "run.db") as store:
        store.save({"join": join}, 1)
        with pytest.raises(StoreError, match=r"run\.db is damaged: a sample that waited"):
            run([half, other], HedgedCalibrator(), lambda at, p: None, store, join=LabelJoin(9))
    assert contents(tmp_path / "run.db")[0] == 1


def test_an_event_that_did_not_wait_is_no_damage(tmp_path: Path) -> None:
    class Picky(PlattCalibrator):
        def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
            raise ValueError("not this one")

    with Store(tmp_path / "run.db") as store, pytest.raises(ValueError, match="not this") as raised:
        run([Event(0.5, 1.0)], Picky(), lambda at, p: None, store, join=LabelJoin(9))
    assert not isinstance(raised.value, StoreError)


@pytest.mark.parametrize("horizon", [1, 4, 30])
def test_the_join_against_a_list(horizon: int) -> None:
    """Random halves of samples; the oracle searches all earlier events."""
    rng = np.random.default_rng(horizon)
    join = LabelJoin(horizon)
    opened: dict[int, tuple[int, Event, bool]] = {}  # by id: when, the half, whether it is joined
    expired = 0
    for now in range(1_500):
        for name in [n for n, (at, _, _) in opened.items() if now - at > horizon]:
            expired += not opened.pop(name)[2]
        name = int(rng.integers(0, 12))
        half = score(name, float(now)) if rng.random() < 0.5 else label(name, float(now))
        wanted = None
        if name not in opened:
            opened[name] = now, half, False
        else:
            at, other, joined = opened[name]
            if not joined and math.isnan(other.score) != math.isnan(half.score):
                opened[name] = at, other, True
                pair = (half, other) if half.score == half.score else (other, half)
                wanted = pair[0]._replace(y=pair[1].y)
        assert join.add(half) == wanted
        if now % 100 == 0:
            join = LabelJoin.from_bytes(join.to_bytes())
        assert join.n_expired == expired
        assert join.n_waiting == sum(not joined for _, _, joined in opened.values())


# Pace and snapshots -------------------------------------------------------------------------------


def test_commits_take_at_most_the_given_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    pace = Pace(most=0.25)
    assert pace.is_due()
    with pace:
        now += 1.0
    assert not pace.is_due()
    now += 2.5
    assert not pace.is_due()
    now += 0.5
    assert pace.is_due()


@pytest.mark.parametrize(
    "calibrator",
    [
        IsotonicCalibrator(window=50),
        IsotonicCalibrator(half_life=20.0, interpolation="step"),
        IsotonicCalibrator("squared"),
        VennAbersCalibrator(),
        PlattCalibrator(),
        AnytimeCalibrator("absolute", window=20),
    ],
    ids=lambda calibrator: f"{type(calibrator).__name__}",
)
def test_snapshots_are_read_while_a_writer_learns(calibrator: Calibrator) -> None:
    grid = np.linspace(0.0, 1.0, 23)
    rng = np.random.default_rng(8)
    calibrator = calibrator.clone()
    shared = [(calibrator.snapshot(), calibrator.predict_many(grid))]
    done = threading.Event()
    errors: list[BaseException] = []
    n_read = [0, 0]

    def read(who: int) -> None:
        try:
            while not done.is_set():
                snapshot, values = shared[-1]
                np.testing.assert_allclose(snapshot.predict_many(grid), values, rtol=1e-14)
                assert snapshot.predict_one(grid[3]) == pytest.approx(values[3], rel=1e-14)
                n_read[who] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(who,)) for who in range(2)]
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads meet at more places, and nobody waits long for a turn
    for thread in threads:
        thread.start()
    try:
        for _ in range(4 if isinstance(calibrator, AnytimeCalibrator) else 40):
            scores = rng.random(7)
            calibrator.learn_many(scores, rng.random(7) < scores)
            shared.append((calibrator.snapshot(), calibrator.predict_many(grid)))
    finally:
        while min(n_read) < 5 and not errors:
            threads[0].join(0.001)
        done.set()
        for thread in threads:
            thread.join(60)
        sys.setswitchinterval(pause)
    assert errors == []
    for snapshot, values in shared:
        np.testing.assert_allclose(snapshot.predict_many(grid), values, rtol=1e-14)
    with pytest.raises(AttributeError, match="cannot assign to field 'n_samples'"):
        shared[0][0].n_samples = 3


def test_a_hedge_is_weighted_by_what_it_served(tmp_path: Path) -> None:
    """Labels are 20 events late, with restarts: tickets wait with their scores."""
    rng = np.random.default_rng(5)
    scores = rng.random(120)
    y = (rng.random(120) < scores**2).astype(float)
    events: list[Event] = []
    for i in range(140):
        if i < 120:
            events.append(Event(scores[i], id=i))
        if i >= 20:
            events.append(Event(math.nan, y[i - 20], id=i - 20))
    expected, waiting = HedgedCalibrator(), []
    for i in range(140):
        if i < 120:
            waiting.append(expected.serve_one(scores[i])[1])
        if i >= 20:
            expected.learn_one(scores[i - 20], y[i - 20], ticket=waiting[i - 20])
    for stop in (50, 51, 170, len(events)):
        with Store(tmp_path / "run.db") as store:
            run(events[:stop], HedgedCalibrator(), lambda *_: None, store, join=LabelJoin(100))
    with Store(tmp_path / "run.db") as store:
        found = store.get(name_of(None))
    assert found.weights == expected.weights
    assert found.mean_delay == expected.mean_delay > 10


@pytest.mark.parametrize("kind", [list, np.array, pd.Series], ids=["list", "array", "series"])
def test_a_source_that_is_shorter_than_what_was_learned_is_refused(
    tmp_path: Path, kind: Callable[[Any], Any]
) -> None:
    events = [(0.2, 0.0), (0.9, 1.0), (0.6, 1.0)]
    path = tmp_path / "run.db"
    with Store(path) as store:
        assert run(events, IsotonicCalibrator(), lambda *_: None, store) == 3
        assert run(events, IsotonicCalibrator(), lambda *_: None, store) == 3  # nothing is new
        sink = RecordingSink()
        problem = "`source` must begin with the 3 events that .*run.db has learned, got 2 events"
        with pytest.raises(ValueError, match=problem):
            run(kind(events[1:]), IsotonicCalibrator(), sink, store)
        assert not sink.calls
        assert store.offset == 3


class RecordingSink:
    """A sink that keeps the names of its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, offset: int, values: Any) -> None:
        self.calls.append("call")

    def commit(self) -> int:
        self.calls.append("commit")
        return 0

    def resume(self, token: Any) -> None:
        self.calls.append("resume")


FIELDS = ("city", "age")


def with_fields(events: Sequence[Event]) -> list[Event]:
    """The events with the fields of segments in those with a score, and other entries."""
    draw = random.Random(5)
    cities = ["oslo", "rome", 7, None, True]
    return [
        event
        if math.isnan(event.score)
        else event._replace(x={"city": draw.choice(cities), "age": draw.randrange(3), "z": object})
        for event in events
    ]


@pytest.mark.parametrize("joined", [False, True], ids=["whole", "late"])
@pytest.mark.parametrize("keyed", [False, True], ids=["one", "keyed"])
def test_segments_are_learned_as_by_their_calibrator(
    tmp_path: Path, joined: bool, keyed: bool
) -> None:
    """With a restart between any two batches, what is learned is that of plain calls."""
    events = with_fields(LATE if joined else EVENTS)
    if not keyed:
        events = [event._replace(key=None) for event in events]
    twins = {event.key: SegmentCalibrator(FIELDS) for event in events}
    join, values = LabelJoin(12), []
    for event in events:
        twin, served = twins[event.key], None
        x = event.x and {name: event.x[name] for name in FIELDS}
        if x is not None:
            served = twin.serve_one(event.score, x)
        values.append(NAN if served is None else served.value)
        sample = join.add(event._replace(served=served, x=x))
        if sample is not None and sample.x is not None:
            ticket = sample.served.ticket if joined and sample.served else None
            numbers = sample.score, sample.y, sample.w
            twins[sample.key].learn_one(*numbers, x=sample.x, ticket=ticket)
    received: dict[int, float] = {}
    for stop in (3, 4, 11, len(events)):
        with Store(tmp_path / "run.db") as store:
            calibrator: Any = SegmentCalibrator(FIELDS)
            if keyed:
                calibrator = KeyedCalibrator(calibrator, max_live=2, store=store)
            given = LabelJoin(12) if joined else None
            run(events[:stop], calibrator, received_by(received), store, batch_size=3, join=given)
    np.testing.assert_allclose([received[at] for at in range(len(events))], values, rtol=1e-12)
    with Store(tmp_path / "run.db") as store:
        for key, twin in twins.items():
            found = store.get(name_of(key)) if name_of(key) in store else SegmentCalibrator(FIELDS)
            assert found.n_samples == twin.n_samples
            x = {"city": "oslo", "age": 1}
            assert found.predict_one(0.3, x) == pytest.approx(twin.predict_one(0.3, x), rel=1e-12)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("joined", [False, True], ids=["whole", "late"])
def test_a_field_that_no_event_has_gives_a_warning(
    tmp_path: Path, joined: bool, stored: bool
) -> None:
    """Its name is mistyped: each event may lack it, all of them hardly."""
    events = with_fields(LATE if joined else EVENTS)
    n_scores = sum(event.x is not None for event in events)

    def learn(fields: Sequence[str], events: Any) -> int:
        join = LabelJoin(12) if joined else None
        with contextlib.ExitStack() as stack:
            path = tmp_path / f"{len(fields)}.db"
            store = stack.enter_context(Store(path)) if stored else None
            calibrator = SegmentCalibrator(fields)
            return run(events, calibrator, lambda *_: None, store, batch_size=3, join=join)

    problem = f"has the field 'agee', which is in `x` of none of the {n_scores} events"
    with pytest.warns(UserWarning, match=problem) as warned:
        assert learn([*FIELDS, "agee"], events) == len(events)
    assert [warning.filename for warning in warned] == [__file__]
    events[-1] = Event(0.5, 1.0, x={"agee": None})
    assert learn(["agee"], events) == len(events)


def received_by(values: dict[int, float]) -> Callable[[int, Any], None]:
    """A sink that keeps values by offset."""
    return lambda offset, batch: values.update(enumerate(batch.tolist(), offset))


def test_a_crash_with_segments_loses_nothing(tmp_path: Path) -> None:
    events = with_fields(LATE)

    def learn(name: str, bomb: Bomb) -> tuple[int, dict[str, bytes]]:
        while True:
            with Fragile(tmp_path / name) as store:
                store.bomb = bomb
                with contextlib.suppress(CrashError):
                    calibrator = SegmentCalibrator(FIELDS)
                    run(events, calibrator, Kept(bomb), store, batch_size=4, join=LabelJoin(12))
                    break
            bomb.left = 7
        return contents(tmp_path / name)

    wanted = learn("straight.db", Bomb(0))
    for first in (2, 6, 9):
        assert learn(f"{first}.db", Bomb(first)) == wanted


@pytest.mark.parametrize("join", [None, LabelJoin(9)])
@pytest.mark.parametrize(
    ("calibrator", "x", "message"),
    [
        (SegmentCalibrator(["a"]), None, "event 1: must have `x`, a mapping .* 'a', got None$"),
        (SegmentCalibrator(["a"]), 7, "event 1: must have `x`, a mapping .* 'a', got 7$"),
        (SegmentCalibrator(["a"]), {"a": []}, r"event 1: .*got \[\] for 'a'$"),
        (PlattCalibrator(), {"a": 1}, "event 1: must have no `x` unless"),
    ],
)
def test_an_event_has_fields_if_and_only_if_there_are_segments(
    tmp_path: Path, calibrator: Any, x: Any, message: str, join: LabelJoin | None
) -> None:
    good = {"a": 1} if isinstance(calibrator, SegmentCalibrator) else None
    events = [Event(0.5, 1.0, x=good), Event(0.5, 1.0, id=3, x=x)]
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(TypeError, match=message):
            run(events, calibrator, lambda *_: None, store, join=join)
        assert store.offset == 0
        assert not len(store)
