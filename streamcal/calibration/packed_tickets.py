"""Tickets of a single label as JSON, for stores and for `streamcal.Served.to_dict`."""

from typing import Any

from streamcal._state import as_float, as_int, as_list, require
from streamcal.calibration.segments import OwnTicket, SegmentTicket
from streamcal.calibration.tickets import Ticket


def pack_ticket(ticket: OwnTicket | None) -> Any:
    """Return a ticket as JSON.

    Examples
    --------
    >>> pack_ticket(SegmentTicket(None, Ticket(7, (0.5, 0.25))))
    {'base': None, 'models': [7, 0.5, 0.25]}
    """
    if isinstance(ticket, SegmentTicket):
        return {"base": pack_ticket(ticket.base), "models": pack_ticket(ticket.models)}
    if ticket is None:
        return None
    n_samples, answers = ticket
    return [n_samples, *map(float, answers)]


def unpack_ticket(packed: Any) -> OwnTicket | None:
    """Return the argument of `pack_ticket`; raise ``ValueError`` if there is none."""
    if isinstance(packed, dict):
        require(packed.keys() == {"base", "models"}, "tickets must have a base and models")
        base = packed["base"]
        return SegmentTicket(
            None if base is None else unpack_plain(base), unpack_plain(packed["models"])
        )
    return None if packed is None else unpack_plain(packed)


def unpack_plain(packed: Any) -> Ticket:
    """Return the `Ticket` that `pack_ticket` got; raise ``ValueError`` if there is none."""
    require(packed != [], "tickets must have a number of samples")
    n_samples, *answers = as_list(packed, "tickets")
    shares = tuple(as_float(answer, "tickets", 0.0, 1.0) for answer in answers)
    return Ticket(as_int(n_samples, "tickets"), shares)
