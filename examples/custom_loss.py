"""Calibrate under a loss of your own: a short subclass of MeanLoss.

Forecasts of sales, prices or delays are wrong by a factor rather than by an amount, so the loss is
(log z − log y)². The best value for a block of samples is the geometric mean of their labels. This
is exp of a mean of logs: the link of the mean of a statistic.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import streamcal
from streamcal.losses import Gamma, MeanLoss


@dataclass(frozen=True, kw_only=True)
class LogError(MeanLoss):
    """Squared error of the logarithm, for positive quantities that are wrong by a factor."""

    name = "log-error"
    y_range = z_range = Gamma.y_range  # the positive numbers

    def __call__(self, z: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(np.square(np.log(z) - np.log(y)))

    def statistic(self, y: Any) -> Any:
        return np.log(y)

    def link(self, m: Any) -> Any:
        return np.exp(m)

    def inverse_link(self, z: Any) -> Any:
        return np.log(z)


def main() -> None:
    rng = np.random.default_rng(0)
    forecast = rng.uniform(1.0, 100.0, 5_000)
    truth = 0.5 * forecast**1.2 * rng.lognormal(sigma=0.5, size=5_000)

    loss = LogError()
    print(f"forecast without calibration: {loss(forecast, truth).mean():.3f}")
    for chosen in ("squared", loss):
        calibrator = streamcal.IsotonicCalibrator(loss=chosen)
        served = calibrator.predict_learn_many(forecast, truth)
        name = chosen if isinstance(chosen, str) else chosen.name
        print(f"calibrated under {name}: {loss(served, truth).mean():.3f}")


if __name__ == "__main__":
    main()
