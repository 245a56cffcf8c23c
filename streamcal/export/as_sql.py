"""A map as one SQL expression of a column.

Knots are a search tree of ``CASE``: a row is compared with some tens of n scores. Numbers have
an exponent, since a database takes ``0.5`` for a decimal fraction and ``0.5e0`` for a float. NULL
is no number and falls through, as do NaN and infinities, which some databases sort above all
numbers. SQLite compares text in a column of text with text, but not with a + before it.
"""

from itertools import pairwise

import numpy as np

from streamcal.export.maps import Knots, Logistic, Map

_LARGEST = "1.7e308"
_WAYS = 8  # of a node: DuckDB is quicker with more ways, SQLite with fewer
_LARGEST_TERM = 100.0  # of a line as intercept and slope: rounding then changes less than 1e-13
_INSIDE = 1e-12


def quoted(column: object) -> str:
    """Return the name of a column as an identifier in quotes, or raise.

    Examples
    --------
    >>> print(quoted('a "raw" score'))
    "a ""raw"" score"
    """
    if not isinstance(column, str):
        raise TypeError(f"`column` must be the name of a column, got {column!r}")
    if not column or "\0" in column:
        raise ValueError(f"`column` must be a name without a zero character, got {column!r}")
    if any("\ud800" <= character <= "\udfff" for character in column):
        raise ValueError(f"`column` must be text that UTF-8 can hold, got {column!r}")
    return '"' + column.replace('"', '""') + '"'


def number(value: float) -> str:
    """Return a float as SQL, with all digits that it needs.

    Examples
    --------
    >>> number(0.5), number(1e-7)
    ('0.5e0', '1e-07')
    """
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def write(of: Map, column: str) -> str:
    """Return the expression of a map; ``column`` is quoted.

    Examples
    --------
    >>> print(write(Logistic("platt", 2.0, 2.0, 0.5, 1e-6, 0.75), '"p"'))
    CASE WHEN +"p" >= -1.7e308 AND +"p" <= 1.7e308 THEN
    CASE WHEN "p" <= 1e-06 THEN 1.65e-12
    WHEN "p" >= 0.75e0 THEN 0.9368e0
    ELSE 1e0 / (1e0 + exp(-(2.0e0 * ln("p" / (1e0 - "p")) + 0.5e0))) END END
    """
    inner = _tree(of, column) if isinstance(of, Knots) else _formula(of, column)
    return f"CASE WHEN +{column} >= -{_LARGEST} AND +{column} <= {_LARGEST} THEN\n{inner} END"


def _formula(of: Logistic, column: str) -> str:
    low, high = of.at(np.array([of.low, of.high])).tolist()
    if of.kind == "platt":
        terms = f"{number(of.a)} * ln({column} / (1e0 - {column}))"
    else:
        terms = f"{number(of.a)} * ln({column}) - {number(of.b)} * ln(1e0 - {column})"
    return (
        f"CASE WHEN {column} <= {number(of.low)} THEN {number(low)}\n"
        f"WHEN {column} >= {number(of.high)} THEN {number(high)}\n"
        f"ELSE 1e0 / (1e0 + exp(-({terms} + {number(of.c)}))) END"
    )


def _tree(of: Knots, column: str) -> str:
    """Return the search tree of knots."""
    scores, values = of.scores.tolist(), of.values.tolist()
    gaps, rises = np.diff(of.scores).tolist(), np.diff(of.values).tolist()
    is_jump = (np.nextafter(of.scores[:-1], np.inf) == of.scores[1:]).tolist()
    starts, parts = [], [number(values[0])]
    for i, (gap, rise) in enumerate(zip(gaps, rises, strict=True)):
        if is_jump[i] and (i == 0 or not is_jump[i - 1]):
            continue  # no float is between the two; the part before has the value of the first
        starts.append(scores[i])
        parts.append(_line(column, scores[i], values[i], gap, rise))
    if len(scores) > 1:
        starts.append(scores[-1])
        parts.append(number(values[-1]))

    def search(first: int, last: int) -> str:
        n = last - first + 1
        if n == 1:
            return parts[first]
        ways = min(_WAYS, n)
        ends = [first + n * way // ways for way in range(ways + 1)]
        inner = [search(low, high - 1) for low, high in pairwise(ends)]
        tests = zip(ends[1:-1], inner, strict=False)
        found = [f"WHEN {column} < {number(starts[at - 1])} THEN {part}\n" for at, part in tests]
        return f"CASE {''.join(found)}ELSE {inner[-1]} END"

    return search(0, len(parts) - 1)


def _line(column: str, start: float, value: float, gap: float, rise: float) -> str:
    """Return the line from a knot to the next one.

    Two operations are quicker than four. They are as good where no digits cancel, and where
    rounding can't lead out of [0, 1].
    """
    if not rise:
        return number(value)
    slope, ends = rise / gap, (value, value + rise)
    intercept = value - slope * start
    size = max(abs(slope) * max(abs(start), abs(start + gap)), abs(intercept))
    if size <= _LARGEST_TERM and min(ends) > _INSIDE and max(ends) < 1.0 - _INSIDE:
        return f"{number(intercept)} + {number(slope)} * {column}"
    return f"{number(value)} + ({column} - {number(start)}) / {number(gap)} * {number(rise)}"
