"""`StoreError`, and the conversion of errors of SQLite and the file system to it."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from streamcal._state.format import BAD_VALUES


class StoreError(ValueError):
    """A store can't be opened, read or written; the message is one line, the file is unchanged.

    Examples
    --------
    >>> from streamcal.durable import Store
    >>> try:
    ...     Store("no/such/folder/run.db")
    ... except StoreError as error:
    ...     print(error)
    no/such/folder/run.db can't be opened: there is no such folder; make it first
    """


def is_of_system(error: BaseException) -> bool:
    """Return whether an error can be one of the system: an `OSError` of a signal handler is not.

    Examples
    --------
    >>> is_of_system(FileNotFoundError(2, "No such file")), is_of_system(TimeoutError("too late"))
    (True, False)
    """
    return not isinstance(error, OSError) or error.errno is not None


@contextlib.contextmanager
def errors_of_files(path: Path, action: str) -> Iterator[None]:
    """Turn errors of the file system and of SQLite into a `StoreError`: "can't be ``action``"."""
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's message would contain the damaged name
        raise StoreError(f"{path} is damaged or no store: {error}") from error
    except (sqlite3.Error, OSError, MemoryError, OverflowError) as error:
        if not is_of_system(error):
            raise
        # The rest of this message is the damaged text.
        if str(error).startswith("Could not decode to UTF-8"):
            raise StoreError(f"{path} is damaged: text that is no UTF-8") from error
        name = getattr(error, "sqlite_errorname", "")
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"):
            raise StoreError(f"{path} is damaged or no store: {error}") from error
        reason = getattr(error, "strerror", None) or str(error) or "not enough memory"
        name = getattr(error, "filename", None) or path
        reason += f": {name}" if str(name) != str(path) else ""
        raise StoreError(f"{path} can't be {action}: {reason}") from error


@contextlib.contextmanager
def errors_of_content(path: Path) -> Iterator[None]:
    """Turn errors of checks of the content of a file into a `StoreError`."""
    try:
        yield
    except (StoreError, MemoryError, UnicodeDecodeError):
        raise
    except BAD_VALUES as error:
        raise StoreError(f"{path} is damaged: {error}") from error


@contextlib.contextmanager
def errors_of_waiting(path: Path | None) -> Iterator[None]:
    """Turn the refusal of a sample that waited for its label into a `StoreError`.

    ``path`` is the store in which it waited; None: in none. The sample was checked when it began to
    wait, so only a file that was changed since then has one that can't be learned.
    """
    try:
        yield
    except StoreError:
        raise
    except (TypeError, ValueError) as error:
        if path is None:
            raise
        raise StoreError(
            f"{path} is damaged: a sample that waited for its label can't be learned: {error}"
        ) from error
