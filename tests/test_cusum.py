"""The linear ordinal learners: against the oracle, the bounds of the paper, and the contract."""

import collections
import copy
import gc
import itertools
import math
import pickle
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import base

from streamcal import losses
from streamcal.kernels.rank_probabilities import class_probabilities
from streamcal.ordinal import CuSumRank, KernelCuSumRank, PACuSumRank, PRank, mistake_bound
from streamcal.ordinal._ranks import RankLearner
from tests import oracles_cusum as oracles
from tests.contract import (
    BAD,
    BAD_WEIGHTS,
    ClassifierContract,
    classifier_contract,
    river_checks,
    state,
)

NAMES = "abc"
Sample = tuple[list[float], int]


def as_dict(x: list[float]) -> dict[str, float]:
    return dict(zip("abcdefghijklmnopqrstuvwxyz", x, strict=False))


def weights_of(model: Any, n_features: int) -> np.ndarray:
    """Return the served weights as the oracle has them: boundary by feature, the bias last."""
    rows = [model.weights[name] for name in list(as_dict([0.0] * n_features))]
    columns = [*rows, model.biases] if getattr(model, "intercept", True) else rows
    return np.stack(columns, axis=1)


@st.composite
def problems(draw: st.DrawFn) -> tuple[int, list[tuple[list[float], int, float]]]:
    n_labels = draw(st.integers(2, 6))
    number = st.integers(-4, 4).map(lambda i: i / 2)
    sample = st.tuples(
        st.lists(number, min_size=3, max_size=3),
        st.integers(0, n_labels - 1),
        st.sampled_from([0.5, 1.0, 2.0]),
    )
    return n_labels, draw(st.lists(sample, min_size=1, max_size=25))


# Steps, averages and decoding are those of the oracle ---------------------------------------------


@given(
    problem=problems(),
    rule=st.sampled_from(["perceptron", "PA", "PA-I", "PA-II"]),
    margin=st.sampled_from([0.0, 0.25, 1.0]),
    loss=st.sampled_from(["absolute", "squared", "zero-one"]),
    l2=st.sampled_from([0.0, 0.25]),
    averaging=st.sampled_from([None, "uniform", 3.0]),
    intercept=st.booleans(),
)
def test_equals_the_oracle(
    problem: Any, rule: str, margin: float, loss: str, l2: float, averaging: Any, intercept: bool
) -> None:
    n_labels, samples = problem
    options: dict[str, Any] = {"loss": loss, "margin": margin, "l2": l2, "averaging": averaging}
    options |= {"labels": range(n_labels), "intercept": intercept}
    model: Any = CuSumRank(**options)
    if rule != "perceptron":
        model = PACuSumRank(delta=0.75, mode=rule, C=0.3, **options)
    table = losses.get_task(loss).table(n_labels).tolist()
    oracle = oracles.Learner(
        3 + intercept,
        n_labels,
        rule=rule,
        delta=0.75,
        C=0.3,
        loss=lambda r, y: table[r][y],
        margin=margin,
        l2=l2,
        half_life=3.0 if averaging == 3.0 else math.inf,
    )
    for x, y, w in samples:
        follow(model, oracle)
        x_tilde = [*x, 1.0] if intercept else x
        if tied(oracle, x_tilde, 1.0 - l2, [margin * cost[y] for cost in table]):
            break
        model.learn_one(as_dict(x), y, w)
        oracle.learn(x_tilde, y, w)
    expected = oracle.average() if averaging else oracle.weights
    np.testing.assert_allclose(weights_of(model, 3), expected[1:], rtol=1e-9, atol=1e-9)
    assert model.rank_loss == pytest.approx(oracle.rank_loss)
    for x, _, _ in samples:
        x_tilde = [*x, 1.0] if intercept else x
        scores = oracles.scores(expected, x_tilde)
        rank = model.predict_one(as_dict(x))
        assert scores[rank] >= max(scores) - 1e-9


def tied(oracle: oracles.Learner, x: list[float], keep: float, margins: list[float]) -> bool:
    """Whether two ranks are best but for rounding, which is not the same in both."""
    if not any(x) or not any(map(any, oracle.weights)):
        return False  # scores are exactly 0
    plain = [keep * score for score in oracles.scores(oracle.weights, x)]
    moved = [score + margin for score, margin in zip(plain, margins, strict=True)]
    return any(sum(max(s) - score < 1e-9 for score in s) > 1 for s in (plain, moved))


