"""Ordinal labels from a one-dimensional score: thresholds that minimise a task loss exactly."""

from streamcal.ordinal.classifier import ThresholdClassifier
from streamcal.ordinal.jobs import close_jobs, combine, summarise
from streamcal.ordinal.streaming import StreamingThresholds
from streamcal.ordinal.thresholds import Thresholds, optimal_thresholds

__all__ = [
    "StreamingThresholds",
    "ThresholdClassifier",
    "Thresholds",
    "close_jobs",
    "combine",
    "optimal_thresholds",
    "summarise",
]
