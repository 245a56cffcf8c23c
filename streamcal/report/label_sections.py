"""The sections of a report about a table with a column of probabilities for each of its labels.

The predicted label is the one with the greatest probability. Whether it is right is an event with a
probability, as a label 0 or 1 of other tables; so is, for each label, that it is the true one.
Before calibration another label may be the predicted one.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.isotonic.corp import decompose
from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.metrics.corp import mean_score_of
from streamcal.metrics.log_loss import RULE, log_losses
from streamcal.plot.reliability_curve import ReliabilityCurve
from streamcal.report import verdict
from streamcal.report.content import Cells, Chart, Section, Series, Table, shown, thin
from streamcal.report.coverage_sections import Column, Targets, Told, of_coverage, promises_of
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
    total,
)

MAX_LABELS = 200
"""If there are more labels, the worst are in the table."""

MOST_PANELS = 12
"""If there are more labels, those with the most rows are drawn."""

_NAME = "the predicted label"
_ARROW = " \N{RIGHTWARDS ARROW} "
_BOTH = (" before", " after")  # calibration: what names end with
_HEADER = (*("Label", "Rows", "Share of rows", "Mean probability"), *("ECE", "MCB (Brier)", "AUC"))
_SPLIT, _MCB = ("Brier score", "predicted label"), ("MCB", "predicted label")
_HEADER_OF_BOTH = (
    *("Label", "Rows", "Share of rows", "ECE before", "ECE after"),
    *("MCB (Brier) before", "MCB (Brier) after"),
)

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
    before : ndarray of shape (n_rows, n_labels), or None
        The probability of each label before calibration.
    weights : ndarray of shape (n_rows,), or None
        As those of `Scored`.
    """

    names: tuple[str, ...]
    probabilities: NDArray[np.float64]
    labels: NDArray[np.int64]
    rows: Vector
    times: Vector | None = None
    zone: str = ""
    before: NDArray[np.float64] | None = None
    weights: Vector | None = None

    @property
    def parts(self) -> dict[str, "Answers"]:
        """What is compared, by the end of a name: itself, or it before and after calibration."""
        if self.before is None:
            return {"": self}
        both = (self.before, self.probabilities)
        return {
            when: self._replace(probabilities=p, before=None)
            for when, p in zip(_BOTH, both, strict=True)
        }

    @property
    def top(self) -> Scored:
        """The probability of the predicted label, and whether it is right."""
        p = self.probabilities.max(axis=1)
        right = self.probabilities.argmax(axis=1) == self.labels
        before = np.full(len(p), math.nan) if self.before is None else self.before.max(axis=1)
        hits = right.astype(np.float64)
        return Scored(before, p, hits, self.rows, self.times, self.zone, weights=self.weights)

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
    def brier_scores(self) -> NDArray[np.float64]:
        """The sum over labels of the Brier score of each row, for each label that may be true."""
        p = self.probabilities
        return np.asarray((p**2).sum(axis=1, keepdims=True) - 2.0 * p + 1.0)

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


def of_labels(answers: Answers, promises: Sequence[Told] = (), seed: int = 0) -> list[Section]:
    """Return the sections of a table with probabilities of several labels.

    Parameters
    ----------
    answers : Answers
        The rows; at least one.
    promises : sequence of Told
        Those of `promises_of_labels`.
    seed : int
        Seed of the resampling for bands and chance levels.
    """
    tops = {f"{_NAME}{when}": each.top for when, each in answers.parts.items()}
    w = answers.weights
    curves = {name: _curve(top.labels, top.calibrated, name, seed, w) for name, top in tops.items()}
    parts = {
        ("brier", name): decompose(
            curves[name].staircase, mean_score_of(top.labels, top.calibrated, "brier", w), "brier"
        )
        for name, top in tops.items()
    }
    reliability = reliability_section(curves, parts)
    return [
        _scores(answers, [tuple(map(float, each)) for each in parts.values()]),
        replace(
            reliability,
            title="Reliability of the predicted label",
            text="How often the label with the greatest probability is right, against this"
            f" probability. {reliability.text}",
        ),
        of_coverage(_columns(answers), promises),
        _each_label(answers, seed),
        over_time(
            answers.top,
            list(tops),
            seed,
            losses={f"all labels{w}": each.log_losses for w, each in answers.parts.items()},
            labels=[top.labels for top in tops.values()],
        ),
    ]


