"""One calibrator per key, for as many keys as there are: those in use live, the others parked.

A calibrator in use is an object of arrays with room to grow. One that rests is its bytes,
compressed, in a third of the memory; with a store it rests there, in none. Which ones are in use is
decided by when they were last asked or taught (least recently used ones leave).

Nothing that a batch has taught may reach the store before the batch's offset does, or a restart
would teach it twice. So what leaves with news of its own waits in memory, parked, until `save`
writes all news and the offset in one transaction.

Others may save to the same store: another `KeyedCalibrator`, `engine.run`, a hand. So each
calibrator here is known by the checksum of the state in the store that it goes on from. When that
has changed, the calibrator is read anew; if it has news of its own, which would overwrite what the
others have learned, every call is refused until `revert`.
"""

import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import DIGEST, as_name, pack
from streamcal._validation import as_vector, as_weights, check_same_length, check_window
from streamcal.calibration.base import Calibrator, predict_learn_known
from streamcal.calibration.hedged import HedgedCalibrator, Ticket
from streamcal.calibration.snapshot import Snapshot
from streamcal.durable.store import Store, StoreError
from streamcal.losses import Loss

PREFIX = "key:"
"""What the names of calibrators in a store begin with; the rest is the key as JSON."""
_LEVEL = 1  # of compression: more takes longer and gains little

Vector = NDArray[np.float64]
Groups = dict[Any, Any]
"""Positions of samples by key: arrays, or a slice."""


