"""Losses, tested as scikit-learn tests its own (sklearn/_loss/tests/test_loss.py)."""

import math
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from sklearn import metrics
from sklearn._loss.loss import HalfBinomialLoss

import streamcal
from streamcal import losses
from streamcal.losses import (
    Exponential,
    Gamma,
    Linex,
    Log,
    Logistic,
    MeanLoss,
    Poisson,
    Squared,
    Tweedie,
)
from streamcal.losses.ranges import Interval, TwoPoint

ALL = [
    Squared(),
    Log(),
    Poisson(),
    Gamma(),
    Tweedie(),
    Tweedie(power=1.1),
    Tweedie(power=1.9),
    Logistic(),
    Exponential(),
    Linex(),
    Linex(a=0.3),
    Linex(a=4.0),
]
IDENTITY = [loss for loss in ALL if type(loss).link is MeanLoss.link]

all_losses = pytest.mark.parametrize("loss", ALL, ids=repr)


def some_labels(loss: Any, rng: np.random.Generator, n: int = 20) -> Any:
    """Labels inside the range of the loss, its closed finite ends among them."""
    ends = loss.y_range
    if isinstance(ends, TwoPoint):
        return rng.choice([ends.low, ends.high], n)
    low, high = max(ends.low, -3.0), min(ends.high, 3.0)
    y = rng.uniform(low, high, n)
    y[:2] = [end if end in ends else y[2] for end in (low, high)]
    return y


def some_values(loss: Any, rng: np.random.Generator, n: int = 20) -> Any:
    ends = loss.z_range
    low, high = max(ends.low, -3.0), min(ends.high, 3.0)
    width = high - low
    return rng.uniform(low + 0.01 * width, high - 0.01 * width, n)


# ranges


@pytest.mark.parametrize(
    ("interval", "inside", "outside", "text"),
    [
        (Interval(0, 1), [0, 0.5, 1], [-1e-300, 1.0000001, math.nan, math.inf], "[0, 1]"),
        (Interval(0, 1, False, False), [1e-300, 0.5], [0, 1, math.nan], "(0, 1)"),
        (Interval(0, 1, True, False), [0, 0.5], [1], "[0, 1)"),
        (Interval(0, math.inf), [0, 1e308], [math.inf, -1, math.nan], "[0, inf)"),
        (Interval(-math.inf, math.inf), [-1e308, 1e308], [math.inf, -math.inf], "(-inf, inf)"),
        (TwoPoint(-1, 1), [-1, 1], [0, math.nan, math.inf, 2], "{-1, 1}"),
        (TwoPoint(0.5, 1.5), [0.5, 1.5], [1], "{0.5, 1.5}"),
    ],
)
def test_a_range_contains_what_lies_in_it(
    interval: Any, inside: Any, outside: Any, text: str
) -> None:
    assert interval.contains(inside).all()
    assert not interval.contains(outside).any()
    assert interval.contains_all(np.array(inside, dtype=float))
    assert not interval.contains_all(np.array(inside + outside[-1:], dtype=float))
    assert all(x in interval for x in inside)
    assert not any(x in interval for x in outside)
    assert str(interval) == text


def test_range_of_nothing_is_contained() -> None:
    assert Interval(0, 1).contains_all(np.empty(0))
    assert TwoPoint(0, 1).contains_all(np.empty(0))


@pytest.mark.parametrize("kind", [Interval, TwoPoint])
@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (math.nan, 1)])
def test_range_must_not_be_empty(kind: Any, ends: Any) -> None:
    with pytest.raises(ValueError, match="`low` must be less than `high`, got"):
        kind(*ends)


@given(
    st.floats(allow_nan=False),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(0.0, 1.0), (-1e300, 1e300), (0.0, math.inf), (-math.inf, math.inf)]),
)
def test_clip_is_the_nearest_member(
    x: float, low_closed: bool, high_closed: bool, ends: Any
) -> None:
    interval = Interval(*ends, low_closed, high_closed)
    clipped = interval.clip(x)
    assert clipped in interval
    if x in interval:
        assert clipped == x


