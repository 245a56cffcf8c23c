"""The table in a reliability diagram: names and scores, put where they hide nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.offsetbox import HPacker, OffsetBox, VPacker

from streamcal.plot._axes import figure_of, muted
from streamcal.plot._fitted import (
    SIZES,
    Entry,
    FittedBox,
    Form,
    column,
    key,
    legend_forms,
    place_in_strip,
    points_to_pixels,
    slot,
    strip_height,
    text,
)
from streamcal.plot.reliability_curve import Array, Curve, Path

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.lines import Line2D

_LARGE = SIZES[:2]  # of text; where only smaller text fits, another form is better
_BRIEF = ("= MCB", "samples")  # what small axes have room for


class Table(NamedTuple):
    """Names and numbers of the curves of a diagram.

    Attributes
    ----------
    ax : matplotlib Axes
        The axes.
    curves : sequence of curves
        The curves.
    lines : sequence of matplotlib Line2D
        Their lines.
    scoring : str
        The score that is split, ``"brier"`` or ``"log"``.
    bands : sequence of matplotlib PolyCollection
        The bands of the curves that have one.
    band_names : (str, str)
        What the bands are called, in full and in short.
    diagonal : matplotlib Line2D or None
        Where calibrated predictions would lie, if it is drawn.
    """

    ax: Axes
    curves: Sequence[Curve]
    lines: Sequence[Line2D]
    scoring: str
    bands: Sequence[FillBetweenPolyCollection]
    band_names: tuple[str, str]
    diagonal: Line2D | None

    def draw(self, paths: Sequence[Path], bottom: float, top: float) -> FittedBox:
        """Draw the table in a corner where it hides no path, else in a strip above the diagram.

        ``bottom`` and ``top`` are the values at the lower and the upper end of the diagram.
        """
        ax = self.ax
        figure_of(ax).draw_without_rendering()
        points = np.concatenate([_points_along(path) for path in paths])
        corner = partial(_place_in_corner, ax, points, bottom, top)
        if self._fits_corner(corner):
            box = FittedBox(ax, list(self._forms(len(self.curves) > 1, SIZES, SIZES)), corner)
            box.fit()
            return box
        forms = [*self._forms(True, _LARGE, SIZES), *self._legends()]
        self._make_room(strip_height(ax, forms), bottom, top)
        box = FittedBox(ax, forms, partial(place_in_strip, ax, top))
        box.fit()
        return box

    def _fits_corner(self, corner: partial[tuple[float, float] | None]) -> bool:
        """Return whether text that is large enough fits into a corner."""
        many = len(self.curves) > 1  # names and MCB alone are not enough for several models
        forms = list(self._forms(many, _LARGE, () if many else _LARGE))
        trial = FittedBox(self.ax, forms, corner)
        fits = trial.fit() is not None
        trial.remove()
        return fits

    def _make_room(self, strip: float, bottom: float, top: float) -> None:
        """Raise the upper limit such that a strip of this height in pixels is free."""
        ax, room = self.ax, slot(self.ax)
        floor, _ = ax.get_ylim()
        below = (top - floor) + 0.02 * (top - bottom)
        scale = (room.height - 1.1 * strip) / below
        if ax.get_aspect() != "auto":
            left, right = ax.get_xlim()
            scale = min(scale, room.width / (right - left))
        ax.set_ylim(floor, floor + below + 1.1 * strip / scale)

    def _forms(self, wide: bool, full: Sequence[float], brief: Sequence[float]) -> Iterator[Form]:
        """Return forms with all numbers, then with names and MCB only, of these text sizes."""
        if not (self._entries(1) or self._band_entry(1) or self.curves[0].table_row(self.scoring)):
            return
        for size in full:
            if self.diagonal is not None and self._entries(1):
                yield partial(self._lay_out, size, wide, False, True)
            yield partial(self._lay_out, size, wide, False)
        for size in brief:
            yield partial(self._lay_out, size, wide, True)

    def _legends(self) -> Iterator[Form]:
        """Return forms without numbers, if the models have names."""
        return legend_forms(self.ax, [*self._entries(16), *self._band_entry(1)])

    def _lay_out(self, size: float, wide: bool, brief: bool, diagonal: bool = False) -> OffsetBox:
        """Return keys and numbers: a row for each model if ``wide``, else one column.

        With ``diagonal`` it has a key, too: where text would be smaller for it, it has none.
        """
        ax, gray = self.ax, muted(self.ax)
        names = [key(ax, entry, size) for entry in self._entries(16 if brief else 24)]
        band = [key(ax, entry, size, gray) for entry in self._band_entry(int(brief))]
        if diagonal:
            band.append(key(ax, Entry(self.diagonal, "perfectly calibrated"), size, gray))
        rows = [curve.table_row(self.scoring) for curve in self.curves]
        headers = [header for header in _union(rows) if not brief or header in _BRIEF]
        shown = {header: header.strip("= ") if brief else header for header in headers}
        blocks: list[Artist]
        if wide:
            columns: list[Artist] = []
            if names:
                columns.append(column([text(ax, " ", size), *names], "left"))
            for header in headers:
                cells = [text(ax, row.get(header, ""), size) for row in rows]
                columns.append(column([text(ax, shown[header], size, gray), *cells], "right"))
            blocks = [HPacker(children=columns, align="top", pad=0, sep=7), *band]
        else:
            words = column([text(ax, shown[h], size, gray) for h in headers], "right")
            values = column([text(ax, rows[0][h], size) for h in headers], "right")
            numbers = HPacker(children=[words, values], align="top", pad=0, sep=7)
            blocks = [*names, *band, *([numbers] if headers else [])]
        return VPacker(children=blocks, align="left", pad=0, sep=size / 2)

    def _entries(self, longest: int) -> list[Entry]:
        """Return a key for each model; none if they have no names."""
        if all(curve.name is None for curve in self.curves):
            return []
        pairs = zip(self.lines, self.curves, strict=True)
        return [Entry(line, _shorten(curve.name or "", longest)) for line, curve in pairs]

    def _band_entry(self, short: int) -> list[Entry]:
        """Return the key of the bands, if there are any."""
        return [Entry(self.bands, self.band_names[short])] if self.bands else []


def _place_in_corner(
    ax: Axes, points: Array, bottom: float, top: float, width: float, height: float
) -> tuple[float, float] | None:
    """Return a place at the upper left or the lower right that is free of points."""
    from matplotlib.transforms import Bbox

    gap, box = points_to_pixels(ax), ax.get_window_extent()
    (_, low), (_, high) = ax.transData.transform([(0.0, bottom), (0.0, top)])
    if width + 2 * gap > box.width or height + 2 * gap > high - low:
        return None
    drawn = ax.transData.transform(points)
    for at in ((box.x0 + gap, high - gap - height), (box.x1 - gap - width, low + gap)):
        if not Bbox.from_bounds(*at, width, height).padded(gap).count_contains(drawn):
            return at
    return None


def _union(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return the headers of all rows."""
    return list(dict.fromkeys(header for row in rows for header in row))


def _shorten(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _points_along(path: Path, n_points: int = 400) -> Array:
    """Return points all along a path, shape ``(n_points, 2)``, on its vertical parts too."""
    corners = np.column_stack(path)
    steps = np.abs(np.diff(corners, axis=0)) / np.maximum(np.ptp(corners, axis=0), 1e-300)
    at = np.concatenate([[0.0], np.cumsum(steps.sum(axis=1))])
    grid = np.linspace(0.0, at[-1], n_points)
    return np.column_stack([np.interp(grid, at, column) for column in corners.T])
