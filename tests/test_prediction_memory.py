"""`CalibratedClassifier` finds what it served for a sample when the label of that sample comes."""

import copy
import datetime
import enum
import itertools
import math
import pickle
import signal
import sys
import tracemalloc
import uuid
import warnings
from collections import UserDict, deque
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing

from streamcal import CalibratedClassifier, HedgedCalibrator, Served
from streamcal._whole import do_all
from streamcal.calibration.tickets import Ticket
from streamcal.wrappers import _features, memory
from streamcal.wrappers.memory import PredictionMemory, Remembered
from tests.contract import state


def logistic(**parameters: Any) -> CalibratedClassifier:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    return CalibratedClassifier(model, **parameters)


def bayes(**parameters: Any) -> CalibratedClassifier:
    return CalibratedClassifier(naive_bayes.GaussianNB(), **parameters)


def taken(memory: PredictionMemory, x: Any, make_tickets: Any) -> Any:
    """Return the prediction for these features, and forget it, as when a sample is learned."""
    found = memory.find(x)
    if found is None:
        memory.warn_if_late(x)
    if found is None or found.aside is None:
        memory.store_latest(make_tickets)
    if found is None:
        return None
    do_all(*memory.take_steps([found]))
    return found.prediction


def no_ticket(raw: Any, features: Any) -> None:
    """Return no ticket, as calibrators that make none."""


def as_lists(tickets: Any) -> dict[Any, Any]:
    return {label: (n, list(answers)) for label, (n, answers) in tickets.items()}


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
def test_late_labels_are_learned_as_with_tickets(make: Any, data: Any, delay: int) -> None:
    samples = list(itertools.islice(data, 400 if delay > 20 else 100))
    recorder = Recorder()
    evaluate.progressive_val_score(samples, make(), recorder, delay=delay)
    expected = with_tickets(make(), samples, delay)
    assert recorder.answers == [answer for answer in expected if answer]


def test_labels_at_once_are_learned_as_without_memory() -> None:
    answers: dict[int, list[Any]] = {}
    for remember in (0, 10_000):
        model = bayes(remember=remember)
        answers[remember] = []
        for x, y in itertools.islice(datasets.Phishing(), 500):
            answers[remember].append(model.predict_proba_one(x))
            model.learn_one(x, y)
    assert answers[0] == answers[10_000]


def test_a_label_of_a_sample_that_was_never_served_is_learned_as_without_memory() -> None:
    model, other = bayes(), bayes(remember=0)
    for x, y in itertools.islice(datasets.Phishing(), 200):
        model.learn_one(x, y)
        other.learn_one(x, y)
    assert state(model.calibrators[True]) == state(other.calibrators[True])


def test_predictions_change_no_state() -> None:
    model = bayes()
    samples = list(itertools.islice(datasets.Phishing(), 100))
    for x, y in samples:
        model.learn_one(x, y)
    before = pickle.dumps(model)
    answer = model.predict_proba_one(samples[0][0])
    assert model.predict_proba_one(samples[0][0]) == answer
    assert len(model._memory) == 2
    assert pickle.dumps(model) == before
    for other in (copy.deepcopy(model), pickle.loads(before), model.clone(), model.clone({}, True)):
        assert len(other._memory) == 0
    model.predict_proba_one(samples[0][0])[True] = 7.0  # what is remembered is not what users hold
    assert taken(model._memory, samples[0][0], no_ticket).raw[True] != 7.0


def test_memory_is_bounded() -> None:
    model = bayes(remember=20)
    model.learn_one({"x": 0.5}, True)
    for i in range(200):
        model.predict_proba_one({"x": float(i)})
    assert len(model._memory) == 20
    assert len(model._memory._room) == model._memory._room.n_names == 19
    for i in range(200):  # those that are not remembered are asked again
        model.learn_one({"x": float(i)}, i % 2 == 0)
    assert len(model._memory) == model._memory._room.n_names == 0


def test_labels_that_never_come_are_forgotten() -> None:
    model = bayes(remember=50)
    for i in range(500):
        model.predict_proba_one({"x": float(i)})
        if i % 3 == 0:
            model.learn_one({"x": float(i)}, i % 2 == 0)
    assert len(model._memory) <= 50
    assert model._memory._room.n_names <= 50


