"""Features of samples, kept to find a sample again: as keys, or as objects to compare with."""

from collections.abc import Hashable
from typing import Any

import numpy as np

# Values of features that cannot change, so that the features need no hash at first.
_PLAIN = {float, int, str, bool, type(None), np.float64, np.float32, np.int64, np.bool_}

# What values without a hash, arrays, signalling NaNs and dicts that change raise when compared.
# A signal handler raises something else.
NOT_COMPARED = (TypeError, ValueError, ArithmeticError, RuntimeError)


def snapshot(x: Any) -> Any:
    """Return what later features are compared with; None if features may change or have no hash."""
    if type(x) is dict and _PLAIN.issuperset(map(type, x.values())):
        return dict(x)
    return key_of(x)


def features_of(kept: Any) -> Any:
    """Return the features of a snapshot that is not None."""
    return dict(kept) if isinstance(kept, frozenset) else kept


def is_same(kept: Any, x: Any) -> bool:
    """Return whether features are those of a snapshot; what cannot be compared is not."""
    try:
        return bool(kept == (x if type(kept) is dict else key_of(x)))
    except NOT_COMPARED:
        return False


def key_of(x: Any) -> Hashable:
    """Return features as a key, None if a value has no hash; the order of a dict does not count."""
    try:
        key: Hashable = frozenset(x.items()) if isinstance(x, dict) else x
        hash(key)
    except NOT_COMPARED:
        return None
    return key


def shallow(x: Any) -> Any:
    return dict(x) if type(x) is dict else x


def is_alike(kept: Any, x: Any) -> bool:
    """Return whether features hold the same objects, or equal ones that can be compared."""
    try:
        if type(x) is not dict or type(kept) is not dict:
            return kept is x
        return kept.keys() == x.keys() and all(_is_equal(kept[name], x[name]) for name in x)
    except NOT_COMPARED:
        return False


def _is_equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
