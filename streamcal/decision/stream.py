"""Joint decisions for batches of a stream, and evaluation of decisions."""

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from river import metrics
from river.base.typing import ClfTarget

from streamcal._validation import as_number, check_count, check_within
from streamcal.decision.classifier import DecisionClassifier
from streamcal.wrappers.routing import AnyClassifier, Features


class Released(NamedTuple):
    """A decision of a `MicroBatcher`: the key that was given, the features and the label.

    Examples
    --------
    >>> from streamcal.decision import DecisionClassifier
    >>> from river.dummy import PriorClassifier
    >>> batcher = MicroBatcher(DecisionClassifier(PriorClassifier()), batch_size=2)
    >>> batcher.push({"x": 0.1}, key=1)
    []
    >>> [released.key for released in batcher.push({"x": 0.4}, key=2)]
    [1, 2]
    """

    key: Any
    x: Features
    label: ClfTarget | None


class MicroBatcher:
    """Collect samples and decide for a batch of them jointly.

    A joint decision has a higher utility than single ones (`docs/decisions.md`), but samples wait
    for it. A batch is released when it is full or when its first sample has waited long enough.
    Nothing happens between calls, so call `poll` regularly if samples are rare.

    Parameters
    ----------
    model : DecisionClassifier
        It decides; it learns nothing here.
    batch_size : int
        The number of samples in a full batch.
    max_delay : float or None
        The longest wait, in seconds or in the unit of ``now`` if you pass it; None: no limit.

    Examples
    --------
    >>> from river import linear_model
    >>> batcher = MicroBatcher(DecisionClassifier(linear_model.LogisticRegression()), batch_size=2)
    >>> batcher.push({"a": 1.0}, key="first")
    []
    >>> [(key, label) for key, _, label in batcher.push({"a": 2.0}, key="second")]
    [('first', True), ('second', True)]
    """

    def __init__(
        self, model: DecisionClassifier, batch_size: int = 32, max_delay: float | None = None
    ) -> None:
        if not isinstance(model, DecisionClassifier):
            raise TypeError(f"`model` must be a DecisionClassifier, got {type(model).__name__}")
        check_count(batch_size, "batch_size")
        check_within(max_delay, "max_delay", "[0, inf] or None")
        self.model = model
        self.batch_size = batch_size
        self.max_delay = max_delay
        self._held: list[tuple[Any, Features]] = []
        self._batch_start = 0.0

    def __len__(self) -> int:
        return len(self._held)

    def push(self, x: Features, key: Any = None, now: float | None = None) -> list[Released]:
        """Add a sample; return the decisions that are due, in the order of arrival.

        A decision is a named tuple ``(key, x, label)``.
        """
        moment = time.monotonic() if now is None else as_number(now, "now")
        if not self._held:
            self._batch_start = moment
        self._held.append((key, x))
        if len(self._held) >= self.batch_size:
            return self.flush()
        return self.poll(moment)

    def poll(self, now: float | None = None) -> list[Released]:
        """Return the decisions that are due because their batch has waited long enough."""
        if not self._held or self.max_delay is None:
            return []
        moment = time.monotonic() if now is None else as_number(now, "now")
        return self.flush() if moment - self._batch_start >= self.max_delay else []

    def flush(self) -> list[Released]:
        """Return the decisions for all samples that wait."""
        labels = self.model.decide_many([x for _, x in self._held])
        released = [
            Released(key, x, label) for (key, x), label in zip(self._held, labels, strict=True)
        ]
        self._held = []
        return released


def evaluate(
    dataset: Iterable[tuple[Features, ClfTarget]],
    model: AnyClassifier,
    metric: metrics.base.Metric | Sequence[metrics.base.Metric],
    *,
    batch_size: int = 1,
) -> Any:
    """Evaluate decisions: each batch is decided, then scored, then learned.

    If one of several metrics needs probabilities, river's ``progressive_val_score`` never calls
    ``predict_one``: it then scores the likeliest label and not the decision. Here metrics of labels
    get decisions and metrics of probabilities get probabilities.

    Parameters
    ----------
    dataset : iterable of (features, label)
        The stream.
    model : river classifier
        A `DecisionClassifier` if ``batch_size`` is not 1.
    metric : river metric or sequence of them
        Updated in place. A sum of river metrics is a sequence.
    batch_size : int
        The number of samples that are decided jointly.

    Returns
    -------
    river metric or sequence
        ``metric``.

    Examples
    --------
    >>> from river import datasets, metrics, naive_bayes
    >>> model = DecisionClassifier(naive_bayes.GaussianNB(), "f1")
    >>> evaluate(datasets.Phishing(), model, metrics.F1(), batch_size=25)
    F1: 87.91%
    """
    check_count(batch_size, "batch_size")
    if batch_size > 1 and not isinstance(model, DecisionClassifier):
        raise TypeError(
            f"`model` must be a DecisionClassifier for batches, got {type(model).__name__}"
        )
    all_metrics = list(metric) if isinstance(metric, Iterable) else [metric]
    ahead = iter(dataset)
    while batch := list(islice(ahead, batch_size)):
        xs, ys = [x for x, _ in batch], [y for _, y in batch]
        probabilities = [model.predict_proba_one(x) for x in xs]
        if isinstance(model, DecisionClassifier):
            labels = model.decide_many(xs)
        else:
            labels = [model.predict_one(xs[0])]
        for y, p, label in zip(ys, probabilities, labels, strict=True):
            for each in all_metrics:
                if getattr(each, "requires_labels", True):
                    if label is not None:
                        each.update(y, label)
                elif p:
                    each.update(y, p)
        if isinstance(model, DecisionClassifier):
            model.learn_batch(xs, ys)
        else:
            model.learn_one(xs[0], ys[0])
    return metric
