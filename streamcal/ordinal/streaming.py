"""Optimal thresholds of a stream, exact after every sample that comes or goes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._clone import Cloned
from streamcal._state import Arrays, Fields, Stateful, array_of, as_float, require
from streamcal._validation import (
    as_number,
    as_score,
    as_vector,
    as_weight,
    as_weights,
    check_half_life,
    check_same_length,
    check_window,
)
from streamcal.calibration._slots import Tree, check_held, check_slots, check_tree, read_queue
from streamcal.calibration._sums import MOST_WEIGHT
from streamcal.kernels.label_index import LARGEST_GROWTH, LabelIndex
from streamcal.kernels.min_plus import MOST_LABELS, MinPlus
from streamcal.kernels.prefix_extrema import PrefixExtrema
from streamcal.losses import TaskLoss, ZeroOneError, get_task
from streamcal.losses._task import check_n_labels
from streamcal.ordinal.thresholds import Samples, Thresholds, as_ranks, find_cuts

_MANY_LABELS = 500  # whose costs are no memory to speak of


class _Answer(NamedTuple):
    """How many distinct scores there are, their thresholds, and what these cost."""

    n_scores: int
    thresholds: NDArray[np.float64]
    risk: float


class StreamingThresholds(Stateful, Cloned):
    """The thresholds that cut a stream of scores into ordinal labels at the least cost.

    After every sample learned or taken back they are what `optimal_thresholds` would find from
    scratch on the samples at hand. Learning costs O(K log n) in the number n of distinct scores;
    nothing is solved again.

    The scores must mean the same all the time. Where the model that gives them learns as well, old
    scores go stale: `ThresholdClassifier` scores its window again from time to time.

    Parameters
    ----------
    n_labels : int
        How many labels there are, K; at least 2. Labels are the ints 1..K.
    loss : str or TaskLoss
        What to minimise: "absolute", "squared", "zero-one", "asymmetric" or a `TaskLoss`.
    window : int, optional
        Keep the last so many samples only.
    half_life : float, optional
        Halve the weight of all samples with every so many that follow, at least 0.1. With a window
        both hold.

    Raises
    ------
    ValueError
        If a parameter is out of range, or a table of costs has another size.
    TypeError
        If the loss is not a task loss.

    Notes
    -----
    A loss that is convex in its answer keeps prefix extrema in the tree, as described in
    `streamcal.kernels.prefix_extrema`. Another loss keeps the least costs between any two labels
    (`streamcal.kernels.min_plus`), up to 8 labels: K times the work. Beyond that it keeps prefix
    extrema as well, which are optimal whenever they are sorted, and solves anew when they are not
    and somebody asks.

    Where rounding alone unsorts the extrema of a convex loss, it is solved anew as well.

    Any thread may call any method at any time: each call happens as a whole, in some order.

    Integer weights and losses give exact sums. Other sums are added up along a balanced tree, never
    subtracted, so they are right to a few units in the last place.

    References
    ----------
    Yamasaki & Tanaka, *Parallel Algorithm for Optimal Threshold Labeling of Ordinal Regression
    Methods*, Theorems 1 and 2 and appendix A, whose blocks are the nodes of the tree here.

    Examples
    --------
    >>> thresholds = StreamingThresholds(3)
    >>> for score, label in [(0.2, 1), (0.4, 2), (0.5, 1), (0.6, 2), (0.7, 3), (0.9, 3)]:
    ...     thresholds.learn_one(score, label)
    >>> thresholds.thresholds, thresholds.risk
    (array([0.3 , 0.65]), 1.0)
    >>> thresholds.predict_one(0.68)
    3
    >>> thresholds.unlearn_one(0.4, 2)
    >>> thresholds.thresholds, thresholds.risk
    (array([0.55, 0.65]), 0.0)
    """

    def __init__(
        self,
        n_labels: int,
        loss: str | TaskLoss = "absolute",
        *,
        window: int | None = None,
        half_life: float | None = None,
    ):
        check_n_labels(n_labels)
        check_window(window)
        check_half_life(half_life)
        self.n_labels = n_labels
        self.loss = loss
        self.window = window
        self.half_life = half_life
        self._loss = get_task(loss)
        few = not self._loss.is_convex(n_labels) and n_labels <= MOST_LABELS
        kind: type[LabelIndex] = MinPlus if few else PrefixExtrema
        self._index = kind(
            costs=np.ascontiguousarray(self._loss.table(n_labels).T),
            window=window or 0,
            rate=2.0 ** (1.0 / half_life) if half_life else 1.0,
        )
        # What was solved anew, and after which change.
        self._solved: tuple[int, _Answer] | None = None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_labels": 3}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solved": None}

    @property
    def n_samples(self) -> int:
        """How many samples the thresholds rest on now."""
        return self._index.n_samples

    @property
    def n_scores(self) -> int:
        """How many distinct scores they have."""
        return self._index.n_scores

    def learn_one(self, score: float, y: int, w: float = 1.0) -> None:
        """Learn a sample; O(K log n_scores).

        Parameters
        ----------
        score : float
            Any finite number.
        y : int
            The label, from 1 to ``n_labels``.
        w : float
            The weight, from 1e-60 to 1e60.

        Raises
        ------
        ValueError
            If an argument is out of range; nothing is learned.
        TypeError
            If an argument is not a number; nothing is learned.
        """
        try:
            learned = self._index.learn(score, y - 1.0, w)
        except (TypeError, OverflowError):
            learned = False
        if not learned:  # a number of another kind, or none
            self._index.learn(*self._checked(score, y, w))

    def unlearn_one(self, score: float, y: int, w: float = 1.0) -> None:
        """Take back a sample that was learned with the same arguments; O(K log n_scores).

        Raises
        ------
        ValueError
            If no such sample can be among those learned, or an argument is out of range; nothing
            changes. With a window it is looked up among the samples in it, in O(window), and its
            place stays taken until it would have been forgotten. With a half-life, ``w`` is the
            weight as it stands now.
        TypeError
            If an argument is not a number; nothing changes.

        Notes
        -----
        Without a window the samples of a score are known by their sums alone. What a sample weighs
        is lost there beside one that weighs 10¹⁷ times as much, and it does not come back when the
        heavy one is taken back. A window still knows it.
        """
        if not self._index.unlearn(*self._checked(score, y, w)):
            raise ValueError(
                f"`score`, `y` and `w` must have been learned together, got {score}, {y} and {w}"
            )

    def _checked(self, score: Any, y: Any, w: Any) -> tuple[float, float, float]:
        """Return a sample as floats, with its label from 0, or raise."""
        number, weight = as_score(score), as_weight(w)
        rank = as_number(y, "y")
        if not (1.0 <= rank <= self.n_labels and rank.is_integer()):
            raise ValueError(f"`y` must be an int from 1 to {self.n_labels}, got {y}")
        return number, rank - 1.0, weight

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``.

        Summaries are made once, at the end: O(n_samples log n_scores + K n_scores).

        Raises
        ------
        ValueError, TypeError
            As `learn_one`; nothing is learned.
        """
        vector = as_vector(scores, "scores")
        ranks, _ = as_ranks(y, self.n_labels)
        check_same_length(ranks, len(vector), "y")
        weights = as_weights(w, len(vector))
        self._index.learn_many(vector, ranks.astype(np.float64), weights)

    def predict_one(self, score: float) -> int | None:
        """Return the label of a score; None before anything is learned; O(K + log K log n_scores).

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        number = as_score(score)
        label = self._index.predict(number)
        if label is None:
            return None
        if label >= 0:
            return 1 + label
        found = self._solve()
        if not found.n_scores:
            return None
        return 1 + int(np.searchsorted(found.thresholds, number, side="right"))

    def predict_many(self, scores: ArrayLike) -> NDArray[np.int64]:
        """Return the labels of scores, shape ``(n_samples,)``.

        Raises
        ------
        ValueError
            If nothing has been learned, or a score is not finite.
        """
        return 1 + np.searchsorted(self.thresholds, as_vector(scores, "scores"), side="right")

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The thresholds, shape ``(n_labels - 1,)``; O(K log n_scores).

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        return self._known(self._answer(with_risk=False)).thresholds.copy()

    @property
    def risk(self) -> float:
        """The summed task loss of the samples at hand; O(n_scores)."""
        return self._answer(with_risk=True).risk

    def result(self) -> Thresholds:
        """Return thresholds and risk as `optimal_thresholds` does; O(n_scores).

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        _, thresholds, risk = self._known(self._answer(with_risk=True))
        return Thresholds(thresholds.copy(), risk, "streaming", True)

    def _answer(self, with_risk: bool) -> _Answer:
        """Return the optimum, solved anew where the tree alone cannot tell."""
        n_scores, thresholds, risk = self._index.answer(with_risk)
        return self._solve() if thresholds is None else _Answer(n_scores, thresholds, risk)

    @staticmethod
    def _known(answer: _Answer) -> _Answer:
        """Return an answer that rests on samples, or raise."""
        if not answer.n_scores:
            raise ValueError("`thresholds` need at least one learned sample, got none")
        return answer

    def _solve(self) -> _Answer:
        """Return the optimum from scratch, or what that was if nothing has changed since."""
        solved = self._solved
        if solved is not None and solved[0] == self._index.n_changes:
            return solved[1]
        n_changes, growth, scores, weights = self._index.samples()
        if not len(scores):
            return _Answer(0, np.empty(0), 0.0)
        at, ranks = np.nonzero(weights)
        samples = Samples.sorted(
            scores[at],
            ranks.astype(np.uint16),
            np.ascontiguousarray(weights[at, ranks]),
            self.n_labels,
            weights.sum(axis=0),
        )
        method = "subsequence" if isinstance(self._loss, ZeroOneError) else "dp"
        table = self._index.table()
        thresholds = samples.thresholds(find_cuts(samples, table, method))
        answers = np.searchsorted(thresholds, scores, side="right")
        # Added up in order, as the index does.
        risk = float(np.cumsum(weights * table[answers])[-1]) / growth
        found = _Answer(len(scores), thresholds, risk)
        self._solved = n_changes, found
        return found

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = self._index.state()
        if self.n_labels > _MANY_LABELS:
            arrays["table"] = self._index.table()
        return fields, arrays

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        # The square of this number is what memory is made for. Where that is much the table of
        # costs is in the bytes, so that nobody gets much memory for few bytes.
        n_labels = parameters.get("n_labels", 0)
        if not isinstance(n_labels, int) or n_labels > _MANY_LABELS:
            array_of(arrays, "table", n_labels, n_labels)

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        scores = array_of(arrays, "scores", None)
        counts = array_of(arrays, "counts", None, dtype=np.int64)
        weights = array_of(arrays, "weights", len(scores), self.n_labels)
        shape = array_of(arrays, "shape", None, dtype=np.int64)
        tree = Tree(shape, array_of(arrays, "keys", None))
        queue = read_queue(arrays, "queue", self.window)
        growth = as_float(fields["growth"], "growth", 2.0**-200, LARGEST_GROWTH)
        check_slots(scores, weights.T, counts)
        check_tree(tree, scores)
        for some in (weights, queue[:, 1]):
            require(((some >= 0.0) & (some < MOST_WEIGHT)).all(), "weights must not be negative")
        require(np.isin(queue[:, 2], np.arange(self.n_labels)).all(), "the queue must hold labels")
        check_held(queue[queue[:, 1] > 0.0, 0], scores, counts)
        held = {
            "scores": scores,
            "counts": counts,
            "weights": weights,
            "shape": shape,
            "keys": tree.keys,
            "queue": queue,
        }
        self._index.restore({"growth": growth}, held)
