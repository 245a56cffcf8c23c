"""Isotonic calibration of a stream in any order, exact after every sample."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal import losses
from streamcal._state import Arrays, Fields, require
from streamcal._validation import (
    LARGEST,
    as_number,
    as_score,
    as_vector,
    as_weight,
    check_choice,
    check_half_life,
    check_window,
)
from streamcal.calibration._slots import (
    Tree,
    balanced,
    check_edges,
    check_queue,
    check_slots,
    check_tree,
    read_tree,
)
from streamcal.calibration.base import Calibrator
from streamcal.calibration.corp import Decomposition, decompose
from streamcal.calibration.snapshot import Snapshot
from streamcal.calibration.staircase import INTERPOLATIONS, Staircase
from streamcal.kernels import isotonic as kernels
from streamcal.kernels import pav
from streamcal.kernels import score_index as index

OUTPUTS = ("value", "venn-abers")

_FIRST_CAPACITY = 2  # chunks
_FIRST_QUEUE = 16
_FEWEST_SCORES = 8
_FILL = index.SLOTS * 3 // 4  # of a chunk that is built anew


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
    half_life : float, optional
        Halve the weight of all samples with every so many that follow, at least 0.1. Exact: every
        map is that of the weights as they stand. With a window both hold.
    prior : float
        The weight of two pseudo-samples that keep a map of probabilities off 0 and 1: one of the
        highest label below all scores and one of the lowest label above them. It applies to losses
        whose labels have such ends (log, logistic, exponential) and to no other; 0 switches it off.
    interpolation : {"linear", "step", "centered"}
        What holds between blocks; see `Staircase`. ``"centered"`` walks all scores to predict.
    output : {"value", "venn-abers"}
        What `predict_one` answers: the value of the map, or the merged Venn-Abers pair
        p1 / (1 − p0 + p1) of `predict_interval_one`, for log loss only. The pair costs three
        updates a prediction and uses no interpolation.
    max_scores : int
        How many distinct scores are kept. When a new one would exceed it, an eighth of them are
        merged with their nearest neighbours, see Notes.

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
    taken back while others stay keeps the rounding of what was added to it since it was last empty;
    in a window the rest is summed anew where a sample outweighed it a million times.

    Weights, and labels' statistics in size, must lie between 1e-60 and 1e60. With a half-life, a
    score whose weight has fallen below 2**-400 of a new sample's is dropped.

    Merging moves the lighter of two neighbouring scores to the heavier one, those first that are
    nearest to each other; `n_merged` counts them. The map stays that of the samples at hand, with
    scores moved by less than the gap to their neighbours. Between two scores that are merged it
    cannot step any more: there it is off by no more than their two values differ. A merged score
    cannot be taken back by `unlearn_one`; a window forgets it as it should.

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
        half_life: float | None = None,
        prior: float = 1.0,
        interpolation: str = "linear",
        output: str = "value",
        max_scores: int = 1_000_000,
    ) -> None:
        check_window(window)
        check_choice(interpolation, "interpolation", INTERPOLATIONS)
        check_choice(output, "output", OUTPUTS)
        check_half_life(half_life)
        if not as_number(max_scores, "max_scores").is_integer() or max_scores < _FEWEST_SCORES:
            raise ValueError(
                f"`max_scores` must be an int of at least {_FEWEST_SCORES}, got {max_scores}"
            )
        if not 0.0 <= as_number(prior, "prior") <= LARGEST:
            raise ValueError(f"`prior` must be a non-negative finite number, got {prior}")
        self.loss = loss
        self.window = window
        self.half_life = half_life
        self.prior = prior
        self.interpolation = interpolation
        self.output = output
        self.max_scores = max_scores
        self._loss = losses.get_mean(loss)
        if output == "venn-abers" and not isinstance(self._loss, losses.Log):
            raise ValueError(f"`output` 'venn-abers' needs the log loss, got {self._loss}")
        self._n_merged = 0
        # The usual case, where labels go to the kernels and means come back as they are.
        kind, labels = type(self._loss), self._loss.y_range
        interval = isinstance(labels, losses.Interval)
        self._plain_labels = interval and kind.statistic is losses.MeanLoss.statistic
        identity = kind.link is losses.MeanLoss.link
        self._plain_values = identity and interpolation != "centered" and output == "value"
        self._step = interpolation == "step"
        self._reset()

    def _reset(self) -> None:
        """Forget everything."""
        self._data, self._links = index.allocate(_FIRST_CAPACITY)
        self._queue = np.zeros((_FIRST_QUEUE if self.window else 0, 3))
        index.clear(self._data, self._links, _FIRST_CAPACITY)
        self._links[kernels.PENDING] = index.NONE
        head = self._data
        head[kernels.GROWTH] = 1.0
        head[kernels.RATE] = 2.0 ** (1.0 / self.half_life) if self.half_life else 1.0
        head[kernels.WINDOW] = self.window or 0
        head[kernels.MAX_SCORES] = self.max_scores
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

    @property
    def n_merged(self) -> int:
        """How many scores have been merged into a neighbour for want of room."""
        return self._n_merged

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
        except (TypeError, OverflowError):
            status = kernels.REFUSED
        if status:
            self._complete(kernels.LEARN, status, score, y, w)

    def unlearn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Take back a sample that was learned with the same arguments; O(log² n_scores).

        Raises
        ------
        ValueError
            If no such sample can be among those learned, or an argument is out of range; nothing
            changes. With a window it is looked up among the samples in it, in O(window), and its
            place stays taken until it would have been forgotten. With a half-life, ``w`` is the
            weight as it stands now.
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
            self._grow(1)
        elif status == kernels.NEED_QUEUE:
            self._grow_queue()
        elif status == kernels.NEED_SCALING:
            self._scale_down()
        else:
            self._merge_nearest()

    def _grow(self, at_least: int) -> None:
        """Make room for ``at_least`` more chunks, and for an eighth more than there are."""
        old = int(self._links[index.CAPACITY])
        capacity = old + max(at_least, old // 8)
        data, links = index.allocate(capacity)
        index.move(self._data, self._links, data, links, capacity)
        self._data, self._links = data, links

    def _grow_queue(self) -> None:
        """Double the room for samples in the window."""
        size, start = int(self._links[kernels.QUEUE_SIZE]), int(self._links[kernels.QUEUE_START])
        queue = np.zeros((min(2 * size, int(self._data[kernels.WINDOW]) + 1), 3))
        queue[:size] = np.roll(self._queue, -start, axis=0)[:size]
        self._queue = queue
        self._links[kernels.QUEUE_START] = 0

    def _scale_down(self) -> None:
        """Divide all weights by what they have grown to, exactly, and drop what has vanished."""
        scores, sums, counts = self._slots()
        sums *= 1.0 / kernels.LARGEST_GROWTH
        self._queue[:, 1:] *= 1.0 / kernels.LARGEST_GROWTH
        self._data[kernels.GROWTH] /= kernels.LARGEST_GROWTH
        keep = sums[0] >= kernels.VANISHED
        self._queue[np.isin(self._queue[:, 0], scores[~keep]), 1:] = 0.0
        self._rebuild(scores[keep], sums[:, keep], counts[keep])

    def _merge_nearest(self) -> None:
        """Merge an eighth of the scores, or at least one, with their nearest neighbours."""
        scores, sums, counts = self._slots()
        gaps = np.diff(0.5 * scores)  # halves: the distance itself may overflow
        # Pairs whose gap is smaller than those on both sides; of equal gaps every other one is.
        odd = np.arange(len(gaps)) % 2 == 1
        closer = (gaps[:-1] < gaps[1:]) | ((gaps[:-1] == gaps[1:]) & ~odd[:-1])
        narrow = np.flatnonzero(np.r_[True, ~closer] & np.r_[closer, True])
        most = max(1, self.max_scores // 8)
        left = np.sort(narrow[np.argsort(gaps[narrow], kind="stable")[:most]])
        left_heavier = sums[0, left] >= sums[0, left + 1]
        gone, stays = left + left_heavier, left + ~left_heavier
        sums[:, stays] += sums[:, gone]
        counts[stays] += counts[gone]
        # Samples that wait in the window to be forgotten move with their scores.
        at = np.searchsorted(scores[gone], self._queue[:, 0]).clip(max=len(gone) - 1)
        moved = scores[gone][at] == self._queue[:, 0]
        self._queue[moved, 0] = scores[stays][at][moved]
        self._n_merged += len(gone)
        keep = np.ones(len(scores), np.bool_)
        keep[gone] = False
        self._rebuild(scores[keep], sums[:, keep], counts[keep])

    def samples(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return distinct scores, ascending, the weight of each and its weighted sum; O(n_scores).

        Arrays of shape ``(n_scores,)``. With binary labels the sums are the weights of the
        positive ones. The prior is no part of it.

        Examples
        --------
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many([0.4, 0.3, 0.4], [0, 1, 1])
        >>> calibrator.samples()
        (array([0.3, 0.4]), array([1., 2.]), array([1., 1.]))
        """
        scores, sums, _ = self._slots()
        weights, totals = sums / self._data[kernels.GROWTH]
        return scores, weights, totals

    def _slots(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Return the distinct scores in order, their sums (W, S) as two rows, and their counts."""
        from streamcal.kernels import transfer

        slots = np.empty((self.n_scores, index.SLOT))
        counts = np.empty(self.n_scores, np.int64)
        transfer.dump(self._data, self._links, slots, counts)
        return slots[:, 0].copy(), slots[:, 1:].T.copy(), counts

    def _rebuild(
        self,
        scores: NDArray[np.float64],
        sums: NDArray[np.float64],
        counts: NDArray[np.int64],
    ) -> None:
        """Hold these scores instead, in a balanced tree."""
        self._build(scores, sums, counts, balanced(scores, _FILL))
        while kernels.change(self._data, self._links, self._queue, kernels.FINISH, 0.0, 0.0, 0.0):
            self._grow(1)

    def _build(
        self,
        scores: NDArray[np.float64],
        sums: NDArray[np.float64],
        counts: NDArray[np.int64],
        tree: Tree,
    ) -> None:
        """Hold these scores instead, in a tree of a given shape; folding is left pending."""
        from streamcal.kernels import transfer

        sizes = tree.shape[tree.shape != index.INNER]
        capacity = max(_FIRST_CAPACITY, len(sizes) + 1)
        data, links = index.allocate(capacity)
        index.clear(data, links, capacity)
        data[: index.HEAD] = self._data[: index.HEAD]
        own = slice(index.OWN_META, index.META)
        links[own] = self._links[own]
        data[kernels.N_SAMPLES] = counts.sum()
        transfer.build_tree(data, links, tree.shape, tree.keys)
        transfer.fill_tree(data, links, sizes, np.column_stack([scores, *sums]), counts)
        self._data, self._links = data, links

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
            except (TypeError, OverflowError):
                value = math.nan
            if value == value:
                return value
        number = as_score(score)
        return float(self._predict(np.array([number]))[0])

    def predict_interval_one(self, score: float) -> tuple[float, float]:
        """Return the Venn-Abers pair (p0, p1) of a score: O(log² n_scores), three updates.

        The value of the map at ``score`` if the sample were learned with the lowest label and
        weight 1, and if it were learned with the highest. For samples in random order, one of the
        two is perfectly calibrated [1]_; their distance says how much is known there. The prior is
        part of both; ``prior=0`` gives the pair of the reference.

        Raises
        ------
        ValueError
            If the score is not finite, or the loss has no lowest and highest label.
        TypeError
            If the score is not a number.

        Notes
        -----
        The sample is put in and taken out again, so no other thread may use the calibrator
        meanwhile. Afterwards everything is as it was, bit for bit, but for free memory.

        References
        ----------
        .. [1] Vovk, Petej & Fedorova, *Large-Scale Probabilistic Predictors With and Without
           Guarantees of Validity*, NIPS 2015, section 3 (inductive Venn-Abers predictors).

        Examples
        --------
        >>> calibrator = IsotonicCalibrator(prior=0)
        >>> calibrator.learn_many([0.1, 0.4, 0.5, 0.9], [0, 1, 0, 1])
        >>> calibrator.predict_interval_one(0.45)
        (0.3333333333333333, 0.6666666666666666)
        """
        from streamcal.kernels import what_if

        number = as_score(score)
        if self._loss.anchors is None:
            raise ValueError(
                "`predict_interval_one` needs a loss with a lowest and a highest label"
                f" (log, logistic, exponential), got {self._loss}"
            )
        if self._links[index.N_FREE] < what_if.ROOM_TO_TRY:
            self._grow(what_if.ROOM_TO_TRY)
        low, high = what_if.what_if(self._data, self._links, self._queue, number)
        return self._loss.link(low), self._loss.link(high)

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``."""
        return self._predict(as_vector(scores, "scores"))

    def _predict(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.n_scores and self.output == "venn-abers":
            pairs = (self.predict_interval_one(score) for score in scores.tolist())
            return np.array([p1 / (1.0 - p0 + p1) for p0, p1 in pairs])
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
        low = np.ascontiguousarray(self._loss.link(brackets[:, 0].copy()))
        high = np.ascontiguousarray(self._loss.link(brackets[:, 1].copy()))
        out = pav.blend(low, high, np.ascontiguousarray(brackets[:, 2]))
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
        if self.interpolation == "centered" or self.output == "venn-abers":
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
        fresh = not self.n_samples and not self._links[kernels.QUEUE_SIZE]
        most = min(self.window or self.max_scores, self.max_scores)
        if fresh and not predict and self.half_life is None and 1 < len(score_vector) <= most:
            self._fill(score_vector, s, weights)
            return s
        brackets = np.empty((len(score_vector) if predict else 0, 3))
        done = 0
        self._links[kernels.STATUS] = kernels.OK
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

    def _fill(
        self, scores: NDArray[np.float64], s: NDArray[np.float64], w: NDArray[np.float64]
    ) -> None:
        """Learn the first samples at once: sort them and build a balanced tree."""
        distinct, at = np.unique(scores, return_inverse=True)
        sums = np.array([np.bincount(at, w), np.bincount(at, w * s)])
        if self.window:
            self._queue = np.zeros((max(len(scores), _FIRST_QUEUE), 3))
            self._queue[: len(scores)] = np.column_stack([scores, w, w * s])
            self._links[kernels.QUEUE_START] = 0
            self._links[kernels.QUEUE_SIZE] = len(scores)
        self._rebuild(distinct, sums, np.bincount(at))

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
        return self._walk(anchored=True)

    def _walk(self, anchored: bool) -> Staircase:
        blocks = np.empty((64, 5))
        n_blocks = kernels.walk(self._data, self._links, anchored, blocks)
        if n_blocks > len(blocks):
            blocks = np.empty((n_blocks, 5))
            kernels.walk(self._data, self._links, anchored, blocks)
        if not n_blocks:
            raise ValueError("`staircase` needs at least one learned sample, got none")
        lower, upper, weights, sums, centers = blocks[:n_blocks].T
        means = sums / weights
        if anchored:
            means = means.clip(self._data[kernels.FLOOR], self._data[kernels.CEILING])
        values = self._loss.link(means)
        weights = weights / self._data[kernels.GROWTH]
        return Staircase(lower, upper, values, weights, centers, self.interpolation)

    def snapshot(self) -> Snapshot:
        """Return an immutable view of the map as it is now: its staircase; O(n_scores).

        With a half-life its values may differ from the calibrator's in the last digit.
        """
        if self.output == "venn-abers" or not self.n_scores:
            return super().snapshot()
        return Snapshot(self.staircase().__call__, self.n_samples)

    def corp(self) -> Decomposition:
        """Split the mean log loss of the raw scores into CORP's parts; O(n_scores).

        MCB is what calibration gains on the samples at hand, DSC what the scores know beyond the
        overall frequency, UNC what that leaves open. The prior has no part in it. See
        `streamcal.metrics.CORP`, which does the same for a stream of predictions.

        Raises
        ------
        ValueError
            If the loss is not log loss, nothing is learned, or a score is not in [0, 1].

        Examples
        --------
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many([0.4, 0.3, 0.2, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1])
        >>> print("{:.4f} = {:.4f} - {:.4f} + {:.4f}".format(*calibrator.corp()))
        0.6986 = 0.3237 - 0.3183 + 0.6931
        """
        if not isinstance(self._loss, losses.Log):
            raise ValueError(f"`corp` needs the log loss, got {self._loss}")
        stairs = self._walk(anchored=False)
        scores, (weights, hits), _ = self._slots()
        if scores[0] < 0.0 or scores[-1] > 1.0:
            raise ValueError(f"`corp` needs scores in [0, 1], got {scores[0]} to {scores[-1]}")
        with np.errstate(invalid="ignore"):  # 0 samples x infinite loss are no loss
            total = np.nansum(hits * self._loss(scores, 1.0))
            total += np.nansum((weights - hits) * self._loss(scores, 0.0))
        return decompose(stairs, float(total / weights.sum()), "log")

    def merge(self, other: "IsotonicCalibrator") -> None:
        """Learn all samples of another calibrator as well; O(n_scores) of both.

        The map is then that of both streams, in whatever order they came; of merged half-lives,
        both streams count from now. Also written ``calibrator += other``.

        Raises
        ------
        TypeError
            If ``other`` is not an `IsotonicCalibrator`.
        ValueError
            If the loss or the half-life differs, or one of the two has a window, whose order in
            time is not known across streams. Nothing changes.

        Examples
        --------
        >>> a, b = IsotonicCalibrator("squared"), IsotonicCalibrator("squared")
        >>> a.learn_many([1, 2], [0.0, 1.0])
        >>> b.learn_many([1, 3], [1.0, 0.0])
        >>> a += b
        >>> a.staircase().values, a.n_samples
        (array([0.5]), 4)
        """
        if not isinstance(other, IsotonicCalibrator):
            raise TypeError(f"`other` must be an IsotonicCalibrator, got {type(other).__name__}")
        if self._loss != other._loss or self.half_life != other.half_life:
            raise ValueError(
                f"`other` must have the same loss and half_life ({self._loss}, {self.half_life}),"
                f" got {other._loss} and {other.half_life}"
            )
        if self.window or other.window:
            raise ValueError(
                f"`merge` needs calibrators without a window, got {self.window} and {other.window}"
            )
        scores, sums, counts = self._slots()
        more_scores, more_sums, more_counts = other._slots()
        more_sums *= self._data[kernels.GROWTH] / other._data[kernels.GROWTH]
        every, inverse = np.unique(np.r_[scores, more_scores], return_inverse=True)
        added = np.zeros((len(every), 2))
        np.add.at(added, inverse, np.c_[sums, more_sums].T)
        n = np.zeros(len(every), np.int64)
        np.add.at(n, inverse, np.r_[counts, more_counts])
        self._n_merged += other._n_merged
        self._rebuild(every, added.T, n)
        while self.n_scores > self.max_scores:
            self._merge_nearest()

    def __iadd__(self, other: "IsotonicCalibrator") -> Self:
        self.merge(other)
        return self

    def _freeze(self) -> tuple[Fields, Arrays]:
        from streamcal.kernels import transfer

        scores, sums, counts = self._slots()
        tree, nodes = read_tree(self._data, self._links)
        lengths, edges = np.empty(len(scores), np.int64), np.empty((len(scores), 2))
        n_edges = transfer.dump_edges(self._data, self._links, lengths, edges)
        size, first = int(self._links[kernels.QUEUE_SIZE]), int(self._links[kernels.QUEUE_START])
        return {"n_merged": self._n_merged, "growth": float(self._data[kernels.GROWTH])}, {
            "scores": scores,
            "sums": sums,
            "counts": counts,
            "shape": tree.shape,
            "nodes": nodes,
            "lengths": lengths[:n_edges],
            "edges": edges[:n_edges],
            "queue": np.roll(self._queue, -first, axis=0)[:size],
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        from streamcal.kernels import transfer

        scores, sums, counts = arrays["scores"], arrays["sums"], arrays["counts"]
        queue, nodes = arrays["queue"], arrays["nodes"]
        lengths, edges = arrays["lengths"], arrays["edges"]
        require(nodes.shape == (len(nodes), index.NODE), "a node has as many numbers as that")
        tree = Tree(arrays["shape"], np.ascontiguousarray(nodes[:, index.NODE_KEY]))
        check_slots(scores, sums, counts, fields["growth"])
        require(len(sums) == 2 and (sums[0] > 0.0).all(), "weights must be positive")
        check_tree(tree, scores)
        check_edges(tree, lengths, edges)
        require(nodes.dtype == np.float64 and not np.isnan(nodes).any(), "nodes must hold numbers")
        check_queue(queue, self.window)
        self._n_merged = int(fields["n_merged"])
        self._data[kernels.GROWTH] = fields["growth"]
        if self.window:
            room = min(max(_FIRST_QUEUE, 2 * len(queue)), self.window + 1)
            self._queue = np.zeros((room, 3))
            self._queue[: len(queue)] = queue
            self._links[kernels.QUEUE_SIZE] = len(queue)
        if len(scores):
            self._build(scores, sums, counts, tree)
            transfer.fill_edges(self._data, self._links, lengths, edges, nodes)
            kernels.change(self._data, self._links, self._queue, kernels.FINISH, 0.0, 0.0, 0.0)


def _too_large(s: float, where: str = "") -> ValueError:
    return ValueError(f"`y` must have a statistic of at most {LARGEST:g} in size, got {s}{where}")
