"""Values that are obviously good, in the dicts that come with each sample.

What is not obvious is decided, and explained, by the caller.
"""

import numpy as np
from cpython.datetime cimport PyDateTime_CheckExact, datetime_tzinfo, get_utc, import_datetime

import_datetime()

# They cannot change, and to hash and compare them runs no code of a user.
PLAIN = frozenset(
    {float, int, str, bool, type(None), np.float64, np.float32, np.int64, np.bool_}
)


cdef inline bint is_plain(object kind):
    return kind is float or kind is int or kind is str or kind in PLAIN


def holds_plain(dict x not None):
    """Return whether all values of a dict are plain: numbers but NaN, text, booleans or None.

    So is a `datetime` without a zone or in UTC; the code of other zones may be a user's.

    Examples
    --------
    >>> holds_plain({"age": 7, "name": "x"}), holds_plain({"ages": [7]})
    (True, False)
    >>> holds_plain({"age": float("nan")})
    False
    """
    cdef double number
    for value in x.values():
        if PyDateTime_CheckExact(value):
            zone = datetime_tzinfo(value)
            if zone is not None and zone is not get_utc():
                return False
            continue
        if not is_plain(type(value)):
            return False
        if isinstance(value, float):
            number = value
            if number != number:
                return False
        elif isinstance(value, np.float32) and value != value:  # it is no Python float
            return False
    return True


def are_in_unit(tuple values not None):
    """Return whether all values are floats from 0 to 1.

    Examples
    --------
    >>> are_in_unit((0.0, 0.5)), are_in_unit((0.0, float("nan"))), are_in_unit((1,))
    (True, False, False)
    """
    for p in values:
        if type(p) is not float or not 0.0 <= <double> p <= 1.0:
            return False
    return True


def are_probabilities(dict raw not None):
    """Return whether all values are floats from 0 to 1, under plain labels.

    Examples
    --------
    >>> are_probabilities({True: 0.25, False: 0.75})
    True
    >>> are_probabilities({True: 1.25}), are_probabilities({True: 1})
    (False, False)
    """
    for label, p in raw.items():
        if type(p) is not float or not 0.0 <= <double> p <= 1.0:
            return False
        if type(label) is not bool and type(label) is not str and type(label) is not int:
            return False  # a float may be NaN
    return True
