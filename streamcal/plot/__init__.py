"""Pictures of calibration, hedges, thresholds and decisions; matplotlib loads when one is drawn."""

from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay
from streamcal.plot.thresholds import ThresholdDisplay
from streamcal.plot.utility import UtilityCurveDisplay
from streamcal.plot.weights import HedgeWeightsDisplay

__all__ = [
    "HedgeWeightsDisplay",
    "ReliabilityCurve",
    "ReliabilityDisplay",
    "ThresholdDisplay",
    "UtilityCurveDisplay",
]
