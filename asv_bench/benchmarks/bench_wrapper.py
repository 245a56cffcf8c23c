"""The time per sample of calibrating a river model, beside the model's own time."""

import copy
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

from benchmarks.sizes import size

N = size(10_000)  # distinct scores learned before the clock starts
SAMPLES = size(2_000)


def samples() -> Iterator[tuple[dict[Any, Any], bool]]:
    """Yield the samples of Bananas; each also has the quarter of the plane that it is in."""
    from river import datasets

    for x, y in datasets.Bananas():
        yield {**x, "quarter": sum(2**i for i, value in enumerate(x.values()) if value > 0.0)}, y


class Wrapper:
    """Costs of ``SAMPLES`` samples of Bananas, the calibrator already holding ``N`` scores."""

    params = ("raw", "wrapped, Platt", "wrapped, hedge", "wrapped, segments")
    param_names = ("model",)
    number = 1
    warmup_time = 0.0

    def setup_cache(self) -> dict[str, Any]:
        from river import linear_model

        import streamcal

        raw = linear_model.LogisticRegression()
        models = {
            "raw": raw,
            "wrapped, Platt": streamcal.CalibratedClassifier(
                raw.clone(), streamcal.PlattCalibrator()
            ),
            "wrapped, hedge": streamcal.CalibratedClassifier(raw.clone()),
            "wrapped, segments": streamcal.CalibratedClassifier(raw.clone(), segments=("quarter",)),
        }
        for model in models.values():
            for x, y in islice(cycle(samples()), N):
                model.learn_one(x, y)
        return models

    def setup(self, models: dict[str, Any], model: str) -> None:
        self.model = copy.deepcopy(models[model])
        self.samples = list(islice(samples(), SAMPLES))
        x, y = self.samples[0]
        self.model.predict_proba_one(x)
        self.model.learn_one(x, y)

    def time_learn_one(self, models: dict[str, Any], model: str) -> None:
        learn_one = self.model.learn_one
        for x, y in self.samples:
            learn_one(x, y)

    def time_predict_proba_one(self, models: dict[str, Any], model: str) -> None:
        predict_proba_one = self.model.predict_proba_one
        for x, _ in self.samples:
            predict_proba_one(x)
