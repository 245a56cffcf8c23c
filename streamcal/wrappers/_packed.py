"""A prediction that waits for its label; with many labels it is packed as bytes."""

import marshal
import operator
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from river.base.typing import ClfTarget

from streamcal.calibration.tickets import Ticket

Parts = tuple[Mapping[ClfTarget, float], Mapping[ClfTarget, float] | None, int]
"""A `Prediction` without a ticket, as a tuple because it is made for each sample."""

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
    ticket : Ticket or None
        What the calibrators served. None if they need none, or nothing was learned in between, so
        that the calibrators predict now what they predicted then.
    """

    raw: Mapping[ClfTarget, float]
    shown: Mapping[ClfTarget, float] | None
    n_alarms: int
    ticket: Ticket | None = None


class PackedPrediction:
    """A `Prediction` of many labels as bytes, which take a fifth of the memory."""

    __slots__ = ("_labels", "_packed")

    def __init__(self, packed: bytes, labels: tuple[ClfTarget, ...]) -> None:
        self._packed = packed
        self._labels = labels

    def unpack(self) -> Prediction:
        """Return the prediction as it was."""
        values, shown, n_alarms, ticket = marshal.loads(self._packed)
        return Prediction(
            dict(zip(self._labels, values, strict=True)),
            None if shown is None else dict(zip(self._labels, shown, strict=True)),
            n_alarms,
            None if ticket is None else Ticket(ticket),
        )


class Packer:
    """Packs predictions; those with the same labels share them."""

    def __init__(self) -> None:
        self._labels: tuple[ClfTarget, ...] = ()  # of the latest packed prediction

    def pack(self, prediction: Prediction) -> Prediction | PackedPrediction:
        """Return a prediction of more than two labels as bytes, if it comes back the same."""
        if len(prediction.raw) < 3:
            return prediction
        raw, shown, n_alarms, ticket = prediction
        if not _FLOATS.issuperset(map(type, raw.values())):
            return prediction
        if shown is not None and list(shown) != list(raw):
            return prediction
        values = tuple(map(float, raw.values()))
        answers = None if shown is None else tuple(map(float, shown.values()))
        content = values, answers, n_alarms, None if ticket is None else tuple(ticket)
        try:
            packed = marshal.dumps(content)
        except ValueError:  # the ticket of a calibrator of the user's own
            return prediction
        if marshal.loads(packed) != content:
            return prediction
        # Labels that are equal may still be different, as True and 1 are.
        if len(self._labels) != len(raw) or not all(map(operator.is_, self._labels, raw)):
            self._labels = tuple(raw)
        return PackedPrediction(packed, self._labels)
