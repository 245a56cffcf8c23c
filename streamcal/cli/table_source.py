"""The source of ``streamcal calibrate``: the rows of tables, for `streamcal.durable.run`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.rows import (
    Column,
    RowChecksums,
    RowReader,
    TimeColumn,
    delay_column,
    group_names,
    group_rows,
    key_checksums,
    loss_label_column,
    name_checksums,
    plain_values,
    probability_column,
    propensity_column,
    rate_column,
    score_column,
    value_checksums,
    weight_column,
)
from streamcal.cli.summary import Totals

if TYPE_CHECKING:
    from streamcal.calibration.clock import Times
    from streamcal.cli.rows import Rows
    from streamcal.durable.keyed import KeyedCalibrator, Samples
    from streamcal.tables.base import Chunk
    from streamcal.tables.series import Series

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """The columns that are read, and the one that is written.

    Delay and sampling rate may also be numbers.
    """

    score: str
    label: str
    weight: str | None
    key: str | None
    segment: list[str] | None
    group: str | None
    delay: int | str | None
    sampling_rate: float | str | None
    propensity: str | None
    time: str | None
    new_column: str

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        read = (self.score, self.label, self.weight, self.key, self.group)
        numbers = (self.delay, self.sampling_rate, self.propensity, self.time)
        return [n for n in (*read, *numbers, *(self.segment or ())) if isinstance(n, str)]

    def requirements(self, totals: Totals, *, any_score: bool, floor: float) -> list[Column]:
        """Return the columns of numbers, with their requirements.

        They are score, label and weight, then delay, sampling rate, propensity and time if these
        are columns. ``floor`` is the least propensity.
        """
        if any_score and self.segment is None:
            score = score_column(self.score)
        else:
            only = self.segment or self.propensity
            otherwise = "" if only else "; other numbers need --calibrator isotonic"
            score = probability_column(self.score, otherwise)
        label = loss_label_column(self.label, totals.loss)
        read = [score, label, weight_column(self.weight)]
        if isinstance(self.delay, str):
            read.append(delay_column(self.delay))
        if isinstance(self.sampling_rate, str):
            read.append(rate_column(self.sampling_rate))
        if self.propensity is not None:
            read.append(propensity_column(self.propensity, label, floor))
        if self.time is not None:
            read.append(TimeColumn(self.time, ()))
        return read

    def delays(self, rows: "Rows") -> Vector:
        """Return after how many rows the label of each row is known."""
        return rows.values[3] if isinstance(self.delay, str) else _repeat(self.delay or 1, rows)

    def rates(self, rows: "Rows") -> Vector:
        """Return the sampling rate of each row."""
        rate = self.sampling_rate
        if not isinstance(rate, str):
            return _repeat(rate or 1.0, rows)
        return rows.values[4 if isinstance(self.delay, str) else 3]

    def propensities(self, rows: "Rows") -> Vector | None:
        """Return the propensity of each row; None if there is no such column."""
        if self.propensity is None:
            return None
        n_before = isinstance(self.delay, str) + isinstance(self.sampling_rate, str)
        return rows.values[3 + n_before]


def _repeat(number: float, rows: "Rows") -> Vector:
    return np.full(len(rows.numbers), number, np.float64)


class TableBatch:
    """The rows of a chunk that are not learned yet, checked.

    Attributes
    ----------
    chunk : Chunk
    rows : Rows
    samples : Samples
        The rows as samples.
    end : int
        The offset after them.
    """

    def __init__(
        self,
        source: "TableSource",
        chunk: "Chunk",
        rows: "Rows",
        numbers: NDArray[np.int64],
        samples: "Samples",
        fields: dict[str, list[Any]] | None,
    ) -> None:
        self._source, self.chunk, self.rows, self._numbers = source, chunk, rows, numbers
        self.samples, self._fields = samples, fields
        self.end = int(numbers[-1]) if len(numbers) else source.offset

    def predict_learn(self, keyed: "KeyedCalibrator") -> Vector:
        """Predict and learn the rows, and return their values before sampling is undone."""
        late, columns = self._source.late, self._source.columns
        if columns.delay is None and columns.group is None:
            return keyed.predict_learn_checked(self.samples)
        names = group_names(self.rows, columns.group)
        delays = columns.delays(self.rows)
        times = self._source.times_of(self.rows)
        given = delays, names, times, columns.propensities(self.rows)
        return late.predict_learn(self._numbers, self.samples, self._fields, *given)


class TableSource:
    """Rows of tables that are read in order; those that are learned already are passed over.

    Parameters
    ----------
    tables : Series
    columns : Columns
    reader : RowReader
    keyed : KeyedCalibrator
        What will learn the rows.

    Attributes
    ----------
    batch : TableBatch or None
        What was read last.
    offset : int
        The offset after the last row that was read or passed over.
    late : LateLabels
        The rows that wait for their labels.
    checksums : RowChecksums
        Those of all rows read.
    is_passing : bool
        Whether no new row has been read since rows were passed over.
    has_ended : bool
        Whether there are no more rows, or a bad row ends the run.
    n_unlabelled : int
    act : callable
        Called while the tables wait.
    show : callable
        Called after each chunk, to show the progress.
    """

    act: Callable[[], None]
    show: Callable[[], None]

    def __init__(
        self, tables: "Series", columns: Columns, reader: RowReader, keyed: "KeyedCalibrator"
    ) -> None:
        from streamcal.cli.late_labels import LateLabels

        self.tables, self.columns, self.reader = tables, columns, reader
        self.late = LateLabels(keyed)
        self.checksums = RowChecksums()
        self.batch: TableBatch | None = None
        self.is_passing = self.has_ended = False
        self.n_unlabelled = self.offset = self._before = 0
        self._path = None if keyed.store is None else keyed.store.path
        self._keyed = keyed
        self._learned: Sequence[int] = ()
        self._chunks = iter(tables)

    def pass_over(self, before: int, learned: Sequence[int]) -> None:
        """Begin after ``before`` events; pass over rows that have the checksums ``learned``."""
        self._before, self._learned = before, learned
        self.is_passing = bool(learned)

    def read_batch(self, offset: int, n: int) -> TableBatch | None:
        """Return the next rows after an offset; ``n`` is that of the tables.

        Raises
        ------
        TableError
            If a row is bad, and no row is to be skipped.
        StoreError
            If the rows before the offset are not those that were learned.
        """
        self.offset = offset
        if self.batch is not None:
            self.show()
        chunk = None if self.reader.fault else next(self._chunks, None)
        if chunk is None:
            self._compare()
            self.has_ended = True
            self.reader.raise_fault()
            return None
        rows = self.reader.read(chunk)
        numbers = self._before + self.tables.n_before + rows.numbers
        new = numbers > offset
        samples, fields = self._samples_of(rows)
        self._count(rows, samples, fields, new)
        if not new.all():
            rows, numbers = rows.select(new), numbers[new]
            samples, fields = self._samples_of(rows)
        self.batch = TableBatch(self, chunk, rows, numbers, samples, fields)
        return self.batch

    @property
    def n_waiting(self) -> int:
        """How many rows of the tables wait for their labels."""
        return self.late.n_waiting(self._before)

    def while_waiting(self, act: Callable[[], None]) -> None:
        """Keep what the tables are to call while they wait for a pipe."""
        self.act = act

    def _samples_of(self, rows: "Rows") -> "tuple[Samples, dict[str, list[Any]] | None]":
        """Return rows as samples, and the values of the fields of segments if there are any."""
        from streamcal.durable.keyed import Samples

        names, fields = self.columns.segment, None
        if names is not None:
            fields = {name: plain_values(rows, name) for name in names}
        times = self.times_of(rows)
        if times is not None and len(times):
            self._check_kind(times)
        propensities = self.columns.propensities(rows)
        read = self._keyed.read_contexts(fields, times, len(rows.numbers), propensities)
        scores, labels, weights, *_ = rows.values
        groups = group_rows(rows, self.columns.key)
        return Samples(groups, scores, labels, weights, read), fields

    def times_of(self, rows: "Rows") -> "Times | None":
        """Return the time of each row; None if there are no times."""
        from streamcal.calibration.clock import Times

        column = self.reader.columns[-1]
        if not isinstance(column, TimeColumn):
            return None
        return Times(rows.values[-1], "aware" if column.has_zone else "naive")

    def _check_kind(self, times: "Times") -> None:
        """Raise unless times have a zone, or none, as those that the calibrators have learned."""
        try:
            self._keyed.check_time(times[0])
        except ValueError:
            from streamcal.tables.base import TableError

            now, before = ("with", "without") if times.kind == "aware" else ("without", "with")
            raise TableError(
                f"column `{self.columns.time}` has times {now} a zone, but {self._path} has learned"
                f" times {before} one"
            ) from None

    def _count(
        self,
        rows: "Rows",
        samples: "Samples",
        fields: dict[str, list[Any]] | None,
        new: NDArray[np.bool_],
    ) -> None:
        """Add rows to the checksums; raise unless those before the new ones were learned."""
        self.n_unlabelled += int(np.isnan(samples.y).sum())
        columns: list[Any] = [*rows.values]
        if self.columns.key is not None:
            columns.append(key_checksums(samples.groups, len(rows.numbers)))
        if samples.read is not None and fields is not None:
            if samples.read.dtype == object:  # its bytes are addresses
                columns += map(value_checksums, fields.values())
            else:
                columns.append(samples.read)
        if self.columns.group is not None:
            columns.append(name_checksums(group_names(rows, self.columns.group) or []))
        self.checksums.add(*(column[~new] for column in columns))
        if new.any():
            self._compare()
            self.checksums.add(*(column[new] for column in columns))

    def _compare(self) -> None:
        """Raise unless the rows that are passed over are those that were learned."""
        if self._learned and self.checksums.sums != list(self._learned):
            from streamcal.durable.errors import StoreError
            from streamcal.tables.output import is_standard

            reason = "a table may grow between runs, not change"
            if any(map(is_standard, self.tables.paths)):
                reason = "a pipe must give all rows again, also those that are learned"
            raise StoreError(
                f"{self._path} has learned {self.offset - self._before:,} rows, but"
                f" those at the beginning of this table are others: {reason}"
            )
        self._learned, self.is_passing = (), False
