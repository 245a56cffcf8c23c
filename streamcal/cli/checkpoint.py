"""``streamcal calibrate --store``: a run that can be killed at any instant and continued.

After a batch the store gets, in one transaction, the calibrators, the number of the last row that
they have learned, the length of the output, a digest of its bytes, and the sums of the losses. The
output is on the disk before that. When the same command starts again, it checks that
``NAME.partial`` begins with the bytes of the digest; if not, the run is refused before any file is
changed. What follows these bytes was never committed and is cut off. The table is read from its
beginning, and the rows that are already learned are passed over. So the output is byte for byte
what one run would have written. `streamcal.cli.resumable_output` has the rules for the output.

The rows that are passed over must be the rows that were learned. So checksums of their numbers and
keys are kept, and compared before the first new row is learned.

A table may have grown between two runs. If its output was finished and is unchanged, it is copied
to ``NAME.partial``, and the run continues there; if it has changed, the run is refused. When a run
is finished, a run over another table may follow, which continues with what is learned. Several
tables count as one; more of them may be added at the end, as rows may be.

The footer of a Parquet file holds what all its rows are. So such a run commits only when it is
complete, and after a crash it begins again, with the calibrators that it began with.
"""

import os
import signal
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import Stopped
from streamcal.cli.late_labels import LateLabels, waiting_after
from streamcal.cli.resumable_output import ResumableOutput, check_free
from streamcal.cli.summary import Totals
from streamcal.durable.errors import StoreError
from streamcal.durable.keyed import KeyedCalibrator
from streamcal.durable.pace import Pace
from streamcal.durable.store import Store
from streamcal.tables.output import Output, is_standard


