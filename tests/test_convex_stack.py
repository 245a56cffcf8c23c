"""`PAVStack` for losses without a mean."""

import copy
import math
import pickle
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamcal import PAVStack, isotonic_fit, losses
from streamcal.losses import (
    Absolute,
    Expectile,
    Huber,
    LogCosh,
    Lp,
    Pinball,
    PseudoHuber,
    from_function,
)
from streamcal.losses.ranges import Interval, TwoPoint
from tests import named
from tests import oracles_convex as oracles


def softplus(z: Any, y: Any) -> Any:
    return jnp.logaddexp(0.0, -z * y)


def cross_entropy(z: Any, y: Any) -> Any:
    return -y * jnp.log(z) - (1.0 - y) * jnp.log1p(-z)


def quartic(z: Any, y: Any) -> Any:
    return (z - y) ** 4 + (z - y) ** 2


def dead_zone(z: Any, y: Any) -> Any:
    return jnp.maximum(jnp.abs(z - y) - 1.0, 0.0)


def broken(z: Any, y: Any) -> Any:
    return jnp.where(y > 5.0, jnp.nan, 1.0) * (z - y) ** 2


STRICT = [
    Expectile(),
    Expectile(tau=0.8),
    Huber(delta=30.0),  # a square for all labels below
    PseudoHuber(),
    LogCosh(),
    Lp(p=3),
    Lp(p=1.5),
    from_function(quartic),
]
QUANTILES = [Absolute(), Pinball(tau=0.8), Pinball(tau=0.25), Pinball(tau=0.55)]
ALL = [*STRICT, *QUANTILES, Huber(), from_function(dead_zone)]


def values_of(loss: Any, scores: Any, y: Any, w: Any = None, *, many: bool = False) -> Any:
    stack = PAVStack(loss)
    if many:
        stack.push_many(scores, y, w)
    else:
        for sample in zip(scores, y, np.ones(len(y)) if w is None else w, strict=True):
            stack.push(*sample)
    return stack.staircase()(np.unique(scores))


def ties(loss: Any, which: Any) -> Any:
    return Absolute(ties=which) if isinstance(loss, Absolute) else Pinball(tau=loss.tau, ties=which)


@st.composite
def samples(draw: Any, labels: Any, max_size: float = 9) -> tuple[Any, Any, Any]:
    """Non-decreasing scores with ties, labels, weights."""
    n = draw(st.integers(1, max_size))
    scores = sorted(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    y = draw(st.lists(labels, min_size=n, max_size=n))
    w = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5]), min_size=n, max_size=n))
    return scores, y, w


few_labels = st.integers(0, 4).map(float)
any_labels = few_labels | st.floats(-9.0, 9.0).map(lambda y: round(y, 6))


# published numbers


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("loss", "y", "expected"),
    [
        # Busing 2022, the data of its introduction; as isotonic regression packages answer it.
        (Absolute(), [8, 4, 8, 2, 2, 0, 8], [3, 3, 3, 3, 3, 3, 8]),
        (Absolute(ties="lower"), [8, 4, 8, 2, 2, 0, 8], [2, 2, 2, 2, 2, 2, 8]),
        (Absolute(ties="upper"), [8, 4, 8, 2, 2, 0, 8], [4, 4, 4, 4, 4, 4, 8]),
        (Pinball(tau=0.8), [8, 4, 8, 2, 2, 0, 8], [8, 8, 8, 8, 8, 8, 8]),
        (Expectile(tau=0.8), [8, 4, 8, 2, 2, 0, 8], [6, 6, 6, 6, 6, 6, 8]),
        (Absolute(ties="lower"), [9, 1, 8, 2, 7, 3, 6], [1, 1, 2, 2, 3, 3, 6]),
        (Absolute(ties="upper"), [9, 1, 8, 2, 7, 3, 6], [6, 6, 6, 6, 6, 6, 6]),
        # The package `scores`.
        (Absolute(), [1, 2, 3, 0, 5, 4, 1, 7], [1, 2, 2, 2, 4, 4, 4, 7]),
    ],
    ids=str,
)
def test_it_repeats_published_numbers(loss: Any, y: Any, expected: Any, many: bool) -> None:
    found = values_of(loss, np.arange(1, len(y) + 1), y, many=many)
    assert_allclose(found, expected, rtol=1e-14)


# against slow versions


