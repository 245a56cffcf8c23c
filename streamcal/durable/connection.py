"""The open file of a store: the lock of its writer, the connection to SQLite, transactions."""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from streamcal._state.format import BAD_VALUES
from streamcal.durable.database import connect, create
from streamcal.durable.errors import StoreError, errors_of_files
from streamcal.durable.files import (
    INDEX,
    LOG,
    beside,
    check_application,
    follow_link,
    identify,
    is_own,
    stamp_of,
    take_lock,
)
from streamcal.kernels.sqlite import Connection


class StoreConnection:
    """The connection of a `Store` to its file; `open` it first.

    Parameters
    ----------
    path : Path
        The file that the user named.
    read_only : bool
        Whether this is a reader. A writer takes the lock.

    Attributes
    ----------
    file : Path
        The file, or the target of a link.
    database : Connection or None
        None while it is closed.
    """

    def __init__(self, path: Path, read_only: bool) -> None:
        self.path = self.file = path
        self.read_only = read_only
        self.database: Connection | None = None
        self._lock: Connection | None = None
        self._process = os.getpid()
        self._stamp: tuple[int, ...] | None = None  # of a file that is read without its log
        self._written_files: list[tuple[int, int]] | None = None

    def open(self) -> None:
        """Take the lock, make the file if it is missing, and connect."""
        self.file = follow_link(self.path)
        if not self.file.parent.is_dir():
            raise StoreError(f"{self.path} can't be opened: there is no such folder; make it first")
        if self.file.is_dir():
            raise StoreError(f"{self.path} can't be opened: it is a folder; name a file in it")
        check_application(self.file)
        if not self.read_only:
            self._lock = take_lock(self.file)
            if not self.file.exists():
                create(self.file)
        self._connect()

    def _connect(self) -> None:
        self._stamp, stamp = None, stamp_of(self.file)
        log, index = beside(self.file, LOG), beside(self.file, INDEX)
        own = not self.read_only or is_own(self.file)
        if not own and log.exists() and not index.exists():
            raise StoreError(
                f"{self.path} can't be opened: SQLite would make {index}, which the owner of the"
                " store could not write; its owner must open it first"
            )
        if own or log.exists():
            try:
                self.database = connect(self.file, self.read_only)
                return
            except sqlite3.OperationalError:
                if not self.read_only or log.exists():
                    raise
        # A reader must not make the files of a log for another user, and can't in a read-only
        # folder. If nobody else has made them, there is no writer, and the database itself holds
        # everything.
        self.database = connect(self.file, True, immutable=True)
        self._stamp = stamp

    def _reconnect(self) -> None:
        """Open a database again that was opened as one without a writer, if one has come.

        SQLite would mix pages that it has read before with pages that were written since.
        """
        if self._stamp is not None:
            if stamp_of(self.file) != self._stamp or beside(self.file, LOG).exists():
                self.connected().close()
                self.database = None
                with errors_of_files(self.path, "opened"):
                    self._connect()

    def connected(self) -> Connection:
        """Return the open database."""
        if self._process != os.getpid():
            raise StoreError(f"{self.path} was opened by another process: open it in a new one")
        if self.database is None:
            raise StoreError(f"{self.path} is closed")
        return self.database

    def current(self) -> Connection:
        """Return the open database, outside of a transaction, as it is in the file now."""
        self._reconnect()
        self._roll_back()  # what was interrupted may have been interrupted in this, too
        return self.connected()

    def _roll_back(self) -> None:
        """End the transaction, if there is one: SQLite ends it itself after some errors."""
        if self.connected().in_transaction:
            self.connected().execute("ROLLBACK")

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give the database as it is at one moment."""
        database = self.current()
        try:
            database.execute("BEGIN")
            yield database
        except (sqlite3.Error, *BAD_VALUES):
            self._check_stamp()
            raise
        else:
            self._check_stamp()
        finally:
            self._roll_back()

    def _check_stamp(self) -> None:
        """Raise if a file was written while it was read as one without a writer."""
        if self._stamp is not None and stamp_of(self.file) != self._stamp:
            raise StoreError(f"{self.path} can't be read: it was written meanwhile; read it again")

    def remember_files(self) -> None:
        """Remember which files are written to: `writing` refuses others under their names."""
        self._written_files = identify(self.file)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write all that is written inside, or nothing."""
        database = self.connected()
        try:
            self._roll_back()  # a read may have been interrupted
            database.execute("BEGIN IMMEDIATE")
            yield database
            if self._written_files is None or identify(self.file) != self._written_files:
                # The file that is written to has no name any more.
                raise StoreError(
                    f"{self.path} can't be written: it or its log was moved, removed or replaced"
                    " since it was opened"
                )
            database.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def close(self) -> None:
        """Release the file and the lock."""
        for connection in (self.database, self._lock):
            if connection is not None and self._process == os.getpid():
                connection.close()
        self.database = self._lock = None
