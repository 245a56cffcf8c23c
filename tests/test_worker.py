import copy
import operator
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from streamcal._processes import Worker


def until(condition: Any, timeout: float = 300.0) -> Any:
    """Return the first true result of ``condition``; wait for minutes on a busy machine."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.001)  # the processor is for those that are waited for
    raise AssertionError("it did not happen")


@pytest.fixture
def worker() -> Iterator[Any]:
    worker = Worker(operator.truediv)
    yield worker
    worker.close()


def test_a_job_is_computed_elsewhere(worker: Any) -> None:
    assert worker.poll() is None
    assert not worker.busy
    until(lambda: worker.submit(1.0, 4.0))
    assert worker.busy
    assert not worker.submit(1.0, 2.0)
    assert until(worker.poll) == 0.25
    assert worker.poll() is None
    assert not worker.busy
    assert worker.pid != os.getpid()


def test_an_error_comes_back_once_and_the_process_goes_on(worker: Any) -> None:
    until(lambda: worker.submit(1.0, 0.0))
    with pytest.raises(ZeroDivisionError):
        until(worker.poll)
    assert worker.poll() is None
    until(lambda: worker.submit(1.0, 2.0))
    assert until(worker.poll) == 0.5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_leaves_the_job_to_its_parent(worker: Any) -> None:
    until(lambda: worker.submit(1.0, 4.0))
    until(lambda: worker.done)
    child = os.fork()
    if not child:
        status = 1
        try:
            assert not worker.busy
            assert worker.pid is None
            assert worker.poll() is None
            until(lambda: worker.submit(1.0, 2.0))
            assert until(worker.poll) == 0.5
            worker.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert until(worker.poll) == 0.25


class StubbornError(Exception):
    """An exception that cannot be unpickled."""

    def __init__(self, one: Any, two: Any) -> None:
        super().__init__(f"{one} {two}")


def raise_stubborn() -> None:
    raise StubbornError("not", "this")


def answer_a_generator() -> Any:
    return (i for i in range(3))


@pytest.mark.parametrize(
    ("function", "message"), [(raise_stubborn, "not this"), (answer_a_generator, "generator")]
)
def test_what_cannot_travel_comes_back_as_words(function: Any, message: str) -> None:
    worker = Worker(function)
    for _ in range(2):
        until(worker.submit)
        with pytest.raises((RuntimeError, TypeError), match=message):
            until(worker.poll)
    worker.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill", "Ctrl-C"])
def test_a_dead_process_is_replaced(worker: Any, number: Any) -> None:
    # In the background of a shell without job control, SIGINT is ignored, also by child processes.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        worker.start()
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: worker.submit(1.0, 2.0))
    dead = worker.pid
    os.kill(dead, number)
    until(lambda: not worker.busy)
    until(lambda: worker.submit(3.0, 2.0))
    assert until(worker.poll) == 1.5
    assert worker.pid != dead


def test_copies_start_without_a_process(worker: Any) -> None:
    until(lambda: worker.submit(1.0, 2.0))
    for twin in (copy.deepcopy(worker), pickle.loads(pickle.dumps(worker))):
        assert twin.pid is None
        assert twin.function is operator.truediv
    assert until(worker.poll) == 0.5


def test_closing_ends_the_process_and_may_be_repeated(worker: Any) -> None:
    worker.start()
    process = worker._running.process
    worker.close()
    worker.close()
    assert process.exitcode is not None
    until(lambda: worker.submit(1.0, 8.0))
    assert until(worker.poll) == 0.125


def test_a_lambda_reaches_the_process() -> None:
    worker = Worker(lambda x: 2 * x)
    until(lambda: worker.submit(21))
    assert until(worker.poll) == 42
    worker.close()


def test_a_process_that_cannot_start_is_an_error_and_not_tried_forever() -> None:
    code = (
        "from streamcal._processes import Worker\n"
        "worker = Worker(sum)\n"
        "while not worker.submit([1]): pass\n"
    )
    done = subprocess.run([sys.executable, "-"], input=code, capture_output=True, text=True)
    assert done.returncode == 1
    assert "RuntimeError: the background process could not be started" in done.stderr
    assert done.stderr.count("FileNotFoundError") == 2
