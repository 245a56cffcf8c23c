"""``streamcal thresholds``: the thresholds that cut a score into ordinal labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from streamcal._validation import check_choice
from streamcal.cli.console import count_rows, data_errors, name_option, progress, usage_errors
from streamcal.cli.files import check_files
from streamcal.cli.image_files import picture
from streamcal.cli.options import (
    THRESHOLDS,
    FormatOption,
    JsonOption,
    OnError,
    OnErrorOption,
    QuietOption,
    TableArgument,
    WeightOption,
    column_option,
    picture_option,
    setting,
)
from streamcal.cli.rows import RowReader, ordinal_label_column, score_column, weight_column
from streamcal.cli.summary import Summary

if TYPE_CHECKING:
    from streamcal.ordinal import Thresholds

EXAMPLES = (
    "streamcal thresholds scores.csv --score s --label stars",
    "streamcal thresholds scores.csv --score s --label y --loss zero-one --plot cuts.png",
)

Vector = NDArray[np.float64]
LOSSES = ("absolute", "squared", "zero-one", "quadratic-kappa")
_LOSS = "What is minimised: absolute, squared or zero-one; quadratic-kappa is maximised."
_BALANCED = "Give each label the same total weight: the macro-averaged loss."


def thresholds(
    table: TableArgument,
    score: Annotated[str, column_option("The model's score, any number.")],
    label: Annotated[
        str, column_option("The ordinal label, an int from 1. Rows without one are left out.")
    ],
    weight: WeightOption = None,
    loss: Annotated[str, setting(THRESHOLDS, _LOSS, metavar="NAME")] = "absolute",
    n_labels: Annotated[
        int | None,
        setting(THRESHOLDS, "The number of labels. Default: the greatest label that occurs."),
    ] = None,
    balanced: Annotated[
        bool, typer.Option("--balanced", help=_BALANCED, rich_help_panel=THRESHOLDS)
    ] = False,
    method: Annotated[
        str, setting(THRESHOLDS, "auto, dp, io, blocked-io, divide or subsequence.", metavar="NAME")
    ] = "auto",
    n_jobs: Annotated[
        int, setting(THRESHOLDS, "The number of processes for io, from 10^9 cells on.", min=1)
    ] = 1,
    plot: Annotated[Path | None, picture_option("Draw score densities and thresholds")] = None,
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Find the thresholds that cut a score into ordinal labels at the least loss.

    Prints K - 1 thresholds for K labels, one in each line. A score gets the label 1 plus the number
    of thresholds that are not above it. Their loss is printed on standard error.
    """
    with usage_errors():
        check_files(table, picture=plot)
        summary = Summary(quiet=quiet, as_json=json)
    from streamcal.losses.names import aliases_of
    from streamcal.ordinal import optimal_thresholds
    from streamcal.tables.open import format_of
    from streamcal.tables.output import standard_output

    with usage_errors():
        kind = format_of(table, given=file_format)
        check_choice(loss, "loss", LOSSES, aliases_of(LOSSES))
        names: Any = {"loss": loss, "method": method}  # or the next line raises
        optimal_thresholds([0.0, 1.0], [1, 2], n_labels, **names)
    columns = [score_column(score), ordinal_label_column(label, n_labels), weight_column(weight)]
    reader = RowReader(columns, on_error)
    with data_errors(table), summary:
        standard_output()  # raises now if it is closed, not after all the work
        scores, labels, weights = _read(table, kind, reader, quiet)
        found = _find(
            scores,
            labels,
            n_labels,
            loss=loss,
            w=None if weight is None else weights,
            class_weight="balanced" if balanced else None,
            method=method,
            n_jobs=n_jobs,
        )
        for threshold in found.thresholds.tolist():
            typer.echo(threshold)
        summary.add_skipped(reader)
        _add_loss(summary, found, len(scores), loss, balanced, float(weights.sum()))
        if plot is not None:
            _draw(plot, scores, labels, weights, found)
            n_rows = count_rows(len(scores))
            summary.add(f"{plot}: drawn from {n_rows}", picture=str(plot), drawn=len(scores))


def _read(table: Path, kind: str, reader: RowReader, quiet: bool) -> tuple[Vector, Vector, Vector]:
    """Return scores, labels and weights of the labelled rows."""
    from streamcal.tables.base import TableError
    from streamcal.tables.open import open_table

    parts = [np.empty((3, 0))]
    with (
        open_table(table, reader.names, format=kind) as source,
        progress(source, "reading", hidden=quiet) as show,
    ):
        for rows in reader.iterate(source):
            known = ~np.isnan(rows.values[1])
            parts.append(np.stack([values[known] for values in rows.values]))
            show()
    scores, labels, weights = np.concatenate(parts, axis=1)
    if not len(scores):
        raise TableError("has no labelled rows: there is nothing to cut")
    return scores, labels, weights


def _find(*samples: Any, **settings: Any) -> "Thresholds":
    """Return the thresholds; turn errors in samples into errors of the table."""
    from streamcal.ordinal.thresholds import optimal_thresholds
    from streamcal.tables.base import TableError

    try:
        return optimal_thresholds(*samples, **settings)
    except ValueError as error:
        raise TableError(name_option(str(error))) from None


def _add_loss(
    summary: Summary, found: "Thresholds", n_rows: int, loss: str, balanced: bool, weight: float
) -> None:
    certified = "" if found.certified else ", sorted afterwards and not certain to be optimal"
    summary.add(
        f"{count_rows(n_rows)}, {found.n_labels} labels, by {found.method}{certified}",
        rows=n_rows,
        thresholds=found.thresholds.tolist(),
        method=found.method,
        certified=bool(found.certified),
    )
    if loss == "quadratic-kappa":
        kappa = 1.0 - float(found.risk)
        summary.add(f"  quadratic weighted kappa {kappa:.4f}", quadratic_kappa=kappa)
    else:
        name = f"mean {loss} loss" + (", macro-averaged" if balanced else "")
        mean = float(found.risk) / weight
        summary.add(f"  {name} {mean:.4f}", **{f"{loss.replace('-', '_')}_loss": mean})


def _draw(path: Path, scores: Vector, labels: Vector, weights: Vector, found: "Thresholds") -> None:
    from streamcal.plot import ThresholdDisplay

    with picture(path, 6.4, 4.0, "Scores by label, and thresholds") as ax:
        ThresholdDisplay.from_predictions(scores, labels, found, w=weights, ax=ax)
