from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.expert import Expert

Vector = NDArray[np.float64]

class Beta(Expert):
    parameters: tuple[float, float, float]
    def __init__(
        self, gamma: float, prior: float, limit: float, clip: float, fade: float
    ) -> None: ...
    def state(self) -> tuple[Vector]: ...
    def restore(self, numbers: Any) -> None: ...

class Temperature:
    exponent: float
    n_samples: float
    def __init__(
        self, gamma: float, prior: float, limit: float, clip: float, fade: float
    ) -> None: ...
    def learn(self, raw: Vector, y: int, w: float) -> None: ...
    def predict(self, raw: Vector, out: Vector) -> None: ...
    def state(self) -> tuple[Vector]: ...
    def restore(self, numbers: Any) -> None: ...
