"""The times in a column of a table."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamcal.tables.base import Column, TableError

_BEGIN, _END = -62_135_596_800.0, 253_402_300_800.0
"""The years 1 to 9999 in UTC, which a `datetime` can hold: milliseconds since 1970 are later."""

_UNITS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


class Times(NamedTuple):
    """The times of rows: arrays of shape ``(n_rows,)``.

    Attributes
    ----------
    seconds : ndarray of float
        Since 1970; NaN where the value is not a time of the years 1 to 9999. A time without a zone
        counts as one in UTC.
    has_zone : ndarray of bool
        Whether a zone stands there. A number of seconds since 1970 is in UTC.
    """

    seconds: NDArray[np.float64]
    has_zone: NDArray[np.bool_]


def as_times(column: Column) -> Times:
    """Return the times in a column of a chunk.

    Text is ISO 8601, such as ``2026-03-01``, ``2026-03-01T12:30`` or ``2026-03-01 12:30:05+01:00``,
    or a number of seconds since 1970.

    Raises
    ------
    TableError
        If values of the column's type can't be times, or text is not UTF-8.

    Examples
    --------
    >>> times = as_times(["1970-01-02", "1970-01-01T01:00:00+01:00", "60.5", "", "soon"])
    >>> times.seconds
    array([8.64e+04, 0.00e+00, 6.05e+01,      nan,      nan])
    >>> times.has_zone[:3]
    array([False,  True,  True])
    """
    if isinstance(column, list):
        return _parse(column)
    kind = column.type
    if pa.types.is_timestamp(kind):
        return _from_integers(column, _UNITS[kind.unit], has_zone=kind.tz is not None)
    if pa.types.is_date(kind):
        return as_times(column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms")))
    try:
        if not pa.types.is_dictionary(kind):
            column = column.dictionary_encode()
        value = column.type.value_type
        if pa.types.is_timestamp(value) or pa.types.is_date(value):
            return as_times(column.cast(value))
        distinct = _parse([*column.dictionary.to_pylist(), None])
    except pa.ArrowNotImplementedError:
        raise TableError(f"must hold times, not {kind}") from None
    except UnicodeDecodeError as error:
        raise TableError(f"must be UTF-8: {error}") from None
    index = np.from_dlpack(column.indices.fill_null(len(distinct.seconds) - 1))
    return Times(distinct.seconds[index], distinct.has_zone[index])


def parse_time(text: str) -> tuple[float, bool]:
    """Return one time in seconds since 1970, and whether it has a zone; NaN if it is none.

    Examples
    --------
    >>> parse_time("1970-01-01T00:01:00+00:00")
    (60.0, True)
    """
    return _time_of(text)


def _parse(values: Sequence[Any]) -> Times:
    seconds, has_zone = zip(*map(_time_of, values), strict=True) if values else ((), ())
    return Times(np.array(seconds, np.float64), np.array(has_zone, np.bool_))


def _from_integers(column: pa.Array, per_second: float, *, has_zone: bool) -> Times:
    """Return times from whole numbers, which may be no datetime of Python."""
    empty = np.from_dlpack(column.is_null().cast(pa.uint8())).astype(np.bool_)
    numbers = np.from_dlpack(column.cast(pa.int64()).fill_null(0)).astype(np.float64)
    seconds = numbers / per_second
    bad = empty | ~((seconds >= _BEGIN) & (seconds < _END))
    return Times(np.where(bad, math.nan, seconds), np.full(len(seconds), has_zone))


def _time_of(value: Any) -> tuple[float, bool]:
    """Return seconds since 1970, and whether there is a zone; NaN if it is no time."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    has_zone = True
    if isinstance(value, datetime):
        has_zone = value.tzinfo is not None
        value = (value if has_zone else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool) and _BEGIN <= value < _END:
        return float(value), has_zone
    return math.nan, True


def _from_text(text: str) -> datetime | float | None:
    """Return a number or an ISO time; None if it is neither. Python reads 1_0 as 10.

    Eight digits that can be a date are one, as in ISO 8601; others are seconds.
    """
    readers: tuple[Callable[[str], datetime | float], ...] = (float, datetime.fromisoformat)
    if len(text) == 8 and text.isdecimal():
        readers = readers[::-1]
    for read in readers:
        try:
            return None if "_" in text else read(text)
        except ValueError:
            continue
    return None
