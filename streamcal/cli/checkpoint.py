"""How ``streamcal calibrate --state`` is killed at any instant and goes on as if nothing had been.

After a batch the store gets, in one transaction, the calibrators, how far the table has been read,
how long the output is by then, a digest of all its bytes, and the sums of the losses. The output is
on the disk before that. A run that starts again reads what is in ``NAME.partial``. If that does not
begin with the bytes of the digest, the run is refused before any file is touched. Else what comes
after them, which was never committed, is cut off; the table is read from its beginning, the rows
that are learned are passed over, and the run goes on. So the output is byte for byte what one run
would have written.

Before ``NAME.partial`` is made, the store takes note that this run makes it. One that is there
before belongs to somebody else, and the run is refused. One that is there after the note, while
nothing is committed, may be what a killed process has written: it is compared with what the run
writes, byte by byte, and the run is refused, before any file is touched, where they differ. A loss
of power may have kept parts of what was written from the disk, and there a file reads as zeros. So
zeros are taken for what is missing, and are written anew when all the rest is compared.

When all rows are written and committed, ``NAME.partial`` is renamed to ``NAME``, and the store
takes note of that, too. A process that is killed in between leaves the rest to the next run, of
the same or of another table. An older ``NAME`` is replaced only if it is what was there when the
run began. After that the output is finished. Nobody opens it for writing again, whatever becomes
of it.

The rows passed over must be the rows that were learned: checksums of their numbers and keys are
kept, and compared before the first new row is learned. A table may have grown in the meantime. If
its output was finished and is still as it was, it is copied to ``NAME.partial``, and the run goes
on there; if it is not as it was, the run is refused. When a run has come to its end, another table
may follow: its rows go on from what has been learned.
"""

import errno
import hashlib
import os
import signal
import stat
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.engine import Pace
from streamcal.keyed import KeyedCalibrator
from streamcal.store import Stopped, Store, StoreError
from streamcal.tables import Output, is_standard, sync_folder

_BLOCK_BYTES = 1 << 20
# What may lie beside a store: SQLite's files, the lock and what SQLite keeps beside that, and the
# file that a new store or a copy is before it is whole.
_BESIDE = ("-wal", "-shm", "-journal")
_STORE = ("", *_BESIDE, "-lock", "-lock-journal", ".partial", *(f".partial{e}" for e in _BESIDE))


def files_of_store(path: Path) -> list[Path]:
    """Return the names of all files that a store may use.

    Examples
    --------
    >>> [file.name for file in files_of_store(Path("run.db"))][:3]
    ['run.db', 'run.db-wal', 'run.db-shm']
    """
    bases = dict.fromkeys([path, Path(os.path.realpath(path))])  # SQLite goes where a link leads
    return [base.with_name(base.name + ending) for base in bases for ending in _STORE]


class Seal:
    """A running checksum of the numbers of rows, however they are cut into chunks.

    Examples
    --------
    >>> whole, parts = Seal(), Seal()
    >>> whole.add(np.arange(4.0), np.ones(4))
    >>> for i in range(4):
    ...     parts.add(np.array([float(i)]), np.ones(1))
    >>> whole.sums == parts.sums
    True
    """

    def __init__(self) -> None:
        self.sums: list[int] = []

    def add(self, *columns: NDArray[np.float64]) -> None:
        """Add rows, given by their columns."""
        self.sums = self.sums or [0] * len(columns)
        self.sums = [
            zlib.crc32(np.ascontiguousarray(column).tobytes(), total)
            for column, total in zip(columns, self.sums, strict=True)
        ]


