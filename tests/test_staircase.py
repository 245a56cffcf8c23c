import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from streamcal import Staircase, isotonic_fit, losses
from streamcal.losses.ranges import TwoPoint
from tests import oracles

INTERPOLATIONS = ("step", "linear")
LOSSES = [
    losses.Squared(),
    losses.Log(),
    losses.Poisson(),
    losses.Gamma(),
    losses.Tweedie(power=1.2),
    losses.Logistic(),
    losses.Exponential(),
    losses.Linex(a=0.7),
]


def labels_of(loss: Any) -> Any:
    if isinstance(loss.y_range, TwoPoint):
        return st.sampled_from([-1.0, 1.0])
    low, high = max(loss.y_range.low, -10.0), min(loss.y_range.high, 10.0)
    # Few distinct labels make equal means, any labels make rounding. Sums of subnormal numbers have
    # no precision to speak of, so that labels are zero or not that close to it.
    few = st.sampled_from([y for y in (0.0, 0.25, 1.0, 3.0, -2.0) if y in loss.y_range])
    return few | st.floats(low, high).map(lambda y: round(y, 9)).filter(loss.y_range.__contains__)


weights = st.sampled_from([1.0, 2.0, 0.1]) | st.integers(-12, 12).map(lambda k: 10.0**k)
scores = st.integers(0, 8).map(float) | st.floats(-1e6, 1e6)


@st.composite
def problems(draw: Any, loss: Any = None, max_size: float = 25) -> tuple[Any, ...]:
    """(scores in any order, labels, weights, loss)."""
    loss = draw(st.sampled_from(LOSSES)) if loss is None else loss
    samples = st.tuples(scores, labels_of(loss), weights)
    return (*zip(*draw(st.lists(samples, min_size=1, max_size=max_size)), strict=True), loss)


def assert_same_map(stairs: Any, blocks: Any, loss: Any) -> None:
    """Equal values at every learned score; blocks may differ where means differ by rounding."""
    ends = np.array([(b.lower, b.upper) for b in blocks])
    expected = np.array([b.value for b in blocks])
    # Rounding of a mean is relative to the largest statistic; the link may stretch what is left.
    means, exact = (
        loss.inverse_link(stairs(ends)),
        loss.inverse_link(np.column_stack([expected] * 2)),
    )
    assert_allclose(means, exact, rtol=1e-11, atol=1e-12 * max(1.0, np.abs(exact).max()))
    assert stairs.lower[0] == ends[0, 0]
    assert stairs.upper[-1] == ends[-1, 1]


# the fit


@given(problems())
def test_equals_exact_arithmetic(problem: Any) -> None:
    *samples, loss = problem
    stairs = isotonic_fit(*samples, loss=loss)
    blocks = oracles.isotonic_blocks(*samples, loss)
    assert_same_map(stairs, blocks, loss)
    assert_allclose(stairs.weights.sum(), math.fsum(samples[2]), rtol=1e-12)
    if len(stairs) == len(blocks):
        assert_allclose(stairs.centers, [b.center for b in blocks], rtol=1e-9, atol=1e-9)


@given(problems(max_size=7))
def test_oracle_equals_max_min_formula(problem: Any) -> None:
    *samples, loss = problem
    blocks = oracles.isotonic_blocks(*samples, loss)
    expected = oracles.isotonic_max_min(*samples, loss)
    assert [oracles.evaluate(blocks, x) for x in sorted(set(samples[0]))] == expected


@given(problems(losses.Squared()))
def test_it_equals_the_regression_of_scipy(problem: Any) -> None:
    x, y, w, _ = (np.array(part) for part in problem)
    order = np.argsort(x, kind="stable")
    x, first = np.unique(x[order], return_index=True)
    weight = np.add.reduceat(w[order], first)
    mean = np.add.reduceat((w * y)[order], first) / weight
    expected = isotonic_regression(mean, weights=weight).x
    assert_allclose(isotonic_fit(*problem[:3])(x), expected, rtol=1e-9, atol=1e-9)