# domains, as test_loss_boundary


@all_losses
def test_loss_is_finite_inside_its_ranges(loss: Any) -> None:
    rng = np.random.default_rng(0)
    y, z = some_labels(loss, rng), some_values(loss, rng)
    assert np.isfinite(loss(z[:, None], y)).all()
    loss.check_labels(y)


@pytest.mark.parametrize(
    ("loss", "good", "bad"),
    [
        (Squared(), [-1e300, 0, 1e300], [math.inf, -math.inf, math.nan]),
        (Log(), [0, 0.5, 1], [-1e-9, 1 + 1e-9, math.nan, math.inf]),
        (Poisson(), [0, 1e-300, 1e300], [-1e-300, math.inf, math.nan]),
        (Gamma(), [1e-300, 1e300], [0, -1, math.inf, math.nan]),
        (Tweedie(), [0, 1e300], [-1, math.inf, math.nan]),
        (Logistic(), [-1, 1], [0, 0.5, math.nan]),
        (Exponential(), [-1, 1], [0, 2, math.nan]),
        (Linex(a=2.0), [-350, 0, 350], [-350.1, 350.1, math.nan, math.inf]),
    ],
    ids=repr,
)
def test_labels_out_of_range_are_refused(loss: Any, good: Any, bad: Any) -> None:
    loss.check_labels(good)
    for y in good:
        loss.check_labels(float(y))
        assert math.isfinite(loss.statistic(float(y)))
    for y in bad:
        with pytest.raises(ValueError, match=rf"`y` must lie in .* {loss.name} loss, got .*{y}"):
            loss.check_labels(float(y))
        with pytest.raises(ValueError, match=r"at position 1"):
            loss.check_labels([good[0], y, good[0], y])


def test_refused_label_names_the_argument() -> None:
    message = r"^`label` must lie in \{-1, 1\} for the logistic loss, got 0\.0 at position 2;"
    with pytest.raises(ValueError, match=message):
        Logistic().check_labels(np.array([1, -1, 0]), "label")


@pytest.mark.parametrize("y", [True, np.True_, 1, np.int8(1), np.float32(1), [True, False]])
def test_labels_of_other_number_types_are_accepted(y: Any) -> None:
    Log().check_labels(y)


@pytest.mark.parametrize(
    ("loss", "z", "y", "value"),
    [
        (Log(), 0.0, 0.0, 0.0),
        (Log(), 0.0, 1.0, math.inf),
        (Log(), 1.0, 1.0, 0.0),
        (Log(), 1.0, 0.0, math.inf),
        (Log(), 0.0, 0.5, math.inf),
        (Log(), 5e-324, 1.0, -math.log(5e-324)),
        (Poisson(), 0.0, 0.0, 0.0),
        (Poisson(), 0.0, 2.0, math.inf),
        (Tweedie(), 0.0, 0.0, 0.0),
        (Tweedie(), 0.0, 2.0, math.inf),
        (Gamma(), 0.0, 2.0, math.inf),
        (Gamma(), 5e-324, 2.0, math.inf),
        (Squared(), 1e300, 0.0, math.inf),
        (Logistic(), math.inf, 1.0, 0.0),
        (Logistic(), -math.inf, 1.0, math.inf),
        (Logistic(), 1e4, -1.0, 1e4),
        (Exponential(), math.inf, 1.0, 0.0),
        (Exponential(), 1e4, -1.0, math.inf),
        (Linex(), 1e4, 0.0, math.inf),
        (Linex(), -1e4, 0.0, 9999.0),
    ],
    ids=str,
)
def test_values_at_the_ends(loss: Any, z: Any, y: float, value: Any) -> None:
    """Limits, and no warning on the way (warnings are errors here)."""
    answer = float(loss(z, y))
    assert answer == pytest.approx(value, rel=1e-15)
    assert math.copysign(1.0, answer) == 1.0  # 0.0, never -0.0
    assert_array_equal(loss([z, z], y), [answer, answer])


