"""Labels that maximise the expectation of a metric, given calibrated probabilities.

The labels of samples are independent with known probabilities; the utility of a labelling is the
expectation of the metric over all outcomes. By the probability ranking principle the best of all
2^n labellings labels the k likeliest samples 1, for a k from 0 to n (the paper's loop leaves out
0). So it is enough to compute the curve Ψ_0..Ψ_n of expected utilities. Methods for it, the fastest
first:

==================  ==========================================================  ==================
method              for                                                         cost
==================  ==========================================================  ==================
closed-form         accuracy, precision and SEC                                 O(n)
exponential-sums    F_β, Jaccard, Tversky, ratios, AM, Q-Mean, G-TP/PR          O(nQ), Q ≈ 50
leave-one-out       MCC, κ and whatever is linear in TP                         O(nσ log(n/tol))
branch-and-bound    G-Mean, H-Mean (the maximum only)                           ≈ 3√n evaluations
windows             anything                                                    O(nσ² log(n/tol))
algorithm-2         ratios with rational coefficients (Natarajan et al. [1]_)   O(n²)
algorithm-1         anything (Natarajan et al.)                                 O(n³)
plug-in             anything; the metric of expected counts, no certificate     O(n)
==================  ==========================================================  ==================

All but the last give a bound on their error. All of the curve is needed: it may have several local
maxima (F1 with the probabilities 0.99 and nine times 0.27 has them at k = 1 and k = 10).

With targets these n + 1 labellings are still enough. Moving a label 1 from sample j to sample i
changes the expectation of a metric, given the labels of all others, by η_i - η_j times what one
true positive more adds to it with tp + fp and tp + fn fixed. For a likelier i and monotone metrics
that is not negative: neither for the goal nor for targets. So if any labelling of k samples keeps
all targets, that of the k likeliest does and is not worse. The metric is in the expectation, as in
E[TP/P] for recall, and the k that targets allow need not be those up to some k.

Coverage, with answers for some samples only, is the same problem. Among all ways to answer m
samples the expected accuracy is greatest if the likelier label is given for those m where its
probability q = max(p, 1 - p) is greatest; it is then the mean of q. So the largest m is that of the
most samples labelled 1 under a target for precision, with q in the place of p.

References
----------
.. [1] Natarajan, N., Koyejo, O., Ravikumar, P. and Dhillon, I. S. Optimal Decision-Theoretic
   Classification Using Non-Decomposable Performance Metrics, section 4.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import (
    as_probabilities,
    as_vector,
    check_choice,
    check_no_mask,
    check_within,
)
from streamcal.decision import curves
from streamcal.decision.branch import Evaluator, branch_and_bound
from streamcal.decision.exponentials import OutOfReachError
from streamcal.decision.goals import AnyMetric, get_metric, metric_of_name
from streamcal.decision.metric import Metric
from streamcal.decision.targets import GOALS, Goal, Target, Targets, accuracy_of, as_targets
from streamcal.kernels import confusion
from streamcal.kernels.confusion import DENOMINATOR, KIND, single

Vector = NDArray[np.float64]

Method = Literal[
    "auto",
    "closed-form",
    "exponential-sums",
    "leave-one-out",
    "branch-and-bound",
    "windows",
    "algorithm-2",
    "algorithm-1",
    "plug-in",
]
METHODS: tuple[Method, ...] = get_args(Method)
_TOL = 1e-10
_EXACT = 2.0**-50  # bound on the rounding error of one sample's utility
_LAST_BIT = 2.0**-52
_ANSWERS = np.array([False, True, None], np.object_)
_FEW = 64  # up to this many samples the whole curve is faster than branch and bound


class Counts(NamedTuple):
    """A confusion table, such as the counts of earlier decisions in a stream.

    Examples
    --------
    >>> past = Counts(tp=8, fp=2, fn=4, tn=86)
    >>> 2 * past.tp / (2 * past.tp + past.fp + past.fn)
    0.7273
    >>> maximize([0.5, 0.3], "f1", counts=past).labels
    array([ True, False])
    """

    tp: float = 0.0
    fp: float = 0.0
    fn: float = 0.0
    tn: float = 0.0


_Label = TypeVar("_Label", bound=np.generic)


class Decision(NamedTuple, Generic[_Label]):
    """The result of `maximize`.

    Attributes
    ----------
    labels : ndarray of bool, shape (n_samples,)
        The decision for each sample, in the order given. For coverage an array of objects: True,
        False, or None where there is no answer.
    k : int
        The number of samples labelled 1: the likeliest ones, of equal ones the first.
    threshold : float or None
        Labels are 1 where the probability is at least this; inf if no label is 1. For coverage,
        samples are answered where their likelier label has at least this probability; inf if none
        is. None if samples of one probability get different labels.
    expected : float
        The expected utility of these labels; the number of labels 1 for "positives", the share
        answered for "coverage".
    bound : float
        A bound on the error of ``expected``, of every other Ψ_k and of what targets are compared
        with (inf if there is none). The best labelling that keeps the targets is better by at most
        twice as much.
    method : str
        The method that was used.
    subject_to : dict
        For each target the expectation that these labels have: the target at least, up to rounding
        errors and ``bound``. For "positives" the number of labels 1.

    Examples
    --------
    >>> decision = maximize([0.7, 0.4, 0.35, 0.1], "f1")
    >>> decision.k, decision.threshold, round(decision.expected, 3)
    (3, 0.35, 0.591)
    """

    labels: NDArray[_Label]
    k: int
    threshold: float | None
    expected: float
    bound: float
    method: str
    subject_to: dict[Any, float]


@overload
def maximize(
    probabilities: ArrayLike,
    metric: Literal["coverage"],
    *,
    subject_to: Targets | None = ...,
    counts: Sequence[float] | Vector | None = ...,
    tol: float = ...,
    method: Method = ...,
) -> Decision[np.object_]: ...


@overload
def maximize(
    probabilities: ArrayLike,
    metric: Goal = ...,
    *,
    subject_to: Targets | None = ...,
    counts: Sequence[float] | Vector | None = ...,
    tol: float = ...,
    method: Method = ...,
) -> Decision[np.bool_]: ...


def maximize(
    probabilities: ArrayLike,
    metric: Any = "f1",
    *,
    subject_to: Targets | None = None,
    counts: Sequence[float] | Vector | None = None,
    tol: float = _TOL,
    method: Method = "auto",
) -> Decision[Any]:
    """Return the labels with the greatest expected utility, of all 2^n labellings.

    Parameters
    ----------
    probabilities : array-like of shape (n_samples,)
        Probability of the label 1, each in [0, 1]; the labels are taken to be independent. Rounding
        errors of at most 1e-9 are clipped.
    metric : str, Metric or river metric
        See `get_metric`. Or "positives", the number of samples labelled 1, or "coverage", the share
        of samples that get an answer: 1, 0, or None for the others, of all 3^n.
    subject_to : dict, optional
        Targets that the labels must keep. The key is a metric, as above, and the value is the least
        that its expectation may be; or the key is "positives", and the value is the greatest
        number of these samples to label 1. Accuracy, precision, recall and specificity by name are
        1 where they are 0/0, such as the precision without a label 1, so a target for precision or
        recall can always be kept. The only target of coverage is the accuracy of the answers.
        Without targets "positives" labels all samples 1, and "coverage" answers all.
    counts : sequence (tp, fp, fn, tn) of floats, or None
        Counts of earlier decisions, to which those of these samples are added, in targets too.
    tol : float
        The error to aim for, from 1e-13 to 1e-2.
    method : str
        "auto" takes the fastest method with a bound on its error; see the module for others.

    Returns
    -------
    Decision

    Raises
    ------
    TypeError, ValueError
        If probabilities are not numbers in [0, 1], a metric is unknown or not monotone, a target is
        out of range or can't be kept, counts are negative, or the method does not apply to the
        metric.

    Notes
    -----
    Targets are kept in expectation, given the probabilities; the labels that come may miss them. A
    target that is missed by rounding errors only, those of the probabilities included, is kept.

    Examples
    --------
    >>> maximize([0.1, 0.7, 0.4, 0.2], "f1").labels
    array([False,  True,  True, False])
    >>> decision = maximize([0.99] + [0.27] * 9, "f1")
    >>> decision.k, decision.threshold, round(decision.expected, 4)
    (10, 0.27, 0.495)

    As many labels 1 as possible, 90 % of them right; as many answers as possible, 85 % of them
    right; the best F1 with a single label 1:

    >>> maximize([0.98, 0.7, 0.85, 0.1], "positives", subject_to={"precision": 0.9}).labels
    array([ True, False,  True, False])
    >>> maximize([0.98, 0.6, 0.7, 0.1], "coverage", subject_to={"accuracy": 0.85}).labels
    array([True, None, True, False], dtype=object)
    >>> round(maximize([0.9, 0.8, 0.6], "f1", subject_to={"positives": 1}).expected, 4)
    0.552
    """
    targets, most = as_targets(subject_to)
    carried = _as_counts(counts)
    if isinstance(metric, str) and metric in GOALS:
        _check_tol(tol)
        if method not in ("auto", "closed-form"):
            raise ValueError(
                f"`method` must be 'auto' or 'closed-form' for {metric!r}, got {method!r}"
            )
        if metric == "coverage":
            return _answer(probabilities, accuracy_of(targets, most), carried, tol)
        p, ranked = _ranked(probabilities)
        return _label_most(p, ranked, targets, most, carried, tol)
    goal = metric_of_name(metric, GOALS) if isinstance(metric, str) else get_metric(metric)
    p, ranked = _ranked(probabilities)
    if not goal.monotone:
        raise ValueError(
            "`metric` must be monotone, else the best labelling may not be that of the likeliest"
            f" samples, got {goal!r}"
        )
    if len(p) == 1 and method == "auto" and goal.spec is not None and not subject_to:
        _check_tol(tol)
        return _decide_one(float(p[0]), *single(goal.spec, carried, p[0]))
    kept = _keep(ranked, targets, most, carried, tol)
    k, expected, bound, name = _find_best_k(ranked, goal, carried, method, tol, kept.allowed)
    labels, threshold = _label_likeliest(k, p, ranked)
    return Decision(
        labels, k, threshold, expected, max(bound, kept.bound), name, kept.expectations(k)
    )


class _Kept(NamedTuple):
    """Which of 0..n labels 1 keep all targets (None: all), the curves of these, and a bound."""

    allowed: NDArray[np.bool_] | None
    curves: dict[Any, Vector]
    bound: float

    def expectations(self, k: int) -> dict[Any, float]:
        """Return what k labels 1 can be expected to have of each target."""
        return {key: float(curve[k]) for key, curve in self.curves.items()}


def _keep(p: Vector, targets: list[Target], most: int | None, counts: Vector, tol: float) -> _Kept:
    """Return which numbers of labels 1 keep all targets, or raise; p in descending order."""
    if not targets and most is None:
        return _Kept(None, {}, 0.0)
    n = len(p)
    allowed, kept, largest_bound = np.ones(n + 1, np.bool_), {}, 0.0
    for key, metric, least in targets:
        psi, bound, _ = _curve(p, metric, counts, "auto", tol)
        keeps = psi >= least - (bound + _LAST_BIT)
        if n and not keeps.any():
            raise ValueError(
                f"`subject_to` must be within reach, got {least:g} as the least {key}, whose"
                f" greatest expectation is {psi.max():.6g}"
            )
        allowed &= keeps
        kept[key] = psi
        largest_bound = max(largest_bound, bound)
    if most is not None:
        allowed[most + 1 :] = False
        kept["positives"] = np.arange(n + 1.0)
    if not n:
        allowed[:] = True  # there is nothing to decide
    if not allowed.any():
        given = {key: least for key, _, least in targets}
        given |= {} if most is None else {"positives": most}
        raise ValueError(
            f"`subject_to` must be within reach, got targets that exclude each other, {given}"
        )
    return _Kept(allowed, kept, largest_bound)


def _label_most(
    p: Vector, ranked: Vector, targets: list[Target], most: int | None, counts: Vector, tol: float
) -> Decision[np.bool_]:
    """Return the most labels 1 that keep the targets."""
    kept = _keep(ranked, targets, most, counts, tol)
    k = len(p)
    if kept.allowed is not None:
        k -= int(kept.allowed[::-1].argmax())
    labels, threshold = _label_likeliest(k, p, ranked)
    return Decision(labels, k, threshold, float(k), kept.bound, "closed-form", kept.expectations(k))


def _answer(
    probabilities: ArrayLike, targets: list[Target], counts: Vector, tol: float
) -> Decision[np.object_]:
    """Return the most answers that keep the target: 1 where it is likelier than 0."""
    check_no_mask(probabilities, "probabilities")
    p = as_probabilities(probabilities, "probabilities")
    q = np.maximum(p, 1.0 - p)
    right = np.array([counts[0] + counts[3], counts[1] + counts[2], 0.0, 0.0])
    found = _label_most(q, _descending(q), targets, None, right, tol)
    likelier = p > 0.5
    return Decision(
        _ANSWERS[np.where(found.labels, likelier, np.int8(2))],
        int(np.count_nonzero(likelier & found.labels)),
        found.threshold,
        found.k / max(len(p), 1),
        found.bound,
        found.method,
        found.subject_to,
    )


def _decide_one(p: float, no: float, yes: float) -> Decision[np.bool_]:
    """Return the decision for one sample from the utilities of the labels 0 and 1."""
    if yes > no:
        return Decision(np.ones(1, np.bool_), 1, p, yes, _EXACT, "closed-form", {})
    return Decision(np.zeros(1, np.bool_), 0, math.inf, no, _EXACT, "closed-form", {})


def _find_best_k(
    ranked: Vector,
    metric: Metric,
    counts: Vector,
    method: str,
    tol: float,
    allowed: NDArray[np.bool_] | None,
) -> tuple[int, float, float, str]:
    """Return the k with the greatest Ψ_k, this Ψ_k, the bound on its error, and the method."""
    if method == "auto" and len(ranked) > _FEW and _methods_for(metric)[0] == "branch-and-bound":
        method = "branch-and-bound"
    if method == "branch-and-bound":
        _check_method(metric, method, tol)
        return *branch_and_bound(ranked, metric, counts, tol, allowed), method
    psi, bound, name = _curve(ranked, metric, counts, method, tol)
    k = int((psi if allowed is None else np.where(allowed, psi, -math.inf)).argmax())
    return k, float(psi[k]), bound, name


def _label_likeliest(k: int, p: Vector, ranked: Vector) -> tuple[NDArray[np.bool_], float | None]:
    """Return labels, 1 for the k likeliest samples, and their threshold; see `Decision`."""
    if k == 0:
        return np.zeros(len(p), np.bool_), math.inf
    threshold = float(ranked[k - 1])
    if k == len(p) or ranked[k] < threshold:
        return p >= threshold, threshold
    labels = p > threshold
    labels[np.flatnonzero(p == threshold)[: k - int(labels.sum())]] = True
    return labels, None


def utility_curve(
    probabilities: ArrayLike,
    metric: AnyMetric = "f1",
    *,
    counts: Sequence[float] | Vector | None = None,
    tol: float = _TOL,
    method: Method = "auto",
) -> Vector:
    """Return Ψ_0..Ψ_n: the expected utility of labelling the k most probable samples 1.

    Parameters are those of `maximize`.

    Returns
    -------
    ndarray of shape (n_samples + 1,)

    Examples
    --------
    >>> utility_curve([0.1, 0.7, 0.4], "f1").round(4)
    array([0.    , 0.588 , 0.6254, 0.5248])
    """
    metric = get_metric(metric)
    _, ranked = _ranked(probabilities)
    carried = _as_counts(counts)
    if method == "branch-and-bound":
        _check_method(metric, method, tol)
        psi = Evaluator(ranked, metric, carried, tol)
        return np.array([psi(k)[0] for k in range(len(ranked) + 1)])
    return _curve(ranked, metric, carried, method, tol)[0]


def expected_utility(
    probabilities: ArrayLike,
    labels: ArrayLike,
    metric: AnyMetric = "f1",
    *,
    counts: Sequence[float] | Vector | None = None,
    tol: float = _TOL,
) -> float:
    """Return the expected utility of any labels, in any order of the probabilities.

    Parameters
    ----------
    probabilities : array-like of shape (n_samples,)
        Probability of the label 1, each in [0, 1].
    labels : array-like of shape (n_samples,)
        The decisions, 0 or 1 (or bool).
    metric, counts, tol
        As for `maximize`; the metric need not be monotone.

    Returns
    -------
    float
        In O(nσ + σ² log²(n/tol)).

    Examples
    --------
    >>> round(expected_utility([0.1, 0.7, 0.4], [1, 0, 0], "f1"), 4)
    0.068
    """
    metric = get_metric(metric)
    p, _ = _ranked(probabilities)
    carried = _as_counts(counts)
    _check_tol(tol)
    chosen = as_labels(labels, len(p), "labels")
    tau = tol / (8 * (len(p) + 1))
    C, _ = curves.extended(curves.NOTHING, p[chosen], tau)
    D, _ = curves.extended(curves.NOTHING, p[~chosen], tau)
    return curves.expectation(metric, carried, len(p), int(chosen.sum()), C, D)


_GENERAL = ("windows", "algorithm-1")
_METHODS: dict[str, Callable[[Vector, Metric, Vector, float], curves.Curve]] = {
    "leave-one-out": curves.leave_one_out,
    "windows": curves.windows,
    "algorithm-2": curves.algorithm_2,
    "algorithm-1": curves.algorithm_1,
    "plug-in": curves.plug_in,
    "closed-form": lambda p, metric, counts, tol: (
        curves.squared_error_in_counting
        if metric.spec is not None and metric.spec[KIND] == confusion.SEC
        else curves.mean_over_labels_1
        if curves.counts_labels_1_only(metric)
        else curves.constant_denominator
    )(p, metric, counts, tol),
    "exponential-sums": lambda p, metric, counts, tol: (
        curves.exponential_fractions
        if metric.spec is not None and metric.spec[KIND] == confusion.FRACTION
        else curves.exponential_rates
    )(p, metric, counts, tol),
}


def _methods_for(metric: Metric) -> tuple[str, ...]:
    """Return the exact methods for a metric, the fastest first."""
    spec = metric.spec
    if spec is None:
        return _GENERAL
    kind = int(spec[KIND])
    linear = ("leave-one-out",) if curves.linear_in_tp(metric) else ()
    if kind == confusion.FRACTION:
        cells = spec[DENOMINATOR:]
        known = cells.min() == cells.max() or curves.counts_labels_1_only(metric)
        closed = ("closed-form",) if known else ()
        return (*closed, "exponential-sums", *linear, "algorithm-2", *_GENERAL)
    if kind == confusion.SEC:
        return ("closed-form", *linear, *_GENERAL)
    if kind in (confusion.AM, confusion.QMEAN, confusion.GTPPR):
        return ("exponential-sums", *linear, *_GENERAL)
    if kind in (confusion.GMEAN, confusion.HMEAN):
        return ("branch-and-bound", *_GENERAL)
    return (*linear, *_GENERAL)


def _curve(
    p: Vector, metric: Metric, counts: Vector, method: str, tol: float
) -> tuple[Vector, float, str]:
    """Return Ψ_0..Ψ_n, the bound on their error and the method's name."""
    if method == "auto":
        _check_tol(tol)
    else:
        _check_method(metric, method, tol)
    if not len(p):
        return metric._values(counts[:, None]), 0.0, "closed-form"
    if method != "auto":
        psi, bound = _METHODS[method](p, metric, counts, tol)
        return psi, bound, method
    if len(p) <= curves.FEW:
        psi, bound = curves.windows(p, metric, counts, tol)
        return psi, bound, "windows"
    for name in _methods_for(metric):
        if name in _METHODS:
            with contextlib.suppress(OutOfReachError):
                psi, bound = _METHODS[name](p, metric, counts, tol)
                return psi, bound, name
    raise AssertionError("windows apply to all metrics")


