"""Matrix scaling, learned sample by sample: logits of all labels from the logs of all labels.

The logit of a label is a multiple of its log probability, plus a weighted sum of features::

    u_k = slope · z_k + Σ_j weights[k, j] · x_j      p = softmax(u)

The features are 1 and, for each label, none or some logs; those of labels without a probability are
0. With no logs there remain one slope and a bias for each label. At the start the slope is 1 and
the weights are 0, so p is the softmax of z. A new label adds a row, and features at the end.

The steps are Newton's. The curvature of the log loss is Σ (diag p − p pᵀ) ⊗ x xᵀ. It is replaced by
A for each label, with the mean of p_k (1 − p_k) over the labels for the first factor::

    A ← fade · A + w · h · x xᵀ,    weights_k ← weights_k − A⁻¹ x · w · (p_k − hit_k) / γ

A starts at prior · I. Its inverse is kept and updated (Sherman & Morrison 1950), so a sample costs
as much as A has entries. In a direction that the features never take, forgetting would make A⁻¹
grow without end. So what the prior loses is restored, in each step for one coordinate in turn.
The slope takes a step of its own.
"""

cimport cython
from libc.math cimport INFINITY, exp

import numpy as np

from streamcal.kernels.expert import restored

cdef double SLOPE_GAMMA = 0.5
cdef double SLOPE_PRIOR = 10.0


