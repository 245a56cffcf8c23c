"""Pictures of calibration, hedge weights, thresholds and decisions, with matplotlib."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
