"""Linear online learners of ordinal labels: CuSum Rank, its passive-aggressive form, and PRank.

Between K ranks there are K − 1 boundaries, each with weights w_k; w_k · x says how much stands for
rank k or more rather than less. *CuSum Rank* adds these up: the score of rank r is the sum of
w_k · x over the boundaries below r, and the rank with the highest score is predicted. Being wrong
about one boundary can be made good by being sure about the next, where counting the boundaries that
are passed could not. Learning is a structured perceptron: after a mistake the boundaries between
the true and the predicted rank move towards the sample or away from it.

    CuSumRank     perceptron steps; a direction for each boundary
    PACuSumRank   steps just long enough for a known margin
    PRank         perceptron steps; all boundaries share one direction (Crammer & Singer)

The rank loss they sum up is bounded on separable data, whatever the order, see `mistake_bound`.
All arithmetic is in `streamcal.kernels.cusum`; here are the parameters, and data frames.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from numpy.typing import NDArray
from river import base
from river.base.typing import ClfTarget, FeatureName
from river.utils.dataframe import (
    into_series,
    to_native_frame,
    to_native_series,
)

from streamcal import losses
from streamcal._state import Arrays, Fields, as_name, as_names, pack
from streamcal._validation import (
    LARGEST,
    as_number,
    as_score,
    as_weight,
    as_weights,
    check_choice,
)
from streamcal.kernels.cusum import PA, PA_I, PA_II
from streamcal.losses._task import check_n_labels
from streamcal.ordinal._ranks import Features, RankLearner, check_features, check_frame

_RULES = {"PA": PA, "PA-I": PA_I, "PA-II": PA_II}
_ODD = (TypeError, ValueError, OverflowError)  # what a sample raises that has to be looked at


def mistake_bound(radius: float, margin: float, *, n_labels: int | None = None) -> float:
    """Return the most rank loss Σ |y − ŷ| that separable data can cost, in any order.

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
    learner that is told δ. It is attained: by samples that are orthogonal to all before them, each
    of the rank farthest from the one predicted.

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
    """From dicts and frames of features to weights and back."""

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
        """What predictions are made from: for each feature its weights, shape ``(n_labels − 1,)``.

        Under ``averaging`` the averaged ones; shape ``(1,)`` where boundaries share a direction.
        """
        features, _, weights = self._cusum.served_weights()
        return dict(zip(features, weights, strict=True))

    @property
    def biases(self) -> NDArray[np.float64]:
        """The weight of the constant attribute at each boundary, shape ``(n_labels − 1,)``."""
        return self._cusum.served_weights()[1]

    # One sample ----------------------------------------------------------------------------------

    def learn_one(self, x: Features, y: ClfTarget, w: float = 1.0) -> None:
        """Learn a sample, in time proportional to its features times the boundaries.

        Parameters
        ----------
        x : dict
            The features: numbers up to 1e60 in size. One that is missing counts as 0.
        y : bool, int or str
            The label.
        w : float
            Weight of the sample, from 1e-60 to 1e60: a factor of a perceptron step and of ``C``,
            and of the sample's share in averages and probabilities.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range; nothing is learned.
        """
        weight = 1.0 if w == 1.0 else as_weight(w)
        try:
            if self._cusum.learn(x, y, weight):
                return
        except _ODD:
            pass
        values = check_features(x)
        self._check_label(y)
        self._cusum.learn(values, y, weight, new=True)

    def predict_one(self, x: Features, **kwargs: Any) -> ClfTarget | None:
        """Return the label whose cumulative score is highest, None while no label is known.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            label: ClfTarget | None = self._cusum.predict(x)
        except _ODD:
            label = self._cusum.predict(check_features(x))
        return label

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label, in their order.

        Isotonic calibrators say how often the margins that were served to the last ``window``
        samples were followed by a label above each boundary. Their answers are made to fall from
        boundary to boundary; the differences are the labels' probabilities. The label that is
        decoded by `predict_one` need not be the most probable one. Before anything is learned all
        labels are equally probable.

        Returns
        -------
        dict
            Probabilities in (0, 1) that sum to 1; empty while no label is known.

        Raises
        ------
        ValueError, TypeError
            If a feature is not a finite number.
        """
        try:
            return self._cusum.probabilities(x)
        except _ODD:
            return self._cusum.probabilities(check_features(x))

    # Many samples --------------------------------------------------------------------------------

    def learn_many(self, X: IntoDataFrame, y: IntoSeries, w: Any = 1.0) -> None:
        """Learn the rows of a frame in order, as `learn_one` would: one compiled loop.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_features)
            Of any eager library that narwhals knows: pandas, polars, pyarrow, …
        y : series of shape (n_samples,)
            The labels.
        w : float, series or array of shape (n_samples,)
            Weights, from 1e-60 to 1e60.

        Raises
        ------
        ValueError, TypeError
            As `learn_one`, and if lengths differ; nothing is learned.
        """
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
        """Raise unless a batch has labels that are known or may be learned."""
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

    def predict_many(self, X: IntoDataFrame) -> IntoSeries:
        """Return the decoded label of each row, None while no label is known."""
        frame, matrix = check_frame(X)
        labels = self._cusum.predict_many(frame.columns, matrix)
        return to_native_series(labels, name=self._y_name, like=frame)

    def predict_proba_many(self, X: IntoDataFrame) -> IntoDataFrame:
        """Return the calibrated probabilities of each row, a column for each label."""
        frame, matrix = check_frame(X)
        labels, probabilities = self._cusum.probabilities_many(frame.columns, matrix)
        return to_native_frame(dict(zip(labels, probabilities.T, strict=True)), like=frame)


