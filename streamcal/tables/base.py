"""Parts shared by tables of all formats: chunks of rows, readers, writers and errors."""

import io
import math
import os
import select
import stat
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamcal._advice import did_you_mean
from streamcal.tables.output import Output, is_standard, standard_input

_PATIENCE = 0.2
"""After how many seconds without bytes from a pipe `while_waiting` is called."""

Column: TypeAlias = Any
"""A column of a chunk: a pyarrow array (CSV: text; Parquet: its type) or, for NDJSON, a list."""


class TableError(ValueError):
    r"""A table that can't be read; the message has reason and position, in one line.

    Examples
    --------
    >>> import tempfile
    >>> from streamcal.tables.open import open_table
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write(b"p\n0.5\n"), file.flush()
    ...     try:
    ...         open_table(Path(file.name), ["score"])
    ...     except TableError as error:
    ...         print(error)
    has no column `score`; its columns are `p`
    """


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that can't be used: its number (1-based), a short reason and the full message.

    Examples
    --------
    >>> Fault(3, "no number", "row 3: `p` must be a number, got 'x'").row
    3
    """

    row: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive rows of a table.

    Attributes
    ----------
    rows : ndarray of shape (n_rows,)
        The numbers of the rows that could be read. Rows of data count from 1, malformed ones too.
    columns : mapping of str to Column
        The requested columns, each with ``n_rows`` values.
    faults : list of Fault
        The rows that could not be read, in order.
    body : object
        The rows as the writer of this table needs them.

    Examples
    --------
    >>> chunk = Chunk(np.array([1, 3]), {"p": ["0.5", ""]}, [Fault(2, "short", "row 2")], None)
    >>> len(chunk), chunk.show("p", 0), chunk.show("p", 1)
    (2, "'0.5'", 'nothing')
    """

    rows: NDArray[np.int64]
    columns: Mapping[str, Column]
    faults: list[Fault]
    body: Any

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last_row(self) -> int:
        """The number of the last row, readable or not."""
        return int(max([*self.rows[-1:], *(fault.row for fault in self.faults[-1:])]))

    def show(self, column: str, i: int) -> str:
        """Return the value in row ``i`` of ``column`` as text for an error message."""
        value = self.columns[column][i]
        if isinstance(value, pa.Scalar):
            try:
                value = value.as_py()
            except (ValueError, OverflowError):  # an unknown zone, the year 10000
                value = value.value
        text = "nothing" if value is None or value == "" else repr(value)
        return text if len(text) <= 60 else text[:57] + "..."


