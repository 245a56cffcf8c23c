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

Without sharing, a weight may become smaller than any float and still recover, so for α = 0 the
logarithms of the weights are kept. An expert is a compiled one (`Expert`) or any object with
``predict_one`` and ``learn_one``.

Experts written in Python run while the hedge's lock is held. If one of them calls the same hedge,
or a signal handler does in that time, the call raises an error, because it would be a deadlock.
"""

from libc.math cimport INFINITY, exp, log

from streamcal.kernels.exclusive cimport Exclusive
from streamcal.kernels.expert cimport Expert, is_sample

import numpy as np

cdef Py_ssize_t BATCH = 65_536  # samples whose predictions are in memory at once


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
    """

    def __cinit__(self, experts, shares, prior, clip):
        n = len(experts)
        self.experts = tuple(experts)
        self.clip = clip
        self.shares = np.array(shares, dtype=np.float64)
        self.log_odds = np.zeros(len(shares))
        self.prior = np.array(prior, dtype=np.float64)
        self.mixed = np.array(prior, dtype=np.float64)
        self.answers = np.empty(n)
        logs = np.log(self.prior)
        self.weights = np.array([self.prior if share else logs for share in shares])

    # ------------------------------------------------------------------ for Python

    def learn(self, double score, double y, double w, double learning_rate, served=None):
        """Update the weights by the predictions, or by those ``served``; then teach the experts.

        Likelihoods are raised to the power ``learning_rate`` times the weight of the sample.
        """
        cdef Py_ssize_t i
        self.acquire()
        try:
            for i in range(self.answers.shape[0]):
                self.answers[i] = self.answer_of(i, score) if served is None else served[i]
            for expert in self.experts:  # these may refuse the sample, so they come first
                if not isinstance(expert, Expert):
                    expert.learn_one(score, y, w)
            for expert in self.experts:
                if isinstance(expert, Expert):
                    (<Expert> expert).teach(score, y, w)
            self.weigh(&self.answers[0], y, learning_rate * w)
            self.n_samples += 1
        finally:
            self.release()

    def predict(self, double score):
        """Return the mixture's prediction; before anything is learned, the score itself."""
        cdef Py_ssize_t i
        cdef double mean = 0.0
        self.acquire()
        try:
            if self.n_samples == 0:
                return score
            for i in range(self.answers.shape[0]):
                mean += self.mixed[i] * self.clipped(self.answer_of(i, score))
        finally:
            self.release()
        return mean

    def serve(self, double score):
        """Return the mixture's prediction, the samples learned, and the experts' predictions."""
        cdef Py_ssize_t i
        cdef double mean = 0.0
        self.acquire()
        try:
            answers = [self.answer_of(i, score) for i in range(self.answers.shape[0])]
            for i in range(self.answers.shape[0]):
                mean += self.mixed[i] * self.clipped(answers[i])
            return (mean if self.n_samples else score), self.n_samples, tuple(answers)
        finally:
            self.release()

    def predict_many(self, calibrators, scores):
        """Return the mixture's predictions; the ``calibrators`` belong to the experts."""
        cdef Py_ssize_t i
        self.acquire()
        try:
            if self.n_samples == 0:
                return np.array(scores)
            mixture = np.zeros(len(scores))
            for i in range(self.mixed.shape[0]):  # added one by one, as `predict` does
                answers = calibrators[i].predict_many(scores)
                mixture += self.mixed[i] * answers.clip(self.clip, 1.0 - self.clip)
        finally:
            self.release()
        return mixture

    def run(self, calibrators, scores, y, w, double learning_rate):
        """Predict, then learn each sample, and return the predictions.

        The ``calibrators`` belong to the experts; each learns many samples in one call.
        """
        cdef Py_ssize_t start, n_added = 0
        if not len(y) == len(w) == len(scores):
            raise ValueError("scores, labels and weights must have the same length")
        out = np.empty(len(scores))
        self.acquire()
        try:
            for start in range(0, len(scores), BATCH):
                part = slice(start, start + BATCH)
                n_added += self.run_part(
                    calibrators, scores[part], y[part], w[part], learning_rate, out[part]
                )
            if self.n_samples == 0:
                out[:1] = scores[:1]
        finally:
            self.n_samples += n_added
            self.release()
        return out

    cdef Py_ssize_t run_part(
        self, calibrators, scores, y, w, double learning_rate, out
    ) except -1:
        """Predict and learn a part of a batch; return how many samples were learned."""
        cdef double[::1] mixed_answers = out
        cdef const double[::1] score_view = scores, labels = y, sample_weights = w
        cdef double[:, ::1] answers = np.empty((len(scores), len(self.experts)))
        cdef double label, weight
        cdef Py_ssize_t t, i, n_added = 0
        for i, calibrator in enumerate(calibrators):
            column = calibrator.predict_learn_many(scores, y, w)
            np.asarray(answers)[:, i] = checked(column, out)
        with nogil:
            for t in range(answers.shape[0]):
                mixed_answers[t] = 0.0
                for i in range(answers.shape[1]):
                    mixed_answers[t] += self.mixed[i] * self.clipped(answers[t, i])
                label, weight = labels[t], sample_weights[t]
                if is_sample(score_view[t], label, weight):
                    self.weigh(&answers[t, 0], label, learning_rate * weight)
                    n_added += 1
        return n_added

    cdef double answer_of(self, Py_ssize_t i, double score) except? -1.0:
        cdef double answer
        expert = self.experts[i]
        if isinstance(expert, Expert):
            return (<Expert> expert).answer(score)
        answer = expert.predict_one(score)
        if answer != answer:  # the weights would stay NaN forever
            raise ValueError(f"`calibrators` must predict numbers, got NaN from {expert!r}")
        return answer

    # ------------------------------------------------------------------ weights

    cdef inline double clipped(self, double answer) noexcept nogil:
        return min(max(answer, self.clip), 1.0 - self.clip)

    cdef void weigh(self, double *answers, double y, double power) noexcept nogil:
        """Update the weights by the experts' predictions for a sample of label ``y``.

        Likelihoods are raised to ``power``. ``answers`` is overwritten by the results, divided by
        the largest of them.
        """
        cdef Py_ssize_t n = self.prior.shape[0], n_shares = self.shares.shape[0], i, k
        cdef double p, v, total, top, best = -INFINITY, share
        for k in range(n_shares):
            p = 0.0
            if self.shares[k] == 0.0:
                total = 0.0
                for i in range(n):
                    v = exp(self.weights[k, i])
                    total += v
                    p += v * self.clipped(answers[i])
                p /= total
            else:
                for i in range(n):
                    p += self.weights[k, i] * self.clipped(answers[i])
            # Rounding may make a mean of equal numbers a little more than 1 − clip.
            self.log_odds[k] += power * log_likelihood(self.clipped(p), y)
        for i in range(n):
            answers[i] = power * log_likelihood(self.clipped(answers[i]), y)
            best = max(best, answers[i])
        for k in range(n_shares):
            if self.shares[k] == 0.0:
                top = -INFINITY
                for i in range(n):
                    self.weights[k, i] += answers[i]
                    top = max(top, self.weights[k, i])
                for i in range(n):
                    self.weights[k, i] -= top
        for i in range(n):
            answers[i] = exp(answers[i] - best)
        for k in range(n_shares):
            share = self.shares[k]
            if share > 0.0:
                total = 0.0
                for i in range(n):
                    self.weights[k, i] *= answers[i]
                    total += self.weights[k, i]
                for i in range(n):
                    v = (1.0 - share) * (self.weights[k, i] / total)
                    self.weights[k, i] = v + share * self.prior[i]
        self.mix()

    cdef void mix(self) noexcept nogil:
        """Compute the served weights from those under each share."""
        cdef Py_ssize_t n = self.prior.shape[0], n_shares = self.shares.shape[0], i, k
        cdef double best = -INFINITY, sum_of_odds = 0.0, total, u
        for k in range(n_shares):
            best = max(best, self.log_odds[k])
        for i in range(n):
            self.mixed[i] = 0.0
        for k in range(n_shares):
            self.log_odds[k] -= best
            sum_of_odds += exp(self.log_odds[k])
        for k in range(n_shares):
            u = exp(self.log_odds[k]) / sum_of_odds
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
            odds = np.exp(np.array(self.log_odds))
        finally:
            self.release()
        return odds / odds.sum()

    def state(self, take=None):
        """Return what `restore` takes, and what ``take()`` returns at the same instant.

        The former is the number of samples, log odds, weights and mixed weights.
        """
        self.acquire()
        try:
            arrays = map(np.array, (self.log_odds, self.weights, self.mixed))
            return (self.n_samples, *arrays), take and take()
        finally:
            self.release()

    def restore(self, n_samples, log_odds, weights, mixed):
        """Set the state to what `state` returned."""
        self.n_samples = n_samples
        self.log_odds = np.array(log_odds)
        self.weights = np.array(weights)
        self.mixed = np.array(mixed)


cdef object checked(object answers, object scores):
    """Return the predictions of an expert; raise unless they are numbers, one for each score."""
    if np.shape(answers) != np.shape(scores) or np.isnan(answers).any():
        raise ValueError("`calibrators` must predict one number per score, and no NaN")
    return answers


cdef inline double log_likelihood(double p, double y) noexcept nogil:
    if y == 1.0:
        return log(p)
    if y == 0.0:
        return log(1.0 - p)
    return y * log(p) + (1.0 - y) * log(1.0 - p)