@given(problems())
def test_is_a_staircase(problem: Any) -> None:
    *samples, loss = problem
    stairs = isotonic_fit(*samples, loss=loss)
    learned = np.unique(samples[0])
    assert (np.diff(stairs.values) >= 0).all()
    assert (np.diff(loss.inverse_link(stairs.values)) >= 0).all()
    assert (stairs.lower <= stairs.centers).all()
    assert (stairs.centers <= stairs.upper).all()
    assert (stairs.upper[:-1] < stairs.lower[1:]).all()
    inside = (stairs.lower <= learned[:, None]) & (learned[:, None] <= stairs.upper)
    assert (inside.sum(axis=1) == 1).all()
    if type(loss).link is losses.MeanLoss.link:
        assert (np.diff(stairs.values) > 0).all()
        assert stairs.values[0] >= min(samples[1]) - 1e-12
        assert stairs.values[-1] <= max(samples[1]) + 1e-12


@given(problems(losses.Squared(), max_size=12), st.randoms(use_true_random=False))
def test_order_of_samples_does_not_matter(problem: Any, random: Any) -> None:
    *samples, _ = problem
    # Weights and labels whose sums are exact, so that no order of addition differs.
    x, y, w = map(np.array, samples)
    y, w = np.round(y), np.ceil(np.minimum(w, 9.0))
    first = isotonic_fit(x, y, w)
    order = random.sample(range(len(x)), len(x))
    again = isotonic_fit(x[order], y[order], w[order])
    for name in ("lower", "upper", "values", "weights"):
        assert_array_equal(getattr(first, name), getattr(again, name))


@given(problems())
def test_fitted_value_of_each_block_minimises_its_loss(problem: Any) -> None:
    """No common value nearby does better than the block's own."""
    x, y, w = map(np.array, problem[:3])
    loss = problem[3]
    w = np.clip(w, 1e-3, 1e3)  # a margin is blind to the difference of a mean from 1 below 1e-16
    stairs = isotonic_fit(x, y, w, loss=loss)
    for lower, upper, value in zip(stairs.lower, stairs.upper, stairs.values, strict=True):
        if not math.isfinite(value):
            continue
        mine = (lower <= x) & (x <= upper)
        for other in (loss.z_range.clip(value - 0.1), loss.z_range.clip(value + 0.1)):
            here, there = (w[mine] @ loss(z, y[mine]) for z in (value, other))
            assert here <= there + 1e-9 * abs(there)


@pytest.mark.parametrize(
    ("y", "w", "expected"),
    [
        # Busing 2022, section 2
        ([8, 4, 8, 2, 2, 0, 8], None, [4] * 6 + [8]),
        ([8, 4, 8, 2, 2, 0, 8], [1, 2, 3, 4, 5, 5, 4], [2.9] * 6 + [8]),
        # R package monotone, example
        ([0, 6, 8, 3, 5, 2, 1, 7, 9, 4], None, [0] + [25 / 6] * 6 + [20 / 3] * 3),
        # scikit-learn, test_isotonic.py
        ([5, 3, 1, 2, 8, 10, 7, 9, 6, 4], None, [2.75] * 4 + [22 / 3] * 6),
        ([1, 41, 51, 1, 2, 5, 24], [1, 2, 3, 4, 5, 6, 7], [1] + [13.95] * 5 + [24]),
        ([3, 7, 5, 9, 8, 7, 10], None, [3, 6, 6, 8, 8, 8, 10]),
        # Gokcesu & Gokcesu, the worked example
        (
            [44, 52, 18, 14, 93, 37, 96, 8, 1, 95, 21, 77, 46, 36, 69],
            None,
            [32] * 4 + [47] * 5 + [55] * 5 + [69],
        ),
    ],
)
def test_it_repeats_published_cases(y: Any, w: Any, expected: Any) -> None:
    x = np.arange(len(y))
    assert_allclose(isotonic_fit(x, y, w)(x), expected, rtol=1e-7)
    backwards = isotonic_fit(x[::-1], y[::-1], None if w is None else w[::-1])
    assert_allclose(backwards(x), expected, rtol=1e-7)


def test_published_case_with_ties() -> None:
    """R package isotone, secondary approach to ties."""
    x = [0, 1, 1, 2, 3, 4]
    stairs = isotonic_fit(x, [0, 0, 1, 0, 0, 1])
    assert_allclose(stairs(x), [0, 0.25, 0.25, 0.25, 0.25, 1])
    assert_array_equal(stairs.weights, [1, 4, 1])


