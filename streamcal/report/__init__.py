"""One page about a calibrated stream: a file that needs nothing else, or served while it runs.

`streamcal.report.sections` computes, `content` says what a report consists of, `charts` draws with
Bokeh, `page` makes the HTML, and `watch` serves it. Needs the extra ``cli``.
"""
