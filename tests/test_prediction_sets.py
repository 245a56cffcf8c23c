"""Prediction sets: which labels they have, and that misses come at the rate that is asked for."""

import copy
import math
import pickle
from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, linear_model, naive_bayes, preprocessing, stats

from streamcal import CalibratedClassifier
from streamcal.decision import DecisionClassifier, PredictionSetClassifier, SelectiveClassifier
from tests import oracles_sets as oracle
from tests.contract import classifier_contract, river_checks, state

SCORES = ["lac", "aps"]
COVERAGES = [0.5, 0.75, 0.9, 0.99]


class Fixed(base.Classifier):
    """A classifier whose probabilities are the sample."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn nothing."""

    def predict_proba_one(self, x: Any) -> Any:
        return x


class Weather(Fixed):
    """Its feature is a list, which cannot be compared later: it may have changed."""

    def predict_proba_one(self, x: Any) -> Any:
        return {True: x["rain"][0], False: 1.0 - x["rain"][0]}


TestPredictionSets = classifier_contract(
    PredictionSetClassifier(CalibratedClassifier(naive_bayes.GaussianNB())),
    PredictionSetClassifier(CalibratedClassifier(naive_bayes.GaussianNB()), 0.6, score="aps"),
)


def softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def drifting(seed: int, n: int, k: int = 6) -> list[tuple[dict[int, float], int]]:
    """Probabilities that are right in the first third, too sure then, and at last too shy."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, 2.0, (n, k))
    y = (softmax(logits).cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    sharp = np.array([1.0, 2.5, 0.4])[np.minimum(np.arange(n) * 3 // n, 2)]
    claimed = softmax(logits * sharp[:, None])
    rows = zip(claimed.tolist(), y.tolist(), strict=True)
    return [(dict(enumerate(row)), label) for row, label in rows]


# Which labels -------------------------------------------------------------------------------------

# Multiples of 1/64 that sum to 1: sums of them are exact.
PROBABILITIES = st.lists(st.integers(0, 64), max_size=4).map(
    lambda cuts: dict(zip("abcde", (np.diff(sorted([0, *cuts, 64])) / 64.0).tolist(), strict=False))
)


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=60)
@given(data=st.data())
def test_sets_are_those_of_the_definition(score: Any, data: st.DataObject) -> None:
    coverage, step = data.draw(st.sampled_from(COVERAGES)), data.draw(st.sampled_from([0.01, 0.3]))
    model = PredictionSetClassifier(Fixed(), coverage, score=score, step=step)
    steps: list[oracle.Step] = []
    n_samples = data.draw(st.integers(0, 40))
    for _ in range(n_samples):
        x = data.draw(st.one_of(PROBABILITIES, st.just({})))
        root = oracle.root_after(steps, coverage, score, step)
        expected = oracle.set_of(x, score, root) if x else []
        assert model.threshold == max(root, 0.0) ** 2
        assert model.decide(x) == expected
        if data.draw(st.booleans()):
            assert model.predict_set_one(x) == expected
        y = data.draw(st.sampled_from("abcdef"))
        model.learn_one(x, y)
        steps.append((y not in expected, y in x))
    assert (model.n_samples, model.n_misses) == (n_samples, sum(missed for missed, _ in steps))


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=60)
@given(x=PROBABILITIES, coverages=st.lists(st.floats(0.01, 0.99), min_size=2, max_size=2))
def test_sets_grow_with_the_coverage_and_always_have_the_most_probable_label(
    score: Any, x: dict[str, float], coverages: list[float]
) -> None:
    small, large = (
        PredictionSetClassifier(Fixed(), c, score=score).predict_set_one(x)
        for c in sorted(coverages)
    )
    assert small == large[: len(small)]
    assert x[small[0]] == max(x.values())
    assert [x[label] for label in large] == sorted((x[label] for label in large), reverse=True)


@pytest.mark.parametrize("score", SCORES)
def test_thresholds_of_a_stream_are_in_order_of_the_coverage_to_within_a_step(score: Any) -> None:
    models = [PredictionSetClassifier(Fixed(), c, score=score, step=0.02) for c in COVERAGES]
    for x, y in drifting(0, 1_500):
        for model in models:
            model.learn_one(x, y)
        roots = [math.sqrt(model.threshold) for model in models]
        assert all(high <= low + 0.02 for low, high in pairwise(roots))


def test_aps_is_the_smallest_set_whose_mass_reaches_the_level() -> None:
    """The least probable label of the set is the one with which the mass reaches 1 - threshold."""
    model = PredictionSetClassifier(Fixed(), 0.9, score="aps")
    assert model.threshold == pytest.approx(0.1)
    assert model.predict_set_one({"a": 0.5, "b": 0.38, "c": 0.08, "d": 0.04}) == ["a", "b", "c"]
    assert model.predict_set_one({"a": 0.91, "b": 0.09}) == ["a"]
    assert PredictionSetClassifier(Fixed(), 0.9).predict_set_one({"a": 0.91, "b": 0.09}) == ["a"]
    assert PredictionSetClassifier(Fixed(), 0.9).predict_set_one({"a": 0.8, "b": 0.2}) == ["a", "b"]


# The promise --------------------------------------------------------------------------------------


def most_misses(n: int, coverage: float, step: float, first: bool = True) -> float:
    """Return the bound of the docstring, for no unknown label."""
    return (1.0 - coverage) * n + (math.sqrt(1.0 - coverage) if first else 1.0) / step + 1.0


@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=40)
@given(data=st.data())
def test_the_promise_holds_against_any_adversary(score: Any, data: st.DataObject) -> None:
    """It sees each set before it names the label; its labels may be late, or unknown."""
    coverage, step = data.draw(st.sampled_from(COVERAGES)), data.draw(st.sampled_from([0.05, 0.6]))
    model = PredictionSetClassifier(Fixed(), coverage, score=score, step=step)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    delay = data.draw(st.sampled_from([0, 0, 3, 20]))
    waiting: deque[Any] = deque()
    misses, unknown, high, most_waiting = [0], [0], [0], 0
    phases = st.tuples(
        st.sampled_from(["miss", "hit", "unknown", "random", "none"]), st.integers(1, 60)
    )
    for kind, length in data.draw(st.lists(phases, min_size=1, max_size=6)):
        for _ in range(length):
            x = dict(enumerate(softmax(rng.normal(0.0, rng.choice([0.0, 1.0, 5.0]), 4)).tolist()))
            if kind == "none":
                x = {}
            answer = model.predict_set_one(x)
            others = [label for label in x if label not in answer]
            y: Any = int(rng.integers(4))
            if kind == "miss" and others:
                y = others[-1]
            elif kind == "hit" and answer:
                y = answer[-1]
            elif kind in ("unknown", "none"):
                y = 9
            waiting.append((x, y, answer))
            most_waiting = max(most_waiting, len(waiting))
            if len(waiting) > delay:
                x, y, answer = waiting.popleft()
                model.learn_one(x, y, served=x, decided=answer)
                misses.append(misses[-1] + (y not in answer))
                unknown.append(unknown[-1] + (y not in x))
                top = math.sqrt(0.5) if score == "lac" else 1.0
                high.append(high[-1] + (math.sqrt(model.threshold) >= top - 1e-9))
    n = len(misses) - 1
    assert (model.n_samples, model.n_misses) == (n, misses[-1])
    for end in range(n + 1):
        late = max(most_waiting - 1, 0) + 1e-9
        above = misses[end] - unknown[end] - late
        assert above <= most_misses(end, coverage, step)
        for start in range(1, end, 7):
            above = misses[end] - misses[start] - (unknown[end] - unknown[start]) - late
            assert above <= most_misses(end - start, coverage, step, first=False)
        least = (1.0 - coverage) * (end - high[end]) - 1.0 / step - 1.0
        assert misses[end] >= least - 1e-9


def test_an_adversary_reaches_the_bound() -> None:
    """A model is sure, and wrong: every set is missed until sets have all labels."""
    model, x = PredictionSetClassifier(Fixed(), 0.9), {"a": 1.0, "b": 0.0}
    while model.predict_set_one(x) == ["a"]:
        model.learn_one(x, "b")
    assert model.n_misses == model.n_samples == 71
    assert 71.0 <= most_misses(71, 0.9, 0.005) < 71.5
    for _ in range(2_000):
        model.learn_one(x, "b")
    assert model.n_misses == pytest.approx(0.1 * 2_071, abs=65)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_each_part_of_a_drifting_stream_is_covered(score: Any, coverage: float) -> None:
    model = PredictionSetClassifier(Fixed(), coverage, score=score, step=0.01)
    hits, sizes = [], []
    for x, y in drifting(1, 6_000):
        answer = model.predict_set_one(x)
        hits.append(y in answer)
        sizes.append(len(answer))
        model.learn_one(x, y)
    parts = np.reshape(hits, (6, 1_000)).mean(axis=1)
    assert np.abs(parts - coverage).max() < 0.05
    assert abs(np.mean(hits) - coverage) < 0.01
    assert np.mean(sizes) < 4.5


def test_a_model_that_is_right_often_enough_has_sets_of_one_label() -> None:
    model = PredictionSetClassifier(Fixed(), 0.9)
    sizes = []
    for i in range(2_000):
        x = {"a": 0.7, "b": 0.3}
        sizes.append(len(model.predict_set_one(x)))
        model.learn_one(x, "b" if i % 25 == 0 else "a")
    assert sizes[0] == 2
    assert set(sizes[1_000:]) == {1}
    assert model.n_misses < 80


@pytest.mark.parametrize("decided", [None, ["a", "b", "c"]])
def test_labels_that_the_classifier_does_not_know_count_and_do_not_fill_later_sets(
    decided: Any,
) -> None:
    model = PredictionSetClassifier(Fixed(), 0.9)
    x = {"a": 0.96, "b": 0.03, "c": 0.01}
    for _ in range(300):
        model.learn_one(x, "z", decided=decided)
    assert (model.n_samples, model.n_misses, model.threshold) == (300, 300, 0.0)
    assert model.predict_set_one(x) == ["a", "b", "c"]
    for _ in range(500):
        model.learn_one(x, "a")
    assert model.predict_set_one(x) == ["a"]


def test_unknown_labels_are_made_up_for() -> None:
    """Of 20 labels one is unknown; the others are missed less often, so that one in ten is."""
    rng = np.random.default_rng(2)
    model = PredictionSetClassifier(Fixed(), 0.9)
    missed = stats.Mean()
    for i, (x, y) in enumerate(drifting(2, 6_000)):
        label = -1 if rng.uniform() < 0.05 else y
        if i >= 1_000:
            missed.update(label not in model.predict_set_one(x))
        model.learn_one(x, label)
    assert missed.get() == pytest.approx(0.1, abs=0.01)


# Late labels and the classifier inside ------------------------------------------------------------


def test_a_served_set_is_taken_at_its_word() -> None:
    model = PredictionSetClassifier(Fixed(), 0.9)
    x = {"a": 0.6, "b": 0.4}
    model.learn_one(x, "a", decided=["b"])
    assert model.n_misses == 1
    model.learn_one(x, "a", decided={"a", "b"})
    model.learn_one(x, "b", decided=("b",))
    assert model.n_misses == 1
    model.learn_one(x, "b", served={"a": 0.97, "b": 0.03})
    assert (model.n_samples, model.n_misses) == (4, 2)


@pytest.mark.parametrize("remember", [10_000, 0])
def test_a_late_label_counts_for_the_set_that_was_served(remember: int) -> None:
    model = PredictionSetClassifier(Fixed(), 0.9, step=0.1, remember=remember)
    samples = drifting(4, 400)
    sets = []
    for t, (x, _) in enumerate(samples):
        sets.append(model.predict_set_one(x))
        if t >= 30:
            model.learn_one(*samples[t - 30])
    missed = sum(y not in s for s, (_, y) in zip(sets[:-30], samples[:-30], strict=True))
    assert model.n_samples == 370
    assert (model.n_misses == missed) == (remember > 0)  # else the sets were predicted again
    assert len(model._memory) == (30 if remember else 0)


def test_predicting_changes_nothing_that_is_learned() -> None:
    model = PredictionSetClassifier(Fixed(), 0.9)
    before = model.to_bytes(), pickle.dumps(model)
    model.predict_set_one({"a": 0.6, "b": 0.4})
    assert (model.to_bytes(), pickle.dumps(model)) == before


@pytest.mark.parametrize("delay", [0, 40])
def test_a_calibrated_model_learns_late_labels_as_without_sets(delay: int) -> None:
    inner, alone = (CalibratedClassifier(naive_bayes.GaussianNB()) for _ in range(2))
    model, sets = PredictionSetClassifier(inner), []
    samples = list(datasets.ImageSegments().take(200))
    for t, (x, _) in enumerate(samples):
        sets.append(model.predict_set_one(x))
        alone.predict_proba_one(x)
        if t >= delay:
            model.learn_one(*samples[t - delay])
            alone.learn_one(*samples[t - delay])
    assert inner.to_bytes() == alone.to_bytes()
    assert len(inner._memory) == len(model._memory) == delay
    assert model.n_samples == 200 - delay
    missed = [y not in s for s, (_, y) in zip(sets, samples[: 200 - delay], strict=False)]
    assert model.n_misses == sum(missed)


def test_what_a_calibrated_model_served_is_passed_on_to_it() -> None:
    inner, alone = (CalibratedClassifier(Fixed()) for _ in range(2))
    model, samples = PredictionSetClassifier(inner), drifting(3, 100)
    served = [alone.serve_one(x) for x, _ in samples]
    for (x, y), late in zip(samples, served, strict=True):
        model.learn_one(x, y, served=late, decided=model.decide(late.calibrated))
        alone.learn_one(x, y, served=late)
    assert state(inner) == state(alone)


@pytest.mark.parametrize("wrap", [PredictionSetClassifier, DecisionClassifier])
def test_a_classifier_that_serves_something_else_is_asked_for_its_probabilities(wrap: Any) -> None:
    model = wrap(SelectiveClassifier(Fixed(), target=0.5))
    for _ in range(50):
        model.learn_one({False: 0.1, True: 0.9}, True)
    promise = model.classifier.promises[()]
    assert (promise.n_answers, promise.most_errors) == (50, 45.0)  # none that waits


@pytest.mark.parametrize("wrap", [PredictionSetClassifier, DecisionClassifier, SelectiveClassifier])
def test_a_calibrated_model_at_the_end_of_a_pipeline_does_not_remember_what_is_predicted_again(
    wrap: Any,
) -> None:
    inner, alone = (CalibratedClassifier(naive_bayes.GaussianNB()) for _ in range(2))
    model, scaler = wrap(preprocessing.StandardScaler() | inner), preprocessing.StandardScaler()
    pipeline = scaler | alone
    for x, y in datasets.Phishing().take(60):
        model.learn_one(x, y)
        pipeline.learn_one(x, y)
    assert inner.to_bytes() == alone.to_bytes()
    assert len(inner._memory) == 0


@pytest.mark.parametrize("inside", [PredictionSetClassifier, DecisionClassifier])
def test_a_calibrated_model_in_two_wrappers_learns_as_in_none(inside: Any) -> None:
    """Evaluation asks for probabilities, which the sets do not remember, but the model inside."""
    inner, alone = (CalibratedClassifier(linear_model.LogisticRegression()) for _ in range(2))
    model = PredictionSetClassifier(inside(inner))
    for x, y in datasets.Phishing().take(300):
        for each in (model, alone):
            each.predict_proba_one(x)
            each.learn_one(x, y)
    assert inner.to_bytes() == alone.to_bytes()
    assert len(inner._memory) == 0


def test_arguments_reach_the_classifier_that_takes_them() -> None:
    model = PredictionSetClassifier(linear_model.LogisticRegression())
    model.learn_one({"a": 1.0}, True, w=3.0)
    plain = linear_model.LogisticRegression()
    plain.learn_one({"a": 1.0}, True, w=3.0)
    assert model.predict_proba_one({"a": 1.0}) == plain.predict_proba_one({"a": 1.0})
    assert model.predict_one({"a": 1.0}) == plain.predict_one({"a": 1.0})
    PredictionSetClassifier(naive_bayes.GaussianNB()).learn_one({"a": 1.0}, True, w=3.0)


def test_a_late_label_whose_set_cannot_be_remembered_warns_once() -> None:
    model = PredictionSetClassifier(Weather())
    samples = [{"rain": [i / 10]} for i in range(4)]
    sets = [model.predict_set_one(x) for x in samples]
    model.learn_one(samples[0], True, decided=sets[0])
    with pytest.warns(RuntimeWarning, match="pass the set as `decided`") as caught:
        model.learn_one(samples[0], True)
    assert [warning.filename for warning in caught] == [__file__]
    for x in samples[1:]:  # an error if it warned again
        model.learn_one(x, True)


# Objects ------------------------------------------------------------------------------------------


def test_it_passes_the_checks_of_river() -> None:
    for params in PredictionSetClassifier._unit_test_params():
        model = PredictionSetClassifier(**params)
        for check in river_checks(model):
            check(model.clone())


def test_copies_know_all_and_clones_nothing() -> None:
    model = PredictionSetClassifier(
        preprocessing.StandardScaler() | naive_bayes.GaussianNB(), 0.8, score="aps", step=0.02
    )
    samples = list(datasets.ImageSegments().take(120))
    for x, y in samples:
        model.learn_one(x, y)
    restored = PredictionSetClassifier.from_bytes(
        model.to_bytes(), classifier=copy.deepcopy(model.classifier)
    )
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), restored):
        assert (again.n_samples, again.threshold) == (120, model.threshold)
        assert again.predict_set_one(x) == model.predict_set_one(x)
        again.learn_one(x, y)
        assert (again.n_samples, model.n_samples) == (121, 120)
    clone = model.clone()
    assert (clone.n_samples, clone.n_misses, clone.coverage, clone.score) == (0, 0, 0.8, "aps")
    assert clone.threshold == pytest.approx(0.2)


def test_before_a_label_is_known_the_set_is_empty() -> None:
    model = PredictionSetClassifier(naive_bayes.GaussianNB())
    assert model.predict_set_one({"a": 1.0}) == []
    model.learn_one({"a": 1.0}, "spam")
    assert (model.n_samples, model.n_misses) == (1, 1)
    assert model.predict_set_one({"a": 1.0}) == ["spam"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PredictionSetClassifier(3), "`classifier` must be a river classifier, got int"),
        (
            lambda: PredictionSetClassifier(linear_model.LinearRegression()),
            "`classifier` must be a river classifier",
        ),
        (
            lambda: PredictionSetClassifier(Fixed(), 1.0),
            r"`coverage` must lie in \(0, 1\), got 1.0",
        ),
        (lambda: PredictionSetClassifier(Fixed(), 90), r"`coverage` must lie in \(0, 1\), got 90"),
        (lambda: PredictionSetClassifier(Fixed(), "0.9"), "`coverage` must be a number, got '0.9'"),
        (
            lambda: PredictionSetClassifier(Fixed(), remember=-1),
            "`remember` must be an int of at least 0, got -1",
        ),
        (lambda: PredictionSetClassifier(Fixed(), step=0), r"`step` must lie in \(0, 1\], got 0"),
        (
            lambda: PredictionSetClassifier(Fixed(), score="APS"),
            "`score` must be one of 'lac', 'aps', got 'APS'; did you mean 'aps'?",
        ),
        (lambda: PredictionSetClassifier(Fixed()).decide([0.5]), "must return a dict from labels"),
        (lambda: PredictionSetClassifier(Fixed()).decide({"a": 1.5}), r"must lie in \[0, 1\]"),
        (
            lambda: PredictionSetClassifier(Fixed()).decide({"a": "0.5"}),
            r"`probabilities\['a'\]` must be a number, got '0.5'",
        ),
        (
            lambda: PredictionSetClassifier(Fixed()).predict_set_one({"a": math.nan}),
            r"must lie in \[0, 1\]",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "`y` must be a label, got None"),
        ({"y": ["a"]}, "`y` must be one label"),
        ({"decided": "a"}, "`decided` must be the labels of the set that was served, got 'a'"),
        ({"decided": bytearray(b"a")}, "`decided` must be the labels of the set that was served"),
        ({"decided": 3}, "`decided` must be the labels of the set that was served, got 3"),
        ({"decided": [None]}, "`decided` must be a label, got None"),
        ({"y": 1}, r"`y` must be a label as those predicted, \['a', 'b'\], got 1"),
        ({"decided": [True]}, r"`y` must be a label as those predicted, \[True\], got 'a'"),
        ({"served": {0: 0.8}}, r"`y` must be a label as those predicted, \[0\], got 'a'"),
        ({"served": 0.5}, "`served` must be a mapping"),
        ({"served": {"a": 0.8, "b": 0.8}}, "probabilities that sum to 1, got a sum of 1.6"),
        ({"served": {"a": 7.0}}, r"must lie in \[0, 1\]"),
        ({"x": {"a": 2.0}}, r"must lie in \[0, 1\]"),
    ],
)
def test_a_refused_sample_changes_nothing(arguments: Any, message: str) -> None:
    model = PredictionSetClassifier(Fixed())
    model.learn_one({"a": 0.6, "b": 0.4}, "b")
    before = pickle.dumps(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.learn_one(**{"x": {"a": 0.6, "b": 0.4}, "y": "a", **arguments})
    assert pickle.dumps(model) == before
