"""What ``streamcal report`` and ``streamcal watch`` are about: a calibrated table, or a store."""

import contextlib
import math
import shlex
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.cli.console import progress
from streamcal.cli.files import check_can_be_read_again, check_exists
from streamcal.cli.label_columns import (
    check_alone,
    check_known,
    columns_before,
    columns_of_labels,
    name_of_column,
    reader_columns,
)
from streamcal.cli.options import DECISION, Format, OnError
from streamcal.cli.rows import (
    A_TIME,
    RowReader,
    Rows,
    TimeColumn,
    columns_of_values,
    decision_column,
    group_rows,
    probability_column,
    score_column,
)
from streamcal.cli.summary import print_skipped

if TYPE_CHECKING:
    from streamcal.durable.store import Store
    from streamcal.report.content import Report, Section
    from streamcal.report.coverage_sections import Targets
    from streamcal.report.expected_sections import Latest
    from streamcal.report.key_sections import Keys
    from streamcal.report.label_sections import Answers
    from streamcal.report.prometheus import Metric
    from streamcal.report.segment_sections import Segments
    from streamcal.report.table_sections import Scored
    from streamcal.tables.base import Reader

_DEFAULT_PROB = "calibrated"
_MOST_FIELDS = 64
_NOTHING = "has no labelled rows: there is nothing to report"
_NO_LABELS = f"{_NOTHING}; what to expect without labels says `streamcal check --expected`"
_OF_MEANS = ("poisson", "gamma", "tweedie")
"""Losses of a run that say that labels are counts or amounts; squared may be that of 0 and 1."""


class Given(NamedTuple):
    """The options that describe a table; a store has these among its notes."""

    score: str | None = None
    label: str | None = None
    prob: str | None = None
    key: str | None = None
    segment: tuple[str, ...] = ()
    time: str | None = None
    since: str | None = None
    file_format: Format | None = None
    on_error: OnError = OnError.stop
    loss: str | None = None
    promises: "Targets | None" = None

    def check_none(self, store: Path) -> None:
        """Raise ``ValueError`` if an option is given, which a store has no use for."""
        for name, value in self._asdict().items():
            if name != "promises" and value not in (None, (), OnError.stop):
                option = "--format" if name == "file_format" else f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"{option} does not apply to a store: {store} has its columns and options"
                )


def open_subject(
    source: Path, given: Given, *, quiet: bool = False
) -> "TableSubject | StoreSubject":
    """Return what a report is about; raise ``ValueError`` if an option is missing or too much.

    If ``quiet``, it prints neither a progress bar nor which rows are skipped.
    """
    from streamcal.durable.files import is_store

    check_exists(source)
    if is_store(source):
        given.check_none(source)
        return StoreSubject(source, given.promises, quiet=quiet)
    from streamcal.tables.open import format_of

    kind = format_of(source, given=given.file_format)
    labels = None if given.prob is None else columns_of_labels(given.prob)
    for name in ("score", "label", "prob"):
        if given.time is not None and given.time == getattr(given, name):
            raise ValueError(f"--time must be another column than --{name}, got {given.time!r}")
    check_known(given.label, key=[given.key], segment=given.segment)
    if labels is not None:
        since, key, segment = given.since, given.key, given.segment
        check_alone(labels, key=key, segment=segment, since=since, loss=given.loss)
        if given.label is None:
            raise ValueError(f"{source} is not a store, and a table needs --label")
        before = None if given.score is None else columns_before(given.score, labels)
        for metric in given.promises or ():
            if metric != "accuracy":
                raise ValueError(
                    "--at-least must be about accuracy where --prob has several columns, got"
                    f" {metric}"
                )
        answers = _AnswerColumns(given.label, labels, given.time, before, given.promises)
        return TableSubject(source, answers, kind, given.on_error, quiet=quiet)
    if given.score is None or given.label is None:
        missing = [f"--{name}" for name in ("score", "label") if getattr(given, name) is None]
        needed = " and ".join(missing)
        if given.prob is not None and given.score is None:
            needed += f", unless --prob names several columns, as in a,b,c; got {given.prob!r}"
        raise ValueError(f"{source} is not a store, and a table needs {needed}")
    if len(set(given.segment)) < len(given.segment) or len(given.segment) > _MOST_FIELDS:
        raise ValueError(
            f"--segment must name different columns, at most {_MOST_FIELDS}, got"
            f" {', '.join(given.segment)}"
        )
    if given.segment and given.loss is not None:
        raise ValueError(
            "--segment does not go with --loss: errors of segments are those of labels 0 and 1"
        )
    if given.promises and given.loss is not None:
        raise ValueError("--at-least does not go with --loss: it is about labels 0 and 1")
    prob = name_of_column(given.prob or _DEFAULT_PROB)
    columns = _ScoredColumns(
        *(given.score, given.label, prob, given.key, given.segment, given.time),
        *(_since(given), None if given.loss is None else str(given.loss), given.promises),
    )
    return TableSubject(source, columns, kind, given.on_error, quiet=quiet)


