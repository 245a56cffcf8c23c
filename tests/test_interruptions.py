"""A call that an exception interrupts has learned its sample whole, or not at all.

Signal handlers raise: Ctrl-C, and timeouts. `tests.interrupts` raises at each point where CPython
runs handlers, in random programs over every public class (`tests.programs`).
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamcal._state import Stateful
from tests import programs
from tests.interrupts import Interruption, interrupt

MOST_POINTS = 250  # of an act; of longer ones some are left out

CLASSES = sorted(programs.cases(), key=lambda kind: kind.__name__)


def seen(case: Any, instance: Any) -> Any:
    """Return what can be seen of an instance: its bytes, else its answers."""
    if isinstance(instance, Stateful):
        data = instance.to_bytes()
        type(instance).from_bytes(data, **case.given(instance))
        return data
    return repr(case.ask(instance))


def check_act(case: Any, act: Callable[..., Any], instance: Any, held: list[Any]) -> int:
    """Interrupt an act at each point; return how many there were.

    An act may be several calls: interrupted in one of them, what is seen must be what was seen at
    the first point of this call, or at that of the next.
    """

    def run(k: int) -> tuple[int | None, Any]:
        twin, kept = copy.deepcopy((instance, held))
        error = Interruption()
        n_calls, came = interrupt(lambda: act(programs.Draw("act"), twin, kept), k, error)
        assert came is (None if n_calls is None else error), f"at point {k}: {came!r}"
        return n_calls, seen(case, twin)

    found: list[tuple[int, int, Any]] = []
    k = 0
    while True:
        n_calls, state = run(k)
        if n_calls is None:
            break
        found.append((k, n_calls, state))
        k += 1
        assert k < 5_000
    first: dict[int, Any] = {}
    for _, n_calls, what in found:
        first.setdefault(n_calls, what)
    for k, n_calls, what in found:
        allowed = [first[n_calls], first.get(n_calls + 1, state)]
        assert any(what == each for each in allowed), f"half learned at point {k}"
    return len(found)


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_a_sample_is_learned_whole_or_not_at_all(kind: type, seed: int) -> None:
    case = programs.cases()[kind]
    draw = programs.Draw((kind.__name__, seed))
    instance, held = case.make(draw), list[Any]()
    for _ in range(25):
        draw.pick(case.acts)(draw, instance, held)
    for act in dict.fromkeys(case.acts):
        check_act(case, act, instance, held)
