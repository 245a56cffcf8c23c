"""Maps of the probabilities of all labels, and matrix scaling, the strongest of them.

The logit of a label is a multiple of a log probability, plus a weighted sum of features::

    u_k = slope · z_k + Σ_j weights[j, k] · x_j      p = softmax(u)

The features are 1 and, for each label, none or some logs; those of labels without a probability are
0. With no logs there remain one slope and a bias for each label. At the start the slope is 1 and
the weights are 0, so p is the softmax of z. A new label adds a column, and features at the end.

The steps are Newton's. The curvature of the log loss is Σ (diag p − p pᵀ) ⊗ x xᵀ. Its first factor
is replaced by h = mean_k p_k (1 − p_k), so one matrix A serves all labels::

    A ← fade · A + w · h · x xᵀ,    weights_k ← weights_k − A⁻¹ x · w · (p_k − hit_k) / γ

A starts at prior · I. Its inverse is kept and updated (Sherman & Morrison 1950), so a sample costs
as much as A has entries. In a direction that the features never take, forgetting would make A⁻¹
grow without end. So a tenth of what the prior loses is restored, for one coordinate in turn.
Without a bound on w · h, rounding errors would make A⁻¹ indefinite, and then forgetting would make
it grow, too. So w is reduced where w · h · |x|² is above a million times the prior.
The slope takes a step of its own.
"""

cimport cython
from libc.math cimport log

from streamcal.kernels.hedge cimport Hedge
from streamcal.kernels.logistic cimport normalise, softmax
from streamcal.kernels.sums cimport dot

import numpy as np

from streamcal.kernels.expert import restored

cdef double SLOPE_GAMMA = 0.5
cdef double CURVATURE = 10.0  # of the slope, before the first sample
SLOPE_PRIOR = CURVATURE  # for Python
cdef double RESTORED = 0.1  # of the prior, after it was forgotten
cdef double MOST_CURVATURE = 1e6  # that a sample adds, in parts of the prior


