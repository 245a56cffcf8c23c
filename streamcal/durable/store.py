"""States that survive: a file in which a stream's learners and its offset change together.

A store is an SQLite database in write-ahead mode with full synchronisation. `Store.save` writes the
states that have changed *and* the offset of the stream in one transaction: after a crash, at
whatever instant, the file holds what the last finished `save` wrote, all of it and nothing else.
States are what `to_bytes` returns; nothing is unpickled.

What disk and hands can do to a file, SQLite notices only in part. So each state carries a checksum,
a directory lists keys and checksums, and the head (offset, notes, number of states, and the
exclusive or of a hash of each line of the directory) has one too. Opening checks head and
directory; reading a state checks that. A state that is lost, swapped, or of another commit does
not get past that.

    head        one row: a JSON text and its digest
    directory   key, digest of the state, its place
    states      place, bytes

A second writer is refused: the first holds an exclusive lock on a file beside the store, which
ends with its process; the file itself stays. Readers (``read_only=True``) come and go meanwhile, in
any process, and see the last `save`. The file system must have locks that work, which some network
drives don't; so `save` also looks whether the file is as this store knows it, and refuses if not. A
store that is reached through a link is the link's target, whose name the lock bears.
"""

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from streamcal._state import DIGEST, Stateful, as_int, check, restore
from streamcal._validation import MOST_COUNT

_APPLICATION = 0x5743414C  # what the file's header says it is: "WCAL"
_VERSION = 1
_SQLITE = b"SQLite format 3\0"  # how its databases begin
_SCHEMA = """
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 0), text TEXT, digest BLOB);
CREATE TABLE directory (key TEXT PRIMARY KEY, digest BLOB, place INTEGER) WITHOUT ROWID;
CREATE TABLE states (place INTEGER PRIMARY KEY, data BLOB);
"""


