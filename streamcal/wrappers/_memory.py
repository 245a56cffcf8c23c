"""The predictions of a classifier that wait for their labels, found again by the features."""

from collections.abc import Callable, Mapping
from typing import Any

from river.base.typing import ClfTarget

from streamcal.calibration.joint_hedge import AnyTicket
from streamcal.wrappers._features import NOT_COMPARED, is_same, key_of, snapshot
from streamcal.wrappers._late_labels import LateLabels
from streamcal.wrappers._packed import Parts, Prediction
from streamcal.wrappers._waiting import WaitingPredictions

MakeTickets = Callable[[Mapping[ClfTarget, float], Any], Mapping[ClfTarget, AnyTicket]]
"""Returns the tickets of calibrators by label, for the model's probabilities and the features.

The features are what `streamcal.wrappers._features.snapshot` returned.
"""


class PredictionMemory:
    """Remembers the latest predictions, so that a late label is learned with what was served.

    A prediction is found by the features; `WaitingPredictions` chooses among several with the same.
    ``predict_one`` and ``predict_proba_one`` may be called for one sample, so if both are called in
    a row with the same features, this is one prediction. If one of them is called twice, these are
    two samples.

    Usually the label comes at once. The latest prediction is therefore kept aside, without a hash
    and without tickets, until the calibrators are about to change or another prediction is made.

    Copies and pickles are empty. Any thread may call any method at any time.

    Parameters
    ----------
    limit : int
        A prediction is forgotten after this many others.

    Examples
    --------
    >>> memory, no_tickets = PredictionMemory(2), lambda raw, features: {}
    >>> for x in ({"a": 1}, {"a": 2}, {"a": 3}):
    ...     memory.add(x, ({True: x["a"] / 10}, None, 0), no_tickets)
    >>> memory.take({"a": 1}, no_tickets) is None, memory.take({"a": 3}, no_tickets).raw
    (True, {True: 0.3})
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # The features of the latest prediction, and its parts without tickets.
        self._latest: tuple[Any, Parts] | None = None
        self._asked = ""  # what it was asked for: "label", "probabilities", or "both"
        self._waiting = WaitingPredictions(limit)
        self._late_labels = LateLabels(limit)  # of features that are not remembered

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionMemory, (self.limit,)

    def __len__(self) -> int:
        """Return how many predictions wait for their labels."""
        return (self._latest is not None) + len(self._waiting)

    def add(
        self, x: Any, parts: Parts, make_tickets: MakeTickets, asked: str = "probabilities"
    ) -> None:
        """Remember the prediction of ``asked``, the label or probabilities, for ``x``."""
        latest = self._latest
        if latest is not None:
            if self._asked not in (asked, "both") and is_same(latest[0], x):
                self._asked = "both"
                return
            self.store_latest(make_tickets)
        kept = snapshot(x)
        if kept is None:
            self._late_labels.add(x)
        else:
            self._latest, self._asked = (kept, parts), asked
        if self._waiting.n_stored >= self._waiting.n_checked:
            self._waiting.forget_oldest()

    def take(self, x: Any, make_tickets: MakeTickets) -> Prediction | None:
        """Return the prediction for these features and forget it; None if there is none.

        The calibrators are about to change, so `store_latest` comes first.
        """
        latest = self._latest
        if latest is not None:
            if is_same(latest[0], x) and (not self._waiting.stored or self._is_only(latest[0])):
                self._latest = None
                if self._waiting.delay != 0.0:
                    self._waiting.learn_delay(0)
                return tuple.__new__(Prediction, (*latest[1], None))  # quicker than a call
            self.store_latest(make_tickets)
        if self._late_labels.waiting:
            self._late_labels.learn(x)
        key = key_of(x) if self._waiting.stored else None
        try:
            return None if key is None else self._waiting.take(key)
        except (*NOT_COMPARED, LookupError):  # or a signal handler took the same one
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
            self._waiting.store(key_of(kept), Prediction(*parts, make_tickets(parts[0], kept)))
        except NOT_COMPARED:
            return

    def _is_only(self, kept: Any) -> bool:
        """Return whether no stored prediction has these features."""
        try:
            return self._waiting.find(key_of(kept)) is None
        except NOT_COMPARED:
            return False
