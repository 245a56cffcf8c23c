"""A test of calibration whose verdict holds whenever one looks at it."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from streamcal._state import Arrays, Fields, array_of, require
from streamcal._validation import as_within, check_beside, check_choice, check_count, check_label
from streamcal.metrics.base import as_events, is_no_prediction
from streamcal.monitoring._bets import Betting, as_weights_of_evidence, check_predictions
from streamcal.monitoring._interleaved import ALONE, MOST_HORIZON, Interleaved, Sample
from streamcal.monitoring.fixed_bets import all_bets


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
    order : {"arrival", "interleaved"}
        "arrival": samples are added when their labels come. "interleaved": predictions are added in
        the order in which they were made, and labels may come late; see *Late labels*.
    horizon : int, optional
        For "interleaved": each label comes before this many further predictions are made, so 1 is
        before the next one; from 1 to 10,000. Else None.

    Attributes
    ----------
    n_samples : int
        How many samples have been added; for "interleaved", how many predictions.

    Notes
    -----
    *What is tested.* E[yₜ | p₁ … pₜ, y₁ … yₜ₋₁] = pₜ for all t. A score that is right in the mean,
    but whose errors follow each other, is rejected too.

    *Late labels.* In the order "arrival" each label must be known before the next sample is
    predicted. Late labels are fine only if they are independent of what comes between prediction
    and label, *and* the delay does not depend on the label. Else right probabilities raise alarms:
    in all of 200 streams with labels 48 late, of blocks of 48 that share one draw (0.01 of them in
    the order "interleaved"); and in 0.93 of those where only positive labels come at once (0.02).
    The order "interleaved" is valid for both: E[yₜ | p₁ … pₜ, y₁ … yₜ₋ₕ] = pₜ is enough, with
    h = ``horizon``, given also which of these labels did not come in time; delays within the
    horizon don't matter. There are h products of bets; prediction t belongs to the product t mod h,
    so each product has its label before it bets again. Their mean is the e-value. A label counts
    when h predictions have been made since its own, with it. Until then it counts as the label that
    is worse for its product, which keeps the promise at each instant [2]_. So does a label that
    does not come in time: it is counted in `n_late`, and ignored when it comes.
    The price: each product learns from n / h samples alone, and an alarm needs 20 to 40 times as
    many samples for h = 48. Memory is O(h), and so is the time for a sample.

    *Evidence.* Half of the stake is bet from the first sample on; the rest later, so that after t
    samples 1 / (2 + ln t) is left. So a score that was right for long and then is not is rejected
    too, and the log e-value is never below −ln(2 + ln t) in the order "arrival" (without `merge`).
    `CalibrationDrift` finds a change sooner. The probability itself is the denominator, unclipped:
    a label that had the probability 0 makes the e-value infinite. Evidence can be lost again;
    `log_lasting_e_value` is a little less, and is never lost [3]_.

    *Weights* are at most 1, and must be known before the label: the likelihood ratio of a sample is
    raised to its weight. A larger weight would break the bound. Equal probabilities need no care.

    O(1) memory and time for each sample, in the order "arrival".

    References
    ----------
    .. [1] Shafer, G. and Vovk, V. (2019). Game-theoretic foundations for probability and finance.
       Wiley, chapter 2. Henzi, A., Puke, M., Dimitriadis, T. and Ziegel, J. (2023). A safe
       Hosmer-Lemeshow test. arXiv 2203.00426: the same hypothesis in a batch.
    .. [2] Henzi, A. and Ziegel, J. F. (2022). Valid sequential inference on probability forecast
       performance. Biometrika 109(3), 647-663: interleaved products. The proof for labels that
       are not due, or too late, stands in ``streamcal/monitoring/_interleaved.py``.
    .. [3] Dawid, A. P., de Rooij, S., Shafer, G., Shen, A., Vereshchagin, N. and Vovk, V. (2011).
       Insuring against loss of evidence in game-theoretic probability. Statistics and Probability
       Letters 81(1), 157-162.

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

    def __init__(
        self,
        alpha: float = 0.05,
        pos_val: Any = True,
        order: Literal["arrival", "interleaved"] = "arrival",
        horizon: int | None = None,
    ) -> None:
        self.alpha: float = as_within(alpha, "alpha", "(0, 1)")
        check_choice(order, "order", ("arrival", "interleaved"))
        if order == "interleaved":
            if horizon is None:
                raise ValueError(
                    "`horizon` must be given for the order 'interleaved': before how many further"
                    f" predictions each label comes, an int from 1 to {MOST_HORIZON}, got None"
                )
            check_count(horizon, "horizon", most=MOST_HORIZON)
        elif horizon is not None:
            raise ValueError(f"`horizon` must be None for the order 'arrival', got {horizon!r}")
        self.order = order
        self.horizon: int | None = None if horizon is None else int(horizon)
        super().__init__(pos_val, spends=True)

    def _begin(self) -> None:
        self._bets = (
            self._fresh() if self.horizon is None else Interleaved(self.horizon, self._fresh)
        )

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Add a prediction and its label.

        In the order "interleaved" it is the next prediction, and its label is one that came in
        time. So a table with rows in the order of prediction is tested as the stream would be.

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
            If the label is missing, or can't be one beside ``pos_val`` (0.7 beside True: the
            arguments are swapped), or a probability or the weight out of range; nothing changes.
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
            as_weights_of_evidence(w, 0)
            return
        advice = "leave such rows out"
        if self.horizon is not None:  # without them, labels would come sooner than they did
            advice = "call `add_prediction` for each row, and `add_label` for those with a label"
        happened, p = as_events(y_true, y_prob, self.pos_val, without_label=advice)
        self._bets.update_many(p, happened, as_weights_of_evidence(w, len(p)))

    def update_group(self, y_true: Any, y_preds: Sequence[Any], w: float = 1.0) -> None:
        """Add predictions that share an outcome, such as those of each minute of a game.

        They are one sample, and one prediction in the order "interleaved": each of n rows has the
        weight ``w / n``. Rows may have different probabilities. Each must be right given itself and
        all that was known before the first row; it may use what was known later, such as the score
        of the game.

        Parameters
        ----------
        y_true
            The label of all rows.
        y_preds : sequence
            For each row what `update` takes as ``y_pred``; missing ones are left out.
        w : float
            The weight of the sample, in (0, 1].

        Raises
        ------
        ValueError, TypeError
            As `update` does, and if ``y_preds`` is no sequence; nothing changes.

        Notes
        -----
        By Hölder's inequality the product of likelihood ratios, each with the mean 1, to powers
        whose sum is at most 1 has at most the mean 1, however the rows depend on each other. This
        product is looked at when all rows are in, so a call for each row with the weight 1 / n is
        not the same: the rows before the last would be looked at with their outcome known.

        Examples
        --------
        Ninety rows of a game that was won do not say more than one:

        >>> rows, alone = CalibrationTest(), CalibrationTest()
        >>> rows.update_group(True, [0.25] * 90)
        >>> alone.update(True, 0.25)
        >>> rows.n_samples, round(rows.log_e_value, 4), round(alone.log_e_value, 4)
        (1, 0.0123, 0.0123)
        """
        check_label(y_true, "y_true")
        check_predictions(y_preds)
        self._add_group([y_true] * len(y_preds), y_preds, w)

    def add_prediction(self, y_pred: Any, w: float = 1.0) -> int | None:
        """Add a prediction when it is made, for the order "interleaved".

        Parameters
        ----------
        y_pred
            As for `update`.
        w : float
            The weight, in (0, 1].

        Returns
        -------
        number : int or None
            How many predictions came before it, for `add_label`. A missing prediction is not
            counted, and has None.

        Raises
        ------
        ValueError, TypeError
            If the order is "arrival", or a probability or the weight out of range; nothing changes.

        Examples
        --------
        Labels that come two predictions late, or never:

        >>> test, numbers = CalibrationTest(order="interleaved", horizon=3), []
        >>> for t in range(1_000):
        ...     numbers.append(test.add_prediction(0.2))
        ...     if t >= 2 and t % 10:
        ...         test.add_label(t % 2 == 0, numbers[t - 2])
        >>> test.rejected, test.n_late
        (True, 99)
        """
        bets = self._interleaved("add_prediction")
        weight = as_within(w, "w", "(0, 1]")
        if is_no_prediction(y_pred):
            return None
        event, p = self._as_row(y_pred)
        alone = Sample((p,), weight, event if self.pos_val is None else None)
        return bets.add(alone, ALONE)

    def add_label(self, y_true: Any, number: int | None) -> None:
        """Add the label of a prediction, in any order; one that comes too late is ignored.

        Parameters
        ----------
        y_true
            The true label.
        number : int or None
            What `add_prediction` returned; None is ignored.

        Raises
        ------
        ValueError, TypeError
            If the order is "arrival", the label is missing, there is no prediction with this
            number, or it is not due and has a label; nothing changes.
        """
        bets = self._interleaved("add_label")
        check_label(y_true, "y_true")
        if number is None:
            return

        def happened_for(event: Any) -> bool:
            positive = self.pos_val if self.pos_val is not None else event
            check_beside(y_true, positive)
            return bool(y_true == positive)

        bets.tell(number, happened_for)

    @property
    def n_late(self) -> int:
        """How many labels did not come within ``horizon`` predictions; see *Late labels*."""
        return self._bets.n_late if isinstance(self._bets, Interleaved) else 0

    def _interleaved(self, name: str) -> Interleaved:
        if not isinstance(self._bets, Interleaved):
            raise ValueError(f"`order` must be 'interleaved' for `{name}`, got {self.order!r}")
        return self._bets

    @property
    def log_e_value(self) -> float:
        """The natural logarithm of the evidence against calibration now; 0 before any sample."""
        return self._bets.log_value()

    @property
    def log_lasting_e_value(self) -> float:
        """The logarithm of evidence that is never lost again, for a list of names that only grows.

        An adjuster of the largest e-value m so far, (m − 1 − ln m) / (ln m)², which is an e-value
        at each instant, too (Dawid and others 2011). At first it is 1/2.
        """
        return _adjusted(self._bets.largest)

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
        are multiplied. Whether to merge must not depend on them: who merges only if that helps
        raises more false alarms than ``alpha``. ``n_samples`` and ``since`` stay those of
        this part.

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

    @classmethod
    def _check_room(cls, parameters: Fields, arrays: Arrays) -> None:
        n_products = parameters.get("horizon") or 1
        n_stakes = len(array_of(arrays, "stakes", None, 4, finite=False))
        require(n_stakes == n_products * len(all_bets()[1]), "there must be stakes of each product")

    def __repr__(self) -> str:
        return (
            f"CalibrationTest(alpha={self.alpha}, n_samples={self.n_samples},"
            f" p_value={self.p_value:.3g}, rejected={self.rejected})"
        )


def _adjusted(log_largest: float) -> float:
    """Return the logarithm of the adjusted largest e-value.

    Examples
    --------
    >>> [round(math.exp(_adjusted(math.log(m))), 3) for m in (1.0, 1.001, 20.0, 1000.0)]
    [0.5, 0.5, 1.783, 20.79]
    """
    u = log_largest
    if math.isinf(u):
        return u
    if u > 700.0:  # exp(u) − 1 − u is exp(u)
        return u - 2.0 * math.log(u)
    # Near 1 the difference is by its series, 1/2 + u / 6.
    return math.log((math.expm1(u) - u) / (u * u) if u > 1e-4 else 0.5 + u / 6.0)