@pytest.mark.parametrize("remember", [-1, 1.5, True, None, "10"])
def test_a_bad_limit_is_refused(remember: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="`remember`"):
        bayes(remember=remember)


def prediction(p: float) -> Remembered:
    return Remembered({True: p}, None, 0)


def test_features_that_may_change_in_place_are_not_found() -> None:
    """A reused array equals itself, whatever it held when it was predicted."""
    memory, buffer = PredictionMemory(5), np.array([0.1])
    for x in ({"x": buffer}, {"x": [1.0]}, [1.0], UserDict(x=1.0)):
        memory.add(x, prediction(0.1), no_ticket)
        assert taken(memory, x, no_ticket) is None
    memory.add("a text", prediction(0.4), no_ticket)
    assert taken(memory, "a text", no_ticket).raw == {True: 0.4}
    memory.add({"x": Fraction(1, 3)}, prediction(0.5), no_ticket)
    assert taken(memory, {"x": Fraction(1, 3)}, no_ticket).raw == {True: 0.5}


class Incomparable:
    """As an array of several numbers in a comparison."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]  # as arrays have none


def test_features_that_cannot_be_compared_are_not_found() -> None:
    memory = PredictionMemory(5)
    for value in (Incomparable(), np.arange(3)):
        memory.add({"x": value}, prediction(0.1), no_ticket)
        assert taken(memory, {"x": copy.copy(value)}, no_ticket) is None


class Odd:
    """Each comparison and each hash of it is an error."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError


class OddNumber(float):
    """A number with such a comparison."""

    __eq__, __hash__ = Odd.__eq__, Odd.__hash__


class OddDict(dict[Any, Any]):
    def items(self) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


class OddArray(np.ndarray):
    """An array with such a comparison."""

    __eq__, __hash__ = Odd.__eq__, Odd.__hash__  # type: ignore[assignment]


def odd_values() -> list[Any]:
    odd = Odd()
    nested: list[Any] = []
    nested.append(nested)
    objects = np.array([odd, 1], object)
    kept = [odd, OddNumber(1.0), (1, (odd,)), [odd], objects, np.zeros(2).view(OddArray)]
    return [*kept, Decimal("sNaN"), np.array([(1, 2)], "i4,i4")[0], nested, {"a": odd}]


def test_code_of_users_is_never_called() -> None:
    """Their comparisons may raise anything, and so may a signal handler: nothing is caught."""
    memory = PredictionMemory(50)
    for value in [*odd_values(), *odd_values()]:
        for x in ({"x": value}, {"x": 1.0, "y": value}, value):
            for same in (x, copy.copy(x)):
                memory.add(x, prediction(0.1), no_ticket)
                memory.add({"z": 1.0}, prediction(0.2), no_ticket)
                with warnings.catch_warnings(action="ignore"):  # of late labels
                    taken(memory, same, no_ticket)
                    assert taken(memory, {"z": 1.0}, no_ticket).raw == {True: 0.2}
    memory.add(OddDict(a=1), prediction(0.1), no_ticket)
    assert taken(memory, OddDict(a=1), no_ticket) is not None


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: float
    y: Any


