"""Each extra works alone; ``.ci/long`` tests the same in separate environments."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from streamcal._extras import missing
from tests import conftest, only_extra, use_extra

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
    if extra in ("", "plot", "jax", "kafka", "onnx", "sklearn"):
        assert "the command line needs typer" in done.stderr
        assert "pip install '.[cli]'" in done.stderr


def test_what_needs_an_extra_is_skipped_without_it() -> None:
    """A file, a test, a file of doctests, and a doctest."""
    names = ("tests/test_cusum_layer.py", "tests/test_frames.py::test_calibrators")
    files = ("streamcal/losses/derivatives.py", "streamcal/losses/_convex.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.without_jax", *names, *files]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=TESTS.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    for reason in ("jax is not installed", "the loss Squared() needs JAX: pip install '.[jax]'"):
        assert reason in done.stdout
    for file in (names[0], files[0]):
        assert re.search(rf"^SKIPPED .* {file}", done.stdout, re.MULTILINE)


def test_an_error_about_what_is_installed_is_no_reason_to_skip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = [
        ModuleNotFoundError("No module named 'jax.numpy'", name="jax.numpy"),
        missing("a loss", "JAX", "jax"),
        missing("the command line", "rich, jax", "cli"),
    ]
    for absent, expected in ((set(), [False] * 3), ({"jax"}, [True] * 3), ({"rich"}, None)):
        monkeypatch.setattr(conftest, "MISSING", absent)
        found = [conftest.reason_to_skip(error) is not None for error in errors]
        assert found == (expected or [False, False, True])
    assert conftest.reason_to_skip(AssertionError("wrong")) is None
    wrong = ModuleNotFoundError("No module named 'streamcal.jax'", name="streamcal.jax")
    assert conftest.reason_to_skip(wrong) is None


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
