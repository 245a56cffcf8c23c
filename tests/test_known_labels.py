"""Labels that a model does not know yet have a probability, too."""

import copy
import math
import pickle
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, drift, linear_model, naive_bayes, tree
from river.utils.dataframe import into_frame, into_series, to_native_frame

from streamcal import (
    CalibratedClassifier,
    IsotonicCalibrator,
    PlattCalibrator,
    Served,
    TemperatureCalibrator,
    TopLabelCalibrator,
)
from streamcal._state import decode, encode


class Frequencies(base.MiniBatchClassifier):
    """Predicts how frequent the labels were that it has learned, and no others."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        self.counts[y] += 1

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        n = self.counts.total()
        return {label: count / n for label, count in self.counts.items()}

    def learn_many(self, X: Any, y: Any) -> None:
        self.counts.update(into_series(y).to_list())

    def predict_proba_many(self, X: Any) -> Any:
        frame = into_frame(X)
        columns = {label: [p] * len(frame) for label, p in self.predict_proba_one({}).items()}
        return to_native_frame(columns, like=frame)


def frequencies(**parameters: Any) -> Any:
    return CalibratedClassifier(Frequencies(), **parameters)


def answers_of(model: CalibratedClassifier) -> list[dict[Any, float]]:
    """Return the probabilities of a sample by every method, by label."""
    x = {"country": "at"}
    rows = [
        model.predict_proba_one(x),
        model.serve_one(x).calibrated,
        model.calibrate_one(model.classifier.predict_proba_one(x), x),
        model.snapshot().predict_proba_one(x),
        pickle.loads(pickle.dumps(model)).predict_proba_one(x),
    ]
    frame: Any = model.predict_proba_many(pd.DataFrame([x, x]))
    polars: Any = model.predict_proba_many(pl.DataFrame([x, x]))
    assert list(frame.columns) == list(rows[0])
    if rows[0]:
        assert polars.columns == [str(label) for label in rows[0]]
        for values in (frame.to_numpy(), polars.to_numpy()):
            assert values.shape == (2, len(rows[0]))
            rows += [dict(zip(rows[0], row.tolist(), strict=True)) for row in values]
    best = max(rows[0], key=rows[0].__getitem__) if rows[0] else None
    assert [model.predict_one(x), *model.predict_many(pd.DataFrame([x]))] == [best] * 2
    return rows


def everywhere(model: CalibratedClassifier, expected: dict[Any, float]) -> None:
    """Assert that every method has this answer, under keys of the same types in this order."""
    for answer in answers_of(model):
        assert [(type(label), label) for label in answer] == [
            (type(label), label) for label in expected
        ]
        assert list(answer.values()) == pytest.approx(list(expected.values()), abs=1e-12)


CALIBRATORS = {
    "default": {},
    "Platt": {"calibrator": PlattCalibrator()},
    "isotonic": {"calibrator": IsotonicCalibrator()},
    "temperature": {"calibrator": TemperatureCalibrator()},
    "top label": {"calibrator": TopLabelCalibrator()},
    "segments": {"segments": ("country",)},
    "sampled": {"sampling_rate": 1.0},
    "monitored": {"drift_detector": drift.ADWIN()},
}
BINARY = [(False, True), (True, False), (0, 1), (1, 0), (1.0, 0.0), (np.False_, np.True_)]


@pytest.mark.parametrize("parameters", CALIBRATORS.values(), ids=CALIBRATORS)
@pytest.mark.parametrize(("seen", "other"), BINARY)
def test_a_binary_stream_of_one_label_has_two(seen: Any, other: Any, parameters: Any) -> None:
    """The rule of Krichevsky and Trofimov: the label that was seen has (n + ½)/(n + 1)."""
    model = frequencies(**parameters)
    for n in range(1, 6):
        model.learn_one({"country": "at"}, seen)
        p = (n + 0.5) / (n + 1.0)
        everywhere(model, dict(sorted({seen: p, other: 1.0 - p}.items())))
    assert list(model.calibrators) in ([True], [])  # joint calibrators have none of their own


class Partial(Frequencies):
    """Answers fixed probabilities of some labels, whatever it has learned."""

    def __init__(self, probabilities: dict[Any, float]) -> None:
        super().__init__()
        self.probabilities = probabilities

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return dict(self.probabilities)


@pytest.mark.parametrize("parameters", CALIBRATORS.values(), ids=CALIBRATORS)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_a_model_that_answers_one_label_only_is_completed_to_a_sum_of_one(
    p: float, parameters: Any
) -> None:
    """The labels of the model share what the others leave, in the model's proportions."""
    model = CalibratedClassifier(Partial({True: p}), **parameters)
    for n in range(4):
        q = (n + 0.5) / (n + 1.0)
        everywhere(model, {False: 1.0 - q, True: q})
        model.learn_one({"country": "at"}, True)


