"""The time by which a kernel forgets.

A kernel that forgets by time ages what it has learned when a sample comes, by the seconds since the
sample before. A time that goes back counts as equal to the newest one: streams are a little out of
order, and a service that runs can't refuse an event. Without a time (NaN) nothing ages. A kernel
that counts samples has no clock: NULL.
"""

from libc.math cimport INFINITY, NAN, exp2

from streamcal.kernels.memory cimport zeros


cdef struct Clock:
    double half_life  # in seconds; infinite: the time is kept for a window only
    double now  # the time of the newest sample, in seconds; NaN before the first one
    # What is left of older weights after the last gap: most gaps are equal on a steady stream.
    double gap
    double kept


cdef inline Clock *new_clock(double half_life) except? NULL:
    """Return a clock for a half-life in seconds, to be freed; NULL for none."""
    cdef Clock *clock
    if half_life == INFINITY:
        return NULL
    clock = <Clock *> zeros(1, sizeof(Clock))
    clock.half_life, clock.now, clock.kept = half_life, NAN, 1.0
    return clock


cdef inline double half_life_of(const Clock *clock) noexcept nogil:
    """Return the half-life in seconds; infinite if there is no clock."""
    return INFINITY if clock == NULL else clock.half_life


cdef inline double now_of(const Clock *clock) noexcept nogil:
    """Return the time of the newest sample; NaN if there is none."""
    return NAN if clock == NULL else clock.now


cdef inline void set_now(Clock *clock, double now) noexcept nogil:
    if clock != NULL:
        clock.now = now


cdef inline double passed_until(Clock *clock, double t) noexcept nogil:
    """Set a clock to the time of a sample; return how many seconds have passed."""
    cdef double passed
    if clock == NULL:
        return 0.0
    passed = t - clock.now
    if passed > 0.0:
        clock.now = t
        return passed
    if clock.now != clock.now:  # the first sample
        clock.now = t
    return 0.0


cdef inline double kept_until(Clock *clock, double t) noexcept nogil:
    """Set a clock to the time of a sample; return what is left of the weights of older ones."""
    cdef double passed = passed_until(clock, t)
    if passed == 0.0:
        return 1.0
    if passed != clock.gap:
        clock.gap, clock.kept = passed, exp2(-passed / clock.half_life)
    return clock.kept


cdef inline int check_times(const double[::1] times, Py_ssize_t n) except -1:
    """Raise unless there is a time for each of ``n`` samples, or no times at all."""
    if times is not None and times.shape[0] != n:
        raise ValueError(f"there must be {n} times, got {times.shape[0]}")
    return 0
