"""The blocks of a `PAVStack` for a loss whose block minimiser is not a mean.

No sums describe such a block, so all samples are kept, in score order, and a block is a run of
them. Two facts keep the work small:

* A new block is pooled with the one before it if and only if its best value is at most that block's
  value. The sign of one sum of derivatives decides this. A galloping search backwards finds how
  many blocks are pooled; then one bisection finds the value, between those of two known blocks.
* Neighbours whose values do not increase have the same value in the solution (Barlow et al. 1972),
  so whole runs of them can be pooled at once, as `add_many` does.

A push that pools takes at most 64 steps of bisection, each O(samples of the block).
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal import losses
from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, array_of, as_int, require
from streamcal._validation import as_weights
from streamcal.isotonic.staircase import Interpolation, Outside, Staircase, describe_blocks
from streamcal.kernels import pav
from streamcal.kernels.isotonic_quantiles import greatest_quantiles
from streamcal.losses.minimiser import Minimiser, find_minimiser

_FIRST_ROOM = 64
_FEW_RUNS = 16  # with fewer runs, a round that pools all of them is slower

Starts = NDArray[np.int64]
Vector = NDArray[np.float64]


class ConvexBlocks(Locked):
    """All samples in score order, and the blocks that they are pooled into.

    The input has been checked, except for the order of the scores and the size of the sums.
    """

    _not_copied = ("_mutex", "_samples", "_stairs")

    def __init__(self, loss: losses.Loss) -> None:
        self.last = -math.inf  # the last score
        self.weight = 0.0  # of all samples
        self._loss = loss
        self._samples = np.empty((3, _FIRST_ROOM))  # scores, labels, weights
        self._size = 0  # samples in use
        self._open = 0  # the first of those that have the last score; they are in no block yet
        self._pooled = _Pooled()
        self._stairs: Staircase | None = None

    def add(self, score: float, y: float, w: float) -> bool:
        """Add a sample; return False, unchanged, if it is late or sums overflow.

        It is pooled when a greater score arrives.
        """
        with self._mutex:
            return score >= self.last and self._add_in_order(np.array([[score], [y], [w]]))

    def add_many(self, scores: Vector, y: Vector, w: Vector | None) -> bool:
        """Add samples in order; return False, unchanged, if one is late or sums overflow."""
        if not len(scores):
            return True
        # Another thread may write to the arrays, so the copies are checked.
        samples = np.array([scores, y, np.ones(len(scores)) if w is None else w])
        self._loss.check_labels(samples[1])
        as_weights(samples[2], len(scores))
        with self._mutex:
            in_order = pav.order_of(samples[0]) != pav.UNSORTED and samples[0, 0] >= self.last
            return bool(in_order) and self._add_in_order(samples)

    def predict(self, score: float, interpolation: Interpolation) -> float | None:
        """Return the value at a score, or None without any sample."""
        if not self._size:
            return None
        return float(self._fit()(score, interpolation=interpolation))

    def staircase(self, interpolation: Interpolation, outside: Outside) -> Staircase:
        """Return the staircase of all samples, at least one."""
        return replace(self._fit(), interpolation=interpolation, outside=outside)

    def __len__(self) -> int:
        return len(self._fit()) if self._size else 0

    def _copy_state(self, memo: dict[int, Any]) -> dict[str, Any]:
        samples = self._samples[:, : self._size].copy()
        return {**super()._copy_state(memo), "_samples": samples, "_stairs": None}

    def freeze(self) -> tuple[Fields, Arrays]:
        """Return the state: fields, and arrays by name."""
        with self._mutex:
            return {"open": self._open}, {
                "samples": self._samples[:, : self._size],
                "starts": np.array(self._pooled.starts, np.int64),
                "values": np.array(self._pooled.values, np.float64),
            }

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Restore what `freeze` returned; raise ``ValueError`` if it is impossible."""
        samples = array_of(arrays, "samples", 3, None)
        starts = array_of(arrays, "starts", None, dtype=np.int64)
        values = array_of(arrays, "values", len(starts), finite=False)
        x, y, w = np.ascontiguousarray(samples)
        require(pav.order_of(x) != pav.UNSORTED, "scores must be in order")
        self._loss.check_labels(y)
        as_weights(w, len(x))
        opens = as_int(fields["open"], "open", 0, len(x))
        require(opens == np.searchsorted(x, x[-1:].sum()), "the greatest score must be open")
        require((len(starts) > 0) == (opens > 0), "all but the greatest score must have blocks")
        require((np.diff(starts, prepend=-1, append=opens) > 0).all(), "blocks must have samples")
        require(starts[:1].sum() == 0 and (np.diff(values) > 0.0).all(), "values must increase")
        require((x[starts[1:]] > x[starts[1:] - 1]).all(), "a score must have one block")
        if len(starts):
            low: Any = self._loss.z_range.low
            high: Any = self._loss.z_range.high
            if self._loss.minimized_by_label:
                low, high = (f.reduceat(y[:opens], starts) for f in (np.minimum, np.maximum))
            require(((low <= values) & (values <= high)).all(), "values must be in range")
        self._samples, self._size, self._open = np.ascontiguousarray(samples), len(x), opens
        self.last = float(x[-1]) if len(x) else -math.inf
        self.weight = float(w.sum())
        self._pooled.starts, self._pooled.values = starts.tolist(), values.tolist()

    def _add_in_order(self, samples: NDArray[np.float64]) -> bool:
        """Add samples in order; pool all but those with the greatest score."""
        weight = self.weight + float(samples[2].sum())
        if not weight < math.inf:
            return False
        size = self._size + samples.shape[1]
        self._make_room(size)
        self._samples[:, self._size : size] = (
            samples  # counted as used when nothing can fail any more
        )
        x = self._samples[0, self._open : size]
        changes = self._open + 1 + np.flatnonzero(x[1:] != x[:-1])
        pooled, opens, minimiser = self._pooled, self._open, find_minimiser(self._loss)
        if len(changes):
            starts, opens = np.append(opens, changes[:-1]), int(changes[-1])
            _, y, w = self._samples[:, :opens]
            pooled = pooled.extended(minimiser, y, w, starts)  # or a search raises
        if isinstance(self._loss, losses.FunctionLoss):
            # A function may have no derivative at a label; later samples would be lost, too.
            _, y, w = self._samples[:, :size]
            pooled.extended(minimiser, y, w, np.array([opens]))
        self._pooled, self._open, self._size = pooled, opens, size
        self.last, self.weight = float(samples[0, -1]), weight
        self._stairs = None
        return True

    def _make_room(self, size: int) -> None:
        """Allocate room for this many samples."""
        room = self._samples.shape[1]
        if size > room:
            grown = np.empty((3, max(size, 2 * room, _FIRST_ROOM)))
            grown[:, : self._size] = self._samples[:, : self._size]
            self._samples = grown

    def _fit(self) -> Staircase:
        """Return the staircase of all samples, those with the greatest score pooled too."""
        with self._mutex:
            if self._stairs is None:
                x, y, w = self._samples[:, : self._size]
                minimiser = find_minimiser(self._loss)
                pooled = self._pooled.extended(minimiser, y, w, np.array([self._open]))
                starts, values = np.array(pooled.starts), np.array(pooled.values)
                if isinstance(self._loss, losses.Pinball | losses.Absolute):
                    if self._loss.ties == "midpoint":
                        tau = getattr(self._loss, "tau", 0.5)
                        values = 0.5 * values + 0.5 * greatest_quantiles(y, w, tau, starts, values)
                lower, upper, weights, centers = describe_blocks(x, w, starts)
                self._stairs = Staircase(lower, upper, values, weights, centers)
            return self._stairs