class _KeptOutput(Output):
    """An output that a store describes, by its length and a digest of its bytes.

    No file is touched before there is something to write or to `sync`.

    Parameters
    ----------
    path : Path
        The name, with all links followed; if it has become one since, that is a fault.
    store : Store
    begun_as : mapping
        The notes of a run that begins.

    Attributes
    ----------
    opened : bool
        Whether this process has written to it.
    """

    def __init__(self, path: Path, store: Store, begun_as: Mapping[str, Any]) -> None:
        super().__init__(path)
        self._target = path
        self._own = self.partial = path.with_name(path.name + ".partial")
        self.opened = False
        self._store = store
        self._begun_as = begun_as
        self._hash = _new_hash()
        self._finished: str | None = None  # the digest of an output that has its name already
        self._replaces: str | None = None  # the digest of the file that was there before
        self._left: BinaryIO | None = None  # what a killed process has left, to be compared
        self._missing: list[tuple[int, bytes]] = []  # where it has zeros, and what belongs there

    def check_free(self) -> None:
        """Raise `StoreError` if there is a partial file, which can't be of a run that begins."""
        _check_free(self._own, self._store.path)

    def take_over(self, notes: Mapping[str, Any]) -> bool:
        """Go on from where the notes say that the run stands; return whether it is finished.

        Raises
        ------
        StoreError
            If what is there can't be proven to be what the notes describe.
        """
        length, digest = notes["length"], notes.get("digest", "")
        self._replaces = notes.get("replaces")
        if notes["finished"]:
            self._good, self._finished = length, digest
            return True
        if notes.get("whole") and not os.path.lexists(self._own):
            if self._holds(length, digest):
                # Killed after it was given its name, and before the store knew.
                self._good, self._finished = length, digest
                self._store.save({}, notes={**notes, "finished": True})
                return True
        if length or os.path.lexists(self._own):
            self._prove(length, digest)
        self._check_replaced()
        return False

    def is_as_finished(self) -> bool:
        """Whether a finished output is there with the bytes that it had."""
        return self._finished is not None and self._holds(self._good, self._finished)

    def notes(self) -> dict[str, Any]:
        """Return what describes the output as far as it is written."""
        digest = self._hash.hexdigest()
        return {"length": self._good, "digest": digest, "replaces": self._replaces}

    def __enter__(self) -> Self:
        return self

    def write(self, data: Any) -> int:
        """Write all of ``data``, bytes or an array of them."""
        if not memoryview(data).nbytes:
            return 0
        self._begin()
        self._add(data)
        return memoryview(data).nbytes

    def sync(self) -> None:
        """Wait until what has been written is on the disk."""
        self._begin()
        if self._left is not None:
            self._differs()  # it is longer than what has been written
        super().sync()

    @property
    def is_compared(self) -> bool:
        """Whether nothing is left of a killed process that has not been compared."""
        return self._left is None

    def flush(self) -> None:
        """Pass on to the system what has been written."""
        if self.begun:
            super().flush()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self.begun and super().closed

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._left is not None:
            self._left.close()  # it stays as it is
        if self.begun:
            super().__exit__(kind, error, trace)

    def _begin(self) -> None:
        """Open the partial file, if that has not been done."""
        if self.begun or self._left is not None:
            return
        self.opened = True
        if self._finished is not None:
            self._copy()
        elif self._good:
            self._file = open(self._own, "rb+", buffering=0)  # noqa: SIM115
            self._file.truncate(self._good)
            self._file.seek(self._good)
        else:
            # Nothing of it is committed. If the run has begun the file is its own all the same.
            if not self._is_begun():
                self.check_free()
                self._replaces = self._found()
                begun = {**self._begun_as, **self.notes(), "replaces": self._replaces}
                self._store.save({}, 0, notes=begun)
            self._create_or_compare()
        self.begun = self._left is None

    def _create_or_compare(self) -> None:
        """Make the partial file, or open what a killed process has left of it."""
        if not os.path.lexists(self._own):
            self._file = self._create(self._own)
            return
        self._prove(0, "")
        self._left = open(self._own, "rb", buffering=0)  # noqa: SIM115
        self._pass_on()

    def _add(self, data: Any) -> None:
        """Write ``data``, or compare it with what is there already."""
        rest = memoryview(data).cast("B")
        self._hash.update(rest)
        while self._left is not None and rest.nbytes:
            there = self._left.read(rest.nbytes)
            wanted = bytes(rest[: len(there)])
            if not there or there != wanted:
                if not there or any(a != b and a for a, b in zip(there, wanted, strict=True)):
                    self._differs()
                self._missing.append((self._good, wanted))
            self._good += len(there)
            rest = rest[len(there) :]
            self._pass_on()
        if rest.nbytes:
            super().write(rest)

    def _pass_on(self) -> None:
        """Open the partial file to be written where all that was left in it is compared."""
        assert self._left is not None
        if self._good == os.fstat(self._left.fileno()).st_size:
            self._left.close()
            self._left = None
            self._file = open(self._own, "rb+", buffering=0)  # noqa: SIM115
            compared = self._good
            for at, data in self._missing:
                self._file.seek(at)
                super().write(data)
            self._good = compared
            self._file.seek(compared)
            sync_folder(self._own.parent)
            self.begun = True

    def _differs(self) -> NoReturn:
        raise StoreError(
            f"{self._own} is not what this run writes: nothing was changed;"
            " move it away, and the same command goes on"
        )

    def _is_begun(self) -> bool:
        notes = self._store.notes
        return not notes.get("finished", True) and all(
            notes[name] == self._begun_as[name] for name in ("table", "out")
        )

    def _copy(self) -> None:
        """Open a copy of the finished output."""
        if not self.is_as_finished():
            raise StoreError(
                f"{self._target} is not as {self._store.path} has left it, so what has come to its"
                " table can't be added: nothing was changed"
            )
        # The store takes note first, so that what is left of a copy is known to be one.
        if not self._store.notes.get("copying"):
            self.check_free()
            self._store.save({}, notes={**self._store.notes, "copying": True})
        self._replaces = self._finished
        self._good = 0
        self._create_or_compare()
        with open(self._target, "rb") as source:
            while block := source.read(_BLOCK_BYTES):
                self._add(block)

    def _prove(self, length: int, digest: str) -> None:
        """Raise unless the partial file is our own: a plain file that begins with these bytes."""
        fault = ""
        try:
            status = os.lstat(self._own)
        except FileNotFoundError:
            fault = "it is gone"
        else:
            if not stat.S_ISREG(status.st_mode):
                fault = "it is a link" if stat.S_ISLNK(status.st_mode) else "it is not a file"
            elif status.st_nlink > 1:
                fault = "it has another name, which is a hard link"
            elif status.st_size < length:
                fault = f"it is shorter than the {length:,} bytes that were written"
            elif length:
                self._hash = _hash_of(self._own, length)
                if self._hash.hexdigest() != digest:
                    fault = f"its first {length:,} bytes are not those that were written"
        if fault:
            raise StoreError(
                f"{self._own} is not as {self._store.path} has left it: {fault};"
                " nothing was changed"
            )
        self._good = length

    def _holds(self, length: int, digest: str) -> bool:
        """Whether there are these bytes, and no others, under the name."""
        try:
            if not self._target.is_file() or self._target.stat().st_size != length:
                return False
        except OSError:
            return False
        return _hash_of(self._target, length).hexdigest() == digest

    def _found(self) -> str | None:
        """Return the digest of what is there under the name."""
        if not os.path.lexists(self._target):
            return None
        if not self._target.is_file() or self._target.is_symlink():
            return ""
        return _hash_of(self._target).hexdigest()

    def _check_replaced(self) -> None:
        """Raise if what is to be replaced is not what was there when the run began."""
        if self._found() not in (None, self._replaces):
            raise StoreError(
                f"{self._target} has changed since the run began that is to replace it: move it"
                " away, and the same command goes on"
            )

    def _name(self, partial: Path) -> None:
        """Give the whole file its name, and let the store know."""
        self._check_replaced()
        super()._name(partial)
        self._store.save({}, notes={**self._store.notes, "finished": True})


