r"""From which confidence on a `SelectiveClassifier` answers, so that it keeps what it promises.

A sample has a confidence c, the probability that its answer is right. Those from a threshold up are
answered. At most a share α of the answers may be wrong.

*On any stream* (`ErrorBudget`). An answer is given only if the errors stay at most α n + C, should
it be wrong: with n answers so far, of them W without a label, and e errors among the others ::

    e + W + 1 ≤ α (n + 1) + C + max W

That is the promise; what follows only decides how many answers there are. The threshold is the
lowest for which the samples above it would have the share of errors ::

    α (1 + b / C), from α / 10 to 3 α / 2,    b = α n + 2 − e − expected errors of the W

The samples are those of about the last 7,200 (a half-life of 5,000), counted in intervals of their
log odds. The errors of an interval are those that its confidences say, corrected by the labels in
it, which count as much as the confidences do if there are 100 of them.

*With a probability, for independent samples from one source* (`ThresholdTests`). The thresholds
1 − q are fixed: q = α 1.15^k. The hypothesis "of the samples with c ≥ 1 − q, more than a share α
are wrong" is tested by bets on each label: the wealth is multiplied by ::

    1 + λ (a / π) (α − error),    a = 1 if the label was asked for, π the probability of that

It does not grow in the mean if the hypothesis is true, so it ever exceeds 1 / δ with probability
at most δ (Ville 1939; Waudby-Smith & Ramdas 2024, *Estimating means of bounded random variables by
betting*, JRSS B 86). A threshold is in use if the wealth against its hypothesis, and against those
of all stricter thresholds in its sequence, has been 1 / δ. Then no threshold in use has more errors
than allowed, except with probability δ: the first true hypothesis of the sequence would have to be
rejected (fixed sequence testing; Angelopoulos et al. 2021, arXiv 2110.01052, section 2.3). There
are two sequences: one from q = α on, with 3/4 of δ, and one from q ≈ α / 8 on with the rest, for
confidences that are too high.

*In which order.* Ville's inequality is about bets that follow each other: which one is next must
not depend on its label. So bets are settled in the order of service, not in that in which labels
come. A sample that was not answered takes a place when it is served, and without audits one that
was answered does, too. A place without a label holds up all later ones. When labels come does not
matter then: the samples before a place, and its stake, are fixed when it is taken.

A label that is taken for lost counts as an error, which is at most what the bet would have come to.
So for any rule by which it is taken for lost the wealth is at most that of the true labels.

With audits, an answer whose label is not asked for is a bet of 1 and has no place. One that is
asked for has its place from then on. If nobody says so before the label comes, it takes the last
place when it comes. This is allowed if its lateness says nothing about it: while it waits it counts
as a bet of 1. The bet is worth at least 1 in the mean if the threshold in use has few enough
errors, and all in use have, as long as no promise is broken. So the wealth is at most what it would
be with this mean in place of 1, which is fair. A place before samples that were served later and
still wait would not do: if these are the later the more they are wrong, the order is of labels.

Stakes are as if every label were asked for with the least probability if a threshold is in use when
the place is taken; else with 1, since nothing is answered.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import as_float, as_int, require
from streamcal.kernels.selection import (
    HALF_LIFE,
    LOWEST,
    N_INTERVALS,
    WIDTH,
    count,
    lowest_place,
    place_of,
)
from streamcal.kernels.threshold_tests import ThresholdTests

Vector = NDArray[np.float64]

ALLOWANCE = 20.0
"""C: so many errors may come before the share of errors counts."""

_SPENT = 2.0  # errors of the allowance that are not held back
_LEAST_SHARE, _MOST_SHARE = 0.1, 1.5  # of α

_RATIO, _N_STRICTER = 1.15, 15  # between neighbouring q, and how many there are below α
_N_UNCONFIRMED = 1_000  # answers without a label of one, beside 20 / floor
MOST_AHEAD = 10_000  # labels that wait for an earlier one, until that is taken for lost
MOST_PLACES = 1_000_000  # of samples that wait, or whose labels do; 16 bytes each


@dataclass(frozen=True, eq=False)
class ErrorBudget:
    """The answers so far, and the threshold for the next.

    Attributes
    ----------
    share : float
        α, the share of answers that may be wrong.
    n_answers, n_errors : int
        The answers whose labels have come, and how many of them were wrong.
    n_waiting, most_waiting : int
        The answers that wait for their labels, and how many did at most when another was given.
    expected_waiting : float
        How many errors the confidences of those that wait say.
    counts : array of shape (4, n_intervals)
        Of each interval: samples; errors that their confidences say; samples with labels; errors of
        these in excess of what the confidences say. All decay.
    """

    share: float
    n_answers: int = 0
    n_errors: int = 0
    n_waiting: int = 0
    most_waiting: int = 0
    expected_waiting: float = 0.0
    counts: Vector = field(default_factory=partial(np.zeros, (4, N_INTERVALS)))

    @property
    def most_errors(self) -> float:
        """How many errors there may be among all answers so far."""
        n = self.n_answers + self.n_waiting
        return self.share * n + ALLOWANCE + self.most_waiting

    @property
    def allows_one(self) -> bool:
        """Whether a sample may be answered: the promise holds then, also if it is wrong."""
        n = self.n_answers + self.n_waiting
        most = self.share * (n + 1) + ALLOWANCE + max(self.most_waiting, self.n_waiting)
        return self.n_errors + self.n_waiting + 1 <= most

    def answers(self, confidence: float) -> bool:
        """Return whether a sample is answered."""
        return self.allows_one and place_of(confidence) >= self._lowest_place

    def served(self, confidence: float, *, answered: bool) -> Self:
        """Return the budget after a sample, answered or not, whose label comes later."""
        waits = int(answered)
        return type(self)(
            self.share,
            self.n_answers,
            self.n_errors,
            self.n_waiting + waits,
            max(self.most_waiting, waits * self.n_waiting),
            self.expected_waiting + waits * (1.0 - confidence),
            count(self.counts, confidence, True, None),
        )

    def learned(self, confidence: float, *, answered: bool, wrong: bool, waited: bool) -> Self:
        """Return the budget after a label; if the sample ``waited``, it has been served."""
        n_waiting, expected = self.n_waiting, self.expected_waiting
        if answered and waited:
            n_waiting = max(n_waiting - 1, 0)
            # Rounding errors of a sum add up.
            expected = min(max(expected - (1.0 - confidence), 0.0), float(n_waiting))
        return type(self)(
            self.share,
            self.n_answers + answered,
            self.n_errors + (answered and wrong),
            n_waiting,
            max(self.most_waiting, 0 if waited or not answered else n_waiting),
            expected,
            count(self.counts, confidence, not waited, wrong),
        )

    def _wanted_share(self) -> float:
        """Return the share of errors that the next answers should have."""
        n = self.n_answers + self.n_waiting
        balance = self.share * n + _SPENT - self.n_errors - self.expected_waiting
        return self.share * min(max(1.0 + balance / ALLOWANCE, _LEAST_SHARE), _MOST_SHARE)

    @cached_property
    def _lowest_place(self) -> float:
        """Return where the threshold is, in intervals."""
        return lowest_place(self.counts, self._wanted_share())

    @property
    def threshold(self) -> float:
        """The confidence from which on samples are answered; infinite if none is."""
        place = self._lowest_place if self.allows_one else float(N_INTERVALS)
        if place == N_INTERVALS:
            return math.inf
        return 1.0 / (1.0 + math.exp(-(LOWEST + WIDTH * place))) if place else 0.0

    def freeze(self) -> tuple[list[float], Vector]:
        """Return numbers and counts for `thaw`."""
        numbers = [self.n_answers, self.n_errors, self.n_waiting, self.most_waiting]
        return [*numbers, self.expected_waiting], self.counts

    @classmethod
    def thaw(cls, share: float, numbers: list[Any], counts: Vector) -> Self:
        """Return the budget that `freeze` described; raise ``ValueError`` if there is none."""
        n_answers, n_errors, n_waiting, most_waiting = (as_int(n, "a count") for n in numbers[:4])
        expected = as_float(numbers[4], "expected", 0.0, n_waiting)
        require(n_errors <= n_answers, "there can't be more errors than answers")
        seen, errors, labelled, surplus = counts
        most = 1.0 / (1.0 - 0.5 ** (1.0 / HALF_LIFE)) + 1.0
        require((seen >= 0.0).all() and seen.sum() <= most, "samples must decay")
        require((errors >= 0.0).all() and (errors <= seen).all(), "errors must be of samples")
        require((labelled >= 0.0).all() and labelled.sum() <= most, "labels must decay")
        require((abs(surplus) <= labelled).all(), "surplus errors must be of labels")
        return cls(share, n_answers, n_errors, n_waiting, most_waiting, expected, counts)


def begin_tests(share: float, chance: float, floor: float) -> ThresholdTests:
    """Return the tests of all thresholds before the first label.

    Parameters
    ----------
    share : float
        α, the share of answers that may be wrong.
    chance : float
        δ, the probability that a threshold in use has more errors.
    floor : float
        The least probability with which the label of an answer is asked for.
    """
    return ThresholdTests(
        thresholds_for(share),
        _N_STRICTER,
        share,
        floor,
        -math.log(0.25 * chance),
        -math.log(0.75 * chance),
        _N_UNCONFIRMED + 20.0 / floor,
        MOST_AHEAD,
        MOST_PLACES,
    )


@lru_cache(maxsize=64)
def thresholds_for(share: float) -> Vector:
    """Return the confidences that are tested, from the strictest on.

    Examples
    --------
    >>> thresholds_for(0.3).round(2)[[0, 15, 23]].tolist()
    [0.96, 0.7, 0.0]
    """
    n = math.ceil(math.log(1.0 / share) / math.log(_RATIO)) + 1
    shares = share * _RATIO ** np.arange(-_N_STRICTER, n, dtype=np.float64)
    shares[_N_STRICTER] = share
    thresholds = np.maximum(1.0 - shares, 0.0)
    thresholds.flags.writeable = False  # it is kept
    return thresholds
