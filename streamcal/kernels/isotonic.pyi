from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.expert import Expert
from streamcal.kernels.score_index import ScoreIndex

Vector = NDArray[np.float64]
Counts = NDArray[np.int64]

class IsotonicRegression(ScoreIndex):
    n_merged: int
    def __init__(
        self,
        window: int,
        rate: float,
        prior: float,
        labels: tuple[float, float],
        means: tuple[float, float],
        max_scores: int,
        half_life: float = ...,
        time_window: float = 0.0,
    ) -> None: ...
    def advance(self, t: float) -> None: ...
    def unlearn(self, score: float, s: float, w: float) -> bool: ...
    def predict(self, score: float, step: bool) -> float: ...
    def predict_learn(
        self, step: bool, low: float, high: float, score: float, s: float, w: float, t: float = ...
    ) -> float: ...
    def predict_learn_many(
        self,
        scores: Vector,
        s: Vector,
        w: Vector,
        step: bool,
        out: Vector,
        times: Vector | None = None,
    ) -> None: ...
    def bracket_many(self, scores: Vector, step: bool, out: Vector) -> None: ...
    def what_if(self, score: float) -> tuple[float, float]: ...
    def samples(self) -> tuple[Vector, Vector, Counts, float, int]: ...
    def begin(self, scores: Vector, sums: Vector, counts: Counts, queue: Vector) -> bool: ...
    def absorb(
        self, scores: Vector, sums: Vector, counts: Counts, growth: float, n_merged: int
    ) -> bool: ...
    def walk(
        self, anchored: bool, with_slots: bool = False
    ) -> tuple[Vector, tuple[float, float], float, int, Any]: ...
    def restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bool: ...
    def read(
        self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]], bounds: tuple[float, ...]
    ) -> None: ...

def check_all_sums(w: Vector, s: Vector, bounds: tuple[float, ...]) -> None: ...

class IsotonicExpert(Expert):
    def __init__(self, regression: IsotonicRegression) -> None: ...
