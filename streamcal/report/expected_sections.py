"""The section of a report with metrics that are expected before all labels are there."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.metrics.expected import AnyExpected, Expected, Labelled, as_goal, expect
from streamcal.report.content import Section, Table
from streamcal.report.prometheus import Metric, gauge

LENGTH = 1_000
"""The number of rows that count: the last ones."""

LEVEL = 0.9
_THRESHOLD = 0.5
_Name = Literal["accuracy", "precision", "recall", "f1", "auc", "brier"]
_TITLES: dict[_Name, str] = {
    "accuracy": "Accuracy",
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1",
    "auc": "AUC",
    "brier": "Brier score",
}
_TOLD = ("f1", "auc")  # in the verdict

Vector = NDArray[np.float64]


class Latest(NamedTuple):
    """The last rows of a table, or the last decisions of a run: arrays of shape ``(n_rows,)``.

    ``p`` are calibrated probabilities, ``y`` labels, NaN where there is none yet, and ``chosen``
    the decisions. ``labelled`` are the same of the last rows that have a label, earlier ones too.
    ``rule`` says what a decision is; "" if it is the most probable of several labels, and ``y``
    whether that is right.
    """

    p: Vector
    y: Vector
    chosen: NDArray[np.bool_]
    labelled: Labelled
    rule: str = ""
    noun: str = "row"

    @property
    def metrics(self) -> list[_Name]:
        """The metrics that are shown."""
        return [*_TITLES] if self.rule else ["accuracy"]

    @property
    def n_known(self) -> int:
        """How many of the rows have a label."""
        return int((~np.isnan(self.y)).sum())

    @property
    def in_words(self) -> str:
        """Which rows these are."""
        n = len(self.y)
        return f"the last {n:,} {self.noun}{'s' if n != 1 else ''}"

    def expected(self, metric: AnyExpected, level: float = LEVEL) -> Expected:
        """Return the expectation of a metric of these rows, as that of `ExpectedMetric`."""
        return expect(self.p, self.y, self.chosen, as_goal(metric), level, labelled=self.labelled)


class Newest:
    """Collects the last rows of a table, of any length, by number or by time."""

    def __init__(self) -> None:
        self._rows = self._labelled = np.empty((0, 4))

    @property
    def n_rows(self) -> int:
        """How many rows there are, at most `LENGTH`."""
        return len(self._rows)

    def add(self, p: Vector, y: Vector, decisions: Vector, times: Vector | None = None) -> None:
        """Add rows; labels and decisions that are unknown are NaN."""
        new = np.column_stack([p, y, decisions, np.zeros(len(p)) if times is None else times])
        self._rows = _last(np.concatenate([self._rows, new]))
        self._labelled = _last(np.concatenate([self._labelled, new[~np.isnan(y)]]))

    def latest(self, name: str, column: str) -> Latest:
        """Return the rows; the names are of the column with ``p``, and of that with decisions."""
        p, y, decisions, _ = self._rows.T
        known_p, known_y, known_decisions, _ = self._labelled.T
        if np.isnan(decisions).any():
            return by_threshold(p, y, (known_p, known_y), name)
        rule = f"The predicted label is that of the column {column}."
        at_threshold = np.isnan(known_decisions) & (known_p >= _THRESHOLD)
        labelled = known_p, known_y, at_threshold | (known_decisions == 1.0)
        return Latest(p, y, decisions == 1.0, labelled, rule)

    def add_answers(
        self, probabilities: NDArray[np.float64], codes: Vector, times: Vector | None = None
    ) -> None:
        """Add rows with a probability of each of several labels; codes are places of labels."""
        right = np.where(np.isnan(codes), codes, probabilities.argmax(axis=1) == codes)
        self.add(probabilities.max(axis=1), right, np.ones(len(codes)), times)

    def latest_answers(self) -> Latest:
        """Return the rows, where ``p`` is of the most probable of several labels."""
        rows, labelled = (
            (p, y, np.ones(len(p), np.bool_)) for p, y, _, _ in (self._rows.T, self._labelled.T)
        )
        return Latest(*rows, labelled)


def by_threshold(
    p: Vector, y: Vector, labelled: tuple[Vector, Vector], name: str, noun: str = "row"
) -> Latest:
    """Return rows whose decisions depend on the probability, those of ``labelled`` rows too."""
    rule = f"The predicted label is 1 where {name} is at least {_THRESHOLD:g}."
    known_p, known_y = (column[-LENGTH:] for column in labelled)
    return Latest(p, y, p >= _THRESHOLD, (known_p, known_y, known_p >= _THRESHOLD), rule, noun)


def _last(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the last rows by their last column."""
    return rows[np.argsort(rows[:, -1], kind="stable")][-LENGTH:]


def of_latest(latest: Latest) -> Section:
    """Return the section of the last rows."""
    rows = tuple((_TITLES[metric], *latest.expected(metric)) for metric in latest.metrics)
    text = (
        f"{_begin(latest)} These are the metrics to expect of all of them: a known label counts as"
        " it is, a missing one by its probability. A metric lies between low and high with a"
        f" probability of {100 * LEVEL:g} %, if the calibrated probabilities are right. A sudden"
        " change of what labels mean is seen only when its labels come."
    )
    if latest.rule:
        text += f" {latest.rule}"
    header = ("Metric", "Expected", "Low", "High")
    table = Table("expected-metrics", "Metrics", header, rows)
    return Section("expected", "Expected metrics", text, (), (table,))


def verdict_of_latest(latest: Latest) -> str:
    """Return what is expected of the last rows, in a sentence.

    Examples
    --------
    >>> p, y = np.tile([0.2, 0.8], 50), np.repeat([0.0, 1.0, np.nan], [1, 1, 98])
    >>> known = np.repeat([0.2, 0.8], 500)
    >>> labels = 1.0 * (np.arange(1_000) % 5 < 5 * known)
    >>> print(verdict_of_latest(by_threshold(p, y, (known, labels), "p"))[38:])
    Expected for all, with 90 % intervals: F1 0.804 (0.731 to 0.872), AUC 0.806 (0.738 to 0.874).
    """
    told = [metric for metric in latest.metrics if metric in _TOLD] or latest.metrics
    found = []
    for metric in told:
        value, low, high = latest.expected(metric)
        found.append(f"{_TITLES[metric]} {value:.3f} ({low:.3f} to {high:.3f})")
    return (
        f"{_begin(latest)} Expected for all, with {100 * LEVEL:g} % intervals: {', '.join(found)}."
    )


def metrics_of_latest(latest: Latest) -> tuple[Metric, ...]:
    """Return the expectations for Prometheus, and how many of the rows have no label."""
    samples = tuple(
        ({"metric": metric, "bound": bound}, value)
        for metric in latest.metrics
        for bound, value in zip(("mean", "low", "high"), latest.expected(metric), strict=True)
    )
    n_unknown = len(latest.y) - latest.n_known
    text = f"Of the last {LENGTH:,} {latest.noun}s, those without a label."
    return (
        Metric("expected", "gauge", f"Metrics expected of the last {latest.noun}s.", samples),
        gauge("unlabelled", text, n_unknown),
    )


def _begin(latest: Latest) -> str:
    n, has = latest.n_known, "has" if latest.n_known == 1 else "have"
    return f"Of {latest.in_words}, {n:,} {has} a label."
