"""The time per sample of a hedge, beside the calibrators that it mixes and the others."""

import copy
from typing import Any

from benchmarks.sizes import size

N = size(10_000)  # samples learned before the clock starts
SAMPLES = size(2_000)


def make(name: str) -> Any:
    """Return a fresh calibrator."""
    import streamcal

    staircase = streamcal.IsotonicCalibrator
    return {
        "hedge": streamcal.HedgedCalibrator,
        "identity": streamcal.IdentityCalibrator,
        "Platt": streamcal.PlattCalibrator,
        "staircase of 200": lambda: staircase(window=200),
        "staircase of 2000": lambda: staircase(window=2_000),
        "staircase of all": staircase,
        "beta": streamcal.BetaCalibrator,
        "histogram": streamcal.HistogramCalibrator,
    }[name]()


class Calibrators:
    """Costs of ``SAMPLES`` samples, ``N`` of them learned already."""

    params = (
        "hedge",
        "identity",
        "Platt",
        "staircase of 200",
        "staircase of 2000",
        "staircase of all",
        "beta",
        "histogram",
    )
    param_names = ("calibrator",)
    number = 1
    warmup_time = 0.0

    def setup_cache(self) -> dict[str, Any]:
        import numpy as np

        rng = np.random.default_rng(1)
        scores = rng.uniform(size=N)
        y = rng.uniform(size=N) < scores**2
        calibrators = {name: make(name) for name in self.params}
        for calibrator in calibrators.values():
            calibrator.learn_many(scores, y)
        return calibrators

    def setup(self, calibrators: dict[str, Any], calibrator: str) -> None:
        import numpy as np

        rng = np.random.default_rng(2)
        self.scores = rng.uniform(size=SAMPLES)
        self.y = (rng.uniform(size=SAMPLES) < self.scores**2).astype(float)
        self.samples = list(zip(self.scores.tolist(), self.y.tolist(), strict=True))
        self.calibrator = copy.deepcopy(calibrators[calibrator])
        self.calibrator.learn_one(0.5, 1.0)
        self.calibrator.predict_one(0.5)

    def time_learn_one(self, calibrators: dict[str, Any], calibrator: str) -> None:
        learn_one = self.calibrator.learn_one
        for score, y in self.samples:
            learn_one(score, y)

    def time_predict_one(self, calibrators: dict[str, Any], calibrator: str) -> None:
        predict_one = self.calibrator.predict_one
        for score, _ in self.samples:
            predict_one(score)

    def time_predict_learn_many(self, calibrators: dict[str, Any], calibrator: str) -> None:
        self.calibrator.predict_learn_many(self.scores, self.y)
