"""Bounds on the running mean of bounded numbers that hold at all times together.

Number t lies in [low_t, high_t], which is known before it, and has the conditional mean m_t. With a
guess g_t of it in this range, from earlier numbers, and a stake lambda, the product over t of ::

    exp(lambda w (x_t − m_t) − psi(lambda w (g_t − low_t)) (lambda w (x_t − g_t))²)
    psi(z) = 1/2 + z / (3 (1 − z))  ≥  (−log(1 − z) − z) / z²,    z < 1

is at most 1 in the mean, and so is a mixture of fixed stakes. (Fan, Grama and Liu 2015, lemma 4.1,
and Howard et al. 2021, theorem 4, have the expression with the logarithm in place of psi. With psi
the product is a little less, and much cheaper to compute.) By Ville's inequality the chance that it
ever reaches 1/alpha is at most alpha. It depends on the conditional means by their weighted sum
alone, so solving for their mean gives a lower bound. The upper bound is that of the negative numbers.
"""

from libc.math cimport INFINITY, exp, fabs, fmax, fmin, log
from libc.stdint cimport int64_t

from streamcal.kernels.state_bytes cimport require

import numpy as np

cdef enum:
    N_STAKES = 37

cdef double LARGEST = 1e3  # no difference of scores is larger
cdef double[N_STAKES] STAKES
cdef int _j
for _j in range(N_STAKES):
    STAKES[_j] = 2.0 ** (0.5 * _j - 14.0)  # the best one for 10⁹ numbers, to that for a few
cdef double LOG_PRIOR = -log(<double> N_STAKES)


cdef class MeanBounds:
    """The weighted mean of numbers, and bounds on the mean of their conditional means.

    Attributes
    ----------
    n_samples : int
    weight, total : float
        The sums of weights, and of weights times numbers.

    Examples
    --------
    >>> bounds = MeanBounds()
    >>> for i in range(1000):
    ...     bounds.add(0.1 if i % 2 else 0.3, -1.0, 1.0, 1.0)
    >>> [round(bound, 3) for bound in bounds.interval(0.05)]
    [0.186, 0.214]
    """

    cdef readonly int64_t n_samples
    cdef readonly double weight
    cdef readonly double total
    cdef double[N_STAKES] below  # what the lower bound has lost, of each stake
    cdef double[N_STAKES] above

    def add(self, double x, double low, double high, double w):
        """Add a number from low to high, with a weight in (0, 1]."""
        self.settle(x, low, high, w)

    def add_event(self, double first, double second, bint happened, double w, double clip):
        """Add by how much the score of the first probability of an event exceeds the second's.

        With a clip of 0 it is the Brier score. Else it is the log loss, in which smaller
        probabilities count as the clip.
        """
        self.settle_event(first, second, happened, w, clip)

    def add_events(
        self,
        const double[:] first,
        const double[:] second,
        const double[:] happened,
        const double[:] w,
        double clip,
    ):
        """Add events in order, as `add_event` does."""
        cdef Py_ssize_t i
        if not first.shape[0] == second.shape[0] == happened.shape[0] == w.shape[0]:
            raise ValueError("probabilities, events and weights must have the same length")
        for i in range(first.shape[0]):
            self.settle_event(first[i], second[i], happened[i] != 0.0, w[i], clip)

    def interval(self, double alpha):
        """Return bounds on the mean of conditional means; each is wrong with a chance alpha / 2.

        Infinite before the first number, or if ranges are too wide for every stake.
        """
        cdef double threshold = log(2.0 / alpha)
        return (
            self.bound(self.below, self.total, threshold),
            -self.bound(self.above, -self.total, threshold),
        )

    def state(self):
        """Return what each stake has lost, shape ``(2, n_stakes)``, for `restore`."""
        cdef int j
        lost = np.empty((2, N_STAKES))
        cdef double[:, ::1] out = lost
        for j in range(N_STAKES):
            out[0, j], out[1, j] = self.below[j], self.above[j]
        return lost

    def restore(self, int64_t n_samples, double weight, double total, const double[:, ::1] lost):
        """Set what was kept; raise ``ValueError`` if it can't be a state."""
        cdef int i, j
        require(lost.shape[0] == 2 and lost.shape[1] == N_STAKES, "each stake must have two losses")
        require(0.0 <= weight <= n_samples, "the sum of weights must be at most their number")
        require((weight > 0.0) == (n_samples > 0), "each sample must have a weight")
        require(fabs(total) <= LARGEST * weight, "the mean must be a difference of scores")
        for i in range(2):
            for j in range(N_STAKES):
                require(lost[i, j] >= 0.0, "no stake may have lost less than nothing")
        self.n_samples, self.weight, self.total = n_samples, weight, total
        for j in range(N_STAKES):
            self.below[j], self.above[j] = lost[0, j], lost[1, j]

    cdef void settle_event(
        self, double p, double q, bint happened, double w, double clip
    ) noexcept nogil:
        """Add the difference of an event, which is one of two numbers."""
        cdef double if_so, if_not
        if clip > 0.0:
            if_so = log(fmax(q, clip)) - log(fmax(p, clip))
            if_not = log(fmax(1.0 - q, clip)) - log(fmax(1.0 - p, clip))
        else:
            if_so = (p - q) * (p + q - 2.0)
            if_not = (p - q) * (p + q)
        self.settle(
            if_so if happened else if_not, fmin(if_so, if_not), fmax(if_so, if_not), w
        )

    cdef void settle(self, double x, double low, double high, double w) noexcept nogil:
        """Add a number."""
        cdef double guess = self.total / self.weight if self.n_samples else 0.0
        guess = low if guess < low else high if guess > high else guess
        lose(self.below, w * (guess - low), w * (x - guess))
        lose(self.above, w * (high - guess), w * (x - guess))
        self.n_samples += 1
        self.weight += w
        self.total += w * x

    cdef double bound(self, double *lost, double total, double threshold) noexcept nogil:
        """Return the mean for which the mixture reaches the threshold: the lower bound."""
        cdef int j, step
        cdef double low = -INFINITY, high = -INFINITY, middle, mixture
        if not self.n_samples:
            return -INFINITY
        # One stake alone reaches the threshold at `low`; together they have at most the best one's.
        for j in range(N_STAKES):
            middle = total - (threshold + lost[j]) / STAKES[j]
            high = fmax(high, middle / self.weight)
            low = fmax(low, (middle + LOG_PRIOR / STAKES[j]) / self.weight)
        for step in range(60):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            mixture = 0.0
            for j in range(N_STAKES):
                mixture += exp(LOG_PRIOR + STAKES[j] * (total - self.weight * middle) - lost[j] - threshold)
            if mixture >= 1.0:
                low = middle
            else:
                high = middle
        return low


cdef void lose(double *lost, double c, double x) noexcept nogil:
    """Subtract what the bound costs from each stake; all of it if the range c is too wide."""
    cdef int j
    cdef double z
    for j in range(N_STAKES):
        z = STAKES[j] * c
        lost[j] += (0.5 + z / (3.0 * (1.0 - z))) * (STAKES[j] * x) * (STAKES[j] * x) if z < 1.0 else INFINITY
