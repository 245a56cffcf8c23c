"""Checks of the names and types of columns."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
)

NUMBERS = "must be a column of numbers"
FIELDS = "must be columns of strings, whole numbers, floats or booleans"


def check_frame(df: Any, argument: str) -> None:
    """Raise unless ``df`` is a data frame of Spark with unique column names."""
    if not isinstance(df, DataFrame):
        raise TypeError(f"`{argument}` must be a pyspark.sql.DataFrame, got {type(df).__name__}")
    names = df.schema.names
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"`{argument}` must have unique column names, got {repeated} repeatedly")


def check_samples(schema: StructType, score: Any, label: Any, weight: Any) -> None:
    """Raise unless scores, labels and weights are columns of numbers; labels may be booleans."""
    check_column(schema, "score", score, is_number, NUMBERS)
    check_column(schema, "label", label, _is_label, f"{NUMBERS} or booleans")
    if weight is not None:
        check_column(schema, "weight", weight, is_number, NUMBERS)


def check_fields(schema: StructType, fields: Iterable[str]) -> None:
    """Raise unless the fields of a `SegmentCalibrator` are columns of values that it accepts."""
    for name in fields:
        check_column(schema, "calibrator.fields", name, _is_field, FIELDS)


def check_column(
    schema: StructType, argument: str, name: Any, good: Callable[[DataType], bool], what: str
) -> None:
    """Raise unless ``name`` is a column of a ``good`` type; ``what`` is the rule for the error."""
    if not isinstance(name, str):
        raise TypeError(f"`{argument}` must be the name of a column, got {name!r}")
    if name not in schema.names:
        raise ValueError(f"`{argument}` must be one of the columns {schema.names}, got {name!r}")
    kind = schema[name].dataType
    if not good(kind):
        raise TypeError(f"`{argument}` {what}, got {name!r} of type {kind.simpleString()}")


def is_number(kind: DataType) -> bool:
    """Return whether a type is numeric."""
    return isinstance(kind, NumericType)


def _is_label(kind: DataType) -> bool:
    return isinstance(kind, NumericType | BooleanType)


def _is_field(kind: DataType) -> bool:
    """Return whether values are a segment's; equal ones of collated strings can differ."""
    plain = IntegralType, FloatType, DoubleType, BooleanType
    return isinstance(kind, plain) or kind == StringType()
