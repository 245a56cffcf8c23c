"""The section of a report with the accuracy of answers over their share, and with promises."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.plot.accuracy_coverage_curve import (
    AccuracyCoverageCurve,
    Answers,
    answers_of_two,
    answers_under,
    curve_of,
    lowest_of,
)
from streamcal.report import verdict
from streamcal.report.content import Cells, Chart, Section, Series, Table, shown
from streamcal.report.table_sections import LEVEL, color_of, limit_points

Vector = NDArray[np.float64]
Targets = Mapping[str, float]
"""What is promised, by the name of the metric: accuracy or precision."""

METRICS: tuple[Literal["accuracy", "precision"], ...] = ("accuracy", "precision")
"""What can be promised: shares of decisions that are right."""


class Column(NamedTuple):
    """A column of probabilities, or the decisions of a table.

    Attributes
    ----------
    name : str
        The name that is shown.
    right, certainty : ndarray of shape (n_rows,)
        Whether the likelier label is right, 0.0 or 1.0, and its probability.
    ones : (ndarray, ndarray) or None
        The labels 0 and 1, and the probability of the label 1; None if there are several labels.
    """

    name: str
    right: Vector
    certainty: Vector
    ones: tuple[Vector, Vector] | None = None

    def promise(self, metric: str, target: float) -> Answers:
        """Return what `streamcal.maximize` would answer, or label 1, under a target."""
        if metric == "precision":
            assert self.ones is not None
            return answers_under(self.ones, target)
        return answers_under((self.right, self.certainty), target)


class Decided(NamedTuple):
    """The decisions that a table has, 0.0 and 1.0, or NaN where there is none.

    ``p`` and ``y`` are probabilities and labels of the rows; all have the shape ``(n_rows,)``.
    """

    name: str
    decisions: Vector
    p: Vector
    y: Vector

    def promise(self, metric: str, target: float) -> Answers:
        """Return how many of these decisions are right; of those for 1, if it is a precision."""
        if metric == "precision":
            chosen = self.decisions == 1.0
        else:
            chosen = ~np.isnan(self.decisions)
        given = self.decisions[chosen]
        n, right = len(given), int((given == self.y[chosen]).sum())
        chances = np.where(given == 1.0, self.p[chosen], 1.0 - self.p[chosen])
        return Answers(target, len(self.y), n, right, float(chances.mean()) if n else 1.0)


class Told(NamedTuple):
    """A promise, and who gave it."""

    name: str
    metric: str
    promise: Answers


def column_of(name: str, p: Vector, y: Vector) -> Column:
    """Return a column of probabilities of the label 1."""
    return Column(name, *answers_of_two(y, p), (y, p))


def promises_of(givers: Sequence[Column | Decided], targets: Targets) -> list[Told]:
    """Return all promises, the targets one after the other."""
    return [
        Told(giver.name, metric, giver.promise(metric, target))
        for metric, target in targets.items()
        for giver in givers
    ]


def verdict_of_promises(promises: Sequence[Told], rows: str) -> tuple[str, ...]:
    """Return a sentence about each promise; ``rows`` says of which samples it is.

    Examples
    --------
    >>> told = Told("calibrated", "accuracy", Answers(0.95, 1000, 600, 575, 0.951))
    >>> print(*verdict_of_promises([told], "1,000 rows"))
    By calibrated, 60 % of 1,000 rows are answered for an accuracy of 0.95: 0.951 expected, 0.958
    observed (0.933 to 0.976). The promise is not refuted.
    """
    return tuple(
        verdict.promise_in_words(told.name, told.metric, told.promise, rows) for told in promises
    )


def of_coverage(
    columns: Sequence[Column], promises: Sequence[Told] = (), noun: str = "row"
) -> Section:
    """Return the section of at least one column; the last one has a band."""
    n = len(columns)
    curves = [
        curve_of((each.right, each.certainty), each.name, LEVEL if i == n - 1 else None)
        for i, each in enumerate(columns)
    ]
    text = (
        f"The {noun}s with the surest predictions are answered first, with the likelier label."
        " Coverage is the share that is answered. The accuracy to expect is the mean probability of"
        f" the answers; it should lie in the band, the {100 * LEVEL:g} % interval of the true"
        f" accuracy. {noun.capitalize()}s of equal certainty are answered together."
    )
    if promises:
        text += (
            " A promise is the accuracy that answers must have in expectation, at least, or the"
            " precision of labels 1; as many as possible are given. It is broken, or kept, if the"
            f" whole {100 - 100 * verdict.LEVEL:g} % interval is on one side of it."
        )
    tables = (_promise_table(promises),) if promises else ()
    return Section(
        "coverage",
        "Accuracy over coverage",
        text,
        (_chart(curves, promises, noun),),
        (*tables, _curve_table(curves[-1])),
    )


def _chart(curves: Sequence[AccuracyCoverageCurve], promises: Sequence[Told], noun: str) -> Chart:
    series: list[Series] = []
    answered = [told for told in promises if told.metric == "accuracy"]
    targets = dict.fromkeys(told.promise.target for told in answered)
    for target in targets:
        ends = {"x": np.array([0.0, 1.0]), "y": np.full(2, target)}
        series.append(Series(f"target {target:g}", "line", ends, "muted", "dotted"))
    colors = {}
    for i, curve in enumerate(curves):
        name, color = str(curve.name), color_of(i, len(curves))
        colors[name] = color
        if curve.lower is not None and curve.upper is not None:
            x, low, high = limit_points(curve.coverage, curve.lower, curve.upper)
            band = {"x": x, "low": low, "high": high}
            series.append(Series(f"{name}: {100 * LEVEL:g} % interval", "band", band, color))
        for words, y, dash in (
            (name, curve.accuracy, "solid"),
            (f"{name}, expected", curve.expected, "dashed"),
        ):
            kind = "line" if len(curve.coverage) > 1 else "points"
            series.append(Series(words, kind, {"x": curve.coverage, "y": y}, color, dash))
    for told in answered:
        at = {"x": np.array([told.promise.coverage]), "y": np.array([told.promise.accuracy])}
        color = colors.get(told.name, "c2")
        series.append(Series(f"{told.name}: answered", "points", at, color))
    bottom = min([lowest_of(curves), *(1.0 - 1.05 * (1.0 - target) for target in targets)])
    last = curves[-1]
    (all_expected, observed, *_), (half, of_half, *_) = (_numbers(last, at) for at in (1.0, 0.5))
    surer = f"; of the surer half {shown(of_half)}, {shown(half)} expected"
    return Chart(
        "accuracy-over-coverage",
        "Accuracy over coverage",
        "coverage",
        "accuracy of the answers",
        tuple(series),
        f"Of all answers by {last.name} {shown(observed)} are right, {shown(all_expected)}"
        f" expected{'' if math.isnan(half) else surer}.",
        (-0.02, 1.02),
        (max(bottom, -0.02), 1.0 + 0.02 * (1.0 - bottom)),
    )


def _promise_table(promises: Sequence[Told]) -> Table:
    rows: list[Cells] = []
    for name, metric, promise in promises:
        low, high = promise.interval(1.0 - verdict.LEVEL)
        numbers = (promise.coverage, promise.expected, promise.accuracy, low, high)
        state = verdict.state_of(promise)
        rows.append((f"{metric} {promise.target:g}", name, *numbers, state))
    header = ("Promise", "By", "Share", "Expected", "Observed", "Low", "High", "Result")
    return Table("promises", "Promises", header, tuple(rows))


def _curve_table(curve: AccuracyCoverageCurve) -> Table:
    """Return a curve at coverages of at most 0.1, 0.2, …."""
    header = ("Coverage, at most", "Expected", "Observed", "Low", "High")
    coverages = np.linspace(0.1, 1.0, 10).tolist()
    rows: tuple[Cells, ...] = tuple((f"{at:.1f}", *_numbers(curve, at)) for at in coverages)
    return Table("coverage-numbers", "The curve with a band in numbers", header, rows)


def _numbers(curve: AccuracyCoverageCurve, coverage: float) -> tuple[float, ...]:
    """Return expected and observed accuracy, and the band, where at most a share is answered."""
    place = int(np.searchsorted(curve.coverage, coverage + 1e-9, side="right")) - 1
    lines = (curve.expected, curve.accuracy, curve.lower, curve.upper)
    return tuple(
        math.nan if place < 0 else float(line[place]) for line in lines if line is not None
    )
