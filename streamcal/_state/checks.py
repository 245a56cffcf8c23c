"""Checks of the fields and arrays of a state: they return values of the type and range asked for.

A damaged or malicious value raises ``ValueError``.
"""

import math
from collections.abc import Iterable
from datetime import timedelta
from reprlib import repr  # a value may be deep or long
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import MOST_COUNT
from streamcal.kernels.state_bytes import array_of

__all__ = [
    "Arrays",
    "Fields",
    "are_fixed",
    "are_in",
    "array_of",
    "as_float",
    "as_int",
    "as_list",
    "as_name",
    "require",
    "state_of",
]

Fields = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def require(condition: object, rule: str) -> None:
    """Raise ``ValueError`` with the rule unless the condition holds."""
    if not condition:
        raise ValueError(rule)


def as_int(value: Any, name: str, least: int = 0, most: int = MOST_COUNT) -> int:
    """Return a field that must be an int in a range.

    Examples
    --------
    >>> as_int(True, "n_samples")
    Traceback (most recent call last):
    ...
    ValueError: n_samples must be an int from 0 to 9007199254740992, got True
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} must be an int from {least} to {most}, got {_shorten(value)}")
    return value


def as_float(value: Any, name: str, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a field that must be a finite number in a range, as a float.

    Examples
    --------
    >>> as_float(1, "growth", 1.0)
    1.0
    """
    if type(value) not in (int, float) or not (least <= value <= most and math.isfinite(value)):
        raise ValueError(
            f"{name} must be a finite number from {least} to {most}, got {_shorten(value)}"
        )
    return float(value)


def as_list(value: Any, name: str, n: int | None = None) -> list[Any]:
    """Return a field that must be a list, of ``n`` items if that is given."""
    if not isinstance(value, list) or n not in (None, len(value)):
        long = "a list" if n is None else f"a list of {n}"
        raise ValueError(f"{name} must be {long}, got {_shorten(value)}")
    return value


def as_name(value: Any, name: str, *, none: bool = False) -> Any:
    """Return a field that must be a label, a key or the name of a feature.

    That is text, a number that equals itself, or a tuple of these; with ``none`` also None.
    """
    if isinstance(value, tuple):
        return tuple(as_name(part, name, none=True) for part in value)
    known = isinstance(value, str | int) or (isinstance(value, float) and value == value)
    if not known and not (none and value is None):
        raise ValueError(f"{name} must be text, numbers or tuples, got {_shorten(value)}")
    return value


def are_fixed(values: Iterable[Any]) -> bool:
    """Return whether no value can change: numbers, text, None, timedeltas, and tuples of these.

    Examples
    --------
    >>> are_fixed([1, 0.5, "log", None, (1, 2)]), are_fixed([[1, 2]]), are_fixed([([],)])
    (True, False, False)
    """
    for value in values:
        kind = type(value)
        if kind not in _FIXED and not (kind is tuple and are_fixed(value)):
            return False
    return True


_FIXED = frozenset((type(None), bool, int, float, str, timedelta))


def are_in(values: NDArray[Any], known: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are among ``known``, which is sorted.

    `numpy.isin` has a generator, in which Python loses what a signal handler raises.

    Examples
    --------
    >>> are_in(np.array([1.0, 2.0, 9.0]), np.array([0.0, 2.0, 4.0]))
    array([False,  True, False])
    """
    if not len(known):
        return np.zeros(len(values), np.bool_)
    at = np.searchsorted(known, values)
    found: NDArray[np.bool_] = known[np.minimum(at, len(known) - 1)] == values
    return found


def state_of(arrays: Arrays, name: str) -> bytes:
    """Return a nested state of this name."""
    return array_of(arrays, name, None, dtype=np.uint8).tobytes()


def _shorten(value: Any) -> str:
    return "one beyond 1e40" if isinstance(value, int) and abs(value) > 1e40 else repr(value)
