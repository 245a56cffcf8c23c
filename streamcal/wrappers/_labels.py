"""The labels of a stream, and the probabilities of those that its model does not know yet.

Most river models answer only labels that they have learned: after 200 negatives a tree says that
False is certain. The rule of Krichevsky and Trofimov keeps a part for each label that is missing:
if n of N samples had it, of K labels, this is (n + ½)/(N + K/2). The others share the rest.

Labels are known to be missing if they were declared, or if the stream is binary: it has only the
labels False and True, or 0 and 1, so far.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river.base.typing import ClfTarget

from streamcal._state import Fields, as_float, as_list, as_name, pack, require, unpack
from streamcal._validation import is_missing
from streamcal._whole import Step
from streamcal.kernels.steps import Count

Probabilities = Mapping[ClfTarget, float]
Vector = NDArray[np.float64]

_MOST = 1e15  # samples in a state
_NUMBERS = (int, float, np.bool_, np.number)


class KnownLabels:
    """Which labels a stream has, and how many samples with each were learned.

    Parameters
    ----------
    declared : tuple of labels, or None
        The labels of the stream; more may come.
    binary : bool
        Whether the labels can only be False and True, or 0 and 1.

    References
    ----------
    Krichevsky & Trofimov, *The performance of universal encoding*, IEEE Transactions on Information
    Theory 27(2), 1981.

    Examples
    --------
    >>> from streamcal._whole import do_all
    >>> labels = KnownLabels()
    >>> labels.complete({}), labels.complete({"a": 1.0})
    ({}, {'a': 1.0})
    >>> for _ in range(4):
    ...     done = do_all(*labels.learn_steps(False, {}))
    >>> labels.complete({False: 1.0})
    {False: 0.9, True: 0.1}
    """

    def __init__(
        self, declared: tuple[ClfTarget, ...] | None = None, *, binary: bool = False
    ) -> None:
        self._declared = declared
        self._set = frozenset(declared or ())
        self._binary = binary
        self._counts: dict[ClfTarget, Count] = {}
        self._is_other = False  # neither declared nor binary

    def learn_steps(self, y: Any, names: dict[str, ClfTarget]) -> Sequence[Step]:
        """Return what counts a sample with this label, for `do_all`.

        ``names`` gets a label that is new, by its name as a column.
        """
        if type(y) is bool and y in self._counts:  # the usual case
            return (self._counts[y].add,)
        return self.group_steps((y,), names, 1.0)

    def group_steps(
        self, labels: Sequence[Any], names: dict[str, ClfTarget], share: float
    ) -> list[Step]:
        """Return what counts a share of a sample for each of these labels, as `learn_steps`."""
        if self._is_other:
            return []
        shares: dict[Any, float] = {}
        for y in labels:
            if self._declared is None:
                if not _is_binary(y):
                    return [partial(vars(self).update, _is_other=True, _counts={})]
            elif type(y).__hash__ is None:  # such as an array that equals a label
                y = next((label for label in self._declared if label == y), None)
            shares[y] = shares.get(y, 0.0) + share
        new = {y: Count() for y in shares if y not in self._counts}
        counts = {**self._counts, **new}
        steps: list[Step] = [partial(counts[y].add_share, n) for y, n in shares.items()]
        if new:
            steps.append(partial(self._counts.update, new))
            steps.append(partial(names.update, {str(y): y for y in new if y is not None}))
        return steps

    def complete(self, raw: Probabilities) -> Probabilities:
        """Return a model's probabilities with those of the known labels that it does not know.

        If there are none, it is the same object.
        """
        if (len(raw) > 1) if self._declared is None else (self._set <= raw.keys()):
            return raw
        missing = self._missing(raw)
        if not missing:
            return raw
        rest = self._rest(raw, missing)
        total = float(sum(raw.values()))  # 1, but of a model that answers only the positive label
        return {
            label: missing[label]
            if label in missing
            else rest * (raw[label] / total if total > 0.0 else 1.0 / len(raw))
            for label in self._all_of(raw)
        }

    def complete_many(
        self, columns: Mapping[ClfTarget, Vector], n_samples: int
    ) -> Mapping[ClfTarget, Vector]:
        """Return the same for a batch."""
        missing = self._missing(columns)
        if not missing:
            return columns
        rest = self._rest(columns, missing)
        total = sum(columns.values(), np.zeros(n_samples))
        known, divisor = total > 0.0, np.where(total > 0.0, total, 1.0)
        return {
            label: np.full(n_samples, missing[label])
            if label in missing
            else rest * np.where(known, columns[label] / divisor, 1.0 / len(columns))
            for label in self._all_of(columns)
        }

    def _missing(self, raw: Mapping[ClfTarget, object]) -> dict[ClfTarget, float]:
        """Return the probabilities of the known labels that the model does not know."""
        if self._declared is None:
            labels = self._pair(raw) if len(raw) < 2 and not self._is_other else ()
        else:
            labels = self._declared
        missing = [label for label in labels if label not in raw]
        if not missing:
            return {}
        counts = {label: count.n for label, count in self._counts.items()}
        total = sum(counts.values()) + 0.5 * len({*labels, *raw, *counts})
        part = {label: (counts.get(label, 0.0) + 0.5) / total for label in missing}
        if raw:
            return part
        total = sum(part.values())
        return {label: p / total for label, p in part.items()}

    @staticmethod
    def _rest(raw: Mapping[ClfTarget, object], missing: Probabilities) -> float:
        """Return what the labels of the model share."""
        return max(1.0 - sum(missing.values()), 0.0) if raw else 0.0

    def _all_of(self, raw: Mapping[ClfTarget, object]) -> list[ClfTarget]:
        """Return all labels, those of the stream first; they are the model's own objects."""
        own = {label: label for label in raw}
        labels = dict.fromkeys(self._pair(raw) if self._declared is None else self._declared)
        return [*(own.get(label, label) for label in labels), *(x for x in raw if x not in labels)]

    def _pair(self, raw: Iterable[ClfTarget]) -> tuple[ClfTarget, ...]:
        """Return the two labels of a binary stream, of the type of those that are known."""
        known: Any = next(iter(raw), next(iter(self._counts), True if self._binary else None))
        if not _is_binary(known):
            return ()
        other = type(known)(known == 0)
        return (other, known) if known else (known, other)

    def freeze(self) -> Fields:
        """Return the state as fields for JSON, for `thaw`."""
        counts = [[pack(label), count.n] for label, count in self._counts.items()]
        return {"counts": counts, "is_other": self._is_other}

    def thaw(self, fields: Any) -> None:
        """Restore what `freeze` returned, or raise."""
        require(isinstance(fields, dict), "the counts of labels must have names")
        pairs = [as_list(pair, "counts", 2) for pair in as_list(fields["counts"], "counts")]
        counts = {
            as_name(unpack(label), "counts", none=True): Count(as_float(n, "counts", 0.0, _MOST))
            for label, n in pairs
        }
        require(len(counts) == len(pairs), "labels must differ")
        is_other = fields["is_other"]
        require(isinstance(is_other, bool), "`is_other` must be a bool")
        if self._declared is None:
            require(all(map(_is_binary, counts)), "counted labels must be binary")
            require(not (is_other and counts), "counted labels must be of a binary stream")
        else:
            require(not is_other, "the labels must be the declared ones")
        self._counts, self._is_other = counts, is_other


