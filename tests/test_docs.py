"""The site has every page and every public name, and the pictures can be drawn."""

import contextlib
import inspect
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sphinx.application import Sphinx

import streamcal
from streamcal.report.words import WORDS

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "reference_pages.py"))


def test_every_public_name_is_in_the_reference(reference: Any, tmp_path: Path) -> None:
    try:
        pages = reference["write_reference"](tmp_path)
    except ImportError as error:
        pytest.skip(f"an extra is missing: {error}")
    found = {
        page.stem: re.findall(
            r"^\.\. auto(?:class|data|function|module):: (\S+)$", page.read_text("utf-8"), re.M
        )
        for page in tmp_path.glob("*.rst")
    }
    for part in reference["public_parts"]():
        module = import_module(f"streamcal.{part}")
        assert f"reference/{part}" in pages
        assert found[part][0] == module.__name__
        for name in getattr(module, "__all__", ()):
            value, path = getattr(module, name), reference["public_name"](part, name)
            if not callable(value) and not inspect.ismodule(value):
                assert path in found[part]
                continue
            assert found[path][0] == (value.__name__ if inspect.ismodule(value) else path)
            assert f"<{path}>`" in (tmp_path / f"{part}.rst").read_text("utf-8")


def test_every_name_of_a_task_has_a_page(reference: Any, tmp_path: Path) -> None:
    try:
        reference["write_reference"](tmp_path)
    except ImportError as error:
        pytest.skip(f"an extra is missing: {error}")
    named = re.findall(r"<(streamcal\S+)>`", (tmp_path / "tasks.rst").read_text("utf-8"))
    assert len(named) > 30
    assert [path for path in named if not (tmp_path / f"{path}.rst").exists()] == []


def test_public_names_are_the_shortest_that_users_import(reference: Any) -> None:
    assert reference["public_name"]("calibration", "PlattCalibrator") == "streamcal.PlattCalibrator"
    assert reference["public_name"]("losses", "Log") == "streamcal.losses.Log"


def test_every_public_class_and_function_has_an_example(reference: Any) -> None:
    without = []
    for part in set(reference["public_parts"]()) - {"spark"}:  # its examples need a cluster
        module = import_module(f"streamcal.{part}")
        names = {f"{part}.{name}": getattr(module, name) for name in reference["exported"](module)}
        for path, inner in [*names.items()]:
            if inspect.ismodule(inner):
                names |= {f"{path}.{name}": getattr(inner, name) for name in inner.__all__}
        without += [
            path
            for path, value in names.items()
            if callable(value) and ">>>" not in (value.__doc__ or "")
        ]
    assert sorted(without) == []


def test_the_reference_shows_the_parameters_of_classes(tmp_path: Path) -> None:
    lines = [f".. autoclass:: streamcal.{name}" for name in streamcal.__all__ if name[0].isupper()]
    (tmp_path / "index.rst").write_text("\n".join(lines))
    settings = {"extensions": ["sphinx.ext.autodoc"], "autodoc_typehints": "none"}
    folders = [str(tmp_path), None, str(tmp_path / "out"), str(tmp_path / "trees")]
    app = Sphinx(*folders, "text", settings, status=None, warning=None)
    app.connect("autodoc-process-signature", runpy.run_path(str(DOCS / "conf.py"))["show_init"])
    app.build()
    text = (tmp_path / "out" / "index.txt").read_text("utf-8")
    assert "class streamcal.HedgedCalibrator(calibrators=None, *, prior=None," in text
    assert "kwargs" not in text


def test_navigation_names_a_page_once() -> None:
    nav = runpy.run_path(str(DOCS / "conf.py"))["NAV"]
    named = [name for entries in nav.values() for name in entries]
    assert len(named) == len(set(named))
    assert {"start", "choosing", "how-it-works", "serving", "benchmarks"} <= set(named)
    assert all((DOCS / f"{name}.md").exists() for name in ("start", "choosing", "serving"))


