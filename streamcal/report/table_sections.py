"""The sections of a report about a calibrated table: scores, reliability, and both over time.

Numbers are computed from all rows, each with weight 1, or with the weight 1 / propensity where only
some decisions get a label: means are then estimates for all rows, and tests count each labelled row
once. Drawings have only as many points as a screen can show. The decompositions are those of
`streamcal.metrics.CORP`, the curves and bands those of `streamcal.plot.ReliabilityDisplay`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import LARGEST
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import isotonic_fit
from streamcal.losses.deviance import Deviance
from streamcal.metrics.corp import chance_miscalibration, mean_score_of, split_of_means
from streamcal.metrics.log_loss import LEAST, RULE, RULE_OF_MEANS, log_losses
from streamcal.monitoring.fixed_bets import new_bets
from streamcal.plot.reliability_curve import ReliabilityCurve
from streamcal.report import verdict
from streamcal.report.content import Cells, Chart, Section, Series, Table, bars, listed, shown, thin
from streamcal.report.periods import Periods, by_calendar, by_rows, time_in_words
from streamcal.report.prometheus import Metric, loss_metrics

LEVEL = 0.9
ECE_BINS = 10
_BINS = 50
RESAMPLES = 200
MOST_EVIDENCE = 300.0  # decimal digits of an e-value that are shown; it may be infinite

Vector = NDArray[np.float64]
_SCORE_NAMES = {"brier": "Brier score", "log": "log loss"}
_SCORE_HEADER = ("Score", "Column", "Mean", "= MCB", "− DSC", "+ UNC")


class Scored(NamedTuple):
    """The labelled rows of a calibrated table, in order: arrays of shape ``(n_rows,)``.

    ``raw`` has the scores, ``calibrated`` probabilities, ``labels`` 0 or 1, ``rows`` the numbers of
    the rows, from 1. If the rows have times, they are in the order of these: ``times`` in seconds
    since 1970, and ``zone``, which is "UTC", or "" if it is not known.

    With a ``deviance``, labels are counts or amounts, and ``calibrated`` are means of these.

    ``weights`` are 1 / propensity if only some rows have a label, None if each row counts once.
    """

    raw: Vector
    calibrated: Vector
    labels: Vector
    rows: Vector
    times: Vector | None = None
    zone: str = ""
    deviance: Deviance | None = None
    weights: Vector | None = None

    @property
    def comparable(self) -> bool:
        """Whether all scores are probabilities; means, if calibrated values are these."""
        if self.deviance is not None:
            inside = self.deviance.loss.z_range.contains(self.raw)
            return bool((inside & (np.abs(self.raw) <= LARGEST)).all())
        return bool(((self.raw >= 0.0) & (self.raw <= 1.0)).all())

    @property
    def loss_name(self) -> str:
        """The name of `losses`."""
        return "log loss" if self.deviance is None else self.deviance.title

    @property
    def rule(self) -> str:
        """What `losses` clip, in words; "" if nothing."""
        if self.deviance is None:
            return RULE
        return RULE_OF_MEANS if self.deviance.may_be_zero else ""

    def losses(self, p: Vector) -> Vector:
        """Return the log loss of each row, or its deviance, from predictions of all rows."""
        if self.deviance is None:
            return log_losses(self.labels, p)
        return self.deviance(_clipped(p, self.deviance), self.labels)

    def weights_of(self, rows: slice | NDArray[np.int64]) -> Vector | None:
        """Return the weights of some rows; None if each counts once."""
        return None if self.weights is None else self.weights[rows]

    def mean(self, values: Vector, rows: slice | NDArray[np.int64] = slice(None)) -> float:
        """Return the mean of values of all rows over some of them."""
        return float(np.average(values[rows], weights=self.weights_of(rows)))

    def mcb(self, p: Vector, rows: slice | NDArray[np.int64] = slice(None)) -> float:
        """Return MCB of the Brier score, or of the deviance, of predictions of some rows."""
        y, w = self.labels[rows], self.weights_of(rows)
        if self.deviance is None:
            return miscalibration(p, y, w)
        return split_of_means(y, _clipped(p, self.deviance), self.deviance, w).mcb

    @property
    def columns(self) -> tuple[Vector, Vector, Vector, Vector]:
        """What each row has."""
        return self.raw, self.calibrated, self.labels, self.rows

    def place(self, at: int) -> str:
        """Return where a row is, in words."""
        if self.times is None:
            return f"row {int(self.rows[at]):,}"
        return time_in_words(float(self.times[at]), self.zone)

    def periods(self) -> Periods:
        """Return the periods of the charts over time."""
        return by_rows(self.rows) if self.times is None else by_calendar(self.times)


def _clipped(p: Vector, deviance: Deviance) -> Vector:
    """Return means as a report scores them: otherwise a single wrong 0 would make all infinite."""
    return np.maximum(p, LEAST) if deviance.may_be_zero else p


def of_table(scored: Scored, score: str, column: str, seed: int = 0) -> list[Section]:
    """Return the sections of a calibrated table.

    Parameters
    ----------
    scored : Scored
        The rows; at least one.
    score, column : str
        The names of the columns before and after.
    seed : int
        Seed of the resampling for bands and chance levels.

    Raises
    ------
    ValueError
        If there are no rows, or they hold other than probabilities and labels.
    """
    sections = of_sample(scored, score, column, seed)
    names = [score, column] if scored.comparable else [column]
    return [*sections, over_time(scored, names, seed)]


def of_sample(scored: Scored, score: str, column: str, seed: int = 0) -> list[Section]:
    """Return the sections for which the order of rows does not matter; see `of_table`."""
    before = {score: scored.raw} if scored.comparable else {}
    columns, given = {**before, column: scored.calibrated}, scored.deviance
    labels = scored.labels == 1.0 if given is None else scored.labels
    options: Any = {"level": LEVEL, "n_resamples": RESAMPLES, "seed": seed, "w": scored.weights}
    if given is not None:
        options["loss"] = given.loss
    curves = {
        name: ReliabilityCurve.from_predictions(labels, p, name=name, **options)
        for name, p in columns.items()
    }
    left_out = None if scored.comparable else score
    if given is not None:
        splits = {
            name: split_of_means(scored.labels, _clipped(p, given), given, scored.weights)
            for name, p in columns.items()
        }
        return [
            _means_section(scored, columns, splits, left_out),
            reliability_section(
                curves, {("brier", name): each for name, each in splits.items()}, means=True
            ),
        ]
    scores = _scores(scored, curves)
    return [_score_section(scored, scores, left_out), reliability_section(curves, scores)]


def of_two_parts(scored: Scored, since: float, score: str, column: str) -> Section:
    """Return the rows before a time beside those since then.

    Parameters
    ----------
    scored : Scored
        The rows, which have times.
    since : float
        In seconds since 1970.
    score, column : str
        The names of the columns before and after calibration.

    Raises
    ------
    ValueError
        If all rows are on one side.
    """
    assert scored.times is not None
    at = int(np.searchsorted(scored.times, since))
    when = time_in_words(since, scored.zone)
    if at in (0, len(scored.labels)):
        first, last = scored.place(0), scored.place(-1)
        raise ValueError(
            f"has labelled rows from {first} to {last}, so --since must be between these, got"
            f" {when}"
        )
    charts: list[Chart] = []
    cells: list[Cells] = []
    for side, part in (("before", slice(at)), ("since", slice(at, None))):
        raw, calibrated, labels, rows = (each[part] for each in scored.columns)
        if not scored.comparable:  # though those of this part may be in [0, 1] by chance
            raw = np.full(len(labels), math.nan)
        weights = scored.weights_of(part)
        chosen = Scored(raw, calibrated, labels, rows, deviance=scored.deviance, weights=weights)
        scores, reliability = of_sample(chosen, score, column)
        title, chart = f"Reliability {side} {when}", reliability.charts[0]
        charts.append(replace(chart, id=f"reliability-{side}", title=title))
        cells += [(side, len(labels), *row) for row in scores.tables[0].rows]
    header = ("Rows", "Number", *_SCORE_HEADER)
    table = Table("two-parts", f"Before and since {when}", header, tuple(cells))
    text = (
        "The same scores and curves for the rows before this time and for those since then."
        " Other rows may be harder to predict: MCB alone tells of calibration."
    )
    return Section("before-and-since", f"Before and since {when}", text, tuple(charts), (table,))


def verdict_of_two_parts(scored: Scored, since: float) -> tuple[str, ...]:
    """Return the log losses before a time and since then, in a sentence; see `of_two_parts`."""
    if scored.times is None or not scored.comparable:
        return ()
    at = int(np.searchsorted(scored.times, since))
    means = [
        [scored.mean(scored.losses(p), part) for p in (scored.raw, scored.calibrated)]
        for part in (slice(at), slice(at, None))
    ]
    before, after = (verdict.change(*each) for each in means)
    when = time_in_words(since, scored.zone)
    return (f"{capitalized(scored.loss_name)} before {when} {before}, since then {after}.",)


def verdict_of_table(scored: Scored, score: str, column: str) -> tuple[str, ...]:
    """Return the verdict on a calibrated table in sentences; the arguments are those of `of_table`.

    Examples
    --------
    >>> p = np.linspace(0.0, 1.0, 20_000)[np.random.default_rng(0).permutation(20_000)]
    >>> y = (np.random.default_rng(1).random(20_000) < p**2).astype(float)
    >>> _, before, after = verdict_of_table(Scored(p, p**2, y, np.arange(20_000.0)), "p", "new")
    >>> before[:57]
    'p is too high everywhere (0.50 predicted, 0.33 observed).'
    >>> after[:33]
    'new shows no clear miscalibration'
    """
    y, w = scored.labels, scored.weights
    sentences = [] if w is None else [verdict.weights_in_words(w)]
    columns = [(column, scored.calibrated)]
    if scored.comparable:
        columns.insert(0, (score, scored.raw))
        before, after = (scored.losses(p) for _, p in columns)
        periods = None if scored.times is None else scored.periods()
        name = capitalized(scored.loss_name)
        change = verdict.losses_in_words(before, after, periods, name, w)
        if scored.deviance is None:
            gain = verdict.compare(scored.raw, scored.calibrated, y, w)
            change += f" {verdict.gain_in_words(gain)}"
        sentences.append(change)
    for name, p in columns:
        if scored.deviance is not None:
            words = verdict.reliability_in_words(name, p, y, deviance=scored.deviance, w=w)
            sentences.append(words)
            continue
        evidence = verdict.evidence_in_words(name, p, y, scored.place)
        sentences.append(f"{verdict.reliability_in_words(name, p, y, w=w)} {evidence}")
    return tuple(sentences)


def metrics_of_table(scored: Scored, score: str, column: str) -> list[Metric]:
    """Return the numbers of a table for Prometheus; the arguments are those of `of_table`."""
    w = scored.weights
    sums = {column: total(scored.losses(scored.calibrated), w)}
    if scored.comparable:
        sums = {score: total(scored.losses(scored.raw), w), **sums}
    loss = None if scored.deviance is None else scored.deviance.name
    n = len(scored.labels) if w is None else float(w.sum())
    return loss_metrics(n, sums, loss, weighted=w is not None)


def total(values: Vector, w: Vector | None) -> float:
    """Return a sum, or a weighted one: arrays of shape ``(n_samples,)``."""
    return float(values.sum() if w is None else values @ w)


def _scores(
    scored: Scored, curves: Mapping[str, ReliabilityCurve]
) -> dict[tuple[str, str], Decomposition]:
    """Return the decompositions by score and column."""
    columns = [scored.raw, scored.calibrated][-len(curves) :]
    return {
        (kind, name): decompose(curve.staircase, _mean_score(scored, p, kind), kind)
        for kind in _SCORE_NAMES
        for (name, curve), p in zip(curves.items(), columns, strict=True)
    }


def _mean_score(scored: Scored, p: Vector, kind: str) -> float:
    """Return the mean Brier score or log loss of predictions of all rows."""
    if kind == "log":
        return scored.mean(log_losses(scored.labels, p))
    return mean_score_of(scored.labels, p, kind, scored.weights)


def _score_section(
    scored: Scored, scores: Mapping[tuple[str, str], Decomposition], left_out: str | None
) -> Section:
    rows: list[Cells] = [
        (_SCORE_NAMES[kind], name, *(float(part) for part in parts))
        for (kind, name), parts in scores.items()
    ]
    names = list(dict.fromkeys(name for _, name in scores))
    columns = [scored.raw, scored.calibrated][-len(names) :]
    for label, measure in (("ECE", expected_calibration_error), ("AUC", area_under_curve)):
        values = [measure(p, scored.labels, scored.weights) for p in columns]
        rows += [
            (label, name, value, *[math.nan] * 3) for name, value in zip(names, values, strict=True)
        ]
    text = (
        f"{_rows_in_words(scored)} A mean score is the miscalibration (MCB, the gain by the best"
        " recalibration) minus the discrimination (DSC) plus the uncertainty of the labels (UNC)."
        f" Less is better. In the log loss, {RULE}. ECE is the expected calibration error over"
        f" {ECE_BINS} bins of equal width; AUC, the area under the ROC curve, measures the order of"
        " the values alone: more is better."
    )
    if left_out is not None:
        text += f" {left_out} has values outside [0, 1], so it is not compared."
    table = Table("score-numbers", "Scores", _SCORE_HEADER, tuple(rows))
    return Section("scores", "Scores", text, (), (table,))


def _rows_in_words(scored: Scored) -> str:
    """Return how many rows there are, what their labels are in the mean, and what each counts."""
    n, mean = len(scored.labels), scored.mean(scored.labels)
    share, of_means = f"{100 * mean:.4g} %", f"in the mean {shown(mean)}"
    if scored.weights is None:
        labels = f"{share} of them 1" if scored.deviance is None else of_means
        return f"{n:,} rows with a label, {labels}; each counts once."
    if scored.deviance is None:
        labels = f"Of all labels, {share} are 1."
    else:
        labels = f"All labels are {of_means}."
    return f"{n:,} rows with a label. {verdict.WEIGHTS} {labels}"


def _means_section(
    scored: Scored,
    columns: Mapping[str, Vector],
    splits: Mapping[str, Decomposition],
    left_out: str | None,
) -> Section:
    """Return the section with the parts of the deviance by column."""
    assert scored.deviance is not None
    title, nothing = capitalized(scored.loss_name), [math.nan] * 3
    rows: list[Cells] = [(title, name, *map(float, parts)) for name, parts in splits.items()]
    for name, parts in splits.items():
        share = 1.0 - parts.mean_score / parts.unc if parts.unc else math.nan
        rows.append(("D²", name, share, *nothing))
    rows += [
        ("ECE", name, calibration_error_of_means(p, scored.labels, scored.weights), *nothing)
        for name, p in columns.items()
    ]
    rows += [("Mean", name, scored.mean(p), *nothing) for name, p in columns.items()]
    text = (
        f"{_rows_in_words(scored)} The mean deviance is the"
        " miscalibration (MCB, the gain by the best recalibration) minus the discrimination (DSC)"
        " plus the uncertainty of the labels (UNC)."
        " Less is better. D² is the share of UNC that the predictions explain: 1 is best, and 0 is"
        " that of always predicting the mean label. ECE is the mean gap of predicted and observed"
        f" means over {ECE_BINS} bins of equally many rows, and Mean the mean prediction."
    )
    if scored.rule:
        text += f" In the deviance, {scored.rule}."
    if left_out is not None:
        values = scored.deviance.loss.z_range
        text += f" {left_out} has values outside {values}, so it is not compared."
    table = Table("score-numbers", "Scores", _SCORE_HEADER, tuple(rows))
    return Section("scores", "Scores", text, (), (table,))


def reliability_section(
    curves: Mapping[str, ReliabilityCurve],
    scores: Mapping[tuple[str, str], Decomposition],
    *,
    means: bool = False,
) -> Section:
    """Return the section with the curves by column; ``scores`` are decompositions of "brier".

    With ``means``, of a deviance, and predictions are means.
    """
    predicted, observed = (
        ("predicted mean", "observed mean")
        if means
        else ("predicted probability", "observed frequency")
    )
    left = min(float(curve.edges[0]) for curve in curves.values())
    right = max(float(curve.edges[-1]) for curve in curves.values())
    margin = 0.02 * (right - left)
    square = (left - margin, right + margin)
    edges = np.linspace(left, right, _BINS + 1)
    masses = []
    for i, (name, curve) in enumerate(curves.items()):
        heights = _rebin(curve.mass / curve.mass.sum(), curve.edges, edges)
        masses.append(Series(name, "bars", bars(heights, edges), color_of(i, len(curves))))
    summary = listed([f"{name} {shown(scores['brier', name].mcb)}" for name in curves])
    charts = (
        Chart(
            "reliability",
            "Reliability",
            predicted,
            observed,
            tuple(_reliability_series(curves, np.array([left, right]))),
            f"Isotonic regression of the labels on the predictions. Miscalibration: {summary}.",
            square,
            square,
            square=True,
        ),
        Chart(
            "histogram",
            "Distribution of predictions",
            predicted,
            "share of rows",
            tuple(masses),
            f"Histograms of {listed(list(curves))} over {_BINS} bins.",
            square,
        ),
    )
    text = (
        "Observed against predicted, without bins (CORP). The diagonal is perfect calibration;"
        " deviations inside the band can be by chance."
    )
    if means:
        text += " The ends of a curve, where rows are few, may lie outside the picture."
    table = _reliability_table(curves, np.linspace(left, right, 11) if means else None)
    return Section("reliability-before-after", "Reliability", text, charts, (table,))


def _reliability_series(curves: Mapping[str, ReliabilityCurve], ends: Vector) -> list[Series]:
    """Return the diagonal, and the band and the curve of each column."""
    series = [Series("perfectly calibrated", "line", {"x": ends, "y": ends}, "muted", "dashed")]
    for i, (name, curve) in enumerate(curves.items()):
        color = color_of(i, len(curves))
        if curve.band is not None:
            x, low, high = limit_points(*curve.band)
            columns = {"x": x, "low": low, "high": high}
            label = f"{name}: {100 * LEVEL:g} % band if calibrated"
            hatched = i < len(curves) - 1
            series.append(Series(label, "band", columns, color, hatched=hatched))
        x, y = thin(*curve.points())
        series.append(Series(name, "line", {"x": x, "y": y}, color))
    return series


def _reliability_table(
    curves: Mapping[str, ReliabilityCurve], means: Vector | None = None
) -> Table:
    """Return the curves at probabilities 0, 0.1, …, or at given means."""
    header = ("Predicted", *(f"observed at {name}" for name in curves))
    places = np.linspace(0.0, 1.0, 11) if means is None else means
    rows: tuple[Cells, ...] = tuple(
        (
            f"{at:.1f}" if means is None else f"{at:.4g}",
            *(float(curve.staircase(at, outside="nan")) for curve in curves.values()),
        )
        for at in places.tolist()
    )
    return Table("reliability-numbers", "The curves in numbers", header, rows)


def color_of(i: int, n: int) -> str:
    """Return the colour of a column; calibrated values always have the second one."""
    return f"c{i + 2 - n}"


def limit_points(x: Vector, low: Vector, high: Vector) -> tuple[Vector, Vector, Vector]:
    """Return a band with at most 400 points."""
    if len(x) <= 400:
        return x, low, high
    at = np.linspace(0, len(x) - 1, 400).astype(np.int64)
    return x[at], low[at], high[at]


def _rebin(shares: Vector, edges: Vector, wanted: Vector) -> Vector:
    """Return the shares in other bins; the share of a bin is spread evenly over it."""
    total = np.concatenate([[0.0], np.cumsum(shares)])
    return np.diff(np.interp(wanted, edges, total))


class _Windows(NamedTuple):
    """Numbers of consecutive windows of rows; a row of a matrix has all columns."""

    mcb: Vector
    losses: Vector
    chance: Vector | None  # these two only for probabilities
    evidence: Vector | None


def over_time(
    scored: Scored,
    names: list[str],
    seed: int,
    losses: Mapping[str, Vector] | None = None,
    labels: Sequence[Vector] | None = None,
) -> Section:
    """Return the section with windows of rows.

    ``losses`` are of each row, by name; None: the log losses of the columns. ``labels`` are those
    of each column; None: the same for all.
    """
    periods = scored.periods()
    events = [scored.labels] * len(names) if labels is None else labels
    windows, axis = _windows(scored, periods, events, seed, losses), periods.axis
    n_windows = len(periods.x)
    in_windows = "1 window" if n_windows == 1 else f"{n_windows} windows"
    last = listed(
        [f"{name} {shown(float(m))}" for name, m in zip(names, windows.mcb[-1], strict=True)]
    )
    mcb_lines = _window_lines(periods.x, names, windows.mcb)
    loss, score = scored.loss_name, "Brier" if scored.deviance is None else scored.loss_name
    if windows.chance is not None:
        chance = {"x": periods.x, "y": windows.chance}
        mcb_lines.append(Series("by chance, if calibrated", "line", chance, "muted", "dotted"))
    clipped = f"; {scored.rule}" if scored.rule else ""
    charts = [
        Chart(
            "mcb-over-time",
            "Miscalibration over time",
            axis,
            f"MCB ({score})",
            tuple(mcb_lines),
            f"Miscalibration in {in_windows}; in the last one {last}.",
        ),
        Chart(
            "loss-over-time",
            f"{capitalized(loss)} over time",
            axis,
            loss,
            tuple(_window_lines(periods.x, list(losses or names), windows.losses)),
            f"Mean {loss} in {in_windows}{clipped}.",
        ),
    ]
    if windows.evidence is None:
        text = (
            f"In {periods.words}. Even calibrated predictions have some miscalibration in a window"
            " by chance. How much, and an e-value, would need the distribution of the labels."
        )
    else:
        alarm = np.full(n_windows, -math.log10(verdict.LEVEL))
        limit = Series("alarm", "line", {"x": periods.x, "y": alarm}, "muted", "dotted")
        charts.append(
            Chart(
                "evidence-over-time",
                "Evidence against calibration",
                axis,
                "log₁₀ of the e-value",
                (*_window_lines(periods.x, names, windows.evidence), limit),
                f"The e-value after {in_windows}. Above the dotted line it is an alarm.",
            )
        )
        text = (
            f"In {periods.words}. Even calibrated predictions have some miscalibration in a window"
            " by chance, shown by the dotted line. An e-value is the evidence of all rows so far"
            " that a column is not calibrated."
        )
        if scored.weights is not None:
            text += " It counts each labelled row once."
    table = _window_table(windows, names, list(losses or names), periods, loss)
    return Section("over-time", "Over time", text, tuple(charts), (table,))


def _windows(
    scored: Scored,
    periods: Periods,
    labels: Sequence[Vector],
    seed: int,
    given: Mapping[str, Vector] | None,
) -> _Windows:
    """Return the numbers of windows, which are periods of rows; ``labels`` are of each column."""
    columns = [scored.raw, scored.calibrated][-len(labels) :]
    pairs = [(p, scored._replace(labels=y)) for p, y in zip(columns, labels, strict=True)]
    each_loss = list(given.values()) if given else [own.losses(p) for p, own in pairs]
    parts = [slice(*ends) for ends in pairwise(periods.bounds)]
    mcb = np.array([[own.mcb(p[part], part) for p, own in pairs] for part in parts])
    losses = np.array([[scored.mean(each, part) for each in each_loss] for part in parts])
    if scored.deviance is not None:
        return _Windows(mcb, losses, None, None)
    rng = np.random.default_rng(seed)
    chance, evidence = [], []
    bets = [new_bets(spends=True) for _ in columns]
    for part in parts:
        w = scored.weights_of(part)
        chance.append(chance_miscalibration(scored.calibrated[part], "brier", rng, w=w))
        for (p, own), each in zip(pairs, bets, strict=True):
            each.update_many(p[part], own.labels[part], np.ones(len(p[part])))
        evidence.append([min(each.log_value() / math.log(10.0), MOST_EVIDENCE) for each in bets])
    return _Windows(mcb, losses, np.array(chance), np.array(evidence))


def _window_lines(x: Vector, names: list[str], values: Vector) -> list[Series]:
    """Return a line for each column; points if there is only one window."""
    kind = "line" if len(x) > 1 else "points"
    return [
        Series(name, kind, {"x": x, "y": y}, color_of(i, len(names)))
        for i, (name, y) in enumerate(zip(names, values.T, strict=True))
    ]


def _window_table(
    windows: _Windows, names: list[str], losses: list[str], periods: Periods, loss: str
) -> Table:
    header = ["up to row" if periods.axis == "row" else periods.words.removesuffix("s")]
    header += [f"MCB of {name}" for name in names]
    parts = [windows.mcb]
    if windows.chance is not None:
        header.append("by chance")
        parts.append(windows.chance)
    header += [f"{loss} of {name}" for name in losses]
    parts.append(windows.losses)
    if windows.evidence is not None:
        header += [f"log₁₀ of the e-value of {name}" for name in names]
        parts.append(windows.evidence)
    columns = np.column_stack(parts).tolist()
    firsts = list(periods.names)
    if periods.axis == "time":  # other windows have nearly equally many rows
        counts = np.diff(periods.bounds).tolist()
        firsts = [f"{name} ({n:,} rows)" for name, n in zip(periods.names, counts, strict=True)]
    rows = tuple((name, *cells) for name, cells in zip(firsts, columns, strict=True))
    return Table("over-time-numbers", "The windows in numbers", tuple(header), rows)


def miscalibration(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Return MCB of the Brier score; arrays of shape ``(n_samples,)``, ``w`` are weights.

    Examples
    --------
    >>> miscalibration(np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    0.185
    """
    return decompose(isotonic_fit(p, y, w), mean_score_of(y, p, "brier", w), "brier").mcb


