"""Calibrators: scores in, calibrated values out, one sample at a time."""

from streamcal.calibration.base import Calibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.stack import PAVStack
from streamcal.calibration.staircase import Staircase, isotonic_fit

__all__ = [
    "Calibrator",
    "IsotonicCalibrator",
    "PAVStack",
    "PlattCalibrator",
    "Staircase",
    "isotonic_fit",
]
