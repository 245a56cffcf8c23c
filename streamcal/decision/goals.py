"""Goals of decisions: metrics of a confusion table, by formula and by name.

Misprints of formulas in the paper's table 1 (F_β, AM, G-Mean, Q-Mean, SEC) and in its Proposition 8
are corrected here [1]_.

References
----------
.. [1] Natarajan, N., Koyejo, O., Ravikumar, P. and Dhillon, I. S. Optimal Decision-Theoretic
   Classification Using Non-Decomposable Performance Metrics, sections 3 and 4, table 1.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from streamcal._advice import did_you_mean, shown
from streamcal._validation import as_within
from streamcal.decision._coded_metric import CodedMetric
from streamcal.decision.metric import ROUNDING, Metric, ZeroDivision
from streamcal.kernels import confusion

if TYPE_CHECKING:
    from river import metrics as river_metrics

# Cells of the table by (u, v, p): where all samples are true positives, false positives, and so on.
_CELLS = ((1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))


class _Fraction(CodedMetric):
    """A ratio of linear forms of the counts; coefficients by cell (tp, fp, fn, tn)."""

    kind = confusion.FRACTION

    def __init__(
        self,
        numerator: Sequence[float],
        denominator: Sequence[float],
        zero_division: ZeroDivision = 0,
        **parameters: Any,
    ) -> None:
        super().__init__(zero_division, **parameters)
        self.spec[confusion.NUMERATOR : confusion.DENOMINATOR] = numerator
        self.spec[confusion.DENOMINATOR :] = denominator
        # A ratio of sums lies between the ratios of the summands.
        ratios = [abs(a) / b for a, b in zip(numerator, denominator, strict=True) if b > 0.0]
        self.largest = max(*ratios, float(self.spec[confusion.ZERO]))


class FractionalLinear(_Fraction):
    r"""A ratio of linear forms of the counts.

    .. math:: \frac{c_0 + c_1 u + c_2 v + c_3 p}{d_0 + d_1 u + d_2 v + d_3 p}

    u is TP/n, v the share that is labelled 1, p the share of positives.

    Parameters
    ----------
    c, d : sequence of 4 floats
        The coefficients.
    zero_division : {0, 1, "present"}
        The value of 0/0; "present" means 0 here.

    Raises
    ------
    ValueError
        If on some table the denominator has another sign, or is 0 while the numerator is not, or
        the metric falls as TP grows: c₁·denominator >= d₁·numerator must hold for all v and p.
        (The condition c₁ > d₁ of the paper's Proposition 8 is neither necessary nor sufficient.)

    Examples
    --------
    >>> FractionalLinear((0, 2, 0, 0), (0, 0, 1, 1))(3, 1, 2, 4) == FBeta(1)(3, 1, 2, 4)
    True
    """

    def __init__(
        self, c: Sequence[float], d: Sequence[float], *, zero_division: ZeroDivision = 0
    ) -> None:
        c, d = _as_coefficients(c, "c"), _as_coefficients(d, "d")
        above = [c[0] + c[1] * u + c[2] * v + c[3] * p for u, v, p in _CELLS]
        below = [d[0] + d[1] * u + d[2] * v + d[3] * p for u, v, p in _CELLS]
        if max(below) <= 0.0:
            above, below = [-x for x in above], [-x for x in below]
        scale = max(map(abs, below))
        below = [0.0 if abs(x) <= ROUNDING * scale else x for x in below]
        if min(below) < 0.0 or max(below) == 0.0:
            raise ValueError(f"`d` must make a denominator of one sign, got {d}")
        scale = max(1.0, *map(abs, above))
        if any(b == 0.0 and abs(a) > ROUNDING * scale for a, b in zip(above, below, strict=True)):
            raise ValueError(
                f"`c` must be 0 on the tables where the denominator is 0, got c={c}, d={d}"
            )
        # c₁·denominator - d₁·numerator has no u in it, and is linear in v and p.
        for v, p in product((0.0, 1.0), repeat=2):
            slope = c[1] * (d[0] + d[2] * v + d[3] * p) - d[1] * (c[0] + c[2] * v + c[3] * p)
            if slope < -ROUNDING * scale * max(map(abs, d)):
                raise ValueError(
                    f"`c` and `d` must make a metric that grows with TP, but its slope at v={v:g}, "
                    f"p={p:g} has the sign of {slope:g}"
                )
        super().__init__(above, below, zero_division, c=c, d=d)


class FBeta(_Fraction):
    r"""F-measure, for any real β; β = 0 is precision.

    .. math:: F_\beta = \frac{(1 + \beta^2)\, TP}{(1 + \beta^2)\, TP + \beta^2 FN + FP}

    Examples
    --------
    >>> FBeta(1)(3, 1, 2, 4)
    0.666...
    """

    def __init__(self, beta: float = 1.0, *, zero_division: ZeroDivision = 0) -> None:
        beta = _as_coefficient(beta, "beta")
        square = beta * beta
        super().__init__(
            (1 + square, 0, 0, 0), (1 + square, 1, square, 0), zero_division, beta=beta
        )


class Tversky(_Fraction):
    r"""Tversky index with weights α, β >= 0, not both 0.

    .. math:: \frac{TP}{TP + \alpha\, FP + \beta\, FN}

    Examples
    --------
    >>> Tversky(0.5, 0.5)(3, 1, 2, 4) == FBeta(1)(3, 1, 2, 4)
    True
    """

    def __init__(self, alpha: float, beta: float, *, zero_division: ZeroDivision = 0) -> None:
        alpha, beta = _as_coefficient(alpha, "alpha"), _as_coefficient(beta, "beta")
        if alpha < 0.0 or beta < 0.0 or alpha + beta == 0.0:
            raise ValueError(
                f"`alpha` and `beta` must be at least 0 and not both 0, got {alpha} and {beta}"
            )
        super().__init__((1, 0, 0, 0), (1, alpha, beta, 0), zero_division, alpha=alpha, beta=beta)


class Jaccard(_Fraction):
    r"""Jaccard index.

    .. math:: \frac{TP}{TP + FP + FN}

    Examples
    --------
    >>> Jaccard()(3, 1, 2, 4)
    0.5
    """

    def __init__(self, *, zero_division: ZeroDivision = 0) -> None:
        super().__init__((1, 0, 0, 0), (1, 1, 1, 0), zero_division)


class Accuracy(_Fraction):
    r"""Share of correct labels.

    .. math:: \frac{TP + TN}{n}

    Examples
    --------
    >>> Accuracy()(3, 1, 2, 4)
    0.7
    """

    def __init__(self, *, zero_division: ZeroDivision = 0) -> None:
        super().__init__((1, 0, 0, 1), (1, 1, 1, 1), zero_division)


class _WithoutParameters(CodedMetric):
    """A coded metric without parameters."""

    def __init__(self, *, zero_division: ZeroDivision = 0) -> None:
        super().__init__(zero_division)


class AM(_WithoutParameters):
    r"""Arithmetic mean of TPR and TNR: balanced accuracy.

    .. math:: \frac{TPR + TNR}{2}

    Examples
    --------
    >>> AM()(3, 1, 2, 4)
    0.7
    """

    kind = confusion.AM


class GMean(_WithoutParameters):
    r"""Geometric mean of TPR and TNR.

    .. math:: \sqrt{TPR \cdot TNR}

    Examples
    --------
    >>> GMean()(3, 1, 2, 4)
    0.692...
    """

    kind = confusion.GMEAN


class HMean(_WithoutParameters):
    r"""Harmonic mean of TPR and TNR; 0 if both are 0.

    .. math:: \frac{2\, TPR \cdot TNR}{TPR + TNR}

    Examples
    --------
    >>> HMean()(3, 1, 2, 4)
    0.685...
    """

    kind = confusion.HMEAN


class QMean(_WithoutParameters):
    r"""One minus the mean squared error rate of both classes.

    .. math:: 1 - \frac{(1 - TPR)^2 + (1 - TNR)^2}{2}

    Examples
    --------
    >>> QMean()(3, 1, 2, 4)
    0.9
    """

    kind = confusion.QMEAN


class GTPPR(_WithoutParameters):
    r"""Geometric mean of TPR and precision.

    .. math:: \frac{TP}{\sqrt{(TP + FN)(TP + FP)}}

    River's ``FowlkesMallows`` is another metric: it counts pairs of samples in clusterings.

    Examples
    --------
    >>> GTPPR()(3, 1, 2, 4)
    0.670...
    """

    kind = confusion.GTPPR


class MCC(_WithoutParameters):
    r"""Matthews' correlation coefficient.

    .. math:: \frac{TP \cdot TN - FP \cdot FN}{\sqrt{(TP + FP)(TP + FN)(TN + FP)(TN + FN)}}

    Examples
    --------
    >>> MCC()(3, 1, 2, 4)
    0.408...
    """

    kind = confusion.MCC


class Kappa(_WithoutParameters):
    r"""Cohen's κ.

    .. math::

        \kappa = \frac{2 (TP \cdot TN - FP \cdot FN)}{(TP + FP)(FP + TN) + (TP + FN)(FN + TN)}

    Examples
    --------
    >>> Kappa()(3, 1, 2, 4)
    0.4
    """

    kind = confusion.KAPPA


class SEC(_WithoutParameters):
    r"""Squared error in counting, negated so that more is better.

    .. math:: -\left(\frac{FN - FP}{n}\right)^2

    It does not depend on which samples are labelled 1, only on how many.

    Examples
    --------
    >>> SEC()(3, 1, 2, 4)
    -0.01
    """

    kind = confusion.SEC


SPECIFICITY = ((1.0, 1.0, -1.0, -1.0), (1.0, 0.0, 0.0, -1.0))
_NAMES: dict[str, Callable[[], Metric]] = {
    "f1": FBeta,
    "f2": lambda: FBeta(2.0),
    "f0.5": lambda: FBeta(0.5),
    "precision": lambda: FBeta(0.0),
    "recall": lambda: Tversky(0.0, 1.0),
    "specificity": lambda: FractionalLinear(*SPECIFICITY),
    "jaccard": Jaccard,
    "am": AM,
    "balanced_accuracy": lambda: AM(zero_division="present"),
    "gmean": GMean,
    "hmean": HMean,
    "qmean": QMean,
    "gtppr": GTPPR,
    "mcc": MCC,
    "kappa": Kappa,
    "sec": SEC,
    "accuracy": Accuracy,
}
METRIC_NAMES = tuple(_NAMES)
"""The names that can be given in place of a metric."""
MetricName = Literal[
    "f1",
    "f2",
    "f0.5",
    "precision",
    "recall",
    "specificity",
    "jaccard",
    "am",
    "balanced_accuracy",
    "gmean",
    "hmean",
    "qmean",
    "gtppr",
    "mcc",
    "kappa",
    "sec",
    "accuracy",
]
"""The same, for type checkers."""
AnyMetric: TypeAlias = "MetricName | Metric | river_metrics.base.Metric"
"""What `get_metric` accepts, for type checkers."""


def get_metric(metric: "str | Metric | river_metrics.base.Metric") -> Metric:
    """Return the metric of a name or of a river metric; a `Metric` is returned as it is.

    Parameters
    ----------
    metric : str, Metric or river metric
        Names are "f1", "f2", "f0.5", "precision", "recall", "specificity", "jaccard", "am",
        "balanced_accuracy", "gmean", "hmean", "qmean", "gtppr", "mcc", "kappa", "sec" and
        "accuracy". Of river's metrics F1, FBeta, Precision, Recall, Jaccard, BalancedAccuracy, MCC,
        CohenKappa and Accuracy are supported, for the label True and with river's conventions for
        0/0. Others raise an error, among them ``FowlkesMallows`` (see `GTPPR`) and
        ``GeometricMean``, whose value without one class depends on predictions.

    Raises
    ------
    ValueError
        If the name is unknown or the river metric is not supported.
    TypeError
        If it is none of the three.

    Examples
    --------
    >>> get_metric("f2")
    FBeta(beta=2.0)
    >>> from river import metrics
    >>> get_metric(metrics.BalancedAccuracy())
    AM(zero_division='present')
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        return metric_of_name(metric)
    from river import metrics as river_metrics  # slow, and not needed for names

    if isinstance(metric, river_metrics.base.Metric):
        return _metric_of_river(metric)
    raise TypeError(
        "`metric` must be a name, a Metric or a river metric, got"
        f" {shown(metric, (Metric, river_metrics.base.Metric))}"
    )


def as_parameter(metric: Any) -> Any:
    """Return a metric that states can hold: for a river metric the one of this library."""
    return metric if isinstance(metric, str) else get_metric(metric)


_ALIASES = {
    "fscore": "f1",
    "fmeasure": "f1",
    "iou": "jaccard",
    "matthews": "mcc",
    "acc": "accuracy",
    "sensitivity": "recall",
    "tpr": "recall",
    "tnr": "specificity",
}
"""Other words for metrics, for suggestions only."""


def metric_of_name(name: str, also: Sequence[str] = (), argument: str = "metric") -> Metric:
    """Return the metric of a name, or raise; ``also`` are other names for the message."""
    if name not in _NAMES:
        names = (*_NAMES, *also)
        hint = did_you_mean(name, names, _ALIASES)
        raise ValueError(f"`{argument}` must be one of {', '.join(names)}, got {name!r}{hint}")
    return _metric_of_name(name)


@cache
def _metric_of_name(name: str) -> Metric:
    return _NAMES[name]()


def _metric_of_river(metric: Any) -> Metric:
    from river import metrics as river_metrics

    recall = ((0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    same: dict[type, Callable[[], Metric]] = {
        river_metrics.F1: FBeta,
        river_metrics.FBeta: lambda: FBeta(metric.beta),
        river_metrics.Precision: lambda: FBeta(0.0),
        river_metrics.Recall: lambda: FractionalLinear(*recall),
        river_metrics.Jaccard: Jaccard,
        river_metrics.BalancedAccuracy: lambda: AM(zero_division="present"),
        river_metrics.MCC: MCC,
        river_metrics.CohenKappa: Kappa,
        river_metrics.Accuracy: Accuracy,
    }
    if type(metric) not in same:
        raise ValueError(
            f"`metric` must be one of river's {', '.join(kind.__name__ for kind in same)}, "
            f"got {type(metric).__name__}"
        )
    if getattr(metric, "pos_val", True) != True:  # noqa: E712 (1 is True as well)
        raise ValueError(f"`metric` must have True as its `pos_val`, got {metric.pos_val!r}")
    return same[type(metric)]()


def _as_coefficient(value: Any, name: str) -> float:
    """Return a coefficient that can be squared and summed without overflow."""
    return as_within(value, name, "[-1e15, 1e15]")


def _as_coefficients(values: Sequence[float], name: str) -> tuple[float, ...]:
    numbers = tuple(_as_coefficient(value, name) for value in values)
    if len(numbers) != 4:
        raise ValueError(f"`{name}` must hold 4 coefficients, got {len(numbers)}")
    return numbers
