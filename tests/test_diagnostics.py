"""Bands, smooth ECE, Spiegelhalter's z and the rolling split: by definition, and by simulation."""

import math
import pickle
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib import pyplot as plt
from scipy.stats import chi2
from sklearn.isotonic import IsotonicRegression

from streamcal.metrics import CORP, ECE, RollingCORP, SmoothECE, SpiegelhalterZ, smooth_ece
from streamcal.metrics import bands as band_module
from streamcal.metrics.bands import KINDS, METHODS, chernoff_quantile, corp_band
from streamcal.plot import MiscalibrationDisplay, ReliabilityDisplay
from tests import oracles_diagnostics as oracles

mpl.use("Agg")

Y = [0, 0, 0, 1, 1, 1]
P = [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[Any]:
    yield
    plt.close("all")


def fill(metric: Any, y: Any, p: Any, w: Any = None) -> Any:
    for sample in zip(y, p, np.ones(len(p)) if w is None else w, strict=True):
        metric.update(*sample)
    return metric


def binned(p: Any, y: Any) -> tuple[Any, Any, Any]:
    scores, group = np.unique(p, return_inverse=True)
    return scores, np.bincount(group).astype(float), np.bincount(group, y)


# Bands --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "distinct"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_bands_cover_what_they_promise(kind: Any, method: Any, shared: bool) -> None:
    """At level .9, in the middle of the scores, over streams; the tolerance is by chance."""
    rng = np.random.default_rng(7)
    wide = kind == "confidence" and method == "asymptotic" and not shared  # on purpose, and slow
    inside = []
    for _ in range(10 if wide else 40):
        n = 600
        p = (rng.integers(10, size=n) + 0.5) / 10 if shared else rng.random(n)
        truth = p if kind == "consistency" else p**2
        scores, counts, hits = binned(p, rng.random(n) < truth)
        band = corp_band(scores, counts, hits, kind=kind, method=method, n_resamples=100)
        if kind == "consistency":
            target = IsotonicRegression().fit(scores, hits / counts, counts).predict(scores)
        else:
            target = scores**2
        at = [np.argmin(np.abs(scores - x)) for x in (0.45, 0.65, 0.85)]
        covered = (band.lower - 1e-9 <= target) & (target <= band.upper + 1e-9)
        inside.append(covered[at])
    assert 0.8 <= np.mean(inside) <= (1.0 if wide else 0.97)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@given(drawn=st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=30))
@settings(max_examples=15, deadline=None)
def test_bands_are_ordered_inside_the_unit_interval_and_grow_with_level(
    kind: Any, method: Any, drawn: Any
) -> None:
    metric = fill(CORP(), [y for _, y in drawn], [i / 8 for i, _ in drawn])
    narrow, wide = (
        metric.band(kind, method=method, level=level, n_resamples=20) for level in (0.5, 0.9)
    )
    scores = np.unique([i / 8 for i, _ in drawn])
    for band in (narrow, wide):
        np.testing.assert_array_equal(band.scores, scores)
        assert (band.lower >= 0).all()
        assert (band.lower <= band.upper).all()
        assert (band.upper <= 1).all()
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()
    if method == "asymptotic":  # resamples of few labels may all lie on one side
        center = metric.staircase()(scores) if kind == "confidence" else scores
        assert (wide.lower <= center + 1e-9).all()
        assert (center <= wide.upper + 1e-9).all()


@given(
    drawn=st.lists(st.tuples(st.integers(1, 20), st.floats(0, 1)), min_size=1, max_size=8),
    level=st.sampled_from([0.5, 0.9, 0.99]),
)
@settings(max_examples=30, deadline=None)
def test_likelihood_ratio_bands_end_where_it_reaches_its_limit(drawn: Any, level: float) -> None:
    n = np.array([float(count) for count, _ in drawn])
    hits = np.round([count * share for count, share in drawn])
    x = (np.arange(len(n)) + 0.5) / len(n)
    band = corp_band(x, n, hits, kind="confidence", method="asymptotic", level=level)
    limit = chi2(1).ppf(level)
    for k in range(len(x)):
        for end in (band.lower[k], band.upper[k]):
            ratio = oracles.likelihood_ratio(x, n, hits / n, k, end)
            if 1e-6 < end < 1 - 1e-6:
                assert ratio == pytest.approx(limit, rel=1e-3)
            else:
                assert ratio <= limit + 1e-3


