"""A picture in a file."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@contextlib.contextmanager
def picture(path: Path, width: float, height: float) -> "Iterator[Axes]":
    """Open axes with a size in inches; write the picture to ``path`` at the end."""
    from matplotlib.figure import Figure

    # Without pyplot, so that no window system is needed.
    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    yield figure.subplots()
    figure.savefig(path)
