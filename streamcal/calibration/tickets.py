"""Tickets: what a calibrator served, to pass back with a label that comes late."""

import math
import reprlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Self


class Ticket(tuple[Any, ...]):
    """What a calibrator served for one sample, to pass back with its label.

    `Calibrator.serve_one` makes it, and ``learn_one(score, y, ticket=ticket)`` reads it. What is in
    it concerns only the calibrator that made it. A ticket is immutable, and equal to one with the
    same content.

    Examples
    --------
    >>> import json
    >>> from streamcal import HedgedCalibrator
    >>> hedge = HedgedCalibrator()
    >>> p, ticket = hedge.serve_one(0.3)
    >>> kept = json.dumps(ticket.to_json())
    >>> hedge.learn_one(0.8, 1)  # meanwhile
    >>> hedge.learn_one(0.3, 0, ticket=Ticket.from_json(json.loads(kept)))
    >>> hedge.mean_delay
    1.0
    """

    __slots__ = ()

    def to_json(self) -> list[Any]:
        """Return the content as lists, numbers and None, which JSON keeps exactly."""
        return list(map(_to_json, self))

    @classmethod
    def from_json(cls, kept: Any) -> Self:
        """Return the ticket that `to_json` wrote.

        Raises
        ------
        ValueError
            If ``kept`` is anything else.
        """
        if not isinstance(kept, list):
            raise ValueError(f"`kept` must be what `to_json` returned, got {reprlib.repr(kept)}")
        try:
            return cls(map(_from_json, kept))
        except (ValueError, OverflowError, RecursionError):
            # Without the cause: it may be nested too deep to be shown.
            shown = reprlib.repr(kept)
        raise ValueError(f"`kept` must be what `to_json` returned, got {shown}")

    def __repr__(self) -> str:
        return f"Ticket({reprlib.repr(tuple(self))})"


class OtherTicketError(ValueError):
    """A ticket of another calibrator: it was made after more samples than this one has learned."""


class Prediction(NamedTuple):
    """What `Calibrator.serve_one` returns.

    Attributes
    ----------
    value : float
        The calibrated value, as from `Calibrator.predict_one`.
    ticket : Ticket or None
        What `Calibrator.learn_one` needs with the label if that is late; None if the calibrator
        needs nothing.
    """

    value: float
    ticket: Ticket | None


def _to_json(part: Any) -> Any:
    return list(map(_to_json, part)) if isinstance(part, tuple) else part


def _from_json(kept: Any) -> Any:
    if isinstance(kept, list):
        return tuple(map(_from_json, kept))
    is_number = isinstance(kept, int | float) and not isinstance(kept, bool)
    if kept is not None and not (is_number and math.isfinite(kept)):
        raise ValueError
    return kept


def check_ticket_type(ticket: object) -> None:
    """Raise ``TypeError`` unless an argument is a ticket or None.

    Examples
    --------
    >>> check_ticket_type((0, (0.5, 0.5)))
    Traceback (most recent call last):
    ...
    TypeError: `ticket` must be a ticket of `serve_one` or None, got (0, (0.5, 0.5))
    """
    if not isinstance(ticket, Ticket | None):
        raise TypeError(f"`ticket` must be a ticket of `serve_one` or None, got {ticket!r}")


def as_tickets(tickets: Any, n_rows: int) -> Sequence[Ticket | None]:
    """Return a ticket or None for each row of a group, or raise."""
    if tickets is None:
        return [None] * n_rows
    if isinstance(tickets, Ticket) or not isinstance(tickets, Sequence):
        raise TypeError(f"`tickets` must be a sequence of tickets, got {tickets!r}")
    if len(tickets) != n_rows:
        raise ValueError(f"`tickets` must have one per score ({n_rows}), got {len(tickets)}")
    return tickets
