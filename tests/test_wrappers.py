import inspect
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import (
    active,
    anomaly,
    base,
    compose,
    datasets,
    ensemble,
    evaluate,
    linear_model,
    metrics,
    multiclass,
    multioutput,
    naive_bayes,
    optim,
    preprocessing,
    stream,
    tree,
)

from streamcal import (
    CalibratedClassifier,
    CalibratedRegressor,
    DecisionClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    PrecomputedClassifier,
    TemperatureCalibrator,
    ThresholdClassifier,
    TopLabelCalibrator,
    VoteClassifier,
)
from streamcal._state import Stateful, decode
from streamcal.calibration.base import Calibrator
from streamcal.decision import PredictionSetClassifier, SelectiveClassifier
from streamcal.wrappers.routing import OWN_ARGUMENTS, Routing


class Script(base.Classifier):
    """Predicts from a script, and records its calls."""

    def __init__(self) -> None:
        self.answer: dict[Any, float] = {}
        self.calls: list[tuple[Any, ...]] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        self.calls.append(("learn", dict(x), y))

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        self.calls.append(("predict", dict(x)))
        return dict(self.answer)


class WeightedScript(Script):
    """Accepts a weight and a time to learn, and a mood to predict."""

    def learn_one(self, x: dict[str, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        self.calls.append(("learn", dict(x), y, w, t))

    def predict_proba_one(self, x: dict[str, Any], mood: Any = None) -> dict[Any, float]:
        self.calls.append(("predict", dict(x), mood))
        return dict(self.answer)


class Notes(Calibrator):
    """Records its samples; predicts by a lookup table."""

    def __init__(self, table: tuple[tuple[float, float], ...] | None = None):
        self.table = table
        self.samples: list[tuple[float, Any, float]] = []

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        self.samples.append((score, y, w))

    def predict_one(self, score: float) -> float:
        return dict(self.table or ()).get(score, score)

    def _check_labels(self, y: Any) -> Any:
        return np.asarray(y, dtype=np.float64)


def taught(model: CalibratedClassifier) -> dict[Any, list[tuple[float, Any, float]]]:
    return {label: each.samples for label, each in model.calibrators.items()}


def scaled(model: base.Classifier) -> compose.Pipeline:
    return preprocessing.StandardScaler() | model


# One sample at a time -----------------------------------------------------------------------------


def test_score_is_read_before_the_model_learns() -> None:
    script = Script()
    script.answer = {False: 0.2, True: 0.8}
    model = CalibratedClassifier(script, Notes())
    model.learn_one({"a": 1}, True)
    assert script.calls == [("predict", {"a": 1}), ("learn", {"a": 1}, True)]
    assert taught(model) == {True: [(0.8, True, 1.0)]}


def test_binary_has_one_calibrator() -> None:
    script = Script()
    script.answer = {False: 0.2, True: 0.8}
    model = CalibratedClassifier(script, Notes(((0.8, 0.6),)))
    assert model.predict_proba_one({}) == {False: 0.2, True: 0.8}
    model.learn_one({}, False)
    assert taught(model) == {True: [(0.8, False, 1.0)]}
    assert model.predict_proba_one({}) == {False: 0.4, True: 0.6}
    assert model.predict_one({}) is True


@pytest.mark.parametrize("labels", [(0, 1), (np.False_, np.True_), (False, True)])
def test_binary_labels_keep_their_kind(labels: tuple[Any, Any]) -> None:
    script = Script()
    script.answer = {labels[0]: 0.3, labels[1]: 0.7}
    model = CalibratedClassifier(script, PlattCalibrator())
    for _ in range(5):
        model.learn_one({}, labels[0])
    answer = model.predict_proba_one({})
    assert [type(label) for label in answer] == [type(label) for label in labels]
    assert 0.0 < answer[True] < 0.7
    assert list(model.calibrators) == [True]


def test_other_labels_are_renormalised() -> None:
    script = Script()
    script.answer = {"a": 0.5, "b": 0.3, "c": 0.2}
    model = CalibratedClassifier(script, Notes(((0.5, 0.2), (0.3, 0.6), (0.2, 0.2))))
    model.learn_one({}, "b", w=2.0)
    assert taught(model) == {
        "a": [(0.5, False, 2.0)],
        "b": [(0.3, True, 2.0)],
        "c": [(0.2, False, 2.0)],
    }
    assert model.predict_proba_one({}) == pytest.approx({"a": 0.2, "b": 0.6, "c": 0.2})
    assert model.predict_one({}) == "b"


def test_two_labels_that_are_not_booleans_have_two_calibrators() -> None:
    script = Script()
    script.answer = {"no": 0.25, "yes": 0.75}
    model = CalibratedClassifier(script, Notes())
    model.learn_one({}, "yes")
    assert taught(model) == {"no": [(0.25, False, 1.0)], "yes": [(0.75, True, 1.0)]}


def test_all_calibrated_to_zero_serves_the_model() -> None:
    script = Script()
    script.answer = {"a": 0.6, "b": 0.2}
    model = CalibratedClassifier(script, Notes(((0.6, 0.0), (0.2, 0.0))))
    model.learn_one({}, "b")
    assert model.predict_proba_one({}) == pytest.approx({"a": 0.75, "b": 0.25})
    script.answer = {"a": 0.0, "b": 0.0}
    assert model.predict_proba_one({}) == {"a": 0.5, "b": 0.5}


def test_absent_label_teaches_nothing() -> None:
    script = Script()
    model = CalibratedClassifier(script, Notes())
    model.learn_one({}, "a")
    assert taught(model) == {}
    assert model.predict_proba_one({}) == {}
    assert model.predict_one({}) is None
    script.answer = {"a": 1.0}
    model.learn_one({}, "b")
    assert taught(model) == {"a": [(1.0, False, 1.0)]}
    script.answer = {"a": 0.7, "b": 0.3}
    model.learn_one({}, "b")
    assert taught(model) == {"a": [(1.0, False, 1.0), (0.7, False, 1.0)], "b": [(0.3, True, 1.0)]}


def test_third_label_joins_a_binary_stream() -> None:
    script = Script()
    script.answer = {0: 0.4, 1: 0.6}
    model = CalibratedClassifier(script, Notes())
    model.learn_one({}, 1)
    model.learn_one({}, 2)
    assert taught(model) == {1: [(0.6, True, 1.0), (0.6, False, 1.0)]}
    script.answer = {0: 0.3, 1: 0.5, 2: 0.2}
    model.learn_one({}, 2)
    assert taught(model)[1][-1] == (0.5, False, 1.0)
    assert taught(model)[2] == [(0.2, True, 1.0)]
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)


def test_answers_are_python_floats() -> None:
    script = Script()
    script.answer = {"a": np.float32(0.1), "b": np.float32(0.9)}
    model = CalibratedClassifier(script)
    assert all(type(p) is float for p in model.predict_proba_one({}).values())
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0, abs=1e-12)


