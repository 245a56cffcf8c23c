"""Online calibration of model scores: exact, per sample, for river pipelines.

The names a user types live here. Each loads its module when it is first touched, so that
``import streamcal`` costs next to nothing beyond river's own import.

>>> import streamcal
>>> calibrator = streamcal.IsotonicCalibrator(loss="squared")
>>> for score, label in [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0)]:
...     calibrator.learn_one(score, label)
>>> calibrator.predict_one(0.65)
0.5
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcal import losses, metrics, ordinal, plot
    from streamcal.calibration import (
        Calibrator,
        IsotonicCalibrator,
        PAVStack,
        PlattCalibrator,
        Staircase,
        isotonic_fit,
    )
    from streamcal.wrappers import CalibratedClassifier

__version__ = "0.1.0"

__all__ = [
    "CalibratedClassifier",
    "Calibrator",
    "IsotonicCalibrator",
    "PAVStack",
    "PlattCalibrator",
    "Staircase",
    "isotonic_fit",
    "losses",
    "metrics",
    "ordinal",
    "plot",
]

_HOME = {
    "CalibratedClassifier": "streamcal.wrappers",
    "Calibrator": "streamcal.calibration.base",
    "IsotonicCalibrator": "streamcal.calibration.isotonic",
    "PAVStack": "streamcal.calibration.stack",
    "PlattCalibrator": "streamcal.calibration.platt",
    "Staircase": "streamcal.calibration.staircase",
    "isotonic_fit": "streamcal.calibration.staircase",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in __all__:
        value = import_module(f"streamcal.{name}")
    else:
        raise AttributeError(f"module 'streamcal' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
