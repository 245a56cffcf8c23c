"""States as bytes: versioned, checksummed, and nothing in them is ever executed.

A state is the magic ``b"streamcal"``, a version byte, the length of a JSON header (uint32, little
endian), the header, the arrays it lists, one behind the other, and a BLAKE2b digest of all that
(16 bytes). The header holds the parameters and, for each array, name, dtype and shape; dtypes are
little-endian floats and integers of 8 bytes. Floats that JSON must keep exactly it keeps by repr.

Loading checks the digest first, then each value that an index or a loop will depend on, so that
neither damage nor malice gets further than a `ValueError`.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal import losses
from streamcal.kernels.score_index import INNER, SLOTS

MAGIC = b"streamcal"
VERSION = 1

_DIGEST = 16
_PREFIX = len(MAGIC) + 1 + 4
_DTYPES = {"<f8": np.float64, "<i8": np.int64}


class Tree(NamedTuple):
    """The shape of a tree over chunks in preorder, INNER or a chunk's size, and its nodes' keys."""

    shape: NDArray[np.int64]
    keys: NDArray[np.float64]


def balanced(scores: NDArray[np.float64], fill: int) -> Tree:
    """Return a balanced tree over sorted scores, about ``fill`` of them to a chunk.

    Examples
    --------
    >>> balanced(np.arange(5.0), 2)
    Tree(shape=array([-1,  1, -1,  2,  2]), keys=array([1., 3.]))
    """
    n_chunks = max(1, -(-len(scores) // fill))
    bounds = np.arange(n_chunks + 1) * len(scores) // n_chunks
    shape: list[int] = []
    keys: list[float] = []
    waiting = [(0, n_chunks)]
    while waiting:
        start, stop = waiting.pop()
        if stop - start == 1:
            shape.append(int(bounds[stop] - bounds[start]))
            continue
        middle = (start + stop) // 2
        shape.append(INNER)
        keys.append(float(scores[bounds[middle]]))
        waiting += [(middle, stop), (start, middle)]
    return Tree(np.array(shape, np.int64), np.array(keys, np.float64))


def encode(fields: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return fields that JSON can hold, and arrays of 8-byte numbers, as bytes."""
    parts = {
        name: np.ascontiguousarray(array, dtype="<f8" if array.dtype.kind == "f" else "<i8")
        for name, array in arrays.items()
    }
    listed = [[name, part.dtype.str, part.shape] for name, part in parts.items()]
    header = json.dumps({"fields": fields, "arrays": listed}).encode()
    body = b"".join(
        [MAGIC, bytes([VERSION]), len(header).to_bytes(4, "little"), header]
        + [part.tobytes() for part in parts.values()]
    )
    return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()


