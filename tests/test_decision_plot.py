"""The picture of the utility curve, and `streamcal decide`."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from matplotlib.offsetbox import TextArea

from streamcal.decision import maximize, utility_curve
from streamcal.plot import UtilityCurveDisplay
from tests import runner

mpl.use("Agg")


run = partial(runner.run, "decide")


@pytest.fixture
def table(tmp_path: Path) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    p = rng.random(50).round(3)
    y = (rng.random(50) < p).astype(int)
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["p,y", *(f"{a},{b}" for a, b in zip(p, y, strict=True)), ""]))
    return path, p, y


def test_the_curve_and_the_choice_are_drawn() -> None:
    p = np.random.default_rng(2).random(5_000)
    display = UtilityCurveDisplay.from_probabilities(p, "jaccard", ax=Figure().subplots())
    x, y = display.lines_[0].get_data()
    psi = utility_curve(p, "jaccard")
    np.testing.assert_allclose(y, psi[x])
    assert display.decision.k in x
    assert len(x) < 2_100
    labels = [area.get_text() for area in display.legend_.findobj(TextArea)]
    k, n = display.decision.k, len(display.probabilities)
    threshold, best = display.probabilities[k - 1], display.decision.expected
    assert f"label {k:,} of {n:,} as 1: p ≥ {threshold:#.2g}, jaccard {best:.3g}" in labels
    display.figure_.draw_without_rendering()
    for line in display.ax_.collections:  # at the number chosen
        assert line.get_window_extent().y1 <= display.legend_.get_window_extent().y0
    again = display.plot(ax=Figure().subplots())
    assert again is display


def test_no_samples_are_drawn_too() -> None:
    display = UtilityCurveDisplay.from_probabilities([], "f1", ax=Figure().subplots())
    assert display.lines_[0].get_xdata().tolist() == [0]


def test_the_table_is_decided_jointly(table: Any, tmp_path: Path) -> None:
    path, p, y = table
    out, picture = tmp_path / "out.csv", tmp_path / "curve.png"
    result = run(path, "--prob", "p", "--label", "y", "--out", out, "--plot", picture)
    best = maximize(p, "f1")
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [float(row["decision"]) for row in rows] == best.labels.astype(float).tolist()
    assert [row["y"] for row in rows] == [str(label) for label in y]
    assert f"50 rows decided, {best.k} of them 1" in result.stderr
    assert f"expected f1 {best.expected:.6f}" in result.stderr
    tp = int((best.labels & (y == 1)).sum())
    assert f"reached f1 {2 * tp / (best.k + y.sum()):.6f}, 50 rows" in result.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_other_formats_and_metrics(tmp_path: Path) -> None:
    path = tmp_path / "s.ndjson"
    path.write_text("".join(json.dumps({"p": p}) + "\n" for p in (0.5, 0.5, 0.5)))
    result = run(path, "--prob", "p", "--metric", "sec", "--new-column", "yes")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert sum(row["yes"] for row in rows) in (1.0, 2.0)
    assert "of rows with equal probability the first" in result.stderr


def test_bad_rows_stop_or_are_skipped(tmp_path: Path) -> None:
    path, out = tmp_path / "s.csv", tmp_path / "o.csv"
    path.write_text("p\n0.9\n1.5\n0.2\n")
    result = run(path, "--prob", "p", "--out", out, status=1)
    assert "row 2: `p` must be a probability in [0, 1], got '1.5'" in result.stderr
    assert not out.exists()
    result = run(path, "--prob", "p", "--out", out, "--on-error", "skip")
    assert "1 row skipped" in result.stderr
    assert len(out.read_text().splitlines()) == 3


def test_rows_that_are_not_sure_get_a_word(table: Any, tmp_path: Path) -> None:
    path, p, y = table
    best = maximize(p, "coverage", subject_to={"accuracy": 0.85})
    options: Any = [path, "--prob", "p", "--label", "y", "--metric", "coverage"]
    options += ["--at-least", "accuracy=.85"]
    words = {True: "1", False: "0", None: "ask"}
    written: Any = [([], ""), (["--abstain", "ask"], "ask"), (["--abstain", 'a,"b'], 'a,"b')]
    for more, word in written:
        result = run(*options, *more)
        rows = list(csv.DictReader(result.stdout.splitlines()))
        words[None] = word
        assert [row["decision"] for row in rows] == [words[label] for label in best.labels]
    answered = np.not_equal(best.labels, None)
    right = (best.labels == 1)[answered] == (y == 1)[answered]
    n = int(answered.sum())
    assert f"50 rows, {n} of them answered (from {best.threshold:.6g} up), {best.k} with 1" in (
        result.stderr
    )
    assert (
        f"expected accuracy {best.subject_to['accuracy']:.6f}, at least 0.85;"
        f" reached {right.mean():.6f}, {n} answers with a label"
    ) in result.stderr
    printed = json.loads(run(*options, "--json").stderr)
    assert printed["targets"]["accuracy"].keys() == {"at_least", "expected", "reached"}
    assert (printed["answered"], printed["ones"], printed["labelled"]) == (n, best.k, n)
    assert printed["expected"] == pytest.approx(n / 50)


def test_abstentions_in_other_formats(tmp_path: Path) -> None:
    p = [0.99, 0.5, 0.02]
    lines, parquet = tmp_path / "s.ndjson", tmp_path / "s.parquet"
    lines.write_text("".join(json.dumps({"p": each}) + "\n" for each in p))
    pq.write_table(pa.table({"p": p}), parquet)
    options = ("--prob", "p", "--metric", "coverage", "--at-least", "accuracy=0.95")
    for word, in_lines, in_parquet in (
        ("", [1.0, None, 0.0], [1.0, None, 0.0]),
        ("ask", [1.0, "ask", 0.0], ["1", "ask", "0"]),
    ):
        more = ["--abstain", word] if word else []
        rows = run(lines, *options, *more).stdout.splitlines()
        assert [json.loads(row)["decision"] for row in rows] == in_lines
        out = tmp_path / f"out{word}.parquet"
        run(parquet, *options, *more, "--out", out)
        assert pq.read_table(out)["decision"].to_pylist() == in_parquet


def test_targets_on_the_command_line(table: Any, tmp_path: Path) -> None:
    path, p, y = table
    best = maximize(p, "positives", subject_to={"precision": 0.8})
    result = run(
        path, "--prob", "p", "--label", "y", "--metric=positives", "--at-least=precision=.8"
    )
    rows = csv.DictReader(result.stdout.splitlines())
    assert [row["decision"] == "1" for row in rows] == best.labels.tolist()
    assert f"50 rows decided, {best.k} of them 1 (from {best.threshold:.6g} up)" in result.stderr
    reached = y[best.labels].mean()
    assert f"at least 0.8; reached {reached:.6f}, 50 rows with a label" in result.stderr
    budget = run(path, "--prob", "p", "--at-most", "positives=3", "--json")
    assert json.loads(budget.stderr)["ones"] == 3
    both = run(path, "--prob=p", "--at-least=recall=.2", "--at-least=precision=.7")
    assert both.stderr.count("at least 0.") == 2
    empty = run(path, "--prob", "p", "--metric", "positives", "--at-least", "precision=1")
    assert "50 rows decided, 0 of them 1\n" in empty.stderr
    empty = run(path, "--prob", "p", "--metric", "positives", "--at-least", "precision=1", "--json")
    assert json.loads(empty.stderr) | {"skipped": {}} == {
        "rows": 50,
        "ones": 0,
        "threshold": "inf",
        "skipped": {},
        "metric": "positives",
        "expected": 0.0,
        "bound": json.loads(empty.stderr)["bound"],
        "targets": {"precision": {"at_least": 1.0, "expected": 1.0}},
    }
    missed = run(path, "--prob", "p", "--at-least", "f1=.999", status=1)
    assert f"{path}: `--at-least` must be within reach, got 0.999 as the least f1" in missed.stderr
    assert missed.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--prob", "p"], "can't be standard input"),
        (["nowhere.csv", "--prob", "p"], "there is no file"),
        (["{table}", "--prob", "p", "--metric", "f7"], "`--metric` must be one of"),
        (["{table}", "--prob", "p", "--plot", "curve.txt"], "must end in"),
        (
            ["{table}", "--prob", "p", "--metric", "coverage", "--abstain", "1"],
            "--abstain must be a word that is no number, got '1'",
        ),
        (
            ["{table}", "--prob", "p", "--metric", "coverage", "--abstain", "True"],
            "--abstain must be a word that is no number, got 'True'",
        ),
        (["{table}", "--prob", "p", "--abstain", "x"], "--abstain needs --metric coverage, got"),
        (["{table}", "--prob=p", "--metric=coverage", "--plot=c.png"], "--plot shows the curve of"),
        (["{table}", "--prob=p", "--at-least=f1=2"], "`--at-least f1` must lie in [0, 1], got 2"),
        (["{table}", "--prob=p", "--at-least=f1=nan"], "`--at-least f1` must lie in [0, 1], got"),
        (["{table}", "--prob=p", "--at-least=f9=1"], "`--at-least` must be one of f1, "),
        (["{table}", "--prob=p", "--at-least=f1"], "--at-least must be a metric and a number"),
        (["{table}", "--prob=p", "--at-least=f1=.1", "--at-least=f1=.2"], "got 'f1' twice"),
        (["{table}", "--prob=p", "--at-least=positives=2"], "--at-most positives=200 limits"),
        (["{table}", "--prob=p", "--at-most=positives=-2"], "as in positives=200, got"),
        (["{table}", "--prob=p", "--at-most=f1=2"], "as in positives=200, got 'f1=2'"),
        (
            ["{table}", "--prob=p", "--metric=coverage", "--at-most=positives=2"],
            "`--at-least` must be of accuracy alone for 'coverage'",
        ),
        (
            ["{table}", "--prob=p", "--metric=coverage", "--abstain=ask"],
            "--metric coverage needs a target: without --at-least accuracy=0.95, or another share",
        ),
        (
            ["{table}", "--prob=p", "--metric=positives"],
            "--metric positives needs a target: without --at-least precision=0.95, or another",
        ),
    ],
)
def test_wrong_calls(arguments: Any, message: str, table: Any) -> None:
    arguments = [argument.format(table=table[0]) for argument in arguments]
    assert message in run(*arguments, status=2).stderr
