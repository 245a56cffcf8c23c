"""Scores and labels that the experiments of this folder share, and how they are served.

A stream is two vectors in time order: the prediction of a model for each sample before it learned
it, and the labels. Models learn each label at once; only the calibrator gets delayed labels.

``DATA`` is a folder with ``streams/elec.csv.gz`` (Elec2: 45,312 half-hours, six features, the class
in the last column) and ``forecasts/538_*.csv`` (columns score and label). Nothing is downloaded.
"""

import csv
import gzip
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base, datasets, forest, linear_model, naive_bayes, preprocessing, tree
from scipy.special import expit, logit

from streamcal import Calibrator

Vector = NDArray[np.float64]
CLIP = 1e-6  # probabilities are clipped to [CLIP, 1 - CLIP]

MODELS: dict[str, Callable[[], base.Classifier]] = {
    "naive Bayes": naive_bayes.GaussianNB,
    "Hoeffding adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "adaptive random forest": lambda: forest.ARFClassifier(seed=1),
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
}
FORECASTS = {
    "MLB games": "538_mlb_games.csv",
    "make the playoffs": "538_mlb_make_playoffs.csv",
    "March Madness in game": "538_march_madness_in_game_men.csv",
}

N = 40_000  # samples of a generated stream
MAPS = ((1.0, 0.0), (0.4, 1.0), (1.8, -1.5), (0.6, -0.5))  # slope and intercept of log odds
LEVELS = ((0.1, 0.2, 0.6, 0.9), (0.4, 0.5, 0.7, 0.7), (0.0, 0.3, 0.3, 0.5), (0.2, 0.6, 0.8, 1.0))
PRIORS = (0.5, 0.1, 0.8, 0.3)  # of the label True
ABRUPT = ("abrupt", "abrupt steps", "label shift")  # they change three times
GENERATED = ("calibrated", "stationary", "gradual", *ABRUPT)


class FixedModel(base.Classifier):
    """A model that predicts the probabilities in the sample and learns nothing."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn nothing."""

    def predict_proba_one(self, x: Any) -> Any:
        """Return the probabilities in the sample."""
        return x

    @property
    def _multiclass(self) -> bool:
        return True


def scored(model: base.Classifier, samples: Iterable[tuple[Any, Any]]) -> tuple[Vector, Vector]:
    """Return a model's prediction for each sample before it learns it, and the boolean labels."""
    scores: list[float] = []
    labels: list[bool] = []
    for x, y in samples:
        scores.append(model.predict_proba_one(x).get(True, 0.0 if labels else 0.5))
        labels.append(bool(y))
        model.learn_one(x, labels[-1])
    return np.array(scores), np.array(labels, np.float64)


def elec2(data: Path) -> Iterator[tuple[dict[str, float], bool]]:
    """Yield the half-hours of Elec2."""
    with gzip.open(data / "streams" / "elec.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            y = row.pop("class") == "1"
            yield {feature: float(value) for feature, value in row.items()}, y


def kept(keep: Path | None, name: str, make: Callable[[], tuple[Vector, Vector]]) -> Any:
    """Return what is made, or what was made before and kept in a folder."""
    if keep is None:
        return make()
    file = keep / f"{name}.npz"
    if not file.exists():
        scores, y = make()
        np.savez(file, scores=scores, y=y)
    arrays = np.load(file)
    return arrays["scores"], arrays["y"]


def read(data: Path, name: str, keep: Path | None) -> tuple[Vector, Vector]:
    """Return the scores and labels of forecasts, or of a model on Elec2."""
    if name in FORECASTS:
        table = np.loadtxt(data / "forecasts" / FORECASTS[name], delimiter=",", skiprows=1)
        return table[:, 0], table[:, 1]
    return kept(keep, name, lambda: scored(MODELS[name](), elec2(data)))


def shipped(dataset: str, model: str, keep: Path | None) -> tuple[Vector, Vector]:
    """Return the scores of a model on a stream that ships with river, standardised, and labels."""
    pipeline = preprocessing.StandardScaler() | MODELS[model]()
    samples = getattr(datasets, dataset)()
    return kept(keep, f"{dataset}, {model}", lambda: scored(pipeline, samples))


def generated(kind: str, n: int = N) -> tuple[Vector, Vector, Vector]:
    """Return scores, labels and the true probabilities of a stream that is known.

    In all but "label shift" scores are uniform. In "calibrated" they are the true probabilities; in
    "stationary" and "abrupt" these are logistic in the log odds of the score, in the latter by
    another map after each quarter; in "gradual" that map turns all the time. In "abrupt steps" they
    have four levels. In "label shift" the two classes stay where they are, normal around ±1, and
    their frequency changes after each quarter, which the scores do not show.
    """
    rng = np.random.default_rng(1)
    t = np.arange(n)
    quarter = np.minimum(t // (n // 4), 3)
    if kind == "label shift":
        prior = np.array(PRIORS)[quarter]
        y = rng.uniform(size=n) < prior
        x = rng.normal(np.where(y, 1.0, -1.0))
        return expit(2.0 * x), y.astype(float), expit(2.0 * x + logit(prior))
    scores = rng.uniform(0.02, 0.98, n)
    if kind == "abrupt steps":
        p = np.array(LEVELS)[quarter, (4.0 * scores).astype(int)].clip(0.02, 0.98)
    else:
        which = {"calibrated": np.zeros_like(t), "stationary": np.ones_like(t)}
        slope, intercept = np.array(MAPS)[which.get(kind, quarter)].T
        if kind == "gradual":
            slope, intercept = 1.0 + 0.6 * np.sin(t / 4_000.0), np.cos(t / 3_000.0)
        p = expit(slope * logit(scores) + intercept)
    return scores, (rng.uniform(size=n) < p).astype(float), p


def log_loss(p: Vector, y: Vector) -> float:
    """Return the mean log loss of clipped probabilities."""
    p = p.clip(CLIP, 1.0 - CLIP)
    return float(-np.mean(np.where(y == 1.0, np.log(p), np.log1p(-p))))


def serve(
    calibrator: Calibrator, scores: Vector, y: Vector, delay: int, tickets: bool = False
) -> Vector:
    """Return the served predictions of a calibrator with labels ``delay`` samples late."""
    if delay == 0:
        return calibrator.predict_learn_many(scores, y)
    served, waiting = np.empty(len(y)), deque()
    for t, sample in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        ticket = {}
        if tickets:
            served[t], ticket["ticket"] = calibrator.serve_one(sample[0])
        else:
            served[t] = calibrator.predict_one(sample[0])
        waiting.append((sample, ticket))
        if len(waiting) > delay:
            sample, ticket = waiting.popleft()
            calibrator.learn_one(*sample, **ticket)
    return served
