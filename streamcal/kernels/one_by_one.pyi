from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class OneByOne:
    def __init__(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None: ...
    def predict_learn(
        self, call: Callable[[float, float, float], float], at: list[int]
    ) -> bool: ...
