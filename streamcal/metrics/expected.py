r"""Performance before the labels: the expectation of a metric, given calibrated probabilities.

Labels come late or never. A calibrated probability says what is known of a label until then, so a
metric of the last predictions has an expectation now: a label that is known counts as it is, one
that is not known is 1 with its probability. With five predictions, two of them labelled::

    probability    .9    .2    .7    .4    .6
    label           1     0     ?     ?     ?
    decision        1     0     1     0     1      TP = 1 + Bernoulli(.7) + Bernoulli(.6)
                                                   FN = 0 + Bernoulli(.4)

For independent labels the number of true positives and the number of false negatives are
independent, and both are Poisson-binomial. Their laws give the expectation of any metric of a
confusion table, without sampling, and its quantiles. The Brier score and the log loss are sums, so
their mean and variance are exact; AUC is a ratio of two sums over pairs, and has a normal
approximation (the delta method).

*Correction.* Known labels tell how wrong the probabilities of the unknown ones may be. Their
log-odds are corrected by a constant and a slope, of which the known labels give the estimate with
the greatest posterior density, in one step of Newton's method. Its prior is that of a calibrator
which is wrong by a twentieth: normal with a deviation of 0.05.

*Intervals.* Given the probabilities, the metric lies in the quantiles at (1 − level) / 2 and
(1 + level) / 2 of its law. The probabilities themselves are estimated. A calibrator that learned
from m labels is wrong by about as much as the mean of m labels is, so with u unknown labels the
interval is widened by √(1 + u / m). It is widened again if the last labels, as many as are known in
the window and at least half of it, differ from their probabilities by more than chance: then those
of the unknown labels may be as wrong. Such labels may have come too late for the window. If they
differ by far more, the interval also holds that of probabilities which are wrong by as much on the
average: an interval of probabilities 0 and 1 has no width that could be multiplied.

The estimate from probabilities alone is that of CBPE (Kivimäki et al. 2025, arXiv 2505.05295), who
take it from a model calibrated once.
"""

import math
import re
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from streamcal._state.clone import Cloned
from streamcal._validation import (
    as_number,
    as_probabilities,
    as_probability,
    as_vector,
    as_within,
    check_count,
    check_no_mask,
    check_same_length,
    is_na,
)
from streamcal._whole import Step, do_all
from streamcal.decision import curves
from streamcal.decision.goals import AnyMetric, Tversky, get_metric, metric_of_name
from streamcal.decision.maximization import as_labels
from streamcal.decision.metric import Metric

Vector = NDArray[np.float64]
ScoreName = Literal["auc", "brier", "log_loss"]
Labelled: TypeAlias = tuple[Vector, Vector, NDArray[np.bool_]]
"""Probabilities, labels and decisions, of shape ``(n_samples,)``."""

_Sample = tuple[float, bool, float]  # probability, decision and label
_Samples: TypeAlias = "OrderedDict[Hashable, _Sample]"  # oldest first, found at once
AnyExpected: TypeAlias = "AnyMetric | ScoreName | Literal['recall']"
"""A metric that has an expectation here."""

_CLIP = 1e-15  # of probabilities in the logarithm
_TAU = 1e-9  # mass of slots of a law that are dropped
_PRIOR = 0.05  # deviation of the correction, by `benchmarks/expected_metrics.py`
_MOST_CORRECTED = 0.5  # where one step is too far
_CONTRADICTED = 2.0  # a misfit that is greater by chance in 2 % of cases
_MOST = 1e6  # of a misfit that multiplies a width
_MOST_LEFT = 10  # windows whose predictions may still get a label
_LEAST_ODDS = 1e-3  # probabilities nearer to 0 or 1 have no greater lever


