"""Answers under a promise: how many `SelectiveClassifier` gives, and how many of them are wrong.

    python benchmarks/selective.py [DATA] [--keep FOLDER] [--runs 1000]

``DATA`` and ``--keep`` are those of ``study.py``. The target is 0.95, and labels come at once.

*Any stream.* The probabilities are those of the default hedge. The answers are compared with the
best fixed threshold in hindsight: the one with the most answers of those with at most 5 % errors in
the whole stream. "excess" is the most by which errors ever exceeded 5 % of the answers; 20 are
promised. Streams that turn against the classifier are at the end: what matters there is the excess.

*Independent samples.* In each of the runs a classifier that does not change has confidences and
errors as the row says. "broken" is the share of the runs in which a threshold was ever in use whose
true share of errors, of 10⁶ samples, exceeds 5 %; with ``confidence=0.95`` at most 5 % are
promised. With audits, labels of answers come with a probability of 2 %, and all others come.

*Late labels.* The same for a target of 0.8. Confidences are uniform from 0.5 to 1; 8 % of those
from 0.8 up are wrong, and 45 % of the others. What is late is 2,000 samples late, or by a random
number from 0 to 4,000. With audits the labels of answers come with a probability of 30 %. "arrival"
has bets settled as labels come, "service" as `serve_one` was called; "asked" has `ask_one`, too.
"""

import argparse
import heapq
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from streams import FixedModel, Vector, serve
from study import streams

from streamcal import HedgedCalibrator
from streamcal.decision import SelectiveClassifier
from streamcal.decision.promises import begin_tests

TARGET = 0.95
N_AFTER = 2_000  # answers, from which on the accuracy counts
FEW = 200  # with fewer answers in hindsight there is nothing to compare


def answer_all(
    confidences: Vector, is_wrong: Callable[[int, bool], bool], **parameters: Any
) -> tuple[SelectiveClassifier, Vector, Vector]:
    """Return the model after a stream, which samples it answered, and which were wrong."""
    model = SelectiveClassifier(FixedModel(), target=TARGET, **parameters)
    answered, wrong = np.zeros((2, len(confidences)), dtype=bool)
    for i, confidence in enumerate(confidences.tolist()):
        x = {True: confidence, False: 1.0 - confidence}
        answered[i] = model.predict_one(x) is not None
        wrong[i] = is_wrong(i, answered[i])
        model.learn_one(x, not wrong[i])
    return model, answered, wrong


def best_fixed(confidences: Vector, wrong: Vector) -> int:
    """Return the number of answers of the best threshold in hindsight that keeps the target."""
    order = np.argsort(-confidences, kind="stable")
    sorted_, n = confidences[order], np.arange(1, len(order) + 1)
    is_end = np.append(sorted_[1:] != sorted_[:-1], True)
    kept = np.flatnonzero(is_end & (np.cumsum(wrong[order]) <= (1.0 - TARGET) * n))
    return int(n[kept[-1]]) if len(kept) else 0


def hostile(n: int = 10_000) -> Iterator[tuple[str, Vector, Callable[[int, bool], bool]]]:
    """Yield streams that turn against the classifier: confidences, and which answers are wrong."""
    rng = np.random.default_rng(5)
    sure = np.maximum(p := expit(rng.normal(2.0, 1.5, n)), 1.0 - p)
    draws = rng.uniform(size=n)
    yield "all wrong", np.full(n, 0.99), lambda i, answered: True
    yield "wrong if answered", sure, lambda i, answered: answered
    yield "right for a half", sure, lambda i, answered: i >= n // 2
    yield "wrong for a half", sure, lambda i, answered: i < n // 2
    yield "unrelated errors", sure, lambda i, answered: bool(draws[i] < 0.2)
    yield "bursts of errors", sure, lambda i, answered: i % 1_000 < 60
    yield "sure ones wrong", sure, lambda i, answered: bool(draws[i] < sure[i] - 0.5)
    yield "one too many", sure, lambda i, answered: answered and bool(draws[i] < 0.051)


