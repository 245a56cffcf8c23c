"""`SelectiveClassifier`: answers under a promise, against oracles, and what users do with it."""

import copy
import json
import math
import pickle
import random
from collections import deque
from itertools import product
from typing import Any

import numpy as np
import pytest
from river import base, compose, evaluate, linear_model, metrics, naive_bayes, preprocessing

from streamcal import CalibratedClassifier
from streamcal.calibration import AuditedCalibrator, IsotonicCalibrator
from streamcal.decision import DecisionClassifier, Promise, Selection, SelectiveClassifier
from streamcal.decision.promises import ErrorBudget, begin_tests, thresholds_for
from streamcal.kernels.threshold_tests import ThresholdTests
from streamcal.monitoring import AuditSampler
from streamcal.wrappers.served import Served
from tests import oracles_selective as oracles
from tests.contract import river_checks


class Given(base.Classifier):
    """A classifier whose probabilities are in the sample."""

    def __init__(self) -> None:
        self.learned: list[Any] = []
        self.broken = False

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Any, w: float = 1.0) -> None:
        if self.broken:
            raise RuntimeError("broken")
        self.learned.append((y, w))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        return {label: p for label, p in x.items() if label != "shop"}


class OfFeature(Given):
    """A classifier whose probability of True is a feature."""

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        return binary(x["p"])


def binary(p: float, **fields: Any) -> dict[Any, Any]:
    return {False: 1.0 - p, True: p, **fields}


# On any stream ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    share = rng.choice([0.05, 0.2, 0.01])
    budget, oracle = ErrorBudget(share), oracles.Budget(share)
    waiting: deque[Any] = deque()
    n_late = rng.choice([0, 0, 3, 20])
    for step in range(150):
        confidence = rng.choice([rng.uniform(0.4, 1.0), 1.0, 0.0, 1.0 - 10.0 ** -rng.uniform(1, 9)])
        answered = budget.answers(confidence)
        if step % 10 == 0:
            assert answered == oracle.answers(confidence)
            assert budget.allows_one == oracle.allows_one
        answered = answered or rng.random() < 0.3  # as an older state may have answered
        budget = budget.served(confidence, answered=answered)
        waiting.append((confidence, answered, oracle.serve(confidence, answered)))
        while len(waiting) > n_late:
            confidence, answered, sample = waiting.popleft()
            wrong = rng.random() < rng.choice([0.01, 0.5])
            budget = budget.learned(confidence, answered=answered, wrong=wrong, waited=True)
            oracle.learn(sample, wrong)
    place = oracle.place()
    if not oracle.allows_one or place == len(oracles.EDGES):
        assert budget.threshold == math.inf
    elif place == 0.0:
        assert budget.threshold == 0.0
    else:
        expected = 1.0 / (1.0 + math.exp(-(oracles.EDGES[0] + 0.25 * place)))
        assert budget.threshold == pytest.approx(expected, rel=1e-9)
    assert budget.n_errors == oracle.n_errors
    assert (budget.n_waiting, budget.most_waiting) == (len(oracle.waiting), oracle.most_waiting)


def test_what_waits_is_counted_exactly() -> None:
    budget = ErrorBudget(0.1)
    confidences = [0.0, 0.1, 0.2, 0.3, 0.7]
    for confidence in confidences:
        budget = budget.served(confidence, answered=True)
    for confidence in reversed(confidences):
        budget = budget.learned(confidence, answered=True, wrong=False, waited=True)
        assert budget.expected_waiting <= budget.n_waiting
        ErrorBudget.thaw(0.1, *budget.freeze())
    # One that is learned at once is one more beside those that wait.
    budget = ErrorBudget(0.1).served(0.9, answered=True)
    budget = budget.learned(0.9, answered=True, wrong=True, waited=False)
    assert (budget.n_waiting, budget.most_waiting) == (1, 1)


def test_an_answer_of_another_state_is_a_fair_bet() -> None:
    tests = begin_tests(0.2, 0.2, 0.02)
    tests.learn(None, 0.9, True, True, 0.02)
    assert np.isfinite(tests.state()[1]).all()


