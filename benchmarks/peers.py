"""Online calibrators of others, as peers of the study: written from what their authors published.

All options are their authors' defaults. A peer that learns one sample at a time has two methods:
``serve`` returns the probability for a score, and what `learn` needs when the label is there.
"""

import math
import random

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from streams import Vector

from streamcal import PlattCalibrator

BINS = 10  # of calibeating, as in the paper's experiments (ε = 0.1)


class RiverSGD:
    """Platt scaling by gradient steps, as in pull request 1988 of river (August 2026).

    It scales the log odds of the more probable label; the target is whether the label was that one.
    """

    def __init__(self) -> None:
        self.rate, self.slope, self.intercept = 0.1, 1.0, 0.0

    def serve(self, score: float) -> tuple[float, float]:
        """Return the probability of True, and the score."""
        p = float(expit(self.slope * self._log_odds(score) + self.intercept))
        return (p if score > 0.5 else 1.0 - p), score

    def learn(self, score: float, y: float) -> None:
        """Take one gradient step."""
        s = self._log_odds(score)
        error = float(expit(self.slope * s + self.intercept)) - float((score > 0.5) == (y == 1.0))
        self.slope -= self.rate * error * s
        self.intercept -= self.rate * error

    @staticmethod
    def _log_odds(score: float) -> float:
        p = min(max(score, 1.0 - score), 1.0 - 1e-7)
        return math.log(p / (1.0 - p))


class Tracking:
    """Online Platt scaling with tracking (TOPS): the mean label in the bin of its forecast.

    Gupta & Ramdas, *Online Platt Scaling with Calibeating*, ICML 2023, Section 3. Their online
    Platt scaling is `PlattCalibrator`. As in the code of their experiments, each bin starts with
    one sample of a value 0.005 below its right edge.
    """

    def __init__(self) -> None:
        self.platt = PlattCalibrator()
        self.means = [(bin_ + 1.0) / BINS - 0.05 / BINS for bin_ in range(BINS)]
        self.counts = [1] * BINS

    def serve(self, score: float) -> tuple[float, tuple[float, int]]:
        """Return the mean of a bin; the score and the bin."""
        bin_ = bin_of(self.platt.predict_one(score))
        return self.means[bin_], (score, bin_)

    def learn(self, kept: tuple[float, int], y: float) -> None:
        """Learn a label, also in the bin of the forecast that was served."""
        score, bin_ = kept
        self.platt.learn_one(score, y == 1.0)
        self.counts[bin_] += 1
        self.means[bin_] += (y - self.means[bin_]) / self.counts[bin_]


class Hedging:
    """Online Platt scaling with hedging (HOPS): a calibrated forecaster for each bin.

    From the same paper. In each bin of the forecasts of Platt scaling, Foster's randomised
    forecaster (*A proof of calibration via Blackwell's approachability theorem*, 1999) plays the
    middles of ten intervals. It plays one whose mean label is inside, that of the bin first.
    Otherwise it plays one of two neighbours, at random: one's mean is above, the other's below.
    """

    def __init__(self) -> None:
        self.platt = PlattCalibrator()
        self.random = random.Random(1)
        self.means = [[(i + 0.5) / BINS for i in range(BINS)] for _ in range(BINS)]
        self.counts = [[0] * BINS for _ in range(BINS)]

    def serve(self, score: float) -> tuple[float, tuple[float, int, int]]:
        """Return the middle of an interval; the score, the bin and the interval."""
        bin_ = bin_of(self.platt.predict_one(score))
        played = self._interval(bin_)
        return (played + 0.5) / BINS, (score, bin_, played)

    def learn(self, kept: tuple[float, int, int], y: float) -> None:
        """Learn a label, also for the interval that was played."""
        score, bin_, played = kept
        self.platt.learn_one(score, y == 1.0)
        counts, means = self.counts[bin_], self.means[bin_]
        counts[played] += 1
        means[played] += (y - means[played]) / counts[played]

    def _interval(self, bin_: int) -> int:
        below = [i / BINS - mean for i, mean in enumerate(self.means[bin_])]
        above = [mean - (i + 1) / BINS for i, mean in enumerate(self.means[bin_])]
        for i in (bin_, *range(BINS)):
            if below[i] <= 0.0 and above[i] <= 0.0:
                return i
        i = next(i for i in range(BINS) if below[i] > 0.0)
        return i - (self.random.uniform(0.0, below[i] + above[i - 1]) <= below[i])


def bin_of(p: float) -> int:
    """Return the bin of a probability; a bin holds its right edge."""
    return min(max(math.ceil(p * BINS) - 1, 0), BINS - 1)


def binned_isotonic(scores: Vector, y: Vector, every: int) -> Vector:
    """Return what version 0.2.0 of PyPI's package ``streamcal`` predicts (another of that name).

    Its ``StreamingIsotonicCalibrator`` keeps counts and labels of 100 bins, multiplied by 0.9
    before each batch. Isotonic regression of the bins' means, with one sample of the identity in
    each, is interpolated between the middles of the bins.
    """
    edges = np.linspace(0.0, 1.0, 101)
    middles = (edges[:-1] + edges[1:]) / 2.0
    counts, positives = np.zeros(100), np.zeros(100)
    served = scores.copy()
    for start in range(0, len(y), every):
        now = slice(start, start + every)
        if start > 0:
            weights = counts + 1.0
            model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
            model.fit(middles, (positives + middles) / weights, sample_weight=weights)
            served[now] = np.interp(scores[now], middles, model.predict(middles))
        bins = (np.digitize(scores[now], edges) - 1).clip(0, 99)
        counts = 0.9 * counts + np.bincount(bins, minlength=100)
        positives = 0.9 * positives + np.bincount(bins, y[now], minlength=100)
    return served
