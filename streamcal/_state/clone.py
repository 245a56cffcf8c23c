"""Copies of learners, for all classes that derive from a river class."""

import copy
import functools
import inspect
from typing import Any, Self

from river import base

from streamcal._state.checks import are_fixed


class Cloned(base.Base):
    """Gives `clone` two meanings: a new estimator without state, or a full copy.

    river's ``clone`` copies attributes one by one and makes new parameters. A wrapped model is a
    parameter, so it would lose what it has learned while its calibrators keep it; and attributes
    that share an array would no longer share it.
    """

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return a new estimator with the same parameters, or a copy with all that was learned.

        Parameters
        ----------
        new_params : dict, optional
            Parameters of the new estimator that differ.
        include_attributes : bool
            Whether to copy everything learned, that of a wrapped model included. Parameters can't
            differ then, since what was learned depends on them.

        Raises
        ------
        ValueError
            If there are ``new_params`` together with ``include_attributes``.
        """
        if not include_attributes:
            names = _named_parameters(type(self))  # type: ignore[arg-type]
            if names is not None:
                plain = {name: getattr(self, name) for name in names} | (new_params or {})
                if are_fixed(plain.values()):  # there is nothing to copy
                    return type(self)(**plain)
            params = {**self._get_params(), **(new_params or {})}
            empty = {
                name: _EmptyTuple()
                for name, value in params.items()
                if isinstance(value, tuple) and not value
            }
            return super().clone({**(new_params or {}), **empty})
        if new_params:
            raise ValueError(
                "`new_params` must be empty where `include_attributes` is true,"
                f" got {sorted(new_params)}"
            )
        return copy.deepcopy(self)


@functools.cache
def _named_parameters(cls: type) -> tuple[str, ...] | None:
    """Return the names of the parameters; None if there may be any number of them.

    Cached, as signatures are slow.
    """
    _, *parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return tuple(p.name for p in parameters)


class _EmptyTuple:
    """A tuple without items, once copied; river looks at the first item of each tuple."""

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[()]:
        return ()
