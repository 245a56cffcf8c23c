"""Mixing calibrators by their likelihood.

For log loss, weights proportional to prior times likelihood are Bayes' rule: the total loss of the
mixture is −log of the mean likelihood, hence at most that of any calibrator minus the log of its
prior (Vovk, *Aggregating Strategies*, COLT 1990). If a share α of the weight is distributed again
by the prior after each sample, this is Bayes' rule for sequences of calibrators that switch with
probability α (Herbster & Warmuth, *Tracking the Best Expert*, Machine Learning 1998). Several α
are used at once, and the same rule mixes them::

    experts   .2  .7  .4      predictions for a sample of label 1
    α = 0     .1  .8  .1      weights under each α; they are multiplied by the likelihoods,
    α = .01   .3  .4  .3      and α of their sum is distributed again
    mixed     .2  .6  .2      the served weights: the rows, mixed by the likelihood of each α

*Delayed labels.* Consecutive losses depend on each other, so a late label carries less information:
likelihoods are raised to the power η = 1 / VR, where VR is the variance ratio of the experts'
losses (`streamcal.kernels.variance_ratio`), and α becomes α η. One learning rate does not suit all
streams, so there are three kinds of rows for each α. The first has the power η, the others have 1.
A row of the last kind weighs the experts by what they predict *when the label arrives*, before they
learn it: what was served is as old as the label, and the experts have learned since. That favours
experts with a short memory where labels depend on each other, so the weight of every row is
computed from the predictions that it *served*, with the power 1 / VR about the mean. A row of the
last kind has half of the prior of another row, and none before a label has shown a difference
between served predictions. One more row, which is the raw score alone, has a prior of (1 − η) / 2.
While no label is late, all powers are 1 and the three rows are equal, so only one of them is kept.

*Shares by time.* A half-life h stands for α = 1 − 2^(−g / h), where g is the time from the sample
before to the one whose label is learned, and 0 for the first one. α may be 0 for many samples, so
logarithms are kept, as for α = 0.

*Groups.* Rows that share an outcome are one sample. Its log likelihood is the mean of those of its
rows. If a sample has m rows on average, the raw score alone has a prior of 1 − (1 + η) / (2 √m).

Without sharing, a weight may become smaller than any float and still recover, so for α = 0 the
logarithms of the weights are kept. An expert is a compiled one (`Expert`) or any object with
``predict_one`` and ``learn_one``.

Experts written in Python run while the hedge's lock is held. If one of them calls the same hedge,
or a signal handler does in that time, the call raises an error, because it would be a deadlock.
"""

from libc.math cimport INFINITY, M_LN2, NAN, exp, exp2, expm1, log, log1p, sqrt

from streamcal.kernels.clock cimport Clock, passed_until
from streamcal.kernels.exclusive cimport Exclusive
from streamcal.kernels.expert cimport Expert
from streamcal.kernels.logistic cimport clipped
from streamcal.kernels.samples cimport is_sample
from streamcal.kernels.state_bytes cimport require
from streamcal.kernels.variance_ratio cimport VarianceRatio

import numpy as np

from streamcal.kernels import expert
from streamcal.kernels.exclusive import no_fork

NO_MOMENT = (NAN, None)  # a sample without a time

cdef Py_ssize_t BATCH = 65_536  # samples whose predictions are in memory at once


cdef enum:
    POWERS = 3  # kinds of rows: with the power η, with 1, and with current predictions
    CURRENT = 2  # which of them that is

# Beyond all that 2**53 samples with the greatest weight add up to.
cdef double LARGEST_SUM = 1e80
cdef size_t VIEW_BYTES = expert.VIEW_BYTES
cdef double PRIOR_OF_CURRENT = 0.5  # of such a row, if that of another one is 1


