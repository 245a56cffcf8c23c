"""States as bytes, with version and checksum.

A state consists of the magic ``b"streamcal"``, a version byte, the length of a JSON header (uint32,
little endian), the header, the arrays that it lists, and a BLAKE2b digest of all that (16 bytes).
The header holds the name of the class, its parameters and other small fields, and name, dtype and
shape of each array. Dtypes are little-endian floats and integers of 8 bytes, and bytes. JSON keeps
floats exactly.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state.checks import Arrays, Fields, as_int, as_list, require

MAGIC = b"streamcal"
VERSION = 13

DIGEST = 16
_PREFIX = len(MAGIC) + 1 + 4
_DTYPES = {"<f8": np.float64, "<i8": np.int64, "|u1": np.uint8}


class State(NamedTuple):
    """The content of a state: the name of a class, fields for JSON, and arrays by name."""

    kind: str
    fields: Fields
    arrays: Arrays


def encode(kind: str, fields: Fields, arrays: Arrays) -> bytes:
    """Return fields that JSON can hold, and arrays of 8-byte numbers or bytes, as bytes."""
    parts = {name: np.ascontiguousarray(array, _dtype(array)) for name, array in arrays.items()}
    listed = [[name, part.dtype.str, part.shape] for name, part in parts.items()]
    header = json.dumps({"kind": kind, "fields": fields, "arrays": listed}).encode()
    body = b"".join(
        [MAGIC, bytes([VERSION]), len(header).to_bytes(4, "little"), header]
        + [part.tobytes() for part in parts.values()]
    )
    return body + hashlib.blake2b(body, digest_size=DIGEST).digest()


def _dtype(array: NDArray[Any]) -> str:
    if array.dtype == np.uint8:
        return "|u1"
    return "<f8" if array.dtype.kind == "f" else "<i8"


def check(data: bytes) -> bytes:
    """Return the bytes without their checksum; raise ``ValueError`` if that is wrong."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"`data` must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < _PREFIX + DIGEST:
        raise ValueError(f"`data` must be what `to_bytes` wrote, got {len(data)} other bytes")
    version = data[len(MAGIC)]
    if version != VERSION:  # no release has written states of an earlier version
        raise ValueError(f"`data` must be of version {VERSION}, got version {version}")
    body = data[:-DIGEST]
    if hashlib.blake2b(body, digest_size=DIGEST).digest() != data[-DIGEST:]:
        raise ValueError("`data` must be whole: its checksum is wrong")
    return body


def decode(data: bytes) -> State:
    """Return the arguments of `encode`; raise ``ValueError`` for damaged or other bytes.

    Examples
    --------
    >>> decode(encode("Some", {"a": 1}, {"x": np.array([0.5])}))
    State(kind='Some', fields={'a': 1}, arrays={'x': array([0.5])})
    >>> decode(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: `data` must be what `to_bytes` wrote, got 14 other bytes
    """
    body = check(data)
    with damaged():
        at = _PREFIX + int.from_bytes(body[_PREFIX - 4 : _PREFIX], "little")
        header = json.loads(body[_PREFIX:at])
        require(isinstance(header, dict), "the header must be an object")
        kind, fields, listed = header["kind"], header["fields"], header["arrays"]
        require(isinstance(kind, str) and isinstance(fields, dict), "a state has name and fields")
        arrays: Arrays = {}
        for name, code, shape in as_list(listed, "arrays"):
            require(isinstance(name, str) and name not in arrays, "an array must have its name")
            for length in as_list(shape, "shape"):
                as_int(length, "shape", 0)
            dtype = np.dtype(_DTYPES[code])
            size = dtype.itemsize * math.prod(shape)
            require(at + size <= len(body), "an array must not end after the data")
            arrays[name] = np.frombuffer(body[at : at + size], dtype).reshape(shape).copy()
            at += size
        require(at == len(body), "the data must end with the last array")
        return State(kind, fields, arrays)


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays of a part of a state under longer names, for `without_prefix`.

    Examples
    --------
    >>> prefixed("part", {"sums": np.zeros(1)})
    {'part sums': array([0.])}
    """
    return {f"{prefix} {name}": array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays that `prefixed` got.

    Examples
    --------
    >>> without_prefix("part", {"part sums": np.zeros(1), "sums": np.ones(1)})
    {'sums': array([0.])}
    """
    start = f"{prefix} "
    return {
        name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)
    }


def nest(data: bytes) -> NDArray[np.uint8]:
    """Return bytes as an array, so that a state can hold another."""
    return np.frombuffer(data, np.uint8)


BAD_VALUES = (
    *(ValueError, TypeError, LookupError, ArithmeticError, AttributeError),
    *(RecursionError, MemoryError),
)
"""What reading damaged or malicious data can raise; a signal handler raises something else."""


@contextlib.contextmanager
def damaged() -> Iterator[None]:
    """Turn what bad data can raise into a ``ValueError`` about the bytes."""
    try:
        with np.errstate(all="ignore"):
            yield
    except ValueError as error:
        if str(error).startswith("`data` must"):
            raise
        raise ValueError(f"`data` must be what `to_bytes` wrote: {error}") from error
    except BAD_VALUES as error:
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ValueError(f"`data` must be what `to_bytes` wrote: {what}") from error
