"""Votes of trees beside their own probabilities, raw and calibrated.

    python benchmarks/votes.py

Prequential log loss (probabilities clipped to [1e-6, 1 − 1e-6]) and accuracy of a river model
("raw"), of `CalibratedClassifier` around it and of `VoteClassifier` around it; a label that the
model does not know yet does not count. SEA and LED have a fifth of noise. Prints Markdown.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from river import base, datasets, ensemble, forest, tree
from river.datasets import synth

from streamcal import CalibratedClassifier
from streamcal.voting import VoteClassifier

STREAMS: dict[str, Callable[[], Iterable[Any]]] = {
    "Phishing": datasets.Phishing,
    "Bananas": datasets.Bananas,
    "SEA, 4,000": lambda: synth.SEA(noise=0.2, seed=1).take(4_000),
    "Segments (7 classes)": datasets.ImageSegments,
    "LED, 4,000 (10 classes)": lambda: synth.LED(noise_percentage=0.2, seed=1).take(4_000),
}
MODELS: dict[str, Callable[[], base.Classifier]] = {
    "ARF, 10 trees": lambda: forest.ARFClassifier(n_models=10, seed=1),
    "bag, 10 trees": lambda: ensemble.BaggingClassifier(
        tree.HoeffdingTreeClassifier(), n_models=10, seed=1
    ),
    "Hoeffding tree": tree.HoeffdingTreeClassifier,
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
}
ROWS = (
    *((stream, "ARF, 10 trees") for stream in STREAMS),
    ("Phishing", "bag, 10 trees"),
    ("Bananas", "bag, 10 trees"),
    ("Phishing", "Hoeffding tree"),
    ("SEA, 4,000", "Hoeffding tree"),
    ("SEA, 4,000", "adaptive tree"),
)


class Score:
    """Mean log loss and accuracy."""

    def __init__(self) -> None:
        self._losses: list[float] = []
        self._n_right = 0

    def update(self, p: dict[Any, float], y: Any) -> None:
        """Add a prediction and its label."""
        if y in p:
            self._losses.append(-math.log(min(max(p[y], 1e-6), 1.0 - 1e-6)))
            self._n_right += max(p, key=p.__getitem__) == y

    def get(self) -> tuple[float, float]:
        """Return the mean log loss and the accuracy."""
        n = len(self._losses)
        return math.fsum(self._losses) / n, self._n_right / n


def measure(stream: str, model: str) -> list[tuple[float, float]]:
    """Return log loss and accuracy: raw, calibrated and of votes."""
    calibrated, votes = CalibratedClassifier(MODELS[model]()), VoteClassifier(MODELS[model]())
    scores = [Score(), Score(), Score()]
    for x, y in STREAMS[stream]():
        served = calibrated.serve_one(x)
        answers = (served.raw, served.calibrated, votes.predict_proba_one(x))
        for score, p in zip(scores, answers, strict=True):
            score.update(p, y)
        calibrated.learn_one(x, y, served=served)
        votes.learn_one(x, y)
    return [score.get() for score in scores]


def main() -> None:
    """Print the table."""
    print("| stream | model | raw | calibrated | votes | accuracy raw | calibrated | votes |")
    print("|---|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for stream, model in ROWS:
        found = measure(stream, model)
        least = min(loss for loss, _ in found)
        losses = [f"**{loss:.3f}**" if loss == least else f"{loss:.3f}" for loss, _ in found]
        rates = [f"{rate:.3f}".lstrip("0") for _, rate in found]
        print(f"| {stream} | {model} | {' | '.join(losses + rates)} |", flush=True)


if __name__ == "__main__":
    main()