# known values


@pytest.mark.parametrize(
    ("loss", "z", "y", "value"),
    [
        # By hand.
        (Squared(), 1.0, 5.0, 16.0),
        (Log(), 0.25, 1.0, math.log(4)),
        (Log(), 0.25, 0.25, math.log(4) - 0.75 * math.log(3)),  # an entropy
        (Tweedie(), 4.0, 1.0, 5.0),
        (Logistic(), 0.0, 1.0, math.log(2)),
        (Exponential(), 1.0, -1.0, math.e),
        (Exponential(), -2.0, -1.0, math.exp(-2)),
        (Linex(), 1.0, 0.0, math.e - 2),
        (Linex(), 0.0, 1.0, 1 / math.e),
        (Linex(a=2.0), 0.5, 0.0, math.e - 2),
        # scikit-learn, test_loss_on_specific_values: half Poisson and half gamma deviance, and
        # half binomial loss in its extreme cases, which were checked with mpmath.
        (Poisson(), 4.0, 2.0, 4 - 2 * math.log(4)),
        (Gamma(), 4.0, 2.0, math.log(4) + 2 / 4),
        (Logistic(), -1e20, -1.0, 0.0),
        (Logistic(), -1e20, 1.0, 1e20),
        (Logistic(), -37.5, 1.0, 37.5),
        (Logistic(), -37.0, -1.0, math.exp(-37)),
        (Logistic(), 36.9, 1.0, math.exp(-36.9)),
        (Logistic(), 1e3, 1.0, 0.0),
    ],
    ids=str,
)
def test_values_are_those_known(loss: Any, z: float, y: float, value: Any) -> None:
    assert_allclose(loss(z, y), value, rtol=1e-14)


@pytest.mark.parametrize(
    ("loss", "deviance"),
    [
        (Poisson(), metrics.mean_poisson_deviance),
        (Gamma(), metrics.mean_gamma_deviance),
        (Tweedie(power=1.3), lambda y, z: metrics.mean_tweedie_deviance(y, z, power=1.3)),
    ],
    ids=["poisson", "gamma", "tweedie"],
)
def test_deviances_are_those_of_scikit_learn(loss: Any, deviance: Any) -> None:
    """Twice ours and theirs differ by what depends on y alone."""
    rng = np.random.default_rng(1)
    y, z0, z1 = rng.uniform(0.1, 9.0, (3, 50))
    ours = 2.0 * np.mean(loss(z1, y) - loss(z0, y))
    assert ours == pytest.approx(deviance(y, z1) - deviance(y, z0), rel=1e-10)


def test_probability_losses_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    z, y = rng.uniform(size=100), rng.integers(0, 2, 100)
    margin = np.log(z / (1 - z))
    assert Log()(z, y).mean() == pytest.approx(metrics.log_loss(y, z), rel=1e-12)
    assert Squared()(z, y).mean() == pytest.approx(metrics.brier_score_loss(y, z), rel=1e-12)
    half_binomial = HalfBinomialLoss().loss(y_true=y.astype(float), raw_prediction=margin)
    assert_allclose(Logistic()(margin, 2 * y - 1), half_binomial, rtol=1e-12)


@all_losses
def test_values_and_labels_are_broadcast(loss: Any) -> None:
    rng = np.random.default_rng(3)
    y, z = some_labels(loss, rng, 4), some_values(loss, rng, 3)
    table = loss(z[:, None], y)
    assert table.shape == (3, 4)
    assert table.dtype == np.float64
    for i in range(3):
        assert_allclose(loss(z[i], y), table[i], rtol=1e-15)
        assert_allclose(loss(z[i], float(y[0])), table[i, 0], rtol=1e-15)
    assert_allclose(loss(z.tolist(), y[0]), table[:, 0], rtol=1e-15)


# the block minimiser


