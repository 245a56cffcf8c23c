"""One calibrator per key, for any number of keys."""

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._locked import Locked
from streamcal._validation import as_vector, as_weights, check_count, check_same_length
from streamcal.calibration.base import predict_learn_known
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.segments import AnyCalibrator, OwnTicket, SegmentCalibrator
from streamcal.durable.cache import CalibratorCache
from streamcal.durable.keys import Groups, group, name_of
from streamcal.durable.store import Store
from streamcal.kernels.exclusive import no_fork
from streamcal.notebook.card import card

Vector = NDArray[np.float64]
Hashes = NDArray[np.uint64]


class Samples(NamedTuple):
    """Samples that have been checked.

    Attributes
    ----------
    groups : dict
        The positions of samples by key.
    scores, y, w : ndarray of shape (n_samples,)
        Scores, labels (NaN: unknown) and weights.
    hashes : ndarray of shape (n_samples, n_fields) or None
        What a `SegmentCalibrator` has read in the columns of its fields.
    """

    groups: Groups
    scores: Vector
    y: Vector
    w: Vector
    hashes: Hashes | None


class KeyedCalibrator(Locked):
    """A calibrator for each key, made when the first sample of the key is learned.

    Parameters
    ----------
    calibrator : Calibrator, SegmentCalibrator or callable
        The prototype, which is cloned for each key, or a function without arguments that makes a
        calibrator.
    max_live : int or None
        The greatest number of live calibrators, that is, objects in memory; None: no limit. The
        least recently used one is evicted: to compressed bytes in memory or, if a `save` has
        written it, to the store only.
    store : Store or None
        Where states are saved. A state of an earlier run is read when its key is first used; it
        must have the parameters that ``calibrator`` has.

    Attributes
    ----------
    n_live, n_compressed : int
        The numbers of calibrators that are objects, and that are compressed bytes in memory.
    fields : tuple of str or None
        The fields of a `SegmentCalibrator`; None for other calibrators.

    Raises
    ------
    TypeError
        If ``calibrator`` is no calibrator and makes none; if calibrators can't be written as bytes,
        and there is ``max_live`` or a store; if ``store`` is not a `Store`.
    ValueError
        If ``max_live`` is not a positive int, or the states in the store have other parameters.
    StoreError
        If the store has fewer or more states than were saved.

    Notes
    -----
    Keys are strings, numbers, booleans, None, or tuples of these. Values that are equal in Python
    are one key, in the store too: 1, 1.0 and True. NaN, which equals nothing, is not a key.

    A `SegmentCalibrator` needs the values of its fields with each sample, as ``x`` or ``columns``;
    other calibrators take none.

    Threads may share it: each call is atomic, and the others wait.

    Predicting changes nothing that is learned; it may evict a calibrator. `predict_one` and
    `snapshot` leave a burst of a `HedgedCalibrator` open; `serve_one` closes it.

    If others save to the store under the same keys, their states are read when a key is next used.
    Samples of such a key that were learned here and not saved can't be added to them: all calls
    raise `StoreError` until `revert` forgets these samples.

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
        calibrator: AnyCalibrator | Callable[[], AnyCalibrator],
        *,
        max_live: int | None = None,
        store: Store | None = None,
    ) -> None:
        check_count(max_live, "max_live", optional=True)
        if not callable(calibrator) and not isinstance(calibrator, AnyCalibrator):
            raise TypeError(f"`calibrator` must be a Calibrator or make one, got {calibrator!r}")
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"`store` must be a Store or None, got {store!r}")
        self.calibrator = calibrator
        self.max_live = max_live
        self.store = store
        self._make = calibrator.clone if isinstance(calibrator, AnyCalibrator) else calibrator
        self._fresh = self._make()
        if not isinstance(self._fresh, AnyCalibrator):
            raise TypeError(
                f"`calibrator` must be a Calibrator or make one, got {type(self._fresh).__name__}"
            )
        if max_live is not None or store is not None:
            self._fresh.to_bytes()  # or it raises, before anything has been learned
        self.fields: tuple[str, ...] | None = None
        if isinstance(self._fresh, SegmentCalibrator):
            self.fields = tuple(self._fresh.fields)
        self._cache = CalibratorCache(self._fresh, max_live, store)

    # Keys ----------------------------------------------------------------------------------------

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

    # Samples -------------------------------------------------------------------------------------

    def predict_one(
        self, key: Hashable, score: float, *, x: Mapping[str, Any] | None = None
    ) -> float:
        """Return the calibrated value of a score; for a new key, that of a new calibrator.

        ``x`` has the values of the fields of a `SegmentCalibrator`.
        """
        given = self._check_x(x)
        with self._mutex:
            calibrator = self._find_or_fresh(key)
            if isinstance(calibrator, HedgedCalibrator):
                calibrator = calibrator._without_burst()  # its prediction would close one
            value: float = calibrator.predict_one(*given, score)
            return value

    def serve_one(
        self, key: Hashable, score: float, *, x: Mapping[str, Any] | None = None
    ) -> tuple[float, OwnTicket | None]:
        """Return `predict_one`, and the ticket to pass back with the label.

        A `HedgedCalibrator` and a `SegmentCalibrator` make tickets; others return None. If this
        closes a burst (see `HedgedCalibrator`), the state of the key has changed and must be saved.
        """
        given = self._check_x(x)
        with self._mutex:
            calibrator = self._find_or_fresh(key)
            served: tuple[float, OwnTicket | None]
            if _has_open_burst(calibrator):
                try:
                    served = calibrator.serve_one(score)
                    self._cache.changed(key, calibrator)
                except BaseException:
                    self._cache.changed_in_part(key)
                    raise
            elif self._makes_tickets(calibrator):
                served = calibrator.serve_one(*given, score)
            else:
                served = calibrator.predict_one(*given, score), None
            return served

    def learn_one(
        self,
        key: Hashable,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: Mapping[str, Any] | None = None,
        served: OwnTicket | None = None,
    ) -> None:
        """Learn a sample of a key; ``served`` is the ticket of `serve_one`, if there was one.

        Raises
        ------
        ValueError, TypeError
            As the calibrator's own; nothing is learned, and no key is added.
        """
        given = self._check_x(x)
        with self._mutex:
            calibrator = self._find_or_make(key)
            ticket = {}
            if served is not None and self._makes_tickets(calibrator):
                ticket = {"served": served}
            try:
                calibrator.learn_one(*given, score, y, w, **ticket)
                self._cache.changed(key, calibrator)
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
        xs: Sequence[Mapping[str, Any]] | None = None,
        served: Sequence[Any] | None = None,
    ) -> None:
        """Learn rows of a key that share an outcome as one sample: `HedgedCalibrator.learn_group`.

        ``xs`` has the values of the fields of each row, for `SegmentCalibrator.learn_group`.

        Raises
        ------
        TypeError
            If calibrators are neither hedges nor segment calibrators.
        ValueError, TypeError
            As the calibrator's own; nothing is learned, and no key is added.
        """
        given = self._check_x(xs, "xs")
        with self._mutex:
            calibrator = self._find_or_make(key)
            if not self._makes_tickets(calibrator):
                raise TypeError(
                    "`calibrator` must be a HedgedCalibrator or a SegmentCalibrator to learn"
                    f" groups, got {type(calibrator).__name__}"
                )
            try:
                calibrator.learn_group(*given, scores, y, w, served=served)
                self._cache.changed(key, calibrator)
            except BaseException:
                self._cache.changed_in_part(key)
                raise

    @staticmethod
    def _makes_tickets(calibrator: Any) -> bool:
        return isinstance(calibrator, HedgedCalibrator | SegmentCalibrator)

    def _check_x(self, x: Any, name: str = "x") -> tuple[Any, ...]:
        """Return the arguments that calibrators take before the score; raise if ``x`` is wrong."""
        self._check_given(x, name)
        return () if self.fields is None else (x,)

    def _check_given(self, values: Any, name: str) -> None:
        """Raise unless values of fields are given where there are fields, and only there."""
        if self.fields is None and values is not None:
            raise TypeError(f"`{name}` must be None: only a SegmentCalibrator has fields")
        if self.fields is not None and values is None:
            listed = ", ".join(map(repr, self.fields))
            raise TypeError(f"`{name}` must have the values of the fields {listed}, got None")

    def learn_many(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        columns: Any = None,
    ) -> None:
        """Learn samples in the order given, those of each key in one call."""
        self.predict_learn_many(keys, scores, y, w, columns=columns)

    def predict_learn_many(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        columns: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in the order given, those of each key in one call.

        Parameters
        ----------
        keys : sequence of shape (n_samples,)
            The key of each sample.
        scores, y, w : array_like of shape (n_samples,)
            As for `Calibrator.predict_learn_many`; a sample whose label is NaN is only predicted.
        columns : mapping or data frame, optional
            The values of the fields, as for `SegmentCalibrator.predict_learn_many`.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range or lengths differ; nothing is learned of any key.
        """
        samples = self.check(keys, scores, y, w, columns)
        return like_given(self.predict_learn_checked(samples), scores)

    def check(
        self,
        keys: Sequence[Hashable],
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None,
        columns: Any = None,
    ) -> Samples:
        """Return the samples for `predict_learn_checked`, or raise."""
        vector = as_vector(scores, "scores")
        labels = as_vector(y, "y", finite=False)
        weights = as_weights(w, len(vector))
        check_same_length(labels, len(vector), "y")
        if len(keys) != len(vector):
            raise ValueError(f"`keys` must have one per score ({len(vector)}), got {len(keys)}")
        if isinstance(self._fresh, SegmentCalibrator):
            vector = self._fresh._check_known(vector, labels, weights)
        else:
            known = ~np.isnan(labels)
            self._fresh._check_samples(vector[known], labels[known], weights[known])
            self._fresh.predict_many(vector[~known])  # or it raises
        hashes = self.read_columns(columns, len(vector))
        groups = group(keys)
        for key in groups:
            name_of(key)  # or it raises
        return Samples(groups, vector, labels, weights, hashes)

    def read_columns(self, columns: Any, n_samples: int) -> Hashes | None:
        """Return what `Samples` has of the columns of fields, or raise."""
        self._check_given(columns, "columns")
        if not isinstance(self._fresh, SegmentCalibrator):
            return None
        return self._fresh._read_columns(columns, n_samples)

    def predict_learn_checked(self, samples: Samples) -> Vector:
        """Predict and learn samples, those of each key in one call."""
        groups, *columns = samples
        values = np.empty(len(samples.scores))
        with self._mutex, no_fork:
            for key, at in groups.items():
                of_key: list[Any] = [None if column is None else column[at] for column in columns]
                values[at] = self._predict_learn_key(key, *of_key)
        return values

    def _predict_learn_key(
        self, key: Hashable, scores: Vector, y: Vector, w: Vector, hashes: Hashes | None
    ) -> Vector:
        calibrator = self._find_or_make(key)
        closes = _has_open_burst(calibrator)
        try:
            if hashes is None:
                values = predict_learn_known(calibrator, scores, y, w)
            else:
                values = calibrator._predict_learn_read(hashes, scores, y, w)
            if closes or not np.isnan(y).all():
                self._cache.changed(key, calibrator)
        except BaseException:
            self._cache.changed_in_part(key)
            raise
        return values

    def snapshot(self, key: Hashable) -> Any:
        """Return an immutable copy of the calibrator of a key, for any thread.

        It is a `Snapshot`; of a `SegmentCalibrator` it is a `SegmentSnapshot`.
        """
        with self._mutex:
            return self._find_or_fresh(key).snapshot()

    def _find_or_fresh(self, key: Hashable) -> Any:
        """Return the calibrator of a key, or a new one that must not learn."""
        calibrator = self._cache.find(key)
        return self._fresh if calibrator is None else calibrator

    def _find_or_make(self, key: Hashable) -> Any:
        """Return the calibrator of a key, or a new one for it."""
        calibrator = self._cache.find(key)
        if calibrator is None:
            name_of(key)  # or it raises
            return self._make()
        return calibrator

    # Store ---------------------------------------------------------------------------------------

    def states(self) -> dict[str, bytes]:
        """Return what has been learned since the last `save`: bytes by their name in the store.

        Raises
        ------
        StoreError
            If others have saved states of the same keys in the meantime.
        """
        with self._mutex:
            return self._cache.unsaved_states()

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

    def locked(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager inside which other threads wait to use these calibrators.

        Hold it from `states` to `saved`. Enter `Store.locked` inside it, never the other way round:
        all calls here take the two locks in this order.
        """
        return self._mutex

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
            self.store.save(self.states(), offset)
            self.saved()

    def __repr__(self) -> str:
        stored = "" if self.store is None else f", store={self.store!r}"
        return f"KeyedCalibrator({self.n_live} live, {self.n_compressed} compressed{stored})"


def _has_open_burst(calibrator: AnyCalibrator) -> bool:
    """Return whether the next prediction of a calibrator changes its state."""
    return isinstance(calibrator, HedgedCalibrator) and calibrator._has_open_burst()
