"""`Served`: predictions that are kept until their label arrives, with tickets, also as JSON."""

import json
import pickle
import reprlib
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import naive_bayes

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    Served,
)
from streamcal.calibration.tickets import Ticket
from tests.fixed_model import FixedModel, drifting_stream, features


def test_serve_one_predicts_and_changes_nothing() -> None:
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
    assert isinstance(served.ticket, Ticket)
    assert pickle.dumps(model) == before
    assert pickle.loads(pickle.dumps(served)) == served


def test_served_tickets_reach_the_hedge() -> None:
    """The result equals that of a hedge with tickets of its own."""
    samples, delay = drifting_stream(300, 150), 15
    model: Any = CalibratedClassifier(FixedModel())
    expected = HedgedCalibrator()
    waiting: deque[Any] = deque()
    for x, y in samples:
        waiting.append((x, y, model.serve_one(x), expected.serve_one(x["p"][True])[1]))
        if len(waiting) > delay:
            x, y, served, ticket = waiting.popleft()
            model.learn_one(x, y, served=served)
            expected.learn_one(x["p"][True], y, ticket=ticket)
    answers = [model.predict_proba_one(features(p))[True] for p in (0.1, 0.4, 0.9)]
    assert answers == [expected.predict_one(p) for p in (0.1, 0.4, 0.9)]
    assert model.calibrators[True].n_samples == 300 - delay


def test_a_bad_ticket_is_refused_before_the_model_learns() -> None:
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    for i in range(20):
        model.learn_one({"x": i}, i % 3 == 0)
    served = model.serve_one({"x": 1})
    before = pickle.dumps(model)
    for ticket in (5, Ticket((90, (0.5,) * 6)), Ticket((3, (0.5,) * 2)), Ticket()):
        bad = Served(served.calibrated, served.raw, ticket)
        with pytest.raises((ValueError, TypeError), match="`ticket` must"):
            model.learn_one({"x": 1}, True, served=bad)
    assert pickle.dumps(model) == before


def test_calibrators_without_tickets_learn_the_served_probability() -> None:
    model = CalibratedClassifier(FixedModel(), PlattCalibrator())
    served = model.serve_one(features(0.9))
    assert served == Served({False: 1.0 - 0.9, True: 0.9}, {False: 1.0 - 0.9, True: 0.9})
    model.learn_one(features(0.2), False, served=served)
    direct = PlattCalibrator()
    direct.learn_one(0.9, False)
    assert model.predict_proba_one(features(0.9))[True] == direct.predict_one(0.9)


def test_served_of_another_model_is_refused_before_the_model_learns() -> None:
    model, other = (
        CalibratedClassifier(FixedModel()),
        CalibratedClassifier(naive_bayes.GaussianNB()),
    )
    for x, y in drifting_stream(20, 100):
        model.learn_one(x, y)
    before = pickle.dumps(other)
    with pytest.raises(ValueError, match="`ticket` must come from this calibrator"):
        other.learn_one({"x": 1}, True, served=model.serve_one(features(0.5)))
    assert pickle.dumps(other) == before


# JSON ---------------------------------------------------------------------------------------------


def through_json(served: Served) -> Served:
    return Served.from_dict(json.loads(json.dumps(served.to_dict(), allow_nan=False)))


LABELS = [
    (False, True),
    (0, 1),
    (-3, 0, 2**80),
    ("yes", "no", "", "é\ud800"),
    (0.1, 1e-300, -2.5),
    (None, "none"),
    (None, "none", 1),
    (("a", 1, (True, None)), ("a", 2), ()),
    (np.bool_(False), np.bool_(True)),
    (np.int64(4), np.int8(-1), np.uint64(2**64 - 1)),
    (np.float64(0.1), np.float32(0.25), np.str_("text")),
]


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_served_survives_json_with_labels_of_every_type(labels: Any) -> None:
    rng = np.random.default_rng(0)
    model = CalibratedClassifier(FixedModel())
    true = [label for label in labels if label is not None]  # None is never the true label
    for i in range(30):
        p = rng.dirichlet(np.ones(len(labels))).tolist()
        model.learn_one({"p": dict(zip(labels, p, strict=True))}, true[i % len(true)])
    p = rng.dirichlet(np.ones(len(labels)))  # NumPy floats: a model may answer with them
    x = {"p": dict(zip(labels, p, strict=True))}
    served = model.serve_one(x)
    back = through_json(served)
    assert back == served
    assert list(back.raw) == list(served.raw)
    for label, known in zip(back.raw, labels, strict=True):
        assert type(label) is type(known.item() if isinstance(known, np.generic) else known)
    assert isinstance(back.ticket, Ticket)

    twin = pickle.loads(pickle.dumps(model))
    model.learn_one(x, true[0], served=served)
    twin.learn_one(x, true[0], served=back)
    assert twin.predict_proba_one(x) == model.predict_proba_one(x)
    assert twin.to_bytes() == model.to_bytes()
    again = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=FixedModel())
    assert again.to_bytes() == model.to_bytes()


