"""The file that a table is written to: it gets its name when it is complete."""

import contextlib
import errno
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO

from streamcal.durable.files import sync


class Output:
    r"""A file that gets its name when it is complete.

    Inside the ``with`` block data is written to ``NAME.partial``. At the end of the block that file
    is renamed to ``NAME``; data and name are then on the disk. If an exception leaves the block,
    ``NAME.partial`` stays and ends with the last write that succeeded, and an older ``NAME`` is
    unchanged; if nothing was written, nothing stays. A ``NAME.partial`` that exists already may
    belong to another run and stays: the new file is then ``NAME.partial2``, or has the next free
    number. Standard output (``-``), pipes and devices are written to directly.

    Parameters
    ----------
    path : Path
        The name. A link stays a link: its target is replaced or created.

    Attributes
    ----------
    partial : Path or None
        The name of the incomplete file, final from the start of the block; None if data is written
        directly.
    begun : bool
        Whether there is output that is not complete: the block is running, or has failed after
        something was written.

    Raises
    ------
    OSError
        If the name is a link to itself, or can't be examined.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "out.csv")
    >>> with Output(path) as output:
    ...     output.write(b"p\n0.5\n")
    ...     path.exists(), output.partial.name
    6
    (False, 'out.csv.partial')
    >>> path.stat().st_size
    6
    >>> folder.cleanup()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.partial: Path | None = None
        self.begun = False
        self._file: BinaryIO
        self._size = 0
        if not is_standard(path) and (path.is_file() or not path.exists()):
            self._target = Path(os.path.realpath(path)) if path.is_symlink() else path
            if self._target.is_symlink():
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            self.partial = self._target.with_name(self._target.name + ".partial")

    def __enter__(self) -> Self:
        if is_standard(self.path):
            self._file = standard_output()
        elif self.partial is None:
            self._file = open(self.path, "wb", buffering=0)
        else:
            first = self.partial
            for number in count(2):
                with contextlib.suppress(FileExistsError):
                    self._file = self._create(self.partial)
                    break
                self.partial = first.with_name(f"{first.name}{number}")
        self.begun = True
        return self

    def _create(self, partial: Path) -> BinaryIO:
        """Create a file, and wait until its name is on the disk."""
        file = open(partial, "xb", buffering=0)  # noqa: SIM115  (stays open)
        sync(partial.parent)
        return file

    def sync(self) -> None:
        """Wait until everything written is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def write(self, data: Any) -> int:
        """Write all of ``data``, bytes or an array of them."""
        rest = memoryview(data)
        size = rest.nbytes
        while rest.nbytes:
            rest = rest[self._file.write(rest) :]
        self._size += size
        if is_standard(self.path):
            self._file.flush()  # who reads a pipe waits for these rows
        return size

    def flush(self) -> None:
        """Pass everything written on to the operating system."""
        self._file.flush()

    def tell(self) -> int:
        """Return how many bytes have been written."""
        return self._size

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file.closed

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if is_standard(self.path):
            if kind is not BrokenPipeError:
                self._file.flush()
            self.begun = error is not None and self._size > 0
            return
        with self._file as file:
            if self.partial is not None and error is None:
                os.fsync(file.fileno())
            elif self.partial is not None:
                # On a full disk half of the last write may have succeeded.
                file.truncate(self._size)
        if self.partial is not None and error is None:
            self._rename(self.partial)
        elif self.partial is not None and not self._size:
            self.partial.unlink(missing_ok=True)  # nothing is in it
        self.begun = error is not None and self._size > 0

    def _rename(self, partial: Path) -> None:
        """Give the complete file its name, and wait until that is on the disk."""
        partial.replace(self._target)
        sync(self._target.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write a page or a picture, which gets its name when it is complete.

    If that fails, nothing of it stays, and an older file of this name is unchanged.

    Raises
    ------
    OSError
        If it can't be written; the error has the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "page.html")
    ...     write_file(path, b"<p>")
    ...     path.read_bytes()
    b'<p>'
    """
    output = Output(path)
    try:
        with output:
            output.write(data)
    except BaseException as error:
        if output.begun and output.partial is not None:
            output.partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def is_standard(path: Path | None) -> bool:
    """Return whether a path stands for standard input or output.

    Examples
    --------
    >>> is_standard(Path("-")), is_standard(Path("p.csv")), is_standard(None)
    (True, False, False)
    """
    return path is not None and str(path) == "-"


def standard_output() -> BinaryIO:
    """Return standard output as a stream of bytes.

    Raises
    ------
    OSError
        If the process was started with it closed.

    Examples
    --------
    >>> with open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
    ...     n = standard_output().write(b"0.5")
    >>> n
    3
    """
    return _binary(sys.stdout, "standard output")


def standard_input() -> BinaryIO:
    """Return standard input as a stream of bytes; raise `OSError` if it is closed."""
    return _binary(sys.stdin, "standard input")


def _binary(stream: TextIO | None, name: str) -> BinaryIO:
    if stream is None:
        raise OSError(errno.EBADF, "it is closed", name)
    return stream.buffer