def error_rules(rng: random.Random) -> list[Any]:
    """Return ways to choose which answers are wrong, also such that know the answer."""
    return [
        lambda i, c, answered: True,
        lambda i, c, answered: answered,
        lambda i, c, answered: answered and rng.random() < 0.06,
        lambda i, c, answered: i > 800,
        lambda i, c, answered: i % 400 < 60,
        lambda i, c, answered: rng.random() < 1.0 - c,
        lambda i, c, answered: rng.random() < c - 0.5,
        lambda i, c, answered: rng.random() < 0.3,
    ]


@pytest.mark.parametrize(("rule", "late"), list(product(range(8), [0, 1, 40])))
@pytest.mark.parametrize("target", [0.95, 0.6, 0.999])
def test_errors_never_exceed_the_promise(rule: int, late: int, target: float) -> None:
    rng = random.Random(rule)
    is_wrong = error_rules(rng)[rule]
    model = SelectiveClassifier(Given(), target=target)
    waiting: deque[Any] = deque()
    n = n_errors = most_waiting = 0
    for i in range(1_500):
        confidence = 1.0 - 0.5 * rng.random() ** 2
        x = binary(confidence)
        n_waiting = sum(served.answer is not None for _, _, served in waiting)
        selection = model.serve_one(x)
        answered = selection.answer is not None
        wrong = is_wrong(i, confidence, answered)
        if answered:
            n, n_errors, most_waiting = n + 1, n_errors + wrong, max(most_waiting, n_waiting)
        assert n_errors <= (1.0 - target) * n + 20.0 + most_waiting + 1e-9
        promise = model.promises[()]
        assert promise.most_errors == pytest.approx((1.0 - target) * n + 20.0 + most_waiting)
        waiting.append((x, not wrong, selection))
        while len(waiting) > late:
            x, y, served = waiting.popleft()
            model.learn_one(x, y, served=served)
    while waiting:
        x, y, served = waiting.popleft()
        model.learn_one(x, y, served=served)
    promise = model.promises[()]
    assert (promise.n_answers, promise.n_errors) == (n, n_errors)


def test_calibrated_confidences_are_answered_where_they_should() -> None:
    rng = np.random.default_rng(1)
    p = rng.beta(0.7, 0.5, 12_000)
    y = rng.uniform(size=len(p)) < p
    model = SelectiveClassifier(Given(), target=0.9)
    right: list[bool] = []
    for probability, label in zip(p.tolist(), y.tolist(), strict=True):
        answer = model.predict_one(binary(probability))
        if answer is not None:
            right.append(answer == label)
        model.learn_one(binary(probability), label)
    assert np.mean(right) == pytest.approx(0.9, abs=0.01)
    # The best fixed threshold in hindsight.
    certainty, is_right = np.maximum(p, 1.0 - p), (p >= 0.5) == y
    rates = np.cumsum(is_right[np.argsort(-certainty)]) / np.arange(1, len(p) + 1)
    assert len(right) >= 0.9 * (np.flatnonzero(rates >= 0.9)[-1] + 1)


def test_confidences_that_are_too_high_are_corrected() -> None:
    rng = np.random.default_rng(2)
    model, right = SelectiveClassifier(Given(), target=0.9), []
    for confidence in rng.uniform(0.5, 1.0, 8_000).tolist():
        y = bool(rng.uniform() < confidence**3)
        if model.predict_one(binary(confidence)):
            right.append(y)
        model.learn_one(binary(confidence), y)
    assert len(right) > 900  # of about 1,090 from the best threshold, 0.932
    assert np.mean(right) >= 0.9 - 20.0 / len(right)
    assert model.promises[()].threshold > 0.9


# With a probability -------------------------------------------------------------------------------


def small_tests(share: float, chance: float, floor: float, *limits: int) -> ThresholdTests:
    """Return tests with other limits of what waits."""
    _, parameters, *_ = begin_tests(share, chance, floor).__reduce__()
    return ThresholdTests(*parameters[: len(parameters) - len(limits)], *limits)


def through_state(tests: ThresholdTests) -> ThresholdTests:
    """Return tests as a state keeps them."""
    kind, parameters, state = tests.__reduce__()
    restored: ThresholdTests = kind(*parameters)
    restored.restore(*state)
    return restored