@pytest.mark.parametrize("raw", [{"a": 0.2, "b": 0.1}, {"a": 0.0, "b": 0.0}, {"b": 0.0}])
def test_declared_labels_have_a_sum_of_one_whatever_the_model_answers(raw: Any) -> None:
    model = CalibratedClassifier(Partial(raw), labels=("a", "b", "c"))
    for y in "abcab":
        for answer in answers_of(model):
            assert sum(answer.values()) == pytest.approx(1.0, abs=1e-12)
        model.learn_one({"country": "at"}, y)


def test_many_declared_labels_are_not_compared_with_each_other() -> None:
    n_compared = 0

    class Label:
        def __eq__(self, other: object) -> bool:
            nonlocal n_compared
            n_compared += 1
            return self is other

        __hash__ = object.__hash__

    labels: list[Any] = [Label() for _ in range(300)]
    raw = dict.fromkeys(labels[:-1], 1.0 / 299)
    model = CalibratedClassifier(Partial(raw), PlattCalibrator(), labels=labels)
    answer = model.predict_proba_one({})
    assert list(answer) == labels
    assert n_compared < 3_000  # each with each other would be 45,000


@pytest.mark.parametrize("learn", ["frame", "group", "served", "late"])
def test_every_way_to_learn_counts_the_labels(learn: str) -> None:
    model, n = frequencies(), 6
    rows: list[dict[str, Any]] = [{"i": i} for i in range(n)]
    if learn == "frame":
        for frame, series in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
            model.learn_many(frame(rows[:3]), series([True] * 3))
    elif learn == "group":  # one sample
        n = 1
        model.learn_group(rows, [True] * 6)
    elif learn == "served":
        for x in rows:
            model.learn_one(x, True, served={True: 1.0})
    else:
        kept = [model.serve_one(x) for x in rows]
        for x, served in zip(rows, kept, strict=True):
            model.learn_one(x, True, served=Served.from_dict(served.to_dict()))
    everywhere(model, {False: 0.5 / (n + 1.0), True: (n + 0.5) / (n + 1.0)})


def test_nothing_is_known_before_the_first_label() -> None:
    everywhere(frequencies(), {})
    everywhere(frequencies(labels=(False, True)), {False: 0.5, True: 0.5})
    everywhere(frequencies(labels=[0, 1]), {0: 0.5, 1: 0.5})
    everywhere(frequencies(labels=["abcd", "e"]), {"abcd": 0.5, "e": 0.5})
    everywhere(frequencies(sampling_rate=1.0), {False: 0.5, True: 0.5})
    everywhere(frequencies(sampling_rate=0.25), {False: 0.8, True: 0.2})


def test_a_model_that_forgot_its_labels_gets_their_frequencies() -> None:
    model = frequencies()
    for i in range(10):
        model.learn_one({"i": i}, i < 7)
    model.classifier.counts.clear()
    everywhere(model, {False: 3.5 / 11.0, True: 7.5 / 11.0})
    model.classifier.counts[False] = 1
    everywhere(model, {False: 3.5 / 11.0, True: 7.5 / 11.0})


