"""Tickets: what a hedge served, to pass back with the label; and how late labels are."""

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streamcal._validation import as_number
from streamcal.kernels.plain import are_in_unit

POWERS = 3
"""Rows of weights for each share, once a label was late."""

_INDEXED = (Sequence, np.ndarray)  # what a ticket may be made of
_MEMORY = 1_000.0  # labels over which the delay is averaged


class Ticket(NamedTuple):
    """The predictions of a `HedgedCalibrator` for one sample, to pass back with its label.

    Attributes
    ----------
    n_samples : int
        The number of samples that the hedge had learned when it made the ticket; a group is one.
    answers : sequence of float
        The prediction of each calibrator, in the order of `HedgedCalibrator.names`, then that of
        the mixture for each share.

    Examples
    --------
    >>> from streamcal import HedgedCalibrator
    >>> hedge = HedgedCalibrator()
    >>> p, ticket = hedge.serve_one(0.3)
    >>> hedge.learn_one(0.8, 1)  # meanwhile
    >>> hedge.learn_one(0.3, 0, served=ticket)
    >>> ticket.n_samples, len(ticket.answers)
    (0, 10)
    """

    n_samples: int
    answers: Sequence[float]


def read_ticket(
    served: Any, n_learned: int, n: int, n_shares: int
) -> tuple[float, tuple[float, ...]]:
    """Return the number of samples and the predictions on a ticket, or raise.

    Parameters
    ----------
    served : Ticket, or what JSON makes of it
    n_learned : int
        How many samples the hedge has learned.
    n, n_shares : int
        The number of its calibrators, and of its shares.
    """
    try:
        n_samples, answers = served
        # An iterator could be read only once, a set or a mapping not by position.
        if not (isinstance(served, _INDEXED) and isinstance(answers, _INDEXED)):
            raise TypeError
        if isinstance(answers, bytes | bytearray):
            raise TypeError
        values: tuple[float, ...]
        if type(answers) is tuple and are_in_unit(answers):  # the usual case
            values = answers
        else:
            values = tuple(array("d", answers))  # refuses digits
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"`served` must be a ticket of `serve_one`, got {served!r}") from None
    learned = as_number(n_samples, "served")
    if not 0.0 <= learned <= n_learned:
        raise ValueError(
            f"`served` must come from this calibrator, which has learned {n_learned}"
            f" samples, got one after {n_samples}"
        )
    fits = len(values) in (n + n_shares, n + POWERS * n_shares)
    if not fits or not are_in_unit(values):
        raise ValueError(
            f"`served` must hold answers in [0, 1] of {n} calibrators and of {n_shares} or"
            f" {POWERS * n_shares} mixtures, got {answers}"
        )
    return learned, values


def as_tickets(served: Any, n_rows: int) -> Sequence[Ticket | None]:
    """Return a ticket or None for each row of a group, or raise."""
    if served is None:
        return [None] * n_rows
    if not isinstance(served, Sequence):
        raise TypeError(f"`served` must be a sequence of tickets, got {served!r}")
    if len(served) != n_rows:
        raise ValueError(f"`served` must have one ticket per score ({n_rows}), got {len(served)}")
    return served


class MeanDelay(NamedTuple):
    """By how many samples labels come late: the mean of about the last 1,000 labels.

    Attributes
    ----------
    n : int
        The number of labels since the first late one.
    mean : float
        The mean of these; labels before the first late one do not count.

    Examples
    --------
    >>> MeanDelay().after(0).after(4).after(2)
    MeanDelay(n=2, mean=3.0)
    """

    n: int = 0
    mean: float = 0.0

    def after(self, late: float) -> "MeanDelay":
        """Return the mean with one more label, which is so late."""
        if not (late or self.mean):
            return self
        n = self.n + 1
        rate = max(1.0 / n, 1.0 / _MEMORY)
        return tuple.__new__(MeanDelay, (n, self.mean + rate * (late - self.mean)))
