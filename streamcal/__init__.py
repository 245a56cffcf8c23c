"""Online probability calibration for river and data streams.

The names a user types live here. Each loads its module when it is first touched, so that
``import streamcal`` costs next to nothing beyond river's own import.

>>> import streamcal
>>> calibrator = streamcal.IsotonicCalibrator(loss="squared")
>>> for score, label in [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0)]:
...     calibrator.learn_one(score, label)
>>> calibrator.predict_one(0.65)
0.5
"""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    from streamcal import calibration as calibration
    from streamcal import decision, durable, losses, metrics, ordinal, plot, voting
    from streamcal import isotonic as isotonic
    from streamcal import sklearn as sklearn
    from streamcal import spark as spark
    from streamcal import tables as tables
    from streamcal import wrappers as wrappers
    from streamcal.calibration import (
        AnytimeCalibrator,
        BetaCalibrator,
        Calibrator,
        HedgedCalibrator,
        HistogramCalibrator,
        IdentityCalibrator,
        IsotonicCalibrator,
        JointCalibrator,
        PlattCalibrator,
        SegmentCalibrator,
        SegmentTicket,
        TemperatureCalibrator,
        Ticket,
        TopLabelCalibrator,
        VennAbersCalibrator,
        undo_sampling,
    )
    from streamcal.decision import DecisionClassifier, EUMThreshold, maximize
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.isotonic import (
        AnytimeStaircase,
        PAVStack,
        Staircase,
        anytime_isotonic,
        anytime_isotonic_refinements,
        isotonic_fit,
        isotonic_fit_sharded,
    )
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
    "SegmentCalibrator",
    "SegmentTicket",
    "Served",
    "Staircase",
    "StreamingThresholds",
    "TemperatureCalibrator",
    "ThresholdClassifier",
    "Thresholds",
    "Ticket",
    "TopLabelCalibrator",
    "VennAbersCalibrator",
    "VoteClassifier",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "decision",
    "durable",
    "isotonic_fit",
    "isotonic_fit_sharded",
    "losses",
    "maximize",
    "metrics",
    "optimal_thresholds",
    "ordinal",
    "plot",
    "undo_sampling",
    "voting",
]

# Type checkers need the imports above and a literal `__all__`. The module of each name stands here,
# so that no other module is loaded.
_HOME = {
    "AnytimeCalibrator": "streamcal.calibration.anytime",
    "AnytimeStaircase": "streamcal.isotonic.anytime.staircase",
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
    "KeyedCalibrator": "streamcal.durable.keyed",
    "PAVStack": "streamcal.isotonic.stack",
    "PlattCalibrator": "streamcal.calibration.platt",
    "SegmentCalibrator": "streamcal.calibration.segments",
    "SegmentTicket": "streamcal.calibration.segments",
    "Served": "streamcal.wrappers.served",
    "Staircase": "streamcal.isotonic.staircase",
    "StreamingThresholds": "streamcal.ordinal.streaming",
    "TemperatureCalibrator": "streamcal.calibration.temperature",
    "ThresholdClassifier": "streamcal.ordinal.classifier",
    "Thresholds": "streamcal.ordinal.thresholds",
    "Ticket": "streamcal.calibration.tickets",
    "TopLabelCalibrator": "streamcal.calibration.top_label",
    "VennAbersCalibrator": "streamcal.calibration.venn_abers",
    "VoteClassifier": "streamcal.voting.classifier",
    "anytime_isotonic": "streamcal.isotonic.anytime.fit",
    "anytime_isotonic_refinements": "streamcal.isotonic.anytime.fit",
    "isotonic_fit": "streamcal.isotonic.staircase",
    "isotonic_fit_sharded": "streamcal.isotonic.sharded",
    "maximize": "streamcal.decision.maximize",
    "optimal_thresholds": "streamcal.ordinal.thresholds",
    "undo_sampling": "streamcal.calibration.sampling",
}

# Not in `__all__`: the first four hold names that stand there, or serve the command line, and the
# others need extras.
_PARTS = ["calibration", "isotonic", "tables", "wrappers", "sklearn", "spark"]

__getattr__, __dir__ = attach(__name__, [*__all__, "__version__"], _HOME, _PARTS)
