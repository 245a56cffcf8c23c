"""What the documents say is what happens: every block of code in them is run.

``python`` blocks of one document share their names, as a reader would expect. Where a line is a
``print(…)`` with a comment, the comment is what it prints; numbers count to the digits that stand
there. Blocks with ``>>>`` are doctests. In ``sh`` blocks the lines that start with ``streamcal``
are run, in a folder with a file of scores; the others (make, git, pip) are the reader's.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
LINK = re.compile(r"\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)")


def blocks(document: Path, *languages: str) -> list[str]:
    text = document.read_text(encoding="utf-8")
    return [code for language, code in BLOCK.findall(text) if language in languages]


def agrees(promised: str, printed: str) -> bool:
    """Return whether the words are the same, and the numbers to the digits promised."""
    if NUMBER.sub("#", promised) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(promised), NUMBER.findall(printed), strict=True)
    return all(f"{float(got):.{len(want.partition('.')[2])}f}" == want for want, got in pairs)


def test_agrees():
    assert agrees("LogLoss: 0.29", "LogLoss: 0.291349")
    assert not agrees("LogLoss: 0.30", "LogLoss: 0.291349")
    assert not agrees("Brier: 0.29", "LogLoss: 0.291349")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, code in enumerate(blocks(document, "python", "pycon")):
        where = f"{document.name}, python block {number + 1}"
        if code.startswith(">>>"):
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            test = doctest.DocTestParser().get_doctest(code, names, where, str(document), None)
            runner = doctest.DocTestRunner(optionflags=flags)
            runner.run(test, clear_globs=False)
            assert runner.summarize().failed == 0, where
            names = test.globs
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, where, "exec"), names)
        promised = PROMISE.findall(code)
        if promised:
            printed = out.getvalue().splitlines()
            assert len(printed) == len(promised), (where, printed)
            for want, got in zip(promised, printed, strict=True):
                assert agrees(want, got), f"{where}: it says {want!r} and prints {got!r}"


def commands(document: Path) -> list[str]:
    lines = "".join(blocks(document, "sh", "bash", "console")).replace("\\\n", " ").splitlines()
    lines = [line.removeprefix("$ ").split("  #")[0].strip() for line in lines]
    return [line for line in lines if line.startswith("streamcal ")]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_command_lines(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_scores(tmp_path)
    for line in commands(document):
        command = shlex.split(line)
        if command[1] in ("demo", "watch"):
            continue  # takes minutes, never ends; they have their own tests
        subprocess.run(
            [sys.executable, "-m", "streamcal.cli", *command[1:]],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
        )
        for option in ("--out", "--report"):
            if option in command:
                written = Path(command[command.index(option) + 1])
                assert written.stat().st_size > 0, line


def write_scores(folder: Path) -> None:
    """Write the file that the documents speak of: scores ``p``, labels ``y``, keys ``user``."""
    random = np.random.default_rng(0)
    p = random.random(2_000).round(4)
    y = random.random(2_000) < p**2
    user = random.integers(0, 3, 2_000)
    rows = [f"{a},{int(b)},{c}" for a, b, c in zip(p, y, user, strict=True)]
    (folder / "scores.csv").write_text("\n".join(["p,y,user", *rows, ""]))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target
