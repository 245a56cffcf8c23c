"""What a hedge asks and teaches: a compiled calibrator of probabilities.

A subclass says how one score is answered (`answer`) and how one sample is learned (`teach`). The
lock and the loops over many samples are here. Each method of Python may be called from any thread.
"""

import numpy as np


def restored(kind, settings, state):
    """Return the object that was pickled."""
    found = kind(*settings)
    found.restore(*state)
    return found


cdef class Expert:
    """The identity: it answers with the score and learns nothing. Subclasses do better."""

    def learn(self, double score, double y, double w):
        """Learn one sample, which must have been checked."""
        with self.lock:
            self.teach(score, y, w)

    def predict(self, double score):
        """Return the calibrated probability of a score, the score before anything is learned."""
        with self.lock:
            return self.answer(score)

    def predict_many(self, const double[::1] scores):
        """Return the calibrated probabilities of ``scores``."""
        cdef Py_ssize_t i
        answers = np.empty(scores.shape[0])
        cdef double[::1] out = answers
        with nogil, self.lock:
            for i in range(scores.shape[0]):
                out[i] = self.answer(scores[i])
        return answers

    def predict_learn_many(
        self, const double[::1] scores, const double[::1] y, const double[::1] w
    ):
        """Predict, then learn each sample; return the predictions."""
        cdef Py_ssize_t i
        cdef double score, label, weight
        if not scores.shape[0] == y.shape[0] == w.shape[0]:
            raise ValueError("scores, labels and weights must be as many")
        answers = np.empty(scores.shape[0])
        cdef double[::1] out = answers
        with nogil, self.lock:
            for i in range(scores.shape[0]):
                score, label, weight = scores[i], y[i], w[i]
                out[i] = self.answer(score)
                if is_sample(score, label, weight):
                    self.teach(score, label, weight)
        return answers

    def __reduce__(self):
        return type(self), ()

    cdef double answer(self, double score) noexcept nogil:
        """Return the probability for a score in [0, 1]."""
        return score

    cdef int teach(self, double score, double y, double w) except -1 nogil:
        """Learn a sample that has been checked."""
        return 0
