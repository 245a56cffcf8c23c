"""Metrics: equal to scikit-learn and to batch recomputation, after every update and revert."""

import inspect
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets, evaluate, linear_model, metrics, naive_bayes, preprocessing, utils
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss

from streamcal.metrics import (
    CORP,
    ECE,
    BrierScore,
    RollingCORP,
    SmoothECE,
    SpiegelhalterZ,
    smooth_ece,
)
from streamcal.metrics._exact_sum import ExactSum
from tests import oracles_diagnostics

METRICS = [
    BrierScore(),
    BrierScore(scale_by_half=False),
    ECE(),
    ECE(n_bins=4, strategy="mass"),
    CORP(),
    CORP(scoring="log"),
    RollingCORP(window=1000),
    SmoothECE(n_cells=256),
    SpiegelhalterZ(),
]
NAMES = [
    "brier",
    "brier-sum",
    "ece-width",
    "ece-mass",
    "corp-brier",
    "corp-log",
    "rolling",
    "smooth-ece",
    "z",
]
by_metric = pytest.mark.parametrize("metric", METRICS, ids=NAMES)

# Ties are frequent, and sums of dyadic weights are exact whatever their order.
probabilities = st.one_of(
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]), st.integers(0, 1000).map(lambda i: i / 1000)
)
samples = st.tuples(st.booleans(), probabilities, st.sampled_from([0.25, 0.5, 1.0, 3.0]))
streams = st.lists(samples, min_size=1, max_size=25)


def split(y: Any, p: Any, w: Any, score: Any) -> tuple[Any, Any, Any]:
    """Return MCB, DSC and UNC by scikit-learn's isotonic regression: the oracle."""

    def mean(q: Any) -> Any:
        right = np.where(y, q, 1 - q)
        with np.errstate(divide="ignore"):
            losses = (1 - right) ** 2 if score == "brier" else -np.log(right)
        return np.average(losses, weights=w)

    # By rank: scikit-learn takes scores closer than 2e-16 for equal.
    rank = np.unique(p, return_inverse=True)[1]
    again = IsotonicRegression().fit(rank, y, sample_weight=w).predict(rank)
    s_model, s_again = mean(p), mean(np.clip(again, 0, 1))
    s_mean = mean(np.full(len(p), np.average(y, weights=w)))
    return s_model - s_again, s_mean - s_again, s_mean


def ece_by_width(y: Any, p: Any, w: Any, n_bins: Any) -> Any:
    edges = np.arange(1, n_bins) / n_bins
    b = np.searchsorted(edges, p)
    return np.abs(np.bincount(b, w * (y - p))).sum() / w.sum()


def ece_by_mass(y: Any, p: Any, w: Any, n_bins: Any) -> Any:
    scores, group = np.unique(p, return_inverse=True)
    mass = np.bincount(group, w, minlength=len(scores))
    middle = np.cumsum(mass) - mass / 2
    b = np.minimum((n_bins * middle / w.sum()).astype(int), n_bins - 1)[group]
    return np.abs(np.bincount(b, w * (y - p))).sum() / w.sum()


def batch(metric: Any, stream: Any) -> Any:
    y, p, w = (np.array(column, dtype=float) for column in zip(*stream, strict=True))
    match metric:
        case BrierScore():
            scale = 2.0 if metric.scale_by_half is False else 1.0
            return scale * np.average((p - y) ** 2, weights=w)
        case ECE(strategy="width"):
            return ece_by_width(y, p, w, metric.n_bins)
        case ECE():
            return ece_by_mass(y, p, w, metric.n_bins)
        case SmoothECE():
            return smooth_ece(y, p, w=w, n_cells=metric.n_cells)
        case SpiegelhalterZ():
            return oracles_diagnostics.spiegelhalter(y, p, w)
        case CORP(scoring=score) | RollingCORP(scoring=score):
            return split(y, p, w, score)[0]


def close_to(metric: Any, expected: Any) -> Any:
    # z divides by a deviation that may be small, and so magnifies what removals leave behind.
    return pytest.approx(expected, abs=1e-9, rel=1e-5 if isinstance(metric, SpiegelhalterZ) else 0)


