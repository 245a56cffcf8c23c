"""Isotonic calibration of a stream in any order, exact after every sample."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._validation import (
    LARGEST,
    as_number,
    as_score,
    as_vector,
    as_weight,
    check_choice,
    check_window,
)
from streamcal.calibration.base import Calibrator
from streamcal.calibration.staircase import INTERPOLATIONS, Staircase
from streamcal.kernels import isotonic as kernels
from streamcal.kernels import score_index as index

_FIRST_CAPACITY = 2  # chunks
_FIRST_QUEUE = 16


class IsotonicCalibrator(Calibrator):
    """The isotonic map from scores to labels, kept exact while samples come and go.

    After every sample the calibrator holds the non-decreasing map that minimises the total loss of
    all samples it has, whatever the order of their scores: what `isotonic_fit` would find from
    scratch. Learning costs O(log² n) and predicting O(log n) in the number n of distinct scores.

    Parameters
    ----------
    loss : str or MeanLoss
        What to minimise; see `streamcal.losses`. ``"log"`` is for probabilities of labels 0 and 1.
    window : int, optional
        Keep the last so many samples only.
    prior : float
        The weight of two pseudo-samples that keep a map of probabilities off 0 and 1: one of the
        highest label below all scores and one of the lowest label above them. It applies to losses
        whose labels have such ends (log, logistic, exponential) and to no other; 0 switches it off.
    interpolation : {"linear", "step", "centered"}
        What holds between blocks; see `Staircase`. ``"centered"`` walks all blocks to predict.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If the loss is not a mean-type loss.

    Notes
    -----
    The structure is that of `streamcal.kernels.hull`. Integer weights and labels give exact sums;
    others are added up along a balanced tree, never subtracted from each other, so a value is right
    to a few units in the last place of what its block was made of. A score from which a sample is
    taken back while others stay keeps the rounding of what was added to it since it was last empty.

    Weights, and labels' statistics in size, must lie between 1e-60 and 1e60.

    References
    ----------
    Gokcesu & Gokcesu, *Efficient, Anytime Algorithms for Calibration with Isotonic Regression under
    Strictly Convex Losses*, sections II and V, whose stack takes scores in order only. Tatti (2022,
    arXiv 2112.06160) keeps the binary case under insertion and removal, as a hull of the ROC curve.

    Examples
    --------
    >>> calibrator = IsotonicCalibrator()
    >>> calibrator.predict_one(0.7)
    0.7
    >>> for score, label in [(0.2, False), (0.9, True), (0.6, True), (0.7, False), (0.1, False)]:
    ...     calibrator.learn_one(score, label)
    >>> calibrator.predict_one(0.65)
    0.5
    >>> calibrator.unlearn_one(0.7, False)
    >>> round(calibrator.predict_one(0.65), 3), calibrator.n_samples
    (0.667, 4)
    """

    def __init__(
        self,
        loss: str | losses.Loss = "log",
        *,
        window: int | None = None,
        prior: float = 1.0,
        interpolation: str = "linear",
    ) -> None:
        check_window(window)
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        if not 0.0 <= as_number(prior, "prior") <= LARGEST:
            raise ValueError(f"`prior` must be a non-negative finite number, got {prior}")
        self.loss = loss
        self.window = window
        self.prior = prior
        self.interpolation = interpolation
        self._loss = losses.get_mean(loss)
        # The usual case, where labels go to the kernels and means come back as they are.
        kind, labels = type(self._loss), self._loss.y_range
        interval = isinstance(labels, losses.Interval)
        self._plain_labels = interval and kind.statistic is losses.MeanLoss.statistic
        self._plain_values = kind.link is losses.MeanLoss.link and interpolation != "centered"
        self._step = interpolation == "step"
        self._reset()

    def _reset(self) -> None:
        """Forget everything."""
        self._data, self._links = _allocate(_FIRST_CAPACITY)
        self._queue = np.zeros((_FIRST_QUEUE if self.window else 0, 3))
        index.clear(self._data, self._links, _FIRST_CAPACITY)
        self._links[kernels.PENDING] = index.NONE
        head = self._data
        head[kernels.GROWTH] = head[kernels.RATE] = 1.0
        head[kernels.WINDOW] = self.window or 0
        head[kernels.MAX_SCORES] = math.inf
        head[[kernels.LOWEST, kernels.HIGHEST]] = -math.inf, math.inf
        labels = self._loss.y_range
        if self._plain_labels and isinstance(labels, losses.Interval):
            head[[kernels.LOWEST, kernels.HIGHEST]] = labels.clip(-math.inf), labels.clip(math.inf)
        if self._loss.anchors is not None:
            head[kernels.PRIOR] = self.prior
            head[[kernels.LOWEST, kernels.HIGHEST]] = [
                self._loss.statistic(label) for label in self._loss.anchors
            ]

    @property
    def n_samples(self) -> int:
        """How many samples the map rests on now."""
        return int(self._data[kernels.N_SAMPLES])

    @property
    def n_scores(self) -> int:
        """How many distinct scores they have."""
        return int(self._links[index.N_SCORES])

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Learn a sample; O(log² n_scores).

        Parameters
        ----------
        score : float
            Any finite number.
        y : float or bool
            The label, in the range of the loss.
        w : float
            The weight, positive.

        Raises
        ------
        ValueError
            If an argument is out of range; nothing is learned.
        TypeError
            If an argument is not a number; nothing is learned.
        """
        try:
            s = y + 0.0 if self._plain_labels else self._statistic(y)
            status = kernels.change(
                self._data, self._links, self._queue, kernels.LEARN, score, s, w
            )
        except TypeError:
            status = kernels.REFUSED
        if status:
            self._complete(kernels.LEARN, status, score, y, w)

    def unlearn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take back a sample that was learned with the same arguments; O(log² n_scores).

        Raises
        ------
        ValueError
            If no such sample can be among those learned, or an argument is out of range; nothing
            changes. With a window it is looked up among the samples in it, in O(window).
        TypeError
            If an argument is not a number; nothing changes.
        """
        self._complete(kernels.UNLEARN, kernels.REFUSED, score, y, w)

    def _statistic(self, y: Any) -> float:
        label = as_number(y, "y")
        self._loss.check_labels(label)
        return self._loss.statistic(label)

    def _complete(self, what: int, status: int, score: Any, y: Any, w: Any) -> None:
        """Carry through a change that the kernel could not make at once, or say why it cannot."""
        if status == kernels.REFUSED:  # or not tried yet
            score, w = as_score(score), as_weight(w)
        s = self._statistic(y)
        if abs(s) > LARGEST:
            raise _too_large(s)
        arguments = what, float(score), s, float(w)
        status = kernels.change(self._data, self._links, self._queue, *arguments)
        while status >= kernels.NEED_ROOM:
            self._provide(status)
            status = kernels.change(self._data, self._links, self._queue, *arguments)
        if status == kernels.UNKNOWN:
            raise ValueError(
                f"`score`, `y` and `w` must have been learned together, got {score}, {y} and {w}"
            )

    def _provide(self, status: int) -> None:
        """Do what a kernel asks for before it is called again."""
        if status == kernels.NEED_ROOM:
            old = int(self._links[index.CAPACITY])
            capacity = old + max(1, old // 8)
            data, links = _allocate(capacity)
            data[: index.HEAD] = self._data[: index.HEAD]
            index.move(self._data, self._links, data, links, capacity)
            self._data, self._links = data, links
        else:  # NEED_QUEUE
            size, start = self._links[kernels.QUEUE_SIZE], self._links[kernels.QUEUE_START]
            queue = np.zeros((min(2 * int(size), int(self._data[kernels.WINDOW]) + 1), 3))
            queue[:size] = np.roll(self._queue, -int(start), axis=0)[:size]
            self._queue = queue
            self._links[kernels.QUEUE_START] = 0

    def predict_one(self, score: float) -> float:
        """Return the calibrated value of a score; O(log n_scores).

        Before anything is learned that is the score itself, or the value nearest to it in the
        range of the loss.

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        if self._plain_values:
            try:
                value = kernels.predict(self._data, self._links, score, self._step)
            except TypeError:
                value = math.nan
            if value == value:
                return value
        number = as_score(score)
        return float(self._predict(np.array([number]))[0])

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``."""
        return self._predict(as_vector(scores, "scores"))

    def _predict(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.n_scores and self.interpolation == "centered":
            values: NDArray[np.float64] = self.staircase()(scores)
            return values
        brackets = np.empty((len(scores), 3))
        kernels.bracket_many(self._data, self._links, scores, self._step, brackets)
        return self._between(scores, brackets)

    def _between(
        self, scores: NDArray[np.float64], brackets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the values for what `bracket_many` answered; NaN there is a score not learned."""
        out = np.empty(len(scores))
        low = np.ascontiguousarray(self._loss.link(brackets[:, 0].copy()))
        high = np.ascontiguousarray(self._loss.link(brackets[:, 1].copy()))
        kernels.blend(low, high, np.ascontiguousarray(brackets[:, 2]), out)
        cold = np.isnan(brackets[:, 0])
        if cold.any():
            out[cold] = [self._loss.z_range.clip(score) for score in scores[cold]]
        return out

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given, in one compiled loop."""
        self._run(scores, y, w, predict=False)

    def predict_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in one compiled loop; see `Calibrator`."""
        if self.interpolation == "centered":
            return super().predict_learn_many(scores, y, w)
        return self._run(scores, y, w, predict=True)

    def _run(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, predict: bool
    ) -> NDArray[np.float64]:
        score_vector, labels, weights = self._check_samples(scores, y, w)
        s = np.ascontiguousarray(self._loss.statistic(labels))
        if (np.abs(s) > LARGEST).any():
            at = int(np.argmax(np.abs(s) > LARGEST))
            raise _too_large(s[at], f" at position {at}")
        brackets = np.empty((len(score_vector) if predict else 0, 3))
        done = 0
        while done < len(score_vector):
            done = kernels.predict_learn_many(
                self._data,
                self._links,
                self._queue,
                score_vector,
                s,
                weights,
                self._step,
                brackets,
                done,
            )
            if done < len(score_vector):
                self._provide(int(self._links[kernels.STATUS]))
        return self._between(score_vector[: len(brackets)], brackets)

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        labels = as_vector(y, "y", finite=False)
        self._loss.check_labels(labels)
        return labels

    def staircase(self) -> Staircase:
        """Return the current map; O(n_scores).

        The prior is part of it: the outermost blocks then reach to infinity, and their weights
        include the pseudo-samples'.

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        blocks = np.empty((64, 5))
        n_blocks = kernels.walk(self._data, self._links, True, blocks)
        if n_blocks > len(blocks):
            blocks = np.empty((n_blocks, 5))
            kernels.walk(self._data, self._links, True, blocks)
        if not n_blocks:
            raise ValueError("`staircase` needs at least one learned sample, got none")
        lower, upper, weights, sums, centers = blocks[:n_blocks].T
        values = self._loss.link(sums / weights)
        weights = weights / self._data[kernels.GROWTH]
        return Staircase(lower, upper, values, weights, centers, self.interpolation)


def _allocate(capacity: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the arrays of an index of ``capacity`` chunks."""
    return (
        np.zeros(index.HEAD + capacity * (index.NODE + index.CHUNK)),
        np.zeros(index.META + capacity * (index.NODE_LINKS + index.CHUNK_LINKS), np.int32),
    )


def _too_large(s: float, where: str = "") -> ValueError:
    return ValueError(f"`y` must have a statistic of at most {LARGEST:g} in size, got {s}{where}")
