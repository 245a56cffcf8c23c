"""Rows of a table: the requirements of their columns, and the handling of bad rows.

A `Column` has a name and requirements. A `RowReader` reads columns of a chunk as numbers and
returns the `Rows` that meet all requirements. Bad rows either end the run or are skipped and
counted.
"""

import contextlib
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import LARGEST, LEAST_PROBABILITY, MOST_PROBABILITY, SMALLEST
from streamcal.cli.options import DECISION, OnError

if TYPE_CHECKING:
    from streamcal.durable.keys import Groups
    from streamcal.losses import MeanLoss
    from streamcal.tables.base import Chunk, Fault, Reader

MAX_LABELS = 32_767
"""The greatest ordinal label."""

MOST_DELAY = 2**53
"""Delays are less than this, in rows: a float can hold them."""

_MISSING = frozenset({"na", "n/a", "nan", "<na>", "null", "none", "?"})
"""What other programs write in the cell of a missing value, in small letters."""

SEVERAL = "; several labels need a column of probabilities each, as in --prob a,b,c"
"""What is said of a label that is neither 0 nor 1."""
MEANS = "; for counts or amounts add --loss poisson, gamma, tweedie or squared"
"""What to do about labels and predictions that are no probabilities."""

_OTHER_LOSS = "; for counts or amounts add --calibrator isotonic --loss poisson, gamma or squared"

A_TIME = "a time such as 2026-03-01T12:30, or a number of seconds since 1970"

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Requirement(NamedTuple):
    """A requirement of a number: its text in messages, and the function that checks it.

    ``otherwise`` is what the message adds if there is a number that does not meet it; in a column
    of labels, if there is a word.
    """

    text: str
    is_met: Callable[[Vector], Mask]
    otherwise: str = ""


@dataclass(frozen=True)
class Column:
    """A column of numbers.

    Attributes
    ----------
    name : str or None
        None: the table has no such column; all its numbers are 1.
    requirements : tuple of Requirement
        All numbers must meet them.
    is_label : bool
        Whether a cell may be empty (the number is NaN then) or hold true or false.
    is_probability : bool
        Whether numbers outside [0, 1], which are rounding errors, are clipped.
    is_optional : bool
        Whether the table may have no such column.
    """

    name: str | None
    requirements: tuple[Requirement, ...]
    is_label: bool = False
    is_probability: bool = False
    is_optional: bool = False

    def read(self, chunk: "Chunk") -> tuple[Vector, list["Check"]]:
        """Return the numbers of all rows of a chunk, and which of them meet the requirements."""
        from streamcal.tables.base import TableError
        from streamcal.tables.numbers import as_numbers

        if self.name is None:
            return np.ones(len(chunk)), []
        try:
            values, empty = as_numbers(chunk.columns[self.name], booleans=self.is_label)
        except TableError as error:
            raise TableError(f"column `{self.name}` {error}") from None
        with np.errstate(all="ignore"):
            checks = [
                Check(self.name, each, each.is_met(values) | (empty & self.is_label), self.is_label)
                for each in self.requirements
            ]
        return values.clip(0.0, 1.0) if self.is_probability else values, checks


class Check(NamedTuple):
    """A requirement of a column, and which rows of a chunk meet it."""

    column: str
    requirement: Requirement
    good: Mask
    is_label: bool


@dataclass(frozen=True)
class TimeColumn(Column):
    """A column of times, in seconds since 1970; all with a zone, or all without."""

    _zones: list[bool] = field(default_factory=list)  # whether the first time has one

    @property
    def has_zone(self) -> bool:
        """Whether the times that have been read have a zone."""
        return self._zones == [True]

    def read(self, chunk: "Chunk") -> tuple[Vector, list["Check"]]:
        """Return the times of all rows of a chunk, and which of them are times of one kind."""
        from streamcal.tables.base import TableError
        from streamcal.tables.times import as_times

        assert self.name is not None
        try:
            times = as_times(chunk.columns[self.name])
        except TableError as error:
            raise TableError(f"column `{self.name}` {error}") from None
        found = ~np.isnan(times.seconds)
        if not self._zones and found.any():
            self._zones.append(bool(times.has_zone[found][0]))
        zone = "with" if self.has_zone else "without"
        requirements = (
            (A_TIME, found),
            (f"a time {zone} a zone, as those before", times.has_zone == self.has_zone),
        )
        return times.seconds, [
            Check(self.name, Requirement(text, np.isfinite), good, False)
            for text, good in requirements
        ]