def test_weights_and_arguments_go_where_they_are_taken() -> None:
    plain, rich = Script(), WeightedScript()
    for script, learned in ((plain, ("learn", {}, True)), (rich, ("learn", {}, True, 2.0, None))):
        script.answer = {False: 0.5, True: 0.5}
        model = CalibratedClassifier(script, Notes())
        model.learn_one({}, True, w=2, decided=1)
        assert script.calls[-1] == learned
        assert taught(model)[True] == [(0.5, True, 2.0)]
    model.learn_one({}, True, t="now", mood="good")
    assert rich.calls[-2:] == [("predict", {}, "good"), ("learn", {}, True, 1.0, "now")]
    model.predict_proba_one({}, mood="bad", t=3)
    assert rich.calls[-1] == ("predict", {}, "bad")
    model.predict_one({}, mood="fine")
    assert rich.calls[-1] == ("predict", {}, "fine")


# Arguments that nothing takes ---------------------------------------------------------------------

WRAPPERS: list[Any] = [
    CalibratedClassifier(linear_model.LogisticRegression()),
    CalibratedClassifier(CalibratedClassifier(scaled(linear_model.LogisticRegression()))),
    CalibratedClassifier(PrecomputedClassifier("a")),
    CalibratedRegressor(linear_model.LinearRegression()),
    DecisionClassifier(CalibratedClassifier(linear_model.LogisticRegression()), "f1"),
    PredictionSetClassifier(CalibratedClassifier(linear_model.LogisticRegression())),
    SelectiveClassifier(CalibratedClassifier(linear_model.LogisticRegression()), confidence=0.9),
    ThresholdClassifier(linear_model.LinearRegression()),
    VoteClassifier(tree.HoeffdingTreeClassifier()),
]
METHODS = (
    *("learn_one", "learn_group", "predict_one", "predict_proba_one", "predict_set_one"),
    *("serve_one", "learn_many", "predict_many", "predict_proba_many"),
)


def named_arguments(kind: type) -> set[str]:
    functions = [getattr(kind, method) for method in METHODS if hasattr(kind, method)]
    names = {name for function in functions for name in inspect.signature(function).parameters}
    return names - {"self", "x", "y", "X", "kwargs"}


def seen(model: Any) -> bytes:
    """Return the state, without what it is computed from."""
    beside = model.to_bytes() if isinstance(model, Stateful) else pickle.dumps(model)
    return beside + pickle.dumps(model._wrapped_model)


def wrapper_kinds() -> set[type]:
    kinds, left = set[type](), [Routing]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__.startswith("streamcal.") and issubclass(kind, base.Wrapper):
            kinds.add(kind)
    return kinds


def test_what_wrappers_take_is_listed() -> None:
    assert {type(wrapper) for wrapper in WRAPPERS} == wrapper_kinds()
    assert set[str]().union(*map(named_arguments, wrapper_kinds())) == OWN_ARGUMENTS


