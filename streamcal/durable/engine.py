"""A crash-safe stream loop: read events, predict and learn, give the sink the values, commit.

A *source* has ``read(offset, n)``, which returns at most ``n`` events from ``offset`` on, and the
same events each time. A list works as well, and so does a generator function of the offset, which
is called once in a run. A generator is refused: it can't go back to the store's offset, and the
number of events that an earlier run has taken from it is unknown.

A *sink* is called with ``(offset, predictions)``. States and offset are committed together
(`streamcal.durable.store`), after the sink has got the predictions. After a crash the loop starts
again at the last commit. Nothing is learned twice or missed, and the sink gets the predictions
after that commit again, under the same offsets. A sink that can go back to a commit gets each
prediction exactly once:

    sink.commit()        returns a token that is saved with the offset, such as the length of a file
    sink.resume(token)   goes back to the state of that commit; None: to the start

A source that has a position of its own beside the number of events, such as the offset of a message
in Kafka, keeps it in the same way:

    source.commit(offset)         returns a token of the position of the event ``offset``
    source.resume(offset, token)  goes to that position; None: the store has none

A source may have ``where(offset)``, which returns where an event of the last batch is, in words for
an error: "partition 0, offset 1234". Without it the error begins with "event" and the offset.

A position that has moved without events is saved when the run ends. Tokens are JSON. In a store
that has none yet, the first ones are saved before anything is read.

A commit writes the changes and waits for the disk. While commits have taken more than a
quarter of the time, the next one is delayed. So large states cost no more than that, and a restart
repeats more than one batch.

With a `LabelJoin` an event may be a score with an id, which is predicted and not learned, or a
label with the same id: then the calibrator learns the score that was served. Weight, key and fields
are those of the score's event. Scores that wait for their labels are part of each commit.

A `Timeline` of losses is committed with them, for `streamcal watch`.
"""

import copy
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcal._validation import as_vector, check_count
from streamcal.calibration.base import Calibrator, is_calibrator
from streamcal.durable.errors import StoreError, errors_of_waiting
from streamcal.durable.fields import pack_fields
from streamcal.durable.keyed import KeyedCalibrator, Samples, Vector
from streamcal.durable.keys import name_of
from streamcal.durable.labels import JOIN, Event, LabelJoin
from streamcal.durable.pace import Pace
from streamcal.durable.store import Store
from streamcal.durable.timeline import TIMELINE, Timeline

_SOURCE, _SINK = "source", "sink"  # the names of their tokens among the notes


Row = Event | tuple[Any, ...]


class Source(Protocol):
    """A source of events, which can be read again from any offset.

    It may also have ``end()``, which returns the offset after the last event that there is now:
    `streamcal watch` then shows how many events are not yet learned. With ``commit`` and ``resume``
    it keeps a position of its own in the store, and with ``where`` it names its events in errors,
    see the module.

    Examples
    --------
    >>> class Rows:
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...
    ...     def read(self, offset, n):
    ...         return [Event(score, y) for score, y in self.rows[offset : offset + n]]
    >>> source: Source = Rows([(0.2, 0), (0.9, 1), (0.6, 1)])
    >>> [event.score for event in source.read(1, 5)]
    [0.9, 0.6]
    """

    def read(self, offset: int, n: int) -> Sequence[Row]:
        """Return at most ``n`` events from ``offset`` on; no event ends the run."""


Sink = Callable[[int, NDArray[np.float64]], Any]


