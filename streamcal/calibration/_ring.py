"""The last samples of a stream, in an array that grows up to the window."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from streamcal._whole import Step
from streamcal.kernels.score_index import has_left

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


class TimedSamples:
    """The samples that are younger than a window of time at the newest one, in order.

    Attributes
    ----------
    n_learned : int
        How many samples have been added.
    now : float
        The time of the newest sample in seconds; NaN before the first one.

    Examples
    --------
    >>> recent = TimedSamples(window=60.0)
    >>> for second in (0.0, 30.0, 60.0):
    ...     recent.adding(np.array([[0.1, 1.0, 1.0]]), np.array([second]))()
    >>> recent.times, recent.n_learned
    (array([30., 60.]), 3)
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._rows = np.empty((_FIRST_ROOM, 4))  # score, label, weight, time
        self._begin = self._end = 0
        self.n_learned = 0
        self.now = math.nan

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def rows(self) -> Floats:
        """The samples: score, label and weight, shape ``(n_samples, 3)``; not a copy."""
        return self._rows[self._begin : self._end, :3]

    @property
    def times(self) -> Floats:
        """Their times in seconds, which ascend; not a copy."""
        return self._rows[self._begin : self._end, 3]

    def adding(self, samples: Floats, seconds: Floats) -> Step:
        """Return the step that adds samples, at least one, and drops those that are too old.

        A time that goes back counts as equal to the newest one.
        """
        n = len(samples)
        rows, begin, end = self._rows, self._begin, self._end
        if end + n > len(rows):  # into new memory: another step may still have the old one
            held = rows[begin:end]
            rows = np.empty((max(_FIRST_ROOM, len(held) + len(held) // 2 + n), 4))
            rows[: len(held)] = held
            begin, end = 0, len(held)
        rows[end : end + n, :3] = samples
        rows[end : end + n, 3] = np.fmax(np.maximum.accumulate(seconds), self.now)
        end += n
        now = float(rows[end - 1, 3])
        while has_left(rows[begin, 3], now, self._window):
            begin += 1
        found = {"_rows": rows, "_begin": begin, "_end": end, "now": now}
        return partial(vars(self).update, n_learned=self.n_learned + n, **found)

    def restore(self, rows: Floats, times: Floats, n_learned: int, now: float) -> None:
        """Take over what another object with this window holds."""
        self._rows = np.column_stack([rows, times])
        self._begin, self._end = 0, len(rows)
        self.n_learned, self.now = n_learned, now
