"""Calibration where the share of ones moves, and the scores show it before late labels do.

*Prior shift*, or label shift: P(score | label) stays, and P(label) changes, as with a wave of fraud
or of a disease. Then the odds of each score are multiplied by one number. The scores that are
served say which, without a label: they are a mixture of those of the ones and those of the zeros,
whose shares can be estimated from it (Saerens, Latinne & Decaestecker 2002).

There are two maps. The first is that of the scores; it learns the change from the labels::

    scores → map
    scores → odds times what the change of the share does → map

The second one sees scores that are corrected already. If P(score | label) stays, its map stays too.
If something else has changed, the correction is wrong. So the two are mixed by what they predicted.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import (
    Arrays,
    Fields,
    array_of,
    as_float,
    as_int,
    prefixed,
    require,
    without_prefix,
)
from streamcal._validation import as_probability, as_weight
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, Contexts, FieldValues
from streamcal.calibration.probability import as_label
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.calibration.two_maps import CLIP, TwoMaps
from streamcal.isotonic.staircase import isotonic_fit
from streamcal.kernels.state_bytes import are_within

# Scores are counted in bins of their log odds.
_WIDTH, _LARGEST = 0.25, 14.0
_BINS = int(2.0 * _LARGEST / _WIDTH)
_DECAY = 0.5 ** (1.0 / 10_000.0)  # of the counts, for each label
_FIRST, _EVERY = 100, 50  # labels before the first fit, and between two
_EMPTY = 1e-9  # the part of all counts below which a bin counts as empty

# What the log odds of the share may have changed by.
_STEP = 0.2
_CHANGES = np.arange(-25, 26) * _STEP
_RATES = np.array([[1e-4], [1e-3], [1e-2]])  # of jumps to any change, per score
_MOVES = 20.0 * _RATES / 2.0  # to the next change, per score, up and down
_RATE_OF_RATES = 1e-3  # how often another rate of jumps is right, per score
_LEAST_WEIGHT = 1e-12  # below all that the rates leave
_MOST_COUNT = 1e66  # beyond all that the decay leaves of counts with the greatest weight


_JUMPS = np.exp(-np.abs(_CHANGES))  # the probability of each change after a jump
_JUMPS /= _JUMPS.sum()


def _logit(p: float) -> float:
    return math.log(p / (1.0 - p))


@lru_cache(256)
def _shares_from(base: float) -> tuple[NDArray[np.float64], ...]:
    """Return the share of ones after each change, and those of ones and zeros over the base's."""
    shares = 1.0 / (1.0 + np.exp(-(_logit(base) + _CHANGES)))
    return shares, shares / base, (1.0 - shares) / (1.0 - base)


def _bin_of(p: float) -> int:
    """Return the bin of a score."""
    log_odds = _logit(min(max(p, CLIP), 1.0 - CLIP))
    return int((log_odds + _LARGEST) / _WIDTH)