def test_ties_are_one_sample_before_anything_is_pooled() -> None:
    """Were the two samples at 2 pooled in turn, the first would drag the sample at 1 with it."""
    stairs = isotonic_fit([1, 2, 2], [1.0, 0.0, 9.0])
    assert_array_equal(stairs.values, [1.0, 4.5])


def test_equal_means_are_one_block() -> None:
    stairs = isotonic_fit([1, 2, 3, 4], [1, 1, 2, 2])
    assert_array_equal(stairs.values, [1, 2])
    assert_array_equal(stairs.upper, [2, 4])
    assert len(isotonic_fit(np.arange(99), np.full(99, 0.25), np.tile([1, 2, 5], 33))) == 1


def test_one_sample_is_one_block() -> None:
    stairs = isotonic_fit([2.5], [1], [3], loss="log")
    assert (len(stairs), stairs.lower[0], stairs.upper[0], stairs.centers[0]) == (1, 2.5, 2.5, 2.5)
    assert stairs.weights[0] == 3
    for how in INTERPOLATIONS:
        assert_array_equal(stairs([-9.0, 2.5, 9.0], interpolation=how), [1, 1, 1])


def test_samples_of_one_score_are_one_block() -> None:
    stairs = isotonic_fit([7] * 4, [0, 1, 1, 1], loss="log")
    assert_array_equal(stairs.values, [0.75])
    assert stairs(7) == 0.75


@pytest.mark.parametrize("n", [2, 17, 1000])
def test_monotone_and_antitone_labels(n: int) -> None:
    x, y = np.arange(n), np.arange(n) / n
    assert_array_equal(isotonic_fit(x, y).values, y)
    falling = isotonic_fit(x, y[::-1])
    assert_allclose(falling.values, [y.mean()])
    assert_array_equal([falling.lower[0], falling.upper[0]], [0, n - 1])


def test_pure_margins_are_infinite_and_never_nan() -> None:
    stairs = isotonic_fit([1, 2, 3, 4], [-1, 1, -1, 1], loss="logistic")
    assert_array_equal(stairs.values, [-math.inf, 0.0, math.inf])
    for how in INTERPOLATIONS:
        answers = stairs(np.linspace(0, 5, 101), interpolation=how)
        assert not np.isnan(answers).any()
        assert (np.diff(np.nan_to_num(answers)) >= 0).all()
    assert_array_equal(stairs([1.5, 3.5], interpolation="linear"), [0.0, 0.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.tolist(),
        lambda a: tuple(a.tolist()),
        lambda a: a.astype(np.float32),
        lambda a: a.astype(int),
        lambda a: np.repeat(a, 2)[::2],
        lambda a: a[::-1].copy()[::-1],
        lambda a: np.frombuffer(a.tobytes()),  # read-only
        lambda a: np.broadcast_to(a, (3, len(a)))[1],
    ],
)
def test_any_vector_of_numbers_will_do(make: Any) -> None:
    x, y, w = np.array([[1.0, 2, 2, 4, 5], [0, 1, 0, 0, 1], [1, 2, 3, 1, 1]])
    expected = isotonic_fit(x, y, w)
    stairs = isotonic_fit(make(x), make(y), make(w))
    assert_array_equal(stairs.values, expected.values)
    assert_array_equal(stairs(make(x)), expected(x))


def test_booleans_are_labels() -> None:
    assert_array_equal(isotonic_fit([1, 2], [False, True], loss="log").values, [0, 1])


def test_input_is_left_alone() -> None:
    x, y, w = np.array([[3.0, 1, 2, 2], [0, 1, 0, 1], [1, 1, 2, 2]])
    copies = x.copy(), y.copy(), w.copy()
    isotonic_fit(x, y, w)
    order = np.argsort(x)
    isotonic_fit(x[order], y[order], w[order])
    for array, copy in zip((x, y, w), copies, strict=True):
        assert_array_equal(array, copy)


def test_large_input_equals_scipy() -> None:
    rng = np.random.default_rng(0)
    n = 20_000
    x, y = rng.permutation(n).astype(float), rng.normal(size=n)
    w = rng.uniform(0.5, 2.0, n)
    expected = np.empty(n)
    order = np.argsort(x)
    expected[order] = isotonic_regression(y[order], weights=w[order]).x
    assert_allclose(isotonic_fit(x, y, w)(x), expected, rtol=0, atol=1e-11)


