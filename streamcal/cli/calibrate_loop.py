"""The loop of ``streamcal calibrate`` over the rows of its tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, progress
from streamcal.cli.rows import (
    Column,
    RowReader,
    delay_column,
    group_names,
    group_rows,
    key_checksums,
    loss_label_column,
    name_checksums,
    plain_values,
    probability_column,
    rate_column,
    score_column,
    weight_column,
)
from streamcal.cli.summary import Summary, Totals

if TYPE_CHECKING:
    from streamcal.calibration.base import Calibrator
    from streamcal.cli.checkpoint import Checkpoint, NoCheckpoint
    from streamcal.cli.rows import Rows
    from streamcal.cli.sample import UniformSample
    from streamcal.durable.keyed import Samples
    from streamcal.tables.base import Chunk, Writer
    from streamcal.tables.series import Series


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
    new_column: str

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        read = (self.score, self.label, self.weight, self.key, self.group)
        numbers = (self.delay, self.sampling_rate)
        return [n for n in (*read, *numbers, *(self.segment or ())) if isinstance(n, str)]

    def requirements(self, totals: Totals, *, any_score: bool) -> list[Column]:
        """Return the columns of numbers, with their requirements.

        They are score, label and weight, then delay and sampling rate if these are columns.
        """
        if any_score and self.segment is None:
            score = score_column(self.score)
        else:
            otherwise = "" if self.segment else "; other numbers need --calibrator isotonic"
            score = probability_column(self.score, otherwise)
        read = [score, loss_label_column(self.label, totals.loss), weight_column(self.weight)]
        if isinstance(self.delay, str):
            read.append(delay_column(self.delay))
        if isinstance(self.sampling_rate, str):
            read.append(rate_column(self.sampling_rate))
        return read

    def delays(self, rows: "Rows") -> NDArray[np.float64]:
        """Return after how many rows the label of each row is known."""
        return rows.values[3] if isinstance(self.delay, str) else _repeat(self.delay or 1, rows)

    def rates(self, rows: "Rows") -> NDArray[np.float64]:
        """Return the sampling rate of each row."""
        rate = self.sampling_rate
        return rows.values[-1] if isinstance(rate, str) else _repeat(rate or 1.0, rows)


def _repeat(number: float, rows: "Rows") -> NDArray[np.float64]:
    return np.full(len(rows.numbers), number, np.float64)


class Loop:
    """Takes rows from a `RowReader`, predicts and learns them, and adds them to `Totals`."""

    def __init__(
        self,
        columns: Columns,
        make_calibrator: "Callable[[], Calibrator]",
        reader: RowReader,
        totals: Totals,
        sample: "UniformSample | None",
        checkpoint: "Checkpoint | NoCheckpoint",
    ) -> None:
        from streamcal.cli.late_labels import LateLabels
        from streamcal.durable.keyed import KeyedCalibrator

        self.columns = columns
        self.reader = reader
        self.calibrators = KeyedCalibrator(make_calibrator, store=checkpoint.store)
        self.late = LateLabels(self.calibrators)
        checkpoint.restore(totals, self.late)
        self.totals = totals
        self.sample = sample
        self.checkpoint = checkpoint
        self.row = checkpoint.row
        self.n_unlabelled = 0

    def run(self, source: "Series", writer: "Writer", *, hidden: bool) -> None:
        """Read, calibrate and write all rows; ``hidden``: without a progress bar."""
        with writer, progress(source, "calibrating", hidden=hidden) as show:
            for chunk in source:
                self._calibrate(chunk, source.n_before, writer)
                self.save_if_due(last=self.reader.fault is not None)
                self.reader.raise_fault()
                show()
        self.save_if_due(last=True, complete=True)

    def _calibrate(self, chunk: "Chunk", n_before: int, writer: "Writer") -> None:
        """Predict, learn and write those rows of a chunk that are not learned yet."""
        from streamcal.calibration.sampling import undo_sampling

        rows = self.reader.read(chunk)
        samples, fields = self._samples(rows)
        self.n_unlabelled += int(np.isnan(samples.y).sum())
        checksums: list[Any] = []
        if self.columns.key is not None:
            checksums.append(key_checksums(samples.groups, len(rows.numbers)))
        if samples.read is not None:
            checksums.append(samples.read)
        if self.columns.group is not None:
            checksums.append(name_checksums(group_names(rows, self.columns.group) or []))
        new = self.checkpoint.rows_to_learn(n_before + rows.numbers, *rows.values, *checksums)
        if not new.all():
            rows = rows.select(new)
            samples, fields = self._samples(rows)
        numbers = n_before + rows.numbers
        if self.columns.delay is None and self.columns.group is None:
            values = self.calibrators.predict_learn_checked(samples)
        else:
            names = group_names(rows, self.columns.group)
            delays = self.columns.delays(rows)
            values = self.late.predict_learn(numbers, samples, fields, delays, names)
        written = values
        if self.columns.sampling_rate is not None:
            written = undo_sampling(values, self.columns.rates(rows))
        writer.write(chunk, written, rows.keep)
        if len(values):
            self.row = int(numbers[-1])
        self.totals.n_written += len(values)
        scored = np.column_stack([samples.scores, values, samples.y, samples.w])
        scored = scored[~np.isnan(samples.y)]
        self.totals.add(scored)
        if self.sample is not None:
            self.sample.add(scored[:, :3])

    def _samples(self, rows: "Rows") -> "tuple[Samples, dict[str, list[Any]] | None]":
        """Return rows as samples, and the values of the fields of segments if there are any."""
        from streamcal.durable.keyed import Samples

        names, fields = self.columns.segment, None
        if names is not None:
            fields = {name: plain_values(rows, name) for name in names}
        read = self.calibrators.read_fields(fields, len(rows.numbers))
        scores, labels, weights, *_ = rows.values
        groups = group_rows(rows, self.columns.key)
        return Samples(groups, scores, labels, weights, read), fields

    def save_if_due(self, **when: bool) -> None:
        """Save what is learned if a commit is due, or a signal has arrived; see `Checkpoint`."""
        self.checkpoint.save_if_due(self.row, self.calibrators, self._progress, **when)

    def _progress(self) -> dict[str, Any]:
        """Return what a run needs to continue, besides the calibrators."""
        return {"sums": self.totals.as_json(), "waiting": self.late.as_json()}

    def summarize(self, summary: Summary) -> None:
        """Add how many rows were calibrated, and the mean losses before and after."""
        parts = [f"{count_rows(self.totals.n_written)} calibrated"]
        if self.n_unlabelled:
            parts.append(f"{self.n_unlabelled:,} of them without a label")
        n_keys = None if self.columns.key is None else len(self.calibrators)
        if n_keys is not None:
            parts.append(f"{n_keys:,} keys")
        counts = {"rows": self.totals.n_written, "unlabelled": self.n_unlabelled, "keys": n_keys}
        summary.add(", ".join(parts), **counts)
        summary.add_skipped(self.reader)
        if self.columns.sampling_rate is not None:
            line = "  losses are of the kept rows, before --sampling-rate is undone"
            summary.add(line, losses_among="kept rows")
        self.totals.add_to(summary)
