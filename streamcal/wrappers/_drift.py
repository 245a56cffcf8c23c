"""A drift detector that watches what a classifier serves."""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from river import base
from river.base.typing import ClfTarget

from streamcal._state import as_float, as_int, as_list, as_name, pack, require, unpack
from streamcal._validation import as_probability, as_weight, check_beside
from streamcal._whole import Step
from streamcal.calibration.clock import Time, pack_time, unpack_time
from streamcal.wrappers.checks import check_drift_detector


class Sample(NamedTuple):
    """A sample that new calibrators may learn again.

    Attributes
    ----------
    raw : mapping
        The model's probabilities by label.
    x : mapping
        The features of segments.
    y : label
    w : float
        The weight.
    t : datetime, float or None
        The time, if calibrators need it.
    propensity : float or None
        The probability with which the label was asked for, if calibrators need it.
    """

    raw: Mapping[ClfTarget, float]
    x: Mapping[Any, Any]
    y: ClfTarget
    w: float
    t: Time | None = None
    propensity: float | None = None


_KEPT_AFTER_DRIFT = 200  # recent samples that new calibrators learn after an alarm


class DriftMonitor:
    """Runs a drift detector on the errors of served probabilities, and keeps recent samples.

    Parameters
    ----------
    prototype : river drift detector
        Cloned. One that ``takes_probabilities``, as `streamcal.monitoring.CalibrationDrift`, gets
        labels and probabilities; a `BinaryDriftDetector` gets whether the likeliest label was
        wrong, any other the squared error (1/2) Σ (hit − p)² over the labels, in [0, 1].
    on_drift : {"shrink", "reset", "none"}
        With "shrink" ``recent`` holds the last 200 samples, otherwise none.

    Raises
    ------
    TypeError
        If ``prototype`` is not a drift detector.

    Examples
    --------
    >>> from river import drift
    >>> monitor = DriftMonitor(drift.ADWIN(), "reset")
    >>> monitor.update([({False: 0.5, True: 0.5}, True)] * 500)
    0
    >>> monitor.update([({False: 0.0, True: 1.0}, False)] * 500) > 0
    True
    """

    def __init__(
        self, prototype: base.DriftDetector | base.BinaryDriftDetector, on_drift: str
    ) -> None:
        check_drift_detector(prototype)
        self.detector = prototype.clone()
        n_kept = _KEPT_AFTER_DRIFT if on_drift == "shrink" else 0
        self.recent: deque[Sample] = deque(maxlen=n_kept)
        self.n_alarms = 0

    def check_labels(self, labels: Iterable[Any]) -> None:
        """Raise if the detector can't take these labels; before the model learns one of them."""
        if not getattr(self.detector, "takes_probabilities", False):
            return
        labels = list(labels)
        pos_val = getattr(self.detector, "pos_val", None)
        if pos_val is None:  # any of them may be the likeliest
            pos_val = next((label for label in labels if isinstance(label, bool)), labels[0])
        for label in labels:
            check_beside(label, pos_val)

    def update(
        self,
        served: Iterable[tuple[Mapping[ClfTarget, float], ClfTarget]],
        *,
        as_group: bool = False,
    ) -> int:
        """Update the detector with served probabilities and labels; return how often it alarms.

        ``as_group``: they share an outcome, so a detector that knows groups gets one sample.
        """
        update_rows = getattr(self.detector, "_update_rows", None)
        if as_group and update_rows is not None:
            known = [(p, y) for p, y in served if p]
            if not known:
                return 0
            update_rows([y for _, y in known], [p for p, _ in known])
            return int(self.detector.drift_detected)
        n_alarms = 0
        for probabilities, y in served:
            if not probabilities:
                continue
            # river's type of a detector takes one number.
            if getattr(self.detector, "takes_probabilities", False):
                self.detector.update(y, probabilities)  # type: ignore[call-arg, arg-type]
            elif isinstance(self.detector, base.BinaryDriftDetector):
                self.detector.update(max(probabilities, key=probabilities.__getitem__) != y)
            else:
                self.detector.update(_squared_error(probabilities, y))
            n_alarms += bool(self.detector.drift_detected)
        return n_alarms

    def learn_steps(self, samples: list[Sample], n_alarms: int) -> list[Step]:
        """Return what keeps samples and counts alarms, for `do_all`."""
        count = partial(setattr, self, "n_alarms", self.n_alarms + n_alarms)
        return [count, partial(self.recent.extend, samples)]

    def freeze(self) -> list[Any]:
        """Return the state as JSON, for `thaw`; the detector must be one that has bytes."""
        recent = [
            [*(_pairs(part) for part in (probabilities, x)), pack(y), w, pack_time(t), propensity]
            for probabilities, x, y, w, t, propensity in self.recent
        ]
        return [self.n_alarms, pack(self.detector), recent]

    def thaw(self, state: Any) -> None:
        """Set what `freeze` returned; raise ``ValueError`` if it can't be of this detector."""
        n_alarms, detector, recent = as_list(state, "monitor", 3)
        detector, samples = unpack(detector), []
        prototype: Any = self.detector
        require(
            type(detector) is type(prototype) and detector._parameters() == prototype._parameters(),
            "the drift detector must have the class and parameters of the prototype",
        )
        for sample in as_list(recent, "recent"):
            probabilities, x, y, w, t, propensity = as_list(sample, "a recent sample", 6)
            raw = {label: as_probability(p, "p") for label, p in _mapping(probabilities).items()}
            label, weight = as_name(unpack(y), "y"), as_weight(w)
            if propensity is not None:
                propensity = as_float(propensity, "propensity", 0.0, 1.0)
            time = unpack_time(t)
            samples.append(Sample(raw, _mapping(x), label, weight, time, propensity))
        most = self.recent.maxlen or 0
        require(len(samples) <= most, f"there must be at most {most} recent samples")
        self.n_alarms, self.detector = as_int(n_alarms, "n_alarms"), detector
        self.recent.extend(samples)


def _pairs(mapping: Mapping[Any, Any]) -> list[list[Any]]:
    """Return a mapping as JSON, for `_mapping`."""
    return [[pack(key), pack(value)] for key, value in mapping.items()]


def _mapping(pairs: Any) -> dict[Any, Any]:
    """Return the mapping of which `_pairs` has made pairs."""
    listed = [as_list(pair, "a pair", 2) for pair in as_list(pairs, "pairs")]
    return {as_name(unpack(key), "key", none=True): unpack(value) for key, value in listed}


def _squared_error(probabilities: Mapping[ClfTarget, float], y: ClfTarget) -> float:
    """Return (1/2) Σ (hit − p)² over the labels; a label unknown to the model has p = 0."""
    error = sum((p - (label == y)) ** 2 for label, p in probabilities.items())
    return 0.5 * (error + (y not in probabilities))
