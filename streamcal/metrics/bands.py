"""Bands for a CORP reliability curve: its deviation by chance.

A *consistency* band lies around the diagonal and contains the curve, at each score, with
probability ``level`` if the predictions are calibrated. A *confidence* band lies around the curve
and contains the true conditional frequency, calibrated or not. Both are pointwise, and there are
two methods.

*Resampling*: labels are drawn from the predictions (consistency) or from the curve (confidence),
and the band contains the middle of the isotonic fits. It needs no asymptotics, but where the curve
is 0 or 1 so is every resample, and a confidence band has no width there.

*Asymptotic*, without resampling:

* Consistency: at a score x that n_x samples share, the fit has standard deviation
  √(x(1 − x) / n_x) if neighbours are not pooled. If they are, with n f(x) samples per unit of
  score, its error is (4 x(1 − x) / (n f(x)))^⅓ Z with Chernoff's Z = argmax of W(t) − t². Pooling
  reduces the error, so the smaller of the two applies, but not less than if all n samples shared
  the score.
* Confidence: the likelihood ratio of the fit and the fit through (x, θ); the band contains the θ
  that a test does not reject. Neither density nor slope is estimated. The limit distribution is χ²
  with one degree of freedom for scores that many samples share. For distinct scores it has a
  smaller quantile (by simulation about 2.3 instead of 3.84 at 95 %), so the band is some 25 % too
  wide there.

Labels that are counts or amounts have an unknown distribution, so for predicted means there is one
band, of consistency, by the *wild bootstrap* (`mean_band`): labels are drawn as p + ε(y − p) with
normal ε of variance 1. They have the mean p, and the variance that the labels have around p,
however it depends on p. Around the curve this would be wrong: the curve is a step function, and
resampling from it is inconsistent.

The share of independent events has an exact interval, `share_band` (Clopper and Pearson). It also
holds for the mean of different probabilities, since tails are then lighter than the binomial ones
(Hoeffding). Only where less than one event, or less than one other, is expected, the chance to miss
it may be −log(1 − a) in place of a: 0.0513 in place of 0.05.

Sources: Dimitriadis, Gneiting and Jordan (2021), PNAS 118(8), "Uncertainty quantification"; the
distribution of Z by Groeneboom and Wellner (2001), JCGS 10(2), the likelihood ratio by Banerjee and
Wellner (2001), Annals of Statistics 29(6); the wild bootstrap by Wu (1986), Annals of Statistics
14(4), what a bootstrap of isotonic regression may be drawn from by Sen, Banerjee and Woodroofe
(2010), Annals of Statistics 38(4); exact intervals by Clopper and Pearson (1934), Biometrika 26(4),
and Hoeffding (1956), Annals of Mathematical Statistics 27(3), theorem 4.
"""

import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import airy, betaincinv, chdtri, entr, ndtri, rel_entr

from streamcal._validation import as_within, check_choice, check_count
from streamcal.isotonic.staircase import Staircase, isotonic_fit

