from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.exclusive import Exclusive
from streamcal.kernels.isotonic import IsotonicRegression

Array = NDArray[np.float64]

LEAST_SCALE: float
MOST_COUNT: float
PERCEPTRON: int
PA: int
PA_I: int
PA_II: int

@final
class CuSum(Exclusive):
    labels: list[Any]
    ranks: dict[Any, int]
    rank_loss: float
    n_samples: int
    def __init__(
        self,
        settings: dict[str, Any],
        labels: list[Any],
        task: Any,
        window: int,
        empty: IsotonicRegression,
    ) -> None: ...
    def learn(self, x: dict[Any, Any], y: Any, w: float, new: bool = False) -> bool: ...
    def learn_atom(self, x: dict[Any, Any], y: Any, w: float, atom: Any) -> bool: ...
    def forget(self, feature: Any) -> None: ...
    def predict(self, x: dict[Any, Any]) -> Any: ...
    def probabilities(self, x: dict[Any, Any]) -> dict[Any, float]: ...
    def learn_many(self, features: Any, X: Array, labels: list[Any], w: Array) -> None: ...
    def predict_many(self, features: Any, X: Array) -> list[Any]: ...
    def probabilities_many(self, features: Any, X: Array) -> tuple[list[Any], Array]: ...
    def shape(self, n_labels: int) -> tuple[int, int, int]: ...
    def stored(self) -> tuple[list[Any], Array, Array]: ...
    def served_weights(self) -> tuple[list[Any], Array, Array]: ...
    def state(
        self,
    ) -> tuple[
        list[Any], list[Any], dict[str, Any], dict[str, Array], list[IsotonicRegression]
    ]: ...
    def restore(
        self,
        labels: list[Any],
        features: list[Any],
        numbers: dict[str, Any],
        arrays: dict[str, Array],
        regressions: list[IsotonicRegression],
    ) -> None: ...
