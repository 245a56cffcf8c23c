"""One calibrator per key on a stream of Spark Structured Streaming.

Spark's `transformWithState` stores values for each bucket of keys, here calibrators as bytes, and
commits them with the offsets of the micro-batch. So each row is learned exactly once if processes
die. A micro-batch takes three steps:

1. Each partition makes bundles of its rows, one for each bucket: `streamcal.spark.bundles`.
2. A worker joins the bundles of a bucket, in order, to samples of its keys
   (`streamcal.spark.samples`). The calibrators of these keys are read from the bucket's pages
   (`streamcal.spark.pages`), predict and learn the samples, and are written to the pages.
3. The bundles, which now have calibrated values, are split into rows again.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streamcal._state import Stateful
from streamcal._validation import check_count
from streamcal.calibration.base import Calibrator, is_calibrator, show_calibrator
from streamcal.spark import bundles, pages
from streamcal.spark.columns import (
    check_column,
    check_fields,
    check_frame,
    check_samples,
    is_number,
)
from streamcal.spark.samples import Columns, Samples

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_KEYS = "must be a column of strings, whole numbers, decimals, booleans, dates or binary"
_ORDERS = "must be a column of numbers, strings, dates or times"
_TIMES = "must be a column of times, dates or numbers of seconds"

N_BUCKETS = 64  # each costs some milliseconds in a micro-batch in which it has rows
MOST_BUCKETS = 1 << 20

_COLUMNS = StructType([StructField("columns", StringType())])


def calibrate(
    df: DataFrame,
    *,
    key: str | None = None,
    score: str,
    label: str,
    calibrator: Calibrator | Callable[[], Calibrator],
    weight: str | None = None,
    order: str | None = None,
    time: str | None = None,
    new_column: str = "calibrated",
    n_buckets: int = N_BUCKETS,
) -> DataFrame:
    """Return a stream with one more column: the score of each row, calibrated from earlier rows.

    Every key has a calibrator, made when the key first occurs. It predicts each row and then learns
    its label, in order, as ``predict_learn_many`` in one process.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A streaming frame. Its session must keep state in RocksDB, see Notes.
    key : str, optional
        The column of keys: strings, integers, decimals, booleans, dates or binary. Null is a key
        too. Without it, one calibrator learns all rows, in one task.
    score : str
        The column of scores, numbers.
    label : str
        The column of labels, numbers in the range of the calibrator's loss, or booleans.
    calibrator : Calibrator or callable
        A calibrator, of which each key gets a clone without state, or a function without arguments
        that returns a new one. Calibrators must have ``to_bytes``, which excludes losses of the
        user. A function is sent to the workers by value, a class of an installed module by name.
        The ``fields`` of a `SegmentCalibrator` are columns of strings, integers, floats or
        booleans; nulls are a segment too.
    weight : str, optional
        The column of weights, numbers from 1e-60 to 1e60; all 1 by default.
    order : str, optional
        The column that sorts the rows of a micro-batch, such as the time of the event; nulls are
        last. Rows with equal values, and all rows by default, have the order of their partitions,
        and within a partition that of the source.
    time : str, optional
        The column with the time at which each row is learned, if calibrators forget by time: a
        timestamp, a date, or a number of seconds. Each row with a label must have one. It does not
        sort the rows: see ``order``, which may be the same column.
    new_column : str
        The name of the new column, of doubles.
    n_buckets : int
        The number of buckets that keys are distributed over by a hash, from 1 to 2²⁰; a worker
        learns the rows of a bucket at once. The first run of a checkpoint fixes it. The default is
        right for up to some 10⁷ keys; take at least four times the number of cores.

    Returns
    -------
    calibrated : pyspark.sql.DataFrame
        A streaming frame with the columns of ``df`` and ``new_column``. The rows of a key have the
        order in which they were learned. Its query must be in append mode.

    Raises
    ------
    TypeError
        If ``df`` is not a data frame, the type of a column is not supported, or ``calibrator`` is
        neither a calibrator nor a function that makes one, or the calibrator has no ``to_bytes``.
    ValueError
        If ``df`` is not a stream, a column is missing, calibrators forget by time and there is no
        ``time`` or the other way round, ``new_column`` exists already, ``n_buckets`` is out of
        range, or the session does not keep its state in RocksDB.

    Notes
    -----
    Before the query starts, once a session:

    ``spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")``

    A row whose label or weight is null or NaN gets a value and is not learned; a row whose score is
    null or NaN gets null. Invalid values end the query, with the key and the value in the message:
    an infinite score, a label outside the range of the loss, a weight not from 1e-60 to 1e60; so
    does a time that is needed and missing.
    Nothing of that micro-batch is committed; filter out such rows before.

    A key keeps the parameters of its calibrator: after a restart another ``calibrator`` applies
    only to new keys. If ``key``, ``score`` or ``label`` are other columns than those that a
    checkpoint has learned from, or ``n_buckets`` is another number, its query ends with an error at
    the first rows. Without a key all rows are one bucket. The order of micro-batches is that of the
    source; if a key is read from several partitions at once, ``order`` sorts only within a
    micro-batch.
    """
    _check_stream(df)
    schema = df.schema
    if key is not None:
        check_column(schema, "key", key, _is_key, _KEYS)
    check_samples(schema, score, label, weight)
    if order is not None:
        check_column(schema, "order", order, _is_order, _ORDERS)
    if time is not None:
        check_column(schema, "time", time, _is_time, _TIMES)
    _check_new_column(schema, new_column)
    check_count(n_buckets, "n_buckets", most=MOST_BUCKETS)
    make = _maker(calibrator)
    fresh = make()
    check_fields(schema, fresh.fields)
    if fresh.needs_time != (time is not None):
        needed = "be the column of times" if time is None else "be None"
        how = "time" if time is None else "count"
        raise ValueError(f"`time` must {needed}, as calibrators forget by {how}, got {time!r}")
    # Spark takes a dot in the name of a column for a field of a struct.
    plain = df.toDF(*(f"c{number}" for number in range(len(schema.names))))
    bundled = plain.mapInArrow(bundles.Bundler(schema.names, key, n_buckets), bundles.SCHEMA)
    columns = Columns(key, score, label, weight, order, time)
    learned = bundled.groupBy("bucket").transformWithState(
        _Learner(make, columns, new_column, n_buckets),
        outputStructType=StructType([bundles.SCHEMA["rows"]]),
        outputMode="Append",
        timeMode="None",
    )
    return learned.mapInArrow(
        bundles.unbundle, StructType([*schema.fields, StructField(new_column, DoubleType())])
    )


def _check_stream(df: Any) -> None:
    """Raise unless this is a stream whose session keeps state in RocksDB."""
    check_frame(df, "df")
    if not df.isStreaming:
        raise ValueError(
            "`df` must be a stream (of spark.readStream), got a batch frame;"
            " `streamcal.spark.isotonic_fit` is for these"
        )
    provider = df.sparkSession.conf.get(_PROVIDER)
    if provider != _ROCKSDB:
        raise ValueError(
            f'`df` must be of a session with spark.conf.set("{_PROVIDER}", "{_ROCKSDB}"),'
            f" got {provider}"
        )


def _check_new_column(schema: StructType, new_column: Any) -> None:
    if not isinstance(new_column, str) or not new_column:
        raise TypeError(f"`new_column` must be the name of a column, got {new_column!r}")
    if new_column in schema.names:
        raise ValueError(f"`new_column` must be a new column, got {new_column!r}, which exists")


def _is_key(kind: DataType) -> bool:
    """Return whether equal keys have equal bytes, unlike floats and collated strings."""
    exact = IntegralType, DecimalType, BooleanType, DateType, BinaryType
    return isinstance(kind, exact) or kind == StringType()


def _is_order(kind: DataType) -> bool:
    return _is_time(kind) or kind == StringType()


def _is_time(kind: DataType) -> bool:
    return is_number(kind) or isinstance(kind, DateType | TimestampType | TimestampNTZType)


def _maker(calibrator: Any) -> Callable[[], Calibrator]:
    """Return a function that makes calibrators; raise unless they can be stored as bytes."""
    maker = calibrator.clone().clone if is_calibrator(calibrator) else calibrator
    if not callable(maker):
        raise TypeError(
            "`calibrator` must be a Calibrator or a function that makes one, got"
            f" {show_calibrator(calibrator)}"
        )
    first = maker()
    if not is_calibrator(first):
        raise TypeError(
            f"`calibrator` must be a Calibrator or make one, got {type(first).__name__}"
        )
    if first.needs_propensity:
        raise TypeError(f"`calibrator` must need no propensity, got {show_calibrator(first)}")
    try:
        _read(first.to_bytes())
    except (TypeError, ValueError) as error:  # such as a loss of the user
        raise TypeError(f"`calibrator` must make calibrators with `to_bytes`: {error}") from error
    return maker


def _read(state: bytes) -> Calibrator:
    """Return the calibrator that was stored."""
    calibrator = Stateful.from_bytes(state)
    if not is_calibrator(calibrator):
        raise ValueError(f"the state must be of a calibrator, got a {type(calibrator).__name__}")
    return calibrator


def _listed(columns: dict[str, str | None]) -> str:
    return ", ".join(map(repr, columns.values()))


class _Learner(StatefulProcessor):
    """Step 2: predict and learn the bundles of one bucket."""

    def __init__(
        self, make: Callable[[], Calibrator], columns: Columns, new_column: str, n_buckets: int
    ) -> None:
        self.make = make
        self.columns = columns
        self.new_column = new_column
        self.n_buckets = n_buckets

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the states: those of each bucket, and that of `bundles.MARK`."""
        self.kept = handle.getValueState("columns", _COLUMNS)
        self.starts = handle.getValueState("starts", pages.STARTS)
        self.pages = handle.getMapState("calibrators", pages.START, pages.CALIBRATORS)
        self.fresh = self.make()

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Predict and learn the rows of one bucket in a micro-batch."""
        (bucket,) = key
        if bucket == bundles.MARK:
            for _ in rows:  # one of each partition
                pass
            self._check_columns()
            return
        found = self._limited(bucket, rows)
        found.sort(key=lambda bundle: (bundle.partition, bundle.number))
        tables = [bundles.unpack(bundle.rows) for bundle in found]
        samples = Samples(tables, self.columns, self.fresh)
        try:
            self._learn(samples)
        except pages.StateError as error:
            raise ValueError(f"bucket {bucket} of keys: {error}") from error
        places = samples.places
        ordered = tables if places is None else bundles.in_order(tables, places)
        yield from self._rows(ordered, samples.values())

    def _check_columns(self) -> None:
        """Raise unless the checkpoint was learned from these columns; keep them if it is new."""
        columns = {name: getattr(self.columns, name) for name in ("key", "score", "label")}
        kept = self.kept.get()
        if not kept:
            self.kept.update((json.dumps({**columns, "n_buckets": self.n_buckets}),))
            return
        before = json.loads(kept[0])
        n_before = before.pop("n_buckets")
        if before != columns:
            raise ValueError(
                "`key`, `score` and `label` must be those of the checkpoint,"
                f" {_listed(before)}, got {_listed(columns)}; use another checkpoint, or rename the"
                " columns if they have the same values"
            )
        if n_before != self.n_buckets and self.columns.key is not None:
            raise ValueError(
                f"`n_buckets` must be that of the checkpoint, {n_before}, got {self.n_buckets};"
                f" pass {n_before}, or learn the stream again with another checkpoint"
            )

    @staticmethod
    def _limited(bucket: int, rows: Iterator[Any]) -> list[Any]:
        """Return the bundles of a bucket; raise if they are too large to be learned at once."""
        found: list[Any] = []
        size = 0
        for bundle in rows:
            found.append(bundle)
            size += len(bundle.rows)
            if size > bundles.MOST_BYTES:
                raise ValueError(
                    f"bucket {bucket} of keys: its rows in a micro-batch must take at most"
                    f" {bundles.MOST_BYTES} bytes; limit micro-batches, such as by"
                    " `maxOffsetsPerTrigger`, select the columns that are needed, or use another"
                    " checkpoint with a greater `n_buckets`"
                )
        return found

    def _learn(self, samples: Samples) -> None:
        """Predict and learn the samples of a bucket, page by page of its calibrators."""
        bucket = pages.Pages(self.starts, self.pages)
        for start, numbers in bucket.of_keys(samples.keys):
            page = bucket.read(start)
            learned = False
            for number in numbers:
                key = samples.keys[number]
                try:
                    stored = pages.find(page, key)
                    calibrator = self.make() if stored is None else _read(stored)
                    if samples.learn(number, calibrator):
                        pages.put(page, key, calibrator.to_bytes())
                        learned = True
                except ValueError as error:
                    name = "null" if key is None else repr(key.decode(errors="replace"))
                    raise ValueError(f"key {name}: {error}") from error
            if learned:
                bucket.write(start, page)
        bucket.close()

    def _rows(self, tables: Iterable[pa.Table], values: NDArray[np.float64]) -> Iterator[Row]:
        """Yield bundles of tables with the calibrated values of all of their rows."""
        start = 0
        for table in tables:
            of_table = values[start : start + len(table)]
            start += len(table)
            column = pa.array(of_table, from_pandas=True)  # NaN is null
            table = table.append_column(self.new_column, column)
            for bundle in bundles.pack_in_parts(table, 2 * bundles.BYTES):  # one in, one out
                yield Row(rows=bundle)

    def close(self) -> None:
        """Nothing is open."""