def promises_in(at_least: Sequence[str]) -> "Targets | None":
    """Return the promises of --at-least, or raise; None without any."""
    from streamcal._advice import did_you_mean
    from streamcal.cli.decide import options_in_messages, targets_in
    from streamcal.decision.targets import as_targets
    from streamcal.report.coverage_sections import METRICS

    found = targets_in(at_least, None)
    for metric in found:
        if metric not in METRICS:
            one, hint = " or ".join(METRICS), did_you_mean(metric, METRICS)
            raise ValueError(f"--at-least must be about {one}, got {metric!r}{hint}")
    with options_in_messages():
        as_targets(found)
    return found or None


def _since(given: Given) -> tuple[float, bool] | None:
    """Return the time of --since in seconds, and whether it has a zone; None if none is given."""
    from streamcal.tables.times import parse_time

    if given.since is None:
        return None
    if given.time is None:
        raise ValueError(f"--since needs --time, got {given.since!r} without it")
    since = parse_time(given.since)
    if math.isnan(since[0]):
        raise ValueError(f"--since must be {A_TIME}, got {given.since!r}")
    return since


class _ScoredColumns(NamedTuple):
    """The columns of a calibrated table: scores, labels, probabilities, key, segments and time.

    ``since`` is a time that cuts the table into two parts. With a ``loss``, labels are numbers, and
    the calibrated values are means of these.
    """

    score: str
    label: str
    prob: str
    key: str | None = None
    segment: tuple[str, ...] = ()
    time: str | None = None
    since: tuple[float, bool] | None = None
    loss: str | None = None
    promises: "Targets | None" = None

    @property
    def names(self) -> list[str]:
        """The names of the columns that must be in the table."""
        others = [name for name in (self.key, self.time) if name is not None]
        return [self.score, self.label, self.prob, *others, *self.segment]

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The names as facts of a report."""
        named = {"Scores": self.score, "Calibrated": self.prob, "Labels": self.label}
        named |= {"Key": self.key} if self.key is not None else {}
        named |= {"Segments": ", ".join(self.segment)} if self.segment else {}
        named |= {"Times": self.time} if self.time is not None else {}
        named |= {"Loss": self.loss} if self.loss is not None else {}
        named |= _facts_of(self.promises)
        return tuple(named.items())

    def add_to(
        self, report: "Report", table: Path, kind: str, on_error: OnError, *, quiet: bool
    ) -> "Report":
        """Return a report with all about a table before its own sections."""
        rows = _read_scored(table, kind, self, on_error, quiet=quiet)
        return rows.add_to(report, self)


def _facts_of(promises: "Targets | None") -> dict[str, str]:
    """Return the promises as facts of a report."""
    words = ", ".join(f"{metric} {least:g}" for metric, least in (promises or {}).items())
    return {"Promises": words} if words else {}


def _with_labels(columns: dict[str, str]) -> str:
    return ", ".join(
        name if name == label else f"{name} ({label})" for name, label in columns.items()
    )


class _AnswerColumns(NamedTuple):
    """The columns of a table with several labels: the true one, the probability of each, time.

    ``before`` has the columns before calibration, in the order of their labels in ``prob``.
    """

    label: str
    prob: dict[str, str]
    time: str | None = None
    before: dict[str, str] | None = None
    promises: "Targets | None" = None

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """The names as facts of a report."""
        after = _with_labels(self.prob)
        if self.before is None:
            named = {"Probabilities": after, "Labels": self.label}
        else:
            named = {"Scores": _with_labels(self.before), "Calibrated": after, "Labels": self.label}
        named |= {"Times": self.time} if self.time is not None else {}
        named |= _facts_of(self.promises)
        return tuple(named.items())

    def add_to(
        self, report: "Report", table: Path, kind: str, on_error: OnError, *, quiet: bool
    ) -> "Report":
        """Return a report with all about a table before its own sections."""
        from dataclasses import replace

        from streamcal.report.coverage_sections import verdict_of_promises
        from streamcal.report.label_sections import (
            metrics_of_labels,
            of_labels,
            promises_of_labels,
            verdict_of_labels,
        )

        answers, latest = _read_answers(table, kind, self, on_error, quiet=quiet)
        sections, verdict, metrics = _of_latest(latest)
        promises = promises_of_labels(answers, self.promises or {})
        kept = verdict_of_promises(promises, f"{len(answers.labels):,} rows")
        return replace(
            report,
            verdict=(*verdict_of_labels(answers), *kept, *verdict, *report.verdict),
            sections=(*of_labels(answers, promises), *sections, *report.sections),
            metrics=(*metrics_of_labels(answers), *metrics, *report.metrics),
        )


def _of_latest(
    latest: "Latest | None",
) -> "tuple[tuple[Section, ...], tuple[str, ...], tuple[Metric, ...]]":
    """Return sections, verdict and metrics about the last rows, if some of these have no label."""
    from streamcal.report.expected_sections import metrics_of_latest, of_latest, verdict_of_latest

    if latest is None or latest.n_known == len(latest.y):
        return (), (), ()
    return (of_latest(latest),), (verdict_of_latest(latest),), metrics_of_latest(latest)


class _Rows(NamedTuple):
    """The labelled rows of a table, and their keys and segments if there are columns of these.

    ``latest`` are the last rows, labelled or not; None unless values are probabilities.
    ``decisions`` are those of `streamcal decide`, NaN where there is none; None without a column.
    """

    scored: "Scored"
    keys: "Keys | None"
    segments: "Segments | None"
    latest: "Latest | None"
    decisions: NDArray[np.float64] | None = None

    def sections(self, columns: _ScoredColumns) -> tuple[list["Section"], tuple[str, ...]]:
        """Return the sections of a report about these rows, and its verdict."""
        from streamcal.report.key_sections import of_keys
        from streamcal.report.segment_sections import compare, of_segments, verdict_of_segments
        from streamcal.report.table_sections import of_table, verdict_of_table, verdict_of_two_parts

        sections = of_table(self.scored, columns.score, columns.prob)
        verdict = verdict_of_table(self.scored, columns.score, columns.prob)
        if columns.loss is None:
            coverage, kept = self._coverage(columns)
            sections.insert(2, coverage)
            verdict += kept
        if columns.since is not None:
            sections.insert(2, self._two_parts(*columns.since, columns))
            verdict += verdict_of_two_parts(self.scored, columns.since[0])
        expected, in_words, _ = _of_latest(self.latest)
        sections += expected
        verdict += in_words
        if self.segments is not None:
            compared = compare(self.scored, self.segments)
            sections.append(of_segments(compared))
            verdict += verdict_of_segments(compared, columns.score, columns.prob)
        if self.keys is not None:
            sections.append(of_keys(self.scored, self.keys))
        return sections, verdict

    def _coverage(self, columns: _ScoredColumns) -> tuple["Section", tuple[str, ...]]:
        """Return the section with accuracy over coverage, and sentences about promises."""
        from streamcal.report.coverage_sections import (
            Decided,
            column_of,
            of_coverage,
            promises_of,
            verdict_of_promises,
        )

        raw, p, y, _ = self.scored.columns
        told = [column_of(columns.prob, p, y)]
        if self.scored.comparable:
            told.insert(0, column_of(columns.score, raw, y))
        decided = () if self.decisions is None else (Decided(DECISION, self.decisions, p, y),)
        promises = promises_of([*told, *decided], columns.promises or {})
        words = verdict_of_promises(promises, f"{len(y):,} rows")
        return of_coverage(told, promises), words

    def _two_parts(self, since: float, has_zone: bool, columns: _ScoredColumns) -> "Section":
        """Return the section about the rows before and since a time."""
        from streamcal.report.table_sections import of_two_parts
        from streamcal.tables.base import TableError

        if has_zone != bool(self.scored.zone):
            zone, such = "without", "2026-03-01"
            if self.scored.zone:
                zone, such = "with", "2026-03-01T00:00Z"
            one = f"one {zone} a zone, too, such as {such}"
            raise TableError(f"has times {zone} a zone, so --since must be {one}")
        try:
            return of_two_parts(self.scored, since, columns.score, columns.prob)
        except ValueError as error:
            raise TableError(str(error)) from None

    def add_to(self, report: "Report", columns: _ScoredColumns) -> "Report":
        """Return a report with verdict, sections and metrics of these rows before its own."""
        from dataclasses import replace

        from streamcal.report.table_sections import metrics_of_table

        sections, verdict = self.sections(columns)
        metrics = metrics_of_table(self.scored, columns.score, columns.prob)
        return replace(
            report,
            verdict=(*verdict, *report.verdict),
            sections=(*sections, *report.sections),
            metrics=(*metrics, *_of_latest(self.latest)[2], *report.metrics),
        )


class TableSubject:
    """A calibrated table that a report is about; if it is ``watched``, there will be several."""

    def __init__(
        self,
        path: Path,
        columns: _ScoredColumns | _AnswerColumns,
        kind: str,
        on_error: OnError,
        *,
        quiet: bool = False,
    ) -> None:
        self.path, self.columns, self.kind, self.on_error = path, columns, kind, on_error
        self.quiet = quiet
        self.watched = False

    def files(self) -> list[Path]:
        """Return the files that the report is made of."""
        return [self.path]

    def stamp(self) -> Hashable:
        """Return a value that changes when the report would."""
        return _stamp_of(self.path)

    def report(self) -> "Report":
        """Compute the report."""
        from streamcal.report.content import Report

        if self.watched:
            check_can_be_read_again(self.path)
        title = f"Calibration of {self.path.name}"
        empty = Report(title, str(self.path), facts=self.columns.facts)
        return self.columns.add_to(empty, self.path, self.kind, self.on_error, quiet=self.quiet)


class StoreSubject:
    """A store that a report is about; if it is of a run over a table, also the run's output."""

    def __init__(
        self, path: Path, promises: "Targets | None" = None, *, quiet: bool = False
    ) -> None:
        self.path, self.promises, self.quiet = path, promises, quiet
        self.watched = False

    def files(self) -> list[Path]:
        """Return the files that the report is made of."""
        from streamcal.cli.resumable_output import RunNotes
        from streamcal.durable.files import files_of_store
        from streamcal.durable.store import Store

        named: list[Path] = []
        with Store(self.path, read_only=True) as store:
            if notes := RunNotes(store).now:
                named = [Path(name) for name in (*notes["tables"], notes["out"])]
        partial = [path.with_name(f"{path.name}.partial") for path in named]
        return [*files_of_store(self.path), *named, *partial]

    def stamp(self) -> Hashable:
        """Return a value that changes when the report would."""
        from streamcal.durable.files import LOG, beside

        return _stamp_of(self.path, beside(self.path, LOG))

    def report(self) -> "Report":
        """Compute the report."""
        from dataclasses import replace

        from streamcal.cli.resumable_output import RunNotes
        from streamcal.durable.store import Store

        with Store(self.path, read_only=True) as store, store.reading():
            notes = RunNotes(store).now
            report = self._of_store(store, notes)
        if notes:
            report = _with_output(report, notes, self.promises, quiet=self.quiet)
        if self.promises and not any(part.id == "coverage" for part in report.sections):
            unknown = "Whether promises are kept is not known: there are no labels 0 and 1."
            return replace(report, verdict=(*report.verdict, unknown))
        return report

    def _of_store(self, store: "Store", notes: dict[str, Any]) -> "Report":
        """Return the report without the output; ``notes`` are of a run over tables, or empty."""
        from streamcal.cli.stored_run import is_finished, names_of_tables
        from streamcal.report.content import Report
        from streamcal.report.run_sections import Run, metrics_of_run, of_run, verdict_of_run
        from streamcal.report.store_sections import facts_of_store, of_store

        run, subtitle = Run(store), str(self.path)
        promises = run.promises(self.promises or {})
        facts = facts_of_store(store)
        if notes:
            state = "finished" if is_finished(notes) else "not finished yet"
            tables = names_of_tables(notes)
            subtitle += f": the run over {tables}, {state}, at row {notes['row']:,}"
            given = {n: v for n, v in notes["options"].items() if v is not None}
            facts = tuple(
                (n, ", ".join(map(str, v)) if isinstance(v, list) else str(v))
                for n, v in given.items()
            )
        return Report(
            f"Calibration: {self.path.name}",
            subtitle,
            (*of_run(run, promises), *of_store(store)),
            verdict_of_run(run, promises),
            (*facts, *_facts_of(self.promises).items()),
            run.timeline.updated if run.timeline else None,
            metrics_of_run(run),
        )


