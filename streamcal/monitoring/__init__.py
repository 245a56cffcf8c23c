"""Tests of calibration that may be looked at after every sample."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
