"""What a store of many calibrators takes: memory a key, time to open, time to commit.

    python benchmarks/store.py [--keys 100000] [--window 200]

Every key's window is full of uniform scores. A calibrator in use is more than its bytes, so the
memory is that of the process, before and after, with ``max_keys`` as given.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from streamcal import IsotonicCalibrator, KeyedCalibrator
from streamcal.durable.store import Store


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--window", type=int, default=200)
    parser.add_argument("--max-keys", type=int, default=1_000)
    args = parser.parse_args()
    prototype = IsotonicCalibrator(window=args.window)

    keyed = KeyedCalibrator(prototype)
    teach(keyed, range(50), args.window)
    print(f"in use: {keyed.memory_usage / len(keyed):,.0f} bytes a calibrator")

    before = resident()
    keyed = KeyedCalibrator(prototype, max_keys=args.max_keys)
    teach(keyed, range(args.keys), args.window)
    each = (resident() - before) / len(keyed)
    print(f"live and parked, no store: {each:,.0f} bytes a key")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        with Store(path) as store:
            keyed = KeyedCalibrator(prototype, max_keys=args.max_keys, store=store)
            for start in range(0, args.keys, 500):
                teach(keyed, range(start, min(start + 500, args.keys)), args.window)
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
                keyed = KeyedCalibrator(prototype, max_keys=args.max_keys, store=store)
                keyed.predict_one(args.keys // 2, 0.5)
                took_open = time.perf_counter() - begun
            print(f"{args.keys:,} keys, opened and first prediction: {took_open:.2f} s")


if __name__ == "__main__":
    main()
