"""Reliability diagrams: the numbers behind them, and what is drawn where."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from matplotlib.offsetbox import TextArea
from river import datasets, naive_bayes, preprocessing
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import streamcal
from streamcal.metrics import CORP
from streamcal.plot import ReliabilityDisplay

mpl.use("Agg")

Y = [0, 0, 0, 1, 1, 1]
P = [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[Any]:
    yield
    plt.close("all")


def make(n: Any, seed: int = 0, power: float = 1.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, size=n)
    return rng.uniform(size=n) < p**power, p


def words(display: Any) -> list[Any]:
    return [area.get_text() for area in display.text_.findobj(TextArea)]


def drawn(display: Any) -> Any:
    """Draw for real, and return the picture's bytes."""
    file = io.BytesIO()
    display.figure_.savefig(file, format="png")
    return file.getvalue()


@pytest.mark.parametrize("score", ["brier", "log"])
def test_numbers_are_those_of_the_metric(score: str) -> None:
    y, p = make(300)
    display = ReliabilityDisplay.from_predictions(y, p, scoring=score)
    metric = CORP(score)
    for sample in zip(y, p, strict=True):
        metric.update(*sample)
    parts = display.curves[0].decomposition
    expected = (metric.mean_score, metric.mcb, metric.dsc, metric.unc)
    assert parts == pytest.approx(expected, abs=1e-12)
    assert f"{parts.mcb:.4f}" in words(display)
    assert ("Brier" if score == "brier" else "log loss") in words(display)


def test_line_is_the_isotonic_regression() -> None:
    y, p = make(200)
    display = ReliabilityDisplay.from_predictions(y, p)
    x, drawn_y = display.lines_[0].get_data()
    assert (x.min(), x.max()) == (p.min(), p.max())
    expected = IsotonicRegression().fit(p, y).predict(p)
    np.testing.assert_allclose(np.interp(p, x, drawn_y), expected, atol=1e-12)


def test_band_has_its_level_where_the_model_is_calibrated() -> None:
    inside = []
    for seed in range(8):
        y, p = make(200, seed)
        curve = ReliabilityDisplay.from_predictions(y, p, level=0.8, n_resamples=200).curves[0]
        plt.close("all")
        assert curve.band is not None
        x, low, high = curve.band
        fit = curve.staircase(x)
        inside.append(np.mean((low - 1e-12 <= fit) & (fit <= high + 1e-12)))
    assert 0.7 < np.mean(inside) < 0.95


def test_band_is_seeded_and_grows_with_the_level() -> None:
    y, p = make(100)

    def band(**options: Any) -> Any:
        return ReliabilityDisplay.from_predictions(y, p, **options).curves[0].band

    x, low, high = band(level=0.5)
    np.testing.assert_array_equal(band(level=0.5), (x, low, high))
    assert not np.array_equal(band(level=0.5, seed=1)[1], low)
    _, lower, higher = band(level=0.9)
    assert (lower <= low).all()
    assert (higher >= high).all()
    assert (higher - lower).sum() > (high - low).sum()
    assert band(level=None) is None


def test_band_of_many_scores_agrees_with_that_of_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    y, p = make(3000)
    grouped = ReliabilityDisplay.from_predictions(y, p).curves[0].band
    monkeypatch.setattr("streamcal.metrics.bands._MAX_GROUPS", 10_000)
    full = ReliabilityDisplay.from_predictions(y, p).curves[0].band
    assert grouped is not None
    assert full is not None
    x, low, high = full
    assert len(grouped[0]) <= 1000 < len(x)
    assert (grouped[0][0], grouped[0][-1]) == (x[0], x[-1])
    for ours, theirs in zip(grouped[1:], (low, high), strict=True):
        gap = np.abs(np.interp(x, grouped[0], ours) - theirs)
        assert np.quantile(gap, 0.9) < 0.03


def test_several_models_share_one_picture() -> None:
    models = {"raw": make(300, power=2.0), "calibrated": make(250)}
    display = ReliabilityDisplay.from_models(models)
    assert [line.get_label() for line in display.lines_] == ["raw", "calibrated"]
    assert len({line.get_color() for line in display.lines_}) == 2
    assert display.bands_ == []
    assert {"raw", "calibrated", "300", "250"} <= set(words(display))
    assert [curve.n_samples for curve in display.curves] == [300, 250]
    drawn(display)


