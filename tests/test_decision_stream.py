"""Decisions on streams: carried counts, joint decisions, thresholds from the past."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, datasets, drift, linear_model, metrics, naive_bayes, preprocessing

from streamcal import CalibratedClassifier
from streamcal.decision import (
    SEC,
    DecisionClassifier,
    EUMThreshold,
    FractionalLinear,
    Metric,
    MicroBatcher,
    claim_gap,
    evaluate,
    expected_utility,
    get_metric,
    maximize,
)
from tests import named
from tests import oracles_decision as oracle
from tests.contract import river_checks, state


class Oracle(base.Classifier):
    """A classifier that reads the probability of True from the features."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn nothing."""

    def predict_proba_one(self, x: Any) -> dict[Any, Any]:
        return {False: 1.0 - x["p"], True: x["p"]}


def rare_stream(seed: int, n: int = 200) -> list[Any]:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.3, 5.7, n)
    y = rng.random(n) < p
    return [({"p": a}, b) for a, b in zip(p.tolist(), y.tolist(), strict=True)]


def tables_of(decisions: Any) -> Any:
    pairs = [(True, True), (True, False), (False, True), (False, False)]
    return tuple(decisions.count(pair) for pair in pairs)


@pytest.mark.parametrize("metric", ["f1", "am", "gmean", "mcc"])
def test_one_sample_is_decided_by_enumeration_with_what_went_before(metric: str) -> None:
    model = DecisionClassifier(Oracle(), metric)
    phi = oracle.phi("fbeta" if metric == "f1" else metric, 0)
    past: list[Any] = []
    for x, y in rare_stream(1, 60):
        counts = tables_of(past)
        assert model.counts == counts
        decided = model.predict_one(x)
        no, yes = (oracle.expected([x["p"]], [s], phi, counts) for s in (0, 1))
        assert decided is (yes > no)
        model.learn_one(x, y)
        past.append((decided, y))


@pytest.mark.parametrize("history", ["labels", "expected", None])
def test_frames_are_decided_jointly(history: str | None) -> None:
    model = DecisionClassifier(Oracle(), "f1", history=history)
    stream = rare_stream(2, 40)
    model.learn_batch([x for x, _ in stream[:20]], [y for _, y in stream[:20]])
    X = pd.DataFrame([x for x, _ in stream[20:]])
    best = maximize(X["p"], "f1", counts=model.counts)
    before = pickle.dumps(model)
    labels: Any = model.predict_many(X)
    assert labels.tolist() == best.labels.tolist()
    assert model.decide_many([x for x, _ in stream[20:]]) == best.labels.tolist()
    assert pickle.dumps(model) == before
    if history is None:
        assert model.counts == (0, 0, 0, 0)
    else:
        assert sum(model.counts) == pytest.approx(20)
    model.learn_many(X, pd.Series([y for _, y in stream[20:]]))
    assert len(model.predict_many(X)) == 20


