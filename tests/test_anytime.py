"""Anytime isotonic regression: the solver, against the paper, exact solvers and brute force."""

import math
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_diagnostics._utils.isotonic import isotonic_regression as reference
from scipy.optimize import brentq, isotonic_regression

from streamcal import (
    AnytimeStaircase,
    PAVStack,
    anytime_isotonic,
    anytime_isotonic_refinements,
    isotonic_fit,
    losses,
)
from streamcal.losses.derivatives import weighted_derivative
from tests import oracles, oracles_convex

BACKENDS = ["host", "device"]
both_backends = pytest.mark.parametrize("backend", BACKENDS)

QUARTIC = losses.from_function(lambda z, y: (z - y) ** 4, name="quartic")
FIVEFOLD = losses.from_function(lambda z, y: (z - 5 * y) ** 2, name="fivefold")
SMOOTH = [
    losses.Squared(),
    losses.Expectile(tau=0.8),
    losses.Huber(delta=0.7),
    losses.PseudoHuber(delta=2.0),
    losses.LogCosh(),
    losses.Lp(p=1.3),
    QUARTIC,
]


def at_samples(stairs: Any, scores: Any) -> tuple[Any, Any, Any]:
    """Return values, floors and ceilings sample by sample."""
    block = np.searchsorted(stairs.upper, scores)
    return stairs.values[block], stairs.floors[block], stairs.ceilings[block]


@st.composite
def samples(draw: Any, max_size: float = 14) -> tuple[Any, Any, Any]:
    n = draw(st.integers(1, max_size))
    scores = sorted(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
    y = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
    w = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=n, max_size=n))
    return np.array(scores, float), np.array(y, float), np.array(w, float)


# The paper ----------------------------------------------------------------------------------------


@both_backends
@given(data=samples(), rounds=st.integers(1, 7))
def test_rounds_are_those_of_the_pairwise_description(backend: Any, data: Any, rounds: int) -> None:
    """With whole labels and a range of a power of two all sums are exact, zeros included."""
    _, y, w = data
    scores = np.arange(len(y))  # the paper has no ties
    stairs = anytime_isotonic(
        scores, y, w, loss="squared", y_min=-8, y_max=8, rounds=rounds, backend=backend
    )
    groups = oracles.pairwise_groups(lambda z, n: 2 * w[n] * (z - y[n]), len(y), -8.0, 8.0, rounds)
    _, low, high = at_samples(stairs, scores)
    for group in groups:
        assert set(low[group.samples]) == {group.low}
        assert set(high[group.samples]) == {group.high}


@both_backends
@settings(max_examples=25)
@given(data=samples(max_size=8), rounds=st.integers(1, 12))
def test_unknown_ranges_are_probed_by_doubling(backend: Any, data: Any, rounds: int) -> None:
    _, y, w = data
    scores = np.arange(len(y))
    stairs = anytime_isotonic(scores, y, w, loss=FIVEFOLD, rounds=rounds, backend=backend)
    groups = oracles.pairwise_groups(
        lambda z, n: 2 * w[n] * (z - 5 * y[n]), len(y), -math.inf, math.inf, rounds
    )
    _, low, high = at_samples(stairs, scores)
    for group in groups:
        assert set(low[group.samples]) == {group.low}
        assert set(high[group.samples]) == {group.high}


