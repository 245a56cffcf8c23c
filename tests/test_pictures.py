"""Every picture can be read: in small axes, in grids, with light and dark styles."""

import itertools
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.offsetbox import TextArea
from matplotlib.patches import Rectangle
from matplotlib.transforms import Bbox
from river import datasets, linear_model, naive_bayes, preprocessing
from sklearn.linear_model import LogisticRegression

import streamcal
from streamcal.metrics import RollingCORP
from streamcal.plot import (
    AccuracyCoverageDisplay,
    HedgeWeightsDisplay,
    MiscalibrationDisplay,
    ReliabilityDisplay,
    ThresholdDisplay,
    UtilityCurveDisplay,
)
from streamcal.plot._axes import background, contrast

mpl.use("Agg")

STYLES = ["default", "dark_background", "seaborn-v0_8", "ggplot"]
SIZES = ["default", "paper", "grid", "plain grid"]
NAMES = [
    "raw",
    "Platt scaling",
    "HedgedCalibrator()",
    "isotonic",
    "a long name of a model, with more",
]


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[Any]:
    yield
    plt.close("all")


def make(i: float = 0, n: int = 400) -> tuple[Any, Any]:
    """Labels and predictions of the i-th model; each is miscalibrated in a way of its own."""
    rng = np.random.default_rng(i)
    p = rng.beta(1.2, 1.2, size=n)
    truth = [p**2, p, np.sqrt(p), 1 / (1 + np.exp(3 - 6 * p)), p**1.4][i]
    return rng.random(n) < truth, p


def new_axes(size: Any) -> Any:
    """Return axes of a size; None for the display's own."""
    if size == "default":
        return None
    if size == "paper":
        return plt.figure(figsize=(3.5, 3.5), layout="constrained").subplots()
    layout = None if size == "plain grid" else "constrained"
    return plt.subplots(2, 2, figsize=(6.4, 4.8) if layout is None else (8, 8), layout=layout)[1][
        0, 0
    ]


def draw_one(ax: Any) -> Any:
    return ReliabilityDisplay.from_predictions(*make(), n_resamples=20, ax=ax)


def draw_two(ax: Any) -> Any:
    models = {name: make(i) for i, name in enumerate(NAMES[:2])}
    return ReliabilityDisplay.from_models(models, level=0.9, ax=ax)


def draw_five(ax: Any) -> Any:
    return ReliabilityDisplay.from_models({name: make(i) for i, name in enumerate(NAMES)}, ax=ax)


def draw_calibrators(ax: Any) -> Any:
    y, p = make()
    found = {"Venn-Abers": streamcal.VennAbersCalibrator(), "hedge": streamcal.HedgedCalibrator()}
    for calibrator in found.values():
        calibrator.learn_many(p, y)
    return ReliabilityDisplay.from_calibrator(found, ax=ax)


def draw_miscalibration(ax: Any) -> Any:
    metrics = {name: RollingCORP(window=100, every=50) for name in NAMES}
    for i, metric in enumerate(metrics.values()):
        for sample in zip(*make(i, 200), strict=True):
            metric.update(*sample)
    return MiscalibrationDisplay.from_metrics(metrics, ax=ax)


def draw_weights(ax: Any) -> Any:
    return HedgeWeightsDisplay.from_history([streamcal.HedgedCalibrator().weights] * 2, ax=ax)


def draw_thresholds(ax: Any) -> Any:
    rng = np.random.default_rng(0)
    labels = rng.choice([1, 2, 3, 4], 1000, p=[0.94, 0.02, 0.02, 0.02])
    scores = labels + rng.normal(0, 0.05, 1000)
    return ThresholdDisplay.from_predictions(scores, labels, [1.5, 2.5, 3.5], ax=ax)


def draw_utility(ax: Any) -> Any:
    p = np.random.default_rng(1).beta(0.3, 2, 300)
    return UtilityCurveDisplay.from_probabilities(p, "f1", ax=ax)


def draw_coverage(ax: Any) -> Any:
    return AccuracyCoverageDisplay.from_predictions(*make(), target=0.95, ax=ax)


