"""The loop of a stream that survives: read, predict and learn, hand on, commit; again.

A *source* answers ``read(offset, n)`` with at most ``n`` events from ``offset`` on, the same ones
whenever it is asked; a list does that. A *sink* is told ``(offset, predictions)``. States and
offset are committed together (`streamcal.store`), after the sink has what they answered. So after
a crash the loop starts again at the last commit: nothing is learned twice or missed, and the sink
is told again, under the same offsets, exactly what it was told since. A sink that can take back
what came after a commit makes that exactly once as well:

    sink.commit()        -> a token, kept with the offset: for instance the length of a file
    sink.resume(token)   go back to where that was; None: to the start

A commit writes what has changed, and waits for the disk. While commits have taken more than a
quarter of the time, further ones are put off, so big states cost no more than that; what a restart
does again is then more than one batch.

Labels that come late. With a `LabelJoin` an event may be a score with an id (it is predicted, and
nothing is learned) or a label with the same id: then the calibrator learns the score that was
served. What waits for its label is committed with everything else. Of the two events, weight and
key are those of the score's.
"""

import copy
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcal._state import (
    Arrays,
    Fields,
    Stateful,
    array_of,
    as_float,
    as_int,
    as_list,
    as_name,
    as_names,
    pack,
    require,
    unpack,
)
from streamcal._validation import as_number, as_vector, as_weight, check_window
from streamcal.calibration.base import Calibrator
from streamcal.calibration.hedged import Ticket
from streamcal.keyed import Groups, KeyedCalibrator, Vector, name_of
from streamcal.store import Store, StoreError

MOST_SPENT = 0.25
"""The share of the time that commits may take."""

_JOIN = "join"  # its name among the states
_SINK = "sink"  # and that of the sink's token among the notes


class Event(NamedTuple):
    """A sample of a stream, or one half of it.

    Parameters
    ----------
    score : float
        What the model said; NaN in an event that is only a label.
    y : float
        The label; NaN if it is not known (yet).
    w : float
        The weight.
    key : hashable
        Whose calibrator it belongs to.
    id : hashable
        By what a label that comes late is known: as keys are, a string, number, boolean or tuple;
        None: it will not come.
    ticket : Ticket, optional
        What a `HedgedCalibrator` served of the score; `run` puts it here, for the label to find.
    """

    score: float
    y: float = math.nan
    w: float = 1.0
    key: Hashable = None
    id: Hashable = None
    ticket: Ticket | None = None


class Source(Protocol):
    """Where events come from: replayable by offset."""

    def read(self, offset: int, n: int) -> Sequence[Event | tuple[Any, ...]]:
        """Return at most ``n`` events from ``offset`` on; none: there are no more now."""


Sink = Callable[[int, NDArray[np.float64]], Any]