@pytest.mark.parametrize("floor", [1.0, 0.1])
@pytest.mark.parametrize("seed", range(12))
def test_thresholds_are_those_of_the_definition(seed: int, floor: float) -> None:
    """In random programs: labels at once, late, in any order, lost, twice, and of later states."""
    rng = random.Random(seed)
    share, chance = rng.choice([0.3, 0.4, 0.05]), rng.choice([0.5, 0.05])
    limits = rng.choice([(10_000, 1_000_000), (5, 1_000), (30, 10), (0, 3)])
    tests = small_tests(share, chance, floor, *limits)
    oracle = oracles.Tests(share, chance, floor, *limits)
    is_late = rng.choice([False, True, True])
    lost, wrong_at = rng.choice([0.0, 0.02]), rng.choice([0.02, 0.2])
    waiting: list[tuple[Any, ...]] = []
    for _ in range(600):
        confidence = rng.choice([rng.uniform(0.0, 1.0), 1.0, 1.0 - share])
        answered = confidence >= tests.threshold
        wrong = rng.random() < wrong_at
        place = None
        if is_late and rng.random() < 0.9:
            place = tests.serve(confidence, answered)
            assert place == oracle.serve(confidence, answered)
            if rng.random() < 0.01:
                place = tests.n_places + 3
        propensity = rng.uniform(floor, 1.0) if answered else 1.0
        if is_late and answered and place is None and rng.random() < 0.5:
            place = tests.ask(confidence, propensity)
            assert place == oracle.ask(confidence, propensity)
        if rng.random() >= lost:
            waiting.append((place, confidence, answered, wrong, propensity))
        n_left = rng.choice([0, 3, 40]) if is_late else 0
        while len(waiting) > n_left:
            label = waiting.pop(rng.choice([0, rng.randrange(len(waiting))]))
            for _ in range(1 + (rng.random() < 0.02)):
                tests.learn(*label)
                oracle.learn(*label)
        assert tests.threshold == pytest.approx(oracle.threshold)
        assert (tests.n_settled, tests.n_places) == (oracle.n_settled, len(oracle.places))
        if rng.random() < 0.05:
            tests = through_state(tests)


def test_labels_that_wait_stay_few() -> None:
    """A label that is lost holds up 10,000 others, and counts as wrong."""
    tests = begin_tests(0.2, 0.1, 1.0)
    lost = tests.serve(0.9, False)
    for _ in range(10_000):
        tests.learn(tests.serve(0.9, False), 0.9, False, False, 1.0)
    assert tests.n_ahead == 10_000
    assert (tests.n_settled, tests.threshold) == (0, math.inf)
    tests.learn(tests.serve(0.9, False), 0.9, False, False, 1.0)
    assert tests.n_ahead == 0
    assert tests.n_settled == tests.n_places == 10_002
    assert tests.threshold < 0.9
    before = pickle.dumps(tests)
    tests.learn(lost, 0.9, False, True, 1.0)  # it is settled already
    assert pickle.dumps(tests) == before


def test_a_lost_label_counts_as_wrong() -> None:
    lost, wrong = small_tests(0.2, 0.1, 0.5, 3, 100), small_tests(0.2, 0.1, 0.5, 3, 100)
    for tests in (lost, wrong):
        places = [tests.serve(0.9, False) for _ in range(5)]
        if tests is wrong:
            tests.learn(places[0], 0.9, False, True, 1.0)
        for place in places[1:]:
            tests.learn(place, 0.9, False, False, 1.0)
    assert pickle.dumps(lost) == pickle.dumps(wrong)


@pytest.mark.parametrize("floor", [1.0, 0.2])
def test_the_order_of_labels_changes_nothing(floor: float) -> None:
    """What was served is settled in that order, whenever labels come."""
    rng = random.Random(5)
    samples = [(rng.uniform(0.5, 1.0), rng.random() < 0.3, rng.random() < 0.05) for _ in range(300)]
    states = []
    for _ in range(3):
        tests, labels = begin_tests(0.2, 0.1, floor), []
        for confidence, answered, wrong in samples:
            place = tests.serve(confidence, answered)
            if place is None:
                place = tests.ask(confidence, floor)
            labels.append((place, confidence, answered, wrong, floor if answered else 1.0))
        rng.shuffle(labels)
        for label in labels:
            tests.learn(*label)
        states.append(pickle.dumps(tests))
    assert len(set(states)) == 1


