"""Pictures of calibration, hedge weights, thresholds and decisions, with matplotlib."""

from streamcal.plot.miscalibration import MiscalibrationDisplay
from streamcal.plot.reliability import ReliabilityDisplay
from streamcal.plot.reliability_curve import MapCurve, ReliabilityCurve
from streamcal.plot.thresholds import ThresholdDisplay
from streamcal.plot.utility import UtilityCurveDisplay
from streamcal.plot.weights import HedgeWeightsDisplay

__all__ = [
    "HedgeWeightsDisplay",
    "MapCurve",
    "MiscalibrationDisplay",
    "ReliabilityCurve",
    "ReliabilityDisplay",
    "ThresholdDisplay",
    "UtilityCurveDisplay",
]
