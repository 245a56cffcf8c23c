"""Parquet, through pyarrow; schema and metadata are kept."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from streamcal.tables.arrow import ArrowWriter, one_line
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
            raise TableError(f"is not a Parquet file: {one_line(error)}") from None
        self._schema = self._parquet.schema_arrow
        self.form = self._schema.remove_metadata()
        check_names(self._schema.names, self._columns, self._new_column)
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
                f"row {self.position + 1}: the file is damaged here: {one_line(error)}"
            ) from None

    def writer(self, output: Output) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``."""
        schema = self._schema.append(pa.field(self._new_column, pa.float64()))
        return _ParquetWriter(output, schema)


class _ParquetWriter(ArrowWriter):
    """Writes a new file; one that is written already stays as it is."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        self._is_written = output.tell() > 0
        writer = None
        if not self._is_written:
            writer = pq.ParquetWriter(pa.PythonFile(output, mode="w"), schema)
        super().__init__(writer, schema)

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        if self._is_written and len(values):
            raise TableError(
                "has rows that the finished output lacks: no rows can be added to a Parquet file"
            )
        super().write(chunk, values, keep)

    def close(self) -> None:
        if not self._is_written:
            super().close()
