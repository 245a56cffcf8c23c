"""A file with the states of a stream's learners and the stream's offset, changed together.

A store is an SQLite database in write-ahead mode with full synchronisation. `Store.save` writes the
changed states *and* the offset of the stream in one transaction. After a crash at any instant, the
file holds what the last finished `save` wrote, complete and nothing else. States are what
`to_bytes` returns; nothing is unpickled.

SQLite keeps the directory of keys and finds a state by its key: opening a store takes the same time
and memory for any number of keys.

SQLite detects only some disk damage and manual edits, so a store has digests of its own. The head
(offset, notes, summary of the states) has one and is checked when it is read. Each row has one of
its key and its state, and is checked when it is read: damage, a state under another key, and a
state newer than the head are refused. A row that is missing, or is an older state of the same key,
fits its own digest; it is detected by the summary, which the calls that read all keys compare:
`Store.check`, `Store.keys`, `Store.sizes` and `Store.load`. `Store.check_count` compares only the
number of rows.

There is one writer: it holds an exclusive lock on a file beside the store until it closes the store
or its process ends; the file of the lock stays. Any number of readers (``read_only=True``) may open
the store meanwhile, in any process, and see the last `save`. The locks of the file system must
work, which they don't on some network drives; so `save` also refuses if the file is not as this
store left it. Through a link, the store and its lock are those of the link's target.
"""

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

from streamcal._advice import shown
from streamcal._state import DIGEST, Stateful, check, require, restore
from streamcal._validation import MOST_COUNT
from streamcal.durable._journal import Journal, JournalIndex, Part, digest_after, state_after
from streamcal.durable.connection import StoreConnection
from streamcal.durable.database import replacing
from streamcal.durable.errors import StoreError, errors_of_content, errors_of_files
from streamcal.durable.files import check_backup, follow_link, take_lock
from streamcal.durable.rows import (
    JOURNAL,
    Head,
    all_rows,
    check_row,
    checked_rows,
    digest_of,
    find_row,
    has_head,
    prepare_rows,
    read_head,
    write_rows,
)
from streamcal.kernels.exclusive import Mutex
from streamcal.kernels.sqlite import Connection


class Saved(NamedTuple):
    """What a store holds: learners by key, and the offset of the stream.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamcal import PlattCalibrator
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store(pathlib.Path(folder.name, "run.db")) as store:
    ...     store.save({"shop": PlattCalibrator()}, 120)
    ...     saved = store.load()
    >>> list(saved.states), saved.offset
    (['shop'], 120)
    >>> folder.cleanup()
    """

    states: dict[str, Any]
    offset: int


class Found(NamedTuple):
    """A state in a store.

    Attributes
    ----------
    data : bytes
        The state, after the samples that journals have for it.
    digest : bytes
        See `Store.digest`.
    written : bytes
        See `Store.written_digest`.
    """

    data: bytes
    digest: bytes
    written: bytes