def test_asymptotic_bands_of_one_score_are_textbook_intervals() -> None:
    metric = fill(CORP(), [True] * 30 + [False] * 70, [0.2] * 100)
    band = metric.band(method="asymptotic", level=0.95)
    half = 1.959964 * math.sqrt(0.2 * 0.8 / 100)
    np.testing.assert_allclose([band.lower[0], band.upper[0]], [0.2 - half, 0.2 + half], atol=1e-6)
    band = metric.band("confidence", method="asymptotic", level=0.95)
    for end in (band.lower[0], band.upper[0]):
        ratio = 60 * math.log(0.3 / end) + 140 * math.log(0.7 / (1 - end))
        assert ratio == pytest.approx(3.841459, rel=1e-5)


def test_limit_of_the_likelihood_ratio_for_distinct_scores() -> None:
    rng = np.random.default_rng(1)
    x = (np.arange(101) + 0.5) / 101
    drawn = [
        oracles.likelihood_ratio(x, np.ones(101), (rng.random(101) < x).astype(float), 50, 0.5)
        for _ in range(300)
    ]
    assert np.mean(np.array(drawn) <= 2.3) == pytest.approx(0.95, abs=0.03)
    assert np.mean(np.array(drawn) <= chi2(1).ppf(0.95)) > 0.97


def test_quantiles_of_the_law_of_chernoff_are_those_known() -> None:
    # By adaptive quadrature of the density.
    for q, exact in [(0.5, 0.0), (0.9, 0.664235), (0.95, 0.845081), (0.975, 0.998181)]:
        assert chernoff_quantile(q) == pytest.approx(exact, abs=2e-4)
        assert chernoff_quantile(1 - q) == pytest.approx(-exact, abs=2e-4)
    drawn = oracles.argmax_of_motion(4000, seed=1)
    assert np.quantile(drawn, 0.9) == pytest.approx(chernoff_quantile(0.9), abs=0.05)


