"""``streamcal report``: a page about a calibrated table, or about a store and its run."""

import contextlib
from collections.abc import Hashable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from streamcal.cli.console import data_errors, failure, progress, say, usage_errors
from streamcal.cli.files import check_exists, check_folder, files_of_output, is_same_file
from streamcal.cli.options import (
    Format,
    FormatOption,
    KnownLabelOption,
    KnownProbOption,
    KnownScoreOption,
    OnError,
    OnErrorOption,
    SourceArgument,
    out_option,
)
from streamcal.cli.rows import RowReader, binary_label_column, probability_column, score_column
from streamcal.cli.summary import print_skipped

if TYPE_CHECKING:
    from streamcal.report.content import Report, Section
    from streamcal.report.table_sections import Scored

EXAMPLES = (
    "streamcal report calibrated.csv --score p --label y --out report.html",
    "streamcal report run.db --out report.html",
)


def report(
    source: SourceArgument,
    score: KnownScoreOption = None,
    label: KnownLabelOption = None,
    prob: KnownProbOption = "calibrated",
    out: Annotated[Path, out_option("HTML", "The page.")] = Path("report.html"),
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
) -> None:
    """Write a page about a calibrated table or a store: one HTML file, which loads nothing else.

    It shows reliability before and after, scores and their parts, and miscalibration over time; for
    a store also its learners, and its output table as far as it is written.
    """
    from streamcal.tables import Output

    with usage_errors():
        check_folder(out)
        output = Output(out)
        subject = open_subject(source, score, label, prob, file_format, on_error)
    with data_errors(source):
        pairs = product(files_of_output(output), subject.files())
        if any(is_same_file(written, read) for written, read in pairs):
            raise failure(f"--out {out} is a file of the report: the page would replace it", 2)
        from streamcal.report import page

        html = page.render(subject.report()).encode()
        with output as file:
            file.write(html)
        say(f"{out}: {len(html) / 1e6:.1f} MB")


def open_subject(
    source: Path,
    score: str | None,
    label: str | None,
    prob: str,
    file_format: Format | None,
    on_error: OnError,
) -> "TableSubject | StoreSubject":
    """Return what a report is about; raise ``ValueError`` if an option is missing."""
    from streamcal.durable.files import is_store
    from streamcal.tables import format_of

    check_exists(source)
    if is_store(source):
        return StoreSubject(source)
    if score is None or label is None:
        raise ValueError("a table needs --score and --label")
    kind = format_of(source, given=file_format)
    return TableSubject(source, _ScoredColumns(score, label, prob), kind, on_error)


class _ScoredColumns(NamedTuple):
    """The columns of a calibrated table: scores before, labels, probabilities after."""

    score: str
    label: str
    prob: str


class TableSubject:
    """A calibrated table that a report is about."""

    def __init__(self, path: Path, columns: _ScoredColumns, kind: str, on_error: OnError) -> None:
        self.path, self.columns, self.kind, self.on_error = path, columns, kind, on_error

    def files(self) -> list[Path]:
        """Return the files that the report is made of."""
        return [self.path]

    def stamp(self) -> Hashable:
        """Return a value that changes when the report would."""
        return _stamp_of(self.path)

    def report(self) -> "Report":
        """Compute the report."""
        from streamcal.report.content import Report
        from streamcal.report.table_sections import of_table

        score, label, prob = self.columns
        scored = _read_scored(self.path, self.kind, self.columns, self.on_error)
        return Report(
            f"Calibration of {self.path.name}",
            f"{self.path}: scores {score}, calibrated {prob}, labels {label}",
            tuple(of_table(scored, score, prob)),
        )


class StoreSubject:
    """A store that a report is about; if it is of a run over a table, also the run's output."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def files(self) -> list[Path]:
        """Return the files that the report is made of."""
        from streamcal.durable.files import files_of_store
        from streamcal.durable.store import Store

        with Store(self.path, read_only=True) as store:
            notes = store.notes
        named = [Path(notes[name]) for name in ("table", "out") if name in notes]
        partial = [path.with_name(f"{path.name}.partial") for path in named]
        return [*files_of_store(self.path), *named, *partial]

    def stamp(self) -> Hashable:
        """Return a value that changes when the report would."""
        return _stamp_of(self.path, self.path.with_name(f"{self.path.name}-wal"))

    def report(self) -> "Report":
        """Compute the report."""
        from streamcal.cli.checkpoint import check_notes
        from streamcal.durable.store import Store
        from streamcal.report.content import Report
        from streamcal.report.store_sections import of_store

        with Store(self.path, read_only=True) as store:
            sections, notes = of_store(store), store.notes
            is_run = "table" in notes and "out" in notes
            if is_run:
                check_notes(store)
        subtitle = f"{self.path}"
        if is_run:
            state = "finished" if notes["finished"] else "not finished yet"
            subtitle += f": the run over {notes['table']}, {state}, at row {notes['row']:,}"
            sections = _with_output(sections, notes)
        return Report(f"Calibration: {self.path.name}", subtitle, tuple(sections))


def _with_output(sections: list["Section"], notes: dict[str, Any]) -> list["Section"]:
    """Return the sections of a store after those of its output, or after the reason for none."""
    from streamcal.report.content import Section
    from streamcal.report.table_sections import of_table
    from streamcal.tables import format_of

    options, path = notes["options"], Path(notes["out"])
    if not notes["finished"]:
        path = path.with_name(f"{path.name}.partial")
    try:
        columns = _ScoredColumns(options["--score"], options["--label"], options["--new-column"])
        kind = format_of(Path(notes["out"]), Path(notes["table"]))
        n_rows = notes["sums"].get("counts", [0])[0]  # 0 if the run has just begun
        scored = _read_scored(path, kind, columns, OnError(options["--on-error"]), n_rows)
        return [*of_table(scored, columns.score, columns.prob), *sections]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [Section("output", "Output", f"{path} is not shown: {reason}."), *sections]


def _stamp_of(*paths: Path) -> Hashable:
    """Return a value that changes when one of these files is written."""
    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            status = path.stat()
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _read_scored(
    table: Path, kind: str, columns: _ScoredColumns, on_error: OnError, limit: int | None = None
) -> "Scored":
    """Return the labelled rows among the first ``limit`` rows of a table."""
    from streamcal import tables
    from streamcal.report.table_sections import Scored

    score, label, prob = columns
    reader = RowReader(
        [score_column(score), probability_column(prob), binary_label_column(label)], on_error
    )
    parts, left = [np.empty((0, 4))], limit
    with (
        tables.open_table(table, reader.names, format=kind) as source,
        progress(source, "reading") as show,
    ):
        for rows in reader.iterate(source):
            part = np.column_stack([*rows.values, rows.numbers])[:left]
            parts.append(part[~np.isnan(part[:, 2])])
            show()
            if left is not None:
                left -= len(part)
                if left <= 0:
                    break
    if not sum(map(len, parts)):
        raise tables.TableError("has no labelled rows: there is nothing to report")
    if limit is None:
        print_skipped(reader)
    return Scored(*np.concatenate(parts).T)
