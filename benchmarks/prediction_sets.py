"""Prediction sets on drifting streams of many labels: coverage of windows, and sizes of sets.

    python benchmarks/prediction_sets.py [--coverage 0.9] [--n 20000] [--window 1000]
                                         [--letters letter-recognition.data.gz] [--mapie PYTHON]

Logits of ten labels are normal, and labels are drawn from their softmax; the standard deviation is
2 ("stationary"), or changes after each quarter or all the time (difficulty). Or the model claims
another softmax, of logits that are stretched and noisy after each quarter or bent all the time
(distortion), or the frequencies of labels change (label shift). Then three streams of river: LEDs,
whose noise and relevant features change, under a tree, and moving centres of six labels under a
tree and naive Bayes. ``--letters`` adds UCI's letter recognition, as in ``multiclass.py``.

A default `CalibratedClassifier` serves each stream, labels at once. Its probabilities are what all
rules get:

* lac, aps: `PredictionSetClassifier`, with its default step or with 0.01;
* split: the quantile of the last 500 scores with the correction for finite samples, refitted after
  each 500 samples, for the scores of LAC and APS. With ``--mapie`` the package MAPIE does it, by a
  Python in whose environment it is installed (``mapie_sets.py``);
* ACI: the level of this quantile of the last 1,000 scores moves by 0.005 (Gibbs & Candès 2021);
  DtACI: eight such levels, with steps from 0.001 to 0.128 (2022);
* SF-OGD, scale-free steps of the threshold, and SAOCP, strongly adaptive ones (Bhatnagar et al.
  2023), their rules written down, with the scale of the authors' package and lifetimes from 32 on.

The last four have LAC scores. A cell has the mean distance of the coverage of a window from the
target, in per cent, and the mean size of a set, without the first window. "below" is by how much
the coverage of a window is below the target, on average over windows and streams; "worst" is the
least coverage of a window.
"""

import argparse
import json
import math
import subprocess
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
from multiclass import letters
from numpy.typing import NDArray
from river import base, linear_model, naive_bayes, preprocessing, tree
from river.datasets import synth
from streams import FixedModel

from streamcal import CalibratedClassifier
from streamcal.decision import PredictionSetClassifier

Matrix = NDArray[np.float64]
Sample = tuple[dict[Any, float], Any]
K = 10  # labels of generated logits
REFIT = 500  # samples between two fits of split conformal prediction, and in each
RECENT = 1_000  # scores of which the others take quantiles