@all_losses
@pytest.mark.parametrize("seed", range(5))
def test_the_link_of_the_mean_minimises_the_loss_of_a_block(loss: Any, seed: int) -> None:
    """link(mean statistic) minimises the summed loss of random weighted blocks."""
    rng = np.random.default_rng(seed)
    y, w = some_labels(loss, rng, 30), rng.uniform(0.1, 10.0, 30)
    best = loss.link(float(np.average(loss.statistic(y), weights=w)))

    def total(z: Any) -> Any:
        return float(w @ loss(z, y))

    span = (max(loss.z_range.low, -20.0) + 1e-9, min(loss.z_range.high, 20.0) - 1e-9)
    found = minimize_scalar(total, bounds=span, method="bounded", options={"xatol": 1e-9})
    assert best in loss.z_range
    assert total(best) <= found.fun + 1e-9 * abs(found.fun)
    assert best == pytest.approx(found.x, rel=1e-5, abs=1e-5)


@all_losses
def test_gradient_vanishes_at_the_block_minimiser(loss: Any) -> None:
    """By central differences of accuracy 4, as sklearn's numerical_derivative."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        y, w = some_labels(loss, rng, 10), rng.uniform(0.1, 10.0, 10)
        best = loss.link(float(np.average(loss.statistic(y), weights=w)))
        h = 1e-4 * max(abs(best), 0.1)
        f = [float(w @ loss(best + k * h, y)) for k in (-2, -1, 1, 2)]
        gradient = (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h)
        curvature = (f[1] + f[2] - 2 * float(w @ loss(best, y))) / h**2
        assert abs(gradient) <= 1e-5 * curvature * max(abs(best), 0.1)


@all_losses
def test_statistic_is_a_gradient_up_to_the_link(loss: Any) -> None:
    """dl/dz has the sign of inverse_link(z) - statistic(y): pooling by the mean is right."""
    rng = np.random.default_rng(5)
    y, z = some_labels(loss, rng, 40), some_values(loss, rng, 40)
    h = 1e-6 * np.maximum(np.abs(z), 0.01)
    slope = loss(z + h, y) - loss(z - h, y)
    pull = loss.inverse_link(z) - loss.statistic(y)
    clear = np.abs(pull) > 1e-3
    assert_array_equal(np.sign(slope[clear]), np.sign(pull[clear]))


@all_losses
def test_weights_multiply_losses(loss: Any) -> None:
    """A weight of k is the sample k times, and common factors change nothing."""
    rng = np.random.default_rng(6)
    y, k = some_labels(loss, rng, 12), rng.integers(1, 5, 12)
    scores = rng.integers(0, 6, 12)
    weighted = streamcal.isotonic_fit(scores, y, k, loss=loss)
    repeated = streamcal.isotonic_fit(np.repeat(scores, k), np.repeat(y, k), loss=loss)
    scaled = streamcal.isotonic_fit(scores, y, 0.125 * k, loss=loss)
    assert_allclose(weighted.values, repeated.values, rtol=1e-12)
    assert_allclose(weighted.weights, repeated.weights)
    assert_allclose(weighted.values, scaled.values, rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "optimum"),
    [
        *[(loss, lambda y, w: np.average(y, weights=w)) for loss in IDENTITY],
        (Logistic(), lambda y, w: math.log(w[y == 1].sum() / w[y == -1].sum())),
        (Exponential(), lambda y, w: 0.5 * math.log(w[y == 1].sum() / w[y == -1].sum())),
        (Linex(a=0.3), lambda y, w: -math.log(np.average(np.exp(-0.3 * y), weights=w)) / 0.3),
    ],
    ids=lambda v: repr(v) if isinstance(v, MeanLoss) else "",
)
def test_intercept_only_optimum(loss: Any, optimum: Any) -> None:
    """All scores equal: one value, the known statistic of the labels."""
    rng = np.random.default_rng(7)
    y, w = some_labels(loss, rng, 50), rng.uniform(0.5, 2.0, 50)
    stairs = streamcal.isotonic_fit(np.zeros(50), y, w, loss=loss)
    assert_allclose(stairs.values, [optimum(y, w)], rtol=1e-12)


def test_losses_with_one_statistic_share_their_blocks() -> None:
    rng = np.random.default_rng(8)
    scores, y = rng.normal(size=80), rng.uniform(0.1, 0.9, 80)
    first, *others = [streamcal.isotonic_fit(scores, y, loss=loss) for loss in IDENTITY]
    for other in others:
        assert_array_equal(other.lower, first.lower)
        assert_array_equal(other.values, first.values)


# link


@all_losses
def test_link_is_monotone_and_has_its_inverse(loss: Any) -> None:
    rng = np.random.default_rng(9)
    m = np.unique(loss.statistic(some_values(loss, rng, 50)))
    if isinstance(loss.y_range, TwoPoint):
        m = np.unique(rng.uniform(0.0, 1.0, 50))
    z = loss.link(m)
    assert (np.diff(z) > 0).all()
    assert_allclose(loss.inverse_link(z), m, rtol=1e-12)
    assert_allclose(loss.link(loss.inverse_link(z)), z, rtol=1e-12, atol=1e-14)


@all_losses
def test_floats_and_arrays_agree(loss: Any) -> None:
    """A float comes back as a float, and is the array's element."""
    rng = np.random.default_rng(10)
    y, z = some_labels(loss, rng, 10), some_values(loss, rng, 10)
    if isinstance(loss.y_range, TwoPoint):
        z[:2] = [-1000.0, 1000.0]
    m = loss.inverse_link(z)
    for function, points in ((loss.statistic, y), (loss.inverse_link, z), (loss.link, m)):
        whole = function(points)
        assert whole.dtype == np.float64
        for i, point in enumerate(points.tolist()):
            assert type(function(point)) is float
            assert function(point) == pytest.approx(whole[i], rel=1e-14)


