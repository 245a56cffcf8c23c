"""Prequential log loss of the hedge beside every calibrator it could have been.

    python benchmarks/hedge_streams.py DATA [--delays 0 48 500] [--keep FOLDER]

``DATA`` holds ``streams/elec.csv.gz`` (Elec2: 45,312 half-hours, six features, the class in the
last column), ``forecasts/538_mlb_games.csv`` and ``forecasts/538_mlb_make_playoffs.csv`` (columns
score and label, in time order). On Elec2 four river models give the scores, each trained as the
labels come at once; the others are forecasts as published. Scores are clipped to [1e-6, 1 − 1e-6].

For each delay d a calibrator learns a sample once d others have been served after it. What it is
charged is what it served. The hedge is run as its default, given its tickets back; with
``delay=d`` instead of tickets; and told nothing, which is what ``progressive_val_score(delay=d)``
would do to it. ``--keep`` writes the models' scores to a folder and reads them from there again.
"""

import argparse
import csv
import gzip
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from river import base, forest, linear_model, naive_bayes, preprocessing, tree

from streamcal import (
    Calibrator,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
)

Vector = NDArray[np.float64]
MODELS: dict[str, Callable[[], base.Classifier]] = {
    "naive Bayes": naive_bayes.GaussianNB,
    "Hoeffding adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
    "adaptive random forest": lambda: forest.ARFClassifier(seed=1),
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
}
FORECASTS = {"MLB games": "538_mlb_games.csv", "make the playoffs": "538_mlb_make_playoffs.csv"}
SINGLES: dict[str, Callable[[], Calibrator]] = {
    "raw": IdentityCalibrator,
    "Platt": PlattCalibrator,
    "Platt, 500": lambda: PlattCalibrator(gamma=0.5, prior=10.0, half_life=500.0),
    "200": lambda: IsotonicCalibrator(window=200),
    "1000": lambda: IsotonicCalibrator(window=1_000),
    "2000": lambda: IsotonicCalibrator(window=2_000),
    "5000": lambda: IsotonicCalibrator(window=5_000),
    "all": IsotonicCalibrator,
}


def elec2(data: Path, name: str) -> tuple[Vector, Vector]:
    """Return what a model says of each half-hour before it learns it, and the labels."""
    model, scores, labels = MODELS[name](), [], []
    with gzip.open(data / "streams" / "elec.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            y = row.pop("class") == "1"
            x = {feature: float(value) for feature, value in row.items()}
            scores.append(model.predict_proba_one(x).get(True, 0.5 if not labels else 0.0))
            labels.append(y)
            model.learn_one(x, y)
    return np.array(scores), np.array(labels, np.float64)


def read(data: Path, name: str, keep: Path | None) -> tuple[Vector, Vector]:
    """Return the scores and labels of a stream."""
    if name in FORECASTS:
        table = np.loadtxt(data / "forecasts" / FORECASTS[name], delimiter=",", skiprows=1)
        return table[:, 0], table[:, 1]
    if keep is None:
        return elec2(data, name)
    kept = keep / f"{name}.npz"
    if not kept.exists():
        scores, y = elec2(data, name)
        np.savez(kept, scores=scores, y=y)
    arrays = np.load(kept)
    return arrays["scores"], arrays["y"]


def log_loss(p: Vector, y: Vector) -> float:
    """Return the mean log loss of clipped probabilities."""
    p = p.clip(1e-6, 1.0 - 1e-6)
    return float(-np.mean(np.where(y == 1.0, np.log(p), np.log1p(-p))))


def serve(
    calibrator: Calibrator, scores: Vector, y: Vector, delay: int, tickets: bool = False
) -> Vector:
    """Return what a calibrator serves where labels come ``delay`` samples late."""
    if delay == 0:
        return calibrator.predict_learn_many(scores, y)
    served, waiting = np.empty(len(y)), deque()
    for t, sample in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        ticket = {}
        if tickets:
            served[t], ticket["served"] = calibrator.serve_one(sample[0])
        else:
            served[t] = calibrator.predict_one(sample[0])
        waiting.append((sample, ticket))
        if len(waiting) > delay:
            sample, ticket = waiting.popleft()
            calibrator.learn_one(*sample, **ticket)
    return served


def main() -> None:
    """Print a table for each delay, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--delays", type=int, nargs="+", default=[0, 48, 500])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--streams", nargs="+", default=[*MODELS, *FORECASTS])
    arguments = parser.parse_args()
    streams = {name: read(arguments.data, name, arguments.keep) for name in arguments.streams}
    for delay in arguments.delays:
        hedges = ["hedge"] if delay == 0 else ["hedge", f"delay={delay}", "told nothing"]
        print(f"\nLabels {delay} samples late\n")
        print("| stream | " + " | ".join([*SINGLES, *hedges, "hedge − best"]) + " |")
        print("|---|" + "--:|" * (len(SINGLES) + len(hedges) + 1), flush=True)
        for name, (scores, y) in streams.items():
            losses = {
                single: log_loss(serve(make(), scores, y, delay), y)
                for single, make in SINGLES.items()
            }
            best = min(losses.values())
            losses["hedge"] = log_loss(serve(HedgedCalibrator(), scores, y, delay, True), y)
            if delay:
                told = HedgedCalibrator(delay=delay)
                losses["told"] = log_loss(serve(told, scores, y, delay), y)
                losses["nothing"] = log_loss(serve(HedgedCalibrator(), scores, y, delay), y)
            cells = [f"{loss:.4f}" for loss in losses.values()]
            print(f"| {name} | {' | '.join(cells)} | {losses['hedge'] - best:+.4f} |", flush=True)


if __name__ == "__main__":
    main()
