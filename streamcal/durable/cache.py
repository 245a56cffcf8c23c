"""The calibrators of keys: live in memory, compressed in memory, or in a store.

A live calibrator is an object of arrays with room to grow. Compressed bytes take a third of its
memory; a calibrator that is only in the store takes none. The least recently used calibrators are
evicted first.

The changes of a batch must be saved together with its offset; otherwise a restart would learn the
batch twice. So an evicted calibrator with unsaved changes stays in memory, compressed, until
all unsaved states and the offset are written in one transaction.

Others may save to the same store: another cache, `run`, a user's own `Store.save`. So the cache
keeps, for each calibrator in memory, the digest of the stored state from which it continued. If the
store has another state now, the calibrator is read again. If it has unsaved changes, saving them
would overwrite the state of the other writer, so every call is refused until `revert`.
"""

import contextlib
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import pack, restore
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator
from streamcal.durable._journal import Batch
from streamcal.durable._sample_log import BYTES, LEAST, MOST, SampleLog
from streamcal.durable.errors import StoreError
from streamcal.durable.expiry import EXPIRY, Expiry
from streamcal.durable.keys import PREFIX, Groups, key_of, name_of
from streamcal.durable.store import Store
from streamcal.losses import Loss

_PLAIN = {str, int, float, bool, type(None)}  # a value of these types that equals a key is a key


class Live(NamedTuple):
    """A calibrator in memory, and its compiled call for one sample if it has one."""

    calibrator: Calibrator
    predict_learn: Callable[..., float] | None

    @classmethod
    def of(cls, calibrator: Calibrator) -> Self:
        """Return a calibrator with its call."""
        return cls(calibrator, None if calibrator.fields else calibrator._sampler())

    def __reduce__(self) -> tuple[Any, ...]:
        return Live.of, (self.calibrator,)


class Written(NamedTuple):
    """A state in the store: the digest of its row, None if there is none, and its bytes."""

    digest: bytes | None
    size: int


NOT_WRITTEN = Written(None, 0)
MANY = 8  # samples of a key in a batch: in a journal they take about the bytes of a small state
_LEVEL = 1  # level of compression: higher ones are slower and gain little