def follow(model: Any, oracle: oracles.Learner) -> None:
    """Let the oracle go on from the weights that the model has, not from its own."""
    _, features, numbers, arrays, _ = model._cusum.state()
    if not features:
        return
    rows = dict(zip(features, arrays["weights"][:, 0], strict=True))
    for k in range(1, len(oracle.weights)):
        held = [float(numbers["scale"] * rows[name][k - 1]) for name in NAMES]
        if len(oracle.weights[k]) == 4:
            held.append(float(numbers["scale"] * arrays["bias"][0, k - 1]))
        assert held == pytest.approx(oracle.weights[k], rel=1e-9, abs=1e-9)
        oracle.weights[k] = held


@given(problem=problems(), ties=st.sampled_from(["published", "strict"]))
def test_prank_equals_the_published_rule(problem: Any, ties: str) -> None:
    n_labels, samples = problem
    model = PRank(labels=range(n_labels), ties=ties)
    oracle = oracles.PRank(3, n_labels, ties=ties)
    for i, (x, y, _) in enumerate(samples):
        assert model.predict_one(as_dict(x)) == (oracle.predict(x) if i else None)
        model.learn_one(as_dict(x), y)
        oracle.learn(x, y)
    assert [float(model.weights[name][0]) for name in NAMES] == oracle.direction
    assert model.thresholds.tolist() == oracle.thresholds == sorted(oracle.thresholds)


@given(problem=problems())
def test_strict_prank_is_the_special_case_of_cusum(problem: Any) -> None:
    """w_k = (p, −b_k), last argmax on ties, one step on all boundaries between the two ranks."""
    n_labels, samples = problem
    model = PRank(labels=range(n_labels), ties="strict")
    direction, bias = np.zeros(3), np.zeros(n_labels - 1)
    for i, (x, y, _) in enumerate(samples):
        scores = np.concatenate([[0.0], np.cumsum(np.dot(direction, x) + bias)])
        rank = oracles.decode(scores.tolist(), last=True)
        assert model.predict_one(as_dict(x)) == (rank if i else None)
        direction += (y - rank) * np.array(x)
        bias[min(y, rank) : max(y, rank)] += np.sign(y - rank)
        model.learn_one(as_dict(x), y)
    np.testing.assert_array_equal(model.biases, bias)


def test_the_two_tie_rules_of_prank_differ_from_zero() -> None:
    published, strict = (PRank(labels=range(3), ties=ties) for ties in ("published", "strict"))
    for model in (published, strict):
        model.learn_one({"a": -1.0}, 1)
    assert published.thresholds.tolist() == [-1.0, 1.0]
    assert strict.thresholds.tolist() == [0.0, 1.0]


@given(
    problem=problems(), half_life=st.sampled_from([0.1, 1.0, 5.0]), l2=st.sampled_from([0.0, 0.5])
)
def test_averages_survive_rescaling(problem: Any, half_life: float, l2: float) -> None:
    """Many half-lives and much shrinkage: the counts overflow again and again, the average not."""
    n_labels, samples = problem
    model = CuSumRank(labels=range(n_labels), averaging=half_life, l2=l2, margin=0.5)
    plain = CuSumRank(labels=range(n_labels), l2=l2, margin=0.5)
    total, mean = 0.0, np.zeros((n_labels - 1, 4))
    for x, y, w in itertools.islice(itertools.cycle(samples), 150):
        model.learn_one(as_dict(x), y, w)
        plain.learn_one(as_dict(x), y, w)
        total = total * 0.5 ** (1 / half_life) + w
        mean += w / total * (weights_of(plain, 3) - mean)
    np.testing.assert_allclose(weights_of(model, 3), mean, rtol=1e-7, atol=1e-9)


@given(x=st.lists(st.floats(-3, 3), min_size=2, max_size=2), y=st.integers(0, 4))
def test_passive_aggressive_steps_leave_the_margin(x: Any, y: int) -> None:
    model = PACuSumRank(labels=range(5), delta=0.7, mode="PA", margin=0.0)
    for other, label in ([[1.0, 0.0], 4], [[-1.0, 0.5], 1], [[0.0, -1.0], 3]):
        model.learn_one(as_dict(other), label)

    def scores() -> list[float]:
        return [0.0, *np.cumsum(weights_of(model, 2) @ [*x, 1.0])]

    guess = model.predict_one(as_dict(x))
    model.learn_one(as_dict(x), y)
    after = scores()
    if guess != y:
        assert after[y] - after[guess] == pytest.approx(0.7 * abs(y - guess))


def test_passive_aggressive_predictions_do_not_depend_on_delta() -> None:
    rng = np.random.default_rng(3)
    options: dict[str, Any] = {"labels": range(4), "mode": "PA", "margin": 0.0}
    models = [PACuSumRank(delta=delta, **options) for delta in (0.25, 1.0, 64.0)]
    for _ in range(300):
        x, y = as_dict(rng.normal(size=3).tolist()), int(rng.integers(4))
        assert len({model.predict_one(x) for model in models}) == 1
        for model in models:
            model.learn_one(x, y)
    np.testing.assert_allclose(64.0 * models[1].biases, models[2].biases)


