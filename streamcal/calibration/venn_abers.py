"""Venn-Abers calibration of a stream: a pair of probabilities for each score."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._state import Arrays, Fields
from streamcal._validation import as_score, check_choice
from streamcal._whole import Step
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, FieldValues
from streamcal.calibration.isotonic import IsotonicCalibrator, regression_of
from streamcal.calibration.tickets import Ticket
from streamcal.export.curve import steps
from streamcal.export.description import Description, unlearned
from streamcal.notebook.shape import Samples, Shape, grid

Vector = NDArray[np.float64]

_N_PAIRS = 201  # in a picture


class VennAbersCalibrator(Calibrator):
    """Two probabilities for each score: the isotonic map with the sample's label 0, and with 1.

    For samples in random order one of the two, p0 and p1, is perfectly calibrated [1]_. Their
    distance is small if there are many samples near the score. `predict_one` returns one
    probability, the merged pair p1 / (1 − p0 + p1).

    The samples are those of an `IsotonicCalibrator` for log loss, which `isotonic` returns.

    Parameters
    ----------
    window : int or timedelta, optional
        Keep only this many of the last samples, or those of this time.
    half_life : float or timedelta, optional
        The number of samples after which the weight of a sample is halved, at least 0.1; or the
        time after which it is. `learn_one` then needs the time ``t`` of each sample.
    prior : float
        The weight of the two pseudo-samples of `IsotonicCalibrator`, which keep probabilities away
        from 0 and 1. They are part of both maps; 0 gives the pair of the reference.
    max_scores : int
        How many distinct scores are kept; see `IsotonicCalibrator`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range or of the wrong kind.

    Notes
    -----
    A pair costs three updates of the map, O(log² n) each: the sample is added with the label 0,
    changed to 1, and removed. Nothing is interpolated.

    With a half-life that counts, the pair's sample is one sample later than the newest; with one of
    time it is at the time of the newest.

    References
    ----------
    .. [1] Vovk, Petej & Fedorova, *Large-Scale Probabilistic Predictors With and Without Guarantees
       of Validity*, NIPS 2015, section 3 (inductive Venn-Abers predictors).

    Examples
    --------
    >>> calibrator = VennAbersCalibrator(prior=0)
    >>> calibrator.learn_many([0.1, 0.4, 0.5, 0.9], [0, 1, 0, 1])
    >>> calibrator.predict_interval_one(0.45)
    (0.3333, 0.6667)
    >>> calibrator.predict_one(0.45)
    0.5
    """

    def __init__(
        self,
        *,
        window: int | timedelta | None = None,
        half_life: float | timedelta | None = None,
        prior: float = 1.0,
        max_scores: int = 1_000_000,
    ) -> None:
        self.window = window
        self.half_life = half_life
        self.prior = prior
        self.max_scores = max_scores
        self._isotonic = IsotonicCalibrator(
            "log", window=window, half_life=half_life, prior=prior, max_scores=max_scores
        )
        if self._isotonic.needs_time:
            self.needs_time = True

    @property
    def isotonic(self) -> IsotonicCalibrator:
        """The isotonic calibrator of the same samples; not a copy: both share one state."""
        return self._isotonic

    @property
    def n_samples(self) -> int:
        """The number of samples of the current pairs."""
        return self._isotonic.n_samples

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: FieldValues | None = None,
        ticket: Ticket | None = None,
        t: Time | None = None,
    ) -> None:
        """Learn a sample; O(log² n) in the number n of distinct scores.

        Raises
        ------
        ValueError, TypeError
            As `IsotonicCalibrator.learn_one`; nothing is learned.
        """
        self._isotonic.learn_one(score, y, w, t=t)

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not VennAbersCalibrator.learn_one:
            return super()._learn_steps(score, y, w, context)
        return self._isotonic._learn_steps(score, y, w, context)

    def unlearn_one(self, score: float, y: float, w: float = 1.0) -> None:
        """Remove a sample that was learned with the same arguments; O(log² n).

        Raises
        ------
        ValueError, TypeError
            As `IsotonicCalibrator.unlearn_one`; nothing changes.
        """
        self._isotonic.unlearn_one(score, y, w)

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> None:
        """Learn samples in the order given, in one compiled loop."""
        self._isotonic.learn_many(scores, y, w, t=t)

    def predict_interval_one(self, score: float) -> tuple[float, float]:
        """Return the pair (p0, p1) of a score, p0 ≤ p1; O(log² n).

        These are the values of the map at ``score`` if the sample were learned with the label 0 and
        weight 1, and if it were learned with the label 1. No sample leaves the window, and no
        scores are merged.

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        return regression_of(self._isotonic).what_if(as_score(score))

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the merged pair of a score; O(log² n).

        Before anything is learned, it is the score, or the nearest number in [0, 1].

        Raises
        ------
        ValueError
            If the score is not finite.
        TypeError
            If it is not a number.
        """
        if not self.n_samples:  # another thread may learn now, and the map would not be the pair
            return self._isotonic._loss.z_range.clip(as_score(score))
        p0, p1 = self.predict_interval_one(score)
        return p1 / (1.0 - p0 + p1)

    def merge(self, other: "VennAbersCalibrator") -> None:
        """Learn all samples of another calibrator as well; O(n) of both.

        Also written ``calibrator += other``.

        Raises
        ------
        TypeError
            If ``other`` is not a `VennAbersCalibrator`.
        ValueError
            If the half-life differs, or one of the two has a window. Nothing changes.
        """
        if not isinstance(other, VennAbersCalibrator):
            raise TypeError(f"`other` must be a VennAbersCalibrator, got {type(other).__name__}")
        self._isotonic.merge(other._isotonic)

    def __iadd__(self, other: "VennAbersCalibrator") -> Self:
        self.merge(other)
        return self

    def _check_kind(self, kind: str | None, t: Any) -> None:
        self._isotonic._check_kind(kind, t)

    _learns_shares = True

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        return self._isotonic._check_labels(y)

    def _describe(self) -> Description:
        return self._describe_answer("merged")

    def _describe_answer(self, answer: str) -> Description:
        check_choice(answer, "answer", ("merged", "lower", "upper"))
        if not self.n_samples and answer == "merged":
            return unlearned(0.0, 1.0, of_probabilities=False)

        def value(scores: Vector) -> Vector:
            pairs = [self.predict_interval_one(score) for score in scores.tolist()]
            low, high = np.array(pairs).reshape(-1, 2).T
            if answer != "merged":
                return np.array(low if answer == "lower" else high)
            return np.asarray(high / (1.0 - low + high))

        # A new score counts by its place among the others only: between them, or at one of them.
        kept = self._isotonic.samples()[0]
        starts = np.concatenate([kept, np.nextafter(kept, np.inf)])
        return Description(steps(value, starts), None, of_probabilities=False)

    def _shape(self) -> Shape:
        kept, n_samples = self._kept_scores(), self.n_samples
        if not n_samples:
            return super()._shape()
        x = grid(kept[0], _N_PAIRS)
        low, high = np.array([self.predict_interval_one(score) for score in x.tolist()]).T
        return Shape(x, high / (1.0 - low + high), n_samples, kept, interval=(low, high))

    def _kept_scores(self) -> Samples:
        return self._isotonic._kept_scores()

    def _freeze(self) -> tuple[Fields, Arrays]:
        return self._isotonic._freeze()

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        self._isotonic._thaw(fields, arrays)
