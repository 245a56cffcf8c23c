"""Commits that write samples in place of states: whoever reads the store gets the same states."""

import contextlib
import itertools
import math
import random
import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import (
    Calibrator,
    HedgedCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal.durable import LabelJoin, Store, StoreError, _sample_log, engine, run
from streamcal.durable._journal import Journal
from streamcal.durable.keys import key_of, name_of
from streamcal.durable.labels import Event
from streamcal.durable.pace import Pace
from streamcal.durable.rows import JOURNAL

NAN = float("nan")
HALF = timedelta(seconds=40)
START = datetime(2026, 3, 1, 12)
KINDS: list[Callable[[], Calibrator]] = [
    lambda: IsotonicCalibrator(window=9),
    PlattCalibrator,
    HedgedCalibrator,
    lambda: IsotonicCalibrator(half_life=HALF, window=3 * HALF),
    lambda: PlattCalibrator(half_life=HALF),
    lambda: HedgedCalibrator([PlattCalibrator(half_life=HALF), IsotonicCalibrator(window=HALF)]),
]


def events(seed: int, n: int, n_keys: int) -> list[Event]:
    """Return samples of keys, of which some are frequent and some labels unknown."""
    draw, passed = random.Random(seed), random.Random(-seed - 1)
    names = ["a", "é", ("a", 1), 3, None, *(f"k{i}" for i in range(n_keys))]
    return [
        Event(
            draw.choice([0.0, 1.0, draw.random()]),
            draw.choice([NAN, 0.0, 1.0, 1.0]),
            draw.choice([1.0, 1.0, 2.5]),
            names[int(len(names) * draw.random() ** 2)],
            t=START + timedelta(seconds=3 * i + passed.choice([0.0, 0.0, -7.3, 2.5])),
        )
        for i in range(n)
    ]


class Always(Pace):
    """Commits after each batch."""

    def is_due(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def commits_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Pace", Always)


def names_of_rows(path: Path) -> list[str]:
    """Return the names of all rows of a store, with journals."""
    database = sqlite3.connect(path)
    names = [name for (name,) in database.execute("SELECT key FROM states ORDER BY key")]
    database.close()
    return names


def journals_of(path: Path) -> list[str]:
    return [name for name in names_of_rows(path) if name.startswith("journal:")]


class Ends(Exception):  # noqa: N818  (a process that dies, not an error)
    """What ends a run as a crash does: nothing more is saved."""


def run_to(
    path: Path, rows: list[Event], make: Any, stop_at: float = math.inf, **given: Any
) -> dict[int, float]:
    """Run until a batch ends after an offset, as if the process died then; return predictions."""
    received: dict[int, float] = {}

    def sink(offset: int, values: Any) -> None:
        if offset + len(values) > stop_at:
            raise Ends
        received.update(enumerate(values.tolist(), offset))

    max_live = given.pop("max_live", None)
    with Store(path) as store, contextlib.suppress(Ends):
        keyed = KeyedCalibrator(make(), max_live=max_live, store=store)
        run(rows, keyed, sink, store, **given)
    return received


def undisturbed(rows: list[Event], make: Any) -> tuple[list[float], dict[Any, bytes]]:
    """Return predictions, and the states at the end, by one call for each sample."""
    calibrators: dict[Any, Calibrator] = {}
    values = []
    for row in rows:
        calibrator = calibrators.get(row.key) or make()
        values.append(calibrator.predict_one(row.score))
        if row.y == row.y:
            calibrators[row.key] = calibrator
            given = {"t": row.t} if calibrator.needs_time else {}
            calibrator.learn_one(row.score, row.y, row.w, **given)
    return values, {key: each.to_bytes() for key, each in calibrators.items()}


def states_in(path: Path) -> dict[Any, bytes]:
    """Return all states of a store as a reader gets them, in two ways that must agree."""
    with Store(path, read_only=True) as store:
        store.check()
        all_names = store.keys()
        names = [name for name in all_names if name.startswith("key:")]
        loaded = store.load().states
        assert {name: store.get_bytes(name) for name in names} == {
            name: loaded[name].to_bytes() for name in names
        }
        assert len(store) == len(all_names) == len(store.sizes())
        keyed = KeyedCalibrator(loaded[names[0]].clone(), store=None) if names else None
        assert keyed is None or not list(keyed)
        return {key_of(name): store.get_bytes(name) for name in names}


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("max_live", [None, 2])
@pytest.mark.parametrize("seed", range(2))
def test_runs_that_die_go_on_from_samples(
    tmp_path: Path, make: Any, max_live: int | None, seed: int
) -> None:
    draw = random.Random(seed)
    path, rows = tmp_path / "run.db", events(seed, 160, draw.choice([1, 6, 30]))
    expected, _ = undisturbed(rows, make)
    stops = [*sorted(draw.sample(range(1, 160), 5)), math.inf]
    for stop in stops:
        size = draw.choice([1, 4, 25])
        received = run_to(path, rows, make, stop, max_live=max_live, batch_size=size)
        assert received == {at: expected[at] for at in received}
        with Store(path, read_only=True) as store:
            offset = store.offset
        assert states_in(path) == undisturbed(rows[:offset], make)[1]
    assert offset == len(rows)
    assert not journals_of(path)


@pytest.mark.parametrize("make", KINDS)
def test_samples_take_the_place_of_states(tmp_path: Path, make: Any) -> None:
    path, rows = tmp_path / "run.db", events(1, 400, 20)
    run_to(path, rows[:200], make)  # it ends: states are written
    assert not journals_of(path)
    before = {name: state_of_row(path, name) for name in names_of_rows(path)}
    run_to(path, rows, make, 300, batch_size=20)
    assert len(journals_of(path)) == 5
    same = [name for name in before if state_of_row(path, name) == before[name]]
    assert len([name for name in same if name.startswith("key:")]) >= 15
    assert states_in(path) == undisturbed(rows[:300], make)[1]


def state_of_row(path: Path, name: str) -> bytes:
    database = sqlite3.connect(path)
    ((data,),) = database.execute("SELECT data FROM states WHERE key = ?", (name,)).fetchall()
    database.close()
    return bytes(data)


def test_a_state_is_written_where_samples_would_be_more_bytes(tmp_path: Path) -> None:
    path, rows = tmp_path / "run.db", [Event(0.3, 1.0, 1.0, "a")] * 300
    run_to(path, rows[:10], PlattCalibrator)
    run_to(path, rows, PlattCalibrator, 250, batch_size=60)
    assert not journals_of(path)
    run_to(path, rows, PlattCalibrator, 299, batch_size=2)
    assert len(journals_of(path)) > 10


@pytest.mark.parametrize("limits", [(200, 2**23), (200, 400)])
def test_states_are_written_when_journals_have_outgrown_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]
) -> None:
    from streamcal.durable import cache

    monkeypatch.setattr(cache, "LEAST", limits[0])
    monkeypatch.setattr(cache, "MOST", limits[1])
    path, rows = tmp_path / "run.db", events(2, 900, 3)
    run_to(path, rows[:60], PlattCalibrator)
    counts = set()
    for stop in range(100, 900, 40):
        run_to(path, rows, PlattCalibrator, stop, batch_size=5)
        counts.add(len(journals_of(path)))
        with Store(path, read_only=True) as store:
            assert states_in(path) == undisturbed(rows[: store.offset], PlattCalibrator)[1]
    assert max(counts) < 170
    assert len(counts) > 1


