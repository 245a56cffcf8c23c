"""Which format a table has, and the reader for it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from streamcal.tables.base import Reader
from streamcal.tables.csv import CsvReader
from streamcal.tables.ndjson import NdjsonReader
from streamcal.tables.output import is_standard
from streamcal.tables.parquet import ParquetReader

FORMATS = ("csv", "ndjson", "parquet")

_ENDINGS = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(*paths: Path | None, given: str | None = None) -> str:
    """Return the format of a table: ``given``, else by the ending of a name, else CSV.

    ``-``, None and names with other endings are ignored if another name has a known ending.

    Raises
    ------
    ValueError
        If no name has a known ending, or two names have endings of different formats.

    Examples
    --------
    >>> format_of(Path("-"), Path("scores.jsonl"))
    'ndjson'
    """
    if given is not None and given not in FORMATS:
        raise ValueError(f"the format must be one of {', '.join(FORMATS)}, got {given!r}")
    found = given
    named = [path for path in paths if path is not None and not is_standard(path)]
    for path in named:
        by_ending = _ENDINGS.get(path.suffix.lower())
        if by_ending and found and by_ending != found:
            raise ValueError(
                f"{path} is {by_ending} by its name, but {found} is wanted: the format stays the"
                " same from input to output"
            )
        found = found or by_ending
    if found is None and named:
        raise ValueError(
            f"`format` must be given for {named[0]}, which does not end in {', '.join(_ENDINGS)}"
            f"{_about_ending(named[0])}"
        )
    return found or "csv"


_CAT = {".gz": "zcat", ".bz2": "bzcat", ".xz": "xzcat", ".zst": "zstdcat", ".zip": "unzip -p"}


def about_compressed(path: Path) -> str:
    """Return how to read a compressed table, or a sheet of a spreadsheet, which is compressed.

    Examples
    --------
    >>> about_compressed(Path("s.csv.gz"))
    'decompress it first, or use a pipe, as in `zcat s.csv.gz | streamcal calibrate - …`'
    >>> about_compressed(Path("s.xlsx"))
    'save the sheet as CSV'
    """
    if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
        return "save the sheet as CSV"
    cat = _CAT.get(path.suffix.lower(), "zcat")
    return (
        f"decompress it first, or use a pipe, as in `{cat} {path.name} | streamcal calibrate - …`"
    )


def _about_ending(path: Path) -> str:
    """Return what to do about the ending of a name that other programs give a table."""
    ending = path.suffix.lower()
    if ending in (*_CAT, ".xlsx", ".xls", ".ods"):
        return f"; {about_compressed(path)}"
    if ending in (".tsv", ".txt", ".tab", ".dat"):
        return "; --format csv also reads tabs and semicolons"
    return "; --format ndjson reads one object a line" if ending == ".json" else ""


def open_table(
    path: Path,
    columns: Sequence[str],
    *,
    new_column: str | None = None,
    format: str | None = None,
    batch_size: int = 65_536,
    while_waiting: Callable[[], None] | None = None,
    optional: Sequence[str] = (),
) -> Reader:
    r"""Open a table for reading; a context manager and an iterable of `Chunk`.

    Parameters
    ----------
    path : Path
        A file, or ``-`` for standard input.
    columns : sequence of str
        The columns to read. They must exist; in NDJSON, each in at least one object.
    new_column : str or None
        The name of the column that a writer will add. The table must not have it.
    format : {"csv", "ndjson", "parquet"} or None
        None: by the ending of the name, and CSV for standard input.
    batch_size : int
        The most rows in a chunk.
    while_waiting : callable, optional
        Called several times in a second while a pipe is silent, also within a row or the line of
        column names. What it raises is raised here, or by the iteration.
    optional : sequence of str
        Other columns, which are read if they exist; in NDJSON, all values may be None.

    Raises
    ------
    TableError
        If the table is empty, lacks a column, has ``new_column`` or two columns of one name, or is
        not of that format. Raised here, or by the iteration that finds it.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "p.csv")
    >>> n = path.write_text("id,p\na,0.5\nb,1\n")
    >>> with open_table(path, ["p"]) as table:
    ...     [chunk.columns["p"].to_pylist() for chunk in table]
    [['0.5', '1']]
    >>> folder.cleanup()
    """
    readers: dict[str, type[Reader]]
    readers = {"csv": CsvReader, "ndjson": NdjsonReader, "parquet": ParquetReader}
    reader = readers[format_of(path, given=format)]
    names = list(dict.fromkeys(columns))
    others = [name for name in optional if name not in names]
    return reader(path, names, new_column, batch_size, while_waiting, others)
