"""Maps that leave Python: what is promised of their errors, and what is refused."""

import copy
import json
import math
import pickle
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model

from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    CalibratedClassifier,
    CalibratedRegressor,
    Calibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from streamcal.calibration import TopLabelCalibrator, read_export
from streamcal.export import as_json, as_onnx, as_sql
from streamcal.export.curve import logistic, logistic_curvature
from streamcal.export.knots import knots_of
from streamcal.export.maps import Knots, Logistic

EXACT = 1e-12


def drawn(n: int = 4_000, seed: int = 0) -> tuple[Any, Any]:
    """Return scores of a model that is wrong, and their labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 1.1, n)
    p[::50] = np.round(p[::50])  # trees say 0 and 1
    return p, (rng.random(n) < p**1.7).astype(float)


def taught(calibrator: Any, n: int = 4_000) -> Any:
    calibrator.learn_many(*drawn(n))
    return calibrator


MADE = {
    "isotonic": lambda: IsotonicCalibrator(window=1_000),
    "isotonic, every sample": lambda: IsotonicCalibrator(prior=0),
    "isotonic, steps": lambda: IsotonicCalibrator(half_life=300, interpolation="step"),
    "isotonic, means": lambda: IsotonicCalibrator("squared"),
    "histogram": lambda: HistogramCalibrator(half_life=500),
    "identity": IdentityCalibrator,
    "Platt": PlattCalibrator,
    "Platt, rare clip": lambda: PlattCalibrator(clip=1e-15, prior=0.1),
    "beta": lambda: BetaCalibrator(prior=1.0),
    "Venn-Abers": lambda: VennAbersCalibrator(window=400),
    "median": lambda: AnytimeCalibrator("absolute", window=300),
    "quantile, steps": lambda: AnytimeCalibrator(
        "absolute", window=300, interpolation="step", every=50
    ),
}
BOUNDED = {
    "hedge": HedgedCalibrator,
    "hedge, wide clip": lambda: HedgedCalibrator(
        [
            BetaCalibrator(prior=0.1),
            PlattCalibrator(clip=1e-12, prior=0.5),
            HistogramCalibrator(),
            IsotonicCalibrator(interpolation="step"),
            IdentityCalibrator(),
        ],
        clip=0.05,
    ),
    "calibeating": lambda: PlattCalibrator(calibeating=13, half_life=300),
    "hedge of calibeating": lambda: HedgedCalibrator([PlattCalibrator(calibeating=9)]),
    "hedge of a hedge": lambda: HedgedCalibrator([HedgedCalibrator(), BetaCalibrator()]),
}


def scores_for(table: Knots, n: int = 100_000) -> Any:
    """Return random scores, ends, and the knots with their neighbours among floats."""
    rng = np.random.default_rng(1)
    x = table.scores
    small = 10.0 ** -rng.uniform(0.0, 17.0, n // 10)
    near = [x, np.nextafter(x, 2.0), np.nextafter(x, -1.0)]
    ends = [0.0, 1.0, 1e-6, 1.0 - 1e-6, 1e-15, 1.0 - 1e-15, 5e-324, 0.5]
    found = np.concatenate([rng.random(n), *near, ends, small, 1.0 - small])
    return found.clip(0.0, 1.0)


def values_of(calibrator: Any, scores: Any) -> Any:
    if isinstance(calibrator, VennAbersCalibrator):  # each answer takes three updates
        some = np.unique(scores)[:: max(1, len(scores) // 5_000)]
        return some, calibrator.predict_many(some)
    return scores, calibrator.predict_many(scores)


def in_sqlite(expression: str, scores: Any) -> Any:
    with sqlite3.connect(":memory:") as database:
        database.execute('CREATE TABLE t ("a ""score""" REAL)')
        rows = [(None if score is None else float(score),) for score in scores]
        database.executemany("INSERT INTO t VALUES (?)", rows)
        found = database.execute(f"SELECT {expression} FROM t ORDER BY rowid").fetchall()
    return [value for (value,) in found]


def in_duckdb(expression: str, scores: Any) -> Any:
    duckdb = pytest.importorskip("duckdb")
    frame = {'a "score"': np.asarray(scores, dtype=np.float64)}
    with duckdb.connect() as database:
        database.register("numbers", pytest.importorskip("pyarrow").table(frame))
        found = database.execute(f"SELECT {expression} AS v FROM numbers").fetchnumpy()["v"]
    return np.ma.filled(np.ma.asarray(found, dtype=np.float64), np.nan)


def in_onnx(model: bytes, scores: Any) -> Any:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"score": scores})
    return found


COLUMN = 'a "score"'


@pytest.mark.parametrize("name", MADE)
def test_exact_maps_are_exact_in_every_format(name: str) -> None:
    calibrator = taught(MADE[name]())
    text = calibrator.export("json")
    read = read_export(text)
    assert json.loads(text)["error"] == 0.0
    table, bound = knots_of(calibrator._map().curve, 1e-4, 100_000)
    scores, want = values_of(calibrator, scores_for(table))
    assert bound == 0.0 or name in ("Platt", "Platt, rare clip", "beta")
    assert np.abs(read.predict_many(scores) - want).max() <= EXACT
    assert [read.predict_one(s) for s in scores[:20]] == read.predict_many(scores[:20]).tolist()
    sql = calibrator.export("sql", column=COLUMN)
    assert np.abs(in_duckdb(sql, scores) - want).max() <= EXACT
    assert np.abs(np.array(in_sqlite(sql, scores[::7])) - want[::7]).max() <= EXACT
    assert np.abs(in_onnx(calibrator.export("onnx"), scores) - want).max() <= EXACT


