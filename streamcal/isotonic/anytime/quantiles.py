"""Rounds for a quantile: compiled passes that compare labels, without derivatives."""

import numpy as np
from numpy.typing import NDArray

from streamcal import losses
from streamcal.isotonic.anytime.problem import Floats, Problem
from streamcal.kernels import isotonic_quantiles as kernels


class Quantiles:
    """The rounds of a problem whose loss is `Pinball` or `Absolute`.

    The best values are labels, so the last round finds them exactly. There is no half-width: rounds
    continue until no cell is open.
    """

    def __init__(self, problem: Problem):
        assert isinstance(problem.loss, losses.Pinball | losses.Absolute)
        self._problem = problem
        self._ties = problem.loss.ties
        self._tau = getattr(problem.loss, "tau", 0.5)
        greatest = self._ties == "upper"
        self._cells = kernels.Quantiles(problem.y, problem.w, problem.ends, self._tau, greatest)

    def is_open(self) -> bool:
        """Return whether a cell is open, so that a round would do something."""
        return self._cells.n_open > 0

    def advance(self, n_rounds: int) -> int:
        """Run rounds, fewer if no cell is open any more; return how many."""
        return self._cells.run(n_rounds)

    def cells(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first sample of each cell, and its bounds."""
        problem = self._problem
        starts, low, high = self._cells.bounds()
        if self._ties == "midpoint" and not self.is_open():
            high = kernels.greatest_quantiles(problem.y, problem.w, self._tau, starts, low)
            low = high = 0.5 * low + 0.5 * high
        ends = problem.low, problem.high
        return starts, low.clip(*ends), high.clip(*ends)