# Bounds -------------------------------------------------------------------------------------------


def separable(n_labels: int, rng: np.random.Generator) -> tuple[list[Sample], float, float]:
    """Return rank-separable samples, their radius and the margin of weights of norm 1."""
    weights = rng.normal(size=(n_labels - 1, 6))
    weights[:, 0] = np.linspace(2.0, -2.0, n_labels - 1)
    weights[:, 1] += 2.0
    weights /= np.linalg.norm(weights)
    samples: list[Any] = []
    while len(samples) < 150:
        x = np.append(rng.normal(size=5) * [0.3, 3.0, 1.0, 1.0, 1.0], 1.0)[[5, 1, 0, 2, 3, 4]]
        x[0] = 1.0
        z = weights @ x
        y = int((z > 0.0).sum())
        if (z[:y] > 0.0).all() and (z[y:] < 0.0).all() and np.abs(z).min() > 0.002:
            samples.append((x.tolist(), y, np.abs(z).min()))
    radius = max(math.hypot(*x) for x, _, _ in samples)
    return [(x, y) for x, y, _ in samples], radius, min(z for _, _, z in samples)


@pytest.mark.parametrize("n_labels", [2, 3, 4, 7, 12, 20])
def test_bounds_hold_on_separable_data(n_labels: int) -> None:
    samples, radius, margin = separable(n_labels, np.random.default_rng(n_labels))
    labels = range(n_labels)
    for model in (
        CuSumRank(labels, margin=0.0, intercept=False),
        PACuSumRank(labels, intercept=False, mode="PA", delta=margin, margin=0.0),
    ):
        for _ in range(5):
            for x, y in samples:
                model.learn_one(as_dict(x), y)
        assert 0.0 < model.rank_loss <= mistake_bound(radius, margin)


@pytest.mark.parametrize("n_labels", range(2, 21))
def test_bound_of_prank_holds(n_labels: int) -> None:
    rng = np.random.default_rng(n_labels)
    direction, thresholds = rng.normal(size=3), np.linspace(-1, 1, n_labels - 1)
    model = PRank(labels=range(n_labels))
    margin = 0.01
    norm = math.hypot(*direction, *thresholds)
    radius = 0.0
    for _ in range(600):
        x = rng.normal(size=3)
        z = (x @ direction - thresholds) / norm
        if np.abs(z).min() >= margin:
            radius = max(radius, math.hypot(*x, 1.0))
            model.learn_one(as_dict(x.tolist()), int((z > 0).sum()))
    assert 0.0 < model.rank_loss <= mistake_bound(radius, margin, n_labels=n_labels)


@pytest.mark.parametrize("n_labels", range(2, 21))
def test_the_adversary_attains_the_bound(n_labels: int) -> None:
    """Orthogonal samples of the farthest rank; weights of norm 1 separate them by 1/√((K−1)T)."""
    model = CuSumRank(labels=range(n_labels), margin=0.0, intercept=False)
    n = 8
    for t in range(n):
        x = as_dict([float(i == t) for i in range(n)])
        guess = model.predict_one(x) or 0
        model.learn_one(x, 0 if guess > (n_labels - 1) / 2 else n_labels - 1)
    margin = 1.0 / math.sqrt((n_labels - 1) * n)
    assert model.rank_loss == pytest.approx(mistake_bound(1.0, margin))


def test_cusum_learns_what_prank_cannot() -> None:
    samples = [((-1, -1), 1), ((1, -200), 2), ((100, -1), 2), ((1, 1), 3)]
    cusum, prank = CuSumRank((1, 2, 3), margin=0.0), PRank((1, 2, 3))
    late = 0
    for epoch in range(3_000):
        for x, y in samples:
            cusum.learn_one(as_dict(list(x)), y)
            late += epoch >= 2_000 and prank.predict_one(as_dict(list(x))) != y
            prank.learn_one(as_dict(list(x)), y)
    assert [cusum.predict_one(as_dict(list(x))) for x, _ in samples] == [1, 2, 2, 3]
    assert late >= 1_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 1.0), r"`radius` must lie in \(0, inf\), got 0.0"),
        ((1.0, -1.0), r"`margin` must lie in \(0, inf\), got -1.0"),
        ((1.0, math.nan), "`margin` must lie in"),
    ],
)
def test_mistake_bound_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mistake_bound(*arguments)
    with pytest.raises(ValueError, match="`n_labels`"):
        mistake_bound(1.0, 1.0, n_labels=1)


