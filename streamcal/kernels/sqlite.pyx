"""Connections to SQLite, in which no thread is while another one forks.

SQLite has locks for all its connections. If a thread had one of them at a fork, it would never be
free in the child, and the first call of SQLite there would wait for ever. So every call that lets
go of the interpreter's lock is inside `no_fork`: of a statement, of a row, of a copy, of opening,
and of freeing a statement or a connection. A fork waits for calls, not for transactions::

    thread 1   BEGIN: | no_fork | .... INSERT: waits ........... | no_fork | .... COMMIT ...
    thread 2   fork: waits ..... | fork ....................... |

It waits for at most the ``timeout`` of a connection while a call waits for another process.

They are compiled since Python loses what a signal handler raises in a ``__del__`` of bytecode.
"""

import sqlite3

from streamcal.kernels.exclusive cimport NoFork

from streamcal.kernels.exclusive import no_fork

cdef NoFork gate = no_fork


cdef object inside(function, tuple arguments):
    """Call a function of SQLite; a fork waits for it."""
    gate.enter()
    try:
        return function(*arguments)
    finally:
        gate.leave()


cdef object execute = sqlite3.Cursor.execute
cdef object executemany = sqlite3.Cursor.executemany
cdef object fetchone = sqlite3.Cursor.fetchone
cdef object fetchmany = sqlite3.Cursor.fetchmany
cdef object fetchall = sqlite3.Cursor.fetchall
cdef object free_cursor = sqlite3.Cursor.close
cdef object backup = sqlite3.Connection.backup
cdef object free_connection = sqlite3.Connection.close
# From 3.13 on it warns of a connection that nobody has closed.
cdef object end_connection = getattr(sqlite3.Connection, "__del__", free_connection)


class Cursor(sqlite3.Cursor):
    """The rows of a statement."""

    def execute(self, statement, values=()):
        """Run a statement as far as its first row."""
        return inside(execute, (self, statement, values))

    def executemany(self, statement, rows):
        """Run a statement once for each row of values."""
        return inside(executemany, (self, statement, rows))

    def fetchone(self):
        """Return the next row; None after the last."""
        return inside(fetchone, (self,))

    def fetchmany(self, size=None):
        """Return the next rows, ``arraysize`` of them if nothing else is said."""
        return inside(fetchmany, (self, self.arraysize if size is None else size))

    def fetchall(self):
        """Return all further rows."""
        return inside(fetchall, (self,))

    def __iter__(self):
        return iter(self.fetchone, None)

    def __del__(self):
        try:
            inside(free_cursor, (self,))
        except sqlite3.ProgrammingError:  # its connection is closed
            pass


class Connection(sqlite3.Connection):
    """A connection that any thread may use; it begins no transactions of its own.

    Parameters
    ----------
    name : str or Path
        The file, or its URI.
    timeout : float
        For how many seconds a call waits for a lock of another connection.
    uri : bool
        Whether ``name`` is a URI.

    Examples
    --------
    >>> connection = Connection(":memory:")
    >>> connection.execute("SELECT 1 + ?", (2,)).fetchall()
    [(3,)]
    >>> connection.close()
    """

    def __init__(self, name, *, timeout=5.0, uri=False):
        gate.enter()
        try:
            sqlite3.Connection.__init__(
                self, name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=uri
            )
        finally:
            gate.leave()

    def execute(self, statement, values=()):
        """Run a statement as far as its first row."""
        return self.cursor(Cursor).execute(statement, values)

    def executemany(self, statement, rows):
        """Run a statement once for each row of values."""
        return self.cursor(Cursor).executemany(statement, rows)

    def backup(self, target):
        """Copy the database to that of another connection."""
        inside(backup, (self, target))

    def close(self):
        """Free the connection."""
        inside(free_connection, (self,))

    def __del__(self):
        try:
            inside(end_connection, (self,))
        except sqlite3.ProgrammingError:  # it was never opened
            pass
