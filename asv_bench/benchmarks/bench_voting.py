"""Votes for 1,000 classes: the sweep over breakpoints and the paper's search."""

import numpy as np


class Votes:
    """One rule of 1,000 classes."""

    params = (["sweep", "search"],)
    param_names = ("method",)
    warmup_time = 0.0
    repeat = (2, 10, 10.0)

    def setup(self, method: str) -> None:
        from streamcal.voting import optimal_votes, search_votes

        self.weights = np.random.default_rng(1).exponential(1.0, 1_000)
        self.find = optimal_votes if method == "sweep" else search_votes

    def time_1_000_classes(self, method: str) -> None:
        self.find(self.weights)
