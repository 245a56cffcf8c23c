import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

CHUNK: int

def room_for(n: int) -> int: ...
def padded(rows: Vector | tuple[Vector, ...]) -> Vector: ...
