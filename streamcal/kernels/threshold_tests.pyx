"""The tests of the thresholds of `SelectiveClassifier`; the formulas are in `decision.promises`.

Bets are settled in the order of service. A sample takes a place when its label is certain to come:
when it is served, or asked for, and else when the label comes. The first place without a label holds
up the rest::

    place       4  5  6  7  8
    label       ?  x  ?  x  x        if that of 4 comes, 4 and 5 are settled

Places before it are settled and forgotten. So only those from the first one that waits are kept.
"""

from libc.math cimport INFINITY, exp, fmax, log, log1p
from libc.stdlib cimport free

from streamcal.kernels.memory cimport allocated
from streamcal.kernels.state_bytes cimport require

import numpy as np

STAKES = (0.05, 0.15, 0.3, 0.5, 0.7, 0.9)  # in parts of the greatest

cdef enum:
    N_STAKES = 6
    LEAST_ROOM = 8

cdef double[N_STAKES] _stakes
cdef int _j
for _j in range(N_STAKES):
    _stakes[_j] = STAKES[_j]

ctypedef struct Bet:
    double gain  # in parts of the stake; before the label comes, what is lost if it is wrong
    unsigned char first  # the strictest threshold that would answer the sample
    unsigned char has_come

ctypedef struct Hypothesis:
    double[N_STAKES] wealth  # logarithms
    double most