@pytest.mark.parametrize("loss", [Logistic(), Exponential()], ids=repr)
def test_margin_of_a_pure_block_is_infinite(loss: Any) -> None:
    for ends in (np.array([0.0, 1.0]), [0.0, 1.0]):
        links = [loss.link(m) for m in ends] if isinstance(ends, list) else loss.link(ends)
        assert_array_equal(links, [-math.inf, math.inf])
    assert_array_equal(loss.inverse_link(np.array([-math.inf, math.inf])), [0.0, 1.0])
    assert loss.inverse_link(-1e4) == 0.0
    assert loss.inverse_link(1e4) == 1.0
    assert loss.inverse_link(-300.0) > 0.0  # small probabilities keep their relative precision


# names, parameters, identity


def test_a_name_gives_the_loss_with_its_defaults() -> None:
    names = ["squared", "log", "poisson", "gamma", "tweedie", "logistic", "exponential", "linex"]
    for name in names:
        assert losses.get(name).name == name
        assert losses.get(name) == losses.get(name)
    assert losses.get("tweedie") == Tweedie(power=1.5)
    assert losses.get(Linex(a=3.0)) == Linex(a=3.0)
    assert len({losses.get(name) for name in names * 2}) == len(names)


@pytest.mark.parametrize("name", ["", "Log", "brier", "log "])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"`loss` must be one of 'squared', .*, got {name!r}"):
        losses.get(name)


@pytest.mark.parametrize("thing", [None, 3, Log, ["log"]])
def test_not_a_loss(thing: Any) -> None:
    with pytest.raises(TypeError, match="`loss` must be a name or a Loss, got"):
        losses.get(thing)


@all_losses
def test_identity_hash_pickle_repr(loss: Any) -> None:
    copy = pickle.loads(pickle.dumps(loss))
    assert copy == loss
    assert hash(copy) == hash(loss)
    assert copy.y_range == loss.y_range
    assert eval(repr(loss), vars(losses)) == loss
    assert sum(other == loss for other in ALL) == 1