class CalibratorCache:
    """Calibrators by key, of which a bounded number are live.

    Parameters
    ----------
    fresh : Calibrator or SegmentCalibrator
        A calibrator that has learned nothing; all have its parameters.
    max_live : int or None
        The greatest number of live calibrators; None: no limit.
    store : Store or None
        Where states are saved.
    expire_after : int or None
        See `streamcal.durable.expiry`; None: keys stay.

    Attributes
    ----------
    live : dict
        Calibrators by key, the least recently used one first.
    compressed : dict
        Compressed bytes by key. With a store these are evicted calibrators with unsaved changes.
    """

    def __init__(
        self,
        fresh: Calibrator,
        max_live: int | None,
        store: Store | None,
        expire_after: int | None = None,
    ) -> None:
        self.fresh = fresh
        self.max_live = max_live
        self.store = store
        self.live: OrderedDict[Hashable, Live] = OrderedDict()
        self.compressed: dict[Hashable, bytes] = {}
        self._parameters = _parameters_of(fresh)
        self._unsaved: set[Hashable] = set()  # their states must be written
        self._log = SampleLog()  # what others have learned
        # The next save removes what the store has of these keys; with the digests it had.
        self._forgotten: dict[Hashable, bytes | None] = {}
        self._expiry: Expiry | None = None
        self._offered_expiry: Expiry | None = None
        self._batch: Groups = {}  # the keys of a batch that is being learned, or was interrupted
        self._evicted: set[Hashable] = set()  # of that batch; they may have learned or not
        # The stored states from which calibrators continued, and those being saved.
        self._base: dict[Hashable, Written] = {}
        self._offered: dict[Hashable, Written] = {}
        self._version = -1  # of the store when `_base` was last compared with it
        if store is not None:
            store.check_count()
            self._version = store.version
            self.read_first()  # or it raises, before the first sample does
        self._expiry = None if expire_after is None else Expiry.of(store, expire_after)

    def read_first(self) -> Calibrator | None:
        """Return a calibrator of the store, if it has one."""
        if self.store is None:
            return None
        name = self.store.first_key(PREFIX)
        return None if name is None else self.restore(self.store.get_bytes(name))

    # Keys -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if self.store is None:
            return len(self.live) + len(self.compressed)
        return len({*self._stored_names(), *map(name_of, self._unsaved)})

    def __iter__(self) -> Iterator[Any]:
        self._catch_up()
        here = dict.fromkeys([*self.live, *self.compressed])
        yield from here
        yield from (key for key in map(key_of, self._stored_names()) if key not in here)

    def __contains__(self, key: Hashable) -> bool:
        self._catch_up()
        _check(key)
        if key in self.live or key in self.compressed:
            return True
        return self._is_stored(key)

    def _is_stored(self, key: Hashable) -> bool:
        """Return whether the store has a calibrator of a key, which has not been forgotten."""
        return self.store is not None and key not in self._forgotten and name_of(key) in self.store

    def _stored_names(self) -> list[str]:
        """Return the names of the calibrators in the store, without those that are forgotten."""
        names = [] if self.store is None else self.store.keys()
        forgotten = set(map(name_of, self._forgotten))
        return [name for name in names if name.startswith(PREFIX) and name not in forgotten]

    @property
    def memory_usage(self) -> int:
        """Bytes of memory that calibrators take; O(number of those in memory)."""
        live = sum(calibrator._raw_memory_usage for calibrator, _ in self.live.values())
        return live + sum(map(len, self.compressed.values()))

    # Calibrators ----------------------------------------------------------------------------------

    def find(self, key: Hashable) -> Calibrator | None:
        """Return the calibrator of a key, live from now on; None if it has none."""
        self._catch_up()
        _check(key)
        found = self.find_live(key)
        return None if found is None else found.calibrator

    def find_live(self, key: Hashable) -> Live | None:
        """Do what `find` does, for a key of a batch, which has been checked."""
        found = self.live.get(key)
        if found is None:
            data = self.compressed.get(key)
            calibrator = self._read(key) if data is None else self.restore(zlib.decompress(data))
            if calibrator is None:
                return None
            found = Live.of(calibrator)
            self.make_live(key, found)
        elif self.touch is not None:
            self.touch(key)
        return found

    @property
    def touch(self) -> Callable[[Hashable], None] | None:
        """What marks a live calibrator as just used; None if none is ever evicted."""
        return None if self.max_live is None else self.live.move_to_end

    def _read(self, key: Hashable) -> Calibrator | None:
        """Return the calibrator that the store has; None if it has none."""
        if self.store is None or key in self._forgotten:
            return None
        found = self.store.find(name_of(key))
        if found is None:
            return None
        calibrator = self.restore(found.data)
        digest = found.written if key in self._log.behind else found.digest
        self._base[key] = Written(digest, len(found.data))
        return calibrator

    def _stored_digest(self, key: Hashable) -> bytes | None:
        """Return the digest by which a change of the stored state is noticed."""
        if self.store is None or key in self._forgotten:
            return None
        own = key in self._log.behind  # its journals are those of this cache
        return (self.store.written_digest if own else self.store.digest)(name_of(key))

    def make_live(self, key: Hashable, live: Live) -> None:
        """Make a calibrator live; if there are too many, evict the least recently used one.

        After an interrupt at any statement each calibrator is still live or compressed.
        """
        self.live[key] = live
        self.compressed.pop(key, None)
        if self.max_live is None or len(self.live) <= self.max_live:
            return
        evicted, (least_used, _) = next(iter(self.live.items()))
        if self.store is None or self._is_ahead(evicted):
            # In a run it is soon written.
            level = 0 if self._log.is_on else _LEVEL
            self.compressed[evicted] = zlib.compress(least_used.to_bytes(), level)
            if evicted not in self._unsaved and evicted not in self._log:
                self._evicted.add(evicted)
            self._unsaved.add(evicted)
        else:
            self._base.pop(evicted, None)
        del self.live[evicted]

    def _is_ahead(self, key: Hashable) -> bool:
        """Return whether a calibrator may have learned more than its state in the store."""
        return key in self._unsaved or key in self._log or key in self._batch

    def changed(self, key: Hashable, calibrator: Calibrator) -> None:
        """Mark a calibrator, which may be new, as changed."""
        if key not in self.live:
            self.make_live(key, Live.of(calibrator))
        self._unsaved.add(key)
        if self._expiry is not None:
            self._expiry.used.add(key)

    def reading(self, keys: Collection[Hashable]) -> contextlib.AbstractContextManager[None]:
        """Return a context manager inside which states of keys are read in one transaction."""
        if self.store is None or self.live.keys() >= set(keys):
            return contextlib.nullcontext()
        return self.store.one_moment()

    def begin_batch(self, groups: Groups) -> None:
        """Prepare for the samples of a batch by key."""
        self._catch_up()
        if self._log.n_bytes > 2 * MOST:  # nobody commits
            self._unsaved.update(self._log.drop())
        self._batch = groups
        self._evicted.clear()

    def end_batch(self, batch: Batch, unchanged: AbstractSet[Hashable]) -> None:
        """Mark the calibrators of a batch as changed, but ``unchanged``: they only predicted."""
        log, groups = self._log, batch[0]
        changed = groups.keys() - unchanged
        if self._expiry is not None:
            self._expiry.used |= changed
        # In sets, since there may be a thousand keys. Those that are in the log stay there, if they
        # have few samples in the mean.
        few = len(groups) > 1 and len(batch[1]) < MANY * len(groups)
        known = log.keys.keys() if few else ()
        undecided = changed.difference(known, self._unsaved)
        learned = [key for key in groups if key in undecided and self._is_logged(key, groups[key])]
        self._unsaved |= undecided.difference(learned)
        if log.is_on and not changed <= self._unsaved:
            log.add(batch, learned)
        self._batch = {}
        for key in self._evicted.intersection(unchanged) if self.store is not None else ():
            self._unsaved.discard(key)  # the store has it
            if self.compressed.pop(key, None) is not None:
                self._base.pop(key, None)

    def _is_logged(self, key: Hashable, at: Any) -> bool:
        """Return whether a journal takes fewer bytes for the samples of a key than its state."""
        size = self._base.get(key, NOT_WRITTEN).size
        return self._log.is_on and type(at) is list and BYTES * len(at) < size

    def _settle(self) -> None:
        """Mark the calibrators of an interrupted batch as changed: each may have learned."""
        if self._batch:
            here = (key for key in self._batch if key in self.live or key in self.compressed)
            self._unsaved.update(here)
            if self._expiry is not None:
                self._expiry.used.update(self._batch)
            self._batch = {}

    # Keys that go ---------------------------------------------------------------------------------

    def forget(self, key: Hashable) -> bool:
        """Drop a calibrator; return whether there was one. The next save removes its state."""
        self._catch_up()
        _check(key)
        if key not in self:
            return False
        stored = None if self.store is None else self.store.digest(name_of(key))
        self._drop({key: stored})
        return True

    def parts(self, groups: Groups, y: NDArray[np.float64]) -> Iterator[Groups]:
        """Iterate over the parts of a batch between which keys expire."""
        if self._expiry is None:
            yield groups
            return
        for part, n_learned in self._expiry.parts(groups, y):
            unused = self.unused(n_learned)
            yield part
            self.count_learned(n_learned, unused)

    def unused(self, n: int) -> dict[str, bytes]:
        """Return which keys of the store, with digests, may expire when ``n`` samples are learned.

        It is read before they are: what comes after must not fail.
        """
        expiry = self._expiry
        if expiry is None or self.store is None or n < expiry.n_left:
            return {}
        return self.store.unchanged_since(expiry.mark)

    def count_learned(self, n: int, unused: Mapping[str, bytes]) -> None:
        """Count samples that have been learned; if they end a period, drop the keys that expire.

        A period ends in one step: an interrupt parts neither the count nor the next period from it.
        """
        expiry = self._expiry
        if expiry is None:
            return
        if n < expiry.n_left:
            expiry.count(n)
            return
        if self.store is None:
            here = {*self.live, *self.compressed}
            begun = partial(setattr, self, "_expiry", expiry.next_period(n, 0))
            self._drop(dict.fromkeys(here - expiry.used), begun)
            return
        stay = expiry.used_names()
        gone: dict[Hashable, bytes | None] = {
            key_of(name): digest
            for name, digest in unused.items()
            if name.startswith(PREFIX) and name not in stay
        }
        for key in (*self._unsaved, *self._log.keys):
            if key not in self._base and name_of(key) not in stay:  # the store does not have it
                gone.setdefault(key, None)
        begun = partial(setattr, self, "_expiry", expiry.next_period(n, self.store.n_saves))
        self._drop(gone, begun)

    def _drop(self, dropped: dict[Hashable, bytes | None], *steps: Step) -> None:
        """Drop the calibrators of keys, and all that is known of them but their stored digests.

        Further ``steps`` are taken with it.
        """
        do_all(
            *steps,
            partial(self._forgotten.update, dropped if self.store is not None else {}),
            partial(self._unsaved.difference_update, dropped),
            partial(self._log.behind.difference_update, dropped),
            *_pops(dropped, self._log.keys, self._base, self.compressed, self.live),
        )

    def forgotten(self) -> list[str]:
        """Return the names of states that are to be removed from the store."""
        gone = self._forgotten.keys() - self._unsaved
        return [] if self.store is None else [name_of(key) for key in gone]

    def keep_log(self, on: bool) -> None:
        """From now on, journals may stand for states in `changes`; or never."""
        self._settle()
        self._unsaved.update(self._log.drop())
        behind, self._log = self._log.behind, SampleLog()
        if self.store is None:
            return
        if on:
            self._catch_up()
            self._log.is_on = self._can_learn_again()
            self._look_at_journals(self.store)
            self._rebase(self._log.behind)
        elif self.store.version == self._version:
            with contextlib.suppress(StoreError):  # the error that ends the run says more
                self._rebase(behind)

    def _rebase(self, keys: Iterable[Hashable]) -> None:
        """Take anew the digests of calibrators with which the store agrees."""
        self._base |= {
            key: self._base[key]._replace(digest=self._stored_digest(key))
            for key in keys
            if key in self._base
        }

    @property
    def has_journals(self) -> bool:
        """Whether the store has journals of this cache."""
        return bool(self._log.journals)

    def _look_at_journals(self, store: Store) -> None:
        """Note what the store has in journals."""
        self._log.journals = store.journals()
        behind = set(map(key_of, store.names_in_journals()))
        # Or a commit would write states that are to be removed.
        self._log.behind = behind - self._forgotten.keys()

    def _can_learn_again(self) -> bool:
        """Return whether any process can restore calibrators and teach them samples."""
        fresh = self.fresh
        learns = fresh._learns_times() if fresh.needs_time else fresh._sampler() is not None
        if fresh.fields or not learns:
            return False
        try:
            restore(self.fresh.to_bytes())
        except (TypeError, ValueError):  # its loss is of a user
            return False
        return True

    def changed_in_part(self, key: Hashable) -> None:
        """Mark a calibrator as changed: it may have learned before it raised; no key is added."""
        if key in self.live:
            self._unsaved.add(key)
            if self._expiry is not None:
                self._expiry.used.add(key)

    def restore(self, data: bytes) -> Calibrator:
        """Return a calibrator from its bytes; those of other parameters are refused."""
        loss = getattr(self.fresh, "loss", None)
        given = {"loss": loss} if isinstance(loss, Loss) else {}  # it may be a user's own
        calibrator: Calibrator = restore(data, **given)
        parameters = _parameters_of(calibrator)
        if parameters != self._parameters:
            raise ValueError(
                f"`calibrator` must give the parameters that the states have: {parameters},"
                f" got {self._parameters}"
            )
        return calibrator

    # Store ----------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Drop calibrators whose stored state has changed.

        Raises
        ------
        StoreError
            If one of them has unsaved changes: saving them would overwrite what others have saved.
        """
        self._settle()
        if self.store is None or self.store.version == self._version:
            return
        version, stale = self.store.version, []
        if self._log.is_on:  # a save that was interrupted may have been committed
            self._unsaved.update(self._log.drop())
            self._look_at_journals(self.store)
        for key in [*self.live, *self.compressed]:
            digest, offered = self._stored_digest(key), self._offered.get(key)
            if digest is not None and offered is not None and digest == offered.digest:
                self._base[key] = offered  # a save that was interrupted after its commit
            elif digest != self._base.get(key, NOT_WRITTEN).digest:
                stale.append(key)
        for key, known in self._forgotten.items():
            digest, offered = self.store.digest(name_of(key)), self._offered.get(key)
            if digest not in (None, known, offered and offered.digest):
                raise StoreError(
                    f"the state of {key!r} in {self.store.path} has changed since it was forgotten"
                    " here: `revert` continues from the store"
                )
        for key in stale:
            if key in self._unsaved:
                raise StoreError(
                    f"the state of {key!r} in {self.store.path} has changed since what was learned"
                    " here began: `revert` drops that and continues from the store"
                )
        for key in stale:
            self.live.pop(key, None)
            self.compressed.pop(key, None)  # a save that was interrupted after its commit
            self._base.pop(key, None)
        self._version = version

    def unsaved_states(self) -> dict[str, bytes]:
        """Return the states that have changed since they were saved, by their names."""
        self._catch_up()
        self._unsaved.update(self._log.drop())
        return {**self._states_of(self._unsaved), **self._expiry_to_save()}

    def changes(self, whole: bool) -> tuple[dict[str, Any], list[str]]:
        """Return what a commit writes, by name, and the names that it removes.

        These are states, and a journal. If ``whole``, or if journals have become too large, all
        states are written, and journals removed.
        """
        self._catch_up()
        log = self._log
        n_bytes = log.n_bytes
        # Journals of an earlier period must not be written as states in a later save of this one.
        whole |= self._expiry is not None and not self._expiry.is_noted
        if whole or n_bytes > MOST or (n_bytes > LEAST and n_bytes > self._size_behind()):
            self._unsaved.update(log.drop(), log.behind)
            journal: dict[str, Any] = {}
            obsolete = log.offer_none()
        else:
            journal, obsolete = {**log.offer(self._unsaved)}, []
        written = {**self._states_of(self._unsaved), **journal, **self._expiry_to_save()}
        return written, [*obsolete, *self.forgotten()]

    def _expiry_to_save(self) -> dict[str, bytes]:
        """Return what is kept of keys that expire, by its name; it is being saved."""
        if self._expiry is None or self.store is None:
            return {}
        self._offered_expiry = self._expiry.to_save(self.store.n_saves + 1)
        return {EXPIRY: self._offered_expiry.to_bytes()}

    def _size_behind(self) -> int:
        """Return about how many bytes the states of the keys in journals take."""
        keys = self._log.behind | self._log.keys.keys()
        return sum(self._base[key].size for key in keys if key in self._base)

    def _states_of(self, keys: Iterable[Hashable]) -> dict[str, bytes]:
        """Return the states of keys by their names; they are being saved."""
        states = {}
        for key in keys:
            name = name_of(key)
            if key in self.live:
                data = self.live[key].calibrator.to_bytes()
            elif key in self.compressed:
                data = zlib.decompress(self.compressed[key])
            elif self.store is not None:  # it has not been used since an earlier run ended
                data = self.store.get_bytes(name)
            digest = None if self.store is None else self.store.next_digest(name, data)
            states[name], self._offered[key] = data, Written(digest, len(data))
        return states

    def saved(self) -> None:
        """Mark all states as saved; compressed calibrators leave memory."""
        self._log.saved(self._offered)
        # First, since an interrupt here must not let the next save remove keys that came back.
        self._forgotten.clear()
        self._unsaved.clear()
        if self._offered_expiry is not None:
            self._expiry, self._offered_expiry = self._offered_expiry, None
        if self.store is not None:
            for key in self.compressed:
                self._offered.pop(key, None)
                self._base.pop(key, None)
            self.compressed.clear()
            self._base.update(self._offered)
            if self.store.version == self._version + 1:  # that was this save, and no other
                self._version += 1
        self._offered.clear()

    def revert(self) -> None:
        """Drop all unsaved changes, and calibrators whose stored state has changed."""
        self._settle()
        expiry = self._expiry and Expiry.of(self.store, self._expiry.expire_after)
        self._unsaved.update(self._log.drop())
        do_all(
            *_pops(set(self._unsaved), self._base, self.compressed, self.live),
            partial(setattr, self, "_expiry", expiry),
            self._unsaved.clear,
            self._offered.clear,
            self._forgotten.clear,
        )
        self._catch_up()


def _pops(keys: Collection[Hashable], *mappings: dict[Hashable, Any]) -> Iterator[Step]:
    """Return steps for `do_all` that remove keys from mappings."""
    return (partial(deque, map(known.pop, keys, repeat(None)), 0) for known in mappings)


def _check(key: Hashable) -> None:
    """Raise unless it is a key: `Decimal(1)` is none, though it equals the key 1."""
    kinds = map(type, key) if type(key) is tuple else (type(key),)
    if not _PLAIN.issuperset(kinds):
        name_of(key)


def _parameters_of(calibrator: Calibrator) -> dict[str, Any]:
    """Return class and parameters of a calibrator, for comparisons and messages."""
    packed = {name: pack(value) for name, value in calibrator._parameters().items()}
    return {"class": type(calibrator).__name__, **packed}
