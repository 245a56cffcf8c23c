"""Corrections of log odds for each segment, learned online as a Bayesian logistic model.

A sample belongs to one segment of each field, such as its country, and of each crossing of fields.
Its log odds are those of the base calibrator, u, plus one term for each of its segments, plus an
intercept and a slope::

    z = u + intercept + slope · (u − centre) + term(country=de) + term(device=tv)
          + term(country=de, device=tv)                          p = sigmoid(z)

``centre`` is the mean of u over all samples so far. The terms are independent and normal, with mean
0 before anything is learned, so a segment that was never seen changes nothing. A sample of label y
and weight w moves them together. Let v be the variances of its terms and V their sum. The mode z*
of the posterior of z solves z* = z + w · V · (y − p*), where p* = sigmoid(z*), and with
h = w · p* · (1 − p*) each term takes its part (Laplace's approximation, in one dimension; the terms
stay independent, as in assumed-density filtering)::

    mean ← mean + v · (z* − z) / V,    variance ← v − v² · h / (1 + h · V)

The slope has a factor x = u − centre in z: it adds x² · v to V, and its formulas have x · v instead
of v, and x² · v² instead of v².

*Uncertainty.* The answer is the mean of sigmoid(z) over the distribution of z, approximated by
sigmoid(z / sqrt(1 + π V / 8)) (MacKay, *The Evidence Framework Applied to Classification Networks*,
Neural Computation 4, 1992).

*Prior.* Each group of terms (those of a field or a crossing, the intercept, the slope) has a prior
variance P. A term keeps what samples added to the prior: the precision τ and the pull η. So it
follows a prior that changes::

    variance = 1 / (1 / P + τ),    mean = η · variance

The P of greatest evidence is the sum of mean² over all terms, divided by their effective number: a
term counts 1 − variance / P, which is 0 as long as it knows nothing (MacKay, *Bayesian
Interpolation*, Neural Computation 4, 1992). One more term of the initial variance is counted, and P
is at most 1. A term is counted as it was when it last learned.

*Forgetting.* In the time between two samples of a segment its term goes back to the prior as an
Ornstein–Uhlenbeck process does: mean · r and prior + r² · (variance − prior), r = 2^(−n / half-life)
for n samples of the whole stream. With c = 1 + (1 − r²) · prior · τ this is τ · r² / c and η · r / c.
Two models run side by side, and only one of them forgets. With a half-life in seconds n are the
seconds since the segment learned; they pass when a sample is learned, after it was predicted.

*Few segments.* Where the base is right in most segments, the many small terms of all others cost
more than a few large ones gain. So each of the two models has a sparse one beside it, in which a
term is 0 with the probability 1 − ρ, and otherwise has the prior variance S = max(P, SLAB), which is
larger than that of most groups (Mitchell & Beauchamp, *Bayesian Variable Selection in Linear
Regression*, Journal of the American Statistical Association 83, 1988). By Bayes' rule the term is
not 0 with the probability π. Both models share what samples added, τ and η::

    variance = 1 / (1 / S + τ),    mean = η · variance
    π / (1 − π) = ρ / (1 − ρ) · sqrt(variance / S) · exp(η · mean / 2)

So a term counts only if the labels of its segment say that it is not 0: π · mean is its mean, and
π · (variance + (1 − π) · mean²) its variance::

    labels alone say    mean with P = .01    sparse: π    π · mean
    .2 ± .2                           .04         .06         .01
    .8 ± .2                           .16         .98         .67

*Memory.* Terms lie in one array, and a hash table of 64-bit keys has their places. Where the search
for a key begins is random in each process, so nobody can choose values that slow the table down. If
all places are used, a new term replaces the least informative of eight random ones, which is the one
whose variance is the closest to the prior's.
"""

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport INFINITY, M_PI, NAN, exp, exp2, sqrt
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from streamcal.kernels.clock cimport Clock, check_times, new_clock, now_of, passed_until, set_now
from streamcal.kernels.hedge cimport Hedge
from streamcal.kernels.logistic cimport clipped, logit, sigmoid
from streamcal.kernels.memory cimport resize, zeros
from streamcal.kernels.prefetch cimport prefetch
from streamcal.kernels.samples cimport is_sample

import os
from collections.abc import Mapping

import numpy as np

from streamcal._validation import is_na
from streamcal.kernels import expert
from streamcal.kernels.expert import restored

cdef enum:
    SPEEDS = 2  # of forgetting
    MODELS = 4  # one for each speed, then the sparse one of each speed
    ANSWERS = 5  # the base calibrator's, then one for each model
    MOST_TERMS = 1024  # of one sample
    MOST_FIELDS = 64

N_SPEEDS = SPEEDS
N_MODELS = MODELS

