"""Bundles of rows, which make it fast to pass a stream of rows through Spark.

Spark passes rows with a key and a state to Python one by one, which takes longer than learning
them, and each key costs some calls over a socket. So keys are in a fixed number of *buckets*, by a
hash that is the same in every process. Each partition groups its rows by bucket and makes one
*bundle* of the rows of a bucket, a binary value in Arrow's stream format. Of many or wide rows it
makes several, since Spark copies each value as a whole. Each bundle has the number of its partition
and its own number, which determine the order of the rows when bundles are joined. Columns keep
their types and values, since they are never converted from Arrow.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from streamcal.durable.keys import hash_of

ROWS = 1 << 18  # the greatest number of rows of a partition in memory, but for one batch of Spark's
BYTES_IN_MEMORY = 1 << 26  # the same in bytes
# A value that Spark has to hold, and copy, as a whole: the greatest size of a bundle, unless one
# row is larger, and about that of a batch of Arrow.
BYTES = 1 << 22
MOST_BYTES = (1 << 31) - 1  # of the rows of a bucket in a micro-batch, which a worker has in memory
MARK = -1
"""The bucket of a bundle without rows, which each partition sends first.

Its state has the columns that a checkpoint has learned from. Without it, a query with another key
column would have only new keys, and nobody would notice.
"""

SCHEMA = StructType(
    [
        StructField("bucket", IntegerType()),
        StructField("partition", IntegerType()),
        StructField("number", IntegerType()),
        StructField("rows", BinaryType()),
    ]
)


class Bundler:
    """Makes bundles of rows, each of the keys of one bucket.

    Parameters
    ----------
    names : sequence of str
        The names of the columns in bundles, in place of those that Spark has.
    key : str, optional
        The column of keys; without it all rows are in bucket 0.
    n_buckets : int
        The number of buckets.
    """

    def __init__(self, names: Sequence[str], key: str | None, n_buckets: int) -> None:
        self.names = list(names)
        self.key = key
        self.n_buckets = n_buckets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield bundles of the rows of a partition, by `SCHEMA`."""
        context = TaskContext.get()
        assert context is not None, "Spark calls this in a task"
        number = 0
        partition = context.partitionId()
        sizes = ((batch, batch.nbytes) for batch in batches)
        for table in _tables(sizes, BYTES_IN_MEMORY):
            if number == 0:
                yield _batch([MARK], partition, number, [None])
            for buckets, bundles in _in_batches(*self._group(table.rename_columns(self.names))):
                yield _batch(buckets, partition, number, bundles)
                number += len(buckets)

    def _group(self, table: pa.Table) -> tuple[list[int], list[pa.Table]]:
        """Return the buckets of the keys of a table, and the rows of each."""
        if self.key is None:
            return [0], [table]
        keys = table[self.key].combine_chunks().dictionary_encode(null_encoding="encode")
        of_keys = [bucket_of(key, self.n_buckets) for key in as_bytes(keys.dictionary)]
        of_rows = np.array(of_keys, np.int32)[keys.indices.to_numpy()]
        counts = np.bincount(of_rows, minlength=self.n_buckets)
        buckets = np.flatnonzero(counts)
        if len(buckets) > 1:
            table = table.take(np.argsort(of_rows, kind="stable"))
        starts = np.cumsum(counts) - counts
        return buckets.tolist(), [table.slice(starts[at], counts[at]) for at in buckets]


def bucket_of(key: bytes | None, n_buckets: int) -> int:
    """Return the bucket of a key, from 0 to ``n_buckets - 1``.

    Examples
    --------
    >>> bucket_of(b"shop", 256), bucket_of(b"app", 256), bucket_of(None, 256)
    (6, 38, 145)
    """
    return hash_of_key(key) % n_buckets


def hash_of_key(key: bytes | None) -> int:
    """Return a number of 64 bits; that of null is not that of a string."""
    return hash_of(b"\xff" if key is None else key)


def as_bytes(keys: pa.Array) -> list[bytes | None]:
    """Return keys as the bytes of their text; binary ones as they are."""
    raw = pa.types.is_binary(keys.type) or pa.types.is_large_binary(keys.type)
    texts = (keys if raw else keys.cast(pa.string())).cast(pa.binary())
    found: list[bytes | None] = texts.to_pylist()
    return found


def _batch(
    buckets: list[int], partition: int, number: int, bundles: Sequence[bytes | None]
) -> pa.RecordBatch:
    """Return bundles by `SCHEMA`, numbered from ``number`` on."""
    return pa.RecordBatch.from_pydict(
        {
            "bucket": np.array(buckets, np.int32),
            "partition": np.full(len(buckets), partition, np.int32),
            "number": np.arange(number, number + len(buckets), dtype=np.int32),
            "rows": pa.array(bundles, pa.binary()),
        }
    )


def _in_batches(
    buckets: list[int], tables: list[pa.Table]
) -> Iterator[tuple[list[int], list[bytes]]]:
    """Yield bundles of the tables of buckets, in batches of about `BYTES`, each with its bucket."""
    of_bundles: list[int] = []
    bundles: list[bytes] = []
    size = 0
    for bucket, table in zip(buckets, tables, strict=True):
        for bundle in pack_in_parts(table, BYTES):
            of_bundles.append(bucket)
            bundles.append(bundle)
            size += len(bundle)
            if size >= BYTES:
                yield of_bundles, bundles
                of_bundles, bundles, size = [], [], 0
    if bundles:
        yield of_bundles, bundles


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
