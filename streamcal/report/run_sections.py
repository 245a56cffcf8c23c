"""The parts of a report about a store of `streamcal.durable.run`, for a person on call."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streamcal._state import decode
from streamcal.calibration.audited import AuditedCalibrator
from streamcal.durable.events import AUDITS
from streamcal.durable.keys import PREFIX
from streamcal.durable.labels import JOIN, LabelJoin
from streamcal.durable.store import Store
from streamcal.durable.timeline import LENGTH, RECENT, TIMELINE, Periods, Timeline
from streamcal.metrics.log_loss import RULE
from streamcal.report import verdict
from streamcal.report.content import Cells, Chart, Section, Series, Table, moment, shown
from streamcal.report.coverage_sections import (
    Column,
    Targets,
    Told,
    column_of,
    of_coverage,
    promises_of,
    verdict_of_promises,
)
from streamcal.report.expected_sections import (
    Latest,
    by_threshold,
    metrics_of_latest,
    of_latest,
    verdict_of_latest,
)
from streamcal.report.prometheus import Metric, counter, exposition, gauge, loss_metrics
from streamcal.report.table_sections import Scored, of_sample

RAW, CALIBRATED = "score", "calibrated"
"""The names of the two columns."""


class Run:
    """A run of a store, or what is known of it.

    Parameters
    ----------
    store : Store

    Attributes
    ----------
    offset : int
        How many events are learned.
    timeline : Timeline or None
        None in stores that `streamcal.durable.run` has not written.
    join : LabelJoin or None
        None in a run without late labels.
    has_propensities : bool
        Whether only some labels are asked for, with known propensities.
    """

    def __init__(self, store: Store) -> None:
        self.offset: int = store.offset
        self.timeline: Timeline | None = _read(store, TIMELINE, Timeline)
        self.join: LabelJoin | None = _read(store, JOIN, LabelJoin)
        self.has_propensities = AUDITS in store or _first_kind(store) == AuditedCalibrator.__name__

    @property
    def lag(self) -> int | None:
        """How many events the source had beyond the offset; None if that is unknown."""
        if self.timeline is None or self.timeline.end is None:
            return None
        return max(self.timeline.end - self.offset, 0)

    @property
    def recent(self) -> Scored | None:
        """The last labelled samples; None if a label is no 0 or 1, or a value no probability."""
        if self.timeline is None or not len(self.timeline.recent):
            return None
        raw, calibrated, y = self.timeline.recent.T
        if not (np.isin(y, (0.0, 1.0)) & (calibrated >= 0.0) & (calibrated <= 1.0)).all():
            return None
        return Scored(raw, calibrated, y, np.arange(1.0, len(y) + 1.0))

    @property
    def latest(self) -> Latest | None:
        """The last decisions; None if labels never wait, or as for `recent`."""
        if self.timeline is None or not len(self.timeline.decisions):
            return None
        _, p, y = self.timeline.decisions.T
        is_known = ~np.isnan(y)
        if self.join is None and is_known.all():
            return None
        if not (np.isin(y[is_known], (0.0, 1.0)).all() and ((p >= 0.0) & (p <= 1.0)).all()):
            return None
        recent = self.recent
        none = np.empty(0), np.empty(0)
        labelled = none if recent is None else (recent.calibrated, recent.labels)
        return by_threshold(p, y, labelled, CALIBRATED, "decision")

    def promises(self, targets: Targets) -> list[Told]:
        """Return what is promised for the last labelled samples; nothing without any."""
        return [] if self.recent is None else promises_of(_columns(self.recent), targets)


def _columns(recent: Scored) -> list[Column]:
    """Return what may answer: the scores, if they are probabilities, and the calibrated values."""
    told = [column_of(CALIBRATED, recent.calibrated, recent.labels)]
    return [column_of(RAW, recent.raw, recent.labels), *told] if recent.comparable else told


def _read(store: Store, name: str, kind: type[Any]) -> Any:
    """Return a state of a run; None if there is none, or if it is the user's own."""
    if name not in store:
        return None
    data = store.get_bytes(name)
    return kind.from_bytes(data) if decode(data).kind == kind.__name__ else None


def _first_kind(store: Store) -> str | None:
    """Return the kind of a run's calibrators; None before any of them has learned."""
    key = store.first_key(PREFIX)
    return None if key is None else decode(store.get_bytes(key)).kind


