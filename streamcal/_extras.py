"""Errors that name the extra of the installation which a feature needs; JAX, or such an error."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    from jax import numpy as jnp

__all__ = ["check_jax", "jax", "jnp", "missing"]


def missing(what: str, needs: str, extra: str) -> ImportError:
    """Return the error for a package that is not installed.

    Examples
    --------
    >>> raise missing("a picture", "matplotlib", "plot")
    Traceback (most recent call last):
    ImportError: a picture needs matplotlib: pip install '.[plot]' in the checkout
    """
    return ImportError(f"{what} needs {needs}: pip install '.[{extra}]' in the checkout")


def check_jax(what: str) -> None:
    """Raise an ImportError unless JAX is installed."""
    if find_spec("jax") is None:
        raise missing(what, "JAX", "jax")


if not TYPE_CHECKING:  # a checker would take any name for defined

    def __getattr__(name: str) -> Any:
        """Import JAX where a module says ``from streamcal._extras import jax, jnp``."""
        if name not in ("jax", "jnp"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        check_jax("the derivative of a loss, or a layer of a network,")
        globals()[name] = module = import_module("jax" if name == "jax" else "jax.numpy")
        return module
