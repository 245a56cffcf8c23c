"""Pictures of calibration and of decisions; matplotlib is imported when one is drawn."""

from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay
from streamcal.plot.utility import UtilityCurveDisplay

__all__ = ["ReliabilityCurve", "ReliabilityDisplay", "UtilityCurveDisplay"]