@pytest.mark.parametrize("error", [1e-3, 1e-6])
@pytest.mark.parametrize("name", [*BOUNDED, "Platt", "Platt, rare clip", "beta"])
def test_the_bound_of_an_error_holds(name: str, error: float) -> None:
    calibrator = taught((MADE | BOUNDED)[name]())
    text = calibrator.export("json", error=error, formula=False)
    content = json.loads(text)
    read = read_export(text)
    assert content["error"] == error
    n_knots = len(content["map"]["scores"])
    assert n_knots <= 2_000
    table = Knots(*(np.array(content["map"][part]) for part in ("scores", "values")))
    scores = scores_for(table)
    want = calibrator.predict_many(scores)
    assert np.abs(read.predict_many(scores) - want).max() <= error
    if name == "hedge" and error == 1e-6:
        assert np.abs(read.predict_many(scores) - want).max() >= 0.5 * error  # not far too many
    sql = calibrator.export("sql", error=error, formula=False, column=COLUMN)
    assert np.abs(in_duckdb(sql, scores) - read.predict_many(scores)).max() <= EXACT
    found = np.array(in_sqlite(sql, scores[::7]))
    assert np.abs(found - read.predict_many(scores[::7])).max() <= EXACT
    model = calibrator.export("onnx", error=error, formula=False)
    assert np.abs(in_onnx(model, scores) - read.predict_many(scores)).max() <= EXACT


def test_a_hedge_of_the_default_set_needs_fewer_than_two_thousand_knots() -> None:
    for n in (10, 200, 1_000, 12_000):
        calibrator = taught(HedgedCalibrator(), n)
        assert 10 < len(json.loads(calibrator.export("json"))["map"]["scores"]) < 2_000


def test_too_many_knots_are_counted() -> None:
    calibrator = taught(HedgedCalibrator())
    n_knots = len(json.loads(calibrator.export("json"))["map"]["scores"])
    with pytest.raises(ValueError, match=f"`max_knots` must be at least {n_knots} for an error"):
        calibrator.export("json", max_knots=n_knots - 1)
    assert calibrator.export("json", max_knots=n_knots)
    steep = PlattCalibrator(limit=1e60, gamma=1e-9, prior=1e-6)
    taught(steep, 20)
    if abs(steep.slope) > 1e9:
        with pytest.raises(ValueError, match=r"`max_knots` must be at least|values are rough"):
            steep.export("sql", error=1e-10, formula=False)


@given(
    st.floats(-30.0, 30.0),
    st.floats(0.0, 30.0),
    st.floats(-20.0, 20.0),
    st.floats(1e-9, 1 - 1e-9),
    st.floats(1e-12, 0.5),
    st.booleans(),
)
def test_the_bounds_of_curvature_hold(
    a: float, b: float, c: float, p: float, width: float, same: bool
) -> None:
    """Against the formula itself, at scores inside."""
    a, b = (a, a) if same else (abs(a), b)
    ends = (1e-9, 1.0 - 1e-9)
    left, right = p, min(p + width * min(p, 1.0 - p), ends[1])
    low, high = logistic_curvature(ends, (a, b, c))(np.array([left]), np.array([right]))
    middle = 0.5 * left + 0.5 * right
    if not ends[0] < middle < ends[1]:
        assert (low[0], high[0]) == (0.0, 0.0)
        return
    x = np.linspace(left, right, 7)
    z = a * np.log(x) - b * np.log1p(-x) + c
    q, slope = 1.0 / (1.0 + np.exp(-z)), a / x + b / (1.0 - x)
    terms = np.array([(1.0 - 2.0 * q) * slope**2, -a / x**2, b / (1.0 - x) ** 2])
    weight = q / (1.0 + np.exp(z))
    slack = 1e-12 * weight * np.abs(terms).sum(axis=0)
    want, counts = weight * terms.sum(axis=0), np.abs(z) < 39.0  # beyond, answers are constant
    assert (low[0] - slack <= want)[counts].all()
    assert (want <= high[0] + slack)[counts].all()


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.1, 10)), min_size=1),
    st.sampled_from(sorted(MADE)),
)
def test_random_programs_keep_exact(samples: Any, name: str) -> None:
    calibrator = MADE[name]()
    for score, label, weight in samples:
        calibrator.learn_one(score, label, weight)
    table, bound = knots_of(calibrator._map().curve, 1e-5, 1_000_000)
    x = np.concatenate([[score for score, *_ in samples], table.scores, [0.0, 1.0, 0.5]])
    x = np.concatenate([x, np.nextafter(x, 2.0), np.nextafter(x, -1.0)]).clip(0.0, 1.0)
    want = np.array([calibrator.predict_one(score) for score in x.tolist()])
    assert np.abs(table.at(x) - want).max() <= max(bound, EXACT)
    assert np.abs(read_export(calibrator.export("json")).predict_many(x) - want).max() <= EXACT