VALUES = [
    1,
    "a",
    b"a",
    None,
    True,
    1.5,
    1j,
    (1, ("a", 2.0)),
    frozenset({1}),
    Point(1.0, "a"),
    Colour.RED,
    Fraction(1, 3),
    Decimal("1.5"),
    datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1, 12),
    datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC),
    datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    datetime.timedelta(1),
    uuid.UUID(int=1),
    np.float16(0.5),
    np.int8(1),
    np.str_("a"),
    np.datetime64("2026-01-01"),
    pd.Timestamp("2026-01-01"),
    pd.Timedelta(1),
    object(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_that_cannot_change_are_found(value: Any) -> None:
    memory = PredictionMemory(5)
    for make in (lambda: {"x": value, "y": 1.0}, lambda: (value,)):
        memory.add(make(), prediction(0.1), no_ticket)
        memory.add({"z": 1.0}, prediction(0.2), no_ticket)
        assert taken(memory, make(), no_ticket).raw == {True: 0.1}


def test_a_time_in_another_zone_is_the_same_feature() -> None:
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    other = noon.astimezone(datetime.timezone(datetime.timedelta(hours=1)))
    for predicted, labelled in ((noon, other), (other, noon)):
        for others in ({}, {"z": 1.0}):
            memory = PredictionMemory(5)
            memory.add({"x": predicted}, prediction(0.1), no_ticket)
            if others:
                memory.add(others, prediction(0.2), no_ticket)
            assert taken(memory, {"x": noon.replace(tzinfo=None)}, no_ticket) is None
            assert taken(memory, {"x": labelled}, no_ticket).raw == {True: 0.1}


class Claims(base.Classifier):
    """Predicts the feature "p"."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {False: 1.0 - x["p"], True: x["p"]}


@pytest.mark.parametrize("p", [math.nan, 1.5, -0.1])
def test_probabilities_that_no_calibrator_accepts_do_not_disturb_the_next_sample(p: Any) -> None:
    model, other = (CalibratedClassifier(Claims(), remember=n) for n in (10, 0))
    for each in (model, other):
        with pytest.raises(ValueError, match=r"probabilities must lie in \[0, 1\]"):
            each.predict_proba_one({"p": p})
        each.predict_proba_one({"p": 0.2})
        each.learn_one({"p": 0.4}, True)
    assert state(model.calibrators[True]) == state(other.calibrators[True])
    assert taken(model._memory, {"p": p}, model._make_ticket) is None
    assert taken(model._memory, {"p": 0.2}, model._make_ticket) is not None


def test_a_lost_label_costs_no_ticket_later() -> None:
    memory = PredictionMemory(10_000)
    memory.add({"x": 0.0}, prediction(0.1), no_ticket)
    memory.add({"x": 1.0}, prediction(0.1), no_ticket)
    for i in range(2, 20):
        found = taken(memory, {"x": i - 1.0}, no_ticket)
        assert found.ticket is None
        memory.add({"x": float(i)}, prediction(0.1), no_ticket)
    assert len(memory) == 2


def test_features_that_change_after_the_prediction_are_other_features() -> None:
    memory, x = PredictionMemory(5), {"a": 1.0}
    memory.add(x, prediction(0.1), no_ticket)
    x["a"] = 2.0
    assert taken(memory, x, no_ticket) is None
    assert taken(memory, {"a": 1.0}, no_ticket).raw == {True: 0.1}


def test_a_stored_prediction_has_the_tickets_of_the_state_that_predicted() -> None:
    model = bayes()
    for x, y in itertools.islice(datasets.Phishing(), 50):
        model.learn_one(x, y)
    served = model.serve_one({"x": 1.0})
    model.predict_proba_one({"x": 1.0})
    model.learn_one({"x": 2.0}, True)  # another sample: the calibrators change
    stored = taken(model._memory, {"x": 1.0}, model._make_ticket)
    assert stored.ticket == served.ticket is not None
    assert stored.raw == served.raw


@pytest.mark.parametrize("how", ["learn_many", "served"])
def test_other_ways_to_learn_store_the_latest_prediction_first(how: str) -> None:
    model = logistic()
    x = {"x": 1.0}
    for i in range(50):
        model.learn_one({"x": float(i % 3)}, i % 2 == 0)
    served = model.serve_one(x)
    model.predict_proba_one(x)
    if how == "learn_many":
        model.learn_many(pd.DataFrame({"x": [0.0, 1.0]}), pd.Series([True, False]))
    else:
        model.learn_one({"x": 0.0}, True, served=model.serve_one({"x": 0.0}))
    stored = taken(model._memory, x, model._make_ticket)
    assert stored.ticket == served.ticket is not None


def test_a_signal_handler_may_predict_and_learn_at_any_time() -> None:
    memory, handled = PredictionMemory(50), itertools.count()
    done: list[bool] = []

    def handle(*_: Any) -> None:
        memory.add({"x": next(handled) % 7}, prediction(0.5), no_ticket)
        taken(memory, {"x": next(handled) % 5}, no_ticket)
        if not done:
            signal.setitimer(signal.ITIMER_REAL, 5e-5)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 5e-5)
    try:
        for i in range(20_000):
            memory.add({"x": i % 11}, prediction(0.1), no_ticket)
            taken(memory, {"x": i % 3}, no_ticket)
    finally:
        done.append(True)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert next(handled) > 0
    assert len(memory) <= 60  # a few more while calls are nested


@pytest.mark.parametrize("n_waiting", [0, 2])
@pytest.mark.parametrize("learn", ["one", "group"])
def test_what_a_signal_handler_predicts_while_the_model_learns_is_remembered(
    learn: str, n_waiting: int
) -> None:
    class Signalled(Given):
        model: Any = None

        def learn_one(self, x: Any, y: Any) -> None:
            if self.model is not None:
                self.model.predict_proba_one({"p": (0.9, 0.1)})

    inner = Signalled()
    model = CalibratedClassifier(inner)
    for i in range(n_waiting):
        model.predict_proba_one({"p": (0.25, 0.75), "i": i})
    x: dict[str, Any] = {"p": (0.5, 0.5)}
    model.predict_proba_one(x)
    inner.model = model
    if learn == "one":
        model.learn_one(x, "a")
    else:
        model.learn_group([x], ["a"])
    assert model._memory.find(x) is None
    assert model._memory.find({"p": (0.9, 0.1)}) is not None
    assert len(model._memory) == n_waiting + 1


def test_the_order_of_features_does_not_matter() -> None:
    memory = PredictionMemory(3)
    memory.add({"a": 1, "b": 2}, Remembered({}, None, 0), no_ticket)
    assert taken(memory, {"b": 2.0, "a": 1}, no_ticket) is not None


@pytest.mark.parametrize(
    "asked", [("predict_one", "predict_proba_one"), ("predict_proba_one", "predict_one")]
)
def test_the_label_and_the_probabilities_of_a_sample_are_one_prediction(
    asked: tuple[str, str],
) -> None:
    model = bayes()
    model.learn_one({"x": 1.0}, True)
    for _ in range(2):
        for method in asked:
            getattr(model, method)({"x": 3.0})
        assert len(model._memory) == 1
        model.learn_one({"x": 3.0}, False)
        assert len(model._memory) == 0
    for _ in range(3):
        for method in asked:
            getattr(model, method)({"x": 3.0})
    assert len(model._memory) == 3


@pytest.mark.parametrize("make", [logistic, bayes])
def test_a_comparison_before_training_does_no_harm(make: Any) -> None:
    """Predictions for all samples come first; then each is predicted again, and learned."""
    samples = list(datasets.Phishing().take(400))
    samples = list({frozenset(x.items()): (x, y) for x, y in samples}.values())
    compared, other = make(), make()
    for x, _ in samples:
        compared.predict_proba_one(x)
    for model in (compared, other):
        for x, y in samples:
            model.predict_proba_one(x)
            model.learn_one(x, y)
    assert compared.calibrators[True].weights == other.calibrators[True].weights
    assert compared.predict_proba_one(samples[0][0]) == other.predict_proba_one(samples[0][0])


class Score(base.Classifier):
    """Predicts the feature "p" as the probability of True."""

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {False: 1.0 - x["p"], True: x["p"]}


@pytest.mark.parametrize("n_rows", [2, 20])
def test_rows_of_equal_features_in_succession_are_different_samples(n_rows: int) -> None:
    """All rows of an event have the same features and the same label."""
    rng, hedge = np.random.default_rng(0), HedgedCalibrator()
    model, waiting = CalibratedClassifier(Score()), deque[Any]()
    for _ in range(600 // n_rows):
        p = rng.random()
        y = bool(rng.random() < p)
        for _ in range(n_rows):
            answer, ticket = hedge.serve_one(p)
            x = {"p": p}
            assert model.predict_proba_one(x)[True] == answer
            waiting.append((x, y, p, ticket))
            if len(waiting) > 30:
                x, y_late, p_late, ticket = waiting.popleft()
                hedge.learn_one(p_late, y_late, ticket=ticket)
                model.learn_one(x, y_late)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60), st.integers(1, 6))
@settings(deadline=None)
def test_random_programs_find_a_prediction_of_the_same_features(program: Any, limit: int) -> None:
    memory, made = PredictionMemory(limit), 0
    waiting: list[tuple[int, int]] = []  # when, and of which sample
    for is_prediction, sample in program:
        if is_prediction:
            memory.add({"x": sample}, prediction(made), no_ticket)
            waiting.append((made, sample))
            made += 1
            continue
        found = taken(memory, {"x": sample}, no_ticket)
        same = [when for when, other in waiting if other == sample]
        if found is None:
            assert all(made - when > limit for when in same)
        else:
            when = int(found.raw[True])
            assert when in same
            waiting.remove((when, sample))  # older ones stay, since their labels may still come
    assert memory._room.n_names <= len(memory) <= limit


@pytest.mark.parametrize("delay", [0, 3, 40])
@pytest.mark.parametrize("n_values", [1, 5])
@pytest.mark.parametrize("lost", [0.1, 0.5])
def test_lost_labels_do_not_shift_the_others(delay: int, n_values: int, lost: float) -> None:
    """Features repeat, so that only the usual delay tells which prediction a label belongs to."""
    rng = np.random.default_rng(0)
    memory, samples, right = PredictionMemory(10_000), [], []
    for t in range(2_000):
        x = {"x": int(rng.integers(n_values)), "turn": t % 2}
        samples.append(x)
        memory.add(x, prediction(t), no_ticket)
        if t >= delay and rng.random() > lost:
            found = taken(memory, samples[t - delay], no_ticket)
            right.append(found is not None and found.raw[True] == t - delay)
    assert np.mean(right[50:]) > 0.95
    assert len(memory) <= 2 * max(5 * delay, 100)


def test_features_with_equal_hashes_are_told_apart() -> None:
    memory = PredictionMemory(10)
    assert hash(-1) == hash(-2)
    memory.add({"a": -1}, prediction(0.9), no_ticket)
    memory.add({"a": -2}, prediction(0.1), no_ticket)
    assert taken(memory, {"a": -1}, no_ticket).raw == {True: 0.9}
    assert taken(memory, {"a": -2}, no_ticket).raw == {True: 0.1}


def three_labels(n: int, seed: int = 0) -> CalibratedClassifier:
    """Return a model that has learned n samples of three or four labels."""
    rng, model = np.random.default_rng(seed), CalibratedClassifier(Given())
    for i in range(n):
        x = {"p": tuple(rng.dirichlet(np.ones(3 + (i > n // 2))).tolist())}
        model.learn_one(x, "abcd"[int(rng.integers(3))])
    return model


class Given(base.Classifier):
    """Predicts the tuple of probabilities in the feature "p"."""

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any) -> None:
        pass

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return dict(zip("abcd", x["p"], strict=False))


@pytest.mark.parametrize("n_late", [0, 1])
@pytest.mark.parametrize("p", [(0.2, 0.3, 0.5), (0.1, 0.2, 0.3, 0.4), (-0.0, 5e-324, 1.0)])
def test_predictions_of_many_labels_come_back_bit_for_bit(n_late: int, p: Any) -> None:
    model, x = three_labels(40), {"p": p}
    if n_late:
        served = model.serve_one(x)
        model.learn_one({"p": (0.5, 0.25, 0.25)}, "a")
        model.learn_one(x, "b", served=served)
    served = model.serve_one(x)
    model.predict_proba_one(x)
    model._memory.store_latest(model._make_ticket)
    found = taken(model._memory, x, model._make_ticket)
    assert repr(found.raw) == repr(served.raw)
    assert isinstance(found.ticket, Ticket)
    assert repr(tuple(found.ticket)) == repr(tuple(served.ticket))


@pytest.mark.parametrize(
    "make",
    [
        lambda: float("nan"),
        lambda: np.float64("nan"),
        lambda: np.float32("nan"),
        lambda: (1, ("a", float("nan"))),
        lambda: frozenset([float("nan"), 2.0]),
        lambda: Decimal("nan"),
        lambda: complex("nan"),
        lambda: np.datetime64("NaT"),
    ],
)
def test_a_missing_value_is_the_same_when_the_row_is_made_again(make: Any) -> None:
    memory = PredictionMemory(9)
    for i in range(3):
        memory.add({"x": make(), "i": i}, prediction(i / 4), no_ticket)
    for i in range(3):
        assert taken(memory, {"x": 0.5, "i": i}, no_ticket) is None
        assert taken(memory, {"x": make(), "i": i}, no_ticket).raw == prediction(i / 4)[0]


def test_labels_that_are_equal_but_of_other_types_are_told_apart() -> None:
    memory = PredictionMemory(9)
    for i, labels in enumerate([(0, 1, 2), (False, True, 2), (0, 1, 2)]):
        raw = dict.fromkeys(labels, 0.25)
        memory.add({"x": i}, Remembered(raw, raw, 3), no_ticket)
    memory.store_latest(no_ticket)
    for i, labels in enumerate([(0, 1, 2), (False, True, 2), (0, 1, 2)]):
        found = taken(memory, {"x": i}, no_ticket)
        raw = dict.fromkeys(labels, 0.25)
        assert repr(found) == repr(Remembered(raw, raw, 3))


def test_predictions_of_many_labels_take_little_memory() -> None:
    """A third of what the ticket takes."""
    memory, n = PredictionMemory(50), 100
    answers = tuple(np.random.default_rng(0).random(10).tolist())
    owns = tuple((i, answers) for i in range(n))
    ticket = Ticket((owns, (9, (answers[1:],) * n)))
    raw = dict.fromkeys(range(n), 0.01)
    tracemalloc.start()
    for i in range(20):
        memory.add({"x": i}, Remembered(dict(raw), None, 0), lambda raw, features: ticket)
    memory.store_latest(lambda raw, features: ticket)
    size = tracemalloc.get_traced_memory()[0] / 20
    tracemalloc.stop()
    assert len(memory) == 20
    assert size < 19_000


class Interrupts:
    """Raises in the line of the memory that is reached after so many others."""

    FILES = tuple(each.__file__ for each in (memory, _features))

    def __init__(self, after: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.left, self.error, self.raised = after, error, False

    def __enter__(self) -> None:
        sys.settrace(self.trace)

    def __exit__(self, *error: Any) -> bool:
        sys.settrace(None)
        self.raised = error[0] is self.error
        return self.raised

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self.FILES:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise self.error
        return self.trace


@pytest.mark.parametrize("same", [1, 3, 1_000])
def test_whatever_interrupts_a_change_everything_is_forgotten(same: int) -> None:
    before, memory = sys.gettrace(), PredictionMemory(4)
    try:
        for after in range(1, 300):
            for i in range(5):
                with Interrupts(after):
                    memory.add({"x": (after + i) % same}, prediction(0.1), no_ticket)
                with Interrupts(after):
                    taken(memory, {"x": (after + i - 2) % same}, no_ticket)
    finally:
        sys.settrace(before)
    for i in range(5):
        memory.add({"y": i}, prediction(0.1), no_ticket)
    for i in range(1, 5):
        assert taken(memory, {"y": i}, no_ticket) is not None
    assert len(memory) == memory._room.n_names == 0


class InterruptionError(Exception):
    """Raised by a signal handler."""


RAISED = (TimeoutError, ValueError, TypeError, KeyError, RuntimeError, InterruptionError)


@pytest.mark.parametrize("error", RAISED)
def test_what_a_signal_handler_raises_reaches_the_caller(error: Any) -> None:
    """In whichever line it is raised, of every call that uses the memory."""
    before, n_raised = sys.gettrace(), 0
    samples = [{"a": i % 3, "b": (i % 2, "c")} for i in range(12)]
    model = CalibratedClassifier(Given())
    x = {"p": (0.2, 0.3, 0.5)}
    calls = [
        lambda i: model.predict_proba_one(x | samples[i % 12]),
        lambda i: model.predict_one(x | samples[i % 12]),
        lambda i: model.predict_one(x | unhashable(i % 2)),
        lambda i: model.learn_one(x | samples[(i - 3) % 12], "a"),
        lambda i: model.learn_group([x | samples[i % 12]] * 2, ["a", "b"]),
        lambda i: model.learn_one(x | unhashable(i % 3), "b"),
    ]
    try:
        for call, after in itertools.product(calls, range(1, 90)):
            interrupts = Interrupts(after, error)
            with warnings.catch_warnings(action="ignore"), interrupts:
                call(after)
            assert interrupts.raised == (interrupts.left == 0)
            n_raised += interrupts.raised
    finally:
        sys.settrace(before)
    assert n_raised > 100


def unhashable(i: int) -> dict[str, Any]:
    return {"x": 0.5, "embedding": np.array([i, 1.0])}


@pytest.mark.parametrize("copied", [False, True])
def test_a_late_label_of_features_without_a_hash_warns_once(copied: bool) -> None:
    model = CalibratedClassifier(Given())
    samples = [{"p": (0.2, 0.3, 0.5), "v": [i], "w": np.array([i, 1])} for i in range(9)]
    for x in samples:
        model.predict_proba_one(x)
    if copied:
        samples = copy.deepcopy(samples)
    with pytest.warns(RuntimeWarning, match="`serve_one`") as caught:
        model.learn_one(samples[0], "a")
    assert [warning.filename for warning in caught] == [__file__]
    for x in samples[1:]:  # an error if it warned again
        model.learn_one(x, "a")
    for x in samples:
        model.predict_proba_one(x)
        model.predict_proba_one(unhashable(1) | x)
    for x in samples:
        model.learn_one(x, "a")


def test_a_label_at_once_of_features_without_a_hash_does_not_warn() -> None:
    model, buffer = CalibratedClassifier(Claims()), np.zeros(2)
    for i in range(20):
        x = {"p": 0.5, "v": [i]}
        model.predict_one(x)
        model.predict_proba_one(x)
        model.learn_one(x, i % 2 == 0)
        buffer[:] = i  # read again and again
        model.predict_proba_one({"p": 0.2, "v": buffer})
        model.learn_one({"p": 0.2, "v": buffer}, True)
        for j in range(3):  # asked, never learned
            model.predict_proba_one({"p": 0.3, "v": [-1, i, j]})
        model.learn_one({"p": 0.3, "v": [-2, i]}, True)  # learned, never asked
        late = model.serve_one({"p": 0.7, "v": [-3]})
        model.predict_proba_one({"p": 0.3, "v": [-4]})
        model.learn_one({"p": 0.7, "v": [-3]}, False, served=late)


class Fails(linear_model.LogisticRegression):
    """Cannot learn the feature "fail"."""

    def learn_one(self, x: dict[str, Any], y: Any, w: float = 1.0) -> None:
        if "fail" in x:
            raise OSError
        super().learn_one(x, y, w)


A: Any = {"x": 1.0}
B: Any = {"x": 2.0}
FRAME = pd.DataFrame([A, B])
REFUSED: dict[str, Any] = {
    "label": lambda model: model.learn_one(A, "oops"),
    "no label": lambda model: model.learn_one(A, None),
    "weight": lambda model: model.learn_one(A, True, w=0.0),
    "served": lambda model: model.learn_one(A, True, served={True: math.nan}),
    "tickets": lambda model: model.learn_one(
        A, True, served=Served({True: 1.0}, {True: 1.0}, Ticket((10**9, (0.5,))))
    ),
    "model": lambda model: model.learn_one({"fail": 1.0}, True),
    "label in a group": lambda model: model.learn_group([A, B, A], [True, False, "oops"]),
    "weight of a group": lambda model: model.learn_group([A, B], [True, False], w=-1.0),
    "length of a group": lambda model: model.learn_group([A, B, A], [True]),
    "served in a group": lambda model: model.learn_group([A, B], [True] * 2, served=[None, 3]),
    "model in a group": lambda model: model.learn_group([A, {"fail": 1.0}, A], [True] * 3),
    "label in a frame": lambda model: model.learn_many(FRAME, pd.Series(["oops", True])),
    "weights of a frame": lambda model: model.learn_many(FRAME, pd.Series([True] * 2), [1.0, -1.0]),
    "length of a frame": lambda model: model.learn_many(FRAME, pd.Series([True] * 3)),
    "served of a frame": lambda model: model.learn_many(
        FRAME, pd.Series([True] * 2), served={True: [math.inf] * 2}
    ),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("predicted", [[A], [A, A, B], [B, {"fail": 1.0}, A, A, {"x": 3.0}]])
def test_a_refused_call_forgets_nothing(call: Any, predicted: Any) -> None:
    refused, other = (CalibratedClassifier(Fails(), sampling_rate=0.5) for _ in range(2))
    for model in (refused, other):
        for i in range(20):
            model.learn_one({"x": i / 20}, i % 3 == 0)
        for x in predicted:
            model.predict_proba_one(x)
    before = state(refused.calibrators[True])
    for _ in range(2):
        with pytest.raises((ValueError, TypeError, OSError)):
            call(refused)
        assert len(refused._memory) == len(predicted)
        assert state(refused.calibrators[True]) == before
    refused.classifier = copy.deepcopy(other.classifier)  # a group's first rows were learned
    for model in (refused, other):
        model.learn_group([A, B], [True, False])
        model.learn_one(A, True)
    assert len(refused._memory) == len(other._memory)
    assert state(refused.calibrators[True]) == state(other.calibrators[True])


def matches(n_matches: int, n_rows: int, seed: int) -> Iterator[tuple[list[float], bool]]:
    """Yield the forecasts of each match, and its outcome; most are equal to the one before.

    The state is a lead that rarely changes, and the forecast the share of wins of such leads.
    """
    rng = np.random.default_rng(seed)
    steps = rng.choice([-1, 0, 1], (n_matches, n_rows), p=(0.14, 0.72, 0.14))
    leads = steps.cumsum(axis=1)
    won = leads[:, -1] + 0.5 * rng.choice([-1, 1], n_matches) > 0.0
    of_lead = {lead: (won[:, None] & (leads == lead)).sum() for lead in np.unique(leads)}
    rate = {k: (n + 0.5) / ((leads == k).sum() + 1.0) for k, n in of_lead.items()}
    for row, outcome in zip(leads, won.tolist(), strict=True):
        yield [float(rate[lead]) for lead in row], outcome


@pytest.mark.parametrize("share_lost", [0.0, 0.1])
@pytest.mark.parametrize("order", ["first", "last", "random"])
def test_rows_that_repeat_and_get_their_labels_by_event(order: str, share_lost: float) -> None:
    """Minutes of a match are alike, and all labels come at its end: they are learned as served."""
    rng, hedge = np.random.default_rng(1), HedgedCalibrator()
    model, losses = CalibratedClassifier(Score()), {"model": 0.0, "tickets": 0.0}
    n = 0
    for forecasts, outcome in matches(150, 40, seed=3):
        kept = []
        for p in forecasts:
            answer, ticket = hedge.serve_one(p)
            kept.append((p, ticket))
            for name, q in (
                ("tickets", answer),
                ("model", model.predict_proba_one({"p": p})[True]),
            ):
                losses[name] -= math.log(q if outcome else 1.0 - q)
            n += 1
        if order == "random":
            kept = [kept[i] for i in rng.permutation(len(kept))]
        for p, ticket in kept[:: -1 if order == "last" else 1]:
            if rng.random() >= share_lost:
                hedge.learn_one(p, outcome, ticket=ticket)
                model.learn_one({"p": p}, outcome)
    assert abs(losses["model"] - losses["tickets"]) / n < 0.002


def nearest(waiting: PredictionMemory, places: list[int], now: int) -> tuple[int, list[int]]:
    """Look at each place: which a label belongs to, and which seem to be lost."""
    lost, expected = [], 0.0
    if waiting.delay is not None:
        expected = now - waiting.delay
        lost = [place for place in places if now - place > max(5.0 * waiting.delay, 100)]
    left = [place for place in places if place not in lost] or places[-1:]
    return min(left, key=lambda place: abs(place - expected)), lost


@given(st.randoms(use_true_random=False), st.sampled_from([1, 2, 20]))
def test_a_label_belongs_to_the_nearest_place(random: Any, n_kinds: int) -> None:
    memory = PredictionMemory(1_000)
    for _ in range(300):
        x = {"kind": random.randrange(n_kinds)}
        key = _features.key_of(x)
        places, now = memory._room.places(key), memory._room.last
        if not places or random.random() < 0.6:
            memory.add(x, prediction(0.5), no_ticket)
            memory.store_latest(no_ticket)
            continue
        place, lost = nearest(memory, places, now)
        found = memory.find(x)
        assert found is not None
        # Before the first label, the latest of several may be a repeated prediction.
        if memory.delay is not None or places[-1] != now:
            assert found.place == place
        do_all(*memory.take_steps([found]))
        left = [each for each in places if each != found.place and each not in lost]
        assert memory._room.places(key) == left


def test_a_label_of_many_equal_rows_is_not_searched_one_by_one() -> None:
    n_read = 0

    class Counted(list[int]):
        def __getitem__(self, at: Any) -> Any:
            nonlocal n_read
            found = list.__getitem__(self, at)
            n_read += len(found) if isinstance(at, slice) else 1
            return found

        def __iter__(self) -> Any:
            raise AssertionError("all are read")

    n = 4_096
    memory = PredictionMemory(2 * n)
    memory.delay = n / 2
    assert memory._choose(Counted(range(1, n + 1)), n) == n // 2
    assert n_read < 50
