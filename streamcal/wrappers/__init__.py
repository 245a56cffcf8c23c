"""River models with calibrated probabilities or predictions.

A wrapper takes its model's prediction before the model learns the sample, and teaches a calibrator
this prediction with the label. So the calibrator learns only from predictions for unseen samples,
the same kind of predictions that it calibrates later.
"""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
