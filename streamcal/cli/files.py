"""Checks of the names of files, before a command begins to work."""

import os
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamcal.tables.output import Output

# gzip, zip (and so .xlsx), Zstandard, xz, bzip2
_COMPRESSED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh")
_DRAWABLE = (".png", ".pdf", ".svg")


def check_exists(*tables: Path) -> None:
    """Raise ``ValueError`` unless these are the names of files."""
    from streamcal.tables.output import is_standard

    for table in tables:
        if is_standard(table):
            continue
        if table.is_dir():
            raise ValueError(f"{table} is a folder, not a file")
        if not table.exists():
            raise ValueError(f"there is no file {table}")
        check_not_compressed(table)


def check_not_compressed(table: Path) -> None:
    """Raise ``ValueError`` if a file begins as a compressed one does."""
    from streamcal.durable.files import beginning_of
    from streamcal.tables.open import about_compressed

    if table.is_file() and os.access(table, os.R_OK):
        head = beginning_of(table)
        if any(head.startswith(beginning) for beginning in _COMPRESSED):
            raise ValueError(f"{table} is compressed: {about_compressed(table)}")


def check_can_be_read_again(path: Path) -> None:
    """Raise ``ValueError`` if this is the name of a pipe or a device: opening one may wait."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is no file on a disk: it can be read only once")


def check_drawable(path: Path) -> None:
    """Raise ``ValueError`` unless a picture can be written there, before hours of work."""
    if path.suffix.lower() not in _DRAWABLE:
        raise ValueError(f"a picture must end in {', '.join(_DRAWABLE)}, got {path}")
    check_target(path)


def check_target(path: Path) -> None:
    """Raise ``ValueError`` unless the folder of a file exists, and the file is of no store."""
    from streamcal.durable.files import is_store, store_beside

    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} for {path.name}")
    if is_store(path):
        raise ValueError(
            f"{path} is a database, such as a store: choose another name, or remove it"
        )
    if (store := store_beside(path)) is not None:
        raise ValueError(f"{path} has a name of a file of the store {store}: choose another name")


def check_files(
    *tables: Path,
    output: "Output | None" = None,
    picture: Path | None = None,
    store: Path | None = None,
) -> None:
    """Raise ``ValueError`` unless the tables exist, and the other files can be made beside them.

    No file may be written in the place of another. The output may replace a table itself, unless
    there is a store: such a run may have to read the table again.
    """
    check_exists(*tables)
    from streamcal.durable.files import files_of_store
    from streamcal.tables.output import is_standard

    files = {"the table": [table for table in tables if not is_standard(table)]}
    if store is not None:
        files["--store"] = files_of_store(store)
    if picture is not None:
        files["the picture"] = [picture]
    if output is not None:
        files["--out"] = files_of_output(output)
    for (role, paths), (other_role, others) in combinations(files.items(), 2):
        for path, other in product(paths, others):
            if store is None and role == "the table" and output and other == output.path:
                continue
            if is_same_file(path, other):
                raise ValueError(
                    f"{other_role} ({other}) must be another file than {role} ({path})"
                )
    if output is not None:
        check_target(output.path)
    if picture is not None:
        check_drawable(picture)


def files_of_output(output: "Output") -> list[Path]:
    """Return the final and the temporary name of an output."""
    return [output.path] if output.partial is None else [output.path, output.partial]


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two names are those of the same file, which need not exist.

    Examples
    --------
    >>> is_same_file(Path("new.csv"), Path("folder/../NEW.csv"))
    True
    """
    one, other = (Path(os.path.realpath(path)) for path in (one, other))
    if os.path.exists(one) or os.path.exists(other):
        return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)
    # The file system may ignore case.
    return str(one).casefold() == str(other).casefold()
