r"""
7. Decisions
============

A probability becomes a decision by a rule. For accuracy the rule is the threshold ½. For F1,
balanced accuracy and similar metrics the best rule depends on the other samples. This notebook
finds it.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.decision import expected_utility, maximize
from streamcal.plot import AccuracyCoverageDisplay, UtilityCurveDisplay

# %%
# The expected F1
# ---------------
#
# With true positives :math:`tp`, positives :math:`P` and samples labelled positive :math:`\hat P`,
#
# .. math:: F_1 = \frac{2\,tp}{P + \hat P}
#
# If the probabilities are calibrated and labels are independent, the best labelling selects the
# :math:`k` most probable samples for some :math:`k`. :func:`streamcal.maximize` computes the
# expected F1 for each :math:`k`.

rng = np.random.default_rng(4)
p = rng.beta(0.4, 4, 300)
decision = maximize(p, "f1")
print(f"expected number of positives: {p.sum():.1f}")
print(f"labelled positive: {decision.k}, with threshold ½: {(p >= 0.5).sum()}")
at_half = expected_utility(p, p >= 0.5, "f1")
print(f"expected F1: {decision.expected:.3f}, with threshold ½: {at_half:.3f}")

# %%
# The curve has its maximum where the probability of the last selected sample is about half of the
# F1 that is reached.

display = UtilityCurveDisplay.from_probabilities(p, "f1")

# %%
# A check by simulation
# ---------------------
#
# Labels drawn with these probabilities give the expected values.


def f1(chosen: NDArray[np.bool_], y: NDArray[np.bool_]) -> float:
    return float(2 * (chosen & y).sum() / max(1, chosen.sum() + y.sum()))


draws = rng.random((2_000, 300)) < p
for name, chosen in (("maximize", decision.labels), ("threshold ½", p >= 0.5)):
    print(f"{name:>12}: {np.mean([f1(chosen, y) for y in draws]):.3f}")

# %%
# Other metrics
# -------------
#
# Each metric has its own best number of positives.

for metric in ("accuracy", "f1", "f2", "balanced_accuracy", "mcc"):
    best = maximize(p, metric)
    print(f"{metric:>18}: {best.k:3d} labelled positive, expected value {best.expected:.3f}")

# %%
# Answer where it is sure
# -----------------------
#
# Others decide the rest. As many answers as possible, of which 95 % are right:

answers = maximize(p, "coverage", subject_to={"accuracy": 0.95})
print(f"{answers.expected:.0%} of the samples are answered")

# %%
# Whether that comes true depends on the probabilities. Here are those above, and others that are
# too far from ½. The solid lines show how many answers are right, the dotted ones how many should
# be: the sure ones promise more than they keep. Both answer in the same order, so the solid lines
# are one.

y = rng.random(300) < p
odds = (p / (1 - p)) ** 2
sure = odds / (1 + odds)
models = {"calibrated": (y, p), "too sure": (y, sure)}
coverage = AccuracyCoverageDisplay.from_models(models, level=0.9, target=0.95)
