"""Errors that name the extra of the installation which a feature needs."""

from importlib.util import find_spec


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
