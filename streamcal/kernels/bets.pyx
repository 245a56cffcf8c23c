"""Bets against the calibration of probabilities: fixed maps, each against the score itself.

A bet is a map of a probability p, with z = log(p / (1 − p)) from −30 to 30::

    q = 1 / (1 + exp(−(shift + slope · z + curve · z₄²)))    if low ≤ z < high
    q = p                                                    else: nothing is staked

where z₄ is z, from −4 to 4. The bet multiplies its stake by (q / p)^w if the event happened, and by
((1 − q) / (1 − p))^w if not, with a weight w ≤ 1. If p is the probability of the event, given all
that was known, the expected factor is at most 1, and exactly 1 for w = 1 and 0 < p < 1.

Each bet gets a fresh stake f_t before sample t, beside what it has: M_t = factor_t · (M_{t−1} + f_t).

* With fresh stakes of 1, M_t is the statistic of Shiryaev and Roberts: M_t − t is a martingale.
* With fresh stakes whose sum is at most 1, what is not yet staked and the mean of all M_t together
  begin with 1 and are a test martingale. A bet that begins to gain late has not lost everything.
"""

from libc.math cimport INFINITY, exp, fabs, floor, fmax, log, log1p, pow
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from streamcal.kernels.memory cimport zeros
from streamcal.kernels.state_bytes cimport require

import numpy as np

cdef double LARGEST_LOGIT = 30.0
cdef double LARGEST_CURVED = 4.0
# Larger stakes are counted in units of LARGE. What has become small beside them is lost.
cdef double LARGE = 1e100, SMALL = 1e-100, LOG_LARGE = log(1e100)


# Bets share few slopes and curves: an exponential of each is all that a sample needs.
cdef enum:
    MOST_VALUES = 8
    MOST_BETS = 128


# An array for each number, so that the loops over bets are vectors.
cdef struct Fixed:
    double[2][MOST_BETS] exp_shift  # exp(shift), and exp(−shift)
    int[MOST_BETS] slope  # its place among the slopes
    int[MOST_BETS] curve
    double[MOST_BETS] low
    double[MOST_BETS] high
    double[MOST_BETS] prior


cdef struct Stakes:
    double[MOST_BETS] value  # M, in units of LARGE ** n_units stakes
    double[MOST_BETS] rise  # what a stake gained since its value was lowest / exp(log_rise)
    double[MOST_BETS] log_rise
    double[MOST_BETS] since  # after how many samples it was lowest


