"""A call that an exception interrupts has learned its sample whole, or not at all.

Signal handlers raise: Ctrl-C, and timeouts. `tests.interrupts` raises at points where CPython runs
handlers, in random programs over every public class (`tests.programs`). ``STREAMCAL_SOAK`` is the
number of points of each act; by default a few are tried.
"""

import copy
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from streamcal import AnytimeCalibrator, ThresholdClassifier, VennAbersCalibrator, VoteClassifier
from streamcal._state import Stateful
from streamcal.durable import KeyedCalibrator, Store
from tests import programs
from tests.interrupts import InterruptionError, interrupt, points_of

MOST_POINTS = int(os.environ.get("STREAMCAL_SOAK", "25"))

# Acts that are documented as loops over calls with one sample, or whose files can't be copied.
LOOPS: dict[type, tuple[str, ...]] = {
    VennAbersCalibrator: ("_learn_isotonic_many",),
    AnytimeCalibrator: ("_learn_isotonic_many",),
    KeyedCalibrator: ("learn_many",),
}
CLASSES = sorted(programs.cases().keys() - {Store}, key=lambda kind: kind.__name__)


def seen(case: Any, instance: Any) -> Any:
    """Return what can be seen of an instance: its bytes, else its answers.

    Models are foreign, and may have learned: of a wrapper it is the state beside its model.
    """
    if isinstance(instance, VoteClassifier):
        calibrators = instance._calibrators.items()
        return instance._labels, [(label, each.to_bytes()) for label, each in calibrators]
    if isinstance(instance, ThresholdClassifier):  # solving again is no learning
        fields, arrays = instance._freeze()
        known = [name for name in arrays if name == "samples" or "staircase" in name]
        return fields["n_samples"], [(name, arrays[name].tobytes()) for name in known]
    if isinstance(instance, AnytimeCalibrator):
        return instance._samples.n_learned, instance._samples.rows.tobytes()
    if isinstance(instance, Stateful):
        data = instance.to_bytes()
        type(instance).from_bytes(data, **case.given(instance))  # or it raises
        return data
    return repr(case.ask(instance))


def check_act(case: Any, act: Callable[..., Any], instance: Any, held: list[Any]) -> None:
    """Interrupt an act at some of its points.

    An act may be several calls: interrupted in one of them, what is seen must be what was seen at
    the first point of this call, or at that of the next.
    """

    def start() -> tuple[Any, Callable[[], Any]]:
        twin, kept = copy.deepcopy((instance, held))
        return twin, lambda: act(programs.Draw("act"), twin, kept)

    def state_at(k: int) -> Any:
        twin, call = start()
        error = InterruptionError()
        came = interrupt(call, k, error)
        assert came is error, f"{act.__name__}: at point {k} came {came!r}"
        return seen(case, twin)

    whole, call = start()
    n_points, begins = points_of(call)
    first = [state_at(begin) for begin in begins] + [seen(case, whole)]
    for i, (begin, end) in enumerate(pairwise([*begins, n_points])):
        step = max(1, len(begins) * (end - begin) // MOST_POINTS)
        for k in range(end - 1, begin, -step):
            state = state_at(k)
            assert state == first[i] or state == first[i + 1], f"{act.__name__}: half at {k}"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_sample_is_learned_whole_or_not_at_all(kind: type) -> None:
    case = programs.cases()[kind]
    draw = programs.Draw((kind.__name__, 1))
    instance, held = case.make(draw), list[Any]()
    for _ in range(25):
        draw.pick(case.acts)(draw, instance, held)
    for act in dict.fromkeys(case.acts):
        if act.__name__ not in LOOPS.get(kind, ()):
            check_act(case, act, instance, held)
