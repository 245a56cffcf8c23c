from typing import final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.threshold_decomposition import Cells

Vector = NDArray[np.float64]
Flags = NDArray[np.uint8]
Places = NDArray[np.int64]

@final
class WarmStart:
    z: Vector
    sides: Vector
    def __init__(
        self,
        begins: Places,
        values: Vector,
        ends: Flags,
        offset: Vector | None,
        low: float,
        high: float,
        reach: float,
    ) -> None: ...
    def n_wrong(self) -> int: ...
    def improve(self, reach: float) -> bool: ...
    def join(self) -> Places: ...
    def cells(self, tolerance: float, relative: float) -> Cells: ...
    def __len__(self) -> int: ...
