"""Ordinal metrics: equal to scikit-learn or to their formula, after every update and revert."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, linear_model, multiclass, preprocessing
from sklearn.metrics import cohen_kappa_score, mean_absolute_error, zero_one_loss

from streamcal.metrics import (
    MAE,
    MZE,
    MacroMAE,
    OneOffAccuracy,
    QuadraticKappa,
    RankedProbabilityScore,
)
from tests.contract import state

WORDS = ("low", "medium", "high", "extreme")


def macro(y: Any, p: Any, w: Any) -> Any:
    return np.mean(
        [mean_absolute_error(y[y == k], p[y == k], sample_weight=w[y == k]) for k in set(y)]
    )


def kappa(y: Any, p: Any, w: Any) -> Any:
    if len({*y, *p}) == 1:
        return 0.0
    labels = np.arange(4)
    return cohen_kappa_score(y, p, labels=labels, weights="quadratic", sample_weight=w)


ORACLES = {
    MAE: lambda y, p, w: mean_absolute_error(y, p, sample_weight=w),
    MZE: lambda y, p, w: zero_one_loss(y, p, sample_weight=w),
    OneOffAccuracy: lambda y, p, w: np.average(np.abs(y - p) <= 1, weights=w),
    MacroMAE: macro,
    QuadraticKappa: kappa,
}
samples = st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.5, 1.0, 3.0]))
by_kind = pytest.mark.parametrize("kind", ORACLES, ids=lambda kind: kind.__name__)


@by_kind
@given(stream=st.lists(samples, min_size=1, max_size=12))
def test_every_update_and_revert_is_the_batch_value(kind: Any, stream: Any) -> None:
    metric, words = kind(), kind(labels=WORDS)
    for i, (y, p, w) in enumerate(stream):
        metric.update(y, p, w)
        words.update(WORDS[y], WORDS[p], w)
        expected = ORACLES[kind](*map(np.array, zip(*stream[: i + 1], strict=True)))
        assert metric.get() == pytest.approx(expected, abs=1e-9)
        assert words.get() == pytest.approx(expected, abs=1e-9)
    for i, (y, p, w) in enumerate(stream[:-1]):
        metric.revert(y, p, w)
        expected = ORACLES[kind](*map(np.array, zip(*stream[i + 1 :], strict=True)))
        assert metric.get() == pytest.approx(expected, abs=1e-9)
    metric.revert(*stream[-1])
    assert metric.get() == 0.0
    with pytest.raises(ValueError, match="must have been added before"):
        metric.revert(*stream[-1])


@given(
    truths=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    masses=st.lists(st.lists(st.integers(1, 9), min_size=4, max_size=4), min_size=8, max_size=8),
)
def test_ranked_probability_score_is_its_formula(truths: Any, masses: Any) -> None:
    metric, words = RankedProbabilityScore(), RankedProbabilityScore(labels=WORDS)
    p = np.array(masses[: len(truths)]) / np.sum(masses[: len(truths)], axis=1, keepdims=True)
    for y, row in zip(truths, p, strict=True):
        metric.update(y, dict(enumerate(row)))
        words.update(WORDS[y], dict(zip(WORDS, row, strict=True)))
    steps = np.arange(4) >= np.array(truths)[:, None]
    expected = np.square(np.cumsum(p, axis=1) - steps).sum(axis=1).mean()
    assert metric.get() == pytest.approx(expected, abs=1e-9)
    assert words.get() == pytest.approx(expected, abs=1e-9)
    for y, row in zip(truths, p, strict=True):
        metric.revert(y, dict(enumerate(row)))
    assert metric.get() == 0.0
    with pytest.raises(ValueError, match="must have been added before"):
        metric.revert(0, {0: 1.0})


def test_labels_that_a_prediction_does_not_name_have_no_probability() -> None:
    metric = RankedProbabilityScore(labels=WORDS)
    metric.update("high", {"low": 1.0})
    assert metric.get() == 2.0
    metric = RankedProbabilityScore()
    metric.update(3, {1: 1.0})
    assert metric.get() == 1.0


@pytest.mark.parametrize("kind", [*ORACLES, RankedProbabilityScore], ids=lambda k: k.__name__)
def test_bad_input_changes_nothing(kind: Any) -> None:
    probabilities = kind is RankedProbabilityScore
    right = {"low": 1.0} if probabilities else "low"
    metric = kind(labels=WORDS)
    metric.update("low", right)
    before = state(metric)
    for bad in (("tiny", right), ("low", {"tiny": 1.0} if probabilities else "tiny")):
        with pytest.raises(ValueError, match="must be one of"):
            metric.update(*bad)
    for w in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="`w`"):
            metric.update("low", right, w)
    if probabilities:
        with pytest.raises(ValueError, match="probability in"):
            metric.update("low", {"low": 1.5})
        with pytest.raises(TypeError, match="must map labels"):
            metric.update("low", 0.5)
    metric.update("low", {} if probabilities else None)
    assert state(metric) == before
    assert metric.bigger_is_better == (kind in (OneOffAccuracy, QuadraticKappa))
    assert pickle.loads(before).get() == metric.get()
    assert metric.clone().get() == 0.0
    with pytest.raises(ValueError, match="two or more different labels"):
        kind(labels=("a", "a"))
    with pytest.raises(TypeError, match="must be a sequence of labels"):
        kind(labels="abc")


@by_kind
def test_without_their_order_labels_are_ints(kind: Any) -> None:
    metric = kind()
    metric.update(np.int64(1), True)
    with pytest.raises(TypeError, match="`y_true` must be an int where `labels` is None"):
        metric.update("a", 1)
    with pytest.raises(TypeError, match="`y_pred` must be an int where `labels` is None"):
        metric.update(1, 1.0)


def test_river_evaluates_them_together() -> None:
    rng = np.random.default_rng(0)
    stream = []
    for _ in range(300):
        x = rng.normal()
        stream.append(({"x": x}, int(np.clip(round(2 + x), 0, 3))))
    model = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(
        linear_model.LogisticRegression()
    )
    metric = MAE() + QuadraticKappa()
    assert evaluate.progressive_val_score(stream, model, metric)[1].get() > 0.3
    assert not MAE().works_with(linear_model.LinearRegression())