def draw_coverages(ax: Any) -> Any:
    models = {name: make(i) for i, name in enumerate(NAMES[:3])}
    return AccuracyCoverageDisplay.from_models(models, level=0.9, target=0.9, ax=ax)


KINDS = {
    "one": draw_one,
    "two": draw_two,
    "five": draw_five,
    "calibrators": draw_calibrators,
    "miscalibration": draw_miscalibration,
    "weights": draw_weights,
    "thresholds": draw_thresholds,
    "utility": draw_utility,
    "coverage": draw_coverage,
    "coverages": draw_coverages,
}


def words_of(display: Any) -> Any:
    """Return the legend or table as drawn: an artist with the texts inside."""
    return display.text_ if hasattr(display, "text_") else display.legend_


def extents(display: Any) -> tuple[Any, Any]:
    """Return the extents of all texts, by their words; those of the legend and of the axes."""
    legend: dict[str, list[Any]] = {}
    for area in words_of(display).findobj(TextArea):
        if area.get_text().strip():
            legend.setdefault(area.get_text(), []).append(area.get_window_extent())
    ax = display.ax_
    around = [ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
    shown = [text.get_window_extent() for text in around if text.get_text() and text.get_visible()]
    return [box for boxes in legend.values() for box in boxes], shown


def points_of(ax: Any) -> Any:
    """Return points all along the lines of an axes, in pixels."""
    found = []
    for line in ax.lines:
        x, y = ax.transData.transform(line.get_xydata()).T
        steps = np.linspace(0, len(x) - 1, 2000) if len(x) > 1 else np.zeros(1)
        at = np.arange(len(x))
        found.append(np.column_stack([np.interp(steps, at, x), np.interp(steps, at, y)]))
    return np.concatenate(found) if found else np.empty((0, 2))


def overlap(one: Any, other: Any) -> Any:
    return Bbox.intersection(one, other) is not None and (
        min(one.x1, other.x1) - max(one.x0, other.x0) > 1
        and min(one.y1, other.y1) - max(one.y0, other.y0) > 1
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_text_hides_nothing(kind: Any, size: Any) -> None:
    display = KINDS[kind](new_axes(size))
    figure = display.figure_
    figure.canvas.draw()
    legend, around = extents(display)
    assert legend, "the legend has no form that fits"
    for one, other in itertools.combinations(legend, 2):
        assert not overlap(one, other)
    for box in legend:
        assert not any(overlap(box, other) for other in around)
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= figure.bbox.y1 + 1
    tight = figure.get_tightbbox().transformed(figure.dpi_scale_trans)  # what a notebook shows
    assert all(tight.x0 - 1 <= box.x0 and box.x1 <= tight.x1 + 1 for box in legend)
    if kind != "one":  # the diagonal is behind the table of one model
        drawn = points_of(display.ax_)
        assert not any(box.padded(-2).count_contains(drawn) for box in legend)
    neighbours = [ax for ax in figure.axes if ax is not display.ax_]
    for ax in neighbours:
        assert not any(overlap(box, ax.get_window_extent()) for box in legend)


@pytest.mark.parametrize("kind", KINDS)
def test_every_axis_has_a_name(kind: Any) -> None:
    ax = KINDS[kind](None).ax_
    assert ax.get_xlabel()
    assert ax.get_ylabel()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "kind", ["two", "miscalibration", "thresholds", "utility", "coverage", "coverages"]
)
def test_colours_contrast_with_the_background(kind: str, style: Any) -> None:
    with plt.style.context(style):
        display = KINDS[kind](None)
    ax = display.ax_
    behind = background(ax)
    colors = [line.get_color() for line in ax.lines if line.get_zorder() > 1]
    colors += [area._text.get_color() for area in words_of(display).findobj(TextArea)]
    for color in colors:
        assert contrast(np.array(to_rgb(color)), behind) >= 3.0


@pytest.mark.parametrize("kind", ["one", "thresholds", "coverage"])
def test_areas_are_more_opaque_on_black(kind: str) -> None:
    opaque = {}
    for style in ("default", "dark_background"):
        with plt.style.context(style):
            ax = KINDS[kind](None).ax_
            area = ax.patches[0] if kind == "thresholds" else ax.collections[0]
            opaque[style] = area.get_alpha()
    assert opaque["dark_background"] >= 1.5 * opaque["default"] > 0.0


def test_the_axes_have_the_background_that_is_seen() -> None:
    figure, ax = plt.subplots(facecolor="black")
    assert background(ax).tolist() == [1.0, 1.0, 1.0]
    ax.patch.set_alpha(0.0)
    assert background(ax).tolist() == [0.0, 0.0, 0.0]
    figure.patch.set_alpha(0.0)  # a page is taken to be white
    assert background(ax).tolist() == [1.0, 1.0, 1.0]


def test_the_legend_fits_again_after_the_figure_has_shrunk() -> None:
    display = draw_miscalibration(plt.figure(figsize=(8, 4), layout="constrained").subplots())
    display.figure_.set_size_inches(3.5, 2.5)
    display.figure_.canvas.draw()
    legend, _ = extents(display)
    drawn = points_of(display.ax_)
    assert not any(box.padded(-2).count_contains(drawn) for box in legend)
    assert all(box.x1 <= display.figure_.bbox.x1 for box in legend)


def test_a_rare_label_has_a_row_as_high_as_the_others() -> None:
    display = draw_thresholds(None)
    assert display.densities.max(axis=1).min() < 0.1 * display.densities.max()
    rows = [patch for patch in display.ax_.patches if not patch.get_fill()]
    heights = [np.ptp(patch.get_path().vertices[:, 1]) for patch in rows]
    np.testing.assert_allclose(heights, 0.9)


def test_names_with_dollars_are_not_formulas() -> None:
    display = ReliabilityDisplay.from_models({"$x_1": make(0), "a$b$": make(1)})
    display.figure_.canvas.draw()
    shown = [area.get_text() for area in display.text_.findobj(TextArea)]
    assert {"$x_1", "a$b$"} <= set(shown)


# Panels -------------------------------------------------------------------------------------------

LABELS = {
    "short": [f"label {k}" for k in range(7)],
    "long": [
        "a label of several long words, of which there may be many",
        "AnotherOneThatIsOnlyOneWordAndHasNoPlaceToBreakIt",
        "x",
        "a$b$",
        "line\nbreak",
        "",
        "W" * 300,
    ],
    "many": [f"one of many labels, number {k}" for k in range(16)],
}


def draw_panels(labels: str, ax: Any, n_models: int = 2, size: int = 300) -> Any:
    rng = np.random.default_rng(0)
    names = LABELS[labels]
    truth = rng.dirichlet(np.ones(len(names)), size)
    y = [names[rng.choice(len(names), p=row)] for row in truth]
    p = [dict(zip(names, row, strict=True)) for row in truth.tolist()]
    models = dict.fromkeys(NAMES[:n_models], (y, p))
    return ReliabilityDisplay.from_models(models, multiclass="classwise", level=0.9, ax=ax)


def texts_of(display: Any) -> Any:
    """Return the extents of all texts of panels and of the legend."""
    found = [area.get_window_extent() for area in display.text_.findobj(TextArea)]
    for panel in display.panels.values():
        ax = panel.ax_
        found += [text.get_window_extent() for text in ax.texts if text.get_text()]
        shown = [ax.xaxis.label, ax.yaxis.label]
        for axis in (ax.xaxis, ax.yaxis):
            shown += [tick.label1 for tick in axis.get_major_ticks() if tick.label1.get_visible()]
        found += [text.get_window_extent() for text in shown if text.get_text()]
    return found


@pytest.mark.parametrize("size", [*SIZES, "large"])
@pytest.mark.parametrize("labels", LABELS)
def test_panels_are_equal_and_hide_nothing(labels: str, size: str) -> None:
    large = size == "large"
    axes = plt.figure(figsize=(12, 10), layout="tight").subplots() if large else new_axes(size)
    display = draw_panels(labels, axes)
    figure = display.figure_
    figure.canvas.draw()
    boxes = [panel.ax_.get_window_extent() for panel in display.panels.values()]
    assert np.ptp([box.size for box in boxes], axis=0).max() < 0.5
    if size in ("paper", "plain grid"):  # too small for so many panels
        return
    texts = texts_of(display)
    for one, other in itertools.combinations(texts, 2):
        assert not overlap(one, other)
    for box in texts:
        assert figure.bbox.x0 - 1 <= box.x0
        assert box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0
        assert box.y1 <= figure.bbox.y1 + 1
        assert not any(overlap(box, other) for other in boxes)
    shown = [panel.ax_.texts[0].get_text() for panel in display.panels.values()]
    joined = {"".join(words.split()) for words in shown}
    names = {"".join(name.split()) or "(empty)" for name in display.panels}
    if size != "grid":  # only that of 300 letters is cut
        assert len(joined & names) >= len(names) - 1


def test_panels_find_their_places_again_in_another_figure_size() -> None:
    display = draw_panels("short", None)
    before = [panel.ax_.get_window_extent().width for panel in display.panels.values()]
    display.figure_.set_size_inches(14, 9)
    display.figure_.canvas.draw()
    after = [panel.ax_.get_window_extent().width for panel in display.panels.values()]
    assert all(new > 1.2 * old for new, old in zip(after, before, strict=True))
    for one, other in itertools.combinations(texts_of(display), 2):
        assert not overlap(one, other)


@pytest.mark.parametrize("style", STYLES)
def test_words_of_panels_contrast_with_the_background(style: str) -> None:
    with plt.style.context(style):
        display = draw_panels("short", None)
    for panel in display.panels.values():
        colors = [text.get_color() for text in panel.ax_.texts]
        colors += [line.get_color() for line in panel.lines_]
        for color in colors:
            assert contrast(np.array(to_rgb(color)), background(panel.ax_)) >= 3.0


def test_all_panels_have_one_range() -> None:
    display = draw_panels("many", None)
    limits = {(panel.ax_.get_xlim(), panel.ax_.get_ylim()) for panel in display.panels.values()}
    assert len(limits) == 1
    named = [panel.ax_ for panel in display.panels.values()]
    assert [bool(ax.get_ylabel()) for ax in named] == [i % 4 == 0 for i in range(12)]
    assert [bool(ax.get_xlabel()) for ax in named] == [i >= 8 for i in range(12)]


# Calibrators --------------------------------------------------------------------------------------


def calibrators() -> list[Any]:
    return [
        streamcal.HedgedCalibrator(),
        streamcal.PlattCalibrator(),
        streamcal.PlattCalibrator(calibeating=10),
        streamcal.BetaCalibrator(),
        streamcal.HistogramCalibrator(),
        streamcal.IdentityCalibrator(),
        streamcal.IsotonicCalibrator(),
        streamcal.IsotonicCalibrator("squared", interpolation="step"),
        streamcal.AnytimeCalibrator("absolute"),
        streamcal.VennAbersCalibrator(),
    ]


@pytest.mark.parametrize("learned", [False, True], ids=["cold", "learned"])
@pytest.mark.parametrize(
    "calibrator", calibrators(), ids=lambda calibrator: type(calibrator).__name__
)
def test_the_map_of_every_calibrator_is_drawn(calibrator: Any, learned: bool) -> None:
    calibrator = calibrator.clone()
    if learned:
        y, p = make(0, 300)
        calibrator.learn_many(p, y)
    for thing in (calibrator, calibrator.snapshot()):
        display = ReliabilityDisplay.from_calibrator(thing)
        display.figure_.canvas.draw()
        x, y = display.lines_[0].get_data()
        at = np.linspace(x[0], x[-1], 200)
        near = np.abs(np.interp(at, x, y) - calibrator.predict_many(at)) < 1e-3
        assert np.mean(near) > 0.75  # not where the map jumps


def test_there_is_a_histogram_of_the_scores_that_are_kept() -> None:
    y, p = make(0, 300)
    for calibrator in calibrators():
        calibrator.learn_many(p, y)
        (curve,) = ReliabilityDisplay.from_calibrator(calibrator).curves
        kept = not isinstance(
            calibrator,
            streamcal.PlattCalibrator | streamcal.BetaCalibrator | streamcal.IdentityCalibrator,
        )
        assert curve.mass.any() == kept
        if kept:
            expected, _ = np.histogram(p, curve.edges[::10])
            shares = curve.mass.reshape(5, 10).sum(axis=1) / curve.mass.sum()
            np.testing.assert_allclose(shares, expected / 300, atol=0.1)
    assert not ReliabilityDisplay.from_calibrator(streamcal.HedgedCalibrator()).curves[0].mass.any()


def test_venn_abers_has_its_interval() -> None:
    calibrator = streamcal.VennAbersCalibrator()
    y, p = make(0, 40)
    calibrator.learn_many(p, y)
    display = ReliabilityDisplay.from_calibrator(calibrator, name="pairs")
    scores, low, high = display.curves[0].band
    for at in (0, 57, 200):
        assert calibrator.predict_interval_one(scores[at]) == pytest.approx((low[at], high[at]))
    shown = [area.get_text() for area in display.text_.findobj(TextArea)]
    assert {"pairs", "interval", "40"} <= set(shown)


def test_joint_calibrators() -> None:
    temperature, top = streamcal.TemperatureCalibrator(), streamcal.TopLabelCalibrator()
    assert len(ReliabilityDisplay.from_calibrator(top).lines_) == 1
    for hit, p in zip(*make(0, 300), strict=True):
        temperature.learn_one({True: p, False: 1 - p}, bool(hit))
        top.learn_one({"a": p, "b": 1 - p}, "a" if hit else "b")
    (line,) = ReliabilityDisplay.from_calibrator(temperature).lines_
    at = line.get_xdata()[100]
    expected = temperature.predict_one({True: at, False: 1 - at})[True]
    assert line.get_ydata()[100] == pytest.approx(expected)
    display = ReliabilityDisplay.from_calibrator({"top": top, "temperature": temperature})
    assert [line.get_label() for line in display.lines_] == ["top, b", "top, a", "temperature"]


def test_a_model_s_calibrators_are_a_mapping() -> None:
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    for hit, p in zip(*make(0, 50), strict=True):
        model.learn_one({"x": p}, "yes" if hit else "no")
    display = ReliabilityDisplay.from_calibrator(model.calibrators)
    assert {line.get_label() for line in display.lines_} == {"yes", "no"}


def test_what_is_no_calibrator_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"`calibrator` must be a calibrator, or a mapping .* got int"
    ):
        ReliabilityDisplay.from_calibrator(3)
    with pytest.raises(TypeError, match="a SegmentCalibrator also depends on the fields"):
        ReliabilityDisplay.from_calibrator(streamcal.SegmentCalibrator(["country"]))
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    for thing in (model, model.snapshot(), linear_model.LogisticRegression()):
        with pytest.raises(TypeError, match=f"but a {type(thing).__name__} is a model: draw the"):
            ReliabilityDisplay.from_calibrator(thing)
    with pytest.raises(
        ValueError, match="`calibrator` must hold at least one calibrator, got none"
    ):
        ReliabilityDisplay.from_calibrator({})
    assert not plt.get_fignums()