@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.1, 10)), min_size=1, max_size=40
    ),
    st.sampled_from(sorted(BOUNDED)),
    st.sampled_from([1e-2, 1e-5]),
)
def test_random_programs_keep_the_bound(samples: Any, name: str, error: float) -> None:
    calibrator = BOUNDED[name]()
    for score, label, weight in samples:
        calibrator.learn_one(score, label, weight)
    read = read_export(calibrator.export("json", error=error, max_knots=20_000))
    x = np.concatenate([[score for score, *_ in samples], read._exported.map.scores, [0.0, 1.0]])
    x = np.concatenate([x, np.nextafter(x, 2.0), np.nextafter(x, -1.0), 0.5 * x]).clip(0.0, 1.0)
    assert np.abs(read.predict_many(x) - calibrator.predict_many(x)).max() <= error


@pytest.mark.parametrize("name", [*MADE, *BOUNDED])
def test_before_anything_is_learned_the_map_is_the_identity(name: str) -> None:
    calibrator = (MADE | BOUNDED)[name]()
    if name in ("isotonic, means", "median", "quantile, steps"):  # of any number
        with pytest.raises(ValueError, match="the score itself, without end"):
            calibrator.export("json")
        return
    content = json.loads(calibrator.export("json"))
    assert content["map"] == {"kind": "knots", "scores": [0.0, 1.0], "values": [0.0, 1.0]}
    assert in_sqlite(calibrator.export("sql", column=COLUMN), [0.0, 0.3, 1.0]) == [0.0, 0.3, 1.0]


def test_a_window_that_is_not_solved_yet_has_no_map() -> None:
    with AnytimeCalibrator("absolute", background=True) as calibrator:
        calibrator.learn_one(0.5, 1.0)
        with pytest.raises(ValueError, match=r"needs a solved window \(call `solve`\)"):
            calibrator.export("json")
        calibrator.solve()
        assert read_export(calibrator.export("json")).predict_one(0.5) == 1.0


def test_scores_beyond_all_and_wide_gaps() -> None:
    calibrator = IsotonicCalibrator("squared")
    calibrator.learn_many([-1.5e308, -1e300, 0.0, 1e300, 1.5e308], [-3.0, -2.0, 0.0, 1.0, 5.0])
    read = read_export(calibrator.export("json"))
    scores = np.array([-1.6e308, -1.2e308, -1e307, 3e299, 1.2e308, 1.6e308])
    want = calibrator.predict_many(scores)
    assert read.predict_many(scores) == pytest.approx(want, rel=EXACT)
    assert in_duckdb(calibrator.export("sql", column=COLUMN), scores) == pytest.approx(want)
    assert in_onnx(calibrator.export("onnx"), scores) == pytest.approx(want)
    with pytest.raises(ValueError, match=r"`dtype` must be float64 for scores beyond 3\.4e38"):
        calibrator.export("onnx", dtype="float32")


def test_infinite_values_are_refused() -> None:
    calibrator = IsotonicCalibrator("logistic", prior=0)
    calibrator.learn_many([1.0, 2.0], [-1, 1])
    with pytest.raises(ValueError, match=r"finite values, got \[-inf\]: a prior"):
        calibrator.export("json")


# NULL, NaN, and what is out of range ----------------------------------------------------------


@pytest.mark.parametrize("name", ["isotonic", "Platt", "beta", "isotonic, steps"])
def test_what_is_no_score_has_no_answer(name: str) -> None:
    calibrator = taught(MADE[name]())
    low, high = calibrator.predict_one(0.0), calibrator.predict_one(1.0)
    given = [math.nan, math.inf, -math.inf, -0.5, 1.5, -1e300, 1e300]
    want = [math.nan] * 3 + [low, high] * 2
    sql = calibrator.export("sql", column=COLUMN)
    assert in_duckdb(sql, given) == pytest.approx(want, abs=EXACT, nan_ok=True)
    assert in_sqlite(sql, [None]) == [None]
    # SQLite stores NaN as NULL.
    found = [math.nan if v is None else v for v in in_sqlite(sql, given)]
    assert found == pytest.approx(want, abs=EXACT, nan_ok=True)
    found = in_onnx(calibrator.export("onnx"), np.array(given))
    assert found == pytest.approx(want, abs=EXACT, nan_ok=True)
    read = read_export(calibrator.export("json"))
    for score in given[:3]:
        with pytest.raises(ValueError, match="`score` must be"):
            read.predict_one(score)
    if name in ("Platt", "beta"):
        with pytest.raises(ValueError, match=r"`score` must be a probability in \[0, 1\]"):
            read.predict_one(1.5)
        with pytest.raises(ValueError, match=r"`scores` must lie in \[0, 1\], got 1.5"):
            read.predict_many([0.5, 1.5])
    else:  # as before
        assert read.predict_one(1.5) == calibrator.predict_one(1.5)


