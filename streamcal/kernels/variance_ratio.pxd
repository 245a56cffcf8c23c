cdef class VarianceRatio:
    cdef double[:, ::1] sums  # of each series over the last blocks, the open one first
    cdef double[::1] lengths  # of the blocks
    cdef double[:, ::1] long_run  # sums of S² / W over 1, 2, … blocks, one for each value
    cdef double[::1] at_once  # sums of z²
    cdef double[::1] totals  # sums of z
    cdef double[::1] spans  # sums of W over 1, 2, … blocks, one for each value
    cdef double n, n_closed  # values, those up to the last full block
    cdef double estimate, about_mean  # then

    cdef void add(self, const double *values, double weight, double delay) noexcept nogil
    cdef void close_block(self) noexcept nogil
    cdef double ratio(self, double delay, bint about_mean) noexcept nogil
    cdef bint has_values(self) noexcept nogil
