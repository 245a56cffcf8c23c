"""Reliability diagrams without bins: observed frequency against predicted probability.

Or the observed mean of counts or amounts against the predicted one.

The curve is the isotonic regression of the labels on the predictions (CORP), so there are no bins
to choose, and its distance from the diagonal is the miscalibration MCB in the table. A band around
the diagonal or the curve shows deviations by chance; see `streamcal.metrics.bands`.

A histogram of the scores is drawn in the same axes, below the zero line, so a diagram needs only
one axes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal._validation import check_choice
from streamcal.losses import Tweedie
from streamcal.losses.deviance import Deviance, DevianceName
from streamcal.metrics.bands import KINDS, BandMethod, Kind
from streamcal.metrics.base import Multiclass, check_multiclass, find_deviance
from streamcal.metrics.corp import SCORES, Scoring
from streamcal.notebook.shape import Shape
from streamcal.plot._axes import figure_of, line_style, muted, new_axes, opacity
from streamcal.plot._predictions import (
    Events,
    Predictions,
    as_predictions,
    hints,
    means_of,
    pairs_of,
    predictions_of,
    view_of,
)
from streamcal.plot.reliability_curve import (
    Array,
    Curve,
    FindBand,
    Path,
    ReliabilityCurve,
    band_finder,
    calibrator_curves,
    find_bands,
    fit_curves,
    over_same_range,
    shapes_of,
    shown_part,
    shown_share,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import FillBetweenPolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from streamcal.plot._fitted import FittedBox

_MARKED_BLOCKS = 12  # corners get dots up to this many blocks
_INTERVAL: Literal["interval"] = "interval"  # of calibrators; not a kind of band that is estimated
_MOST_PANELS = 12
_EVENT = {"xlabel": "Predicted probability", "ylabel": "Observed frequency"}
_MEAN = {"xlabel": "Predicted mean", "ylabel": "Observed mean"}
_TOP_LABEL: Any = {
    "xlabel": "Probability of the predicted label",
    "ylabel": "Frequency of being right",
}


class ReliabilityDisplay:
    """Reliability diagram with the CORP curve, a band for it and its score parts [1]_.

    Make one with `from_predictions`, `from_models`, `from_estimator` or `from_calibrator`. As in
    scikit-learn, these compute and draw, and `plot` draws again on other axes. Nothing is shown or
    saved: use ``matplotlib.pyplot.show()`` or ``display.figure_.savefig(path)``.

    The table is in a corner if it hides no curve there, else above the curves. In small axes it
    has only the names and MCB.

    With more than two labels there are three diagrams: one label against all others
    (``pos_val="sky"``), how often the predicted label is right (``multiclass="top-label"`` [2]_),
    and each label against all others in a panel of its own (``multiclass="classwise"`` [3]_).

    Parameters
    ----------
    curves : sequence of ReliabilityCurve
        The curves, one for each model, over the same range.
    scoring
        The score in the table, ``"brier"`` or ``"log"``.
    loss
        The loss of means, for curves that were computed with it.
    level
        The level of the bands, for the legend.
    band
        Their kind, for the legend: ``"consistency"``, ``"confidence"``, or ``"interval"`` for those
        of a calibrator.
    xlabel, ylabel
        The axes' labels; by default probability and frequency, or means if there is a ``loss``.

    Attributes
    ----------
    curves : tuple of ReliabilityCurve
        The curves; of panels, those of the first panel first. That of a calibrator without a
        staircase has its map as arrays ``x`` and ``y`` in place of the scores and frequencies.
    panels : dict of ReliabilityDisplay
        With ``multiclass="classwise"`` the display of each label that is drawn, the most frequent
        label first; else empty.
    ax_ : matplotlib Axes
        The axes drawn on. Those of panels lie within it, and it shows nothing itself.
    figure_ : matplotlib Figure
        Their figure.
    lines_ : list of matplotlib Line2D
        One curve for each model.
    bands_ : list of matplotlib PolyCollection
        The bands, of the curves that have one.
    text_ : matplotlib Artist
        The table; the legend of panels.

    References
    ----------
    .. [1] Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021). Stable reliability diagrams for
       probabilistic classifiers. PNAS 118(8), figure 2 and "Uncertainty quantification".
    .. [2] Gupta, C. and Ramdas, A. (2022). Top-label calibration and multiclass-to-binary
       reductions. ICLR.
    .. [3] Kull, M., Perelló-Nieto, M., Kängsepp, M. and others (2019). Beyond temperature scaling:
       obtaining well-calibrated multiclass probabilities with Dirichlet calibration. NeurIPS.

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
    figure_: Figure
    lines_: list[Line2D]
    bands_: list[FillBetweenPolyCollection]
    text_: FittedBox

    def __init__(
        self,
        curves: Sequence[Curve],
        *,
        scoring: Scoring = "brier",
        level: float | None = None,
        band: Literal[Kind, "interval"] = "consistency",
        xlabel: str | None = None,
        ylabel: str | None = None,
        loss: DevianceName | Tweedie | None = None,
    ) -> None:
        if not curves:
            raise ValueError("`curves` must hold at least one curve, got none")
        check_choice(scoring, "scoring", SCORES)
        check_choice(band, "band", (*KINDS, _INTERVAL))
        self.loss = loss
        self._deviance = find_deviance(loss, scoring=scoring != "brier")
        words = _EVENT if loss is None else _MEAN
        self.curves: tuple[Any, ...] = tuple(curves)
        self.scoring = scoring
        self.level = level
        self.band = band
        self.xlabel = words["xlabel"] if xlabel is None else xlabel
        self.ylabel = words["ylabel"] if ylabel is None else ylabel
        self.panels: dict[Any, Self] = {}
        self._titles: list[tuple[str, str]] = []
        self._note = ""

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: Any,
        *,
        pos_val: Any = True,
        multiclass: Multiclass | None = None,
        name: str | None = None,
        scoring: Scoring = "brier",
        band: Kind = "consistency",
        method: BandMethod = "resampling",
        level: float | None = 0.9,
        n_resamples: int = 500,
        seed: int = 0,
        loss: DevianceName | Tweedie | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the diagram of one model.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The true labels; at most two different ones if ``y_prob`` is an array.
        y_prob
            The predicted probability of the positive label, in [0, 1], an array of shape
            (n_samples,). Or the probability of each label: a list of dicts, as models of river
            return them, or a DataFrame with a column for each label, as from
            ``predict_proba_many``, or a mapping from labels to such columns.
        pos_val
            The positive label (1 equals True). With more than two labels the default stands for
            ``multiclass="top-label"``.
        multiclass
            ``"top-label"``: whether the label with the greatest probability is right, against this
            probability, which is often called confidence. ``"classwise"``: a panel for each label,
            with the probability of this label and how often it is true; the 12 most frequent
            labels if there are more. Both need the probability of each label.
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
        loss
            For labels that are counts or amounts, and predictions of their mean: ``"squared"``,
            ``"poisson"``, ``"gamma"``, ``"tweedie"`` or a `streamcal.losses.Tweedie`, whose
            deviance the table splits, see `streamcal.metrics.CORP`. The diagram is a square over
            the predictions and most of the curve. The only band is then the default one; it is
            drawn without a distribution of the labels, see `streamcal.metrics.bands`.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : ReliabilityDisplay

        Raises
        ------
        ValueError
            If the arrays are empty, differ in length, or hold other than probabilities and labels;
            with a ``loss``, numbers outside of its ranges.
        ImportError
            If matplotlib is not installed.

        Examples
        --------
        >>> from streamcal.plot import ReliabilityDisplay
        >>> y = ["ham", "spam", "eggs", "ham"]
        >>> p = [{"ham": 0.75, "spam": 0.25, "eggs": 0.0}] * 4
        >>> display = ReliabilityDisplay.from_predictions(y, p)
        >>> display.lines_[0].get_xydata()  # "ham" is predicted with 0.75, and right in half
        array([[0.75, 0.5 ]])
        >>> display = ReliabilityDisplay.from_predictions(y, p, multiclass="classwise")
        >>> list(display.panels)
        ['ham', 'spam', 'eggs']

        Counts:

        >>> y, mean = [0, 2, 1, 4], [0.5, 1.0, 1.5, 2.0]
        >>> display = ReliabilityDisplay.from_predictions(y, mean, loss="poisson")
        >>> display.curves[0].decomposition.mcb
        0.7918
        >>> display.ax_.get_xlabel()
        'Predicted mean'
        """
        check_choice(scoring, "scoring", SCORES)
        check_multiclass(multiclass, pos_val)
        found = _deviance_of(loss, scoring, pos_val, multiclass)
        find_band = band_finder(band, method, level, n_resamples, seed, found)
        if found is not None:
            made = cls._of_means({name: found.as_arrays(y_true, y_prob)}, loss, found, find_band)
        else:
            with hints(pos_val, y_true, y_prob):
                made = cls._of_models(
                    {name: as_predictions(y_true, y_prob)}, pos_val, multiclass, scoring, find_band
                )
        return made._with_bands(level, band).plot(ax=ax)

    @classmethod
    def from_models(
        cls,
        models: Mapping[str, tuple[ArrayLike, Any]],
        *,
        pos_val: Any = True,
        multiclass: Multiclass | None = None,
        scoring: Scoring = "brier",
        band: Kind | None = None,
        method: BandMethod | None = None,
        level: float | None = None,
        n_resamples: int = 500,
        seed: int = 0,
        loss: DevianceName | Tweedie | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw several models in one diagram.

        Parameters
        ----------
        models
            ``{name: (y_true, y_prob)}``, each pair as in `from_predictions`. The samples of models
            may differ, for example if one of them started later.
        level
            The level of the bands, one for each model in its colour. None, the default: no bands.
        band, method
            As in `from_predictions`. None, the default: ``"confidence"`` and ``"asymptotic"``; with
            a ``loss`` the only ones that there are.
        pos_val, multiclass, scoring, n_resamples, seed, loss, ax
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
        check_multiclass(multiclass, pos_val)
        found = _deviance_of(loss, scoring, pos_val, multiclass)
        if band is None:
            band = "confidence" if found is None else "consistency"
        if method is None:
            method = "asymptotic" if found is None else "resampling"
        find_band = band_finder(band, method, level, n_resamples, seed, found)
        pairs = pairs_of(models)
        if found is None:
            checked = {name: as_predictions(*pair) for name, pair in pairs.items()}
            with hints(pos_val, *(values for pair in pairs.values() for values in pair)):
                made = cls._of_models(checked, pos_val, multiclass, scoring, find_band)
        else:
            means = {name: found.as_arrays(*pair) for name, pair in pairs.items()}
            made = cls._of_means(means, loss, found, find_band)
        return made._with_bands(level, band).plot(ax=ax)

    @classmethod
    def _of_models(
        cls,
        models: Mapping[str | None, Predictions],
        pos_val: Any,
        multiclass: Multiclass | None,
        scoring: Scoring,
        find_band: FindBand | None,
    ) -> Self:
        """Return the display of models; nothing is drawn."""

        def curves_of(events: Mapping[str | None, Events]) -> list[ReliabilityCurve]:
            return fit_curves(events, scoring, find_bands(events, find_band))

        view = view_of(models.values(), pos_val, multiclass)
        if view is None:
            events = {name: model.of_label(pos_val) for name, model in models.items()}
            return cls(curves_of(events), scoring=scoring)
        for model in models.values():
            model.check_names_labels()
        if view == "top-label":
            events = {name: model.of_top_label() for name, model in models.items()}
            return cls(curves_of(events), scoring=scoring, **_TOP_LABEL)
        counts = Counter[Any]()
        for model in models.values():
            counts.update(model.counts())
        labels = sorted(counts, key=lambda label: -counts[label])[:_MOST_PANELS]
        each = [{name: model.of_label(label) for name, model in models.items()} for label in labels]
        curves = over_same_range(
            [curves_of(events) for events in each],
            [[p for _, p in events.values()] for events in each],
        )
        panels = {
            label: cls(of_label, scoring=scoring)
            for label, of_label in zip(labels, curves, strict=True)
        }
        return cls._of_panels(panels, counts)

    @classmethod
    def _of_means(
        cls,
        models: Mapping[str | None, Events],
        loss: DevianceName | Tweedie | None,
        deviance: Deviance,
        find_band: FindBand | None,
    ) -> Self:
        """Return the display of predicted means; nothing is drawn."""
        return cls(fit_curves(models, deviance, find_bands(models, find_band)), loss=loss)

    @classmethod
    def _of_panels(cls, panels: dict[Any, Self], counts: Counter[Any]) -> Self:
        """Return a display of panels, one for each label, with its share of all samples."""
        curves = [curve for panel in panels.values() for curve in panel.curves]
        made = cls(curves, scoring=next(iter(panels.values())).scoring)
        made.panels = panels
        total, n_labels = counts.total(), len(counts)
        made._titles = [
            (str(label), ", ".join([shown_share(counts[label] / total), *panel._mcb_in_words()]))
            for label, panel in panels.items()
        ]
        if len(panels) < n_labels:
            rest = 1.0 - sum(counts[label] for label in panels) / total
            made._note = (
                f"The {len(panels)} most frequent of {n_labels:,} labels;"
                f" the other {n_labels - len(panels):,} have {shown_share(rest)} of the samples."
            )
        return made

    def _mcb_in_words(self) -> list[str]:
        """Return the miscalibration of at most three curves, if it is known."""
        parts = [curve.decomposition.mcb for curve in self.curves]
        if len(parts) > 3:
            return []
        arrow = " \N{RIGHTWARDS ARROW} " if len(parts) == 2 else " / "
        return [f"MCB {arrow.join(map(shown_part, parts))}"]

    def _with_bands(self, level: float | None, band: Kind) -> Self:
        """Set what bands are called, and return this object."""
        for display in (self, *self.panels.values()):
            display.level, display.band = level, band
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        pos_val: Any = True,
        multiclass: Multiclass | None = None,
        name: str | None = None,
        loss: DevianceName | Tweedie | None = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the diagram of a classifier of river, of streamcal or of scikit-learn.

        With a ``loss``, that of a regressor, as it predicts means.

        Parameters
        ----------
        estimator : classifier
            A classifier of river predicts each sample before it learns it, as in river's
            ``progressive_val_score``; give a clone if it must not learn. For a
            `streamcal.CalibratedClassifier` there are two curves: the model before and after
            calibration. A classifier of scikit-learn must be fitted; it only predicts.
        X
            For river a dataset, that is, an iterable of pairs (x, y). For scikit-learn the
            features, of shape (n_samples, n_features).
        y : array-like of shape (n_samples,), optional
            The labels; only for scikit-learn.
        pos_val
            The positive label (1 equals True). All others are negative. With more than two labels
            the default stands for ``multiclass="top-label"``.
        multiclass
            ``"top-label"``: the label with the greatest probability; ``"classwise"``: a panel for
            each label. See `from_predictions`.
        name
            The name in the legend; by default that of the class.
        loss
            For regressors, as in `from_predictions`; samples for which one of river predicts None
            are left out.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        **options
            ``scoring``, ``band``, ``method``, ``level``, ``n_resamples`` and ``seed``, with the
            defaults of `from_predictions` for one curve and of `from_models` for two.

        Returns
        -------
        display : ReliabilityDisplay

        Raises
        ------
        TypeError
            If the estimator does not predict probabilities, or ``y`` is missing or is not needed.
        ValueError
            If there are no samples, or ``pos_val`` is not a label.

        Examples
        --------
        >>> from river import datasets, naive_bayes
        >>> from streamcal import CalibratedClassifier
        >>> from streamcal.plot import ReliabilityDisplay
        >>> model = CalibratedClassifier(naive_bayes.GaussianNB())
        >>> display = ReliabilityDisplay.from_estimator(model, datasets.Phishing())
        >>> [(curve.name, round(curve.decomposition.mcb, 3)) for curve in display.curves]
        [('GaussianNB', 0.009), ('calibrated', 0.003)]

        Seven labels: how often the predicted label is right, then a panel for each.

        >>> model = CalibratedClassifier(naive_bayes.GaussianNB())
        >>> display = ReliabilityDisplay.from_estimator(model, datasets.ImageSegments())
        >>> [(curve.name, round(curve.decomposition.mcb, 3)) for curve in display.curves]
        [('GaussianNB', 0.1), ('calibrated', 0.003)]
        >>> display = ReliabilityDisplay.from_estimator(
        ...     model.clone(), datasets.ImageSegments(), multiclass="classwise"
        ... )
        >>> [round(curve.decomposition.mcb, 3) for curve in display.panels["sky"].curves]
        [0.0, 0.0]
        """
        check_multiclass(multiclass, pos_val)
        if loss is not None:
            _deviance_of(loss, options.get("scoring", "brier"), pos_val, multiclass)
            named, labels, means = means_of(estimator, X, y, name)
            return cls.from_predictions(labels, means, name=named, loss=loss, ax=ax, **options)
        found = predictions_of(estimator, X, y, name)
        models: dict[str, tuple[Any, Any]] = {
            name: (model.labels, model.columns) for name, model in found.items()
        }
        about: Any = {"pos_val": pos_val, "multiclass": multiclass, "ax": ax}
        if len(models) == 1:
            ((only, (labels, columns)),) = models.items()
            return cls.from_predictions(labels, columns, name=only, **about, **options)
        return cls.from_models(models, **about, **options)

    @classmethod
    def from_calibrator(
        cls, calibrator: Any, *, name: str | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the map of a calibrator, or of several.

        Parameters
        ----------
        calibrator
            A calibrator, a snapshot or anything with ``staircase()`` or ``predict_many(scores)``;
            or a mapping from names to several of them. The maps of staircases interpolate as these
            do. For a `VennAbersCalibrator` there is also the interval (p0, p1), for a
            `TopLabelCalibrator` a curve for each label, and for other joint calibrators the map of
            the first of two probabilities.
        name
            The name in the legend, of a single calibrator.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : ReliabilityDisplay

        Raises
        ------
        TypeError
            If it is not a calibrator, or a `SegmentCalibrator`, whose map depends on the fields.

        Notes
        -----
        The histogram shows the scores that the calibrator keeps. In that of a staircase the weight
        of a block is spread over its scores. A hedge shows those of the calibrator that keeps most.
        Without such scores (Platt, beta, temperature) there is no histogram.

        Examples
        --------
        >>> import streamcal
        >>> calibrator = streamcal.IsotonicCalibrator(loss="squared", prior=0.0)
        >>> calibrator.learn_many([0.1, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> display = streamcal.plot.ReliabilityDisplay.from_calibrator(calibrator)
        >>> display.lines_[0].get_ydata()
        array([0. , 0.5, 0.5, 1. ])
        """
        if isinstance(calibrator, Mapping):
            if not calibrator:
                raise ValueError("`calibrator` must hold at least one calibrator, got none")
            found = {str(key): shapes_of(value) for key, value in calibrator.items()}
        else:
            found = {name or "": shapes_of(calibrator)}
        maps: dict[str | None, Shape] = {}
        for key, shapes in found.items():
            for label, shape in shapes.items():
                words = [key] if len(shapes) == 1 else [key, str(label)]
                maps[", ".join(filter(None, words)) or None] = shape
        curves = calibrator_curves(maps)
        return cls(curves, band=_INTERVAL, xlabel="Score", ylabel="Calibrated value").plot(ax=ax)

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
        if self.panels:
            from streamcal.plot.panels import draw_panels, size_of_panels

            if ax is None:
                ax = new_axes(*size_of_panels(len(self.panels)))
            self.ax_ = ax
            self.figure_ = figure_of(ax)
            panels = list(self.panels.values())
            self.text_ = draw_panels(ax, panels, self._titles, self._note)
            self.lines_ = [line for panel in panels for line in panel.lines_]
            self.bands_ = [band for panel in panels for band in panel.bands_]
            return self
        if ax is None:
            ax = new_axes(5.6, 6.2)
        self._draw(ax)
        return self

    def _draw(self, ax: Axes, *, with_table: bool = True) -> None:
        """Draw one diagram; panels have a legend together, and no table."""
        self.ax_ = ax
        self.figure_ = figure_of(ax)
        paths = [curve.points() for curve in self.curves]
        diagonal, bottom, top = self._draw_diagonal(ax, np.concatenate([y for _, y in paths]))
        self._draw_curves(ax, paths)
        if self._deviance is not None:  # the ends of a curve may lie outside
            self._cut_curves(ax, bottom, top)
        ends = self._draw_bands(ax, bottom, top)
        floor = self._draw_histogram(ax, bottom, top)
        self._set_axes(ax, floor, bottom, top)
        self._ends = bottom, top
        if with_table:
            from streamcal.plot._reliability_table import Table

            scoring = self.scoring if self._deviance is None else self._deviance.name
            names = self._band_names()
            table = Table(ax, self.curves, self.lines_, scoring, self.bands_, names, diagonal)
            inside = [(x, np.clip(y, bottom, top)) for x, y in paths]
            self.text_ = table.draw([*inside, *ends], bottom, top)
            self._center_label()

    def _center_label(self) -> None:
        """Put the label of the values beside these, no longer than they reach."""
        ax, (bottom, top) = self.ax_, self._ends
        label, (low, high) = ax.yaxis.label, ax.get_ylim()
        label.set_y((0.5 * (bottom + top) - low) / (high - low))
        locator: Any = ax.get_axes_locator()
        ax.apply_aspect(locator and locator(ax, None))
        ends = ax.transData.transform([(0.0, bottom), (0.0, top)])[:, 1]
        share = (ends[1] - ends[0]) / label.get_window_extent().height
        label.set_fontsize(max(min(1.0, share) * float(label.get_fontsize()), 5.0))

    def _band_names(self) -> tuple[str, str]:
        """Return what the bands are called, in full and in short."""
        if self.level is None:
            return self.band, self.band
        percent = f"{100 * self.level:g}%"
        return f"{percent} {self.band} band", f"{percent} band"

    def _draw_diagonal(self, ax: Axes, y: Array) -> tuple[Line2D | None, float, float]:
        """Draw the diagonal if the diagram is a square; return it and the range of values."""
        edges = self.curves[0].edges
        bottom, top = float(y.min()), float(y.max())
        if self._deviance is not None or _is_square(edges, y):
            ends = [float(edges[0]), float(edges[-1])]
            gray = muted(ax)
            style: Any = {"linewidth": 1.0, "linestyle": (0, (4, 3)), "zorder": 1.5}
            (line,) = ax.plot(ends, ends, color=gray, **style)
            ax.set_aspect("equal")
            return line, ends[0], ends[1]
        if bottom >= 0.0 and top <= 1.0:
            return None, 0.0, 1.0
        return (None, bottom, top) if bottom < top else (None, bottom - 0.5, top + 0.5)

    def _draw_bands(self, ax: Axes, bottom: float, top: float) -> list[Path]:
        """Draw the bands in the colours of their curves; return lower and upper ends."""
        self.bands_, ends = [], []
        for curve, line in zip(self.curves, self.lines_, strict=True):
            if curve.band is None:
                continue
            x = curve.band[0]
            low, high = (np.clip(end, bottom, top) for end in curve.band[1:])
            if len(x) == 1:  # without a width it would be invisible
                x = x + float(np.ptp(curve.edges)) * np.array([-0.005, 0.005])
                low, high = np.repeat(low, 2), np.repeat(high, 2)
            style: Any = {
                "color": line.get_color(),
                "alpha": opacity(ax, 0.2),
                "linewidth": 0,
                "zorder": 1,
            }
            self.bands_.append(ax.fill_between(x, low, high, **style))
            ends += [(x, low), (x, high)]
        return ends

    def _draw_curves(self, ax: Axes, paths: Sequence[Path]) -> None:
        n_corners = [curve.n_corners or _MARKED_BLOCKS + 1 for curve in self.curves]
        few = max(n_corners) <= _MARKED_BLOCKS
        self.lines_ = []
        for i, (curve, path) in enumerate(zip(self.curves, paths, strict=True)):
            (line,) = ax.plot(
                *path,
                **line_style(ax, i),
                linewidth=1.8,
                marker="o" if few or len(path[0]) == 1 else None,
                markersize=4,
                label=curve.name,
                solid_joinstyle="round",
                zorder=3,
            )
            self.lines_.append(line)

    def _cut_curves(self, ax: Axes, bottom: float, top: float) -> None:
        """Draw no line outside the square, where the histogram and the table are."""
        from matplotlib.patches import Rectangle

        left, right = float(self.curves[0].edges[0]), float(self.curves[0].edges[-1])
        margin = 0.015 * (top - bottom)
        corner = left - margin, bottom - margin
        size = right - left + 2.0 * margin, top - bottom + 2.0 * margin
        for line in self.lines_:
            line.set_clip_path(Rectangle(corner, *size, transform=ax.transData))

    def _draw_histogram(self, ax: Axes, bottom: float, top: float) -> float:
        """Draw the histograms below the zero line and return their base line."""
        height = top - bottom
        known = [pair for pair in zip(self.lines_, self.curves, strict=True) if pair[1].mass.any()]
        if not known:
            return bottom - 0.02 * height
        floor, tallest = bottom - 0.17 * height, 0.13 * height
        many = len(self.curves) > 1
        peak = max(float((curve.mass / curve.mass.sum()).max()) for _, curve in known)
        for line, curve in known:
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
        ax.axhline(bottom, color=muted(ax, 0.7), linewidth=0.8, zorder=0.5)
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


def _deviance_of(
    loss: DevianceName | Tweedie | None, scoring: Scoring, pos_val: Any, multiclass: Any
) -> Deviance | None:
    """Return the deviance of a loss, None without one, or raise if it has company."""
    return find_deviance(
        loss, scoring=scoring != "brier", pos_val=pos_val is not True, multiclass=multiclass
    )


def _is_square(edges: Array, y: Array) -> bool:
    """Return whether scores and values are probabilities in one square."""
    left, right = edges[0], edges[-1]
    return bool(left >= 0.0 and right <= 1.0 and left <= y.min() and y.max() <= right)
