"""The predictions of a classifier that wait for their labels, found again by the features."""

import threading
from collections import deque
from typing import Any

from streamcal.wrappers.served import Served


class _Prediction:
    """What was served for a sample; None once its label has come."""

    __slots__ = ("key", "served")

    def __init__(self, key: int, served: Served) -> None:
        self.key = key
        self.served: Served | None = served


class PredictionMemory:
    """Keeps the last predictions, so that a late label is learned with what was served.

    A sample is found by the hash of its features. Of several predictions with the same features the
    oldest is taken: labels come in the order of the predictions unless something else is known. The
    same features twice in a row, with no label learned in between, are one prediction: that is how
    ``predict_one`` and ``predict_proba_one`` are called for one sample.

    Copies and pickles are empty. Any thread may call any method at any time.

    Parameters
    ----------
    limit : int
        A prediction is dropped when this many others have been made after it.

    Examples
    --------
    >>> memory = PredictionMemory(2)
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, Served({True: 0.5}, {True: x["a"] / 10}))
    >>> memory.take({"a": 1}) is None, memory.take({"a": 3}).raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._recent: deque[_Prediction] = deque()
        self._by_key: dict[int, deque[_Prediction]] = {}
        self._last_key: int | None = None  # of the last call of `add`, None after `take`
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return sum(map(len, self._by_key.values()))

    def add(self, x: Any, served: Served) -> None:
        """Keep what was served for the features ``x``."""
        key = _key_of(x)
        if key is None or not self.limit:
            return
        with self._lock:
            if key == self._last_key:
                return
            self._last_key = key
            prediction = _Prediction(key, served)
            self._recent.append(prediction)
            self._by_key.setdefault(key, deque()).append(prediction)
            if len(self._recent) > self.limit:
                oldest = self._recent.popleft()
                if oldest.served:
                    self._forget_oldest(oldest.key)

    def take(self, x: Any) -> Served | None:
        """Return what was served for these features and forget it; None if that is not known."""
        if not self.limit:
            return None
        key = _key_of(x)
        with self._lock:
            self._last_key = None
            if key not in self._by_key:
                return None
            prediction = self._forget_oldest(key)
            served, prediction.served = prediction.served, None
            while self._recent and self._recent[-1].served is None:
                self._recent.pop()
            return served

    def _forget_oldest(self, key: int) -> _Prediction:
        waiting = self._by_key[key]
        oldest = waiting.popleft()
        if not waiting:
            del self._by_key[key]
        return oldest


def _key_of(x: Any) -> int | None:
    """Return the hash of features, None if a value has none; the order of a dict does not count."""
    try:
        return hash(frozenset(x.items()) if isinstance(x, dict) else x)
    except TypeError:
        return None
