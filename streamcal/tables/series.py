"""Several tables of one form, read one after another as if they were one."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from streamcal.tables.base import Chunk, Reader, TableError, Writer
from streamcal.tables.open import open_table
from streamcal.tables.output import Output


class Series:
    r"""Tables that are read in order; a context manager, and an iterable of `Chunk`.

    The rows of a chunk have their numbers in their own table.

    Parameters
    ----------
    paths : sequence of Path
        At least one. The tables must have the same columns (NDJSON: those that are read).
    columns, new_column, format, batch_size, while_waiting
        As for `open_table`.

    Attributes
    ----------
    path : Path
        The table that is read now.
    n_before : int
        The number of rows in the tables before that.
    paths : sequence of Path

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> paths = [Path(folder.name, "a.csv"), Path(folder.name, "b.csv")]
    >>> for path in paths:
    ...     _ = path.write_text("p\n0.5\n1\n")
    >>> with Series(paths, ["p"]) as tables:
    ...     n_rows = sum(len(chunk) for chunk in tables)
    >>> n_rows, tables.n_before
    (4, 4)
    >>> folder.cleanup()
    """

    def __init__(self, paths: Sequence[Path], columns: Sequence[str], **options: Any) -> None:
        self.path = paths[0]
        self.n_before = 0
        self.paths = paths
        self._columns, self._options = columns, options
        self._reader: Reader

    def __enter__(self) -> Self:
        """Open the first table; compare the columns of all others with it before any row."""
        self._reader = open_table(self.path, self._columns, **self._options)
        try:
            for path in self.paths[1:]:
                if path.is_file():  # a pipe can be opened only once
                    self._open(path).__exit__()
        except BaseException:
            self.__exit__()
            raise
        self.path = self.paths[0]
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.__exit__(*error)

    def _open(self, path: Path) -> Reader:
        """Open one of the other tables."""
        self.path = path
        reader = open_table(path, self._columns, **self._options)
        if reader.form != self._reader.form:
            reader.__exit__()
            raise TableError(f"has other columns than {self.paths[0]}")
        return reader

    def __iter__(self) -> Iterator[Chunk]:
        for number, path in enumerate(self.paths):
            if number:
                self._reader.__exit__()
                self._reader = self._open(path)
            last = 0
            for chunk in self._reader:
                yield chunk
                last = chunk.last_row
            self.n_before += last

    @property
    def unit(self) -> str:
        """The unit of `position` and `size`."""
        return self._reader.unit

    @property
    def position(self) -> int:
        """How much of the table has been read."""
        return self._reader.position

    @property
    def size(self) -> int | None:
        """How much there is in the table; None: unknown."""
        return self._reader.size

    def writer(self, output: Output, absent: str | None = None) -> Writer:
        """Return a writer of rows of these tables, with the new column, to ``output``."""
        return self._reader.writer(output, absent)
