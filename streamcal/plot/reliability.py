"""Reliability diagrams without bins: observed frequency against predicted probability.

The curve is the isotonic regression of the labels on the predictions (CORP), so there are no bins
to choose, and its distance from the diagonal is the miscalibration MCB in the table. A band around
the diagonal or the curve shows deviations by chance; see `streamcal.metrics.bands`.

A histogram of the scores is drawn in the same axes, below the zero line, so a diagram needs only
one axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import check_choice
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import Staircase, isotonic_fit
from streamcal.metrics._base import as_events
from streamcal.metrics.bands import KINDS, METHODS, Band, corp_band
from streamcal.metrics.corp import SCORES, mean_score_of
from streamcal.plot._axes import COLORS, GRAY, line_style, new_axes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.offsetbox import AnchoredOffsetbox, OffsetBox
    from matplotlib.patches import Rectangle

_BINS = 50
_MARKED_BLOCKS = 12  # corners get dots up to this many blocks


_Array = NDArray[np.float64]
_Path = tuple[_Array, _Array]  # x and y of corners


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """The data of one model in a diagram; nothing is drawn.

    Attributes
    ----------
    staircase : Staircase
        The curve.
    name : str or None
        The name in the legend.
    mass : ndarray of shape (n_bins,)
        The weight of the scores in each bin of the histogram.
    edges : ndarray of shape (n_bins + 1,)
        The edges of the bins.
    n_samples : int or None
        The number of predictions; None if only a staircase is known.
    decomposition : Decomposition or None
        ``mean_score``, ``mcb``, ``dsc``, ``unc``; None if only a staircase is known.
    band : Band or None
        The band, as `streamcal.metrics.CORP.band` returns it.
    """

    staircase: Staircase
    name: str | None
    mass: _Array
    edges: _Array
    n_samples: int | None = None
    decomposition: Decomposition | None = None
    band: Band | None = None

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        pos_val: Any = True,
        name: str | None = None,
        score: str = "brier",
        band: str = "consistency",
        method: str = "resampling",
        level: float | None = 0.9,
        n_resamples: int = 500,
        seed: int = 0,
    ) -> Self:
        """Compute what `ReliabilityDisplay.from_predictions` draws; it has the same parameters.

        Examples
        --------
        >>> curve = ReliabilityCurve.from_predictions([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
        >>> curve.decomposition.mcb
        0.15
        """
        check_choice(score, "score", SCORES)
        check_choice(band, "band", KINDS)
        check_choice(method, "method", METHODS)
        happened, p = as_events(y_true, y_prob, pos_val)
        found = None
        if level is not None:
            if not 0.0 < level < 1.0:
                raise ValueError(f"`level` must be in (0, 1) or None, got {level!r}")
            scores, group = np.unique(p, return_inverse=True)
            found = corp_band(
                scores,
                np.bincount(group).astype(np.float64),
                np.asarray(np.bincount(group, happened), dtype=np.float64),
                kind=band,
                method=method,
                level=level,
                n_resamples=n_resamples,
                seed=seed,
            )
        (curve,) = _fit_curves({name: (happened, p)}, score, found)
        return cls(**vars(curve))

    def points(self) -> _Path:
        """Return the corners of the curve within the range of the histogram."""
        stairs = self.staircase
        ends = np.concatenate([stairs.lower, stairs.upper])
        if stairs.interpolation == "centered":
            ends = np.concatenate([ends[[0, -1]], stairs.centers])
        x = np.unique(np.clip(ends, self.edges[0], self.edges[-1]))
        if stairs.interpolation == "step":  # the value of a block extends to the start of the next
            x = np.repeat(x, 2)[1:]
            y = np.asarray(stairs(x, outside="clip"))
            y[1::2] = y[:-1:2]
            return x, y
        return x, np.asarray(stairs(x, outside="clip"))


class HasStaircase(Protocol):
    """A calibrator with a staircase, such as `streamcal.IsotonicCalibrator`."""

    def staircase(self) -> Staircase:
        """Return the current staircase."""


class ReliabilityDisplay:
    """Reliability diagram with the CORP curve, a band for it and its score parts [1]_.

    Make one with `from_predictions`, `from_models` or `from_calibrator`. As in scikit-learn, these
    compute and draw, and `plot` draws again on other axes. Nothing is shown or saved: use
    ``matplotlib.pyplot.show()`` or ``display.figure_.savefig(path)``.

    Parameters
    ----------
    curves
        The curves, one for each model.
    score
        The score in the table, ``"brier"`` or ``"log"``.
    level
        The level of the bands, for the legend.
    band
        Their kind, ``"consistency"`` or ``"confidence"``, for the legend.
    xlabel, ylabel
        The axes' labels.

    Attributes
    ----------
    curves : tuple of ReliabilityCurve
        The curves.
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        One curve for each model.
    band_ : matplotlib PolyCollection or None
        The band.
    text_ : matplotlib AnchoredOffsetbox or None
        The table in the corner.

    References
    ----------
    .. [1] Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021). Stable reliability diagrams for
       probabilistic classifiers. PNAS 118(8), figure 2 and "Uncertainty quantification".

    Examples
    --------
    >>> from streamcal.plot import ReliabilityDisplay
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]
    ... )
    >>> display.curves[0].decomposition.mcb
    0.101667
    >>> display.lines_[0].get_ydata()
    array([0.25, 0.25, 1.  , 1.  ])
    """

    ax_: Axes
    figure_: Figure | SubFigure
    lines_: list[Line2D]
    band_: FillBetweenPolyCollection | None
    text_: AnchoredOffsetbox | None

    def __init__(
        self,
        curves: Sequence[ReliabilityCurve],
        *,
        score: str = "brier",
        level: float | None = None,
        band: str = "consistency",
        xlabel: str = "Predicted probability",
        ylabel: str = "Observed frequency",
    ) -> None:
        if not curves:
            raise ValueError("`curves` must hold at least one curve, got none")
        check_choice(score, "score", SCORES)
        check_choice(band, "band", KINDS)
        self.curves = tuple(curves)
        self.score = score
        self.level = level
        self.band = band
        self.xlabel = xlabel
        self.ylabel = ylabel

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        pos_val: Any = True,
        name: str | None = None,
        score: str = "brier",
        band: str = "consistency",
        method: str = "resampling",
        level: float | None = 0.9,
        n_resamples: int = 500,
        seed: int = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the diagram of one model.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The true labels, at most two different ones.
        y_prob : array-like of shape (n_samples,)
            The predicted probability of the positive label, in [0, 1].
        pos_val
            The positive label (1 equals True).
        name
            The name in the legend.
        score
            The score that the table splits: ``"brier"`` or ``"log"``.
        band
            ``"consistency"``: around the diagonal, where the curves of calibrated predictions lie;
            ``"confidence"``: around the curve, where the true frequencies lie.
        method
            The method for the band, ``"resampling"`` or ``"asymptotic"``; see
            `streamcal.metrics.bands`.
        level
            The level of the pointwise band, in (0, 1); None for no band.
        n_resamples, seed
            The number of resampled sets of labels, and the seed.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : ReliabilityDisplay

        Raises
        ------
        ValueError
            If the arrays are empty, differ in length, or hold other than probabilities and labels.
        ImportError
            If matplotlib is not installed.
        """
        curve = ReliabilityCurve.from_predictions(
            y_true,
            y_prob,
            pos_val=pos_val,
            name=name,
            score=score,
            band=band,
            method=method,
            level=level,
            n_resamples=n_resamples,
            seed=seed,
        )
        return cls([curve], score=score, level=level, band=band).plot(ax=ax)

    @classmethod
    def from_models(
        cls,
        models: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        pos_val: Any = True,
        score: str = "brier",
        ax: Axes | None = None,
    ) -> Self:
        """Draw several models in one diagram, without bands.

        Parameters
        ----------
        models
            ``{name: (y_true, y_prob)}``, each pair as in `from_predictions`. The samples of models
            may differ, for example if one of them started later.
        pos_val, score, ax
            As in `from_predictions`.

        Returns
        -------
        display : ReliabilityDisplay

        Examples
        --------
        >>> from streamcal.plot import ReliabilityDisplay
        >>> y = [0, 0, 1, 1]
        >>> models = {"raw": (y, [0.5, 0.6, 0.7, 0.8]), "calibrated": (y, [0.0, 0.0, 1.0, 1.0])}
        >>> display = ReliabilityDisplay.from_models(models)
        >>> [curve.decomposition.mcb for curve in display.curves]
        [0.185, 0.0]
        """
        check_choice(score, "score", SCORES)
        if not models:
            raise ValueError("`models` must hold at least one model, got none")
        checked: dict[str | None, tuple[_Array, _Array]] = {}
        for name, pair in models.items():
            try:
                y_true, y_prob = pair
            except (TypeError, ValueError):
                raise ValueError(f"`models[{name!r}]` must be a pair (y_true, y_prob)") from None
            checked[str(name)] = as_events(y_true, y_prob, pos_val)
        return cls(_fit_curves(checked, score, None), score=score).plot(ax=ax)

    @classmethod
    def from_calibrator(
        cls, calibrator: HasStaircase, *, name: str | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the staircase of a calibrator, and the distribution of its weight.

        Parameters
        ----------
        calibrator
            An `IsotonicCalibrator`, or any object with a ``staircase()``. The curve interpolates as
            the staircase does; in the histogram the weight of a block is spread over its scores.
        name
            The name in the legend.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : ReliabilityDisplay

        Examples
        --------
        >>> import streamcal
        >>> calibrator = streamcal.IsotonicCalibrator(loss="squared", prior=0.0)
        >>> calibrator.learn_many([0.1, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> display = streamcal.plot.ReliabilityDisplay.from_calibrator(calibrator)
        >>> display.lines_[0].get_ydata()
        array([0. , 0.5, 0.5, 1. ])
        """
        stairs = calibrator.staircase()
        edges = _edges([stairs.lower, stairs.upper], [stairs.values])
        curve = ReliabilityCurve(stairs, name, _spread_weights(stairs, edges), edges)
        return cls([curve], xlabel="Score", ylabel="Calibrated value").plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default. An axes can hold only one diagram: use
            `from_models` for several curves.

        Returns
        -------
        display : ReliabilityDisplay
            This object; the attributes that end in an underscore are set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        if ax is None:
            ax = new_axes(5.6, 6.2)
        self.ax_ = ax
        self.figure_ = ax.figure
        paths = [curve.points() for curve in self.curves]
        edges = self.curves[0].edges
        left, right = float(edges[0]), float(edges[-1])
        bottom, top = self._draw_diagonal(ax, np.concatenate([y for _, y in paths]))
        band = self._draw_band(ax, bottom, top)
        self._draw_curves(ax, paths)
        floor = self._draw_histogram(ax, bottom, top)

        margin = 0.02 * (right - left)
        ax.set_xlim(left - margin, right + margin)
        ax.set_ylim(floor, top + 0.02 * (top - bottom))
        slack = 1e-9 * (top - bottom)
        ax.set_yticks([t for t in ax.get_yticks() if bottom - slack <= t <= top + slack])
        ax.set_xlabel(self.xlabel)
        ax.set_ylabel(self.ylabel)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines["left"].set_bounds(bottom, top)
        strip = (bottom - floor) / (ax.get_ylim()[1] - floor)
        self.text_ = self._draw_table(ax, [*paths, *band], strip)
        return self

    def _draw_diagonal(self, ax: Axes, y: _Array) -> tuple[float, float]:
        """Draw the diagonal if the diagram is a square, and return its range of values."""
        edges = self.curves[0].edges
        bottom, top = float(y.min()), float(y.max())
        if _is_square(edges, y):
            ends = [float(edges[0]), float(edges[-1])]
            ax.plot(ends, ends, color="0.6", linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.5)
            ax.set_aspect("equal")
            return ends[0], ends[1]
        if bottom >= 0.0 and top <= 1.0:
            return 0.0, 1.0
        return (bottom, top) if bottom < top else (bottom - 0.5, top + 0.5)

    def _draw_band(self, ax: Axes, bottom: float, top: float) -> list[_Path]:
        """Draw the band of a single curve, and return its lower and upper end."""
        band = self.curves[0].band if len(self.curves) == 1 else None
        self.band_ = None
        if band is None:
            return []
        x, low, high = band[0], np.clip(band[1], bottom, top), np.clip(band[2], bottom, top)
        if len(x) == 1:  # without a width it would be invisible
            edges = self.curves[0].edges
            x = x + float(edges[-1] - edges[0]) * np.array([-0.005, 0.005])
            low, high = np.repeat(low, 2), np.repeat(high, 2)
        self.band_ = ax.fill_between(
            x, low, high, color=COLORS[0], alpha=0.18, linewidth=0, zorder=1
        )
        return [(x, low), (x, high)]

    def _draw_curves(self, ax: Axes, paths: Sequence[_Path]) -> None:
        few = max(len(curve.staircase) for curve in self.curves) <= _MARKED_BLOCKS
        self.lines_ = []
        for i, (curve, path) in enumerate(zip(self.curves, paths, strict=True)):
            (line,) = ax.plot(
                *path,
                **line_style(i),
                linewidth=1.8,
                marker="o" if few or len(path[0]) == 1 else None,
                markersize=4,
                label=curve.name,
                solid_joinstyle="round",
                zorder=3,
            )
            self.lines_.append(line)

    def _draw_histogram(self, ax: Axes, bottom: float, top: float) -> float:
        """Draw the histograms below the zero line and return their base line."""
        height = top - bottom
        floor, tallest = bottom - 0.17 * height, 0.13 * height
        many = len(self.curves) > 1
        peak = max(float((c.mass / c.mass.sum()).max()) for c in self.curves)
        for line, curve in zip(self.lines_, self.curves, strict=True):
            ax.stairs(
                floor + curve.mass / curve.mass.sum() / peak * tallest,
                curve.edges,
                baseline=floor,
                fill=not many,
                color=line.get_color(),
                alpha=None if many else 0.45,
                linewidth=1.2,
                zorder=2,
            )
        ax.axhline(bottom, color="0.8", linewidth=0.8, zorder=0.5)
        return floor

    def _draw_table(self, ax: Axes, paths: Sequence[_Path], strip: float) -> AnchoredOffsetbox:
        """Draw names and numbers where they hide nothing: upper left, lower right or above."""
        from matplotlib.offsetbox import AnchoredOffsetbox

        def add(corner: str, bottom: float, *, wide: bool) -> AnchoredOffsetbox:
            box = AnchoredOffsetbox(
                corner,
                child=self._table(wide=wide),
                frameon=False,
                pad=0.4,
                borderpad=0.2,
                bbox_to_anchor=(0.0, bottom, 1.0, 1.0 - strip),
                bbox_transform=ax.transAxes,
            )
            box.set_zorder(4)
            ax.add_artist(box)
            return box

        # Sizes in pixels are known only after layout.
        figure = ax.figure.canvas.figure
        box = add("upper left", strip, wide=len(self.curves) > 1)
        figure.draw_without_rendering()
        points = ax.transData.transform(np.concatenate([_points_along(path) for path in paths]))
        hidden = {}
        for corner in ("upper left", "lower right"):
            box.loc = AnchoredOffsetbox.codes[corner]
            hidden[corner] = box.get_window_extent().padded(4.0).count_contains(points)
        corner = min(hidden, key=hidden.__getitem__)
        if hidden[corner] and figure.get_layout_engine() is not None:  # the layout makes room above
            box.remove()
            return add("lower left", 1.0, wide=True)
        box.loc = AnchoredOffsetbox.codes[corner]
        return box

    def _table(self, *, wide: bool) -> OffsetBox:
        """Return keys and numbers: a row for each model if ``wide``, else one column."""
        from matplotlib.offsetbox import HPacker, VPacker

        names, band = self._name_keys(), self._band_key()
        rows = [_table_row(curve, self.score) for curve in self.curves]
        if wide:
            columns = [_column([_text(" "), *names], "left")] if names else []
            for header in rows[0]:
                cells = [_text(row[header]) for row in rows]
                columns.append(_column([_text(header, GRAY), *cells], "right"))
            blocks = [HPacker(children=columns, align="top", pad=0, sep=7), *band]
        else:
            headers = _column([_text(header, GRAY) for header in rows[0]], "right")
            values = _column([_text(cell) for cell in rows[0].values()], "right")
            numbers = HPacker(children=[headers, values], align="top", pad=0, sep=7)
            blocks = [*names, *band, numbers]
        return VPacker(children=blocks, align="left", pad=0, sep=5)

    def _name_keys(self) -> list[Artist]:
        """Return a key for each model; none if they have no names."""
        from matplotlib.lines import Line2D

        if all(curve.name is None for curve in self.curves):
            return []
        keys = []
        for line, curve in zip(self.lines_, self.curves, strict=True):
            key = Line2D(
                [0, 18],
                [4, 4],
                color=line.get_color(),
                linestyle=line.get_linestyle(),
                linewidth=line.get_linewidth(),
            )
            keys.append(_with_key(key, _shorten(curve.name or "")))
        return keys

    def _band_key(self) -> list[Artist]:
        """Return the key of the band, if there is one."""
        from matplotlib.patches import Rectangle

        if self.band_ is None or self.level is None:
            return []
        patch = Rectangle((0, 0), 18, 8, color=COLORS[0], alpha=0.18, linewidth=0)
        return [_with_key(patch, f"{100 * self.level:g}% {self.band} band", GRAY)]


def _text(words: str, color: str = "black") -> Artist:
    from matplotlib.offsetbox import TextArea
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    return TextArea(words, textprops={"size": 8, "color": color, "path_effects": halo})


def _with_key(key: Line2D | Rectangle, words: str, color: str = "black") -> Artist:
    from matplotlib.offsetbox import DrawingArea, HPacker

    area = DrawingArea(18.0, 8.0)
    area.add_artist(key)
    return HPacker(children=[area, _text(words, color)], align="center", pad=0, sep=5)


def _column(cells: Sequence[Artist], align: Literal["left", "right"]) -> Artist:
    from matplotlib.offsetbox import VPacker

    return VPacker(children=list(cells), align=align, pad=0, sep=3)


def _table_row(curve: ReliabilityCurve, score: str) -> dict[str, str]:
    """Return a row of the table, as cells by header."""
    parts = curve.decomposition
    if parts is None:
        weights = curve.staircase.weights
        return {"blocks": f"{len(weights):,}", "weight": f"{weights.sum():,.10g}"}
    headers = ("Brier" if score == "brier" else "log loss", "= MCB", "− DSC", "+ UNC")
    cells = ["∞" if np.isinf(part) else f"{part:.4f}" for part in parts]
    return {"n": f"{curve.n_samples:,}"} | dict(zip(headers, cells, strict=True))


def _shorten(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _fit_curves(
    models: Mapping[str | None, tuple[_Array, _Array]], score: str, band: Band | None
) -> list[ReliabilityCurve]:
    fits = {name: isotonic_fit(p, happened) for name, (happened, p) in models.items()}
    edges = _edges(
        [ends for stairs in fits.values() for ends in (stairs.lower, stairs.upper)],
        [stairs.values for stairs in fits.values()]
        # At its ends, where samples are few, the band is wide: show most of it, not all.
        + ([] if band is None else [np.quantile(band[1], [0.1]), np.quantile(band[2], [0.9])]),
    )
    return [
        ReliabilityCurve(
            staircase=fits[name],
            name=name,
            mass=np.histogram(p, bins=edges)[0].astype(np.float64),
            edges=edges,
            n_samples=len(p),
            decomposition=decompose(fits[name], mean_score_of(happened, p, score), score),
            band=band,
        )
        for name, (happened, p) in models.items()
    ]


def _edges(ends: Sequence[_Array], values: Sequence[_Array]) -> _Array:
    """Return the edges of the histogram's bins, which span the diagram from left to right.

    If scores and values are probabilities, the diagram is a square over [0, 1], or over the part
    from 0 or from 1 to the data if that is less than half (rare events). Otherwise it covers the
    range of the scores.
    """
    x = np.concatenate(ends)
    x = x[np.isfinite(x)] if np.isfinite(x).any() else np.array([0.0, 1.0])
    both = np.concatenate([x, *values])
    left, right = float(x.min()), float(x.max())
    if both.min() >= 0.0 and both.max() <= 1.0:
        left, right = 0.0, 1.0
        if 0.0 < both.max() < 0.5:
            right = 1.05 * float(both.max())
        elif 0.5 < both.min() < 1.0:
            left = 1.0 - 1.05 * (1.0 - float(both.min()))
    elif left == right:
        left, right = left - 0.5, right + 0.5
    return np.linspace(left, right, _BINS + 1)


def _spread_weights(stairs: Staircase, edges: _Array) -> _Array:
    """Return the weight in each bin if that of a block is spread evenly between its bounds."""
    lower = np.clip(stairs.lower, edges[0], edges[-1])
    upper = np.clip(stairs.upper, edges[0], edges[-1])
    wide = upper > lower
    mass, _ = np.histogram(lower[~wide], bins=edges, weights=stairs.weights[~wide])
    lower, upper, weights = lower[wide], upper[wide], stairs.weights[wide]
    covered = np.minimum.outer(upper, edges[1:]) - np.maximum.outer(lower, edges[:-1])
    shares = np.maximum(covered, 0.0) / (upper - lower)[:, None]
    return np.asarray(mass + weights @ shares)


def _is_square(edges: _Array, y: _Array) -> bool:
    """Return whether scores and values are probabilities in one square."""
    left, right = edges[0], edges[-1]
    return bool(left >= 0.0 and right <= 1.0 and left <= y.min() and y.max() <= right)


def _points_along(path: _Path, n_points: int = 400) -> _Array:
    """Return points all along a path, shape ``(n_points, 2)``, on its vertical parts too."""
    corners = np.column_stack(path)
    steps = np.abs(np.diff(corners, axis=0)) / np.maximum(np.ptp(corners, axis=0), 1e-300)
    at = np.concatenate([[0.0], np.cumsum(steps.sum(axis=1))])
    grid = np.linspace(0.0, at[-1], n_points)
    return np.column_stack([np.interp(grid, at, column) for column in corners.T])