cdef double CLIP = 1e-6  # the base's probabilities are clipped to [CLIP, 1 − CLIP]
cdef double PSEUDO_TERMS = 1.0
cdef double MOST_VARIANCE = 1.0  # of a prior
cdef double LEAST_VARIANCE = 1e-12
cdef double SLAB = 0.25  # the least prior variance of a term that is not 0, in the sparse answers
cdef double AGAINST = 9.0  # (1 − ρ) / ρ, the odds that such a term is 0 before its samples
cdef double MOST_MEAN = 30.0
cdef int N_COMPARED = 8  # terms, to find one to replace
cdef uint64_t SECRET = int.from_bytes(os.urandom(8), "little")  # of the hash tables
cdef size_t VIEW_BYTES = expert.VIEW_BYTES
cdef Py_ssize_t INTERCEPT = 0, SLOPE = 1, FIRST_FIELD = 2  # the groups


cdef struct Term:
    uint64_t key  # of the group and the values
    int64_t group
    double learned  # the number of samples, or the seconds, before it last learned
    # What samples added to the prior's 1 / variance, and mean / variance.
    double precision[SPEEDS]
    double pull[SPEEDS]
    float prior[SPEEDS]  # the prior variance with which it was counted


cdef struct Found:  # a term of a sample
    uint64_t key
    Py_ssize_t place  # -1 for one that is not kept
    double mean[SPEEDS]  # now
    double variance[SPEEDS]


cdef struct Sample:
    double answers[ANSWERS]
    double x  # the slope's feature
    double log_odds[SPEEDS]  # without integrating over the uncertainty
    double variance[SPEEDS]  # of these
    Found *found  # the term of each group


# Hashes of values ---------------------------------------------------------------------------------


cdef inline uint64_t scramble(uint64_t h) noexcept nogil:
    """Return a one-to-one function of 64 bits in which each bit depends on all (splitmix64)."""
    h += 0x9E3779B97F4A7C15ULL
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL
    return h ^ (h >> 31)


cdef inline uint64_t combine(uint64_t h, uint64_t other) noexcept nogil:
    return scramble(h ^ scramble(other))


cdef uint64_t hash_bytes(const unsigned char *data, Py_ssize_t n) noexcept nogil:
    """Return the hash of bytes, the same on every machine."""
    cdef uint64_t h = scramble(<uint64_t> n), word
    cdef Py_ssize_t start, i
    for start in range(0, n, 8):
        word = 0
        for i in range(start, min(start + 8, n)):
            word |= (<uint64_t> data[i]) << (8 * (i - start))
        h = combine(h, word)
    return h


cdef enum:  # kinds of values; equal numbers are of one kind
    MISSING = 1
    TEXT = 2
    WHOLE = 3
    FRACTION = 4
    LARGE = 5


cdef double MOST_WHOLE = 9.2e18  # numbers below are 64-bit integers


cdef uint64_t hash_value(object value, object field) except? 0:
    """Return the hash of a field's value; values that are equal in Python have the same."""
    if isinstance(value, str):
        return combine(TEXT, hash_text(value))
    if value is None:
        return scramble(MISSING)
    if isinstance(value, int):
        return hash_int(value)
    if isinstance(value, float):
        return hash_float(value)
    if isinstance(value, np.generic):
        plain = value.item()
        if type(plain) is not type(value):
            return hash_value(plain, field)
    if is_na(value):
        return scramble(MISSING)
    raise TypeError(
        f"the value of the field {field!r} must be text, a number or None, got {value!r}"
    )


cdef uint64_t hash_text(object text) except? 0:
    cdef const char *data
    cdef Py_ssize_t n
    try:
        data = PyUnicode_AsUTF8AndSize(text, &n)
    except UnicodeEncodeError:  # a surrogate
        coded = text.encode("utf-8", "surrogatepass")
        return hash_bytes(coded, len(coded))
    return hash_bytes(<const unsigned char *> data, n)


cdef uint64_t hash_int(object number) except? 0:
    cdef int overflow
    cdef long long small = PyLong_AsLongLongAndOverflow(number, &overflow)
    if not overflow and abs(<double> small) < MOST_WHOLE:
        return combine(WHOLE, <uint64_t> small)
    try:
        if float(number) == number:
            return combine(FRACTION, bits_of(float(number)))
    except OverflowError:
        pass
    coded = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return combine(LARGE, hash_bytes(coded, len(coded)))


cdef uint64_t hash_float(double number) noexcept nogil:
    if number != number:
        return scramble(MISSING)
    if abs(number) < MOST_WHOLE and number == <double> <int64_t> number:
        return combine(WHOLE, <uint64_t> <int64_t> number)
    return combine(FRACTION, bits_of(number))


cdef inline uint64_t bits_of(double number) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &number, 8)
    return bits


