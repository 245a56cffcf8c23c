"""Many tests at once: which of them to believe."""

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from streamcal._advice import shown
from streamcal._validation import as_within

_Name = TypeVar("_Name")


def e_bh(log_e_values: Mapping[_Name, float], alpha: float = 0.05) -> list[_Name]:
    """Return the names whose null hypothesis is rejected, by the e-BH procedure [1]_.

    The expected share of false names among them is at most ``alpha``, however the tests depend on
    each other. It holds at any one time at which one stops, with the e-values of that time (not
    their maxima), if each test is valid given all that the others have seen. Names may come and go.

    Parameters
    ----------
    log_e_values : mapping of name to float
        The logarithms of e-values, such as `CalibrationTest.log_e_value` of each segment.
    alpha : float
        The greatest expected share of false names, in (0, 1).

    Returns
    -------
    names : list
        Those with the k largest e-values, the largest first, where k is the greatest number so
        that each of them is at least n / (alpha · k), of n tests.

    Raises
    ------
    ValueError, TypeError
        If ``alpha`` is out of range or an e-value is NaN.

    References
    ----------
    .. [1] Wang, R. and Ramdas, A. (2022). False discovery rate control with e-values. Journal of
       the Royal Statistical Society B 84(3), 822-852.

    Examples
    --------
    >>> e_bh({"DE": 5.2, "FR": 0.1, "IT": 3.5, "US": -0.7})
    ['DE']
    >>> e_bh({"DE": 5.2, "FR": 0.1, "IT": 3.8, "US": -0.7})
    ['DE', 'IT']
    """
    if not isinstance(log_e_values, Mapping):
        raise TypeError(
            "`log_e_values` must be a mapping of names, such as {'a': test.log_e_value}, got"
            f" {shown(log_e_values)}"
        )
    alpha = as_within(alpha, "alpha", "(0, 1)")
    value: Any
    for name, value in log_e_values.items():
        if not isinstance(value, int | float | np.number):
            hint = "; pass its `log_e_value`" if hasattr(value, "log_e_value") else ""
            raise TypeError(
                f"`log_e_values` must be numbers, got {shown(value)} for {name!r}{hint}"
            )
        if value != value:
            raise ValueError(f"`log_e_values` must be numbers, got {value!r} for {name!r}")
    names = sorted(log_e_values, key=lambda name: -log_e_values[name])
    n_rejected = 0
    for k, name in enumerate(names, 1):
        if log_e_values[name] >= math.log(len(names) / (alpha * k)):
            n_rejected = k
    return names[:n_rejected]
