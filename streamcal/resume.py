"""How ``streamcal calibrate --state`` is killed at any instant and goes on as if nothing had been.

After a batch the store gets, in one transaction, the calibrators, how far the table has been read,
how long the output is by then, and the sums of the losses. The output is on the disk before that.
A run that starts again cuts the output back to that length, reads the table from its beginning,
passes over the rows that are learned, and goes on. So the output is byte for byte what one run
would have written.

The rows passed over must be the rows that were learned: checksums of their numbers and keys are
kept, and compared before the first new row is learned. A table may have grown in the meantime. When
a run has come to its end, another table may follow: its rows go on from what has been learned.
"""

import contextlib
import signal
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.engine import Pace
from streamcal.keyed import KeyedCalibrator
from streamcal.store import Stopped, Store, StoreError
from streamcal.tables import Output, is_standard


class Seal:
    """A running checksum of the numbers of rows, however they are cut into chunks.

    Examples
    --------
    >>> whole, parts = Seal(), Seal()
    >>> whole.add(np.arange(4.0), np.ones(4))
    >>> for i in range(4):
    ...     parts.add(np.array([float(i)]), np.ones(1))
    >>> whole.sums == parts.sums
    True
    """

    def __init__(self) -> None:
        self.sums: list[int] = []

    def add(self, *columns: NDArray[np.float64]) -> None:
        """Add rows, given by their columns."""
        self.sums = self.sums or [0] * len(columns)
        self.sums = [
            zlib.crc32(np.ascontiguousarray(column).tobytes(), total)
            for column, total in zip(columns, self.sums, strict=True)
        ]


class Checkpoint:
    """Where a run over a table stands, in a store, and the output that belongs to it.

    A context manager around the run: inside, SIGINT and SIGTERM end it after the batch at hand.

    Parameters
    ----------
    path : Path
        The store.
    table, out : Path
        What is read and what is written; ``out`` must be a file.
    options : mapping of str to JSON
        What the result depends on, by the name of the option. It must not change between runs.

    Attributes
    ----------
    store : Store
    row : int
        The number of the last row that is learned; 0 at the start.
    sums : dict
        What `reached` was given at that row.

    Raises
    ------
    StoreError
        If the store can't be used, belongs to another run that has not come to its end, or was
        begun with other options.
    """

    def __init__(self, path: Path, table: Path, out: Path, options: Mapping[str, Any]) -> None:
        self._table = str(table if is_standard(table) else table.resolve())
        self._out = str(out.resolve())
        self._options = dict(options)
        self.row, self._length = 0, 0
        self.sums: dict[str, Any] = {}
        self._seal = Seal()
        self._learned: list[int] = []  # the seal of the rows to pass over, until it is compared
        self._pace = Pace()
        self._signal = 0
        self.store = Store(path)
        try:
            self._take_over()
        except BaseException:
            self.store.close()
            raise

    def _take_over(self) -> None:
        """Read where the run stands."""
        path, notes = self.store.path, self.store.notes
        if not notes and not len(self.store):
            return
        if "table" not in notes:
            raise StoreError(f"{path} is not of a run over a table")
        for name, value in self._options.items():
            before = notes["options"].get(name)
            if before != value:
                raise StoreError(
                    f"{path} was begun with {name} {before!r}, not {value!r}:"
                    " what it has learned depends on that"
                )
        if notes["table"] != self._table:
            if not notes["finished"]:
                raise StoreError(
                    f"{path} is at row {notes['row']:,} of {notes['table']}: finish that first"
                )
            # A process killed at the very end may have left it to us to give the output its name.
            output = Output(Path(notes["out"]), notes["length"])
            with contextlib.suppress(OSError), output:
                pass
            return
        if notes["out"] != self._out:
            raise StoreError(f"{path} belongs to the output {notes['out']}, not to {self._out}")
        self.row, self._length, self.sums = notes["row"], notes["length"], notes["sums"]
        self._learned = notes["seal"]

    def output(self) -> Output:
        """Return the output, which opens cut back to where the run stands."""
        return Output(Path(self._out), self._length)

    def new(self, rows: NDArray[np.int64], *columns: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which rows, given by number and columns of numbers, are not learned yet.

        Raises
        ------
        StoreError
            If the rows before them are not those that were learned.
        """
        fresh: NDArray[np.bool_] = rows > self.row
        self._seal.add(*(column[~fresh] for column in columns))
        if fresh.any():
            self._compare()
            self._seal.add(*(column[fresh] for column in columns))
        return fresh

    def _compare(self) -> None:
        """Raise unless the rows passed over are those that were learned."""
        if self._learned and self._seal.sums != self._learned:
            raise StoreError(
                f"{self.store.path} has learned {self.row:,} rows, but those at the beginning of"
                " this table are others: a table may grow between runs, not change"
            )
        self._learned = []

    def reached(
        self,
        row: int,
        keyed: KeyedCalibrator,
        output: Output,
        sums: Mapping[str, Any],
        *,
        last: bool = False,
        finished: bool = False,
    ) -> None:
        """Commit what is learned up to a row, if it is time to or this is the ``last``.

        The output up to there is on the disk before.

        Raises
        ------
        Stopped
            If a signal has come; everything is committed then.
        OSError, StoreError
            If it can't be written; the store is as after the last commit.
        """
        if last:
            self._compare()
        passing_over = bool(self._learned)
        if not passing_over and (last or self._signal or self._pace.is_due()):
            with self._pace:
                output.sync()
                notes = {
                    "table": self._table,
                    "out": self._out,
                    "options": self._options,
                    "row": row,
                    "length": output.tell(),
                    "seal": self._seal.sums,
                    "sums": dict(sums),
                    "finished": finished,
                }
                self.store.save(keyed.states(), row, notes=notes)
                keyed.saved()
        if self._signal and not finished:
            raise Stopped(self._signal, row)

    def __enter__(self) -> Self:
        self._handlers = {
            number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self.store.close()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
        signal.signal(number, self._handlers[signal.Signals(number)])  # a second one does not wait
