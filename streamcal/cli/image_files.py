"""A picture in a file."""

import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextlib.contextmanager
def picture(path: Path, width: float, height: float, title: str) -> "Iterator[Axes]":
    """Open axes with a size in inches and a title; write the picture to ``path`` at the end."""
    from matplotlib.figure import Figure

    # Without pyplot, so that no window system is needed.
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    ax = figure.subplots()
    ax.set_title(title)
    with warnings.catch_warnings():
        # Who looks at the picture sees what the font lacks; on the command line this is noise.
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
        yield ax
        save(figure, path)


def save(figure: "Figure", path: Path) -> None:
    """Write a picture, in the format of its ending; it gets its name when it is complete."""
    from streamcal.tables.output import write_file

    data = io.BytesIO()
    figure.savefig(data, format=path.suffix[1:].lower())
    write_file(path, data.getvalue())
