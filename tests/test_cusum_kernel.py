"""The dual learner, against the primal one and the oracle, and random Fourier features."""

import copy
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal.ordinal import CuSumRank, KernelCuSumRank, RandomFourierFeatures
from tests import oracles_cusum as oracles
from tests.contract import (
    BAD,
    BAD_WEIGHTS,
    ClassifierContract,
    classifier_contract,
    river_checks,
    state,
)
from tests.test_cusum import TestContract as LinearContract
from tests.test_cusum import as_dict, problems


def rbf(a: Any, b: Any) -> float:
    return math.exp(-0.7 * sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def polynomial(a: Any, b: Any) -> float:
    return (0.7 * oracles.dot(a, b) + 2.0) ** 2


OPTIONS: dict[str, Any] = {"gamma": 0.7, "degree": 2, "coef0": 2.0, "intercept": False}


@given(
    problem=problems(),
    options=st.sampled_from([{}, {"averaging": "uniform"}, {"averaging": 3.0, "margin": 0.5}]),
    intercept=st.booleans(),
)
def test_dual_equals_primal_step_for_step(problem: Any, options: Any, intercept: bool) -> None:
    n_labels, samples = problem
    options = {"margin": 0.0, "labels": range(n_labels), "intercept": intercept} | options
    dual, primal = KernelCuSumRank(kernel="linear", **options), CuSumRank(**options)
    for x, y, w in samples:
        assert dual.predict_one(as_dict(x)) == primal.predict_one(as_dict(x))
        dual.learn_one(as_dict(x), y, w)
        primal.learn_one(as_dict(x), y, w)
        assert dual.rank_loss == primal.rank_loss
        kept = np.array([[dict(key).get(name, 0.0) for name in "abc"] for key in dual._kept])
        weights = np.array([primal.weights[name] for name in "abc"])
        np.testing.assert_allclose(kept.reshape(-1, 3).T @ dual.counts, weights, atol=1e-9)


@given(problem=problems(), kernel=st.sampled_from(["rbf", "polynomial"]))
def test_counts_atoms_as_the_paper_does(problem: Any, kernel: str) -> None:
    n_labels, samples = problem
    model = KernelCuSumRank(labels=range(n_labels), kernel=kernel, **OPTIONS)
    oracle = oracles.Dual(n_labels, {"rbf": rbf, "polynomial": polynomial}[kernel])
    for x, y, _ in samples:
        scores = sorted(oracle.scores(x))
        if scores[-1] - scores[-2] > 1e-9:  # else rounding decides
            assert model.predict_one(as_dict(x)) == oracle.predict(x)
        else:
            break
        model.learn_one(as_dict(x), y)
        oracle.learn(x, y)


def test_a_callable_sees_samples_by_column() -> None:
    def histogram(kept: np.ndarray, x: np.ndarray) -> np.ndarray:
        assert kept.shape[1] == len(x)
        return np.asarray(np.minimum(kept, x).sum(axis=1))

    model = KernelCuSumRank(labels=(1, 2, 3), kernel=histogram)
    model.learn_one({"a": 2.0}, 3)
    assert model.predict_one({"a": 1.0, "b": 5.0}) == 3
    model.learn_one({"b": 1.0, "c": 1.0}, 1)
    model.learn_one({"c": 1.0, "a": 2.0}, 2)
    assert model.n_kept == 3
    for bad, message in (
        (lambda kept, x: np.zeros(len(kept) + 1), "`kernel` must return 1 values"),
        (lambda kept, x: np.full(len(kept), math.nan), "`kernel` must return finite values"),
    ):
        model = KernelCuSumRank(labels=(1, 2, 3), kernel=bad)
        model.learn_one({"a": 2.0}, 3)
        with pytest.raises(ValueError, match=message):
            model.predict_one({"a": 2.0})


def test_missing_features_are_zeros() -> None:
    model = KernelCuSumRank(labels=(0, 1), gamma=0.5, intercept=False)
    model.learn_one({"a": 1.0, "b": 0.0}, 1)
    assert model.n_kept == 1
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"a": -4.0, "z": 3.0}, 1)
    model.learn_one({"a": 1.0, "b": 2.0}, 0)
    assert len(model._columns) == 2  # of a and b: what was not mistaken is not kept
    assert model.predict_one({"b": 2.0, "a": 1.0}) == 0
    assert model.predict_one({"a": 1.0, "q": 0.0}) == 1


