from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.expert import Expert

CELLS_PER_BIN: Final = 16
LARGEST_GROWTH: Final[float]

@final
class Histogram(Expert):
    def __init__(self, n_bins: int, rate: float, prior: float, half_life: float = ...) -> None: ...
    def state(self) -> tuple[NDArray[np.float64], float, float]: ...
    def restore(self, rows: NDArray[np.float64], growth: float, now: float = ...) -> None: ...
