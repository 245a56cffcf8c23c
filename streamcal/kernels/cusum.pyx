"""Ordinal learners by cumulative sums: one decoding and one update for all of them.

K ranks have K − 1 boundaries between them, and boundary k has weights w_k. With z_k = w_k · x the
score of rank r is the sum of z_k over the boundaries below it, the decoded rank is the argmax, and
a step moves the boundaries between the true and the decoded rank (*Cumulative Sum Ranking*, arXiv
1911.11255). PRank is the case in which all boundaries share one direction and differ in a bias::

    boundary          0     1     2
    z              1.5    .5  −2.0
    rank        0     1     2     3
    score       0   1.5   2.0     0      2 is decoded; if 0 is true, the boundaries 0 and 1 move
                                         away from x, by one step each

*Weights.* A feature has a row: its weight at every boundary, or one weight where the direction is
shared; so a sample with few features touches few rows. Row 0 stays zero: it stands for a feature
that was never learned. With averaging each row, and the bias of the boundaries, is followed by as
many numbers of its *lag*.

*Shrinkage and averages* take no time per weight. The weights are ``scale`` times the stored numbers
V, and the weights after sample t enter their average with the factor ``count``, so that

    Σ_t count_t · scale_t · V_t  =  mass · V − lag,     lag = Σ_t mass_{t−1} · ΔV_t,

where ``mass`` is the sum of count · scale and ``total`` that of count: the average is (mass · V −
lag) / total. Before ``scale`` is so small that mass · V and lag nearly cancel, their difference
becomes the lag and ``mass`` starts again from 0. A half-life lets ``count`` grow; before it
overflows, all of these are scaled down.

*Probabilities.* The margin of boundary k is the best score of a rank above it, less the best score
of one below. A ring buffer holds the margins, rank and weight of the last ``window`` samples. One
isotonic regression for each boundary learns from it how often a margin was followed by a rank
above. The regressions learn the new samples in the ring when probabilities are requested.

`streamcal.kernels.boundary_weights` has the memory of rows and what a new label makes of them,
`streamcal.kernels.rank_probabilities` the probabilities of ranks.

*Samples* are dicts. The row of a feature is looked up, unless the previous dict had the same
feature in the same position.
"""

cimport cython
from libc.math cimport INFINITY, NAN, fabs, frexp, ldexp, rint
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import copy
from bisect import bisect_left

import numpy as np

from streamcal.kernels.boundary_weights cimport (
    Layout, extend, free_layout, rescale, split, split_margins,
)
from streamcal.kernels.exclusive cimport Exclusive
from streamcal.kernels.isotonic cimport IsotonicRegression
from streamcal.kernels.memory cimport resize, zeros
from streamcal.kernels.rank_probabilities cimport row_probabilities
from streamcal.kernels.samples cimport can_be_learned

from streamcal.kernels.exclusive import no_fork
from streamcal.kernels.expert import restored
from streamcal.kernels.rank_probabilities import class_probabilities

# The ranges that ``scale`` and ``count`` are kept in.
LEAST_SCALE, MOST_COUNT = 2.0**-10, 2.0**50

cdef double least_scale = LEAST_SCALE, most_count = MOST_COUNT
cdef int GRID = -30  # margins are multiples of 2**GRID of the largest number they come from
cdef double LEAST_SQUARES = 1e-120  # of a sample that a passive-aggressive step can be scaled to
cdef double MOST_SCORE = 1e300  # beyond it margins are not distinguished
cdef Py_ssize_t FIRST_ROWS = 8, FIRST_RING = 16

cpdef enum:
    PERCEPTRON = 0
    PA = 1
    PA_I = 2
    PA_II = 3


cdef struct Settings:
    int rule
    bint shared  # whether all boundaries share their direction
    bint biased  # whether boundaries have a bias
    bint last  # whether the last of equal scores is decoded
    bint wide  # whether boundaries below the rank that are at exactly zero move up: published PRank
    bint averaged
    double growth  # of ``count``, a sample
    double keep  # what a sample leaves of the weights: 1 − l2
    double margin  # how much of the task loss is added to a score while learning
    double delta  # the margin that a passive-aggressive step attains
    double C  # its aggressiveness
    double largest  # of a value of a feature


