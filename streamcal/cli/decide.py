"""``streamcal decide``: a column of joint decisions for a whole table."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from streamcal.decision import Decision, Metric
    from streamcal.tables.base import Reader
    from streamcal.tables.output import Output

EXAMPLES = (
    "streamcal decide scores.csv --prob p --metric f1 --out decided.csv",
    "streamcal decide s.parquet --prob p --metric jaccard --label y --out d.parquet",
    "streamcal decide scores.csv --prob p --metric f2 --plot curve.png > decided.csv",
)

Vector = NDArray[np.float64]


def decide(
    table: TableFileArgument,
    prob: Annotated[str, column_option("The calibrated probability of the label 1.")],
    metric: Annotated[
        str,
        typer.Option(metavar="NAME", help="The metric that the decisions maximise, such as f1."),
    ] = "f1",
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
    decision is joint: of all labellings it has the greatest expected metric. It labels the
    likeliest rows 1.
    """
    from streamcal.tables.output import Output, is_standard

    with usage_errors():
        if is_standard(table):
            raise ValueError("the table is read twice, so it can't be standard input")
        output = Output(out)
        check_files(table, output=output, picture=plot)
        summary = Summary(quiet=quiet, as_json=json)
    from streamcal.decision import get_metric, maximize
    from streamcal.tables.open import format_of, open_table

    with usage_errors():
        kind = format_of(table, out, given=file_format)
        goal = get_metric(metric)
    columns = [probability_column(prob), *([] if label is None else [binary_label_column(label)])]
    reader = RowReader(columns, on_error)
    second = _DecisionWriter(RowReader(columns, on_error))

    def table_again() -> "Reader":
        with one_column("decide", prob):
            return open_table(table, reader.names, new_column=new_column, format=kind)

    with data_errors(table, output, lambda: second.n_written), summary:
        with table_again() as source:
            values = _read_columns(reader.iterate(source), len(columns))
        decision = maximize(values[0], goal)
        with table_again() as source, output:
            second.write(source, output, decision.labels)
        _add_decision(summary, reader, decision, metric)
        if label is not None:
            _add_reached(summary, goal, metric, decision.labels, values[1])
        if plot is not None:
            _draw(plot, values[0], metric, summary)


class _DecisionWriter:
    """Reads the table a second time and writes it with the decisions."""

    def __init__(self, reader: RowReader) -> None:
        self.reader = reader
        self.n_written = 0

    def write(self, source: "Reader", output: "Output", decisions: NDArray[np.bool_]) -> None:
        """Write all rows."""
        with source.writer(output) as writer:
            for rows in self.reader.iterate(source):
                end = self.n_written + len(rows.values[0])
                writer.write(
                    rows.chunk, decisions[self.n_written : end].astype(np.float64), rows.keep
                )
                self.n_written = end


def _read_columns(parts: Iterator[Rows], n_columns: int) -> list[Vector]:
    """Return the columns of all rows of a table."""
    values = [[np.empty(0)] * n_columns, *(rows.values for rows in parts)]
    return [np.concatenate(column) for column in zip(*values, strict=True)]


def _add_decision(summary: Summary, reader: RowReader, decision: "Decision", metric: str) -> None:
    if decision.threshold is None:
        where = "of rows with equal probability the first"
    else:
        where = f"from {decision.threshold:.6g} up"
    n_rows = len(decision.labels)
    summary.add(
        f"{count_rows(n_rows)} decided, {decision.k:,} of them 1 ({where})",
        rows=n_rows,
        ones=int(decision.k),
        threshold=decision.threshold,
    )
    summary.add_skipped(reader)
    summary.add(
        f"  expected {metric} {decision.expected:.6f} (± {decision.bound:.0e})",
        metric=metric,
        expected=decision.expected,
        bound=decision.bound,
    )


def _add_reached(
    summary: Summary, goal: "Metric", metric: str, chosen: NDArray[np.bool_], y: Vector
) -> None:
    """Add the metric of the decisions whose label is known."""
    known = ~np.isnan(y)
    chosen, hits = chosen[known], y[known] == 1.0
    tables = (chosen & hits, chosen & ~hits, ~chosen & hits, ~chosen & ~hits)
    reached = goal(*(int(cell.sum()) for cell in tables))
    n_known = int(known.sum())
    summary.add(
        f"  reached {metric} {reached:.6f}, {count_rows(n_known)} with a label",
        reached=reached,
        labelled=n_known,
    )


def _draw(path: Path, p: Vector, metric: str, summary: Summary) -> None:
    """Draw the curve of the expected metric."""
    from streamcal.plot import UtilityCurveDisplay

    name: Any = metric  # a name of a metric: it was maximised
    with picture(path, 6.4, 4.0, "What to label 1") as ax:
        UtilityCurveDisplay.from_probabilities(p, name, ax=ax)
    summary.add(f"{path}: drawn from {count_rows(len(p))}", picture=str(path), drawn=len(p))