@pytest.mark.parametrize("prototype", WRAPPERS, ids=lambda wrapper: type(wrapper).__name__)
def test_an_argument_that_nothing_takes_is_refused_by_each_method(prototype: Any) -> None:
    model, x, frame = prototype.clone(), {"a": 0.5}, pd.DataFrame({"a": [0.5, 0.25]})
    inputs: dict[str, Any] = {
        "learn_one": (x, 1),
        "learn_group": ([x, x], [1, 0]),
        "learn_many": (frame, pd.Series([1, 0])),
    }
    of_model = {name for name in METHODS if hasattr(model._wrapped_model, name)}
    for _ in range(2):
        before = seen(model)
        for method in METHODS:
            arguments = inspect.signature(getattr(model, method, len)).parameters
            is_many = method.endswith("many")
            if "kwargs" in arguments and (not is_many or method in of_model):
                given = inputs.get(method, (frame,) if is_many else (x,))
                with pytest.raises(TypeError, match="got 'serverd'"):
                    getattr(model, method)(*given, serverd=1)
        assert seen(model) == before
        for y in (1, 0, 1):
            model.learn_one(x, y)


@pytest.mark.parametrize("prototype", WRAPPERS, ids=lambda wrapper: type(wrapper).__name__)
def test_an_argument_of_another_wrapper_is_ignored(prototype: Any) -> None:
    """So one loop fits all; and river passes a weight to each."""
    given = {"w": 1.0, "t": 3.0, "served": None, "decided": None, "propensity": None}
    assert given.keys() == OWN_ARGUMENTS
    model, alone = prototype.clone(), prototype.clone()
    for i in range(20):
        x, y = {"a": i % 3 / 3}, i % 2 == 0
        model.learn_one(x, y, **given)
        alone.learn_one(x, y)
        assert model.predict_one(x, **given) == alone.predict_one(x)


def test_the_error_says_what_is_taken() -> None:
    model = CalibratedClassifier(WeightedScript())
    with pytest.raises(TypeError) as error:
        model.learn_one({}, True, serverd={})
    assert str(error.value) == (
        "arguments of CalibratedClassifier must be among ['mood', 'propensity', 'served', 't',"
        " 'w'], which it or the model takes, got 'serverd'; did you mean 'served'?"
    )


class AnyScript(Script):
    """Takes any arguments to learn."""

    def learn_one(self, x: dict[str, Any], y: Any, **kwargs: Any) -> None:
        self.calls.append(("learn", dict(x), y, kwargs))


def test_a_model_may_take_any_argument() -> None:
    script = AnyScript()
    script.answer = {False: 0.5, True: 0.5}
    model = CalibratedClassifier(script)
    model.predict_proba_one({}, mood="good")
    model.learn_one({}, True, mood="good")
    assert script.calls[-1] == ("learn", {}, True, {"mood": "good", "w": 1.0})


def test_streams_bring_arguments_for_all_methods() -> None:
    """river passes those of a sample to predict and to learn, and the weight to learn."""
    script = WeightedScript()
    script.answer = {False: 0.5, True: 0.5}
    samples: list[Any] = [({}, i % 2 == 0, {"mood": "good", "t": i, "w": 2.0}) for i in range(4)]
    for model in (
        CalibratedClassifier(script, Notes()),
        CalibratedClassifier(CalibratedClassifier(script, Notes()), Notes()),
        compose.Pipeline(preprocessing.StandardScaler(), CalibratedClassifier(script, Notes())),
    ):
        evaluate.progressive_val_score(
            [(*s[:2], dict(s[2])) for s in samples], model, metrics.ROCAUC()
        )
        assert script.calls[-1] == ("learn", {}, False, 2.0, 3)
        assert script.calls[-2] == ("predict", {}, "good")


class ByUser(base.Transformer):
    """Takes an argument that models do not."""

    def __init__(self) -> None:
        self.users: list[Any] = []

    def learn_one(self, x: Any, user: Any = None) -> None:
        self.users.append(user)

    def transform_one(self, x: Any, user: Any = None) -> Any:
        return {**x, "user": user == "ann"}


def test_a_pipeline_brings_what_is_for_other_steps() -> None:
    """It passes all arguments to a step that takes any, as a wrapper does for its model."""
    by_user = ByUser()
    outside = by_user | CalibratedClassifier(linear_model.LogisticRegression())
    inside = CalibratedClassifier(ByUser() | linear_model.LogisticRegression())
    for model in (outside, inside):
        for i in range(4):
            model.predict_proba_one({"a": 1.0}, user="ann")
            model.learn_one({"a": 1.0}, i % 2 == 0, user="ann")
    assert by_user.users == ["ann"] * 4
    outside.learn_one({"a": 1.0}, True, typo=1)  # as for any other model in a pipeline
    with pytest.raises(TypeError, match=r"among \['propensity', .*'user', 'w'\].* got 'typo'"):
        inside.learn_one({"a": 1.0}, True, typo=1)
    with pytest.raises(TypeError, match="got 'typo'"):
        multiclass.OneVsRestClassifier(inside).learn_one({"a": 1.0}, True, typo=1)


