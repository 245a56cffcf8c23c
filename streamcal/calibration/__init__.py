"""Calibrators: scores in, calibrated values out, one sample at a time."""

from streamcal.calibration.anytime import (
    AnytimeStaircase,
    anytime_isotonic,
    anytime_isotonic_refinements,
)
from streamcal.calibration.anytime_calibrator import AnytimeCalibrator
from streamcal.calibration.base import Calibrator
from streamcal.calibration.beta import BetaCalibrator
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.histogram import HistogramCalibrator
from streamcal.calibration.identity import IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.joint import JointCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.sharded import isotonic_fit_sharded
from streamcal.calibration.stack import PAVStack
from streamcal.calibration.staircase import Staircase, isotonic_fit
from streamcal.calibration.temperature import TemperatureCalibrator
from streamcal.calibration.top_label import TopLabelCalibrator

__all__ = [
    "AnytimeCalibrator",
    "AnytimeStaircase",
    "BetaCalibrator",
    "Calibrator",
    "HedgedCalibrator",
    "HistogramCalibrator",
    "IdentityCalibrator",
    "IsotonicCalibrator",
    "JointCalibrator",
    "PAVStack",
    "PlattCalibrator",
    "Staircase",
    "TemperatureCalibrator",
    "TopLabelCalibrator",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "isotonic_fit",
    "isotonic_fit_sharded",
]
