"""Isotonic regression of 4,000,000 rows in files: on one core, and range by range in two processes.

    python benchmarks/sharded_fit.py FOLDER [--rows 4000000] [--shards 4] [--repeat 9]

FOLDER is where the shards are written, some 100 MB, and may be empty. One core reads the same files
and calls `isotonic_fit`. Medians of several runs, in turn.
"""

import argparse
import time
from pathlib import Path
from statistics import median

import multiprocess
import numpy as np

from streamcal import isotonic_fit, isotonic_fit_sharded


def write_shards(folder: Path, n_rows: int, n_shards: int) -> list[tuple[Path, Path]]:
    """Write scores and labels of a stream, dealt out at random."""
    rng = np.random.default_rng(0)
    shards = []
    for i in range(n_shards):
        scores = rng.random(n_rows // n_shards)
        labels = (rng.random(len(scores)) < scores**2).astype(np.float64)
        shards.append((folder / f"scores{i}.npy", folder / f"labels{i}.npy"))
        np.save(shards[-1][0], scores)
        np.save(shards[-1][1], labels)
    return shards


def main() -> None:
    """Time both and compare what they find."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=9)
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    shards = write_shards(options.folder, options.rows, options.shards)
    times: dict[str, list[float]] = {"one core": [], "two processes": []}
    with multiprocess.get_context("spawn").Pool(2) as pool:
        isotonic_fit_sharded(shards, pool=pool)  # the processes have started and loaded kernels
        for _ in range(options.repeat):
            begun = time.perf_counter()
            columns = [np.concatenate([np.load(s[i]) for s in shards]) for i in (0, 1)]
            whole = isotonic_fit(*columns)
            between = time.perf_counter()
            parts = isotonic_fit_sharded(shards, pool=pool)
            end = time.perf_counter()
            times["one core"].append(between - begun)
            times["two processes"].append(end - between)
            for name in ("lower", "upper", "values", "weights"):
                np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    one, two = map(median, times.values())
    print(f"{options.rows:,} rows: equal; on one core {one:.2f} s, in two processes {two:.2f} s")
    print(f"{one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
