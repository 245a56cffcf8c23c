"""The command line: what a user types, the output, and the messages of errors."""

import array
import contextlib
import csv
import datetime
import errno
import fcntl
import importlib
import inspect
import io
import itertools
import json
import math
import os
import py_compile
import re
import signal
import subprocess
import sys
import termios
import threading
import types
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import typer
from river import metrics, stream

import streamcal
from streamcal import calibration, cli, losses
from streamcal.calibration import IsotonicCalibrator
from streamcal.cli import calibrate as calibrate_module
from streamcal.cli import calibrate as calibrating
from streamcal.cli import calibrator_settings, main
from streamcal.cli.console import progress
from streamcal.cli.demo import demo
from streamcal.cli.rows import Rows, group_rows
from streamcal.cli.sample import UniformSample
from streamcal.cli.thresholds import thresholds
from streamcal.durable import KeyedCalibrator, Store
from streamcal.durable.keys import name_of
from streamcal.tables.base import Chunk
from streamcal.tables.open import open_table
from streamcal.tables.output import Output
from tests import WITHOUT_BYTE_CODE
from tests.runner import run

PNG = b"\x89PNG\r\n\x1a\n"


def calibrate(path: Any, *arguments: Any, calibrator: str = "isotonic", **options: Any) -> Any:
    columns = ("--score", "p", "--label", "y")
    return run("calibrate", path, *columns, "--calibrator", calibrator, *arguments, **options)


def column(text: Any, name: Any) -> list[Any]:
    """Return a column of CSV text as floats."""
    if isinstance(text, Path):
        text = text.read_text()
    return [float(row[name]) for row in csv.DictReader(io.StringIO(text))]


def expected(scores: Any, labels: Any, weights: Any = None, **parameters: Any) -> Any:
    """Return what a calibrator answers, one call at a time; a label of None is not learned."""
    calibrator = IsotonicCalibrator(**parameters)
    answers = []
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        answers.append(calibrator.predict_one(score))
        if label is not None:
            calibrator.learn_one(score, label, 1.0 if weights is None else weights[i])
    return answers


@pytest.fixture
def sample() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    scores = rng.random(60).round(2)
    return scores.tolist(), (rng.random(60) < scores**2).astype(int).tolist()


@pytest.fixture
def scores_csv(tmp_path: Path, sample: Any) -> Any:
    path = tmp_path / "scores.csv"
    lines = [f"{i},{p},{y},{'xyz'[i % 3]}" for i, (p, y) in enumerate(zip(*sample, strict=True))]
    path.write_text("\n".join(["id,p,y,city", *lines, ""]))
    return path


# Calibrate: values --------------------------------------------------------------------------------


def test_each_row_is_predicted_before_it_is_learned(
    scores_csv: Any, sample: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    result = calibrate(scores_csv, "--out", out)
    assert column(out, "calibrated") == expected(*sample)
    rows, before = (csv.reader(path.read_text().splitlines()) for path in (out, scores_csv))
    assert [row[:-1] for row in rows] == list(before)
    assert result.stdout == ""
    assert "60 rows calibrated\n" in result.stderr


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--window", 20], {"window": 20}),
        (["--half-life", 7.5], {"half_life": 7.5}),
        (["--max-scores", 8], {"max_scores": 8}),
        (["--prior", 0.25], {"prior": 0.25}),
        (["--loss", "squared"], {"loss": "squared"}),
        (["--interpolation", "step"], {"interpolation": "step"}),
    ],
)
def test_options_reach_the_calibrator(
    scores_csv: Any, sample: Any, options: Any, parameters: Any
) -> None:
    result = calibrate(scores_csv, *options)
    assert column(result.stdout, "calibrated") == expected(*sample, **parameters)


CALIBRATORS = {
    "hedge": streamcal.HedgedCalibrator,
    "isotonic": IsotonicCalibrator,
    "platt": streamcal.PlattCalibrator,
    "beta": streamcal.BetaCalibrator,
    "histogram": streamcal.HistogramCalibrator,
}


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_each_calibrator_answers_as_in_python(
    scores_csv: Any, sample: Any, name: Any, batch_size: int
) -> None:
    calibrator, answers = CALIBRATORS[name](), []
    for score, label in zip(*sample, strict=True):
        answers.append(calibrator.predict_one(score))
        calibrator.learn_one(score, label)
    result = calibrate(scores_csv, "--batch-size", batch_size, calibrator=name)
    assert column(result.stdout, "calibrated") == pytest.approx(answers, rel=1e-12)


def test_the_default_is_that_of_the_library(scores_csv: Any) -> None:
    given = run("calibrate", scores_csv, "--score", "p", "--label", "y").stdout
    assert given == calibrate(scores_csv, calibrator="hedge").stdout


def test_each_option_is_a_parameter_of_the_calibrators_that_take_it() -> None:
    table = calibrator_settings._CALIBRATORS
    assert set(table) == set(calibrator_settings.Method)
    for name, kind in table.items():
        assert kind.class_of(calibration) is CALIBRATORS[name]
        assert set(kind.options) <= set(inspect.signature(CALIBRATORS[name]).parameters)
    options = table[calibrator_settings.Method.isotonic].options
    assert set(options) == set(inspect.signature(IsotonicCalibrator).parameters)


@pytest.mark.parametrize(
    ("name", "option", "value", "fit"),
    [
        ("hedge", "--window", "9", "isotonic"),
        ("hedge", "--half-life", "9", "isotonic or platt or beta or histogram"),
        ("platt", "--loss", "log", "isotonic"),
        ("histogram", "--interpolation", "step", "isotonic"),
    ],
)
def test_an_option_of_another_calibrator_is_refused(
    scores_csv: Any, name: str, option: str, value: str, fit: str
) -> None:
    result = calibrate(scores_csv, option, value, calibrator=name, status=2)
    assert f"{option} needs --calibrator {fit}, got {name}" in result.stderr


def test_a_half_life_reaches_other_calibrators(scores_csv: Any, sample: Any) -> None:
    calibrator, answers = streamcal.PlattCalibrator(half_life=7.5), []
    for score, label in zip(*sample, strict=True):
        answers.append(calibrator.predict_one(score))
        calibrator.learn_one(score, label)
    result = calibrate(scores_csv, "--half-life", 7.5, calibrator="platt")
    assert column(result.stdout, "calibrated") == pytest.approx(answers, rel=1e-12)


def test_scores_that_are_no_probabilities_need_the_isotonic_calibrator(tmp_path: Path) -> None:
    path = tmp_path / "margins.csv"
    path.write_text("p,y\n0.5,1\n-3,0\n")
    result = calibrate(path, calibrator="hedge", status=1)
    assert (
        "must be a probability in [0, 1], got '-3'; other numbers need --calibrator iso"
        in result.stderr
    )
    assert "1 row calibrated" in calibrate(path, "--on-error", "skip", calibrator="hedge").stderr
    assert "2 rows calibrated" in calibrate(path).stderr


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_the_result_does_not_depend_on_the_batch(
    scores_csv: Any, sample: Any, batch_size: int
) -> None:
    result = calibrate(scores_csv, "--batch-size", batch_size)
    assert column(result.stdout, "calibrated") == expected(*sample)


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_one_calibrator_for_each_key_and_the_order_stays(
    scores_csv: Any, sample: Any, batch_size: int
) -> None:
    result = calibrate(scores_csv, "--key", "city", "--batch-size", batch_size)
    scores, labels = map(np.array, sample)
    values = np.empty(60)
    for k in range(3):
        values[k::3] = expected(scores[k::3], labels[k::3].tolist())
    assert column(result.stdout, "calibrated") == values.tolist()
    assert column(result.stdout, "id") == list(range(60))
    assert "60 rows calibrated, 3 keys" in result.stderr


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_keys_expire(tmp_path: Path, batch_size: int) -> None:
    path = tmp_path / "in.csv"
    keys = ["a", "b", "b", "b", "b", "b", "b", "a", "b"]
    path.write_text("p,y,k\n" + "".join(f".5,1,{key}\n" for key in keys))
    out, store = tmp_path / "out.csv", tmp_path / "run.db"
    options = "--key", "k", "--batch-size", batch_size, "--expire-after", 3
    for more in ((), ("--out", out, "--store", store)):
        result = calibrate(path, *options, *more)
        text = out.read_text() if more else result.stdout
        values = column(text, "calibrated")
        assert values[7] == values[0]  # a new key again
        assert values[8] > values[1]
        assert "2 keys" in result.stderr
    assert "--key" in calibrate(path, "--expire-after", 3, status=2).stderr
    assert "--expire-after" in calibrate(path, "--key", "k", "--expire-after", 0, status=2).stderr