def test_served_survives_json_after_alarms_and_without_tickets() -> None:
    for served in (Served({}, {}), Served({"a": 1.0}, {"a": 1 + 1e-12}, None, 7)):
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
        (print, ValueError),
    ],
    ids=repr,
)
def test_labels_that_json_does_not_keep_are_refused(label: Any, error: Any) -> None:
    with pytest.raises(error, match="must"):
        Served({label: 1.0}, {label: 1.0}).to_dict()


def test_numbers_that_json_does_not_keep_are_refused() -> None:
    with pytest.raises(ValueError, match="a probability must be"):
        Served({1: 1.0}, {1: float("nan")}).to_dict()


def nested(around: Callable[[Any], Any]) -> Any:
    """Return a value nested so deeply that a recursive reader would fail."""
    value: Any = 1
    for _ in range(50_000):
        value = around(value)
    return value


GOOD = Served({"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5}, Ticket((3, (0.5, 0.1)))).to_dict()
CRAFTED: list[tuple[Any, type[Exception]]] = [
    (None, TypeError),
    ([], TypeError),
    (json.dumps(GOOD), TypeError),
    ({}, ValueError),
    ({k: v for k, v in GOOD.items() if k != "ticket"}, ValueError),
    ({**GOOD, "more": 1}, ValueError),
    ({**GOOD, "n_alarms": -1}, ValueError),
    ({**GOOD, "n_alarms": True}, ValueError),
    ({**GOOD, "n_alarms": 1.0}, ValueError),
    ({**GOOD, "sampling_rate": 0.0}, ValueError),
    ({**GOOD, "sampling_rate": "1"}, ValueError),
    ({**GOOD, "raw": {"a": 0.5}}, ValueError),
    ({**GOOD, "raw": ["ab"]}, ValueError),
    ({**GOOD, "raw": [["a"]]}, ValueError),
    ({**GOOD, "raw": [["a", 0.5], ["a", 0.5]]}, ValueError),
    ({**GOOD, "raw": [[1, 0.5], [True, 0.5]]}, ValueError),
    ({**GOOD, "raw": [["a", "0.5"]]}, ValueError),
    ({**GOOD, "raw": [["a", True]]}, ValueError),
    ({**GOOD, "raw": [["a", float("nan")]]}, ValueError),
    ({**GOOD, "raw": [["a", 1.1]]}, ValueError),
    ({**GOOD, "calibrated": [["a", 10**400]]}, ValueError),
    ({**GOOD, "raw": [[["a"], 0.5]]}, ValueError),
    ({**GOOD, "raw": [[float("inf"), 0.5]]}, ValueError),
    ({**GOOD, "raw": [[{"tuple": 1}, 0.5]]}, ValueError),
    ({**GOOD, "raw": [[{"tuple": [], "more": 1}, 0.5]]}, ValueError),
    ({**GOOD, "raw": [[{"state": IsotonicCalibrator().to_bytes().hex()}, 0.5]]}, ValueError),
    ({**GOOD, "raw": [[{"tuple": [{"loss": ["log", {}]}]}, 0.5]]}, ValueError),
    ({**GOOD, "raw": [[nested(lambda inner: {"tuple": [inner]}), 0.5]]}, ValueError),
    ({**GOOD, "raw": nested(lambda inner: [inner])}, ValueError),
    *(
        ({**GOOD, "tickets": [["a", ticket]]}, ValueError)
        for ticket in (
            None,
            3,
            [],
            [3.0, 0.5],
            [-3, 0.5],
            [3, "0.5"],
            [3, None],
            [3, 0.5, 2.0],
            [3, [0.5]],
            [3, nested(lambda inner: [inner])],
            {"base": None},
            {"base": None, "models": None},
            {"base": 3, "models": [3, 0.5]},
            {"base": {"base": None, "models": [3, 0.5]}, "models": [3, 0.5]},
            [{"base": None}, [3, 0.5]],
            [[3, 0.5], None],
            [[3, 0.5], {"base": None, "models": [3, 0.5]}],
            [[3, 0.5], [3, 0.5], [3, 0.5]],
        )
    ),
]


@pytest.mark.parametrize(("kept", "error"), CRAFTED, ids=reprlib.repr)
def test_what_to_dict_did_not_write_is_refused(kept: Any, error: Any) -> None:
    assert through_json(Served.from_dict(GOOD)) == Served.from_dict(GOOD)
    with pytest.raises(error, match="must"):
        Served.from_dict(kept)