@dataclass(frozen=True)
class _DecisionColumn(Column):
    """The decisions 0 and 1 of a table that may have none: NaN stands for any other cell."""

    def read(self, chunk: "Chunk") -> tuple[Vector, list["Check"]]:
        """Return the decisions of all rows of a chunk; each row is good."""
        from streamcal.tables.numbers import as_numbers

        values = np.full(len(chunk), np.nan)
        if self.name is not None and self.name in chunk.columns:
            with contextlib.suppress(ValueError):  # it holds something else
                values, _ = as_numbers(chunk.columns[self.name], booleans=True)
        return np.where(np.isin(values, (0.0, 1.0)), values, np.nan), []


@dataclass(frozen=True)
class _PropensityColumn(Column):
    """Propensities; that of a row without a label does not matter, and is 1."""

    label: Column | None = None

    def read(self, chunk: "Chunk") -> tuple[Vector, list["Check"]]:
        """Return the propensities of all rows of a chunk, and which of them can be used."""
        assert self.label is not None
        values, checks = super().read(chunk)
        unlabelled = np.isnan(self.label.read(chunk)[0])
        checks = [check._replace(good=check.good | unlabelled) for check in checks]
        return np.where(unlabelled, 1.0, values), checks


def decision_column(*others: str | None) -> Column:
    """Return the column that `streamcal decide` adds, unless it is one of others that are read."""
    return _DecisionColumn(None if DECISION in others else DECISION, (), is_optional=True)


def score_column(name: str) -> Column:
    """Return a column of any finite numbers."""
    return Column(name, (Requirement("a finite number", np.isfinite),))


def mean_column(name: str, loss: "MeanLoss") -> Column:
    """Return a column of means that a loss is defined for."""
    requirements = (
        Requirement(f"in {loss.z_range} for the {loss.name} loss", loss.z_range.contains),
        Requirement(f"at most {LARGEST:g} in size", lambda z: np.abs(z) <= LARGEST),
    )
    return Column(name, requirements)


def probability_column(name: str, otherwise: str = "") -> Column:
    """Return a column of probabilities, clipped; ``otherwise`` is that of its `Requirement`."""
    requirement = Requirement(
        "a probability in [0, 1]",
        lambda p: (p >= LEAST_PROBABILITY) & (p <= MOST_PROBABILITY),
        otherwise,
    )
    return Column(name, (requirement,), is_probability=True)


def weight_column(name: str | None) -> Column:
    """Return a column of weights; None: each row has the weight 1."""
    requirements = (
        Requirement("a positive finite number", lambda w: (w > 0.0) & (w < np.inf)),
        Requirement(
            f"from {SMALLEST:g} to {LARGEST:g}", lambda w: (w >= SMALLEST) & (w <= LARGEST)
        ),
    )
    return Column(name, requirements)


def delay_column(name: str) -> Column:
    """Return a column of delays, in rows."""
    requirement = Requirement(
        "a whole number of rows", lambda d: (d >= 0.0) & (d < MOST_DELAY) & (d == np.floor(d))
    )
    return Column(name, (requirement,))


def rate_column(name: str) -> Column:
    """Return a column of shares of negatives that are kept."""
    requirement = Requirement(
        "greater than 0 and not greater than 1", lambda rate: (rate > 0.0) & (rate <= 1.0)
    )
    return Column(name, (requirement,))


def propensity_column(name: str, label: Column, floor: float | None = None) -> Column:
    """Return a column of probabilities with which the labels of another are asked for.

    Without a floor, weights 1 / propensity must only be such that they can be summed.
    """
    otherwise = "" if floor is None else "; --floor says what the least propensity is"
    floor = SMALLEST if floor is None else floor
    requirement = Requirement(
        f"from {floor:g} to 1",
        lambda propensity: (propensity >= floor) & (propensity <= 1.0),
        otherwise,
    )
    return _PropensityColumn(name, (requirement,), label=label)


