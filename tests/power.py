"""The states of the files of a run after a loss of power, from a record of its system calls.

Killing a process loses nothing that the operating system holds; a loss of power does. So a library
in the process (power.c, which needs a C compiler) records writes, truncations, creations, renames,
removals and syncs, those of SQLite included, which calls the C library too. Other methods do not
see all of them: a VFS must be registered in the SQLite library of Python's module, and tracing
system calls needs a right that containers often lack.

The possible contents of a disk follow the weakest guarantees of POSIX (T. S. Pillai et al., All
file systems are not created equal, OSDI 2014). Data written to a file are safe after a sync of the
file; creating, renaming and removing a file after a sync of its folder. Any part of all other
changes may be lost, in any order, and a write may be partial.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
needs_recorder = pytest.mark.skipif(
    COMPILER is None or not sys.platform.startswith("linux"),
    reason="the recorder of writes and syncs needs Linux and a C compiler (cc, gcc or clang)",
)
# SQLite's index of its log, which is mapped and made anew after a crash; the journal of a lock.
_UNSEEN = ("-shm", "-lock-journal")


class Change(NamedTuple):
    """A change by a process, of the bytes of a file or of a name."""

    kind: str  # write, truncate; create, rename, unlink
    file: int = -1
    at: int = 0
    data: bytes = b""
    path: str = ""
    new: str = ""


class Disk(NamedTuple):
    """Files by number, and their names."""

    data: dict[int, bytes]
    names: dict[str, int]

    def after(self, change: Change, how: str = "whole") -> "Disk":
        """Return the disk after a change; ``how`` says how much of it is done."""
        kind, file, at, data, path, new = change
        if kind in ("write", "truncate"):
            old = self.data.get(file, b"")
            if kind == "truncate":
                now = old[:at].ljust(at, b"\0")
            else:
                half = len(data) // 2
                if how == "first half":
                    data = data[:half]
                elif how == "second half":
                    at, data = at + half, data[half:]
                elif how == "zeros":
                    data = bytes(len(data))
                now = old[:at].ljust(at, b"\0") + data + old[at + len(data) :]
            return self._replace(data={**self.data, file: now})
        names = dict(self.names)
        if kind == "unlink":
            names.pop(path, None)
        elif kind == "create":
            names[path] = file
        else:
            if names.get(path) == file:
                del names[path]
            names[new] = file
        return self._replace(names=names)

    def files(self) -> dict[str, bytes]:
        """Return the contents by name."""
        return {name: self.data.get(file, b"") for name, file in self.names.items()}


class State(NamedTuple):
    """A disk after a loss of power: all changes that are safe, and some of the others."""

    sure: Disk
    rest: Sequence[tuple[Change, str]]
    marks: dict[str, Any]  # those of the run until then

    def files(self) -> dict[str, bytes]:
        disk = self.sure
        for change, how in self.rest:
            disk = disk.after(change, how)
        return disk.files()


def mark(name: str, value: Any) -> None:
    """Add a mark to the record of this process."""
    if "POWER_LOG" in os.environ:
        log = os.open(os.environ["POWER_LOG"], os.O_WRONLY | os.O_APPEND)
        os.write(log, f"mark {name} {json.dumps(value)}\n".encode())
        os.close(log)


def put(root: Path, files: dict[str, bytes]) -> None:
    """Write these files to a folder, and remove all others."""
    for path in root.rglob("*"):
        if not path.is_dir():
            path.unlink()
    for name, data in files.items():
        (root / name).write_bytes(data)


def held(root: Path) -> dict[str, bytes]:
    """Return the files in a folder that a record covers."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.name.endswith(_UNSEEN))
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


