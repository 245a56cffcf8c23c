"""``streamcal decide``: a column of joint decisions for a whole table."""

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

from streamcal.cli.console import count_rows, data_errors, usage_errors
from streamcal.cli.files import check_files
from streamcal.cli.image_files import picture
from streamcal.cli.label_columns import one_column
from streamcal.cli.options import (
    DECISION,
    FormatOption,
    JsonOption,
    NewColumnOption,
    OnError,
    OnErrorOption,
    OutTableOption,
    QuietOption,
    TableFileArgument,
    column_option,
    picture_option,
)
from streamcal.cli.rows import RowReader, Rows, binary_label_column, probability_column
from streamcal.cli.summary import Summary

if TYPE_CHECKING:
    from streamcal.decision import Decision
    from streamcal.decision.targets import Goal
    from streamcal.tables.base import Reader
    from streamcal.tables.output import Output

EXAMPLES = (
    "streamcal decide scores.csv --prob p --metric f1 --out decided.csv",
    "streamcal decide s.parquet --prob p --metric jaccard --label y --out d.parquet",
    "streamcal decide scores.csv --prob p --metric f2 --plot curve.png > decided.csv",
    "streamcal decide scores.csv --prob p --metric positives --at-least precision=0.95",
    "streamcal decide scores.csv --prob p --metric coverage --at-least accuracy=0.95 --abstain ask",
)

Vector = NDArray[np.float64]

_WITHOUT_TARGET = {
    "coverage": "without --at-least accuracy=0.95, or another share, all rows are answered",
    "positives": "without --at-least precision=0.95, or another, all rows are labelled 1",
}