def keep_missing(
    calibrated: Probabilities, completed: Probabilities, own: Mapping[ClfTarget, object]
) -> dict[ClfTarget, float]:
    """Return calibrated probabilities in which the labels that the model lacks are not calibrated.

    Nothing can be learned of them, and a calibrator would soon be certain that they never come.
    ``own`` are the labels of the model, ``completed`` its probabilities of all labels.

    Examples
    --------
    >>> completed = {False: 0.75, True: 0.25}
    >>> keep_missing({False: 0.99, True: 0.01}, completed, {False: 1.0})
    {False: 0.75, True: 0.25}
    """
    total = sum(calibrated[label] for label in own)
    if total <= 0.0:
        return {**completed}
    share = sum(completed[label] for label in own) / total
    return {
        label: share * calibrated[label] if label in own else p for label, p in completed.items()
    }


def keep_missing_many(
    calibrated: NDArray[np.float64],
    completed: Mapping[ClfTarget, Vector],
    own: Mapping[ClfTarget, object],
) -> NDArray[np.float64]:
    """Return the same for a batch; values have the shape ``(n_labels, n_samples)``.

    Examples
    --------
    >>> completed = {False: np.array([0.75]), True: np.array([0.25])}
    >>> keep_missing_many(np.array([[0.99], [0.01]]), completed, {False: None}).tolist()
    [[0.75], [0.25]]
    """
    known = np.array([label in own for label in completed])[:, None]
    values = np.array(list(completed.values()))
    total = np.where(known, calibrated, 0.0).sum(axis=0)
    share = np.where(known, values, 0.0).sum(axis=0) / np.where(total > 0.0, total, 1.0)
    return np.where(known & (total > 0.0), share * calibrated, values)


def _is_binary(label: Any) -> bool:
    """Return whether a label is False, True, 0 or 1."""
    return type(label) is bool or (isinstance(label, _NUMBERS) and label in (0, 1))


def check_labels(labels: Any) -> tuple[ClfTarget, ...]:
    """Return declared labels, or raise.

    Examples
    --------
    >>> check_labels(["draw", "home", "away"])
    ('draw', 'home', 'away')
    """
    if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray):
        raise TypeError(f"`labels` must be a sequence of labels or None, got {labels!r}")
    declared = tuple(labels)
    for label in declared:
        if type(label).__hash__ is None:
            raise TypeError(f"`labels` must hold labels, got {label!r}")
        if is_missing(label):
            raise ValueError(f"`labels` must hold labels, got {label!r}")
    if len(set(declared)) < max(len(declared), 2):
        raise ValueError(f"`labels` must be at least two different labels, got {labels!r}")
    return declared
