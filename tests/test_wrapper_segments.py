"""`CalibratedClassifier` with segments."""

import copy
import json
import pickle
from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import base, drift

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    Served,
    TemperatureCalibrator,
)
from streamcal.calibration.context import Contexts
from tests.fixed_model import FixedModel

FIELDS = ("country", "device")
Stream = list[tuple[dict[str, Any], Any]]


def stream(n: int, labels: tuple[Any, ...] = (False, True), seed: int = 0) -> Stream:
    """Samples of a model that is wrong about each country; some have no device."""
    rng = np.random.default_rng(seed)
    shifts = np.random.default_rng(99).normal(0.0, 1.0, (3, len(labels)))
    samples: Stream = []
    for _ in range(n):
        country, z = rng.integers(3), rng.normal(0.0, 1.0, len(labels))
        raw, right = (np.exp(each) / np.exp(each).sum() for each in (z, z + shifts[country]))
        x: dict[str, Any] = {
            "p": tuple(zip(labels, raw.tolist(), strict=True)),
            "country": f"c{country}",
        }
        if rng.random() < 0.8:
            x["device"] = int(rng.integers(2))
        samples.append((x, labels[rng.choice(len(labels), p=right)]))
    return samples


class Tuples(FixedModel):
    """Predicts the probabilities in the feature "p", which has a hash."""

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return dict(x["p"])


def model_of(calibrator: Any = None, segments: Any = FIELDS, **parameters: Any) -> Any:
    return CalibratedClassifier(Tuples(), calibrator, segments=segments, **parameters)


class Scores(base.MiniBatchClassifier):
    """Predicts the probability in the feature "s"; counts what it learns."""

    def __init__(self) -> None:
        self.n_learned = 0

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        self.n_learned += 1

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {False: 1.0 - x["s"], True: x["s"]}

    def learn_many(self, X: Any, y: Any) -> None:
        self.n_learned += len(X)

    def predict_proba_many(self, X: Any) -> Any:
        columns = {"False": 1.0 - X["s"], "True": X["s"]}
        return pd.DataFrame(columns) if isinstance(X, pd.DataFrame) else pl.DataFrame(columns)


def mean_loss(model: Any, samples: Stream) -> float:
    losses = []
    for x, y in samples:
        losses.append(-np.log(max(model.predict_proba_one(x).get(y, 0.0), 1e-9)))
        model.learn_one(x, y)
    return float(np.mean(losses))


# What it computes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [None, PlattCalibrator()], ids=["hedge", "platt"])
def test_two_labels_have_one_segment_calibrator(base: Any) -> None:
    model, alone = model_of(base), SegmentCalibrator(FIELDS, base=base or HedgedCalibrator())
    for x, y in stream(80):
        p = dict(x["p"])[True]
        assert model.predict_proba_one(x)[True] == alone.predict_one(p, x)
        assert model.calibrate_one(dict(x["p"]), x)[True] == alone.predict_one(p, x)
        model.learn_one(x, y, w=2.0)
        alone.learn_one(p, y, 2.0, x=x)
    assert list(model.calibrators) == [True]
    assert model.calibrators[True].to_bytes() == alone.to_bytes()


def test_more_labels_have_one_each_against_the_rest() -> None:
    labels = ("a", "b", "c")
    model = model_of(PlattCalibrator())
    alone = {y: SegmentCalibrator(FIELDS, base=PlattCalibrator()) for y in labels}
    for x, y in stream(60, labels):
        for label, p in x["p"]:
            alone[label].learn_one(p, label == y, x=x)
        model.learn_one(x, y)
    x, _ = stream(1, labels, seed=5)[0]
    expected = {label: alone[label].predict_one(p, x) for label, p in x["p"]}
    total = sum(expected.values())
    answer = model.predict_proba_one(x)
    assert answer == pytest.approx({label: p / total for label, p in expected.items()})
    assert model.predict_one(x) == max(answer, key=answer.__getitem__)


