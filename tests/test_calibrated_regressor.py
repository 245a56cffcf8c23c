"""`CalibratedRegressor`: tests beyond those that it shares with `CalibratedClassifier`."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import base, datasets, evaluate, linear_model, metrics, optim, preprocessing, stats, tree

from streamcal import CalibratedRegressor, IsotonicCalibrator, PlattCalibrator
from tests.contract import river_checks
from tests.test_wrappers import Notes


class Script(base.Regressor):
    """Predicts from a script, and records its calls."""

    def __init__(self) -> None:
        self.answer: Any = 0.0
        self.calls: list[tuple[Any, ...]] = []

    def learn_one(self, x: dict[str, Any], y: float) -> None:
        self.calls.append(("learn", dict(x), y))

    def predict_one(self, x: dict[str, Any]) -> Any:
        self.calls.append(("predict", dict(x)))
        return self.answer


class WeightedScript(Script):
    """Accepts a weight and a time to learn, and a mood to predict."""

    def learn_one(self, x: dict[str, Any], y: float, w: float = 1.0, t: Any = None) -> None:
        self.calls.append(("learn", dict(x), y, w, t))

    def predict_one(self, x: dict[str, Any], mood: Any = None) -> Any:
        self.calls.append(("predict", dict(x), mood))
        return self.answer


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


def taught(model: CalibratedRegressor) -> Any:
    return model._calibrator.samples  # type: ignore[attr-defined]


def test_prediction_is_read_before_the_model_learns() -> None:
    script = Script()
    script.answer = 2.5
    model = CalibratedRegressor(script, Notes(((2.5, 7.0),)))
    model.learn_one({"a": 1}, 4)
    assert script.calls == [("predict", {"a": 1}), ("learn", {"a": 1}, 4)]
    assert taught(model) == [(2.5, 4.0, 1.0)]
    assert model.predict_one({}) == 7.0
    assert model.calibrate_one(2.5) == 7.0


def test_served_is_what_is_learned() -> None:
    script = Script()
    model = CalibratedRegressor(script, Notes())
    model.learn_one({}, 4.0, served=np.float32(0.5))
    assert script.calls == [("learn", {}, 4.0)]  # not asked
    assert taught(model) == [(0.5, 4.0, 1.0)]


def test_weights_and_arguments_go_where_they_are_taken() -> None:
    plain, rich = Script(), WeightedScript()
    for script, learned in ((plain, ("learn", {}, 3.0)), (rich, ("learn", {}, 3.0, 2.0, None))):
        model = CalibratedRegressor(script, Notes())
        model.learn_one({}, 3.0, w=2, propensity=1)
        assert script.calls[-1] == learned
        assert taught(model) == [(0.0, 3.0, 2.0)]
    model.learn_one({}, 3.0, t="now", mood="good")
    assert rich.calls[-2:] == [("predict", {}, "good"), ("learn", {}, 3.0, 1.0, "now")]
    model.predict_one({}, mood="bad", t=3)
    assert rich.calls[-1] == ("predict", {}, "bad")


@pytest.mark.parametrize(
    ("inner", "takes"),
    [
        (linear_model.LinearRegression(), True),
        (scaled(linear_model.LinearRegression()), True),
        (scaled(linear_model.PARegressor()), False),
        (scaled(CalibratedRegressor(linear_model.LinearRegression())), True),
    ],
    ids=str,
)
def test_weights_reach_river_models_that_take_them(inner: Any, takes: bool) -> None:
    light, heavy = (CalibratedRegressor(inner.clone()) for _ in range(2))
    for x, y in datasets.TrumpApproval().take(60):
        light.learn_one(x, y)
        heavy.learn_one(x, y, w=5.0)
    samples = [x for x, _ in datasets.TrumpApproval().take(80)]
    raw = [[m.regressor.predict_one(x) for x in samples] for m in (light, heavy)]
    assert (raw[0] != raw[1]) == takes


@pytest.mark.parametrize(
    "prototype", [IsotonicCalibrator("squared"), IsotonicCalibrator("poisson", window=100)]
)
def test_evaluation_equals_calibrating_the_predictions(prototype: Any) -> None:
    inner = scaled(linear_model.PARegressor())
    model, raw, calibrator = CalibratedRegressor(inner.clone(), prototype), inner, prototype.clone()
    for x, y in datasets.TrumpApproval().take(250):
        p = raw.predict_one(x)
        assert model.predict_one(x) == calibrator.predict_one(p)
        assert type(model.predict_one(x)) is float
        raw.learn_one(x, y)
        calibrator.learn_one(p, y)
        model.learn_one(x, y)


def test_calibration_helps_and_labels_may_come_late() -> None:
    inner = scaled(linear_model.PARegressor())
    raw = evaluate.progressive_val_score(datasets.TrumpApproval(), inner.clone(), metrics.RMSE())
    model = CalibratedRegressor(inner.clone())
    calibrated = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.RMSE())
    assert calibrated.get() < raw.get()
    late = evaluate.progressive_val_score(
        datasets.TrumpApproval(), CalibratedRegressor(inner), metrics.RMSE(), delay=20
    )
    assert math.isfinite(late.get())


def test_before_the_first_label_the_model_answers() -> None:
    script = Script()
    script.answer = 12.5
    model: Any = CalibratedRegressor(script)
    assert model.predict_one({}) == 12.5
    assert model.calibrator.loss == "squared"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "`y` must be a number, got None"),
        ({"y": "4"}, "`y` must be a number, got '4'"),
        ({"y": math.nan}, "`y` must lie in"),
        ({"w": 0.0}, "`w` must be a positive finite number, got 0.0"),
        ({"w": "2"}, "`w` must be a number, got '2'"),
        ({"served": math.nan}, "`served` must be a finite number, got nan"),
        ({"served": "3"}, "`served` must be a number, got '3'"),
    ],
)
def test_bad_sample_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    model = CalibratedRegressor(scaled(linear_model.LinearRegression()))
    for x, y in datasets.TrumpApproval().take(30):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(**{"x": {"a": 1.0}, "y": 3.0, **arguments})
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("answer", [math.nan, math.inf, None])
def test_model_without_an_answer(answer: Any) -> None:
    script = Script()
    script.answer = answer
    model = CalibratedRegressor(script, Notes())
    for call in (lambda: model.learn_one({}, 1.0), lambda: model.predict_one({})):
        with pytest.raises((ValueError, TypeError), match="`prediction` must be a"):
            call()
    assert taught(model) == []
    assert script.calls == [("predict", {})] * 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (linear_model.LogisticRegression(), "river regressor, got LogisticRegression"),
        (preprocessing.StandardScaler(), "river regressor, got StandardScaler"),
        (
            preprocessing.StandardScaler() | linear_model.LogisticRegression(),
            "river regressor, got LogisticReg",
        ),
        (linear_model.LinearRegression, "river regressor, got the class LinearRegression"),
        (None, "river regressor, got NoneType"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_regressor_is_refused(model: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"`regressor` must be a {message}"):
        CalibratedRegressor(model)


def test_calibrators_that_do_not_fit_are_refused() -> None:
    with pytest.raises(TypeError, match="`calibrator` must be a Calibrator or None, got 'squared'"):
        CalibratedRegressor(linear_model.LinearRegression(), "squared")
    model = CalibratedRegressor(linear_model.LinearRegression(), PlattCalibrator())
    with pytest.raises(ValueError, match="`y`"):
        model.learn_one({"a": 1.0}, 3.0)


@pytest.mark.parametrize(
    ("calibrator", "answer", "y", "message"),
    [
        (PlattCalibrator(), 3.0, 1.0, r"must be a probability in \[0, 1\], got 3.0"),
        (PlattCalibrator(), 0.5, 3.0, "`y` must lie in"),
        (IsotonicCalibrator("squared"), 0.5, 1e61, "`y` .* 1e"),
    ],
)
def test_what_the_calibrator_refuses_the_model_does_not_learn(
    calibrator: Any, answer: float, y: float, message: str
) -> None:
    script = Script()
    script.answer = answer
    model = CalibratedRegressor(script, calibrator)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=message):
        model.learn_one({}, y)
    assert not [call for call in script.calls if call[0] == "learn"]
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("calibrator", "served", "y", "message"),
    [
        (PlattCalibrator(), [0.5, 3.0], [1.0, 0.0], r"must lie in \[0, 1\], got 3.0 at position 1"),
        (IsotonicCalibrator("squared"), [0.5, 3.0], [1.0, 1e61], "1e.* at position 1"),
    ],
)
def test_what_the_calibrator_refuses_of_a_batch_the_model_does_not_learn(
    calibrator: Any, served: list[float], y: list[float], message: str
) -> None:
    model = CalibratedRegressor(linear_model.LinearRegression(), calibrator)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=message):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(y), served=served)
    assert pickle.dumps(model) == before


def test_copies_are_independent_and_clones_fresh() -> None:
    trained = IsotonicCalibrator("squared")
    trained.learn_one(0.0, 9.0)
    model = CalibratedRegressor(scaled(linear_model.LinearRegression()), trained)
    assert model.predict_one({"a": 1.0}) == 0.0  # a prototype is cloned
    data = list(datasets.TrumpApproval().take(60))
    for x, y in data[:40]:
        model.learn_one(x, y)
    clone = model.clone()
    assert clone.predict_one({"a": 1.0}) == 0.0
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.predict_one(data[50][0]) == model.predict_one(data[50][0])
        before = pickle.dumps(model)
        for x, y in data[40:]:
            twin.learn_one(x, y + 50.0)
        assert pickle.dumps(model) == before


# Mini-batches -------------------------------------------------------------------------------------

FRAMES: dict[str, tuple[Any, Any]] = {
    "pandas": (pd.DataFrame, pd.Series),
    "polars": (pl.DataFrame, pl.Series),
    "pyarrow": (pa.Table.from_pylist, lambda values: pa.chunked_array([values])),
}


@pytest.mark.parametrize("library", FRAMES)
def test_a_batch_is_predicted_then_learned(library: str) -> None:
    frame, series = FRAMES[library]
    rng = np.random.default_rng(3)
    inner = linear_model.LinearRegression(optim.SGD(0.01))
    model, raw = CalibratedRegressor(inner.clone()), inner.clone()
    calibrator = IsotonicCalibrator("squared")
    for _ in range(4):
        rows = [dict(zip("ab", row, strict=True)) for row in rng.normal(size=(30, 2)).tolist()]
        y = [row["a"] ** 3 for row in rows]
        w = rng.uniform(0.5, 2.0, 30)
        X = frame(rows)
        served = np.asarray(raw.predict_many(X), dtype=float)
        answer = model.predict_many(X)
        assert isinstance(answer, type(raw.predict_many(X)))
        np.testing.assert_allclose(np.asarray(answer), calibrator.predict_many(served))
        model.learn_many(X, series(y), series(w))
        calibrator.learn_many(served, y, w)
        raw.learn_many(X, series(y), w=series(w))
    twins = [CalibratedRegressor(inner.clone()) for _ in range(2)]
    twins[0].learn_many(X, series(y), served=series(y))
    twins[1].learn_many(X, series(y), w=1, served=np.array(y), decided=3)
    for twin in twins:
        assert twin.calibrate_one(y[0]) == pytest.approx(y[0])


def test_pandas_index_and_name_are_kept() -> None:
    index = ["u", "v", "w"]
    X, y = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index), pd.Series([1, 2, 4], index, name="target")
    model = CalibratedRegressor(scaled(linear_model.LinearRegression()))
    model.learn_many(X, y)
    answer: Any = model.predict_many(X)
    assert list(answer.index) == index
    assert answer.name == "target"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": pd.Series([1.0, 2.0])}, r"`y` must have one label per row of `X` \(3\), got 2"),
        ({"y": pd.Series([1.0, None, 3.0])}, "`y` must .* at position 1"),
        ({"y": pd.Series(["a", "b", "c"])}, "`y` must hold real numbers"),
        ({"w": [1.0, 2.0]}, "`w` must have one value per score"),
        ({"w": [1.0, 2.0, -1.0]}, "`w` must be a positive finite number, got -1.0 at position 2"),
        ({"w": 0.0}, "`w` must be a positive finite number"),
        ({"served": [0.5, 0.5, math.nan]}, "`served` must be finite, got nan at position 2"),
        ({"served": [0.5] * 2}, "one row per label"),
    ],
)
def test_bad_batch_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    model = CalibratedRegressor(linear_model.LinearRegression())
    good = {"X": pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "y": pd.Series([1.0, 0.5, 2.0])}
    model.learn_many(**good)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_many(**{**good, **arguments})
    assert pickle.dumps(model) == before


def test_models_without_batches_say_so() -> None:
    model = CalibratedRegressor(linear_model.PARegressor())
    X, y = pd.DataFrame({"a": [1.0]}), pd.Series([1.0])
    for call in (lambda: model.predict_many(X), lambda: model.learn_many(X, y)):
        with pytest.raises(AttributeError, match="PARegressor"):
            call()


RIVER_MODELS = [
    CalibratedRegressor(scaled(linear_model.LinearRegression())),
    CalibratedRegressor(tree.HoeffdingTreeRegressor(), IsotonicCalibrator("squared", window=100)),
]


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{model}-{check.__name__}")
        for model in RIVER_MODELS
        for check in river_checks(model)
    ],
)
def test_it_passes_the_checks_of_river(model: CalibratedRegressor, check: Any) -> None:
    check(model.clone())


def test_poisson_regression_is_calibrated_on_average() -> None:
    rng = np.random.default_rng(0)
    model = CalibratedRegressor(
        linear_model.LinearRegression(loss=optim.losses.Poisson(), intercept_lr=0.0),
        IsotonicCalibrator("poisson"),
    )
    raw_bias, bias = stats.Mean(), stats.Mean()
    for x in rng.uniform(size=1500):
        y = float(rng.poisson(np.exp(1.0 + x)))
        raw_bias.update(y - model.regressor.predict_one({"x": x}))
        bias.update(y - model.predict_one({"x": x}))
        model.learn_one({"x": x}, y)
    assert abs(bias.get()) < 0.5 * abs(raw_bias.get())
