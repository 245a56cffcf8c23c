"""Rows in bundles: what makes a stream of single rows quick on its way through Spark.

Spark hands rows that have a key and a state to Python one by one, which would take longer than all
learning. Here each partition parts its rows by key and makes of those of one key one *bundle*, a
binary value in Arrow's stream format; it comes with its partition and number, from which the order
of the rows is known where bundles meet. Columns keep their types and values, since nothing turns
them into anything but Arrow.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

ROWS = 1 << 18  # of a bundle at most; so many rows of a partition are in Python's memory at once
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("number", IntegerType()),
        StructField("rows", BinaryType()),
    ]
)


class Bundler:
    """Makes bundles of rows, each of one value of the column ``key``."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield bundles of the rows of a partition, by `SCHEMA`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        for number, table in enumerate(_tables(batches)):
            codes = table[self.key].combine_chunks().dictionary_encode(null_encoding="encode")
            counts = np.bincount(codes.indices.to_numpy(), minlength=len(codes.dictionary))
            by_key = table.take(np.argsort(codes.indices.to_numpy(), kind="stable"))
            stops = np.cumsum(counts).tolist()
            bundles = [
                pack(by_key.slice(stop - count, count))
                for stop, count in zip(stops, counts.tolist(), strict=True)
            ]
            yield pa.RecordBatch.from_pydict(
                {
                    "key": _as_bytes(codes.dictionary),
                    "partition": np.full(len(bundles), context.partitionId(), np.int32),
                    "number": np.full(len(bundles), number, np.int32),
                    "rows": pa.array(bundles, pa.binary()),
                }
            )


def unbundle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of bundles, which are the column ``rows``."""
    bundles = (bundle for batch in batches for bundle in batch.column("rows"))
    parts = (part for bundle in bundles for part in pa.ipc.open_stream(bundle.as_buffer()))
    for table in _tables(parts):
        yield from table.to_batches()


def pack(table: pa.Table) -> bytes:
    """Return rows as a bundle."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def unpack(bundle: bytes) -> pa.Table:
    """Return the rows of a bundle."""
    return pa.ipc.open_stream(bundle).read_all()


def parts(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in parts of at most `ROWS` rows."""
    for start in range(0, len(table), ROWS):
        yield table.slice(start, ROWS)


def _as_bytes(keys: pa.Array) -> pa.Array:
    """Return keys as the bytes of their text, which pandas, on the way to Python, can't mistake.

    It makes floats of whole numbers where one of them is null, and NaN of a null string.
    """
    raw = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
    return (keys if raw else keys.cast(pa.string())).cast(pa.binary())


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of `ROWS` rows or a batch more, none of them empty."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.num_rows
        if size >= ROWS:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, size = [], 0
    if size:
        yield pa.Table.from_batches(waiting).combine_chunks()
