"""``streamcal calibrate``: a column of calibrated values, computed row by row.

`calibrate` is the command: it checks options and opens files. `streamcal.cli.calibrator_settings`
makes the calibrators that the options ask for. The loop is `streamcal.durable.run`; its source is
`streamcal.cli.table_source`, its sink `streamcal.cli.table_sink`. With ``--store`` the run can be
continued: `streamcal.cli.stored_run`.
"""

import contextlib
import re
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from streamcal._advice import in_words
from streamcal.cli.calibrator_settings import Interpolation, Method, Settings, parse_span
from streamcal.cli.console import data_errors, progress, usage_errors
from streamcal.cli.files import check_files
from streamcal.cli.options import (
    CALIBRATOR,
    FILES,
    FormatOption,
    JsonOption,
    LabelOption,
    NewColumnOption,
    OnError,
    OnErrorOption,
    OutTableOption,
    QuietOption,
    TablesArgument,
    WeightOption,
    column_option,
    picture_option,
    setting,
)
from streamcal.cli.plot import draw_reliability, read_sample
from streamcal.cli.rows import MOST_DELAY, RowReader, binary_label_column, score_column
from streamcal.cli.sample import UniformSample
from streamcal.cli.summary import Summary, Totals
from streamcal.cli.table_sink import TableSink
from streamcal.cli.table_source import Columns, TableSource

if TYPE_CHECKING:
    from streamcal.cli.stored_run import StoredRun
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.tables.base import Writer

EXAMPLES = (
    "streamcal calibrate scores.csv --score p --label y --out calibrated.csv",
    "streamcal calibrate s.csv --score p --label y --out c.csv --plot c.png",
    "streamcal calibrate s.parquet --score p --label y --key campaign --out c.parquet",
    "streamcal calibrate mon.csv tue.csv --score p --label y --out c.csv --store run.db",
    "zcat s.csv.gz | streamcal calibrate - --score p --label y | gzip > c.csv.gz",
)

_METHOD = (
    "What maps scores to probabilities. hedge: a mixture of Platt scaling and isotonic maps of "
    "several windows, by their likelihood so far. isotonic: the exact isotonic regression of all "
    "samples, for any scores. platt: a logistic curve (two parameters, online Newton steps). beta: "
    "beta calibration (three parameters). histogram: the mean label of each bin. All but isotonic "
    "take probabilities."
)
_EXPIRE_AFTER = (
    "Forget a key when so many rows of all keys have been learned and none of them was its own, at "
    "the latest after twice as many. A later row of it is the first of a new key. Needs --key."
)
_SEGMENT = (
    "Calibrate for each value of this column, and for each pair of values of two such columns; may "
    "be repeated. Values of few rows are corrected little, new ones not at all."
)
_GROUP = (
    "Consecutive rows with the same value of this column share an outcome: they are all predicted, "
    "then learned as one sample. Only for the hedge."
)
_SAMPLING_RATE = (
    "The share of negatives that the table has, if the others were left out: a number, or the name "
    "of a column. Values are then probabilities among all samples."
)
_DELAY = (
    "The label of a row is known this many rows later: a number, or the name of a column of "
    "numbers. Default: before the next row."
)
_LOSS = (
    "Isotonic: what is minimised: log (the default; labels in 0..1), squared, linex, poisson or "
    "tweedie (labels not negative), gamma (positive labels), logistic or exponential (labels -1 "
    "and 1)."
)
_PRIOR = (
    "Isotonic: the weight of the two pseudo-samples that keep values away from the extremes. "
    "Default: 1."
)
_WINDOW = (
    "Isotonic: keep only this many of the last samples, or those of the last 7d, 12h, 30min or 45s "
    "by --time. Default: keep all."
)
_HALF_LIFE = (
    "After how many samples the weight of a sample is halved, or after what time, such as 7d, 12h, "
    "30min or 45s, by --time. Not for the hedge. Default: never."
)
_PROPENSITY = (
    "With which probability the label of each row was asked for, from --floor to 1: only some rows "
    "are labelled, and the scores are calibrated for all. Log loss only."
)
_FLOOR = "The least value of --propensity. Default: 0.01."
_TIME = (
    "The time of each row: ISO 8601, such as 2026-03-01T12:30, or seconds since 1970. Only for a "
    "--half-life or --window that is a duration. Rows stay in their order; a time that goes back "
    "counts as the latest before it."
)
_MAX_SCORES = (
    "Isotonic: merge the nearest scores when there are more distinct ones than this. "
    "Default: 1,000,000."
)
_INTERPOLATION = "Isotonic: how values are interpolated between learned scores. Default: linear."
_SPAN = "N|DURATION"
_STORE = (
    "Save calibrators in this file. If the process is killed, the same command continues the run; "
    "after the end, a command with another table starts from the saved calibrators."
)
_BATCH_SIZE = (
    "The greatest number of rows that are calibrated at a time. The result does not depend on it."
)