def softmax(logits: Matrix) -> Matrix:
    """Return the softmax of each row."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def draw(rng: np.random.Generator, p: Matrix) -> NDArray[np.intp]:
    """Return a label for each row of probabilities."""
    return (p.cumsum(axis=1) > rng.uniform(size=(len(p), 1))).argmax(axis=1)


def logits(kind: str, n: int) -> list[Sample]:
    """Return claimed probabilities of ten labels, and the labels."""
    rng = np.random.default_rng(1)
    t = np.arange(n)
    quarter = np.minimum(4 * t // n, 3)
    if kind == "label shift":
        tilt = np.array([0.0, -0.4, 0.4, 0.0])[quarter]
        y = draw(rng, softmax(tilt[:, None] * np.arange(K)))
        features = rng.normal(size=(n, K))
        features[t, y] += 2.0
        claimed = 2.0 * features
    else:
        spread = np.full(n, 2.0)
        if kind == "difficulty, abrupt":
            spread = np.array([3.0, 1.2, 4.0, 2.0])[quarter]
        elif kind == "difficulty, gradual":
            spread = 2.2 + 1.4 * np.sin(t / 1_500.0)
        true = rng.normal(size=(n, K)) * spread[:, None]
        y = draw(rng, softmax(true))
        claimed = true.copy()
        if kind == "distortion, abrupt":
            claimed *= np.array([1.0, 2.5, 0.5, 1.5])[quarter, None]
            claimed[quarter == 3] += rng.normal(0.0, 1.5, claimed[quarter == 3].shape)
        elif kind == "distortion, gradual":
            claimed *= np.exp(np.sin(t / 1_500.0))[:, None]
            claimed += np.sin(t / 2_000.0)[:, None] * np.linspace(-2.0, 2.0, K)
    rows = zip(softmax(claimed).tolist(), y.tolist(), strict=True)
    return [(dict(enumerate(row)), label) for row, label in rows]


def leds(n: int) -> Iterator[Sample]:
    """Yield digits of seven segments, with noise and irrelevant features that change."""
    for part, (noise, drifting) in enumerate([(0.1, 0), (0.25, 4), (0.1, 7), (0.2, 2)]):
        yield from synth.LEDDrift(
            seed=part, noise_percentage=noise, irrelevant_features=True, n_drift_features=drifting
        ).take(n // 4)


def centres(n: int) -> Iterable[Sample]:
    """Return samples around 40 centres of six labels, half of which move."""
    return synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=1,
        n_classes=6,
        n_features=8,
        n_centroids=40,
        change_speed=0.002,
        n_drift_centroids=20,
    ).take(n)


def streams(n: int, path: str | None) -> Iterator[tuple[str, base.Classifier, Iterable[Sample]]]:
    """Yield the name of each stream, its model and its samples."""
    for kind in (
        "stationary",
        "difficulty, abrupt",
        "difficulty, gradual",
        "distortion, abrupt",
        "distortion, gradual",
        "label shift",
    ):
        yield kind, FixedModel(), logits(kind, n)
    yield "LEDs, tree", tree.HoeffdingAdaptiveTreeClassifier(seed=1), leds(n)
    yield "moving centres, tree", tree.HoeffdingAdaptiveTreeClassifier(seed=1), centres(n)
    yield "moving centres, naive Bayes", naive_bayes.GaussianNB(), centres(n)
    if path is not None:
        model = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
        yield "letters, softmax", model, letters(path)


def serve(model: Any, samples: Iterable[Sample]) -> tuple[Matrix, NDArray[np.intp]]:
    """Return the calibrated probabilities, a column for each label, and the columns of labels.

    Samples whose label was not known yet are left out: no rule can cover them.
    """
    calibrated = CalibratedClassifier(model)
    answers, labels = [], []
    for x, y in samples:
        answer = calibrated.predict_proba_one(x)
        if y in answer:
            answers.append(answer)
            labels.append(y)
        calibrated.learn_one(x, y)
    columns = {label: at for at, label in enumerate(dict.fromkeys(labels))}
    p = np.array([[answer.get(label, 0.0) for label in columns] for answer in answers])
    return p, np.array([columns[y] for y in labels])


# Rules --------------------------------------------------------------------------------------------


def scores_of(p: Matrix, kind: str) -> Matrix:
    """Return scores that are low for likely labels: of LAC, or the mass of likelier ones (APS)."""
    if kind == "lac":
        return 1.0 - p
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, ranked.cumsum(axis=1) - ranked, axis=1)
    return scores


class Rule(Protocol):
    """A threshold that is learned score by score."""

    def threshold(self) -> float:
        """Return the highest score in a set."""

    def learn(self, score: float) -> None:
        """Learn the score of a label."""


class ScaleFreeSteps:
    """SF-OGD, Algorithm 2 of Bhatnagar et al. 2023; also an expert of `StronglyAdaptive`."""

    def __init__(self, miss: float, start: float = 0.0) -> None:
        self.miss, self.at, self.squares = miss, start, 0.0

    def threshold(self) -> float:
        """Return the highest score in a set."""
        return self.at

    def learn(self, score: float) -> None:
        """Take a step of the pinball loss."""
        gradient = self.miss - (score > self.at)
        self.squares += gradient**2
        self.at = max(self.at - gradient / math.sqrt(self.squares), 0.0)  # √3 / √3: scale, rate


class StronglyAdaptive:
    """SAOCP, Algorithm 1: experts of limited lifetimes, weighed by coin betting."""

    def __init__(self, miss: float) -> None:
        self.miss, self.t = miss, 1
        self.experts: dict[int, Any] = {}

    def threshold(self) -> float:
        """Return the mean of the experts' thresholds."""
        prior = {t: 1.0 / (t * t * (1.0 + math.floor(math.log2(t)))) for t in self.experts}
        shares = {t: prior[t] * max(self._weight(e), 0.0) for t, e in self.experts.items()}
        shares = shares if sum(shares.values()) > 0.0 else prior
        total = sum(shares.values())
        return sum(share / total * self.experts[t]["steps"].at for t, share in shares.items())

    @staticmethod
    def _weight(expert: dict[str, Any]) -> float:
        age = expert["age"]
        return float(expert["gain"] / age * (1.0 + expert["won"])) if age else 0.0

    def _loss(self, score: float, at: float) -> float:
        return (1.0 - self.miss) * (score - at) if score > at else self.miss * (at - score)

    def learn(self, score: float) -> None:
        """Let an expert begin, weigh all, and let them learn."""
        start = self.threshold() if self.experts else 0.0
        self.experts = {t: e for t, e in self.experts.items() if e["age"] <= e["lifetime"]}
        lifetime = 32 * (self.t & -self.t)
        steps = ScaleFreeSteps(self.miss, start)
        self.experts[self.t] = {"steps": steps, "gain": 0, "won": 0, "age": 0, "lifetime": lifetime}
        loss = self._loss(score, self.threshold())
        for expert in self.experts.values():
            weight = self._weight(expert)
            gain = (loss - self._loss(score, expert["steps"].at)) / math.sqrt(3.0)
            gain = min(max(gain / max(self.miss, 1.0 - self.miss), -float(weight > 0.0)), 1.0)
            expert["gain"] += gain
            expert["won"] += gain * weight
            expert["age"] += 1
            expert["steps"].learn(score)
        self.t += 1


