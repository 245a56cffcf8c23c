"""CORP: the parts of a mean score that are miscalibration, discrimination and uncertainty.

Isotonic regression of the labels on the predicted probabilities gives the best recalibration that
keeps their order, without bins or parameters. Scoring the predictions p, the recalibrated ones C(p)
and the overall frequency ȳ splits the mean score S:

    S(p) = MCB − DSC + UNC,   MCB = S(p) − S(C(p)),   DSC = S(ȳ) − S(C(p)),   UNC = S(ȳ).

MCB is the gain by recalibration, DSC the gain of the recalibrated predictions over the overall
frequency, UNC the score of that frequency. DSC and UNC follow from the blocks of the isotonic fit
C, and S(p) is a running mean, so the split of a stream costs one pass over the blocks.

Means of counts and amounts are split in the same way by a deviance, which is consistent for the
mean; then UNC needs a second running mean, of the deviance from a fixed number.
"""

import math
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from river.metrics.base import BinaryMetric

from streamcal._validation import check_choice
from streamcal._whole import Step, do_all
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.isotonic.corp import Decomposition, decompose, decompose_means
from streamcal.isotonic.staircase import Staircase, isotonic_fit
from streamcal.losses import Log, Tweedie
from streamcal.losses.deviance import Deviance, DevianceName
from streamcal.metrics._each_label import EachLabel
from streamcal.metrics._exact_sum import ExactSum
from streamcal.metrics.bands import Band, BandMethod, Kind, corp_band
from streamcal.metrics.base import MeanMetric, Multiclass, check_multiclass, find_deviance

Scoring = Literal["brier", "log"]
SCORES: tuple[Scoring, ...] = get_args(Scoring)


