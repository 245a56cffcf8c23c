"""The Brier score: the mean squared error of predicted probabilities."""

from collections import Counter
from collections.abc import Hashable
from typing import Any, Literal

from river.metrics.base import MultiClassMetric

from streamcal._validation import as_probability
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.base import ProbabilityMetric, as_event


class BrierScore(ProbabilityMetric, MultiClassMetric):
    """Brier score of binary or multiclass probabilities, smaller is better.

    The score of a sample is Σ_k (p_k − 1[y = k])² over all labels, as in Brier's paper [1]_: a
    number in [0, 2]. With two labels both terms are equal, and usually only one of them is counted,
    (p − y)², a number in [0, 1]. The default is that of `sklearn.metrics.brier_score_loss`: half
    the sum for at most two labels (in predictions and true labels), the whole sum for more.

    Parameters
    ----------
    scale_by_half
        Whether to halve the sum over labels: ``"auto"`` (see above), True (the range is [0, 1] for
        any labels) or False (the range is [0, 2]).
    pos_val
        The positive label. It matters only for predictions that are single numbers, which are
        probabilities of this label.

    References
    ----------
    .. [1] Brier, G. W. (1950). Verification of forecasts expressed in terms of probability.
       Monthly Weather Review 78, 1-3.

    Examples
    --------
    >>> from streamcal.metrics import BrierScore
    >>> metric = BrierScore()
    >>> for y_true, y_pred in [(False, 0.1), (True, 0.9), (True, 0.8), (False, 0.3)]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    BrierScore: 0.0375

    With three labels the score is the whole sum:

    >>> metric = BrierScore()
    >>> metric.update("eggs", {"eggs": 0.8, "ham": 0.1, "spam": 0.1})
    >>> metric.update("ham", {"eggs": 0.2, "ham": 0.7, "spam": 0.1})
    >>> metric.update("spam", {"eggs": 0.2, "ham": 0.2, "spam": 0.6})
    >>> metric
    BrierScore: 0.146667
    """

    def __init__(self, scale_by_half: Literal["auto"] | bool = "auto", pos_val: Any = True) -> None:
        if not (scale_by_half == "auto" or isinstance(scale_by_half, bool)):
            raise ValueError(f"`scale_by_half` must be 'auto' or a bool, got {scale_by_half!r}")
        self.scale_by_half = scale_by_half
        self.pos_val = pos_val
        self._n_samples = 0
        self._sum = ExactSum()
        self._weight = ExactSum()
        self._labels: Counter[Hashable] = Counter()

    def get(self) -> float:
        """Return the weighted mean score, 0 before the first update."""
        if not self._n_samples:
            return 0.0
        halved = len(self._labels) < 3 if self.scale_by_half == "auto" else self.scale_by_half
        return self._sum.value / self._weight.value * (0.5 if halved else 1.0)

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        score, labels = self._score(y_true, y_pred)
        counts = self._labels.copy()
        counts.update(labels)
        self._set(1, w, score, counts)

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        score, labels = self._score(y_true, y_pred)
        if not self._n_samples or any(not self._labels[label] for label in labels):
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        counts = self._labels.copy()
        counts.subtract(labels)
        self._set(-1, -w, score, +counts)

    def _set(self, sign: int, w: float, score: float, labels: Counter[Hashable]) -> None:
        """Count a sample; all is computed first, so that an exception leaves all as it was."""
        total, weight = self._sum.plus(w * score), self._weight.plus(w)
        self._n_samples += sign
        self._sum, self._weight, self._labels = total, weight, labels

    def _score(self, y_true: Any, y_pred: Any) -> tuple[float, list[Hashable]]:
        """Return the sum over labels, and the labels if the prediction names them."""
        if not isinstance(y_pred, dict):
            p, happened = as_event(y_true, y_pred, self.pos_val)
            return 2.0 * (p - happened) ** 2, []
        labels: list[Hashable] = list(y_pred)
        score = 0.0
        for label, value in y_pred.items():
            score += (as_probability(value, "y_pred") - bool(label == y_true)) ** 2
        if y_true not in y_pred:
            labels.append(y_true)
            score += 1.0
        return score, labels
