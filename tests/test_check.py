"""The command that tests whether the probabilities of a table are right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
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
    table.write_text(table.read_text().replace(",b\n", ",\n"))
    result = run("check", table, "--prob=p", "--label=w", "--key=key", "--json", status=3)
    assert result.stdout.startswith("key (empty) is wrong since about labelled row ")
    assert json.loads(result.stderr)["alarms"] == [""]


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_each_of_several_labels_is_tested(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(2)
    truth = rng.dirichlet([2.0, 1.0, 1.0], N)
    codes = (rng.random((N, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    told = np.column_stack([truth[:, 0], truth[:, 1] ** 2, truth[:, 2]])
    frame = pd.DataFrame(told, columns=["p_a", "p_b", "7"])
    frame["y"] = pd.Series(["a", "b", "7"])[codes].to_numpy()
    frame.loc[5, "y"] = None
    path = tmp_path / f"table.{ending}"
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "ndjson":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_parquet(path, index=False)
    tests = {label: CalibrationTest() for label in ("a", "b", "7")}
    known = frame.dropna()
    for label, column in zip(tests, ("p_a", "p_b", "7"), strict=True):
        tests[label].update_many((known["y"] == label).to_numpy(), known[column].to_numpy())
    assert e_bh({label: test.log_e_value for label, test in tests.items()}) == ["b"]
    result = run("check", path, "--prob=p_a=a,p_b=b,7", "--label=y", "--json", status=3)
    assert result.stdout.startswith("the probability of b is wrong since about labelled row ")
    assert result.stdout.count("\n") == 1
    assert tests["b"].in_words in result.stdout
    printed = json.loads(result.stderr)
    assert (printed["alarms"], printed["labels"], printed["rows"]) == (["b"], 3, N - 1)


def test_labels_are_numbers_and_booleans_of_other_programs(table: Path) -> None:
    def n_rows(path: Path, prob: str) -> int:
        result = run("check", path, "--prob", prob, "--label=y", "--on-error=skip", "--json")
        n: int = json.loads(result.stderr)["rows"]
        return n

    # The column of ints that pandas writes if a label is missing.
    pd.DataFrame({"a": 0.5, "b": 0.5, "y": [1, None, 2, 1]}).to_csv(table, index=False)
    assert "1.0" in table.read_text(encoding="utf-8")
    assert n_rows(table, "a=1,b=2") == n_rows(table, "a=1.0,b=2.0") == 3
    assert n_rows(table, "a=1.0,b=1") == 2  # as it is typed, if there is such a label
    path = table.with_suffix(".ndjson")
    path.write_text('{"a": 0.5, "b": 0.5, "y": true}\n{"a": 0.5, "b": 0.5, "y": false}\n')
    assert n_rows(path, "a=True,b=False") == n_rows(path, "a=true,b=false") == 2


def test_quotes_keep_the_spaces_of_a_name(table: Path) -> None:
    """As in files whose commas are followed by spaces."""
    table.write_text("a, b,y\n0.5,0.5,a\n0.25,0.75,b\n", encoding="utf-8")
    for prob in ('a," b"', 'a, " b=b"', '"a"," b = b"'):
        result = run("check", table, "--prob", prob, "--label=y", "--json")
        assert json.loads(result.stderr)["rows"] == 2
    result = run("check", table, "--prob", "a, b", "--label=y", status=1)
    assert "has no column `b`; its columns are `a`, ` b`, `y`; did you mean ` b`?" in result.stderr


def test_labels_that_are_no_columns(table: Path) -> None:
    text = "a,b,y\n0.5,0.5,a\n0.5,0.5,no\n0.5,1.5,b\n0.5,0.5, b \n0.5,0.5,NaN\n"
    table.write_text(text, encoding="utf-8")
    result = run("check", table, "--prob=a,b", "--label=y", status=1)
    assert result.stderr.endswith("`y` must be one of the labels of --prob, a, b, got 'no'\n")
    result = run("check", table, "--prob=a,b", "--label=y", "--on-error=skip", "--json")
    printed = json.loads(result.stderr)
    assert printed["rows"] == 2
    assert sum(printed["skipped"].values()) == 3
    for arguments, status, message in (
        (["--prob=a,b", "--key=y"], 2, "--key does not go with several columns of --prob"),
        (["--prob=a", "--key=y"], 2, "--key must be another column than --label, got 'y'"),
        (["--prob=a,b=a"], 2, "--prob must name each column and each label once, got 'a,b=a'"),
        (["--prob=a,"], 2, "--prob must be a column, or columns as in `a,b,c`"),
        ([f"--prob={','.join(map(str, range(1001)))}"], 2, "--prob must name at most 1,000"),
    ):
        assert message in run("check", table, *arguments, "--label=y", status=status).stderr


def test_labels_of_a_column_of_floats(tmp_path: Path) -> None:
    """Ints with empty cells are floats for pandas."""
    columns = {"a": [0.5, 0.2, 0.1], "b": [0.5, 0.8, 0.9], "y": pa.array([0.0, None, 1.0])}
    pq.write_table(pa.table(columns), path := tmp_path / "t.parquet")
    result = run("check", path, "--prob=a=0,b=1", "--label=y", "--json")
    assert json.loads(result.stderr)["rows"] == 2


def test_names_with_commas_stand_in_quotes(table: Path) -> None:
    table.write_text('"a, b",c,y\n0.5,0.5,1\n0.5,0.5,0\n', encoding="utf-8")
    printed = run("check", table, '--prob="a, b"', "--label=y", "--json").stderr
    assert json.loads(printed)["rows"] == 2
    printed = run("check", table, '--prob="a, b"=0, c=1', "--label=y", "--json").stderr
    assert json.loads(printed)["labels"] == 2
    picture, page = table.with_name("p.svg"), table.with_name("r.html")
    run("plot", table, '--prob="a, b"', "--label=y", "--out", picture)
    run("report", table, "--score=c", '--prob="a, b"', "--label=y", "--out", page)
    assert picture.exists()
    assert page.exists()


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
