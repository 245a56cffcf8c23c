"""Ordinal labels from a river regressor, with thresholds that are optimal after every sample.

A stream has five grades of damage, and most samples have the lowest one. Linear regression of the
rank moves all predictions to the middle, so rounding to the nearest grade hardly ever predicts
"total". Thresholds that minimise the absolute error correct this.
"""

from bisect import bisect
from collections.abc import Iterator
from random import Random
from typing import Any

from river import linear_model, preprocessing

import streamcal
from streamcal.metrics import MAE, OneOffAccuracy, QuadraticKappa

GRADES = ("none", "slight", "partial", "major", "total")
LIMITS = (0.6, 1.0, 1.3, 1.6)


def stream(n_samples: int = 4_000) -> Iterator[tuple[dict[Any, Any], str]]:
    """Yield features and a grade, which depends on the features and on noise."""
    random = Random(1)
    for _ in range(n_samples):
        x = {name: random.gauss(0.0, 1.0) for name in ("age", "load", "heat")}
        damage = 0.5 * x["age"] + 0.6 * x["load"] + 0.4 * x["heat"] + random.gauss(0.0, 0.6)
        yield x, GRADES[bisect(LIMITS, damage)]


def main() -> None:
    """Compare rounding with optimal thresholds; each sample is predicted before it is learned."""
    rounded = preprocessing.StandardScaler() | linear_model.LinearRegression()
    model = streamcal.ThresholdClassifier(rounded.clone(), GRADES, window=2_000, every=500)
    metrics = {
        name: (MAE(GRADES), OneOffAccuracy(GRADES), QuadraticKappa(GRADES))
        for name in ("rounding", "thresholds")
    }
    for x, y in stream():
        nearest = GRADES[min(max(round(rounded.predict_one(x)), 0), len(GRADES) - 1)]
        for name, answer in (("rounding", nearest), ("thresholds", model.predict_one(x))):
            for metric in metrics[name]:
                metric.update(y, answer)
        rounded.learn_one(x, GRADES.index(y))
        model.learn_one(x, y)
    for name, values in metrics.items():
        print(f"{name:<10}", ", ".join(map(repr, values)))
    print(model.thresholds.round(2))
    probabilities = model.predict_proba_one(x)
    print({label: round(p, 2) for label, p in probabilities.items()})


if __name__ == "__main__":
    main()
