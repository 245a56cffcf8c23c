"""The rows of a bucket in a micro-batch, as samples of its keys."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Times, as_times
from streamcal.calibration.context import Contexts
from streamcal.durable.keys import FEW
from streamcal.kernels.one_by_one import OneByOne
from streamcal.spark import bundles


class Columns(NamedTuple):
    """The names of the columns that are learned from."""

    key: str | None
    score: str
    label: str
    weight: str | None
    order: str | None
    time: str | None = None


class Samples:
    """The samples of the keys of a bucket, those of each key in the order in which it learns them.

    Parameters
    ----------
    tables : sequence of pyarrow.Table
        The rows of the bucket, in the order of their partitions.
    columns : Columns
    fresh : Calibrator
        A calibrator that has learned nothing. Calibrators with its parameters are taught samples
        that it has checked all at once.

    Attributes
    ----------
    keys : list of bytes or None
        The keys of the bucket that have a row with a score, as the bytes of their text.
    places : ndarray of shape (n_rows,), or None
        The positions of the rows in the order of the column ``order``, if there is one.
    """

    def __init__(self, tables: Sequence[pa.Table], columns: Columns, fresh: Calibrator) -> None:
        self._tables = tables
        self._fresh = fresh
        self._parameters = fresh._parameters()
        self._fields: dict[Sequence[str], pa.Table] = {}
        self._times: Times | None = None
        table = _joined(tables, [name for name in columns if name is not None])
        keys, of_rows = _keys_of(table, columns.key)
        self.places: NDArray[np.int64] | None = None
        if columns.order is not None:
            indices = pc.sort_indices(table, [(columns.order, "ascending")])
            self.places = indices.to_numpy().astype(np.int64)
            of_rows = of_rows[self.places]
        scores, labels = self._floats(table, columns.score), self._floats(table, columns.label)
        weights = np.ones(len(table))
        if columns.weight is not None:
            weights = self._floats(table, columns.weight)
            labels[np.isnan(weights)] = np.nan
            weights[np.isnan(weights)] = 1.0
        if columns.time is not None:
            learned = ~np.isnan(labels) & ~np.isnan(scores)
            self._times = self._read_times(table, columns.time, learned)
        self._n_rows = len(table)
        there = ~np.isnan(scores)
        counts = np.bincount(of_rows[there], minlength=len(keys))
        present = np.flatnonzero(counts)
        self.keys = [keys[at] for at in present]
        self._ends = np.cumsum(counts[present]).tolist()
        by_key = np.argsort(of_rows, kind="stable") if len(keys) > 1 else np.arange(self._n_rows)
        self._rows = by_key[there[by_key]]  # of the samples, key by key
        self._samples = scores[self._rows], labels[self._rows], weights[self._rows]
        self._values = np.full(len(self._rows), np.nan)
        self._checked = self._check()
        self._one_by_one = None
        if self._checked is not None:
            _, y, w = self._samples
            self._one_by_one = OneByOne(self._checked, y, w, self._values).predict_learn

    def _floats(self, table: pa.Table, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, in the order of the rows."""
        column = as_floats(table, name)
        return column if self.places is None else column[self.places]

    def _read_times(self, table: pa.Table, name: str, learned: NDArray[np.bool_]) -> Times:
        """Return the times of rows; where nothing is learned, one may be missing.

        They are in seconds: a timestamp counts from 1970.
        """
        column = table[name]
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s"))
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
            seconds = np.array(micros.to_numpy(), np.float64) / 1e6
        else:
            seconds = np.array(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
        seconds = seconds if self.places is None else seconds[self.places]
        seconds = np.where(learned, seconds, 0.0)
        if not np.isfinite(seconds).all():
            raise ValueError(
                f"`time` must be known in each row with a score and a label, but {name!r} has a row"
                " without it"
            )
        try:
            return as_times(seconds, len(seconds))
        except ValueError as error:
            raise ValueError(f"{error} in {name!r}") from None

    def _times_of(self, at: slice, calibrator: Calibrator) -> Times | None:
        """Return the times of samples, key by key, if a calibrator needs them."""
        if not calibrator.needs_time:
            return None
        if self._times is None:
            raise ValueError("its calibrator forgets by time: `time` must be the column of times")
        return Times(self._times.seconds[self._rows[at]], self._times.kind)

    def _check(self) -> NDArray[np.float64] | None:
        """Return scores as they are learned; None if there is a bad sample."""
        try:
            return self._fresh._check_known(*self._samples)
        except ValueError:  # the check of the samples of its key says so, with the key
            return None

    def learn(self, number: int, calibrator: Calibrator) -> bool:
        """Predict and learn the samples of a key; return whether anything was learned.

        Raises
        ------
        ValueError
            If a sample is bad; then nothing is learned.
        """
        at = slice(self._ends[number - 1] if number else 0, self._ends[number])
        is_checked = self._checked is not None and self._is_like_fresh(calibrator)
        few = is_checked and at.stop - at.start < FEW
        predict_learn = calibrator._sampler() if few and not calibrator.needs_time else None
        if self._one_by_one is not None and predict_learn is not None:
            return self._one_by_one(predict_learn, list(range(at.start, at.stop)))
        scores, y, w = (column[at] for column in self._samples)
        if is_checked and self._checked is not None:
            scores = self._checked[at]
        else:
            scores = calibrator._check_known(scores, y, w)
        read = None
        if calibrator.fields or calibrator.needs_time:
            x = {}
            if calibrator.fields:
                of_rows = self._columns_of(calibrator.fields).slice(at.start, len(scores))
                x = _lists(of_rows)
            contexts = Contexts(x, t=self._times_of(at, calibrator))
            read = calibrator._read_contexts(contexts, len(scores))
        self._values[at] = calibrator._predict_learn_read(read, scores, y, w)
        return not bool(np.isnan(y).all())

    def values(self) -> NDArray[np.float64]:
        """Return the calibrated values of all rows, in the order of ``places``.

        They are NaN where there is no score.
        """
        values = np.full(self._n_rows, np.nan)
        values[self._rows] = self._values
        return values

    def _is_like_fresh(self, calibrator: Calibrator) -> bool:
        """Return whether the checks of ``fresh`` are those of a calibrator."""
        same = type(calibrator) is type(self._fresh)
        return same and calibrator._parameters() == self._parameters

    def _columns_of(self, fields: Sequence[str]) -> pa.Table:
        """Return the columns of fields, key by key; stored calibrators may have others than new."""
        if fields not in self._fields:
            for name in fields:
                if name not in self._tables[0].column_names:
                    raise ValueError(f"its calibrator's field {name!r} must be a column")
            table = _joined(self._tables, fields)
            rows = self._rows if self.places is None else self.places[self._rows]
            self._fields[fields] = table.take(rows)
        return self._fields[fields]


def as_floats(table: pa.Table, name: str) -> NDArray[np.float64]:
    """Return a column of numbers or booleans as new float64s, NaN where it is null."""
    column = table[name].cast(pa.float64(), safe=False)
    return np.array(column.to_numpy(), np.float64)


def _joined(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return columns of tables as one; the other columns are not joined."""
    return pa.concat_tables([table.select(list(dict.fromkeys(names))) for table in tables])


def _keys_of(table: pa.Table, key: str | None) -> tuple[list[bytes | None], NDArray[np.int64]]:
    """Return the keys of rows, and for each row the position of its key."""
    if key is None:
        return [None], np.zeros(len(table), np.int64)
    found = table[key].combine_chunks().dictionary_encode(null_encoding="encode")
    return bundles.as_bytes(found.dictionary), found.indices.to_numpy().astype(np.int64)


def _lists(table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of columns."""
    columns = {}
    for name in table.column_names:
        try:
            columns[name] = table[name].to_pylist()
        except UnicodeDecodeError as error:  # Spark accepts any bytes as a string
            raise ValueError(f"the field {name!r} must be UTF-8: {error}") from error
    return columns