def of_run(run: Run, promises: Sequence[Told] = ()) -> list[Section]:
    """Return the sections of a run: its state now, losses over time, recent reliability."""
    if run.timeline is None:
        return []
    sections = [_status(run), *_over_time(run.timeline.periods())]
    if (latest := run.latest) is not None:
        sections.append(of_latest(latest))
    if (recent := run.recent) is not None:
        n = f"Of the last {len(recent.labels):,} labelled events. "
        scores, reliability = of_sample(recent, RAW, CALIBRATED)
        coverage = of_coverage(_columns(recent), promises, "event")
        for part in (reliability, scores, coverage):
            title = f"Recent {part.title.lower()}"  # the same for any n: the page is updated
            sections.append(replace(part, title=title, text=n + part.text))
    return sections


def verdict_of_run(run: Run, promises: Sequence[Told] = ()) -> tuple[str, ...]:
    """Return the verdict on a run in sentences, alarms first."""
    if run.timeline is None:
        return ()
    sentences = [f"Alarm: {alarm.text}." for alarm in alarms_of(run) if alarm.is_on]
    if run.has_propensities:
        sentences.append(
            "Only some decisions have a label, and each label counts once here: losses, curves and"
            " promises are of these decisions, not of all."
        )
    if gain := _gain(run.timeline):
        losses = _losses_in_words(run.timeline.periods())
        sentences.append(f"{losses} {verdict.gain_in_words(gain)}")
    if (recent := run.recent) is not None:
        sentences.append(
            f"Of the last {len(recent.labels):,} labelled events: "
            + verdict.reliability_in_words(CALIBRATED, recent.calibrated, recent.labels)
        )
        of = f"the last {len(recent.labels):,} labelled events"
        sentences += verdict_of_promises(promises, of)
    if (latest := run.latest) is not None:
        sentences.append(verdict_of_latest(latest))
    return tuple(sentences)


def _losses_in_words(periods: Periods) -> str:
    """Return a sentence about the log losses of a run, of which there must be one."""
    before, after = periods.raw / periods.n, periods.calibrated / periods.n
    n = float(periods.n.sum())
    means = verdict.change(float(periods.raw.sum()) / n, float(periods.calibrated.sum()) / n)
    return f"Log loss {means}{verdict.periods_in_words(before, after)}."


def _gain(timeline: Timeline) -> verdict.Gain | None:
    """Return the gain by calibration; None if a score was no probability, or a label not 0 or 1."""
    if math.isnan(float(timeline.periods().raw.sum())):
        return None
    return verdict.gain_of(timeline.comparison)


class Alarm(NamedTuple):
    """Something that a person should look at; ``is_on`` is None if it is not known."""

    name: str
    is_on: bool | None
    text: str


def alarms_of(run: Run) -> list[Alarm]:
    """Return all alarms, on or not."""
    worse = lost = None
    text = f"the calibrated values of the last {RECENT:,} labels were not right"
    if (recent := run.recent) is not None and recent.comparable:
        worse = verdict.compare(recent.raw, recent.calibrated, recent.labels).high < 0.0
    if run.timeline is not None and run.timeline.watches:
        alarm = run.timeline.alarm
        lost = alarm is not None and run.timeline.n_labels - alarm.label < RECENT
        if lost and alarm is not None:
            text = (
                f"since about label {alarm.since:,} of {run.timeline.n_labels:,} the calibrated"
                f" values are not right ({alarm.in_words}): see what has changed"
            )
    return [
        Alarm("worse", worse, f"calibration raises the Brier score of the last {RECENT:,} labels"),
        Alarm("calibration", lost, text),
    ]


def _status(run: Run) -> Section:
    """Return counts of events and labels, and the alarms."""
    assert run.timeline is not None
    rows: list[Cells] = [
        ("events learned", run.offset),
        ("events of the source that are not learned yet", math.nan if run.lag is None else run.lag),
        ("labels in the log loss", int(run.timeline.periods().n.sum())),
    ]
    if run.join is not None:
        rows += [
            ("scores and labels that wait for each other", run.join.n_waiting),
            ("pairs joined", run.join.n_joined),
            ("dropped after the horizon", run.join.n_expired),
            ("dropped as duplicates", run.join.n_duplicates),
        ]
    states = {None: "unknown", False: "off", True: "ON"}
    alarms = tuple((alarm.name, states[alarm.is_on], alarm.text) for alarm in alarms_of(run))
    tables = (
        Table("status-numbers", "Events", ("Count", "Now"), tuple(rows)),
        Table("alarms", "Alarms", ("Alarm", "State", "Meaning"), alarms),
    )
    text = "The state of the run at its last commit."
    return Section("status", "Status", text, (), tables)


