"""River metrics of predicted probabilities: how good, how calibrated, how sharp."""

from streamcal.metrics.brier import BrierScore
from streamcal.metrics.corp import CORP
from streamcal.metrics.ece import ECE

__all__ = ["CORP", "ECE", "BrierScore"]
