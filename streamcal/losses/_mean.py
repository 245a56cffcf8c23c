"""Losses whose block minimiser is the link of a mean.

Squared, log, Poisson, gamma and Tweedie loss are Bregman divergences up to terms without z: their
minimiser is the mean label, whatever the divergence (Banerjee, Merugu, Dhillon & Ghosh, *Clustering
with Bregman Divergences*, JMLR 2005, Proposition 1). Logistic and exponential loss take a margin;
their minimisers are functions of the share of positive labels (Friedman, Hastie & Tibshirani,
*Additive Logistic Regression*, Annals of Statistics 2000, Lemma 1). LINEX is Varian's asymmetric
loss (Zellner, *Bayesian Estimation and Prediction Using Asymmetric Loss Functions*, JASA 1986).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamcal.losses._base import Floats, MeanLoss, Written, set_parameter
from streamcal.losses.ranges import Interval, TwoPoint


@dataclass(frozen=True, kw_only=True)
class Squared(Written, MeanLoss):
    r"""Squared error, the Brier score of a probability.

    .. math:: \ell(z, y) = (z - y)^2

    Labels and values are any finite numbers; the minimiser is the mean.

    Examples
    --------
    >>> float(Squared()(0.8, 1.0))
    0.04
    """

    name = "squared"
    y_range = Interval(-math.inf, math.inf)
    z_range = Interval(-math.inf, math.inf)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.square(z - y)

    @property
    def mean_range(self) -> tuple[float, float]:
        """All numbers."""
        return -math.inf, math.inf


@dataclass(frozen=True, kw_only=True)
class Log(Written, MeanLoss):
    r"""Log loss (cross-entropy, in nats).

    .. math:: \ell(z, y) = -y \log z - (1 - y) \log(1 - z)

    Labels lie in [0, 1] (0, 1, or a probability), values in [0, 1]; the minimiser is the mean.
    A value of 0 or 1 costs nothing when it is right and inf when it is not.

    Examples
    --------
    >>> Log()([0.0, 0.0, 0.5], [0.0, 1.0, 1.0])
    array([0.        ,        inf, 0.69314718])
    """

    name = "log"
    prior_labels = (0.0, 1.0)
    y_range = Interval(0.0, 1.0)
    z_range = Interval(0.0, 1.0)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        # The branch that is not chosen must be finite too: JAX multiplies its derivative by 0.
        hit = y * xp.log(xp.where(y == 0.0, 1.0, z))
        miss = (1.0 - y) * xp.log1p(xp.where(y == 1.0, 0.0, -z))
        return 0.0 - hit - miss  # avoids −0.0


@dataclass(frozen=True, kw_only=True)
class Poisson(Written, MeanLoss):
    r"""Poisson deviance, halved, without the terms y log y − y.

    .. math:: \ell(z, y) = z - y \log z

    Labels are counts or rates y ≥ 0. The minimiser is the mean, which is 0 for a block of zeros,
    so the value 0 is in range.

    Examples
    --------
    >>> Poisson()([0.0, 2.0], [0.0, 3.0])
    array([ 0.        , -0.07944154])
    """

    name = "poisson"
    y_range = Interval(0.0, math.inf)
    z_range = Interval(0.0, math.inf)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return z - y * xp.log(xp.where(y == 0.0, 1.0, z))  # see Log


@dataclass(frozen=True, kw_only=True)
class Gamma(Written, MeanLoss):
    r"""Gamma deviance, halved, without the terms −log y − 1.

    .. math:: \ell(z, y) = \frac{y}{z} + \log z

    Labels are positive (durations, claim sizes), and so are values. The minimiser is the mean,
    although the loss is not convex in z.

    Examples
    --------
    >>> float(Gamma()(2.0, 3.0))
    2.1931
    """

    name = "gamma"
    y_range = Interval(0.0, math.inf, low_closed=False)
    z_range = Interval(0.0, math.inf, low_closed=False)

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.where(z == 0.0, math.inf, y / z + xp.log(z))


@dataclass(frozen=True, kw_only=True)
class Tweedie(Written, MeanLoss):
    r"""Tweedie deviance, halved, without the term in y alone.

    .. math:: \ell(z, y) = \frac{z^{2 - p}}{2 - p} + \frac{y z^{1 - p}}{p - 1}

    Between Poisson (p → 1) and gamma (p → 2): a mass at zero and positive amounts, as insurance
    claims have. Labels and values are non-negative; the minimiser is the mean.

    Parameters
    ----------
    power : float
        The variance power p, strictly between 1 and 2.

    Raises
    ------
    ValueError
        If ``power`` is out of range.

    Examples
    --------
    >>> Tweedie(power=1.5)([0.0, 4.0], [0.0, 1.0])
    array([0., 5.])
    """

    power: float = 1.5

    name = "tweedie"
    y_range = Interval(0.0, math.inf)
    z_range = Interval(0.0, math.inf)

    def __post_init__(self) -> None:
        set_parameter(self, "power", "(1, 2)")

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        p = self.power
        pull = xp.where(y == 0.0, 0.0, y * xp.power(z, 1.0 - p) / (p - 1.0))
        return xp.power(z, 2.0 - p) / (2.0 - p) + pull


class _MarginLoss(Written, MeanLoss):
    """A loss of a margin; its minimiser is a function of the share of the labels 1."""

    minimized_by_label = False
    prior_labels = (-1.0, 1.0)
    y_range = TwoPoint(-1.0, 1.0)
    z_range = Interval(-math.inf, math.inf)

    def statistic(self, y: Floats) -> Floats:
        """Return 1 for the label 1 and 0 for −1."""
        return 0.5 * (1.0 + y)


@dataclass(frozen=True, kw_only=True)
class Logistic(_MarginLoss):
    r"""Logistic loss of a margin.

    .. math:: \ell(z, y) = \log(1 + e^{-yz})

    Labels are −1 and 1. The minimiser is the log odds of the share of positive weight, infinite
    for a block of one label only.

    Examples
    --------
    >>> float(Logistic()(0.0, 1.0))
    0.6931
    """

    name = "logistic"

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.logaddexp(0.0, -y * z)

    def link(self, m: Floats) -> Floats:
        """Return log(m / (1 − m)); −inf at 0 and inf at 1."""
        return _logit(m)

    def inverse_link(self, z: Floats) -> Floats:
        """Return 1 / (1 + e^(−z)), the probability of the label 1."""
        return _expit(z)


@dataclass(frozen=True, kw_only=True)
class Exponential(_MarginLoss):
    r"""Exponential loss of a margin, that of AdaBoost.

    .. math:: \ell(z, y) = e^{-yz}

    Labels are −1 and 1. The minimiser is half the log odds of the share of positive weight,
    infinite for a block of one label only.

    Examples
    --------
    >>> float(Exponential()(1.0, -1.0))
    2.7183
    """

    name = "exponential"

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        return xp.exp(-y * z)

    def link(self, m: Floats) -> Floats:
        """Return ½ log(m / (1 − m)); −inf at 0 and inf at 1."""
        return 0.5 * _logit(m)

    def inverse_link(self, z: Floats) -> Floats:
        """Return 1 / (1 + e^(−2z)), the probability of the label 1."""
        return _expit(2.0 * z)


@dataclass(frozen=True, kw_only=True)
class Linex(Written, MeanLoss):
    r"""LINEX loss, exponential above the label and linear below it.

    .. math:: \ell(z, y) = e^{a(z - y)} - a(z - y) - 1

    The minimiser is −log(Σ w e^(−ay) / Σ w) / a. The exponential must neither overflow nor vanish,
    so labels are limited to |y| ≤ 700 / a.

    Parameters
    ----------
    a : float
        How much an over-estimate costs more than an under-estimate; positive.

    Raises
    ------
    ValueError
        If ``a`` is not positive and finite.

    Examples
    --------
    >>> float(Linex(a=1.0)(1.0, 0.0)), float(Linex(a=1.0)(-1.0, 0.0))
    (0.7183, 0.3679)
    """

    a: float = 1.0
    y_range: Interval = field(init=False, repr=False, compare=False)

    name = "linex"
    z_range = Interval(-math.inf, math.inf)

    def __post_init__(self) -> None:
        set_parameter(self, "a", "(0, inf)")
        object.__setattr__(self, "y_range", Interval(-700.0 / self.a, 700.0 / self.a))

    def _value(self, xp: Any, z: Any, y: Any) -> Any:
        d = self.a * (z - y)
        return xp.expm1(d) - xp.minimum(d, 1e3)  # for greater d exp(d) is inf

    def statistic(self, y: Floats) -> Floats:
        """Return −e^(−ay)."""
        if isinstance(y, float):
            return -math.exp(-self.a * y)
        return -np.exp(-self.a * y)

    def link(self, m: Floats) -> Floats:
        """Return −log(−m) / a."""
        if isinstance(m, float):
            return -math.log(-m) / self.a
        return -np.log(-m) / self.a

    def inverse_link(self, z: Floats) -> Floats:
        """Return −e^(−az)."""
        return self.statistic(z)


def _logit(m: Floats) -> Floats:
    if isinstance(m, float):
        if 0.0 < m < 1.0:
            return math.log(m) - math.log1p(-m)
        return math.copysign(math.inf, m - 0.5)
    with np.errstate(divide="ignore"):
        return np.log(m) - np.log1p(-m)


def _expit(z: Floats) -> Floats:
    """1 / (1 + e^(−z)) without overflow, and with small values to full relative precision."""
    if isinstance(z, float):
        e = math.exp(-abs(z))
        return (1.0 if z >= 0.0 else e) / (1.0 + e)
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)