@pytest.mark.parametrize("floor", [1.0, 0.02])
def test_bets_are_fair(floor: float) -> None:
    """Where exactly the share of errors is allowed, the mean wealth stays the same."""
    share = 0.05
    for used in (False, True):
        for propensity in {1.0, floor} if used else {1.0}:
            after = []
            for wrong in (False, True):
                tests = begin_tests(share, 0.05, floor)
                numbers, wealth, *waiting = tests.state()
                wealth[:, -1] = 99.0 if used else 0.0
                tests.restore(numbers, wealth, *waiting)
                tests.learn(None, 1.0, used, wrong, propensity)
                after.append(np.exp(tests.state()[1][:, :-1]))
            if_asked = (1.0 - share) * after[0] + share * after[1]
            mean = propensity * if_asked + (1.0 - propensity) * 1.0
            assert np.allclose(mean, 1.0)
            assert (after[1] > 0.0).all()


@pytest.mark.parametrize("floor", [None, 0.2])
def test_thresholds_in_use_have_few_errors(floor: float | None) -> None:
    """At confidences of 0.8 and more 21 % are wrong, one too many; it may be in use in 20 %."""
    rng, n_broken = np.random.default_rng(3), 0
    for _ in range(200):
        tests = begin_tests(0.2, 0.2, floor or 1.0)
        for confidence in rng.uniform(0.6, 1.0, 400).tolist():
            answered = confidence >= tests.threshold
            asked = not answered or floor is None or rng.uniform() < floor
            if asked:
                wrong = bool(rng.uniform() < (0.21 if confidence >= 0.8 else 0.3))
                propensity = (floor or 1.0) if answered else 1.0
                tests.learn(None, confidence, answered, wrong, propensity)
            if tests.threshold < 2.0:
                break
        n_broken += tests.threshold <= 1.0
    assert 0 < n_broken <= 40


def test_labels_of_a_good_classifier_open_the_thresholds() -> None:
    rng = np.random.default_rng(4)
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9, floor=0.1)
    sampler = AuditSampler(0.1, secret="tests", floor=0.1)
    answers = []
    for i, p in enumerate(rng.beta(0.3, 0.3, 6_000).tolist()):
        x, y = binary(p), bool(rng.uniform() < p)
        answer = model.predict_one(x)
        if answer is None:
            model.learn_one(x, y)
            continue
        answers.append((i, answer == y))
        audit = sampler.audit_one(i, p)
        if audit.ask:
            model.learn_one(x, y, propensity=audit.propensity)
    late = [right for i, right in answers if i >= 3_000]
    assert len(late) > 1_000
    assert np.mean(late) >= 0.8
    promise = model.promises[()]
    assert promise.most_errors is None
    assert 0 < promise.n_answers < len(answers)  # those of audits


def test_without_labels_of_answers_nothing_is_promised() -> None:
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9, floor=0.5)
    for _ in range(100):
        model.learn_one(binary(0.99), True)
        if model.predict_one(binary(0.99)) is not None:
            break
    selections = [model.serve_one(binary(0.99)) for _ in range(1_100)]
    n_answers = sum(selection.answer is not None for selection in selections)
    assert n_answers == 1_000 + 20 / 0.5
    assert model.promises[()].threshold == math.inf
    model.learn_one(binary(0.99), True, served=selections[0], propensity=0.5)
    assert model.serve_one(binary(0.99)).answer is True


@pytest.mark.parametrize("floor", [None, 0.1])
def test_late_wrong_labels_break_no_promise(floor: float | None) -> None:
    """Answers seem to be right for a while, but those of 0.6 are wrong too often."""
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9, floor=floor)
    rng, late, thresholds = np.random.default_rng(12), deque[Any](), []
    for _ in range(3_000):
        p = float(rng.choice([0.6, 0.95]))
        x, y = binary(p), bool(rng.uniform() < p)
        selection = model.serve_one(x)
        given = {} if floor is None or selection.answer is None else {"propensity": 0.5}
        if given and rng.uniform() < 0.5:
            continue
        if given:
            selection = model.ask_one(x, selection, **given)
        selection = Selection.from_dict(json.loads(json.dumps(selection.to_dict())))
        if y:
            model.learn_one(x, y, served=selection, **given)
        else:
            late.append((x, y, selection, given))
        if len(late) > 300:
            x, y, selection, given = late.popleft()
            model.learn_one(x, y, served=selection, **given)
        thresholds.append(model.promises[()].threshold)
    assert 0.6 < min(thresholds) <= 0.95


