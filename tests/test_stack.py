import copy
import math
import pickle
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamcal import PAVStack, isotonic_fit, losses
from tests import oracles
from tests.test_staircase import INTERPOLATIONS, LOSSES, assert_same_map, problems

# Gokcesu & Gokcesu, section V: unit weights, squared loss, the n-th score is n. Value and number of
# samples of each block after each arrival; the paper prints those after 8, 11, 13 and 15.
WORKED_EXAMPLE = [
    (44, [(44, 1)]),
    (52, [(44, 1), (52, 1)]),
    (18, [(38, 3)]),
    (14, [(32, 4)]),
    (93, [(32, 4), (93, 1)]),
    (37, [(32, 4), (65, 2)]),
    (96, [(32, 4), (65, 2), (96, 1)]),
    (8, [(32, 4), (58.5, 4)]),
    (1, [(32, 4), (47, 5)]),
    (95, [(32, 4), (47, 5), (95, 1)]),
    (21, [(32, 4), (47, 5), (58, 2)]),
    (77, [(32, 4), (47, 5), (58, 2), (77, 1)]),
    (46, [(32, 4), (47, 5), (58, 2), (61.5, 2)]),
    (36, [(32, 4), (47, 5), (55, 5)]),
    (69, [(32, 4), (47, 5), (55, 5), (69, 1)]),
]


def state_of(stack: Any) -> Any:
    return pickle.dumps(stack)


def test_worked_example_after_every_arrival() -> None:
    stack = PAVStack()
    for n, (label, blocks) in enumerate(WORKED_EXAMPLE, start=1):
        stack.push(n, label)
        stairs = stack.staircase()
        assert list(zip(stairs.values, stairs.weights, strict=True)) == blocks
        labels = [y for y, _ in WORKED_EXAMPLE[:n]]
        exact = oracles.isotonic_blocks(range(1, n + 1), labels)
        assert [(b.value, b.weight) for b in exact] == blocks
        assert_array_equal(stairs.lower, [b.lower for b in exact])
        assert_array_equal(stairs.upper, [b.upper for b in exact])
        assert_array_equal(stairs.centers, [b.center for b in exact])
        assert len(stack) == len(stairs) == len(blocks)


@given(problems(max_size=15))
def test_exact_after_every_arrival(problem: Any) -> None:
    *samples, loss = problem
    stack = PAVStack(loss)
    pushed = []
    for sample in sorted(zip(*samples, strict=True)):
        stack.push(*sample)
        pushed.append(sample)
        stairs = stack.staircase()
        assert_same_map(stairs, oracles.isotonic_blocks(*zip(*pushed, strict=True), loss), loss)
        assert len(stack) == len(stairs)


