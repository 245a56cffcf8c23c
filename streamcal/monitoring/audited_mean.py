r"""The mean of what only audits observe, with the help of predictions of it.

Of n decisions, all have a prediction m, such as a calibrated probability. Some, chosen with a known
propensity π, also have the value v, such as the label. The term of a decision is ::

    z = g(m) + (a / π) (v − g(m)),    a = 1 if it was observed, g(m) = α + β m

Its mean is that of v, whatever g is, because a / π is 1 in the mean. With α and β by weighted least
squares the residual v − g is small, and so is the variance: with a share s of decisions observed at
random, it is that of the mean of the observed values alone, times 1 − (1 − s) R². (Angelopoulos,
Bates, Fannjiang, Jordan and Zrnic 2023, *Prediction-powered inference*, Science 382; with the
coefficients of Angelopoulos, Duchi and Zrnic 2023, arXiv 2311.01453.)

*Intervals.* For one look, the fit of all decisions so far, and Student's t with (Σ w)² / Σ w²
observed values, w = 1 / π, less one for each fitted coefficient. There is no fit before 50 of them.
For every instant, the fit of the decisions before each one, and a confidence sequence of bounded
numbers (`streamcal.kernels.mean_bounds`).
"""

import math
from functools import partial
from typing import Any

import numpy as np

from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, Stateful, array_of, require, restore
from streamcal._validation import as_number, as_propensity, as_within
from streamcal._whole import do_all
from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.monitoring._audit_sums import AuditSums

_MOST_RANGE = 1e3  # of a term; the bounds allow no more


