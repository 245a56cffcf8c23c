"""The commands of the command line: what they read, check, compute and tell.

Needs the extra ``cli``. Heavy imports wait until a command needs them, so that ``--help`` is quick.

Exit status: 0 all well, 1 the data (or the disk) is at fault, 2 the command was called wrongly.
Mistakes are one line on standard error.
"""

import contextlib
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

import streamcal
from streamcal._log_loss import RULE, log_losses
from streamcal._validation import LARGEST, SMALLEST

if TYPE_CHECKING:
    from streamcal.calibration import Calibrator
    from streamcal.decision import Decision, Metric
    from streamcal.keyed import Groups, KeyedCalibrator
    from streamcal.losses import Loss, MeanLoss
    from streamcal.report.content import Report
    from streamcal.report.sections import Scored
    from streamcal.resume import Checkpoint
    from streamcal.tables import Chunk, Fault, Output, Reader

app = typer.Typer(
    name="streamcal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Online calibration of model scores: exact, sample by sample, in one pass over a file.",
)

SAMPLE_ROWS = 1_000_000
"""A picture is drawn from at most this many rows; of more, from a uniform sample."""

MOST_LABELS = 32_767
"""Ordinal labels are at most so many."""

_DRAWABLE = (".png", ".pdf", ".svg")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"- `{line}`" for line in lines)])


class _Format(StrEnum):
    csv = "csv"
    ndjson = "ndjson"
    parquet = "parquet"


class _Interpolation(StrEnum):
    step = "step"
    linear = "linear"
    centered = "centered"


class _OnError(StrEnum):
    stop = "stop"
    skip = "skip"


_COLUMNS, _CALIBRATOR, _THRESHOLDS, _RUN = "Columns", "Calibrator", "Thresholds", "Files"

_InputPath = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, NDJSON or Parquet file, or `-` for standard input.",
        show_default=False,
    ),
]
_LabelOption = Annotated[
    str,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="What came true: 0 and 1, true and false, or numbers in the loss's range. "
        "Empty: not known.",
        show_default=False,
        rich_help_panel=_COLUMNS,
    ),
]
_FormatOption = Annotated[
    _Format | None,
    typer.Option(
        "--format",
        help="Of input and output. Default: by the file's ending, else csv.",
        rich_help_panel=_RUN,
    ),
]
_OnErrorOption = Annotated[
    _OnError,
    typer.Option(
        "--on-error",
        help="Whether a bad row ends the run or is left out and counted.",
        rich_help_panel=_RUN,
    ),
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"streamcal {streamcal.__version__}")
        raise typer.Exit


@app.command(
    epilog=_examples(
        "streamcal calibrate scores.csv --score p --label y --out calibrated.csv",
        "streamcal calibrate s.csv --score p --label y --out c.csv --report report.png",
        "streamcal calibrate s.parquet --score p --label y --key campaign --out c.parquet",
        "zcat s.csv.gz | streamcal calibrate - --score p --label y | gzip > c.csv.gz",
    )
)
def calibrate(
    table: _InputPath,
    score: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The model's score or probability.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ],
    label: _LabelOption,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The weight of each row, a positive number.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Keep one calibrator for each value of this column.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    column: Annotated[
        str,
        typer.Option(metavar="NAME", help="The name of the new column.", rich_help_panel=_COLUMNS),
    ] = "calibrated",
    loss: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What is minimised: log or squared (labels in 0..1), poisson, gamma, tweedie, "
            "linex, logistic or exponential (labels -1 and 1).",
            rich_help_panel=_CALIBRATOR,
        ),
    ] = "log",
    prior: Annotated[
        float,
        typer.Option(
            help="Weight of the two pseudo-samples that keep values off the extremes.",
            rich_help_panel=_CALIBRATOR,
        ),
    ] = 1.0,
    window: Annotated[
        int | None,
        typer.Option(
            help="Forget all but the last so many samples. Default: keep all.",
            rich_help_panel=_CALIBRATOR,
        ),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(
            help="Halve the weight of all samples with every so many that follow. Default: never.",
            rich_help_panel=_CALIBRATOR,
        ),
    ] = None,
    max_scores: Annotated[
        int,
        typer.Option(
            help="Merge the nearest scores when there are more distinct ones than this.",
            rich_help_panel=_CALIBRATOR,
        ),
    ] = 1_000_000,
    interpolation: Annotated[
        _Interpolation,
        typer.Option(
            help="How values are read between learned scores.", rich_help_panel=_CALIBRATOR
        ),
    ] = _Interpolation.linear,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="TABLE",
            help="Where the table with the new column goes; `-` is standard output.",
            rich_help_panel=_RUN,
        ),
    ] = Path("-"),
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGE",
            help="Draw a reliability diagram, before and after (png, pdf, svg).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="STORE",
            help="Keep what is learned in this file. Killed and run again, the same command goes "
            "on where it was; when it has ended, so does one with the next table.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
    batch_rows: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="The most rows held at a time. The result does not depend on it.",
            rich_help_panel=_RUN,
        ),
    ] = 65_536,
) -> None:
    """Add a column of calibrated values to a table.

    Row by row, in the order of the file: the calibrated value of a row is computed before its label
    is learned, so the output is what an online system would have served. All other columns stay as
    they are. A row without a label gets a value and teaches nothing.

    The output is called NAME.partial until it is whole.

    With --state nothing is lost or learned twice, whenever the process ends: SIGINT and SIGTERM
    end it after the rows at hand, and after a crash the same command writes the same output.
    """
    from streamcal import losses, tables
    from streamcal.calibration import IsotonicCalibrator
    from streamcal.keyed import KeyedCalibrator
    from streamcal.resume import Checkpoint
    from streamcal.store import StoreError

    def make() -> "Calibrator":
        return IsotonicCalibrator(
            loss,
            window=window,
            half_life=half_life,
            prior=prior,
            interpolation=interpolation.value,
            max_scores=max_scores,
        )

    with _usage_errors():
        _check_there(table)
        kind = tables.format_of(table, out, given=file_format)
        make()
        output, checkpoint = tables.Output(out), None
        _check_apart(table, output=output, picture=report, state=state)
        if report is not None:
            _check_drawable(report)
            if loss not in ("log", "squared"):
                raise ValueError("--report draws probabilities: it needs the log or squared loss")
        if state is not None:
            _check_resumable(out, kind, report)

    run = _Run(losses.get_mean(loss), score, label, weight, key, on_error)
    totals = _Totals(run.loss)
    sample = _Sample(3) if report is not None else None
    if state is not None:
        options = {
            "--score": score,
            "--label": label,
            "--weight": weight,
            "--key": key,
            "--column": column,
            "--loss": loss,
            "--prior": prior,
            "--window": window,
            "--half-life": half_life,
            "--max-scores": max_scores,
            "--interpolation": interpolation.value,
            "--on-error": on_error.value,
        }
        with _data_errors(table):
            checkpoint = Checkpoint(state, table, out, options)
            try:
                run.written = totals.take_over(checkpoint.sums, checkpoint.row)
            except ValueError as error:
                checkpoint.store.close()
                raise StoreError(f"{state} is damaged: its note `sums` {error}") from None
        output, run.checkpoint, run.row = checkpoint.output, checkpoint, checkpoint.row
    bank = KeyedCalibrator(make, store=None if checkpoint is None else checkpoint.store)
    columns = [name for name in (score, label, weight, key) if name is not None]
    with _data_errors(table, output, lambda: run.written), checkpoint or contextlib.nullcontext():
        with (
            tables.open_table(
                table, columns, new=column, format=kind, batch_rows=batch_rows
            ) as source,
            output,
        ):
            with source.writer(output) as writer, _progress(source, "calibrating") as show:
                for chunk in source:
                    rows = run.examine(chunk)
                    values = bank.predict_learn_groups(
                        rows.groups, rows.scores, rows.labels, rows.weights
                    )
                    writer.write(chunk, values, rows.keep)
                    run.written += len(values)
                    known = ~np.isnan(rows.labels)
                    scored = np.column_stack([rows.scores, values, rows.labels, rows.weights])
                    totals.add(scored[known])
                    if sample is not None:
                        sample.add(scored[known, :3])
                    if checkpoint is not None:
                        sums = totals.sums(run.written)
                        last = run.fault is not None
                        checkpoint.reached(run.row, bank, sums, last=last)
                    run.raise_fault()
                    show()
            if checkpoint is not None:
                sums = totals.sums(run.written)
                checkpoint.reached(run.row, bank, sums, last=True, whole=True)
        if checkpoint is not None and checkpoint.is_finished:
            _say(checkpoint.nothing_to_do())
            return
        _tell(run, bank, totals)
        if report is not None and sample is not None:
            _report(report, totals, sample, score, column)


