"""The calibrators of the keys of a bucket, in pages, in the state that Spark keeps.

Spark passes each value of a state to Python and back over a socket, by calls that take 0.1 ms and
more. A value for each key would need too many calls, one value for a bucket too many bytes. So a
bucket has pages, and a micro-batch reads and writes those in which it has keys::

    hash of a key   0 ............ 310 ........... 640 ........... 820 .......... 2⁶³
    pages           |  page 0      |  page 310     |  page 640     |  page 820    |

A page has the keys of a range of hashes, and the start of the range is its number. A page that has
grown beyond `PAGE` is split into several of about half of that. The starts of all pages of a bucket
are one more value. They are a B⁺-tree of two levels.

A page is text: ``key:calibrator key:calibrator …``, both in Base64, and ``-`` for the key null.
Spark passes text three times as fast as bytes, and `split` and `unbase64` of Spark can read it.
"""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from streamcal.spark.bundles import hash_of_key

PAGE = 1 << 15  # characters; a larger page has one key, or has not been written since
MOST_PAGES = 1 << 20  # of a bucket: their starts are read and written as a whole
MOST_CHARACTERS = 1 << 30  # of a calibrator: Spark holds a value several times

STARTS = StructType([StructField("starts", BinaryType())])
START = StructType([StructField("start", LongType())])
CALIBRATORS = StructType([StructField("calibrators", StringType())])

Page = dict[str, str]
"""Calibrators by key, both as text."""


class StateError(ValueError):
    """The state of a bucket is damaged, or too large."""


_NULL = "-"  # no character of Base64


def as_text(data: bytes | None) -> str:
    """Return a key, or the bytes of a calibrator, as text without spaces and colons.

    Examples
    --------
    >>> as_text(b"shop"), as_text(b""), as_text(None)
    ('c2hvcA==', '', '-')
    """
    return _NULL if data is None else base64.b64encode(data).decode("ascii")


def find(page: Page, key: bytes | None) -> bytes | None:
    """Return the bytes of the calibrator of a key, None if it has none; raise if it is damaged."""
    text = page.get(as_text(key))
    return None if text is None else _bytes_of(text)


def put(page: Page, key: bytes | None, calibrator: bytes) -> None:
    """Put the calibrator of a key into a page, or raise."""
    text = as_text(calibrator)
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"a calibrator must take at most {MOST_CHARACTERS // 4 * 3} bytes, got"
            f" {len(calibrator)}; `window` or `max_scores` limits them"
        )
    page[as_text(key)] = text


class Pages:
    """The pages of a bucket, during a micro-batch.

    Parameters
    ----------
    starts, pages : ValueState, MapState
        The state of the bucket: the starts of its pages, and the pages by their starts.

    Raises
    ------
    StateError
        If the starts are damaged.
    """

    def __init__(self, starts: Any, pages: Any) -> None:
        self._starts_state = starts
        self._pages_state = pages
        stored = starts.get()
        self._is_new = stored is None
        self._starts: NDArray[np.int64] = np.zeros(1, np.int64)
        self._changed = False
        if stored is not None:
            self._starts = _starts_of(bytes(stored[0]))

    def of_keys(self, keys: Sequence[bytes | None]) -> Iterator[tuple[int, list[int]]]:
        """Yield the start of each page that has some of these keys, and the positions of these."""
        hashes = np.array([_hash_of(key) for key in keys], np.int64)
        pages = np.searchsorted(self._starts, hashes, side="right") - 1
        order = np.argsort(pages, kind="stable")
        numbers, firsts = np.unique(pages[order], return_index=True)
        starts = self._starts[numbers].tolist()  # splits change them meanwhile
        for start, places in zip(starts, np.split(order, firsts[1:]), strict=True):
            yield start, places.tolist()

    def read(self, start: int) -> Page:
        """Return a page; raise `StateError` if it is damaged."""
        if self._is_new:
            return {}
        found = self._pages_state.getValue((start,))
        if found is None:
            raise StateError(f"the state is damaged: page {start} is missing")
        try:
            page = dict(entry.split(":") for entry in found[0].split(" "))
        except ValueError:
            raise StateError(f"the state is damaged: page {start} can't be read") from None
        return page

    def write(self, start: int, page: Page) -> None:
        """Write a page, which must not be empty; split it if it is too large."""
        sizes = {key: len(key) + len(calibrator) + 2 for key, calibrator in page.items()}
        size = sum(sizes.values())
        self._changed |= self._is_new
        if size <= PAGE or len(page) == 1:
            self._write(start, page)
            return
        target = size / max(2, 2 * size // PAGE)
        starts, parts, filled, last = [start], [Page()], 0, start
        for number, key in sorted((_hash_of(_bytes_of(key)), key) for key in page):
            full = filled >= target or (filled and filled + sizes[key] > PAGE)
            if full and number > last:  # keys with equal hashes stay together
                starts.append(number)
                parts.append(Page())
                filled = 0
            parts[-1][key] = page[key]
            filled += sizes[key]
            last = number
        for number, part in zip(starts, parts, strict=True):
            self._write(number, part)
        if len(starts) > 1:
            self._starts = np.union1d(self._starts, starts)
            self._changed = True

    def _write(self, start: int, page: Page) -> None:
        text = " ".join([f"{key}:{calibrator}" for key, calibrator in page.items()])
        self._pages_state.updateValue((start,), (text,))

    def close(self) -> None:
        """Write the starts of pages, if there are new ones; raise if there are too many."""
        if not self._changed:
            return
        if len(self._starts) > MOST_PAGES:
            raise StateError(
                f"a bucket must have at most {MOST_PAGES} pages of calibrators, got"
                f" {len(self._starts)}; use another checkpoint with a greater `n_buckets`"
            )
        self._starts_state.update((self._starts.astype("<i8").tobytes(),))


def _hash_of(key: bytes | None) -> int:
    """Return a hash from 0 to 2⁶³ - 1; keys of a bucket differ in any of its bits but the last."""
    return hash_of_key(key) >> 1


def _bytes_of(text: str) -> bytes | None:
    """Return the argument of `as_text`; raise `StateError` if there is none."""
    try:
        return None if text == _NULL else base64.b64decode(text, validate=True)
    except ValueError as error:
        raise StateError(f"the state is damaged: {error}") from error


def _starts_of(data: bytes) -> NDArray[np.int64]:
    """Return the starts of the pages of a bucket; raise `StateError` if they are damaged."""
    if len(data) % 8 == 0:
        starts = np.frombuffer(data, "<i8").astype(np.int64)
        if len(starts) and starts[0] == 0 and (np.diff(starts) > 0).all():
            return starts
    raise StateError("the state is damaged: the starts of pages must rise from 0")
