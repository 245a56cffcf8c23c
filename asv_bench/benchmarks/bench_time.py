"""Forgetting by time beside forgetting by counting."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from benchmarks.sizes import size

N_ONE, N_MANY = size(2_000), size(100_000)


class Time:
    """Learn samples that come once a minute; a timedelta needs times, which cost the rest."""

    params = (["platt", "isotonic", "window", "hedge"], ["counting", "time"])
    param_names = ("calibrator", "half_life")

    def setup(self, calibrator: str, half_life: str) -> None:
        from streamcal import HedgedCalibrator, IsotonicCalibrator, PlattCalibrator

        def length(n: int) -> Any:
            return n if half_life == "counting" else timedelta(minutes=n)

        def hedge() -> Any:
            parts = PlattCalibrator(half_life=length(500)), IsotonicCalibrator(window=length(1_000))
            return HedgedCalibrator(parts)

        self.make = {
            "platt": lambda: PlattCalibrator(half_life=length(500)),
            "isotonic": lambda: IsotonicCalibrator(half_life=length(500)),
            "window": lambda: IsotonicCalibrator(window=length(1_000)),
            "hedge": hedge,
        }[calibrator]
        rng = np.random.default_rng(1)
        self.scores = rng.random(N_MANY).round(4)
        self.y = (rng.random(N_MANY) < self.scores**2).astype(float)
        self.many: dict[str, Any] = {}
        self.one: list[dict[str, Any]] = [{}] * N_ONE
        if half_life == "time":
            begin = datetime(2025, 1, 1, tzinfo=UTC)
            self.many = {"t": 60.0 * np.arange(N_MANY)}
            self.one = [{"t": begin + timedelta(minutes=i)} for i in range(N_ONE)]
        self.samples = list(zip(self.scores.tolist(), self.y.tolist(), self.one, strict=False))

    def time_one_by_one(self, calibrator: str, half_life: str) -> None:
        learner = self.make()
        for score, y, given in self.samples[:N_ONE]:
            learner.predict_one(score)
            learner.learn_one(score, y, **given)

    def time_batch(self, calibrator: str, half_life: str) -> None:
        self.make().predict_learn_many(self.scores, self.y, **self.many)
