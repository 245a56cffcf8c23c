"""An immutable copy of a calibrator's map, for other threads to read while it learns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._validation import as_score, as_vector
from streamcal.kernels.exclusive import Mutex
from streamcal.notebook.card import card
from streamcal.notebook.shape import Shape

NO_SHAPE = (
    "`calibrator` must be a map of scores, but this one also depends on fields of the sample: draw"
    " its predictions with `from_predictions`"
)


@dataclass(frozen=True, eq=False, repr=False)
class Snapshot:
    """An immutable copy of a calibrator's map; any number of threads may use it.

    Call `Calibrator.snapshot` in any thread; assign the result to a variable that others read.

    Attributes
    ----------
    n_samples : int or None
        The number of samples of the map; None if the calibrator does not count them.
    fields : tuple of str
        The names of the values that it needs as ``x``, as the calibrator does.

    Examples
    --------
    >>> from streamcal import IsotonicCalibrator
    >>> calibrator = IsotonicCalibrator()
    >>> calibrator.learn_many([0.2, 0.8, 0.6], [0, 1, 1])
    >>> snapshot = calibrator.snapshot()
    >>> calibrator.learn_one(0.7, 0)
    >>> round(snapshot.predict_one(0.7), 3), round(calibrator.predict_one(0.7), 3)
    (0.667, 0.5)
    """

    _predict: Callable[..., Any]
    n_samples: int | None
    fields: tuple[str, ...] = ()

    def predict_one(self, score: float, x: Mapping[str, Any] | None = None) -> float:
        """Return the value that the calibrator had for a score at that moment."""
        columns = None if x is None else {name: [x.get(name)] for name in self.fields}
        return float(self.predict_many(np.array([as_score(score)]), columns)[0])

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the values of scores, shape ``(n_samples,)``; a Series for a Series.

        ``x`` has a column for each of ``fields``.
        """
        given = (x,) if self.fields else ()
        values: NDArray[np.float64] = self._predict(as_vector(scores, "scores"), *given)
        return like_given(values, scores)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return card(self, {}, {} if self.fields else {None: self._shape()})

    def _shape(self) -> Shape:
        if self.fields:
            raise TypeError(NO_SHAPE)
        stairs = getattr(self._predict, "__self__", None)  # of a snapshot of a staircase
        return Shape.of(self._predict, n_samples=self.n_samples, staircase=stairs)


class OneAtATime:
    """A function with work arrays, which only one thread at a time may call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._mutex = Mutex("a snapshot")

    def __call__(self, *given: Any) -> Any:
        """Return the result of the function."""
        with self._mutex:
            return self._function(*given)

    def __reduce__(self) -> tuple[Any, ...]:
        return OneAtATime, (self._function,)