class FrameOracle(Oracle, base.MiniBatchClassifier):
    """An `Oracle` that also reads frames."""

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn nothing."""

    def predict_proba_many(self, X: Any) -> Any:
        return pd.DataFrame({False: 1.0 - X["p"], True: X["p"]})


@pytest.mark.parametrize("p", [1.5, -0.1, math.nan])
def test_a_frame_with_a_wrong_probability_is_refused_as_a_sample_is(p: Any) -> None:
    model: Any = DecisionClassifier(FrameOracle())
    X = pd.DataFrame({"p": [0.5, p]})
    with pytest.raises(ValueError, match="probabilities"):
        model.predict_many(X)
    with pytest.raises(ValueError, match="probabilities"):
        model.learn_many(X, pd.Series([True, False]))
    assert model.counts == (0, 0, 0, 0)
    assert model.predict_many(pd.DataFrame({"p": [0.9, 1.0 + 1e-12]})).tolist() == [True, True]


def test_history_pays_on_a_stream_with_few_positives() -> None:
    def cumulative(make: Any, size: Any) -> Any:
        scores = []
        for seed in range(60):
            metric = metrics.F1()
            evaluate(rare_stream(seed), make(), metric, batch_size=size)
            scores.append(metric.get())
        return float(np.mean(scores))

    joint = cumulative(lambda: DecisionClassifier(Oracle()), 20)
    apart = cumulative(lambda: DecisionClassifier(Oracle(), history=None), 20)
    online = cumulative(lambda: DecisionClassifier(Oracle()), 1)
    half = cumulative(Oracle, 1)
    assert joint > apart > online > half
    assert joint >= 0.32


def test_forgetting_and_expected_counts() -> None:
    model = DecisionClassifier(Oracle(), "f1", half_life=10.0, history="expected")
    for x, y in rare_stream(3):
        model.learn_one(x, y)
    assert sum(model.counts) == pytest.approx(1 / (1 - 0.5**0.1), rel=1e-4)


def test_the_claim_gap_tells_of_promises_not_kept() -> None:
    class Overconfident(Oracle):
        def predict_proba_one(self, x: Any) -> dict[Any, Any]:
            p = x["p"] ** 0.5
            return {False: 1.0 - p, True: p}

    calibrated, overconfident = (
        DecisionClassifier(Oracle(), "f1"),
        DecisionClassifier(Overconfident(), "f1"),
    )
    assert calibrated.claim_gap == 0.0
    for x, y in rare_stream(4, 2_000):
        calibrated.learn_one(x, y)
        overconfident.learn_one(x, y)
    assert abs(calibrated.claim_gap) < 0.05 < 0.2 < overconfident.claim_gap


def test_a_drift_detector_reads_the_claim_gap() -> None:
    model, detector = DecisionClassifier(Oracle(), "f1", half_life=100.0), drift.ADWIN(1e-4)
    alarms = []
    for i, (x, y) in enumerate(rare_stream(5, 3_000)):
        # Halfway the model starts to promise more than it keeps.
        model.learn_one({"p": x["p"] ** (0.3 if i >= 1_500 else 1.0)}, y)
        detector.update(model.claim_gap)
        alarms += [i] * detector.drift_detected
    assert any(1_500 <= i < 1_700 for i in alarms)


def test_the_claim_gap_of_batches_has_mean_zero() -> None:
    p = [0.9, 0.6, 0.3, 0.05]
    labels = maximize(p, "f1").labels
    total = 0.0
    for y in np.ndindex(2, 2, 2, 2):
        chance = math.prod(q if hit else 1 - q for q, hit in zip(p, y, strict=True))
        total += chance * claim_gap(p, labels, y, "f1")
    assert total == pytest.approx(0.0, abs=1e-12)
    gap = claim_gap([0.5], [1], [1], "f1", counts=(1, 1, 1, 1))
    assert gap == pytest.approx(expected_utility([0.5], [1], "f1", counts=(1, 1, 1, 1)) - 4 / 6)


def test_served_and_decided_are_taken_at_their_word() -> None:
    model = DecisionClassifier(Oracle(), "accuracy")
    model.learn_one({"p": 0.9}, True, decided=False)
    assert list(model.counts) == [0, 0, 1, 0]
    model.learn_one({"p": 0.9}, False, served={True: 0.1, False: 0.9})
    assert list(model.counts) == [0, 0, 1, 1]


@pytest.mark.parametrize("pos_val", [True, "yes"])
@pytest.mark.parametrize("calibrated", [False, True])
def test_what_cannot_have_been_served_is_not_counted(pos_val: Any, calibrated: bool) -> None:
    classifier: Any = naive_bayes.GaussianNB()
    if calibrated:
        classifier = CalibratedClassifier(classifier)
    model = DecisionClassifier(classifier, pos_val=pos_val)
    negative = False if pos_val is True else "no"
    for y in (pos_val, negative):
        model.learn_one({"amount": 0.3}, y, served={negative: 0.5, pos_val: 0.5})
    before = list(model.counts)
    for served, problem in (
        ({"amount": 0.3}, "`served` must have probabilities by label, got those of 'amount'"),
        ({negative: 0.9, pos_val: 0.9}, "probabilities that sum to 1, got a sum of 1.8"),
    ):
        with pytest.raises(ValueError, match=problem):
            model.learn_one({"amount": 0.3}, pos_val, served=served)
    assert list(model.counts) == before


def test_arguments_reach_the_model_that_takes_them() -> None:
    weighted = DecisionClassifier(linear_model.LogisticRegression())
    weighted.learn_one({"a": 1.0}, True, w=3.0)
    plain = linear_model.LogisticRegression()
    plain.learn_one({"a": 1.0}, True, w=3.0)
    assert weighted.predict_proba_one({"a": 1.0}) == plain.predict_proba_one({"a": 1.0})
    DecisionClassifier(naive_bayes.GaussianNB()).learn_one({"a": 1.0}, True, w=3.0)


def test_names_of_labels_are_kept() -> None:
    model = DecisionClassifier(naive_bayes.GaussianNB(), "f1", pos_val="spam")
    assert model.predict_one({"a": 1.0}) is None
    assert model.decide_many([{"a": 1.0}]) == [None]
    for i in range(20):
        model.learn_one({"a": i % 2 + 0.01 * (i % 5)}, "spam" if i % 2 else "ham")
    assert model.predict_one({"a": 1.0}) == "spam"
    assert model.predict_one({"a": 0.0}) == "ham"
    assert sum(model.counts) == 19
    with pytest.raises(ValueError, match="binary"):
        model.learn_one({"a": 1.0}, "eggs")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DecisionClassifier(3), "`classifier` must be a river classifier"),
        (lambda: DecisionClassifier(Oracle(), "f7"), "`metric` must be one of"),
        (lambda: DecisionClassifier(Oracle(), history="all"), "`history` must be"),
        (
            lambda: DecisionClassifier(Oracle(), half_life=0),
            "`half_life` must lie in .0.1, inf. or None",
        ),
        (lambda: DecisionClassifier(Oracle()).learn_one({"p": 0.5}, None), "`y` must be a label"),
        (lambda: DecisionClassifier(Oracle()).learn_one({"p": 0.5}, "x"), "labels are binary"),
        (lambda: DecisionClassifier(Oracle()).predict_one({"p": 1.5}), r"must lie in \[0, 1\]"),
        (lambda: MicroBatcher(Oracle()), "`model` must be a DecisionClassifier"),
        (
            lambda: MicroBatcher(DecisionClassifier(Oracle()), 0),
            "`batch_size` must be a positive int",
        ),
        (lambda: MicroBatcher(DecisionClassifier(Oracle()), 2, -1), "`max_delay` must lie in"),
        (
            lambda: evaluate([], Oracle(), metrics.F1(), batch_size=2),
            "DecisionClassifier for batches",
        ),
        (
            lambda: evaluate([], Oracle(), metrics.F1(), batch_size=0),
            "`batch_size` must be a positive int",
        ),
        (lambda: EUMThreshold("f7"), "`metric` must be one of"),
        (lambda: EUMThreshold(window=0), "`window` must be a positive int"),
        (lambda: EUMThreshold(half_life=-1), "`half_life` must lie in"),
        (lambda: EUMThreshold().learn_one(math.nan, 1), "`score` must be a finite number"),
        (lambda: EUMThreshold().learn_one(0.5, 2), "`y` must be 0 or 1, got 2"),
        (lambda: EUMThreshold().learn_one(0.5, 1, w=0), "`w` must be a positive"),
        (lambda: EUMThreshold().learn_many([0.5, 0.1], [1, 3]), "got 3.0 at position 1"),
        (lambda: EUMThreshold().learn_many([0.5], [1, 0]), "`y` must have one value per score"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_refused_sample_changes_nothing() -> None:
    model = DecisionClassifier(Oracle())
    model.learn_one({"p": 0.4}, True)
    before = pickle.dumps(model)
    for y in (None, math.nan, "x"):
        with pytest.raises(ValueError, match="`y`"):
            model.learn_one({"p": 0.5}, y)
    with pytest.raises(ValueError, match="probabilities"):
        model.learn_one({"p": 2.0}, True)
    assert pickle.dumps(model) == before


def test_batches_are_released_when_full_or_late() -> None:
    batcher = MicroBatcher(DecisionClassifier(Oracle(), "f1"), batch_size=3, max_delay=10.0)
    assert batcher.push({"p": 0.9}, key="a", now=0.0) == []
    assert batcher.push({"p": 0.3}, key="b", now=5.0) == []
    assert batcher.poll(9.0) == []
    released = batcher.poll(10.0)
    labels = maximize([0.9, 0.3], "f1").labels.tolist()
    assert [(r.key, r.label) for r in released] == list(zip("ab", labels, strict=True))
    assert len(batcher) == 0
    assert batcher.poll(99.0) == []
    assert [batcher.push({"p": 0.5}, now=100.0 + i) for i in range(2)] == [[], []]
    assert len(batcher.push({"p": 0.5}, now=102.0)) == 3
    assert batcher.flush() == []
    batcher.push({"p": 0.5})
    assert len(batcher.flush()) == 1


def test_evaluate_asks_the_decision_layer() -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    timid = DecisionClassifier(model.clone(), Metric(lambda tp, fp, fn, tn: tp - 50.0 * fp))
    both = metrics.Accuracy() + metrics.LogLoss()
    evaluate(datasets.Phishing().take(300), timid, both)
    plain = metrics.Accuracy()
    evaluate(datasets.Phishing().take(300), model.clone(), plain)
    assert both[0].get() < plain.get() - 0.02
    assert 0.0 < both[1].get() < 1.0


def test_it_passes_the_checks_of_river() -> None:
    for params in DecisionClassifier._unit_test_params():
        model = DecisionClassifier(**params)
        for check in river_checks(model):
            check(model.clone())


def test_clone_pickle_and_calibrated_models() -> None:
    inner = CalibratedClassifier(linear_model.LogisticRegression())
    model = DecisionClassifier(inner, get_metric("f2"), half_life=50.0)
    for x, y in datasets.Phishing().take(50):
        model.learn_one(x, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_one(x) == model.predict_one(x)
    assert again.counts == model.counts
    assert model.clone().counts == (0, 0, 0, 0)
    assert model.clone().metric == get_metric("f2")


@pytest.mark.parametrize("delay", [0, 40])
def test_a_calibrated_model_learns_late_labels_as_without_decisions(delay: int) -> None:
    def calibrated() -> CalibratedClassifier:
        model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        return CalibratedClassifier(model)

    inner, alone = calibrated(), calibrated()
    model = DecisionClassifier(inner, "f1")
    samples = list(datasets.Phishing().take(200))
    for t, (x, _) in enumerate(samples):
        model.predict_one(x)
        alone.predict_one(x)
        if t >= delay:
            model.learn_one(*samples[t - delay])
            alone.learn_one(*samples[t - delay])
    assert state(inner) == state(alone)
    assert len(inner._memory) == delay


def test_what_a_calibrated_model_served_is_passed_on_to_it() -> None:
    inner, alone = (CalibratedClassifier(Oracle()) for _ in range(2))
    model, samples = DecisionClassifier(inner, "f1"), rare_stream(1)
    served = [alone.serve_one(x) for x, _ in samples]
    for (x, y), late in zip(samples, served, strict=True):
        model.learn_one(x, y, served=late)
        alone.learn_one(x, y, served=late)
    assert state(inner) == state(alone)
    assert sum(model.counts) == len(samples)
    with pytest.raises(TypeError, match=r"`served` must be a mapping .* got 0\.5"):
        model.learn_one(x, y, served=0.5)


def test_a_calibrated_model_learns_late_batches_as_without_decisions() -> None:
    model, alone = (CalibratedClassifier(Oracle()) for _ in range(2))
    decisions, samples = DecisionClassifier(model, "f1"), rare_stream(0)
    for start in range(0, 200, 20):
        xs, _ = zip(*samples[start : start + 20], strict=True)
        decisions.decide_many(xs)
        for x in xs:
            alone.predict_proba_one(x)
        if start:
            xs, ys = zip(*samples[start - 20 : start], strict=True)
            decisions.learn_batch(xs, ys)
            for x, y in zip(xs, ys, strict=True):
                alone.learn_one(x, y)
    assert state(model) == state(alone)
    assert len(model._memory) == 20


# EUM ----------------------------------------------------------------------------------------------

METRICS = [
    "f1",
    "jaccard",
    "am",
    "gmean",
    "hmean",
    "qmean",
    "gtppr",
    "mcc",
    "kappa",
    "accuracy",
    SEC(),
    FractionalLinear((0, 1, 1, 0), (1, 0, 0, 0)),  # grows with false positives
    Metric(lambda tp, fp, fn, tn: tp - 2.0 * fp),
]


def best_of(samples: Any, metric: Any) -> Any:
    """Try every score as the threshold."""
    metric = get_metric(metric)

    def at(threshold: Any) -> Any:
        counts = np.zeros(4)
        for score, y, w in samples:
            counts[(0 if y else 1) if score >= threshold else (2 if y else 3)] += w
        return metric(*counts)

    return max((at(t), t) for t in [math.inf, *{s for s, _, _ in samples}])


@pytest.mark.parametrize("metric", METRICS, ids=named)
@settings(max_examples=8)
@given(data=st.data())
def test_the_threshold_is_the_best_of_all(metric: Any, data: st.DataObject) -> None:
    samples = data.draw(
        st.lists(
            st.tuples(st.integers(-5, 20), st.booleans(), st.sampled_from([1.0, 0.5, 3.0])),
            max_size=40,
        )
    )
    window = data.draw(st.sampled_from([None, 1, 7]))
    eum = EUMThreshold(metric, window=window)
    for score, y, w in samples:
        eum.learn_one(score, y, w)
    kept = samples[-window:] if window else samples
    assert eum.utility == pytest.approx(best_of(kept, metric)[0], abs=1e-12)
    curve = eum.curve()
    assert curve.utilities.max() == pytest.approx(eum.utility, abs=1e-12)
    assert eum.n_scores == len({s for s, _, _ in kept})
    at = curve.thresholds.tolist().index(eum.threshold)
    assert curve.utilities[at] == pytest.approx(eum.utility, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS, ids=named)
@pytest.mark.parametrize("kwargs", [{}, {"window": 400}, {"half_life": 30.0}], ids=str)
def test_thresholds_of_long_streams(metric: Any, kwargs: Any) -> None:
    rng = np.random.default_rng(6)
    eum = EUMThreshold(metric, **kwargs)
    for t in range(2_500):
        score = rng.random()
        eum.learn_one(round(score, 3) if t % 2 else score, rng.random() < score**3)
        if t % 250 == 249:
            curve = eum.curve()
            assert eum.utility == pytest.approx(curve.utilities.max(), abs=1e-9)


def test_a_half_life_weighs_the_past_down() -> None:
    samples = [(float(i % 7), i % 3 == 0, 1.0) for i in range(2_500)]
    eum = EUMThreshold("f1", half_life=20.0)
    for score, y, _ in samples:
        eum.learn_one(score, y)
    aged = [(s, y, 0.5 ** ((len(samples) - 1 - i) / 20.0)) for i, (s, y, _) in enumerate(samples)]
    assert eum.utility == pytest.approx(best_of(aged[-600:], "f1")[0], rel=1e-6)


def test_thresholds_are_pure_and_can_be_pickled() -> None:
    eum = EUMThreshold("f1", window=30)
    assert (eum.threshold, eum.predict_one(0.3)) == (math.inf, None)
    rng = np.random.default_rng(7)
    scores = rng.random(100)
    eum.learn_many(scores, scores > rng.random(100))
    before = pickle.dumps(eum)
    assert eum.predict_many(scores).tolist() == [eum.predict_one(s) for s in scores]
    assert pickle.dumps(eum) == before
    for again in (pickle.loads(before), copy.deepcopy(eum)):
        again.learn_one(0.5, 1)
        assert again.n_scores == 30
    assert eum.clone().n_scores == 0


@pytest.mark.parametrize("window", [None, 1000])
def test_thresholds_are_best_for_metrics_of_the_samples_labelled_0(window: int | None) -> None:
    """Few samples lie below a low threshold: what is left of all after the others is rounding."""
    negative_predictive_value = FractionalLinear((1, 1, -1, -1), (1, 0, -1, 0))
    eum = EUMThreshold(negative_predictive_value, window=window)
    for sample in [(0.4, 1, 0.7), (0.5, 0, 1.0), (0.6, 0, 0.3), (0.8, 0, 0.1)]:
        eum.learn_one(*sample)
    assert eum.threshold == math.inf
    assert eum.utility == eum.curve().utilities.max() == pytest.approx(2.0 / 3.0)


def test_thresholds_are_best_by_exact_counts() -> None:
    rng = np.random.default_rng(3)
    negative_predictive_value = FractionalLinear((1, 1, -1, -1), (1, 0, -1, 0))
    scores, labels = rng.integers(0, 400, 900) / 400, rng.integers(0, 2, 900)
    weights = rng.uniform(0.1, 3.0, 900)
    eum = EUMThreshold(negative_predictive_value)
    eum.learn_many(scores, labels, weights)
    values = {math.inf: math.fsum(weights[labels == 0]) / math.fsum(weights)}
    for threshold in np.unique(scores)[1:]:  # below the first of them nothing is labelled 0
        below = scores < threshold
        rejected = math.fsum(weights[below & (labels == 0)])
        values[threshold] = rejected / math.fsum(weights[below])
    assert eum.utility == pytest.approx(max(values.values()), rel=1e-12)
    assert values[eum.threshold] == max(values.values())
