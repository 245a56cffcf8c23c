"""Data frames: a Series for a Series, columns as lists, and values that are missing.

No library of data frames is imported here: who passes one of its objects has imported it.
"""

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def like_given(values: NDArray[Any], given: Any) -> NDArray[Any]:
    """Return values as a Series of the library of ``given``; as they are if it is no Series.

    A Series of pandas keeps its index, and both libraries keep the name.

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
    if isinstance(given, kind := _name_of("pandas", "Series")):
        result = kind(values, index=given.index, name=given.name)
    elif isinstance(given, kind := _name_of("polars", "Series")):
        result = kind(given.name, values)
    array: NDArray[Any] = result
    return array


def column_of(columns: Any, name: str) -> list[Any] | None:
    """Return a column of a mapping or of a data frame as a list, None if there is no such column.

    Raises
    ------
    TypeError
        If ``columns`` are neither, or the column is text or a number.

    Examples
    --------
    >>> column_of({"device": ("tv", "phone")}, "device")
    ['tv', 'phone']
    >>> column_of({"device": ("tv", "phone")}, "country") is None
    True
    """
    if isinstance(columns, _name_of("polars", "DataFrame")) and name not in columns.columns:
        return None
    try:
        column = columns[name]
    except KeyError:
        return None
    except (TypeError, ValueError, LookupError, AttributeError):
        raise TypeError(
            f"`columns` must be a mapping or a data frame with columns, got {type(columns)}"
        ) from None
    for method in ("to_pylist", "tolist"):  # of pyarrow; of NumPy and pandas
        if hasattr(column, method):
            column = getattr(column, method)()
    if isinstance(column, str) or not isinstance(column, Iterable):
        raise TypeError(f"`columns` must hold columns, got {column!r} for {name!r}")
    return list(column)


def is_na(value: Any) -> bool:
    """Return whether a value is the NA of pandas, which stands for a missing one.

    Examples
    --------
    >>> import pandas as pd
    >>> is_na(pd.NA), is_na(None)
    (True, False)
    """
    return "pandas" in sys.modules and value is _name_of("pandas", "NA")


def _name_of(library: str, name: str) -> Any:
    """Return what a library has under a name; () if nobody has imported the library."""
    return getattr(sys.modules.get(library), name, ())
