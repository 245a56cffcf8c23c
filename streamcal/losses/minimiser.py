"""The best common value of a block of samples, for losses that are not a `MeanLoss`.

At this value the sum of the weighted derivatives of the block changes its sign. If it is 0 on an
interval, the least point is always taken: pooling adjacent violators is correct for the least and
for the greatest minimisers, but not for a mixture of them (Jordan, Mühlemann & Ziegel,
*Characterizing the Optimal Solutions to the Isotonic Regression Problem for Identifiable
Functionals*, Annals of the Institute of Statistical Mathematics 2022).

`Root` bisects the ordered bit patterns of floats, so any bracket shrinks to two adjacent floats in
at most 64 steps. One JAX program does this for all blocks. `Quantile` sorts, and is exact.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcal.losses._base import Loss
from streamcal.losses._convex import Absolute, Pinball
from streamcal.losses.ranges import Interval

_MIN_INT64 = -(2**63)

Vector = NDArray[np.float64]
Starts = NDArray[np.int64]


class Minimiser(Protocol):
    """A method for the best value of a block; blocks are given by their first samples."""

    def at_most(self, c: float, y: Vector, w: Vector) -> bool:
        """Return whether the best value of this one block is at most ``c``; O(n_samples)."""

    def solve(
        self, y: Vector, w: Vector, starts: Starts, low: Vector | None, high: Vector | None
    ) -> Vector:
        """Return the best value of each block, which is from ``low`` to ``high`` if given."""


def find_minimiser(loss: Loss) -> Minimiser:
    """Return the method for a loss; for ties "midpoint" it gives the least value."""
    if not isinstance(loss, (Absolute, Pinball)):
        return Root(loss)
    return Quantile(loss.tau if isinstance(loss, Pinball) else 0.5, loss.ties == "upper")


class Quantile:
    """The least (or the greatest) weighted quantile.

    A difference of 1e-12 of the total weight counts as equal, since tau · Σ w is rounded.
    """

    def __init__(self, tau: float, upper: bool) -> None:
        self.tau = tau
        self.upper = upper

    def _weight_below(self, total: float) -> float:
        """Return how much of a total weight must be at or below the quantile."""
        return (self.tau + (1e-12 if self.upper else -1e-12)) * total

    def at_most(self, c: float, y: Vector, w: Vector) -> bool:
        return bool(w[y <= c].sum() >= self._weight_below(w.sum()))

    def solve(
        self, y: Vector, w: Vector, starts: Starts, low: Vector | None, high: Vector | None
    ) -> Vector:
        values = y[starts]
        ends = np.append(starts[1:], len(y))
        for i in np.flatnonzero(ends - starts > 1):
            order = starts[i] + np.argsort(y[starts[i] : ends[i]])
            below = np.cumsum(w[order])
            at = int(np.searchsorted(below, self._weight_below(below[-1])))
            values[i] = y[order[min(at, len(order) - 1)]]
        return values if low is None or high is None else np.clip(values, low, high)


class Root:
    """The least point where the sum of the weighted derivatives of a loss is not negative."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def at_most(self, c: float, y: Vector, w: Vector) -> bool:
        return bool(self._slopes(np.array([c]), *_pad_samples(y, w, np.array([0])))[0] >= 0.0)

    def solve(
        self, y: Vector, w: Vector, starts: Starts, low: Vector | None, high: Vector | None
    ) -> Vector:
        n_blocks = len(starts)
        if (low is None or high is None) and self.loss.minimized_by_label:
            low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
        if low is not None and high is not None and (low == high).all():
            return low  # mostly blocks of one sample
        samples = _pad_samples(y, w, starts)
        closed = np.ones(n_blocks, dtype=bool)  # whether `low` itself is possible
        if low is None or high is None:
            low, high, closed = self._find_brackets(samples, n_blocks)
        from streamcal._extras import jax

        high = np.maximum(low, high)  # brackets of a caller may have rounding errors
        room = _room(n_blocks)
        ends = [
            np.pad(x, (0, room - n_blocks), mode="edge")
            for x in (_to_order(low) - closed, _to_order(high))
        ]
        with jax.enable_x64(True):
            order, bad = _bisection(self.loss)(*ends, *samples)
            found = _from_order(np.asarray(order)[:n_blocks])
        if bad:
            self._raise_nan()
        beyond = ~closed & (np.nextafter(low, np.inf) == found)
        return np.where(beyond, low, found)

    def _find_brackets(
        self, samples: tuple[NDArray[Any], ...], n_blocks: int
    ) -> tuple[Vector, Vector, NDArray[np.bool_]]:
        """Return brackets; try ±1, ±2, ±8, ±128, … from 0, up to the ends of the range.

        Exponents double, so an infinite minimiser is found in eleven steps.
        """
        ends = self.loss.z_range
        origin = _point_inside(ends)
        low, high = np.full(n_blocks, float(ends.low)), np.full(n_blocks, float(ends.high))
        inner = np.full(n_blocks, origin)
        rising = self._slopes(inner, *samples) < 0.0
        low[rising], high[~rising] = origin, origin
        open_ = np.ones(n_blocks, dtype=bool)
        for k in range(11):
            step = 2.0 ** (2**k - 1)
            z = np.where(rising, origin + step, origin - step)
            open_ &= (ends.low < z) & (z < ends.high)
            if not open_.any():
                break
            above = self._slopes(np.where(open_, z, origin), *samples) >= 0.0
            high = np.where(open_ & above, np.minimum(z, high), high)
            low = np.where(open_ & ~above, np.maximum(z, low), low)
            open_ &= above != rising
        closed = (low > ends.low) | ends.low_closed
        return low, high, closed

    def _slopes(self, z: Vector, *samples: NDArray[Any]) -> Vector:
        """Return the sum of weighted derivatives of each block at its value ``z``."""
        from streamcal._extras import jax

        with jax.enable_x64(True):
            room = _room(len(z))
            sums = _block_slopes(self.loss)(np.pad(z, (0, room - len(z)), mode="edge"), *samples)
            slopes = np.asarray(sums)[: len(z)]
        if np.isnan(slopes).any():
            self._raise_nan()
        return slopes

    def _raise_nan(self) -> None:
        raise ValueError(
            f"`loss` must have a derivative in its whole range, but that of {self.loss!r} is"
            " NaN, or infinite with both signs"
        )


