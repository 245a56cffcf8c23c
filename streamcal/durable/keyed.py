"""One calibrator per key, for any number of keys."""

import contextlib
import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._locked import Locked
from streamcal._validation import as_vector, as_weights, check_count, check_order, check_same_length
from streamcal.calibration.base import Calibrator, is_calibrator, show_calibrator
from streamcal.calibration.clock import Time, Times, maker_of
from streamcal.calibration.context import Contexts, FieldValues
from streamcal.calibration.snapshot import Snapshot
from streamcal.calibration.tickets import OtherTicketError, Prediction, Ticket
from streamcal.durable.cache import CalibratorCache, Live
from streamcal.durable.keys import FEW, Groups, are_plain, error_of_key, group, name_of
from streamcal.durable.store import Store, show_store
from streamcal.kernels.exclusive import no_fork
from streamcal.kernels.one_by_one import OneByOne
from streamcal.notebook.card import card

Vector = NDArray[np.float64]

FEW_TIMED = 16  # samples with times, below which calls for each are quicker than arrays


class Samples(NamedTuple):
    """Samples that have been checked.

    Attributes
    ----------
    groups : dict
        The positions of samples by key.
    scores, y, w : ndarray of shape (n_samples,)
        Scores, labels (NaN: unknown) and weights.
    read : ndarray of n_samples rows, or None
        What the calibrator has read in the columns of its fields and of times, if it needs any.
    """

    groups: Groups
    scores: Vector
    y: Vector
    w: Vector
    read: NDArray[Any] | None


class _Timed:
    """The samples of a batch with times, which were checked: `OneByOne` without compiled calls.

    For keys that are new, and for calibrators without such calls. The arrays of one sample would
    take ten times as long as these calls.
    """

    def __init__(self, scores: Vector, y: Vector, w: Vector, times: Times, out: Vector) -> None:
        columns = [column.tolist() for column in (scores, y, w, times.seconds)]
        self._rows = list(zip(*columns, strict=True))
        self._make = maker_of(times.kind) or float
        self._out = out

    def predict_learn(self, calibrator: Calibrator, at: list[int]) -> None:
        """Predict and learn the samples at positions."""
        for i in at:
            score, y, w, seconds = self._rows[i]
            self._out[i] = calibrator.predict_one(score)
            if y == y:
                calibrator.learn_one(score, y, w, t=self._make(seconds))


