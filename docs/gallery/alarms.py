r"""
8. Raise an alarm when probabilities go wrong
=============================================

Probabilities that were right can become wrong. A dashboard of calibration errors that somebody
watches every day raises false alarms sooner or later. The tests of this notebook may be looked at
after every sample.
"""

import matplotlib.pyplot as plt
import numpy as np

from streamcal.monitoring import CalibrationDrift, CalibrationTest, ForecastComparison

rng = np.random.default_rng(2)
p = rng.beta(2, 3, 4_000)
odds = p / (1 - p)
odds[2_000:] *= 0.5  # from sample 2,000 on, events are rarer than predicted
happened = rng.random(4_000) < odds / (1 + odds)

# %%
# Evidence over time
# ------------------
#
# ``CalibrationTest`` bets against the probabilities. Its e-value is what a stake of 1 has become.
# As long as the probabilities are right, the chance that it *ever* reaches 20 is at most 1 in 20.
# So 20, the dotted line, is the limit for an alarm.

test = CalibrationTest(alpha=0.05)
evidence = []
for label, probability in zip(happened.tolist(), p.tolist(), strict=True):
    test.update(label, probability)
    evidence.append(test.log_e_value / np.log(10))

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(evidence, label="evidence against the probabilities")
axes.axhline(np.log10(20), color="gray", linestyle=":", label="alarm")
axes.axvline(2_000, color="gray", linewidth=0.8)
axes.set(xlabel="sample", ylabel="log₁₀ of the e-value", title="The change is at sample 2,000")
axes.legend()

# %%
# Since when, and what they should be
# -----------------------------------

print("alarm:", test.rejected)
print("wrong since about sample", test.since)
print("by the best bet", test.in_words)

# %%
# The sooner alarm
# ----------------
#
# ``CalibrationDrift`` asks whether calibration was lost *lately*. It finds a change sooner, and
# raises a false alarm after 20,000 right samples in the mean, or later.

drift = CalibrationDrift(run_length=20_000)
for at, (label, probability) in enumerate(zip(happened.tolist(), p.tolist(), strict=True)):
    drift.update(label, probability)
    if drift.drift_detected:
        print("alarm at sample", at, "- wrong since about sample", drift.since)
        break

# %%
# Which forecast is better
# ------------------------
#
# After the change, halved odds are the better forecast. The interval for the mean difference of the
# Brier scores holds at all times, too.

comparison = ForecastComparison()
halved = 0.5 * p / (1 - p) / (1 + 0.5 * p / (1 - p))
comparison.update_many(happened[2_000:], p[2_000:], halved[2_000:])
low, high = comparison.interval
print(f"better: {comparison.better}, by {low:.4f} to {high:.4f}")
