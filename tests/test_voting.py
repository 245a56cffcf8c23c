"""Votes against all 3^c of them, the linear program for several classes, and river's trees."""

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, ensemble, forest, linear_model, metrics, rules, tree
from scipy.optimize import linprog

from streamcal import IsotonicCalibrator
from streamcal.voting import (
    VoteClassifier,
    multilabel_bound,
    multilabel_weights,
    optimal_votes,
    search_votes,
    two_class_votes,
    votes_loss,
)
from tests.contract import river_checks

weights = st.lists(
    st.sampled_from([0.0, 1.0, 1.0, math.e, math.e**2]) | st.floats(1e-3, 1e3),
    min_size=2,
    max_size=6,
)


def loss_by_pairs(W: Any, v: Any) -> Any:
    c = len(W)
    return sum(
        W[j] * math.exp(-(v[j] - v[k]) / 2) for j in range(c) for k in range(c) if j != k
    ) / (c - 1)


@settings(max_examples=40)
@given(weights)
def test_votes_are_the_best_of_all(W: Any) -> None:
    best = min(loss_by_pairs(W, v) for v in itertools.product((-1, 0, 1), repeat=len(W)))
    votes, Z = optimal_votes(W)
    assert set(votes.tolist()) <= {-1.0, 0.0, 1.0}
    assert pytest.approx(best, rel=1e-12) == Z
    assert loss_by_pairs(W, votes) == pytest.approx(best, rel=1e-12)
    assert pytest.approx(best, rel=1e-12) == search_votes(W).Z


def test_eight_classes_by_brute_force() -> None:
    W = [1.0, 0.2, 5.0, 5.0, 0.0, 30.0, 2.0, 0.7]
    best = min(votes_loss(W, v) for v in itertools.product((-1, 0, 1), repeat=8))
    assert pytest.approx(best, rel=1e-12) == optimal_votes(W).Z


@settings(max_examples=30)
@given(weights, st.lists(st.floats(-3, 3), min_size=1, max_size=4))
def test_any_values_will_do(W: Any, values: Any) -> None:
    W = W[:4]
    best = min(votes_loss(W, v) for v in itertools.product(values, repeat=len(W)))
    votes, Z = optimal_votes(W, values)
    assert set(votes.tolist()) <= set(values)
    assert pytest.approx(best, rel=1e-9) == Z
    assert pytest.approx(best, rel=1e-9) == search_votes(W, values).Z


@given(weights)
def test_votes_follow_the_weights(W: Any) -> None:
    votes = optimal_votes(W).votes
    order = np.argsort(W, kind="stable")
    assert (np.diff(votes[order]) >= 0).all()


def test_many_classes_as_the_search_finds_them() -> None:
    W = np.random.default_rng(1).exponential(1.0, 150) ** 3
    assert pytest.approx(search_votes(W).Z, rel=1e-12) == optimal_votes(W).Z


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_two_classes_in_closed_form(negative: float, positive: float) -> None:
    margin = two_class_votes(negative, positive)
    best = optimal_votes([negative, positive])
    votes = {2: (-1, 1), 1: (0, 1), 0: (0, 0), -1: (1, 0), -2: (1, -1)}[margin]
    assert votes_loss([negative, positive], votes) == pytest.approx(best.Z, rel=1e-12)


def test_two_classes_of_which_one_was_never_met() -> None:
    assert [two_class_votes(*W) for W in [(0, 1), (1, 0), (0, 0)]] == [2, -2, 0]
    assert optimal_votes([0.0, 0.0, 0.0]).votes.tolist() == [0.0, 0.0, 0.0]


def multilabel_loss(examples: Any, c: Any, v: Any) -> Any:
    """Each pair of a class that an example has and one that it has not, with its share."""
    return sum(
        w / (len(S) * (c - len(S))) * math.exp(-(v[j] - v[k]) / 2)
        for S, w in examples
        for j in S
        for k in set(range(c)) - set(S)
    )


def multilabel_optimum(examples: Any, c: Any) -> Any:
    """The linear program: costs are convex in v_k - v_j, and the relaxation is integral."""
    pairs: dict[tuple[int, int], float] = {}
    for S, w in examples:
        for j in S:
            for k in set(range(c)) - set(S):
                pairs[j, k] = pairs.get((j, k), 0.0) + w / (len(S) * (c - len(S)))
    cost, rows, right = [0.0] * c + [1.0] * len(pairs), [], []
    for at, ((j, k), weight) in enumerate(pairs.items()):
        for d in range(-2, 2):  # the chord of weight exp(d/2) from d to d + 1, d = v_k - v_j
            low, high = weight * math.exp(d / 2), weight * math.exp((d + 1) / 2)
            row = [0.0] * (c + len(pairs))
            row[k], row[j], row[c + at] = high - low, low - high, -1.0
            rows.append(row)
            right.append(d * (high - low) - low)
    bounds = [(-1, 1)] * c + [(0, None)] * len(pairs)
    return linprog(cost, A_ub=rows, b_ub=right, bounds=bounds).fun