def _with_output(
    report: "Report", notes: dict[str, Any], promises: "Targets | None", *, quiet: bool
) -> "Report":
    """Return the report of a store with that of its output, or with the reason for none."""
    from dataclasses import replace

    from streamcal.cli.stored_run import is_finished
    from streamcal.report.content import Section
    from streamcal.tables.open import format_of

    options, path = notes["options"], Path(notes["out"])
    if not is_finished(notes):
        path = path.with_name(f"{path.name}.partial")
    try:
        if options.get("--sampling-rate") is not None:
            raise ValueError(
                "its values are probabilities among all samples (--sampling-rate), its rows are a"
                " part of these"
            )
        score, label, prob = (options[name] for name in ("--score", "--label", "--new-column"))
        segment = tuple(options.get("--segment") or ())
        loss = options.get("--loss")
        if loss in _OF_MEANS and segment:
            raise ValueError("errors of --segment are those of labels 0 and 1")
        columns = _ScoredColumns(
            *(score, label, prob, options.get("--key"), segment),
            loss=loss if loss in _OF_MEANS else None,
            promises=promises,
        )
        kind = format_of(Path(notes["out"]), Path(notes["tables"][0]))
        check_can_be_read_again(path)
        n_rows = notes["sums"].get("counts", [0])[0]  # 0 if the run has just begun
        on_error = OnError(options["--on-error"])
        rows = _read_scored(path, kind, columns, on_error, n_rows, quiet=quiet)
        return rows.add_to(report, columns)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        section = Section("output", "Output", f"{path} is not shown: {reason}.")
        return replace(report, sections=(section, *report.sections))


