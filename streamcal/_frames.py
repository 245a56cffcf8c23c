"""Data frames: a Series for a Series, and columns as lists.

No library of data frames is imported here: who passes one of its objects has imported it.
"""

import sys
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray


def like_given(values: NDArray[Any], given: Any, what: str = "calibrated") -> NDArray[Any]:
    """Return values as a Series of the library of ``given``; as they are if it is no Series.

    A Series of pandas keeps its index. The name is that of ``given``, followed by ``what``, so that
    a data frame which takes the result as a new column keeps the old one; without a name it has
    none. narwhals knows the libraries: pandas, polars, PyArrow, cuDF and Modin among them.

    Parameters
    ----------
    values : ndarray of shape (n_samples,)
        One value for each of ``given``.
    given : array_like of shape (n_samples,)
        The argument of the caller.
    what : str
        What the values are.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> like_given(np.array([0.5, 1.0]), [1, 2])
    array([0.5, 1. ])
    >>> like_given(np.array([0.5, 1.0]), pd.Series([1, 2], name="p")).name
    'p_calibrated'
    """
    if type(given).__module__ in ("numpy", "builtins"):  # the usual cases
        return values
    from narwhals.stable import v2 as nw

    if not nw.dependencies.is_into_series(given):
        return values
    series = nw.from_native(given, series_only=True)
    made = nw.new_series(_extended(series.name, what), values, backend=series.implementation)
    if (index := nw.maybe_get_index(series)) is not None:
        made = nw.maybe_set_index(made, index=index)
    result: Any = made if isinstance(given, nw.Series) else made.to_native()
    array: NDArray[Any] = result
    return array


def _extended(name: Any, what: str) -> Any:
    """Return the name of a column with what its values are; of several levels the last changes."""
    if name is None or name == "":
        return name
    if isinstance(name, tuple):
        return (*name[:-1], _extended(name[-1], what))
    return f"{name}_{what}"


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


def _name_of(library: str, name: str) -> Any:
    """Return what a library has under a name; () if nobody has imported the library."""
    return getattr(sys.modules.get(library), name, ())
