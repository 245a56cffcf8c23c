"""CORP: the parts of a mean score that are miscalibration, discrimination and uncertainty.

Isotonic regression of the labels on the predicted probabilities gives the best recalibration that
keeps their order, without bins or parameters. Scoring the predictions p, the recalibrated ones C(p)
and the overall frequency ȳ splits the mean score S:

    S(p) = MCB − DSC + UNC,   MCB = S(p) − S(C(p)),   DSC = S(ȳ) − S(C(p)),   UNC = S(ȳ).

MCB is the gain by recalibration, DSC the gain of the recalibrated predictions over the overall
frequency, UNC the score of that frequency. DSC and UNC follow from the blocks of the isotonic fit
C, and S(p) is a running mean, so the split of a stream costs one pass over the blocks.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from river.metrics.base import BinaryMetric

from streamcal._validation import check_choice
from streamcal._whole import Step, do_all
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.isotonic.corp import Decomposition, decompose
from streamcal.isotonic.staircase import Staircase, isotonic_fit
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.bands import Band, BandMethod, Kind, corp_band
from streamcal.metrics.base import ProbabilityMetric, as_event, check_multiclass

Scoring = Literal["brier", "log"]
SCORES: tuple[Scoring, ...] = get_args(Scoring)


class CORP(ProbabilityMetric, BinaryMetric):
    """Miscalibration (MCB), discrimination (DSC) and uncertainty (UNC) of probabilities [1]_.

    The value of the metric is MCB ≥ 0, smaller is better; the other parts are attributes, and
    ``mean_score == mcb - dsc + unc``. All are exact after every update, for any weights and in
    any order, and 0 before the first one.

    For n distinct predictions an update takes O(log² n) and `get` O(n). Memory grows with n. For an
    endless stream use `RollingCORP` or
    ``river.utils.Rolling(CORP, window_size=...)``, which reverts the oldest sample. If the weights
    of samples with one prediction differ by a factor of 10⁹ or more, a light one may be lost in the
    sums, and reverting it is an error; `RollingCORP` does not lose it.

    Parameters
    ----------
    scoring
        The proper score that is split: ``"brier"``, (p − y)², or ``"log"``, the log loss in nats.
        A wrong prediction of exactly 0 or 1 has infinite log loss; then `mean_score` and `mcb` are
        infinite until it is reverted, and `dsc` and `unc` stay finite. (The command line and the
        report clip such predictions, as river's ``LogLoss`` does.)
    pos_val
        The positive label. None means ``multiclass="top-label"``.
    multiclass
        For predictions of more than two labels, which are dicts. ``"top-label"``: the probability
        of the predicted label, the one with the greatest, against whether it is right [2]_. None:
        the label ``pos_val``.

    References
    ----------
    .. [1] Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021). Stable reliability diagrams for
       probabilistic classifiers. PNAS 118(8), equations 1 and 2.
    .. [2] Gupta, C. and Ramdas, A. (2022). Top-label calibration and multiclass-to-binary
       reductions. ICLR.

    Examples
    --------
    >>> from streamcal.metrics import CORP
    >>> metric = CORP()
    >>> y_true = [0, 0, 0, 1, 1, 1]
    >>> y_pred = [0.4, 0.3, 0.2, 0.1, 0.5, 0.9]
    >>> for yt, yp in zip(y_true, y_pred):
    ...     metric.update(yt, yp)
    >>> metric
    CORP: 0.101667
    >>> print(f"{metric.mean_score:.6f} = {metric.mcb:.6f} - {metric.dsc:.6f} + {metric.unc:.6f}")
    0.226667 = 0.101667 - 0.125000 + 0.250000
    >>> metric.staircase().values
    array([0.25, 1.  ])
    """

    def __init__(
        self,
        scoring: Scoring = "brier",
        pos_val: Any = True,
        multiclass: Literal["top-label"] | None = None,
    ) -> None:
        check_choice(scoring, "scoring", SCORES)
        check_multiclass(multiclass, pos_val, ("top-label",))
        self.scoring = scoring
        self.pos_val = pos_val
        self.multiclass = multiclass
        # Without a prior its values are means for any loss; this loss has the range [0, 1].
        self._calibrator = IsotonicCalibrator(loss="log", prior=0.0)
        self._weight = ExactSum()
        self._sum = ExactSum()  # of the finite scores
        self._n_infinite = 0

    def get(self) -> float:
        """Return the miscalibration MCB."""
        return self.split().mcb

    @property
    def mean_score(self) -> float:
        """The mean Brier score or log loss S(p)."""
        return self._mean_score()

    @property
    def mcb(self) -> float:
        """Miscalibration S(p) − S(C(p)) ≥ 0: the gain by the best monotone recalibration."""
        return self.split().mcb

    @property
    def dsc(self) -> float:
        """Discrimination S(ȳ) − S(C(p)) ≥ 0: the gain over the overall frequency."""
        return self.split().dsc

    @property
    def unc(self) -> float:
        """Uncertainty S(ȳ) ≥ 0: the score of the overall frequency."""
        return self.split().unc

    def staircase(self) -> Staircase:
        """Return the recalibration C, the CORP reliability curve."""
        return self._calibrator.staircase()

    def band(
        self,
        kind: Kind = "consistency",
        *,
        method: BandMethod = "resampling",
        level: float = 0.9,
        n_resamples: int = 500,
        seed: int = 0,
    ) -> Band:
        """Return a pointwise band for the reliability curve; see `streamcal.metrics.bands`.

        Weights are numbers of samples here: those of equal predictions must add up to integers.

        Parameters
        ----------
        kind
            ``"consistency"``: around the diagonal, where the curve of calibrated predictions would
            lie. ``"confidence"``: around the curve, where the true frequencies lie.
        method
            ``"resampling"`` or ``"asymptotic"``.
        level
            The probability at each score, in (0, 1).
        n_resamples, seed
            The number of resampled sets of labels, and the seed.

        Returns
        -------
        scores, lower, upper : ndarrays of shape (n_points,)
            A named tuple of at most 1000 points: scores, ascending, and the ends of the band at
            each, in [0, 1].

        Raises
        ------
        ValueError
            If an argument is out of range, nothing was added, or weights are not counts.

        Examples
        --------
        >>> from streamcal.metrics import CORP
        >>> metric = CORP()
        >>> for i in range(100):
        ...     metric.update(i % 10 < 3, 0.2)
        >>> band = metric.band(method="asymptotic")
        >>> print(f"{band.lower[0]:.3f} to {band.upper[0]:.3f}")
        0.134 to 0.266
        """
        if not self._calibrator.n_samples:
            raise ValueError("`band` needs at least one prediction, got none")
        return corp_band(
            *self._calibrator.samples(),
            kind=kind,
            method=method,
            level=level,
            n_resamples=n_resamples,
            seed=seed,
        )

    def _mean_score(self) -> float:
        if not self._calibrator.n_samples:
            return 0.0
        return math.inf if self._n_infinite else self._sum.value / self._weight.value

    def split(self) -> Decomposition:
        """Return mean score, MCB, DSC and UNC, in one pass over the blocks."""
        if not self._calibrator.n_samples:
            return Decomposition(0.0, 0.0, 0.0, 0.0)
        return decompose(self.staircase(), self._mean_score(), self.scoring)

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, None if self.multiclass else self.pos_val)
        steps = self._calibrator._learn_steps(p, float(happened), w)
        self._count(steps, p, happened, w, 1)

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        p, happened = as_event(y_true, y_pred, None if self.multiclass else self.pos_val)
        steps = self._calibrator._unlearn_steps(p, float(happened), w)
        if not self._count(steps, p, happened, w, -1):
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")

    def _count(self, steps: Sequence[Step], p: float, happened: bool, w: float, sign: int) -> bool:
        """Count a sample that the calibrator learns or unlearns by ``steps``, if it does."""
        counts: dict[str, Any] = {"_weight": self._weight.plus(sign * w)}
        if self.scoring == "log" and p == 1.0 - happened:
            counts["_n_infinite"] = self._n_infinite + sign
        else:
            counts["_sum"] = self._sum.plus(sign * w * _score_of(p, happened, self.scoring))
        return do_all(*steps, partial(vars(self).update, counts))


def _score_of(p: float, happened: bool, scoring: str) -> float:
    if scoring == "brier":
        return (p - happened) ** 2
    return -(math.log(p) if happened else math.log1p(-p))


def mean_score_of(
    happened: NDArray[np.float64],
    p: NDArray[np.float64],
    scoring: str,
    w: NDArray[np.float64] | None = None,
) -> float:
    """Return the mean Brier score or log loss of probabilities, arrays of shape ``(n_samples,)``.

    Examples
    --------
    >>> mean_score_of(np.array([1.0, 0.0]), np.array([0.5, 0.25]), "brier")
    0.15625
    """
    if scoring == "brier":
        return float(np.average((p - happened) ** 2, weights=w))
    with np.errstate(divide="ignore"):
        return -float(np.average(np.where(happened == 1.0, np.log(p), np.log1p(-p)), weights=w))


def chance_miscalibration(
    p: NDArray[np.float64],
    scoring: str,
    rng: np.random.Generator,
    *,
    n_draws: int = 8,
    w: NDArray[np.float64] | None = None,
) -> float:
    """Return the mean MCB of labels drawn from predictions: that of calibrated ones, by chance.

    Parameters
    ----------
    p, w : ndarray of shape (n_samples,)
        Predictions, and their weights; ones by default.
    scoring
        ``"brier"`` or ``"log"``.
    rng
        The source of the draws.
    n_draws
        How many sets of labels are drawn.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = np.full(100, 0.5)  # here it is p(1 − p) / n
    >>> round(chance_miscalibration(p, "brier", rng, n_draws=1000), 4)
    0.0025
    """
    order = np.argsort(p, kind="stable")  # once for all draws
    p, w = p[order], None if w is None else w[order]
    total = 0.0
    for _ in range(n_draws):
        y = (rng.random(len(p)) < p).astype(np.float64)
        score = mean_score_of(y, p, scoring, w)
        total += decompose(isotonic_fit(p, y, w), score, scoring).mcb
    return total / n_draws
