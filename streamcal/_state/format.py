"""States as bytes, with version and checksum.

A state consists of the magic ``b"streamcal"``, a version byte, two JSON texts and arrays as
`streamcal.kernels.state_bytes` joins them, and the first 16 bytes of a SHA-256 of all that. The
first text, the *head*, has the name of the class and its parameters. It is the same for many
learners, so it can be looked up. The second one has other small fields. JSON keeps floats exactly.
A state within another one is a *body*: it has no digest of its own.
"""

import hashlib
import json
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from streamcal._state.checks import Arrays, Fields, require
from streamcal.kernels.state_bytes import join, split

MAGIC = b"streamcal"
VERSION = 20

DIGEST = 16
_START = MAGIC + bytes([VERSION])


class State(NamedTuple):
    """The content of a state: the name of a class, fields for JSON, and arrays by name."""

    kind: str
    fields: Fields
    arrays: Arrays


def split_body(body: bytes) -> tuple[bytes, bytes, Arrays]:
    """Return head, fields and arrays of a body, or raise ``ValueError``."""
    if not body.startswith(_START):
        raise ValueError("a state must begin as one of this version")
    return split(body, len(_START))


def read_head(text: bytes) -> tuple[str, Fields]:
    """Return the name of the class and the packed parameters, or raise one of `BAD_VALUES`."""
    head = json.loads(text)
    require(isinstance(head, dict), "the head must be an object")
    kind, parameters = head["kind"], head["parameters"]
    require(isinstance(kind, str), "a state must have the name of a class")
    require(isinstance(parameters, dict), "parameters must have names")
    return kind, parameters


def read_fields(text: bytes) -> Fields:
    """Return the other fields, or raise one of `BAD_VALUES`."""
    if text == b"{}":
        return {}
    fields: Fields = json.loads(text.decode())  # of bytes it would look for other encodings
    require(isinstance(fields, dict), "fields must have names")
    return fields


def head_of(kind: str, parameters: Fields | None) -> bytes:
    """Return the head of states of a class with these packed parameters."""
    return json.dumps({"kind": kind, "parameters": parameters}).encode()


def body_of(head: bytes, fields: Fields, arrays: Arrays) -> bytes:
    """Return a state without checksum, for `split_body`."""
    return join(_START, head, json.dumps(fields).encode() if fields else b"{}", arrays)


def seal(body: bytes) -> bytes:
    """Return a body with its checksum."""
    return body + _digest(body)


def _digest(body: bytes) -> bytes:
    """Return the checksum; SHA-256, since processors have instructions for it."""
    return hashlib.sha256(body).digest()[:DIGEST]


def encode(kind: str, fields: Fields, arrays: Arrays) -> bytes:
    """Return fields that JSON can hold, and arrays of 8-byte numbers or bytes, as bytes.

    The packed parameters are one of the fields.
    """
    return seal(encode_body(kind, fields, arrays))


def encode_body(kind: str, fields: Fields, arrays: Arrays) -> bytes:
    """Return what `encode` does for a state within another one."""
    others = {name: value for name, value in fields.items() if name != "parameters"}
    return body_of(head_of(kind, fields.get("parameters")), others, arrays)


def check(data: bytes) -> bytes:
    """Return the bytes without their checksum; raise ``ValueError`` if that is wrong."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"`data` must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < len(_START) + DIGEST:
        raise ValueError(f"`data` must be what `to_bytes` wrote, got {len(data)} other bytes")
    version = data[len(MAGIC)]
    if version != VERSION:  # no release has written states of an earlier version
        raise ValueError(f"`data` must be of version {VERSION}, got version {version}")
    body = data[:-DIGEST]
    if not data.endswith(_digest(body)):
        raise ValueError("`data` must be whole: its checksum is wrong")
    return body


def decode(data: bytes) -> State:
    """Return the arguments of `encode`; raise ``ValueError`` for damaged or other bytes.

    Examples
    --------
    >>> decode(encode("Some", {"parameters": {}, "a": 1}, {"x": np.array([0.5])}))
    State(kind='Some', fields={'parameters': {}, 'a': 1}, arrays={'x': array([0.5])})
    >>> decode(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: `data` must be what `to_bytes` wrote, got 14 other bytes
    """
    return decode_body(check(data))


def decode_body(body: bytes) -> State:
    """Return the arguments of `encode` for a state within another one, as `decode` does."""
    try:
        head, fields, arrays = split_body(body)
        kind, parameters = read_head(head)
        return State(kind, {"parameters": parameters, **read_fields(fields)}, arrays)
    except BAD_VALUES as error:
        refuse(error)


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


def refuse(error: Exception) -> NoReturn:
    """Raise the ``ValueError`` about the bytes for one of `BAD_VALUES`, which was raised."""
    if isinstance(error, ValueError):
        if str(error).startswith("`data` must"):
            raise error
        raise ValueError(f"`data` must be what `to_bytes` wrote: {error}") from error
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    raise ValueError(f"`data` must be what `to_bytes` wrote: {what}") from error
