r"""
6. Ordinal labels
=================

Stars, grades and severities are labels in an order: a near miss costs less than a large error. This
notebook cuts a score into such labels, first for a batch and then on a stream that changes.
"""

import numpy as np

import streamcal
from streamcal.plot import ThresholdDisplay

rng = np.random.default_rng(3)
labels = rng.choice([1, 2, 3, 4], 2_000, p=[0.5, 0.25, 0.2, 0.05])
scores = labels + rng.normal(0, 0.8, 2_000)

# %%
# The best thresholds
# -------------------
#
# Rounding the score is not the best rule if some labels are rare. For thresholds :math:`t_1 \le
# \cdots \le t_{K-1}` the predicted label is
#
# .. math:: \hat y(s) = 1 + \sum_{k=1}^{K-1} [s \ge t_k]
#
# and :func:`streamcal.optimal_thresholds` finds those with the least total loss :math:`\sum_i
# \ell(\hat y(s_i), y_i)`, exactly.

found = streamcal.optimal_thresholds(scores, labels)
rounded = np.clip(np.rint(scores), 1, 4)
print("thresholds:", found.thresholds.round(2))
for name, predicted in (("rounded", rounded), ("these thresholds", found(scores))):
    print(f"mean absolute error, {name}: {np.abs(predicted - labels).mean():.3f}")

# %%
display = ThresholdDisplay.from_predictions(scores, labels, found)

# %%
# Another cost
# ------------
#
# If missing a severe case is five times as bad as a false alarm, the thresholds move down.

cautious = streamcal.losses.AsymmetricError(under=5, over=1)
print(streamcal.optimal_thresholds(scores, labels, loss=cautious).thresholds.round(2))

# %%
# A stream
# --------
#
# After half of this stream, all scores are 1 higher. Thresholds over the last 500 samples follow,
# and are exact for these samples after each of them.

drifting = scores + np.where(np.arange(2_000) < 1_000, 0.0, 1.0)
stream = streamcal.StreamingThresholds(4, window=500)
for i, (score, label) in enumerate(zip(drifting.tolist(), labels.tolist(), strict=True)):
    stream.learn_one(score, label)
    if i in (999, 1_249, 1_999):
        print(f"after {i + 1} samples:", np.round(stream.thresholds, 2))