@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")], ids=["two", "three"])
def test_segments_lower_the_loss(labels: Any) -> None:
    samples = stream(700, labels)
    assert mean_loss(model_of(), samples) < mean_loss(model_of(segments=None), samples) - 0.03


def test_a_prototype_has_the_other_parameters() -> None:
    prototype = SegmentCalibrator(FIELDS, crosses=(), half_life=50.0, base=PlattCalibrator())
    model = model_of(prototype, None)
    for x, y in stream(30):
        model.learn_one(x, y)
    own = model.calibrators[True]
    assert (own.crosses, own.half_life, own.n_samples) == ((), 50.0, 30)
    assert prototype.n_samples == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((SegmentCalibrator(["a"]), ["a"]), ValueError, "`segments` must be None with a Segment"),
        ((TemperatureCalibrator(), ["a"]), ValueError, "`segments` must be None with a Joint"),
        ((None, "country"), TypeError, "`segments` must be a sequence of names, got 'country'"),
        ((None, []), ValueError, "`segments` must be 1 to 64"),
        ((None, [1]), TypeError, "`segments` must be names, got 1"),
    ],
    ids=str,
)
def test_bad_segments_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        model_of(*arguments)


def test_later_changes_of_the_sequence_of_segments_do_not_count() -> None:
    segments = deque(FIELDS)
    model, twin = model_of(None, segments), model_of(None, FIELDS)
    segments.append("another")
    assert model.to_bytes() == twin.to_bytes()
    assert model.clone().segments == twin.segments


def test_a_segment_that_cannot_be_read_is_refused_before_the_model_learns() -> None:
    model: Any = CalibratedClassifier(Scores(), segments=FIELDS)
    for country in ("de", "fr"):
        model.learn_one({"s": 0.5, "country": country}, True)
    before = model.to_bytes()
    x: dict[Any, Any] = {"s": 0.5, "country": "de"}
    bad = {**x, "country": [1]}
    message = "the value of the field 'country' must be text"
    with pytest.raises(TypeError, match=message):
        model.learn_one(bad, True)
    with pytest.raises(TypeError, match=message):
        model.learn_group([x, bad], [True, True])
    with pytest.raises(TypeError, match=message):
        model.learn_many(pd.DataFrame([x, bad]), pd.Series([True, False]))
    assert model.classifier.n_learned == 2
    assert model.to_bytes() == before


def test_a_segment_of_more_labels_that_cannot_be_read_is_refused() -> None:
    model = model_of()
    x, y = stream(1, ("a", "b", "c"))[0]
    model.learn_one(x, y)
    before = model.to_bytes()
    with pytest.raises(TypeError, match="the value of the field 'country' must be text"):
        model.learn_one({**x, "country": b"c1"}, y)
    assert model.to_bytes() == before


def test_features_are_needed_to_calibrate_probabilities() -> None:
    with pytest.raises(TypeError, match="`x` must be the features of the sample"):
        model_of().calibrate_one({False: 0.5, True: 0.5})


# Late labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")], ids=["two", "three"])
@pytest.mark.parametrize("base", [None, PlattCalibrator()], ids=["hedge", "platt"])
def test_the_memory_learns_what_json_would(labels: Any, base: Any) -> None:
    remembered, kept, waiting = model_of(base), model_of(base), deque[Any]()
    for x, y in stream(120, labels):
        answer = remembered.predict_proba_one(x)
        served = kept.serve_one(x)
        assert answer == served.calibrated
        waiting.append((x, y, json.dumps(served.to_dict(), allow_nan=False)))
        if len(waiting) > 10:
            x, y, text = waiting.popleft()
            remembered.learn_one(x, y)
            kept.learn_one(x, y, served=Served.from_dict(json.loads(text)))
    assert remembered.to_bytes() == kept.to_bytes()
    assert len(remembered._memory) == 10