@by_metric
@given(stream=streams, drawn=st.data())
@settings(max_examples=40, deadline=None)
def test_streaming_equals_batch_after_every_update_and_revert(
    metric: Any, stream: Any, drawn: st.DataObject
) -> None:
    metric = metric.clone()
    for n, (y, p, w) in enumerate(stream, 1):
        metric.update(y, p, w)
        assert metric.get() == close_to(metric, batch(metric, stream[:n]))
    left = list(stream)
    for at in drawn.draw(st.permutations(range(len(stream)))):
        metric.revert(*stream[at])
        left.remove(stream[at])
        expected = batch(metric, left) if left else 0.0
        assert metric.get() == close_to(metric, expected)


@pytest.mark.parametrize("heavy", [1e20, 1e30, 1e60])
@by_metric
def test_a_heavy_sample_leaves_nothing_behind(metric: Any, heavy: float) -> None:
    metric = metric.clone()
    metric.update(True, 0.97, heavy)
    stream = [(True, 0.25, 1.0), (False, 0.625, 0.1), (False, 0.125, 2.0)]
    for sample in stream:
        metric.update(*sample)
    metric.revert(True, 0.97, heavy)
    assert metric.get() == close_to(metric, batch(metric, stream))


@given(st.lists(st.tuples(st.floats(-1.0, 1.0), st.integers(-200, 200)), max_size=20))
def test_exact_sums_are_exact(drawn: Any) -> None:
    total, numbers = ExactSum(), [x * 2.0**power for x, power in drawn]
    for x in numbers:
        total = total.plus(x)
    assert total.value == math.fsum(numbers)
    for x in numbers:
        total = total.plus(-x)
    assert total.value == 0.0


