r"""Tables of any length, read and written in chunks: CSV, NDJSON and Parquet.

A `Reader` hands out a `Chunk` of rows at a time; a `Writer` writes its rows again with one column
more. A few chunks are held, whatever the size of the file. pyarrow reads and writes CSV, every cell
as text: the text survives, quotes and line ends become pyarrow's. A line of NDJSON gets a field
more at its end. Parquet keeps its schema and metadata.

>>> import tempfile, pathlib
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name, "scores.csv")
>>> _ = path.write_text("id,p\na,0.50\nb,1\n")
>>> with open_table(path, ["p"], new="q") as table, Output(path.with_name("out.csv")) as output:
...     with table.writer(output) as writer:
...         for chunk in table:
...             values, _ = as_numbers(chunk.columns["p"])
...             writer.write(chunk, values / 2)
>>> print(path.with_name("out.csv").read_text().strip())
id,p,q
"a","0.50",0.25
"b","1",0.5
>>> folder.cleanup()
"""

import codecs
import contextlib
import csv
import errno
import io
import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

FORMATS = ("csv", "ndjson", "parquet")

_ENDINGS = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}
# What is read of a text at a time; a longer row is refused. pyarrow reads 32 ahead.
_BLOCK_BYTES = 1 << 20
# Malformed rows wait for the next good one; this many are too many.
_MOST_WAITING = 1 << 18

Column: TypeAlias = Any
"""A column of a chunk: a pyarrow array (CSV: text; Parquet: its type) or, of NDJSON, a list."""


class TableError(ValueError):
    """What is wrong with a table, and where, in one line."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that can't be used: its number (1-based), why in a few words, and a whole message."""

    row: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive rows of a table.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        Numbers of the rows that could be read, 1-based, counted over the data rows of the table.
    columns : mapping of str to Column
        The wanted columns, each with ``n_rows`` values.
    faults : list of Fault
        The rows that could not, in order.
    body : object
        What the table's own writer needs.
    """

    rows: NDArray[np.int64]
    columns: Mapping[str, Column]
    faults: list[Fault]
    body: Any

    def __len__(self) -> int:
        return len(self.rows)

    def show(self, column: str, i: int) -> str:
        """Return the value of row ``i`` in ``column`` for a message."""
        value = self.columns[column][i]
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        text = "nothing" if value is None or value == "" else repr(value)
        return text if len(text) <= 60 else text[:57] + "..."


def as_numbers(
    column: Column, *, booleans: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column of a chunk, and where it is empty.

    Text is read as Python reads a float, blanks around it ignored; empty text and null are empty.
    With ``booleans``, true and false (in any case, as text or as the type) are 1 and 0.

    Returns
    -------
    values : ndarray of shape (n_rows,)
        NaN where there is no number.
    empty : ndarray of shape (n_rows,)
        Where nothing stands at all.

    Raises
    ------
    TableError
        If the column's type has no numbers in it.

    Examples
    --------
    >>> as_numbers(["0.5", "", "x", True], booleans=True)
    (array([0.5, nan, nan, 1. ]), array([False,  True, False, False]))
    """
    if isinstance(column, list):
        return _parse(column, booleans)
    if pa.types.is_boolean(column.type) and not booleans:
        raise TableError("must hold numbers, not booleans")
    # Through `np.from_dlpack`: `to_numpy` imports pandas where it is installed, for half a second.
    try:
        numbers = pc.cast(column, pa.float64())
    except pa.ArrowNotImplementedError:
        raise TableError(f"must hold numbers, not {column.type}") from None
    except pa.ArrowInvalid:
        # Not plain numbers throughout: each distinct text is parsed once.
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        values, empty = _parse([*column.dictionary.to_pylist(), None], booleans)
        index = np.from_dlpack(pc.fill_null(column.indices, len(values) - 1))
        return values[index], empty[index]
    empty = np.from_dlpack(pc.is_null(numbers).cast(pa.uint8())).astype(np.bool_)
    return np.array(np.from_dlpack(pc.fill_null(numbers, math.nan))), empty


