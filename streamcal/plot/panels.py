"""Several reliability diagrams as equal panels within axes, with one legend above them.

All text is within the axes, whatever lays out the figure: the panels get what room is left by the
legend, the titles and the labels of axes. This is found whenever the size of the axes is another.
Axes have labels only where no panel is beside or below them, and titles have as many lines as they
need, so that nothing is cut or hidden.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from matplotlib.offsetbox import OffsetBox, VPacker
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Bbox

from streamcal.plot._axes import figure_of, foreground, muted
from streamcal.plot._fitted import (
    Entry,
    FittedBox,
    Form,
    legend_forms,
    points_to_pixels,
    renderer_of,
    text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


_WIDTH, _HEIGHT = 2.1, 2.65  # of a panel with its title, in inches
_MOST_COLUMNS = 4
_SIZES = (9.0, 8.0, 7.0, 6.0)  # of titles, in points
_SMALL = 7.0  # of the line below a title
_FEW_LINES, _MOST_LINES = 2, 4  # of a title
_LINE = 1.2  # the height of a line, as a multiple of the size of its text
_LEAST_SIDE = 8.0  # of a panel, in points: figures can be far too small


class Diagram(Protocol):
    """What panels need of a `streamcal.plot.ReliabilityDisplay`."""

    curves: tuple[Any, ...]
    xlabel: str
    ylabel: str
    ax_: Axes
    lines_: list[Line2D]
    bands_: list[Any]
    _ends: tuple[float, float]

    def _draw(self, ax: Axes, *, with_table: bool = True) -> None: ...

    def _center_label(self) -> None: ...

    def _band_names(self) -> tuple[str, str]: ...


def size_of_panels(n_panels: int) -> tuple[float, float]:
    """Return width and height of a figure for this many panels, in inches.

    Examples
    --------
    >>> size_of_panels(7)
    (9.1, 6.1)
    """
    n_columns = _columns_for(n_panels)
    n_rows = -(-n_panels // n_columns)
    return round(_WIDTH * n_columns + 0.7, 2), round(_HEIGHT * n_rows + 0.8, 2)


def draw_panels(
    ax: Axes,
    displays: Sequence[Diagram],
    titles: Sequence[tuple[str, str]],
    note: str = "",
    n_columns: int | None = None,
) -> FittedBox:
    """Draw displays as panels within axes, which show nothing themselves; return the legend.

    Parameters
    ----------
    ax : matplotlib Axes
        Where to draw.
    displays : sequence of ReliabilityDisplay
        The panels, in order; the legend has the curves of the first one.
    titles : sequence of (str, str)
        A title for each panel, and smaller text below it.
    note : str
        A sentence below the legend.
    n_columns : int, optional
        How many panels are beside one another; by default at most four.
    """
    ax.set_axis_off()
    n_columns = n_columns or _columns_for(len(displays))
    for display in displays:
        display._draw(ax.inset_axes((0.0, 0.0, 1.0, 1.0)), with_table=False)
    legend = FittedBox(ax, list(_legends(ax, displays[0], note)), partial(_place_above, ax))
    grid = _Grid(ax, displays, titles, legend, n_columns)
    for i, display in enumerate(displays):
        grid.set_axes(i)
        display.ax_.set_axes_locator(partial(grid.place, i))
    figure_of(ax).draw_without_rendering()
    return legend


@dataclass(eq=False)
class _Grid:
    """Where the panels are."""

    ax: Axes
    displays: Sequence[Diagram]
    titles: Sequence[tuple[str, str]]
    legend: FittedBox
    n_columns: int

    def __post_init__(self) -> None:
        self._known: Any = None
        self._boxes: list[Bbox] = []
        self._texts: list[tuple[Any, Any]] = []
        for display in self.displays:
            ax = display.ax_
            self._texts.append((_new_text(ax, foreground(ax)), _new_text(ax, muted(ax))))

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return -(-len(self.displays) // self.n_columns)

    def set_axes(self, i: int) -> None:
        """Set the labels of the axes of a panel."""
        display = self.displays[i]
        panel = display.ax_
        for line in display.lines_:
            line.set(linewidth=1.5, markersize=2.5)
        first, last = i % self.n_columns == 0, i + self.n_columns >= len(self.displays)
        panel.tick_params(labelleft=first, labelbottom=last, labelsize="small")
        panel.set_xlabel(display.xlabel if last else "", fontsize="small")
        panel.set_ylabel(display.ylabel if first else "", fontsize="small")

    def place(self, i: int, panel: Axes, renderer: Any) -> Bbox:
        """Return where a panel is, in parts of the figure; matplotlib asks when it draws."""
        box = self.ax.get_window_extent()
        now = (*box.extents, figure_of(self.ax).dpi)
        if now != self._known:
            self._known = now
            self._lay_out(box)
        figure: Any = self.ax.figure
        return self._boxes[i].transformed(figure.transSubfigure.inverted())

    def _lay_out(self, box: Bbox) -> None:
        """Find places for all panels within a box in pixels, in two passes."""
        gap = points_to_pixels(self.ax, 8.0)
        strip = self.legend.fit()
        above = 0.0 if strip is None else strip.height + gap
        left, below = 6.0 * gap, 6.0 * gap
        for _ in range(2):
            pitch = (box.width - left + gap) / self.n_columns
            titles = self._fit_titles(pitch - gap)
            rows = [
                max(titles[r * self.n_columns : (r + 1) * self.n_columns])
                for r in range(self.n_rows)
            ]
            free = box.height - above - below - sum(rows) - gap * (self.n_rows - 1)
            least = points_to_pixels(self.ax, _LEAST_SIDE)
            width, height = max(pitch - 2.0 * gap, least), max(free / self.n_rows, least)
            if self.displays[0].ax_.get_aspect() != "auto":
                left_end, right_end = self.displays[0].ax_.get_xlim()
                low, high = self.displays[0].ax_.get_ylim()
                scale = min(width / (right_end - left_end), height / (high - low))
                width, height = scale * (right_end - left_end), scale * (high - low)
            top = box.y1 - above
            self._boxes = []
            for i in range(len(self.displays)):
                row, column = divmod(i, self.n_columns)
                x0 = box.x0 + left + column * pitch + 0.5 * (pitch - gap - width)
                if not column:
                    top -= rows[row] + (height + gap if row else 0.0)
                self._boxes.append(Bbox.from_bounds(x0, top - height, width, height))
            for i, display in enumerate(self.displays):
                display.ax_.apply_aspect(self.place(i, display.ax_, None))
                _set_ticks(display, width / gap, height / gap)
                _fit_labels(display, pitch - gap)
            left = max(self._reach(i)[0] for i in range(0, len(self.displays), self.n_columns))
            left = max(left - 0.5 * (pitch - gap - width), 0.0) + gap
            below = self._reach(len(self.displays) - 1)[1] + gap

    def _reach(self, i: int) -> tuple[float, float]:
        """Return how far the labels of axes reach beyond a panel, to the left and below."""
        panel, renderer = self.displays[i].ax_, renderer_of(figure_of(self.ax))
        box = panel.get_window_extent()
        x, y = panel.xaxis.get_tightbbox(renderer), panel.yaxis.get_tightbbox(renderer)
        return (
            0.0 if y is None else max(box.x0 - y.x0, 0.0),
            0.0 if x is None else max(box.y0 - x.y0, 0.0),
        )

    def _fit_titles(self, width: float) -> list[float]:
        """Put titles above panels, no wider than this; return their heights in pixels."""
        words = [" ".join(title.split()) or "(empty)" for title, _ in self.titles]
        trials = [title for title, _ in self._texts]
        for size in _SIZES:
            lines = [_wrapped(*each, size, width) for each in zip(trials, words, strict=True)]
            if max(map(len, lines)) <= _FEW_LINES:
                break
        heights = []
        for (title, below), of_title, (_, more) in zip(
            self._texts, lines, self.titles, strict=True
        ):
            if len(of_title) > _MOST_LINES:  # hundreds of characters
                of_title[_MOST_LINES - 1 :] = [of_title[_MOST_LINES - 1][:-1] + "…"]
            of_below = _wrapped(below, more, min(size, _SMALL), width) if more else []
            below.set_text("\n".join(of_below))
            title.set_text("\n".join(of_title))
            below.xyann = (0.0, 3.0)
            above = 4.0 + _LINE * min(size, _SMALL) * len(of_below)
            title.xyann = (0.0, above)
            heights.append(points_to_pixels(self.ax, above + _LINE * size * len(of_title) + 2.0))
        return heights


def _new_text(ax: Axes, color: Any) -> Any:
    """Return an empty text above a panel, centred."""
    return ax.annotate(
        "",
        (0.5, 1.0),
        xycoords="axes fraction",
        xytext=(0.0, 0.0),
        textcoords="offset points",
        color=color,
        ha="center",
        va="bottom",
        parse_math=False,
        linespacing=1.1,
        annotation_clip=False,
    )


def _columns_for(n_panels: int) -> int:
    """Return how many panels are beside one another, so that the last row is nearly full."""
    if n_panels <= 3:
        return n_panels
    if n_panels in (5, 6, 9):
        return 3
    return 2 if n_panels == 4 else _MOST_COLUMNS


def _legends(ax: Axes, display: Diagram, note: str) -> Iterator[Form]:
    """Return legends with the note below them."""
    entries = [
        Entry(line, curve.name)
        for line, curve in zip(display.lines_, display.curves, strict=True)
        if curve.name is not None
    ]
    if display.bands_:
        entries.append(Entry(display.bands_, display._band_names()[0]))
    for form in legend_forms(ax, entries) if entries else [None]:
        yield partial(_with_note, ax, form, note)


def _with_note(ax: Axes, form: Form | None, note: str) -> OffsetBox:
    blocks: list[Any] = [] if form is None else [form()]
    if note:
        width = max(int(ax.get_window_extent().width / points_to_pixels(ax, 4.5)), 20)
        blocks += [text(ax, line, 8.0, muted(ax)) for line in textwrap.wrap(note, width)]
    return VPacker(children=blocks or [text(ax, " ", 1.0)], align="left", pad=0, sep=4)


def _place_above(ax: Axes, width: float, height: float) -> tuple[float, float] | None:
    """Return the upper left of the axes if they are wide enough."""
    box = ax.get_window_extent()
    return (box.x0, box.y1 - height) if width <= box.width else None


def _set_ticks(display: Diagram, width: float, height: float) -> None:
    """Set ticks as the size allows, a multiple of the gap between panels; none at the histogram."""
    panel, (bottom, top) = display.ax_, display._ends
    left, right = panel.get_xlim()
    slack = 1e-9 * (top - bottom)
    for low, high, size, set_ticks in (
        (left, right, width, panel.set_xticks),
        (bottom - slack, top + slack, height, panel.set_yticks),
    ):
        locator = MaxNLocator(nbins=max(1, min(4, int(size / 4.0))), steps=[1, 2, 2.5, 5, 10])
        set_ticks([tick for tick in locator.tick_values(low, high) if low <= tick <= high])


def _fit_labels(display: Diagram, width: float) -> None:
    """Make labels of axes no longer than they have room."""
    for label in (display.ax_.xaxis.label, display.ax_.yaxis.label):
        label.set_fontsize("small")  # the figure may have been smaller
    if display.ax_.get_ylabel():
        display._center_label()
    label = display.ax_.xaxis.label
    longest = label.get_window_extent().width
    if label.get_text() and longest > width:
        label.set_fontsize(max(float(label.get_fontsize()) * width / longest, 5.0))


def _wrapped(trial: Any, words: str, size: float, width: float) -> list[str]:
    """Return lines no wider than a width in pixels, about equally long, in the style of a text."""
    trial.set_fontsize(size)
    most = len(words) + 1
    while True:
        lines = textwrap.wrap(words, most) or [""]
        trial.set_text("\n".join(lines))
        wide = float(trial.get_window_extent().width)
        if wide <= width or most <= 4:
            break
        most = max(min(most - 1, math.ceil(max(map(len, lines)) * width / wide)), 4)
    even = [textwrap.wrap(words, k) for k in range(-(-len(words) // len(lines)), most)]
    return next((each for each in even if len(each) == len(lines)), lines)
