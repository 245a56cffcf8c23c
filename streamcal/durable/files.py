"""The files of a store: their names, their owners, and the lock of the writer.

SQLite keeps a log and its index beside a database. A store adds the file of its lock, and a
partial file while a database is made. A file is replaced or removed only if it begins like a file
of a store.

On POSIX systems a process loses all its locks on a file when it closes any descriptor of it, the
locks of SQLite included. Then another process may cut off the index of the log, while SQLite has it
mapped here. So a database that this process has open, and its index, are not opened here again; see
`OpenDatabase`.
"""

import errno
import os
import sqlite3
import stat
import sys
import weakref
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from streamcal.durable.errors import StoreError, is_of_system
from streamcal.kernels.exclusive import Mutex
from streamcal.kernels.sqlite import Connection

APPLICATION = 0x5743414C  # "WCAL": the application id in the header of the database
PARTIAL = ".partial"  # follows the name of a database until the database is complete
LOG, INDEX = "-wal", "-shm"  # the endings of SQLite's log beside a database, and of its index
BESIDE = (LOG, INDEX, "-journal")  # of all files that SQLite keeps there

_LOCK = "-lock"
_SQLITE = b"SQLite format 3\0"  # the first bytes of a database
_HEADER = 100  # the length of a database's header
# How the files beside a store begin; () for one that a store does not have, see `_check_left`.
_BESIDE_STORE = {
    LOG: (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    INDEX: ((3_007_000).to_bytes(4, sys.byteorder),),  # the index has the bytes of this machine
    "-journal": (),
}
_JOURNAL = (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",)
_BESIDE_PARTIAL = {**_BESIDE_STORE, "-journal": _JOURNAL}
_BESIDE_LOCK = {"": (), LOG: (), "-journal": _JOURNAL}
# What follows the name of a store in the names of its other files.
_ENDINGS = tuple(first + rest for first in ("", _LOCK, PARTIAL) for rest in ("", *BESIDE))[1:]

_open_databases: "weakref.WeakSet[OpenDatabase]" = weakref.WeakSet()
_opening = Mutex("a file")  # held while the beginning of a file is read


class OpenDatabase(Connection):
    """A connection to a store; no other code of this process may open its files meanwhile."""

    file: tuple[int, int] | None = None

    def announce(self, path: Path) -> None:
        """Note which file is open; it must come before the first statement takes a lock."""
        with _opening.block():
            self.file = _device_and_inode(path)
            _open_databases.add(self)

    def close(self) -> None:
        """Release the file."""
        super().close()
        self.file = None


def _device_and_inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError as error:
        if not is_of_system(error):
            raise
        return None
    return status.st_dev, status.st_ino


def _read_head(path: Path, database: Path) -> bytes | None:
    """Return the first bytes of a database or of a file beside it.

    None if this process has the database open: then it is a store, and so are these files.
    """
    with _opening.block():
        file = _device_and_inode(database)
        if file is not None and any(other.file == file for other in _open_databases):
            return None
        with open(path, "rb") as opened:
            return opened.read(_HEADER)


def beginning_of(path: Path) -> bytes:
    """Return the first bytes of a file; none of a store that this process has open.

    Examples
    --------
    >>> beginning_of(Path("pyproject.toml")).startswith(b"SQLite")
    False
    """
    return _read_head(path, path) or b""


def beside(path: Path, ending: str) -> Path:
    """Return the file in the same folder whose name has this ending added."""
    return path.with_name(path.name + ending)


def is_store(path: Path) -> bool:
    """Return whether a file is an SQLite database, as a store is; never raises for one that isn't.

    Examples
    --------
    >>> is_store(Path("pyproject.toml"))
    False
    """
    try:
        head = _read_head(path, path) if path.is_file() else b""
    except OSError as error:
        if not is_of_system(error):
            raise
        return False
    return head is None or head.startswith(_SQLITE)


def store_beside(path: Path) -> Path | None:
    """Return the database that a file would belong to by its name; None if there is none.

    Examples
    --------
    >>> store_beside(Path("pyproject.toml-wal"))
    """
    for file, ending in product((path, Path(os.path.realpath(path))), _ENDINGS):
        name = file.name.removesuffix(ending)
        if name and name != file.name and is_store(file.with_name(name)):
            return file.with_name(name)
    return None


def files_of_store(path: Path) -> list[Path]:
    """Return the names of all files that a store may use, whether they exist or not.

    Examples
    --------
    >>> [file.name for file in files_of_store(Path("run.db"))][:3]
    ['run.db', 'run.db-wal', 'run.db-shm']
    """
    bases = dict.fromkeys([path, Path(os.path.realpath(path))])  # SQLite follows links
    return [beside(base, ending) for base in bases for ending in ("", *_ENDINGS)]


def follow_link(path: Path) -> Path:
    """Return the file that a link leads to, whether it exists or not; other paths as they are."""
    if not path.is_symlink():
        return path
    try:
        target = path.resolve()
    except RuntimeError:  # a loop, before Python 3.13
        target = path
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def check_writable(path: Path) -> None:
    """Raise unless a file may be written: SQLite would open it read-only without an error."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def is_own(path: Path) -> bool:
    """Return whether the owner of a file could write what SQLite makes beside it for this process.

    Its files have the mode of the database, but the owner is whoever makes them, or for root the
    owner of the database.
    """
    if not os.access(path, os.W_OK):
        return False
    return os.name == "nt" or os.geteuid() in (0, path.stat().st_uid)


def check_application(path: Path) -> None:
    """Raise if a file is no database, or one of another application.

    SQLite would play a log back into it before it noticed that, and a writer would leave the file
    of its lock beside it.
    """
    head = _read_head(path, path) if path.is_file() else None
    if head is None:
        return
    if head.startswith(_SQLITE) and not _has_application(head):
        raise StoreError(f"{path} is no store of states")
    # Bytes that a loss of power has left are zero, and a log may have the beginning of the file.
    if any(head) and not head.startswith(_SQLITE) and not beside(path, LOG).exists():
        raise StoreError(
            f"{path} is damaged or no store: file is not a database; choose the name of another"
            " file, which is made if it does not exist"
        )


def _has_application(head: bytes) -> bool:
    """Return whether the header of a database has the id of a store."""
    return int.from_bytes(head[68:72], "big") == APPLICATION


def check_backup(target: Path, source: Path) -> None:
    """Raise if a backup of ``source`` would replace a file of that or of another store."""
    for ending in _ENDINGS:
        other = beside(target, ending)
        if other.exists() and other.samefile(source):
            raise StoreError(f"{target} is in use: {source} bears the name of its {ending}")
        store = target.with_name(target.name[: -len(ending)] or target.name)
        if target.name.lower().endswith(ending) and is_store(store):
            raise StoreError(f"{target} is in use: it is a file of the store {store}")


def check_free(path: Path) -> None:
    """Raise if making a database would remove a file that is not of a store.

    A log beside a missing database may belong to a database that somebody has moved.
    """
    _check_left(path, "made", beside(path, PARTIAL), {"": (_SQLITE,), **_BESIDE_PARTIAL})
    _check_left(path, "made", path, _BESIDE_STORE if is_store(path) else {**_BESIDE_STORE, LOG: ()})


def check_beside(path: Path) -> None:
    """Raise if a file beside a store is not one that SQLite keeps there for a store.

    SQLite would overwrite and remove it, or play it back into the store. A store is written through
    its log, so it never has a journal.
    """
    _check_left(path, "opened", path, _BESIDE_STORE)


def _check_left(
    path: Path, action: str, base: Path, beginnings: Mapping[str, tuple[bytes, ...]]
) -> None:
    """Raise if one of the files whose names begin with ``base`` may belong to others.

    ``beginnings`` are the first bytes by the end of the name; () if the file must be empty.
    """
    for ending, expected in beginnings.items():
        file = beside(base, ending)
        if not _is_left(file, base, expected):
            raise StoreError(
                f"{path} can't be {action}: {file} exists and may belong to another"
                " program; move it away"
            )


def _is_left(path: Path, database: Path, beginnings: tuple[bytes, ...]) -> bool:
    """Return whether a file is missing, empty, or begins like a file of a killed process.

    After a loss of power, bytes that were not on the disk yet may be zero.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return False
        if not beginnings:
            return not status.st_size
        head = _read_head(path, database)
    except FileNotFoundError:
        return True
    if head is None:
        return True
    if head.startswith(_SQLITE):
        return _SQLITE in beginnings and _has_application(head)
    return not any(head) or any(
        all(got in (0, byte) for got, byte in zip(head, beginning, strict=False))
        for beginning in beginnings
    )


def remove(path: Path) -> None:
    """Remove a database and the files that SQLite keeps beside it."""
    for ending in ("", *BESIDE):
        beside(path, ending).unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # Windows can't do that
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def identify(path: Path) -> list[tuple[int, int]] | None:
    """Return which files a writer has open: device and inode; None if a name is missing.

    The lock is not among them: `Store.save` notices another writer without it.
    """
    try:
        found = [os.stat(beside(path, ending)) for ending in ("", LOG, INDEX)]
    except FileNotFoundError:
        return None
    return [(status.st_dev, status.st_ino) for status in found]


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes if a file is written or replaced; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def take_lock(path: Path) -> Connection:
    """Return the lock of the one writer of a file; it is held until the connection is closed."""
    name = beside(path.absolute(), _LOCK)  # SQLite may take "file:x.db" for a URI
    _check_left(path, "locked", name, _BESIDE_LOCK)
    lock = Connection(name, timeout=0.0)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        check_writable(name)  # a read-only file would be locked for readers only
    except (PermissionError, sqlite3.OperationalError) as error:
        lock.close()
        if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY":
            raise StoreError(f"{path} is in use: another process or store writes to it") from None
        raise
    return lock
