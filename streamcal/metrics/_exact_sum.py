"""Running sums without rounding errors, from which numbers can be subtracted again."""

import math


class ExactSum:
    """A running sum without rounding errors, so that subtracting undoes adding.

    The sum is kept as floats that share no bits, usually two or three (Shewchuk, *Adaptive
    Precision Floating-Point Arithmetic*, Discrete & Computational Geometry 18, 1997).

    Examples
    --------
    >>> total = ExactSum()
    >>> for x in (1e30, 0.1, -1e30):
    ...     total.add(x)
    >>> total.value
    0.1
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[float] = []

    def add(self, x: float) -> None:
        """Add a finite number."""
        kept = 0
        for part in self._parts:
            if abs(x) < abs(part):
                x, part = part, x
            total = x + part
            lost = part - (total - x)
            if lost:
                self._parts[kept] = lost
                kept += 1
            x = total
        self._parts[kept:] = [x] if x else []

    def add_all(self, other: "ExactSum") -> None:
        """Add another sum."""
        for part in other._parts:
            self.add(part)

    @property
    def value(self) -> float:
        """The sum, rounded once."""
        return math.fsum(self._parts)