def test_weights_and_name_of_the_column(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y,n\n.2,0,3\n.8,1,.5\n.5,1,1\n.5,0,2\n")
    result = calibrate(path, "--weight", "n", "--new-column", "q")
    scores, labels, weights = [0.2, 0.8, 0.5, 0.5], [0, 1, 1, 0], [3.0, 0.5, 1.0, 2.0]
    assert column(result.stdout, "q") == expected(scores, labels, weights)


def test_a_row_without_a_label_is_predicted_and_not_learned(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    labels = [None, 1, None, None, 0, 1, None]
    scores = [0.3, 0.6, 0.6, 0.2, 0.4, 0.5, 0.5]
    rows = [f"{p},{'' if y is None else y}" for p, y in zip(scores, labels, strict=True)]
    path.write_text("\n".join(["p,y", *rows]))
    result = calibrate(path)
    assert column(result.stdout, "calibrated") == expected(scores, labels)
    assert "7 rows calibrated, 4 of them without a label" in result.stderr


def test_labels_may_be_words(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n.5,TRUE\n.4,false\n.6,1\n.6,0.0\n.6,1\n")
    result = calibrate(path)
    assert column(result.stdout, "calibrated") == expected(
        [0.5, 0.4, 0.6, 0.6, 0.6], [1, 0, 1, 0, 1]
    )


@pytest.mark.parametrize("name", ["hedge", "isotonic"])
@pytest.mark.parametrize("delay", [0, 1, 2, 13, "d"])
def test_a_label_is_learned_as_late_as_in_river(
    tmp_path: Path, sample: Any, name: str, delay: Any
) -> None:
    scores, labels = sample
    delays = [i % 9 for i in range(60)]
    rows = [f"{p},{y},{d}" for p, y, d in zip(*sample, delays, strict=True)]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["p,y,d", *rows, ""]))
    if delay != "d":
        delays = [delay] * 60
    start = datetime.datetime(2000, 1, 1)  # an integer delay of river's needs no moment
    days = [start + datetime.timedelta(i) for i in range(60)]
    known = {day: datetime.timedelta(d) for day, d in zip(days, delays, strict=True)}
    dated = zip(scores, labels, days, strict=True)
    samples = [({"p": p, "day": day}, y) for p, y, day in dated]
    questions = stream.simulate_qa(samples, "day", lambda x, _: known[x["day"]])
    calibrator, answers, tickets = CALIBRATORS[name](), [], {}
    for at, x, y in ((q[0], q[1], q[2]) for q in questions):
        if y is None:
            if name == "hedge":
                value, tickets[at] = calibrator.serve_one(x["p"])
            else:
                value = calibrator.predict_one(x["p"])
            answers.append(value)
        else:
            given = {"ticket": tickets[at]} if name == "hedge" else {}
            calibrator.learn_one(x["p"], y, **given)
    result = calibrate(path, "--delay", delay, "--batch-size", 7, calibrator=name)
    assert column(result.stdout, "calibrated") == pytest.approx(answers, rel=1e-12)


def test_a_delay_that_no_float_can_hold(scores_csv: Any) -> None:
    result = calibrate(scores_csv, "--delay", "9" * 400, status=2)
    assert "--delay must be less than 9,007,199,254,740,992 rows, got 999" in result.stderr


def learned_in_groups(sample: Any, names: Any, keys: Any, weights: Any, delays: Any) -> list[float]:
    """What hedges serve: a group is learned by key when it has ended and all labels are known."""
    rows = list(zip(*sample, keys, weights, delays, strict=True))
    runs = [list(run) for _, run in itertools.groupby(range(len(names)), lambda i: names[i] or i)]
    waiting = sorted((max(i + delays[i] for i in run), run) for run in runs)
    twins = {key: streamcal.HedgedCalibrator() for key in keys}
    values: list[float] = []
    tickets: list[Any] = []
    for now, (p, _, key, _, _) in enumerate(rows):
        ready = [late for late in waiting if late[0] <= now and late[1][-1] < now]
        waiting = [late for late in waiting if late not in ready]
        for _, these in ready:
            for name in dict.fromkeys(keys[i] for i in these):
                mine = [i for i in these if keys[i] == name]
                twins[name].learn_group(
                    [rows[i][0] for i in mine],
                    [rows[i][1] for i in mine],
                    float(np.mean([weights[i] for i in mine])),
                    tickets=[tickets[i] for i in mine],
                )
        value, ticket = twins[key].serve_one(p)
        values.append(value)
        tickets.append(ticket)
    return values


@pytest.mark.parametrize("keyed", [False, True], ids=["one", "keyed"])
@pytest.mark.parametrize("delay", [1, 4, "d"])
def test_rows_that_share_an_outcome_are_one_sample(
    tmp_path: Path, sample: Any, delay: Any, keyed: bool
) -> None:
    rng = np.random.default_rng(2)
    names = [["a", "b", "", "b c"][i] for i in rng.integers(0, 4, 30).repeat(2)]
    keys = [str(i) for i in rng.integers(0, 2, 60)]
    weights = rng.integers(1, 4, 60).tolist()
    delays = rng.integers(0, 9, 60).tolist()
    columns = zip(*sample, names, keys, weights, delays, strict=True)
    lines = [",".join(map(str, row)) for row in columns]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["p,y,g,k,w,d", *lines, ""]))
    used = delays if delay == "d" else [delay] * 60
    wanted = learned_in_groups(sample, names, keys if keyed else ["all"] * 60, weights, used)
    options = ["--group", "g", "--weight", "w", *(["--key", "k"] if keyed else [])]
    options += [] if delay == 1 else ["--delay", delay]
    for batch in (60, 7):
        result = calibrate(path, *options, "--batch-size", batch, calibrator="hedge")
        assert column(result.stdout, "calibrated") == pytest.approx(wanted, rel=1e-12)


def test_groups_need_the_hedge(scores_csv: Any) -> None:
    message = "--group needs --calibrator hedge without --segment, got"
    assert f"{message} isotonic" in calibrate(scores_csv, "--group", "id", status=2).stderr
    options = ("--group", "id", "--segment", "city")
    result = calibrate(scores_csv, *options, calibrator="hedge", status=2)
    assert f"{message} --segment" in result.stderr


def test_tiny_weights_of_a_group_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y,g,w\n.5,1,x,1\n.6,0,a,1e-60\n.7,1,a,1e-60\n.5,1,b,1\n")
    options = ("--group", "g", "--weight", "w", "--out", tmp_path / "out.csv")
    result = calibrate(path, *options, calibrator="hedge", status=1)
    assert "row 2 begins a group of 2 rows, so the mean of their weights" in result.stderr


@pytest.mark.parametrize("name", ["hedge", "isotonic"])
@pytest.mark.parametrize("rate", ["0.1", "r"])
@pytest.mark.parametrize("delay", [1, "d"])
def test_the_sampling_of_negatives_is_undone(
    tmp_path: Path, sample: Any, name: str, rate: str, delay: Any
) -> None:
    rates = np.full(60, 0.1) if rate == "0.1" else np.tile([0.25, 1.0, 0.01], 20)
    path, plain, out = (tmp_path / name for name in ("in.csv", "plain.csv", "out.csv"))
    rows = zip(*sample, rates, [3] * 60, strict=True)
    path.write_text("\n".join(["p,y,r,d", *(",".join(map(str, row)) for row in rows), ""]))
    options: tuple[Any, ...] = ("--delay", delay, "--json", "--out")
    kept = json.loads(calibrate(path, *options, plain, calibrator=name).stderr)
    options = ("--sampling-rate", rate, "--batch-size", 7, *options)
    found = json.loads(calibrate(path, *options, out, calibrator=name).stderr)
    wanted = streamcal.undo_sampling(column(plain, "calibrated"), rates)
    assert column(out, "calibrated") == pytest.approx(wanted, rel=1e-12)
    for loss in ("log_loss", "brier_score"):  # of the rows in the table
        assert found[loss] == pytest.approx(kept[loss], rel=1e-12)
    assert set(found) - set(kept) == {"losses_among"}
    assert found["losses_among"] == "kept rows"


