"""Mean absolute error of the ordinal learners on the partitions of Chu & Ghahramani.

    python benchmarks/chu_ghahramani.py FOLDER [--sets stocksdomain ...] [--bins 5] [--models ...]

FOLDER holds one ``.npz`` a set, with the arrays X5, y5 (labels 1..K), train5 and test5 (a row of
indices for each of the 20 partitions), and the same with 10. The protocol is that of *Cumulative
Sum Ranking* (arXiv 1911.11255, section 8) with two differences: the features are random Fourier
features instead of a trained hidden layer, and every choice is made by 5-fold cross-validation,
twice, inside the training part of each partition, never on the test part or across partitions.

Features are standardised by the training part. ``GRIDS`` are all the values that are tried; the
number of epochs is chosen with them. Every epoch passes through the samples in a new order. What
is printed is the mean and the standard deviation over partitions of the MAE on the test part.
"""

import argparse
import importlib.util
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from streamcal.ordinal import CuSumRank, KernelCuSumRank, PACuSumRank, PRank, RandomFourierFeatures

Matrix = NDArray[np.float64]
Ranks = NDArray[np.int64]
# Yields what is predicted for each number of epochs, or for whatever else is free on the way.
Fit = Callable[..., Iterator[Ranks]]

FOLDS, REPEATS = 5, 2
COMPONENTS = 300
EPOCHS = (10, 40)
KERNEL_EPOCHS = (2, 6)
LINEAR: dict[str, tuple[float, ...]] = {"margin": (0.0, 0.3, 1.0, 3.0, 10.0)}
GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0, 8.0)  # divided by the number of features
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "PRank": LINEAR,
    "CuSum": LINEAR,
    "PA-CuSum": {"C": (0.001, 0.01, 0.1, 1.0)},
    "CuSum, random features": {"gamma": GAMMAS, "margin": (1.0,)},
    "CuSum, random and plain": {"gamma": GAMMAS, "margin": (1.0,)},
    "CuSum, rbf kernel": {"gamma": GAMMAS, "margin": (1.0,)},
    "SVM, rbf kernel": {"gamma": GAMMAS, "C": (1.0, 10.0, 100.0, 1000.0)},
    "mord, LogisticAT": {"alpha": (0.01, 0.1, 1.0, 10.0)},
}


def epochs(model: Any, X: Matrix, y: Ranks, T: Matrix, seed: int) -> Iterator[Ranks]:
    """Yield the predictions for ``T`` after each number of ``EPOCHS``."""
    rng = np.random.default_rng(seed)
    names = [str(i) for i in range(X.shape[1])]
    test = pd.DataFrame(T, columns=names)
    for done, until in itertools.pairwise((0, *EPOCHS)):
        order = np.concatenate([rng.permutation(len(y)) for _ in range(done, until)])
        model.learn_many(pd.DataFrame(X[order], columns=names), pd.Series(y[order]))
        yield model.predict_many(test).to_numpy()


def linear(learner: Any, **options: Any) -> Fit:
    """Return the fit of a learner on the features as they are."""

    def fit(X: Matrix, y: Ranks, T: Matrix, n: int, seed: int, **values: float) -> Iterator[Ranks]:
        model = learner(labels=range(n), averaging="uniform", window=1, **options, **values)
        return epochs(model, X, y, T, seed)

    return fit


def random_features(plain: float) -> Fit:
    """Return the fit of averaged-margin CuSum on random Fourier features.

    With ``plain``, the features themselves stand beside them, of mean square ``plain``² together.
    """

    def fit(
        X: Matrix, y: Ranks, T: Matrix, n: int, seed: int, *, gamma: float, margin: float
    ) -> Iterator[Ranks]:
        features = RandomFourierFeatures(COMPONENTS, gamma=gamma / X.shape[1], seed=seed)
        model = CuSumRank(labels=range(n), averaging="uniform", margin=margin, window=1)
        mapped = [features.transform_many(pd.DataFrame(part)).to_numpy() for part in (X, T)]
        if plain:
            scale = plain / np.sqrt(X.shape[1])
            mapped = [np.hstack(pair) for pair in zip(mapped, (scale * X, scale * T), strict=True)]
        return epochs(model, mapped[0], y, mapped[1], seed)

    return fit


def kernel(
    X: Matrix, y: Ranks, T: Matrix, n: int, seed: int, *, gamma: float, margin: float
) -> Iterator[Ranks]:
    """Averaged-margin CuSum in its dual form."""
    options: dict[str, Any] = {"labels": range(n), "averaging": "uniform", "margin": margin}
    model = KernelCuSumRank(gamma=gamma / X.shape[1], budget=None, window=1, **options)
    rng = np.random.default_rng(seed)
    samples = [dict(enumerate(row)) for row in X.tolist()]
    queries = [dict(enumerate(row)) for row in T.tolist()]
    for epoch in range(1, KERNEL_EPOCHS[-1] + 1):
        for i in rng.permutation(len(y)).tolist():
            model.learn_one(samples[i], int(y[i]))
        if epoch in KERNEL_EPOCHS:
            yield np.array([model.predict_one(x) for x in queries])


