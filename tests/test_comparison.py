"""Which of two forecasts is better: an interval that holds at all times."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import logsumexp

from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.monitoring import ForecastComparison

STAKES = 2.0 ** (0.5 * np.arange(37) - 14.0)
PROBABILITIES = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0.0, 1.0))
SAMPLES = st.lists(
    st.tuples(st.booleans(), PROBABILITIES, PROBABILITIES, st.sampled_from([1.0, 0.3])), max_size=12
)


def slow_interval(numbers: list[Any], alpha: float) -> tuple[float, float]:
    """Return the bounds by the formulas of the module, each of (x, low, high, w)."""

    def lower_bound(numbers: list[Any]) -> float:
        lost, weight, total = np.zeros(len(STAKES)), 0.0, 0.0
        for x, low, high, w in numbers:
            guess = min(max(total / weight if weight else 0.0, low), high)
            z = STAKES * w * (guess - low)
            safe = np.where(z < 1.0, z, 0.5)
            psi = 0.5 + safe / (3.0 * (1.0 - safe))
            lost += np.where(z < 1.0, psi * (STAKES * w * (x - guess)) ** 2, np.inf)
            weight, total = weight + w, total + w * x

        def excess(mean: float) -> float:
            logs = STAKES * (total - weight * mean) - lost
            return float(logsumexp(logs) - math.log(len(STAKES)) - math.log(2.0 / alpha))

        if not weight or not np.isfinite(lost).any():
            return -math.inf
        return float(brentq(excess, total / weight - 1e7, total / weight + 1e3, xtol=1e-12))

    negative = [(-x, -high, -low, w) for x, low, high, w in numbers]
    return lower_bound(numbers), -lower_bound(negative)


def brier(p: float, q: float, y: bool) -> float:
    return (p - y) ** 2 - (q - y) ** 2


def clipped_log(p: float, q: float, y: bool) -> float:
    one, other = (p, q) if y else (1.0 - p, 1.0 - q)
    return math.log(max(other, 0.01)) - math.log(max(one, 0.01))


@pytest.mark.parametrize(("score", "difference"), [("brier", brier), ("log", clipped_log)])
@given(samples=SAMPLES)
def test_bounds_by_their_definition(score: Any, difference: Any, samples: list[Any]) -> None:
    comparison, numbers = ForecastComparison(score, alpha=0.1), []
    for y, p, q, w in samples:
        comparison.update(y, p, q, w)
        ends = [difference(p, q, False), difference(p, q, True)]
        numbers.append((ends[y], min(ends), max(ends), w))
    limit = 1.0 if score == "brier" else math.log(100.0)
    expected = np.clip(slow_interval(numbers, 0.1), -limit, limit)
    assert comparison.interval == pytest.approx(tuple(expected), abs=1e-6)
    weight = sum(w for *_, w in numbers)
    mean = sum(x * w for x, *_, w in numbers) / weight if numbers else 0.0
    assert comparison.mean == pytest.approx(mean)


@given(SAMPLES, st.floats(0.0, 1.0), PROBABILITIES, PROBABILITIES, st.sampled_from([1.0, 0.4]))
def test_what_a_stake_has_does_not_grow_in_the_mean(
    samples: list[Any], chance: float, p: float, q: float, w: float
) -> None:
    """The supermartingale of which both bounds are made."""
    start = MeanBounds()
    for y, first, second, weight in samples:
        start.add_event(first, second, y, weight, 0.0)
    expected = chance * brier(p, q, True) + (1.0 - chance) * brier(p, q, False)
    factors: Any = 0.0
    for y, probability in ((True, chance), (False, 1.0 - chance)):
        after = copy_of(start)
        after.add_event(p, q, y, w, 0.0)
        new, old = after.state(), start.state()
        left = old < 1e6  # of what others have, exp(−10⁶), no rounding error can matter
        lost = np.where(left, new - np.where(left, old, 0.0), np.inf)
        change = STAKES * w * (brier(p, q, y) - expected)
        factors += probability * np.exp(np.array([change, -change]) - lost)
    assert np.all(factors <= 1.0 + 1e-9)


def copy_of(bounds: MeanBounds) -> MeanBounds:
    other = MeanBounds()
    other.restore(bounds.n_samples, bounds.weight, bounds.total, bounds.state())
    return other


@given(SAMPLES)
def test_many_are_one_by_one_and_forecasts_can_change_places(samples: list[Any]) -> None:
    one, many, turned = (ForecastComparison() for _ in range(3))
    for y, p, q, w in samples:
        one.update(y, p, q, w)
        turned.update(y, q, p, w)
    if samples:
        many.update_many(*map(list, zip(*samples, strict=True)))
    assert one.to_bytes() == many.to_bytes()
    low, high = one.interval
    assert turned.interval == pytest.approx((-high, -low), abs=1e-9)


@given(SAMPLES)
def test_two_labels_by_name_are_one_event(samples: list[Any]) -> None:
    plain, named = ForecastComparison("log"), ForecastComparison("log")
    for y, p, q, w in samples:
        plain.update(y, p, q, w)
        named.update(y, {True: p, False: 1.0 - p}, {True: q, False: 1.0 - q}, w)
    assert named.interval == pytest.approx(plain.interval, abs=1e-9)


def test_many_labels() -> None:
    comparison = ForecastComparison()
    comparison.update("a", {"a": 0.6, "b": 0.4}, {"a": 0.2, "b": 0.5, "c": 0.3})
    wrong = 0.5 * ((0.4**2 + 0.4**2) - (0.8**2 + 0.5**2 + 0.3**2))
    assert comparison.mean == pytest.approx(wrong)
    comparison.update("d", {"a": 1.0}, {"b": 0.5, "c": 0.5})  # neither knows it
    assert comparison.mean == pytest.approx((wrong + 0.25) / 2.0)


def test_the_interval_holds_at_all_times() -> None:
    """Expected differences that change sign, in streams that stop where it looks worst."""
    n_wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p, q = rng.random(1_000), rng.random(1_000)
        truth = np.where(np.arange(1_000) % 300 < 150, p, q)
        y = rng.random(1_000) < truth
        expected = truth * (brier(p, q, True)) + (1.0 - truth) * brier(p, q, False)
        means = np.cumsum(expected) / np.arange(1, 1_001)
        comparison = ForecastComparison(alpha=0.2)
        for at in range(0, 1_000, 20):
            comparison.update_many(y[at : at + 20], p[at : at + 20], q[at : at + 20])
            low, high = comparison.interval
            if not low <= means[at + 19] <= high:
                n_wrong += 1
                break
    assert n_wrong <= 20


@pytest.mark.parametrize("score", ["brier", "log"])
def test_the_better_one_is_named(score: Any) -> None:
    rng = np.random.default_rng(1)
    p = rng.random(3_000)
    y = rng.random(3_000) < p
    comparison = ForecastComparison(score)
    assert comparison.better is None
    comparison.update_many(y, p, p)
    assert comparison.better is None
    assert comparison.interval[0] < 0.0 < comparison.interval[1]
    for first, second, name in ((p, p**2, "first"), (p**2, p, "second")):
        comparison = ForecastComparison(score)
        comparison.update_many(y, first, second)
        assert comparison.better == name
        assert name in repr(comparison)


def test_without_samples() -> None:
    assert ForecastComparison().interval == (-1.0, 1.0)
    comparison = ForecastComparison("log", clip=0.1)
    comparison.update(True, None, 0.5)
    comparison.update(True, {True: 0.5}, {})
    comparison.update_many([], [], [])
    assert (comparison.n_samples, comparison.mean) == (0, 0.0)
    assert comparison.interval == pytest.approx((-math.log(10.0), math.log(10.0)))


def test_copies_go_on() -> None:
    comparison = ForecastComparison("log", alpha=0.01, pos_val="yes", clip=0.001)
    comparison.update("yes", 0.9, 0.2)
    comparison.update("no", 0.0, 1.0, 0.5)
    twins = [
        pickle.loads(pickle.dumps(comparison)),
        copy.deepcopy(comparison),
        ForecastComparison.from_bytes(comparison.to_bytes()),
    ]
    for each in (comparison, *twins):
        each.update("yes", 0.3, 0.4)
    assert {each.to_bytes() for each in twins} == {comparison.to_bytes()}


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((True, 1.5, 0.5), "`y_pred` must"),
        ((True, 0.5, math.nan), "`y_pred` must"),
        ((True, {True: 1.5}, {True: 0.5}), "`first` must"),
        ((True, {True: 0.5}, {True: -1.0}), "`second` must"),
        ((None, 0.5, 0.5), "`y_true` must"),
        ((True, 0.5, 0.5, 1.5), r"`w` must lie in \(0, 1\]"),
        ((True, {"a": 0.5}, {"a": 0.5}), "`pos_val` must be one of the labels"),
    ],
)
def test_bad_samples_change_nothing(given_: Any, message: str) -> None:
    comparison = ForecastComparison()
    comparison.update(True, 0.3, 0.4)
    before = comparison.to_bytes()
    with pytest.raises((ValueError, TypeError), match=message):
        comparison.update(*given_)
    assert comparison.to_bytes() == before


def test_bad_batches_change_nothing() -> None:
    comparison = ForecastComparison()
    comparison.update(True, 0.3, 0.4)
    before = comparison.to_bytes()
    for bad in (
        ([True, False], [0.5], [0.5]),
        ([True], [0.5, 0.5], [0.5]),
        ([True], [0.5], [1.5]),
        ([True], [0.5], []),
        ([True], [0.5], [0.5], [2.0]),
    ):
        with pytest.raises(ValueError, match="must"):
            comparison.update_many(*bad)
        assert comparison.to_bytes() == before


def test_bad_parameters() -> None:
    for name, value in {"score": "mae", "alpha": 1.0, "clip": 0.6, "pos_val": math.nan}.items():
        with pytest.raises(ValueError, match=f"`{name}` must"):
            ForecastComparison(**{name: value})


def test_probabilities_of_labels_must_not_exceed_one_together() -> None:
    comparison, three = ForecastComparison(), {"a": 0.4, "b": 0.4, "c": 0.4}
    for first, second, name in ((three, {"a": 1.0}, "first"), ({"a": 1.0}, three, "second")):
        with pytest.raises(
            ValueError, match=f"`{name}` must have probabilities whose sum is at mo"
        ):
            comparison.update("a", first, second)
    assert comparison.n_samples == 0
    comparison.update("a", dict.fromkeys("abcdefghij", 0.1), {"a": 0.5})  # sums are rounded
    assert comparison.n_samples == 1
