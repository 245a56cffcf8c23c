"""Jobs over boundaries and blocks of samples, in this process or in several.

A job takes a range of boundaries and a block of samples and returns a *summary* of three rows: for
each boundary the sum of its differences, the least prefix sum, and the end of that prefix.
Summaries of neighbouring blocks combine associatively (`combine`); those of different boundaries
are independent. So jobs can run anywhere and in any order: in processes of `multiprocess`, which
read labels and weights from shared memory and stay for the next call, or in a pool of the caller,
which gets each block once.

If a process dies, it is replaced and its job repeated, three times at most. A background process
can't start processes, so jobs run in threads there; the kernels release the interpreter's lock.
"""

import atexit
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._pool import Pool, run_in, size_of
from streamcal._worker import Worker

Summary = NDArray[np.float64]
"""Sums, least prefix sums, and cuts, shape (3, n_boundaries)."""

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


# Processes ------------------------------------------------------------------------------------

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
    return _get_jobs(min(n_jobs, len(tasks))).run(labels, w, differences, tasks)


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


class Jobs:
    """Processes with shared memory, which stay between calls.

    Parameters
    ----------
    n_jobs : int
        Number of processes.

    Examples
    --------
    >>> with Jobs(2) as jobs:
    ...     len(jobs.workers)
    2
    """

    def __init__(self, n_jobs: int):
        self.workers = [Worker(_summarise_shared) for _ in range(n_jobs)]
        self.closed = False
        self._memory: Any = None

    def run(
        self,
        labels: NDArray[np.uint16],
        w: NDArray[np.float64],
        differences: NDArray[np.float64],
        tasks: list[Task],
    ) -> list[Summary]:
        """Return the summaries of tasks, in order.

        Raises
        ------
        RuntimeError
            If the pool is closed, or the process of a job has died three times.
        """
        if self.closed:
            raise RuntimeError("`run` needs a pool that is not closed")
        layout = self._share(labels, w, differences)
        results: list[Any] = [None] * len(tasks)
        waiting = deque((i, 1) for i in range(len(tasks)))
        running: dict[int, tuple[int, int]] = {}
        while waiting or running:
            moved = False
            for at, worker in enumerate(self.workers):
                if at in running:
                    i, attempt = running[at]
                    results[i] = worker.poll()
                    if results[i] is None:
                        if worker.busy:
                            continue
                        self._check_attempts(tasks[i], attempt)
                        waiting.appendleft((i, attempt + 1))
                    del running[at]
                    moved = True
                if waiting and worker.submit(self._memory.name, layout, tasks[waiting[0][0]]):
                    running[at] = waiting.popleft()
                    moved = True
            if not moved:
                time.sleep(_POLL_SECONDS)
        return results

    def _share(
        self, labels: NDArray[np.uint16], w: NDArray[np.float64], differences: NDArray[np.float64]
    ) -> Layout:
        """Copy arrays to the shared memory; return where they are."""
        layout = (len(labels), len(w), *differences.shape)
        self._reserve(labels.nbytes + w.nbytes + differences.nbytes)
        views = _array_views(self._memory, layout)
        views[0][...], views[1][...], views[2][...] = labels, w, differences
        return layout

    def _check_attempts(self, task: Task, attempt: int) -> None:
        """Close and raise if a task whose process has died may not be tried again."""
        if attempt == _ATTEMPTS:
            self.close()
            raise RuntimeError(f"the process of job {task} has died {attempt} times")

    def _reserve(self, size: int) -> None:
        """Make sure of so many bytes of shared memory."""
        if self._memory is None or self._memory.size < size:
            from multiprocess.shared_memory import SharedMemory

            self._release()
            self._memory = SharedMemory(create=True, size=size)

    def _release(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory.unlink()
            self._memory = None

    def close(self) -> None:
        """End the processes; `run` raises from now on."""
        self.closed = True
        for worker in self.workers:
            worker.close()
        self._release()

    def __enter__(self) -> "Jobs":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_shared_jobs: dict[str, Jobs] = {}


def _get_jobs(n_jobs: int) -> Jobs:
    """Return the processes of the last call if their number is right, else start new ones."""
    pool = _shared_jobs.get("pool")
    if pool is None or pool.closed or len(pool.workers) != n_jobs:
        close_jobs()
        pool = _shared_jobs["pool"] = Jobs(n_jobs)
    return pool


@atexit.register
def close_jobs() -> None:
    """End the processes that `optimal_thresholds` has kept; the next call starts new ones."""
    pool = _shared_jobs.pop("pool", None)
    if pool is not None:
        pool.close()
