"""CSV: every cell is text, malformed rows are reported one by one, and rows stay as they are.

Cells are separated by commas, or by the semicolons or tabs of the first line. A line ends with LF,
CR or both.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamcal.kernels.csv_rows import START, find_rows, is_quoted, join_rows, take_cells
from streamcal.tables.base import Chunk, Fault, Reader, TableError, Writer, check_names
from streamcal.tables.output import Output

_BOM = b"\xef\xbb\xbf"
_IN_UTF8 = "has no line of column names in UTF-8 (is it compressed, or Latin-1?)"


class _Found(NamedTuple):
    """Rows of a text, each with start, stop and number of cells; what a writer needs of a chunk."""

    text: bytes
    rows: NDArray[np.int64]


class CsvReader(Reader):
    """Reads CSV; the body of a chunk is the text of its rows."""

    def _read_header(self) -> None:
        text, line = self._read_first_line()
        self._separator = _separator_of(line, self._columns)
        rows, self._state = find_rows(text, ord(self._separator), START)
        # After a CR there may be an LF.
        while not len(rows) or text[rows[0, 1] :] == b"\r":
            if not (block := self._read_header_block(len(text))):
                break
            text += block
            rows, self._state = find_rows(text, ord(self._separator), START)
        stop = int(rows[0, 1]) if len(rows) else len(text)
        self._header = text[:stop]
        self._names = self._names_in(self._header)
        ends = (end for end in (b"\r\n", b"\n", b"\r") if text.startswith(end, stop))
        self._line_end = next(ends, b"\n")
        self._first = _Found(text, rows[1:])
        if not len(rows):  # the names have no line end
            self._first, self._state = _Found(b"", rows), START
        self.form = self._names, self._separator
        check_names(self._names, self._columns, self._new_column)
        self._columns += [name for name in self._optional if name in self._names]
        self._place_of = {name: self._names.index(name) for name in self._columns}
        self._places = np.array(sorted(self._place_of.values()), np.int64)

    def _read_first_line(self) -> tuple[bytes, str]:
        """Return text that begins with the first line which is not empty, and this line."""
        text, self._bom = b"", b""
        while block := self._read_header_block(len(text)):
            text += block
            if not self._bom and text.startswith(_BOM):
                text, self._bom = text[len(_BOM) :], _BOM
            line, *after = text.lstrip(b"\r\n").replace(b"\r", b"\n").split(b"\n", 1)
            if line and after:
                break
        text = text.lstrip(b"\r\n")
        if not text:
            raise TableError("is empty: a CSV file begins with a line of column names")
        return text, _as_text(text.replace(b"\r", b"\n").split(b"\n", 1)[0])

    def _read_header_block(self, size: int) -> bytes:
        """Return more of the line of column names, of which ``size`` bytes are read."""
        if size > self._block_bytes:
            raise TableError(f"the line of column names is longer than {self._block_bytes:,} bytes")
        return self._read_block()

    def _names_in(self, header: bytes) -> list[str]:
        """Return the names of the columns."""
        text = io.StringIO(_as_text(header), newline="")
        try:
            return next(csv.reader(text, delimiter=self._separator, strict=True))
        except csv.Error as error:
            raise TableError(f"has no line of column names: {error}") from None

    def __iter__(self) -> Iterator[Chunk]:
        done = 0
        for found in self._found():
            for start in range(0, len(found.rows), self._batch_size):
                rows = found.rows[start : start + self._batch_size]
                yield self._chunk(_Found(found.text, rows), done)
                done += len(rows)

    def _found(self) -> Iterator[_Found]:
        """Yield the rows of each block, in a text that has all of their bytes."""
        (text, rows), done = self._first, 0
        parts: list[bytes] = []  # of a row that has begun
        while True:
            good, fault = self._check(text, rows)
            if len(good):
                yield _Found(text, good)
            done += len(good)
            if not fault and self._state[1] > self._block_bytes:
                fault = self._too_long
            if fault:
                raise TableError(f"row {done + 1} {fault}")
            n_begun = self._state[1]
            parts = [text[len(text) - n_begun :]] if n_begun <= len(text) else [*parts, text]
            text = self._read_block()
            if not text:
                break
            rows, self._state = find_rows(text, ord(self._separator), self._state)
            if len(rows):
                text = b"".join([*parts, text])
                rows[:, :2] += n_begun
        text, n_cells = b"".join(parts), self._state[2] + 1
        rows = np.array([[0, len(text), n_cells]] if text else np.empty((0, 3)), np.int64)
        good, fault = self._check(text, rows)
        if not fault and is_quoted(self._state):
            fault = "has a quote that is never closed"
        if fault:
            raise TableError(f"row {done + 1} {fault}")
        if len(good):
            yield _Found(text, good)

    @property
    def _too_long(self) -> str:
        return f"is longer than {self._block_bytes:,} bytes: is a quote left open?"

    def _check(self, text: bytes, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], str]:
        """Return the rows before the first one that ends the table, and what is wrong with that."""
        fault = ""
        too_long = rows[:, 1] - rows[:, 0] > self._block_bytes
        if too_long.any():
            rows, fault = rows[: int(np.argmax(too_long))], self._too_long
        if len(rows):
            start, stop = int(rows[0, 0]), int(rows[-1, 1])
            part = text[start:stop]
            try:
                _ = part.isascii() or part.decode()
            except UnicodeDecodeError as error:
                good = int(np.searchsorted(rows[:, 1], start + error.start, "right"))
                rows, fault = rows[:good], "is not UTF-8 text"
        return rows, fault

    def _chunk(self, found: _Found, done: int) -> Chunk:
        """Return rows as a chunk that comes after ``done`` rows."""
        text, rows = found
        n = len(self._names)
        is_good = rows[:, 2] == n
        good = rows[is_good]
        taken = take_cells(text, good, ord(self._separator), self._places)
        by_place = {
            place: pa.Array.from_buffers(
                pa.string(), len(good), [None, pa.py_buffer(ends), pa.py_buffer(cells)]
            )
            for place, (cells, ends) in zip(self._places.tolist(), taken, strict=True)
        }
        columns = {name: by_place[place] for name, place in self._place_of.items()}
        numbers = np.arange(done + 1, done + 1 + len(rows))
        bad = zip(numbers[~is_good].tolist(), rows[~is_good, 2].tolist(), strict=True)
        faults = [
            Fault(row, "wrong number of fields", f"row {row} must have {n} fields, got {n_cells}")
            for row, n_cells in bad
        ]
        return Chunk(numbers[is_good], columns, faults, _Found(text, good))

    def writer(self, output: Output, absent: str | None = None) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``."""
        separator = self._separator.encode()
        header = [self._bom, self._header, separator, self._cell(self._new_column).encode()]
        return _CsvWriter(
            output,
            b"".join([*header, self._line_end]),
            separator,
            self._line_end,
            self._cell(absent) if absent else absent,
        )

    def _cell(self, text: str | None) -> str:
        """Return a cell with a text, in quotes if it needs them."""
        cell = io.StringIO()
        csv.writer(cell, delimiter=self._separator, lineterminator="").writerow([text])
        return cell.getvalue()


