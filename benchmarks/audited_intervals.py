"""How often the intervals of audits hold, and how narrow probabilities make them.

    python benchmarks/audited_intervals.py [--draws 200] [--decisions 10000]

Each draw has decisions with probabilities of one spread, and labels that are 1 with them. The
label of a decision is asked for with the propensity

* 5 %: the same for all;
* by score: 2 % and 20 % around the threshold 0.5, of probabilities that are wrong by a factor of
  their odds: the intervals must hold all the same.

Of each statistic the tables say how often the interval of 90 % for one look holds the value of all
labels; how often that for every instant holds the value of all expectations, at all of 100 times
together; and the mean width for one look divided by that of labels alone (a constant in place of
the probabilities, the same decisions). For the base rate the law is √(1 − 0.95 R²) with R² =
Var(p) / Var(y).
"""

import argparse
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from streamcal.monitoring import AuditedMean, AuditedMetric

Vector = NDArray[np.float64]

SPREADS = {0.75: 1.05, 0.86: 1.95, 0.92: 3.0}  # of log-odds with the mean −1, by AUC
RATIOS = ("precision", "recall", "f1", "accuracy")
CLIP = 0.001  # of probabilities in the log loss, whose range is 0 to −ln 0.001
LOOKS = 100
WIDTHS = 4  # one draw of so many is also made of labels alone, for the widths


class Found(NamedTuple):
    """Of one statistic and draw."""

    once: bool
    always: bool
    ratio: float


def log_loss(p: Vector, y: Vector) -> Vector:
    """Return clipped log losses; of a probability in place of a label, their expectation."""
    clipped = p.clip(CLIP, 1.0 - CLIP)
    return -y * np.log(clipped) - (1.0 - y) * np.log1p(-clipped)


def brier(p: Vector, y: Vector) -> Vector:
    """Return squared errors; of a probability in place of a label, their expectation."""
    return y * (1.0 - p) ** 2 + (1.0 - y) * p**2


MEANS: dict[str, tuple[Callable[[Vector, Vector], Vector], float]] = {
    "base rate": (lambda p, y: y, 1.0),
    "Brier score": (brier, 1.0),
    "log loss": (log_loss, -math.log(CLIP)),
}


def ratio_of(metric: str, y: Vector, chosen: NDArray[np.bool_]) -> Vector:
    """Return the metric after each decision; ``y`` are labels, or their probabilities."""
    tp, fn = np.cumsum(y * chosen), np.cumsum(y * ~chosen)
    fp, n = np.cumsum(chosen) - tp, np.arange(1, len(y) + 1)
    with np.errstate(invalid="ignore"):
        return {
            "precision": tp / (tp + fp),
            "recall": tp / (tp + fn),
            "f1": 2.0 * tp / (2.0 * tp + fp + fn),
            "accuracy": (n - fp - fn) / n,
        }[metric]


def follow(learner: Any, rows: Iterable[tuple[Any, ...]], truth: Vector) -> bool:
    """Add decisions; return whether the interval for every instant held at all looks."""
    held, every = True, max(len(truth) // LOOKS, 1)
    for i, (m, v, pi, chosen) in enumerate(rows):
        learner.update(m, v, pi, **chosen)
        if i % every == every - 1:
            low, high = learner.interval_always
            held &= not (truth[i] < low or truth[i] > high)
    return held


def draw(seed: int, n: int, spread: float, by_score: bool) -> dict[str, Found]:
    """Return what is found of each statistic."""
    rng = np.random.default_rng(seed)
    q = expit(rng.normal(-1.0, spread, n))
    y = (rng.random(n) < q).astype(float)
    p = expit(0.7 * logit(q) + 0.5) if by_score else q
    pi = np.where(np.abs(p - 0.5) < 0.2, 0.2, 0.02) if by_score else np.full(n, 0.05)
    asked, chosen = rng.random(n) < pi, p >= 0.5
    found = {}

    def measure(name: str, make: Callable[[], Any], m: Any, v: Any, now: Any, ever: Any) -> None:
        after = [{"decision": int(c)} if name in RATIOS else {} for c in chosen]
        seen = [value if a else None for value, a in zip(v.tolist(), asked.tolist(), strict=True)]
        learner, ratio = make(), math.nan
        held = follow(learner, zip(m.tolist(), seen, pi.tolist(), after, strict=True), ever)
        low, high = learner.interval_once
        if seed % WIDTHS == 0:
            alone, same = make(), float(np.mean(m))
            for value, share, decision in zip(seen, pi.tolist(), after, strict=True):
                alone.update(same, value, share, **decision)
            ratio = (high - low) / float(np.diff(alone.interval_once)[0])
        found[name] = Found(bool(low <= now <= high), held, ratio)

    for name, (loss, top) in MEANS.items():
        values, means = loss(p, y), loss(p, q)
        ever = np.cumsum(means) / np.arange(1, n + 1)
        make = partial(AuditedMean, 0.1, high=top, floor=0.02)
        measure(name, make, loss(p, p), values, values.mean(), ever)
    for name in RATIOS:
        make = partial(AuditedMetric, name, 0.1, floor=0.02)
        measure(name, make, p, y, ratio_of(name, y, chosen)[-1], ratio_of(name, q, chosen))
    return found


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--decisions", type=int, default=10_000)
    given = parser.parse_args()
    names = (*MEANS, *RATIOS)
    for by_score in (False, True):
        print(f"\n{'by score, wrong probabilities' if by_score else '5 %'}\n")
        print("| AUC | law, base rate | " + " | ".join(names) + " |")
        print("|--:|--:|" + "--:|" * len(names))
        for spread in [SPREADS[0.86]] if by_score else SPREADS.values():
            rng = np.random.default_rng(0)
            p = expit(rng.normal(-1.0, spread, 200_000))
            y = rng.random(len(p)) < p
            law = math.sqrt(1.0 - 0.95 * float(np.var(p) / np.var(y)))
            draws = [draw(seed, given.decisions, spread, by_score) for seed in range(given.draws)]
            cells = []
            for name in names:
                once, always, ratio = np.nanmean([each[name] for each in draws], axis=0)
                cells.append(f"{once:.0%} / {always:.0%} / {ratio:.3f}")
            auc = roc_auc_score(y, p)
            print(f"| {auc:.2f} | {law:.3f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