def test_an_answer_that_is_asked_for_takes_a_place() -> None:
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9, floor=0.1)
    for _ in range(200):
        model.learn_one(binary(0.99), True, propensity=1.0)
    selection = model.serve_one(binary(0.99))
    assert (selection.answer, selection.place) == (True, None)
    asked = model.ask_one(binary(0.99), selection, propensity=0.5)
    assert (asked.answer, asked.place) == (True, 200)
    before = model.to_bytes()
    assert model.ask_one(binary(0.99), asked, propensity=0.5) is asked
    for bad, error in [(None, ValueError), (0.05, ValueError), ("1", TypeError)]:
        with pytest.raises(error, match="`propensity` must"):
            model.ask_one(binary(0.99), selection, propensity=bad)
    with pytest.raises(TypeError, match="`selection` must be"):
        model.ask_one(binary(0.99), True, propensity=0.5)
    restored = SelectiveClassifier.from_bytes(before, classifier=Given())
    assert restored.ask_one(binary(0.99), selection, propensity=0.5).place == 201
    no_audits = SelectiveClassifier(Given(), target=0.8)
    assert no_audits.ask_one(binary(0.99), selection) is selection


def test_selections_are_learned_once_and_after_a_restart() -> None:
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9)
    first, second = (model.serve_one(binary(0.99)) for _ in range(2))
    assert (first.place, second.place) == (0, 1)
    model.learn_one(binary(0.99), True, served=second)
    restored = SelectiveClassifier.from_bytes(model.to_bytes(), classifier=Given())
    copies = [model, restored, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for each in copies:
        each.learn_one(binary(0.99), True, served=first)
        each.learn_one(binary(0.99), False, served=first)  # only the first promise counts it
        assert each.serve_one(binary(0.99)).place == 2
    states = {each.to_bytes() for each in copies}
    assert len(states) == 1
    older = Selection.from_dict({k: v for k, v in first.to_dict().items() if k != "place"})
    assert older.place is None
    with pytest.raises(ValueError, match=r"`served\.place` must be"):
        model.learn_one(binary(0.99), True, served=Selection(None, first.served, -1))


def test_an_older_state_learns_what_a_later_one_answered() -> None:
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9, floor=0.02)
    older = SelectiveClassifier.from_bytes(model.to_bytes(), classifier=Given())
    while model.predict_one(binary(0.99)) is None:
        model.learn_one(binary(0.99), True)
    selection = model.serve_one(binary(0.99))
    older.learn_one(binary(0.99), False, served=selection, propensity=0.02)
    for _ in range(500):
        older.learn_one(binary(0.99), True, propensity=1.0)
    assert older.predict_one(binary(0.99)) is True
    again = SelectiveClassifier.from_bytes(older.to_bytes(), classifier=Given())
    assert again.promises == older.promises


def test_a_state_of_another_machine_may_have_other_last_bits() -> None:
    tests = begin_tests(0.2, 0.1, 1.0)
    for _ in range(30):
        tests.learn(None, 0.9, False, False, 1.0)
    numbers, wealth, *waiting = tests.state()
    wealth[:, -1] = np.nextafter(wealth[:, -1], 0.0)
    other = begin_tests(0.2, 0.1, 1.0)
    other.restore(numbers, wealth, *waiting)
    assert other.threshold == tests.threshold
    wealth[:, -1] *= 0.9
    with pytest.raises(ValueError, match="wealth"):
        other.restore(numbers, wealth, *waiting)
    assert other.threshold == tests.threshold


def test_with_all_labels_both_promises_hold() -> None:
    model = SelectiveClassifier(Given(), target=0.8, confidence=0.9)
    for i in range(3_000):
        answered = model.predict_one(binary(0.99)) is not None
        model.learn_one(binary(0.99), i < 100 or not answered)
    promise = model.promises[()]
    assert promise.most_errors is not None
    assert promise.n_answers > 50
    assert promise.n_errors <= promise.most_errors
    assert promise.threshold == math.inf


