"""Charts as Bokeh figures, in JSON that the copy of BokehJS in the page draws.

A figure has no text from users: legends, names and choosers are HTML outside of it, escaped by the
template. Colours are tags such as ``c0``; a script of the page replaces them by the colours for a
light, dark or printed page.
"""

from functools import cache
from typing import Any

import numpy as np
from bokeh.embed import json_item
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    DataRange1d,
    FixedTicker,
    HoverTool,
    NoOverlap,
    NumeralTickFormatter,
    PanTool,
    Range1d,
    ResetTool,
    SaveTool,
    WheelZoomTool,
)
from bokeh.plotting import figure
from bokeh.resources import Resources

from streamcal.report.content import Chart, Series

HEIGHT = 340
PANEL_HEIGHT = 160
_YEAR_1000 = -30_610_224_000_000.0  # in milliseconds since 1970


@cache
def library() -> str:
    """Return the script of the plotting library, which every report contains."""
    resources = Resources(mode="inline", components=["bokeh"], minified=True)
    return "\n".join(resources.js_raw)


def describe(chart: Chart) -> dict[str, Any]:
    """Return a chart as JSON that BokehJS embeds.

    Examples
    --------
    >>> line = Series("a", "line", {"x": np.arange(3.0), "y": np.ones(3)})
    >>> described = describe(Chart("one", "One", "x", "y", (line,), "A line at 1."))
    >>> described["root_id"] == described["doc"]["roots"][0]["id"]
    True
    """
    return dict(json_item(_draw(chart)))


def data(chart: Chart) -> list[dict[str, list[float]]]:
    """Return the numbers of a chart, to update a page that shows older ones."""
    return [
        {name: _as_floats(column) for name, column in _finite_columns(series).items()}
        for series in chart.series
    ]


def _as_floats(column: Any) -> list[float]:
    return [float(value) for value in column]


def _finite_columns(series: Series) -> dict[str, Any]:
    """Return the columns of a series without infinite values, which JSON does not have."""
    finite = np.all([np.isfinite(column) for column in series.columns.values()], axis=0)
    return {name: column[finite] for name, column in series.columns.items()}


def _draw(chart: Chart) -> Any:
    plot: Any = figure(
        # The script of the page makes it so.
        name="square" if chart.square or chart.panel else None,
        x_axis_type="datetime" if chart.x == "time" else "auto",
        height=PANEL_HEIGHT if chart.panel else HEIGHT,
        sizing_mode="stretch_width",
        x_range=_range(chart.x_range),
        y_range=_range(chart.y_range),
        x_axis_label=chart.x,
        y_axis_label=chart.y,
        tools=[PanTool(), BoxZoomTool(), WheelZoomTool(), SaveTool(), ResetTool()],
        toolbar_location=None if chart.panel else "above",
        # On a phone, swiping over a chart scrolls the page until a tool is chosen.
        active_drag=None,
        active_scroll=None,
        output_backend="svg",  # sharp in print
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=0 if chart.panel else 56,
        min_border_right=8 if chart.panel else 12,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    if chart.x in ("row", "event"):
        plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[0]a")
    for axis in (plot.xaxis, plot.yaxis):
        axis.ticker.desired_num_ticks = 3 if chart.panel else 5
    plot.xaxis.major_label_policy = NoOverlap(min_distance=8)  # dates on a phone
    renderers_by_kind: dict[str, list[Any]] = {}
    for i, series in enumerate(chart.series):
        source = ColumnDataSource(_finite_columns(series), name=f"{chart.id}:{i}")
        renderer = _draw_series(plot, series, source)
        renderer.tags = [series.color, series.choice]
        first = chart.choices[:1] or ("",)
        renderer.visible = series.choice in ("", *first)
        if series.color != "muted":
            renderers_by_kind.setdefault(series.kind, []).append(renderer)
    if chart.x == "time":
        _mark_early_times(plot, chart)
    for kind, renderers in renderers_by_kind.items():
        if kind in _TOOLTIPS:
            plot.add_tools(_hover(chart, kind, renderers))
    return plot


def _mark_early_times(plot: Any, chart: Chart) -> None:
    """Write dates in full if some are before the year 1000: Bokeh takes the year 1 for 1901."""
    x = np.unique(np.concatenate([series.columns["x"] for series in chart.series]))
    if not len(x) or x[0] >= _YEAR_1000:
        return
    few = np.unique(x[[0, len(x) // 2, -1]])
    plot.min_border_right = 40  # half of the last date
    names = np.datetime_as_string(few.astype(np.int64).astype("datetime64[ms]"), unit="D")
    plot.xaxis.ticker = FixedTicker(ticks=_as_floats(few))
    plot.xaxis.major_label_overrides = dict(zip(_as_floats(few), names.tolist(), strict=True))


def _hover(chart: Chart, kind: str, renderers: list[Any]) -> HoverTool:
    """Return the tool that shows the values under the pointer."""
    times: dict[str, Any] = {"@x": "datetime"} if chart.x == "time" else {}
    tips = [
        (getattr(chart, axis), f"@{name}{{{'%F %T' if f'@{name}' in times else form}}}")
        for axis, name, form in _TOOLTIPS[kind]
    ]
    return HoverTool(renderers=renderers, tooltips=tips, formatters=times, visible=False)


# By kind of series, the entries of a tooltip: axis, column and format.
_TOOLTIPS = {
    "line": [("x", "x", "0,0.[000]"), ("y", "y", "0,0.[00000]")],
    "points": [("x", "x", "0,0.[000]"), ("y", "y", "0,0.[00000]")],
    "bars": [("x", "left", "0,0.[000]"), ("y", "top", "0,0.[00000]")],
}


def _range(ends: tuple[float, float] | None) -> Any:
    if ends is None:
        return DataRange1d(range_padding=0.04)
    return Range1d(start=ends[0], end=ends[1])


def _draw_series(plot: Any, series: Series, source: Any) -> Any:
    """Draw a series; its colour is only used if the script of the page does not run."""
    color = "#808080"
    if series.kind == "line":
        return plot.line(
            "x", "y", source=source, line_color=color, line_width=2, line_dash=series.dash
        )
    if series.kind == "points":
        return plot.scatter("x", "y", source=source, size=7, fill_color=color, line_color=None)
    if series.kind == "band":
        stripes = {"hatch_pattern": "/", "hatch_scale": 9.0, "hatch_weight": 1.5}
        return plot.varea(
            "x",
            "low",
            "high",
            source=source,
            fill_color=color,
            fill_alpha=0.06 if series.hatched else 0.25,
            hatch_color=color,
            hatch_alpha=0.7,
            **(stripes if series.hatched else {}),
        )
    if series.kind == "bars":
        return plot.quad(
            left="left",
            right="right",
            top="top",
            bottom=0,
            source=source,
            fill_color=color,
            fill_alpha=0.35,
            line_color=color,
            line_width=1,
        )
    if series.kind == "rules":
        return plot.vspan(
            x="x", source=source, line_color=color, line_width=1.5, line_dash=series.dash
        )
    raise ValueError(f"`kind` must be a kind of series, got {series.kind!r}")
