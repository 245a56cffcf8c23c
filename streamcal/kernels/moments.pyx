"""Times as seconds, with no call of Python for a `datetime` in UTC, one without a zone, or a float.

Microseconds since 1970 are counted in integers, and divided once: the seconds are those of
`datetime.timestamp` to the last bit. What is not obviously a time is left to the caller, who also
has the messages. So are times before 1684 or after 2255, whose microseconds are no floats.
"""

from cpython.datetime cimport (
    PyDateTime_CheckExact,
    datetime_day,
    datetime_hour,
    datetime_microsecond,
    datetime_minute,
    datetime_month,
    datetime_second,
    datetime_tzinfo,
    datetime_year,
    get_utc,
    import_datetime,
    timedelta_days,
    timedelta_microseconds,
    timedelta_seconds,
)
from cpython.float cimport PyFloat_CheckExact
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.math cimport fabs
from libc.stdint cimport int64_t

cdef extern from "Python.h":
    tuple PyType_GenericAlloc(type kind, Py_ssize_t n)

import_datetime()

LATEST = 1e300
"""The greatest number of seconds: between two of them there is no infinite time."""

cdef double MOST_SECONDS = LATEST
cdef int64_t MILLION = 1_000_000
cdef int64_t EXACT = <int64_t> 1 << 53  # integers up to this one are floats
cdef int[12] DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
cdef str AWARE = "aware"
cdef str NAIVE = "naive"
cdef str SECONDS = "seconds"


def read_moment(type moment not None, t):
    """Return seconds and kind of a time as a ``moment``, a kind of tuples; None: not obvious.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> read_moment(tuple, datetime(1970, 1, 2)), read_moment(tuple, datetime.now(UTC))[1]
    ((86400.0, 'naive'), 'aware')
    >>> read_moment(tuple, 0.5), read_moment(tuple, "noon")
    ((0.5, 'seconds'), None)
    """
    cdef double seconds = 0.0
    cdef str kind = read(t, &seconds)
    if kind is None:
        return None
    found = PyType_GenericAlloc(moment, 2)
    number = <object> seconds
    Py_INCREF(number)
    PyTuple_SET_ITEM(found, 0, number)
    Py_INCREF(kind)
    PyTuple_SET_ITEM(found, 1, kind)
    return found


def read_moments(list times not None, double[::1] seconds not None):
    """Write the seconds of times, and return their kind; None: not obvious, or not of one kind.

    Examples
    --------
    >>> import numpy as np
    >>> from datetime import datetime
    >>> seconds = np.empty(2)
    >>> read_moments([datetime(1970, 1, 1), datetime(1970, 1, 2)], seconds), seconds
    ('naive', array([    0., 86400.]))
    >>> read_moments([datetime(1970, 1, 1), 60.0], seconds)
    """
    cdef Py_ssize_t i
    cdef str first = None, kind
    if len(times) != seconds.shape[0]:
        raise ValueError(f"there must be {seconds.shape[0]} times, got {len(times)}")
    for i in range(seconds.shape[0]):
        if i >= len(times):  # the code of a zone has changed the list
            return None
        kind = read(times[i], &seconds[i])
        if kind is None or (i > 0 and kind is not first):
            return None
        first = kind
    return first


cdef str read(object t, double *seconds):
    """Write the seconds of a time, and return its kind; None: not obvious."""
    cdef int64_t count, offset = 0
    cdef int year
    cdef str kind = NAIVE
    if PyFloat_CheckExact(t):
        seconds[0] = <double> t
        return SECONDS if fabs(seconds[0]) <= MOST_SECONDS else None
    if not PyDateTime_CheckExact(t):
        return None
    zone = datetime_tzinfo(t)
    if zone is not None:
        kind = AWARE
        if zone is not get_utc():
            shift = t.utcoffset()
            if shift is None:
                return None
            offset = timedelta_days(shift) * <int64_t> 86_400 + timedelta_seconds(shift)
            offset = offset * MILLION + timedelta_microseconds(shift)
    year = datetime_year(t)
    count = days_before(year) + DAYS_BEFORE[datetime_month(t) - 1] + datetime_day(t) - 719_163
    if datetime_month(t) > 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        count += 1
    count = (count * 24 + datetime_hour(t)) * 60 + datetime_minute(t)
    count = (count * 60 + datetime_second(t)) * MILLION + datetime_microsecond(t) - offset
    if not -EXACT <= count <= EXACT:
        return None
    seconds[0] = <double> count / 1e6
    return kind


cdef inline int64_t days_before(int year) noexcept:
    """Return how many days come before a year; the first day of the year 1 is number 1."""
    cdef int64_t past = year - 1
    return past * 365 + past // 4 - past // 100 + past // 400
