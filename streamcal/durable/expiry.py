"""Which keys expire: those that have learned nothing for a whole period.

A period ends whenever all keys together have learned a given number of samples. Then the keys go
that have learned none of them. So a key lives for one to two periods after its last sample.

Nothing is kept for each key. Each row of a store has the number of the save that wrote it. When a
period has begun, the next save notes its own number as the `mark`, and the keys that have learned
in this period already. From then on, a key has learned in this period if a later save has written
its state, or samples of it in a journal, or if it has learned since the last save. This is the same
after a restart, so a run that is continued lets the same keys expire at the same samples.
"""

from collections.abc import Hashable, Iterator
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, Stateful, array_of, as_int, nest
from streamcal._validation import check_count
from streamcal.durable.keys import Groups, cut, name_of
from streamcal.durable.store import Store

EXPIRY = "expiry"
"""The name of this record among the states of a store."""


class Expiry(Stateful):
    """The period that has begun, and which keys have learned in it.

    Parameters
    ----------
    expire_after : int
        The length of a period: a number of samples of all keys.

    Attributes
    ----------
    n_learned : int
        How many samples have been learned.
    mark : int
        The last save that may have written a key which has not learned in this period.
    is_noted : bool
        Whether ``mark`` is a save of this period; else the next one will be.
    before_mark : set of str
        The names of the keys that had learned in this period when ``mark`` was noted.
    used : set
        The keys that have learned in this period since the last save.

    Examples
    --------
    >>> expiry = Expiry(3)
    >>> expiry.count(2)
    >>> expiry.n_left
    1
    """

    def __init__(self, expire_after: int) -> None:
        check_count(expire_after, "expire_after")
        self.expire_after = expire_after
        self.n_learned = 0
        self.mark = 0
        self.is_noted = False
        self.before_mark: set[str] = set()
        self.used: set[Hashable] = set()

    @classmethod
    def of(cls, store: Store | None, expire_after: int) -> Self:
        """Return what a store has noted; else a first period, which begins now."""
        if store is None or EXPIRY not in store:
            expiry = cls(expire_after)
            expiry.mark = 0 if store is None else store.n_saves
            return expiry
        expiry = cls.from_bytes(store.get_bytes(EXPIRY))
        expiry.expire_after = expire_after  # it may have been another one
        return expiry

    @property
    def n_left(self) -> int:
        """How many samples there are until this period ends."""
        return self.expire_after - self.n_learned % self.expire_after

    def parts(self, groups: Groups, y: NDArray[np.float64]) -> Iterator[tuple[Groups, int]]:
        """Iterate over the parts of a batch that end with a period, and their numbers of labels.

        The caller counts the labels of each part before it asks for the next one.
        """
        (learned,) = np.nonzero(~np.isnan(y))
        ends = (learned[self.n_left - 1 :: self.expire_after] + 1).tolist()
        if not ends:
            yield groups, len(learned)
            return
        if ends[-1] < len(y):
            ends.append(len(y))
        counts = np.searchsorted(learned, ends).tolist()
        for part, before, after in zip(cut(groups, ends), [0, *counts], counts, strict=False):
            yield part, after - before

    def count(self, n: int) -> None:
        """Count samples that have been learned, fewer than are left of this period."""
        self.n_learned += n

    def next_period(self, n: int, n_saves: int) -> "Expiry":
        """Return the period that begins when ``n`` more samples are learned, after these saves."""
        begun = Expiry(self.expire_after)
        begun.n_learned, begun.mark = self.n_learned + n, n_saves
        return begun

    def used_names(self) -> set[str]:
        """Return the names of keys that have learned in this period, but those saved later."""
        return self.before_mark | set(map(name_of, self.used))

    def to_save(self, n_saves: int) -> "Expiry":
        """Return what the save of this number writes, and what holds when it is done."""
        if not self.is_noted:
            self.mark = n_saves  # also if an interrupt hides that it is done
        saved = Expiry(self.expire_after)
        saved.n_learned, saved.mark, saved.is_noted = self.n_learned, self.mark, True
        saved.before_mark = self.before_mark if self.is_noted else self.used_names()
        return saved

    def _freeze(self) -> tuple[Fields, Arrays]:
        names = "\n".join(sorted(self.before_mark)).encode()  # JSON, so without line breaks
        return {"n_learned": self.n_learned, "mark": self.mark}, {"names": nest(names)}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        names = array_of(arrays, "names", None, dtype=np.uint8).tobytes().decode()
        self.n_learned = as_int(fields["n_learned"], "n_learned")
        self.mark, self.is_noted = as_int(fields["mark"], "mark"), True
        self.before_mark = set(names.split("\n")) if names else set()
