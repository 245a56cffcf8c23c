"""A verdict in words: where probabilities are wrong, and whether calibration makes them better.

What is wrong or better is confirmed by a test, so that chance does not mislead the reader:

* Predictions fall into bins of about equally many samples. If a bin is calibrated, the probability
  of a frequency as far from the mean prediction as the observed one is at most
  2 exp(−n KL(observed ‖ predicted)), for any n [1]_. The level is divided by the number of bins.
* Means of counts and amounts have no such bound. With S the sum of labels minus predictions in a
  bin, and V an estimate of its variance, the limit of S² / 2V is that of n KL [2]_. V is the
  greatest of three: Σ(y − p)² of the bin; Σp^q of the bin, where q is the power of the loss, times
  the dispersion of all rows; and, for labels that may be 0, Σp times the mean of the positive
  labels, without which few rare events would look certain. It holds for many rows, nearly.
* Brier scores before and after are compared by the interval of
  `streamcal.monitoring.ForecastComparison`, which holds however often somebody looks.
* The e-value is that of `streamcal.monitoring.CalibrationTest`: the chance that it ever exceeds
  1 / `LEVEL` is at most `LEVEL` if the probabilities are right.

* A promise about answers is compared with the exact interval of their accuracy
  (`streamcal.metrics.bands.share_band`): it is broken if all of the interval is below it, kept if
  none is, and else not refuted.

Where only some decisions get a label, with known propensities, means are weighted by 1 / propensity
and divided by the sum of these weights. In tests of calibration each labelled row counts once. The
interval for the Brier scores is then that of a ratio of sums, for one look: by Student's t at the
effective number of rows [3]_, and not narrower than what so many rows may have missed. The interval
of a promise is that of the effective number of answers.

Log losses are told as they are, with the number of periods in which they are lower.

References
----------
.. [1] Hoeffding, W. (1963). Probability inequalities for sums of bounded random variables. JASA
   58, theorem 1.
.. [2] Efron, B. (1969). Student's t-test under symmetry conditions. JASA 64, section 3.
.. [3] Kish, L. (1965). Survey sampling, section 11.7.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.losses.deviance import Deviance
from streamcal.monitoring.fixed_bets import e_value_in_words, leader_in_words, new_bets
from streamcal.plot.accuracy_coverage_curve import Answers, WeightedAnswers
from streamcal.plot.reliability_curve import shown_part, shown_share
from streamcal.report.content import listed
from streamcal.report.periods import Periods, equal_parts

LEVEL = 0.01
"""The probability of a false statement of each kind, if all is calibrated or equally good."""

_BINS = 10
_KINDS_OF_MEANS = {
    "over-confident": "too far from the mean of the labels",
    "under-confident": "too near the mean of the labels",
}
_FEW = 0.01  # the share of rows that are few
_MOST_PERIODS = 10  # in which log losses are compared

WEIGHTS = (
    "Means are estimates for all rows, labelled or not: each labelled row counts 1 / propensity"
    " times, and sums are divided by that of these weights (self-normalised)."
)
"""What is said where rows have weights."""

Vector = NDArray[np.float64]


def effective_number(w: Vector) -> float:
    """Return of how many rows that count once a mean is as precise (Kish): (Σw)² / Σw².

    Examples
    --------
    >>> effective_number(np.full(10, 5.0)), round(effective_number(np.array([1.0, 1.0, 2.0])), 2)
    (10.0, 2.67)
    """
    share = w / w.sum()
    return 1.0 / float(share @ share)


def weights_in_words(w: Vector) -> str:
    """Return what rows with weights count, in sentences."""
    n, effective = len(w), f"{effective_number(w):,.0f}"
    each = "the labelled one" if n == 1 else f"each of the {n:,} labelled ones"
    rows = "one row that counts" if effective == "1" else f"{effective} rows that count"
    return (
        f"Estimates for all rows: {each} counts 1 / propensity times. They are about as precise as"
        f" those of {rows} once. Tests of calibration count each labelled row once."
    )


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
    is_mean: bool = False

    def show(self, *numbers: float) -> list[str]:
        """Return predictions, or observed values, in words."""
        return [f"{each:.3g}" for each in numbers] if self.is_mean else rounded_alike(*numbers)

    @property
    def where(self) -> str:
        """The range in words."""
        if self.low is None and self.high is None:
            return "everywhere"
        if self.is_mean:
            if self.low is None or self.high is None:
                side, end = ("below", self.high) if self.low is None else ("above", self.low)
                return f"{side} {end or 0.0:.3g}"
            return f"from {self.low:.3g} to {self.high:.3g}"
        if self.low is None:
            return f"below {rounded(self.high)}" if self.high else "at 0"
        if self.high is None:
            return f"above {rounded(self.low)}" if self.low < 1.0 else "at 1"
        return f"from {rounded(self.low)} to {rounded(self.high)}"

    def reaches(self, rate: float) -> bool:
        """Return whether there may be predictions on both sides of a rate."""
        return (self.low is None or self.low < rate) and (self.high is None or self.high > rate)


def find_gaps(
    p: Vector, y: Vector, level: float = LEVEL, deviance: Deviance | None = None
) -> list[Gap]:
    """Return the ranges of predictions that are clearly too high or too low, in order.

    Parameters
    ----------
    p, y : ndarray of shape (n_samples,)
        Probabilities, and labels 0 and 1.
    level : float
        The probability of any such range if all are calibrated.
    deviance : Deviance, optional
        Predictions are means then, and labels numbers.

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
    if deviance is None:
        evidence = _divergences(sums, n)
    else:
        evidence = _evidence_of_means(p, y, deviance, order, starts)
    signs = np.sign(sums[:, 0] - sums[:, 1]) * (evidence > math.log(2.0 * len(n) / level))
    gaps = []
    for run in np.split(np.arange(len(n)), np.flatnonzero(np.diff(signs)) + 1):
        if signs[run[0]]:
            total, (predicted, observed) = n[run].sum(), sums[run].sum(axis=0)
            low = None if run[0] == 0 else float(lows[run[0]])
            high = None if run[-1] == len(n) - 1 else float(highs[run[-1]])
            gaps.append(
                Gap(
                    *(low, high, predicted / total, observed / total),
                    float(evidence[run].sum()),
                    deviance is not None,
                )
            )
    return gaps


