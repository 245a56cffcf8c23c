from libc.stdint cimport int64_t, uint32_t, uint64_t

from streamcal.kernels.hedge cimport Hedge


cdef enum:
    SPEEDS = 2  # of forgetting
    MODELS = 4  # one for each speed, then the sparse one of each speed
    ANSWERS = 5  # the base calibrator's, then one for each model
    MOST_TERMS = 1024  # of one sample
    MOST_FIELDS = 64


cdef struct Term:
    uint64_t key  # of the group and the values
    int64_t group
    double learned  # the number of samples when it last learned
    # What samples added to the prior's 1 / variance, and mean / variance.
    double precision[SPEEDS]
    double pull[SPEEDS]
    float prior[SPEEDS]  # the prior variance with which it was counted


cdef struct Found:  # a term of a sample
    uint64_t key
    Py_ssize_t place  # -1 for one that is not kept
    double mean[SPEEDS]  # now
    double variance[SPEEDS]


cdef struct Sample:
    double answers[ANSWERS]
    double x  # the slope's feature
    double log_odds[SPEEDS]  # without integrating over the uncertainty
    double variance[SPEEDS]  # of these
    Found *found  # the term of each group


cdef class SegmentTerms:
    cdef readonly tuple fields, crossings
    cdef readonly Py_ssize_t n_terms, max_terms
    cdef readonly int64_t n_samples, n_evicted
    cdef double half_life, rate, centre
    cdef uint64_t random
    cdef Py_ssize_t n_fields, n_groups, room, n_slots
    cdef Term *terms
    cdef uint32_t *slots  # a hash table of the places of terms plus 1; 0 is empty
    cdef double[::1] first_variances  # of the prior, by group, before a term has learned
    cdef double[:, ::1] prior_variances  # those learned, by group and speed
    cdef double[:, ::1] squares  # sums of mean² of all terms, by group and speed
    cdef double[:, ::1] effective  # numbers of terms: sums of what each knows
    cdef Py_ssize_t[::1] members  # the fields of all crossings
    cdef Py_ssize_t[::1] bounds  # where those of each crossing start
    cdef Sample sample

    cdef int read_to(self, x, uint64_t *out) except -1
    cpdef double mixture(self, Hedge hedge) noexcept nogil
    cdef void weigh(self, Hedge hedge, double y, double w, double delay) noexcept nogil
    cdef const uint64_t *hashes_of(self, bytes read) except NULL
    cdef void find_terms(self, const uint64_t *hashes) noexcept nogil
    cdef void predict_sample(self, double base) noexcept nogil
    cdef int learn_sample(
        self, const uint64_t *hashes, double base, double y, double w
    ) except -1 nogil
    cdef uint64_t key_of(self, Py_ssize_t group, const uint64_t *hashes) noexcept nogil
    cdef Py_ssize_t home(self, uint64_t key) noexcept nogil
    cdef Py_ssize_t find(self, uint64_t key) noexcept nogil
    cdef void moments(
        self, Py_ssize_t group, Py_ssize_t place, double *mean, double *variance
    ) noexcept nogil
    cdef void learned_part(
        self, Py_ssize_t group, Py_ssize_t place, double *precision, double *pull
    ) noexcept nogil
    cdef void update(
        self, Py_ssize_t group, double x, const double *pulls, const double *gains
    ) noexcept nogil
    cdef void count(self, Term *term, double sign) noexcept nogil
    cdef void learn_priors(self) noexcept nogil
    cdef Py_ssize_t add_term(self, uint64_t key, Py_ssize_t group) noexcept nogil
    cdef Py_ssize_t least_informative(self) noexcept nogil
    cdef double information(self, Py_ssize_t place) noexcept nogil
    cdef void insert(self, Py_ssize_t place) noexcept nogil
    cdef void remove(self, uint64_t key) noexcept nogil
    cdef int make_room(self, Py_ssize_t n_new) except -1 nogil
    cdef int fill_slots(self, Py_ssize_t n_slots) except -1 nogil
