"""Keys expire at the same samples, however a run is cut, killed and continued."""

import math
import pickle
import random
import sqlite3
from collections.abc import Iterable
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
)
from streamcal.durable import Event, LabelJoin, Store, StoreError, copy_keys, engine, run
from streamcal.durable.expiry import EXPIRY, Expiry
from streamcal.durable.keys import key_of, name_of
from streamcal.durable.pace import Pace
from tests.interrupts import InterruptionError, interrupt, points_of

NAN = float("nan")


class Plain:
    """The oracle: a dict of calibrators, and what each key has learned in this period."""

    def __init__(self, make: Any, expire_after: int) -> None:
        self.make, self.expire_after = make, expire_after
        self.calibrators: dict[Any, Calibrator] = {}
        self.n_learned, self.used = 0, set[Any]()

    def learned(self, key: Any) -> None:
        self.used.add(key)
        self.n_learned += 1
        if self.n_learned % self.expire_after == 0:
            self.calibrators = {k: each for k, each in self.calibrators.items() if k in self.used}
            self.used = set()

    def predict_learn(self, key: Any, score: float, y: float) -> float:
        value = (self.calibrators.get(key) or self.make()).predict_one(score)
        if y == y:
            self.calibrators.setdefault(key, self.make()).learn_one(score, y)
            self.learned(key)
        return value

    def states(self) -> dict[Any, bytes]:
        return {key: each.to_bytes() for key, each in self.calibrators.items()}


def samples(seed: int, n: int, n_keys: int) -> list[Event]:
    draw = random.Random(seed)
    names = ["a", ("a", 1), None, *(f"k{i}" for i in range(n_keys))]
    return [
        Event(
            draw.choice([0.1, 0.5, draw.random()]),
            draw.choice([NAN, 0.0, 1.0, 1.0]),
            key=names[int(len(names) * draw.random() ** 2)],
        )
        for _ in range(n)
    ]


def small_isotonic() -> Calibrator:
    return IsotonicCalibrator(window=9)


class Sometimes(Pace):
    """Commits after some batches."""

    draw = random.Random(0)

    def is_due(self) -> bool:
        return self.draw.random() < 0.5


class Ends(Exception):  # noqa: N818  (a process that dies, not an error)
    pass


def states_in(store: Store) -> dict[Any, bytes]:
    names = filter(lambda name: name.startswith("key:"), store.keys())
    return {key_of(name): store.get_bytes(name) for name in names}