# Programs for few samples compile faster, and other tests use some of them.
@pytest.mark.parametrize(
    ("loss", "n"),
    [(losses.Squared(), 120), *((loss, 60) for loss in SMOOTH[2::2])],
    ids=lambda x: getattr(x, "name", x),
)
def test_both_places_answer_to_the_last_cell(loss: Any, n: int) -> None:
    rng = np.random.default_rng(3)
    scores, y, w = rng.integers(0, n // 2, n), rng.normal(size=n), rng.uniform(0.5, 2, n)
    y += 6 * scores / n
    host, device = (
        anytime_isotonic(scores, y, w, loss=loss, rounds=25, backend=backend)
        for backend in BACKENDS
    )
    for name in ("lower", "upper", "floors", "ceilings", "weights", "values"):
        np.testing.assert_array_equal(getattr(host, name), getattr(device, name))
    assert host.rounds == device.rounds


RECORDED = [
    losses.Squared(),
    losses.Expectile(tau=0.8),
    losses.Huber(delta=0.7),
    losses.LogCosh(),
    losses.Logistic(),
    losses.Absolute(),
    losses.Absolute(ties="upper"),
    losses.Pinball(tau=0.8),
    losses.Pinball(tau=0.3, ties="lower"),
]


def answers(loss: Any, rounds: Any, inputs: Any) -> Any:
    """Solve samples (score, label, weight) in some rounds, or to the end; return all there is."""
    stairs = anytime_isotonic(*inputs, loss=loss, rounds=rounds or None)
    found = [stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers]
    found += [stairs.floors, stairs.ceilings]
    if isinstance(loss, losses.Absolute | losses.Pinball):
        stack = PAVStack(loss)
        stack.push_many(*inputs[:, np.argsort(inputs[0], kind="stable")])
        found.append(stack.staircase().values)
    else:
        found.append([stairs.rounds])
    return np.concatenate(found)


@pytest.mark.parametrize("which", range(len(RECORDED)), ids=lambda k: RECORDED[k].name)
def test_answers_are_as_recorded(which: int) -> None:
    with np.load(Path(__file__).parent / "recorded" / "anytime.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            of, rounds = recorded[f"case{at}"].tolist()
            if of == which:
                found = answers(RECORDED[which], rounds, recorded[f"asked{at}"])
                np.testing.assert_array_equal(found, recorded[f"answered{at}"])


# Other solvers ------------------------------------------------------------------------------------


@both_backends
@given(data=samples())
def test_squared_loss_against_exact_arithmetic(backend: Any, data: Any) -> None:
    scores, y, w = data
    stairs = anytime_isotonic(scores, y, w, loss="squared", backend=backend)
    values, low, high = at_samples(stairs, scores)
    exact = isotonic_fit(scores, y, w, loss="squared")(scores, interpolation="step")
    assert (low - 1e-12 <= exact).all()
    assert (exact <= high + 1e-12).all()
    assert np.abs(values - exact).max() <= stairs.half_width + 1e-12
    assert stairs.half_width <= 1e-9 * max(np.ptp(y), 1e-300)


def test_squared_loss_against_scipy() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=20_000) + np.linspace(0, 3, 20_000)
    stairs = anytime_isotonic(np.arange(20_000), y, loss="squared", rounds=30)
    found = stairs(np.arange(20_000), interpolation="step")
    assert np.abs(found - isotonic_regression(y).x).max() <= stairs.half_width * (1 + 1e-6)
    assert stairs.half_width <= np.ptp(y) / 2**31 * (1 + 1e-6)
    assert stairs.rounds == 30


@pytest.mark.parametrize("loss", [*SMOOTH, losses.Pinball(tau=0.3)], ids=lambda x: x.name)
@pytest.mark.parametrize("seed", range(3))
def test_no_block_can_be_improved(loss: Any, seed: int) -> None:
    """No other monotone map nearby is better: not a block moved, nor one cut anywhere."""
    rng = np.random.default_rng(seed)
    scores, y, w = np.arange(60), rng.normal(size=60) + np.linspace(0, 2, 60), rng.uniform(1, 3, 60)
    u = anytime_isotonic(scores, y, w, loss=loss)(scores, interpolation="step")

    def total(z: Any) -> Any:
        return float(np.sum(w * np.asarray(loss(z, y))))

    for cut in range(61):
        for step in (1e-3, 0.05):
            up, down = u.copy(), u.copy()
            up[cut:] += step
            down[:cut] -= step
            assert total(up) >= total(u) - 1e-7
            assert total(down) >= total(u) - 1e-7


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("loss", "functional"),
    [
        (losses.Absolute(), {"functional": "median"}),
        (losses.Pinball(tau=0.8), {"functional": "quantile", "level": 0.8}),
        (losses.Expectile(tau=0.8), {"functional": "expectile", "level": 0.8}),
    ],
    ids=["median", "quantile", "expectile"],
)
@pytest.mark.parametrize("whole", [True, False])
def test_against_model_diagnostics(loss: Any, functional: Any, seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=300) + np.linspace(0, 3, 300)
    y = np.round(2 * y) if whole else y
    found = anytime_isotonic(np.arange(300), y, loss=loss)(np.arange(300), interpolation="step")
    expected, _ = reference(y, **functional)
    np.testing.assert_allclose(found, expected, atol=2e-8)


