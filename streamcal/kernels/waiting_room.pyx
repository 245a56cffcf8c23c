"""What waits for its label: values under names, found again, and dropped after a while.

`streamcal.durable.LabelJoin` holds the halves of events by their ids, and
`streamcal.CalibratedClassifier` its predictions by the features of the sample.
"""

from bisect import bisect_left


cdef class WaitingRoom:
    """Values that wait, by place: the number of the event or of the prediction they are from.

    Several values may have one name. No bytecode runs within a call if names are hashed and compared
    in C. So threads and signal handlers find it done or not begun, and it can be a step of
    `streamcal._whole.do_all`.

    Parameters
    ----------
    given : iterable of (int, hashable, object)
        Places from 1 on, names and values, the earliest first.

    Attributes
    ----------
    last : int
        The latest place at which a value has been added; 0 before the first.
    aside : object
        A value that waits without a place: the next one, if it is stored. None if there is none.

    Examples
    --------
    >>> room = WaitingRoom([(1, "a", 0.5), (2, "b", 0.25), (3, "a", 0.75)])
    >>> room.places("a"), room.get(2), room.until(2), len(room)
    ([1, 3], 0.25, [1, 2], 3)
    >>> room.drop_until(2)
    >>> room.places("a"), room.get(2), len(room), room.last
    ([3], None, 1, 3)
    """

    cdef dict by_place  # a name and a value
    cdef dict by_name  # places, sorted
    cdef long long first  # nothing waits at an earlier place
    cdef readonly long long last
    cdef public object aside

    def __init__(self, given=()):
        self.by_place, self.by_name, self.first, self.last = {}, {}, 1, 0
        for place, name, value in given:
            self.add(place, name, value)

    def __reduce__(self):
        return WaitingRoom, (list(self),)

    def __len__(self):
        return len(self.by_place)

    def __iter__(self):
        return iter([(place, name, value) for place, (name, value) in self.by_place.items()])

    @property
    def n_names(self):
        """How many names the values have."""
        return len(self.by_name)

    def places(self, name):
        """Return the places of the values with a name, sorted."""
        return list(self.by_name.get(name, ()))

    def latest(self, name):
        """Return the last place of a value with a name, 0 if there is none."""
        places = self.by_name.get(name)
        return 0 if places is None else (<list> places)[len(places) - 1]

    def get(self, long long place):
        """Return the value at a place, None if there is none."""
        found = self.by_place.get(place)
        return None if found is None else (<tuple> found)[1]

    def until(self, long long last):
        """Return the places up to the ``last`` at which values wait."""
        cdef list found = []
        cdef long long place = self.first
        while place <= last:
            if place in self.by_place:
                found.append(place)
            place += 1
        return found

    def add(self, long long place, name, value):
        """Add a value at a place after the last, or replace one that has the same name."""
        cdef list places
        if place not in self.by_place:
            places = self.by_name.setdefault(name, [])
            places.append(place)
            if len(self.by_place) == 0 or place < self.first:
                self.first = place
            self.last = max(self.last, place)
        self.by_place[place] = (name, value)

    def store_aside(self, aside, name, value):
        """Add a value in place of the one ``aside``, unless another is aside now."""
        if self.aside is aside:
            self.add(self.last + 1, name, value)
            self.aside = None

    def drop_aside(self, aside, long long place):
        """Drop the value ``aside``; it is at a place if it has been stored."""
        if self.aside is aside:
            self.aside = None
        else:
            self.drop(place)

    def drop(self, long long place):
        """Drop the value at a place, if there is one."""
        cdef list places
        found = self.by_place.pop(place, None)
        if found is not None:
            name = (<tuple> found)[0]
            places = self.by_name[name]
            del places[bisect_left(places, place)]
            if len(places) == 0:
                del self.by_name[name]

    def drop_until(self, long long last):
        """Drop all values up to the place ``last``."""
        while self.first <= last:
            self.drop(self.first)
            self.first += 1
