"""River models with calibrated predictions.

A wrapper asks its model for a prediction before the model learns the sample, and teaches a calibrator
this prediction and the label. So the calibrator learns from predictions for unseen samples, and these
are the predictions that it will calibrate.
"""

from streamcal.wrappers.classifier import CalibratedClassifier, CalibratedRegressor, Served

__all__ = ["CalibratedClassifier", "CalibratedRegressor", "Served"]
