"""Ordinal labels: classes in an order, where a near miss costs less than a far one.

There are two families. Thresholds cut a one-dimensional score from any source into labels, at the
least task loss (`optimal_thresholds`, `StreamingThresholds`, `ThresholdClassifier`). Learners learn
ranks from features, sample by sample (`CuSumRank` and related classes), or as the last layer of a
network (`cusum_layer`).

Each name loads its module at the first access; the functions of
`cusum_layer` alone load JAX.
"""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
