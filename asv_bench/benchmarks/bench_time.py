"""Forgetting by time beside forgetting by counting."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from benchmarks.sizes import size

N_ONE, N_RUN, N_MANY = size(2_000), size(20_000), size(100_000)


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


class TimePassedOn:
    """The same for Platt scaling in what passes times on: around a model, and in a run of keys."""

    params = (["wrapper, t=", "wrapper, feature", "10 keys", "1,000 keys"], ["counting", "time"])
    param_names = ("learner", "half_life")

    def setup(self, learner: str, half_life: str) -> None:
        from river import compose, linear_model

        from streamcal import CalibratedClassifier, PlattCalibrator
        from streamcal.durable import Event, KeyedCalibrator, run

        timed = half_life == "time"
        begin = datetime(2025, 1, 1, tzinfo=UTC)
        rng = np.random.default_rng(1)
        scores = rng.random(N_RUN).tolist()
        y = (rng.random(N_RUN) < scores).tolist()
        times = [begin + timedelta(minutes=i) for i in range(N_RUN)]

        def platt() -> Any:
            return PlattCalibrator(half_life=timedelta(minutes=500) if timed else 500)

        if "keys" in learner:
            n_keys = 10 if learner == "10 keys" else 1_000
            rows = zip(scores, y, times, strict=True)
            events = [
                Event(score, float(label), key=i % n_keys, t=t if timed else None)
                for i, (score, label, t) in enumerate(rows)
            ]
            self.learn = lambda: run(events, KeyedCalibrator(platt()), lambda *_: None, None)
            return
        by_feature = learner == "wrapper, feature"
        feature = {"time": "moment"} if timed and by_feature else {}
        more = [{"moment": t} if by_feature else {} for t in times[:N_ONE]]
        given: list[Any] = [{"t": t} if timed and not by_feature else {} for t in times[:N_ONE]]
        xs = [{"a": p, "b": 1.0 - p, **also} for p, also in zip(scores, more, strict=False)]

        def learn() -> None:
            model = compose.Discard("moment") | linear_model.LogisticRegression()
            wrapper = CalibratedClassifier(model, platt(), **feature)
            for x, label, t in zip(xs, y, given, strict=False):
                wrapper.predict_proba_one(x)
                wrapper.learn_one(x, label, **t)

        self.learn = learn

    def time_learn(self, learner: str, half_life: str) -> None:
        self.learn()
