"""The default with late labels, compared with the raw score, on streams that are new to it.

    python benchmarks/late_labels.py [DATA] [--delays 48 500] [--streams NAME ...]

Twenty generated streams of 20,000 samples: drift, periods, events whose rows share an outcome, rare
labels, scores of 0 and 1, constant scores, labels that contradict what was served. ``DATA`` (see
``streams.py``) adds March Madness in game, where all rows of a game are labelled when it ends.

Each number is the log loss of the default minus that of the scores: with the tickets of
`serve_one`, or by `CalibratedClassifier` without tickets. Its only feature is the score, so it
cannot distinguish samples of equal scores.
"""

import argparse
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.special import expit, logit
from streams import FORECASTS, FixedModel, Vector, log_loss

from streamcal import CalibratedClassifier, HedgedCalibrator

N = 20_000
T = np.arange(N)
Serving = tuple[Callable[[float], float], Callable[[float, float], None]]  # serve, learn
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
    hedge, tickets = HedgedCalibrator(), deque()

    def serve(score: float) -> float:
        p, ticket = hedge.serve_one(score)
        tickets.append(ticket)
        return p

    return serve, lambda score, y: hedge.learn_one(score, y, served=tickets.popleft())


def told_nothing() -> Serving:
    """Return how a wrapper serves and learns."""
    model = CalibratedClassifier(FixedModel())

    def features(score: float) -> dict[bool, float]:
        return {False: 1.0 - score, True: score}

    return (
        lambda score: model.predict_proba_one(features(score))[True],
        lambda score, y: model.learn_one(features(score), y == 1.0),
    )


def excess(make: Callable[[], Serving], scores: Vector, y: Vector, late: Vector) -> float:
    """Return the log loss above that of the scores; labels come ``late`` samples later."""
    serve, learn = make()
    served, labels, waiting = np.empty(len(y)), y.copy(), deque()
    for t, score in enumerate(scores.tolist()):
        served[t] = serve(score)
        if np.isnan(y[t]):
            labels[t] = float(served[t] < 0.5)
        waiting.append((t + late[t], score, labels[t]))
        while waiting and waiting[0][0] <= t:
            learn(*waiting.popleft()[1:])
    return log_loss(served, labels) - log_loss(scores, labels)


def main() -> None:
    """Print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--delays", type=int, nargs="+", default=[48, 500])
    parser.add_argument("--streams", nargs="+", help="all by default")
    arguments = parser.parse_args()
    columns = [f"{d} late, {how}" for d in arguments.delays for how in ("tickets", "no tickets")]
    print("| stream | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for name, scores, p in generated():
        y = np.where(np.isnan(p), p, np.random.default_rng(1).uniform(size=N) < p)
        if name in (arguments.streams or [name]):
            row(name, scores, y, [np.full(N, d) for d in arguments.delays])
    if arguments.data:
        row("March Madness, by game", *games(arguments.data)[:2], [games(arguments.data)[2]])


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