class CuSumRank(_LinearRanker):
    """Cumulative sum ranking: a perceptron with a direction of its own for each boundary.

    Parameters
    ----------
    labels : sequence of labels, optional
        All labels, lowest first; any other is refused. None: they are learned as they come and
        ranked in their sorted order, which is what integers want. Strings are ranked by the
        alphabet, so give them here unless that is their order.
    loss : str or TaskLoss
        The task loss ℓ of margin re-scaling; see `streamcal.losses.get_task`.
    margin : float
        What a rank loss of 1 must be worth: while learning, the rank that maximises s(x, r) +
        margin · ℓ(r, y) is decoded and learned from. 0: learn from mistakes only.
    averaging : None, "uniform" or float
        Predict from the average of the weights after every sample, which is steadier than the last
        ones; or from an average in which samples count half for every so many that follow.
    intercept : bool
        Whether samples have a constant attribute of 1.
    l2 : float
        How much all weights shrink with every sample: by the factor 1 − l2. The intercept is a
        weight like any other.
    window : int
        How many of the last samples `predict_proba_one` is calibrated on.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    Steps are not scaled: without ``margin``, predictions do not depend on the scale of the weights.
    Features should be of comparable size, so put a ``StandardScaler`` in front.

    A label that is learned between two others halves the boundary that parted them, one at an end
    begins a boundary at zero. Time is O(features · labels) a sample, whatever the options; a
    feature, once learned, keeps its row of weights.

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
    5.0
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 0.0,
        averaging: str | float | None = None,
        intercept: bool = True,
        l2: float = 0.0,
        window: int = 1_000,
    ) -> None:
        super().__init__(labels, loss, margin, averaging, l2, window, biased=bool(intercept))
        self.intercept = intercept


class PACuSumRank(_LinearRanker):
    """Passive-aggressive cumulative sum ranking: the shortest step that leaves a margin.

    After a mistake the boundaries between the true rank y and the decoded rank ŷ move just as far
    as it takes for s(x, y) − s(x, ŷ) = δ · ℓ(ŷ, y), with ℓ = |ŷ − y| by default.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    delta : float
        δ, the margin to leave. From zero weights without ``margin`` it only scales them: what
        `predict_one` answers does not depend on it (with mode "PA").
    mode : {"PA", "PA-I", "PA-II"}
        The full step; one of at most ``C``; or one that is shortened smoothly, by 1 / (2 C) added
        to its denominator. Take one of the latter where labels are noisy.
    C : float
        The aggressiveness of "PA-I" and "PA-II", positive.
    loss : str or TaskLoss
        The task loss ℓ, of the step and of margin re-scaling.
    margin : float
        As in `CuSumRank`; with ``margin=delta`` a sample is learned whenever it lacks its margin.
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
    >>> model = PACuSumRank(labels=(1, 2, 3), intercept=False)
    >>> model.learn_one({"x": 2.0}, 3)
    >>> model.weights  # s(x, 3) − s(x, 1) = 2 · 0.5 + 2 · 0.5 = 2 ranks
    {'x': array([0.5, 0.5])}
    """

    def __init__(
        self,
        labels: Sequence[ClfTarget] | None = None,
        *,
        delta: float = 1.0,
        mode: str = "PA-I",
        C: float = 1.0,
        loss: "str | losses.TaskLoss" = "absolute",
        margin: float = 0.0,
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

    The special case of `CuSumRank` in which all boundaries share their direction. It has far fewer
    weights and wins where samples are few; but ranks that lie in different directions it cannot
    tell apart.

    Parameters
    ----------
    labels : sequence of labels, optional
        As in `CuSumRank`.
    ties : {"published", "strict"}
        What moves after a mistake: with "published" also thresholds below the true rank that the
        projection meets exactly; with "strict" only those between the true and the predicted rank,
        as in `CuSumRank`. From zero weights the two differ.
    loss, margin, averaging, l2, window
        As in `CuSumRank`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range.

    Notes
    -----
    Of equal scores the last is predicted, as published. Thresholds stay sorted without ``margin``;
    with it they need not, and the argmax that is decoded does without.

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
