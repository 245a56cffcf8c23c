"""The values of fields that wait with a score until its label comes, as JSON."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamcal._state import require
from streamcal._validation import is_na


def pack_fields(x: Any) -> dict[str, Any] | None:
    """Return the values of fields as JSON can hold them.

    Raises
    ------
    TypeError
        If it is not a mapping, a name is not text, or a value is not text, a number, a boolean or
        None.
    ValueError
        If JSON can't hold a value: an int of thousands of digits, or a surrogate pair.

    Examples
    --------
    >>> pack_fields({"country": "de", "age": np.int64(7), "income": float("nan")})
    {'country': 'de', 'age': 7, 'income': None}
    """
    if x is None:
        return None
    if not isinstance(x, Mapping):
        raise TypeError(f"`x` must be a mapping from fields to values, got {x!r}")
    return {name: _pack_value(name, value) for name, value in x.items()}


def _pack_value(name: Any, value: Any) -> Any:
    if type(name) is str and name.isascii() and _is_plain(value):  # the usual case
        return value
    if is_na(value):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(name, str) or not isinstance(plain, str | int | float | None):
        raise TypeError(
            f"`x` must have text, numbers, booleans or None by name, got {value!r} for {name!r}"
        )
    if plain != plain:
        return None
    try:
        same = json.loads(json.dumps([name, plain])) == [name, plain]
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"`x` must have values that JSON can hold, got {value!r} for {name!r}")
    return plain


def _is_plain(value: Any) -> bool:
    """Return whether JSON obviously holds a value, so that this need not be tried."""
    if type(value) is str:
        return value.isascii()
    if type(value) is int:
        return abs(value) < 2**63
    return value is None or type(value) is bool or (type(value) is float and value == value)


def unpack_fields(packed: Any) -> dict[str, Any] | None:
    """Return the argument of `pack_fields`; raise ``ValueError`` if there is none."""
    if packed is None:
        return None
    require(isinstance(packed, dict), "fields must have names")
    values = [type(value) for value in packed.values()]
    known = {str, int, float, bool, type(None)}
    require(known.issuperset(values), "values of fields must be text, numbers, booleans or null")
    require(all(value == value for value in packed.values()), "values of fields must not be NaN")
    return dict(packed)
