"""Memory per key of a store with many calibrators, and the time to open and to commit it.

    python benchmarks/store.py [--keys 100000] [--window 200] [--max-live 1000]

First, keys with full windows of uniform scores are learned. A calibrator in use takes more memory
than its bytes, so the memory is that of the process, before and after, with ``--max-live``. Then
stores with increasing numbers of keys and small states are opened, each in a separate process, up
to ten times ``--keys``.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from streamcal import IsotonicCalibrator, KeyedCalibrator, PlattCalibrator
from streamcal.durable import Store
from streamcal.durable.keys import name_of


def resident() -> int:
    """Return the bytes of memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def teach(keyed: KeyedCalibrator, keys: range, window: int) -> None:
    """Fill the windows of some keys."""
    rng = np.random.default_rng(keys.start)
    for key in keys:
        scores = rng.random(window)
        keyed.learn_many([key] * window, scores, rng.random(window) < scores)


def measure_windows(n_keys: int, window: int, max_live: int) -> None:
    """Print memory a key, the time of a commit, and the time until the first prediction."""
    prototype = IsotonicCalibrator(window=window)
    keyed = KeyedCalibrator(prototype)
    teach(keyed, range(50), window)
    print(f"in use: {keyed.memory_usage / len(keyed):,.0f} bytes a calibrator")

    before = resident()
    keyed = KeyedCalibrator(prototype, max_live=max_live)
    teach(keyed, range(n_keys), window)
    each = (resident() - before) / len(keyed)
    print(f"live and compressed, no store: {each:,.0f} bytes a key")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        with Store(path) as store:
            keyed = KeyedCalibrator(prototype, max_live=max_live, store=store)
            for start in range(0, n_keys, 500):
                teach(keyed, range(start, min(start + 500, n_keys)), window)
                keyed.save(start)
            took = []
            for start in range(5):
                teach(keyed, range(start * 500, start * 500 + 500), 1)
                begun = time.perf_counter()
                states = keyed.states()
                packed = time.perf_counter()
                store.save(states, start)
                took.append((packed - begun, time.perf_counter() - packed))
                keyed.saved()
            made, written = np.min(took, axis=0) * 1e3
            size = sum(map(len, states.values())) / len(states)
            print(f"commit of 500 states of {size:,.0f} bytes: {made:.0f} + {written:.0f} ms")
        for _ in range(3):
            begun = time.perf_counter()
            with Store(path) as store:
                keyed = KeyedCalibrator(prototype, max_live=max_live, store=store)
                keyed.predict_one(n_keys // 2, 0.5)
                took_open = time.perf_counter() - begun
            print(f"{n_keys:,} keys, opened and first prediction: {took_open:.2f} s")


def measure_keys(n_keys: int) -> None:
    """Print what a store of many small states takes to fill and, in another process, to open."""
    calibrator = PlattCalibrator()
    calibrator.learn_many([0.2, 0.7, 0.9], [0, 1, 1])
    state = calibrator.to_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        begun = time.perf_counter()
        with Store(path) as store:
            for start in range(0, n_keys, 10_000):
                keys = range(start, min(start + 10_000, n_keys))
                store.save({name_of(key): state for key in keys}, start)
        filled = time.perf_counter() - begun
        size = path.stat().st_size / n_keys
        print(f"{n_keys:,} keys, filled in {filled:.1f} s, {size:,.0f} bytes a key on disk")
        subprocess.run(
            [sys.executable, __file__, "--open", path, "--keys", str(n_keys)], check=True
        )


def measure_open(path: Path, n_keys: int) -> None:
    """Print what it takes to open a store, to read states, and to check everything."""
    keyed = KeyedCalibrator(PlattCalibrator(), max_live=1_000)
    draw = np.random.default_rng(0).integers(0, n_keys, 5_000).tolist()
    before = resident()
    times = [time.perf_counter()]
    with Store(path) as store:
        times.append(time.perf_counter())
        keyed = KeyedCalibrator(PlattCalibrator(), max_live=1_000, store=store)
        keyed.predict_one(draw[0], 0.5)
        times.append(time.perf_counter())
        for key in draw[1:]:
            keyed.predict_one(key, 0.5)
        times.append(time.perf_counter())
        grown = resident() - before
        store.check()
        times.append(time.perf_counter())
    opened, first, others, checked = np.diff(times)
    print(
        f"  opened in {opened * 1e3:.1f} ms, first prediction {first * 1e3:.1f} ms, others"
        f" {others / (len(draw) - 1) * 1e6:.0f} us, {grown / 1e6:.1f} MB more memory;"
        f" check {checked:.2f} s"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--window", type=int, default=200)
    parser.add_argument("--max-live", type=int, default=1_000)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.open is not None:
        measure_open(args.open, args.keys)
        return
    measure_windows(args.keys, args.window, args.max_live)
    for n_keys in (args.keys // 10, args.keys, args.keys * 10):
        measure_keys(n_keys)


if __name__ == "__main__":
    main()