def test_duckdb_keeps_null() -> None:
    duckdb = pytest.importorskip("duckdb")
    sql = taught(IsotonicCalibrator()).export("sql", column="p")
    with duckdb.connect() as database:
        query = f"SELECT {sql} FROM (VALUES (NULL::DOUBLE), (0.5), (0::DOUBLE)) AS t(p)"
        found = [value for (value,) in database.execute(query).fetchall()]
    assert found[0] is None
    assert all(0.0 <= value <= 1.0 for value in found[1:])


@pytest.mark.parametrize(
    "column", ["p", "select", "a b", 'x" OR "1"="1', "; DROP TABLE t; --", "Ü"]
)
def test_names_of_columns_are_quoted(column: str) -> None:
    sql = taught(IsotonicCalibrator()).export("sql", column=column)
    with sqlite3.connect(":memory:") as database:
        name = column.replace('"', '""')
        database.execute(f'CREATE TABLE t ("{name}" REAL)')
        database.execute("INSERT INTO t VALUES (0.5)")
        ((found,),) = database.execute(f"SELECT {sql} FROM t").fetchall()
    assert found == pytest.approx(taught(IsotonicCalibrator()).predict_one(0.5), abs=EXACT)


@pytest.mark.parametrize("name", ["isotonic", "Platt", "isotonic, steps"])
def test_text_is_null_in_sqlite(name: str) -> None:
    """A column of text compares numbers as text: "1e-07" is above "0.9"."""
    calibrator = taught(MADE[name]())
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (p TEXT, number TEXT)")
        database.execute(
            "INSERT INTO t VALUES ('0.3', '0.3'), (1e-7, 1e-7), ('abc', 0), (x'31', 1)"
        )
        sql = calibrator.export("sql", column="p")
        assert database.execute(f"SELECT {sql} FROM t").fetchall() == [(None,)] * 4
        cast = f"SELECT {sql} FROM (SELECT CAST(number AS REAL) AS p FROM t)"
        found = [value for (value,) in database.execute(cast).fetchall()]
    want = calibrator.predict_many([0.3, 1e-7, 0.0, 1.0])
    assert found == pytest.approx(want, abs=EXACT)


def test_a_column_that_does_not_exist_is_null_in_sqlite() -> None:
    """SQLite takes such a name in quotes for text."""
    sql = taught(PlattCalibrator()).export("sql", column="typo")
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (p REAL)")
        database.execute("INSERT INTO t VALUES (0.5)")
        assert database.execute(f"SELECT {sql} FROM t").fetchall() == [(None,)]


def test_a_database_without_functions_gets_knots() -> None:
    calibrator = taught(PlattCalibrator())
    assert "exp(" in calibrator.export("sql")
    sql = calibrator.export("sql", formula=False, column=COLUMN)
    assert "exp" not in sql
    assert "ln" not in sql
    assert in_sqlite(sql, [0.3])[0] == pytest.approx(calibrator.predict_one(0.3), abs=1e-6)


def test_the_expression_of_many_knots_is_no_deeper_than_databases_allow() -> None:
    calibrator = IsotonicCalibrator("squared", interpolation="step")
    calibrator.learn_many(np.arange(2_000.0), np.arange(2_000.0))
    sql = calibrator.export("sql", max_knots=4_000, column=COLUMN)
    assert in_sqlite(sql, [-1.0, 0.5, 1_234.5, 1_999.0, 5_000.0]) == [0, 0, 1_234, 1_999, 1_999]