@app.command(
    epilog=_examples(
        "streamcal plot scores.csv --score p --label y",
        "streamcal plot c.csv --score p --score calibrated --label y --out reliability.png",
    )
)
def plot(
    table: _InputPath,
    score: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN",
            help="Probabilities; give it once for each curve.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ],
    label: _LabelOption,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="IMAGE",
            help="The picture (png, pdf, svg).",
            rich_help_panel=_RUN,
        ),
    ] = Path("reliability.png"),
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
) -> None:
    """Draw the reliability diagram of one or more columns of probabilities.

    Every row counts once; rows without a label are left out. Of more than a million rows a uniform
    sample is drawn.
    """
    from streamcal import losses, tables

    scores = list(dict.fromkeys(score))
    with _usage_errors():
        _check_there(table)
        kind = tables.format_of(table, given=file_format)
        _check_drawable(out)
        _check_apart(table, picture=out)
    run = _Run(losses.get_mean("log"), scores, label, None, None, on_error, binary=True)
    sample = _Sample(len(scores) + 1)
    with _data_errors(table):
        with (
            tables.open_table(table, [*scores, label], format=kind) as source,
            _progress(source, "reading") as show,
        ):
            for chunk in source:
                rows = run.examine(chunk)
                run.raise_fault()
                known = ~np.isnan(rows.labels)
                sample.add(np.column_stack([rows.scores, rows.labels])[known])
                show()
        if not sample.seen:
            raise tables.TableError("has no labelled rows: there is nothing to draw")
        _tell_skipped(run)
        *columns, labels = sample.rows().T
        _draw(out, labels, dict(zip(scores, columns, strict=True)), sample.seen)