# As users do --------------------------------------------------------------------------------------


def test_precision_answers_the_positive_label_only() -> None:
    rng = np.random.default_rng(6)
    model, right = SelectiveClassifier(Given(), "precision", 0.9, pos_val="spam"), []
    for p in rng.uniform(size=6_000).tolist():
        x, y = {"spam": p, "ham": 1.0 - p}, "spam" if rng.uniform() < p else "ham"
        answer = model.predict_one(x)
        assert answer in (None, "spam")
        if answer is not None:
            right.append(answer == y)
        model.learn_one(x, y)
    assert len(right) > 600
    assert np.mean(right) >= 0.9 - 20.0 / len(right)
    with pytest.raises(ValueError, match="pos_val"):
        model.learn_one({"spam": 0.5, "ham": 0.5}, 1)


def test_several_labels() -> None:
    rng = np.random.default_rng(7)
    model, right = SelectiveClassifier(Given(), target=0.8), []
    for shares in rng.dirichlet([0.4, 0.4, 0.4], 4_000).tolist():
        x = dict(zip("abc", shares, strict=True))
        y = rng.choice(list("abc"), p=shares)
        answer = model.predict_one(x)
        if answer is not None:
            assert shares["abc".index(answer)] == max(shares)
            right.append(answer == y)
        model.learn_one(x, str(y))
    assert len(right) > 1_000
    assert np.mean(right) == pytest.approx(0.8, abs=0.02)
    model.learn_one(dict.fromkeys("abc", 1 / 3), "another")  # is no answer's label


def test_segments_have_promises_of_their_own() -> None:
    rng = np.random.default_rng(8)
    model = SelectiveClassifier(Given(), target=0.9, segments=["shop"])
    for i, confidence in enumerate(rng.uniform(0.5, 1.0, 4_000).tolist()):
        shop = ("good", "bad", None)[i % 3]
        error = 0.05 if shop == "good" else 0.4
        model.learn_one(binary(confidence, shop=shop), bool(rng.uniform() >= error))
    promises = model.promises
    assert set(promises) == {("good",), ("bad",), (None,)}
    assert promises["good",].n_answers > 1_000 > 500 > promises["bad",].n_answers
    for promise in promises.values():
        assert promise.most_errors is not None
        assert promise.n_errors <= promise.most_errors
    sample = binary(0.99)
    assert model.predict_one({**sample, "shop": "good"}) is True
    before = model.to_bytes()
    with pytest.raises(TypeError, match="'shop'"):
        model.learn_one(binary(0.9, shop=["x"]), True)
    for bad in (10**5_000, "\ud83d\ude00"):  # a state could not hold them
        with pytest.raises(ValueError, match="`shop` must have"):
            model.learn_one(binary(0.9, shop=bad), True)
    assert model.to_bytes() == before


def test_segments_beyond_the_limit_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamcal.decision.selective._MOST_SEGMENTS", 2)
    model = SelectiveClassifier(Given(), target=0.5, segments=["shop"])
    for shop in ("a", "b", "c"):
        for _ in range(30):
            model.learn_one(binary(0.99, shop=shop), True)
    assert len(model.promises) == 2
    assert model.predict_one(binary(0.99, shop="a")) is True
    assert model.predict_one(binary(0.99, shop="c")) is None
    assert model.serve_one(binary(0.99, shop="c")).answer is None


def test_a_classifier_without_labels_has_no_answer() -> None:
    model = SelectiveClassifier(naive_bayes.GaussianNB(), target=0.5)
    assert model.predict_one({"a": 1.0}) is None
    assert model.serve_one({"a": 1.0}).answer is None
    for _ in range(5):
        model.learn_one({"a": 1.0}, True)
        assert model.predict_one({"a": 1.0}) is None
    assert model.promises == {}


def test_river_leaves_what_is_asked_for_out() -> None:
    rng = np.random.default_rng(9)
    stream = [(binary(p), bool(rng.uniform() < p)) for p in rng.uniform(size=3_000).tolist()]
    model = SelectiveClassifier(Given(), target=0.9)
    metric = metrics.Accuracy()
    evaluate.progressive_val_score(stream, model, metric)
    promise = model.promises[()]
    assert metric.cm.n_samples == promise.n_answers
    assert metric.get() == pytest.approx(1.0 - promise.n_errors / promise.n_answers)


