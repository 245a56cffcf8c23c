"""Decisions that maximise a metric, from calibrated probabilities."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
