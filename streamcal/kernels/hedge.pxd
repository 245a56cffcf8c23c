from streamcal.kernels.clock cimport Clock
from streamcal.kernels.exclusive cimport Exclusive
from streamcal.kernels.variance_ratio cimport VarianceRatio


cdef class Hedge(Exclusive):
    cdef readonly tuple experts
    cdef tuple order  # the experts, those first that may refuse a sample
    cdef Py_ssize_t n_asked_first  # how many these are
    cdef readonly Py_ssize_t n_samples
    cdef readonly Py_ssize_t n_labels  # of these samples: a group has several, any other one
    cdef public list held  # labels that wait for the next prediction
    cdef double clip
    cdef Py_ssize_t n_shares
    cdef Py_ssize_t raw  # the index of the expert that predicts the raw score, or -1
    # Of each row; 0 if it is given by time. For a share of 0 the logarithms of weights are kept.
    cdef double[::1] shares
    cdef double[::1] half_lives  # of the shares, in seconds; infinite: it counts samples; or None
    cdef Clock clock  # of the shares that are given by time
    cdef double passed  # seconds from the sample before to the one that is learned
    cdef double[::1] log_odds  # log weights of the rows, the largest 0, and that of the raw score
    cdef double[:, ::1] weights  # of the experts in each row
    cdef double[::1] powers  # of likelihoods in the rows; all 1 for immediate labels
    cdef VarianceRatio variance_ratio  # of the experts' losses; None until a label is late
    cdef double[::1] prior
    cdef double[::1] mixed  # the served weights of the experts
    cdef double[::1] answers
    cdef double[::1] current
    cdef double[::1] mixtures  # that were served
    cdef double[::1] gains

    cdef int expect_late_labels(self) except -1
    cdef int expect_no_late_labels(self) except -1
    cdef object teach_group(self, scores, double[::1] y, double w, moment)
    cdef object teach(self, Py_ssize_t n, double score, double y, double w, double t, make_time)
    cdef int run_part(self, calibrators, scores, y, w, delays, out, times, make_time) except -1
    cdef tuple run_one_by_one(
        self,
        const double[::1] scores,
        const double[::1] y,
        const double[::1] w,
        double[:, ::1] answers,
        const double[::1] times,
        make_time,
    )
    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0
    cdef double answer_of_row(self, Py_ssize_t k, const double *answers) noexcept nogil
    cdef void weigh(
        self,
        double *answers,
        const double *mixtures,
        double *current,
        double y,
        double w,
        double delay,
    ) noexcept nogil
    cdef void weigh_group(
        self,
        const double[:, ::1] served,
        const double[:, ::1] mixtures,
        const double[::1] y,
        double w,
        double delay,
    ) noexcept nogil
    cdef void pass_until(self, double t) noexcept nogil
    cdef void update(
        self, const double *logs, const double *current, double w, double delay
    ) noexcept nogil
    cdef void weigh_rows(
        self, Py_ssize_t start, const double *logs, double w, double power
    ) noexcept nogil
    cdef void distribute(self, Py_ssize_t k, double halves, double power) noexcept nogil
    cdef double prior_of_current(self) noexcept nogil
    cdef void mix(self) noexcept nogil
    cdef double mixture(self, const double *answers) noexcept nogil