def expected_calibration_error(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Return `streamcal.metrics.ECE` over `ECE_BINS` bins; arrays of shape ``(n_samples,)``.

    Examples
    --------
    >>> round(expected_calibration_error(np.array([0.05, 0.95]), np.array([0.0, 1.0])), 4)
    0.05
    """
    bins = np.searchsorted(np.arange(1, ECE_BINS) / ECE_BINS, p, side="left")
    return _mean_gap(bins, p, y, w)


def _mean_gap(bins: NDArray[np.int64], p: Vector, y: Vector, w: Vector | None) -> float:
    gaps, weight = (y - p, float(len(p))) if w is None else (w * (y - p), float(w.sum()))
    return float(np.abs(np.bincount(bins, gaps)).sum() / weight)


def calibration_error_of_means(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Return `streamcal.metrics.ECE` over `ECE_BINS` bins of equal mass; ``(n_samples,)`` arrays.

    Examples
    --------
    >>> calibration_error_of_means(np.array([1.0, 1.0, 5.0]), np.array([0.0, 2.0, 2.0]))
    1.0
    """
    _, place = np.unique(p, return_inverse=True)
    weights = np.bincount(place, w).astype(np.float64)
    ends = np.cumsum(weights)
    middles = (ends - 0.5 * weights) / ends[-1]
    bins = (ECE_BINS * middles).astype(np.int64)[place]
    return _mean_gap(bins, p, y, w)


def capitalized(name: str) -> str:
    """Return a name as the beginning of a sentence.

    Examples
    --------
    >>> capitalized("log loss"), capitalized("Poisson deviance")
    ('Log loss', 'Poisson deviance')
    """
    return name[:1].upper() + name[1:]


def area_under_curve(p: Vector, y: Vector, w: Vector | None = None) -> float:
    """Return the area under the ROC curve; NaN if all labels are equal.

    Examples
    --------
    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0.0, 0.0, 1.0, 1.0]))
    0.875
    """
    _, place = np.unique(p, return_inverse=True)
    ones, zeros = (np.bincount(place, each if w is None else w * each) for each in (y, 1.0 - y))
    below = np.cumsum(zeros) - 0.5 * zeros  # of a pair with equal values, a half is in order
    pairs = float(ones.sum()) * float(zeros.sum())
    return float(ones @ below) / pairs if pairs else math.nan
