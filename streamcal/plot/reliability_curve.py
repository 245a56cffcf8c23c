"""The curve of a reliability diagram as numbers: isotonic regression, histogram, score and band.

The curve of a calibrator is its map, with the scores that it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from streamcal._advice import shown
from streamcal._validation import as_weights, check_choice, check_within
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import Staircase, isotonic_fit
from streamcal.losses import Tweedie
from streamcal.losses.deviance import Deviance, DevianceName
from streamcal.metrics.bands import KINDS, METHODS, Band, BandMethod, Kind, corp_band, mean_band
from streamcal.metrics.base import as_events, find_deviance
from streamcal.metrics.corp import SCORES, Scoring, mean_score_of, split_of_means
from streamcal.notebook.shape import Shape

Array = NDArray[np.float64]
Path = tuple[Array, Array]
"""x and y of corners."""
FindBand = Callable[[Array, Array, Array | None], Band]
"""Returns the band of labels, predictions and weights."""

_BINS = 50
_SCORE_NAMES = {"brier": "Brier", "log": "log loss", "squared": "sq. error"}
_TAIL = 0.005  # the share of samples at each end whose values may lie outside the diagram


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

    Examples
    --------
    >>> curve = ReliabilityCurve.from_predictions([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
    >>> curve.n_samples, curve.decomposition.mcb
    (4, 0.15)
    """

    staircase: Staircase
    name: str | None
    mass: Array
    edges: Array
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
        scoring: Scoring = "brier",
        band: Kind = "consistency",
        method: BandMethod = "resampling",
        level: float | None = 0.9,
        n_resamples: int = 500,
        seed: int = 0,
        loss: DevianceName | Tweedie | None = None,
        w: ArrayLike | None = None,
    ) -> Self:
        """Compute what `ReliabilityDisplay.from_predictions` draws; it has the same parameters.

        Beside these, ``w`` are weights of the samples: 1 / propensity where only some decisions get
        a label. The band then needs the method "resampling".

        Examples
        --------
        >>> curve = ReliabilityCurve.from_predictions([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
        >>> curve.decomposition.mcb
        0.15
        """
        check_choice(scoring, "scoring", SCORES)
        found = find_deviance(loss, scoring=scoring != "brier", pos_val=pos_val is not True)
        find_band = band_finder(band, method, level, n_resamples, seed, found)
        if found is None:
            model = {name: as_events(y_true, y_prob, pos_val)}
        else:
            model = {name: found.as_arrays(y_true, y_prob)}
        weights = None if w is None else as_weights(w, len(model[name][0]))
        bands = find_bands(model, find_band, weights)
        (curve,) = fit_curves(model, found or scoring, bands, weights)
        return cls(**vars(curve))

    def points(self) -> Path:
        """Return the corners of the curve within the range of the histogram."""
        stairs = self.staircase
        ends = np.concatenate([stairs.lower, stairs.upper])
        x = np.unique(np.clip(ends, self.edges[0], self.edges[-1]))
        if stairs.interpolation == "step":  # the value of a block extends to the start of the next
            x = np.repeat(x, 2)[1:]
            y = np.asarray(stairs(x, outside="clip"))
            y[1::2] = y[:-1:2]
            return x, y
        return x, np.asarray(stairs(x, outside="clip"))

    @property
    def n_corners(self) -> int:
        """How many blocks the curve has."""
        return len(self.staircase)

    def table_row(self, scoring: str) -> dict[str, str]:
        """Return a row of the table, as cells by header."""
        parts = self.decomposition
        if parts is None:
            weights = self.staircase.weights
            n, weight = self.n_samples, f"{weights.sum():,.10g}"
            known = {"weight": weight} if n is None else {"samples": f"{n:,}"}
            return {"blocks": f"{len(weights):,}"} | known
        headers = (_SCORE_NAMES.get(scoring, "deviance"), "= MCB", "− DSC", "+ UNC")
        cells = list(map(shown_part, parts))
        return {"n": f"{self.n_samples:,}"} | dict(zip(headers, cells, strict=True))


@dataclass(frozen=True, eq=False)
class MapCurve:
    """The map of a calibrator in a diagram.

    Attributes
    ----------
    x, y : ndarray of shape (n_points,)
        The map.
    name : str or None
        The name in the legend.
    mass : ndarray of shape (n_bins,)
        The weight of the scores that the calibrator keeps in each bin; zeros if it keeps none.
    edges : ndarray of shape (n_bins + 1,)
        The edges of the bins.
    n_samples : int or None
        The number of samples learned; None if the calibrator does not count them.
    band : Band or None
        The interval of each score, if the calibrator predicts one.
    n_corners : None
        A staircase is a `ReliabilityCurve`.

    Examples
    --------
    >>> from streamcal import PlattCalibrator
    >>> from streamcal.plot import ReliabilityDisplay
    >>> (curve,) = ReliabilityDisplay.from_calibrator(PlattCalibrator()).curves
    >>> type(curve).__name__, curve.n_samples, float(curve.mass.sum())
    ('MapCurve', 0, 0.0)
    """

    x: Array
    y: Array
    name: str | None
    mass: Array
    edges: Array
    n_samples: int | None = None
    band: Band | None = None
    n_corners: int | None = None

    def points(self) -> Path:
        """Return the map as points of a curve."""
        return self.x, self.y

    def table_row(self, scoring: str) -> dict[str, str]:
        """Return a row of the table, as cells by header."""
        return {} if self.n_samples is None else {"samples": f"{self.n_samples:,}"}


