"""Every block of code in the documents is run, and its results are compared.

The README and then the guides, in the order of the site, each from top to bottom. A ``python``
block runs alone: without the names of other blocks and in an empty folder, as for a reader who
copies only this one. The commands of a document follow each other in one folder, and find there
what its ``python`` blocks have written. Where a
line is a ``print(…)`` with a comment, the comment is what it prints; numbers count to the digits
that stand there. Where a block prints without such comments, the numbers of the sentence after it
are among what it prints. Blocks with ``>>>`` are doctests. In ``sh`` blocks the lines that start
with ``streamcal`` are run; the others (make, git, pip) are the reader's.
"""

import contextlib
import doctest
import io
import re
import runpy
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import typer

from streamcal.cli import demo_table
from streamcal.cli.app import app
from tests.runner import run

ROOT = Path(__file__).resolve().parents[1]
NAV = runpy.run_path(str(ROOT / "docs" / "conf.py"))["NAV"]
GUIDES = [ROOT / "docs" / f"{name}.md" for names in NAV.values() for name in names]
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "docs" / "index.md"),
    *(path for path in GUIDES if path.exists()),
    ROOT / "CONTRIBUTING.md",
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^print\(.*\)  # (.*)$", re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
LINK = re.compile(r"\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_every_document_is_among_them() -> None:
    assert set(DOCUMENTS) == {ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")}


def agrees(promised: str, printed: str) -> bool:
    """Return whether the words are the same, and the numbers to the digits promised."""
    if NUMBER.sub("#", promised) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(promised), NUMBER.findall(printed), strict=True)
    return all(f"{float(got):.{len(want.partition('.')[2])}f}" == want for want, got in pairs)


def test_a_comment_may_round_the_printed_number() -> None:
    assert agrees("LogLoss: 0.29", "LogLoss: 0.291349")
    assert not agrees("LogLoss: 0.30", "LogLoss: 0.291349")
    assert not agrees("Brier: 0.29", "LogLoss: 0.291349")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the empty folder of a reader who begins with the README."""
    return tmp_path_factory.mktemp("reader")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_from_top_to_bottom(
    document: Any, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in turn in one folder: what one leaves behind must not stop another."""
    monkeypatch.chdir(folder)
    for left in folder.glob("scores.*"):
        left.unlink()  # but each makes its own input
    printed, after = "", 0
    text = document.read_text(encoding="utf-8")
    for number, block in enumerate(BLOCK.finditer(text)):
        where = f"{document.name}, block {number + 1}"
        check_prose(text[after : block.start()], printed, where)
        language, code = block.groups()
        printed, after = "", block.end()
        if language in ("sh", "bash", "console"):
            run_shell(code, folder)
        elif language == "pycon" or (language == "python" and code.startswith(">>>")):
            run_doctest(code, where)
        elif language == "python":
            with tempfile.TemporaryDirectory() as alone, contextlib.chdir(alone):
                printed = run_python(code, where)
                shutil.copytree(".", folder, dirs_exist_ok=True)
    check_prose(text[after:], printed, document.name)


def test_the_first_screen_of_the_readme_is_short() -> None:
    top = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Also in the box")[0]
    code = "".join(code for _, code in BLOCK.findall(top))
    assert len(BLOCK.sub("", top).split()) <= 200
    assert len(code.splitlines()) <= 20
    assert top.count("![") == 1


def run_doctest(code: str, where: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(code, {}, where, where, None)
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test)
    assert runner.summarize().failed == 0, where


def run_python(code: str, where: str) -> str:
    """Run a block, check what its comments promise, and return what it printed beyond that."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, where, "exec"), {"__name__": "__main__"})
    promised = PROMISE.findall(code)
    if not promised:
        return out.getvalue()
    printed = out.getvalue().splitlines()
    assert len(printed) == len(promised), (where, printed)
    for want, got in zip(promised, printed, strict=True):
        assert agrees(want, got), f"{where}: it says {want!r} and prints {got!r}"
    return ""


def check_prose(prose: str, printed: str, where: str) -> None:
    """Check that the numbers of the first sentence after a block are among those it printed."""
    got = [float(number) for number in NUMBER.findall(printed)]
    sentence = re.split(r"\.\s", prose.strip(), maxsplit=1)[0]
    for want in NUMBER.findall(sentence) if got else ():
        digits = len(want.partition(".")[2])
        assert want in [f"{number:.{digits}f}" for number in got], f"{where}: {want}, of {got}"


def test_check_prose() -> None:
    check_prose(" It is 0.54 now. Then 0.7.", "LogLoss: 0.5391\nECE: 0.11", "here")
    check_prose("0.7 is of something else", "", "here")
    with pytest.raises(AssertionError, match=r"here: 0\.33, of \[0\.3409\]"):
        check_prose("It is 0.33.", "LogLoss: 0.3409", "here")


def run_shell(code: str, folder: Path) -> None:
    """Run the lines of a block that call `streamcal`, in this process; the others are the reader's.

    The demo runs over the beginnings of its streams. What never ends has its own tests.
    """
    lines = [line.removeprefix("$ ") for line in code.replace("\\\n", " ").splitlines()]
    for line in lines:
        if line.startswith("streamcal demo"):
            demo_table.run(folder / "demo", limit=150)
        if not re.match(r"streamcal (?!demo|watch)", line):
            continue
        done = run(*shlex.split(line, comments=True)[1:], status=None)
        assert done.exit_code == 0, (line, done.output)
        for option in re.findall(r"--(?:out|report) (\S+)", line):
            assert (folder / option).stat().st_size > 0, option


def test_options_in_the_prose_exist() -> None:
    """Of commands that stand in a sentence, and are not run."""
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    seen = 0
    for document in DOCUMENTS:
        prose = BLOCK.sub("", document.read_text(encoding="utf-8"))
        for command, rest in re.findall(r"`streamcal ([a-z]+)([^`]*)`", prose):
            options = {name for each in known[command].params for name in each.opts}
            assert set(re.findall(r"--[a-z-]+", rest)) <= {*options, "--help"}, (document, rest)
            seen += 1
    assert seen > 5


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Any) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target
