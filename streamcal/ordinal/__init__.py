"""Ordinal labels: classes in an order, where a near miss costs less than a far one.

Two families. Thresholds cut a one-dimensional score, from anywhere, into labels at the least task
loss (`optimal_thresholds`, `StreamingThresholds`, `ThresholdClassifier`). Learners find the ranks
themselves, sample by sample (`CuSumRank` and its kin), or at the end of a network (`cusum_layer`).

Each name loads its module when it is first touched; JAX comes only with `cusum_layer`.
"""

from typing import TYPE_CHECKING

from streamcal._lazy import attach

if TYPE_CHECKING:
    import streamcal.ordinal.cusum_layer as cusum_layer
    from streamcal.ordinal.classifier import ThresholdClassifier
    from streamcal.ordinal.cusum import CuSumRank, PACuSumRank, PRank, mistake_bound
    from streamcal.ordinal.fourier import RandomFourierFeatures
    from streamcal.ordinal.jobs import close_jobs, combine, summarise
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
    "close_jobs",
    "combine",
    "cusum_layer",
    "mistake_bound",
    "optimal_thresholds",
    "summarise",
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
    "close_jobs": "jobs",
    "combine": "jobs",
    "mistake_bound": "cusum",
    "optimal_thresholds": "thresholds",
    "summarise": "jobs",
}

__getattr__, __dir__ = attach(__name__, __all__, _HOME)
