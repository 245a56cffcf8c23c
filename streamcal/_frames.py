"""Data of pandas and polars: a Series in gives a Series out; the missing value of pandas."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


def like_given(values: NDArray[Any], given: Any) -> NDArray[Any]:
    """Return values as a Series of the library of ``given``; as they are if it is no Series.

    A Series of pandas keeps its index, and both libraries keep the name. Neither library is
    imported here: who passes a Series has imported it.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
        One value for each of ``given``.
    given : array_like of shape (n_samples,)
        The argument of the caller.

    Examples
    --------
    >>> import numpy as np
    >>> like_given(np.array([0.5, 1.0]), [1, 2])
    array([0.5, 1. ])
    """
    if type(given) is np.ndarray:  # the usual case
        return values
    result: Any = values
    if isinstance(given, kind := _series_of("pandas")):
        result = kind(values, index=given.index, name=given.name)
    elif isinstance(given, kind := _series_of("polars")):
        result = kind(given.name, values)
    array: NDArray[Any] = result
    return array


def is_na(value: Any) -> bool:
    """Return whether a value is ``pandas.NA``."""
    return value is not None and value is getattr(sys.modules.get("pandas"), "NA", None)


def _series_of(library: str) -> Any:
    """Return the class Series of a library; no class if nobody has imported the library."""
    return getattr(sys.modules.get(library), "Series", ())
