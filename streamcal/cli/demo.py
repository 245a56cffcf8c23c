"""``streamcal demo``: the table of `streamcal.cli.demo_table`, and a picture."""

from pathlib import Path
from typing import Annotated

import typer

from streamcal.cli.console import data_errors

EXAMPLES = ("streamcal demo --out pictures",)


def demo(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", file_okay=False, help="Where pictures go."),
    ] = Path("."),
) -> None:
    """Calibrate river models on the streams that ship with river: a table and a picture."""
    from streamcal.cli import demo_table
    from streamcal.tables import standard_output

    with data_errors(out):
        standard_output()
        demo_table.run(out)