def test_tickets_survive_json() -> None:
    for labels in ((False, True), ("a", "b", "c")):
        for calibrator in (None, PlattCalibrator()):
            model = model_of(calibrator)
            served = model.serve_one(stream(1, labels)[0][0])
            assert Served.from_dict(json.loads(json.dumps(served.to_dict()))) == served
            assert served.ticket


def test_features_with_values_that_may_change_are_found_by_their_hash() -> None:
    """They are remembered as a set of items, and the tickets need the values."""
    model, samples = model_of(), stream(40)
    for x, y in samples[:20]:
        model.learn_one(x, y)
    late = [({**x, "extra": (1, i)}, y) for i, (x, y) in enumerate(samples[20:])]
    tickets = [model.serve_one(x).ticket for x, _ in late]
    for x, _ in late:
        model.predict_proba_one(x)
    model._memory.store_latest(model._make_ticket)
    for (x, _), ticket in zip(late, tickets, strict=True):
        assert model._memory.find(x).prediction.ticket == ticket


def test_tickets_of_other_calibrators_are_refused() -> None:
    model, plain = model_of(), model_of(segments=None)
    for x, y in stream(20):
        model.learn_one(x, y)
        plain.learn_one(x, y)
    x, y = stream(1)[0]
    for learner, other in ((model, plain), (plain, model)):
        before = learner.to_bytes()
        with pytest.raises((ValueError, TypeError), match="`ticket` must"):
            learner.learn_one(x, y, served=other.serve_one(x))
        assert learner.to_bytes() == before


@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")], ids=["two", "three"])
def test_a_group_is_one_sample(labels: Any) -> None:
    model, samples = model_of(), stream(40, labels)
    for start in range(0, 40, 8):
        rows = samples[start : start + 8]
        served = [model.serve_one(x) for x, _ in rows]
        model.learn_group([x for x, _ in rows], [y for _, y in rows], 2.0, served=served)
    alone = SegmentCalibrator(FIELDS)
    for start in range(0, 40, 8):
        rows = samples[start : start + 8]
        p = [dict(x["p"])[labels[-1]] for x, _ in rows]
        alone.learn_group(p, [y == labels[-1] for _, y in rows], 2.0, x=[x for x, _ in rows])
    assert model.calibrators[labels[-1]].n_samples == 5
    x, p_last = samples[0][0], dict(samples[0][0]["p"])[labels[-1]]
    expected = alone.predict_one(p_last, x)
    assert model.calibrators[labels[-1]].predict_one(p_last, x) == pytest.approx(expected)


# Drift --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_drift", ["shrink", "reset", "none"])
def test_new_calibrators_know_the_segments_of_recent_samples(on_drift: str) -> None:
    detector = drift.DummyDriftDetector(trigger_method="fixed", t_0=250)
    model = model_of(PlattCalibrator(), drift_detector=detector, on_drift=on_drift)
    for x, y in stream(250):
        model.learn_one(x, y)
        x["country"] = "changed"  # what was learned must not change with it
    assert model.n_alarms == 1
    calibrator = model.calibrators[True]
    n_learned = {"shrink": 200, "reset": 1, "none": 250}[on_drift]
    assert calibrator.n_samples == n_learned + (on_drift == "shrink")
    assert len(calibrator.explain_one({})) == 4
    known = [calibrator.predict_one(0.5, {"country": f"c{i}"}) for i in range(3)]
    unknown = [calibrator.predict_one(0.5, {"country": each}) for each in ("changed", "new")]
    assert unknown[0] == unknown[1]
    assert (max(known) - min(known) > 0.02) == (on_drift != "reset")


# Batches ------------------------------------------------------------------------------------------


def frame_of(n: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "s": rng.random(n),
            "country": rng.choice(["de", "fr", "it"], n),
            "device": rng.choice(np.array(["tv", None], dtype=object), n),
        },
        index=range(100, 100 + n),
    )
    rates = X["country"].map({"de": 0.8, "fr": 0.5, "it": 0.2})
    return X, pd.Series(rng.random(n) < rates, name="label", index=X.index)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("monitored", [False, True])
