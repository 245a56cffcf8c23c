"""The picture of the utility curve, and `streamcal decide`."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--prob", "p"], "can't be standard input"),
        (["nowhere.csv", "--prob", "p"], "there is no file"),
        (["{table}", "--prob", "p", "--metric", "f7"], "`--metric` must be one of"),
        (["{table}", "--prob", "p", "--plot", "curve.txt"], "must end in"),
    ],
)
def test_wrong_calls(arguments: Any, message: str, table: Any) -> None:
    arguments = [argument.format(table=table[0]) for argument in arguments]
    assert message in run(*arguments, status=2).stderr
