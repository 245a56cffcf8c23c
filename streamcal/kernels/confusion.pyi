from typing import Final

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

KIND: Final = 0
ZERO: Final = 1
NUMERATOR: Final = 2
DENOMINATOR: Final = 6
SPEC: Final = 10

LONGEST_SUM: Final = 256

FRACTION: Final = 0
AM: Final = 1
GMEAN: Final = 2
HMEAN: Final = 3
QMEAN: Final = 4
GTPPR: Final = 5
MCC: Final = 6
KAPPA: Final = 7
SEC: Final = 8

def utilities(spec: Vector, tables: Vector) -> Vector: ...
def single(spec: Vector, history: Vector, p: float) -> tuple[float, float]: ...
def means_over_labels_1(p: Vector, spec: Vector, history: Vector) -> Vector: ...
