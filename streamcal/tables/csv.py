"""CSV, through pyarrow: every cell is text, and malformed rows are reported one by one.

Cells are separated by commas, or by the semicolons or tabs of the first line.
"""

import codecs
import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from streamcal.tables.arrow import ArrowWriter, one_line
from streamcal.tables.base import Chunk, Fault, Reader, TableError, Writer, check_names
from streamcal.tables.output import Output

# Malformed rows are held until the next good row; the reader gives up at this many.
_MAX_HELD = 1 << 18


class CsvReader(Reader):
    """Reads CSV; the body of a chunk is a record batch of all columns, as text."""

    def _read_header(self) -> None:
        lines = iter(lambda: self._read_line("the line of column names"), b"")
        texts = (line.decode() for line in lines)
        try:
            first = next(texts, "")
            self._bom = first[: first.startswith("\ufeff")]
            first = first.removeprefix("\ufeff")
            while first and not first.strip("\r\n"):
                first = next(texts, "")
            self._separator = _separator_of(first, self._columns)
            rows = csv.reader(chain([first], texts), delimiter=self._separator, strict=True)
            self._names = next(filter(None, rows), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise TableError(
                f"has no line of column names in UTF-8 (is it compressed, or Latin-1?): {error}"
            ) from None
        if not self._names:
            raise TableError("is empty: a CSV file begins with a line of column names")
        self.form = self._names, self._separator
        check_names(self._names, self._columns, self._new_column)
        # For pyarrow the name of a column is its position.
        self._ids = {name: str(i) for i, name in enumerate(self._names)}
        # A row with a field too many.
        self._sentinel = self._separator * len(self._names)
        self._sentinel_row = -1
        self._n_rows = 0
        self._malformed: list[tuple[int, int]] = []  # number and fields of each row
        self._error = ""
        self._blocks: deque[int] = deque()  # bytes that pyarrow has read, and not yet parsed

    def __iter__(self) -> Iterator[Chunk]:
        done = 0
        for batch in self._batches():
            for start in range(0, len(batch), self._batch_size):
                body = batch.slice(start, self._batch_size)
                bad = [row for row, _ in self._malformed]
                free = np.setdiff1d(np.arange(done + 1, done + 1 + len(body) + len(bad)), bad)
                rows = free[: len(body)]
                done = int(rows[-1])
                columns = {
                    name: pc.fill_null(body.column(self._ids[name]), "") for name in self._columns
                }
                yield Chunk(rows, columns, self._take_faults(done), body)
        if self._malformed:
            columns = dict.fromkeys(self._columns, pa.nulls(0, pa.string()))
            faults = self._take_faults(self._malformed[-1][0])
            yield Chunk(np.empty(0, dtype=np.int64), columns, faults, None)
        if self._error:
            raise TableError(self._error)

    def _take_faults(self, last: int) -> list[Fault]:
        """Remove the malformed rows up to row ``last`` and return them."""
        taken = [entry for entry in self._malformed if entry[0] <= last]
        del self._malformed[: len(taken)]
        must = f"must have {len(self._names)} fields, got"
        return [Fault(row, "wrong number of fields", f"row {row} {must} {n}") for row, n in taken]

    def _batches(self) -> Iterator[Any]:
        """Yield batches of good rows; fill ``_malformed``, and ``_error`` if the file ends early.

        pyarrow accepts a quote that is never closed: the field ends with the file. To detect it, a
        malformed row is appended to the file, the sentinel. If pyarrow does not report it as the
        last row, the quoted field contains it.
        """
        text = _Utf8(self, f"\n{self._sentinel}".encode())
        held = pa.RecordBatch.from_arrays([], names=[])
        try:
            for batch in self._open(text):
                if self._blocks:  # pyarrow reads ahead, and each block is a batch
                    self.position += self._blocks.popleft()
                self._n_rows += len(batch)
                if len(batch):
                    yield held
                    held = batch
        except pa.ArrowInvalid as error:
            self._error = self._explain(error)
        else:
            if self._sentinel_row != self._n_rows:
                reason = text.error or "has a quote that is never closed"
                self._error = f"row {self._n_rows} {reason}"
            if self._malformed and self._malformed[-1][0] == self._n_rows:
                self._malformed.pop()
            else:
                held = held.slice(0, max(len(held) - 1, 0))
        self.position += sum(self._blocks)
        yield held

    def _open(self, text: "_Utf8") -> Any:
        """Return pyarrow's reader: of all columns if they are written again, else of the wanted."""
        ids = list(self._ids.values())
        wanted = (
            ids if self._new_column is not None else [self._ids[name] for name in self._columns]
        )
        return pa_csv.open_csv(
            text,
            pa_csv.ReadOptions(use_threads=False, block_size=self._block_bytes, column_names=ids),
            pa_csv.ParseOptions(
                delimiter=self._separator,
                newlines_in_values=True,
                invalid_row_handler=self._add_malformed,
            ),
            pa_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(ids, pa.string()),
                include_columns=wanted,
                # An empty cell stays empty, "" stays "".
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _add_malformed(self, row: Any) -> str:
        """Note a malformed row; return whether pyarrow continues."""
        self._n_rows += 1
        self._sentinel_row = row.number if row.text == self._sentinel else -1
        self._malformed.append((row.number, row.actual_columns))
        return "skip" if len(self._malformed) < _MAX_HELD else "error"

    def _explain(self, error: Exception) -> str:
        """Return why pyarrow stopped reading."""
        if len(self._malformed) == _MAX_HELD:
            return f"row {self._n_rows} is the last of {_MAX_HELD:,} malformed ones"
        if "straddling" in str(error):
            too_long = f"row {self._n_rows + 1} is longer than {self._block_bytes:,} bytes"
            return f"{too_long}: is a quote left open?"
        return f"after row {self._n_rows}: {one_line(error)}"

    def writer(self, output: Output) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``."""
        if not output.tell():  # else a run that is continued has written the header
            header = io.StringIO()
            csv.writer(header, delimiter=self._separator, lineterminator="\n").writerow(
                [*self._names, self._new_column]
            )
            output.write((self._bom + header.getvalue()).encode())
        fields = [pa.field(name, pa.string()) for name in self._ids.values()]
        schema = pa.schema([*fields, pa.field("new", pa.float64())])
        options = pa_csv.WriteOptions(
            include_header=False, quoting_style="needed", delimiter=self._separator
        )
        return ArrowWriter(pa_csv.CSVWriter(output, schema, write_options=options), schema)


def _separator_of(header: str, columns: Sequence[str]) -> str:
    """Return what separates the cells: a comma, or else the semicolon or tab of the first line."""
    names = next(csv.reader([header]), [])
    if len(names) != 1 or names[0] in columns or header.count('"') % 2:
        return ","  # with a quote left open, the names go on in the next line
    return next((mark for mark in ";\t" if mark in names[0]), ",")


class _Utf8(io.RawIOBase):
    """The rest of a reader's file up to the first byte that is not UTF-8, then an appendix.

    If such a byte is found there is no appendix, and ``error`` names it.
    """

    def __init__(self, reader: CsvReader, appendix: bytes) -> None:
        self._reader = reader
        self._appendix = io.BytesIO(appendix)
        self._rest = b""  # bytes that have been read but not returned
        self.error = ""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes of complete characters, none at the end."""
        data: bytes = self._reader._file.read(size - len(self._rest))
        self._reader._blocks.append(len(data))
        final = not data
        data = self._rest + data
        if self.error:
            return b""
        try:
            _, end = codecs.utf_8_decode(data, "strict", final)
        except UnicodeDecodeError as error:
            self.error = "is not UTF-8 text"
            return data[: error.start] + b"?"  # so that the last row is the one in error
        if final:
            self._rest = b""
            return data + self._appendix.read(size - len(data))
        # Keep CR and LF in one block: pyarrow takes a block of only LF for the end of the file.
        end -= data[:end].endswith(b"\r")
        self._rest = data[end:]
        return data[:end] or self.read(size)
