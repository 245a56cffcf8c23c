"""Models that know no label at first, by river's own evaluation: as they are, and calibrated.

    python benchmarks/first_labels.py

A tree or naive Bayes answers only labels that it has learned, so the first of the other label can
cost very much. Each row is `river.evaluate.progressive_val_score` with `river.metrics.LogLoss`, on
Phishing in its own order, in ten random orders (the mean), and sorted, with all negatives first.

Another wrapper is measured beside the default of `CalibratedClassifier` if it is installed:
`OnlinePlattScaling` with its default parameters (``pip install dense-armor==1.2.0``).
"""

import importlib.util
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from river import base, datasets, evaluate, metrics, naive_bayes, preprocessing, tree

from streamcal import CalibratedClassifier

Samples = list[tuple[Any, Any]]

MODELS: dict[str, Callable[[], base.Classifier]] = {
    "Hoeffding tree": tree.HoeffdingTreeClassifier,
    "naive Bayes": naive_bayes.GaussianNB,
    "scaled, Hoeffding tree": lambda: (
        preprocessing.StandardScaler() | tree.HoeffdingTreeClassifier()
    ),
    "scaled, naive Bayes": lambda: preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
}


def orders(samples: Samples) -> Iterable[tuple[str, list[Samples]]]:
    """Yield the name of each order, and the samples in that order, maybe several times."""
    yield "as it is", [samples]
    shuffled = [np.random.default_rng(seed).permutation(len(samples)) for seed in range(10)]
    yield "random", [[samples[i] for i in order] for order in shuffled]
    yield "sorted", [sorted(samples, key=lambda sample: bool(sample[1]))]


def wrappers() -> dict[str, Callable[[base.Classifier], Any]]:
    """Return the columns of the table."""
    found: dict[str, Callable[[base.Classifier], Any]] = {"alone": lambda model: model}
    if importlib.util.find_spec("dense_armor"):
        from dense_armor.utility.learn.calibration import OnlinePlattScaling

        found["dense-armor"] = OnlinePlattScaling
    return found | {"streamcal": CalibratedClassifier}


def main() -> None:
    """Print a table as Markdown."""
    columns = wrappers()
    print(f"| order | model | {' | '.join(columns)} |")
    print("|---|---|" + "--:|" * len(columns))
    for order, streams in orders(list(datasets.Phishing())):
        for name, make in MODELS.items():
            cells = []
            for wrap in columns.values():
                losses = [
                    evaluate.progressive_val_score(stream, wrap(make()), metrics.LogLoss()).get()
                    for stream in streams
                ]
                cells.append(f"{np.mean(losses):.4f}")
            print(f"| {order} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
