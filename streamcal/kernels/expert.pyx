"""The base class of compiled calibrators of probabilities, which a hedge calls without Python.

A subclass defines the prediction for one score (`answer`) and the update by one sample (`teach`).
This class has the lock and the loops over many samples. Any thread may call its Python methods.
"""

from libc.math cimport NAN

from streamcal.kernels.clock cimport check_times
from streamcal.kernels.exclusive cimport Shared
from streamcal.kernels.samples cimport check_lengths, is_sample

import sys

import numpy as np

from streamcal.kernels.exclusive import no_fork


# Of an array that a compiled object keeps, beside its numbers: its objects of NumPy and of Cython.
VIEW_BYTES = sys.getsizeof(np.empty(0)) + type(view_of(np.empty(0))).__basicsize__


cdef object view_of(const double[::1] array):
    return array


def restored(kind, settings, state):
    """Return the object that was pickled."""
    found = kind(*settings)
    found.restore(*state)
    return found


cdef class Expert(Shared):
    """The identity: it predicts the score and learns nothing."""

    def learn(self, double score, double y, double w, double t=NAN):
        """Learn one sample that has been checked; ``t`` is its time in seconds, NaN without one."""
        with self.lock:
            self.teach(score, y, w, t)

    def predict(self, double score):
        """Return the calibrated probability of a score; before anything is learned, the score."""
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

    def predict_learn(self, double score, double y, double w, double t=NAN):
        """Predict, then learn a sample that has been checked; if ``y`` is NaN, only predict.

        ``t`` is its time in seconds, NaN without one.
        """
        cdef double answer
        with self.lock:
            answer = self.answer(score)
            if y == y:
                self.teach(score, y, w, t)
        return answer

    def predict_learn_many(
        self,
        const double[::1] scores,
        const double[::1] y,
        const double[::1] w,
        const double[::1] times=None,
    ):
        """Predict, then learn each sample; return the predictions."""
        cdef Py_ssize_t i
        cdef double score, label, weight
        cdef bint timed = times is not None
        check_lengths(scores, y, w)
        check_times(times, scores.shape[0])
        answers = np.empty(scores.shape[0])
        cdef double[::1] out = answers
        with no_fork, nogil, self.lock:
            for i in range(scores.shape[0]):
                score, label, weight = scores[i], y[i], w[i]
                out[i] = self.answer(score)
                if is_sample(score, label, weight):
                    self.teach(score, label, weight, times[i] if timed else NAN)
        return answers

    def __reduce__(self):
        return type(self), ()

    cdef double answer(self, double score) except? -1.0 nogil:
        """Return the probability for a score in [0, 1]."""
        return score

    cdef int teach(self, double score, double y, double w, double t) except -1 nogil:
        """Learn a sample that has been checked, at a time in seconds or NaN."""
        return 0
