"""Losses without a mean, and the derivatives of all losses."""

import functools
import math
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import huber, pseudo_huber
from sklearn.metrics import mean_pinball_loss

from streamcal import losses
from streamcal.losses import (
    Absolute,
    Expectile,
    Exponential,
    Gamma,
    Huber,
    Linex,
    Log,
    LogCosh,
    Logistic,
    Loss,
    Lp,
    Pinball,
    Poisson,
    PseudoHuber,
    Squared,
    Tweedie,
    from_function,
)
from streamcal.losses._convex import _grid
from streamcal.losses.derivatives import derivative, padded
from streamcal.losses.names import get_mean
from streamcal.losses.ranges import Interval, TwoPoint
from tests import named
from tests.test_losses import ALL as MEAN_TYPE
from tests.test_losses import some_labels, some_values


def quartic(z: Any, y: Any) -> Any:
    return (z - y) ** 4


def softplus(z: Any, y: Any) -> Any:
    """The logistic loss of a margin z for the labels 0 and 1."""
    return jnp.logaddexp(0.0, z) - y * z


CONVEX = [
    Absolute(),
    Absolute(ties="lower"),
    Absolute(ties="upper"),
    Pinball(),
    Pinball(tau=0.8),
    Pinball(tau=0.1, ties="upper"),
    Expectile(),
    Expectile(tau=0.8),
    Huber(),
    Huber(delta=0.3),
    PseudoHuber(),
    PseudoHuber(delta=2.0),
    LogCosh(),
    Lp(),
    Lp(p=1.1),
    Lp(p=3),
]
OWN = [
    from_function(quartic, name="quartic"),
    from_function(softplus, y_range=Interval(0, 1), name="softplus"),
]
ALL = [*MEAN_TYPE, *CONVEX, *OWN]
NOT_CONVEX = (Gamma, Tweedie)  # their minimiser is a mean all the same

all_losses = pytest.mark.parametrize("loss", ALL, ids=named)
convex_losses = pytest.mark.parametrize("loss", CONVEX, ids=named)


# values


@pytest.mark.parametrize(
    ("loss", "z", "y", "value"),
    [
        # By hand.
        (Absolute(), -1.5, 2.0, 3.5),
        (Pinball(), -1.5, 2.0, 1.75),
        (Pinball(tau=0.9), 0.0, 10.0, 9.0),
        (Pinball(tau=0.9), 10.0, 0.0, 1.0),
        (Expectile(), 5.0, 1.0, 8.0),
        (Expectile(tau=0.8), 1.0, 5.0, 12.8),
        (Expectile(tau=0.8), 5.0, 1.0, 3.2),
        (Huber(delta=2.0), 1.0, 0.0, 0.5),
        (Huber(delta=2.0), 5.0, 0.0, 8.0),
        (PseudoHuber(delta=3.0), 0.0, 4.0, 6.0),
        (LogCosh(), 1.0, 1.0 + math.log(2), math.log(1.25)),
        (Lp(p=3), -1.0, 1.0, 8.0),
        (Lp(), 4.0, 0.0, 8.0),
        (from_function(quartic), 1.0, 3.0, 16.0),
        # Limits: the distance far away, its square near by.
        (LogCosh(), 1e4, 0.0, 1e4 - math.log(2)),
        (PseudoHuber(), 1e-160, 0.0, 5e-321),
        (PseudoHuber(), 1e12, 0.0, 1e12 - 1),
        (PseudoHuber(delta=1e-200), 3.0, 0.0, 3e-200),
        (PseudoHuber(delta=1e200), 3.0, 0.0, 4.5),
        (Huber(delta=1e-200), 3.0, 0.0, 3e-200),
        (Huber(delta=1e200), 3.0, 0.0, 4.5),
    ],
    ids=named,
)
def test_values_are_those_known(loss: Any, z: float, y: Any, value: Any) -> None:
    assert_allclose(loss(z, y), value, rtol=1e-14)