class AuditedMean(Locked, Stateful):
    """The mean of a value that is observed for some decisions only, such as the share of errors.

    Parameters
    ----------
    alpha : float
        The chance that an interval is wrong, in (0, 1).
    low, high : float
        The range of values and predictions. Of log loss clipped at c it is 0 to −ln c.
    floor : float
        The least propensity, in (0, 1]; with ``high - low`` at most a thousand times as large.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    Decisions may depend on each other in any way, as long as the propensity of each is the
    probability, given all before, that its value is observed; and the value is added together with
    the decision. `interval_always` holds for the mean of the expected values up to now, at all
    times together; `interval_once` holds at one time that was chosen before, nearly.

    Precision, recall and F1 are ratios, see `AuditedMetric`.

    Examples
    --------
    One decision of twenty is observed. The interval is narrower than that of the labels alone:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> share, plain = AuditedMean(alpha=0.1), AuditedMean(alpha=0.1)
    >>> for p in rng.beta(0.5, 0.5, 20_000):
    ...     y = float(rng.random() < p) if rng.random() < 0.05 else None
    ...     share.update(p, y, 0.05)
    ...     plain.update(0.5, y, 0.05)
    >>> low, high = share.interval_once
    >>> round(share.mean, 3), round(low, 3), round(high, 3)
    (0.496, 0.478, 0.514)
    >>> [round(bound, 3) for bound in plain.interval_once]
    [0.477, 0.528]
    >>> [round(bound, 2) for bound in share.interval_always]
    [0.45, 0.54]
    """

    def __init__(
        self, alpha: float = 0.05, *, low: float = 0.0, high: float = 1.0, floor: float = 0.005
    ) -> None:
        self.alpha = as_within(alpha, "alpha", "(0, 1)")
        self.low, self.high = as_number(low, "low"), as_number(high, "high")
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(f"`high` must be greater than `low`, {low}, got {high}")
        self.floor = as_within(floor, "floor", "(0, 1]")
        if (self.high - self.low) / self.floor > _MOST_RANGE:
            raise ValueError(
                f"`floor` must be at least (high − low) / 1000,"
                f" {(self.high - self.low) / _MOST_RANGE:g}, got {floor}"
            )
        self._length = self.high - self.low
        self._sums = AuditSums()
        self._bounds = MeanBounds()

    @property
    def n_samples(self) -> int:
        """How many decisions have been added."""
        return self._bounds.n_samples

    @property
    def n_observed(self) -> int:
        """How many of them were observed."""
        return int(self._sums.n_observed)

    def update(
        self, predicted: float, observed: float | None = None, propensity: float = 1.0
    ) -> None:
        """Add a decision.

        Parameters
        ----------
        predicted : float
            What the value is expected to be, from ``low`` to ``high``.
        observed : float, optional
            The value, from ``low`` to ``high``; None: the decision was not audited.
        propensity : float
            The probability with which the value was asked for, from ``floor`` to 1.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range, or a decision with propensity 1 was not observed;
            nothing changes.
        """
        # Sums of squares are of what exceeds `low`: far from 0, they would have no digits left.
        m = self._as_value(predicted, "predicted") - self.low
        v = None if observed is None else self._as_value(observed, "observed") - self.low
        pi = as_propensity(propensity, self.floor)
        if v is None and pi == 1.0:
            raise ValueError("`observed` must be given where `propensity` is 1, got None")
        with self._mutex:
            alpha, beta = self._sums.coefficients()
            g = min(max(alpha + beta * m, 0.0), self._length)
            z = g if v is None else g + (v - g) / pi
            least = g - g / pi
            most = g + (self._length - g) / pi
            sums = self._sums.after(m, v, pi)
            do_all(
                partial(setattr, self, "_sums", sums),
                partial(self._bounds.add, z, least, most, 1.0),
            )

    @property
    def mean(self) -> float:
        """The estimate of the mean of all values; the middle of the range before any decision."""
        if not self.n_samples:
            return (self.low + self.high) / 2.0
        return self._within(self.low + self._sums.estimate()[0])

    @property
    def interval_once(self) -> tuple[float, float]:
        """Ends of the interval for one look, by Student's t.

        It is the whole range with fewer than two observed values. At a nominal 90 % it holds in 88
        to 100 % of cases with 5 to 30 observed values, and in 80 to 94 % with 100
        (``benchmarks/audited_intervals.py --decisions 600``). It holds less often if fewer than
        five of the observed values are of a kind that matters, such as rare ones.
        """
        sums = self._sums
        if sums.n_observed < 2.0:
            return self.low, self.high
        mean, half = self.low + sums.estimate()[0], sums.half_width(self.alpha, self._length)
        return self._within(mean - half), self._within(mean + half)

    @property
    def interval_always(self) -> tuple[float, float]:
        """Ends of the interval that holds at all times together."""
        low, high = self._bounds.interval(self.alpha)
        return self._within(self.low + low), self._within(self.low + high)

    def _as_value(self, value: Any, name: str) -> float:
        """Return a number in the range, or raise; rounding errors are clipped."""
        number, slack = as_number(value, name), 1e-9 * (self.high - self.low)
        if self.low - slack <= number <= self.high + slack:
            return self._within(number)
        return as_within(value, name, f"[{self.low!r}, {self.high!r}]")

    def _within(self, value: float) -> float:
        return min(max(value, self.low), self.high)

    def __repr__(self) -> str:
        low, high = self.interval_once
        return (
            f"AuditedMean(alpha={self.alpha!r}, n_samples={self.n_samples},"
            f" n_observed={self.n_observed}, mean={self.mean:.4g},"
            f" interval_once=({low:.4g}, {high:.4g}))"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            bounds = self._bounds
            return {}, {
                "sums": np.array(self._sums),
                "mean": np.array([bounds.n_samples, bounds.weight, bounds.total]),
                "lost": bounds.state(),
            }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        values = array_of(arrays, "sums", len(AuditSums._fields))
        sums = AuditSums.restored(values, self.floor, self._length)
        n_samples, weight, total = array_of(arrays, "mean", 3).tolist()
        require(n_samples == math.floor(n_samples), "the number of decisions must be an integer")
        require(sums.n == n_samples == weight, "both sums must be of the same decisions")
        bounds = MeanBounds()
        lost = array_of(arrays, "lost", None, None, finite=False)
        bounds.restore(int(n_samples), weight, total, lost)
        self._sums, self._bounds = sums, bounds