def binary_label_column(name: str, otherwise: str = "") -> Column:
    """Return a column of labels 0 and 1; ``otherwise`` is that of its `Requirement`."""
    text = "0 or 1, or false or true"
    requirement = Requirement(text, lambda y: np.isin(y, (0.0, 1.0)), otherwise)
    return Column(name, (requirement,), is_label=True)


def ordinal_label_column(name: str, n_labels: int | None) -> Column:
    """Return a column of labels 1, 2 and so on."""
    most = n_labels or MAX_LABELS
    requirement = Requirement(
        f"an int from 1 to {most}", lambda y: (y >= 1.0) & (y <= most) & (y == np.floor(y))
    )
    return Column(name, (requirement,), is_label=True)


def loss_label_column(name: str, loss: "MeanLoss") -> Column:
    """Return a column of labels that a loss is defined for, and that can be summed."""
    words = ", or false or true" if loss.y_range.contains(np.array([0.0, 1.0])).all() else ""
    requirements = (
        Requirement(
            f"in {loss.y_range} for the {loss.name} loss{words}",
            loss.y_range.contains,
            _OTHER_LOSS if loss.name == "log" else "",
        ),
        Requirement(
            f"small enough for the {loss.name} loss (its statistic at most {LARGEST:g})",
            lambda y: np.abs(loss.statistic(y)) <= LARGEST,
        ),
    )
    return Column(name, requirements, is_label=True)


def columns_of_values(names: Sequence[str], label: str, loss: str | None) -> list[Column]:
    """Return columns of probabilities and of labels 0 and 1; with a loss, of means and numbers."""
    if loss is None:
        return [
            *(probability_column(name, MEANS) for name in names),
            binary_label_column(label, SEVERAL + MEANS),
        ]
    from streamcal.losses.deviance import get_deviance

    given = get_deviance(str(loss)).loss
    return [*(mean_column(name, given) for name in names), loss_label_column(label, given)]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a chunk that are used.

    Attributes
    ----------
    chunk : Chunk
    values : list of ndarray of shape (n_rows,)
        The numbers in these rows, one array for each column of the reader.
    keep : ndarray of shape (n_chunk_rows,) or None
        Marks these rows in the chunk; None if they are all of it.
    """

    chunk: "Chunk"
    values: list[Vector]
    keep: Mask | None = None

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of the rows in the table, from 1."""
        return self.chunk.rows if self.keep is None else self.chunk.rows[self.keep]

    def cells(self, column: str) -> Any:
        """Return the cells of a column as the chunk has them."""
        cells = self.chunk.columns[column]
        if self.keep is None:
            return cells
        if isinstance(cells, list):
            return [cell for cell, kept in zip(cells, self.keep, strict=True) if kept]
        return cells.filter(self.keep)

    def select(self, mask: Mask) -> "Rows":
        """Return those of the rows that a mask marks."""
        if mask.all():
            return self
        keep = np.ones(len(self.chunk), np.bool_) if self.keep is None else self.keep.copy()
        keep[keep] = mask
        return Rows(self.chunk, [values[mask] for values in self.values], keep)


class RowChecksums:
    """Running checksums of columns of numbers, which do not depend on how rows are chunked.

    Examples
    --------
    >>> at_once, one_by_one = RowChecksums(), RowChecksums()
    >>> at_once.add(np.arange(4.0), np.ones(4))
    >>> for i in range(4):
    ...     one_by_one.add(np.array([float(i)]), np.ones(1))
    >>> at_once.sums == one_by_one.sums
    True
    """

    def __init__(self) -> None:
        self.sums: list[int] = []

    def add(self, *columns: Vector) -> None:
        """Add rows, given by their columns."""
        self.sums = self.sums or [0] * len(columns)
        self.sums = [
            zlib.crc32(np.ascontiguousarray(column).tobytes(), total)
            for column, total in zip(columns, self.sums, strict=True)
        ]