def of_streams(data: Path | None, keep: Path | None) -> None:
    """Print what is answered of each stream."""
    print("| stream | answered | best fixed threshold | ratio | accuracy, least | excess |")
    print("|---|--:|--:|--:|--:|--:|")
    for stream in streams(data, keep):
        p = serve(HedgedCalibrator(), stream.scores, stream.y, 0)
        confidences, errors = np.maximum(p, 1.0 - p), (p >= 0.5) != (stream.y > 0.5)
        row(stream.name, confidences, lambda i, answered, errors=errors: bool(errors[i]))
    for name, confidences, is_wrong in hostile():
        row(name, confidences, is_wrong)


def row(name: str, confidences: Vector, is_wrong: Callable[[int, bool], bool]) -> None:
    """Print the row of a stream."""
    _, answered, wrong = answer_all(confidences, is_wrong)
    n, errors = np.cumsum(answered), np.cumsum(wrong & answered)
    excess = float(np.max(errors - (1.0 - TARGET) * n))
    best = best_fixed(confidences, wrong)
    late = n >= N_AFTER
    least = f"{np.min(1.0 - errors[late] / n[late]):.4f}" if late.any() else "–"
    ratio = f"{n[-1] / best:.2f}" if best > FEW else "–"
    share = len(confidences)
    print(
        f"| {name} | {n[-1] / share:.3f} | {best / share:.3f} | {ratio} | {least} | {excess:.1f} |",
        flush=True,
    )


def kinds() -> dict[str, Callable[[Vector], Vector]]:
    """Return the true probability that an answer is wrong, by confidence."""
    return {
        "calibrated": lambda c: 1.0 - c,
        "too sure": lambda c: np.minimum(2.0 * (1.0 - c) + 0.01, 1.0),
        "not sure enough": lambda c: 0.6 * (1.0 - c),
        "just above everywhere": lambda c: np.full_like(c, 0.0505),
        "a step at 0.95": lambda c: np.where(c >= 0.95, 0.051, 0.2),
    }


def of_independent(runs: int, n: int = 5_000) -> None:
    """Print how often a threshold was in use that has too many errors."""
    print("\n| errors | labels of answers | broken | answered at the end | best threshold |")
    print("|---|---|--:|--:|--:|")
    rng = np.random.default_rng(7)
    crowd = np.sort(np.maximum(p := expit(rng.normal(2.0, 1.0, 1_000_000)), 1.0 - p))[::-1]
    for name, errors_at in kinds().items():
        rates = np.cumsum(errors_at(crowd)) / np.arange(1, len(crowd) + 1)
        best = np.flatnonzero(rates <= 1.0 - TARGET)
        for floor in (None, 0.02):
            broken, shares = 0, []
            for _ in range(runs):
                confidences = rng.choice(crowd, n)
                wrong = rng.uniform(size=n) < errors_at(confidences)
                asked = rng.uniform(size=n) < (1.0 if floor is None else floor)
                thresholds = independent_run(confidences, wrong, asked, floor)
                least = min(thresholds)
                at = np.searchsorted(-crowd, -least, side="right")
                broken += any(
                    rates[np.searchsorted(-crowd, -each, side="right") - 1] > 1.0 - TARGET
                    for each in set(thresholds)
                    if each < crowd[0]
                )
                shares.append(at / len(crowd))
            labels = "all" if floor is None else "2 %"
            most = (best[-1] + 1) / len(crowd) if len(best) else 0.0
            print(
                f"| {name} | {labels} | {broken / runs:.3f} | {np.mean(shares):.2f} | {most:.2f} |",
                flush=True,
            )


def independent_run(
    confidences: Vector, wrong: Vector, asked: Vector, floor: float | None
) -> set[float]:
    """Return the thresholds that were in use in a run, as `SelectiveClassifier` has them."""
    tests = begin_tests(1.0 - TARGET, 0.05, floor or 1.0)
    used: set[float] = set()
    for c, is_wrong, is_asked in zip(
        confidences.tolist(), wrong.tolist(), asked.tolist(), strict=True
    ):
        answered = c >= tests.threshold
        if is_asked or not answered:
            tests.learn(None, c, answered, is_wrong, (floor or 1.0) if answered else 1.0)
            used.add(tests.threshold)
    return used


