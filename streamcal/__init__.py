"""Online probability calibration for river and data streams.

The names a user types live here. Each loads its module when it is first touched, so that
``import streamcal`` costs next to nothing beyond river's own import.

>>> import streamcal
>>> calibrator = streamcal.IsotonicCalibrator(loss="squared")
>>> for score, label in [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0)]:
...     calibrator.learn_one(score, label)
>>> calibrator.predict_one(0.65)
0.5
"""

from streamcal._lazy import attach

__version__ = "0.1.0"

# The first four hold names that are listed, or serve the command line; the others need extras.
__getattr__, __dir__, __all__ = attach(
    __name__, unlisted=("calibration", "isotonic", "wrappers", "sklearn", "spark")
)