class RowReader:
    """Reads columns of numbers, checks them, and counts the rows that are skipped.

    Parameters
    ----------
    columns : sequence of Column
    on_error : OnError
        Whether the first bad row ends the run, or bad rows are skipped.

    Attributes
    ----------
    fault : Fault or None
        The bad row that ends the run.
    skipped : Counter
        How many rows were skipped, by reason.
    examples : dict
        The message about the first skipped row, by reason.
    """

    def __init__(self, columns: Sequence[Column], on_error: OnError) -> None:
        self.columns = columns
        self.on_error = on_error
        self.fault: Fault | None = None
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """The names of the columns that must be in the table."""
        return self._names(is_optional=False)

    @property
    def optional(self) -> list[str]:
        """The names of the other columns."""
        return self._names(is_optional=True)

    def _names(self, *, is_optional: bool) -> list[str]:
        return [
            column.name
            for column in self.columns
            if column.name is not None and column.is_optional == is_optional
        ]

    def iterate(self, source: "Reader") -> Iterator[Rows]:
        """Yield the good rows of each chunk of a table.

        Raises
        ------
        TableError
            If a bad row ends the run.
        """
        for chunk in source:
            rows = self.read(chunk)
            self.raise_fault()
            yield rows

    def read(self, chunk: "Chunk") -> Rows:
        """Return the good rows of a chunk; if a bad row ends the run, those before it."""
        values, checks = [], []
        for column in self.columns:
            numbers, of_column = column.read(chunk)
            values.append(numbers)
            checks += of_column
        keep: Mask = np.logical_and.reduce([check.good for check in checks])
        stop = self.on_error is OnError.stop
        faults = _faults(chunk, checks, keep, stop)
        if not faults:
            return Rows(chunk, values)
        if stop:
            self.fault = faults[0]
            keep &= chunk.rows < faults[0].row
        else:
            for fault in faults:
                self.skipped[fault.reason] += 1
                self.examples.setdefault(fault.reason, fault.message)
        return Rows(chunk, [numbers[keep] for numbers in values], keep)

    def raise_fault(self) -> None:
        """Raise `TableError` if a bad row has ended the run."""
        from streamcal.tables.base import TableError

        if self.fault is not None:
            raise TableError(self.fault.message)


def _faults(chunk: "Chunk", checks: list[Check], keep: Mask, stop: bool) -> list["Fault"]:
    """Return the bad rows of a chunk in order: malformed ones, and those that are not kept."""
    from streamcal.tables.base import Fault

    faults = list(chunk.faults)
    for i in np.flatnonzero(~keep).tolist():
        check = next(check for check in checks if not check.good[i])
        name, (text, _, otherwise) = check.column, check.requirement
        got = chunk.show(name, i)
        cell = got.strip("'\"").lower()
        if check.is_label and cell in _MISSING:
            advice = "; leave the cell of an unknown label empty"
        elif got == "nothing" or cell in _MISSING:
            advice = "; --on-error skip leaves such rows out" if stop else ""
        else:
            advice = _advice(text, cell)
            if not (check.is_label and advice) and _needs_advice(cell, check.is_label):
                advice += otherwise
        message = f"row {chunk.rows[i]}: `{name}` must be {text}, got {got}{advice}"
        faults.append(Fault(int(chunk.rows[i]), f"`{name}` is not {text}", message))
    return sorted(faults, key=lambda fault: fault.row)


def _advice(text: str, cell: str) -> str:
    """Return what to do about a cell that other programs write so; usually nothing.

    Examples
    --------
    >>> _advice("a finite number", "55,1")
    '; decimals need a point'
    """
    if re.fullmatch(r"-?\d+,\d+%?", cell):
        return "; decimals need a point"
    percent = text.startswith("a probability") and re.fullmatch(r"\d{1,2}(\.\d*)?|100(\.0*)?", cell)
    if percent or re.fullmatch(r"\d+(\.\d*)?%", cell):
        return "; divide percentages by 100"
    if text == A_TIME and _is_number(cell):
        return "; divide milliseconds by 1000"
    if cell in ("yes", "no", "y", "n", "t", "f") and not text.startswith("one of"):
        return "; replace words by 1 and 0"
    return ""


