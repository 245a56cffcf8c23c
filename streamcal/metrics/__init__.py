"""River metrics of probabilities (accuracy, calibration, sharpness) and of ordinal labels."""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
