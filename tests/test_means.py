"""Diagnostics of predicted means of counts and amounts: by other packages, and by definition."""

import copy
import math
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from model_diagnostics.scoring import HomogeneousExpectileScore
from model_diagnostics.scoring import decompose as reference
from river import datasets, evaluate, linear_model, preprocessing
from river import stats as river_stats
from river.dummy import StatisticRegressor
from river.naive_bayes import GaussianNB
from river.utils import Rolling
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import (
    d2_tweedie_score,
    mean_gamma_deviance,
    mean_poisson_deviance,
    mean_squared_error,
    mean_tweedie_deviance,
)

from streamcal import losses
from streamcal.metrics import CORP, ECE, RollingCORP
from streamcal.metrics.bands import mean_band
from streamcal.plot import ReliabilityDisplay
from streamcal.plot.reliability_curve import ReliabilityCurve

mpl.use("Agg")

LOSSES: Any = {
    "squared": ("squared", 0.0),
    "poisson": ("poisson", 1.0),
    "tweedie": ("tweedie", 1.5),
    "tweedie 1.2": (losses.Tweedie(power=1.2), 1.2),
    "gamma": ("gamma", 2.0),
}
every_loss = pytest.mark.parametrize(("loss", "power"), LOSSES.values(), ids=LOSSES)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[Any]:
    yield
    plt.close("all")