def _stamp_of(*paths: Path) -> Hashable:
    """Return a value that changes when one of these files is written."""
    from streamcal.durable.files import stamp_of

    found = []
    for path in paths:
        with contextlib.suppress(OSError):
            found.append(stamp_of(path))
    return tuple(found)


def _read_scored(
    table: Path,
    kind: str,
    columns: _ScoredColumns,
    on_error: OnError,
    limit: int | None = None,
    *,
    quiet: bool,
) -> _Rows:
    """Return the labelled rows among the first ``limit`` rows of a table, and the last of all."""
    from streamcal.losses.deviance import get_deviance
    from streamcal.report.expected_sections import Newest
    from streamcal.report.key_sections import Keys
    from streamcal.report.segment_sections import Segments
    from streamcal.report.table_sections import Scored
    from streamcal.tables.base import TableError

    time = None if columns.time is None else TimeColumn(columns.time, ())
    reader = RowReader(
        [
            score_column(columns.score),
            *columns_of_values([columns.prob], columns.label, columns.loss),
            *([] if time is None else [time]),
            decision_column(columns.score, columns.label, columns.prob, columns.time),
        ],
        on_error,
    )
    n_columns, newest = len(reader.columns), Newest()
    grouped = [columns.key, *columns.segment]
    places: list[dict[Any, int]] = [{} for _ in grouped]  # of the values of these columns
    parts, left = [np.empty((0, n_columns + len(grouped) + 1))], limit
    with (
        _open_table(table, kind, columns, reader.optional) as source,
        progress(source, "reading", hidden=quiet) as show,
    ):
        for rows in reader.iterate(source):
            codes = [_codes(rows, *each) for each in zip(grouped, places, strict=True)]
            *values, decisions = rows.values
            part = np.column_stack([*values, rows.numbers, *codes, decisions])[:left]
            parts.append(part[~np.isnan(part[:, 2])])
            if columns.loss is None:
                seconds = None if time is None else part[:, 3]
                newest.add(part[:, 1], part[:, 2], part[:, -1], seconds)
            show()
            if left is not None:
                left -= len(part)
                if left <= 0:
                    break
    if not sum(map(len, parts)):
        raise TableError(_NO_LABELS if columns.loss is None else _NOTHING)
    if limit is None and not quiet:
        print_skipped(reader)
    numbers = np.concatenate(parts).T
    if time is not None:
        numbers = numbers[:, np.argsort(numbers[3], kind="stable")]
    score, prob, label, *times, row = numbers[:n_columns]
    scored = Scored(score, prob, label, row)
    if columns.loss is not None:
        scored = scored._replace(deviance=get_deviance(columns.loss))
    if time is not None:
        scored = scored._replace(times=times[0], zone="UTC" if time.has_zone else "")
    keys, *segments = (
        Keys([str(name or "(empty)") for name in each], codes.astype(np.int64))
        for each, codes in zip(places, numbers[n_columns:-1], strict=True)
    )
    decisions = numbers[-1]
    return _Rows(
        scored,
        None if columns.key is None else keys,
        Segments(columns.segment, segments) if segments else None,
        newest.latest(columns.prob, DECISION) if columns.loss is None else None,
        None if np.isnan(decisions).all() else decisions,
    )