def test_late_labels_count_what_was_answered() -> None:
    model = SelectiveClassifier(CalibratedClassifier(linear_model.LogisticRegression()))
    for i in range(400):
        model.learn_one({"a": i % 2 - 0.5}, i % 2 == 1)
    selections = [model.serve_one({"a": i % 2 - 0.5}) for i in range(10)]
    assert all(isinstance(selection.served, Served) for selection in selections)
    n_before = model.promises[()].n_answers
    for i, selection in enumerate(selections):
        kept = json.loads(json.dumps(selection.to_dict()))
        selection = Selection.from_dict(kept)
        assert selection.answer is (i % 2 == 1)
        model.learn_one({"a": i % 2 - 0.5}, i % 4 == 1, served=selection)
    promise = model.promises[()]
    assert promise.n_answers == n_before + 10
    assert promise.n_errors == 2


@pytest.mark.parametrize(
    "wrap", [lambda model: compose.Select("p") | model, lambda model: DecisionClassifier(model)]
)
def test_calibrators_do_not_learn_from_their_own_answers(wrap: Any) -> None:
    rng = np.random.default_rng(11)
    model = SelectiveClassifier(wrap(CalibratedClassifier(OfFeature(), IsotonicCalibrator())))
    for p in rng.uniform(size=3_000).tolist():
        selection = model.serve_one({"p": p})
        model.learn_one({"p": p}, bool(rng.uniform() < p**3), served=selection)
    assert model.predict_proba_one({"p": 0.9})[True] == pytest.approx(0.73, abs=0.1)


def test_weights_and_other_arguments_reach_the_classifier() -> None:
    model = SelectiveClassifier(Given())
    model.learn_one(binary(0.9), True, w=3.0)
    assert model.classifier.learned == [(True, 3.0)]


MODELS = [
    SelectiveClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression()),
    SelectiveClassifier(CalibratedClassifier(naive_bayes.GaussianNB()), target=0.6, confidence=0.6),
]


@pytest.mark.parametrize(
    ("model", "check"), [(model, check) for model in MODELS for check in river_checks(model)]
)
def test_it_passes_the_checks_of_river(model: SelectiveClassifier, check: Any) -> None:
    check(model.clone())


def test_audited_calibrators_get_propensities() -> None:
    inner = CalibratedClassifier(linear_model.LogisticRegression(), AuditedCalibrator())
    model = SelectiveClassifier(inner, confidence=0.9, floor=0.1, target=0.6)
    for i in range(300):
        x = {"a": i % 2 - 0.5}
        given = {} if model.predict_one(x) is None else {"propensity": 0.5}
        model.learn_one(x, i % 2 == 1, **given)
    assert model.promises[()].n_answers > 0


