"""Decide for F1 on a stream with few positives, in batches, with the counts of past decisions."""

import random
from typing import Any

from river import base, metrics

from streamcal import PrecomputedClassifier
from streamcal.decision import DecisionClassifier, MicroBatcher, evaluate, maximize

# One set of samples: the labels with the best expected F1, and that F1 with a certified error.
decision = maximize([0.7, 0.4, 0.35, 0.1, 0.02], "f1")
print(decision.labels.astype(int), round(decision.expected, 3), decision.threshold)

# A stream, scored by the F1 over all samples. Threshold ½ hardly ever predicts a positive.
rng = random.Random(4)
draws = [rng.betavariate(0.3, 5.7) for _ in range(2000)]
stream: list[tuple[dict[Any, Any], bool]] = [({"p": p}, rng.random() < p) for p in draws]
calibrated = PrecomputedClassifier("p")  # a stand-in for any calibrated model
rules: list[tuple[str, base.Classifier, int]] = [
    ("threshold 1/2", calibrated, 1),
    ("one by one, with history", DecisionClassifier(calibrated, "f1"), 1),
    ("batches of 20, with history", DecisionClassifier(calibrated, "f1"), 20),
]
for name, rule, batch_size in rules:
    print(f"{name}: {evaluate(stream, rule, metrics.F1(), batch_size=batch_size)}")

# Serving: collect samples for a short time, then decide for the batch.
model = DecisionClassifier(calibrated, "f1")
batcher = MicroBatcher(model, batch_size=20, max_delay=0.5)
served: dict[int, Any] = {}
for key, (x, _) in enumerate(stream[:100]):
    for released in batcher.push(x, key=key):
        served[released.key] = released.label
print(len(served), "served,", sum(served.values()), "of them positive")

# The labels arrive later: pass back the decision, and monitor the expected F1.
for key, decided in served.items():
    x, y = stream[key]
    model.learn_one(x, y, decided=decided)
print(f"expected - realised F1: {model.claim_gap:+.3f}")
