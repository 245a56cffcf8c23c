"""The events of `run`: how they are read, checked, predicted and learned."""

import math
import os
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._advice import about_number, shown
from streamcal._validation import as_vector, as_within
from streamcal.calibration.tickets import Prediction
from streamcal.durable.errors import StoreError, errors_of_waiting
from streamcal.durable.fields import pack_fields
from streamcal.durable.keyed import KeyedCalibrator, Samples, Vector
from streamcal.durable.keys import error_of_key, name_of
from streamcal.durable.labels import JOIN, Event, LabelJoin
from streamcal.durable.store import Store
from streamcal.durable.timeline import TIMELINE, Timeline

if TYPE_CHECKING:
    from streamcal.monitoring.audits import AuditSampler

AUDITS = "audits"
"""The name of a run's sampler among the states of its store."""


class Events:
    """A source of events as one of batches, with what a run keeps of them.

    These are the join, the timeline, and the sampler of audits.
    """

    def __init__(
        self,
        source: Any,
        read: Callable[[int, int], Any],
        keyed: KeyedCalibrator,
        join: LabelJoin | None,
        store: Store | None,
        sampler: "AuditSampler | None" = None,
    ) -> None:
        self._source, self._read = source, read
        self._keyed, self.join, self.sampler = keyed, join, sampler
        self.path = None if store is None else store.path
        if store is not None and hasattr(source, "__len__") and len(source) < store.offset:
            raise ValueError(
                f"`source` must begin with the {store.offset:,} events that {store.path} has"
                f" learned, got {len(source):,} events"
            )
        self.timeline = Timeline()
        self._unseen = set(keyed.fields)  # the fields that no event has had yet
        self._n_without = 0  # events
        self.n_unasked = 0  # labels that came, but were neither asked for nor learned
        if store is not None and TIMELINE in store:
            self.timeline = Timeline.from_bytes(store.get_bytes(TIMELINE))

    def read_batch(self, offset: int, n: int) -> "EventBatch | None":
        """Return up to ``n`` events from an offset on, checked; None if there are no more."""
        rows = list(self._read(offset, n))
        if not rows:
            self._warn_of_unseen()
            self._warn_of_unasked()
            return None
        rules = _Rules(self._keyed, self.join, self.sampler)
        given = _check(rows, rules, lambda at: self._where(offset + at))
        self._look_for_fields(rows)
        return EventBatch(self, offset, *given)

    def _look_for_fields(self, rows: list[Any]) -> None:
        """Note which fields there are."""
        for row in rows:
            if not self._unseen:
                break
            x = Event(*row).x
            if x is not None:
                self._unseen.difference_update(x)
                self._n_without += 1

    def _warn_of_unseen(self) -> None:
        """Warn of fields that no event has had: probably their names are wrong."""
        if self._unseen and self._n_without:
            names = ", ".join(map(repr, sorted(self._unseen)))
            warnings.warn(
                f"`calibrator` has the field {names}, which is in `x` of none of the"
                f" {self._n_without:,} events of this run",
                stacklevel=6,  # the caller of `run`
            )

    def _warn_of_unasked(self) -> None:
        """Warn of labels that came for a reason that the sampler does not know."""
        if self.n_unasked:
            warnings.warn(
                f"{self.n_unasked:,} labels were not learned: `sampler` had not asked for them, so"
                " the probability with which they came is not known; for decisions that are always"
                " labelled, write Event(..., propensity=1.0)",
                stacklevel=6,  # the caller of `run`
            )

    def _where(self, offset: int) -> str:
        """Return which event is the one at an offset, for a message."""
        where = getattr(self._source, "where", None)
        # A data frame has a `where` of its own.
        if callable(where) and hasattr(self._source, "read"):
            return str(where(offset))
        return f"event {offset}"

    def states(self) -> dict[str, Any]:
        """Return what is to be saved with the calibrators."""
        self.timeline.updated, self.timeline.end = time.time(), _end_of(self._source)
        states: dict[str, Any] = {} if self.join is None else {JOIN: self.join}
        if self.sampler is not None:
            states[AUDITS] = self.sampler
        return {**states, TIMELINE: self.timeline}


