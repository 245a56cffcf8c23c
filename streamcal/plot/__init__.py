"""Pictures of calibration and of thresholds; matplotlib is imported when one is drawn."""

from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay
from streamcal.plot.thresholds import ThresholdDisplay

__all__ = ["ReliabilityCurve", "ReliabilityDisplay", "ThresholdDisplay"]
