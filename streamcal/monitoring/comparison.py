"""Which of two streams of forecasts is better, with a verdict that holds whenever one looks."""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from streamcal._state import Arrays, Fields, Stateful, array_of, as_int, restore
from streamcal._validation import (
    as_number,
    as_probability,
    as_within,
    check_choice,
    check_label,
    check_label_kind,
)
from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.metrics.base import as_event, as_events, is_no_prediction
from streamcal.monitoring._bets import as_weights_of_evidence

_ROUNDING = 1e-6  # of the sum of the probabilities of many labels


class ForecastComparison(Stateful):
    """Compare two forecasts of the same labels after every sample.

    The difference of a sample is the score of the first forecast less that of the second; a score
    is smaller if it is better. `interval` holds, with a chance of at least 1 − ``alpha``, the mean
    of the expected differences, at all times together: one may look after every sample [1]_.

    Parameters
    ----------
    score : {"brier", "log"}
        What is compared. ``"brier"``: (p − y)², or half the sum of (p − y)² over all labels.
        ``"log"``: the log loss in nats, of probabilities that are clipped.
    alpha : float
        The chance that `interval` is ever wrong; in (0, 1).
    pos_val
        The label whose probability single numbers are. Mappings name their labels.
    clip : float
        With ``"log"``, probabilities of a label below this count as this; in (0, 0.5]. Without a
        bound a single label could decide everything.

    Attributes
    ----------
    n_samples : int
        How many samples have been added.

    Notes
    -----
    Samples may depend on each other in any way, and their number need not be fixed before. The
    expected difference of a sample is that given all earlier samples. Each label must be known
    before the next sample is predicted, or labels that are known later must be independent of what
    comes between.

    The interval is an empirical Bernstein confidence sequence: it becomes narrow if differences
    vary little. It uses that a difference can only be one of as many numbers as there are labels,
    which are known before the label. It is for the mean so far, which may change: an interval at a
    later time need not lie within an earlier one.

    O(1) memory; time for a sample is O(number of labels).

    References
    ----------
    .. [1] Choe, Y. J. and Ramdas, A. (2024). Comparing sequential forecasters. Operations Research
       72(4), 1368-1387, theorem 2. arXiv 2110.00115. Howard, S. R., Ramdas, A., McAuliffe, J. and
       Sekhon, J. (2021). Time-uniform, nonparametric, nonasymptotic confidence sequences. Annals of
       Statistics 49(2), theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.random(2_000)
    >>> y = rng.random(2_000) < p
    >>> comparison = ForecastComparison()
    >>> comparison.update_many(y, np.sqrt(p), p)
    >>> round(comparison.mean, 4), [round(bound, 4) for bound in comparison.interval]
    (0.0285, [0.0147, 0.0421])
    >>> comparison.better
    'second'
    """

    def __init__(
        self,
        score: Literal["brier", "log"] = "brier",
        alpha: float = 0.05,
        pos_val: Any = True,
        clip: float = 0.01,
    ) -> None:
        check_choice(score, "score", ("brier", "log"))
        check_label(pos_val, "pos_val")
        self.score = score
        self.alpha: float = as_within(alpha, "alpha", "(0, 1)")
        self.pos_val = pos_val
        self.clip: float = as_within(clip, "clip", "(0, 0.5]")
        self._bounds = MeanBounds()

    @property
    def n_samples(self) -> int:
        """How many samples have been added."""
        return self._bounds.n_samples

    def update(self, y_true: Any, first: Any, second: Any, w: float = 1.0) -> None:
        """Add a label and two forecasts of it.

        Parameters
        ----------
        y_true
            The true label.
        first, second
            Probabilities by label, or the probabilities of ``pos_val``. If one of them is missing
            (``{}`` or None) the sample is not counted.
        w : float
            The weight, in (0, 1].

        Raises
        ------
        ValueError, TypeError
            If the label is missing, a probability or the weight out of range, or the sum of the
            probabilities of labels above 1; nothing changes.
        """
        check_label(y_true, "y_true")
        if is_no_prediction(first) or is_no_prediction(second):
            return
        w = 1.0 if w == 1.0 else as_within(w, "w", "(0, 1]")
        if isinstance(first, dict) and isinstance(second, dict):
            self._bounds.add(*self._among_labels(y_true, first, second), w)
        else:
            p, happened = as_event(y_true, first, self.pos_val)
            q, _ = as_event(y_true, second, self.pos_val)
            self._bounds.add_event(p, q, happened, w, self._kernel_clip)

    def update_many(
        self, y_true: ArrayLike, first: ArrayLike, second: ArrayLike, w: ArrayLike | None = None
    ) -> None:
        """Add samples in order, as `update` does: arrays of shape ``(n_samples,)``.

        ``first`` and ``second`` are the probabilities of ``pos_val``.

        Raises
        ------
        ValueError, TypeError
            As `update` does, and if lengths differ; nothing changes.
        """
        if not np.size(y_true) and not np.size(first) and not np.size(second):
            as_weights_of_evidence(w, 0)
            return
        happened, p = as_events(y_true, first, self.pos_val)
        _, q = as_events(y_true, second, self.pos_val)
        weights = as_weights_of_evidence(w, len(p))
        self._bounds.add_events(p, q, happened, weights, self._kernel_clip)

    @property
    def mean(self) -> float:
        """The weighted mean difference, first less second; 0 before any sample."""
        return self._bounds.total / self._bounds.weight if self.n_samples else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds on the mean of the expected differences up to now."""
        low, high = self._bounds.interval(self.alpha)
        largest = 1.0 if self.score == "brier" else -math.log(self.clip)
        return max(low, -largest), min(high, largest)

    @property
    def better(self) -> Literal["first", "second"] | None:
        """Which forecast is better in the mean up to now; None if that is not known yet."""
        low, high = self.interval
        return "second" if low > 0.0 else "first" if high < 0.0 else None

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"ForecastComparison(score={self.score!r}, n_samples={self.n_samples},"
            f" mean={self.mean:.4g}, interval=({low:.4g}, {high:.4g}), better={self.better!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.to_bytes(),)

    @property
    def _kernel_clip(self) -> float:
        """The clip of the log loss; 0 asks the kernel for the Brier score."""
        return self.clip if self.score == "log" else 0.0

    def _among_labels(
        self, y_true: Any, first: dict[Any, float], second: dict[Any, float]
    ) -> tuple[float, float, float]:
        """Return the difference, and the least and the greatest that any label would make."""
        for label in first.keys() | second.keys():
            check_label_kind(label, y_true)
        one, other = _as_probabilities(first, "first"), _as_probabilities(second, "second")
        squares = sum(p * p for p in one.values()) - sum(p * p for p in other.values())

        def difference(label: Any) -> float:
            p, q = one.get(label, 0.0), other.get(label, 0.0)
            if self.score == "log":
                return math.log(max(q, self.clip)) - math.log(max(p, self.clip))
            return 0.5 * squares - (p - q)

        # A label that neither names has the probability 0 in both.
        possible = [*map(difference, one.keys() | other.keys()), difference(None)]
        return difference(y_true), min(possible), max(possible)

    def _freeze(self) -> tuple[Fields, Arrays]:
        numbers = {"weight": self._bounds.weight, "total": self._bounds.total}
        return {"n_samples": self.n_samples, **numbers}, {"lost": self._bounds.state()}

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._bounds.restore(
            as_int(fields["n_samples"], "n_samples"),
            as_number(fields["weight"], "weight"),
            as_number(fields["total"], "total"),
            array_of(arrays, "lost", None, 37, finite=False),
        )


def _as_probabilities(forecast: dict[Any, float], name: str) -> dict[Any, float]:
    """Return the probabilities of labels, or raise."""
    checked = {label: as_probability(p, name) for label, p in forecast.items()}
    if (total := math.fsum(checked.values())) > 1.0 + _ROUNDING:
        raise ValueError(f"`{name}` must have probabilities whose sum is at most 1, got {total:g}")
    return checked