class EventBatch:
    """Consecutive events that were checked.

    Attributes
    ----------
    is_audited : bool
        Whether there is a sampler.
    asked : ndarray of shape (n_events,), bool
        Which labels the sampler asks for; known after `predict_learn`.
    """

    def __init__(self, all_events: Events, offset: int, events: list[Event], samples: Samples):
        self._all, self._offset = all_events, offset
        self._events, self._samples = events, samples
        self.end = offset + len(events)
        self.is_audited = all_events.sampler is not None
        self.asked = np.zeros(len(events), np.bool_)

    def predict_learn(self, keyed: KeyedCalibrator) -> Vector:
        """Predict and learn; record what was learned in the timeline."""
        join, samples = self._all.join, self._samples
        if join is None:
            values = keyed.predict_learn_checked(samples)
            ends = np.arange(self._offset, self.end) + 1
            learned = np.column_stack([ends, samples.scores, values, samples.y])
            decisions, late = learned[:, [0, 2, 3]], np.empty((0, 2))
        else:
            values, learned, decisions, late = self._predict_learn_each(keyed, join)
        ends, scores, served, y = learned[~np.isnan(learned).any(axis=1)].T
        self._all.timeline.add(ends, scores, served, y, time.time())
        self._all.timeline.serve(decisions, late)
        return values

    def _predict_learn_each(
        self, keyed: KeyedCalibrator, join: LabelJoin
    ) -> tuple[Vector, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the values; and for the timeline samples, what was served, and late labels."""
        values = []
        samples: list[tuple[float, ...]] = []
        decisions: list[tuple[float, ...]] = []
        late: list[tuple[float, ...]] = []
        for end, event in enumerate(self._events, self._offset + 1):
            served, asked = None, None  # what comes with a label is not used
            if not math.isnan(event.score):
                served = _served_before(join, event)
                if served is None:
                    served = keyed.serve_one(event.key, float(event.score), x=event.x)
                if self._all.sampler is not None and _is_open(event):
                    propensity, asked = self._audit(self._all.sampler, join, event, served.value)
                    event = event._replace(propensity=propensity)
                    self.asked[end - 1 - self._offset] = bool(asked)
            values.append(math.nan if served is None else served.value)
            n_duplicates = join.n_duplicates
            sample = join.add(event._replace(served=served, asked=asked))
            if sample is not None and sample.asked is False and keyed.needs_propensity:
                self._all.n_unasked += 1
                sample = None
            y = math.nan if sample is None else float(sample.y)
            if served is not None and join.n_duplicates == n_duplicates:
                decisions.append((end, served.value, y))
            elif served is None and sample is not None:
                late.append((end - join._age(event.id), y))
            if sample is None:
                continue
            value, ticket = (math.nan, None) if sample.served is None else sample.served
            waited = math.isnan(event.score) or math.isnan(event.y)
            numbers = sample.score, sample.y, sample.w
            given: dict[str, Any] = {"x": sample.x, "ticket": ticket, "t": sample.t}
            if keyed.needs_propensity:
                given["propensity"] = sample.propensity
            with errors_of_waiting(self._all.path if waited else None):
                keyed.learn_one(sample.key, *numbers, **given)
            samples.append((end, sample.score, value, sample.y))
        return (
            np.array(values),
            np.array(samples).reshape(-1, 4),
            np.array(decisions).reshape(-1, 3),
            np.array(late).reshape(-1, 2),
        )

    def _audit(
        self, sampler: "AuditSampler", join: LabelJoin, event: Event, p: float
    ) -> tuple[float, bool | None]:
        """Return the propensity of a served event, and whether its label is asked for.

        None: no sampler has decided that.
        """
        first = join.find(event.id)  # a retry has its answer, also if the sampler has forgotten it
        if first is not None and first.propensity is not None:
            return first.propensity, first.asked
        ask, propensity = sampler.audit_one(event.id, p, event.x)
        return propensity, ask


def reader_of(source: Any) -> Callable[[int, int], Any]:
    """Return the function that reads events from an offset on."""
    if isinstance(source, str | bytes | os.PathLike):
        raise TypeError(
            f"`source` must be events, such as [(score, label)], or a function, got {source!r};"
            " a file is read by the command line: streamcal calibrate x.csv --score p --label y"
        )
    if type(source).__name__ == "DataFrame":
        raise TypeError(
            "`source` must be events, such as [(score, label)], or a function, got a DataFrame;"
            " pass list(zip(table['score'], table['label']))"
        )
    if callable(getattr(source, "read", None)):
        read: Callable[[int, int], Any] = source.read
        return read
    if hasattr(source, "__getitem__") and not isinstance(source, Mapping):
        return lambda at, n: source[at : at + n]
    if callable(source):
        return _Forward(source).read
    got = type(source).__name__
    if isinstance(source, Iterator):
        got += "; pass the function that makes it, which gets the offset, or a list"
    raise TypeError(
        "`source` must have `read(offset, n)`, be a sequence, or be a function that returns the"
        f" events from an offset on, such as a generator function, got {got}"
    )


class _Forward:
    """Reads the events that a function returns for the first offset; the run only goes forward."""

    def __init__(self, start: Callable[[int], Iterable[Any]]) -> None:
        self._start = start
        self._events: Iterator[Any] | None = None

    def read(self, offset: int, n: int) -> list[Any]:
        """Return the next ``n`` events."""
        if self._events is None:
            events: Any = self._start(offset)
            if not isinstance(events, Iterable):
                raise TypeError(
                    f"`source` must return an iterable of events, got {type(events).__name__}"
                )
            self._events = iter(events)
        return list(islice(self._events, n))


def _end_of(source: Any) -> int | None:
    """Return the offset after the last event of a source; None if that is unknown."""
    if callable(getattr(source, "end", None)):
        return int(source.end())
    return len(source) if hasattr(source, "__len__") else None


def _served_before(join: LabelJoin, event: Event) -> Prediction | None:
    """Return what was served for an event that comes again, such as a retry; None for others.

    To serve it again would count its score again, for a calibrator that learns from scores.
    """
    first = join.find(event.id)
    if first is None or not math.isnan(event.y):
        return None
    same = (first.score, first.key, first.x) == (event.score, event.key, event.x)
    return first.served if same else None


class _Rules(NamedTuple):
    """What decides which events can be learned."""

    keyed: KeyedCalibrator
    join: LabelJoin | None
    sampler: "AuditSampler | None"


def _check(
    rows: list[Any], rules: _Rules, where: Callable[[int], str]
) -> tuple[list[Event], Samples]:
    """Return the rows as events, and what `KeyedCalibrator.check` returns of them.

    It raises unless all of them can be learned; the error begins with ``where`` of the first one
    that can't be. Events have the fields of the calibrator only.
    """
    try:
        events = [row if type(row) is Event else _as_event(row) for row in rows]
        return _check_events(events, rules)
    except StoreError:
        raise
    except (TypeError, ValueError):
        for at, row in enumerate(rows):
            if (fault := _fault_of(row, rules)) is not None:
                text = re.sub(" at position 0(?=;|$)", "", str(fault))
                text = re.sub("^`scores`", "`score`", text)
                raise _kind_of(fault)(f"{where(at)}: {text}") from fault
        raise  # it is about no event


def _kind_of(error: Exception) -> type[TypeError | ValueError]:
    return TypeError if isinstance(error, TypeError) else ValueError


def _fault_of(row: Any, rules: _Rules) -> Exception | None:
    """Return why an event can't be learned; None if it can."""
    try:
        event = _as_event(row)
        for name in ("score", "y", "w"):
            _check_number(name, getattr(event, name))
        _check_name("key", event.key)
        if rules.join is not None:
            _check_name("id", event.id)
        _check_events([event], rules)
    except StoreError:
        raise
    except (TypeError, ValueError) as error:
        return error
    return None


def _check_number(name: str, value: Any) -> None:
    """Raise unless a field of an event is a number."""
    try:
        as_vector([value], name, finite=False)
    except (TypeError, ValueError):
        unknown = ", or NaN if it is not known" if name == "y" else ""
        hint = about_number(value, name)
        raise TypeError(f"`{name}` must be a number{unknown}, got {shown(value)}{hint}") from None


def _check_name(name: str, value: Any) -> None:
    """Raise unless a field of an event can be a key."""
    try:
        name_of(value)
    except (TypeError, ValueError) as error:
        raise error_of_key(error, name) from None


def _as_event(row: Any) -> Event:
    """Return what a source has read as an event."""
    try:
        if isinstance(row, str | Mapping):
            raise TypeError
        return Event(*row)
    except TypeError:
        hint = "; write Event(**event)" if isinstance(row, Mapping) else ""
        raise TypeError(
            f"must be an Event or a tuple like it, such as (score, label), got {shown(row)}{hint}"
        ) from None


def _check_events(events: list[Event], rules: _Rules) -> tuple[list[Event], Samples]:
    """Do what `_check` does; an error does not say of which event it is."""
    keyed, join, _ = rules
    scores, y, w, keys, ids, _, x, t, *_ = zip(*events, strict=True)
    if keyed.needs_time:
        for event, time in zip(events, t, strict=True):
            if time is None:
                raise TypeError(
                    "must have `t`, the time of the event, as `calibrator` forgets by time,"
                    f" got {event}"
                )
    if join is None:
        if keyed.fields or x.count(None) < len(x):
            events = [_with_fields(event, keyed.fields) for event in events]
        columns = _columns_of(events, keyed.fields)
        known = _propensities_of(events, keyed)
        return events, keyed.check(keys, scores, y, w, columns, t, known)
    served = ~np.isnan(as_vector(scores, "scores", finite=False))
    labelled = ~np.isnan(as_vector(y, "y", finite=False))
    for at, name in enumerate(ids):
        name_of(name)  # or it raises
        if not served[at] and not (labelled[at] and name is not None):
            raise ValueError(f"must have a score, or a label and an id, got {events[at]}")
    _check_propensities(events, served, rules)
    events = [
        _with_fields(event, keyed.fields) if served[at] else event._replace(x=None)
        for at, event in enumerate(events)
    ]
    # A label that comes alone is checked with a score that any calibrator takes, and a propensity.
    columns = _columns_of(events, keyed.fields)
    known = np.ones(len(events)) if keyed.needs_propensity else None
    return events, keyed.check(keys, np.where(served, scores, 0.5), y, w, columns, t, known)


def _propensities_of(events: list[Event], keyed: KeyedCalibrator) -> Any:
    """Return the propensities of events with score and label; None if there are none."""
    given = [event.propensity for event in events]
    if not keyed.needs_propensity and given.count(None) == len(given):
        return None
    for event in events:
        if event.propensity is None and event.y == event.y:
            raise TypeError(f"must have `propensity`, as `calibrator` needs it, got {event}")
    return [math.nan if propensity is None else propensity for propensity in given]


def _check_propensities(events: list[Event], served: NDArray[np.bool_], rules: _Rules) -> None:
    """Raise unless events with a score have a propensity that can be learned, or will have one."""
    keyed, _, sampler = rules
    for event, has_score in zip(events, served.tolist(), strict=True):
        if not has_score:
            if event.propensity is not None:
                raise TypeError(f"must have no `propensity` without a score, got {event}")
        elif event.propensity is not None:
            if sampler is not None and not keyed.needs_propensity:
                as_within(event.propensity, "propensity", "(0, 1]")  # for the sampler alone
            else:
                keyed.check_propensity(event.propensity)
        elif sampler is not None and _is_open(event):
            try:
                sampler._check(event.id, event.x)
            except (TypeError, ValueError) as error:
                text = re.sub("^`key`", "`id`", str(error))  # an event has a key, too
                raise _kind_of(error)(text) from None
        elif keyed.needs_propensity:
            raise TypeError(
                f"must have `propensity`, as `calibrator` needs it, unless `sampler` is given and"
                f" there is no label yet, got {event}"
            )


def _is_open(event: Event) -> bool:
    """Return whether a sampler decides if the label of an event with a score is asked for."""
    return event.propensity is None and math.isnan(event.y)


def _with_fields(event: Event, fields: tuple[str, ...]) -> Event:
    """Return an event with the values of the fields of segments and no others, or raise."""
    if not fields:
        if event.x is not None:
            raise TypeError(f"must have no `x` unless `calibrator` has segments, got {event}")
        return event
    if not isinstance(event.x, Mapping):
        raise TypeError(
            "must have `x`, a mapping with the values of the fields"
            f" {', '.join(map(repr, fields))}, got {event.x!r}"
        )
    return event._replace(x=pack_fields({name: event.x.get(name) for name in fields}))


def _columns_of(events: list[Event], fields: tuple[str, ...]) -> dict[str, list[Any]] | None:
    """Return the values of the fields of segments by name; None where an event has none."""
    if not fields:
        return None
    given = [event.x or {} for event in events]
    return {name: [x.get(name) for x in given] for name in fields}