@given(stream=streams)
@settings(max_examples=60, deadline=None)
def test_corp_parts_equal_scikit_learn(stream: Any) -> None:
    y, p, w = (np.array(column, dtype=float) for column in zip(*stream, strict=True))
    for score in ("brier", "log"):
        metric = CORP(score)
        for sample in stream:
            metric.update(*sample)
        mcb, dsc, unc = split(y, p, w, score)
        assert metric.get() == metric.mcb == pytest.approx(mcb, abs=1e-9)
        assert metric.dsc == pytest.approx(dsc, abs=1e-9)
        assert metric.unc == pytest.approx(unc, abs=1e-9)
        assert metric.mcb >= 0
        assert metric.dsc >= 0
        assert metric.mcb - metric.dsc + metric.unc == pytest.approx(metric.mean_score, abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_scores_equal_scikit_learn(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(size=300)
    y = rng.uniform(size=300) < p
    w = rng.uniform(0.1, 3.0, size=300) if weighted else np.ones(300)
    brier, corp, corp_log = BrierScore(), CORP(), CORP("log")
    for sample in zip(y, p, w, strict=True):
        for metric in (brier, corp, corp_log):
            metric.update(*sample)
    assert brier.get() == pytest.approx(brier_score_loss(y, p, sample_weight=w), rel=1e-12)
    assert corp.mean_score == pytest.approx(brier.get(), rel=1e-12)
    assert corp_log.mean_score == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)


def test_corp_published_numbers() -> None:
    metric = CORP()
    for y, p in zip([0, 0, 0, 1, 1, 1], [0.4, 0.3, 0.2, 0.1, 0.5, 0.9], strict=True):
        metric.update(y, p)
    assert metric.mean_score == pytest.approx(0.2266667, abs=1e-7)
    assert metric.mcb == pytest.approx(0.1016667, abs=1e-7)
    assert metric.dsc == pytest.approx(0.125)
    assert metric.unc == pytest.approx(0.25)
    np.testing.assert_allclose(metric.staircase().values, [0.25, 1.0])
    np.testing.assert_allclose(metric.staircase().weights, [4.0, 2.0])


def test_corp_recalibrated_predictions_have_no_miscalibration() -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(size=200)
    y = rng.uniform(size=200) < p**2
    again = IsotonicRegression().fit(p, y).predict(p)
    metric = CORP()
    for sample in zip(y, again, strict=True):
        metric.update(*sample)
    assert metric.mcb == pytest.approx(0.0, abs=1e-12)


def test_infinite_log_loss_is_reported_and_reverted() -> None:
    metric = CORP("log")
    metric.update(True, 0.75)
    metric.update(False, 0.25)
    before = metric.mean_score, metric.mcb, metric.dsc, metric.unc
    metric.update(True, 0.0)
    assert metric.mean_score == metric.mcb == math.inf
    assert math.isfinite(metric.dsc)
    assert math.isfinite(metric.unc)
    metric.revert(True, 0.0)
    assert (metric.mean_score, metric.mcb, metric.dsc, metric.unc) == pytest.approx(before)
    metric.update(False, 0.0)
    metric.update(True, 1e-300)
    assert metric.mean_score == pytest.approx((2 * -math.log(0.75) + 300 * math.log(10)) / 4)


MULTICLASS = [
    ("eggs", {"eggs": 0.8, "ham": 0.1, "spam": 0.1}),
    ("ham", {"eggs": 0.2, "ham": 0.7, "spam": 0.1}),
    ("spam", {"eggs": 0.2, "ham": 0.2, "spam": 0.6}),
]


@pytest.mark.skipif(
    "scale_by_half" not in inspect.signature(brier_score_loss).parameters,
    reason="multiclass scores came with scikit-learn 1.7",
)
def test_multiclass_brier_equals_scikit_learn() -> None:
    matrix = np.array([list(p.values()) for _, p in MULTICLASS])
    labels = [y for y, _ in MULTICLASS]
    for scale in ("auto", True, False):
        metric = BrierScore(scale_by_half=scale)
        for y, p in MULTICLASS:
            metric.update(y, p)
        assert metric.get() == pytest.approx(brier_score_loss(labels, matrix, scale_by_half=scale))


def test_brier_of_any_two_labels_is_the_binary_score() -> None:
    plain, named = BrierScore(), BrierScore()
    for happened, p in [(True, 0.9), (False, 0.4), (True, 0.3)]:
        plain.update(happened, p)
        named.update("yes" if happened else "no", {"no": 1 - p, "yes": p})
    assert named.get() == pytest.approx(plain.get())


def test_brier_scale_follows_the_labels_met() -> None:
    metric = BrierScore()
    metric.update("a", {"a": 0.5, "b": 0.5})
    assert metric.get() == pytest.approx(0.25)
    metric.update("c", {"a": 0.5, "b": 0.5})  # a label the model did not know: 1 more
    assert metric.get() == pytest.approx((0.5 + 1.5) / 2)
    metric.revert("c", {"a": 0.5, "b": 0.5})
    assert metric.get() == pytest.approx(0.25)


def test_ece_equal_mass_bins_hold_equal_mass() -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(size=1000) ** 4
    y = rng.uniform(size=1000) < 0.5
    metric = ECE(n_bins=10, strategy="mass")
    for sample in zip(y, p, strict=True):
        metric.update(*sample)
    order = np.argsort(p)
    gaps = (y - p)[order].reshape(10, 100).sum(axis=1)
    assert metric.get() == pytest.approx(np.abs(gaps).sum() / 1000)


@pytest.mark.parametrize("where", ["low", "high", "all"])
def test_ece_memory_is_bounded_and_the_loss_of_resolution_small(where: str) -> None:
    rng = np.random.default_rng(4)
    p = rng.uniform(size=4000)
    if where != "all":
        p = p**30 if where == "low" else 1 - p**30
    y = (rng.uniform(size=4000) < p**1.3).astype(float)
    w = np.ones(4000)
    metric = ECE(n_bins=10, strategy="mass", max_scores=512)
    for sample in zip(y, p, strict=True):
        metric.update(*sample)
        assert len(metric._cells) <= 512
    assert metric.get() == pytest.approx(ece_by_mass(y, p, w, 10), rel=0.05)
    for sample in zip(y, p, strict=True):
        metric.revert(*sample)
    assert not metric._cells
    assert metric.get() == 0.0


def test_ece_cells_stay_in_order_however_coarse() -> None:
    rng = np.random.default_rng(5)
    p = np.concatenate([[0.0, 5e-324, 0.5, np.nextafter(0.5, 0), 1.0], rng.uniform(size=200)])
    p = np.sort(np.concatenate([p, rng.uniform(size=200) ** 20, 1 - rng.uniform(size=200) ** 20]))
    metric = ECE(strategy="mass")
    for score in p:
        metric.update(True, score)
    for most in (500, 300, 100, 30, 10, 2):
        metric.max_scores = most
        metric._cells, dropped = metric._merge_cells()
        metric._dropped_bits += dropped
        assert most / 4 <= len(metric._cells) <= max(most // 2, 2)
        keys = [metric._key(score) for score in p]
        assert keys == sorted(keys)
        assert set(keys) == set(metric._cells)


def test_ece_confidence_of_the_first_label() -> None:
    metric = ECE(n_bins=1, pos_val=None)
    metric.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    metric.update("b", {"a": 0.25, "b": 0.25, "c": 0.5})
    assert metric.get() == pytest.approx(0.0)
    metric.update("c", {"a": 0.25, "b": 0.25, "c": 0.5})
    assert metric.get() == pytest.approx(0.5 / 3)
    with pytest.raises(TypeError, match="`y_pred` must be a dict"):
        metric.update("a", 0.5)


# More than two labels -----------------------------------------------------------------------------

labels_drawn = st.sampled_from(["a", "b", "c", "d"])
answers_drawn = st.dictionaries(labels_drawn, probabilities, min_size=1)
answer_streams = st.lists(
    st.tuples(labels_drawn, answers_drawn, st.sampled_from([0.25, 0.5, 1.0, 3.0])),
    min_size=1,
    max_size=20,
)
CLASSWISE: list[Any] = [
    ECE(multiclass="classwise"),
    ECE(3, multiclass="classwise"),
    ECE(4, "mass", multiclass="classwise"),
    CORP(multiclass="classwise"),
    CORP("log", multiclass="classwise"),
]
by_classwise = pytest.mark.parametrize(
    "metric", CLASSWISE, ids=["width", "width-3", "mass", "corp-brier", "corp-log"]
)
ece_and_corp = pytest.mark.parametrize("metric", [CLASSWISE[0], CLASSWISE[3]], ids=["ece", "corp"])


def events_of(stream: Any, label: Any) -> list[Any]:
    """Return whether a label is true, its probability and the weight; None: the top label."""
    tops = [max(p, key=p.__getitem__) if label is None else label for _, p, _ in stream]
    return [(y == top, p.get(top, 0.0), w) for (y, p, w), top in zip(stream, tops, strict=True)]


def batch_by_label(metric: Any, stream: Any) -> dict[Any, float]:
    """Return the metric of each label against all others: the oracle."""
    known = {label for y, p, _ in stream for label in (y, *p)}
    return {label: batch(metric, events_of(stream, label)) for label in known}


@by_classwise
@given(stream=answer_streams, drawn=st.data())
@settings(max_examples=40, deadline=None)
def test_a_classwise_metric_is_the_mean_over_labels(
    metric: Any, stream: Any, drawn: st.DataObject
) -> None:
    metric = metric.clone()
    for n, sample in enumerate(stream, 1):
        metric.update(*sample)
        expected = batch_by_label(metric, stream[:n])
        assert metric.by_label == pytest.approx(expected, abs=1e-9)
        assert metric.get() == pytest.approx(np.mean(list(expected.values())), abs=1e-9)
    left = list(stream)
    for at in drawn.draw(st.permutations(range(len(stream)))):
        metric.revert(*stream[at])
        left.remove(stream[at])
        expected = batch_by_label(metric, left) if left else {}
        assert metric.by_label == pytest.approx(expected, abs=1e-9)
    assert metric.get() == 0.0


@given(stream=answer_streams, drawn=st.data())
@settings(max_examples=40, deadline=None)
def test_top_label_metrics_are_those_of_its_event(stream: Any, drawn: st.DataObject) -> None:
    named: list[Any] = [
        ECE(multiclass="top-label"),
        ECE(4, "mass", multiclass="top-label"),
        CORP(multiclass="top-label"),
        CORP("log", multiclass="top-label"),
    ]
    older: list[Any] = [
        ECE(pos_val=None),
        ECE(4, "mass", None),
        CORP(pos_val=None),
        CORP("log", None),
    ]
    for sample in stream:
        for metric in named + older:
            metric.update(*sample)
    at = drawn.draw(st.integers(0, len(stream) - 1))
    left = stream[:at] + stream[at + 1 :]
    for metric, same in zip(named, older, strict=True):
        assert (
            metric.get() == same.get() == close_to(metric, batch(metric, events_of(stream, None)))
        )
        metric.revert(*stream[at])
        expected = batch(metric, events_of(left, None)) if left else 0.0
        assert metric.get() == close_to(metric, expected)


@given(stream=answer_streams, drawn=st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("scoring", ["brier", "log"])
def test_classwise_corp_has_the_mean_split(scoring: Any, stream: Any, drawn: st.DataObject) -> None:
    metric = CORP(scoring, multiclass="classwise")
    for sample in stream:
        metric.update(*sample)
    at = drawn.draw(st.integers(0, len(stream)))
    left = stream[:at] + stream[at + 1 :]
    for sample in stream[at : at + 1]:
        metric.revert(*sample)
    splits = []
    for label in {label for y, p, _ in left for label in (y, *p)}:
        y, p, w = (np.array(x, float) for x in zip(*events_of(left, label), strict=True))
        splits.append(split(y, p, w, scoring))
    expected = np.mean(splits, axis=0) if splits else np.zeros(3)
    assert [metric.mcb, metric.dsc, metric.unc] == pytest.approx(expected, abs=1e-9)
    assert metric.get() == metric.mcb
    score = expected[0] - expected[1] + expected[2]
    assert metric.mean_score == pytest.approx(score, abs=1e-9)
    assert metric.split() == (metric.mean_score, metric.mcb, metric.dsc, metric.unc)


def test_the_score_of_classwise_corp_is_the_brier_score_of_all_labels() -> None:
    metric, brier = CORP(multiclass="classwise"), BrierScore()
    for y, p in [("a", [0.5, 0.3, 0.2]), ("c", [0.1, 0.7, 0.2]), ("b", [0.2, 0.6, 0.2])]:
        for each in (metric, brier):
            each.update(y, dict(zip("abc", p, strict=True)))
    assert metric.mean_score == pytest.approx(brier.get() / 3)
    for method in (metric.staircase, metric.band):
        with pytest.raises(ValueError, match=f"`{method.__name__}` needs one curve, got"):
            method()
    assert CORP().by_label == CORP(multiclass="top-label").by_label == {}


@pytest.mark.parametrize(
    "wrong",
    [{"a": 0.75, "b": 0.75}, {"a": 0.5, "b": 0.75}, {"b": 0.25}, {"a": 0.75, "b": 0.25, "c": 0.5}],
    ids=str,
)
@ece_and_corp
def test_a_refused_revert_of_many_labels_changes_nothing(metric: Any, wrong: Any) -> None:
    metric = metric.clone()
    metric.update("a", {"a": 0.75, "b": 0.25})
    metric.update("b", {"a": 0.25, "b": 0.5})
    before = pickle.dumps(metric)
    with pytest.raises(ValueError, match="`y_pred` must have been added before"):
        metric.revert("a", wrong)  # what "a" has in the first could be removed
    assert pickle.dumps(metric) == before


def test_classwise_ece_of_two_labels_is_that_of_one() -> None:
    binary, both = ECE(n_bins=1), ECE(n_bins=1, multiclass="classwise")
    for y, p in [(True, 0.9), (False, 0.4), (True, 0.3), (True, 0.3)]:
        binary.update(y, p)
        both.update(y, {False: 1 - p, True: p})
    assert both.get() == pytest.approx(binary.get())


@ece_and_corp
def test_a_classwise_metric_evaluates_a_river_model(metric: Any) -> None:
    kind, again = type(metric), []
    metric = metric.clone()
    assert metric.works_with(naive_bayes.GaussianNB())
    assert not metric.works_with(linear_model.LinearRegression())
    evaluate.progressive_val_score(
        datasets.ImageSegments().take(300), naive_bayes.GaussianNB(), metric
    )
    model = naive_bayes.GaussianNB()
    for x, y in datasets.ImageSegments().take(300):
        if p := model.predict_proba_one(x):
            again.append((y, p, 1.0))
        model.learn_one(x, y)
    assert metric.by_label == pytest.approx(batch_by_label(metric, again))
    rolling: Any = utils.Rolling(kind, window_size=50, multiclass="classwise")
    for sample in again:
        rolling.update(*sample[:2])
    assert rolling.get() == pytest.approx(
        np.mean(list(batch_by_label(metric, again[-50:]).values()))
    )


@by_classwise
def test_a_classwise_metric_is_a_river_metric(metric: Any) -> None:
    metric = metric.clone()
    first = ("a", {"a": 0.5, "b": 0.25, "c": 0.25}, 1.0)
    metric.update(*first)
    assert metric.clone().get() == 0.0
    assert metric.clone()._get_params() == metric._get_params()
    thawed = pickle.loads(pickle.dumps(metric))
    for each in (metric, thawed):
        each.update("d", {"a": 0.75}, w=2.0)
    assert thawed.by_label == metric.by_label
    full = metric.clone(include_attributes=True)
    full.revert("d", {"a": 0.75}, w=2.0)
    assert full.by_label == pytest.approx(batch_by_label(metric, [first]))
    assert len(metric.by_label) == 4


@pytest.mark.parametrize(
    ("y_true", "y_pred", "w", "error", "message"),
    [
        ("a", {"a": 1.5, "b": 0.5}, 1.0, ValueError, "`y_pred` must be a probability"),
        ("a", {"a": 0.5, "b": math.nan}, 1.0, ValueError, "`y_pred` must be a probability"),
        ("a", {"a": 0.5, "b": 0.5}, 0.0, ValueError, "`w` must be a positive finite number"),
        ("a", 0.5, 1.0, TypeError, "`y_pred` must be a dict for `multiclass='classwise'`"),
        (1, {"a": 0.5, "b": 0.5}, 1.0, ValueError, "`y_true` must be a label as those of `y_pred`"),
        (None, {"a": 0.5, "b": 0.5}, 1.0, ValueError, "`y_true` must be a label, got None"),
    ],
)
@ece_and_corp
def test_bad_answers_change_nothing(
    metric: Any, y_true: Any, y_pred: Any, w: Any, error: Any, message: str
) -> None:
    metric = metric.clone()
    metric.update("a", {"a": 0.5, "b": 0.25, "c": 0.25})
    before = metric.by_label
    for change in (metric.update, metric.revert):
        with pytest.raises(error, match=message):
            change(y_true, y_pred, w)
        assert metric.by_label == before
    for unknown in ({"d": 1.0}, {"a": 0.75, "b": 0.25}):
        with pytest.raises(ValueError, match="`y_pred` must have been added before"):
            metric.revert("a", unknown)
        assert metric.by_label == before


@pytest.mark.parametrize("metric", [ECE(multiclass="top-label"), CORP(multiclass="top-label")])
def test_the_top_label_may_be_of_another_kind_than_the_true_one(metric: Any) -> None:
    """As class by class, if there is a label of its kind; otherwise it was mistaken."""
    same = metric.clone()
    metric.update(1, {1: 0.25, "1": 0.5, "b": 0.25})
    same.update("a", {"a": 0.25, "1": 0.5, "b": 0.25})
    assert metric.get() == same.get() > 0.0
    for y_true, y_pred in (("b", {0: 0.5, 1: 0.5}), (1, {"0": 0.5}), (2, {False: 0.5, True: 0.5})):
        with pytest.raises(ValueError, match="`y_true` must be a label as those of `y_pred`"):
            metric.update(y_true, y_pred)
    assert metric.get() == same.get()


@by_metric
def test_evaluates_a_river_pipeline(metric: Any) -> None:
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    result = evaluate.progressive_val_score(datasets.Phishing().take(200), model, metric.clone())
    assert type(result) is type(metric)
    assert 0 < abs(result.get()) < (1 if metric.__class__ is not SpiegelhalterZ else 50)

    again, stream = metric.clone(), []
    model = model.clone()
    for x, y in datasets.Phishing().take(200):
        p = model.predict_proba_one(x)
        again.update(y, p)
        stream.append((y, p[True], 1.0))
        model.learn_one(x, y)
    assert result.get() == again.get()
    assert result.get() == pytest.approx(batch(metric, stream))


def test_evaluates_a_multiclass_model_with_a_cold_start() -> None:
    data = datasets.ImageSegments()
    for metric in (BrierScore(), ECE(pos_val=None), CORP(pos_val=None)):
        result = evaluate.progressive_val_score(data.take(100), naive_bayes.GaussianNB(), metric)
        assert 0 < result.get() < 2


@by_metric
def test_is_a_river_metric(metric: Any) -> None:
    metric = metric.clone()
    assert not metric.bigger_is_better
    assert not metric.requires_labels
    assert metric.works_with_weights
    assert metric.works_with(naive_bayes.GaussianNB())
    assert metric.works_with(preprocessing.StandardScaler() | naive_bayes.GaussianNB())
    assert not metric.works_with(linear_model.LinearRegression())
    assert metric.get() == 0.0

    metric.update(True, {False: 0.25, True: 0.75})
    metric.update(np.bool_(False), 0.5)
    assert metric.clone().get() == 0.0
    assert metric.clone()._get_params() == metric._get_params()
    thawed = pickle.loads(pickle.dumps(metric))
    for m in (metric, thawed):
        m.update(1, 0.25, w=2.0)
    assert thawed.get() == metric.get() > 0
    assert repr(metric).startswith(type(metric).__name__ + ": ")

    both = metric + metrics.LogLoss()
    both.update(True, {False: 0.25, True: 0.75})
    assert len(both.get()) == 2


@by_metric
def test_rolls_over_a_window(metric: Any) -> None:
    rng = np.random.default_rng(6)
    stream = [(int(rng.integers(2)), rng.uniform(), 1.0) for _ in range(30)]
    rolling: Any = utils.Rolling(type(metric), window_size=8, **metric._get_params())
    for n, (y, p, _) in enumerate(stream, 1):
        rolling.update(y, p)
        assert rolling.get() == close_to(metric, batch(metric, stream[max(n - 8, 0) : n]))


@by_metric
def test_predictions_that_are_not_there_are_not_scored(metric: Any) -> None:
    metric = metric.clone()
    metric.update(True, 0.25)
    value = metric.get()
    nothing: Any
    for nothing in ({}, None):
        metric.update(True, nothing)
        metric.revert(True, nothing)
    assert metric.get() == value


@by_metric
@pytest.mark.parametrize(
    ("y_pred", "w", "error", "message"),
    [
        (1.5, 1.0, ValueError, r"`y_pred` must be a probability in \[0, 1\], got 1.5"),
        (-0.1, 1.0, ValueError, "`y_pred` must be a probability"),
        (math.nan, 1.0, ValueError, "`y_pred` must be a probability"),
        ({False: 0.5, True: math.inf}, 1.0, ValueError, "`y_pred` must be a probability"),
        ("0.5", 1.0, TypeError, "`y_pred` must be a number, got '0.5'"),
        (0.5, 0.0, ValueError, "`w` must be a positive finite number, got 0.0"),
        (0.5, math.nan, ValueError, "`w` must be a positive finite number"),
    ],
)
def test_bad_input_changes_nothing(
    metric: Any, y_pred: Any, w: Any, error: Any, message: str
) -> None:
    metric = metric.clone()
    metric.update(True, 0.25)
    metric.update(False, 0.5)
    value = metric.get()
    for change in (metric.update, metric.revert):
        with pytest.raises(error, match=message):
            change(True, y_pred, w)
        for unknown in (None, math.nan, pd.NA, Decimal("sNaN")):
            with pytest.raises(ValueError, match="`y_true` must be a label, got"):
                change(unknown, 0.25)
        assert metric.get() == value


@by_metric
def test_reverting_what_was_never_added_is_refused(metric: Any) -> None:
    metric = metric.clone()
    with pytest.raises(ValueError, match="must have been"):
        metric.revert(True, 0.5)


@pytest.mark.parametrize("metric", [ECE(), CORP()], ids=["ECE", "CORP"])
def test_names_need_a_positive_label(metric: Any) -> None:
    with pytest.raises(ValueError, match="`pos_val` must be one of the labels, such as 'ham'"):
        metric.update("ham", {"ham": 0.5, "spam": 0.5})
    with pytest.raises(ValueError, match="`pos_val`"):
        metric.update("ham", 0.5)
    with pytest.raises(ValueError, match="of the labels, such as \\('a', 1\\), got True"):
        metric.update(("a", 1), {("a", 1): 0.5, ("a", 2): 0.5})
    metric = metric.clone({"pos_val": "spam"})
    metric.update("ham", {"ham": 1.0})  # spam was never seen by the model: probability 0
    assert metric.get() == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BrierScore(scale_by_half="half"), "`scale_by_half` must be 'auto' or a bool"),
        (lambda: ECE(n_bins=0), "`n_bins` must be a positive int, got 0"),
        (lambda: ECE(max_scores=1), "`max_scores` must be an int of at least 2, got 1"),
        (lambda: ECE(strategy="quantile"), "`strategy` must be one of 'width', 'mass'"),
        (lambda: CORP(scoring="spherical"), "`scoring` must be one of 'brier', 'log'"),
        (lambda: ECE(multiclass="all"), "`multiclass` must be one of 'top-label', 'classwise'"),
        (lambda: CORP(multiclass="each"), "`multiclass` must be one of 'top-label', 'classwise'"),
        (lambda: ECE(pos_val="a", multiclass="top-label"), "`pos_val` must be left out where"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
