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
from collections.abc import Iterator

from river import linear_model, metrics, optim

import streamcal

# %%
# The stream
# ----------
#
# The sign of a sensor changes now and then, and the model adapts quickly. A label arrives 50
# samples late.

DELAY = 50


def sensor(n_samples: int) -> Iterator[tuple[dict[str, float], bool]]:
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


def run(pass_back: bool) -> tuple[float, float]:
    model = streamcal.CalibratedClassifier(linear_model.LogisticRegression(optim.SGD(0.5)))
    raw, calibrated = metrics.LogLoss(), metrics.LogLoss()
    waiting: deque[tuple[dict[str, float], bool, streamcal.Served]] = deque()
    for x, y in sensor(3_000):
        served = model.serve_one(x)
        raw.update(y, served.raw)
        calibrated.update(y, served.calibrated)
        waiting.append((x, y, served))
        if len(waiting) > DELAY:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served if pass_back else None)
    return raw.get(), calibrated.get()


raw, predicted_again = run(pass_back=False)
_, passed_back = run(pass_back=True)
print(f"log loss, raw:                                 {raw:.3f}")
print(f"calibrated on a new prediction of old samples: {predicted_again:.3f}")
print(f"calibrated on what was served:                 {passed_back:.3f}")

# %%
# The new prediction of an old sample is better than the served one, because the model has adapted
# in between. A calibrator that learns from it becomes too confident. In one process,
# ``predict_proba_one`` and ``learn_one`` remember what was served by themselves. Use ``serve_one``
# if another process learns, or if this one may be restarted: ``Served.to_dict`` gives a dictionary
# for JSON.

model = streamcal.CalibratedClassifier(linear_model.LogisticRegression())
message = model.serve_one({"x": 0.5}).to_dict()
print(sorted(message))