def test_frames_are_learned_as_rows_are(kind: str, monitored: bool) -> None:
    detector = drift.ADWIN(grace_period=5, clock=1) if monitored else None
    fields = (*FIELDS, "unknown")
    many, one = (
        CalibratedClassifier(Scores(), segments=fields, drift_detector=detector) for _ in range(2)
    )
    X, y = frame_of(90)
    for start in range(0, 90, 30):
        rows, labels = X[start : start + 30], y[start : start + 30]
        batch = pl.from_pandas(rows) if kind == "polars" else rows
        column = pl.Series(labels.to_list()) if kind == "polars" else labels
        records = rows.to_dict("records")
        answers = [one.predict_proba_one(x)[True] for x in records]
        frame = many.predict_proba_many(batch)
        assert list(frame[frame.columns[1]]) == pytest.approx(answers)
        assert list(many.predict_many(batch)) == [p > 0.5 for p in answers]
        many.learn_many(batch, column)
        for x, label in zip(records, labels, strict=True):
            one.learn_one(x, label, served={False: 1.0 - x["s"], True: x["s"]})
    assert many.calibrators[True].to_bytes() == one.calibrators[True].to_bytes()


def test_frames_of_more_labels_are_learned_as_rows_are() -> None:
    many, one = model_of(), model_of()
    samples = stream(40, ("a", "b", "c"))
    columns = {label: np.array([dict(x["p"])[label] for x, _ in samples]) for label in "abc"}
    X = {
        name: np.array([x.get(name) for x, _ in samples], dtype=object)
        for name in ("country", "device")
    }
    labels = [y for _, y in samples]
    many._strategy.learn_many(columns, labels, np.ones(40), Contexts(X))
    for x, y in samples:
        one.learn_one(x, y)
    assert many._strategy.freeze()[0] == one._strategy.freeze()[0]
    answers = many._strategy.predict_many(columns, X)
    for i, (x, _) in enumerate(samples):
        assert answers[:, i] == pytest.approx(list(one.predict_proba_one(x).values()), rel=1e-9)


# Copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Tuples()),
        lambda model: model.clone(include_attributes=True),
    ],
    ids=["deepcopy", "pickle", "bytes", "clone"],
)
@pytest.mark.parametrize("labels", [(False, True), ("a", "b", "c")], ids=["two", "three"])
def test_a_copy_continues_as_the_original_does(copied: Any, labels: Any) -> None:
    model, samples = model_of(), stream(60, labels)
    for x, y in samples[:30]:
        model.learn_one(x, y)
    twin, state = copied(model), model.to_bytes()
    for x, y in samples[30:]:
        twin.learn_one(x, y)
    assert model.to_bytes() == state
    for x, y in samples[30:]:
        model.learn_one(x, y)
    assert model.to_bytes() == twin.to_bytes()


def test_a_clone_has_learned_nothing() -> None:
    model = model_of(PlattCalibrator())
    for x, y in stream(20):
        model.learn_one(x, y)
    clone = model.clone()
    assert (clone.segments, clone.calibrators) == (FIELDS, {})
    assert clone.predict_proba_one(x) == dict(x["p"])


def test_predicting_changes_nothing() -> None:
    model, samples = model_of(), stream(30)
    for x, y in samples:
        model.learn_one(x, y)
    before, snapshot = model.to_bytes(), model.snapshot()
    answers = [model.predict_proba_one(x) for x, _ in samples]
    for x, _ in samples:
        model.serve_one(x)
        model.predict_one(x)
    assert model.to_bytes() == before
    for x, y in stream(30, seed=1):
        model.learn_one(x, y)
    assert [snapshot.predict_proba_one(x) for x, _ in samples] == answers


def test_a_notebook_shows_segments() -> None:
    model = model_of()
    for x, y in stream(20):
        model.learn_one(x, y)
    html = model._repr_html_()
    for shown in ("SegmentCalibrator", "terms", "country"):
        assert shown in html