def test_zero_and_one_are_binary_until_a_third_label_comes() -> None:
    model = frequencies()
    model.learn_one({"i": 0}, 1)
    everywhere(model, {0: 0.25, 1: 0.75})
    twin = copy.deepcopy(model)
    model.learn_one({"i": 1}, 2)
    assert set(model.predict_proba_one({})) == {1, 2}
    assert sum(model.predict_proba_one({}).values()) == pytest.approx(1.0)
    model.classifier.counts = Counter({1: 1})
    everywhere(model, {1: 1.0})
    twin.classifier.counts = Counter({2: 1})  # the model has met it elsewhere
    everywhere(twin, {2: 1.0})


@pytest.mark.parametrize("y", ["yes", 2, -1, 0.5, (0,)])
def test_other_labels_are_served_as_the_model_knows_them(y: Any) -> None:
    model = frequencies()
    for n in range(3):
        model.learn_one({"i": n}, y)
    everywhere(model, {y: 1.0})


@pytest.mark.parametrize("parameters", [*CALIBRATORS.values()][:6], ids=[*CALIBRATORS][:6])
@pytest.mark.parametrize("labels", [("a", "b", "c"), (2, 0, 1), ((1, "x"), "b", True)], ids=str)
def test_declared_labels_are_served_from_the_first_sample_on(labels: Any, parameters: Any) -> None:
    model = frequencies(labels=labels, **parameters)
    everywhere(model, dict.fromkeys(labels, 1.0 / 3.0))
    for n in range(1, 4):
        model.learn_one({"country": "at"}, labels[1])
        everywhere(model, {label: (n * (label == labels[1]) + 0.5) / (n + 1.5) for label in labels})
    for _ in range(5):
        model.learn_one({"country": "at"}, labels[0])
    for answer in answers_of(model):
        assert list(answer) == list(labels)
        assert sum(answer.values()) == pytest.approx(1.0)
        assert answer[labels[2]] == pytest.approx(0.5 / 9.5)
    model.learn_one({"country": "at"}, "another")
    for answer in answers_of(model):
        assert list(answer) == [*labels, "another"]
        assert sum(answer.values()) == pytest.approx(1.0)
        assert answer[labels[2]] == pytest.approx(0.5 / 11.0)


def test_labels_that_the_model_knows_need_no_declaration() -> None:
    plain = CalibratedClassifier(linear_model.LogisticRegression())
    declared = CalibratedClassifier(linear_model.LogisticRegression(), labels=(False, True))
    for x, y in datasets.Phishing().take(100):
        assert plain.predict_proba_one(x) == declared.predict_proba_one(x)
        for model in (plain, declared):
            model.learn_one(x, y)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
@settings(deadline=None)
def test_one_label_costs_half_a_logarithm(labels: list[bool]) -> None:
    """The bound of the rule: ½ ln n + ln 2 nats above a forecaster that knew the one label."""
    model, loss, n = frequencies(labels=(False, True)), 0.0, 0
    for i, y in enumerate(labels):
        if len(set(labels[: i + 1])) > 1:
            p = model.predict_proba_one({"i": i})[y]
            assert p == pytest.approx(0.5 / (n + 1.0))
            break
        loss -= math.log(model.predict_proba_one({"i": i})[y])
        model.learn_one({"i": i}, y)
        n += 1
    assert loss <= 0.5 * math.log(n) + math.log(2.0) + 1e-9


@pytest.mark.parametrize("make", [tree.HoeffdingTreeClassifier, naive_bayes.GaussianNB])
def test_the_first_positive_after_many_negatives_costs_a_logarithm(make: Any) -> None:
    """It cost infinity: 200 negatives made a tree certain."""
    model = CalibratedClassifier(make())
    samples = sorted(datasets.Phishing().take(600), key=lambda sample: sample[1])
    for n, (x, y) in enumerate(samples):
        served = model.predict_proba_one(x)
        if y:
            assert served[True] == pytest.approx(0.5 / (n + 1.0))
            assert n > 200
            return
        model.learn_one(x, y)


