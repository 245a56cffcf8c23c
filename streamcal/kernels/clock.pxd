"""The time by which a kernel forgets.

A kernel that forgets by time ages what it has learned when a sample comes, by the seconds since the
sample before. A time that goes back counts as equal to the newest one: streams are a little out of
order, and a service that runs can't refuse an event. Without a time (NaN) nothing ages.
"""

from libc.math cimport INFINITY


cdef struct Clock:
    double half_life  # in seconds; infinite: time does not matter
    double now  # the time of the newest sample, in seconds; NaN before the first one


cdef inline double halves_until(Clock *clock, double t) noexcept nogil:
    """Set a clock to the time of a sample; return how many half-lives have passed."""
    cdef double passed = t - clock.now
    if clock.half_life == INFINITY:
        return 0.0
    if passed > 0.0:
        clock.now = t
        return passed / clock.half_life
    if clock.now != clock.now:  # the first sample
        clock.now = t
    return 0.0


cdef inline int check_times(const double[::1] times, Py_ssize_t n) except -1:
    """Raise unless there is a time for each of ``n`` samples, or no times at all."""
    if times is not None and times.shape[0] != n:
        raise ValueError(f"there must be {n} times, got {times.shape[0]}")
    return 0
