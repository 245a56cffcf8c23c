"""The configuration of Sphinx: `make docs` makes a site of this folder and of the docstrings.

The pages are the Markdown files here, in the order of `NAV`. A page of `NAV` that does not exist is
skipped, and a page that `NAV` does not contain is under "More". Each build writes the reference to
``reference/``, runs the scripts of ``gallery/`` and writes what they print and draw to
``notebooks/``.
"""

import inspect
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.inspect import stringify_signature

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from reference_pages import MOCKED, write_reference  # noqa: E402

import streamcal  # noqa: E402
from streamcal._locked import Locked  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "streamcal"
author = "streamcal developers"
project_copyright = author
version = release = streamcal.__version__

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["gallery"]
exclude_patterns += [path.name for path in HERE.glob("*.md") if not path.stat().st_size]
default_role = "py:obj"  # `Name` in a docstring is a link where there is such a name

myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_digits = False  # two prices in a sentence are no formula
myst_heading_anchors = 4
html_math_renderer = "mathml"

autodoc_mock_imports = MOCKED
autodoc_typehints = "none"  # the sections of a docstring say more
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # types in the words of the docstring
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = f"streamcal {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_logo = html_favicon = "_static/logo.svg"
copybutton_exclude = ".linenos, .gp, .go"  # the prompt and the output of a doctest
html_show_copyright = html_show_sphinx = html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "notebooks",
    "filename_pattern": "/gallery/",
    "within_subsection_order": "ExampleTitleSortKey",
    "abort_on_example_error": True,
    "run_stale_examples": True,  # the library may have changed, the script not
    "image_srcset": ["2x"],
    "min_reported_time": 10,
    "show_memory": False,
    "write_computation_times": False,
}

# By need: to learn, to do something, to look something up, to understand.
NAV = {
    "Tutorials": ["start", "coming-from", "notebooks/index"],
    "How-to guides": [
        "choosing",
        "calibrators",
        "segments",
        "down-sampled",
        "anytime",
        "thresholds",
        "cusum",
        "decisions",
        "asking",
        "judges",
        "serving",
        "some-labels",
        "exporting",
        "durable",
        "diagnostics",
        "monitoring",
        "report",
        "command-line",
        "sklearn",
        "recipes",
        "scaling",
        "spark",
        "examples",
    ],
    "Reference": ["reference/tasks", "glossary", "threads", "store-files", "reference/*"],
    "Explanation": ["how-it-works", "staircase", "study", "benchmarks"],
    "Project": ["contributing", "changelog"],
}


def make_unambiguous(
    app: "Sphinx", kind: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Tell docutils that |z| is no substitution, and whose footnote [1] is on a page of many."""
    code = False
    for at, line in enumerate(lines):
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        if code:
            continue
        parts = line.split("``")
        parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
        line = re.sub(r"\[(\d+)\]_", rf"[#{name}.\1]_", "``".join(parts))
        lines[at] = re.sub(r"^(\s*\.\. )\[(\d+)\]", rf"\1[#{name}.\2]", line)


def show_init(
    app: "Sphinx",
    kind: str,
    name: str,
    thing: Any,
    options: Any,
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Show the parameters of ``__init__`` where autodoc shows those of `Locked.__new__`."""
    if kind == "class" and thing.__new__ is Locked.__new__:
        signature = stringify_signature(
            inspect.signature(thing), show_annotation=False, show_return_annotation=False
        )
    return signature, returned


def link_short_name(app: "Sphinx", env: Any, node: Any, content: Any) -> Any:
    """Link `Name` or `Name.method` to the only public path that ends so."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    end = "." + node["reftarget"].removeprefix("streamcal.")
    found = {entry.node_id for path, entry in domain.objects.items() if path.endswith(end)}
    if len(found) != 1:
        return None
    return domain.resolve_xref(
        env, node.get("refdoc", ""), app.builder, "obj", found.pop(), node, content
    )


def add_navigation(app: "Sphinx", page: str, source: list[str]) -> None:
    """Append the navigation to the first page; on others, unlink the pages that are not there."""
    # A reader of the Markdown finds the script, a reader of the site its notebook.
    source[0] = re.sub(r"\(gallery/(\w+)\.py\)", r"(notebooks/\1.rst)", source[0])
    for name in {name for entries in NAV.values() for name in entries} - app.env.found_docs:
        source[0] = re.sub(rf"\[([^\]]*)\]\({re.escape(name)}\.md[^)]*\)", r"\1", source[0])
    if page != "index":
        return
    named = {name for entries in NAV.values() for name in entries} | {"index"}
    more = [name for name in sorted(app.env.found_docs - named) if "/" not in name]
    for caption, entries in [*NAV.items(), ("More", more)]:
        found = [
            name
            for entry in entries
            for name in (app.config.made if entry == "reference/*" else [entry])
            if name in app.env.found_docs
        ]
        if found:
            options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
            source[0] += "\n\n```{toctree}\n" + options + "\n" + "\n".join(found) + "\n```\n"


def read_again(app: "Sphinx", env: Any, added: set[str], *others: set[str]) -> set[str]:
    """Return the pages to read again: all, if one was added or removed, for links."""
    return set(env.found_docs) if added or others[-1] else set()


def link_source_to_public_path(
    app: "Sphinx", page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Let the links of a page of source lead to where a name is documented.

    Sphinx takes one package for all names of a file; a page of the reference has its own in its
    name.
    """
    if page.startswith("_modules/"):
        wrong = r"(reference/([\w.]+)\.(\w+)\.html#)[\w.]*?\.\3\b"
        context["body"] = re.sub(wrong, r"\1\2.\3", context["body"])


def setup(app: "Sphinx") -> None:
    """Hook the above into the build."""
    app.add_config_value("made", write_reference(HERE / "reference"), "env")
    app.connect("autodoc-process-docstring", make_unambiguous, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", show_init)
    app.connect("missing-reference", link_short_name)
    app.connect("source-read", add_navigation)
    app.connect("html-page-context", link_source_to_public_path)
    app.connect("env-get-outdated", read_again)