class Expected(NamedTuple):
    """The expectation of a metric, and the ends of its interval.

    Examples
    --------
    >>> from streamcal.metrics import expected_metric
    >>> value, low, high = expected_metric([0.9, 0.2, 0.75], [1, 0, None], "accuracy")
    >>> round(value, 3), round(low, 3), round(high, 3)
    (0.917, 0.61, 1.0)
    """

    value: float
    low: float
    high: float


def expected_metric(
    p: ArrayLike,
    y: ArrayLike | None = None,
    metric: AnyExpected = "f1",
    *,
    decisions: ArrayLike | None = None,
    threshold: float = 0.5,
    level: float = 0.9,
) -> Expected:
    """Return the expectation of a metric where labels are missing, and an interval for it.

    Parameters
    ----------
    p : array-like of shape (n_samples,)
        Calibrated probabilities of the label 1, in [0, 1].
    y : array-like of shape (n_samples,), optional
        Labels 0 and 1; None or NaN where the label is not known. By default none is known.
    metric : str, Metric or river metric
        "auc", "brier", "log_loss", "recall", or what `streamcal.decision.get_metric` takes, such as
        "f1", "precision" and "accuracy".
    decisions : array-like of shape (n_samples,), optional
        The labels 0 and 1 that were predicted; by default 1 where ``p`` is at least ``threshold``.
    threshold : float
        In [0, 1].
    level : float
        The probability that the metric lies in the interval, in (0, 1); see Notes.

    Returns
    -------
    Expected
        ``value``, ``low`` and ``high``.

    Raises
    ------
    ValueError, TypeError
        If there is no sample, lengths differ, or an argument is out of its range.

    Notes
    -----
    The metrics of a confusion table have their exact expectation and quantiles for independent
    labels; so has the mean of the Brier score and of the log loss, with a normal interval. AUC is
    the ratio of two expectations, with a normal interval, and 0.5 if there is only one label. With
    u unknown and m known labels the interval is √(1 + u / m) times as wide on each side, because
    the probabilities are estimates, too, and wider if the known labels differ from theirs by more
    than chance; if no label is known it is not widened. Known labels correct the probabilities of
    the others a little; few of them change next to nothing.

    Examples
    --------
    >>> from streamcal.metrics import expected_metric
    >>> p, y = [0.9, 0.2, 0.7, 0.4, 0.6], [1, 0, None, None, None]
    >>> round(expected_metric(p, y, "f1").value, 3)
    0.795
    >>> round(expected_metric(p, y, "brier").value, 3)
    0.148
    """
    probabilities = as_probabilities(p, "p")
    n = len(probabilities)
    if not n:
        raise ValueError("`p` must hold at least one probability, got none")
    labels = _as_labels(y, n)
    within = as_within(threshold, "threshold", "[0, 1]")
    chosen = probabilities >= within if decisions is None else as_labels(decisions, n, "decisions")
    return expect(probabilities, labels, chosen, as_goal(metric), _as_level(level))


