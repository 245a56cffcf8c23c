"""Check the steps of workflows, which can't run here: ``workflow_steps.py FILE…``.

Shellcheck reads each ``run``, with a word for each ``${{ … }}``. Scripts and targets of make
that a step names must be there. An action is named by a commit, with its version beside it.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)*$")


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with a workflow."""
    text = path.read_text(encoding="utf-8")
    for line in text.splitlines():
        if "uses:" in line and not PINNED.search(line):
            yield f"{line.strip()}: an action needs a commit, and its version as a comment"
    for name, job in yaml.safe_load(text)["jobs"].items():
        for step in job["steps"]:
            run = re.sub(r"\$\{\{.*?\}\}", "word", step.get("run", ""))
            for script in re.findall(r"(?<![\w/])\.ci/[\w./-]+", run):
                if not (ROOT / script).is_file():
                    yield f"{name}: there is no {script}"
            for target in re.findall(r"\bmake ([a-z-]+)", run):
                if target not in TARGETS:
                    yield f"{name}: make has no target {target}"
            command = ["shellcheck", "--shell=bash", "--format=gcc", "-"]
            done = subprocess.run(command, input=run, capture_output=True, text=True)
            yield from (f"{name}: {found}" for found in done.stdout.splitlines())


def main() -> int:
    """Print what is wrong and return the exit status."""
    found = [f"{path}: {each}" for path in sys.argv[1:] for each in findings(Path(path))]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
