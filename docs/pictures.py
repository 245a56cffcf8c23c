"""Draw the pictures of the documents from the library itself: `make pictures`.

Each function that `PICTURES` names makes one figure, or a whole file; `main` writes them as
SVG into a folder. The same library and the same matplotlib draw the same bytes.
"""

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from river import datasets, naive_bayes, preprocessing

sys.path.insert(0, str(Path(__file__).resolve().parent))

from moving_picture import drift

import streamcal
from streamcal.ordinal import CuSumRank
from streamcal.plot import (
    AccuracyCoverageDisplay,
    HedgeWeightsDisplay,
    ReliabilityDisplay,
    ThresholdDisplay,
    UtilityCurveDisplay,
)

FOLDER = Path(__file__).resolve().parent / "pictures"
# Okabe and Ito's colours: distinct for all kinds of colour vision.
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GRAY, PALE = "#777777", "#cccccc"
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "streamcal",  # and names stay the same
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
Vector = NDArray[np.float64]


def panels(n: int, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return a figure of n axes side by side, which share their y."""
    figure = Figure(figsize=(7.2, height), layout="constrained")
    return figure, list(figure.subplots(1, n, sharey=True, squeeze=False)[0])


def pooling() -> Figure:
    """Adjacent violators are pooled as samples come: the blocks after 3, 5, 6 and 8 samples."""
    y = np.array([1.0, 4.0, 2.0, 6.0, 5.0, 1.0, 7.0, 6.0])
    figure, axes = panels(4)
    for ax, n in zip(axes, (3, 5, 6, 8), strict=True):
        stack = streamcal.PAVStack()
        stack.push_many(np.arange(1.0, n + 1), y[:n])
        stairs = stack.staircase()
        ax.plot(np.arange(1, n + 1), y[:n], "o", color=GRAY, markersize=4)
        for low, high, value in zip(stairs.lower, stairs.upper, stairs.values, strict=True):
            ax.plot([low - 0.35, high + 0.35], [value, value], color=BLUE, linewidth=2.5)
        ax.set(title=f"{n} samples, {len(stairs)} blocks", xlim=(0, 9), xlabel="score")
        ax.set_xticks([2, 4, 6, 8])
    axes[0].set_ylabel("label")
    return figure


def corners(labels: Vector, x: float, y: float, tilt: float) -> tuple[Vector, Vector]:
    """Return the vertices of the lower hull of running sums that start at (x, y), tilted."""
    stairs = streamcal.isotonic_fit(np.arange(len(labels)), labels)
    across = np.concatenate([[x], x + np.cumsum(stairs.weights)])
    up = np.concatenate([[y], y + np.cumsum(stairs.weights * stairs.values)])
    return across, up - tilt * across


def bridge() -> Figure:
    """The hulls of two halves, the bridge between them, and what a late sample changes."""
    random_labels = np.random.default_rng(8)
    labels = (random_labels.random(24) < np.linspace(0.1, 0.9, 24)).astype(np.float64)
    late = np.insert(labels, 6, 1.0)
    figure, axes = panels(2, 3.0)
    titles = ("24 samples", "one more, a 1 in the left half")
    for ax, values, title in zip(axes, (labels, late), titles, strict=True):
        half, sums = len(values) - 12, np.concatenate([[0.0], np.cumsum(values)])
        tilt = float(values.mean())  # level in the mean, so that the bend can be seen
        ax.plot(
            sums - tilt * np.arange(len(sums)), ".", color=GRAY, markersize=4, label="running sums"
        )
        ax.plot(*corners(values[:half], 0.0, 0.0, tilt), color=BLUE, label="hull of the left half")
        ax.plot(
            *corners(values[half:], half, sums[half], tilt), color=GREEN, label="of the right half"
        )
        across, up = corners(values, 0.0, 0.0, tilt)
        at = int(np.searchsorted(across, half, side="right"))
        ax.plot(across, up, color=PALE, linewidth=6, zorder=0, label="hull of all")
        edge = slice(at - 1, at + 1)
        ax.plot(across[edge], up[edge], color=ORANGE, linewidth=2.5, label="bridge")
        ax.axvline(half, color=GRAY, linewidth=0.6, linestyle=":")
        ax.set(title=title, xlabel="weight of the samples, in score order")
    axes[0].set(ylabel="ones, less their mean so far", ylim=(-5.5, 3.0))
    axes[0].legend(frameon=False, loc="upper right", ncols=2, fontsize=8)
    return figure


def bisection() -> Figure:
    """The bounds of the best map after 1, 2, 4 and 8 rounds, under the pseudo-Huber loss."""
    source = np.random.default_rng(3)
    x = np.arange(30.0)
    y = 10 / (1 + np.exp(-(x - 15) / 4)) + source.normal(0, 1, 30)
    y[[6, 23]] += (9, -9)
    rounds = list(streamcal.anytime_isotonic_refinements(x, y, loss="pseudo-huber"))
    figure, axes = panels(4)
    for ax, n in zip(axes, (1, 2, 4, 8), strict=True):
        stairs = rounds[n]
        ax.plot(x, y, ".", color=GRAY, markersize=3)
        steps = np.stack([stairs.lower - 0.5, stairs.upper + 0.5], axis=1).ravel()
        floors, ceilings = np.repeat(stairs.floors, 2), np.repeat(stairs.ceilings, 2)
        ax.fill_between(steps, floors, ceilings, color=BLUE, alpha=0.3, linewidth=0)
        ax.plot(steps, np.repeat(stairs.values, 2), color=BLUE)
        title = f"{n} round{'s' * (n > 1)}: ±{stairs.half_width:.2g}"
        ax.set(title=title, xlabel="score", xticks=[0, 15, 30])
    axes[0].set_ylabel("label")
    return figure


def thresholds() -> Figure:
    """Scores of four labels, and the thresholds of least absolute error."""
    source = np.random.default_rng(0)
    labels = source.choice([1, 2, 3, 4], 2_000, p=[0.6, 0.2, 0.15, 0.05])
    scores = labels + source.normal(0, 0.8, 2_000)
    found = streamcal.optimal_thresholds(scores, labels)
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    ThresholdDisplay.from_predictions(scores, labels, found, n_bins=30, ax=left)
    grid = np.linspace(-1.5, 6.5, 81)
    for k, color in zip((1, 2, 3), (BLUE, ORANGE, GREEN), strict=True):
        # What answering k + 1 rather than k costs, summed over the samples above a threshold.
        change = np.abs(k + 1 - labels) - np.abs(k - labels)
        cost = [float(change[scores > at].sum()) for at in grid]
        right.plot(grid, cost, color=color, label=f"between {k} and {k + 1}")
        at = found.thresholds[k - 1]
        right.plot(at, float(change[scores > at].sum()), "o", color=color, markersize=5)
    right.set(xlabel="threshold", ylabel="change of the loss", ylim=(-650, 1_100))
    right.legend(frameon=False)
    return figure


def cumulative_sums() -> Figure:
    """What each boundary of a `CuSumRank` adds for three samples, and the rank with most."""
    source = random.Random(2)
    model = CuSumRank(labels=(1, 2, 3, 4, 5), averaging="uniform", margin=1.0)
    for _ in range(3_000):
        x = source.uniform(0, 5)
        model.learn_one({"x": x}, min(5, max(1, round(x + 0.5 + source.gauss(0, 0.4)))))
    figure, axes = panels(3)
    for ax, at in zip(axes, (0.4, 2.6, 4.9), strict=True):
        steps = model.weights["x"] * at + model.biases
        scores = np.concatenate([[0.0], np.cumsum(steps)])
        ranks = np.arange(1, 6)
        for k, step in enumerate(steps):
            color = BLUE if step > 0 else ORANGE
            ax.annotate(
                "",
                xy=(k + 1.5, scores[k + 1]),
                xytext=(k + 1.5, scores[k]),
                arrowprops={"arrowstyle": "->", "color": color, "linewidth": 1.5},
            )
        ax.hlines(scores, ranks - 0.5, ranks + 0.5, color=GRAY)
        best = int(scores.argmax())
        assert model.predict_one({"x": at}) == best + 1
        ax.plot(ranks[best], scores[best], "o", color=GREEN)
        ax.set(title=f"x = {at}: rank {best + 1}", xlabel="rank", xticks=ranks)
    axes[0].set_ylabel("sum so far")
    return figure


def decision() -> Figure:
    """The expected F1 of labelling the k likeliest, and that of a threshold of one half."""
    p = np.random.default_rng(4).beta(0.3, 2.0, 300)
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    ax = figure.subplots()
    display = UtilityCurveDisplay.from_probabilities(p, "f1", ax=ax)
    k = int((p > 0.5).sum())
    half = display.utilities[k]
    ax.plot(k, half, "s", color=GREEN)
    ax.text(60, half + 0.16, f"■ threshold ½, k = {k}: {half:.3f}", color=GREEN)
    return figure


def hedge() -> Figure:
    """The weights of a hedge on a stream that starts calibrated and changes twice."""
    source = random.Random(5)
    hedge, times, history = streamcal.HedgedCalibrator(), [], []
    for at in range(6_000):
        p = source.random()
        truth = p if at < 2_000 else p**3 if at < 4_000 else 1 - (1 - p) ** 3
        hedge.learn_one(p, source.random() < truth)
        if at % 100 == 99:
            times.append(at + 1)
            history.append(hedge.weights)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    ax = figure.subplots()
    HedgeWeightsDisplay.from_history(history, times=times, ax=ax)
    ax.vlines([2_000, 4_000], 0.0, 1.0, color="black", linewidth=1.0, linestyle=":")
    return figure


def few_predictions() -> tuple[NDArray[np.bool_], Vector]:
    """Return labels and predictions of a model that is calibrated up to 0.6, and then too high."""
    source = np.random.default_rng(20)
    p = source.beta(0.9, 1.1, 500)
    return source.random(500) < np.where(p < 0.6, p, 0.6 + 0.3 * (p - 0.6)), p


def scikit_learn() -> Figure:
    """The same predictions in scikit-learn's display, with two numbers of bins, and in ours."""
    from sklearn.calibration import CalibrationDisplay

    y, p = few_predictions()
    figure = Figure(figsize=(9.0, 3.7), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for ax, n_bins in ((left, 5), (middle, 15)):
        CalibrationDisplay.from_predictions(y, p, n_bins=n_bins, ax=ax, name="model")
        ax.set_title(f"CalibrationDisplay, n_bins={n_bins}")
    ReliabilityDisplay.from_predictions(y, p, name="model", ax=right)
    right.set_title("ReliabilityDisplay")
    return figure


def maps() -> Figure:
    """The maps of calibrators that have learned the same samples, and models with bands."""
    y, p = few_predictions()
    kinds = (
        streamcal.HedgedCalibrator(),
        streamcal.PlattCalibrator(),
        streamcal.HistogramCalibrator(8),
        streamcal.VennAbersCalibrator(),
    )
    calibrators = {type(kind).__name__.removesuffix("Calibrator"): kind for kind in kinds}
    models = {"raw": (y, p), "hedge, served": (y, kinds[0].predict_learn_many(p, y))}
    for calibrator in kinds[1:]:
        calibrator.learn_many(p, y)
    figure = Figure(figsize=(8.0, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    ReliabilityDisplay.from_calibrator(calibrators, ax=left)
    ReliabilityDisplay.from_models(models, level=0.9, ax=right)
    return figure


def labels() -> Figure:
    """Reliability of each of seven labels, before and after calibration."""
    pipeline = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    model = streamcal.CalibratedClassifier(pipeline)
    figure = Figure(figsize=(9.1, 6.1), layout="constrained")
    stream = datasets.ImageSegments()
    ReliabilityDisplay.from_estimator(model, stream, multiclass="classwise", ax=figure.subplots())
    return figure


def coverage() -> Figure:
    """The accuracy of the surest answers of a model, before and after calibration."""
    model = streamcal.CalibratedClassifier(naive_bayes.GaussianNB())
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    AccuracyCoverageDisplay.from_estimator(
        model, datasets.Phishing(), level=0.9, target=0.95, ax=figure.subplots()
    )
    return figure


PICTURES: dict[str, Callable[[], Figure | str]] = {
    "pooling": pooling,
    "bridge": bridge,
    "bisection": bisection,
    "thresholds": thresholds,
    "cumulative-sums": cumulative_sums,
    "decision": decision,
    "hedge": hedge,
    "scikit-learn": scikit_learn,
    "maps": maps,
    "labels": labels,
    "coverage": coverage,
    "drift": drift,
}


def draw(name: str, folder: Path) -> Path:
    """Draw one picture and return where it is; a hundredth of a point is fine enough.

    A function that returns text has made the whole file.
    """
    path = folder / f"{name}.svg"
    with mpl.rc_context(STYLE):
        made = PICTURES[name]()
        if isinstance(made, str):
            path.write_text(made, encoding="utf-8")
            return path
        made.savefig(path, metadata={"Date": None})
    text = path.read_text(encoding="utf-8")
    text = re.sub(r">[^<]+<|\d+\.\d{3,}", _rounded, text)
    path.write_text(text, encoding="utf-8")
    return path


def _rounded(found: re.Match[str]) -> str:
    """Return a coordinate with two decimals, and words between tags as they are."""
    return found[0] if found[0].startswith(">") else f"{float(found[0]):.2f}"


def main(folder: Path) -> None:
    """Draw all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PICTURES:
        draw(name, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