BUSING = [8, 4, 8, 2, 2, 0, 8]
OTHER = [9, 1, 8, 2, 7, 3, 6]


@pytest.mark.parametrize(
    ("y", "loss", "expected"),
    [
        (BUSING, losses.Absolute(), [3] * 6 + [8]),
        (BUSING, losses.Absolute(ties="lower"), [2] * 6 + [8]),
        (BUSING, losses.Absolute(ties="upper"), [4] * 6 + [8]),
        (BUSING, losses.Pinball(tau=0.8), [8] * 7),
        (BUSING, losses.Expectile(tau=0.8), [6] * 6 + [8]),
        (OTHER, losses.Pinball(ties="lower"), [1, 1, 2, 2, 3, 3, 6]),
        (OTHER, losses.Absolute(ties="upper"), [6] * 7),
        ([1, 2, 3, 0, 5, 4, 1, 7], losses.Absolute(), [1, 2, 2, 2, 4, 4, 4, 7]),
    ],
    ids=str,
)
def test_it_repeats_published_numbers(y: Any, loss: Any, expected: Any) -> None:
    stairs = anytime_isotonic(range(len(y)), y, loss=loss)
    np.testing.assert_allclose(at_samples(stairs, np.arange(len(y)))[0], expected, atol=1e-7)


@given(data=samples(), tau=st.sampled_from([0.1, 0.5, 0.8, 0.9, 1 / 3]))
def test_quantiles_against_dynamic_programming(data: Any, tau: Any) -> None:
    scores, y, w = data
    maps = oracles_convex.quantile_maps(oracles_convex.grouped(*data), tau)
    for ties, expected in zip(("lower", "midpoint", "upper"), maps, strict=True):
        stairs = anytime_isotonic(scores, y, w, loss=losses.Pinball(tau=tau, ties=ties))
        values, low, high = at_samples(stairs, np.unique(scores))
        assert values.tolist() == low.tolist() == high.tolist() == expected.tolist()


def test_quantiles_of_labels_on_a_wild_scale() -> None:
    rng = np.random.default_rng(5)
    y = rng.choice([-1.0, 1.0], 500) * 2.0 ** rng.integers(-1000, 1000, 500)
    groups = oracles_convex.grouped(np.arange(40), y[:40], np.ones(40))
    least, _, _ = oracles_convex.quantile_maps(groups, 0.5)
    stairs = anytime_isotonic(np.arange(40), y[:40], loss=losses.Absolute(ties="lower"))
    assert stairs(np.arange(40), interpolation="step").tolist() == least.tolist()
    assert anytime_isotonic(np.arange(500), y, loss="absolute").half_width == 0.0


# Certificates -------------------------------------------------------------------------------------


@both_backends
@given(data=samples(max_size=30), rounds=st.integers(1, 40))
@settings(max_examples=30)
def test_certificates_contain_the_optimum(backend: Any, data: Any, rounds: int) -> None:
    scores, y, w = data
    exact = isotonic_fit(scores, y, w, loss="squared")(scores, interpolation="step")
    stairs = anytime_isotonic(scores, y, w, loss="squared", rounds=rounds, backend=backend)
    _, low, high = at_samples(stairs, scores)
    assert (low - 1e-12 <= exact).all()
    assert (exact <= high + 1e-12).all()
    assert (np.diff(stairs.values) >= 0).all()


@given(data=samples(max_size=30), start=samples(max_size=30), rounds=st.integers(1, 40))
def test_a_start_may_be_wrong_but_not_the_certificate(data: Any, start: Any, rounds: int) -> None:
    scores, y, w = data
    guess = isotonic_fit(*start, loss="squared")
    exact = isotonic_fit(scores, y, w, loss="squared")(scores, interpolation="step")
    for limit in ({"rounds": rounds}, {}):
        stairs = anytime_isotonic(scores, y, w, loss="squared", start=guess, **limit)
        _, low, high = at_samples(stairs, scores)
        assert (low - 1e-12 <= exact).all()
        assert (exact <= high + 1e-12).all()
    assert stairs.half_width <= 1e-9 * max(np.ptp(y), 1e-300)


