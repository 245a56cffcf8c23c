"""Linear online learners of ordinal labels: CuSum Rank, its passive-aggressive form, and PRank.

Between K ranks there are K − 1 boundaries, each with weights w_k; w_k · x is the evidence for rank
k or more against lower ranks. *CuSum Rank* adds it up: the score of rank r is the sum of w_k · x
over the boundaries below r, and the rank with the highest score is predicted. Strong evidence at
one boundary can outweigh an error at the next, which counting the boundaries that are passed does
not allow. Learning is a structured perceptron: after a mistake the boundaries between the true and
the predicted rank move towards the sample or away from it.

    CuSumRank     perceptron steps; a direction for each boundary
    PACuSumRank   steps just long enough for a given margin
    PRank         perceptron steps; all boundaries share one direction (Crammer & Singer)

On separable data their total rank loss is bounded for any order of samples, see `mistake_bound`.
`streamcal.kernels.cusum` does all arithmetic; this module has parameters and data frames.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName

from streamcal import losses
from streamcal._state import Arrays, Fields, as_name, as_names, pack
from streamcal._validation import LARGEST, as_number, as_score, as_weight, as_weights, check_choice
from streamcal.kernels.cusum import PA, PA_I, PA_II
from streamcal.losses._task import check_n_labels
from streamcal.ordinal._ranks import Features, RankLearner, check_features, check_frame

# To import what data frames need takes a third of the time until the first sample: methods do it.
if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries

_RULES = {"PA": PA, "PA-I": PA_I, "PA-II": PA_II}
_BAD_INPUT = (TypeError, ValueError, OverflowError)  # from the kernel: then check the sample


def mistake_bound(radius: float, margin: float, *, n_labels: int | None = None) -> float:
    """Return the greatest total rank loss Σ |y − ŷ| on separable data, in any order.

    R² / δ² for `CuSumRank` and `PACuSumRank`, and ((K − 1) R² + 1) / δ² for `PRank`.

    Parameters
    ----------
    radius : float
        R, the greatest Euclidean norm of a sample, its constant attribute included.
    margin : float
        δ, by which some weights of norm 1 (over all boundaries) separate the ranks: w_k · x ≥ δ
        where the rank is k or more, ≤ −δ where it is less.
    n_labels : int, optional
        K, for `PRank`: there the weights of norm 1 are one direction and K − 1 thresholds.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    It holds for steps without margin re-scaling, shrinkage or weights, and for a passive-aggressive
    learner with the parameter δ. It is attained by samples that are orthogonal to all before them,
    each of the rank farthest from the one predicted.

    References
    ----------
    *Cumulative Sum Ranking*, arXiv 1911.11255, corollaries 3 and 4; Crammer & Singer, *Pranking
    with Ranking*, NIPS 2001, theorem 2.

    Examples
    --------
    >>> mistake_bound(2.0, 0.5)
    16.0
    >>> mistake_bound(2.0, 0.5, n_labels=5)
    68.0
    """
    for name, value in (("radius", radius), ("margin", margin)):
        if not as_score(value, name) > 0.0:
            raise ValueError(f"`{name}` must be a positive number, got {value}")
    if n_labels is None:
        return (radius / margin) ** 2
    check_n_labels(n_labels)
    return ((n_labels - 1) * radius**2 + 1.0) / margin**2


class _LinearRanker(RankLearner, base.MiniBatchClassifier):
    """A learner of ranks with weights for each feature, from dicts and data frames."""

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None,
        loss: "str | losses.TaskLoss",
        margin: float,
        averaging: str | float | None,
        l2: float,
        window: int,
        **rule: Any,
    ) -> None:
        if not 0.0 <= as_number(l2, "l2") < 1.0:
            raise ValueError(f"`l2` must be a number from 0 to below 1, got {l2}")
        super().__init__(labels, loss, margin, averaging, window, keep=1.0 - l2, **rule)
        self.l2 = l2
        self._y_name: str | None = None

    def _freeze_features(self, features: list[Any]) -> tuple[Fields, Arrays]:
        return {"features": [pack(feature) for feature in features], "y_name": self._y_name}, {}

    def _thaw_features(self, fields: Fields, arrays: Arrays) -> list[Any]:
        self._y_name = as_name(fields["y_name"], "y_name", none=True)
        return as_names(fields["features"], "features", none=True)

    @property
    def weights(self) -> dict[FeatureName, NDArray[np.float64]]:
        """For each feature the weights that predict, shape ``(n_labels − 1,)``.

        With ``averaging`` these are averages. If boundaries share a direction the shape is (1,).
        """
        features, _, weights = self._cusum.served_weights()
        return dict(zip(features, weights, strict=True))

    @property
    def biases(self) -> NDArray[np.float64]:
        """The weight of the constant attribute at each boundary, shape ``(n_labels − 1,)``."""
        return self._cusum.served_weights()[1]

    # One sample ----------------------------------------------------------------------------------

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0) -> None:
        """Learn a sample; O(features · boundaries).

        Parameters
        ----------
        x : dict
            The features: numbers up to 1e60 in absolute value. A missing feature counts as 0.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60. It multiplies perceptron steps, ``C``, and
            the share of the sample in averages and probabilities.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range; nothing is learned.
        """
        weight = 1.0 if w == 1.0 else as_weight(w)
        try:
            if self._cusum.learn(x, y, weight):
                return
        except _BAD_INPUT:
            pass
        values = check_features(x)
        self._check_label(y)
        self._cusum.learn(values, y, weight, new=True)

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label whose cumulative score is highest, None before anything is learned.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            label: ClfTarget | None = self._cusum.predict(x)
        except _BAD_INPUT:
            label = self._cusum.predict(check_features(x))
        return label

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label, in their order.

        For each boundary an isotonic calibrator gives the probability of a label above it, learned
        from the margins of the last ``window`` samples before they were learned. These
        probabilities are made non-increasing; their differences are the probabilities of the
        labels. The label of `predict_one` need not be the most probable one.

        Returns
        -------
        dict
            Probabilities in (0, 1) that sum to 1; empty before anything is learned.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            return self._cusum.probabilities(x)
        except _BAD_INPUT:
            return self._cusum.probabilities(check_features(x))

    # Many samples --------------------------------------------------------------------------------

    def learn_many(self, X: "IntoDataFrame", y: "IntoSeries", w: Any = 1.0) -> None:
        """Learn the rows of a frame in order, as `learn_one` does, in one compiled loop.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals supports: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ; nothing is learned.
        """
        from river.utils.dataframe import into_series

        frame, matrix = check_frame(X)
        series = into_series(y)
        labels = series.to_list()
        n_samples = len(labels)
        if len(matrix) != n_samples:
            raise ValueError(f"`y` must have one label per row of `X`, got {n_samples}")
        scalar = isinstance(w, int | float | np.number)
        weights = np.full(n_samples, as_weight(w)) if scalar else as_weights(w, n_samples)
        self._check_many_labels(labels)

        self._y_name = series.name
        if n_samples:
            self._cusum.learn_many(frame.columns, matrix, labels, weights)

    def _check_many_labels(self, labels: list[Any]) -> None:
        """Raise unless the labels of a batch are known or may be learned."""
        seen: set[Any] = set()
        for at, label in enumerate(labels):
            try:
                if label in self._cusum.ranks or label in seen:
                    continue
                self._check_label(label)
            except (ValueError, TypeError) as error:
                raise type(error)(f"{error} at position {at}") from None
            seen.add(label)
        if len({isinstance(label, str) for label in seen}) > 1:
            raise TypeError("`y` must hold numbers or strings, got both")
        if seen:
            self._check_number_of_labels(len(self._cusum.labels) + len(seen))

    def predict_many(self, X: "IntoDataFrame") -> "IntoSeries":
        """Return the predicted label of each row, None before anything is learned."""
        from river.utils.dataframe import to_native_series

        frame, matrix = check_frame(X)
        labels = self._cusum.predict_many(frame.columns, matrix)
        return to_native_series(labels, name=self._y_name, like=frame)

    def predict_proba_many(self, X: "IntoDataFrame") -> "IntoDataFrame":
        """Return the calibrated probabilities of each row, a column for each label.

        The frame is empty before anything is learned.
        """
        from river.utils.dataframe import to_native_frame

        frame, matrix = check_frame(X)
        labels, probabilities = self._cusum.probabilities_many(frame.columns, matrix)
        return to_native_frame(dict(zip(labels, probabilities.T, strict=True)), like=frame)


class CuSumRank(_LinearRanker):
    """Cumulative sum ranking: a perceptron with a separate direction for each boundary.

    Parameters
    ----------
    labels : sequence of labels, optional
        All labels, lowest first; others raise an error. None: labels are added when they first
        occur, and ranked in sorted order. That suits integers; strings are sorted by the alphabet,
        so give them here unless that is their order.
    loss : str or TaskLoss
        The task loss ℓ of margin re-scaling; see `streamcal.losses.get_task`.
    margin : float
        The margin for a loss of 1: learning predicts the rank that maximises s(x, r) +
        margin · ℓ(r, y) and corrects it. The default suits features of a ``StandardScaler`` and
        one-hot features. 0: learn only from mistakes, the published algorithm.
    averaging : None, "uniform" or float
        Predict from the uniform average of the weights after each sample, which varies less than
        the last weights; or from an average with this half-life in samples. None: no average.
    intercept : bool
        Whether to add a constant feature of 1.
    l2 : float
        With every sample all weights, that of the intercept included, are multiplied by 1 − l2.
    window : int
        `predict_proba_one` is calibrated on this many of the last samples.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    There is no learning rate, but with a larger margin the weights are larger and a step matters
    less. A step changes a score by up to ‖x‖² for each rank, so the margin should be some times
    the usual ‖x‖². On 27 streams of noisy labels the default had an 18 % lower mean absolute error
    than a margin of 0, which is often worse than a constant there; see the guide. Without
    ``margin``, predictions do not depend on the scale of the features. Features should be of
    comparable size, so put a ``StandardScaler`` in front.

    A new label between two others gets half of the weights of the boundary between them on either
    side; a new label at an end gets a boundary of zeros. A sample takes O(features · labels) with
    all options. A feature keeps its weights once it is learned.

    References
    ----------
    *Cumulative Sum Ranking*, arXiv 1911.11255, figure 1. Averaging: Collins (2002). Margin
    re-scaling: Tsochantaridis et al. (2005).

    Examples
    --------
    >>> from streamcal.ordinal import CuSumRank
    >>> model = CuSumRank(labels=("low", "mid", "high"), averaging="uniform")
    >>> for x, y in [(-2.0, "low"), (0.1, "mid"), (3.0, "high")] * 20:
    ...     model.learn_one({"x": x}, y)
    >>> [model.predict_one({"x": x}) for x in (-1.5, 0.0, 2.0)]
    ['low', 'mid', 'high']
    >>> model.rank_loss
    2.0
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 20.0,
        averaging: str | float | None = None,
        intercept: bool = True,
        l2: float = 0.0,
        window: int = 1_000,
    ) -> None:
        super().__init__(labels, loss, margin, averaging, l2, window, biased=bool(intercept))
        self.intercept = intercept


