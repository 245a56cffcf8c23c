"""Which calibrators of a run have changed only by samples, so that a journal can stand for them.

It is kept between two commits: see `streamcal.durable._journal`. A state is written all the same if
that takes fewer bytes than its samples, if something else has changed it, or if it leaves memory.
When journals have become larger than the states of their keys, all these states are written and the
journals removed: so both together cost an event some tens of bytes, and a restart learns a bounded
number of samples again.
"""

from collections.abc import Collection, Container, Hashable

from streamcal.durable._journal import Batch, Journal
from streamcal.durable.keys import name_of
from streamcal.durable.rows import JOURNAL

BYTES = 24  # of a sample in a journal
LEAST, MOST = (
    2**20,
    2**23,
)  # bytes of journals at which states are written, for small and all states


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
        self._taken: dict[Hashable, None] = {}  # keys of the batch that is being learned
        self._batches: list[Batch] = []
        self._n_samples = 0
        self._offered: dict[str, Journal] | None = {}  # what is being saved; None: all states

    def __contains__(self, key: Hashable) -> bool:
        """Return whether the state of a key in the store is older than the calibrator."""
        return key in self.keys or key in self.behind or key in self._taken

    @property
    def is_interrupted(self) -> bool:
        """Whether a batch has been learned in part."""
        return bool(self._taken)

    @property
    def n_bytes(self) -> int:
        """About how many bytes of journals there are after the next commit."""
        return sum(self.journals.values()) + BYTES * self._n_samples

    def take(self, key: Hashable) -> None:
        """Note that a calibrator has learned its samples of the present batch."""
        self._taken[key] = None

    def add(self, batch: Batch) -> None:
        """Add a batch that has been learned."""
        if self._taken:
            self._batches.append(batch)
            self._n_samples += len(batch[1])
            self.keys |= self._taken
            self._taken = {}

    def drop(self) -> list[Hashable]:
        """Forget all samples; return the keys, whose states must be written then."""
        keys = [*self._taken, *self.keys]
        self._taken, self.keys, self._batches, self._n_samples = {}, {}, [], 0
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