# JSON -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*MADE, *BOUNDED])
def test_json_has_the_form_of_its_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    calibrator = (MADE | BOUNDED)[name]()
    taught(calibrator, 300)
    content = json.loads(calibrator.export("json"))
    jsonschema.Draft202012Validator.check_schema(as_json.schema())
    jsonschema.validate(content, as_json.schema())
    for wrong in (
        content | {"version": 2},
        content | {"more": 1},
        content | {"map": {"kind": "spline"}},
        {key: value for key, value in content.items() if key != "error"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, as_json.schema())


def test_numbers_survive_to_the_bit() -> None:
    table = Knots(np.array([5e-324, 0.1 + 0.2, 1.0 / 3.0 + 1.0]), np.array([1e-300, 0.7, 0.1**7]))
    again = as_json._read_map(
        json.loads(json.dumps({"kind": "knots", **{k: v.tolist() for k, v in vars(table).items()}}))
    )
    assert again.scores.tobytes() == table.scores.tobytes()
    assert again.values.tobytes() == table.values.tobytes()


def test_a_map_is_read_from_text_and_from_a_file(tmp_path: Path) -> None:
    calibrator = taught(IsotonicCalibrator())
    text, path = calibrator.export("json"), tmp_path / "map.json"
    path.write_text(text, encoding="utf-8")
    read = [read_export(text), read_export(f" \n{text}"), read_export(path), read_export(str(path))]
    assert {one.predict_one(0.4) for one in read} == {calibrator.predict_one(0.4)}
    assert {one.n_samples for one in read} == {calibrator.n_samples}
    assert repr(read[0]).startswith("ExportedCalibrator(IsotonicCalibrator, ")
    assert not hasattr(read_export(IdentityCalibrator().export("json")), "n_samples")
    with pytest.raises(FileNotFoundError):
        read_export(tmp_path / "none.json")
    for wrong in (None, 3, b"{}", [text]):
        with pytest.raises(TypeError, match="`source` must be JSON or the path of a file"):
            read_export(wrong)


def test_a_byte_order_mark_is_no_part_of_a_map(tmp_path: Path) -> None:
    text, path = taught(IsotonicCalibrator()).export("json"), tmp_path / "map.json"
    path.write_text(text, encoding="utf-8-sig")
    assert read_export(path).export("json") == read_export(f"\ufeff{text}").export("json")
    path.write_text(text, encoding="utf-16")  # of some Windows shells
    with pytest.raises(ValueError, match=f"{WRONG}: .*map.json is no text in UTF-8"):
        read_export(path)


def test_what_is_read_learns_nothing() -> None:
    read: Calibrator = read_export(taught(HedgedCalibrator()).export("json"))
    before = read.predict_one(0.3)
    for learn in (
        lambda: read.learn_one(0.5, 1),
        lambda: read.learn_many([0.5], [1]),
        lambda: read.learn_group([0.5], [1]),
        lambda: read.predict_learn_many([0.5], [1]),
        lambda: read._learn_steps(0.5, 1, 1.0),
        lambda: CalibratedClassifier(linear_model.LogisticRegression(), read),
        lambda: HedgedCalibrator([read]),
    ):
        with pytest.raises(TypeError, match="read-only: teach the calibrator that it was exported"):
            learn()
    restored = Calibrator.from_bytes(read.to_bytes())
    for twin in (copy.deepcopy(read), pickle.loads(pickle.dumps(read)), read.clone(), restored):
        assert twin.predict_one(0.3) == before == read.predict_one(0.3)
    assert read.snapshot().predict_one(0.3) == before


def test_a_map_that_was_read_can_be_exported_again() -> None:
    calibrator = taught(HedgedCalibrator())
    read = read_export(calibrator.export("json", error=1e-4))
    again = read_export(read.export("json"))
    x = np.linspace(0.0, 1.0, 1_001)
    assert np.abs(again.predict_many(x) - read.predict_many(x)).max() <= EXACT
    assert again.error == read.error == 1e-4
    platt = read_export(taught(PlattCalibrator()).export("json"))
    assert platt.export("sql") == taught(PlattCalibrator()).export("sql")


WRONG = "`source` must be the JSON of an exported map"
KNOTS = {"kind": "knots", "scores": [0.0, 0.5], "values": [0.0, 1.0]}
PLATT = {"kind": "platt", "slope": 1.0, "intercept": 0.0, "low": 0.1, "high": 0.9}
BETA = {"kind": "beta", "a": 1.0, "b": 1.0, "c": 0.0, "low": 0.1, "high": 0.9}
WHOLE = {
    "format": "streamcal map",
    "version": 1,
    "written_by": "streamcal 0.1.0",
    "calibrator": "IsotonicCalibrator",
    "n_samples": 3,
    "scores": "numbers",
    "error": 0.0,
    "map": KNOTS,
}


@pytest.mark.parametrize("good", [KNOTS, PLATT, BETA])
def test_what_is_crafted_well_is_read(good: Any) -> None:
    assert 0.0 <= read_export(json.dumps(WHOLE | {"map": good})).predict_one(0.3) <= 1.0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 2}, "its version is 2, and this streamcal reads 1"),
        ({"version": True}, "its version is True"),
        ({"version": 1.0}, "its version is 1.0"),
        ({"version": "9" * 99}, "its version is '99999"),
        ({"format": "other"}, 'its "format" is not'),
        ({"more": 1}, "must have the names"),
        ({"n_samples": -1}, '"n_samples" must be a count or null'),
        ({"n_samples": 1.5}, '"n_samples" must be a count or null'),
        ({"error": -1.0}, r'"error" must be in \[0, 1\]'),
        ({"error": "0"}, '"error" must be a finite number'),
        ({"scores": "words"}, '"scores" must be one of'),
        ({"scores": ["numbers"]}, '"scores" must be one of'),
        ({"calibrator": 3}, '"calibrator" must be text'),
        ({"map": []}, '"map" must be an object'),
        ({"map": {}}, '"kind" must be one of'),
        ({"map": {"kind": ["knots"]}}, '"kind" must be one of'),
        ({"map": KNOTS | {"scores": [0.5, 0.0]}}, '"scores" must ascend'),
        ({"map": KNOTS | {"scores": [0.5, 0.5]}}, '"scores" must ascend'),
        ({"map": KNOTS | {"scores": [-1.5e308, 1.5e308]}}, "gaps must be finite"),
        ({"map": KNOTS | {"values": [-1.5e308, 1.5e308]}}, "gaps must be finite"),
        ({"map": KNOTS | {"scores": [0.5]}}, "must be as many"),
        ({"map": KNOTS | {"scores": [], "values": []}}, "must be as many, and some"),
        ({"map": KNOTS | {"scores": 0.5}}, '"scores" must be a list'),
        ({"map": KNOTS | {"values": [0.0, None]}}, 'each of "values" must be a finite number'),
        ({"map": KNOTS | {"values": [False, True]}}, 'each of "values" must be a finite number'),
        ({"map": KNOTS | {"values": [0, 10**400]}}, 'each of "values" must be a finite number'),
        ({"map": KNOTS | {"slope": 1.0}}, '"map" must have the names'),
        ({"map": PLATT | {"low": 0.9}}, '"low" and "high" must be ascending'),
        ({"map": PLATT | {"low": 0.0}}, r"in \(0, 1\)"),
        ({"map": PLATT | {"high": 1.0}}, r"in \(0, 1\)"),
        ({"map": PLATT | {"slope": 1e300}}, "log odds of answers must be from -100 to 100"),
        ({"map": BETA | {"a": -1.0}}, '"a" and "b" must not be negative'),
        ({"map": BETA | {"c": 1e9}}, "log odds of answers"),
    ],
)
def test_crafted_json_is_refused(change: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{WRONG}: .*{reason}"):
        read_export(json.dumps(WHOLE | change))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "it is no JSON"),
        ("{}", 'its "format" is not'),
        (json.dumps(WHOLE).replace("0.5", "NaN"), "NaN is no number of JSON"),
        (json.dumps(WHOLE).replace("0.5", "-Infinity"), "-Infinity is no number of JSON"),
        (json.dumps(WHOLE).replace("0.5", "1e999"), "must be a finite number"),
        (json.dumps(WHOLE).replace("0.5", "9" * 5_000), "it is no JSON"),
        (json.dumps(WHOLE).replace('"error"', '"version": 1, "error"'), "a name is there twice"),
        ('{"a":' * 100_000, "it is nested too deeply"),
    ],
)
def test_crafted_text_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{WRONG}: .*{reason}"):
        read_export(text)