class AdaptiveLevel:
    """ACI: the level of a quantile of recent scores goes up after misses."""

    def __init__(self, miss: float) -> None:
        self.miss, self.level = miss, 1.0 - miss
        self.recent: deque[float] = deque()
        self.ranked: list[float] = []

    def threshold(self) -> float:
        """Return the quantile of this level."""
        n = len(self.ranked)
        if self.level >= 1.0 or not n:
            return math.inf
        return self.ranked[min(max(math.ceil(self.level * (n + 1)) - 1, 0), n - 1)]

    def learn(self, score: float) -> None:
        """Move the level, and keep the score."""
        self.move(score)
        self.recent.append(score)
        insort(self.ranked, score)
        if len(self.recent) > RECENT:
            del self.ranked[bisect_left(self.ranked, self.recent.popleft())]

    def move(self, score: float) -> None:
        """Move the level by a step."""
        self.level += 0.005 * ((score > self.threshold()) - self.miss)


class AggregatedLevels(AdaptiveLevel):
    """DtACI, Algorithm 1 of Gibbs & Candès 2022, with the mean level of the experts."""

    def __init__(self, miss: float) -> None:
        super().__init__(miss)
        self.steps = 0.001 * 2.0 ** np.arange(8)
        self.levels = np.full(8, 1.0 - miss)
        self.weights = np.full(8, 0.125)
        squares = ((1.0 - miss) ** 2 * miss**3 + miss**2 * (1.0 - miss) ** 3) / 3.0
        self.rate = math.sqrt(3.0 / 500 * (math.log(8 * 500) + 2.0) / squares)

    def move(self, score: float) -> None:
        """Weigh the experts by their losses, and move each."""
        n = len(self.ranked)
        needed = bisect_left(self.ranked, score) / n if n else 0.5
        gaps = needed - self.levels
        losses = np.where(gaps > 0.0, (1.0 - self.miss) * gaps, -self.miss * gaps)
        self.weights *= np.exp(-self.rate * losses)
        self.weights = 0.999 * self.weights / self.weights.sum() + 0.001 / 8
        self.levels += self.steps * ((gaps > 0.0) - self.miss)
        self.level = float(self.weights @ self.levels.clip(0.0, 1.0) / self.weights.sum())


PEERS: dict[str, Callable[[float], Rule]] = {
    "ACI": AdaptiveLevel,
    "DtACI": AggregatedLevels,
    "SF-OGD": ScaleFreeSteps,
    "SAOCP": StronglyAdaptive,
}
Outcome = tuple[NDArray[np.bool_], NDArray[np.intp]]


def by_threshold(scores: Matrix, y: NDArray[np.intp], rule: Rule) -> Outcome:
    """Return which sets of a rule have their label, and the sizes of all."""
    thresholds = np.empty(len(y))
    for at, score in enumerate(scores[np.arange(len(y)), y].tolist()):
        thresholds[at] = rule.threshold()
        rule.learn(score)
    chosen = scores <= thresholds[:, None]
    return chosen[np.arange(len(y)), y], chosen.sum(axis=1)


