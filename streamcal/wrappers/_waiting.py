"""Stored predictions by features: which one a label belongs to, and which are forgotten."""

import itertools
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from streamcal._locked import new_mutex
from streamcal.wrappers._packed import PackedPrediction, Packer, Prediction

Kept = Prediction | PackedPrediction

_RATE = 0.02  # of the mean that follows the delay of labels
_MANY = 10  # predictions; if the features of all differ, features seem to identify samples


class _SameFeatures:
    """The predictions of equal features: their places in the order of all, the oldest first."""

    __slots__ = ("hash", "key", "places")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.hash = hash(key)
        self.places: list[int] = []


class WaitingPredictions:
    """The predictions that wait for their labels, by features.

    If several have the same features, a label belongs to the one that waits about as long as labels
    usually do. Older ones are forgotten: their labels seem to be lost.

    Any thread may call any method at any time.

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
    >>> waiting.take("some features").raw, len(waiting)
    ({True: 0.1}, 1)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # By place, the oldest first. A prediction enters here first and leaves here last, and each
        # step may be repeated: whatever interrupts a change, all is forgotten in the end.
        self.stored: OrderedDict[int, tuple[_SameFeatures, Kept]] = OrderedDict()
        # By hash, so that only `find` compares features, which may raise.
        self.by_hash: dict[int, list[_SameFeatures]] = {}
        self._next_place = itertools.count(1)
        self.n_stored = 0
        self.n_checked = limit  # with fewer stored, none is to be forgotten
        self.delay: float | None = None
        self._packer = Packer()
        self._lock = new_mutex()  # a signal handler may predict in the middle of a change

    def __len__(self) -> int:
        """Return how many predictions wait."""
        return len(self.stored)

    def find(self, key: Hashable) -> _SameFeatures | None:
        """Return the stored predictions with these features, if any; comparing them may raise."""
        for same in self.by_hash.get(hash(key), ()):
            if same.key == key:
                return same
        return None

    def store(self, key: Hashable, prediction: Prediction) -> None:
        """Keep the prediction for these features."""
        with self._lock:
            packed = self._packer.pack(prediction)
            same = self.find(key) or _SameFeatures(key)
            place = self.n_stored = next(self._next_place)
            self.stored[place] = same, packed
            same.places.append(place)
            alike = self.by_hash.setdefault(same.hash, [])
            if same not in alike:
                alike.append(same)
            if place not in self.stored:  # a signal handler forgot it meanwhile
                self._forget(same, place)

    def take(self, key: Hashable) -> Prediction | None:
        """Return the prediction that a label with these features belongs to, and forget it."""
        with self._lock:
            same = self.find(key)
            if same is None:
                return None
            places = same.places
            expected = self._expected_place(places)
            while len(places) > 1 and places[0] + places[1] <= 2.0 * expected:
                self._forget(same, places[0])  # the next one is at least as near
            place = places[0]
            prediction = self._forget(same, place)
            if prediction is None:
                return None
            self.learn_delay(self.n_stored - place)
            return prediction.unpack() if isinstance(prediction, PackedPrediction) else prediction

    def _expected_place(self, places: list[int]) -> float:
        """Return where the prediction of a label is expected, for features with these places."""
        if self.delay is not None:
            return self.n_stored - self.delay
        # This is the first label, and the sample was predicted just now. If no other features came
        # twice, it was also predicted before, as for a comparison, and its label is not late.
        others = len(self.stored) - len(places)
        is_again = places[-1] == self.n_stored and others >= _MANY
        return self.n_stored if is_again and len(self.by_hash) == others + 1 else 0.0

    def learn_delay(self, delay: int) -> None:
        """Learn how many predictions came between a prediction and its label."""
        if self.delay is None:
            self.delay = float(delay)
        self.delay += _RATE * (delay - self.delay)

    def forget_oldest(self) -> None:
        """Forget all predictions that were followed by as many others as the limit."""
        with self._lock:
            while self.stored:
                try:
                    place, (same, _) = next(iter(self.stored.items()))
                except (StopIteration, RuntimeError):  # a signal handler forgot it
                    continue
                self.n_checked = place + self.limit - 1
                if self.n_stored < self.n_checked:
                    return
                self._forget(same, place)
            self.n_checked = self.n_stored + self.limit

    def _forget(self, same: _SameFeatures, place: int) -> Kept | None:
        """Remove the prediction at a place and return it; None if it is no longer there."""
        _discard(same.places, place)
        if not same.places:
            alike = self.by_hash.get(same.hash, [])
            _discard(alike, same)
            if not alike:
                self.by_hash.pop(same.hash, None)
        found = self.stored.pop(place, None)
        return None if found is None else found[1]


def _discard(items: list[Any], item: Any) -> None:
    """Remove an item if it is there, in one step; items are ints, or equal only to themselves."""
    try:  # noqa: SIM105  `suppress` takes longer than the rest
        items.remove(item)
    except ValueError:
        pass
