"""The predictions of a classifier that wait for their labels, found again by the features."""

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from river.base.typing import ClfTarget

from streamcal.calibration.tickets import Ticket
from streamcal.wrappers._features import is_same, key_of, snapshot
from streamcal.wrappers._late_labels import LateLabels
from streamcal.wrappers._packed import Parts, Prediction
from streamcal.wrappers._waiting import WaitingPredictions

MakeTicket = Callable[[Mapping[ClfTarget, float], Any], Ticket | None]
"""Returns the ticket of the calibrators for the model's probabilities and the features.

The features are what `streamcal.wrappers._features.snapshot` returned.
"""


class Found(NamedTuple):
    """The prediction that a label belongs to, which is still remembered.

    Attributes
    ----------
    prediction : Prediction
        What was predicted.
    place : int
        Where it is in the order of all predictions.
    now : int
        The place of the latest prediction.
    key : hashable
        The features; None if no other prediction waited.
    is_latest : bool
        Whether it is the one that is kept aside.
    """

    prediction: Prediction
    place: int
    now: int
    key: Hashable
    is_latest: bool


class PredictionMemory:
    """Remembers the latest predictions, so that a late label is learned with what was served.

    A prediction is found by the features; `WaitingPredictions` chooses among several with the same.
    ``predict_one`` and ``predict_proba_one`` may be called for one sample, so if both are called in
    a row with the same features, this is one prediction. If one of them is called twice, these are
    two samples.

    A label is learned in three steps: `find` changes nothing, so the sample may still be refused;
    `store_latest` comes before anything learns, and `take` forgets what was found.

    Usually the label comes at once. The latest prediction is therefore kept aside, without a hash
    and without a ticket, until the calibrators are about to change or another prediction is made.

    Copies and pickles are empty. Any thread may call any method at any time.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Examples
    --------
    >>> memory, no_ticket = PredictionMemory(2), lambda raw, features: None
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, ({True: x["a"] / 10}, None, 0), no_ticket)
    >>> memory.find({"a": 1}) is None, memory.find({"a": 3}).prediction.raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # The features of the latest prediction, and what was predicted, without a ticket.
        self._latest: tuple[Any, Prediction] | None = None
        self._asked = ""  # what it was asked for: "label", "probabilities", or "both"
        self._waiting = WaitingPredictions(limit)
        self._late_labels = LateLabels(limit)  # of features that are not remembered

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return (self._latest is not None) + len(self._waiting)

    def add(
        self, x: Any, parts: Parts, make_ticket: MakeTicket, asked: str = "probabilities"
    ) -> None:
        """Remember the prediction of ``asked``, the label or probabilities, for ``x``."""
        latest = self._latest
        if latest is not None:
            if self._asked not in (asked, "both") and is_same(latest[0], x):
                self._asked = "both"
                return
            self.store_latest(make_ticket)
        kept = snapshot(x)
        if kept is None:
            self._late_labels.add(x)
        else:
            self._latest = kept, tuple.__new__(Prediction, (*parts, None))  # quicker than a call
            self._asked = asked
        if self._waiting.stored:
            self._waiting.make_room()

    def find(self, x: Any, before: Set[int] = frozenset()) -> Found | None:
        """Return the prediction for these features, None if there is none.

        Those at the places ``before`` belong to other samples, whose labels came with this one.
        """
        latest, waiting = self._latest, self._waiting
        now = waiting.n_stored + (latest is not None)
        is_latest = latest is not None and now not in before and is_same(latest[0], x)
        if latest is not None and is_latest and not waiting.stored:  # the usual case
            return tuple.__new__(Found, (latest[1], now, now, None, True))
        key = key_of(x) if waiting.stored else None
        if key is None:
            return None
        places = waiting.places(key)
        if before:
            places = [place for place in places if place not in before]
        if is_latest:
            places.append(now)
        if not places:
            return None
        place = waiting.choose(places, now)
        if latest is not None and is_latest and place == now:
            return Found(latest[1], now, now, key, True)
        stored = waiting.read(place)
        return None if stored is None else Found(stored, place, now, key, False)

    def warn_if_late(self, x: Any) -> None:
        """Warn if these features were predicted before others, and could not be remembered."""
        if self._late_labels.waiting:
            self._late_labels.learn(x)

    def store_latest(self, make_ticket: MakeTicket, found: Sequence[Found | None] = ()) -> None:
        """Store the latest prediction with its ticket, while the calibrators are as they were.

        It stays aside if it is one of those that were ``found``, as `take` will forget it.
        """
        latest = self._latest
        if latest is None or any(each is not None and each.is_latest for each in found):
            return
        self._latest = None  # first, so that an error in what follows is not raised again and again
        kept, prediction = latest
        ticket = make_ticket(prediction.raw, kept)
        self._waiting.store(key_of(kept), prediction._replace(ticket=ticket))

    def take(self, found: Found) -> None:
        """Forget a prediction that was found, since its label is learned.

        A signal handler may have predicted since then, so that it is stored now.
        """
        latest = self._latest
        if found.is_latest and latest is not None and latest[1] is found.prediction:
            self._latest = None
            if found.key is None:
                if self._waiting.delay != 0.0:
                    self._waiting.learn_delay(0)
                return
        self._waiting.take(found.key, found.place, found.now)
