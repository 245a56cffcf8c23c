"""Derivatives of losses, by JAX, in float64 for all settings of JAX.

Compiled functions are cached here by loss, not in objects, which could then not be pickled. Sums of
float32 derivatives would lose their sign, so 64 bits are enabled for each call, in this thread
only.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._extras import jax
from streamcal.losses._base import Loss


def derivative(loss: Loss, z: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Return ∂l/∂z(z, y) element by element; at a kink JAX chooses one of the derivatives.

    Parameters
    ----------
    loss : Loss
        A loss written for JAX, as those of this library are.
    z, y : array_like
        Values and labels, which broadcast.

    Returns
    -------
    slopes : ndarray of their common shape

    Raises
    ------
    TypeError
        If JAX cannot trace the loss.

    Examples
    --------
    >>> from streamcal import losses
    >>> derivative(losses.Huber(delta=1.0), [0.5, 4.0], [0.0, 0.0])
    array([0.5, 1. ])
    """
    program = weighted_derivative(loss)
    return _call_padded(lambda z, y: program(z, y, np.ones(len(z))), z, y)


def values(function: Callable[[Any, Any], Any], z: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Return a scalar function of two scalars, element by element; the arguments broadcast."""
    return _call_padded(_vectorised(function), z, y)


@lru_cache(maxsize=256)
def _vectorised(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return jax.jit(jax.vmap(lambda z, y: function(z, y)))


def _call_padded(program: Callable[[Any, Any], Any], z: ArrayLike, y: ArrayLike) -> Any:
    """Call a program of two vectors, padded so that few lengths are compiled."""
    arrays = (np.asarray(x, dtype=np.float64) for x in (z, y))
    columns = np.broadcast_arrays(*arrays)
    shape, size = columns[0].shape, columns[0].size
    if not size:
        return np.empty(shape)
    with jax.enable_x64(True):
        answer = program(*(_pad(x.ravel(), padded(size)) for x in columns))
        return np.array(answer, dtype=np.float64)[:size].reshape(shape)


def padded(size: int) -> int:
    """Return the length of padded vectors of ``size`` samples: a power of two, at least 64."""
    return max(64, 1 << (size - 1).bit_length())


def _pad(x: NDArray[np.float64], room: int) -> NDArray[np.float64]:
    return np.pad(x, (0, room - len(x)), mode="edge")


@lru_cache(maxsize=256)
def weighted_derivative(loss: Loss) -> Callable[..., Any]:
    """Return the compiled w · ∂l/∂z(z, y) of vectors (z, y, w); to be called under ``enable_x64``.

    Raises
    ------
    TypeError
        If JAX cannot trace the loss.
    """
    slope = pointwise(loss)
    with jax.enable_x64(True):
        return jax.jit(lambda z, y, w: w * jax.vmap(slope)(z, y))


def pointwise(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return ∂l/∂z of two scalars, for use inside larger JAX programs."""
    slope = jax.grad(lambda z, y: loss(z, y))
    scalar = jax.ShapeDtypeStruct((), np.float64)
    try:
        with jax.enable_x64(True):
            jax.eval_shape(slope, scalar, scalar)
    except (jax.errors.JAXTypeError, TypeError) as error:
        raise TypeError(
            f"`loss` must be a scalar function of two scalars that JAX can trace, got {loss!r};"
            f" JAX reports: {str(error).splitlines()[0]}"
        ) from error
    return slope
