"""``streamcal calibrate --store``: a run that can be killed at any instant and continued.

After a batch the store gets, in one transaction, the calibrators, the number of the last row that
they have learned, the length of the output, a digest of its bytes, and the sums of the losses. The
output is on the disk before that. When the same command starts again, it checks that
``NAME.partial`` begins with the bytes of the digest; if not, the run is refused before any file is
changed. What follows these bytes was never committed and is cut off. The table is read from its
beginning, and the rows that are already learned are passed over. So the output is byte for byte
what one run would have written. `streamcal.cli.resumable_output` has the rules for the output.

The rows that are passed over must be the rows that were learned. So checksums of their numbers and
keys are kept, and compared before the first new row is learned. The store's offset goes on from one
table to the next.

A table may have grown between two runs. If its output was finished and is unchanged, it is copied
to ``NAME.partial``, and the run continues there; if it has changed, the run is refused. When a run
is finished, a run over another table may follow, which continues with what is learned. Several
tables count as one; more of them may be added at the end, as rows may be.

The footer of a Parquet file holds what all its rows are. So such a run commits only when it is
complete, and after a crash it begins again, with the calibrators that it began with.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from streamcal.cli.console import Stopped
from streamcal.cli.resumable_output import FORMAT, ResumableOutput, RunNotes, check_free
from streamcal.cli.table_sink import TableSink
from streamcal.durable.errors import StoreError
from streamcal.durable.store import Store
from streamcal.tables.output import is_standard

if TYPE_CHECKING:
    from streamcal.cli.sample import UniformSample
    from streamcal.cli.summary import Totals
    from streamcal.cli.table_source import TableSource
    from streamcal.tables.base import Writer


class StoredRun:
    """A run over tables whose progress is saved in a store: where it begins, and its output.

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
    before : int
        The offset of the store before the first row.
    row : int
        The number of the last row that is learned; 0 at the start.
    checksums : sequence of int
        Those of the rows that are learned.

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
        self.resumable = resumable
        self.row = 0
        self.checksums: Sequence[int] = ()
        self._was_finished = False
        self._signal = 0
        real_out = Path(os.path.realpath(out))
        if not path.exists():
            check_free(
                real_out.with_name(f"{real_out.name}.partial"), path
            )  # before a store is made
        self.store = Store(path)
        try:
            self.notes = RunNotes(self.store)
            self.before = self.store.offset
            self.begun: dict[str, Any] = {
                "format": FORMAT,
                "tables": [str(p if is_standard(p) else os.path.realpath(p)) for p in tables],
                "out": str(real_out),
                "options": dict(options),
                "before": self.before,
                "row": 0,
                "checksums": [],
                "sums": {},
                "waiting": self.notes.now.get("waiting", []),
                "state": "writing",
            }
            self.output = ResumableOutput(real_out, self.notes, self.begun, resumable=resumable)
            self._start()
        except BaseException:
            self.store.close()
            raise

    # Starting -------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Find out whether this run begins or continues, and at which row."""
        notes = self.notes.now
        if not self.store.notes and not len(self.store):
            self.output.check_free()
            return
        if not notes:
            raise StoreError(f"{self.store.path} is not of a run over a table")
        self.store.keys()  # or it raises: a state is missing, or is not of the last commit
        self._check_offset(notes)
        self._check_options(notes)
        same_tables, same_out = self._continues(notes), notes["out"] == self.begun["out"]
        if _is_empty(notes) and not (same_tables and same_out):
            self.output.check_free()
        elif not same_tables:
            self._end_previous(notes)
            self.output.check_free()
        elif not same_out:
            out = self.begun["out"]
            raise StoreError(
                f"{self.store.path} belongs to the output {notes['out']}, not to {out}: another"
                " output of the same table needs a --store of its own"
            )
        else:
            self._was_finished = self.output.restore(notes)
            self.row, self.checksums = notes["row"], notes["checksums"]
            self.before = self.begun["before"] = notes["before"]

    def _continues(self, notes: Mapping[str, Any]) -> bool:
        """Return whether this run is over the tables of the store, and perhaps more; or raise."""
        before, now = notes["tables"], self.begun["tables"]
        if len(now) < len(before) and before[: len(now)] == now:
            raise StoreError(
                f"{self.store.path} has learned {', '.join(before)}: give all of them, or others"
            )
        return bool(now[: len(before)] == before)

    def _check_offset(self, notes: Mapping[str, Any]) -> None:
        """Raise if anything but a run over a table has written to the store."""
        left = notes["before"] + notes["row"]
        if left != self.store.offset:
            raise StoreError(
                f"{self.store.path} is at offset {self.store.offset:,}, but the run over"
                f" {names_of_tables(notes)} has left it at {left:,}: something else has written to"
                " it"
            )

    def _check_options(self, notes: Mapping[str, Any]) -> None:
        """Raise if the store was started with other options."""
        for name, value in self.begun["options"].items():
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
        if notes["state"] == "writing":
            raise StoreError(
                f"{path} is at row {notes['row']:,} of {names_of_tables(notes)}: finish that first"
            )
        if notes["state"] == "copying" and os.path.lexists(partial):
            raise StoreError(
                f"{path} has started to add new rows of {names_of_tables(notes)} in"
                f" {partial}: finish that first, or remove the file"
            )
        if notes["state"] == "complete" and os.path.lexists(partial):
            # A process was killed before it could give the complete output its name.
            output = ResumableOutput(Path(notes["out"]), self.notes, notes, resumable=True)
            output.restore(notes)
            with output:
                output.sync()

    # Ending ---------------------------------------------------------------------------------------

    @property
    def is_finished(self) -> bool:
        """Whether the run was finished before, and nothing has been added to its table since."""
        return self._was_finished and not self.output.opened

    def nothing_to_do(self) -> str | None:
        """Return a message if there was nothing to do, else None."""
        if not self.is_finished:
            return None
        out, notes = self.begun["out"], self.notes.now
        if notes["state"] == "copying" and not os.path.lexists(f"{out}.partial"):
            # The unfinished copy was removed. A later file of this name is not that copy.
            self.notes.change(state="finished")
        line = (
            f"{self.store.path}: the run over {names_of_tables(notes)} is finished, at row"
            f" {self.row:,}: there is nothing to do"
        )
        if not os.path.lexists(out):
            return f"{line}; {out}, which was written then, is gone"
        return line if self.output.is_unchanged() else f"{line}; {out} has changed since then"

    def has_signal(self) -> bool:
        """Return whether a signal has arrived."""
        return bool(self._signal)

    def raise_if_stopped(self) -> None:
        """Raise `Stopped` if a signal has arrived."""
        if self._signal:
            row = self.store.offset - self.before
            how = "continues from there" if self.resumable else "begins again"
            raise Stopped(self._signal, f"stopped after row {row:,}; the same command {how}")

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


