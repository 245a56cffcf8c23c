"""Bets on labels that come late: several products, each of which sees a label before it bets again.

A label comes before the h-th prediction after its own; prediction t belongs to the product t mod h.
The evidence is the mean of the products, in which a label that isn't due (that is not yet h
predictions old) counts as the one that makes its product less. It may be looked at always:

Let Fₜ be what is known when prediction t is made, with its probability: all labels that are due,
and which labels have not come in time. The hypothesis is E[yₜ | Fₜ] = pₜ. Let Nₜ be the product of
t with the label of t settled (one that does not come in time: with the worse label). Then
E[Nₜ | Fₜ] ≤ Nₜ₋ₕ, as Nₜ₋ₕ and the bets are known in Fₜ, and the worse label makes Nₜ at most what
the true one makes it. Let somebody stop after τ predictions, by what is due, at the latest after
some fixed number. Whether τ ≥ t is known in Fₜ. So for each product, with the sum over its
predictions::

    E[N_τ] = 1 + Σₜ E[1{τ ≥ t} (Nₜ − Nₜ₋ₕ)] ≤ 1

What is shown in place of N_τ is at most that, since its labels that aren't due are the worse ones.
The mean of the products is then an e-value at τ. Let τ be the first time at which it is at least
1/α: the chance that this ever happens is at most α. Without the worse labels this would be false:
a label that is due may tell what one that isn't due will be, and who knows that would stop before a
loss. Henzi and
Ziegel (2022), Biometrika 109(3), bet by such products. The mean of their largest values, each of a
product by itself, would need a factor (Vovk and Wang 2020, Biometrika 107(4)), 6.6 for h = 48.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal._state import Arrays, Fields, array_of, as_int, as_list, as_name, require
from streamcal._state.stateful import pack, unpack
from streamcal._validation import check_count
from streamcal.kernels.bets import Bets

Events = tuple[bool, ...]
"""Whether the event happened, for each row of a sample; most samples have one row."""
ALONE: tuple[Events, Events] = ((False,), (True,))
"""The outcomes of a sample of one row."""
MOST_HORIZON = 10_000


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows that share an outcome: what is known of them when they are predicted.

    Parameters
    ----------
    p
        The probability of each row.
    w
        The weight of the sample.
    event
        The label whose probability ``p`` is, where its own label is not known yet; else None.
    """

    p: tuple[float, ...]
    w: float
    event: Any = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A sample whose label is not due; ``after`` is its product after each possible label."""

    sample: Sample
    after: dict[Events, Bets]
    known: Events | None = None

    def worse(self) -> Events:
        return min(self.after, key=lambda events: self.after[events].log_value())


class Interleaved:
    """Products of bets, with the methods of `Bets`; a call that is interrupted changes nothing.

    Parameters
    ----------
    horizon : int
        Each label comes before this many further predictions.
    make : callable
        Returns fresh stakes.
    """

    def __init__(self, horizon: int, make: Callable[[], Bets]) -> None:
        self.n_samples = self.n_late = 0
        self.largest = 0.0
        self._horizon, self._make = horizon, make
        self._products = [make() for _ in range(horizon)]  # of labels that were due
        self._waiting: dict[int, _Waiting] = {}
        self._logs = np.zeros(horizon)  # of products in which labels that aren't due are the worse

    def update(self, p: float, happened: bool, w: float) -> None:
        """Add a sample that was checked, whose label comes in time."""
        self.add(Sample((p,), w), ALONE, (happened,))

    def update_many(
        self, p: NDArray[np.float64], happened: NDArray[np.float64], w: NDArray[np.float64]
    ) -> None:
        """Add samples in the order of prediction, as `update` does."""
        twin = self._copy()
        samples = zip(p.tolist(), (happened != 0.0).tolist(), w.tolist(), strict=True)
        for score, label, weight in samples:
            twin._add(Sample((score,), weight), ALONE, (label,))
        self._become(twin)

    def add(self, sample: Sample, outcomes: Iterable[Events], known: Events | None = None) -> int:
        """Add a sample; return its number.

        ``outcomes`` are the events of all labels that are possible, ``known`` those of its label.
        """
        twin = self._copy()
        twin._add(sample, outcomes, known)
        self._become(twin)
        return self.n_samples - 1

    def tell(self, number: int, happened_for: Callable[[Any], bool]) -> None:
        """Add the label of a sample: whether the event ``happened_for`` a label; see `Sample`."""
        check_count(number, "number", least=0)
        if number >= self.n_samples:
            raise ValueError(
                f"`number` must be of a prediction that was added (below {self.n_samples}),"
                f" got {number}"
            )
        waiting = self._waiting.get(number)
        if waiting is None:
            return  # its label is known, or did not come in time
        if waiting.known is not None:
            raise ValueError(f"`number` must be of a prediction without a label, got {number}")
        known = (happened_for(waiting.sample.event),)
        twin = self._copy()
        twin._waiting[number] = _Waiting(waiting.sample, waiting.after, known)
        twin._settle(self.n_samples - self._horizon)
        self._become(twin)

    def multiply(self, log_factor: float) -> None:
        """Multiply all stakes by exp(log_factor)."""
        twin = self._copy()
        for at, bets in enumerate(self._products):
            twin._products[at] = product = self._twin(bets)
            product.multiply(log_factor)
            twin._logs[at] = product.log_value()
        for number, waiting in self._waiting.items():  # bit for bit as from a state
            twin._wait(number, waiting.sample, waiting.after, waiting.known)
        twin.largest = max(twin.largest, twin.log_value())
        self._become(twin)

    def log_value(self) -> float:
        """Return the logarithm of the mean of all products; see the module."""
        most = float(self._logs.max())
        if not np.isfinite(most):
            return most
        return most + float(np.log(np.mean(np.exp(self._logs - most))))

    def leading(self) -> Bets:
        """Return the product that has had most evidence."""
        return max(self._products, key=lambda bets: bets.largest)

    def since(self) -> int:
        """Return after how many samples the leader of the product with most evidence gained."""
        leading = self.leading()
        at, n_before = self._products.index(leading), leading.since()
        return (n_before - 1) * self._horizon + at + 1 if n_before else 0

    def _copy(self) -> Self:
        """Return a copy that changes by itself; stakes are replaced, not changed."""
        twin = copy.copy(self)
        twin._products, twin._waiting = self._products[:], self._waiting.copy()
        twin._logs = self._logs.copy()
        return twin

    def _become(self, twin: Self) -> None:
        vars(self).update(vars(twin))  # in one step, which no signal handler parts

    def _add(self, sample: Sample, outcomes: Iterable[Events], known: Events | None) -> None:
        number = self.n_samples
        overdue = self._waiting.pop(number - self._horizon, None)
        if overdue is not None:
            self._products[number % self._horizon] = overdue.after[overdue.worse()]
            self.n_late += 1
        self._wait(number, sample, outcomes, known)
        self.n_samples += 1
        self._settle(self.n_samples - self._horizon)

    def _wait(
        self, number: int, sample: Sample, outcomes: Iterable[Events], known: Events | None
    ) -> None:
        """Let a sample wait for its label, or until it is due."""
        at = number % self._horizon
        if known is not None and self._horizon == 1:
            outcomes = (known,)  # it is due at once
        # In this order, so that a tie is broken as in a restored one.
        after = {events: self._after(at, sample, events) for events in sorted(outcomes)}
        waiting = _Waiting(sample, after, known)
        self._waiting[number] = waiting
        self._logs[at] = after[waiting.worse()].log_value()

    def _settle(self, number: int) -> None:
        """Settle a sample that is due, if its label is known."""
        waiting = self._waiting.get(number)
        if waiting is None or waiting.known is None:
            return
        del self._waiting[number]
        at = number % self._horizon
        self._products[at] = bets = waiting.after[waiting.known]
        self._logs[at] = bets.log_value()
        self.largest = max(self.largest, self.log_value())

    def _after(self, at: int, sample: Sample, events: Events) -> Bets:
        """Return a product after a sample."""
        bets = self._twin(self._products[at])
        if len(events) == 1:
            bets.update(sample.p[0], events[0], sample.w)
        else:
            bets.update_group(np.array(sample.p), np.array(events, np.float64), sample.w)
        return bets

    def _twin(self, bets: Bets) -> Bets:
        twin = self._make()
        twin.restore(bets.n_samples, *bets.state())
        return twin

    # State ----------------------------------------------------------------------------------------

    def freeze(self) -> tuple[Fields, Arrays]:
        """Return fields and arrays, for `thaw`."""
        states = [bets.state() for bets in self._products]
        waiting = [self._waiting[number] for number in sorted(self._waiting)]
        unknown = [float("nan")]
        rows = [
            (p, worse, known)
            for each in waiting
            for p, worse, known in zip(
                each.sample.p, each.worse(), each.known or unknown, strict=True
            )
        ]
        fields = {
            "n_samples": self.n_samples,
            "n_late": self.n_late,
            "events": [pack(each.sample.event) for each in waiting],
        }
        return fields, {
            "stakes": np.concatenate([stakes for stakes, _ in states]),
            "others": np.array([others for _, others in states]),
            "largest": np.array([self.largest]),
            "waiting": np.array([(len(each.sample.p), each.sample.w) for each in waiting]).reshape(
                -1, 2
            ),
            "rows": np.array(rows).reshape(-1, 3),
        }

    def thaw(self, fields: Fields, arrays: Arrays) -> None:
        """Set what `freeze` returned into fresh products; raise ``ValueError`` if it can't be."""
        horizon = self._horizon
        n_samples = as_int(fields["n_samples"], "n_samples")
        others = array_of(arrays, "others", horizon, 4, finite=False)
        stakes = array_of(arrays, "stakes", None, 4, finite=False)
        largest = array_of(arrays, "largest", 1, finite=False)
        waiting = array_of(arrays, "waiting", None, 2)
        rows = array_of(arrays, "rows", None, 3, finite=False)
        require(largest[0] >= 0.0, "the largest value must not be negative")
        # All samples that aren't due wait, and one that is due, if its label isn't known.
        first, n_waiting = n_samples - len(waiting), len(waiting)
        require(
            min(horizon - 1, n_samples) <= n_waiting <= min(horizon, n_samples),
            "the samples that aren't due must wait",
        )
        counts, weights = waiting[:, 0], waiting[:, 1]
        whole = (counts >= 1.0) & (counts <= len(rows)) & (counts == np.floor(counts))
        require(whole.all() and counts.sum() == len(rows), "each row must be of a sample")
        require(((weights > 0.0) & (weights <= 1.0)).all(), "weights must be in (0, 1]")
        p, worse, known = rows.T
        require(((p >= 0.0) & (p <= 1.0)).all(), "probabilities must be in [0, 1]")
        require(((worse == 0.0) | (worse == 1.0)).all(), "worse events must be 0 or 1")
        require(
            ((known == 0.0) | (known == 1.0) | np.isnan(known)).all(),
            "events must be 0, 1 or unknown",
        )
        events = as_list(fields["events"], "events", n_waiting)
        n_before = as_int(fields["n_late"], "n_late", most=max(n_samples - horizon, 0))
        parts = np.split(stakes, horizon)
        for at, bets in enumerate(self._products):
            n_settled = len(range(at, first, horizon))
            bets.restore(n_settled, parts[at], others[at])
            self._logs[at] = bets.log_value()
        begin = 0
        for i, (count, weight) in enumerate(waiting.tolist()):
            end = begin + int(count)
            event = as_name(unpack(events[i]), "events", none=True)
            sample = Sample(tuple(p[begin:end].tolist()), weight, event)
            happened, label = _events(worse[begin:end]), None
            outcomes: set[Events] = {happened}
            if not np.isnan(known[begin:end]).any():
                label = _events(known[begin:end])
                outcomes.add(label)
            else:
                require(count == 1.0, "a label that isn't known must be of one row")
                outcomes.add((not happened[0],))
            require(label is None or i > 0 or n_waiting < horizon, "a label that is due must wait")
            self._wait(first + i, sample, outcomes, label)
            begin = end
        self.n_samples, self.n_late, self.largest = n_samples, n_before, float(largest[0])


def _events(row: NDArray[np.float64]) -> Events:
    return tuple((row != 0.0).tolist())
