"""The report as one HTML file: a template, a style sheet, a short script, and the charts' library.

All that comes from data or from a user (names of columns, keys, paths) is escaped by the template;
what the script reads as JSON has no ``<`` in it. The page's content security policy forbids it to
load anything from anywhere; a served page may ask its own server for news.
"""

import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from streamcal.report import charts
from streamcal.report.content import Report, shown

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
        Whether the page asks its server for news (see `streamcal.report.watch`).

    Returns
    -------
    html : str
        All of it: nothing is loaded from elsewhere.

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
        policy=_POLICY + ("'self'" if live else "'none'"),
        structure=structure(report),
        version=version(report),
        style=_ours("page.css"),
        script=_ours("page.js"),
        library=Markup(charts.library()),
        charts=Markup(_json(described)),
    )
    return html


def news(report: Report) -> dict[str, Any]:
    """Return what a live page needs to show this report in place of an older one.

    Returns
    -------
    news : dict
        ``version`` and ``structure`` of the report; ``html`` by the id of the element that it goes
        into; ``charts``: the numbers of each, by its id.
    """
    body = _template("table.html").module.table_body
    html = {table.id: str(body(table)) for part in report.sections for table in part.tables}
    html |= {f"{part.id}-text": str(Markup.escape(part.text)) for part in report.sections}
    html["source"] = str(Markup.escape(report.source))
    html |= {f"{chart.id}-summary": str(Markup.escape(chart.summary)) for chart in report.charts}
    return {
        "version": version(report),
        "structure": structure(report),
        "html": html,
        "charts": {chart.id: charts.data(chart) for chart in report.charts},
    }


def structure(report: Report) -> str:
    """Return a digest of all but the numbers: pages of one structure differ in numbers alone."""
    parts = [
        (
            part.id,
            part.title,
            [(table.id, len(table.rows) > 15) for table in part.tables],
            [
                (chart.id, [(s.name, s.kind, s.color, s.choice) for s in chart.series])
                for chart in part.charts
            ],
        )
        for part in report.sections
    ]
    return _digest([report.title, parts])


def version(report: Report) -> str:
    """Return a digest of the numbers."""
    rows = [[part.text, *(table.rows for table in part.tables)] for part in report.sections]
    return _digest([report.source, rows, [charts.data(chart) for chart in report.charts]])


def _digest(value: Any) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


def _json(value: Any) -> str:
    """Return JSON that may stand in a script element."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _ours(name: str) -> Markup:
    return Markup(files("streamcal.report").joinpath(name).read_text(encoding="utf-8"))


@cache
def _template(name: str) -> Any:
    environment = Environment(
        loader=FunctionLoader(_ours), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["shown"] = shown
    return environment.get_template(name)
