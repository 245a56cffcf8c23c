"""Parquet, through pyarrow; schema and metadata are kept."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamcal.tables.base import Chunk, Reader, TableError, Writer, check_names
from streamcal.tables.output import Output


class ParquetReader(Reader):
    """Reads Parquet; the body of a chunk is a record batch of all columns."""

    unit = "rows"

    def _read_header(self) -> None:
        if self._standard:
            raise TableError("Parquet has its index at the end: it can't be read from a pipe")
        if self.size is None:
            raise TableError("is empty: it is not even a Parquet file")
        try:
            self._parquet = pq.ParquetFile(self._file)
        except pa.ArrowException as error:
            raise TableError(f"is not a Parquet file: {_one_line(error)}") from None
        self._schema = self._parquet.schema_arrow
        self.form = self._schema.remove_metadata()
        check_names(self._schema.names, self._columns, self._new_column)
        self._columns += [name for name in self._optional if name in self._schema.names]
        self.size = self._parquet.metadata.num_rows

    def __iter__(self) -> Iterator[Chunk]:
        # Only a writer needs the other columns.
        names = self._columns if self._new_column is None else None
        batches = self._parquet.iter_batches(self._batch_size, columns=names, use_threads=False)
        try:
            for batch in batches:
                rows = np.arange(self.position + 1, self.position + 1 + len(batch))
                yield Chunk(rows, {name: batch.column(name) for name in self._columns}, [], batch)
                self.position += len(batch)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, TimeoutError) and error.errno is None:  # of a signal handler
                raise
            raise TableError(
                f"row {self.position + 1}: the file is damaged here: {_one_line(error)}"
            ) from None

    def writer(self, output: Output, absent: str | None = None) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``.

        The new column has texts if one stands for NaN.
        """
        kind = pa.string() if absent else pa.float64()
        schema = self._schema.append(pa.field(self._new_column, kind))
        return _ParquetWriter(output, schema, absent)


class _ParquetWriter(Writer):
    """Writes a new file from the first row on; one that is written already stays as it is."""

    def __init__(self, output: Output, schema: pa.Schema, absent: str | None) -> None:
        self._output, self._schema, self._absent = output, schema, absent
        self._is_written = output.tell() > 0
        self._writer: pq.ParquetWriter | None = None

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        if not len(values):
            return
        if self._is_written:
            raise TableError(
                "has rows that the finished output lacks: no rows can be added to a Parquet file"
            )
        body = chunk.body if keep is None else chunk.body.filter(pa.array(keep))
        # Not `pa.array`: it imports pandas if that is installed, which takes half a second.
        buffer = pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))
        column = pa.Array.from_buffers(pa.float64(), len(values), [None, buffer])
        if self._absent is not None:
            kind = self._schema.types[-1]
            text = pa.scalar(self._absent or None, kind)
            column = pc.if_else(pc.is_nan(column), text, pc.cast(column, kind))
        batch = pa.RecordBatch.from_arrays([*body.columns, column], schema=self._schema)
        self._begin().write_batch(batch)

    def _begin(self) -> Any:
        """Return pyarrow's writer; the first call writes the beginning of the file."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(pa.PythonFile(self._output, mode="w"), self._schema)
        return self._writer

    def close(self, *, complete: bool = True) -> None:
        """Write the footer, where all rows are described."""
        if self._writer is not None or (complete and not self._is_written):
            self._begin().close()


def _one_line(error: BaseException) -> str:
    """Return the first line of the text of an error."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