def test_nothing_changes_if_the_classifier_fails() -> None:
    model = SelectiveClassifier(Given(), confidence=0.9)
    for _ in range(10):
        model.learn_one(binary(0.9), True)
    before = model.to_bytes()
    model.classifier.broken = True
    with pytest.raises(RuntimeError, match="broken"):
        model.learn_one(binary(0.9), True)
    assert model.to_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "recall"}, "`metric` must be"),
        ({"target": 1.0}, "`target` must lie in"),
        ({"target": 95}, "`target` must lie in .* divide percentages by 100"),
        ({"target": float("nan")}, "`target` must"),
        ({"confidence": 1.0}, "`confidence` must lie in"),
        ({"floor": 0.1}, "`confidence` must be given"),
        ({"floor": 0.0, "confidence": 0.9}, "`floor` must lie in"),
        ({"segments": "shop"}, "`segments` must be"),
        ({"segments": ()}, "`segments` must be"),
        ({"pos_val": None}, "`pos_val` must be"),
    ],
)
def test_bad_parameters(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        SelectiveClassifier(Given(), **arguments)


def test_another_one_inside_is_refused() -> None:
    with pytest.raises(TypeError, match="must not be a SelectiveClassifier"):
        SelectiveClassifier(preprocessing.StandardScaler() | SelectiveClassifier(Given()))


def test_bad_samples_change_nothing() -> None:
    plain = SelectiveClassifier(Given())
    audited = SelectiveClassifier(Given(), target=0.6, confidence=0.6, floor=0.1)
    for model in (plain, audited):
        for _ in range(30):
            model.learn_one(binary(0.99), True, propensity=None if model is plain else 1.0)
    assert audited.predict_one(binary(0.99)) is True
    before = [model.to_bytes() for model in (plain, audited)]
    for y in (None, float("nan"), [True], "yes", 2):
        with pytest.raises((TypeError, ValueError), match="`y` must be"):
            plain.learn_one(binary(0.9), y)
    with pytest.raises(TypeError, match="`served` must be"):
        plain.learn_one(binary(0.9), True, served={True: 0.9})
    for model in (plain, audited):
        for p in (float("nan"), 2.0):
            with pytest.raises(ValueError, match="must lie in"):
                model.predict_one(binary(p))
    with pytest.raises(ValueError, match="must lie in"):
        plain.learn_one(binary(float("nan")), True)
    for p in (float("nan"), 2.0):
        with pytest.raises(ValueError, match="must lie in"):
            plain.learn_one(binary(0.9), True, served=Selection(True, Served(binary(p), binary(p))))
    other = Selection(False, Served(binary(0.9), binary(0.9)))
    with pytest.raises(ValueError, match="must have an answer that this model gives"):
        plain.learn_one(binary(0.9), False, served=other)
    with pytest.raises(ValueError, match="`w` must"):
        plain.learn_one(binary(0.9), True, w=-1.0)
    with pytest.raises(ValueError, match="`propensity` must be None"):
        plain.learn_one(binary(0.9), True, propensity=0.5)
    with pytest.raises(ValueError, match="`propensity` must be given"):
        audited.learn_one(binary(0.99), True)
    for bad in (0.05, 0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="`propensity` must"):
            audited.learn_one(binary(0.99), True, propensity=bad)
    asked = Selection(None, Served(binary(0.51), binary(0.51)))
    with pytest.raises(ValueError, match="`propensity` must be 1 or None"):
        audited.learn_one(binary(0.51), True, served=asked, propensity=0.5)
    assert [model.to_bytes() for model in (plain, audited)] == before


@pytest.mark.parametrize(
    "kept",
    [
        {"answer": None},
        {"answer": 2, "served": None},
        {"answer": 0.5, "served": None},
        {"answer": True, "served": None},
        {"answer": 1, "served": None, "place": -1},
        {"answer": 1, "served": None, "place": 0.5},
        {"answer": 1, "served": None, "another": 1},
    ],
)
def test_bad_selections(kept: dict[str, Any]) -> None:
    good = Selection(True, Served({False: 0.1, True: 0.9}, {False: 0.1, True: 0.9})).to_dict()
    if "served" in kept:
        kept = {**kept, "served": good["served"]}
    with pytest.raises(ValueError, match="`kept` must be what `to_dict` returned"):
        Selection.from_dict(kept)
    with pytest.raises(TypeError, match="`kept` must be"):
        Selection.from_dict([1])


def test_states_pickles_and_copies_go_on_alike() -> None:
    model = SelectiveClassifier(Given(), target=0.7, confidence=0.8, segments=["shop"])
    rng = np.random.default_rng(10)
    samples = [
        (binary(p, shop=i % 2), bool(rng.uniform() < p)) for i, p in enumerate(rng.random(600))
    ]
    for x, y in samples[:300]:
        model.learn_one(x, y)
    selection = model.serve_one(samples[0][0])
    restored = SelectiveClassifier.from_bytes(model.to_bytes(), classifier=Given())
    others = [restored, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    for each in (model, *others):
        each.learn_one(*samples[0], served=selection)
        for x, y in samples[300:]:
            each.learn_one(x, y)
    assert all(each.promises == model.promises for each in others)
    assert restored.to_bytes() == model.to_bytes()
    assert model.clone().promises == {}
    assert isinstance(model.promises[0,], Promise)


def test_thresholds_go_from_the_strictest_to_all() -> None:
    for share in (0.001, 0.05, 0.3, 0.5, 0.9, 0.999):
        thresholds = thresholds_for(share)
        assert (np.diff(thresholds) <= 0.0).all()
        assert thresholds[15] == 1.0 - share
        assert thresholds[-1] == 0.0
        assert thresholds[-2] > 0.0
