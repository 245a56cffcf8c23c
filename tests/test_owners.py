"""Several processes with a part of the keys each, and another number of them: as one process."""

import contextlib
import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import Event, LabelJoin, Store, StoreError, copy_keys, owner, run
from streamcal.durable.keys import PREFIX, name_of

KEYS: list[Any] = ["a", "b", "ä", 1, 1.0, True, 0, -0.0, None, ("a", 1), ("a", 1.0), 0.25, 7]
RNG = np.random.default_rng(3)
EVENTS = [
    Event(score, y, key=KEYS[key])
    for score, y, key in zip(
        RNG.random(400).round(2).tolist(),
        RNG.integers(0, 2, 400).tolist(),
        RNG.integers(0, len(KEYS), 400).tolist(),
        strict=True,
    )
]


def ignore(offset: int, values: Any) -> None:
    pass


def part(number: int, n_processes: int, end: int) -> Callable[[int], Iterator[Event]]:
    """The source of a process, as docs/scaling.md has it."""

    def events_from(offset: int) -> Iterator[Event]:
        mine = (e for e in EVENTS[:end] if owner(e.key, n_processes) == number)
        return itertools.islice(mine, offset, None)

    return events_from


def learn(stores: list[Store], end: int) -> None:
    for number, store in enumerate(stores):
        run(part(number, len(stores), end), IsotonicCalibrator(), ignore, store, batch_size=30)


def states(stores: Iterable[Store]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for store in stores:
        names = store.keys()
        mine = {name: store.get_bytes(name) for name in names if name.startswith(PREFIX)}
        assert not mine.keys() & found.keys(), "two stores have a key"
        found |= mine
    return found


@pytest.fixture
def new_stores(tmp_path: Path) -> Iterator[Callable[[int], list[Store]]]:
    with ExitStack() as stack:
        numbers = itertools.count()

        def make(n: int) -> list[Store]:
            return [stack.enter_context(Store(tmp_path / f"{next(numbers)}.db")) for _ in range(n)]

        yield make


def offsets_of(end: int, n_processes: int) -> list[int]:
    counts = Counter(owner(event.key, n_processes) for event in EVENTS[:end])
    return [counts[number] for number in range(n_processes)]


# Owners -------------------------------------------------------------------------------------------


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("aä\0"),
        lambda keys: st.lists(keys, max_size=3).map(tuple),
        max_leaves=4,
    ),
    st.integers(1, 9),
)
def test_equal_keys_have_one_owner(key: Any, n: int) -> None:
    def other(value: Any) -> Any:
        """An equal value of another type, where there is one."""
        if isinstance(value, tuple):
            return tuple(map(other, value))
        if isinstance(value, int) and abs(value) <= 2**53:
            return float(value)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    assert other(key) == key
    assert owner(other(key), n) == owner(key, n) in range(n)


def test_owners_are_the_same_in_every_run() -> None:
    keys = ("shop", 1, 1.0, True, np.int64(1), np.float32(1))
    assert [owner(key, 8) for key in keys] == [4, 6, 6, 6, 6, 6]
    assert len({owner(f"user {number}", 50) for number in range(2_000)}) == 50


def test_what_is_no_key_has_no_owner() -> None:
    for key, error in ((math.nan, ValueError), ([1], TypeError), (Fraction(1, 3), TypeError)):
        with pytest.raises(error, match="`keys` must be"):
            owner(key, 8)
    for n in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="`n_processes` must be a positive int, got"):
            owner("a", n)


# Another number of processes ----------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [(3, 5), (5, 2), (1, 4), (4, 1), (2, 2), (3, 20)])
def test_another_number_of_processes_is_one_process(
    new_stores: Callable[[int], list[Store]], numbers: tuple[int, int]
) -> None:
    """Every key has learned each of its events once, in order, whoever had it."""
    old, new, (whole,) = *map(new_stores, numbers), new_stores(1)
    learn(old, 250)
    assert sum(store.offset for store in old) == 250
    before = states(old)
    assert copy_keys(old, new, offsets_of(250, len(new))) == len(before)
    assert states(old) == states(new) == before
    learn(new, len(EVENTS))
    learn([whole], len(EVENTS))
    assert states(new) == states([whole])
    assert sum(store.offset for store in new) == len(EVENTS)


