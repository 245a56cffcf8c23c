from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.expert import Expert

Vector = NDArray[np.float64]

class Beta(Expert):
    parameters: tuple[float, float, float]
    def __init__(
        self,
        gamma: float,
        prior: float,
        limit: float,
        clip: float,
        fade: float,
        half_life: float = ...,
    ) -> None: ...
    def state(self) -> tuple[Vector, float]: ...
    def restore(self, numbers: Any, now: float) -> None: ...
    def read(self, numbers: Any, now: float) -> None: ...

@final
class Temperature:
    exponent: float
    n_samples: float
    def __init__(
        self,
        gamma: float,
        prior: float,
        limit: float,
        clip: float,
        fade: float,
        half_life: float = ...,
    ) -> None: ...
    def learn(self, raw: Vector, y: int, w: float, t: float = ...) -> None: ...
    def predict(self, raw: Vector, out: Vector) -> None: ...
    def state(self) -> tuple[Vector, float]: ...
    def restore(self, numbers: Any, now: float) -> None: ...
    def read(self, numbers: Any, now: float) -> None: ...
