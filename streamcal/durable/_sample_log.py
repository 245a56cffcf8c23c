"""Which calibrators of a run have changed only by samples, so that a journal can stand for them.

It is kept between two commits: see `streamcal.durable._journal`. A state is written all the same if
that takes fewer bytes than its samples, if something else has changed it, or if it leaves memory.
When journals have become larger than the states of their keys, all these states are written and the
journals removed: so both together cost an event some tens of bytes, and a restart learns a bounded
number of samples again.
"""

from collections.abc import Collection, Container, Hashable, Iterable

from streamcal.durable._journal import Batch, Journal
from streamcal.durable.keys import name_of
from streamcal.durable.rows import JOURNAL

BYTES = 16  # of a sample in a journal, about
# When journals take so many bytes, and more than the states of their keys, these are written; when
# they take MOST, all are.
LEAST, MOST = 2**20, 2**23


class SampleLog:
    """The samples since the last commit, and the keys that have learned nothing else.

    Attributes
    ----------
    is_on : bool
        Whether samples are kept; else all states that change are to be written.
    keys : dict
        The keys whose changes since the last commit are in the log.
    behind : set
        The keys of which the store has samples in journals.
    journals : dict
        The names of the journals in the store, and their bytes.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.keys: dict[Hashable, None] = {}
        self.behind: set[Hashable] = set()
        self.journals: dict[str, int] = {}
        self._batches: list[Batch] = []
        self._n_samples = 0
        self._offered: dict[str, Journal] | None = {}  # what is being saved; None: all states

    def __contains__(self, key: Hashable) -> bool:
        """Return whether the state of a key in the store is older than the calibrator."""
        return key in self.keys or key in self.behind

    @property
    def n_bytes(self) -> int:
        """About how many bytes of journals there are after the next commit."""
        return sum(self.journals.values()) + BYTES * self._n_samples

    def add(self, batch: Batch, learned: Iterable[Hashable]) -> None:
        """Add a batch, of which these keys have learned their samples."""
        self.keys.update(dict.fromkeys(learned))
        self._batches.append(batch)
        self._n_samples += len(batch[1])

    def drop(self) -> list[Hashable]:
        """Forget all samples; return the keys, whose states must be written then."""
        keys = list(self.keys)
        self.keys, self._batches, self._n_samples = {}, [], 0
        return keys

    def offer(self, written: Container[Hashable]) -> dict[str, Journal]:
        """Return a new journal by its name: of the keys whose states are not ``written``."""
        names = {key: name_of(key) for key in self.keys if key not in written}
        self._offered = {}
        if names:
            last = max((int(name.removeprefix(JOURNAL)) for name in self.journals), default=-1)
            self._offered[f"{JOURNAL}{last + 1:016d}"] = Journal.of(self._batches, names)
        return self._offered

    def offer_none(self) -> list[str]:
        """Return the names of all journals: they are removed, and all states written."""
        self._offered = None
        return list(self.journals)

    def saved(self, written: Collection[Hashable]) -> None:
        """Note that what was offered has been saved, and the states of the keys ``written``."""
        if self._offered is None:
            self.journals, self.behind = {}, set()
        else:
            self.journals |= {name: journal.n_bytes for name, journal in self._offered.items()}
            self.behind |= self.keys.keys()
            self.behind.difference_update(written)
        self._offered = {}
        self.drop()
