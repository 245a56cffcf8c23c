"""Losses are written once, for NumPy arrays and for what JAX traces alike."""

import sys
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_arrays(z: ArrayLike, y: ArrayLike) -> tuple[Any, NDArray[np.float64], NDArray[np.float64]]:
    """Return ``numpy`` or ``jax.numpy``, whichever the arguments belong to, and both as arrays.

    JAX is not imported for this: where it has not been, nothing can belong to it.
    """
    jax = sys.modules.get("jax")
    if jax is not None and (isinstance(z, jax.Array) or isinstance(y, jax.Array)):
        return jax.numpy, cast("Any", z), cast("Any", y)
    return np, np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
