"""New axes for a picture, and the colours of its lines.

Areas have colours of their own, in `weights` and `thresholds`; those of the report are in
`report/page.css`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamcal._extras import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: distinct for all kinds of colour vision, and dark enough on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.")
GRAY = "#555555"


def new_axes(width: float, height: float) -> Axes:
    """Return axes on a new figure of pyplot, with a size in inches.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise missing("a picture", "matplotlib", "plot") from None
    return plt.figure(figsize=(width, height), layout="constrained").subplots()


def line_style(i: int) -> dict[str, Any]:
    """Return colour and line style of the i-th line: all colours first, then another style."""
    return {"color": COLORS[i % len(COLORS)], "linestyle": STYLES[i // len(COLORS) % len(STYLES)]}