@app.command(
    epilog=_examples(
        "streamcal thresholds scores.csv --score s --label stars",
        "streamcal thresholds scores.csv --score s --label y --loss zero-one --plot cuts.png",
    )
)
def thresholds(
    table: _InputPath,
    score: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The model's score, any number.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ],
    label: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The ordinal label, an int from 1 on. Empty: not known, left out.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ],
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The weight of each row, a positive number.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    loss: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What is minimised: absolute, squared or zero-one; quadratic-kappa is maximised.",
            rich_help_panel=_THRESHOLDS,
        ),
    ] = "absolute",
    n_labels: Annotated[
        int | None,
        typer.Option(
            help="How many labels there are. Default: the greatest one that occurs.",
            rich_help_panel=_THRESHOLDS,
        ),
    ] = None,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced",
            help="Weigh labels so that each counts the same: the macro-averaged loss.",
            rich_help_panel=_THRESHOLDS,
        ),
    ] = False,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto, dp, io, blocked-io, divide or subsequence.",
            rich_help_panel=_THRESHOLDS,
        ),
    ] = "auto",
    jobs: Annotated[
        int, typer.Option(min=1, help="Processes for io.", rich_help_panel=_THRESHOLDS)
    ] = 1,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="IMAGE",
            help="Draw score densities and thresholds (png, pdf, svg).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
) -> None:
    """Find the thresholds that cut a score into ordinal labels at the least loss.

    Prints one threshold a line, K - 1 of them for K labels: a score gets the label 1 plus the
    number of thresholds that are not above it. What they cost is told on standard error.
    """
    from streamcal import losses, tables
    from streamcal.ordinal import close_jobs, optimal_thresholds

    with _usage_errors():
        _check_there(table)
        kind = tables.format_of(table, given=file_format)
        if picture is not None:
            _check_drawable(picture)
            _check_apart(table, picture=picture)
        optimal_thresholds([0.0, 1.0], [1, 2], n_labels, loss=loss, method=method)
    run = _Run(losses.get_mean("squared"), score, label, weight, None, on_error, ordinal=True)
    parts = []
    with _data_errors(table):
        tables.standard_output()  # now rather than after all the work
        columns = [name for name in (score, label, weight) if name is not None]
        with (
            tables.open_table(table, columns, format=kind) as source,
            _progress(source, "reading") as show,
        ):
            for chunk in source:
                rows = run.examine(chunk)
                run.raise_fault()
                known = ~np.isnan(rows.labels)
                parts.append(np.column_stack([rows.scores, rows.labels, rows.weights])[known])
                show()
        scores, labels, weights = np.concatenate([np.empty((0, 3)), *parts]).T
        if not len(scores):
            raise tables.TableError("has no labelled rows: there is nothing to cut")
        try:
            found = optimal_thresholds(
                scores,
                labels,
                n_labels,
                loss=loss,
                w=None if weight is None else weights,
                class_weight="balanced" if balanced else None,
                method=method,
                n_jobs=jobs,
            )
        except ValueError as error:
            raise tables.TableError(str(error)) from None
        finally:
            close_jobs()
        for threshold in found.thresholds.tolist():
            typer.echo(threshold)
        _tell_skipped(run)
        certified = "" if found.certified else ", sorted by force and not certain to be optimal"
        _say(f"{_count(len(scores))}, {found.n_labels} labels, by {found.method}{certified}")
        if loss == "quadratic-kappa":
            _say(f"  quadratic weighted kappa {1.0 - found.risk:.4f}")
        else:
            name = f"mean {loss} loss" + (", macro-averaged" if balanced else "")
            _say(f"  {name} {found.risk / weights.sum():.4f}")
        if picture is not None:
            from streamcal.plot import ThresholdDisplay

            display = ThresholdDisplay.from_predictions(scores, labels, found, w=weights)
            display.figure_.savefig(picture, dpi=150)  # type: ignore[union-attr]
            _say(f"{picture}: drawn from {_count(len(scores))}")


@app.command(
    epilog=_examples(
        "streamcal decide scores.csv --prob p --metric f1 --out decided.csv",
        "streamcal decide s.parquet --prob p --metric jaccard --label y --out d.parquet",
        "streamcal decide scores.csv --prob p --metric f2 --plot curve.png > decided.csv",
    )
)
def decide(
    table: _InputPath,
    prob: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The calibrated probability of the label 1.",
            show_default=False,
            rich_help_panel=_COLUMNS,
        ),
    ],
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="What the decisions are to maximise, such as f1."),
    ] = "f1",
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="What came true, 0 or 1: the metric reached is told, nothing else changes.",
            rich_help_panel=_COLUMNS,
        ),
    ] = None,
    column: Annotated[
        str,
        typer.Option(metavar="NAME", help="The name of the new column.", rich_help_panel=_COLUMNS),
    ] = "decision",
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="TABLE",
            help="Where the table with the new column goes; `-` is standard output.",
            rich_help_panel=_RUN,
        ),
    ] = Path("-"),
    picture: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="IMAGE",
            help="Draw the expected metric over the number of ones (png, pdf, svg).",
            rich_help_panel=_RUN,
        ),
    ] = None,
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
) -> None:
    """Add a column of decisions, 0 or 1, with the best expected metric over the whole table.

    The table is read twice, once to decide and once to write, so it can't be standard input. The
    decision is joint: of all ways to label the rows the one with the greatest expectation, which
    labels the likeliest rows 1.
    """
    from streamcal import losses, tables
    from streamcal.decision import get_metric, maximize

    with _usage_errors():
        if tables.is_standard(table):
            raise ValueError("the table is read twice, so it can't be standard input")
        _check_there(table)
        kind = tables.format_of(table, out, given=file_format)
        goal = get_metric(metric)
        output = tables.Output(out)
        _check_apart(table, output=output, picture=picture)
        if picture is not None:
            _check_drawable(picture)

    def examined(source: "Reader", run: _Run) -> Iterator[tuple["Chunk", Any, Any, Any]]:
        for chunk in source:
            p, _ = _numbers(chunk, prob)
            checks = [(prob, "a probability in [0, 1]", (p >= 0.0) & (p <= 1.0))]
            y = None
            if label is not None:
                y, empty = _numbers(chunk, label, booleans=True)
                checks.append((label, "0 or 1", empty | np.isin(y, (0.0, 1.0))))
            keep = run._sort_out(chunk, checks)
            run.raise_fault()
            used = slice(None) if keep is None else keep
            yield chunk, keep, p[used], None if y is None else y[used]

    def fresh() -> _Run:
        return _Run(losses.get_mean("log"), prob, "", None, None, on_error, binary=True)

    columns = [prob] if label is None else [prob, label]
    run = fresh()
    with _data_errors(table, output, lambda: run.written):
        with tables.open_table(table, columns, new=column, format=kind) as source:
            parts = [(p, y) for _, _, p, y in examined(source, run)]
        p = np.concatenate([np.empty(0), *(p for p, _ in parts)])
        decision = maximize(p, goal)
        again = fresh()
        with (
            tables.open_table(table, columns, new=column, format=kind) as source,
            output,
            source.writer(output) as writer,
        ):
            for chunk, keep, values, _ in examined(source, again):
                chosen = decision.labels[run.written : run.written + len(values)]
                writer.write(chunk, chosen.astype(np.float64), keep)
                run.written += len(values)
        _tell_decision(run, decision, metric)
        if label is not None:
            y = np.concatenate([np.empty(0), *(y for _, y in parts if y is not None)])
            _tell_reached(goal, metric, decision.labels, y)
        if picture is not None:
            _draw_utility(picture, p, metric)


_SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="STORE|TABLE",
        help="What `calibrate --state` keeps, or a calibrated table (CSV, NDJSON, Parquet).",
        show_default=False,
    ),
]
_ScoreOption = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar="COLUMN",
        help="The scores before. A store knows.",
        rich_help_panel=_COLUMNS,
    ),
]
_KnownLabelOption = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COLUMN",
        help="What came true: 0 and 1, true and false. Empty: not known. A store knows.",
        rich_help_panel=_COLUMNS,
    ),
]
_CalibratedOption = Annotated[
    str,
    typer.Option(
        "--column",
        metavar="NAME",
        help="The probabilities after. A store knows.",
        rich_help_panel=_COLUMNS,
    ),
]


@app.command(
    epilog=_examples(
        "streamcal report calibrated.csv --score p --label y --out report.html",
        "streamcal report run.db --out report.html",
    )
)
def report(
    source: _SourceArgument,
    score: _ScoreOption = None,
    label: _KnownLabelOption = None,
    column: _CalibratedOption = "calibrated",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="HTML", help="The page.", rich_help_panel=_RUN),
    ] = Path("report.html"),
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
) -> None:
    """Write a page about a calibrated stream: one file, which loads nothing from anywhere.

    Reliability before and after, scores and their parts, miscalibration over time; of a store also
    what each of its learners holds, and its output table as far as it is written.
    """
    from streamcal.tables import Output

    with _usage_errors():
        if not out.parent.is_dir():
            raise ValueError(f"there is no folder {out.parent} for {out.name}")
        output = Output(out)
        build, _ = _reporter(source, score, label, column, file_format, on_error)
    with _data_errors(source):
        pairs = product([out, *_partial(output)], _files_of_report(source))
        if any(_is_same(written, read) for written, read in pairs):
            raise _fail(f"--out {out} is what the report is of: the page would replace it", 2)
        from streamcal.report import page

        html = page.render(build()).encode()
        with output as file:
            file.write(html)
        _say(f"{out}: {len(html) / 1e6:.1f} MB")


@app.command(epilog=_examples("streamcal watch run.db", "streamcal watch run.db --port 8080"))
def watch(
    source: _SourceArgument,
    score: _ScoreOption = None,
    label: _KnownLabelOption = None,
    column: _CalibratedOption = "calibrated",
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.", rich_help_panel=_RUN),
    ] = 8765,
    file_format: _FormatOption = None,
    on_error: _OnErrorOption = _OnError.stop,
) -> None:
    """Serve the same page on this machine, up to date while a stream runs; Ctrl-C ends it.

    The store is only read. No other machine can see the page.
    """
    from streamcal.tables import is_standard

    with _usage_errors():
        if is_standard(source):
            raise ValueError("standard input can't be watched: it is read once")
        build, stamp = _reporter(source, score, label, column, file_format, on_error)
    with _data_errors(source):
        from streamcal.report.watch import HOST, Server, Source

        pages = Source(build, stamp)
        pages.report()
        try:
            server = Server(pages, port)
        except OSError as error:
            raise _fail(f"--port {port} of {HOST} can't be used: {error.strerror}", 2) from None
        with server:
            _say(f"{server.url} shows {source}; Ctrl-C ends")
            with contextlib.suppress(KeyboardInterrupt):
                server.serve_forever(poll_interval=0.2)


@app.command(epilog=_examples("streamcal demo --out pictures"))
def demo(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", file_okay=False, help="Where pictures go."),
    ] = Path("."),
) -> None:
    """Calibrate river models on the streams that ship with river: a table and a picture."""
    from streamcal import demo as experiment
    from streamcal.tables import standard_output

    with _data_errors(out):
        standard_output()
        experiment.run(out)


