"""What the tables of a store hold: the head, a row for each key, and the digests of both."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from streamcal._state import DIGEST, as_int, check
from streamcal._validation import MOST_COUNT
from streamcal.kernels.sqlite import Connection

JOURNAL = "journal:"
"""What the names of journals begin with, see `streamcal.durable._journal`; a number follows."""


class Head(NamedTuple):
    """The content of a store except the states, and a summary of them that `Store.save` updates.

    Attributes
    ----------
    offset : int
        How many samples of the stream are learned.
    notes : dict
        The notes given to `Store.save`.
    n_states : int
        How many states there are, journals included.
    n_journals : int
        How many of them are journals, see `streamcal.durable._journal`.
    n_saves : int
        How many saves there have been. Each row has the number of the save that wrote it.
    combined : int
        The exclusive or of the shares of all rows, see `share_of`.
    digest : bytes
        The digest of the text in the file.
    """

    offset: int = 0
    notes: Any = {}  # noqa: RUF012  (it is never changed)
    n_states: int = 0
    n_journals: int = 0
    n_saves: int = 0
    combined: int = 0
    digest: bytes = b""

    @classmethod
    def decode(cls, text: str, digest: bytes) -> "Head":
        """Return the head from its row; ``ValueError`` and others if it is damaged."""
        if hash_of(text.encode()) != digest:
            raise ValueError("its head does not fit its digest")
        fields = json.loads(text)
        offset, n_states = (as_int(fields[name], name) for name in ("offset", "n_states"))
        n_journals = as_int(fields["n_journals"], "n_journals", most=n_states)
        n_saves = as_int(fields["n_saves"], "n_saves", most=MOST_COUNT - 1)  # one more may follow
        notes, combined = dict(fields["notes"]), int(fields["combined"], 16)
        return cls(offset, notes, n_states, n_journals, n_saves, combined, digest)

    def encode(self) -> tuple[str, bytes]:
        """Return the row: the text, and its digest."""
        fields = {**self._asdict(), "combined": f"{self.combined:x}"}
        del fields["digest"]
        text = json.dumps(fields)
        return text, hash_of(text.encode())

    def compare(self, n_states: int, combined: int | None = None) -> None:
        """Raise unless the states in the file are those of the summary."""
        if n_states != self.n_states or combined not in (None, self.combined):
            raise ValueError(
                f"its states are not those of the last save ({n_states} of {self.n_states})"
            )


def hash_of(data: bytes) -> bytes:
    """Return a digest of bytes."""
    return hashlib.blake2b(data, digest_size=DIGEST).digest()


def digest_of(key: str, n_saves: int, state: bytes) -> bytes:
    """Return the digest of a row: of its key, its save and the checksum at the end of its state."""
    return hash_of(f"{n_saves}\0{key}\0".encode() + state[-DIGEST:])


def share_of(key: str, digest: bytes) -> int:
    """Return what a row adds to the combined digest; 0 for an empty digest: no row.

    It includes the key again, so that keys can be checked without reading the states.
    """
    return int.from_bytes(hash_of(key.encode() + digest), "little") if digest else 0


def check_row(head: Head, key: str, digest: bytes, n_saves: int, state: bytes) -> None:
    """Raise unless a row holds this key, and a state that is not newer than the head."""
    check(state)
    if digest_of(key, n_saves, state) != digest:
        raise ValueError(f"the state of {key!r} does not fit its digest")
    if n_saves > head.n_saves:
        raise ValueError(f"the state of {key!r} is newer than the head")


def has_head(database: Connection, head: Head) -> bool:
    """Return whether this is the head of the file."""
    return database.execute("SELECT digest FROM head").fetchall() == [(head.digest,)]


def read_head(database: Connection, known: Head) -> Head:
    """Return the head of the file; it is decoded only if it is not the one that is known."""
    if has_head(database, known):
        return known
    ((text, digest),) = database.execute("SELECT text, digest FROM head").fetchall()
    return Head.decode(text, digest)


def find_row(database: Connection, key: object, columns: str) -> Any:
    """Return the digest and other columns of the row of a key; None if there is none."""
    if not isinstance(key, str):  # SQLite would find "3" for 3
        return None
    query = f"SELECT digest, {columns} FROM states WHERE key = ?"
    try:
        rows = database.execute(query, (key,)).fetchall()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    if len(rows) > 1 or not all(isinstance(row[0], bytes) for row in rows):
        raise ValueError(f"the row of {key!r} has no digest, or there are two")
    return rows[0] if rows else None


def all_rows(database: Connection, head: Head, columns: str) -> Iterator[Any]:
    """Iterate over all rows; raise at the end unless they are those of the head's summary.

    The first two of ``columns`` must be ``key, digest``.
    """
    n_states = combined = 0
    for row in database.execute(f"SELECT {columns} FROM states"):
        if type(row[0]) is not str:
            raise ValueError(f"a key is {row[0]!r}")
        n_states += 1
        combined ^= share_of(*row[:2])
        yield row
    head.compare(n_states, combined)


def checked_rows(database: Connection, head: Head) -> Iterator[tuple[str, int, bytes]]:
    """Iterate over all keys with the saves that wrote their states, and the states, checked."""
    for key, digest, n_saves, state in all_rows(database, head, "key, digest, n_saves, data"):
        check_row(head, key, digest, n_saves, state)
        yield key, n_saves, bytes(state)


def prepare_rows(
    database: Connection, head: Head, changes: Mapping[str, bytes | None]
) -> tuple[Head, list[Any]]:
    """Return the head with the summary after changes, and the rows for `write_rows`.

    ``changes`` are states by key, None to remove one.
    """
    n_states, n_journals, combined, rows = head.n_states, head.n_journals, head.combined, []
    for key, data in changes.items():
        old, place = find_row(database, key, "place") or (b"", None)
        digest = b"" if data is None else digest_of(key, head.n_saves, data)
        combined ^= share_of(key, old) ^ share_of(key, digest)
        more = (data is not None) - (place is not None)
        n_states += more
        n_journals += more if key.startswith(JOURNAL) else 0
        rows.append((place, key, digest, head.n_saves, data))  # no place: a new one
    return head._replace(n_states=n_states, n_journals=n_journals, combined=combined), rows


def write_rows(database: Connection, rows: list[Any]) -> None:
    """Write rows that have a state, and delete the others."""
    database.executemany(
        "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?)",
        [row for row in rows if row[-1] is not None],
    )
    database.executemany(
        "DELETE FROM states WHERE place = ?", [row[:1] for row in rows if row[-1] is None]
    )
