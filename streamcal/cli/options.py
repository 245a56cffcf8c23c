"""Arguments and options of several commands, and functions that make options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

COLUMNS, CALIBRATOR, THRESHOLDS, FILES = "Columns", "Calibrator", "Thresholds", "Files"
MESSAGES = "Messages"
"""The panels of the help."""

DECISION = "decision"
"""The column that `streamcal decide` adds."""


class Format(StrEnum):
    """The formats of tables."""

    csv = "csv"
    ndjson = "ndjson"
    parquet = "parquet"


class OnError(StrEnum):
    """What happens at a bad row."""

    stop = "stop"
    skip = "skip"


class MeansLoss(StrEnum):
    """The losses of predicted means."""

    squared = "squared"
    poisson = "poisson"
    gamma = "gamma"
    tweedie = "tweedie"


def column_option(
    help: str, *names: str, show_default: bool = False, metavar: str = "COLUMN"
) -> Any:
    """Return an option that names a column of the table."""
    return typer.Option(
        *names, metavar=metavar, help=help, show_default=show_default, rich_help_panel=COLUMNS
    )


def setting(panel: str, help: str, **more: Any) -> Any:
    """Return an option of a calibrator or of thresholds."""
    return typer.Option(help=help, rich_help_panel=panel, **more)


def out_option(metavar: str, help: str, **more: Any) -> Any:
    """Return the option for the output file."""
    return typer.Option("--out", "-o", metavar=metavar, help=help, rich_help_panel=FILES, **more)


def picture_option(help: str) -> Any:
    """Return the option for a picture."""
    return typer.Option(
        "--plot", metavar="IMAGE", help=f"{help} (png, pdf, svg).", rich_help_panel=FILES
    )


TableArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV, NDJSON or Parquet file, or `-` for standard input.",
        show_default=False,
    ),
]
TablesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE",
        help="CSV, NDJSON or Parquet files, or `-` for standard input.",
        show_default=False,
    ),
]
TableFileArgument = Annotated[
    Path, typer.Argument(metavar="TABLE", help="CSV, NDJSON or Parquet file.", show_default=False)
]
LabelOption = Annotated[
    str,
    column_option(
        "The true label: 0 and 1, true and false, or numbers in the range of the loss. "
        "Empty: unknown.",
        "--label",
    ),
]
BinaryLabelOption = Annotated[
    str, column_option("The true label: 0 and 1, true and false. Empty: unknown.", "--label")
]
AnyLabelOption = Annotated[
    str,
    column_option(
        "The true label: 0 and 1, true and false; the name of a label if --prob has several"
        " columns. Empty: unknown.",
        "--label",
    ),
]
WeightOption = Annotated[
    str | None, column_option("The weight of each row, a positive number.", "--weight")
]
NewColumnOption = Annotated[
    str, column_option("The name of the new column.", "--new-column", show_default=True)
]
OutTableOption = Annotated[
    Path, out_option("TABLE", "The table with the new column; `-` is standard output.")
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="The format of tables. Default: by the ending of the file; csv for a pipe.",
        rich_help_panel=FILES,
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        help="Whether a bad row ends the run, or is skipped and counted.",
        rich_help_panel=FILES,
    ),
]

QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print no summary and no progress bar, only errors.",
        rich_help_panel=MESSAGES,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the summary as one line of JSON, on standard error.",
        rich_help_panel=MESSAGES,
    ),
]

# Of `report` and `watch`, which read a store as well as a table.
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="STORE|TABLE",
        help="A store, as of `calibrate --store`, or a calibrated table (CSV, NDJSON, Parquet).",
        show_default=False,
    ),
]
KnownScoreOption = Annotated[
    str | None,
    column_option(
        "The model's score before calibration. For several labels, which may do without: a column"
        " for each, as in raw_a=a,raw_b=b. Not needed for a store.",
        "--score",
    ),
]
KnownLabelOption = Annotated[
    str | None,
    column_option(
        "The true label: 0 and 1, true and false; the name of a label if --prob has several"
        " columns. Empty: unknown. Not needed for a store.",
        "--label",
    ),
]
KnownProbOption = Annotated[
    str | None,
    column_option(
        "The calibrated probability of the label 1; `calibrated` if it is not given. Or the columns"
        " of several labels, as in a,b,c or p_a=a,p_b=b. Not needed for a store.",
        "--prob",
    ),
]
KnownKeyOption = Annotated[
    str | None,
    column_option("Show scores for each value of this column. Not needed for a store.", "--key"),
]
KnownPropensityOption = Annotated[
    str | None,
    column_option(
        "With which probability the label of each row was asked for, at most 1. Only some rows have"
        " a label, and each counts 1 / propensity times: means are estimates for all rows. Not"
        " needed for a store.",
        "--propensity",
    ),
]
KnownTimeOption = Annotated[
    str | None,
    column_option(
        "The time of each row: ISO 8601, such as 2026-03-01T12:30, or seconds since 1970. Rows are"
        " sorted by it, and periods are those of the calendar. Not for a store.",
        "--time",
    ),
]
SinceOption = Annotated[
    str | None,
    column_option(
        "Show the rows since this time beside those before it. Needs --time.",
        "--since",
        metavar="TIME",
    ),
]
MeansLossOption = Annotated[
    MeansLoss | None,
    column_option(
        "Labels are counts or amounts, and predictions are means of these: squared (any numbers),"
        " poisson or tweedie (labels not negative), gamma (positive labels). Not for a store.",
        "--loss",
        metavar="NAME",
    ),
]
PromiseOption = Annotated[
    list[str] | None,
    column_option(
        "A promise: accuracy=0.95 of as many answers as possible, or precision=0.95 of as many"
        " labels 1. Show whether `streamcal decide --at-least` keeps it, and whether the decisions"
        " in the column `decision` do, if there is one. Can be given more than once. Not with"
        " --loss.",
        "--at-least",
        metavar="METRIC=VALUE",
    ),
]
KnownSegmentOption = Annotated[
    list[str] | None,
    column_option(
        "Show the errors for each value of this column, and for pairs of them if it is given more"
        " than once. Not for a store.",
        "--segment",
    ),
]
