"""The one way kernels are compiled.

`kernel(signature)` compiles at import, for exactly one signature, so that an int arriving where a
float was never recompiles in mid-stream. Machine code is cached beside the package (or in numba's
user cache where that is read-only). numba takes a cached kernel for current as long as *its own*
file is unchanged, although it inlines functions of other files; here a cached kernel is current
only while every file of this folder is unchanged.

`helper` marks a function that only kernels call: typed by its caller, never cached on its own.
"""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

# "numpy" division semantics: 0/0 is NaN instead of a raised ZeroDivisionError, and no check a loop
# would pay for. `nogil` lets readers run while another thread learns.
_POLICY: dict[str, Any] = {"error_model": "numpy", "nogil": True}


def _source_stamp() -> str:
    """Return a digest of this folder's sources: what a cached kernel was compiled from."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_STAMP = _source_stamp()


def kernel(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for ``signature`` now, or load it from the cache."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher: Any = numba.njit(cache=True, **_POLICY)(function)
        if hasattr(dispatcher, "_cache"):  # absent when numba's JIT is switched off
            dispatcher._cache._cache_file._source_stamp = _STAMP
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return cast("Callable[P, R]", dispatcher)

    return decorate


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function into each kernel that calls it."""
    return cast("Callable[P, R]", numba.njit(**_POLICY)(function))