class CORP(MeanMetric, BinaryMetric):
    """Miscalibration (MCB), discrimination (DSC) and uncertainty (UNC) of predictions [1]_.

    Predictions are probabilities of a label or, with ``loss``, means of counts or amounts.

    The value of the metric is MCB ≥ 0, smaller is better; the other parts are attributes, and
    ``mean_score == mcb - dsc + unc``. All are exact after every update, for any weights and in
    any order, and 0 before the first one.

    For n distinct predictions an update takes O(log² n) and `get` O(n). Memory grows with n. For an
    endless stream use `RollingCORP` or
    ``river.utils.Rolling(CORP, window_size=...)``, which reverts the oldest sample. If the weights
    of samples with one prediction (of any samples with ``multiclass="classwise"``) differ by a
    factor of 10⁹ or more, a light one may be lost in the sums, and reverting it is an error;
    `RollingCORP` does not lose it. With ``loss``, the mean of
    what is left after reverting is wrong by about 10⁻¹⁶ of what was reverted, weights times labels.

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
        of the predicted label, the one with the greatest, against whether it is right [2]_.
        ``"classwise"``: the mean over labels of the split of each, against all others, as in
        `ECE`. ``mean_score`` is then the multiclass Brier score by the number of labels. An update
        takes O(labels · log² n). None: the label ``pos_val``.
    loss
        For labels that are numbers, and predictions of their mean [3]_: ``"squared"``,
        ``"poisson"``, ``"gamma"``, ``"tweedie"`` or a `streamcal.losses.Tweedie`, with the ranges
        of `streamcal.losses`. The score is the deviance, that of `sklearn.metrics`: (p − y)² for
        ``"squared"``. The metric then works with regressors, and ``scoring``, ``pos_val`` and
        ``multiclass`` must be left out. A prediction of 0 for a positive label has an infinite
        Poisson or Tweedie deviance, see ``scoring``; the command line counts it as 1e-15.

    References
    ----------
    .. [1] Dimitriadis, T., Gneiting, T. and Jordan, A. I. (2021). Stable reliability diagrams for
       probabilistic classifiers. PNAS 118(8), equations 1 and 2.
    .. [2] Gupta, C. and Ramdas, A. (2022). Top-label calibration and multiclass-to-binary
       reductions. ICLR.
    .. [3] Gneiting, T. and Resin, J. (2023). Regression diagnostics meets forecast evaluation:
       conditional calibration, reliability diagrams, and coefficient of determination. Electronic
       Journal of Statistics 17(2), section 3.

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

    Three labels, each against all others:

    >>> metric = CORP(multiclass="classwise")
    >>> metric.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    >>> metric.update("b", {"a": 0.25, "b": 0.25, "c": 0.5})
    >>> metric.update("c", {"a": 0.0, "b": 0.25, "c": 0.75})
    >>> metric
    CORP: 0.078704
    >>> {label: round(mcb, 4) for label, mcb in metric.by_label.items()}
    {'a': 0.1042, 'b': 0.0069, 'c': 0.125}

    Counts; DSC − MCB as a share of UNC is D², the share of the deviance that is explained:

    >>> metric = CORP(loss="poisson")
    >>> for yt, yp in [(0, 0.5), (2, 1.0), (1, 1.5), (4, 2.0)]:
    ...     metric.update(yt, yp)
    >>> print(f"{metric.mean_score:.4f} = {metric.mcb:.4f} - {metric.dsc:.4f} + {metric.unc:.4f}")
    0.8767 = 0.7918 - 1.4221 + 1.5071
    >>> print(f"{(metric.dsc - metric.mcb) / metric.unc:.3f}")
    0.418
    """

    def __init__(
        self,
        scoring: Scoring = "brier",
        pos_val: Any = True,
        multiclass: Multiclass | None = None,
        loss: DevianceName | Tweedie | None = None,
    ) -> None:
        check_choice(scoring, "scoring", SCORES)
        check_multiclass(multiclass, pos_val)
        self.scoring = scoring
        self.pos_val = pos_val
        self.multiclass = multiclass
        self.loss = loss
        self._event = None if multiclass else pos_val
        self._deviance = find_deviance(
            loss, scoring=scoring != "brier", pos_val=pos_val is not True, multiclass=multiclass
        )
        # Without a prior its values are means for any loss; the log loss has the range [0, 1].
        kept = Log() if self._deviance is None else self._deviance.loss
        self._calibrator = IsotonicCalibrator(loss=kept, prior=0.0)
        self._weight = ExactSum()
        self._sum = ExactSum()  # of the finite scores
        self._n_infinite = 0
        # Only with a loss: a number near the labels, and the sum of their deviances from it.
        self._center: float | None = None
        self._around = ExactSum()
        self._each: EachLabel[CORP] | None = None  # only for "classwise"
        if multiclass == "classwise":
            self._each = EachLabel(CORP(scoring))

    def get(self) -> float:
        """Return the miscalibration MCB."""
        return self.split().mcb

    @property
    def mean_score(self) -> float:
        """The mean score S(p)."""
        return self.split().mean_score if self._each is not None else self._mean_score()

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

    @property
    def by_label(self) -> dict[Any, float]:
        """The MCB of each label if ``multiclass`` is "classwise", else empty."""
        metrics = {} if self._each is None else self._each.metrics
        return {label: metric.mcb for label, metric in metrics.items()}

    def staircase(self) -> Staircase:
        """Return the recalibration C, the CORP reliability curve.

        Raises
        ------
        ValueError
            If ``multiclass`` is "classwise": each label has its own curve.
        """
        self._check_one_curve("staircase")
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
            If an argument is out of range, nothing was added, or weights are not counts; as
            `staircase` does; and for means (`loss`), whose band needs the single labels:
            `ReliabilityDisplay.from_predictions` draws it.

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
        self._check_one_curve("band")
        if self._deviance is not None:
            raise ValueError(
                f"`band` needs labels 0 and 1, got loss={self._deviance.name!r};"
                " ReliabilityDisplay.from_predictions(y_true, y_prob, loss=…) draws one for means"
            )
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

    def _check_one_curve(self, method: str) -> None:
        if self._each is not None:
            raise ValueError(
                f"`{method}` needs one curve, got multiclass='classwise': CORP(pos_val=label) has"
                " that of a label, ReliabilityDisplay draws all"
            )

    def _mean_score(self) -> float:
        if not self._calibrator.n_samples:
            return 0.0
        return math.inf if self._n_infinite else self._sum.value / self._weight.value

    def split(self) -> Decomposition:
        """Return mean score, MCB, DSC and UNC, in one pass over the blocks."""
        if self._each is not None and self._each.metrics:
            splits = [metric.split() for metric in self._each.metrics.values()]
            return Decomposition(*(sum(part) / len(splits) for part in zip(*splits, strict=True)))
        if not self._calibrator.n_samples:
            return Decomposition(0.0, 0.0, 0.0, 0.0)
        stairs, mean_score = self.staircase(), self._mean_score()
        if self._deviance is None:
            return decompose(stairs, mean_score, self.scoring)
        assert self._center is not None, "a sample sets it"
        around = self._around.value / self._weight.value
        return decompose_means(stairs, mean_score, self._deviance, self._center, around)

    def _add(self, y_true: Any, y_pred: Any, w: float) -> None:
        if self._each is not None:
            self._each.add(y_true, y_pred, w)
        else:
            do_all(*self._adding(*self._pair_of(y_true, y_pred), w))

    def _remove(self, y_true: Any, y_pred: Any, w: float) -> None:
        if self._each is not None:
            self._each.remove(y_true, y_pred, w)
        else:
            do_all(*self._removing(*self._pair_of(y_true, y_pred), w, y_pred))

    def _adding(self, p: float, y: float, w: float) -> list[Step]:
        """Return the steps that add a sample; all that may fail is computed now."""
        return [*self._calibrator._learn_steps(p, y, w), self._counting(p, y, w, 1)]

    def _removing(self, p: float, y: float, w: float, y_pred: Any) -> list[Step]:
        """Return the steps that remove a sample, or raise if it has not been added."""
        if not self._calibrator._holds(p, y, w):
            raise ValueError(f"`y_pred` must have been added before, got {y_pred!r}")
        return [*self._calibrator._unlearn_steps(p, y, w), self._counting(p, y, w, -1)]

    def _counting(self, p: float, y: float, w: float, sign: int) -> Step:
        """Return the step that counts a sample, or no longer."""
        counts: dict[str, Any] = {"_weight": self._weight.plus(sign * w)}
        if self._deviance is None:
            score = _score_of(p, y == 1.0, self.scoring)
        else:
            score = float(self._deviance(p, y))
            center = self._deviance.center(y) if self._center is None else self._center
            around = self._around.plus(sign * w * float(self._deviance(center, y)))
            counts |= {"_center": center, "_around": around}
        if score == math.inf:
            counts["_n_infinite"] = self._n_infinite + sign
        else:
            counts["_sum"] = self._sum.plus(sign * w * score)
        return partial(vars(self).update, counts)


def _score_of(p: float, happened: bool, scoring: str) -> float:
    if scoring == "brier":
        return (p - happened) ** 2
    if p == 1.0 - happened:
        return math.inf
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


def split_of_means(
    y: NDArray[np.float64],
    z: NDArray[np.float64],
    deviance: Deviance,
    w: NDArray[np.float64] | None = None,
) -> Decomposition:
    """Return the split of the mean deviance of predicted means, arrays of shape ``(n_samples,)``.

    Examples
    --------
    >>> from streamcal.losses.deviance import get_deviance
    >>> y, z = np.array([0.0, 2.0, 1.0, 4.0]), np.array([0.5, 1.0, 1.5, 2.0])
    >>> split_of_means(y, z, get_deviance("poisson")).mcb
    0.7918
    """
    mean = float(deviance.clip(np.asarray(np.average(y, weights=w))))
    unc = float(np.average(deviance(mean, y), weights=w))
    score = float(np.average(deviance(z, y), weights=w))
    return decompose_means(isotonic_fit(z, y, w), score, deviance, mean, unc)


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