@pytest.mark.parametrize("loss", STRICT, ids=named)
@given(problem=samples(any_labels, max_size=7))
def test_equals_max_min_formula(loss: Any, problem: Any) -> None:
    expected = oracles.max_min(oracles.grouped(*problem), loss)
    for many in (False, True):
        assert_allclose(values_of(loss, *problem, many=many), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("loss", QUANTILES, ids=named)
@given(problem=samples(few_labels, max_size=6))
def test_quantiles_equal_brute_force(loss: Any, problem: Any) -> None:
    tau = loss.tau if isinstance(loss, Pinball) else 0.5
    least, middle, greatest = oracles.quantile_maps(oracles.grouped(*problem), tau)
    for many in (False, True):
        assert_array_equal(values_of(ties(loss, "lower"), *problem, many=many), least)
        assert_array_equal(values_of(ties(loss, "upper"), *problem, many=many), greatest)
        assert_array_equal(values_of(ties(loss, "midpoint"), *problem, many=many), middle)


@pytest.mark.parametrize("loss", [*QUANTILES, Huber(), from_function(dead_zone)], ids=named)
@given(problem=samples(few_labels, max_size=6))
def test_no_map_on_a_grid_is_better(loss: Any, problem: Any) -> None:
    """Also where the best map is not unique."""
    scores, y, w = problem
    at = np.unique(scores, return_inverse=True)[1]
    found = oracles.total_loss(loss, values_of(loss, *problem)[at], y, w)
    grid = np.linspace(0.0, 4.0, 17)
    cost = np.zeros(17)  # the least cost of a map that ends in each value
    for labels, weights in oracles.grouped(*problem):
        here = np.array(weights) @ loss(grid, np.array(labels)[:, None])
        cost = np.minimum.accumulate(cost) + here
    assert found <= cost.min() + 1e-9


@pytest.mark.parametrize("loss", [Expectile(), Lp(p=2), Huber(delta=1e3)], ids=named)
def test_squares_equal_the_mean(loss: Any) -> None:
    rng = np.random.default_rng(0)
    # Enough runs to be pooled all at once; for each number of blocks JAX compiles again.
    x = np.sort(rng.integers(0, 110, 120)).astype(float)
    y, w = x / 40 + rng.normal(size=120), rng.uniform(0.5, 2.0, 120)
    stack = PAVStack(loss)
    stack.push_many(x, y, w)
    stairs, exact = stack.staircase(), isotonic_fit(x, y, w)
    assert_allclose(stairs(x), exact(x), rtol=1e-12, atol=1e-12)
    assert_array_equal(stairs.lower, exact.lower)
    assert_array_equal(stairs.upper, exact.upper)
    for part in ("weights", "centers"):
        assert_allclose(getattr(stairs, part), getattr(exact, part), rtol=1e-12)
    assert len(stack) == len(exact)


@pytest.mark.parametrize("loss", ALL, ids=named)
@given(problem=samples(any_labels, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_push_many_equals_push(loss: Any, problem: Any, cuts: Any) -> None:
    rows = list(zip(*problem, strict=True))
    many = PAVStack(loss)
    for begin, end in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        many.push_many(*np.array(rows[begin:end]).reshape(-1, 3).T)
    assert_allclose(many.staircase()(np.unique(problem[0])), values_of(loss, *problem), atol=1e-9)


# JAX compiles for each power of two up to n; nothing is compiled for quantiles.
@pytest.mark.parametrize(
    ("loss", "n"), [(Huber(), 90), (Pinball(tau=0.3), 300), (Expectile(tau=0.9), 90)], ids=named
)
def test_a_long_stream_gives_the_same_one_by_one_and_at_once(loss: Any, n: int) -> None:
    """Long enough for rounds in which many runs are pooled at once, and for galloping back."""
    rng = np.random.default_rng(1)
    y = np.concatenate([np.arange(2.0 * n / 3), [-50.0], n / 3 + rng.normal(scale=n / 10, size=n)])
    x = np.arange(len(y))
    by_one, at_once = values_of(loss, x, y), values_of(loss, x, y, many=True)
    assert_allclose(by_one, at_once, rtol=1e-12)
    assert (np.diff(by_one) >= 0).all()


# as for means


def test_a_tie_splits_a_block_again() -> None:
    stack = PAVStack("absolute")
    stack.push(1, 1.0)
    stack.push(2, 0.0)
    assert_array_equal(stack.staircase().values, [0.5])
    for _ in range(2):
        stack.push(2, 9.0)
    assert_array_equal(stack.staircase().values, [1.0, 9.0])
    assert len(stack) == 2


@pytest.mark.parametrize("loss", ALL, ids=named)
def test_predicting_changes_nothing(loss: Any) -> None:
    stack = PAVStack(loss, interpolation="step")
    assert len(stack) == 0
    assert stack.predict_one(0.25) == 0.25
    stack.push_many([], [])
    with pytest.raises(ValueError, match="at least one sample, got none"):
        stack.staircase()
    stack.push_many([1, 2, 2, 3, 4], [1.0, 3.0, 2.0, 0.5, 4.0])
    before = pickle.dumps(stack)
    stairs = stack.staircase()
    for x in (0.0, 1.0, 1.5, 2.2, 3.5, 9.0):
        answer = stack.predict_one(x)
        assert type(answer) is float
        assert answer == stairs(x)
    assert len(stack) == len(stairs)
    assert stairs.interpolation == "step"
    assert math.isnan(stack.staircase(outside="nan")(9.0))
    assert pickle.dumps(stack) == before
    assert not jax.config.read("jax_enable_x64")


@pytest.mark.parametrize("n", [0, 1, 15, 200])
def test_pickle_and_deepcopy_go_on_from_where_they_were(n: int) -> None:
    original = PAVStack(Huber(delta=0.2))
    original.push_many(np.arange(n) / 40, np.sin(np.arange(n)))
    for twin in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
        reference = copy.deepcopy(original)
        assert isinstance(twin, PAVStack)
        assert repr(twin) == "PAVStack(loss=Huber(delta=0.2), interpolation='linear')"
        for x, y in ((9.0, 1), (9.0, 0), (9.5, 0), (10.0, 1)):
            twin.push(x, y)
            reference.push(x, y)
            assert twin.predict_one(9.2) == reference.predict_one(9.2)
        assert_array_equal(twin.staircase().values, reference.staircase().values)


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        ((math.nan, 1.0), ValueError, "`score` must be a finite number, got nan"),
        (("4", 1.0), TypeError, "`score` must be a number, got '4'"),
        ((4.0, math.nan), ValueError, r"`y` must lie in \(-inf, inf\) for the huber loss"),
        ((4.0, "1"), TypeError, "`y` must be a number, got '1'"),
        ((4.0, 1.0, 0.0), ValueError, "`w` must be a positive finite number, got 0.0"),
        ((2.999, 1.0), ValueError, "`score` must not be less than the last one, 3.0, got 2.999"),
    ],
)
def test_bad_samples_change_nothing(sample: Any, error: Any, message: str) -> None:
    stack = PAVStack("huber")
    stack.push_many([1, 2, 3], [0, 1, 0])
    before = pickle.dumps(stack)
    with pytest.raises(error, match=message):
        stack.push(*sample)
    with pytest.raises(error):
        stack.push_many(*([part] for part in sample))
    for scores in ([4, 6, 5], [2, 3, 4]):
        with pytest.raises(ValueError, match="must not be less than the last one"):
            stack.push_many(scores, [0, 1, 1])
    assert pickle.dumps(stack) == before


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="`interpolation` must be one of"):
        PAVStack("huber", interpolation="cubic")
    stack = PAVStack("huber")
    stack.push(1, 1)
    with pytest.raises(ValueError, match="`score` must be a finite number"):
        stack.predict_one(math.nan)
    with pytest.raises(ValueError, match="`outside` must be one of"):
        stack.staircase(outside="raise")


