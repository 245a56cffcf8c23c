"""The default with late labels on streams that are not in the study: models on river's generators.

    python benchmarks/late_models.py [--delays 48 500] [--streams NAME ...] [--samples 20000]

Scores are the predictions of Gaussian naive Bayes or logistic regression before it learns a sample;
the models learn at once, the calibrators late. Most streams change once or all the time. "best" is
the calibrator of the default set with the least loss over the whole stream. Nothing is downloaded.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from river.datasets import base, synth
from streams import MODELS, log_loss, scored, serve

from streamcal import HedgedCalibrator
from streamcal.calibration.hedged import default_calibrators


def changing(make: Callable[[int], base.SyntheticDataset], width: int) -> base.SyntheticDataset:
    """Return a stream that changes from the first to the second variant around sample 8,000."""
    return synth.ConceptDriftStream(make(0), make(1), position=8_000, width=width, seed=1)


def sea(k: int) -> base.SyntheticDataset:
    """Return one of two variants: sums of two features, with another bound."""
    return synth.SEA(variant=3 * k, seed=1 + k, noise=0.1)


def agrawal(k: int) -> base.SyntheticDataset:
    """Return one of two variants: loans, by another rule."""
    return synth.Agrawal(classification_function=2 * k, seed=1 + k)


def sine(k: int) -> base.SyntheticDataset:
    """Return one of two variants: a sine, with the labels exchanged."""
    return synth.Sine(classification_function=k, seed=1)


def mixed(k: int) -> base.SyntheticDataset:
    """Return one of two variants: two rules, with the labels exchanged."""
    return synth.Mixed(classification_function=k, seed=1)


def stagger(k: int) -> base.SyntheticDataset:
    """Return one of two variants: three categories, by another rule."""
    return synth.STAGGER(classification_function=2 * k, seed=1)


STREAMS: dict[str, tuple[str, Callable[[], base.SyntheticDataset]]] = {
    "SEA, steady": ("naive Bayes", lambda: sea(0)),
    "SEA": ("logistic", lambda: changing(sea, 50)),
    "Agrawal, steady": ("naive Bayes", lambda: synth.Agrawal(classification_function=6, seed=3)),
    "Agrawal": ("naive Bayes", lambda: changing(agrawal, 2_000)),
    "Sine": ("naive Bayes", lambda: changing(sine, 50)),
    "Mixed": ("naive Bayes", lambda: changing(mixed, 3_000)),
    "STAGGER": ("naive Bayes", lambda: changing(stagger, 50)),
    "hyperplane": (
        "logistic",
        lambda: synth.Hyperplane(seed=1, n_drift_features=5, mag_change=0.01),
    ),
    "hyperplane, fast": (
        "naive Bayes",
        lambda: synth.Hyperplane(seed=2, n_features=8, n_drift_features=8, mag_change=0.1),
    ),
    "radial basis functions": (
        "naive Bayes",
        lambda: synth.RandomRBFDrift(
            seed_model=1, seed_sample=1, n_features=6, change_speed=0.001, n_drift_centroids=10
        ),
    ),
    "waveform": ("logistic", lambda: synth.Waveform(seed=1)),
    "LED": ("naive Bayes", lambda: synth.LEDDrift(seed=1, noise_percentage=0.2)),
}


def samples(stream: base.SyntheticDataset, n: int) -> Iterator[tuple[dict[str, float], bool]]:
    """Yield numeric features and a boolean label; the first half of several labels is False."""
    most = max((stream.n_classes or 2) // 2, 1)
    for x, y in islice(stream, n):
        yield {str(name): float(value) for name, value in x.items()}, int(y) >= most


def main(arguments: list[str] | None = None) -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delays", type=int, nargs="+", default=[48, 500])
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--samples", type=int, default=20_000)
    given = parser.parse_args(arguments)
    heads = ["stream", "model", "raw"]
    heads += [f"{d} late: {what}" for d in given.delays for what in ("default − best", "− raw")]
    print("| " + " | ".join(heads) + " |\n|---|---|" + "--:|" * (len(heads) - 2))
    for name in given.streams:
        model, make = STREAMS[name]
        scores, y = scored(MODELS[model](), samples(make(), given.samples))
        raw = log_loss(scores, y)
        cells: list[Any] = [name, model, f"{raw:.4f}"]
        for delay in given.delays:
            singles = [log_loss(serve(one, scores, y, delay), y) for one in default_calibrators()]
            default = log_loss(serve(HedgedCalibrator(), scores, y, delay, True), y)
            cells += [f"{default - min(singles):+.4f}", f"{default - raw:+.4f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