def test_a_start_may_have_infinite_values() -> None:
    start = isotonic_fit([1, 2, 3], [-1, 1, 1], loss="logistic")
    stairs = anytime_isotonic([1, 2, 3], [1.0, 3.0, 2.0], loss="squared", start=start)
    np.testing.assert_allclose(stairs.values, [1.0, 2.5], atol=1e-8)


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda x: getattr(x, "name", x))
def test_a_good_start_needs_fewer_rounds(loss: Any) -> None:
    rng = np.random.default_rng(1)
    scores = np.arange(20_000)
    y = rng.normal(size=20_000) + scores / 5_000
    before = anytime_isotonic(scores, y, loss=loss)
    changed = rng.integers(20_000, size=2_000)
    y[changed] = rng.normal(size=2_000) + changed / 5_000
    cold, warm = (anytime_isotonic(scores, y, loss=loss, start=start) for start in (None, before))
    _, low, high = at_samples(cold, scores)
    values, floors, ceilings = at_samples(warm, scores)
    assert warm.half_width <= 1e-9 * np.ptp(y)
    if loss != losses.Huber(delta=0.7):  # which has flat stretches with many best maps
        assert (np.maximum(low, floors) <= np.minimum(high, ceilings)).all()
        assert np.abs(values - at_samples(cold, scores)[0]).max() <= 2e-9 * np.ptp(y)
    if loss in (losses.Squared(), losses.LogCosh(), losses.PseudoHuber(delta=2.0)):
        assert warm.rounds <= 0.75 * cold.rounds


@pytest.mark.parametrize("loss", SMOOTH, ids=lambda x: getattr(x, "name", x))
@pytest.mark.parametrize("kind", ["far", "flat", "steps"])
def test_a_start_that_is_far_off_costs_rounds_alone(loss: Any, kind: str) -> None:
    rng = np.random.default_rng(8)
    scores = np.repeat(np.arange(400), rng.integers(1, 4, 400))
    y = rng.normal(size=len(scores)) + scores / 100
    wrong = {"far": -y, "flat": np.full(len(y), y.max() + 5.0), "steps": scores / 7.0}[kind]
    start = isotonic_fit(scores, wrong, loss="squared")
    cold, warm = (anytime_isotonic(scores, y, loss=loss, start=start) for start in (None, start))
    _, floors, ceilings = at_samples(warm, scores)
    assert warm.half_width <= 1e-9 * np.ptp(y)
    if loss != losses.Huber(delta=0.7):
        assert (at_samples(cold, scores)[1] <= ceilings).all()
        assert (floors <= at_samples(cold, scores)[2]).all()
    else:
        best, total = (np.sum(np.asarray(loss(at_samples(s, scores)[0], y))) for s in (cold, warm))
        assert total == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("rounds", [1, 3, None])
def test_a_start_and_offsets_and_a_range(rounds: int | None) -> None:
    rng = np.random.default_rng(9)
    scores, offset = np.arange(300), rng.normal(size=300)
    y = rng.normal(size=300) + scores / 100 + offset
    loss, ends = losses.LogCosh(), {"y_min": 0.5, "y_max": 2.0}
    exact = anytime_isotonic(scores, y, loss=loss, offset=offset, **ends)
    start = isotonic_fit(scores, y - offset, loss="squared")
    warm = anytime_isotonic(scores, y, loss=loss, offset=offset, rounds=rounds, start=start, **ends)
    _, floors, ceilings = at_samples(warm, scores)
    assert floors.min() >= 0.5
    assert ceilings.max() <= 2.0
    assert (floors <= at_samples(exact, scores)[2]).all()
    assert (at_samples(exact, scores)[1] <= ceilings).all()


