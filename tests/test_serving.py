"""`CalibratedClassifier` where labels come late or the stream turns: tickets and detectors."""

import json
import pickle
import reprlib
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import base, drift, linear_model, naive_bayes

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    Served,
)
from streamcal.calibration.hedged import Ticket


class Told(base.Classifier):
    """Answers what the features say, and learns nothing."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return x["says"]

    @property
    def _multiclass(self) -> bool:
        return True


def says(p: float) -> dict[str, Any]:
    return {"says": {False: 1.0 - p, True: p}}


def stream(n: int, turn: int, seed: int = 0) -> list[tuple[dict[str, Any], bool]]:
    """Scores that are calibrated up to ``turn`` and then the wrong way round."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0.02, 0.98, n)
    right = np.where(np.arange(n) < turn, scores, 1.0 - scores)
    hits = rng.uniform(size=n) < right
    return [(says(p), bool(y)) for p, y in zip(scores.tolist(), hits, strict=True)]


def test_serving_shows_what_predicting_does_and_changes_nothing():
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    rng = np.random.default_rng(0)
    for _ in range(60):
        y = ["a", "b", "c"][rng.integers(3)]
        model.learn_one({"x": ord(y) + rng.normal()}, y)
    before = pickle.dumps(model)
    x = {"x": 98.3}
    served = model.serve_one(x)
    assert served.calibrated == model.predict_proba_one(x)
    assert served.raw == model.classifier.predict_proba_one(x)
    assert set(served.tickets) == {"a", "b", "c"}
    assert pickle.dumps(model) == before
    assert pickle.loads(pickle.dumps(served)) == served


def test_what_was_served_reaches_the_hedge():
    """The same as tickets kept by hand, and as a delay that is known."""
    samples, delay = stream(300, 150), 15
    model: Any = CalibratedClassifier(Told(), HedgedCalibrator(delay=delay))
    told = HedgedCalibrator(delay=delay)
    waiting: deque[Any] = deque()
    for x, y in samples:
        waiting.append((x, y, model.serve_one(x)))
        if len(waiting) > delay:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served)
            told.learn_one(x["says"][True], y)
    answers = [model.predict_proba_one(says(p))[True] for p in (0.1, 0.4, 0.9)]
    # The first samples were served before there was a calibrator, so they had no tickets.
    assert answers == pytest.approx([told.predict_one(p) for p in (0.1, 0.4, 0.9)], abs=1e-9)
    assert model.calibrators[True].n_samples == 300 - delay


def test_a_bad_ticket_is_refused_before_the_model_learns():
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    for i in range(20):
        model.learn_one({"x": i}, i % 3 == 0)
    served = model.serve_one({"x": 1})
    before = pickle.dumps(model)
    for ticket in (5, (90, (0.5,) * 6), (3, (0.5,) * 2)):
        bad = Served(served.calibrated, served.raw, {True: ticket})
        with pytest.raises((ValueError, TypeError), match="`served`"):
            model.learn_one({"x": 1}, True, served=bad)
    assert pickle.dumps(model) == before


def test_other_calibrators_learn_what_the_model_answered():
    model = CalibratedClassifier(Told(), PlattCalibrator())
    served = model.serve_one(says(0.9))
    assert served == Served({False: 1.0 - 0.9, True: 0.9}, {False: 1.0 - 0.9, True: 0.9})
    model.learn_one(says(0.2), False, served=served)
    direct = PlattCalibrator()
    direct.learn_one(0.9, False)
    assert model.predict_proba_one(says(0.9))[True] == direct.predict_one(0.9)


@pytest.mark.parametrize("delay", [0, 20])
def test_alarms_follow_a_change_of_the_stream(delay):
    losses = {}
    for on_drift in ("none", "reset", "shrink"):
        model: Any = CalibratedClassifier(
            Told(), IsotonicCalibrator(), drift_detector=drift.ADWIN(), on_drift=on_drift
        )
        waiting: deque[Any] = deque()
        errors, at = [], []
        for t, (x, y) in enumerate(stream(4_000, 2_000)):
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


