"""The default with late labels, compared with the raw score, on streams that are new to it.

    python benchmarks/late_labels.py [DATA] [--delays 48 500] [--streams NAME ...]

Twenty generated streams of 20,000 samples: drift, periods, events whose rows share an outcome, rare
labels, scores of 0 and 1, constant scores, labels that contradict what was served.

A second table has streams whose rows repeat, with delays of their own: matches of 50 rows, whose
labels come at their end; scores that last for four rows, with exponential delays, and with some
labels that never come. ``DATA`` (see ``streams.py``) adds March Madness in game, where all rows of
a game are labelled when it ends.

Each number is the log loss of the default minus that of the scores: with the tickets of
`serve_one`, or by `CalibratedClassifier` without tickets. Its only feature is the score, so it
cannot distinguish samples of equal scores.
"""

import argparse
import heapq
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from streams import FORECASTS, FixedModel, Vector, log_loss

from streamcal import CalibratedClassifier, HedgedCalibrator

N = 20_000
T = np.arange(N)
Serving = tuple[Callable[[int, float], float], Callable[[int, float, float], None]]
"""Functions that serve and learn; the int is the number of the sample."""
CONTRARY = np.full(N, np.nan)  # each label is the one that was served as less probable


def shifted(scores: Vector, by: Vector) -> Vector:
    """Return probabilities whose log odds are shifted."""
    return expit(logit(scores.clip(1e-3, 1.0 - 1e-3)) + by)


