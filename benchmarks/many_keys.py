"""What many keys cost `durable.run`, beside one stream without keys.

    python benchmarks/many_keys.py [--events 200000] [--only platt] [--keys zipf] [--runs 3]
        [--batch 1000]

Streams of events in batches of ``--batch`` go through `run` into a store. ``--keys`` says how keys
are drawn; the default is the first four:

* none: one calibrator for all events;
* a number of keys that are equally frequent: 10 and 1000, or any other;
* zipf: by Zipf's law with exponent 1.2, up to 10⁶ keys;
* hot: a third of all events are of one key, the others of 1,000 keys;
* once: each event has a key of its own.

If there are more keys, 1,000 calibrators stay in memory (``max_live``). The first half of the
events fills the calibrators and is not counted. For each it prints microseconds and bytes written
per event, and the ratio of times to the stream without keys, which runs right before it: the median
of ``--runs``.
With ``--processes 2`` two processes learn such a stream each, at once; the time is that of both,
divided by the events of both. Beside them:

* SQLite alone: a row of the same bytes for each key of a batch, in one transaction,
* a dict of river's `LogisticRegression` on the log odds, without a store.
"""

import argparse
import gc
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import multiprocess
import numpy as np
from river import linear_model

from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    Calibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    VennAbersCalibrator,
)
from streamcal.durable import Event, Store, run

BATCH = 1_000
KINDS: dict[str, Callable[[], Calibrator]] = {
    "isotonic": lambda: IsotonicCalibrator(window=200),
    "isotonic-5000": lambda: IsotonicCalibrator(window=5_000),
    "platt": PlattCalibrator,
    "hedge": HedgedCalibrator,
    "beta": BetaCalibrator,
    "histogram": HistogramCalibrator,
    "venn-abers": lambda: VennAbersCalibrator(window=200),
    "anytime": lambda: AnytimeCalibrator("absolute", window=200),
}
FIRST = ("isotonic", "platt", "hedge")
KEYS = ("none", "10", "1000", "zipf")
MOST_LIVE = 1_000


def keys_of(how: str, n: int, rng: np.random.Generator) -> Sequence[object]:
    """Return a key for each of ``n`` events."""
    if how == "none":
        return [None] * n
    if how == "zipf":
        return [f"k{k}" for k in np.minimum(rng.zipf(1.2, n), 10**6).tolist()]
    if how == "hot":
        numbers = np.where(rng.random(n) < 1 / 3, -1, rng.integers(1_000, size=n))
        return [f"k{k}" for k in numbers.tolist()]
    if how == "once":
        return [f"k{k}" for k in range(n)]
    return [f"k{k}" for k in rng.integers(int(how), size=n).tolist()]


def events_of(how: str, n: int) -> list[Event]:
    """Return a stream whose scores are too extreme."""
    rng = np.random.default_rng(0)
    scores = rng.random(n)
    odds = np.log(scores / (1.0 - scores))
    labels = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.6 * odds))).astype(float)
    keys = keys_of(how, n, rng)
    return [
        Event(p, y, key=key)
        for p, y, key in zip(scores.tolist(), labels.tolist(), keys, strict=True)
    ]


def written() -> int:
    """Return how many bytes this process has written so far (Linux)."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def measure(kind: str, how: str, n: int, batch: int) -> tuple[float, float]:
    """Return microseconds and bytes per event of the second half of a stream."""
    events = events_of(how, n)
    gc.freeze()  # the collector would look at all events again and again
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "run.db")) as store:
        many = how in ("zipf", "once") or (how.isdecimal() and int(how) > MOST_LIVE)
        keyed = KeyedCalibrator(KINDS[kind](), max_live=MOST_LIVE if many else None, store=store)
        run(events[: n // 2], keyed, _nowhere, store=store, batch_size=batch)
        gc.collect()
        before, begun = written(), time.perf_counter()
        run(events, keyed, _nowhere, store=store, batch_size=batch)
        took = time.perf_counter() - begun
        return took / (n - n // 2) * 1e6, (written() - before) / (n - n // 2)


def measure_at_once(
    kind: str, how: str, n: int, batch: int, n_processes: int
) -> tuple[float, float]:
    """Return what `measure` does, for processes that run at the same time."""
    if n_processes == 1:
        return measure(kind, how, n, batch)
    with multiprocess.Pool(n_processes) as pool:
        each = pool.starmap(measure, [(kind, how, n, batch)] * n_processes)
    took, size = np.mean(each, axis=0)
    return took / n_processes, size


def _nowhere(offset: int, values: object) -> None:
    """Take values."""


def sqlite_alone(size: int, n_keys: int, n_batches: int = 20) -> float:
    """Return microseconds per row of this size, one row per event, one transaction per batch."""
    rng, data = np.random.default_rng(0), bytes(size)
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder, "x.db"), isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE states (key TEXT PRIMARY KEY, data BLOB)")
        begun = time.perf_counter()
        for _ in range(n_batches):
            database.execute("BEGIN")
            rows = [(f"k{k}", data) for k in rng.integers(n_keys, size=BATCH).tolist()]
            database.executemany("INSERT OR REPLACE INTO states VALUES (?, ?)", rows)
            database.execute("COMMIT")
        took = time.perf_counter() - begun
        database.close()
    return took / (n_batches * BATCH) * 1e6


def river_alone(how: str, n: int) -> float:
    """Return microseconds per event of a dict of logistic regressions, without a store."""
    models: dict[object, linear_model.LogisticRegression] = {}
    events = events_of(how, n)
    begun = time.perf_counter()
    for event in events:
        x = {"z": float(np.log(event.score / (1.0 - event.score)))}
        model = models.get(event.key)
        if model is None:
            model = models[event.key] = linear_model.LogisticRegression()
        model.predict_proba_one(x)
        model.learn_one(x, event.y)
    return (time.perf_counter() - begun) / n * 1e6


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--keys", action="append", help="none, a number, zipf, hot or once")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args()
    for kind in args.only or FIRST:
        for how in args.keys or KEYS:
            ratios, found = [], []
            for _ in range(args.runs):
                base = measure_at_once(kind, "none", args.events, args.batch, args.processes)
                found.append(base)
                if how != "none":
                    found[-1] = measure_at_once(kind, how, args.events, args.batch, args.processes)
                ratios.append(found[-1][0] / base[0])
            took, size = np.median(found, axis=0)
            print(
                f"{kind:10} {how:7} {took:8.2f} µs {size:8.0f} B   x {np.median(ratios):6.2f}",
                flush=True,
            )
    if not args.no_peers:
        for size in (280, 12_064, 37_560):  # the states of `FIRST` with 200 samples
            print(f"SQLite alone, {size} B, 1000 keys: {sqlite_alone(size, 1_000):.2f} µs")
        for how in ("none", "1000"):
            print(f"river's LogisticRegression, {how}: {river_alone(how, 20_000):.2f} µs")


if __name__ == "__main__":
    main()
