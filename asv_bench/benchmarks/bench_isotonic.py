"""`IsotonicCalibrator` sample by sample, at different sizes."""

import copy
from typing import Any

import numpy as np

from benchmarks.sizes import size, sizes

SAMPLES = size(2_000)


class OneByOne:
    """``SAMPLES`` calls from Python, with ``n`` distinct scores held."""

    params = sizes(1_000, 10_000, 100_000)
    param_names = ("n",)
    number = 1
    warmup_time = 0.0

    def setup_cache(self) -> dict[int, Any]:
        from streamcal import IsotonicCalibrator

        calibrators = {}
        for n in self.params:
            rng = np.random.default_rng(1)
            scores = rng.random(n)
            calibrators[n] = IsotonicCalibrator()
            calibrators[n].learn_many(scores, rng.random(n) < scores)
        return calibrators

    def setup(self, calibrators: dict[int, Any], n: int) -> None:
        self.calibrator = copy.deepcopy(calibrators[n])
        rng = np.random.default_rng(2)
        scores = rng.random(SAMPLES)
        self.scores = scores.tolist()
        self.samples = list(zip(self.scores, (rng.random(SAMPLES) < scores).tolist(), strict=True))
        self.calibrator.predict_one(0.5)

    def time_learn_one(self, calibrators: dict[int, Any], n: int) -> None:
        learn_one = self.calibrator.learn_one
        for score, label in self.samples:
            learn_one(score, label)

    def time_predict_one(self, calibrators: dict[int, Any], n: int) -> None:
        predict_one = self.calibrator.predict_one
        for score in self.scores:
            predict_one(score)
