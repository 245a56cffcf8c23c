"""Objects of several parts, whose calls hold one lock."""

import copy
from typing import Any, ClassVar, Self

from streamcal.kernels.exclusive import Mutex


class Locked:
    """Gives an object a lock, and makes its pickles and deep copies while the lock is held.

    So they are of one instant: no other call is half done in them. A subclass holds ``_mutex``
    wherever it reads or changes more than one part of its state. A method that holds it calls no
    other one that does: a call inside a call is refused, whoever makes it.
    """

    _not_copied: ClassVar[tuple[str, ...]] = ("_mutex",)
    _mutex: Mutex

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._mutex = Mutex(cls.__name__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        with self._mutex:
            return self._copy_state({id(self): self})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with self._mutex:
            return self._copy(memo)

    def _copy(self, memo: dict[int, Any]) -> Self:
        """Return a deep copy; the lock is held."""
        memo[id(self)] = twin = self.__new__(type(self))
        twin.__setstate__(self._copy_state(memo))
        return twin

    def _copy_state(self, memo: dict[int, Any]) -> dict[str, Any]:
        """Return a deep copy of all attributes; the lock is held."""
        state = vars(self).copy()
        for name in self._not_copied:
            del state[name]
        return copy.deepcopy(state, memo)
