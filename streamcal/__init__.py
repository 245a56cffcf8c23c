"""Online calibration of model scores: exact, per sample, for river pipelines.

The names a user types live here. Each loads its module when it is first touched, so that
``import streamcal`` costs next to nothing beyond river's own import.

>>> import streamcal
>>> calibrator = streamcal.IsotonicCalibrator(loss="squared")
>>> for score, label in [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0)]:
...     calibrator.learn_one(score, label)
>>> calibrator.predict_one(0.65)
0.5
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcal import decision, engine, losses, metrics, ordinal, plot, store, voting
    from streamcal.calibration import (
        AnytimeCalibrator,
        AnytimeStaircase,
        BetaCalibrator,
        Calibrator,
        HedgedCalibrator,
        HistogramCalibrator,
        IdentityCalibrator,
        IsotonicCalibrator,
        JointCalibrator,
        PAVStack,
        PlattCalibrator,
        Staircase,
        TemperatureCalibrator,
        Ticket,
        TopLabelCalibrator,
        anytime_isotonic,
        anytime_isotonic_refinements,
        isotonic_fit,
        isotonic_fit_sharded,
    )
    from streamcal.decision import DecisionClassifier, EUMThreshold, maximize
    from streamcal.keyed import KeyedCalibrator
    from streamcal.ordinal import (
        StreamingThresholds,
        ThresholdClassifier,
        Thresholds,
        optimal_thresholds,
    )
    from streamcal.voting import VoteClassifier
    from streamcal.wrappers import CalibratedClassifier, CalibratedRegressor, Served

__version__ = "0.1.0"

__all__ = [
    "AnytimeCalibrator",
    "AnytimeStaircase",
    "BetaCalibrator",
    "CalibratedClassifier",
    "CalibratedRegressor",
    "Calibrator",
    "DecisionClassifier",
    "EUMThreshold",
    "HedgedCalibrator",
    "HistogramCalibrator",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "JointCalibrator",
    "KeyedCalibrator",
    "PAVStack",
    "PlattCalibrator",
    "Served",
    "Staircase",
    "StreamingThresholds",
    "TemperatureCalibrator",
    "ThresholdClassifier",
    "Thresholds",
    "Ticket",
    "TopLabelCalibrator",
    "VoteClassifier",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "decision",
    "engine",
    "isotonic_fit",
    "isotonic_fit_sharded",
    "losses",
    "maximize",
    "metrics",
    "optimal_thresholds",
    "ordinal",
    "plot",
    "store",
    "voting",
]

_HOME = {
    "AnytimeCalibrator": "streamcal.calibration.anytime_calibrator",
    "AnytimeStaircase": "streamcal.calibration.anytime",
    "BetaCalibrator": "streamcal.calibration.beta",
    "CalibratedClassifier": "streamcal.wrappers.classifier",
    "CalibratedRegressor": "streamcal.wrappers.regressor",
    "Calibrator": "streamcal.calibration.base",
    "DecisionClassifier": "streamcal.decision.classifier",
    "EUMThreshold": "streamcal.decision.eum",
    "HedgedCalibrator": "streamcal.calibration.hedged",
    "HistogramCalibrator": "streamcal.calibration.histogram",
    "IdentityCalibrator": "streamcal.calibration.identity",
    "IsotonicCalibrator": "streamcal.calibration.isotonic",
    "JointCalibrator": "streamcal.calibration.joint",
    "KeyedCalibrator": "streamcal.keyed",
    "PAVStack": "streamcal.calibration.stack",
    "PlattCalibrator": "streamcal.calibration.platt",
    "Served": "streamcal.wrappers.served",
    "Staircase": "streamcal.calibration.staircase",
    "StreamingThresholds": "streamcal.ordinal.streaming",
    "TemperatureCalibrator": "streamcal.calibration.temperature",
    "ThresholdClassifier": "streamcal.ordinal.classifier",
    "Thresholds": "streamcal.ordinal.thresholds",
    "Ticket": "streamcal.calibration.hedged",
    "TopLabelCalibrator": "streamcal.calibration.top_label",
    "VoteClassifier": "streamcal.voting.classifier",
    "anytime_isotonic": "streamcal.calibration.anytime",
    "anytime_isotonic_refinements": "streamcal.calibration.anytime",
    "isotonic_fit": "streamcal.calibration.staircase",
    "isotonic_fit_sharded": "streamcal.calibration.sharded",
    "maximize": "streamcal.decision.maximize",
    "optimal_thresholds": "streamcal.ordinal.thresholds",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in __all__:
        value = import_module(f"streamcal.{name}")
    else:
        raise AttributeError(f"module 'streamcal' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
