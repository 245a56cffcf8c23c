"""The labels of a `ThresholdClassifier` in their order: all given, or added as they occur."""

from collections.abc import Sequence
from typing import Any, Self, TypeGuard

import numpy as np
from river.base.typing import ClfTarget

from streamcal._state import as_name, require, unpack
from streamcal._validation import LARGEST, check_label


class LabelOrder:
    """Labels, lowest first, and what a regressor learns for each; it never changes.

    Parameters
    ----------
    labels : sequence of labels
    given : bool
        Whether these are all labels. Otherwise labels are added in their natural order, and the
        regressor learns the values of numbers, not their ranks.

    Attributes
    ----------
    labels : list
    ranks : dict
        The position of each label, from 0.

    Examples
    --------
    >>> order = LabelOrder([1, 5], given=False).including(3)
    >>> order.ranks, order.targets
    ({1: 0, 3: 1, 5: 2}, [1.0, 3.0, 5.0])
    """

    def __init__(self, labels: Sequence[ClfTarget], *, given: bool) -> None:
        self.labels = list(labels)
        self.ranks = {label: rank for rank, label in enumerate(self.labels)}
        self._given = given

    @classmethod
    def of(cls, labels: Any) -> Self:
        """Return the order of the labels that a user gives, or None; raise unless they differ."""
        if labels is None:
            return cls([], given=False)
        if isinstance(labels, str):
            raise TypeError(f"`labels` must be a sequence of labels, got {labels!r}")
        order = list(labels)
        if len(order) < 2 or len(set(order)) < len(order):
            raise ValueError(f"`labels` must be two or more different labels, got {labels!r}")
        return cls(order, given=True)

    def __len__(self) -> int:
        return len(self.labels)

    def including(self, y: ClfTarget) -> Self:
        """Return the order with a label: itself if it has it, a new one otherwise; or raise."""
        check_label(y)
        if y in self.ranks:
            return self
        if self._given:
            raise ValueError(f"`y` must be one of {self.labels}, got {y!r}")
        if _is_number(y) and not abs(y) <= LARGEST:
            raise ValueError(f"`y` must be a number up to {LARGEST:g}, got {y}")
        try:
            return type(self)(sorted([*self.labels, y]), given=False)
        except TypeError:
            raise TypeError(
                f"`labels` must be given where labels have no natural order, got {y!r}"
                f" beside {self.labels}"
            ) from None

    def target(self, y: ClfTarget) -> float:
        """Return what the regressor learns for a label."""
        return float(y if not self._given and _is_number(y) else self.ranks[y])

    @property
    def targets(self) -> list[float]:
        """What the regressor learns for each label."""
        return [self.target(y) for y in self.labels]

    def restored(self, packed: Any) -> Self:
        """Return the order of the labels in a state; raise unless this one can become it."""
        labels: list[ClfTarget] = unpack(packed)
        require(isinstance(labels, list), "labels must be a list")
        require(len(set(labels)) == len(labels), "labels must be different")
        if self._given:
            require(labels == self.labels, "labels must be those given")
        else:
            require(labels == sorted(labels), "labels must be in order")
            for label in labels:
                as_name(label, "labels")
                large = _is_number(label) and not abs(label) <= LARGEST
                require(not large, f"labels must be numbers up to {LARGEST:g}")
        return type(self)(labels, given=self._given)


def _is_number(y: ClfTarget) -> TypeGuard[float]:
    """Return whether the value of a label means something."""
    return isinstance(y, int | float | np.number | np.bool_)