LATE_TARGET, LATE = 0.8, 2_000
Delay = Callable[[bool, bool, int], int]  # of answered, wrong, and a draw from 0 to 2 LATE


def delays() -> Iterator[tuple[str, float | None, Delay]]:
    """Yield what is late in a row, the floor, and how late it is."""
    for floor in (None, 0.3):
        of_answers = "labels of answers" if floor is None else "audits"
        yield "nothing", floor, lambda answered, wrong, draw: 0
        yield f"all but {of_answers}", floor, lambda answered, wrong, draw: LATE * (not answered)
        yield of_answers, floor, lambda answered, wrong, draw: LATE * answered
        yield "all, at random", floor, lambda answered, wrong, draw: draw
        yield "wrong ones", floor, lambda answered, wrong, draw: LATE * wrong
    yield "wrong audits", 0.3, lambda answered, wrong, draw: LATE * (wrong and answered)


def of_late(runs: int, n: int = 8_000) -> None:
    """Print how often a threshold was in use that has too many errors, with late labels."""
    print("\n| late | labels of answers | arrival | service | asked | answered at the end |")
    print("|---|---|--:|--:|--:|--:|")
    for name, floor, delay in delays():
        cells = []
        for order in ("arrival", "service", "asked")[: 2 if floor is None else 3]:
            rng, broken, shares = np.random.default_rng(9), 0, []
            for _ in range(runs):
                confidences = rng.uniform(0.5, 1.0, n)
                wrong = rng.uniform(size=n) < np.where(confidences >= 0.8, 0.08, 0.45)
                asked = rng.uniform(size=n) < (1.0 if floor is None else floor)
                draws = rng.integers(0, 2 * LATE, size=n, endpoint=True)
                parts = [part.tolist() for part in (confidences, wrong, asked, draws)]
                least, last = late_run(list(zip(*parts, strict=True)), floor, delay, order)
                sure = 0.2 / max(1.0 - least, 0.2)  # the share of confidences from 0.8 up
                broken += sure * 0.08 + (1.0 - sure) * 0.45 > 1.0 - LATE_TARGET
                shares.append(min(max(2.0 * (1.0 - last), 0.0), 1.0))
            cells.append(f"{broken / runs:.3f}")
        labels = "all" if floor is None else "30 %"
        cells += ["–"] * (floor is None) + [f"{np.mean(shares):.2f}"]
        print(f"| {name} | {labels} | {' | '.join(cells)} |", flush=True)


def late_run(
    samples: list[tuple[float, bool, bool, int]], floor: float | None, delay: Delay, order: str
) -> tuple[float, float]:
    """Return the lowest threshold that was in use in a run, and the last one."""
    tests = begin_tests(1.0 - LATE_TARGET, 0.05, floor or 1.0)
    least, waiting = np.inf, list[tuple[Any, ...]]()
    for i, (c, is_wrong, is_asked, draw) in enumerate(samples):
        while waiting and waiting[0][0] <= i:
            tests.learn(*heapq.heappop(waiting)[2:])
            least = min(least, tests.threshold)
        answered = c >= tests.threshold
        place = None if order == "arrival" else tests.serve(c, answered)
        if is_asked or not answered:
            propensity = (floor or 1.0) if answered else 1.0
            if order == "asked" and place is None:
                place = tests.ask(c, propensity)
            label = (place, c, answered, is_wrong, propensity)
            heapq.heappush(waiting, (i + delay(answered, is_wrong, draw), i, *label))
    return least, tests.threshold


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    given = parser.parse_args()
    of_streams(given.data, given.keep)
    of_independent(given.runs)
    of_late(given.runs)


if __name__ == "__main__":
    main()