# ONNX -----------------------------------------------------------------------------------------


def test_a_model_says_what_it_needs() -> None:
    onnx = pytest.importorskip("onnx")
    for calibrator in (taught(HedgedCalibrator()), taught(BetaCalibrator()), IdentityCalibrator()):
        model = onnx.load_from_string(calibrator.export("onnx"))
        assert [(each.domain, each.version) for each in model.opset_import] == [("", as_onnx.OPSET)]
        assert model.producer_name == "streamcal"
        (given,), (found,) = model.graph.input, model.graph.output
        assert (given.name, found.name) == ("score", "calibrated")
        assert given.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
        assert in_onnx(model.SerializeToString(), np.empty(0)).shape == (0,)


def test_the_package_onnx_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    calibrator = IdentityCalibrator()
    with pytest.raises(ImportError, match=r"a model of ONNX needs onnx: pip install '\.\[onnx\]'"):
        calibrator.export("onnx")
    assert calibrator.export("sql")


@pytest.mark.parametrize("near", [1.0 - 1e-9, 1.0 + 3e-8, -1.0 + 2e-8, -2.0])
def test_a_factor_that_is_nearly_one_is_kept(near: float) -> None:
    # onnxruntime leaves out a factor that is 1 as a float of 32 bits.
    platt = PLATT | {"slope": near}
    beta = BETA | {"a": abs(near), "b": abs(near)}
    scores = np.linspace(0.0, 1.0, 1_001)
    for content in (platt, beta):
        served = read_export(json.dumps(WHOLE | {"map": content}))
        found = in_onnx(served.export("onnx"), scores)
        assert np.abs(found - served.predict_many(scores)).max() <= EXACT


@pytest.mark.filterwarnings("error")
def test_a_rise_beyond_all_floats_is_refused_without_a_warning() -> None:
    knots = {"kind": "knots", "scores": [0.1, 0.5], "values": [0.0, 1e308]}
    served = read_export(json.dumps(WHOLE | {"map": knots}))
    with pytest.raises(ValueError, match="`dtype` float32 rounds scores"):
        served.export("onnx", dtype="float32")


@pytest.mark.parametrize("name", ["hedge", "Platt", "beta", "identity", "isotonic, means"])
def test_32_bits_keep_to_the_bound_that_was_promised(name: str) -> None:
    calibrator = (MADE | BOUNDED)[name]()
    smooth, refused = np.linspace(0.0, 1.0, 401), ""
    calibrator.learn_many(smooth, smooth**1.5)
    for error in 10.0 ** np.arange(-7.0, 0.0):
        try:
            model = calibrator.export("onnx", dtype="float32", error=error, max_knots=100_000)
        except ValueError as refusal:
            refused = str(refusal)
            continue
        table = knots_of(calibrator._map().curve, 1e-3, 100_000)[0]
        scores = scores_for(table)
        found = in_onnx(model, scores.astype(np.float32))
        assert found.dtype == np.float32
        assert np.abs(found - calibrator.predict_many(scores)).max() <= error
        assert error <= 1e-2
        assert "`dtype` float32 rounds scores" in refused
        return
    pytest.fail(f"every error was refused: {refused}")