def _point_inside(ends: Interval) -> float:
    """Return a number inside an interval, 0 if possible."""
    if ends.low < 0.0 < ends.high:
        return 0.0
    low = max(ends.low, ends.high - 2.0 * max(1.0, abs(ends.high)))
    high = min(ends.high, ends.low + 2.0 * max(1.0, abs(ends.low)))
    return 0.5 * low + 0.5 * high


def _room(n_blocks: int) -> int:
    """Return the number of blocks that programs are compiled for: 1, which is faster, or many."""
    from streamcal.losses.derivatives import padded

    return 1 if n_blocks == 1 else padded(n_blocks)


def _pad_samples(y: Vector, w: Vector, starts: Starts) -> tuple[Vector, Vector, NDArray[np.int64]]:
    """Return labels, weights and block numbers, padded with samples of weight 0."""
    from streamcal.losses.derivatives import padded

    n_samples = len(y)
    room = padded(n_samples)
    labels, weights = np.full(room, y[-1]), np.zeros(room)
    labels[:n_samples], weights[:n_samples] = y, w
    blocks = np.full(room, len(starts) - 1)
    blocks[:n_samples] = np.repeat(np.arange(len(starts)), np.diff(starts, append=n_samples))
    return labels, weights, blocks


def _to_order(x: Vector) -> NDArray[np.int64]:
    """Return integers in the order of floats, adjacent for adjacent floats."""
    bits = (x + 0.0).view(np.int64)  # + 0.0: no −0.0
    return np.where(bits < 0, _MIN_INT64 - bits, bits)


def _from_order(order: NDArray[np.int64]) -> Vector:
    bits = np.where(order < 0, _MIN_INT64 - order, order)
    return bits.view(np.float64)


@lru_cache(maxsize=256)
def _block_slopes(loss: Loss) -> Callable[..., Any]:
    """Return a compiled function of (values, labels, weights, blocks): sums of derivatives."""
    from streamcal._extras import jax, jnp
    from streamcal.losses.derivatives import pointwise

    slope = jax.vmap(pointwise(loss))

    def slopes(z: Any, y: Any, w: Any, blocks: Any) -> Any:
        at = jnp.broadcast_to(z, y.shape) if len(z) == 1 else z[blocks]
        terms = jnp.where(w > 0.0, w * slope(at, y), 0.0)  # padding may give 0 · inf
        if len(z) == 1:  # four times as fast
            return jnp.sum(terms, keepdims=True)
        return jax.ops.segment_sum(terms, blocks, len(z), indices_are_sorted=True)

    return jax.jit(slopes)


@lru_cache(maxsize=256)
def _bisection(loss: Loss) -> Callable[..., Any]:
    """Return a compiled search for the least points whose slopes are not negative.

    It takes and returns integers of `_to_order`; the low end of the bracket is excluded.
    """
    from streamcal._extras import jax, jnp

    slopes = _block_slopes(loss)

    def search(low: Any, high: Any, y: Any, w: Any, blocks: Any) -> Any:
        def halve(state: Any) -> Any:
            low, high, bad = state
            middle = (low & high) + ((low ^ high) >> 1)
            bits = jnp.where(middle < 0, _MIN_INT64 - middle, middle)
            slope = slopes(jax.lax.bitcast_convert_type(bits, jnp.float64), y, w, blocks)
            ahead = high - low != 1
            bad |= (jnp.isnan(slope) & ahead).any()
            above = slope >= 0.0
            low, high = (
                jnp.where(ahead & ~above, middle, low),
                jnp.where(ahead & above, middle, high),
            )
            return low, high, bad

        def unfinished(state: Any) -> Any:
            low, high, bad = state  # with high > low, always
            # The difference may overflow, but then it is not 1, since it is less than 2^64.
            return (high - low != 1).any() & ~bad

        _, high, bad = jax.lax.while_loop(unfinished, halve, (low, high, jnp.array(False)))
        return high, bad

    return jax.jit(search)
