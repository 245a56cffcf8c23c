"""Whether the labels that arrive between two predictions share an outcome.

When a game ends, the labels of all its rows arrive at once, and all are equal. Learned one by one,
the first such burst teaches a calibrator that this label is almost certain. As a group
(`HedgedCalibrator.learn_group`) it is one sample, but nobody may have said that the rows belong
together. The labels of a nightly batch arrive at once, too, and learned as a group they would count
as one sample instead of a thousand.

*The first bursts* are groups only if their labels are equal, and if independent labels would hardly
be. Let the score be wrong by 2 log odds, in favour of these labels. If the probability that all
labels of all bursts are equal is below 1 / e even then, they share their outcomes. (If the score is
wrong by 1 in their favour, it is then below e^−2.7, and if the score is right, e^−7.) A burst whose
other label has a mean probability below 0.1 is no evidence: where positives are rare, most bursts
have none. If one burst has both labels, all labels are learned one by one, from then on: the
calibrators have learned a burst in full, and groups after it would hardly move them again.

*Later bursts* are groups while their effect stays large. The design effect of a burst is
(Σ(y − p))² / Σp(1 − p): 1 for independent labels, about the number of rows for a shared outcome
(Kish, *Survey Sampling*, 1965). Here p is what was served after at least 100 labels had been
learned. What the mean residual of the other bursts explains is subtracted before it is squared,
since a wrong score has the same residual in all bursts. Once five bursts are measured, their mean
effect decides, whatever their labels: if it is not above 3, all labels are learned one by one from
then on.

A game of 90 rows of probability 0.6 that was won has 90 · log(1 + e^−2 · 0.4 / 0.6) = 7.8 nats,
so the first game is a group. In a thousand independent labels both are found unless one is rare.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state import as_float, as_int, as_list, require
from streamcal._validation import MOST_COUNT

# A score may be so wrong before equal labels are taken to share an outcome: a ratio of odds.
_FAVOURABLE = math.exp(-2.0)
_LEAST_NATS = 1.0
_RARE = 0.1  # a label of a smaller mean probability is rarely in a burst anyway
_LEAST_LABELS = 100  # learned before a prediction whose residual measures the effect
_LEAST_BURSTS = 5
_LEAST_EFFECT = 3.0
_MEMORY = 100.0  # bursts over which effect and residual are averaged
_LARGEST = 1e15


class Evidence(NamedTuple):
    """What the bursts so far say about the next ones.

    Attributes
    ----------
    shared : bool or None
        Whether the rows of a burst share an outcome; None while that is open. False is final.
    nats : float
        −log of the probability that the labels of all bursts are equal if the score is wrong by 2
        log odds in their favour; it is no longer counted once ``shared`` is known.
    n_bursts : int
        The number of bursts of several rows.
    residual, size : float
        The means of Σ(y − p) and of the number of rows over these.
    n_measured : int
        How many of them have been compared with others.
    effect : float
        The mean effect of these and of one burst with the effect 1.
    measured_from : int
        An effect is measured for predictions that were served after so many samples; -1 until then.

    Examples
    --------
    >>> evidence, p, won = Evidence(), np.full(90, 0.6), np.ones(90)
    >>> evidence = evidence.after(p, won, first_served=0, n_samples=0, n_labels=0)
    >>> evidence.shared, round(evidence.nats, 1)
    (True, 7.8)
    """

    shared: bool | None = None
    nats: float = 0.0
    n_bursts: int = 0
    residual: float = 0.0
    size: float = 0.0
    n_measured: int = 0
    effect: float = 1.0
    measured_from: int = -1

    def after(
        self,
        p: NDArray[np.float64],
        y: NDArray[np.float64],
        first_served: float,
        n_samples: int,
        n_labels: int,
    ) -> "Evidence":
        """Return the evidence with one more burst.

        Parameters
        ----------
        p, y : ndarray of shape (n_rows,)
            The predictions, in (0, 1), and the labels; two rows or more.
        first_served : float
            The least number of samples on the tickets.
        n_samples, n_labels : int
            How many samples and labels were learned before the burst.
        """
        nats, shared = self.nats, self.shared
        if shared is None:  # all labels are equal, or it would be False
            other = np.where(y == 1.0, 1.0 - p, p)  # the probability of the other label
            if other.mean() >= _RARE:
                nats += float(np.log1p(other / (1.0 - other) * _FAVOURABLE).sum())
            shared = True if nats > _LEAST_NATS else None
        measured_from = self.measured_from
        if measured_from < 0 and n_labels >= _LEAST_LABELS:
            measured_from = n_samples
        n_measured, effect = self.n_measured, self.effect
        residual = float((y - p).sum())
        if self.n_bursts and 0 <= measured_from <= first_served:
            n_measured += 1
            rate = max(1.0 / (n_measured + 1), 1.0 / _MEMORY)
            effect += rate * (self._effect_of(residual, p) - effect)
        known = n_measured >= _LEAST_BURSTS
        if effect <= _LEAST_EFFECT if known else (y != y[0]).any():
            shared = False
        n_bursts = self.n_bursts + 1
        rate = max(1.0 / n_bursts, 1.0 / _MEMORY)
        return Evidence(
            shared,
            nats,
            n_bursts,
            self.residual + rate * (residual - self.residual),
            self.size + rate * (len(p) - self.size),
            n_measured,
            effect,
            measured_from,
        )

    def _effect_of(self, residual: float, p: NDArray[np.float64]) -> float:
        """Return the effect of a burst without what the mean residual of the others explains."""
        expected = self.residual / self.size * len(p)
        explained = min(max(residual, min(expected, 0.0)), max(expected, 0.0))
        variance = float((p * (1.0 - p)).sum())
        # A single rare label has any effect, but rows have at most as much as they are.
        return min((residual - explained) ** 2 / variance, float(len(p)))


def is_no_outcome(y: float) -> bool:
    """Return whether a label says nothing about shared outcomes: it is neither 0 nor 1."""
    return y != 0.0 and y != 1.0


LEARN_ONE_BY_ONE = Evidence(shared=False)
"""Of a hedge that does not look for bursts."""


def read_evidence(given: Any) -> Evidence:
    """Return the evidence that a state holds as a list, or raise."""
    shared, nats, n_bursts, residual, size, n_measured, effect, measured_from = as_list(
        given, "bursts", len(Evidence._fields)
    )
    require(shared is None or isinstance(shared, bool), "`shared` must be a bool or null")
    evidence = Evidence(
        shared,
        as_float(nats, "nats", 0.0, _LARGEST),
        as_int(n_bursts, "n_bursts", 0),
        as_float(residual, "residual", -MOST_HELD, MOST_HELD),
        as_float(size, "size", 0.0, MOST_HELD),
        as_int(n_measured, "n_measured", 0),
        as_float(effect, "effect", 0.0, MOST_HELD),
        as_int(measured_from, "measured_from", -1, MOST_COUNT),
    )
    require(evidence.n_bursts == 0 or evidence.size >= 1.0, "bursts must have rows")
    require(evidence.n_measured <= evidence.n_bursts, "measured bursts must be bursts")
    return evidence


MOST_HELD = 10_000
"""A burst of so many labels is closed."""