@pytest.mark.parametrize(
    ("model", "takes"),
    [
        (linear_model.LogisticRegression(), True),
        (scaled(linear_model.LogisticRegression()), True),
        (scaled(tree.HoeffdingTreeClassifier()), True),
        (multiclass.OneVsRestClassifier(scaled(linear_model.LogisticRegression())), True),
        (ensemble.BaggingClassifier(linear_model.LogisticRegression(), seed=1), True),
        (linear_model.PAClassifier(), False),
        (scaled(linear_model.PAClassifier()), False),
        (multiclass.OneVsRestClassifier(scaled(linear_model.PAClassifier())), False),
        (scaled(multiclass.OneVsRestClassifier(linear_model.PAClassifier())), False),
        (CalibratedClassifier(linear_model.PAClassifier()), True),
        (naive_bayes.GaussianNB(), False),
    ],
    ids=str,
)
def test_weights_reach_river_models_that_take_them(model: base.Classifier, takes: bool) -> None:
    light, heavy = CalibratedClassifier(model.clone()), CalibratedClassifier(model.clone())
    for x, y in datasets.Phishing().take(60):
        light.learn_one(x, y)
        heavy.learn_one(x, y, w=5.0)
    queries = [x for x, _ in datasets.Phishing().take(80)]
    same = [light.classifier.predict_proba_one(x) for x in queries] == [
        heavy.classifier.predict_proba_one(x) for x in queries
    ]
    assert same != takes


def test_weights_from_river_evaluation() -> None:
    weighted = ((x, y, {"w": 2.0}) for x, y in datasets.Phishing().take(200))
    model = CalibratedClassifier(linear_model.PAClassifier(), PlattCalibrator())
    evaluate.progressive_val_score(weighted, model, metrics.LogLoss())
    scores = []
    raw = linear_model.PAClassifier()
    for x, y in datasets.Phishing().take(200):
        scores.append((raw.predict_proba_one(x)[True], y))
        raw.learn_one(x, y)
    calibrator = PlattCalibrator()
    calibrator.learn_many(*map(list, zip(*scores, strict=True)), np.full(200, 2.0))
    assert model.calibrators[True].predict_one(0.3) == calibrator.predict_one(0.3)


def test_served_is_what_is_learned() -> None:
    script = Script()
    script.answer = {False: 0.9, True: 0.1}
    model = CalibratedClassifier(script, Notes())
    model.learn_one({}, True, served={False: 0.25, True: 0.75})
    assert taught(model) == {True: [(0.75, True, 1.0)]}
    assert script.calls == [("learn", {}, True)]  # it did not predict again
    model.learn_one({}, True, served={})
    assert len(taught(model)[True]) == 1


@pytest.mark.parametrize("how", ["declared", "learned", "boolean"])
@pytest.mark.parametrize(
    ("served", "problem"),
    [
        ({"amount": 0.3}, "must have probabilities by label, got those of 'amount'"),
        ({"amount": 0.3, "age": 0.1}, "got those of 'amount', 'age', and not of"),
        ({"yes": 0.9, "no": 0.9, True: 0.9, False: 0.9}, "must have probabilities that sum to 1"),
    ],
    ids=["feature", "features", "sum"],
)
def test_what_cannot_have_been_served_is_not_learned(
    how: str, served: dict[Any, float], problem: str
) -> None:
    labels: list[Any] = [False, True] if how == "boolean" else ["no", "yes"]
    model = CalibratedClassifier(
        naive_bayes.BernoulliNB(), labels=labels if how == "declared" else None
    )
    if how == "learned":
        model.learn_one({"amount": 0.3}, "no", served={"no": 0.25, "yes": 0.75})
    before = model.to_bytes()
    x, columns = {"amount": 0.3}, {label: [p] for label, p in served.items()}
    with pytest.raises(ValueError, match=problem):
        model.learn_one(x, labels[0], served=served)
    with pytest.raises(ValueError, match=problem):
        model.learn_group([x], labels[:1], served=[served])
    with pytest.raises(ValueError, match=problem):
        model.learn_many(pd.DataFrame([x]), pd.Series(labels[:1]), served=columns)
    assert model.to_bytes() == before


def test_a_model_of_one_label_may_have_served_it() -> None:
    """A river model that has seen one label answers that one, also where another label comes."""
    model = CalibratedClassifier(naive_bayes.GaussianNB(), labels=["a", "b", "c"])
    model.learn_one({}, "c", served={"a": 1.0})
    late = CalibratedClassifier(naive_bayes.GaussianNB())
    for y, served in (("no", {"yes": 0.4}), ("no", {"yes": 0.5}), ("maybe", {"yes": 1.0})):
        late.learn_one({}, y, served=served)
    assert late.calibrators["yes"].n_samples == 3


def test_calibrate_one_is_the_second_half_of_predicting() -> None:
    model = CalibratedClassifier(naive_bayes.GaussianNB(), PlattCalibrator())
    for x, y in datasets.ImageSegments().take(150):
        raw = model.classifier.predict_proba_one(x)
        before = dict(raw)
        assert model.calibrate_one(raw) == model.predict_proba_one(x)
        assert raw == before
        model.learn_one(x, y)