def test_pictures_show_the_rows_of_the_table(
    tmp_path: Path, scores_csv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sampling rate, the values before it is undone; the same with a store."""
    drawn: list[Any] = []
    monkeypatch.setattr(
        calibrating, "draw_reliability", lambda *given, **_: drawn.append(given[1:3])
    )
    rate = ("--sampling-rate", "0.2")
    for more in ((), rate, (*rate, "--store", tmp_path / "run.db")):
        out, picture = tmp_path / f"{len(drawn)}.csv", tmp_path / f"{len(drawn)}.png"
        calibrate(scores_csv, *more, "--out", out, "--plot", picture)
    for labels, curves in drawn[1:]:
        assert labels.tolist() == drawn[0][0].tolist()
        for name, values in drawn[0][1].items():
            np.testing.assert_allclose(curves[name], values, rtol=1e-12)
    page = tmp_path / "r.html"
    run("report", tmp_path / "run.db", "--out", page)
    assert "is not shown: its values are probabilities among all samples" in page.read_text()


def test_a_sampling_rate_is_a_share(scores_csv: Any, tmp_path: Path) -> None:
    for rate in ("0", "1.5", "-1", "nan"):
        result = calibrate(scores_csv, f"--sampling-rate={rate}", status=2)
        assert "`--sampling-rate` must lie in (0, 1], got" in result.stderr
    result = calibrate(scores_csv, "--sampling-rate", "id", status=1)
    assert "row 1: `id` must be greater than 0 and not greater than 1, got '0'" in result.stderr
    options = ("--loss", "squared", "--sampling-rate", 0.5)
    result = calibrate(scores_csv, *options, status=2)
    assert "--sampling-rate corrects probabilities: it needs --loss log, got" in result.stderr


CITIES = ["x", "y", "z", None, 1, 1.5, True, "1"]


def write_cities(path: Path, n: int = 80) -> tuple[list[Any], list[float], list[int]]:
    """Write a table whose labels depend on a city; return cities, scores and labels."""
    rng = np.random.default_rng(8)
    cities = [CITIES[i] for i in rng.integers(0, len(CITIES), n)]
    p = rng.random(n).round(3).tolist()
    y = [int(rng.random() < (0.9 if city in ("x", 1) else 0.2)) for city in cities]
    rows = zip(cities, p, y, strict=True)
    lines = [
        json.dumps({"city": city, "day": i % 7, "p": a, "y": b})
        for i, (city, a, b) in enumerate(rows)
    ]
    path.write_text("\n".join(lines))
    return cities, p, y


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("name", ["hedge", "platt", "isotonic"])
def test_segments_are_those_of_the_library(tmp_path: Path, name: str, delay: int) -> None:
    cities, p, y = write_cities(tmp_path / "in.jsonl")
    twin, waiting, values = (
        streamcal.SegmentCalibrator(["city", "day"], base=CALIBRATORS[name]()),
        [],
        [],
    )
    for i in range(80):
        x = {"city": cities[i], "day": i % 7}
        value, ticket = twin.serve_one(p[i], x)
        values.append(value)
        waiting.append((x, p[i], y[i], ticket))
        if len(waiting) > max(delay - 1, 0):
            x, *sample, ticket = waiting.pop(0)
            twin.learn_one(*sample, x=x, ticket=ticket if delay else None)
    options = ("--segment", "city", "--segment", "day", "--delay", delay)
    for batch in (7, 80):
        result = calibrate(tmp_path / "in.jsonl", *options, "--batch-size", batch, calibrator=name)
        found = [json.loads(line)["calibrated"] for line in result.stdout.splitlines()]
        assert found == pytest.approx(values, rel=1e-12)


def test_each_key_has_segments_of_its_own(scores_csv: Any, sample: Any) -> None:
    result = calibrate(scores_csv, "--key", "city", "--segment", "id", calibrator="hedge")
    values = np.empty(60)
    for k in range(3):
        twin = streamcal.SegmentCalibrator(["id"])
        columns = {"id": list(map(str, range(k, 60, 3)))}
        values[k::3] = twin.predict_learn_many(*(part[k::3] for part in sample), x=columns)
    assert column(result.stdout, "calibrated") == values.tolist()


def test_values_of_segments_keep_their_type(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    columns = {
        "text": pa.array(["1", "", None, "a"]).dictionary_encode(),
        "whole": [1, 2, None, 3],
        "number": [0.5, float("nan"), float("inf"), 1.0],
        "truth": [True, None, False, True],
        "day": pa.array([1, None, 2, 3], pa.date32()),
        "nothing": pa.nulls(4),
    }
    pq.write_table(pa.table({"p": [0.5] * 4, "y": [1, 0, 1, 1], **columns}), path)
    seen: dict[str, list[Any]] = {
        "text": ["1", None, None, "a"],
        "whole": [1, 2, None, 3],
        "number": [0.5, None, math.inf, 1.0],
        "truth": [True, None, False, True],
        "day": ["1970-01-02", None, "1970-01-03", "1970-01-04"],
        "nothing": [None] * 4,
    }
    out, store = tmp_path / "out.parquet", tmp_path / "run.db"
    for delay in (1, 3):
        named = [part for name in columns for part in ("--segment", name)]
        options = (*named, "--delay", delay, "--out", out, "--store", store)
        calibrate(path, *options, calibrator="hedge")
        with Store(store) as opened:
            if delay == 1:
                twin = streamcal.SegmentCalibrator(list(columns))
                twin.learn_many([0.5] * 4, [1, 0, 1, 1], x=seen)
                assert opened.get_bytes(name_of(None)) == twin.to_bytes()
            else:
                waiting = [late[6] for late in opened.notes["sink"]["waiting"]]
                rows = [{name: seen[name][i] for name in columns} for i in range(1, 4)]
                assert sorted(waiting, key=str) == sorted(rows, key=str)
        for made in (out, store):
            made.unlink()
    pq.write_table(pa.table({"p": [0.5], "y": [1], "list": [[1]]}), path)
    result = calibrate(path, "--segment", "list", "--out", out, status=1)
    assert "column `list` can't be a segment or group: its type is list" in result.stderr


def test_an_empty_cell_is_a_missing_value(tmp_path: Path) -> None:
    path, store = tmp_path / "in.csv", tmp_path / "run.db"
    path.write_text('p,y,s\n.5,1,a\n.5,0,\n.5,0,""\n')
    calibrate(path, "--segment", "s", "--store", store, "--out", tmp_path / "o.csv")
    twin = streamcal.SegmentCalibrator(["s"], base=IsotonicCalibrator())
    twin.learn_many([0.5] * 3, [1, 0, 0], x={"s": ["a", None, None]})
    with Store(store) as opened:
        assert opened.get_bytes(name_of(None)) == twin.to_bytes()


def test_segments_need_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y,s\n1.5,1,a\n")
    result = calibrate(path, "--segment", "s", status=1)
    assert "row 1: `p` must be a probability in [0, 1], got '1.5'" in result.stderr
    result = calibrate(path, "--segment", "s", "--loss", "squared", status=2)
    assert "--segment corrects probabilities: it needs --loss log" in result.stderr
    result = calibrate(path, "--segment", "s", "--segment", "s", status=2)
    assert "--segment must name different columns, got 's' twice" in result.stderr
    assert "has no column `t`" in calibrate(path, "--segment", "t", status=1).stderr
    for option in ("--segment", "--key"):
        result = calibrate(path, option, "y", status=2)
        assert f"{option} must be another column than --label" in result.stderr


def test_a_delay_has_one_queue_for_all_keys(scores_csv: Any, sample: Any) -> None:
    result = calibrate(scores_csv, "--key", "city", "--delay", 6)
    scores, labels = map(np.array, sample)
    values = np.empty(60)
    for k in range(3):  # every third row has the same key: 6 rows are 2 of its own
        calibrator, mine = IsotonicCalibrator(), []
        for i in range(20):
            if i >= 2:
                calibrator.learn_one(scores[k::3][i - 2], labels[k::3][i - 2])
            mine.append(calibrator.predict_one(scores[k::3][i]))
        values[k::3] = mine
    assert column(result.stdout, "calibrated") == values.tolist()


@pytest.mark.parametrize("late", [("--delay", 60), ("--group", "one")], ids=["delay", "group"])
def test_a_summary_says_if_no_label_became_known(
    tmp_path: Path, sample: Any, late: tuple[Any, ...]
) -> None:
    path = tmp_path / "scores.csv"
    rows = [f"{p},{y},x" for p, y in zip(*sample, strict=True)]
    path.write_text("\n".join(["p,y,one", *rows]))
    options = (*late, "--out", tmp_path / "out.csv")
    line = "no label was learned: each becomes known after the last row"
    assert f"  {line}\n" in calibrate(path, *options, calibrator="hedge").stderr
    summary = json.loads(calibrate(path, *options, "--json", calibrator="hedge").stderr)
    assert summary["waiting"] == 60
    store = tmp_path / "run.db"
    result = calibrate(path, *options, "--store", store, calibrator="hedge")
    assert f"  {line}; they wait in {store}\n" in result.stderr


def test_a_summary_says_nothing_of_labels_if_one_became_known(scores_csv: Any) -> None:
    assert "no label" not in calibrate(scores_csv, "--delay", 59).stderr


@pytest.mark.parametrize("delay", ["-1", "0.5", "x", ""])
def test_a_delay_is_a_number_of_rows(tmp_path: Path, delay: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"p,y,d\n.5,1,2\n.4,0,{delay}\n")
    result = calibrate(path, "--delay", "d", status=1)
    assert "row 2: `d` must be a whole number of rows, got" in result.stderr
    assert "has no column `e`" in calibrate(path, "--delay", "e", status=1).stderr


@pytest.mark.parametrize("delay", ["-1", "0.5", "+1", ".5"])
def test_a_number_that_is_no_delay_is_not_looked_for_as_a_column(
    scores_csv: Any, delay: str
) -> None:
    message = calibrate(scores_csv, "--delay", delay, status=2).stderr
    assert f"--delay must be a whole number of rows or a column, got {delay}" in message


@pytest.mark.parametrize("cell", ["NA", "NaN", "null", "None", "?"])
def test_words_for_a_missing_value_are_explained(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"p,y\n.5,{cell}\n")
    message = calibrate(path, status=1).stderr
    assert f"got '{cell}'; leave the cell of an unknown label empty\n" in message
    path.write_text(f"p,y\n{cell},1\n")
    message = calibrate(path, calibrator="hedge", status=1).stderr
    assert f"got '{cell}'; --on-error skip leaves such rows out\n" in message


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_several_tables_are_calibrated_as_one(
    scores_csv: Any, sample: Any, tmp_path: Path, ending: str
) -> None:
    table, parts = pa.csv.read_csv(scores_csv), []
    for i, rows in enumerate([table.slice(0, 25), table.slice(25, 0), table.slice(25)]):
        parts.append(tmp_path / f"{i}.{ending}")
        if ending == "csv":
            pa.csv.write_csv(rows, parts[-1])
        elif ending == "parquet":
            pq.write_table(rows, parts[-1])
        elif len(rows):
            parts[-1].write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
        else:
            parts.pop()
    out = tmp_path / f"out.{ending}"
    calibrate(*parts, "--out", out, "--batch-size", 7)
    if ending == "csv":
        values = column(out, "calibrated")
    elif ending == "parquet":
        values = pq.read_table(out)["calibrated"].to_pylist()
    else:
        values = [json.loads(line)["calibrated"] for line in out.read_text().splitlines()]
    assert values == expected(*sample)


def test_an_error_names_its_table_and_the_row_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,y\n.5,1\n.4,0\n")
    (tmp_path / "b.csv").write_text("p,y\n.5,1\nx,0\n")
    (tmp_path / "c.csv").write_text("y,p\n1,.5\n")
    out = tmp_path / "out.csv"
    message = calibrate(tmp_path / "a.csv", tmp_path / "b.csv", "--out", out, status=1).stderr
    assert message.startswith(f"streamcal: {tmp_path / 'b.csv'}: row 2: `p` must be")
    assert "3 rows, is in" in message
    message = calibrate(tmp_path / "a.csv", tmp_path / "c.csv", "--out", out, status=1).stderr
    assert f"{tmp_path / 'c.csv'}: has other columns than {tmp_path / 'a.csv'}" in message
    message = calibrate(tmp_path / "a.csv", tmp_path / "d.csv", status=2).stderr
    assert message == f"streamcal: there is no file {tmp_path / 'd.csv'}\n"


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_separate_cells_too(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"p{mark}y{mark}t\n.5{mark}1{mark}a,b\n.4{mark}0{mark}\n")
    out = tmp_path / "out.csv"
    calibrate(path, "--out", out)
    assert out.read_text() == (
        f"p{mark}y{mark}t{mark}calibrated\n.5{mark}1{mark}a,b{mark}0.5\n"
        f".4{mark}0{mark}{mark}{expected([0.5, 0.4], [1, 0])[1]}\n"
    )
    path.write_text(f"p{mark}y\n.5{mark}1{mark}2\n")
    assert "row 1 must have 2 fields, got 3" in calibrate(path, status=1).stderr


def test_rounding_errors_of_probabilities_are_clipped_as_in_the_library(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n1.0000000000000002,1\n-1e-17,0\n")
    hedge = streamcal.HedgedCalibrator()
    values = hedge.predict_learn_many([1.0 + 2e-16, -1e-17], [1, 0]).tolist()
    result = calibrate(path, calibrator="hedge")
    assert column(result.stdout, "calibrated") == values
    assert "log loss     0.0000 -> " in result.stderr
    path.write_text("p,y\n1.00001,1\n")
    assert "must be a probability in [0, 1]" in calibrate(path, calibrator="hedge", status=1).stderr


# Calibrate: formats -------------------------------------------------------------------------------


def test_all_formats_give_the_same_values(scores_csv: Any, sample: Any, tmp_path: Path) -> None:
    table = pa.csv.read_csv(scores_csv)
    pq.write_table(table, tmp_path / "s.parquet")
    calibrate(tmp_path / "s.parquet", "--key", "city", "--out", tmp_path / "c.parquet")
    back = pq.read_table(tmp_path / "c.parquet")
    assert back.drop_columns("calibrated") == table

    lines = [json.dumps(row) for row in table.to_pylist()]
    (tmp_path / "s.ndjson").write_text("\n".join(lines))
    calibrate(tmp_path / "s.ndjson", "--key", "city", "--out", tmp_path / "c.ndjson")
    out = (tmp_path / "c.ndjson").read_text().splitlines()
    assert [{**json.loads(line), "calibrated": 0} for line in out] == [
        {**row, "calibrated": 0} for row in table.to_pylist()
    ]

    values = column(calibrate(scores_csv, "--key", "city").stdout, "calibrated")
    assert back["calibrated"].to_pylist() == values
    assert [json.loads(line)["calibrated"] for line in out] == values


def test_the_example_of_the_documentation() -> None:
    page = Path(__file__).parents[1] / "docs" / "command-line.md"
    block = page.read_text().split("```\nid,p,y ")[1].split("```")[0]
    rows = [line.replace("→", " ").split() for line in ("id,p,y " + block).splitlines()]
    before, after = ("\n".join(lines) + "\n" for lines in zip(*rows, strict=True))
    assert calibrate("-", input=before).stdout == after


def test_standard_input_and_output(sample: Any) -> None:
    rows = [json.dumps({"p": p, "y": bool(y)}) for p, y in zip(*sample, strict=True)]
    result = calibrate("-", "--format", "ndjson", input="\n".join(rows))
    values = [json.loads(line)["calibrated"] for line in result.stdout.splitlines()]
    assert values == expected(*sample)
    result = calibrate("-", input="p,y\n.5,1\n")
    assert result.stdout == "p,y,calibrated\n.5,1,0.5\n"


def test_keys_of_json_differ_by_type(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    keys = [1, "1", None, [1], 1.0, True]
    lines = [json.dumps({"p": 0.5, "y": 1, "k": key}) for key in keys]
    path.write_text("\n".join([*lines, '{"p": 0.5, "y": 1}', lines[0]]))
    assert "8 rows calibrated, 6 keys" in calibrate(path, "--key", "k").stderr


def test_keys_of_parquet_may_be_any_plain_type(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table(
        {
            "p": [0.5] * 4,
            "y": [True, False, None, True],
            "int": [1, 2, 1, None],
            "nan": [float("nan"), 1.0, float("nan"), None],
            "word": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "when": pa.array([1, 2, 1, None], pa.timestamp("ns")),
            "list": [[1], [2], [1], None],
        }
    )
    pq.write_table(table, path)
    for name in ("int", "nan", "word", "when"):
        out = tmp_path / "out.parquet"
        result = calibrate(path, "--key", name, "--batch-size", 1, "--out", out)
        assert "4 rows calibrated, 1 of them without a label, 3 keys" in result.stderr
    result = calibrate(path, "--key", "list", "--out", out, status=1)
    assert "column `list` can't be a key" in result.stderr


@pytest.mark.parametrize("option", ["--key", "--segment", "--group"])
def test_text_of_parquet_must_be_utf_8(tmp_path: Path, option: str) -> None:
    raw = pa.array([b"\xff", b"a"])
    cells = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"p": [0.1, 0.9], "y": [0, 1], "k": cells}), path)
    result = calibrate(path, option, "k", calibrator="hedge", status=1)
    assert f"{path}: column `k` must be UTF-8" in result.stderr


def test_the_format_stays(tmp_path: Path, scores_csv: Any) -> None:
    result = calibrate(scores_csv, "--out", tmp_path / "out.parquet", status=2)
    assert "the format stays the same" in result.stderr


# Calibrate: the summary ---------------------------------------------------------------------------


def test_summary_of_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y,n\n0.5,1,1\n0.25,0,3\n0.9,,1\n")
    result = calibrate(path, "--weight", "n")
    values = column(result.stdout, "calibrated")
    log_loss = -(np.log(values[0]) + 3 * np.log(1 - values[1])) / 4
    brier = ((1 - values[0]) ** 2 + 3 * values[1] ** 2) / 4
    assert (
        f"log loss     {-(np.log(0.5) + 3 * np.log(0.75)) / 4:.4f} -> {log_loss:.4f}"
        in result.stderr
    )
    assert f"Brier score  0.1094 -> {brier:.4f}" in result.stderr


def test_the_same_table_has_the_same_log_loss_everywhere(tmp_path: Path) -> None:
    """Labels whose probability was 0: one rule of clipping, which the output names."""
    path = tmp_path / "in.csv"
    path.write_text("p,y\n0,1\n1,0\n0.5,1\n1,1\n")
    result = calibrate(path, "--out", tmp_path / "out.csv")
    (losses,) = re.findall(r"log loss +(\S+) -> (\S+)  \((.*)\)", result.stderr)
    river = metrics.LogLoss()
    for y, p in [(True, 0.0), (False, 1.0), (True, 0.5), (True, 1.0)]:
        river.update(y, p)
    assert losses[0] == f"{river.get():.4f}"
    assert losses[2] == "probabilities below 1e-15 count as 1e-15"

    arguments = ("--score", "p", "--label", "y", "--prob", "calibrated")
    run("report", tmp_path / "out.csv", *arguments, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    name, value = '<td class="text"[^>]*>', "<td[^>]*>([^<]*)<"
    rows = re.findall(rf"{name}log loss</td>{name}(\w+)</td>{value}", page)
    assert rows == [("p", losses[0]), ("calibrated", losses[1])]
    assert "probabilities below 1e-15 count as 1e-15" in page


def test_summary_of_margins_and_of_other_losses(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n-3.5,1\n2,0\n")
    assert "log loss     (raw scores out of range) -> " in calibrate(path).stderr
    path.write_text("p,y\n2,2.5\n3,1\n")
    result = calibrate(path, "--loss", "poisson")
    poisson = losses.get("poisson")
    after = poisson(column(result.stdout, "calibrated"), [2.5, 1.0]).mean()
    before = poisson([2.0, 3.0], [2.5, 1.0]).mean()
    rule = "(predictions below 1e-15 count as 1e-15)"
    assert f"poisson loss {before:.4f} -> {after:.4f}  {rule}" in result.stderr
    path.write_text("p,y\n0,0\n0,3\n")  # a predicted 0 costs infinity
    result = calibrate(path, "--loss", "poisson", "--prior", "0")
    before = poisson([1e-15, 1e-15], [0.0, 3.0]).mean()
    assert f"poisson loss {before:.4f} -> {before:.4f}  {rule}" in result.stderr
    result = calibrate(path, status=1)
    assert "for counts or amounts add --calibrator isotonic --loss poisson" in result.stderr
    path.write_text("p,y\n2,\n")
    assert "->" not in calibrate(path).stderr


def test_quiet_is_silent_unless_there_is_an_error(scores_csv: Any, tmp_path: Path) -> None:
    out, picture = tmp_path / "out.csv", tmp_path / "r.png"
    assert calibrate(scores_csv, "--quiet", "--out", out, "--plot", picture).stderr == ""
    assert run("plot", out, "--prob=p", "--label=y", "-o", picture, "-q").stderr == ""
    assert run("decide", out, "--prob=p", "--label=y", "-q").stderr == ""
    assert run("thresholds", out, "--score=p", "--label=id", "-q", status=1).stderr != ""
    assert "no column `z`" in calibrate(scores_csv, "--quiet", "--key", "z", status=1).stderr
    both = calibrate(scores_csv, "--quiet", "--json", status=2).stderr
    assert both == "streamcal: --quiet prints no summary, so it can't be used with --json\n"


def test_the_summary_as_json(tmp_path: Path) -> None:
    path, out, picture = tmp_path / "in.csv", tmp_path / "out.csv", tmp_path / "r.png"
    path.write_text("p,y,n,k\n0.5,1,1,a\n0.25,0,3,b\n0.9,,1,a\nx,1,1,a\n")
    more = ("--weight", "n", "--key", "k", "--on-error", "skip", "--plot", picture)
    text = calibrate(path, *more, "--out", out).stderr
    (line,) = calibrate(path, *more, "--out", out, "--json").stderr.splitlines()
    printed = json.loads(line)
    losses = {name: printed.pop(name) for name in ("log_loss", "brier_score")}
    assert printed == {
        "rows": 3,
        "unlabelled": 1,
        "keys": 2,
        "skipped": {"`p` is not a finite number": 1},
        "picture": str(picture),
        "drawn": 2,
    }
    for name, loss in losses.items():
        spelled = name.replace("_", " ").replace("brier", "Brier")
        assert f"  {spelled:<12} {loss['before']:.4f} -> {loss['after']:.4f}" in text


def test_the_json_of_other_commands(scores_csv: Any, tmp_path: Path) -> None:
    line = run("decide", scores_csv, "--prob=p", "--label=y", "--json").stderr
    assert {"rows", "ones", "threshold", "metric", "expected", "bound", "skipped"} | {
        "reached",
        "labelled",
    } == set(json.loads(line))
    path = tmp_path / "in.csv"
    path.write_text("s,stars\n.1,1\n.2,3\n.3,3\n")
    result = run("thresholds", path, "--score=s", "--label=stars", "--json")
    printed = json.loads(result.stderr)
    assert [str(value) for value in printed["thresholds"]] == result.stdout.split()
    assert printed["absolute_loss"] == 0.0
    assert json.loads(calibrate("-", "--json", input="p,y\n5,1\n").stderr)["log_loss"] == {
        "before": None,
        "after": pytest.approx(0.0),
    }


def test_a_failure_after_the_summary_keeps_its_json(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n0.5,\n")
    options = ("--plot", tmp_path / "r.png", "--out", tmp_path / "o.csv", "--json")
    printed, error = calibrate(path, *options, status=1).stderr.splitlines()
    assert json.loads(printed)["rows"] == 1
    assert "no row has a label" in error


def test_plot_draws_before_and_after(scores_csv: Any, tmp_path: Path) -> None:
    picture = tmp_path / "reliability.png"
    result = calibrate(scores_csv, "--out", tmp_path / "out.csv", "--plot", picture)
    assert picture.read_bytes().startswith(PNG)
    assert "reliability.png: drawn from 60 rows" in result.stderr


@pytest.mark.parametrize(
    ("command", "option", "title"),
    [
        ("calibrate --score p --label y", "--plot", "Reliability before and after calibration"),
        ("plot --prob p --label y", "--out", "Reliability"),
        ("decide --prob p", "--plot", "What to label 1"),
        ("thresholds --score p --label y", "--plot", "Scores by label, and thresholds"),
    ],
)
def test_a_picture_has_a_title(tmp_path: Path, command: str, option: str, title: str) -> None:
    name, *columns = command.split()
    path, picture = tmp_path / "in.csv", tmp_path / "r.svg"
    label = {"thresholds": (1, 2)}.get(name, (0, 1))
    path.write_text("p,y\n0.2,{}\n0.5,{}\n".format(*label))
    run(name, path, *columns, option, picture)
    assert f"<!-- {title} -->" in picture.read_text()


@pytest.mark.parametrize(
    ("body", "curves"), [("0.5,1\n0.2,0\n", ["p", "calibrated"]), ("5,1\n2,0\n", ["calibrated"])]
)
def test_plot_draws_raw_scores_only_if_they_are_probabilities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, curves: Any
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n" + body)
    drawn = []
    monkeypatch.setattr(
        calibrating, "draw_reliability", lambda *arguments, title: drawn.append(arguments)
    )
    calibrate(path, "--plot", tmp_path / "r.png")
    ((_, labels, values, seen, _),) = drawn
    assert list(values) == curves
    assert labels.tolist() == [1.0, 0.0]
    assert seen == 2


@pytest.mark.parametrize(
    ("body", "message"), [("0.5,0.5\n", "neither 0 nor 1"), ("0.5,\n", "no row has a label")]
)
def test_plot_that_can_not_be_drawn_leaves_the_output_whole(
    tmp_path: Path, body: str, message: str
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("p,y\n" + body)
    result = calibrate(path, "--out", out, "--plot", tmp_path / "r.png", status=1)
    assert message in result.stderr
    assert "incomplete" not in result.stderr
    assert out.exists()


def test_pictures_of_long_tables_are_drawn_from_a_uniform_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample = UniformSample(1, capacity=1000)
    for start in range(0, 20_000, 100):
        sample.add(np.arange(start, start + 100.0)[:, None])
        assert sum(map(len, sample._parts)) <= 1250
    (rows,) = sample.rows().T
    assert sample.n_rows == 20_000
    assert len(np.unique(rows)) == 1000
    assert (np.diff(rows) > 0).all()
    counts, _ = np.histogram(rows, bins=10, range=(0, 20_000))
    assert abs(counts - 100).max() < 40


def test_rows_on_standard_output_have_no_progress_bar_between_them(
    scores_csv: Any, tmp_path: Path
) -> None:
    shown = []

    @contextlib.contextmanager
    def note(*_: Any, hidden: Any) -> Iterator[Any]:
        shown.append(not hidden)
        yield lambda: None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate_module, "progress", note)
        calibrate(scores_csv)
        calibrate(scores_csv, "--out", tmp_path / "a.csv")
        calibrate(scores_csv, "--out", tmp_path / "b.csv", "--quiet")
    assert shown == [False, True, False]


def test_progress_is_shown_to_a_person_only(
    scores_csv: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stderr, hidden, shown in [
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ]:
        monkeypatch.setattr(sys, "stderr", stderr)
        with (
            open_table(scores_csv, []) as source,
            progress(source, "calibrating", hidden=hidden) as show,
        ):
            list(source)
            show()
        assert ("calibrating" in stderr.getvalue()) is shown


# Calibrate: bad input -----------------------------------------------------------------------------


GOOD = ["p,y,n,t", "0.2,0,1,a", "0.7,1,1,b"]
LOG_LABEL = "`y` must be in [0, 1] for the log loss, or false or true"


@pytest.mark.parametrize(
    ("row", "message", "reason"),
    [
        ("x,1,1,c", "`p` must be a finite number, got 'x'", "`p` is not a finite number"),
        ("nan,1,1,c", "`p` must be a finite number, got 'nan'", "`p` is not a finite number"),
        ("-inf,1,1,c", "`p` must be a finite number, got '-inf'", "`p` is not a finite number"),
        (",1,1,c", "`p` must be a finite number, got nothing", "`p` is not a finite number"),
        ("true,1,1,c", "`p` must be a finite number, got 'true'", "`p` is not a finite number"),
        ("1,2,1,c", f"{LOG_LABEL}, got '2'", "`y` is not in [0, 1]"),
        ("1,yes,1,c", f"{LOG_LABEL}, got 'yes'", "`y` is not in [0, 1]"),
        ("1,NaN,1,c", f"{LOG_LABEL}, got 'NaN'", "`y` is not in [0, 1]"),
        ("1,1,0,c", "`n` must be a positive finite number, got '0'", "`n` is not a positive"),
        ("1,1,-2,c", "`n` must be a positive finite number, got '-2'", "`n` is not a positive"),
        ("1,1,inf,c", "`n` must be a positive finite number, got 'inf'", "`n` is not a positive"),
        ("1,1,1e-61,c", "`n` must be from 1e-60 to 1e+60, got '1e-61'", "`n` is not from 1e-60"),
        ("1,1,1e61,c", "`n` must be from 1e-60 to 1e+60, got '1e61'", "`n` is not from 1e-60"),
        ("1,1,,c", "`n` must be a positive finite number, got nothing", "`n` is not a positive"),
        ("1,1,1", " must have 4 fields, got 3", "wrong number of fields"),
        ("1,1,1,c,d", " must have 4 fields, got 5", "wrong number of fields"),
    ],
)
def test_a_bad_row_in_the_middle(tmp_path: Path, row: str, message: Any, reason: str) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("\n".join([*GOOD, row, "0.6,1,1,d", "0.3,0,1,e", ""]))
    out.write_text("older")
    result = calibrate(path, "--weight", "n", "--out", out, status=1)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"streamcal: {path}: row 3")
    assert message in line
    assert line.endswith(f"; the incomplete output, 2 rows, is in {out}.partial")
    assert out.read_text() == "older"
    partial = (tmp_path / "out.csv.partial").read_text()
    assert partial.splitlines()[0] == GOOD[0] + ",calibrated"
    assert column(partial, "calibrated") == expected([0.2, 0.7], [0, 1])
    assert partial.endswith("\n")

    result = calibrate(path, "--weight", "n", "--out", out, "--on-error", "skip")
    assert column(out, "calibrated") == expected([0.2, 0.7, 0.6, 0.3], [0, 1, 1, 0])
    assert [row[3] for row in csv.reader(out.read_text().splitlines())] == ["t", *"abde"]
    assert "4 rows calibrated\n1 row skipped\n  1 where " + reason in result.stderr


@pytest.mark.parametrize(
    ("row", "calibrator", "advice"),
    [
        ("'55,1';1", "isotonic", "decimals need a point"),
        ("'55,1';1", "hedge", "decimals need a point"),
        ("'55.1%';1", "isotonic", "divide percentages by 100"),
        ("'55.1';1", "hedge", "divide percentages by 100"),
        ("'0.5';yes", "hedge", "replace words by 1 and 0"),
    ],
)
def test_a_cell_of_another_program_is_explained(
    tmp_path: Path, row: str, calibrator: str, advice: str
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p;y\n" + row.replace("'", '"') + "\n")
    assert f"; {advice}" in calibrate(path, calibrator=calibrator, status=1).stderr
    path.write_text("p;y\n-x;1\n")
    assert advice not in calibrate(path, calibrator=calibrator, status=1).stderr


@pytest.mark.parametrize("calibrator", ["isotonic", "hedge"])
def test_an_empty_score_needs_an_option_and_no_other_calibrator(
    tmp_path: Path, calibrator: str
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("p,y\n.5,1\n,0\n.6,0\n")
    error = calibrate(path, "--out", out, calibrator=calibrator, status=1).stderr
    assert ", got nothing; --on-error skip leaves such rows out; the incomplete output" in error
    assert "isotonic" not in error
    summary = calibrate(path, "--on-error", "skip", "--out", out, calibrator=calibrator).stderr
    assert ", got nothing\n" in summary


@pytest.mark.parametrize(("loss", "label"), [("squared", "-1e61"), ("linex", "-200")])
def test_a_label_too_large_to_be_summed(tmp_path: Path, loss: str, label: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"p,y\n.5,1\n.6,{label}\n.7,\n")
    (line,) = calibrate(path, "--loss", loss, status=1).stderr.splitlines()
    assert f"row 2: `y` must be small enough for the {loss} loss (its statistic at most" in line
    result = calibrate(path, "--loss", loss, "--on-error", "skip")
    assert column(result.stdout, "p") == [0.5, 0.7]


def test_skipped_rows_are_counted_by_reason(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\nx,1\n1,1\ny,9\n2\n.5,\n3,9\n")
    result = calibrate(path, "--on-error", "skip", "--batch-size", 2)
    assert column(result.stdout, "p") == [1.0, 0.5]
    assert "2 rows calibrated, 1 of them without a label\n4 rows skipped\n" in result.stderr
    assert "  2 where `p` is not a finite number, first row 1: " in result.stderr
    assert "  1 where wrong number of fields, first row 4" in result.stderr
    assert (
        "  1 where `y` is not in [0, 1] for the log loss, or false or true, first row 6"
        in result.stderr
    )


@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_quote_left_open_can_not_be_skipped(tmp_path: Path, on_error: str) -> None:
    path = tmp_path / "in.csv"
    path.write_text('p,y\n.5,1\n"0.6,1\n.7,0\n')
    result = calibrate(path, "--on-error", on_error, status=1)
    assert "row 2 has a quote that is never closed" in result.stderr
    assert "; the output is incomplete, it has 1 row\n" in result.stderr
    assert result.stdout == "p,y,calibrated\n.5,1,0.5\n"


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("in.csv", "", "is empty"),
        ("in.csv", "p,z\n1,1\n", "has no column `y`; its columns are `p`, `z`"),
        ("in.csv", "p,y,calibrated\n", "already has a column `calibrated`"),
        ("in.csv", "p,p,y\n", "has two columns named `p`"),
        ("in.ndjson", "", "is empty"),
        ("in.ndjson", '{"p": 1}\n', "has no field `y` in any of its objects"),
        ("in.ndjson", '{"p": 1, "y": "1"}\n{"y": 0}\n', "row 2: `p` must be a finite"),
        ("in.ndjson", '{"p": true, "y": 1}\n', "row 1: `p` must be a finite"),
        ("in.ndjson", "p,y\n", "row 1 is not JSON"),
        ("in.parquet", "", "is empty"),
        ("in.parquet", "nonsense" * 10, "is not a Parquet file"),
    ],
)
def test_tables_that_can_not_be_calibrated(
    tmp_path: Path, name: str, data: Any, message: str
) -> None:
    path = tmp_path / name
    path.write_text(data)
    result = calibrate(path, "--out", tmp_path / f"out.{name[3:]}", status=1)
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"streamcal: {path}: {message}")
    assert not (tmp_path / f"out.{name[3:]}").exists()


def test_parquet_of_the_wrong_type_and_with_holes(tmp_path: Path) -> None:
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"p": [[0.5]], "y": [1]}), path)
    assert "column `p` must hold numbers, not list" in calibrate(path, "-o", out, status=1).stderr
    assert list(tmp_path.iterdir()) == [path]
    pq.write_table(pa.table({"p": [0.5, 0.6, None], "y": [1, None, 0]}), path)
    result = calibrate(path, "-o", out, status=1)
    assert "row 3: `p` must be a finite number, got nothing" in result.stderr
    assert "; the incomplete output, 2 rows, is in" in result.stderr
    # What the first run has left stays: the second one writes beside it.
    assert f"is in {out}.partial2" in calibrate(path, "-o", out, status=1).stderr
    for partial in (f"{out}.partial", f"{out}.partial2"):
        assert pq.read_table(partial)["calibrated"].to_pylist() == expected([0.5, 0.6], [1, None])
    assert calibrate("-", "--format", "parquet", status=1).stderr.startswith(
        "streamcal: standard input: Parquet has its index at the end"
    )


def test_header_only_makes_a_header_only(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("p,y\n")
    assert "0 rows calibrated" in calibrate(path, "--out", out).stderr
    assert out.read_text() == "p,y,calibrated\n"


def test_a_table_may_be_replaced_by_its_own_output(scores_csv: Any, sample: Any) -> None:
    calibrate(scores_csv, "--out", scores_csv)
    assert column(scores_csv, "calibrated") == expected(*sample)


@pytest.mark.parametrize("command", [["calibrate", "--score"], ["decide", "--prob"]], ids=str)
def test_a_missing_folder_is_named(scores_csv: Any, tmp_path: Path, command: Any) -> None:
    name, option = command
    more = [option, "p", "--label", "y", "--out", tmp_path / "none" / "out.csv"]
    result = run(name, scores_csv, *more, status=2)
    assert result.stderr == f"streamcal: there is no folder {tmp_path / 'none'} for out.csv\n"


def test_disk_errors_are_one_line(
    scores_csv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "out.csv.partial"

    def open_full(*_: Any) -> None:
        raise OSError(28, "No space left on device", str(full))

    monkeypatch.setattr(Output, "_create", open_full)
    result = calibrate(scores_csv, "--out", tmp_path / "out.csv", status=1)
    (line,) = result.stderr.splitlines()
    assert line == f"streamcal: {full}: No space left on device"


def run_with_files_of_at_most(n_bytes: int, *arguments: Any) -> Any:
    """Run a command in a process that can't write beyond this length of a file: a full disk."""
    code = (
        "import resource\n"
        "import matplotlib.font_manager  # which keeps a file of its own\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))\n"
        "from streamcal.cli.main import main\n"
        "main()\n"
    )
    command = [*WITHOUT_BYTE_CODE, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("new.png", ["plot", "--prob", "p", "--label", "y", "--out"]),
        ("new.pdf", ["decide", "--prob", "p", "--quiet", "--out", os.devnull, "--plot"]),
        ("new.html", ["report", "--score", "p", "--label", "y", "--prob", "p", "--out"]),
    ],
)
def test_a_picture_or_page_on_a_full_disk_leaves_the_older_one(
    scores_csv: Any, tmp_path: Path, name: str, arguments: list[str]
) -> None:
    command, *options = arguments
    path, theirs = tmp_path / name, tmp_path / f"{name}.partial"
    path.write_text("older")
    theirs.write_text("of somebody else")
    done = run_with_files_of_at_most(2048, command, scores_csv, *options, path)
    message = f"streamcal: {path}: {os.strerror(errno.EFBIG)}\n"
    assert (done.returncode, done.stderr) == (1, message)
    assert (path.read_text(), theirs.read_text()) == ("older", "of somebody else")
    assert {file.name for file in tmp_path.glob("new.*")} == {path.name, theirs.name}
    run(command, scores_csv, *options, path)
    assert path.stat().st_size > 2048


