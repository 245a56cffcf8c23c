"""A crash-safe stream loop: read events, predict and learn, give the sink the values, commit.

The docstring of `run` says what a source and a sink may have. States and offset are committed
together (`streamcal.durable.store`), after the sink has got the predictions. Scores that wait for
their labels (`LabelJoin`), and a `Timeline` of the losses for `streamcal watch`, are part of each
commit.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcal._advice import shown
from streamcal._validation import check_count
from streamcal.calibration.base import Calibrator, is_calibrator, show_calibrator
from streamcal.durable.errors import StoreError
from streamcal.durable.events import AUDITS, EventBatch, Events, reader_of
from streamcal.durable.keyed import KeyedCalibrator, Vector
from streamcal.durable.labels import JOIN, Event, LabelJoin
from streamcal.durable.pace import Pace
from streamcal.durable.store import Store, show_store

if TYPE_CHECKING:
    from streamcal.monitoring.audits import AuditSampler

SOURCE, SINK = "source", "sink"  # the names of their tokens among the notes


Row = Event | tuple[Any, ...]


class Source(Protocol):
    """A source of events, which can be read again from any offset.

    It may also have ``end()``, which returns the offset after the last event that there is now:
    `streamcal watch` then shows how many events are not yet learned. The notes of `run` say what
    else it may have.

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


class Batch(Protocol):
    """Consecutive samples that a source has read, which were checked.

    Attributes
    ----------
    end : int
        The offset after the last of them.
    """

    end: int

    def predict_learn(self, keyed: KeyedCalibrator) -> Vector:
        """Predict and learn the samples, and return the values for the sink."""


class BatchSource(Protocol):
    """A source of columns, such as a table; see `run` for what else it may have."""

    def read_batch(self, offset: int, n: int) -> Batch | None:
        """Return about ``n`` samples from ``offset`` on; None ends the run."""


Sink = Callable[[int, NDArray[np.float64]], Any]
AuditingSink = Callable[[int, NDArray[np.float64], NDArray[np.bool_]], Any]


