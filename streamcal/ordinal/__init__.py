"""Ordinal labels: classes in an order, where a near miss costs less than a far one.

There are two families. Thresholds cut a one-dimensional score from any source into labels, at the
least task loss (`optimal_thresholds`, `StreamingThresholds`, `ThresholdClassifier`). Learners learn
ranks from features, sample by sample (`CuSumRank` and related classes), or as the last layer of a
network (`cusum_layer`).

Each name loads its module at the first access; only `cusum_layer` loads JAX.
"""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    import streamcal.ordinal.cusum_layer as cusum_layer
    from streamcal.ordinal.classifier import ThresholdClassifier
    from streamcal.ordinal.cusum import CuSumRank, PACuSumRank, PRank, mistake_bound
    from streamcal.ordinal.fourier import RandomFourierFeatures
    from streamcal.ordinal.kernel_cusum import KernelCuSumRank
    from streamcal.ordinal.streaming import StreamingThresholds
    from streamcal.ordinal.thresholds import Thresholds, optimal_thresholds

__all__ = [
    "CuSumRank",
    "KernelCuSumRank",
    "PACuSumRank",
    "PRank",
    "RandomFourierFeatures",
    "StreamingThresholds",
    "ThresholdClassifier",
    "Thresholds",
    "cusum_layer",
    "mistake_bound",
    "optimal_thresholds",
]

_HOME = {
    "CuSumRank": "cusum",
    "KernelCuSumRank": "kernel_cusum",
    "PACuSumRank": "cusum",
    "PRank": "cusum",
    "RandomFourierFeatures": "fourier",
    "StreamingThresholds": "streaming",
    "ThresholdClassifier": "classifier",
    "Thresholds": "thresholds",
    "mistake_bound": "cusum",
    "optimal_thresholds": "thresholds",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