def test_a_loop_whose_offset_is_that_of_the_stream(
    new_stores: Callable[[int], list[Store]],
) -> None:
    """Each process reads all events, learns its own, and saves the position in the whole."""
    old, new, (whole,) = new_stores(3), new_stores(2), new_stores(1)

    def work(stores: list[Store], end: int) -> None:
        for number, store in enumerate(stores):
            keyed = KeyedCalibrator(IsotonicCalibrator(), store=store)
            for event in EVENTS[store.offset : end]:
                if owner(event.key, len(stores)) == number:
                    keyed.learn_one(event.key, event.score, event.y)
            keyed.save(end)

    work(old, 130)
    copy_keys(old, new, [130, 130])
    work(new, len(EVENTS))
    work([whole], len(EVENTS))
    assert states(new) == states([whole])


def test_owners_of_your_own(new_stores: Callable[[int], list[Store]]) -> None:
    old, new = new_stores(1), new_stores(2)
    learn(old, 100)
    copy_keys(old, new, [0, 0], owner=lambda key, n: n - 1 if isinstance(key, str) else 0)
    assert set(states(new[1:])) == {name_of(key) for key in ("a", "b", "ä")}


def test_what_does_not_fit_is_refused_and_nothing_is_written(
    new_stores: Callable[[int], list[Store]], tmp_path: Path
) -> None:
    old, new = new_stores(2), new_stores(2)
    learn(old, 100)
    (used,), (twice,), (waits,), (noted,) = (new_stores(1) for _ in range(4))
    used.save({}, offset=3)
    noted.save({}, notes={"source": 3})
    twice.save({name_of("a"): IsotonicCalibrator(), name_of("other"): IsotonicCalibrator()})
    score, join = [Event(0.5, id=3)], LabelJoin(10)
    run(score, IsotonicCalibrator(), ignore, waits, join=join)
    with Store(tmp_path / "reader.db") as closed:
        closed.save({})
    with Store(closed.path, read_only=True) as reader:
        for arguments, options, error, message in [
            ((old, [new[0], used], [0, 0]), {}, ValueError, "`new` must be empty stores, got .*"),
            ((old, [new[0], noted], [0, 0]), {}, ValueError, "`new` must be empty stores, got .*"),
            ((old, [new[0], new[0]], [0, 0]), {}, ValueError, "`new` must be different stores"),
            ((old, [new[0], reader], [0, 0]), {}, ValueError, "`new` must be .*, read only"),
            ((old, [new[0], closed], [0, 0]), {}, StoreError, "reader.db is closed"),
            (([*old, twice], new, [0, 0]), {}, ValueError, "each key once, got 'a' in .* and in"),
            (([*old, old[0]], new, [0, 0]), {}, ValueError, "`old` must have each key once"),
            (([*old, waits], new, [0, 0]), {}, ValueError, "waits .* 1 scores and labels in"),
            ((old, new, [0]), {}, ValueError, r"`offsets` must have one per new store \(2\), got"),
            ((old, new, [0, -1]), {}, ValueError, "`offsets` must be an int of at least 0, got -1"),
            ((old, new, 3), {}, TypeError, "`offsets` must be a sequence of ints, got 3"),
            (([], new, [0, 0]), {}, ValueError, r"`old` must have at least one Store, got \[\]"),
            ((old, [], []), {}, ValueError, r"`new` must have at least one Store, got \[\]"),
            ((["a.db"], new, [0, 0]), {}, TypeError, r"`old` must be a sequence of Store, got \["),
            ((old, old[0], [0]), {}, TypeError, "`new` must be a sequence of Store, got Store"),
            ((old, new, [0, 0]), {"owner": lambda key, n: n}, ValueError, "`owner` must be an int"),
            ((old, new, [0, 0]), {"owner": lambda key, n: "0"}, ValueError, "`owner` must be an"),
        ]:
            with pytest.raises(error, match=message):
                copy_keys(*arguments, **options)
            assert [(len(store), store.offset) for store in new] == [(0, 0), (0, 0)]
    waits.save({}, forget=["join"])
    assert copy_keys([*old, waits], new, [0, 0]) == len(states(old)) > 5


def test_a_damaged_store_is_copied_nowhere(new_stores: Callable[[int], list[Store]]) -> None:
    """Not even the keys of the others."""
    old, new = new_stores(2), new_stores(2)
    learn(old, 100)
    old[1].close()
    with contextlib.closing(sqlite3.connect(old[1].path, isolation_level=None)) as database:
        database.execute("UPDATE states SET data = x'00' WHERE rowid = 2")
    with Store(old[1].path) as damaged, pytest.raises(StoreError, match="is damaged"):
        copy_keys([old[0], damaged], new, [0, 0])
    assert [len(store) for store in new] == [0, 0]
