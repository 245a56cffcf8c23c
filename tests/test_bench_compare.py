"""`make bench-compare` has to fail on a regression, which asv's own comparison does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BENCHMARK = """\
import streamcal

class Cost:
    params = [1]
    def track_cost(self, n):
        return n * streamcal.COST

def track_new():
    return streamcal.NEW
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A repository with a package whose only property is what it costs."""
    for variable in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    repository = tmp_path / "project"
    (repository / "asv_bench" / "benchmarks").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "asv_bench" / "compare.py", repository / "asv_bench")
    (repository / "asv_bench" / "benchmarks" / "__init__.py").touch()
    (repository / "asv_bench" / "benchmarks" / "bench.py").write_text(BENCHMARK)
    (repository / ".gitignore").write_text(".asv\n__pycache__\n")
    (repository / "streamcal").mkdir()
    machine = dict.fromkeys(["arch", "cpu", "machine", "num_cpu", "os", "ram"], "any")
    node = os.uname().nodename
    machine_file = {node: machine | {"machine": node}, "version": 1}
    (tmp_path / "home" / ".asv-machine.json").write_text(json.dumps(machine_file))
    write(repository, "COST = 10.0")
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a package")
    return repository


def git(repository: Any, *arguments: Any) -> None:
    person = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *person, *arguments], cwd=repository, check=True)


def write(repository: Any, source: Any) -> None:
    (repository / "streamcal" / "__init__.py").write_text(source)


def compare(repository: Any) -> Any:
    command = [sys.executable, "asv_bench/compare.py", "HEAD", "--rounds", "1"]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is what it compares revisions with")
def test_a_regression_fails_and_an_improvement_passes(project: Any) -> None:
    done = compare(project)
    assert done.returncode == 2
    assert "nothing to compare" in done.stderr

    write(project, "COST = 15.0\nNEW = 1.0")
    done = compare(project)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worse than HEAD: bench.Cost.track_cost(1)\n" in done.stdout

    write(project, "COST = 5.0\nNEW = 1.0")
    done = compare(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is worse" in done.stdout
    status = ["git", "status", "--porcelain"]
    changed = subprocess.run(status, cwd=project, capture_output=True, text=True).stdout
    assert changed == " M streamcal/__init__.py\n"
