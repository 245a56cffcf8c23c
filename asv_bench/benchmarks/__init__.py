"""Benchmarks of speed and memory, one file per part of the package; `make bench` runs all of them.

A class has ``params``, ``param_names`` and ``setup``; a benchmark and its peer (scipy, river, the
bare model) stand side by side in one class, so that their ratio comes from one run on one machine.
Peers on numba compile in ``setup``. A benchmark whose call changes its subject sets ``number = 1``.
Import what is timed in ``setup`` too: an older revision, run with these by `make bench-compare`,
may lack it, and then lacks that one benchmark and not all of them.

`make bench-quick` only checks that everything runs: `sizes.size` gives it small subjects, and its
processes are forks of one that has imported what most setups import.
"""

import numba  # noqa: F401  (the forks have it loaded)
import scipy.optimize  # noqa: F401  (the same)
from river import linear_model, preprocessing, utils  # noqa: F401  (the same)

from benchmarks.sizes import LARGEST

if LARGEST:  # else no process is a fork
    import jax.numpy  # noqa: F401
