"""The database of a store: its tables, and how it is opened, made and replaced.

head     one row: a JSON text and the digest of this text
states   a row for each key: the digest of key and state, the save that wrote it, the state
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from streamcal.durable.errors import StoreError, errors_of_content, is_of_system
from streamcal.durable.files import (
    APPLICATION,
    BESIDE,
    INDEX,
    LOG,
    PARTIAL,
    OpenDatabase,
    beside,
    check_beside,
    check_free,
    check_writable,
    remove,
    sync,
)
from streamcal.durable.rows import Head, all_rows, read_head
from streamcal.kernels.sqlite import Connection

VERSION = 3
# The index has all columns that `Store.keys` reads, in a hundredth of the pages of the states.
_SCHEMA = [
    "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 0), text TEXT, digest BLOB)",
    "CREATE TABLE states"
    " (place INTEGER PRIMARY KEY, key TEXT, digest BLOB, n_saves INT, data BLOB)",
    "CREATE UNIQUE INDEX directory ON states (key, digest)",
]


def connect(path: Path, read_only: bool, immutable: bool = False) -> Connection:
    """Open a store that exists; ``immutable`` if nobody writes to it, which is not checked."""
    _check_files(path, read_only)
    mode = "ro" if read_only else "rw"
    uri = f"{path.absolute().as_uri()}?mode={mode}&immutable={immutable:d}"
    database = OpenDatabase(uri, uri=True)
    try:
        database.announce(path)
        _check_kind(database, path)
        if not read_only:
            database.execute("PRAGMA journal_mode = WAL").fetchone()
            database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def _check_files(path: Path, read_only: bool) -> None:
    """Raise unless a file can be a store, and what is beside it is of this store."""
    if not path.is_file():
        raise StoreError(f"{path} can't be opened: there is no such file")
    if not path.stat().st_size:
        raise StoreError(f"{path} is empty: it is no store")
    check_beside(path)
    if not read_only:
        for file in (path, beside(path, LOG), beside(path, INDEX)):
            if file.exists():
                check_writable(file)
        if path.stat().st_nlink > 1:  # each name would have its own lock and log
            raise StoreError(
                f"{path} has another name (a hard link): a process that writes to that name"
                " would not be noticed"
            )
        _check_log(path)


def _check_log(path: Path) -> None:
    """Raise if the log that is beside a store may be of another file.

    SQLite plays it back into whatever the file holds. If somebody has copied a backup over a store
    and left its log, the head would be the newest, and most rows older. Here it is only read, so
    that both files stay as they are.
    """
    log = beside(path, LOG)
    if not log.exists() or not log.stat().st_size:
        return
    with contextlib.closing(connect(path, read_only=True)) as database:
        try:
            with errors_of_content(path):
                for _ in all_rows(database, read_head(database, Head()), "key, digest"):
                    pass
        except StoreError as error:
            raise StoreError(f"{error}; or {log} is the log of another file") from error


def _check_kind(database: Connection, path: Path) -> None:
    """Raise unless a database has the ids of a store of this version, and its tables alone.

    A view in the place of a table, or a trigger, would run SQL of whoever made the file.
    """
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StoreError(f"{path} is no store of states")
    if version != VERSION:
        raise StoreError(
            f"{path} must be of version {VERSION}, got version {version}:"
            " another streamcal wrote it"
        )
    found = database.execute("SELECT sql FROM sqlite_master").fetchmany(len(_SCHEMA) + 1)
    if sorted(found, key=str) != sorted((statement,) for statement in _SCHEMA):
        raise StoreError(f"{path} is damaged or no store: its tables are not those of a store")


def create(path: Path) -> None:
    """Make an empty store; its name appears when it is complete."""
    with replacing(path) as database:
        database.execute("BEGIN")
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        for statement in _SCHEMA:
            database.execute(statement)
        database.execute("INSERT INTO head VALUES (0, ?, ?)", Head().encode())
        database.execute("COMMIT")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Connection]:
    """Fill a new database, which then replaces a file or takes a free name, synced to the disk.

    The caller has the lock of the name, so nobody has the old file open for writing.
    """
    check_free(path)
    partial = beside(path.absolute(), PARTIAL)  # SQLite may take "file:x.db" for a URI
    remove(partial)
    try:
        with contextlib.closing(Connection(partial)) as database:
            yield database
            # If it were set later, it would leave a journal that a reader must not play back.
            database.execute("PRAGMA journal_mode = WAL").fetchone()
        sync(partial)
        _remove_log(path)
        partial.replace(path)
        sync(path.parent)
    except BaseException:
        remove(partial)
        raise


def _remove_log(path: Path) -> None:
    """Remove the log of a file that is to be replaced: SQLite would play it back into the new one.

    The content of the log is copied to the old file first; names are synced before it is removed.
    """
    if path.exists():
        try:
            connect(path, read_only=False).close()
        except (StoreError, sqlite3.Error, OSError) as error:  # the old file may be anything
            if not is_of_system(error):
                raise
    for ending in BESIDE:
        beside(path, ending).unlink(missing_ok=True)
    sync(path.parent)
