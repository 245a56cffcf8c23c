"""Goals of decisions: metrics of a confusion table.

A metric is a function of the counts (tp, fp, fn, tn). It must not fall as tp grows with tp + fp and
tp + fn fixed: then moving the label 1 to a likelier sample never lowers it, and the best of all 2^n
labellings labels the k likeliest samples 1, for some k (the *probability ranking principle*;
Natarajan et al. [1]_, Theorem 6). All metrics here have that property; a metric from a function or
from coefficients is checked for it.

``zero_division`` is the value of 0/0. ``"present"`` leaves a class that does not occur out of a
mean over the two classes, as in balanced accuracy of scikit-learn and river; elsewhere it means 0.

References
----------
.. [1] Natarajan, N., Koyejo, O., Ravikumar, P. and Dhillon, I. S. Optimal Decision-Theoretic
   Classification Using Non-Decomposable Performance Metrics, sections 3 and 4, table 1. Misprints
   in the table (F_β, AM, G-Mean, Q-Mean, SEC) and in Proposition 8 are corrected here.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields, Stateful
from streamcal._validation import as_number
from streamcal.kernels import confusion
from streamcal.kernels.confusion import SPEC, utilities

if TYPE_CHECKING:
    from river import metrics as river_metrics

Vector = NDArray[np.float64]
ZeroDivision = float | Literal["present"]

# Cells of the table by (u, v, p): where all samples are true positives, false positives, and so on.
_CELLS = ((1.0, 1.0, 1.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
_MAX_CHECKED_SIZE = 8  # a function is checked on all tables of up to this many samples
_ROUNDING = 1e-12


class Metric(Stateful):
    """A metric from a function of the counts, such as ``lambda tp, fp, fn, tn: tp - 2 * fp``.

    Parameters
    ----------
    phi : callable
        Called with four float arrays of one shape (tp, fp, fn, tn); returns values of that shape,
        NaN where it is undefined. It is pickled with the metric.
    zero_division : {0, 1, "present"}
        The value in place of NaN; "present" means 0 here.
    monotone : bool
        Whether the metric never falls as tp grows with tp + fp and tp + fn fixed. This is checked
        on all tables of up to 8 samples. If False there are utilities and curves, but no
        `maximize`: the best labelling may not be that of the k likeliest samples.

    Raises
    ------
    TypeError
        If ``phi`` is not callable or does not return one number for each table.
    ValueError
        If ``zero_division`` is another value, or the metric is not monotone.

    Examples
    --------
    >>> profit = Metric(lambda tp, fp, fn, tn: 5.0 * tp - fp)
    >>> profit(3, 2, 0, 4)
    13.0
    """

    spec: Vector | None = None
    """The formula for kernels, coded as numbers; None if it is a Python function."""
    largest: float | None = None
    """A bound on the absolute value; None if unknown."""
    _hash: int | None = None

    def __init__(
        self, phi: Callable[..., Any], *, zero_division: ZeroDivision = 0, monotone: bool = True
    ) -> None:
        if not callable(phi):
            raise TypeError(f"`phi` must be callable, got {phi!r}")
        _check_zero_division(zero_division)
        self.phi = phi
        self.zero_division = zero_division
        self.monotone = bool(monotone)
        _check_monotone(self)

    def __call__(self, tp: ArrayLike, fp: ArrayLike, fn: ArrayLike, tn: ArrayLike) -> Any:
        """Return the metric of one table as a float, or of arrays of tables as an array."""
        tables = np.broadcast_arrays(
            *(np.asarray(cell, dtype=np.float64) for cell in (tp, fp, fn, tn))
        )
        values = self._values(np.array([cell.ravel() for cell in tables]))
        return values.reshape(tables[0].shape) if tables[0].ndim else float(values[0])

    def _values(self, tables: Vector) -> Vector:
        """Return the metric of tables, shape ``(4, n_tables)``."""
        with np.errstate(all="ignore"):
            try:
                values = np.array(self.phi(*tables), dtype=np.float64)
            except TypeError as error:
                raise TypeError(f"`phi` must take and return arrays: {error}") from None
        if values.shape != tables.shape[1:]:
            try:
                values = np.array(np.broadcast_to(values, tables.shape[1:]))
            except ValueError:
                raise TypeError(
                    f"`phi` must return one number per table, {tables.shape[1]} of them, "
                    f"got shape {values.shape}"
                ) from None
        values[np.isnan(values)] = 1.0 if self.zero_division == 1 else 0.0
        return values

    def _arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor; ``monotone`` only if it is False."""
        arguments: dict[str, Any] = {"phi": self.phi, "zero_division": self.zero_division}
        return arguments if self.monotone else {**arguments, "monotone": False}

    def _parameters(self) -> Fields:
        return dict(self._arguments())

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {}, {}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        pass  # there is no state beyond the parameters

    def __repr__(self) -> str:
        given = dict(self._arguments())
        if given.get("zero_division") == 0:
            del given["zero_division"]
        inside = ", ".join(f"{name}={value!r}" for name, value in given.items())
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._arguments() == self._arguments()

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((type(self), tuple(self._arguments().values())))
        return self._hash


