"""Prequential MAE of the defaults for ordinal labels, beside rounding and a constant.

    python benchmarks/ordinal_streams.py [--ordinal FOLDER] [--beijing FILE] [--streams NAME ...]
                                         [--settings]

Streams of star ratings are generated: users and items with biases and latent factors, cut into
skewed stars or half stars, some with drift. FOLDER adds the sets of Chu & Ghahramani (``.npz``, see
``chu_ghahramani.py``) and human ratings (``.csv``, the label in the last column), each as a stream
in random order, with the mean over ``--orders``; FILE adds the one of ``beijing_pm25.py``.

Each sample is predicted, then learned. Nothing is tuned. *rounding* takes the nearest rank to a
linear regression by river's SGD, *thresholds* is `ThresholdClassifier` around the same regression;
*constant* is the median of the last 5,000 labels.

``--settings`` prints the table of ``docs/cusum.md`` instead: the errors of `SHOWN`, divided by the
lowest of all `SETTINGS` on the same stream.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from beijing_pm25 import read
from numpy.typing import NDArray
from river import linear_model, optim, preprocessing

from streamcal.ordinal import CuSumRank, PACuSumRank, ThresholdClassifier

Sample = tuple[dict[Any, float], int]
STARS = (-1.6, -1.1, -0.4, 0.5)
HALF_STARS = (-2.2, -1.9, -1.6, -1.4, -1.1, -0.8, -0.4, 0.1, 0.5)


def ratings(
    seed: int, cuts: tuple[float, ...] = STARS, noise: float = 0.5, drift: float = 0.0
) -> list[Sample]:
    """Generate ratings: a user and an item, one-hot, and the rank of the stars."""
    rng = np.random.default_rng(seed)
    n, users, items, factors = 20_000, 400, 300, 3
    user_bias, item_bias = rng.normal(0, 0.5, users), rng.normal(0, 0.5, items)
    tastes = rng.normal(0, 0.4, (users, factors))
    traits = rng.normal(0, 1 / np.sqrt(factors), (items, factors))
    samples = []
    for t, (user, item) in enumerate(((rng.zipf(1.3, (n, 2)) - 1) % (users, items)).tolist()):
        like = user_bias[user] + item_bias[item] + tastes[user] @ traits[item]
        like += noise * rng.normal() + drift * np.sin(6.0 * t / n)
        samples.append(
            ({f"user {user}": 1.0, f"item {item}": 1.0}, int(np.searchsorted(cuts, like)))
        )
        if drift and t % 50 == 0:
            item_bias += rng.normal(0, 0.05 * drift, items)
    return samples


def table(path: Path, order: int) -> list[Sample]:
    """Read a set and return its rows in a random order, with ranks as labels."""
    if path.suffix == ".npz":
        data = np.load(path)
        X, y = data["X5"].astype(float), data["y5"]
    else:
        rows = np.genfromtxt(path, delimiter=",", skip_header=1)
        X, y = rows[:, :-1], rows[:, -1]
    ranks = np.unique(y, return_inverse=True)[1].tolist()
    at = np.random.default_rng(order).permutation(len(ranks)).tolist()
    rows = X.tolist()
    return [(dict(enumerate(rows[i])), ranks[i]) for i in at]


Stream = Callable[[int], list[Sample]]
RATINGS: dict[str, Stream] = {
    "stars": lambda _: ratings(0),
    "stars, little noise": lambda _: ratings(1, (-2.0, -1.2, -0.2, 0.8), noise=0.15),
    "stars, drift": lambda _: ratings(2, drift=0.5),
    "half stars": lambda _: ratings(3, HALF_STARS),
}
RATES = dict.fromkeys(RATINGS, 0.05) | {"Beijing": 0.003}


PA_I = {"mode": "PA-I", "C": 1.0}
SHOWN: dict[str, tuple[type, dict[str, Any]]] = {
    "`CuSumRank`, published (`margin=0`)": (CuSumRank, {"margin": 0.0}),
    "`CuSumRank`, default": (CuSumRank, {}),
    '`PACuSumRank`, published (`margin=0`), `mode="PA-I"`, `C=1`': (
        PACuSumRank,
        PA_I | {"margin": 0.0},
    ),
    "`PACuSumRank`, default": (PACuSumRank, {}),
    'the same with `mode="PA-I"`, `C=1`, `averaging=1000`': (
        PACuSumRank,
        PA_I | {"averaging": 1_000},
    ),
}
SETTINGS = [
    *SHOWN.values(),  # the first columns; they are among the others, too
    *(
        (CuSumRank, {"margin": margin, "averaging": averaging})
        for margin, averaging in product((0.0, 3.0, 10.0, 20.0, 30.0, 100.0), (None, 1_000))
    ),
    *(
        (PACuSumRank, {"mode": mode, "C": C, "margin": margin, "averaging": averaging})
        for mode, C, margin, averaging in product(
            ("PA-I", "PA-II"), (0.01, 0.1, 1.0), (0.0, 1.0), (None, 1_000)
        )
    ),
]


class Constant:
    """The median of the last labels."""

    def __init__(self) -> None:
        self.labels: list[int] = []

    def predict_one(self, _: Any) -> int:
        """Return the median."""
        return int(np.median(self.labels[-5_000:])) if self.labels else 0

    def learn_one(self, _: Any, y: int) -> None:
        """Add a label."""
        self.labels.append(y)


def models(n_labels: int, one_hot: bool, rate: float) -> Iterator[tuple[str, Any]]:
    """Yield the name and the model of each column; ``rate`` is that of the regression."""
    labels = range(n_labels)

    def scaled(model: Any) -> Any:
        return model if one_hot else preprocessing.StandardScaler() | model

    def regression() -> Any:
        return scaled(linear_model.LinearRegression(optim.SGD(rate)))

    yield "constant", Constant()
    yield "rounding", regression()
    yield "thresholds", ThresholdClassifier(regression(), labels)
    yield "every=None", ThresholdClassifier(regression(), labels, every=None)
    yield "CuSumRank", scaled(CuSumRank(labels))
    yield "margin=0", scaled(CuSumRank(labels, margin=0.0))
    yield "PACuSumRank", scaled(PACuSumRank(labels))
    yield "published", scaled(PACuSumRank(labels, mode="PA-I", C=1.0, margin=0.0))


def error(model: Any, samples: list[Sample], n_labels: int) -> float:
    """Return the mean absolute error; answers are rounded to a rank."""
    total = 0
    for x, y in samples:
        answer = model.predict_one(x) or 0
        total += abs(min(max(round(answer), 0), n_labels - 1) - y)
        model.learn_one(x, y)
    return total / len(samples)


def errors_of_settings(samples: list[Sample], n_labels: int, one_hot: bool) -> list[float]:
    """Return the error of a constant and of each of `SETTINGS`, on the same scaled features."""
    scaler, features = preprocessing.StandardScaler(), []
    for x, y in samples:
        if not one_hot:
            scaler.learn_one(x)
            x = scaler.transform_one(x)
        features.append((x, y))
    found = [error(Constant(), features, n_labels)]
    for kind, options in SETTINGS:
        found.append(error(kind(range(n_labels), **options), features, n_labels))
    return found


def print_settings(errors: NDArray[np.float64]) -> None:
    """Print the table; rows are streams, the first column is the constant's."""
    constant, settings = errors[:, :1], errors[:, 1:]
    ratios = settings / settings.min(axis=1, keepdims=True)
    worse = (settings > constant + 0.003).sum(axis=0)
    print(f"{len(errors)} streams, {len(SETTINGS) - len(SHOWN)} settings:")
    print("| | geometric mean | worst | streams on which it is worse than a constant by .003 |")
    print("|---|---|---|---|")
    for i, name in enumerate(SHOWN):
        mean = np.exp(np.log(ratios[:, i]).mean())
        print(f"| {name} | {mean:.2f} | {ratios[:, i].max():.2f} | {worse[i]} |")


