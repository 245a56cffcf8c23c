"""What a score means: the label that thresholds give it, and the probability of each label."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, array_of, fill, nested, require
from streamcal._validation import decay_per_sample
from streamcal._whole import Step, do_all
from streamcal.calibration.clock import Timed
from streamcal.calibration.context import Context
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.losses import TaskLoss, TaskLossName, get_task
from streamcal.ordinal.streaming import StreamingThresholds

ROUNDING, STREAMING, RESOLVED = range(3)
_DECAY = decay_per_sample(2_000.0)
_STANDARD_ERRORS = 0.7
_MOST_EXCESS = 1e70  # in a state


class BestWay:
    """Which way to cut a score costs least: rounding, streaming or re-solved thresholds.

    For both kinds of thresholds the sum of the losses above those of rounding is kept; the
    influence of a sample halves after 2,000 samples. The thresholds with the lower sum are followed
    if it lies below zero by more than 0.7 standard errors, √(Σ difference²), a lead that is chance
    in one of four cases; otherwise rounding is, which needs no estimate. Neither the scale of the
    loss nor that of the weights matters.

    Attributes
    ----------
    best : int
        The way that is followed, `ROUNDING` at first.
    sums : ndarray of shape (2, 2)
        For streaming and re-solved thresholds: the discounted sums of the differences and of their
        squares.

    Examples
    --------
    >>> way = BestWay()
    >>> way.learn([1.0, 0.0], w=1.0)
    >>> way.best == STREAMING
    True
    >>> way.learn([0.0, 1.0], w=1.0)
    >>> way.best == ROUNDING
    True
    """

    def __init__(self) -> None:
        self.restore(np.zeros((2, 2)))

    def restore(self, sums: NDArray[np.float64]) -> None:
        """Take over sums."""
        self._sums: list[list[float]] = sums.tolist()
        self.best = _best_way(self._sums)

    @property
    def sums(self) -> NDArray[np.float64]:
        """The sums, see above."""
        return np.array(self._sums)

    def learn(self, losses: Sequence[float], w: float) -> None:
        """Learn the losses of a sample: those of rounding, streaming and re-solved thresholds.

        Without the last one, re-solved thresholds count as streaming ones.
        """
        do_all(*self.learn_steps(losses, w))

    def learn_steps(self, losses: Sequence[float], w: float) -> list[Step]:
        """Return what learns the losses of a sample, as `learn` does, for `do_all`."""
        sums = []
        for way, (total, squares) in enumerate(self._sums, STREAMING):
            difference = w * (losses[min(way, len(losses) - 1)] - losses[ROUNDING])
            squares = _DECAY * _DECAY * squares + difference * difference
            sums.append([_DECAY * total + difference, squares])
        return [partial(vars(self).update, _sums=sums, best=_best_way(sums))]


def _best_way(sums: list[list[float]]) -> int:
    """Return the way to follow."""
    (streaming, _), (resolved, _) = sums
    thresholds = RESOLVED if resolved < streaming else STREAMING
    total, squares = sums[thresholds - STREAMING]
    leads = total + _STANDARD_ERRORS * math.sqrt(squares) < 0.0
    return thresholds if leads else ROUNDING


class ScoreModel:
    """Ways to cut a score into ranks, and an isotonic calibrator for each boundary.

    Both learn the scores that were served: of samples that the regressor had not learned yet. The
    calibrator of boundary k, which separates the ranks up to k from those above, learns whether the
    rank is above k. Ranks count from 0.

    Parameters
    ----------
    targets : sequence of float
        What the regressor learns for each rank, in increasing order.
    loss, window
        As in `StreamingThresholds`. If the window is a timedelta, samples have times in seconds.

    Attributes
    ----------
    resolved : StreamingThresholds or None
        Thresholds of a window that was scored again.

    Examples
    --------
    >>> model = ScoreModel([0.0, 1.0, 2.0], "absolute", window=100)
    >>> for score, rank in [(0.1, 0), (0.4, 1), (0.5, 1), (0.9, 2)] * 12:
    ...     model.learn_one(score, rank, 1.0)
    >>> model.predict_one(0.8), [round(p, 1) for p in model.predict_proba_one(0.8)]
    (2, [0.0, 0.3, 0.7])
    """

    def __init__(
        self, targets: Sequence[float], loss: TaskLossName | TaskLoss, window: int | timedelta
    ) -> None:
        n_labels = len(targets)
        self.way = BestWay()
        self.rounding = [(low + high) / 2.0 for low, high in pairwise(targets)]
        self.streaming = StreamingThresholds(n_labels, loss, window=window)
        self.resolved: StreamingThresholds | None = None
        self.calibrators = [IsotonicCalibrator(window=window) for _ in range(n_labels - 1)]
        costs = get_task(loss).table(n_labels)
        self._costs = costs / (costs.max() or 1.0)  # so that products with weights are finite

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.streaming.n_labels

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds that `predict_one` uses."""
        if self.way.best == ROUNDING:
            return np.array(self.rounding)
        followed = self.streaming if self.way.best == STREAMING else self.resolved
        assert followed is not None
        return followed.thresholds

    def learn_one(self, score: float, rank: int, w: float, t: float = math.nan) -> None:
        """Learn the score that a sample had before it was learned."""
        do_all(*self.learn_steps(score, rank, w, t))

    def learn_steps(self, score: float, rank: int, w: float, t: float = math.nan) -> list[Step]:
        """Return what learns a score, as `learn_one` does, for `do_all`."""
        ways = (ROUNDING, STREAMING) if self.resolved is None else (ROUNDING, STREAMING, RESOLVED)
        costs = self._costs
        steps = self.way.learn_steps([costs.item(self._rank(way, score), rank) for way in ways], w)
        steps += self.streaming.learn_steps(score, rank + 1, w, t)
        if self.resolved is not None:
            steps += self.resolved.learn_steps(score, rank + 1, w, t)
        context = Context(t=t)
        for k, calibrator in enumerate(self.calibrators):
            steps += calibrator._learn_steps(score, float(rank > k), w, context)
        return steps

    def learn_many(
        self,
        scores: NDArray[np.float64],
        ranks: NDArray[np.int64],
        w: NDArray[np.float64],
        times: NDArray[np.float64],
    ) -> None:
        """Learn recorded scores in order; this does not change which way is followed."""
        self.streaming.learn_many(scores, ranks + 1, w, t=times)
        for k, calibrator in enumerate(self.calibrators):
            calibrator.learn_many(scores, ranks > k, w, t=times)

    def follow_as(self, other: "ScoreModel") -> None:
        """Follow the way that another model follows, without its re-solved thresholds."""
        self.way.restore(other.way.sums[[0, 0]])

    def predict_one(self, score: float) -> int:
        """Return the rank that the best way gives."""
        return self._rank(self.way.best, score)

    def _rank(self, way: int, score: float) -> int:
        """Return the rank that a way gives; that of rounding before anything is learned."""
        if way != ROUNDING:
            followed = self.resolved if way == RESOLVED and self.resolved else self.streaming
            label = followed.predict_one(score)
            if label is not None:
                return label - 1
        return bisect_right(self.rounding, score)

    def predict_proba_one(self, score: float) -> list[float]:
        """Return the probability of each rank: differences of the calibrated P(y > k | score)."""
        probabilities = []
        above = 1.0  # the probability of this rank and all higher ones
        for calibrator in self.calibrators:
            beyond = min(calibrator.predict_one(score), above)
            probabilities.append(above - beyond)
            above = beyond
        return [*probabilities, above]

    def freeze(self) -> Arrays:
        """Return the state as arrays, for `thaw`."""
        states: dict[str, Any] = {"streaming": self.streaming}
        if self.resolved is not None:
            states["resolved"] = self.resolved
        states |= {f"staircase {k}": each for k, each in enumerate(self.calibrators)}
        return {"way": self.way.sums, **{name: nested(each) for name, each in states.items()}}

    @classmethod
    def thaw(
        cls,
        arrays: Arrays,
        targets: Sequence[float],
        loss: TaskLossName | TaskLoss,
        window: int | timedelta,
        now: float,
    ) -> Self | None:
        """Return the model in a state, None without any; raise unless it has these parameters.

        ``now`` is the time of the newest sample, if samples have times.
        """
        if "streaming" not in arrays:
            return None
        staircases = [f"staircase {k}" for k in range(len(targets) - 1)]
        # Before memory is taken for so many labels.
        require(all(name in arrays for name in staircases), "there must be staircases for labels")
        model = cls(targets, loss, window)
        cuts = [fill(model.streaming, arrays, "streaming")]
        if "resolved" in arrays:
            cuts.append(fill(cls(targets, loss, window).streaming, arrays, "resolved"))
        for name, calibrator in zip(staircases, model.calibrators, strict=True):
            fill(calibrator, arrays, name)
        held = [each.n_samples for each in cuts]
        held += [each.n_samples for each in model.calibrators]
        require(min(held) > 0, "thresholds must rest on samples")
        if isinstance(window, timedelta):
            timed: list[Timed] = [*cuts, *model.calibrators]
            known = {each._kind for each in timed}
            require(known == {"seconds"}, "recorded times must be in seconds")
            clocks = [cuts[0]._index.now, *(each._regression.now for each in model.calibrators)]
            # The newest sample has no new score, if that is not finite.
            latest = cuts[-1]._index.now <= now
            require(latest and all(each == now for each in clocks), "clocks must agree")
        sums = array_of(arrays, "way", 2, 2)
        require((np.abs(sums[:, 0]) <= _MOST_EXCESS).all(), "excess losses must be in range")
        squares = sums[:, 1]
        require(((squares >= 0.0) & (squares <= _MOST_EXCESS**2)).all(), "squares must be in range")
        require(len(cuts) > 1 or (sums[0] == sums[1]).all(), "ways without thresholds are alike")
        model.way.restore(sums)
        model.resolved = cuts[1] if len(cuts) > 1 else None
        return model
