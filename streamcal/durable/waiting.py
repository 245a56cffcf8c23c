"""What waits with a score until its label comes, as JSON: the ticket and the values of fields."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from streamcal._frames import is_na
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
    return None if ticket is None else [ticket.n_samples, *map(float, ticket.answers)]


def unpack_ticket(packed: Any) -> OwnTicket | None:
    """Return the argument of `pack_ticket`; raise ``ValueError`` if there is none."""
    if isinstance(packed, dict):
        require(packed.keys() == {"base", "models"}, "tickets must have a base and models")
        models = _unpack_plain(packed["models"])
        require(models is not None, "tickets must have models")
        # mypy does not see that `models` is not None here.
        return SegmentTicket(_unpack_plain(packed["base"]), models)  # type: ignore[arg-type]
    return _unpack_plain(packed)


def _unpack_plain(packed: Any) -> Ticket | None:
    if packed is None:
        return None
    require(packed != [], "tickets must have a number of samples")
    n_samples, *answers = as_list(packed, "tickets")
    shares = tuple(as_float(answer, "tickets", 0.0, 1.0) for answer in answers)
    return Ticket(as_int(n_samples, "tickets"), shares)


def pack_fields(x: Any) -> dict[str, Any] | None:
    """Return the values of fields as JSON can hold them.

    Raises
    ------
    TypeError
        If it is not a mapping, a name is not text, or a value is not text, a number, a boolean or
        None.
    ValueError
        If JSON can't hold a value: an int of thousands of digits, or a surrogate pair.

    Examples
    --------
    >>> pack_fields({"country": "de", "age": np.int64(7), "income": float("nan")})
    {'country': 'de', 'age': 7, 'income': None}
    """
    if x is None:
        return None
    if not isinstance(x, Mapping):
        raise TypeError(f"`x` must be a mapping from fields to values, got {x!r}")
    return {name: _pack_value(name, value) for name, value in x.items()}


def _pack_value(name: Any, value: Any) -> Any:
    if type(name) is str and name.isascii() and _is_plain(value):  # the usual case
        return value
    if is_na(value):
        return None
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(name, str) or not isinstance(plain, str | int | float | None):
        raise TypeError(
            f"`x` must have text, numbers, booleans or None by name, got {value!r} for {name!r}"
        )
    if plain != plain:
        return None
    try:
        same = json.loads(json.dumps([name, plain])) == [name, plain]
    except ValueError:
        same = False
    if not same:
        raise ValueError(f"`x` must have values that JSON can hold, got {value!r} for {name!r}")
    return plain


def _is_plain(value: Any) -> bool:
    """Return whether JSON obviously holds a value, so that this need not be tried."""
    if type(value) is str:
        return value.isascii()
    if type(value) is int:
        return abs(value) < 2**63
    return value is None or type(value) is bool or (type(value) is float and value == value)


def unpack_fields(packed: Any) -> dict[str, Any] | None:
    """Return the argument of `pack_fields`; raise ``ValueError`` if there is none."""
    if packed is None:
        return None
    require(isinstance(packed, dict), "fields must have names")
    values = [type(value) for value in packed.values()]
    known = {str, int, float, bool, type(None)}
    require(known.issuperset(values), "values of fields must be text, numbers, booleans or null")
    require(all(value == value for value in packed.values()), "values of fields must not be NaN")
    return dict(packed)
