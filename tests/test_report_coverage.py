"""Accuracy over coverage, and promises, in reports of tables, several labels and runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

from streamcal import IsotonicCalibrator, PlattCalibrator
from streamcal.cli.report_sources import Given, open_subject, promises_in
from streamcal.decision import maximize
from streamcal.durable.engine import run as run_stream
from streamcal.durable.store import Store
from streamcal.plot import AccuracyCoverageCurve
from streamcal.plot.accuracy_coverage_curve import Answers
from streamcal.report import page
from streamcal.report.content import Report, Section
from streamcal.report.coverage_sections import Column, Decided, column_of, of_coverage, promises_of
from streamcal.report.verdict import LEVEL, promise_in_words, state_of
from tests.runner import run

N = 3_000
RNG = np.random.default_rng(1)
P = RNG.beta(0.7, 0.7, N).round(3)
RAW = (P**2 / (P**2 + (1.0 - P) ** 2)).round(3)  # too sure
Y = (RNG.random(N) < P).astype(float)


def written(path: Path, **columns: Any) -> Path:
    cells = {"raw": RAW.tolist(), "p": P.tolist(), "y": Y.astype(int).tolist(), **columns}
    rows = [",".join(map(str, row)) for row in zip(*cells.values(), strict=True)]
    path.write_text("\n".join([",".join(cells), *rows, ""]))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return written(tmp_path / "scores.csv")


def of(path: Path, **options: Any) -> Report:
    given: Any = {"score": "raw", "label": "y", "prob": "p", **options}
    return open_subject(path, Given(**given)).report()


def found(report: Report) -> Section:
    (section,) = [part for part in report.sections if part.id == "coverage"]
    return section


def lines(section: Section) -> dict[str, Any]:
    return {series.name: series for series in section.charts[0].series}


# The picture --------------------------------------------------------------------------------------


def test_the_lines_are_those_of_the_display(table: Path) -> None:
    section = found(of(table))
    drawn = lines(section)
    for name, p in (("raw", RAW), ("p", P)):
        curve = AccuracyCoverageCurve.from_predictions(Y, p)
        assert drawn[name].columns["x"].tolist() == curve.coverage.tolist()
        assert drawn[name].columns["y"].tolist() == curve.accuracy.tolist()
        assert drawn[f"{name}, expected"].columns["y"].tolist() == curve.expected.tolist()
    band = drawn["p: 90 % interval"].columns
    inside = AccuracyCoverageCurve.from_predictions(Y, P)
    kept = np.isin(inside.coverage, band["x"])
    assert inside.lower is not None
    assert inside.lower[kept].tolist() == band["low"].tolist()
    assert [name for name in drawn if "interval" in name] == ["p: 90 % interval"]
    assert not [name for name in drawn if "target" in name or "answered" in name]
    (numbers,) = section.tables
    assert numbers.rows[-1][1:3] == (inside.expected[-1], inside.accuracy[-1])
    assert [part.id for part in of(table).sections][1:3] == ["reliability-before-after", "coverage"]


def test_scores_that_are_no_probabilities_do_not_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", score=(5.0 * RAW).tolist())
    drawn = lines(found(of(path, score="score", promises={"accuracy": 0.9})))
    assert [*drawn] == ["target 0.9", "p: 90 % interval", "p", "p, expected", "p: answered"]


def test_means_have_no_such_section(table: Path) -> None:
    assert "coverage" not in [part.id for part in of(table, loss="poisson").sections]


def test_a_picture_of_many_rows_has_few_points() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    y = (rng.random(200_000) < p).astype(float)
    section = of_coverage(
        [column_of("p", p, y)], promises_of([column_of("p", p, y)], {"accuracy": 0.9})
    )
    sizes = [len(next(iter(s.columns.values()))) for s in section.charts[0].series]
    assert max(sizes) <= 1_000
    _, _, _, _, answered = section.charts[0].series
    assert (
        answered.columns["x"][0] == maximize(p, "coverage", subject_to={"accuracy": 0.9}).expected
    )


@pytest.mark.parametrize(
    ("p", "y"),
    [([0.3], [1.0]), ([0.5], [0.0]), ([0.4] * 3, [1.0, 0.0, 1.0]), ([0.9, 0.8], [1.0, 1.0])],
    ids=["one", "half", "equal", "one label"],
)
@pytest.mark.parametrize("target", [0.0, 0.75, 1.0])
def test_smallest_tables(p: Any, y: Any, target: float) -> None:
    column = column_of("p", np.array(p), np.array(y))
    promises = promises_of([column], {"accuracy": target, "precision": target})
    section = of_coverage([column], promises)
    assert ("surer half" in section.charts[0].summary) == (len(set(p)) > 1)
    html = page.render(Report("small", "here", (section,)))
    assert "Accuracy over coverage" in html
    assert math.isfinite(section.charts[0].y_range[0])


# Promises -----------------------------------------------------------------------------------------


def rows_of(section: Section) -> dict[tuple[Any, Any], Any]:
    (promises,) = [table for table in section.tables if table.id == "promises"]
    return {row[:2]: row[2:] for row in promises.rows}


def test_promises_are_what_maximize_answers(table: Path) -> None:
    report = of(table, promises={"accuracy": 0.9, "precision": 0.8})
    rows = rows_of(found(report))
    for name, p in (("raw", RAW), ("p", P)):
        best = maximize(p, "coverage", subject_to={"accuracy": 0.9})
        answered = np.not_equal(best.labels, None)
        right = (best.labels[answered] == 1) == Y[answered]
        share, expected, observed, low, high, state = rows["accuracy 0.9", name]
        assert (share, expected) == (best.expected, best.subject_to["accuracy"])
        assert observed == right.mean()
        assert low < observed < high
        assert state == ("broken" if name == "raw" else "not refuted")
        ones = maximize(p, "positives", subject_to={"precision": 0.8})
        share, expected, observed, *_ = rows["precision 0.8", name]
        assert (share, expected) == (ones.k / N, ones.subject_to["precision"])
        assert observed == Y[ones.labels].mean()
    told = [words for words in report.verdict if words.startswith("By ")]
    assert [words.split(",")[0] for words in told] == ["By raw", "By p", "By raw", "By p"]
    share = 100 * rows["accuracy 0.9", "p"][0]
    assert f"By p, {share:.0f} % of 3,000 rows are answered for an accuracy of 0.9: " in told[1]
    assert told[0].endswith("The promise is broken.")
    assert told[1].endswith("The promise is not refuted.")
    assert "labelled 1 for a precision of 0.8" in told[2]
    assert dict(report.facts)["Promises"] == "accuracy 0.9, precision 0.8"
    targets = [name for name in lines(found(report)) if name.startswith("target")]
    assert targets == ["target 0.9"]  # that of precision is not in this picture


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
@pytest.mark.parametrize("word", [None, "ask", 'a,"b'])
def test_decisions_of_the_table_are_judged(table: Path, ending: str, word: Any) -> None:
    source, out = table.with_suffix(f".{ending}"), table.with_name(f"decided.{ending}")
    if ending == "ndjson":
        frame = pyarrow.csv.read_csv(table).to_pylist()
        source.write_text("".join(f"{row}\n".replace("'", '"') for row in frame))
    elif ending == "parquet":
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(table), source)
    options = ["--metric", "coverage", "--at-least", "accuracy=0.9", "--out", out]
    run("decide", source, "--prob", "p", *options, *([] if word is None else ["--abstain", word]))
    rows = rows_of(found(of(out, promises={"accuracy": 0.9})))
    assert rows["accuracy 0.9", "decision"] == pytest.approx(rows["accuracy 0.9", "p"], abs=1e-12)
    assert rows["accuracy 0.9", "decision"][0] > 0.1


def test_decisions_may_be_others(tmp_path: Path) -> None:
    """Ones and zeros that somebody has chosen, some against the likelier label."""
    chosen = np.where(P > 0.9, 1.0, np.where(P < 0.3, 0.0, math.nan))
    chosen[:100] = 0.0
    cells = ["ask" if math.isnan(each) else int(each) for each in chosen]
    path = written(tmp_path / "decided.csv", decision=cells)
    rows = rows_of(found(of(path, promises={"accuracy": 0.9, "precision": 0.9})))
    answered, ones = ~np.isnan(chosen), chosen == 1.0
    share, expected, observed, *_ = rows["accuracy 0.9", "decision"]
    assert share == answered.mean()
    assert observed == (chosen == Y)[answered].mean()
    assert expected == pytest.approx(np.where(ones, P, 1.0 - P)[answered].mean())
    share, expected, observed, *_ = rows["precision 0.9", "decision"]
    assert (share, observed) == (ones.mean(), Y[ones].mean())
    assert expected == pytest.approx(P[ones].mean())
    nothing = Decided("decision", np.full(3, math.nan), P[:3], Y[:3]).promise("accuracy", 0.9)
    assert (nothing.n_answers, nothing.expected) == (0, 1.0)


def test_rows_without_a_label_count_nowhere(tmp_path: Path) -> None:
    labels = ["" if at % 3 else f"{y:g}" for at, y in enumerate(Y)]
    path = written(tmp_path / "late.csv", label=labels, decision=(P > 0.5).astype(int).tolist())
    rows = rows_of(found(of(path, label="label", promises={"accuracy": 0.9})))
    kept = np.arange(N) % 3 == 0
    assert rows["accuracy 0.9", "decision"][:1] == (1.0,)
    best = maximize(P[kept], "coverage", subject_to={"accuracy": 0.9})
    assert rows["accuracy 0.9", "p"][0] == best.expected


def test_without_a_promise_decisions_are_not_drawn(tmp_path: Path) -> None:
    path = written(tmp_path / "decided.csv", decision=(P > 0.5).astype(int).tolist())
    report = of(path)
    assert [table.id for table in found(report).tables] == ["coverage-numbers"]
    assert not [words for words in report.verdict if words.startswith("By ")]


def test_calibrated_probabilities_seldom_break_a_promise_and_seldom_keep_it_for_sure() -> None:
    """Either statement is false in at most half of `LEVEL`, if the accuracy is the target."""
    states = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.7, 0.7, 800)
        y = (rng.random(800) < p).astype(float)
        states.append(state_of(column_of("p", p, y).promise("accuracy", 0.95)))
    assert states.count("not refuted") >= 400 * (1.0 - LEVEL) - 6


@pytest.mark.parametrize(("power", "state"), [(2.0, "broken"), (0.6, "kept")])
@pytest.mark.parametrize("metric", ["accuracy", "precision"])
def test_probabilities_that_are_too_sure_break_it(metric: str, power: float, state: str) -> None:
    odds = (P / (1.0 - P + 1e-9)) ** power
    assert state_of(column_of("p", odds / (1.0 + odds), Y).promise(metric, 0.9)) == state


def test_the_words_have_the_digits_that_matter() -> None:
    close = Answers(0.9999, 100_000, 90_000, 89_990, 0.99991)
    assert "0.99991 expected, 0.99989 observed" in promise_in_words("p", "accuracy", close, "rows")
    whole = Answers(1.0, 10, 10, 10, 1.0)
    words = promise_in_words("p", "accuracy", whole, "10 rows")
    assert words.startswith("By p, 100 % of 10 rows are answered for an accuracy of 1: 1.0000 ")
    assert words.endswith("The promise is not refuted.")


# Several labels, runs, the command line -----------------------------------------------------------


def test_several_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([2.0, 1.0, 1.0], 2_000)
    y = (rng.random((2_000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    raw = truth**3 / (truth**3).sum(axis=1, keepdims=True)
    path = tmp_path / "labels.csv"
    header = "a,b,c,raw a,raw b,raw c,y"
    cells = [
        ",".join([*map(repr, row), "abc"[at]])
        for row, at in zip(np.hstack([truth, raw]).tolist(), y, strict=True)
    ]
    path.write_text("\n".join([header, *cells]))
    score = "raw a=a,raw b=b,raw c=c"
    for given, names in (
        ({"prob": "a,b,c"}, ["the probabilities"]),
        (
            {"prob": "a,b,c", "score": score},
            ["the probabilities before", "the probabilities after"],
        ),
    ):
        report = open_subject(path, Given(label="y", promises={"accuracy": 0.8}, **given)).report()
        section = found(report)
        rows = rows_of(section)
        assert [name for _, name in rows] == names
        top, right = truth.max(axis=1), truth.argmax(axis=1) == y
        best = maximize(top, "positives", subject_to={"precision": 0.8})
        share, expected, observed, *_ = rows["accuracy 0.8", names[-1]]
        assert (share, expected) == (best.k / 2_000, best.subject_to["precision"])
        assert observed == right[best.labels].mean()
        curve = AccuracyCoverageCurve.from_predictions(
            ["abc"[at] for at in y], dict(zip("abc", truth.T, strict=True))
        )
        assert lines(section)[names[-1]].columns["y"].tolist() == curve.accuracy.tolist()
        assert len([words for words in report.verdict if words.startswith("By the prob")]) == len(
            rows
        )
        assert page.render(report)


def test_a_run_shows_its_last_samples(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    events = [*zip(RAW.tolist(), Y.tolist(), strict=True)]
    with Store(path) as store:
        run_stream(events, PlattCalibrator(), lambda *_: None, store)
    report = open_subject(path, Given(promises={"accuracy": 0.9})).report()
    section = found(report)
    assert section.title == "Recent accuracy over coverage"
    assert section.text.startswith("Of the last 2,000 labelled events. The events with")
    rows = rows_of(section)
    best = maximize(RAW[-2_000:], "coverage", subject_to={"accuracy": 0.9})
    assert rows["accuracy 0.9", "score"][0] == best.expected
    told = [words for words in report.verdict if words.startswith("By ")]
    assert len(told) == 2
    assert "% of the last 2,000 labelled events are answered for an accuracy" in told[1]
    plain = open_subject(path, Given()).report()
    assert [table.id for table in found(plain).tables] == ["coverage-numbers"]
    assert dict(report.facts)["Promises"] == "accuracy 0.9"
    assert page.render(report)


def test_a_store_of_a_table_judges_its_output(table: Path) -> None:
    store = table.with_name("run.db")
    options = ["--score", "raw", "--label", "y", "--out", table.with_name("c.csv")]
    run("calibrate", table, *options, "--store", store)
    out = table.with_name("r.html")
    result = run("report", store, "--at-least", "accuracy=.9", "--out", out)
    assert "By raw, " in result.stderr
    assert "By calibrated, " in result.stderr
    assert "The promise is broken." in result.stderr
    assert "Promises" in out.read_text()


def test_a_store_without_labels_of_0_and_1_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.save({"a": IsotonicCalibrator()}, 0)
    report = open_subject(path, Given(promises={"accuracy": 0.9})).report()
    assert report.verdict[-1] == (
        "Whether promises are kept is not known: there are no labels 0 and 1."
    )
    assert open_subject(path, Given()).report().verdict == ()


def test_promises_of_the_command_line() -> None:
    assert promises_in([]) is None
    assert promises_in(["accuracy=.95", "precision=0.8"]) == {"accuracy": 0.95, "precision": 0.8}


OF_TABLE = ["scores.csv", "--score", "raw", "--label", "y", "--prob", "p", "--at-least"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*OF_TABLE, "accuracy"], "--at-least must be a metric and a number, as in"),
        ([*OF_TABLE, "accuracy=95"], "`--at-least accuracy` must lie in [0, 1], got 95.0; divide"),
        ([*OF_TABLE, "accuracy=nan"], "`--at-least accuracy` must lie in [0, 1], got"),
        ([*OF_TABLE, "accuracy=.9", "--at-least", "accuracy=.8"], "got 'accuracy' twice"),
        ([*OF_TABLE, "recall=.9"], "--at-least must be about accuracy or precision, got 'recall'"),
        ([*OF_TABLE, "Accuracy=.9"], "precision, got 'Accuracy'; did you mean 'accuracy'?"),
        ([*OF_TABLE, "accuracy=.9", "--loss", "poisson"], "--at-least does not go with --loss"),
        (
            ["scores.csv", "--label", "y", "--prob", "raw,p", "--at-least", "precision=.9"],
            "--at-least must be about accuracy where --prob has several columns, got precision",
        ),
    ],
)
@pytest.mark.parametrize("command", ["report", "watch"])
def test_wrong_calls(
    table: Path, monkeypatch: pytest.MonkeyPatch, command: str, arguments: Any, message: str
) -> None:
    monkeypatch.chdir(table.parent)
    result = run(command, *arguments, status=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_column_of_answers_knows_no_precision() -> None:
    with pytest.raises(AssertionError):
        Column("labels", np.ones(2), np.ones(2)).promise("precision", 0.5)
