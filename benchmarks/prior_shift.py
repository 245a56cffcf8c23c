"""Prior shift with late labels: what following it by the scores gains, and what it costs.

    python benchmarks/prior_shift.py [DATA] [--quick]

Generated scores whose distribution stays in the ones and in the zeros, normal around ±1 (the scores
are the probabilities at a share of 0.5) or around ±0.6 (with wrong slope and intercept). The share
of ones shifts as in Wu, Guo, Su & Weinberger, *Online Adaptation to Label Distribution Shift*,
NeurIPS 2021: it is constant between steps, moves steadily, or periodically. Labels are 500 late.

* single: the best of the calibrators of the default hedge, in hindsight;
* hedge: the default `HedgedCalibrator`, with tickets;
* EM, batches: Platt scaling of all labels that have come, adapted by EM (Saerens, Latinne &
  Decaestecker 2002) to each batch of 450 scores, which are known before they are predicted. This is
  the EM of ``quapy``, which is used if it is installed;
* EM, window: the same, adapted to the last 100, 300 or 1,000 scores; the best in hindsight;
* prior shift: a `PriorShiftCalibrator`.

Each number is the log loss, the last column that of the true probabilities. ``DATA`` is the folder
that ``streams.py`` describes: with it, streams without such a shift show what the wrong belief in
it costs, with labels 500 late and at once.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from streams import FORECASTS, Vector, generated, log_loss, read, serve

from streamcal import HedgedCalibrator
from streamcal.calibration import PriorShiftCalibrator
from streamcal.calibration.hedged import default_calibrators

try:
    from quapy.method.aggregative import EMQ
except ImportError:
    EMQ = None

N, DELAY = 40_000, 500
BATCH = 450  # no batch ends where a share jumps
WINDOWS = (100, 300, 1_000)
COLUMNS = ("single", "hedge", "EM, batches", "EM, window", "prior shift", "true")


def shares(n: int) -> Iterator[tuple[str, Vector]]:
    """Yield the share of ones at each of ``n`` samples, and its name."""
    t = np.arange(n) * (N / n)
    quarter = (4 * np.arange(n)) // n
    yield "none", np.full(n, 0.5)
    yield "constant, in steps", np.array([0.5, 0.1, 0.8, 0.3])[quarter]
    yield "constant, in steps, few ones", np.array([0.02, 0.08, 0.01, 0.04])[quarter]
    yield "monotone", 0.9 - 0.8 * t / N
    for period in (10_000, 2_000):
        yield f"periodic, sine of {period:,}", 0.5 + 0.4 * np.sin(2.0 * np.pi * t / period)
    for period in (4_000, 1_000):
        yield f"periodic, square of {period:,}", np.where(t % period < period / 2, 0.1, 0.9)


def sampled(share: Vector, mean: float) -> tuple[Vector, Vector, Vector]:
    """Return scores, labels and true probabilities; the classes are normal around ±``mean``."""
    rng = np.random.default_rng(1)
    y = rng.uniform(size=len(share)) < share
    x = rng.normal(np.where(y, mean, -mean))
    scores = expit(2.0 * x) if mean == 1.0 else expit(1.4 * mean * x + 1.0)
    return scores, y.astype(float), expit(2.0 * mean * x + logit(share))


def em(p: Vector, base: float) -> float:
    """Return the share of ones by EM, for probabilities at a share of ``base``."""
    if EMQ is not None:
        return float(EMQ.EM(np.array([1.0 - base, base]), np.column_stack([1.0 - p, p]))[0][1])
    share = base
    for _ in range(1_000):
        last, share = share, float(np.mean(expit(logit(p) + logit(share) - logit(base))))
        share = min(max(share, 1e-6), 1.0 - 1e-6)
        if abs(share - last) < 1e-4:
            break
    return share


class Adapted:
    """Platt scaling of all labels so far, adapted by EM to scores without labels."""

    def __init__(self) -> None:
        self.model, self.base = None, 0.5

    def fit(self, scores: Vector, y: Vector) -> None:
        """Learn all labels that have come."""
        if 0.0 < y.mean() < 1.0:
            self.model = LogisticRegression(C=1e3).fit(logit(scores)[:, None], y)
            self.base = float(y.mean())

    def predict(self, scores: Vector, seen: Vector) -> Vector:
        """Return the probabilities of scores, at the share of ones among those that were seen."""
        if self.model is None or not len(seen):
            return scores
        of_scores, of_seen = (
            self.model.decision_function(logit(s)[:, None]) for s in (scores, seen)
        )
        return expit(of_scores + logit(em(expit(of_seen), self.base)) - logit(self.base))


def in_batches(scores: Vector, y: Vector) -> Vector:
    """Return what is served in batches, each adapted to its own scores."""
    served, adapted = np.empty(len(y)), Adapted()
    for start in range(0, len(y), BATCH):
        batch = scores[start : start + BATCH]
        if start > DELAY:
            adapted.fit(scores[: start - DELAY], y[: start - DELAY])
        served[start : start + BATCH] = adapted.predict(batch, batch)
    return served


def by_window(scores: Vector, y: Vector, window: int, every: int = 20) -> Vector:
    """Return what is served, adapted to the last scores every few samples."""
    served, adapted = np.empty(len(y)), Adapted()
    for start in range(0, len(y), every):
        if start > DELAY and start % DELAY == 0:
            adapted.fit(scores[: start - DELAY], y[: start - DELAY])
        part = slice(start, start + every)
        served[part] = adapted.predict(scores[part], scores[max(start - window, 0) : start])
    return served


def losses(scores: Vector, y: Vector, p: Vector) -> list[float]:
    """Return the log loss in each column."""
    singles = [serve(each, scores, y, DELAY) for each in default_calibrators()]
    hedge = serve(HedgedCalibrator(), scores, y, DELAY, tickets=True)
    windows = [by_window(scores, y, window) for window in WINDOWS]
    shift = serve(PriorShiftCalibrator(), scores, y, DELAY, tickets=True)
    return [
        min(log_loss(served, y) for served in singles),
        log_loss(hedge, y),
        log_loss(in_batches(scores, y), y),
        min(log_loss(served, y) for served in windows),
        log_loss(shift, y),
        log_loss(p, y),
    ]


def at_once(
    calibrator: PriorShiftCalibrator | HedgedCalibrator, scores: Vector, y: Vector
) -> float:
    """Return the log loss with labels at once."""
    return log_loss(calibrator.predict_learn_many(scores, y), y)


def without_shift(folder: Path) -> Iterator[tuple[str, Vector, Vector]]:
    """Yield streams without prior shift."""
    for model in ("logistic", "naive Bayes"):
        yield f"Elec2, {model}", *read(folder, model, None)
    for name in FORECASTS:
        yield name, *read(folder, name, None)
    for kind in ("calibrated", "abrupt", "gradual", "abrupt steps"):
        scores, y, _ = generated(kind)
        yield f"generated, {kind}", scores, y


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true", help="few samples")
    given = parser.parse_args()
    n = 1_200 if given.quick else N
    print(f"| share of ones, classes at | {' | '.join(COLUMNS)} |")
    print("|---|" + "--:|" * len(COLUMNS))
    for name, share in shares(n):
        for mean in (1.0, 0.6):
            found = losses(*sampled(share, mean))
            cells = " | ".join(f"{loss:.4f}" for loss in found)
            print(f"| {name}, ±{mean:g} | {cells} |", flush=True)
    if given.data is None:
        return
    print("\n| stream | hedge, late | prior shift, late | hedge, at once | prior shift, at once |")
    print("|---|--:|--:|--:|--:|")
    for name, scores, y in without_shift(given.data):
        late = [
            log_loss(serve(each, scores, y, DELAY, tickets=True), y)
            for each in (HedgedCalibrator(), PriorShiftCalibrator())
        ]
        soon = [at_once(each, scores, y) for each in (HedgedCalibrator(), PriorShiftCalibrator())]
        print(f"| {name} | {' | '.join(f'{loss:.4f}' for loss in late + soon)} |", flush=True)


if __name__ == "__main__":
    main()
