"""The time at which a sample is learned, for calibrators that forget by time.

A time is a `datetime` or a number of seconds from any origin. Compiled calibrators get seconds.
"""

import math
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from streamcal._validation import as_number

KINDS = ("seconds", "aware", "naive")
"""The kinds of times: numbers, and datetimes with and without a zone."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Time = datetime | float
"""A time: a `datetime` with or without a zone, or seconds from any origin, such as 1970."""


def as_seconds(t: Any) -> tuple[float, str]:
    """Return a time in seconds, and its kind: "seconds", "aware" or "naive"; or raise.

    A `datetime` without a zone counts as one in UTC. Times of two kinds can't be compared.

    Raises
    ------
    TypeError
        If it is no time.
    ValueError
        If it is not finite.

    Examples
    --------
    >>> as_seconds(datetime(1970, 1, 2))
    (86400.0, 'naive')
    >>> as_seconds(datetime(1970, 1, 2, tzinfo=UTC))
    (86400.0, 'aware')
    >>> as_seconds(60)
    (60.0, 'seconds')
    """
    if isinstance(t, np.datetime64) and not np.isnat(t):
        t = t.astype("datetime64[us]").item()
    if isinstance(t, datetime) and t == t:
        if t.tzinfo is None:
            return t.replace(tzinfo=UTC).timestamp(), "naive"
        return t.timestamp(), "aware"
    try:
        seconds = as_number(t, "t")
    except TypeError:
        raise TypeError(f"`t` must be a datetime or a number of seconds, got {t!r}") from None
    if not math.isfinite(seconds):
        raise ValueError(f"`t` must be a datetime or a finite number of seconds, got {t!r}")
    return seconds, "seconds"


def as_time_list(t: Any, n_samples: int) -> list[Any]:
    """Return the times of a batch, or raise: a sequence, an array or a Series.

    Examples
    --------
    >>> as_time_list(np.array(["1970-01-02"], "datetime64[D]"), 1)
    [datetime.datetime(1970, 1, 2, 0, 0)]
    """
    if isinstance(t, str | bytes) or not hasattr(t, "__len__"):
        raise TypeError(f"`t` must be a sequence of datetimes or of seconds, got {t!r}")
    if len(t) != n_samples:
        raise ValueError(f"`t` must have one time per score ({n_samples}), got {len(t)}")
    if isinstance(t, np.ndarray) and t.dtype.kind == "M":
        return list(t.astype("datetime64[us]").tolist())
    return list(t.tolist() if isinstance(t, np.ndarray) else t)


def check_times(times: Iterable[Any], kind: str | None = None) -> str | None:
    """Raise unless all are times of one kind, that of ``kind`` if it is given; return the kind.

    Examples
    --------
    >>> check_times([60, 60.5])
    'seconds'
    >>> check_times([60, datetime(1970, 1, 2)])
    Traceback (most recent call last):
    ...
    ValueError: `t` must be seconds, as those before, got naive at position 1
    """
    for at, t in enumerate(times):
        try:
            found = as_seconds(t)[1]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} at position {at}") from None
        if found != (kind := kind or found):
            raise ValueError(f"`t` must be {kind}, as those before, got {found} at position {at}")
    return kind


def pack_time(t: Time | None) -> list[Any] | None:
    """Return a time as JSON can hold it, for `unpack_time`.

    Examples
    --------
    >>> pack_time(datetime(1970, 1, 2))
    [86400.0, 'naive']
    """
    return None if t is None else list(as_seconds(t))


def unpack_time(packed: Any) -> Time | None:
    """Return the argument of `pack_time`, a zone as UTC; ``ValueError`` if there is none.

    Examples
    --------
    >>> unpack_time([86400.0, "naive"])
    datetime.datetime(1970, 1, 2, 0, 0)
    """
    if packed is None:
        return None
    if not isinstance(packed, list) or len(packed) != 2:
        raise ValueError(f"a time must be seconds and their kind, got {packed!r}")
    return time_from(*packed)


def time_from(seconds: Any, kind: Any) -> Time:
    """Return the time of which `as_seconds` has made seconds and kind; or ``ValueError``."""
    if type(seconds) is not float or not math.isfinite(seconds) or kind not in KINDS:
        raise ValueError(f"a time must be seconds and their kind, got {(seconds, kind)!r}")
    if kind == "seconds":
        return seconds
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError(f"a time must be of the years 1 to 9999, got {seconds!r}") from None
    return moment if kind == "aware" else moment.replace(tzinfo=None)
