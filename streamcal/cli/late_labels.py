"""Labels that become known some rows after their scores: ``streamcal calibrate --delay``.

The label of row i, with a delay of d rows, is learned before row i + d is predicted, as in river's
``progressive_val_score(delay=d)``. The calibrator learns it with the score of row i, and a hedge
with the predictions that it served then.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.durable.keyed import KeyedCalibrator, Samples, Vector
from streamcal.durable.waiting import (
    AnyTicket,
    pack_fields,
    pack_ticket,
    unpack_fields,
    unpack_ticket,
)


class _Late(NamedTuple):
    """A row whose label is not known yet, and the row before which it is learned."""

    due: int
    row: int
    score: float
    label: float
    weight: float
    key: str | None
    x: dict[str, Any] | None
    ticket: AnyTicket | None


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
    >>> samples = late.keyed.check([None] * 4, [0.5] * 4, [1.0, 1.0, 0.0, 0.0], None)
    >>> late.predict_learn(np.arange(1, 5), samples, None, np.full(4, 2))
    array([0.5, 0.5, 1. , 1. ])
    """

    def __init__(self, keyed: KeyedCalibrator) -> None:
        self.keyed = keyed
        self._waiting: list[_Late] = []

    def predict_learn(
        self,
        rows: NDArray[np.int64],
        samples: Samples,
        fields: Mapping[str, Sequence[Any]] | None,
        delays: NDArray[Any],
    ) -> Vector:
        """Predict rows in order, each after the labels that are known by then are learned.

        Parameters
        ----------
        rows : ndarray of shape (n_rows,)
            The numbers of the rows.
        samples : Samples
            What is in the rows.
        fields : mapping of str to sequence of shape (n_rows,), or None
            The values of the fields of segments.
        delays : ndarray of shape (n_rows,)
            After how many rows each label is known.

        Returns
        -------
        values : ndarray of shape (n_rows,)
        """
        keys = np.empty(len(rows), object)
        for key, at in samples.groups.items():
            keys[at] = key
        values = np.empty(len(rows))
        numbers = zip(*(column.tolist() for column in samples[1:4]), strict=True)
        for i, (score, label, weight) in enumerate(numbers):
            row = int(rows[i])
            self._learn_until(row)
            x = None if fields is None else {name: column[i] for name, column in fields.items()}
            values[i], ticket = self.keyed.serve_one(keys[i], score, x=x)
            if label == label:
                late = (score, label, weight, keys[i], x, ticket)
                heappush(self._waiting, _Late(row + int(delays[i]), row, *late))
        return values

    def _learn_until(self, row: int) -> None:
        """Learn the labels that are known before a row is predicted."""
        while self._waiting and self._waiting[0].due <= row:
            late = heappop(self._waiting)
            sample = late.key, late.score, late.label, late.weight
            self.keyed.learn_one(*sample, x=late.x, served=late.ticket)

    def as_json(self) -> list[Any]:
        """Return all rows that wait."""
        return [
            [*late[:-2], pack_fields(late.x), pack_ticket(late.ticket)] for late in self._waiting
        ]

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


def _late_from_json(
    due: Any, row: Any, score: Any, label: Any, weight: Any, key: Any, x: Any, ticket: Any
) -> _Late:
    """Return a row that waits; raise ``TypeError`` or ``ValueError`` if it is none."""
    if not all(type(number) is float for number in (score, label, weight)):
        raise TypeError
    if type(due) is not int or type(row) is not int or type(key) not in (str, type(None)):
        raise TypeError
    return _Late(due, row, score, label, weight, key, unpack_fields(x), unpack_ticket(ticket))
