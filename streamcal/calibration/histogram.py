"""Online histogram binning: the mean label of the scores that rank alike.

Scores are cut into bins of equal mass, and a score's calibrated value is the mean label of its bin
(Zadrozny & Elkan, *Obtaining Calibrated Probability Estimates from Decision Trees and Naive
Bayesian Classifiers*, ICML 2001, section 3.2). On a stream the quantiles that bound the bins move
with every sample. They are read off a sketch of some hundreds of cells that carry their labels
with them, so that bins of the moment hold the labels of all samples that would be in them.
"""

import numpy as np

from streamcal._state import Arrays, Fields, array_of, as_float, require
from streamcal._validation import LARGEST, as_number, as_weight, check_half_life
from streamcal.calibration.probability import (
    MOST_BINS,
    ProbabilityCalibrator,
    as_label,
    as_probability,
    check_count,
)
from streamcal.kernels import histogram as kernels

_LARGEST_GROWTH = 2.0**128
_CELLS_PER_BIN = 16
_FIRST_CELLS = 64


class HistogramCalibrator(ProbabilityCalibrator):
    """Bins of equal mass over the scores so far, each with its mean label.

    Unlike a staircase it need not rise with the score. Memory and time per sample are those of 16
    cells a bin.

    Parameters
    ----------
    n_bins : int
        How many bins, from 1 to 1,000,000.
    half_life : float, optional
        Halve the weight of all samples with every so many that follow, at least 0.1.
    prior : float
        The weight of a pseudo-sample in each bin whose label is the bin's mean score, from 0 to
        1e60: it keeps answers off 0 and 1, and few samples from saying much.

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
        self, n_bins: int = 15, half_life: float | None = None, prior: float = 1.0
    ) -> None:
        check_count(n_bins, "n_bins", 1, MOST_BINS)
        check_half_life(half_life)
        if not 0.0 <= as_number(prior, "prior") <= LARGEST:
            raise ValueError(f"`prior` must be a non-negative finite number, got {prior}")
        self.n_bins = n_bins
        self.half_life = half_life
        self.prior = prior
        # One row more than there may be cells: when that is taken too, two cells are merged.
        self._most_rows = _CELLS_PER_BIN * int(n_bins) + 1
        self._cells = np.zeros((min(_FIRST_CELLS, self._most_rows), 4))
        self._n_cells = 0
        self._rate = 2.0 ** (1.0 / half_life) if half_life else 1.0
        self._growth = 1.0

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Put the label ``y`` in [0, 1] where ``score`` in [0, 1] stands; O(n_bins).

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        p, label = as_probability(score), as_label(y)
        weight = 1.0 if w == 1.0 else as_weight(w)
        # Instead of all weights shrinking, those of new samples grow.
        self._growth *= self._rate
        if self._growth > _LARGEST_GROWTH:
            self._cells[:, kernels.WEIGHT :] /= self._growth
            self._growth = 1.0
            self._drop_vanished()
        weight *= self._growth
        self._make_room()
        self._n_cells = kernels.add(self._cells, self._n_cells, p, label, weight)

    def _make_room(self) -> None:
        """Have a row for one more cell, and one behind it until there are as many as may be."""
        rows = len(self._cells)
        if self._n_cells + 1 >= rows and rows < self._most_rows:
            cells = np.zeros((min(2 * rows, self._most_rows), 4))
            cells[: self._n_cells] = self._cells[: self._n_cells]
            self._cells = cells

    def _drop_vanished(self) -> None:
        """Drop the cells of which nothing is left."""
        held = self._cells[: self._n_cells]
        kept = held[held[:, kernels.WEIGHT] > 0.0]
        self._cells[: len(kept)] = kept
        self._n_cells = len(kept)

    def predict_one(self, score: float) -> float:
        """Return the mean label in the bin of ``score``, a probability in [0, 1]; O(n_bins).

        Before anything is learned it is the score itself.
        """
        p = as_probability(score)
        prior = self.prior * self._growth
        return kernels.predict(self._cells, self._n_cells, self.n_bins, prior, p)

    def _freeze(self) -> tuple[Fields, Arrays]:
        return {"growth": self._growth}, {"cells": self._cells[: self._n_cells]}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        cells = array_of(arrays, "cells", None, 4)
        growth = as_float(fields["growth"], "growth", 1.0, _LARGEST_GROWTH)
        require(len(cells) < self._most_rows, "there must be no more cells than the bins allow")
        scores, weights, *sums = cells.T
        require((np.diff(scores) > 0.0).all(), "scores must increase")
        require((weights > 0.0).all() and np.isfinite(weights.sum()), "weights must be positive")
        require(not len(cells) or (scores[0] >= 0.0 and scores[-1] <= 1.0), "scores are in [0, 1]")
        for total in sums:  # of labels and of scores, which are in [0, 1]
            require((total >= 0.0).all() and (total <= weights).all(), "sums must be in range")
        self._n_cells, self._growth = len(cells), growth
        self._cells = np.zeros((min(len(cells) + _FIRST_CELLS, self._most_rows), 4))
        self._cells[: len(cells)] = cells
