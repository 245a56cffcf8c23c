"""The sizes of benchmarks: as stated, or smaller if each only has to run."""

import os

# `make bench-quick` sets it.
LARGEST = int(os.environ.get("STREAMCAL_BENCH_LARGEST", "0")) or None


def size(n: int) -> int:
    """Return ``n``, or the largest size of this run if that is less."""
    return n if LARGEST is None else min(n, LARGEST)


def sizes(*stated: int) -> list[int]:
    """Return the different sizes of this run for those stated."""
    return list(dict.fromkeys(map(size, stated)))