def test_values_are_those_of_scipy_and_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(scale=3.0, size=(2, 200))
    for delta in (0.3, 1.0, 4.0):
        assert_allclose(Huber(delta=delta)(z, y), huber(delta, z - y), rtol=1e-13)
        assert_allclose(PseudoHuber(delta=delta)(z, y), pseudo_huber(delta, z - y), rtol=1e-13)
    for tau in (0.1, 0.5, 0.8):
        expected = mean_pinball_loss(y, z, alpha=tau)
        assert Pinball(tau=tau)(z, y).mean() == pytest.approx(expected, rel=1e-13)
    assert_allclose(LogCosh()(z, y), np.log(np.cosh(z - y)), rtol=1e-12, atol=1e-15)


def test_special_cases_coincide() -> None:
    z, y = np.random.default_rng(1).normal(size=(2, 50))
    assert_allclose(2.0 * Pinball()(z, y), Absolute()(z, y))
    assert_allclose(2.0 * Expectile()(z, y), Squared()(z, y))
    assert_allclose(Lp(p=2)(z, y), Squared()(z, y))
    assert_allclose(2.0 * Huber(delta=100)(z, y), Squared()(z, y))
    for ties in ("lower", "upper"):
        assert_array_equal(Pinball(tau=0.2, ties=ties)(z, y), Pinball(tau=0.2)(z, y))


@convex_losses
def test_far_away_there_is_neither_nan_nor_a_warning(loss: Any) -> None:
    ends = [-1.7e308, -1e300, -1e160, -5e-324, 0.0, 5e-324, 1e160, 1e300, 1.7e308]
    z, y = np.meshgrid(ends, ends)
    values = loss(z, y)
    assert not np.isnan(values).any()
    assert (values >= 0.0).all()
    slopes = derivative(loss, z, y)
    assert not np.isnan(slopes).any()
    assert (slopes[:, 1:] >= slopes[:, :-1]).all()
    away = np.abs(0.5 * z - 0.5 * y) > 1e100
    assert (np.sign(slopes) == np.sign(0.5 * z - 0.5 * y))[away].all()


@convex_losses
def test_any_finite_label_will_do(loss: Any) -> None:
    loss.check_labels([-1e300, 0, 1e300])
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=rf"`y` must lie in .* {loss.name} loss, got {bad}"):
            loss.check_labels(bad)


@pytest.mark.parametrize("loss", [*CONVEX, *OWN], ids=named)
def test_values_and_labels_are_broadcast(loss: Any) -> None:
    rng = np.random.default_rng(2)
    y, z = some_labels(loss, rng, 4), some_values(loss, rng, 3)
    table = loss(z[:, None], y)
    assert type(table) is np.ndarray
    assert table.shape == (3, 4)
    assert table.dtype == np.float64
    slopes = derivative(loss, z[:, None], y)
    assert slopes.shape == (3, 4)
    for i in range(3):
        assert_allclose(loss(z[i], y), table[i], rtol=1e-15)
        assert_allclose(derivative(loss, z[i], y), slopes[i], rtol=1e-15)
    assert_allclose(loss(z.tolist(), y[0]), table[:, 0], rtol=1e-15)
    assert loss(0.5, 1.0).shape == ()


# shape


@pytest.mark.parametrize("loss", [x for x in ALL if not isinstance(x, NOT_CONVEX)], ids=named)
@given(seed=st.integers(0, 10_000), t=st.floats(0.0, 1.0))
def test_convex_along_z(loss: Any, seed: int, t: float) -> None:
    """No value between two others lies above their chord."""
    rng = np.random.default_rng(seed)
    y, z0, z1 = some_labels(loss, rng), some_values(loss, rng), some_values(loss, rng)
    chord = (1 - t) * loss(z0, y) + t * loss(z1, y)
    assert (loss((1 - t) * z0 + t * z1, y) <= chord + 1e-12 * (1.0 + np.abs(chord))).all()


@all_losses
def test_minimized_by_label_is_true_to_its_word(loss: Any) -> None:
    rng = np.random.default_rng(3)
    y, z = some_labels(loss, rng), some_values(loss, rng, 200)
    y = y[[label in loss.z_range for label in y]]
    never_below = bool((loss(z[:, None], y) >= loss(y, y) - 1e-13).all())
    assert never_below == loss.minimized_by_label or loss in OWN
    if loss.minimized_by_label:
        slopes = derivative(loss, z[:, None], y)
        clear = np.abs(z[:, None] - y) > 1e-6
        assert_array_equal(np.sign(slopes)[clear], np.sign(z[:, None] - y)[clear])