def test_late_labels_and_segments_write_states(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    rows = [Event(0.3, 1.0, 1.0, "a", i) for i in range(90)]
    run_to(path, rows[:30], IsotonicCalibrator, join=LabelJoin(9))
    run_to(path, rows, IsotonicCalibrator, 80, batch_size=5, join=LabelJoin(9))
    assert not journals_of(path)
    other = tmp_path / "segments.db"
    rows = [Event(0.3, 1.0, 1.0, "a", None, None, {"f": "x"}) for i in range(90)]
    run_to(other, rows[:30], lambda: SegmentCalibrator(["f"]))
    run_to(other, rows, lambda: SegmentCalibrator(["f"]), 80, batch_size=5)
    assert not journals_of(other)


def test_what_others_save_replaces_samples(tmp_path: Path) -> None:
    """A state that is saved under a key is newer than all that journals have of it."""
    path, rows = tmp_path / "run.db", events(3, 200, 4)
    run_to(path, rows[:100], PlattCalibrator)
    run_to(path, rows, PlattCalibrator, 180, batch_size=10)
    assert journals_of(path)
    mine = PlattCalibrator()
    mine.learn_one(0.9, 0)
    with Store(path) as store:
        store.save({'key:"a"': mine}, store.offset)
        assert store.get_bytes('key:"a"') == mine.to_bytes()
        names = store.keys()
        others = {name: store.get_bytes(name) for name in names if name != 'key:"a"'}
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        keyed.learn_one("a", 0.1, 1)
        keyed.save()
        mine.learn_one(0.1, 1)
        assert store.get_bytes('key:"a"') == mine.to_bytes()
        assert {name: store.get_bytes(name) for name in others} == others


def test_a_calibrator_of_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Its samples that no commit has written are not known to be in the store."""
    path, rows = tmp_path / "run.db", events(5, 120, 4)
    with Store(path) as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        count = itertools.count()
        run(rows, keyed, lambda *_: None, store, batch_size=7, stop=lambda: next(count) > 8)
        for row in rows[store.offset :]:
            keyed.predict_learn_many([row.key], [row.score], [row.y], [row.w])
        keyed.save(len(rows))
    assert states_in(path) == undisturbed(rows, PlattCalibrator)[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_signal_at_any_instant_of_a_batch(tmp_path: Path, seed: int) -> None:
    """What an interrupted batch has changed is written as states."""
    draw = random.Random(seed)
    rows = events(seed, 80, 5)

    class Bomb(IsotonicCalibrator):
        def predict_one(self, score: float, x: Any = None) -> float:
            if draw.random() < 0.02:
                raise Ends
            return super().predict_one(score)

    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(Bomb(window=9), store=store)
        for start in range(0, 80, 8):
            part = rows[start : start + 8]
            columns = zip(*[(row.key, row.score, row.y, row.w) for row in part], strict=True)
            with contextlib.suppress(Ends):
                keyed.predict_learn_many(*columns)
        held = {key: keyed.snapshot(key).n_samples for key in keyed}
        keyed.save()
        again = KeyedCalibrator(Bomb(window=9), store=store)
        assert {key: again.snapshot(key).n_samples for key in again} == held


def test_names_of_journals_are_refused_as_keys(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        with pytest.raises(ValueError, match="do not begin with 'journal:', got 'journal:7'"):
            store.save({"journal:7": PlattCalibrator()})
        assert store.keys() == []


def test_a_journal_holds_samples_by_key_in_order() -> None:
    batches = [
        ({"b": [0, 2], "c": [1]}, *np.array([[0.1, 0.2, 0.3], [1.0, 0.0, NAN], [1.0, 1.0, 2.0]])),
        ({"a": [0], "b": [1]}, *np.array([[0.4, 0.5], [0.25, 1.0], [1.0, 1.0]])),
    ]
    journal = Journal.of(batches, {"a": 'key:"a"', "b": 'key:"b"'})
    again = Journal.from_bytes(journal.to_bytes())
    for each in (journal, again):
        found = {name: np.array(samples[:3]).tolist() for name, samples in each.by_name()}
        assert list(found) == ['key:"a"', 'key:"b"']
        assert found['key:"a"'] == [[0.4], [0.25], [1.0]]
        assert str(found['key:"b"']) == str([[0.1, 0.3, 0.5], [1.0, NAN, 1.0], [1.0, 2.0, 1.0]])
    assert again.to_bytes() == journal.to_bytes()
    assert _sample_log.BYTES >= 9


@pytest.mark.parametrize("kind", [0.0, 1.0, 2.0])
def test_a_journal_holds_times(kind: float) -> None:
    rows = np.array([[0.1, 0.2, 0.3], [1.0, 0.0, NAN], [1.0] * 3, [5.0, -6.5, 7.0], [kind] * 3])
    journal = Journal.of([({"b": [0, 2], "c": [1]}, rows[0], *rows[1:])], {"b": 'key:"b"'})
    for each in (journal, Journal.from_bytes(journal.to_bytes())):
        ((_, samples),) = each.by_name()
        np.testing.assert_array_equal(np.array(samples), rows[:, [0, 2]])


# Journals that stay, or are damaged ---------------------------------------------------------------


def make_events(n: int, n_keys: int) -> list[Event]:
    """Ten samples of a key, ten of the next one, and so on."""
    draw = random.Random(4)
    drawn = [(draw.random(), f"k{i // 10 % n_keys}") for i in range(n)]
    return [Event(score, int(draw.random() < score), key=key) for score, key in drawn]


def stop_at(offset: int) -> Callable[[int, Any], None]:
    """Return a sink that ends the run at an offset; nothing of that batch is saved."""

    def sink(at: int, _: Any) -> None:
        if at >= offset:
            raise Ends

    return sink


def learned(events: list[Event]) -> dict[str, bytes]:
    """Return the states of the keys, one sample after the other."""
    held: dict[Any, HedgedCalibrator] = {}
    for event in events:
        held.setdefault(event.key, HedgedCalibrator()).learn_one(event.score, event.y, event.w)
    return {name_of(key): calibrator.to_bytes() for key, calibrator in held.items()}


def read(store: Store) -> dict[str, bytes]:
    names = store.keys()
    return {name: store.get_bytes(name) for name in names if name.startswith("key:")}


@contextlib.contextmanager
def stopped(path: Path, events: list[Event]) -> Any:
    """Give a store with journals, and the calibrators of the run that has left them."""
    with Store(path) as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), store=store)
        with pytest.raises(Ends):
            run(events, keyed, stop_at(len(events) - 10), store, batch_size=10)
        assert len(store.journals()) > 2
        yield store, keyed


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


def test_each_label_is_learned_again_as_it_was(tmp_path: Path) -> None:
    """Small whole labels are kept in bytes, which have no sign of a zero."""
    draw = random.Random(5)
    labels = [0.0, -0.0, 1.0, 254.0]
    rows = [Event(draw.random(), draw.choice(labels), key=f"k{i % 3}") for i in range(300)]
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(IsotonicCalibrator("squared", window=9), store=store)
        with pytest.raises(Ends):
            run(rows, keyed, stop_at(290), store, batch_size=10)
        assert store.journals()
        straight = KeyedCalibrator(IsotonicCalibrator("squared", window=9))
        for row in rows[: store.offset]:
            straight.predict_learn_many([row.key], [row.score], [row.y])
        assert read(store) == straight.states()


def test_journals_are_not_counted_as_states(tmp_path: Path) -> None:
    with stopped(tmp_path / "run.db", make_events(600, 4)) as (store, _):
        assert len(store) == len(store.keys()) == len(store.sizes()) == 5  # and the timeline
        assert "n_states=5," in repr(store)
