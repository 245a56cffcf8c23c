"""``streamcal demo``: the experiment of `streamcal.cli.experiment`."""

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
    from streamcal.cli import experiment
    from streamcal.tables import standard_output

    with data_errors(out):
        standard_output()
        experiment.run(out)