@cython.final
cdef class Matrix:
    """A matrix of weights for a growing number of labels; one thread at a time may call it.

    Parameters
    ----------
    base : int
        The row of logs that the slope multiplies.
    n_rows : int
        The number of rows of logs that are features.
    gamma, prior : float
        Inverse step size, and curvature before the first sample.
    limit : float
        Weights stay in [-limit, limit], the slope in [1 / limit, limit].
    fade : float
        The factor of earlier curvature at each sample.
    most : int
        The most labels that have weights.
    """

    def __cinit__(self, base, n_rows, gamma, prior, limit, fade, most):
        self.base, self.n_rows, self.most = base, n_rows, most
        self.gamma, self.prior, self.limit, self.fade = gamma, prior, limit, fade
        self.slope, self.slope_curvature = 1.0, SLOPE_PRIOR
        self.allocate(0, np.zeros((0, 1)), np.array([1.0 / prior]))

    def allocate(self, n_labels, weights, inverse):
        d = 1 + self.n_rows * n_labels
        self.weights, self.inverse = weights, inverse
        self.features, self.direction, self.column = np.zeros(d), np.zeros(d), np.zeros(d)
        self.features[0] = 1.0
        self.errors = np.zeros(n_labels)
        self.n_labels = n_labels

    def grow(self, n_labels):
        """Make room for more labels, whose weights are 0; there is none for labels beyond the most.
        """
        n_labels = min(n_labels, self.most)
        d, old = 1 + self.n_rows * n_labels, np.asarray(self.weights)
        weights = np.zeros((n_labels, d))
        weights[: old.shape[0], : old.shape[1]] = old
        inverse = np.zeros(d * (d + 1) // 2)
        inverse[np.arange(d) * (np.arange(d) + 3) // 2] = 1.0 / self.prior
        inverse[: self.inverse.shape[0]] = self.inverse
        self.allocate(n_labels, weights, inverse)

    def predict(self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double[::1] out):
        """Write the probabilities of the labels at these places; places may be unknown.

        ``logs`` has a column for each place.
        """
        self.softmax(logs, places, out)

    def learn(self, const double[:, ::1] logs, const Py_ssize_t[::1] places, Py_ssize_t y, double w):
        """Take one step towards the label in column ``y``."""
        cdef double h = 0.0, gradient = 0.0
        cdef Py_ssize_t k
        if self.errors.shape[0] < places.shape[0]:
            self.errors = np.zeros(places.shape[0])
        self.softmax(logs, places, self.errors)
        for k in range(places.shape[0]):
            h += self.errors[k] * (1.0 - self.errors[k])
            self.errors[k] -= k == y
            gradient += self.errors[k] * logs[self.base, k]
        self.step(places, h / places.shape[0], w)
        self.slope_curvature = SLOPE_PRIOR + self.fade * (self.slope_curvature - SLOPE_PRIOR)
        self.slope_curvature += w * gradient * gradient
        self.slope -= w * gradient / self.slope_curvature / SLOPE_GAMMA
        self.slope = min(max(self.slope, 1.0 / self.limit), self.limit)

    cdef Py_ssize_t fill(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places
    ) noexcept nogil:
        """Write the features of a sample."""
        cdef Py_ssize_t i, k
        for i in range(1, self.features.shape[0]):
            self.features[i] = 0.0
        for k in range(places.shape[0]):
            for i in range(self.n_rows if places[k] < self.n_labels else 0):
                self.features[1 + places[k] * self.n_rows + i] = logs[i, k]
        return self.features.shape[0]

    cdef void softmax(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double[::1] out
    ) noexcept nogil:
        cdef Py_ssize_t d = self.fill(logs, places), i, k
        cdef const double *weights
        cdef double top = -INFINITY, total = 0.0, u
        for k in range(places.shape[0]):
            u = self.slope * logs[self.base, k]
            if places[k] < self.n_labels:
                weights = &self.weights[places[k], 0]
                for i in range(d):
                    u += weights[i] * self.features[i]
            out[k] = u
            top = max(top, u)
        for k in range(places.shape[0]):
            out[k] = exp(out[k] - top)
            total += out[k]
        for k in range(places.shape[0]):
            out[k] /= total

    cdef void step(self, const Py_ssize_t[::1] places, double h, double w) noexcept nogil:
        """Update the inverse by the features, and the weights by the errors."""
        cdef Py_ssize_t d = self.features.shape[0], i, j, k, at = self.next_restored
        cdef double *x = &self.features[0]
        cdef double *v = &self.direction[0]
        cdef double *c = &self.column[0]
        cdef double *row
        cdef double size = 0.0, rest, lost, gain, loss, pull, s
        for i in range(d):  # v = A⁻¹ x, from the lower triangle
            row = &self.inverse[i * (i + 1) // 2]
            s = row[i] * x[i]
            for j in range(i):
                s += row[j] * x[j]
                v[j] += row[j] * x[i]
            v[i] = s
        for i in range(d):
            size += x[i] * v[i]
        rest = self.fade + w * h * max(size, 0.0)
        gain = w * h / rest
        lost = (1.0 - self.fade) * self.prior * d
        for i in range(d):  # the column of the coordinate whose prior is restored
            row = &self.inverse[i * (i + 1) // 2]
            s = row[at] if at <= i else self.inverse[at * (at + 1) // 2 + i]
            c[i] = (s - gain * v[i] * v[at]) / self.fade
        loss = lost / (1.0 + lost * max(c[at], 0.0))
        for i in range(d):
            row = &self.inverse[i * (i + 1) // 2]
            for j in range(i + 1):
                row[j] = (row[j] - gain * v[i] * v[j]) / self.fade - loss * c[i] * c[j]
            row[i] = max(row[i], 0.0)
        self.next_restored = (at + 1) % d
        for k in range(places.shape[0]):
            if places[k] >= self.n_labels:
                continue
            row = &self.weights[places[k], 0]
            pull = w * self.errors[k] / rest / self.gamma
            for i in range(d):
                s = row[i] - pull * v[i]
                row[i] = min(max(s, -self.limit), self.limit)

    # ------------------------------------------------------------------ state

    def state(self):
        """Return what `restore` takes: three numbers, the weights and the inverse."""
        numbers = np.array([self.slope, self.slope_curvature, self.next_restored])
        return numbers, np.array(self.weights), np.array(self.inverse)

    def restore(self, numbers, weights, inverse):
        """Set the state to what `state` returned."""
        self.slope, self.slope_curvature = numbers[:2]
        self.next_restored = int(numbers[2])
        self.allocate(len(weights), np.array(weights), np.array(inverse))

    def __reduce__(self):
        settings = (
            self.base, self.n_rows, self.gamma, self.prior, self.limit, self.fade, self.most,
        )
        return restored, (Matrix, settings, self.state())