def test_32_bits_that_mix_up_scores_are_refused() -> None:
    calibrator = IsotonicCalibrator("squared")
    calibrator.learn_many([0.5, 0.5 + 1e-9], [0.02, 0.98])
    with pytest.raises(ValueError, match=r"answers of this map by up to 0\.96, got `error` 1e-06"):
        calibrator.export("onnx", dtype="float32")
    found = in_onnx(calibrator.export("onnx"), np.array([0.5, 0.5 + 1e-9]))
    assert found == pytest.approx([0.02, 0.98])


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(0, 1)), min_size=1, max_size=8),
    st.lists(st.floats(-3, 3), min_size=1),
    st.lists(st.floats(0, 4), min_size=8, max_size=8),
)
def test_the_bound_of_rounding_holds(knots: Any, scores: Any, near: Any) -> None:
    x, y = np.array(sorted(dict(knots).items())).T
    table = Knots.of(x, y)
    bound = as_onnx.rounding_error(table)
    tries = np.array([*scores, *x, *(x[:8] + np.array(near[: len(x)]) * 2.0**-25)])
    tries = np.concatenate([tries, np.nextafter(tries, 9), np.nextafter(tries, -9)])
    found = np.abs(table.at(tries) - table.at(tries.astype(np.float32).astype(np.float64)))
    assert found.max() <= bound * (1.0 + 1e-9) + 1e-15


# What can't be exported, and other answers --------------------------------------------------


class Own(IsotonicCalibrator):
    def predict_one(self, score: float, x: Any = None) -> float:
        return 0.5 * super().predict_one(score)


class Mean(Calibrator):
    def learn_one(self, score: float, y: float, w: float = 1.0, **more: Any) -> None:
        pass

    def predict_one(self, score: float, x: Any = None) -> float:
        return 0.5

    def _check_labels(self, y: Any) -> Any:
        return np.asarray(y, dtype=float)


@pytest.mark.parametrize(
    "calibrator",
    [Own(), Mean(), HedgedCalibrator([IdentityCalibrator(), Own()]), HedgedCalibrator([Mean()])],
)
def test_a_class_of_a_user_is_refused(calibrator: Any) -> None:
    calibrator.learn_one(0.5, 1)
    with pytest.raises(TypeError, match=r"`export` knows nothing of the map of a (Own|Mean)"):
        calibrator.export("json")


def test_a_map_that_depends_on_fields_is_refused() -> None:
    calibrator = SegmentCalibrator(["country", "device"])
    calibrator.learn_one(0.5, 1, x={"country": "a", "device": "b"})
    with pytest.raises(TypeError, match="also depends on the fields 'country', 'device'"):
        calibrator.export("sql")


@pytest.mark.parametrize("joint", [TemperatureCalibrator(), TopLabelCalibrator()])
def test_a_joint_calibrator_is_refused(joint: Any) -> None:
    with pytest.raises(TypeError, match="maps the probabilities of all labels at once"):
        joint.export("json")


def test_venn_abers_has_three_answers() -> None:
    calibrator = taught(VennAbersCalibrator(window=200))
    x = np.concatenate([np.linspace(-0.1, 1.1, 301), calibrator.isotonic.samples()[0]])
    x = np.concatenate([x, np.nextafter(x, 2.0), np.nextafter(x, -1.0)])
    low, high = np.array([calibrator.predict_interval_one(score) for score in x.tolist()]).T
    for answer, want in (("lower", low), ("upper", high), ("merged", calibrator.predict_many(x))):
        read = read_export(calibrator.export("json", answer=answer))
        assert read.predict_many(x).tolist() == want.tolist()
    assert calibrator.export("sql") == calibrator.export("sql", answer="merged")
    with pytest.raises(ValueError, match="`answer` must be one of"):
        calibrator.export("sql", answer="both")
    with pytest.raises(ValueError, match="`answer` is for a VennAbersCalibrator"):
        calibrator.isotonic.export("sql", answer="lower")
    unlearned = read_export(VennAbersCalibrator().export("json", answer="upper"))
    assert unlearned.predict_one(0.3) == VennAbersCalibrator().predict_interval_one(0.3)[1]


def test_a_hedge_that_would_clip_a_hedge_further_is_refused() -> None:
    calibrator = taught(HedgedCalibrator([HedgedCalibrator()], clip=0.2))
    with pytest.raises(TypeError, match="use a smaller clip for the outer one"):
        calibrator.export("json")


def test_an_open_burst_is_part_of_the_map_and_stays_open() -> None:
    calibrator = HedgedCalibrator()
    tickets = [calibrator.serve_one(0.6).ticket for _ in range(50)]
    for ticket in tickets:
        calibrator.learn_one(0.6, 1, ticket=ticket)
    assert calibrator._has_open_burst()
    state = calibrator.to_bytes()
    read = read_export(calibrator.export("json"))
    assert calibrator.to_bytes() == state
    assert read.predict_one(0.6) == pytest.approx(calibrator.predict_one(0.6), abs=1e-6)
    assert read.predict_one(0.6) != 0.6


def test_an_export_changes_nothing() -> None:
    for made in (MADE | BOUNDED).values():
        calibrator = taught(made(), 200)
        state = calibrator.to_bytes()
        for form in ("json", "sql", "onnx"):
            calibrator.export(form)
        assert calibrator.to_bytes() == state


def test_an_export_beside_a_thread_that_learns_is_one_map() -> None:
    calibrator, done = taught(IsotonicCalibrator(window=500)), threading.Event()
    p, y = drawn(2_000, seed=3)

    def learn() -> None:
        for _ in range(20):
            calibrator.learn_many(p, y)
        done.set()

    thread = threading.Thread(target=learn)
    thread.start()
    while not done.is_set():
        values = json.loads(calibrator.export("json"))["map"]["values"]
        assert values == sorted(values)
    thread.join()


