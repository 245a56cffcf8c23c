"""A calibrator that forgets by time, written as a user would: the decayed mean of the label."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.calibration import Calibrator


class DecayedMean(Calibrator):
    """The mean of the labels, each with the weight w · 2 ** (-age / half_life)."""

    needs_time = True

    def __init__(self, half_life: float = 10.0, prior: float = 1.0) -> None:
        self.half_life = half_life
        self.prior = prior
        self.ones = self.n = 0.0
        self.n_samples = 0
        self.now: float | None = None

    def predict_one(self, score: float, x: Any = None) -> float:
        return (self.ones + self.prior * score) / (self.n + self.prior)

    def learn_one(
        self, score: float, y: float, w: float = 1.0, *, x: Any = None, ticket: Any = None, t: Any
    ) -> None:
        now, self._kind = self._read_time(t)
        if self.now is not None and now > self.now:
            fade = 2.0 ** ((self.now - now) / self.half_life)
            self.ones, self.n = self.ones * fade, self.n * fade
        self.now = now if self.now is None else max(now, self.now)
        self.ones, self.n = self.ones + w * y, self.n + w
        self.n_samples += 1

    def _check_labels(self, y: Any) -> NDArray[np.float64]:
        return np.asarray(y, dtype=np.float64)

    def _freeze(self) -> Any:
        return {"numbers": [self.ones, self.n, self.n_samples, self.now, self._kind]}, {}

    def _thaw(self, fields: Any, arrays: Any) -> None:
        self.ones, self.n, self.n_samples, self.now, self._kind = fields["numbers"]


def expected_mean(
    samples: list[tuple[float, float]], half_life: float = 10.0, score: float = 0.5
) -> float:
    """Return what `DecayedMean` predicts after pairs of time and label, at the last time."""
    last = max((t for t, _ in samples), default=math.nan)
    now, weights = -math.inf, []
    for t, _ in samples:  # a time that goes back counts as the latest
        now = max(now, t)
        weights.append(2.0 ** ((now - last) / half_life))
    ones = math.fsum(w * y for w, (_, y) in zip(weights, samples, strict=True))
    return (ones + score) / (math.fsum(weights) + 1.0)
