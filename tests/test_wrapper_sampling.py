"""`CalibratedClassifier` on a stream that keeps a share of the negatives."""

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import drift

from streamcal import CalibratedClassifier, PlattCalibrator, Served, undo_sampling
from tests.test_wrapper_segments import Scores

Stream = list[tuple[dict[str, Any], bool]]


def stream(n: int, seed: int = 0) -> Stream:
    """What a stream keeps: of each country another share of the negatives."""
    rng = np.random.default_rng(seed)
    kept: Stream = []
    while len(kept) < n:
        s, country = rng.uniform(0.05, 0.6), int(rng.integers(2))
        y, rate = bool(rng.random() < s), (0.1, 0.5)[country]
        if y or rng.random() < rate:
            kept.append(({"s": s, "country": country, "rate": rate}, y))
    return kept


def model_of(rate: Any, **parameters: Any) -> Any:
    return CalibratedClassifier(Scores(), sampling_rate=rate, **parameters)


def test_answers_are_right_among_all_samples() -> None:
    """The model says the share among all samples; the stream has another one."""
    answered, kept = model_of("rate", segments=["country"]), []
    errors = []
    for x, y in stream(1_000):
        errors.append(answered.predict_proba_one(x)[True] - x["s"])
        answered.learn_one(x, y)
        kept.append(y - x["s"])
    assert np.mean(kept) > 0.2
    assert abs(np.mean(errors[300:])) < 0.05


def test_answers_are_right_for_each_rate_if_it_is_a_segment() -> None:
    model = model_of("rate", segments=["rate"])
    errors: dict[float, list[float]] = {0.1: [], 0.5: []}
    for x, y in stream(2_000, seed=1):
        errors[x["rate"]].append(model.predict_proba_one(x)[True] - x["s"])
        model.learn_one(x, y)
    for each in errors.values():
        assert abs(np.mean(each[-300:])) < 0.05


@pytest.mark.parametrize("rate", [0.25, "rate"])
@pytest.mark.parametrize("parameters", [{}, {"segments": ["country"]}], ids=["plain", "segments"])
def test_what_is_learned_is_the_stream_as_it_is(rate: Any, parameters: Any) -> None:
    model, plain = model_of(rate, **parameters), model_of(None, **parameters)
    for x, y in stream(60):
        kept = plain.predict_proba_one(x)[True]
        expected = undo_sampling([kept], x["rate"] if rate == "rate" else rate)[0]
        raw = plain.classifier.predict_proba_one(x)
        answer = model.predict_proba_one(x)
        assert answer == {False: 1.0 - expected, True: expected}
        assert model.calibrate_one(raw, x) == model.serve_one(x).calibrated == answer
        assert model.predict_one(x) == (expected > 0.5)
        model.learn_one({**x, "rate": "any"} if rate == 0.25 else x, y)
        plain.learn_one({**x, "rate": "any"} if rate == 0.25 else x, y)
    assert model.calibrators[True].to_bytes() == plain.calibrators[True].to_bytes()


def test_the_rate_is_not_needed_to_learn() -> None:
    model, plain = model_of("rate"), model_of(None)
    for x, y in stream(40):
        kept = json.dumps(model.serve_one(x).to_dict())
        without = {name: value for name, value in x.items() if name != "rate"}
        model.learn_one(without, y, served=Served.from_dict(json.loads(kept)))
        plain.learn_one(without, y, served=plain.serve_one(x))
        model.learn_one(without, y)
        plain.learn_one(without, y)
    model.learn_group([without] * 2, [True, False])
    plain.learn_group([without] * 2, [True, False])
    X = pd.DataFrame([without] * 3)
    model.learn_many(X, pd.Series([True, False, False]))
    plain.learn_many(X, pd.Series([True, False, False]))
    assert model.calibrators[True].to_bytes() == plain.calibrators[True].to_bytes()


class Record(drift.DummyDriftDetector):
    """Keeps what it gets, and never alarms."""

    def __init__(self) -> None:
        super().__init__(t_0=10**9)
        self.got: list[float] = []

    def update(self, x: float) -> None:
        self.got.append(x)


