from typing import final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Flags = NDArray[np.uint8]
Places = NDArray[np.int64]

@final
class Quantiles:
    n_open: int
    def __init__(self, y: Vector, w: Vector, ends: Flags, tau: float, greatest: bool) -> None: ...
    def run(self, n_rounds: int) -> int: ...
    def bounds(self) -> tuple[Places, Vector, Vector]: ...
    def __len__(self) -> int: ...

def greatest_quantiles(
    y: Vector, w: Vector, tau: float, starts: Places, values: Vector
) -> Vector: ...
