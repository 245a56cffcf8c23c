"""`clone`: fresh, or with all that was learned, for every class here that is one of river's."""

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from river import base, compose, linear_model, naive_bayes, preprocessing, tree

import streamcal
from streamcal import (
    CalibratedClassifier,
    CalibratedRegressor,
    DecisionClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    ThresholdClassifier,
    VoteClassifier,
)
from streamcal._state.clone import Cloned
from streamcal.decision import PredictionSetClassifier, SelectiveClassifier
from streamcal.metrics import CORP, MacroMAE
from streamcal.ordinal import CuSumRank, StreamingThresholds


def classes() -> Iterator[type]:
    """Yield every class of the package that derives from river's."""
    for found in pkgutil.walk_packages(streamcal.__path__, "streamcal."):
        try:
            module = importlib.import_module(found.name)
        except ImportError:  # an extra is missing
            continue
        for value in vars(module).values():
            if inspect.isclass(value) and value.__module__ == found.name:
                if issubclass(value, base.Base):
                    yield value


def test_every_class_of_river_s_kind_clones_so() -> None:
    found: set[Any] = set(classes())
    assert {CalibratedClassifier, IsotonicCalibrator, CORP, CuSumRank, VoteClassifier} <= found
    assert [cls for cls in found if cls.clone is not Cloned.clone] == []


def scaled(model: base.Estimator) -> compose.Pipeline:
    return preprocessing.StandardScaler() | model


LOGISTIC = linear_model.LogisticRegression
WRAPPERS: list[Any] = [
    CalibratedClassifier(naive_bayes.GaussianNB()),
    CalibratedClassifier(scaled(LOGISTIC()), PlattCalibrator()),
    CalibratedClassifier(naive_bayes.GaussianNB(), TemperatureCalibrator()),
    CalibratedRegressor(scaled(linear_model.LinearRegression())),
    ThresholdClassifier(scaled(linear_model.LinearRegression()), window=50, every=5),
    DecisionClassifier(scaled(LOGISTIC()), "f1"),
    SelectiveClassifier(scaled(LOGISTIC()), target=0.6),
    VoteClassifier(tree.HoeffdingTreeClassifier(grace_period=20)),
    # one in another, and in a pipeline
    DecisionClassifier(CalibratedClassifier(scaled(LOGISTIC())), "f1"),
    PredictionSetClassifier(CalibratedClassifier(naive_bayes.GaussianNB()), score="aps"),
    CalibratedClassifier(CalibratedClassifier(naive_bayes.GaussianNB()), PlattCalibrator()),
    scaled(CalibratedClassifier(naive_bayes.GaussianNB())),
    CuSumRank(labels=(False, True)),
]


def samples(n: int, seed: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(seed)
    labels = rng.uniform(size=n) < 0.3
    return [({"a": float(y + rng.normal()), "b": float(rng.normal())}, bool(y)) for y in labels]


def answers(model: Any) -> list[Any]:
    queries = [x for x, _ in samples(20, 1)]
    if isinstance(model, base.Regressor):
        return [model.predict_one(x) for x in queries]
    return [(model.predict_one(x), model.predict_proba_one(x)) for x in queries]


@pytest.mark.parametrize("prototype", WRAPPERS, ids=str)
def test_a_clone_with_attributes_knows_all_and_shares_nothing(prototype: Any) -> None:
    model = prototype.clone()
    for x, y in samples(150, 0):
        model.learn_one(x, y)
    known = answers(model)
    clone = model.clone(include_attributes=True)
    assert answers(clone) == known
    assert answers(prototype.clone()) != known
    assert answers(model.clone()) == answers(prototype.clone())

    more = samples(60, 2)
    for x, y in more:
        clone.learn_one(x, not y)
    assert answers(clone) != known
    assert answers(model) == known  # they share nothing
    for x, y in more:
        model.learn_one(x, not y)
    assert answers(model) == answers(clone)  # and go on alike


@pytest.mark.parametrize("calibrator", [HedgedCalibrator(), IsotonicCalibrator(window=20)], ids=str)
def test_a_calibrator_s_clone_goes_on_like_itself(calibrator: Any) -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=200)
    hits = rng.uniform(size=200) < scores
    calibrator.learn_many(scores, hits)
    before = calibrator.to_bytes()
    clone = calibrator.clone(include_attributes=True)
    assert clone.to_bytes() == before
    for one in (calibrator, clone):
        for score, hit in zip(scores.tolist(), hits.tolist(), strict=True):
            one.learn_one(score, not hit)
    assert clone.to_bytes() == calibrator.to_bytes() != before


def test_metrics_and_thresholds_keep_what_they_counted() -> None:
    metric, ordinal, thresholds = CORP(), MacroMAE(), StreamingThresholds(3)
    for score, y in [(0.2, False), (0.9, True), (0.6, False)]:
        metric.update(y, score)
        ordinal.update(1 + y, 2)
        thresholds.learn_one(score, 1 + y)
    for one in (metric, ordinal, thresholds):
        clone = one.clone(include_attributes=True)
        assert pickle.dumps(clone) == pickle.dumps(pickle.loads(pickle.dumps(one)))
    assert metric.clone().get() == 0.0


def test_new_parameters_do_not_go_with_old_knowledge() -> None:
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    assert model.clone({"on_drift": "reset"}).on_drift == "reset"
    with pytest.raises(ValueError, match=r"`new_params` must be empty .* got \['on_drift'\]"):
        model.clone({"on_drift": "reset"}, include_attributes=True)


def test_a_parameter_may_be_an_empty_tuple() -> None:
    calibrator = SegmentCalibrator(("a", "b"), crosses=())
    assert calibrator.clone().crosses == ()
    assert calibrator.clone({"crosses": (), "max_terms": 9}).max_terms == 9
    model = CalibratedClassifier(linear_model.LogisticRegression(), calibrator)
    assert model.clone().calibrator.crosses == ()
    assert calibrator.clone({"crosses": "auto"}).crosses == "auto"


def test_a_timedelta_is_not_copied() -> None:
    """It can't change, so a new key of a store costs no copy of its parameters."""
    length = timedelta(days=7)
    calibrator = PlattCalibrator(half_life=length)
    assert calibrator.clone().half_life is length
    assert calibrator.clone({"half_life": timedelta(1)}).half_life == timedelta(1)
    data = calibrator.to_bytes()
    assert PlattCalibrator.from_bytes(data).half_life == length
    assert PlattCalibrator.from_bytes(data).to_bytes() == data
