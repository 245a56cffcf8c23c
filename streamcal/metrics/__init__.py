"""River metrics of probabilities (accuracy, calibration, sharpness) and of ordinal labels."""

from streamcal.metrics.bands import Band
from streamcal.metrics.brier import BrierScore
from streamcal.metrics.corp import CORP
from streamcal.metrics.ece import ECE
from streamcal.metrics.multicalibration import (
    Multicalibration,
    MulticalibrationError,
    SegmentError,
    multicalibration_error,
)
from streamcal.metrics.ordinal import (
    MAE,
    MZE,
    MacroMAE,
    OneOffAccuracy,
    QuadraticKappa,
    RankedProbabilityScore,
)
from streamcal.metrics.rolling_corp import RollingCORP
from streamcal.metrics.smooth_ece import SmoothECE, smooth_ece
from streamcal.metrics.spiegelhalter import SpiegelhalterZ

__all__ = [
    "CORP",
    "ECE",
    "MAE",
    "MZE",
    "Band",
    "BrierScore",
    "MacroMAE",
    "Multicalibration",
    "MulticalibrationError",
    "OneOffAccuracy",
    "QuadraticKappa",
    "RankedProbabilityScore",
    "RollingCORP",
    "SegmentError",
    "SmoothECE",
    "SpiegelhalterZ",
    "multicalibration_error",
    "smooth_ece",
]
