"""``streamcal check``: whether probabilities are right; exit status 3 is an alarm."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from streamcal.cli.conditions import Condition
from streamcal.cli.console import count_rows, data_errors, progress, usage_errors
from streamcal.cli.files import check_exists
from streamcal.cli.label_columns import (
    check_alone,
    check_known,
    columns_of_labels,
    name_of_column,
    reader_columns,
)
from streamcal.cli.options import (
    COLUMNS,
    DECISION,
    AnyLabelOption,
    FormatOption,
    JsonOption,
    OnError,
    OnErrorOption,
    QuietOption,
    TableArgument,
    column_option,
)
from streamcal.cli.rows import (
    SEVERAL,
    RowReader,
    binary_label_column,
    decision_column,
    group_rows,
    probability_column,
)
from streamcal.cli.summary import Summary

if TYPE_CHECKING:
    from streamcal.monitoring import CalibrationTest
    from streamcal.report.expected_sections import Newest

EXAMPLES = (
    "streamcal check scores.csv --prob p --label y",
    "streamcal check scores.csv --prob p --label y --key country --alpha 0.01",
    "streamcal check scores.csv --prob cat,dog,bird --label animal",
    "streamcal check scores.csv --prob p --label y --expected 'f1>=0.7'",
)
_NO_TEST = (
    "; counts and amounts have no such test, `streamcal report --loss` shows their calibration"
)

ALARM = 3
"""The exit status if there is an alarm."""


def check(
    table: TableArgument,
    prob: Annotated[
        str,
        column_option(
            "The probability of the label 1; or the columns of several labels, as in a,b,c or"
            " p_a=a,p_b=b: each is tested.",
            "--prob",
        ),
    ],
    label: AnyLabelOption,
    key: Annotated[
        str | None, column_option("Test each value of this column by itself.", "--key")
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="The greatest chance of a false alarm; with --key or several labels, the greatest"
            " expected share of false ones among those that are named.",
            rich_help_panel=COLUMNS,
        ),
    ] = 0.05,
    expected: Annotated[
        list[str] | None,
        column_option(
            "Also an alarm: a metric of the last 1,000 rows, labelled or not, misses this bound, as"
            " in 'f1>=0.7' or 'brier<=0.2'. May be given more than once.",
            "--expected",
            metavar="CONDITION",
        ),
    ] = None,
    file_format: FormatOption = None,
    on_error: OnErrorOption = OnError.stop,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Test whether probabilities are right; the exit status is 3 if they are not.

    The rows are tested in their order, as they would have been in a stream. Prints a line for each
    alarm: since about which row, the evidence, and what the probabilities should be. With
    --expected the status is 3, too, if a metric is clearly beyond its bound.
    """
    from streamcal.monitoring import CalibrationTest
    from streamcal.monitoring.fixed_bets import e_value_in_words
    from streamcal.tables.open import format_of
    from streamcal.tables.output import standard_output

    with usage_errors():
        check_exists(table)
        summary = Summary(quiet=quiet, as_json=json)
        kind = format_of(table, given=file_format)
        CalibrationTest(alpha)
        labels = columns_of_labels(prob)
        check_alone(labels, key=key)
        check_known(label, key=[key])
        prob = name_of_column(prob)
        conditions = [
            Condition.parse(text, alpha, several=labels is not None) for text in expected or ()
        ]
    if labels is None:
        columns = [
            probability_column(prob, _NO_TEST),
            binary_label_column(label, SEVERAL + _NO_TEST),
        ]
        columns += [decision_column(prob, label)] if conditions else []
        reader = RowReader(columns, on_error)
    else:
        reader = RowReader(reader_columns(labels, label), on_error)
    with data_errors(table), summary:
        standard_output()  # raises now if it is closed, not after all the work
        names = None if labels is None else list(labels.values())
        newest = _newest() if conditions else None
        tests = _tests(table, kind, reader, key, names, alpha, newest, quiet)
        alarms = _alarms(tests, alpha, alone=key is None and labels is None)
        what = "the probability of" if key is None else key
        for name in alarms:
            of = f"{what} {name or '(empty)'}"
            typer.echo(_in_words(tests[name], prob if name is None else of))
        judged = {}
        if newest is not None:
            latest = newest.latest_answers() if labels else newest.latest(prob, DECISION)
            judged = {each.text: each.judge(latest) for each in conditions}
        counts = [test.n_samples for test in tests.values()]
        n_rows = sum(counts) if labels is None else counts[0]
        summary.add_skipped(reader)
        values: dict[str, Any] = {
            "rows": n_rows,
            "alarms": [None if name is None else str(name) for name in alarms],
        }
        if key is None and labels is None:
            (test,) = tests.values()
            values |= {"log_e_value": test.log_e_value, "p_value": test.p_value}
            summary.add(
                f"{count_rows(n_rows)}, e-value {e_value_in_words(test.log_e_value)},"
                f" p-value {_p_value(test)}: {'an alarm' if alarms else 'no alarm'}",
                **values,
            )
        else:
            kinds = "keys" if labels is None else "labels"
            summary.add(
                f"{count_rows(n_rows)}, {len(tests):,} {kinds}, {len(alarms):,} of them wrong",
                **values,
                **{kinds: len(tests)},
            )
        for each in judged.values():
            if each.is_alarm:
                typer.echo(each.in_words)
            else:
                summary.add(f"{each.in_words}: no alarm")
        if judged:
            summary.add(expected={text: each.numbers for text, each in judged.items()})
    if alarms or any(each.is_alarm for each in judged.values()):
        raise typer.Exit(ALARM)


