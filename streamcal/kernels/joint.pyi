from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.hedge import Hedge
from streamcal.kernels.newton import Temperature

Array = NDArray[np.float64]
Places = NDArray[np.intp]

SLOPE_PRIOR: float

@final
class Matrix:
    n_labels: int
    def __init__(
        self,
        base: int,
        n_rows: int,
        gamma: float,
        prior: float,
        limit: float,
        fade: float,
        most: int,
    ) -> None: ...
    def grown(self, n_labels: int) -> Matrix: ...
    def state(self) -> tuple[Array, Array, Array]: ...
    def restore(self, numbers: Any, weights: Any, inverse: Any) -> None: ...

@final
class JointMaps:
    temperature: Temperature
    matrices: tuple[Matrix, ...]
    def __init__(
        self, temperature: Temperature, matrices: tuple[Matrix, ...], clip: float
    ) -> None: ...
    def predict(self, hedge: Hedge, raw: Array, one_vs_rest: Array, places: Places) -> Array: ...
    def serve(
        self, hedge: Hedge, raw: Array, one_vs_rest: Array, places: Places
    ) -> tuple[Array, Array]: ...
    def learn(
        self, raw: Array, one_vs_rest: Array, places: Places, y: int, w: float
    ) -> list[float]: ...
