"""The base class of calibrators of probabilities, with scores and labels in [0, 1].

Wrappers and ensembles add probabilities, and rounding may make a sum exceed 1 slightly. Such values
are clipped; values further outside [0, 1] are refused.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._frames import like_given
from streamcal._validation import (
    as_number,
    as_probabilities,
    as_probability,
    as_vector,
    as_weight,
    check_within,
)
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import NO_CONTEXT, Context, FieldValues
from streamcal.calibration.tickets import Ticket
from streamcal.kernels.expert import Expert
from streamcal.losses import Log

_LOSS = Log()
MOST_BINS = 1_000_000
"""The greatest number of bins; each takes memory, and time for each sample."""


class ProbabilityCalibrator(Calibrator):
    """A calibrator of probabilities: scores in [0, 1], labels 0 and 1 or a share between them."""

    _learns_shares = True

    def _check_labels(self, y: ArrayLike) -> NDArray[np.float64]:
        labels = as_vector(y, "y", finite=False)
        _LOSS.check_labels(labels)
        return labels

    def _check_score(self, score: float) -> None:
        as_probability(score)

    def _check_scores(self, scores: ArrayLike) -> NDArray[np.float64]:
        return as_probabilities(scores, "scores")


class CompiledCalibrator(ProbabilityCalibrator):
    """A calibrator of probabilities that consists of one compiled `Expert`."""

    _kernel: Expert

    @abstractmethod
    def __init__(self) -> None: ...

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
        """Learn that ``score`` in [0, 1] was followed by the label ``y`` in [0, 1].

        Raises
        ------
        ValueError, TypeError
            If an argument is not such a number or ``w`` is not from 1e-60 to 1e60.
        """
        if self.needs_time:
            self._learn_at(score, y, w, t)
            return
        plain = type(score) is type(y) is type(w) is float and w == 1.0
        if plain and 0.0 <= score <= 1.0 and 0.0 <= y <= 1.0:  # quicker than calls
            self._kernel.learn(score, y, w)
        else:
            self._kernel.learn(as_probability(score), as_label(y), as_weight(w))

    def _learn_at(self, score: float, y: float, w: float, t: Time | None) -> None:
        """Do what `learn_one` does, where time is needed."""
        seconds, kind = self._read_time(t)
        if kind != self._kind:  # the first time
            do_all(*self._steps(score, y, w, t))
            return
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        plain = type(score) is type(y) is float
        if plain and 0.0 <= score <= 1.0 and 0.0 <= y <= 1.0:  # quicker than calls
            self._kernel.learn(score, y, weight, seconds)
        else:
            self._kernel.learn(as_probability(score), as_label(y), weight, seconds)

    def predict_one(self, score: float, x: FieldValues | None = None) -> float:
        """Return the calibrated probability of ``score`` in [0, 1].

        Before anything is learned it is the score itself.
        """
        return self._kernel.predict(as_probability(score))

    def predict_many(self, scores: ArrayLike, x: Any = None) -> NDArray[np.float64]:
        """Return the calibrated probabilities of ``scores``, shape ``(n_samples,)``."""
        values = self._kernel.predict_many(as_probabilities(scores, "scores"))
        return like_given(values, scores)

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
        self.predict_learn_many(scores, y, w, t=t)

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        *,
        x: Any = None,
        t: Any = None,
    ) -> NDArray[np.float64]:
        """Predict each sample, then learn it, in one compiled loop; see `Calibrator`."""
        samples = self._check_samples(scores, y, w)
        times = self._read_times(t, len(samples[0]))
        if times is None:
            values = self._kernel.predict_learn_many(*samples)
        else:
            values = np.empty(len(samples[0]))
            do_all(*self._steps_of_kernel(self._kernel, *samples, values, times))
        return like_given(values, scores)

    def _learn_steps(
        self, score: float, y: float, w: float, context: Context = NO_CONTEXT
    ) -> Sequence[Step]:
        if type(self).learn_one is not _LEARN_ONE:
            return super()._learn_steps(score, y, w, context)
        return self._steps(score, y, w, context.t)

    def _steps(self, score: float, y: float, w: float, t: Any) -> Sequence[Step]:
        """Return what learns a sample, after checks."""
        weight = 1.0 if type(w) is float and w == 1.0 else as_weight(w)
        sample = as_probability(score), as_label(y), weight
        if not self.needs_time:
            return (partial(self._kernel.learn, *sample),)
        seconds, kind = self._read_time(t)
        learn = partial(self._kernel.learn, *sample, seconds)
        return (learn,) if kind == self._kind else (learn, *self._kind_steps(kind))

    def _sampler(self) -> Callable[..., float] | None:
        kernel = self._batch_kernel() if self._knows_times() else None
        return None if kernel is None else kernel.predict_learn

    def _batch_kernel(self) -> Expert | None:
        own = type(self).predict_learn_many is CompiledCalibrator.predict_learn_many
        return self._compiled() if own else None

    def _learns_times(self) -> bool:
        return type(self).predict_learn_many is CompiledCalibrator.predict_learn_many

    def _compiled(self) -> Expert | None:
        own = type(self)
        plain = own.learn_one is _LEARN_ONE and own.predict_one is _PREDICT_ONE
        return self._kernel if plain else None


_LEARN_ONE, _PREDICT_ONE = CompiledCalibrator.learn_one, CompiledCalibrator.predict_one


def as_label(y: float) -> float:
    """Return a label as a Python float in [0, 1], or raise."""
    label = y if type(y) is float else as_number(y, "y")
    if not 0.0 <= label <= 1.0:
        _LOSS.check_labels(label)
    return label


def check_clip(clip: float) -> None:
    """Raise unless ``clip`` lies in [1e-15, 0.5); for a smaller one, 1 - clip would be 1."""
    check_within(clip, "clip", "[1e-15, 0.5)")
