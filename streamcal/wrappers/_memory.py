"""The predictions of a classifier that wait for their labels, found again by the features."""

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from river.base.typing import ClfTarget

from streamcal.calibration.hedged import Ticket
from streamcal.calibration.joint_hedge import JointTicket


class Prediction(NamedTuple):
    """A prediction that waits for its label.

    Attributes
    ----------
    raw : dict
        The model's probabilities by label.
    shown : dict or None
        The calibrated ones, if a drift detector needs them.
    tickets : dict
        The tickets of hedged calibrators by label.
    n_alarms : int
        The number of alarms of the drift detector at that time.
    """

    raw: Mapping[ClfTarget, float]
    shown: Mapping[ClfTarget, float] | None
    tickets: Mapping[ClfTarget, Ticket | JointTicket]
    n_alarms: int


class _Entry:
    """A remembered prediction; None once its label has arrived."""

    __slots__ = ("key", "prediction")

    def __init__(self, key: int, prediction: Prediction) -> None:
        self.key = key
        self.prediction: Prediction | None = prediction


class PredictionMemory:
    """Remembers the latest predictions, so that a late label is learned with what was served.

    A sample is found by the hash of its features. If several predictions have the same features,
    the oldest is taken. If the same features come twice in a row, with no label in between, they
    are one prediction: ``predict_one`` and ``predict_proba_one`` may be called for one sample.

    Copies and pickles are empty. Any thread may call any method at any time.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Examples
    --------
    >>> memory = PredictionMemory(2)
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, Prediction({True: x["a"] / 10}, None, {}, 0))
    >>> memory.take({"a": 1}) is None, memory.take({"a": 3}).raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._recent: deque[_Entry] = deque()
        self._by_key: dict[int, deque[_Entry]] = {}
        self._last_key: int | None = None  # of the last call of `add`, None after `take`
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return sum(map(len, self._by_key.values()))

    def add(self, x: Any, prediction: Prediction) -> None:
        """Remember the prediction for the features ``x``."""
        key = _key_of(x)
        if key is None:
            return
        with self._lock:
            if key == self._last_key:
                return
            self._last_key = key
            entry = _Entry(key, prediction)
            self._recent.append(entry)
            same = self._by_key.get(key)
            if same is None:
                self._by_key[key] = deque((entry,))
            else:
                same.append(entry)
            if len(self._recent) > self.limit:
                oldest = self._recent.popleft()
                if oldest.prediction is not None:
                    self._remove_oldest(oldest.key)

    def take(self, x: Any) -> Prediction | None:
        """Return the prediction for these features and forget it; None if there is none."""
        key = _key_of(x) if self.limit else None
        if key is None:
            return None
        with self._lock:
            self._last_key = None
            if key not in self._by_key:
                return None
            entry = self._remove_oldest(key)
            prediction, entry.prediction = entry.prediction, None
            while self._recent and self._recent[-1].prediction is None:
                self._recent.pop()
            return prediction

    def _remove_oldest(self, key: int) -> _Entry:
        same = self._by_key[key]
        oldest = same.popleft()
        if not same:
            del self._by_key[key]
        return oldest


def _key_of(x: Any) -> int | None:
    """Return the hash of features, None if a value has none; the order of a dict does not count."""
    try:
        return hash(frozenset(x.items()) if isinstance(x, dict) else x)
    except TypeError:
        return None
