"""Optimal thresholds of a stream, exact after every sample that comes or goes."""

from typing import Any

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
from streamcal.calibration._slots import (
    Tree,
    check_held,
    check_slots,
    check_tree,
    read_queue,
    read_tree,
)
from streamcal.calibration._sums import MOST_WEIGHT
from streamcal.kernels import array_index as index
from streamcal.kernels import prefix_extrema as kernels
from streamcal.losses import TaskLoss, ZeroOneError, get_task
from streamcal.losses._task import check_n_labels
from streamcal.ordinal.thresholds import Samples, Thresholds, as_ranks, find_cuts

MOST_MIN_PLUS = 8
"""With up to so many labels, losses that are not convex have a tree of their own."""

_FIRST_CAPACITY = 2  # chunks
_FIRST_ROWS = 4
_FIRST_QUEUE = 16
_FEW_LABELS = 500  # whose costs are no memory to speak of
_FEW = 32  # samples that are learned one by one rather than folded at the end


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
    (min-plus products), up to 8 labels: K times the work. Beyond that it keeps prefix extrema as
    well, which are optimal whenever they are sorted, and solves anew when they are not and somebody
    asks.

    Where rounding alone unsorts the extrema of a convex loss, it is solved anew as well.

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
        self._table = self._loss.table(n_labels)
        self._convex = self._loss.is_convex(n_labels)
        self._solved: NDArray[np.float64] | None = None
        self._data, self._links = index.allocate(_FIRST_CAPACITY)
        self._queue = np.zeros((_FIRST_QUEUE if window else 0, 3))
        self._rows = np.empty((0, 0))
        self._data[kernels.GROWTH] = 1.0
        self._data[kernels.RATE] = 2.0 ** (1.0 / half_life) if half_life else 1.0
        self._data[kernels.WINDOW] = window or 0
        self._clear(_FIRST_CAPACITY, _FIRST_ROWS)

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"n_labels": 3}

    def _clear(self, capacity: int, n_mixed: int) -> None:
        """Hold no scores, with room for so many chunks and mixed rows."""
        data, links = index.allocate(capacity)
        data[: index.HEAD] = self._data[: index.HEAD]
        links[index.OWN_META : index.META] = self._links[index.OWN_META : index.META]
        index.clear(data, links, capacity)
        n_labels = self.n_labels
        min_plus = not self._convex and n_labels <= MOST_MIN_PLUS
        table = self._table.T if min_plus else (self._table[:-1] - self._table[1:]).T
        summary = n_labels * (n_labels + 1) // 2 if min_plus else 3 * (n_labels - 1)
        width = max(summary, n_labels + table.shape[1])
        self._data, self._links = data, links
        self._rows = np.zeros((n_labels + 2 * capacity + n_mixed, width))
        self._rows[:n_labels, : table.shape[1]] = table
        links[kernels.N_LABELS] = n_labels
        links[kernels.KIND] = kernels.MIN_PLUS if min_plus else kernels.EXTREMA
        links[kernels.FREE_ROW] = index.NONE
        links[kernels.N_FREE_ROWS] = 0
        kernels.release_rows(links, self._rows, 0, n_mixed)
        kernels.fold_all(*self._arrays())

    def _arrays(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        return self._data, self._links, self._queue, self._rows

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solved": None}

    @property
    def n_samples(self) -> int:
        """How many samples the thresholds rest on now."""
        return int(self._data[kernels.N_SAMPLES])

    @property
    def n_scores(self) -> int:
        """How many distinct scores they have."""
        return int(self._links[index.N_SCORES])

    def learn_one(self, score: float, label: int, w: float = 1.0) -> None:
        """Learn a sample; O(K log n_scores).

        Parameters
        ----------
        score : float
            Any finite number.
        label : int
            From 1 to ``n_labels``.
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
            status = kernels.change(
                self._data,
                self._links,
                self._queue,
                self._rows,
                kernels.LEARN,
                score,
                label - 1.0,
                w,
            )
        except (TypeError, OverflowError):
            status = kernels.REFUSED
        if status:
            self._complete(kernels.LEARN, status, score, label, w)
        self._solved = None

    def unlearn_one(self, score: float, label: int, w: float = 1.0) -> None:
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
        self._complete(kernels.UNLEARN, kernels.REFUSED, score, label, w)
        self._solved = None

    def _complete(self, what: int, status: int, score: Any, label: Any, w: Any) -> None:
        """Carry through a change that the kernel could not make at once, or say why it cannot."""
        if status == kernels.REFUSED:  # or not tried yet
            score, w = as_score(score), as_weight(w)
            rank = as_number(label, "label")
            if not (1.0 <= rank <= self.n_labels and rank.is_integer()):
                raise ValueError(f"`label` must be an int from 1 to {self.n_labels}, got {label}")
        arguments = what, float(score), float(label) - 1.0, float(w)
        status = kernels.change(*self._arrays(), *arguments)
        while status >= kernels.NEED_ROOM:
            self._provide(status)
            status = kernels.change(*self._arrays(), *arguments)
        if status == kernels.UNKNOWN:
            raise ValueError(
                "`score`, `label` and `w` must have been learned together,"
                f" got {score}, {label} and {w}"
            )

    def learn_many(self, scores: ArrayLike, labels: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``.

        Summaries are made once, at the end: O(n_samples log n_scores + K n_scores).

        Raises
        ------
        ValueError, TypeError
            As `learn_one`; nothing is learned.
        """
        vector = as_vector(scores, "scores")
        ranks, _ = as_ranks(labels, self.n_labels)
        check_same_length(ranks, len(vector), "labels")
        weights = as_weights(w, len(vector))
        if len(vector) <= _FEW:
            for sample in zip(vector.tolist(), ranks.tolist(), weights.tolist(), strict=True):
                self.learn_one(sample[0], sample[1] + 1, sample[2])
            return
        done, y = 0, ranks.astype(np.float64)
        while done < len(vector):
            done, status = kernels.learn_many(*self._arrays(), vector, y, weights, done)
            if status:
                self._provide(status)
        kernels.fold_all(*self._arrays())
        self._solved = None

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
        if not self.n_scores:
            return None
        if self._convex:
            at = kernels.label_of(self._data, self._links, self._queue, self._rows, number)
            if at != index.NONE:
                return 1 + at
        return 1 + int(np.searchsorted(self._optimum(), number, side="right"))

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
        if not self.n_scores:
            raise ValueError("`thresholds` need at least one learned sample, got none")
        return self._optimum().copy()

    @property
    def risk(self) -> float:
        """The summed task loss of the samples at hand; O(n_scores)."""
        if not self.n_scores:
            return 0.0
        costs = np.ascontiguousarray(self._table.T)
        return kernels.risk(*self._arrays(), self._optimum(), costs)

    def result(self) -> Thresholds:
        """Return thresholds and risk as `optimal_thresholds` does; O(n_scores).

        Raises
        ------
        ValueError
            If nothing has been learned.
        """
        return Thresholds(self.thresholds, self.risk, "streaming", True)

    def _optimum(self) -> NDArray[np.float64]:
        """Return the thresholds, solving anew where the tree alone cannot tell."""
        if self._solved is not None:
            return self._solved
        thresholds = np.empty(self.n_labels - 1)
        if kernels.read(self._data, self._links, self._queue, self._rows, thresholds):
            return thresholds
        self._solved = self._solve()
        return self._solved

    def _solve(self) -> NDArray[np.float64]:
        """Return optimal thresholds from scratch."""
        scores, _, weights = self._slots()
        at, ranks = np.nonzero(weights)
        samples = Samples.sorted(
            scores[at],
            ranks.astype(np.uint16),
            np.ascontiguousarray(weights[at, ranks]),
            self.n_labels,
            weights.sum(axis=0),
        )
        method = "subsequence" if isinstance(self._loss, ZeroOneError) else "dp"
        return samples.thresholds(find_cuts(samples, self._table, method))

    def _freeze(self) -> tuple[Fields, Arrays]:
        scores, counts, weights = self._slots()
        tree, _ = read_tree(self._data, self._links)
        size, first = int(self._links[kernels.QUEUE_SIZE]), int(self._links[kernels.QUEUE_START])
        arrays = {
            "scores": scores,
            "counts": counts,
            "weights": weights,
            "shape": tree.shape,
            "keys": tree.keys,
            "queue": np.roll(self._queue, -first, axis=0)[:size],
        }
        if self.n_labels > _FEW_LABELS:
            arrays["table"] = self._table
        return {"growth": float(self._data[kernels.GROWTH])}, arrays

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        # The square of this number is what memory is made for. Where that is much the table of
        # costs is in the bytes, so that nobody gets much memory for few bytes.
        n_labels = parameters.get("n_labels", 0)
        if not isinstance(n_labels, int) or n_labels > _FEW_LABELS:
            array_of(arrays, "table", n_labels, n_labels)

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        from streamcal.kernels import transfer

        scores = array_of(arrays, "scores", None)
        counts = array_of(arrays, "counts", None, dtype=np.int64)
        weights = array_of(arrays, "weights", len(scores), self.n_labels)
        shape = array_of(arrays, "shape", None, dtype=np.int64)
        tree = Tree(shape, array_of(arrays, "keys", None))
        queue = read_queue(arrays, "queue", self.window)
        growth = as_float(fields["growth"], "growth", 2.0**-200, kernels.LARGEST_GROWTH)
        check_slots(scores, weights.T, counts)
        check_tree(tree, scores)
        for held in (weights, queue[:, 1]):
            require(((held >= 0.0) & (held < MOST_WEIGHT)).all(), "weights must not be negative")
        require(np.isin(queue[:, 2], np.arange(self.n_labels)).all(), "the queue must hold labels")
        check_held(queue[queue[:, 1] > 0.0, 0], scores, counts)
        self._data[kernels.GROWTH] = growth
        self._data[kernels.N_SAMPLES] = counts.sum()
        n_chunks = int((tree.shape != index.INNER).sum())
        n_mixed = int(((weights > 0.0).sum(axis=1) > 1).sum())
        self._clear(max(_FIRST_CAPACITY, n_chunks + 1), _FIRST_ROWS + n_mixed)
        transfer.build_tree(self._data, self._links, tree.shape, tree.keys)
        kernels.fill(*self._arrays(), scores, counts, weights)
        kernels.fold_all(*self._arrays())
        if self.window:
            self._queue = np.zeros((min(max(_FIRST_QUEUE, 2 * len(queue)), self.window + 1), 3))
            self._queue[: len(queue)] = queue
            self._links[kernels.QUEUE_START] = 0
            self._links[kernels.QUEUE_SIZE] = len(queue)

    # Room -------------------------------------------------------------------------------------

    def _provide(self, status: int) -> None:
        """Do what a kernel asks for before it is called again."""
        if status == kernels.NEED_ROOM:
            self._grow()
        elif status == kernels.NEED_ROWS:
            self._grow_rows()
        elif status == kernels.NEED_QUEUE:
            self._grow_queue()
        else:
            self._scale_down()

    def _grow(self) -> None:
        """Make room for an eighth more chunks than there are, at least one."""
        old = int(self._links[index.CAPACITY])
        capacity = old + max(1, old // 8)
        data, links = index.allocate(capacity)
        index.move(self._data, self._links, data, links, capacity)
        more = np.zeros((capacity - old, self._rows.shape[1]))
        nodes, chunks = self.n_labels + old, self.n_labels + 2 * old
        self._rows = np.concatenate(
            [self._rows[:nodes], more, self._rows[nodes:chunks], more, self._rows[chunks:]]
        )
        self._data, self._links = data, links

    def _grow_rows(self) -> None:
        """Double the room for scores whose samples have different labels."""
        old = len(self._rows) - self.n_labels - 2 * int(self._links[index.CAPACITY])
        more = max(_FIRST_ROWS, old)
        self._rows = np.concatenate([self._rows, np.zeros((more, self._rows.shape[1]))])
        kernels.release_rows(self._links, self._rows, old, old + more)

    def _grow_queue(self) -> None:
        """Double the room for samples in the window."""
        size, start = int(self._links[kernels.QUEUE_SIZE]), int(self._links[kernels.QUEUE_START])
        queue = np.zeros((min(2 * size, int(self._data[kernels.WINDOW]) + 1), 3))
        queue[:size] = np.roll(self._queue, -start, axis=0)[:size]
        self._queue = queue
        self._links[kernels.QUEUE_START] = 0

    def _scale_down(self) -> None:
        """Divide all weights by what they have grown to, exactly, and drop what has vanished."""
        scores, counts, weights = self._slots()
        weights *= 1.0 / kernels.LARGEST_GROWTH
        keep = weights.sum(axis=1) >= kernels.VANISHED
        self._queue[:, 1] *= 1.0 / kernels.LARGEST_GROWTH
        self._queue[np.isin(self._queue[:, 0], scores[~keep]), 1] = 0.0
        self._data[kernels.GROWTH] /= kernels.LARGEST_GROWTH
        self._data[kernels.N_SAMPLES] = counts[keep].sum()
        self._clear(int(self._links[index.CAPACITY]) + 1, max(_FIRST_ROWS, int(keep.sum())))
        kernels.fill(*self._arrays(), scores[keep], counts[keep], weights[keep])
        kernels.fold_all(*self._arrays())

    def _slots(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the distinct scores in order, how many samples each has, and label weights."""
        slots = np.empty((self.n_scores, 2 + self.n_labels))
        kernels.dump(*self._arrays(), slots)
        return slots[:, 0].copy(), slots[:, 1].astype(np.int64), slots[:, 2:].copy()