def star_ratings(n: int = 3_000) -> Iterator[Any]:
    """Yield ratings with much noise: a user, an item, and skewed stars."""
    rng = np.random.default_rng(4)
    users, items = rng.normal(0, 0.5, 100), rng.normal(0, 0.5, 60)
    for _ in range(n):
        user, item = int(rng.integers(100)), int(rng.integers(60))
        like = users[user] + items[item] + rng.normal(0, 0.7)
        x = {f"user {user}": 1.0, f"item {item}": 1.0}
        yield x, int(np.searchsorted((-1.6, -1.1, -0.4, 0.5), like))


@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank])
def test_defaults_are_better_than_a_constant_where_labels_are_noisy(learner: Any) -> None:
    samples = list(star_ratings())
    constant = np.abs(np.median([y for _, y in samples]) - [y for _, y in samples]).mean()

    def error(model: Any) -> float:
        total = 0
        for x, y in samples:
            total += abs((model.predict_one(x) or 0) - y)
            model.learn_one(x, y)
        return total / len(samples)

    published = {"mode": "PA"} if learner is PACuSumRank else {}
    assert error(learner(range(5), margin=0.0, **published)) > constant
    assert error(learner(range(5))) < constant - 0.03


# Labels -------------------------------------------------------------------------------------------


def test_declared_labels_have_their_order_and_no_others() -> None:
    model = CuSumRank(("low", "mid", "high"))
    assert model.known_labels == ("low", "mid", "high")
    before = state(model)
    with pytest.raises(ValueError, match=r"`y` must be one of the labels 'low', .*, got 3"):
        model.learn_one({"a": 1.0}, 3)
    with pytest.raises(ValueError, match=r"`y` must be one of .* at position 1"):
        model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series(["low", "none"]))
    assert state(model) == before


@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
def test_learned_labels_are_ranked_by_value(learner: Any) -> None:
    model = learner(averaging="uniform")
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, 5)
    assert model.predict_one({"a": 1.0}) == 5
    assert model.predict_proba_one({"a": 1.0}) == {5: 1.0}
    for y in (9, 1, 7, 5, 3):
        model.learn_one({"a": float(y - 5)}, y)
    assert model.known_labels == (1, 3, 5, 7, 9)
    assert list(model.predict_proba_one({"a": 1.0})) == [1, 3, 5, 7, 9]
    for bad, error in (
        (None, ValueError),
        (math.nan, ValueError),
        ("x", TypeError),
        ([1], TypeError),
    ):
        before = state(model)
        with pytest.raises(error, match="`y`"):
            model.learn_one({"a": 1.0, "new": 2.0}, bad)
        assert state(model) == before


@given(problem=problems(), rank=st.integers(0, 6))
def test_a_label_in_between_leaves_decoding_as_it_was(problem: Any, rank: int) -> None:
    n_labels, samples = problem
    rank = min(rank, n_labels)
    model = CuSumRank(labels=None, averaging="uniform", margin=0.5)
    for y in range(n_labels):
        model.learn_one({"a": 0.0}, 2 * y)
    for x, y, w in samples:
        model.learn_one(as_dict(x), 2 * y, w)
    queries = [as_dict(x) for x, _, _ in samples]
    before = [model.predict_one(x) for x in queries]
    scores = [np.cumsum(weights_of(model, 3) @ [*x, 1.0]) for x, _, _ in samples]
    model.learn_one({}, 2 * rank - 1, 1e-60)
    for x, answer, score in zip(queries, before, scores, strict=True):
        gap = np.diff(np.sort([0.0, *score]))[-1]
        if rank > 0 and gap > 1e-9:  # a lowest label begins level with the one above, and wins ties
            assert model.predict_one(x) == answer
    assert sum(model.predict_proba_one(queries[0]).values()) == pytest.approx(1.0)


def test_highest_label_learned_late_is_as_if_declared() -> None:
    rng = np.random.default_rng(0)
    learned, declared = CuSumRank(margin=0.0), CuSumRank(labels=range(4), margin=0.0)
    for n_labels in (1, 2, 3, 4):
        for i in range(40):
            x = as_dict(rng.normal(size=3).tolist())
            y = n_labels - 1 if i == 0 else int(rng.integers(n_labels))
            learned.learn_one(x, y)
            declared.learn_one(x, y)
    for name in NAMES:
        np.testing.assert_array_equal(learned.weights[name], declared.weights[name])


def test_too_many_labels_are_a_mistake() -> None:
    model = CuSumRank()
    with pytest.raises(ValueError, match="`y` must be one of at most 1000 labels"):
        model.learn_many(pd.DataFrame({"a": np.zeros(1001)}), pd.Series(np.arange(1001) / 7))
    with pytest.raises(TypeError, match="`y` must hold numbers or strings"):
        model.learn_many(pd.DataFrame({"a": np.zeros(2)}), pd.Series([1, "a"]))
    assert model.known_labels == ()