def test_shrinking_keeps_the_last_samples():
    class Alarm(base.DriftDetector):
        def update(self, x: float) -> None:
            self.n = getattr(self, "n", 0) + 1
            self._drift_detected = self.n == 301

    kept: Any = CalibratedClassifier(Told(), IsotonicCalibrator(), drift_detector=Alarm())
    fresh: Any = CalibratedClassifier(
        Told(), IsotonicCalibrator(), drift_detector=Alarm(), on_drift="reset"
    )
    samples = stream(301, 1_000)
    for x, y in samples:
        kept.learn_one(x, y)
        fresh.learn_one(x, y)
    assert kept.calibrators[True].n_samples == 201
    assert fresh.calibrators[True].n_samples == 1
    expected = IsotonicCalibrator()
    for x, y in samples[-201:]:
        expected.learn_one(x["says"][True], y)
    assert kept.predict_proba_one(says(0.3))[True] == expected.predict_one(0.3)


def test_tickets_from_before_an_alarm_are_ignored():
    slow = HedgedCalibrator((IsotonicCalibrator(),))
    model: Any = CalibratedClassifier(Told(), slow, drift_detector=drift.ADWIN(), on_drift="reset")
    old = None
    for x, y in stream(3_000, 1_500):
        if model.n_alarms == 0:
            old = model.serve_one(x)
        model.learn_one(x, y)
    assert model.n_alarms >= 1
    before = model.calibrators[True].n_samples
    model.learn_one(says(0.5), True, served=old)
    assert model.calibrators[True].n_samples == before + 1


class AlarmEvery(base.DriftDetector):
    """An alarm after every so many errors, which are written down."""

    def __init__(self, n: int):
        super().__init__()
        self.n = n
        self.seen: list[float] = []

    def update(self, x: float) -> None:
        self.seen.append(x)
        self._drift_detected = len(self.seen) % self.n == 0


@pytest.mark.parametrize("on_drift", ["shrink", "reset", "none"])
@pytest.mark.parametrize("delay", [0, 20])
def test_an_alarm_between_serving_and_learning(on_drift, delay):
    """The ticket in hand, and those still out, are of calibrators that are gone."""
    model: Any = CalibratedClassifier(Told(), drift_detector=AlarmEvery(150), on_drift=on_drift)
    waiting: deque[Any] = deque()
    squared = []
    for x, y in stream(400, 1_000):
        waiting.append((x, y, model.serve_one(x)))
        if len(waiting) > delay:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served)
            squared.append((served.calibrated[True] - y) ** 2)
    assert model.n_alarms == 2
    assert model._monitor.detector.seen == pytest.approx(squared)  # of what was shown, not of now
    n_kept = {"shrink": 200, "reset": 0, "none": 299}[on_drift]
    assert model.calibrators[True].n_samples == n_kept + 400 - delay - 299
    if on_drift == "none":  # no ticket was dropped
        delays = [min(i, delay) for i in range(400 - delay)]
        assert model.calibrators[True].mean_delay == pytest.approx(np.mean(delays))


def test_what_another_model_served_is_refused_before_the_model_learns():
    told, other = CalibratedClassifier(Told()), CalibratedClassifier(naive_bayes.GaussianNB())
    for x, y in stream(20, 100):
        told.learn_one(x, y)
    before = pickle.dumps(other)
    with pytest.raises(ValueError, match="`served` must come from this calibrator"):
        other.learn_one({"x": 1}, True, served=told.serve_one(says(0.5)))
    assert pickle.dumps(other) == before


def test_the_default_turns_with_the_stream_and_gives_no_alarm():
    model = CalibratedClassifier(Told(), drift_detector=drift.ADWIN())
    for x, y in stream(3_000, 1_500):
        model.learn_one(x, y)
    assert model.n_alarms == 0
    assert model.predict_proba_one(says(0.9))[True] < 0.3


