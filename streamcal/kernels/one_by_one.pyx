"""Few samples of a key: a compiled call for each of them, in place of arrays.

A batch over a thousand keys has one or two samples of each. To take these out of the arrays of the
batch, check them and put the predictions back takes about forty calls of NumPy; a call of a
compiled method takes as long as one of them::

    positions of key b         1       4
    scores of the batch   .2  .7  .4  .1  .9
                              |       |
                          call(.7)  call(.9)
"""


cdef class OneByOne:
    """The samples of a batch, which were checked, and what is predicted of them.

    Parameters
    ----------
    scores, y, w : ndarray of shape (n_samples,)
        Scores, labels (NaN: unknown) and weights.
    out : ndarray of shape (n_samples,)
        Takes the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.zeros(3)
    >>> samples = OneByOne(np.array([0.2, 0.7, 0.4]), np.ones(3), np.ones(3), values)
    >>> samples.predict_learn(lambda score, y, w: score + y, [1, 2]), values
    (True, array([0. , 1.7, 1.4]))
    """

    cdef const double[::1] scores
    cdef const double[::1] y
    cdef const double[::1] w
    cdef double[::1] out

    def __init__(
        self, const double[::1] scores, const double[::1] y, const double[::1] w, double[::1] out
    ):
        if not scores.shape[0] == y.shape[0] == w.shape[0] == out.shape[0]:
            raise ValueError("scores, labels, weights and predictions must have the same length")
        self.scores, self.y, self.w, self.out = scores, y, w, out

    def predict_learn(self, call, list at not None):
        """Call ``call(score, y, w)`` for the samples at positions, and keep what it returns.

        Returns whether a label was known.
        """
        cdef Py_ssize_t i, n_samples = self.scores.shape[0]
        cdef double y
        cdef bint learned = False
        for position in at:
            i = position
            if not 0 <= i < n_samples:
                raise IndexError("positions must be those of samples")
            y = self.y[i]
            self.out[i] = call(self.scores[i], y, self.w[i])
            learned = learned or y == y
        return learned