def _new_hash() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=32)


def _hash_of(path: Path, length: int | None = None) -> "hashlib.blake2b":
    """Return the hash of the first bytes of a file, or of all."""
    result = _new_hash()
    with open(path, "rb", buffering=0) as file:
        left = os.fstat(file.fileno()).st_size if length is None else length
        while left > 0 and (block := file.read(min(left, _BLOCK_BYTES))):
            result.update(block)
            left -= len(block)
    return result


def _check_free(partial: Path, store: Path) -> None:
    """Raise unless the partial file is not there and can be made, before a store knows of it."""
    try:
        partial.lstat()
    except FileNotFoundError:
        if not partial.parent.is_dir():
            raise
        if not os.access(partial.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(partial)) from None
    else:
        raise StoreError(
            f"{partial} is there already, and not of a run of {store}: move it away, or choose"
            " another --out"
        )


def check_notes(store: Store) -> None:
    """Raise `StoreError` unless the notes of a store are such as a run over a table leaves."""
    notes = store.notes
    for name, is_valid in _NOTES.items():
        if name not in notes and name not in _NEWER_NOTES:
            raise StoreError(f"{store.path} is damaged: its note `{name}` is missing")
        if name in notes and not is_valid(notes[name]):
            raise StoreError(f"{store.path} is damaged: its note `{name}` is {notes[name]!r}")


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


