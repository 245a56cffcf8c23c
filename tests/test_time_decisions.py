"""Decisions whose counts forget by time."""

import copy
import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import base

from streamcal import CalibratedClassifier, PlattCalibrator
from streamcal._state import restore
from streamcal._state.format import decode, encode
from streamcal.decision import DecisionClassifier, evaluate
from tests.test_time_thresholds import irregular

START = datetime(2024, 3, 1)
DECAYS = {"half_life": timedelta(minutes=30)}


class Oracle(base.Classifier):
    """Answers the feature "p", and keeps the times that it gets."""

    def __init__(self) -> None:
        self.times: list[Any] = []

    def learn_one(self, x: Any, y: Any, t: Any = None) -> None:
        self.times.append(t)

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        return {False: 1.0 - x["p"], True: x["p"]} if "p" in x else {}


class FrameOracle(Oracle, base.MiniBatchClassifier):
    def learn_many(self, X: Any, y: Any, t: Any = None) -> None:
        self.times.append(t)

    def predict_proba_many(self, X: Any) -> Any:
        p = X["p"].to_numpy()
        return pd.DataFrame({False: 1.0 - p, True: p})


def stream(n: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(4)
    return [({"p": p}, bool(rng.random() < p)) for p in rng.random(n).tolist()]


def counts_of(model: DecisionClassifier) -> list[float]:
    return [*model._claimed.tolist(), *model._realised.tolist()]


def expected_counts(samples: Any, decisions: Any, times: Any, half_life: float) -> list[float]:
    """Return the counts of decisions and labels, each aged from its time to the newest."""
    latest = np.maximum.accumulate(times)
    realised = np.zeros(4)
    for (_, y), chosen, t in zip(samples, decisions, latest, strict=True):
        cell = (0 if y else 1) if chosen else (2 if y else 3)
        realised[cell] += 2.0 ** ((t - latest[-1]) / half_life)
    return realised.tolist()


@pytest.mark.parametrize("history", ["labels", "expected", None])
def test_at_a_constant_rate_time_is_as_counting(history: Any) -> None:
    a = DecisionClassifier(Oracle(), "f1", history=history, half_life=30)
    b = DecisionClassifier(Oracle(), "f1", history=history, **DECAYS)
    samples = stream(400)
    for i, (x, y) in enumerate(samples):
        t = START + timedelta(minutes=i)
        assert a.predict_one(x) == b.predict_one(x)
        if i % 5:
            a.learn_one(x, y)
            b.learn_one(x, y, t=t)
        elif i + 5 <= 400:
            part = samples[i : i + 1]
            a.learn_batch(*zip(*part, strict=True))
            b.learn_batch(*zip(*part, strict=True), t=[t])
        np.testing.assert_allclose(counts_of(b), counts_of(a), rtol=1e-12, atol=1e-12)
        assert b.claim_gap == pytest.approx(a.claim_gap, abs=1e-12)


def test_batches_at_a_constant_rate_are_as_counting() -> None:
    samples = stream(400)
    frame = pd.DataFrame({"p": [x["p"] for x, _ in samples]})
    labels = pd.Series([y for _, y in samples])
    for model in (Oracle, FrameOracle):
        a = DecisionClassifier(model(), half_life=30)
        b = DecisionClassifier(model(), half_life=timedelta(minutes=30), time="moment")
        for start in range(0, 400, 40):
            part = slice(start, start + 40)
            times = [START + timedelta(minutes=i) for i in range(start, start + 40)]
            a.learn_many(frame[part], labels[part])
            b.learn_many(frame[part].assign(moment=times), labels[part])
            np.testing.assert_allclose(counts_of(b), counts_of(a), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("half_life", [45.0, 3_000.0])
def test_counts_are_those_of_the_aged_decisions(half_life: float) -> None:
    model = DecisionClassifier(Oracle(), "f1", half_life=timedelta(seconds=half_life))
    samples, times, decisions = stream(200), irregular(200), []
    for i, ((x, y), t) in enumerate(zip(samples, times, strict=True)):
        decisions.append(model.predict_one(x))
        model.learn_one(x, y, t=t)
        expected = expected_counts(samples[: i + 1], decisions, times[: i + 1], half_life)
        np.testing.assert_allclose(list(model.counts), expected, rtol=1e-9, atol=1e-12)


def test_a_batch_ages_counts_until_its_newest_time() -> None:
    model = DecisionClassifier(Oracle(), "accuracy", half_life=timedelta(seconds=10))
    model.learn_one({"p": 0.9}, True, t=0.0)
    model.learn_batch([{"p": 0.9}, {"p": 0.1}], [True, True], t=[20.0, 10.0])
    assert list(model.counts) == [1.25, 0.0, 1.0, 0.0]
    model.learn_one({"p": 0.9}, False, t=5.0)  # counts as 20
    assert list(model.counts) == [1.25, 1.0, 1.0, 0.0]
    model.learn_one({}, True, t=30.0)  # without a decision, the rest ages
    assert list(model.counts) == [0.625, 0.5, 0.5, 0.0]
    model.learn_batch([], [], t=[])
    model.learn_one({"p": 0.9}, True, t=1e300)
    assert list(model.counts) == [1.0, 0.0, 0.0, 0.0]


def test_the_time_is_a_feature_or_given() -> None:
    samples = [
        ({**x, "moment": START + timedelta(minutes=3 * i)}, y)
        for i, (x, y) in enumerate(stream(60))
    ]
    by_feature = DecisionClassifier(Oracle(), **DECAYS, time="moment")
    given, both = (
        DecisionClassifier(Oracle(), **DECAYS),
        DecisionClassifier(Oracle(), **DECAYS, time="p"),
    )
    batches = DecisionClassifier(Oracle(), **DECAYS, time="moment")
    for x, y in samples:
        by_feature.learn_one(x, y)
        given.learn_one({"p": x["p"]}, y, t=x["moment"])
        both.learn_one(x, y, t=x["moment"])
        batches.learn_batch([x], [y])
    for other in (given, both, batches):
        assert counts_of(other) == counts_of(by_feature)
    assert by_feature.classifier.times == batches.classifier.times == [None] * 60
    assert given.classifier.times == [x["moment"] for x, _ in samples]
    evaluated = DecisionClassifier(Oracle(), **DECAYS, time="moment")
    evaluate(samples, evaluated, [], batch_size=1)
    assert counts_of(evaluated) == counts_of(by_feature)


@pytest.mark.parametrize("model", [Oracle, FrameOracle])
@pytest.mark.parametrize("frames", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_have_times(model: Any, frames: Any) -> None:
    samples = stream(30)
    moments = [START + timedelta(minutes=3 * i) for i in range(30)]
    columns = {"p": [x["p"] for x, _ in samples]}
    labels = pd.Series([y for _, y in samples])
    if frames is not pd.DataFrame:
        labels = frames({"y": labels.tolist()})["y"]
    by_column = DecisionClassifier(model(), **DECAYS, time="moment")
    by_column.learn_many(frames({**columns, "moment": moments}), labels)
    expected = DecisionClassifier(model(), **DECAYS)
    expected.learn_batch([x for x, _ in samples], [y for _, y in samples], t=moments)
    assert counts_of(by_column) == counts_of(expected)
    times = frames({"t": moments})["t"]
    for t in (moments, np.array(moments, "datetime64[us]"), times):
        given = DecisionClassifier(model(), **DECAYS)
        given.learn_many(frames(columns), labels, t=t)
        assert counts_of(given) == counts_of(expected)


def test_a_calibrated_classifier_gets_the_time() -> None:
    inner = CalibratedClassifier(Oracle(), PlattCalibrator(half_life=timedelta(hours=1)))
    alone = CalibratedClassifier(Oracle(), PlattCalibrator(half_life=timedelta(hours=1)))
    model, counting = DecisionClassifier(inner, **DECAYS), DecisionClassifier(alone)
    for i, (x, y) in enumerate(stream(60)):
        model.learn_one(x, y, t=60.0 * i)
        counting.learn_batch([x], [y], t=[60.0 * i])
    assert model.predict_proba_one({"p": 0.4}) == counting.predict_proba_one({"p": 0.4})
    before = model.to_bytes()
    with pytest.raises(ValueError, match="numbers of seconds as before"):
        model.learn_one({"p": 0.4}, True, t=START)
    assert model.to_bytes() == before


# Bad input ----------------------------------------------------------------------------------------


def test_bad_times_change_nothing() -> None:
    for time in (None, "moment"):
        model = DecisionClassifier(Oracle(), **DECAYS, time=time)
        model.learn_one({"p": 0.4, "moment": 60.0}, True, t=60.0)
        before = pickle.dumps(model)
        for t in ["now", math.nan, math.inf, [1.0], pd.NaT, START]:
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                model.learn_one({"p": 0.4}, True, t=t)
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                model.learn_batch([{"p": 0.4}] * 2, [True] * 2, t=[60.0, t])
        with pytest.raises(ValueError, match="`t` must have one time per score"):
            model.learn_batch([{"p": 0.4}] * 2, [True] * 2, t=[60.0])
        assert pickle.dumps(model) == before
    for call in (
        lambda: model.learn_one({"p": 0.4}, True),
        lambda: model.learn_batch([{"p": 0.4}], [True]),
    ):
        with pytest.raises(ValueError, match="`x` must have the feature 'moment'"):
            call()
    with pytest.raises(TypeError, match="the feature 'moment' must be a datetime"):
        model.learn_one({"p": 0.4, "moment": "noon"}, True)
    assert pickle.dumps(model) == before
    bare = DecisionClassifier(FrameOracle(), **DECAYS)
    before = pickle.dumps(bare)
    for bad in (
        lambda: bare.learn_one({"p": 0.4}, True),
        lambda: bare.learn_batch([{"p": 0.4}], [True]),
        lambda: bare.learn_many(pd.DataFrame({"p": [0.4]}), pd.Series([True])),
    ):
        with pytest.raises(TypeError, match="since DecisionClassifier forgets by time"):
            bad()
    assert pickle.dumps(bare) == before


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="`time` must be None unless `half_life` is a timedelta"):
        DecisionClassifier(Oracle(), half_life=30.0, time="moment")
    with pytest.raises(TypeError, match="`time` must be the name of a feature"):
        DecisionClassifier(Oracle(), **DECAYS, time=5)
    with pytest.raises(ValueError, match="`half_life` must be a timedelta of at least 1 micro"):
        DecisionClassifier(Oracle(), half_life=timedelta(0))


def test_a_model_that_raises_leaves_the_clock() -> None:
    class Broken(Oracle):
        def learn_one(self, x: Any, y: Any, t: Any = None) -> None:
            raise RuntimeError

    model = DecisionClassifier(Broken(), **DECAYS)
    with pytest.raises(RuntimeError):
        model.learn_one({"p": 0.4}, True, t=START)
    assert model._kind is None
    assert math.isnan(model._now)
    assert sum(model.counts) == 0.0


# States -------------------------------------------------------------------------------------------


def test_clones_copies_and_states_keep_the_time() -> None:
    model = DecisionClassifier(Oracle(), **DECAYS, time="moment")
    for (x, y), t in zip(stream(40), irregular(40), strict=True):
        model.learn_one(x, y, t=t)
    clone = model.clone()
    assert (clone.time, clone.half_life, clone._kind) == ("moment", model.half_life, None)
    restored = restore(model.to_bytes(), classifier=Oracle())
    copies = [restored, copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    model.learn_one({"p": 0.4}, True, t=2e9)
    for twin in copies:
        assert twin.time == "moment"
        twin.learn_one({"p": 0.4}, True, t=2e9)
        assert twin.to_bytes() == model.to_bytes()
        with pytest.raises(ValueError, match="numbers of seconds as before"):
            twin.learn_one({"p": 0.4}, True, t=START.replace(tzinfo=UTC))
    assert model.snapshot().predict_one({"p": 0.9}) == model.predict_one({"p": 0.9})


def test_states_that_count_are_as_before_there_were_times() -> None:
    fields = decode(DecisionClassifier(Oracle(), half_life=30.0).to_bytes()).fields
    assert set(fields) == {"parameters", "negative"}
    assert "time" not in fields["parameters"]


@pytest.mark.parametrize(
    "change",
    [
        *({"now": value} for value in (math.nan, math.inf, "1", None, True)),
        *({"kind": value} for value in ("sundial", 1, ["seconds"])),
    ],
    ids=str,
)
def test_crafted_clocks_are_refused(change: Any) -> None:
    model = DecisionClassifier(Oracle(), **DECAYS)
    model.learn_one({"p": 0.4}, True, t=60.0)
    state = decode(model.to_bytes())
    with pytest.raises(ValueError, match="`data`"):
        restore(encode(state.kind, {**state.fields, **change}, state.arrays), classifier=Oracle())