class NoCheckpoint:
    """The place of a `Checkpoint` in a run without ``--store``: nothing is saved."""

    store = None
    row = 0

    def __init__(self, output: Output) -> None:
        self.output = output

    def rows_to_learn(
        self, rows: NDArray[np.int64], *columns: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return that all rows are to be learned."""
        return np.ones(len(rows), np.bool_)

    def restore(self, totals: Totals, late: LateLabels) -> None:
        """Do nothing."""

    def save_if_due(
        self,
        row: int,
        keyed: KeyedCalibrator,
        progress: Callable[[], Mapping[str, Any]],
        **when: bool,
    ) -> None:
        """Do nothing."""

    def nothing_to_do(self) -> str | None:
        """Return None: there is always something to do."""
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Checkpoint:
    """The progress of a run over a table, saved in a store, and the output of the run.

    A context manager around the run: inside, SIGINT and SIGTERM end it after the current batch.

    Parameters
    ----------
    path : Path
        The store.
    tables : sequence of Path
        What is read, in order.
    out : Path
        What is written; it must be a file.
    options : mapping of str to JSON
        All options that affect the result, by name. They must not change between runs.
    resumable : bool
        Whether an incomplete output can be continued. If not, everything is committed at the end.

    Attributes
    ----------
    store : Store
    output : Output
        The output, which continues at this row.
    row : int
        The number of the last row that is learned; 0 at the start.

    Raises
    ------
    StoreError
        If the store can't be used, belongs to another run that is not finished, or was started with
        other options, or if the output is not as the store describes it. No file is changed.
    """

    def __init__(
        self,
        path: Path,
        tables: Sequence[Path],
        out: Path,
        options: Mapping[str, Any],
        *,
        resumable: bool = True,
    ) -> None:
        names = [str(path if is_standard(path) else os.path.realpath(path)) for path in tables]
        new_run: dict[str, Any] = {
            "table": names[0],
            "more_tables": names[1:],
            "out": os.path.realpath(out),
            "options": dict(options),
            "row": 0,
            "checksums": [],
            "sums": {},
            "waiting": [],
            "complete": False,
            "finished": False,
        }
        self._new_run = new_run
        self._resumable = resumable
        self.row = 0
        self._before: Mapping[str, Any] = new_run  # the notes from which it continues
        self._was_finished = False
        self._checksums = RowChecksums()
        self._learned: list[int] = []  # the checksums of the rows to skip, until compared
        self._pace = Pace()
        self._signal = 0
        if not path.exists():
            check_free(Path(f"{new_run['out']}.partial"), path)  # before a store is made
        self.store = Store(path)
        try:
            self.output = ResumableOutput(
                Path(new_run["out"]), self.store, new_run, resumable=resumable
            )
            self._start()
            self._saved_row = self.row
        except BaseException:
            self.store.close()
            raise

    # Starting ------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Find out whether this run begins or continues, and at which row."""
        path, notes = self.store.path, self.store.notes
        if not notes and not len(self.store):
            self.output.check_free()
            return
        if "table" not in notes:
            raise StoreError(f"{path} is not of a run over a table")
        check_notes(self.store)
        self.store.keys()  # or it raises: a state is missing, or is not of the last commit
        self._check_offset(notes)
        self._check_options(notes)
        same_table, same_out = self._continues(notes), notes["out"] == self._new_run["out"]
        if _is_empty(notes) and not (same_table and same_out):
            self.output.check_free()
            self._keep_waiting(notes)
        elif not same_table:
            self._end_previous(notes)
            self.output.check_free()
            self._keep_waiting(notes)
        elif not same_out:
            out = self._new_run["out"]
            raise StoreError(f"{path} belongs to the output {notes['out']}, not to {out}")
        else:
            self._was_finished = self.output.restore(notes)
            self.row, self._before, self._learned = notes["row"], notes, notes["checksums"]

    def _continues(self, notes: Mapping[str, Any]) -> bool:
        """Return whether this run is over the tables of the store, and perhaps more; or raise."""
        before, now = tables_of(notes), tables_of(self._new_run)
        if len(now) < len(before) and before[: len(now)] == now:
            raise StoreError(
                f"{self.store.path} has learned {', '.join(before)}: give all of them, or others"
            )
        return now[: len(before)] == before

    def _keep_waiting(self, notes: Mapping[str, Any]) -> None:
        """Let the rows of the run before, whose labels are not known yet, wait in this run."""
        try:
            self._new_run["waiting"] = waiting_after(notes.get("waiting", []), notes["row"])
        except (TypeError, ValueError):
            raise _damaged(self.store, "waiting", notes["waiting"]) from None

    def restore(self, totals: Totals, late: LateLabels) -> None:
        """Restore what `save_if_due` was given at the row from which the run continues.

        Raises
        ------
        StoreError
            If the store has something else.
        """
        try:
            totals.restore(self._before["sums"], self.row)
        except ValueError as error:
            raise StoreError(f"{self.store.path} is damaged: its note `sums` {error}") from None
        try:
            late.restore(self._before.get("waiting", []))
        except ValueError:
            raise _damaged(self.store, "waiting", self._before["waiting"]) from None

    def _check_offset(self, notes: Mapping[str, Any]) -> None:
        """Raise if anything but a run over a table has written to the store."""
        if notes["row"] != self.store.offset:
            raise StoreError(
                f"{self.store.path} is at offset {self.store.offset:,}, but the run over"
                f" {names_of_tables(notes)} has left it at row {notes['row']:,}: something else has"
                " written to it"
            )

    def _check_options(self, notes: Mapping[str, Any]) -> None:
        """Raise if the store was started with other options."""
        for name, value in self._new_run["options"].items():
            before = notes["options"].get(name)
            if before != value:
                raise StoreError(
                    f"{self.store.path} was started {_given(name, before)}, and this command is"
                    f" {_given(name, value)}: the calibrators depend on this option, so a run with"
                    " another value needs a --store and an --out of its own"
                )

    def _end_previous(self, notes: Mapping[str, Any]) -> None:
        """Make sure that the run over the table before has ended; raise if it can't end here."""
        path, partial = self.store.path, f"{notes['out']}.partial"
        if notes["finished"]:
            if notes.get("copying") and os.path.lexists(partial):
                raise StoreError(
                    f"{path} has started to add new rows of {names_of_tables(notes)} in"
                    f" {partial}: finish that first, or remove the file"
                )
        elif not notes.get("complete"):
            raise StoreError(
                f"{path} is at row {notes['row']:,} of {names_of_tables(notes)}: finish that first"
            )
        elif os.path.lexists(partial):
            # A process was killed before it could give the complete output its name.
            output = ResumableOutput(Path(notes["out"]), self.store, notes, resumable=True)
            output.restore(notes)
            with output:
                output.sync()

    @property
    def _is_finished(self) -> bool:
        """Whether the run was finished before, and nothing has been added to its table since."""
        return self._was_finished and not self.output.opened

    def nothing_to_do(self) -> str | None:
        """Return a message if there was nothing to do, else None."""
        if not self._is_finished:
            return None
        out = self._new_run["out"]
        notes = dict(self.store.notes)
        if notes.get("copying") and not os.path.lexists(f"{out}.partial"):
            # The unfinished copy was removed. A later file of this name is not that copy.
            del notes["copying"]
            self.store.save({}, notes=notes)
        line = (
            f"{self.store.path}: the run over {names_of_tables(notes)} is finished, at row"
            f" {self.row:,}: there is nothing to do"
        )
        if not os.path.lexists(out):
            return f"{line}; {out}, which was written then, is gone"
        return line if self.output.is_unchanged() else f"{line}; {out} has changed since then"

    # ------------------------------------------------------------------------------ continuing

    def rows_to_learn(
        self, rows: NDArray[np.int64], *columns: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Return which rows, given by number and columns of numbers, are not learned yet.

        Raises
        ------
        StoreError
            If the rows before them are not those that were learned.
        """
        new: NDArray[np.bool_] = rows > self.row
        self._checksums.add(*(column[~new] for column in columns))
        if new.any():
            self._compare()
            self._checksums.add(*(column[new] for column in columns))
        return new

    def _compare(self) -> None:
        """Raise unless the skipped rows are those that were learned."""
        if self._learned and self._checksums.sums != self._learned:
            reason = "a table may grow between runs, not change"
            if "-" in tables_of(self._new_run):
                reason = "a pipe must give all rows again, also those that are learned"
            raise StoreError(
                f"{self.store.path} has learned {self.row:,} rows, but those at the beginning of"
                f" this table are others: {reason}"
            )
        self._learned = []

    def save_if_due(
        self,
        row: int,
        keyed: KeyedCalibrator,
        progress: Callable[[], Mapping[str, Any]],
        *,
        last: bool = False,
        complete: bool = False,
    ) -> None:
        """Commit what is learned up to a row, if a commit is due or this is the ``last`` row.

        If nothing is learned since the last commit, only a ``complete`` output is committed.

        ``progress`` returns what `restore` needs, in addition to the calibrators.
        The output up to this row is on the disk before. If the output is ``complete``, it gets its
        name next.

        Raises
        ------
        Stopped
            If a signal has arrived. Everything is committed then, if the run can be continued.
        OSError, StoreError
            If it can't be written; the store is as after the last commit.
        """
        if last:
            self._compare()
        skipping = bool(self._learned) or self._is_finished
        if not (last or self.output.is_compared):
            skipping = True  # the partial file may still be that of another program
        if not complete and (row == self._saved_row or not self._resumable):
            skipping = True
        if not skipping and (last or self._signal or self._pace.is_due()):
            with self._pace:
                self._save(row, keyed, progress, complete)
        if self._signal and not complete:
            how = "continues from there" if self._resumable else "begins again"
            raise Stopped(self._signal, f"stopped after row {row:,}; the same command {how}")

    def _save(
        self,
        row: int,
        keyed: KeyedCalibrator,
        progress: Callable[[], Mapping[str, Any]],
        complete: bool,
    ) -> None:
        self.output.sync()
        notes = {
            **self._new_run,
            **self.output.notes(),
            **progress(),
            "row": row,
            "checksums": self._checksums.sums,
            "complete": complete,
        }
        self.store.save(keyed.states(), row, notes=notes)
        keyed.saved()
        self._saved_row = row

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
        signal.signal(number, self._handlers[signal.Signals(number)])  # a second one ends at once


class RowChecksums:
    """Running checksums of columns of numbers, which do not depend on how rows are chunked.

    Examples
    --------
    >>> at_once, one_by_one = RowChecksums(), RowChecksums()
    >>> at_once.add(np.arange(4.0), np.ones(4))
    >>> for i in range(4):
    ...     one_by_one.add(np.array([float(i)]), np.ones(1))
    >>> at_once.sums == one_by_one.sums
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


def is_run(store: Store) -> bool:
    """Return whether a store is of a run over a table; its notes may still be damaged."""
    return _NOTES.keys() - _NEWER_NOTES <= store.notes.keys()


def check_notes(store: Store) -> None:
    """Raise `StoreError` unless the notes of a store are those of a run over a table."""
    notes = store.notes
    for name, is_valid in _NOTES.items():
        if name not in notes and name not in _NEWER_NOTES:
            raise StoreError(f"{store.path} is damaged: its note `{name}` is missing")
        if name in notes and not is_valid(notes[name]):
            raise _damaged(store, name, notes[name])


def _damaged(store: Store, name: str, value: Any) -> StoreError:
    return StoreError(f"{store.path} is damaged: its note `{name}` is {value!r}")


def tables_of(notes: Mapping[str, Any]) -> list[str]:
    """Return the names of the tables of a run, from its notes."""
    return [notes["table"], *notes.get("more_tables", [])]


def names_of_tables(notes: Mapping[str, Any]) -> str:
    """Return the names of the tables of a run, for a message."""
    names = tables_of(notes)
    return ", ".join("standard input" if is_standard(Path(name)) else name for name in names)


def _given(name: str, value: Any) -> str:
    if value is None:
        return f"without {name}"
    each = value if isinstance(value, list) else [value]
    return "with " + " ".join(f"{name} {one}" for one in each)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


# What the store keeps of a run.
_NOTES: dict[str, Callable[[Any], bool]] = {
    "table": lambda value: isinstance(value, str),  # the first
    "more_tables": lambda value: (
        isinstance(value, list) and all(isinstance(name, str) for name in value)
    ),
    "out": lambda value: isinstance(value, str),
    "options": lambda value: isinstance(value, dict),
    "row": _is_count,  # the last row that is learned
    # of the numbers and keys of the rows learned
    "checksums": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "sums": lambda value: isinstance(value, dict),
    "waiting": lambda value: isinstance(value, list),  # rows whose labels are not known yet
    "finished": lambda value: isinstance(value, bool),  # whether the output has its name
    "length": _is_count,  # of the output
    "digest": lambda value: isinstance(value, str),  # of the output
    "replaces": lambda value: value is None or isinstance(value, str),  # the older file's digest
    "complete": lambda value: isinstance(value, bool),  # whether all rows are written
    "copying": lambda value: isinstance(value, bool),  # whether a finished output is being copied
}
_NEWER_NOTES = (
    *("digest", "replaces", "complete", "copying"),
    *("more_tables", "waiting"),
)  # older stores lack them


def _is_empty(notes: Mapping[str, Any]) -> bool:
    """Whether a run has started, but has neither committed anything nor written a file."""
    return not (
        notes["finished"]
        or notes.get("complete")
        or notes["row"]
        or notes["length"]
        or os.path.lexists(f"{notes['out']}.partial")
    )