def test_delayed_labels_in_river_evaluation() -> None:
    model = CalibratedClassifier(scaled(linear_model.LogisticRegression()))
    scored = evaluate.progressive_val_score(
        datasets.Phishing().take(300), model, metrics.LogLoss(), delay=20
    )
    assert 0.0 < scored.get() < 0.7


def test_evaluation_equals_calibrating_the_scores() -> None:
    for prototype in (IsotonicCalibrator(), PlattCalibrator()):
        model = CalibratedClassifier(scaled(linear_model.PAClassifier()), prototype)
        raw, calibrator = scaled(linear_model.PAClassifier()), prototype.clone()
        for x, y in datasets.Phishing().take(250):
            p = raw.predict_proba_one(x)[True]
            assert model.predict_proba_one(x)[True] == calibrator.predict_one(p)
            raw.learn_one(x, y)
            calibrator.learn_one(p, y)
            model.learn_one(x, y)


def test_calibration_lowers_the_log_loss() -> None:
    model = scaled(linear_model.PAClassifier())
    raw = evaluate.progressive_val_score(
        datasets.Bananas().take(1500), model.clone(), metrics.LogLoss()
    )
    calibrated = evaluate.progressive_val_score(
        datasets.Bananas().take(1500), CalibratedClassifier(model), metrics.LogLoss()
    )
    assert calibrated.get() < raw.get() - 0.1


def test_wrapper_is_a_pipeline_step() -> None:
    model = preprocessing.StandardScaler() | CalibratedClassifier(linear_model.LogisticRegression())
    scored = evaluate.progressive_val_score(
        datasets.Phishing().take(400), model, metrics.Accuracy()
    )
    assert scored.get() > 0.8
    multi = multiclass.OneVsRestClassifier(
        CalibratedClassifier(scaled(linear_model.LogisticRegression()), PlattCalibrator())
    )
    scored = evaluate.progressive_val_score(
        datasets.ImageSegments().take(400), multi, metrics.Accuracy()
    )
    assert scored.get() > 0.5


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "`y` must be a label, got None"),
        ({"y": math.nan}, "`y` must be a label, got nan"),
        ({"w": 0.0}, "`w` must be a positive finite number, got 0.0"),
        ({"w": "2"}, "`w` must be a number, got '2'"),
        ({"served": {False: 0.5, True: math.nan}}, r"probabilities must lie in \[0, 1\]"),
        ({"served": {False: math.nan, True: 0.5}}, r"probabilities must lie in \[0, 1\]"),
        ({"served": {False: -0.5, True: 1.5}}, r"probabilities must lie in \[0, 1\]"),
        ({"served": {"a": 0.5, "b": 0.5, "c": -0.1}}, r"probabilities must lie in \[0, 1\]"),
        ({"served": {False: 0.5, True: "0.5"}}, r"`served\[True\]` must be a number, got '0.5'"),
        ({"served": [0.5, 0.5]}, "`served` must map labels to probabilities"),
    ],
)
def test_bad_sample_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    model = CalibratedClassifier(linear_model.LogisticRegression())
    for x, y in datasets.Phishing().take(30):
        model.learn_one(x, y)
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(**{"x": {"a": 1.0}, "y": True, **arguments})
    assert pickle.dumps(model) == before


def test_model_that_answers_nan() -> None:
    script = Script()
    script.answer = {False: 0.5, True: math.nan}
    model = CalibratedClassifier(script, Notes())
    with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\]"):
        model.learn_one({}, True)
    script.answer = {"a": 0.5, "b": math.inf, "c": 0.5}
    with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\]"):
        model.learn_one({}, "a")
    assert taught(model) == {}
    assert script.calls == [("predict", {})] * 2


class Framed(Script):
    """The same for frames."""

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        self.calls.append(("learn", len(X), tuple(y)))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame([self.answer] * len(X), index=X.index)


NAN = math.nan
BAD_ANSWERS: list[dict[Any, float]] = [
    {False: 0.5, True: NAN},
    {False: NAN, True: 0.5},
    {True: NAN},
    {False: -0.5, True: 1.5},
    {"a": NAN, "b": 0.5, "c": 0.5},
    {"a": 0.2, "b": math.inf, "c": 0.5},
    {NAN: 0.5, "a": 0.5},
]


@pytest.mark.parametrize("n_before", [0, 5])
@pytest.mark.parametrize("answer", BAD_ANSWERS, ids=str)
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"calibrator": PlattCalibrator()},
        {"calibrator": TemperatureCalibrator()},
        {"calibrator": TopLabelCalibrator()},
        {"segments": ("s",)},
        {"labels": ("a", "b", "c", False, True)},
    ],
    ids=str,
)
def test_probabilities_that_are_none_are_refused_everywhere(
    parameters: Any, answer: Any, n_before: int
) -> None:
    script = Framed()
    model = CalibratedClassifier(script, **parameters)
    x: dict[Any, Any] = {"s": 1.0}
    X, y = pd.DataFrame([x, x]), "a" if "a" in answer else True
    others = [label for label in answer if label == label]
    for i in range(n_before):
        script.answer = dict.fromkeys(others, 1.0 / len(others))
        model.learn_one(x, others[i % len(others)])
    script.answer, script.calls = answer, []
    before = model.to_bytes()
    calls = [
        lambda: model.predict_proba_one(x),
        lambda: model.predict_one(x),
        lambda: model.serve_one(x),
        lambda: model.calibrate_one(answer, x),
        lambda: model.snapshot().predict_proba_one(x),
        lambda: model.snapshot().predict_one(x),
        lambda: model.predict_proba_many(X),
        lambda: model.predict_many(X),
        lambda: model.learn_one(x, y),
        lambda: model.learn_one(x, y, served=answer),
        lambda: model.learn_group([x, x], [y, y]),
        lambda: model.learn_many(X, pd.Series([y, y])),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"probabilities|`served` must"):
            call()
    assert all(name == "predict" for name, *_ in script.calls)
    assert model.to_bytes() == before
    assert len(model._memory) == 0


