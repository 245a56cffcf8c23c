"""New axes for a picture, and colours that can be seen on light and on dark axes.

Areas have colours of their own, in `weights`; those of the report are in `report/page.css`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamcal._extras import missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axes._base import _AxesBase
    from matplotlib.figure import Figure

# Okabe and Ito's colours: distinct for all kinds of colour vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777")
STYLES = ("-", "--", ":", "-.")
LEAST_CONTRAST = 3.0
"""The contrast that WCAG 2.2 requires of lines (success criterion 1.4.11)."""

Color = NDArray[np.float64]
"""Red, green and blue in [0, 1], shape ``(3,)``."""


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


def line_style(ax: Axes, i: int) -> dict[str, Any]:
    """Return colour and line style of the i-th line: all colours first, then another style."""
    return {
        "color": visible(ax, COLORS[i % len(COLORS)]),
        "linestyle": STYLES[i // len(COLORS) % len(STYLES)],
    }


def visible(ax: Axes, color: str) -> tuple[float, ...]:
    """Return a colour, mixed with black or white until it contrasts with the background."""
    from matplotlib.colors import to_rgb

    behind, ink = background(ax), np.array(foreground(ax))
    plain = np.array(to_rgb(color))
    for share in np.linspace(0.0, 1.0, 21):
        mixed = (1.0 - share) * plain + share * ink
        if contrast(mixed, behind) >= LEAST_CONTRAST:
            break
    return tuple(mixed.tolist())


def foreground(ax: Axes) -> tuple[float, float, float]:
    """Return black or white: the one that contrasts more with the background."""
    return (0.0, 0.0, 0.0) if _luminance(background(ax)) > 0.18 else (1.0, 1.0, 1.0)


def muted(ax: Axes, share: float = 0.35) -> tuple[float, ...]:
    """Return the foreground, with a share of the background."""
    mixed = (1.0 - share) * np.array(foreground(ax)) + share * background(ax)
    return tuple(mixed.tolist())


def opacity(ax: Axes, share: float) -> float:
    """Return the opacity of an area: that on white, twice as much on a dark background."""
    return share if foreground(ax) == (0.0, 0.0, 0.0) else 2.0 * share


def figure_of(ax: _AxesBase) -> Figure:
    """Return the whole figure of axes, also of those in a subfigure."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def background(ax: Axes) -> Color:
    """Return the colour behind the lines: that of the axes over that of the figure."""
    from matplotlib.colors import to_rgba

    color = np.ones(3)
    for patch in (figure_of(ax), ax):
        *rgb, alpha = to_rgba(patch.get_facecolor())
        color = (1.0 - alpha) * color + alpha * np.array(rgb)
    return color


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two colours by WCAG, from 1 to 21.

    Examples
    --------
    >>> round(contrast(np.zeros(3), np.ones(3)))
    21
    """
    low, high = sorted([_luminance(one), _luminance(other)])
    return (high + 0.05) / (low + 0.05)


def _luminance(color: Color) -> float:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
