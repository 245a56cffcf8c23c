"""The base class of calibrators of a one-dimensional score."""

import copy
from abc import ABC, abstractmethod
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._state import Stateful
from streamcal._state.clone import Cloned
from streamcal._validation import as_score, as_vector, as_weights, check_same_length
from streamcal._whole import Step, write_to
from streamcal.calibration.snapshot import OneAtATime, Snapshot
from streamcal.kernels.expert import Expert
from streamcal.notebook.card import card
from streamcal.notebook.shape import NO_SAMPLES, Samples, Shape


class Calibrator(Stateful, Cloned, ABC):
    """An online map from scores to calibrated values.

    A calibrator only uses scores and labels, not features or the model. So it works with a river
    pipeline (through `streamcal.CalibratedClassifier`), a column of a file or a neural network.

    The methods for many samples are loops by default; a subclass with a compiled loop overrides
    them. Bad input raises before the first sample is learned, so an error changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> class MeanLabel(Calibrator):
    ...     def __init__(self):
    ...         self.total = self.n = 0
    ...
    ...     def learn_one(self, score, y, w=1.0):
    ...         self.total, self.n = self.total + w * y, self.n + w
    ...
    ...     def predict_one(self, score):
    ...         return self.total / self.n if self.n else 0.5
    ...
    ...     def _check_labels(self, y):
    ...         return np.asarray(y, dtype=float)
    >>> MeanLabel().predict_learn_many([0.2, 0.9, 0.4], [1, 1, 0])
    array([0.5, 1. , 1. ])
    """

    @abstractmethod
    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Learn that ``score`` was followed by the label ``y``, with weight ``w``."""

    @abstractmethod
    def predict_one(self, score: float) -> float:
        """Return the calibrated value of ``score``; the state does not change."""

    @abstractmethod
    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        """Return labels as floats of shape ``(n_samples,)``, or raise ``ValueError``."""

    def learn_many(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn samples in the order given; arrays of shape ``(n_samples,)``."""
        for sample in zip(*self._check_samples(scores, y, w), strict=True):
            self.learn_one(*map(float, sample))

    if TYPE_CHECKING:  # a class of your own may have an attribute

        @property
        def n_samples(self) -> int:
            """The number of samples that it holds or, if it forgets none, has learned.

            `HistogramCalibrator` and `IdentityCalibrator` do not count them.
            """

    def predict_many(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return the calibrated values of ``scores``, shape ``(n_samples,)``.

        For a Series of pandas, polars or another library that narwhals knows they are such a
        Series, with its index, and with its name followed by ``_calibrated``.

        Examples
        --------
        >>> import pandas as pd
        >>> from streamcal import IsotonicCalibrator
        >>> frame = pd.DataFrame({"p": [0.2, 0.4, 0.9]})
        >>> calibrator = IsotonicCalibrator()
        >>> calibrator.learn_many(frame["p"], [0, 1, 1])
        >>> frame.join(calibrator.predict_many(frame["p"])).columns.tolist()
        ['p', 'p_calibrated']
        """
        vector = as_vector(scores, "scores")
        values = np.array([self.predict_one(score) for score in vector.tolist()], dtype=np.float64)
        return like_given(values, scores)

    def predict_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in order: the prequential protocol in one call.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            The result of `predict_one` for each score before its label was learned; a Series if
            ``scores`` is one, as in `predict_many`.
        """
        samples = self._check_samples(scores, y, w)
        predictions = np.empty(len(samples[0]))
        for i, (score, label, weight) in enumerate(zip(*samples, strict=True)):
            predictions[i] = self.predict_one(float(score))
            self.learn_one(float(score), float(label), float(weight))
        return like_given(predictions, scores)

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of the current map; see `Snapshot`.

        By default this copies the whole state; a calibrator whose map is a staircase copies that.
        """
        twin = copy.deepcopy(self)
        return Snapshot(OneAtATime(twin.predict_many), getattr(twin, "n_samples", None))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shape = self._shape()
        known = {} if shape.n_samples is None else {"samples": shape.n_samples}
        return card(self, known | self._facts(), {None: shape}, self._weights_shown())

    def _facts(self) -> dict[str, Any]:
        """Return names and values of the state, for a notebook."""
        return {}

    def _weights_shown(self) -> dict[str, float]:
        """Return the weights of what is mixed, for a notebook."""
        return {}

    def _shape(self) -> Shape:
        """Return the current map, for a picture."""
        n_samples = getattr(self, "n_samples", None)
        return Shape.of(self.predict_many, n_samples=n_samples, kept=self._kept_scores())

    def _kept_scores(self) -> Samples:
        """Return the scores that are kept, and the weight of each."""
        return NO_SAMPLES

    def _learn_steps(self, score: float, y: float, w: float) -> tuple[Step, ...]:
        """Return what learns a sample, for `do_all`; it is compiled but in a class of your own."""
        return (partial(self.learn_one, score, y, w),)

    def _batch_steps(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> tuple[Step, ...] | None:
        """Return compiled steps that predict and learn samples that were checked, if there are any.

        Predictions are written to ``out``.
        """
        kernel = self._batch_kernel()
        if kernel is None:
            return None
        return (write_to(out, slice(None), partial(kernel.predict_learn_many, scores, y, w)),)

    def _batch_kernel(self) -> Expert | None:
        """Return the compiled object with the same `predict_learn_many`, if there is one."""
        return None

    def _compiled(self) -> Expert | None:
        """Return the compiled object that learns and predicts as this calibrator does, if any."""
        return None

    def _learns_all(self) -> bool:
        """Return whether `predict_learn_many` learns all samples that `_check_samples` accepts."""
        return False

    def _check_score(self, score: float) -> None:
        """Raise unless `learn_one` accepts this score."""
        as_score(score)

    def _check_samples(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return scores, labels and weights as equally long float64 vectors, or raise."""
        score_vector = as_vector(scores, "scores")
        labels = self._check_labels(y)
        check_same_length(labels, len(score_vector), "y")
        return score_vector, labels, as_weights(w, len(score_vector))


def check_binary(calibrator: Calibrator, name: str = "calibrator", where: str = "") -> None:
    """Raise ``ValueError`` unless a calibrator accepts the labels 0 and 1."""
    try:
        calibrator._check_labels([0.0, 1.0])
    except ValueError as error:
        raise ValueError(f"`{name}` must accept the labels 0 and 1, but {where}{error}") from None


def predict_learn_known(
    calibrator: Calibrator,
    scores: NDArray[np.float64],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Predict and learn in order; a sample whose label is NaN is only predicted.

    Takes arrays of shape ``(n_samples,)``, returns the predictions in one.

    Examples
    --------
    >>> from streamcal.calibration import IsotonicCalibrator
    >>> scores, labels = np.array([0.5, 0.5, 0.5]), np.array([1.0, np.nan, 0.0])
    >>> predict_learn_known(IsotonicCalibrator("squared"), scores, labels, np.ones(3))
    array([0.5, 1. , 1. ])
    """
    known = ~np.isnan(labels)
    if known.all():
        return calibrator.predict_learn_many(scores, labels, weights)
    values = np.empty(len(scores))
    bounds = [0, *(np.flatnonzero(np.diff(known)) + 1).tolist(), len(scores)]
    for start, stop in pairwise(bounds):
        run = slice(start, stop)
        if known[start]:
            values[run] = calibrator.predict_learn_many(scores[run], labels[run], weights[run])
        else:
            values[run] = calibrator.predict_many(scores[run])
    return values
