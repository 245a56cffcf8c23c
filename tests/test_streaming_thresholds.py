"""Streaming thresholds: the batch answer after every step, windows, forgetting, bad input."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamcal import losses
from streamcal.kernels.min_plus import MinPlus
from streamcal.kernels.prefix_extrema import PrefixExtrema
from streamcal.ordinal import StreamingThresholds, optimal_thresholds
from tests.contract import BAD, BAD_SCORES, BAD_WEIGHTS, RIVER_BASE_CHECKS, state
from tests.oracles_thresholds import least_risk, total_cost

LOSSES = {
    "absolute": losses.get_task("absolute"),
    "squared": losses.get_task("squared"),
    "asymmetric": losses.AsymmetricError(under=3.0, over=0.5),
    "zero-one": losses.get_task("zero-one"),
}


def check(stream: Any, samples: Any) -> None:
    """Compare with the batch solver on (score, label, weight) triples."""
    assert stream.n_samples == len(samples)
    stream._index.check()
    if not samples:
        assert stream.predict_one(0.0) is None
        assert stream.risk == 0.0
        return
    scores, labels, w = map(np.array, zip(*samples, strict=True))
    assert stream.n_scores == len(set(scores))
    batch = optimal_thresholds(scores, labels, stream.n_labels, loss=stream._loss, w=w)
    assert stream.risk == pytest.approx(batch.risk, rel=1e-9, abs=1e-12)
    thresholds = stream.thresholds
    assert thresholds.tolist() == sorted(thresholds)
    found = 1 + np.searchsorted(thresholds, scores, side="right")
    table = stream._loss.table(stream.n_labels)
    assert total_cost(found, labels, table, w) == pytest.approx(batch.risk, rel=1e-9, abs=1e-12)
    if stream._loss.is_convex(stream.n_labels):
        np.testing.assert_array_equal(thresholds, batch.thresholds)
    for score in (*scores[:3], -1e9, 1e9, float(scores.mean())):
        assert stream.predict_one(score) == 1 + np.searchsorted(thresholds, score, side="right")
    assert stream.predict_many(scores[:3]).tolist() == [stream.predict_one(s) for s in scores[:3]]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_step_of_a_random_program_is_the_batch_answer(data: st.DataObject) -> None:
    n_labels = data.draw(st.sampled_from([2, 3, 5, 10]))
    loss = LOSSES[data.draw(st.sampled_from(sorted(LOSSES)))]
    stream = StreamingThresholds(n_labels, loss)
    held: list[Any] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if held and data.draw(st.booleans()):
            sample = held.pop(data.draw(st.integers(0, len(held) - 1)))
            stream.unlearn_one(*sample)
        else:
            sample = (
                data.draw(st.integers(0, 9)) / 4,
                data.draw(st.integers(1, n_labels)),
                data.draw(st.integers(1, 8)) / 4,
            )
            held.append(sample)
            stream.learn_one(*sample)
        check(stream, held)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_any_table_of_costs_is_solved_exactly(data: st.DataObject) -> None:
    n_labels = data.draw(st.integers(2, 4))
    row = st.lists(st.integers(0, 7), min_size=n_labels, max_size=n_labels)
    loss = losses.CostTable(data.draw(st.lists(row, min_size=n_labels, max_size=n_labels)))
    stream, samples = StreamingThresholds(n_labels, loss), []
    for _ in range(data.draw(st.integers(1, 8))):
        samples.append((data.draw(st.integers(0, 6)) / 2, data.draw(st.integers(1, n_labels)), 1.0))
        stream.learn_one(*samples[-1])
        scores, labels, w = map(np.array, zip(*samples, strict=True))
        least = least_risk(scores, labels, loss.table(n_labels), w)
        assert stream.risk == pytest.approx(least, abs=1e-9)


@pytest.mark.parametrize("loss", ["zero-one", "table"])
@pytest.mark.parametrize("n_labels", [4, 8, 12])
def test_equally_good_answers_do_not_depend_on_the_order_of_samples(
    loss: Any, n_labels: int
) -> None:
    rng = np.random.default_rng(n_labels)
    if loss == "table":
        loss = losses.CostTable(rng.integers(0, 4, (n_labels, n_labels)).tolist())
    for _ in range(20):
        n = int(rng.integers(200, 800))
        scores = rng.integers(0, 300, n) / 300
        noisy = np.round(scores * n_labels + rng.normal(0.0, n_labels / 4, n))
        labels = np.clip(noisy, 1, n_labels).astype(np.int64)
        first = StreamingThresholds(n_labels, loss)
        first.learn_many(scores, labels)
        for order in (np.argsort(scores), np.argsort(-scores), rng.permutation(n)):
            other = StreamingThresholds(n_labels, loss)
            for i in order.tolist():
                other.learn_one(scores[i], labels[i])
            np.testing.assert_array_equal(other.thresholds, first.thresholds)
        if loss != "zero-one":  # which the batch solver does in a way of its own
            batch = optimal_thresholds(scores, labels, n_labels, loss=loss)
            np.testing.assert_array_equal(first.thresholds, batch.thresholds)


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize(("n_labels", "decimals"), [(3, 6), (7, 2), (12, 6), (12, 1)])
def test_long_programs_that_split_and_join_chunks(name: Any, n_labels: int, decimals: int) -> None:
    rng = np.random.default_rng(n_labels)
    stream, held = StreamingThresholds(n_labels, LOSSES[name]), list[Any]()
    for share in (0.9, 0.2, 0.7, 0.05):
        for step in range(700):
            if held and rng.random() > share:
                stream.unlearn_one(*held.pop(int(rng.integers(len(held)))))
            else:
                score = round(rng.normal(), decimals)
                label = int(
                    np.clip(round(n_labels * (0.5 + score / 4 + rng.normal() / 9)), 1, n_labels)
                )
                held.append((score, label, float(rng.integers(1, 4))))
                stream.learn_one(*held[-1])
            if step % 100 == 0 or len(held) < 3:
                check(stream, held)
        check(stream, held)
    for sample in held:
        stream.unlearn_one(*sample)
    check(stream, [])


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
@pytest.mark.parametrize("window", [1, 50, 1_000])
@pytest.mark.parametrize("name", ["absolute", "zero-one"])
def test_windows_forget_exactly(order: str, window: int, name: str) -> None:
    rng = np.random.default_rng(5)
    scores = np.sort(rng.normal(size=1_500).round(2))
    scores = {"ascending": scores, "descending": scores[::-1], "shuffled": rng.permutation(scores)}[
        order
    ]
    labels = rng.integers(1, 6, 1_500)
    stream = StreamingThresholds(5, name, window=window)
    samples = [(s, y, 1.0) for s, y in zip(scores.tolist(), labels.tolist(), strict=True)]
    for i, sample in enumerate(samples):
        stream.learn_one(*sample)
        if i % 250 == 249 or i < 3:
            check(stream, samples[max(0, i + 1 - window) : i + 1])


def test_a_window_forgets_samples_whose_weight_has_vanished() -> None:
    stream = StreamingThresholds(3, half_life=0.1, window=200)
    for i in range(1500):
        stream.learn_one(0.5, 1 + i % 3)
        assert stream.n_samples <= 200
    stream.learn_many([0.9] * 250, [1] * 250)
    assert stream.n_scores == 1
    assert StreamingThresholds.from_bytes(stream.to_bytes()).to_bytes() == stream.to_bytes()


@pytest.mark.parametrize("window", [None, 40])
def test_half_life_is_a_weight_for_each_age(window: int | None) -> None:
    rng = np.random.default_rng(6)
    stream, samples = StreamingThresholds(4, half_life=7.0, window=window), []
    for _ in range(1_500):  # beyond 2**128 of growth
        samples.append((round(rng.normal(), 1), int(rng.integers(1, 5))))
        stream.learn_one(*samples[-1])
    ages = np.arange(len(samples))[::-1]
    kept = ages < (window or 500)
    scores, labels = (np.array(column)[kept] for column in zip(*samples, strict=True))
    batch = optimal_thresholds(scores, labels, 4, w=0.5 ** (ages[kept] / 7.0))
    np.testing.assert_allclose(stream.thresholds, batch.thresholds)
    assert stream.risk == pytest.approx(batch.risk, rel=1e-9)


def test_learning_many_is_learning_one_by_one() -> None:
    rng = np.random.default_rng(7)
    scores, labels = rng.normal(size=900).round(2), rng.integers(1, 5, 900)
    w = rng.integers(1, 5, 900) / 2
    for options in ({}, {"window": 300}, {"half_life": 20.0, "window": 700}):
        loop, batch = StreamingThresholds(4, **options), StreamingThresholds(4, **options)
        for sample in zip(scores, labels, w, strict=True):
            loop.learn_one(*sample)
        for part in (slice(0, 10), slice(10, 500), slice(500, 900)):
            batch.learn_many(scores[part], labels[part], w[part])
        np.testing.assert_array_equal(batch.thresholds, loop.thresholds)
        assert batch.risk == pytest.approx(loop.risk, rel=1e-12)
        assert batch.n_samples == loop.n_samples
    loop.learn_many([], [])
    assert batch.risk == pytest.approx(loop.risk, rel=1e-12)


def test_digits_lost_to_a_heavy_sample_come_back() -> None:
    stream = StreamingThresholds(3, window=4)
    stream.learn_one(0.0, 3, 1e12)
    stream.learn_one(0.0, 1, 0.1)
    stream.learn_one(0.0, 3, 0.01)
    stream.learn_one(1.0, 3, 1.0)
    stream.learn_one(1.0, 3, 1.0)
    assert stream.predict_one(0.0) == 1
    assert stream.risk == 0.02


def test_result_labels_scores() -> None:
    stream = StreamingThresholds(3)
    stream.learn_many([1, 2, 3], [1, 2, 3])
    found = stream.result()
    assert (found.risk, found.method, found.certified) == (0.0, "streaming", True)
    assert found([1, 2, 3]).tolist() == [1, 2, 3]


def test_unsorted_extrema_are_solved_anew() -> None:
    """More labels than the min-plus tree takes, and 3 before 1: boundaries alone fail."""
    stream = StreamingThresholds(12, "zero-one")
    assert isinstance(stream._index, PrefixExtrema)
    stream.learn_many([0, 1, 2, 3, 4], [3, 3, 1, 1, 1])
    before = state(stream)
    assert stream.risk == 2.0
    assert stream.predict_one(4.0) == 1
    assert state(stream) == before
    assert isinstance(StreamingThresholds(8, "zero-one")._index, MinPlus)


def test_extrema_that_rounding_unsorts_are_solved_anew() -> None:
    stream = StreamingThresholds(3, "absolute")
    samples = [(0.5, 1, 0.3), (1.0, 1, 1e-18), (0.25, 2, 0.3)]
    for sample in samples:
        stream.learn_one(*sample)
    assert stream.risk == pytest.approx(0.3)
    answers = [stream.predict_one(score) for score, _, _ in samples]
    assert answers == stream.predict_many([score for score, _, _ in samples]).tolist()


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_weights_of_all_sizes_cost_no_more_than_rounding(data: st.DataObject) -> None:
    n_labels = data.draw(st.sampled_from([3, 4, 9]))
    loss = LOSSES[data.draw(st.sampled_from(sorted(LOSSES)))]
    window = data.draw(st.sampled_from([None, 4]))
    stream, samples = StreamingThresholds(n_labels, loss, window=window), []
    weights = st.sampled_from([0.3, 0.9, 1.0, 1e-18, 1e-16, 1e17])
    for _ in range(data.draw(st.integers(1, 12))):
        score, label = data.draw(st.integers(0, 6)) / 4, data.draw(st.integers(1, n_labels))
        samples.append((score, label, data.draw(weights)))
        stream.learn_one(*samples[-1])
        scores, labels, w = map(np.array, zip(*samples[-(window or 99) :], strict=True))
        table = loss.table(n_labels)
        batch = optimal_thresholds(scores, labels, n_labels, loss=loss, w=w, method="dp")
        thresholds = stream.thresholds
        assert thresholds.tolist() == sorted(thresholds)
        found = 1 + np.searchsorted(thresholds, scores, side="right")
        rounding = 1e-13 * table.max() * w.sum()
        assert total_cost(found, labels, table, w) <= batch.risk + rounding
        assert [stream.predict_one(score) for score in scores] == found.tolist()


# What may come ------------------------------------------------------------------------------------


@pytest.fixture
def taught() -> Any:
    stream = StreamingThresholds(3, window=20)
    stream.learn_many([0.1, 0.4, 0.4, 0.8], [1, 2, 1, 3])
    return stream


@pytest.mark.parametrize("score", BAD_SCORES)
def test_a_bad_score_is_refused(taught: Any, score: Any) -> None:
    before = state(taught)
    for method in (taught.learn_one, taught.unlearn_one):
        with pytest.raises(BAD, match="`score`"):
            method(score, 1)
    with pytest.raises(BAD, match="`score`"):
        taught.predict_one(score)
    assert state(taught) == before


@pytest.mark.parametrize("w", BAD_WEIGHTS)
def test_a_bad_weight_is_refused(taught: Any, w: Any) -> None:
    before = state(taught)
    for method in (taught.learn_one, taught.unlearn_one):
        with pytest.raises(BAD, match="`w`"):
            method(0.4, 1, w)
    assert state(taught) == before


@pytest.mark.parametrize("label", [0, 4, 1.5, math.nan, math.inf, "1", None, np.uint8(0)])
def test_a_bad_label_is_refused(taught: Any, label: Any) -> None:
    before = state(taught)
    for method in (taught.learn_one, taught.unlearn_one):
        with pytest.raises(BAD, match="`y`"):
            method(0.4, label)
    assert state(taught) == before


@pytest.mark.parametrize("size", [5, 200])
def test_a_bad_batch_changes_nothing(taught: Any, size: int) -> None:
    before = state(taught)
    scores, labels = np.linspace(0, 1, size), np.ones(size, int)
    for bad in ((np.r_[scores[1:], np.nan], labels), (scores, np.r_[labels[1:], 4])):
        with pytest.raises(ValueError, match=f"at position {size - 1}"):
            taught.learn_many(*bad)
    with pytest.raises(ValueError, match="`w`"):
        taught.learn_many(scores, labels, -np.ones(size))
    with pytest.raises(ValueError, match="`y`"):
        taught.learn_many(scores, labels[1:])
    assert state(taught) == before


@pytest.mark.parametrize("sample", [(0.1, 2), (0.2, 1), (0.4, 3), (0.1, 1, 2.0), (0.1, 1, 0.5)])
def test_what_was_not_learned_cannot_be_taken_back(taught: Any, sample: Any) -> None:
    before = state(taught)
    with pytest.raises(ValueError, match="must have been learned together"):
        taught.unlearn_one(*sample)
    assert state(taught) == before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_labels": 1}, ValueError, "`n_labels` must be an int from 2 to 32767, got 1"),
        ({"n_labels": 3, "window": 0}, ValueError, "`window` must be a positive int or None"),
        ({"n_labels": 3, "half_life": 0}, ValueError, "`half_life` must lie in"),
        ({"n_labels": 3, "loss": "log"}, ValueError, "`loss` must be one of 'absolute'"),
        ({"n_labels": 3, "loss": losses.Squared()}, TypeError, "`loss` must be a name or"),
    ],
)
def test_bad_parameters_are_refused(arguments: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        StreamingThresholds(**arguments)


def test_before_learning_there_are_no_thresholds() -> None:
    stream = StreamingThresholds(3)
    assert stream.predict_one(0.5) is None
    for ask in (lambda: stream.thresholds, stream.result, lambda: stream.predict_many([1.0])):
        with pytest.raises(ValueError, match="need at least one learned sample"):
            ask()


def test_copies_are_independent_and_clones_fresh(taught: Any) -> None:
    twin, pickled = copy.deepcopy(taught), pickle.loads(pickle.dumps(taught))
    expected = taught.thresholds
    for other in (twin, pickled):
        np.testing.assert_array_equal(other.thresholds, expected)
        other.learn_many(np.full(15, 0.4), np.full(15, 3))
        assert other.risk != taught.risk
    np.testing.assert_array_equal(taught.thresholds, expected)
    taught.thresholds[0] = 7.0  # an answer is the caller's
    np.testing.assert_array_equal(taught.thresholds, expected)
    clone = taught.clone()
    assert (clone.n_samples, clone.n_labels, clone.window) == (0, 3, 20)


@pytest.mark.parametrize("check_base", RIVER_BASE_CHECKS, ids=lambda c: c.__name__)
def test_it_passes_the_basic_checks_of_river(check_base: Any) -> None:
    check_base(StreamingThresholds(3))


def test_memory_is_bounded_by_the_window() -> None:
    rng = np.random.default_rng(8)
    stream, sizes = StreamingThresholds(4, window=500), []
    for _ in range(5):
        stream.learn_many(rng.normal(size=2_000), rng.integers(1, 5, 2_000))
        sizes.append(stream._raw_memory_usage)
    assert max(sizes) <= 1.25 * sizes[0]


def test_samples_of_two_labels_that_vanish_together_leave_no_score() -> None:
    """Each of the two is forgotten before their sum is: no sample is left at their score."""
    stream = StreamingThresholds(3, window=100, half_life=0.1)
    stream.learn_one(0.5, 1, 0.75 * 2.0**-20)
    stream.learn_one(0.5, 2, 0.75 * 2.0**-30)
    for _ in range(40):
        stream.learn_one(0.9, 1)
        stream._index.check()
    assert stream.n_scores == 1
    again = StreamingThresholds.from_bytes(stream.to_bytes())
    assert again.n_samples == stream.n_samples
