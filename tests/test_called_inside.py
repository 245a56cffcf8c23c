"""An object that is called in the middle of one of its calls, in the same thread.

Signal handlers do that, and finalizers. The call inside comes before or after the other one, or it
is refused and changes nothing. `tests.interrupts` makes it at points where CPython runs handlers.
``STREAMCAL_SOAK`` is the number of points of each act; by default a few are tried.
"""

import copy
import os
import re
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streamcal import PlattCalibrator, SegmentCalibrator
from streamcal._locked import Locked
from streamcal.calibration import AuditedCalibrator, Calibrator, PriorShiftCalibrator
from streamcal.calibration.joint import JointCalibrator
from streamcal.calibration.joint_hedge import JointHedge
from streamcal.decision import EUMThreshold
from streamcal.durable import KeyedCalibrator, Store
from streamcal.kernels.exclusive import Mutex
from streamcal.ordinal import CuSumRank, PACuSumRank, PRank, StreamingThresholds
from tests import programs
from tests.interrupts import call_inside, points_of
from tests.test_interruptions import LOOPS, seen

MOST_POINTS = int(os.environ.get("STREAMCAL_SOAK", "12"))
REFUSED = r"must not be called while the same thread is inside one of its calls"

# What `docs/threads.md` says of objects that any thread may use.
SHARED = (
    *(Locked, Calibrator, JointCalibrator),
    *(StreamingThresholds, EUMThreshold, CuSumRank, PACuSumRank, PRank),
)
CLASSES = sorted(
    (kind for kind in programs.cases() if issubclass(kind, SHARED)), key=lambda kind: kind.__name__
)


