"""What the gates leave behind: ``left_behind.py note FILE HOME`` before, ``check FILE HOME`` after.

``check`` fails, and prints what it has found, if

* byte code of the environment or of the checkout can't be loaded: CPython does not notice that it
  was cut off while it was written, and then fails at each import of the module;
* ``git status`` names a file that it did not name before;
* the home directory, which is to be one that was empty, has a file;
* ``/dev/shm`` has a new file of this user that no process uses.
"""

import importlib.util
import json
import marshal
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED_MEMORY = Path("/dev/shm")
HEADER = 16  # bytes before the code: the magic number, flags, and what the source was


def torn(folder: Path) -> Iterator[str]:
    """Yield the files of byte code, for this interpreter, that can't be loaded."""
    for path in sorted(folder.rglob("*.pyc")):
        data = path.read_bytes()
        if data[:4] not in (importlib.util.MAGIC_NUMBER, b""):
            continue  # of another interpreter
        try:
            marshal.loads(data[HEADER:])
        except (EOFError, TypeError, ValueError) as error:
            yield f"{path}: byte code that can't be loaded ({error}); delete it"


def changed() -> list[str]:
    """Return the lines of ``git status``, but for what is ignored; none outside of a repository."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=all"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def segments() -> list[str]:
    """Return the files of this user in shared memory."""
    found = []
    for path in sorted(SHARED_MEMORY.glob("*")):
        try:
            mine = path.stat().st_uid == os.getuid()
        except OSError:  # it is gone
            continue
        found += [str(path)] if mine else []
    return found


def used() -> set[str]:
    """Return the files in shared memory that a process has mapped or open."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for line in (process / "maps").read_text().splitlines():
                found.add(line[line.find("/") :] if "/" in line else "")
            found.update(os.readlink(entry) for entry in (process / "fd").iterdir())
        except OSError:  # it has ended, or is another user's
            continue
    return found


def left(before: dict[str, list[str]], home: Path) -> Iterator[str]:
    """Yield a line for each thing that is left."""
    yield from torn(ROOT)
    for line in sorted({*changed()} - {*before["changed"]}):
        yield f"{line[3:]}: a file of the checkout that was not there or has changed"
    for path in sorted(home.rglob("*")):
        if not path.is_dir():
            yield f"~/{path.relative_to(home)}: a file in the home directory"
    new = {*segments()} - {*before["segments"]}
    for path in sorted(new - used() if new else ()):
        yield f"{path}: shared memory that no process uses"


def main(action: str, file: Path, home: Path) -> int:
    """Write down what is here, or compare; return the exit status."""
    if action == "note":
        file.write_text(json.dumps({"changed": changed(), "segments": segments()}))
        return 0
    found = list(left(json.loads(file.read_text()), home))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))
