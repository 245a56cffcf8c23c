"""Calibration of the most probable label only.

Users of a multiclass model mostly see its most probable label and the probability of this label. So
each label has a calibrator, which learns only from the samples where that label was the most
probable one; it learns whether the label was correct (Gupta & Ramdas, *Top-label Calibration and
Multiclass-to-binary Reductions*, ICLR 2022, algorithm 1). The other labels share the rest in the
model's own proportions.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from river.base.typing import ClfTarget

from streamcal._locked import Locked
from streamcal._state import Arrays, Fields, as_names, fill, nested, pack
from streamcal._validation import as_weight, check_label
from streamcal._whole import Step, do_all
from streamcal.calibration.base import Calibrator, check_calibrator
from streamcal.calibration.clock import Time
from streamcal.calibration.context import Context
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.joint import JointCalibrator, as_probabilities_by_label
from streamcal.notebook.shape import Shape


class TopLabelCalibrator(Locked, JointCalibrator):
    """Calibrate the probability of the model's most probable label.

    The calibrated value of that label may fall below another's.

    Parameters
    ----------
    calibrator : Calibrator, optional
        The prototype that is cloned for each label; it must accept scores in [0, 1] and the labels
        0 and 1. None means ``HedgedCalibrator()``.

    Raises
    ------
    TypeError
        If ``calibrator`` is not a `Calibrator`.
    ValueError
        If it refuses the labels 0 and 1.

    Examples
    --------
    >>> calibrator = TopLabelCalibrator()
    >>> raw = {"cold": 0.05, "warm": 0.9, "hot": 0.05}
    >>> for y in ["warm", "cold", "warm", "hot"] * 100:
    ...     calibrator.learn_one(raw, y)
    >>> {label: round(p, 2) for label, p in calibrator.predict_one(raw).items()}
    {'cold': 0.25, 'warm': 0.5, 'hot': 0.25}
    """

    def __init__(self, calibrator: Calibrator | None = None) -> None:
        prototype: Any = HedgedCalibrator() if calibrator is None else calibrator
        check_calibrator(prototype)
        self.calibrator = calibrator
        self._prototype = prototype
        if prototype.needs_time:
            self.needs_time = True
        self._calibrators: dict[ClfTarget, Calibrator] = {}

    def learn_one(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float = 1.0, *, t: Time | None = None
    ) -> None:
        """Teach the calibrator of the most probable label whether this label was correct.

        Raises
        ------
        ValueError, TypeError
            If ``raw`` does not map labels to numbers in [0, 1], ``y`` is not a label, or ``w`` is
            not from 1e-60 to 1e60.
        """
        with self._mutex:
            do_all(*self._steps(raw, y, w, {}, t))

    def _learn_steps(
        self, raw: Mapping[ClfTarget, float], y: ClfTarget, w: float, t: Time | None = None
    ) -> Sequence[Step]:
        if type(self).learn_one is not TopLabelCalibrator.learn_one:
            return super()._learn_steps(raw, y, w, t)
        return self._steps(raw, y, w, {}, t)

    def _group_steps(
        self,
        rows: Sequence[tuple[Mapping[ClfTarget, float], ClfTarget]],
        w: float,
        t: Time | None = None,
    ) -> Sequence[Step]:
        if type(self).learn_one is not TopLabelCalibrator.learn_one:
            return super()._group_steps(rows, w, t)
        new: dict[ClfTarget, Calibrator] = {}
        return [step for raw, y in rows for step in self._steps(raw, y, w, new, t)]

    def _steps(
        self,
        raw: Mapping[ClfTarget, float],
        y: ClfTarget,
        w: float,
        new: dict[ClfTarget, Calibrator],
        t: Time | None,
    ) -> Sequence[Step]:
        """Return what learns a sample, after checks; ``new`` holds what earlier steps will add."""
        weight = as_weight(w)
        checked = as_probabilities_by_label(raw)
        check_label(y)
        moment = self._read_time(t)
        context, kind = Context(t=t), self._kind_steps(moment.kind)
        if not checked:
            return ()
        top = max(checked, key=checked.__getitem__)
        calibrator = self._calibrators.get(top)
        if calibrator is not None:
            steps = calibrator._learn_steps(checked[top], float(top == y), weight, context)
            return *steps, *kind
        calibrator = new[top] if top in new else self._prototype.clone()
        new[top] = calibrator
        steps = calibrator._learn_steps(checked[top], float(top == y), weight, context)
        return *steps, partial(self._calibrators.__setitem__, top, calibrator), *kind

    def predict_one(self, raw: Mapping[ClfTarget, float]) -> dict[ClfTarget, float]:
        """Return the calibrated probability of each label; the state does not change."""
        checked = as_probabilities_by_label(raw)
        if len(checked) < 2 or not any(checked.values()):
            return {label: 1.0 / len(checked) for label in checked}
        top = max(checked, key=checked.__getitem__)
        rest = sum(p for label, p in checked.items() if label != top)
        calibrator = self._calibrators.get(top)
        p = checked[top]
        q = p / (p + rest) if calibrator is None else calibrator.predict_one(p)
        if rest > 0.0:
            shares = {label: (1.0 - q) * (p / rest) for label, p in checked.items()}
        else:
            shares = dict.fromkeys(checked, (1.0 - q) / (len(checked) - 1))
        shares[top] = q
        return shares

    def _facts(self) -> dict[str, int]:
        return {"labels": len(self._calibrators)}

    def _shapes(self) -> dict[ClfTarget, Shape]:
        """Return the map of each label, for a picture, over its probability as the most probable.

        Without labels it is that of a new calibrator.
        """
        with self._mutex:
            calibrators = dict(self._calibrators)
        if not calibrators:
            return {True: self._prototype._shape()}
        return {label: calibrator._shape() for label, calibrator in calibrators.items()}

    def _freeze(self) -> tuple[Fields, Arrays]:
        with self._mutex:
            states = [nested(calibrator) for calibrator in self._calibrators.values()]
            labels = [pack(label) for label in self._calibrators]
        return {"labels": labels, **self._freeze_kind()}, {
            str(at): state for at, state in enumerate(states)
        }

    def _thaw(self, fields: Fields, arrays: Arrays) -> None:
        labels = as_names(fields["labels"], "labels", none=True)
        restored = [fill(self._prototype.clone(), arrays, str(i)) for i in range(len(labels))]
        self._thaw_kind(fields)
        self._calibrators = dict(zip(labels, restored, strict=True))