# What SQLite keeps beside a database, and how these files begin; of an index as it is in memory.
_BEGINNINGS = {
    "-wal": (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83"),
    "-shm": ((3_007_000).to_bytes(4, sys.byteorder),),
    "-journal": (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7",),
}
_BESIDE = tuple(_BEGINNINGS)
_PARTIAL = ".partial"  # what a database is called until it is whole
_LOCK = "-lock"
# All that may follow the name of a store in the name of another of its files.
_ENDINGS = tuple(of + rest for of in ("", _LOCK, _PARTIAL) for rest in ("", *_BESIDE))[1:]


class StoreError(ValueError):
    """What is wrong with a store, in one line; what it held is as before."""


class Stopped(Exception):  # noqa: N818  (not an error)
    """A signal has ended the run; everything up to ``row`` is committed."""

    def __init__(self, signal_number: int, row: int) -> None:
        super().__init__(f"stopped after row {row:,}; the same command goes on from there")
        self.status = 128 + signal_number


class Saved(NamedTuple):
    """What a store holds: learners by key, and the offset of the stream."""

    states: dict[str, Any]
    offset: int


class Store:
    """A file of states by key, and the offset of the stream that they have learned.

    Parameters
    ----------
    path : str or Path
        The file; it is made if it does not exist.
    read_only : bool
        Only read. Any number of readers may do so beside the one writer. Offset, notes and keys are
        those of when the reader was opened or last did `refresh`; `load` does so by itself, and
        `get` does when the state it finds is a newer one.

    Attributes
    ----------
    path : Path
    offset : int
        How many samples of the stream are learned; 0 at first.
    notes : dict
        Whatever small things `save` was given with the states: JSON.
    version : int
        Grows with each `save`, and with each `refresh` that finds other states. While it is the
        same the states are.

    Raises
    ------
    StoreError
        If the file is damaged, no store, of a newer version, in use by another writer, or can't be
        read or made; if it is to be made and ``NAME.partial`` or ``NAME-wal`` and its like are
        there and may be somebody else's; if it is to be written and has a second name (a hard
        link), under which another writer would not be noticed.

    Notes
    -----
    A reader in a folder that it may not write to sees what a writer that began after it has saved
    only after `refresh` or `load`.

    Threads may share a store; one waits for the other. Processes may not: a store that a fork
    brings along is refused there, and it can't be pickled. Open the file again instead.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamcal import IsotonicCalibrator
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "run.db")
    >>> calibrator = IsotonicCalibrator(window=1000)
    >>> with Store(path) as store:
    ...     calibrator.learn_many([0.2, 0.8, 0.6], [0, 1, 1])
    ...     store.save({"all": calibrator}, offset=3)
    >>> with Store(path) as store:
    ...     states, offset = store.load()
    >>> states["all"].predict_one(0.2), offset
    (0.5, 3)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._file = self.path  # or where a link leads to, see below
        self.read_only = read_only
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._directory: dict[str, tuple[bytes, int]] = {}  # digest and place
        self._sum = 0
        self._next_place = 1
        self._in_doubt = False  # whether the file may hold what is not known here
        self._is_still = False  # whether it was opened as one that nobody writes to
        self._inodes: list[tuple[int, int]] | None = None  # of its files
        self._offset = 0
        self._notes: dict[str, Any] = {}
        self._head = b""  # the digest of the head that is known here
        self._tried = b""  # and that of the head that was last to be written
        self._version = 0
        self._lock: sqlite3.Connection | None = None
        self._database: sqlite3.Connection | None = None
        try:
            with self._faults("opened"):
                self._file = _target(self.path)
                if not self._file.parent.is_dir():
                    raise StoreError(f"{self.path} can't be opened: there is no such folder")
                if self._file.is_dir():
                    raise StoreError(f"{self.path} can't be opened: it is a folder")
                if not read_only:
                    self._lock = _take_lock(self._file)
                    if not self._file.exists():
                        _create(self._file)
                self._connect()
                self.refresh()
                self._inodes = _inodes(self._file)
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        """Open the database."""
        try:
            self._database, self._is_still = _connect(self._file, self.read_only), False
        except sqlite3.OperationalError:
            # In a folder that is read-only a reader can't make the files of a log. If nobody else
            # has, there is no writer, and all is in the database itself.
            log = self._file.with_name(self._file.name + _BESIDE[0])
            if not self.read_only or log.exists():
                raise
            self._database, self._is_still = _connect(self._file, True, still=True), True

    def _look_again(self) -> None:
        """Open a database again that nobody wrote to: somebody may now."""
        if self._is_still and not self._open().in_transaction:
            self._open().close()
            self._database, self._is_still = None, False
            with self._faults("opened"):
                self._connect()

    def _settle(self) -> None:
        """Read what the file holds if a `save` was cut short: all of it, or nothing."""
        if not self._in_doubt:
            return
        with self._mutex:  # another thread may be saving: that is no doubt
            if self._in_doubt:
                database = self._open()
                with self._faults("read"):
                    if database.in_transaction:  # interrupted twice
                        database.execute("ROLLBACK")
                    head = database.execute("SELECT digest FROM head").fetchall()
                if head in ([(self._head,)], [(self._tried,)]):  # else it is somebody else's
                    self.refresh()
                self._in_doubt = False

    # Reading -------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """How many samples of the stream are learned; 0 at first."""
        self._settle()
        return self._offset

    @property
    def notes(self) -> dict[str, Any]:
        """Whatever small things `save` was given with the states: JSON."""
        self._settle()
        return self._notes

    @property
    def version(self) -> int:
        """Grows with each `save`, and with each `refresh` that finds other states."""
        if self._in_doubt:  # asked before each sample of a key
            self._settle()
        return self._version

    def refresh(self) -> None:
        """Read head and directory again; a reader sees what has been saved since."""
        number, blake2b = int.from_bytes, hashlib.blake2b
        with self._mutex:
            self._look_again()
            with self._faults("read"), self._reading() as database:
                head = database.execute("SELECT text, digest FROM head").fetchall()
                rows = database.execute("SELECT key, digest, place FROM directory").fetchall()
            with self._damage():
                ((text, digest),) = head
                if _hash(text.encode()) != digest:
                    raise StoreError(f"{self.path} is damaged: its head does not fit its checksum")
                fields = json.loads(text)
                if any(type(line[1]) is not bytes or type(line[2]) is not int for line in rows):
                    raise StoreError(f"{self.path} is damaged: a line of its directory is none")
                directory = {key: (state_digest, place) for key, state_digest, place in rows}
                last = max((place for _, _, place in rows), default=0)
                total = 0
                for key, state_digest, _ in rows:  # `_line`, without a call for each
                    line = key.encode() + b"\0" + state_digest
                    total ^= number(blake2b(line, digest_size=DIGEST).digest(), "little")
                if len(directory) != fields["n_states"] or f"{total:x}" != fields["sum"]:
                    raise StoreError(f"{self.path} is damaged: its directory does not fit its head")
                offset, notes = as_int(fields["offset"], "offset"), dict(fields["notes"])
            self._version += directory != self._directory
            self._directory, self._sum, self._next_place = directory, total, last + 1
            self._offset, self._notes, self._head = offset, notes, digest
            self._in_doubt = False

    def load(self) -> Saved:
        """Return all learners by key, and the offset.

        Raises
        ------
        StoreError
            If a state is damaged.
        ValueError
            If one needs what bytes do not hold; see `get`.
        """
        self._settle()
        with self._mutex, self._faults("read"):
            self._look_again()
            with self._reading():
                if self.read_only:
                    self.refresh()
                return Saved({key: self.get(key) for key in self._directory}, self._offset)

    def get(self, key: str, **given: Any) -> Any:
        """Return the learner of a key, made anew.

        Parameters
        ----------
        key : str
            A key that `save` was given.
        **given
            What bytes do not hold: see `Calibrator.from_bytes`.

        Raises
        ------
        KeyError
            If there is no such key.
        StoreError
            If its state is damaged.
        ValueError, TypeError
            If it needs what bytes do not hold.
        """
        return restore(self.get_bytes(key), **given)

    def get_bytes(self, key: str) -> bytes:
        """Return the bytes of a state, whole: checked against their checksum."""
        self._settle()
        with self._mutex, self._faults("read"), self._reading() as database:
            data = self._read(database, key)
            if data is None and self.read_only:  # what was saved since may have changed it
                self.refresh()
                data = self._read(database, key)
        if data is None:
            raise StoreError(f"{self.path} is damaged: the state of {key!r} does not fit its line")
        with self._damage():
            check(data)
        return data

    def _read(self, database: sqlite3.Connection, key: str) -> bytes | None:
        """Return the bytes of a state, None if they are not those of the directory."""
        digest, place = self._directory[key]
        rows = database.execute("SELECT data FROM states WHERE place = ?", (place,)).fetchall()
        if len(rows) == 1 and isinstance(rows[0][0], bytes) and rows[0][0].endswith(digest):
            return rows[0][0]
        return None

    def __contains__(self, key: object) -> bool:
        self._settle()
        return key in self._directory

    def __len__(self) -> int:
        self._settle()
        return len(self._directory)

    def keys(self) -> list[str]:
        """Return the keys."""
        self._settle()
        return list(self._directory)

    def digest(self, key: str) -> bytes | None:
        """Return the checksum with which the state of a key ends; None if there is no such key."""
        self._settle()
        line = self._directory.get(key)
        return None if line is None else line[0]

    def sizes(self) -> dict[str, int]:
        """Return how many bytes each state takes, by key; the states are not read."""
        self._settle()
        with self._mutex, self._faults("read"), self._reading() as database:
            rows = database.execute(
                "SELECT key, length(data) FROM directory JOIN states USING (place)"
            ).fetchall()
        return {key: size for key, size in rows if key in self._directory}

    # Writing -------------------------------------------------------------------------------------

    def save(
        self,
        states: Mapping[str, Stateful | bytes],
        offset: int | None = None,
        *,
        notes: Mapping[str, Any] | None = None,
        forget: Iterable[str] = (),
    ) -> None:
        """Write states and offset in one transaction; when this returns they are on the disk.

        Parameters
        ----------
        states : mapping of str to learner or bytes
            Those that have changed; bytes are what ``to_bytes`` returned. Others stay.
        offset : int, optional
            How many samples of the stream they have learned. None: as before.
        notes : mapping, optional
            Small things that belong to the states, as JSON. None: as before.
        forget : iterable of str
            Keys to remove.

        Raises
        ------
        StoreError
            If it can't be written, or the store is read-only, or somebody else has written to the
            file in spite of the lock: then `refresh` reads that; if somebody has moved, removed or
            replaced it or a file beside it. The file is as before.
        ValueError, TypeError
            If an argument is none of these; the file is as before.
        """
        if self.read_only:
            raise StoreError(f"{self.path} was opened to be read only")
        with self._mutex:
            self._settle()
            if isinstance(forget, str):
                raise TypeError(f"`forget` must be keys, not one, got {forget!r}")
            offset = self._offset if offset is None else _as_offset(offset)
            notes = self._notes if notes is None else dict(notes)
            changed: list[tuple[str, bytes, int, bytes]] = []  # key, digest, place, data
            total, next_place = self._sum, self._next_place
            for key, state in states.items():
                data = _as_bytes(key, state)
                digest = data[-DIGEST:]
                if key in self._directory:
                    old, place = self._directory[key]
                    total ^= _line(key, old)
                else:
                    place, next_place = next_place, next_place + 1
                total ^= _line(key, digest)
                changed.append((key, digest, place, data))
            gone = {key for key in forget if key in self._directory} - set(states)
            for key in gone:
                total ^= _line(key, self._directory[key][0])
            n_new = next_place - self._next_place
            n_states = len(self._directory) + n_new - len(gone)
            text = json.dumps(
                {"offset": offset, "notes": notes, "n_states": n_states, "sum": f"{total:x}"}
            )
            head = _hash(text.encode())
            # An interrupt may come between the end of the transaction and that of this method.
            self._in_doubt, self._tried = True, head
            with self._faults("written"), self._writing() as database:
                if database.execute("SELECT digest FROM head").fetchall() != [(self._head,)]:
                    raise StoreError(
                        f"{self.path} can't be written: somebody else has written to it since it"
                        " was read here"
                    )
                database.executemany(
                    "INSERT OR REPLACE INTO states VALUES (?, ?)",
                    [(place, data) for _, _, place, data in changed],
                )
                database.executemany(
                    "INSERT OR REPLACE INTO directory VALUES (?, ?, ?)",
                    [(key, digest, place) for key, digest, place, _ in changed],
                )
                for key in gone:
                    place = self._directory[key][1]
                    database.execute("DELETE FROM states WHERE place = ?", (place,))
                    database.execute("DELETE FROM directory WHERE key = ?", (key,))
                database.execute("UPDATE head SET text = ?, digest = ?", (text, head))
            self._directory.update((key, (digest, place)) for key, digest, place, _ in changed)
            for key in gone:
                del self._directory[key]
            self._sum, self._next_place, self._head = total, next_place, head
            self._offset, self._notes = offset, json.loads(text)["notes"]
            self._version += 1
            self._in_doubt = False

    def alone(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager inside which other threads wait to read or save."""
        return self._mutex

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy what was last saved to another file, while learning goes on.

        The copy bears its name only when it is whole; an older file of that name is replaced, and
        where that is a link, what it leads to. A `save` in another thread waits meanwhile; the
        backup of a store that was opened to be read only makes nobody wait. A file for the lock is
        left beside the copy, as beside every store.

        Raises
        ------
        StoreError
            If it can't be written, or the other file is a store in use or a file beside one, such
            as its log; if files are in the way, as
            when a store is made.
        """
        with self._mutex, self._faults(f"copied to {path}"):
            target = _target(Path(path))
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._check_backup(target)
            with contextlib.closing(_take_lock(target)), _replacing(target) as copy:
                self._open().backup(copy)

    def _check_backup(self, target: Path) -> None:
        """Raise if a copy would take the place of a file of this or another store."""
        for ending in _ENDINGS:
            beside = target.with_name(target.name + ending)
            if beside.exists() and beside.samefile(self._file):
                raise StoreError(f"{target} is in use: {self.path} bears the name of its {ending}")
            store = target.with_name(target.name[: -len(ending)] or target.name)
            if target.name.lower().endswith(ending) and is_store(store):
                raise StoreError(f"{target} is in use: it is a file of the store {store}")

    def close(self) -> None:
        """Let go of the file; nothing needs to be saved by this."""
        with self._mutex:
            for connection in (self._database, self._lock):
                if connection is not None and self._process == os.getpid():
                    connection.close()
            self._database = self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        n_states, offset = len(self._directory), self._offset
        return f"Store({str(self.path)!r}, n_states={n_states}, offset={offset})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} can't be pickled or copied: open the file again")

    def _open(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            raise StoreError(f"{self.path} was opened by another process: open it again in this")
        if self._database is None:
            raise StoreError(f"{self.path} is closed")
        return self._database

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One view of the file for all that is read inside."""
        database = self._open()
        if database.in_transaction:  # of a view that is open
            yield database
            return
        database.execute("BEGIN")
        try:
            yield database
        finally:
            if self._open().in_transaction:  # SQLite ends it itself after some errors
                database.execute("ROLLBACK")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """All that is written inside, or nothing."""
        database = self._open()
        try:
            database.execute("BEGIN IMMEDIATE")
            yield database
            if (
                self._inodes is None or _inodes(self._file) != self._inodes
            ):  # what is written would have no name
                raise StoreError(
                    f"{self.path} can't be written: somebody else has moved, removed or replaced"
                    " it or its log since it was opened"
                )
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        """Say in one line what the file system or SQLite said."""
        try:
            yield
        except UnicodeDecodeError as error:  # names that SQLite wanted to complain about
            raise StoreError(f"{self.path} is damaged or no store: {error}") from error
        except (sqlite3.Error, OSError, MemoryError, OverflowError) as error:
            if str(error).startswith("Could not decode to UTF-8"):  # and then whatever is there
                raise StoreError(f"{self.path} is damaged: text that is no UTF-8") from error
            name = getattr(error, "sqlite_errorname", "")
            if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"):
                raise StoreError(f"{self.path} is damaged or no store: {error}") from error
            reason = getattr(error, "strerror", None) or str(error) or "not enough memory"
            raise StoreError(f"{self.path} can't be {what}: {reason}") from error

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        """Say that the file is damaged where what is in it makes no sense."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(f"{self.path} is damaged: {error}") from error


def is_store(path: Path) -> bool:
    """Return whether a file is an SQLite database, as a store is; never raises for one that isn't.

    Examples
    --------
    >>> is_store(Path("pyproject.toml"))
    False
    """
    try:
        with open(path, "rb") as file:
            return file.read(16) == _SQLITE
    except OSError:
        return False


def files_of_store(path: Path) -> list[Path]:
    """Return the names of all files that a store may use, whether they exist or not.

    Examples
    --------
    >>> [file.name for file in files_of_store(Path("run.db"))][:3]
    ['run.db', 'run.db-wal', 'run.db-shm']
    """
    bases = dict.fromkeys([path, Path(os.path.realpath(path))])  # SQLite follows links
    return [base.with_name(base.name + ending) for base in bases for ending in ("", *_ENDINGS)]


def _connect(path: Path, read_only: bool, still: bool = False) -> sqlite3.Connection:
    """Open a store that exists; if it is still, without looking whether somebody writes to it."""
    if not path.is_file():
        raise StoreError(f"{path} can't be opened: there is no such file")
    if not path.stat().st_size:
        raise StoreError(f"{path} is empty: it is no store")
    if not read_only:
        _check_writable(path)
        if path.stat().st_nlink > 1:
            raise StoreError(
                f"{path} has another name (a hard link): whoever writes to it under that one would"
                " not be noticed"
            )
    uri = f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}&immutable={still:d}"
    database = sqlite3.connect(
        uri, uri=True, timeout=5.0, isolation_level=None, check_same_thread=False
    )
    try:
        (application,) = database.execute("PRAGMA application_id").fetchone()
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise StoreError(f"{path} is no store of states")
        if version > _VERSION:
            raise StoreError(
                f"{path} must be of version {_VERSION} or older, got version {version}:"
                " a newer streamcal wrote it"
            )
        if not read_only:
            database.execute("PRAGMA journal_mode = WAL").fetchone()
            database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def _create(path: Path) -> None:
    """Make an empty store that appears under its name all at once."""
    text = json.dumps({"offset": 0, "notes": {}, "n_states": 0, "sum": "0"})
    with _replacing(path) as database:
        database.executescript(
            f"BEGIN; PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_VERSION};"
            + _SCHEMA
        )
        database.execute("INSERT INTO head VALUES (0, ?, ?)", (text, _hash(text.encode())))
        database.execute("COMMIT")


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[sqlite3.Connection]:
    """Fill a database that then takes the place of a file, whole and on the disk.

    The caller holds the lock, so nobody has the old one open for writing.
    """
    partial = path.with_name(path.name + _PARTIAL)
    _check_free(path, partial)
    _remove(partial)
    try:
        with contextlib.closing(sqlite3.connect(partial, isolation_level=None)) as database:
            yield database
            # A change of mode in place would be a journal that a reader must not play back.
            database.execute("PRAGMA journal_mode = WAL").fetchone()
        _sync(partial)
        _without_log(path)
        partial.replace(path)
        _sync(path.parent)
    except BaseException:
        _remove(partial)
        raise


def _check_free(path: Path, partial: Path) -> None:
    """Raise if a file would be removed that no store has left: `_replacing` removes what it finds.

    What a killed process left under the partial name is recognised by how it begins, or by zeros,
    which a loss of power leaves of what was not on the disk yet. Beside a database there may be its
    log; without the database nobody knows whose log it is.
    """
    foreign = [] if _is_left(partial, None) else [partial]
    for rest, beginnings in _BEGINNINGS.items():
        beside, log = (file.with_name(file.name + rest) for file in (partial, path))
        foreign += [] if _is_left(beside, beginnings) else [beside]
        if not is_store(path):
            foreign += [] if _is_left(log, beginnings if rest == "-shm" else ()) else [log]
    if foreign:
        raise StoreError(
            f"{path} can't be made: {foreign[0]} is there and may be somebody else's; move it away"
        )


def _is_left(path: Path, beginnings: tuple[bytes, ...] | None) -> bool:
    """Return whether a file is missing or empty, or begins as it should; None: as a store does.

    A byte that was not on the disk yet may be zero.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
    except FileNotFoundError:
        return True
    with open(path, "rb") as file:
        head = file.read(100)  # the header of a database
    if beginnings is None:
        if head.startswith(_SQLITE):
            return int.from_bytes(head[68:72], "big") == _APPLICATION
        beginnings = (_SQLITE,)
    return not any(head) or any(
        all(got in (0, byte) for got, byte in zip(head, beginning, strict=False))
        for beginning in beginnings
    )


def _without_log(path: Path) -> None:
    """Make sure that a file to be replaced has no log beside it, to be read into the new one.

    The log is gone for good before the old file is, and the old file has what was in it.
    """
    if path.exists():
        with contextlib.suppress(StoreError, sqlite3.Error, OSError):  # it may be anything
            _connect(path, False).close()
    beside = [path.with_name(path.name + rest) for rest in _BESIDE]
    for file in beside:
        file.unlink(missing_ok=True)
    _sync(path.parent)


def _remove(path: Path) -> None:
    """Remove a database, or what is left of one."""
    for rest in ("", *_BESIDE):
        path.with_name(path.name + rest).unlink(missing_ok=True)


def _target(path: Path) -> Path:
    """Return where a link leads to, be there a file or not; other paths as they are."""
    if not path.is_symlink():
        return path
    try:
        target = path.resolve()
    except RuntimeError:  # what Python before 3.13 says of a loop
        target = path
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + _LOCK)


def _inodes(path: Path) -> list[tuple[int, int]] | None:
    """Return which files a writer has open under their names; None if one has no file.

    The lock's may go: `Store.save` notices another writer without it.
    """
    try:
        found = [os.stat(f"{path}{ending}") for ending in ("", "-wal", "-shm")]
    except FileNotFoundError:
        return None
    return [(status.st_dev, status.st_ino) for status in found]


def _take_lock(path: Path) -> sqlite3.Connection:
    """Become the one writer of a file that is no link, for as long as the connection lives."""
    lock = sqlite3.connect(_lock_path(path), timeout=0.0, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        _check_writable(_lock_path(path))  # or SQLite shares what it should lock
    except PermissionError:
        lock.close()
        raise
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorname == "SQLITE_BUSY":
            raise StoreError(f"{path} is in use: another process or store writes to it") from None
        raise
    return lock


def _check_writable(path: Path) -> None:
    """Raise unless a file may be written to: SQLite quietly opens it to be read then."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":
        return  # there is no such thing
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def _line(key: str, digest: bytes) -> int:
    """Return the hash of a line of the directory."""
    return int.from_bytes(_hash(key.encode() + b"\0" + digest), "little")


def _as_bytes(key: Any, state: Any) -> bytes:
    """Return what is to be kept under a key, or raise."""
    if not isinstance(key, str):
        raise TypeError(f"`states` must have str for keys, got {key!r}")
    if isinstance(state, Stateful):
        return state.to_bytes()
    check(state)
    return bytes(state)


def _as_offset(offset: Any) -> int:
    if isinstance(offset, bool) or not hasattr(offset, "__index__") or offset < 0:
        raise ValueError(f"`offset` must be a non-negative int, got {offset!r}")
    if offset > MOST_COUNT:  # `refresh` would take it for damage
        raise ValueError(f"`offset` must be at most 2**53, got {offset!r}")
    return int(offset)
