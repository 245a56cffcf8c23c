"""The site has every page and every public name, and the pictures can be drawn."""

import inspect
import re
import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import streamcal

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def conf() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "conf.py"))


def test_every_public_name_is_in_the_reference(conf, tmp_path):
    try:
        pages = conf["write_reference"](tmp_path)
    except ImportError as error:
        pytest.skip(f"an extra is missing: {error}")
    found = set()
    for page in pages:
        text = (tmp_path / f"{Path(page).name}.rst").read_text(encoding="utf-8")
        found.update(re.findall(r"^\.\. auto(?:class|data|function|module):: (\S+)$", text, re.M))
    short = {name.rpartition(".")[2] for name in found}
    assert set(streamcal.__all__) <= short
    for part in conf["public_parts"]():
        module = import_module(f"streamcal.{part}")
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            path = value.__name__ if inspect.ismodule(value) else f"streamcal.{part}.{name}"
            assert path in found


def test_navigation_names_a_page_once(conf):
    named = [name for entries in conf["NAV"].values() for name in entries]
    assert len(named) == len(set(named))
    assert {"start", "choosing", "how-it-works", "serving", "benchmarks"} <= set(named)
    assert all((DOCS / f"{name}.md").exists() for name in ("start", "choosing", "serving"))


def test_every_example_is_on_its_page():
    text = (DOCS / "examples.md").read_text(encoding="utf-8")
    for path in (DOCS.parent / "examples").glob("*.py"):
        assert f"../examples/{path.name}\n" in text


def test_pictures_are_drawn_again_the_same(tmp_path):
    pictures = runpy.run_path(str(DOCS / "pictures.py"))
    committed = {path.stem: path for path in (DOCS / "pictures").glob("*.svg")}
    assert sum(path.stat().st_size for path in committed.values()) < 1_000_000
    assert set(pictures["PICTURES"]) == {name for name in committed if "study-" not in name}
    pages = ("how-it-works.md", "diagnostics.md")
    text = "".join((DOCS / page).read_text(encoding="utf-8") for page in pages)
    for name in pictures["PICTURES"]:
        assert f"(pictures/{name}.svg)" in text
        drawn = pictures["draw"](name, tmp_path).read_bytes()
        assert drawn == pictures["draw"](name, tmp_path).read_bytes()
        assert b"<svg" in drawn
        assert b"<dc:date>" not in drawn


def test_only_what_needs_a_cluster_is_shown_and_not_run():
    kinds = re.compile(r"^```py$", re.M)
    shown = {path.name for path in DOCS.glob("*.md") if kinds.search(path.read_text("utf-8"))}
    assert shown <= {"spark.md", "scaling.md"}