def _needs_advice(cell: str, is_label: bool) -> bool:
    """Return whether a cell may be meant otherwise: a number, or a label that is none or above 1.

    Examples
    --------
    >>> _needs_advice("cat", True), _needs_advice("2", True), _needs_advice("-1", True)
    (True, True, False)
    """
    is_number = _is_number(cell)
    return not is_number or float(cell) > 1.0 if is_label else is_number


def _is_number(cell: str) -> bool:
    """Return whether a cell is a finite number, though not one that is allowed there."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def group_rows(rows: Rows, key: str | None) -> "Groups":
    """Return the distinct keys of rows, each with the positions of its rows in order.

    Keys are compared as text (in NDJSON as JSON text, so that 1 and "1" differ). An empty cell is
    a key, too. If there is no column of keys, all rows have the key None.
    """
    import pyarrow as pa

    from streamcal.tables.base import TableError

    if key is None:
        return {None: slice(None)}
    cells = rows.cells(key)
    if isinstance(cells, list):
        cells = pa.array([json.dumps(cell, sort_keys=True) for cell in cells], pa.large_string())
    try:
        encoded = cells.cast(pa.large_string()).dictionary_encode(null_encoding="encode")
    except pa.ArrowException:
        raise TableError(f"column `{key}` can't be a key: its type is {cells.type}") from None
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable").tolist()
    bounds = [0, *np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary))).tolist()]
    names = _listed(encoded.dictionary, key)
    return {
        name: order[start:stop] for name, (start, stop) in zip(names, pairwise(bounds), strict=True)
    }


def plain_values(rows: Rows, column: str) -> list[Any]:
    """Return the values of a column of segments or groups.

    Text, numbers and booleans keep their type: a cell of CSV is text. An empty cell and NaN are
    None. Values of other types, such as dates, become text.
    """
    import pyarrow as pa

    from streamcal.tables.base import TableError

    cells = rows.cells(column)
    if isinstance(cells, list):
        values = [
            json.dumps(cell, sort_keys=True) if isinstance(cell, list | dict) else cell
            for cell in cells
        ]
    else:
        kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
        if not any(is_kind(kind) for is_kind in _plain_kinds()):
            try:
                cells = cells.cast(pa.large_string())
            except pa.ArrowException:
                raise TableError(
                    f"column `{column}` can't be a segment or group: its type is {kind}"
                ) from None
        values = _listed(cells, column)
    return [None if value == "" or value != value else value for value in values]


def _listed(cells: Any, column: str) -> list[Any]:
    """Return the cells of a column; Parquet does not check that text is UTF-8."""
    from streamcal.tables.base import TableError

    try:
        listed: list[Any] = cells.to_pylist()
    except UnicodeDecodeError as error:
        raise TableError(f"column `{column}` must be UTF-8: {error}") from None
    return listed


def _plain_kinds() -> "list[Callable[[Any], bool]]":
    """Return functions that recognise the types of columns whose values are segments as such."""
    from pyarrow import types

    return [
        *(types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        *(types.is_boolean, types.is_integer, types.is_floating),
    ]


def group_names(rows: Rows, column: str | None) -> list[str | None] | None:
    """Return the name of the group of each row, None for an empty cell; None if there are none."""
    if column is None:
        return None
    values = plain_values(rows, column)
    return [None if value is None else json.dumps(value) for value in values]


def name_checksums(names: Sequence[str | None]) -> Vector:
    """Return a checksum of the name of each row."""
    checksums = [-1 if name is None else zlib.crc32(name.encode()) for name in names]
    return np.array(checksums, np.float64)  # else the type would depend on the names


def value_checksums(values: Sequence[Any]) -> Vector:
    """Return a checksum of each value of a field: text, a number or None."""
    checksums = [
        zlib.crc32(repr(value).encode("utf-8", "surrogatepass"))
        if value is None or isinstance(value, str)
        else hash(value)  # equal numbers have the same, in each process
        for value in values
    ]
    return np.array(checksums, np.float64)


def key_checksums(groups: "Groups", n_rows: int) -> Vector:
    """Return a checksum of the key of each row."""
    checksums = np.empty(n_rows)
    for key, at in groups.items():
        checksums[at] = -1.0 if key is None else zlib.crc32(key.encode())
    return checksums
