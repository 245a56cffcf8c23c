"""Objects of several parts, whose calls hold one lock."""

import copy
from typing import Any, ClassVar, Self

from streamcal.kernels.exclusive import Mutex


class Locked:
    """Gives an object a lock, and makes its pickles and deep copies while the lock is held.

    So they are of one instant: no other call is half done in them. A subclass holds ``_mutex``
    wherever it reads or changes more than one part of its state.
    """

    _not_copied: ClassVar[tuple[str, ...]] = ("_mutex",)
    _mutex: Mutex

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._mutex = Mutex()
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
