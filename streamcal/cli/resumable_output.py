"""An output file that can be continued after a crash: the store has its length and digest.

Before ``NAME.partial`` is made, the store notes that this run makes it. A file that exists before
this note belongs to another program: the run is refused. A file that exists after the note, while
nothing is committed, may have been written by a killed process: it is compared byte by byte with
what the run writes, and if they differ, the run is refused before it changes any file. If power was
lost, parts of what was written may not have reached the disk; such parts read as zeros. So zeros
count as missing bytes, and are written again after all the rest has been compared.

When all rows are written and committed, ``NAME.partial`` is renamed to ``NAME``, and the store
notes that. An older ``NAME`` is replaced only if it is unchanged since the run began. A finished
output is never opened for writing again.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

from streamcal.durable import Store, StoreError
from streamcal.durable.engine import SINK
from streamcal.durable.files import sync
from streamcal.tables.output import Output

FORMAT = 1  # of the notes; a store with another number is of another version of streamcal

_BLOCK_BYTES = 1 << 20


class RunNotes:
    """What a store has noted of a run over tables: the token of its sink.

    The word ``state`` says how far the output is::

        writing   rows are missing          complete  all are written, and it has no name yet
        finished  it has its name           copying   the same, and a copy for new rows was begun
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.path = store.path

    @property
    def now(self) -> dict[str, Any]:
        """The notes of the last commit; empty if the store is of no such run.

        Raises
        ------
        StoreError
            If another version of streamcal wrote them in another format.
        """
        notes = self._store.notes.get(SINK)
        if not isinstance(notes, dict) or "tables" not in notes:
            return {}
        if notes.get("format") != FORMAT:
            raise StoreError(
                f"{self.path} was written by another version of streamcal: its notes of the run"
                f" must have format {FORMAT}, got {notes.get('format')!r}"
            )
        return notes

    def change(self, **changes: Any) -> None:
        """Save the notes with changes, and nothing else."""
        self._store.save({}, notes={**self._store.notes, SINK: {**self.now, **changes}})