class Handler:
    """Calls something; notes whether that was refused."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.is_refused = False

    def __call__(self) -> None:
        try:
            self._call()
        except RuntimeError as error:
            if not re.search(REFUSED, str(error)):
                raise
            self.is_refused = True


def check_acts(case: Any, outer: Any, inner: Any, instance: Any, held: list[Any]) -> Counter[str]:
    """Make an act at some of the points of another one; return what happened how often.

    An act may be several calls: made inside one of them, the inner act comes before this call or
    before the next, or it is refused.
    """

    def start() -> tuple[Any, Callable[[], Any], Handler]:
        twin, kept = copy.deepcopy((instance, held))
        also_kept = list(kept)
        handler = Handler(lambda: inner(programs.Draw("inner"), twin, also_kept))
        return twin, lambda: outer(programs.Draw("outer"), twin, kept), handler

    def state_at(k: int) -> tuple[Any, bool]:
        twin, call, handler = start()
        call_inside(call, k, handler)
        return seen(case, twin), handler.is_refused

    alone, call, _ = start()
    n_points, begins = points_of(call)
    made = Counter[str]()
    after, call, handler = start()
    call()
    handler()
    states = [state_at(begin)[0] for begin in begins] + [seen(case, after)]
    for i, (begin, end) in enumerate(pairwise([*begins, n_points])):
        step = max(1, len(begins) * (end - begin) // MOST_POINTS)
        for k in range(end - 1, begin, -step):
            state, is_refused = state_at(k)
            if is_refused:
                assert state == seen(case, alone), f"changed though refused, at {k}"
            else:
                assert state in states[i : i + 2], f"of neither order, at {k}"
            made["refused" if is_refused else "made"] += 1
    return made


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_call_inside_a_call_is_before_or_after_it_or_refused(kind: type) -> None:
    case, instance, held = programs.taught(kind)
    loops = LOOPS.get(kind, ())
    acts = [act for act in dict.fromkeys(case.acts) if act.__name__ not in loops]
    made = Counter[str]()
    for outer in acts:
        for inner in acts:
            made += check_acts(case, outer, inner, instance, held)
    assert made["made"]
    assert bool(made["refused"]) == issubclass(kind, Locked)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_who_only_asks_inside_a_call_changes_nothing(kind: type) -> None:
    case, instance, held = programs.taught(kind, 10)

    def ask(_: programs.Draw, twin: Any, held: list[Any]) -> None:
        case.ask(twin)

    check_acts(case, case.acts[0], ask, instance, held)


@pytest.mark.parametrize(
    ("make", "context"),
    [
        (lambda: SegmentCalibrator(["a"]), {}),
        (AuditedCalibrator, {"propensity": 0.5}),
        (PriorShiftCalibrator, {}),
        (lambda: KeyedCalibrator(PlattCalibrator()), {}),
    ],
)
def test_a_prediction_is_of_one_instant(make: Any, context: dict[str, Any]) -> None:
    """Also if a handler would learn between the parts of an object that predict it."""
    calibrator = make()
    key = ("k",) if isinstance(calibrator, KeyedCalibrator) else ()
    x = {"x": {"a": 1}} if calibrator.fields else {}
    for n in range(200):
        calibrator.learn_one(*key, 0.3 + 0.4 * (n % 2), n % 3 == 0, **x, **context)

    def answer_at(k: int) -> tuple[float, bool]:
        twin = copy.deepcopy(calibrator)
        teach = Handler(lambda: twin.learn_one(*key, 0.6, 1, 5.0, **x, **context))
        return call_inside(lambda: twin.predict_one(*key, 0.6, **x), k, teach), teach.is_refused

    twin = copy.deepcopy(calibrator)
    n_points, _ = points_of(lambda: twin.predict_one(*key, 0.6, **x))
    after, now = answer_at(0)[0], calibrator.predict_one(*key, 0.6, **x)
    assert now != after
    refused = 0
    for k in range(n_points):
        answer, is_refused = answer_at(k)
        assert answer == now if is_refused else answer in (now, after)
        refused += is_refused
    assert refused


def test_a_joint_hedge_is_called_before_or_after_or_not_at_all() -> None:
    raw = {"a": 0.5, "b": 0.3, "c": 0.2}
    hedge = JointHedge((0.0, 0.01), 1e-6)
    for label in "abcab":
        hedge.learn_one(raw, raw, label, 1.0)
    ticket = hedge.serve_one(raw, raw)[1]
    calls: list[Callable[[Any], Any]] = [
        lambda twin: twin.learn_one(raw, raw, "a", 1.0),
        lambda twin: twin.learn_one({**raw, "d": 0.0}, {**raw, "d": 0.0}, "c", 1.0),
        lambda twin: twin.learn_group([(raw, raw, "b", ticket), (raw, raw, "a", None)], 1.0),
        lambda twin: twin.serve_one(raw, raw),
    ]

    def state(*made: Callable[[Any], Any]) -> str:
        twin = copy.deepcopy(hedge)
        for call in made:
            call(twin)
        return repr(twin.freeze())

    for outer in calls:
        twin = copy.deepcopy(hedge)
        n_points, _ = points_of(lambda outer=outer, twin=twin: outer(twin))
        for inner in calls:
            alone, orders = state(outer), (state(inner, outer), state(outer, inner))
            for k in range(0, n_points, max(1, n_points // MOST_POINTS)):
                twin = copy.deepcopy(hedge)
                handler = Handler(lambda inner=inner, twin=twin: inner(twin))
                call_inside(lambda outer=outer, twin=twin: outer(twin), k, handler)
                found = repr(twin.freeze())
                assert found == alone if handler.is_refused else found in orders


@pytest.mark.parametrize(
    "inner",
    [
        lambda keyed: keyed.learn_one("a", 0.7, 1),
        lambda keyed: keyed.learn_one("new", 0.7, 1),
        lambda keyed: keyed.predict_one("c", 0.7),
        lambda keyed: keyed.save(7),
        lambda keyed: keyed.store.load(),
        lambda keyed: keyed.store.refresh(),
    ],
)
def test_what_is_learned_inside_a_save_is_saved_later(inner: Any, tmp_path: Path) -> None:
    """No sample is lost, and the transaction of the outer call is whole."""

    def start(path: Path) -> KeyedCalibrator:
        keyed = KeyedCalibrator(PlattCalibrator(), max_live=2, store=Store(path))
        keyed.learn_many([*"aabbcc"], [0.2, 0.6, 0.7, 0.9, 0.2, 0.1], [0, 1, 1, 1, 0, 0])
        return keyed

    def n_learned(keyed: KeyedCalibrator) -> int:
        return sum(keyed.snapshot(key).n_samples for key in keyed)

    keyed = start(tmp_path / "points.db")
    n_points, _ = points_of(lambda: keyed.save(5))
    keyed.store.close()
    assert n_points
    found = set()
    for k in range(0, n_points, max(1, n_points // (5 * MOST_POINTS))):
        path = tmp_path / f"{k}.db"
        keyed = start(path)
        handler = Handler(lambda keyed=keyed: inner(keyed))
        call_inside(lambda keyed=keyed: keyed.save(5), k, handler)
        assert keyed.store.offset in (5, 7)
        n = n_learned(keyed)
        assert n in (6, 7)
        keyed.save(8)
        keyed.store.close()
        with Store(path, read_only=True) as store:
            store.check()
            again = KeyedCalibrator(PlattCalibrator(), store=store)
            assert n_learned(again) == n
        found.add(handler.is_refused)
    assert found == {False, True}


@pytest.mark.parametrize("keyed", [False, True])
def test_threads_wait_for_a_call_in_which_another_is_refused(keyed: bool) -> None:
    calibrator: Any = KeyedCalibrator(PlattCalibrator()) if keyed else SegmentCalibrator(["a"])
    sample: tuple[Any, ...] = ("k", 0.5, 1) if keyed else (0.5, 1)
    learn = partial(calibrator.learn_one, *sample, x=None if keyed else {"a": 1})
    learn()
    n_points, _ = points_of(learn)
    done, counts = threading.Event(), [0, 0]

    def work(number: int) -> None:
        while not done.is_set():
            learn()
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    made = 2
    for k in [*range(n_points)] * 3:
        handler = Handler(learn)
        call_inside(learn, k, handler)
        made += 1 + (not handler.is_refused)
    done.set()
    for thread in threads:
        thread.join()
    learned = calibrator.snapshot("k") if keyed else calibrator
    assert learned.n_samples == made + sum(counts)


def test_a_block_of_calls_takes_calls_and_blocks_but_a_call_takes_neither(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        with keyed.locked(), store.locked(), keyed.locked(), store.locked():
            keyed.learn_one("a", 0.5, 1)
            keyed.save(1)
    mutex = Mutex("Sums")
    with mutex, pytest.raises(RuntimeError, match=f"^Sums {REFUSED}"), mutex.block():
        pass
    with mutex.block(), mutex.block():
        with mutex, pytest.raises(RuntimeError, match=f"^Sums {REFUSED}"), mutex:
            pass
        with mutex:
            pass


def test_the_error_names_the_object() -> None:
    calibrator = SegmentCalibrator(["a"])
    raised = []

    class Values(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            with pytest.raises(RuntimeError, match=f"^SegmentCalibrator {REFUSED}") as error:
                calibrator.predict_one(0.5, {"a": 1})
            raised.append(error)
            return 1

    calibrator.learn_one(0.5, 1, x=Values())
    assert raised
    assert calibrator.n_samples == 1