def decode(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return what `encode` was given; ``ValueError`` for damaged or foreign bytes.

    Examples
    --------
    >>> decode(encode({"a": 1}, {"x": np.array([0.5])}))
    ({'a': 1}, {'x': array([0.5])})
    >>> decode(b"something else")
    Traceback (most recent call last):
    ...
    ValueError: `data` must be what `to_bytes` wrote, got 14 other bytes
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"`data` must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC) or len(data) < _PREFIX + _DIGEST:
        raise ValueError(f"`data` must be what `to_bytes` wrote, got {len(data)} other bytes")
    version = data[len(MAGIC)]
    if version > VERSION:
        raise ValueError(f"`data` must be of version {VERSION} or older, got version {version}")
    body = data[:-_DIGEST]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise ValueError("`data` must be whole: its checksum is wrong")
    with damaged():
        at = _PREFIX + int.from_bytes(body[_PREFIX - 4 : _PREFIX], "little")
        header = json.loads(body[_PREFIX:at])
        arrays = {}
        for name, dtype, shape in header["arrays"]:
            size = 8 * math.prod(shape)
            if min(shape) < 0 or at + size > len(body):
                raise ValueError("an array ends behind the data")
            array = np.frombuffer(body[at : at + size], _DTYPES[dtype]).reshape(shape)
            arrays[name] = array.copy()
            at += size
        return dict(header["fields"]), arrays


@contextlib.contextmanager
def damaged() -> Iterator[None]:
    """Turn whatever goes wrong inside into one ``ValueError`` that says what is."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"`data` must be what `to_bytes` wrote: {error}") from error


def describe_loss(loss: losses.Loss) -> list[Any]:
    """Return name and parameters of a loss."""
    # Every loss is a dataclass, which its base class cannot say.
    named = {f.name: getattr(loss, f.name) for f in dataclasses.fields(loss) if f.init}  # type: ignore[arg-type]
    return [loss.name, named]


def find_loss(described: Any, given: losses.MeanLoss | None) -> losses.MeanLoss:
    """Return the loss that `describe_loss` described; it may be ``given``."""
    name, parameters = described
    if given is None:
        return losses.get_mean(dataclasses.replace(losses.get(name), **parameters))  # type: ignore[type-var]
    if describe_loss(given) != [name, parameters]:
        raise ValueError(f"`loss` must be the {name} loss with {parameters}, got {given}")
    return given


def check_slots(
    scores: NDArray[np.float64],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    growth: float,
) -> None:
    """Raise unless these are slots of a score index."""
    n = len(scores)
    _require(scores.shape == counts.shape == (n,) and sums.shape == (2, n), "shapes differ")
    _require(scores.dtype == sums.dtype == np.float64, "scores must be floats")
    _require(counts.dtype == np.int64, "counts must be integers")
    _require(bool(np.isfinite(scores).all() and np.isfinite(sums).all()), "sums must be finite")
    _require(bool((np.diff(scores) > 0).all()), "scores must increase")
    _require(bool((sums[0] > 0).all()), "weights must be positive")
    _require(bool((counts > 0).all() and (counts < 2**31).all()), "counts must be positive")
    _require(0 < growth < math.inf, "growth must be positive")


def check_tree(tree: Tree, scores: NDArray[np.float64]) -> None:
    """Raise unless a tree in preorder is whole and its keys part the scores of its chunks."""
    shape, keys = tree
    _require(shape.ndim == 1 and shape.dtype == np.int64, "the tree must be a list of sizes")
    _require(keys.ndim == 1 and keys.dtype == np.float64, "the keys must be floats")
    _require(len(shape) == 2 * len(keys) + 1, "the tree must have one key per node")
    _require(bool(((shape == INNER) | (shape >= 0)).all()), "sizes must not be negative")
    _require(bool((shape <= SLOTS).all()), f"a chunk must hold at most {SLOTS} scores")
    _require(int(shape[shape != INNER].sum()) == len(scores), "sizes must add up")
    _require(len(shape) == 1 or bool((shape != 0).all()), "a chunk must not be empty")
    # In preorder each subtree is a run; what is open are right siblings with their lower bounds.
    row, n_keys = 0, 0
    waiting = [(-math.inf, math.inf)]
    for size in shape.tolist():
        _require(bool(waiting), "the tree must end with its last chunk")
        low, high = waiting.pop()
        if size == INNER:
            key = float(keys[n_keys])
            _require(low < key < high, "keys must be in order")
            n_keys += 1
            waiting += [(key, high), (low, key)]
            _require(len(waiting) < 200, "the tree must be balanced")
        elif size:
            _require(low <= scores[row] and scores[row + size - 1] < high, "keys must part scores")
            row += size
    _require(not waiting, "the tree must be whole")


def check_queue(queue: NDArray[np.float64], window: int | None) -> None:
    """Raise unless these can be the samples of a window."""
    _require(
        queue.shape == (len(queue), 3) and queue.dtype == np.float64, "the queue has 3 columns"
    )
    _require(len(queue) <= (window or 0), "the queue must fit the window")
    _require(bool(np.isfinite(queue).all()), "the queue must be finite")


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise ValueError(rule)
