"""Bundles of rows, which make it fast to pass a stream of rows through Spark.

Spark passes rows with a key and a state to Python one by one, which takes longer than learning
them. So each partition groups its rows by key and makes one *bundle* of the rows of a key, a binary
value in Arrow's stream format. Of many or wide rows it makes several, since Spark copies each value
as a whole. Each bundle has the number of its partition and its own number, which determine the
order of the rows when bundles are joined. Columns keep their types and values, since they are never
converted from Arrow.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

ROWS = 1 << 18  # the greatest number of rows of a partition in memory, but for one batch of Spark's
BYTES_IN_MEMORY = 1 << 26  # the same in bytes
# A value that Spark has to hold, and copy, as a whole: the greatest size of a bundle, unless one
# row is larger, and about that of a batch of Arrow.
BYTES = 1 << 22
MARK = b"streamcal: columns"
"""The key of a bundle without rows, which each partition sends first.

Its state has the columns that a checkpoint has learned from. Without it, a query with another key
column would have only new keys, and nobody would notice.
"""

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("partition", IntegerType()),
        StructField("number", IntegerType()),
        StructField("rows", BinaryType()),
    ]
)


class Bundler:
    """Makes bundles of rows, each of one value of the column ``key``; of all rows without it.

    Parameters
    ----------
    names : sequence of str
        The names of the columns in bundles, in place of those that Spark has.
    key : str, optional
    """

    def __init__(self, names: Sequence[str], key: str | None) -> None:
        self.names = list(names)
        self.key = key

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield bundles of the rows of a partition, by `SCHEMA`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        number = 0
        partition = context.partitionId()
        sizes = ((batch, batch.nbytes) for batch in batches)
        for table in _tables(sizes, BYTES_IN_MEMORY):
            if number == 0:
                yield _batch(pa.array([MARK], pa.binary()), partition, number, [None])
            for keys, bundles in _in_batches(*self._group(table.rename_columns(self.names))):
                yield _batch(keys, partition, number, bundles)
                number += len(keys)

    def _group(self, table: pa.Table) -> tuple[pa.Array, list[pa.Table]]:
        """Return the keys of a table as bytes, and the rows of each."""
        if self.key is None:
            return pa.nulls(1, pa.binary()), [table]
        keys, tables = _split(table, self.key)
        return _as_bytes(keys), tables


def _batch(
    keys: pa.Array, partition: int, number: int, bundles: Sequence[bytes | None]
) -> pa.RecordBatch:
    """Return bundles by `SCHEMA`, numbered from ``number`` on."""
    return pa.RecordBatch.from_pydict(
        {
            "key": keys,
            "partition": np.full(len(keys), partition, np.int32),
            "number": np.arange(number, number + len(keys), dtype=np.int32),
            "rows": pa.array(bundles, pa.binary()),
        }
    )


def _in_batches(keys: pa.Array, tables: list[pa.Table]) -> Iterator[tuple[pa.Array, list[bytes]]]:
    """Yield bundles of the tables of keys, in batches of about `BYTES`, each with its key."""
    places: list[int] = []
    bundles: list[bytes] = []
    size = 0
    for place, table in enumerate(tables):
        for bundle in pack_in_parts(table, BYTES):
            places.append(place)
            bundles.append(bundle)
            size += len(bundle)
            if size >= BYTES:
                yield keys.take(pa.array(places)), bundles
                places, bundles, size = [], [], 0
    if bundles:
        yield keys.take(pa.array(places)), bundles


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
    bundles = (bundle.as_buffer() for batch in batches for bundle in batch.column("rows"))
    # What `pack` writes has one batch.
    rows = ((batch, bundle.size) for bundle in bundles for batch in pa.ipc.open_stream(bundle))
    for table in _tables(rows, BYTES):
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


def pack_in_parts(table: pa.Table, n_bytes: int) -> Iterator[bytes]:
    """Yield rows as bundles of at most so many bytes, or of one row."""
    bundle = pack(table)  # `table.nbytes` takes as long
    if len(bundle) <= n_bytes or len(table) <= 1:
        yield bundle
        return
    n_rows = max(1, len(table) * n_bytes // len(bundle))
    for start in range(0, len(table), n_rows):
        yield from pack_in_parts(table.slice(start, n_rows), n_bytes)


def in_order(tables: Sequence[pa.Table], places: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Yield the rows of tables, as if they were one, by their places, in tables of about `BYTES`.

    The tables are not joined: together they may be larger than an array of Arrow can be.

    Examples
    --------
    >>> tables = [pa.table({"a": [0, 1]}), pa.table({"a": [2, 3, 4]})]
    >>> [table["a"].to_pylist() for table in in_order(tables, np.array([4, 0, 2]))]
    [[4, 0, 2]]
    """
    ends = np.cumsum([len(table) for table in tables])
    n_bytes = sum(table.nbytes for table in tables)
    n_rows = max(1, int(ends[-1]) * BYTES // max(n_bytes, 1))
    for start in range(0, len(places), n_rows):
        wanted = places[start : start + n_rows]
        of = np.searchsorted(ends, wanted, side="right")
        by_table = np.argsort(of, kind="stable")
        numbers, starts = np.unique(of[by_table], return_index=True)
        taken = [
            tables[number].take(rows - (ends[number] - len(tables[number])))
            for number, rows in zip(numbers, np.split(wanted[by_table], starts[1:]), strict=True)
        ]
        yield pa.concat_tables(taken).combine_chunks().take(np.argsort(by_table))


def _as_bytes(keys: pa.Array) -> pa.Array:
    """Return keys as the bytes of their text, which Spark's conversion by pandas does not change.

    pandas turns integers into floats if one of them is null, and a null string into NaN.
    """
    raw = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
    return (keys if raw else keys.cast(pa.string())).cast(pa.binary())


def _tables(batches: Iterator[tuple[pa.RecordBatch, int]], n_bytes: int) -> Iterator[pa.Table]:
    """Yield tables of at least `ROWS` rows or so many bytes, at most a batch more.

    Batches come with their bytes. The last table may be smaller.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch, n in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += n
        if rows >= ROWS or size >= n_bytes:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting).combine_chunks()