def run(
    source: Source | Sequence[Row] | Callable[[int], Iterable[Row]],
    calibrator: Calibrator | KeyedCalibrator,
    sink: Sink,
    store: Store,
    *,
    batch_size: int = 1_000,
    join: LabelJoin | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Calibrate a stream from the offset in the store on, until the source has no more events.

    Parameters
    ----------
    source : Source, sequence or callable
        Events (`Event`, or tuples of its first fields), by offset. A callable gets the store's
        offset and returns an iterable of the events from there on, as a generator function does.
    calibrator : Calibrator or KeyedCalibrator
        A calibrator is the prototype of one calibrator per key and is not changed: it has the
        parameters, and the state to start from where the store has none. A `KeyedCalibrator` must
        have been made with ``store``; its unsaved changes are dropped, since they do not belong to
        the store's offset. A `SegmentCalibrator` needs the ``x`` of each event with a score.
    sink : callable
        Called with ``(offset, predictions)``: the offset of a batch's first event, and an array of
        shape ``(n_events,)`` with the calibrated value of each event, NaN for an event that is only
        a label. A sink with ``commit`` and ``resume`` gets each value exactly once, see the module.
    store : Store
        The file of states and offset.
    batch_size : int
        The number of events that are read at a time. The predictions do not depend on it.
    join : LabelJoin, optional
        For delayed labels; its state is replaced by that of the store.
    stop : callable
        Called between batches; when it returns True, the loop commits and returns.

    Returns
    -------
    offset : int
        The number of events of the stream that are learned.

    Raises
    ------
    StoreError
        If the store has fewer or more states than were saved, or a sample waits in it that can't be
        learned, if a commit fails, or if somebody else has changed the store's offset, or states of
        the same keys, during the run; the store is as after the last commit.
    ValueError, TypeError
        If an argument or an event is out of range, or the store's states have other parameters;
        all earlier batches are committed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamcal import IsotonicCalibrator
    >>> events = [(0.2, 0), (0.9, 1), (0.6, 1), (0.7, 0), (0.65, 1)]
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Store(pathlib.Path(folder.name, "run.db")) as store:
    ...     for part in (events[:3], events):  # a restart, with more events than before
    ...         run(part, IsotonicCalibrator(), lambda at, p: print(at, p.round(2)), store)
    0 [0.2  0.33 0.5 ]
    3
    3 [0.67 0.5 ]
    5
    >>> folder.cleanup()
    """
    check_count(batch_size, "batch_size")
    read = _reader(source)
    if not callable(sink):
        raise TypeError(f"`sink` must be callable, got {sink!r}")
    if not isinstance(store, Store):
        raise TypeError(f"`store` must be a Store, got {store!r}")
    if store.read_only:  # before the sink resumes: it could not write from there
        raise StoreError(f"{store.path} was opened to be read only")
    if join is not None and not isinstance(join, LabelJoin):
        raise TypeError(f"`join` must be a LabelJoin or None, got {join!r}")
    store.check_count()
    keyed = _as_keyed(calibrator, store)
    _restore_join(join, store)
    keyed.revert()

    loop = _Loop(source, read, keyed, sink, store, join)
    try:
        while not stop() and loop.take_batch(batch_size):
            if loop.pace.is_due():
                loop.commit()
    finally:
        if loop.at_boundary and not loop.is_committed():
            loop.commit()
    return loop.offset


class _Loop:
    """The state of a run: how much is learned, and how much of it is committed.

    Attributes
    ----------
    offset : int
        How many events are learned and given to the sink.
    committed : int
        The offset of the last commit.
    at_boundary : bool
        Whether no batch is partly learned.
    """

    def __init__(
        self,
        source: Any,
        read: Callable[[int, int], Any],
        keyed: KeyedCalibrator,
        sink: Sink,
        store: Store,
        join: LabelJoin | None,
    ) -> None:
        self.source, self.read, self.sink = source, read, sink
        self.keyed, self.store, self.join = keyed, store, join
        self.timeline = Timeline()
        if TIMELINE in store:
            self.timeline = Timeline.from_bytes(store.get_bytes(TIMELINE))
        self.exact: Any = sink if _can_resume(sink) else None
        self.placed: Any = source if _can_resume(source) else None
        self.offset = self.committed = store.offset
        self._resume()
        self.at_boundary = True
        self.pace = Pace()

    def _resume(self) -> None:
        """Let source and sink continue from their tokens; one that has none gets one now."""
        notes = self.store.notes
        if self.placed is None and _SOURCE in notes:
            raise ValueError(
                "`source` must have `resume`: the store has the position of such a source,"
                f" {notes[_SOURCE]}"
            )
        if self.placed is not None:
            self.placed.resume(self.offset, notes.get(_SOURCE))
        if self.exact is not None:
            self.exact.resume(notes.get(_SINK))
        new_source = self.placed is not None and _SOURCE not in notes
        if new_source or (self.exact is not None and _SINK not in notes):
            self.store.save({}, notes=self._notes())

    def _notes(self) -> dict[str, Any]:
        """Return the store's notes with new tokens of source and sink."""
        notes = dict(self.store.notes)
        if self.placed is not None:
            notes[_SOURCE] = self.placed.commit(self.offset)
        if self.exact is not None:
            notes[_SINK] = self.exact.commit()
        return notes

    def take_batch(self, n: int) -> bool:
        """Predict and learn up to ``n`` events; return whether there were any."""
        rows = list(self.read(self.offset, n))
        if not rows:
            return False
        events, samples = _check(rows, self.keyed, self.join, self._where)
        self.at_boundary = False
        if self.join is None:
            values = self.keyed.predict_learn_checked(samples)
            ends = self.offset + 1 + np.arange(len(events))
            learned = np.column_stack([ends, samples.scores, values, samples.y])
        else:
            values, learned = self._join_batch(events, self.join)
        ends, scores, served, y = learned[~np.isnan(learned).any(axis=1)].T
        self.timeline.add(ends, scores, served, y, time.time())
        self.sink(self.offset, values)
        self.offset += len(events)
        self.at_boundary = True
        return True

    def _where(self, at: int) -> str:
        """Return which event is the event ``at`` of this batch."""
        where = getattr(self.source, "where", None)
        # A data frame has a `where` of its own.
        if callable(where) and hasattr(self.source, "read"):
            return str(where(self.offset + at))
        return f"event {self.offset + at}"

    def _join_batch(
        self, events: list[Event], join: LabelJoin
    ) -> tuple[Vector, NDArray[np.float64]]:
        """Predict and learn; return the values, and the samples for the timeline in rows."""
        values = []
        samples: list[tuple[float, ...]] = []
        for at, event in enumerate(events, self.offset + 1):
            value, sample = _learn_one(event, self.keyed, join, self.store)
            values.append(value)
            if sample is not None:
                served = math.nan if sample.served is None else sample.served.value
                samples.append((at, sample.score, served, sample.y))
        return np.array(values), np.array(samples).reshape(-1, 4)

    def is_committed(self) -> bool:
        """Return whether the store has what is learned, and the position of the source.

        A position may move without events, over messages that the source skips.
        """
        return self.offset == self.committed and (
            self.placed is None or self.placed.commit(self.offset) == self.store.notes[_SOURCE]
        )

    def commit(self) -> None:
        """Save states and offset, with the sink's token; raise if something else has saved."""
        with self.pace, self.keyed.locked(), self.store.locked():
            if self.store.offset not in (self.committed, self.offset):
                raise StoreError(
                    f"{self.store.path} was at offset {self.committed} and is at"
                    f" {self.store.offset}: something else has saved to it during the run"
                )
            states: dict[str, Any] = dict(self.keyed.states())
            if self.join is not None:
                states[JOIN] = self.join
            self.timeline.updated, self.timeline.end = time.time(), _end_of(self.source)
            states[TIMELINE] = self.timeline
            # The sink comes after all that may raise: it can't take back what it has written.
            self.store.save(states, self.offset, notes=self._notes())
            self.keyed.saved()
            self.committed = self.offset


def _as_keyed(calibrator: Any, store: Store) -> KeyedCalibrator:
    """Return calibrators by key, on this store."""
    if is_calibrator(calibrator):
        return KeyedCalibrator(partial(copy.deepcopy, calibrator), store=store)
    if not isinstance(calibrator, KeyedCalibrator):
        raise TypeError(f"`calibrator` must be a Calibrator or KeyedCalibrator, got {calibrator!r}")
    if calibrator.store is not store:
        raise ValueError("`calibrator` must have been made with this `store`")
    return calibrator


def _reader(source: Any) -> Callable[[int, int], Any]:
    """Return the function that reads events from an offset on."""
    if callable(getattr(source, "read", None)):
        read: Callable[[int, int], Any] = source.read
        return read
    if hasattr(source, "__getitem__") and not isinstance(source, Mapping):
        return lambda at, n: source[at : at + n]
    if callable(source):
        return _Forward(source).read
    raise TypeError(
        "`source` must have `read(offset, n)`, be a sequence, or be a function that returns the"
        f" events from an offset on, such as a generator function, got {type(source).__name__}"
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


def _can_resume(part: Any) -> bool:
    """Return whether a source or sink has tokens, see the module."""
    return hasattr(part, "commit") and hasattr(part, "resume")


def _end_of(source: Any) -> int | None:
    """Return the offset after the last event of a source; None if that is unknown."""
    if callable(getattr(source, "end", None)):
        return int(source.end())
    return len(source) if hasattr(source, "__len__") else None


def _restore_join(join: LabelJoin | None, store: Store) -> None:
    """Give a join the state that the store has, or that of a new join."""
    if join is None:
        if JOIN in store:
            raise ValueError("`join` must be given: scores and labels wait in the store, got None")
        return
    stored = LabelJoin(join.horizon)
    if JOIN in store:
        stored = LabelJoin.from_bytes(store.get_bytes(JOIN))
    if stored.horizon != join.horizon:
        raise ValueError(
            f"`join` must have the store's horizon, {stored.horizon}, got {join.horizon}"
        )
    vars(join).update(vars(stored))


def _check(
    rows: list[Any], keyed: KeyedCalibrator, join: LabelJoin | None, where: Callable[[int], str]
) -> tuple[list[Event], Samples]:
    """Return the rows as events, and what `KeyedCalibrator.check` returns of them.

    It raises unless all of them can be learned; the error begins with ``where`` of the first one
    that can't be. Events have the fields of the calibrator only.
    """
    try:
        return _check_events([_as_event(row) for row in rows], keyed, join)
    except StoreError:
        raise
    except (TypeError, ValueError):
        for at, row in enumerate(rows):
            if (fault := _fault_of(row, keyed, join)) is not None:
                text = re.sub("^`scores`", "`score`", str(fault).removesuffix(" at position 0"))
                raise _kind_of(fault)(f"{where(at)}: {text}") from fault
        raise  # it is about no event


def _kind_of(error: Exception) -> type[TypeError | ValueError]:
    return TypeError if isinstance(error, TypeError) else ValueError


def _fault_of(row: Any, keyed: KeyedCalibrator, join: LabelJoin | None) -> Exception | None:
    """Return why an event can't be learned; None if it can."""
    try:
        event = _as_event(row)
        for name in ("score", "y", "w"):
            _check_number(name, getattr(event, name))
        _check_name("key", event.key)
        if join is not None:
            _check_name("id", event.id)
        _check_events([event], keyed, join)
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
        raise TypeError(f"`{name}` must be a number{unknown}, got {value!r}") from None


def _check_name(name: str, value: Any) -> None:
    """Raise unless a field of an event can be a key."""
    try:
        name_of(value)
    except (TypeError, ValueError) as error:
        raise _kind_of(error)(str(error).replace("`keys`", f"`{name}`", 1)) from None


def _as_event(row: Any) -> Event:
    """Return what a source has read as an event."""
    try:
        return Event(*row)
    except TypeError:
        raise TypeError(f"must be an Event or a tuple like it, got {row!r}") from None


def _check_events(
    events: list[Event], keyed: KeyedCalibrator, join: LabelJoin | None
) -> tuple[list[Event], Samples]:
    """Do what `_check` does; an error does not say of which event it is."""
    scores, y, w, keys, ids, *_ = zip(*events, strict=True)
    if join is None:
        events = [_with_fields(event, keyed.fields) for event in events]
        return events, keyed.check(keys, scores, y, w, _columns_of(events, keyed.fields))
    served = ~np.isnan(as_vector(scores, "scores", finite=False))
    labelled = ~np.isnan(as_vector(y, "y", finite=False))
    for at, name in enumerate(ids):
        name_of(name)  # or it raises
        if not served[at] and not (labelled[at] and name is not None):
            raise ValueError(f"must have a score, or a label and an id, got {events[at]}")
    events = [
        _with_fields(event, keyed.fields) if served[at] else event._replace(x=None)
        for at, event in enumerate(events)
    ]
    # A label that comes alone is checked with a score that any calibrator takes.
    columns = _columns_of(events, keyed.fields)
    return events, keyed.check(keys, np.where(served, scores, 0.5), y, w, columns)


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


def _learn_one(
    event: Event, keyed: KeyedCalibrator, join: LabelJoin, store: Store
) -> tuple[float, Event | None]:
    """Return the value of an event's score, and the sample that it completes, which is learned."""
    served = None  # what comes with a label is not used
    if not math.isnan(event.score):
        served = keyed.serve_one(event.key, float(event.score), x=event.x)
    sample = join.add(event._replace(served=served))
    if sample is not None:
        waited = math.isnan(event.score) or math.isnan(event.y)
        numbers = sample.score, sample.y, sample.w
        with errors_of_waiting(store.path if waited else None):
            ticket = None if sample.served is None else sample.served.ticket
            keyed.learn_one(sample.key, *numbers, x=sample.x, ticket=ticket)
    return math.nan if served is None else served.value, sample