class StoredSink(TableSink):
    """A `TableSink` whose commits describe the output of a `StoredRun`, and the run itself."""

    def __init__(
        self,
        run: StoredRun,
        source: "TableSource",
        writer: "Writer",
        totals: "Totals",
        sample: "UniformSample | None" = None,
    ) -> None:
        super().__init__(source, writer, totals, sample)
        self._run = run

    def resume(self, token: Mapping[str, Any] | None) -> None:
        """Continue from the last commit; rows of the run before may still wait."""
        if token is not None:
            self.source.late.restore(token["waiting"])
            if self._run.row:
                self.totals.restore(token["sums"])

    def can_commit(self) -> bool:
        """Return whether there are new rows, and the output can be continued after a commit."""
        if self.source.is_passing or self._run.is_finished:
            return False
        if not (self._run.output.is_compared or self.source.has_ended):
            return False  # the partial file may still be that of another program
        return self.is_complete or (self.source.batch is not None and self._run.resumable)

    def commit(self) -> dict[str, Any]:
        """Wait until the output is on the disk; return what describes it and the run."""
        self._run.output.sync()
        batch = self.source.batch
        end = self.source.offset if batch is None else batch.end
        return {
            **self._run.begun,
            **self._run.output.notes(),
            "row": end - self._run.before,
            "checksums": self.source.checksums.sums,
            "sums": self.totals.as_json(),
            "waiting": self.source.late.as_json(),
            "state": "complete" if self.is_complete else "writing",
        }


def is_finished(notes: Mapping[str, Any]) -> bool:
    """Return whether the output of a run has its name."""
    return notes["state"] in ("finished", "copying")


def names_of_tables(notes: Mapping[str, Any]) -> str:
    """Return the names of the tables of a run, for a message."""
    return ", ".join(
        "standard input" if is_standard(Path(name)) else name for name in notes["tables"]
    )


def _given(name: str, value: Any) -> str:
    if value is None:
        return f"without {name}"
    each = value if isinstance(value, list) else [value]
    return "with " + " ".join(f"{name} {one}" for one in each)


def _is_empty(notes: Mapping[str, Any]) -> bool:
    """Whether a run has started, but has neither committed anything nor written a file."""
    return (
        notes["state"] == "writing"
        and not notes["row"]
        and not notes["length"]
        and not os.path.lexists(f"{notes['out']}.partial")
    )
