"""When to commit: commits may take a given share of the time."""

import time

MOST_SPENT = 0.25
"""The share of the time that commits may take."""


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

    def is_due(self) -> bool:
        """Return whether commits have taken less than their share of the time."""
        return self._spent <= self.most * (time.monotonic() - self._begun)

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._spent += time.monotonic() - self._since