@cython.final
cdef class CuSum(Exclusive):
    """Weights of the boundaries between ranks, learned from dicts of features and labels.

    Parameters
    ----------
    settings : dict
        What is in the struct.
    labels : list
        Initial labels, in the order of their ranks; later labels are ranked by value.
    task : TaskLoss
    window : int
        How many samples the regressions learn from.
    empty : IsotonicRegression
        One that has learned nothing, to be copied for each boundary.
    """

    cdef Settings settings
    cdef object task
    cdef IsotonicRegression empty
    cdef readonly list labels  # in the order of their ranks; never changed, but replaced
    cdef readonly dict ranks  # of labels; never changed, but replaced
    cdef dict rows  # of features, in the order in which they were learned
    cdef list free  # rows that were given back
    cdef Py_ssize_t n_rows, room
    cdef Layout own

    cdef double scale, count, mass, total
    cdef readonly double rank_loss
    cdef readonly int64_t n_samples

    cdef Py_ssize_t window, n_recent, oldest, ring_room
    cdef Py_ssize_t n_untaught  # of the last samples the regressions have not learned so many
    cdef list regressions  # one for each boundary; none before the first request of probabilities

    cdef list names  # of the features in the last dict
    cdef Py_ssize_t *places  # their rows
    cdef double *values
    cdef Py_ssize_t n, n_unknown, sample_room

    def __cinit__(self, settings, list labels, task, Py_ssize_t window, empty):
        self.settings = settings
        self.task, self.empty, self.window = task, empty, window
        self.scale = self.count = 1.0
        self.rows, self.free, self.names, self.regressions = {}, [], [], []
        self.n_rows, self.room, self.ring_room = 1, FIRST_ROWS, 1
        self.make_sample_room(FIRST_ROWS)
        self.allocate(&self.own, labels)
        self.labels, self.ranks = labels, ranks_of(labels)

    def __dealloc__(self):
        free_layout(&self.own)
        free(self.places)
        free(self.values)

    def __sizeof__(self):
        cdef Layout *own = &self.own
        cdef Py_ssize_t n = own.n_labels * (own.n_labels + 3) + 2 * own.parts * own.bounds
        n += self.room * own.stride + self.ring_room * (own.bounds + 2) + 2 * self.sample_room
        return object.__sizeof__(self) + n * sizeof(double)

    # One sample -----------------------------------------------------------------------------------

    def learn(self, dict x not None, y, double w, bint new=False):
        """Learn a sample; return False, unchanged, for a label that is not known.

        With ``new`` an unknown label is added. A value that is not a number, or too large, raises
        ``TypeError``, ``ValueError`` or ``OverflowError``; nothing is learned then.
        """
        self.acquire()
        try:
            known = self.ranks.get(y)
            if known is None and not new:
                return False
            self.read(x)
            self.make_ring_room(1)
            if self.n_unknown:
                self.make_room(self.n_unknown)
            if known is None:
                self.insert(y)
                known = self.ranks[y]
            if self.n_unknown:
                self.assign_rows()
            self.learn_row(self.values, known, w, True, 0)
            return True
        finally:
            self.release()

    def learn_atom(self, dict x not None, y, double w, atom):
        """Learn a sample given by its products with features; return whether it was mistaken.

        The step is a multiple of the unit vector of the feature ``atom``, which is how a dual
        learner counts its samples.
        """
        cdef Py_ssize_t row
        self.acquire()
        try:
            self.read(x)
            self.make_ring_room(1)
            row = self.rows.get(atom) or self.next_row()
            if y not in self.ranks:
                self.insert(y)
            moved = self.learn_row(self.values, self.ranks[y], w, True, row)
            if moved and atom not in self.rows:
                self.assign_row(atom)
            return moved
        finally:
            self.release()

    def forget(self, feature):
        """Forget a feature and its weights."""
        cdef Py_ssize_t i, row
        self.acquire()
        try:
            row = self.rows.pop(feature)
            memset(self.own.rows + self.own.stride * row, 0, self.own.stride * sizeof(double))
            self.free.append(row)
            for i in range(self.sample_room):
                self.places[i] = 0
        finally:
            self.release()

    def predict(self, dict x not None):
        """Return the label whose cumulative score is highest, None before anything is learned.

        Raises as `learn`.
        """
        self.acquire()
        try:
            self.read(x)
            if not self.n_samples:
                return None
            self.multiply(self.values)
            return self.labels[self.decode_served()]
        finally:
            self.release()

    def probabilities(self, dict x not None):
        """Return the calibrated probability of each label; raises as `learn`."""
        cdef Layout *own = &self.own
        cdef Py_ssize_t k
        self.acquire()
        try:
            self.read(x)
            if not self.n_samples:
                return {}
            if own.n_labels < 2:
                return dict.fromkeys(self.labels, 1.0)
            self.multiply(self.values)
            self.find_margins(own.margins)
            self.calibrate(own.margins, 1)
            row_probabilities(own.margins, own.bounds, self.n_recent, own.scores, own.sizes)
            return {label: own.scores[k] for k, label in enumerate(self.labels)}
        finally:
            self.release()

    # Many samples ---------------------------------------------------------------------------------

    def learn_many(self, features, const double[:, ::1] X, list labels, const double[::1] w):
        """Learn samples in order, one for each row of ``X``; unknown labels are added."""
        cdef Py_ssize_t n = X.shape[0]
        with no_fork:
            self.acquire()
            try:
                self.read_names(features)
                self.make_room(self.n_unknown)
                self.make_ring_room(n)
                self.assign_rows()
                self.learn_stretches(X, labels, w, np.empty(n, np.intp))
            finally:
                self.release()

    cdef int learn_stretches(
        self, const double[:, ::1] X, list labels, const double[::1] w, Py_ssize_t[::1] ranks
    ) except -1:
        """Learn runs of samples; each run but the first begins with an unknown label."""
        cdef Py_ssize_t i, start = 0, stop, n = X.shape[0]
        cdef double weight
        while start < n:
            if labels[start] not in self.ranks:
                self.insert(labels[start])
            stop = start
            while stop < n:
                known = self.ranks.get(labels[stop])
                if known is None:
                    break
                ranks[stop] = known
                stop += 1
            with nogil:
                for i in range(start, stop):
                    weight = w[i]
                    if self.copy_row(X, i) and can_be_learned(0.0, weight):
                        self.learn_row(self.values, ranks[i], weight, i >= n - self.window, 0)
            start = stop
        return 0

    def predict_many(self, features, const double[:, ::1] X):
        """Return the decoded label of each row, None before anything is learned."""
        cdef Py_ssize_t i, n = X.shape[0]
        cdef Py_ssize_t[::1] ranks = np.empty(n, np.intp)
        self.acquire()
        try:
            if not self.n_samples:
                return [None] * n
            self.read_names(features)
            with nogil:
                for i in range(n):
                    self.multiply(self.row_of(X, i))
                    ranks[i] = self.decode_served()
            return [self.labels[ranks[i]] for i in range(n)]
        finally:
            self.release()

    def probabilities_many(self, features, const double[:, ::1] X):
        """Return the labels, and the probabilities of each row, shape ``(n_samples, n_labels)``."""
        cdef Py_ssize_t i, n = X.shape[0], n_recent
        cdef double[:, ::1] above
        self.acquire()
        try:
            labels = self.labels if self.n_samples else ()
            out = np.ones((n, len(labels)))
            if not n or len(labels) < 2:
                return labels, out
            self.read_names(features)
            margins = np.empty((n, self.own.bounds))
            above = margins
            with nogil:
                for i in range(n):
                    self.multiply(self.row_of(X, i))
                    self.find_margins(&above[i, 0])
            self.calibrate(&above[0, 0], n)
            n_recent = self.n_recent
        finally:
            self.release()
        class_probabilities(margins, n_recent, out)
        return labels, out

    cdef bint copy_row(self, const double[:, ::1] X, Py_ssize_t i) noexcept nogil:
        """Copy a row, which another thread may write to; return whether its values are in range."""
        cdef Py_ssize_t j
        cdef bint good = True
        for j in range(X.shape[1]):
            self.values[j] = X[i, j]
            good &= fabs(self.values[j]) <= self.settings.largest
        return good

    cdef const double *row_of(self, const double[:, ::1] X, Py_ssize_t i) noexcept nogil:
        return &X[i, 0] if X.shape[1] else self.values

    # Reading samples ------------------------------------------------------------------------------

    cdef int read(self, dict x) except -1:
        """Read the values of a sample and the rows of its features."""
        cdef Py_ssize_t i = 0, n = len(x)
        cdef double value
        if n > self.sample_room:
            self.make_sample_room(n)
        self.n_unknown = 0
        for name, number in x.items():
            value = number
            if not fabs(value) <= self.settings.largest:
                raise ValueError("a value is too large or NaN")
            if i == n:
                raise RuntimeError("the sample has changed")
            self.values[i] = value
            if self.places[i] == 0 or self.names[i] is not name:
                self.look_up(i, name)
            i += 1
        self.n = i
        return 0

    cdef int read_names(self, features) except -1:
        """Read the features of the columns of a matrix."""
        cdef Py_ssize_t i
        if len(features) > self.sample_room:
            self.make_sample_room(len(features))
        self.n_unknown, self.n = 0, len(features)
        for i, name in enumerate(features):
            self.look_up(i, name)
        return 0

    cdef int look_up(self, Py_ssize_t i, name) except -1:
        self.places[i] = 0  # also if the statements below raise
        self.names[i] = name
        self.places[i] = self.rows.get(name, 0)
        self.n_unknown += self.places[i] == 0
        return 0

    cdef int assign_rows(self) except -1:
        """Assign rows to the features that have none; there must be room."""
        cdef Py_ssize_t i
        for i in range(self.n):
            if self.places[i] == 0:
                self.places[i] = self.assign_row(self.names[i])
        return 0

    cdef Py_ssize_t next_row(self) except -1:
        """Return a row that is free."""
        if not self.free:
            self.make_room(1)
            self.free.append(self.n_rows)
            self.n_rows += 1
        return self.free[len(self.free) - 1]

    cdef Py_ssize_t assign_row(self, feature) except -1:
        """Give a free row to a feature."""
        cdef Py_ssize_t row = self.next_row()
        self.rows[feature] = row
        self.free.pop()
        return row

    # Scores ---------------------------------------------------------------------------------------

    cdef void multiply(self, const double *x) noexcept nogil:
        """Write V · x of each boundary to ``products``, then lag · x."""
        cdef Layout *own = &self.own
        cdef Py_ssize_t f, j, bounds = own.bounds, stride = own.stride
        cdef double stored = 0.0, lag = 0.0, value
        cdef double *products = own.products
        cdef const double *row
        memcpy(products, own.bias, own.parts * bounds * sizeof(double))
        if self.settings.shared:
            for f in range(self.n):
                row = own.rows + stride * self.places[f]
                stored += x[f] * row[0]
                lag += x[f] * row[own.parts - 1]
            for j in range(bounds):
                products[j] += stored
            if own.parts == 2:
                for j in range(bounds, 2 * bounds):
                    products[j] += lag
        else:
            for f in range(self.n):
                row, value = own.rows + stride * self.places[f], x[f]
                for j in range(stride):
                    products[j] += value * row[j]

    cdef inline double served(self, Py_ssize_t j) noexcept nogil:
        """Return the served z of boundary ``j``: with averaging, that of the average weights.
        """
        cdef const double *products = self.own.products
        if not self.settings.averaged:
            return self.scale * products[j]
        if self.total == 0.0:
            return 0.0
        return (self.mass * products[j] - products[self.own.bounds + j]) / self.total

    cdef Py_ssize_t decode_served(self) noexcept nogil:
        cdef double score = 0.0, best = 0.0
        cdef Py_ssize_t j, rank = 0
        for j in range(self.own.bounds):
            score += self.served(j)
            if score > best or (score == best and self.settings.last):
                rank, best = j + 1, score
        return rank

    cdef Py_ssize_t decode(self, double margin, Py_ssize_t y) noexcept nogil:
        """Return argmax_r s(x, r) + margin · loss(r, y) for the current weights."""
        cdef const double *costs = self.own.costs + self.own.n_labels * y
        cdef double score = 0.0, value, best = margin * costs[0]
        cdef Py_ssize_t r, rank = 0
        for r in range(1, self.own.n_labels):
            score += self.scale * self.own.products[r - 1]
            value = score + margin * costs[r]
            if value > best or (value == best and self.settings.last):
                rank, best = r, value
        return rank

    cdef void find_margins(self, double *out) noexcept nogil:
        """Write max_{r > k} s(x, r) − max_{r ≤ k} s(x, r) for each boundary k."""
        cdef Py_ssize_t j, bounds = self.own.bounds
        cdef double *scores = self.own.scores
        cdef double score = 0.0, best = 0.0, largest = 0.0, above = -INFINITY, product, grid
        cdef int exponent
        for j in range(bounds):
            out[j] = best
            product = self.served(j)
            score += product
            scores[j] = score
            best = max(best, score)
            largest = max(largest, max(fabs(score), fabs(product)))
        if not (largest <= MOST_SCORE and score == score):
            memset(out, 0, bounds * sizeof(double))
            return
        # Margins that differ only by rounding must become equal, so that they do not depend on
        # the order in which features were summed.
        frexp(largest, &exponent)
        grid = ldexp(1.0, max(exponent, -900) + GRID)
        for j in range(bounds - 1, -1, -1):
            above = max(above, scores[j])
            out[j] = grid * rint((above - out[j]) / grid)

    # Learning -------------------------------------------------------------------------------------

    cdef bint learn_row(
        self, const double *x, Py_ssize_t y, double w, bint remember, Py_ssize_t atom
    ) noexcept nogil:
        """Learn the values ``x`` of the current features; return whether the weights changed.

        The step is a multiple of the sample; or, with an ``atom``, of that row's unit vector.
        """
        cdef Py_ssize_t rank
        cdef double step, count
        self.multiply(x)
        if remember:
            self.remember(y, w)
        self.n_samples += 1
        self.scale *= self.settings.keep
        self.count *= self.settings.growth
        rank = self.decode(0.0, y)
        self.rank_loss += w * (max(y, rank) - min(y, rank))
        if self.settings.margin != 0.0:
            rank = self.decode(self.settings.margin, y)
        if rank != y:
            step = self.step_size(x, y, rank, w)
            self.move(x, min(y, rank), max(y, rank), step if y > rank else -step, atom)
            if self.settings.wide:
                rank = min(y, rank)
                self.move(x, self.first_at_zero(y, rank), rank, step, atom)
        count = w * self.count
        self.total += count
        self.mass += count * self.scale
        if self.scale < least_scale or self.count > most_count:
            self.keep_in_range()
        return rank != y

    cdef double step_size(
        self, const double *x, Py_ssize_t y, Py_ssize_t rank, double w
    ) noexcept nogil:
        cdef Settings *settings = &self.settings
        cdef double squares = 1.0 if settings.biased else 0.0, ahead = 0.0, missing
        cdef Py_ssize_t f, j
        if settings.rule == PERCEPTRON:
            return w
        for f in range(self.n):
            squares += x[f] * x[f]
        squares *= max(y, rank) - min(y, rank)
        if squares < LEAST_SQUARES:
            return 0.0
        for j in range(min(y, rank), max(y, rank)):
            ahead += self.scale * self.own.products[j]
        if y < rank:
            ahead = -ahead
        missing = settings.delta * self.own.costs[self.own.n_labels * y + rank] - ahead
        if missing <= 0.0:
            return 0.0
        if settings.rule == PA_II:
            return missing / (squares + 0.5 / (settings.C * w))
        if settings.rule == PA_I:
            return min(missing / squares, settings.C * w)
        return missing / squares

    cdef Py_ssize_t first_at_zero(self, Py_ssize_t y, Py_ssize_t high) noexcept nogil:
        """Return where the boundaries at exactly zero begin that end before ``high``, below ``y``.
        """
        cdef const double *costs = self.own.costs + self.own.n_labels * y
        cdef Py_ssize_t low = high
        cdef double change
        while low > 0:
            change = self.settings.margin * (costs[low] - costs[low - 1])
            if self.scale * self.own.products[low - 1] + change != 0.0:
                break
            low -= 1
        return low

    cdef void move(
        self, const double *x, Py_ssize_t low, Py_ssize_t high, double step, Py_ssize_t atom
    ) noexcept nogil:
        """Add ``step`` times the sample to the boundaries from ``low`` to ``high`` − 1."""
        cdef Layout *own = &self.own
        cdef Py_ssize_t f, j
        step /= self.scale
        if self.settings.biased:
            for j in range(low, high):
                own.bias[j] += step
                if own.parts == 2:
                    own.bias[own.bounds + j] += self.mass * step
        if atom:
            self.move_row(atom, low, high, step)
        else:
            for f in range(self.n):
                self.move_row(self.places[f], low, high, step, x[f])

    cdef inline void move_row(
        self, Py_ssize_t at, Py_ssize_t low, Py_ssize_t high, double step, double value=1.0
    ) noexcept nogil:
        """Add to the weights of a row, and to their lag."""
        cdef double *row = self.own.rows + self.own.stride * at
        cdef Py_ssize_t j, width = self.own.width
        cdef double change
        if self.settings.shared:
            change = step * (high - low) * value
            low, high = 0, 1
        else:
            change = step * value
        for j in range(low, high):
            row[j] += change
        if self.own.parts == 2:
            for j in range(low, high):
                row[width + j] += self.mass * change

    cdef void keep_in_range(self) noexcept nogil:
        cdef double back
        if self.scale < least_scale:
            self.rescale_all(self.mass, self.scale, 1.0)
            self.mass = 0.0
            self.scale = 1.0
        if self.count > most_count:
            back = 1.0 / self.count
            self.rescale_all(0.0, 1.0, back)
            self.mass *= back
            self.total *= back
            self.count = 1.0

    cdef void rescale_all(self, double mass, double stored, double lag) noexcept nogil:
        cdef Layout *own = &self.own
        cdef Py_ssize_t i
        rescale(own.bias, own.bounds, own.parts, mass, stored, lag)
        for i in range(self.n_rows):
            rescale(own.rows + own.stride * i, own.width, own.parts, mass, stored, lag)

    # Calibration ----------------------------------------------------------------------------------

    cdef double *recent(self, Py_ssize_t i) noexcept nogil:
        """Return an entry of the ring, the oldest first."""
        cdef Py_ssize_t at = self.oldest + i
        if at >= self.ring_room:
            at -= self.ring_room
        return self.own.recent + (self.own.bounds + 2) * at

    cdef void remember(self, Py_ssize_t y, double w) noexcept nogil:
        """Add the current sample to the ring, which must have room or be full."""
        cdef double *entry
        if self.n_recent == self.window:
            self.oldest = self.oldest + 1 if self.oldest + 1 < self.window else 0
        else:
            self.n_recent += 1
        assert self.n_recent <= self.ring_room
        self.n_untaught = min(self.n_untaught + 1, self.window)
        entry = self.recent(self.n_recent - 1)
        self.find_margins(entry)
        entry[self.own.bounds], entry[self.own.bounds + 1] = y, w

    cdef int catch_up(self) except -1:
        """Teach the regressions the samples in the ring that they have not learned."""
        cdef Py_ssize_t i, k, bounds = self.own.bounds
        cdef IsotonicRegression regression
        cdef double *entry
        if not bounds or not self.n_untaught:
            return 0
        try:
            if not self.regressions:
                self.regressions = [copy.copy(self.empty) for k in range(bounds)]
            for k in range(bounds):
                regression = self.regressions[k]
                for i in range(self.n_recent - self.n_untaught, self.n_recent):
                    entry = self.recent(i)
                    regression.learn_sample(entry[k], entry[bounds] > k, entry[bounds + 1], NAN)
        except BaseException:
            self.regressions, self.n_untaught = [], self.n_recent
            raise
        self.n_untaught = 0
        return 0

    cdef int calibrate(self, double *margins, Py_ssize_t n) except -1:
        """Turn the margins of ``n`` samples into probabilities of a rank above each boundary."""
        cdef Py_ssize_t i, k, bounds = self.own.bounds
        cdef IsotonicRegression regression
        self.catch_up()
        for k in range(bounds):
            if self.n_recent == 0:
                for i in range(n):
                    margins[bounds * i + k] = 0.5  # it does not count
            else:
                regression = self.regressions[k]
                for i in range(n):
                    margins[bounds * i + k] = regression.value(margins[bounds * i + k], False)
        return 0

    # Labels and memory ----------------------------------------------------------------------------

    cdef int insert(self, y) except -1:
        """Insert a new label at its rank; keep the scores of the other labels if possible."""
        cdef Layout new
        cdef Layout *own = &self.own
        cdef Py_ssize_t i, part, rank = bisect_left(self.labels, y)
        cdef const double *entry
        cdef double *moved
        labels = self.labels.copy()
        labels.insert(rank, y)
        ranks = ranks_of(labels)  # a label may raise when it is hashed
        self.allocate(&new, labels)
        for part in range(own.parts):
            split(
                own.bias + own.bounds * part, own.bounds,
                new.bias + new.bounds * part, new.bounds, rank, self.settings.shared,
            )
            for i in range(self.n_rows):
                split(
                    own.rows + own.stride * i + own.width * part, own.width,
                    new.rows + new.stride * i + new.width * part, new.width, rank, False,
                )
        for i in range(self.n_recent):
            entry = self.recent(i)
            moved = new.recent + (new.bounds + 2) * i
            split_margins(entry, own.bounds, moved, new.bounds, rank)
            moved[new.bounds] = entry[own.bounds] + (entry[own.bounds] >= rank)
            moved[new.bounds + 1] = entry[own.bounds + 1]
        free_layout(own)
        self.own, self.oldest = new, 0
        self.regressions, self.n_untaught = [], self.n_recent
        self.labels, self.ranks = labels, ranks
        return 0

    cdef int allocate(self, Layout *new, list labels) except -1:
        """Allocate memory for these labels, all weights 0."""
        cdef Py_ssize_t n = len(labels), bounds = max(n - 1, 0), answer, truth
        # Whatever may raise comes before the first allocation.
        cdef const double[:, ::1] table = self.task.table(n) if n > 1 else np.zeros((n, n))
        memset(new, 0, sizeof(Layout))
        new.n_labels, new.bounds = n, bounds
        new.parts = 2 if self.settings.averaged else 1
        new.width = 1 if self.settings.shared else bounds
        new.stride = new.parts * new.width
        try:
            new.costs = <double *> zeros(n * n, sizeof(double))
            new.bias = <double *> zeros(new.parts * bounds, sizeof(double))
            new.rows = <double *> zeros(self.room * new.stride, sizeof(double))
            new.recent = <double *> zeros(self.ring_room * (bounds + 2), sizeof(double))
            new.products = <double *> zeros(new.parts * bounds, sizeof(double))
            new.scores = <double *> zeros(n, sizeof(double))
            new.margins = <double *> zeros(n, sizeof(double))
            new.sizes = <Py_ssize_t *> zeros(n + 1, sizeof(Py_ssize_t))
        except MemoryError:
            free_layout(new)
            raise
        for truth in range(n):
            for answer in range(n):
                new.costs[n * truth + answer] = table[answer, truth]
        return 0

    cdef int make_room(self, Py_ssize_t n) except -1:
        """Allocate room for this many more rows."""
        cdef Py_ssize_t needed = self.n_rows + n
        if needed > self.room:
            needed += needed // 2
            extend(&self.own.rows, self.own.stride, self.room, needed)
            self.room = needed
        return 0

    cdef int make_ring_room(self, Py_ssize_t n) except -1:
        """Allocate room for this many more samples, at most for the window."""
        cdef Py_ssize_t needed = min(self.n_recent + n, self.window)
        if needed > self.ring_room:  # the ring has not wrapped around yet
            needed = min(max(needed, 2 * self.ring_room, FIRST_RING), self.window)
            extend(&self.own.recent, self.own.bounds + 2, self.ring_room, needed)
            self.ring_room = needed
        return 0

    cdef int make_sample_room(self, Py_ssize_t n) except -1:
        """Allocate room for a sample of this many features."""
        cdef Py_ssize_t i
        resize(<void **> &self.values, n, sizeof(double))
        resize(<void **> &self.places, n, sizeof(Py_ssize_t))
        for i in range(self.sample_room, n):
            self.places[i] = 0
        self.names.extend([None] * (n - self.sample_room))
        self.sample_room = n
        return 0

    # State ----------------------------------------------------------------------------------------

    def shape(self, Py_ssize_t n_labels):
        """Return (parts, n_labels − 1, width) for this number of labels; see `stored`."""
        cdef Py_ssize_t bounds = max(n_labels - 1, 0)
        return self.own.parts, bounds, 1 if self.settings.shared else bounds

    def stored(self):
        """Return features, biases and the features' weights as they are stored, each with its lag.

        Shapes ``(parts, n_labels − 1)`` and ``(n_features, parts, width)``.
        """
        self.acquire()
        try:
            return self.walk()
        finally:
            self.release()

    def served_weights(self):
        """Return features, biases and the features' weights that predictions are made from."""
        self.acquire()
        try:
            features, bias, weights = self.walk()
            scale, mass, total = self.scale, self.mass, self.total or 1.0
        finally:
            self.release()
        if not self.settings.averaged:
            return features, scale * bias[0], scale * weights[:, 0]
        weights = (mass * weights[:, 0] - weights[:, 1]) / total
        return features, (mass * bias[0] - bias[1]) / total, weights

    cdef tuple walk(self):
        cdef Layout *own = &self.own
        cdef double[:, ::1] bias
        cdef double[:, :, ::1] weights
        cdef Py_ssize_t row, part, j, at
        bias_array = np.empty((own.parts, own.bounds))
        weights_array = np.empty((len(self.rows), own.parts, own.width))
        bias, weights = bias_array, weights_array
        for part in range(own.parts):
            for j in range(own.bounds):
                bias[part, j] = own.bias[own.bounds * part + j]
            for at, row in enumerate(self.rows.values()):
                for j in range(own.width):
                    weights[at, part, j] = own.rows[own.stride * row + own.width * part + j]
        return list(self.rows), bias_array, weights_array

    def state(self):
        """Return labels, features, numbers by name, arrays by name, and copies of the regressions.

        ``recent`` has a row for each of the last samples, the oldest first: margins, rank, weight.
        """
        cdef Py_ssize_t i, j, width = self.own.bounds + 2
        cdef double[:, ::1] ring
        self.acquire()
        try:
            self.catch_up()  # so that earlier requests for probabilities do not change the state
            width = self.own.bounds + 2
            features, bias, weights = self.walk()
            recent = np.empty((self.n_recent, width))
            ring = recent
            for i in range(self.n_recent):
                for j in range(width):
                    ring[i, j] = self.recent(i)[j]
            numbers = {
                "n_seen": self.n_samples,
                "scale": self.scale,
                "count": self.count,
                "mass": self.mass,
                "total": self.total,
                "rank_loss": self.rank_loss,
            }
            arrays = {"bias": bias, "weights": weights, "recent": recent}
            copies = [copy.copy(regression) for regression in self.regressions]
            return self.labels, features, numbers, arrays, copies
        finally:
            self.release()

    def restore(self, list labels, features, numbers, arrays, regressions):
        """Set the state to what `state` returned. Only for an object that has learned nothing."""
        cdef const double[:, ::1] bias = arrays["bias"], ring = arrays["recent"]
        cdef const double[:, :, ::1] weights = arrays["weights"]
        cdef Layout *own = &self.own
        cdef Layout new
        cdef Py_ssize_t i, j, part
        self.make_room(len(features))
        self.make_ring_room(ring.shape[0])
        self.allocate(&new, labels)
        free_layout(own)
        self.own = new
        self.labels, self.ranks = labels, ranks_of(labels)
        for i, feature in enumerate(features):
            self.assign_row(feature)
            for part in range(own.parts):
                for j in range(own.width):
                    own.rows[own.stride * (i + 1) + own.width * part + j] = weights[i, part, j]
        for part in range(own.parts):
            for j in range(own.bounds):
                own.bias[own.bounds * part + j] = bias[part, j]
        self.n_recent = ring.shape[0]
        for i in range(self.n_recent):
            for j in range(own.bounds + 2):
                self.recent(i)[j] = ring[i, j]
        self.n_samples, self.rank_loss = numbers["n_seen"], numbers["rank_loss"]
        self.scale, self.count = numbers["scale"], numbers["count"]
        self.mass, self.total = numbers["mass"], numbers["total"]
        self.regressions = list(regressions)
        self.n_untaught = 0 if regressions else self.n_recent

    def __reduce__(self):
        state = self.state()
        settings = self.settings, state[0], self.task, self.window, self.empty
        return restored, (CuSum, settings, state)


cdef dict ranks_of(list labels):
    return {label: rank for rank, label in enumerate(labels)}
