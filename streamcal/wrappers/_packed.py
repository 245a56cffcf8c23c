"""A prediction that waits for its label; with many labels it is packed as one array."""

import itertools
import operator
from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

import numpy as np
from river.base.typing import ClfTarget

from streamcal.calibration.joint_hedge import AnyTicket, JointTicket
from streamcal.calibration.segments import SegmentTicket
from streamcal.calibration.tickets import Ticket

Parts = tuple[Mapping[ClfTarget, float], Mapping[ClfTarget, float] | None, int]
"""A `Prediction` without tickets, as a tuple because it is made for each sample."""

_FLOATS = {float, np.float64}


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


class PackedPrediction:
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
        for own, joint in cast("Iterable[tuple[Ticket, Ticket]]", (tickets or {}).values()):
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


def _is_packable(ticket: AnyTicket) -> bool:
    return isinstance(ticket, JointTicket) and not isinstance(ticket.one_vs_rest, SegmentTicket)


class Packer:
    """Packs predictions; those with the same labels share them."""

    def __init__(self) -> None:
        self._labels: tuple[ClfTarget, ...] = ()  # of the latest packed prediction

    def pack(self, prediction: Prediction) -> Prediction | PackedPrediction:
        """Return a prediction of more than two labels as an array, if it comes back the same."""
        if len(prediction.raw) < 3:
            return prediction
        raw, shown, _, tickets = prediction
        if not _FLOATS.issuperset(map(type, raw.values())):
            return prediction
        if shown is not None and list(shown) != list(raw):
            return prediction
        if tickets and not all(map(_is_packable, tickets.values())):
            return prediction
        # Labels that are equal may still be different, as True and 1 are.
        if len(self._labels) != len(raw) or not all(map(operator.is_, self._labels, raw)):
            self._labels = tuple(raw)
        return PackedPrediction(prediction, self._labels)