class KeyedCalibrator:
    """A calibrator for each key, made when the key is first taught.

    Parameters
    ----------
    make : Calibrator or callable
        The prototype, which is cloned for each key, or what makes a calibrator without arguments.
    max_keys : int or None
        How many calibrators are in use at most; None: all. The least recently used one is parked:
        in memory as compressed bytes or, when a `save` has written it, in the store alone.
    store : Store or None
        Where states are kept. Those of an earlier run are found there, key by key when needed; they
        must have the parameters that ``make`` gives.

    Attributes
    ----------
    n_live, n_parked : int
        How many calibrators are objects in memory, and how many are bytes in memory.

    Raises
    ------
    TypeError
        If ``make`` makes no calibrators, or ones that bytes do not hold where they are to be
        parked; if ``store`` is no store.
    ValueError
        If ``max_keys`` is not a positive int, or what the store has is of other parameters.

    Notes
    -----
    Keys are strings, numbers, booleans, None, or tuples of these. Those that are equal in Python
    are one key, in the store too: 1, 1.0 and True. NaN, which equals nothing, is no key.

    Asking for a value changes nothing that is learned; it may change what is parked.

    What others save to the store under the same keys is read when a key is next used. Samples that
    were learned here in the meantime and not saved can't be added to it: then all calls raise
    `StoreError` until `revert` forgets them.

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
        make: Calibrator | Callable[[], Calibrator],
        *,
        max_keys: int | None = None,
        store: Store | None = None,
    ) -> None:
        check_window(max_keys, "max_keys")
        if not callable(make) and not isinstance(make, Calibrator):
            raise TypeError(f"`make` must be a Calibrator or make one, got {make!r}")
        if store is not None and not isinstance(store, Store):
            raise TypeError(f"`store` must be a Store or None, got {store!r}")
        self.make = make
        self.max_keys = max_keys
        self.store = store
        self._make = make.clone if isinstance(make, Calibrator) else make
        self._fresh = self._make()
        if not isinstance(self._fresh, Calibrator):
            raise TypeError(
                f"`make` must be a Calibrator or make one, got {type(self._fresh).__name__}"
            )
        if max_keys is not None or store is not None:
            self._fresh.to_bytes()  # or it raises, before anything has been learned
        self._live: OrderedDict[Hashable, Calibrator] = OrderedDict()
        self._parked: dict[Hashable, bytes] = {}
        self._news: set[Hashable] = set()  # what the store does not know yet
        self._base: dict[Hashable, bytes] = {}  # the checksums in the store of what they go on from
        self._offered: dict[Hashable, bytes] = {}  # and of what is being saved
        self._version = -1 if store is None else store.version  # the store's, when they were right
        self._parameters = _parameters(self._fresh)
        if store is not None:
            for name in islice(self._stored_names(), 1):
                self._restore(store.get_bytes(name))  # or it raises, before the first sample does

    # Keys ----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of keys that have a calibrator, wherever it is."""
        if self.store is None:
            return len(self._live) + len(self._parked)
        stored = sum(1 for _ in self._stored_names())
        return stored + sum(name_of(key) not in self.store for key in self._news)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys, those of the store included."""
        self._catch_up()
        here = dict.fromkeys([*self._live, *self._parked])
        yield from here
        for name in self._stored_names():
            key = key_of(name)
            if key not in here:
                yield key

    def __contains__(self, key: Hashable) -> bool:
        self._catch_up()
        if key in self._live or key in self._parked:
            return True
        return self.store is not None and name_of(key) in self.store

    @property
    def n_live(self) -> int:
        """How many calibrators are in use."""
        return len(self._live)

    @property
    def n_parked(self) -> int:
        """How many are compressed bytes in memory."""
        return len(self._parked)

    @property
    def memory_usage(self) -> int:
        """Bytes of memory that calibrators take, those in the store not counted; O(n_live)."""
        live = sum(calibrator._raw_memory_usage for calibrator in self._live.values())
        return live + sum(len(data) for data in self._parked.values())

    # Samples -------------------------------------------------------------------------------------

    def predict_one(self, key: Hashable, score: float) -> float:
        """Return the calibrated value of a score; for a key not seen, what a new one answers."""
        calibrator = self._find(key)
        return (self._fresh if calibrator is None else calibrator).predict_one(score)

    def serve_one(self, key: Hashable, score: float) -> tuple[float, Ticket | None]:
        """Return `predict_one`, and the ticket that a `HedgedCalibrator` wants with the label."""
        calibrator = self._find(key)
        calibrator = self._fresh if calibrator is None else calibrator
        if isinstance(calibrator, HedgedCalibrator):
            return calibrator.serve_one(score)
        return calibrator.predict_one(score), None

    def learn_one(
        self,
        key: Hashable,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        served: Ticket | None = None,
    ) -> None:
        """Learn a sample of a key; ``served`` is the ticket of `serve_one`, if there was one.

        Raises
        ------
        ValueError, TypeError
            As the calibrator's own; nothing is learned, and no key is added.
        """
        calibrator = self._find_or_make(key)
        try:
            if served is not None and isinstance(calibrator, HedgedCalibrator):
                calibrator.learn_one(score, y, w, served=served)
            else:
                calibrator.learn_one(score, y, w)
            self._learned(key, calibrator)
        except BaseException:
            self._learned_in_part(key)
            raise

    def learn_many(
        self, keys: Sequence[Hashable], scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
    ) -> None:
        """Learn samples in the order given; of each key in one call."""
        self.predict_learn_many(keys, scores, y, w)

    def predict_learn_many(
        self, keys: Sequence[Hashable], scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in the order given; of each key in one call.

        Parameters
        ----------
        keys : sequence of shape (n_samples,)
            The key of each sample.
        scores, y, w : array_like of shape (n_samples,)
            As for `Calibrator.predict_learn_many`; a sample whose label is NaN is only predicted.

        Raises
        ------
        ValueError, TypeError
            If an argument is out of range or lengths differ; nothing is learned of any key.
        """
        groups, *samples = self.check(keys, scores, y, w)
        return self.predict_learn_groups(groups, *samples)

    def check(
        self, keys: Sequence[Hashable], scores: ArrayLike, y: ArrayLike, w: ArrayLike | None
    ) -> tuple[Groups, Vector, Vector, Vector]:
        """Return the positions of samples by key, and scores, labels and weights, or raise."""
        vector = as_vector(scores, "scores")
        labels = as_vector(y, "y", finite=False)
        weights = as_weights(w, len(vector))
        check_same_length(labels, len(vector), "y")
        if len(keys) != len(vector):
            raise ValueError(f"`keys` must have one per score ({len(vector)}), got {len(keys)}")
        known = ~np.isnan(labels)
        self._fresh._check_samples(vector[known], labels[known], weights[known])
        self._fresh.predict_many(vector[~known])  # or it raises
        groups = group(keys)
        for key in groups:
            name_of(key)  # or it raises
        return groups, vector, labels, weights

    def predict_learn_groups(
        self,
        groups: Groups,
        scores: Vector,
        y: Vector,
        w: Vector,
    ) -> Vector:
        """Predict and learn samples whose positions by key are known, and whose values are good."""
        values = np.empty(len(scores))
        for key, at in groups.items():
            calibrator = self._find_or_make(key)
            try:
                values[at] = predict_learn_known(calibrator, scores[at], y[at], w[at])
                if not np.isnan(y[at]).all():
                    self._learned(key, calibrator)
            except BaseException:
                self._learned_in_part(key)
                raise
        return values

    def snapshot(self, key: Hashable) -> Snapshot:
        """Return an immutable view of the calibrator of a key, for any thread; see `Snapshot`."""
        calibrator = self._find(key)
        return (self._fresh if calibrator is None else calibrator).snapshot()

    # Memory and store ----------------------------------------------------------------------------

    def _find(self, key: Hashable) -> Calibrator | None:
        """Return the calibrator of a key, in use from now on; None if it has none."""
        if self.store is not None and self.store.version != self._version:
            self._catch_up()
        try:
            calibrator = self._live.get(key)
        except TypeError:
            raise _no_key(key) from None
        if calibrator is not None:
            if self.max_keys is not None:
                self._live.move_to_end(key)
            return calibrator
        if key in self._parked:
            calibrator = self._restore(zlib.decompress(self._parked[key]))
            del self._parked[key]
        elif self.store is not None and name_of(key) in self.store:
            data = self.store.get_bytes(name_of(key))
            calibrator = self._restore(data)
            self._base[key] = data[-DIGEST:]
        else:
            return None
        self._keep(key, calibrator)
        return calibrator

    def _catch_up(self) -> None:
        """Let go of calibrators that the store has other states of by now.

        Raises
        ------
        StoreError
            If one of them has news: saving it would overwrite what others have learned.
        """
        if self.store is None or self.store.version == self._version:
            return
        version, stale = self.store.version, []
        for key in {**self._live, **self._parked}:
            digest = self.store.digest(name_of(key))
            if digest is not None and digest == self._offered.get(key):
                self._base[key] = digest  # a save that was interrupted after it was done
            elif digest != self._base.get(key):
                stale.append(key)
        for key in stale:
            if key in self._news:
                raise StoreError(
                    f"the state of {key!r} in {self.store.path} has changed since what was learned"
                    " here began: `revert` forgets that and goes on from the store"
                )
        for key in stale:
            self._live.pop(key, None)
            self._base.pop(key, None)
        self._version = version

    def _find_or_make(self, key: Hashable) -> Calibrator:
        calibrator = self._find(key)
        if calibrator is None:
            name_of(key)  # or it raises
            return self._make()
        return calibrator

    def _restore(self, data: bytes) -> Calibrator:
        """Return a calibrator from its bytes; those of other parameters are refused."""
        loss = getattr(self._fresh, "loss", None)
        given = {"loss": loss} if isinstance(loss, Loss) else {}  # it may be a user's own
        calibrator = Calibrator.from_bytes(data, **given)
        parameters = _parameters(calibrator)
        if parameters != self._parameters:
            raise ValueError(
                f"`make` must give the parameters that the states have: {parameters},"
                f" got {self._parameters}"
            )
        return calibrator

    def _stored_names(self) -> Iterator[str]:
        """Iterate over the names of keys in the store."""
        names = [] if self.store is None else self.store.keys()
        return (name for name in names if name.startswith(PREFIX))

    def _keep(self, key: Hashable, calibrator: Calibrator) -> None:
        self._live[key] = calibrator
        if self.max_keys is not None and len(self._live) > self.max_keys:
            rested, resting = self._live.popitem(last=False)
            if rested in self._news or self.store is None:
                self._parked[rested] = zlib.compress(resting.to_bytes(), _LEVEL)
            else:
                self._base.pop(rested, None)

    def _learned(self, key: Hashable, calibrator: Calibrator) -> None:
        self._news.add(key)
        if key not in self._live:
            self._keep(key, calibrator)

    def _learned_in_part(self, key: Hashable) -> None:
        """Count as news what a calibrator may have learned before it raised: `revert` drops it."""
        if key in self._live:
            self._news.add(key)

    def states(self) -> dict[str, bytes]:
        """Return what has been learned since the last `save`: bytes by their name in the store.

        Raises
        ------
        StoreError
            If others have saved states of the same keys in the meantime.
        """
        self._catch_up()
        changed = {}
        for key in self._news:
            calibrator = self._live.get(key)
            if calibrator is None:
                data = zlib.decompress(self._parked[key])
            else:
                data = calibrator.to_bytes()
            changed[name_of(key)] = data
            self._offered[key] = data[-DIGEST:]
        return changed

    def saved(self) -> None:
        """Take note that all `states` are in the store: what is parked can leave memory."""
        self._news.clear()
        if self.store is not None:
            for key in self._parked:
                self._offered.pop(key, None)
                self._base.pop(key, None)
            self._parked.clear()
            self._base.update(self._offered)
            if self.store.version == self._version + 1:  # that was this save, and no other
                self._version += 1
        self._offered.clear()

    def revert(self) -> None:
        """Forget what has been learned since the last `save`; without a store, everything.

        What the store has is read anew where it has changed.
        """
        for key in self._news:
            self._live.pop(key, None)
            self._parked.pop(key, None)
            self._base.pop(key, None)
        self._news.clear()
        self._offered.clear()
        self._catch_up()

    def save(self, offset: int | None = None) -> None:
        """Write all news and the offset to the store, in one transaction.

        Raises
        ------
        StoreError
            If it can't be written, or others have saved states of the same keys in the meantime;
            nothing is lost, here or there.
        ValueError
            If there is no store.
        """
        if self.store is None:
            raise ValueError("`store` must be given to save to, got None")
        with self.store.alone():
            self.store.save(self.states(), offset)
            self.saved()

    def __repr__(self) -> str:
        return f"KeyedCalibrator({len(self)} keys, {self.n_live} live, {self.n_parked} parked)"


