"""A report about a calibrated stream: one HTML file, or a page served while the stream runs.

`sections` computes the numbers, `content` defines the parts of a report, `charts` draws with Bokeh,
`page` makes the HTML, and `watch` serves it. It needs the extra ``cli``.
"""