class SharesOfOnes(NamedTuple):
    """What is known of the share of ones among the served scores. It is immutable.

    It is a filter on a grid: each score multiplies the weight of a share by its likelihood, which
    is (π / π₀) q + (1 − π) / (1 − π₀) (1 − q), where π₀ is the share of ones of the labelled
    samples and q that of the score. After each score, a part of the weight jumps to other shares,
    and a part moves to the next ones. How much is unknown, so three rates are mixed.

    Attributes
    ----------
    counts : ndarray of shape (2, n_bins)
        The labelled zeros and ones in each bin of scores, decayed.
    n_labels : int
        The number of labels.
    of_bins : ndarray of shape (n_bins,)
        The share of ones in each bin, non-decreasing up to the prior; as of the last fit.
    base : float
        The share of ones of all labelled samples; as of the last fit.
    weights : ndarray of shape (n_rates, n_changes)
        The probability of each rate and change of the log odds.
    shift : float
        By how much the log odds of the share have changed; the rest is enough to compute it.

    Examples
    --------
    >>> shares = SharesOfOnes.initial()
    >>> for i in range(200):
    ...     shares = shares.after_label([0.2, 0.8][i % 2], float(i % 10 in (0, 1, 3, 5, 7)), 1.0)
    >>> for _ in range(300):
    ...     shares = shares.after_score(0.8)
    >>> 0.3 < shares.base < 0.7, shares.now > 0.9
    (True, True)
    """

    counts: NDArray[np.float64]
    n_labels: int
    of_bins: NDArray[np.float64]
    base: float
    weights: NDArray[np.float64]
    shift: float

    @classmethod
    def initial(cls) -> Self:
        """Return what is known before the first label."""
        weights = np.tile(_JUMPS / len(_RATES), (len(_RATES), 1))
        return cls(np.zeros((2, _BINS)), 0, np.full(_BINS, 0.5), 0.5, weights, 0.0)

    @property
    def is_fitted(self) -> bool:
        """Whether there were enough labels, so that scores count."""
        return self.n_labels >= _FIRST

    @property
    def now(self) -> float:
        """The share of ones among the last scores."""
        return 1.0 / (1.0 + math.exp(-(_logit(self.base) + self.shift)))

    def move(self, p: float) -> float:
        """Return a score with its odds multiplied by what the change of the share does."""
        if not self.shift:
            return p
        factor = math.exp(self.shift)
        return min(p * factor / (p * factor + (1.0 - p)), 1.0)

    def after_score(self, p: float) -> Self:
        """Return what is known after a score without a label."""
        if not self.is_fitted:
            return self
        q = self.of_bins[_bin_of(p)]
        _, of_ones, of_zeros = _shares_from(self.base)
        weights = self.weights * (q * of_ones + (1.0 - q) * of_zeros)
        weights /= weights.sum()
        of_rates = weights.sum(axis=1, keepdims=True)
        moved = weights * (1.0 - 2.0 * _MOVES)
        moved[:, 1:] += _MOVES * weights[:, :-1]
        moved[:, :-1] += _MOVES * weights[:, 1:]
        moved[:, :1] += _MOVES * weights[:, :1]
        moved[:, -1:] += _MOVES * weights[:, -1:]
        moved = (1.0 - _RATES) * moved + _RATES * of_rates * _JUMPS
        moved *= 1.0 - _RATE_OF_RATES + _RATE_OF_RATES / (len(_RATES) * of_rates)
        return self._replace(weights=moved, shift=_shift_of(moved, self.base))

    def after_label(self, p: float, y: float, w: float) -> Self:
        """Return what is known after the label of a score, whenever the score was served."""
        counts, at = self.counts * _DECAY, _bin_of(p)
        counts[0, at] += w * (1.0 - y)
        counts[1, at] += w * y
        known = self._replace(counts=counts, n_labels=self.n_labels + 1)
        if known.n_labels < _FIRST or known.n_labels % _EVERY:
            return known
        of_bins, base = _fitted(counts)
        return known._replace(of_bins=of_bins, base=base, shift=_shift_of(self.weights, base))