cdef class Bets:
    """Stakes of bets, settled sample by sample.

    Parameters
    ----------
    bets : ndarray of shape (n_bets, 5)
        Shift, slope, curve, and the log odds where the bet begins and ends.
    prior : ndarray of shape (n_bets,)
        The share of each bet, positive, with sum 1.
    spends : bool
        Whether fresh stakes are parts of 1: half of it before the first sample, and
        1 / (2 + ln t) is left after t samples. Else each of them is 1.

    Attributes
    ----------
    n_samples : int
    largest : float
        The largest `log_value` so far, at least 0.

    Examples
    --------
    >>> bets = Bets(np.array([[1.0, 1.0, 0.0, -np.inf, np.inf]]), np.ones(1), True)
    >>> bets.update(0.5, True, 1.0)  # half of the stake is multiplied by 0.731 / 0.5
    >>> round(bets.log_value(), 4), bets.leader(), bets.since()
    (0.2076, 0, 0)
    """

    cdef readonly int64_t n_samples
    cdef readonly double largest
    cdef bint spends
    cdef double left  # the part of one stake that is not yet staked
    cdef double log_stake  # the logarithm of one stake: 0 but for `multiply`
    cdef double n_units  # a whole number
    cdef double unit  # one stake in the unit of values: LARGE ** -n_units
    cdef double[MOST_VALUES] slopes
    cdef double[MOST_VALUES] curves
    cdef int n_slopes
    cdef int n_curves
    cdef int n_bets
    cdef Fixed *bets
    cdef Stakes *stakes

    def __cinit__(self, const double[:, ::1] bets, const double[::1] prior, bint spends):
        cdef int j
        if bets.shape[1] != 5 or prior.shape[0] != bets.shape[0]:
            raise ValueError("bets must have five numbers and a prior each")
        if not 1 <= bets.shape[0] <= MOST_BETS:
            raise ValueError(f"there must be from 1 to {MOST_BETS} bets")
        self.spends, self.unit, self.left = spends, 1.0, 1.0 if spends else 0.0
        self.n_bets = <int> bets.shape[0]
        self.bets = <Fixed *> zeros(1, sizeof(Fixed))
        self.stakes = <Stakes *> zeros(1, sizeof(Stakes))
        for j in range(self.n_bets):
            self.bets.exp_shift[0][j] = exp(bets[j, 0])
            self.bets.exp_shift[1][j] = exp(-bets[j, 0])
            self.bets.slope[j] = place_of(bets[j, 1], self.slopes, &self.n_slopes)
            self.bets.curve[j] = place_of(bets[j, 2], self.curves, &self.n_curves)
            self.bets.low[j], self.bets.high[j] = bets[j, 3], bets[j, 4]
            self.bets.prior[j] = prior[j]
            self.stakes.rise[j] = 1.0

    def __dealloc__(self):
        free(self.bets)
        free(self.stakes)

    def __sizeof__(self):
        return object.__sizeof__(self) + sizeof(Fixed) + sizeof(Stakes)

    def update(self, double p, bint happened, double w):
        """Settle all bets by one sample that was checked."""
        self.settle(p, happened, w, True)

    def update_many(
        self,
        const double[:] p,
        const double[:] happened,
        const double[:] w,
        double limit=INFINITY,
    ):
        """Settle all bets by samples that were checked, in order; return the number of samples.

        The last one is that at which `log_value` reaches the limit, if that is finite.
        """
        cdef Py_ssize_t i
        if not happened.shape[0] == w.shape[0] == p.shape[0]:
            raise ValueError("probabilities, events and weights must have the same length")
        for i in range(p.shape[0]):
            if self.settle(p[i], happened[i] != 0.0, w[i], True) >= limit and limit < INFINITY:
                return i + 1
        return p.shape[0]

    def update_group(self, const double[::1] p, const double[::1] happened, double w):
        """Settle all bets by rows that share an outcome, as one sample of weight w.

        The sample has one fresh stake, and each row an equal part of w. Given the past, the likelihood ratio L of each row has at
        most the mean 1; then so has the product of all L^(w / n_rows), by Hölder's inequality, as
        these powers have a sum of at most 1. A product over a part of the rows is looked at by
        nobody: those who stop there may know the outcome.
        """
        cdef Py_ssize_t i
        cdef double largest = self.largest
        if happened.shape[0] != p.shape[0] or not p.shape[0]:
            raise ValueError("there must be rows, with an event each")
        for i in range(p.shape[0]):
            self.settle(p[i], happened[i] != 0.0, w / p.shape[0], i == 0)
        self.largest = fmax(largest, self.mean_of_stakes())

    def multiply(self, double log_factor):
        """Multiply all stakes by exp(log_factor)."""
        self.log_stake += log_factor
        self.largest = fmax(self.largest, self.mean_of_stakes())

    def log_value(self):
        """Return the logarithm of the mean stake, with what is not yet staked."""
        return self.mean_of_stakes()

    def leader(self):
        """Return which bet has gained most since its lowest value."""
        cdef int j, best = 0
        for j in range(self.n_bets):
            if log_gain(self.stakes, j) > log_gain(self.stakes, best):
                best = j
        return best

    def since(self):
        """Return after how many samples the leader began to gain."""
        return <int64_t> self.stakes.since[self.leader()]

    def state(self):
        """Return the numbers of all stakes, shape ``(n_bets, 4)``, and the others, for `restore`."""
        cdef int j
        numbers = np.empty((self.n_bets, 4))
        cdef double[:, ::1] out = numbers
        for j in range(self.n_bets):
            out[j, 0], out[j, 1] = self.stakes.value[j], self.stakes.rise[j]
            out[j, 2], out[j, 3] = self.stakes.log_rise[j], self.stakes.since[j]
        return numbers, np.array([self.largest, self.left, self.log_stake, self.n_units])

    def restore(self, int64_t n_samples, const double[:, ::1] numbers, const double[::1] others):
        """Set what `state` returned; raise ``ValueError`` if it can't be a state."""
        cdef int j
        cdef bint fits = numbers.shape[0] == self.n_bets and numbers.shape[1] == 4
        require(fits and others.shape[0] == 4, "there must be four numbers of each bet")
        require(n_samples >= 0, "the number of samples must not be negative")
        require(others[0] >= 0.0, "the largest value must not be negative")
        fits = 0.0 < others[1] <= 1.0 if self.spends else others[1] == 0.0
        require(fits, "what is left must be a part of one stake")
        require(others[2] > -INFINITY, "one stake must not be nothing")
        fits = 0.0 <= others[3] < INFINITY and others[3] == floor(others[3])
        require(fits, "stakes must have a unit")
        cdef double most = 0.0
        for j in range(self.n_bets):
            require(numbers[j, 0] >= 0.0, "stakes must not be negative")
            fits = numbers[j, 2] >= 0.0 and 1.0 <= numbers[j, 1] <= LARGE
            require(fits, "no bet may have less than at its lowest value")
            require(0.0 <= numbers[j, 3] <= n_samples, "no bet may gain since a later sample")
            most = fmax(most, numbers[j, 0])
        fits = most >= SMALL if others[3] else most > 0.0 or n_samples == 0 or self.spends
        require(fits, "there must be a stake")
        self.n_samples, self.largest = n_samples, others[0]
        self.left, self.log_stake, self.n_units = others[1], others[2], others[3]
        self.unit = pow(LARGE, -self.n_units)
        for j in range(self.n_bets):
            self.stakes.value[j], self.stakes.rise[j] = numbers[j, 0], numbers[j, 1]
            self.stakes.log_rise[j], self.stakes.since[j] = numbers[j, 2], numbers[j, 3]

    cdef double mean_of_stakes(self) noexcept nogil:
        """Return the logarithm of the mean stake, with what is not yet staked."""
        return self.log_of(self.left * self.unit + self.staked())

    cdef double staked(self) noexcept nogil:
        """Return the mean of all stakes, in the unit of values."""
        cdef int j, k
        cdef double[4] sums  # four additions at a time
        sums[0] = sums[1] = sums[2] = sums[3] = 0.0
        for j in range(0, self.n_bets - 3, 4):
            for k in range(4):
                sums[k] += self.bets.prior[j + k] * self.stakes.value[j + k]
        for j in range(self.n_bets - self.n_bets % 4, self.n_bets):
            sums[0] += self.bets.prior[j] * self.stakes.value[j]
        return (sums[0] + sums[1]) + (sums[2] + sums[3])

    cdef double log_of(self, double value) noexcept nogil:
        """Return the logarithm of a number in the unit of values."""
        return self.log_stake + self.n_units * LOG_LARGE + log(value)

    cdef double settle(self, double p, bint happened, double w, bint begins) noexcept nogil:
        """Settle all bets by one sample, and return the new `log_value`.

        ``begins`` is false for a further row of the same sample.
        """
        cdef double log_p = log(p), log_not = log1p(-p)
        cdef double own = fabs(p) if happened else 1.0 - p  # it may be -0.0
        cdef double sign = -1.0 if happened else 1.0
        cdef double z, curved, before, n, staked, value, fresh = self.unit
        cdef bint lowest
        cdef double[MOST_VALUES] exp_slopes
        cdef double[MOST_VALUES] exp_curves
        cdef double[MOST_BETS] factors
        cdef int j
        cdef Fixed *bets = self.bets
        cdef Stakes *stakes = self.stakes
        cdef double *shifts = bets.exp_shift[happened]
        self.n_samples += begins
        n = <double> self.n_samples
        if not begins:
            fresh = 0.0
        elif self.spends:
            # A rounding error must not make it more than there is.
            fresh = fmax(self.left - 1.0 / (2.0 + log(n)), 0.0)
            self.left -= fresh
            fresh *= self.unit
        z = log_p - log_not
        z = LARGEST_LOGIT if z > LARGEST_LOGIT else fmax(z, -LARGEST_LOGIT)
        curved = LARGEST_CURVED if z > LARGEST_CURVED else fmax(z, -LARGEST_CURVED)
        curved *= curved
        for j in range(self.n_slopes):
            exp_slopes[j] = exp(sign * self.slopes[j] * z)
        for j in range(self.n_curves):
            exp_curves[j] = exp(sign * self.curves[j] * curved)
        for j in range(self.n_bets):
            factors[j] = shifts[j] * exp_slopes[bets.slope[j]] * exp_curves[bets.curve[j]]
        for j in range(self.n_bets):
            # q, or 1 − q, is 1 / (1 + exp(± the new log odds)).
            factors[j] = 1.0 / ((1.0 + factors[j]) * own)
        for j in range(self.n_bets):
            factors[j] = factors[j] if (bets.low[j] <= z) & (z < bets.high[j]) else 1.0
        if w != 1.0:
            for j in range(self.n_bets):
                factors[j] = pow(factors[j], w)
        for j in range(self.n_bets):
            before = stakes.value[j] + fresh
            stakes.value[j] = factors[j] * before if before > 0.0 else 0.0  # not infinity times 0
        for j in range(self.n_bets):
            stakes.rise[j] *= factors[j]
        for j in range(self.n_bets):
            # No branch, since nobody can predict it.
            lowest = (stakes.rise[j] <= 1.0) & (stakes.log_rise[j] == 0.0)
            stakes.rise[j] = 1.0 if lowest else stakes.rise[j]
            stakes.since[j] = n if lowest else stakes.since[j]
        for j in range(self.n_bets):
            if not 1.0 <= stakes.rise[j] <= LARGE:
                count_rise(stakes, j, n)
        staked = self.staked()
        value = self.log_of(self.left * self.unit + staked)
        self.largest = fmax(self.largest, value)
        if LARGE < staked < INFINITY:
            self.change_unit(1.0)
        if staked == 0.0:  # all of it is lost
            self.n_units, self.unit = 0.0, 1.0
        while self.n_units > 0.0 and staked < SMALL:
            self.change_unit(-1.0)
            staked *= LARGE
        return value

    cdef void change_unit(self, double more) noexcept nogil:
        """Count stakes in units that are larger by ``LARGE ** more``."""
        cdef int j
        cdef double factor = pow(LARGE, -more)
        for j in range(self.n_bets):
            self.stakes.value[j] *= factor
        self.n_units += more
        self.unit = pow(LARGE, -self.n_units)


cdef int place_of(double value, double *values, int *n) except -1:
    """Return the place of a value among those that were seen; a new one comes last."""
    cdef int j
    for j in range(n[0]):
        if values[j] == value:
            return j
    if n[0] == MOST_VALUES:
        raise ValueError(f"bets must have at most {MOST_VALUES} slopes and curves")
    values[n[0]] = value
    n[0] += 1
    return n[0] - 1


cdef double log_gain(Stakes *stakes, int j) noexcept nogil:
    """Return the logarithm of what a stake has gained since its value was lowest."""
    return stakes.log_rise[j] + log(stakes.rise[j])


cdef void count_rise(Stakes *stakes, int j, double n_samples) noexcept nogil:
    """Count a gain that is large, or that was large and shrinks, by its logarithm."""
    stakes.log_rise[j] += log(stakes.rise[j])
    stakes.rise[j] = 1.0
    if stakes.log_rise[j] <= 0.0:
        stakes.log_rise[j], stakes.since[j] = 0.0, n_samples
