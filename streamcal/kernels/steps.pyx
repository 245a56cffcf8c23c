"""Steps of one change, called without a bytecode between them: see `streamcal._whole`."""


def do_all(*steps):
    """Call steps in order; the rest are not called if one raises, or returns False.

    A signal handler that raises finds all of them done, or none. No step but the first may fail.

    Returns
    -------
    bool
        Whether all were called, and none returned False.

    Examples
    --------
    >>> from functools import partial
    >>> counts, seen = {}, []
    >>> do_all(partial(counts.update, a=1), partial(seen.append, "a"))
    True
    >>> counts, seen
    ({'a': 1}, ['a'])
    """
    for step in steps:
        if step() is False:
            return False
    return True


cdef class Count:
    """A number of samples; `add` is a step that counts one more.

    Examples
    --------
    >>> count = Count(2.5)
    >>> do_all(count.add), count.n
    (True, 3.5)
    """

    cdef readonly double n

    def __init__(self, double n=0.0):
        self.n = n

    def add(self):
        """Count one more."""
        self.n += 1.0

    def add_share(self, double share):
        """Count a share of one."""
        self.n += share
