"""Bundles of rows, which make it fast to pass a stream of rows through Spark.

Spark passes rows with a key and a state to Python one by one, which takes longer than learning
them. So each partition groups its rows by key and makes one *bundle* of the rows of a key, a binary
value in Arrow's stream format. Each bundle has the number of its partition and its own number,
which determine the order of the rows when bundles are joined. Columns keep their types and values,
since they are never converted from Arrow.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

ROWS = 1 << 18  # the greatest number of rows in a bundle, and of a partition in memory
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("number", IntegerType()),
        StructField("rows", BinaryType()),
    ]
)


class Bundler:
    """Makes bundles of rows, each of one value of the column ``key``; of all rows without it."""

    def __init__(self, key: str | None) -> None:
        self.key = key

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield bundles of the rows of a partition, by `SCHEMA`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        for number, table in enumerate(_tables(batches)):
            keys, tables = (pa.nulls(1), [table]) if self.key is None else _split(table, self.key)
            yield pa.RecordBatch.from_pydict(
                {
                    "key": _as_bytes(keys),
                    "partition": np.full(len(tables), context.partitionId(), np.int32),
                    "number": np.full(len(tables), number, np.int32),
                    "rows": pa.array([pack(rows) for rows in tables], pa.binary()),
                }
            )


def _split(table: pa.Table, key: str) -> tuple[pa.Array, list[pa.Table]]:
    """Return the keys of a table, and the rows of each."""
    codes = table[key].combine_chunks().dictionary_encode(null_encoding="encode")
    counts = np.bincount(codes.indices.to_numpy(), minlength=len(codes.dictionary))
    by_key = table.take(np.argsort(codes.indices.to_numpy(), kind="stable"))
    starts = (np.cumsum(counts) - counts).tolist()
    tables = [by_key.slice(*rows) for rows in zip(starts, counts.tolist(), strict=True)]
    return codes.dictionary, tables


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
    """Return keys as the bytes of their text, which Spark's conversion by pandas does not change.

    pandas turns integers into floats if one of them is null, and a null string into NaN.
    """
    raw = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
    return (keys if raw else keys.cast(pa.string())).cast(pa.binary())


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of at least `ROWS` rows, at most a batch more; the last may be smaller."""
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
