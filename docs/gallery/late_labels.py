r"""
4. Delayed labels
=================

In production a label often arrives long after the probability was served: a click after minutes, a
default on a loan after months. Meanwhile the model has learned from other samples and has changed.
This notebook shows why a calibrator must learn from the probability that was served, and how to
pass it back.
"""

import random
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from river import linear_model, metrics, optim

import streamcal
from streamcal.plot import ReliabilityDisplay

# %%
# The stream
# ----------
#
# The sign of a sensor changes now and then, and the model adapts quickly. A label arrives 50
# samples late.

DELAY = 50
Features = dict[Hashable, Any]


def sensor(n_samples: int) -> Iterator[tuple[Features, bool]]:
    rng = random.Random(1)
    sign = 1
    for _ in range(n_samples):
        if rng.random() < 0.01:
            sign = -sign
        value = rng.gauss(0.0, 1.0)
        yield {"x": value}, sign * value + rng.gauss(0.0, 0.5) > 0.0


# %%
# Keep what was served
# --------------------
#
# ``serve_one`` predicts and returns all that must be kept until the label arrives. ``learn_one(x,
# y, served=served)`` passes it back. With ``served=None`` the model predicts the old sample again,
# with what it has learned since.


def run(pass_back: bool) -> tuple[list[bool], list[float], list[float]]:
    model = streamcal.CalibratedClassifier(linear_model.LogisticRegression(optim.SGD(0.5)))
    labels: list[bool] = []
    raw: list[float] = []
    calibrated: list[float] = []
    waiting: deque[tuple[Features, bool, streamcal.Served]] = deque()
    for x, y in sensor(3_000):
        served = model.serve_one(x)
        labels.append(y)
        raw.append(served.raw.get(True, 0.5))
        calibrated.append(served.calibrated.get(True, 0.5))
        waiting.append((x, y, served))
        if len(waiting) > DELAY:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served if pass_back else None)
    return labels, raw, calibrated


labels, raw, predicted_again = run(pass_back=False)
passed_back = run(pass_back=True)[2]
models = {
    "raw": (labels, raw),
    "new predictions": (labels, predicted_again),
    "served predictions": (labels, passed_back),
}
for name, (_, probabilities) in models.items():
    loss = metrics.LogLoss()
    for label, p in zip(labels, probabilities, strict=True):
        loss.update(label, p)
    print(f"{name:>18}: {loss.get():.3f}")
diagram = ReliabilityDisplay.from_models(models, scoring="log")

# %%
# The new prediction of an old sample is better than the served one, because the model has adapted
# in between. A calibrator that learns from it becomes too confident. In one process,
# ``predict_proba_one`` and ``learn_one`` remember what was served by themselves. Use ``serve_one``
# if another process learns, or if this one may be restarted: ``Served.to_dict`` gives a dictionary
# for JSON.

model = streamcal.CalibratedClassifier(linear_model.LogisticRegression())
message = model.serve_one({"x": 0.5}).to_dict()
print(sorted(message))
