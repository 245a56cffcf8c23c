"""The one way kernels are compiled.

`kernel(signature)` compiles at import, for exactly one signature, so that an int arriving where a
float was never recompiles in mid-stream. Machine code is cached beside the package (or in numba's
user cache where that is read-only). numba takes a cached kernel for current as long as *its own*
file is unchanged, although it inlines functions of other files; here a cached kernel is current
only while its file and every file of this folder that it imports, however remotely, are unchanged.

`helper` marks a function that only kernels call: typed by its caller, never cached on its own.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

READ = "Array(float64, 1, 'C', True)"
"""The type of a vector that is only read, which admits writable ones too."""

P = ParamSpec("P")
R = TypeVar("R")

# "numpy" division semantics: 0/0 is NaN instead of a raised ZeroDivisionError, and no check a loop
# would pay for. `nogil` lets readers run while another thread learns.
_POLICY: dict[str, Any] = {"error_model": "numpy", "nogil": True}


@cache
def source_stamp(module: str) -> str:
    """Return a digest of the sources that a kernel of ``module`` in this folder is made from."""
    reached, ahead = {"_compile"}, [module]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead.extend(_imported(_source(name)))
    digest = blake2b(digest_size=16)
    for name in sorted(reached):
        digest.update(_source(name))
    return digest.hexdigest()


@cache
def _source(name: str) -> bytes:
    return (Path(__file__).parent / f"{name}.py").read_bytes()


def _imported(source: bytes) -> Iterator[str]:
    """Yield the modules of this folder that a source imports."""
    folder = __name__.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == folder:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{folder}."):
            yield str(node.module).rpartition(".")[2]


def kernel(signature: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile a function for ``signature`` now, or load it from the cache."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        dispatcher: Any = numba.njit(cache=True, **_POLICY)(function)
        if hasattr(dispatcher, "_cache"):  # absent when numba's JIT is switched off
            module = function.__module__.rpartition(".")[2]
            dispatcher._cache._cache_file._source_stamp = source_stamp(module)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return cast("Callable[P, R]", dispatcher)

    return decorate


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function into each kernel that calls it."""
    return cast("Callable[P, R]", numba.njit(**_POLICY)(function))