cdef class ThresholdTests:
    """The tests of all thresholds, and the lowest that is in use.

    Parameters
    ----------
    thresholds : array of shape (n_thresholds,)
        Confidences, from the strictest on; at most 255.
    n_stricter : int
        How many of these only the sequence of all has.
    share : float
        α, the share of answers that may be wrong.
    floor : float
        The least probability with which the label of an answer is asked for.
    of_all, of_calibrated : float
        The logarithm of the wealth that rejects a hypothesis of each sequence.
    most_unconfirmed : float
        After so many answers without a label of one, none is in use.
    most_ahead, most_places : int
        The first place is settled as if its answer were wrong if more labels, or more places, wait
        for it.

    Attributes
    ----------
    n_settled : int
        The places that are settled.
    n_places : int
        All places so far.
    n_ahead : int
        The labels that wait for earlier ones.
    n_used : int
        How many thresholds, from the strictest on, are in use or stricter than one in use.
    """

    cdef Hypothesis *hypotheses
    cdef Bet *bets  # a ring, from `start` on
    cdef Py_ssize_t n_hypotheses, room, start, n_waiting
    cdef readonly long long n_settled, n_unconfirmed
    cdef readonly Py_ssize_t n_ahead, n_used
    cdef const double[::1] thresholds
    cdef object parameters
    cdef double share, floor, of_all, of_calibrated, most_unconfirmed
    cdef Py_ssize_t n_stricter, most_ahead, most_places

    def __init__(
        self,
        thresholds,
        n_stricter,
        share,
        floor,
        of_all,
        of_calibrated,
        most_unconfirmed,
        most_ahead,
        most_places,
    ):
        cdef Py_ssize_t i, j
        self.parameters = (
            thresholds, n_stricter, share, floor, of_all, of_calibrated, most_unconfirmed,
            most_ahead, most_places,
        )
        free(self.hypotheses)
        free(self.bets)
        self.hypotheses, self.bets = NULL, NULL
        self.thresholds, self.n_stricter, self.share, self.floor = self.parameters[:4]
        self.of_all, self.of_calibrated, self.most_unconfirmed = self.parameters[4:7]
        self.most_ahead, self.most_places = self.parameters[7:]
        self.n_hypotheses = self.thresholds.shape[0]
        require(0 < self.n_hypotheses < 256, "there must be from 1 to 255 thresholds")
        self.hypotheses = <Hypothesis *> allocated(self.n_hypotheses, sizeof(Hypothesis))
        for i in range(self.n_hypotheses):
            self.hypotheses[i].most = 0.0
            for j in range(N_STAKES):
                self.hypotheses[i].wealth[j] = 0.0
        self.bets = <Bet *> allocated(LEAST_ROOM, sizeof(Bet))
        self.room = LEAST_ROOM
        self.start = self.n_waiting = self.n_ahead = self.n_used = 0
        self.n_settled = self.n_unconfirmed = 0

    def __dealloc__(self):
        free(self.hypotheses)
        free(self.bets)

    def __reduce__(self):
        return ThresholdTests, self.parameters, self.state()

    def __setstate__(self, state):
        self.restore(*state)

    def __sizeof__(self):
        cdef size_t own = self.n_hypotheses * sizeof(Hypothesis) + self.room * sizeof(Bet)
        return object.__sizeof__(self) + own

    @property
    def n_places(self):
        return self.n_settled + self.n_waiting

    @property
    def threshold(self):
        """The confidence from which on samples are answered; infinite if none is."""
        if not self.n_used or self.n_unconfirmed >= self.most_unconfirmed:
            return INFINITY
        return self.thresholds[self.n_used - 1]

    def make_room(self):
        """Get memory for one place more, so that the next call can't fail."""
        cdef Py_ssize_t i, room = self.room
        if self.n_waiting == room:
            room *= 2
        elif room > LEAST_ROOM and self.n_waiting < room // 8:
            room //= 2
        else:
            return
        cdef Bet *bets = <Bet *> allocated(room, sizeof(Bet))
        for i in range(self.n_waiting):
            bets[i] = self.bet(i)[0]
        free(self.bets)
        self.bets, self.room, self.start = bets, room, 0

    def serve(self, double confidence, bint answered):
        """Return the place of a sample that is served; None if its label may never come."""
        if answered and self.floor < 1.0:
            self.n_unconfirmed += 1
            return None
        self.append(confidence, self.least(answered))
        self.n_unconfirmed += answered
        self.settle_waiting()
        return self.n_places - 1

    def ask(self, double confidence, double propensity):
        """Return the place of an answer whose label is asked for."""
        self.append(confidence, self.floor / propensity)
        self.settle_waiting()
        return self.n_places - 1

    def learn(self, place, double confidence, bint answered, bint wrong, double propensity):
        """Take the label of a sample, and settle what does not wait for others.

        Parameters
        ----------
        place : int or None
            What `serve` or `ask` returned; None also if neither was called. A place that is not
            known, of a later state, is settled at once; one that is settled, or has a label, is not
            again.
        confidence : float
        answered, wrong : bool
        propensity : float
            The probability with which the label was asked for.
        """
        cdef long long at
        cdef Bet *bet
        cdef double loss = self.least(answered) / propensity
        if place is None:
            self.append(confidence, loss)
            at = self.n_waiting - 1
        else:
            at = (<long long> place) - self.n_settled
        if answered:
            self.n_unconfirmed = 0
        if at >= self.n_waiting:
            self.settle(self.strictest(confidence), self.gain(loss, wrong))
        elif at >= 0:
            bet = self.bet(at)
            if not bet.has_come:
                bet.gain = self.gain(-bet.gain, wrong)
                bet.has_come = True
                self.n_ahead += 1
            self.settle_waiting()

    def state(self):
        """Return numbers, wealth and what waits, for `restore`.

        Returns
        -------
        numbers : list of two ints
        wealth : array of shape (n_thresholds, n_stakes + 1)
            Logarithms; the last column has the greatest of their means.
        gains : array of shape (n_waiting,)
        firsts, has_come : arrays of bytes, shape (n_waiting,)
        """
        cdef Py_ssize_t i, j
        wealth = np.empty((self.n_hypotheses, N_STAKES + 1))
        gains = np.empty(self.n_waiting)
        firsts, has_come = np.empty((2, self.n_waiting), np.uint8)
        cdef double[:, ::1] of_wealth = wealth
        cdef double[::1] of_gains = gains
        cdef unsigned char[::1] of_firsts = firsts, of_has_come = has_come
        for i in range(self.n_hypotheses):
            for j in range(N_STAKES):
                of_wealth[i, j] = self.hypotheses[i].wealth[j]
            of_wealth[i, N_STAKES] = self.hypotheses[i].most
        for i in range(self.n_waiting):
            of_gains[i] = self.bet(i).gain
            of_firsts[i] = self.bet(i).first
            of_has_come[i] = self.bet(i).has_come
        return [self.n_unconfirmed, self.n_settled], wealth, gains, firsts, has_come

    def restore(
        self,
        numbers,
        const double[:, ::1] wealth not None,
        const double[::1] gains not None,
        const unsigned char[::1] firsts not None,
        const unsigned char[::1] has_come not None,
    ):
        """Set what `state` returned; raise ``ValueError`` if it can't be a state."""
        cdef Py_ssize_t i, j, n = gains.shape[0], n_ahead = 0, room = LEAST_ROOM
        cdef double mean, best = self.share / (1.0 - self.share)
        cdef Hypothesis each
        require(
            wealth.shape[0] == self.n_hypotheses and wealth.shape[1] == N_STAKES + 1,
            "each threshold must have the wealth of all stakes",
        )
        for i in range(self.n_hypotheses):
            for j in range(N_STAKES):
                each.wealth[j] = wealth[i, j]
                require(each.wealth[j] < INFINITY, "wealth must be finite")
            mean = mean_of(&each)
            # Another machine may round logarithms otherwise.
            require(
                fmax(mean - 1e-9, 0.0) <= wealth[i, N_STAKES] < INFINITY,
                "wealth must have been what it is",
            )
        require(firsts.shape[0] == has_come.shape[0] == n, "all places must have all parts")
        require(n <= self.most_places, "only so many places may wait")
        for i in range(n):
            require(firsts[i] <= self.n_hypotheses, "places must be of thresholds")
            require(has_come[i] <= 1, "a label has come or has not")
            if has_come[i]:
                require(-1.0 - 1e-9 <= gains[i] <= best + 1e-9, "gains must be possible")
                n_ahead += 1
            else:
                require(-1.0 <= gains[i] <= -self.floor, "losses must be possible")
        require(n == 0 or not has_come[0], "the first place must wait")
        require(n_ahead <= self.most_ahead, "only so many labels may wait")
        while room < n:
            room *= 2
        cdef Bet *bets = <Bet *> allocated(room, sizeof(Bet))
        free(self.bets)
        self.bets, self.room, self.start, self.n_waiting, self.n_ahead = bets, room, 0, n, n_ahead
        for i in range(n):
            bets[i].gain, bets[i].first, bets[i].has_come = gains[i], firsts[i], has_come[i]
        for i in range(self.n_hypotheses):
            for j in range(N_STAKES):
                self.hypotheses[i].wealth[j] = wealth[i, j]
            self.hypotheses[i].most = wealth[i, N_STAKES]
        self.n_unconfirmed, self.n_settled = numbers
        self.count_used()

    cdef Bet *bet(self, Py_ssize_t at) noexcept:
        """Return a bet by how many wait before it."""
        return &self.bets[(self.start + at) % self.room]

    cdef int strictest(self, double confidence) noexcept:
        """Return the index of the strictest threshold that answers a sample."""
        cdef int first = 0
        while first < self.n_hypotheses and self.thresholds[first] > confidence:
            first += 1
        return first

    cdef double least(self, bint answered) noexcept:
        """Return the least propensity of samples that are served now: of all, as they are alike."""
        # An answer comes before any threshold is in use if another state had one.
        return self.floor if self.n_used or answered else 1.0

    cdef double gain(self, double loss, bint wrong) noexcept:
        """Return what a bet gains, in parts of the stake; if the answer is wrong, minus the loss."""
        return -loss if wrong else loss * self.share / (1.0 - self.share)

    cdef int append(self, double confidence, double loss) except -1:
        """Add the last place."""
        if self.n_waiting == self.room:
            self.make_room()
        cdef Bet *bet = self.bet(self.n_waiting)
        bet.gain = -loss
        bet.first, bet.has_come = self.strictest(confidence), False
        self.n_waiting += 1
        return 0

    cdef void settle_waiting(self) noexcept:
        """Settle places up to the first that waits for its label."""
        while self.n_waiting and (
            self.bet(0).has_come
            or self.n_ahead > self.most_ahead
            or self.n_waiting > self.most_places
        ):
            self.settle_first()

    cdef void settle_first(self) noexcept:
        """Settle the first place; without its label, as if its answer were wrong."""
        cdef Bet *bet = self.bet(0)
        self.settle(bet.first, bet.gain)
        self.n_ahead -= bet.has_come
        self.start = (self.start + 1) % self.room
        self.n_waiting -= 1
        self.n_settled += 1

    cdef void settle(self, int first, double gain) noexcept:
        """Settle the bets on one label against all hypotheses from the first on."""
        cdef Py_ssize_t i, j
        cdef double[N_STAKES] gains
        cdef Hypothesis *each
        for j in range(N_STAKES):
            gains[j] = log1p(_stakes[j] * gain)
        for i in range(first, self.n_hypotheses):
            each = &self.hypotheses[i]
            for j in range(N_STAKES):
                each.wealth[j] += gains[j]
            each.most = fmax(each.most, mean_of(each))
        self.count_used()

    cdef void count_used(self) noexcept:
        """Count the hypotheses that are rejected, in both sequences."""
        cdef Py_ssize_t of_all = 0, of_calibrated = self.n_stricter
        while of_all < self.n_hypotheses and self.hypotheses[of_all].most >= self.of_all:
            of_all += 1
        while (
            of_calibrated < self.n_hypotheses
            and self.hypotheses[of_calibrated].most >= self.of_calibrated
        ):
            of_calibrated += 1
        self.n_used = of_all if of_calibrated == self.n_stricter else max(of_all, of_calibrated)


cdef double mean_of(const Hypothesis *each) noexcept:
    """Return the logarithm of the mean wealth of all stakes."""
    cdef int j
    cdef double largest = -1e308, total = 0.0
    for j in range(N_STAKES):
        largest = fmax(largest, each.wealth[j])
    for j in range(N_STAKES):
        total += exp(each.wealth[j] - largest)
    return largest + log(total / N_STAKES)
