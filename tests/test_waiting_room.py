"""What waits under names is found again, and dropped by place: against a list of all."""

import pickle
import random as randoms
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal.kernels.waiting_room import WaitingRoom


class Listed:
    """The same as a list of places, names and values."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any, Any]] = []
        self.last = 0

    def add(self, place: int, name: Any, value: Any) -> None:
        old = [row for row in self.rows if row[0] == place]
        if old:
            self.rows[self.rows.index(old[0])] = place, name, value
        else:
            self.rows.append((place, name, value))
            self.last = max(self.last, place)

    def append(self, name: Any, value: Any) -> None:
        self.add(self.last + 1, name, value)

    def drop(self, place: int) -> None:
        self.rows = [row for row in self.rows if row[0] != place]

    def drop_until(self, last: int) -> None:
        self.rows = [row for row in self.rows if row[0] > last]


def check_alike(room: "WaitingRoom[Any]", listed: Listed) -> None:
    assert list(room) == listed.rows
    assert (len(room), room.last) == (len(listed.rows), listed.last)
    names = {name for _, name, _ in listed.rows}
    assert room.n_names == len(names)
    for name in [*names, "nobody"]:
        assert room.places(name) == [place for place, other, _ in listed.rows if other == name]
        assert room.latest(name) == max(room.places(name), default=0)
    for last in range(-1, listed.last + 2):
        assert room.until(last) == [place for place, *_ in listed.rows if place <= last]
        expected = [value for place, _, value in listed.rows if place == last]
        assert room.get(last) == (expected[0] if expected else None)


@given(st.randoms(use_true_random=False))
def test_random_programs_do_the_same_as_a_list(random: randoms.Random) -> None:
    room: WaitingRoom[Any] = WaitingRoom()
    listed = Listed()
    for step in range(40):
        place = random.randint(0, listed.last + 1)
        next_place = listed.last + 1
        later = listed.last + random.randint(1, 3)
        kind = random.randrange(7)
        for each in (room, listed):
            if kind < 3:
                each.add(next_place, "abc"[step % 3], step)
            elif kind == 3:
                each.add(later, "abc"[step % 3], step)
            elif kind == 4:
                each.drop(place)
            elif kind == 5:
                each.drop_until(place - 3)
        if kind == 6:
            room = pickle.loads(pickle.dumps(room)) if listed.rows else room
            listed.last = room.last
            for at, name, _ in listed.rows[:2]:  # replaced in place
                room.add(at, name, "new")
                listed.add(at, name, "new")
        check_alike(room, listed)


def test_a_name_without_a_hash_changes_nothing() -> None:
    room = WaitingRoom([(1, "a", 0.5)])
    for change in (lambda: room.store_aside(None, [], 1), lambda: room.add(5, {}, 1)):
        with pytest.raises(TypeError, match="unhashable"):
            change()
        assert list(room) == [(1, "a", 0.5)]
        assert (room.last, room.n_names) == (1, 1)