def calibrate(
    table: TablesArgument,
    score: Annotated[str, column_option("The model's score or probability, before calibration.")],
    label: LabelOption,
    weight: WeightOption = None,
    key: Annotated[
        str | None, column_option("Keep one calibrator for each value of this column.")
    ] = None,
    expire_after: Annotated[int | None, setting(CALIBRATOR, _EXPIRE_AFTER, min=1)] = None,
    segment: Annotated[list[str] | None, column_option(_SEGMENT)] = None,
    group: Annotated[str | None, column_option(_GROUP)] = None,
    delay: Annotated[str | None, column_option(_DELAY, metavar="N|COLUMN")] = None,
    sampling_rate: Annotated[
        str | None, column_option(_SAMPLING_RATE, metavar="RATE|COLUMN")
    ] = None,
    propensity: Annotated[str | None, column_option(_PROPENSITY)] = None,
    time: Annotated[str | None, column_option(_TIME)] = None,
    new_column: NewColumnOption = "calibrated",
    calibrator: Annotated[Method, setting(CALIBRATOR, _METHOD, metavar="NAME")] = Method.hedge,
    loss: Annotated[str | None, setting(CALIBRATOR, _LOSS, metavar="NAME")] = None,
    prior: Annotated[float | None, setting(CALIBRATOR, _PRIOR)] = None,
    window: Annotated[str | None, setting(CALIBRATOR, _WINDOW, metavar=_SPAN)] = None,
    half_life: Annotated[str | None, setting(CALIBRATOR, _HALF_LIFE, metavar=_SPAN)] = None,
    floor: Annotated[float | None, setting(CALIBRATOR, _FLOOR)] = None,
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
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Add a column of calibrated values to a table.

    Rows are processed in the order of the file; several files are read in order, as if they were
    one. The calibrated value of a row is computed before its label is learned, so the output is
    what an online system would have served. All other columns stay unchanged, in CSV byte for byte.
    A row without a label gets a value, but nothing is learned from it.

    Rows from a pipe are written when the pipe has no more at present.

    The output is called NAME.partial until it is complete.

    With --store no row is lost or learned twice if the process is killed. SIGINT and SIGTERM end it
    after the current rows; after a crash the same command completes the same output.
    """
    from streamcal.tables.output import Output, is_standard

    with usage_errors():
        output = Output(out)
        check_files(*table, output=output, picture=plot, store=store)
        summary = Summary(quiet=quiet, as_json=json)
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.tables.open import format_of
    from streamcal.tables.series import Series

    segment = segment or None
    hidden = quiet or is_standard(out)
    with usage_errors():
        numbers = _parse_delay(delay), _parse_rate(sampling_rate)
        kept = parse_span(window, "--window", whole=True), parse_span(half_life, "--half-life")
    read = score, label, weight, key, segment, group
    columns = Columns(*read, *numbers, propensity, time, new_column)
    settings = Settings(calibrator, loss, prior, *kept, max_scores, interpolation, floor)
    with usage_errors():
        kind = format_of(*table, out, given=file_format)
        settings.check(columns)
        if expire_after is not None and key is None:
            raise ValueError(f"--expire-after needs --key, got {expire_after} without it")
        if plot is not None:
            _check_plot(settings.found_loss)
        if store is not None:
            _check_resumable(out)
    totals = settings.new_totals()
    sample = None if plot is None or store is not None else UniformSample(3)
    rows: TableSource
    source = Series(
        table,
        columns.names,
        new_column=new_column,
        format=kind,
        batch_size=batch_size,
        while_waiting=None if store is None else lambda: rows.act(),
    )
    with data_errors(lambda: source.path):
        run = None
        if store is not None:
            from streamcal.cli.stored_run import StoredRun

            options = _options(columns, settings, expire_after, on_error)
            run = StoredRun(store, table, output.path, options, resumable=kind != "parquet")
            output = run.output
    with (
        data_errors(lambda: source.path, output, lambda: totals.n_written),
        summary,
        run or contextlib.nullcontext(),
    ):
        any_score = settings.any_score and columns.propensity is None
        needed = columns.requirements(totals, any_score=any_score, floor=settings.found_floor)
        keyed = KeyedCalibrator(
            partial(settings.make_calibrator, columns),
            store=None if run is None else run.store,
            expire_after=expire_after,
        )
        rows = TableSource(source, columns, RowReader(needed, on_error), keyed)
        if run is not None:
            rows.pass_over(run.before, run.checksums)
            rows.while_waiting(run.raise_if_stopped)  # also before the first row
        with source, output, progress(source, "calibrating", hidden=hidden) as rows.show:
            sink = _calibrate_rows(rows, keyed, source.writer(output), totals, sample, run)
        if run is not None and (line := run.nothing_to_do()):
            summary.add(line, rows=totals.n_written, finished_before=True)
        else:
            sink.summarize(summary, keyed)
        if plot is not None:
            _check_labels(plot, totals)
            if sample is None:
                sample, drawn = _sample_of_output(out, kind, columns)
            else:
                drawn = sample.rows()
            _draw_before_and_after(plot, totals, drawn, sample.n_rows, columns, summary)


def _calibrate_rows(
    rows: TableSource,
    keyed: "KeyedCalibrator",
    writer: "Writer",
    totals: Totals,
    sample: UniformSample | None,
    run: "StoredRun | None",
) -> TableSink:
    """Read, calibrate and write all rows; return the sink, which has counted them."""
    from streamcal import durable

    if run is None:
        sink = TableSink(rows, writer, totals, sample)
        with sink:
            durable.run(rows, keyed, sink, None)
        return sink
    from streamcal.cli.stored_run import StoredSink

    with StoredSink(run, rows, writer, totals) as sink:
        durable.run(rows, keyed, sink, run.store, stop=run.has_signal)
        if not sink.is_complete:
            run.raise_if_stopped()
    return sink


def _parse_delay(delay: str | None) -> int | str | None:
    """Return a number of rows, the name of a column, or None if each label is known at once."""
    if delay is None:
        return None
    if not delay.isdecimal():
        if re.fullmatch(r"[-+]?\d*\.?\d+", delay):
            raise ValueError(f"--delay must be a whole number of rows or a column, got {delay}")
        return delay
    if int(delay) >= MOST_DELAY:
        raise ValueError(f"--delay must be less than {MOST_DELAY:,} rows, got {delay}")
    return int(delay) if int(delay) > 1 else None


def _parse_rate(rate: str | None) -> float | str | None:
    """Return a rate, the name of a column, or None if all negatives are in the table."""
    from streamcal.calibration.sampling import as_sampling_rate

    if rate is None:
        return None
    try:
        number = float(rate)
    except ValueError:
        return rate
    return as_sampling_rate(number)


def _check_plot(loss: str) -> None:
    """Raise ``ValueError`` unless the picture of --plot can be drawn."""
    if loss not in ("log", "squared"):
        advice = ""
        if loss in ("poisson", "gamma", "tweedie"):
            advice = f"; `streamcal plot --loss {loss}` draws means, from the output"
        raise ValueError(f"--plot draws probabilities: it needs the log or squared loss{advice}")


def _check_resumable(out: Path) -> None:
    """Raise ``ValueError`` unless a run with --store can write this."""
    from streamcal.tables.output import is_standard

    if is_standard(out) or not (out.is_file() or not out.exists()):
        raise ValueError("--store needs --out FILE: a pipe can't be truncated")


def _options(
    columns: Columns, settings: Settings, expire_after: int | None, on_error: OnError
) -> dict[str, Any]:
    """Return the options that the result depends on, by name.

    A store keeps these names: a field that is renamed needs its old name here.
    """
    given = {**asdict(columns), **asdict(settings), "on_error": on_error.value}
    given["expire_after"] = expire_after
    return {
        f"--{name.replace('_', '-')}": in_words(value) if isinstance(value, timedelta) else value
        for name, value in given.items()
    }


def _sample_of_output(
    out: Path, kind: str, columns: Columns
) -> tuple[UniformSample, NDArray[np.float64]]:
    """Return a sample of a complete output, and its rows as those of a sample of the loop."""
    from streamcal.calibration.sampling import among_kept

    needed = [score_column(columns.score), score_column(columns.new_column)]
    if isinstance(columns.sampling_rate, str):
        needed.append(score_column(columns.sampling_rate))
    reader = RowReader([*needed, binary_label_column(columns.label)], OnError.stop)
    sample = read_sample(out, kind, reader)
    raw, calibrated, *rates, labels = sample.rows().T
    if columns.sampling_rate is not None:
        rate = rates[0] if rates else np.full(len(labels), columns.sampling_rate)
        calibrated = among_kept(calibrated, rate)
    return sample, np.column_stack([raw, calibrated, labels])


def _check_labels(picture: Path, totals: Totals) -> None:
    """Raise `TableError` unless a reliability diagram can show the labels."""
    from streamcal.tables.base import TableError

    if not totals.n_labelled:
        raise TableError(f"no row has a label, so there is no {picture}")
    if not totals.binary:
        raise TableError(f"some labels are neither 0 nor 1, so there is no {picture}")


def _draw_before_and_after(
    path: Path,
    totals: Totals,
    rows: NDArray[np.float64],
    n_rows: int,
    columns: Columns,
    summary: Summary,
) -> None:
    """Draw calibrated values, and raw scores if they are probabilities."""
    raw, calibrated, labels = rows.T
    curves = {columns.score: raw.clip(0.0, 1.0)} if totals.probabilities else {}
    curves[columns.new_column] = calibrated
    title = "Reliability before and after calibration" if totals.probabilities else "Reliability"
    draw_reliability(path, labels, curves, n_rows, summary, title=title)
