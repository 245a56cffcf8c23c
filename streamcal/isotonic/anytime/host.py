"""Rounds on the host: JAX computes derivatives, and one compiled pass splits all cells."""

import numpy as np
from numpy.typing import NDArray

from streamcal import losses
from streamcal.isotonic.anytime.problem import DEFAULT_TOL, Floats, Problem, derivative_error
from streamcal.kernels.iterative_convex_minorant import WarmStart
from streamcal.kernels.padded_rows import CHUNK, padded
from streamcal.kernels.threshold_decomposition import Cells

_INSIDE = 1.0 - 1e-6  # factor of a half-width, so that rounding does not leave a cell open
_AROUND = 1e-3  # as a share of the range: the first distance from a warm_start to its bounds
_MOST_STEPS = 6  # Newton steps that improve a warm_start
_FEW_WRONG = 32  # a warm_start is good if at most one sample in this many has wrong bounds
_FEWEST_SAMPLES = 1 << 12  # with fewer samples, removing closed cells takes longer than it saves


class Host:
    """The rounds of a problem in this process."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self._samples = np.arange(len(problem.y))  # those of open cells; at first all
        self._slopes = np.empty(len(problem.y))
        self._derivatives = _Derivatives(problem.loss, problem.y, problem.w)
        self._n_rounds = 0
        if problem.start is None:
            ends = problem.low, problem.high, problem.tolerance, problem.relative
            self._cells = Cells(problem.ends, problem.offset, *ends)
        else:
            self._cells = self._verify_start(problem.start)
            self._leave_out_closed()

    def _verify_start(self, start: tuple[NDArray[np.int64], Floats]) -> Cells:
        """Improve and verify a start map, and return cells around its values."""
        problem = self._problem
        low, high = problem.low, problem.high
        near = max(_INSIDE * problem.tolerance, _INSIDE * DEFAULT_TOL * (high - low))
        far = max(near, _AROUND * (high - low))
        warm_start = WarmStart(*start, problem.ends, problem.offset, low, high, far)
        self._derivatives(warm_start.z, warm_start.sides)
        for _ in range(_MOST_STEPS):
            if not warm_start.improve(near):
                break
            self._derivatives(warm_start.z, warm_start.sides)
            if warm_start.n_wrong() * _FEW_WRONG <= len(problem.y):
                break
        while len(again := warm_start.join()):
            z, sides = padded(warm_start.z[:, again]), np.empty((2, len(again)))
            _Derivatives(problem.loss, problem.y[again], problem.w[again])(z, sides)
            warm_start.sides[:, again] = sides
        return warm_start.cells(problem.tolerance, problem.relative)

    def is_open(self) -> bool:
        """Return whether a cell is open, so that a round would do something."""
        return self._cells.n_open > 0

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if no cell is open any more; return how many."""
        before = self._n_rounds
        while self.is_open() and self._n_rounds < before + n_rounds:
            self._run_round()
        return self._n_rounds - before

    def _run_round(self) -> None:
        z, slopes = self._cells.query_points(), self._slopes
        self._derivatives(z, slopes[None])
        if (bad := self._cells.split(slopes)) >= 0:
            y, w = self._problem.y[self._samples], self._problem.w[self._samples]
            raise derivative_error(self._problem.loss, slopes, z[0], y, w, bad)
        self._n_rounds += 1
        self._leave_out_closed()

    def _leave_out_closed(self) -> None:
        """Continue with the samples of open cells only, if this saves work."""
        n = len(self._samples)
        if 0 < self._cells.n_open < n // 4 and n >= _FEWEST_SAMPLES:
            self._samples = rest = self._cells.remove_settled()
            self._slopes = np.empty(len(rest))
            problem = self._problem
            self._derivatives = _Derivatives(problem.loss, problem.y[rest], problem.w[rest])

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        return self._cells.bounds()


class _Derivatives:
    """The weighted derivatives of samples.

    JAX is imported here and not above: a solve for a quantile needs none.
    """

    def __init__(self, loss: losses.Loss, y: Floats, w: Floats):
        from streamcal.losses.derivatives import weighted_derivative

        self._program = weighted_derivative(loss)
        self._samples = padded((y, w))
        room = self._samples.shape[1]
        begins = range(0, room, CHUNK)
        self._chunks = [slice(begin, min(begin + CHUNK, room)) for begin in begins]

    def __call__(self, z: Floats, out: Floats) -> None:
        """Write the derivatives at each row of ``z``, which is padded, to that of ``out``."""
        from streamcal._extras import jax

        with jax.enable_x64(True):  # start all calls before waiting for the first result
            found = [
                [self._program(row[chunk], *self._samples[:, chunk]) for chunk in self._chunks]
                for row in z
            ]
        for parts, row in zip(found, out, strict=True):
            for part, chunk in zip(parts, self._chunks, strict=True):
                own = row[chunk]
                own[:] = np.asarray(part)[: len(own)]
