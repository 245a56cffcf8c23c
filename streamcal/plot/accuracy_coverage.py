"""Accuracy over coverage: how many samples can be answered, and how many answers are then right.

The most certain samples are answered first. Where the observed accuracy leaves the expected one by
more than the band, the probabilities promise what they do not keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.plot._axes import figure_of, line_style, muted, new_axes, opacity
from streamcal.plot._predictions import as_predictions, pairs_of, predictions_of
from streamcal.plot.accuracy_coverage_curve import (
    AccuracyCoverageCurve,
    answers_of,
    check_options,
    curve_of,
    lowest_of,
)
from streamcal.plot.reliability_curve import shown_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from streamcal.plot._fitted import Entry, FittedBox

_MARKED_POINTS = 12  # points get dots up to this many


class AccuracyCoverageDisplay:
    """Accuracy of the answers over coverage, the share of samples that are answered.

    Make one with `from_predictions`, `from_models` or `from_estimator`; `plot` draws again
    elsewhere. Nothing is shown or saved. The most certain samples are answered first [1]_. A dotted
    line is the accuracy to expect, the mean probability of the answers: if that is outside of the
    band, the probabilities of the answers are wrong.

    Parameters
    ----------
    curves : sequence of AccuracyCoverageCurve
        The curves, one for each model.
    level
        The level of the bands, for the legend.

    Attributes
    ----------
    curves : tuple of AccuracyCoverageCurve
        The curves.
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        The observed accuracy, one line for each model.
    expected_lines_ : list of matplotlib Line2D
        The expected accuracy, dotted, one line for each model.
    bands_ : list of matplotlib PolyCollection
        The bands, of the curves that have one.
    legend_ : matplotlib Artist
        The names, above the lines.

    References
    ----------
    .. [1] El-Yaniv, R. and Wiener, Y. (2010). On the foundations of noise-free selective
       classification. JMLR 11 (the risk-coverage curve).

    Examples
    --------
    >>> from streamcal.plot import AccuracyCoverageDisplay
    >>> display = AccuracyCoverageDisplay.from_predictions([1, 0, 0, 1], [0.9, 0.2, 0.6, 0.6])
    >>> display.lines_[0].get_xydata()
    array([[0.25, 1.  ],
           [0.5 , 1.  ],
           [1.  , 0.75]])
    """

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]
    expected_lines_: list[Line2D]
    bands_: list[FillBetweenPolyCollection]
    legend_: FittedBox | None

    def __init__(
        self, curves: Sequence[AccuracyCoverageCurve], *, level: float | None = None
    ) -> None:
        if not curves:
            raise ValueError("`curves` must hold at least one curve, got none")
        self.curves = tuple(curves)
        self.level = level

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: Any,
        *,
        pos_val: Any = True,
        name: str | None = None,
        level: float | None = 0.9,
        target: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of one model.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The true labels; at most two different ones if ``y_prob`` is an array.
        y_prob
            The predicted probability of the positive label, in [0, 1], an array of shape
            (n_samples,). Or the probability of each label, as for `ReliabilityDisplay`: a list of
            dicts, a DataFrame with a column for each label, or a mapping from labels to columns.
        pos_val
            The positive label where ``y_prob`` is an array (1 equals True).
        name
            The name in the legend.
        level
            The level of the pointwise band in which the true accuracy lies, in (0, 1); None for no
            band. It is exact for independent labels; see `streamcal.metrics.bands`.
        target
            An accuracy that the answers must have in expectation, in [0, 1]. The display shows what
            `streamcal.maximize` answers then, the most samples that keep it.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : AccuracyCoverageDisplay

        Raises
        ------
        ValueError
            If the arrays are empty, differ in length, or hold other than probabilities and labels,
            or level or target is out of range.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> from streamcal.plot import AccuracyCoverageDisplay
        >>> y = ["ham", "spam", "eggs", "ham"]
        >>> p = [{"ham": 0.75, "spam": 0.25, "eggs": 0.0}] * 4
        >>> display = AccuracyCoverageDisplay.from_predictions(y, p, target=0.7)
        >>> display.lines_[0].get_xydata()
        array([[1. , 0.5]])
        >>> display.curves[0].answers.coverage
        1.0
        """
        return cls._of({name: (y_true, y_prob)}, pos_val, level, target).plot(ax=ax)

    @classmethod
    def from_models(
        cls,
        models: Mapping[str, tuple[ArrayLike, Any]],
        *,
        pos_val: Any = True,
        level: float | None = None,
        target: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw several models in one picture.

        Parameters
        ----------
        models
            ``{name: (y_true, y_prob)}``, each pair as in `from_predictions`. The samples of models
            may differ.
        level
            The level of the bands, one for each model in its colour. None, the default: no bands.
        pos_val, target, ax
            As in `from_predictions`.

        Returns
        -------
        display : AccuracyCoverageDisplay

        Examples
        --------
        >>> from streamcal.plot import AccuracyCoverageDisplay
        >>> y = [0, 0, 1, 1]
        >>> models = {"raw": (y, [0.5, 0.6, 0.7, 0.8]), "calibrated": (y, [0.0, 0.0, 1.0, 1.0])}
        >>> display = AccuracyCoverageDisplay.from_models(models, target=0.7)
        >>> [(curve.name, curve.answers.coverage) for curve in display.curves]
        [('raw', 0.75), ('calibrated', 1.0)]
        """
        return cls._of(pairs_of(models), pos_val, level, target).plot(ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the curve of a classifier of river, of streamcal or of scikit-learn.

        Parameters
        ----------
        estimator, X, y
            As in `ReliabilityDisplay.from_estimator`: a classifier of river predicts each sample
            before it learns it, and a `streamcal.CalibratedClassifier` has a curve before and after
            calibration.
        name
            The name in the legend; by default that of the class.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **options
            ``level`` and ``target``, with the defaults of `from_predictions` for one curve and of
            `from_models` for two.

        Returns
        -------
        display : AccuracyCoverageDisplay

        Raises
        ------
        TypeError
            If the estimator does not predict probabilities, or ``y`` is missing or is not needed.
        ValueError
            If there are no samples.

        Examples
        --------
        >>> from river import datasets, naive_bayes
        >>> from streamcal import CalibratedClassifier
        >>> from streamcal.plot import AccuracyCoverageDisplay
        >>> model = CalibratedClassifier(naive_bayes.GaussianNB())
        >>> display = AccuracyCoverageDisplay.from_estimator(
        ...     model, datasets.Phishing(), target=0.95
        ... )
        >>> for curve in display.curves:
        ...     print(f"{curve.name}: {curve.answers.coverage:.2f} {curve.answers.accuracy:.3f}")
        GaussianNB: 0.99 0.890
        calibrated: 0.69 0.949
        """
        found = predictions_of(estimator, X, y, name)
        models = {name: (model.labels, model.columns) for name, model in found.items()}
        if len(models) == 1:
            ((only, (labels, columns)),) = models.items()
            return cls.from_predictions(labels, columns, name=only, ax=ax, **options)
        return cls.from_models(models, ax=ax, **options)

    @classmethod
    def _of(
        cls,
        models: Mapping[str | None, tuple[Any, Any]],
        pos_val: Any,
        level: float | None,
        target: float | None,
    ) -> Self:
        """Return the display of models; nothing is drawn."""
        check_options(level, target)
        answers = {
            name: answers_of(as_predictions(*pair), pos_val) for name, pair in models.items()
        }
        curves = [curve_of(each, name, level, target) for name, each in answers.items()]
        return cls(curves, level=level)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on ``ax``, or on new axes, and return this object."""
        if ax is None:
            ax = new_axes(6.4, 4.4)
        bottom = lowest_of(self.curves)
        self.lines_, self.expected_lines_, self.bands_ = [], [], []
        few = max(len(curve.coverage) for curve in self.curves) <= _MARKED_POINTS
        dots: list[tuple[Line2D, float]] = []
        for i, curve in enumerate(self.curves):
            style = line_style(ax, i)
            x, color = curve.coverage, style["color"]
            if curve.lower is not None and curve.upper is not None:
                area: Any = {"color": color, "alpha": opacity(ax, 0.2), "linewidth": 0, "zorder": 1}
                ends = x if len(x) > 1 else x + np.array([-0.005, 0.005])  # or it has no width
                low, high = (np.resize(end, len(ends)) for end in (curve.lower, curve.upper))
                self.bands_.append(ax.fill_between(ends, low, high, **area))
            dotted: Any = {"color": color, "linestyle": ":", "linewidth": 1.2, "zorder": 2.5}
            marker: Any = {"marker": "o" if few or len(x) == 1 else None, "markersize": 4}
            self.expected_lines_ += ax.plot(x, curve.expected, **dotted, **marker)
            self.lines_ += ax.plot(
                x, curve.accuracy, **style, **marker, linewidth=1.8, label=curve.name, zorder=3
            )
            if curve.answers is not None:
                dots.append((self._draw_answers(ax, curve, bottom, color), curve.answers.coverage))
        ax.set(xlabel="Coverage (share of samples answered)", ylabel="Accuracy of the answers")
        ax.set(xlim=(0.0, 1.01), ylim=(bottom, 1.0 + 0.02 * (1.0 - bottom)))
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines["left"].set_bounds(bottom, 1.0)
        from streamcal.plot._fitted import add_legend

        self.legend_ = add_legend(ax, self._entries(ax, dots))
        ax.set_yticks([tick for tick in ax.get_yticks() if bottom <= tick <= 1.0 + 1e-9])
        self.ax_, self.figure_ = ax, figure_of(ax)
        return self

    def _draw_answers(
        self, ax: Axes, curve: AccuracyCoverageCurve, bottom: float, color: Any
    ) -> Line2D:
        """Draw how many samples are answered under a target; return the dot."""
        answers = curve.answers
        assert answers is not None
        at, height = answers.coverage, answers.accuracy if answers.n_answers else answers.target
        ax.vlines(at, bottom, max(height, answers.expected), color=color, linewidth=0.8, zorder=2)
        (dot,) = ax.plot([at], [height], "o", color=color, clip_on=False, zorder=3.5)
        return dot

    def _entries(self, ax: Axes, dots: Sequence[tuple[Line2D, float]]) -> list[Entry]:
        """Return the entries of the legend; draw the line of the target, which is one of them."""
        from matplotlib.lines import Line2D

        from streamcal.plot._fitted import Entry

        alone = len(self.curves) == 1
        entries = [
            Entry(line, curve.name or "observed")
            for line, curve in zip(self.lines_, self.curves, strict=True)
        ]
        color: Any = self.lines_[0].get_color() if alone else muted(ax)
        sample = Line2D([], [], color=color, linestyle=":", linewidth=1.2)
        entries.append(Entry(sample, "expected, if calibrated"))
        if self.bands_:
            percent = "" if self.level is None else f"{100 * self.level:g}% "
            entries.append(Entry(self.bands_, f"{percent}confidence band"))
        targets = {curve.answers.target for curve in self.curves if curve.answers is not None}
        for target in sorted(targets):
            style: Any = {"linewidth": 1.0, "linestyle": (0, (4, 3)), "zorder": 1.5}
            (line,) = ax.plot([0.0, 1.0], [target, target], color=muted(ax), **style)
            entries.append(Entry(line, f"target {target:g}"))
        entries += [Entry(dot, f"{shown_share(coverage)} answered") for dot, coverage in dots]
        return entries
