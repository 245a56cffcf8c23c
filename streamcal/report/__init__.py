"""A report about a calibrated stream: one HTML file, or a page served while the stream runs.

`table_sections`, `store_sections` and `learner_sections` compute the numbers, `content` defines the
parts of a report, `charts` draws with Bokeh, `page` makes the HTML, and `watch` serves it. It needs
the extra ``cli``.
"""
