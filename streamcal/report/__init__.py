"""A report about a calibrated stream: one HTML file, or a page served while the stream runs.

The modules that end in ``_sections`` compute the numbers, `verdict` puts the result in words,
`content` defines the parts of a report, `charts` draws with Bokeh, `page` makes the HTML, `watch`
serves it, and `prometheus` writes the numbers for monitoring. All but the numbers need the extra
``cli``.
"""

from streamcal._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
