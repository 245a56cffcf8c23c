import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.score_index import ScoreIndex

Vector = NDArray[np.float64]

class LabelIndex(ScoreIndex):
    n_changes: int
    def __init__(
        self,
        costs: Vector,
        window: int,
        rate: float,
        half_life: float = ...,
        time_window: float = 0.0,
    ) -> None: ...
    def unlearn(self, score: float, label: float, w: float) -> bool: ...
    def learn_many(
        self, scores: Vector, labels: Vector, w: Vector, times: Vector | None = None
    ) -> None: ...
    def predict(self, score: float) -> int | None: ...
    def answer(self, with_risk: bool) -> tuple[int, Vector | None, float, float, bool]: ...
    def samples(self) -> tuple[int, float, Vector, Vector]: ...
    def table(self) -> Vector: ...
