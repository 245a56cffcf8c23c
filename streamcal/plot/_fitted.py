"""Text in the axes that hides nothing: it takes the largest of several forms that fits.

A legend outside the axes would overlap the neighbours in a figure of several axes, and one inside
covers curves. Here a strip at the top of the axes is kept free for it. The form is chosen whenever
the figure is drawn, because the size of the axes is known only then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.offsetbox import DrawingArea, HPacker, OffsetBox, TextArea, VPacker
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox

from streamcal.plot._axes import figure_of, foreground

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (8.0, 7.0, 6.0)  # of the text, in points
MOST_HEIGHT = 0.45  # of the axes, for a strip
_GAP = 4.0  # points between text and everything else

Form = Callable[[], OffsetBox]
Place = Callable[[float, float], tuple[float, float] | None]
"""Where a box of a width and height goes, in pixels from the lower left; None if nowhere."""


class Entry(NamedTuple):
    """A line of a legend: an artist whose style the key has, or several areas, and words."""

    artist: Any
    words: str


class FittedBox(Artist):
    """A box of text in the first of its forms that has a place.

    Parameters
    ----------
    ax : matplotlib Axes
        The axes that it is drawn in.
    forms : sequence of callable
        Functions that make the forms, the best one first.
    place : callable
        Returns where a form goes.
    """

    def __init__(self, ax: Axes, forms: Sequence[Form], place: Place) -> None:
        super().__init__()
        self._forms = list(forms)
        self._made: dict[int, OffsetBox] = {}
        self._shown: OffsetBox | None = None
        self.place = place
        self.set_zorder(4)
        ax.add_artist(self)
        self.set_clip_on(False)  # or the space that it needs is cut off a saved picture

    def fit(self) -> Bbox | None:
        """Choose a form, and return its extent in pixels; None if there is no place for any."""
        self._shown = None
        for i in range(len(self._forms)):
            box = self._make(i)
            extent = box.get_bbox(self._renderer())
            at = self.place(extent.width, extent.height)
            if at is not None:
                box.set_offset((at[0] - extent.x0, at[1] - extent.y0))
                self._shown = box
                return Bbox.from_bounds(*at, extent.width, extent.height)
        return None

    def draw(self, renderer: Any) -> None:
        """Draw the form that fits now."""
        if self.get_visible() and self.fit() is not None and self._shown is not None:
            self._shown.draw(renderer)
        self.stale = False

    def get_children(self) -> list[Artist]:
        """Return the form that is shown."""
        return [] if self._shown is None else [self._shown]

    def get_window_extent(self, renderer: Any = None) -> Bbox:
        """Return the extent of the form that is shown, in pixels."""
        return self.fit() or Bbox.null()

    def _make(self, i: int) -> OffsetBox:
        if i not in self._made:
            box = self._made[i] = self._forms[i]()
            assert self.axes is not None
            box.set_figure(self.axes.figure)
            box.axes = self.axes
        return self._made[i]

    def _renderer(self) -> Any:
        assert self.axes is not None
        return renderer_of(figure_of(self.axes))


def renderer_of(figure: Any) -> Any:
    """Return what draws a figure; matplotlib has no public name for it."""
    return figure._get_renderer()


def points_to_pixels(ax: Axes, points: float = _GAP) -> float:
    """Return a length in pixels; without an argument, that of the gap around text."""
    return float(points * figure_of(ax).dpi / 72.0)


def place_in_strip(ax: Axes, top: float, width: float, height: float) -> tuple[float, float] | None:
    """Return a place above the value ``top``, from the left end of the axes.

    A square diagram may be narrower than the part of the figure that it has; the text may use all.
    """
    gap = points_to_pixels(ax)
    room = slot(ax)
    box = ax.get_window_extent()
    bottom = float(ax.transData.transform((0.0, top))[1]) + gap
    if width > room.width or bottom + height + 0.5 * gap > box.y1:
        return None
    return max(room.x0, min(box.x0 + gap, room.x1 - width)), box.y1 - 0.5 * gap - height


def slot(ax: Axes) -> Bbox:
    """Return the part of the figure that the axes may use, in pixels."""
    figure: Any = ax.figure
    return Bbox(figure.transSubfigure.transform(ax.get_position(original=True)))


def strip_height(ax: Axes, forms: Sequence[Form]) -> float:
    """Return the height in pixels of the first form that fits into a strip; 0 if none does.

    The figure must have been laid out.
    """
    room, gap = slot(ax), points_to_pixels(ax)
    found = FittedBox(
        ax,
        forms,
        lambda width, height: (
            (0.0, 0.0)
            if width <= 0.97 * room.width and height + 1.5 * gap <= MOST_HEIGHT * room.height
            else None
        ),
    )
    extent = found.fit()
    found.remove()
    return 0.0 if extent is None else extent.height + 1.5 * gap


def add_legend(ax: Axes, entries: Sequence[Entry]) -> FittedBox | None:
    """Add a legend in a strip above all that is drawn; None without entries.

    The axes get larger limits, so nothing is hidden.
    """
    if not entries:
        return None
    figure_of(ax).draw_without_rendering()
    forms = list(legend_forms(ax, entries))
    low, high = ax.get_ylim()
    height, strip = slot(ax).height, strip_height(ax, forms)
    ax.set_ylim(low, low + (high - low) * height / (height - 1.15 * strip))
    legend = FittedBox(ax, forms, partial(place_in_strip, ax, high))
    legend.fit()
    return legend


def legend_forms(ax: Axes, entries: Sequence[Entry]) -> Iterator[Form]:
    """Return legends of several columns: the text as large as possible, then few rows."""
    for size in (*SIZES, 5.0):
        for n_rows in range(1, len(entries) + 1):
            columns = [entries[i : i + n_rows] for i in range(0, len(entries), n_rows)]
            yield partial(_columns_of_keys, ax, columns, size)


def _columns_of_keys(ax: Axes, columns: Sequence[Sequence[Entry]], size: float) -> OffsetBox:
    packed: list[Artist] = [
        column([key(ax, entry, size) for entry in part], "left") for part in columns
    ]
    return HPacker(children=packed, align="top", pad=0, sep=10)


def text(ax: Axes, words: str, size: float, color: Any = None) -> TextArea:
    """Return words that can be read on the background."""
    color = foreground(ax) if color is None else color
    # A name with a dollar sign is not a formula.
    return TextArea(words, textprops={"size": size, "color": color, "parse_math": False})


def key(ax: Axes, entry: Entry, size: float, color: Any = None) -> OffsetBox:
    """Return words behind a sample of a line, or of areas beside one another."""
    area = DrawingArea(2.0 * size, size)
    for sample in _samples_of(entry.artist, size):
        area.add_artist(sample)
    children: list[Artist] = [area, text(ax, entry.words, size, color)]
    return HPacker(children=children, align="center", pad=0, sep=size / 2)


def _samples_of(artist: Any, size: float) -> list[Artist]:
    if isinstance(artist, Line2D):
        dot = artist.get_linestyle() == "None"
        line = Line2D(
            [size] if dot else [0.0, 2.0 * size],
            [size / 2.0] if dot else [size / 2.0] * 2,
            color=artist.get_color(),
            linestyle=artist.get_linestyle(),
            linewidth=artist.get_linewidth(),
            marker=artist.get_marker() if dot else None,
            markersize=artist.get_markersize(),
        )
        return [line]
    areas = artist if isinstance(artist, Sequence) else [artist]
    width = 2.0 * size / len(areas)
    return [
        Rectangle(
            (i * width, 0.0),
            width,
            size,
            facecolor=area.get_facecolor()[0],
            alpha=area.get_alpha(),
            linewidth=0,
        )
        for i, area in enumerate(areas)
    ]


def column(cells: Sequence[Artist], align: Any) -> OffsetBox:
    """Return boxes below one another."""
    return VPacker(children=list(cells), align=align, pad=0, sep=3)