def test_a_start_that_is_the_answer_needs_no_rounds() -> None:
    rng = np.random.default_rng(10)
    scores, y = np.arange(3_000), rng.normal(size=3_000) + np.arange(3_000) / 700
    before = anytime_isotonic(scores, y, loss="squared")
    again = anytime_isotonic(scores, y, loss="squared", start=before)
    assert again.rounds == 0
    assert again.half_width <= 1e-9 * np.ptp(y)
    np.testing.assert_allclose(again.values, before.values, atol=2e-9 * np.ptp(y))


def test_refinements_are_nested_and_end_at_the_last_double() -> None:
    y = [3.0, 1.0, 2.0, 5.0, 4.0]
    previous = None
    for stairs in anytime_isotonic_refinements(range(5), y, loss="log-cosh"):
        _, low, high = at_samples(stairs, np.arange(5))
        if previous is not None:
            assert (low >= previous[0]).all()
            assert (high <= previous[1]).all()
        previous = low, high
    assert stairs.half_width <= 1e-15


def test_deadline_keeps_a_certificate() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=50_000) + np.linspace(0, 3, 50_000)
    stairs = anytime_isotonic(np.arange(50_000), y, loss="squared", deadline=1e-9)
    assert stairs.rounds == 1
    assert stairs.half_width == pytest.approx(np.ptp(y) / 4)
    stairs = anytime_isotonic(np.arange(50_000), y, loss="squared", deadline=60.0)
    assert stairs.half_width < 1e-14


def test_tolerance_is_reached_and_not_passed_by_far() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=500)
    for loss in ("squared", "absolute"):
        stairs = anytime_isotonic(np.arange(500), y, loss=loss, tol=0.1)
        assert stairs.half_width <= 0.1
    assert anytime_isotonic(np.arange(500), y, loss="squared", tol=0.1).half_width > 0.04


# Ranges, offsets ----------------------------------------------------------------------------------


@both_backends
def test_range_confines_the_map(backend: Any) -> None:
    y = [0.0, 1.0, 5.0, 9.0]
    stairs = anytime_isotonic(range(4), y, loss="squared", y_min=1, y_max=6, backend=backend)
    found = at_samples(stairs, np.arange(4))[0]
    np.testing.assert_allclose(found, [1.0, 1.0, 5.0, 6.0], atol=1e-8)
    quantiles = anytime_isotonic(range(4), y, loss="absolute", y_min=1, y_max=6)
    assert at_samples(quantiles, np.arange(4))[0].tolist() == [1.0, 1.0, 5.0, 6.0]
    assert anytime_isotonic([1], [3.0], loss="squared", y_min=4).values.tolist() == [4.0]


@both_backends
def test_logistic_loss_with_offsets(backend: Any) -> None:
    rng = np.random.default_rng(4)
    scores = np.repeat(np.arange(5), 12)
    offset = rng.normal(size=60)
    y = np.where(rng.uniform(size=60) < 1 / (1 + np.exp(-offset - scores / 2 + 1)), 1.0, -1.0)
    stairs = anytime_isotonic(
        scores, y, loss=losses.Logistic(), offset=offset, tol=1e-9, backend=backend
    )

    def slope(z: Any, part: Any) -> Any:
        return -np.sum(y[part] / (1 + np.exp(y[part] * (z + offset[part]))))

    for block, value in enumerate(stairs.values):
        part = (scores >= stairs.lower[block]) & (scores <= stairs.upper[block])
        assert value == pytest.approx(brentq(slope, -20, 20, args=(part,)), abs=1e-8)


def test_heavy_and_steep_samples_do_not_swallow_light_ones() -> None:
    stairs = anytime_isotonic(range(4), [3, 2, 1, 5], [1e17, 1, 1e17, 1], loss="squared")
    np.testing.assert_allclose(stairs.values, [2.0, 5.0], atol=1e-7)
    stairs = anytime_isotonic(range(4), [5, -60, 14, 15], loss="linex")
    exact = isotonic_fit(range(4), [5, -60, 14, 15], loss="linex")
    np.testing.assert_allclose(stairs.values, exact.values, atol=1e-6)