class _CsvWriter(Writer):
    """Appends a cell to each row, which stays as it is; all lines end as the first does."""

    def __init__(
        self, output: Output, header: bytes, separator: bytes, line_end: bytes, absent: str | None
    ) -> None:
        self._output, self._header, self._absent = output, header, absent
        self._separator, self._line_end = separator, line_end

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        if not len(values):
            return
        self._write_header()
        text, rows = chunk.body
        # Not `pa.array`: it imports pandas if that is installed, which takes half a second.
        buffer = pa.py_buffer(np.ascontiguousarray(values, np.float64))
        numbers = pa.Array.from_buffers(pa.float64(), len(values), [None, buffer])
        texts = pc.cast(numbers, pa.string())
        if self._absent is not None:
            texts = pc.if_else(pc.is_nan(numbers), self._absent, texts)
        _, ends, cells = texts.buffers()
        self._output.write(
            join_rows(
                text,
                rows if keep is None else rows[keep],
                np.frombuffer(cells, np.uint8),
                np.frombuffer(ends, np.int32)[: len(values) + 1],
                self._separator,
                self._line_end,
            )
        )

    def _write_header(self) -> None:
        if not self._output.tell():  # else a run that is continued has written it
            self._output.write(self._header)

    def close(self, *, complete: bool = True) -> None:
        """Write the line of column names if there is no row."""
        if complete:
            self._write_header()


def _as_text(header: bytes) -> str:
    try:
        return header.decode()
    except UnicodeDecodeError as error:
        raise TableError(f"{_IN_UTF8}: {error}") from None


def _separator_of(header: str, columns: Sequence[str]) -> str:
    """Return what separates the cells: a comma, or else the semicolon or tab of the first line."""
    try:
        names = next(csv.reader([header]), [])
    except csv.Error:  # a name of more than 100,000 characters
        return ","
    if len(names) != 1 or names[0] in columns or header.count('"') % 2:
        return ","  # with a quote left open, the names go on in the next line
    return next((mark for mark in ";\t" if mark in names[0]), ",")