def _over_time(periods: Periods) -> list[Section]:
    """Return the log losses of the periods."""
    if not len(periods.n):
        return []
    timed = len(np.unique(periods.times)) == len(periods.times)
    x = 1000.0 * periods.times if timed else periods.ends
    losses = {RAW: periods.raw / periods.n, CALIBRATED: periods.calibrated / periods.n}
    series = [
        Series(name, "line" if len(x) > 1 else "points", {"x": x, "y": y}, f"c{i}")
        for i, (name, y) in enumerate(losses.items())
    ]
    last = ", ".join(f"{name} {shown(float(loss[-1]))}" for name, loss in losses.items())
    chart = Chart(
        "loss-of-run",
        "Log loss over time",
        "time" if timed else "event",
        "log loss",
        tuple(series),
        f"Mean log loss in {len(x)} periods; in the last one {last}. {RULE.capitalize()}.",
    )
    rows: tuple[Cells, ...] = tuple(
        (int(end), moment(time), int(n), float(ones / n), float(raw / n), float(calibrated / n))
        for end, time, n, ones, raw, calibrated in zip(*periods, strict=True)
    )
    header = ("Up to event", "Learned at", "Labels", "Labels 1", RAW, CALIBRATED)
    table = Table("periods", "The periods in numbers", header, rows)
    text = (
        f"A period has {LENGTH} labels when it is new; old ones are merged. A label counts when it"
        " is learned, with the calibrated value that was served."
    )
    return [Section("run-over-time", "Over time", text, (chart,), (table,))]


def metrics_of_run(run: Run) -> tuple[Metric, ...]:
    """Return the numbers of a run for Prometheus."""
    metrics = [counter("events", "Events learned.", run.offset)]
    if run.lag is not None:
        metrics.append(gauge("lag_events", "Events of the source not learned yet.", run.lag))
    if run.join is not None:
        metrics += [
            gauge("waiting", "Scores and labels that wait for each other.", run.join.n_waiting),
            counter("joined", "Pairs of a score and a late label.", run.join.n_joined),
            counter("expired", "Scores and labels dropped after the horizon.", run.join.n_expired),
            counter("duplicates", "Events dropped as duplicates.", run.join.n_duplicates),
        ]
    if run.timeline is None:
        return tuple(metrics)
    periods = run.timeline.periods()
    metrics += loss_metrics(
        periods.n.sum(), {RAW: periods.raw.sum(), CALIBRATED: periods.calibrated.sum()}
    )
    metrics.append(
        counter("calibration_alarms", "Alarms of the calibrated values.", run.timeline.n_alarms)
    )
    if gain := _gain(run.timeline):
        text = "By how much the Brier score is lower after calibration, and bounds on it."
        samples = tuple(({"bound": name}, value) for name, value in gain._asdict().items())
        metrics.append(Metric("brier_gain", "gauge", text, samples))
    if (latest := run.latest) is not None:
        metrics += metrics_of_latest(latest)
    on = [({"name": a.name}, float(a.is_on)) for a in alarms_of(run) if a.is_on is not None]
    metrics.append(Metric("alarm", "gauge", "1 while an alarm is on.", tuple(on)))
    if run.timeline.updated is not None:
        text = "When the store was last saved, in seconds since 1970."
        metrics.append(gauge("last_update_seconds", text, run.timeline.updated))
    return tuple(metrics)


def prometheus_text(store: Store) -> str:
    """Return the numbers of a run in the text format of Prometheus, as `watch` has them.

    Parameters
    ----------
    store : Store
        What `streamcal.durable.run` saves to. Inside `Store.reading` all numbers are of one commit.

    Returns
    -------
    str
        The body of an answer; its media type is ``text/plain``.

    Raises
    ------
    TypeError
        If it is no store.
    StoreError
        If it can't be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from streamcal import IsotonicCalibrator
    >>> from streamcal.durable import Store, run
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store(pathlib.Path(folder.name, "run.db")) as store:
    ...     end = run([(0.2, 0), (0.9, 1)], IsotonicCalibrator(), lambda at, p: None, store)
    ...     print(prometheus_text(store))
    # HELP streamcal_events_total Events learned.
    # TYPE streamcal_events_total counter
    streamcal_events_total 2.0
    ...
    >>> folder.cleanup()
    """
    if not isinstance(store, Store):
        raise TypeError(f"`store` must be a Store, got {store!r}")
    return exposition(metrics_of_run(Run(store)))