def group(keys: Iterable[Hashable]) -> Groups:
    """Return the distinct keys in the order they appear, each with the positions of its samples.

    Examples
    --------
    >>> group(["b", "a", "b"])
    {'b': array([0, 2]), 'a': array([1])}
    """
    places: dict[Any, list[int]] = {}
    for at, key in enumerate(np.asarray(keys).tolist() if hasattr(keys, "dtype") else keys):
        try:
            places.setdefault(key, []).append(at)
        except TypeError:
            raise _no_key(key) from None
    return {key: np.array(at, np.intp) for key, at in places.items()}


def name_of(key: Hashable) -> str:
    """Return the name of a key in the store: the same for keys that are equal.

    Raises
    ------
    TypeError
        If it is no string, number, boolean, None, or tuple of these.
    ValueError
        If it is NaN.

    Examples
    --------
    >>> name_of(("a", True, None)), name_of(("a", 1.0, None)), name_of("1")
    ('key:["a", 1, null]', 'key:["a", 1, null]', 'key:"1"')
    """
    return PREFIX + json.dumps(_plain(key))


def _plain(key: Any) -> Any:
    """Return what JSON can hold of a key: tuples as lists, whole numbers as ints."""
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, tuple):
        return [_plain(part) for part in key]
    if isinstance(key, float) and key != key:
        raise ValueError("`keys` must be equal to themselves, got nan")
    if isinstance(key, bool) or (isinstance(key, float) and key.is_integer()):
        return int(key)
    if key is None or isinstance(key, str | int | float):
        return key
    raise _no_key(key)


def key_of(name: str) -> Any:
    """Return the key of a name, or one that is equal to it."""
    return as_name(_as_key(json.loads(name.removeprefix(PREFIX))), "keys", none=True)


def _as_key(plain: Any) -> Any:
    return tuple(map(_as_key, plain)) if isinstance(plain, list) else plain


def _no_key(key: Any) -> TypeError:
    return TypeError(f"`keys` must be strings, numbers, booleans, None or tuples, got {key!r}")


def _parameters(calibrator: Calibrator) -> dict[str, Any]:
    """Return class and parameters of a calibrator, to be compared and shown."""
    packed = {name: pack(value) for name, value in calibrator._parameters().items()}
    return {"class": type(calibrator).__name__, **packed}
