"""Many labels: a calibrator for each label, for the likeliest one, or one temperature.

    python benchmarks/multiclass.py [--logits 20000]

River's ImageSegments (2,310 samples, seven labels) under three river models, and generated logits
of ten labels: labels are drawn from the softmax of normal logits (scale 2), and the model claims
another softmax, of the same logits twice as large (too sure), half as large (too shy), or with
noise and a shift of its own for each label. Everything prequential, labels at once; "all" is the
model's log loss over all labels, "top" that of whether the likeliest label is right.
"""

import argparse
import math
from collections.abc import Callable, Iterator
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

CALIBRATORS: dict[str, Callable[[], Any]] = {
    "raw": lambda: None,
    "one-vs-rest, Platt": PlattCalibrator,
    "one-vs-rest, isotonic": IsotonicCalibrator,
    "one-vs-rest, hedge": HedgedCalibrator,
    "top label, Platt": lambda: TopLabelCalibrator(PlattCalibrator()),
    "top label, hedge": TopLabelCalibrator,
    "temperature": TemperatureCalibrator,
}
MODELS: dict[str, Callable[[], base.Classifier]] = {
    "naive Bayes": naive_bayes.GaussianNB,
    "Hoeffding tree": tree.HoeffdingTreeClassifier,
    "softmax": lambda: preprocessing.StandardScaler() | linear_model.SoftmaxRegression(),
}
Answer = tuple[dict[Any, float], Any]


def segments(name: str) -> Iterator[Answer]:
    """Yield a model's prediction for each sample before it learns it, and the label."""
    model = MODELS[name]()
    for x, y in datasets.ImageSegments():
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


def losses(answers: list[Answer], calibrator: Any) -> tuple[float, float]:
    """Return the mean log loss over all labels, and of the likeliest one being right."""
    model = FixedModel() if calibrator is None else CalibratedClassifier(FixedModel(), calibrator)
    whole, top = [], []
    for raw, y in answers:
        served = model.predict_proba_one(raw)
        if y in served:  # a label that was never seen does not count
            whole.append(_log(served[y]))
            first = max(served, key=served.__getitem__)
            top.append(_log(served[first] if first == y else 1.0 - served[first]))
        model.learn_one(raw, y)
    return -math.fsum(whole) / len(whole), -math.fsum(top) / len(top)


def _log(p: float) -> float:
    return math.log(min(max(p, 1e-6), 1.0 - 1e-6))


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logits", type=int, default=20_000)
    arguments = parser.parse_args()
    streams = {f"segments, {name}": list(segments(name)) for name in MODELS}
    for kind in ("too sure", "too shy", "noise"):
        streams[f"logits, {kind}"] = list(logits(kind, arguments.logits))
    print("| all / top | " + " | ".join(CALIBRATORS) + " |")
    print("|---|" + "--:|" * len(CALIBRATORS), flush=True)
    for stream, answers in streams.items():
        cells = ["{:.3f} / {:.3f}".format(*losses(answers, c())) for c in CALIBRATORS.values()]
        print(f"| {stream} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