def test_detectors_of_mistakes_see_mistakes():
    model = CalibratedClassifier(Told(), PlattCalibrator(), drift_detector=drift.binary.DDM())
    rng = np.random.default_rng(1)
    for t in range(2_000):
        model.learn_one(says(0.9), bool(rng.uniform() < (0.95 if t < 1_000 else 0.4)))
    assert model.n_alarms > 0


def test_detectors_see_every_row_of_a_batch():
    pd = pytest.importorskip("pandas")
    samples = stream(3_000, 1_500)
    model: Any = CalibratedClassifier(
        linear_model.LogisticRegression(),
        IsotonicCalibrator(),
        drift_detector=drift.ADWIN(),
        on_drift="reset",
    )
    X = pd.DataFrame({"a": [0.0] * 3_000})
    y = pd.Series([label for _, label in samples])
    p = np.array([x["says"][True] for x, _ in samples])
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
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        CalibratedClassifier(Told(), **parameters)


def test_the_detector_given_is_left_alone():
    detector = drift.ADWIN()
    before = pickle.dumps(detector)
    model = CalibratedClassifier(Told(), drift_detector=detector)
    for x, y in stream(50, 100):
        model.learn_one(x, y)
    assert pickle.dumps(detector) == before
    assert model.clone().drift_detector is not None
    with pytest.raises(TypeError, match="ADWIN"):
        model.to_bytes()


# as JSON


def through_json(served: Served) -> Served:
    return Served.from_dict(json.loads(json.dumps(served.to_dict(), allow_nan=False)))


LABELS = [
    (False, True),
    (0, 1),
    (-3, 0, 2**80),
    ("yes", "no", "", "é\ud800"),
    (0.1, 1e-300, -2.5),
    (None, "none"),
    (("a", 1, (True, None)), ("a", 2), ()),
    (np.bool_(False), np.bool_(True)),
    (np.int64(4), np.int8(-1), np.uint64(2**64 - 1)),
    (np.float64(0.1), np.float32(0.25), np.str_("text")),
]


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_served_survives_json_with_labels_of_every_type(labels):
    rng = np.random.default_rng(0)
    model = CalibratedClassifier(Told())
    true = [label for label in labels if label is not None]  # None never comes true
    for i in range(30):
        p = rng.dirichlet(np.ones(len(labels))).tolist()
        model.learn_one({"says": dict(zip(labels, p, strict=True))}, true[i % len(true)])
    p = rng.dirichlet(np.ones(len(labels)))  # NumPy floats: a model may answer with them
    x = {"says": dict(zip(labels, p, strict=True))}
    served = model.serve_one(x)
    back = through_json(served)
    assert back == served
    assert list(back.raw) == list(served.raw)
    for label, known in zip(back.raw, labels, strict=True):
        assert type(label) is type(known.item() if isinstance(known, np.generic) else known)
    assert len(back.tickets) in (1, len(labels))  # of True alone, or of each label
    assert all(type(ticket) is Ticket for ticket in back.tickets.values())

    twin = pickle.loads(pickle.dumps(model))
    model.learn_one(x, true[0], served=served)
    twin.learn_one(x, true[0], served=back)
    assert twin.predict_proba_one(x) == model.predict_proba_one(x)
    assert twin.to_bytes() == model.to_bytes()


def test_served_survives_json_after_alarms_and_without_tickets():
    for served in (Served({}, {}), Served({"a": 1.0}, {"a": 1 + 1e-12}, {}, 7)):
        assert through_json(served) == served


@pytest.mark.parametrize(
    ("label", "error"),
    [
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        ((1, -float("inf")), ValueError),
        (b"bytes", TypeError),
        (frozenset("a"), TypeError),
        (np.datetime64("2026-01-01"), TypeError),
        (print, TypeError),
    ],
    ids=repr,
)
def test_labels_that_json_does_not_keep_are_refused(label, error):
    with pytest.raises(error, match="must"):
        Served({label: 1.0}, {label: 1.0}).to_dict()


def test_numbers_that_json_does_not_keep_are_refused():
    with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\]"):
        Served({1: 1.0}, {1: float("nan")}).to_dict()


