"""A run that writes samples in place of states leaves the states that it would have written."""

import contextlib
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import HedgedCalibrator, IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import Event, Store, StoreError, cache, pace, run
from streamcal.durable.keys import name_of
from streamcal.durable.rows import JOURNAL

Events = list[Event]


class StopError(Exception):
    """Ends a run."""


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a commit after each batch."""
    monkeypatch.setattr(pace.Pace, "is_due", lambda _: True)


def make_events(n: int, n_keys: int) -> Events:
    """Ten samples of a key, ten of the next one, and so on."""
    draw = random.Random(4)
    drawn = [(draw.random(), f"k{i // 10 % n_keys}") for i in range(n)]
    return [Event(score, int(draw.random() < score), key=key) for score, key in drawn]


def stop_at(offset: int) -> Callable[[int, Any], None]:
    """Return a sink that ends the run at an offset; nothing of that batch is saved."""

    def sink(at: int, _: Any) -> None:
        if at >= offset:
            raise StopError

    return sink


def learned(events: Events) -> dict[str, bytes]:
    """Return the states of the keys, one sample after the other."""
    held: dict[Any, HedgedCalibrator] = {}
    for event in events:
        held.setdefault(event.key, HedgedCalibrator()).learn_one(event.score, event.y, event.w)
    return {name_of(key): calibrator.to_bytes() for key, calibrator in held.items()}


def read(store: Store) -> dict[str, bytes]:
    names = store.keys()
    return {name: store.get_bytes(name) for name in names if name.startswith("key:")}


@contextlib.contextmanager
def stopped(path: Path, events: Events) -> Any:
    """Give a store with journals, and the calibrators of the run that has left them."""
    with Store(path) as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), store=store)
        with pytest.raises(StopError):
            run(events, keyed, stop_at(len(events) - 10), store, batch_size=10)
        assert len(store.journals()) > 2
        yield store, keyed


@pytest.mark.parametrize("seed", range(4))
def test_each_stop_leaves_the_states_of_its_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    events = make_events(900, 7)
    monkeypatch.setattr(cache, "MOST", 40_000)
    monkeypatch.setattr(cache, "LEAST", draw.choice([2_000, 20_000]))
    n_journals = 0
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), max_live=draw.choice([2, 5]), store=store)
        for end in sorted(draw.sample(range(900), 6)):
            batch_size = draw.choice([1, 10, 60])
            with contextlib.suppress(StopError):
                run(events, keyed, stop_at(end), store, batch_size=batch_size)
            assert read(store) == learned(events[: store.offset])
            n_journals += len(store.journals())
            if draw.random() < 0.5:
                keyed = KeyedCalibrator(HedgedCalibrator(), store=store)
        run(events, keyed, lambda *_: None, store)
        assert store.journals() == {}
        assert read(store) == learned(events)
    assert n_journals > 0


def test_each_label_is_learned_again_as_it_was(tmp_path: Path) -> None:
    """Small whole labels are kept in bytes, which have no sign of a zero."""
    draw = random.Random(5)
    labels = [0.0, -0.0, 1.0, 254.0]
    events = [Event(draw.random(), draw.choice(labels), key=f"k{i % 3}") for i in range(300)]
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(IsotonicCalibrator("squared", window=9), store=store)
        with pytest.raises(StopError):
            run(events, keyed, stop_at(290), store, batch_size=10)
        assert store.journals()
        straight = KeyedCalibrator(IsotonicCalibrator("squared", window=9))
        for event in events[: store.offset]:
            straight.predict_learn_many([event.key], [event.score], [event.y])
        assert read(store) == straight.states()


def damage(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


FIRST, SECOND = f"'{JOURNAL}{0:016d}'", f"'{JOURNAL}{1:016d}'"


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM states WHERE key = {FIRST}",
        f"UPDATE states SET data = x'80' WHERE key = {FIRST}",
        f"UPDATE states SET data = (SELECT data FROM states WHERE key = {SECOND})"
        f" WHERE key = {FIRST}",
        f"UPDATE states SET key = '{JOURNAL}x' WHERE key = {FIRST}",
        f"UPDATE states SET n_saves = 1 WHERE key = {FIRST}",
        f"UPDATE states SET n_saves = n_saves + 1 WHERE key = {FIRST}",
        "UPDATE states SET n_saves = n_saves + 40 WHERE key LIKE 'key:%'",
        "UPDATE states SET n_saves = n_saves - 1 WHERE key LIKE 'key:%'",
    ],
)
def test_no_state_of_damaged_journals_is_read(tmp_path: Path, statement: str) -> None:
    """A journal counts for a state by the numbers of their saves, so these have digests too."""
    path = tmp_path / "run.db"
    with stopped(path, make_events(600, 4)):
        pass
    damage(path, statement)
    with Store(path, read_only=True) as store:
        reads: list[Callable[[], Any]] = [lambda: store.get_bytes(name_of("k1")), store.check]
        for act in (*reads, store.load):
            with pytest.raises(StoreError, match="is damaged"):
                act()


def test_calibrators_outlive_a_run_that_leaves_journals(tmp_path: Path) -> None:
    """What others save under other keys is no change of the states in journals."""
    events = make_events(600, 4)
    with stopped(tmp_path / "run.db", events) as (store, keyed):
        keyed.revert()
        before = learned(events[: store.offset])
        for key in ("k0", "k1", "k2", "k3"):
            keyed.learn_one(key, 0.3, 1)
        store.save({"other": HedgedCalibrator()})
        keyed.save()
        assert set(before) == set(read(store))
        for name, data in read(store).items():
            twin = HedgedCalibrator.from_bytes(before[name])
            twin.learn_one(0.3, 1)
            assert data == twin.to_bytes()


def test_a_run_goes_on_with_calibrators_that_have_answered_meanwhile(tmp_path: Path) -> None:
    events = make_events(1200, 4)
    with stopped(tmp_path / "run.db", events[:600]) as (store, keyed):
        keyed.revert()
        values = [keyed.predict_one(f"k{i}", 0.4) for i in range(4)]
        assert np.isfinite(values).all()

        def sink(at: int, _: Any) -> None:
            if at == 830:
                store.save({"other": HedgedCalibrator()})

        run(events, keyed, sink, store, batch_size=10)
        assert read(store) == learned(events)


def test_journals_are_not_counted_as_states(tmp_path: Path) -> None:
    with stopped(tmp_path / "run.db", make_events(600, 4)) as (store, _):
        assert len(store) == len(store.keys()) == len(store.sizes()) == 5  # and the timeline
        assert "n_states=5," in repr(store)