# Estimators ---------------------------------------------------------------------------------------


def test_a_river_model_predicts_before_it_learns() -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    twin, y, p = model.clone(), [], []
    for x, label in datasets.Phishing().take(300):
        if answer := twin.predict_proba_one(x):
            y.append(label)
            p.append(answer[True])
        twin.learn_one(x, label)
    display = ReliabilityDisplay.from_estimator(model, datasets.Phishing().take(300))
    expected = ReliabilityDisplay.from_predictions(y, p)
    assert display.curves[0].decomposition == expected.curves[0].decomposition
    np.testing.assert_array_equal(display.curves[0].band, expected.curves[0].band)
    assert display.curves[0].name == "LogisticRegression"


def test_a_calibrated_model_is_drawn_before_and_after() -> None:
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    twin, raw, y, p = model.clone(), [], [], []
    for x, label in datasets.Phishing().take(300):
        served = twin.serve_one(x)
        if served.raw:
            y.append(label)
            raw.append(served.raw.get(True, 0.0))
            p.append(served.calibrated.get(True, 0.0))
        twin.learn_one(x, label, served=served)
    display = ReliabilityDisplay.from_estimator(model, datasets.Phishing().take(300), name="bayes")
    expected = ReliabilityDisplay.from_models({"bayes": (y, raw), "calibrated": (y, p)})
    assert [curve.name for curve in display.curves] == ["bayes", "calibrated"]
    for ours, theirs in zip(display.curves, expected.curves, strict=True):
        assert ours.decomposition == theirs.decomposition
    assert not display.bands_


