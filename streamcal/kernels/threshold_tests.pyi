from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.uint8]

STAKES: tuple[float, ...]

class ThresholdTests:
    n_settled: int
    n_places: int
    n_unconfirmed: int
    n_ahead: int
    n_used: int
    threshold: float

    def __init__(
        self,
        thresholds: Array,
        n_stricter: int,
        share: float,
        floor: float,
        of_all: float,
        of_calibrated: float,
        most_unconfirmed: float,
        most_ahead: int,
        most_places: int,
    ) -> None: ...
    def make_room(self) -> None: ...
    def serve(self, confidence: float, answered: bool) -> int | None: ...
    def ask(self, confidence: float, propensity: float) -> int: ...
    def learn(
        self, place: int | None, confidence: float, answered: bool, wrong: bool, propensity: float
    ) -> None: ...
    def state(self) -> tuple[list[int], Array, Array, Flags, Flags]: ...
    def restore(
        self, numbers: list[int], wealth: Array, gains: Array, firsts: Flags, has_come: Flags
    ) -> None: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