def _check_method(metric: Metric, method: str, tol: float) -> None:
    """Raise unless a method is known and applies to the metric."""
    _check_tol(tol)
    check_choice(method, "method", METHODS)
    if method != "plug-in" and method not in _methods_for(metric):
        raise ValueError(
            f"`method` must be one that applies to {metric!r}, "
            f"{', '.join((*_methods_for(metric), 'plug-in'))}, got {method!r}"
        )


def _check_tol(tol: float) -> None:
    if tol != _TOL:
        check_within(tol, "tol", "[1e-13, 0.01]")


def _ranked(probabilities: ArrayLike) -> tuple[Vector, Vector]:
    """Return probabilities as given and in descending order, or raise."""
    check_no_mask(probabilities, "probabilities")
    p = np.asarray(probabilities)
    if p.dtype != np.float64 or p.ndim != 1:
        p = as_vector(p, "probabilities", finite=False)
    ranked = _descending(p)
    # NaN is sorted to one of the ends and fails both comparisons.
    if len(ranked) and not (ranked[0] <= 1.0 and ranked[-1] >= 0.0):
        p = as_probabilities(p, "probabilities")
        ranked = ranked.clip(0.0, 1.0)
    return p, ranked


def _descending(values: Vector) -> Vector:
    """Return values in descending order, in one piece of new memory, which costs time."""
    ranked = np.negative(values)
    ranked.sort()
    return np.negative(ranked, out=ranked)


def _as_counts(counts: Sequence[float] | Vector | None) -> Vector:
    if counts is None:
        return np.zeros(4)
    counts = as_vector(counts, "counts")
    if len(counts) != 4:
        raise ValueError(f"`counts` must be (tp, fp, fn, tn), got {len(counts)} values")
    if counts.min() < 0.0:
        raise ValueError(f"`counts` must not be negative, got {counts.tolist()}")
    return counts


def as_labels(labels: ArrayLike, n_samples: int, name: str) -> NDArray[np.bool_]:
    """Return labels 0 and 1 as booleans of shape ``(n_samples,)``, or raise ``ValueError``."""
    vector = as_vector(labels, name)
    if len(vector) != n_samples:
        raise ValueError(
            f"`{name}` must have one value per probability, got {len(vector)} for {n_samples}"
        )
    chosen: NDArray[np.bool_] = vector == 1.0
    bad = ~chosen & (vector != 0.0)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"`{name}` must hold 0 and 1, got {vector[at]} at position {at}")
    return chosen
