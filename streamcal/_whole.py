"""Several changes as one, which no signal handler and no other thread can part.

CPython runs signal handlers, and changes threads, between bytecodes. There are none while compiled
functions call each other. So a learner of several parts first checks a sample and computes all that
may fail. Then it calls what changes the parts as *steps*: compiled functions with their arguments.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from operator import call, is_not
from typing import Any

Step = Callable[[], object]


def do_all(*steps: Step) -> bool:
    """Call steps in order; the rest are not called if one raises, or returns False.

    A signal handler that raises finds all of them done, or none. No step but the first may fail.

    Returns
    -------
    bool
        Whether all were called, and none returned False.

    Examples
    --------
    >>> counts, seen = {}, []
    >>> do_all(partial(counts.update, a=1), partial(seen.append, "a"))
    True
    >>> counts, seen
    ({'a': 1}, ['a'])
    """
    return all(map(_IS_NOT_FALSE, map(call, steps)))


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


_IS_NOT_FALSE = partial(is_not, False)
