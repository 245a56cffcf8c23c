"""How the rows of a table are cut into periods: by the calendar, or by their number."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 50
"""Periods of a report."""

_LEAST_ROWS = 200  # of a period that has no time
_MEAN_ROWS = 100  # of a period of the calendar, unless even years have fewer

_MONDAY = np.datetime64("1970-01-05", "D")

Vector = NDArray[np.float64]


class Periods(NamedTuple):
    """Consecutive periods of the rows of a table.

    Attributes
    ----------
    bounds : list of int
        Where they begin, and where the last one ends.
    x : ndarray of shape (n_periods,)
        Their places in a chart: the last row of each, or its start in milliseconds since 1970.
    names : sequence of shape (n_periods,)
        What a table shows for them.
    axis : str
        ``"row"`` or ``"time"``.
    words : str
        What a period is.
    """

    bounds: list[int]
    x: Vector
    names: Sequence[str | int]
    axis: str
    words: str


def equal_parts(n: int, most: int) -> list[int]:
    """Return the bounds of at most so many parts of ``n`` rows, each of at least 200.

    Examples
    --------
    >>> equal_parts(500, 10), equal_parts(10, 10)
    ([0, 250, 500], [0, 10])
    """
    n_parts = max(1, min(most, n // _LEAST_ROWS))
    return [int(bound) for bound in np.linspace(0, n, n_parts + 1)]


def by_rows(rows: Vector) -> Periods:
    """Cut rows into at most `MOST` periods of equally many, at least 200.

    Examples
    --------
    >>> by_rows(np.arange(1.0, 501.0)).bounds
    [0, 250, 500]
    """
    bounds = equal_parts(len(rows), MOST)
    ends = rows[np.array(bounds[1:]) - 1]
    words = f"windows of about {len(rows) // len(ends):,} rows"
    return Periods(bounds, ends, [int(end) for end in ends], "row", words)


def by_calendar(times: Vector) -> Periods:
    """Cut rows, sorted by time, by the hour, day, week, month or year.

    It is the shortest of these of which there are at most `MOST` between the first and the last
    row, with a hundred rows in the mean. Weeks begin on Monday. Periods without rows are left out.

    Examples
    --------
    >>> days = np.repeat(86_400.0 * np.arange(30), 100)
    >>> periods = by_calendar(days)
    >>> periods.words, len(periods.x), periods.names[:2]
    ('days', 30, ['1970-01-01', '1970-01-02'])
    >>> by_calendar(days[::4]).names
    ['1969-12-29', '1970-01-05', '1970-01-12', '1970-01-19', '1970-01-26']
    """
    moments = np.floor(times).astype(np.int64).astype("datetime64[s]")
    days = moments.astype("datetime64[D]")
    starts = {
        "hours": moments.astype("datetime64[h]"),
        "days": days,
        "weeks": days - (days - _MONDAY) % np.timedelta64(7, "D"),
        "months": moments.astype("datetime64[M]"),
        "years": moments.astype("datetime64[Y]"),
    }
    for words, start in starts.items():
        firsts = np.flatnonzero(np.append(True, start[1:] != start[:-1]))
        n = int((start[-1] - start[0]).astype(np.int64)) // (7 if words == "weeks" else 1) + 1
        if n <= MOST and len(times) >= _MEAN_ROWS * len(firsts):
            break
    found = start[firsts]
    if len(firsts) > MOST:  # years
        firsts, found = firsts[-MOST:], found[-MOST:]
        firsts[0] = 0  # the first of these has all years before it
    bounds = [*firsts.tolist(), len(times)]
    x = 1000.0 * found.astype("datetime64[s]").astype(np.float64)
    names = [str(each).replace("T", " ") + (":00" if words == "hours" else "") for each in found]
    return Periods(bounds, x, names, "time", words)


def time_in_words(seconds: float, zone: str) -> str:
    """Return a time to the minute; ``zone`` is "UTC", or "" if it is not known.

    Examples
    --------
    >>> time_in_words(90.0, "UTC"), time_in_words(90.0, "")
    ('1970-01-01 00:01 UTC', '1970-01-01 00:01')
    """
    moment = datetime.fromtimestamp(math.floor(seconds), UTC).replace(tzinfo=None)
    return f"{moment.isoformat(' ', 'minutes')} {zone}".strip()
