"""Accuracy over coverage: the numbers, the band, the promise under a target, and the picture."""

import io
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.offsetbox import TextArea
from river import datasets, naive_bayes
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import streamcal
from streamcal.decision import maximize
from streamcal.metrics.bands import share_band
from streamcal.plot import AccuracyCoverageCurve, AccuracyCoverageDisplay

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[Any]:
    yield
    plt.close("all")


def make(n: int = 500, seed: int = 0, power: float = 1.0) -> tuple[Any, Any]:
    """Return labels and probabilities; with a power above 1 these are too high."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.7, n)
    return rng.random(n) < p**power, p


def by_hand(y: Any, p: Any) -> Any:
    """Coverage, accuracy and expected accuracy at each certainty, by the definition."""
    sure = np.maximum(p, 1.0 - p)
    rows = []
    for least in sorted(set(sure.tolist()), reverse=True):
        chosen = sure >= least
        right = (p > 0.5) == (np.asarray(y) == 1)
        rows.append((chosen.mean(), right[chosen].mean(), sure[chosen].mean()))
    return np.array(rows).T


def words(display: Any) -> list[str]:
    return [area.get_text() for area in display.legend_.findobj(TextArea)]


@pytest.mark.parametrize("digits", [1, 2, 16])
def test_each_certainty_has_a_point(digits: int) -> None:
    y, p = make()
    p = p.round(digits)
    curve = AccuracyCoverageCurve.from_predictions(y, p)
    expected = by_hand(y, p)
    np.testing.assert_allclose([curve.coverage, curve.accuracy, curve.expected], expected)
    assert curve.coverage[-1] == 1.0
    assert curve.n_samples == 500
    assert (np.diff(curve.thresholds) < 0.0).all()


def test_of_many_points_those_that_are_left_are_exact() -> None:
    y, p = make(30_000)
    curve = AccuracyCoverageCurve.from_predictions(y, p)
    assert len(curve.coverage) == 1_000
    assert np.diff(curve.coverage).max() < 0.0012
    known = dict(zip(*by_hand_of_many(y, p), strict=True))
    assert [known[n] for n in np.rint(30_000 * curve.coverage)] == curve.accuracy.tolist()
    assert curve.coverage[:100].tolist() == (np.arange(1, 101) / 30_000).tolist()


def by_hand_of_many(y: Any, p: Any) -> Any:
    """How many answers, and their accuracy, where no two certainties are equal."""
    order = np.argsort(-np.maximum(p, 1.0 - p))
    n = np.arange(1.0, len(p) + 1.0)
    return n, np.cumsum(((p > 0.5) == y)[order]) / n


def test_the_band_is_the_exact_interval() -> None:
    y, p = make(80)
    curve: Any = AccuracyCoverageCurve.from_predictions(y, p.round(2), level=0.8)
    for at, low, high, share in zip(
        curve.coverage, curve.lower, curve.upper, curve.accuracy, strict=True
    ):
        n = round(80 * at)
        exact = binomtest(round(n * share), n).proportion_ci(0.8, "exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    bare = AccuracyCoverageCurve.from_predictions(y, p, level=None)
    assert bare.lower is bare.upper is None


def test_the_interval_holds_the_mean_of_different_probabilities() -> None:
    rng = np.random.default_rng(0)
    for p in ([0.99] * 30, [0.9, 0.999] * 15, [0.5] * 4 + [0.01] * 40, [0.97] + [0.0] * 20):
        hits = (rng.random((20_000, len(p))) < p).sum(axis=1).astype(float)
        low, high = share_band(hits, np.full(20_000, float(len(p))), 0.9)
        mean = np.mean(p)
        assert (low > mean).mean() <= 0.0513 + 0.005
        assert (high < mean).mean() <= 0.0513 + 0.005


@pytest.mark.parametrize("digits", [1, 16])
@pytest.mark.parametrize("target", [0.0, 0.8, 0.95, 1.0])
def test_the_promise_is_what_maximize_answers(digits: int, target: float) -> None:
    y, p = make(power=1.3)
    p = p.round(digits)
    promise: Any = AccuracyCoverageCurve.from_predictions(y, p, target=target).answers
    best = maximize(p, "coverage", subject_to={"accuracy": target})
    answered = np.not_equal(best.labels, None)
    right = (best.labels == 1)[answered] == y[answered]
    assert (promise.n_answers, promise.n_right) == (answered.sum(), right.sum())
    assert promise.coverage == best.expected
    assert promise.expected == best.subject_to["accuracy"]
    if promise.n_answers:
        assert promise.accuracy == right.mean()
        low, high = promise.interval(0.9)
        assert low <= promise.accuracy <= high
    else:
        assert np.isnan(promise.accuracy)
        assert promise.interval(0.9) == (0.0, 1.0)


def test_the_two_lines_and_the_band_are_drawn() -> None:
    y, p = make()
    display = AccuracyCoverageDisplay.from_predictions(y, p, name="model", target=0.95)
    (curve,), (line,), (expected,) = display.curves, display.lines_, display.expected_lines_
    assert line.get_ydata().tolist() == curve.accuracy.tolist()
    assert expected.get_ydata().tolist() == curve.expected.tolist()
    assert line.get_xdata().tolist() == curve.coverage.tolist()
    assert len(display.bands_) == 1
    share = f"{100 * curve.answers.coverage:.0f} % answered"
    texts = ["model", "expected, if calibrated", "90% confidence band", "target 0.95", share]
    assert words(display) == texts
    (dot,) = [each for each in display.ax_.lines if each.get_linestyle() == "None"]
    assert dot.get_xydata().tolist() == [[curve.answers.coverage, curve.answers.accuracy]]
    low, _ = display.ax_.get_ylim()
    assert low < curve.accuracy[curve.coverage > 0.1].min()
    assert all(tick <= 1.0 for tick in display.ax_.get_yticks())
    axes = plt.figure().subplots()
    assert display.plot(axes) is display
    assert display.ax_ is axes


def test_several_models_have_one_legend() -> None:
    models = {"raw": make(power=1.5), "other": make(200, 1)}
    display = AccuracyCoverageDisplay.from_models(models, target=0.9)
    assert not display.bands_
    for line, (y, p) in zip(display.lines_, models.values(), strict=True):
        np.testing.assert_allclose(line.get_xydata().T, by_hand(y, p)[:2])
    shares = [f"{100 * curve.answers.coverage:.0f} % answered" for curve in display.curves]
    assert words(display) == ["raw", "other", "expected, if calibrated", "target 0.9", *shares]
    banded = AccuracyCoverageDisplay.from_models(models, level=0.5)
    assert len(banded.bands_) == 2
    assert words(banded)[-1] == "50% confidence band"


def test_labels_may_have_names() -> None:
    y, p = make(50)
    plain = AccuracyCoverageCurve.from_predictions(y, p)
    named: Any = [
        (["b" if each else "a" for each in y], p, {"pos_val": "b"}),
        (y.astype(int), p, {"pos_val": 1}),
        (~y, 1.0 - p, {}),
        (y, pd.DataFrame({False: 1.0 - p, True: p}), {}),
        (y, [{True: each, False: 1.0 - each} for each in p], {}),
        ([f"{each}" for each in y], {"True": p, "False": 1.0 - p}, {}),
    ]
    for labels, probabilities, options in named:
        curve = AccuracyCoverageCurve.from_predictions(labels, probabilities, **options)
        assert curve.accuracy.tolist() == plain.accuracy.tolist()


def test_the_answer_is_the_likeliest_of_several_labels() -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet([2.0, 1.0, 1.0], 300)
    y = [("a", "b", "c")[rng.choice(3, p=row)] for row in truth]
    p = dict(zip("abc", truth.T, strict=True))
    curve: Any = AccuracyCoverageCurve.from_predictions(y, p, target=0.6)
    top = truth.argmax(axis=1)
    right = np.array([("a", "b", "c")[i] == label for i, label in zip(top, y, strict=True)])
    assert curve.accuracy[-1] == right.mean()
    assert curve.expected[-1] == pytest.approx(truth.max(axis=1).mean())
    order = np.argsort(-truth.max(axis=1))
    assert curve.accuracy.tolist() == (np.cumsum(right[order]) / np.arange(1, 301)).tolist()
    assert curve.answers.expected >= 0.6
    assert curve.answers.n_right == right[order[: curve.answers.n_answers]].sum()


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.3]),
        ([0], [0.5]),
        ([0, 1, 1], [0.4, 0.4, 0.4]),
        ([1, 1], [1.0, 1.0]),
        ([1, 0], [0.0, 1.0]),
        ([1, 1, 1], [0.2, 0.9, 0.95]),
    ],
    ids=["one", "half", "equal", "right", "wrong", "one label"],
)
@pytest.mark.parametrize("target", [None, 0.75, 1.0])
def test_smallest_pictures(y: Any, p: Any, target: Any) -> None:
    display = AccuracyCoverageDisplay.from_predictions(y, p, target=target)
    file = io.BytesIO()
    display.figure_.savefig(file)
    assert len(file.getvalue()) > 1000
    assert len(display.bands_) == 1
    assert display.lines_[0].get_marker() == "o"  # a single point would not be seen otherwise
    low, high = display.ax_.get_ylim()
    assert low <= min(display.curves[0].accuracy) < high


Y, P = [0, 1], [0.2, 0.8]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "`y_prob` must hold at least one prediction, got none"),
        (([0, 1], [0.5]), {}, "`y_true` must have one value per score"),
        (([0, 1], [0.5, 1.5]), {}, r"`y_prob` must be a probability in \[0, 1\], got 1.5"),
        (([0, 1], [0.5, np.nan]), {}, "`y_prob` must be finite, got nan at position 1"),
        (([0, np.nan], [0.5, 0.5]), {}, "`y_true` must hold labels, got nan"),
        ((["a", "b"], [0.5, 0.5]), {}, "`pos_val` must be one of the labels"),
        ((["a", "b", "c"], [[0.5, 0.5]] * 3), {}, "`y_prob` must name the labels of its columns"),
        ((["a"], [{"a": 1.0}]), {"pos_val": "a"}, "`pos_val` must be left out where `y_prob`"),
        ((Y, P), {"level": 90}, r"`level` must lie in \(0, 1\) or None, got 90"),
        ((Y, P), {"target": 1.5}, r"`target` must lie in \[0, 1\], got 1.5; divide percentages"),
        ((Y, P), {"target": np.nan}, r"`target` must lie in \[0, 1\], got"),
    ],
)
def test_bad_input(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AccuracyCoverageDisplay.from_predictions(*arguments, **options)
    with pytest.raises(ValueError, match=message):
        AccuracyCoverageCurve.from_predictions(*arguments, **options)
    assert not plt.get_fignums()


def test_bad_models() -> None:
    with pytest.raises(ValueError, match=r"`models\['raw'\]` must be a pair \(y_true, y_prob\)"):
        AccuracyCoverageDisplay.from_models({"raw": [0.2]})
    with pytest.raises(TypeError, match="`models` must be a mapping, such as"):
        AccuracyCoverageDisplay.from_models([(Y, P)])
    with pytest.raises(ValueError, match="`models` must hold at least one model, got none"):
        AccuracyCoverageDisplay.from_models({})
    with pytest.raises(ValueError, match="`curves` must hold at least one curve, got none"):
        AccuracyCoverageDisplay([])


def test_models_of_river_and_scikit_learn() -> None:
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    display = AccuracyCoverageDisplay.from_estimator(model, datasets.Phishing(), target=0.95)
    assert [curve.name for curve in display.curves] == ["GaussianNB", "calibrated"]
    raw, calibrated = (curve.answers for curve in display.curves)
    assert raw is not None
    assert calibrated is not None
    assert raw.interval(0.99)[1] < 0.95  # the promise is broken
    low, high = calibrated.interval(0.99)
    assert low < 0.95 < high
    X = np.random.default_rng(0).normal(size=(200, 1))
    y = X[:, 0] > 0.0
    one = AccuracyCoverageDisplay.from_estimator(LogisticRegression().fit(X, y), X, y)
    assert len(one.bands_) == 1
    assert one.curves[0].name == "LogisticRegression"
