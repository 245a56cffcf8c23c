"""The stack for losses whose block minimiser is no mean: `PAVStack` makes one of these for them.

A block has no sums that say all about it, so all samples are kept, in score order, and a block is a
run of them. Two facts keep the work small:

* A new block swallows the one before it if and only if its best value is at most that block's
  value, which the sign of one sum of derivatives tells. How many blocks are swallowed is found by
  galloping back, and only then one value is searched for, between those of two known blocks.
* Neighbours whose values do not increase have one value in the end (Barlow et al. 1972), so whole
  runs of them may be pooled at once. That is how many samples are taken in together.

Costs are O(samples of the block) for each push that pools, times 64 steps of bisection at most.
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._state import Arrays, Fields, array_of, as_int, require
from streamcal._validation import (
    as_number,
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_choice,
    check_same_length,
)
from streamcal.isotonic.stack import PAVStack, check_order, refuse_late, refuse_overflow
from streamcal.isotonic.staircase import INTERPOLATIONS, OUTSIDE, Staircase
from streamcal.kernels.threshold_decomposition import greatest_quantiles
from streamcal.losses._minimiser import Minimiser, find_minimiser

_FIRST_ROOM = 64
_FEW = 16  # runs that are not worth a round in which all are pooled at once

Starts = NDArray[np.int64]
Vector = NDArray[np.float64]


class ConvexPAVStack(PAVStack):
    """What `PAVStack` is for a loss without a mean; same parameters, methods and errors.

    Examples
    --------
    >>> from streamcal import losses
    >>> stack = PAVStack(losses.Absolute(ties="lower"))
    >>> stack.push_many(range(7), [9, 1, 8, 2, 7, 3, 6])
    >>> stack.staircase()([0, 1, 2, 3, 4, 5, 6], interpolation="step")
    array([1., 1., 2., 2., 3., 3., 6.])
    """

    def __init__(
        self, loss: str | losses.Loss = "absolute", *, interpolation: str = "linear"
    ) -> None:
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        self.loss = loss
        self.interpolation = interpolation
        self._convex = losses.get(loss)
        self._samples = np.empty((3, _FIRST_ROOM))  # scores, labels, weights
        self._size = 0  # samples in use
        self._open = 0  # the first of those that have the greatest score; no block has these yet
        self._last = -math.inf
        self._weight = 0.0
        self._blocks = Blocks()
        self._stairs: Staircase | None = None

    def push(self, score: float, y: float, w: float = 1.0) -> None:
        """Add a sample; what it is pooled with is found when a greater score comes."""
        label = as_number(y, "y")
        score, w = as_score(score), as_weight(w)
        if score < self._last:
            refuse_late(score, self._last)
        self._convex.check_labels(label)
        self._take(np.array([[score], [label], [w]]))

    def push_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add samples in order, all or none; runs that are to be pooled are pooled at once."""
        x = as_vector(scores, "scores", finite=False)
        labels = as_vector(y, "y", finite=False)
        check_same_length(labels, len(x), "y")
        self._convex.check_labels(labels)
        weights = as_weights(w, len(x))
        if len(x):
            check_order(x, self._last)
            self._take(np.array([x, labels, weights]))

    def predict_one(self, score: float) -> float:
        """Return the value at ``score``; O(log n_blocks), after a push O(n_blocks) and a search."""
        x = as_score(score)
        if not self._size:
            return self._convex.z_range.clip(x)
        return float(self._staircase()(x))

    def staircase(self, *, outside: str = "clip") -> Staircase:
        """Return the present staircase."""
        check_choice(outside, "outside", OUTSIDE)
        if not self._size:
            raise ValueError("a staircase must have at least one sample, got none")
        stairs = self._staircase()
        if outside == stairs.outside:
            return stairs
        return replace(stairs, outside=outside)

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._staircase()) if self._size else 0

    def __getstate__(self) -> dict[str, Any]:
        samples = self._samples[:, : self._size].copy()
        return {**self.__dict__, "_samples": samples, "_stairs": None}

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {"open": self._open}, {
            "samples": self._samples[:, : self._size],
            "starts": np.array(self._blocks.starts, np.int64),
            "values": np.array(self._blocks.values, np.float64),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        samples = array_of(arrays, "samples", 3, None)
        starts = array_of(arrays, "starts", None, dtype=np.int64)
        values = array_of(arrays, "values", len(starts), finite=False)
        x, y, w = np.ascontiguousarray(samples)
        if len(x):
            check_order(x, self._last)
        self._convex.check_labels(y)
        as_weights(w, len(x))
        opens = as_int(fields["open"], "open", 0, len(x))
        require(opens == np.searchsorted(x, x[-1:].sum()), "the greatest score must be open")
        require((len(starts) > 0) == (opens > 0), "all but the greatest score must have blocks")
        require((np.diff(starts, prepend=-1, append=opens) > 0).all(), "blocks must have samples")
        require(starts[:1].sum() == 0 and (np.diff(values) > 0.0).all(), "values must increase")
        require((x[starts[1:]] > x[starts[1:] - 1]).all(), "a score must have one block")
        if len(starts):
            low: Any = self._convex.z_range.low
            high: Any = self._convex.z_range.high
            if self._convex.minimized_by_label:
                low, high = (f.reduceat(y[:opens], starts) for f in (np.minimum, np.maximum))
            require(((low <= values) & (values <= high)).all(), "values must be in range")
        self._samples, self._size, self._open = np.ascontiguousarray(samples), len(x), opens
        self._last = float(x[-1]) if len(x) else -math.inf
        self._weight = float(w.sum())
        self._blocks.starts, self._blocks.values = starts.tolist(), values.tolist()

    def _take(self, samples: NDArray[np.float64]) -> None:
        """Add samples in order; blocks are made of all but those with the greatest score."""
        n_old, n_new = self._size, samples.shape[1]
        weight = self._weight + float(samples[2].sum())
        if not weight < math.inf:
            refuse_overflow(f"a sum of {weight}")
        if n_old + n_new > self._samples.shape[1]:
            room = max(n_old + n_new, 2 * self._samples.shape[1], _FIRST_ROOM)
            grown = np.empty((3, room))
            grown[:, :n_old] = self._samples[:, :n_old]
            self._samples = grown
        self._samples[:, n_old : n_old + n_new] = samples  # not in use yet
        x = self._samples[0, self._open : n_old + n_new]
        changes = self._open + 1 + np.flatnonzero(x[1:] != x[:-1])
        blocks, opens, minimiser = self._blocks, self._open, find_minimiser(self._convex)
        if len(changes):
            starts, opens = np.append(opens, changes[:-1]), int(changes[-1])
            _, y, w = self._samples[:, :opens]
            blocks = blocks.extended(minimiser, y, w, starts)  # or a search raises
        if isinstance(self._convex, losses.FunctionLoss):
            # A function may have no derivative at a label; samples behind it would be lost, too.
            _, y, w = self._samples[:, : n_old + n_new]
            blocks.extended(minimiser, y, w, np.array([opens]))
        self._blocks, self._open = blocks, opens
        self._size, self._last, self._weight = n_old + n_new, float(samples[0, -1]), weight
        self._stairs = None

    def _staircase(self) -> Staircase:
        """Return the staircase of all samples, those with the greatest score pooled too."""
        if self._stairs is not None:
            return self._stairs
        x, y, w = self._samples[:, : self._size]
        blocks = self._blocks.extended(find_minimiser(self._convex), y, w, np.array([self._open]))
        starts, values = np.array(blocks.starts), np.array(blocks.values)
        if isinstance(self._convex, losses.Pinball | losses.Absolute):
            if self._convex.ties == "midpoint":
                tau = getattr(self._convex, "tau", 0.5)
                values = 0.5 * values + 0.5 * greatest_quantiles(y, w, tau, starts, values)
        lower, upper = x[starts], x[np.append(starts[1:], self._size) - 1]
        weights = np.add.reduceat(w, starts)
        with np.errstate(over="ignore"):
            centers = np.add.reduceat(w * x, starts) / weights
        centers = np.where(np.isfinite(centers), centers, 0.5 * lower + 0.5 * upper)
        self._stairs = Staircase(
            lower, upper, values, weights, np.clip(centers, lower, upper), self.interpolation
        )
        return self._stairs


class Blocks:
    """Blocks of samples in score order: where each starts, and its value; values increase."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.values: list[float] = []

    def extended(self, minimiser: Minimiser, y: Vector, w: Vector, starts: Starts) -> "Blocks":
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
        blocks = Blocks()
        blocks.starts, blocks.values = self.starts.copy(), self.values.copy()
        ends = [*starts.tolist(), len(y)]
        for (start, end), value in zip(pairwise(ends), values.tolist(), strict=True):
            blocks._append(minimiser, y[:end], w[:end], start, value)
        return blocks

    def _append(self, minimiser: Minimiser, y: Vector, w: Vector, start: int, value: float) -> None:
        """Add a block from ``start`` to the end of the samples, and pool it with those before."""
        kept = len(self.starts)
        if not kept or self.values[-1] < value:
            self.starts.append(start)
            self.values.append(value)
            return

        def swallows(row: int) -> bool:
            """Whether all that follows block ``row``, made one block, swallows that one too."""
            after = self.starts[row + 1] if row + 1 < kept else start
            return minimiser.at_most(self.values[row], y[after:], w[after:])

        # Block `last` is swallowed, for certain; block `first` is not, or is -1.
        last, step = kept - 1, 1
        first = last - step
        while first >= 0 and swallows(first):
            last, step = first, 2 * step
            first = max(last - step, -1)
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if swallows(middle) else (middle, last)

        begin, high = self.starts[last], self.values[last]
        low = value if first < 0 else max(value, math.nextafter(self.values[first], math.inf))
        ends = (np.array([end]) for end in (low, high))
        (found,) = minimiser.solve(y[begin:], w[begin:], np.array([0]), *ends)
        del self.starts[last:], self.values[last:]
        self.starts.append(begin)
        self.values.append(float(found))


def _pool_runs(
    minimiser: Minimiser, y: Vector, w: Vector, starts: Starts, values: Vector
) -> tuple[Starts, Vector]:
    """Pool all runs of blocks whose values do not increase at once, while there are many runs."""
    while True:
        first = np.append(True, values[1:] > values[:-1])  # of its run
        heads = np.flatnonzero(first)
        grown = np.diff(heads, append=len(values)) > 1
        if np.count_nonzero(grown) <= _FEW:
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
