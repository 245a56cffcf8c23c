import numpy as np
from numpy.typing import NDArray

class MeanBounds:
    n_samples: int
    weight: float
    total: float

    def add(self, x: float, low: float, high: float, w: float) -> None: ...
    def add_event(
        self, first: float, second: float, happened: bool, w: float, clip: float
    ) -> None: ...
    def add_events(
        self,
        first: NDArray[np.float64],
        second: NDArray[np.float64],
        happened: NDArray[np.float64],
        w: NDArray[np.float64],
        clip: float,
    ) -> None: ...
    def interval(self, alpha: float) -> tuple[float, float]: ...
    def state(self) -> NDArray[np.float64]: ...
    def restore(
        self, n_samples: int, weight: float, total: float, lost: NDArray[np.float64]
    ) -> None: ...
