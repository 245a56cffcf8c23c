"""Immutable copies of wrappers with their models, for other threads and processes."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from river.base.typing import ClfTarget

from streamcal.kernels.exclusive import Mutex
from streamcal.wrappers.routing import Features


@dataclass(frozen=True, eq=False, repr=False)
class ModelSnapshot:
    """A copy of a wrapper and its model that only predicts; any number of threads may use it.

    It is made by ``snapshot()`` of the wrapper, in the thread that learns. Assign it to a variable
    that others read, or send it to another process as a pickle. A river model is not made for
    several threads, so calls wait for each other; give each thread a snapshot of its own if that
    takes too long. A method that the wrapper lacks raises ``AttributeError``.

    Examples
    --------
    >>> from river import linear_model
    >>> from streamcal import CalibratedRegressor
    >>> model = CalibratedRegressor(linear_model.LinearRegression())
    >>> model.learn_one({}, 2.0, served=1.5)
    >>> snapshot = model.snapshot()
    >>> model.learn_one({}, 4.0, served=0.0)
    >>> snapshot.predict_one({}), model.predict_one({})
    (2.0, 3.0)
    """

    _model: Any
    _mutex: Mutex = field(default_factory=partial(Mutex, "ModelSnapshot"), init=False)

    def predict_one(self, x: Features, **kwargs: Any) -> Any:
        """Return what the wrapper would have predicted for a sample at that moment."""
        with self._mutex:
            return self._model.predict_one(x, **kwargs)

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the probability of each label at that moment; it is not remembered."""
        with self._mutex:
            probabilities: dict[ClfTarget, float] = self._model.predict_proba_one(x, **kwargs)
            return probabilities

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the predictions of the rows of a frame, in a series of the same library."""
        with self._mutex:
            predictions: IntoSeries = self._model.predict_many(X, **kwargs)
            return predictions

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """Return the probabilities of the rows, in a frame of the same library."""
        with self._mutex:
            probabilities: IntoDataFrame = self._model.predict_proba_many(X, **kwargs)
            return probabilities

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (self._model,)