@given(data=samples(max_size=12), spread=st.integers(0, 40), label_scale=st.sampled_from([1, 9]))
def test_certificates_hold_for_spread_weights_and_steep_losses(
    data: Any, spread: int, label_scale: int
) -> None:
    scores, y, w = data
    w, y = w * 2.0 ** (-spread * np.arange(len(w)) % 50), label_scale * y
    for loss in ("squared", "linex"):
        exact = isotonic_fit(scores, y, w, loss=loss)(scores, interpolation="step")
        _, low, high = at_samples(anytime_isotonic(scores, y, w, loss=loss), scores)
        assert (low - 1e-6 <= exact).all()
        assert (exact <= high + 1e-6).all()


def test_offsets_of_residual_losses_shift_the_labels() -> None:
    y, offset = np.array([3.0, 1.0, 4.0, 2.0]), np.array([0.5, 2.0, 0.0, 1.0])
    for loss in (losses.Squared(), losses.Absolute(), losses.LogCosh()):
        shifted = anytime_isotonic(range(4), y, loss=loss, offset=offset)
        plain = anytime_isotonic(range(4), y - offset, loss=loss)
        np.testing.assert_allclose(shifted.half_width, 0.0, atol=1e-8)
        np.testing.assert_allclose(shifted.values, plain.values, atol=1e-8)


@both_backends
def test_a_minimiser_at_infinity_is_where_the_derivative_vanishes(backend: Any) -> None:
    stairs = anytime_isotonic([1, 2], [1.0, 1.0], loss=losses.Logistic(), backend=backend)
    assert stairs.values.tolist() == [1024.0]  # e^-745 is the last double
    stairs = anytime_isotonic([1, 2], [-1.0, 1.0], loss="logistic", rounds=4, backend=backend)
    assert stairs.floors.tolist() == [-math.inf, 4.0]
    assert stairs.ceilings.tolist() == [-4.0, math.inf]
    assert stairs.values.tolist() == [-4.0, 4.0]
    assert stairs.half_width == math.inf


def test_derivatives_of_one_sign_end_at_the_greatest_double() -> None:
    loss = losses.from_function(lambda z, y: -z + 0 * y, name="falling")
    stairs = anytime_isotonic([1], [0.0], loss=loss)
    assert stairs.floors[0] > 1e307
    assert stairs.ceilings[0] == math.inf


# Edges --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "backend"),
    [*((loss, "host") for loss in [*SMOOTH, losses.Absolute()]), (losses.LogCosh(), "device")],
    ids=lambda x: getattr(x, "name", x),
)
def test_one_sample_and_equal_scores(loss: Any, backend: Any) -> None:
    stairs = anytime_isotonic([2.0], [5.0], loss=loss, backend=backend)
    assert (stairs.values.tolist(), stairs.half_width) == ([5.0], 0.0)
    stairs = anytime_isotonic([1, 1, 1], [0.0, 4.0, 2.0], loss=loss, backend=backend)
    assert len(stairs) == 1
    assert (stairs.lower[0], stairs.upper[0], stairs.weights[0]) == (1.0, 1.0, 3.0)
    if loss != losses.Expectile(tau=0.8):
        assert stairs.values[0] == pytest.approx(2.0, abs=2e-3 if loss == QUARTIC else 1e-7)


def test_weights_far_apart() -> None:
    y, w = [4.0, 1.0, 3.0, 2.0], [1e60, 1e-60, 1e-60, 1e-60]
    for loss in ("squared", "log-cosh", "absolute"):
        found = anytime_isotonic(range(4), y, w, loss=loss)(np.arange(4.0), interpolation="step")
        np.testing.assert_allclose(found, 4.0, atol=1e-8)


def test_order_and_kind_of_input_do_not_matter() -> None:
    rng = np.random.default_rng(6)
    scores, y = rng.permutation(300).astype(float), rng.normal(size=300)
    stairs = anytime_isotonic(scores, y, loss="huber")
    order = np.argsort(scores)
    again = anytime_isotonic(scores[order].tolist(), y[order].tolist(), loss=losses.Huber())
    np.testing.assert_array_equal(stairs.values, again.values)
    grid = np.linspace(-5, 310, 50)
    np.testing.assert_array_equal(stairs(grid), again(grid))
    assert np.isnan(anytime_isotonic([1, 2], [0, 1], loss="huber", outside="nan")(3.0))