def test_a_table_of_costs_needs_as_many_labels() -> None:
    table = losses.CostTable([[0, 1, 5], [1, 0, 1], [2, 1, 0]])
    CuSumRank(labels=range(3), loss=table)
    with pytest.raises(ValueError, match="`n_labels` must be 3"):
        CuSumRank(labels=range(4), loss=table)
    model = CuSumRank(loss=table)
    model.learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match="`n_labels` must be 3"):
        model.learn_one({"a": 1.0}, 2)
    assert model.known_labels == (1,)


# Parameters and features --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"labels": (1,)}, ValueError, "`labels` must hold at least two labels"),
        ({"labels": (1, 2, 1)}, ValueError, "`labels` must be different"),
        ({"labels": (1, None)}, ValueError, "`labels` must hold labels"),
        ({"labels": (1, Decimal("sNaN"))}, ValueError, "`labels` must hold labels"),
        ({"labels": "abc"}, TypeError, "`labels` must be a sequence"),
        ({"labels": 3}, TypeError, "`labels` must be a sequence"),
        ({"loss": "log"}, ValueError, "`loss` must be one of"),
        ({"margin": -1.0}, ValueError, r"`margin` must lie in \[0, 1e\+60\]"),
        ({"margin": math.nan}, ValueError, r"`margin` must lie in \[0, 1e\+60\]"),
        ({"averaging": "all"}, ValueError, "`averaging` must be None, 'uniform' or a half-life"),
        ({"averaging": 0.0}, ValueError, "`averaging` must be None, 'uniform' or a half-life"),
        ({"l2": 1.0}, ValueError, r"`l2` must lie in \[0, 1\), got 1.0"),
        ({"l2": "a"}, TypeError, "`l2` must be a number"),
        ({"window": 0}, ValueError, "`window` must be a positive int"),
        ({"window": None}, ValueError, "`window` must be a positive int"),
    ],
)
@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
def test_bad_parameters_are_refused(learner: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        learner(**options)


def test_bad_parameters_of_one_learner() -> None:
    for options, name in (({"delta": 0.0}, "delta"), ({"C": math.inf}, "C"), ({"mode": 1}, "mode")):
        with pytest.raises(ValueError, match=f"`{name}`"):
            PACuSumRank(**options)
    with pytest.raises(ValueError, match="`ties` must be one of"):
        PRank(ties="loose")


@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e61, "1", None, [1.0]])
def test_bad_features_change_nothing(learner: Any, bad: Any) -> None:
    model = learner(labels=range(3), averaging="uniform")
    for i in range(6):
        model.learn_one({"a": float(i - 3), "b": 1.0}, i // 2)
    before = state(model)
    for x in ({"a": bad, "b": 1.0}, {"a": 1.0, "b": bad}, {"a": 1.0, "new": bad}, {"new": bad}):
        for call in (
            lambda x=x: model.learn_one(x, 1),
            lambda x=x: model.predict_one(x),
            lambda x=x: model.predict_proba_one(x),
        ):
            with pytest.raises(BAD, match="`x"):
                call()
    for call in (model.predict_one, model.predict_proba_one):
        with pytest.raises(TypeError, match="`x` must be a dict"):
            call(bad)
    if not isinstance(bad, (list, str)):
        X = pd.DataFrame({"a": [1.0, bad], "b": [1.0, 1.0]})
        y = pd.Series([0, 1])
        for batch in (lambda: model.learn_many(X, y), lambda: model.predict_many(X)):
            with pytest.raises(ValueError, match=r"`X` must hold finite .* for 'a' in row 1"):
                batch()
    assert state(model) == before


@pytest.mark.parametrize("w", BAD_WEIGHTS)
def test_bad_weights_change_nothing(w: Any) -> None:
    model = CuSumRank(labels=range(3))
    model.learn_one({"a": 1.0}, 1)
    before = state(model)
    for x in ({"a": 1.0}, {"b": 1.0}):
        with pytest.raises(BAD, match="`w`"):
            model.learn_one(x, 2, w)
    X, y = pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([0, 1])
    with pytest.raises(BAD, match="`w`"):
        model.learn_many(X, y, [1.0, w])
    assert state(model) == before


def test_features_come_and_go() -> None:
    model = CuSumRank(labels=range(3), averaging="uniform")
    model.learn_one({"a": 1.0}, 2)
    model.learn_one({"b": -1.0}, 0)
    model.learn_one({"b": 0.5, "a": 0.5, **{str(i): 1.0 for i in range(40)}}, 1)
    model.learn_one({}, 1)
    assert set(model.weights) == {"a", "b", *map(str, range(40))}
    same = model.predict_proba_one({"a": 1.0, "b": 2.0})
    assert model.predict_proba_one({"b": 2.0, "never": 5.0, "a": 1}) == same
    assert set(model.weights) == {"a", "b", *map(str, range(40))}
    assert model.predict_one({}) in range(3)


def test_any_order_of_features_and_any_kind_of_dict_will_do() -> None:
    """Rows are remembered by the place of a feature, which may have another or none next time."""
    model, twin = CuSumRank(labels=range(4), averaging=30.0), CuSumRank(range(4), averaging=30.0)
    rng = np.random.default_rng(7)
    names = ["a", 7, ("c", 1), None, "e"]
    for i in range(200):
        order = rng.permutation(5)[: rng.integers(0, 6)].tolist()
        x = {names[k]: int(rng.integers(-8, 9)) / 8 for k in order}
        y = int(rng.integers(4))
        model.predict_one({names[4 - k]: 1.0 for k in order})
        learned = (x, collections.OrderedDict(x), {k: np.float32(v) for k, v in x.items()})[i % 3]
        model.learn_one(learned, y)
        twin.learn_many(pd.DataFrame([list(x.values())], columns=[*map(str, x)]), pd.Series([y]))
        assert model.predict_one(x) == model.predict_one(dict(reversed(x.items())))
    assert set(map(str, model.weights)) == set(twin.weights)
    for name, row in model.weights.items():
        np.testing.assert_allclose(row, twin.weights[str(name)], rtol=1e-12)


@pytest.mark.parametrize("value", [1e60, -1e60, 1e-300, 5e-324])
@pytest.mark.parametrize("w", [1e-60, 1e60])
@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
def test_extremes_stay_finite(learner: Any, value: float, w: float) -> None:
    model = learner(labels=range(4), averaging=0.5, l2=0.1, margin=1.0)
    for i in range(300):
        model.learn_one({"a": value * (-1) ** i, "b": 1.0}, i % 4, w)
    assert all(np.isfinite(row).all() for row in model.weights.values())
    assert np.isfinite(model.biases).all()
    assert sum(model.predict_proba_one({"a": value}).values()) == pytest.approx(1.0)


# Batches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
@pytest.mark.parametrize("labels", [None, (0, 1, 2, 3)])
def test_learn_many_equals_a_loop(learner: Any, frame: Any, labels: Any) -> None:
    rng = np.random.default_rng(1)
    loop = learner(labels, averaging=20.0, l2=1e-3, margin=0.5, window=50)
    batch = loop.clone()
    for columns in (["a", "b"], ["a", "b", "c"], ["c"], ["b", "a"]):
        X = rng.normal(size=(70, len(columns)))
        y, w = rng.integers(0, 4, 70), rng.uniform(0.5, 2.0, 70)
        y[:3] = 2, 0, 3
        for row, label, weight in zip(X.tolist(), y.tolist(), w.tolist(), strict=True):
            loop.learn_one(dict(zip(columns, row, strict=True)), label, weight)
        data = frame(dict(zip(columns, X.T, strict=True)))
        series = pd.Series(y, name="y") if frame is pd.DataFrame else pl.Series("y", y)
        batch.learn_many(data, series, w)
    assert batch.known_labels == (0, 1, 2, 3)
    assert batch.rank_loss == pytest.approx(loop.rank_loss)
    for name in NAMES:
        np.testing.assert_allclose(batch.weights[name], loop.weights[name], rtol=1e-12)
    answers = batch.predict_many(data)
    assert type(answers) is type(series)
    assert answers.name == "y"
    queries = [dict(zip(columns, row, strict=True)) for row in X.tolist()]
    assert list(answers) == [loop.predict_one(x) for x in queries]
    probabilities = batch.predict_proba_many(data)
    assert type(probabilities) is type(data)
    expected = [list(loop.predict_proba_one(x).values()) for x in queries]
    np.testing.assert_allclose(probabilities.to_numpy(), expected, atol=1e-9)


def test_batches_of_nothing_and_of_strangers() -> None:
    model = CuSumRank()
    empty = pd.DataFrame({"a": np.zeros(0)})
    model.learn_many(empty, pd.Series([], dtype=int))
    assert len(model.predict_many(empty)) == 0
    assert list(model.predict_many(pd.DataFrame({"a": [1.0]}))) == [None]
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1, 1]))
    assert list(model.predict_many(pd.DataFrame({"z": [1.0]}))) == [1]
    probabilities: Any = model.predict_proba_many(pd.DataFrame({"z": [1.0]}))
    assert probabilities.to_dict("list") == {1: [1.0]}
    with pytest.raises(ValueError, match="`y` must have one label per row"):
        model.learn_many(pd.DataFrame({"a": [1.0]}), pd.Series([1, 1]))
    with pytest.raises(TypeError, match="`X` must hold numbers"):
        model.learn_many(pd.DataFrame({"a": ["q"]}), pd.Series([1]))


