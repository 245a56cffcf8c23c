"""Calibrators: scores in, calibrated values out, one sample at a time."""

from streamcal.calibration.anytime import (
    AnytimeStaircase,
    anytime_isotonic,
    anytime_isotonic_refinements,
)
from streamcal.calibration.anytime_calibrator import AnytimeCalibrator
from streamcal.calibration.base import Calibrator
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.identity import IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.stack import PAVStack
from streamcal.calibration.staircase import Staircase, isotonic_fit

__all__ = [
    "AnytimeCalibrator",
    "AnytimeStaircase",
    "Calibrator",
    "HedgedCalibrator",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "PAVStack",
    "PlattCalibrator",
    "Staircase",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "isotonic_fit",
]
