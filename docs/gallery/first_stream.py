r"""
1. A first stream
=================

A model is *calibrated* if, of all samples with a predicted probability of 0.8, eight of ten are
positive. This notebook wraps a river model, measures what calibration gains, and calibrates scores
that do not come from river.
"""

from typing import Any

from river import datasets, metrics, naive_bayes, preprocessing

import streamcal
from streamcal.plot import ReliabilityDisplay

# %%
# Wrap a model
# ------------
#
# Naive Bayes treats features as independent, so its probabilities are too close to 0 and 1.
# :class:`streamcal.CalibratedClassifier` is a river classifier around it. It takes the probability
# that the model predicts, lets the model learn the sample, and then trains a calibrator on the
# probability and the label.

raw = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
model = streamcal.CalibratedClassifier(raw.clone())

# %%
# Predict, then learn
# -------------------
#
# Each sample is predicted before its label is learned, as in a live system. The log loss of a
# probability :math:`p` for the label :math:`y` is
#
# .. math:: -y\,\log\,p - (1 - y)\,\log(1 - p)

models: dict[str, Any] = {"raw": raw, "calibrated": model}
losses = {name: metrics.LogLoss() for name in models}
labels: list[bool] = []
served: dict[str, list[float]] = {name: [] for name in models}
for x, y in datasets.Phishing():
    labels.append(y)
    for name, classifier in models.items():
        predicted = classifier.predict_proba_one(x)
        if predicted:  # empty while the model knows no label
            losses[name].update(y, predicted)
        served[name].append(predicted.get(True, 0.5))
        classifier.learn_one(x, y)
for name, loss in losses.items():
    print(f"{name:>10}: {loss.get():.3f}")

# %%
# The reliability diagram shows the observed frequency of positives for each probability. The curve
# of a calibrated model is near the diagonal; the next notebook explains the table.

diagram = ReliabilityDisplay.from_models({name: (labels, p) for name, p in served.items()})

# %%
# Without a model
# ---------------
#
# A calibrator alone maps scores to probabilities. It learns from one pair of a score and a label at
# a time; an array of pairs is learned by one call, in the same order and with the same result.

calibrator = streamcal.HedgedCalibrator()
calibrator.learn_many([0.9, 0.8, 0.3, 0.6] * 50, [1, 1, 0, 0] * 50)
for score in (0.3, 0.6, 0.8, 0.9):
    print(score, "->", round(calibrator.predict_one(score), 3))

# %%
# The score 0.6 always had the label 0, so its calibrated probability is near 0. The default
# calibrator is a mixture of seven; its weights show which of them predicted the labels best.

for name, weight in calibrator.weights.items():
    print(f"{weight:.3f}  {name}")
