"""The report as one HTML file with style sheet, script and the plotting library.

The template escapes all text from data and users, such as names of columns, keys and paths; JSON
for the script contains no ``<``. The content security policy forbids the page to load anything. A
page that is served may request updates from its own server.
"""

import hashlib
import json
import time
from functools import cache
from importlib.metadata import version as version_of
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from streamcal.report import charts
from streamcal.report.content import Report, moment
from streamcal.report.words import WORDS

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:;"
    " base-uri 'none'; form-action 'none'; connect-src "
)


def render(report: Report, *, live: bool = False) -> str:
    """Return the page of a report.

    Parameters
    ----------
    report : Report
    live : bool
        Whether the page requests updates from its server (see `streamcal.report.watch`).

    Returns
    -------
    html : str
        The whole page; it loads nothing.

    Examples
    --------
    >>> html = render(Report("<b>", "a.csv"))
    >>> "<title>&lt;b&gt;</title>" in html
    True
    """
    described = {chart.id: charts.describe(chart) for chart in report.charts}
    html: str = _template("page.html").render(
        report=report,
        live=live,
        made=f"streamcal {version_of('streamcal-river')}, {moment(time.time())}",
        policy=_POLICY + ("'self'" if live else "'none'"),
        structure=structure(report),
        version=version(report),
        style=_own_file("page.css"),
        script=_own_file("page.js"),
        library=Markup(charts.library()),
        words=WORDS,
        charts=Markup(_json(described)),
    )
    return html


def encoded(text: str) -> bytes:
    r"""Return the bytes of a page; "?" for parts of file names that are not UTF-8.

    Examples
    --------
    >>> encoded("a\udcff.csv")
    b'a?.csv'
    """
    return text.encode(errors="replace")


def update(report: Report) -> dict[str, Any]:
    """Return what a page needs to show this report in place of an older one.

    Returns
    -------
    update : dict
        ``version`` and ``structure`` of the report; ``html`` by the id of the element; ``charts``,
        the numbers of charts by their ids, and ``ranges``, the ends of their axes.
    """
    parts = _template("parts.html").module
    html = {table.id: str(parts.table(table)) for part in report.sections for table in part.tables}
    html |= {"verdict": str(parts.verdict(report)), "updated": str(parts.updated(report))}
    html |= {f"{part.id}-text": str(Markup.escape(part.text)) for part in report.sections}
    html["source"] = str(Markup.escape(report.source))
    html |= {f"{chart.id}-summary": str(Markup.escape(chart.summary)) for chart in report.charts}
    return {
        "version": version(report),
        "structure": structure(report),
        "html": html,
        "charts": {chart.id: charts.data(chart) for chart in report.charts},
        "ranges": {chart.id: (chart.x_range, chart.y_range) for chart in report.charts},
    }


def structure(report: Report) -> str:
    """Return a digest of everything but numbers: pages of one structure differ only in numbers."""
    parts = [
        (
            part.id,
            part.title,
            [(table.id, table.is_long) for table in part.tables],
            [
                (chart.id, chart.x, [(s.name, s.kind, s.color, s.choice) for s in chart.series])
                for chart in part.charts
            ],
        )
        for part in report.sections
    ]
    return _digest([report.title, report.facts, parts])


def version(report: Report) -> str:
    """Return a digest of the numbers."""
    rows = [[part.text, *(table.rows for table in part.tables)] for part in report.sections]
    drawn = [charts.data(chart) for chart in report.charts]
    return _digest([report.source, report.verdict, report.updated, rows, drawn])


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


def _json(value: Any) -> str:
    """Return JSON that is safe in a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _own_file(name: str) -> Markup:
    return Markup(files("streamcal.report").joinpath(name).read_text(encoding="utf-8"))


@cache
def _template(name: str) -> Any:
    environment = Environment(
        loader=FunctionLoader(_own_file), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["moment"] = moment
    return environment.get_template(name)
