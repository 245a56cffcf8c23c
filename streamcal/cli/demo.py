"""``streamcal demo``: the table of `streamcal.cli.demo_table`, a picture, and scores to try."""

from pathlib import Path
from typing import Annotated

import typer

from streamcal.cli.console import data_errors

EXAMPLES = ("streamcal demo",)


def demo(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", file_okay=False, help="Where the files go."),
    ] = Path("demo"),
) -> None:
    """Calibrate river models on the streams that ship with river.

    Prints a table, and writes reliability.png and scores.csv, a table for `streamcal calibrate`.
    """
    from streamcal.cli import demo_table
    from streamcal.tables.output import standard_output

    with data_errors(out):
        standard_output()
        demo_table.run(out)
