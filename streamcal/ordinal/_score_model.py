"""What a score means: the label that thresholds give it, and the probability of each label."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, check_alike, nest, require, state_of
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.losses import TaskLoss
from streamcal.ordinal.streaming import StreamingThresholds


class ScoreModel:
    """Thresholds, and an isotonic calibrator for each boundary, learned from recorded scores.

    The thresholds decide the label. The calibrator of boundary k, which separates the ranks up to
    k from those above, learns whether the rank is above k. Ranks count from 0.

    Parameters
    ----------
    n_labels, loss, window
        As in `StreamingThresholds`.

    Examples
    --------
    >>> model = ScoreModel(3, "absolute", window=100)
    >>> for score, rank in [(0.1, 0), (0.4, 1), (0.5, 1), (0.9, 2)] * 12:
    ...     model.learn_one(score, rank, 1.0)
    >>> model.predict_one(0.8), [round(p, 1) for p in model.predict_proba_one(0.8)]
    (2, [0.0, 0.3, 0.7])
    """

    def __init__(self, n_labels: int, loss: str | TaskLoss, window: int) -> None:
        self.thresholds = StreamingThresholds(n_labels, loss, window=window)
        self.calibrators = [IsotonicCalibrator(window=window) for _ in range(n_labels - 1)]

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.thresholds.n_labels

    def learn_one(self, score: float, rank: int, w: float) -> None:
        """Learn the score that a sample had before it was learned."""
        self.thresholds.learn_one(score, rank + 1, w)
        for k, calibrator in enumerate(self.calibrators):
            calibrator.learn_one(score, rank > k, w)

    def learn_many(
        self, scores: NDArray[np.float64], ranks: NDArray[np.int64], w: NDArray[np.float64]
    ) -> None:
        """Learn recorded scores in order."""
        self.thresholds.learn_many(scores, ranks + 1, w)
        for k, calibrator in enumerate(self.calibrators):
            calibrator.learn_many(scores, ranks > k, w)

    def predict_one(self, score: float) -> int:
        """Return the rank of least task loss."""
        label = self.thresholds.predict_one(score)
        assert label is not None  # something has been learned
        return label - 1

    def predict_proba_one(self, score: float) -> list[float]:
        """Return the probability of each rank: differences of the calibrated P(y > k | score)."""
        probabilities = []
        above = 1.0  # the probability of this rank and all higher ones
        for calibrator in self.calibrators:
            beyond = min(calibrator.predict_one(score), above)
            probabilities.append(above - beyond)
            above = beyond
        return [*probabilities, above]

    def freeze(self) -> Arrays:
        """Return the state as arrays, for `thaw`."""
        states: dict[str, Any] = {"thresholds": self.thresholds}
        states |= {f"staircase {k}": each for k, each in enumerate(self.calibrators)}
        return {name: nest(learner.to_bytes()) for name, learner in states.items()}

    @classmethod
    def thaw(cls, arrays: Arrays, n_labels: int, loss: str | TaskLoss, window: int) -> Self | None:
        """Return the model in a state, None without any; raise unless it has these parameters."""
        if "thresholds" not in arrays:
            return None
        thresholds = StreamingThresholds.from_bytes(state_of(arrays, "thresholds"))
        require(thresholds.n_labels == n_labels, "thresholds must fit labels")
        states = (state_of(arrays, f"staircase {k}") for k in range(n_labels - 1))
        calibrators = [IsotonicCalibrator.from_bytes(state) for state in states]
        model = cls(n_labels, loss, window)
        check_alike([thresholds, *calibrators], [model.thresholds, *model.calibrators])
        held = [thresholds.n_samples, *(each.n_samples for each in calibrators)]
        require(min(held) > 0, "thresholds must rest on samples")
        model.thresholds, model.calibrators = thresholds, calibrators
        return model
