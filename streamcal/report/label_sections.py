"""The sections of a report about a table with a column of probabilities for each of its labels.

The predicted label is the one with the greatest probability. Whether it is right is an event with a
probability, as a label 0 or 1 of other tables; so is, for each label, that it is the true one.
"""

import math
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.isotonic.corp import decompose
from streamcal.metrics.corp import mean_score_of
from streamcal.metrics.log_loss import RULE, log_losses
from streamcal.plot.reliability_curve import ReliabilityCurve
from streamcal.report import verdict
from streamcal.report.content import Cells, Chart, Section, Series, Table, thin
from streamcal.report.key_sections import shorten
from streamcal.report.prometheus import Metric, loss_metrics
from streamcal.report.table_sections import (
    ECE_BINS,
    LEVEL,
    RESAMPLES,
    Scored,
    area_under_curve,
    expected_calibration_error,
    limit_points,
    miscalibration,
    over_time,
    reliability_section,
)

MAX_LABELS = 200
"""If there are more labels, the worst are in the table."""

_MOST_CURVES = 12
_NAME = "the predicted label"
_HEADER = (*("Label", "Rows", "Share of rows", "Mean probability"), *("ECE", "MCB (Brier)", "AUC"))

Vector = NDArray[np.float64]


class Answers(NamedTuple):
    """The labelled rows of a table, in order.

    Attributes
    ----------
    names : tuple of str
        The labels.
    probabilities : ndarray of shape (n_rows, n_labels)
        The probability of each.
    labels : ndarray of shape (n_rows,)
        The places of the true labels in ``names``.
    rows : ndarray of shape (n_rows,)
        The numbers of the rows, from 1.
    times, zone
        As those of `Scored`.
    """

    names: tuple[str, ...]
    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    rows: Vector
    times: Vector | None = None
    zone: str = ""

    @property
    def top(self) -> Scored:
        """The probability of the predicted label, and whether it is right."""
        p = self.probabilities.max(axis=1)
        right = self.probabilities.argmax(axis=1) == self.labels
        unknown = np.full(len(p), math.nan)
        hits = right.astype(np.float64)
        return Scored(unknown, p, hits, self.rows, self.times, self.zone)

    def of_label(self, place: int) -> tuple[Vector, Vector]:
        """Return the probability of a label, and whether it is the true one."""
        p = np.ascontiguousarray(self.probabilities[:, place])
        return p, (self.labels == place).astype(np.float64)

    @property
    def log_losses(self) -> Vector:
        """The log loss of each row: that of the probability of its true label."""
        p = self.probabilities[np.arange(len(self.labels)), self.labels]
        return np.asarray(log_losses(np.ones(len(p)), p))

    @property
    def shown(self) -> list[str]:
        """The names as a page shows them: shortened, and with the place if that makes two equal."""
        short = [shorten(name) for name in self.names]
        again = Counter(short)
        return [
            name if again[name] == 1 else f"{name} (label {place:,})"
            for place, name in enumerate(short, 1)
        ]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows have each label."""
        return np.bincount(self.labels, minlength=len(self.names))


def of_labels(answers: Answers, seed: int = 0) -> list[Section]:
    """Return the sections of a table with probabilities of several labels.

    Parameters
    ----------
    answers : Answers
        The rows; at least one.
    seed : int
        Seed of the resampling for bands and chance levels.
    """
    top = answers.top
    curve = _curve(top.labels, top.calibrated, _NAME, seed)
    parts = decompose(curve.staircase, mean_score_of(top.labels, top.calibrated, "brier"), "brier")
    shown = reliability_section({_NAME: curve}, {("brier", _NAME): parts})
    return [
        _scores(answers, tuple(map(float, parts))),
        replace(
            shown,
            title="Reliability of the predicted label",
            text="How often the label with the greatest probability is right, against this"
            f" probability. {shown.text}",
        ),
        _each_label(answers, seed),
        over_time(top, [_NAME], seed, losses={"all labels": answers.log_losses}),
    ]


def verdict_of_labels(answers: Answers) -> tuple[str, ...]:
    """Return the verdict in sentences.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> truth = random.dirichlet([2.0, 1.0, 1.0], 5000)
    >>> y = (random.random((5000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    >>> told = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    >>> names, rows = ("a", "b", "c"), np.arange(1.0, 5001.0)
    >>> first, top, each = verdict_of_labels(Answers(names, told, y, rows))
    >>> print(first[:53])
    The predicted label is right in 61 % of 5,000 rows; i
    >>> print(each[:40])
    3 of 3 labels are miscalibrated, most cl
    """
    top = answers.top
    n, right = len(top.labels), float(top.labels.mean())
    first = (
        f"The predicted label is right in {_percent(right)} of {n:,} rows; its mean probability is"
        f" {verdict.rounded(float(top.calibrated.mean()))}."
        f" Log loss {float(answers.log_losses.mean()):.4f}."
    )
    name = f"the probability of {_NAME}"
    words = verdict.reliability_in_words(name, top.calibrated, top.labels)
    evidence = verdict.evidence_in_words(name, top.calibrated, top.labels, top.place)
    return first, f"{words[0].upper()}{words[1:]} {evidence}", _each_in_words(answers)


def metrics_of_labels(answers: Answers) -> list[Metric]:
    """Return the numbers of a table for Prometheus."""
    losses = answers.log_losses
    return loss_metrics(len(losses), {"all labels": float(losses.sum())})


def classwise_error(answers: Answers) -> float:
    """Return the mean over labels of their expected calibration error, as `ECE` does."""
    errors = [
        expected_calibration_error(*answers.of_label(place)) for place in range(len(answers.names))
    ]
    return float(np.mean(errors))


def _each_in_words(answers: Answers) -> str:
    """Return which labels are clearly miscalibrated; the level is that of all labels together."""
    level, wrong = verdict.LEVEL / len(answers.names), []
    for place, name in enumerate(answers.shown):
        gaps = verdict.find_gaps(*answers.of_label(place), level=level)
        if gaps:
            wrong.append((max(gap.evidence for gap in gaps), name, place))
    if not wrong:
        return "No label by itself shows clear miscalibration over all rows together."
    _, name, place = max(wrong)
    words = verdict.reliability_in_words("its probability", *answers.of_label(place), level=level)
    return (
        f"{len(wrong):,} of {len(answers.names):,} labels {'is' if len(wrong) == 1 else 'are'}"
        f" miscalibrated, {'most clearly ' if len(wrong) > 1 else ''}{name}: {words}"
    )


def _scores(answers: Answers, parts: tuple[float, ...]) -> Section:
    top, p = answers.top, answers.probabilities
    hit = np.zeros_like(p)
    hit[np.arange(len(p)), answers.labels] = 1.0
    alone = [math.nan] * 3
    rows: tuple[Cells, ...] = (
        ("Accuracy", "predicted label", float(top.labels.mean()), *alone),
        ("Brier score", "predicted label", *parts),
        ("ECE", "predicted label", expected_calibration_error(top.calibrated, top.labels), *alone),
        ("ECE", "each label", classwise_error(answers), *alone),
        ("Brier score", "all labels", float(((p - hit) ** 2).sum(axis=1).mean()), *alone),
        ("log loss", "all labels", float(answers.log_losses.mean()), *alone),
    )
    header = ("Score", "About", "Mean", "= MCB", "− DSC", "+ UNC")
    text = (
        f"{len(p):,} rows with a label, {len(answers.names):,} labels; each row counts once. The"
        " predicted label is the one with the greatest probability. A mean score is the"
        " miscalibration (MCB, the gain by the best recalibration) minus the discrimination (DSC)"
        " plus the uncertainty of the labels (UNC). Less is better, but accuracy, the share of rows"
        f" in which the predicted label is right. In the log loss, {RULE}. The Brier score of all"
        f" labels is a sum over them. ECE is the expected calibration error over {ECE_BINS} bins of"
        " equal width: of the predicted label, and the mean of that of each label (classwise ECE)."
    )
    return Section("scores", "Scores", text, (), (Table("score-numbers", "Scores", header, rows),))


def _each_label(answers: Answers, seed: int) -> Section:
    n, rows = len(answers.labels), []
    for place, name in enumerate(answers.shown):
        p, y = answers.of_label(place)
        errors = (expected_calibration_error(p, y), miscalibration(p, y), area_under_curve(p, y))
        count = int(y.sum())
        rows.append((name, count, count / n, float(p.mean()), *errors))
    rows.sort(key=lambda row: -float(row[4]))
    common = np.argsort(-answers.counts, kind="stable")[:_MOST_CURVES].tolist()
    text = (
        "Each label against all others, the label with the greatest ECE first. Its probability"
        " should be its share of the rows on average. AUC, the area under the ROC curve, is 1 if"
        " all rows with the label have a greater probability of it than all others."
    )
    if len(rows) > MAX_LABELS:
        text += f" Of {len(rows):,} labels, the {MAX_LABELS} worst are shown."
    if len(rows) > _MOST_CURVES:
        text += f" The chart has the {_MOST_CURVES} most frequent labels."
    table = Table(
        *("label-scores", "Scores by label", _HEADER),
        rows=tuple(rows[:MAX_LABELS]),
        sortable=len(rows) > 1,
    )
    return Section("labels", "Labels", text, (_curves_of_labels(answers, common, seed),), (table,))


def _curves_of_labels(answers: Answers, places: list[int], seed: int) -> Chart:
    """Return a chart with a chooser of labels."""
    ends = np.array([0.0, 1.0])
    series = [Series("perfectly calibrated", "line", {"x": ends, "y": ends}, "muted", "dashed")]
    names = answers.shown
    for place in places:
        p, y = answers.of_label(place)
        name = names[place]
        curve = _curve(y, p, name, seed)
        if curve.band is not None:
            x, low, high = limit_points(*curve.band)
            columns = {"x": x, "low": low, "high": high}
            label = f"{100 * LEVEL:g} % band if calibrated"
            series.append(Series(label, "band", columns, "c1", choice=name))
        x, y = thin(*curve.points())
        series.append(Series(name, "line", {"x": x, "y": y}, "c1", choice=name))
    return Chart(
        "label-reliability",
        "Reliability of each label",
        "predicted probability",
        "observed frequency",
        tuple(series),
        "Isotonic regression of whether a label is the true one on its probability.",
        (-0.02, 1.02),
        (-0.02, 1.02),
        square=True,
        chooser="Label",
    )


def _curve(y: Vector, p: Vector, name: str, seed: int) -> ReliabilityCurve:
    return ReliabilityCurve.from_predictions(
        y == 1.0, p, name=name, level=LEVEL, n_resamples=RESAMPLES, seed=seed
    )


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.0f} %" if 1.0 <= percent <= 99.0 else f"{percent:.3g} %"
