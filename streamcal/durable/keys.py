"""Keys of calibrators: which values are keys, their names in a store, and samples by key."""

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

import numpy as np

from streamcal._state import as_name
from streamcal._validation import check_no_mask
from streamcal.kernels.one_by_one import positions

PREFIX = "key:"
"""What the names of calibrators in a store begin with; the rest is the key as JSON."""

FEW = 64  # samples of a key in a batch, below which a call for each is quicker than arrays

Groups = dict[Any, Any]
"""Positions of samples by key: lists, or the slice of all samples."""


def group(keys: Iterable[Hashable]) -> Groups:
    """Return the distinct keys in the order they appear, each with the positions of its samples.

    Examples
    --------
    >>> group(["b", "a", "b"])
    {'b': [0, 2], 'a': [1]}
    """
    check_no_mask(keys, "keys")
    given = np.asarray(keys).tolist() if hasattr(keys, "dtype") else list(keys)
    places = positions(given)
    if isinstance(places, int):
        raise not_a_key(given[places])
    return places


def are_plain(keys: Iterable[Hashable]) -> bool:
    """Return whether all are text of ASCII characters, the usual keys, which need no check."""
    try:
        # A key that is no text raises, without a Python call for each of the others.
        return all(map(str.isascii, keys))  # type: ignore[arg-type]
    except TypeError:
        return False


def cut(groups: Groups, ends: Sequence[int]) -> Iterator[Groups]:
    """Iterate over the groups of consecutive parts of a batch, which end before these positions.

    Examples
    --------
    >>> list(cut({"b": [0, 2, 3], "a": [1]}, [2, 4]))
    [{'b': [0], 'a': [1]}, {'b': [2, 3]}]
    """
    starts = [0, *ends]
    ((key, at), *others) = groups.items()
    if not others and isinstance(at, slice):  # of all samples
        yield from ({key: slice(*part)} for part in zip(starts, ends, strict=False))
        return
    keys: list[Any] = [None] * ends[-1]
    for key, at in groups.items():
        for place in at:
            keys[place] = key
    for start, end in zip(starts, ends, strict=False):
        part: dict[Any, list[int]] = {}
        for place in range(start, end):
            part.setdefault(keys[place], []).append(place)
        yield part


def name_of(key: Hashable) -> str:
    """Return the name of a key in the store: the same for keys that are equal.

    Raises
    ------
    TypeError
        If it is not a string, number, boolean, None, or tuple of these.
    ValueError
        If it is NaN, or text with a surrogate pair in place of a character.

    Examples
    --------
    >>> name_of(("a", True, None)), name_of(("a", 1.0, None)), name_of("1")
    ('key:["a", 1, null]', 'key:["a", 1, null]', 'key:"1"')
    """
    if type(key) is str and key.isascii():  # the usual case; `dumps` is this, and slower
        return PREFIX + encode_basestring_ascii(key)
    return PREFIX + json.dumps(_plain(key))


def _plain(key: Any) -> Any:
    """Return a key as JSON can hold it: tuples as lists, whole numbers as ints."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, tuple):
        return [_plain(part) for part in key]
    if isinstance(key, float) and key != key:
        raise ValueError("`keys` must be equal to themselves, got nan")
    if isinstance(key, bool) or (isinstance(key, float) and key.is_integer()):
        return int(key)
    if isinstance(key, str) and not key.isascii() and json.loads(json.dumps(key)) != key:
        # JSON would write these two halves as the character that they form.
        raise ValueError(f"`keys` must have no surrogate pairs, got {key!r}")
    if key is None or isinstance(key, str | int | float):
        return key
    raise not_a_key(key)


def key_of(name: str) -> Any:
    """Return the key of a name, or one that is equal to it.

    Examples
    --------
    >>> key_of(name_of(("a", 1))), key_of(name_of(7.0))
    (('a', 1), 7)
    """
    return as_name(_as_key(json.loads(name.removeprefix(PREFIX))), "keys", none=True)


def _as_key(plain: Any) -> Any:
    return tuple(map(_as_key, plain)) if isinstance(plain, list) else plain


def hash_of(name: bytes) -> int:
    """Return a number of 64 bits that is the same on every machine and in every run.

    Examples
    --------
    >>> hash_of(b"shop") % 256
    6
    """
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")


def error_of_key(error: Exception, name: str = "key") -> Exception:
    """Return an error about keys as one about an argument that is one key; others as they are.

    Examples
    --------
    >>> error_of_key(not_a_key([1]))
    TypeError('`key` must be a string, number, boolean, None or tuple, got [1]')
    """
    if type(error) not in (TypeError, ValueError) or not str(error).startswith("`keys`"):
        return error
    many, one = "strings, numbers, booleans, None or tuples", "a string, number, boolean, None"
    text = str(error).replace("`keys`", f"`{name}`", 1).replace(many, f"{one} or tuple", 1)
    text = text.replace("equal to themselves", "equal to itself")
    return type(error)(text)


def not_a_key(key: Any) -> TypeError:
    """Return the error for a value that is not a key."""
    return TypeError(f"`keys` must be strings, numbers, booleans, None or tuples, got {key!r}")
