"""The section of a report with the errors of segments: values of columns, and pairs of values."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.calibration.segments import check_crosses
from streamcal.metrics.multicalibration import MIN_SAMPLES
from streamcal.metrics.segment_errors import Group, SegmentErrors, adjust, group_samples, measure
from streamcal.report import verdict
from streamcal.report.content import Cells, Section, Table
from streamcal.report.key_sections import Keys, shorten
from streamcal.report.table_sections import LEVEL, Scored

MAX_SEGMENTS = 200
"""If there are more segments, the worst are shown."""

_N_WORST = 10  # are in a table that is always open
_HEADER = (
    *("Segment", "Rows", "Predicted before", "Predicted after"),
    *("Observed", "Observed, low", "Observed, high"),
    *("Error before", "Error after", "p-value after"),
)
_MOST = dict.fromkeys((7, 8), 10.0)  # an error of more standard errors is no chance
_NORMAL_QUANTILE = 1.6448536  # of a two-sided interval at `LEVEL`

Vector = NDArray[np.float64]


class Segments(NamedTuple):
    """Columns whose values make segments: their names, and the values of all rows."""

    fields: tuple[str, ...]
    values: list[Keys]


class Means(NamedTuple):
    """Weighted means of segments, and effective numbers of rows: arrays of shape (n_segments,).

    ``before`` are means of the scores, NaN where these are no probabilities.
    """

    before: Vector
    after: Vector
    observed: Vector
    n: Vector

    @classmethod
    def of(
        cls, groups: list[Group], scored: Scored, w: Vector, order: NDArray[np.int64]
    ) -> "Means":
        """Return the means of the segments at some places."""
        raw = scored.raw if scored.comparable else np.full(len(w), math.nan)
        columns = (w, w * w, w * raw, w * scored.calibrated, w * scored.labels)
        weight, squares, *sums = (
            np.concatenate([np.bincount(group.codes, column) for group in groups])[order]
            for column in columns
        )
        before, after, observed = (each / weight for each in sums)
        return cls(before, after, np.minimum(observed, 1.0), weight**2 / squares)


class Compared(NamedTuple):
    """The errors of segments before and after calibration, the clearest error after it first.

    Attributes
    ----------
    names : list of str
        The names of the segments that are shown, at most `MAX_SEGMENTS`.
    before : SegmentErrors or None
        None where scores are not probabilities.
    after : SegmentErrors
        Of all segments.
    means : Means or None
        Estimates for all rows of all segments; None if each row counts once.
    """

    names: list[str]
    before: SegmentErrors | None
    after: SegmentErrors
    means: Means | None = None


def compare(scored: Scored, segments: Segments, max_segments: int = MAX_SEGMENTS) -> Compared:
    """Return the errors of all segments of enough rows; of many, only the worst get a name."""
    crossings = check_crosses("auto", segments.fields)
    encoded = [_encode(keys) for keys in segments.values]
    groups = group_samples(segments.fields, encoded, crossings, len(scored.labels))[1:]
    ones = np.ones(len(scored.labels))
    after = measure(groups, scored.labels, scored.calibrated, ones)
    kept = np.flatnonzero(after.n >= MIN_SAMPLES)
    order = kept[np.argsort(-after.evidence[kept], kind="stable")]
    before = None
    if scored.comparable:
        before = measure(groups, scored.labels, scored.raw, ones).select(order)
    ends = np.cumsum([len(group.values) for group in groups])
    names = [_name_of(groups, ends, at) for at in order[:max_segments].tolist()]
    w = scored.weights
    means = None if w is None else Means.of(groups, scored, w, order)
    return Compared(names, before, after.select(order), means)


def _encode(keys: Keys) -> tuple[list[str], NDArray[np.int64]]:
    """Return the values that rows have, and their places; labels may be unknown for others."""
    used, codes = np.unique(keys.places, return_inverse=True)
    return [keys.names[place] for place in used.tolist()], codes


def _name_of(groups: list[Group], ends: NDArray[np.int64], at: int) -> str:
    group = groups[place := int(np.searchsorted(ends, at, side="right"))]
    values = group.values[at - int(ends[place])]  # from the end of the group
    named = zip(group.fields, values, strict=True)
    return shorten(", ".join(f"{field} = {value}" for field, value in named))


def of_segments(compared: Compared) -> Section:
    """Return the section of segments."""
    names, before, after, means = compared
    n_shown, n = len(names), len(after.n)
    unknown = np.full(n, math.nan)
    earlier, error = (unknown, unknown) if before is None else (before.predicted, before.sigmas)
    if means is None:
        means = Means(earlier, after.predicted, after.observed, after.n.astype(np.float64))
    low, high = wilson(means.observed, means.n)
    columns = (
        *(after.n, means.before, means.after, means.observed, low, high),
        *(error, after.sigmas, adjust(after.p_values)),
    )
    numbers = zip(*(column[:n_shown].tolist() for column in columns), strict=True)
    rows: list[Cells] = [(name, *cells) for name, cells in zip(names, numbers, strict=True)]
    worst = tuple(rows[:_N_WORST])
    tables = [Table("worst-segments", "The worst segments", _HEADER, worst, most=_MOST)]
    if len(rows) > _N_WORST:
        caption = "Errors by segment"
        tables.append(Table("segment-errors", caption, _HEADER, tuple(rows), None, True, _MOST))
    text = f"{n:,} segments of at least {MIN_SAMPLES} rows, the clearest error after calibration"
    text += f" first; the {n_shown} worst are shown." if n > n_shown else " first."
    text += (
        " Predicted and observed are means of predictions and labels, low and high the ends of"
        f" Wilson's {100 * LEVEL:g} % interval. An error is the greatest gap between labels and"
        " predictions that are added in the order of the predictions, in standard errors. The error"
        " of a calibrated segment is 1.6 on average, and above 3.0 in 1 % of all cases. The p-value"
        f" is the probability of such an error by chance, corrected for {n:,} segments: below"
        f" {verdict.LEVEL:g}, the segment is miscalibrated."
    )
    if compared.means is not None:
        text += (
            " The means are estimates for all rows, with the interval of the effective number of"
            " rows; errors and p-values count each labelled row once."
        )
    return Section("segments", "Segments", text, (), tuple(tables))


def verdict_of_segments(compared: Compared, score: str, column: str) -> tuple[str, ...]:
    """Return what tests confirm of all segments, in a sentence; nothing if there are none.

    ``score`` and ``column`` are the names of the columns before and after.
    """
    names, before, after, means = compared
    if not names:
        return ()
    n, wrong = len(after.n), _count_wrong(after)
    if wrong:
        predicted, observed = float(after.predicted[0]), float(after.observed[0])
        sentence = f"By segment, {column} is wrong for {wrong:,} of {n:,}, most clearly {names[0]}"
        if abs(observed - predicted) > 0.5 * float(after.error[0]):
            shown = verdict.rounded_alike(predicted, observed)
            among = "" if means is None else " among the labelled rows"
            sentence += " ({} predicted, {} observed{})".format(*shown, among)
    else:
        sentence = f"By segment, {column} shows no clear miscalibration in any of {n:,}"
    if before is not None:
        sentence += f"; {score} was wrong for {_count_wrong(before):,}"
    return (f"{sentence}.",)


def _count_wrong(errors: SegmentErrors) -> int:
    """Return how many segments are not calibrated, each at the level for all together."""
    return int((adjust(errors.p_values) < verdict.LEVEL).sum())


def wilson(share: Vector, n: NDArray[Any]) -> tuple[Vector, Vector]:
    """Return Wilson's interval of probabilities, of which shares of n samples were observed.

    Examples
    --------
    >>> low, high = wilson(np.array([0.0, 0.5]), np.array([100, 100]))
    >>> low.round(3), high.round(3)
    (array([0.   , 0.419]), array([0.026, 0.581]))
    """
    z2 = _NORMAL_QUANTILE**2
    middle = (share + z2 / (2.0 * n)) / (1.0 + z2 / n)
    half = np.sqrt(share * (1.0 - share) * z2 / n + (z2 / (2.0 * n)) ** 2) / (1.0 + z2 / n)
    return (middle - half).clip(0.0, 1.0), (middle + half).clip(0.0, 1.0)
