"""The table in a reliability diagram: names and scores, put where they hide nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from streamcal.plot._axes import COLORS, GRAY
from streamcal.plot.reliability_curve import Array, Path, ReliabilityCurve

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.offsetbox import AnchoredOffsetbox, OffsetBox
    from matplotlib.patches import Rectangle


class Table(NamedTuple):
    """Names and numbers of the curves of a diagram.

    Attributes
    ----------
    curves : sequence of ReliabilityCurve
        The curves.
    lines : sequence of matplotlib Line2D
        Their lines.
    scoring : str
        The score that is split, ``"brier"`` or ``"log"``.
    band : str or None
        What the band is called, if there is one.
    """

    curves: Sequence[ReliabilityCurve]
    lines: Sequence[Line2D]
    scoring: str
    band: str | None

    def draw(self, ax: Axes, paths: Sequence[Path], bottom: float) -> AnchoredOffsetbox:
        """Draw the table where it hides no path: upper left, lower right or above.

        ``bottom`` is where the diagram begins above the histogram, as a share of the axes.
        """
        from matplotlib.offsetbox import AnchoredOffsetbox

        def add(corner: str, base: float, *, wide: bool) -> AnchoredOffsetbox:
            box = AnchoredOffsetbox(
                corner,
                child=self._lay_out(wide=wide),
                frameon=False,
                pad=0.4,
                borderpad=0.2,
                bbox_to_anchor=(0.0, base, 1.0, 1.0 - bottom),
                bbox_transform=ax.transAxes,
            )
            box.set_zorder(4)
            ax.add_artist(box)
            return box

        # Sizes in pixels are known only after layout.
        figure = ax.figure.canvas.figure
        box = add("upper left", bottom, wide=len(self.curves) > 1)
        figure.draw_without_rendering()
        points = ax.transData.transform(np.concatenate([_points_along(path) for path in paths]))
        hidden = {}
        for corner in ("upper left", "lower right"):
            box.loc = AnchoredOffsetbox.codes[corner]
            hidden[corner] = box.get_window_extent().padded(4.0).count_contains(points)
        corner = min(hidden, key=hidden.__getitem__)
        if hidden[corner] and figure.get_layout_engine() is not None:  # the layout makes room above
            box.remove()
            return add("lower left", 1.0, wide=True)
        box.loc = AnchoredOffsetbox.codes[corner]
        return box

    def _lay_out(self, *, wide: bool) -> OffsetBox:
        """Return keys and numbers: a row for each model if ``wide``, else one column."""
        from matplotlib.offsetbox import HPacker, VPacker

        names, band = self._name_keys(), self._band_key()
        rows = [_table_row(curve, self.scoring) for curve in self.curves]
        if wide:
            columns = [_column([_text(" "), *names], "left")] if names else []
            for header in rows[0]:
                cells = [_text(row[header]) for row in rows]
                columns.append(_column([_text(header, GRAY), *cells], "right"))
            blocks = [HPacker(children=columns, align="top", pad=0, sep=7), *band]
        else:
            headers = _column([_text(header, GRAY) for header in rows[0]], "right")
            values = _column([_text(cell) for cell in rows[0].values()], "right")
            numbers = HPacker(children=[headers, values], align="top", pad=0, sep=7)
            blocks = [*names, *band, numbers]
        return VPacker(children=blocks, align="left", pad=0, sep=5)

    def _name_keys(self) -> list[Artist]:
        """Return a key for each model; none if they have no names."""
        from matplotlib.lines import Line2D

        if all(curve.name is None for curve in self.curves):
            return []
        keys = []
        for line, curve in zip(self.lines, self.curves, strict=True):
            key = Line2D(
                [0, 18],
                [4, 4],
                color=line.get_color(),
                linestyle=line.get_linestyle(),
                linewidth=line.get_linewidth(),
            )
            keys.append(_with_key(key, _shorten(curve.name or "")))
        return keys

    def _band_key(self) -> list[Artist]:
        """Return the key of the band, if there is one."""
        from matplotlib.patches import Rectangle

        if self.band is None:
            return []
        patch = Rectangle((0, 0), 18, 8, color=COLORS[0], alpha=0.18, linewidth=0)
        return [_with_key(patch, self.band, GRAY)]


def _text(words: str, color: str = "black") -> Artist:
    from matplotlib.offsetbox import TextArea
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    return TextArea(words, textprops={"size": 8, "color": color, "path_effects": halo})


def _with_key(key: Line2D | Rectangle, words: str, color: str = "black") -> Artist:
    from matplotlib.offsetbox import DrawingArea, HPacker

    area = DrawingArea(18.0, 8.0)
    area.add_artist(key)
    return HPacker(children=[area, _text(words, color)], align="center", pad=0, sep=5)


def _column(cells: Sequence[Artist], align: Literal["left", "right"]) -> Artist:
    from matplotlib.offsetbox import VPacker

    return VPacker(children=list(cells), align=align, pad=0, sep=3)


def _table_row(curve: ReliabilityCurve, scoring: str) -> dict[str, str]:
    """Return a row of the table, as cells by header."""
    parts = curve.decomposition
    if parts is None:
        weights = curve.staircase.weights
        return {"blocks": f"{len(weights):,}", "weight": f"{weights.sum():,.10g}"}
    headers = ("Brier" if scoring == "brier" else "log loss", "= MCB", "− DSC", "+ UNC")
    cells = ["∞" if np.isinf(part) else f"{part:.4f}" for part in parts]
    return {"n": f"{curve.n_samples:,}"} | dict(zip(headers, cells, strict=True))


def _shorten(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _points_along(path: Path, n_points: int = 400) -> Array:
    """Return points all along a path, shape ``(n_points, 2)``, on its vertical parts too."""
    corners = np.column_stack(path)
    steps = np.abs(np.diff(corners, axis=0)) / np.maximum(np.ptp(corners, axis=0), 1e-300)
    at = np.concatenate([[0.0], np.cumsum(steps.sum(axis=1))])
    grid = np.linspace(0.0, at[-1], n_points)
    return np.column_stack([np.interp(grid, at, column) for column in corners.T])