def _parse(values: Sequence[Any], booleans: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return what `as_numbers` does, one Python value at a time unless all are plain numbers."""
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


def format_of(*paths: Path | None, given: str | None = None) -> str:
    """Return the format of a table: as ``given``, else by the ending of a name, else CSV.

    Names that end in anything else have no say, nor have ``-`` and None.

    Raises
    ------
    ValueError
        If no format can be found for a name, or two are found.

    Examples
    --------
    >>> format_of(Path("-"), Path("scores.jsonl"))
    'ndjson'
    """
    if given is not None and given not in FORMATS:
        raise ValueError(f"the format must be one of {', '.join(FORMATS)}, got {given!r}")
    found = given
    named = [path for path in paths if path is not None and not is_standard(path)]
    for path in named:
        by_ending = _ENDINGS.get(path.suffix.lower())
        if by_ending and found and by_ending != found:
            raise ValueError(
                f"{path} is {by_ending} by its name, but {found} is wanted: the format stays the"
                " same from input to output"
            )
        found = found or by_ending
    if found is None and named:
        raise ValueError(
            f"{named[0]} does not end in {', '.join(_ENDINGS)}: say which format it has"
        )
    return found or "csv"


def is_standard(path: Path | None) -> bool:
    """Return whether a path stands for standard input or output."""
    return path is not None and str(path) == "-"


def open_table(
    path: Path,
    columns: Sequence[str],
    *,
    new: str | None = None,
    format: str | None = None,
    batch_rows: int = 65_536,
) -> "Reader":
    """Open a table for reading; a context manager and an iterable of `Chunk`.

    Parameters
    ----------
    path : Path
        A file, or ``-`` for standard input.
    columns : sequence of str
        The columns to hand out. They must exist; in NDJSON at least one object must have each.
    new : str or None
        The name of the column that a writer will add. It must not exist.
    format : {"csv", "ndjson", "parquet"} or None
        None: by the ending of the name, and CSV for standard input.
    batch_rows : int
        The most rows in a chunk.

    Raises
    ------
    TableError
        If the table is empty, lacks a column, has ``new`` or two columns of one name, or is not of
        that format; here, or from the iteration that comes upon it.
    OSError
        If the file can't be read.
    """
    readers: dict[str, type[Reader]]
    readers = {"csv": _CsvReader, "ndjson": _NdjsonReader, "parquet": _ParquetReader}
    reader = readers[format_of(path, given=format)]
    return reader(path, list(dict.fromkeys(columns)), new, batch_rows)


class Writer(ABC):
    """Writes rows of a table with a column more; a context manager around the writing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        """Write the rows that ``keep`` marks (None: all), each with its one of the ``values``."""

    def close(self) -> None:  # noqa: B027  (not every format has an end of its own)
        """Write what stands at the end of the format."""


class Reader(ABC):
    """A table being read: iterate over it once, in a ``with`` block.

    Attributes
    ----------
    position, size : int and int or None
        How much has been read and how much there is, in ``unit``; None: not known.
    unit : {"bytes", "rows"}
    """

    unit = "bytes"

    def __init__(
        self, path: Path, columns: Sequence[str], new: str | None, batch_rows: int
    ) -> None:
        self._columns, self._new, self._batch_rows = columns, new, batch_rows
        self._standard = is_standard(path)
        self._file: Any
        if self._standard:
            self._file = _standard(sys.stdin, "standard input")
        else:
            self._file = open(path, "rb")  # noqa: SIM115
        self.size = None if self._standard else os.fstat(self._file.fileno()).st_size or None
        self.position = 0
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._standard:
            self._file.close()

    @abstractmethod
    def _begin(self) -> None:
        """Read what comes before the rows, and check it."""

    @abstractmethod
    def __iter__(self) -> Iterator[Chunk]:
        """Hand out the rows in order."""

    @abstractmethod
    def writer(self, output: "Output") -> Writer:
        """Return what writes rows of this table, with the new column, to ``output``."""

    def _line(self, what: str) -> bytes:
        """Read a line; empty at the end of the file."""
        line: bytes = self._file.readline(_BLOCK_BYTES + 1)
        if len(line) > _BLOCK_BYTES:
            raise TableError(f"{what} is longer than {_BLOCK_BYTES:,} bytes")
        self.position += len(line)
        return line


class Output:
    """A file that bears its name only when it is whole.

    Inside the ``with`` block what is written goes to ``NAME.partial``; after it that file is
    renamed to ``NAME``, and both are on the disk. Leaving the block by an exception leaves
    ``NAME.partial``, which ends with the last write that succeeded, and an older ``NAME`` as it
    was. A ``NAME.partial`` that is there before may be of another run, and stays: then the file is
    called ``NAME.partial2``, or by the next number that is free. Standard output (``-``), pipes and
    devices are written to directly: there is no name to withhold.

    Parameters
    ----------
    path : Path
        The name. A link stays: its target is replaced, or made.

    Attributes
    ----------
    partial : Path or None
        The name until then, which is certain inside the block; None where it is written to
        directly.
    begun : bool
        Whether it is open or broken off: there is an output, and it is not whole.

    Raises
    ------
    OSError
        If the name is a link that leads nowhere but to itself, or can't be looked at.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial: Path | None = None
        self.begun = False
        self._file: BinaryIO
        self._good = 0
        if not is_standard(path) and (path.is_file() or not path.exists()):
            self._target = Path(os.path.realpath(path)) if path.is_symlink() else path
            if self._target.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            self.partial = self._target.with_name(self._target.name + ".partial")

    def __enter__(self) -> Self:
        if is_standard(self.path):
            self._file = standard_output()
        elif self.partial is None:
            self._file = open(self.path, "wb", buffering=0)
        else:
            first = self.partial
            for number in count(2):
                with contextlib.suppress(FileExistsError):
                    self._file = self._create(self.partial)
                    break
                self.partial = first.with_name(f"{first.name}{number}")
        self.begun = True
        return self

    def _create(self, partial: Path) -> BinaryIO:
        """Make a new file, whose name is on the disk."""
        file = open(partial, "xb", buffering=0)  # noqa: SIM115
        sync_folder(partial.parent)
        return file

    def sync(self) -> None:
        """Wait until what has been written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def write(self, data: Any) -> int:
        """Write all of ``data``, bytes or an array of them."""
        rest = memoryview(data)
        size = rest.nbytes
        while rest.nbytes:
            rest = rest[self._file.write(rest) :]
        self._good += size
        return size

    def flush(self) -> None:
        """Pass on to the system what has been written."""
        self._file.flush()

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self._good

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file.closed

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if is_standard(self.path):
            if kind is not BrokenPipeError:
                self._file.flush()
            self.begun = error is not None
            return
        with self._file as file:
            if self.partial is not None and error is None:
                os.fsync(file.fileno())
            elif self.partial is not None:
                # A full disk may have taken half of the last write.
                file.truncate(self._good)
        if self.partial is not None and error is None:
            self._name(self.partial)
        self.begun = error is not None

    def _name(self, partial: Path) -> None:
        """Give the whole file its name, which is on the disk then."""
        partial.replace(self._target)
        sync_folder(self._target.parent)


def standard_output() -> BinaryIO:
    """Return standard output, to write bytes to.

    Raises
    ------
    OSError
        If the process was started with it closed.
    """
    return _standard(sys.stdout, "standard output")


def _standard(stream: TextIO | None, name: str) -> BinaryIO:
    if stream is None:
        raise OSError(errno.EBADF, "it is closed", name)
    return stream.buffer


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":
        return  # there is no such thing
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


class _CsvReader(Reader):
    def _begin(self) -> None:
        lines = iter(lambda: self._line("the line of column names"), b"")
        texts = (line.decode() for line in lines)
        try:
            first = next(texts, "")
            self._mark = first[: first.startswith("\ufeff")]
            rows = csv.reader(chain([first.removeprefix("\ufeff")], texts), strict=True)
            self._names = next(filter(None, rows), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise TableError(
                f"has no line of column names in UTF-8 (is it compressed?): {error}"
            ) from None
        if not self._names:
            raise TableError("is empty: a CSV file begins with a line of column names")
        _check_names(self._names, self._columns, self._new)
        # pyarrow knows the columns by their places.
        self._ids = {name: str(i) for i, name in enumerate(self._names)}
        self._waiting: list[tuple[int, int]] = []
        self._error = ""

    def __iter__(self) -> Iterator[Chunk]:
        done = 0
        for batch in self._batches():
            for start in range(0, len(batch), self._batch_rows):
                body = batch.slice(start, self._batch_rows)
                bad = [row for row, _ in self._waiting]
                free = np.setdiff1d(np.arange(done + 1, done + 1 + len(body) + len(bad)), bad)
                rows = free[: len(body)]
                done = int(rows[-1])
                columns = {
                    name: pc.fill_null(body.column(self._ids[name]), "") for name in self._columns
                }
                yield Chunk(rows, columns, self._faults(done), body)
        if self._waiting:
            columns = dict.fromkeys(self._columns, pa.nulls(0, pa.string()))
            faults = self._faults(self._waiting[-1][0])
            yield Chunk(np.empty(0, dtype=np.int64), columns, faults, None)
        if self._error:
            raise TableError(self._error)

    def _faults(self, last: int) -> list[Fault]:
        """Hand over the malformed rows up to row ``last``."""
        told = [fault for fault in self._waiting if fault[0] <= last]
        del self._waiting[: len(told)]
        must = f"must have {len(self._names)} fields, got"
        return [Fault(row, "wrong number of fields", f"row {row} {must} {n}") for row, n in told]

    def _batches(self) -> Iterator[Any]:
        """Yield the good rows; ``_waiting`` gets the malformed ones, ``_error`` why it broke off.

        To pyarrow a quote left open ends with the file. So a malformed row is read at the end: if
        it does not come out, the row before has swallowed it.
        """
        sentinel = "," * len(self._names)
        n_rows, last = 0, -1

        def note(row: Any) -> str:
            nonlocal n_rows, last
            n_rows += 1
            last = row.number if row.text == sentinel else -1
            self._waiting.append((row.number, row.actual_columns))
            return "skip" if len(self._waiting) < _MOST_WAITING else "error"

        ids = list(self._ids.values())
        wanted = ids if self._new is not None else [self._ids[name] for name in self._columns]
        held = pa.RecordBatch.from_arrays([], names=[])
        text = _Utf8(self, f"\n{sentinel}".encode())
        try:
            for batch in pa_csv.open_csv(
                text,
                pa_csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES, column_names=ids),
                pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
                pa_csv.ConvertOptions(
                    check_utf8=False,
                    column_types=dict.fromkeys(ids, pa.string()),
                    include_columns=wanted,
                    # Nothing is written as nothing, "" as "".
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            ):
                n_rows += len(batch)
                if len(batch):
                    yield held
                    held = batch
        except pa.ArrowInvalid as error:
            if len(self._waiting) == _MOST_WAITING:
                self._error = f"row {n_rows} is the last of {_MOST_WAITING:,} malformed ones"
            elif "straddling" in str(error):
                too_long = f"row {n_rows + 1} is longer than {_BLOCK_BYTES:,} bytes"
                self._error = f"{too_long}: is a quote left open?"
            else:
                self._error = f"after row {n_rows}: {_one_line(error)}"
        else:
            if last != n_rows:
                what = text.error or "has a quote that is never closed"
                self._error = f"row {n_rows} {what}"
            if self._waiting and self._waiting[-1][0] == n_rows:
                self._waiting.pop()
            else:
                held = held.slice(0, max(len(held) - 1, 0))
        yield held

    def writer(self, output: Output) -> Writer:
        if not output.tell():  # else there is one from before
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow([*self._names, self._new])
            output.write((self._mark + header.getvalue()).encode())
        fields = [pa.field(name, pa.string()) for name in self._ids.values()]
        schema = pa.schema([*fields, pa.field("new", pa.float64())])
        options = pa_csv.WriteOptions(include_header=False, quoting_style="needed")
        return _ArrowWriter(pa_csv.CSVWriter(output, schema, write_options=options), schema)


class _Utf8(io.RawIOBase):
    """What is left of the file of a reader, as far as it is UTF-8; if all is, an appendix."""

    def __init__(self, reader: Reader, appendix: bytes) -> None:
        self._reader = reader
        self._appendix = io.BytesIO(appendix)
        self._rest = b""
        self.error = ""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, whole characters; nothing at the end."""
        data: bytes = self._reader._file.read(size - len(self._rest))
        self._reader.position += len(data)
        final = not data
        data = self._rest + data
        if self.error:
            return b""
        try:
            _, end = codecs.utf_8_decode(data, "strict", final)
        except UnicodeDecodeError as error:
            self.error = "is not UTF-8 text"
            return data[: error.start] + b"?"  # so that the last row is the one
        if final:
            self._rest = b""
            return data + self._appendix.read(size - len(data))
        # A block that is the LF of a CR in the block before would be the end to pyarrow.
        end -= data[:end].endswith(b"\r")
        self._rest = data[end:]
        return data[:end] or self.read(size)


def _check_names(names: Sequence[str], columns: Sequence[str], new: str | None) -> None:
    """Raise `TableError` unless the names are unique, hold ``columns`` and leave ``new`` free."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"has two columns named `{twice[0]}`")
    for name in columns:
        if name not in names:
            listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise TableError(f"has no column `{name}`; its columns are {listed}")
    if new in names:
        raise TableError(f"already has a column `{new}`: choose another name for the new one")


class _NdjsonReader(Reader):
    def _begin(self) -> None:
        self._first = self._line("the first line").removeprefix(b"\xef\xbb\xbf")

    def __iter__(self) -> Iterator[Chunk]:
        line, row, unseen = self._first, 0, set(self._columns)
        while line:
            rows: list[int] = []
            columns: dict[str, list[Any]] = {name: [] for name in self._columns}
            faults: list[Fault] = []
            heads: list[bytes] = []
            stop = self.position + _BLOCK_BYTES
            while line and len(rows) + len(faults) < self._batch_rows and self.position < stop:
                content = line.strip()
                if content:
                    row += 1
                    record = _load(content)
                    if isinstance(record, str):
                        faults.append(Fault(row, "not a JSON object", f"row {row} {record}"))
                    elif self._new in record:
                        raise TableError(
                            f"row {row} already has a field `{self._new}`:"
                            " choose another name for the new one"
                        )
                    else:
                        unseen.difference_update(record)
                        for name, values in columns.items():
                            values.append(record.get(name))
                        rows.append(row)
                        heads.append(content[:-1] + (b", " if record else b""))
                line = self._line(f"row {row + 1}")
            if rows or faults:
                yield Chunk(np.array(rows, dtype=np.int64), columns, faults, heads)
        if not row:
            raise TableError("is empty: there is no object in it")
        if unseen:
            missing = next(name for name in self._columns if name in unseen)
            raise TableError(f"has no field `{missing}` in any of its objects")

    def writer(self, output: Output) -> Writer:
        return _NdjsonWriter(self._new, output)


def _load(text: bytes) -> dict[str, Any] | str:
    """Return the object of one line, or what is wrong with the line."""
    try:
        record = json.loads(text.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {error}"
    return record if isinstance(record, dict) else "is not a JSON object"


class _NdjsonWriter(Writer):
    """Puts a field before the brace that ends each line, and leaves the line as it is."""

    def __init__(self, new: str | None, output: Output) -> None:
        self._field = f"{json.dumps(new)}: "
        self._output = output

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        heads = chunk.body if keep is None else compress(chunk.body, keep)
        tails = (f"{self._field}{value!r}}}\n".encode() for value in values.tolist())
        self._output.write(b"".join(chain.from_iterable(zip(heads, tails, strict=True))))


class _ParquetReader(Reader):
    unit = "rows"

    def _begin(self) -> None:
        if self._standard:
            raise TableError("Parquet has its index at the end: it can't be read from a pipe")
        if self.size is None:
            raise TableError("is empty: it is not even a Parquet file")
        try:
            self._parquet = pq.ParquetFile(self._file)
        except pa.ArrowException as error:
            raise TableError(f"is not a Parquet file: {_one_line(error)}") from None
        self._schema = self._parquet.schema_arrow
        _check_names(self._schema.names, self._columns, self._new)
        self.size = self._parquet.metadata.num_rows

    def __iter__(self) -> Iterator[Chunk]:
        # A writer needs all the columns, anyone else only those that were asked for.
        names = self._columns if self._new is None else None
        batches = self._parquet.iter_batches(self._batch_rows, columns=names, use_threads=False)
        try:
            for batch in batches:
                rows = np.arange(self.position + 1, self.position + 1 + len(batch))
                yield Chunk(rows, {name: batch.column(name) for name in self._columns}, [], batch)
                self.position += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise TableError(
                f"row {self.position + 1}: the file is damaged here: {_one_line(error)}"
            ) from None

    def writer(self, output: Output) -> Writer:
        schema = self._schema.append(pa.field(self._new, pa.float64()))
        return _ArrowWriter(pq.ParquetWriter(pa.PythonFile(output, mode="w"), schema), schema)


class _ArrowWriter(Writer):
    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        if not len(values):
            return
        body = chunk.body if keep is None else chunk.body.filter(pa.array(keep))
        # `pa.array` imports pandas where it is installed, for half a second.
        buffer = pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))
        column = pa.Array.from_buffers(pa.float64(), len(values), [None, buffer])
        batch = pa.RecordBatch.from_arrays([*body.columns, column], schema=self._schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


def _one_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
