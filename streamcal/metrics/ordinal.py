"""Metrics of ordinal labels, which depend on the distance of the predicted from the true label.

Labels are ints, whose differences are distances, or any labels whose order is given. All metrics
hold a few exact sums, so memory does not grow and `revert` leaves no rounding errors.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from river.metrics.base import ClassificationMetric

from streamcal._state.clone import Cloned
from streamcal._validation import as_probability, as_weight
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.base import ProbabilityMetric


class OrdinalMetric(Cloned, ClassificationMetric):
    """A river classification metric of ordinal labels.

    A prediction of None (which an untrained river model returns) is not scored.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.
    """

    _fmt = ".6f"

    def __init__(self, labels: Sequence[Hashable] | None = None) -> None:
        self.labels = labels
        self._ranks = check_labels(labels)
        self._sums: dict[Any, tuple[int, list[ExactSum]]] = {}

    @property
    def bigger_is_better(self) -> bool:
        """False: this measures how wrong predictions are."""
        return False

    def works_with(self, model: Any) -> bool:
        """Whether the model is a classifier."""
        return bool(ClassificationMetric.works_with(self, model))

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add a prediction.

        Raises
        ------
        ValueError
            If a label is not one of ``labels``, or `w` not positive; nothing changes.
        TypeError
            If a label is not an int although no ``labels`` are given.
        """
        self._add(y_true, y_pred, as_weight(w), 1)

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Remove a prediction that was added with the same arguments.

        Raises
        ------
        ValueError
            As `update` does, and if the prediction has not been added.
        """
        self._add(y_true, y_pred, as_weight(w), -1)

    def _add(self, y_true: Any, y_pred: Any, w: float, sign: int) -> None:
        if y_pred is None:
            return
        truth, answer = self._rank(y_true, "y_true"), self._rank(y_pred, "y_pred")
        key, terms = self._terms(truth, answer)
        held = self._sums.get(key)
        if sign < 0 and held is None:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        count, sums = held or (0, [ExactSum()] * (1 + len(terms)))
        added = zip(sums, (1.0, *terms), strict=True)
        changed = count + sign, [total.plus(sign * w * term) for total, term in added]
        if changed[0]:
            self._sums[key] = changed
        else:
            del self._sums[key]

    def _totals(self) -> list[list[float]]:
        """Return the weight and the sums of each group of samples."""
        return [[total.value for total in sums] for _, sums in self._sums.values()]

    def _rank(self, label: Any, name: str) -> int:
        if self._ranks is not None:
            if label not in self._ranks:
                raise ValueError(f"`{name}` must be one of {list(self._ranks)}, got {label!r}")
            return self._ranks[label]
        if not isinstance(label, int | np.integer | np.bool_):
            raise TypeError(f"`{name}` must be an int where `labels` is None, got {label!r}")
        return int(label)

    @abstractmethod
    def _terms(self, truth: int, answer: int) -> tuple[Any, tuple[float, ...]]:
        """Return the group of a sample, and the terms that it adds to the sums of the group."""

    @abstractmethod
    def get(self) -> float:
        """Return the value, 0 before the first update."""


class _MeanMetric(OrdinalMetric):
    """The weighted mean of a cost of the true and the predicted label."""

    def _terms(self, truth: int, answer: int) -> tuple[Any, tuple[float, ...]]:
        return None, (self._cost(abs(truth - answer)),)

    @abstractmethod
    def _cost(self, distance: int) -> float: ...

    def get(self) -> float:
        """Return the mean, 0 before the first update."""
        if not self._sums:
            return 0.0
        ((weight, total),) = self._totals()
        return total / weight


class MAE(_MeanMetric):
    """Mean absolute error of ordinal labels, in ranks; smaller is better.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.

    Raises
    ------
    ValueError
        If there are fewer than two labels, or one occurs twice.

    Examples
    --------
    >>> metric = MAE(labels=("cold", "warm", "hot"))
    >>> metric.update("cold", "hot")
    >>> metric.update("warm", "warm")
    >>> metric
    MAE: 1.000000
    """

    def _cost(self, distance: int) -> float:
        return distance


class MZE(_MeanMetric):
    """Mean zero-one error, the rate of wrong predictions; smaller is better.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.

    Examples
    --------
    >>> metric = MZE()
    >>> for y_true, y_pred in [(1, 3), (2, 2), (3, 3), (3, 2)]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    MZE: 0.500000
    """

    def _cost(self, distance: int) -> float:
        return float(distance != 0)


class OneOffAccuracy(_MeanMetric):
    """The share of predictions that are right or one rank off; bigger is better.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.

    Examples
    --------
    >>> metric = OneOffAccuracy()
    >>> for y_true, y_pred in [(1, 3), (2, 2), (3, 3), (3, 2)]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    OneOffAccuracy: 0.750000
    """

    @property
    def bigger_is_better(self) -> bool:
        """True."""
        return True

    def _cost(self, distance: int) -> float:
        return float(distance <= 1)


class MacroMAE(OrdinalMetric):
    """Macro-averaged mean absolute error: the mean over true labels of the MAE of each [1]_.

    A rare label counts as much as a frequent one. Smaller is better.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.

    References
    ----------
    .. [1] Baccianella, Esuli & Sebastiani (2009). Evaluation measures for ordinal regression. ISDA.

    Examples
    --------
    >>> metric = MacroMAE()
    >>> for y_true, y_pred in [(1, 1), (1, 1), (1, 1), (3, 1)]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    MacroMAE: 1.000000
    """

    def _terms(self, truth: int, answer: int) -> tuple[Any, tuple[float, ...]]:
        return truth, (abs(truth - answer),)

    def get(self) -> float:
        """Return the mean over the true labels that occur, 0 before the first update."""
        if not self._sums:
            return 0.0
        return float(np.mean([total / weight for weight, total in self._totals()]))


class QuadraticKappa(OrdinalMetric):
    """Quadratic weighted kappa: agreement beyond chance, with squared distances; at most 1.

    1 − Σ w (y − h)² / Σ_ij (i − j)² n_i m_j / n, with the weights n_i of true and m_j of predicted
    labels. If only one label occurs in both, which is 0/0, it is 0, as river's kappa is.

    Parameters
    ----------
    labels
        The labels in their order. None means ints, whose values are their ranks.

    References
    ----------
    Cohen (1968). Weighted kappa: nominal scale agreement provision for scaled disagreement or
    partial credit. Psychological Bulletin 70.

    Examples
    --------
    >>> metric = QuadraticKappa()
    >>> for y_true, y_pred in [(1, 1), (2, 3), (3, 3), (1, 2)]:
    ...     metric.update(y_true, y_pred)
    >>> metric
    QuadraticKappa: 0.692308
    """

    @property
    def bigger_is_better(self) -> bool:
        """True."""
        return True

    def _terms(self, truth: int, answer: int) -> tuple[Any, tuple[float, ...]]:
        return None, (truth, answer, truth**2 + answer**2, (truth - answer) ** 2)

    def get(self) -> float:
        """Return kappa, 0 before the first update."""
        if not self._sums:
            return 0.0
        ((weight, truth, answer, squares, error),) = self._totals()
        by_chance = squares - 2.0 * truth * (answer / weight)
        if not by_chance > 1e-12 * squares:
            return 0.0
        return max(1.0 - error / by_chance, -1.0)


class RankedProbabilityScore(ProbabilityMetric):
    """Ranked probability score: Σ_k (P(y ≤ k) − 1[y ≤ k])², the mean over samples.

    The Brier score of cumulative probabilities, summed over the boundaries between labels:
    probability far from the true label costs more than near it. Smaller is better, 0 is perfect.

    Parameters
    ----------
    labels
        The labels in their order. None means the natural order of the labels of a prediction and
        the true label; other labels add no boundaries then.

    References
    ----------
    Epstein (1969). A scoring system for probability forecasts of ranked categories. Journal of
    Applied Meteorology 8. Not divided by the number of boundaries.

    Examples
    --------
    >>> metric = RankedProbabilityScore()
    >>> metric.update(1, {1: 0.5, 2: 0.3, 3: 0.2})
    >>> metric
    RankedProbabilityScore: 0.290000
    """

    def __init__(self, labels: Sequence[Hashable] | None = None) -> None:
        self.labels = labels
        self._ranks = check_labels(labels)
        self._n_samples = 0
        self._sum = ExactSum()
        self._weight = ExactSum()

    def get(self) -> float:
        """Return the weighted mean score, 0 before the first update."""
        return self._sum.value / self._weight.value if self._n_samples else 0.0

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        self._set(1, w, self._score(y_true, y_pred))

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        score = self._score(y_true, y_pred)
        if not self._n_samples:
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        self._set(-1, -w, score)

    def _set(self, sign: int, w: float, score: float) -> None:
        """Count a sample; all is computed first, so that an exception leaves all as it was."""
        total, weight = self._sum.plus(w * score), self._weight.plus(w)
        self._n_samples += sign
        self._sum, self._weight = total, weight

    def _score(self, y_true: Any, y_pred: Any) -> float:
        if not isinstance(y_pred, dict):
            raise TypeError(f"`y_pred` must map labels to probabilities, got {y_pred!r}")
        if self._ranks is None:
            order = sorted({*y_pred, y_true})
        else:
            order = list(self._ranks)
            for name, label in (("y_true", y_true), *(("y_pred", label) for label in y_pred)):
                if label not in self._ranks:
                    raise ValueError(f"`{name}` must be one of {order}, got {label!r}")
        score, cumulative, happened = 0.0, 0.0, False
        for label in order[:-1]:
            cumulative += as_probability(y_pred.get(label, 0.0), "y_pred")
            happened = happened or label == y_true
            score += (cumulative - happened) ** 2
        return score


def check_labels(labels: Sequence[Hashable] | None) -> dict[Hashable, int] | None:
    """Return the rank of each label, or raise unless they are two or more different ones.

    Examples
    --------
    >>> check_labels(("low", "high"))
    {'low': 0, 'high': 1}
    """
    if labels is None:
        return None
    if isinstance(labels, str):
        raise TypeError(f"`labels` must be a sequence of labels, got {labels!r}")
    ranks = {label: rank for rank, label in enumerate(labels)}
    if len(ranks) < 2 or len(ranks) < len(labels):
        raise ValueError(f"`labels` must be two or more different labels, got {labels!r}")
    return ranks
