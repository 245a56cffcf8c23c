"""When to commit: commits may take a given share of the time, and there are not too many."""

import math
import time

MOST_SPENT = 0.25
"""The share of the time that commits may take."""


PAUSE = 0.05
"""The least time between two commits, in seconds: each one writes some tens of kilobytes."""


class Pace:
    """Decides when the next commit is due, so that commits take at most a share of the time.

    It is a context manager around each commit, and measures its time.

    Parameters
    ----------
    most : float
        The share of the time that commits may take.

    Examples
    --------
    >>> pace = Pace()
    >>> if pace.is_due():
    ...     with pace:
    ...         pass  # commit
    """

    def __init__(self, most: float = MOST_SPENT) -> None:
        self.most = most
        self._begun = time.monotonic()
        self._spent = 0.0
        self._last = -math.inf

    def is_due(self) -> bool:
        """Return whether commits have taken less than their share, and the last one is not new."""
        now = time.monotonic()
        return now - self._last >= PAUSE and self._spent <= self.most * (now - self._begun)

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._last = time.monotonic()
        self._spent += self._last - self._since
