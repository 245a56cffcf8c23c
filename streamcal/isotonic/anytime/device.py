"""Rounds of anytime isotonic regression as one JAX program, for accelerators.

The idea is explained in `streamcal.kernels.threshold_decomposition`. Here there is no list of
cells: every sample has the bounds of its own value, and a cell is a run of samples with the same
bounds. Running sums and running maxima within cells are associative scans, so a round is a few
passes over all samples without a loop, and nothing runs on the host between rounds.

Arrays are padded to powers of two, so that few sizes are compiled while a window grows.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal import losses
from streamcal._extras import jax, jnp
from streamcal.isotonic.anytime.problem import Problem, derivative_error
from streamcal.kernels.threshold_decomposition import midpoint
from streamcal.losses.derivatives import derivative, padded, pointwise

Array = Any


class Device:
    """The rounds of a problem on JAX's default device; a start map is not used."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self._n = n = len(problem.y)
        pad = (0, padded(n) - n)
        offset = np.zeros(n) if problem.offset is None else problem.offset
        valid = np.pad(np.ones(n, np.bool_), pad)
        with jax.enable_x64(True):
            self._samples = tuple(
                jax.device_put(np.pad(part, pad, mode="edge"))
                for part in (problem.y, problem.w, offset, problem.ends != 0)
            )
            self._low = jnp.where(valid, problem.low, problem.high)
            self._high = jnp.full(len(valid), problem.high)
            self._valid = jax.device_put(valid)
            self._rules = jax.device_put(np.array([problem.tolerance, problem.relative]))
        self._open = True
        self.advance(0)

    def is_open(self) -> bool:
        """Return whether a cell is open, so that a round would do something."""
        return self._open

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if no cell is open any more; return how many."""
        program = _program(self._problem.loss)
        with jax.enable_x64(True):
            self._low, self._high, done, n_open, bad = program(
                self._low, self._high, self._valid, *self._samples, self._rules, n_rounds
            )
        if int(bad) >= 0:
            raise self._derivative_error(int(bad))
        self._open = bool(n_open)
        return int(done)

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the first sample of each cell, and its bounds."""
        low, high = np.array(self._low[: self._n]), np.array(self._high[: self._n])
        first = np.ones(self._n, np.bool_)
        first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
        starts = np.flatnonzero(first)
        return starts, low[starts], high[starts]

    def _derivative_error(self, begin: int) -> ValueError:
        problem = self._problem
        at = float(midpoint(float(self._low[begin]), float(self._high[begin])))
        z = at + (np.zeros(self._n) if problem.offset is None else problem.offset)
        slopes = problem.w * derivative(problem.loss, z, problem.y)
        return derivative_error(problem.loss, slopes, z, problem.y, problem.w, begin)


@lru_cache(maxsize=64)
def _program(loss: losses.Loss) -> Callable[..., Any]:
    """Return the compiled loop over rounds for a loss; to be called under ``enable_x64``."""
    slope = jax.vmap(pointwise(loss))

    def run(
        low: Array,
        high: Array,
        valid: Array,
        y: Array,
        w: Array,
        offset: Array,
        ends: Array,
        rules: Array,
        n_rounds: int,
    ) -> Any:
        def find_open(low: Array, high: Array) -> Array:
            return valid & _is_open(low, high, rules)

        def go_on(state: Any) -> Array:
            low, high, done, bad = state
            return (done < n_rounds) & (bad < 0) & find_open(low, high).any()

        def step(state: Any) -> Any:
            low, high, done, _ = state
            opened = find_open(low, high)
            at = _midpoint(low, high)
            slopes = jnp.where(opened, w * slope(at + offset, y), 0.0)
            below, above, total = _split_cells(low, high, slopes, ends)
            nan = jnp.isnan(total)
            bad = jnp.where(nan.any(), jnp.argmax(nan), -1)
            keep = bad >= 0  # the error message needs the bounds that led there
            new_low = jnp.where(opened & ~below & ~keep, at, low)
            new_high = jnp.where(opened & ~above & ~keep, at, high)
            return new_low, new_high, done + 1, bad

        low, high, done, bad = jax.lax.while_loop(go_on, step, (low, high, 0, -1))
        return low, high, done, find_open(low, high).any(), bad

    return jax.jit(run)


def _is_open(low: Array, high: Array, rules: Array) -> Array:
    """Return which bounds are too far apart and not adjacent floats."""
    middle = _midpoint(low, high)
    half = 0.5 * high - 0.5 * low
    tolerance, relative = rules
    near = relative * jnp.maximum(jnp.abs(low), jnp.abs(high))
    close = (half <= tolerance) | ((half <= near) & (half < jnp.inf))
    return ~close & (low < middle) & (middle < high)


def _split_cells(low: Array, high: Array, slopes: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Return for each sample whether its value may lie below the middle of its cell, and above.

    The third array has the running sums of derivatives within cells.
    """
    differs = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    edge = jnp.ones(1, jnp.bool_)
    first, last = jnp.r_[edge, differs], jnp.r_[differs, edge]
    total = _scan(jnp.add, slopes, first)
    # The greatest sum up to each place where a cell may be cut, and from there on.
    sums = jnp.where(ends, total, -jnp.inf)
    until = jnp.maximum(_scan(jnp.maximum, sums, first), 0.0)
    since = _scan(jnp.maximum, sums, last, reverse=True)
    best = _scan(jnp.maximum, until, last, reverse=True)
    before = jnp.where(first, 0.0, jnp.r_[0.0, until[:-1]])
    return before < best, since < best, total


def _midpoint(low: Array, high: Array) -> Array:
    """Return `kernels.midpoint` of each pair of bounds."""
    up = jnp.where(low >= 0.0, jnp.maximum(2.0 * low, 1.0), 0.0)
    down = jnp.where(high <= 0.0, jnp.minimum(2.0 * high, -1.0), 0.0)
    both = 0.5 * low + 0.5 * high
    one = jnp.where(jnp.isinf(high), jnp.where(jnp.isinf(low), 0.0, up), down)
    return jnp.where(jnp.isinf(low) | jnp.isinf(high), one, both)


def _scan(
    combine: Callable[[Array, Array], Array], x: Array, fresh: Array, *, reverse: bool = False
) -> Array:
    """Return running combinations that restart wherever ``fresh`` is true."""

    def join(before: Any, after: Any) -> Any:
        (begun, left), (begins, right) = before, after
        return begun | begins, jnp.where(begins, right, combine(left, right))

    return jax.lax.associative_scan(join, (fresh, x), reverse=reverse)[1]