@pytest.mark.parametrize("make", [small_isotonic, PlattCalibrator, HedgedCalibrator])
@pytest.mark.parametrize("max_live", [None, 2])
@pytest.mark.parametrize("seed", range(6))
def test_runs_that_die_expire_the_same_keys(
    tmp_path: Path, make: Any, max_live: int | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Pace", Sometimes)
    draw = Sometimes.draw = random.Random(seed)
    rows, period = samples(seed, 200, draw.choice([4, 20])), draw.choice([1, 5, 17, 60, 500])
    plain = Plain(make, period)
    expected = [plain.predict_learn(row.key, row.score, row.y) for row in rows]
    received: dict[int, float] = {}
    for stop in [*sorted(draw.sample(range(1, 200), 6)), math.inf]:

        def sink(offset: int, values: Any, stop: float = stop) -> None:
            if offset + len(values) > stop:
                raise Ends
            received.update(enumerate(values.tolist(), offset))

        with Store(tmp_path / "run.db") as store:
            keyed = KeyedCalibrator(make, max_live=max_live, store=store, expire_after=period)
            try:
                run(rows, keyed, sink, store, batch_size=draw.choice([1, 7, 30, 200]))
            except Ends:
                continue
            assert states_in(store) == plain.states()
            assert set(keyed) == set(plain.calibrators)
            assert len(keyed) == len(plain.calibrators)
            store.check()
    assert [received[i] for i in range(200)] == expected


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("max_live", [None, 1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_calls_in_any_order(
    tmp_path: Path, with_store: bool, max_live: int | None, seed: int
) -> None:
    draw = random.Random(seed)
    rows, period = samples(seed, 300, 8), draw.choice([1, 4, 13, 50])
    plain = Plain(small_isotonic, period)
    path = tmp_path / "run.db"

    def opened() -> KeyedCalibrator:
        store = Store(path) if with_store else None
        return KeyedCalibrator(small_isotonic, max_live=max_live, store=store, expire_after=period)

    keyed, at, forgotten = opened(), 0, list[Any]()
    while at < len(rows):
        step = draw.choice(["one", "one", "many", "save", "reopen", "forget", "ask", "pickle"])
        if step == "one" and rows[at].y == rows[at].y:
            row = rows[at]
            keyed.learn_one(row.key, row.score, row.y)
            plain.predict_learn(row.key, row.score, row.y)
            at += 1
        elif step == "many":
            part = rows[at : at + draw.choice([1, 9, 40])]
            scores, y, _, keys, *_ = zip(*part, strict=True)
            values = keyed.predict_learn_many(keys, scores, y)
            answers = [plain.predict_learn(row.key, row.score, row.y) for row in part]
            np.testing.assert_array_equal(values, answers)
            at += len(part)
        elif step == "save" and with_store:
            keyed.save()
            assert keyed.store is not None
            assert states_in(keyed.store) == plain.states()
        elif step == "reopen" and with_store:
            keyed.save()
            assert keyed.store is not None
            keyed.store.close()
            keyed = opened()
        elif step == "pickle" and not with_store:
            keyed = pickle.loads(pickle.dumps(keyed))
        elif step == "forget" and plain.calibrators:
            key = draw.choice(list(plain.calibrators))
            keyed.forget(key)
            del plain.calibrators[key]
            forgotten.append(key)
        elif step == "ask":
            for row in rows[:20]:
                known = plain.calibrators.get(row.key)
                assert (row.key in keyed) == (known is not None)
                value = (known or small_isotonic()).predict_one(row.score)
                assert keyed.predict_one(row.key, row.score) == value
        assert set(keyed) == set(plain.calibrators)
        assert len(keyed) == len(plain.calibrators)
    assert forgotten


def test_a_restart_drops_what_was_not_saved(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store, expire_after=4)
        keyed.learn_many(["a", "b"], [0.5, 0.5], [0, 1])
        keyed.save(2)
        keyed.learn_many(["b"] * 5, [0.5] * 5, [1] * 5)
        assert set(keyed) == {"a", "b"}
        keyed.learn_one("b", 0.5, 1)  # the eighth sample
        assert set(keyed) == {"b"}
        assert set(states_in(store)) == {"a", "b"}
        keyed.revert()
        assert set(keyed) == {"a", "b"}
        assert store.offset == 2
        keyed.learn_many(["b"] * 6, [0.5] * 6, [1] * 6)
        assert set(keyed) == {"b"}
        keyed.save(8)
        assert set(states_in(store)) == {"b"}


def test_predictions_keep_no_key() -> None:
    keyed = KeyedCalibrator(PlattCalibrator(), expire_after=2)
    keyed.learn_one("a", 0.9, 0)
    keyed.predict_learn_many(["a"] * 9, [0.9] * 9, [NAN] * 9)
    assert "a" in keyed
    keyed.learn_many(["b"] * 3, [0.9] * 3, [0] * 3)
    for _ in range(3):
        keyed.predict_one("a", 0.9)
        keyed.serve_one("a", 0.9)
    assert set(keyed) == {"b"}
    assert keyed.predict_one("a", 0.9) == 0.9


@pytest.mark.parametrize("expire_after", [None, 3])
def test_late_labels_of_a_forgotten_key(tmp_path: Path, expire_after: int | None) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), store=store, expire_after=expire_after)
        for y in (0, 1, 1, 0):
            keyed.learn_one("a", 0.7, y)
        p, ticket = keyed.serve_one("a", 0.7)
        group = [keyed.serve_one("a", score).ticket for score in (0.2, 0.3)]
        if expire_after is None:
            keyed.forget("a")
        else:
            for y in (0, 1, 1, 0, 0):
                keyed.learn_one("b", 0.7, y)
        assert "a" not in keyed
        keyed.learn_one("a", 0.7, 1, ticket=ticket)
        again = HedgedCalibrator()
        again.learn_one(0.7, 1)
        assert keyed.snapshot("a").predict_one(0.4) == again.predict_one(0.4)
        keyed.learn_group("a", [0.2, 0.3], [1, 1], tickets=group)
        again.learn_group([0.2, 0.3], [1, 1])
        assert keyed.snapshot("a").predict_one(0.4) == again.predict_one(0.4)
        assert p != 0.7


def test_a_run_whose_labels_come_after_their_key_has_expired(tmp_path: Path) -> None:
    early = [Event(0.7, y, key="a", id=i) for i, y in enumerate((0, 1, 1, 0))]
    waits = Event(0.7, key="a", id="late")
    others = [Event(0.7, y, key="b", id=f"b{i}") for i, y in enumerate((0, 1) * 5)]
    label = Event(y=1.0, id="late", score=NAN)
    rows = [*early, waits, *others, label]
    received: list[float] = []
    for end in (8, len(rows)):
        with Store(tmp_path / "run.db") as store:
            keyed = KeyedCalibrator(HedgedCalibrator(), store=store, expire_after=5)
            run(rows[:end], keyed, lambda _, p: received.extend(p), store, join=LabelJoin(100))
            if end == len(rows):
                assert set(keyed) == {"a", "b"}
                again = HedgedCalibrator()
                again.learn_one(0.7, 1)
                assert keyed.predict_one("a", 0.2) == again.predict_one(0.2)
    assert len(received) == len(rows)


def test_an_interrupted_save_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saves = Store.save

    def interrupted(self: Store, *args: Any, **given: Any) -> None:
        saves(self, *args, **given)
        raise KeyboardInterrupt

    for is_done in (False, True):
        path = tmp_path / f"{is_done}.db"
        plain = Plain(small_isotonic, 5)
        with Store(path) as store:
            keyed = KeyedCalibrator(small_isotonic, store=store, expire_after=5)
            for at, row in enumerate(samples(3, 120, 5)):
                if row.y == row.y:
                    keyed.learn_one(row.key, row.score, row.y)
                    plain.predict_learn(row.key, row.score, row.y)
                if at % 4 == 0:
                    with monkeypatch.context() as patched:
                        patched.setattr(Store, "save", interrupted if is_done else raise_interrupt)
                        with pytest.raises(KeyboardInterrupt):
                            keyed.save(at)
                if at % 7 == 0:
                    keyed.save(at)
                    assert states_in(store) == plain.states()
            assert set(keyed) == set(plain.calibrators)


@pytest.mark.parametrize("name", ["save", "revert", "forget", "learn_one"])
def test_interrupted_at_any_point(tmp_path: Path, name: str) -> None:
    """What is in memory then is what the next save writes."""

    def prepare(path: Path) -> tuple[KeyedCalibrator, Any]:
        keyed = KeyedCalibrator(PlattCalibrator(), store=Store(path), expire_after=6)
        keyed.learn_many("abcd", [0.3] * 4, [1, 0, 1, 0])
        keyed.save(4)
        keyed.forget("d")
        keyed.forget("a")
        keyed.learn_one("a", 0.5, 1)  # it comes back
        given = {"forget": ["b"], "learn_one": ["new", 0.5, 1]}.get(name, [])
        return keyed, lambda: getattr(keyed, name)(*given)

    keyed, call = prepare(tmp_path / "whole.db")
    n_points, _ = points_of(call)
    assert keyed.store is not None
    keyed.store.close()
    for k in range(n_points):
        keyed, call = prepare(tmp_path / f"{k}.db")
        assert isinstance(interrupt(call, k, InterruptionError()), InterruptionError)
        keys, store = set(keyed), keyed.store
        assert store is not None
        assert len(keyed) == len(keys), k
        in_memory = {key: keyed.snapshot(key).predict_one(0.4) for key in keys}
        keyed.save(5)
        again = KeyedCalibrator(PlattCalibrator(), store=store)
        assert {key: again.snapshot(key).predict_one(0.4) for key in again} == in_memory, k
        store.close()


def test_forgotten_keys_stay_away_when_others_save_during_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their samples are still in a journal."""
    monkeypatch.setattr(Pace, "is_due", lambda _: True)
    draw = random.Random(0)
    rows = [Event(draw.random(), draw.choice([0.0, 1.0]), key="a") for _ in range(32)]
    rows += [row._replace(key="b") for row in rows] * 2
    sizes = {0: 30, 30: 2}

    class Parts:
        def read(self, offset: int, n: int) -> list[Event]:
            return rows[offset : offset + sizes.get(offset, n)]

    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(IsotonicCalibrator(), store=store, expire_after=40)

        def sink(offset: int, _: Any) -> None:
            if offset == 32:
                assert store.journals()
                assert set(keyed) == {"b"}
                store.save({"mine": PlattCalibrator()})

        run(Parts(), keyed, sink, store)
        assert set(keyed) == set(states_in(store)) == {"b"}


def raise_interrupt(*_args: Any, **_given: Any) -> None:
    raise KeyboardInterrupt


def test_a_store_of_keys_that_stayed(tmp_path: Path) -> None:
    """All its keys have a whole period; another length holds from the next start on."""
    path = tmp_path / "run.db"

    def learn(keys: Iterable[str], expire_after: int | None) -> set[Any]:
        with Store(path) as store:
            keyed = KeyedCalibrator(PlattCalibrator(), store=store, expire_after=expire_after)
            for key in keys:
                keyed.learn_one(key, 0.5, 1)
            keyed.save()
            return set(keyed)

    assert learn("abc", None) == set("abc")
    assert learn("aaa", 4) == set("abc")
    assert learn("a", 4) == set("a")
    assert learn("bc", 10) == set("abc")
    assert learn("b" * 3, 10) == set("abc")  # 9 samples; "a" has learned none since the fourth
    assert learn("c" * 10, 10) == set("bc")
    assert learn("c", 10) == set("c")
    assert learn("d" * 50, None) == set("cd")


def test_copies_of_keys_begin_a_period(tmp_path: Path) -> None:
    with Store(tmp_path / "old.db") as old, Store(tmp_path / "new.db") as new:
        keyed = KeyedCalibrator(PlattCalibrator(), store=old, expire_after=4)
        keyed.learn_many(["a", "b", "b"], [0.5] * 3, [1] * 3)
        keyed.save(3)
        assert copy_keys([old], [new], offsets=[3]) == 2
        assert EXPIRY not in new


def test_forget(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store, max_live=1)
        keyed.learn_many(["a", "b"], [0.5, 0.5], [0, 1])
        keyed.save()
        keyed.forget("a")
        assert keyed.forgotten() == [name_of("a")]
        assert "a" not in keyed
        assert store.keys() == [name_of("a"), name_of("b")]
        keyed.revert()
        assert "a" in keyed
        assert keyed.forgotten() == []
        keyed.forget("a")
        keyed.learn_one("a", 0.9, 1)
        assert keyed.forgotten() == []
        keyed.save()
        again = PlattCalibrator()
        again.learn_one(0.9, 1)
        assert states_in(store)["a"] == again.to_bytes()
        keyed.forget("a")
        keyed.save()
        assert states_in(store).keys() == {"b"}
        with pytest.raises(KeyError, match="a"):
            keyed.forget("a")
        with pytest.raises(TypeError, match="`keys` must be"):
            keyed.forget(["a"])


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "9"])
def test_bad_lengths(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`expire_after` must"):
        KeyedCalibrator(PlattCalibrator(), expire_after=bad)


def test_a_damaged_number_of_a_save_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store(path) as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store, expire_after=2)
        keyed.learn_one("b", 0.5, 0)
        keyed.save()
        keyed.learn_one("a", 0.5, 0)
        keyed.save()
        keyed.learn_one("a", 0.5, 0)
        keyed.save()
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE states SET n_saves = 0 WHERE key = ?", (name_of("b"),))
    database.close()
    with Store(path) as store:
        keyed = KeyedCalibrator(PlattCalibrator, store=store, expire_after=2)
        with pytest.raises(StoreError, match="'key:\"b\"' does not fit its digest"):
            keyed.learn_one("a", 0.5, 0)


def test_states_of_expiry_that_are_damaged() -> None:
    expiry = Expiry(7)
    expiry.count(3)
    expiry.used |= {"a", ("b", 1)}
    saved = expiry.to_save(5)
    read = Expiry.from_bytes(saved.to_bytes())
    assert (read.n_left, read.mark, read.is_noted) == (4, 5, True)
    assert read.before_mark == {name_of("a"), name_of(("b", 1))}


def test_what_others_learned_of_a_forgotten_key_is_not_removed(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        one = KeyedCalibrator(PlattCalibrator(), store=store)
        one.learn_many(["a", "b"], [0.5, 0.5], [1, 1])
        one.save()
        other = KeyedCalibrator(PlattCalibrator(), store=store)
        one.forget("a")
        other.learn_many(["a"] * 50, [0.5] * 50, [1] * 50)
        other.save()
        before = states_in(store)
        for call in (lambda: one.learn_one("a", 0.9, 0), one.save):
            with pytest.raises(StoreError, match=r"'a' in .* has changed since it was forgotten"):
                call()
        assert states_in(store) == before
        one.revert()
        one.forget("a")
        one.save()
        assert states_in(store).keys() == {"b"}


def test_a_store_that_cannot_be_read_keeps_a_sample_from_being_learned(tmp_path: Path) -> None:
    store = Store(tmp_path / "run.db")
    keyed = KeyedCalibrator(PlattCalibrator(), store=store, expire_after=2)
    keyed.learn_one("a", 0.5, 1)
    store.close()
    for _ in range(3):
        with pytest.raises(StoreError, match="closed"):
            keyed.learn_one("a", 0.5, 1)
    assert keyed._cache.live["a"].calibrator.n_samples == 1


def test_a_group_is_one_sample() -> None:
    keyed = KeyedCalibrator(HedgedCalibrator(), expire_after=3)
    keyed.learn_one("b", 0.5, 1)
    keyed.learn_group("a", [0.5] * 100, [1] * 100)
    assert set(keyed) == {"a", "b"}
    bad: Any
    for bad in ((key for key in "ab"), {"a", "b"}, {"a": 1, "b": 2}):
        with pytest.raises(TypeError, match="`keys` must be a sequence, got"):
            keyed.learn_many(bad, [0.5, 0.5], [1, 1])
    with pytest.raises(ValueError, match="`keys` must have no masked values, got one at position"):
        keyed.learn_many(np.ma.array(["a", "b"], mask=[False, True]), [0.5, 0.5], [1, 1])
    for _ in range(4):
        keyed.learn_one("a", 0.5, 1)
    assert set(keyed) == {"a"}


@pytest.mark.parametrize("with_store", [False, True])
def test_an_interrupt_parts_no_period_from_its_end(tmp_path: Path, with_store: bool) -> None:
    """Either a period goes on, with one sample to its end, or it has ended: keys are dropped."""

    def prepare(name: str) -> tuple[KeyedCalibrator, Any]:
        store = Store(tmp_path / name) if with_store else None
        keyed = KeyedCalibrator(PlattCalibrator(), store=store, expire_after=4)
        keyed.learn_many(["old", "a", "a", "a"], [0.3] * 4, [1, 0, 1, 0])
        if with_store:
            keyed.save()
        keyed.learn_many(["a", "b", "b"], [0.3] * 3, [1, 0, 1])
        return keyed, lambda: keyed.learn_one("c", 0.5, 1)

    keyed, call = prepare("whole.db")
    n_points, _ = points_of(call)
    assert set(keyed) == {"a", "b", "c"}
    seen = set()
    for k in range(0, n_points, 4 if with_store else 1):  # stores take long
        if keyed.store is not None:
            keyed.store.close()
        keyed, call = prepare(f"{k}.db")
        interrupt(call, k, InterruptionError())
        expiry = keyed._cache._expiry
        assert expiry is not None
        n_left = expiry.n_left
        seen.add(n_left)
        assert ("old" in keyed) == (n_left == 1), k
        keyed.learn_many(["a"] * n_left, [0.5] * n_left, [1] * n_left)
        assert "old" not in keyed
        assert ("b" in keyed) == (n_left == 1), k
    assert seen == {1, 4}