cdef enum:
    ONE_VS_REST = 3  # its place among the maps: model, temperature, bias, this, two matrices


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

    cdef readonly Py_ssize_t n_labels
    cdef Py_ssize_t base  # the row of logs that the slope multiplies
    cdef Py_ssize_t n_rows  # of logs that are features
    cdef Py_ssize_t most  # labels that have weights
    cdef double gamma, prior, limit, fade, slope, slope_curvature
    cdef double[:, ::1] weights  # a row for each feature, a column for each label
    cdef double[::1] inverse  # of the curvature: its lower triangle, row by row
    cdef Py_ssize_t next_restored  # the direction whose prior curvature is restored next
    cdef double[::1] features, direction, column
    cdef double[::1] sums  # of weighted features, for each label

    def __cinit__(self, base, n_rows, gamma, prior, limit, fade, most):
        self.base, self.n_rows, self.most = base, n_rows, most
        self.gamma, self.prior, self.limit, self.fade = gamma, prior, limit, fade
        self.slope, self.slope_curvature = 1.0, CURVATURE
        self.allocate(np.zeros((1, 0)), np.array([1.0 / prior]))

    def allocate(self, double[:, ::1] weights, double[::1] inverse):
        cdef Py_ssize_t d = weights.shape[0], n_labels = weights.shape[1]
        cdef double[::1] features = np.zeros(d), direction = np.zeros(d), column = np.zeros(d)
        cdef double[::1] sums = np.zeros(n_labels)
        # Nothing is assigned before all memory is there.
        self.n_labels, self.weights, self.inverse, self.sums = n_labels, weights, inverse, sums
        self.features, self.direction, self.column = features, direction, column

    def grown(self, n_labels):
        """Return a copy with room for more labels, whose weights are 0, but not beyond the most."""
        n_labels = min(n_labels, self.most)
        d, old = 1 + self.n_rows * n_labels, np.asarray(self.weights)
        weights = np.zeros((d, n_labels))
        weights[: old.shape[0], : old.shape[1]] = old
        inverse = np.zeros(d * (d + 1) // 2)
        inverse[np.arange(d) * (np.arange(d) + 3) // 2] = 1.0 / self.prior
        inverse[: self.inverse.shape[0]] = self.inverse
        return restored(Matrix, self.settings(), (self.state()[0], weights, inverse))

    cdef void predict(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double *out
    ) noexcept nogil:
        """Write the probabilities of the labels at these places; places may be unknown.

        ``logs`` has a column for each place.
        """
        cdef Py_ssize_t n = places.shape[0], d = self.features.shape[0], i, k
        self.features[:] = 0.0
        self.features[0] = 1.0
        for k in range(n):
            if places[k] < self.n_labels:
                for i in range(self.n_rows):
                    self.features[1 + places[k] * self.n_rows + i] = logs[i, k]
        self.sums[:] = 0.0
        if self.n_labels:
            weigh(&self.weights[0, 0], &self.features[0], &self.sums[0], d, self.n_labels)
        for k in range(n):
            out[k] = self.slope * logs[self.base, k]
            if places[k] < self.n_labels:
                out[k] += self.sums[places[k]]
        softmax(out, n)

    cdef void learn(
        self, const double[:, ::1] logs, const Py_ssize_t[::1] places, double *errors, double w
    ) noexcept nogil:
        """Take one step; ``errors`` are p − hit of the last sample predicted."""
        cdef Py_ssize_t n = places.shape[0], i, k
        cdef double h = 0.0, gradient = 0.0, scale, size, bound, reduced = w
        for k in range(n):
            h += abs(errors[k]) * (1.0 - abs(errors[k]))  # the same for a hit and p
            gradient += errors[k] * logs[self.base, k]
        h /= n
        size = dot(&self.features[0], &self.features[0], self.features.shape[0])
        bound = MOST_CURVATURE * self.prior / size
        if w * h > bound:
            reduced = bound / h
        self.update_inverse(h, reduced, &scale)
        self.sums[:] = 0.0  # those of the prediction are no longer needed: now they are the steps
        for k in range(n):
            if places[k] < self.n_labels:
                self.sums[places[k]] = reduced * errors[k] / scale / self.gamma
        if self.n_labels:
            for i in range(self.features.shape[0]):
                step_row(
                    &self.weights[i, 0], &self.sums[0], self.direction[i], self.limit, self.n_labels
                )
        self.slope_curvature = CURVATURE + self.fade * (self.slope_curvature - CURVATURE)
        self.slope_curvature += w * gradient * gradient
        self.slope -= w * gradient / self.slope_curvature / SLOPE_GAMMA
        self.slope = min(max(self.slope, 1.0 / self.limit), self.limit)

    cdef void update_inverse(self, double h, double w, double *scale) noexcept nogil:
        """Add the features to the curvature, then restore some prior.

        Between the two, A⁻¹ x is ``direction / scale``: the step.
        """
        cdef Py_ssize_t d = self.features.shape[0], i, j, at = self.next_restored
        cdef const double *x = &self.features[0]
        cdef double *v = &self.direction[0]
        cdef double *c = &self.column[0]
        cdef double *row
        cdef double size = 0.0, gain, added, shrink, grown = 1.0 / self.fade, s, a, b
        for i in range(d):  # v = A⁻¹ x, by rows of the lower triangle
            row = &self.inverse[i * (i + 1) // 2]
            add(v, row, x[i], i)
            v[i] = dot(row, x, i + 1)
        for i in range(d):
            size += x[i] * v[i]
        scale[0] = self.fade + w * h * size
        gain = w * h / scale[0]
        for i in range(d):  # the column of the coordinate whose prior is restored
            s = self.inverse[i * (i + 1) // 2 + at if at <= i else at * (at + 1) // 2 + i]
            c[i] = (s - gain * v[i] * v[at]) * grown
        # Sherman & Morrison for ``added`` to one diagonal entry of A
        added = (1.0 - self.fade) * RESTORED * self.prior * d
        shrink = added / (1.0 + added * c[at]) if c[at] > 0.0 else 0.0
        for i in range(d):
            row = &self.inverse[i * (i + 1) // 2]
            a, b = gain * v[i] * grown, shrink * c[i]
            for j in range(i + 1):
                row[j] = row[j] * grown - a * v[j] - b * c[j]
        self.next_restored = (at + 1) % d

    # State ----------------------------------------------------------------------------------------

    def state(self):
        """Return what `restore` takes: three numbers, the weights and the inverse."""
        numbers = np.array([self.slope, self.slope_curvature, self.next_restored])
        return numbers, np.array(self.weights), np.array(self.inverse)

    def restore(self, numbers, weights, inverse):
        """Set the state to what `state` returned."""
        self.allocate(np.array(weights), np.array(inverse))
        self.slope, self.slope_curvature = numbers[:2]
        self.next_restored = int(numbers[2])

    def settings(self):
        """Return the parameters."""
        return self.base, self.n_rows, self.gamma, self.prior, self.limit, self.fade, self.most

    def __reduce__(self):
        return restored, (Matrix, self.settings(), self.state())


cdef inline void add(double *sums, const double *row, double x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        sums[j] += x * row[j]


cdef void weigh(
    const double *weights, const double *x, double *sums, Py_ssize_t d, Py_ssize_t n
) noexcept nogil:
    """Add the rows of a matrix, each times its feature; four at once cost half."""
    cdef Py_ssize_t i = 0, k
    cdef const double *a
    while i + 4 <= d:
        a = weights + i * n
        for k in range(n):
            sums[k] += (
                (x[i] * a[k] + x[i + 1] * a[n + k])
                + (x[i + 2] * a[2 * n + k] + x[i + 3] * a[3 * n + k])
            )
        i += 4
    while i < d:
        add(sums, weights + i * n, x[i], n)
        i += 1


cdef inline void step_row(
    double *row, const double *steps, double v, double limit, Py_ssize_t n
) noexcept nogil:
    """Take a step with a row of weights, up to the limit."""
    cdef Py_ssize_t k
    cdef double s
    for k in range(n):
        s = row[k] - v * steps[k]
        s = limit if s > limit else s
        row[k] = -limit if s < -limit else s


# All maps -----------------------------------------------------------------------------------------


cdef inline Py_ssize_t row_of_matrix(Py_ssize_t i) noexcept nogil:
    """Return the place of a matrix among the maps; one-vs-rest lies between the first two."""
    return i + 2 if i + 2 < ONE_VS_REST else i + 3


@cython.final
cdef class JointMaps:
    """The maps of a joint hedge, in the order in which it mixes them.

    One thread at a time may call it. ``raw`` and ``one_vs_rest`` have shape ``(n_labels,)``;
    ``places`` are the labels' places in the matrices.
    """

    cdef readonly object temperature
    cdef readonly tuple matrices
    cdef double clip
    cdef double[:, ::1] vectors  # of the last sample: probabilities of model and one-vs-rest
    cdef double[:, ::1] logs  # the logs of these, less their means
    cdef double[:, ::1] answers  # of each map

    def __cinit__(self, temperature, matrices, clip):
        self.temperature, self.matrices, self.clip = temperature, matrices, clip
        self.allocate(0)

    def allocate(self, n_labels):
        cdef double[:, ::1] vectors = np.empty((2, n_labels)), logs = np.empty((2, n_labels))
        cdef double[:, ::1] answers = np.empty((3 + len(self.matrices), n_labels))
        # Nothing is assigned before all memory is there.
        self.vectors, self.logs, self.answers = vectors, logs, answers

    cdef int compute_answers(self, raw, one_vs_rest, const Py_ssize_t[::1] places) except -1:
        """Compute logs and answers for a sample."""
        cdef const double[::1] given
        cdef Py_ssize_t n = places.shape[0], i, k
        cdef double mean
        if self.answers.shape[1] != n:
            self.allocate(n)
        for i in range(2):
            given = one_vs_rest if i else raw
            mean = 0.0
            for k in range(n):
                self.vectors[i, k] = min(max(given[k], self.clip), 1.0)
            normalise(&self.vectors[i, 0], n)
            for k in range(n):
                self.logs[i, k] = log(self.vectors[i, k])
                mean += self.logs[i, k] / n
            for k in range(n):
                self.logs[i, k] -= mean
        self.answers[0], self.answers[ONE_VS_REST] = self.vectors[0], self.vectors[1]
        self.temperature.predict(self.vectors[0], self.answers[1])
        for i in range(len(self.matrices)):
            (<Matrix> self.matrices[i]).predict(
                self.logs, places, &self.answers[row_of_matrix(i), 0]
            )
        return 0

    def predict(self, Hedge hedge, raw, one_vs_rest, places):
        """Return the mixture of all maps, clipped from below, by the weights of a hedge."""
        cdef Py_ssize_t i, k
        self.compute_answers(raw, one_vs_rest, places)
        mixture = np.zeros(self.answers.shape[1])
        cdef double[::1] out = mixture
        for i in range(self.answers.shape[0]):
            for k in range(out.shape[0]):
                out[k] += hedge.mixed[i] * max(self.answers[i, k], self.clip)
        normalise(&out[0], out.shape[0])
        return mixture

    def serve(self, Hedge hedge, raw, one_vs_rest, places):
        """Return `predict`, and a row for each label: all maps, then all mixtures of the hedge."""
        cdef Py_ssize_t i, j, k, n_maps
        cdef double[:, ::1] rows = hedge.rows()
        mixture = self.predict(hedge, raw, one_vs_rest, places)
        n_maps = self.answers.shape[0]
        kept = np.zeros((self.answers.shape[1], n_maps + rows.shape[0]))
        cdef double[:, ::1] out = kept
        for k in range(out.shape[0]):
            for i in range(n_maps):
                out[k, i] = min(self.answers[i, k], 1.0)
            for j in range(rows.shape[0]):
                for i in range(n_maps):
                    out[k, n_maps + j] += rows[j, i] * out[k, i]
                out[k, n_maps + j] = min(out[k, n_maps + j], 1.0)
        return mixture, kept

    def learn(self, raw, one_vs_rest, places, Py_ssize_t y, double w):
        """Teach the maps the label in column ``y``; return what they answered for it before."""
        cdef Py_ssize_t i
        cdef double *row
        cdef const Py_ssize_t[::1] at = places
        self.compute_answers(raw, one_vs_rest, places)
        answers = [self.answers[i, y] for i in range(self.answers.shape[0])]
        self.temperature.learn(self.vectors[0], y, w)
        for i in range(len(self.matrices)):
            row = &self.answers[row_of_matrix(i), 0]
            row[y] -= 1.0
            (<Matrix> self.matrices[i]).learn(self.logs, at, row, w)
        return answers

    def __reduce__(self):
        return JointMaps, (self.temperature, self.matrices, self.clip)
