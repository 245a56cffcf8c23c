"""Few samples of many keys: a compiled call for each sample, in place of arrays.

A batch over a thousand keys has one or two samples of each. To take these out of the arrays of the
batch, check them and put the predictions back takes about forty calls of NumPy; a call of a
compiled method takes as long as one of them::

    positions of key b         1       4
    scores of the batch   .2  .7  .4  .1  .9
                              |       |
                          call(.7)  call(.9)
"""

from cpython.ref cimport PyObject

from streamcal.kernels.clock cimport check_times


cdef extern from "Python.h":
    PyObject *PyDict_GetItemWithError(object mapping, object key) except? NULL


def positions(keys):
    """Return the distinct keys in the order they appear, each with the positions of its samples.

    If a key cannot be one, because it has no hash, the position of that key is returned instead.

    Examples
    --------
    >>> positions(["b", "a", "b"]), positions(["b", ["a"]])
    ({'b': [0, 2], 'a': [1]}, 1)
    """
    cdef dict found = {}
    cdef PyObject *known
    cdef Py_ssize_t at = 0
    for key in keys:
        try:
            known = PyDict_GetItemWithError(found, key)
        except TypeError:
            return at
        if known == NULL:
            found[key] = [at]
        else:
            (<list>known).append(at)
        at += 1
    return found


cdef class OneByOne:
    """The samples of a batch, which were checked, and what is predicted of them.

    Parameters
    ----------
    scores, y, w : ndarray of shape (n_samples,)
        Scores, labels (NaN: unknown) and weights.
    out : ndarray of shape (n_samples,)
        Takes the predictions.
    seconds : ndarray of shape (n_samples,), optional
        The times of samples, which calls get after the weight.
    kind : str, optional
        The kind of these times.

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
    cdef const double[::1] seconds
    cdef object kind
    cdef bint timed

    def __init__(
        self,
        const double[::1] scores,
        const double[::1] y,
        const double[::1] w,
        double[::1] out,
        const double[::1] seconds=None,
        kind=None,
    ):
        if not scores.shape[0] == y.shape[0] == w.shape[0] == out.shape[0]:
            raise ValueError("scores, labels, weights and predictions must have the same length")
        check_times(seconds, scores.shape[0])
        self.scores, self.y, self.w, self.out = scores, y, w, out
        self.seconds, self.kind, self.timed = seconds, kind, seconds is not None

    def predict_learn(self, call, list at not None):
        """Call ``call(score, y, w)`` for the samples at positions, and keep what it returns.

        With times it is ``call(score, y, w, seconds)``.

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
            if self.timed:
                self.out[i] = call(self.scores[i], y, self.w[i], self.seconds[i])
            else:
                self.out[i] = call(self.scores[i], y, self.w[i])
            learned = learned or y == y
        return learned

    def predict_learn_live(self, dict groups, live, Py_ssize_t few, touch=None):
        """Predict and learn the samples of those keys that are in memory and have few of them.

        Parameters
        ----------
        groups : dict
            The positions of samples by key.
        live : dict
            By key, a calibrator and its call for a sample, or None in place of the call.
        few : int
            A list of fewer positions is learned here.
        touch : callable, optional
            Called with each key that is learned here.

        Returns
        -------
        others : list
            The keys that are left.
        unchanged : set
            The keys whose calibrators have only predicted.
        """
        cdef list others = []
        cdef set unchanged = set()
        cdef PyObject *found
        if not isinstance(live, dict):
            raise TypeError("live calibrators must be in a dict")
        for key, at in groups.items():
            if type(at) is not list or len(<list>at) >= few:
                others.append(key)
                continue
            found = PyDict_GetItemWithError(live, key)
            if found == NULL:
                others.append(key)
                continue
            calibrator, call = <object>found
            if call is None or (self.timed and calibrator._kind != self.kind):
                others.append(key)
                continue
            # Asked before the call: a prediction closes the burst.
            changes = self.is_labelled(<list>at) or calibrator._has_open_burst()
            self.predict_learn(call, <list>at)
            if not changes:
                unchanged.add(key)
            if touch is not None:
                touch(key)
        return others, unchanged

    cdef bint is_labelled(self, list at) except -1:
        """Return whether one of the samples has a label."""
        cdef Py_ssize_t i
        for position in at:
            i = position
            if not 0 <= i < self.y.shape[0]:
                raise IndexError("positions must be those of samples")
            if self.y[i] == self.y[i]:
                return True
        return False
