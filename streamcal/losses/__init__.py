"""Loss functions of calibrated values, and of ordinal labels.

A `Loss` is a small immutable object with a value l(z, y), the ranges of z and y and, for a
`MeanLoss`, the statistic and the link that reduce a block of samples to two sums. Losses are given
by name (see `get`) or as objects. For other convex losses `derivative` computes the derivative with
JAX, which is imported only then.

A `TaskLoss` is the cost of predicting one ordinal label when another is true. The names of these
classes end in "Error" (`AbsoluteError`, `SquaredError`); `get_task` returns one by name.

>>> from streamcal import losses
>>> float(losses.get("log")(0.8, 1))
0.2231
"""

from streamcal._lazy import attach

# The unions of names are for type checkers.
__getattr__, __dir__, __all__ = attach(
    __name__, unlisted=("LossName", "MeanLossName", "TaskLossName")
)
