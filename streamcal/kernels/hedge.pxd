cimport cython

from streamcal.kernels.variance_ratio cimport VarianceRatio


cdef class Hedge:
    cdef cython.pymutex lock
    cdef unsigned long owner  # the thread that has the lock, 0 if none
    cdef readonly tuple experts
    cdef readonly Py_ssize_t n_learned
    cdef double clip
    cdef Py_ssize_t n_shares
    cdef Py_ssize_t raw  # the place of the expert that answers with the raw score, or -1
    cdef double[::1] shares  # of each row; 0: its weights are kept as logarithms
    cdef double[::1] log_odds  # log weights of the rows, the largest 0, and that of the raw score
    cdef double[:, ::1] weights  # of the experts in each row
    cdef double[::1] powers  # of likelihoods in the rows; all 1 where labels come at once
    cdef VarianceRatio variance_ratio  # of the experts' losses; None until a label comes late
    cdef double[::1] prior
    cdef double[::1] mixed  # weights of the experts in what is served
    cdef double[::1] answers
    cdef double[::1] gains

    cdef int enter(self) except -1
    cdef void leave(self) noexcept
    cpdef int expect_late_labels(self) except -1
    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0
    cdef double answer_of_row(self, Py_ssize_t k, double *answers) noexcept nogil
    cdef void weigh(
        self, double *answers, const double *mixes, double y, double w, double delay
    ) noexcept nogil
    cdef void weigh_rows(
        self, Py_ssize_t start, const double *logs, double w, double power
    ) noexcept nogil
    cdef void mix(self) noexcept nogil
    cdef double clipped(self, double answer) noexcept nogil
