r"""
5. Segments
===========

A model may be calibrated on average and wrong in each country, device or customer group. This
notebook finds that, and gives each segment a calibrator of its own.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

import streamcal
from streamcal.plot import ReliabilityDisplay

# %%
# A model that is right on average
# --------------------------------
#
# In segment "a" positives are more frequent than predicted, in segment "b" less. Over both, the
# errors cancel.

rng = np.random.default_rng(2)
n = 4_000
keys = rng.choice(["a", "b"], n)
scores = rng.uniform(0.05, 0.95, n)
shift = np.where(keys == "a", 0.8, -0.8)
true = 1 / (1 + np.exp(-(np.log(scores / (1 - scores)) + shift)))
labels = rng.random(n) < true


def log_loss(p: NDArray[np.float64]) -> float:
    return float(-np.log(np.where(labels, p, 1 - p)).mean())


for key in ("a", "b"):
    of_key = keys == key
    print(key, f"predicted {scores[of_key].mean():.3f}, observed {labels[of_key].mean():.3f}")
overall = ReliabilityDisplay.from_predictions(labels, scores)

# %%
# One calibrator per segment
# --------------------------
#
# :class:`streamcal.KeyedCalibrator` makes a calibrator when the first sample of a key is learned.
# All scores are in one stream; each prediction uses the labels of its own segment before it.

keyed = streamcal.KeyedCalibrator(streamcal.HedgedCalibrator())
common = streamcal.HedgedCalibrator()
p_keyed = keyed.predict_learn_many(keys.tolist(), scores, labels)
p_common = common.predict_learn_many(scores, labels)
for name, p in (("raw", scores), ("one calibrator", p_common), ("one per segment", p_keyed)):
    print(f"{name:>15}: {log_loss(p):.3f}")

# %%
# One correction for each value
# -----------------------------
#
# With several fields, or many rare values, calibrators that learn alone are slow.
# :class:`streamcal.SegmentCalibrator` corrects a common calibrator by a term for each value, which
# is small while little is known about it.

segments = streamcal.SegmentCalibrator(["key"])
p_segments = segments.predict_learn_many(scores, labels, x={"key": keys})
print(f"{'segments':>15}: {log_loss(p_segments):.3f}")

# %%
# Around a river model it is one argument. The model here only returns the score; the key is a
# feature that it does not use.

given = streamcal.PrecomputedClassifier("score")
model = streamcal.CalibratedClassifier(given, segments=["key"])
p_model = np.empty(n)
for i in range(n):
    x: dict[Any, Any] = {"score": float(scores[i]), "key": str(keys[i])}
    p_model[i] = model.predict_proba_one(x)[True]
    model.learn_one(x, bool(labels[i]))
print(f"{'wrapper':>15}: {log_loss(p_model):.3f}")

# %%
# The diagram of one segment, before and after:

in_a = keys == "a"
models = {"raw": (labels[in_a], scores[in_a]), "one per segment": (labels[in_a], p_keyed[in_a])}
segment = ReliabilityDisplay.from_models(models)

# %%
# A new segment starts with a new calibrator, which returns the score nearly unchanged, or with the
# common calibrator:

for key in ("a", "new"):
    alone, shared = keyed.predict_one(key, 0.5), segments.predict_one(0.5, {"key": key})
    print(f"{key:>15}: one per segment {alone:.3f}, segments {shared:.3f}")
