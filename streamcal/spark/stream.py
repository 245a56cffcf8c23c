"""One calibrator per key on a stream of Spark Structured Streaming.

Spark's `transformWithState` stores a value per key, here a calibrator as bytes, and commits
it with the offsets of the micro-batch. So each row is learned exactly once if processes die. A
micro-batch takes three steps:

1. Each partition makes bundles of its rows, see `streamcal.spark.bundles`.
2. The bundles of a key are joined in order by the worker with its calibrator. One
   `predict_learn_many` predicts and learns the rows; then the calibrator is stored.
3. The bundles, which now have calibrated values, are split into rows again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
from streamcal.calibration.base import Calibrator, is_calibrator
from streamcal.spark import bundles
from streamcal.spark.columns import (
    check_column,
    check_fields,
    check_frame,
    check_samples,
    is_number,
)

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_KEYS = "must be a column of strings, whole numbers, decimals, booleans, dates or binary"
_ORDERS = "must be a column of numbers, strings, dates or times"

_STATE = StructType([StructField("calibrator", BinaryType())])
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
    new_column: str = "calibrated",
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
    new_column : str
        The name of the new column, of doubles.

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
        If ``df`` is not a stream, a column is missing, ``new_column`` exists already, or the
        session does not keep its state in RocksDB.

    Notes
    -----
    Before the query starts, once a session:

    ``spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")``

    A row whose label or weight is null or NaN gets a value and is not learned; a row whose score is
    null or NaN gets null. Invalid values end the query, with the key and the value in the message:
    an infinite score, a label outside the range of the loss, a weight not from 1e-60 to 1e60.
    Nothing of that micro-batch is committed; filter out such rows before.

    A key keeps the parameters of its calibrator: after a restart another ``calibrator`` applies
    only to new keys. If ``key``, ``score`` or ``label`` are other columns than those that a
    checkpoint has learned from, its query ends with an error at the first rows. The order of
    micro-batches is that of the source; if a key is read from several partitions at once, ``order``
    sorts only within a micro-batch.
    """
    _check_stream(df)
    schema = df.schema
    if key is not None:
        check_column(schema, "key", key, _is_key, _KEYS)
    check_samples(schema, score, label, weight)
    if order is not None:
        check_column(schema, "order", order, _is_order, _ORDERS)
    _check_new_column(schema, new_column)
    make = _maker(calibrator)
    check_fields(schema, make().fields)
    # Spark takes a dot in the name of a column for a field of a struct.
    plain = df.toDF(*(f"c{number}" for number in range(len(schema.names))))
    bundled = plain.mapInArrow(bundles.Bundler(schema.names, key), bundles.SCHEMA)
    learned = bundled.groupBy("key").transformWithState(
        _Learner(make, key, score, label, weight, order, new_column),
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
    times = DateType, TimestampType, TimestampNTZType
    return is_number(kind) or isinstance(kind, times) or kind == StringType()


def _maker(calibrator: Any) -> Callable[[], Calibrator]:
    """Return a function that makes calibrators; raise unless they can be stored as bytes."""
    maker = calibrator.clone().clone if is_calibrator(calibrator) else calibrator
    if not callable(maker):
        raise TypeError(
            f"`calibrator` must be a Calibrator or a function that makes one, got {calibrator!r}"
        )
    first = maker()
    if not is_calibrator(first):
        raise TypeError(
            f"`calibrator` must be a Calibrator or make one, got {type(first).__name__}"
        )
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
    """Step 2: predict and learn the bundles of one key."""

    def __init__(
        self,
        make: Callable[[], Calibrator],
        key: str | None,
        score: str,
        label: str,
        weight: str | None,
        order: str | None,
        new_column: str,
    ) -> None:
        self.make = make
        self.key = key
        self.score = score
        self.label = label
        self.weight = weight
        self.order = order
        self.new_column = new_column

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the states: that of each key, and that of `bundles.MARK`."""
        self.state = handle.getValueState("calibrator", _STATE)
        self.columns = handle.getValueState("columns", _COLUMNS)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Predict and learn the rows of one key in a micro-batch."""
        found = list(rows)
        if any(bundle.rows is None for bundle in found):
            self._check_columns()
        found = [bundle for bundle in found if bundle.rows is not None]
        if found:
            yield from self._learn(key, found)

    def _check_columns(self) -> None:
        """Raise unless the checkpoint was learned from these columns; keep them if it is new."""
        columns = {"key": self.key, "score": self.score, "label": self.label}
        stored = self.columns.get()
        if not stored:
            self.columns.update((json.dumps(columns),))
        elif json.loads(stored[0]) != columns:
            before = json.loads(stored[0])
            raise ValueError(
                "`key`, `score` and `label` must be those of the checkpoint,"
                f" {_listed(before)}, got {_listed(columns)}; use another checkpoint, or rename the"
                " columns if they have the same values"
            )

    def _learn(self, key: Any, found: list[Row]) -> Iterator[Row]:
        """Predict and learn the bundles of a key."""
        found.sort(key=lambda bundle: (bundle.partition, bundle.number))
        tables = [bundles.unpack(bundle.rows) for bundle in found]
        stored = self.state.get()
        calibrator = _read(bytes(stored[0])) if stored else self.make()
        samples = pa.concat_tables([self._samples(table, calibrator) for table in tables])
        places = None
        if self.order is not None:
            indices = pc.sort_indices(samples, [(self.order, "ascending")])
            places = indices.to_numpy().astype(np.int64)
            samples = samples.take(places)
        try:
            values, learned = self._predict_learn(calibrator, samples)
        except ValueError as error:
            name = "null" if key[0] is None else repr(bytes(key[0]).decode(errors="replace"))
            raise ValueError(f"key {name}: {error}") from error
        if learned:
            self.state.update((calibrator.to_bytes(),))
        ordered = tables if places is None else bundles.in_order(tables, places)
        yield from self._rows(ordered, values)

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

    def _samples(self, table: pa.Table, calibrator: Calibrator) -> pa.Table:
        """Return the columns that are learned from; the others are not joined."""
        names = {self.score, self.label, self.weight, self.order, *calibrator.fields}
        return table.select([name for name in table.column_names if name in names])

    def _predict_learn(
        self, calibrator: Calibrator, table: pa.Table
    ) -> tuple[NDArray[np.float64], bool]:
        """Return the calibrated values, NaN where there is no score, and whether it learned."""
        scores, labels = as_floats(table, self.score), as_floats(table, self.label)
        weights = np.ones(len(table))
        if self.weight is not None:
            weights = as_floats(table, self.weight)
            labels[np.isnan(weights)] = np.nan
            weights[np.isnan(weights)] = 1.0
        there = ~np.isnan(scores)
        values = np.full(len(table), np.nan)
        samples = scores[there], labels[there], weights[there]
        if not there.any():
            return values, False
        checked = calibrator._check_known(*samples), *samples[1:]
        x = _field_columns(table.filter(pa.array(there)), calibrator.fields)
        read = calibrator._read_fields(x, len(checked[0]))
        values[there] = calibrator._predict_learn_read(read, *checked)
        return values, bool((there & ~np.isnan(labels)).any())

    def close(self) -> None:
        """Nothing is open."""


def as_floats(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return a column of numbers or booleans as new float64s, NaN where it is null."""
    column = table[name].cast(pa.float64(), safe=False)
    return np.array(column.to_numpy(), np.float64)


def _field_columns(table: pa.Table, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of the fields; a key that was stored may have others than new keys."""
    columns = {}
    for name in fields:
        if name not in table.column_names:
            raise ValueError(f"its calibrator's field {name!r} must be a column")
        try:
            columns[name] = table[name].to_pylist()
        except UnicodeDecodeError as error:  # Spark accepts any bytes as a string
            raise ValueError(f"the field {name!r} must be UTF-8: {error}") from error
    return columns
