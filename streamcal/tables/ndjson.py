"""NDJSON: a JSON object in each line, which is written again with one field more."""

import json
import sys
from collections.abc import Iterator
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.tables.base import Chunk, Fault, Reader, TableError, Writer
from streamcal.tables.output import Output

_NO_OBJECT = "not a JSON object"


class NdjsonReader(Reader):
    """Reads NDJSON; the body of a chunk is each line up to its last brace."""

    def _read_header(self) -> None:
        """Do nothing: the first line is a row."""

    def __iter__(self) -> Iterator[Chunk]:
        row, missing = 0, set(self._columns)
        for lines in self._lines():
            rows: list[int] = []
            columns: dict[str, list[Any]]
            columns = {name: [] for name in (*self._columns, *self._optional)}
            faults: list[Fault] = []
            heads: list[bytes] = []
            for line in lines:
                content = line.strip()
                if not content:
                    continue
                row += 1
                if len(line) > self._block_bytes:
                    if rows or faults:
                        yield Chunk(np.array(rows, dtype=np.int64), columns, faults, heads)
                    raise TableError(f"row {row} is longer than {self._block_bytes:,} bytes")
                record = _load_object(content)
                if isinstance(record, _NoObject):
                    faults.append(Fault(row, record.reason, f"row {row} {record.message}"))
                elif self._new_column in record:
                    raise TableError(
                        f"row {row} already has a field `{self._new_column}`:"
                        " choose another name with --new-column"
                    )
                else:
                    missing.difference_update(record)
                    for name, values in columns.items():
                        values.append(record.get(name))
                    rows.append(row)
                    heads.append(content[:-1] + (b", " if record else b""))
            if rows or faults:
                yield Chunk(np.array(rows, dtype=np.int64), columns, faults, heads)
        if not row:
            raise TableError("is empty: there is no object in it")
        if missing:
            name = next(name for name in self._columns if name in missing)
            raise TableError(f"has no field `{name}` in any of its objects")

    def _lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of each block, at most a batch of them at a time."""
        begun: list[bytes] = []  # parts of a line that has begun
        size, is_first = 0, True
        while True:
            block = self._read_block()
            first, *rest = block.split(b"\n")
            begun.append(first)
            size += len(first)
            if not (rest or not block or size > self._block_bytes):
                continue
            lines = [b"".join(begun), *rest]
            if is_first:
                lines[0], is_first = lines[0].removeprefix(b"\xef\xbb\xbf"), False
            begun = [lines.pop()] if rest else []
            size = sum(map(len, begun))
            for start in range(0, len(lines), self._batch_size):
                yield lines[start : start + self._batch_size]
            if not block:
                return

    def writer(self, output: Output, absent: str | None = None) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``."""
        return _NdjsonWriter(self._new_column, output, absent)


class _NdjsonWriter(Writer):
    """Inserts a field before the last brace of each line; the rest of the line stays as it is."""

    def __init__(self, new_column: str | None, output: Output, absent: str | None) -> None:
        self._field = f"{json.dumps(new_column)}: "
        self._output = output
        self._absent = "nan" if absent is None else json.dumps(absent or None)

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        heads = chunk.body if keep is None else compress(chunk.body, keep)
        texts = (repr(value) if value == value else self._absent for value in values.tolist())
        tails = (f"{self._field}{text}}}\n".encode() for text in texts)
        self._output.write(b"".join(chain.from_iterable(zip(heads, tails, strict=True))))


class _NoObject(NamedTuple):
    """Why a line is not used: a reason for many lines, and the message for this one."""

    reason: str
    message: str


def _load_object(text: bytes) -> dict[str, Any] | _NoObject:
    """Return the object in a line, or the reason why there is none."""
    try:
        record = _load(text.decode())
    except UnicodeDecodeError:
        return _NoObject(_NO_OBJECT, "is not UTF-8 text")
    except json.JSONDecodeError as error:
        return _NoObject(_NO_OBJECT, f"is not JSON: {error.msg} at column {error.colno}")
    except RecursionError:
        return _NoObject("nested too deeply", "is nested too deeply to be read")
    return record if isinstance(record, dict) else _NoObject(_NO_OBJECT, "is not a JSON object")


def _load(text: str) -> Any:
    """Return the value of a JSON text; integers that Python would not convert stay text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_int=_as_int_or_text)


def _as_int_or_text(digits: str) -> int | str:
    most = sys.get_int_max_str_digits()
    return digits if most and len(digits.lstrip("-")) > most else int(digits)
