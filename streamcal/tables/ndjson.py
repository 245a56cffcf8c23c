"""NDJSON: a JSON object in each line, which is written again with one field more."""

import json
from collections.abc import Iterator
from itertools import chain, compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.tables.base import Chunk, Fault, Reader, TableError, Writer
from streamcal.tables.output import Output


class NdjsonReader(Reader):
    """Reads NDJSON; the body of a chunk is each line up to its last brace."""

    def _read_header(self) -> None:
        self._first = self._read_line("the first line").removeprefix(b"\xef\xbb\xbf")

    def __iter__(self) -> Iterator[Chunk]:
        line, row, missing = self._first, 0, set(self._columns)
        while line:
            rows: list[int] = []
            columns: dict[str, list[Any]] = {name: [] for name in self._columns}
            faults: list[Fault] = []
            heads: list[bytes] = []
            stop = self.position + self._block_bytes
            while line and len(rows) + len(faults) < self._batch_size and self.position < stop:
                content = line.strip()
                if content:
                    row += 1
                    record = _load_object(content)
                    if isinstance(record, str):
                        faults.append(Fault(row, "not a JSON object", f"row {row} {record}"))
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
                line = self._read_line(f"row {row + 1}")
            if rows or faults:
                yield Chunk(np.array(rows, dtype=np.int64), columns, faults, heads)
        if not row:
            raise TableError("is empty: there is no object in it")
        if missing:
            name = next(name for name in self._columns if name in missing)
            raise TableError(f"has no field `{name}` in any of its objects")

    def writer(self, output: Output) -> Writer:
        """Return a writer of rows of this table, with the new column, to ``output``."""
        return _NdjsonWriter(self._new_column, output)


class _NdjsonWriter(Writer):
    """Inserts a field before the last brace of each line; the rest of the line stays as it is."""

    def __init__(self, new_column: str | None, output: Output) -> None:
        self._field = f"{json.dumps(new_column)}: "
        self._output = output

    def write(
        self, chunk: Chunk, values: NDArray[np.float64], keep: NDArray[np.bool_] | None = None
    ) -> None:
        heads = chunk.body if keep is None else compress(chunk.body, keep)
        tails = (f"{self._field}{value!r}}}\n".encode() for value in values.tolist())
        self._output.write(b"".join(chain.from_iterable(zip(heads, tails, strict=True))))


def _load_object(text: bytes) -> dict[str, Any] | str:
    """Return the object in a line, or the reason why there is none."""
    try:
        record = json.loads(text.decode())
    except UnicodeDecodeError:
        return "is not UTF-8 text"
    except json.JSONDecodeError as error:
        return f"is not JSON: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError) as error:
        return f"is not JSON: {error}"
    return record if isinstance(record, dict) else "is not a JSON object"
