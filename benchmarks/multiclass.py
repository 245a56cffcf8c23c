"""Many labels: the joint hedge, a calibrator for each label or the likeliest, one temperature.

    python benchmarks/multiclass.py [--logits 20000] [--letters letter-recognition.data.gz]

River's ImageSegments (2,310 samples, seven labels) under three river models, and generated logits
of ten labels: labels are drawn from the softmax of normal logits (scale 2), and the model claims
another softmax, of the same logits twice as large (too sure), half as large (too shy), or with
noise and a shift of its own for each label. With a file of UCI's letter recognition (20,000
samples, 26 labels; the label is the first of 17 columns) also that, under the same models.
Everything prequential, labels at once. "all" is the log loss over all labels, "top" that of whether
the likeliest label is right, "ECE" its expected calibration error in 15 bins of equal width.
"""

import argparse
import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from river import base, datasets, linear_model, naive_bayes, preprocessing, tree
from streams import FixedModel

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
)
from streamcal.calibration.probability import ProbabilityCalibrator


class SingleHedge(ProbabilityCalibrator):
    """A hedge of its own for each label, without the maps of all labels that wrappers add."""

    def __init__(self) -> None:
        self._hedge = HedgedCalibrator()

    def learn_one(self, score: float, y: float, w: float = 1.0, **_: Any) -> None:
        """Teach the hedge a sample."""
        self._hedge.learn_one(score, y, w)

    def predict_one(self, score: float, x: Any = None) -> float:
        """Return the hedge's prediction."""
        return self._hedge.predict_one(score)


CALIBRATORS: dict[str, Callable[[], Any]] = {
    "raw": lambda: None,
    "one-vs-rest, Platt": PlattCalibrator,
    "one-vs-rest, isotonic": IsotonicCalibrator,
    "one-vs-rest, hedge": SingleHedge,
    "top label, Platt": lambda: TopLabelCalibrator(PlattCalibrator()),
    "top label, hedge": TopLabelCalibrator,
    "temperature": TemperatureCalibrator,
    "joint hedge": HedgedCalibrator,
}
MODELS: dict[str, Callable[[], base.Classifier]] = {
    "naive Bayes": naive_bayes.GaussianNB,
    "Hoeffding tree": tree.HoeffdingTreeClassifier,
    "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
}
Answer = tuple[dict[Any, float], Any]
N_BINS = 15  # of the calibration error


def letters(path: str) -> Iterator[tuple[dict[int, float], str]]:
    """Yield features and label of each sample in the file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for label, *values in csv.reader(file):
            if len(label) == 1:  # not the header
                yield {i: float(value) for i, value in enumerate(values)}, label


def answers_of(name: str, samples: Iterable[tuple[Any, Any]]) -> Iterator[Answer]:
    """Yield a model's prediction for each sample before it learns it, and the label."""
    model = MODELS[name]()
    for x, y in samples:
        yield model.predict_proba_one(x), y
        model.learn_one(x, y)


def logits(kind: str, n: int) -> Iterator[Answer]:
    """Yield claimed probabilities of ten labels, and the label."""
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 2.0, (n, 10))
    right = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (right.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    if kind == "noise":
        z = 1.5 * z + rng.normal(0.0, 1.0, z.shape) + np.linspace(-1.0, 1.0, 10)
    else:
        z *= {"too sure": 2.0, "too shy": 0.5}[kind]
    claimed = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    for row, label in zip(claimed.tolist(), y.tolist(), strict=True):
        yield dict(enumerate(row)), label


def losses(answers: list[Answer], calibrator: Any) -> tuple[float, float, float]:
    """Return the mean log loss over all labels, of the likeliest being right, and its ECE."""
    model = FixedModel() if calibrator is None else CalibratedClassifier(FixedModel(), calibrator)
    whole, top = [], []
    gaps = [0.0] * N_BINS
    for raw, y in answers:
        served = model.predict_proba_one(raw)
        if y in served:  # a label that was never seen does not count
            whole.append(_log(served[y]))
            first = max(served, key=served.__getitem__)
            top.append(_log(served[first] if first == y else 1.0 - served[first]))
            gaps[min(int(served[first] * N_BINS), N_BINS - 1)] += (first == y) - served[first]
        model.learn_one(raw, y)
    n = len(whole)
    return -math.fsum(whole) / n, -math.fsum(top) / n, math.fsum(map(abs, gaps)) / n


def _log(p: float) -> float:
    return math.log(min(max(p, 1e-6), 1.0 - 1e-6))


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logits", type=int, default=20_000)
    parser.add_argument("--letters", help="letter-recognition.data.gz of UCI")
    arguments = parser.parse_args()
    sets = {"segments": list(datasets.ImageSegments())}
    if arguments.letters:
        sets["letters"] = list(letters(arguments.letters))
    streams = {
        f"{kind}, {name}": list(answers_of(name, samples))
        for kind, samples in sets.items()
        for name in MODELS
    }
    for kind in ("too sure", "too shy", "noise"):
        streams[f"logits, {kind}"] = list(logits(kind, arguments.logits))
    print("| all / top / ECE | " + " | ".join(CALIBRATORS) + " |")
    print("|---|" + "--:|" * len(CALIBRATORS), flush=True)
    for stream, answers in streams.items():
        cells = [
            "{:.3f} / {:.3f} / {:.3f}".format(*losses(answers, c())) for c in CALIBRATORS.values()
        ]
        print(f"| {stream} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