@pytest.mark.parametrize("drop", ["oldest", "smallest"])
def test_a_full_budget_drops_one_sample(drop: str) -> None:
    model = KernelCuSumRank(labels=range(4), budget=5, drop=drop, averaging="uniform")
    rng = np.random.default_rng(0)
    kept: dict[Any, np.ndarray] = {}
    for _ in range(200):
        x, y = as_dict(rng.normal(size=2).tolist()), int(rng.integers(4))
        before = list(model._kept)
        counts = model._cusum.stored()[2][:, 0]
        model.learn_one(x, y)
        after = list(model._kept)
        assert len(after) <= 5
        gone = [i for i, key in enumerate(before) if key not in after]
        if gone:
            norms = (counts**2).sum(axis=1)
            assert gone == [0 if drop == "oldest" else int(norms.argmin())]
            kept[after[-1]] = counts
    assert len(kept) > 50
    assert model.n_kept == 5
    assert model._samples.shape[0] < 20


def test_budget_of_one() -> None:
    model = KernelCuSumRank(labels=(0, 1), budget=1)
    for i in range(20):
        model.learn_one({"a": float(i)}, i % 2)
    assert model.n_kept == 1


@pytest.mark.parametrize(
    ("options", "error", "name"),
    [
        ({"kernel": "cosine"}, ValueError, "kernel"),
        ({"gamma": 0.0}, ValueError, "gamma"),
        ({"gamma": "1"}, TypeError, "gamma"),
        ({"degree": 1.5}, ValueError, "degree"),
        ({"degree": 2.0}, ValueError, "degree"),
        ({"degree": 0}, ValueError, "degree"),
        ({"degree": 101}, ValueError, "degree"),
        ({"coef0": math.inf}, ValueError, "coef0"),
        ({"budget": 0}, ValueError, "budget"),
        ({"drop": "newest"}, ValueError, "drop"),
        ({"labels": (1,)}, ValueError, "labels"),
    ],
)
def test_bad_parameters_are_refused(options: Any, error: Any, name: str) -> None:
    with pytest.raises(error, match=f"`{name}` must"):
        KernelCuSumRank(**options)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e61, "1", None])
def test_bad_samples_change_nothing(bad: Any) -> None:
    model = KernelCuSumRank(labels=range(3), budget=4)
    for i in range(9):
        model.learn_one({"a": float(i - 3), "b": 1.0}, i // 3)
    before = state(model)
    for x in ({"a": bad}, {"new": bad}, bad):
        for call in (
            lambda x=x: model.learn_one(x, 1),
            lambda x=x: model.predict_one(x),
            lambda x=x: model.predict_proba_one(x),
        ):
            with pytest.raises(BAD, match="`x"):
                call()
    for w in BAD_WEIGHTS:
        with pytest.raises(BAD, match="`w`"):
            model.learn_one({"a": 1.0}, 1, w)
    bad_labels: list[Any] = [None, 7, math.nan, []]
    for y in bad_labels:
        with pytest.raises(BAD, match="`y`"):
            model.learn_one({"new": 1.0}, y)
    assert state(model) == before


def test_products_may_be_larger_than_features() -> None:
    model = KernelCuSumRank(labels=range(3), kernel="linear")
    model.learn_one({"a": 1e50}, 1)
    assert [model.predict_one({"a": sign * 1e50}) for sign in (1.0, -1.0)] == [1, 0]
    assert sum(model.predict_proba_one({"a": 1e50}).values()) == pytest.approx(1.0)
    model = KernelCuSumRank(labels=(0, 1, 2), kernel="polynomial", degree=6)
    model.learn_one({"a": 1e25}, 2, 1e60)
    for x in ({"a": 1e25}, {"a": -1e25}, {}):
        assert sum(model.predict_proba_one(x).values()) == pytest.approx(1.0)
        model.learn_one(x, 0, 1e60)
    assert KernelCuSumRank.from_bytes(model.to_bytes()).n_samples == 4


def test_huge_products_are_refused() -> None:
    model = KernelCuSumRank(labels=range(3), kernel="polynomial", degree=8)
    model.learn_one({"a": 1e50}, 2)
    before = state(model)
    with pytest.raises(ValueError, match="`kernel` must return finite values"):
        model.learn_one({"a": 1e50}, 1)
    assert state(model) == before


class TestContract(
    classifier_contract(KernelCuSumRank(gamma=0.3, budget=50, window=200), bounded=True)
):
    _understands = staticmethod(LinearContract._understands)
    test_probabilities_sum_to_one_and_name_the_label = (
        LinearContract.test_probabilities_sum_to_one_and_name_the_label
    )


assert issubclass(TestContract, ClassifierContract)


@pytest.mark.parametrize(
    "model",
    [KernelCuSumRank(), RandomFourierFeatures(n_components=10)],
    ids=lambda m: type(m).__name__,
)
def test_it_passes_the_checks_of_river(model: Any) -> None:
    for check in river_checks(model):
        check(model.clone())


def test_copies_go_on_alike() -> None:
    model = KernelCuSumRank(gamma=0.5, budget=20, window=50, averaging=30.0)
    rng = np.random.default_rng(2)
    samples = [(as_dict(x.tolist()), int(np.abs(x[0]) * 2)) for x in rng.normal(size=(160, 2))]
    for x, y in samples[:80]:
        model.learn_one(x, y)
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model]
    for x, y in samples[80:]:
        for twin in twins:
            twin.learn_one(x, y)
    answers = [[twin.predict_proba_one(x) for x, _ in samples] for twin in twins]
    assert answers[0] == answers[1] == answers[2]
    assert model.clone().n_kept == 0