class PACuSumRank(_LinearRanker):
    """Passive-aggressive cumulative sum ranking: the shortest step that leaves a margin.

    After a mistake the boundaries between the true rank y and the predicted rank ŷ move as little
    as possible such that s(x, y) − s(x, ŷ) = δ · ℓ(ŷ, y), with ℓ = |ŷ − y| by default.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    delta : float
        δ, the margin after a step. With mode "PA", weights that start at zero and no ``margin``,
        it scales the weights and does not change what `predict_one` returns.
    mode : {"PA", "PA-I", "PA-II"}
        "PA": the full step. "PA-I": a step of at most ``C``. "PA-II": a step with 1 / (2 C) added
        to its denominator, ‖x‖² times the number of boundaries. Use one of the latter two if labels
        are noisy.
    C : float
        The aggressiveness of "PA-I" and "PA-II", positive.
    loss : str or TaskLoss
        The task loss ℓ, of the step and of margin re-scaling.
    margin : float
        As in `CuSumRank`; with ``margin=delta``, as by default, every sample within its margin is
        learned. 0: learn only from mistakes, the published algorithm.
    averaging, intercept, l2, window
        As in `CuSumRank`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    References
    ----------
    *Cumulative Sum Ranking*, arXiv 1911.11255, figure 2; Crammer et al., *Online Passive-Aggressive
    Algorithms*, JMLR 7 (2006).

    Examples
    --------
    >>> from streamcal.ordinal import PACuSumRank
    >>> model = PACuSumRank(labels=(1, 2, 3), mode="PA", intercept=False)
    >>> model.learn_one({"x": 2.0}, 3)
    >>> model.weights  # s(x, 3) − s(x, 1) = 2 · 0.5 + 2 · 0.5 = 2 ranks
    {'x': array([0.5, 0.5])}
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        delta: float = 1.0,
        mode: str = "PA-II",
        C: float = 0.01,
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 1.0,
        averaging: str | float | None = None,
        intercept: bool = True,
        l2: float = 0.0,
        window: int = 1_000,
    ) -> None:
        check_choice(mode, "mode", tuple(_RULES))
        for name, value in (("delta", delta), ("C", C)):
            if not 0.0 < as_number(value, name) <= LARGEST:
                raise ValueError(f"`{name}` must be a positive finite number, got {value}")
        rule = {"rule": _RULES[mode], "delta": delta, "C": C, "biased": bool(intercept)}
        super().__init__(labels, loss, margin, averaging, l2, window, **rule)
        self.delta = delta
        self.mode = mode
        self.C = C
        self.intercept = intercept


class PRank(_LinearRanker):
    """Ranking by projecting: perceptron steps on one direction and a threshold for each boundary.

    This is `CuSumRank` with one direction for all boundaries. It has far fewer weights and is more
    accurate for few samples, but can't separate ranks that lie in different directions.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    ties : {"published", "strict"}
        Which thresholds move after a mistake. "strict": those between the true and the predicted
        rank, as in `CuSumRank`. "published": also thresholds below the true rank that equal the
        projection. The two differ from the first sample, with weights of zero.
    loss, margin, averaging, l2, window
        As in `CuSumRank`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    Among ranks with equal scores the highest is predicted, as published. Without ``margin``
    thresholds stay sorted; with it they may not, but the prediction, an argmax, does not need that.

    References
    ----------
    Crammer & Singer, *Pranking with Ranking*, NIPS 2001, figure 1.

    Examples
    --------
    >>> from streamcal.ordinal import PRank
    >>> model = PRank(labels=(1, 2, 3))
    >>> for x, y in [(-2.0, 1), (0.1, 2), (3.0, 3)] * 20:
    ...     model.learn_one({"x": x}, y)
    >>> [model.predict_one({"x": x}) for x in (-1.5, 0.0, 2.0)]
    [1, 2, 3]
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        ties: str = "published",
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 0.0,
        averaging: str | float | None = None,
        l2: float = 0.0,
        window: int = 1_000,
    ) -> None:
        check_choice(ties, "ties", ("published", "strict"))
        rule = {"biased": True, "shared": True, "last": True, "wide": ties == "published"}
        super().__init__(labels, loss, margin, averaging, l2, window, **rule)
        self.ties = ties

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Where the projection passes from one rank to the next, shape ``(n_labels − 1,)``."""
        return -self.biases