# derivatives


@all_losses
@given(seed=st.integers(0, 10_000))
def test_derivative_equals_numerical_differences(loss: Any, seed: int) -> None:
    """By central differences of accuracy 4, away from kinks."""
    rng = np.random.default_rng(seed)
    y, z = some_labels(loss, rng), some_values(loss, rng)
    h = 1e-4 * np.maximum(np.abs(z), 0.01)
    away = np.abs(z - y) > 100 * h
    if isinstance(loss, Huber):
        away &= np.abs(np.abs(z - y) - loss.delta) > 3 * h
    z, y, h = z[away], y[away], h[away]
    f = [loss(z + k * h, y) for k in (-2, -1, 1, 2)]
    numerical = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
    slopes = derivative(loss, z, y)
    size = 1.0 + np.abs(numerical) + np.abs(f[0])
    assert (np.abs(slopes - numerical) <= 1e-6 * size).all()


@pytest.mark.parametrize(
    ("loss", "z", "y", "slope"),
    [
        (Pinball(tau=0.8), [0.0, 2.0], 1.0, [-0.8, 0.2]),
        (Absolute(), [0.0, 2.0], 1.0, [-1.0, 1.0]),
        (Expectile(tau=0.8), [0.0, 1.0, 2.0], 1.0, [-1.6, 0.0, 0.4]),
        (Huber(delta=2.0), [-9.0, -2.0, -1.0, 0.0, 1.0, 2.0, 9.0], 0.0, [-2, -2, -1, 0, 1, 2, 2]),
        (PseudoHuber(delta=3.0), [-4.0, 0.0, 4.0], 0.0, [-2.4, 0.0, 2.4]),
        (LogCosh(), [-1.0, 0.0, 1.0], 0.0, [-math.tanh(1), 0.0, math.tanh(1)]),
        (Lp(p=3), [-2.0, 0.0, 2.0], 0.0, [-12.0, 0.0, 12.0]),
        (Lp(p=1.1), [0.0], 0.0, [0.0]),
        # At the ends of the range, where the value is 0 times log 0.
        (Log(), [0.0, 1.0], 0.0, [1.0, math.inf]),
        (Log(), [0.0, 1.0], 1.0, [-math.inf, -1.0]),
        (Poisson(), [0.0], 0.0, [1.0]),
        (Poisson(), [0.0], 2.0, [-math.inf]),
        (Squared(), [1e300], 0.0, [2e300]),
        (Logistic(), [-1e4, 0.0, 1e4], 1.0, [-1.0, -0.5, 0.0]),
        (Exponential(), [-1e4, 0.0, 1e4], 1.0, [-math.inf, -1.0, 0.0]),
        (Linex(), [-1e300, 0.0, 1e300], 0.0, [-1.0, 0.0, math.inf]),
        (Linex(a=4.0), [1.7e308], 0.0, [math.inf]),
    ],
    ids=named,
)
def test_derivatives_are_those_known(loss: Any, z: Any, y: float, slope: Any) -> None:
    assert_allclose(derivative(loss, z, y), slope, rtol=1e-14, atol=1e-300)


@convex_losses
def test_derivative_at_the_label_lies_between_its_one_sided_ones(loss: Any) -> None:
    (at,) = derivative(loss, [2.0], [2.0])
    left, right = derivative(loss, [2.0 - 1e-12, 2.0 + 1e-12], [2.0, 2.0])
    assert left <= at <= right


def test_derivative_of_shapes() -> None:
    loss = Huber()
    assert derivative(loss, [], []).shape == (0,)
    assert derivative(loss, 0.5, 0.0).shape == ()
    assert float(derivative(loss, 0.5, 0.0)) == 0.5
    slopes = derivative(loss, np.arange(100.0), 3.0)
    assert slopes.shape == (100,)
    slopes[0] = 7.0  # the caller's own
    with pytest.raises(ValueError, match="broadcast"):
        derivative(loss, [1.0, 2.0], [1.0, 2.0, 3.0])


def test_padding_is_to_powers_of_two() -> None:
    sizes = [0, 1, 64, 65, 128, 129, 10**6]
    assert [padded(size) for size in sizes] == [64, 64, 64, 128, 128, 256, 2**20]


