"""The last samples of a stream, in an array that grows up to the window."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FIRST_ROOM = 4  # many streams are short


class SampleRing:
    """The last ``window`` samples; in a full window a new sample replaces the oldest one.

    Attributes
    ----------
    n_learned : int
        How many samples have been added.

    Examples
    --------
    >>> ring = SampleRing(window=2)
    >>> for score in (0.1, 0.2, 0.3):
    ...     ring.add_one(score, 1.0, 1.0)
    >>> ring.rows[:, 0], ring.n_learned
    (array([0.3, 0.2]), 3)
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._rows = np.empty((min(window, _FIRST_ROOM), 3))
        self.n_learned = 0

    def __len__(self) -> int:
        return min(self.n_learned, self._window)

    @property
    def rows(self) -> Floats:
        """The samples: score, label and weight, shape ``(n_samples, 3)``; not a copy."""
        return self._rows[: len(self)]

    def add_one(self, score: float, y: float, w: float) -> None:
        """Add a sample; O(1) on average."""
        at = self.n_learned % self._window
        self._make_room(at + 1)
        self._rows[at] = score, y, w
        self.n_learned += 1

    def add_many(self, samples: Floats) -> None:
        """Add samples in order, shape ``(n_samples, 3)``."""
        kept = samples[-self._window :]
        n_learned = self.n_learned + len(samples)
        begin = (n_learned - len(kept)) % self._window
        end = begin + len(kept)
        n_first = min(end, self._window) - begin
        self._make_room(begin + n_first)
        # No call from here on, so that an exception finds all or nothing.
        self._rows[begin : begin + n_first] = kept[:n_first]
        self._rows[: end - begin - n_first] = kept[n_first:]
        self.n_learned = n_learned

    def restore(self, rows: Floats, n_learned: int) -> None:
        """Take over `rows` and `n_learned` of another ring with this window."""
        if len(rows):
            self._rows = np.ascontiguousarray(rows, dtype=np.float64)
        self.n_learned = n_learned

    def _make_room(self, n_rows: int) -> None:
        room = len(self._rows)
        if n_rows > room:
            grown = np.empty((min(self._window, max(room + room // 2 + 1, n_rows)), 3))
            grown[:room] = self._rows
            self._rows = grown
