"""The array namespace of a loss: losses are written once, for NumPy and JAX."""

import sys
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_arrays(z: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    """Return ``numpy`` or ``jax.numpy``, by the type of the arguments, and both as arrays.

    This does not import JAX: if it is not imported, there are no arrays of JAX.
    """
    jax = sys.modules.get("jax")
    if jax is not None and (isinstance(z, jax.Array) or isinstance(y, jax.Array)):
        return jax.numpy, cast("Any", z), cast("Any", y)
    return np, np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
