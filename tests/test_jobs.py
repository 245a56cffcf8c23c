"""Jobs of a solve under threads and exceptions; forks are in `test_processes`."""

import operator
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamcal import _processes
from streamcal._processes import Worker
from streamcal.ordinal import _jobs, optimal_thresholds
from tests.interrupts import InterruptionError, interrupt, points_of


@pytest.fixture(scope="module")
def data() -> Any:
    rng = np.random.default_rng(3)
    return [(rng.normal(size=3_000), rng.integers(1, 7, 3_000)) for _ in range(4)]


@pytest.fixture(autouse=True)
def _least_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jobs, "LEAST_CELLS", 0)


def solve(samples: Any) -> float:
    return optimal_thresholds(*samples, method="io", n_jobs=2).risk


def test_threads_do_not_share_memory_or_processes(data: Any) -> None:
    expected = [optimal_thresholds(*each, method="divide").risk for each in data]
    found: dict[int, list[float]] = {}

    def work(i: int) -> None:
        found[i] = [solve(data[i]) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: [risk] * 3 for i, risk in enumerate(expected)}
    assert len(_jobs._spare) <= 2


@pytest.mark.parametrize("place", ["sleep", "poll", "submit"])
def test_the_call_after_an_exception_is_right(
    data: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from multiprocess.shared_memory import SharedMemory

    expected = [optimal_thresholds(*each, method="divide").risk for each in data]
    assert solve(data[0]) == expected[0]

    def interrupted(*_: Any) -> Any:
        raise TimeoutError("too late")

    names, run = [], _jobs._run_in_workers

    def note_and_run(workers: Any, name: str, *rest: Any) -> Any:
        names.append(name)
        return run(workers, name, *rest)

    monkeypatch.setattr(_jobs, "_run_in_workers", note_and_run)
    with monkeypatch.context() as patch:
        if place == "sleep":
            patch.setattr(Worker, "poll", lambda worker: None)  # no job is done before the sleep
            # Not `time.sleep`, which threads of other packages call, too.
            patch.setattr(_jobs, "time", SimpleNamespace(sleep=interrupted))
        else:
            patch.setattr(Worker, place, interrupted)
        with pytest.raises(TimeoutError, match="too late"):
            solve(data[1])
    assert [solve(each) for each in data[:2]] == expected[:2]
    for name in names:
        with pytest.raises(FileNotFoundError):
            SharedMemory(name=name)


class _Flag(list[int]):
    """The state of a worker; a thread can wait until it is idle."""

    def __init__(self, state: int) -> None:
        super().__init__([state])
        self.is_idle = threading.Event()

    def __setitem__(self, at: Any, state: Any) -> None:
        super().__setitem__(at, state)
        if state == _processes._IDLE:
            self.is_idle.set()


class _Inside:
    """A running worker that is a thread, so that each interruption of its owner is quick."""

    def __init__(self, function: Any) -> None:
        import multiprocess

        self.flag = _Flag(_processes._STARTING)
        self.pipe, other = multiprocess.Pipe()
        self.has_job = False
        self.process: Any = None
        self.thread = threading.Thread(
            target=_processes._run_jobs, args=(function, other, self.flag), daemon=True
        )
        self.thread.start()
        self.flag.is_idle.wait()

    def alive(self) -> bool:
        return self.thread.is_alive()

    def stop(self) -> None:
        self.pipe.close()


def test_an_interrupted_worker_gives_no_answer_of_another_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_processes, "_Running", _Inside)

    def ask(worker: Worker, a: float) -> Any:
        while not worker.submit(a, 2.0):
            pass
        while not worker.done:
            pass
        return worker.poll()

    def submit_and_poll(worker: Worker) -> None:
        worker.submit(8.0, 2.0)
        while worker.busy and not worker.done:
            pass
        worker.poll()

    def started() -> Worker:
        worker = Worker(operator.truediv)
        worker.start()
        return worker

    first = started()
    n_points, _ = points_of(lambda: submit_and_poll(first))
    for k in range(min(n_points, 200)):
        worker = started()
        error = InterruptionError()
        assert interrupt(lambda worker=worker: submit_and_poll(worker), k, error) in (error, None)
        if worker.busy:  # its answer is that of the last job
            while not worker.done:
                pass
            assert worker.poll() == 4.0
        assert ask(worker, 10.0) == 5.0
        worker.close()


def test_an_interrupted_solve_leaves_neither_memory_nor_processes(
    data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from multiprocess import shared_memory

    made: list[_Inside] = []
    names: set[str] = set()

    class NotedWorker(_Inside):
        def __init__(self, function: Any) -> None:
            super().__init__(function)
            made.append(self)

    class NotedMemory(shared_memory.SharedMemory):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            names.add(self.name)

    def summarise(name: str, layout: Any, task: Any) -> Any:
        memory = shared_memory.SharedMemory(name=name)
        labels, w, differences = [part.copy() for part in _jobs._array_views(memory, layout)]
        memory.close()
        low, high, first, stop = task
        part = np.ascontiguousarray(differences[:, low:high])
        return _jobs.sum_prefixes(labels, w, part, first, stop)

    monkeypatch.setattr(_processes, "_Running", NotedWorker)
    monkeypatch.setattr(_jobs, "_summarise_shared", summarise)  # in a process it stays attached
    monkeypatch.setattr(_jobs, "_spare", [])
    expected = optimal_thresholds(*data[0], method="divide").risk
    with monkeypatch.context() as patch:
        patch.setattr(shared_memory, "SharedMemory", NotedMemory)
        n_points, _ = points_of(lambda: solve(data[0]))
        for k in range(min(n_points, 400)):
            error = InterruptionError()
            assert interrupt(lambda: solve(data[0]), k, error) in (error, None)
            spare: list[Any] = [worker._running for worker in _jobs._spare]
            for running in made:
                if running not in spare:
                    running.thread.join(10.0)
                    assert not running.thread.is_alive()
            made = [running for running in made if running in spare]
            assert solve(data[0]) == expected
    assert names
    for name in names:
        with pytest.raises(FileNotFoundError):
            shared_memory.SharedMemory(name=name)
