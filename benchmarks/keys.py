"""Memory and latencies of very many keys, most of which are only in a store.

    python benchmarks/keys.py [--keys 1000000] [--hedge] [--max-live 10000] [--samples 100000]

The key of rank r has learned samples in proportion to 1/r, 20 each on average, with uniform scores:
its calibrator is `IsotonicCalibrator(window=200)` or, with ``--hedge``, the default hedge. Keys
share the states of a few dozen numbers of samples, since learning them all would take hours. Then
another process opens the store, and predicts and learns samples of keys that are drawn with the
same frequencies (Zipf), with a commit after every 5,000. It prints:

* the greatest memory of that process (Linux),
* the latency of predicting and learning a sample, p50, p99, p99.9 and the worst, of all samples, of
  those whose calibrator was live, and of those whose calibrator was not,
* what a commit takes, and the size of the file.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from streamcal import Calibrator, HedgedCalibrator, IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import Store
from streamcal.durable.keys import name_of

MEAN = 20  # samples of a key in the store
PART = 5_000  # samples between two commits


def prototype(hedge: bool) -> Calibrator:
    """Return the calibrator of all keys."""
    return HedgedCalibrator() if hedge else IsotonicCalibrator(window=200)


def states(n_keys: int, hedge: bool) -> Iterator[bytes]:
    """Yield the state of each key, the most frequent one first."""
    counts = MEAN * n_keys / np.log(n_keys) / np.arange(1, n_keys + 1)
    counts = np.exp2(np.round(2.0 * np.log2(np.maximum(counts, 1.0))) / 2.0).astype(int)
    rng, made = np.random.default_rng(0), {}
    for count in counts.clip(max=20_000).tolist():
        if count not in made:
            scores = rng.random(count)
            calibrator = prototype(hedge)
            calibrator.learn_many(scores, rng.random(count) < scores)
            made[count] = calibrator.to_bytes()
        yield made[count]


def fill(path: Path, n_keys: int, hedge: bool) -> None:
    """Write the states of all keys."""
    part: dict[str, bytes] = {}
    with Store(path) as store:
        for rank, state in enumerate(states(n_keys, hedge)):
            part[name_of(rank)] = state
            if len(part) == 4 * PART or rank == n_keys - 1:
                store.save(part, rank)
                part.clear()


def peak() -> int:
    """Return the greatest number of bytes of memory of this process so far (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM"))


def show(name: str, seconds: list[float]) -> None:
    """Print a line of latencies, if there are any."""
    if not seconds:
        return
    quantiles = np.quantile(seconds, (0.5, 0.99, 0.999, 1.0)) * 1e3
    columns = " ".join(f"{value:9.3f}" for value in quantiles)
    print(f"  {name:10} {len(seconds):9,} {columns}", flush=True)


def serve(path: Path, n_keys: int, n_samples: int, max_live: int, hedge: bool) -> None:
    """Predict and learn samples of keys of the store, and print what it takes."""
    rng = np.random.default_rng(1)
    odds = np.cumsum(1.0 / np.arange(1, n_keys + 1))
    keys = np.searchsorted(odds, rng.random(n_samples) * odds[-1]).tolist()
    scores = rng.random(n_samples)
    labels = (rng.random(n_samples) < scores).tolist()
    live, stored, commits = [], [], []
    with Store(path) as store:
        keyed = KeyedCalibrator(prototype(hedge), max_live=max_live, store=store)
        for i, (key, score) in enumerate(zip(keys, scores.tolist(), strict=True)):
            took = live if key in keyed._cache.live else stored
            begun = time.perf_counter()
            keyed.predict_one(key, score)
            keyed.learn_one(key, score, labels[i])
            took.append(time.perf_counter() - begun)
            if (i + 1) % PART == 0:
                begun = time.perf_counter()
                keyed.save(n_keys + i)
                commits.append(time.perf_counter() - begun)
    print(f"memory at most {peak() / 1e6:,.0f} MB, {keyed.n_live:,} live calibrators")
    print(f"  {'ms':10} {'samples':>9} {'p50':>9} {'p99':>9} {'p99.9':>9} {'worst':>9}")
    show("all", live + stored)
    show("live", live)
    show("stored", stored)
    show("commits", commits)


def main() -> None:
    """Fill a store, and measure it in another process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--max-live", type=int, default=10_000)
    parser.add_argument("--hedge", action="store_true")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve is not None:
        serve(args.serve, args.keys, args.samples, args.max_live, args.hedge)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, begun = Path(folder, "keys.db"), time.perf_counter()
        fill(path, args.keys, args.hedge)
        took = time.perf_counter() - begun
        size = path.stat().st_size / 1e9
        print(f"{args.keys:,} keys, filled in {took:.0f} s, {size:.2f} GB on disk", flush=True)
        subprocess.run([sys.executable, __file__, "--serve", path, *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
