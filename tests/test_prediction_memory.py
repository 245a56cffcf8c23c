"""`CalibratedClassifier` finds what it served for a sample when the label of that sample comes."""

import copy
import itertools
import pickle
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing

from streamcal import CalibratedClassifier, IsotonicCalibrator
from streamcal.wrappers._memory import Prediction, PredictionMemory
from tests.contract import state


def logistic(**parameters: Any) -> CalibratedClassifier:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    return CalibratedClassifier(model, **parameters)


def bayes(**parameters: Any) -> CalibratedClassifier:
    return CalibratedClassifier(naive_bayes.GaussianNB(), **parameters)


def with_tickets(
    model: CalibratedClassifier, samples: list[Any], delay: int
) -> list[dict[Any, float]]:
    """Serve each sample, and learn it as many samples later with what was served."""
    waiting: deque[Any] = deque()
    answers = []
    for x, y in samples:
        if len(waiting) > delay - 1:
            before, label, kept = waiting.popleft()
            model.learn_one(before, label, served=kept if kept.raw else None)
        served = model.serve_one(x)
        answers.append(served.calibrated)
        waiting.append((x, y, served))
    return answers


class Recorder(metrics.CrossEntropy):
    """Keeps the answers that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[dict[Any, float]] = []

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        self.answers.append(y_pred)


@pytest.mark.parametrize(
    ("make", "data", "delay"),
    [
        (logistic, datasets.Phishing(), 1),
        (logistic, datasets.Phishing(), 48),
        (bayes, datasets.Phishing(), 300),
        (bayes, datasets.ImageSegments(), 20),
    ],
)
def test_late_labels_are_learned_as_with_tickets(make, data, delay):
    samples = list(itertools.islice(data, 400 if delay > 20 else 100))
    recorder = Recorder()
    evaluate.progressive_val_score(samples, make(), recorder, delay=delay)
    told = with_tickets(make(), samples, delay)
    assert recorder.answers == [answer for answer in told if answer]


def test_labels_at_once_are_learned_as_without_memory():
    answers: dict[int, list[Any]] = {}
    for remember in (0, 10_000):
        model = bayes(remember=remember)
        answers[remember] = []
        for x, y in itertools.islice(datasets.Phishing(), 500):
            answers[remember].append(model.predict_proba_one(x))
            model.learn_one(x, y)
    assert answers[0] == answers[10_000]


def test_a_label_of_a_sample_that_was_never_served_is_learned_as_without_memory():
    model, other = bayes(), bayes(remember=0)
    for x, y in itertools.islice(datasets.Phishing(), 200):
        model.learn_one(x, y)
        other.learn_one(x, y)
    assert state(model.calibrators[True]) == state(other.calibrators[True])


def test_predictions_change_no_state():
    model = bayes()
    samples = list(itertools.islice(datasets.Phishing(), 100))
    for x, y in samples:
        model.learn_one(x, y)
    before = pickle.dumps(model)
    answer = model.predict_proba_one(samples[0][0])
    assert model.predict_proba_one(samples[0][0]) == answer
    assert len(model._memory) == 1
    assert pickle.dumps(model) == before
    for other in (copy.deepcopy(model), pickle.loads(before), model.clone(), model.clone({}, True)):
        assert len(other._memory) == 0
    model.predict_proba_one(samples[0][0])[True] = 7.0  # what is remembered is not what users hold
    assert model._memory.take(samples[0][0]).raw[True] != 7.0


def test_memory_is_bounded():
    model = bayes(remember=20)
    model.learn_one({"x": 0.5}, True)
    for i in range(200):
        model.predict_proba_one({"x": float(i)})
    assert len(model._memory) == 20
    assert len(model._memory._recent) == len(model._memory._by_key) == 20
    for i in range(200):  # those that are not remembered are asked again
        model.learn_one({"x": float(i)}, i % 2 == 0)
    assert len(model._memory) == len(model._memory._recent) == 0


def test_labels_that_never_come_are_forgotten():
    model = bayes(remember=50)
    for i in range(500):
        model.predict_proba_one({"x": float(i)})
        if i % 3 == 0:
            model.learn_one({"x": float(i)}, i % 2 == 0)
    assert len(model._memory) <= 50
    assert len(model._memory._recent) <= 50


@pytest.mark.parametrize("remember", [-1, 1.5, True, None, "10"])
def test_a_bad_limit_is_refused(remember):
    with pytest.raises((ValueError, TypeError), match="`remember`"):
        bayes(remember=remember)


def test_features_without_a_hash_are_learned_as_without_memory():
    model = CalibratedClassifier(naive_bayes.GaussianNB(), IsotonicCalibrator())
    memory = model._memory
    memory.add({"x": [1.0]}, Prediction({}, None, {}, 0))
    assert memory.take({"x": [1.0]}) is None
    memory.add("a text", Prediction({True: 1.0}, None, {}, 0))
    assert memory.take("a text").raw == {True: 1.0}


def test_the_order_of_features_does_not_matter():
    memory = PredictionMemory(3)
    memory.add({"a": 1, "b": 2}, Prediction({}, None, {}, 0))
    assert memory.take({"b": 2.0, "a": 1}) is not None


def test_asking_twice_in_a_row_is_one_prediction():
    model = bayes()
    model.learn_one({"x": 1.0}, True)
    model.predict_one({"x": 3.0})
    model.predict_proba_one({"x": 3.0})
    assert len(model._memory) == 1
    model.learn_one({"x": 3.0}, False)
    model.predict_proba_one({"x": 3.0})
    assert len(model._memory) == 1


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60), st.integers(1, 6))
@settings(deadline=None)
def test_random_programs_find_the_oldest_prediction(program, limit):
    memory, made, last = PredictionMemory(limit), 0, None
    waiting: list[tuple[int, int]] = []  # when, and of which sample
    for is_prediction, sample in program:
        if is_prediction:
            memory.add({"x": sample}, Prediction({True: made}, None, {}, 0))
            if sample != last:
                waiting.append((made, sample))
                made += 1
            last = sample
            continue
        last = None
        found = memory.take({"x": sample})
        same = [when for when, other in waiting if other == sample]
        recent = [when for when in same if made - when <= limit]
        if found is None:
            assert not recent
        else:
            assert found.raw[True] in same
            assert found.raw[True] <= min(recent, default=made)
            waiting.remove((int(found.raw[True]), sample))
    assert len(memory) <= len(memory._recent) <= limit
