"""`isotonic_fit` and `PAVStack` against SciPy's isotonic regression, on presorted scores."""

from typing import Any

import numpy as np


class Fit:
    """A batch at once; validation and all, on both sides."""

    params = ([10_000, 100_000, 1_000_000], ["trend", "noise"])
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
