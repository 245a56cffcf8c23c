r"""
2. Read a reliability diagram
=============================

A reliability diagram shows the observed frequency of positives against the predicted probability.
This notebook draws one for a model that is too confident, and reads the curve, the band and the
three numbers in its table.
"""

import numpy as np

import streamcal
from streamcal.plot import ReliabilityDisplay

rng = np.random.default_rng(0)
true = rng.beta(2, 2, 3_000)
labels = rng.random(3_000) < true
odds = (true / (1 - true)) ** 2  # twice the log odds: too confident
predicted = odds / (1 + odds)

# %%
# The curve
# ---------
#
# There are no bins to choose: the curve is the isotonic regression of the labels on the
# predictions. Below 0.5 it lies above the diagonal: positives are more frequent than predicted.
# Above 0.5 it lies below. That is the S shape of a model that is too confident. The band around the
# diagonal shows where the curve of a calibrated model would lie. The histogram at the bottom shows
# how many samples there are.

display = ReliabilityDisplay.from_predictions(labels, predicted)

# %%
# The numbers
# -----------
#
# The mean score has three parts:
#
# .. math:: \text{score} = \mathrm{MCB} - \mathrm{DSC} + \mathrm{UNC}
#
# * MCB, *miscalibration*: what the best recalibration would save. A calibrator can remove it.
# * DSC, *discrimination*: what the model gains over the mean label. No calibrator can improve it.
# * UNC, *uncertainty*: the score of the mean label. It depends on the labels only.

metric = streamcal.metrics.CORP("log")
for label, p in zip(labels.tolist(), predicted.tolist(), strict=True):
    metric.update(label, p)
print(f"log loss {metric.mean_score:.4f} = {metric.mcb:.4f} - {metric.dsc:.4f} + {metric.unc:.4f}")

# %%
# After calibration
# -----------------
#
# The same stream, each prediction calibrated from the labels before it. The curve is near the
# diagonal, MCB is small, and DSC is nearly the same.

calibrated = streamcal.HedgedCalibrator().predict_learn_many(predicted, labels)
models = {"raw": (labels, predicted), "calibrated": (labels, calibrated)}
both = ReliabilityDisplay.from_models(models, scoring="log")