def test_lengths_up_to_the_same_power_of_two_share_a_program() -> None:
    traced = []

    def counted(z: Any, y: Any) -> Any:
        traced.append(1)
        return (z - y) ** 2

    loss = from_function(counted)
    for evaluate in (functools.partial(derivative, loss), loss):
        evaluate(np.zeros(100), np.ones(100))
        before = len(traced)
        for size in (65, 99, 128):
            assert len(evaluate(np.zeros(size), np.ones(size))) == size
        assert len(traced) == before
        evaluate(np.zeros(129), np.ones(129))
        assert len(traced) > before


@all_losses
def test_numpy_and_jax_agree(loss: Any) -> None:
    rng = np.random.default_rng(4)
    y, z = some_labels(loss, rng), some_values(loss, rng)
    expected = loss(z, y)
    with jax.enable_x64(True):
        whole = loss(jnp.asarray(z), jnp.asarray(y))
        compiled = jax.jit(lambda z, y: loss(z, y))(z, y)
        mixed = loss(jnp.asarray(z), y)
        for answer in (whole, compiled, mixed):
            assert isinstance(answer, jax.Array)
            assert answer.dtype == np.float64
            assert_allclose(answer, expected, rtol=1e-12, atol=1e-13)
    single = loss(jnp.asarray(z), jnp.asarray(y))
    assert single.dtype == np.float32
    assert_allclose(single, expected, rtol=2e-3, atol=2e-5)


def test_settings_of_the_user_are_untouched() -> None:
    assert derivative(Huber(), [0.1], [0.0]).dtype == np.float64
    loss = from_function(lambda z, y: jnp.cosh(z - y), check=True)
    assert float(loss(0.1, 0.0)) == pytest.approx(math.cosh(0.1), rel=1e-15)
    with pytest.raises(TypeError):
        from_function(lambda z, y: math.exp(z))
    assert jax.config.read("jax_enable_x64") is False
    assert jnp.ones(1).dtype == np.float32
    assert jax.jit(lambda x: x + 1.0)(np.ones(1)).dtype == np.float32


# names, parameters, identity


@pytest.mark.parametrize("loss", [*CONVEX, *OWN], ids=named)
def test_identity_hash_pickle(loss: Any) -> None:
    copy = pickle.loads(pickle.dumps(loss))
    assert copy == loss
    assert hash(copy) == hash(loss)
    assert sum(other == loss for other in ALL) == 1
    assert not isinstance(loss, losses.MeanLoss)
    with pytest.raises(FrozenInstanceError):
        loss.name = "other"


@convex_losses
def test_repr_is_an_expression_for_the_loss(loss: Any) -> None:
    assert eval(repr(loss), vars(losses)) == loss


def test_a_name_gives_the_loss_with_its_defaults() -> None:
    for name, loss in [
        ("absolute", Absolute(ties="midpoint")),
        ("pinball", Pinball(tau=0.5, ties="midpoint")),
        ("expectile", Expectile(tau=0.5)),
        ("huber", Huber(delta=1.0)),
        ("pseudo-huber", PseudoHuber(delta=1.0)),
        ("log-cosh", LogCosh()),
        ("lp", Lp(p=1.5)),
    ]:
        assert losses.get(name) == loss
        assert losses.get(name).name == name
    assert losses.get(OWN[0]) is OWN[0]


