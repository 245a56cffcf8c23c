"""Miscalibration over time: the CORP split of a sliding window, and its history.

One number for a whole stream does not show when a model became worse. Here the split of the last
``window`` samples is exact after each sample, and is added to the history at regular intervals. The
history is bounded: when it is full, every second point is removed and the interval is doubled, so
it always covers the whole stream evenly.
"""

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from river.metrics.base import BinaryMetric

from streamcal._validation import check_choice, check_count
from streamcal.isotonic.staircase import Staircase
from streamcal.losses import Tweedie
from streamcal.losses.deviance import DevianceName
from streamcal.metrics.base import MeanMetric, find_deviance
from streamcal.metrics.corp import CORP, SCORES, Scoring, chance_miscalibration

_DRAWS = 2  # sets of labels that are drawn from the predictions of a window at a time
_WINDOWS = 10  # drawn from while a window passes, at most; their mean is the level by chance
_APART = 20  # samples between draws, at least: drawing costs as much as learning some of them


class RollingPoint(NamedTuple):
    """The split of the window after ``n_samples`` samples of the stream.

    ``chance`` is the MCB that such predictions have by chance if they are calibrated: a mean over
    labels drawn from them.
    """

    n_samples: int
    mean_score: float
    mcb: float
    dsc: float
    unc: float
    chance: float = math.nan


class RollingCORP(MeanMetric, BinaryMetric):
    """Miscalibration, discrimination and uncertainty of the last samples, and their history.

    The value is the exact MCB of the window; see `CORP` for the split. The MCB of n calibrated
    samples is above 0 too, and falls as n grows: compare only windows of one length, and not those
    of the first ``window`` samples. `streamcal.plot.MiscalibrationDisplay` draws the history, and
    the MCB by chance.

    Parameters
    ----------
    window
        The number of samples in the window.
    scoring
        ``"brier"`` or ``"log"``.
    every
        After how many samples a point is added to the history; by default a twentieth of the
        window.
    max_points
        The greatest number of points, at least 2; if there are more, every second is removed.
    pos_val
        The positive label. None: the label with the greatest probability.
    loss
        For predicted means of counts or amounts, as in `CORP`: the score is the deviance.

    Examples
    --------
    >>> import random
    >>> from streamcal.metrics import RollingCORP
    >>> rng, metric = random.Random(1), RollingCORP(window=500, every=500)
    >>> for n in range(2000):  # calibrated in the first half, then probabilities are too high
    ...     p = rng.random()
    ...     metric.update(rng.random() < (p if n < 1000 else p**3), p)
    >>> [(point.n_samples, round(point.mcb, 3)) for point in metric.history]
    [(500, 0.01), (1000, 0.008), (1500, 0.071), (2000, 0.065)]
    """

    def __init__(
        self,
        window: int = 1000,
        scoring: Scoring = "brier",
        every: int | None = None,
        max_points: int = 1000,
        pos_val: Any = True,
        loss: DevianceName | Tweedie | None = None,
    ) -> None:
        check_count(window, "window")
        check_count(every, "every", optional=True)
        check_count(max_points, "max_points", 2)
        check_choice(scoring, "scoring", SCORES)
        self._event = pos_val
        self._deviance = find_deviance(
            loss, scoring=scoring != "brier", pos_val=pos_val is not True
        )
        self._corp = CORP(scoring, loss=loss)
        self.window = window
        self.scoring = scoring
        self.every = every
        self.max_points = max_points
        self.pos_val = pos_val
        self.loss = loss
        self._samples: deque[tuple[float, float, float]] = deque()
        self._history: list[RollingPoint] = []
        self._step = max(window // 20, 1) if every is None else every
        self._n_samples = 0
        self._draws: deque[tuple[int, int, float]] = deque(maxlen=_WINDOWS)
        self._rng = np.random.default_rng(0)

    def get(self) -> float:
        """Return the miscalibration MCB of the window, 0 before the first update."""
        return self._corp.get()

    @property
    def mean_score(self) -> float:
        """The mean score of the window."""
        return self._corp.mean_score

    @property
    def mcb(self) -> float:
        """Miscalibration of the window, at least 0."""
        return self._corp.mcb

    @property
    def dsc(self) -> float:
        """Discrimination of the window, at least 0."""
        return self._corp.dsc

    @property
    def unc(self) -> float:
        """Uncertainty of the window, at least 0."""
        return self._corp.unc

    @property
    def history(self) -> list[RollingPoint]:
        """The points so far, oldest first: at most ``max_points``."""
        return list(self._history)

    def staircase(self) -> Staircase:
        """Return the CORP reliability curve of the window."""
        return self._corp.staircase()

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, y = self._pair_of(y_true, y_pred)
        self._corp.update(y, p, w)
        self._samples.append((y, p, w))
        if len(self._samples) > self.window:
            self._revert(self._samples.popleft())
        self._n_samples += 1
        if self._n_samples % self._step == 0:
            self._add_point()

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, y = self._pair_of(y_true, y_pred)
        try:
            self._samples.remove((y, p, w))
        except ValueError:
            raise ValueError(
                f"`y_pred` must have been added before and be in the window, got {y_pred!r}"
            ) from None
        self._revert((y, p, w))

    def _revert(self, sample: tuple[float, float, float]) -> None:
        """Remove a sample that has left the window."""
        try:
            self._corp.revert(*sample)
        except ValueError:  # lost in the sum with a far heavier one of the same prediction
            self._corp = CORP(self.scoring, loss=self.loss)
            for held in self._samples:
                self._corp.update(*held)

    def _add_point(self) -> None:
        split = self._corp.split()
        self._history.append(RollingPoint(self._n_samples, *split, self._level_by_chance()))
        if len(self._history) > self.max_points:
            self._step *= 2
            self._history = [p for p in self._history if p.n_samples % self._step == 0]

    def _level_by_chance(self) -> float:
        """Return the mean MCB of labels drawn from the predictions of the last windows.

        It is NaN for means: nothing is known of the distribution of their labels.
        """
        now, held = self._n_samples, len(self._samples)
        if not held or self.loss is not None:
            return math.nan
        if not self._draws or now - self._draws[-1][0] >= max(self.window // _WINDOWS, _APART):
            p = np.fromiter((p for _, p, _ in self._samples), np.float64, held)
            w = np.fromiter((w for _, _, w in self._samples), np.float64, held)
            mcb = chance_miscalibration(p, self.scoring, self._rng, n_draws=_DRAWS, w=w)
            self._draws.append((now, held, mcb))
        # Of windows that overlap with this one and are nearly as long.
        recent = [mcb for at, n, mcb in self._draws if now - at < self.window and 5 * n >= 4 * held]
        return float(np.mean(recent or self._draws[-1][2]))
