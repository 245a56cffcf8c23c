"""Output for users: messages, errors with their exit status, and the progress bar."""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from streamcal.tables.base import Reader
    from streamcal.tables.output import Output
    from streamcal.tables.series import Series


class Stopped(Exception):  # noqa: N818  (not an error)
    """A signal has ended the run; the message says how it continues."""

    def __init__(self, signal_number: int, message: str) -> None:
        super().__init__(message)
        self.status = 128 + signal_number


def say(line: str) -> None:
    """Print a line on standard error."""
    typer.echo(line, err=True)


def failure(message: str, status: int) -> typer.Exit:
    """Print an error and return the exception that ends the command with this status."""
    say(f"streamcal: {message}")
    return typer.Exit(status)


def ended_early(error: EOFError) -> str:
    """Return which file ended too early; where that is unknown, which line of code has read it.

    Examples
    --------
    >>> import io, pickle
    >>> try:
    ...     pickle.load(io.BytesIO())
    ... except EOFError as error:
    ...     print(ended_early(error).partition(" line ")[0])
    Ran out of input (EOFError in <doctest streamcal.cli.console.ended_early[1]>,
    """
    where = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        # CPython's loader of modules reads byte code here.
        if code.co_name == "get_code" and "importlib" in code.co_filename:
            path = frame.f_locals.get("bytecode_path")
            return f"{path}: the byte code of a module is cut off ({error}); delete this file"
        where = f"{code.co_filename}, line {line}"
    return f"{str(error) or 'a file ended too early'} (EOFError in {where})"


def count_rows(n: int, noun: str = "row") -> str:
    """Return a number of rows in words.

    Examples
    --------
    >>> count_rows(1), count_rows(2_000), count_rows(2, "answer")
    ('1 row', '2,000 rows', '2 answers')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def name_option(message: str) -> str:
    """Return a message of the library with the option in the place of the argument.

    Examples
    --------
    >>> name_option("`n_labels` must be an int from 2 to 32767, got 1")
    '`--n-labels` must be an int from 2 to 32767, got 1'
    """
    return re.sub("^`([a-z_]+)`", lambda found: f"`--{found[1].replace('_', '-')}`", message)


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a wrong option or a wrong file name into one line and status 2."""
    try:
        yield
    except ValueError as error:
        raise failure(name_option(str(error)), 2) from None
    except OSError as error:
        raise failure(f"{error.filename}: {error.strerror}", 2) from None


@contextlib.contextmanager
def data_errors(
    table: Path | Callable[[], Path],
    output: "Output | None" = None,
    n_written: Callable[[], int] = int,
) -> Iterator[None]:
    """Turn an error in data or on disk, or an interrupt, into one line and status 1 (or 130).

    The line also has the name of an incomplete output, and its number of rows. If there are several
    tables, ``table`` returns the one that is read.
    """
    from streamcal.durable.errors import StoreError
    from streamcal.tables.base import TableError
    from streamcal.tables.output import is_standard

    try:
        yield
    except TableError as error:
        path = table() if callable(table) else table
        name = "standard input" if is_standard(path) else str(path)
        raise failure(f"{name}: {error}{_incomplete(output, n_written)}", 1) from None
    except StoreError as error:
        raise failure(f"{error}{_incomplete(output, n_written)}", 1) from None
    except BrokenPipeError:
        # The reader of standard output has closed it; nothing may be flushed to it at exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = f"{where}{error.strerror or error}"
        raise failure(f"{reason}{_incomplete(output, n_written)}", 1) from None
    except Stopped as error:
        raise failure(f"{error}{_incomplete(output, n_written)}", error.status) from None
    except KeyboardInterrupt:
        raise failure(f"interrupted{_incomplete(output, n_written)}", 130) from None


def _incomplete(output: "Output | None", n_written: Callable[[], int]) -> str:
    """Return what to add to an error where the output is incomplete."""
    if output is None or not output.begun:
        return ""
    rows = count_rows(n_written())
    if output.partial is None:
        return f"; the output is incomplete, it has {rows}"
    if not os.path.lexists(output.partial):
        return ""
    return f"; the incomplete output, {rows}, is in {output.partial}"


@contextlib.contextmanager
def progress(
    source: "Reader | Series", doing: str, *, hidden: bool = False
) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal; yields the function that updates it."""
    if hidden or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    amount = DownloadColumn() if source.unit == "bytes" else MofNCompleteColumn()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        amount,
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(doing, total=source.size)
        yield lambda: bar.update(task, completed=source.position, total=source.size)
