"""Running sums without rounding errors, from which numbers can be subtracted again."""

import math
from collections.abc import Sequence


class ExactSum:
    """A sum without rounding errors, so that subtracting undoes adding; it does not change.

    The sum is kept as floats that share no bits, usually two or three (Shewchuk, *Adaptive
    Precision Floating-Point Arithmetic*, Discrete & Computational Geometry 18, 1997).

    Examples
    --------
    >>> ExactSum().plus(1e30).plus(0.1).plus(-1e30).value
    0.1
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[float] = ()) -> None:
        self._parts = parts

    def plus(self, x: float) -> "ExactSum":
        """Return the sum with a finite number added."""
        parts = []
        for part in self._parts:
            total = x + part
            added = total - x
            lost = (x - (total - added)) + (part - added)  # Knuth's TwoSum
            if lost:
                parts.append(lost)
            x = total
        if x:
            parts.append(x)
        return ExactSum(parts)

    def plus_all(self, other: "ExactSum") -> "ExactSum":
        """Return the sum with another sum added."""
        total = self
        for part in other._parts:
            total = total.plus(part)
        return total

    @property
    def value(self) -> float:
        """The sum, rounded once."""
        return math.fsum(self._parts)
