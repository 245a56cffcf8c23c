from libc.stdint cimport int64_t

from streamcal.kernels.score_index cimport Chunk, Node, Sample, ScoreIndex, Slot, summary_of


cdef class LabelIndex(ScoreIndex):
    cdef readonly int n_labels
    cdef readonly int64_t n_changes
    cdef bint late

    cdef int width
    cdef double *costs
    cdef double *losses
    cdef double *mixtures
    cdef int64_t *idle
    cdef int64_t n_mixtures
    cdef int64_t n_idle

    # What a subclass defines.
    cdef void summarise(self, Chunk *chunk) noexcept nogil
    cdef void find_ends(self, double *ends) noexcept nogil
    cdef int label_of(self, double score) noexcept nogil

    cdef const double *losses_of(self, const Slot *slot, double *w) noexcept nogil
    cdef double *weights_of(self, const Slot *slot) noexcept nogil
    cdef int reserve_mixture(self) except -1 nogil
    cdef double *mix(self, Slot *slot) noexcept nogil
    cdef void release_mixture(self, const Slot *slot) noexcept nogil
    cdef void sum_losses(self, double *weights) noexcept nogil
    cdef void settle_mixture(self, Slot *slot) noexcept nogil

    cdef void subtract_weight(self, Slot *slot, const Sample *sample) noexcept nogil

    cdef bint find_thresholds(self, double *out) noexcept nogil
    cdef double threshold_above(self, double below) noexcept nogil
    cdef double risk_of(
        self, const double *thresholds, double *weight, bint *integers
    ) noexcept nogil


cdef inline double *numbers_of(Node *node) noexcept nogil:
    """Return the summary behind a node or a chunk, where it consists of floats."""
    return <double *> summary_of(node)
