"""CuSum Rank in its dual form, with a kernel.

The weights of a boundary are a sum of the samples that moved it, each times the number of times it
did so, with a sign. So the score of a new sample needs only its products with those samples, and a
kernel can replace the product (*Cumulative Sum Ranking*, figure 5). This is the learner of
`streamcal.kernels.cusum` in which kept samples are the features, kernel values the values of
features, and counts the weights. A mistake adds to the counts of one sample instead of adding the
sample to the weights.

Every mistake may add a sample, so a stream needs a budget.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from river.base.typing import ClfTarget, FeatureName

from streamcal import losses
from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, array_of, as_names, pack, require
from streamcal._validation import (
    LARGEST,
    as_score,
    as_weight,
    check_choice,
    check_count,
    check_within,
)
from streamcal._whole import Step, do_all
from streamcal.ordinal._ranks import Averaging, RankLearner, check_features
from streamcal.wrappers.routing import Features

MAX_DEGREE = 100  # greater powers overflow for ordinary samples
KernelName = Literal["linear", "rbf", "polynomial"]
KERNELS: tuple[KernelName, ...] = get_args(KernelName)
Drop = Literal["oldest", "smallest"]
DROPS: tuple[Drop, ...] = get_args(Drop)

Vector = NDArray[np.float64]
Kernel = Callable[[Vector, Vector], Vector]
Key = frozenset[tuple[FeatureName, float]]

_INITIAL_SIZE = 8  # rows and columns of the array of samples


class KernelCuSumRank(Locked, RankLearner):
    """Cumulative sum ranking with a kernel and a budget of samples.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    kernel : {"linear", "rbf", "polynomial"} or callable
        κ(a, b) = a · b, exp(−gamma ‖a − b‖²) or (gamma a · b + coef0)^degree. A callable gets the
        kept samples, shape ``(n_kept, n_features)``, and one sample, shape ``(n_features,)``, and
        returns ``n_kept`` values. Columns are features in the order in which they were first kept;
        a missing feature is 0.
    gamma, coef0 : float
        Parameters of the kernel; ``gamma`` positive.
    degree : int
        The degree of the polynomial, from 1 to 100.
    budget : int, optional
        The greatest number of kept samples; None: all that were mistakes.
    drop : {"oldest", "smallest"}
        Which sample is dropped if there are too many: the oldest, or the one whose counts have
        the smallest norm (of equal ones the oldest).
    loss, margin, averaging, intercept, window
        As in `CuSumRank`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    A sample with the same features as a kept one is not kept again. Learning and predicting
    evaluate the kernel with each kept sample. The cost of `RandomFourierFeatures` in front of
    `CuSumRank` does not grow with the stream.

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
        kernel: KernelName | Kernel = "rbf",
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        budget: int | None = 1_000,
        drop: Drop = "oldest",
        loss: "losses.TaskLossName | losses.TaskLoss" = "absolute",
        margin: float = 0.0,
        averaging: Averaging | None = None,
        intercept: bool = True,
        window: int = 1_000,
    ) -> None:
        if not callable(kernel):
            check_choice(kernel, "kernel", KERNELS)
        check_within(gamma, "gamma", "(0, inf)")
        as_score(coef0, "coef0")
        check_count(degree, "degree", 1, MAX_DEGREE)
        check_count(budget, "budget", optional=True)
        check_choice(drop, "drop", DROPS)
        rule = {"biased": bool(intercept), "largest": sys.float_info.max}
        super().__init__(labels, loss, margin, averaging, window, **rule)
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.budget = budget
        self.drop = drop
        self.intercept = intercept
        self._columns: dict[FeatureName, int] = {}
        self._samples = np.zeros((_INITIAL_SIZE, _INITIAL_SIZE))
        self._kept: dict[Key, int] = {}  # rows, oldest first
        self._free = list(range(_INITIAL_SIZE))[::-1]

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            return super()._freeze()

    def _freeze_features(self, features: list[Any]) -> tuple[Fields, Arrays]:
        samples = self._samples[list(self._kept.values()), : len(self._columns)]
        return {"columns": [pack(feature) for feature in self._columns]}, {"samples": samples}

    def _thaw_features(self, fields: Fields, arrays: Arrays) -> list[Any]:
        columns = as_names(fields["columns"], "columns", none=True)
        samples = array_of(arrays, "samples", None, len(columns))
        n_kept = len(samples)
        require((np.abs(samples) <= LARGEST).all(), "samples must be in range")
        require(n_kept <= (self.budget or n_kept), "there must be no more than the budget")
        require(n_kept or not columns, "columns must be of samples")
        keys = [
            frozenset((f, v) for f, v in zip(columns, row, strict=True) if v)
            for row in samples.tolist()
        ]
        require(len(set(keys)) == n_kept, "samples must be different")
        self._columns = {feature: column for column, feature in enumerate(columns)}
        self._kept = {key: row for row, key in enumerate(keys)}
        self._free = []
        self._samples = samples
        return keys

    @property
    def n_kept(self) -> int:
        """Number of kept samples."""
        return len(self._kept)

    @property
    def counts(self) -> NDArray[np.float64]:
        """The signed weight with which each kept sample has moved each boundary, oldest first.

        Shape ``(n_kept, n_labels − 1)``; with ``averaging`` these are averages.
        """
        return self._cusum.served_weights()[2]

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0) -> None:
        """Learn a sample; it takes ``n_kept`` kernel values.

        Parameters
        ----------
        x : dict
            The features: numbers up to 1e60 in absolute value. A missing feature counts as 0.
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
        with self._mutex:
            self._check_label(y)
            products = self._products(values)
            key: Key = frozenset((f, v) for f, v in values.items() if v)
            learn = partial(self._cusum.learn_atom, products, y, weight, key)
            # It returns whether the sample was mistaken; only then is it kept.
            do_all(learn, *(() if key in self._kept else self._steps_to_keep(key)))

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label whose cumulative score is highest, None before anything is learned.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number, or kernel values are not.
        """
        values = check_features(x)
        with self._mutex:
            label: ClfTarget | None = self._cusum.predict(self._products(values))
        return label

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label, in their order; as `CuSumRank`."""
        values = check_features(x)
        with self._mutex:
            return self._cusum.probabilities(self._products(values))

    # Kept samples ---------------------------------------------------------------------------------

    def _products(self, x: dict[FeatureName, float]) -> dict[Key, float]:
        """Return the kernel values with the kept samples; raise unless they are finite."""
        dense = np.zeros(self._samples.shape[1])
        unknown = 0.0  # squares of features that no kept sample has
        more: list[float] = []
        for feature, value in x.items():
            column = self._columns.get(feature)
            if column is None:
                unknown += value * value
                more.append(value)
            else:
                dense[column] = value
        if not self._kept:
            return {}
        products = self._evaluate(list(self._kept.values()), dense, unknown, more)
        if not np.isfinite(products).all():
            raise ValueError("`kernel` must return finite values, got others for this sample")
        return dict(zip(self._kept, products.tolist(), strict=True))

    def _evaluate(self, rows: list[int], dense: Vector, unknown: float, more: Any) -> Vector:
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
                apart = np.square(samples - dense).sum(axis=1) + unknown
                return np.asarray(np.exp(-self.gamma * apart))
            products: Vector = samples @ dense
            if self.kernel == "linear":
                return products
            return np.asarray((self.gamma * products + self.coef0) ** self.degree)

    def _steps_to_keep(self, key: Key) -> list[Step]:
        """Write a sample to a free row; return what keeps it, and drops another if it must."""
        new = [feature for feature, _ in key if feature not in self._columns]
        columns = self._columns.copy()
        # The order of a set differs between processes.
        for feature in sorted(new, key=repr):
            columns[feature] = len(columns)
        self._make_room(len(columns))
        row = self._free[-1]
        self._samples[row] = 0.0
        for feature, value in key:
            self._samples[row, columns[feature]] = value
        steps: list[Step] = [
            partial(vars(self).update, _columns=columns),
            partial(self._kept.__setitem__, key, row),
            self._free.pop,
        ]
        if self.budget is not None and len(self._kept) >= self.budget:
            victim = self._find_victim()
            steps += [
                partial(self._cusum.forget, victim),
                partial(self._kept.pop, victim),
                partial(self._free.append, self._kept[victim]),
            ]
        return steps

    def _make_room(self, n_columns: int) -> None:
        """Make sure of a free row and of so many columns; grow by half if there are too few."""
        n_rows, n_old = self._samples.shape
        rows = 0 if self._free else 1 + (n_rows + 1) // 2
        columns = max(0, n_columns - n_old)
        columns += n_columns // 2 if columns else 0
        if rows or columns:
            samples = np.pad(self._samples, ((0, rows), (0, columns)))
            free = [*range(n_rows + rows - 1, n_rows - 1, -1), *self._free]
            self._samples, self._free = samples, free

    def _find_victim(self) -> Key:
        """Return which sample is dropped; learning another one does not change their order."""
        keys = list(self._kept)
        if self.drop == "oldest":
            return keys[0]
        _, _, weights = self._cusum.stored()
        return keys[int(np.square(weights[: len(keys), 0]).sum(axis=1).argmin())]
