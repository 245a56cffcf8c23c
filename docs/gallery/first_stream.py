r"""
1. A first stream
=================

A model is *calibrated* if, of all samples with a predicted probability of 0.8, eight of ten are
positive. This notebook wraps a river model, measures what calibration gains, and calibrates scores
that do not come from river.
"""

from river import datasets, metrics, naive_bayes, preprocessing

import streamcal

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
# .. math:: -y \log p - (1 - y) \log (1 - p)

losses = {"raw": metrics.LogLoss(), "calibrated": metrics.LogLoss()}
for x, y in datasets.Phishing():
    for name, classifier in (("raw", raw), ("calibrated", model)):
        losses[name].update(y, classifier.predict_proba_one(x))
        classifier.learn_one(x, y)
for name, loss in losses.items():
    print(f"{name:>10}: {loss.get():.3f}")

# %%
# Without a model
# ---------------
#
# A calibrator alone maps scores to probabilities. It learns from one pair of a score and a label at
# a time; an array of pairs is learned by one call, in the same order and with the same result.

calibrator = streamcal.HedgedCalibrator()
scores, labels = [0.9, 0.8, 0.3, 0.6] * 50, [1, 1, 0, 0] * 50
calibrator.learn_many(scores, labels)
for score in (0.3, 0.6, 0.8, 0.9):
    print(score, "->", round(calibrator.predict_one(score), 3))

# %%
# The score 0.6 always had the label 0, so its calibrated probability is near 0. The default
# calibrator is a mixture of seven; its weights show which of them predicted the labels best.

for name, weight in calibrator.weights.items():
    print(f"{weight:.3f}  {name}")
