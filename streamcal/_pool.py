"""Pools of processes that a caller provides.

A pool is any object with ``map(function, tasks)`` that returns results in order:
`multiprocess.Pool`, ``ray.util.multiprocessing.Pool``, an executor of `concurrent.futures`, and so
Dask's ``Client.get_executor()``. Functions and tasks are pickled; functions are those of modules.
"""

import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Pool(Protocol):
    """An object that runs jobs."""

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], /) -> Iterable[Any]:
        """Return the results of tasks, in order."""


def check_pool(pool: Any) -> None:
    """Raise ``TypeError`` unless ``pool`` has a ``map`` or is None, which means this process.

    Examples
    --------
    >>> check_pool(2)
    Traceback (most recent call last):
    ...
    TypeError: `pool` must have a `map`, as multiprocess.Pool has, or be None, got 2
    """
    if pool is not None and not callable(getattr(pool, "map", None)):
        raise TypeError(
            f"`pool` must have a `map`, as multiprocess.Pool has, or be None, got {pool!r}"
        )


def size_of(pool: Pool | None) -> int:
    """Return how many jobs a pool runs at a time; if unknown, the number of cores here."""
    if pool is None:
        return 1
    # Private attributes of `multiprocess.Pool`, executors and Ray's pool; none has a public one.
    for name in ("_processes", "_max_workers", "_actor_pool"):
        size = getattr(pool, name, None)
        size = len(size) if isinstance(size, list) else size
        if isinstance(size, int) and size > 0:
            return size
    return os.cpu_count() or 1


def run_in(
    pool: Pool | None, function: Callable[[Any], Result], tasks: Iterable[Any]
) -> list[Result]:
    """Return the results of tasks, in order.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     run_in(pool, abs, [-1, 2]), run_in(None, abs, [-3])
    ([1, 2], [3])
    """
    return list(map(function, tasks) if pool is None else pool.map(function, tasks))
