"""The writer and the text of errors that CSV and Parquet share: both go through pyarrow."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamcal.tables.base import Chunk, Writer


class ArrowWriter(Writer):
    """Writes record batches with a writer of pyarrow."""

    def __init__(self, writer: Any, schema: Any) -> None:
        self._writer = writer
        self._schema = schema

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        """Write the rows that ``keep`` marks (None: all), with ``values`` as the new column."""
        if not len(values):
            return
        body = chunk.body if keep is None else chunk.body.filter(pa.array(keep))
        # Not `pa.array`: it imports pandas if that is installed, which takes half a second.
        buffer = pa.py_buffer(np.ascontiguousarray(values, dtype=np.float64))
        column = pa.Array.from_buffers(pa.float64(), len(values), [None, buffer])
        batch = pa.RecordBatch.from_arrays([*body.columns, column], schema=self._schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer of the format."""
        self._writer.close()


def one_line(error: BaseException) -> str:
    """Return the first line of the text of an error."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