def test_the_end_of_a_file_is_named(scores_csv: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer would say "Aborted." and nothing else."""

    def read(*_: Any) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(IsotonicCalibrator, "predict_learn_many", read)
    result = calibrate(scores_csv, status=1)
    line = inspect.getsourcelines(read)[1] + 1
    assert result.stderr == f"streamcal: Ran out of input (EOFError in {__file__}, line {line})\n"


def test_byte_code_that_is_cut_off_is_named(
    scores_csv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "torn_module.py"
    source.write_text("names = " + repr(list(range(1000))))
    cached = Path(py_compile.compile(str(source)))
    cached.write_bytes(cached.read_bytes()[:200])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        IsotonicCalibrator, "predict_learn_many", lambda *_: importlib.import_module(source.stem)
    )
    result = calibrate(scores_csv, status=1)
    message = f"{cached}: the byte code of a module is cut off (marshal data too short)"
    assert result.stderr == f"streamcal: {message}; delete this file\n"


def test_ctrl_c_while_modules_are_loaded_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[int] = []

    def interrupt(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("streamcal.cli.app.app", interrupt)
    monkeypatch.setattr(os, "_exit", ended.append)
    main.main()
    assert (ended, capsys.readouterr().err) == ([130], "streamcal: interrupted\n")


def test_ctrl_c_ends_with_status_130_and_leaves_no_table(
    scores_csv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(IsotonicCalibrator, "predict_learn_many", interrupt)
    out = tmp_path / "out.csv"
    result = calibrate(scores_csv, "--out", out, status=130)
    assert result.stderr == "streamcal: interrupted\n"
    assert list(tmp_path.iterdir()) == [scores_csv]


@pytest.mark.parametrize("row", ["x,1", "0.5,x", "0.5", '"0.5'])
@pytest.mark.parametrize("options", [[], ["--store", "run.db"]], ids=str)
def test_a_run_that_is_refused_at_its_first_row_leaves_nothing(
    tmp_path: Path, row: str, options: list[str]
) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text(f"p,y\n{row}\n0.5,1\n")
    options = [str(tmp_path / option) if option == "run.db" else option for option in options]
    line = calibrate(path, "--out", out, *options, status=1).stderr
    assert "row 1" in line
    assert "incomplete" not in line
    assert not list(tmp_path.glob("out*"))
    path.write_text("p,y\n0.5,1\n")
    calibrate(path, "--out", out, *options)
    assert out.read_text() == "p,y,calibrated\n0.5,1,0.5\n"


def test_an_incomplete_output_that_is_gone_is_not_named(
    scores_csv: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, partial = tmp_path / "out.csv", tmp_path / "out.csv.partial"
    of_library = KeyedCalibrator.predict_learn_checked

    def interrupt(*given: Any) -> Any:
        if not partial.stat().st_size:
            return of_library(*given)
        partial.unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(KeyedCalibrator, "predict_learn_checked", interrupt)
    result = calibrate(scores_csv, "--out", out, "--batch-size", "5", status=130)
    assert result.stderr == "streamcal: interrupted\n"


@pytest.mark.parametrize(("kind", "name"), [("csv", "-"), ("ndjson", "-"), ("csv", "out")])
def test_rows_of_a_pipe_are_written_when_they_come(tmp_path: Path, kind: str, name: str) -> None:
    begin, row = ("p,y\n", "0.5,1\n") if kind == "csv" else ("", '{"p": 0.5, "y": 1}\n')
    out = tmp_path / name
    to = name if name == "-" else str(out)
    options = ["--format", kind, "--out", to, *([] if name == "-" else ["--store", "run.db"])]
    command = [sys.executable, "-m", "streamcal", "calibrate", "-", "--score", "p", "--label", "y"]
    process = subprocess.Popen(
        [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    with process:
        process.stdin.write(begin)
        for i in range(1, 4):
            process.stdin.write(row)
            process.stdin.flush()
            if name == "-":
                lines = [process.stdout.readline() for _ in range(1 + (i == 1 and kind == "csv"))]
                assert "0.5" in lines[-1]
            else:
                while process.poll() is None and rows_of_store(tmp_path / "run.db") < i:
                    pass
                assert out.with_name("out.partial").read_text().count("0.5") >= i
        if name == "-":
            process.stdin.close()
        else:
            process.terminate()  # no further row is needed for it to end
            process.wait()
    watchdog.cancel()
    assert process.returncode == (0 if name == "-" else 128 + signal.SIGTERM)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("csv", ["p"]),
        ("csv", ["p,y\n0.5,1\n", '"0.']),
        ("ndjson", ['{"p": 0.5, "y": 1}\n', '{"p"']),
    ],
)
def test_a_signal_ends_a_run_whose_pipe_has_stopped_in_a_row(
    tmp_path: Path, kind: str, parts: list[str]
) -> None:
    options = ["--format", kind, "--out", str(tmp_path / "out"), "--store", "run.db"]
    command = [sys.executable, "-m", "streamcal", "calibrate", "-", "--score", "p", "--label", "y"]
    process = subprocess.Popen(
        [*command, *options], stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, text=True
    )
    assert process.stdin is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    with process:
        for n_rows, part in enumerate(parts):
            while process.poll() is None and n_rows > max(0, rows_of_store(tmp_path / "run.db")):
                pass  # the rows before are learned first
            process.stdin.write(part)
            process.stdin.flush()
            while process.poll() is None and unread_bytes(process.stdin):
                pass
        process.terminate()
        process.wait()  # the pipe stays open
        watchdog.cancel()
        assert process.returncode == 128 + signal.SIGTERM
        assert process.stderr is not None
        assert f"stopped after row {n_rows}; the same command" in process.stderr.read()
    assert rows_of_store(tmp_path / "run.db") == n_rows


def unread_bytes(pipe: Any) -> int:
    """Return how many bytes wait in a pipe."""
    size = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, size)
    return size[0]


def rows_of_store(path: Path) -> int:
    """Return how many rows a run has saved."""
    if not path.exists():
        return -1
    with Store(path, read_only=True) as store:
        return store.offset


# Usage --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--window", "0"], "`--window` must be a positive int or None, got 0"),
        (["--loss", "brier"], "`--loss` must be one of 'log'"),
        (["--loss", "huber"], "`--loss` must be one of 'log'"),
        (["--plot", "r.gif"], "a picture must end in .png, .pdf, .svg, got r.gif"),
        (["--plot", "none/r.png"], "there is no folder none for r.png"),
        (["--plot", "r.png", "--loss", "poisson"], "it needs the log or squared loss"),
    ],
)
def test_options_that_make_no_sense(scores_csv: Any, options: Any, message: str) -> None:
    result = calibrate(scores_csv, *options, status=2)
    (line,) = result.stderr.splitlines()
    assert line.startswith("streamcal: ")
    assert message in line


def test_arguments_that_make_no_sense(tmp_path: Path) -> None:
    for arguments in (["calibrate"], ["calibrate", tmp_path], ["fly"], ["--fly"]):
        assert run(*arguments, status=2).stdout == ""
    path = tmp_path / "none.csv"
    assert calibrate(path, status=2).stderr == f"streamcal: there is no file {path}\n"
    message = f"streamcal: {tmp_path} is a folder, not a file\n"
    assert calibrate(tmp_path, status=2).stderr == message


def test_version_and_help() -> None:
    assert run("--version").stdout == f"streamcal {streamcal.__version__}\n"
    text = run("calibrate", "--help", env={"COLUMNS": "200", "NO_COLOR": "1"}).stdout
    for option in inspect.signature(calibrating.calibrate).parameters:
        name = {"table": "TABLE", "file_format": "--format"}.get(option)
        assert (name or "--" + option.replace("_", "-")) in text
    assert "streamcal calibrate scores.csv --score p --label y --out calibrated.csv" in text
    assert all(command in run("--help").stdout for command in ("calibrate", "plot", "demo"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str) -> None:
    words = {"bash": "streamcal cal", "zsh": "streamcal cal", "fish": "streamcal cal"}[shell]
    given = {
        "_STREAMCAL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": "1",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    command = [sys.executable, "-m", "streamcal.cli"]
    environment = os.environ | given | {"PYTHONPATH": str(Path(streamcal.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "calibrate" in done.stdout
    assert "decide" not in done.stdout


def test_a_missing_file_is_found_before_anything_heavy_is_imported() -> None:
    code = (
        "import sys\n"
        "from streamcal.cli.app import app\n"
        "for command in (['calibrate', 'no.csv', '--score', 'p', '--label', 'y'],\n"
        "                ['plot', 'no.csv', '--prob', 'p', '--label', 'y'],\n"
        "                ['decide', 'no.csv', '--prob', 'p'],\n"
        "                ['thresholds', 'no.csv', '--score', 's', '--label', 'y']):\n"
        "    app(command, standalone_mode=False)\n"
        "print([name for name in ('pyarrow', 'river', 'scipy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert done.stderr == "streamcal: there is no file no.csv\n" * 4


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(SystemExit) as error:
        main.main()
    assert error.value.code == 1
    assert capsys.readouterr().err == (
        "streamcal: the command line needs pyarrow: pip install '.[cli]' in the checkout\n"
    )


def test_the_exit_status_of_the_script(scores_csv: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamcal.cli", "calibrate", scores_csv, "--score=p"]
    for label, status in (("y", 0), ("none", 1), (None, 2)):
        option = [] if label is None else [f"--label={label}"]
        run = subprocess.run([*command, *option], capture_output=True, check=False)
        assert run.returncode == status
        assert bool(run.stdout) == (status == 0)
        assert run.stderr


def test_the_script_in_a_pipe_that_is_closed_early(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n" + "0.5,\n" * 50_000)
    command = [sys.executable, "-m", "streamcal.cli", "calibrate", path, "--score=p", "--label=y"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"p,y,calibrated\n"
        process.stdout.close()
        assert process.wait() == 1
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("options", "closed", "status", "message"),
    [
        (["in.csv", "--out", "out.csv", "--store", "run.db"], "<&- >&-", 0, "2 rows calibrated\n"),
        (["in.csv", "--out", "out.csv", "--store", "run.db"], "<&- >&- 2>&-", 0, ""),
        (["in.csv"], ">&-", 1, "streamcal: standard output: it is closed\n"),
        (["-"], "<&-", 1, "streamcal: standard input: it is closed\n"),
        (["none.csv"], "2>&-", 2, ""),
    ],
)
def test_the_script_with_closed_streams(
    tmp_path: Path, options: Any, closed: str, status: int, message: str
) -> None:
    (tmp_path / "in.csv").write_text("p,y\n.2,0\n.8,1\n")
    command = [sys.executable, "-m", "streamcal.cli", "calibrate", *options]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command, "--score=p", "--label=y"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(streamcal.__file__).parents[1])},
    )
    assert done.returncode == status
    assert done.stderr.decode().startswith(message) if message else not done.stderr
    assert not done.stdout
    if "--out" in options:
        hedge = streamcal.HedgedCalibrator()
        values = hedge.predict_learn_many([0.2, 0.8], [0, 1]).tolist()
        assert column(tmp_path / "out.csv", "calibrated") == values
        assert (tmp_path / "run.db").read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("command", ["thresholds", "demo"])
def test_what_is_printed_needs_a_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("s,stars\n.1,1\n.2,2\n")
    function = {"thresholds": thresholds, "demo": demo}[command]
    given = {"thresholds": (path, "s", "stars"), "demo": (tmp_path / "pictures",)}[command]
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(typer.Exit) as end:
        function(*given)
    assert end.value.exit_code == 1
    assert not (tmp_path / "pictures").exists()


# Plot and demo ------------------------------------------------------------------------------------


def test_plot_one_and_several_columns(scores_csv: Any, tmp_path: Path) -> None:
    out, both = tmp_path / "out.csv", tmp_path / "both.png"
    calibrate(scores_csv, "--out", out)
    result = run("plot", out, "--prob=p", "--prob=calibrated", "--label=y", "--out", both)
    assert both.read_bytes().startswith(PNG)
    assert result.stderr == f"{both}: drawn from 60 rows\n"
    one = tmp_path / "one.svg"
    run("plot", out, "--prob=p", "--label=y", "--out", one)
    assert "<svg" in one.read_text()


def test_plot_leaves_out_what_has_no_label(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.png"
    path.write_text("p,y\n.5,true\n.7,\n.4,false\n")
    assert "drawn from 2 rows" in run("plot", path, "--prob=p", "--label=y", "-o", out).stderr


def test_plot_says_nothing_of_characters_that_the_font_lacks(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.png"
    path.write_text("日,y\n.5,1\n.4,0\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("plot", path, "--prob", "日", "--label=y", "-o", out)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1.5,1", "`p` must be a probability in [0, 1], got '1.5'"),
        (",1", "`p` must be a probability in [0, 1], got nothing"),
        ("0.5,0.5", "`y` must be 0 or 1, or false or true, got '0.5'"),
        ("0.5", "must have 2 fields, got 1"),
    ],
)
def test_plot_of_bad_rows(tmp_path: Path, row: str, message: str) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.png"
    path.write_text(f"p,y\n.5,1\n{row}\n.4,0\n")
    command = ["plot", path, "--prob=p", "--label=y", "--out", out]
    (line,) = run(*command, status=1).stderr.splitlines()
    assert line.startswith(f"streamcal: {path}: row 2")
    assert message in line
    assert not out.exists()
    result = run(*command, "--on-error", "skip")
    assert "1 row skipped" in result.stderr
    assert "drawn from 2 rows" in result.stderr


def test_plot_of_nothing(tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.png"
    path.write_text("p,y\n0.5,\n")
    command = ["plot", path, "--prob=p", "--label=y", "--out"]
    assert "has no labelled rows" in run(*command, out, status=1).stderr
    assert "must end in .png" in run(*command, "out.csv", status=2).stderr


def test_demo_computes_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Any] = []
    demo_table = types.ModuleType("streamcal.cli.demo_table")
    demo_table.run = folders.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "streamcal.cli.demo_table", demo_table)
    monkeypatch.setattr(cli, "demo_table", demo_table, raising=False)
    run("demo", "--out", tmp_path)
    assert folders == [tmp_path]


def test_groups_cover_the_rows_in_order() -> None:
    keys = pa.array(["b", "a", "", "b", "a"])
    chunk = Chunk(np.arange(1, 6), {"k": keys}, [], None)
    groups = dict(group_rows(Rows(chunk, []), "k"))
    assert groups == {"b": [0, 3], "a": [1, 4], "": [2]}
    assert all(a < b for at in groups.values() for a, b in pairwise(at))
