"""`isotonic_fit`, whole and in parts, and `PAVStack`; SciPy's regression on presorted scores."""

from typing import Any

import numpy as np

from benchmarks.sizes import sizes


class Fit:
    """A batch at once; validation and all, on both sides."""

    params = (sizes(10_000, 100_000, 1_000_000), ["trend", "noise"])
    param_names = ("n", "labels")

    def setup(self, n: int, labels: str) -> None:
        from scipy.optimize import isotonic_regression

        from streamcal import isotonic_fit

        rng = np.random.default_rng(1)
        self.scores = np.sort(rng.random(n))
        self.y = rng.normal(size=n) + (8 * self.scores if labels == "trend" else 0)
        self.fit: Any = isotonic_fit
        self.peer: Any = isotonic_regression

    def time_streamcal(self, n: int, labels: str) -> None:
        self.fit(self.scores, self.y)

    def time_scipy(self, n: int, labels: str) -> None:
        self.peer(self.y)


class Sharded:
    """Samples in any order, in two shards: on one core, by ranges there, by ranges in a pool."""

    params = sizes(1_000_000)
    param_names = ("n",)

    def setup(self, n: int) -> None:
        import multiprocess

        from streamcal import isotonic_fit, isotonic_fit_sharded

        rng = np.random.default_rng(1)
        scores = rng.random(n)
        y = (rng.random(n) < scores).astype(np.float64)
        self.shards = [(scores[::2], y[::2]), (scores[1::2], y[1::2])]
        self.fit: Any = isotonic_fit
        self.fit_sharded: Any = isotonic_fit_sharded
        self.pool = multiprocess.get_context("spawn").Pool(2)
        self.fit_sharded(self.shards, pool=self.pool)  # its processes have loaded their kernels

    def teardown(self, n: int) -> None:
        self.pool.terminate()

    def time_one_core(self, n: int) -> None:
        self.fit(*map(np.concatenate, zip(*self.shards, strict=True)))

    def time_ranges_on_one_core(self, n: int) -> None:
        self.fit_sharded(self.shards, n_ranges=2)

    def time_two_processes(self, n: int) -> None:
        self.fit_sharded(self.shards, pool=self.pool)


class Stack:
    """A stream in score order, sample by sample."""

    def setup(self) -> None:
        from streamcal import PAVStack

        rng = np.random.default_rng(1)
        self.samples = list(enumerate(rng.random(10_000).tolist()))
        self.make = PAVStack
        self.make().push(0.0, 0.0)

    def time_push_10_000(self) -> None:
        push = self.make().push
        for score, y in self.samples:
            push(score, y)
