"""Arguments and options that several commands have, and what makes the others."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

COLUMNS, CALIBRATOR, THRESHOLDS, FILES = "Columns", "Calibrator", "Thresholds", "Files"
"""The panels of the help."""


class Format(StrEnum):
    """The formats of tables."""

    csv = "csv"
    ndjson = "ndjson"
    parquet = "parquet"


class OnError(StrEnum):
    """What is done about bad rows."""

    stop = "stop"
    skip = "skip"


def column_option(help: str, *names: str) -> Any:
    """Return an option that names a column of the table."""
    return typer.Option(
        *names, metavar="COLUMN", help=help, show_default=False, rich_help_panel=COLUMNS
    )


def new_column_option(help: str) -> Any:
    """Return an option that names a column and has a default."""
    return typer.Option("--column", metavar="NAME", help=help, rich_help_panel=COLUMNS)


def setting(panel: str, help: str, **more: Any) -> Any:
    """Return an option of a calibrator or of thresholds."""
    return typer.Option(help=help, rich_help_panel=panel, **more)


def out_option(metavar: str, help: str, **more: Any) -> Any:
    """Return the option that says where the result goes."""
    return typer.Option("--out", "-o", metavar=metavar, help=help, rich_help_panel=FILES, **more)


def picture_option(help: str) -> Any:
    """Return the option that has a picture drawn."""
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
LabelOption = Annotated[
    str,
    column_option(
        "What came true: 0 and 1, true and false, or numbers in the loss's range. "
        "Empty: not known.",
        "--label",
    ),
]
WeightOption = Annotated[
    str | None, column_option("The weight of each row, a positive number.", "--weight")
]
NewColumnOption = Annotated[str, new_column_option("The name of the new column.")]
OutTableOption = Annotated[
    Path, out_option("TABLE", "Where the table with the new column goes; `-` is standard output.")
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Of input and output. Default: by the file's ending, else csv.",
        rich_help_panel=FILES,
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        help="Whether a bad row ends the run or is left out and counted.",
        rich_help_panel=FILES,
    ),
]

# Of `report` and `watch`, which read a store as well as a table.
SourceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="STORE|TABLE",
        help="A store of `calibrate --state`, or a calibrated table (CSV, NDJSON, Parquet).",
        show_default=False,
    ),
]
KnownScoreOption = Annotated[
    str | None, column_option("The scores before calibration. A store knows them.", "--score")
]
KnownLabelOption = Annotated[
    str | None,
    column_option(
        "What came true: 0 and 1, true and false. Empty: not known. A store knows them.", "--label"
    ),
]
KnownColumnOption = Annotated[
    str, new_column_option("The probabilities after calibration. A store knows them.")
]
