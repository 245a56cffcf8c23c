"""The same metric for each of several labels, each against all others."""

import copy
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from streamcal._whole import Step, do_all
from streamcal.metrics.base import as_class_events


class _OfOneLabel(Protocol):
    """A metric of the probability of a label, and of whether it is true."""

    def _adding(self, p: float, happened: float, w: float) -> Sequence[Step]:
        """Return the steps that add a sample; all that may fail is computed now."""

    def _removing(self, p: float, happened: float, w: float, y_pred: Any) -> Sequence[Step]:
        """Return the steps that remove a sample, or raise if it has not been added."""


M = TypeVar("M", bound=_OfOneLabel)


class EachLabel(Generic[M]):
    """Metrics of all labels, for predictions of several labels.

    A label counts if it is true or in a prediction; where a prediction lacks it, its probability
    is 0.

    Parameters
    ----------
    metric
        A metric without samples.

    Attributes
    ----------
    metrics : dict
        The metric of each label.
    """

    def __init__(self, metric: M) -> None:
        self.metrics: dict[Hashable, M] = {}
        # Of a label that no sample has: a new label begins as its copy.
        self._absent = metric
        self._counts: Counter[Hashable] = Counter()  # in how many samples a label is

    def add(self, y_true: Any, y_pred: Any, w: float) -> None:
        """Add a sample, or raise as `as_class_events` does; then nothing changes."""
        events = as_class_events(y_true, y_pred, self.metrics)
        metrics, counts = dict(self.metrics), self._counts.copy()
        steps = [*self._absent._adding(0.0, 0.0, w)]
        for label, (p, happened) in events.items():
            if label not in metrics:
                metrics[label] = copy.deepcopy(self._absent)
            steps += metrics[label]._adding(p, float(happened), w)
        counts.update({*y_pred, y_true})
        do_all(*steps, self._setting(metrics, counts))

    def remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        """Remove a sample, or raise if it has not been added; then nothing changes."""
        events = as_class_events(y_true, y_pred, self.metrics)
        if events.keys() != self.metrics.keys():
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        steps = [*self._absent._removing(0.0, 0.0, w, y_pred)]
        for label, (p, happened) in events.items():
            steps += self.metrics[label]._removing(p, float(happened), w, y_pred)
        counts = self._counts.copy()
        counts.subtract({*y_pred, y_true})
        counts = +counts
        left = {label: metric for label, metric in self.metrics.items() if counts[label]}
        do_all(*steps, self._setting(left, counts))

    def _setting(self, metrics: dict[Hashable, M], counts: Counter[Hashable]) -> Step:
        return partial(vars(self).update, {"metrics": metrics, "_counts": counts})
