"""The configuration of Sphinx: `make docs` makes a site of this folder and of the docstrings.

The pages are the Markdown files here, in the order of `NAV`. A page of `NAV` that does not exist is
skipped, and a page that `NAV` does not contain is under "More". The reference is written in each
build: one page in ``reference/`` for each part of the package, with every public name.
"""

import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import streamcal  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "streamcal"
author = "streamcal developers"
project_copyright = author
version = release = streamcal.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = [path.name for path in HERE.glob("*.md") if not path.stat().st_size]
default_role = "py:obj"  # `Name` in a docstring is a link where there is such a name

myst_heading_anchors = 4

# What `streamcal.spark` imports is not in the extra `docs`. It is mocked everywhere, also where it
# is installed, so that the site is the same in any environment.
autodoc_mock_imports = ["google", "pandas", "pyspark"]
autodoc_typehints = "none"  # the sections of a docstring say more
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # types in the words of the docstring
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = f"streamcal {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = html_show_sphinx = html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

NAV = {
    "": ["start", "choosing"],
    "Guides": [
        "calibrators",
        "anytime",
        "thresholds",
        "cusum",
        "decisions",
        "serving",
        "durable",
        "diagnostics",
        "sklearn",
        "command-line",
        "report",
    ],
    "Scaling": ["scaling", "fan-out", "spark"],
    "How it works": ["how-it-works", "staircase"],
    "Accuracy and speed": ["study", "benchmarks"],
    "Reference": ["reference/*"],
    "Project": ["examples", "contributing", "changelog"],
}

# The parts of the package in the order of the reference, by the titles of their pages.
PARTS = {
    "wrappers": "Wrappers of river models",
    "calibration": "Calibrators",
    "isotonic": "Isotonic regression",
    "losses": "Losses",
    "ordinal": "Ordinal labels",
    "decision": "Decisions",
    "voting": "Votes",
    "metrics": "Metrics",
    "plot": "Plots",
    "durable": "Crash-safe streams",
    "tables": "Tables",
    "sklearn": "scikit-learn",
    "spark": "Spark",
}
# Behind the command line and inside; every other part is public and has a page.
INTERNAL = {"cli", "kernels", "report"}


def exported(module: ModuleType) -> list[str]:
    """Return ``__all__``, or where there is none the public classes and functions of a module."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that this library documents."""
    for base in cls.__mro__:
        if base.__module__.partition(".")[0] != "streamcal":
            continue
        for name, value in vars(base).items():
            kinds: Any = property | classmethod | staticmethod
            if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, kinds)):
                continue
            if value.__doc__:
                yield name


def directive(name: str, value: Any) -> str:
    """Return what has autodoc document a name, by its full path."""
    short = name.rpartition(".")[2]
    if inspect.isclass(value):
        return f".. autoclass:: {name}\n   :members: {', '.join(dict.fromkeys(members(value)))}\n"
    if inspect.ismodule(value):
        heading = f"{short}\n{'-' * len(short)}\n\n.. automodule:: {value.__name__}\n"
        inner = [directive(f"{name}.{at}", getattr(value, at)) for at in exported(value)]
        return "\n".join([heading, *inner])
    if inspect.isroutine(value):
        return f".. autofunction:: {name}\n"
    return f".. autodata:: {name}\n   :no-value:\n"


def public_parts() -> list[str]:
    """Return the names of the parts of the package that users import from, in order."""
    there = [found.name for found in pkgutil.iter_modules(streamcal.__path__)]
    public = {name for name in there if not name.startswith("_")} - INTERNAL
    return [*(part for part in PARTS if part in public), *sorted(public - set(PARTS))]


def write_reference(folder: Path) -> list[str]:
    """Write the pages of reference into a folder and return their names.

    Raises
    ------
    ValueError
        If a name of the package is on none of them.
    """
    folder.mkdir(exist_ok=True)
    from sphinx.ext.autodoc.mock import mock  # type: ignore[attr-defined]  # not exported

    missing = set(streamcal.__all__)
    pages = {}
    for part in public_parts():
        title = PARTS.get(part, part.replace("_", " ").capitalize())
        # As autodoc will; but other parts must not take a mock for an installed package.
        with mock(autodoc_mock_imports) if part == "spark" else nullcontext():
            module = import_module(f"streamcal.{part}")
            names = exported(module)
            for name in names:
                getattr(module, name)  # what is loaded when touched
        missing -= {part, *names}
        head = f"{title}\n{'=' * len(title)}\n\n.. automodule:: {module.__name__}\n"
        # Modules have a heading of their own, so they come last.
        names.sort(key=lambda name: inspect.ismodule(getattr(module, name)))
        body = [directive(f"{module.__name__}.{at}", getattr(module, at)) for at in names]
        pages[part] = "\n".join([head, *body])
    if missing:
        raise ValueError(f"the reference has no page for {sorted(missing)}")
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
    for part, text in pages.items():
        path = folder / f"{part}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [f"reference/{part}" for part in pages]


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


def add_navigation(app: "Sphinx", page: str, source: list[str]) -> None:
    """Append the navigation to the first page; on others, unlink the pages that are not there."""
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


def setup(app: "Sphinx") -> None:
    """Hook the above into the build."""
    app.add_config_value("made", write_reference(HERE / "reference"), "env")
    app.connect("autodoc-process-docstring", make_unambiguous, priority=400)  # before napoleon
    app.connect("source-read", add_navigation)
    app.connect("env-get-outdated", read_again)