class _Pooled:
    """Blocks of samples in score order: where each starts, and its value; values increase."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.values: list[float] = []

    def extended(self, minimiser: Minimiser, y: Vector, w: Vector, starts: Starts) -> "_Pooled":
        """Return these blocks and those of the samples from ``starts[0]`` on, pooled.

        Parameters
        ----------
        minimiser : Minimiser
            The choice of a block's best value.
        y, w : ndarray of shape (n_samples,)
            All samples, those of these blocks too.
        starts : ndarray of shape (n_new_blocks,)
            Where the new blocks, one for each new score, start.
        """
        begin = starts[0]
        values = minimiser.solve(y[begin:], w[begin:], starts - begin, None, None)
        starts, values = _pool_runs(minimiser, y, w, starts, values)
        pooled = _Pooled()
        pooled.starts, pooled.values = self.starts.copy(), self.values.copy()
        ends = [*starts.tolist(), len(y)]
        for (start, end), value in zip(pairwise(ends), values.tolist(), strict=True):
            pooled._append(minimiser, y[:end], w[:end], start, value)
        return pooled

    def _append(self, minimiser: Minimiser, y: Vector, w: Vector, start: int, value: float) -> None:
        """Add a block from ``start`` to the end of the samples, and pool it with those before."""
        if not self.starts or self.values[-1] < value:
            self.starts.append(start)
            self.values.append(value)
            return

        first = self._find_first_pooled(minimiser, y, w, start)
        begin, high = self.starts[first], self.values[first]
        low = value
        if first:
            low = max(value, math.nextafter(self.values[first - 1], math.inf))
        ends = (np.array([end]) for end in (low, high))
        (found,) = minimiser.solve(y[begin:], w[begin:], np.array([0]), *ends)
        del self.starts[first:], self.values[first:]
        self.starts.append(begin)
        self.values.append(float(found))

    def _find_first_pooled(self, minimiser: Minimiser, y: Vector, w: Vector, start: int) -> int:
        """Return the first block that a new one is pooled with; the last block always is."""

        def is_pooled(row: int) -> bool:
            """Return whether block ``row`` is pooled with the block of all later samples."""
            after = self.starts[row + 1] if row + 1 < len(self.starts) else start
            return minimiser.at_most(self.values[row], y[after:], w[after:])

        # Block `last` is pooled; block `first` is not, or is -1.
        last, step = len(self.starts) - 1, 1
        first = last - step
        while first >= 0 and is_pooled(first):
            last, step = first, 2 * step
            first = max(last - step, -1)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if is_pooled(middle) else (middle, last)
        return last


def _pool_runs(
    minimiser: Minimiser, y: Vector, w: Vector, starts: Starts, values: Vector
) -> tuple[Starts, Vector]:
    """Pool all runs of blocks whose values do not increase at once, while there are many runs."""
    while True:
        first = np.append(True, values[1:] > values[:-1])  # of its run
        heads = np.flatnonzero(first)
        grown = np.diff(heads, append=len(values)) > 1
        if np.count_nonzero(grown) <= _FEW_RUNS:
            return starts, values
        low, high = np.minimum.reduceat(values, heads), np.maximum.reduceat(values, heads)
        starts, values = starts[heads], values[heads]
        sizes = np.diff(starts, append=len(y))
        chosen = np.repeat(grown, sizes)
        inside = np.cumsum(sizes[grown]) - sizes[grown]
        begin = starts[0]
        values[grown] = minimiser.solve(
            y[begin:][chosen], w[begin:][chosen], inside, low[grown], high[grown]
        )