def test_integer_sums_are_exact() -> None:
    """The means of blocks are correctly rounded quotients of exact sums."""
    rng = np.random.default_rng(1)
    x, y, w = rng.integers(0, 300, 5000), rng.integers(0, 2, 5000), rng.integers(1, 1000, 5000)
    stairs = isotonic_fit(x, y, w)
    for lower, upper, value in zip(stairs.lower, stairs.upper, stairs.values, strict=True):
        mine = (lower <= x) & (x <= upper)
        assert value == int(w[mine] @ y[mine]) / int(w[mine].sum())
    assert (np.diff(stairs.values) > 0).all()


def test_centers_of_huge_or_close_scores_stay_in_their_blocks() -> None:
    huge = isotonic_fit([-1.7e308, 1.6e308, 1.7e308], [1, 0, 0], [1.0, 2.0, 8.0])
    assert huge.lower[0] <= huge.centers[0] <= huge.upper[0]
    x = 1e9 + np.arange(7) * 2.0**-23
    close = isotonic_fit(x, np.arange(7)[::-1], np.full(7, 0.1))
    assert close.lower[0] <= close.centers[0] <= close.upper[0]


# bad input


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (([], []), "`scores` must hold at least one score"),
        (([1, math.nan], [0, 1]), "`scores` must be finite, got nan at position 1"),
        (([math.inf], [0]), "`scores` must be finite, got inf at position 0"),
        (([2, 1, -math.inf], [0, 1, 1]), "`scores` must be finite, got -inf at position 2"),
        (([1, 2], [0, 1.5]), r"`y` must lie in \[0, 1\] for the log loss, got 1.5 at position 1"),
        (([1, 2], [math.nan, 1]), r"`y` must lie in .* got nan at position 0"),
        (([1, 2], [0]), r"`y` must have one value per score \(2\), got 1"),
        (([1, 2], [0, 1], [1]), r"`w` must have one value per score \(2\), got 1"),
        (([1, 2], [0, 1], [1, 0]), "`w` must be a positive finite number, got 0.0 at position 1"),
        (([1, 2], [0, 1], [1, -1]), "`w` must be a positive finite number, got -1.0 at position 1"),
        (([1, 2], [0, 1], [math.nan, 1]), "`w` must be a positive finite number, got nan"),
        (([1, 2], [0, 1], [1, math.inf]), "`w` must be a positive finite number, got inf"),
        (([1, 2], [1, 0], [1, 1e-61]), "`w` must be from 1e-60 to 1e\\+60, got 1e-61"),
        (([[1, 2]], [[0, 1]]), r"`scores` must be one-dimensional, got shape \(1, 2\)"),
    ],
)
def test_bad_values_are_refused(samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isotonic_fit(*samples, loss="log")


@pytest.mark.parametrize("samples", [(["a"], [1]), ([1], ["1"]), ([1], [1], [None]), ([1j], [1])])
def test_bad_types_are_refused(samples: Any) -> None:
    with pytest.raises(TypeError, match="must hold real numbers"):
        isotonic_fit(*samples)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"interpolation": "cubic"}, "`interpolation` must be one of .*, got 'cubic'"),
        ({"outside": "raise"}, "`outside` must be one of 'clip', 'nan', got 'raise'"),
        ({"loss": "brier"}, "`loss` must be one of 'squared', .*, got 'brier'"),
    ],
)
def test_bad_options_are_refused(option: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isotonic_fit([1, 2], [0, 1], **option)
    if "loss" not in option:
        with pytest.raises(ValueError, match=message):
            isotonic_fit([1, 2], [0, 1])(1.0, **option)


# evaluation


def four_blocks(**options: Any) -> Any:
    return Staircase(
        lower=[1.0, 4.0, 8.0, 9.0],
        upper=[3.0, 6.0, 8.0, 13.0],
        values=[0.0, 0.2, 0.6, 1.0],
        weights=[3.0, 2.0, 1.0, 4.0],
        centers=[2.0, 5.0, 8.0, 10.0],
        **options,
    )


@pytest.mark.parametrize(
    ("interpolation", "x", "expected"),
    [
        ("step", [0, 1, 2, 3, 3.5, 3.999], [0, 0, 0, 0, 0, 0]),
        ("step", [4, 6, 7, 7.999, 8, 8.5], [0.2, 0.2, 0.2, 0.2, 0.6, 0.6]),
        ("step", [9, 13, 14, 1e300], [1, 1, 1, 1]),
        ("linear", [0, 1, 3, 3.5, 4, 6], [0, 0, 0, 0.1, 0.2, 0.2]),
        ("linear", [6.5, 7, 8, 8.25, 9, 20], [0.3, 0.4, 0.6, 0.7, 1, 1]),
    ],
)
def test_values_worked_by_hand(interpolation: str, x: Any, expected: Any) -> None:
    stairs = four_blocks()
    assert_allclose(stairs(x, interpolation=interpolation), expected, rtol=1e-14, atol=1e-15)
    assert_allclose(four_blocks(interpolation=interpolation)(x), expected, rtol=1e-14, atol=1e-15)


def test_outside_the_range_values_are_clipped_or_nan() -> None:
    for stairs, option in ((four_blocks(), "nan"), (four_blocks(outside="nan"), None)):
        for how in INTERPOLATIONS:
            answer = stairs([0.999, 1, 13, 13.001], interpolation=how, outside=option)
            assert_array_equal(np.isnan(answer), [True, False, False, True])
    clipped = four_blocks(outside="nan")([-math.inf, 0.0, 99.0, math.inf], outside="clip")
    assert_array_equal(clipped, [0, 0, 1, 1])


@given(problems(), st.sampled_from(INTERPOLATIONS), st.sampled_from(["clip", "nan"]))
def test_evaluation_equals_a_walk_over_the_blocks(
    problem: Any, interpolation: Any, outside: str
) -> None:
    *samples, loss = problem
    stairs = isotonic_fit(*samples, loss=loss, interpolation=interpolation, outside=outside)
    if not np.isfinite(stairs.values).all():
        return
    rows = (stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers)
    blocks = [oracles.Block(*row) for row in zip(*(r.tolist() for r in rows), strict=True)]
    knots = np.unique(np.concatenate([stairs.lower, stairs.upper, stairs.centers]))
    ends = [knots[0] - 1, knots[-1] + 1]
    x = np.concatenate([knots, 0.3 * knots[1:] + 0.7 * knots[:-1], ends])
    expected = [oracles.evaluate(blocks, at, interpolation, outside) for at in x]
    assert_allclose(stairs(x), expected, rtol=1e-9, atol=1e-12)


@given(problems(losses.Squared()), st.booleans())
def test_evaluation_equals_scikit_learn(problem: Any, clip: bool) -> None:
    """Whose IsotonicRegression interpolates linearly between learned scores."""
    x, y, w, _ = (np.array(part) for part in problem)
    # It pools scores that are close, and does not interpolate a single one.
    x, w = np.round(x), np.clip(w, 1e-2, 1e2)
    assume(len(set(x)) > 1)
    theirs = IsotonicRegression(out_of_bounds="clip" if clip else "nan").fit(x, y, sample_weight=w)
    ours = isotonic_fit(x, y, w, outside="clip" if clip else "nan")
    at = np.concatenate([x, x + 0.3, [x.min() - 1, x.max() + 1]])
    assert_allclose(ours(at), theirs.predict(at), rtol=1e-6, atol=1e-6)


@given(problems(), st.sampled_from(INTERPOLATIONS))
def test_evaluation_is_monotone(problem: Any, interpolation: Any) -> None:
    *samples, loss = problem
    stairs = isotonic_fit(*samples, loss=loss)
    span = np.linspace(min(samples[0]) - 1, max(samples[0]) + 1, 200)
    ends = [np.nextafter(stairs.lower, -math.inf), np.nextafter(stairs.upper, math.inf)]
    x = np.sort(np.concatenate([span, samples[0], *ends]))
    values = stairs(x, interpolation=interpolation)
    assert not np.isnan(values).any()
    assert (values[1:] >= values[:-1]).all()
    assert values.min() >= stairs.values[0]
    assert values.max() <= stairs.values[-1]


def test_shapes_and_types() -> None:
    stairs = four_blocks()
    for scalar in (3.5, 4, np.float64(3.5), np.float32(3.5), np.array(3.5), True):
        assert type(stairs(scalar)) is float
    assert stairs([]).shape == (0,)
    assert stairs([[3.5], [7.0]]).shape == (2, 1)
    assert_allclose(stairs([[3.5], [7.0]]), [[0.1], [0.4]])
    assert stairs(np.arange(6, dtype=np.int8).reshape(2, 3)).shape == (2, 3)
    assert math.isnan(stairs(math.nan))
    assert_array_equal(stairs([math.nan, 5.0]), [math.nan, 0.2])
    with pytest.raises(TypeError, match="`scores` must hold real numbers"):
        stairs(["0.5"])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_anchors_at_infinity_give_their_block_its_value(interpolation: Any) -> None:
    """As a prior's pseudo-samples below and above all scores do."""
    inf = math.inf
    stairs = Staircase(
        lower=[-inf, 3.0],
        upper=[1.0, inf],
        values=[0.2, 0.8],
        weights=[2.0, 2.0],
        centers=[0.5, 4.0],
        interpolation=interpolation,
    )
    answers = stairs([-inf, -1e300, 0.0, 1e300, inf])
    assert_array_equal(answers, [0.2, 0.2, 0.2, 0.8, 0.8])
    middle = {"step": 0.2, "linear": 0.5}
    assert stairs(2.0) == pytest.approx(middle[interpolation])


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_blocks_of_an_anchor_alone(interpolation: Any) -> None:
    inf = math.inf
    ends = [-inf, 1.0, inf]
    stairs = Staircase(ends, ends, [0.0, 0.5, 1.0], [1.0] * 3, ends, interpolation)
    answers = stairs([-inf, -5.0, 1.0, 5.0, inf])
    below = 0.0 if interpolation == "step" else 0.5
    assert_array_equal(answers, [0.0, below, 0.5, 0.5, 1.0])


def test_gaps_wider_than_floats_reach() -> None:
    stairs = isotonic_fit([-1.7e308, 1.7e308], [-1.0, 3.0])
    assert stairs(0.0) == 1.0
    values = isotonic_fit([0.0, 1.0], [-1.7e308, 1.7e308])
    assert values(0.5) == 0.0
    assert values(1.0) == 1.7e308


# the object


def test_arrays_are_read_only_and_copied() -> None:
    values = np.array([0.0, 1.0])
    stairs = Staircase([1.0, 2.0], [1.0, 2.0], values, [1.0, 1.0], [1.0, 2.0])
    values[0] = 0.5
    assert stairs.values[0] == 0.0
    for made in (stairs, isotonic_fit([1, 2], [0, 1]), pickle.loads(pickle.dumps(stairs))):
        for name in ("lower", "upper", "values", "weights", "centers"):
            assert getattr(made, name).dtype == np.float64
            with pytest.raises(ValueError, match="read-only"):
                getattr(made, name)[0] = 0.25


def test_pickle_and_repr() -> None:
    stairs = four_blocks(interpolation="step", outside="nan")
    copy = pickle.loads(pickle.dumps(stairs))
    assert_array_equal(copy(np.arange(15.0)), stairs(np.arange(15.0)))
    assert (copy.interpolation, copy.outside) == ("step", "nan")
    assert repr(copy) == "Staircase(n_blocks=4, range=[0.0, 1.0])"
    assert len(copy) == 4


GOOD = {"lower": [1, 3], "upper": [2, 4], "values": [0, 1], "weights": [1, 1], "centers": [1, 4]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": [0]}, r"`values` must have one value per block.*got shape \(1,\)"),
        ({"weights": [[1, 1]]}, r"`weights` must have one value per block.*got shape \(1, 2\)"),
        ({name: [] for name in GOOD}, "at least one block"),
        ({"lower": [3, 1]}, "must describe disjoint blocks in score order"),
        ({"upper": [3, 4]}, "must describe disjoint blocks in score order"),
        ({"upper": [0, 4]}, "must describe disjoint blocks in score order"),
        ({"lower": [math.nan, 3]}, "must describe disjoint blocks in score order"),
        ({"values": [1, 0]}, "values that do not decrease"),
        ({"values": [0, math.nan]}, "values that do not decrease"),
        ({"values": [math.nan, 1]}, "values that do not decrease"),
        ({"interpolation": "cubic"}, "`interpolation` must be one of"),
        ({"outside": None}, "`outside` must be one of"),
    ],
)
def test_what_is_no_staircase(change: Any, message: str) -> None:
    assert len(Staircase(**GOOD)) == 2
    with pytest.raises(ValueError, match=message):
        Staircase(**{**GOOD, **change})