Kind = Literal["consistency", "confidence"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BandMethod = Literal["resampling", "asymptotic"]
METHODS: tuple[BandMethod, ...] = get_args(BandMethod)
_MAX_GROUPS = 1000  # more scores are grouped first
_BISECTIONS = 26  # ends of likelihood ratio bands have an error of 2⁻²⁶

_Array = NDArray[np.float64]


class Band(NamedTuple):
    """A band: arrays of shape ``(n_points,)``, scores ascending, ends in the range of labels.

    Examples
    --------
    >>> from streamcal.metrics import CORP
    >>> metric = CORP()
    >>> for i in range(100):
    ...     metric.update(i % 10 < 3, 0.3)
    >>> band = metric.band()
    >>> band.lower.round(2), band.upper.round(2)
    (array([0.23]), array([0.38]))
    """

    scores: _Array
    lower: _Array
    upper: _Array


def corp_band(
    scores: _Array,
    counts: _Array,
    hits: _Array,
    *,
    squares: _Array | None = None,
    kind: Kind = "consistency",
    method: BandMethod = "resampling",
    level: float = 0.9,
    n_resamples: int = 500,
    seed: int = 0,
) -> Band:
    """Return a band for the isotonic regression of labels on predictions.

    Parameters
    ----------
    scores, counts, hits : ndarrays of shape (n_scores,)
        Distinct predictions in [0, 1], ascending; the number of samples of each; and the number of
        positive ones. More than 1000 scores are grouped first, which bounds the cost.
    squares : ndarray of shape (n_scores,), optional
        If samples have weights: the sum of their squares for each score; ``counts`` and ``hits``
        are sums of weights then. Labels are drawn for the effective number of samples, (Σw)² / Σw²,
        rounded down, so the band is a little too wide where few samples have different weights.
    kind
        ``"consistency"`` or ``"confidence"``.
    method
        ``"resampling"`` or ``"asymptotic"``.
    level
        Probability at each score, in (0, 1).
    n_resamples, seed
        The number of sets of labels that are drawn, and the seed.

    Examples
    --------
    >>> import numpy as np
    >>> p, n, hits = np.array([0.2, 0.6]), np.array([100.0, 50.0]), np.array([30.0, 25.0])
    >>> corp_band(p, n, hits, method="asymptotic").lower
    array([0.13420585, 0.4860412 ])
    >>> corp_band(p, n, hits, kind="confidence", method="asymptotic").lower
    array([0.22866475, 0.38524709])
    """
    check_choice(kind, "kind", KINDS)
    check_choice(method, "method", METHODS)
    level = as_within(level, "level", "(0, 1)")
    check_count(n_resamples, "n_resamples")
    if squares is not None:
        if method != "resampling":
            raise ValueError(f"`method` must be 'resampling' where `w` is given, got {method!r}")
        sizes = counts**2 / squares
        x, n, k, squares = _group(scores, counts, hits, squares, sizes=sizes)
        drawn = np.maximum(np.floor(n**2 / squares * (1.0 + 1e-9)), 1.0)
        chances = x if kind == "consistency" else _fit(x, k / n, n)(x)
        return Band(x, *_resampling_band(x, n, drawn, chances, level, n_resamples, seed))
    if (counts != np.round(counts)).any():
        at = int(np.argmax(counts != np.round(counts)))
        raise ValueError(
            f"`w` must add up to whole numbers for a band, got {counts[at]} at score {scores[at]}"
        )
    x, n, k = _group(scores, counts, hits)
    if method == "resampling":
        chances = x if kind == "consistency" else _fit(x, k / n, n)(x)
        return Band(x, *_resampling_band(x, n, n, chances, level, n_resamples, seed))
    if kind == "consistency":
        half = _asymptotic_half_width(x, n, level)
        return Band(x, np.clip(x - half, 0.0, 1.0), np.clip(x + half, 0.0, 1.0))
    return Band(x, *_likelihood_ratio_band(x, n, k / n, level))


def mean_band(
    scores: _Array,
    counts: _Array,
    squares: _Array,
    *,
    least: float,
    sizes: _Array | None = None,
    level: float = 0.9,
    n_resamples: int = 500,
    seed: int = 0,
) -> Band:
    """Return a consistency band for the isotonic regression of labels on predicted means.

    Parameters
    ----------
    scores, counts, squares : ndarrays of shape (n_scores,)
        Distinct predictions, ascending; the number of samples of each; and the sum of their squared
        errors. More than 1000 scores are grouped first, which bounds the cost.
    least
        The least mean of labels; the band does not go below it.
    sizes : ndarray of shape (n_scores,), optional
        If samples have weights: the effective number of samples of each score. ``counts`` are sums
        of weights then, and ``squares`` those of squared weights times squared errors.
    level
        Probability at each score, in (0, 1).
    n_resamples, seed
        The number of sets of labels that are drawn, and the seed.

    Examples
    --------
    >>> import numpy as np
    >>> p, n = np.array([2.0, 6.0]), np.array([100.0, 50.0])
    >>> band = mean_band(p, n, n * p, least=0.0)  # as if the labels were Poisson
    >>> band.lower.round(1), band.upper.round(1)
    (array([1.8, 5.4]), array([2.3, 6.5]))
    """
    level = as_within(level, "level", "(0, 1)")
    check_count(n_resamples, "n_resamples")
    x, n, squares = _group(scores, counts, squares, least=-np.inf, most=np.inf, sizes=sizes)
    rng = np.random.default_rng(seed)
    means = x + np.sqrt(squares) / n * rng.standard_normal((n_resamples, len(x)))
    low, high = _quantiles_of_fits(x, n, means, level)
    return Band(x, np.maximum(low, least), np.maximum(high, least))


def share_band(hits: _Array, n: _Array, level: float = 0.9) -> tuple[_Array, _Array]:
    """Return the ends of Clopper and Pearson's interval for the mean probability of events.

    Parameters
    ----------
    hits, n : ndarrays of shape (n_points,)
        How many events happened, and of how many, which must be positive.
    level
        At least this is the probability that the interval holds the mean; both ends miss alike.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = share_band(np.array([0.0, 50.0, 100.0]), np.full(3, 100.0))
    >>> low.round(3), high.round(3)
    (array([0.   , 0.414, 0.97 ]), array([0.03 , 0.586, 1.   ]))
    """
    level = as_within(level, "level", "(0, 1)")
    misses, below = n - hits, 0.5 * (1.0 - level)
    # A parameter of 0 is outside the domain of the function, and the end is known.
    low = np.where(hits > 0.0, betaincinv(np.maximum(hits, 1.0), misses + 1.0, below), 0.0)
    high = np.where(misses > 0.0, betaincinv(hits + 1.0, np.maximum(misses, 1.0), 1.0 - below), 1.0)
    return low, high


def _group(
    scores: _Array,
    counts: _Array,
    *sums: _Array,
    least: float = 0.0,
    most: float = 1.0,
    sizes: _Array | None = None,
) -> tuple[_Array, ...]:
    """Group neighbours if there are many scores, but not at the ends, where each sample counts.

    ``sizes`` are numbers of samples, if ``counts`` are weights.
    """
    if len(scores) <= _MAX_GROUPS:
        return scores, counts, *sums
    sizes = counts if sizes is None else sizes
    n, tail = sizes.sum(), _MAX_GROUPS // 10
    middle = np.linspace(tail, n - tail, 8 * tail, endpoint=False)
    cuts = np.concatenate([np.arange(tail), middle, np.arange(n - tail, n)])
    starts = np.unique(np.searchsorted(np.cumsum(sizes), cuts, side="right"))
    starts = starts[starts < len(scores)]  # sizes are rounded
    totals, counts, *sums_ = (np.add.reduceat(v, starts) for v in (scores * counts, counts, *sums))
    return np.clip(totals / counts, least, most), counts, *sums_


def _fit(x: _Array, means: _Array, n: _Array) -> Staircase:
    return isotonic_fit(x, np.clip(means, 0.0, 1.0), n)


def _resampling_band(
    x: _Array, n: _Array, drawn: _Array, chances: _Array, level: float, n_resamples: int, seed: int
) -> tuple[_Array, _Array]:
    """Return the pointwise quantiles of fits; labels of equal scores are one binomial count."""
    rng = np.random.default_rng(seed)
    chances = np.clip(chances, 0.0, 1.0)
    means = rng.binomial(drawn.astype(np.int64), chances, size=(n_resamples, len(x))) / drawn
    return _quantiles_of_fits(x, n, means, level)


def _quantiles_of_fits(x: _Array, n: _Array, means: _Array, level: float) -> tuple[_Array, _Array]:
    """Return the pointwise quantiles of the fits of means, which has a row for each fit."""
    curves = np.stack([isotonic_fit(x, row, n)(x) for row in means])
    low, high = np.quantile(curves, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return low, high


def _asymptotic_half_width(x: _Array, n: _Array, level: float) -> _Array:
    """Return half the width of the asymptotic consistency band."""
    variance = x * (1.0 - x)
    normal, chernoff = float(ndtri((1.0 + level) / 2.0)), chernoff_quantile((1.0 + level) / 2.0)
    alone = normal * np.sqrt(variance / n)
    together = normal * np.sqrt(variance / n.sum())
    pooled = chernoff * np.cbrt(4.0 * variance / _density(x, n))
    return np.asarray(np.maximum(np.minimum(alone, pooled), together))


def _density(x: _Array, n: _Array) -> _Array:
    """Return samples per unit of score at ``x``, by a Gaussian kernel reflected at 0 and 1."""
    total = n.sum()
    deviation = np.sqrt(np.average((x - np.average(x, weights=n)) ** 2, weights=n))
    low, high = np.interp([0.25, 0.75], (np.cumsum(n) - 0.5 * n) / total, x)
    spread = min(deviation, (high - low) / 1.349) if high > low else deviation
    width = max(0.9 * spread * total**-0.2, 1e-12)  # Silverman's rule
    density = np.zeros(len(x))
    for mirrored in (x, -x, 2.0 - x):
        density += np.exp(-0.5 * ((x[:, None] - mirrored) / width) ** 2) @ n
    return np.asarray(density / (width * np.sqrt(2.0 * np.pi)))


@functools.cache
def _chernoff() -> tuple[_Array, _Array]:
    """Return points and Chernoff's distribution function there."""
    s = np.linspace(-30.0, 30.0, 3001)  # the transform is 1e-23 at the ends
    transform = 2.0 ** (1 / 3) / airy(1j * 2.0 ** (-1 / 3) * s)[0]
    z = np.linspace(-4.0, 4.0, 801)
    g = (np.exp(-1j * np.outer(z, s)) @ transform).real * (s[1] - s[0]) / (2.0 * np.pi)
    f = np.maximum(0.5 * g * g[::-1], 0.0)
    steps = 0.5 * (f[1:] + f[:-1])
    return z, np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum()


def chernoff_quantile(q: float) -> float:
    """Return a quantile of Chernoff's distribution, the argmax of W(t) − t², to about 1e-4.

    Examples
    --------
    >>> round(chernoff_quantile(0.975), 3)
    0.998
    """
    z, cdf = _chernoff()
    return float(np.interp(q, cdf, z))


def _likelihood_ratio_band(
    x: _Array, n: _Array, means: _Array, level: float
) -> tuple[_Array, _Array]:
    """Return at each score the ends of the θ that the likelihood ratio test does not reject."""
    fit = _fit(x, means, n)
    ratio = _likelihood_ratio(x, n, means, fit)
    limit = float(chdtri(1.0, 1.0 - level))
    center = np.clip(fit(x), 0.0, 1.0)
    ends = []
    for outside in (np.zeros(len(x)), np.ones(len(x))):
        inside = center.copy()
        reached = ratio(outside) <= limit  # the ratio is finite there if all labels agree
        inside[reached] = outside[reached]
        for _ in range(_BISECTIONS):
            middle = 0.5 * (inside + outside)
            accepted = ratio(middle) <= limit
            inside = np.where(accepted, middle, inside)
            outside = np.where(accepted, outside, middle)
        ends.append(inside)
    return ends[0], ends[1]


def _likelihood_ratio(
    x: _Array, n: _Array, means: _Array, fit: Staircase
) -> Callable[[_Array], _Array]:
    """Return a function of one θ per score: the likelihood ratio of ``fit`` and the fit through θ.

    The fit through (x_k, θ) is, left of k, the fit of the samples there clipped above at θ, and
    right of k that of the samples there clipped below. The loss by clipping is a divergence for
    each block.
    """
    values, weights, at = _blocks_around_scores(x, n, means)
    # The gain of separate fits left of a score, at the score and right of it.
    gained = _entropy(fit.values, fit.weights) - _entropy(values, weights)

    def ratio(theta: _Array) -> _Array:
        bound = theta[:, None]
        left, right = np.minimum(values[:, :at], bound), np.maximum(values[:, at + 1 :], bound)
        clipped = np.concatenate([left, bound, right], axis=1)
        lost = rel_entr(values, clipped) + rel_entr(1.0 - values, 1.0 - clipped)
        return np.asarray(2.0 * ((weights * lost).sum(axis=1) - gained))

    return ratio


def _blocks_around_scores(x: _Array, n: _Array, means: _Array) -> tuple[_Array, _Array, int]:
    """Return values and weights of blocks, a row for each score, and the column of the scores.

    A row has the blocks of the fit left of the score, the score itself, and the blocks of the fit
    right of it. It is padded without weight by values that are never clipped.
    """
    size = len(x)
    left = [_fit(x[:k], means[:k], n[:k]) for k in range(1, size)]
    right = [_fit(x[k:], means[k:], n[k:]) for k in range(1, size)]
    widest = max((len(f) for f in left + right), default=0)
    values = np.zeros((size, 2 * widest + 1))
    weights = np.zeros_like(values)
    values[:, widest + 1 :] = 1.0
    values[:, widest], weights[:, widest] = means, n
    for k, (before, after) in enumerate(zip(left, right, strict=True)):
        values[k + 1, : len(before)], weights[k + 1, : len(before)] = before.values, before.weights
        columns = slice(widest + 1, widest + 1 + len(after))
        values[k, columns], weights[k, columns] = after.values, after.weights
    return values, weights, widest


def _entropy(values: _Array, weights: _Array) -> Any:
    return (weights * (entr(values) + entr(1.0 - values))).sum(axis=-1)