def _read_answers(
    table: Path, kind: str, columns: _AnswerColumns, on_error: OnError, *, quiet: bool
) -> "tuple[Answers, Latest]":
    """Return the labelled rows of a table with probabilities of several labels; the last of all."""
    from streamcal.report.expected_sections import Newest
    from streamcal.report.label_sections import Answers
    from streamcal.tables.base import TableError
    from streamcal.tables.open import open_table

    time = None if columns.time is None else TimeColumn(columns.time, ())
    before = list(map(probability_column, columns.before or ()))
    read = [*reader_columns(columns.prob, columns.label), *([] if time is None else [time])]
    reader, at = RowReader([*before, *read], on_error), len(before) + len(columns.prob)
    parts, newest = [np.empty((0, len(reader.columns) + 1))], Newest()
    with (
        open_table(table, reader.names, format=kind) as source,
        progress(source, "reading", hidden=quiet) as show,
    ):
        for rows in reader.iterate(source):
            part = np.column_stack([*rows.values, rows.numbers])
            parts.append(part[~np.isnan(part[:, at])])
            seconds = None if time is None else part[:, at + 1]
            newest.add_answers(part[:, len(before) : at], part[:, at], seconds)
            show()
    numbers = np.concatenate(parts)
    if not len(numbers):
        raise TableError(_NO_LABELS)
    if not quiet:
        print_skipped(reader)
    if time is not None:
        numbers = numbers[np.argsort(numbers[:, at + 1], kind="stable")]
    names, codes = tuple(columns.prob.values()), numbers[:, at].astype(np.int64)
    answers = Answers(names, numbers[:, len(before) : at], codes, numbers[:, -1])
    if before:
        answers = answers._replace(before=numbers[:, : len(before)])
    if time is not None:
        answers = answers._replace(times=numbers[:, at + 1], zone="UTC" if time.has_zone else "")
    return answers, newest.latest_answers()


