"""The samples that calibrators of a store have learned since their states were written.

A commit of `run` that has learned a few samples of each of a thousand keys would write a thousand
states. It writes these samples instead, as one `Journal`: a row of the store beside the states,
under a name that begins with `JOURNAL`. Whoever reads a state from the store gets what it is after
these samples: they are learned again, by the same calls, so the state is the same to the last bit.
(On a machine with another processor the last digits of such a state may differ. At the end of a run
all states are written.)

Each row of the store has the number of the save that wrote it. A journal counts for a state if it
is newer. So a state that is written replaces all that journals have of its key.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, Stateful, are_in, array_of, nest, require, restore
from streamcal.calibration.base import Calibrator, predict_learn_known
from streamcal.durable.rows import JOURNAL, Head, check_row, hash_of
from streamcal.kernels.sqlite import Connection

Vector = NDArray[np.float64]


Batch = tuple[Mapping[Any, Sequence[int]], Vector, *tuple[Vector, ...]]
"""The positions of samples by key, and the columns of `Samples`: three, or five with times."""


class Samples(NamedTuple):
    """Samples of one key: arrays of shape ``(n_samples,)``. A label may be NaN: it is unknown.

    Calibrators that forget by time also have the two columns of `Times.pack`.
    """

    scores: Vector
    y: Vector
    w: Vector
    seconds: Vector | None = None
    kinds: Vector | None = None


class Journal(Stateful):
    """The samples that keys have learned between two commits.

    Attributes
    ----------
    names : list of str
        The names of the keys in the store.
    counts : ndarray of shape (n_keys,)
        How many samples each of them has learned.
    columns : ndarray of shape (3, n_samples) or (5, n_samples)
        The columns of `Samples`: those of the first key in order, then those of the second.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts: NDArray[np.intp] = np.empty(0, np.intp)
        self.columns: NDArray[np.float64] = np.empty((3, 0))

    @classmethod
    def of(cls, batches: Iterable[Batch], names: Mapping[Any, str]) -> Self:
        """Return what the keys that have ``names`` have learned in batches, in this order."""
        journal = cls()
        numbers = {key: at for at, key in enumerate(names)}
        journal.names = list(names.values())
        key_of_sample, columns = [], []
        for groups, *samples in batches:
            # Keys without a number come last; there are few of them.
            given = list(map(numbers.get, groups, repeat(len(numbers))))
            key_of_sample.append(np.repeat(given, list(map(len, groups.values()))))
            columns.append(np.stack(samples)[:, list(chain.from_iterable(groups.values()))])
        all_keys, all_columns = np.concatenate(key_of_sample), np.concatenate(columns, axis=1)
        order = np.argsort(all_keys, kind="stable")
        counts = np.bincount(all_keys, minlength=len(numbers) + 1)[: len(numbers)]
        journal.counts, journal.columns = counts, all_columns[:, order[: counts.sum()]]
        return journal

    @property
    def n_bytes(self) -> int:
        """About how many bytes it takes."""
        n_columns, n_samples = self.columns.shape
        return int((9 if n_columns == 3 else 18) * n_samples + sum(map(len, self.names)))

    def by_name(self) -> Iterator[tuple[str, Samples]]:
        """Iterate over names and their samples."""
        ends = np.cumsum(self.counts).tolist()
        for name, start, end in zip(self.names, [0, *ends], ends, strict=False):
            yield name, Samples(*self.columns[:, start:end])

    def _freeze(self) -> tuple[Fields, Arrays]:
        scores, y, w, *times = self.columns
        arrays = {
            "names": nest("\n".join(self.names).encode()),  # JSON, so without line breaks
            "counts": _packed(self.counts.astype(np.float64)),
            "scores": scores,
            "labels": _packed(y),
        }
        if times:
            arrays |= {"seconds": times[0], "kinds": _packed(times[1])}
        return {}, arrays if (w == 1.0).all() else {**arrays, "weights": w}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self.names = array_of(arrays, "names", None, dtype=np.uint8).tobytes().decode().split("\n")
        counts = _unpacked(arrays, "counts", len(self.names))
        scores = array_of(arrays, "scores", None)
        n_samples = len(scores)
        require(((counts >= 1.0) & (counts <= n_samples)).all(), "each key must have samples")
        self.counts = counts.astype(np.intp)
        require(self.counts.sum() == n_samples, "samples must be as many as counted")
        y = _unpacked(arrays, "labels", n_samples)
        w = array_of(arrays, "weights", n_samples) if "weights" in arrays else np.ones(n_samples)
        self.columns = np.stack([scores, y, w])
        if "seconds" in arrays:
            seconds = array_of(arrays, "seconds", n_samples)
            kinds = _unpacked(arrays, "kinds", n_samples)
            require(are_in(kinds, np.arange(3.0)).all(), "times must be of a kind")
            require((kinds == kinds[0]).all(), "times must be of one kind")
            self.columns = np.stack([scores, y, w, seconds, kinds])


