"""Calibrators of all probabilities of a sample at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from river.base.typing import ClfTarget

from streamcal._clone import Cloned
from streamcal._state import Stateful


class JointCalibrator(Stateful, Cloned, ABC):
    """An online map from the probabilities of all labels to calibrated ones.

    A `streamcal.Calibrator` knows one score; `streamcal.CalibratedClassifier` gives each label one
    of its own. A joint calibrator sees what the model says of all labels, which may come and go.
    """

    @abstractmethod
    def learn_one(self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float = 1.0) -> None:
        """Learn that the model's probabilities ``raw`` were followed by the label ``y``."""

    @abstractmethod
    def predict_one(self, raw: Mapping[ClfTarget, float]) -> dict[ClfTarget, float]:
        """Return calibrated probabilities under the same labels in the same order.

        They lie in [0, 1] and sum to 1; the state does not change.
        """