def _tests(
    table: Path,
    kind: str,
    reader: RowReader,
    key: str | None,
    labels: list[str] | None,
    alpha: float,
    newest: "Newest | None",
    quiet: bool,
) -> "dict[Any, CalibrationTest]":
    """Return the test of each key, or of each of several labels, after all labelled rows.

    ``newest`` gets all rows.
    """
    from streamcal.monitoring import CalibrationTest
    from streamcal.tables.base import TableError
    from streamcal.tables.open import open_table

    tests: dict[Any, CalibrationTest] = {}
    names = reader.names if key is None else [*reader.names, key]
    with (
        open_table(table, names, format=kind, optional=reader.optional) as source,
        progress(source, "testing", hidden=quiet) as show,
    ):
        for rows in reader.iterate(source):
            if labels is not None:
                *columns, y = rows.values
                if newest is not None:
                    newest.add_answers(np.column_stack(columns), y)
                known = ~np.isnan(y)
                for place, (name, p) in enumerate(zip(labels, columns, strict=True)):
                    if known.any():
                        test = tests.setdefault(name, CalibrationTest(alpha))
                        test.update_many(y[known] == place, p[known])
                show()
                continue
            p, y, *decisions = rows.values
            if newest is not None:
                newest.add(p, y, *decisions)
            for name, at in group_rows(rows, key).items():
                known = ~np.isnan(y[at])
                if known.any():
                    test = tests.setdefault(name, CalibrationTest(alpha))
                    test.update_many(y[at][known] == 1.0, p[at][known])
            show()
    if not tests and (newest is None or not newest.n_rows):
        raise TableError("has no labelled rows: there is nothing to test")
    if not tests and key is None:
        tests = dict.fromkeys(labels or (None,), CalibrationTest(alpha))
    return tests


def _newest() -> "Newest":
    from streamcal.report.expected_sections import Newest  # slow, and seldom needed

    return Newest()


def _alarms(tests: "dict[Any, CalibrationTest]", alpha: float, *, alone: bool) -> list[Any]:
    """Return the keys or labels with an alarm, the clearest first."""
    from streamcal.monitoring import e_bh

    if alone:
        return [name for name, test in tests.items() if test.rejected]
    return e_bh({name: test.log_e_value for name, test in tests.items()}, alpha)


def _in_words(test: "CalibrationTest", name: str) -> str:
    """Return an alarm in words."""
    from streamcal.monitoring.fixed_bets import e_value_in_words

    since = 0 if test.since is None else test.since
    return (
        f"{name} is wrong since about labelled row {since + 1:,} of {test.n_samples:,}: e-value"
        f" {e_value_in_words(test.log_e_value)}; by the best bet {test.in_words}"
    )


def _p_value(test: "CalibrationTest") -> str:
    """Return the p-value, which may be less than any float."""
    return f"{test.p_value:.3g}" if test.p_value > 0.0 else "below 1e-300"
