"""Mixing calibrators by their likelihood.

Of log loss, a mixture by weights proportional to prior times likelihood is Bayes' rule: its total
loss is −log of the mean likelihood, hence at most that of any calibrator plus log of one over its
prior (Vovk, *Aggregating Strategies*, COLT 1990). Dealing α of the weight out by the prior after
each sample is Bayes' rule for sequences of calibrators that switch with probability α (Herbster &
Warmuth, *Tracking the Best Expert*, Machine Learning 1998). Several α run at once, and the same
rule mixes them::

    experts   .2  .7  .4      answers to a sample of label 1
    α = 0     .1  .8  .1      weights under each α; they are multiplied by the answers,
    α = .01   .3  .4  .3      and α of their sum is dealt out anew
    mixed     .2  .6  .2      what is served: the rows, mixed by the likelihood of each α

*Labels that come late.* A label then says less, as losses that follow each other depend on each
other: likelihoods are raised to the power η = 1 / VR, where VR is the variance ratio of the experts'
losses, and α becomes α η. As one ratio does not fit all streams, the rows come three times, with the
powers η, √η and 1 for η. Each row is charged what it *served*, and the rows are mixed with the power
η. A row that stands for the raw score alone has a prior of (1 − η) / 2 there. Where no label was
late η is 1, the three are the same, and only one of them is kept.

Without sharing a weight may fall below any float and still come back, so where α = 0 weights are
kept as logarithms. An expert is a compiled one (`Expert`) or any object with ``predict_one`` and
``learn_one``.

Experts of Python run while the hedge's lock is held. Should one of them, or a handler of signals
that comes in there, call the same hedge, that raises: it would wait for itself.
"""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.math cimport INFINITY, exp, log, sqrt

from streamcal.kernels.expert cimport Expert, is_sample
from streamcal.kernels.variance_ratio cimport VarianceRatio

import numpy as np

from streamcal.kernels.expert import restored


cdef enum:
    POWERS = 3  # of η: 1, 1/2 and 0

