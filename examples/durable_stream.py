"""A crash-safe stream loop with keys, delayed labels, and a process that stops and restarts.

Scores of two shops have an id; their labels arrive 200 events later with the same id. The second
run reads the store, continues at the event where the first run stopped, and predicts the same
values as a run without a stop.
"""

import math
import pathlib
import random
import tempfile

import numpy as np
from numpy.typing import NDArray

from streamcal import IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import Event, LabelJoin, Store, run

DELAY = 200


def stream(n_scores: int) -> list[Event]:
    rng = random.Random(3)
    events, late = [], []
    for number in range(n_scores):
        shop, score = rng.choice(["north", "south"]), rng.random()
        truth = score**2 if shop == "north" else math.sqrt(score)
        events.append(Event(score, key=shop, id=number))
        late.append(Event(math.nan, float(rng.random() < truth), key=shop, id=number))
        if number >= DELAY:
            events.append(late[number - DELAY])
    return events


def serve(path: pathlib.Path, events: list[Event]) -> tuple[NDArray[np.float64], int, list[float]]:
    """Continue from the store; return the predictions, the offset and both shops' value of 0.5."""
    answers: list[NDArray[np.float64]] = []
    with Store(path) as store:
        shops = KeyedCalibrator(IsotonicCalibrator(window=2_000), max_live=1_000, store=store)
        join = LabelJoin(horizon=10_000)
        at = run(events, shops, lambda offset, p: answers.append(p), store, join=join)
        return np.concatenate(answers), at, [shops.predict_one(k, 0.5) for k in ("north", "south")]


def main() -> None:
    events = stream(3_000)
    with tempfile.TemporaryDirectory() as folder:
        first, stopped, _ = serve(pathlib.Path(folder, "run.db"), events[:2_500])
        second, ended, (north, south) = serve(pathlib.Path(folder, "run.db"), events)
        whole, _, _ = serve(pathlib.Path(folder, "another.db"), events)
    print(f"stopped after {stopped} events, continued to {ended}")
    same = np.array_equal(np.concatenate([first, second]), whole, equal_nan=True)
    print(f"the same predictions as without a stop: {same}")
    print(f"a score of 0.5 means {north:.2f} in the north and {south:.2f} in the south")


if __name__ == "__main__":
    main()
