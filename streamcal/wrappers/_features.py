"""Features of samples, kept to find a sample again: as keys, or as objects to compare with.

Only values of known types are hashed and compared, so no class of a user is asked, and nothing is
caught here: whatever a signal handler raises meanwhile reaches the caller.
"""

import datetime
import math
import uuid
from collections.abc import Hashable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import WrapperDescriptorType
from typing import Any

import numpy as np

from streamcal.kernels.plain import PLAIN, holds_plain

# Classes that hash and compare like these raise nothing. `object` compares by identity.
_LIKE = (object, int, float, complex, str, bytes, Enum, Fraction, uuid.UUID)
_KNOWN: set[Any] = {(each.__eq__, each.__hash__) for each in _LIKE}
_OF_ITEMS: set[Any] = {(tuple.__eq__, tuple.__hash__), (frozenset.__eq__, frozenset.__hash__)}
# Of these, also other classes may be compared that are written in C, such as that of pandas.
_IN_C = (np.generic, datetime.date, datetime.time, datetime.timedelta)

_DEPTH = 16  # of nested containers; deeper ones are not compared


def snapshot(x: Any) -> Any:
    """Return what later features are compared with; None if they may change, or raise errors."""
    if type(x) is dict and holds_plain(x):  # no hash is needed at first
        return dict(x)
    return key_of(x)


def features_of(kept: Any) -> Any:
    """Return the features of a snapshot that is not None."""
    return dict(kept) if isinstance(kept, frozenset) else kept


def is_same(kept: Any, x: Any) -> bool:
    """Return whether features are those of a snapshot; what cannot be compared is not."""
    if type(kept) is dict:
        if type(x) is dict and holds_plain(x):
            return bool(kept == x)
        kept = frozenset(kept.items())
    return bool(kept == key_of(x))


def key_of(x: Any) -> Hashable:
    """Return features as a key, None if there can be none; the order of a dict does not count.

    The names of a dict are compared as they are: it could not hold them otherwise.
    """
    if not isinstance(x, dict):
        return _as_equal(x) if _is_safe(x) else None
    items = dict.items(x)  # not a method of the user
    if type(x) is dict and holds_plain(x):
        return frozenset(items)
    are_safe = [_is_safe(value) for _, value in items]
    if not all(are_safe):
        return None
    return frozenset([(name, _as_equal(value)) for name, value in items])


def _as_equal(value: Any) -> Any:
    """Return a value, or one that equals itself: each NaN becomes the same object."""
    if isinstance(value, tuple):
        return tuple([_as_equal(item) for item in tuple.__iter__(value)])
    if isinstance(value, frozenset):
        return frozenset([_as_equal(item) for item in frozenset.__iter__(value)])
    return value if value == value else math.nan  # `!=` may be code of a user


def _is_safe(value: Any, depth: int = _DEPTH) -> bool:
    """Return whether a value cannot change, and can be hashed and compared without an error."""
    kind = type(value)
    if kind in PLAIN:
        return True
    methods = kind.__eq__, kind.__hash__
    if methods in _OF_ITEMS:
        items = tuple.__iter__(value) if isinstance(value, tuple) else frozenset.__iter__(value)
        return depth > 0 and all(_is_safe(item, depth - 1) for item in items)
    if methods in _KNOWN:
        return True
    if kind is Decimal:
        return not value.is_snan()
    in_c = all(isinstance(method, WrapperDescriptorType) for method in methods)
    return in_c and isinstance(value, _IN_C) and not isinstance(value, np.void)


def shallow(x: Any) -> Any:
    """Return features that do not change with those of a user, except within their values."""
    return dict(x) if type(x) is dict else x


def is_alike(kept: Any, x: Any) -> bool:
    """Return whether features hold the same objects, or equal ones that can be compared."""
    if type(x) is not dict or type(kept) is not dict:
        return kept is x
    return kept.keys() == x.keys() and all(_is_equal(kept[name], x[name]) for name in x)


def _is_equal(a: Any, b: Any, depth: int = _DEPTH) -> bool:
    if a is b:
        return True
    if type(a) is np.ndarray and type(b) is np.ndarray:
        if a.dtype.hasobject or b.dtype.hasobject:
            return False
        return bool(np.array_equal(a, b))
    if type(a) in (list, tuple) and type(a) is type(b):
        pairs = list(zip(a, b, strict=False))
        return len(a) == len(b) and depth > 0 and all(_is_equal(*p, depth - 1) for p in pairs)
    return _is_safe(a) and _is_safe(b) and bool(a == b)
