import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_INTERVALS: int
LOWEST: float
WIDTH: float
HALF_LIFE: float
N_PRIOR: float

def place_of(confidence: float) -> float: ...
def count(counts: Array, confidence: float, seen: bool, label: bool | None) -> Array: ...
def lowest_place(counts: Array, share: float) -> float: ...
