"""The predictions of a classifier that wait for their labels, found again by the features."""

import threading
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from river.base.typing import ClfTarget

from streamcal.calibration.hedged import Ticket
from streamcal.calibration.joint_hedge import AnyTicket, JointTicket

MakeTickets = Callable[[Mapping[ClfTarget, float]], Mapping[ClfTarget, AnyTicket]]
"""Returns the tickets of hedged calibrators by label, for the model's probabilities."""
Parts = tuple[Mapping[ClfTarget, float], Mapping[ClfTarget, float] | None, int]
"""A `Prediction` without tickets, as a tuple because it is made for each sample."""

# Values of features that cannot change, so that the features need no hash at first.
_PLAIN = {float, int, str, bool, type(None), np.float64, np.float32, np.int64, np.bool_}
_RATE = 0.02  # of the mean that follows the delay of labels


class Prediction(NamedTuple):
    """A prediction that waits for its label.

    Attributes
    ----------
    raw : dict
        The model's probabilities by label.
    shown : dict or None
        The calibrated ones, if a drift detector needs them.
    n_alarms : int
        The number of alarms of the drift detector at that time.
    tickets : dict or None
        The tickets of hedged calibrators by label. None if nothing was learned in between, so that
        the calibrators predict now what they predicted then.
    """

    raw: Mapping[ClfTarget, float]
    shown: Mapping[ClfTarget, float] | None
    n_alarms: int
    tickets: Mapping[ClfTarget, AnyTicket] | None = None


class _Entry:
    """A stored prediction, and its place in the order of all; None once it is not needed."""

    __slots__ = ("key", "place", "prediction")

    def __init__(self, key: Hashable, place: int, prediction: Prediction) -> None:
        self.key = key
        self.place = place
        self.prediction: Prediction | None = prediction


class PredictionMemory:
    """Remembers the latest predictions, so that a late label is learned with what was served.

    A prediction is found by the features. If several predictions have the same features, the one is
    taken whose label is about as late as labels usually are, and older ones are forgotten: their
    labels seem to be lost. If the same features come twice in a row, with no label in between, they
    are one prediction: ``predict_one`` and ``predict_proba_one`` may be called for one sample.

    Usually the label comes at once. The latest prediction is therefore kept aside, without a hash
    and without tickets, until the calibrators are about to change or another prediction is made.

    Copies and pickles are empty. Any thread may call any method at any time.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Examples
    --------
    >>> memory, no_tickets = PredictionMemory(2), lambda raw: {}
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, ({True: x["a"] / 10}, None, 0), no_tickets)
    >>> memory.take({"a": 1}, no_tickets) is None, memory.take({"a": 3}, no_tickets).raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # The features of the latest prediction, and its parts without tickets.
        self._latest: tuple[Any, Parts] | None = None
        self._recent: deque[_Entry] = deque()
        self._by_key: dict[Hashable, deque[_Entry]] = {}
        self._n_stored = 0
        self._delay: float | None = None  # how many predictions usually follow before the label
        self._lock = threading.RLock()  # a signal handler may predict in the middle of a change

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return (self._latest is not None) + sum(map(len, self._by_key.values()))

    def add(self, x: Any, parts: Parts, make_tickets: MakeTickets) -> None:
        """Remember the prediction for the features ``x``."""
        latest = self._latest
        if latest is not None:
            if _is_same(latest[0], x):
                return
            self.store_latest(make_tickets)
        kept = _snapshot(x)
        if kept is not None:
            self._latest = kept, parts
        while self._recent and len(self._recent) >= self.limit:
            self._forget_oldest()

    def take(self, x: Any, make_tickets: MakeTickets) -> Prediction | None:
        """Return the prediction for these features and forget it; None if there is none.

        The calibrators are about to change, so `store_latest` comes first.
        """
        latest = self._latest
        if latest is not None:
            if _is_same(latest[0], x) and (not self._by_key or self._is_only(latest[0])):
                self._latest = None
                if self._delay != 0.0:
                    self._learn_delay(0)
                return tuple.__new__(Prediction, (*latest[1], None))  # quicker than a call
            self.store_latest(make_tickets)
        key = _key_of(x) if self._by_key else None
        try:
            return None if key is None else self._take_stored(key)
        except Exception:  # features can't be compared, or a signal handler took the same one
            return None

    def store_latest(self, make_tickets: MakeTickets) -> None:
        """Store the latest prediction with tickets, while the calibrators are as they were.

        It is forgotten if it has no tickets, as for probabilities that no calibrator accepts, or
        if its features cannot be compared.
        """
        latest, self._latest = self._latest, None
        if latest is None:
            return
        kept, parts = latest
        try:
            tickets = {label: _compact(ticket) for label, ticket in make_tickets(parts[0]).items()}
            self._store(_key_of(kept), Prediction(*parts, tickets))
        except Exception:
            return

    def _is_only(self, kept: Any) -> bool:
        """Return whether no stored prediction has these features."""
        try:
            return _key_of(kept) not in self._by_key
        except Exception:
            return False

    def _store(self, key: Hashable, prediction: Prediction) -> None:
        with self._lock:
            self._n_stored += 1
            entry = _Entry(key, self._n_stored, prediction)
            self._by_key.setdefault(key, deque()).append(entry)
            self._recent.append(entry)

    def _take_stored(self, key: Hashable) -> Prediction | None:
        with self._lock:
            same = self._by_key.get(key)
            if not same:
                return None
            if self._delay is not None:
                expected = self._n_stored - self._delay
                while len(same) > 1 and same[0].place + same[1].place <= 2.0 * expected:
                    same.popleft().prediction = None  # the next one is at least as near
            entry = self._remove_oldest(key)
            if entry is None:
                return None
            self._learn_delay(self._n_stored - entry.place)
            prediction, entry.prediction = entry.prediction, None
            while self._recent and self._recent[0].prediction is None:
                self._recent.popleft()
            return prediction

    def _learn_delay(self, delay: int) -> None:
        if self._delay is None:
            self._delay = float(delay)
        self._delay += _RATE * (delay - self._delay)

    def _forget_oldest(self) -> None:
        with self._lock:
            if self._recent and (oldest := self._recent.popleft()).prediction is not None:
                self._remove_oldest(oldest.key)

    def _remove_oldest(self, key: Hashable) -> _Entry | None:
        same = self._by_key.get(key)
        if not same:
            return None
        entry = same.popleft()
        if not same:
            self._by_key.pop(key, None)
        return entry


def _compact(ticket: AnyTicket) -> AnyTicket:
    """Return a ticket of many labels with arrays, which take a fifth of the memory of tuples."""
    if isinstance(ticket, JointTicket):
        return JointTicket(*(Ticket(n, array("d", answers)) for n, answers in ticket))
    return ticket


def _snapshot(x: Any) -> Any:
    """Return what later features are compared with; None if features may change or have no hash."""
    if type(x) is dict and _PLAIN.issuperset(map(type, x.values())):
        return dict(x)
    return _key_of(x)


def _is_same(kept: Any, x: Any) -> bool:
    """Return whether features are those of a snapshot; what cannot be compared is not."""
    try:
        return bool(kept == (x if type(kept) is dict else _key_of(x)))
    except Exception:
        return False


def _key_of(x: Any) -> Hashable:
    """Return features as a key, None if a value has no hash; the order of a dict does not count."""
    try:
        key: Hashable = frozenset(x.items()) if isinstance(x, dict) else x
        hash(key)
    except Exception:
        return None
    return key
