"""Reliability diagrams without bins: observed frequency against predicted probability.

The curve is the isotonic regression of the labels on the predictions (CORP), so there are no bins
to choose, and its distance from the diagonal is the miscalibration MCB in the table. A band around
the diagonal or the curve shows deviations by chance; see `streamcal.metrics.bands`.

A histogram of the scores is drawn in the same axes, below the zero line, so a diagram needs only
one axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal._validation import check_choice
from streamcal.isotonic.staircase import Staircase
from streamcal.metrics._base import as_events
from streamcal.metrics.bands import KINDS
from streamcal.metrics.corp import SCORES
from streamcal.plot._axes import COLORS, line_style, new_axes
from streamcal.plot._reliability_table import Table
from streamcal.plot.reliability_curve import Array, Path, ReliabilityCurve, curve_of, fit_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure, SubFigure
    from matplotlib.lines import Line2D
    from matplotlib.offsetbox import AnchoredOffsetbox

_MARKED_BLOCKS = 12  # corners get dots up to this many blocks


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
    scoring
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
        scoring: str = "brier",
        level: float | None = None,
        band: str = "consistency",
        xlabel: str = "Predicted probability",
        ylabel: str = "Observed frequency",
    ) -> None:
        if not curves:
            raise ValueError("`curves` must hold at least one curve, got none")
        check_choice(scoring, "scoring", SCORES)
        check_choice(band, "band", KINDS)
        self.curves = tuple(curves)
        self.scoring = scoring
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
        scoring: str = "brier",
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
        scoring
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
            scoring=scoring,
            band=band,
            method=method,
            level=level,
            n_resamples=n_resamples,
            seed=seed,
        )
        return cls([curve], scoring=scoring, level=level, band=band).plot(ax=ax)

    @classmethod
    def from_models(
        cls,
        models: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        pos_val: Any = True,
        scoring: str = "brier",
        ax: Axes | None = None,
    ) -> Self:
        """Draw several models in one diagram, without bands.

        Parameters
        ----------
        models
            ``{name: (y_true, y_prob)}``, each pair as in `from_predictions`. The samples of models
            may differ, for example if one of them started later.
        pos_val, scoring, ax
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
        check_choice(scoring, "scoring", SCORES)
        if not models:
            raise ValueError("`models` must hold at least one model, got none")
        checked: dict[str | None, tuple[Array, Array]] = {}
        for name, pair in models.items():
            try:
                y_true, y_prob = pair
            except (TypeError, ValueError):
                raise ValueError(f"`models[{name!r}]` must be a pair (y_true, y_prob)") from None
            checked[str(name)] = as_events(y_true, y_prob, pos_val)
        return cls(fit_curves(checked, scoring), scoring=scoring).plot(ax=ax)

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
        curve = curve_of(calibrator.staircase(), name)
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
        bottom, top = self._draw_diagonal(ax, np.concatenate([y for _, y in paths]))
        band = self._draw_band(ax, bottom, top)
        self._draw_curves(ax, paths)
        floor = self._draw_histogram(ax, bottom, top)
        self._set_axes(ax, floor, bottom, top)
        words = None
        if self.band_ is not None and self.level is not None:
            words = f"{100 * self.level:g}% {self.band} band"
        table = Table(self.curves, self.lines_, self.scoring, words)
        strip = (bottom - floor) / (ax.get_ylim()[1] - floor)
        self.text_ = table.draw(ax, [*paths, *band], strip)
        return self

    def _draw_diagonal(self, ax: Axes, y: Array) -> tuple[float, float]:
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

    def _draw_band(self, ax: Axes, bottom: float, top: float) -> list[Path]:
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

    def _draw_curves(self, ax: Axes, paths: Sequence[Path]) -> None:
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

    def _set_axes(self, ax: Axes, floor: float, bottom: float, top: float) -> None:
        """Set limits, ticks and labels; values have ticks, the histogram below them has none."""
        left, right = float(self.curves[0].edges[0]), float(self.curves[0].edges[-1])
        margin = 0.02 * (right - left)
        ax.set_xlim(left - margin, right + margin)
        ax.set_ylim(floor, top + 0.02 * (top - bottom))
        slack = 1e-9 * (top - bottom)
        ax.set_yticks([t for t in ax.get_yticks() if bottom - slack <= t <= top + slack])
        ax.set_xlabel(self.xlabel)
        ax.set_ylabel(self.ylabel)
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines["left"].set_bounds(bottom, top)


def _is_square(edges: Array, y: Array) -> bool:
    """Return whether scores and values are probabilities in one square."""
    left, right = edges[0], edges[-1]
    return bool(left >= 0.0 and right <= 1.0 and left <= y.min() and y.max() <= right)
