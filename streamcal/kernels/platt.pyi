from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.expert import Expert

Vector = NDArray[np.float64]

def project(
    a: float, b: float, aa: float, ab: float, bb: float, det: float, radius: float
) -> tuple[float, float]: ...

class Platt(Expert):
    slope: float
    intercept: float
    def __init__(
        self,
        gamma: float,
        prior: float,
        limit: float,
        clip: float,
        fade: float,
        n_bins: int,
        half_life: float = ...,
    ) -> None: ...
    def state(self) -> tuple[Vector, Vector, float]: ...
    def restore(self, numbers: Any, bins: Vector, now: float) -> None: ...
    def read(self, numbers: Any, bins: Vector, now: float) -> None: ...
