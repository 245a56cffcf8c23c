import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.score_index import ScoreIndex

Vector = NDArray[np.float64]

LARGEST_GROWTH: float

class ConfusionIndex(ScoreIndex):
    def __init__(
        self,
        spec: Vector | None,
        window: int,
        rate: float,
        half_life: float = ...,
        time_window: float = 0.0,
    ) -> None: ...
    def learn_many(
        self, scores: Vector, y: Vector, w: Vector, times: Vector | None = None
    ) -> None: ...
    def best(self) -> tuple[float, float] | None: ...
    def remember(self, n_changes: int, threshold: float, utility: float) -> None: ...
    def walk(self) -> tuple[Vector, Vector, Vector, float, int]: ...