class ResumableOutput(Output):
    """An output that a store describes, by its length and a digest of its bytes.

    No file is changed before there is something to write or to `sync`.

    Parameters
    ----------
    path : Path
        The name, with all links followed. If it has become a link since, that is an error.
    notes : RunNotes
    new_run : mapping
        The notes of a run that begins.
    resumable : bool
        Whether the run can continue an incomplete output. If not, it is removed after an error,
        since nothing of it is committed.

    Attributes
    ----------
    opened : bool
        Whether this process has written to it.
    """

    def __init__(
        self, path: Path, notes: RunNotes, new_run: Mapping[str, Any], *, resumable: bool
    ) -> None:
        super().__init__(path)
        self._target = path
        self._partial = self.partial = path.with_name(path.name + ".partial")
        self.opened = False
        self._notes = notes
        self._new_run = new_run
        self._resumable = resumable
        self._hash = _new_hash()
        self._finished: str | None = None  # the digest of an output that has its name already
        self._replaces: str | None = None  # the digest of the file that was there before
        self._leftover: BinaryIO | None = None  # the file of a killed process, being compared
        self._missing: list[tuple[int, bytes]] = []  # where that has zeros, and what belongs there

    def check_free(self) -> None:
        """Raise `StoreError` if there is a partial file: a run that begins can't have made it."""
        check_free(self._partial, self._notes.path)

    def restore(self, notes: Mapping[str, Any]) -> bool:
        """Continue where the notes say that the run is; return whether it is finished.

        Raises
        ------
        StoreError
            If the file is not the one that the notes describe.
        """
        length, digest, state = notes["length"], notes["digest"], notes["state"]
        self._replaces = notes["replaces"]
        if state in ("finished", "copying"):
            self._size, self._finished = length, digest
            return True
        if state == "complete" and not os.path.lexists(self._partial):
            if self._target_has(length, digest):
                # The process was killed after the renaming, before the store could note it.
                self._size, self._finished = length, digest
                self._notes.change(state="finished")
                return True
        if length or os.path.lexists(self._partial):
            self._check_partial(length, digest)
        self._check_replaced()
        return False

    def is_unchanged(self) -> bool:
        """Whether the finished output exists and has the bytes that it had."""
        return self._finished is not None and self._target_has(self._size, self._finished)

    def notes(self) -> dict[str, Any]:
        """Return what describes the output as far as it is written."""
        digest = self._hash.hexdigest()
        return {"length": self._size, "digest": digest, "replaces": self._replaces}

    # As a file ------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def write(self, data: Any) -> int:
        """Write all of ``data``, bytes or an array of them."""
        if not memoryview(data).nbytes:
            return 0
        self._begin()
        self._write_or_compare(data)
        return memoryview(data).nbytes

    def sync(self) -> None:
        """Wait until what has been written is on the disk."""
        self._begin()
        if self._leftover is not None:
            self._raise_different()  # it is longer than what has been written
        super().sync()

    @property
    def is_compared(self) -> bool:
        """Whether all that a killed process has left is compared."""
        return self._leftover is None

    def flush(self) -> None:
        """Pass what has been written on to the system."""
        if self.begun:
            super().flush()

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self.begun and super().closed

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._leftover is not None:
            self._leftover.close()  # it stays as it is
        if self.begun:
            super().__exit__(kind, error, trace)
        if self.begun and not (self._resumable or self._notes.now.get("state") == "complete"):
            self._partial.unlink(missing_ok=True)
            self.begun = False

    # Opening --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Open the partial file, if that has not been done."""
        if self.begun or self._leftover is not None:
            return
        self.opened = True
        if self._finished is not None:
            self._copy_finished()
        elif self._size:
            self._file = open(self._partial, "rb+", buffering=0)  # noqa: SIM115  (stays open)
            self._file.truncate(self._size)
            self._file.seek(self._size)
        else:
            # Nothing of it is committed. A file may exist if the store has noted this run.
            if not self._is_noted():
                self.check_free()
                self._replaces = self._target_digest()
                self._notes.change(**{**self._new_run, **self.notes()})
            self._create_or_compare()
        self.begun = self._leftover is None

    def _is_noted(self) -> bool:
        """Whether the store has noted that this run makes the partial file."""
        notes = self._notes.now
        return notes.get("state") in ("writing", "complete") and all(
            notes[name] == self._new_run[name] for name in ("tables", "out")
        )

    def _create_or_compare(self) -> None:
        """Make the partial file, or open what a killed process has left of it."""
        if not os.path.lexists(self._partial):
            self._file = self._create(self._partial)
            return
        self._check_partial(0, "")
        self._leftover = open(self._partial, "rb", buffering=0)  # noqa: SIM115  (stays open)
        self._open_if_compared()

    def _write_or_compare(self, data: Any) -> None:
        """Write ``data``, or compare it with the file as far as that goes."""
        rest = memoryview(data).cast("B")
        self._hash.update(rest)
        while self._leftover is not None and rest.nbytes:
            found = self._leftover.read(rest.nbytes)
            wanted = bytes(rest[: len(found)])
            if not found or found != wanted:
                if not found or any(a != b and a for a, b in zip(found, wanted, strict=True)):
                    self._raise_different()
                self._missing.append((self._size, wanted))
            self._size += len(found)
            rest = rest[len(found) :]
            self._open_if_compared()
        if rest.nbytes:
            super().write(rest)

    def _open_if_compared(self) -> None:
        """Open the partial file for writing if all of it has been compared."""
        assert self._leftover is not None
        if self._size == os.fstat(self._leftover.fileno()).st_size:
            self._leftover.close()
            self._leftover = None
            self._file = open(self._partial, "rb+", buffering=0)  # noqa: SIM115  (stays open)
            compared = self._size
            for at, data in self._missing:
                self._file.seek(at)
                super().write(data)
            self._size = compared
            self._file.seek(compared)
            sync(self._partial.parent)
            self.begun = True

    def _raise_different(self) -> NoReturn:
        raise StoreError(
            f"{self._partial} is not what this run writes: nothing was changed;"
            " move it away, and the same command continues"
        )

    def _copy_finished(self) -> None:
        """Copy the finished output to the partial file, which the run continues."""
        if not self.is_unchanged():
            raise StoreError(
                f"{self._target} is not as {self._notes.path} has left it, so new rows of its"
                " table can't be added: nothing was changed"
            )
        # The store notes the copy first, so that a partial file is known to be one.
        if self._notes.now["state"] != "copying":
            self.check_free()
            self._notes.change(state="copying")
        self._replaces = self._finished
        self._size = 0
        self._create_or_compare()
        with open(self._target, "rb") as source:
            while block := source.read(_BLOCK_BYTES):
                self._write_or_compare(block)

    # Checking -------------------------------------------------------------------------------------

    def _check_partial(self, length: int, digest: str) -> None:
        """Raise unless the partial file is a plain file that begins with these bytes."""
        fault = _fault_of(self._partial, length)
        if not fault and length:
            self._hash = _hash_of(self._partial, length)
            if self._hash.hexdigest() != digest:
                fault = f"its first {length:,} bytes are not those that were written"
        if fault:
            raise StoreError(
                f"{self._partial} is not as {self._notes.path} has left it: {fault};"
                " nothing was changed"
            )
        self._size = length

    def _target_has(self, length: int, digest: str) -> bool:
        """Whether the file of the final name has these bytes and no others."""
        try:
            if not self._target.is_file() or self._target.stat().st_size != length:
                return False
        except OSError:
            return False
        return _hash_of(self._target, length).hexdigest() == digest

    def _target_digest(self) -> str | None:
        """Return the digest of the file of the final name; None if there is none."""
        if not os.path.lexists(self._target):
            return None
        if not self._target.is_file() or self._target.is_symlink():
            return ""
        return _hash_of(self._target).hexdigest()

    def _check_replaced(self) -> None:
        """Raise if the file to be replaced is not the one that was there when the run began."""
        if self._target_digest() not in (None, self._replaces):
            raise StoreError(
                f"{self._target} has changed since the run began that is to replace it: move it"
                " away, and the same command continues"
            )

    def _rename(self, partial: Path) -> None:
        """Give the complete file its name, and note that in the store."""
        self._check_replaced()
        super()._rename(partial)
        self._notes.change(state="finished")


def check_free(partial: Path, store: Path) -> None:
    """Raise unless the partial file does not exist and can be made."""
    try:
        partial.lstat()
    except FileNotFoundError:
        if not partial.parent.is_dir():
            raise
        if not os.access(partial.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(partial)) from None
    else:
        raise StoreError(
            f"{partial} exists already and is not of a run of {store}: move it away, or choose"
            " another --out"
        )


def _fault_of(path: Path, length: int) -> str:
    """Return why this can't be a file of at least so many bytes that we have made; "" if it can."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return "it is gone"
    if not stat.S_ISREG(status.st_mode):
        return "it is a link" if stat.S_ISLNK(status.st_mode) else "it is not a file"
    if status.st_nlink > 1:
        return "it has another name, which is a hard link"
    if status.st_size < length:
        return f"it is shorter than the {length:,} bytes that were written"
    return ""


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
