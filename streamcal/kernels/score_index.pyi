from typing import Any

from numpy.typing import NDArray

SLOTS: int
DELTA: int
GAMMA: int
INNER: int
LARGEST_GROWTH: float

class ScoreIndex:
    n_samples: int
    n_scores: int
    growth: float
    def learn(self, score: float, label: float, w: float) -> bool: ...
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...
    def restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any: ...
    def check(self) -> None: ...
