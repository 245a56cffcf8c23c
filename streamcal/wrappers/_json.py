"""Labels and numbers as JSON that keeps them exactly, and back, with checks of untrusted input.

Keys in JSON are strings, so a mapping from labels is a list of pairs. `pack` writes a label;
reading refuses the other things that `pack` writes, such as losses and states.
"""

import math
from collections.abc import Mapping
from reprlib import repr  # what was kept may be deep or long
from typing import Any

from river.base.typing import ClfTarget

from streamcal._state import pack, unpack
from streamcal._validation import LEAST_PROBABILITY, MOST_PROBABILITY

_MAX_DEPTH = 16  # of nested tuples


def as_pairs(values: Mapping[ClfTarget, Any]) -> list[list[Any]]:
    """Return the values by label as a list of pairs.

    Raises
    ------
    TypeError, ValueError
        If JSON can't keep a label.

    Examples
    --------
    >>> as_pairs({True: 0.5, ("b", 2): 0.25})
    [[True, 0.5], [{'tuple': ['b', 2]}, 0.25]]
    """
    return [[_check_label(pack(label)), value] for label, value in values.items()]


def from_pairs(pairs: Any) -> dict[ClfTarget, Any]:
    """Return the values by label from the pairs of `as_pairs`, or raise ``TypeError, ValueError``.

    Examples
    --------
    >>> from_pairs([[True, 0.5], [{"tuple": ["b", 2]}, 0.25]])
    {True: 0.5, ('b', 2): 0.25}
    """
    values: dict[ClfTarget, Any] = {}
    for pair in as_items(pairs, "a list of pairs"):
        packed, value = as_items(pair, "a label and its value", 2)
        label = unpack(_check_label(packed))
        if label in values:
            raise ValueError(f"`kept` must hold each label once, got {repr(label)} again")
        values[label] = value
    return values


def _check_label(packed: Any, depth: int = 0) -> Any:
    if isinstance(packed, dict) and list(packed) == ["tuple"] and depth < _MAX_DEPTH:
        for item in as_items(packed["tuple"], "the items of a tuple"):
            _check_label(item, depth + 1)
    elif isinstance(packed, float):
        if not math.isfinite(packed):
            raise ValueError(f"a label must be finite, got {packed}")
    elif packed is not None and not isinstance(packed, bool | int | str):
        raise TypeError(
            f"a label must be a bool, int, float, str, None or a tuple of these, got {repr(packed)}"
        )
    return packed


def as_items(value: Any, what: str, length: int | None = None) -> list[Any]:
    """Return a list from JSON, or raise.

    Raises
    ------
    TypeError
        If it is not a list.
    ValueError
        If it has another length.
    """
    if not isinstance(value, list):
        raise TypeError(f"`kept` must hold {what}, got {repr(value)}")
    if length is not None and len(value) != length:
        raise ValueError(f"`kept` must hold {what}, got {repr(value)}")
    return value


def as_share(value: Any) -> float:
    """Return a number in [0, 1] from JSON as a float, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`kept` must hold probabilities, got {repr(value)}")
    if not LEAST_PROBABILITY <= value <= MOST_PROBABILITY:
        raise ValueError(f"`kept` must hold probabilities in [0, 1], got {repr(value)}")
    return float(value)


def as_count(value: Any) -> int:
    """Return a count from JSON, or raise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"`kept` must hold counts, got {repr(value)}")
    if value < 0:
        raise ValueError(f"`kept` must hold counts of at least 0, got {repr(value)}")
    return value
