"""Pictures of calibration, thresholds and decisions; matplotlib is imported when one is drawn."""

from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay
from streamcal.plot.thresholds import ThresholdDisplay
from streamcal.plot.utility import UtilityCurveDisplay

__all__ = ["ReliabilityCurve", "ReliabilityDisplay", "ThresholdDisplay", "UtilityCurveDisplay"]