@settings(max_examples=25)
@given(st.data())
def test_several_classes_are_within_the_bound(data: st.DataObject) -> None:
    c = data.draw(st.integers(3, 5))
    subsets = st.sets(st.integers(0, c - 1), min_size=1, max_size=c - 1)
    examples = data.draw(st.lists(st.tuples(subsets, st.floats(0.1, 10)), min_size=1, max_size=6))
    best = min(multilabel_loss(examples, c, v) for v in itertools.product((-1, 0, 1), repeat=c))
    assert multilabel_optimum(examples, c) == pytest.approx(best, rel=1e-6)
    votes = optimal_votes(multilabel_weights(examples, c)).votes
    most = max(len(S) for S, _ in examples)
    assert multilabel_loss(examples, c, votes) <= multilabel_bound(c, most) * best * (1 + 1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: optimal_votes([1.0]), "at least 2 classes, got 1"),
        (lambda: optimal_votes([1.0, -1.0]), "`weights` must be from 0 .* got -1.0 at position 1"),
        (lambda: optimal_votes([1.0, math.nan]), "`weights` must be finite"),
        (lambda: optimal_votes([1.0, 2.0], []), "`values` must hold at least one vote"),
        (lambda: optimal_votes([1.0, 2.0], [1e9]), "`values` must be from -100 to 100"),
        (lambda: votes_loss([1.0, 2.0], [1.0]), "`votes` must have one value per class"),
        (lambda: multilabel_weights([({0, 1}, 1.0)], 2), "from 1 to 1 classes"),
        (lambda: multilabel_weights([({7}, 1.0)], 3), "classes below 3"),
        (lambda: multilabel_weights([], True), "`n_classes` must be an int"),
        (lambda: multilabel_bound(3, 3), "`max_classes` must be from 1 to 2"),
        (lambda: VoteClassifier(linear_model.LogisticRegression()), "must be a Hoeffding tree"),
        (lambda: VoteClassifier(tree.HoeffdingTreeRegressor()), "must be a Hoeffding tree"),
        (lambda: VoteClassifier(tree.HoeffdingTreeClassifier(), 3), "must be a Calibrator"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


MODELS = [
    VoteClassifier(tree.HoeffdingTreeClassifier(grace_period=50)),
    VoteClassifier(tree.HoeffdingAdaptiveTreeClassifier(grace_period=50, seed=1)),
    VoteClassifier(tree.ExtremelyFastDecisionTreeClassifier(grace_period=50)),
    VoteClassifier(forest.ARFClassifier(n_models=3, seed=1)),
    VoteClassifier(ensemble.BaggingClassifier(tree.HoeffdingTreeClassifier(), 3, seed=1)),
    VoteClassifier(rules.AMRules(n_min=50)),
]


@pytest.mark.parametrize("prototype", MODELS, ids=lambda m: type(m.model).__name__)
def test_trees_and_rules_vote(prototype: Any) -> None:
    model = prototype.clone()
    assert model.predict_proba_one({"a": 1.0}) == {}
    loss = metrics.LogLoss()
    for i, (x, y) in enumerate(datasets.Phishing().take(500)):
        before = pickle.dumps(model) if i % 100 == 0 else b""
        p = model.predict_proba_one(x)
        score = model.votes_one(x)
        if len(p) == 2:
            assert sum(p.values()) == pytest.approx(1.0)
            assert score[True] == -score[False] == int(score[True])
            loss.update(y, p)
        assert not before or pickle.dumps(model) == before
        model.learn_one(x, y)
    assert loss.get() < 0.71
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba_one(x) == model.predict_proba_one(x)


def test_many_classes_have_a_calibrator_each() -> None:
    model = VoteClassifier(forest.ARFClassifier(n_models=3, seed=1), IsotonicCalibrator(window=200))
    for x, y in datasets.ImageSegments().take(300):
        model.learn_one(x, y)
    p = model.predict_proba_one(x)
    assert len(p) == 7
    assert sum(p.values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="`y` must be a label"):
        model.learn_one(x, None)
    with pytest.raises(ValueError, match="`y` must be False or True"):
        VoteClassifier(rules.AMRules()).learn_one(x, "grass")


@pytest.mark.parametrize("prototype", [MODELS[0], MODELS[3]], ids=["tree", "forest"])
def test_it_passes_the_checks_of_river(prototype: Any) -> None:
    for check in river_checks(prototype, 100):  # forests are slow
        check(prototype.clone())