@pytest.mark.parametrize("loss", [Log(), Tweedie(), Linex()], ids=repr)
@pytest.mark.parametrize("attribute", ["power", "a", "name", "other"])
def test_losses_are_immutable(loss: Any, attribute: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(loss, attribute, 1.2)


def test_parameters_are_keywords_and_become_floats() -> None:
    with pytest.raises(TypeError):
        Tweedie(1.2)
    assert repr(Linex(a=2)) == "Linex(a=2.0)"
    assert Linex(a=2) == Linex(a=2.0)
    assert repr(Log()) == "Log()"


@pytest.mark.parametrize("power", [1, 2.0, 0, 3, math.nan, -math.inf])
def test_tweedie_power_out_of_range(power: Any) -> None:
    with pytest.raises(ValueError, match=r"`power` must lie in \(1, 2\), got"):
        Tweedie(power=power)


@pytest.mark.parametrize("a", [0, -1.0, math.inf, math.nan])
def test_linex_a_out_of_range(a: Any) -> None:
    with pytest.raises(ValueError, match=r"`a` must lie in \(0, inf\), got"):
        Linex(a=a)


@pytest.mark.parametrize("make", [lambda: Linex(a="1"), lambda: Tweedie(power=None)])
def test_parameters_that_are_not_numbers(make: Any) -> None:
    with pytest.raises(TypeError, match="must be a number, got"):
        make()


def test_linex_refuses_labels_whose_statistic_overflows_or_vanishes() -> None:
    """exp(-a y) of such labels would be inf or 0, and their block's value infinite."""
    for y in (-1000.0, 1000.0):
        with pytest.raises(ValueError, match=r"`y` must lie in \[-700, 700\] for the linex loss"):
            streamcal.isotonic_fit([1, 2], [0.0, y], loss="linex")
    extreme = streamcal.isotonic_fit([1, 2], [-700.0, 700.0], loss="linex")
    assert_allclose(extreme.values, [-700.0, 700.0], rtol=1e-14)


# a user's own


@dataclass(frozen=True, kw_only=True)
class CubicMean(MeanLoss):
    """l(z, y) = z^4 / 4 - z y^3, whose minimiser is the cube root of the mean cube."""

    name = "cubic-mean"
    y_range = Interval(-math.inf, math.inf)
    z_range = Interval(-math.inf, math.inf)

    def __call__(self, z: Any, y: Any) -> Any:
        z, y = np.asarray(z), np.asarray(y)
        return z**4 / 4 - z * y**3

    def statistic(self, y: Any) -> Any:
        return y**3

    def link(self, m: Any) -> Any:
        return np.cbrt(m)

    def inverse_link(self, z: Any) -> Any:
        return z**3


def test_own_loss_is_a_short_subclass() -> None:
    stairs = streamcal.isotonic_fit([1, 2, 3], [2.0, 1.0, 3.0], loss=CubicMean())
    assert_allclose(stairs.values, [4.5 ** (1 / 3), 3.0])
    assert losses.get(CubicMean()) is not None
    assert CubicMean() == CubicMean()
    assert pickle.loads(pickle.dumps(CubicMean())) == CubicMean()


def test_loss_that_is_not_mean_type_is_refused_where_a_mean_is_needed() -> None:
    @dataclass(frozen=True)
    class Absolute(losses.Loss):
        name = "absolute"
        y_range = z_range = Interval(-math.inf, math.inf)

        def __call__(self, z: Any, y: Any) -> Any:
            return np.abs(np.subtract(z, y))

    assert losses.get(Absolute()) == Absolute()
    with pytest.raises(TypeError, match=r"`loss` must be a mean-type loss .*Absolute"):
        streamcal.isotonic_fit([1, 2], [1, 2], loss=Absolute())


def test_importing_losses_compiles_nothing() -> None:
    code = "import sys, streamcal.losses; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_values_need_no_jax() -> None:
    code = (
        "import sys\nfrom streamcal import losses\n"
        "assert losses.Huber()(3.0, 0.0) == 2.5\nassert losses.get('lp')(4.0, 0.0) == 8.0\n"
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
