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
    columns, new_column, format, batch_size
        As for `open_table`.

    Attributes
    ----------
    path : Path
        The table that is read now.
    n_before : int
        The number of rows in the tables before that.

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
        self._paths = paths
        self._columns, self._options = columns, options
        self._reader: Reader | None = None
        self._pipes: dict[int, Reader] = {}  # opened, and not read yet, by the place in ``paths``

    def __enter__(self) -> Self:
        """Open the first table; compare the columns of all others with it before any row."""
        try:
            for number, path in enumerate(self._paths):
                self.path = path
                reader = open_table(path, self._columns, **self._options)
                if not number:
                    self._reader = reader
                elif reader.is_pipe:  # it can be opened only once
                    self._pipes[number] = reader
                else:
                    reader.__exit__()
                if reader.form != self._opened.form:
                    raise TableError(f"has other columns than {self._paths[0]}")
        except BaseException:
            self.__exit__()
            raise
        self.path = self._paths[0]
        return self

    def __exit__(self, *error: object) -> None:
        for reader in (self._reader, *self._pipes.values()):
            if reader is not None:
                reader.__exit__(*error)

    def __iter__(self) -> Iterator[Chunk]:
        form = self._opened.form
        for number, path in enumerate(self._paths):
            if number:
                self._opened.__exit__()
                self.path = path
                pipe = self._pipes.pop(number, None)
                self._reader = pipe or open_table(path, self._columns, **self._options)
                if self._reader.form != form:
                    raise TableError(f"has other columns than {self._paths[0]}")
            last = 0
            for chunk in self._opened:
                yield chunk
                last = chunk.last_row
            self.n_before += last

    @property
    def _opened(self) -> Reader:
        """The reader of the table that is read now."""
        assert self._reader is not None
        return self._reader

    def wait(self, seconds: float) -> bool:
        """Return whether there is more to read, or the end, after waiting for at most so long."""
        return self._opened.wait(seconds)

    @property
    def unit(self) -> str:
        """The unit of `position` and `size`."""
        return self._opened.unit

    @property
    def position(self) -> int:
        """How much of the table has been read."""
        return self._opened.position

    @property
    def size(self) -> int | None:
        """How much there is in the table; None: unknown."""
        return self._opened.size

    def writer(self, output: Output) -> Writer:
        """Return a writer of rows of these tables, with the new column, to ``output``."""
        return self._opened.writer(output)
