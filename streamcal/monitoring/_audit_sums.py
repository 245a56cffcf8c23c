"""Sums for the mean of audited values, see `streamcal.monitoring.audited_mean`."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from streamcal._state.checks import require
from streamcal._validation import MOST_COUNT

_FEWEST = 50.0  # observed values, for a fit; with fewer, its errors make intervals too narrow
_LARGEST = 1e12  # quantile: with it, an interval is the whole range
_ROUNDED = 1e-6  # by how much rounding may change a sum, in a state


class AuditSums(NamedTuple):
    """Sums over all decisions (n, m, mm), and over the observed ones with weights w = 1 / π and w².

    They give the coefficients of g by least squares, the estimate and its variance.
    """

    n: float = 0.0
    m: float = 0.0
    mm: float = 0.0
    n_observed: float = 0.0
    w: float = 0.0
    wm: float = 0.0
    wv: float = 0.0
    wmm: float = 0.0
    wmv: float = 0.0
    q: float = 0.0
    qm: float = 0.0
    qv: float = 0.0
    qmm: float = 0.0
    qmv: float = 0.0
    qvv: float = 0.0

    @classmethod
    def restored(cls, values: NDArray[np.float64], floor: float, most: float = 1.0) -> "AuditSums":
        """Return the sums of an array; raise ``ValueError`` if they can't be a state.

        Propensities are at least ``floor``, predictions and values from 0 to ``most``.
        """
        sums = cls(*values.tolist())
        require(0.0 <= sums.n_observed <= sums.n, "not more can be observed than there are")
        require(sums.n == math.floor(sums.n), "decisions are counted")
        require(sums.n <= MOST_COUNT, "decisions are counted")
        require(sums.n_observed == math.floor(sums.n_observed), "observed values are counted")
        n, m, mm, n_observed, w, wm, wv, wmm, wmv, q, qm, qv, qmm, qmv, qvv = sums
        at_most = (
            *((m, most * n), (mm, most * m), (w, n_observed / floor), (q, w / floor)),
            *((wm, most * w), (wv, most * w), (wmm, most * wm), (wmv, most * wm)),
            *((qm, most * q), (qv, most * q), (qmm, most * qm), (qmv, most * qm)),
            (qvv, most * qv),
        )
        in_range = all(0.0 <= part <= whole * (1.0 + _ROUNDED) for part, whole in at_most)
        require(in_range, "predictions and values must be in their range")
        weighted = n_observed <= w * (1.0 + _ROUNDED) and w <= q * (1.0 + _ROUNDED)
        require(weighted, "propensities must be at most 1")
        is_finite = not n or all(map(math.isfinite, sums.estimate()))
        require(is_finite, "the estimate must be finite")
        return sums

    def after(self, m: float, v: float | None, propensity: float) -> "AuditSums":
        """Return the sums with one more decision."""
        n, sum_m, sum_mm, *observed = self
        if v is not None:
            w = 1.0 / propensity
            q = w * w
            of_w = 1.0, w, w * m, w * v, w * m * m, w * m * v
            of_q = q, q * m, q * v, q * m * m, q * m * v, q * v * v
            observed = [a + b for a, b in zip(observed, (*of_w, *of_q), strict=True)]
        return AuditSums(n + 1.0, sum_m + m, sum_mm + m * m, *observed)

    @property
    def n_effective(self) -> float:
        """How many values of equal weights have as much information as the observed ones."""
        return self.w * self.w / self.q if self.q else 0.0

    def coefficients(self) -> tuple[float, float]:
        """Return α and β of g(m) = α + β m; those of g(m) = m before about 50 observed values."""
        if self.n_effective < _FEWEST:
            return 0.0, 1.0
        mean_m, mean_v = self.qm / self.q, self.qv / self.q
        variance = self.qmm / self.q - mean_m * mean_m
        covariance = self.qmv / self.q - mean_m * mean_v
        slope = covariance / variance if variance > 1e-9 * self.qmm / self.q else 0.0
        return mean_v - slope * mean_m, slope

    def estimate(self) -> tuple[float, float]:
        """Return the mean of the terms, and its standard deviation."""
        alpha, beta = self.coefficients()
        residual = self.wv - alpha * self.w - beta * self.wm  # Σ w (v − g)
        mean = alpha + (beta * self.m + residual) / self.n
        squares = (
            (alpha * alpha * self.n + 2.0 * alpha * beta * self.m + beta * beta * self.mm)
            # 2 Σ g w (v − g)
            + 2.0 * alpha * residual
            + 2.0 * beta * (self.wmv - alpha * self.wm - beta * self.wmm)
            # Σ w² (v − g)²
            + self.qvv
            + alpha * alpha * self.q
            + beta * beta * self.qmm
            - 2.0 * alpha * self.qv
            - 2.0 * beta * self.qmv
            + 2.0 * alpha * beta * self.qm
        )
        variance = max(squares / self.n - mean * mean, 0.0)
        return mean, math.sqrt(variance / self.n)

    def half_width(self, alpha: float, most: float = 1.0) -> float:
        """Return half of the width of the interval for one look; two values must be observed.

        The quantile is that of Student's t. Of k observed values, a share −ln(alpha / 2) / k of all
        may not be among them. Its variance is unknown, but at most m (most − m), on the average.
        """
        k, n_fitted = self.n_effective, 2.0 if self.n_effective >= _FEWEST else 1.0
        freedom = max(k - n_fitted, 1.0)
        _, deviation = self.estimate()
        of_terms = deviation * deviation * k / freedom
        extreme = max(most * self.m - self.mm, 0.0) / self.n * (self.q / self.w) / self.n
        unseen = (math.log(2.0) - math.log(alpha)) / k * extreme
        quantile = -float(stdtrit(freedom, alpha / 2.0))
        if not 0.0 <= quantile <= _LARGEST:  # also -inf, where SciPy finds none
            quantile = _LARGEST
        return quantile * math.sqrt(max(of_terms, unseen))
