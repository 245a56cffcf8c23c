"""The picture of thresholds and the command that finds them."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.offsetbox import TextArea

from streamcal import optimal_thresholds
from streamcal.plot import ThresholdDisplay
from tests import runner


@pytest.fixture(scope="module")
def samples() -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    labels = rng.integers(1, 5, 300)
    return labels + rng.normal(0, 0.6, 300), labels


def test_densities_and_thresholds_are_drawn(samples: Any) -> None:
    scores, labels = samples
    found = optimal_thresholds(scores, labels)
    ax = Figure().subplots()
    display = ThresholdDisplay.from_predictions(scores, labels, found, names="abcd", ax=ax)
    assert display.ax_ is ax
    shares = (display.densities * np.diff(display.edges)).sum(axis=1)
    np.testing.assert_allclose(shares, np.bincount(labels)[1:] / 300)
    lines = [line.get_xdata()[0] for line in ax.lines]
    assert lines == found.thresholds.tolist()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert [name.split()[0] for name in names] == list("abcd")
    assert [area.get_text() for area in display.legend_.findobj(TextArea)] == ["thresholds"]
    display.figure_.canvas.draw()


def test_many_labels_and_infinite_thresholds() -> None:
    thresholds = np.r_[-np.inf, np.zeros(18), np.inf]
    display = ThresholdDisplay.from_predictions([1.0, 1.0], [1, 21], thresholds)
    assert len(display.ax_.lines) == 1
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert names[0] == "1 (50%)"
    assert names[-1] == "21 (50%)"
    assert len(names) <= 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], [0.5]), "`scores` must hold at least one sample"),
        (([1.0], [1], [1.0, 0.5]), "`thresholds` must be one or more sorted numbers"),
        (([1.0], [1], []), "`thresholds` must be one or more sorted numbers"),
        (([1.0], [1], [np.nan]), "`thresholds` must be one or more sorted numbers"),
        (([1.0], [3], [0.5]), "`y` must be ints from 1 to 2, got 3"),
        (([1.0, 2.0], [1], [0.5]), "`y` must have one value per score"),
    ],
)
def test_bad_input(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThresholdDisplay.from_predictions(*arguments)


def test_bad_names() -> None:
    with pytest.raises(ValueError, match="`names` must be one per label"):
        ThresholdDisplay.from_predictions([1.0], [1], [0.5], names="abc")


run = partial(runner.run, "thresholds", status=None)


@pytest.fixture
def table(samples: Any, tmp_path: Path) -> Any:
    path = tmp_path / "scores.csv"
    rows = [f"{score},{label},2" for score, label in zip(*samples, strict=True)]
    path.write_text("\n".join(["s,stars,w", *rows, "0.5,,2", ""]))
    return path


@pytest.mark.parametrize("loss", ["absolute", "squared", "zero-one", "quadratic-kappa"])
def test_the_command_finds_what_the_function_finds(table: Any, samples: Any, loss: str) -> None:
    done = run(table, "--score", "s", "--label", "stars", "--weight", "w", "--loss", loss)
    assert done.exit_code == 0, done.output
    found = optimal_thresholds(*samples, loss=loss)
    assert [float(line) for line in done.stdout.split()] == found.thresholds.tolist()
    assert "300 rows, 4 labels" in done.stderr
    value = 1 - found.risk if loss == "quadratic-kappa" else found.risk / 300
    assert f"{value:.4f}" in done.stderr


def test_the_command_draws_and_balances(table: Any, samples: Any, tmp_path: Path) -> None:
    picture = tmp_path / "cuts.png"
    done = run(
        table, "--score", "s", "--label", "stars", "--balanced", "--n-labels", 5, "--plot", picture
    )
    assert done.exit_code == 0, done.output
    assert picture.stat().st_size > 5_000
    found = optimal_thresholds(*samples, 5, class_weight="balanced")
    assert [float(line) for line in done.stdout.split()] == found.thresholds.tolist()
    assert "macro-averaged" in done.stderr


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--loss", "mae"], 2, "`--loss` must be one of"),
        (["--loss", "asymmetric"], 2, "`--loss` must be one of"),
        (["--method", "fast"], 2, "`--method` must be one of"),
        (["--n-labels", "1"], 2, "`--n-labels` must be an int from 2"),
        (["--n-labels", "3"], 1, "`stars` must be an int from 1 to 3, got '4'"),
        (["--plot", "cuts.txt"], 2, "a picture must end in"),
    ],
)
def test_wrong_calls_are_one_line(table: Any, options: Any, status: int, message: str) -> None:
    done = run(table, "--score", "s", "--label", "stars", *options)
    assert done.exit_code == status
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_bad_rows_stop_or_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("s,y\n0.1,1\n0.2,0\n0.9,2\n")
    done = run(path, "--score", "s", "--label", "y")
    assert done.exit_code == 1
    assert "`y` must be an int from 1 to 32767, got '0'" in done.stderr
    done = run(path, "--score", "s", "--label", "y", "--on-error", "skip")
    assert (done.exit_code, done.stdout) == (0, "0.5\n")
    path.write_text("s,y\n0.1,\n")
    done = run(path, "--score", "s", "--label", "y")
    assert done.exit_code == 1
    assert "no labelled rows" in done.stderr
