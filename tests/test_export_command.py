"""`streamcal export`: the map of a calibrator in a store."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import IsotonicCalibrator, KeyedCalibrator, PlattCalibrator, TemperatureCalibrator
from streamcal.calibration import read_export
from streamcal.durable import Event, LabelJoin, Store
from streamcal.durable import run as run_durably
from tests.runner import run
from tests.test_export import in_onnx, in_sqlite


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table, and stores of runs over it."""
    folder = tmp_path_factory.mktemp("export")
    rng = random.Random(1)
    rows = [(rng.random(), "north" if i % 2 else "south") for i in range(1_000)]
    lines = [f"{p},{int(rng.random() < p * p)},{shop}\n" for p, shop in rows]
    (folder / "in.csv").write_text("p,y,shop\n" + "".join(lines))
    given = [folder / "in.csv", "--score", "p", "--label", "y", "-q"]
    for name, more in {
        "run": ["--calibrator", "isotonic"],
        "keyed": ["--calibrator", "platt", "--key", "shop"],
        "sampled": ["--sampling-rate", "0.5"],
        "segments": ["--segment", "shop"],
    }.items():
        out, store = folder / f"{name}.csv", folder / f"{name}.db"
        run("calibrate", *given, *more, "--out", out, "--store", store)
    with Store(folder / "own.db") as own:
        calibrator = IsotonicCalibrator()
        calibrator.learn_many([0.2, 0.5, 0.7], [0, 1, 1])
        own.save({"one": calibrator, "key:7": calibrator, "all": TemperatureCalibrator()}, 3)
    Store(folder / "empty.db").close()
    return folder


def test_a_run_is_exported_in_each_format(made: Path, tmp_path: Path) -> None:
    with Store(made / "run.db", read_only=True) as store:
        calibrator = store.get("key:null")
    scores = np.linspace(0.0, 1.0, 201)
    want = calibrator.predict_many(scores)
    done = run("export", made / "run.db", "--to", tmp_path / "map.json")
    n_knots = len(json.loads((tmp_path / "map.json").read_text())["map"]["scores"])
    assert f"map.json: the map of the run, {n_knots} knots, exact" in done.stderr
    assert read_export(tmp_path / "map.json").predict_many(scores).tolist() == want.tolist()
    run("export", made / "run.db", "--to", tmp_path / "map.sql", "--column", 'a "score"')
    assert in_sqlite((tmp_path / "map.sql").read_text(), scores) == pytest.approx(want, abs=1e-12)
    run("export", made / "run.db", "--to", tmp_path / "MAP.ONNX", "--quiet")
    assert in_onnx((tmp_path / "MAP.ONNX").read_bytes(), scores) == pytest.approx(want, abs=1e-12)


def test_standard_output_needs_a_format(made: Path) -> None:
    done = run("export", made / "run.db", "--to", "-", "--format", "sql")
    assert done.stdout.startswith('CASE WHEN +"score" >=')
    assert done.stderr == ""
    assert (
        "unless there is --format" in run("export", made / "run.db", "--to", "-", status=2).stderr
    )


def test_keys_are_chosen(made: Path, tmp_path: Path) -> None:
    to = ["--to", tmp_path / "map.json"]
    done = run("export", made / "keyed.db", *to, status=2)
    assert "has 2 states: choose one by --key (key 'north', key 'south')" in done.stderr
    done = run("export", made / "keyed.db", *to, "--key", "west", status=2)
    assert "has no key 'west' (key 'north', key 'south')" in done.stderr
    done = run("export", made / "keyed.db", *to, "--key", "north")
    assert "the map of key 'north', a formula, exact" in done.stderr
    with Store(made / "keyed.db", read_only=True) as store:
        want: PlattCalibrator = store.get('key:"north"')
    assert json.loads((tmp_path / "map.json").read_text())["map"]["slope"] == want.slope
    done = run("export", made / "run.db", *to, "--key", "west", status=2)
    assert "run.db has no keys: leave out --key, got 'west'" in done.stderr
    for key in ("7", "one"):
        run("export", made / "own.db", *to, "--key", key)
        assert read_export(tmp_path / "map.json").n_samples == 3


def test_what_waits_for_labels_is_no_choice(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(PlattCalibrator(), store=store)
        events = [Event(0.3, id="a"), Event(math.nan, True, id="a")]
        run_durably(lambda _: events, keyed, lambda *_: None, store, join=LabelJoin(horizon=9))
    done = run("export", tmp_path / "run.db", "--to", tmp_path / "map.json")
    assert "the map of the run" in done.stderr
    assert read_export(tmp_path / "map.json").n_samples == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sampled.db"], "a run with --sampling-rate: its answers depend on that, too"),
        (["segments.db"], "also depends on the fields 'shop'"),
        (["own.db", "--key", "all"], "is a TemperatureCalibrator; only calibrators of one score"),
        (["in.csv"], "in.csv is not a store"),
        (["none.db"], "there is no file"),
        (["empty.db"], "empty.db has no calibrator yet: nothing was committed"),
        (["empty.db", "--key", "7"], "empty.db has no calibrator yet"),
        (["run.db", "--column", "\udcff"], "`--column` must be text that UTF-8 can hold"),
        (["run.db", "--error", "0"], r"`--error` must lie in [1e-10, 0.1], got 0.0"),
        (["run.db", "--max-knots", "1"], "`--max-knots` must be at least"),
        (["run.db", "--answer", "lower"], "`--answer` is for a VennAbersCalibrator"),
        (["run.db", "--dtype", "float32"], "`--dtype` is for ONNX"),
    ],
)
def test_what_is_wrong_is_one_line(
    given: Any, message: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made)
    done = run("export", *given, "--to", tmp_path / "map.json", status=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "map.json").exists()


def test_only_an_exported_map_is_replaced(made: Path, tmp_path: Path) -> None:
    for ending in ("json", "sql", "onnx"):
        to = tmp_path / f"map.{ending}"
        to.write_text("mine")
        done = run("export", made / "run.db", "--to", to, status=2)
        assert "exists and is no exported map: choose another name, or remove it" in done.stderr
        assert to.read_text() == "mine"
        to.write_text("")
        run("export", made / "run.db", "--to", to)
        written = to.read_bytes()
        run("export", made / "run.db", "--to", to)
        assert to.read_bytes() == written
    done = run("export", made / "run.db", "--to", made / "run.db", "--format", "sql", status=2)
    assert "is a database, such as a store" in done.stderr
    done = run("export", made / "run.db", "--to", tmp_path, "--format", "sql", status=2)
    assert "is a folder, not a file" in done.stderr
    done = run("export", made / "run.db", "--to", tmp_path / "no" / "map.sql", status=2)
    assert "there is no folder" in done.stderr
    done = run("export", made / "run.db", "--to", tmp_path / "map.txt", status=2)
    assert "must end in .json, .sql or .onnx" in done.stderr
