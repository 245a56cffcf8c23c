from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Places = NDArray[np.intp]

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
    def grow(self, n_labels: int) -> None: ...
    def predict(self, logs: Vector, places: Places, out: Vector) -> None: ...
    def learn(self, logs: Vector, places: Places, y: int, w: float) -> None: ...
    def state(self) -> tuple[Vector, Vector, Vector]: ...
    def restore(self, numbers: Any, weights: Any, inverse: Any) -> None: ...