@pytest.mark.parametrize(
    ("page", "anchor", "public"),
    [
        ("streamcal.decision.claim_gap", "streamcal.claim_gap", "streamcal.decision.claim_gap"),
        ("streamcal.maximize", "streamcal.decision.maximize", "streamcal.maximize"),
        ("streamcal.Ticket", "streamcal.calibration.Ticket.count", "streamcal.Ticket.count"),
        ("streamcal.Ticket", "streamcal.Ticket", "streamcal.Ticket"),
        ("losses", "streamcal.losses.get", "streamcal.losses.get"),
    ],
)
def test_source_is_linked_to_where_its_names_are_documented(
    page: str, anchor: str, public: str
) -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    context = {"body": f'<a href="../../reference/{page}.html#{anchor}">[docs]</a>'}
    conf["link_source_to_public_path"](None, "_modules/streamcal/x", "page.html", context, None)
    assert context["body"] == f'<a href="../../reference/{page}.html#{public}">[docs]</a>'


def test_every_example_is_on_its_page() -> None:
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    for path in (DOCS.parent / "examples").glob("*.py"):
        assert f"../examples/{path.name}\n" in text


def test_every_notebook_is_on_the_first_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    scripts = {path.name for path in (DOCS / "gallery").glob("*.py")}
    assert set(re.findall(r"\(gallery/(\w+\.py)\)", text)) == scripts
    assert len(scripts) == 9


def test_the_words_of_a_report_are_in_the_glossary() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert len(WORDS) > 5
    for word, meaning in WORDS:
        assert f"| {word} | {meaning} |" in text


def test_pictures_are_drawn_again_the_same(tmp_path: Path) -> None:
    pictures = runpy.run_path(str(DOCS / "pictures.py"))
    committed = {path.stem: path for path in (DOCS / "pictures").glob("*.svg")}
    assert sum(path.stat().st_size for path in committed.values()) < 1_000_000
    assert set(pictures["PICTURES"]) == {name for name in committed if "study-" not in name}
    pages = ("how-it-works.md", "diagnostics.md", "index.md")
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in pages)
    for name in pictures["PICTURES"]:
        assert f"(pictures/{name}.svg)" in text
        drawn = pictures["draw"](name, tmp_path).read_bytes()
        assert drawn == pictures["draw"](name, tmp_path).read_bytes()
        assert b"<svg" in drawn
        assert b"<dc:date>" not in drawn


def test_only_what_needs_a_cluster_or_mlflow_is_shown_and_not_run() -> None:
    kinds = re.compile(r"^```py$", re.M)
    shown = {path.name for path in DOCS.glob("*.md") if kinds.search(path.read_text("utf-8"))}
    assert shown <= {"spark.md", "scaling.md", "recipes.md"}


def test_the_recipe_for_mlflow_runs_with_a_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow would hold other packages back; its part is a file that is logged and loaded."""
    text = (DOCS / "recipes.md").read_text("utf-8")
    state, exported = re.findall(r"^```py\n(.*?)^```$", text, re.M | re.S)
    logged: dict[str, Any] = {}

    def load_model(uri: str) -> Any:
        model = logged["python_model"]
        model.load_context(SimpleNamespace(artifacts=logged["artifacts"]))
        return SimpleNamespace(predict=lambda data: model.predict(None, data))

    def log_model(**given: Any) -> Any:
        logged.update(given)
        return SimpleNamespace(model_uri="runs:/a")

    pyfunc = SimpleNamespace(PythonModel=object, log_model=log_model, load_model=load_model)
    mlflow = SimpleNamespace(pyfunc=pyfunc, start_run=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.chdir(tmp_path)
    p = np.linspace(0.0, 1.0, 200)
    for block in (state, exported):
        names: dict[str, Any] = {}
        exec(compile(block, "recipes.md", "exec"), names)
        answers = names["served"].predict({"p": p})
        assert np.abs(answers - names["hedge"].predict_many(p)).max() <= 1e-6


def test_every_file_that_a_page_names_exists() -> None:
    root = DOCS.parent
    name = re.compile(r"[\w./-]*\w/\w+\.(?:py|pyx|pxd)\b")
    pages = (*DOCS.glob("*.md"), root / "README.md", root / "CONTRIBUTING.md")
    places = (root, root / "streamcal", DOCS)  # CONTRIBUTING leaves out `streamcal/` in places
    missing: set[str] = set()
    found: set[str] = set()
    for page in pages:
        for path in name.findall(page.read_text(encoding="utf-8")):
            exists = any((place / path).exists() for place in places)
            (found if exists else missing).add(f"{page.name}: {path}")
    assert sorted(missing) == []
    assert len(found) > 100
