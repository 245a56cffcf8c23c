"""`PrecomputedClassifier`: probabilities that are features."""

import copy
import pickle
import random
from typing import Any

import pytest
from river import evaluate, metrics

from streamcal import CalibratedClassifier, PlattCalibrator, PrecomputedClassifier
from streamcal.decision import DecisionClassifier, PredictionSetClassifier, SelectiveClassifier
from tests.contract import river_checks

CATS: Any = {"cat": "p_cat", "dog": "p_dog", "cow": "p_cow"}


def test_it_predicts_what_the_features_say() -> None:
    model = PrecomputedClassifier("p")
    assert model.predict_proba_one({"p": 0.25, "q": "other"}) == {False: 0.75, True: 0.25}
    assert model.predict_one({"p": 0.75}) is True
    of_three = PrecomputedClassifier(CATS)
    x = {"p_cow": 0.5, "p_cat": 0.2, "p_dog": 0.3}
    assert of_three.predict_proba_one(x) == {"cat": 0.2, "dog": 0.3, "cow": 0.5}
    assert of_three.predict_one(x) == "cow"
    for each in (model, of_three):
        before = vars(each).copy()
        each.learn_one({}, "any")
        assert vars(each) == before


@pytest.mark.parametrize("p", [0, 1, True, 1.0 + 1e-12, -1e-12])
def test_probabilities_of_other_types_and_rounded_ones_are_taken(p: Any) -> None:
    answer = PrecomputedClassifier("p").predict_proba_one({"p": p})
    assert {*map(type, answer.values())} == {float}
    assert answer[True] == min(max(float(p), 0.0), 1.0) == 1.0 - answer[False]


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ({}, ValueError, "`x` must have the feature 'p', got the features []"),
        ({"P": 0.5}, ValueError, "got the features ['P']"),
        ({"p": None}, TypeError, "`x['p']` must be a number, got None"),
        ({"p": "0.5"}, TypeError, "`x['p']` must be a number, got '0.5'"),
        ({"p": float("nan")}, ValueError, "`x['p']` must be a probability in [0, 1], got nan"),
        ({"p": 95}, ValueError, "divide percentages by 100"),
        ({"p": -2.5}, ValueError, "apply the logistic function"),
    ],
)
def test_what_is_no_probability_is_refused(x: Any, error: type[Exception], words: str) -> None:
    for model in (PrecomputedClassifier("p"), PrecomputedClassifier({"no": "p", "yes": "p"})):
        with pytest.raises(error) as raised:
            model.predict_proba_one(x)
        assert words in str(raised.value)


@pytest.mark.parametrize(
    ("features", "error"),
    [
        (None, TypeError),
        (["p"], TypeError),
        ({"yes": 1, "no": "q"}, TypeError),
        ({}, ValueError),
        ({"yes": "p"}, ValueError),
        ({None: "p", "yes": "q"}, ValueError),
        ({float("nan"): "p", "yes": "q"}, ValueError),
    ],
)
def test_features_that_are_no_names_are_refused(features: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`features`"):
        PrecomputedClassifier(features)


@pytest.mark.parametrize("features", ["p", CATS])
def test_copies_are_equal(features: Any) -> None:
    model = PrecomputedClassifier(features)
    copies = [model.clone(), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert [each.features for each in copies] == [features] * 3
    other = model.clone({"features": "q"})
    assert other.predict_proba_one({"q": 0.5}) == {False: 0.5, True: 0.5}


def test_a_calibrator_around_it_is_the_calibrator() -> None:
    rng = random.Random(1)
    model, calibrator = (
        CalibratedClassifier(PrecomputedClassifier("p"), PlattCalibrator()),
        PlattCalibrator(),
    )
    for _ in range(200):
        p = rng.random()
        assert model.predict_proba_one({"p": p})[True] == calibrator.predict_one(p)
        y = rng.random() < p * p
        model.learn_one({"p": p}, y)
        calibrator.learn_one(p, y)


def test_it_goes_where_classifiers_go() -> None:
    rng = random.Random(2)
    draws = [rng.random() for _ in range(400)]
    stream = [({"p": p}, rng.random() < p) for p in draws]
    inside = PrecomputedClassifier("p")
    for model in (
        inside,
        CalibratedClassifier(inside),
        DecisionClassifier(inside, "accuracy"),
        SelectiveClassifier(inside, target=0.7),
        PredictionSetClassifier(inside),
    ):
        score = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
        assert score.get() > 0.7
    # river asks this before it evaluates.
    assert (inside._multiclass, PrecomputedClassifier(CATS)._multiclass) == (False, True)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.__name__)
        for check in river_checks(PrecomputedClassifier("empty_server_form_handler"))
    ],
)
def test_it_passes_the_checks_of_river(check: Any) -> None:
    check(PrecomputedClassifier("empty_server_form_handler"))
