from typing import Any

import numpy as np
from numpy.typing import NDArray

SLOTS: int
DELTA: int
GAMMA: int
INNER: int
LARGEST_GROWTH: float
MOST_WEIGHT: float

def check_index(
    scores: NDArray[np.float64],
    counts: NDArray[np.int64],
    shape: NDArray[np.int64],
    keys: NDArray[np.float64],
) -> None: ...
def has_left(t: float, now: float, window: float) -> bool: ...
def check_held_times(times: NDArray[np.float64], n: int, now: float, window: float) -> None: ...
def check_held(
    queue: NDArray[np.float64], scores: NDArray[np.float64], counts: NDArray[np.int64]
) -> None: ...

class ScoreIndex:
    n_samples: int
    n_scores: int
    growth: float
    now: float
    def learn(self, score: float, label: float, w: float, t: float = ...) -> bool: ...
    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...
    def restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any: ...
    def check(self) -> None: ...