def nested(around: Callable[[Any], Any]) -> Any:
    """Return a value inside so many others that a recursive reader ends."""
    value: Any = 1
    for _ in range(50_000):
        value = around(value)
    return value


GOOD = Served({"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5}, {"a": Ticket(3, (0.5, 0.1))}).to_dict()
CRAFTED: list[tuple[Any, type[Exception]]] = [
    (None, TypeError),
    ([], TypeError),
    (json.dumps(GOOD), TypeError),
    ({}, ValueError),
    ({k: v for k, v in GOOD.items() if k != "tickets"}, ValueError),
    ({**GOOD, "more": 1}, ValueError),
    ({**GOOD, "n_alarms": -1}, ValueError),
    ({**GOOD, "n_alarms": True}, TypeError),
    ({**GOOD, "n_alarms": 1.0}, TypeError),
    ({**GOOD, "raw": {"a": 0.5}}, TypeError),
    ({**GOOD, "raw": ["ab"]}, TypeError),
    ({**GOOD, "raw": [["a"]]}, ValueError),
    ({**GOOD, "raw": [["a", 0.5], ["a", 0.5]]}, ValueError),
    ({**GOOD, "raw": [[1, 0.5], [True, 0.5]]}, ValueError),
    ({**GOOD, "raw": [["a", "0.5"]]}, TypeError),
    ({**GOOD, "raw": [["a", True]]}, TypeError),
    ({**GOOD, "raw": [["a", float("nan")]]}, ValueError),
    ({**GOOD, "raw": [["a", 1.1]]}, ValueError),
    ({**GOOD, "calibrated": [["a", 10**400]]}, ValueError),
    ({**GOOD, "raw": [[["a"], 0.5]]}, TypeError),
    ({**GOOD, "raw": [[float("inf"), 0.5]]}, ValueError),
    ({**GOOD, "raw": [[{"tuple": 1}, 0.5]]}, TypeError),
    ({**GOOD, "raw": [[{"tuple": [], "more": 1}, 0.5]]}, TypeError),
    ({**GOOD, "raw": [[{"state": IsotonicCalibrator().to_bytes().hex()}, 0.5]]}, TypeError),
    ({**GOOD, "raw": [[{"tuple": [{"loss": ["log", {}]}]}, 0.5]]}, TypeError),
    ({**GOOD, "raw": [[nested(lambda inner: {"tuple": [inner]}), 0.5]]}, TypeError),
    ({**GOOD, "raw": nested(lambda inner: [inner])}, ValueError),
    ({**GOOD, "tickets": [["a", 3]]}, TypeError),
    ({**GOOD, "tickets": [["a", [3]]]}, ValueError),
    ({**GOOD, "tickets": [["a", [3.0, [0.5]]]]}, TypeError),
    ({**GOOD, "tickets": [["a", [-3, [0.5]]]]}, ValueError),
    ({**GOOD, "tickets": [["a", [3, 0.5]]]}, TypeError),
    ({**GOOD, "tickets": [["a", [3, [0.5, 2.0]]]]}, ValueError),
    ({**GOOD, "tickets": [["a", [3, [None]]]]}, TypeError),
]


@pytest.mark.parametrize(("kept", "error"), CRAFTED, ids=reprlib.repr)
def test_what_to_dict_did_not_write_is_refused(kept, error):
    assert through_json(Served.from_dict(GOOD)) == Served.from_dict(GOOD)
    with pytest.raises(error, match="must"):
        Served.from_dict(kept)


def test_a_ticket_survives_json():
    hedge = HedgedCalibrator()
    hedge.learn_many([0.2, 0.9, 0.4], [0, 1, 0])
    p, ticket = hedge.serve_one(0.3)
    assert p == hedge.predict_one(0.3)
    twin = HedgedCalibrator.from_bytes(hedge.to_bytes())
    hedge.learn_one(0.3, 1, served=ticket)
    twin.learn_one(0.3, 1, served=json.loads(json.dumps(ticket)))
    assert twin.to_bytes() == hedge.to_bytes()