class Store:
    """A file of states by key, and the offset of the stream that they have learned.

    Parameters
    ----------
    path : str or Path
        The file; it is made if it does not exist.
    read_only : bool
        Only read. Any number of readers may do so beside the one writer. Each read of a state or of
        keys sees the last `save`; `offset`, `notes` and `len` are those of the last read or
        `refresh`.

    Attributes
    ----------
    path : Path
    offset : int
        How many samples of the stream are learned; 0 at first.
    notes : dict
        The small things that `save` was given with the states: JSON.
    version : int
        Grows with each `save`, and with each read or `refresh` that finds other states. While it is
        the same, the states are the same.

    Raises
    ------
    StoreError
        If the head of the file is damaged; if the file is no store, of another version, in use by
        another writer, or can't be read or made; if ``NAME-wal``, ``NAME-lock``, ``NAME.partial``
        or similar ones exist and may belong to another user or another store; if it is to be
        written and has a second name (a hard link), under which another writer would not be
        noticed.

    Notes
    -----
    Opening reads the head alone: it does not depend on the number of keys. If a killed process has
    left a log, a writer compares all keys with the summary. `check` reads everything.

    A reader that is not the owner of the file reads without a lock while there is no writer. If one
    comes during a read, the read may raise `StoreError`; the next one sees what was saved.

    While a process has a store open, its other code must not open the file, to copy it for example:
    on POSIX systems the store would lose its locks when that code closes the file. Use `backup`.

    Threads may share a store; one waits for the other. Processes may not: a store can't be pickled,
    and after a fork the child can't use it. Open the file in a new process: in a forked one, SQLite
    takes the locks that the parent had at the fork for its own.

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
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"`path` must be the name of a file, got {shown(path)}")
        self.path = Path(path)
        self.read_only = read_only
        self._connection = StoreConnection(self.path, read_only)
        self._mutex = Mutex("Store")
        self._head = Head()
        self._pending: bytes | None = None  # digest of a head that an interrupted save may have set
        self._version = 0
        self._journals = JournalIndex()
        self._moment: tuple[Connection, Head] | None = None  # inside of `reading`
        try:
            with errors_of_files(self.path, "opened"):
                self._connection.open()
                self.refresh()
                self._connection.remember_files()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the file and the lock; nothing needs to be saved by this."""
        with self._mutex:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        n_states, offset = self._head.n_states - self._head.n_journals, self._head.offset
        return f"Store({str(self.path)!r}, n_states={n_states}, offset={offset})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} can't be pickled or copied: open the file again")

    # The head -------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """How many samples of the stream are learned; 0 at first."""
        self._settle()
        return self._head.offset

    @property
    def notes(self) -> dict[str, Any]:
        """The small things that `save` was given with the states: JSON."""
        self._settle()
        notes: dict[str, Any] = self._head.notes
        return notes

    @property
    def version(self) -> int:
        """Grows with each `save`, and with each read or `refresh` that finds other states."""
        self._settle()
        return self._version

    @property
    def n_saves(self) -> int:
        """How many saves there have been; the next one has the number after this."""
        self._settle()
        return self._head.n_saves

    def __len__(self) -> int:
        self._settle()
        return self._head.n_states - self._head.n_journals

    def refresh(self) -> None:
        """Read the head again: `offset`, `notes` and `len` become those of the last `save`.

        In a writer this accepts what another writer has saved in spite of the lock.
        """
        with self._reading(accept=True):
            pass

    def _settle(self) -> None:
        """Find out whether a `save` that was interrupted has been committed."""
        if self._pending is not None:  # or another thread is saving, and `_reading` waits for it
            with self._reading():
                pass

    def _settle_to_save(self) -> None:
        """Do what `_settle` does; the lock is held."""
        if self._pending is not None and self._moment is None:
            of_files, of_content = errors_of_files(self.path, "read"), errors_of_content(self.path)
            with of_files, of_content, self._at_this_moment(False):
                pass

    @contextlib.contextmanager
    def _reading(self, accept: bool = False) -> Iterator[tuple[Connection, Head]]:
        """Give the database as it is at one moment, and the head of that moment.

        A writer keeps its own head if the file has that of another writer, so that `save` refuses;
        with ``accept`` it takes that over.
        """
        with self._mutex, errors_of_files(self.path, "read"), errors_of_content(self.path):
            if self._moment is not None:
                self._connection.connected()  # or it raises
                yield self._moment
                return
            with self._at_this_moment(accept) as moment:
                yield moment

    @contextlib.contextmanager
    def _at_this_moment(self, accept: bool) -> Iterator[tuple[Connection, Head]]:
        """Begin to read; see `_reading`."""
        with self._connection.reading() as database:
            head = read_head(database, self._head)
            if accept or self.read_only or head.digest == self._pending:
                self._version += head.combined != self._head.combined
                self._head = head
            self._pending = None
            yield database, head

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Return a context manager inside which all reads see the store as one `save` left it.

        Without it each read sees the last `save`. It is for a store that is opened with
        ``read_only=True``. Other threads wait to read from it meanwhile; writers don't, but their
        log grows.

        Raises
        ------
        StoreError
            If the store is not read-only, or can't be read.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> from streamcal import PlattCalibrator
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "run.db")
        >>> with Store(path) as store:
        ...     store.save({"shop": PlattCalibrator()}, 120)
        ...     with Store(path, read_only=True) as reader, reader.reading():
        ...         store.save({}, 130, forget=["shop"])
        ...         reader.offset, reader.keys()
        (120, ['shop'])
        >>> folder.cleanup()
        """
        if not self.read_only:
            raise StoreError(
                f"{self.path} was opened to be written: `reading` needs read_only=True"
            )
        with self.one_moment():
            yield

    @contextlib.contextmanager
    def one_moment(self) -> Iterator[None]:
        """Do what `reading` does, also for a writer, which must not save meanwhile."""
        with self._mutex.block(), contextlib.ExitStack() as stack:
            if self._moment is not None:
                yield
                return
            try:
                with self._mutex, errors_of_files(self.path, "read"), errors_of_content(self.path):
                    self._moment = stack.enter_context(self._at_this_moment(False))
                yield
            finally:  # not in the stack, whose end may be interrupted
                self._moment = None

    # States ---------------------------------------------------------------------------------------

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
        """Return the bytes of a state, checked against their digest; raises as `get` does."""
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found.data

    def find(self, key: str) -> Found | None:
        """Return the bytes of a state, and its digests; None if there is no such key."""
        with self._reading() as (database, head):
            row = find_row(database, key, "n_saves, data")
            if row is None:
                return None
            check_row(head, key, *row)
            digest, n_saves, data = row
            later = self._learned_after(database, head, key, n_saves)
            return Found(state_after(bytes(data), later), digest_after(digest, later), digest)

    def digest(self, key: str) -> bytes | None:
        """Return the digest of a key and its state, see `digest_of`; None if there is no such key.

        The state is not read. The samples that journals have for it are part of the digest.
        """
        with self._reading() as (database, head):
            row = find_row(database, key, "n_saves")
            if row is None:
                return None
            digest, n_saves = row
            return digest_after(digest, self._learned_after(database, head, key, n_saves))

    def next_digest(self, key: str, state: bytes) -> bytes:
        """Return the `digest` of a key if the next save writes this state."""
        self._settle()
        return digest_of(key, self._head.n_saves + 1, state)

    def written_digest(self, key: str) -> bytes | None:
        """Return the `digest` of a state as it was written, without what journals have for it."""
        with self._reading() as (database, _):
            row = find_row(database, key, "place")
        return None if row is None else row[0]

    def journals(self) -> dict[str, int]:
        """Return the names of all journals, and their bytes."""
        with self._reading() as (database, head):
            self._journals.update(database, head)
            return dict(self._journals.sizes)

    def names_in_journals(self) -> list[str]:
        """Return the keys whose states have learned samples since they were written."""
        with self._reading() as (database, head):
            self._journals.update(database, head)
            found = {name: find_row(database, name, "n_saves") for name in self._journals.names}
            behind = self._journals.after
            return [name for name, row in found.items() if row and behind(name, row[1])]

    def unchanged_since(self, n_saves: int) -> dict[str, bytes]:
        """Return the keys that no save after this number has changed, each with its `digest`.

        All states are looked at.
        """
        with self._reading() as (database, head):
            self._journals.update(database, head)
            query = "SELECT key, digest, n_saves, substr(data, ?) FROM states WHERE n_saves <= ?"
            found = {}
            for key, digest, number, checksum in database.execute(query, (-DIGEST, n_saves)):
                fits = digest_of(key, number, checksum) == digest
                require(fits, f"the state of {key!r} does not fit its digest")
                if not key.startswith(JOURNAL) and not self._journals.after(key, n_saves):
                    found[key] = digest_after(digest, self._journals.after(key, number))
            return found

    def _learned_after(
        self, database: Connection, head: Head, key: str, n_saves: int
    ) -> list[Part]:
        """Return the samples in journals that a state has learned since a save."""
        self._journals.update(database, head)
        return self._journals.after(key, n_saves)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self.digest(key) is not None

    def first_key(self, prefix: str) -> str | None:
        """Return the first key that begins with a prefix; None if there is no such key."""
        with self._reading() as (database, _):
            query = "SELECT key FROM states WHERE key >= ? ORDER BY key LIMIT 1"
            found: list[str] = [key for (key,) in database.execute(query, (prefix,))]
            return found[0] if found and found[0].startswith(prefix) else None

    def keys(self) -> list[str]:
        """Return all keys, compared with the summary in the head."""
        with self._reading() as (database, head):
            rows = all_rows(database, head, "key, digest")
            return [key for key, _ in rows if not key.startswith(JOURNAL)]

    def sizes(self) -> dict[str, int]:
        """Return how many bytes each state takes, by key; the states are not read."""
        with self._reading() as (database, head):
            rows = all_rows(database, head, "key, digest, length(data)")
            return {key: size for key, _, size in rows if not key.startswith(JOURNAL)}

    def load(self) -> Saved:
        """Return all learners by key, and the offset.

        Returns
        -------
        states, offset : dict of learners, int
            A named tuple.

        Raises
        ------
        StoreError
            If a state is damaged, or one is missing.
        ValueError, TypeError
            If one needs what bytes do not hold; see `get`.
        """
        with self._reading() as (database, head):
            states = {
                key: state_after(data, self._learned_after(database, head, key, n_saves))
                for key, n_saves, data in checked_rows(database, head)
                if not key.startswith(JOURNAL)
            }
        return Saved({key: restore(states.pop(key)) for key in list(states)}, head.offset)

    def check(self) -> None:
        """Read the whole file; raise unless it holds all that was saved.

        It takes the time of reading the file, and no memory that grows with it.

        Raises
        ------
        StoreError
            If anything is damaged, missing, or not of the last `save`.
        """
        with self._reading() as (database, head):
            ((report,), *_) = database.execute("PRAGMA integrity_check(1)").fetchall()
            if report != "ok":
                raise ValueError(report.splitlines()[-1])
            for _ in checked_rows(database, head):
                pass
            self._journals.update(database, head)

    def check_count(self) -> None:
        """Raise `StoreError` unless there are as many states as were saved; no state is read.

        A key without a state looks new, so this is called before anything is learned.
        """
        with self._reading() as (database, head):
            ((n_states,),) = database.execute("SELECT count(*) FROM states").fetchall()
            head.compare(n_states)

    # Writing --------------------------------------------------------------------------------------

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
            If it can't be written, or the store is read-only; if another process has written to the
            file in spite of the lock (`refresh` accepts that); if somebody has moved, removed or
            replaced it or a file beside it. The file is as before.
        ValueError, TypeError
            If an argument is none of these; the file is as before.
        """
        if self.read_only:
            raise StoreError(f"{self.path} was opened to be read only")
        if isinstance(forget, str):
            raise TypeError(f"`forget` must be keys, not one, got {forget!r}")
        if not hasattr(states, "items"):
            raise TypeError(
                "`states` must be a mapping of keys to learners, such as {'all': calibrator}, got"
                f" {shown(states)}"
            )
        # Code of the caller, which may read from this store.
        changes = {
            **dict.fromkeys(forget),
            **{key: _as_bytes(key, state) for key, state in states.items()},
        }
        with self._mutex:
            self._settle_to_save()
            head = self._head._replace(
                offset=self._head.offset if offset is None else _as_offset(offset),
                notes=self._head.notes if notes is None else dict(notes),
                n_saves=self._head.n_saves + 1,
            )
            with errors_of_files(self.path, "written"), self._connection.writing() as database:
                if not has_head(database, self._head):
                    raise StoreError(
                        f"{self.path} can't be written: another process has written to it since"
                        " it was read here"
                    )
                with errors_of_content(self.path):
                    head, rows = prepare_rows(database, head, changes)
                text, digest = head.encode()
                with errors_of_content(self.path):  # what a read would refuse is not written
                    head = Head.decode(text, digest)
                write_rows(database, rows)
                self._pending = digest
                database.execute("UPDATE head SET text = ?, digest = ?", (text, digest))
            # After an interrupt here, the next read finds the pending head in the file.
            self._version += 1
            self._head, self._pending = head, None

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager inside which other threads wait to read or save."""
        return self._mutex.block()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy what was last saved to another file, while learning goes on.

        Inside `reading` it is a copy of what all reads see.

        The copy gets its name when it is complete; an older file of that name is replaced, or if
        that is a link, its target. A `save` in another thread waits meanwhile; the backup of a
        read-only store delays no writer. A file for the lock is left beside the copy, as beside
        every store.

        Raises
        ------
        StoreError
            If it can't be written, or the other file is a store in use or a file beside one, such
            as its log; if files are in the way, as when a store is made.
        """
        with self._mutex, errors_of_files(self.path, f"copied to {path}"):
            target = follow_link(Path(path))
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            check_backup(target, self._connection.file)
            with (
                contextlib.closing(take_lock(target)),
                replacing(target) as copy,
                self._database() as database,
            ):
                database.backup(copy)

    @contextlib.contextmanager
    def _database(self) -> Iterator[Connection]:
        """Give the database as it is at one moment, that of `reading` if there is one."""
        if self._moment is not None:
            yield self._connection.connected()
            return
        with self._connection.reading() as database:
            yield database


