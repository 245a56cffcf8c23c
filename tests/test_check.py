"""The command that tests whether the probabilities of a table are right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamcal.monitoring import CalibrationTest, e_bh
from tests.runner import run

N = 3_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Probabilities p; right labels y, wrong ones z, and w that is wrong for the key b alone."""
    rng = np.random.default_rng(1)
    p, draws, keys = rng.random(N), rng.random(N), rng.choice(["a", "b", "c"], N)
    rows = zip(
        p, draws < p, draws < p**2, draws < np.where(keys == "b", p**2, p), keys, strict=True
    )
    lines = [f"{p:.6f},{int(y)},{int(z)},{int(w)},{key}" for p, y, z, w, key in rows]
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(["p,y,z,w,key", *lines, "0.5,,,,a", ""]), encoding="utf-8")
    return path


def columns(path: Path, label: str) -> tuple[Any, Any, Any]:
    """Return probabilities, labels and keys of the labelled rows."""
    found = pd.read_csv(path)[:N]
    return found["p"].to_numpy(), found[label].to_numpy() == 1.0, found["key"].to_numpy()


def test_wrong_probabilities_are_an_alarm(table: Path) -> None:
    p, y, _ = columns(table, "z")
    test = CalibrationTest()
    test.update_many(y, p)
    assert test.since is not None
    result = run("check", table, "--prob=p", "--label=z", status=3)
    assert result.stdout.startswith(
        f"p is wrong since about labelled row {test.since + 1} of 3,000"
    )
    assert test.in_words in result.stdout
    assert "an alarm" in result.stderr


def test_right_probabilities_are_none(table: Path) -> None:
    result = run("check", table, "--prob=p", "--label=y", "--json")
    assert result.stdout == ""
    printed = json.loads(result.stderr)
    test = CalibrationTest()
    test.update_many(*columns(table, "y")[1::-1])
    assert printed["rows"] == N
    assert printed["alarms"] == []
    assert printed["log_e_value"] == pytest.approx(test.log_e_value)
    assert run("check", table, "--prob=p", "--label=y", "--quiet").output == ""


def test_keys_are_tested_by_themselves(table: Path) -> None:
    p, w, keys = columns(table, "w")
    tests = {key: CalibrationTest() for key in "abc"}
    for key, test in tests.items():
        test.update_many(w[keys == key], p[keys == key])
    assert e_bh({key: test.log_e_value for key, test in tests.items()}) == ["b"]
    result = run("check", table, "--prob=p", "--label=w", "--key=key", "--json", status=3)
    assert result.stdout.startswith("key b is wrong since about labelled row ")
    printed = json.loads(result.stderr)
    assert (printed["alarms"], printed["keys"], printed["rows"]) == (["b"], 3, N)


def test_a_label_that_had_the_probability_0(table: Path) -> None:
    table.write_text("p,y\n0,1\n0.5,1\n", encoding="utf-8")
    result = run("check", table, "--prob=p", "--label=y", "--json", status=3)
    assert "e-value infinite (a label had the probability 0)" in result.stdout
    assert json.loads(result.stderr)["log_e_value"] == "inf"


def test_what_cannot_be_tested(table: Path) -> None:
    for arguments, status, message in (
        (["--prob=q", "--label=y"], 1, "has no column `q`"),
        (["--prob=p", "--label=p"], 1, "must be 0 or 1"),
        (["--prob=p", "--label=y", "--alpha=0"], 2, "`--alpha` must lie in (0, 1), got 0.0"),
        (["--prob=p", "--label=y", "--quiet", "--json"], 2, "--quiet prints no summary"),
    ):
        assert message in run("check", table, *arguments, status=status).stderr
    table.write_text("p,y\n0.5,\n", encoding="utf-8")
    result = run("check", table, "--prob=p", "--label=y", status=1)
    assert "has no labelled rows: there is nothing to test" in result.stderr
    assert "there is no file" in run("check", "none.csv", "--prob=p", "--label=y", status=2).stderr