class _Coded(Metric):
    """A metric with a formula in the kernels."""

    spec: Vector
    kind: int
    largest: float | None = 1.0

    def __init__(self, zero_division: ZeroDivision = 0, **parameters: Any) -> None:
        _check_zero_division(zero_division)
        self.zero_division = zero_division
        self.monotone = True
        self._own_arguments = parameters
        for name, value in parameters.items():
            setattr(self, name, value)
        self.spec = np.zeros(SPEC)
        self.spec[confusion.KIND] = self.kind
        leaves_out = zero_division == "present" and self.kind <= confusion.QMEAN
        if self.kind == confusion.FRACTION or not leaves_out:
            self.spec[confusion.ZERO] = 1.0 if zero_division == 1 else 0.0
        else:
            self.spec[confusion.ZERO] = math.nan

    def _arguments(self) -> dict[str, Any]:
        return {**self._own_arguments, "zero_division": self.zero_division}

    def _values(self, tables: Vector) -> Vector:
        return utilities(self.spec, np.ascontiguousarray(tables))


class _Fraction(_Coded):
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
        below = [0.0 if abs(x) <= _ROUNDING * scale else x for x in below]
        if min(below) < 0.0 or max(below) == 0.0:
            raise ValueError(f"`d` must make a denominator of one sign, got {d}")
        scale = max(1.0, *map(abs, above))
        if any(b == 0.0 and abs(a) > _ROUNDING * scale for a, b in zip(above, below, strict=True)):
            raise ValueError(
                f"`c` must be 0 on the tables where the denominator is 0, got c={c}, d={d}"
            )
        # c₁·denominator - d₁·numerator has no u in it, and is linear in v and p.
        for v, p in product((0.0, 1.0), repeat=2):
            slope = c[1] * (d[0] + d[2] * v + d[3] * p) - d[1] * (c[0] + c[2] * v + c[3] * p)
            if slope < -_ROUNDING * scale * max(map(abs, d)):
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


class _WithoutParameters(_Coded):
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


_NAMES: dict[str, Callable[[], Metric]] = {
    "f1": FBeta,
    "f2": lambda: FBeta(2.0),
    "f0.5": lambda: FBeta(0.5),
    "precision": lambda: FBeta(0.0),
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


def get_metric(metric: "str | Metric | river_metrics.base.Metric") -> Metric:
    """Return the metric of a name or of a river metric; a `Metric` is returned as it is.

    Parameters
    ----------
    metric : str, Metric or river metric
        Names are in `METRIC_NAMES`. Of river's metrics F1, FBeta, Precision, Recall, Jaccard,
        BalancedAccuracy, MCC, CohenKappa and Accuracy are supported, for the label True and with
        river's conventions for 0/0. Others raise an error, among them ``FowlkesMallows`` (see
        `GTPPR`) and ``GeometricMean``, whose value without one class depends on predictions.

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
        return _metric_of_name(metric)
    from river import metrics as river_metrics  # slow, and not needed for names

    if isinstance(metric, river_metrics.base.Metric):
        return _metric_of_river(metric)
    raise TypeError(f"`metric` must be a name, a Metric or a river metric, got {metric!r}")


def as_parameter(metric: Any) -> Any:
    """Return a metric that states can hold: for a river metric the one of this library."""
    return metric if isinstance(metric, str) else get_metric(metric)


@cache
def _metric_of_name(name: str) -> Metric:
    if name not in _NAMES:
        raise ValueError(f"`metric` must be one of {', '.join(_NAMES)}, got {name!r}")
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


def _check_zero_division(value: Any) -> None:
    # True == 1, so exclude it.
    if isinstance(value, bool) or value not in (0, 1, "present"):
        raise ValueError(f"`zero_division` must be 0, 1 or 'present', got {value!r}")


def _as_coefficient(value: Any, name: str) -> float:
    """Return a coefficient that can be squared and summed without overflow."""
    number = as_number(value, name)
    if not abs(number) <= 1e15:
        raise ValueError(f"`{name}` must be a number of at most 1e15, got {number}")
    return number


def _as_coefficients(values: Sequence[float], name: str) -> tuple[float, ...]:
    numbers = tuple(_as_coefficient(value, name) for value in values)
    if len(numbers) != 4:
        raise ValueError(f"`{name}` must hold 4 coefficients, got {len(numbers)}")
    return numbers


def _check_monotone(metric: Metric) -> None:
    """Evaluate a metric on all small tables; raise if it must be monotone and is not."""
    for n in range(1, _MAX_CHECKED_SIZE + 1):
        v, p = (side.ravel() for side in np.mgrid[0 : n + 1, 0 : n + 1])
        least, most = np.maximum(0, v + p - n), np.minimum(v, p)
        before = None
        for step in range(n + 1):
            tp = np.minimum(least + step, most).astype(np.float64)
            tables = np.array([tp, v - tp, p - tp, n - v - p + tp])
            values = metric._values(tables)
            if before is not None and metric.monotone:
                falls = values < before - _ROUNDING * (np.abs(values) + np.abs(before))
                if falls.any():
                    at = int(np.argmax(falls))
                    table = ", ".join(
                        f"{name}={cell:g}"
                        for name, cell in zip(("tp", "fp", "fn", "tn"), tables[:, at], strict=True)
                    )
                    raise ValueError(
                        "`phi` must not fall as tp grows with tp + fp and tp + fn fixed (or pass "
                        f"`monotone=False`), got {values[at]:g} at {table}, "
                        f"{before[at]:g} with one true positive fewer"
                    )
            before = values
