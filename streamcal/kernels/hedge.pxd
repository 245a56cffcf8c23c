from streamcal.kernels.exclusive cimport Exclusive


cdef class Hedge(Exclusive):
    cdef readonly tuple experts
    cdef readonly Py_ssize_t n_samples
    cdef double clip
    cdef double[::1] shares  # for a share of 0 the logarithms of the weights are kept
    cdef double[::1] log_odds  # log weights of the shares, the largest 0
    cdef double[:, ::1] weights  # of the experts under each share
    cdef double[::1] prior
    cdef double[::1] mixed  # the served weights of the experts
    cdef double[::1] answers

    cdef Py_ssize_t run_part(
        self, calibrators, scores, y, w, double learning_rate, out
    ) except -1
    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0
    cdef void weigh(self, double *answers, double y, double power) noexcept nogil
    cdef void mix(self) noexcept nogil
    cdef double clipped(self, double answer) noexcept nogil
