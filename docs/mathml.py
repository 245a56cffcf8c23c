"""Mathematics as MathML, which browsers show without a script or a font.

docutils has a converter from LaTeX; Sphinx's HTML builder does not offer it. A formula that it
cannot read is a warning, so the strict build fails.
"""

from typing import TYPE_CHECKING, Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError, latex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


def visit(translator: Any, node: "nodes.Element") -> None:
    """Write a formula; a displayed one scrolls where the page is too narrow."""
    block = node.tagname == "math_block"
    try:
        formula = latex2mathml.tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        formula = translator.encode(node.astext())
    translator.body.append(f'<div class="formula">{formula}</div>\n' if block else formula)
    raise SkipNode


def setup(app: "Sphinx") -> dict[str, Any]:
    """Offer the renderer as `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (visit, None), (visit, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
