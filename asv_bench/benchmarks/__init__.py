"""Benchmarks of speed and memory, one file per part of the package; `make bench` runs all of them.

A class has ``params``, ``param_names`` and ``setup``. A benchmark and its peer (scipy, river, the
bare model) are in one class, so that their ratio comes from one run on one machine.
Peers on numba compile in ``setup``; they are skipped where it is not installed. A benchmark whose
call changes its subject sets ``number = 1``.
Import the timed functions in ``setup``, too: an older revision in `make bench-compare` may lack one
of them, and then only that benchmark fails.

`make bench-quick` only checks that everything runs: `sizes.size` gives small sizes, and its
processes are forks of one that has imported the usual modules.
"""

import scipy.optimize  # noqa: F401  (the forks have it loaded)
from river import linear_model, preprocessing, utils  # noqa: F401  (the same)

from benchmarks.sizes import LARGEST

if LARGEST:  # else no process is a fork, and an older revision may lack a name
    import jax.numpy  # noqa: F401  (the same)

    import streamcal

    for name in streamcal.__all__:
        getattr(streamcal, name)