@given(problems(losses.Log(), max_size=40))
def test_ties_undo_pooling(problem: Any) -> None:
    """Many samples at few scores: a tie may raise a mean that has been pooled already."""
    scores, y, w, loss = problem
    stack = PAVStack(loss)
    rows = sorted((x % 3 // 1, i) for i, x in enumerate(scores))
    pushed = [(x, y[i], w[i]) for x, i in rows]
    for n, sample in enumerate(pushed, start=1):
        stack.push(*sample)
        exact = oracles.isotonic_blocks(*zip(*pushed[:n], strict=True), loss)
        assert_same_map(stack.staircase(), exact, loss)


def test_a_tie_splits_a_block_again() -> None:
    stack = PAVStack()
    stack.push(1, 1.0)
    stack.push(2, 0.0)
    assert_array_equal(stack.staircase().values, [0.5])
    assert stack.predict_one(1) == 0.5
    stack.push(2, 9.0)
    assert_array_equal(stack.staircase().values, [1.0, 4.5])
    assert stack.predict_one(1) == 1.0
    assert len(stack) == 2


@given(problems(max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_push_many_equals_push(problem: Any, cuts: Any) -> None:
    *samples, loss = problem
    rows = sorted(zip(*samples, strict=True))
    one, many = PAVStack(loss), PAVStack(loss)
    for row in rows:
        one.push(*row)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for begin, end in pairwise(bounds):
        part = np.array(rows[begin:end]).reshape(-1, 3)
        many.push_many(*part.T)
    exact = oracles.isotonic_blocks(*zip(*rows, strict=True), loss)
    assert_same_map(one.staircase(), exact, loss)
    assert_same_map(many.staircase(), exact, loss)


@pytest.mark.parametrize("n_scores", [50, 100_000])
def test_long_streams_equal_the_batch(n_scores: int) -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    x = np.sort(rng.integers(0, n_scores, n)).astype(float)
    y, w = (rng.random(n) < x / n_scores).astype(float), rng.integers(1, 4, n).astype(float)
    one, many = PAVStack("log"), PAVStack("log")
    for row in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
        one.push(*row)
    for part in np.array_split(np.arange(n), 3):
        many.push_many(x[part], y[part], w[part])
    batch = isotonic_fit(x, y, w, loss="log")
    for stairs in (one.staircase(), many.staircase()):
        for name in ("lower", "upper", "values", "weights"):
            assert_array_equal(getattr(stairs, name), getattr(batch, name))
        assert_allclose(stairs.centers, batch.centers, rtol=1e-12)


def test_memory_follows_the_blocks_not_the_samples() -> None:
    stack = PAVStack()
    stack.push_many(np.arange(200_000), np.arange(200_000)[::-1])
    assert len(stack) == 1
    assert len(state_of(stack)) < 2_000
    assert sys.getsizeof(stack._blocks._stack) < 1_000_000
    stack.push_many(np.arange(200_000, 300_000), np.arange(200_000, 300_000))
    assert len(stack) == 100_001
    assert sys.getsizeof(stack._blocks._stack) <= 2.1 * 48 * len(stack)


@given(problems(), st.sampled_from(INTERPOLATIONS))
def test_predict_one_equals_the_staircase(problem: Any, interpolation: Any) -> None:
    *samples, loss = problem
    stack = PAVStack(loss, interpolation=interpolation)
    for row in sorted(zip(*samples, strict=True)):
        stack.push(*row)
        before = state_of(stack)
        stairs = stack.staircase()
        knots = np.unique([stairs.lower, stairs.upper, stairs.centers])
        x = np.concatenate([knots, knots + 0.3, knots - 1e-7, [knots[0] - 9, knots[-1] + 9]])
        answers = [stack.predict_one(at) for at in x.tolist()]
        assert all(type(answer) is float for answer in answers)
        assert_allclose(answers, stairs(x), rtol=1e-12, atol=1e-12)
        assert state_of(stack) == before


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_before_the_first_sample(loss: Any) -> None:
    stack = PAVStack(loss)
    assert len(stack) == 0
    for x in (-2.5, 0.0, 0.3, 7.5):
        answer = stack.predict_one(x)
        assert answer in loss.z_range
        assert answer == x or x not in loss.z_range
    with pytest.raises(ValueError, match="at least one sample, got none"):
        stack.staircase()
    stack.push_many([], [])
    assert len(stack) == 0


def test_staircase_is_a_copy() -> None:
    stack = PAVStack()
    stack.push_many([1, 2, 3], [1, 3, 2])
    stairs = stack.staircase(outside="nan")
    assert math.isnan(stairs(4))
    stack.push(4, 0)
    assert_array_equal(stairs.values, [1, 2.5])
    assert_array_equal(stack.staircase().values, [1, 5 / 3])


@pytest.mark.parametrize("n", [0, 1, 15, 40])
def test_pickle_and_deepcopy_go_on_from_where_they_were(n: int) -> None:
    original = PAVStack("log", interpolation="step")
    original.push_many(np.arange(n) / 40, np.arange(n) % 3 == 0)
    for twin in (pickle.loads(pickle.dumps(original)), copy.deepcopy(original)):
        reference = copy.deepcopy(original)
        assert repr(twin) == "PAVStack(loss='log', interpolation='step')"
        for x, y in ((1.0, 1), (1.0, 0), (1.5, 0), (2.0, 1)):
            twin.push(x, y)
            reference.push(x, y)
            assert twin.predict_one(1.2) == reference.predict_one(1.2)
        assert_array_equal(twin.staircase().values, reference.staircase().values)
        assert len(original) <= n


@pytest.mark.parametrize("y", [True, np.True_, 1, np.int64(1), np.float32(1)])
def test_labels_and_numbers_of_any_type(y: Any) -> None:
    stack = PAVStack("log")
    stack.push(np.float32(0.5), y, np.int8(2))
    stack.push(1, y)
    assert_array_equal(stack.staircase().values, [1.0])
    assert_array_equal(stack.staircase().weights, [3.0])


BAD = [
    ((math.nan, 1.0), ValueError, "`score` must be a finite number, got nan"),
    ((math.inf, 1.0), ValueError, "`score` must be a finite number, got inf"),
    (("4", 1.0), TypeError, "`score` must be a number, got '4'"),
    ((None, 1.0), TypeError, "`score` must be a number, got None"),
    ((4.0, 1.5), ValueError, r"`y` must lie in \[0, 1\] for the log loss, got 1.5"),
    ((4.0, math.nan), ValueError, "`y` must lie in"),
    ((4.0, "1"), TypeError, "`y` must be a number, got '1'"),
    ((4.0, 1.0, 0.0), ValueError, "`w` must be a positive finite number, got 0.0"),
    ((4.0, 1.0, -1), ValueError, "`w` must be a positive finite number, got -1.0"),
    ((4.0, 1.0, math.nan), ValueError, "`w` must be a positive finite number, got nan"),
    ((4.0, 1.0, math.inf), ValueError, "`w` must be a positive finite number, got inf"),
    ((4.0, 1.0, "2"), TypeError, "`w` must be a number, got '2'"),
    ((4.0, 1.0, 1e61), ValueError, "`w` must be from 1e-60 to 1e\\+60, got 1e\\+61"),
    ((2.999, 1.0), ValueError, "`score` must not be less than the last one, 3.0, got 2.999; .*Iso"),
]


@pytest.mark.parametrize(("sample", "error", "message"), BAD)
def test_bad_samples_change_nothing(sample: Any, error: Any, message: Any) -> None:
    stack = PAVStack("log")
    stack.push_many([1, 2, 3], [0, 1, 0], [1e60, 1e60, 1e60])
    before = state_of(stack)
    with pytest.raises(error, match=message):
        stack.push(*sample)
    assert state_of(stack) == before


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (([4, math.nan], [0, 1]), "`scores` must be finite, got nan at position 1"),
        (([4, 5], [0, 2]), r"`y` must lie in \[0, 1\] .* at position 1"),
        (([4, 5], [0, 1], [1, 0]), "`w` must be a positive finite number, got 0.0 at position 1"),
        (([4, 5], [0]), "`y` must have one value per score"),
        (([4, 6, 5], [0, 1, 1]), "not be less than the last one, 6.0, got 5.0 at position 2; Iso"),
        (([2, 3], [0, 1]), "not be less than the last one, 3.0, got 2.0 at position 0; Iso"),
        (
            ([4, 5], [0, 1], [1, 1e61]),
            "`w` must be from 1e-60 to 1e\\+60, got 1e\\+61 at position 1",
        ),
    ],
)
def test_bad_arrays_change_nothing(samples: Any, message: str) -> None:
    stack = PAVStack("log")
    stack.push_many([1, 2, 3], [0, 1, 0])
    before = state_of(stack)
    with pytest.raises(ValueError, match=message):
        stack.push_many(*samples)
    assert state_of(stack) == before


def test_sums_that_overflow_change_nothing() -> None:
    stack = PAVStack("squared")
    stack.push(1.0, 1.7e308)
    before = state_of(stack)
    with pytest.raises(ValueError, match="small enough for finite sums"):
        stack.push(2.0, 1.7e308)
    with pytest.raises(ValueError, match="small enough for finite sums"):
        stack.push_many([2.0, 3.0], [-1.7e308, 1.7e308])
    assert state_of(stack) == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "hinge"}, ValueError, "`loss` must be one of"),
        ({"loss": 3}, TypeError, "`loss` must be a name or a Loss"),
        ({"interpolation": "cubic"}, ValueError, "`interpolation` must be one of"),
    ],
)
def test_bad_options_are_refused(options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        PAVStack(**options)


def test_a_bad_score_is_refused() -> None:
    stack = PAVStack()
    stack.push(1, 1)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="`score` must be a finite number"):
            stack.predict_one(bad)
    with pytest.raises(ValueError, match="`outside` must be one of"):
        stack.staircase(outside="raise")
