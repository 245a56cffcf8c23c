"""Decisions that maximise a metric, from calibrated probabilities."""

from typing import TYPE_CHECKING

from streamcal._lazy import attach
from streamcal.decision.goals import (
    AM,
    GTPPR,
    MCC,
    METRIC_NAMES,
    SEC,
    Accuracy,
    FBeta,
    FractionalLinear,
    GMean,
    HMean,
    Jaccard,
    Kappa,
    QMean,
    Tversky,
    get_metric,
)
from streamcal.decision.maximize import (
    METHODS,
    Counts,
    Decision,
    expected_utility,
    maximize,
    utility_curve,
)
from streamcal.decision.metric import Metric

if TYPE_CHECKING:
    from streamcal.decision.classifier import DecisionClassifier, claim_gap
    from streamcal.decision.eum import EUMThreshold, ThresholdCurve
    from streamcal.decision.stream import MicroBatcher, Released, evaluate

__all__ = [
    "AM",
    "GTPPR",
    "MCC",
    "METHODS",
    "METRIC_NAMES",
    "SEC",
    "Accuracy",
    "Counts",
    "Decision",
    "DecisionClassifier",
    "EUMThreshold",
    "FBeta",
    "FractionalLinear",
    "GMean",
    "HMean",
    "Jaccard",
    "Kappa",
    "Metric",
    "MicroBatcher",
    "QMean",
    "Released",
    "ThresholdCurve",
    "Tversky",
    "claim_gap",
    "evaluate",
    "expected_utility",
    "get_metric",
    "maximize",
    "utility_curve",
]

# Modules that import river are loaded at the first access.
_HOME = {
    "DecisionClassifier": "classifier",
    "EUMThreshold": "eum",
    "MicroBatcher": "stream",
    "Released": "stream",
    "ThresholdCurve": "eum",
    "claim_gap": "classifier",
    "evaluate": "stream",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
