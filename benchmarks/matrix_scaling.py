"""Regularised matrix scaling as one more map of all labels: what it would gain.

    python benchmarks/matrix_scaling.py [--letters letter-recognition.data.gz]

The models are neural networks: scikit-learn's `MLPClassifier` on its digits (each fifth by a
network that was trained on the others), and, with a file of UCI's letter recognition, on the
letters A to J and on all 26 (trained on the first 3,000 and 8,000 samples; the others are the
stream). The generated logits are those of ``multiclass.py``.

The candidate's logits are W log p + b. It minimises the log loss of all samples so far plus λ/2
times the squares of what is regularised: the off-diagonal of W ("ODIR", Kull et al., *Beyond
Temperature Scaling*, NeurIPS 2019, which leaves the diagonal nearly free), or W less the identity
("L2"), and always b. It is fitted anew whenever there are a tenth more samples, but after 5 at
least and 250 at most. Its λ is the best of four in hindsight, which favours it.

Columns: the log loss over all labels of the raw probabilities, the temperature and the default;
then those of the two candidates less the default's, each alone, and mixed with it by the likelihood
so far, with equal weights at first. The raw probabilities are mixed with the default for
comparison: a candidate that hardly leaves the identity gains as much. Everything is prequential,
labels at once.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from multiclass import letters, logits
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp
from sklearn.datasets import load_digits
from sklearn.model_selection import KFold
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from streams import FixedModel

from streamcal import CalibratedClassifier, HedgedCalibrator, TemperatureCalibrator

Array = NDArray[np.float64]
Stream = tuple[Array, NDArray[np.intp]]  # probabilities, and the column of the label

STRENGTHS = (10.0, 100.0, 1_000.0, 10_000.0)  # λ
CLIP = 1e-6


def network() -> MLPClassifier:
    """Return a network that learns its training set nearly by heart."""
    return make_pipeline(StandardScaler(), MLPClassifier((128,), random_state=0, max_iter=1_000))


def digits() -> Stream:
    """Return what networks answer that have not seen the digits, in random order."""
    x, y = load_digits(return_X_y=True)
    p = np.empty((len(y), 10))
    for train, test in KFold(5, shuffle=True, random_state=0).split(x):
        p[test] = network().fit(x[train], y[train]).predict_proba(x[test])
    order = np.random.default_rng(0).permutation(len(y))
    return p[order], y[order]


def of_letters(path: str, n_labels: int, n_train: int) -> Stream:
    """Return what a network answers for the first letters of the alphabet."""
    samples = [(list(x.values()), ord(label) - ord("A")) for x, label in letters(path)]
    x, y = (np.array(part) for part in zip(*samples, strict=True))
    x, y = x[y < n_labels], y[y < n_labels]
    model = network().fit(x[:n_train], y[:n_train])
    return model.predict_proba(x[n_train:]), y[n_train:]


def streams(path: str | None) -> Iterator[tuple[str, Stream]]:
    """Yield the name of each stream and its samples."""
    for kind in ("too sure", "too shy", "noise"):
        rows, y = zip(*logits(kind, 5_000), strict=True)
        yield f"ten labels, {kind}", (np.array([list(row.values()) for row in rows]), np.array(y))
    yield "digits, network", digits()
    if path:
        yield "letters A to J, network", of_letters(path, 10, 3_000)
        yield "letters, network", of_letters(path, 26, 8_000)


def serve(stream: Stream, calibrator: object) -> Array:
    """Return the log loss of each sample by a calibrator of this library."""
    model = CalibratedClassifier(FixedModel(), calibrator)
    found = []
    for row, label in zip(stream[0].tolist(), stream[1].tolist(), strict=True):
        raw = dict(enumerate(row))
        found.append(model.predict_proba_one(raw)[label])
        model.learn_one(raw, label)
    return -np.log(np.clip(found, CLIP, 1.0 - CLIP))


def refitted(stream: Stream, strength: float, diagonal: bool) -> Array:
    """Return the log loss of each sample by matrix scaling.

    ``diagonal`` says whether the diagonal is regularised, too.
    """
    z, y = np.log(stream[0].clip(CLIP, 1.0)), stream[1]
    k = z.shape[1]
    start = np.vstack([np.eye(k), np.zeros(k)])
    penalty = np.full(start.shape, strength)
    if not diagonal:
        np.fill_diagonal(penalty, 0.01)
    features = np.column_stack([z, np.ones(len(y))])
    hits = np.eye(k)[y]

    def objective(flat: Array, n: int) -> tuple[float, Array]:
        moved = flat.reshape(start.shape) - start
        log_p = log_softmax(features[:n] @ (start + moved), axis=1)
        gradient = features[:n].T @ (np.exp(log_p) - hits[:n]) + penalty * moved
        return float(
            0.5 * (penalty * moved**2).sum() - log_p[hits[:n] > 0.0].sum()
        ), gradient.ravel()

    found, weights = np.empty(len(y)), start.ravel()
    n = 0
    while n < len(y):
        if n:
            weights = minimize(objective, weights, (n,), "L-BFGS-B", True).x
        now = slice(n, n + min(max(n // 10, 5), 250))
        log_p = log_softmax(features[now] @ weights.reshape(start.shape), axis=1)
        found[now] = -log_p[hits[now] > 0.0]
        n = now.stop
    return found.clip(None, -np.log(CLIP))


def mixed(one: Array, other: Array) -> float:
    """Return the mean log loss of the mixture of two by their likelihoods so far."""
    return float(-logsumexp([-one.sum(), -other.sum()], b=0.5)) / len(one)


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--letters", help="letter-recognition.data.gz of UCI")
    heads = ["stream", "samples", "raw", "temperature", "default", "default and raw"]
    heads += ["ODIR (λ)", "default and ODIR", "L2 (λ)", "default and L2"]
    print("| " + " | ".join(heads) + " |\n|---|" + "--:|" * (len(heads) - 1))
    for name, stream in streams(parser.parse_args().letters):
        p, y = stream
        raw = -np.log(p[np.arange(len(y)), y].clip(CLIP, 1.0 - CLIP))
        temperature, default = (
            serve(stream, each) for each in (TemperatureCalibrator(), HedgedCalibrator())
        )
        cells = [
            name,
            f"{len(y):,}",
            *(f"{each.mean():.4f}" for each in (raw, temperature, default)),
        ]
        cells.append(f"{mixed(default, raw) - default.mean():+.4f}")
        for diagonal in (False, True):
            runs = {strength: refitted(stream, strength, diagonal) for strength in STRENGTHS}
            best = min(runs, key=lambda strength: runs[strength].sum())
            gain = runs[best].mean() - default.mean()
            cells.append(f"{gain:+.4f} ({best:g})")
            cells.append(f"{mixed(default, runs[best]) - default.mean():+.4f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