def promises_of_labels(answers: Answers, targets: Targets) -> list[Told]:
    """Return promises about the accuracy of predicted labels."""
    return promises_of(_columns(answers), targets)


def _columns(answers: Answers) -> list[Column]:
    """Return what may answer: the probabilities, or those before and after calibration."""
    return [
        Column(f"the probabilities{when}", top.labels, top.calibrated, None, top.weights)
        for when, top in ((when, each.top) for when, each in answers.parts.items())
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
    tops = {when: each.top for when, each in answers.parts.items()}
    w, rows = answers.weights, f"{len(answers.labels):,} rows"
    shares = [_percent(top.mean(top.labels)) for top in tops.values()]
    means = verdict.rounded_alike(*(top.mean(top.calibrated) for top in tops.values()))
    if w is not None:
        rows = "all rows"
    if answers.before is None:
        loss = answers.top.mean(answers.log_losses)
        sentences = [
            f"The predicted label is right in {shares[0]} of {rows}; its mean probability is"
            f" {means[0]}. Log loss {loss:.4f}."
        ]
    else:
        periods = None if answers.times is None else answers.top.periods()
        before, after = answers.parts.values()
        change = verdict.losses_in_words(before.log_losses, after.log_losses, periods, w=w)
        sentences = [
            f"{change} {verdict.gain_in_words(_gain(before, after))}",
            f"The predicted label is right in {_ARROW.join(shares)} of {rows}; its mean"
            f" probability is {_ARROW.join(means)}.",
        ]
    for when, top in tops.items():
        name = f"the probability of {_NAME}{when and when + ' calibration'}"
        words = verdict.reliability_in_words(name, top.calibrated, top.labels, w=w)
        evidence = verdict.evidence_in_words(name, top.calibrated, top.labels, top.place)
        sentences.append(f"{words[0].upper()}{words[1:]} {evidence}")
    if w is not None:
        sentences.insert(0, verdict.weights_in_words(w))
    return (*sentences, _each_in_words(answers))


def metrics_of_labels(answers: Answers) -> list[Metric]:
    """Return the numbers of a table for Prometheus."""
    parts, w = answers.parts.items(), answers.weights
    sums = {f"all labels{when}": total(each.log_losses, w) for when, each in parts}
    n = len(answers.labels) if w is None else float(w.sum())
    return loss_metrics(n, sums, weighted=w is not None)


def classwise_error(answers: Answers) -> float:
    """Return the mean over labels of their expected calibration error, as `ECE` does."""
    errors = [
        expected_calibration_error(*answers.of_label(place), answers.weights)
        for place in range(len(answers.names))
    ]
    return float(np.mean(errors))


def _gain(before: Answers, after: Answers) -> verdict.Gain:
    """Return by how much the Brier score of all labels is lower after calibration.

    The difference of two scores depends on the true label; its range is known before.
    """
    differences = before.brier_scores - after.brier_scores
    told = differences[np.arange(len(after.labels)), after.labels]
    if after.weights is not None:
        most = float(np.abs(differences).max())
        return verdict.estimated_gain(told, after.weights, most, 2.0)
    bounds = MeanBounds()
    ranges = (told, differences.min(axis=1), differences.max(axis=1))
    for x, low, high in zip(*(each.tolist() for each in ranges), strict=True):
        bounds.add(x, low, high, 1.0)
    low, high = bounds.interval(verdict.LEVEL)
    return verdict.Gain(float(told.mean()), max(low, -2.0), min(high, 2.0))


def _each_in_words(answers: Answers) -> str:
    """Return which labels are clearly miscalibrated; the level is that of all labels together."""
    wrong, earlier, n = _wrong(answers), "", len(answers.names)
    if answers.before is not None:
        before = next(iter(answers.parts.values()))
        earlier = f" Before calibration {len(_wrong(before)):,} of {n:,} labels did."
    if not wrong:
        return f"No label by itself shows clear miscalibration over all rows together.{earlier}"
    _, name, place = max(wrong)
    level = verdict.LEVEL / len(answers.names)
    words = verdict.reliability_in_words(
        "its probability", *answers.of_label(place), level=level, w=answers.weights
    )
    return (
        f"{len(wrong):,} of {n:,} labels {'is' if len(wrong) == 1 else 'are'} miscalibrated,"
        f" {'most clearly ' if len(wrong) > 1 else ''}{name}: {words}"
        f"{earlier.replace('did', 'were')}"
    )


def _wrong(answers: Answers) -> list[tuple[float, str, int]]:
    """Return evidence, name and place of the labels that are clearly miscalibrated."""
    level, wrong = verdict.LEVEL / len(answers.names), []
    for place, name in enumerate(answers.shown):
        gaps = verdict.find_gaps(*answers.of_label(place), level=level)
        if gaps:
            wrong.append((max(gap.evidence for gap in gaps), name, place))
    return wrong


def _scores(answers: Answers, parts: list[tuple[float, ...]]) -> Section:
    columns = [
        _numbers(each, split) for each, split in zip(answers.parts.values(), parts, strict=True)
    ]
    n = len(answers.labels)
    if answers.before is None:
        (alone,) = columns
        header: tuple[str, ...] = ("Score", "About", "Mean", "= MCB", "− DSC", "+ UNC")
        rows: list[Cells] = [
            (*name, value, *(parts[0][1:] if name == _SPLIT else [math.nan] * 3))
            for name, value in alone.items()
            if name != _MCB
        ]
        split = (
            "A mean score is the miscalibration (MCB, the gain by the best recalibration) minus the"
            " discrimination (DSC) plus the uncertainty of the labels (UNC)."
        )
    else:
        header = ("Score", "About", "Before", "After")
        rows = [(*name, *(column[name] for column in columns)) for name in columns[0]]
        split = "MCB, the miscalibration in the Brier score, is the gain by the best recalibration."
    counts = "each row counts once." if answers.weights is None else verdict.WEIGHTS
    text = (
        f"{n:,} rows with a label, {len(answers.names):,} labels; {counts} The"
        f" predicted label is the one with the greatest probability. {split}"
        " Less is better, but accuracy, the share of rows"
        f" in which the predicted label is right. In the log loss, {RULE}. The Brier score of all"
        f" labels is a sum over them. ECE is the expected calibration error over {ECE_BINS} bins of"
        " equal width: of the predicted label, and the mean of that of each label (classwise ECE)."
    )
    table = Table("score-numbers", "Scores", header, tuple(rows))
    return Section("scores", "Scores", text, (), (table,))


def _numbers(answers: Answers, parts: tuple[float, ...]) -> dict[tuple[str, str], float]:
    """Return the mean scores, by name and what they are about; ``parts`` are of `_SPLIT`."""
    top = answers.top
    told = answers.brier_scores[np.arange(len(answers.labels)), answers.labels]
    error = expected_calibration_error(top.calibrated, top.labels, top.weights)
    return {
        ("Accuracy", "predicted label"): top.mean(top.labels),
        _SPLIT: parts[0],
        _MCB: parts[1],
        ("ECE", "predicted label"): error,
        ("ECE", "each label"): classwise_error(answers),
        ("Brier score", "all labels"): top.mean(told),
        ("log loss", "all labels"): top.mean(answers.log_losses),
    }


def _each_label(answers: Answers, seed: int) -> Section:
    w, top, rows = answers.weights, answers.top, []
    for place, name in enumerate(answers.shown):
        p, y = answers.of_label(place)
        count, error, mcb = (
            int(y.sum()),
            expected_calibration_error(p, y, w),
            miscalibration(p, y, w),
        )
        if answers.before is None:
            cells = (top.mean(p), error, mcb, area_under_curve(p, y, w))
        else:
            earlier = np.ascontiguousarray(answers.before[:, place])
            error_before = expected_calibration_error(earlier, y, w)
            cells = (error_before, error, miscalibration(earlier, y, w), mcb)
        rows.append((name, count, top.mean(y), *cells))
    rows.sort(key=lambda row: -row[4])
    if answers.before is None:
        header, text = (
            _HEADER,
            "Each label against all others; in the table, the label with the greatest ECE is first."
            " The mean probability of a label should be its share of the rows. AUC, the area under"
            " the ROC curve, is 1 if all rows with the label have a greater probability of it than"
            " all others.",
        )
    else:
        header, text = (
            _HEADER_OF_BOTH,
            "Each label against all others, before and after calibration. In the table, the label"
            " with the greatest ECE after calibration is first.",
        )
    if len(rows) > MAX_LABELS:
        text += f" Of {len(rows):,} labels, the {MAX_LABELS} worst are shown."
    text += (
        " A panel shows the isotonic regression of whether a label is the true one on its"
        " probability."
    )
    left_out = len(rows) - MOST_PANELS
    if left_out > 0:
        text += (
            f" There are panels of the {MOST_PANELS} labels with the most rows; {left_out:,}"
            f" {'is' if left_out == 1 else 'are'} left out."
        )
    table = Table(
        *("label-scores", "Scores by label", header),
        rows=tuple(rows[:MAX_LABELS]),
        sortable=len(rows) > 1,
    )
    return Section("labels", "Labels", text, _panels(answers, seed), (table,))


def _panels(answers: Answers, seed: int) -> tuple[Chart, ...]:
    """Return a small chart of each of the labels with the most rows."""
    most = np.argsort(-answers.counts, kind="stable")[:MOST_PANELS]
    # In an order that stays when frequencies change: otherwise a live page is loaded again.
    return tuple(_panel(answers, place, seed) for place in sorted(most.tolist()))


def _panel(answers: Answers, place: int, seed: int) -> Chart:
    ends = np.array([0.0, 1.0])
    series = [Series("perfectly calibrated", "line", {"x": ends, "y": ends}, "muted", "dashed")]
    mcbs = []
    for when, each in answers.parts.items():
        p, y = each.of_label(place)
        is_before = when == _BOTH[0]
        mcbs.append(shown(miscalibration(p, y, answers.weights)))
        color, words = "c0" if is_before else "c1", when.strip()
        curve = _curve(y, p, answers.shown[place], seed, answers.weights)
        if curve.band is not None:
            x, low, high = limit_points(*curve.band)
            columns = {"x": x, "low": low, "high": high}
            label = f"{words}{words and ': '}{100 * LEVEL:g} % band if calibrated"
            series.append(Series(label, "band", columns, color, hatched=is_before))
        x, y = thin(*curve.points())
        series.append(Series(words or "the label", "line", {"x": x, "y": y}, color))
    share = answers.top.mean((answers.labels == place).astype(np.float64))
    return Chart(
        f"label-{place}",
        answers.shown[place],
        "predicted",
        "observed",
        tuple(series),
        f"{_percent(share)} of rows; MCB\N{NO-BREAK SPACE}{_ARROW.join(mcbs)}",
        (-0.02, 1.02),
        (-0.02, 1.02),
        panel=True,
    )


def _curve(y: Vector, p: Vector, name: str, seed: int, w: Vector | None) -> ReliabilityCurve:
    return ReliabilityCurve.from_predictions(
        y == 1.0, p, name=name, level=LEVEL, n_resamples=RESAMPLES, seed=seed, w=w
    )


def _percent(share: float) -> str:
    percent = 100.0 * share
    return f"{percent:.0f} %" if 1.0 <= percent <= 99.0 else f"{percent:.3g} %"
