"""A budget of 200 questions a day: what they are worth, and whether they are spread over the day.

    python benchmarks/review_budget.py [--seeds 5]

Generated streams of four weeks, 5,000 samples a day in the mean. Traffic is

* level: the same at all hours;
* daily: a twentieth as much at night as at noon;
* weekly: daily, and 0.3 times as much on Saturday and Sunday;
* growing: daily, and 5 % more every day;
* bursts: daily, and in one hour of every fifth day ten times as much.

The worth of a sample is

* steady: min(p, 1 − p) of a probability from Beta(½, ½);
* drift: the same, but from Beta(2, 2) in the second half of the stream;
* night: the same as steady, times 1.5 from 20 to 6 o'clock;
* votes: the minority among five votes, of which many are equal.

Rules:

* first come: the first 200 samples of a day;
* fixed: samples above the threshold with which 200 a day are asked in the first week, at most 200;
* hourly: the same, but at most 200 h / 24 until h o'clock;
* first day: `ReviewBudget` without what it knows of earlier days;
* budget: `ReviewBudget`.

From the second week on, each cell has two means over days: the worth of the samples that were asked
about, divided by that of the 200 samples of the day that are worth most; and the greatest gap
between the share of the budget that has been used and the share of the samples of the day that have
come. No rule asks more than 200 times a day.
"""

import argparse
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from streamcal.decision import ReviewBudget
from streamcal.decision.budget import _Pace

Vector = NDArray[np.float64]
PER_DAY, DAYS, SAMPLES = 200, 28, 5_000
STREAMS = (
    *((traffic, "steady") for traffic in ("level", "daily", "weekly", "growing", "bursts")),
    *(("daily", worth) for worth in ("drift", "night", "votes")),
)


class FirstDay(ReviewBudget):
    """Expects that every hour of a day is alike."""

    def _pace_of(self, day: float) -> _Pace:
        return _Pace(day, [0.0, *accumulate([self.per_day / 24] * 24)], 1.0)


def times(traffic: str, rng: np.random.Generator) -> list[Vector]:
    """Return the times of the samples of each day, in hours."""
    hours = np.arange(24)
    by_hour = np.ones(24) if traffic == "level" else 1.1 - np.cos(2.0 * np.pi * hours / 24)
    by_hour /= by_hour.sum()
    found = []
    for day in range(DAYS):
        rates = SAMPLES * by_hour
        if traffic == "weekly":
            rates = rates * (0.3 if day % 7 >= 5 else 1.28)
        elif traffic == "growing":
            rates = rates * 1.05 ** (day - DAYS / 2)
        elif traffic == "bursts" and day % 5 == 4:
            rates[rng.integers(24)] *= 10.0
        counts = rng.poisson(rates)
        found.append(np.sort(np.repeat(hours, counts) + rng.random(counts.sum())))
    return found


def worths(kind: str, day: int, hours: Vector, rng: np.random.Generator) -> Vector:
    """Return what the samples of a day are worth."""
    if kind == "votes":
        votes = rng.binomial(5, rng.beta(0.5, 0.5, len(hours)))
        return np.minimum(votes, 5 - votes) / 5.0
    shape = 2.0 if kind == "drift" and day >= DAYS // 2 else 0.5
    p = rng.beta(shape, shape, len(hours))
    at_night = (hours < 6.0) | (hours >= 20.0)
    return np.minimum(p, 1.0 - p) * np.where(at_night & (kind == "night"), 1.5, 1.0)


def asked_by(budget: ReviewBudget, stream: list[tuple[Vector, Vector]]) -> list[NDArray[np.bool_]]:
    """Return which samples of each day a budget asks about."""
    found = []
    for day, (hours, worth) in enumerate(stream):
        seconds = 3600.0 * (24.0 * day + hours)
        asks = [
            budget.ask_one((day, i), w, t=t)
            for i, (w, t) in enumerate(zip(worth.tolist(), seconds.tolist(), strict=True))
        ]
        found.append(np.array(asks))
    return found


def first_come(chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the first of the chosen samples of a day."""
    return chosen & (np.cumsum(chosen) <= PER_DAY)


def hourly(chosen: NDArray[np.bool_], hours: Vector) -> NDArray[np.bool_]:
    """Return the chosen samples of a day, but not more than the clock allows."""
    asked, n = np.full(len(chosen), False), 0
    for i in np.flatnonzero(chosen).tolist():
        asked[i] = n + 1 <= PER_DAY * hours[i] / 24.0
        n += bool(asked[i])
    return asked


def rules(stream: list[tuple[Vector, Vector]]) -> dict[str, list[NDArray[np.bool_]]]:
    """Return which samples of each day each rule asks about."""
    week = np.concatenate([worth for _, worth in stream[:7]])
    threshold = np.sort(week)[-7 * PER_DAY]
    return {
        "first come": [first_come(np.full(len(worth), True)) for _, worth in stream],
        "fixed": [first_come(worth >= threshold) for _, worth in stream],
        "hourly": [hourly(worth >= threshold, hours) for hours, worth in stream],
        "first day": asked_by(FirstDay(PER_DAY), stream),
        "budget": asked_by(ReviewBudget(PER_DAY), stream),
    }


def measure(asked: list[NDArray[np.bool_]], stream: list[tuple[Vector, Vector]]) -> Vector:
    """Return the mean worth in comparison to the best, and the mean gap."""
    found = []
    for day, (_, worth) in list(enumerate(stream))[7:]:
        assert asked[day].sum() <= PER_DAY
        best = np.sort(worth)[-PER_DAY:].sum()
        come = np.arange(1, len(worth) + 1) / len(worth)
        gap = np.abs(np.cumsum(asked[day]) / PER_DAY - come).max()
        found.append((worth[asked[day]].sum() / best, gap))
    return np.array(found).mean(axis=0)


def main() -> None:
    """Print a table of all streams and rules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    printed = False
    for traffic, kind in STREAMS:
        found: dict[str, list[Vector]] = {}
        for seed in range(arguments.seeds):
            rng = np.random.default_rng(seed)
            hours = times(traffic, rng)
            stream = [(each, worths(kind, day, each, rng)) for day, each in enumerate(hours)]
            for name, asked in rules(stream).items():
                found.setdefault(name, []).append(measure(asked, stream))
        if not printed:
            print(f"| traffic | worth | {' | '.join(found)} |")
            print("|---|---|" + "--:|" * len(found))
            printed = True
        means = [np.mean(each, axis=0) for each in found.values()]
        cells = [f"{m[0]:.1%}, {m[1]:.2f}".replace("%", " %") for m in means]
        print(f"| {traffic} | {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