@pytest.mark.parametrize("how", ["at once", "late", "served"])
def test_a_drift_detector_gets_the_errors_among_the_kept_samples(how: str) -> None:
    model, plain = (
        model_of(rate, drift_detector=Record(), calibrator=PlattCalibrator())
        for rate in (0.1, None)
    )
    samples = stream(30)
    for each in (model, plain):
        served = [each.serve_one(x) for x, _ in samples]
        if how == "late":
            for x, _ in samples:
                each.predict_proba_one(x)
        for (x, y), kept in zip(samples, served, strict=True):
            if how == "at once":
                each.predict_proba_one(x)
            each.learn_one(x, y, served=kept if how == "served" else None)
    got, expected = model._monitor.detector.got, plain._monitor.detector.got
    assert len(got) == 30
    assert got == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rate", [0.25, "rate"])
def test_batches_are_answered_as_single_samples_are(rate: Any) -> None:
    model, samples = model_of(rate), stream(40)
    X = pd.DataFrame([x for x, _ in samples])
    model.learn_many(X, pd.Series([y for _, y in samples]))
    expected = [model.predict_proba_one(x) for x, _ in samples]
    frame: Any = model.predict_proba_many(X)
    assert frame["True"].tolist() == pytest.approx([each[True] for each in expected], rel=1e-12)
    assert frame["False"].tolist() == pytest.approx([each[False] for each in expected])
    assert list(model.predict_many(X)) == [model.predict_one(x) for x, _ in samples]
    frozen = model.snapshot()
    assert frozen.predict_proba_one(samples[0][0]) == expected[0]
    for copied in (
        pickle.loads(pickle.dumps(model)),
        model.clone(include_attributes=True),
        CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Scores()),
    ):
        assert copied.predict_proba_one(samples[0][0]) == expected[0]
    assert model.clone().sampling_rate == rate


@pytest.mark.parametrize(
    ("rate", "error"),
    [(0.0, ValueError), (1.5, ValueError), (float("nan"), ValueError), ([0.5], TypeError)],
    ids=str,
)
def test_bad_rates_are_refused(rate: Any, error: Any) -> None:
    with pytest.raises(error, match="`sampling_rate` must"):
        model_of(rate)
    model = model_of("rate")
    with pytest.raises(error, match="`sampling_rate` must"):
        model.predict_proba_one({"s": 0.5, "rate": rate})
    assert len(model._memory) == 0


def test_a_missing_rate_is_refused() -> None:
    model = model_of("rate")
    for predict in (model.predict_proba_one, model.predict_one, model.serve_one):
        with pytest.raises(ValueError, match="`x` must have the feature 'rate'"):
            predict({"s": 0.5})
    with pytest.raises(ValueError, match="`X` must have the column 'rate'"):
        model.predict_proba_many(pd.DataFrame({"s": [0.5]}))
    with pytest.raises(ValueError, match="`x` must have the feature 'rate'"):
        model.calibrate_one({False: 0.5, True: 0.5})
    assert len(model._memory) == 0


class Named(Scores):
    """Has other labels."""

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {"no": 1.0 - x["s"], "yes": x["s"]}


def test_other_labels_are_refused() -> None:
    model: Any = CalibratedClassifier(Named(), sampling_rate=0.5)
    x = {"s": 0.5}
    message = "`sampling_rate` must be None unless the labels are False and True"
    for attempt in (
        lambda: model.predict_proba_one(x),
        lambda: model.serve_one(x),
        lambda: model.learn_one(x, "yes"),
        lambda: model.learn_group([x, x], ["yes", "no"]),
        lambda: model.learn_many(pd.DataFrame([x]), pd.Series(["yes"])),
        lambda: model_of(0.5).learn_one(x, "yes"),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()
    assert model.classifier.n_learned == 0
    assert model.calibrators == {}


@pytest.mark.parametrize("raw", [{}, {True: 1.0}, {False: 1.0}, {0: 0.5, 1: 0.5}], ids=str)
def test_a_model_that_has_seen_one_label_or_none_may_answer(raw: Any) -> None:
    """The labels of such a stream are known: one that the model lacks is answered, too."""
    assert model_of(0.25).calibrate_one(raw) == {0: 0.8, 1: 0.2}