def run(
    source: Source | Sequence[Row] | Callable[[int], Iterable[Row]] | BatchSource,
    calibrator: Calibrator | KeyedCalibrator,
    sink: Sink | AuditingSink,
    store: Store | None,
    *,
    batch_size: int = 1_000,
    join: LabelJoin | None = None,
    sampler: "AuditSampler | None" = None,
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
        the store's offset. A `SegmentCalibrator` needs the ``x`` of each event with a score, a
        calibrator that forgets by time the ``t`` of each event.
    sink : callable
        Called with ``(offset, predictions)``: the offset of a batch's first event, and an array of
        shape ``(n_events,)`` with the calibrated value of each event, NaN for an event that is only
        a label. With a ``sampler`` there is a third argument, an array of bool: whose label is to
        be asked for. A sink with ``commit`` and ``resume`` gets each value exactly once, see Notes.
    store : Store or None
        The file of states and offset; None: nothing is saved.
    batch_size : int
        The number of events that are read at a time. The predictions do not depend on it.
    join : LabelJoin, optional
        For delayed labels; its state is replaced by that of the store. Not for a source of columns.
    sampler : AuditSampler, optional
        Chooses which labels to ask for, among the events that have a score, no label and no
        propensity; give those that are always labelled the propensity 1. An `AuditedCalibrator`
        does not learn labels that come although the sampler did not ask. The state of the sampler
        is replaced by that of the store. It needs a ``join``. Its fields must be fields of the
        calibrator, and its floor at least that of an `AuditedCalibrator`.
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
        If an argument or an event is out of range, ``source`` has fewer events than the store has
        learned, or the store's states have other parameters; all earlier batches are committed.

    Warns
    -----
    UserWarning
        If the source ends, and one of the calibrator's ``fields`` was in no event of the run, or
        labels were not learned since the sampler had not asked for them.

    Notes
    -----
    *Source.* ``read(offset, n)`` returns at most ``n`` events from ``offset`` on, and the same
    events each time. A callable is called once in a run. A generator is refused: it can't go back
    to the store's offset, and the number of events that an earlier run has taken from it is
    unknown. A source of columns, such as a table, has ``read_batch(offset, n)`` in place of
    ``read``; it returns consecutive samples, which were checked, or None at the end.

    A source that has a position of its own beside the number of events, such as the offset of a
    message in Kafka, keeps it in the store: ``commit(offset)`` returns a token of the position of
    the event ``offset``, and ``resume(offset, token)`` goes to that position; None: the store has
    none. ``where(offset)`` returns where an event of the last batch is, in words for an error:
    "partition 0, offset 1234". Without it the error begins with "event" and the offset. A source
    that may wait for long, as for a pipe, may have ``while_waiting(act)``: it is called once, and
    while the source waits it calls ``act`` from time to time, so that commits are made meanwhile.

    *Sink.* After a crash the loop starts again at the last commit, and the sink gets the
    predictions after it again, under the same offsets. A sink that can go back to a commit gets
    each prediction exactly once: ``commit()`` returns a token that is saved with the offset, such
    as the length of a file, and ``resume(token)`` goes back to the state of that commit; None: to
    the start. It may have ``can_commit()``, which returns whether it can make its part of a commit
    now: a file whose last bytes describe all of it can do so only when it is complete. It may have
    ``end()``, which is called when the source has no more events, before the last commit.

    Tokens are JSON. In a store that has none yet, the first ones are saved before anything is read.
    A position that has moved without events is saved when the run ends.

    *Commits* write the changes and wait for the disk. While they have taken more than a quarter of
    the time, the next one is delayed. So large states cost no more than that, and a restart repeats
    more than one batch.

    *Late labels.* With a `LabelJoin` an event may be a score with an id, which is predicted and not
    learned, or a label with the same id: then the calibrator learns the score that was served. If
    it forgets by time, it learns it at the time of the event that came last, which is mostly the
    label.

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
    read = None if callable(getattr(source, "read_batch", None)) else reader_of(source)
    if not callable(sink):
        raise TypeError(
            f"`sink` must be callable, got {shown(sink)}; pass a function of (offset, predictions)"
        )
    if not isinstance(store, Store | None):
        raise TypeError(f"`store` must be a Store or None, got {show_store(store)}")
    if join is not None and not isinstance(join, LabelJoin):
        raise TypeError(f"`join` must be a LabelJoin or None, got {join!r}")
    if store is not None:
        if store.read_only:  # before the sink resumes: it could not write from there
            raise StoreError(f"{store.path} was opened to be read only")
        store.check_count()
    keyed = _as_keyed(calibrator, store)
    _check_sampler(sampler, keyed, join)
    _check_signature(sink, sampler)
    if read is None and join is not None:
        raise ValueError(
            f"`join` must be None where `source` has `read_batch`: it joins events, got {join!r}"
        )
    if store is not None:
        _restore_join(join, store)
        _restore_sampler(sampler, store)
        keyed.revert()

    events = None if read is None else Events(source, read, keyed, join, store, sampler)
    loop = _Loop(source, events, keyed, sink, store, stop)
    loop.run(batch_size)
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
        events: Events | None,
        keyed: KeyedCalibrator,
        sink: Any,
        store: Store | None,
        stop: Callable[[], bool],
    ) -> None:
        self.events, self.sink, self.stop = events, sink, stop
        self.batches: BatchSource = source if events is None else events
        self.keyed, self.store = keyed, store
        self.exact: Any = sink if store is not None and _can_resume(sink) else None
        self.placed: Any = source if store is not None and _can_resume(source) else None
        self.offset = self.committed = 0 if store is None else store.offset
        self.at_boundary, self.has_ended = True, False
        self.pace = Pace()
        if store is not None:
            self._resume(store)
        if callable(getattr(source, "while_waiting", None)):
            source.while_waiting(self._act_while_waiting)

    def _resume(self, store: Store) -> None:
        """Let source and sink continue from their tokens; one that has none gets one now."""
        notes = store.notes
        if self.placed is None and SOURCE in notes:
            raise ValueError(
                "`source` must have `resume`: the store has the position of such a source,"
                f" {notes[SOURCE]}"
            )
        if self.placed is not None:
            self.placed.resume(self.offset, notes.get(SOURCE))
        if self.exact is not None:
            self.exact.resume(notes.get(SINK))
        new_source = self.placed is not None and SOURCE not in notes
        if new_source or (self.exact is not None and SINK not in notes):
            if self._can_commit():
                store.save({}, notes=self._notes(store))

    def _notes(self, store: Store) -> dict[str, Any]:
        """Return the store's notes with new tokens of source and sink."""
        notes = dict(store.notes)
        if self.placed is not None:
            notes[SOURCE] = self.placed.commit(self.offset)
        if self.exact is not None:
            notes[SINK] = self.exact.commit()
        return notes

    def run(self, n: int) -> None:
        """Take batches of ``n`` events until there are no more, or the run is to stop."""
        self.keyed._keep_log(True)
        try:
            while not self.stop() and self._take_batch(n):
                if self.offset != self.committed and self.pace.is_due():
                    self._commit()
        except _StopWaiting:
            pass
        finally:
            if self.at_boundary and (self.has_ended or not self._is_committed(whole=True)):
                self._commit(whole=True)
            self.keyed._keep_log(False)

    def _take_batch(self, n: int) -> bool:
        """Predict and learn up to ``n`` events; return whether there were any."""
        batch = self.batches.read_batch(self.offset, n)
        if batch is None:
            if callable(getattr(self.sink, "end", None)):
                self.sink.end()
                self.has_ended = True
            return False
        self.at_boundary = False
        values = batch.predict_learn(self.keyed)
        if isinstance(batch, EventBatch) and batch.is_audited:
            self.sink(self.offset, values, batch.asked)
        else:
            self.sink(self.offset, values)
        self.offset = batch.end
        self.at_boundary = True
        return True

    def _act_while_waiting(self) -> None:
        """Do what may be due while the source waits."""
        if self.stop():
            raise _StopWaiting
        if self.pace.is_due() and not self._is_committed():
            self._commit()

    def _can_commit(self) -> bool:
        """Return whether there is a store, and the sink can commit now."""
        if self.store is None:
            return False
        asks = callable(getattr(self.exact, "can_commit", None))
        return not asks or bool(self.exact.can_commit())

    def _is_committed(self, whole: bool = False) -> bool:
        """Return whether the store has what is learned, and the position of the source.

        ``whole``: in states, and not in journals.

        A position may move without events, over messages that the source skips.
        """
        if whole and self.keyed._has_journals():
            return False
        return self.offset == self.committed and (
            self.placed is None
            or self.store is None
            or self.placed.commit(self.offset) == self.store.notes.get(SOURCE)
        )

    def _commit(self, whole: bool = False) -> None:
        """Save states and offset, with the sink's token; raise if something else has saved.

        Journals may stand for states, unless ``whole``.
        """
        store = self.store
        if store is None or not self._can_commit():
            return
        with self.pace, self.keyed.locked(), store.locked():
            if store.offset not in (self.committed, self.offset):
                raise StoreError(
                    f"{store.path} was at offset {self.committed} and is at"
                    f" {store.offset}: something else has saved to it during the run"
                )
            states, obsolete = self.keyed._changes(whole)
            if self.events is not None:
                states |= self.events.states()
            # The sink comes after all that may raise: it can't take back what it has written.
            store.save(states, self.offset, notes=self._notes(store), forget=obsolete)
            self.keyed.saved()
            self.committed = self.offset


