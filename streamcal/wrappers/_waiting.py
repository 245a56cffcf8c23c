"""The predictions of a classifier that wait for their labels, found again by the features."""

import itertools
import operator
import threading
import warnings
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, cast

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
_FLOATS = {float, np.float64}
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


class _Packed:
    """A `Prediction` of many labels as one array, which takes a fifth of the memory.

    The numbers are the probabilities, then for each label those of its `JointTicket`, if there are
    tickets. ``runs`` are the lengths of the answers on these, and for how many labels.
    """

    __slots__ = ("joint_n_samples", "labels", "n_alarms", "numbers", "runs", "shown")

    def __init__(self, prediction: Prediction, labels: tuple[ClfTarget, ...]) -> None:
        raw, shown, self.n_alarms, tickets = prediction
        self.labels = labels
        self.shown = shown is not None
        numbers = [*raw.values(), *(shown or {}).values()]
        lengths, self.joint_n_samples = [], 0
        for own, joint in cast("Iterable[JointTicket]", (tickets or {}).values()):
            numbers.append(own.n_samples)
            numbers += own.answers
            numbers += joint.answers
            self.joint_n_samples = joint.n_samples  # one hedge made all of these at once
            lengths.append((len(own.answers), len(joint.answers)))
        self.numbers = array("d", numbers)
        self.runs = tuple((run, len(list(same))) for run, same in itertools.groupby(lengths))

    def unpack(self) -> Prediction:
        """Return the prediction as it was."""
        labels, numbers, n = self.labels, self.numbers, len(self.labels)
        shown = dict(zip(labels, numbers[n : 2 * n], strict=True)) if self.shown else None
        at, tickets = 2 * n if self.shown else n, []
        for (n_own, n_joint), n_labels in self.runs:
            for _ in range(n_labels):
                middle = at + 1 + n_own
                own = Ticket(int(numbers[at]), numbers[at + 1 : middle])
                at = middle + n_joint
                tickets.append(JointTicket(own, Ticket(self.joint_n_samples, numbers[middle:at])))
        raw = dict(zip(labels, numbers[:n], strict=True))
        return Prediction(raw, shown, self.n_alarms, dict(zip(labels, tickets, strict=False)))


