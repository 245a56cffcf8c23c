"""A test of calibration whose verdict holds whenever one looks at it."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal._validation import as_within
from streamcal.metrics.base import as_events
from streamcal.monitoring._bets import Betting, as_weights_of_evidence


class CalibrationTest(Betting):
    """Test after every sample whether probabilities are right.

    It bets against the probabilities, by many fixed maps of them [1]_. If each probability is that
    of its label, given all earlier probabilities and labels, the e-value has at most the mean 1 at
    each instant, and the chance that it *ever* exceeds 1/``alpha`` is at most ``alpha`` (Ville's
    inequality). So one may look after every sample, stop at any time and go on at any time.

    Parameters
    ----------
    alpha : float
        The greatest chance of a false alarm, over the whole stream; in (0, 1).
    pos_val
        The label whose probability is tested. None: the label with the greatest probability.

    Attributes
    ----------
    n_samples : int
        How many samples have been added.

    Notes
    -----
    *What is tested.* E[yₜ | p₁ … pₜ, y₁ … yₜ₋₁] = pₜ for all t. A score that is right in the mean,
    but whose errors follow each other, is rejected too. Each label must be known before the next
    sample is predicted, or labels that are known later must be independent of what comes between.

    *Evidence.* Half of the stake is bet from the first sample on; the rest later, so that after t
    samples 1 / (2 + ln t) is left. So a score that was right for long and then is not is rejected
    too, and the log e-value is never below −ln(2 + ln t). `CalibrationDrift` finds a change sooner.
    The probability itself is the denominator, unclipped: a label that had the probability 0 makes
    the e-value infinite.

    *Weights* are at most 1, and must be known before the label: the likelihood ratio of a sample is
    raised to its weight. A larger weight would break the bound. Equal probabilities need no care.

    O(1) memory and time for each sample.

    References
    ----------
    .. [1] Shafer, G. and Vovk, V. (2019). Game-theoretic foundations for probability and finance.
       Wiley, chapter 2. Henzi, A., Puke, M., Dimitriadis, T. and Ziegel, J. (2023). A safe
       Hosmer-Lemeshow test. arXiv 2203.00426: the same hypothesis in a batch.

    Examples
    --------
    Probabilities that are too extreme:

    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.random(1_000)
    >>> y = rng.random(1_000) < 0.5 + 0.5 * (p - 0.5)
    >>> test = CalibrationTest()
    >>> for y_true, y_pred in zip(y, p):
    ...     test.update(y_true, y_pred)
    ...     if test.rejected:
    ...         break
    >>> test.n_samples, round(test.p_value, 3)
    (179, 0.023)
    """

    def __init__(self, alpha: float = 0.05, pos_val: Any = True) -> None:
        self.alpha = as_within(alpha, "alpha", "(0, 1)")
        super().__init__(pos_val, spends=True)

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add a prediction and its label.

        Parameters
        ----------
        y_true
            The true label.
        y_pred
            Probabilities by label, or the probability of ``pos_val``. A missing prediction (``{}``
            or None) is not counted.
        w : float
            The weight, in (0, 1].

        Raises
        ------
        ValueError, TypeError
            If the label is missing, or a probability or the weight out of range; nothing changes.
        """
        self._add(y_true, y_pred, w)

    def update_many(self, y_true: ArrayLike, y_prob: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add predictions in order, as `update` does: arrays of shape ``(n_samples,)``.

        ``y_prob`` are the probabilities of ``pos_val``, which must not be None.

        Raises
        ------
        ValueError, TypeError
            As `update` does, and if lengths differ; nothing changes.
        """
        if self.pos_val is None:
            raise ValueError("`pos_val` must be a label for `update_many`, got None")
        if not np.size(y_prob) and not np.size(y_true):
            return
        happened, p = as_events(y_true, y_prob, self.pos_val)
        self._bets.update_many(p, happened, as_weights_of_evidence(w, len(p)))

    @property
    def log_e_value(self) -> float:
        """The natural logarithm of the evidence against calibration now; 0 before any sample."""
        return self._bets.log_value()

    @property
    def p_value(self) -> float:
        """1 / the largest e-value so far, at most 1; valid whenever one looks."""
        return math.exp(-self._bets.largest)

    @property
    def rejected(self) -> bool:
        """Whether the e-value has ever reached 1 / ``alpha``."""
        return self._bets.largest >= -math.log(self.alpha)

    @property
    def since(self) -> int | None:
        """After about how many samples calibration was lost; None unless `rejected`.

        This is where the bet that has gained most began to gain. Its alarm comes later.
        """
        return self._bets.since() if self.rejected else None

    def merge(self, other: "CalibrationTest") -> None:
        """Add the evidence of another part of the data.

        The parts must be disjoint and independent of each other, such as two shops. The e-values
        are multiplied.

        Raises
        ------
        TypeError, ValueError
            If ``other`` is no `CalibrationTest`, or this one; nothing changes.
        """
        if not isinstance(other, CalibrationTest):
            raise TypeError(f"`other` must be a CalibrationTest, got {other!r}")
        if other is self:
            raise ValueError("`other` must be of other samples, got this test itself")
        self._bets.multiply(other.log_e_value)

    def reset(self) -> None:
        """Begin again, as with a new test; what was rejected is forgotten."""
        self._begin()

    def __repr__(self) -> str:
        return (
            f"CalibrationTest(alpha={self.alpha}, n_samples={self.n_samples},"
            f" p_value={self.p_value:.3g}, rejected={self.rejected})"
        )
