"""The accuracy of answers over coverage as numbers, and what a target for the accuracy allows.

Samples are answered with their likelier label, the most certain ones first. Certainty is the
probability of this label: max(p, 1 − p) of two labels, and the greatest probability of several. The
share of samples that are answered is the coverage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import as_share, check_within
from streamcal.decision.maximization import maximize
from streamcal.metrics.bands import share_band
from streamcal.plot._predictions import Events, Predictions, as_predictions

_FIRST, _OTHERS = 100, 900  # points of a curve
_SHOWN = 0.1  # the coverage from which all is shown

Array = NDArray[np.float64]


class Answers(NamedTuple):
    """Answers that were given under a target, and how many of them are right.

    Attributes
    ----------
    target : float
        The least share of right answers in expectation.
    n_samples, n_answers, n_right : int
        The number of samples, of answers, and of right ones.
    expected : float
        The share of right answers that is expected, given the probabilities; 1 without answers.
    """

    target: float
    n_samples: int
    n_answers: int
    n_right: int
    expected: float

    @property
    def coverage(self) -> float:
        """The share of samples that are answered."""
        return self.n_answers / self.n_samples

    @property
    def accuracy(self) -> float:
        """The share of answers that are right; NaN without answers."""
        return self.n_right / self.n_answers if self.n_answers else float("nan")

    def interval(self, level: float) -> tuple[float, float]:
        """Return an interval for the probability that an answer is right, in the mean of all."""
        return _interval(self.n_right, self.n_answers, level)


class WeightedAnswers(NamedTuple):
    """As `Answers`, if samples have weights: ``coverage`` and ``accuracy`` are weighted shares.

    ``n_answers`` is the effective number of answers, (Σw)² / Σw², for which the interval is that of
    Clopper and Pearson.
    """

    target: float
    coverage: float
    accuracy: float
    n_answers: float
    expected: float

    @classmethod
    def of(cls, target: float, right: Array, chances: Array, w: Array, total: float) -> Self:
        """Return what is known of answers: arrays of shape ``(n_answers,)``, and the weight of all.

        ``right`` are 0.0 or 1.0, ``chances`` their probabilities.
        """
        weight = float(w.sum())
        if not weight:
            return cls(target, 0.0, float("nan"), 0.0, 1.0)
        accuracy, expected = (min(float(w @ each) / weight, 1.0) for each in (right, chances))
        return cls(target, weight / total, accuracy, weight**2 / float(w @ w), expected)

    def interval(self, level: float) -> tuple[float, float]:
        """Return an interval for the probability that an answer is right, in the mean of all."""
        return _interval(self.accuracy * self.n_answers, self.n_answers, level)


def _interval(n_right: float, n: float, level: float) -> tuple[float, float]:
    if not n:
        return 0.0, 1.0
    low, high = share_band(np.array([float(n_right)]), np.array([float(n)]), level)
    return float(low[0]), float(high[0])


@dataclass(frozen=True, eq=False)
class AccuracyCoverageCurve:
    """The accuracy of the answers to the most certain samples, over their share; nothing is drawn.

    Samples of equal certainty are answered together, so there is a point for each certainty. If
    there are more than 1,000, points are left out; the others stay exact.

    Attributes
    ----------
    coverage : ndarray of shape (n_points,)
        The share of samples that are answered, ascending; the last is 1.
    accuracy : ndarray of shape (n_points,)
        The share of the answers that are right.
    expected : ndarray of shape (n_points,)
        Their mean certainty: the accuracy to expect if probabilities are calibrated.
    thresholds : ndarray of shape (n_points,)
        The least certainty that is answered, descending.
    n_samples : int
        The number of samples.
    name : str or None
        The name in the legend.
    lower, upper : ndarray of shape (n_points,) or None
        The pointwise band of the accuracy.
    answers : Answers or None
        What `streamcal.maximize` answers under the target, if there is one: its ``target``,
        ``coverage``, ``expected`` and observed ``accuracy``, the counts ``n_samples``,
        ``n_answers`` and ``n_right``, and ``interval(level)`` of the true accuracy.

    Examples
    --------
    >>> curve = AccuracyCoverageCurve.from_predictions([1, 0, 0, 1], [0.9, 0.2, 0.6, 0.6])
    >>> curve.coverage, curve.accuracy.round(3), curve.expected.round(3)
    (array([0.25, 0.5 , 1.  ]), array([1.  , 1.  , 0.75]), array([0.9  , 0.85 , 0.725]))
    >>> curve.lower.round(3)
    array([0.05 , 0.224, 0.249])
    """

    coverage: Array
    accuracy: Array
    expected: Array
    thresholds: Array
    n_samples: int
    name: str | None = None
    lower: Array | None = None
    upper: Array | None = None
    answers: Answers | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        pos_val: Any = True,
        name: str | None = None,
        level: float | None = 0.9,
        target: float | None = None,
    ) -> Self:
        """Compute what `AccuracyCoverageDisplay.from_predictions` draws, with its parameters.

        Examples
        --------
        >>> y, p = [1, 0, 0, 1], [0.9, 0.2, 0.6, 0.6]
        >>> curve = AccuracyCoverageCurve.from_predictions(y, p, target=0.75)
        >>> curve.answers.coverage, round(curve.answers.expected, 3)
        (0.75, 0.767)
        """
        check_options(level, target)
        answers = answers_of(as_predictions(y_true, y_prob), pos_val)
        return cls(**vars(curve_of(answers, name, level, target)))


def check_options(level: float | None, target: float | None) -> None:
    """Raise unless a band has a level, and a target is a share."""
    check_within(level, "level", "(0, 1) or None")
    if target is not None:
        as_share(target, "target", "[0, 1]")


def answers_of(model: Predictions, pos_val: Any) -> Events:
    """Return whether the likelier label is right, and its probability."""
    if model.single is None:
        if pos_val is not True:
            raise ValueError(
                "`pos_val` must be left out where `y_prob` names labels: the answer is the"
                f" likeliest of these, got {pos_val!r}"
            )
        return model.of_top_label()
    happened, p = model.of_label(pos_val)
    return answers_of_two(happened, p)


def answers_of_two(happened: Array, p: Array) -> Events:
    """Return whether the likelier of two labels is right, and its probability.

    Labels 0.0 and 1.0, and probabilities of the label 1: arrays of shape ``(n_samples,)``. As in
    `streamcal.maximize`, the answer is 0 where both are equally likely.
    """
    right = (p > 0.5) == (happened == 1.0)
    return right.astype(np.float64), np.maximum(p, 1.0 - p)


def curve_of(
    answers: Events,
    name: str | None = None,
    level: float | None = None,
    target: float | None = None,
    w: Array | None = None,
) -> AccuracyCoverageCurve:
    """Return the curve of answers, of which there must be one; ``w`` are weights of samples.

    With weights, the band is that of the effective number of answers, (Σw)² / Σw².
    """
    right, certainty = answers
    n = len(right)
    order = np.argsort(-certainty, kind="stable")
    ranked, w_ranked = certainty[order], np.ones(n) if w is None else w[order]
    counts = np.append(np.flatnonzero(np.diff(ranked)), n - 1) + 1
    counts = counts[_some_of(counts)]
    columns = (w_ranked, w_ranked * right[order], w_ranked * ranked, w_ranked**2)
    weight, hits, sums, squares = (np.cumsum(each)[counts - 1] for each in columns)
    accuracy, expected = (np.minimum(each / weight, 1.0) for each in (hits, sums))  # rounded
    lower = upper = given = None
    if level is not None:
        scale = weight / squares  # 1 without weights
        effective = scale * weight
        lower, upper = share_band(np.minimum(scale * hits, effective), effective, level)
    if target is not None:
        assert w is None, "targets are for samples without weights"
        given = answers_under(answers, target)
    return AccuracyCoverageCurve(
        *(weight / weight[-1], accuracy, expected, ranked[counts - 1]), n, name, lower, upper, given
    )


def weighted_answers_under(answers: Events, target: float, w: Array) -> WeightedAnswers:
    """Return the most answers of which a weighted share is right in expectation.

    Samples of equal certainty are answered together.
    """
    right, certainty = answers
    order = np.argsort(-certainty, kind="stable")
    ranked = certainty[order]
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(right) - 1)
    expected = np.cumsum(w[order] * ranked)[ends] / np.cumsum(w[order])[ends]
    kept = np.flatnonzero(expected >= target - 1e-12)
    given = order[: ends[kept[-1]] + 1] if len(kept) else order[:0]
    return WeightedAnswers.of(target, right[given], certainty[given], w[given], float(w.sum()))


def answers_under(answers: Events, target: float) -> Answers:
    """Return the most answers of which a share is right in expectation; see `maximize`."""
    right, certainty = answers
    found = maximize(certainty, "positives", subject_to={"precision": target})
    expected = found.subject_to["precision"]
    return Answers(target, len(right), found.k, int(right[found.labels].sum()), expected)


def _some_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places of points to keep: the first ones, and others evenly over coverage."""
    if len(counts) <= _FIRST + _OTHERS:
        return np.arange(len(counts))
    even = np.searchsorted(counts, np.linspace(counts[_FIRST], counts[-1], _OTHERS))
    return np.union1d(np.arange(_FIRST), even)


def lowest_of(curves: Iterable[AccuracyCoverageCurve]) -> float:
    """Return where a picture of curves begins: at the left, where answers are few, it cuts them."""
    values = [1.0]
    for curve in curves:
        shown = curve.coverage >= _SHOWN
        lines = (curve.accuracy, curve.expected, curve.lower)
        values += [float(line[shown].min()) for line in lines if line is not None]
        values += [] if curve.answers is None else [curve.answers.target]
    return max(1.0 - 1.05 * (1.0 - min(values)), 0.0) if min(values) < 1.0 else 0.95