GOOD = {"scores": [1, 2], "y": [0.0, 1.0], "loss": "squared"}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scores": [], "y": []}, ValueError, "`scores` must hold at least one"),
        ({"scores": [1, math.nan]}, ValueError, "`scores` must be finite"),
        ({"scores": [[1, 2]]}, ValueError, "`scores` must be one-dimensional"),
        ({"y": [0.0]}, ValueError, "`y` must have one value per score"),
        ({"y": [0.0, math.inf]}, ValueError, "`y` must be finite, got inf at position 1"),
        ({"y": [0, 2], "loss": "log"}, ValueError, r"`y` must lie in \[0, 1\] for the log loss"),
        ({"w": [1, -1]}, ValueError, "`w` must be a positive finite number"),
        ({"offset": [1]}, ValueError, "`offset` must have one value per score"),
        (
            {"offset": [1, 2], "loss": "poisson"},
            ValueError,
            "`offset` needs a loss that is defined",
        ),
        ({"y_min": math.inf}, ValueError, "`y_min` and `y_max` must leave finite values"),
        ({"loss": "best"}, ValueError, "`loss` must be one of"),
        ({"loss": 3}, TypeError, "`loss` must be a name or a Loss"),
        ({"y_min": 2, "y_max": 1}, ValueError, "`y_min` must be less than `y_max`, got 2 and 1"),
        ({"y_min": math.nan}, ValueError, "`y_min` must lie in"),
        ({"y_min": -1, "loss": "log"}, ValueError, r"`y_min` must lie in \[0, 1\] for the log"),
        ({"y_max": "1"}, TypeError, "`y_max` must be a number"),
        ({"rounds": 0}, ValueError, "`rounds` must be a positive int or None, got 0"),
        ({"rounds": 2.5}, ValueError, "`rounds` must be a positive int or None, got 2.5"),
        ({"tol": 0}, ValueError, r"`tol` must lie in \(0, inf\) or None, got 0"),
        ({"tol": math.nan}, ValueError, "`tol` must lie in"),
        ({"deadline": -1}, ValueError, "`deadline` must lie in"),
        ({"start": [1]}, TypeError, r"`start` must be a Staircase or None, got \[1\]"),
        ({"backend": "gpu"}, ValueError, "`backend` must be one of 'auto', 'host', 'device'"),
        ({"interpolation": "cubic"}, ValueError, "`interpolation` must be one of"),
        ({"outside": "zero"}, ValueError, "`outside` must be one of"),
    ],
    ids=str,
)
def test_bad_input_is_refused(changes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        anytime_isotonic(**{**GOOD, **changes})


@both_backends
def test_a_derivative_that_is_not_a_number_is_named(backend: Any) -> None:
    loss = losses.from_function(
        lambda z, y: jnp.where(z > 2.5, jnp.sqrt(2.5 - z), (z - y) ** 2), name="broken", check=False
    )
    with pytest.raises(ValueError, match="`loss` must have a derivative that is a number, got"):
        anytime_isotonic([1, 2, 3], [0.0, 5.0, 6.0], loss=loss, y_min=0, y_max=7, backend=backend)


def test_jax_settings_are_left_alone_and_lengths_share_programs() -> None:
    loss = losses.PseudoHuber(delta=1.2345)
    program = weighted_derivative(loss)
    for n in (65, 100, 127, 128):
        anytime_isotonic(np.arange(n), np.arange(n) % 7, loss=loss)
    assert program._cache_size() == 1  # type: ignore[attr-defined]
    assert not jax.config.read("jax_enable_x64")
    assert jnp.ones(1).dtype == jnp.float32


def test_the_answer_travels() -> None:
    stairs = anytime_isotonic([1, 2, 3], [2.0, 1.0, 3.0], loss="log-cosh", rounds=5)
    twin = pickle.loads(pickle.dumps(stairs))
    assert type(twin) is AnytimeStaircase
    for name in ("lower", "upper", "values", "weights", "centers", "floors", "ceilings"):
        np.testing.assert_array_equal(getattr(twin, name), getattr(stairs, name))
        assert not getattr(twin, name).flags.writeable
    assert (twin.rounds, twin.half_width) == (5, stairs.half_width)
    assert repr(stairs) == repr(twin)
    assert "half_width=0.0312" in repr(stairs)
