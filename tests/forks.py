"""Forks while other threads are inside calls: a script, so that a hang or a crash ends one process.

    python -m tests.forks one|many|locks|jobs|memory|needed|held|inside|stores

Without `AnytimeCalibrator`: JAX, which it solves with, hangs in a forked process.
"""

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import numpy as np

from streamcal import (
    BetaCalibrator,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PAVStack,
    PlattCalibrator,
    SegmentCalibrator,
    StreamingThresholds,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VennAbersCalibrator,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from streamcal.durable import Store
from streamcal.kernels.exclusive import Mutex, no_fork
from streamcal.kernels.sqlite import Connection
from streamcal.ordinal import CuSumRank, KernelCuSumRank

N = 2_000  # samples of a batch
N_FORKS = 4
RNG = np.random.default_rng(1)
SCORES, LABELS = RNG.random(N), RNG.integers(0, 2, N).astype(float)
FIELDS = {"a": [f"{i % 7}" for i in range(N)]}
RAW = {"a": 0.2, "b": 0.5, "c": 0.3}


def learn_score(learner: Any, i: int) -> None:
    learner.learn_one(SCORES[i], LABELS[i])


# How to make a learner, to let it learn one sample, and many.
Learner = tuple[Callable[[], Any], Callable[[Any, int], Any], Callable[[Any], Any] | None]
LEARNERS: list[Learner] = [
    *(
        (kind, learn_score, lambda learner: learner.learn_many(SCORES, LABELS))
        for kind in (
            *(BetaCalibrator, HedgedCalibrator, HistogramCalibrator, IsotonicCalibrator),
            *(PlattCalibrator, VennAbersCalibrator, EUMThreshold),
        )
    ),
    (
        lambda: SegmentCalibrator(["a"]),
        lambda c, i: c.learn_one(SCORES[i], LABELS[i], x={"a": FIELDS["a"][i]}),
        lambda c: c.learn_many(SCORES, LABELS, x=FIELDS),
    ),
    (
        lambda: KeyedCalibrator(HedgedCalibrator()),
        lambda c, i: c.learn_one(i % 3, SCORES[i], LABELS[i]),
        lambda c: c.learn_many([i % 3 for i in range(N)], SCORES, LABELS),
    ),
    (
        lambda: StreamingThresholds(2),
        lambda c, i: c.learn_one(SCORES[i], 1 + int(LABELS[i])),
        lambda c: c.learn_many(SCORES, 1 + LABELS.astype(int)),
    ),
    (PriorShiftCalibrator, learn_score, None),
    (AuditedCalibrator, lambda c, i: c.learn_one(SCORES[i], LABELS[i], propensity=0.5), None),
    (lambda: PAVStack("squared"), lambda c, i: c.push(0.0, LABELS[i]), None),
    (TopLabelCalibrator, lambda c, i: c.learn_one(RAW, "abc"[i % 3]), None),
    (TemperatureCalibrator, lambda c, i: c.learn_one(RAW, "abc"[i % 3]), None),
    (lambda: CuSumRank(labels=(1, 2)), lambda c, i: c.learn_one({"a": SCORES[i]}, 1 + i % 2), None),
    (
        lambda: KernelCuSumRank(labels=(1, 2), budget=20),
        lambda c, i: c.learn_one({"a": SCORES[i]}, 1 + i % 2),
        None,
    ),
]


@contextmanager
def threads(*works: Callable[[], Any]) -> Iterator[None]:
    """Let threads repeat works until the end."""
    stopped = threading.Event()

    def repeat(work: Callable[[], Any]) -> None:
        while not stopped.is_set():
            work()

    started = [threading.Thread(target=repeat, args=(work,), daemon=True) for work in works]
    for thread in started:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in started:
            thread.join()


def in_child(check: Callable[[], Any], end: str = "_exit", seconds: int = 120) -> None:
    """Fork, and check in the child; raise if that fails or takes too long."""
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(seconds, exit=True)
        status = 1
        try:
            check()
            status = 0
        finally:
            sys.stderr.flush()
            if status or end == "_exit":
                os._exit(status)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0


def check_learners(calls: str) -> None:
    """Fork while two threads learn; the child's object must be whole, and go on."""
    sys.setswitchinterval(1e-5)
    for make, learn_one, learn_many in LEARNERS:
        if calls == "many" and learn_many is None:
            continue
        learner = make()
        learn_one(learner, 0)

        def work(learner: Any = learner, one: Any = learn_one, many: Any = learn_many) -> None:
            if calls == "many":
                many(learner)
            else:
                for i in range(20):
                    one(learner, i)

        def check(learner: Any = learner, one: Any = learn_one, many: Any = learn_many) -> None:
            for twin in (learner, copied(learner)):
                one(twin, 1)
                if many is not None:
                    many(twin)

        with threads(work, work):
            for _ in range(N_FORKS if calls == "one" else 2):
                in_child(check)


def copied(learner: Any) -> Any:
    """Return the learner that its bytes are of, if it has any: they must be readable."""
    if not hasattr(learner, "to_bytes"):
        return learner
    return type(learner).from_bytes(learner.to_bytes())


def check_locks() -> None:
    """Fork while another thread holds the locks, which is rare otherwise."""
    hedge, segments = HedgedCalibrator(), SegmentCalibrator(["a"])
    snapshot: Any = HedgedCalibrator().snapshot()
    keyed = KeyedCalibrator(PlattCalibrator())
    mutexes = [hedge._mutex, segments._mutex, keyed._mutex, snapshot._predict._mutex]
    held, done = threading.Event(), threading.Event()
    locked: list[bool] = []

    def hold() -> None:
        with ExitStack() as stack:
            try:
                locked.extend(stack.enter_context(mutex) for mutex in mutexes)
            finally:
                held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert len(locked) == len(mutexes)

    def check() -> None:
        hedge.learn_one(0.5, 1)
        segments.learn_one(0.5, 1, x={"a": 1})
        keyed.learn_one("a", 0.5, 1)
        snapshot.predict_one(0.5)

    in_child(check)
    done.set()
    thread.join()
    with hedge._mutex.block():  # the thread that forks has it, also in the child
        in_child(check)

    def check_refused() -> None:
        try:
            hedge.learn_one(0.5, 1)
        except RuntimeError:
            return
        raise AssertionError("the child is inside a call, too")

    with hedge._mutex:
        in_child(check_refused)
    check()


def check_needed() -> None:
    """Fork while a thread must go inside `no_fork` before the thread that is inside can end.

    The first one holds a lock that the other waits for, as in a commit of a store that a batch of a
    `KeyedCalibrator` is about to read.
    """
    store, between = Mutex("a store"), Mutex("keys")
    inside, held, begun = threading.Event(), threading.Event(), threading.Event()
    os.register_at_fork(before=begun.set)  # called before that of `no_fork`, which came first

    def learn() -> None:
        with no_fork:
            inside.set()
            with between:
                pass

    def wait() -> None:
        with between:
            held.set()
            with store:
                pass

    def save() -> None:
        with store:
            started[1].start()
            held.wait()
            started[2].start()
            inside.wait()
            begun.wait()
            for _ in range(10_000):
                with no_fork:
                    pass

    started = [threading.Thread(target=work, daemon=True) for work in (save, wait, learn)]
    started[0].start()
    inside.wait()
    in_child(lambda: None)
    for thread in started:
        thread.join()


def check_held() -> None:
    """Fork in a block of `Store.locked` while a thread inside `no_fork` waits for it."""
    mutex, inside = Mutex("a store"), threading.Event()

    def learn() -> None:
        with no_fork:
            inside.set()
            with mutex:
                pass

    thread = threading.Thread(target=learn, daemon=True)
    with mutex.block():
        thread.start()
        inside.wait()
        in_child(lambda: mutex.__enter__())
    thread.join()


def check_stores(folder: str) -> None:
    """Fork while threads are inside SQLite; the child must be able to open a store."""
    sys.setswitchinterval(1e-5)
    learned = {f"{key}": PlattCalibrator() for key in range(20)}
    stores = [Store(Path(folder, f"{number}.db")) for number in range(2)]

    def check() -> None:
        with Store(Path(folder, "child.db")) as store:
            store.save(learned, store.offset + 1)

    def save(store: Store) -> None:
        store.save(learned, store.offset + 1)
        store.check()

    with ExitStack() as stack:
        for store in stores:
            stack.enter_context(store)
        stack.enter_context(threads(*(partial(save, store) for store in stores)))
        for _ in range(100):
            in_child(check, seconds=20)


def check_inside(folder: str) -> None:
    """Fork in the middle of a statement, as a signal handler may: it must not wait for itself."""

    def fork() -> int:
        in_child(lambda: Store(Path(folder, "child.db")).save({}, 1))
        return 1

    connection = Connection(":memory:")
    connection.create_function("fork", 0, fork)
    assert connection.execute("SELECT fork()").fetchall() == [(1,)]
    connection.close()
    in_child(lambda: None)  # nothing is left inside


def check_jobs(end: str) -> None:
    """Solve by jobs before a fork, then in parent and child, while a thread solves, too."""
    from streamcal.ordinal import _jobs, optimal_thresholds

    _jobs.LEAST_CELLS = 0
    data = [(RNG.normal(size=5_000), RNG.integers(1, 7, 5_000)) for _ in range(3)]
    expected = [optimal_thresholds(*each, method="divide").risk for each in data]

    def solve(i: int) -> None:
        assert optimal_thresholds(*data[i], method="io", n_jobs=2).risk == expected[i]

    solve(0)
    with threads(lambda: solve(1)):
        for _ in range(2):
            in_child(lambda: any(map(solve, (2, 0))), end)
            solve(0)


def check_memory() -> None:
    """Fork while a thread names shared memory; the child must be able to do so."""
    from multiprocess import resource_tracker
    from multiprocess.shared_memory import SharedMemory

    import streamcal._processes  # noqa: F401  frees the lock

    resource_tracker.ensure_running()
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with resource_tracker._resource_tracker._lock:
            held.set()
            forked.wait()

    def name_memory() -> None:
        memory = SharedMemory(create=True, size=1)
        memory.close()
        memory.unlink()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        in_child(name_memory)
    finally:
        forked.set()
        thread.join()


def check_export() -> None:
    """Fork while a thread imports what its first export needs; the child must be able to export."""
    importing, forking = threading.Event(), threading.Event()

    class Slow(MetaPathFinder):
        def find_spec(self, name: str, *others: Any) -> None:
            if name == "numpy.ma":  # the last module that it needs
                importing.set()
                forking.wait()

    sys.meta_path.insert(0, Slow())
    os.register_at_fork(before=forking.set)  # before the fork waits for threads
    calibrator = IsotonicCalibrator(prior=0)
    calibrator.learn_many(SCORES, LABELS)
    thread = threading.Thread(target=calibrator.export, args=("sql",))
    thread.start()
    importing.wait()
    in_child(lambda: calibrator.export("json"))
    thread.join()


if __name__ == "__main__":
    case, *others = sys.argv[1:]
    if case == "locks":
        check_locks()
    elif case == "jobs":
        check_jobs(*others)
    elif case == "export":
        check_export()
    elif case == "memory":
        check_memory()
    elif case == "needed":
        check_needed()
    elif case == "held":
        check_held()
    elif case == "inside":
        check_inside(*others)
    elif case == "stores":
        check_stores(*others)
    else:
        check_learners(case)
