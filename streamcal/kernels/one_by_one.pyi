from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def positions(keys: Iterable[Any]) -> dict[Any, list[int]] | int: ...

class OneByOne:
    def __init__(
        self,
        scores: NDArray[np.float64],
        y: NDArray[np.float64],
        w: NDArray[np.float64],
        out: NDArray[np.float64],
        seconds: NDArray[np.float64] | None = None,
        kind: str | None = None,
    ) -> None: ...
    def predict_learn(self, call: Callable[..., float], at: list[int]) -> bool: ...
    def predict_learn_live(
        self,
        groups: dict[Any, Any],
        live: dict[Any, Any],
        few: int,
        touch: Callable[[Any], object] | None = None,
    ) -> tuple[list[Any], set[Any]]: ...
