from typing import final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Flags = NDArray[np.uint8]
Places = NDArray[np.int64]

def midpoint(low: float, high: float) -> float: ...

@final
class Cells:
    n_open: int
    def __init__(
        self,
        ends: Flags,
        offset: Vector | None,
        low: float,
        high: float,
        tolerance: float,
        relative: float,
    ) -> None: ...
    @staticmethod
    def around(
        begins: Places,
        bounds: Vector,
        sides: Vector,
        ends: Flags,
        offset: Vector | None,
        tolerance: float,
        relative: float,
    ) -> Cells: ...
    @property
    def n_samples(self) -> int: ...
    def query_points(self) -> Vector: ...
    def split(self, slopes: Vector) -> int: ...
    def remove_settled(self) -> Places: ...
    def bounds(self) -> tuple[Places, Vector, Vector]: ...
    def __len__(self) -> int: ...