def svm(
    X: Matrix, y: Ranks, T: Matrix, n: int, seed: int, *, gamma: float, C: float
) -> Iterator[Ranks]:
    """One support-vector machine for each boundary, and the count of those that are passed."""
    from sklearn.svm import SVC

    rank = np.zeros(len(T), np.int64)
    for k in range(1, n):
        above = y >= k
        if above.all() or not above.any():
            rank += above.all()
            continue
        rank += SVC(C=C, gamma=gamma / X.shape[1]).fit(X, above).predict(T)
    yield rank


def mord(X: Matrix, y: Ranks, T: Matrix, n: int, seed: int, *, alpha: float) -> Iterator[Ranks]:
    """The all-threshold ordinal logistic regression of mord."""
    from mord import LogisticAT

    yield LogisticAT(alpha=alpha).fit(X, y).predict(T)


MODELS: dict[str, Fit] = {
    "PRank": linear(PRank),
    "CuSum": linear(CuSumRank),
    "PA-CuSum": linear(PACuSumRank, mode="PA-I"),
    "CuSum, random features": random_features(0.0),
    "CuSum, random and plain": random_features(0.3),
    "CuSum, rbf kernel": kernel,
    "SVM, rbf kernel": svm,
    "mord, LogisticAT": mord,
}
NEEDS = {"SVM, rbf kernel": "sklearn", "mord, LogisticAT": "mord"}


def candidates(name: str) -> Iterator[dict[str, float]]:
    """Yield every point of a model's grid."""
    grid = GRIDS[name]
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def scaled(X: Matrix, T: Matrix) -> tuple[Matrix, Matrix]:
    """Return both parts standardised by the first."""
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    deviation[deviation == 0.0] = 1.0
    return (X - mean) / deviation, (T - mean) / deviation


def errors(
    name: str, X: Matrix, y: Ranks, train: Ranks, test: Ranks, seed: int, values: dict[str, float]
) -> NDArray[np.float64]:
    """Return the MAE on ``test`` for each number of epochs."""
    A, T = scaled(X[train], X[test])
    # The number of labels is that of the whole set; a label may be missing from a part.
    fitted = MODELS[name](A, y[train], T, int(y.max()) + 1, seed, **values)
    return np.array([np.abs(rank - y[test]).mean() for rank in fitted])


def partition_error(
    name: str, X: Matrix, y: Ranks, train: Ranks, test: Ranks, seed: int
) -> tuple[float, dict[str, float]]:
    """Choose by cross-validation in ``train``; return the MAE on ``test`` and what was chosen."""
    folds = []
    for repeat in range(REPEATS):
        shuffled = np.random.default_rng([seed, repeat]).permutation(train)
        folds += [(REPEATS * seed + repeat, fold) for fold in np.array_split(shuffled, FOLDS)]
    best, chosen, stop = np.inf, {}, 0
    for values in candidates(name):
        validated = np.mean(
            [
                errors(name, X, y, np.setdiff1d(train, fold), fold, repeat, values)
                for repeat, fold in folds
            ],
            axis=0,
        )
        if validated.min() < best:
            best, chosen, stop = validated.min(), values, int(validated.argmin())
    return float(errors(name, X, y, train, test, seed, chosen)[stop]), {**chosen, "stop": stop}


def main() -> None:
    """Print a line for each set and model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", help="all by default")
    parser.add_argument("--bins", type=int, choices=(5, 10), default=5)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--partitions", type=int, default=20)
    parser.add_argument("--verbose", action="store_true", help="what was chosen how often")
    arguments = parser.parse_args()
    for path in sorted(arguments.folder.glob("*.npz")):
        if arguments.sets and path.stem not in arguments.sets:
            continue
        data, bins = np.load(path), arguments.bins
        X, y = data[f"X{bins}"].astype(np.float64), data[f"y{bins}"].astype(np.int64) - 1
        parts = list(zip(data[f"train{bins}"], data[f"test{bins}"], strict=True))
        for name in arguments.models:
            if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
                continue
            start = time.perf_counter()
            results = [
                partition_error(name, X, y, *part, seed)
                for seed, part in enumerate(parts[: arguments.partitions])
            ]
            mae = np.array([error for error, _ in results])
            seconds = time.perf_counter() - start
            print(
                f"{path.stem:15}{bins:3} bins  {name:24}{mae.mean():.3f} ± {mae.std(ddof=1):.3f}"
                f"  ({seconds:.0f} s)",
                flush=True,
            )
            if arguments.verbose:
                for _, chosen in results:
                    print("   ", chosen)


if __name__ == "__main__":
    main()