# a user's own losses


def test_margins_equal_the_logistic_loss() -> None:
    loss = from_function(softplus, y_range=TwoPoint(-1, 1))
    x, y = np.arange(8), [1, -1, -1, 1, -1, 1, 1, -1]
    exact = isotonic_fit(x, y, loss="logistic")(x)
    assert_allclose(values_of(loss, x, y), np.where(np.isinf(exact), -1e9, exact), atol=1e-9)


def test_range_with_ends() -> None:
    loss = from_function(
        cross_entropy, z_range=Interval(0, 1, False, False), y_range=Interval(0, 1, False, False)
    )
    x, y = np.arange(6), [0.25, 0.5, 0.125, 0.75, 0.625, 0.875]
    assert_allclose(values_of(loss, x, y), isotonic_fit(x, y, loss="log")(x), rtol=1e-6)


@pytest.mark.parametrize("y", [1e-200, 1e-9, 1.0, 1e9, 1e80])
def test_labels_of_any_size(y: float) -> None:
    """Probing for the range, and bisecting, is by exponents."""
    found = values_of(from_function(lambda z, y: (z - y) ** 2), [1, 2], [y, 0.5 * y])
    assert_allclose(found, 0.75 * y, rtol=1e-15)
    assert_allclose(values_of(Expectile(), [1, 2], [-y, -3 * y]), -2 * y, rtol=1e-15)


def test_nan_from_a_loss_changes_nothing() -> None:
    stack = PAVStack(from_function(broken, check=False))
    stack.push(1.0, 2.0)
    before = pickle.dumps(stack)
    with pytest.raises(ValueError, match="`loss` must have a derivative in its whole range"):
        stack.push_many([2.0, 3.0], [6.0, 1.0])
    assert pickle.dumps(stack) == before
    assert losses.get(stack.loss).name == "function"


def test_a_sample_without_a_derivative_is_refused_at_once() -> None:
    """One that nothing is pooled with yet would poison the stack if it were kept."""
    broken = losses.from_function(
        lambda z, y: jnp.where(y > 100.0, jnp.nan, 1.0) * (z - y) ** 2, check=False
    )
    stack = PAVStack(broken)
    stack.push(1.0, 3.0)
    with pytest.raises(ValueError, match="derivative"):
        stack.push(2.0, 200.0)
    stack.push(2.0, 5.0)
    np.testing.assert_allclose(stack.staircase().values, [3.0, 5.0])
