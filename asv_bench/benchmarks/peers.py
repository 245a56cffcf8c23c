"""Peers of the staircase: exact, too, but they refit all samples or the changed block."""

from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from benchmarks.compiled import compiled


class Refit:
    """A window in score order, fitted anew by SciPy at every step."""

    def __init__(self, scores: Any, y: Any) -> None:
        order = np.argsort(scores)
        self.scores, self.y = scores[order], y[order]

    def step(self, old: float, score: float, label: float) -> float:
        at = np.searchsorted(self.scores, old)
        to = np.searchsorted(self.scores, score)
        for array, value in ((self.scores, score), (self.y, label)):
            if to > at:
                array[at : to - 1] = array[at + 1 : to]
                array[to - 1] = value
            else:
                array[to + 1 : at + 1] = array[to:at].copy()
                array[to] = value
        fitted = isotonic_regression(self.y).x
        return float(fitted[np.searchsorted(self.scores, score)])


@compiled
def _pool(x, s, starts, sums, n_blocks, b, first, stop):
    """Fit samples ``first`` to ``stop`` anew in the place of block ``b``; return the blocks."""
    fresh = np.empty(stop - first + 1, np.int64)
    total = np.empty(stop - first + 1)
    n = 0
    for i in range(first, stop):
        fresh[n], total[n] = i, s[i]
        n += 1
        while n > 1 and total[n - 2] * (i + 1 - fresh[n - 1]) >= total[n - 1] * (
            fresh[n - 1] - fresh[n - 2]
        ):
            total[n - 2] += total[n - 1]
            n -= 1
    old = n_blocks - b - 1
    if n != 1:
        if n > 1:
            for k in range(old - 1, -1, -1):
                starts[b + n + k], sums[b + n + k] = starts[b + 1 + k], sums[b + 1 + k]
        else:
            for k in range(old):
                starts[b + k], sums[b + k] = starts[b + 1 + k], sums[b + 1 + k]
    for k in range(n):
        starts[b + k], sums[b + k] = fresh[k], total[k]
    return n_blocks + n - 1, n


@compiled
def _repair(x, s, n, starts, sums, n_blocks, at, change):
    """Insert (change = 1) or remove (-1) sample ``at``, whose arrays are moved already."""
    b = max(np.searchsorted(starts[:n_blocks], at, side="right") - 1, 0)
    for k in range(b + 1, n_blocks):
        starts[k] += change
    first = starts[b] if n_blocks else 0
    stop = starts[b + 1] if b + 1 < n_blocks else n
    if n_blocks == 0:
        n_blocks = 1
    n_blocks, fresh = _pool(x, s, starts, sums, n_blocks, b, first, stop)
    # Both ends of what is new may have to be pooled with their neighbours.
    k = max(b - 1, 0)
    last = b + fresh
    while k < last and k + 1 < n_blocks:
        left = starts[k + 1] - starts[k]
        right = (starts[k + 2] if k + 2 < n_blocks else n) - starts[k + 1]
        if sums[k] * right >= sums[k + 1] * left:
            sums[k] += sums[k + 1]
            for j in range(k + 1, n_blocks - 1):
                starts[j], sums[j] = starts[j + 1], sums[j + 1]
            n_blocks -= 1
            last = max(last - 1, k + 1)
            k = max(k - 1, 0)
        else:
            k += 1
    return n_blocks


@compiled
def _step(x, s, n, starts, sums, n_blocks, old, score, label):
    """Forget the sample at ``old``, learn a new one, and return the value at its score."""
    at = np.searchsorted(x[:n], old)
    for i in range(at, n - 1):
        x[i], s[i] = x[i + 1], s[i + 1]
    n_blocks = _repair(x, s, n - 1, starts, sums, n_blocks, at, -1)
    at = np.searchsorted(x[: n - 1], score)
    for i in range(n - 1, at, -1):
        x[i], s[i] = x[i - 1], s[i - 1]
    x[at], s[at] = score, label
    n_blocks = _repair(x, s, n, starts, sums, n_blocks, at, 1)
    b = np.searchsorted(starts[:n_blocks], at, side="right") - 1
    size = (starts[b + 1] if b + 1 < n_blocks else n) - starts[b]
    return n_blocks, sums[b] / size


class BlockLocal:
    """A window in sorted arrays; pool-adjacent-violators again inside the block that is hit.

    Distinct scores, unit weights. Exact, and simple; its cost is that of the block.
    """

    def __init__(self, scores: Any, y: Any) -> None:
        order = np.argsort(scores)
        self.x, self.s, self.n = scores[order].copy(), y[order].copy(), len(scores)
        blocks = isotonic_regression(self.s).blocks
        self.starts = np.zeros(self.n + 2, np.int64)
        self.sums = np.zeros(self.n + 2)
        self.n_blocks = len(blocks) - 1
        self.starts[: self.n_blocks] = blocks[:-1]
        self.sums[: self.n_blocks] = np.add.reduceat(self.s, blocks[:-1])

    def step(self, old: float, score: float, label: float) -> float:
        self.n_blocks, value = _step(
            self.x, self.s, self.n, self.starts, self.sums, self.n_blocks, old, score, label
        )
        return value