class ExpectedMetric(Cloned):
    """The expectation of a metric over the last predictions, whose labels come late or never.

    Parameters
    ----------
    metric : str, Metric or river metric
        As for `expected_metric`.
    window : int
        How many predictions count: the last ones.
    threshold : float
        The predicted label is 1 from this probability up, unless `add` is told another.
    level : float
        The probability that the metric lies in `interval`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Notes
    -----
    The value is the more accurate the better ``p`` is calibrated: pass the probabilities of a
    calibrator, which learns each label that comes. A sudden change of what labels mean is seen only
    by the labels.

    Predictions that leave the window without a label are kept for ten more windows. If the label
    comes then, it still says how right the probabilities are, so it counts for `interval`.

    Examples
    --------
    Of two predictions the label is known, of the third it is not:

    >>> from streamcal.metrics import ExpectedMetric
    >>> metric = ExpectedMetric("accuracy", window=3)
    >>> for key, p in [("a", 0.9), ("b", 0.2), ("c", 0.75)]:
    ...     metric.add(key, p)
    >>> metric.add_label("a", 1), metric.add_label("b", 0)
    (True, True)
    >>> round(metric.get(), 3), metric.n_unknown
    (0.917, 1)
    """

    def __init__(
        self,
        metric: AnyExpected = "f1",
        window: int = 1000,
        threshold: float = 0.5,
        level: float = 0.9,
    ) -> None:
        self._goal = as_goal(metric)
        check_count(window, "window")
        self._at = as_within(threshold, "threshold", "[0, 1]")
        self._level = _as_level(level)
        self.metric = metric
        self.window = window
        self.threshold = threshold
        self.level = level
        # By key, oldest first: the probability, the decision and the label, NaN if it is unknown.
        self._samples: _Samples = OrderedDict()
        self._left: _Samples = OrderedDict()  # without a label, when they left the window
        self._labelled: _Samples = OrderedDict()  # those of the last labels that came

    @property
    def n_samples(self) -> int:
        """How many predictions are in the window."""
        return len(self._samples)

    @property
    def n_unknown(self) -> int:
        """How many predictions in the window have no label yet."""
        return sum(y != y for _, _, y in self._samples.values())

    def add(self, key: Hashable, p: float, decision: int | None = None) -> None:
        """Add a prediction; the oldest one leaves the window if it is full.

        Parameters
        ----------
        key : hashable
            What `add_label` names it by; not in the window yet.
        p : float
            The calibrated probability of the label 1, in [0, 1].
        decision : {0, 1}, optional
            The predicted label; by default 1 if ``p`` is at least ``threshold``.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of its range, or the key is in the window; nothing is added.
        """
        probability = as_probability(p, "p")
        chosen = probability >= self._at if decision is None else as_label(decision, "decision")
        if key in self._samples:
            raise ValueError(f"`key` must be new, got {key!r}, which is in the window")
        steps: list[Step] = [
            partial(self._left.pop, key, None),  # another prediction of this key
            partial(self._samples.__setitem__, key, (probability, bool(chosen), math.nan)),
        ]
        if len(self._samples) >= self.window:
            old, sample = next(iter(self._samples.items()))
            steps.append(partial(self._samples.pop, old))
            if sample[2] != sample[2]:
                steps += _kept(self._left, old, sample, _MOST_LEFT * self.window)
        do_all(*steps)

    def add_label(self, key: Hashable, y: int) -> bool:
        """Add the label of a prediction; another label of the same key takes its place.

        Returns
        -------
        bool
            Whether the prediction is in the window. If it has left, its label counts only for how
            right the probabilities are, and so for the interval.

        Raises
        ------
        ValueError, TypeError
            If ``y`` is not 0 or 1; nothing changes.
        """
        label = as_label(y, "y")
        is_here = key in self._samples
        found = self._samples.get(key) or self._left.get(key) or self._labelled.get(key)
        if found is None:
            return False
        sample = (*found[:2], label)
        steps = _kept(self._labelled, key, sample, self.window)
        if is_here:
            steps.append(partial(self._samples.__setitem__, key, sample))
        else:
            steps.append(partial(self._left.pop, key, None))
        do_all(*steps)
        return is_here

    def get(self) -> float:
        """Return the expectation of the metric, 0 before the first prediction."""
        return self.expected().value if self._samples else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, (0, 1) before the first prediction."""
        return self.expected()[1:] if self._samples else (0.0, 1.0)

    def expected(self) -> Expected:
        """Return the expectation and the interval at once.

        Raises
        ------
        ValueError
            If there is no prediction.
        """
        if not self._samples:
            raise ValueError("a prediction must be added first")
        p, y, chosen = _columns(self._samples)
        labelled = _columns(self._labelled)
        return expect(p, y, chosen, self._goal, self._level, labelled=labelled)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metric!r}): {self.get():,.6f}"


# What ExpectedMetric keeps ------------------------------------------------------------------------


def _kept(samples: _Samples, key: Hashable, sample: _Sample, most: int) -> list[Step]:
    """Return steps that make a sample the newest one, of at most so many."""
    steps: list[Step] = [partial(samples.pop, key, None)]
    if key not in samples and len(samples) >= most:
        steps.append(partial(samples.pop, next(iter(samples))))
    return [*steps, partial(samples.__setitem__, key, sample)]


def _columns(samples: _Samples) -> Labelled:
    """Return probabilities, labels and decisions."""
    p, chosen, y = np.array([*samples.values()], dtype=np.float64).reshape(-1, 3).T
    return p, y, chosen == 1.0


# What is computed ---------------------------------------------------------------------------------


def as_goal(metric: Any) -> Metric | ScoreName:
    """Return what `expected_metric` computes for a metric, or raise.

    Examples
    --------
    >>> as_goal("ROC AUC"), as_goal("recall")
    ('auc', Tversky(alpha=0.0, beta=1.0))
    """
    if isinstance(metric, str):
        plain = re.sub("[^a-z]", "", metric.lower())
        if plain in _SCORES:
            return _SCORES[plain]
        if plain == "recall":
            return Tversky(0.0, 1.0)
        return metric_of_name(metric, _OTHERS)
    return get_metric(metric)


_SCORES: dict[str, ScoreName] = {
    "auc": "auc",
    "rocauc": "auc",
    "brier": "brier",
    "brierscore": "brier",
    "logloss": "log_loss",
}
_OTHERS = ("auc", "brier", "log_loss", "recall")


def expect(
    p: Vector,
    y: Vector,
    chosen: NDArray[np.bool_],
    goal: Metric | ScoreName,
    level: float,
    *,
    labelled: Labelled | None = None,
) -> Expected:
    """Return the expectation and the interval; arrays of shape ``(n_samples,)``.

    ``y`` is NaN where it is unknown, ``chosen`` are the decisions, ``goal`` is that of `as_goal`.
    ``labelled`` are the last samples whose label came, which tell how right probabilities are; by
    default those in ``y``.
    """
    unknown = np.isnan(y)
    q = y.copy()  # the probability of the label 1, given what is known
    q[unknown] = _corrected(p[unknown], p[~unknown], y[~unknown])
    given = (p[~unknown], y[~unknown], chosen[~unknown]) if labelled is None else labelled
    m, n_unknown = len(given[0]), int(unknown.sum())
    factor = math.sqrt(1.0 + n_unknown / m) if m else 1.0
    n_last = max(len(y) - n_unknown, (len(y) + 1) // 2)
    last: Labelled = (given[0][-n_last:], given[1][-n_last:], given[2][-n_last:])
    misfit = _miscalibration(*last)
    value, low, high = _widened(_found(p, q, chosen, goal, level), factor * min(misfit, _MOST))
    if misfit > _CONTRADICTED and n_unknown:
        # A law of probabilities near 0 and 1 has no width that could be multiplied.
        q[unknown] = (p + _residuals(last, chosen))[unknown].clip(0.0, 1.0)
        _, least, most = _widened(_found(p, q, chosen, goal, level), factor)
        low, high = min(low, least), max(high, most)
    return Expected(*np.clip((value, low, high), *_ends(goal)).tolist())


def _found(
    p: Vector, q: Vector, chosen: NDArray[np.bool_], goal: Metric | ScoreName, level: float
) -> Expected:
    """Return the expectation and the interval for labels that are 1 with the probabilities q."""
    if isinstance(goal, Metric):
        return _of_table(q, chosen, goal, level)
    return _normal(*(_auc(p, q) if goal == "auc" else _mean_score(p, q, goal)), level)


def _widened(found: Expected, factor: float) -> Expected:
    value, low, high = found
    return Expected(value, value - factor * (value - low), value + factor * (high - value))


def _residuals(last: Labelled, chosen: NDArray[np.bool_]) -> Vector:
    """Return for each sample the mean of y − p among known labels with its decision."""
    p, y, decided = last
    of_one, of_zero = (
        float(np.mean(y[among] - p[among])) if among.any() else 0.0 for among in (decided, ~decided)
    )
    return np.where(chosen, of_one, of_zero)


def _corrected(p: Vector, known: Vector, y: Vector) -> Vector:
    """Return probabilities, corrected by those with known labels."""
    x = np.vstack([np.ones(len(known)), _log_odds(known)])
    gradient = x @ (y - known)
    curvature = (x * (known * (1.0 - known))) @ x.T + np.eye(2) / _PRIOR**2
    constant, slope = np.linalg.solve(curvature, gradient).clip(-_MOST_CORRECTED, _MOST_CORRECTED)
    ones: Vector = p * np.exp(constant + slope * _log_odds(p))
    return ones / (ones + (1.0 - p))


def _log_odds(p: Vector) -> Vector:
    inside = p.clip(_LEAST_ODDS, 1.0 - _LEAST_ODDS)
    return np.log(inside / (1.0 - inside))


def _miscalibration(p: Vector, y: Vector, chosen: NDArray[np.bool_]) -> float:
    """Return by how much known labels differ from their probabilities, 1 if as much as by chance.

    The sums of y − p among the samples with decision 1 and with decision 0, each divided by its
    standard deviation, are about normal if the probabilities are right. The sum of their squares
    then exceeds its mean, 2, in 37 % of cases. So is the sum of y − p times the log-odds, less
    their mean, which tells of a wrong slope; its square exceeds 2 in 16 %.
    """
    total = 0.0
    for among in (chosen, ~chosen):
        variance = float(np.sum(p[among] * (1.0 - p[among])))
        if difference := float(np.sum(y[among] - p[among])):
            total += difference**2 / variance if variance else math.inf
    variances = p * (1.0 - p)
    if (sum_of_variances := float(variances.sum())) > 0.0:
        x = _log_odds(p)
        x -= float(variances @ x) / sum_of_variances
        if (variance := float(variances @ (x * x))) > 0.0:
            total = max(total, float((y - p) @ x) ** 2 / variance)
    return math.sqrt(max(1.0, total / 2.0))


def _ends(goal: Metric | ScoreName) -> tuple[float, float]:
    """Return the least and the greatest value of a metric, as far as they are known."""
    if not isinstance(goal, Metric):
        return 0.0, math.inf if goal == "log_loss" else 1.0
    if goal.largest is None:
        return -math.inf, math.inf
    tables = np.array(np.meshgrid(*[[0.0, 1.0]] * 4)).reshape(4, -1)[:, 1:]
    return (0.0 if goal._values(tables).min() >= 0.0 else -goal.largest), goal.largest


def _of_table(q: Vector, chosen: NDArray[np.bool_], metric: Metric, level: float) -> Expected:
    """Return the expectation and the quantiles of a metric of a confusion table."""
    n, k = len(q), int(chosen.sum())
    tau = _TAU / (n + 1)
    hits, _ = curves.extended(curves.NOTHING, q[chosen], tau)  # true positives
    misses, _ = curves.extended(curves.NOTHING, q[~chosen], tau)  # false negatives
    value = curves.expectation(metric, np.zeros(4), n, k, hits, misses)
    # Quantiles need no more of the laws than this.
    tp, mass_tp = _middle(hits, (1.0 - level) * 1e-4)
    fn, mass_fn = _middle(misses, (1.0 - level) * 1e-4)
    tables = np.empty((4, len(tp), len(fn)))
    tables[0], tables[1], tables[2], tables[3] = tp[:, None], k - tp[:, None], fn, n - k - fn
    values = metric._values(tables.reshape(4, -1))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(np.outer(mass_tp, mass_fn).ravel()[order])
    ends = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0]) * reached[-1]
    low, high = values[order[np.searchsorted(reached, ends).clip(0, len(order) - 1)]].tolist()
    return Expected(value, min(low, value), max(high, value))


def _middle(law: curves.Law, outside: float) -> tuple[Vector, Vector]:
    """Return the counts of a law and their probabilities, without ends of at most this mass."""
    reached = np.cumsum(law.mass)
    low = int(np.searchsorted(reached, outside))
    high = int(np.searchsorted(reached, reached[-1] - outside)) + 1
    mass = law.mass[low:high]
    return law.offset + low + np.arange(len(mass), dtype=np.float64), mass


def _normal(value: float, deviation: float, level: float) -> Expected:
    half = float(ndtri((1.0 + level) / 2.0)) * deviation
    return Expected(value, value - half, value + half)


def _mean_score(p: Vector, q: Vector, score: ScoreName) -> tuple[float, float]:
    """Return the mean of a score of each sample, and its standard deviation, given ``q``."""
    if score == "brier":
        of_one, of_zero = (1.0 - p) ** 2, p**2
    else:
        of_one, of_zero = -np.log(p.clip(_CLIP)), -np.log((1.0 - p).clip(_CLIP))
    variance = q * (1.0 - q) * (of_one - of_zero) ** 2
    return float(np.mean(q * of_one + (1.0 - q) * of_zero)), math.sqrt(variance.sum()) / len(p)


def _auc(p: Vector, q: Vector) -> tuple[float, float]:
    """Return the expected area under the ROC curve, and its standard deviation.

    A = Σ q_i (1 − q_j) over pairs that are ordered rightly, half of it for ties, and B over all
    pairs, i ≠ j. The derivative of A / B by each label gives the deviation.
    """
    order = np.argsort(p, kind="stable")
    scores, ones = p[order], q[order]
    zeros = 1.0 - ones
    starts = np.searchsorted(scores, scores, "left")
    ends = np.searchsorted(scores, scores, "right")
    sum_zeros = np.concatenate([[0.0], np.cumsum(zeros)])
    sum_ones = np.concatenate([[0.0], np.cumsum(ones)])
    # Of the other samples: the zeros below each sample and the ones above it, ties half.
    zeros_below = 0.5 * (sum_zeros[starts] + sum_zeros[ends] - zeros)
    ones_above = sum_ones[-1] - 0.5 * (sum_ones[starts] + sum_ones[ends] + ones)
    right = float(ones @ zeros_below)
    pairs = float(ones @ (sum_zeros[-1] - zeros))
    if pairs <= 0.0:
        return 0.5, 0.5
    area = right / pairs
    slope_right = zeros_below - ones_above
    slope_pairs = (sum_zeros[-1] - zeros) - (sum_ones[-1] - ones)
    slopes = (slope_right - area * slope_pairs) / pairs
    return area, math.sqrt(float((ones * zeros) @ slopes**2))


# What is given ------------------------------------------------------------------------------------


def _as_labels(y: Any, n: int) -> Vector:
    """Return labels of shape ``(n,)``, NaN where one is missing, or raise."""
    if y is None:
        return np.full(n, np.nan)
    check_no_mask(y, "y")
    given = y if isinstance(y, list | tuple) else np.asarray(y)
    if isinstance(given, list | tuple) or (given.dtype == object and given.ndim == 1):
        y = [math.nan if label is None or is_na(label) else label for label in given]
    labels = as_vector(y, "y", finite=False)
    check_same_length(labels, n, "y")
    bad = ~np.isnan(labels) & (labels != 0.0) & (labels != 1.0)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"`y` must hold 0, 1, and None where it is unknown, got {labels[at]} at {at}"
        )
    return labels


def as_label(y: Any, name: str) -> float:
    """Return a label 0 or 1 as a number, or raise."""
    label = as_number(y, name)
    if label not in (0.0, 1.0):
        raise ValueError(f"`{name}` must be 0 or 1, got {y!r}")
    return label


def _as_level(level: Any) -> float:
    return as_within(level, "level", "(0, 1)")
