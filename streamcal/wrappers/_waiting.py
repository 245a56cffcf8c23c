"""Stored predictions by features: which one a label belongs to, and which are forgotten."""

import itertools
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable

from streamcal._locked import new_mutex
from streamcal.wrappers._packed import PackedPrediction, Packer, Prediction

Kept = Prediction | PackedPrediction

_RATE = 0.02  # of the mean that follows the delay of labels
_MANY = 10  # predictions; if the features of all differ, features seem to identify samples
_LONG = 5.0  # mean delays: a label that is later than this seems to be lost
_SOON = 100  # predictions: no label seems to be lost before there are so many


class _SameFeatures:
    """The predictions of equal features: their places in the order of all, sorted."""

    __slots__ = ("key", "places")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.places: list[int] = []


class WaitingPredictions:
    """The predictions that wait for their labels, by features.

    If several have the same features, a label belongs to the one that waits about as long as labels
    usually do; the first label belongs to the oldest. One is forgotten, as if its label were lost,
    when others with the same features wait, and it is older than five mean delays and a hundred
    predictions. So a label may come much later than usual: the first rows of a game whose labels
    all come at its end wait twice as long as the mean.

    Any thread, and any signal handler, may call any method at any time. Nothing is caught here, so
    that what a signal handler raises reaches the caller.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Attributes
    ----------
    delay : float or None
        How many predictions usually follow before the label; None before the first label.

    Examples
    --------
    >>> waiting = WaitingPredictions(10)
    >>> for i in range(3):
    ...     waiting.store("some features", Prediction({True: i / 10}, None, 0))
    >>> waiting.learn_delay(1)
    >>> place = waiting.choose(waiting.places("some features"), 3)
    >>> waiting.read(place).raw
    {True: 0.1}
    >>> waiting.take("some features", place, 3)
    >>> len(waiting)
    2
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # By place. A prediction enters here first and leaves here last, and each step may be
        # repeated: whatever interrupts a change, all is forgotten in the end.
        self.stored: dict[int, tuple[_SameFeatures, Kept]] = {}
        self.by_key: dict[Hashable, _SameFeatures] = {}
        self._next_place = itertools.count(1)
        self._oldest = 1  # there is none at an earlier place
        self.n_stored = 0
        self.delay: float | None = None
        self._packer = Packer()
        self._lock = new_mutex()  # a signal handler may predict in the middle of a change

    def __len__(self) -> int:
        """Return how many predictions wait."""
        return len(self.stored)

    def places(self, key: Hashable) -> list[int]:
        """Return the places of the predictions with these features, the oldest first."""
        same = self.by_key.get(key)
        return [] if same is None else list(same.places)

    def store(self, key: Hashable, prediction: Prediction) -> None:
        """Keep the prediction for these features."""
        with self._lock:
            packed = self._packer.pack(prediction)
            same = self.by_key.get(key) or _SameFeatures(key)
            place = self.n_stored = next(self._next_place)
            self.stored[place] = same, packed
            insort(same.places, place)
            self.by_key[key] = same
            if place < self._oldest:  # a signal handler stored many others meanwhile
                self._forget(same, place)

    def choose(self, places: list[int], now: int) -> int:
        """Return the place of these that a label belongs to; ``now`` is that of the latest.

        The places are sorted.
        """
        if len(places) == 1:
            return places[0]
        expected = self._expected_place(places, now)
        first = min(self._n_lost(places, now), len(places) - 1)
        after = bisect_left(places, expected, first)
        nearest = places[max(after - 1, first) : after + 1]
        return min(nearest, key=lambda place: abs(place - expected))

    def read(self, place: int) -> Prediction | None:
        """Return the prediction at a place, None if it is no longer there."""
        found = self.stored.get(place)
        if found is None:
            return None
        return found[1].unpack() if isinstance(found[1], PackedPrediction) else found[1]

    def take(self, key: Hashable, place: int, now: int) -> None:
        """Forget the prediction with these features at a place, since its label has come."""
        with self._lock:
            found = self.stored.get(place)
            same = self.by_key.get(key) if found is None else found[0]
            if same is not None:  # else another thread or a signal handler took it
                if len(same.places) > 1:
                    for other in same.places[: self._n_lost(same.places, now)]:
                        self._forget(same, other)
                self._forget(same, place)
            self.learn_delay(now - place)

    def _n_lost(self, places: list[int], now: int) -> int:
        """Return how many of these predictions are so old that no label is expected."""
        if self.delay is None:
            return 0
        return bisect_left(places, now - max(_LONG * self.delay, _SOON))

    def _expected_place(self, places: list[int], now: int) -> float:
        """Return where the prediction of a label is expected, for features with these places."""
        if self.delay is not None:
            return now - self.delay
        # This is the first label, and the sample was predicted just now. If no other features came
        # twice, it was also predicted before, as for a comparison, and its label is not late.
        if len(places) < 2 or places[-1] != now:
            return 0.0
        others = len(self.stored) - sum(place in self.stored for place in places)
        n_alike = len(self.by_key) - (not self.stored.keys().isdisjoint(places))
        return now if others >= _MANY and n_alike == others else 0.0

    def learn_delay(self, delay: int) -> None:
        """Learn how many predictions came between a prediction and its label."""
        if self.delay is None:
            self.delay = float(delay)
        self.delay += _RATE * (delay - self.delay)

    def make_room(self) -> None:
        """Forget all predictions beyond the limit, less one for the latest, which is not stored."""
        if self._oldest > self.n_stored - self.limit + 1:
            return
        with self._lock:
            while self._oldest <= self.n_stored - self.limit + 1:
                place = self._oldest
                found = self.stored.get(place)
                if found is not None:
                    self._forget(found[0], place)
                self._oldest = place + 1

    def _forget(self, same: _SameFeatures, place: int) -> None:
        """Remove the prediction at a place, if it is still there."""
        # In one step, as a signal handler may remove it after a look.
        deque(map(same.places.remove, filter(same.places.__contains__, (place,))), 0)
        if not same.places and self.by_key.get(same.key) is same:
            self.by_key.pop(same.key, None)
        self.stored.pop(place, None)
