"""Pictures of calibration; matplotlib is imported when one is drawn."""

from streamcal.plot.reliability import ReliabilityCurve, ReliabilityDisplay

__all__ = ["ReliabilityCurve", "ReliabilityDisplay"]
