"""The numbers in a column of a table."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamcal.tables.base import Column, TableError


def as_numbers(
    column: Column, *, booleans: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers in a column of a chunk, and which of its values are empty.

    Text is parsed as Python parses a float, without the blanks around it. Empty text and null are
    empty. With ``booleans``, true and false are 1 and 0: of type bool, or as text in any case.

    Returns
    -------
    values : ndarray of shape (n_rows,)
        NaN where the value is not a number.
    empty : ndarray of shape (n_rows,)
        True where the value is empty.

    Raises
    ------
    TableError
        If values of the column's type can't be numbers.

    Examples
    --------
    >>> as_numbers(["0.5", "", "x", True], booleans=True)
    (array([0.5, nan, nan, 1. ]), array([False,  True, False, False]))
    """
    if isinstance(column, list):
        return _parse_values(column, booleans)
    if pa.types.is_boolean(column.type) and not booleans:
        raise TableError("must hold numbers, not booleans")
    # Not `to_numpy`: it imports pandas if that is installed, which takes half a second.
    try:
        numbers = pc.cast(column, pa.float64())
    except pa.ArrowNotImplementedError:
        raise TableError(f"must hold numbers, not {column.type}") from None
    except pa.ArrowInvalid:
        # Some values are not plain numbers: parse each distinct text once.
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        values, empty = _parse_values([*column.dictionary.to_pylist(), None], booleans)
        index = np.from_dlpack(pc.fill_null(column.indices, len(values) - 1))
        return values[index], empty[index]
    empty = np.from_dlpack(pc.is_null(numbers).cast(pa.uint8())).astype(np.bool_)
    return np.array(np.from_dlpack(pc.fill_null(numbers, math.nan))), empty


def _parse_values(
    values: Sequence[Any], booleans: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Do what `as_numbers` does for a list: at once if all are plain numbers, else one by one."""
    if set(map(type, values)) <= {float, int}:
        with contextlib.suppress(OverflowError):
            return np.array(values, dtype=np.float64), np.zeros(len(values), dtype=np.bool_)
    numbers = np.full(len(values), math.nan)
    empty = np.zeros(len(values), dtype=np.bool_)
    for i, value in enumerate(values):
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, str):
            value = value.strip()
            if booleans:
                value = {"true": True, "false": False}.get(value.lower(), value)
        empty[i] = value is None or value == ""
        # Python reads 1_0 as 10.
        if isinstance(value, str | int | float) and "_" not in str(value):
            with contextlib.suppress(ValueError, OverflowError):
                if booleans or not isinstance(value, bool):
                    numbers[i] = float(value)
    return numbers, empty