class KeyedCalibrator(Locked):
    """A calibrator for each key, made when the first sample of the key is learned.

    Parameters
    ----------
    calibrator : Calibrator or callable
        The prototype, which is cloned for each key, or a function without arguments that makes a
        calibrator.
    max_live : int or None
        The greatest number of live calibrators, that is, objects in memory; None: no limit. The
        least recently used one is evicted: to compressed bytes in memory or, if a `save` has
        written it, to the store only.
    store : Store or None
        Where states are saved. A state of an earlier run is read when its key is first used; it
        must have the parameters that ``calibrator`` has.
    expire_after : int or None
        Keys expire: whenever all keys together have learned so many samples, those that have
        learned none of them are forgotten. A key that is used again is then a new one. So a key
        stays for this number of samples after its last one, and at most for twice as many. None:
        keys stay.

    Attributes
    ----------
    n_live, n_compressed : int
        The numbers of calibrators that are objects, and that are compressed bytes in memory.
    fields : tuple of str
        The names of the values that calibrators need as ``x``.
    needs_time : bool
        Whether calibrators need the time ``t`` at which a sample is learned.
    needs_propensity : bool
        Whether they need the ``propensity`` of each label, see `AuditedCalibrator`.

    Raises
    ------
    TypeError
        If ``calibrator`` is no calibrator and makes none; if calibrators can't be written as bytes,
        and there is ``max_live`` or a store; if ``store`` is not a `Store`.
    ValueError
        If ``max_live`` or ``expire_after`` is not a positive int, or the states in the store have
        other parameters.
    StoreError
        If the store has fewer or more states than were saved.

    Notes
    -----
    Keys are strings, numbers, booleans, None, or tuples of these. Values that are equal in Python
    are one key, in the store too: 1, 1.0 and True. NaN, which equals nothing, is not a key.

    A calibrator with ``fields``, such as a `SegmentCalibrator`, needs their values with each
    sample, as ``x``; others take none. One that forgets by time needs the time ``t`` at which each
    sample is learned; others ignore it. The times of all keys are of one kind: with a zone, without
    one, or seconds. Each key ages when it learns.

    Threads may share it: each call is atomic, and the others wait.

    Predicting changes nothing that is learned; it may evict a calibrator. `predict_one` and
    `snapshot` leave a burst of a `HedgedCalibrator` open; `serve_one` closes it.

    If others save to the store under the same keys, their states are read when a key is next used.
    Samples of such a key that were learned here and not saved can't be added to them: all calls
    raise `StoreError` until `revert` forgets these samples.

    A ticket of a calibrator that has been forgotten is ignored, and its label learned without one,
    if the new calibrator of the key has learned fewer samples; later it is used as one of its own.

    *Keys that expire.* A label counts, and so does a group; a prediction does not, unless it closes
    a burst or counts its score. The end of each period reads all keys of a store, so periods should
    be longer than the number of keys. With a store, the count of samples is saved, and a key that
    expires leaves the store by the next save. So a `run` that is continued after a crash lets the
    same keys expire at the same samples. One object with ``expire_after`` may use a store. The
    value may change when a store is opened again.

    Examples
    --------
    >>> from streamcal import IsotonicCalibrator
    >>> keyed = KeyedCalibrator(IsotonicCalibrator(window=200))
    >>> keyed.learn_many(["a", "a", "b"], [0.3, 0.9, 0.9], [0, 1, 0])
    >>> keyed.predict_one("a", 0.9), keyed.predict_one("b", 0.9), keyed.predict_one("c", 0.9)
    (0.5, 0.3333, 0.9)
    >>> len(keyed), list(keyed)
    (2, ['a', 'b'])
    """

    def __init__(
        self,
        calibrator: Calibrator | Callable[[], Calibrator],
        *,
        max_live: int | None = None,
        store: Store | None = None,
        expire_after: int | None = None,
    ) -> None:
        check_count(max_live, "max_live", optional=True)
        check_count(expire_after, "expire_after", optional=True)
        if not callable(calibrator) and not is_calibrator(calibrator):
            raise TypeError(
                f"`calibrator` must be a Calibrator or make one, got {show_calibrator(calibrator)}"
            )
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"`store` must be a Store or None, got {show_store(store)}")
        self.calibrator = calibrator
        self.max_live = max_live
        self.store = store
        self.expire_after = expire_after
        make: Any = calibrator.clone if is_calibrator(calibrator) else calibrator
        self._make: Callable[[], Calibrator] = make
        self._fresh: Calibrator = self._make()
        if not is_calibrator(self._fresh):
            raise TypeError(
                f"`calibrator` must be a Calibrator or make one, got {type(self._fresh).__name__}"
            )
        if max_live is not None or store is not None:
            self._fresh.to_bytes()  # or it raises, before anything has been learned
        self.fields = tuple(self._fresh.fields)
        self.needs_time = bool(self._fresh.needs_time)
        self.needs_propensity = bool(self._fresh.needs_propensity)
        self._logs_times = self.needs_time and not self.fields and self._fresh._learns_times()
        self._cache = CalibratorCache(self._fresh, max_live, store, expire_after)
        self._knows_kind = self._first_of_store() or self._fresh  # of the times of all keys

    # Keys -----------------------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        """Return what a notebook shows; calibrators of the store are not read."""
        facts = {"live calibrators": self.n_live, "compressed": self.n_compressed}
        return card(self, facts)

    def __len__(self) -> int:
        """Return the number of keys that have a calibrator; with a store all keys are read."""
        with self._mutex:
            return len(self._cache)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys, those of the store included."""
        with self._mutex:
            return iter(list(self._cache))

    def __contains__(self, key: Hashable) -> bool:
        with self._mutex:
            return key in self._cache

    @property
    def n_live(self) -> int:
        """The number of calibrators that are objects in memory."""
        return len(self._cache.live)

    @property
    def n_compressed(self) -> int:
        """The number of calibrators that are compressed bytes in memory."""
        return len(self._cache.compressed)

    @property
    def memory_usage(self) -> int:
        """Bytes of memory of the calibrators, without those in the store; O(n_live)."""
        with self._mutex:
            return self._cache.memory_usage

    # Samples --------------------------------------------------------------------------------------

    def predict_one(self, key: Hashable, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated value of a score; for a new key, that of a new calibrator.

        ``x`` has the values of the calibrator's ``fields``.
        """
        given = self._check_x(x)
        with self._mutex:
            # A prediction of the calibrator itself would close an open burst.
            return self._find_or_fresh(key)._without_burst().predict_one(score, **given)

    def serve_one(self, key: Hashable, score: float, x: FieldValues | None = None) -> Prediction:
        """Return `predict_one`, and the ticket to pass back with the label, if one is needed.

        If this closes a burst (see `HedgedCalibrator`), or counts the score (see
        `PriorShiftCalibrator`), the state of the key has changed and must be saved.
        """
        given = self._check_x(x)
        with self._mutex:
            calibrator = self._find_or_fresh(key)
            if not calibrator._has_open_burst():
                return calibrator.serve_one(score, **given)
            if calibrator is self._fresh:  # its state must not change: it is that of all new keys
                calibrator = self._make()
            try:
                served = calibrator.serve_one(score, **given)
                self._cache.changed(key, calibrator)
            except BaseException:
                self._cache.changed_in_part(key)
                raise
            return served

    def learn_one(
        self,
        key: Hashable,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
        propensity: float | None = None,
    ) -> None:
        """Learn a sample of a key; ``ticket`` is that of `serve_one`, if there was one.

        ``t`` is the time at which it is learned, for calibrators that forget by time;
        ``propensity`` the probability with which its label was asked for, for an
        `AuditedCalibrator`.

        Raises
        ------
        ValueError, TypeError
            As the calibrator's own; nothing is learned, and no key is added.
        """
        with self._mutex:
            given = self._check_x(x) | self._check_t(t) | self._check_propensity(propensity)
            calibrator = self._find_or_make(key)
            if ticket is not None and calibrator.makes_tickets:
                given["ticket"] = ticket
            unused = self._cache.unused(1)
            try:
                try:
                    calibrator.learn_one(score, y, w, **given)
                except OtherTicketError:  # of a calibrator that has been forgotten
                    calibrator.learn_one(score, y, w, **given | {"ticket": None})
                self._cache.changed(key, calibrator)
                self._note_kind(calibrator)
                self._cache.count_learned(1, unused)
            except BaseException:
                self._cache.changed_in_part(key)
                raise

    def learn_group(
        self,
        key: Hashable,
        scores: ArrayLike,
        y: ArrayLike,
        w: float = 1.0,
        *,
        x: Sequence[FieldValues] | None = None,
        tickets: Sequence[Any] | None = None,
        t: Time | None = None,
        propensity: float | None = None,
    ) -> None:
        """Learn rows of a key that share an outcome: see `Calibrator.learn_group`.

        Raises
        ------
        ValueError, TypeError
            As the calibrator's own; nothing is learned, and no key is added.
        """
        with self._mutex:
            given = self._check_x(x) | self._check_t(t) | self._check_propensity(propensity)
            calibrator = self._find_or_make(key)
            unused = self._cache.unused(1)
            try:
                try:
                    calibrator.learn_group(scores, y, w, **given, tickets=tickets)
                except OtherTicketError:  # of a calibrator that has been forgotten
                    calibrator.learn_group(scores, y, w, **given)
                self._cache.changed(key, calibrator)
                self._note_kind(calibrator)
                self._cache.count_learned(1, unused)
            except BaseException:
                self._cache.changed_in_part(key)
                raise

    def _check_x(self, x: Any) -> dict[str, Any]:
        """Return the argument of calibrators with fields; raise if it is given without need."""
        if not self.fields:
            if x is not None:
                raise TypeError("`x` must be None: the calibrator has no fields")
            return {}
        if x is None:
            listed = ", ".join(map(repr, self.fields))
            hint = f"; pass x={{{self.fields[0]!r}: …}}"
            raise TypeError(f"`x` must have the values of the fields {listed}, got None{hint}")
        return {"x": x}

    def _check_t(self, t: Any) -> dict[str, Any]:
        """Return the argument of calibrators that forget by time; raise unless it is a time."""
        if not self.needs_time:
            return {}
        self.check_time(t)
        return {"t": t}

    def _check_propensity(self, propensity: Any) -> dict[str, Any]:
        """Return the argument of calibrators that need propensities; raise if it is not one."""
        self.check_propensity(propensity)
        return {"propensity": propensity} if self.needs_propensity else {}

    def check_propensity(self, propensity: Any) -> None:
        """Raise unless `learn_one` accepts a propensity; None where none is needed."""
        self._fresh._read_propensity(propensity)

    def check_time(self, t: Any) -> None:
        """Raise unless `learn_one` accepts a time: a time of the kind of those before."""
        self._knows_kind._read_time(t)

    def _first_of_store(self) -> Calibrator | None:
        """Return a calibrator of the store that knows the kind of times, if there is one."""
        return self._cache.read_first() if self.needs_time else None

    def _note_kind(self, calibrator: Calibrator) -> None:
        """Keep a calibrator that has learned, for `_check_t`: it knows the kind of times."""
        known = self._knows_kind._kind is not None
        if self._knows_kind is self._fresh or (not known and calibrator._kind is not None):
            self._knows_kind = calibrator

    def learn_many(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
    ) -> None:
        """Learn samples in the order given, those of each key in one call."""
        self.predict_learn_many(keys, scores, y, w, x=x, t=t, propensity=propensity)

    def predict_learn_many(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in the order given, those of each key in one call.

        Parameters
        ----------
        keys : sequence of shape (n_samples,)
            The key of each sample.
        scores, y, w : array_like of shape (n_samples,)
            As for `Calibrator.predict_learn_many`; a sample whose label is NaN is only predicted.
        x : mapping or data frame, optional
            A column for each of the calibrator's ``fields``.
        t : sequence of datetime or float, optional
            The time at which each sample is learned, for calibrators that forget by time.
        propensity : array_like of shape (n_samples,), optional
            The probability with which each label was asked for, for an `AuditedCalibrator`.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range or lengths differ; nothing is learned of any key.
        """
        samples = self.check(keys, scores, y, w, x, t, propensity)
        return like_given(self.predict_learn_checked(samples), scores)

    def check(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None,
        x: Any = None,
        t: Any = None,
        propensity: ArrayLike | None = None,
    ) -> Samples:
        """Return the samples for `predict_learn_checked`, or raise."""
        # Copies: another thread may write to the arrays after they are checked.
        vector = np.array(as_vector(scores, "scores"))
        labels = np.array(as_vector(y, "y", finite=False))
        weights = np.array(as_weights(w, len(vector)))
        if self._fresh._learns_shares:
            check_order(scores, vector, labels)
        check_same_length(labels, len(vector), "y")
        if not hasattr(keys, "__len__") or isinstance(keys, set | frozenset | Mapping):
            raise TypeError(f"`keys` must be a sequence, got {type(keys).__name__}")
        if len(keys) != len(vector):
            hint = f"; put a single key into a list, [{keys!r}]" if isinstance(keys, str) else ""
            raise ValueError(
                f"`keys` must have one per score ({len(vector)}), got {len(keys)}{hint}"
            )
        vector = self._fresh._check_known(vector, labels, weights)
        of_labels = self._fresh._read_propensities(propensity, labels)
        read = self.read_contexts(x, t, len(vector), of_labels)
        groups = group(keys)
        if not are_plain(groups):
            for key in groups:
                name_of(key)  # or it raises
        return Samples(groups, vector, labels, weights, read)

    def read_contexts(
        self, x: Any, t: Any, n_samples: int, propensity: Any = None
    ) -> NDArray[Any] | None:
        """Return what `Samples` has of the columns of fields, and of times, or raise."""
        self._check_x(x)
        times = self._knows_kind._read_times(t, n_samples)
        return self._fresh._read_contexts(Contexts(x, None, times, propensity), n_samples)

    def predict_learn_checked(self, samples: Samples) -> Vector:
        """Predict and learn samples, those of each key in order."""
        values = np.empty(len(samples.scores))
        with self._mutex, no_fork:
            for groups in self._cache.parts(samples.groups, samples.y):
                self._predict_learn_groups(samples._replace(groups=groups), values)
        return values

    def _predict_learn_groups(self, samples: Samples, values: Vector) -> None:
        """Do what `predict_learn_checked` does, between two instants at which keys expire."""
        groups, scores, y, w, read = samples
        one_by_one, timed, kind = OneByOne(scores, y, w, values), None, None
        if self._logs_times and read is not None:
            times = Times.unpack(read)
            kind = times.kind
            one_by_one = OneByOne(scores, y, w, values, times.seconds, kind)
        cache = self._cache
        cache.begin_batch(groups)
        others, unchanged = one_by_one.predict_learn_live(groups, cache.live, FEW, cache.touch)
        with cache.reading(others):
            for key in others:
                at, found = groups[key], cache.find_live(key)
                live = found or Live.of(self._make())
                changes = not np.isnan(y[at]).all() or live.calibrator._has_open_burst()
                call = None if kind != live.calibrator._kind else live.predict_learn
                if call is not None and type(at) is list and len(at) < FEW:
                    one_by_one.predict_learn(call, at)
                elif kind is not None and type(at) is list and len(at) < FEW_TIMED:
                    timed = timed or _Timed(scores, y, w, times, values)
                    timed.predict_learn(live.calibrator, at)
                else:
                    at = at if type(at) is slice else np.asarray(at)
                    rows = None if read is None else read[at]
                    values[at] = live.calibrator._predict_learn_read(rows, scores[at], y[at], w[at])
                if not changes:
                    unchanged.add(key)
                    continue
                self._note_kind(live.calibrator)
                if found is None:
                    # A call with a time is there when the first sample has been learned.
                    cache.make_live(key, Live.of(live.calibrator) if kind is not None else live)
        columns = read.T if self._logs_times and read is not None else ()
        cache.end_batch((groups, scores, y, w, *columns), unchanged)

    def forget(self, key: Hashable) -> None:
        """Drop the calibrator of a key, as if it had learned nothing.

        The next save removes its state from the store; `revert` brings it back. A label that
        arrives later makes a new calibrator. SQLite may leave the bytes of the state in free parts
        of the file until these are used again; a `Store.backup` has none of them.

        Raises
        ------
        KeyError
            If the key has no calibrator.

        Examples
        --------
        >>> from streamcal import PlattCalibrator
        >>> keyed = KeyedCalibrator(PlattCalibrator())
        >>> keyed.learn_many(["a", "b"], [0.9, 0.9], [0, 0])
        >>> keyed.forget("a")
        >>> list(keyed), keyed.predict_one("a", 0.9)
        (['b'], 0.9)
        """
        with self._mutex:
            if not self._cache.forget(key):
                raise KeyError(key)

    def forgotten(self) -> list[str]:
        """Return the names in the store of what the next save must remove: keys without state.

        `save` does it. A save of your own passes them on: ``store.save(keyed.states(), offset,
        forget=keyed.forgotten())``.
        """
        with self._mutex:
            return self._cache.forgotten()

    def snapshot(self, key: Hashable) -> Snapshot:
        """Return an immutable copy of the calibrator of a key, for any thread."""
        with self._mutex:
            return self._find_or_fresh(key).snapshot()

    def export(
        self, key: Hashable, format: Literal["json", "sql", "onnx"] | None = None, **options: Any
    ) -> Any:
        """Return the map of a key for another program, as `Calibrator.export` does.

        Raises
        ------
        ValueError, TypeError
            As for `Calibrator.export`; if there is no format, as the key comes first.

        Examples
        --------
        >>> from streamcal import IsotonicCalibrator
        >>> shops = KeyedCalibrator(IsotonicCalibrator())
        >>> shops.learn_many(["north"] * 3, [0.25, 0.5, 0.75], [0, 1, 1])
        >>> shops.export("north", "sql", column="p").count("CASE")
        2
        """
        if format is None:
            raise TypeError(
                f"`export` must have a key and a format, as export('north', 'json'), got {key!r}"
            )
        with self._mutex:
            twin = copy.deepcopy(self._find_or_fresh(key)._without_burst())
        return twin.export(format, **options)

    def _find_or_fresh(self, key: Hashable) -> Calibrator:
        """Return the calibrator of a key, or a new one that must not learn."""
        calibrator = self._find(key)
        return self._fresh if calibrator is None else calibrator

    def _find_or_make(self, key: Hashable) -> Calibrator:
        """Return the calibrator of a key, or a new one for it."""
        calibrator = self._find(key)
        return self._make() if calibrator is None else calibrator

    def _find(self, key: Hashable) -> Calibrator | None:
        """Return the calibrator of a key, None if it has none; raise unless it can be a key."""
        try:
            calibrator = self._cache.find(key)
            if calibrator is None:
                name_of(key)  # or it raises
        except (TypeError, ValueError) as error:
            if (fault := error_of_key(error)) is error:
                raise
            raise fault from None
        return calibrator

    # Store ----------------------------------------------------------------------------------------

    def states(self) -> dict[str, bytes]:
        """Return what has been learned since the last `save`: bytes by their name in the store.

        What has gone since then is `forgotten`.

        Raises
        ------
        StoreError
            If others have saved states of the same keys in the meantime.
        """
        with self._mutex:
            return self._cache.unsaved_states()

    def _changes(self, whole: bool) -> tuple[dict[str, Any], list[str]]:
        """Return what a commit of `run` writes, by name, and the names that it removes.

        A journal may stand for states, see `streamcal.durable._journal`; none does if ``whole``.
        """
        with self._mutex:
            return self._cache.changes(whole)

    def _has_journals(self) -> bool:
        """Return whether the store has journals in place of some states."""
        return self._cache.has_journals

    def _keep_log(self, on: bool) -> None:
        """Let journals stand for states in `_changes`, or never."""
        with self._mutex:
            self._cache.keep_log(on)

    def saved(self) -> None:
        """Mark all `states` as saved; compressed calibrators leave memory."""
        with self._mutex:
            self._cache.saved()

    def revert(self) -> None:
        """Forget what has been learned since the last `save`; without a store, everything.

        States that have changed in the store are read again.
        """
        with self._mutex:
            self._cache.revert()
            self._knows_kind = self._first_of_store() or self._fresh

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager inside which other threads wait to use these calibrators.

        Hold it from `states` to `saved`; otherwise `saved` would also mark what others have learned
        in between. Enter `Store.locked` inside it, never the other way round: all calls here take
        the two locks in this order.

        Examples
        --------
        A store with a state that is not of these calibrators:

        >>> import pathlib, tempfile
        >>> from streamcal import HedgedCalibrator, IsotonicCalibrator
        >>> from streamcal.durable import Store
        >>> folder, hedge = tempfile.TemporaryDirectory(), HedgedCalibrator()
        >>> with Store(pathlib.Path(folder.name, "state.db")) as store:
        ...     keyed = KeyedCalibrator(IsotonicCalibrator(), store=store)
        ...     keyed.learn_one("a user", 0.8, 1)
        ...     with keyed.locked(), store.locked():
        ...         store.save({**keyed.states(), "my hedge": hedge}, offset=1)
        ...         keyed.saved()
        ...     len(store)
        2
        >>> folder.cleanup()
        """
        return self._mutex.block()

    def save(self, offset: int | None = None) -> None:
        """Write what has been learned and the offset to the store, in one transaction.

        Raises
        ------
        StoreError
            If it can't be written, or others have saved states of the same keys in the meantime;
            nothing is lost in memory or in the store.
        ValueError
            If there is no store.
        """
        if self.store is None:
            raise ValueError("`store` must be given to save to, got None")
        with self._mutex, self.store.locked():
            states, forgotten = self._cache.unsaved_states(), self._cache.forgotten()
            self.store.save(states, offset, forget=forgotten)
            self._cache.saved()

    def __repr__(self) -> str:
        stored = "" if self.store is None else f", store={self.store!r}"
        return f"KeyedCalibrator({self.n_live} live, {self.n_compressed} compressed{stored})"
