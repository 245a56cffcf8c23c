"""The command that tests whether the probabilities of a table are right."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamcal.metrics.expected import as_goal, expect
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


def waiting(path: Path, **columns: Any) -> tuple[Any, Any, Any]:
    """Write a table, of whose last 1,500 rows one in four has a label.

    Return the last thousand: their probabilities, their labels, and those that have a label.
    """
    rng = np.random.default_rng(5)
    p = rng.random(4_000).round(4)
    y = np.where(rng.random(4_000) < p, 1.0, 0.0)
    y[(np.arange(4_000) >= 2_500) & (rng.random(4_000) < 0.75)] = np.nan
    pd.DataFrame({"p": p, "y": y, **columns}).astype({"y": "Int64"}).to_csv(path, index=False)
    known = np.flatnonzero(~np.isnan(y))[-1000:]
    return p[-1000:], y[-1000:], (p[known], y[known], p[known] >= 0.5)


def test_a_metric_that_is_expected_to_miss_its_bound_is_an_alarm(tmp_path: Path) -> None:
    p, y, labelled = waiting(path := tmp_path / "t.csv")
    n_known = int((~np.isnan(y)).sum())
    for metric, sign, best in (("f1", ">=", 1), ("brier", "<=", -1), ("auc", ">=", 1)):
        value, low, high = expect(p, y, p >= 0.5, as_goal(metric), 0.9, labelled=labelled)
        end = high if best > 0 else low  # only what is clear raises an alarm
        for bound, status in ((end + best * 1e-6, 3), (end - best * 1e-6, 0), (value, 0)):
            condition = f"{metric}{sign}{bound!r}"
            command = ["check", path, "--prob=p", "--label=y", "--expected", condition]
            printed = json.loads((found := run(*command, "--json", status=status)).stderr)
            assert printed["expected"] == {
                condition: {
                    "value": value,
                    "low": low,
                    "high": high,
                    "rows": 1_000,
                    "labelled": n_known,
                    "alarm": status == 3,
                }
            }
            assert printed["alarms"] == []
            words = (
                f"{metric} of the last 1,000 rows is expected to be {value:.4f} (90 %: {low:.4f} to"
                f" {high:.4f})"
            )
            side = "below" if best > 0 else "above"
            alarm = f"{words}, {side} {bound:g}; {n_known} of them have a label\n"
            assert found.stdout == (alarm if status else "")
            texts = run(*command, status=status).stderr.splitlines()
            fine = f"{words}; {n_known} of them have a label: no alarm"
            assert texts[1:] == ([] if status else [fine])


def test_several_conditions_and_keys(tmp_path: Path) -> None:
    p, y, labelled = waiting(path := tmp_path / "t.csv", key=["a", "b"] * 2_000)
    command = ["check", path, "--prob=p", "--label=y", "--key=key", "--alpha=0.1", "--json"]
    conditions = ["--expected= recall >= .1 ", "--expected=log_loss<=0.1"]
    printed = json.loads(run(*command, *conditions, status=3).stderr)
    found = printed["expected"]
    assert {name.strip(): each["alarm"] for name, each in found.items()} == {
        "recall >= .1": False,
        "log_loss<=0.1": True,
    }
    assert printed["keys"] == 2
    wanted = expect(p, y, p >= 0.5, as_goal("log_loss"), 0.8, labelled=labelled)
    assert tuple(found["log_loss<=0.1"].values())[:3] == wanted


def test_decisions_of_a_condition(tmp_path: Path) -> None:
    at = 0.8
    p, y, _ = waiting(path := tmp_path / "t.csv")
    frame = pd.read_csv(path)
    for decision, chosen in ((frame["p"] >= at, p >= at), (["yes"] * 4_000, p >= 0.5)):
        frame.assign(decision=decision).to_csv(path, index=False)
        result = run("check", path, "--prob=p", "--label=y", "--expected=f1>=0", "--json")
        found = json.loads(result.stderr)["expected"]["f1>=0"]
        assert found["value"] == expect(p, y, chosen, as_goal("f1"), 0.9).value


def test_accuracy_of_several_labels_is_a_condition(tmp_path: Path) -> None:
    p, y, labelled = waiting(path := tmp_path / "t.csv")
    frame = pd.read_csv(path, dtype={"y": "Int64"})
    frame.assign(q=1 - frame["p"]).to_csv(path, index=False)
    options = ["--prob=p=1,q=0", "--label=y", "--json"]
    condition = "accuracy>=0.9"
    result = run("check", path, *options, "--expected", condition, status=3)
    found = json.loads(result.stderr)["expected"][condition]
    right = np.where(np.isnan(y), np.nan, (p >= 0.5) == y)
    top = np.maximum(p, 1 - p)
    ones = np.ones(len(p), bool)
    of_labelled = (
        np.maximum(labelled[0], 1 - labelled[0]),
        1.0 * (labelled[2] == labelled[1]),
        np.ones(1_000, bool),
    )
    wanted = expect(top, right, ones, as_goal("accuracy"), 0.9, labelled=of_labelled)
    assert tuple(found.values())[:3] == wanted
    binary = expect(p, y, p >= 0.5, as_goal("accuracy"), 0.9)
    # The correction by known labels is of another variable there, so nearly the same.
    assert wanted.value == pytest.approx(binary.value, abs=0.005)


def test_a_condition_needs_no_label(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("p,q,y,key\n0.9,0.1,,a\n0.2,0.8,,b\n")
    one, several = ["--prob=p", "--label=y"], ["--prob=p,q", "--label=y"]
    for options, n, metric in (
        (one, 1, "f1"),
        (several, 2, "accuracy"),
        ([*one, "--key=key"], 0, "f1"),
    ):
        condition = f"{metric}>=0.99"
        found = run("check", path, *options, "--json", "--expected", condition)
        printed = json.loads(found.stderr)
        assert (printed["rows"], printed["alarms"]) == (0, [])
        assert printed.get("labels", printed.get("keys", 1)) == n
        assert printed["expected"][condition]["labelled"] == 0
    path.write_text("p,y\n")
    assert "has no labelled rows" in run("check", path, *one, "--expected=f1>=0", status=1).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--expected=f1"], "--expected must be a metric and a bound in quotes, as in 'f1>=0.7'"),
        (["--expected=f1>0.5"], "got 'f1>0.5'"),
        (["--expected=f1>=70%"], "got 'f1>=70%'"),
        (["--expected=f1>=nan"], "got 'f1>=nan'"),
        (["--expected=>=0.5"], "got '>=0.5'"),
        (["--expected=f3>=0.5"], "of --expected must be one of f1, f2, f0.5, precision, recall,"),
        (
            ["--expected=f1>=0.5", "--alpha=0.5"],
            "--alpha must be below 0.5 with --expected, got 0.5",
        ),
        (["--expected=f1>=0.5", "--prob=p,key"], "accuracy where --prob has several columns"),
    ],
)
def test_what_is_no_condition(table: Path, options: list[str], message: str) -> None:
    result = run("check", table, "--prob=p", "--label=y", *options, status=2)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