def _fitted(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the share of ones in each bin and of all, each with a prior of some samples."""
    totals, ones = counts.sum(axis=0), counts[1]
    total = float(totals.sum())
    base = (float(ones.sum()) + 1.0) / (total + 2.0)
    base = min(max(base, CLIP), 1.0 - CLIP)
    bins = np.flatnonzero(totals > _EMPTY * total)
    if not len(bins):
        return np.full(_BINS, base), base
    stairs = isotonic_fit(bins, (ones[bins] / totals[bins]).clip(0.0, 1.0), totals[bins] / total)
    of_blocks = stairs.weights * total
    shrunk = (stairs.values * of_blocks + base) / (of_blocks + 1.0)
    block = np.searchsorted(stairs.upper, bins)
    return np.interp(np.arange(_BINS), bins, shrunk[block]).clip(0.0, 1.0), base


def _shift_of(weights: NDArray[np.float64], base: float) -> float:
    """Return by how much the log odds of the mean share differ from those of ``base``."""
    share = float(weights.sum(axis=0) @ _shares_from(base)[0])
    return _logit(min(max(share, 1e-9), 1.0 - 1e-9)) - _logit(base)


class PriorShiftCalibrator(TwoMaps):
    """Follow a change of the share of ones by the scores, before late labels show it.

    Parameters
    ----------
    calibrator : Calibrator, optional
        The prototype, of which there are two clones; it must accept scores and labels in [0, 1].
        By default a `HedgedCalibrator`.

    Raises
    ------
    ValueError, TypeError
        If ``calibrator`` is no such calibrator.

    Notes
    -----
    This is for streams with *prior shift* (label shift) and late labels: the scores of the ones are
    distributed as ever, and so are those of the zeros, but their shares change. The model must not
    have learned the change by itself. If P(score | label) changes too, use a `HedgedCalibrator`.

    Scores are told by `serve_one`: each score counts once, when it is served, or when it is learned
    if it has no ticket. So `serve_one` changes the state: what is saved must be saved after it.
    `predict_one` and the others change nothing. Before 100 labels scores do not count.

    The share π of ones among the last scores is estimated as Saerens et al. do, by the likelihood
    of the scores, (π / π₀) q + (1 − π) / (1 − π₀) (1 − q) for each, where q is the share of ones
    among the labelled samples of that score, and π₀ that of all. Instead of a window for EM there
    is a filter with rates at which shares jump or move; three rates are mixed by the likelihood of
    the scores, so they are known without labels. Labelled samples count with a half-life of 10,000.

    One clone learns the scores, the other one the scores with their odds multiplied by those of π
    over those of π₀. They are mixed as in a `HedgedCalibrator`, by their likelihood.

    *Cost of being wrong.* If labels come at once, the total log loss is at most that of the better
    clone plus ln 2 + ln 3 = 1.8. One clone is the calibrator without any correction. For late
    labels no bound is known, as for a hedge.

    A sample costs about 0.2 ms with the default calibrator: more than that of two hedges. Scores
    of rows that share an outcome count as independent.

    References
    ----------
    Saerens, Latinne & Decaestecker, *Adjusting the Outputs of a Classifier to New a Priori
    Probabilities: A Simple Procedure*, Neural Computation 14, 2002. Alexandari, Kundaje &
    Shrikumar, *Maximum Likelihood with Bias-Corrected Calibration is Hard-To-Beat at Label Shift
    Adaptation*, ICML 2020. Wu, Guo, Su & Weinberger, *Online Adaptation to Label Distribution
    Shift*, NeurIPS 2021.

    Examples
    --------
    After 2,000 labels the share of ones falls from 0.5 to 0.1, and no label says so yet:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def sample(share):
    ...     y = rng.random() < share
    ...     return 1.0 / (1.0 + np.exp(-2.0 * rng.normal(1.0 if y else -1.0))), y
    >>> calibrator = PriorShiftCalibrator()
    >>> for _ in range(2_000):
    ...     calibrator.learn_one(*sample(0.5))
    >>> for _ in range(500):
    ...     p, ticket = calibrator.serve_one(sample(0.1)[0])
    >>> round(calibrator.prior, 1)
    0.1
    """

    _counts_scores = True
    _map_names = ("scores", "corrected scores")
    _clone_names = ("plain", "corrected")
    _plain: Calibrator
    _corrected: Calibrator

    def __init__(self, calibrator: Calibrator | None = None) -> None:
        self._clone(calibrator)
        self.calibrator = calibrator
        self._shares = SharesOfOnes.initial()

    @property
    def prior(self) -> float | None:
        """The share of ones among the last scores; None before 100 labels."""
        shares = self._shares
        return shares.now if shares.is_fitted else None

    # One sample -----------------------------------------------------------------------------------

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated probability of a score in [0, 1]; the state does not change.

        ``x`` has the values of ``fields``, if the calibrator has any.
        """
        p, given = as_probability(score), self._given_x(x)
        with self._mutex:
            return self._mixed(p, self._answers(p, given))

    def serve_one(self, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one`, and the ticket to pass back with the label; count the score.

        Examples
        --------
        >>> calibrator = PriorShiftCalibrator()
        >>> p, ticket = calibrator.serve_one(0.3)
        >>> calibrator.learn_one(0.8, 1)  # meanwhile
        >>> calibrator.learn_one(0.3, 0, ticket=ticket)
        >>> calibrator.n_samples
        2
        """
        p, given = as_probability(score), self._given_x(x)
        with self._mutex:
            served = self._serve(p, given)
            self._shares = self._shares.after_score(p)
        return served

    def _serve_steps(
        self, score: float, x: FieldValues | None = None
    ) -> tuple[Prediction, Sequence[Step]]:
        if type(self).serve_one is not PriorShiftCalibrator.serve_one:
            return super()._serve_steps(score, x)
        p, given = as_probability(score), self._given_x(x)
        with self._mutex:
            served = self._serve(p, given)
            return served, [partial(setattr, self, "_shares", self._shares.after_score(p))]

    def _serve(self, p: float, given: dict[str, Any]) -> Prediction:
        """Do what `serve_one` does, without counting the score."""
        moved = self._shares.move(p)
        plain, of_plain = self._plain.serve_one(p, **given)
        corrected, of_corrected = self._corrected.serve_one(moved, **given)
        answers = self._checked(plain), self._checked(corrected)
        return self._served(p, moved, answers, of_plain, of_corrected)

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn the label of a sample.

        Parameters
        ----------
        score : float
            The model's probability, in [0, 1].
        y : float or bool
            The label, in [0, 1].
        w : float
            The weight, from 1e-60 to 1e60.
        x : mapping, optional
            As for `predict_one`.
        ticket : Ticket, optional
            The ticket of `serve_one`. Without one the score counts now.
        t : datetime or float, optional
            The time at which it is learned, if the calibrator forgets by time.

        Raises
        ------
        ValueError, TypeError
            If an argument is missing or out of range; nothing is learned.
        """
        with self._mutex:
            do_all(*self._steps(score, y, w, Context(x, ticket, t)))

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not PriorShiftCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        return self._steps(score, y, w, context)

    def _steps(self, score: float, y: float, w: float, context: Context) -> list[Step]:
        """Return what learns a sample."""
        p, label, weight = as_probability(score), as_label(y), as_weight(w)
        self._read_propensity(context.propensity)
        kind = self._read_time(context.t).kind
        shares = self._shares
        current = np.array(self._answers(p, self._given_x(context.x)))
        if context.ticket is None:
            known = self._without_tickets(shares.move(p))
            learn = self._mixture.learn_steps(label, weight, current=current)
            shares = shares.after_score(p)
        else:
            known = self._read_ticket(context.ticket)
            learn = self._mixture.learn_steps(label, weight, known.mixed, current=current)
        plain, corrected = map(context.with_ticket, known.own)
        return [
            *self._plain._learn_steps(p, label, weight, plain),
            *self._corrected._learn_steps(known.moved, label, weight, corrected),
            *learn,
            partial(setattr, self, "_shares", shares.after_label(p, label, weight)),
            *self._kind_steps(kind),
        ]

    def _answers(self, p: float, given: dict[str, Any]) -> tuple[float, float]:
        """Return the two probabilities of a score."""
        corrected = self._corrected.predict_one(self._shares.move(p), **given)
        return self._checked(self._plain.predict_one(p, **given)), self._checked(corrected)

    def _has_open_burst(self) -> bool:
        return self._shares.is_fitted  # then a score that is served counts

    # Rows that share an outcome -------------------------------------------------------------------

    def learn_group(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: float = 1.0,
        *,
        x: Sequence[FieldValues] | None = None,
        tickets: Sequence[Ticket | None] | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn rows that share an outcome as one sample; see `Calibrator`.

        Examples
        --------
        >>> calibrator = PriorShiftCalibrator()
        >>> calibrator.learn_group([0.6] * 90, [1] * 90)
        >>> calibrator.n_samples
        1
        """
        with self._mutex:
            do_all(*self._steps_of_group(scores, y, w, Contexts(x, tickets, t)))

    def _group_steps(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        if type(self).learn_group is not PriorShiftCalibrator.learn_group:
            given = {"x": contexts.x, "tickets": contexts.ticket, "t": contexts.t}
            return [partial(self.learn_group, scores, y, w, **given)]
        with self._mutex:
            return self._steps_of_group(scores, y, w, contexts)

    def _steps_of_group(
        self, scores: ArrayLike, y: ArrayLike, w: float, contexts: Contexts
    ) -> Sequence[Step]:
        """Return what learns rows that share an outcome; the lock is held."""
        vector, labels, _ = self._check_samples(scores, y, None)
        rows = [*contexts.rows(len(vector), fields=bool(self.fields))]
        weight, samples = as_weight(w), [*zip(vector.tolist(), labels.tolist(), strict=True)]
        if len(rows) < 2:  # learned as any other sample
            pairs = zip(samples, rows, strict=True)
            return [step for row, c in pairs for step in self._steps(*row, weight, c)]
        part = as_weight(weight / len(rows))
        self._read_propensity(contexts.propensity)
        kind = self._read_time(contexts.t).kind
        # All rows are predicted before any of them is learned.
        served, shares = [], self._shares
        for (p, label), c in zip(samples, rows, strict=True):
            ticket = c.ticket
            if ticket is None:
                ticket = self._serve(p, self._given_x(c.x)).ticket
                shares = shares.after_score(p)
            served.append(self._read_ticket(ticket))
            shares = shares.after_label(p, label, part)
        moved, tickets_of, mixed = zip(*served, strict=True)
        steps: list[Step] = []
        tickets = zip(*tickets_of, strict=True)
        of_clones = zip(self._clones, (vector, np.array(moved)), tickets, strict=True)
        for clone, of_scores, own in of_clones:
            steps += clone._group_steps(of_scores, labels, weight, contexts._replace(ticket=own))
        current = np.full(2, 0.5)  # not used: all rows were served
        steps += self._mixture.group_steps(labels.tolist(), weight, mixed, current=current)
        steps.append(partial(setattr, self, "_shares", shares))
        return [*steps, *self._kind_steps(kind)]

    # Shown and saved ------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        prior = self.prior
        return {} if prior is None else {"prior": prior}

    def _describe(self) -> NoReturn:
        raise TypeError(
            "`export` can't follow a PriorShiftCalibrator, whose map changes with each score"
        )

    def _freeze_parts(self) -> tuple[Fields, Arrays]:
        fields, arrays = super()._freeze_parts()
        shares = self._shares
        of_shares = {"n_labels": shares.n_labels, "base": shares.base}
        known = {"counts": shares.counts, "of_bins": shares.of_bins, "weights": shares.weights}
        return {**fields, "shares": of_shares}, {**arrays, **prefixed("shares", known)}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        super()._thaw(fields, arrays)
        self._shares = _read_shares(fields["shares"], without_prefix("shares", arrays))


def _read_shares(fields: Any, arrays: Arrays) -> SharesOfOnes:
    """Return what is known of the share of ones from a state, or raise."""
    require(isinstance(fields, dict), "shares must have fields")
    n_labels = as_int(fields["n_labels"], "n_labels")
    base = as_float(fields["base"], "base", CLIP, 1.0 - CLIP)
    counts = array_of(arrays, "counts", 2, _BINS)
    of_bins = array_of(arrays, "of_bins", _BINS)
    weights = array_of(arrays, "weights", len(_RATES), len(_CHANGES))
    require(are_within(counts.ravel(), 0.0, _MOST_COUNT), "counts must be in range")
    require(are_within(of_bins, 0.0, 1.0), "shares of bins must be in [0, 1]")
    require(are_within(weights.ravel(), _LEAST_WEIGHT, 1.0), "weights must be in range")
    require(abs(float(weights.sum()) - 1.0) < 1e-6, "weights must sum to 1")
    shift = 0.0 if n_labels < _FIRST else _shift_of(weights, base)
    return SharesOfOnes(counts, n_labels, of_bins, base, weights, shift)
