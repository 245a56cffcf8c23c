"""Peers that numba compiles; without numba they are skipped.

No extra of ours names it, for it brings a compiler of 200 MB: ``pip install numba``.
"""

from typing import Any

try:
    import numba
except ImportError:
    numba = None


def compiled(function: Any) -> Any:
    """Return a function compiled, None without numba."""
    return numba and numba.njit(cache=True)(function)


def skip_without_numba(*_: Any) -> None:
    """Skip the benchmark whose setup this is, or that calls it in its setup."""
    if numba is None:
        raise NotImplementedError("numba is not installed")
