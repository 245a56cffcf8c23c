"""Calibrators: scores in, calibrated values out, one sample at a time.

Each name loads its module when it is first touched: `isotonic_fit` needs neither river nor JAX.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcal.calibration.anytime import (
        AnytimeStaircase,
        anytime_isotonic,
        anytime_isotonic_refinements,
    )
    from streamcal.calibration.anytime_calibrator import AnytimeCalibrator
    from streamcal.calibration.base import Calibrator
    from streamcal.calibration.beta import BetaCalibrator
    from streamcal.calibration.hedged import HedgedCalibrator, Ticket
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
    "Ticket",
    "TopLabelCalibrator",
    "anytime_isotonic",
    "anytime_isotonic_refinements",
    "isotonic_fit",
    "isotonic_fit_sharded",
]

_HOME = {
    "AnytimeCalibrator": "anytime_calibrator",
    "AnytimeStaircase": "anytime",
    "BetaCalibrator": "beta",
    "Calibrator": "base",
    "HedgedCalibrator": "hedged",
    "HistogramCalibrator": "histogram",
    "IdentityCalibrator": "identity",
    "IsotonicCalibrator": "isotonic",
    "JointCalibrator": "joint",
    "PAVStack": "stack",
    "PlattCalibrator": "platt",
    "Staircase": "staircase",
    "TemperatureCalibrator": "temperature",
    "Ticket": "hedged",
    "TopLabelCalibrator": "top_label",
    "anytime_isotonic": "anytime",
    "anytime_isotonic_refinements": "anytime",
    "isotonic_fit": "staircase",
    "isotonic_fit_sharded": "sharded",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
