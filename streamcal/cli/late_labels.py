"""Labels that become known some rows after their scores: ``streamcal calibrate --delay``.

The label of row i, with a delay of d rows, is learned before row i + d is predicted, as in river's
``progressive_val_score(delay=d)``. The calibrator learns it with the score of row i, and a hedge
with the predictions that it served then.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.calibration.tickets import Ticket
from streamcal.durable.keyed import KeyedCalibrator
from streamcal.durable.keys import Groups

Vector = NDArray[np.float64]


class _Late(NamedTuple):
    """A row whose label is not known yet, and the row before which it is learned."""

    due: int
    row: int
    score: float
    label: float
    weight: float
    key: str | None
    ticket: Ticket | None


class LateLabels:
    """Rows that wait for their labels.

    Parameters
    ----------
    keyed : KeyedCalibrator
        What predicts and learns.

    Examples
    --------
    >>> from streamcal import IsotonicCalibrator
    >>> late = LateLabels(KeyedCalibrator(IsotonicCalibrator("squared")))
    >>> rows, scores, labels = np.arange(1, 5), np.full(4, 0.5), np.array([1.0, 1.0, 0.0, 0.0])
    >>> late.predict_learn(rows, {None: slice(None)}, scores, labels, np.ones(4), np.full(4, 2))
    array([0.5, 0.5, 1. , 1. ])
    """

    def __init__(self, keyed: KeyedCalibrator) -> None:
        self._keyed = keyed
        self._waiting: list[_Late] = []

    def predict_learn(
        self,
        rows: NDArray[np.int64],
        groups: Groups,
        scores: Vector,
        labels: Vector,
        weights: Vector,
        delays: NDArray[Any],
    ) -> Vector:
        """Predict rows in order, each after the labels that are known by then are learned.

        Returns
        -------
        values : ndarray of shape (n_rows,)
        """
        keys = np.empty(len(rows), object)
        for key, at in groups.items():
            keys[at] = key
        values = np.empty(len(rows))
        samples = zip(rows, scores, labels, weights, delays, strict=True)
        for i, (row, score, label, weight, delay) in enumerate(samples):
            self._learn_until(row)
            values[i], ticket = self._keyed.serve_one(keys[i], float(score))
            if label == label:
                late = (float(score), float(label), float(weight), keys[i], ticket)
                heappush(self._waiting, _Late(int(row + delay), int(row), *late))
        return values

    def _learn_until(self, row: int) -> None:
        """Learn the labels that are known before a row is predicted."""
        while self._waiting and self._waiting[0].due <= row:
            late = heappop(self._waiting)
            self._keyed.learn_one(late.key, late.score, late.label, late.weight, served=late.ticket)

    def as_json(self) -> list[Any]:
        """Return all rows that wait."""
        return [[*late[:-1], _ticket_as_json(late.ticket)] for late in self._waiting]

    def restore(self, waiting: Iterable[Any]) -> None:
        """Continue with what `as_json` returned.

        Raises
        ------
        ValueError
            If it is not what `as_json` returns.
        """
        try:
            self._waiting = [_late_from_json(*packed) for packed in waiting]
        except TypeError:
            raise ValueError("does not hold rows that wait for their labels") from None
        heapify(self._waiting)


def waiting_after(waiting: Iterable[Any], n_rows: int) -> list[Any]:
    """Return what `LateLabels.as_json` returned for a table that begins after ``n_rows`` rows."""
    return [[due - n_rows, row - n_rows, *rest] for due, row, *rest in waiting]


def _ticket_as_json(ticket: Ticket | None) -> list[Any] | None:
    return None if ticket is None else [ticket.n_samples, *map(float, ticket.answers)]


def _late_from_json(
    due: Any, row: Any, score: Any, label: Any, weight: Any, key: Any, ticket: Any
) -> _Late:
    """Return a row that waits; raise ``TypeError`` if it is none."""
    numbers = (score, label, weight, *(ticket or [0])[1:])
    counts = (due, row, *(ticket or [])[:1])
    if not all(type(number) is float for number in numbers):
        raise TypeError
    if not all(type(count) is int for count in counts) or type(key) not in (str, type(None)):
        raise TypeError
    served = None if ticket is None else Ticket(ticket[0], tuple(ticket[1:]))
    return _Late(due, row, score, label, weight, key, served)