cdef double mode(double z, double V, double y, double w) noexcept nogil:
    """Return the solution t of t = z + w · V · (y − sigmoid(t)), by Newton's method."""
    cdef double low, high, t, p, excess, step, last
    cdef int i
    p = sigmoid(z)
    t = z + w * V * (y - p)
    # The solution lies between these two. Beyond ±160 and z, V · w would exceed any weight.
    low, high = max(min(z, t), min(z, -160.0)), min(max(z, t), max(z, 160.0))
    t = min(max(t, low), high) if w * V < 1.0 else z
    step = 2.0 * (high - low)
    for i in range(100):
        p = sigmoid(t)
        excess = t - z - w * V * (y - p)
        if excess > 0.0:
            high = t
        else:
            low = t
        last, step = step, excess / (1.0 + w * V * p * (1.0 - p))
        t -= step
        # From far away, Newton's method may go back and forth between two points.
        if not low <= t <= high or abs(step) > 0.5 * abs(last):
            t = 0.5 * (low + high)
            step = high - low
        if abs(step) < 1e-12:
            break
    return t


cdef inline void posterior(
    double prior, double precision, double pull, double *mean, double *variance
) noexcept nogil:
    """Write the mean and variance of a term of a prior variance, to which samples were added."""
    variance[0] = prior / (1.0 + prior * precision)
    mean[0] = min(max(pull * variance[0], -MOST_MEAN), MOST_MEAN)


cdef inline void sparse_posterior(
    double slab, double precision, double pull, double *mean, double *variance
) noexcept nogil:
    """Write the mean and variance of a term that is 0 unless its samples say otherwise."""
    cdef double center, inside, included
    posterior(slab, precision, pull, &center, &inside)
    # The odds that it is 0 cannot overflow, as their inverse could.
    included = AGAINST * sqrt(1.0 + slab * precision) * exp(-0.5 * pull * center)
    included = 1.0 / (1.0 + included)
    mean[0] = included * center
    variance[0] = included * (inside + (1.0 - included) * center * center)


