import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

def fractions(
    p: Vector, spec: Vector, history: Vector, sums: Vector, least: float
) -> Vector | None: ...
def moments(
    p: Vector,
    sums: Vector,
    power: float,
    least: float,
    carried: float,
    all_carried: float,
    degree: int,
) -> Vector: ...