@dataclass(slots=True)
class _Rows:
    """The rows of a chunk that are used; arrays of shape ``(n_rows,)``.

    ``scores`` has a second axis where several columns were asked for; ``labels`` are NaN where they
    are not known; ``keep`` marks these rows in the chunk, None if they are all of it.
    """

    scores: NDArray[np.float64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    groups: "Groups"
    keep: NDArray[np.bool_] | None


@dataclass
class _Run:
    """Checks the rows of a table, and counts what came of them."""

    loss: "MeanLoss"
    score: str | list[str]
    label: str
    weight: str | None
    key: str | None
    on_error: _OnError
    binary: bool = False
    ordinal: bool = False
    raw: str = ""  # of binary ones the column of scores that need not be probabilities
    checkpoint: "Checkpoint | None" = None
    row: int = 0
    written: int = 0
    unlabelled: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    fault: "Fault | None" = None

    def examine(self, chunk: "Chunk") -> _Rows:
        """Return the rows to use: with "stop" those before the first bad row, which is noted."""
        names = [self.score] if isinstance(self.score, str) else self.score
        # What each column must be, in words for a message and for a count, and where it is not so.
        checks: list[tuple[str, str, NDArray[np.bool_]]] = []
        scores = []
        for name in names:
            values, _ = _numbers(chunk, name)
            scores.append(values)
            if self.binary and name != self.raw:
                checks.append((name, "a probability in [0, 1]", (values >= 0.0) & (values <= 1.0)))
            else:
                checks.append((name, "a finite number", np.isfinite(values)))
        labels, empty = _numbers(chunk, self.label, booleans=True)
        if self.binary:
            valid, what = np.isin(labels, (0.0, 1.0)), "0 or 1"
        elif self.ordinal:
            valid = (labels >= 1.0) & (labels <= MOST_LABELS) & (labels == np.floor(labels))
            what = f"an int from 1 to {MOST_LABELS}"
        else:
            valid = self.loss.y_range.contains(labels)
            what = f"in {self.loss.y_range} for the {self.loss.name} loss"
        checks.append((self.label, what, empty | valid))
        with np.errstate(all="ignore"):
            small = np.abs(self.loss.statistic(labels)) <= LARGEST
        what = f"small enough for the {self.loss.name} loss (its statistic at most {LARGEST:g})"
        checks.append((self.label, what, empty | small))
        if self.weight is None:
            weights = np.ones(len(chunk))
        else:
            weights, _ = _numbers(chunk, self.weight)
            valid = (weights > 0.0) & (weights < np.inf)
            checks.append((self.weight, "a positive finite number", valid))
            valid = (weights >= SMALLEST) & (weights <= LARGEST)
            checks.append((self.weight, f"from {SMALLEST:g} to {LARGEST:g}", valid))

        keep = self._sort_out(chunk, checks)
        matrix = scores[0] if isinstance(self.score, str) else np.column_stack(scores)
        keys = chunk.columns[self.key] if self.key is not None else None
        if keep is not None:
            matrix, labels, weights = matrix[keep], labels[keep], weights[keep]
            if keys is not None:
                keys = _filter(keys, keep)
        self.unlabelled += int(np.isnan(labels).sum())
        numbers = chunk.rows if keep is None else chunk.rows[keep]
        groups = {None: slice(None)} if self.key is None else _group(self.key, keys)
        if self.checkpoint is not None:
            sums = [] if self.key is None else [_checksums(groups, len(numbers))]
            new = self.checkpoint.new(numbers, matrix, labels, weights, *sums)
            if not new.all():
                matrix, labels, weights = matrix[new], labels[new], weights[new]
                numbers = numbers[new]
                if self.key is not None:
                    groups = _group(self.key, _filter(keys, new))
                keep = np.isin(chunk.rows, numbers)
        if len(numbers):
            self.row = int(numbers[-1])
        return _Rows(matrix, labels, weights, groups, keep)

    def _sort_out(
        self, chunk: "Chunk", checks: Sequence[tuple[str, str, NDArray[np.bool_]]]
    ) -> NDArray[np.bool_] | None:
        """Note the bad rows of a chunk; return the mask of those to use, None if that is all."""
        from streamcal.tables import Fault

        keep: NDArray[np.bool_] = np.logical_and.reduce([good for _, _, good in checks])
        if keep.all() and not chunk.faults:
            return None
        faults = list(chunk.faults)
        for i in np.flatnonzero(~keep).tolist():
            name, what, _ = next(check for check in checks if not check[2][i])
            message = f"row {chunk.rows[i]}: `{name}` must be {what}, got {chunk.show(name, i)}"
            faults.append(Fault(int(chunk.rows[i]), f"`{name}` is not {what}", message))
        faults.sort(key=lambda fault: fault.row)
        if self.on_error is _OnError.stop:
            self.fault = faults[0]
            keep &= chunk.rows < faults[0].row
            return keep
        for fault in faults:
            self.skipped[fault.reason] += 1
            self.examples.setdefault(fault.reason, fault.message)
        return keep

    def raise_fault(self) -> None:
        """Raise `TableError` if a bad row has ended the run."""
        from streamcal.tables import TableError

        if self.fault is not None:
            raise TableError(self.fault.message)


def _numbers(
    chunk: "Chunk", name: str, *, booleans: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers of a column and where it is empty; errors name the column."""
    from streamcal.tables import TableError, as_numbers

    try:
        return as_numbers(chunk.columns[name], booleans=booleans)
    except TableError as error:
        raise TableError(f"column `{name}` {error}") from None


def _filter(column: Any, keep: NDArray[np.bool_]) -> Any:
    if isinstance(column, list):
        return [value for value, kept in zip(column, keep, strict=True) if kept]
    return column.filter(keep)


def _group(name: str, keys: Any) -> "Groups":
    """Return the distinct keys, each with the positions of its rows in order.

    Keys are compared as text (in NDJSON as JSON text, so that 1 and "1" differ); empty is one too.
    """
    import pyarrow as pa

    from streamcal.tables import TableError

    if isinstance(keys, list):
        keys = pa.array([json.dumps(key, sort_keys=True) for key in keys], pa.large_string())
    try:
        encoded = keys.cast(pa.large_string()).dictionary_encode(null_encoding="encode")
    except pa.ArrowException:
        raise TableError(f"column `{name}` can't be a key: its type is {keys.type}") from None
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes, np.arange(len(encoded.dictionary) + 1), sorter=order)
    return {
        key: order[start:stop]
        for key, (start, stop) in zip(
            encoded.dictionary.to_pylist(), pairwise(bounds.tolist()), strict=True
        )
    }


def _checksums(groups: "Groups", n: int) -> NDArray[np.float64]:
    """Return a checksum of the key of each of ``n`` rows."""
    sums = np.empty(n)
    for key, at in groups.items():
        sums[at] = -1.0 if key is None else zlib.crc32(key.encode())
    return sums


class _Totals:
    """Mean losses of raw scores and calibrated values over the labelled rows."""

    def __init__(self, loss: "Loss") -> None:
        self.loss = loss
        self.rows = 0
        self.binary = True
        self.probabilities = True
        self._in_range = True
        self._weight = 0.0
        self._log, self._brier, self._own = np.zeros(2), np.zeros(2), np.zeros(2)

    def add(self, scored: NDArray[np.float64]) -> None:
        """Count rows of (raw, calibrated, label, weight), shape ``(n_rows, 4)``."""
        if not len(scored):
            return
        raw, _, y, w = scored.T
        self.rows += len(scored)
        self.binary = self.binary and bool(np.isin(y, (0.0, 1.0)).all())
        self.probabilities = self.probabilities and bool(((raw >= 0.0) & (raw <= 1.0)).all())
        self._in_range = self._in_range and self.loss.z_range.contains_all(raw)
        self._weight += float(w.sum())
        for k, z in enumerate(scored.T[:2]):
            if self.binary and (k or self.probabilities):
                self._log[k] += np.sum(w * log_losses(y, z))
                self._brier[k] += np.sum(w * np.square(z - y))
            if not self.binary and (k or self._in_range):
                self._own[k] += np.sum(w * self.loss(z, y))

    def sums(self, written: int) -> dict[str, Any]:
        """Return all that is counted, and how many rows are written, as JSON."""
        flags = [self.binary, self.probabilities, self._in_range]
        losses = [sums.tolist() for sums in (self._log, self._brier, self._own)]
        counts = [written, self.rows]
        return {"counts": counts, "flags": flags, "weight": self._weight, "losses": losses}

    def take_over(self, sums: dict[str, Any], row: int) -> int:
        """Go on from what `sums` returned at a row; return how many rows were written.

        Raises
        ------
        ValueError
            If it is not what `sums` returned; nothing but at row 0 may be nothing.
        """
        if not sums and not row:
            return 0
        try:
            counts, flags, losses = sums["counts"], sums["flags"], sums["losses"]
            numbers = [sums["weight"], *(number for pair in losses for number in pair)]
            fits = (
                [len(part) for part in (counts, flags, *losses)] == [2, 3, 2, 2, 2]
                and all(type(count) is int and 0 <= count <= row for count in counts)
                and all(isinstance(flag, bool) for flag in flags)
                and all(type(number) in (int, float) for number in numbers)
            )
        except (KeyError, TypeError):
            fits = False
        if not fits:
            raise ValueError(f"is {sums!r}")
        written, self.rows = counts
        self.binary, self.probabilities, self._in_range = flags
        self._weight = sums["weight"]
        self._log, self._brier, self._own = (np.array(pair, float) for pair in losses)
        return int(written)

    def lines(self) -> Iterator[str]:
        """Yield a line for each mean loss that makes sense for these labels."""
        if not self.rows:
            return
        if self.binary:
            yield f"{self._line('log loss', self._log, self.probabilities)}  ({RULE})"
            yield self._line("Brier score", self._brier, self.probabilities)
        else:
            yield self._line(f"{self.loss.name} loss", self._own, self._in_range)

    def _line(self, name: str, sums: NDArray[np.float64], comparable: bool) -> str:
        raw, calibrated = (sums / self._weight).tolist()
        before = f"{raw:.4f}" if comparable else "(raw scores out of range)"
        return f"  {name:<12} {before} -> {calibrated:.4f}"


class _Sample:
    """A uniform sample of rows without replacement, in their order; memory is bounded.

    Each row draws a number, and the rows with the smallest are kept.
    """

    def __init__(self, width: int, capacity: int = SAMPLE_ROWS) -> None:
        self.seen = 0
        self._capacity = capacity
        self._random = np.random.default_rng(0)
        self._limit = 1.0
        self._parts = [np.empty((0, width + 1))]

    def add(self, rows: NDArray[np.float64]) -> None:
        """Offer rows, shape ``(n_rows, width)``."""
        self.seen += len(rows)
        draws = self._random.random(len(rows))
        chosen = draws < self._limit
        self._parts.append(np.column_stack([draws[chosen], rows[chosen]]))
        if sum(map(len, self._parts)) > 1.25 * self._capacity:
            self._shrink()

    def rows(self) -> NDArray[np.float64]:
        """Return the sample, shape ``(at most capacity, width)``."""
        return self._shrink()[:, 1:]

    def _shrink(self) -> NDArray[np.float64]:
        rows = np.concatenate(self._parts)
        if len(rows) > self._capacity:
            chosen = np.argpartition(rows[:, 0], self._capacity - 1)[: self._capacity]
            rows = rows[np.sort(chosen)]
            self._limit = float(rows[:, 0].max())
        self._parts = [rows]
        return rows


def _reporter(
    source: Path,
    score: str | None,
    label: str | None,
    column: str,
    file_format: _Format | None,
    on_error: _OnError,
) -> tuple[Callable[[], "Report"], Callable[[], Hashable]]:
    """Return what computes a report, and what returns a stamp that changes when that would."""
    from streamcal import tables
    from streamcal.report.content import Report, Section
    from streamcal.report.sections import of_store, of_table
    from streamcal.resume import check_notes
    from streamcal.store import Store, is_store

    _check_there(source)

    def of_source() -> Report:
        scored = _read_scored(source, kind, score or "", column, label or "", on_error)
        return Report(
            f"Calibration of {source.name}",
            f"{source}: {score} before, {column} after, {label} came true",
            tuple(of_table(scored, score or "", column)),
        )

    def of_run() -> Report:
        with Store(source, read_only=True) as store:
            found, notes = of_store(store), store.notes
            if "table" in notes and "out" in notes:
                check_notes(store)
        told = f"{source}"
        if "table" in notes and "out" in notes:
            state = "finished" if notes["finished"] else "not finished yet"
            told = f"{source}: the run over {notes['table']}, {state}, at row {notes['row']:,}"
            options, path = notes["options"], Path(notes["out"])
            if not notes["finished"]:
                path = path.with_name(f"{path.name}.partial")
            try:
                scored = _read_scored(
                    path,
                    tables.format_of(Path(notes["out"]), Path(notes["table"])),
                    options["--score"],
                    options["--column"],
                    options["--label"],
                    _OnError(options["--on-error"]),
                    limit=notes["sums"].get("counts", [0])[0],  # none of a run that has just begun
                )
                parts = of_table(scored, options["--score"], options["--column"])
                found = [*parts, *found]
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                found.insert(0, Section("output", "Output", f"{path} is not shown: {reason}."))
        return Report(f"Calibration: {source.name}", told, tuple(found))

    if is_store(source):
        return of_run, lambda: _stamps(source, source.with_name(f"{source.name}-wal"))
    if score is None or label is None:
        raise ValueError("a table needs --score and --label")
    kind = tables.format_of(source, given=file_format)
    return of_source, lambda: _stamps(source)


def _stamps(*paths: Path) -> Hashable:
    """Return what changes when one of these files is written."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _read_scored(
    table: Path,
    kind: str,
    score: str,
    column: str,
    label: str,
    on_error: _OnError,
    limit: int | None = None,
) -> "Scored":
    """Return the labelled ones of the first ``limit`` rows of a table."""
    from streamcal import losses, tables
    from streamcal.report.sections import Scored

    run = _Run(
        losses.get_mean("log"), [score, column], label, None, None, on_error, binary=True, raw=score
    )
    parts, left = [np.empty((0, 4))], limit
    with (
        tables.open_table(table, [score, column, label], format=kind) as source,
        _progress(source, "reading") as show,
    ):
        for chunk in source:
            rows = run.examine(chunk)
            run.raise_fault()
            numbers = chunk.rows if rows.keep is None else chunk.rows[rows.keep]
            part = np.column_stack([rows.scores, rows.labels, numbers])[:left]
            parts.append(part[~np.isnan(part[:, 2])])
            show()
            if left is not None:
                left -= len(part)
                if left <= 0:
                    break
    if not sum(map(len, parts)):
        raise tables.TableError("has no labelled rows: there is nothing to report")
    if limit is None:
        _tell_skipped(run)
    return Scored(*np.concatenate(parts).T)


def _check_there(table: Path) -> None:
    """Raise ``ValueError`` unless something can be read under that name."""
    from streamcal.tables import is_standard

    if not is_standard(table) and (table.is_dir() or not table.exists()):
        raise ValueError(f"there is no file {table}")


def _check_apart(
    table: Path,
    *,
    output: "Output | None" = None,
    picture: Path | None = None,
    state: Path | None = None,
) -> None:
    """Raise ``ValueError`` if one file would be written in the place of another.

    A table may be replaced by its own output, unless the run may have to read it again.
    """
    from streamcal.resume import files_of_store
    from streamcal.tables import is_standard

    files: dict[str, list[Path]] = {}
    if not is_standard(table):
        files["the table"] = [table]
    if state is not None:
        files["--state"] = files_of_store(state)
    if picture is not None:
        files["the picture"] = [picture]
    if output is not None:
        files["--out"] = [output.path, *_partial(output)]
    for (role, paths), (other_role, others) in combinations(files.items(), 2):
        for path, other in product(paths, others):
            if state is None and role == "the table" and output and other == output.path:
                continue
            if _is_same(path, other):
                raise ValueError(
                    f"{other_role} ({other}) must be another file than {role} ({path})"
                )


def _partial(output: "Output") -> list[Path]:
    return [] if output.partial is None else [output.partial]


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two names are those of one file, be it there or not."""
    one, other = (Path(os.path.realpath(path)) for path in (one, other))
    if os.path.exists(one) or os.path.exists(other):
        return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
    # Upper and lower case may be the same to the file system.
    return str(one).casefold() == str(other).casefold()


def _files_of_report(source: Path) -> list[Path]:
    """Return the files that a report is made of."""
    from streamcal.resume import files_of_store
    from streamcal.store import Store, is_store

    if not is_store(source):
        return [source]
    with Store(source, read_only=True) as store:
        notes = store.notes
    named = [Path(notes[name]) for name in ("table", "out") if name in notes]
    return [
        *files_of_store(source),
        *named,
        *(path.with_name(f"{path.name}.partial") for path in named),
    ]


def _check_resumable(out: Path, kind: str, report: Path | None) -> None:
    """Raise ``ValueError`` unless a run with --state can write this."""
    from streamcal.tables import is_standard

    if is_standard(out) or not (out.is_file() or not out.exists()):
        raise ValueError("--state needs --out FILE: what has gone into a pipe can't be cut back")
    if kind == "parquet":
        raise ValueError("--state needs CSV or NDJSON: a Parquet file has its index at the end")
    if report is not None:
        raise ValueError("--state has no --report: draw it with `streamcal plot` when all is done")


def _check_drawable(path: Path) -> None:
    """Raise ``ValueError`` now rather than after hours of work."""
    if path.suffix.lower() not in _DRAWABLE:
        raise ValueError(f"a picture must end in {', '.join(_DRAWABLE)}, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for {path.name}")


def _report(path: Path, totals: _Totals, sample: _Sample, score: str, column: str) -> None:
    """Draw raw against calibrated."""
    from streamcal.tables import TableError

    if not totals.rows:
        raise TableError(f"no row has a label, so there is no {path}")
    if not totals.binary:
        raise TableError(f"some labels are neither 0 nor 1, so there is no {path}")
    raw, calibrated, labels = sample.rows().T
    curves = {score: raw} if totals.probabilities else {}
    _draw(path, labels, {**curves, column: calibrated}, sample.seen)


def _draw(
    path: Path, labels: NDArray[np.float64], curves: dict[str, NDArray[np.float64]], seen: int
) -> None:
    """Draw a reliability diagram with one curve per column, every row counted once."""
    from matplotlib.figure import Figure

    from streamcal.plot import ReliabilityDisplay

    # A figure of its own needs no pyplot, and so no window system.
    figure = Figure(figsize=(5.6, 6.2), layout="constrained", dpi=150)
    happened = labels == 1.0
    if len(curves) == 1:
        ((name, values),) = curves.items()
        ReliabilityDisplay.from_predictions(happened, values, name=name, ax=figure.subplots())
    else:
        models = {name: (happened, values) for name, values in curves.items()}
        ReliabilityDisplay.from_models(models, ax=figure.subplots())
    figure.savefig(path)
    drawn = _count(seen)
    if seen > len(labels):
        drawn = f"a uniform sample of {len(labels):,} of {drawn}"
    _say(f"{path}: drawn from {drawn}")


def _count(n: int) -> str:
    return f"{n:,} row" if n == 1 else f"{n:,} rows"


def _tell(run: _Run, bank: "KeyedCalibrator", totals: _Totals) -> None:
    """Print the summary of a run."""
    parts = [f"{_count(run.written)} calibrated"]
    if run.unlabelled:
        parts.append(f"{run.unlabelled:,} of them without a label")
    if run.key is not None:
        parts.append(f"{len(bank):,} keys")
    _say(", ".join(parts))
    _tell_skipped(run)
    for line in totals.lines():
        _say(line)


def _tell_decision(run: _Run, decision: "Decision", metric: str) -> None:
    """Print what was decided."""
    if decision.threshold is None:
        where = "of equal rows the first ones"
    else:
        where = f"from {decision.threshold:.6g} up"
    _say(f"{_count(run.written)} decided, {decision.k:,} of them 1 ({where})")
    _tell_skipped(run)
    _say(f"  expected {metric} {decision.expected:.6f} (± {decision.bound:.0e})")


def _tell_reached(
    goal: "Metric", metric: str, chosen: NDArray[np.bool_], y: NDArray[np.float64]
) -> None:
    """Print the metric of the decisions whose label is known."""
    known = ~np.isnan(y)
    chosen, hits = chosen[known], y[known] == 1.0
    tables = (chosen & hits, chosen & ~hits, ~chosen & hits, ~chosen & ~hits)
    reached = goal(*(int(cell.sum()) for cell in tables))
    _say(f"  reached {metric} {reached:.6f}, {_count(int(known.sum()))} with a label")


def _draw_utility(path: Path, p: NDArray[np.float64], metric: str) -> None:
    """Draw the curve that was decided on."""
    from matplotlib.figure import Figure

    from streamcal.plot import UtilityCurveDisplay

    figure = Figure(figsize=(6.4, 4.0), layout="constrained", dpi=150)
    UtilityCurveDisplay.from_probabilities(p, metric, ax=figure.subplots())
    figure.savefig(path)
    _say(f"{path}: drawn from {_count(len(p))}")


def _tell_skipped(run: _Run) -> None:
    if run.skipped:
        _say(f"{_count(run.skipped.total())} skipped")
    for reason, count in run.skipped.most_common():
        _say(f"  {count:,} where {reason}, first {run.examples[reason]}")


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _fail(message: str, status: int) -> typer.Exit:
    _say(f"streamcal: {message}")
    return typer.Exit(status)


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    """Turn what is wrong with an option or the name of a file into a line and status 2."""
    try:
        yield
    except ValueError as error:
        raise _fail(str(error), 2) from None
    except OSError as error:
        raise _fail(f"{error.filename}: {error.strerror}", 2) from None


@contextlib.contextmanager
def _data_errors(
    table: Path, output: "Output | None" = None, written: Callable[[], int] = int
) -> Iterator[None]:
    """Turn what is wrong with data, disk or patience into a line and status 1 (or 130).

    The line says what has become of the output.
    """
    from streamcal.store import Stopped, StoreError
    from streamcal.tables import TableError, is_standard

    def state() -> str:
        if output is None or not output.begun:
            return ""
        rows = _count(written())
        if output.partial is None:
            return f"; the output is incomplete, it has {rows}"
        return f"; the incomplete output, {rows}, is in {output.partial}"

    name = "standard input" if is_standard(table) else str(table)
    try:
        yield
    except TableError as error:
        raise _fail(f"{name}: {error}{state()}", 1) from None
    except StoreError as error:
        raise _fail(f"{error}{state()}", 1) from None
    except BrokenPipeError:
        # Whoever read standard output has seen enough; nothing may be flushed to it at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _fail(f"{where}{error.strerror or error}{state()}", 1) from None
    except Stopped as error:
        raise _fail(f"{error}{state()}", error.status) from None
    except KeyboardInterrupt:
        raise _fail(f"interrupted{state()}", 130) from None


@contextlib.contextmanager
def _progress(source: "Reader", doing: str) -> Iterator[Callable[[], None]]:
    """Show a progress bar while a person is looking; yields what brings it up to date."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount = DownloadColumn() if source.unit == "bytes" else MofNCompleteColumn()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(doing, total=source.size)
        yield lambda: bar.update(task, completed=source.position)