def _evidence_of_means(
    p: Vector, y: Vector, deviance: Deviance, order: NDArray[np.int64], starts: NDArray[np.int64]
) -> Vector:
    """Return S² / 2V of bins, which begin at ``starts`` of the rows in ``order``; see above."""
    scale, squares = p**deviance.power, (y - p) ** 2
    columns = np.column_stack([y - p, squares, scale, p])[order]
    errors, own, scales, predicted = np.add.reduceat(columns, starts).T
    total = float(scale.sum())
    variance = np.maximum(own, float(squares.sum()) / total * scales if total else 0.0)
    if deviance.may_be_zero:
        positive = y[y > 0.0]
        size = float(positive.mean()) if len(positive) else 1.0
        variance = np.maximum(variance, size * predicted)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(0.5 * errors**2 / variance, nan=0.0))


def _divergences(sums: NDArray[np.float64], n: Vector) -> Vector:
    """Return n KL(observed ‖ predicted) of bins, from sums of predictions and of labels."""
    from scipy.special import rel_entr

    predicted, observed = (sums / n[:, None]).clip(0.0, 1.0).T
    divergence = rel_entr(observed, predicted) + rel_entr(1.0 - observed, 1.0 - predicted)
    return np.asarray(n * divergence)


def reliability_in_words(
    name: str,
    p: Vector,
    y: Vector,
    level: float = LEVEL,
    deviance: Deviance | None = None,
    w: Vector | None = None,
) -> str:
    """Return a sentence about the miscalibration of a column; the shapes are as for `find_gaps`.

    With weights it is about the labelled rows, each of which counts once, and only what predictions
    are too far from is the weighted mean of labels.

    Examples
    --------
    >>> p = np.repeat([0.2, 0.8], 1000)
    >>> reliability_in_words("p", p, np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 400))
    'p is over-confident above 0.80 (0.80 predicted, 0.20 observed).'
    >>> reliability_in_words("p", p[:20], np.zeros(20))
    'p shows no clear miscalibration over all rows together.'
    >>> from streamcal.losses.deviance import get_deviance
    >>> poisson, y = get_deviance("poisson"), np.tile([0.0, 0.0, 1.0, 1.0], 500)
    >>> reliability_in_words("p", 5.0 * p, y, deviance=poisson)
    'p is too high everywhere (2.5 predicted, 0.5 observed).'
    """
    gaps = find_gaps(p, y, level, deviance)
    if not gaps:
        rows = "all" if w is None else "the labelled"
        return f"{name} shows no clear miscalibration over {rows} rows together."
    kind = _kind_of(gaps, float(np.average(y, weights=w)))
    if deviance is not None:
        kind = _KINDS_OF_MEANS.get(kind, kind)
    worst = sorted(sorted(gaps, key=lambda gap: -gap.evidence)[:2], key=gaps.index)
    places = [
        "{} ({} predicted, {} observed)".format(gap.where, *gap.show(gap.predicted, gap.observed))
        for gap in worst
    ]
    among = "" if w is None else " among the labelled rows"
    return f"{name} is {kind} {listed(places)}{among}."


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
    """By how much the Brier score is lower after calibration.

    Attributes
    ----------
    mean : float
        The mean over all samples.
    low, high : float
        Between these is the mean of the expected differences, with a chance of 1 − `LEVEL`.
    """

    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether it is known which is better."""
        return self.low > 0.0 or self.high < 0.0


def gain_of(bounds: MeanBounds) -> Gain | None:
    """Return the gain from differences of Brier scores, before less after; None without any."""
    if not bounds.n_samples:
        return None
    low, high = bounds.interval(LEVEL)
    return Gain(bounds.total / bounds.weight, max(low, -1.0), min(high, 1.0))


def compare(before: Vector, after: Vector, y: Vector, w: Vector | None = None) -> Gain:
    """Compare probabilities before and after calibration: arrays of shape ``(n_samples,)``.

    With weights, the interval is `estimated_gain`.

    Examples
    --------
    >>> p = np.tile([0.2, 0.7], 1000)
    >>> gain = compare(p, np.full(2000, 0.5), np.tile([0.0, 1.0], 1000))
    >>> round(gain.mean, 3), gain.is_clear
    (-0.185, True)
    """
    if w is not None:
        of_zero, of_one = before**2 - after**2, (1.0 - before) ** 2 - (1.0 - after) ** 2
        most = float(np.maximum(np.abs(of_zero), np.abs(of_one)).max())
        return estimated_gain(np.where(y == 1.0, of_one, of_zero), w, most, 1.0)
    bounds = MeanBounds()
    bounds.add_events(before, after, y, np.ones(len(y)), 0.0)
    gain = gain_of(bounds)
    assert gain is not None, "there must be a sample"
    return gain


def estimated_gain(differences: Vector, w: Vector, most: float, limit: float) -> Gain:
    """Return the gain in all rows from weighted differences of Brier scores, for one look.

    Arrays of shape ``(n_samples,)``. A difference is at most ``most`` in size, a gain ``limit``.

    Examples
    --------
    >>> gain = estimated_gain(np.tile([0.4, -0.1], 500), np.tile([1.0, 3.0], 500), 0.4, 1.0)
    >>> round(gain.mean, 3), round(gain.low, 3), round(gain.high, 3)
    (0.025, 0.01, 0.04)
    """
    from scipy.special import stdtrit

    n, share = effective_number(w), w / w.sum()
    mean = float(share @ differences)
    # Rows that differ more may be among all, though none is among those with a label.
    half = most * (math.log(2.0) - math.log(LEVEL)) / n
    if n > 2.0:
        error = math.sqrt(float(share**2 @ (differences - mean) ** 2) * n / (n - 1.0))
        half = max(half, float(stdtrit(n - 1.0, 1.0 - 0.5 * LEVEL)) * error)
    return Gain(mean, max(mean - half, -limit), min(mean + half, limit))


def gain_in_words(gain: Gain) -> str:
    """Return a sentence about the Brier score before and after calibration.

    Examples
    --------
    >>> gain_in_words(Gain(0.0285, 0.0147, 0.0421))
    'Calibration lowers the Brier score, by 0.0285 on average (between 0.0147 and 0.0421).'
    >>> gain_in_words(Gain(0.0011, -0.0012, 0.0034))
    'The Brier score is 0.0011 lower after calibration; that may be chance (−0.0012 to 0.0034).'
    """
    if gain.is_clear:
        ends = sorted([abs(gain.low), abs(gain.high)])
        return (
            f"Calibration {'lowers' if gain.low > 0.0 else 'raises'} the Brier score, by"
            f" {abs(gain.mean):.4f} on average (between {ends[0]:.4f} and {ends[1]:.4f})."
        )
    if not gain.mean:
        return "The Brier score is the same before and after calibration."
    low, high = sorted([gain.low, gain.high] if gain.mean > 0.0 else [-gain.low, -gain.high])
    return (
        f"The Brier score is {abs(gain.mean):.4f} {'lower' if gain.mean > 0.0 else 'higher'} after"
        f" calibration; that may be chance ({_signed(low)} to {_signed(high)})."
    )


def losses_in_words(
    before: Vector,
    after: Vector,
    periods: Periods | None = None,
    loss: str = "Log loss",
    w: Vector | None = None,
) -> str:
    """Return a sentence about log losses, and how much of their difference a few rows make.

    Arrays of the shape ``(n_samples,)``: the log loss of each sample, in order, or the ``loss``,
    and weights if there are any.
    Without ``periods`` they are counted in at most ten of at least 200 samples.

    Examples
    --------
    >>> before, after = np.full(1000, 0.5), np.full(1000, 0.49)
    >>> before[:7] = 30.0
    >>> losses_in_words(before, after)[:54]
    'Log loss 0.7065 → 0.4900, lower in all 5 periods; 4 of'
    >>> losses_in_words(before, after)[50:]
    '4 of 1,000 rows make more than half of the difference.'
    """
    if periods is None:
        cuts, name = equal_parts(len(before), _MOST_PERIODS)[1:-1], "periods"
    else:
        cuts, name = periods.bounds[1:-1], periods.words
    weights = np.ones(len(before)) if w is None else w
    totals = [part.sum() for part in np.split(weights, cuts)]
    earlier, later = (
        np.array([part.sum() for part in np.split(weights * losses, cuts)]) / totals
        for losses in (before, after)
    )
    words = periods_in_words(earlier, later, name)
    difference = (before - after) * weights
    total = float(difference.sum())
    shares = np.cumsum(np.sort(difference * math.copysign(1.0, total))[::-1])
    n_rows = int(np.searchsorted(shares > 0.5 * abs(total), True)) + 1
    if total and n_rows <= len(difference) * _FEW:
        rows = "1 of" if n_rows == 1 else f"{n_rows:,} of"
        verb = "makes" if n_rows == 1 else "make"
        words += f"; {rows} {len(difference):,} rows {verb} more than half of the difference"
    means = (float(np.average(each, weights=w)) for each in (before, after))
    return f"{loss} {change(*means)}{words}."


def periods_in_words(before: Vector, after: Vector, name: str = "periods") -> str:
    """Return in how many periods the loss is lower, from its means; "" if there is only one.

    Examples
    --------
    >>> periods_in_words(np.array([0.4, 0.5]), np.array([0.3, 0.6]))
    ', lower in 1 of 2 periods'
    """
    n, n_lower = len(before), int((after < before).sum())
    if n < 2 or (before == after).all():
        return ""
    if n_lower in (0, n) and (before != after).all():
        return f", {'lower' if n_lower else 'higher'} in all {n} {name}"
    return f", lower in {n_lower} of {n} {name}"


def change(before: float, after: float) -> str:
    """Return two numbers with an arrow between them."""
    return f"{shown_part(before)} \N{RIGHTWARDS ARROW} {shown_part(after)}"


def evidence_in_words(name: str, p: Vector, y: Vector, place: Callable[[int], str]) -> str:
    """Return a sentence about the evidence against probabilities, in their order.

    Arrays of the shape ``(n_samples,)``: probabilities and labels. ``place`` returns where one of
    them is, in words.

    Examples
    --------
    >>> p, y = np.full(1000, 0.5), np.tile([0.0, 1.0], 500)
    >>> evidence_in_words("p", p, y, "row {}".format)
    'The evidence against p stays small: its e-value is at most 1.'
    >>> evidence_in_words("p", p, np.ones(1000), lambda at: f"row {at + 1}")[:47]
    'The evidence against p begins at about row 1: i'
    """
    bets, w, limit = new_bets(spends=True), np.ones(len(y)), -math.log(LEVEL)
    at = bets.update_many(p, y, w, limit)
    where = place(min(bets.since(), len(p) - 1))  # of the bet that raises the alarm
    bets.update_many(p[at:], y[at:], w[at:])
    if bets.largest < limit:
        most = math.exp(bets.largest)
        return f"The evidence against {name} stays small: its e-value is at most {most:.3g}."
    begins = f"The evidence against {name} begins at about {where}: its e-value"
    if math.isinf(bets.largest):  # and each bet has won
        return f"{begins} is {e_value_in_words(bets.largest)}."
    best = f"By the best bet {leader_in_words(bets)}"
    return f"{begins} reaches {e_value_in_words(bets.largest)}. {best}."


def state_of(promise: Answers | WeightedAnswers) -> str:
    """Return whether a promise is kept, in words.

    Examples
    --------
    >>> [state_of(Answers(0.95, 1000, 600, right, 0.95)) for right in (600, 570, 530)]
    ['kept', 'not refuted', 'broken']
    """
    low, high = promise.interval(1.0 - LEVEL)
    if high < promise.target:
        return "broken"
    return "kept" if low >= promise.target else "not refuted"


def promise_in_words(name: str, metric: str, promise: Answers | WeightedAnswers, rows: str) -> str:
    """Return what is answered under a promise, or labelled 1 for one of precision, and its state.

    Examples
    --------
    >>> promise_in_words("p", "precision", Answers(0.95, 1000, 600, 530, 0.951), "1,000 rows")[:71]
    'By p, 60 % of 1,000 rows are labelled 1 for a precision of 0.95: 0.951 '
    >>> promise_in_words("p", "accuracy", Answers(0.95, 1000, 0, 0, 1.0), "1,000 rows")
    'By p, none of 1,000 rows can be answered for an accuracy of 0.95.'
    """
    article, done = ("an", "answered") if metric == "accuracy" else ("a", "labelled 1")
    goal = f"{done} for {article} {metric} of {promise.target:g}"
    if not promise.n_answers:
        return f"By {name}, none of {rows} can be {goal}."
    # With one digit more than the distance of the target from 1 has.
    distance = max(1.0 - promise.target, 1e-6) if promise.target < 1.0 else 1e-3
    digits = max(3, 1 - math.floor(math.log10(distance) + 1e-9))
    numbers = (promise.expected, promise.accuracy, *promise.interval(1.0 - LEVEL))
    expected, observed, low, high = (f"{number:.{digits}f}" for number in numbers)
    return (
        f"By {name}, {shown_share(promise.coverage)} of {rows} are {goal}: {expected} expected,"
        f" {observed} observed ({low} to {high}). The promise is {state_of(promise)}."
    )


def _signed(number: float) -> str:
    """Return a number with a minus sign, which 0 has not.

    Examples
    --------
    >>> _signed(-0.0123), _signed(-1e-5)
    ('−0.0123', '0.0000')
    """
    shown = f"{number:.4f}"
    return shown.replace("-", "\N{MINUS SIGN}" if float(shown) else "")


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


def rounded_alike(*p: float) -> list[str]:
    """Return probabilities that are compared: with the same digits, if these are few.

    Examples
    --------
    >>> rounded_alike(0.969, 0.861), rounded_alike(0.08, 0.0977), rounded_alike(0.3, 2e-5)
    (['0.969', '0.861'], ['0.080', '0.098'], ['0.30', '0.00002'])
    """
    texts = [rounded(each) for each in p]
    digits = max(len(text.partition(".")[2]) for text in texts)
    return [f"{each:.{digits}f}" for each in p] if digits <= 4 else texts
