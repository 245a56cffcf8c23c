"""Each extra works alone; ``.ci/long`` tests the same in separate environments."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import only_extra, use_extra

TESTS = Path(__file__).resolve().parent


@pytest.mark.parametrize("extra", use_extra.USES)
def test_an_extra_alone_does_what_it_is_for(extra: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TESTS / "only_extra.py", extra, "-m", "use_extra", extra],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"extra {extra or 'none'}: works\n")
    if extra in ("", "plot", "jax", "kafka", "sklearn"):
        assert "the command line needs typer" in done.stderr
        assert "pip install '.[cli]'" in done.stderr


def test_extras_are_those_that_are_tried() -> None:
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(project["project"]["optional-dependencies"])
    # `spark` has its own tests, which want Java; `all` holds it; the others are for developers.
    assert extras == {*use_extra.USES, "spark", "all", "bench", "test"} - {""}


def test_nothing_large_comes_without_an_extra() -> None:
    assert {"numpy", "river"} <= only_extra.closure("")
    assert not {
        "jax",
        "jaxlib",
        "matplotlib",
        "pandas",
        "pyarrow",
        "scikit-learn",
    } & only_extra.closure("")
