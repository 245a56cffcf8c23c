"""The best cutoff for the geometric and harmonic mean of the rates by branch and bound.

Both means grow with TPR and with TNR, for any number of positives. No labelling in a..b has
more true positives than b, and none has more true negatives than a, which has at most b - a more
than b. So all of Ψ_a..Ψ_b are at most the expectation of the mean of TPR_b and TNR_b + (b - a)/N,
which needs the same laws as Ψ_b. Intervals that can't contain the maximum are dropped, the others
are halved. That takes about 3√n evaluations instead of n.
"""

import heapq
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from streamcal.decision.curves import Law, block_size, checkpoints, extended
from streamcal.decision.metric import Metric
from streamcal.kernels.poisson_binomial import expectation_of_rates

Vector = NDArray[np.float64]
_UNIT = 2.0**-53


class Evaluator:
    """Ψ_k at any k, from laws that are stored every √n/3 labels."""

    def __init__(self, p: Vector, metric: Metric, counts: Vector, tol: float) -> None:
        assert metric.spec is not None
        self.n: int = len(p)
        self._p, self._spec, self._counts = p, metric.spec, counts
        self._step = max(16, block_size(self.n) // 3)
        self._tau = tol / (16 * (self.n + self._step + 1))
        self._interpolation = tol / 16
        self._backward = p[::-1].copy()
        self._chosen, lost = checkpoints(p, self._tau, self._step)
        self._rest, more = checkpoints(self._backward, self._tau, self._step)
        # From a stored law to k no more mass is lost than between two stored laws.
        self.error = lost + more + 2 * self._tau * self._step
        self.error += 2 * self._interpolation + 4 * self.n * _UNIT
        self.laws = lru_cache(maxsize=256)(self._laws)

    def _laws(self, k: int) -> tuple[Law, Law]:
        """Return the distributions of positives in the k most probable samples and in the rest."""
        return (
            self._law(self._chosen, self._p, k),
            self._law(self._rest, self._backward, self.n - k),
        )

    def _law(self, kept: list[Law], p: Vector, k: int) -> Law:
        at = k // self._step
        start = at * self._step
        return kept[at] if start == k else extended(kept[at], p[start:k], self._tau)[0]

    def __call__(self, k: int, slacks: tuple[int, ...] = (0,)) -> list[float]:
        """Return E of the mean of TPR and TNR + slack/N at k, for each slack; 0 gives Ψ_k."""
        C, D = self.laws(k)
        return [
            expectation_of_rates(
                self._spec, self._counts, self.n, k, C, D, float(slack), self._interpolation
            )
            for slack in slacks
        ]


def branch_and_bound(
    p: Vector, metric: Metric, counts: Vector, tol: float, allowed: NDArray[np.bool_] | None = None
) -> tuple[int, float, float]:
    """Return the best k, its Ψ and a bound on the error of Ψ; p in descending order.

    ``allowed`` marks which of 0..n k may be; None: all.
    """
    n = len(p)
    if allowed is None:
        allowed = np.ones(n + 1, np.bool_)
    n_allowed = np.concatenate([[0], np.cumsum(allowed)])
    psi = Evaluator(p, metric, counts, tol)
    best_k, best = 0, psi(0)[0] if allowed[0] else -math.inf
    if n == 0:
        return best_k, best, psi.error
    top, bound = psi(n, (0, n))
    if top > best and allowed[n]:
        best_k, best = n, top
    # Intervals (a, b] by their bounds, greatest first; `a` itself has been evaluated.
    ahead = [(-bound, 0, n)]
    while ahead:
        bound, a, b = heapq.heappop(ahead)
        if -bound < best - 2.0 * psi.error:
            break
        if n_allowed[b] == n_allowed[a + 1]:  # none between a and b
            continue
        middle = (a + b) // 2
        value, lower = psi(middle, (0, middle - a))
        if allowed[middle] and (value > best or (value == best and middle < best_k)):
            best_k, best = middle, value
        if middle - a > 1:
            heapq.heappush(ahead, (-lower, a, middle))
        if b - middle > 1:
            upper = psi(b, (b - middle,))[0]
            heapq.heappush(ahead, (-min(upper, -bound), middle, b))
    return best_k, best, psi.error
