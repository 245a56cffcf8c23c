"""A classifier that predicts the probabilities in its features, and a stream for it."""

from typing import Any

import numpy as np
from river import base


class FixedModel(base.Classifier):
    """Predicts the probabilities in the feature "p"; learns nothing."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: dict[str, dict[Any, float]]) -> dict[Any, float]:
        return x["p"]

    @property
    def _multiclass(self) -> bool:
        return True


def features(p: float) -> dict[str, Any]:
    """Return the features of a sample with the probability p of True."""
    return {"p": {False: 1.0 - p, True: p}}


def drifting_stream(n: int, drift_at: int, seed: int = 0) -> list[tuple[dict[str, Any], bool]]:
    """Return n samples: calibrated before ``drift_at``; then True has the probability 1 - p."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.02, 0.98, n)
    right = np.where(np.arange(n) < drift_at, scores, 1.0 - scores)
    hits = rng.uniform(size=n) < right
    return [(features(p), bool(y)) for p, y in zip(scores.tolist(), hits, strict=True)]