# Probabilities ------------------------------------------------------------------------------------


def ordinal_stream(n: int, seed: int = 0) -> list[tuple[dict[str, float], int]]:
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        x = rng.normal(size=2)
        latent = 1.5 * x[0] - x[1] + rng.logistic()
        out.append((as_dict(x.tolist()), int(np.searchsorted([-2.0, 0.0, 1.5], latent))))
    return out


@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
def test_probabilities_are_calibrated(learner: Any) -> None:
    model = learner(labels=range(4), averaging="uniform", window=3_000)
    expected, hits, log_loss = np.zeros(4), np.zeros(4), 0.0
    samples = ordinal_stream(4_000)
    for t, (x, y) in enumerate(samples):
        p = model.predict_proba_one(x)
        if t >= 1_000:
            expected += list(p.values())
            hits[y] += 1
            log_loss -= math.log(p[y])
        model.learn_one(x, y)
    np.testing.assert_allclose(expected / 3_000, hits / 3_000, atol=0.03)
    base_rate = -(hits * np.log(hits / 3_000)).sum()
    assert log_loss < 0.87 * base_rate


def test_probabilities_are_those_of_the_calibrators_made_to_fall() -> None:
    """Learned at once or one by one, early or late: the staircases of the last window samples."""
    from streamcal import IsotonicCalibrator

    samples = ordinal_stream(400)
    eager, lazy = (CuSumRank(labels=range(4), averaging="uniform", window=90) for _ in range(2))
    calibrators = [IsotonicCalibrator(window=90) for _ in range(3)]
    for x, y in samples:
        s = np.cumsum([0.0, *(weights_of(lazy, 2) @ [x["a"], x["b"], 1.0])]) if lazy.weights else 0
        s = np.zeros(4) if isinstance(s, int) else s
        for k, calibrator in enumerate(calibrators, 1):
            calibrator.learn_one(s[k:].max() - s[:k].max(), y >= k)
        eager.predict_proba_one(x)
        eager.learn_one(x, y)
        lazy.learn_one(x, y)
    for x, _ in ordinal_stream(40, seed=1):
        s = np.cumsum([0.0, *(weights_of(lazy, 2) @ [x["a"], x["b"], 1.0])])
        above = [
            calibrator.predict_one(s[k:].max() - s[:k].max())
            for k, calibrator in enumerate(calibrators, 1)
        ]
        fallen = np.array([1.0, *oracles.antitonic(above), 0.0])
        expected = (90 * (fallen[:-1] - fallen[1:]) + 0.25) / 91
        for model in (eager, lazy):
            answer = model.predict_proba_one(x)
            np.testing.assert_allclose(list(answer.values()), expected, atol=1e-6)


