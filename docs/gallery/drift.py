r"""
3. Drift
========

The relation between score and label may change. This notebook has a stream that changes twice, and
compares calibrators with a long memory, with a short memory, and the default, which mixes both.
"""

import numpy as np

import streamcal
from streamcal.plot import HedgeWeightsDisplay, MiscalibrationDisplay

# %%
# The stream
# ----------
#
# The true log odds are the model's, times 1, then times ½ (the model becomes too confident), then
# plus 1 (positives become more frequent).

rng = np.random.default_rng(1)
scores = rng.uniform(0.02, 0.98, 6_000)
log_odds = np.log(scores / (1 - scores))
period = np.arange(6_000) // 2_000
true = 1 / (1 + np.exp(-np.choose(period, [log_odds, log_odds / 2, log_odds + 1])))
labels = rng.random(6_000) < true

# %%
# Three calibrators
# -----------------
#
# The mean log loss in each period. Isotonic regression over all samples is misled by samples from
# before a change. A window of 200 follows each change, but is noisy in between.

calibrators = {
    "no calibrator": streamcal.IdentityCalibrator(),
    "isotonic, all samples": streamcal.IsotonicCalibrator(loss="log"),
    "isotonic, last 200": streamcal.IsotonicCalibrator(loss="log", window=200),
    "default": streamcal.HedgedCalibrator(),
}
served = {name: each.predict_learn_many(scores, labels) for name, each in calibrators.items()}
for name, p in served.items():
    p = np.clip(p, 1e-6, 1 - 1e-6)
    loss = -np.log(np.where(labels, p, 1 - p))
    print(f"{name:>21}:", *(f"{loss[period == k].mean():.3f}" for k in range(3)))

# %%
# Miscalibration over time
# ------------------------
#
# The metric ``RollingCORP`` keeps a sliding window and computes the parts of its score at regular
# times.

rolling = {}
for name in ("no calibrator", "default"):
    rolling[name] = streamcal.metrics.RollingCORP(window=1_000, every=100)
    for label, p in zip(labels.tolist(), served[name].tolist(), strict=True):
        rolling[name].update(label, p)
over_time = MiscalibrationDisplay.from_metrics(rolling)

# %%
# The weights of the mixture
# --------------------------
#
# After a change, weight moves to calibrators with a short memory, and later to those with a longer
# one.

hedge, history = streamcal.HedgedCalibrator(), []
for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
    hedge.learn_one(score, label)
    history.append(hedge.weights)
weights = HedgeWeightsDisplay.from_history(history)
