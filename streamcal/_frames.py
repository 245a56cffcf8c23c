"""Data of pandas and polars: a Series for a Series, columns of a frame, missing values."""

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


def column_of(columns: Any, name: str, n_samples: int) -> list[Any] | None:
    """Return the values of a column of a mapping or a data frame; None if there is no such column.

    Raises
    ------
    TypeError
        If ``columns`` has no columns.
    ValueError
        If the column has another length.

    Examples
    --------
    >>> column_of({"device": ("tv", "phone")}, "device", 2)
    ['tv', 'phone']
    """
    try:
        column = columns[name]
    except KeyError:
        return None
    except Exception:
        if name not in getattr(columns, "columns", (name,)):  # the error of polars
            return None
        raise no_columns(columns) from None
    values: list[Any] = column.tolist() if hasattr(column, "tolist") else list(column)
    if len(values) != n_samples:
        raise ValueError(
            f"`columns` must have one value per score ({n_samples}), got {len(values)} in {name!r}"
        )
    return values


def no_columns(columns: Any) -> TypeError:
    """Return the error for what is no mapping and no data frame."""
    return TypeError(
        f"`columns` must be a mapping or a data frame with columns, got {type(columns)}"
    )


def is_na(value: Any) -> bool:
    """Return whether a value is ``pandas.NA``."""
    return value is not None and value is getattr(sys.modules.get("pandas"), "NA", None)


def _series_of(library: str) -> Any:
    """Return the class Series of a library; no class if nobody has imported the library."""
    return getattr(sys.modules.get(library), "Series", ())
