"""Calibration for each segment, beside one calibrator per segment."""

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.sizes import size

SAMPLES = size(10_000)
FIELDS = tuple(f"field {i}" for i in range(8))
CROSSES = tuple(pairwise(FIELDS[:7]))


def samples() -> tuple[dict[str, list[str]], Any, Any]:
    """Return samples whose fields have few frequent and many rare values (Zipf)."""
    draw = np.random.default_rng(0)
    columns = {
        name: draw.zipf(1.3, SAMPLES).clip(max=10**6).astype(str).tolist() for name in FIELDS
    }
    p = draw.random(SAMPLES)
    return columns, p, (draw.random(SAMPLES) < p).astype(float)


class OneByOne:
    """``SAMPLES`` samples of eight fields and six crossings, beyond the base calibrator."""

    params = ("segments", "keyed by eight fields")
    param_names = ("calibrator",)

    def setup(self, calibrator: str) -> None:
        from streamcal import (
            IdentityCalibrator,
            KeyedCalibrator,
            PlattCalibrator,
            SegmentCalibrator,
        )

        columns, p, y = samples()
        rows = [dict(zip(FIELDS, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if calibrator == "segments":
            self.calibrator: Any = SegmentCalibrator(
                FIELDS, crosses=CROSSES, base=IdentityCalibrator()
            )
            self.keys: list[Any] = [()] * SAMPLES
            self.given: list[Any] = [{"x": row} for row in rows]
        else:
            self.calibrator = KeyedCalibrator(PlattCalibrator())
            self.keys = [(tuple(row.values()),) for row in rows]
            self.given = [{}] * SAMPLES
        self.scores, self.labels = p.tolist(), y.tolist()
        self.time_learn_one(calibrator)

    def time_predict_one(self, calibrator: str) -> None:
        predict_one = self.calibrator.predict_one
        for key, score, given in zip(self.keys, self.scores, self.given, strict=True):
            predict_one(*key, score, **given)

    def time_learn_one(self, calibrator: str) -> None:
        learn_one = self.calibrator.learn_one
        samples = zip(self.keys, self.scores, self.labels, self.given, strict=True)
        for key, score, label, given in samples:
            learn_one(*key, score, label, **given)


class Many:
    """``SAMPLES`` samples in one call."""

    def setup(self) -> None:
        from streamcal import IdentityCalibrator, SegmentCalibrator

        self.samples = samples()
        self.calibrator = SegmentCalibrator(FIELDS, crosses=CROSSES, base=IdentityCalibrator())

    def time_predict_learn_many(self) -> None:
        columns, p, y = self.samples
        self.calibrator.predict_learn_many(p, y, x=columns)


class Memory:
    """Bytes for each term."""

    unit = "bytes"

    def track_bytes_per_term(self) -> float:
        from streamcal import IdentityCalibrator, SegmentCalibrator

        n = size(1_000_000)
        calibrator = SegmentCalibrator(["user"], base=IdentityCalibrator(), max_terms=n)
        calibrator.learn_many(np.full(n, 0.5), np.arange(n) % 2, x={"user": range(n)})
        return calibrator.memory_usage / calibrator.n_terms