def test_a_scikit_learn_model_is_fitted_already() -> None:
    y, p = make(0, 300)
    X, labels = p.reshape(-1, 1), np.where(y, "spam", "ham")
    model = LogisticRegression().fit(X, labels)
    display = ReliabilityDisplay.from_estimator(model, X, labels, pos_val="spam", scoring="log")
    expected = ReliabilityDisplay.from_predictions(y, model.predict_proba(X)[:, 1], scoring="log")
    assert display.curves[0].decomposition == expected.curves[0].decomposition
    assert display.curves[0].name == "LogisticRegression"


def test_one_of_several_labels_is_drawn() -> None:
    def stream() -> Iterator[Any]:
        for hit, p in zip(*make(0, 200), strict=True):
            yield {"x": p}, "a" if hit else "b" if p < 0.4 else "c"

    model = naive_bayes.GaussianNB()
    display = ReliabilityDisplay.from_estimator(model, stream(), pos_val="b")
    assert display.curves[0].n_samples == 199  # nothing is known before the first label


def test_wrong_estimators() -> None:
    y, p = make(0, 50)
    X = p.reshape(-1, 1)
    model = LogisticRegression().fit(X, y)
    stream = [({"x": 1.0}, "a"), ({"x": 2.0}, "b"), ({"x": 2.0}, "a")]
    for arguments, options, error, message in [
        ((model, X), {}, TypeError, "`y` must be the labels of `X`"),
        ((model, X, y), {"pos_val": "spam"}, ValueError, r"`pos_val` must be one of the labels"),
        ((naive_bayes.GaussianNB(), stream), {}, ValueError, "`pos_val` must be one of the labels"),
        ((naive_bayes.GaussianNB(), stream, y), {}, TypeError, "`y` must be None"),
        ((naive_bayes.GaussianNB(), []), {}, ValueError, "must hold at least one prediction"),
        ((linear_model.LinearRegression(), stream), {}, TypeError, "`estimator` must have"),
    ]:
        with pytest.raises(error, match=message):
            ReliabilityDisplay.from_estimator(*arguments, **options)


def test_bands_of_several_models_are_those_of_each() -> None:
    models = {name: make(i, 200) for i, name in enumerate(NAMES[:3])}
    options = {"level": 0.8, "band": "consistency", "method": "resampling", "n_resamples": 50}
    display = ReliabilityDisplay.from_models(models, **options)
    assert len(display.bands_) == 3
    for curve, line, band, model in zip(
        display.curves, display.lines_, display.bands_, models.values(), strict=True
    ):
        expected = ReliabilityDisplay.from_predictions(*model, **options).curves[0].band
        np.testing.assert_array_equal(curve.band, expected)
        assert tuple(band.get_facecolor()[0][:3]) == pytest.approx(to_rgb(line.get_color()))
    shown = [area.get_text() for area in display.text_.findobj(TextArea)]
    assert "80% consistency band" in shown
    keys = [tuple(patch.get_facecolor()) for patch in display.text_.findobj(Rectangle)]
    assert keys == [tuple(band.get_facecolor()[0]) for band in display.bands_]
    with pytest.raises(ValueError, match=r"`level` must lie in \(0, 1\) or None, got 2"):
        ReliabilityDisplay.from_models(models, level=2)