@given(
    rows=st.lists(
        st.lists(st.floats(0, 1, allow_subnormal=False), min_size=4, max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_boundaries_are_made_to_fall_as_by_isotonic_regression(rows: Any) -> None:
    out = np.empty((len(rows), 5))
    class_probabilities(np.array(rows), 10.0, out)
    for row, p in zip(rows, out, strict=True):
        fallen = np.array([1.0, *oracles.antitonic(row), 0.0])
        np.testing.assert_allclose(p, (10 * -np.diff(fallen) + 0.2) / 11, atol=1e-12)
        assert (p > 0).all()


@pytest.mark.parametrize("labels", [None, ("a", "b", "c")])
@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank, KernelCuSumRank])
def test_nothing_is_predicted_before_anything_is_learned(learner: Any, labels: Any) -> None:
    model = learner(labels=labels)
    assert model.predict_one({"x": 1.0}) is None
    assert model.predict_proba_one({"x": 1.0}) == {}
    model.learn_one({"x": 1.0}, "b")
    assert model.predict_one({"x": 1.0}) in {"a", "b", "c"}
    assert set(model.predict_proba_one({"x": 1.0})) == set(labels or ["b"])


@pytest.mark.parametrize("labels", [None, ("a", "b", "c")])
def test_nothing_is_predicted_for_a_batch_before_anything_is_learned(labels: Any) -> None:
    model, X = CuSumRank(labels=labels), pd.DataFrame({"x": [1.0, 2.0]})
    assert list(model.predict_many(X)) == [None, None]
    assert list(model.predict_proba_many(X)) == []
    model.learn_many(X, pd.Series(["a", "b"]))
    assert set(model.predict_many(X)) <= {"a", "b", "c"}


# Contracts ----------------------------------------------------------------------------------------


PROTOTYPES = (
    CuSumRank(window=200),
    CuSumRank(averaging="uniform", margin=1.0, window=200),
    PACuSumRank(averaging=30.0, loss="squared", window=200),
    PRank(window=200),
)


class TestContract(classifier_contract(*PROTOTYPES, bounded=True)):
    @staticmethod
    def _understands(cls: type[ClassifierContract], labels: tuple[Any, ...]) -> bool:
        return labels != (3, 1, 2)  # the contract's stream has them in an order that is none

    def test_probabilities_sum_to_one_and_name_the_label(
        self, fresh: base.Classifier, kind: str
    ) -> None:
        """As the contract's, but that the label is decoded: it need not be the most probable."""
        if kind == "str":
            fresh = fresh.clone({"labels": ("cold", "warm", "hot")})
        decoded, probable = [], []
        for x, y in self.stream(kind, 300):
            answer = fresh.predict_proba_one(x)
            assert all(type(p) is float and 0.0 < p <= 1.0 for p in answer.values())
            assert (fresh.predict_one(x) is None) == (not answer)
            if answer:
                assert math.isclose(sum(answer.values()), 1.0, abs_tol=1e-9)
                decoded.append(fresh.predict_one(x) == y)
                probable.append(max(answer, key=answer.__getitem__) == y)
            fresh.learn_one(x, y)
        assert np.mean(decoded[60:]) > 0.6
        assert np.mean(probable[60:]) > 0.6


@pytest.mark.parametrize(
    "model", [CuSumRank(), PACuSumRank(), PRank()], ids=lambda m: type(m).__name__
)
def test_it_passes_the_checks_of_river(model: Any) -> None:
    for check in river_checks(model):
        check(model.clone())


@pytest.mark.parametrize("learner", [CuSumRank, PACuSumRank, PRank])
def test_copies_go_on_alike(learner: Any) -> None:
    model = learner(averaging="uniform", window=40)
    samples = ordinal_stream(120)
    for x, y in samples[:60]:
        model.learn_one(x, y)
    twins: list[RankLearner] = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model]
    for x, y in samples[60:]:
        for twin in twins:
            twin.learn_one(x, y)
    answers = [[twin.predict_proba_one(x) for x, _ in samples] for twin in twins]
    assert answers[0] == answers[1] == answers[2]
    assert twins[0].clone().n_samples == 0


