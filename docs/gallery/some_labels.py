r"""
9. Labels for some decisions only
=================================

Moderators look only at some posts. Which ones depends on the score and on the language, so the
posts with a label are not like the others. This notebook asks for a few of the missing labels at
random. From these it calibrates for all posts, and estimates the share of wrong decisions and F1 of
all posts.
"""

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import streamcal
from streamcal.calibration import AuditedCalibrator
from streamcal.metrics import ExpectedMetric
from streamcal.monitoring import AuditedMean, AuditSampler
from streamcal.plot import ReliabilityDisplay

# %%
# The stream
# ----------
#
# Six posts in ten are in English. In other languages posts are worse than their score says: the
# model has seen few of them. Now and then there is a campaign, with more posts of high scores.

rng = np.random.default_rng(5)
n = 20_000
campaign = 0.5 + 0.5 * np.sin(np.arange(n) / 1_500)
scores = rng.beta(0.5, 2.5 - 1.5 * campaign).clip(1e-6, 1 - 1e-6)
english = rng.random(n) < 0.6
log_odds = np.log(scores / (1 - scores)) + np.where(english, -1.0, 1.5)
bad = rng.random(n) < 1 / (1 + np.exp(-log_odds))

# %%
# Decisions, labels and audits
# ----------------------------
#
# A post is hidden if it is bad with a probability of at least one half. Moderators look at hidden
# posts, and at all that are in English. Of the others, an ``AuditSampler`` asks for 5 %.
#
# The *propensity* of a post is the probability with which its label was asked for.
# ``AuditedCalibrator`` learns each label with its propensity. A hedge learns the same labels
# without.

sampler = AuditSampler(0.05, secret="change me", floor=0.025)
audited, without = AuditedCalibrator(floor=0.025), streamcal.HedgedCalibrator()
wrong = AuditedMean(alpha=0.1, floor=0.025)
f1 = ExpectedMetric("f1", window=2_000)
p, p_without, expected = np.empty(n), np.empty(n), []
hidden, labelled = np.empty(n, bool), np.empty(n, bool)
for i, (score, y) in enumerate(zip(scores.tolist(), bad.tolist(), strict=True)):
    p[i], p_without[i] = audited.predict_one(score), without.predict_one(score)
    hidden[i] = p[i] >= 0.5
    ask, propensity = True, 1.0
    if not hidden[i] and not english[i]:
        ask, propensity = sampler.audit_one(i, p[i])
    wrong.update(min(p[i], 1 - p[i]), y != hidden[i] if ask else None, propensity)
    f1.add(i, p[i])
    if ask:
        audited.learn_one(score, y, propensity=propensity)
        without.learn_one(score, y)
    labelled[i] = ask
    if i % 250 == 249 and i >= 2_000:
        expected.append((i + 1, *f1.expected()))
print(f"hidden: {hidden.mean():.0%}, with a label: {labelled.mean():.0%}")
print("audits:", sampler.n_asked)

# %%
# Calibrated for all posts
# ------------------------
#
# The stream is generated, so we have the labels that nobody would have, and can draw all posts.
# Below one half most labels are of posts in English. The hedge without propensities has learned
# their share of bad posts, and is too low for all posts together.

half = slice(n // 2, n)
models = {
    "without propensities": (bad[half], p_without[half]),
    "AuditedCalibrator": (bad[half], p[half]),
}
diagram = ReliabilityDisplay.from_models(models, scoring="log")

# %%
# How many decisions are wrong
# ----------------------------
#
# Of the posts with a label too few are decided wrongly. ``AuditedMean`` estimates the share of all
# posts, from the labels, their propensities and the probabilities. One interval is for a single
# look, the other holds at all times together.

errors = bad != hidden
print(f"of all posts: {errors.mean():.3f}")
print(f"of posts with a label: {errors[labelled].mean():.3f}")
print(f"estimate for all: {wrong.mean:.3f}")
for name, ends in (("one look", wrong.interval_once), ("all times", wrong.interval_always)):
    print(f"{name:>9}: {ends[0]:.3f} to {ends[1]:.3f}")

# %%
# F1 without the labels
# ---------------------
#
# ``ExpectedMetric`` counts each of the last 2,000 posts with its probability. Labels could be added
# if the score alone had decided who gets one. Here the posts without a label are in other languages
# than those with one, and the probabilities are right only for both together.
#
# The interval is exact for exact probabilities. These were learned with the help of about 300
# audits, so it holds in fewer than 90 % of the windows.


def f1_of(among: slice | NDArray[np.int64]) -> float:
    return float(2 * (bad & hidden)[among].sum() / (bad[among].sum() + hidden[among].sum()))


times, values, lows, highs = np.array(expected).T
windows = [slice(end - 2_000, end) for end in times.astype(int)]
of_all = np.array([f1_of(window) for window in windows])
known = np.arange(n)[labelled]
of_labelled = [f1_of(known[(known >= w.start) & (known < w.stop)]) for w in windows]
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.fill_between(times, lows, highs, alpha=0.25, linewidth=0, label="interval of 90 %")
axes.plot(times, values, label="expected")
axes.plot(times, of_all, color="black", linewidth=1, label="of all posts")
axes.plot(times, of_labelled, color="gray", linestyle=":", label="of posts with a label")
axes.set(xlabel="post", ylabel="F1 of the last 2,000 posts")
figure.legend(loc="outside upper center", ncols=4)
for name, of in (("expected", values), ("of posts with a label", of_labelled)):
    print(f"{name:>21}: mean error {np.abs(of - of_all).mean():.3f}")
print(f"windows whose F1 is in the interval: {((lows <= of_all) & (of_all <= highs)).mean():.0%}")

# %%
# Posts that never get a label, not even by an audit, cannot be repaired by any of this. Nor can
# a propensity that is wrong, for example because people skip the audits that are difficult.
