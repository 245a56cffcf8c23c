"""A verdict in words: where probabilities are wrong, and whether calibration lowers the log loss.

Each statement is confirmed by a test, so that chance does not mislead the reader:

* Predictions fall into bins of about equally many samples. If a bin is calibrated, the probability
  of a frequency as far from the mean prediction as the observed one is at most
  2 exp(−n KL(observed ‖ predicted)), for any n [1]_. The level is divided by the number of bins.
* Log losses before and after are compared by a paired t-test over periods, each weighted by its
  number of samples. Samples near each other depend on each other; the means of periods hardly do.

References
----------
.. [1] Hoeffding, W. (1963). Probability inequalities for sums of bounded random variables. JASA
   58, theorem 1.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.report.content import listed

LEVEL = 0.01
"""The probability of a false statement of each kind, if all is calibrated or equally good."""

_BINS = 10
_LAST = 10  # periods that are counted
_MIN_PERIODS = 3

Vector = NDArray[np.float64]


class Gap(NamedTuple):
    """Predictions whose mean differs from the observed frequency beyond chance.

    ``low`` and ``high`` are None at the ends of the range of all predictions; ``evidence`` is
    n KL(observed ‖ predicted).
    """

    low: float | None
    high: float | None
    predicted: float
    observed: float
    evidence: float

    @property
    def where(self) -> str:
        """The range in words."""
        if self.low is None and self.high is None:
            return "everywhere"
        if self.low is None:
            return f"below {rounded(self.high)}" if self.high else "at 0"
        if self.high is None:
            return f"above {rounded(self.low)}" if self.low < 1.0 else "at 1"
        return f"from {rounded(self.low)} to {rounded(self.high)}"

    def reaches(self, rate: float) -> bool:
        """Return whether there may be predictions on both sides of a rate."""
        return (self.low is None or self.low < rate) and (self.high is None or self.high > rate)


def find_gaps(p: Vector, y: Vector) -> list[Gap]:
    """Return the ranges of predictions that are clearly too high or too low, in order.

    Parameters
    ----------
    p, y : ndarray of shape (n_samples,)
        Probabilities, and labels 0 and 1.

    Examples
    --------
    >>> p = np.repeat([0.2, 0.8], 1000)
    >>> y = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 400)  # one in five is 1, in both halves
    >>> [(gap.where, gap.predicted.round(2), gap.observed.round(2)) for gap in find_gaps(p, y)]
    [('above 0.80', np.float64(0.8), np.float64(0.2))]
    """
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, _BINS + 1)[1:-1], method="lower"))
    bins = np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.diff(bins[order], prepend=-1))
    n = np.diff(starts, append=len(p)).astype(np.float64)
    sums = np.add.reduceat(np.column_stack([p, y])[order], starts)
    lows, highs = np.minimum.reduceat(p[order], starts), np.maximum.reduceat(p[order], starts)
    evidence = _divergences(sums, n)
    signs = np.sign(sums[:, 0] - sums[:, 1]) * (evidence > math.log(2.0 * len(n) / LEVEL))
    gaps = []
    for run in np.split(np.arange(len(n)), np.flatnonzero(np.diff(signs)) + 1):
        if signs[run[0]]:
            total, (predicted, observed) = n[run].sum(), sums[run].sum(axis=0)
            low = None if run[0] == 0 else float(lows[run[0]])
            high = None if run[-1] == len(n) - 1 else float(highs[run[-1]])
            gaps.append(
                Gap(low, high, predicted / total, observed / total, float(evidence[run].sum()))
            )
    return gaps


def _divergences(sums: NDArray[np.float64], n: Vector) -> Vector:
    """Return n KL(observed ‖ predicted) of bins, from sums of predictions and of labels."""
    from scipy.special import rel_entr

    predicted, observed = (sums / n[:, None]).clip(0.0, 1.0).T
    divergence = rel_entr(observed, predicted) + rel_entr(1.0 - observed, 1.0 - predicted)
    return np.asarray(n * divergence)


def reliability_in_words(name: str, p: Vector, y: Vector) -> str:
    """Return a sentence about the miscalibration of a column; the shapes are as for `find_gaps`.

    Examples
    --------
    >>> p = np.repeat([0.2, 0.8], 1000)
    >>> reliability_in_words("p", p, np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 400))
    'p is over-confident above 0.80 (0.80 predicted, 0.20 observed).'
    >>> reliability_in_words("p", p[:20], np.zeros(20))
    'p shows no clear miscalibration.'
    """
    gaps = find_gaps(p, y)
    if not gaps:
        return f"{name} shows no clear miscalibration."
    kind = _kind_of(gaps, float(y.mean()))
    worst = sorted(sorted(gaps, key=lambda gap: -gap.evidence)[:2], key=gaps.index)
    places = [
        f"{gap.where} ({rounded(gap.predicted)} predicted, {rounded(gap.observed)} observed)"
        for gap in worst
    ]
    return f"{name} is {kind} {listed(places)}."


def _kind_of(gaps: Sequence[Gap], base_rate: float) -> str:
    """Return what all gaps have in common.

    Over-confident predictions are too far from the base rate, under-confident ones too near it.
    """
    high = [gap.predicted > gap.observed for gap in gaps]
    same = len(set(high)) == 1
    # Predictions that are too high are too far from the rate above it, and too near it below.
    if same and any(gap.reaches(base_rate) for gap in gaps):
        return "too high" if high[0] else "too low"
    far = {is_high == (gap.predicted >= base_rate) for gap, is_high in zip(gaps, high, strict=True)}
    if len(far) == 1:
        return "over-confident" if far.pop() else "under-confident"
    if same:
        return "too high" if high[0] else "too low"
    return "miscalibrated"


class Gain(NamedTuple):
    """Log losses before and after calibration, compared over periods.

    Attributes
    ----------
    before, after : float
        The means over all samples.
    p_value : float
        Of a two-sided paired t-test over periods; NaN if there are fewer than three.
    n_lower, n_last : int
        In how many of the last periods the loss is lower after calibration, and how many these are.
    """

    before: float
    after: float
    p_value: float
    n_lower: int
    n_last: int

    @property
    def is_clear(self) -> bool:
        """Whether the difference is significant."""
        return self.p_value < LEVEL


def compare(n: Vector, before: Vector, after: Vector) -> Gain | None:
    """Compare mean log losses by period; None if there is no period in which both are known.

    Parameters
    ----------
    n, before, after : ndarray of shape (n_periods,)
        The number of samples in each period, and the mean losses; NaN if unknown.

    Examples
    --------
    >>> gain = compare(np.full(4, 100.0), np.array([0.5, 0.6, 0.5, 0.6]), np.full(4, 0.4))
    >>> gain.before, round(gain.p_value, 4), gain.n_lower, gain.is_clear
    (0.55, 0.0138, 4, False)
    """
    from scipy.special import stdtr

    known = ~np.isnan(before + after)
    if not known.any():
        return None
    n, before, after = n[known], before[known], after[known]
    difference, total = before - after, n.sum()
    mean, p_value = float(n @ difference / total), math.nan
    if len(n) >= _MIN_PERIODS:
        error = math.sqrt(float(n @ (difference - mean) ** 2) / (len(n) - 1) / total)
        t = abs(mean) / error if error else math.inf * abs(mean) if mean else 0.0
        p_value = 2.0 * float(stdtr(len(n) - 1, -t))
    last = difference[-_LAST:]
    before_mean, after_mean = float(n @ before / total), float(n @ after / total)
    return Gain(before_mean, after_mean, p_value, int((last > 0.0).sum()), len(last))


def gain_in_words(gain: Gain) -> str:
    r"""Return sentences about the log loss before and after calibration.

    Examples
    --------
    >>> gain_in_words(Gain(0.5, 0.43, 0.0001, 10, 10))[:63]
    'Calibration lowers the log loss by 14\xa0%, from 0.5000 to 0.4300.'
    >>> print(gain_in_words(Gain(0.5, 0.49, 0.2, 6, 10)))
    Log loss 0.5000 → 0.4900, lower in 6 of the last 10 periods; the difference may be chance.
    """
    if math.isnan(gain.p_value):
        means = f"{gain.before:.4f} before calibration, {gain.after:.4f} after it"
        return f"Too few samples to compare the log losses: {means}."
    lower = gain.after < gain.before
    if not gain.is_clear:
        return _unclear_in_words(gain, lower)
    share = abs(gain.after - gain.before) / gain.before if gain.before else math.inf
    by = f" by {_percent(share)}" if math.isfinite(share) else ""
    n = gain.n_lower if lower else gain.n_last - gain.n_lower
    periods = "each" if n == gain.n_last else str(n)
    return (
        f"Calibration {'lowers' if lower else 'raises'} the log loss{by}, from"
        f" {gain.before:.4f} to {gain.after:.4f}. It is {'lower' if lower else 'higher'} in"
        f" {periods} of the last {gain.n_last} periods."
    )


def _unclear_in_words(gain: Gain, lower: bool) -> str:
    """Return a sentence about a difference that the test does not confirm."""
    means = f"Log loss {gain.before:.4f} → {gain.after:.4f}"
    if gain.before == gain.after:
        return f"{means}, no difference."
    n, last = gain.n_lower if lower else gain.n_last - gain.n_lower, gain.n_last
    how = "lower" if lower else "higher"
    if last == _LAST:  # there may have been more
        return f"{means}, {how} in {n} of the last {last} periods; the difference may be chance."
    if n == last:
        return f"{means}, {how} in all {n} periods; too few periods to rule out chance."
    return f"{means}, {how} in {n} of {last} periods; the difference may be chance."


def _percent(share: float) -> str:
    number = f"{100 * share:.0f}" if share >= 0.01 else f"{100 * share:.1g}"
    return f"{number}\N{NO-BREAK SPACE}%"


def rounded(p: float) -> str:
    """Return a probability with two digits that matter.

    Examples
    --------
    >>> rounded(0.7), rounded(0.0123), rounded(0.9996), rounded(1e-9)
    ('0.70', '0.012', '0.9996', '1.0e-09')
    """
    least = min(p, 1.0 - p)
    if 0.0 < least < 1e-6:
        return f"{least:.1e}" if p < 0.5 else f"1 − {least:.1e}"
    if least >= 0.01 or least <= 0.0:
        return f"{p:.3f}".removesuffix("0") if least < 0.1 else f"{p:.2f}"
    return f"{p:.{1 - math.floor(math.log10(least))}f}".rstrip("0")
