"""River models with calibrated probabilities or predictions.

A wrapper asks its model for a prediction before the model learns the sample, and teaches a
calibrator this prediction with the label. So the calibrator learns from predictions for unseen
samples only, and these are what it is later asked to calibrate.
"""

from streamcal.wrappers.classifier import CalibratedClassifier
from streamcal.wrappers.regressor import CalibratedRegressor
from streamcal.wrappers.served import Served

__all__ = ["CalibratedClassifier", "CalibratedRegressor", "Served"]
