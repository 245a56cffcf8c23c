"""Pictures of calibration over time or not, hedges, thresholds and decisions; matplotlib on use."""

from streamcal.plot.miscalibration import MiscalibrationDisplay
from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay
from streamcal.plot.thresholds import ThresholdDisplay
from streamcal.plot.utility import UtilityCurveDisplay
from streamcal.plot.weights import HedgeWeightsDisplay

__all__ = [
    "HedgeWeightsDisplay",
    "MiscalibrationDisplay",
    "ReliabilityCurve",
    "ReliabilityDisplay",
    "ThresholdDisplay",
    "UtilityCurveDisplay",
]
