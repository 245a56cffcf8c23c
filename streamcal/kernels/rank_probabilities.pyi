import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

def class_probabilities(above: Array, n_samples: float, out: Array) -> None: ...