def show_store(value: Any) -> str:
    """Return what stands in the place of a store, and what to write instead.

    Examples
    --------
    >>> show_store("run.db")
    "'run.db'; open the file with Store('run.db')"
    """
    if isinstance(value, str | os.PathLike):
        return f"{value!r}; open the file with Store({str(value)!r})"
    return shown(value, Store)


def _as_bytes(key: Any, state: Any) -> bytes:
    """Return what is to be kept under a key, or raise."""
    if not isinstance(key, str):
        raise TypeError(f"`states` must have str for keys, got {key!r}")
    key.encode()  # or it raises
    if key.startswith(JOURNAL) and not isinstance(state, Journal):
        raise ValueError(f"`states` must have keys that do not begin with {JOURNAL!r}, got {key!r}")
    if isinstance(state, Stateful):
        return state.to_bytes()
    if not isinstance(state, bytes | bytearray | memoryview):
        raise TypeError(
            "`states` must hold learners, such as calibrators, or what their `to_bytes` returned,"
            f" got {shown(state, Stateful, f' for {key!r}')}"
        )
    data = bytes(state)
    check(data)
    return data


def _as_offset(offset: Any) -> int:
    if isinstance(offset, bool) or not hasattr(offset, "__index__") or offset < 0:
        raise ValueError(f"`offset` must be a non-negative int, got {offset!r}")
    if offset > MOST_COUNT:  # `refresh` would take it for damage
        raise ValueError(f"`offset` must be at most 2**53, got {offset!r}")
    return int(offset)