def test_joint_calibrators_get_no_bad_probability_of_false() -> None:
    """They read it, so it is checked before the model learns."""
    script = Script()
    script.answer = {False: math.nan, True: 0.5}
    model = CalibratedClassifier(script, TemperatureCalibrator())
    with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\]"):
        model.learn_one({}, True)
    assert script.calls == [("predict", {})]


@pytest.mark.parametrize(
    "model",
    [
        ensemble.VotingClassifier([linear_model.LogisticRegression()] * 2),
        multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        scaled(multiclass.OutputCodeClassifier(linear_model.LogisticRegression(), code_size=5)),
    ],
    ids=str,
)
def test_models_without_probabilities_are_refused(model: base.Classifier) -> None:
    with pytest.raises(ValueError, match="`classifier` must have probabilities"):
        CalibratedClassifier(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (linear_model.LinearRegression(), "must be a river classifier, got LinearRegression"),
        (scaled(linear_model.LinearRegression()), "must be a river classifier, got LinearReg"),
        (preprocessing.StandardScaler(), "must be a river classifier, got StandardScaler"),
        (anomaly.HalfSpaceTrees(), "must be a river classifier, got HalfSpaceTrees"),
        (linear_model.LogisticRegression, "river classifier, got the class LogisticRegression"),
        (multioutput.ClassifierChain(linear_model.LogisticRegression()), "got ClassifierChain"),
        (active.EntropySampler(linear_model.LogisticRegression()), "calibrate the model inside"),
        (None, "must be a river classifier, got NoneType"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_no_classifier_is_refused(model: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        CalibratedClassifier(model)


def test_calibrators_that_do_not_fit_are_refused() -> None:
    model = linear_model.LogisticRegression()
    with pytest.raises(TypeError, match="must be a Calibrator or None, got 'isotonic'"):
        CalibratedClassifier(model, "isotonic")
    with pytest.raises(TypeError, match=r"got the class IsotonicCalibrator"):
        CalibratedClassifier(model, IsotonicCalibrator)
    with pytest.raises(ValueError, match=r"labels 0 and 1, but `y` must lie in \{-1, 1\}"):
        CalibratedClassifier(model, IsotonicCalibrator(loss="logistic"))


def test_prototypes_are_left_alone() -> None:
    trained = PlattCalibrator()
    trained.learn_one(0.5, 1)
    before = pickle.dumps(trained)
    model = CalibratedClassifier(linear_model.LogisticRegression(), trained)
    model.learn_one({"a": 1.0}, True)
    assert pickle.dumps(trained) == before
    assert model.calibrator is trained
    assert model.clone({"calibrator": PlattCalibrator(gamma=0.5)}).calibrator.gamma == 0.5
    default = CalibratedClassifier(linear_model.LogisticRegression()).calibrator
    assert repr(default) == repr(HedgedCalibrator())


def test_trained_model_may_be_wrapped() -> None:
    inner: Any = scaled(linear_model.LogisticRegression())
    for x, y in datasets.Phishing().take(50):
        inner.learn_one(x, y)
    model = CalibratedClassifier(inner)
    assert model.classifier is inner
    assert model.predict_proba_one(x) == inner.predict_proba_one(x)


# Mini-batches -------------------------------------------------------------------------------------

FRAMES: dict[str, tuple[Any, Any]] = {
    "pandas": (pd.DataFrame, pd.Series),
    "polars": (pl.DataFrame, pl.Series),
    "pyarrow": (pa.Table.from_pylist, lambda values: pa.chunked_array([values])),
}


@pytest.fixture(params=list(FRAMES))
def make(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return FRAMES[request.param]


def batches(
    kind: Any, n: int = 240, size: int = 60
) -> list[tuple[list[dict[str, float]], list[Any]]]:
    """Batches of three-feature samples; ``kind`` makes the label from 0, 1 (or 2)."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 3 if kind is str else 2, n)
    x = rng.normal(y[:, None] * 1.2, 1.0, (n, 3))
    rows = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    labels = [kind(int(label)) for label in y]
    return [(rows[i : i + size], labels[i : i + size]) for i in range(0, n, size)]


def matrix(frame: Any) -> np.ndarray:
    if isinstance(frame, pa.Table):
        frame = frame.to_pandas()
    return np.asarray(frame.to_numpy(), dtype=float)


def column_names(frame: Any) -> list[str]:
    return [str(c) for c in (frame.column_names if isinstance(frame, pa.Table) else frame.columns)]


@pytest.mark.parametrize("kind", [bool, int])
def test_a_binary_batch_is_scored_then_learned(make: tuple[Any, Any], kind: Any) -> None:
    """A batch is scored, then learned: the calibrator takes all scores of the batch at once."""
    frame, series = make
    inner: Any = linear_model.LogisticRegression()
    if kind is int:  # a model with the user's own labels, in the order they came
        inner = multiclass.OneVsRestClassifier(inner)
    model = CalibratedClassifier(inner.clone(), PlattCalibrator())
    raw, calibrator = inner.clone(), PlattCalibrator()
    for rows, labels in batches(kind):
        X, y = frame(rows), series(labels)
        served = raw.predict_proba_many(X)
        names = column_names(served)
        answer = model.predict_proba_many(X)
        assert type(answer) is type(served)
        assert column_names(answer) == names
        if names:
            no, yes = names.index(str(kind(0))), names.index(str(kind(1)))
            p = calibrator.predict_many(matrix(served)[:, yes])
            np.testing.assert_allclose(matrix(answer)[:, yes], p, atol=1e-15)
            np.testing.assert_allclose(matrix(answer)[:, no], 1.0 - p, atol=1e-15)
            calibrator.learn_many(matrix(served)[:, yes], np.array(labels, dtype=float))
            decided: Any = model.predict_many(X)
            decided = decided.to_pylist() if hasattr(decided, "to_pylist") else list(decided)
            assert decided == [kind(at) for at in (p > 0.5)]
        raw.learn_many(X, y)
        model.learn_many(X, y)
    assert model.calibrators[True].predict_one(0.3) == calibrator.predict_one(0.3)
    assert list(model.calibrators) == [True]


def test_batches_of_many_labels(make: tuple[Any, Any]) -> None:
    frame, series = make
    names = {"0": "red", "1": "green", "2": "blue"}
    inner = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(1.0)))
    model = CalibratedClassifier(inner, PlattCalibrator())
    nothing: Any = model.predict_many(frame(batches(str)[0][0]))
    nothing = nothing.to_pylist() if hasattr(nothing, "to_pylist") else list(nothing)
    assert all(label is None for label in nothing)
    right = total = 0
    for rows, labels in batches(str):
        X, y = frame(rows), series([names[label] for label in labels])
        if model.calibrators or total:
            answer = matrix(model.predict_proba_many(X))
            np.testing.assert_allclose(answer.sum(axis=1), 1.0, atol=1e-12)
            one_by_one = [model.predict_one(row) for row in rows]
            decided: Any = model.predict_many(X)
            decided = decided.to_pylist() if hasattr(decided, "to_pylist") else list(decided)
            assert decided == one_by_one
            right += sum(d == names[label] for d, label in zip(decided, labels, strict=True))
        total += len(rows)
        model.learn_many(X, y)
    assert set(model.calibrators) == {"red", "green", "blue"}
    assert right > 0.5 * (total - 60)


def test_batches_mix_with_single_samples(make: tuple[Any, Any]) -> None:
    """Single samples are learned, then a batch is predicted; columns may have any names."""
    frame, _ = make
    model = CalibratedClassifier(linear_model.LogisticRegression(), PlattCalibrator())
    rows = [row for rows, _ in batches(bool) for row in rows]
    labels = [label for _, labels in batches(bool) for label in labels]
    for row, label in zip(rows, labels, strict=True):
        model.learn_one(row, label)
    answer = matrix(model.predict_proba_many(frame(rows[:20])))
    expected = [list(model.predict_proba_one(row).values()) for row in rows[:20]]
    np.testing.assert_allclose(answer, expected, atol=1e-12)


class Unweighted(linear_model.LogisticRegression):
    def learn_many(self, X: Any, y: Any) -> None:
        super().learn_many(X, y)


def test_weights_of_a_batch_reach_the_model_and_the_calibrator(make: tuple[Any, Any]) -> None:
    frame, series = make
    weights = np.linspace(0.5, 2.0, 60)
    for inner in (linear_model.LogisticRegression(), Unweighted()):
        models = [CalibratedClassifier(inner.clone(), PlattCalibrator()) for _ in range(3)]
        raw, calibrator = inner.clone(), PlattCalibrator()
        for rows, labels in batches(bool):
            X, y = frame(rows), series(labels)
            served = raw.predict_proba_many(X)
            calibrator.learn_many(matrix(served)[:, 1], np.array(labels, float), weights)
            raw.learn_many(
                X, y, **({} if isinstance(inner, Unweighted) else {"w": series(weights)})
            )
            models[0].learn_many(X, y, series(weights))
            models[1].learn_many(X, y, w=weights, decided=3)
            models[2].learn_many(X, y, w=2)
        for model in models[:2]:
            assert model.calibrators[True].predict_one(0.3) == calibrator.predict_one(0.3)
        assert models[2].calibrators[True].predict_one(0.3) != calibrator.predict_one(0.3)


def test_probabilities_that_were_served_are_learned_for_a_batch(make: tuple[Any, Any]) -> None:
    frame, series = make
    (rows, labels), *_ = batches(bool)
    X, y = frame(rows), series(labels)
    p = np.linspace(0.1, 0.9, 60)
    models = [
        CalibratedClassifier(linear_model.LogisticRegression(), PlattCalibrator()) for _ in range(2)
    ]
    models[0].learn_many(X, y, served={False: 1.0 - p, True: p})
    table = [{"False": 1.0 - q, "True": q} for q in p.tolist()]
    models[1].learn_many(X, y, served=frame(table))
    calibrator = PlattCalibrator()
    calibrator.learn_many(p, np.array(labels, float))
    for model in models:
        assert model.calibrators[True].predict_one(0.3) == calibrator.predict_one(0.3)


def test_pandas_index_and_labels_are_kept() -> None:
    (rows, labels), *_ = batches(bool)
    index = [f"row {i}" for i in range(60)]
    X, y = pd.DataFrame(rows, index=index), pd.Series(labels, index=index, name="target")
    model = CalibratedClassifier(scaled(linear_model.LogisticRegression()))
    model.learn_many(X, y)
    answer: Any = model.predict_proba_many(X)
    assert list(answer.columns) == [False, True]
    assert list(answer.index) == index
    decided: Any = model.predict_many(X)
    assert decided.name == "target"
    assert list(decided.index) == index


def test_labels_of_a_batch_are_noted_in_the_order_of_rows() -> None:
    """The state must not depend on the order of a set, which differs between processes."""
    model = CalibratedClassifier(multiclass.OneVsRestClassifier(linear_model.LogisticRegression()))
    labels = [30, 2, 2, 17, 1]
    model.learn_many(pd.DataFrame({"a": [0.1] * 5}), pd.Series(labels))
    noted = decode(model.to_bytes()).fields["names"]
    assert [label for _, label in noted] == [False, True, 30, 2, 17, 1]


def test_batches_all_zero() -> None:
    class Frames(Script):
        def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"a": [0.6, 0.5, 0.0], "b": [0.2, 0.5, 0.0]}, index=X.index)

        def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
            pass

    model = CalibratedClassifier(Frames(), Notes(((0.6, 0.0), (0.2, 0.0))))
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    model.learn_many(X, pd.Series(["a", "b", "b"]))
    expected = [[0.75, 0.25], [0.5, 0.5], [0.5, 0.5]]
    np.testing.assert_allclose(matrix(model.predict_proba_many(X)), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": pd.Series([True, False])}, r"`y` must have one label per row of `X` \(3\), got 2"),
        ({"y": pd.Series([True, None, False])}, "`y` must hold labels, got None at position 1"),
        ({"y": pd.Series([Decimal("sNaN"), 0, 1])}, "`y` must hold labels, got sNaN at position 0"),
        ({"w": [1.0, 2.0]}, "`w` must have one value per score"),
        ({"w": [1.0, 2.0, -1.0]}, "`w` must be a positive finite number, got -1.0 at position 2"),
        ({"w": 0.0}, "`w` must be a positive finite number"),
        ({"w": "2"}, "`w` must"),
        ({"served": {False: [0.5] * 3, True: [0.5, 0.5, math.nan]}}, "`served` must be finite"),
        ({"served": {False: [0.5] * 3, True: [0.5, 1.5, 0.5]}}, "got 1.5 at position 1"),
        ({"served": {False: [0.5] * 2, True: [0.5] * 2}}, "one row per label"),
    ],
)
def test_bad_batch_changes_nothing(arguments: dict[str, Any], message: str) -> None:
    model = CalibratedClassifier(linear_model.LogisticRegression())
    (rows, labels), *_ = batches(bool)
    model.learn_many(pd.DataFrame(rows), pd.Series(labels))
    before = pickle.dumps(model)
    good = {"X": pd.DataFrame({"a": [1.0, 2.0, 3.0]}), "y": pd.Series([True, False, True])}
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_many(**{**good, **arguments})
    assert pickle.dumps(model) == before


def test_models_without_batches_say_so() -> None:
    model = CalibratedClassifier(linear_model.PAClassifier())
    X, y = pd.DataFrame({"a": [1.0]}), pd.Series([True])
    before = pickle.dumps(model)
    for call in (
        lambda: model.predict_proba_many(X),
        lambda: model.learn_many(X, y),
        lambda: model.learn_many(X, y, served={False: [0.5], True: [0.5]}),
    ):
        with pytest.raises(AttributeError, match="PAClassifier"):
            call()
    assert pickle.dumps(model) == before


def test_streams_of_arrays() -> None:
    """river's own iterators yield NumPy labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200) > 0.0
    model = CalibratedClassifier(linear_model.LogisticRegression())
    for x, label in stream.iter_array(X, y):
        assert set(model.predict_proba_one(x)) == {False, True}
        model.learn_one(x, label)
    assert list(model.calibrators) == [True]
