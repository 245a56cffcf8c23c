"""Calibrators map scores to calibrated values, one sample at a time.

Each name loads its module when it is first used.
"""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
