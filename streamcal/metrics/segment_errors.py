"""Errors of segments, from arrays: how far cumulated residuals leave 0 in each segment.

In a segment the residuals w (y − p) are added in the order of the predictions p. The *error* is the
range of these sums, divided by the total weight W: the cumulative miscalibration of Arrieta-Ibarra
et al. Where all residuals have one sign it is the gap between the mean label and the mean
prediction; where they change it is the gap of the worst interval of predictions.

If labels are drawn from the predictions, the sums are a random walk of variance V = Σ w² p (1 − p),
so the *deviation* of the error is √V / W. For many samples the error in units of it is distributed
as the range of Brownian motion on [0, 1] [1]_: its mean is √(8/π) = 1.6, and it is above 2.5 in 5 %
and above 3.0 in 1 % of all cases.

With few expected events the walk has jumps, and large values are more likely than that. By
Bennett's inequality they are about as likely as the value s · √(2 h(u)) / u ≤ s of the Brownian
motion, where s is the error in deviations, u = s b / √V, h(u) = (1 + u) log(1 + u) − u, and b is
the greatest possible jump in the direction of the error: w (1 − p) where labels are above the
predictions, w p where they are below. This lower value is the *evidence* for p-values.
It is no proven bound; in simulations, from 0.0002 expected events on, no p-value was too small.

Samples with equal predictions are added as one, so their order does not matter.

References
----------
.. [1] Feller, W. (1951). The asymptotic distribution of the range of sums of independent random
   variables. Annals of Mathematical Statistics 22(3), 427-432.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import as_category

MEAN_IF_CALIBRATED = math.sqrt(8.0 / math.pi)
"""The mean error in deviations, if labels are drawn from predictions that are all different."""

Vector = NDArray[np.float64]
Codes = NDArray[np.int64]


class Group(NamedTuple):
    """The segments of a field or a crossing, and the one that each sample belongs to.

    Attributes
    ----------
    fields : tuple of str
        Empty for the one segment of all samples.
    values : list of tuple
        The values of the fields in each segment.
    codes : ndarray of shape (n_samples,)
        The place in ``values`` for each sample; none is unused.
    """

    fields: tuple[str, ...]
    values: list[tuple[Any, ...]]
    codes: Codes


class SegmentErrors(NamedTuple):
    """The errors of many segments: arrays of shape ``(n_segments,)``, with all of each group."""

    n: NDArray[np.int64]
    weight: Vector
    predicted: Vector
    observed: Vector
    error: Vector
    deviation: Vector
    evidence: Vector

    @property
    def sigmas(self) -> Vector:
        """The errors in deviations; ∞ where a prediction of 0 or 1 alone is wrong."""
        return _ratio(self.error, self.deviation)

    @property
    def p_values(self) -> Vector:
        """How likely so large an error is if the segment is calibrated, at most."""
        return range_tail(self.evidence)

    def select(self, mask: NDArray[Any]) -> "SegmentErrors":
        """Return the segments that a mask or an array of places selects."""
        return SegmentErrors(*(column[mask] for column in self))


def encode(values: Sequence[Any], field: str) -> tuple[list[Any], Codes]:
    """Return the distinct values of a field, and for each sample the place of its value.

    Examples
    --------
    >>> encode(["de", "fr", float("nan"), "de", None], "country")
    (['de', 'fr', None], array([0, 1, 2, 0, 2]))
    """
    try:
        raw = {value: place for place, value in enumerate(dict.fromkeys(values))}
    except TypeError:  # it can't be hashed
        raise TypeError(
            f"the values of the field {field!r} must be text, numbers or None"
        ) from None
    places: dict[Any, int] = {}
    again = [places.setdefault(as_category(value, field), len(places)) for value in raw]
    codes = np.fromiter(map(raw.__getitem__, values), np.int64, len(values))
    return list(places), np.array(again, np.int64)[codes]


def group_samples(
    fields: Sequence[str],
    encoded: Sequence[tuple[list[Any], Codes]],
    crossings: Sequence[tuple[int, ...]],
    n_samples: int,
) -> list[Group]:
    """Return the group of all samples, those of the fields, and those of the crossings."""
    groups = [Group((), [()], np.zeros(n_samples, np.int64))]
    for name, (values, codes) in zip(fields, encoded, strict=True):
        groups.append(Group((name,), [(value,) for value in values], codes))
    for crossing in crossings:
        groups.append(_cross([groups[1 + i] for i in crossing]))
    return groups


def _cross(groups: Sequence[Group]) -> Group:
    first, *rest = groups
    for other in rest:
        pairs = first.codes * len(other.values) + other.codes
        found, codes = np.unique(pairs, return_inverse=True)
        places = zip(*(part.tolist() for part in divmod(found, len(other.values))), strict=True)
        values = [first.values[i] + other.values[j] for i, j in places]
        first = Group(first.fields + other.fields, values, codes)
    return first


def measure(groups: Sequence[Group], y: Vector, p: Vector, w: Vector) -> SegmentErrors:
    """Return the errors of all segments, group by group; y, p and w have shape (n_samples,)."""
    order = np.argsort(p, kind="stable")
    y, p, w = y[order], p[order], w[order]
    parts = [_measure_group(group.codes[order], y, p, w) for group in groups]
    return SegmentErrors(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _measure_group(codes: Codes, y: Vector, p: Vector, w: Vector) -> SegmentErrors:
    """Return the errors of the segments of one group; the samples are in the order of ``p``."""
    counts = np.bincount(codes)
    # NumPy sorts 16-bit integers far faster than longer ones.
    small = codes.astype(np.uint16) if len(counts) <= 2**16 else codes
    order = np.argsort(small, kind="stable")
    codes, y, p, w = codes[order], y[order], p[order], w[order]
    starts = np.cumsum(counts) - counts

    weight = np.add.reduceat(w, starts)
    path = np.concatenate([[0.0], np.cumsum(w * (y - p) / weight[codes])])
    sums = path[1:] - path[starts][codes]
    tied = (p[1:] == p[:-1]) & (codes[1:] == codes[:-1])
    sums[:-1][tied] = np.nan  # only the end of a tie counts
    highest = np.maximum(np.fmax.reduceat(sums, starts), 0.0)
    lowest = np.minimum(np.fmin.reduceat(sums, starts), 0.0)
    rises = _last(sums, highest, codes, starts) > _last(sums, lowest, codes, starts)

    variances = w * w * p * (1.0 - p)
    jumps = np.where(variances > 0.0, w * np.where(rises[codes], 1.0 - p, p), 0.0)
    error = highest - lowest
    variance = np.add.reduceat(variances, starts)
    deviation = np.sqrt(variance) / weight
    jump = np.maximum.reduceat(jumps, starts)
    return SegmentErrors(
        counts,
        weight,
        np.add.reduceat(w * p, starts) / weight,
        np.add.reduceat(w * y, starts) / weight,
        error,
        deviation,
        _evidence(_ratio(error, deviation), _ratio(jump, np.sqrt(variance))),
    )


def _last(sums: Vector, wanted: Vector, codes: Codes, starts: Codes) -> Codes:
    """Return where each segment last has a sum; before its start if that is the 0 it begins at."""
    last = starts - 1
    at = np.flatnonzero(sums == wanted[codes])
    last[codes[at]] = at
    return last


def _ratio(x: Vector, y: Vector) -> Vector:
    """Return x / y for numbers of at least 0; 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0.0, x / y, 0.0)


