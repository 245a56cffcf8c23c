"""Labels that arrive together: rows of one event, which share their outcome, or independent ones.

    python benchmarks/bursts.py [--seeds 8]

*Games*: a model predicts each row of a game, and all its labels come at the end. The lead is a
Brownian motion, and the score is the probability that it ends above 0; some scores are wrong.
*Nights*: the labels of a batch are independent given the score, and come when all of the batch are
predicted.

Each number is the log loss of the default minus that of the score, the mean over seeds and the
worst: with labels learned one by one (a prediction between any two of them), as they come, and as
groups that somebody has declared.
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit, ndtr
from streams import Vector, log_loss

from streamcal import HedgedCalibrator

Burst = tuple[Vector, Vector]  # scores and labels that come together
LEARN = ("one by one", "as they come", "groups")


def games(
    seed: int, n: int, rows: int, at_once: int = 1, shift: float = 0.0, slope: float = 1.0
) -> list[Burst]:
    """Return ``n`` bursts, each of the rows of ``at_once`` games in turn."""
    rng = np.random.default_rng(seed)
    left = 1.0 - np.arange(rows) / rows
    bursts = []
    for _ in range(n):
        steps = rng.normal(0.0, np.sqrt(1.0 / rows), (at_once, rows))
        start = 0.8 * rng.normal(size=(at_once, 1))
        lead = start + np.cumsum(np.hstack([np.zeros((at_once, 1)), steps]), axis=1)
        scores = ndtr(lead[:, :-1] / np.sqrt(left)).clip(1e-4, 1.0 - 1e-4)
        y = np.repeat(lead[:, -1:] > 0.0, rows, axis=1).astype(float)
        bursts.append((expit(slope * logit(scores.T.ravel()) + shift), y.T.ravel()))
    return bursts


def nights(
    seed: int,
    n: int,
    rows: int,
    shift: float = 0.0,
    slope: float = 1.0,
    drift: float = 0.0,
    centre: float = -0.5,
) -> list[Burst]:
    """Return ``n`` nights; ``centre`` is the mean of the right log odds."""
    rng = np.random.default_rng(seed)
    bursts = []
    for _ in range(n):
        odds = rng.normal(centre, 1.5, rows)
        y = (rng.uniform(size=rows) < expit(odds)).astype(float)
        shift += drift * rng.normal()
        bursts.append((expit(slope * odds + shift), y))
    return bursts


STREAMS: dict[str, Callable[[int], list[Burst]]] = {
    "30 games of 90 rows": lambda seed: games(seed, 30, 90),
    "30 games of 90 rows, score wrong by +1": lambda seed: games(seed, 30, 90, shift=1.0),
    "30 games of 90 rows, twice too sure": lambda seed: games(seed, 30, 90, slope=2.0),
    "60 games of 40 rows": lambda seed: games(seed, 60, 40),
    "120 games of 20 rows": lambda seed: games(seed, 120, 20),
    "three games of 60 rows at once, 20 times": lambda seed: games(seed, 20, 60, 3),
    "20 nights of 1,000, score wrong by +1": lambda seed: nights(seed, 20, 1_000, 1.0),
    "20 nights of 1,000, score wrong by -1": lambda seed: nights(seed, 20, 1_000, -1.0),
    "20 nights of 1,000, half as sure": lambda seed: nights(seed, 20, 1_000, slope=0.5),
    "20 nights of 1,000, drifting": lambda seed: nights(seed, 20, 1_000, drift=0.3),
    "20 nights of 1,000, rare": lambda seed: nights(seed, 20, 1_000, centre=-8.0),
    "20 nights of 1,000, rare, +4": lambda seed: nights(seed, 20, 1_000, 4.0, centre=-8.0),
    "100 nights of 30, wrong by +2": lambda seed: nights(seed, 100, 30, 2.0, centre=-4.0),
    "300 nights of 10, wrong by +1": lambda seed: nights(seed, 300, 10, 1.0),
    "1,000 nights of 3, wrong by +1": lambda seed: nights(seed, 1_000, 3, 1.0),
}


def excess(bursts: list[Burst], learn: str) -> float:
    """Return the log loss of the default minus that of the scores."""
    hedge, served = HedgedCalibrator(), []
    for scores, y in bursts:
        answers, tickets = zip(*map(hedge.serve_one, scores.tolist()), strict=True)
        served.append(answers)
        if learn == "groups":
            hedge.learn_group(scores, y, tickets=tickets)
            continue
        for score, label, ticket in zip(scores.tolist(), y.tolist(), tickets, strict=True):
            hedge.learn_one(score, label, ticket=ticket)
            if learn == "one by one":
                hedge.predict_one(0.5)
    scores, y = (np.concatenate(part) for part in zip(*bursts, strict=True))
    return log_loss(np.concatenate(served), y) - log_loss(scores, y)


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    print("| stream | " + " | ".join(LEARN) + " |")
    print("|---|" + "--:|" * len(LEARN))
    for name, make in STREAMS.items():
        cells = []
        for learn in LEARN:
            found = [excess(make(seed), learn) for seed in seeds]
            cells.append(f"{np.mean(found):+.4f} ({max(found):+.4f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
