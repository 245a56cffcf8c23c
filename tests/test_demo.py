import csv
import dataclasses
import pickle
import runpy
from pathlib import Path

import pytest
from river import evaluate, metrics, preprocessing

from streamcal import CalibratedClassifier, HedgedCalibrator, IsotonicCalibrator, PlattCalibrator
from streamcal.cli import demo_table
from tests.runner import run


@pytest.fixture(scope="module")
def rows() -> list[demo_table.Row]:
    return demo_table.run(limit=150)


def test_one_row_for_each_pair(rows: list[demo_table.Row]) -> None:
    assert [(row.stream, row.model) for row in rows] == [
        (stream.__name__, model) for stream in demo_table.STREAMS for model in demo_table.MODELS
    ]
    for row in rows:
        assert 149 <= row.n_samples <= 150
        for scores in (row.log_loss, row.brier):
            assert tuple(scores) == demo_table.CALIBRATIONS
            assert all(score >= 0.0 for score in scores.values())


def test_rows_are_plain_and_the_same_each_time(rows: list[demo_table.Row]) -> None:
    assert demo_table.run(limit=150) == rows
    assert pickle.loads(pickle.dumps(rows)) == rows
    assert dataclasses.asdict(rows[0])["stream"] == "Phishing"


@pytest.mark.parametrize("at", range(4), ids=list(demo_table.MODELS))
def test_rows_are_what_river_measures(rows: list[demo_table.Row], at: int) -> None:
    """A row holds the numbers that a user of the wrapper gets from river's own evaluation."""

    def measure(model: object) -> float:
        samples = demo_table.STREAMS[0]().take(150)
        return float(evaluate.progressive_val_score(samples, model, metrics.LogLoss()).get())

    model = preprocessing.StandardScaler() | demo_table.MODELS[rows[at].model]()
    measured = {
        "raw": measure(model.clone()),
        "Platt": measure(CalibratedClassifier(model.clone(), PlattCalibrator())),
        "isotonic": measure(CalibratedClassifier(model.clone(), IsotonicCalibrator())),
        "default": measure(CalibratedClassifier(model.clone(), HedgedCalibrator())),
    }
    assert rows[at].log_loss == pytest.approx(measured, abs=1e-9)


def test_the_table_in_markdown_marks_the_best(rows: list[demo_table.Row]) -> None:
    script = Path(__file__).parents[1] / "docs" / "readme_table.py"
    lines = runpy.run_path(str(script))["table_markdown"](rows).splitlines()
    assert len(lines) == 2 + len(rows)
    assert {line.count("|") for line in lines} == {11}
    assert all(line.count("**") >= 4 for line in lines[2:])  # the best of each score


def test_for_a_person(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[demo_table.Row]
) -> None:
    folder = tmp_path / "made" / "here"
    assert demo_table.run(folder, limit=150) == rows
    printed, progress = capsys.readouterr()
    assert "Shuttle" in printed
    assert "…" not in printed  # it fits into 80 columns
    assert " 2 of 12: GaussianNB learns Phishing" in progress
    with open(folder / "scores.csv", newline="") as file:
        scores = [(float(row["p"]), float(row["y"])) for row in csv.DictReader(file)]
    assert len(scores) == 150
    brier = sum((p - y) ** 2 for p, y in scores) / len(scores)
    assert brier == pytest.approx(rows[0].brier["raw"])
    out = folder / "calibrated.csv"  # commands print the numbers of the table
    done = run("calibrate", folder / "scores.csv", "--score", "p", "--label", "y", "--out", out)
    raw, calibrated = rows[0].log_loss["raw"], rows[0].log_loss["default"]
    assert f"{raw:.4f} -> {calibrated:.4f}" in done.stderr
    assert f"{rows[0].log_loss['raw']:.3f}" in printed
    assert str(folder / "reliability.png") in printed
    assert (folder / "reliability.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_is_printed_though_a_file_can_not_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "reliability.png").mkdir()
    with pytest.raises(IsADirectoryError):
        demo_table.run(tmp_path, limit=5)
    assert "Phishing" in capsys.readouterr().out


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "10"])
def test_a_bad_limit_is_refused(limit: object) -> None:
    with pytest.raises(ValueError, match="`limit` must be a positive int or None"):
        demo_table.run(limit=limit)
