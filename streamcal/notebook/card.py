"""What a notebook shows of a calibrator or a wrapper: a drawing of the map, parameters and state.

Text and lines take the colour of the page, so that they can be seen on dark pages. Everything that
a user names is escaped.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np

from streamcal.notebook.shape import Shape, Vector

MOST_CARDS = 6  # of the labels in a wrapper
_LONGEST = 80  # of a value, in characters
_SIDE = 120  # of a drawing, in pixels
_BARS = 24  # of the histogram
_EVERY = 4  # points of the map between two of the drawing
_BLUE = "#1f86c7"  # contrast above 3 on white and on black
_PLAIN = "border-collapse:collapse;margin:0;color:inherit;font-size:inherit"
_FAINT = 'stroke="currentColor" stroke-opacity="0.4"'


def card(
    thing: Any,
    facts: Mapping[str, Any],
    shapes: Mapping[Any, Shape] | None = None,
    weights: Mapping[str, float] | None = None,
    inside: Iterable[str] = (),
) -> str:
    """Return HTML for an object with parameters.

    Parameters
    ----------
    thing
        The object; its class and parameters are shown.
    facts
        Names and values of its state; numbers are shown with four digits.
    shapes
        Maps to draw, by label.
    weights
        Weights to draw as bars, by name; they sum to 1.
    inside
        Cards of what it contains.
    """
    rows = {name: _repr(value) for name, value in parameters_of(thing).items()}
    rows |= {name: _number(value) for name, value in facts.items()}
    shown = list((shapes or {}).items())[:MOST_CARDS]
    drawings = "".join(_drawing(label, shape) for label, shape in shown)
    return (
        '<div style="margin:0.3em 0;color:inherit;font-size:13px;line-height:1.4">'
        f"<div><b>{_escaped(type(thing).__name__)}</b></div>"
        '<div style="display:flex;flex-wrap:wrap;gap:1em;align-items:flex-start">'
        f"{drawings}{_table(rows)}{_bars(weights or {})}</div>{''.join(inside)}</div>"
    )


def parameters_of(thing: Any) -> dict[str, Any]:
    """Return the parameters of the constructor and their values.

    Examples
    --------
    >>> from streamcal import HistogramCalibrator
    >>> parameters_of(HistogramCalibrator(5))
    {'n_bins': 5, 'half_life': None, 'prior': 1.0}
    """
    names = inspect.signature(type(thing)).parameters
    return {name: getattr(thing, name) for name in names if hasattr(thing, name)}


def labelled(label: Any, inner: str, is_open: bool) -> str:
    """Return the card of one label, which a click opens and closes."""
    return (
        f'<details style="margin-left:1em"{" open" if is_open else ""}>'
        f"<summary>{_escaped(label)}</summary>{inner}</details>"
    )


def note(words: str) -> str:
    """Return a line of text."""
    return f'<div style="margin-left:1em">{_escaped(words)}</div>'


def _repr(value: Any) -> str:
    """Return the repr without addresses, which differ from run to run."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _escaped(value: Any) -> str:
    words = str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return escape(words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…")


def _table(rows: Mapping[str, str]) -> str:
    cells = "".join(
        '<tr style="background:none"><td style="text-align:left;padding:0 1em 0 0;opacity:0.75">'
        f'{_escaped(name)}</td><td style="text-align:left;padding:0">{_escaped(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f'<table style="{_PLAIN}">{cells}</table>'


def _bars(weights: Mapping[str, float]) -> str:
    rows = "".join(
        '<tr style="background:none">'
        f'<td style="text-align:left;padding:0 1em 0 0">{_escaped(name)}</td>'
        '<td style="padding:0;width:60px">'
        f'<div style="background:{_BLUE};height:8px;width:{60.0 * weight:.1f}px"></div></td>'
        f'<td style="text-align:right;padding:0 0 0 0.5em">{weight:.3f}</td></tr>'
        for name, weight in weights.items()
    )
    return f'<table style="{_PLAIN}">{rows}</table>' if rows else ""


def _drawing(label: Any, shape: Shape) -> str:
    """Return a map as SVG, over the histogram of the scores that are kept."""
    left, right, low, high = _limits(shape)
    name = "Calibrated value by score" + ("" if label is None else f", label {label}")
    caption = "" if label is None else f"<div>{_escaped(label)}</div>"

    def across(x: Vector) -> Vector:
        return _SIDE * (x - left) / (right - left)

    def up(y: Vector) -> Vector:
        return _SIDE * (high - y) / (high - low)

    x, y = across(shape.x[::_EVERY]), up(shape.y[::_EVERY])
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    ends = np.array([max(left, low), min(right, high)])
    (a, b), (c, d) = across(ends), up(ends)
    square = (left, right) == (low, high)
    diagonal = f'<path d="M{a:.1f},{c:.1f} L{b:.1f},{d:.1f}" stroke-dasharray="3 3" {_FAINT}/>'
    words = '<text font-size="9" fill="currentColor" stroke="none"'
    return (
        f'<div>{caption}<svg role="img" width="{_SIDE + 16}" height="{_SIDE + 16}"'
        f' viewBox="-14 -2 {_SIDE + 16} {_SIDE + 16}" fill="none" style="overflow:visible">'
        f"<title>{_escaped(name)}</title>"
        f"{_histogram(shape, left, right)}{diagonal if square else ''}"
        f'<rect width="{_SIDE}" height="{_SIDE}" {_FAINT}/>'
        f'<polyline points="{points}" stroke="{_BLUE}" stroke-width="2"/>'
        f'{words} x="0" y="{_SIDE + 10}">{left:.3g}</text>'
        f'{words} x="{_SIDE}" y="{_SIDE + 10}" text-anchor="end">{right:.3g}</text>'
        f'{words} x="{_SIDE / 2}" y="{_SIDE + 10}" text-anchor="middle">score</text>'
        f'{words} x="-2" y="{_SIDE}" text-anchor="end">{low:.3g}</text>'
        f'{words} x="-2" y="8" text-anchor="end">{high:.3g}</text></svg></div>'
    )


def _limits(shape: Shape) -> tuple[float, float, float, float]:
    """Return the ends of the scores and of the values; [0, 1] if they are probabilities."""
    left, right = float(shape.x[0]), float(shape.x[-1])
    low, high = float(shape.y.min()), float(shape.y.max())
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return *_apart(left, right), *_apart(low, high)


def _apart(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a range, or of one around it if bars in it would have no width."""
    least = _BARS * float(np.spacing(max(abs(low), abs(high))))
    half = 0.0 if high - low >= least else max(0.5, least)
    return low - half, high + half


def _histogram(shape: Shape, left: float, right: float) -> str:
    scores, weights = shape.kept
    mass, _ = np.histogram(scores, bins=_BARS, range=(left, right), weights=weights)
    if not mass.any():
        return ""
    width = _SIDE / len(mass)
    bars = "".join(
        f"M{i * width:.1f},{_SIDE} v{-0.2 * _SIDE * share:.1f} h{width:.1f} V{_SIDE} z"
        for i, share in enumerate((mass / mass.max()).tolist())
        if share > 0.0
    )
    return f'<path d="{bars}" fill="currentColor" fill-opacity="0.25"/>'