def test_a_copy_continues_as_the_original_does() -> None:
    for parameters in ({}, {"labels": ("a", "b", True)}, {"labels": (0, 1)}):
        model = frequencies(**parameters)
        for i in range(4):
            model.learn_one({"i": i}, True)
        again = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=model.classifier)
        assert again.to_bytes() == model.to_bytes()
        for other in (again, copy.deepcopy(model), model.clone({}, True)):
            assert other.predict_proba_one({}) == model.predict_proba_one({})
        new = model.clone()
        assert new.predict_proba_one({}) == frequencies(**parameters).predict_proba_one({})


class Alarm(drift.DummyDriftDetector):
    """Raises an alarm at each sample."""

    def update(self, x: Any) -> None:
        self._drift_detected = True


@pytest.mark.parametrize("on_drift", ["reset", "shrink"])
def test_a_drift_alarm_leaves_the_labels_known(on_drift: str) -> None:
    model = frequencies(drift_detector=Alarm("fixed"), on_drift=on_drift)
    for i in range(3):
        model.learn_one({"i": i}, True)
    assert model.n_alarms > 0
    everywhere(model, {False: 0.125, True: 0.875})


def test_a_detector_gets_the_error_of_what_was_served() -> None:
    class Errors(drift.DummyDriftDetector):
        errors: list[float] = []  # noqa: RUF012  clones share it

        def update(self, x: Any) -> None:
            self.errors.append(x)

    model = frequencies(labels=(False, True), drift_detector=Errors("fixed"))
    for i in range(3):
        model.predict_proba_one({"i": i})
        model.learn_one({"i": i}, True)
    assert Errors.errors == pytest.approx([0.5**2, 0.25**2, (0.5 / 3.0) ** 2])


@pytest.mark.parametrize(
    ("labels", "error"),
    [
        ("ab", TypeError),
        (7, TypeError),
        ({"a"}, TypeError),
        (["a", [1]], TypeError),
        (["a"], ValueError),
        ([], ValueError),
        (["a", "a"], ValueError),
        ([1, True], ValueError),
        (["a", None], ValueError),
        (["a", math.nan], ValueError),
        (["a", Decimal("sNaN")], ValueError),
    ],
    ids=str,
)
def test_bad_labels_are_refused(labels: Any, error: Any) -> None:
    with pytest.raises(error, match="`labels` must"):
        frequencies(labels=labels)


def test_labels_of_a_sampled_stream_are_binary() -> None:
    with pytest.raises(ValueError, match="`sampling_rate` must be None unless the labels"):
        frequencies(labels=("no", "yes"), sampling_rate=0.5)
    frequencies(labels=(0, 1), sampling_rate=0.5)


def test_a_label_without_a_hash_that_equals_a_declared_one_is_counted() -> None:
    class Fixed(Frequencies):
        def learn_one(self, x: dict[str, Any], y: Any) -> None:
            pass

    model = CalibratedClassifier(Fixed(), labels=(1, 2, 3))
    model.learn_one({}, np.array(2))
    assert model.predict_proba_one({}) == pytest.approx({1: 0.2, 2: 0.6, 3: 0.2})
    assert CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Fixed()).labels == (1, 2, 3)


@pytest.mark.parametrize(
    "crafted",
    [
        None,
        {},
        {"counts": [], "is_other": 1},
        {"counts": [], "is_other": None},
        {"counts": {}, "is_other": False},
        {"counts": [[True]], "is_other": False},
        {"counts": [[True, -1.0]], "is_other": False},
        {"counts": [[True, 1e300]], "is_other": False},
        {"counts": [[True, "1"]], "is_other": False},
        {"counts": [[True, 1.0], [1, 1.0]], "is_other": False},
        {"counts": [[2, 1.0]], "is_other": False},
        {"counts": [[[1], 1.0]], "is_other": False},
        {"counts": [[None, 1.0]], "is_other": False},
        {"counts": [[True, 1.0]], "is_other": True},
    ],
    ids=str,
)
def test_crafted_counts_are_refused(crafted: Any) -> None:
    model = frequencies()
    model.learn_one({}, True)
    state = decode(model.to_bytes())
    damaged = encode(state.kind, {**state.fields, "known": crafted}, state.arrays)
    with pytest.raises(ValueError, match="`data` must be"):
        CalibratedClassifier.from_bytes(damaged, classifier=model.classifier)