cdef class Hedge(Exclusive):
    """Experts, and their weights under several shares.

    Parameters
    ----------
    experts : list
    shares : ndarray of shape (n_shares,)
    prior : ndarray of shape (n_experts,)
        Positive, with sum 1.
    clip : float
        Predictions are clipped to [clip, 1 − clip].
    raw : int
        The index of the expert that predicts the raw score; -1 if there is none.
    half_lives : ndarray of shape (n_shares,), optional
        For a share that is given by time the half-life in seconds, and the share is 0; else
        infinity. None: no share is.
    """

    def __cinit__(self, experts, shares, prior, clip, raw, half_lives=None):
        n = len(experts)
        self.experts = tuple(experts)
        asked_first = [e for e in experts if may_refuse(e)]
        self.n_asked_first = len(asked_first)
        self.order = (*asked_first, *[e for e in experts if not may_refuse(e)])
        self.clip = clip
        self.shares = np.array(shares, dtype=np.float64)
        self.n_shares = len(shares)
        self.half_lives = None if half_lives is None else np.array(half_lives, dtype=np.float64)
        self.clock.now = NAN
        self.raw = raw
        self.log_odds = np.zeros(len(shares) + 1)
        self.powers = np.ones(POWERS)
        self.prior = np.array(prior, dtype=np.float64)
        self.mixed = np.array(prior, dtype=np.float64)
        self.answers = np.empty(n)
        self.current = np.empty(n)
        self.mixtures = np.empty(POWERS * len(shares))
        self.held = []
        logs = np.log(self.prior)
        self.weights = np.array([self.prior if share else logs for share in shares])
        self.gains = np.empty(max(n, POWERS * len(shares)))

    def __sizeof__(self):
        cdef Py_ssize_t n = self.prior.shape[0], n_rows = self.shares.shape[0]
        cdef size_t n_numbers = n_rows * (n + 2) + 2 * POWERS + 4 * n + POWERS * self.n_shares
        n_numbers += self.gains.shape[0]
        if self.half_lives is not None:
            n_numbers += self.n_shares
        return object.__sizeof__(self) + n_numbers * sizeof(double) + 11 * VIEW_BYTES

    # For Python -----------------------------------------------------------------------------------

    def learn(
        self,
        double score,
        double y,
        double w,
        double delay,
        served=None,
        current=None,
        moment=NO_MOMENT,
    ):
        """Teach the experts, then update the weights by what they predicted before, or ``served``.

        Labels are ``delay`` samples late. After the experts' predictions, ``served`` may have those
        that the rows served; else the rows predict now. ``current`` stands for what the experts
        predict now. ``moment`` is the time in seconds, and what
        makes a time for calibrators of it. If an expert raises, see `teach`.
        """
        cdef double t = moment[0]
        cdef Py_ssize_t i, k, n = self.answers.shape[0]
        cdef Py_ssize_t n_mixtures = 0 if served is None else len(served) - n
        cdef const double *served_by_rows = NULL
        cdef double *predicted_now = NULL
        cdef bint is_first_late
        self.acquire()
        try:
            # What allocates memory comes before `teach`.
            for i in range(n):
                self.answers[i] = self.answer_of(i, score) if served is None else served[i]
            if n_mixtures:
                for i in range(n):
                    self.current[i] = self.answer_of(i, score) if current is None else current[i]
                predicted_now = &self.current[0]
            is_first_late = delay > 0.0 and self.variance_ratio is None
            if is_first_late:
                self.expect_late_labels()
            if n_mixtures:
                for k in range(self.shares.shape[0]):
                    # There are fewer if they were served before a label was late.
                    self.mixtures[k] = clipped(served[n + k % n_mixtures], self.clip)
                served_by_rows = &self.mixtures[0]
            try:
                error = self.teach(n, score, y, w, t, moment[1])
            except BaseException:
                if is_first_late:
                    self.expect_no_late_labels()
                raise
            self.pass_until(t)
            self.weigh(&self.answers[0], served_by_rows, predicted_now, y, w, delay)
        finally:
            self.release()
        if error is not None:
            raise error

    def predict_learn(self, double score, double y, double w, moment=NO_MOMENT):
        """Predict, then learn a sample whose label is immediate: `predict`, then `learn`."""
        cdef Py_ssize_t i, n = self.answers.shape[0]
        cdef double mean, t = moment[0]
        self.acquire()
        try:
            for i in range(n):
                self.answers[i] = self.answer_of(i, score)
            mean = self.mixture(&self.answers[0]) if self.n_samples else score
            error = self.teach(n, score, y, w, t, moment[1])
            self.pass_until(t)
            self.weigh(&self.answers[0], NULL, NULL, y, w, 0.0)
        finally:
            self.release()
        if error is not None:
            raise error
        return mean

    def learn_group(self, scores, y, double w, double delay, served, mixtures, moment=NO_MOMENT):
        """Teach the experts the rows of a group, which counts as one sample.

        ``served`` has shape (n_labels, n_experts), ``mixtures`` (n_labels, n_mixtures). If an
        expert raises, the experts do not learn the rows after that, see `teach`; the group counts
        unless the first expert refused the first row.
        """
        cdef double[::1] labels = y
        cdef double[:, ::1] by_experts = served, by_rows = mixtures
        cdef bint is_first = self.variance_ratio is None
        self.acquire()
        try:
            if is_first:
                self.expect_late_labels()  # the raw score gets a row of its own
            try:
                error = self.teach_group(scores, labels, w / len(labels), moment)
            except BaseException:
                if is_first:
                    self.expect_no_late_labels()
                raise
            self.pass_until(moment[0])
            self.weigh_group(by_experts, by_rows, labels, w, delay)
        finally:
            self.release()
        if error is not None:
            raise error

    cdef object teach_group(self, scores, double[::1] y, double w, moment):
        """Teach all experts the rows of a group until one refuses a row; return its error."""
        cdef Py_ssize_t i, n = self.answers.shape[0]
        cdef double t = moment[0]
        error = None
        for i in range(y.shape[0]):
            try:
                error = self.teach(n, scores[i], y[i], w, t, moment[1])
            except BaseException as refusal:
                if i == 0:
                    raise
                error = refusal
            if error is not None:
                break
        return error

    cdef object teach(self, Py_ssize_t n, double score, double y, double w, double t, make_time):
        """Teach a sample to the first ``n`` experts in `order`.

        If the first one refuses it, raise: nothing has changed, unless memory ran out. If another
        one does, the sample counts all the same, since the first one cannot unlearn it: teach the
        rest, and return the error. ``t`` is the time in seconds or NaN, ``make_time``
        makes what calibrators get of it.
        """
        cdef Py_ssize_t i
        error = None
        for i in range(n):
            expert = self.order[i]
            try:
                if isinstance(expert, Expert):
                    (<Expert> expert).teach(score, y, w, t)
                elif expert.needs_time:
                    expert.learn_one(score, y, w, t=make_time(t))
                else:
                    expert.learn_one(score, y, w)
            except BaseException as refusal:
                if i == 0:
                    raise
                if error is None:
                    error = refusal
        return error

    cdef int expect_late_labels(self) except -1:
        """Keep the rows once for each power; the mixture stays the same."""
        cdef Py_ssize_t k, n = self.n_shares
        cdef VarianceRatio ratio = VarianceRatio(len(self.experts))
        # Without functions of NumPy that are written in Python: a signal handler could interrupt them.
        cdef double[::1] shares = np.empty(POWERS * n), log_odds = np.empty(POWERS * n + 1)
        cdef double[:, ::1] weights = np.empty((POWERS * n, self.weights.shape[1]))
        for k in range(POWERS * n):
            shares[k], log_odds[k] = self.shares[k % n], self.log_odds[k % n]
            weights[k] = self.weights[k % n]
        log_odds[POWERS * n] = 0.0
        # Nothing is assigned before all memory is there.
        self.variance_ratio, self.shares, self.weights = ratio, shares, weights
        self.log_odds = log_odds
        return 0

    cdef int expect_no_late_labels(self) except -1:
        """Undo `expect_late_labels`; this allocates nothing."""
        self.variance_ratio = None
        self.shares = self.shares[: self.n_shares]
        self.weights = self.weights[: self.n_shares]
        self.log_odds = self.log_odds[: self.n_shares + 1]
        self.log_odds[self.n_shares] = 0.0
        return 0

    def predict(self, double score):
        """Return the mixture's prediction; before anything is learned, the score itself.

        None: labels wait that must be learned first.
        """
        cdef Py_ssize_t i
        self.acquire()
        try:
            if self.held:
                return None
            if self.n_samples == 0:
                return score
            for i in range(self.answers.shape[0]):
                self.answers[i] = self.answer_of(i, score)
            return self.mixture(&self.answers[0])
        finally:
            self.release()

    def serve(self, double score):
        """Return the mixture's prediction, the samples learned, and all other predictions.

        The latter are those of the experts, then those of the rows. None: see `predict`.
        """
        cdef Py_ssize_t i, k
        self.acquire()
        try:
            if self.held:
                return None
            answers = [self.answer_of(i, score) for i in range(self.answers.shape[0])]
            for i in range(self.answers.shape[0]):
                self.answers[i] = answers[i]
            answers += [self.answer_of_row(k, &self.answers[0]) for k in range(len(self.shares))]
            mean = self.mixture(&self.answers[0]) if self.n_samples else score
            return mean, self.n_samples, tuple(answers)
        finally:
            self.release()

    def predict_many(self, calibrators, scores):
        """Return the mixture's predictions, or None: see `predict`.

        ``calibrators[i]`` is the Python object of expert i.
        """
        cdef Py_ssize_t i
        self.acquire()
        try:
            if self.held:
                return None
            if self.n_samples == 0:
                return np.array(scores)
            mixture = np.zeros(len(scores))
            for i in range(self.mixed.shape[0]):  # added one by one, as `predict` does
                answers = calibrators[i].predict_many(scores)
                mixture += self.mixed[i] * answers.clip(self.clip, 1.0 - self.clip)
        finally:
            self.release()
        return mixture

    def run(self, calibrators, scores, y, w, delays, times=None, make_time=None):
        """Predict, then learn each sample, and return the predictions.

        ``delays`` are by how many samples labels are late at each sample, in the mean.
        ``times`` are those of samples in seconds, and ``make_time`` makes
        what calibrators get of one.
        ``calibrators[i]`` is the Python object of expert i, or that expert. Those that cannot refuse
        a sample learn many in one call. If another one raises, the batch ends with the last sample
        that counts: see `teach`.
        """
        cdef Py_ssize_t start
        if not len(y) == len(w) == len(delays) == len(scores):
            raise ValueError("scores, labels, weights and delays must have the same length")
        out = np.empty(len(scores))
        with no_fork:
            self.acquire()
            try:
                is_new = self.n_samples == 0
                if len(delays) and delays[0] > 0.0 and self.variance_ratio is None:
                    self.expect_late_labels()
                for start in range(0, len(scores), BATCH):
                    part = slice(start, start + BATCH)
                    late, values = delays[part], out[part]
                    when = None if times is None else times[part]
                    self.run_part(
                        calibrators,
                        scores[part],
                        y[part],
                        w[part],
                        late,
                        values,
                        when,
                        make_time,
                    )
                if is_new:
                    out[:1] = scores[:1]
            finally:
                self.release()
        return out

    cdef int run_part(self, calibrators, scores, y, w, delays, out, times, make_time) except -1:
        """Predict and learn a part of a batch."""
        cdef double[::1] mixed_answers = out
        cdef const double[::1] score_view = scores, labels = y, sample_weights = w, late = delays
        cdef const double[::1] seconds = times
        columns = np.empty((len(scores), len(self.experts)))
        cdef double[:, ::1] answers = columns
        cdef double label, weight
        cdef Py_ssize_t t, i, n = len(scores)
        error = None
        if self.n_asked_first > 0:
            n, error = self.run_one_by_one(
                score_view, labels, sample_weights, answers, times, make_time
            )
        for i, calibrator in enumerate(calibrators):
            if not may_refuse(self.experts[i]):
                samples = scores[:n], y[:n], w[:n]
                is_good = isinstance(calibrator, Expert)
                if is_good:
                    when = None if times is None else times[:n]
                    column = calibrator.predict_learn_many(*samples, when)
                elif calibrator.needs_time:
                    moments = list(map(make_time, times[:n].tolist()))
                    column = calibrator.predict_learn_many(*samples, t=moments)
                else:
                    column = calibrator.predict_learn_many(*samples)
                # NumPy checks in Python code, in which a signal handler may raise.
                columns[:n, i] = column if is_good else checked(column, out[:n])
        with nogil:
            for t in range(n):
                mixed_answers[t] = self.mixture(&answers[t, 0])
                label, weight = labels[t], sample_weights[t]
                if is_sample(score_view[t], label, weight):
                    if seconds is not None:
                        self.pass_until(seconds[t])
                    self.weigh(&answers[t, 0], NULL, NULL, label, weight, late[t])
        if error is not None:
            raise error
        return 0

    cdef tuple run_one_by_one(
        self,
        const double[::1] scores,
        const double[::1] y,
        const double[::1] w,
        double[:, ::1] answers,
        const double[::1] times,
        make_time,
    ):
        """Let the experts that may refuse a sample predict and learn, and write their columns.

        Return how many samples count, and the error that ended the loop or None.
        """
        cdef Py_ssize_t t, i
        cdef bint timed = times is not None
        cdef double time = NAN
        for t in range(scores.shape[0]):
            time = times[t] if timed else NAN
            try:
                for i in range(answers.shape[1]):
                    if may_refuse(self.experts[i]):
                        answers[t, i] = self.answer_of(i, scores[t])
                error = self.teach(self.n_asked_first, scores[t], y[t], w[t], time, make_time)
            except BaseException as refusal:
                return t, refusal
            if error is not None:
                return t + 1, error
        return scores.shape[0], None

    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0:
        cdef double answer
        expert = self.experts[i]
        if isinstance(expert, Expert):
            return (<Expert> expert).answer(score)
        answer = expert.predict_one(score)
        if answer != answer:  # the weights would stay NaN forever
            raise ValueError(f"`calibrators` must predict numbers, got NaN from {expert!r}")
        return answer

    # Weights --------------------------------------------------------------------------------------

    cdef inline double mixture(self, const double *answers) noexcept nogil:
        """Return the mean of the experts' predictions by the served weights."""
        cdef Py_ssize_t i
        cdef double mean = 0.0
        for i in range(self.mixed.shape[0]):
            mean += self.mixed[i] * clipped(answers[i], self.clip)
        return mean

    cdef double answer_of_row(self, Py_ssize_t k, const double *answers) noexcept nogil:
        """Return the mean of the experts' predictions by the weights of a row."""
        cdef Py_ssize_t i
        cdef double p = 0.0, total = 0.0, v
        if self.shares[k] == 0.0:
            for i in range(self.prior.shape[0]):
                v = exp(self.weights[k, i])
                total += v
                p += v * clipped(answers[i], self.clip)
            p /= total
        else:
            for i in range(self.prior.shape[0]):
                p += self.weights[k, i] * clipped(answers[i], self.clip)
        # Rounding may make a mean of equal numbers a little more than 1 − clip.
        return clipped(p, self.clip)

    cdef void weigh(
        self,
        double *answers,
        const double *mixtures,
        double *current,
        double y,
        double w,
        double delay,
    ) noexcept nogil:
        """Count a sample of label ``y``, and update all weights by the predictions for it.

        Without ``mixtures`` the rows predict now; without ``current`` the ``answers`` are what the
        experts predict now. Both are overwritten by log likelihoods.
        """
        cdef Py_ssize_t i, k
        cdef double p
        for k in range(self.shares.shape[0]):
            p = self.answer_of_row(k, answers) if mixtures == NULL else mixtures[k]
            self.gains[k] = log_likelihood(p, y)
        for i in range(self.prior.shape[0]):
            answers[i] = log_likelihood(clipped(answers[i], self.clip), y)
            if current != NULL:
                current[i] = log_likelihood(clipped(current[i], self.clip), y)
        self.n_labels += 1
        self.update(answers, answers if current == NULL else current, w, delay)

    cdef void weigh_group(
        self,
        const double[:, ::1] served,
        const double[:, ::1] mixtures,
        const double[::1] y,
        double w,
        double delay,
    ) noexcept nogil:
        """Count a group, and update all weights by the mean log likelihoods of its rows."""
        cdef Py_ssize_t i, k, t, n = y.shape[0]
        for k in range(self.shares.shape[0]):
            self.gains[k] = 0.0
            for t in range(n):
                self.gains[k] += log_likelihood(mixtures[t, k], y[t]) / n
        for i in range(self.prior.shape[0]):
            self.answers[i] = 0.0
            for t in range(n):
                self.answers[i] += log_likelihood(clipped(served[t, i], self.clip), y[t]) / n
        self.n_labels += n
        self.update(&self.answers[0], &self.answers[0], w, delay)

    cdef inline void pass_until(self, double t) noexcept nogil:
        """Set the time to that of the sample that is learned next, if a share is given by time."""
        if self.half_lives is not None:
            self.passed = passed_until(&self.clock, t)

    cdef void update(
        self, const double *logs, const double *current, double w, double delay
    ) noexcept nogil:
        """Update the weights by the experts' log likelihoods and those of the rows in `gains`.

        ``current`` are those of what the experts predict now.
        """
        cdef Py_ssize_t n_rows = self.shares.shape[0], i, k
        cdef double eta, rate = 1.0
        self.n_samples += 1
        if self.variance_ratio is not None:
            self.variance_ratio.add(logs, w, delay)
            eta = 1.0 / self.variance_ratio.ratio(delay, False)
            rate = 1.0 / self.variance_ratio.ratio(delay, True)
            self.powers[0] = eta
            if self.raw >= 0:
                self.log_odds[n_rows] += rate * w * logs[self.raw]
        for k in range(n_rows):
            self.log_odds[k] += rate * w * self.gains[k]
        # From here on `gains` has those of the experts, no longer those of the rows.
        for i in range(n_rows // self.n_shares):
            self.weigh_rows(
                i * self.n_shares, current if i == CURRENT else logs, w, self.powers[i]
            )
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
                if self.passed > 0.0 and self.half_lives[k - start] < INFINITY:
                    self.distribute(k, self.passed / self.half_lives[k - start], power)
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

    cdef void distribute(self, Py_ssize_t k, double halves, double power) noexcept nogil:
        """Distribute the share of so many half-lives, times ``power``, in a row of logarithms."""
        cdef Py_ssize_t n = self.prior.shape[0], i
        cdef double top = -INFINITY, total = 0.0, share, kept, old, new
        for i in range(n):
            top = max(top, self.weights[k, i])
        for i in range(n):
            total += exp(self.weights[k, i] - top)
        share = log(power) + log(-expm1(-M_LN2 * halves))
        kept = log(1.0 - power + power * exp2(-halves)) - top - log(total)
        for i in range(n):
            old, new = self.weights[k, i] + kept, share + log(self.prior[i])
            top = max(old, new)
            # Rounding may make the weight of a lone expert a little more than 1.
            self.weights[k, i] = min(top + log1p(exp(min(old, new) - top)), 0.0)

    cdef double prior_of_current(self) noexcept nogil:
        """Return the prior of a row that uses current predictions, if that of others is 1."""
        if self.variance_ratio is None or not self.variance_ratio.has_values():
            return 0.0
        return PRIOR_OF_CURRENT

    cdef void mix(self) noexcept nogil:
        """Compute the served weights from those in all rows."""
        cdef Py_ssize_t n = self.prior.shape[0], n_rows = self.shares.shape[0], i, k
        cdef double best = -INFINITY, odds = 0.0, raw_prior = 0.0, prior = self.n_shares, total, u
        cdef double of_current = self.prior_of_current()
        cdef bint has_raw = self.raw >= 0 and self.variance_ratio is not None
        if has_raw:
            raw_prior = (1.0 - self.powers[0]) / 2.0  # 0 for immediate labels
            raw_prior += (1.0 - raw_prior) * (1.0 - sqrt(self.n_samples / <double> self.n_labels))
        for k in range(n_rows + (raw_prior > 0.0)):
            best = max(best, self.log_odds[k])
        for i in range(n):
            self.mixed[i] = 0.0
        for k in range(n_rows + has_raw):  # those of the raw score even while its prior is 0
            self.log_odds[k] -= best
        if self.variance_ratio is not None:
            prior = self.n_shares * (POWERS - 1.0 + of_current)
        for k in range(n_rows):
            odds += prior_of_row(k, self.n_shares, of_current) * exp(self.log_odds[k])
        if odds == 0.0:  # with huge weights, all rows but those without a prior may be ruled out
            of_current = PRIOR_OF_CURRENT
            for k in range(CURRENT * self.n_shares, n_rows):
                odds += of_current * exp(self.log_odds[k])
        if raw_prior > 0.0:
            u = raw_prior / (1.0 - raw_prior) * prior * exp(self.log_odds[n_rows])
            odds += u
            self.mixed[self.raw] = u / odds
        for k in range(n_rows):
            u = prior_of_row(k, self.n_shares, of_current) * exp(self.log_odds[k]) / odds
            if self.shares[k] > 0.0:
                for i in range(n):
                    self.mixed[i] += u * self.weights[k, i]
            else:
                total = 0.0
                for i in range(n):
                    total += exp(self.weights[k, i])
                for i in range(n):
                    self.mixed[i] += u * exp(self.weights[k, i]) / total

    def mixture_of(self, answers):
        """Return the mean of what the experts answer by the served weights."""
        cdef Py_ssize_t i
        self.acquire()
        try:
            for i in range(self.answers.shape[0]):
                self.answers[i] = answers[i]
            return self.mixture(&self.answers[0])
        finally:
            self.release()

    # State ----------------------------------------------------------------------------------------

    def served_weights(self):
        """Return the served weights of the experts, shape ``(n_experts,)``."""
        self.acquire()
        try:
            return np.array(self.mixed)
        finally:
            self.release()

    def share_weights(self):
        """Return the weights of the shares, shape ``(n_shares,)``."""
        self.acquire()
        try:
            logs = np.array(self.log_odds[: self.shares.shape[0]])
            of_current = self.prior_of_current()
        finally:
            self.release()
        odds = np.exp(logs - logs.max())
        odds[CURRENT * self.n_shares :] *= of_current
        odds = odds.reshape((len(odds) // self.n_shares, self.n_shares)).sum(axis=0)
        return odds / odds.sum()

    def rows(self):
        """Return the weights of the experts in each row, shape ``(n_rows, n_experts)``."""
        self.acquire()
        try:
            weights = np.array(self.weights)
        finally:
            self.release()
        without_sharing = np.asarray(self.shares) == 0.0
        weights[without_sharing] = np.exp(weights[without_sharing])
        return weights / weights.sum(axis=1, keepdims=True)

    def state(self, take=None):
        """Return what `restore` takes, and what ``take()`` returns at the same instant.

        The former is the number of samples, that of their labels, log odds, weights, mixed
        weights, powers, the state of the variance ratio, which is empty if no label was late, and
        the newest time, NaN if no share is given by time.
        """
        self.acquire()
        try:
            arrays = map(np.array, (self.log_odds, self.weights, self.mixed, self.powers))
            late = () if self.variance_ratio is None else self.variance_ratio.state()
            learned = self.n_samples, self.n_labels, *arrays, late, self.clock.now
            return learned, take and take()
        finally:
            self.release()

    def read(self, n_samples, n_labels, log_odds, weights, mixed, powers, late, now):
        """Set the state to what bytes hold, or raise ``ValueError``.

        ``late`` and ``now`` have been checked.
        """
        cdef const double[::1] odds = log_odds, served = mixed, rates = powers
        cdef const double[:, ::1] rows = weights
        cdef Py_ssize_t n = self.prior.shape[0], k, i
        cdef Py_ssize_t n_rows = self.n_shares * (POWERS if late else 1)
        cdef double best = -INFINITY, largest
        require(
            odds.shape[0] == n_rows + 1 and rows.shape[0] == n_rows and rows.shape[1] == n
            and served.shape[0] == n and rates.shape[0] == POWERS,
            "there must be weights of all calibrators in all rows",
        )
        for k in range(n_rows):
            require(-LARGEST_SUM <= odds[k] < INFINITY, "log odds must be in range")
            best = max(best, odds[k])
        # The last one is that of the raw score, which is not always mixed with the others.
        require(-LARGEST_SUM <= odds[n_rows] < INFINITY, "log odds must be in range")
        require(best == 0.0 or max(best, odds[n_rows]) == 0.0, "the best share must have the log 0")
        for k in range(n_rows):
            if self.shares[k % self.n_shares] > 0.0:
                check_shares(&rows[k, 0], n, True)
                continue
            # The logs are relative to the largest, and the least prior is far above exp(-700).
            largest = -INFINITY
            for i in range(n):
                require(-INFINITY < rows[k, i] <= 0.0, "logs must be in range")
                largest = max(largest, rows[k, i])
            require(largest > -700.0, "logs must be in range")
        check_shares(&served[0], n, False)
        for k in range(POWERS):
            require(0.0 < rates[k] <= 1.0, "powers must be in (0, 1]")
        require(
            n_labels == n_samples or (n_samples > 0 and late), "only groups have several labels"
        )
        self.restore(n_samples, n_labels, log_odds, weights, mixed, powers, late, now)

    def restore(self, n_samples, n_labels, log_odds, weights, mixed, powers, late, now):
        """Set the state to what `state` returned."""
        if late:
            if self.variance_ratio is None:
                self.expect_late_labels()
            self.variance_ratio.restore(*late)
        self.n_samples = n_samples
        self.n_labels = n_labels
        self.log_odds = np.array(log_odds)
        self.weights = np.array(weights)
        self.mixed = np.array(mixed)
        self.powers = np.array(powers)
        self.clock.now = now


cdef int check_shares(const double *weights, Py_ssize_t n, bint positive) except -1:
    """Raise unless weights sum to 1."""
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        require(weights[i] >= 0.0, "weights must sum to 1")
        require(not positive or weights[i] > 0.0, "shared weights must be positive")
        total += weights[i]
    require(-1e-9 < total - 1.0 < 1e-9, "weights must sum to 1")
    return 0


cdef bint may_refuse(expert):
    """Return whether an expert may refuse a sample that was checked."""
    return not isinstance(expert, Expert) and not expert._learns_all()


cdef object checked(object answers, object scores):
    """Return the predictions of an expert; raise unless they are numbers, one for each score."""
    if np.shape(answers) != np.shape(scores) or np.isnan(answers).any():
        raise ValueError("`calibrators` must predict one number per score, and no NaN")
    return answers


cdef inline double prior_of_row(Py_ssize_t k, Py_ssize_t n, double of_current) noexcept nogil:
    """Return the prior of a row, if each kind has n rows, in units of that of the first row."""
    return of_current if k >= CURRENT * n else 1.0


cdef inline double log_likelihood(double p, double y) noexcept nogil:
    if y == 1.0:
        return log(p)
    if y == 0.0:
        return log(1.0 - p)
    return y * log(p) + (1.0 - y) * log(1.0 - p)