def test_a_keyed_calibrator_exports_the_map_of_a_key() -> None:
    keyed = KeyedCalibrator(IsotonicCalibrator())
    p, y = drawn(400)
    keyed.learn_many(["a", "b"] * 200, p, y)
    x = np.linspace(0.0, 1.0, 101).tolist()
    for key in ("a", "b", "new"):
        read = read_export(keyed.export(key, "json"))
        assert [read.predict_one(s) for s in x] == [keyed.predict_one(key, s) for s in x]
    assert sorted(keyed) == ["a", "b"]


def test_wrappers_export_where_there_is_one_map() -> None:
    model = CalibratedClassifier(linear_model.LogisticRegression(), IsotonicCalibrator())
    with pytest.raises(ValueError, match="needs a learned sample"):
        model.export("json")
    for i in range(200):
        model.learn_one({"x": i % 7}, i % 7 > 3)
    read = read_export(model.export("json"))
    raw = {False: 0.7, True: 0.3}
    assert read.predict_one(0.3) == model.calibrate_one(raw)[True]
    sampled = CalibratedClassifier(linear_model.LogisticRegression(), sampling_rate=0.5)
    sampled.learn_one({"x": 1}, True)
    with pytest.raises(TypeError, match="depend on the rate, too"):
        sampled.export("json")
    regressor = CalibratedRegressor(linear_model.LinearRegression())
    for i in range(50):
        regressor.learn_one({"x": i % 7}, i % 7)
    served = read_export(regressor.export("json"))
    assert served.predict_one(3.0) == pytest.approx(regressor.calibrate_one(3.0), abs=EXACT)


def test_several_labels_are_refused() -> None:
    from river import naive_bayes

    model = CalibratedClassifier(naive_bayes.GaussianNB(), IsotonicCalibrator())
    for i in range(60):
        model.learn_one({"x": i % 3}, "abc"[i % 3])
    with pytest.raises(TypeError, match=r"for the labels False and True: .* got maps of"):
        model.export("json")
    assert model.calibrators["a"].export("sql")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "`format` must be one of 'json', 'sql', 'onnx', got 'xml'"),
        ({"error": 0.0}, r"`error` must lie in \[1e-10, 0.1\], got 0.0"),
        ({"error": math.nan}, "`error` must lie in"),
        ({"max_knots": 0}, "`max_knots` must be"),
        ({"column": ""}, "`column` must be a name"),
        ({"column": "\udcff"}, "`column` must be text that UTF-8 can hold"),
        ({"column": "a\0b"}, "`column` must be a name without a zero character"),
        ({"dtype": "float16"}, "`dtype` must be one of"),
        ({"format": "sql", "dtype": "float32"}, "`dtype` is for ONNX"),
    ],
)
def test_options_out_of_range_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IdentityCalibrator().export(**{"format": "json", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": "small"}, "`error` must be a number"),
        ({"column": 3}, "`column` must be the name of a column, got 3"),
        ({"formula": 1}, "`formula` must be True or False, got 1"),
    ],
)
def test_options_of_another_type_are_refused(options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        IdentityCalibrator().export("json", **options)


def test_log_odds_beyond_34_are_constant_in_a_formula() -> None:
    formula = Logistic.clipped("platt", 90.0, 90.0, -3.0, 1e-9)
    assert formula is not None
    assert np.abs(formula.log_odds(np.array([formula.low, formula.high]))).max() <= 34.0001
    assert formula.low > 0.3
    assert Logistic.clipped("platt", 0.0, 0.0, 2.0, 1e-6) is None
    assert Logistic.clipped("beta", 0.0, 0.0, 2.0, 1e-6) is None
    falling = Logistic.clipped("platt", -90.0, -90.0, 3.0, 1e-9)
    assert falling is not None
    assert falling.at(np.array([0.0])) > falling.at(np.array([1.0]))
    curve = logistic(falling.at, (falling.low, falling.high), (-90.0, -90.0, 3.0))
    table, bound = knots_of(curve, 1e-6, 5_000)
    x = np.linspace(0.0, 1.0, 10_001)
    assert np.abs(table.at(x) - falling.at(x)).max() <= bound


def test_sqlite_reads_the_same_floats() -> None:
    """Of the shortest digits, SQLite 3.40 reads one number in ten thousand as its neighbour."""
    rng = np.random.default_rng(3)
    sizes = 10.0 ** rng.integers(-12, 3, 30_000)
    floats = [*(rng.random(30_000) * sizes).tolist(), *(np.arange(10_001) / 1e4).tolist()]
    texts = [as_sql.number(one) for one in floats]
    assert [float(text) for text in texts] == floats
    with sqlite3.connect(":memory:") as database:
        read = [
            value
            for first in range(0, len(texts), 500)
            for value in database.execute(
                f"SELECT {', '.join(texts[first : first + 500])}"
            ).fetchone()
        ]
    assert read == floats


def test_numbers_of_sql_are_floats_and_exact() -> None:
    for value in (0.0, 1.0, -0.5, 1e-300, 0.1, 123456.0, 1e22, -3e-8):
        assert float(as_sql.number(value)) == value
        assert "e" in as_sql.number(value)