class Record:
    """The changes of a Python program to files in a folder, whose subfolders must exist before.

    Raises
    ------
    AssertionError
        If the record is not complete: replayed, it must give the files in the folder.
    """

    def __init__(self, root: Path, code: str, *arguments: str) -> None:
        self.root = root = root.resolve()
        library, log = root.with_name("power.so"), root.with_name("power.log")
        source = Path(__file__).with_name("power.c")
        assert COMPILER is not None
        flags = ["-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl", "-pthread"]
        subprocess.run([COMPILER, *flags], check=True)
        before = held(root)
        self._numbers = {}
        for number, name in enumerate(before):
            status = (root / name).stat()
            self._numbers[f"{status.st_dev}:{status.st_ino}"] = number
        self.begin = Disk(
            dict(enumerate(before.values())), {name: i for i, name in enumerate(before)}
        )
        self._folders = {
            f"{folder.stat().st_dev}:{folder.stat().st_ino}": str(folder.relative_to(root))
            for folder in (root, *(path for path in root.rglob("*") if path.is_dir()))
        }
        log.touch()
        subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=True,
            cwd=Path(__file__).parents[1],
            env={
                **os.environ,
                "LD_PRELOAD": str(library),
                "POWER_ROOT": str(root),
                "POWER_LOG": str(log),
            },
        )
        self._n_files = len(before)
        self.steps = list(self._read(log.read_bytes()))
        disk = self.begin
        for step in self.steps:
            if isinstance(step, Change):
                disk = disk.after(step)
        assert disk.files() == held(root), "the record is not complete"

    def _read(self, log: bytes) -> Iterator[Change | tuple[str, Any]]:
        """Yield changes, ``("sync", file or folder)`` and ``("mark", (name, value))``."""
        names = dict(self.begin.names)
        at = 0

        def line() -> str:
            nonlocal at
            end = log.index(b"\n", at)
            text, at = log[at:end].decode(), end + 1
            return text

        def name(path: str) -> str:
            return str(Path(path).relative_to(self.root))

        while at < len(log):
            kind, _, rest = line().partition(" ")
            if kind == "mark":
                what, _, value = rest.partition(" ")
                yield "mark", (what, json.loads(value))
            elif kind == "rename":
                old, new = name(rest), name(line())
                names[new] = names.pop(old)
                yield Change(kind, names[new], path=old, new=new)
            elif kind == "unlink":
                if not rest.endswith(_UNSEEN):
                    names.pop(name(rest), None)
                    yield Change(kind, path=name(rest))
            elif kind == "create":
                number, _, path = rest.partition(" ")
                self._numbers[number] = -1
                if not path.endswith(_UNSEEN):
                    self._numbers[number] = names[name(path)] = self._n_files
                    self._n_files += 1
                    yield Change(kind, names[name(path)], path=name(path))
            else:
                number, *numbers = rest.split()
                size = int(numbers[-1]) if numbers else 0
                data, at = (log[at : at + size], at + size) if kind == "write" else (b"", at)
                if kind == "sync" and number in self._folders:
                    yield kind, self._folders[number]
                elif self._numbers[number] < 0:
                    continue
                elif kind == "sync":
                    yield kind, self._numbers[number]
                else:
                    yield Change(kind, self._numbers[number], int(numbers[0]), data)

    def states(self, seed: int, most: int | None) -> list[State]:
        """Return possible states after a loss of power, without duplicates.

        At each moment: all or none of the changes that are not synced, all but one, only one, a
        partial write, sizes without contents, and random subsets. ``most`` of them are chosen at
        random, besides the least state after each mark, and the states in which one change of a
        name is lost just before the sync of its folder. None: all, with more random subsets.
        """
        draw = random.Random(seed)
        found: dict[int, State] = {}
        chosen: set[int] = set()

        def add(state: State) -> int:
            key = hash(frozenset(state.files().items()))
            found[key] = state  # the later one has more marks
            return key

        sure, pending, marks = self.begin, list[Change](), dict[str, Any]()
        for step in self.steps:
            if isinstance(step, Change):
                pending.append(step)
            elif step[0] == "mark":
                marks = {**marks, step[1][0]: step[1][1]}
            else:
                before, rest = sure, []
                for change in pending:
                    if _is_synced(change, step[1]):
                        if isinstance(step[1], str):
                            lost = [(other, "whole") for other in pending if other is not change]
                            chosen.add(add(State(before, lost, marks)))
                        sure = sure.after(change)
                    else:
                        rest.append(change)
                pending = rest
            whole = [(change, "whole") for change in pending]
            key = add(State(sure, [], marks))
            if not isinstance(step, Change) and step[0] == "mark":
                chosen.add(key)
            add(State(sure, whole, marks))
            zeros = [(change, "zeros" * (change.kind == "write")) for change in pending]
            add(State(sure, zeros, marks))
            for i, change in enumerate(pending):
                add(State(sure, whole[:i] + whole[i + 1 :], marks))
                add(State(sure, whole[i : i + 1], marks))
                if len(change.data) > 1:
                    for how in ("first half", "second half"):
                        add(State(sure, [*whole[:i], (change, how), *whole[i + 1 :]], marks))
            for _ in range(10 if most is None else 1):
                add(State(sure, [pair for pair in whole if draw.random() < 0.5], marks))
        others = [key for key in found if key not in chosen]
        if most is not None:
            others = draw.sample(others, min(len(others), most))
        return [found[key] for key in (*chosen, *others)]


def _is_synced(change: Change, what: int | str) -> bool:
    """Return whether a sync of a file (its number) or of a folder makes a change last."""
    if change.kind in ("write", "truncate"):
        return change.file == what
    return str(Path(change.new or change.path).parent) == what