def split(scores: Matrix, y: NDArray[np.intp], coverage: float) -> Outcome:
    """Return the same for split conformal prediction, fitted again after each `REFIT` samples."""
    n = len(y)
    own = scores[np.arange(n), y]
    thresholds = np.full(n, math.inf)
    rank = math.ceil(coverage * (REFIT + 1)) - 1
    for start in range(REFIT, n, REFIT):
        if rank < REFIT:
            thresholds[start : start + REFIT] = np.sort(own[start - REFIT : start])[rank]
    chosen = scores <= thresholds[:, None]
    return chosen[np.arange(n), y], chosen.sum(axis=1)


def by_mapie(python: str, p: Matrix, y: NDArray[np.intp], coverage: float) -> dict[str, Outcome]:
    """Return the same for MAPIE, by the name of the score."""
    with TemporaryDirectory() as folder:
        samples, answers = Path(folder) / "samples.npz", Path(folder) / "answers.npz"
        np.savez(samples, p=p, y=y, coverage=coverage, refit=REFIT)
        script = Path(__file__).with_name("mapie_sets.py")
        run = [python, script, samples, answers]
        version = subprocess.run(run, check=True, capture_output=True, text=True).stdout
        json.loads(version)
        with np.load(answers) as sets:
            return {
                kind: (sets[kind][np.arange(len(y)), y], sets[kind].sum(axis=1))
                for kind in ("lac", "aps")
            }


def ours(p: Matrix, y: NDArray[np.intp], model: PredictionSetClassifier) -> Outcome:
    """Return the same for `PredictionSetClassifier`."""
    hits, sizes = [], []
    for row, label in zip(p.tolist(), y.tolist(), strict=True):
        x = dict(enumerate(row))
        answer = model.predict_set_one(x)
        hits.append(label in answer)
        sizes.append(len(answer))
        model.learn_one(x, label)
    return np.array(hits), np.array(sizes)


def outcomes(
    p: Matrix, y: NDArray[np.intp], coverage: float, mapie: str | None
) -> Iterator[tuple[str, Outcome]]:
    """Yield the name of each rule, which of its sets have the label, and their sizes."""
    by_name = {} if mapie is None else by_mapie(mapie, p, y, coverage)
    for kind in ("lac", "aps"):
        yield kind, ours(p, y, PredictionSetClassifier(FixedModel(), coverage, score=kind))
        faster = PredictionSetClassifier(FixedModel(), coverage, score=kind, step=0.01)
        yield f"{kind}, 0.01", ours(p, y, faster)
    for kind in ("lac", "aps"):
        name = f"split, {kind}" if mapie is None else f"MAPIE, {kind}"
        yield name, by_name.get(kind) or split(scores_of(p, kind), y, coverage)
    for name, make in PEERS.items():
        yield name, by_threshold(scores_of(p, "lac"), y, make(1.0 - coverage))


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=1_000)
    parser.add_argument("--letters", help="letter-recognition.data.gz of UCI")
    parser.add_argument("--mapie", help="a Python in whose environment MAPIE is installed")
    given = parser.parse_args()
    means: dict[str, list[tuple[float, float, float, float]]] = {}
    for stream, model, samples in streams(given.n, given.letters):
        p, y = serve(model, samples)
        n = len(y) // given.window * given.window
        cells = []
        for name, (hits, sizes) in outcomes(p, y, given.coverage, given.mapie):
            covered = hits[given.window : n].reshape(-1, given.window).mean(axis=1)
            gap = float(np.abs(covered - given.coverage).mean())
            below = float(np.maximum(given.coverage - covered, 0.0).mean())
            size = float(sizes[given.window : n].mean())
            means.setdefault(name, []).append((gap, below, float(covered.min()), size))
            cells.append(f"{100 * gap:.2f} / {size:.2f}")
        if len(means[name]) == 1:
            print("| gap in % / size | " + " | ".join(means) + " |")
            print("|---|" + "--:|" * len(means))
        print(f"| {stream} | {' | '.join(cells)} |", flush=True)
    columns = {name: np.array(rows) for name, rows in means.items()}
    gaps = [f"**{100 * c[:, 0].mean():.2f} / {c[:, 3].mean():.3f}**" for c in columns.values()]
    print("| **mean** | " + " | ".join(gaps) + " |")
    print("| below | " + " | ".join(f"{100 * c[:, 1].mean():.2f}" for c in columns.values()) + " |")
    print("| worst | " + " | ".join(f"{100 * c[:, 2].min():.1f}" for c in columns.values()) + " |")


if __name__ == "__main__":
    main()
