"""Alarms: what a sample costs a test of calibration, beside a hedge and river's detectors."""

from typing import Any

import numpy as np


class Samples:
    """A thousand samples, one by one."""

    params = (
        [
            "CalibrationTest",
            "CalibrationDrift",
            "ForecastComparison",
            "HedgedCalibrator",
            "ADWIN",
            "PageHinkley",
        ],
    )
    param_names = ("what",)
    warmup_time = 0.0
    repeat = (2, 10, 5.0)

    def setup(self, what: str) -> None:
        from river import drift

        from streamcal import HedgedCalibrator
        from streamcal.monitoring import CalibrationDrift, CalibrationTest, ForecastComparison

        rng = np.random.default_rng(1)
        p = rng.random(1_000)
        self.samples = list(zip((rng.random(1_000) < p).tolist(), p.tolist(), strict=True))
        self.made: Any = {
            "CalibrationTest": CalibrationTest,
            "CalibrationDrift": lambda: CalibrationDrift(1e15),
            "ForecastComparison": ForecastComparison,
            "HedgedCalibrator": HedgedCalibrator,
            "ADWIN": drift.ADWIN,
            "PageHinkley": drift.PageHinkley,
        }[what]()
        for sample in self.samples:
            self._add(what, *sample)

    def _add(self, what: str, y: bool, p: float) -> None:
        if what == "HedgedCalibrator":
            self.made.learn_one(p, y)
        elif what == "ForecastComparison":
            self.made.update(y, p, 0.5)
        elif what.startswith("Calibration"):
            self.made.update(y, p)
        else:
            self.made.update((p - y) ** 2)

    def time_1_000_samples(self, what: str) -> None:
        for sample in self.samples:
            self._add(what, *sample)
