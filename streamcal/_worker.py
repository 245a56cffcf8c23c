"""One spawned process that computes for an owner who never waits.

A periodic solve takes milliseconds to seconds, a sample of a stream microseconds. A `Worker` takes
the solve out of the stream: the owner hands over a job and goes on, looks from time to time whether
a result is there, and swaps it in whole.

The process is *spawned*, by `multiprocess`: a child forked after JAX has run hangs. It starts with
the first job, takes the next one only when it is ready, and is replaced if it has died. One byte of
shared memory says what it is doing, so that looking costs 0.1 µs and no system call.

As with every spawned process, a script that uses one keeps its work under ``if __name__ ==
"__main__":``, because the child imports the script again.
"""

import contextlib
import os
import weakref
from collections.abc import Callable
from typing import Any

_STARTING, _IDLE, _BUSY, _DONE = range(4)


class Worker:
    """A process of its own for one function.

    Parameters
    ----------
    function : callable
        What to compute; it travels to the process once, by dill.

    Notes
    -----
    A copy or an unpickled worker has no process until its first job.

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
        self._stillborn = 0  # processes in a row that ended before they were ready

    @property
    def busy(self) -> bool:
        """Whether a job is under way in a living process, or its result not fetched yet."""
        return self._running is not None and self._running.has_job and self._running.alive()

    @property
    def done(self) -> bool:
        """Whether a result waits to be fetched."""
        return self._running is not None and self._running.flag[0] == _DONE

    @property
    def pid(self) -> int | None:
        """The id of the process, None where there is none."""
        return None if self._running is None else self._running.process.pid

    def start(self) -> None:
        """Start the process, or replace it if it has died; returns at once.

        Raises
        ------
        RuntimeError
            If two processes in a row have ended before they were ready.
        """
        if self._running is not None and not self._running.alive():
            self._stillborn += self._running.flag[0] == _STARTING
            self.close()
        if self._stillborn > 1:
            self._stillborn = 0
            raise RuntimeError(
                "the background process could not be started, and its error stands above; a script"
                " must be a file whose work stands under `if __name__ == '__main__':`, for the"
                " process imports it"
            )
        if self._running is None:
            self._running = _Running(self.function)

    def ready(self) -> bool:
        """Return whether a job would be taken; starts the process where there is none."""
        running = self._running
        if running is None or running.flag[0] != _IDLE:
            self.start()
            return False
        return not running.has_job

    def submit(self, *arguments: Any) -> bool:
        """Hand over a job; return False if the process is not ready for one yet."""
        running = self._running
        if not self.ready() or running is None:
            return False
        running.flag[0] = _BUSY
        self._stillborn = 0
        try:
            running.pipe.send(arguments)
        except OSError:  # it has died since
            self.close()
            return False
        running.has_job = True
        return True

    def poll(self) -> Any | None:
        """Return the result of the job if it is ready, else None; each result comes once.

        Raises
        ------
        Exception
            What the function has raised, if that is how the job ended.
        """
        running = self._running
        if running is None or not self.done:
            return None
        running.has_job = False
        running.flag[0] = _IDLE  # whatever comes of it: the pipe is empty afterwards
        try:
            result, error = running.pipe.recv()
        except (EOFError, OSError):  # it died with the result half-written
            self.close()
            return None
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """End the process and forget its job; the next job starts another."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "_running": None, "_stillborn": 0}


class _Running:
    """The process, its pipe and its flag."""

    def __init__(self, function: Callable[..., Any]):
        import multiprocess

        context = multiprocess.get_context("spawn")
        self.flag = context.RawArray("b", [_STARTING])
        self.pipe, theirs = context.Pipe()
        self.has_job = False
        self.process = context.Process(
            target=_serve, args=(function, theirs, self.flag), daemon=True
        )
        self.process.start()
        theirs.close()
        self.stop = weakref.finalize(self, _stop, self.process, self.pipe, os.getpid())

    def alive(self) -> bool:
        return bool(self.process.is_alive())


def _stop(process: Any, pipe: Any, owner: int) -> None:
    pipe.close()
    if os.getpid() != owner:  # a forked child drops its copy: the process is not its own
        return
    process.terminate()
    process.join(1.0)
    if process.exitcode is None:
        process.kill()
        process.join()


def _serve(function: Callable[..., Any], pipe: Any, flag: Any) -> None:
    """Compute jobs until the owner closes the pipe."""
    from multiprocess.reduction import ForkingPickler

    flag[0] = _IDLE
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            arguments = pipe.recv()
            answer: tuple[Any, Exception | None]
            try:
                answer = (function(*arguments), None)
                data = ForkingPickler.dumps(answer)
            except Exception as error:  # the owner decides what it means
                data = _pickled(ForkingPickler, error)
            flag[0] = _DONE
            pipe.send_bytes(data)


def _pickled(pickler: Any, error: Exception) -> Any:
    """Return an error as bytes; if it cannot travel, its words."""
    try:
        data = pickler.dumps((None, error))
        pickler.loads(data)
    except Exception:
        data = pickler.dumps((None, RuntimeError(repr(error))))
    return data