class LabelJoin(Stateful):
    """Scores that were served and wait for their labels, and labels that wait for their scores.

    Parameters
    ----------
    horizon : int
        How many events a score or a label waits before it is given up.

    Attributes
    ----------
    n_waiting : int
        How many are waiting now.
    n_joined, n_expired, n_duplicates : int
        How many pairs were found, how many waited in vain, and how many events were dropped since
        their score or label had come before.

    Raises
    ------
    ValueError
        If ``horizon`` is not a positive int.

    Notes
    -----
    An id may be used again a horizon after its first event. An event that has both score and label
    is whole at once; its id is not looked at.

    Examples
    --------
    >>> join = LabelJoin(horizon=100)
    >>> join.add(Event(0.7, id="a"))
    >>> join.add(Event(float("nan"), y=1.0, id="a"))
    Event(score=0.7, y=1.0, w=1.0, key=None, id='a', ticket=None)
    >>> join.n_waiting, join.n_joined
    (0, 1)
    """

    def __init__(self, horizon: int = 100_000) -> None:
        _check_count(horizon, "horizon")
        self.horizon = horizon
        self.n_joined = self.n_expired = self.n_duplicates = 0
        self._now = 0
        # By id, in the order of arrival; None: both have come. Of a plain dict the oldest would
        # be found slower and slower.
        self._seen: OrderedDict[Hashable, tuple[int, Event | None]] = OrderedDict()
        self._n_done = 0

    @property
    def n_waiting(self) -> int:
        """How many scores and labels wait."""
        return len(self._seen) - self._n_done

    def add(self, event: Event) -> Event | None:
        """Take an event in; return the whole sample if this completes one.

        Raises
        ------
        ValueError, TypeError
            If half an event with an id has a number, id, key or ticket that can't be kept; the join
            is as before.
        """
        has_score, has_label = not math.isnan(event.score), not math.isnan(event.y)
        if event.id is not None and has_score != has_label:
            as_number(event.score, "score")
            as_number(event.y, "y")
            as_weight(event.w)
            name_of(event.id)
            name_of(event.key)
            _check_ticket(event.ticket)
        self._expire()
        self._now += 1
        if has_score and has_label:
            return event
        if event.id is None or not (has_score or has_label):
            return None  # nothing will come of it
        if event.id not in self._seen:
            self._seen[event.id] = self._now, event
            return None
        arrived, other = self._seen[event.id]
        if other is None or math.isnan(other.score) != has_score:
            self.n_duplicates += 1
            return None
        self._seen[event.id] = arrived, None  # so that a second label is known for one
        self._n_done += 1
        self.n_joined += 1
        return event._replace(y=other.y) if has_score else other._replace(y=event.y)

    def _expire(self) -> None:
        """Give up what has waited too long."""
        while self._seen:
            first = next(iter(self._seen))
            arrived, event = self._seen[first]
            if arrived > self._now - self.horizon:
                return
            del self._seen[first]
            if event is None:
                self._n_done -= 1
            else:
                self.n_expired += 1

    def _freeze(self) -> tuple[Fields, Arrays]:
        events = [event or Event(math.nan) for _, event in self._seen.values()]
        numbers = [event[:3] for event in events]
        fields = {
            "now": self._now,
            "counts": [self.n_joined, self.n_expired, self.n_duplicates],
            "ids": [pack(name) for name in self._seen],
            "keys": [pack(event.key) for event in events],
            "tickets": [_pack_ticket(event.ticket) for event in events],
        }
        return fields, {
            "arrived": np.array([arrived for arrived, _ in self._seen.values()], np.int64),
            "done": np.array([event is None for _, event in self._seen.values()], np.int64),
            "numbers": np.array(numbers, np.float64).reshape(-1, 3),
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        arrived = array_of(arrays, "arrived", None, dtype=np.int64)
        n = len(arrived)
        done = array_of(arrays, "done", n, dtype=np.int64)
        numbers = array_of(arrays, "numbers", n, 3, finite=False)
        now = as_int(fields["now"], "now")
        counts = [as_int(count, "counts") for count in as_list(fields["counts"], "counts", 3)]
        ids = as_names(fields["ids"], "ids", n)
        packed = as_list(fields["keys"], "keys", n)
        keys = [as_name(unpack(key), "keys", none=True) for key in packed]
        tickets = [_unpack_ticket(ticket) for ticket in as_list(fields["tickets"], "tickets", n)]
        require((np.diff(arrived, prepend=0) > 0).all(), "events must be in order")
        require(not n or arrived[-1] <= now, "no event must come later than now")
        require(((done == 0) | (done == 1)).all(), "an event must be waiting or done")
        halves = np.isnan(numbers[done == 0])
        either = (halves[:, 0] != halves[:, 1]) & ~halves[:, 2]
        require(either.all(), "what waits must be a score or a label")
        self._now, self._n_done = now, int(done.sum())
        self.n_joined, self.n_expired, self.n_duplicates = counts
        for name, key, ticket, at, both, (score, y, w) in zip(
            ids, keys, tickets, arrived.tolist(), done.tolist(), numbers.tolist(), strict=True
        ):
            self._seen[name] = (at, None if both else Event(score, y, w, key, name, ticket))


def _pack_ticket(ticket: Ticket | None) -> list[float] | None:
    return None if ticket is None else [ticket.n_samples, *ticket.answers]


def _check_ticket(ticket: Any) -> None:
    """Raise unless a ticket is one that can be kept, or None."""
    if ticket is not None and not isinstance(ticket, Ticket):
        raise TypeError(f"`ticket` must be a Ticket or None, got {ticket!r}")
    try:
        _unpack_ticket(_pack_ticket(ticket))
    except (TypeError, ValueError) as error:
        raise ValueError(f"`ticket` must be what was served, got {ticket!r}: {error}") from None


def _unpack_ticket(packed: Any) -> Ticket | None:
    if packed is None:
        return None
    n_samples, *answers = as_list(packed, "tickets")
    shares = tuple(as_float(answer, "tickets", 0.0, 1.0) for answer in answers)
    return Ticket(as_int(n_samples, "tickets"), shares)


def run(
    source: Source | Sequence[Event | tuple[Any, ...]],
    calibrators: Calibrator | KeyedCalibrator,
    sink: Sink,
    store: Store,
    *,
    batch: int = 1_000,
    join: LabelJoin | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Calibrate a stream from where the store says it was left, until the source has no more.

    Parameters
    ----------
    source : Source or sequence
        Events (`Event`, or tuples that begin as it does), by offset.
    calibrators : Calibrator or KeyedCalibrator
        What learns: one, or one per key. A `Calibrator` stays as it is: it says the parameters, and
        where the store has no state yet, what to start from. A `KeyedCalibrator` must have been
        made with ``store``; what it has learned and not saved is dropped, since it is not up to the
        store's offset.
    sink : callable
        Told ``(offset, predictions)``: the offset of a batch's first event, and an array of shape
        ``(n_events,)`` with the calibrated value of each, NaN where an event is only a label. With
        ``commit`` and ``resume`` it is exact, see the module.
    store : Store
        Where states and offset are kept.
    batch : int
        How many events are taken at a time. The predictions do not depend on it.
    join : LabelJoin, optional
        For labels that come late; its state becomes that of the store.
    stop : callable
        Asked between batches; once it is true the loop commits and returns.

    Returns
    -------
    offset : int
        How many events of the stream are learned.

    Raises
    ------
    StoreError
        If a commit fails, or somebody else has moved the store's offset or saved states of the same
        keys during the run; the store is as after the last commit.
    ValueError, TypeError
        If an argument or an event is out of range, or the store's states have other parameters;
        what came before the event's batch is committed.

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
    _check_count(batch, "batch")
    read = _reader(source)
    if not callable(sink):
        raise TypeError(f"`sink` must be callable, got {sink!r}")
    if not isinstance(store, Store):
        raise TypeError(f"`store` must be a Store, got {store!r}")
    if store.read_only:  # before a sink goes back to where it can't go on from
        raise StoreError(f"{store.path} was opened to be read only")
    if join is not None and not isinstance(join, LabelJoin):
        raise TypeError(f"`join` must be a LabelJoin or None, got {join!r}")
    keyed = calibrators
    if isinstance(keyed, Calibrator):
        keyed = KeyedCalibrator(partial(copy.deepcopy, keyed), store=store)
    if not isinstance(keyed, KeyedCalibrator):
        raise TypeError(f"`calibrators` must be a Calibrator or KeyedCalibrator, got {keyed!r}")
    if keyed.store is not store:
        raise ValueError("`calibrators` must have been made with this `store`")
    _restore_join(join, store)
    keyed.revert()

    exact: Any = sink if hasattr(sink, "commit") and hasattr(sink, "resume") else None
    if exact is not None:
        exact.resume(store.notes.get(_SINK))
    offset, pace = store.offset, Pace()
    committed = offset
    whole = True  # whether all that is learned is up to the offset

    def commit() -> None:
        nonlocal committed
        with pace, store.alone():
            if store.offset not in (committed, offset):
                raise StoreError(
                    f"{store.path} was at offset {committed} and is at {store.offset}:"
                    " somebody else has saved to it during the run"
                )
            notes = None if exact is None else {**store.notes, _SINK: exact.commit()}
            states: dict[str, Any] = dict(keyed.states())
            if join is not None:
                states[_JOIN] = join
            store.save(states, offset, notes=notes)
            keyed.saved()
            committed = offset

    try:
        while not stop():
            events = _as_events(read(offset, batch))
            if not events:
                break
            checked = _check(events, keyed, join)
            whole = False
            if join is None:
                values = keyed.predict_learn_groups(*checked)
            else:
                values = np.array([_learn_one(event, keyed, join) for event in events])
            sink(offset, values)
            offset, whole = offset + len(events), True
            if pace.is_due():
                commit()
    finally:
        if whole and offset != committed:
            commit()
    return offset


def _reader(source: Any) -> Callable[[int, int], Any]:
    """Return what reads events from an offset on."""
    if callable(getattr(source, "read", None)):
        read: Callable[[int, int], Any] = source.read
        return read
    if not hasattr(source, "__getitem__"):
        raise TypeError(
            "`source` must have `read(offset, n)` or be a sequence, which can be read again from"
            f" any offset, got {type(source).__name__}"
        )
    return lambda at, n: source[at : at + n]


def _as_events(rows: Any) -> list[Event]:
    """Return what a source has read as events."""
    events = []
    for row in rows:
        try:
            events.append(Event(*row))
        except TypeError:
            raise TypeError(f"an event must be an Event or a tuple like it, got {row!r}") from None
    return events


def _restore_join(join: LabelJoin | None, store: Store) -> None:
    """Give a join the state that the store has, or none."""
    if join is None:
        if _JOIN in store:
            raise ValueError("`join` must be given: scores and labels wait in the store, got None")
        return
    stored = LabelJoin(join.horizon)
    if _JOIN in store:
        stored = LabelJoin.from_bytes(store.get_bytes(_JOIN))
    if stored.horizon != join.horizon:
        raise ValueError(
            f"`join` must have the store's horizon, {stored.horizon}, got {join.horizon}"
        )
    vars(join).update(vars(stored))


def _check(
    events: list[Event], keyed: KeyedCalibrator, join: LabelJoin | None
) -> tuple[Groups, Vector, Vector, Vector]:
    """Return the events as `KeyedCalibrator.check` does; raise unless all can be learned."""
    scores, y, w, keys, ids, _ = zip(*events, strict=True)
    if join is None:
        return keyed.check(keys, scores, y, w)
    served = ~np.isnan(as_vector(scores, "scores", finite=False))
    labelled = ~np.isnan(as_vector(y, "y", finite=False))
    for at, name in enumerate(ids):
        name_of(name)  # or it raises
        if not served[at] and not (labelled[at] and name is not None):
            raise ValueError(
                f"an event must have a score, or a label and an id, got {events[at]} at {at}"
            )
    # A label that comes alone is checked with a score that any calibrator takes.
    return keyed.check(keys, np.where(served, scores, 0.5), y, w)


def _learn_one(event: Event, keyed: KeyedCalibrator, join: LabelJoin) -> float:
    """Predict an event's score, if it has one, and learn the sample that it completes."""
    value, ticket = math.nan, None  # what comes with a label was served to nobody
    if not math.isnan(event.score):
        value, ticket = keyed.serve_one(event.key, float(event.score))
    whole = join.add(event._replace(ticket=ticket))
    if whole is not None:
        keyed.learn_one(whole.key, whole.score, whole.y, whole.w, served=whole.ticket)
    return value


def _check_count(n: Any, name: str) -> None:
    """Raise ``ValueError`` unless ``n`` is a positive int."""
    if n is None:
        raise ValueError(f"`{name}` must be a positive int, got None")
    check_window(n, name)


class Pace:
    """Says when the next commit is due: so that commits take a quarter of the time at most.

    A context manager around each commit.
    """

    def __init__(self, most: float = MOST_SPENT) -> None:
        self.most = most
        self._begun = time.monotonic()
        self._spent = 0.0

    def is_due(self) -> bool:
        """Whether commits have taken less than their share of the time."""
        return self._spent <= self.most * (time.monotonic() - self._begun)

    def __enter__(self) -> None:
        self._since = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._spent += time.monotonic() - self._since