Curve = ReliabilityCurve | MapCurve
"""What a diagram draws of a model or a calibrator, over the same edges for all curves."""


def shown_part(part: float) -> str:
    """Return a part of a score as a diagram shows it.

    Examples
    --------
    >>> shown_part(0.25), shown_part(123456.7), shown_part(np.inf)
    ('0.2500', '1.235e+05', '∞')
    """
    if np.isinf(part):
        return "∞"
    return f"{part:.4f}" if part < 1e4 else f"{part:.4g}"


def shown_share(share: float) -> str:
    """Return a share in words, which is 0 or 100 % only if it is so.

    Examples
    --------
    >>> shown_share(1 / 7), shown_share(0.002), shown_share(1e-6), shown_share(0.9999)
    ('14 %', '0.2 %', '< 0.1 %', '> 99 %')
    """
    percent = 100.0 * share
    if percent <= 0.0 or percent >= 100.0 or 10.0 <= percent <= 99.0:
        return f"{percent:.0f} %"
    if percent > 99.0:
        return "> 99 %"
    return f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def band_finder(
    band: Kind,
    method: BandMethod,
    level: float | None,
    n_resamples: int,
    seed: int,
    deviance: Deviance | None = None,
) -> FindBand | None:
    """Return a function from labels, predictions and weights to a band; None without a level.

    The parameters are those of `ReliabilityDisplay.from_predictions`; wrong ones raise.
    """
    check_choice(band, "band", KINDS)
    check_choice(method, "method", METHODS)
    check_within(level, "level", "(0, 1) or None")
    if level is None:
        return None
    if deviance is not None:
        for name, value, only in (("band", band, "consistency"), ("method", method, "resampling")):
            if value != only:
                raise ValueError(
                    f"`{name}` must be {only!r} where `loss` is given, got {value!r}: no other band"
                    " is known to hold without the distribution of the labels"
                )
        least = deviance.loss.mean_range[0]

        def find_mean_band(y: Array, z: Array, w: Array | None) -> Band:
            scores, group = np.unique(z, return_inverse=True)
            errors = (y - z) ** 2 if w is None else (w * (y - z)) ** 2
            n = _totals(group, w)
            return mean_band(
                scores,
                n,
                _totals(group, errors),
                least=least,
                sizes=None if w is None else n**2 / _totals(group, w**2),
                level=level,
                n_resamples=n_resamples,
                seed=seed,
            )

        return find_mean_band

    def find(happened: Array, p: Array, w: Array | None) -> Band:
        scores, group = np.unique(p, return_inverse=True)
        return corp_band(
            scores,
            _totals(group, w),
            _totals(group, happened if w is None else w * happened),
            squares=None if w is None else _totals(group, w**2),
            kind=band,
            method=method,
            level=level,
            n_resamples=n_resamples,
            seed=seed,
        )

    return find


def _totals(group: NDArray[np.int64], values: Array | None) -> Array:
    """Return the sum of values in each group; None: the number of samples."""
    return np.bincount(group, values).astype(np.float64)


def find_bands(
    models: Mapping[str | None, tuple[Array, Array]],
    find_band: FindBand | None,
    w: Array | None = None,
) -> dict[str | None, Band]:
    """Return the band of each model; none without a function that finds them."""
    if find_band is None:
        return {}
    return {name: find_band(*model, w) for name, model in models.items()}


def fit_curves(
    models: Mapping[str | None, tuple[Array, Array]],
    scoring: str | Deviance,
    bands: Mapping[str | None, Band],
    w: Array | None = None,
) -> list[ReliabilityCurve]:
    """Return the curves of models, from labels and predictions, over the same range.

    ``w`` are the weights of the samples, the same for all models.
    """
    fits = {name: isotonic_fit(p, happened, w) for name, (happened, p) in models.items()}
    if isinstance(scoring, Deviance):
        edges = _edges_of_means(
            [p for _, p in models.values()],
            # At its ends, where samples are few, a curve may be far off: show most of it, not all.
            [np.quantile(fits[n](p), [_TAIL, 1.0 - _TAIL]) for n, (_, p) in models.items()],
        )
    else:
        edges = _edges(
            [ends for stairs in fits.values() for ends in (stairs.lower, stairs.upper)],
            [stairs.values for stairs in fits.values()]
            # At its ends, where samples are few, the band is wide: show most of it, not all.
            + [np.quantile(band.lower, [0.1]) for band in bands.values()]
            + [np.quantile(band.upper, [0.9]) for band in bands.values()],
        )
    return [
        ReliabilityCurve(
            staircase=fits[name],
            name=name,
            mass=np.histogram(p, bins=edges, weights=w)[0].astype(np.float64),
            edges=edges,
            n_samples=len(p),
            decomposition=_split(fits[name], y, p, scoring, w),
            band=bands.get(name),
        )
        for name, (y, p) in models.items()
    ]


