"""``streamcal calibrate``: a column of calibrated values, computed row by row.

`calibrate` is the command. It opens the files and starts a `_Calibration`, the loop. The loop takes
rows from a `RowReader`, predicts and learns them with a `KeyedCalibrator`, adds them to the
`Totals` of the summary, and saves a `Checkpoint` from time to time.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from streamcal._validation import check_choice
from streamcal.cli.console import count_rows, data_errors, progress, say, usage_errors
from streamcal.cli.files import check_distinct, check_drawable, check_exists
from streamcal.cli.options import (
    CALIBRATOR,
    FILES,
    FormatOption,
    LabelOption,
    NewColumnOption,
    OnError,
    OnErrorOption,
    OutTableOption,
    TableArgument,
    WeightOption,
    column_option,
    picture_option,
    setting,
)
from streamcal.cli.plot import draw_reliability
from streamcal.cli.rows import (
    RowReader,
    group_rows,
    key_checksums,
    loss_label_column,
    probability_column,
    score_column,
    weight_column,
)
from streamcal.cli.sample import UniformSample
from streamcal.cli.summary import Totals, print_skipped

if TYPE_CHECKING:
    from streamcal.calibration import Calibrator
    from streamcal.cli.checkpoint import Checkpoint, NoCheckpoint
    from streamcal.tables import Chunk, Output, Reader, Writer

EXAMPLES = (
    "streamcal calibrate scores.csv --score p --label y --out calibrated.csv",
    "streamcal calibrate s.csv --score p --label y --out c.csv --plot c.png",
    "streamcal calibrate s.parquet --score p --label y --key campaign --out c.parquet",
    "zcat s.csv.gz | streamcal calibrate - --score p --label y | gzip > c.csv.gz",
)


class Interpolation(StrEnum):
    """How values are interpolated between learned scores."""

    step = "step"
    linear = "linear"
    centered = "centered"


class Method(StrEnum):
    """The calibrators, by the names that users type."""

    hedge = "hedge"
    isotonic = "isotonic"
    platt = "platt"
    beta = "beta"
    histogram = "histogram"


# The options that each calibrator takes.
_TAKES = {
    Method.hedge: (),
    Method.isotonic: ("loss", "prior", "window", "half_life", "max_scores", "interpolation"),
    Method.platt: ("half_life",),
    Method.beta: ("half_life",),
    Method.histogram: ("half_life",),
}
_METHOD = (
    "What maps scores to probabilities. The hedge mixes Platt scaling and isotonic maps of several "
    "windows by their likelihood so far; isotonic takes any scores, all others probabilities."
)
LOSSES = ("log", "squared", "poisson", "gamma", "tweedie", "linex", "logistic", "exponential")
_LOSS = (
    "Isotonic: what is minimised: log (the default; labels in 0..1), squared, linex, poisson or "
    "tweedie (labels not negative), gamma (positive labels), logistic or exponential (labels -1 "
    "and 1)."
)
_PRIOR = (
    "Isotonic: the weight of the two pseudo-samples that keep values away from the extremes. "
    "Default: 1."
)
_WINDOW = "Isotonic: keep only this many of the last samples. Default: keep all."
_HALF_LIFE = (
    "After how many samples the weight of a sample is halved, not for the hedge. Default: never."
)
_MAX_SCORES = (
    "Isotonic: merge the nearest scores when there are more distinct ones than this. "
    "Default: 1,000,000."
)
_INTERPOLATION = "Isotonic: how values are interpolated between learned scores. Default: linear."
_STORE = (
    "Save calibrators in this file. If the process is killed, the same command continues the run; "
    "after the end, a command with another table starts from the saved calibrators."
)
_BATCH_SIZE = "The greatest number of rows in memory. The result does not depend on it."


def calibrate(
    table: TableArgument,
    score: Annotated[str, column_option("The model's score or probability, before calibration.")],
    label: LabelOption,
    weight: WeightOption = None,
    key: Annotated[
        str | None, column_option("Keep one calibrator for each value of this column.")
    ] = None,
    new_column: NewColumnOption = "calibrated",
    calibrator: Annotated[Method, setting(CALIBRATOR, _METHOD)] = Method.hedge,
    loss: Annotated[str | None, setting(CALIBRATOR, _LOSS, metavar="NAME")] = None,
    prior: Annotated[float | None, setting(CALIBRATOR, _PRIOR)] = None,
    window: Annotated[int | None, setting(CALIBRATOR, _WINDOW)] = None,
    half_life: Annotated[float | None, setting(CALIBRATOR, _HALF_LIFE)] = None,
    max_scores: Annotated[int | None, setting(CALIBRATOR, _MAX_SCORES)] = None,
    interpolation: Annotated[Interpolation | None, setting(CALIBRATOR, _INTERPOLATION)] = None,
    out: OutTableOption = Path("-"),
    plot: Annotated[
        Path | None, picture_option("Draw a reliability diagram, before and after")
    ] = None,
    store: Annotated[Path | None, setting(FILES, _STORE, metavar="STORE")] = None,
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    batch_size: Annotated[int, setting(FILES, _BATCH_SIZE, min=1, metavar="N")] = 65_536,
) -> None:
    """Add a column of calibrated values to a table.

    Rows are processed in the order of the file. The calibrated value of a row is computed before
    its label is learned, so the output is what an online system would have served. All other
    columns stay unchanged. A row without a label gets a value, but nothing is learned from it.

    The output is called NAME.partial until it is complete.

    With --store no row is lost or learned twice if the process is killed. SIGINT and SIGTERM end it
    after the current rows; after a crash the same command completes the same output.
    """
    from streamcal import tables

    columns = _Columns(score, label, weight, key, new_column)
    settings = _Settings(calibrator, loss, prior, window, half_life, max_scores, interpolation)
    with usage_errors():
        check_exists(table)
        kind = tables.format_of(table, out, given=file_format)
        settings.make_calibrator()
        output = tables.Output(out)
        check_distinct(table, output=output, picture=plot, store=store)
        if plot is not None:
            _check_plot(plot, settings.found_loss)
        if store is not None:
            _check_resumable(out, kind, plot)
    totals = settings.new_totals()
    sample = None if plot is None else UniformSample(3)
    with data_errors(table):
        checkpoint = _open_checkpoint(store, table, output, columns, settings, on_error, totals)
    output = checkpoint.output
    with data_errors(table, output, lambda: totals.n_written), checkpoint:
        run = _Calibration(columns, settings, on_error, totals, sample, checkpoint)
        with (
            tables.open_table(
                table, columns.names, new_column=new_column, format=kind, batch_size=batch_size
            ) as source,
            output,
        ):
            run.run(source, output)
        if line := checkpoint.nothing_to_do():
            say(line)
            return
        run.print_summary()
        if plot is not None and sample is not None:
            _draw_before_and_after(plot, totals, sample, score, new_column)


@dataclass(frozen=True)
class _Columns:
    """The columns that are read, and the one that is written."""

    score: str
    label: str
    weight: str | None
    key: str | None
    new_column: str

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        read = (self.score, self.label, self.weight, self.key)
        return [name for name in read if name is not None]


@dataclass(frozen=True)
class _Settings:
    """The parameters of the calibrators."""

    calibrator: Method
    loss: str | None
    prior: float | None
    window: int | None
    half_life: float | None
    max_scores: int | None
    interpolation: Interpolation | None

    def make_calibrator(self) -> "Calibrator":
        """Return a new calibrator; raise ``ValueError`` if a parameter is wrong."""
        from streamcal import calibration

        given = {name: value for name, value in asdict(self).items() if value is not None}
        del given["calibrator"]
        for name in given:
            if name not in _TAKES[self.calibrator]:
                option = name.replace("_", "-")
                fit = " or ".join(method for method in Method if name in _TAKES[method])
                raise ValueError(f"--{option} needs --calibrator {fit}, got {self.calibrator}")
        if self.loss is not None:
            check_choice(self.loss, "loss", LOSSES)
        kinds = {
            Method.hedge: calibration.HedgedCalibrator,
            Method.isotonic: calibration.IsotonicCalibrator,
            Method.platt: calibration.PlattCalibrator,
            Method.beta: calibration.BetaCalibrator,
            Method.histogram: calibration.HistogramCalibrator,
        }
        made: Calibrator = kinds[self.calibrator](**given)
        return made

    @property
    def found_loss(self) -> str:
        """The name of the loss that is minimised."""
        return self.loss or "log"

    def new_totals(self) -> Totals:
        """Return empty totals of the loss."""
        from streamcal import losses

        return Totals(losses.get_mean(self.found_loss))


def _check_plot(path: Path, loss: str) -> None:
    """Raise ``ValueError`` unless the picture of --plot can be drawn."""
    check_drawable(path)
    if loss not in ("log", "squared"):
        raise ValueError("--plot draws probabilities: it needs the log or squared loss")


def _check_resumable(out: Path, kind: str, plot: Path | None) -> None:
    """Raise ``ValueError`` unless a run with --store can write this."""
    from streamcal.tables import is_standard

    if is_standard(out) or not (out.is_file() or not out.exists()):
        raise ValueError("--store needs --out FILE: a pipe can't be truncated")
    if kind == "parquet":
        raise ValueError("--store needs CSV or NDJSON: a Parquet file has its index at the end")
    if plot is not None:
        raise ValueError(
            "--store can't be used with --plot: draw the picture with `streamcal plot` at the end"
        )


def _open_checkpoint(
    store: Path | None,
    table: Path,
    output: "Output",
    columns: _Columns,
    settings: _Settings,
    on_error: OnError,
    totals: Totals,
) -> "Checkpoint | NoCheckpoint":
    """Return the checkpoint of the run, and restore the totals."""
    from streamcal.cli.checkpoint import Checkpoint, NoCheckpoint
    from streamcal.durable.errors import StoreError

    if store is None:
        return NoCheckpoint(output)
    # These names are kept in the store: a field that is renamed needs its old name here.
    given = {**asdict(columns), **asdict(settings), "on_error": on_error.value}
    options = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    checkpoint = Checkpoint(store, table, output.path, options)
    try:
        totals.restore(checkpoint.sums, checkpoint.row)
    except ValueError as error:
        checkpoint.store.close()
        raise StoreError(f"{store} is damaged: its note `sums` {error}") from None
    return checkpoint


class _Calibration:
    """The loop over the rows of a table."""

    def __init__(
        self,
        columns: _Columns,
        settings: _Settings,
        on_error: OnError,
        totals: Totals,
        sample: UniformSample | None,
        checkpoint: "Checkpoint | NoCheckpoint",
    ) -> None:
        from streamcal.durable.keyed import KeyedCalibrator

        read = [
            score_column(columns.score)
            if settings.calibrator is Method.isotonic
            else probability_column(columns.score, ", or --calibrator isotonic must be used"),
            loss_label_column(columns.label, totals.loss),
            weight_column(columns.weight),
        ]
        self.key = columns.key
        self.reader = RowReader(read, on_error)
        self.calibrators = KeyedCalibrator(settings.make_calibrator, store=checkpoint.store)
        self.totals = totals
        self.sample = sample
        self.checkpoint = checkpoint
        self.row = checkpoint.row
        self.n_unlabelled = 0

    def run(self, source: "Reader", output: "Output") -> None:
        """Read, calibrate and write all rows."""
        with source.writer(output) as writer, progress(source, "calibrating") as show:
            for chunk in source:
                self._calibrate(chunk, writer)
                self._save(last=self.reader.fault is not None)
                self.reader.raise_fault()
                show()
        self._save(last=True, complete=True)

    def _calibrate(self, chunk: "Chunk", writer: "Writer") -> None:
        """Predict, learn and write those rows of a chunk that are not learned yet."""
        rows = self.reader.read(chunk)
        groups = group_rows(rows, self.key)
        self.n_unlabelled += int(np.isnan(rows.values[1]).sum())
        checksums = [] if self.key is None else [key_checksums(groups, len(rows.numbers))]
        new = self.checkpoint.rows_to_learn(rows.numbers, *rows.values, *checksums)
        if not new.all():
            rows = rows.select(new)
            groups = group_rows(rows, self.key)
        scores, labels, weights = rows.values
        values = self.calibrators.predict_learn_groups(groups, scores, labels, weights)
        writer.write(chunk, values, rows.keep)
        if len(values):
            self.row = int(rows.numbers[-1])
        self.totals.n_written += len(values)
        scored = np.column_stack([scores, values, labels, weights])[~np.isnan(labels)]
        self.totals.add(scored)
        if self.sample is not None:
            self.sample.add(scored[:, :3])

    def _save(self, **when: bool) -> None:
        self.checkpoint.save_if_due(self.row, self.calibrators, self.totals.as_json(), **when)

    def print_summary(self) -> None:
        """Print how many rows were calibrated, and the mean losses before and after."""
        parts = [f"{count_rows(self.totals.n_written)} calibrated"]
        if self.n_unlabelled:
            parts.append(f"{self.n_unlabelled:,} of them without a label")
        if self.key is not None:
            parts.append(f"{len(self.calibrators):,} keys")
        say(", ".join(parts))
        print_skipped(self.reader)
        for line in self.totals.lines():
            say(line)


def _draw_before_and_after(
    path: Path, totals: Totals, sample: UniformSample, score: str, new_column: str
) -> None:
    """Draw calibrated values, and raw scores if they are probabilities."""
    from streamcal.tables import TableError

    if not totals.n_labelled:
        raise TableError(f"no row has a label, so there is no {path}")
    if not totals.binary:
        raise TableError(f"some labels are neither 0 nor 1, so there is no {path}")
    raw, calibrated, labels = sample.rows().T
    curves = {score: raw} if totals.probabilities else {}
    draw_reliability(path, labels, {**curves, new_column: calibrated}, sample.n_rows)