@cython.final
cdef class SegmentTerms:
    """The terms of all segments; one thread at a time may call it.

    Parameters
    ----------
    fields : tuple of str
    crossings : tuple of tuples of int
        The indices of the fields of each crossing.
    prior_variances : ndarray of shape (2 + n_fields + n_crossings,)
        The initial ones of the intercept, the slope, the fields and the crossings.
    half_life : float
        In samples, or in seconds if ``timed``.
    max_terms : int
    timed : bool
    """

    cdef readonly tuple fields, crossings
    cdef readonly Py_ssize_t n_terms, max_terms
    cdef readonly int64_t n_samples, n_evicted
    cdef double half_life, rate, centre
    cdef bint timed
    cdef double position  # samples, or seconds since the first one
    cdef Clock *clock
    cdef uint64_t random
    cdef Py_ssize_t n_fields, n_groups, room, n_slots
    cdef Term *terms
    cdef uint32_t *slots  # a hash table of the places of terms plus 1; 0 is empty
    cdef double[::1] first_variances  # of the prior, by group, before a term has learned
    cdef double[:, ::1] prior_variances  # those learned, by group and speed
    cdef double[:, ::1] squares  # sums of mean² of all terms, by group and speed
    cdef double[:, ::1] effective  # numbers of terms: sums of what each knows
    cdef Py_ssize_t[::1] members  # the fields of all crossings
    cdef Py_ssize_t[::1] bounds  # where those of each crossing start
    cdef Sample sample

    def __cinit__(
        self,
        fields,
        crossings,
        prior_variances,
        double half_life,
        Py_ssize_t max_terms,
        bint timed=False,
    ):
        self.fields, self.crossings = tuple(fields), tuple(crossings)
        self.n_fields = len(self.fields)
        self.n_groups = FIRST_FIELD + self.n_fields + len(self.crossings)
        if not len(prior_variances) == self.n_groups <= MOST_TERMS:
            raise ValueError("there must be a variance for each group of terms")
        if self.n_fields > MOST_FIELDS:
            raise ValueError("there are too many fields")
        # Two more are kept: the intercept and the slope.
        self.max_terms, self.half_life, self.rate = max_terms, half_life, 1.0 / half_life
        self.timed, self.position = timed, 0.0
        self.clock = new_clock(half_life if timed else INFINITY)
        self.first_variances = np.array(prior_variances, dtype=np.float64)
        self.prior_variances = np.repeat(prior_variances, SPEEDS).reshape(-1, SPEEDS)
        self.squares = np.zeros((self.n_groups, SPEEDS))
        self.effective = np.zeros((self.n_groups, SPEEDS))
        self.members = np.array([f for c in self.crossings for f in c], dtype=np.intp)
        self.bounds = np.cumsum([0, *map(len, self.crossings)], dtype=np.intp)
        self.random = 1
        self.sample.found = <Found *> zeros(self.n_groups, sizeof(Found))
        self.make_room(0)
        for group in (INTERCEPT, SLOPE):
            self.terms[group].key, self.terms[group].group = 0, group
            self.terms[group].learned = -1.0

    def __dealloc__(self):
        free(self.terms)
        free(self.slots)
        free(self.sample.found)
        free(self.clock)

    # For Python -----------------------------------------------------------------------------------

    def read(self, x):
        """Return the hashes of the fields' values in a mapping; a missing field is None."""
        cdef bytes hashes = PyBytes_FromStringAndSize(NULL, self.n_fields * sizeof(uint64_t))
        self.read_to(x, <uint64_t *> PyBytes_AS_STRING(hashes))
        return hashes

    cdef int read_to(self, x, uint64_t *out) except -1:
        """Write the hashes of the fields' values in a mapping."""
        cdef PyObject *found
        cdef Py_ssize_t i
        if type(x) is not dict and not isinstance(x, Mapping):
            raise TypeError(f"`x` must be a mapping from fields to values, got {x!r}")
        for i in range(self.n_fields):
            field = self.fields[i]
            if type(x) is dict:
                found = PyDict_GetItemWithError(x, field)
                value = None if found == NULL else <object> found
            else:
                value = x.get(field)
            out[i] = hash_value(value, field)
        return 0

    def read_columns(self, columns, Py_ssize_t n_samples):
        """Return the hashes of lists of values, one list for each field, sample by sample."""
        cdef Py_ssize_t i, t
        hashes = np.empty((n_samples, self.n_fields), dtype=np.uint64)
        cdef uint64_t[:, ::1] out = hashes
        for i, (field, column) in enumerate(zip(self.fields, columns, strict=True)):
            for t in range(n_samples):
                out[t, i] = hash_value(column[t], field)
        return hashes

    cdef const uint64_t *hashes_of(self, bytes read) except NULL:
        if read is None or PyBytes_GET_SIZE(read) != self.n_fields * <Py_ssize_t> sizeof(uint64_t):
            raise ValueError("there must be a hash for each field")
        return <const uint64_t *> PyBytes_AS_STRING(read)

    def answers(self, bytes hashes, double base):
        """Return the base's probability, clipped, and that of each model."""
        self.find_terms(self.hashes_of(hashes))
        self.predict_sample(base)
        return [self.sample.answers[i] for i in range(ANSWERS)]

    def predict(self, Hedge hedge, x, double base):
        """Return the mixture of the answers for a mapping by the weights of a hedge.

        Before anything is learned it is the base's probability.
        """
        cdef uint64_t hashes[MOST_FIELDS]
        self.read_to(x, hashes)  # this may run Python code, and calls of this object in it
        if self.n_samples == 0:
            return base
        self.find_terms(hashes)
        self.predict_sample(base)
        return self.mixture(hedge)

    cpdef double mixture(self, Hedge hedge) noexcept nogil:
        """Return the mixture of the answers for the sample that was predicted last."""
        cdef double mean = 0.0
        cdef int i
        for i in range(ANSWERS):
            mean += hedge.mixed[i] * self.sample.answers[i]
        return mean

    def reserve(self, Py_ssize_t n_samples):
        """Make room for the terms of samples, so that learning them needs no memory."""
        self.make_room(n_samples * self.n_groups)

    def learn(self, bytes hashes, double base, double y, double w, double t=NAN):
        """Learn a sample that has been checked; return the answers for it before.

        Their weights stay. ``t`` is its time in seconds.
        """
        cdef int i
        self.learn_sample(self.hashes_of(hashes), base, y, w, t)
        return [self.sample.answers[i] for i in range(ANSWERS)]

    def learn_and_weigh(
        self,
        Hedge hedge,
        bytes hashes,
        double base,
        double y,
        double w,
        double delay,
        double t=NAN,
    ):
        """Learn a sample that has been checked, and let a hedge weigh the answers from before."""
        cdef const uint64_t *read = self.hashes_of(hashes)
        hedge.acquire()
        try:
            if delay > 0.0 and hedge.variance_ratio is None:
                hedge.expect_late_labels()
            self.learn_sample(read, base, y, w, t)
            self.weigh(hedge, y, w, delay)
        finally:
            hedge.release()

    def predict_learn_many(
        self,
        Hedge hedge,
        const uint64_t[:, ::1] hashes,
        const double[::1] bases,
        const double[::1] y,
        const double[::1] w,
        const double[::1] delays,
        const double[::1] times=None,
    ):
        """Return the mixture of the answers for each sample, and learn it after that.

        A sample whose label is NaN or out of range is not learned. If memory ends, the samples
        before it are.
        """
        cdef Py_ssize_t t, n = bases.shape[0]
        cdef bint is_new, learns, timed = times is not None
        cdef double base, label, weight
        check_times(times, n)
        if not hashes.shape[0] == y.shape[0] == w.shape[0] == delays.shape[0] == n:
            raise ValueError("all arrays must have the same length")
        if hashes.shape[1] != self.n_fields:
            raise ValueError("there must be a hash for each field")
        mixtures = np.empty(n)
        cdef double[::1] out = mixtures
        hedge.acquire()
        try:
            for t in range(n):
                if delays[t] > 0.0 and hedge.variance_ratio is None:
                    hedge.expect_late_labels()
            with nogil:
                for t in range(n):
                    is_new = self.n_samples == 0
                    # Another thread may write to the arrays: what is learned is read once.
                    base, label, weight = bases[t], y[t], w[t]
                    learns = is_sample(0.5, label, weight)  # a base of your own may be out of range
                    if learns:
                        self.learn_sample(
                            &hashes[t, 0], base, label, weight, times[t] if timed else NAN
                        )
                    else:
                        self.find_terms(&hashes[t, 0])
                        self.predict_sample(base)
                    out[t] = base if is_new else self.mixture(hedge)
                    if learns:
                        self.weigh(hedge, label, weight, delays[t])
        finally:
            hedge.release()
        return mixtures

    cdef void weigh(self, Hedge hedge, double y, double w, double delay) noexcept nogil:
        """Let a hedge weigh the answers for the sample that was predicted last."""
        cdef double answers[ANSWERS]
        memcpy(answers, self.sample.answers, sizeof(answers))
        hedge.weigh(answers, NULL, NULL, y, w, delay)

    def effects(self, bytes hashes):
        """Return mean and variance of each term of a sample, shape ``(n_groups, 2, n_models)``."""
        cdef Py_ssize_t group
        self.find_terms(self.hashes_of(hashes))
        found = np.empty((self.n_groups, 2, MODELS))
        cdef double[:, :, ::1] out = found
        for group in range(self.n_groups):
            self.moments(group, self.sample.found[group].place, &out[group, 0, 0], &out[group, 1, 0])
        return found

    @property
    def learned_variances(self):
        """The prior variances that were learned, shape ``(n_groups, n_speeds)``."""
        return np.array(self.prior_variances)

    @property
    def memory_usage(self):
        """Bytes of memory of all terms."""
        return self.room * sizeof(Term) + self.n_slots * sizeof(uint32_t)

    def __sizeof__(self):
        cdef size_t of_groups = self.n_groups * (sizeof(Found) + (1 + 3 * SPEEDS) * sizeof(double))
        return object.__sizeof__(self) + self.memory_usage + of_groups + 6 * VIEW_BYTES

    # Predict --------------------------------------------------------------------------------------

    cdef void find_terms(self, const uint64_t *hashes) noexcept nogil:
        """Find the places of a sample's terms."""
        cdef Py_ssize_t group, slot
        self.sample.found[INTERCEPT].place, self.sample.found[SLOPE].place = INTERCEPT, SLOPE
        # Most terms are in no cache, so all are asked for before the first one is used.
        for group in range(FIRST_FIELD, self.n_groups):
            self.sample.found[group].key = self.key_of(group, hashes)
            prefetch(&self.slots[self.home(self.sample.found[group].key)], sizeof(uint32_t))
        for group in range(FIRST_FIELD, self.n_groups):
            slot = self.slots[self.home(self.sample.found[group].key)]
            prefetch(&self.terms[max(slot - 1, 0)], sizeof(Term))
        for group in range(FIRST_FIELD, self.n_groups):
            self.sample.found[group].place = self.find(self.sample.found[group].key)

    cdef void predict_sample(self, double base) noexcept nogil:
        """Compute the answers for the sample whose terms were found."""
        cdef double p = clipped(base, CLIP), u = logit(p), x
        cdef double mean[MODELS]
        cdef double variance[MODELS]
        cdef double log_odds[MODELS]
        cdef double total[MODELS]
        cdef Py_ssize_t group
        cdef int k
        self.sample.answers[0] = p
        self.sample.x = u - self.centre
        for k in range(MODELS):
            log_odds[k], total[k] = u, 0.0
        for group in range(self.n_groups):
            self.moments(group, self.sample.found[group].place, mean, variance)
            x = self.sample.x if group == SLOPE else 1.0
            for k in range(MODELS):
                log_odds[k] += x * mean[k]
                total[k] += x * x * variance[k]
            for k in range(SPEEDS):  # those that learn
                self.sample.found[group].mean[k] = mean[k]
                self.sample.found[group].variance[k] = variance[k]
        for k in range(SPEEDS):
            self.sample.log_odds[k], self.sample.variance[k] = log_odds[k], total[k]
        for k in range(MODELS):
            p = sigmoid(log_odds[k] / sqrt(1.0 + M_PI / 8.0 * total[k]))
            # The base is served before anything is learned, so no model may gain on it then.
            if self.n_samples == 0:
                p = self.sample.answers[0]
            self.sample.answers[k + 1] = clipped(p, CLIP)

    cdef void age_sample(self) noexcept nogil:
        """Compute anew what the terms of the sample know where they forget; the answers stay."""
        cdef double precision[SPEEDS]
        cdef double pull[SPEEDS]
        cdef double mean, variance, x
        cdef double log_odds = self.sample.x + self.centre, total = 0.0
        cdef Py_ssize_t group
        for group in range(self.n_groups):
            self.learned_part(group, self.sample.found[group].place, precision, pull)
            posterior(self.prior_variances[group, 0], precision[0], pull[0], &mean, &variance)
            x = self.sample.x if group == SLOPE else 1.0
            log_odds += x * mean
            total += x * x * variance
            self.sample.found[group].mean[0] = mean
            self.sample.found[group].variance[0] = variance
        self.sample.log_odds[0], self.sample.variance[0] = log_odds, total

    cdef inline uint64_t key_of(self, Py_ssize_t group, const uint64_t *hashes) noexcept nogil:
        """Return the key of a sample's term in a group."""
        cdef uint64_t key = scramble(<uint64_t> group)
        cdef Py_ssize_t crossing = group - FIRST_FIELD - self.n_fields, i
        if crossing < 0:
            return combine(key, hashes[group - FIRST_FIELD])
        for i in range(self.bounds[crossing], self.bounds[crossing + 1]):
            key = combine(key, hashes[self.members[i]])
        return key

    cdef inline void moments(
        self, Py_ssize_t group, Py_ssize_t place, double *mean, double *variance
    ) noexcept nogil:
        """Write the current mean and variance of a term for each model."""
        cdef double precision[SPEEDS]
        cdef double pull[SPEEDS]
        cdef double prior
        cdef int k
        self.learned_part(group, place, precision, pull)
        for k in range(SPEEDS):
            prior = self.prior_variances[group, k]
            posterior(prior, precision[k], pull[k], &mean[k], &variance[k])
            sparse_posterior(
                max(prior, SLAB), precision[k], pull[k], &mean[SPEEDS + k], &variance[SPEEDS + k]
            )

    cdef inline void learned_part(
        self, Py_ssize_t group, Py_ssize_t place, double *precision, double *pull
    ) noexcept nogil:
        """Write what samples added to the prior of a term, less what was forgotten, by speed."""
        cdef const Term *term = &self.terms[place] if place >= 0 else NULL
        cdef double kept, shrunk
        cdef int k
        for k in range(SPEEDS):
            precision[k] = pull[k] = 0.0
        if term == NULL or term.learned < 0.0:
            return
        for k in range(SPEEDS):
            precision[k], pull[k] = term.precision[k], term.pull[k]
        kept = exp2(-self.rate * (self.position - term.learned))
        shrunk = kept / (1.0 + (1.0 - kept * kept) * self.prior_variances[group, 0] * precision[0])
        precision[0] *= kept * shrunk
        pull[0] *= shrunk

    # Learn ----------------------------------------------------------------------------------------

    cdef int learn_sample(
        self, const uint64_t *hashes, double base, double y, double w, double time
    ) except -1 nogil:
        """Compute the answers for a sample, then learn it."""
        cdef double pulls[SPEEDS]
        cdef double gains[SPEEDS]
        cdef double t, p, h, V, passed
        cdef Py_ssize_t group
        cdef int k
        self.make_room(self.n_groups)
        self.find_terms(hashes)
        self.predict_sample(base)
        passed = passed_until(self.clock, time)
        if passed > 0.0:
            self.position += passed
            self.age_sample()
        for k in range(SPEEDS):
            V = self.sample.variance[k]
            t = mode(self.sample.log_odds[k], V, y, w)
            pulls[k] = (t - self.sample.log_odds[k]) / V  # this is w · (y − p), without rounding
            p = sigmoid(t)
            h = w * p * (1.0 - p)
            gains[k] = h / (1.0 + h * V)
        for group in range(self.n_groups):
            if self.sample.found[group].place < 0:
                self.sample.found[group].place = self.add_term(self.sample.found[group].key, group)
            self.update(group, self.sample.x if group == SLOPE else 1.0, pulls, gains)
        self.learn_priors()
        self.n_samples += 1
        if not self.timed:
            self.position = self.n_samples
        self.centre += (logit(self.sample.answers[0]) - self.centre) / self.n_samples
        return 0

    cdef void update(
        self, Py_ssize_t group, double x, const double *pulls, const double *gains
    ) noexcept nogil:
        """Let the sample's term of a group learn its part."""
        cdef Term *term = &self.terms[self.sample.found[group].place]
        cdef double mean, variance, prior
        cdef int k
        if term.learned >= 0.0:
            self.count(term, -1.0)
        for k in range(SPEEDS):
            mean, variance = self.sample.found[group].mean[k], self.sample.found[group].variance[k]
            mean = min(max(mean + variance * x * pulls[k], -MOST_MEAN), MOST_MEAN)
            variance = max(variance * (1.0 - variance * x * x * gains[k]), LEAST_VARIANCE)
            prior = self.prior_variances[group, k]
            term.precision[k] = max(1.0 / variance - 1.0 / prior, 0.0)
            term.pull[k] = mean / variance
            term.prior[k] = <float> prior
        term.learned = self.position
        self.count(term, 1.0)

    cdef inline void count(self, Term *term, double sign) noexcept nogil:
        """Add a term to the sums of its group, or subtract it."""
        cdef double mean, variance
        cdef int k
        for k in range(SPEEDS):
            posterior(term.prior[k], term.precision[k], term.pull[k], &mean, &variance)
            self.squares[term.group, k] += sign * mean * mean
            self.effective[term.group, k] += sign * variance * term.precision[k]

    cdef void learn_priors(self) noexcept nogil:
        """Set the prior variances to those of greatest evidence."""
        cdef double total, number, first
        cdef Py_ssize_t group
        cdef int k
        for group in range(self.n_groups):
            first = self.first_variances[group]
            for k in range(SPEEDS):
                # Rounding may leave sums a little below 0.
                total = max(self.squares[group, k], 0.0) + PSEUDO_TERMS * first
                number = max(self.effective[group, k], 0.0) + PSEUDO_TERMS
                self.prior_variances[group, k] = min(
                    max(total / number, LEAST_VARIANCE), MOST_VARIANCE
                )

    # Memory ---------------------------------------------------------------------------------------

    cdef inline Py_ssize_t home(self, uint64_t key) noexcept nogil:
        """Return the slot where the search for a key begins."""
        return <Py_ssize_t> (scramble(key ^ SECRET) & <uint64_t> (self.n_slots - 1))

    cdef inline Py_ssize_t find(self, uint64_t key) noexcept nogil:
        """Return the place of the term with a key, or -1."""
        cdef Py_ssize_t mask = self.n_slots - 1, slot = self.home(key)
        while self.slots[slot] != 0:
            if self.terms[self.slots[slot] - 1].key == key:
                return self.slots[slot] - 1
            slot = (slot + 1) & mask
        return -1

    cdef Py_ssize_t add_term(self, uint64_t key, Py_ssize_t group) noexcept nogil:
        """Return the place of a new term; there is room for it, or it replaces another."""
        cdef Py_ssize_t place
        if self.n_terms < self.max_terms:
            place = FIRST_FIELD + self.n_terms
            self.n_terms += 1
        else:
            place = self.least_informative()
            self.count(&self.terms[place], -1.0)
            self.remove(self.terms[place].key)
            self.n_evicted += 1
        self.terms[place].key, self.terms[place].group = key, group
        self.terms[place].learned = -1.0
        self.insert(place)
        return place

    cdef Py_ssize_t least_informative(self) noexcept nogil:
        """Return the place of the least informative of some random terms, none of this sample."""
        cdef Py_ssize_t place, best = -1, group
        cdef double information, least = 0.0
        cdef int n_compared = 0
        cdef bint is_used
        while n_compared < N_COMPARED:
            self.random += 0x9E3779B97F4A7C15ULL
            place = FIRST_FIELD + <Py_ssize_t> (
                scramble(self.random) % <uint64_t> self.max_terms
            )
            is_used = self.terms[place].learned == self.n_samples
            for group in range(FIRST_FIELD, self.n_groups):
                is_used |= self.sample.found[group].place == place
            if is_used:
                continue
            information = self.information(place)
            if best < 0 or information < least:
                best, least = place, information
            n_compared += 1
        return best

    cdef double information(self, Py_ssize_t place) noexcept nogil:
        """Return by which parts a term's variances are less than those of the prior, added."""
        cdef double precision[SPEEDS]
        cdef double pull[SPEEDS]
        cdef double total = 0.0, known
        cdef Py_ssize_t group = self.terms[place].group
        cdef int k
        self.learned_part(group, place, precision, pull)
        for k in range(SPEEDS):
            known = self.prior_variances[group, k] * precision[k]
            total += known / (1.0 + known)
        return total

    cdef void insert(self, Py_ssize_t place) noexcept nogil:
        """Put a term into the hash table."""
        cdef Py_ssize_t mask = self.n_slots - 1, slot = self.home(self.terms[place].key)
        while self.slots[slot] != 0:
            slot = (slot + 1) & mask
        self.slots[slot] = <uint32_t> (place + 1)

    cdef void remove(self, uint64_t key) noexcept nogil:
        """Remove a term from the hash table; later ones of the same run move forward."""
        cdef Py_ssize_t mask = self.n_slots - 1, slot = self.home(key), home
        while self.terms[self.slots[slot] - 1].key != key:
            slot = (slot + 1) & mask
        cdef Py_ssize_t hole = slot
        while True:
            slot = (slot + 1) & mask
            if self.slots[slot] == 0:
                break
            home = self.home(self.terms[self.slots[slot] - 1].key)
            if ((slot - home) & mask) >= ((slot - hole) & mask):
                self.slots[hole] = self.slots[slot]
                hole = slot
        self.slots[hole] = 0

    cdef int make_room(self, Py_ssize_t n_new) except -1 nogil:
        """Make room for new terms; nothing else changes, also if memory ends."""
        cdef Py_ssize_t needed = FIRST_FIELD + min(self.n_terms + n_new, self.max_terms), room
        cdef Py_ssize_t n_slots
        if needed > self.room:
            room = max(min(needed + needed // 4, FIRST_FIELD + self.max_terms), needed)
            resize(<void **> &self.terms, room, sizeof(Term))
            self.room = room
        n_slots = max(self.n_slots, 64)
        while 3 * n_slots < 4 * needed:
            n_slots *= 2
        if n_slots > self.n_slots:
            self.fill_slots(n_slots)
        return 0

    cdef int fill_slots(self, Py_ssize_t n_slots) except -1 nogil:
        """Make a hash table of this size for all terms."""
        cdef uint32_t *slots = <uint32_t *> zeros(n_slots, sizeof(uint32_t))
        cdef Py_ssize_t place
        free(self.slots)
        self.slots, self.n_slots = slots, n_slots
        for place in range(FIRST_FIELD, FIRST_FIELD + self.n_terms):
            self.insert(place)
        return 0

    # State ----------------------------------------------------------------------------------------

    def state(self):
        """Return what `restore` takes: numbers, sums of the groups, and an array for each part."""
        cdef Py_ssize_t n = FIRST_FIELD + self.n_terms, i
        cdef int k
        numbers = [self.n_samples, self.n_evicted, self.centre, self.random]
        keys, groups = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        learned = np.empty(n)
        precisions, pulls, priors = (np.zeros((n, SPEEDS)) for _ in range(3))
        cdef int64_t[::1] key_view = keys, group_view = groups
        cdef double[::1] learned_view = learned
        cdef double[:, ::1] precision_view = precisions, pull_view = pulls, prior_view = priors
        for i in range(n):
            key_view[i], group_view[i] = <int64_t> self.terms[i].key, self.terms[i].group
            learned_view[i] = self.terms[i].learned
            for k in range(SPEEDS if self.terms[i].learned >= 0.0 else 0):
                precision_view[i, k] = self.terms[i].precision[k]
                pull_view[i, k] = self.terms[i].pull[k]
                prior_view[i, k] = self.terms[i].prior[k]
        sums = np.array(self.squares), np.array(self.effective)
        if self.timed:
            numbers += [self.position, now_of(self.clock)]
        return numbers, *sums, keys, groups, learned, precisions, pulls, priors

    def restore(
        self,
        numbers,
        squares,
        effective,
        const int64_t[::1] keys,
        const int64_t[::1] groups,
        const double[::1] learned,
        const double[:, ::1] precisions,
        const double[:, ::1] pulls,
        const double[:, ::1] priors,
    ):
        """Set the state of new terms to what `state` returned."""
        cdef Py_ssize_t n = keys.shape[0], i
        cdef int k
        self.make_room(n - FIRST_FIELD)
        self.n_samples, self.n_evicted, self.centre, self.random = numbers[:4]
        self.position = self.n_samples
        if self.timed:
            self.position, now = numbers[4:]
            set_now(self.clock, now)
        self.n_terms = n - FIRST_FIELD
        for i in range(n):
            self.terms[i].key, self.terms[i].group = <uint64_t> keys[i], groups[i]
            self.terms[i].learned = learned[i]
            for k in range(SPEEDS):
                self.terms[i].precision[k], self.terms[i].pull[k] = precisions[i, k], pulls[i, k]
                self.terms[i].prior[k] = <float> priors[i, k]
            if i >= FIRST_FIELD:
                self.insert(i)
        self.squares, self.effective = np.array(squares), np.array(effective)
        self.learn_priors()

    def __reduce__(self):
        settings = (
            self.fields,
            self.crossings,
            np.asarray(self.first_variances),
            self.half_life,
            self.max_terms,
            self.timed,
        )
        return restored, (SegmentTerms, settings, self.state())