def test_in_a_pipeline() -> None:
    from river import preprocessing

    model = preprocessing.StandardScaler() | CuSumRank(averaging="uniform")
    samples = ordinal_stream(1_000)
    error = 0.0
    for x, y in samples:
        answer = model.predict_one(x)
        error += abs((answer if answer is not None else 0) - y)
        model.learn_one(x, y)
    assert error / 1_000 < 0.75
    frame, labels = pd.DataFrame([x for x, _ in samples]), pd.Series([y for _, y in samples])
    model.learn_many(frame, labels)
    assert len(model.predict_many(frame)) == 1_000


class Reentrant:
    """A number that asks a model while the model reads it."""

    model: Any = None

    def __float__(self) -> float:
        self.model.predict_one({"a": 1.0})
        return 1.0


class ReentrantLabel(int):
    """A label that asks a model while it is compared."""

    model: Any = None

    def __hash__(self) -> Any:
        return hash(1)

    def __eq__(self, other: Any) -> bool:
        self.model.predict_one({"a": 1.0})
        return True


@pytest.mark.parametrize("kind", [CuSumRank, PACuSumRank, PRank])
def test_a_call_in_the_middle_of_a_call_raises(kind: Any) -> None:
    """Instead of waiting for itself; and it leaves the model as it was."""
    model = kind()
    for k in range(20):
        model.learn_one({"a": k % 5, "b": 1.0}, k % 3)
    before = state(model)
    Reentrant.model = ReentrantLabel.model = model
    for call in (
        lambda: model.predict_one({"a": Reentrant()}),
        lambda: model.predict_proba_one({"a": Reentrant()}),
        lambda: model.learn_one({"a": Reentrant()}, 1),
        lambda: model.learn_one({"a": 1.0}, ReentrantLabel(1)),
    ):
        with pytest.raises(RuntimeError, match="inside one of its calls"):
            call()
    assert state(model) == before
    model.learn_one({"a": 1.0}, 1)
    assert model.predict_one({"a": 1.0}) in (0, 1, 2)


class Narrow(losses.AbsoluteError):
    """A loss whose table for more than two labels is of a type that the kernel does not take."""

    def table(self, n_labels: int) -> Any:
        return super().table(n_labels).astype(np.float64 if n_labels == 2 else np.float32)


def test_a_label_that_is_refused_takes_no_memory() -> None:
    model = CuSumRank(loss=Narrow())
    model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([1, 2]))
    before = state(model)

    def refuse() -> None:
        with pytest.raises(ValueError, match="Buffer dtype mismatch"):
            model.learn_one({"a": 1.0}, 3)

    refuse()
    tracemalloc.start()
    try:
        refuse()
        begun = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            refuse()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - begun < 200 * 250
    finally:
        tracemalloc.stop()
    assert state(model) == before
