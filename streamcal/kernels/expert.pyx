"""What a hedge asks and teaches: a calibrator of probabilities that is compiled."""


cdef class Expert:
    """The identity: it answers with the score and learns nothing. Subclasses do better."""

    cdef double answer(self, double score) noexcept nogil:
        """Return the probability for a score in [0, 1]."""
        return score

    cdef int teach(self, double score, double y, double w) except -1 nogil:
        """Learn a sample that has been checked."""
        return 0
