"""Several processes, each with a part of the keys: which one has a key, and another number of them.

A store has the keys of one process. It can't be split, but the states of its keys can be copied to
the stores of other processes. They fit together if all processes have learned the same events of
the stream, up to one position. A calibrator that is copied then continues as in one process.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from streamcal._validation import MOST_COUNT, check_count
from streamcal.durable.keys import PREFIX, hash_of, key_of, name_of
from streamcal.durable.labels import JOIN, LabelJoin
from streamcal.durable.store import Store


def owner(key: Hashable, n_processes: int) -> int:
    """Return the number of the process that a key belongs to, from 0 to ``n_processes - 1``.

    Keys that are equal belong to the same process, on every machine and in every run.

    Parameters
    ----------
    key : hashable
        A key of a `KeyedCalibrator`.
    n_processes : int
        The number of processes.

    Raises
    ------
    ValueError, TypeError
        If ``key`` is not a key, or ``n_processes`` is not a positive int.

    Examples
    --------
    >>> owner("shop", 8), owner(1, 8), owner(1.0, 8), owner(True, 8)
    (4, 6, 6, 6)
    """
    check_count(n_processes, "n_processes")
    name = name_of(key).removeprefix(PREFIX)
    return hash_of(name.encode()) % n_processes


def copy_keys(
    old: Sequence[Store],
    new: Sequence[Store],
    offsets: Sequence[int],
    *,
    owner: Callable[[Any, int], int] = owner,
) -> int:
    """Copy the calibrators of all keys to new stores, each to that of its owner.

    The old stores stay as they are. Before, all old processes must have ended at the same event of
    the stream: a process that is behind would leave its keys without the events in between.

    Parameters
    ----------
    old : sequence of Store
        The stores of all old processes, which must not be in use.
    new : sequence of Store
        Empty stores, one for each new process.
    offsets : sequence of int
        The offset at which each new store starts: the number of events that its source has before
        the first event to be learned.
    owner : callable
        Gets a key and the number of new stores; returns the number of the store, as `owner` does.

    Returns
    -------
    n_keys : int
        The number of keys.

    Raises
    ------
    ValueError
        If a store of ``new`` is not empty, two old stores have the same key, scores or labels wait
        in an old store to be joined, or ``offsets`` or ``owner`` are out of range; nothing is
        written.
    StoreError
        If a store is damaged or can't be written. The new stores that are written are complete, and
        the others empty: make all of them anew before the next attempt.
    TypeError
        If an argument is not as described.

    Notes
    -----
    The memory needed is that of all states of one new store. What is in a store beside the states
    of keys is not copied: positions of sources and sinks, and the losses for `streamcal watch`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from streamcal import IsotonicCalibrator
    >>> from streamcal.durable import Event, Store, run
    >>> folder = tempfile.TemporaryDirectory()
    >>> events = [Event(0.2, 0, key="shop"), Event(0.9, 1, key="app"), Event(0.6, 1, key="shop")]
    >>> def ignore(offset, predictions):
    ...     pass
    >>> with Store(pathlib.Path(folder.name, "old.db")) as old:
    ...     run(events, IsotonicCalibrator(), ignore, old)
    ...     new = [Store(pathlib.Path(folder.name, f"{number}.db")) for number in range(2)]
    ...     copy_keys([old], new, offsets=[2, 1])  # "shop" has learned two events
    3
    2
    >>> [store.keys() for store in new]
    [['key:"shop"'], ['key:"app"']]
    >>> for store in new:
    ...     store.close()
    >>> folder.cleanup()
    """
    _check_stores(old, "old")
    _check_stores(new, "new")
    _check_new(new, offsets)
    sources: dict[str, Store] = {}
    names: list[list[str]] = [[] for _ in new]
    for store in old:
        for name in _names_of_keys(store):
            key = key_of(name)
            if name in sources:
                raise ValueError(
                    f"`old` must have each key once, got {key!r} in {sources[name].path} and in"
                    f" {store.path}"
                )
            at: Any = owner(key, len(new))
            check_count(at, "owner", least=0, most=len(new) - 1)
            sources[name] = store
            names[at].append(name)
    for store, offset, mine in zip(new, offsets, names, strict=True):
        store.save({name: sources[name].get_bytes(name) for name in mine}, int(offset))
    return len(sources)


def _check_stores(stores: Any, name: str) -> None:
    if not isinstance(stores, Sequence) or not all(isinstance(store, Store) for store in stores):
        raise TypeError(f"`{name}` must be a sequence of Store, got {stores!r}")
    if not stores:
        raise ValueError(f"`{name}` must have at least one Store, got {stores!r}")


def _check_new(stores: Sequence[Store], offsets: Any) -> None:
    """Raise unless all stores can be written and are empty, and have an offset each."""
    for store in stores:
        if store.read_only:
            raise ValueError(f"`new` must be stores to write to, got {store!r}, read only")
        store.check_count()  # or it raises: it is closed, or damaged
        if len(store) or store.offset or store.notes:
            raise ValueError(f"`new` must be empty stores, got {store!r}")
    if len({store.path.resolve() for store in stores}) < len(stores):
        raise ValueError(f"`new` must be different stores, got {stores!r}")
    if not isinstance(offsets, Sequence) or isinstance(offsets, str | bytes):
        raise TypeError(f"`offsets` must be a sequence of ints, got {offsets!r}")
    if len(offsets) != len(stores):
        raise ValueError(f"`offsets` must have one per new store ({len(stores)}), got {offsets!r}")
    for offset in offsets:
        check_count(offset, "offsets", least=0, most=MOST_COUNT)


def _names_of_keys(store: Store) -> list[str]:
    """Return the names of the keys in a store; raise unless it is whole and nothing waits in it."""
    store.check()
    if JOIN in store:
        n_waiting = LabelJoin.from_bytes(store.get_bytes(JOIN)).n_waiting
        if n_waiting:
            raise ValueError(
                f"`old` must be stores in which nothing waits to be joined, got {n_waiting} scores"
                f' and labels in {store.path}; `save({{}}, forget=["{JOIN}"])` drops them'
            )
    names = store.keys()
    return [name for name in names if name.startswith(PREFIX)]