def _codes(rows: Rows, column: str | None, places: dict[Any, int]) -> NDArray[np.float64]:
    """Return a number for the value of each row, and note new values in ``places``."""
    codes = np.zeros(len(rows.numbers))
    for name, at in group_rows(rows, column).items():
        codes[at] = places.setdefault(name, len(places))
    return codes


def _open_table(table: Path, kind: str, columns: _ScoredColumns, optional: list[str]) -> "Reader":
    """Open a table; if it lacks the calibrated column, the error says how to make one."""
    from streamcal.tables.base import TableError
    from streamcal.tables.open import open_table

    score, label, prob, *_ = columns
    try:
        return open_table(table, columns.names, format=kind, optional=optional)
    except TableError as error:
        if str(error).startswith(f"has no column `{_DEFAULT_PROB}`") and prob == _DEFAULT_PROB:
            command = ["calibrate", str(table), "--score", score, "--label", label]
            if columns.loss is not None:
                command += ["--calibrator", "isotonic", "--loss", columns.loss]
            command += ["--out", f"calibrated.{kind}"]
            values = "probabilities" if columns.loss is None else "means"
            raise TableError(
                f"has no column `{prob}`: run `streamcal {shlex.join(command)}` first, or name the"
                f" column of {values} by --prob"
            ) from None
        raise
