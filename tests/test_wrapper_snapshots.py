"""Snapshots of wrappers: they predict as the wrapper did, do not change, and may be pickled."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest
from river import datasets, linear_model, preprocessing, tree

from streamcal import (
    CalibratedClassifier,
    CalibratedRegressor,
    DecisionClassifier,
    TemperatureCalibrator,
    ThresholdClassifier,
    VoteClassifier,
)

PHISHING = list(datasets.Phishing().take(300))
SEGMENTS = list(datasets.ImageSegments().take(300))
TRUMP = list(datasets.TrumpApproval().take(300))


def classifier(calibrator: Any = None) -> Any:
    from river import naive_bayes

    return CalibratedClassifier(naive_bayes.GaussianNB(), calibrator)


def regressor() -> Any:
    return CalibratedRegressor(preprocessing.StandardScaler() | linear_model.LinearRegression())


@pytest.mark.parametrize(
    ("make", "stream", "method"),
    [
        (classifier, PHISHING, "predict_proba_one"),
        (classifier, SEGMENTS, "predict_proba_one"),
        (lambda: classifier(TemperatureCalibrator()), SEGMENTS, "predict_proba_one"),
        (classifier, SEGMENTS, "predict_one"),
        (regressor, TRUMP, "predict_one"),
    ],
    ids=["two labels", "more labels", "joint", "labels", "regressor"],
)
def test_one_sample(make: Any, stream: Any, method: str) -> None:
    model = make()
    for x, y in stream[:200]:
        model.learn_one(x, y)
    snapshot = model.snapshot()
    grid = [x for x, _ in stream[200:]]
    before = [getattr(model, method)(x) for x in grid]
    for x, y in stream[200:]:
        model.learn_one(x, y)
    assert [getattr(model, method)(x) for x in grid] != before
    again = pickle.loads(pickle.dumps(snapshot))
    for each in (snapshot, again):
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(getattr(each, method), grid)) == before
        assert [getattr(each, method)(x) for x in grid] == before


def threshold_classifier() -> Any:
    scaler = preprocessing.StandardScaler()
    return ThresholdClassifier(scaler | linear_model.LinearRegression(), window=100, every=60)


def decision_classifier() -> Any:
    return DecisionClassifier(classifier(), "f1")


@pytest.mark.parametrize("method", ["predict_one", "predict_proba_one"])
@pytest.mark.parametrize(
    "make",
    [
        threshold_classifier,
        decision_classifier,
        lambda: VoteClassifier(tree.HoeffdingTreeClassifier(grace_period=20)),
    ],
    ids=["thresholds", "decisions", "votes"],
)
def test_other_classifiers_have_snapshots(make: Any, method: str) -> None:
    model = make()
    for x, y in PHISHING[:100]:
        model.learn_one(x, int(y) if isinstance(model, ThresholdClassifier) else y)
    snapshot = model.snapshot()
    grid = [x for x, _ in PHISHING[100:150]]
    before = [getattr(model, method)(x) for x in grid]
    for x, y in PHISHING[150:]:  # the opposite
        model.learn_one(x, int(not y) if isinstance(model, ThresholdClassifier) else not y)
    assert [getattr(model, method)(x) for x in grid] != before
    for each in (snapshot, pickle.loads(pickle.dumps(snapshot))):
        assert [getattr(each, method)(x) for x in grid] == before
    assert not hasattr(snapshot, "learn_one")
    if not hasattr(model, "predict_many"):
        with pytest.raises(AttributeError, match="has no attribute 'predict_many'"):
            snapshot.predict_many([])


def test_a_snapshot_of_decisions_remembers_no_predictions() -> None:
    model = decision_classifier()
    model.learn_one(*PHISHING[0])
    snapshot = model.snapshot()
    size = len(pickle.dumps(snapshot))
    for x, _ in PHISHING[:20]:
        snapshot.predict_one(x)
    assert len(snapshot._model.classifier._memory) == 0
    assert len(pickle.dumps(snapshot)) == size


def test_mini_batches() -> None:
    X = pd.DataFrame({"a": [0.1 * i for i in range(50)]}, index=range(100, 150))
    y = pd.Series(X["a"] > 2.0, name="label")
    model = CalibratedClassifier(linear_model.LogisticRegression())
    recalibrated = CalibratedRegressor(linear_model.LinearRegression())
    for _ in range(3):
        model.learn_many(X, y)
        recalibrated.learn_many(X, y.astype(float))
    frame, labels, values = (
        model.predict_proba_many(X),
        model.predict_many(X),
        recalibrated.predict_many(X),
    )
    snapshot, other = model.snapshot(), recalibrated.snapshot()
    model.learn_many(X, ~y)
    recalibrated.learn_many(X, 1.0 - y)
    changed: Any = model.predict_proba_many(X)
    assert not changed.equals(frame)
    pd.testing.assert_frame_equal(snapshot.predict_proba_many(X), frame)
    pd.testing.assert_series_equal(snapshot.predict_many(X), labels)
    pd.testing.assert_series_equal(other.predict_many(X), values)


def test_a_snapshot_has_nothing_to_set_or_to_learn_with() -> None:
    snapshot = classifier().snapshot()
    with pytest.raises(AttributeError, match="cannot assign to field 'remember'"):
        snapshot.remember = 5
    assert not hasattr(snapshot, "learn_one")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba_one'"):
        regressor().snapshot().predict_proba_one({})


def test_predictions_of_a_snapshot_are_not_remembered() -> None:
    """The wrapper learns as if nobody had asked the snapshot."""
    x, y = PHISHING[0]
    model, same = classifier(), classifier()
    for sample in PHISHING[1:50]:
        model.learn_one(*sample)
        same.learn_one(*sample)
    snapshot = model.snapshot()
    snapshot.predict_proba_one(x)
    assert len(pickle.dumps(snapshot)) == len(pickle.dumps(model.snapshot()))
    model.learn_one(x, y)
    same.learn_one(x, y)
    assert model.to_bytes() == same.to_bytes()
