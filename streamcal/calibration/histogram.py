"""Online histogram binning: the mean label of scores in bins of equal mass.

Scores are cut into bins of equal mass, and a score's calibrated value is the mean label of its bin
(Zadrozny & Elkan, *Obtaining Calibrated Probability Estimates from Decision Trees and Naive
Bayesian Classifiers*, ICML 2001, section 3.2). On a stream the quantiles that bound the bins move
with every sample. They are read from a sketch of a few hundred cells, which also hold the labels,
so that the current bins contain the labels of all their samples.
"""

from datetime import timedelta

import numpy as np

from streamcal._state import Arrays, Fields, array_of, as_float, require
from streamcal._validation import LARGEST, check_count, check_within, growth_per_sample
from streamcal.calibration.clock import check_forgetting, in_samples, in_seconds
from streamcal.calibration.probability import MOST_BINS, CompiledCalibrator
from streamcal.export.curve import steps
from streamcal.export.description import Description, unlearned
from streamcal.kernels.histogram import CELLS_PER_BIN, LARGEST_GROWTH, Histogram
from streamcal.notebook.shape import Samples


class HistogramCalibrator(CompiledCalibrator):
    """Bins of equal mass over the scores so far, each with its mean label.

    Unlike a staircase it need not increase with the score. Memory and time per sample are O(16
    n_bins).

    Parameters
    ----------
    n_bins : int
        The number of bins, from 1 to 1,000,000.
    half_life : float or timedelta, optional
        The number of samples after which the weight of a sample is halved, at least 0.1, or
        the time after which it is. With a timedelta, `learn_one` needs the time ``t`` of
        each sample.
    prior : float
        The weight of a pseudo-sample in each bin whose label is the bin's mean score, from 0 to
        1e60. It keeps predictions away from 0 and 1 while a bin has few samples.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of its range.

    Examples
    --------
    >>> calibrator = HistogramCalibrator(n_bins=2, prior=0)
    >>> for score, label in [(0.1, 0), (0.2, 1), (0.3, 0), (0.6, 1), (0.8, 1), (0.9, 0)]:
    ...     calibrator.learn_one(score, label)
    >>> calibrator.predict_one(0.25), calibrator.predict_one(0.7)
    (0.3333, 0.6667)
    """

    def __init__(
        self, n_bins: int = 15, half_life: float | timedelta | None = None, prior: float = 1.0
    ) -> None:
        check_count(n_bins, "n_bins", 1, MOST_BINS)
        check_forgetting(half_life)
        check_within(prior, "prior", f"[0, {LARGEST:g}]")
        self.n_bins = n_bins
        self.half_life = half_life
        self.prior = prior
        if isinstance(half_life, timedelta):
            self.needs_time = True
        rate = growth_per_sample(in_samples(half_life))
        self._kernel: Histogram = Histogram(n_bins, rate, prior, in_seconds(half_life))

    def _kept_scores(self) -> Samples:
        cells, *_ = self._kernel.state()
        return cells[:, 0], cells[:, 1]

    def _describe(self) -> Description:
        cells, *_ = self._kernel.state()
        if not len(cells):
            return unlearned(0.0, 1.0, of_probabilities=True)
        return Description(steps(self._kernel.predict_many, cells[1:, 0].copy()))

    def _freeze(self) -> tuple[Fields, Arrays]:
        rows, growth, now = self._kernel.state()
        return {"growth": growth, **self._freeze_clock(now)}, {"cells": rows}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        cells = array_of(arrays, "cells", None, 4)
        growth = as_float(fields["growth"], "growth", 1.0, LARGEST_GROWTH)
        most = CELLS_PER_BIN * self.n_bins
        require(len(cells) <= most, "there must be no more cells than the bins allow")
        scores, weights, *sums = cells.T
        require((np.diff(scores) > 0.0).all(), "scores must increase")
        require((weights > 0.0).all() and np.isfinite(weights.sum()), "weights must be positive")
        require(
            not len(cells) or (scores[0] >= 0.0 and scores[-1] <= 1.0), "scores must be in [0, 1]"
        )
        for total in sums:  # of labels and of scores, which are in [0, 1]
            require((total >= 0.0).all() and (total <= weights).all(), "sums must be in range")
        self._kernel.restore(cells, growth, self._thaw_clock(fields))
