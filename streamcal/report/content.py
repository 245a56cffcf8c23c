"""The parts of a report: sections of text, tables of numbers, and charts of series.

They are plain data: the modules of `streamcal.report` that end in ``_sections`` compute them,
`streamcal.report.charts` passes the charts to the plotting library, and `streamcal.report.page`
makes a page of all. So a test can compare what a browser shows with what the library computed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from streamcal.report.prometheus import Metric

COLUMNS = 400
"""Lines get at most four points in each of this many columns, enough for a screen."""

_NARROW = 6  # columns of a table that fits a phone, and beside the text on a wide screen


@dataclass(frozen=True, eq=False)
class Series:
    """A line, band, histogram or the like in a chart.

    Attributes
    ----------
    name : str
        The name in the legend.
    kind : {"line", "points", "band", "bars", "rules"}
        It determines the columns: ``x, y`` for lines and points, ``x, low, high`` for bands,
        ``left, right, top`` for bars that start at 0, ``x`` for vertical rules.
    columns : dict of str to ndarray
        The numbers.
    color : str
        ``"c0"`` to ``"c6"``, or ``"muted"``: a colour of the page, which defines each for light and
        dark mode.
    dash : str
        ``"solid"``, ``"dashed"`` or ``"dotted"``.
    choice : str
        In a chart with a chooser, the choice that shows it; "" is always shown.
    hatched : bool
        Whether a band has stripes, to tell it from another one behind it.
    """

    name: str
    kind: str
    columns: dict[str, NDArray[np.float64]]
    color: str = "c0"
    dash: str = "solid"
    choice: str = ""
    hatched: bool = False


@dataclass(frozen=True)
class Chart:
    """Axes with series; ``summary`` describes the chart in words.

    The axes of a ``square`` chart are equally long. A ``panel`` is a small square, which shares a
    legend with the other panels of its section. If ``x`` is "time", x are milliseconds since 1970.
    """

    id: str
    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    summary: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    square: bool = False
    panel: bool = False

    @property
    def choices(self) -> tuple[str, ...]:
        """The choices of the chooser, which are keys; empty without one."""
        return tuple(dict.fromkeys(s.choice for s in self.series if s.choice))

    @property
    def legend(self) -> tuple[Series, ...]:
        """The series in the legend, bands last: one for each name and colour, without choices."""
        named = [s for s in self.series if s.name and s.name != s.choice]
        named.sort(key=lambda s: s.kind == "band")
        return tuple({(s.name, s.color): s for s in named}.values())


Cells = tuple[str | float | int, ...]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and words with headers.

    ``bars`` is the index of a column whose values, in [0, 1], are also shown as bars. A reader can
    sort a ``sortable`` table by any column. ``most`` has the greatest numbers shown, by the
    index of the column; of a greater one it is enough to know that.
    """

    id: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[Cells, ...]
    bars: int | None = None
    sortable: bool = False
    most: Mapping[int, float] = field(default_factory=dict)

    def show(self, cell: str | float, column: int) -> str:
        """Return the text of a cell."""
        most = self.most.get(column, math.inf)
        return f"> {most:g}" if isinstance(cell, float) and cell > most else shown(cell)

    @property
    def is_wide(self) -> bool:
        """Whether a phone shows each row as a list of names and values."""
        return len(self.header) > _NARROW

    @property
    def is_long(self) -> bool:
        """Whether the page shows it only when it is opened."""
        return len(self.rows) > 10


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    id: str
    title: str
    text: str
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def has_table_beside(self) -> bool:
        """Whether its tables are small enough to stand beside the text on a wide screen."""
        narrow = not any(table.is_wide or table.is_long for table in self.tables)
        return bool(self.tables) and not self.charts and narrow


@dataclass(frozen=True)
class Report:
    """A page.

    Attributes
    ----------
    title, source : str
        The heading, and what the numbers were computed from.
    sections : tuple of Section
    verdict : tuple of str
        The result in sentences, shown first.
    facts : tuple of (str, str)
        Parameters: names and values.
    updated : float or None
        When the numbers were saved, in seconds since 1970.
    metrics : tuple of Metric
        Numbers for Prometheus.
    """

    title: str
    source: str
    sections: tuple[Section, ...] = ()
    verdict: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    updated: float | None = None
    metrics: tuple[Metric, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        """All charts, in order."""
        return tuple(chart for section in self.sections for chart in section.charts)


def shown(cell: str | float) -> str:
    """Return the text of a cell of a table.

    Examples
    --------
    >>> shown(-0.25), shown(1234567), shown(float("inf")), shown(float("nan")), shown("a")
    ('−0.2500', '1,234,567', '∞', '–', 'a')
    >>> shown(0.000598), shown(3e-7)
    ('0.0006', '3e−07')
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if math.isnan(cell):
        return "–"
    if math.isinf(cell):
        return "∞" if cell > 0 else "−∞"
    if abs(cell) >= 1e4:
        text = f"{cell:.3g}"
    else:  # the digits of a column are below each other
        text = f"{cell:.4f}" if abs(cell) >= 5e-5 or not cell else f"{cell:.0e}"
    return text.replace("-", "−")


def thin(
    x: NDArray[np.float64], y: NDArray[np.float64], n_columns: int = COLUMNS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return enough points for a picture with this many columns of pixels; ``x`` is sorted.

    In each column the first, the last, the lowest and the highest point are kept, so the line looks
    the same as with all points.

    Examples
    --------
    >>> x = np.arange(10_000.0)
    >>> kept, _ = thin(x, np.sin(x / 500), n_columns=100)
    >>> len(kept) <= 400
    True
    """
    if len(x) <= 4 * n_columns or x[0] == x[-1]:
        return x, y
    column = ((x - x[0]) / (x[-1] - x[0]) * n_columns).astype(np.int64)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    ends = np.append(starts[1:], len(x))
    keep = {0, len(x) - 1}
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = y[start:end]
        keep.update((start, end - 1, start + int(part.argmin()), start + int(part.argmax())))
    kept = sorted(keep)
    return x[kept], y[kept]


def bars(
    heights: NDArray[np.float64], edges: NDArray[np.float64]
) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a histogram."""
    return {"left": edges[:-1], "right": edges[1:], "top": heights}


def moment(seconds: float) -> str:
    """Return seconds since 1970 as a date and time.

    Examples
    --------
    >>> moment(1e9)
    '2001-09-09 01:46:40 UTC'
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def listed(names: Sequence[str]) -> str:
    """Return names joined by commas and "and".

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
