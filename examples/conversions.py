"""Probabilities of sales that come days after a click: "no sale yet" is not the label 0.

The stream changes in the middle. One calibrator waits until a sale no longer counts, and learns
each sample then, with its final label. The other one learns 0 at once, and 1 when the sale comes:
a sample whose probability is p gives one label 0 and, with probability p, also one label 1. So it
learns b = p / (1 + p), and p is b / (1 - b) (Ktena et al., RecSys 2019).
"""

import heapq

import numpy as np

from streamcal import IsotonicCalibrator

HORIZON = 10_000  # samples after which a sale no longer counts
n, rng = 40_000, np.random.default_rng(0)
scores = rng.uniform(size=n)
p = np.where(np.arange(n) < n // 2, 0.4 * scores**2, 0.3 * scores)  # the probability of a sale
delays = rng.exponential(2_000, n)
sold = (rng.uniform(size=n) < p) & (delays < HORIZON)

waits, at_once = (IsotonicCalibrator(window=5_000) for _ in range(2))
sales: list[tuple[float, int]] = []  # when they come, and of which sample
errors = []
for t in range(n):
    while sales and sales[0][0] <= t:
        at_once.learn_one(scores[heapq.heappop(sales)[1]], 1)
    if t >= HORIZON:
        waits.learn_one(scores[t - HORIZON], sold[t - HORIZON])
        b = at_once.predict_one(scores[t])
        answers = waits.predict_one(scores[t]), min(1.0, b / (1.0 - b)), b
        errors.append(np.subtract(answers, p[t]) ** 2)
    at_once.learn_one(scores[t], 0)
    if sold[t]:
        heapq.heappush(sales, (t + delays[t], t))

print(
    "root mean squared errors: waiting {:.3f}, b / (1 - b) {:.3f}, b {:.3f}".format(
        *np.mean(errors, axis=0) ** 0.5
    )
)
