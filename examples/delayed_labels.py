"""Labels that arrive 50 samples late: calibrate on the probability that was served.

The sign of a sensor changes now and then, and the model adapts. When a label arrives, the model
has adapted: its new prediction for the old sample is better than the served one. A calibrator that
learns from the new prediction becomes overconfident. `serve_one` returns the served prediction, and
`served=` passes it back with the label. In between it is stored as JSON, as in a queue.
"""

import json
import random
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any

from river import linear_model, metrics, optim

import streamcal

DELAY = 50
Features = dict[Hashable, Any]


def sensor(n_samples: int) -> Iterator[tuple[Features, bool]]:
    rng = random.Random(1)
    sign = 1
    for _ in range(n_samples):
        if rng.random() < 0.01:
            sign = -sign
        x = rng.gauss(0.0, 1.0)
        yield {"x": x}, sign * x + rng.gauss(0.0, 0.5) > 0.0


def run(pass_served: bool) -> tuple[metrics.LogLoss, metrics.LogLoss]:
    model = streamcal.CalibratedClassifier(linear_model.LogisticRegression(optim.SGD(0.5)))
    before, after = metrics.LogLoss(), metrics.LogLoss()
    waiting: deque[tuple[Features, bool, str]] = deque()
    for x, y in sensor(5_000):
        served = model.serve_one(x)
        before.update(y, served.raw)
        after.update(y, served.calibrated)
        waiting.append((x, y, json.dumps(served.to_dict())))
        if len(waiting) > DELAY:
            x, y, kept = waiting.popleft()
            served = streamcal.Served.from_dict(json.loads(kept))
            model.learn_one(x, y, served=served if pass_served else None)
    return before, after


def main() -> None:
    raw, predicted_again = run(pass_served=False)
    _, served = run(pass_served=True)
    print(f"raw: {raw}")
    print(f"calibrated on a new prediction when the label arrives: {predicted_again}")
    print(f"calibrated on what was served: {served}")


if __name__ == "__main__":
    main()
