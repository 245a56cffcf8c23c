"""`CalibratedClassifier` with a drift detector: alarms, and the calibrators after them."""

import dataclasses
import pickle
from collections import deque
from typing import Any

import numpy as np
import pytest
from river import base, drift, linear_model

from streamcal import CalibratedClassifier, HedgedCalibrator, IsotonicCalibrator, PlattCalibrator
from tests.fixed_model import FixedModel, drifting_stream, features


@pytest.mark.parametrize("delay", [0, 20])
def test_alarms_follow_a_change_of_the_stream(delay: int) -> None:
    losses = {}
    for on_drift in ("none", "reset", "shrink"):
        model: Any = CalibratedClassifier(
            FixedModel(), IsotonicCalibrator(), drift_detector=drift.ADWIN(), on_drift=on_drift
        )
        waiting: deque[Any] = deque()
        errors, at = [], []
        for t, (x, y) in enumerate(drifting_stream(4_000, 2_000)):
            served = model.serve_one(x)
            errors.append((served.calibrated[True] - y) ** 2)
            waiting.append((x, y, served))
            if len(waiting) > delay:
                before = model.n_alarms
                x, y, served = waiting.popleft()
                model.learn_one(x, y, served=served)
                if model.n_alarms > before:
                    at.append(t)
        assert at
        assert 2_000 < at[0] < 2_400
        losses[on_drift] = sum(errors[2_000:])
        n = model.calibrators[True].n_samples
        assert (n == 4_000 - delay) == (on_drift == "none")
    assert losses["reset"] < losses["none"] - 30.0
    assert losses["shrink"] < losses["none"] - 30.0


def test_shrinking_keeps_the_last_samples() -> None:
    class Alarm(base.DriftDetector):
        def update(self, x: float) -> None:
            self.n = getattr(self, "n", 0) + 1
            self._drift_detected = self.n == 301

    kept: Any = CalibratedClassifier(FixedModel(), IsotonicCalibrator(), drift_detector=Alarm())
    fresh: Any = CalibratedClassifier(
        FixedModel(), IsotonicCalibrator(), drift_detector=Alarm(), on_drift="reset"
    )
    samples = drifting_stream(301, 1_000)
    for x, y in samples:
        kept.learn_one(x, y)
        fresh.learn_one(x, y)
    assert kept.calibrators[True].n_samples == 201
    assert fresh.calibrators[True].n_samples == 1
    expected = IsotonicCalibrator()
    for x, y in samples[-201:]:
        expected.learn_one(x["p"][True], y)
    assert kept.predict_proba_one(features(0.3))[True] == expected.predict_one(0.3)


def test_tickets_from_before_an_alarm_are_ignored() -> None:
    slow = HedgedCalibrator((IsotonicCalibrator(),))
    model: Any = CalibratedClassifier(
        FixedModel(), slow, drift_detector=drift.ADWIN(), on_drift="reset"
    )
    old = None
    for x, y in drifting_stream(3_000, 1_500):
        if model.n_alarms == 0:
            old = model.serve_one(x)
        model.learn_one(x, y)
    assert model.n_alarms >= 1
    before = model.calibrators[True].n_samples
    model.learn_one(features(0.5), True, served=old)
    assert model.calibrators[True].n_samples == before + 1


class AlarmEvery(base.DriftDetector):
    """Raises an alarm after every n errors, and keeps all errors."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n
        self.seen: list[float] = []

    def update(self, x: float) -> None:
        self.seen.append(x)
        self._drift_detected = len(self.seen) % self.n == 0


@pytest.mark.parametrize("on_drift", ["shrink", "reset", "none"])
@pytest.mark.parametrize("delay", [0, 20])
def test_an_alarm_between_serving_and_learning(on_drift: str, delay: int) -> None:
    """The tickets from before the alarm are of calibrators that were replaced."""
    model: Any = CalibratedClassifier(
        FixedModel(), drift_detector=AlarmEvery(150), on_drift=on_drift
    )
    waiting: deque[Any] = deque()
    squared = []
    for x, y in drifting_stream(400, 1_000):
        waiting.append((x, y, model.serve_one(x)))
        if len(waiting) > delay:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served)
            squared.append((served.calibrated[True] - y) ** 2)
    assert model.n_alarms == 2
    assert model._monitor.detector.seen == pytest.approx(
        squared
    )  # of the served predictions, not of current ones
    n_kept = {"shrink": 200, "reset": 0, "none": 299}[on_drift]
    assert model.calibrators[True].n_samples == n_kept + 400 - delay - 299
    if on_drift == "none":  # no ticket was dropped
        delays = [min(i, delay) for i in range(1, 400 - delay)]  # since the first late one
        assert model.calibrators[True].mean_delay == pytest.approx(np.mean(delays))


def test_the_default_follows_drift_without_an_alarm() -> None:
    model = CalibratedClassifier(FixedModel(), drift_detector=drift.ADWIN())
    for x, y in drifting_stream(3_000, 1_500):
        model.learn_one(x, y)
    assert model.n_alarms == 0
    assert model.predict_proba_one(features(0.9))[True] < 0.3


def test_binary_detectors_get_whether_the_prediction_was_wrong() -> None:
    model = CalibratedClassifier(FixedModel(), PlattCalibrator(), drift_detector=drift.binary.DDM())
    rng = np.random.default_rng(1)
    for t in range(2_000):
        model.learn_one(features(0.9), bool(rng.uniform() < (0.95 if t < 1_000 else 0.4)))
    assert model.n_alarms > 0


def test_detectors_get_every_row_of_a_batch() -> None:
    pd = pytest.importorskip("pandas")
    samples = drifting_stream(3_000, 1_500)
    model: Any = CalibratedClassifier(
        linear_model.LogisticRegression(),
        IsotonicCalibrator(),
        drift_detector=drift.ADWIN(),
        on_drift="reset",
    )
    X = pd.DataFrame({"a": [0.0] * 3_000})
    y = pd.Series([label for _, label in samples])
    p = np.array([x["p"][True] for x, _ in samples])
    for start in range(0, 3_000, 100):
        part = slice(start, start + 100)
        served = {False: 1.0 - p[part], True: p[part]}
        model.learn_many(X[part], y[part], served=served)
    assert model.n_alarms > 0
    assert model.calibrators[True].n_samples < 2_000


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"drift_detector": "ADWIN"}, TypeError, "`drift_detector` must be a river drift detector"),
        ({"on_drift": "stop"}, ValueError, "`on_drift` must be one of 'shrink', 'reset', 'none'"),
    ],
)
def test_bad_parameters_are_refused(parameters: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        CalibratedClassifier(FixedModel(), **parameters)


def test_the_detector_is_cloned() -> None:
    detector = drift.ADWIN()
    before = pickle.dumps(detector)
    model = CalibratedClassifier(FixedModel(), drift_detector=detector)
    for x, y in drifting_stream(50, 100):
        model.learn_one(x, y)
    assert pickle.dumps(detector) == before
    assert model.clone().drift_detector is not None
    with pytest.raises(TypeError, match="ADWIN"):
        model.to_bytes()


def test_what_was_served_after_more_alarms_is_refused() -> None:
    model = CalibratedClassifier(FixedModel(), drift_detector=drift.ADWIN())
    (x, y), *_ = drifting_stream(1, 1)
    served = dataclasses.replace(model.serve_one(x), n_alarms=2)
    with pytest.raises(ValueError, match="has had 0 alarms, got one after 2"):
        model.learn_one(x, y, served=served)
    assert not model.calibrators
