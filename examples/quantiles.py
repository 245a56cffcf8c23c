"""A band around a regressor's predictions: two quantiles of the label for each prediction.

The model predicts a mean. Two calibrators learn the 10 % and the 90 % quantile of the label for
each prediction, from the last two thousand samples. 80 % of the labels should lie in the band.
"""

from river import linear_model, preprocessing, stats
from river.datasets import synth

import streamcal
from streamcal.losses import Pinball


def main() -> None:
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    low, high = (
        streamcal.AnytimeCalibrator(Pinball(tau=tau), window=2_000, every=200) for tau in (0.1, 0.9)
    )
    inside, width = stats.Mean(), stats.Mean()
    for i, (x, y) in enumerate(synth.Friedman(seed=1).take(5_000)):
        prediction = model.predict_one(x)
        if i >= 500:
            band = low.predict_one(prediction), high.predict_one(prediction)
            inside.update(band[0] <= y <= band[1])
            width.update(band[1] - band[0])
        model.learn_one(x, y)
        low.learn_one(prediction, y)
        high.learn_one(prediction, y)
    print(f"share inside the band: {inside.get():.3f}, its mean width: {width.get():.1f}")


if __name__ == "__main__":
    main()
