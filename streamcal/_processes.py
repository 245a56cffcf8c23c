"""Other processes: one that computes in the background, and pools that a caller provides.

Solving takes milliseconds to seconds, learning a sample microseconds. So a `Worker` solves in the
background: its owner submits a job, continues, polls for the result from time to time, and takes it
over when it is complete.

The process is *spawned*, by `multiprocess`, since a process forked after JAX has run hangs. It
starts with the first job, accepts the next job when it is idle, and is replaced if it has died. One
byte of shared memory holds its status, so polling takes 0.1 µs and no system call.

Ctrl-C in a terminal reaches the process as well: it ends, its job is lost, and the next job starts
another process.

A script that uses a worker must keep its work under ``if __name__ == "__main__":``, because a
spawned process imports the script again.

A `Pool` is any object with ``map(function, tasks)`` that returns results in order:
`multiprocess.Pool`, ``ray.util.multiprocessing.Pool``, an executor of `concurrent.futures`, and so
Dask's ``Client.get_executor()``. Functions and tasks are pickled; functions are those of modules.
"""

import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")

_STARTING, _IDLE, _BUSY, _DONE = range(4)
_started: "weakref.WeakSet[Worker]" = weakref.WeakSet()
_children: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    """In a forked process: drop the processes of the parent, whose results are not for this one."""
    for worker in list(_started):
        worker._running = None
    # When a process exits, `multiprocess` ends all that it takes for its children.
    module = sys.modules.get("multiprocess.process")
    if module is not None:
        module._children.difference_update(list(_children))
    # A thread of the parent may have held the lock with which it names shared memory.
    module = sys.modules.get("multiprocess.resource_tracker")
    if module is not None and not module._resource_tracker._lock._is_owned():
        module._resource_tracker._lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Worker:
    """A process that runs one function.

    Parameters
    ----------
    function : callable
        The function; it is sent to the process once, by dill.

    Notes
    -----
    A copy, an unpickled worker, or a worker in a forked process has no process until its first job.

    Examples
    --------
    >>> worker = Worker(sum)
    >>> worker.poll() is None
    True
    >>> worker.close()
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self._running: _Running | None = None
        self._failed_starts = 0  # in a row, processes that ended before they were ready

    @property
    def busy(self) -> bool:
        """Whether a job is running, or its result has not been fetched yet."""
        return self._running is not None and self._running.has_job and self._running.alive()

    @property
    def done(self) -> bool:
        """Whether a result can be fetched."""
        return self._running is not None and self._running.flag[0] == _DONE

    @property
    def pid(self) -> int | None:
        """The id of the process, None without one."""
        return None if self._running is None else self._running.process.pid

    def start(self) -> None:
        """Start the process, or replace it if it has died; returns at once.

        Raises
        ------
        RuntimeError
            If two processes in a row have ended before they were ready.
        """
        if self._running is not None and not self._running.alive():
            self._failed_starts += self._running.flag[0] == _STARTING
            self.close()
        if self._failed_starts > 1:
            self._failed_starts = 0
            raise RuntimeError(
                "the background process could not be started, see its error above; a script must be"
                " a file with its work under `if __name__ == '__main__':`, because the process"
                " imports it"
            )
        if self._running is None:
            _started.add(self)
            self._running = _Running(self.function)

    def ready(self) -> bool:
        """Return whether the process is ready for a job; start it if there is none."""
        running = self._running
        if running is None or running.flag[0] != _IDLE:
            self.start()
            return False
        return not running.has_job

    def submit(self, *arguments: Any) -> bool:
        """Submit a job; return False if the process is not ready."""
        running = self._running
        if not self.ready() or running is None:
            return False
        self._failed_starts = 0
        try:
            running.flag[0] = _BUSY
            try:
                running.pipe.send(arguments)
            except OSError as error:
                if not _is_end(error):
                    raise
                self.close()
                return False
            running.has_job = True
        except BaseException:  # a part of the job may be in the pipe
            self.close()
            raise
        return True

    def poll(self) -> Any | None:
        """Return the result of the job if it is ready, else None; each result is returned once.

        Raises
        ------
        Exception
            What the function raised, if it did.
        """
        outcome = self.outcome()
        if outcome is None:
            return None
        result, error = outcome
        if error is not None:
            raise error
        return result

    def outcome(self) -> tuple[Any, Exception | None] | None:
        """Return the result of the job and None, or None and what the function raised.

        None if the job is not ready; each outcome is returned once.
        """
        running = self._running
        if running is None or not self.done:
            return None
        from multiprocess.reduction import ForkingPickler

        try:
            try:
                data = running.pipe.recv_bytes()
            except (EOFError, OSError) as error:
                if not _is_end(error):
                    raise
                self.close()
                return None
            running.has_job = False
            running.flag[0] = _IDLE  # also after an error of the job: the pipe is empty
        except BaseException:  # the next job must not get this answer
            self.close()
            raise
        found: tuple[Any, Exception | None] = ForkingPickler.loads(data)
        return found

    def close(self) -> None:
        """End the process and drop its job; the next job starts a new process."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "_running": None, "_failed_starts": 0}


class _Running:
    """A process, its pipe and its status flag."""

    def __init__(self, function: Callable[..., Any]):
        import multiprocess

        context = multiprocess.get_context("spawn")
        self.flag = context.RawArray("b", [_STARTING])
        self.pipe, child_pipe = context.Pipe()
        self.has_job = False
        self.process = context.Process(
            target=_run_jobs, args=(function, child_pipe, self.flag), daemon=True
        )
        _children.add(self.process)
        self.process.start()
        child_pipe.close()
        self.stop = weakref.finalize(self, _end_process, self.process, self.pipe, os.getpid())

    def alive(self) -> bool:
        return bool(self.process.is_alive())


def _is_end(error: Exception) -> bool:
    """Return whether this is how a pipe says that the process has died.

    A signal handler may raise another OSError, such as TimeoutError.
    """
    return isinstance(error, EOFError | ConnectionError) or type(error) is OSError


def _end_process(process: Any, pipe: Any, owner: int) -> None:
    pipe.close()
    if os.getpid() != owner:  # in a forked process, which must not end the worker of its parent
        return
    process.terminate()
    process.join(1.0)
    if process.exitcode is None:
        process.kill()
        process.join()


def _run_jobs(function: Callable[..., Any], pipe: Any, flag: Any) -> None:
    """Run jobs until the owner closes the pipe."""
    from multiprocess.reduction import ForkingPickler

    flag[0] = _IDLE
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            arguments = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = (function(*arguments), None)
                data = ForkingPickler.dumps(answer)
            except Exception as error:  # the owner raises it
                data = _pickle_error(ForkingPickler, error)
            flag[0] = _DONE
            pipe.send_bytes(data)


def _pickle_error(pickler: Any, error: Exception) -> Any:
    """Return an error as bytes; if it can't be pickled, a `RuntimeError` with its text."""
    try:
        data = pickler.dumps((None, error))
        pickler.loads(data)
    except Exception:
        data = pickler.dumps((None, RuntimeError(repr(error))))
    return data


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