def _evidence(sigmas: Vector, jump: Vector) -> Vector:
    """Return the value of Brownian motion that is about as likely; ``jump`` is b / √V."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        u = sigmas * jump  # NaN without jumps, where sigmas are 0 or ∞
        known = np.minimum(u, 1e308)  # a greater one has nearly the same logarithm
        lower = np.sqrt(2.0 * sigmas / jump * ((1.0 + 1.0 / known) * np.log1p(known) - 1.0))
    return np.asarray(np.where(u > 1e-5, lower, sigmas))


def range_tail(x: Vector) -> Vector:
    """Return the probability that the range of Brownian motion on [0, 1] is above x ≥ 0.

    Examples
    --------
    >>> range_tail(np.array([0.0, 1.6, 2.5, 3.0])).round(3)
    array([1.   , 0.427, 0.05 , 0.011])
    """
    from scipy.special import ndtr

    k = np.arange(1.0, 13.0)
    high = 8.0 * ((-1.0) ** (k - 1.0) * k * ndtr(-np.maximum(x, 1.0)[:, None] * k)).sum(axis=1)
    odd = (np.pi * (np.arange(5.0) + 0.5) / np.clip(x, 1e-3, 1.0)[:, None]) ** 2
    square = np.clip(x, 1e-3, 1.0)[:, None] ** 2
    low = 1.0 - ((8.0 / square + 2.0 / (odd * square)) * np.exp(-2.0 * odd)).sum(axis=1)
    return np.asarray(np.where(x > 1.0, high, low).clip(0.0, 1.0))


def adjust(p_values: Vector) -> Vector:
    """Return p-values that are corrected for their number (Holm 1979).

    If all segments are calibrated, one of them is at most α with probability α at most, however
    much the segments overlap.

    Examples
    --------
    >>> adjust(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(p_values, kind="stable")
    n_left = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.maximum.accumulate(np.minimum(p_values[order] * n_left, 1.0))
    return adjusted
