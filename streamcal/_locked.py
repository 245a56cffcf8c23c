"""Objects of several parts, whose calls hold one lock; and locks that are free after a fork."""

import copy
import os
import threading
import weakref
from typing import Any, ClassVar, Self

_mutexes: "weakref.WeakSet[Any]" = weakref.WeakSet()


def new_mutex() -> threading.RLock:
    """Return a lock; in a forked process it is free, unless the thread that forked has it.

    Examples
    --------
    >>> with new_mutex() as acquired:
    ...     acquired
    True
    """
    mutex = threading.RLock()
    _mutexes.add(mutex)
    return mutex


def _leave_to_parent() -> None:
    """In a forked process: free the locks of threads of the parent, which do not exist here."""
    for mutex in list(_mutexes):
        if not mutex._is_owned():
            mutex._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


class Locked:
    """Gives an object a lock, and makes its pickles and deep copies while the lock is held.

    So they are of one instant: no other call is half done in them. A subclass holds ``_mutex``
    wherever it reads or changes more than one part of its state.
    """

    _not_copied: ClassVar[tuple[str, ...]] = ("_mutex",)
    _mutex: threading.RLock

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._mutex = new_mutex()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self._copy_state({id(self): self})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = twin = self.__new__(type(self))
        twin.__setstate__(self._copy_state(memo))
        return twin

    def _copy_state(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Return a deep copy of all attributes, of one instant."""
        with self._mutex:
            state = vars(self).copy()
            for name in self._not_copied:
                del state[name]
            return copy.deepcopy(state, memo)
