"""Immutable copies of models and wrappers, for other threads and processes to predict with."""

import threading
from typing import Any, NoReturn, Self

from narwhals.stable.v2.typing import IntoDataFrame, IntoSeries
from river.base.typing import ClfTarget

from streamcal._locked import new_mutex
from streamcal.wrappers.routing import Features


class ModelSnapshot:
    """A copy of a wrapper and its model that only predicts; any number of threads may use it.

    It is made by ``snapshot()`` of the wrapper, in the thread that learns. Assign it to a variable
    that others read, or send it to another process as a pickle. A river model is not made for
    several threads, so calls wait for each other; give each thread a snapshot of its own if that
    takes too long.

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

    __slots__ = ("_model", "_mutex")
    _model: Any
    _mutex: threading.RLock

    def __init__(self, model: Any) -> None:
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_mutex", new_mutex())

    def predict_one(self, x: Features, **kwargs: Any) -> Any:
        """Return what the wrapper would have predicted for a sample at that moment."""
        with self._mutex:
            return self._model.predict_one(x, **kwargs)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a snapshot does not change: `{name}` can't be set")

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (self._model,)


class RegressorSnapshot(ModelSnapshot):
    """The same for a model that also predicts frames."""

    __slots__ = ()

    def predict_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoSeries:
        """Return the predictions of the rows of a frame, in a series of the same library."""
        with self._mutex:
            predictions: IntoSeries = self._model.predict_many(X, **kwargs)
            return predictions


class ClassifierSnapshot(ModelSnapshot):
    """The same for a classifier, with probabilities."""

    __slots__ = ()

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[ClfTarget, float]:
        """Return the probability of each label at that moment; it is not remembered."""
        with self._mutex:
            probabilities: dict[ClfTarget, float] = self._model.predict_proba_one(x, **kwargs)
            return probabilities


class MiniBatchClassifierSnapshot(RegressorSnapshot, ClassifierSnapshot):
    """The same for a classifier that also predicts frames."""

    __slots__ = ()

    def predict_proba_many(self, X: IntoDataFrame, **kwargs: Any) -> IntoDataFrame:
        """Return the probabilities of the rows, in a frame of the same library."""
        with self._mutex:
            probabilities: IntoDataFrame = self._model.predict_proba_many(X, **kwargs)
            return probabilities