def draw(power: float, n: int = 300, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return labels, predictions, some of which are equal, and weights."""
    rng = np.random.default_rng(seed)
    p = np.exp(rng.normal(0.5, 0.6, n)).round(1) + 0.1
    y = rng.poisson(1.2 * p**0.8).astype(float)
    if power == 2.0:
        y = rng.exponential(1.2 * p**0.8)
    if power == 0.0:
        y, p = y - 2.0, p - 2.0
    return y, p, rng.integers(1, 4, n).astype(float)


def fill(metric: Any, y: Any, p: Any, w: Any = None) -> Any:
    for sample in zip(y, p, np.ones(len(p)) if w is None else w, strict=True):
        metric.update(*sample)
    return metric


# The decomposition --------------------------------------------------------------------------------


@every_loss
def test_the_parts_are_those_of_model_diagnostics(loss: Any, power: float) -> None:
    y, p, w = draw(power)
    metric = fill(CORP(loss=loss), y, p, w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # polars
        # Its degree is that of y: 2 is the squared error, 1 the Poisson deviance, 0 the gamma one.
        score = HomogeneousExpectileScore(degree=2.0 - power)
        found = reference(y, p, w, scoring_function=score, functional="mean").to_dicts()[0]
    split = metric.split()
    assert split.mean_score == pytest.approx(found["score"])
    assert split.mcb == pytest.approx(found["miscalibration"])
    assert split.dsc == pytest.approx(found["discrimination"])
    assert split.unc == pytest.approx(found["uncertainty"])
    assert metric.get() == metric.mcb == split.mcb
    assert split.mean_score == pytest.approx(split.mcb - split.dsc + split.unc)


@every_loss
def test_the_mean_is_that_of_scikit_learn(loss: Any, power: float) -> None:
    y, p, w = draw(power)
    metric = fill(CORP(loss=loss), y, p, w)
    assert metric.mean_score == pytest.approx(
        mean_tweedie_deviance(y, p, sample_weight=w, power=power)
    )
    explained = d2_tweedie_score(y, p, sample_weight=w, power=power)
    assert (metric.dsc - metric.mcb) / metric.unc == pytest.approx(explained)


def test_names_are_those_of_scikit_learn() -> None:
    y, p, _ = draw(2.0)
    assert fill(CORP(loss="gamma"), y, p).mean_score == pytest.approx(mean_gamma_deviance(y, p))
    assert fill(CORP(loss="squared"), y, p).mean_score == pytest.approx(mean_squared_error(y, p))
    y = y.round()
    assert fill(CORP(loss="poisson"), y, p).mean_score == pytest.approx(mean_poisson_deviance(y, p))


@every_loss
def test_what_is_removed_leaves_no_trace(loss: Any, power: float) -> None:
    y, p, w = draw(power)
    metric = fill(CORP(loss=loss), y, p, w)
    for sample in zip(y[:200], p[:200], w[:200], strict=True):
        metric.revert(*sample)
    rest = fill(CORP(loss=loss), y[200:], p[200:], w[200:])
    assert metric.split() == pytest.approx(rest.split(), abs=1e-12)
    assert copy.deepcopy(metric).split() == metric.split()
    assert pickle.loads(pickle.dumps(metric)).split() == metric.split()
    fresh = metric.clone()
    assert fresh.loss == loss
    assert fresh.split() == (0.0, 0.0, 0.0, 0.0)


@every_loss
def test_a_window_has_the_parts_of_its_samples(loss: Any, power: float) -> None:
    y, p, w = draw(power)
    expected = fill(CORP(loss=loss), y[-50:], p[-50:], w[-50:]).split()
    rolling = fill(RollingCORP(window=50, every=100, loss=loss), y, p, w)
    assert rolling._corp.split() == pytest.approx(expected, abs=1e-12)
    assert [point.n_samples for point in rolling.history] == [100, 200, 300]
    river = fill(Rolling(CORP, window_size=50, loss=loss), y, p, w)
    assert river.split() == pytest.approx(expected, abs=1e-12)
    rolling.revert(y[-1], p[-1], w[-1])
    expected = fill(CORP(loss=loss), y[-50:-1], p[-50:-1], w[-50:-1]).split()
    assert rolling._corp.split() == pytest.approx(expected, abs=1e-12)


def test_parts_of_large_numbers_keep_their_digits() -> None:
    """E[y²] − ȳ² would lose all of them."""
    rng = np.random.default_rng(0)
    y = 1e9 + rng.normal(0.0, 1.0, 200)
    metric = fill(CORP(loss="squared"), y, np.full(200, 1e9))
    assert metric.unc == pytest.approx(np.mean((y - y.mean()) ** 2), rel=1e-6)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_no_count_was_thought_possible(loss: Any) -> None:
    """A prediction of 0 is right for 0, and infinitely wrong for a positive label."""
    metric = fill(CORP(loss=loss), [0, 0, 1], [0.0, 1.0, 1.0])
    expected = metric.split()
    assert math.isfinite(expected.mean_score)
    metric.update(2, 0.0)
    assert metric.mean_score == metric.mcb == math.inf
    assert math.isfinite(metric.unc)
    assert math.isfinite(metric.dsc)
    metric.revert(2, 0.0)
    assert metric.split() == pytest.approx(expected)


@pytest.mark.parametrize("loss", ["poisson", "tweedie", "gamma"])
def test_tiny_labels_do_not_spoil_the_sums(loss: Any) -> None:
    metric = fill(CORP(loss=loss), [5e-324, 1e50, 1.0], [1.0, 1.0, 2.0])
    assert all(map(math.isfinite, metric.split()))
    metric.revert(1e50, 1.0)
    metric.revert(5e-324, 1.0)
    assert metric.split() == pytest.approx(fill(CORP(loss=loss), [1.0], [2.0]).split(), abs=1e-9)


def test_equal_labels_have_no_uncertainty() -> None:
    for loss in ("squared", "poisson", "tweedie", "gamma"):
        split = fill(CORP(loss=loss), [3, 3, 3], [3.0, 3.0, 3.0]).split()
        assert split == (0.0, 0.0, 0.0, 0.0)
    assert fill(CORP(loss="poisson"), [0, 0], [1.0, 2.0]).split() == pytest.approx((3, 3, 0, 0))


def test_regressors_of_river_are_measured() -> None:
    model = preprocessing.StandardScaler() | linear_model.LinearRegression()
    metric = CORP(loss="squared")
    assert metric.works_with(model)
    assert RollingCORP(loss="squared").works_with(model)
    assert not CORP().works_with(model)
    assert not metric.works_with(GaussianNB())
    found = evaluate.progressive_val_score(datasets.TrumpApproval().take(200), model, metric)
    assert found is metric
    assert metric.mean_score > 0.0
    assert metric.mean_score == pytest.approx(metric.mcb - metric.dsc + metric.unc)


@every_loss
def test_ece_is_the_mean_gap_over_bins_of_equal_mass(loss: Any, power: float) -> None:
    y, p, w = draw(power)
    metric = fill(ECE(strategy="mass", loss=loss, n_bins=5), y, p, w)
    x = np.unique(p)
    total = np.array([w[p == value].sum() for value in x])
    bins = (5 * (np.cumsum(total) - 0.5 * total) / w.sum()).astype(int)[np.searchsorted(x, p)]
    gaps = [abs(w[bins == b] @ (y - p)[bins == b]) for b in range(5)]
    assert metric.get() == pytest.approx(sum(gaps) / w.sum())
    for sample in zip(y[:100], p[:100], w[:100], strict=True):
        metric.revert(*sample)
    rest = fill(ECE(strategy="mass", loss=loss, n_bins=5), y[100:], p[100:], w[100:])
    assert metric.get() == pytest.approx(rest.get())
    assert metric.clone().get() == 0.0


def test_ece_of_many_scores_is_bounded_in_memory() -> None:
    rng = np.random.default_rng(0)
    p = rng.normal(0.0, 100.0, 3000)
    y = p + rng.normal(5.0, 1.0, 3000)
    exact = fill(ECE(strategy="mass", loss="squared"), y, p)
    merged = fill(ECE(strategy="mass", loss="squared", max_scores=100), y, p)
    assert len(merged._cells) <= 100
    assert exact.get() == pytest.approx(5.0, abs=0.2)  # it may exceed 1
    assert merged.get() == pytest.approx(exact.get(), abs=0.2)


def test_ece_of_means_has_no_bins_of_equal_width() -> None:
    with pytest.raises(ValueError, match="`strategy` must be 'mass' where `loss` is given"):
        ECE(loss="poisson")
    with pytest.raises(ValueError, match="`multiclass` must be left out where `loss` is given"):
        ECE(loss="poisson", strategy="mass", multiclass="classwise")
    with pytest.raises(ValueError, match="for counts or amounts write loss='poisson'"):
        ECE().update(3, 0.5)


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [CORP, RollingCORP])
def test_what_is_out_of_range_changes_nothing(kind: Any) -> None:
    metric = fill(kind(loss="poisson"), [1, 2], [1.0, 1.5])
    before = metric.get()
    for sample, message in (
        ((-1, 1.0), r"`y_true` must lie in \[0, inf\) for the poisson loss, got -1"),
        ((math.inf, 1.0), r"`y_true` must lie in \[0, inf\)"),
        ((1, -0.5), r"`y_pred` must lie in \[0, inf\) for the poisson loss, got -0.5"),
        ((1, math.nan), "`y_pred` must lie in"),
        ((1e61, 1.0), r"`y_true` must be at most 1e\+60 in size, got 1e\+61"),
        ((1, 1e61), r"`y_pred` must be at most 1e\+60 in size, got 1e\+61"),
        ((math.nan, 1.0), "`y_true` must be a label, got nan"),
        ((None, 1.0), "`y_true` must be a label, got None"),
    ):
        with pytest.raises(ValueError, match=message):
            metric.update(*sample)
    for wrong in (("3", 1.0), (1, "3"), (1, {True: 0.5}), ([1], 1.0)):
        with pytest.raises(TypeError, match=r"`y_(true|pred)` must be"):
            metric.update(*wrong)
    metric.update(1, None)  # no prediction yet, as of many models of river
    assert metric.get() == before
    with pytest.raises(ValueError, match=r"`y_pred` must lie in \(0, inf\) for the gamma loss"):
        kind(loss="gamma").update(1.0, 0.0)
    with pytest.raises(ValueError, match=r"`y_true` must lie in \(0, inf\) for the gamma loss"):
        kind(loss="gamma").update(0.0, 1.0)


def test_a_loss_is_alone() -> None:
    y, p = [0, 3], [0.5, 2.0]
    for kind in (
        CORP,
        RollingCORP,
        lambda **options: ReliabilityDisplay.from_predictions(y, p, **options),
        lambda **options: ReliabilityDisplay.from_models({"a": (y, p)}, **options),
        lambda **options: ReliabilityCurve.from_predictions(y, p, **options),
    ):
        with pytest.raises(ValueError, match="`scoring` must be left out where `loss` is given"):
            kind(loss="poisson", scoring="log")
        with pytest.raises(ValueError, match="`pos_val` must be left out where `loss` is given"):
            kind(loss="poisson", pos_val=3)
        with pytest.raises(ValueError, match=r"'tweedie', or a Tweedie, .* got 'poison'; did you"):
            kind(loss="poison")
        with pytest.raises(ValueError, match=r"for means of labels, got Linex"):
            kind(loss=losses.Linex())
        with pytest.raises(TypeError, match=r"`loss` must be one of"):
            kind(loss=3)
    with pytest.raises(ValueError, match="`multiclass` must be left out where `loss` is given"):
        CORP(loss="poisson", multiclass="top-label")


@pytest.mark.parametrize("kind", [CORP, RollingCORP])
@pytest.mark.parametrize("sample", [(3, 0.5), (0.7, 0.5), (1, 2.5), (12, 10.0), (-1.0, 0.5)])
def test_without_a_loss_counts_are_refused_with_what_to_write(kind: Any, sample: Any) -> None:
    metric = kind()
    if sample == (0.7, 0.5):  # swapped arguments are likelier
        with pytest.raises(ValueError, match="labels come first"):
            metric.update(*sample)
        return
    with pytest.raises(ValueError, match=r"for counts or amounts write loss='poisson'"):
        metric.update(*sample)
    assert metric.get() == 0.0


def test_pictures_of_counts_say_what_to_write() -> None:
    for y, p in (([0, 1, 2], [0.5, 0.5, 0.5]), ([0, 1], [0.5, 2.5]), ([0, 3, 5, 2], [1, 2, 3, 4])):
        with pytest.raises(ValueError, match="for counts or amounts write loss='poisson'"):
            ReliabilityDisplay.from_predictions(y, p)
        with pytest.raises(ValueError, match="for counts or amounts write loss='poisson'"):
            ReliabilityDisplay.from_models({"a": (y, p)})
    with pytest.raises(ValueError, match=r"`y_true` must hold at most two labels") as raised:
        ReliabilityDisplay.from_predictions(["a", "b", "c"], [0.5, 0.5, 0.5], pos_val="a")
    assert "loss=" not in str(raised.value)


# Pictures and bands -------------------------------------------------------------------------------


@every_loss
def test_a_picture_has_the_parts_of_the_metric(loss: Any, power: float) -> None:
    y, p, _ = draw(power)
    display = ReliabilityDisplay.from_predictions(y, p, loss=loss, n_resamples=20)
    (curve,) = display.curves
    assert curve.decomposition == pytest.approx(fill(CORP(loss=loss), y, p).split())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == (
        "Predicted mean",
        "Observed mean",
    )
    assert display.ax_.get_aspect() == 1.0
    left, right = curve.edges[[0, -1]]
    assert left <= p.min() < p.max() <= right
    assert curve.mass.sum() == len(p)
    assert curve.band.lower.min() >= (-math.inf if power == 0.0 else 0.0)
    model = ReliabilityCurve.from_predictions(y, p, loss=loss, level=None)
    assert model.band is None
    assert model.decomposition == curve.decomposition


def test_the_range_of_a_picture() -> None:
    def ends(y: Any, p: Any, loss: Any = "squared") -> Any:
        display = ReliabilityDisplay.from_predictions(y, p, loss=loss, level=None)
        return display.curves[0].edges[[0, -1]].tolist()

    assert ends([1, 2, 30], [10.0, 12.0, 20.0]) == pytest.approx([0.0, 29.72], abs=0.01)
    assert ends([18, 19, 22], [15.0, 16.0, 20.0]) == [15.0, pytest.approx(21.97)]  # not from 0
    assert ends([5, 5], [5.0, 5.0]) == [2.5, 7.5]
    assert ends([0, 0], [0.0, 0.0], "poisson") == [-0.5, 0.5]


def test_a_curve_far_outside_is_cut_and_kept_as_numbers() -> None:
    y, p, _ = draw(1.0)
    y, p = np.append(y, 500.0), np.append(p, 20.0)
    display = ReliabilityDisplay.from_predictions(y, p, loss="poisson", level=None)
    assert display.lines_[0].get_ydata().max() == 500.0
    right = display.curves[0].edges[-1]
    assert right < 50.0
    box = display.lines_[0].get_clip_box().transformed(display.ax_.transData.inverted())
    assert box.y1 == pytest.approx(1.015 * right)


def test_several_models_and_a_regressor() -> None:
    y, p, _ = draw(1.0)
    display = ReliabilityDisplay.from_models(
        {"a": (y, p), "b": (y[:99], 2 * p[:99])}, loss="poisson"
    )
    assert [curve.n_samples for curve in display.curves] == [300, 99]
    assert display.curves[0].edges.tolist() == display.curves[1].edges.tolist()
    river = StatisticRegressor(river_stats.Mean())
    display = ReliabilityDisplay.from_estimator(
        river, [({}, label) for label in y], loss="squared", level=None
    )
    assert display.curves[0].name == "StatisticRegressor"
    assert display.curves[0].n_samples == 300
    fitted = PoissonRegressor().fit(p[:, None], y)
    display = ReliabilityDisplay.from_estimator(fitted, p[:, None], y, loss="poisson", level=None)
    expected = fill(CORP(loss="poisson"), y, fitted.predict(p[:, None])).split()
    assert display.curves[0].decomposition == pytest.approx(expected)
    with pytest.raises(TypeError, match="`estimator` must be a regressor where `loss` is given"):
        ReliabilityDisplay.from_estimator(GaussianNB(), [], loss="poisson")
    with pytest.raises(TypeError, match=r"`y` must be the labels of `X`"):
        ReliabilityDisplay.from_estimator(fitted, p[:, None], loss="poisson")


def test_predictions_that_are_refused_in_pictures() -> None:
    for y, p, message in (
        ([], [], "`y_prob` must hold at least one prediction, got none"),
        ([1, 2], [1.0], r"`y_true` must have one value per score \(1\), got 2"),
        ([1, math.nan], [1.0, 2.0], r"`y_true` must lie in \[0, inf\).* at position 1; leave out"),
        ([1, 2], [1.0, -2.0], r"`y_prob` must lie in \[0, inf\) .* got -2.0 at position 1"),
        ([1, 2], [1.0, math.inf], "`y_prob` must be finite, got inf at position 1"),
        ([1, 1e61], [1.0, 2.0], r"`y_true` must be at most 1e\+60 in size, got 1e\+61"),
        ([1, 2], [1.0, 1e61], r"`y_prob` must be at most 1e\+60 in size, got 1e\+61"),
    ):
        with pytest.raises(ValueError, match=message):
            ReliabilityDisplay.from_predictions(y, p, loss="poisson")
        with pytest.raises(ValueError, match=message):
            ReliabilityDisplay.from_models({"a": (y, p)}, loss="poisson")
    display = ReliabilityDisplay.from_models(
        {"a": ([1, 2], [1.0, 2.0])}, loss="poisson", level=0.8, n_resamples=10
    )
    assert (display.band, len(display.bands_)) == ("consistency", 1)


def test_bands_that_do_not_hold_are_refused() -> None:
    y, p, _ = draw(1.0)
    for options in ({"band": "confidence"}, {"method": "asymptotic"}):
        with pytest.raises(ValueError, match="no other band is known to hold"):
            ReliabilityDisplay.from_predictions(y, p, loss="poisson", **options)
    with pytest.raises(ValueError, match=r"`band` needs labels 0 and 1, got loss='poisson'"):
        fill(CORP(loss="poisson"), y, p).band()


@pytest.mark.parametrize("labels", ["poisson", "exponential", "overdispersed"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_band_covers_what_it_promises(labels: str, shared: bool) -> None:
    """At level .9, with labels of several distributions; the tolerance is by chance."""
    rng = np.random.default_rng(7)
    inside = []
    for _ in range(40):
        u = (rng.integers(10, size=600) + 0.5) / 10 if shared else rng.random(600)
        p = 0.2 + 5.0 * u
        if labels == "exponential":
            y = rng.exponential(p)
        else:
            rate = p * (1.0 if labels == "poisson" else rng.gamma(0.5, 2.0, 600))
            y = rng.poisson(rate).astype(float)
        x, group = np.unique(p, return_inverse=True)
        n = np.bincount(group).astype(float)
        band = mean_band(x, n, np.bincount(group, (y - p) ** 2), least=0.0, n_resamples=100)
        fit = fill(CORP(loss="squared"), y, p).staircase()(band.scores)
        covered = (band.lower - 1e-9 <= fit) & (fit <= band.upper + 1e-9)
        inside.append(covered[[np.argmin(np.abs(band.scores - at)) for at in (2.5, 3.5, 4.5)]])
    assert 0.78 <= np.mean(inside) <= 0.97


def test_a_band_of_many_scores_is_bounded_in_size() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(5_000) * 10.0
    y = rng.poisson(p)
    curve = ReliabilityCurve.from_predictions(y, p, loss="poisson", n_resamples=10)
    assert len(curve.band.scores) <= 1000
    assert (np.diff(curve.band.lower) >= 0.0).all()
    assert (curve.band.lower <= curve.band.upper).all()
