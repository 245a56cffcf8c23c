"""What comes with a sample beside score, label and weight.

Most calibrators need nothing of it. A further kind is a field here; a keyword of `learn_one`,
`learn_many`, `predict_learn_many` and `learn_group` of `Calibrator`; and an argument in
`Calibrator._keywords`, for those that use it. What passes samples on passes a `Context`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Self

from streamcal._frames import column_of
from streamcal.calibration.clock import Time, as_time_list
from streamcal.calibration.tickets import Ticket, as_tickets

FieldValues = Mapping[str, Any]
"""The values of the fields of a sample by name: text, numbers, booleans or None."""


class Context(NamedTuple):
    """What comes with a sample beside score, label and weight.

    Attributes
    ----------
    x : mapping or None
        The values of the calibrator's ``fields``, perhaps among others.
    ticket : Ticket or None
        What was served for the sample, if its label is late.
    t : datetime, float or None
        The time at which the sample is learned, if the calibrator ``needs_time``.
    propensity : float or None
        The probability with which its label was asked for, if the calibrator ``needs_propensity``.

    Examples
    --------
    >>> Context({"shop": "a"}).with_ticket(Ticket((0.25,)))
    Context(x={'shop': 'a'}, ticket=Ticket((0.25,)), t=None, propensity=None)
    """

    x: FieldValues | None = None
    ticket: Ticket | None = None
    t: Time | None = None
    propensity: float | None = None

    def with_ticket(self, ticket: Ticket | None) -> Self:
        """Return this with another ticket."""
        return self if ticket is self.ticket else self._replace(ticket=ticket)


NO_CONTEXT = Context()
"""What comes with most samples."""


class Contexts(NamedTuple):
    """The `Context` of many samples, as it is given: several values in each field.

    Attributes
    ----------
    x
        Of a group a mapping for each row; of a batch a column for each name, or a data frame.
    ticket
        Of a group a ticket or None for each row.
    t
        Of a group one time; of a batch a time for each sample.
    propensity
        Of a group one propensity; of a batch a propensity for each sample, which was checked.
    """

    x: Any = None
    ticket: Any = None
    t: Any = None
    propensity: Any = None

    @classmethod
    def of(cls, rows: Iterable[Context]) -> Self:
        """Return the contexts of the rows of a group; time and propensity are of its last row.

        Examples
        --------
        >>> Contexts.of([Context({"shop": "a"}), Context({"shop": "b"}, t=60.0)])
        Contexts(x=({'shop': 'a'}, {'shop': 'b'}), ticket=(None, None), t=60.0, propensity=None)
        """
        given = list(rows)
        if not given:
            return cls()
        xs, tickets, *_ = zip(*given, strict=True)
        return cls(xs, tickets, *given[-1][2:])

    def rows(self, n_rows: int, *, fields: bool) -> Iterator[Context]:
        """Return the context of each row of a group, or raise; without ``fields`` there is no x.

        Examples
        --------
        >>> list(Contexts([{"shop": "a"}, {"shop": "b"}]).rows(2, fields=True))[1]
        Context(x={'shop': 'b'}, ticket=None, t=None, propensity=None)
        """
        tickets = as_tickets(self.ticket, n_rows)
        xs = _as_rows(self.x, n_rows) if fields else repeat(None)
        return map(Context, xs, tickets, repeat(self.t), repeat(self.propensity))

    def samples(
        self, n_samples: int, fields: Iterable[str], *, times: bool = False
    ) -> Iterator[Context]:
        """Return the context of each sample of a batch, or raise; x has these fields.

        Without ``times`` there is no t.

        Examples
        --------
        >>> list(Contexts({"shop": ["a", "b"], "day": [1, 2]}).samples(2, ["shop"]))[1].x
        {'shop': 'b'}
        """
        columns = {name: field_column(self.x, name, n_samples) for name in fields}
        xs = ({name: values[i] for name, values in columns.items()} for i in range(n_samples))
        of_samples = as_time_list(self.t, n_samples) if times else repeat(None)
        known = self.propensity
        propensities = repeat(None) if known is None else map(float, known)
        return map(Context, xs, repeat(None), of_samples, propensities)


def field_column(columns: Any, name: str, n_samples: int, argument: str = "x") -> list[Any]:
    """Return the values of a field as a list, or raise."""
    values = column_of(columns, name)
    if values is None:
        raise ValueError(f"`{argument}` must have a column for each field, got none for {name!r}")
    if len(values) != n_samples:
        raise ValueError(
            f"`{argument}` must have one value per score ({n_samples}), got {len(values)} in"
            f" {name!r}"
        )
    return values


def _as_rows(x: Any, n_rows: int) -> Sequence[FieldValues]:
    """Return the values of the fields of each row of a group, or raise."""
    if not isinstance(x, Sequence) or isinstance(x, str):
        raise TypeError(f"`x` must be a sequence of mappings, got {x!r}")
    if len(x) != n_rows:
        raise ValueError(f"`x` must have one row per score ({n_rows}), got {len(x)}")
    return x
