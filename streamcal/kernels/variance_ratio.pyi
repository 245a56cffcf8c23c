import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

class VarianceRatio:
    def __init__(self, n_series: int) -> None: ...
    def state(self) -> tuple[Vector, ...]: ...
    def restore(
        self,
        sums: Vector,
        lengths: Vector,
        long_run: Vector,
        at_once: Vector,
        totals: Vector,
        spans: Vector,
        numbers: Vector,
    ) -> None: ...
