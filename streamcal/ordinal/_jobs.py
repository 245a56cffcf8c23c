"""Jobs over boundaries and blocks of samples, in this process or in several.

A job takes a range of boundaries and a block of samples and returns a *summary* of three rows: for
each boundary the sum of its differences, the least prefix sum, and the end of that prefix.
Summaries of neighbouring blocks combine associatively (`combine`); those of different boundaries
are independent. So jobs can run anywhere and in any order: in this process, in processes of
`multiprocess`, which read labels and weights from shared memory, or in a pool of the caller, which
gets each block once.

Each call owns what it uses::

    spare processes   a b c          the call takes a and b, or starts new ones
    this call         a b + memory   no other call uses these, in any thread
    at its end        memory is released; a and b are spare again, or ended after an exception

If a process dies, it is replaced and its job repeated, three times at most. A background process
can't start processes, so jobs run in threads there; the kernels release the interpreter's lock.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._processes import Pool, Worker, run_in, size_of

Summary = NDArray[np.float64]
"""Sums, least prefix sums, and cuts, shape (3, n_boundaries)."""

LEAST_CELLS = 1_000_000_000
"""Samples times boundaries from which on processes are used; below, one process is faster."""

_ATTEMPTS = 3
_POLL_SECONDS = 2e-4
_LANES = 4  # boundaries that the kernel takes at once


def sum_prefixes(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    first: int = 0,
    stop: int | None = None,
) -> Summary:
    """Summarise a block of samples for some boundaries.

    Parameters
    ----------
    labels : ndarray of uint16, shape (n_samples,)
        Labels from 0, in score order.
    w : ndarray of shape (n_samples,) or (0,)
        Weights, negative where the next sample has the same score; empty for ones and no ties.
    differences : ndarray of shape (n_labels, n_boundaries)
        ``loss(k, y) - loss(k + 1, y)`` for label y and boundary k.
    first, stop : int
        The block.

    Returns
    -------
    ndarray of shape (3, n_boundaries)
        Sums, least sums of the prefixes that end with a sample of the block, and their first ends.

    Examples
    --------
    >>> differences = np.array([[-1.0], [1.0]])
    >>> sum_prefixes(np.array([0, 0, 1, 0], np.uint16), np.empty(0), differences)
    array([[-2.],
           [-2.],
           [ 2.]])
    """
    from streamcal.kernels import thresholds as kernels

    out = np.empty((3, differences.shape[1]))
    kernels.sum_prefixes(labels, w, first, len(labels) if stop is None else stop, differences, out)
    return out


def combine(left: Summary, right: Summary) -> Summary:
    """Combine the summaries of two neighbouring blocks; associative.

    Examples
    --------
    >>> left, right = np.array([[-2.0], [-2.0], [2.0]]), np.array([[-1.0], [-1.0], [3.0]])
    >>> combine(left, right)
    array([[-3.],
           [-3.],
           [ 3.]])
    """
    later = left[0] + right[1]
    better = later < left[1]
    return np.stack(
        [left[0] + right[0], np.where(better, later, left[1]), np.where(better, right[2], left[2])]
    )


class JobOptions(NamedTuple):
    """Where jobs run, and how many samples each takes (None: a default)."""

    n_jobs: int = 1
    block_size: int | None = None
    pool: Pool | None = None

    @property
    def in_process(self) -> bool:
        """Whether all jobs run in this process."""
        return self.n_jobs == 1 and self.pool is None

    def for_size(self, n_cells: int) -> "JobOptions":
        """Return these options without processes, if they would take longer than one."""
        return self if n_cells >= LEAST_CELLS else self._replace(n_jobs=1)


def solve(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    options: JobOptions = JobOptions(),  # noqa: B008  (a tuple)
) -> NDArray[np.int64]:
    """Return the best cut of each boundary by itself, by jobs over boundaries and blocks."""
    n_jobs, block_size, pool = options
    if pool is not None and block_size is None:
        block_size = -(-len(labels) // size_of(pool))
    n, n_boundaries = len(labels), differences.shape[1]
    blocks = [(first, min(n, first + (block_size or n))) for first in range(0, n, block_size or n)]
    if pool is not None:
        pieces = [(labels[i:j], w[i:j] if len(w) else w, differences) for i, j in blocks]
        found = run_in(pool, _summarise_piece, pieces)
        # Cuts are counted from the start of a piece.
        parts = [[s + np.array([[0], [0], [i]]) for s, (i, _) in zip(found, blocks, strict=True)]]
    elif n_jobs == 1:
        parts = [[sum_prefixes(labels, w, differences, *samples) for samples in blocks]]
    else:
        step = -(-n_boundaries // (_LANES * n_jobs)) * _LANES
        ranges = [(k, min(n_boundaries, k + step)) for k in range(0, n_boundaries, step)]
        tasks = [(*boundaries, *samples) for boundaries in ranges for samples in blocks]
        done = _run_tasks(labels, w, differences, tasks, n_jobs)
        parts = [done[i : i + len(blocks)] for i in range(0, len(done), len(blocks))]
    summaries = []
    for part in parts:
        whole = part[0]
        for summary in part[1:]:
            whole = combine(whole, summary)
        summaries.append(whole)
    _, least, cuts = np.concatenate(summaries, axis=1)
    return np.where(least < 0.0, cuts, 0).astype(np.int64)


def _summarise_piece(
    piece: tuple[NDArray[np.uint16], NDArray[np.float64], NDArray[np.float64]],
) -> Summary:
    """Run a job in a pool of the caller."""
    return sum_prefixes(*piece)


# Processes ----------------------------------------------------------------------------------------

Task = tuple[int, int, int, int]
"""A range of boundaries and a range of samples."""


def _run_tasks(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    tasks: list[Task],
    n_jobs: int,
) -> list[Summary]:
    """Return the summaries of tasks, in order."""
    import multiprocess

    if multiprocess.current_process().daemon:

        def work(task: Task) -> Summary:
            low, high, first, stop = task
            part = np.ascontiguousarray(differences[:, low:high])
            return sum_prefixes(labels, w, part, first, stop)

        with ThreadPoolExecutor(n_jobs) as threads:
            return list(threads.map(work, tasks))
    # Signal handlers run in the main thread only. In a thread of its own, memory and processes are
    # made and released whole, whatever a handler raises in a caller that is the main thread.
    stopped = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(
                _run_in_processes, labels, w, differences, tasks, n_jobs, stopped
            ).result()
        finally:
            stopped.set()


def _run_in_processes(
    labels: NDArray[np.uint16],
    w: NDArray[np.float64],
    differences: NDArray[np.float64],
    tasks: list[Task],
    n_jobs: int,
    stopped: threading.Event,
) -> list[Summary]:
    """Return the summaries of tasks, in order; none if the caller has stopped waiting."""
    with _memory_with(labels, w, differences) as (name, layout):
        workers = _take_workers(min(n_jobs, len(tasks)))
        try:
            results = _run_in_workers(workers, name, layout, tasks, stopped)
        except BaseException:
            # Its workers may be busy, or hold an answer that nobody has fetched.
            for worker in workers:
                worker.close()
            raise
    for worker in workers:
        if len(_spare) < n_jobs:
            _spare.append(worker)
        else:
            worker.close()
    return results


_spare: list[Worker] = []  # processes for the next calls; each call takes out those that it uses


def _take_workers(n: int) -> list[Worker]:
    """Return workers that no other call uses, spare ones first."""
    workers: list[Worker] = []
    while len(workers) < n:
        try:
            workers.append(_spare.pop())
        except IndexError:
            workers.append(Worker(_summarise_shared))
    return workers


def _run_in_workers(
    workers: list[Worker], name: str, layout: "Layout", tasks: list[Task], stopped: threading.Event
) -> list[Summary]:
    """Return the summaries of tasks, in order; the arrays are in the memory of this name."""
    results: list[Any] = [None] * len(tasks)
    waiting = deque((i, 1) for i in range(len(tasks)))
    running: dict[int, tuple[int, int]] = {}
    while waiting or running:
        if stopped.is_set():
            raise CancelledError
        moved = False
        for at, worker in enumerate(workers):
            if at in running:
                i, attempt = running[at]
                results[i] = worker.poll()
                if results[i] is None:
                    if worker.busy:
                        continue
                    if attempt == _ATTEMPTS:
                        raise RuntimeError(
                            f"the process of job {tasks[i]} has died {attempt} times"
                        )
                    waiting.appendleft((i, attempt + 1))
                del running[at]
                moved = True
            if waiting and worker.submit(name, layout, tasks[waiting[0][0]]):
                running[at] = waiting.popleft()
                moved = True
        if not moved:
            time.sleep(_POLL_SECONDS)
    return results


# Shared memory ------------------------------------------------------------------------------------

Layout = tuple[int, int, int, int]
"""Number of labels, number of weights, and the shape of the differences."""


def _array_views(
    memory: Any, layout: Layout
) -> tuple[NDArray[np.uint16], NDArray[np.float64], NDArray[np.float64]]:
    """Return the arrays in shared memory; floats come first for alignment."""
    n, n_weights, rows, columns = layout
    w: NDArray[np.float64] = np.ndarray((n_weights,), np.float64, memory.buf)
    differences: NDArray[np.float64] = np.ndarray((rows, columns), np.float64, memory.buf, w.nbytes)
    labels: NDArray[np.uint16] = np.ndarray(
        (n,), np.uint16, memory.buf, w.nbytes + differences.nbytes
    )
    return labels, w, differences


@contextmanager
def _memory_with(
    labels: NDArray[np.uint16], w: NDArray[np.float64], differences: NDArray[np.float64]
) -> Iterator[tuple[str, Layout]]:
    """Hold a copy of the arrays in shared memory; give its name and layout."""
    from multiprocess.shared_memory import SharedMemory

    parts = [np.ascontiguousarray(part).reshape(-1) for part in (w, differences, labels)]
    owner = os.getpid()
    memory = SharedMemory(create=True, size=sum(part.nbytes for part in parts))
    try:
        begin = 0
        for part in parts:  # without views of the memory, which would keep it open
            memory.buf[begin : begin + part.nbytes] = part.view(np.uint8).data
            begin += part.nbytes
        yield memory.name, (len(labels), len(w), *differences.shape)
    finally:
        memory.close()
        if os.getpid() == owner:  # a forked process leaves it to its parent
            memory.unlink()


_attached_memory: dict[str, Any] = {}  # in a worker: the memory used last


def _summarise_shared(name: str, layout: Layout, task: Task) -> Summary:
    """Run a job in a worker: summarise the arrays in shared memory."""
    if name not in _attached_memory:
        from multiprocess.shared_memory import SharedMemory

        for memory in _attached_memory.values():
            memory.close()
        _attached_memory.clear()
        # This registers the memory a second time in the resource tracker, which workers share with
        # their owner; that has no effect.
        _attached_memory[name] = SharedMemory(name=name)
    labels, w, differences = _array_views(_attached_memory[name], layout)
    low, high, first, stop = task
    return sum_prefixes(labels, w, np.ascontiguousarray(differences[:, low:high]), first, stop)