class _Group:
    """The predictions of equal features: their places in the order of all, the oldest first."""

    __slots__ = ("hash", "key", "places")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.hash = hash(key)
        self.places: list[int] = []


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
        # By place, the oldest first. A prediction enters here first and leaves here last, and each
        # step may be repeated: whatever interrupts a change, all is forgotten in the end.
        self._stored: OrderedDict[int, tuple[_Group, Prediction | _Packed]] = OrderedDict()
        # By hash, so that only `_find` compares features, which may raise.
        self._groups: dict[int, list[_Group]] = {}
        self._next_place = itertools.count(1)
        self._n_stored = 0
        self._n_checked = limit  # with fewer stored, none is to be forgotten
        self._labels: tuple[ClfTarget, ...] = ()  # of the latest packed prediction, shared
        self._late_labels = _LateLabels(limit)  # of features that are not remembered
        self._delay: float | None = None  # how many predictions usually follow before the label
        self._lock = threading.RLock()  # a signal handler may predict in the middle of a change

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return (self._latest is not None) + len(self._stored)

    def add(self, x: Any, parts: Parts, make_tickets: MakeTickets) -> None:
        """Remember the prediction for the features ``x``."""
        latest = self._latest
        if latest is not None:
            if _is_same(latest[0], x):
                return
            self.store_latest(make_tickets)
        kept = _snapshot(x)
        if kept is None:
            self._late_labels.add(x)
        else:
            self._latest = kept, parts
        if self._n_stored >= self._n_checked:
            self._forget_oldest()

    def take(self, x: Any, make_tickets: MakeTickets) -> Prediction | None:
        """Return the prediction for these features and forget it; None if there is none.

        The calibrators are about to change, so `store_latest` comes first.
        """
        latest = self._latest
        if latest is not None:
            if _is_same(latest[0], x) and (not self._stored or self._is_only(latest[0])):
                self._latest = None
                if self._delay != 0.0:
                    self._learn_delay(0)
                return tuple.__new__(Prediction, (*latest[1], None))  # quicker than a call
            self.store_latest(make_tickets)
        if self._late_labels.waiting:
            self._late_labels.learn(x)
        key = _key_of(x) if self._stored else None
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
            self._store(_key_of(kept), Prediction(*parts, make_tickets(parts[0])))
        except Exception:
            return

    def _is_only(self, kept: Any) -> bool:
        """Return whether no stored prediction has these features."""
        try:
            return self._find(_key_of(kept)) is None
        except Exception:
            return False

    def _find(self, key: Hashable) -> _Group | None:
        """Return the stored predictions with these features, if any; comparing them may raise."""
        for group in self._groups.get(hash(key), ()):
            if group.key == key:
                return group
        return None

    def _store(self, key: Hashable, prediction: Prediction) -> None:
        with self._lock:
            packed = prediction if len(prediction[0]) < 3 else self._pack(prediction)
            group = self._find(key) or _Group(key)
            place = self._n_stored = next(self._next_place)
            self._stored[place] = group, packed
            group.places.append(place)
            if len(group.places) == 1:
                self._groups.setdefault(group.hash, []).append(group)
            if place not in self._stored:  # a signal handler forgot it meanwhile
                self._forget(group, place)

    def _pack(self, prediction: Prediction) -> Prediction | _Packed:
        """Return a prediction of more than two labels as arrays, if it comes back the same."""
        raw, shown, _, tickets = prediction
        if not _FLOATS.issuperset(map(type, raw.values())):
            return prediction
        if shown is not None and list(shown) != list(raw):
            return prediction
        if tickets and not all(isinstance(ticket, JointTicket) for ticket in tickets.values()):
            return prediction
        # Labels that are equal may still be different, as True and 1 are.
        if len(self._labels) != len(raw) or not all(map(operator.is_, self._labels, raw)):
            self._labels = tuple(raw)
        return _Packed(prediction, self._labels)

    def _take_stored(self, key: Hashable) -> Prediction | None:
        with self._lock:
            group = self._find(key)
            if group is None:
                return None
            places = group.places
            if self._delay is not None:
                expected = self._n_stored - self._delay
                while len(places) > 1 and places[0] + places[1] <= 2.0 * expected:
                    self._forget(group, places[0])  # the next one is at least as near
            place = places[0]
            prediction = self._forget(group, place)
            if prediction is None:
                return None
            self._learn_delay(self._n_stored - place)
            return prediction.unpack() if isinstance(prediction, _Packed) else prediction

    def _learn_delay(self, delay: int) -> None:
        if self._delay is None:
            self._delay = float(delay)
        self._delay += _RATE * (delay - self._delay)

    def _forget_oldest(self) -> None:
        """Forget all predictions that were followed by as many others as the limit."""
        with self._lock:
            while self._stored:
                try:
                    place, (group, _) = next(iter(self._stored.items()))
                except (StopIteration, RuntimeError):  # a signal handler forgot it
                    continue
                self._n_checked = place + self.limit - 1
                if self._n_stored < self._n_checked:
                    return
                self._forget(group, place)
            self._n_checked = self._n_stored + self.limit

    def _forget(self, group: _Group, place: int) -> Prediction | _Packed | None:
        """Remove the prediction at a place and return it; None if it is no longer there."""
        _discard(group.places, place)
        if not group.places:
            same_hash = self._groups.get(group.hash, [])
            _discard(same_hash, group)
            if not same_hash:
                self._groups.pop(group.hash, None)
        found = self._stored.pop(place, None)
        return None if found is None else found[1]


class _LateLabels:
    """Warns once if features that cannot be remembered come with a late label.

    It holds the features of the latest such prediction, and those of an earlier one, until that
    label comes. There is no false alarm: a label is late if its features are those of the earlier
    prediction, and not of the latest.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.waiting = False
        self._warned = False
        self._latest: Any = None
        self._earlier: Any = None
        self._n_later = 0  # predictions after the earlier one

    def add(self, x: Any) -> None:
        """Note that ``x`` was predicted."""
        latest = self._latest
        if self._warned or (latest is not None and _is_alike(latest, x)):
            return
        self._n_later += 1
        if latest is not None and (self._earlier is None or self._n_later > self._limit):
            self._earlier, self._n_later = latest, 1
        self._latest = _shallow(x)
        self.waiting = True

    def learn(self, x: Any) -> None:
        """Warn if the label of ``x`` is late."""
        if _is_alike(self._latest, x):
            self._latest = None
        elif self._earlier is not None and _is_alike(self._earlier, x):
            self._warned, self.waiting, self._latest, self._earlier = True, False, None, None
            warnings.warn(
                "the label is late, and its prediction was not remembered, because a feature has no"
                " hash or may change (a list, an array or a dict); call `serve_one`, and pass its"
                " result as `served` with the label",
                RuntimeWarning,
                stacklevel=5,
            )


def _discard(items: list[Any], item: Any) -> None:
    """Remove an item if it is there, in one step; items are ints, or equal only to themselves."""
    try:  # noqa: SIM105  `suppress` takes longer than the rest
        items.remove(item)
    except ValueError:
        pass


def _shallow(x: Any) -> Any:
    return dict(x) if type(x) is dict else x


def _is_alike(kept: Any, x: Any) -> bool:
    """Return whether features hold the same objects, or equal ones that can be compared."""
    try:
        if type(x) is not dict or type(kept) is not dict:
            return kept is x
        return kept.keys() == x.keys() and all(_is_equal(kept[name], x[name]) for name in x)
    except Exception:
        return False


def _is_equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


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
