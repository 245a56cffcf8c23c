"""The times in a column of a table."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamcal.tables.base import Column

_LATEST = 2.5e11  # seconds: a time before the year 9893, which a `datetime` can hold


class Times(NamedTuple):
    """The times of rows: arrays of shape ``(n_rows,)``.

    Attributes
    ----------
    seconds : ndarray of float
        Since 1970; NaN where the value is not a time. A time without a zone counts as one in UTC.
    has_zone : ndarray of bool
        Whether a zone stands there. A number of seconds since 1970 is in UTC.
    """

    seconds: NDArray[np.float64]
    has_zone: NDArray[np.bool_]


def as_times(column: Column) -> Times:
    """Return the times in a column of a chunk.

    Text is ISO 8601, such as ``2026-03-01``, ``2026-03-01T12:30`` or ``2026-03-01 12:30:05+01:00``,
    or a number of seconds since 1970.

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
    if pa.types.is_timestamp(column.type):  # Python's datetime has no nanoseconds
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    distinct = _parse([*column.dictionary.to_pylist(), None])
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


def _time_of(value: Any) -> tuple[float, bool]:
    """Return seconds since 1970, and whether there is a zone; NaN if it is no time."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        value = _from_text(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        has_zone = value.tzinfo is not None
        return (value if has_zone else value.replace(tzinfo=UTC)).timestamp(), has_zone
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LATEST:
        return float(value), True
    return math.nan, True


def _from_text(text: str) -> datetime | float | None:
    """Return a number or an ISO time; None if it is neither. Python reads 1_0 as 10."""
    for read in (float, datetime.fromisoformat):
        try:
            return None if "_" in text else read(text)
        except ValueError:
            continue
    return None