cdef class Hedge:
    """Experts, and their weights under several shares.

    Parameters
    ----------
    experts : list
    shares : ndarray of shape (n_shares,)
    prior : ndarray of shape (n_experts,)
        Positive, with sum 1.
    clip : float
        Answers count as if they were in [clip, 1 − clip].
    raw : int
        The place of the expert that answers with the raw score; -1 if there is none.
    """

    def __cinit__(self, experts, shares, prior, clip, raw):
        n = len(experts)
        self.experts = tuple(experts)
        self.clip = clip
        self.shares = np.array(shares, dtype=np.float64)
        self.n_shares = len(shares)
        self.raw = raw
        self.log_odds = np.zeros(len(shares) + 1)
        self.powers = np.ones(POWERS)
        self.prior = np.array(prior, dtype=np.float64)
        self.mixed = np.array(prior, dtype=np.float64)
        self.answers = np.empty(n)
        logs = np.log(self.prior)
        self.weights = np.array([self.prior if share else logs for share in shares])
        self.gains = np.empty(max(n, POWERS * len(shares)))

    cdef int enter(self) except -1:
        """Take the lock; raise if this very thread has it."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self.owner == thread:
            raise RuntimeError(
                "a HedgedCalibrator must not be called while the same thread is inside one of its"
                " calls, as from a signal handler or from one of its calibrators"
            )
        self.lock.acquire()
        self.owner = thread
        return 0

    cdef void leave(self) noexcept:
        self.owner = 0
        self.lock.release()

    # ------------------------------------------------------------------ for Python

    def learn(self, double score, double y, double w, double delay, served=None, mixes=None):
        """Weigh the experts by their answers, or those ``served``, then teach them the sample.

        Labels come ``delay`` samples late. ``mixes`` are what the rows served; without them they
        are charged what they would answer.
        """
        cdef Py_ssize_t i
        cdef double[::1] mixed_answers
        self.enter()
        try:
            for i in range(self.answers.shape[0]):
                self.answers[i] = self.answer_of(i, score) if served is None else served[i]
            for expert in self.experts:  # first those that may refuse the sample
                if not isinstance(expert, Expert):
                    expert.learn_one(score, y, w)
            for expert in self.experts:
                if isinstance(expert, Expert):
                    (<Expert> expert).teach(score, y, w)
            if delay > 0.0 and self.variance_ratio is None:
                self.expect_late_labels()
            if mixes is None:
                self.weigh(&self.answers[0], NULL, y, w, delay)
            else:
                if len(mixes) < len(self.shares):  # served before a label was late
                    mixes = np.tile(mixes, POWERS)
                mixed_answers = mixes
                self.weigh(&self.answers[0], &mixed_answers[0], y, w, delay)
            self.n_learned += 1
        finally:
            self.leave()

    cpdef int expect_late_labels(self) except -1:
        """Keep the rows once for each power."""
        self.variance_ratio = VarianceRatio(len(self.experts))
        self.shares = np.tile(self.shares, POWERS)
        self.weights = np.tile(self.weights, (POWERS, 1))
        self.log_odds = np.append(np.tile(self.log_odds[: self.n_shares], POWERS), 0.0)
        return 0

    def predict(self, double score):
        """Return the mixture's answer; before anything is learned that is the score itself."""
        cdef Py_ssize_t i
        cdef double mean = 0.0
        self.enter()
        try:
            if self.n_learned == 0:
                return score
            for i in range(self.answers.shape[0]):
                mean += self.mixed[i] * self.clipped(self.answer_of(i, score))
        finally:
            self.leave()
        return mean

    def serve(self, double score):
        """Return the mixture's answer, how many samples are learned, and all other answers.

        These are those of the experts, then those of the rows.
        """
        cdef Py_ssize_t i, k
        cdef double mean = 0.0
        self.enter()
        try:
            answers = [self.answer_of(i, score) for i in range(self.answers.shape[0])]
            for i in range(self.answers.shape[0]):
                self.answers[i] = answers[i]
                mean += self.mixed[i] * self.clipped(answers[i])
            answers += [self.answer_of_row(k, &self.answers[0]) for k in range(len(self.shares))]
            return (mean if self.n_learned else score), self.n_learned, tuple(answers)
        finally:
            self.leave()

    def predict_many(self, calibrators, scores):
        """Return the mixture's answers; the ``calibrators`` are those of the experts."""
        cdef Py_ssize_t i
        self.enter()
        try:
            if self.n_learned == 0:
                return np.array(scores)
            mixture = np.zeros(len(scores))
            for i in range(self.mixed.shape[0]):  # added one by one, as `predict` does
                answers = calibrators[i].predict_many(scores)
                mixture += self.mixed[i] * answers.clip(self.clip, 1.0 - self.clip)
        finally:
            self.leave()
        return mixture

    def run(self, calibrators, scores, y, w, double delay):
        """Predict, then learn each sample, and return what was served.

        The ``calibrators`` are those of the experts; each goes over the whole batch at once.
        """
        out = np.empty(len(scores))
        cdef double[::1] mixed_answers = out
        cdef const double[::1] asked = scores, labels = y, sample_weights = w
        cdef double[:, ::1] answers
        cdef double label, weight
        cdef Py_ssize_t t, i, n_learned = 0
        if not len(labels) == len(sample_weights) == len(scores):
            raise ValueError("scores, labels and weights must be as many")
        self.enter()
        try:
            answers = np.empty((len(scores), len(self.experts)))
            if delay > 0.0 and self.variance_ratio is None:
                self.expect_late_labels()
            for i, calibrator in enumerate(calibrators):
                column = calibrator.predict_learn_many(scores, y, w)
                np.asarray(answers)[:, i] = checked(column, out)
            with nogil:
                for t in range(answers.shape[0]):
                    mixed_answers[t] = 0.0
                    for i in range(answers.shape[1]):
                        mixed_answers[t] += self.mixed[i] * self.clipped(answers[t, i])
                    label, weight = labels[t], sample_weights[t]
                    if is_sample(asked[t], label, weight):
                        self.weigh(&answers[t, 0], NULL, label, weight, delay)
                        n_learned += 1
            if self.n_learned == 0:
                out[:1] = scores[:1]
            self.n_learned += n_learned
        finally:
            self.leave()
        return out

    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0:
        cdef double answer
        expert = self.experts[i]
        if isinstance(expert, Expert):
            return (<Expert> expert).answer(score)
        answer = expert.predict_one(score)
        if answer != answer:  # one NaN would stay in the weights for good
            raise ValueError(f"`calibrators` must answer with numbers, got NaN of {expert!r}")
        return answer

    # ------------------------------------------------------------------ weighing

    cdef inline double clipped(self, double answer) noexcept nogil:
        return min(max(answer, self.clip), 1.0 - self.clip)

    cdef double answer_of_row(self, Py_ssize_t k, double *answers) noexcept nogil:
        """Return the mean of the experts' answers by the weights of a row."""
        cdef Py_ssize_t i
        cdef double p = 0.0, total = 0.0, v
        if self.shares[k] == 0.0:
            for i in range(self.prior.shape[0]):
                v = exp(self.weights[k, i])
                total += v
                p += v * self.clipped(answers[i])
            p /= total
        else:
            for i in range(self.prior.shape[0]):
                p += self.weights[k, i] * self.clipped(answers[i])
        # Rounding may make a mean of equal numbers a little more than 1 − clip.
        return self.clipped(p)

    cdef void weigh(
        self, double *answers, const double *mixes, double y, double w, double delay
    ) noexcept nogil:
        """Weigh the experts and the rows by their answers to a sample of label ``y``.

        ``answers`` is left with log likelihoods.
        """
        cdef Py_ssize_t n_rows = self.shares.shape[0], i, k
        cdef double p, eta
        for k in range(n_rows):
            p = self.answer_of_row(k, answers) if mixes == NULL else mixes[k]
            self.gains[k] = log_likelihood(p, y)
        for i in range(self.prior.shape[0]):
            answers[i] = log_likelihood(self.clipped(answers[i]), y)
        if self.variance_ratio is not None:
            self.variance_ratio.add(answers, w, delay)
            eta = 1.0 / self.variance_ratio.ratio(delay)
            self.powers[0] = eta
            self.powers[1] = sqrt(eta)
            if self.raw >= 0:
                self.log_odds[n_rows] += eta * w * answers[self.raw]
        for k in range(n_rows):
            self.log_odds[k] += self.powers[0] * w * self.gains[k]
        for i in range(n_rows // self.n_shares):
            self.weigh_rows(i * self.n_shares, answers, w, self.powers[i])
        self.mix()

    cdef void weigh_rows(
        self, Py_ssize_t start, const double *logs, double w, double power
    ) noexcept nogil:
        """Weigh the experts in the rows of one power by their log likelihoods."""
        cdef Py_ssize_t n = self.prior.shape[0], i, k
        cdef double best = -INFINITY, top, total, share, v
        for i in range(n):
            self.gains[i] = power * w * logs[i]
            best = max(best, self.gains[i])
        for k in range(start, start + self.n_shares):
            if self.shares[k] == 0.0:
                top = -INFINITY
                for i in range(n):
                    self.weights[k, i] += self.gains[i]
                    top = max(top, self.weights[k, i])
                for i in range(n):
                    self.weights[k, i] -= top
        for i in range(n):
            self.gains[i] = exp(self.gains[i] - best)
        for k in range(start, start + self.n_shares):
            share = power * self.shares[k]
            if share > 0.0:
                total = 0.0
                for i in range(n):
                    self.weights[k, i] *= self.gains[i]
                    total += self.weights[k, i]
                for i in range(n):
                    v = (1.0 - share) * (self.weights[k, i] / total)
                    self.weights[k, i] = v + share * self.prior[i]

    cdef void mix(self) noexcept nogil:
        """Mix the weights in all rows into those that are served."""
        cdef Py_ssize_t n = self.prior.shape[0], n_rows = self.shares.shape[0], i, k
        cdef double best = -INFINITY, odds = 0.0, guard = 0.0, total, u
        if self.raw >= 0:
            guard = (1.0 - self.powers[0]) / 2.0  # the prior of the raw score; 0 at once
        for k in range(n_rows + (guard > 0.0)):
            best = max(best, self.log_odds[k])
        for i in range(n):
            self.mixed[i] = 0.0
        for k in range(n_rows + (self.raw >= 0 and n_rows > self.n_shares)):
            self.log_odds[k] -= best
        for k in range(n_rows):
            odds += exp(self.log_odds[k])
        if guard > 0.0:
            u = guard / (1.0 - guard) * n_rows * exp(self.log_odds[n_rows])
            odds += u
            self.mixed[self.raw] = u / odds
        for k in range(n_rows):
            u = exp(self.log_odds[k]) / odds
            if self.shares[k] > 0.0:
                for i in range(n):
                    self.mixed[i] += u * self.weights[k, i]
            else:
                total = 0.0
                for i in range(n):
                    total += exp(self.weights[k, i])
                for i in range(n):
                    self.mixed[i] += u * exp(self.weights[k, i]) / total

    # ------------------------------------------------------------------ state

    def served_weights(self):
        """Return the weights of the experts in what is served, shape ``(n_experts,)``."""
        self.enter()
        try:
            return np.array(self.mixed)
        finally:
            self.leave()

    def share_weights(self):
        """Return the weights of the shares, shape ``(n_shares,)``."""
        self.enter()
        try:
            odds = np.exp(self.log_odds[: self.shares.shape[0]])
        finally:
            self.leave()
        odds = odds.reshape((len(odds) // self.n_shares, self.n_shares)).sum(axis=0)
        return odds / odds.sum()

    def rows(self):
        """Return the weights of the experts in each row, shape ``(n_rows, n_experts)``."""
        self.enter()
        try:
            weights = np.array(self.weights)
        finally:
            self.leave()
        weights[np.asarray(self.shares) == 0.0] = np.exp(weights[np.asarray(self.shares) == 0.0])
        return weights / weights.sum(axis=1, keepdims=True)

    def state(self, calibrators=()):
        """Return what `restore` takes, and the bytes of ``calibrators`` at the same instant.

        The first is samples learned, log odds, weights, mixed weights, powers, and the state of
        the variance ratio, which is empty if no label was late.
        """
        self.enter()
        try:
            arrays = map(np.array, (self.log_odds, self.weights, self.mixed, self.powers))
            late = () if self.variance_ratio is None else self.variance_ratio.state()
            return (self.n_learned, *arrays, late), [c.to_bytes() for c in calibrators]
        finally:
            self.leave()

    def restore(self, n_learned, log_odds, weights, mixed, powers, late):
        """Take over what `state` returned."""
        if late:
            if self.variance_ratio is None:
                self.expect_late_labels()
            self.variance_ratio.restore(*late)
        self.n_learned = n_learned
        self.log_odds = np.array(log_odds)
        self.weights = np.array(weights)
        self.mixed = np.array(mixed)
        self.powers = np.array(powers)

    def __reduce__(self):
        shares = np.array(self.shares)[: self.n_shares]
        settings = self.experts, shares, np.array(self.prior), self.clip, self.raw
        state, _ = self.state()
        return restored, (Hedge, settings, state)


cdef object checked(object answers, object scores):
    """Return the answers of an expert, which must be numbers, one for each score."""
    if np.shape(answers) != np.shape(scores) or np.isnan(answers).any():
        raise ValueError("`calibrators` must answer with one number per score, and not with NaN")
    return answers


cdef inline double log_likelihood(double p, double y) noexcept nogil:
    if y == 1.0:
        return log(p)
    if y == 0.0:
        return log(1.0 - p)
    return y * log(p) + (1.0 - y) * log(1.0 - p)