def main() -> None:
    """Print a line for each stream."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ordinal", type=Path)
    parser.add_argument("--beijing", type=Path)
    parser.add_argument("--streams", nargs="+", help="all by default")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--settings", action="store_true")
    arguments = parser.parse_args()
    streams: dict[str, tuple[Stream, int]] = {name: (get, 1) for name, get in RATINGS.items()}
    if arguments.beijing:
        streams["Beijing"] = (lambda _: read(arguments.beijing)), 1
    if arguments.ordinal:
        for path in sorted(arguments.ordinal.iterdir()):
            streams[path.stem] = partial(table, path), arguments.orders
    every = []
    if not arguments.settings:
        print(" " * 27 + "".join(f"{name:>12}" for name, _ in models(3, False, 0.01)))
    for name in arguments.streams or streams:
        get, orders = streams[name]
        errors = []
        for order in range(orders):
            samples = get(order)
            n_labels = 1 + max(y for _, y in samples)
            if arguments.settings:
                errors.append(errors_of_settings(samples, n_labels, name in RATINGS))
                continue
            columns = models(n_labels, name in RATINGS, RATES.get(name, 0.01))
            errors.append([error(model, samples, n_labels) for _, model in columns])
        every.append(np.mean(errors, axis=0))
        means = "".join(f"{mae:12.4f}" for mae in every[-1])
        if not arguments.settings:
            print(f"{name:20}{len(samples):7}{means}", flush=True)
    if arguments.settings:
        print_settings(np.array(every))


if __name__ == "__main__":
    main()