class Writer(ABC):
    r"""Writes the rows of a table with one more column; a context manager.

    Examples
    --------
    >>> import tempfile
    >>> from streamcal.tables.open import open_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "p.ndjson")
    >>> _ = path.write_text('{"p": 0.5}\n')
    >>> with open_table(path, ["p"], new_column="q") as table:
    ...     with Output(Path(folder.name, "out.ndjson")) as output, table.writer(output) as writer:
    ...         for chunk in table:
    ...             writer.write(chunk, np.array(chunk.columns["p"]) / 2)
    >>> print(Path(folder.name, "out.ndjson").read_text().strip())
    {"p": 0.5, "q": 0.25}
    >>> folder.cleanup()
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.close(complete=kind is None)

    @abstractmethod
    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        """Write the rows that ``keep`` marks (None: all), with ``values`` as the new column.

        What comes before the first row is written with it.
        """

    def close(self, *, complete: bool = True) -> None:  # noqa: B027  (NDJSON has only rows)
        """Write what follows the last row; if the table is ``complete``, also without any row."""


class Reader(ABC):
    r"""A table that is open for reading: iterate over it once, in a ``with`` block.

    Attributes
    ----------
    position, size : int and int or None
        How much has been read, and how much there is (None: unknown), in ``unit``.
    unit : {"bytes", "rows"}
    form : object
        What another table must have to be written by the same writer.
    is_pipe : bool
        Whether its bytes can be read only once. What a pipe has now is read at once: rows need not
        wait for later ones.

    Examples
    --------
    >>> import tempfile
    >>> from streamcal.tables.open import open_table
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "p.csv")
    >>> _ = path.write_text("p\n0.5\n1\n")
    >>> with open_table(path, ["p"]) as reader:
    ...     n_rows = sum(len(chunk) for chunk in reader)
    >>> n_rows, reader.position, reader.size
    (2, 8, 8)
    >>> folder.cleanup()
    """

    unit = "bytes"
    form: Any = None
    # Text is read in blocks of at most this size, and a longer row is refused.
    _block_bytes = 1 << 20

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        new_column: str | None,
        batch_size: int,
        while_waiting: Callable[[], None] | None,
        optional: Sequence[str],
    ) -> None:
        self._columns, self._new_column, self._batch_size = list(columns), new_column, batch_size
        self._optional = optional  # columns that are read, too, if there are any
        self._while_waiting = while_waiting
        self._standard = is_standard(path)
        self._file: Any
        if self._standard:
            self._file = standard_input()
        else:
            self._file = open(path, "rb")  # noqa: SIM115  (stays open)
        self.size: int | None = (
            None if self._standard else os.fstat(self._file.fileno()).st_size or None
        )
        self.is_pipe: bool = _is_pipe(self._file)
        self._has_ended = False
        self.position = 0
        try:
            self._read_header()
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._standard:
            self._file.close()

    @abstractmethod
    def _read_header(self) -> None:
        """Read what comes before the rows and check it."""

    @abstractmethod
    def __iter__(self) -> Iterator[Chunk]:
        """Yield the rows in order."""

    @abstractmethod
    def writer(self, output: Output, absent: str | None = None) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``.

        ``absent`` is written in place of NaN; an empty text makes an empty cell, or null. If it is
        None there must be no NaN.
        """

    def _read_block(self) -> bytes:
        """Return the next bytes, none at the end.

        Of a pipe these are the bytes that it has now, at least one: what comes later may be long in
        coming.
        """
        if not self.is_pipe:
            block: bytes = self._file.read(self._block_bytes)
        else:
            parts, size = [b""], 0
            while not self._has_ended and size < self._block_bytes:
                if not size:
                    self._wait()
                elif not _has_more(self._file, 0.0):
                    break
                # All reads are of this kind, so that nothing is buffered where `wait` can't see it.
                parts.append(self._file.read1(self._block_bytes - size))
                size += len(parts[-1])
                self._has_ended = not parts[-1]  # a terminal would go on
            block = b"".join(parts)
        self.position += len(block)
        return block

    def _wait(self) -> None:
        """Call ``while_waiting`` again and again until a pipe has bytes or has ended."""
        while self._while_waiting is not None and not _has_more(self._file, _PATIENCE):
            self._while_waiting()


def _is_pipe(file: Any) -> bool:
    """Return whether bytes of a file come one after another: not those on a disk or in memory."""
    try:
        return not stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except io.UnsupportedOperation:
        return False


def _has_more(file: Any, seconds: float) -> bool:
    """Return whether a pipe, of which nothing is buffered, has bytes or its end within a time."""
    if not hasattr(select, "poll"):  # Windows can't ask: it waits in the next read
        return seconds > 0.0
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(math.ceil(1000.0 * seconds)))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def check_names(names: Sequence[str], columns: Sequence[str], new_column: str | None) -> None:
    """Raise `TableError` unless the names are unique, with ``columns``, without ``new_column``."""
    known_names = set(names)
    if len(known_names) < len(names):
        repeated = min(name for name, count in Counter(names).items() if count > 1)
        raise TableError(f"has two columns named `{repeated}`")
    for name in columns:
        if name not in known_names:
            listed = ", ".join(f"`{known}`" for known in names[:20])
            listed += ", …" if len(names) > 20 else ""
            hint = did_you_mean(name, names, mark="`")
            if any(map(_is_number, names)):
                hint = "; a table begins with a line of column names"
            raise TableError(f"has no column `{name}`; its columns are {listed}{hint}")
    if new_column in known_names:
        raise TableError(
            f"already has a column `{new_column}`: choose another name with --new-column"
        )