class _StopWaiting(Exception):  # noqa: N818  (not an error)
    """Ends the waiting of a source when the run is to stop."""


def _as_keyed(calibrator: Any, store: Store | None) -> KeyedCalibrator:
    """Return calibrators by key, on this store."""
    if is_calibrator(calibrator):
        return KeyedCalibrator(partial(copy.deepcopy, calibrator), store=store)
    if not isinstance(calibrator, KeyedCalibrator):
        raise TypeError(
            "`calibrator` must be a Calibrator or KeyedCalibrator, got"
            f" {show_calibrator(calibrator)}"
        )
    if calibrator.store is not store:
        raise ValueError("`calibrator` must have been made with this `store`")
    return calibrator


def _can_resume(part: Any) -> bool:
    """Return whether a source or sink has tokens, see `run`."""
    return hasattr(part, "commit") and hasattr(part, "resume")


def _check_signature(sink: Any, sampler: Any) -> None:
    """Raise unless a sink takes what it will get."""
    given = ["offset", "predictions", "asked"][: 2 if sampler is None else 3]
    try:
        signature = inspect.signature(sink)
    except (TypeError, ValueError):  # of some functions in C
        return
    try:
        signature.bind(*given)
    except TypeError:
        why = "without" if sampler is None else "with"
        raise TypeError(
            f"`sink` must be a function of ({', '.join(given)}) {why} a `sampler`, got one of"
            f" {signature}"
        ) from None


def _check_sampler(sampler: Any, keyed: KeyedCalibrator, join: LabelJoin | None) -> None:
    """Raise unless a run can use a sampler."""
    if sampler is None:
        return
    from streamcal.monitoring.audits import AuditSampler

    if not isinstance(sampler, AuditSampler):
        raise TypeError(f"`sampler` must be an AuditSampler or None, got {shown(sampler)}")
    if join is None:
        raise ValueError("`join` must be given with a `sampler`: its labels come later, got None")
    if not set(sampler.fields) <= set(keyed.fields):
        raise ValueError(
            f"`sampler` must have fields of `calibrator`, {list(keyed.fields)}, got"
            f" {list(sampler.fields)}"
        )
    if not keyed._fresh._learns_shares:
        raise ValueError("`sampler` must have probabilities, but `calibrator` maps other scores")
    if keyed.needs_propensity:
        try:
            keyed.check_propensity(sampler._floor)
        except ValueError as error:
            raise ValueError(f"`sampler` must have a greater `floor`: {error}") from None


def _restore_sampler(sampler: "AuditSampler | None", store: Store) -> None:
    """Give a sampler the state that the store has, or that of a new sampler."""
    if sampler is None:
        return
    stored = type(sampler)(**sampler._parameters())
    if AUDITS in store:
        stored = type(sampler).from_bytes(store.get_bytes(AUDITS))
    if stored._parameters() != sampler._parameters():
        raise ValueError(f"`sampler` must have the parameters of that in {store.path}")
    sampler.__setstate__(stored.__getstate__())


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