# Random Fourier features --------------------------------------------------------------------------


def test_products_estimate_the_kernel() -> None:
    features = RandomFourierFeatures(20_000, gamma=0.7, seed=3)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    mapped = np.array([list(features.transform_one(as_dict(row)).values()) for row in X.tolist()])
    expected = [[rbf(a, b) for b in X] for a in X]
    np.testing.assert_allclose(mapped @ mapped.T, expected, atol=0.03)


def test_the_seed_decides() -> None:
    x = {"b": 2.0, "a": 1.0, 3: -1.0}
    one = RandomFourierFeatures(16, seed=1)
    assert one.transform_one({"a": 1.0, 3: -1.0, "b": 2.0, "z": 0.0}) == pytest.approx(
        one.transform_one(x), abs=1e-12
    )
    assert RandomFourierFeatures(16, seed=1).transform_one(x) == one.transform_one(x)
    assert RandomFourierFeatures(16, seed=2).transform_one(x) != one.transform_one(x)
    code = (
        "from streamcal.ordinal import RandomFourierFeatures\n"
        "f = RandomFourierFeatures(16, seed=1)\n"
        "print(f.transform_one({'b': 2.0, 'a': 1.0, 3: -1.0}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == one.transform_one(x)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_transform_many_equals_a_loop(frame: Any) -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    features = RandomFourierFeatures(7)
    data = frame({"a": X[:, 0], "b": X[:, 1]})
    mapped: Any = features.transform_many(data)
    assert type(mapped) is type(data)
    assert list(mapped.columns) == [f"rff{i}" for i in range(7)]
    expected = [list(features.transform_one({"a": a, "b": b}).values()) for a, b in X.tolist()]
    np.testing.assert_allclose(mapped.to_numpy(), expected, atol=1e-12)
    with pytest.raises(ValueError, match="`X` must hold finite"):
        features.transform_many(frame({"a": [math.nan]}))
    with pytest.raises(ValueError, match="`x` must hold finite"):
        features.transform_one({"a": math.nan})
    assert len(features.transform_one({})) == 7


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 0},
        {"n_components": None},
        {"gamma": -1.0},
        {"seed": -1},
        {"seed": 0.5},
        {"seed": 1.0},
    ],
)
def test_bad_parameters_of_features(options: Any) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(options))}` must "):
        RandomFourierFeatures(**options)


def test_features_make_a_ring_linear() -> None:
    """Ranks by distance from the origin: no linear learner can separate them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1_500, 2))
    y = np.searchsorted([0.8, 1.4], np.hypot(*X.T))
    plain: Any = CuSumRank(averaging="uniform", margin=1.0)
    lifted: Any = RandomFourierFeatures(200, gamma=0.5) | plain.clone()
    errors = np.zeros(2)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        for i, model in enumerate((plain, lifted)):
            answer = model.predict_one(as_dict(row))
            errors[i] += abs((answer or 0) - label)
            model.learn_one(as_dict(row), label)
    assert errors[1] < 0.35 * errors[0]
