r"""Precision, recall, F1 and other ratios of a confusion table, from what only audits observe.

A metric such as F1 = 2 TP / (2 TP + FP + FN) is a ratio of linear forms C / D of the four cells. It
is above r if and only if C − r D > 0, which is linear in the labels. The term of a decision ŷ with
probability p, of which a label y was asked for with propensity π, is for a given r ::

    z(r) = a + b (g + (asked / π) (y − g)),    a and b depend on ŷ and on r

where g is the label that p lets expect, corrected by a line through the labels among equal ŷ, as in
`streamcal.monitoring.audited_mean`. Its mean is that of C − r D.

*One look.* The mean of z(r) is about normal, with a variance that is quadratic in r. The interval
holds each r for which the mean differs from 0 by less than its normal quantile (Fieller 1954, *Some
problems in interval estimation*, JRSS B 16). The deviations are those of `AuditedMean`, with
Student's t for few labels.

*Every instant.* For five values of r there is a confidence sequence for the mean of C − r D, each
with a fifth of alpha. C − r D is linear in r, so between two of them its bounds lie on a line. The
interval holds each r whose bounds include 0. It is right also if the metric changes over time.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, Stateful, array_of, require, restore
from streamcal._validation import as_probability, as_propensity, as_within
from streamcal._whole import do_all
from streamcal.decision.goals import as_parameter
from streamcal.decision.metric import Metric
from streamcal.kernels import confusion
from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.metrics.expected import AnyExpected, as_goal, as_label
from streamcal.monitoring._audit_sums import AuditSums

Vector = NDArray[np.float64]

_N_TESTS = 5  # values of r; more share alpha, fewer have wider bounds between them
_LEAST_FLOOR = 1e-3  # the bounds allow no longer terms


class AuditedMetric(Locked, Stateful):
    """A metric of decisions of which only some have a label, such as recall.

    Parameters
    ----------
    metric : str, Metric or river metric
        "f1", "precision", "recall", "accuracy", "jaccard", or another ratio of linear forms of the
        confusion table, such as `streamcal.decision.FBeta`.
    alpha : float
        The chance that an interval is wrong, in (0, 1).
    threshold : float
        The predicted label is 1 from this probability up, unless `update` is told another.
    floor : float
        The least propensity, from 0.001 to 1.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range, or the metric is not such a ratio.

    Notes
    -----
    What `AuditedMean` says of decisions and propensities holds here, too. `interval_always` is for
    the metric of the expected confusion table of all decisions up to now, at all times together;
    `interval_once` is for one time that was chosen before, and needs some tens of labels of both
    kinds among the decisions that the metric is about: for recall also among the decisions 0.

    Examples
    --------
    One decision of twenty has a label:

    >>> import numpy as np
    >>> from streamcal.monitoring import AuditedMetric
    >>> rng = np.random.default_rng(0)
    >>> recall = AuditedMetric("recall", alpha=0.1)
    >>> for p in rng.beta(0.5, 0.5, 20_000):
    ...     recall.update(p, float(rng.random() < p) if rng.random() < 0.05 else None, 0.05)
    >>> low, high = recall.interval_once
    >>> round(recall.value, 3), round(low, 3), round(high, 3)
    (0.808, 0.787, 0.829)
    >>> [round(bound, 2) for bound in recall.interval_always]
    [0.75, 0.86]
    """

    def __init__(
        self,
        metric: AnyExpected = "f1",
        alpha: float = 0.05,
        *,
        threshold: float = 0.5,
        floor: float = 0.005,
    ) -> None:
        goal = as_goal(metric)
        if (
            not isinstance(goal, Metric)
            or goal.spec is None
            or goal.spec[confusion.KIND] != confusion.FRACTION
        ):
            raise ValueError(
                "`metric` must be a ratio of linear forms of the confusion table, such as 'f1',"
                f" 'recall' or 'accuracy', got {metric!r}; for a mean of losses use AuditedMean,"
                " for others weigh the labelled decisions by 1 / propensity"
            )
        self.metric = metric
        self.alpha = as_within(alpha, "alpha", "(0, 1)")
        self.threshold = as_within(threshold, "threshold", "[0, 1]")
        self.floor = as_within(floor, "floor", f"[{_LEAST_FLOOR:g}, 1]")
        self._form = _Form(goal)
        # By decision: sums of terms, and of the labels that were expected.
        self._sums = (AuditSums(), AuditSums())
        self._expected = (0.0, 0.0)
        self._bounds = [MeanBounds() for _ in range(_N_TESTS)]

    @property
    def n_samples(self) -> int:
        """How many decisions have been added."""
        return self._bounds[0].n_samples

    @property
    def n_observed(self) -> int:
        """How many of them had a label."""
        return int(sum(sums.n_observed for sums in self._sums))

    def update(
        self,
        predicted: float,
        observed: float | None = None,
        propensity: float = 1.0,
        *,
        decision: int | None = None,
    ) -> None:
        """Add a decision.

        Parameters
        ----------
        predicted : float
            The probability of the label 1, in [0, 1].
        observed : {0, 1}, optional
            The label; None: the decision was not audited.
        propensity : float
            The probability with which the label was asked for, from ``floor`` to 1.
        decision : {0, 1}, optional
            The predicted label; by default 1 if ``predicted`` is at least ``threshold``.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range, or a decision with propensity 1 has no label;
            nothing changes.
        """
        p = as_probability(predicted, "predicted")
        y = None if observed is None else as_label(observed, "observed")
        pi = as_propensity(propensity, self.floor)
        if y is None and pi == 1.0:
            raise ValueError("`observed` must be given where `propensity` is 1, got None")
        chosen = p >= self.threshold if decision is None else as_label(decision, "decision") == 1.0
        with self._mutex:
            zero, one = self._sums
            alpha, beta = (one if chosen else zero).coefficients()
            g = min(max(alpha + beta * p, 0.0), 1.0)
            residual = 0.0 if y is None else (y - g) / pi
            least, most = -g / pi, (1.0 - g) / pi
            after = (one if chosen else zero).after(p, y, pi)
            at_zero, at_one = self._expected
            steps = []
            for bounds, slope in zip(self._bounds, self._form.slopes[int(chosen)], strict=True):
                low, high = slope * least, slope * most
                low, high = (low, high) if low <= high else (high, low)
                steps.append(partial(bounds.add, slope * residual, low, high, 1.0))
            do_all(
                partial(setattr, self, "_sums", (zero, after) if chosen else (after, one)),
                partial(
                    setattr,
                    self,
                    "_expected",
                    (at_zero, at_one + g) if chosen else (at_zero + g, at_one),
                ),
                *steps,
            )

    @property
    def value(self) -> float:
        """The estimate of the metric; its value of 0 / 0 before any decision."""
        return self._form.value(self._sums)

    @property
    def interval_once(self) -> tuple[float, float]:
        """Ends of the interval for one look, as those of `AuditedMean`.

        Where only one label was seen among k decisions, others may have a share of −ln(alpha / 2) /
        k. It is the whole range if it depends on a decision of which fewer than two labels were
        observed, or if the denominator may be 0.
        """
        form, both, totals, variances = self._form, self._sums, [], []
        q = max(float(ndtri(self.alpha / 2.0)) ** 2, 1e-12)
        for decision, sums in enumerate(both):
            if sums.n and sums.n_observed < 2.0 and form.slopes[decision].any():
                return form.low, form.high
            mean, deviation = _mean(sums)
            if sums.n_observed >= 2.0:
                deviation = sums.half_width(self.alpha) / math.sqrt(q)
            if sums.n_observed and sums.wv in (0.0, sums.w):
                # Of k equal labels: greater shares of others have a chance below alpha / 2.
                share = (math.log(2.0) - math.log(self.alpha)) * sums.q / sums.w**2
                deviation = max(deviation, share / math.sqrt(q))
            totals.append(sums.n * mean)
            variances.append((sums.n * deviation) ** 2)
        # (c − r d)² ≤ q² (variance of c − r d), a quadratic in r
        c, d = form.totals([sums.n for sums in both], totals)
        by_c, by_d = form.by_label
        square = d * d - q * float(by_d**2 @ variances)
        linear = c * d - q * float(by_c * by_d @ variances)
        constant = c * c - q * float(by_c**2 @ variances)
        if not square > 1e-12 * d * d:
            return form.low, form.high
        middle = linear / square
        half = math.sqrt(max(middle * middle - constant / square, 0.0))
        value = form.value(both)
        low, high = min(middle - half, value), max(middle + half, value)
        return form.within(low), form.within(high)

    @property
    def interval_always(self) -> tuple[float, float]:
        """Ends of the interval that holds at all times together."""
        form, at = self._form, self._form.values
        with self._mutex:
            n = self.n_samples
            c, d = form.totals([sums.n for sums in self._sums], self._expected)
            found = np.array([bounds.interval(self.alpha / _N_TESTS) for bounds in self._bounds])
        if not n:
            return form.low, form.high
        low, high = ((c - at * d) / n + form.scale * found.T).tolist()
        # C − r D falls as r grows, and is 0 at the metric: from the left, the first r whose lower
        # bound is at most 0; from the right, the first whose upper bound is at least 0.
        return (
            _first_root(at.tolist(), low),
            _first_root(at[::-1].tolist(), [-bound for bound in reversed(high)]),
        )

    def _parameters(self) -> Fields:
        return {**super()._parameters(), "metric": as_parameter(self.metric)}

    def __repr__(self) -> str:
        low, high = self.interval_once
        return (
            f"AuditedMetric({self.metric!r}, alpha={self.alpha!r}, n_samples={self.n_samples},"
            f" n_observed={self.n_observed}, value={self.value:.4g},"
            f" interval_once=({low:.4g}, {high:.4g}))"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            return {}, {
                "sums": np.array(self._sums),
                "expected": np.array(self._expected),
                "totals": np.array([bounds.total for bounds in self._bounds]),
                "lost": np.concatenate([bounds.state() for bounds in self._bounds]),
            }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        rows = array_of(arrays, "sums", 2, len(AuditSums._fields))
        zero, one = (AuditSums.restored(row, self.floor) for row in rows)
        expected = array_of(arrays, "expected", 2)
        require(bool((expected >= 0.0).all()), "no label can be expected to be less than 0")
        require(bool((expected <= rows[:, 0] * (1.0 + 1e-9)).all()), "nor can it be greater than 1")
        totals = array_of(arrays, "totals", _N_TESTS)
        lost = array_of(arrays, "lost", 2 * _N_TESTS, None, finite=False)
        made, n = [MeanBounds() for _ in range(_N_TESTS)], zero.n + one.n
        for i, bounds in enumerate(made):
            bounds.restore(int(n), n, float(totals[i]), lost[2 * i : 2 * i + 2])
        self._sums, self._bounds = (zero, one), made
        self._expected = (float(expected[0]), float(expected[1]))


class _Form:
    """The coefficients of a ratio C / D: what a decision ŷ with a label adds to C − r D.

    Attributes
    ----------
    low, high : float
        The range of the metric.
    values : ndarray of shape (n_tests,)
        Where r is tested, rising from ``low`` to ``high``.
    slopes : ndarray of shape (2, n_tests)
        By ŷ: what a label 1 adds more than a label 0 to C − r D, divided by ``scale``.
    by_label : ndarray of shape (2, 2)
        What it adds to C and to D, by ŷ.
    """

    def __init__(self, metric: Metric) -> None:
        assert metric.spec is not None
        self.metric = metric
        cells = metric.spec[confusion.NUMERATOR :].reshape(2, 4)  # of C and D: TP, FP, FN, TN
        cells = cells / np.abs(cells).max()
        ratios = cells[0, cells[1] > 0.0] / cells[1, cells[1] > 0.0]
        of_nothing = float(metric.spec[confusion.ZERO])
        self.low = min(float(ratios.min()), of_nothing)
        self.high = max(float(ratios.max()), of_nothing)
        self.values = np.linspace(self.low, self.high, _N_TESTS)
        self._by_zero = cells[:, [3, 1]]
        self.by_label = cells[:, [2, 0]] - self._by_zero
        slopes = self.by_label[0][:, None] - self.values * self.by_label[1][:, None]
        self.scale = float(np.abs(slopes).max()) or 1.0
        self.slopes = slopes / self.scale

    def totals(self, n: Any, ones: Any) -> tuple[float, float]:
        """Return C and D of so many decisions, and so many labels 1 of them, by ŷ."""
        c, d = self._by_zero @ np.asarray(n) + self.by_label @ np.asarray(ones)
        return float(c), float(d)

    def value(self, both: tuple[AuditSums, AuditSums]) -> float:
        """Return the metric of sums by ŷ."""
        n = [sums.n for sums in both]
        ones = [sums.n * min(max(_mean(sums)[0], 0.0), 1.0) for sums in both]
        return float(self.metric(ones[1], n[1] - ones[1], ones[0], n[0] - ones[0]))

    def within(self, value: float) -> float:
        return min(max(value, self.low), self.high)


def _mean(sums: AuditSums) -> tuple[float, float]:
    """Return the mean of the terms of labels and its deviation, (0, 0) without decisions."""
    return sums.estimate() if sums.n else (0.0, 0.0)


def _first_root(at: list[float], bounds: list[float]) -> float:
    """Return where bounds, on lines between values, are first not above 0; the last value if never.

    Only rounding errors make them stay above 0: at the last value C − r D is not positive.
    """
    if bounds[0] <= 0.0:
        return at[0]
    for i in range(1, len(at)):
        if bounds[i] <= 0.0:
            share = bounds[i - 1] / (bounds[i - 1] - bounds[i])
            return at[i - 1] + share * (at[i] - at[i - 1])
    return at[-1]
