"""Labels that become known some rows after their scores: ``streamcal calibrate --delay``.

The label of row i, with a delay of d rows, is learned before row i + d is predicted, as in river's
``progressive_val_score(delay=d)``. The calibrator learns it with the score of row i, and a hedge
with the predictions that it served then.

Consecutive rows of a group share an outcome (``--group``): they are learned together, when the last
of their labels is known, and not before the first row after the group.

With ``--time`` a label is learned at the time of the row before which it becomes known.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import SMALLEST
from streamcal.calibration.clock import Time
from streamcal.calibration.tickets import Ticket
from streamcal.durable.errors import errors_of_waiting
from streamcal.durable.fields import pack_fields
from streamcal.durable.keyed import KeyedCalibrator, Samples, Vector
from streamcal.tables.base import TableError


class _Late(NamedTuple):
    """A row whose label is not known yet, and the row before which it is learned."""

    due: int
    row: int
    score: float
    label: float
    weight: float
    key: str | None
    x: dict[str, Any] | None
    ticket: Ticket | None
    group: int | str | None  # the first row of its group; while that goes on, the group's name
    propensity: float | None


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
        self._path = None if keyed.store is None else keyed.store.path
        self._waiting: list[_Late] = []  # a heap
        self._open: list[_Late] = []  # the rows of the last group, which may go on

    def predict_learn(
        self,
        rows: NDArray[np.int64],
        samples: Samples,
        fields: Mapping[str, Sequence[Any]] | None,
        delays: NDArray[Any],
        names: Sequence[str | None] | None = None,
        times: Sequence[Time] | None = None,
        propensities: NDArray[np.float64] | None = None,
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
        names : sequence of shape (n_rows,), optional
            The name of the group of each row; None: it is in no group.
        times : sequence of shape (n_rows,), optional
            The time of each row. A label is learned at the time of the row before which
            it becomes known.
        propensities : ndarray of shape (n_rows,), optional
            The probability with which each label was asked for.

        Returns
        -------
        values : ndarray of shape (n_rows,)

        Raises
        ------
        StoreError
            If a row that waited in the store can't be learned.
        """
        keys = np.empty(len(rows), object)
        for key, at in samples.groups.items():
            keys[at] = key
        values = np.empty(len(rows))
        numbers = zip(*(column.tolist() for column in samples[1:4]), strict=True)
        for i, (score, label, weight) in enumerate(numbers):
            row = int(rows[i])
            name = None if names is None else names[i]
            if self._open and self._open[0].group != name:
                self._close_group()
            self._learn_until(row, None if times is None else times[i])
            x = None if fields is None else {field: column[i] for field, column in fields.items()}
            values[i], ticket = self.keyed.serve_one(keys[i], score, x=x)
            if label == label:
                sample = score, label, weight, keys[i], x, ticket
                propensity = None if propensities is None else float(propensities[i])
                late = _Late(row + int(delays[i]), row, *sample, name, propensity)
                if name is None:
                    heappush(self._waiting, late)
                else:
                    self._open.append(late)
        return values

    def _close_group(self) -> None:
        """Let the rows of a group wait until the label of the last one is known."""
        due = max(late.due for late in self._open)
        for late in self._open:
            heappush(self._waiting, late._replace(due=due, group=self._open[0].row))
        self._open = []

    def _learn_until(self, row: int, t: Time | None) -> None:
        """Learn the labels that are known before a row is predicted; ``t`` is its time."""
        while self._waiting and self._waiting[0].due <= row:
            late = heappop(self._waiting)
            if late.group is None:
                sample = late.key, late.score, late.label, late.weight
                given: dict[str, Any] = {"x": late.x, "ticket": late.ticket, "t": t}
                with errors_of_waiting(self._path):
                    self.keyed.learn_one(*sample, **given, propensity=late.propensity)
                continue
            group = {late.key: [late]}  # the rows of each key are a sample of this key
            while self._waiting and self._waiting[0].group == late.group:
                other = heappop(self._waiting)
                group.setdefault(other.key, []).append(other)
            for key, rows in group.items():
                self._learn_group(key, rows, t)

    def _learn_group(self, key: str | None, rows: list[_Late], t: Time | None) -> None:
        """Learn rows of a group as one sample with the mean of their weights."""
        weight = float(np.mean([late.weight for late in rows]))
        if weight / len(rows) < SMALLEST:
            raise TableError(
                f"row {rows[0].row} begins a group of {len(rows):,} rows, so the mean of their"
                f" weights must be at least {len(rows) * SMALLEST:g}, got {weight:g}"
            )
        scores, labels = [late.score for late in rows], [late.label for late in rows]
        tickets = [late.ticket for late in rows]
        given: dict[str, Any] = {"tickets": tickets, "t": t}
        with errors_of_waiting(self._path):
            self.keyed.learn_group(key, scores, labels, weight, **given)

    def n_waiting(self, after: int) -> int:
        """Return how many of the rows with greater numbers wait for their labels."""
        return sum(late.row > after for late in (*self._waiting, *self._open))

    def as_json(self) -> list[Any]:
        """Return all rows that wait."""
        rows = []
        for late in [*self._waiting, *self._open]:
            ticket = late.ticket and late.ticket.to_json()
            packed = {"x": pack_fields(late.x), "ticket": ticket}
            rows.append(list((late._asdict() | packed).values()))
        return rows

    def restore(self, waiting: Iterable[Sequence[Any]]) -> None:
        """Continue with what `as_json` returned."""
        given = [_Late(*row) for row in waiting]
        found = [
            late._replace(ticket=late.ticket and Ticket.from_json(late.ticket)) for late in given
        ]
        self._waiting = sorted(late for late in found if not isinstance(late.group, str))
        self._open = [late for late in found if isinstance(late.group, str)]