def _split(
    stairs: Staircase, y: Array, p: Array, scoring: str | Deviance, w: Array | None
) -> Decomposition:
    """Return the split of the mean score, or of the mean deviance."""
    if isinstance(scoring, Deviance):
        return split_of_means(y, p, scoring, w)
    return decompose(stairs, mean_score_of(y, p, scoring, w), scoring)


def over_same_range(
    panels: Sequence[Sequence[ReliabilityCurve]], predictions: Sequence[Sequence[Array]]
) -> list[list[ReliabilityCurve]]:
    """Return the curves of several diagrams, and their histograms, over the range of all."""
    ends = [(curve.edges[0], curve.edges[-1]) for curves in panels for curve in curves]
    low, high = min(left for left, _ in ends), max(right for _, right in ends)
    edges = np.linspace(low, high, _BINS + 1)
    return [
        [
            replace(curve, edges=edges, mass=np.histogram(p, bins=edges)[0].astype(np.float64))
            for curve, p in zip(*each, strict=True)
        ]
        for each in zip(panels, predictions, strict=True)
    ]


def calibrator_curves(maps: Mapping[str | None, Shape]) -> list[Curve]:
    """Return the maps of calibrators as curves over the same range."""
    ends, values = [], []
    for shape in maps.values():
        stairs = shape.staircase
        ends += [stairs.lower, stairs.upper] if stairs is not None else [shape.x]
        values.append(shape.y if stairs is None else stairs.values)
    edges = _edges(ends, values)
    return [_curve_of(shape, name, edges) for name, shape in maps.items()]


def _curve_of(shape: Shape, name: str | None, edges: Array) -> Curve:
    stairs = shape.staircase
    if stairs is not None:
        mass = _spread_weights(stairs, edges)
        return ReliabilityCurve(stairs, name, mass, edges, shape.n_samples)
    scores, weights = shape.kept
    mass, _ = np.histogram(scores, bins=edges, weights=weights)
    band = None if shape.interval is None else Band(shape.x, *shape.interval)
    return MapCurve(shape.x, shape.y, name, mass.astype(np.float64), edges, shape.n_samples, band)


def _edges(ends: Sequence[Array], values: Sequence[Array]) -> Array:
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


def _edges_of_means(predictions: Sequence[Array], values: Sequence[Array]) -> Array:
    """Return the edges of the bins of a diagram of means, a square that holds all of these.

    It begins at 0 if that costs less than half of it.
    """
    both = np.concatenate([*predictions, *values])
    left, right = float(both.min()), float(both.max())
    if left == right:
        half = 0.5 * abs(left) or 0.5
        left, right = left - half, right + half
    elif 0.0 <= left <= 0.5 * right:
        left = 0.0
    return np.linspace(left, right, _BINS + 1)


def _spread_weights(stairs: Staircase, edges: Array) -> Array:
    """Return the weight in each bin if that of a block is spread evenly between its bounds."""
    lower = np.clip(stairs.lower, edges[0], edges[-1])
    upper = np.clip(stairs.upper, edges[0], edges[-1])
    wide = upper > lower
    mass, _ = np.histogram(lower[~wide], bins=edges, weights=stairs.weights[~wide])
    lower, upper, weights = lower[wide], upper[wide], stairs.weights[wide]
    covered = np.minimum.outer(upper, edges[1:]) - np.maximum.outer(lower, edges[:-1])
    shares = np.maximum(covered, 0.0) / (upper - lower)[:, None]
    return np.asarray(mass + weights @ shares)


def shapes_of(thing: Any) -> dict[Any, Shape]:
    """Return the maps of a calibrator by label; the only map of one for single scores under None.

    Raises
    ------
    TypeError
        If it has neither ``staircase`` nor ``predict_many``, or is a model, which maps features.
    """
    model = isinstance(thing, base.Classifier | base.Regressor)
    if model or hasattr(thing, "predict_proba_one"):  # a snapshot of a model
        raise TypeError(
            f"`calibrator` must be a calibrator, but a {type(thing).__name__} is a model: draw the"
            " `calibrators` of a CalibratedClassifier, or its predictions with `from_estimator`"
        )
    if isinstance(thing, type):
        raise TypeError(f"`calibrator` must be a calibrator, got {shown(thing, object)}")
    if hasattr(thing, "_shapes"):  # a joint calibrator
        shapes: dict[Any, Shape] = thing._shapes()
        return shapes
    if hasattr(thing, "_shape"):
        return {None: thing._shape()}
    if hasattr(thing, "staircase"):
        stairs = thing.staircase()
        return {None: Shape.of(stairs, staircase=stairs)}
    if hasattr(thing, "predict_many"):
        return {None: Shape.of(thing.predict_many)}
    raise TypeError(
        "`calibrator` must be a calibrator, or a mapping from names to calibrators, got"
        f" {type(thing).__name__}"
    )
