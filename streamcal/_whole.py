"""Several changes as one, which no signal handler and no other thread can part.

CPython runs signal handlers, and changes threads, between bytecodes. There are none while compiled
functions call each other. So a learner of several parts first checks a sample and computes all that
may fail. Then it calls what changes the parts as *steps*: compiled functions with their arguments.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import call
from typing import Any

from streamcal.kernels.steps import do_all

__all__ = ["Step", "do_all", "write_to"]

Step = Callable[[], object]


def write_to(target: Any, where: Any, step: Step) -> Step:
    """Return a step that assigns the result of another to a part of an array or a mapping.

    Examples
    --------
    >>> found = {}
    >>> do_all(write_to(found, "sum", partial(sum, [1, 2])), partial(found.update, n=2))
    True
    >>> found
    {'sum': 3, 'n': 2}
    """
    return partial(deque, map(target.__setitem__, (where,), map(call, (step,))), 0)
