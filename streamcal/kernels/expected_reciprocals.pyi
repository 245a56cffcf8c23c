from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

@final
class Reciprocals:
    def __init__(
        self,
        p: Vector,
        num: Sequence[float],
        den: Sequence[int],
        shift: float,
        scale: float,
        carried: float,
    ) -> None: ...
    def write_expectations(
        self, laws: tuple[int, Vector, NDArray[np.int64]], psi: Vector
    ) -> None: ...