_NAN = 255  # the byte that stands for NaN


def _packed(values: NDArray[np.float64]) -> NDArray[Any]:
    """Return numbers in bytes, if all of them are whole, small or NaN; else as they are.

    -0.0 is no such number: a byte would lose its sign.
    """
    known = np.where(np.isnan(values), 0.0, values)
    fits = (known >= 0.0) & (known < _NAN) & (known == np.floor(known)) & ~np.signbit(known)
    if not fits.all():
        return values
    return np.where(np.isnan(values), _NAN, known).astype(np.uint8)


def _unpacked(arrays: Arrays, name: str, n: int) -> NDArray[np.float64]:
    """Return the argument of `_packed`."""
    if name in arrays and arrays[name].dtype == np.uint8:
        small = array_of(arrays, name, n, dtype=np.uint8)
        return np.where(small == _NAN, np.nan, small.astype(np.float64))
    return array_of(arrays, name, n, finite=False)


class Part(NamedTuple):
    """The samples of a key in a journal, the save that wrote it, and the digest of its row."""

    n_saves: int
    digest: bytes
    samples: Samples


_NAME = re.compile(JOURNAL + "[0-9]{16}")


class JournalIndex:
    """The journals of a store, by key; those that have been read are not read again.

    Attributes
    ----------
    sizes : dict
        How many bytes each journal takes, by name.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self._digests: dict[str, bytes] = {}  # of the rows that were read, by name
        self._parts: dict[str, list[Part]] = {}  # by the name of a key, in the order of saves
        self._head = b""  # its digest at the last `update`; empty after one that was interrupted

    def update(self, database: Connection, head: Head) -> None:
        """Read the journals that are new.

        Raises
        ------
        ValueError
            If one is damaged, or one is missing.
        """
        if head.digest == self._head or not (head.n_journals or self._digests):
            return
        query = "SELECT key, digest, n_saves FROM states WHERE key >= ? AND key < ? ORDER BY key"
        rows = database.execute(query, (JOURNAL, JOURNAL[:-1] + ";")).fetchall()
        digests = {name: digest for name, digest, _ in rows}
        require(len(rows) == head.n_journals, "its journals are not those of the last save")
        known, self._head = self._head, b""
        n_read = len(self._digests)
        if not known or list(digests.items())[:n_read] != list(self._digests.items()):
            self.sizes, self._digests, self._parts, n_read = {}, {}, {}, 0
        for name, digest, n_saves in rows[n_read:]:
            require(_NAME.fullmatch(name), f"{name!r} must be the name of a journal")
            ((data,),) = database.execute("SELECT data FROM states WHERE key = ?", (name,))
            check_row(head, name, digest, n_saves, data)
            for key, samples in Journal.from_bytes(data).by_name():
                self._parts.setdefault(key, []).append(Part(n_saves, digest, samples))
            self._digests[name], self.sizes[name] = digest, len(data)
        self._head = head.digest

    @property
    def names(self) -> list[str]:
        """The names of the keys that have samples in journals."""
        return list(self._parts)

    def after(self, key: str, n_saves: int) -> list[Part]:
        """Return what journals have of a key since the save that wrote its state."""
        return [part for part in self._parts.get(key, ()) if part.n_saves > n_saves]


def digest_after(digest: bytes, parts: Sequence[Part]) -> bytes:
    """Return the digest of a state and of samples that it has learned since it was written."""
    return hash_of(b"".join([digest, *(part.digest for part in parts)])) if parts else digest


def state_after(data: bytes, parts: Sequence[Part]) -> bytes:
    """Return the bytes of a state that has learned samples since it was written.

    Raises
    ------
    ValueError
        If it can't learn them: they are damaged.
    """
    if not parts:
        return data
    calibrator: Calibrator = restore(data)
    for part in parts:
        learn_again(calibrator, part.samples)
    return calibrator.to_bytes()


def learn_again(calibrator: Calibrator, samples: Samples) -> None:
    """Predict and learn samples, as when they came."""
    scores = calibrator._check_known(*samples[:3])
    if samples.seconds is not None and samples.kinds is not None:
        read = np.column_stack([samples.seconds, samples.kinds])
        calibrator._predict_learn_read(read, scores, samples.y, samples.w)
        return
    if calibrator.needs_time:
        raise ValueError("samples must have times, as their calibrator forgets by time")
    predict_learn = calibrator._sampler()
    if predict_learn is None:
        predict_learn_known(calibrator, scores, samples.y, samples.w)
        return
    for score, y, w in zip(scores.tolist(), samples.y.tolist(), samples.w.tolist(), strict=True):
        predict_learn(score, y, w)
