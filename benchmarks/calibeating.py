"""The experiment of *Online Platt Scaling with Calibeating* on bank marketing, and our calibrators.

    python benchmarks/calibeating.py bank.csv [--runs 20] [--sorted]

``bank.csv`` is the file of that name in the paper's repository (AIgen/df-posthoc-calibration on
GitHub): 12,870 rows of UCI's bank marketing data, without the duration of the call.

A run draws 12,000 rows in random order. scikit-learn's random forest is fitted to 1,000 of them
and predicts the others in turn, a label at a time; the first 1,000 predictions are not counted.
With ``--sorted``, the rows are in the order of age, plus or minus a year: the paper's drift.

The calibration error is their measure, with ten bins of equal width; sharpness is the mean squared
mean label of these bins. *Published* numbers are means over the 100 runs in their
``results/real_data/bank_0.npy``, the data of the paper's figure. They have no log loss.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from peers import BINS, Hedging, Tracking
from sklearn.ensemble import RandomForestClassifier
from streams import CLIP, Vector, log_loss
from study import CALIBRATORS, Stream, one_by_one, online
from study_tables import markdown

from streamcal import HedgedCalibrator

N, TRAINED, SKIPPED = 12_000, 1_000, 1_000
METHODS = {
    "raw": online(CALIBRATORS["raw"]),
    "Platt (OPS)": online(CALIBRATORS["Platt"]),
    "TOPS": one_by_one(Tracking),
    "HOPS": one_by_one(Hedging),
    "Platt, calibeating": online(CALIBRATORS["Platt, calibeating"]),
    "isotonic": online(CALIBRATORS["isotonic"]),
    "default": online(HedgedCalibrator),
}
PUBLISHED = {
    "raw": (0.0316, 0.1381),
    "Platt (OPS)": (0.0302, 0.1377),
    "TOPS": (0.0069, 0.1368),
    "HOPS": (0.0178, 0.1364),
}


def stream(path: Path, seed: int, by_age: bool) -> Stream:
    """Return the scores of a forest and the labels, in the order of a run."""
    rng = np.random.default_rng(seed)
    rows = pd.read_csv(path).drop(columns="ID").sample(N, random_state=seed)
    if by_age:
        rows = rows.iloc[(rows["age"] + rng.integers(-1, 2, N)).argsort(kind="stable")]
    y = (rows.pop("y") == "yes").to_numpy(np.float64)
    X = pd.get_dummies(rows, drop_first=True).to_numpy(np.float64)
    forest = RandomForestClassifier(1_000, random_state=seed).fit(X[:TRAINED], y[:TRAINED])
    scores = forest.predict_proba(X[TRAINED:])[:, 1].clip(1e-5, 1.0 - 1e-5)
    return Stream("bank", scores, y[TRAINED:])


def measures(p: Vector, y: Vector) -> tuple[float, float, float, float]:
    """Return calibration error, sharpness, Brier score and log loss."""
    bins = np.ceil(p * BINS).clip(1, BINS).astype(int) - 1
    counts = np.bincount(bins, minlength=BINS)
    predicted, labels = (np.bincount(bins, each, BINS) for each in (p, y))
    error = np.abs(predicted - labels).sum() / len(y)
    sharpness = (labels**2 / counts.clip(1)).sum() / len(y)
    return error, sharpness, float(np.mean((p - y) ** 2)), log_loss(p.clip(CLIP, 1.0 - CLIP), y)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("bank", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sorted", action="store_true", help="by age")
    given = parser.parse_args()
    results: dict[str, list[tuple[float, ...]]] = {name: [] for name in METHODS}
    for seed in range(given.runs):
        one = stream(given.bank, seed, given.sorted)
        for name, run in METHODS.items():
            served, _ = run(one, 0)
            results[name].append(measures(served[SKIPPED:], one.y[SKIPPED:]))
    published = {} if given.sorted else PUBLISHED
    heads = ["", "calibration error, published", "here", "sharpness, published", "here"]
    lines = []
    for name, rows in results.items():
        theirs = [f"{value:.4f}" for value in published.get(name, ())] or ["", ""]
        error, sharpness, *scores = (f"{mean:.4f}" for mean in np.mean(rows, axis=0))
        spread = np.std(rows, axis=0)[0] / np.sqrt(len(rows))
        lines.append([name, theirs[0], f"{error} ± {spread:.4f}", theirs[1], sharpness, *scores])
    print(markdown([*heads, "Brier", "log loss"], lines))


if __name__ == "__main__":
    main()