def generated() -> Iterator[tuple[str, Vector, Vector]]:
    """Yield the name of each stream, its scores, and the probabilities of the label 1."""
    rng = np.random.default_rng(0)
    u = rng.uniform(size=N)
    yield "calibrated", u, u
    yield "inverted at half", u, np.where(T < N // 2, u, 1.0 - u)
    yield "inverted at nine tenths", u, np.where(T < 0.9 * N, u, 1.0 - u)
    yield "two maps, 700 each", u, np.where(T // 700 % 2, shifted(u, 2.0), u)
    yield "three maps, 2,000 each", u, u ** np.array([1.0, 3.0, 1.0 / 3.0])[T // 2_000 % 3]
    for period in (100, 1_000, 10_000):
        yield f"sine, {period:,}", u, shifted(u, 1.5 * np.sin(2.0 * np.pi * T / period))
    yield "random walk", u, shifted(u, np.cumsum(rng.normal(0.0, 0.03, N)))
    yield "noisy labels", u, 0.35 + 0.3 * u
    rare = rng.gamma(0.5, 0.002, N).clip(0.0, 1.0)
    yield "one in 1,000", rare, rare
    yield "one in 1,000, claimed 40", 40.0 * rare.clip(0.0, 1.0 / 40.0), rare
    yield "overconfident", expit(6.0 * logit(u)), u
    sure = rng.integers(0, 2, N).astype(float)
    yield "sure, 1 % wrong", sure, np.where(sure == 1.0, 0.99, 0.01)
    yield "zeros at first", u, np.where(T < 5_000, 0.0, u)
    half = np.full(N, 0.5)
    yield "constant", half, half
    yield "three scores", rng.choice([0.1, 0.5, 0.9], N), half
    events = rng.uniform(size=(2, N))
    forecast, outcome = events[:, T // 50]
    yield "events of 50 rows", forecast, (outcome < forecast).astype(float)
    yield "runs of 200 labels", 0.45 + 0.1 * u, (events[0, T // 200] < 0.5).astype(float)
    yield "contrary labels", half, CONTRARY


def matches(seed: int, n_matches: int = N // 50) -> tuple[Vector, Vector, Vector]:
    """Return scores, labels and delays of matches of 50 rows, whose labels come at their end.

    The score is the share of wins among all rows with the same lead. In 72 % of the rows the lead
    is that of the row before.
    """
    rng = np.random.default_rng(seed)
    leads = rng.choice([-1, 0, 1], (20 * n_matches, 50), p=(0.14, 0.72, 0.14)).cumsum(axis=1)
    won = np.broadcast_to(leads[:, -1:] > rng.choice([-0.5, 0.5], (len(leads), 1)), leads.shape)
    _, which, counts = np.unique(leads, return_inverse=True, return_counts=True)
    which = which.ravel()
    share = (np.bincount(which, won.ravel()) + 0.5) / (counts + 1.0)
    first = slice(0, 50 * n_matches)
    late = np.tile(np.arange(49, -1, -1), n_matches)
    return share[which][first], won.ravel()[first].astype(float), late


def lasting(mean: int, lost: float) -> tuple[Vector, Vector, Vector]:
    """Return scores that last for four rows, labels, and delays, infinite if the label is lost.

    Delays have this mean: exponential, or all alike if it is 0. Where it is 0, the map from scores
    to probabilities changes every 700 rows.
    """
    rng = np.random.default_rng(mean)
    scores = np.repeat(rng.choice(np.linspace(0.05, 0.95, 19), N // 4), 4)
    p = scores if mean else np.where(T // 700 % 2, shifted(scores, 2.0), scores)
    y = (rng.uniform(size=N) < p).astype(float)
    late = np.floor(rng.exponential(mean, N)) if mean else np.zeros(N)
    return scores, y, np.where(rng.uniform(size=N) < lost, np.inf, late)


def games(data: Path) -> tuple[Vector, Vector, Vector]:
    """Return scores, labels, and for each row how many rows of its game follow.

    A game ends where the label changes, or where a score that has reached it jumps away.
    """
    path = data / "forecasts" / FORECASTS["March Madness in game"]
    scores, y = np.loadtxt(path, delimiter=",", skiprows=1).T
    reached = np.abs(scores[:-1] - y[:-1]) <= 0.0005
    first = np.flatnonzero((y[1:] != y[:-1]) | (reached & (np.abs(np.diff(scores)) > 0.006))) + 1
    starts = [0]
    for at in first.tolist():
        if at - starts[-1] >= 20 or y[at] != y[at - 1]:
            starts.append(at)
    ends = np.repeat([*starts[1:], len(y)], np.diff([*starts, len(y)]))
    return scores, y, ends - 1 - np.arange(len(y))


def with_tickets() -> Serving:
    """Return how a hedge serves and learns with its tickets."""
    hedge, tickets = HedgedCalibrator(), {}

    def serve(t: int, score: float) -> float:
        p, tickets[t] = hedge.serve_one(score)
        return p

    return serve, lambda t, score, y: hedge.learn_one(score, y, ticket=tickets.pop(t))


def told_nothing() -> Serving:
    """Return how a wrapper serves and learns."""
    model = CalibratedClassifier(FixedModel())

    def features(score: float) -> dict[bool, float]:
        return {False: 1.0 - score, True: score}

    return (
        lambda t, score: model.predict_proba_one(features(score))[True],
        lambda t, score, y: model.learn_one(features(score), y == 1.0),
    )


def excess(make: Callable[[], Serving], scores: Vector, y: Vector, late: Vector) -> float:
    """Return the log loss above that of the scores; labels come ``late`` samples later."""
    serve, learn = make()
    served, labels, waiting = np.empty(len(y)), y.copy(), []
    for t, score in enumerate(scores.tolist()):
        served[t] = serve(t, score)
        if np.isnan(y[t]):
            labels[t] = float(served[t] < 0.5)
        heapq.heappush(waiting, (t + late[t], t, score, labels[t]))
        while waiting and waiting[0][0] <= t:
            learn(*heapq.heappop(waiting)[1:])
    return log_loss(served, labels) - log_loss(scores, labels)


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--delays", type=int, nargs="+", default=[48, 500])
    parser.add_argument("--streams", nargs="+", help="of the first table; all by default")
    arguments = parser.parse_args()
    columns = [f"{d} late, {how}" for d in arguments.delays for how in ("tickets", "no tickets")]
    print("| stream | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name, scores, p in generated():
        y = np.where(np.isnan(p), p, np.random.default_rng(1).uniform(size=N) < p)
        if name in (arguments.streams or [name]):
            row(name, scores, y, [np.full(N, d) for d in arguments.delays])
    print("\n| rows repeat | tickets | no tickets |\n|---|--:|--:|")
    for seed in range(3):
        scores, y, late = matches(seed)
        row(f"matches, labels at their end ({seed + 1})", scores, y, [late])
    for mean in (48, 500, 0):
        for lost in (0.0, 0.1, 0.5):
            delays = f"exponential, mean {mean}" if mean else "at once"
            scores, y, late = lasting(mean, lost)
            row(f"labels {delays}; lost: {lost:.0%}", scores, y, [late])
    if arguments.data:
        scores, y, late = games(arguments.data)
        row("March Madness, by game", scores, y, [late])


def row(name: str, scores: Vector, y: Vector, delays: list[Vector]) -> None:
    """Print the line of a stream."""
    cells = [
        f"{excess(make, scores, y, late):+.4f}"
        for late in delays
        for make in (with_tickets, told_nothing)
    ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