def decide(
    table: TableFileArgument,
    prob: Annotated[str, column_option("The calibrated probability of the label 1.")],
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What the decisions maximise: a metric such as f1; positives, the number of ones;"
            " or coverage, the share of rows that get a one or a zero.",
        ),
    ] = "f1",
    at_least: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC=VALUE",
            help="A target: the least that the expectation of a metric may be, such as"
            " precision=0.95; for coverage accuracy=0.95. Can be given more than once.",
        ),
    ] = None,
    at_most: Annotated[
        str | None,
        typer.Option(metavar="positives=NUMBER", help="The most ones that there may be."),
    ] = None,
    abstain: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="What is written in rows that get neither a one nor a zero, with --metric"
            " coverage. Default: nothing.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        column_option("The true label, 0 or 1. It only serves to print the metric reached."),
    ] = None,
    new_column: NewColumnOption = DECISION,
    out: OutTableOption = Path("-"),
    plot: Annotated[
        Path | None, picture_option("Draw the expected metric over the number of ones")
    ] = None,
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Add a column of decisions, 0 or 1, with the best expected metric over the whole table.

    The table is read twice, once to decide and once to write, so it can't be standard input. The
    decision is joint: of all labellings it has the greatest expected metric, of those that keep
    the targets. It labels the likeliest rows 1.
    """
    from streamcal.tables.output import Output, is_standard

    with usage_errors():
        if is_standard(table):
            raise ValueError("the table is read twice, so it can't be standard input")
        output = Output(out)
        check_files(table, output=output, picture=plot)
        summary = Summary(quiet=quiet, as_json=json)
    from streamcal.decision import maximize
    from streamcal.tables.base import TableError
    from streamcal.tables.open import format_of, open_table

    goal = cast("Goal", metric)  # or coverage: what is done with its labels is the same
    with usage_errors():
        kind = format_of(table, out, given=file_format)
        targets = targets_in(at_least or (), at_most)
        if abstain is not None and metric != "coverage":
            raise ValueError(f"--abstain needs --metric coverage, got --metric {metric}")
        if abstain is not None and _reads_as_number(abstain):
            raise ValueError(f"--abstain must be a word that is no number, got {abstain!r}")
        if plot is not None and (targets or metric in ("positives", "coverage")):
            raise ValueError("--plot shows the curve of a metric, and no targets")
        if not targets and metric in _WITHOUT_TARGET:
            raise ValueError(f"--metric {metric} needs a target: {_WITHOUT_TARGET[metric]}")
        with options_in_messages():
            maximize([], goal, subject_to=targets)
    columns = [probability_column(prob), *([] if label is None else [binary_label_column(label)])]
    reader = RowReader(columns, on_error)
    second = _DecisionWriter(RowReader(columns, on_error), abstain or "")

    def table_again() -> "Reader":
        with one_column("decide", prob):
            return open_table(table, reader.names, new_column=new_column, format=kind)

    with data_errors(table, output, lambda: second.n_written), summary:
        with table_again() as source:
            values = _read_columns(reader.iterate(source), len(columns))
        try:
            with options_in_messages():
                decision = maximize(values[0], goal, subject_to=targets)
        except ValueError as error:  # of targets
            raise TableError(str(error)) from None
        labels = decision.labels.astype(np.float64)
        with table_again() as source, output:
            second.write(source, output, labels)
        _add_decision(summary, reader, decision, metric, labels)
        noun = "answer" if metric == "coverage" else "row"
        reached = None if label is None else _Reached(labels, values[1], noun)
        _add_targets(summary, decision, targets, reached)
        if reached is not None:
            reached.add_to(summary, metric)
        if plot is not None:
            _draw(plot, values[0], metric, summary)


class _DecisionWriter:
    """Reads the table a second time and writes it with the decisions."""

    def __init__(self, reader: RowReader, abstain: str) -> None:
        self.reader = reader
        self.abstain = abstain
        self.n_written = 0

    def write(self, source: "Reader", output: "Output", decisions: Vector) -> None:
        """Write all rows."""
        with source.writer(output, self.abstain) as writer:
            for rows in self.reader.iterate(source):
                end = self.n_written + len(rows.values[0])
                writer.write(rows.chunk, decisions[self.n_written : end], rows.keep)
                self.n_written = end


def _reads_as_number(word: str) -> bool:
    """Return whether a report would read a word as a decision, as it does 0, 1.0 and true."""
    from streamcal.tables.numbers import as_numbers

    return not np.isnan(as_numbers([word], booleans=True)[0][0])


def targets_in(at_least: Sequence[str], at_most: str | None) -> dict[str, float]:
    """Return the targets of options, or raise."""
    targets: dict[str, float] = {}
    for text in at_least:
        name, _, value = text.partition("=")
        if name == "positives":
            raise ValueError("--at-least is for metrics; --at-most positives=200 limits the ones")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(
                f"--at-least must be a metric and a number, as in precision=0.95, got {text!r}"
            ) from None
        if name in targets:
            raise ValueError(f"--at-least can be given once for each metric, got {name!r} twice")
        targets[name] = number
    if at_most is not None:
        if not re.fullmatch(r"positives=\d+", at_most):
            raise ValueError(f"--at-most must limit the ones, as in positives=200, got {at_most!r}")
        targets["positives"] = int(at_most.removeprefix("positives="))
    return targets


@contextlib.contextmanager
def options_in_messages() -> Iterator[None]:
    """Name the options of targets in place of the argument."""
    try:
        yield
    except ValueError as error:
        found = re.sub(r"^`subject_to(\['(\w+)'\])?`", r"`--at-least \2`", str(error))
        found = found.replace("`--at-least positives`", "`--at-most positives`")
        raise ValueError(found.replace("`--at-least `", "`--at-least`")) from None


def _read_columns(parts: Iterator[Rows], n_columns: int) -> list[Vector]:
    """Return the columns of all rows of a table."""
    values = [[np.empty(0)] * n_columns, *(rows.values for rows in parts)]
    return [np.concatenate(column) for column in zip(*values, strict=True)]


def _add_decision(
    summary: Summary, reader: RowReader, decision: "Decision[np.bool_]", metric: str, labels: Vector
) -> None:
    n_rows = len(labels)
    if decision.threshold is None:
        where = " (of rows with equal probability the first)"
    else:
        where = f" (from {decision.threshold:.6g} up)" * math.isfinite(decision.threshold)
    if metric == "coverage":
        n_answered = n_rows - int(np.isnan(labels).sum())
        text = f"{count_rows(n_rows)}, {n_answered:,} of them answered{where}"
        summary.add(f"{text}, {decision.k:,} with 1", rows=n_rows, answered=n_answered)
    else:
        text = f"{count_rows(n_rows)} decided, {decision.k:,} of them 1{where}"
        summary.add(text, rows=n_rows)
    summary.add(ones=int(decision.k), threshold=decision.threshold)
    summary.add_skipped(reader)
    expected = f"  expected {metric} {decision.expected:.6f} (± {decision.bound:.0e})"
    summary.add(
        *([] if metric == "positives" else [expected]),
        metric=metric,
        expected=decision.expected,
        bound=decision.bound,
    )


class _Reached:
    """The metrics of the decisions whose label is known; rows without an answer are left out."""

    def __init__(self, labels: Vector, y: Vector, noun: str) -> None:
        known = ~np.isnan(y) & ~np.isnan(labels)
        chosen, hits = labels[known] == 1.0, y[known] == 1.0
        cells = (chosen & hits, chosen & ~hits, ~chosen & hits, ~chosen & ~hits)
        self.table = [int(cell.sum()) for cell in cells]
        self.noun = noun

    @property
    def rows(self) -> str:
        """How many decisions have a label, in words."""
        return f"{count_rows(sum(self.table), self.noun)} with a label"

    def add_to(self, summary: Summary, metric: str) -> None:
        """Add the metric that was maximised."""
        from streamcal.decision import get_metric

        summary.add(labelled=sum(self.table))
        if metric not in ("positives", "coverage"):
            reached = get_metric(metric)(*self.table)
            summary.add(f"  reached {metric} {reached:.6f}, {self.rows}", reached=reached)


def _add_targets(
    summary: Summary,
    decision: "Decision[np.bool_]",
    targets: dict[str, float],
    reached: _Reached | None,
) -> None:
    """Add what the decisions are expected to have of each target, and what they have."""
    from streamcal.decision.targets import as_targets

    found = {}
    for name, target, least in as_targets(targets)[0]:
        expected = decision.subject_to[name]
        text = f"  expected {name} {expected:.6f}, at least {least:g}"
        found[name] = {"at_least": least, "expected": expected}
        if reached is not None:
            found[name]["reached"] = value = target(*reached.table)
            text += f"; reached {value:.6f}, {reached.rows}"
        summary.add(text)
    if found:
        summary.add(targets=found)


def _draw(path: Path, p: Vector, metric: str, summary: Summary) -> None:
    """Draw the curve of the expected metric."""
    from streamcal.plot import UtilityCurveDisplay

    name: Any = metric  # a name of a metric: it was maximised
    with picture(path, 6.4, 4.0, "What to label 1") as ax:
        UtilityCurveDisplay.from_probabilities(p, name, ax=ax)
    summary.add(f"{path}: drawn from {count_rows(len(p))}", picture=str(path), drawn=len(p))
