"""Calibrators of all probabilities of a sample at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np
from river.base.typing import ClfTarget

from streamcal._state import Stateful
from streamcal._state.clone import Cloned
from streamcal._validation import as_probability
from streamcal._whole import Step
from streamcal.calibration.clock import Time, Timed
from streamcal.notebook.card import card
from streamcal.notebook.shape import Shape, Vector


class JointCalibrator(Timed, Stateful, Cloned, ABC):
    """An online map from the probabilities of all labels to calibrated ones.

    A `streamcal.Calibrator` maps one score, and `streamcal.CalibratedClassifier` has one for each
    label. A joint calibrator maps the probabilities of all labels; the set of labels may change.
    One that forgets by time ``needs_time``: `learn_one` gets the time ``t`` of the sample.

    Examples
    --------
    >>> from streamcal import TemperatureCalibrator
    >>> joint: JointCalibrator = TemperatureCalibrator()
    >>> raw = {"cat": 0.8, "dog": 0.1, "fox": 0.1}
    >>> for label in ["cat", "dog", "fox"] * 30:
    ...     joint.learn_one(raw, label)
    >>> {label: round(p, 2) for label, p in joint.predict_one(raw).items()}
    {'cat': 0.34, 'dog': 0.33, 'fox': 0.33}
    """

    is_joint: ClassVar[bool] = True
    needs_propensity: ClassVar[bool] = False

    @abstractmethod
    def learn_one(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float = 1.0, *, t: Time | None = None
    ) -> None:
        """Learn that the model's probabilities ``raw`` were followed by the label ``y``.

        ``t`` is the time at which it is learned, where ``needs_time`` is true.
        """

    @abstractmethod
    def predict_one(self, raw: Mapping[ClfTarget, float]) -> dict[ClfTarget, float]:
        """Return calibrated probabilities under the same labels in the same order.

        They lie in [0, 1] and sum to 1; the state does not change.
        """

    def export(self, *args: object, **options: object) -> NoReturn:
        """Raise ``TypeError``: only maps of one score are exported, see `Calibrator.export`."""
        raise TypeError(
            f"`export` is for maps of one score, but a {type(self).__name__} maps the probabilities"
            " of all labels at once: keep its `to_bytes`, and serve with Python"
        )

    def _learn_steps(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float, t: Time | None = None
    ) -> Sequence[Step]:
        """Return what learns a sample, for `do_all`; it is compiled but in a class of your own."""
        given: dict[str, Any] = {"t": t} if self.needs_time else {}
        return (partial(self.learn_one, raw, y, w, **given),)

    def _group_steps(
        self,
        rows: Sequence[tuple[Mapping[ClfTarget, float], ClfTarget]],
        w: float,
        t: Time | None = None,
    ) -> Sequence[Step]:
        """Return what learns rows one after the other, each with weight ``w``, for `do_all`."""
        return [step for raw, y in rows for step in self._learn_steps(raw, y, w, t)]

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        n_samples = getattr(self, "n_samples", None)
        known = {} if n_samples is None else {"samples": n_samples}
        return card(self, known | self._facts(), self._shapes())

    def _facts(self) -> dict[str, Any]:
        """Return names and values of the state, for a notebook."""
        return {}

    def _shapes(self) -> dict[ClfTarget, Shape]:
        """Return maps by label, for a picture; here that of the probability of one of two."""
        return {True: Shape.of(self._predict_two, n_samples=getattr(self, "n_samples", None))}

    def _predict_two(self, scores: Vector) -> Vector:
        """Return the calibrated probabilities of True if the only other label is False."""
        pairs: list[dict[ClfTarget, float]] = [{True: p, False: 1.0 - p} for p in scores.tolist()]
        return np.array([self.predict_one(pair)[True] for pair in pairs])


def as_probabilities_by_label(raw: Any) -> dict[ClfTarget, float]:
    """Return a model's probabilities of all labels as floats in [0, 1], or raise.

    Examples
    --------
    >>> as_probabilities_by_label({"cold": 0, "warm": True})
    {'cold': 0.0, 'warm': 1.0}
    >>> as_probabilities_by_label(0.7)
    Traceback (most recent call last):
    ...
    TypeError: `raw` must be a mapping from labels to probabilities, got 0.7
    """
    if not isinstance(raw, Mapping):
        raise TypeError(f"`raw` must be a mapping from labels to probabilities, got {raw!r}")
    for label in raw:
        if label != label:
            raise ValueError(f"labels of `raw` must not be NaN, got {raw!r}")
    return {label: as_probability(p) for label, p in raw.items()}