_NOTES: dict[str, Callable[[Any], bool]] = {
    "table": lambda value: isinstance(value, str),
    "out": lambda value: isinstance(value, str),
    "options": lambda value: isinstance(value, dict),
    "row": _is_count,
    "seal": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "sums": lambda value: isinstance(value, dict),
    "finished": lambda value: isinstance(value, bool),
    "length": _is_count,
    "digest": lambda value: isinstance(value, str),
    "replaces": lambda value: value is None or isinstance(value, str),
    "whole": lambda value: isinstance(value, bool),
    "copying": lambda value: isinstance(value, bool),
}
_NEWER_NOTES = ("digest", "replaces", "whole", "copying")  # older stores lack them


def _is_empty(notes: Mapping[str, Any]) -> bool:
    """Whether a run has begun, and neither is anything committed nor a file there."""
    return not (
        notes["finished"]
        or notes.get("whole")
        or notes["row"]
        or notes["length"]
        or os.path.lexists(f"{notes['out']}.partial")
    )


class Checkpoint:
    """Where a run over a table stands, in a store, and the output that belongs to it.

    A context manager around the run: inside, SIGINT and SIGTERM end it after the batch at hand.

    Parameters
    ----------
    path : Path
        The store.
    table, out : Path
        What is read and what is written; ``out`` must be a file.
    options : mapping of str to JSON
        What the result depends on, by the name of the option. It must not change between runs.

    Attributes
    ----------
    store : Store
    output : Output
        It goes on where the run stands.
    row : int
        The number of the last row that is learned; 0 at the start.
    sums : dict
        What `reached` was given at that row.

    Raises
    ------
    StoreError
        If the store can't be used, belongs to another run that has not come to its end, or was
        begun with other options, or if the output is not as the store describes it. No file is
        changed.
    """

    def __init__(self, path: Path, table: Path, out: Path, options: Mapping[str, Any]) -> None:
        begun_as: dict[str, Any] = {
            "table": str(table if is_standard(table) else os.path.realpath(table)),
            "out": os.path.realpath(out),
            "options": dict(options),
            "row": 0,
            "seal": [],
            "sums": {},
            "whole": False,
            "finished": False,
        }
        self._begun_as = begun_as
        self.row = 0
        self.sums: dict[str, Any] = {}
        self._was_finished = False
        self._seal = Seal()
        self._learned: list[int] = []  # the seal of the rows to pass over, until it is compared
        self._pace = Pace()
        self._signal = 0
        if not path.exists():
            _check_free(Path(f"{begun_as['out']}.partial"), path)  # or an empty store is left
        self.store = Store(path)
        try:
            self.output = _KeptOutput(Path(begun_as["out"]), self.store, begun_as)
            self._take_over()
        except BaseException:
            self.store.close()
            raise

    def _take_over(self) -> None:
        """Read where the run stands."""
        path, notes = self.store.path, self.store.notes
        if not notes and not len(self.store):
            self.output.check_free()
            return
        if "table" not in notes:
            raise StoreError(f"{path} is not of a run over a table")
        check_notes(self.store)
        if notes["row"] != self.store.offset:
            raise StoreError(
                f"{path} is at offset {self.store.offset:,}, but the run over {notes['table']} has"
                f" left it at row {notes['row']:,}: something else has written to it"
            )
        for name, value in self._begun_as["options"].items():
            before = notes["options"].get(name)
            if before != value:
                raise StoreError(
                    f"{path} was begun with {name} {before!r}, not {value!r}:"
                    " what it has learned depends on that"
                )
        out = self._begun_as["out"]
        is_same = all(notes[name] == self._begun_as[name] for name in ("table", "out"))
        if _is_empty(notes) and not is_same:
            self.output.check_free()
            return
        if notes["table"] != self._begun_as["table"]:
            if not (notes["finished"] or notes.get("whole")):
                raise StoreError(
                    f"{path} is at row {notes['row']:,} of {notes['table']}: finish that first"
                )
            if not notes["finished"]:
                self._finish(notes)
            elif notes.get("copying") and os.path.lexists(f"{notes['out']}.partial"):
                raise StoreError(
                    f"{path} has begun to add what has come to {notes['table']}, in"
                    f" {notes['out']}.partial: finish that first, or remove the file"
                )
            self.output.check_free()
            return
        if notes["out"] != out:
            raise StoreError(f"{path} belongs to the output {notes['out']}, not to {out}")
        self._was_finished = self.output.take_over(notes)
        self.row, self.sums, self._learned = notes["row"], notes["sums"], notes["seal"]

    def _finish(self, notes: Mapping[str, Any]) -> None:
        """Give the output of the table before its name: a process was killed before it could."""
        if os.path.lexists(f"{notes['out']}.partial"):
            output = _KeptOutput(Path(notes["out"]), self.store, notes)
            output.take_over(notes)
            with output:
                output.sync()

    @property
    def is_finished(self) -> bool:
        """Whether the run had come to its end before, and nothing has come to its table since."""
        return self._was_finished and not self.output.opened

    def nothing_to_do(self) -> str:
        """Return a line about a run that `is_finished`."""
        table, out = self._begun_as["table"], self._begun_as["out"]
        notes = dict(self.store.notes)
        if notes.get("copying") and not os.path.lexists(f"{out}.partial"):
            # A copy was begun, and is gone. If a file comes under its name it is no copy.
            del notes["copying"]
            self.store.save({}, notes=notes)
        told = (
            f"{self.store.path} is at the end of {table} (row {self.row:,}): there is nothing to do"
        )
        if not os.path.lexists(out):
            return f"{told}; {out}, which was written then, is gone"
        return told if self.output.is_as_finished() else f"{told}; {out} has changed since then"

    def new(self, rows: NDArray[np.int64], *columns: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which rows, given by number and columns of numbers, are not learned yet.

        Raises
        ------
        StoreError
            If the rows before them are not those that were learned.
        """
        fresh: NDArray[np.bool_] = rows > self.row
        self._seal.add(*(column[~fresh] for column in columns))
        if fresh.any():
            self._compare()
            self._seal.add(*(column[fresh] for column in columns))
        return fresh

    def _compare(self) -> None:
        """Raise unless the rows passed over are those that were learned."""
        if self._learned and self._seal.sums != self._learned:
            raise StoreError(
                f"{self.store.path} has learned {self.row:,} rows, but those at the beginning of"
                " this table are others: a table may grow between runs, not change"
            )
        self._learned = []

    def reached(
        self,
        row: int,
        keyed: KeyedCalibrator,
        sums: Mapping[str, Any],
        *,
        last: bool = False,
        whole: bool = False,
    ) -> None:
        """Commit what is learned up to a row, if it is time to or this is the ``last``.

        The output up to there is on the disk before. If it is ``whole``, it gets its name next.

        Raises
        ------
        Stopped
            If a signal has come; everything is committed then.
        OSError, StoreError
            If it can't be written; the store is as after the last commit.
        """
        if last:
            self._compare()
        passing_over = bool(self._learned) or self.is_finished
        if not (last or self.output.is_compared):
            passing_over = True  # what a killed process has left may still be of somebody else
        if not passing_over and (last or self._signal or self._pace.is_due()):
            with self._pace:
                self.output.sync()
                notes = {
                    **self._begun_as,
                    **self.output.notes(),
                    "row": row,
                    "seal": self._seal.sums,
                    "sums": dict(sums),
                    "whole": whole,
                }
                self.store.save(keyed.states(), row, notes=notes)
                keyed.saved()
        if self._signal and not whole:
            raise Stopped(self._signal, row)

    def __enter__(self) -> Self:
        self._handlers = {
            number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.store.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        signal.signal(number, self._handlers[signal.Signals(number)])  # a second one does not wait