def test_weights_count_samples() -> None:
    y, p, w = [True, False, True], [0.25, 0.25, 0.75], [2.0, 3.0, 1.0]
    weighted = fill(CORP(), y, p, w)
    repeated = fill(CORP(), np.repeat(y, [2, 3, 1]), np.repeat(p, [2, 3, 1]))
    for kind in KINDS:
        for method in METHODS:
            for ours, theirs in zip(
                weighted.band(kind, method=method), repeated.band(kind, method=method), strict=True
            ):
                np.testing.assert_array_equal(ours, theirs)
    weighted.update(True, 0.75, 0.5)
    with pytest.raises(ValueError, match=r"`w` must add up to whole numbers.*got 1.5 at score"):
        weighted.band()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_many_scores_are_grouped(kind: Any, method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    p = rng.random(1500)
    exact = binned(p, rng.random(1500) < p**1.5)
    monkeypatch.setattr(band_module, "_MAX_GROUPS", 10_000)
    x, low, high = corp_band(*exact, kind=kind, method=method, n_resamples=100)
    monkeypatch.setattr(band_module, "_MAX_GROUPS", 300)
    grouped = corp_band(*exact, kind=kind, method=method, n_resamples=100)
    assert len(grouped.scores) <= 300 < len(x)
    for ours, theirs in zip(grouped[1:], (low, high), strict=True):
        gap = np.abs(np.interp(x, grouped.scores, ours) - theirs)
        assert np.quantile(gap, 0.9) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "prediction"}, "`kind` must be one of 'consistency', 'confidence'"),
        ({"method": "bootstrap"}, "`method` must be one of 'resampling', 'asymptotic'"),
        ({"level": 1.0}, r"`level` must lie in \(0, 1\), got 1.0"),
        ({"level": math.nan}, r"`level` must lie in \(0, 1\), got nan"),
        ({"n_resamples": 0}, "`n_resamples` must be a positive int, got 0"),
    ],
)
def test_bad_arguments_of_bands_are_refused(options: Any, message: str) -> None:
    metric = fill(CORP(), Y, P)
    with pytest.raises(ValueError, match=message):
        metric.band(**options)
    with pytest.raises(ValueError, match="`band` needs at least one prediction"):
        CORP().band()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_display_draws_the_metrics_band(kind: Any, method: Any) -> None:
    rng = np.random.default_rng(2)
    p = rng.random(200).round(2)
    y = rng.random(200) < p
    display = ReliabilityDisplay.from_predictions(y, p, band=kind, method=method, n_resamples=50)
    expected = fill(CORP(), y, p).band(kind, method=method, n_resamples=50)
    for ours, theirs in zip(display.curves[0].band, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    words = [area.get_text() for area in display.text_.findobj(mpl.offsetbox.TextArea)]
    assert f"90% {kind} band" in words


# Smooth ECE ---------------------------------------------------------------------------------------

residuals = st.lists(
    st.tuples(st.booleans(), st.floats(0, 1), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=12,
)


@given(stream=residuals, sigma=st.sampled_from([0.03, 0.1, 0.5, 2.0]))
@settings(max_examples=30, deadline=None)
def test_smooth_ece_at_a_width_is_the_integral(stream: Any, sigma: float) -> None:
    y, p, w = np.array(stream, dtype=float).T
    expected = oracles.smooth_ece_at(y, p, w, sigma)
    assert smooth_ece(y, p, w=w, bandwidth=sigma) == pytest.approx(expected, abs=1e-4)
    assert fill(SmoothECE(), y, p, w).at_bandwidth(sigma) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("power", [1.0, 1.3, 3.0])
def test_smooth_ece_is_the_width_that_equals_its_error(power: float) -> None:
    rng = np.random.default_rng(3)
    p, w = rng.random(80), rng.choice([0.5, 2.0], 80)
    y = (rng.random(80) < p**power).astype(float)
    value = smooth_ece(y, p, w=w)
    assert value == pytest.approx(oracles.smooth_ece(y, p, w), abs=1e-5)
    assert value == pytest.approx(smooth_ece(y, p, w=w, bandwidth=value), abs=1e-9)
    assert value == pytest.approx(fill(SmoothECE(), y, p, w).get(), abs=1e-12)
    assert value == pytest.approx(smooth_ece(1 - y, 1 - p, w=w), abs=1e-9)


def test_smooth_ece_of_residuals_of_one_sign_is_their_mean() -> None:
    assert smooth_ece([0, 0], [0.25, 0.5]) == pytest.approx(0.375)
    assert smooth_ece([1, 0, 1], [1.0, 0.0, 1.0]) == 0.0
    assert smooth_ece([1], [0.0]) == pytest.approx(1.0)


def test_smooth_ece_is_continuous_where_bins_are_not() -> None:
    y, p = [1, 0] * 50, [0.5, 0.5] * 50
    moved = [0.5 + (1e-3 if happened else -1e-3) for happened in y]
    assert abs(smooth_ece(y, p) - smooth_ece(y, moved)) < 0.03
    assert fill(ECE(), y, p).get() == 0.0
    assert fill(ECE(), y, moved).get() > 0.49


def test_smooth_ece_memory_is_the_grid() -> None:
    metric = SmoothECE(n_cells=64)
    fill(metric, [True] * 500, np.linspace(0, 1, 500))
    size = len(pickle.dumps(metric))  # each node that has a sample has a sum
    fill(metric, [True, False] * 5000, np.random.default_rng(0).random(10_000))
    assert len(pickle.dumps(metric)) <= 1.5 * size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SmoothECE(n_cells=1), "`n_cells` must be an int of at least 2, got 1"),
        (lambda: smooth_ece(Y, P, n_cells=True), "`n_cells` must be an int of at least 2"),
        (lambda: smooth_ece(Y, P, bandwidth=0.0), r"`bandwidth` must lie in \(0, inf\)"),
        (lambda: SmoothECE().at_bandwidth(math.nan), "`bandwidth` must lie in"),
        (lambda: smooth_ece([], []), "`y_prob` must hold at least one prediction"),
        (lambda: smooth_ece(Y, P[:-1]), "`y_true` must have one value per score"),
        (lambda: smooth_ece(Y, [1.5, *P[1:]]), "`y_prob` must be a probability"),
        (lambda: smooth_ece(Y, P, w=[0.0] * 6), "`w` must be a positive finite number"),
    ],
)
def test_bad_smooth_ece(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


# Z ------------------------------------------------------------------------------------------------


def test_z_worked_by_hand() -> None:
    # Σ (y − p)(1 − 2p) = −.08 − .12 − .12 + .72 + 0 − .08 = .32, and the variance is .216.
    metric = fill(SpiegelhalterZ(), Y, P)
    assert metric.get() == pytest.approx(0.32 / math.sqrt(0.216))
    assert metric.p_value == pytest.approx(0.4911, abs=1e-4)


def test_z_is_standard_normal_under_calibration_and_large_without_it() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(200):
        p = rng.random(200)
        found.append(fill(SpiegelhalterZ(), rng.random(200) < p, p).get())
    assert abs(np.mean(found)) < 0.2
    assert np.std(found) == pytest.approx(1.0, abs=0.15)
    p = rng.random(500)
    y = rng.random(500) < p
    too_far_out = fill(SpiegelhalterZ(), y, p**3 / (p**3 + (1 - p) ** 3))
    too_near = fill(SpiegelhalterZ(), y, 0.25 + 0.5 * p)
    assert too_far_out.get() > 3
    assert too_near.get() < -3
    assert too_far_out.p_value < 0.003


def test_z_of_what_says_nothing_and_of_the_impossible() -> None:
    metric = fill(SpiegelhalterZ(), [True, False, False], [0.5, 0.5, 0.0])
    assert (metric.get(), metric.p_value) == (0.0, 1.0)
    metric.update(True, 0.0)
    assert (metric.get(), metric.p_value) == (math.inf, 0.0)
    metric.update(True, 0.25)
    assert 0 < metric.get() < math.inf
    metric.revert(True, 0.25)
    metric.revert(True, 0.0)
    assert metric.get() == 0.0


# Rolling CORP -------------------------------------------------------------------------------------


@given(
    stream=st.lists(
        st.tuples(st.booleans(), st.integers(0, 20), st.sampled_from([0.25, 1.0, 3.0])), max_size=40
    ),
    window=st.integers(1, 12),
    score=st.sampled_from(["brier", "log"]),
)
@settings(max_examples=40, deadline=None)
def test_rolling_corp_is_corp_of_the_last_samples(stream: Any, window: int, score: str) -> None:
    rolling = RollingCORP(window, score, every=1)
    for n, (y, i, w) in enumerate(stream, 1):
        rolling.update(y, i / 20, w)
        last = stream[max(n - window, 0) : n]
        batch = fill(CORP(score), *zip(*[(y, i / 20, w) for y, i, w in last], strict=True))
        parts = rolling.mean_score, rolling.mcb, rolling.dsc, rolling.unc
        expected = batch.mean_score, batch.mcb, batch.dsc, batch.unc
        assert parts == pytest.approx(expected, abs=1e-9)
        assert rolling.get() == rolling.mcb
        assert rolling.history[-1][:-1] == (n, *parts)
    assert len(rolling.history) == len(stream)


def test_rolling_corp_history_is_bounded_and_spans_the_stream() -> None:
    rng = np.random.default_rng(5)
    metric = RollingCORP(window=50, every=3, max_points=10)
    for _ in range(1000):
        p = rng.random()
        metric.update(rng.random() < p, p)
        assert len(metric.history) <= 10
    seen = [point.n_samples for point in metric.history]
    assert len(seen) >= 5
    assert set(np.diff(seen)) == {seen[0]}
    assert seen[-1] > 1000 - seen[0]
    thawed = pickle.loads(pickle.dumps(metric))
    assert thawed.history == metric.history
    assert thawed.get() == metric.get()
    assert metric.clone().history == []


@pytest.mark.parametrize("scoring", ["brier", "log"])
def test_calibrated_predictions_have_the_miscalibration_by_chance(scoring: Any) -> None:
    rng = np.random.default_rng(7)
    right, wrong = RollingCORP(100, scoring), RollingCORP(100, scoring)
    for _ in range(5000):
        p = rng.random()
        right.update(rng.random() < p, p, rng.choice([1.0, 2.0]))
        wrong.update(rng.random() < p, 0.5 * p)
    parts = np.array([(each.mcb, each.chance) for each in right.history if each.n_samples > 100])
    mcb, chance = parts.mean(axis=0)
    assert chance == pytest.approx(mcb, rel=0.1)
    assert wrong.mcb > 3 * wrong.history[-1].chance


def test_the_miscalibration_by_chance_of_one_prediction_is_its_variance() -> None:
    metric = RollingCORP(window=200, every=200)
    fill(metric, [True, False] * 2000, [0.5] * 4000)
    by_chance = [point.chance for point in metric.history]
    assert np.mean(by_chance) == pytest.approx(0.25 / 200, rel=0.5)
    empty = RollingCORP(window=2, every=1)
    empty.update(True, 0.5)
    empty.revert(True, 0.5)
    assert empty.history[0].chance == 0.25


def test_rolling_corp_sums_do_not_drift() -> None:
    metric = RollingCORP(window=4)
    metric.update(True, 0.5, 1e30)  # leaves rounding errors of 1e13 behind when it is forgotten
    fill(metric, [True, False] * 4, [0.75, 0.25] * 4)
    assert metric.mean_score == pytest.approx(0.0625)


def test_rolling_corp_sees_a_drift_that_corp_averages_away() -> None:
    rng = np.random.default_rng(6)
    rolling, whole = RollingCORP(window=300), CORP()
    for n in range(3000):
        p = rng.random()
        y = rng.random() < (p if n < 2600 else 1 - p)
        rolling.update(y, p)
        whole.update(y, p)
    calibrated = [point.mcb for point in rolling.history if 300 <= point.n_samples <= 2600]
    assert rolling.mcb > 5 * max(calibrated)
    assert whole.mcb < 0.1 * rolling.mcb


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": None}, "`window` must be a positive int, got None"),
        ({"window": 0}, "`window` must be a positive int, got 0"),
        ({"every": -1}, "`every` must be a positive int or None, got -1"),
        ({"max_points": 1}, "`max_points` must be an int of at least 2, got 1"),
        ({"scoring": "spherical"}, "`scoring` must be one of 'brier', 'log'"),
    ],
)
def test_bad_rolling_corp(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RollingCORP(**options)


def test_miscalibration_over_time_is_drawn() -> None:
    raw, again = RollingCORP(window=20, every=5), RollingCORP(window=20, every=10)
    for i in range(60):
        raw.update(i % 2 == 0, 0.9)
        again.update(i % 2 == 0, 0.5)
    _, ax = plt.subplots()
    display = MiscalibrationDisplay.from_metrics({"raw": raw, "calibrated": again}, ax=ax)
    assert display.ax_ is ax
    for line, metric in zip(display.lines_, (raw, again), strict=True):
        x, y = line.get_data()
        assert list(x) == [point.n_samples for point in metric.history]
        assert list(y) == [point.mcb for point in metric.history]
    words = [area.get_text() for area in display.legend_.findobj(mpl.offsetbox.TextArea)]
    assert words == ["raw", "calibrated", "by chance, if calibrated"]
    for line, metric in zip(display.chance_lines_, (raw, again), strict=True):
        assert list(line.get_ydata()) == [point.chance for point in metric.history]
    alone = MiscalibrationDisplay.from_metrics(raw, part="unc")
    assert (alone.chance_lines_, alone.legend_) == ([], None)
    assert alone.ax_.get_ylabel() == "Uncertainty (UNC)"
    assert alone.ax_.get_legend() is None
    alone.figure_.canvas.draw()
    with pytest.raises(ValueError, match="`part` must be one of"):
        MiscalibrationDisplay.from_metrics(raw, part="ece")
    with pytest.raises(ValueError, match="`histories` must hold at least one model"):
        MiscalibrationDisplay.from_metrics({})


def test_miscalibration_over_time_has_dates() -> None:
    metric = RollingCORP(window=20, every=10)
    begin = datetime(2026, 3, 1)
    times = [begin + timedelta(hours=i) for i in range(100)]
    for i in range(100):
        metric.update(i % 3 == 0, 0.4)
    for form in (times, np.array(times, "datetime64[s]")):
        display = MiscalibrationDisplay.from_metrics(metric, times=form)
        expected = [times[point.n_samples - 1] for point in metric.history]
        drawn = display.lines_[0].get_xdata(orig=True)
        assert np.array(drawn, "datetime64[s]").tolist() == expected
        assert display.ax_.get_xlabel() == "Time"
    missing = [None, *times[1:]]
    strings = np.array([str(time) for time in times], object)
    table = np.array([times, times]).T
    unknown = np.array(["NaT", *times[1:]], "datetime64[s]")
    for wrong in (times[:99], range(100), missing, strings, table, unknown, begin, iter(times)):
        with pytest.raises(ValueError, match="`times` must be the datetimes of all 100 samples"):
            MiscalibrationDisplay.from_metrics(metric, times=wrong)


@pytest.mark.parametrize("metric", [ECE, CORP])
def test_each_probability_of_the_top_label_is_checked(metric: Any) -> None:
    found = metric(multiclass="top-label")
    for wrong in ({"a": math.nan, "b": 0.4}, {"b": 0.4, "a": math.nan}, {"b": 0.4, "a": -0.1}):
        with pytest.raises(ValueError, match="must be a probability in"):
            found.update("b", wrong)
    with pytest.raises(TypeError, match="`y_pred` must be a number, got 'x'"):
        found.update("b", {"a": 0.2, "b": "x"})
    assert found.get() == 0.0