def test_the_figure_of_axes_in_a_subfigure_can_be_saved(tmp_path: Path) -> None:
    figure = plt.figure()
    ax = figure.subfigures(1, 2)[0].subplots()
    display = ReliabilityDisplay.from_predictions([0, 1, 1], [0.2, 0.7, 0.4], ax=ax)
    assert display.figure_ is figure
    display.figure_.savefig(tmp_path / "both.png")
    plt.close(figure)


def test_draws_on_given_axes_and_again() -> None:
    figure, axes = plt.subplots(1, 2)
    display = ReliabilityDisplay.from_predictions(Y, P, name="model", ax=axes[0])
    assert display.ax_ is axes[0]
    assert display.figure_ is figure
    assert not axes[1].lines
    assert display.plot(ax=axes[1]) is display
    assert display.ax_ is axes[1]
    assert plt.get_fignums() == [figure.number]
    drawn(display)


@pytest.mark.parametrize("interpolation", ["step", "linear"])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_calibrator_is_drawn_as_it_predicts(interpolation: str, loss: str) -> None:
    calibrator = streamcal.IsotonicCalibrator(loss, interpolation=interpolation)
    y, p = make(80)
    calibrator.learn_many(p, y)
    display = ReliabilityDisplay.from_calibrator(calibrator, name="stairs")
    x, drawn_y = display.lines_[0].get_data()
    assert np.isfinite(x).all()
    assert (np.diff(drawn_y) >= 0).all()
    at = np.linspace(p.min(), p.max(), 1001)
    shown = np.interp(at, x, drawn_y)
    apart = np.abs(at[:, None] - x).min(axis=1) > 1e-9  # a jump of a step has two values
    np.testing.assert_allclose(shown[apart], calibrator.predict_many(at[apart]), atol=1e-6)
    assert display.curves[0].mass.sum() == pytest.approx(calibrator.staircase().weights.sum())
    drawn(display)


def test_stairs_that_reach_to_infinity_end_with_the_picture() -> None:
    lower, upper = np.array([-np.inf, 0.2, 0.6]), np.array([0.1, 0.5, np.inf])
    values, weights = np.array([0.1, 0.4, 0.9]), np.array([1.0, 3.0, 2.0])
    stairs = streamcal.Staircase(lower, upper, values, weights, np.array([0.1, 0.3, 0.6]))

    class Learned:
        def staircase(self) -> Any:
            return stairs

    display = ReliabilityDisplay.from_calibrator(Learned())
    x, y = np.array(display.lines_[0].get_data())
    assert (x[0], x[-1]) == (0.0, 1.0)
    assert (y[0], y[-1]) == (0.1, 0.9)
    assert display.curves[0].mass.sum() == pytest.approx(6.0)
    assert {"3", "6"} <= set(words(display))


def test_margins_as_scores_have_their_own_range() -> None:
    calibrator = streamcal.IsotonicCalibrator("squared", prior=0.0)
    calibrator.learn_many([-3.0, -1.0, 2.0, 5.0], [-10.0, 0.0, 5.0, 40.0])
    ax = ReliabilityDisplay.from_calibrator(calibrator).ax_
    assert ax.get_xlim()[0] < -3 < 5 < ax.get_xlim()[1] < 6
    assert ax.get_ylim()[1] > 40


def test_rare_events_are_drawn_large() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0, 0.02, size=2000)
    y = rng.uniform(size=2000) < p
    ax = ReliabilityDisplay.from_predictions(y, p).ax_
    assert 0.02 < ax.get_xlim()[1] < 0.3
    ax = ReliabilityDisplay.from_predictions(~y, 1 - p).ax_
    assert 0.7 < ax.get_xlim()[0] < 0.98


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.3]),
        ([0, 1, 1], [0.4, 0.4, 0.4]),
        ([0, 0], [0.0, 0.0]),
        ([1, 0], [0.0, 1.0]),
        (Y, P),
    ],
    ids=["one", "equal", "zero", "wrong", "six"],
)
def test_smallest_pictures(y: Any, p: Any) -> None:
    for score in ("brier", "log"):
        display = ReliabilityDisplay.from_predictions(y, p, scoring=score)
        assert len(drawn(display)) > 1000
        assert len(display.bands_) == 1
        assert display.lines_[0].get_marker() == "o"  # a single point would not be seen otherwise
    assert ("∞" in words(display)) == (p == [0.0, 1.0])


