"""A uniform sample of the rows of a table of any length."""

import numpy as np
from numpy.typing import NDArray

SAMPLE_ROWS = 1_000_000
"""A picture is drawn from at most this many rows."""


class UniformSample:
    """A uniform sample of rows without replacement, in their order; memory is bounded.

    Each row draws a number, and the rows with the smallest numbers are kept.

    Parameters
    ----------
    width : int
        The number of columns.
    capacity : int
        The greatest number of rows in the sample.

    Attributes
    ----------
    n_rows : int
        The number of rows added.

    Examples
    --------
    >>> sample = UniformSample(1, capacity=10)
    >>> sample.add(np.arange(100.0)[:, None])
    >>> sample.rows().shape, sample.n_rows
    ((10, 1), 100)
    """

    def __init__(self, width: int, capacity: int = SAMPLE_ROWS) -> None:
        self.n_rows = 0
        self._capacity = capacity
        self._random = np.random.default_rng(0)
        self._limit = 1.0
        self._parts = [np.empty((0, width + 1))]

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add rows, shape ``(n_rows, width)``."""
        self.n_rows += len(rows)
        draws = self._random.random(len(rows))
        chosen = draws < self._limit
        self._parts.append(np.column_stack([draws[chosen], rows[chosen]]))
        if sum(map(len, self._parts)) > 1.25 * self._capacity:
            self._shrink()

    def rows(self) -> NDArray[np.float64]:
        """Return the sample, shape ``(at most capacity, width)``."""
        return self._shrink()[:, 1:]

    def _shrink(self) -> NDArray[np.float64]:
        rows = np.concatenate(self._parts)
        if len(rows) > self._capacity:
            chosen = np.argpartition(rows[:, 0], self._capacity - 1)[: self._capacity]
            rows = rows[np.sort(chosen)]
            self._limit = float(rows[:, 0].max())
        self._parts = [rows]
        return rows
