import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Law = tuple[int, Vector]
Laws = tuple[int, Vector, NDArray[np.int64]]

def extend(law: Law, p: Vector, tau: float) -> tuple[Law, float]: ...
def extend_rows(law: Law, p: Vector, tau: float) -> tuple[Laws, float]: ...
def expectation(spec: Vector, history: Vector, n: int, k: int, C: Law, D: Law) -> float: ...
def expectations(
    spec: Vector, history: Vector, n: int, first: int, C: Laws, D: Laws, psi: Vector
) -> None: ...
def few(spec: Vector, history: Vector, p: Vector) -> Vector: ...
def expectation_of_rates(
    spec: Vector,
    history: Vector,
    n: int,
    k: int,
    C: Law,
    D: Law,
    slack: float,
    error: float,
) -> float: ...
def linear_expectations(spec: Vector, history: Vector, p: Vector, law: Law) -> Vector: ...
