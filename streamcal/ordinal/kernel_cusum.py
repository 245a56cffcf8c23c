"""CuSum Rank in its dual form: samples that were mistaken vote through a kernel.

The weights of a boundary are a sum of the samples that moved it, each counted with the number of
times it did so, up or down. So the score of a new sample needs products with those samples only,
and any kernel may take the place of the product (*Cumulative Sum Ranking*, figure 5). With the
products for features and the counts for weights it is the learner of `streamcal.kernels.cusum`, but
that a mistake adds to a sample's counts instead of adding the sample: the same kernels serve both.

Every mistake may keep a sample, so a stream needs a budget.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.base.typing import ClfTarget, FeatureName

from streamcal import losses
from streamcal._state import Arrays, Fields, array_of, as_names, pack, require
from streamcal._validation import (
    LARGEST,
    as_number,
    as_score,
    as_weight,
    check_choice,
    check_window,
)
from streamcal.kernels import cusum as kernels
from streamcal.ordinal._ranks import Features, RankLearner, check_features

MOST_DEGREE = 100  # powers of more leave the range of floats for ordinary samples
KERNELS = ("linear", "rbf", "polynomial")
DROPS = ("oldest", "smallest")

Vector = NDArray[np.float64]
Kernel = Callable[[Vector, Vector], Vector]
Key = frozenset[tuple[FeatureName, float]]

_FIRST_COLUMNS = 8


class KernelCuSumRank(RankLearner):
    """Cumulative sum ranking by a kernel, on a budget of samples.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    kernel : {"linear", "rbf", "polynomial"} or callable
        κ(a, b) = a · b, exp(−gamma ‖a − b‖²) or (gamma a · b + coef0)^degree. A callable gets the
        samples that are kept, shape ``(n_kept, n_features)``, and one sample, shape
        ``(n_features,)``, and returns the ``n_kept`` values. Columns are features in the order in
        which they were first kept; one that is missing is 0.
    gamma, coef0 : float
        Parameters of the kernel; ``gamma`` positive.
    degree : int
        The degree of the polynomial, from 1 to 100.
    budget : int, optional
        The most samples that are kept; None: all that were ever mistaken.
    drop : {"oldest", "smallest"}
        Which sample makes room: the one kept longest, or the one whose counts have the smallest
        norm; of equal ones the one kept longest.
    loss, margin, averaging, intercept, window
        As in `CuSumRank`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    A sample that comes again, feature by feature the same, is kept once. Learning and predicting
    cost one evaluation of the kernel with every sample kept; `RandomFourierFeatures` in front of
    `CuSumRank` costs the same for every sample, however long the stream.

    References
    ----------
    *Cumulative Sum Ranking*, arXiv 1911.11255, section 7 and figure 5.

    Examples
    --------
    >>> from streamcal.ordinal import KernelCuSumRank
    >>> model = KernelCuSumRank(labels=(1, 2, 3), kernel="rbf", gamma=0.5, budget=100)
    >>> for x, y in [(-2.0, 3), (-0.5, 2), (0.2, 1), (1.5, 2), (2.6, 3)] * 10:
    ...     model.learn_one({"x": x}, y)
    >>> [model.predict_one({"x": x}) for x in (-2.2, 0.1, 1.4)], model.n_kept
    ([3, 1, 2], 5)
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        kernel: str | Kernel = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        budget: int | None = 1_000,
        drop: str = "oldest",
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 0.0,
        averaging: str | float | None = None,
        intercept: bool = True,
        window: int = 1_000,
    ) -> None:
        super().__init__(labels, loss, margin, averaging, window)
        if not callable(kernel):
            check_choice(kernel, "kernel", KERNELS)
        if not as_score(gamma, "gamma") > 0.0:
            raise ValueError(f"`gamma` must be a positive number, got {gamma}")
        as_score(coef0, "coef0")
        if not as_number(degree, "degree").is_integer() or not 1 <= degree <= MOST_DEGREE:
            raise ValueError(f"`degree` must be an int from 1 to {MOST_DEGREE}, got {degree}")
        check_window(budget, "budget")
        check_choice(drop, "drop", DROPS)
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.drop = drop
        self.intercept = intercept
        self._model[kernels.BIASED] = bool(intercept)
        self._columns: dict[FeatureName, int] = {}
        self._samples = np.zeros((self._room, _FIRST_COLUMNS))
        self._kept: dict[Key, int] = {}  # rows, oldest first
        self._free = list(range(self._room - 1, 0, -1))  # row 0 is nobody's

    def _freeze(self) -> tuple[Fields, Arrays]:
        fields, arrays = super()._freeze()
        fields["columns"] = [pack(feature) for feature in self._columns]
        places = {"kept": np.array(list(self._kept.values()), np.int64)}
        places["free"] = np.array(self._free, np.int64)
        return fields, {**arrays, "samples": self._samples, **places}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        super()._thaw(fields, arrays)
        columns = as_names(fields["columns"], "columns", none=True)
        samples = array_of(arrays, "samples", self._room, None)
        kept = array_of(arrays, "kept", None, dtype=np.int64).tolist()
        free = array_of(arrays, "free", None, dtype=np.int64).tolist()
        width = samples.shape[1]
        require(max(1, len(columns)) <= width, "each feature must have its column")
        require(width <= max(_FIRST_COLUMNS, 2 * len(columns)), "columns must be of features")
        require((np.abs(samples) <= LARGEST).all(), "samples must be in range")
        require(len(kept) + len(free) + 1 == self._room, "rows must be kept or free")
        require(sorted([0, *kept, *free]) == [*range(self._room)], "rows must be kept or free")
        require(len(kept) <= (self.budget or len(kept)), "there must be no more than the budget")
        known = int(self._model[kernels.N_ROWS]) == self._room
        require(known or not kept, "all rows must be known where one is kept")
        unused = [0, *free]
        empty = not samples[unused].any() and not samples[:, len(columns) :].any()
        require(empty and not self._views()[1][unused].any(), "what is free must be empty")
        self._columns = {feature: column for column, feature in enumerate(columns)}
        self._samples, self._free = samples, free
        self._kept = {
            frozenset(
                (f, v) for f, v in zip(columns, samples[row].tolist(), strict=False) if v
            ): row
            for row in kept
        }
        require(len(self._kept) == len(kept), "samples must be different")

    @property
    def n_kept(self) -> int:
        """How many samples are kept."""
        return len(self._kept)

    @property
    def counts(self) -> NDArray[np.float64]:
        """How often, by weight, each boundary was moved by each sample kept, oldest first.

        Shape ``(n_kept, n_labels − 1)``; under ``averaging`` the averaged counts.
        """
        return self._served_weights()[1][list(self._kept.values())]

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0) -> None:
        """Learn a sample; ``n_kept`` kernel values.

        Parameters
        ----------
        x : dict
            The features: numbers up to 1e60 in size. One that is missing counts as 0.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60: how much a mistake counts.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range, or kernel values are not finite; nothing is learned.
        """
        values = check_features(x)
        weight = as_weight(w)
        self._check_label(y)
        work, n = self._products(x, values)
        if y not in self._ranks:
            self._insert(y)
            work = self._widened(work, n)
        key: Key = frozenset((f, v) for f, v in zip(x, values, strict=True) if v)
        row = self._kept.get(key)
        atom = self._free_row() if row is None else row
        mistaken = kernels.learn_atom(
            self._model, work, self._recent, n, self._ranks[y], weight, atom
        )
        if mistaken and row is None:
            self._keep(key, self._free.pop())

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label whose cumulative score is highest, None while no label is known.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number, or kernel values are not.
        """
        work, n = self._products(x, check_features(x))
        if not self._labels:
            return None
        return self._labels[kernels.predict(self._model, work, n)]

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label, in their order; as `CuSumRank`."""
        work, n = self._products(x, check_features(x))
        if len(self._labels) < 2:
            return dict.fromkeys(self._labels, 1.0)
        margins = np.empty((1, len(self._labels) - 1))
        kernels.margins(self._model, work, work, n, margins)
        return dict(zip(self._labels, self._probabilities(margins)[0].tolist(), strict=True))

    # Samples that are kept -----------------------------------------------------------------------

    def _products(self, x: Features, values: list[float]) -> tuple[NDArray[np.float64], int]:
        """Return what the kernels take: products with the samples kept, and these samples' rows."""
        dense = np.zeros(self._samples.shape[1])
        strangers = 0.0  # squares of features that no sample kept has
        more: list[float] = []
        for feature, value in zip(x, values, strict=True):
            column = self._columns.get(feature)
            if column is None:
                strangers += value * value
                more.append(value)
            else:
                dense[column] = value
        rows = list(self._kept.values())
        work = self._widened(np.zeros((3, 1)), len(rows))
        if rows:
            work[kernels.VALUES, : len(rows)] = self._evaluate(rows, dense, strangers, more)
            work[kernels.ROWS, : len(rows)] = rows
        if not np.isfinite(work[kernels.VALUES]).all():
            raise ValueError("`kernel` must have finite values, got others for this sample")
        return work, len(rows)

    def _widened(self, work: NDArray[np.float64], n: int) -> NDArray[np.float64]:
        """Return scratch that is wide enough, with the first ``n`` columns of ``work``."""
        wide = np.zeros((3, max(n, 3 * len(self._labels), 1)))
        n = min(n, work.shape[1])
        wide[:, :n] = work[:, :n]
        return wide

    def _evaluate(self, rows: list[int], dense: Vector, strangers: float, more: Any) -> Vector:
        samples = self._samples[rows]
        if callable(self.kernel):
            n, d = len(rows), len(self._columns)
            padded = np.hstack([samples[:, :d], np.zeros((n, len(more)))])
            answer = self.kernel(padded, np.concatenate([dense[:d], more]))
            values: Vector = np.asarray(answer, dtype=np.float64)
            if values.shape != (n,):
                raise ValueError(f"`kernel` must return {n} values, got shape {values.shape}")
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel == "rbf":
                apart = np.square(samples - dense).sum(axis=1) + strangers
                return np.asarray(np.exp(-self.gamma * apart))
            products: Vector = samples @ dense
            if self.kernel == "linear":
                return products
            return np.asarray((self.gamma * products + self.coef0) ** self.degree)

    def _free_row(self) -> int:
        """Return a row of weights that nobody has, the last of the free ones."""
        if not self._free:
            first = self._room
            self._reserve(first + 1)
            self._free = list(range(self._room - 1, first - 1, -1))
            samples = np.zeros((self._room, self._samples.shape[1]))
            samples[:first] = self._samples
            self._samples = samples
        self._model[kernels.N_ROWS] = self._room
        return self._free[-1]

    def _keep(self, key: Key, row: int) -> None:
        new = [feature for feature, _ in key if feature not in self._columns]
        if new:
            # A set has no order of its own that would be the same in another process.
            for feature in sorted(new, key=repr):
                self._columns[feature] = len(self._columns)
            lacking = len(self._columns) - self._samples.shape[1]
            if lacking > 0:
                room = ((0, 0), (0, lacking + len(self._columns) // 2))
                self._samples = np.pad(self._samples, room)
        self._samples[row] = 0.0
        for feature, value in key:
            self._samples[row, self._columns[feature]] = value
        self._kept[key] = row
        if self.budget is not None and len(self._kept) > self.budget:
            self._drop_one()

    def _drop_one(self) -> None:
        """Forget a sample, but not the one just kept."""
        keys = list(self._kept)[:-1] or list(self._kept)
        victim = keys[0]
        _, weights = self._views()
        if self.drop == "smallest":
            sizes = np.square(weights[[self._kept[key] for key in keys], 0]).sum(axis=1)
            victim = keys[int(sizes.argmin())]
        row = self._kept.pop(victim)
        weights[row] = 0.0
        self._samples[row] = 0.0
        self._free.append(row)