@pytest.mark.parametrize("loss", ["huber", Pinball(tau=0.2), OWN[0]], ids=named)
def test_no_mean_says_what_takes_it(loss: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a mean-type loss \(MeanLoss\) here, got .*Anyt"):
        get_mean(loss)


def test_parameters_are_keywords_and_become_floats() -> None:
    with pytest.raises(TypeError):
        Huber(2.0)
    assert repr(Lp(p=3)) == "Lp(p=3.0)"
    assert Huber(delta=2) == Huber(delta=2.0)
    assert repr(Pinball(tau=0.8)) == "Pinball(tau=0.8, ties='midpoint')"
    assert repr(LogCosh()) == "LogCosh()"


@pytest.mark.parametrize("loss", [Pinball, Expectile])
@pytest.mark.parametrize("tau", [0, 1, 1.5, -0.1, math.nan, math.inf])
def test_tau_out_of_range(loss: Any, tau: Any) -> None:
    with pytest.raises(ValueError, match=rf"`tau` must lie in \(0, 1\), got {tau}"):
        loss(tau=tau)


@pytest.mark.parametrize("loss", [Huber, PseudoHuber])
@pytest.mark.parametrize("delta", [0, -1.0, math.nan, math.inf])
def test_delta_out_of_range(loss: Any, delta: Any) -> None:
    message = rf"`delta` must lie in \(0, inf\), got {delta}"
    with pytest.raises(ValueError, match=message):
        loss(delta=delta)


@pytest.mark.parametrize("p", [1, 0.5, -2, math.nan, math.inf])
def test_p_out_of_range(p: Any) -> None:
    with pytest.raises(ValueError, match=rf"`p` must lie in \(1, inf\), got {p}"):
        Lp(p=p)


@pytest.mark.parametrize("loss", [Absolute, Pinball])
def test_an_unknown_rule_for_ties_is_refused(loss: Any) -> None:
    with pytest.raises(ValueError, match="`ties` must be one of 'lower', 'midpoint', 'upper', got"):
        loss(ties="middle")


@pytest.mark.parametrize(
    "make",
    [lambda: Pinball(tau="0.5"), lambda: Expectile(tau=None), lambda: Huber(delta=[1]), Lp(p=2)],
)
def test_parameters_that_are_not_numbers(make: Any) -> None:
    if isinstance(make, Loss):
        return
    with pytest.raises(TypeError, match="must be a number, got"):
        make()


# a user's own


def test_from_function_keeps_what_it_is_given() -> None:
    loss = from_function(softplus, z_range=(-5, 5), y_range={0, 1}, name="soft", check=False)
    assert (loss.z_range, loss.y_range, loss.name) == (Interval(-5, 5), TwoPoint(0, 1), "soft")
    assert loss.function is softplus
    assert not loss.minimized_by_label
    with pytest.raises(ValueError, match=r"`y` must lie in \{0, 1\} for the soft loss, got 0.5"):
        loss.check_labels(0.5)


def test_equal_functions_ranges_and_names_are_equal() -> None:
    assert from_function(quartic) == from_function(quartic, check=False)
    assert from_function(quartic) != from_function(quartic, name="other")
    assert from_function(quartic) != from_function(quartic, z_range=Interval(0, 1))
    first, second = (from_function(lambda z, y: (z - y) ** 2) for _ in range(2))
    assert first == first
    assert first != second
    assert len({first, second}) == 2


def test_pickling_a_nameless_function_fails() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(from_function(lambda z, y: (z - y) ** 2))


def test_values_of_a_function_are_in_float64() -> None:
    loss = from_function(lambda z, y: jnp.square(z - y))
    assert float(loss(1.0 + 1e-12, 1.0)) == pytest.approx(1e-24, rel=1e-3)
    assert type(loss([1.0], [2.0])) is np.ndarray


def test_a_function_need_not_be_vectorised() -> None:
    def branching(z: Any, y: Any) -> Any:
        return jax.lax.cond(z > y, lambda: z - y, lambda: 3.0 * (y - z))

    loss = from_function(branching)
    assert_array_equal(loss([0.0, 1.0, 2.0], 1.0), [3.0, 0.0, 1.0])
    assert_array_equal(derivative(loss, [0.0, 2.0], 1.0), [-3.0, 1.0])


@pytest.mark.parametrize(
    ("f", "options"),
    [
        (quartic, {}),
        (softplus, {"y_range": TwoPoint(0, 1)}),
        (lambda z, y: jnp.abs(z - y) ** 1.5, {}),
        (lambda z, y: z, {}),  # a straight line
        (lambda z, y: jnp.maximum(z - y, 0.0), {}),
        (lambda z, y: z - y * jnp.log(z), {"z_range": Interval(0, math.inf, False)}),
        (lambda z, y: -jnp.log(z) + z / y, {"z_range": Interval(0, 1), "y_range": Interval(1, 9)}),
        (lambda z, y: (z - jnp.log(y)) ** 2, {"y_range": Interval(0, math.inf, False)}),
        (lambda z, y: -jnp.log(z - 1e6), {"z_range": Interval(1e6, math.inf, False)}),
        (lambda z, y: -jnp.log(-z), {"z_range": Interval(-math.inf, 0, True, False)}),
        (lambda z, y: jnp.exp(z * z), {}),  # inf far out
        (functools.partial(lambda k, z, y: k * (z - y) ** 2, 3.0), {}),
    ],
)
def test_functions_that_jax_can_differentiate_are_losses(f: Any, options: Any) -> None:
    if "z_range" in options and "y_range" not in options:
        options = {**options, "y_range": Interval(0, math.inf)}
    loss = from_function(f, **options)
    assert np.isfinite(derivative(loss, *_inside(loss))).all()


def _inside(loss: Any) -> tuple[Any, Any]:
    z = _grid(loss.z_range, 5)[1:2]
    return z, _grid(loss.y_range, 5)[:1]


@pytest.mark.parametrize(
    ("f", "options"),
    [
        (lambda z, y: jnp.cos(z - y), {}),
        (lambda z, y: -((z - y) ** 2), {}),
        (lambda z, y: jnp.where(z > 1.0, jnp.minimum(z, 2.0), 1.0), {"z_range": Interval(0, 4)}),
        (lambda z, y: (z - y) ** 3, {"z_range": Interval(0, math.inf), "y_range": Interval(0, 1)}),
        (lambda z, y: y * z**2, {"y_range": TwoPoint(-1, 1)}),
        (lambda z, y: jnp.sqrt(z), {"z_range": Interval(0, math.inf), "y_range": Interval(0, 1)}),
    ],
)
def test_functions_that_are_not_convex_are_refused(f: Any, options: Any) -> None:
    with pytest.raises(
        ValueError, match="`function` must be convex in z, but the derivative of the odd"
    ):
        from_function(f, name="odd", **options)
    assert from_function(f, name="odd", check=False, **options).name == "odd"


@pytest.mark.parametrize(
    "f",
    [
        lambda z, y: jnp.sqrt(z),  # of a negative number
        lambda z, y: jnp.sqrt((z - y) ** 2),  # 0/0 at the label
        lambda z, y: (z - y) * jnp.nan,
    ],
)
def test_derivatives_that_are_nan_are_refused(f: Any) -> None:
    with pytest.raises(ValueError, match=r"must have a derivative in all of .* is NaN at"):
        from_function(f)
    from_function(f, check=False)


@pytest.mark.parametrize(
    "f",
    [
        lambda z, y: math.exp(z - y),
        lambda z, y: np.log(z),
        lambda z, y: z if z > y else y,
        lambda z, y: jnp.stack([z, y]),
        lambda z, y: None,
        lambda z: z * z,
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_functions_that_jax_cannot_trace_are_refused(f: Any, check: bool) -> None:
    with pytest.raises(TypeError, match="scalar function of two scalars that JAX can trace, got"):
        from_function(f, check=check)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"function": 3}, "`function` must be a function of z and y, got 3"),
        ({"function": "huber"}, "`function` must be a function"),
        ({"function": quartic, "z_range": (0, 1, 2)}, r"`z_range` must be a pair \(low, high\)"),
        ({"function": quartic, "z_range": {0, 1}}, "`z_range` must be an interval"),
        ({"function": quartic, "y_range": [0, 1]}, r"`y_range` must be a pair .* got \[0, 1\]"),
    ],
)
def test_bad_arguments_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_function(**arguments)


@pytest.mark.parametrize("n", [9, 65])
@pytest.mark.parametrize(
    "interval",
    [
        Interval(-math.inf, math.inf),
        Interval(0, math.inf, False),
        Interval(-math.inf, 0, True, False),
        Interval(1e9, math.inf, False),
        Interval(-math.inf, -1e300),
        Interval(99.9999, math.inf),
        Interval(0, 1, False, False),
        Interval(-1e308, 1.7e308),
        Interval(0, 1e-300, False, False),
    ],
    ids=named,
)
def test_the_grid_of_the_check_lies_inside(interval: Any, n: int) -> None:
    grid = _grid(interval, n)
    assert len(grid) == n
    assert (np.diff(grid) > 0.0).all()
    assert interval.contains_all(grid)
