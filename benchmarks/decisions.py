"""The real-data protocol of Natarajan et al. (section 5.2, tables 2 and 3), on three of their sets.

    python benchmarks/decisions.py FOLDER [--seeds 20]

FOLDER holds breast.w.arff, spambase.arff.gz and letter-recognition.data.gz. For each split (of the
paper's sizes) an L2-regularised logistic regression gives probabilities, and three rules decide for
the test set: threshold ½ (baseline), the threshold that is best on the second half of the training
set, the model being fit to the first (EUM), and the labels of best expected metric (DTA). What is
printed is the metric of the decisions, mean over splits; for letters, mean over the 26 letters.

A second table has the same with probabilities calibrated on the second half (isotonic).
Needs scikit-learn (`pip install '.[bench]'`).
"""

import argparse
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from streamcal import isotonic_fit
from streamcal.decision import EUMThreshold, get_metric, maximize

METRICS = ("f1", "jaccard", "am", "gtppr")
RULES = ("baseline", "EUM", "DTA")
SIZES = {"breast": 463, "spambase": 3071, "letters": 16_000}  # of the training sets

Matrix = NDArray[np.float64]


def lines(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV or ARFF file without those that miss a value."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    in_data = ".arff" not in path.name
    for line in text.splitlines():
        row = line.strip().split(",")
        if in_data and len(row) > 1 and "?" not in row:
            yield row
        in_data = in_data or line.lower().startswith("@data")


def load(folder: Path, name: str) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return features and labels, one column of labels for each problem."""
    if name == "breast":
        rows = list(lines(folder / "breast.w.arff"))
        labels = np.array([[row[-1] == "malignant"] for row in rows])
        return np.array([row[:-1] for row in rows], float), labels
    if name == "spambase":
        table = np.array(list(lines(folder / "spambase.arff.gz")), float)
        return table[:, :-1], table[:, -1:] == 1.0
    rows = [row for row in lines(folder / "letter-recognition.data.gz") if row[0] != "Letter"]
    letters = np.array([row[0] for row in rows])
    labels = letters[:, None] == np.unique(letters)[None, :]
    return np.array([row[1:] for row in rows], float), labels


def utility(metric: str, labels: NDArray[np.bool_], y: NDArray[np.bool_]) -> float:
    """Return the metric of decisions that are known to be right or wrong."""
    tables = np.array([labels & y, labels & ~y, ~labels & y, ~labels & ~y]).sum(axis=1)
    return float(get_metric(metric)(*tables))


def one_split(
    X: Matrix, y: NDArray[np.bool_], n_train: int, seed: int, calibrated: bool
) -> NDArray[np.float64]:
    """Return the metric of each rule, shape (rules, metrics)."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    fit_on, rest = train[: n_train // 2], train[n_train // 2 :]

    def model(rows: NDArray[np.int64]) -> LogisticRegression:
        made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
        return made.fit(X[rows], y[rows])

    half = model(fit_on)
    p_rest, p_half = half.predict_proba(X[rest])[:, 1], half.predict_proba(X[test])[:, 1]
    if calibrated:
        staircase = isotonic_fit(p_rest, y[rest])
        p = np.clip(staircase(p_half, outside="clip"), 0.0, 1.0)
    else:
        p = model(train).predict_proba(X[test])[:, 1]
    out = np.empty((len(RULES), len(METRICS)))
    for column, metric in enumerate(METRICS):
        eum = EUMThreshold(metric)
        eum.learn_many(p_rest, y[rest])
        decisions = (p >= 0.5, p_half >= eum.threshold, maximize(p, metric).labels)
        out[:, column] = [utility(metric, labels, y[test]) for labels in decisions]
    return out


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20, help="splits; of letters a tenth")
    arguments = parser.parse_args()
    head = " | ".join(f"{metric} {rule}" for metric in METRICS for rule in RULES)
    for calibrated in (False, True):
        print(f"\n{'calibrated' if calibrated else 'not calibrated'}\n| data | {head} |")
        for name, n_train in SIZES.items():
            X, labels = load(arguments.folder, name)
            seeds = arguments.seeds if labels.shape[1] == 1 else max(1, arguments.seeds // 10)
            results = np.mean(
                [
                    one_split(X, y, n_train, seed, calibrated)
                    for y in labels.T
                    for seed in range(seeds)
                ],
                axis=0,
            )
            cells = " | ".join(f"{value:.4f}" for value in results.T.ravel())
            print(f"| {name} (n={len(X)}) | {cells} |", flush=True)


if __name__ == "__main__":
    main()