def test_text_leaves_the_curve_alone() -> None:
    def table(power: Any) -> tuple[Any, Any]:
        display = ReliabilityDisplay.from_predictions(*make(3000, power=power))
        drawn(display)
        box = display.text_.get_window_extent()
        corners = display.ax_.transData.transform(display.lines_[0].get_xydata())
        assert not box.count_contains(corners)
        axes = display.ax_.get_window_extent()
        return box.x1 < axes.x0 + axes.width / 2, box.y0 > axes.y0 + axes.height / 2

    assert table(1.0) == (True, True)  # upper left
    assert table(0.05) == (False, False)  # lower right


def test_labels_as_river_and_scikit_learn_know_them() -> None:
    plain = ReliabilityDisplay.from_predictions(Y, P).curves[0].decomposition
    for labels, pos_val in [
        (np.array(Y, dtype=bool), True),
        ([2 * y - 1 for y in Y], 1),
        (["spam" if y else "ham" for y in Y], "spam"),
        (np.array(["spam" if y else "ham" for y in Y], dtype=object), "spam"),
    ]:
        display = ReliabilityDisplay.from_predictions(labels, P, pos_val=pos_val)
        assert display.curves[0].decomposition == plain


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "`y_prob` must hold at least one prediction, got none"),
        (([0, 1], [0.5]), {}, "`y_true` must have one value per score"),
        (([0, 1], [0.5, 1.5]), {}, r"`y_prob` must be a probability in \[0, 1\], got 1.5"),
        (([0, 1], [0.5, np.nan]), {}, "`y_prob` must be finite, got nan at position 1"),
        (([0, np.nan], [0.5, 0.5]), {}, "`y_true` must hold labels, got nan"),
        (([0, 1, np.nan], [0.5, 0.5, 0.5]), {}, "`y_true` must hold labels, got nan"),
        (([1, None], [0.5, 0.5]), {}, "`y_true` must hold labels, got None"),
        (([1, pd.NA], [0.5, 0.5]), {}, "`y_true` must hold labels, got <NA>"),
        (([0, 1, 2], [0.5, 0.5, 0.5]), {}, "`y_true` must hold at most two labels, got 3"),
        (([[0, 1]], [0.5, 0.5]), {}, "`y_true` must be one-dimensional"),
        ((["a", "b"], [0.5, 0.5]), {}, "`pos_val` must be one of the labels"),
        (([2, 3], [0.5, 0.5]), {}, "`pos_val` must be one of the labels, such as 2, got True"),
        ((Y, P), {"level": 1.5}, r"`level` must lie in \(0, 1\) or None, got 1.5"),
        ((Y, P), {"n_resamples": 0}, "`n_resamples` must be a positive int, got 0"),
        ((Y, P), {"scoring": "auc"}, "`scoring` must be one of 'brier', 'log', got 'auc'"),
    ],
)
def test_bad_input(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(*arguments, **options)
    assert not plt.get_fignums()


def test_bad_models() -> None:
    with pytest.raises(ValueError, match=r"`models\['raw'\]` must be a pair \(y_true, y_prob\)"):
        ReliabilityDisplay.from_models({"raw": P})
    with pytest.raises(ValueError, match="`models` must hold at least one model, got none"):
        ReliabilityDisplay.from_models({})
    with pytest.raises(ValueError, match="`curves` must hold at least one curve, got none"):
        ReliabilityDisplay([])


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        ReliabilityDisplay.from_predictions(Y, P)


def test_matplotlib_is_imported_when_something_is_drawn() -> None:
    code = "import sys, streamcal.plot; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# More than two labels -----------------------------------------------------------------------------


def answers(n: int = 400, n_labels: int = 3, seed: int = 0) -> tuple[list[str], list[Any]]:
    """Return labels, and probabilities that are too extreme; every tenth lacks a label."""
    rng = np.random.default_rng(seed)
    names = [f"label {k}" for k in range(n_labels)]
    truth = rng.dirichlet(np.linspace(3.0, 0.5, n_labels), n)
    y = [names[rng.choice(n_labels, p=row)] for row in truth]
    told = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    p = [dict(zip(names, row, strict=True)) for row in told.tolist()]
    for each in p[::10]:
        each.pop(names[0])
    return y, p


def same_curves(ours: Any, theirs: Any) -> bool:
    pairs = zip(ours.curves, theirs.curves, strict=True)
    return all(
        one.decomposition == other.decomposition
        and one.n_samples == other.n_samples
        and (one.band is None) == (other.band is None)
        and (one.band is None or np.array_equal(one.band, other.band))
        for one, other in pairs
    )


def test_the_top_label_is_the_one_with_the_greatest_probability() -> None:
    y, p = answers()
    top = [max(each, key=each.__getitem__) for each in p]
    right = [label == each for label, each in zip(y, top, strict=True)]
    expected = ReliabilityDisplay.from_predictions(right, [max(each.values()) for each in p])
    asked: list[dict[str, Any]] = [{}, {"multiclass": "top-label"}, {"pos_val": None}]
    for options in asked:
        display = ReliabilityDisplay.from_predictions(y, p, **options)
        assert same_curves(display, expected)
        assert display.ax_.get_xlabel() == "Probability of the predicted label"
        assert not display.panels
    models = ReliabilityDisplay.from_models(
        {"a": (y, p), "b": (y, p)}, level=0.9, band="consistency", method="resampling"
    )
    assert all(same_curves(ReliabilityDisplay([curve]), expected) for curve in models.curves)


def test_each_label_has_a_panel() -> None:
    y, p = answers()
    display = ReliabilityDisplay.from_predictions(y, p, multiclass="classwise", name="model")
    assert list(display.panels) == sorted(set(y), key=lambda label: -y.count(label))
    for label, panel in display.panels.items():
        expected = ReliabilityDisplay.from_predictions(
            [each == label for each in y], [each.get(label, 0.0) for each in p]
        )
        assert same_curves(panel, expected)
        shown = " ".join(text.get_text() for text in panel.ax_.texts)
        assert label in shown
        share = float(shown.removeprefix(label).partition("%")[0])
        assert share == pytest.approx(100 * y.count(label) / len(y), abs=0.5)
        assert f"MCB {panel.curves[0].decomposition.mcb:.4f}" in shown
    assert len(display.curves) == len(display.lines_) == len(display.bands_) == len(display.panels)
    assert {"model", "90% consistency band"} <= set(words(display))
    assert words(display).count("model") == 1
    drawn(display)


def test_probabilities_of_labels_may_be_dicts_or_columns() -> None:
    y, p = answers()
    frame = pd.DataFrame(p).fillna(0.0)
    expected = ReliabilityDisplay.from_predictions(y, p)
    table = pa.Table.from_pandas(frame)
    for columns in (frame, table, {name: frame[name].to_numpy() for name in frame}, tuple(p)):
        assert same_curves(ReliabilityDisplay.from_predictions(y, columns), expected)
    one = ReliabilityDisplay.from_predictions(y, frame, pos_val="label 1")
    assert same_curves(
        one,
        ReliabilityDisplay.from_predictions([each == "label 1" for each in y], frame["label 1"]),
    )
    late = ReliabilityDisplay.from_predictions(["label 0", *y], [{}, *p])  # nothing was predicted
    assert same_curves(late, expected)


def test_integers_are_labels_but_true_is_none() -> None:
    names, p = answers()
    y = [int(name[-1]) for name in names]
    p = [{int(name[-1]): value for name, value in each.items()} for each in p]
    top = ReliabilityDisplay.from_predictions(names, answers()[1])
    assert same_curves(ReliabilityDisplay.from_predictions(y, p), top)
    one = ReliabilityDisplay.from_predictions(y, p, pos_val=1)
    assert one.curves[0].decomposition.unc == pytest.approx(np.var(np.equal(y, 1)))


def test_at_most_twelve_labels_are_drawn_and_the_rest_is_stated() -> None:
    y, p = answers(600, 15)
    display = ReliabilityDisplay.from_predictions(
        y, p, multiclass="classwise", level=None, scoring="log"
    )
    assert len(display.panels) == 12
    rest = sum(label not in display.panels for label in y) / len(y)
    assert 0.0 < rest < 0.1
    note = f"The 12 most frequent of 15 labels; the other 3 have {100 * rest:.1f} % of the samples."
    assert note in words(display)
    least = min(y.count(label) for label in display.panels)
    assert all(y.count(label) <= least for label in set(y) - set(display.panels))


@pytest.mark.parametrize(
    ("y", "p", "options", "error", "message"),
    [
        (
            Y,
            P,
            {"multiclass": "classwise"},
            ValueError,
            "`y_prob` must hold a probability for each",
        ),
        (Y, P, {"pos_val": None}, ValueError, "`y_prob` must hold a probability for each label"),
        (
            Y,
            P,
            {"multiclass": "all"},
            ValueError,
            "`multiclass` must be one of 'top-label', 'class",
        ),
        (
            ["a"],
            [{"a": 1.0}],
            {"multiclass": "top-label", "pos_val": "a"},
            ValueError,
            "`pos_val` must be left out where `multiclass` is given, got 'a'",
        ),
        (["a", "b"], [{"a": 1.0}], {}, ValueError, "`y_true` must have one label per prediction"),
        (["a"], {"a": [0.5, 0.5]}, {}, ValueError, "`y_true` must have one label per prediction"),
        (["a"], [{"a": 1.5}], {"pos_val": "a"}, ValueError, "`y_prob` must be a probability"),
        (["a"], [{"a": np.nan}], {"pos_val": "a"}, ValueError, "`y_prob` must be"),
        (["a", None], [{"a": 0.5}] * 2, {}, ValueError, "`y_true` must hold labels, got None"),
        ([1, 2], [{"a": 0.5, "b": 0.5}] * 2, {}, ValueError, "`y_true` must hold labels that"),
        (["a", "b"], [{"a": 0.5}, 0.5], {}, TypeError, "`y_prob` must hold only dicts, got 0.5"),
        (["a"], np.ones((1, 3)), {}, ValueError, "`y_prob` must name the labels of its columns"),
        (["a"], [[0.5, 0.5]], {}, ValueError, r"its columns, .* got an array of shape \(1, 2\)"),
        ([0, 1, 2], [0.5] * 3, {}, ValueError, "got 3: for more, `y_prob` is a list of dicts, or"),
        (["a"], [{}], {"multiclass": "top-label"}, ValueError, "must hold at least one prediction"),
        (
            ["a", "b", "c"],
            [{"a": 0.5, "b": 0.25, "c": 0.25}] * 3,
            {"pos_val": "d"},
            ValueError,
            r"`pos_val` must be one of the labels \['a', 'b', 'c'\], got 'd'",
        ),
        (["a"] * 2, [{"a": 1.0}] * 2, {}, ValueError, "the labels, such as 'a', got True"),
    ],
)
def test_bad_answers(y: Any, p: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        ReliabilityDisplay.from_predictions(y, p, **options)
    assert not plt.get_fignums()


def test_a_river_model_of_seven_labels_is_drawn() -> None:
    def model() -> Any:
        return streamcal.CalibratedClassifier(naive_bayes.GaussianNB())

    twin, y, raw, p = model(), [], [], []
    for x, label in datasets.ImageSegments().take(500):
        served = twin.serve_one(x)
        if served.raw:
            y.append(label)
            raw.append(served.raw)
            p.append(served.calibrated)
        twin.learn_one(x, label, served=served)
    for multiclass in (None, "classwise"):
        display = ReliabilityDisplay.from_estimator(
            model(), datasets.ImageSegments().take(500), multiclass=multiclass
        )
        models = {"GaussianNB": (y, raw), "calibrated": (y, p)}
        expected = ReliabilityDisplay.from_models(models, multiclass=multiclass)
        assert same_curves(display, expected)
        assert len(display.panels) == (7 if multiclass else 0)
        assert {"GaussianNB", "calibrated"} <= set(words(display))
    single = ReliabilityDisplay.from_estimator(
        model(), datasets.ImageSegments().take(500), pos_val="sky"
    )
    assert single.curves[1].decomposition == display.panels["sky"].curves[1].decomposition


def test_a_pipeline_that_ends_in_a_calibrated_model_is_drawn_with_its_answers() -> None:
    def model() -> Any:
        calibrated = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
        return preprocessing.StandardScaler() | calibrated

    twin, y, p = model(), [], []
    for x, label in datasets.Phishing().take(100):
        if answer := twin.predict_proba_one(x):  # else no label is known
            y.append(label)
            p.append(answer)
        twin.learn_one(x, label)
    display = ReliabilityDisplay.from_estimator(model(), datasets.Phishing().take(100))
    expected = ReliabilityDisplay.from_predictions(y, p)
    assert same_curves(display, expected)


def test_a_scikit_learn_model_of_three_labels_is_drawn() -> None:
    y, p = answers()
    X = pd.DataFrame(p).fillna(0.0).to_numpy()
    model = LogisticRegression().fit(X, y)
    columns = dict(zip(model.classes_.tolist(), model.predict_proba(X).T, strict=True))
    display = ReliabilityDisplay.from_estimator(model, X, y)
    assert same_curves(display, ReliabilityDisplay.from_predictions(y, columns))
    display = ReliabilityDisplay.from_estimator(model, X, y, multiclass="classwise")
    assert set(display.panels) == set(y)
