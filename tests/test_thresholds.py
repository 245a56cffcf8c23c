"""Optimal thresholds: all methods against brute force and against each other; jobs; errors."""

import os
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import losses
from streamcal.ordinal import StreamingThresholds, optimal_thresholds
from streamcal.ordinal import _jobs as jobs_module
from streamcal.ordinal._jobs import combine, sum_prefixes
from tests.oracles_thresholds import best_kappa, independent_cuts, kappa, least_risk, total_cost

METHODS = ("auto", "dp", "io", "blocked-io", "divide", "subsequence")


@st.composite
def problems(draw: Any, max_size: float = 8, max_labels: float = 4) -> tuple[Any, Any, Any, Any]:
    """Scores with ties, labels, weights that sum exactly."""
    n_labels = draw(st.integers(2, max_labels))
    n = draw(st.integers(1, max_size))
    scores = draw(st.lists(st.integers(0, 12), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(1, n_labels), min_size=n, max_size=n))
    quarters = draw(st.none() | st.lists(st.integers(1, 9), min_size=n, max_size=n))
    w = None if quarters is None else np.array(quarters) / 4
    return np.array(scores) / 8, np.array(labels), n_labels, w


@st.composite
def task_losses(draw: Any, n_labels: Any) -> Any:
    name = draw(st.sampled_from(["absolute", "squared", "zero-one", "asymmetric", "table"]))
    if name == "asymmetric":
        return losses.AsymmetricError(under=3.0, over=0.5)
    if name == "table":
        costs = st.lists(st.integers(0, 7), min_size=n_labels, max_size=n_labels)
        return losses.CostTable(draw(st.lists(costs, min_size=n_labels, max_size=n_labels)))
    return losses.get_task(name)


def goes_with(method: Any, loss: Any, n_labels: Any) -> Any:
    if method == "divide":
        return loss.is_convex(n_labels)
    return method != "subsequence" or loss.name == "zero-one"


LIGHT_AND_HEAVY = st.sampled_from([1e-17, 1e-9, 0.3, 1.0, 1e7, 1e16, 3e17])


@given(st.data())
def test_certified_thresholds_are_optimal_whatever_the_weights(data: st.DataObject) -> None:
    scores, labels, n_labels, _ = data.draw(problems())
    n = len(scores)
    w = np.array(data.draw(st.lists(LIGHT_AND_HEAVY, min_size=n, max_size=n)))
    loss = data.draw(task_losses(n_labels))
    table = loss.table(n_labels)
    least = least_risk(scores, labels, table, w)
    stream = StreamingThresholds(n_labels, loss)
    for sample in zip(scores.tolist(), labels.tolist(), w.tolist(), strict=True):
        stream.learn_one(*sample)
    methods = [method for method in METHODS if goes_with(method, loss, n_labels)]
    results = [
        optimal_thresholds(scores, labels, n_labels, loss=loss, w=w, method=method)
        for method in methods
    ]
    for found in (*results, stream.result()):
        if found.certified or found.method == "dp":
            assert found.certified
            assert total_cost(found(scores), labels, table, w) <= least * (1.0 + 1.1e-6)


@pytest.mark.parametrize("weight", [1e16, 1e17, 1e30])
@pytest.mark.parametrize(("n_labels", "loss"), [(2, "absolute"), (2, "zero-one"), (12, "squared")])
def test_thresholds_that_rounding_may_have_moved_are_not_certified(
    n_labels: int, loss: str, weight: float
) -> None:
    samples = [0.1, 0.2, 0.3], [1, 1, 2], [weight, 1.0, 1.0]
    stream = StreamingThresholds(n_labels, loss)
    for sample in zip(*samples, strict=True):
        stream.learn_one(*sample)
    batch = optimal_thresholds(*samples[:2], n_labels, loss=loss, w=samples[2])
    for found in (stream.result(), batch):  # the least risk is 0
        assert found.certified == (found.risk == 0.0)
    exact = optimal_thresholds(*samples[:2], n_labels, loss=loss, w=samples[2], method="dp")
    assert (exact.risk, exact.certified) == (0.0, True)


@pytest.mark.parametrize("loss", ["absolute", "squared", "zero-one", "quadratic-kappa"])
def test_thresholds_of_ordinary_weights_are_certified(loss: str) -> None:
    rng = np.random.default_rng(0)
    scores, w = rng.uniform(1.0, 9.0, 100_000), rng.uniform(0.1, 10.0, 100_000)
    labels = np.clip(rng.normal(scores, 1.0).round(), 1, 9).astype(int)
    assert optimal_thresholds(scores, labels, loss=loss, w=w).certified
    if loss != "quadratic-kappa":
        stream = StreamingThresholds(9, loss, half_life=5_000.0)
        stream.learn_many(scores[:20_000], labels[:20_000], w[:20_000])
        assert stream.result().certified


@given(st.data())
def test_every_method_against_brute_force(data: st.DataObject) -> None:
    scores, labels, n_labels, w = data.draw(problems())
    loss = data.draw(task_losses(n_labels))
    table, weights = loss.table(n_labels), np.ones(len(scores)) if w is None else w
    least = least_risk(scores, labels, table, weights)
    for method in METHODS:
        if not goes_with(method, loss, n_labels):
            continue
        block = 3 if method == "blocked-io" else None
        found = optimal_thresholds(
            scores, labels, n_labels, loss=loss, w=w, method=method, block_size=block
        )
        assert found.thresholds.tolist() == sorted(found.thresholds)
        answers = found(scores)
        assert found.risk == pytest.approx(total_cost(answers, labels, table, weights), abs=1e-9)
        if found.certified:
            assert found.risk == pytest.approx(least, abs=1e-9)
        else:
            assert method in ("io", "blocked-io")
            assert not loss.is_convex(n_labels)
            assert found.risk >= least - 1e-9


@given(st.data())
def test_convex_losses_have_one_answer_by_every_method(data: st.DataObject) -> None:
    """Not the risk alone: the first best cut of each boundary, so thresholds are equal too."""
    scores, labels, n_labels, w = data.draw(problems(max_size=60, max_labels=9))
    name = data.draw(st.sampled_from(["absolute", "squared"]))
    found = [
        optimal_thresholds(
            scores, labels, n_labels, loss=name, w=w, method=method, block_size=block
        )
        for method, block in (("dp", None), ("io", None), ("blocked-io", 7), ("divide", None))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.thresholds, found[0].thresholds)
        assert other.risk == found[0].risk
    assert all(result.certified for result in found)


@pytest.mark.parametrize("n_labels", [2, 3, 10, 55, 70])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_methods_agree_on_thousands_of_samples(n_labels: int, weighted: bool, ties: bool) -> None:
    """Beyond the kernels' blocks, and beyond 64 labels, whose bits take a second word."""
    rng = np.random.default_rng(n_labels)
    scores = rng.normal(size=3_001)
    noisy = np.clip(np.round(n_labels * (0.5 + scores / 4 + rng.normal(0, 0.1, 3_001))), 1, None)
    labels = np.minimum(noisy, n_labels).astype(np.int64)
    w = rng.integers(1, 9, 3_001) / 4 if weighted else None
    if ties:
        scores = np.round(scores, 2)
    found = [
        optimal_thresholds(scores, labels, n_labels, w=w, method=method)
        for method in ("dp", "io", "blocked-io", "divide")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.thresholds, found[0].thresholds)
    zero_one = [
        optimal_thresholds(scores, labels, n_labels, w=w, method=method, loss="zero-one").risk
        for method in ("dp", "subsequence", "auto")
    ]
    assert zero_one == [zero_one[0]] * 3


def test_thresholds_alone_are_those_of_cumulative_sums() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 6, 2_000)
    table = losses.CostTable(rng.integers(0, 9, (6, 6))).table(6)
    differences = np.ascontiguousarray((table[:-1] - table[1:]).T)
    where = jobs_module.JobOptions(block_size=700)
    found = jobs_module.solve(labels.astype(np.uint16), np.empty(0), differences, where)
    np.testing.assert_array_equal(found, independent_cuts(labels, table))


def test_unsorted_thresholds_are_reported_and_auto_is_still_optimal() -> None:
    """A zero-one problem, as a table so that `auto` has no shortcut, where IO fails."""
    scores, labels = np.arange(5.0), np.array([3, 3, 1, 1, 1])
    loss = losses.CostTable(losses.get_task("zero-one").table(3))
    alone = optimal_thresholds(scores, labels, 3, loss=loss, method="io")
    assert not alone.certified
    least = least_risk(scores, labels, loss.table(3), np.ones(5))
    best = optimal_thresholds(scores, labels, 3, loss=loss)
    assert (best.method, best.certified, best.risk) == ("dp", True, least)
    assert alone.risk > least


def test_sorted_thresholds_certify_any_loss() -> None:
    """Theorem 1: what comes out sorted is optimal although the loss is not convex."""
    rng = np.random.default_rng(0)
    certified = 0
    for _ in range(60):
        labels = np.sort(rng.integers(1, 5, 12)) + (rng.random(12) < 0.1)
        labels = np.clip(labels, 1, 4)
        found = optimal_thresholds(np.arange(12), labels, 4, loss="zero-one", method="io")
        if found.certified:
            certified += 1
            exact = optimal_thresholds(np.arange(12), labels, 4, loss="zero-one", method="dp")
            assert found.risk == exact.risk
    assert certified > 20


@given(problems())
def test_kappa_is_the_greatest_there_is(problem: Any) -> None:
    scores, labels, n_labels, w = problem
    weights = np.ones(len(scores)) if w is None else w
    for method in ("auto", "dp", "io", "blocked-io"):
        found = optimal_thresholds(
            scores, labels, n_labels, w=w, loss="quadratic-kappa", method=method
        )
        if len(set(labels)) == 1:
            assert found.risk == 0.0
            assert (found(scores) == labels).all()
        else:
            best = best_kappa(scores, labels, n_labels, weights)
            assert 1.0 - found.risk == pytest.approx(best, abs=1e-12)
            reached = kappa(found(scores), labels, n_labels, weights)
            assert best == pytest.approx(1.0 if np.isnan(reached) else reached, abs=1e-12) or (
                np.isnan(reached) and best <= 0.0
            )


def test_balanced_weights_give_the_macro_averaged_error() -> None:
    rng = np.random.default_rng(1)
    labels = rng.choice([1, 2, 4], 200, p=[0.8, 0.15, 0.05])
    scores = labels + rng.normal(0, 1, 200)
    found = optimal_thresholds(scores, labels, 5, class_weight="balanced")
    error = np.abs(found(scores) - labels)
    macro = np.mean([error[labels == label].mean() for label in (1, 2, 4)])
    assert found.risk / 200 == pytest.approx(macro, rel=1e-12)
    plain = optimal_thresholds(scores, labels, 5)
    error = np.abs(plain(scores) - labels)
    assert macro < np.mean([error[labels == label].mean() for label in (1, 2, 4)])
    by_hand = optimal_thresholds(scores, labels, 5, class_weight=[1, 2, 3, 4, 5])
    sampled = optimal_thresholds(scores, labels, 5, w=labels)
    np.testing.assert_array_equal(by_hand.thresholds, sampled.thresholds)


# Thresholds as a thing ----------------------------------------------------------------------------


def test_candidates_are_midpoints_and_infinities() -> None:
    found = optimal_thresholds([1.0, 2.0, 4.0], [2, 2, 3], 4)
    assert found.thresholds.tolist() == [-np.inf, 3.0, np.inf]
    assert found([-1e300, 2.9, 3.0, 1e300]).tolist() == [2, 2, 3, 3]
    assert (found.n_labels, found.risk, found(3)) == (4, 0.0, 3)
    assert isinstance(found(3), int)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1.0, np.nextafter(1.0, 2.0)), (5e-324, 1e-323), (-1.7e308, 1.7e308), (-5e-324, 0.0)],
)
def test_neighbours_without_a_midpoint_are_still_separated(low: float, high: Any) -> None:
    found = optimal_thresholds([low, high], [1, 2])
    assert found([low, high]).tolist() == [1, 2]


def test_constant_scores_get_one_label() -> None:
    found = optimal_thresholds(np.zeros(5), [1, 1, 3, 3, 3], 3)
    assert found(np.zeros(2)).tolist() == [3, 3]
    assert found.risk == 4.0


def test_labelling_refuses_nan_and_takes_infinities() -> None:
    found = optimal_thresholds([1, 2], [1, 2])
    assert found([-np.inf, np.inf]).tolist() == [1, 2]
    assert found([]).tolist() == []
    with pytest.raises(ValueError, match="`scores` must be numbers, got nan at position 1"):
        found([1.0, np.nan])
    with pytest.raises(TypeError, match="`scores`"):
        found(["a"])
    assert pickle.loads(pickle.dumps(found))(1.7) == 2


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, object])
def test_kinds_of_labels(dtype: Any) -> None:
    labels = np.array([1, 2, 3], dtype)
    if dtype is object:
        with pytest.raises(TypeError, match="`y` must hold real numbers"):
            optimal_thresholds([1, 2, 3], labels)
    else:
        assert optimal_thresholds([1, 2, 3], labels).risk == 0.0


OUT = " such samples out"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "`scores` must hold at least one sample, got none"),
        (([1, np.nan], [1, 2]), "`scores` must be finite, got nan at position 1; leave" + OUT),
        (([1, np.inf], [1, 2]), "`scores` must be finite, got inf at position 1; leave" + OUT),
        (([1, 2], [1, 2, 3]), "`y` must have one value per score (2), got 3"),
        (([1, 2], [0, 1]), "`y` must be ints from 1 to 32767, got 0 at position 0"),
        (([1, 2], [1, 3], 2), "`y` must be ints from 1 to 2, got 3 at position 1"),
        (([1, 2], [1, 1.5], 2), "`y` must be ints from 1 to 2, got 1.5 at position 1"),
        (([1, 2], [1, np.nan], 2), "`y` must be ints from 1 to 2, got nan at position 1"),
        (([1, 2], [[1, 2]], 2), "`y` must be one-dimensional, got shape (1, 2)"),
        (([1, 2], [1, 1]), "`n_labels` must be given where no label is greater than 1"),
        (([1, 2], [1, 1], 1), "`n_labels` must be an int from 2 to 32767, got 1"),
    ],
)
def test_bad_samples_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        optimal_thresholds(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fast"}, "`method` must be one of"),
        ({"loss": "zero-one", "method": "divide"}, "needs a loss that is convex"),
        ({"method": "subsequence"}, "needs the zero-one loss"),
        ({"loss": "quadratic-kappa", "method": "subsequence"}, "`method` must be one of 'dp'"),
        ({"n_jobs": 0}, "`n_jobs` must be a positive int"),
        ({"n_jobs": None}, "`n_jobs` must be a positive int"),
        ({"block_size": -1}, "`block_size` must be a positive int or None, got -1"),
        ({"w": [1, 2, 0]}, "`w` must be a positive finite number, got 0.0 at position 2"),
        ({"w": [1, 2]}, "`w` must have one value per score (3), got 2"),
        ({"class_weight": "even"}, "`class_weight` must be one of 'balanced', got 'even'"),
        ({"class_weight": [1, 2]}, "`class_weight` must have one weight per label (3), got 2"),
        ({"class_weight": [1, 2, -1]}, "`class_weight` must be a positive finite number"),
        ({"loss": losses.CostTable([[0, 1], [1, 0]])}, "`n_labels` must be 2"),
    ],
)
def test_bad_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        optimal_thresholds([1, 2, 3], [1, 2, 3], **options)


# Jobs ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples() -> Any:
    rng = np.random.default_rng(4)
    scores = rng.normal(size=4_000).round(2)
    labels = np.clip(np.round(3 + scores + rng.normal(0, 0.7, 4_000)), 1, 6).astype(np.int64)
    return scores, labels, rng.integers(1, 9, 4_000) / 4


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs of any size run in processes."""
    monkeypatch.setattr(jobs_module, "LEAST_CELLS", 0)


@given(st.data())
def test_summaries_combine_associatively(data: st.DataObject) -> None:
    n = data.draw(st.integers(3, 40))
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.uint16)
    w = np.array(data.draw(st.lists(st.sampled_from([1, 2, -1]), min_size=n, max_size=n))) / 2
    table = losses.get_task("squared").table(4)
    differences = np.ascontiguousarray((table[:-1] - table[1:]).T)
    a, b = sorted(data.draw(st.tuples(st.integers(1, n - 1), st.integers(1, n - 1))))
    parts = [sum_prefixes(labels, w, differences, *ends) for ends in ((0, a), (a, b), (b, n))]
    whole = sum_prefixes(labels, w, differences)
    for found in (
        combine(combine(parts[0], parts[1]), parts[2]),
        combine(parts[0], combine(parts[1], parts[2])),
    ):
        np.testing.assert_array_equal(found[:2], whole[:2])
        where = np.isfinite(whole[1])
        np.testing.assert_array_equal(found[2, where], whole[2, where])


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("method", ["io", "blocked-io", "auto"])
@pytest.mark.parametrize("weighted", [False, True])
def test_jobs_find_the_same(samples: Any, method: str, weighted: bool) -> None:
    scores, labels, w = samples
    w = w if weighted else None
    one = optimal_thresholds(scores, labels, 6, w=w, method="divide")
    for block in (None, 999):
        many = optimal_thresholds(scores, labels, 6, w=w, method=method, n_jobs=2, block_size=block)
        np.testing.assert_array_equal(many.thresholds, one.thresholds)
        assert many.risk == one.risk
        assert many.method == ("divide" if method == "auto" else method)


def pids() -> list[int]:
    return [worker.pid for worker in jobs_module._spare]


@pytest.mark.usefixtures("processes")
def test_processes_stay_between_solves_and_a_killed_one_is_replaced(samples: Any) -> None:
    scores, labels, _ = samples
    expected = optimal_thresholds(scores, labels)
    optimal_thresholds(scores, labels, method="io", n_jobs=2)
    before = pids()
    optimal_thresholds(scores, labels, method="io", n_jobs=2)
    assert sorted(pids()) == sorted(before)
    killed = next(each for each in jobs_module._spare if each.pid == before[0])
    assert killed._running is not None
    killed._running.process.kill()
    killed._running.process.join()  # a signal takes its time
    again = optimal_thresholds(scores, labels, method="io", n_jobs=2)
    np.testing.assert_array_equal(again.thresholds, expected.thresholds)
    assert before[0] not in pids()


def test_short_jobs_need_no_process(samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels, _ = samples
    monkeypatch.setattr(jobs_module, "_run_tasks", None)  # which must not be asked
    found = optimal_thresholds(scores, labels, n_jobs=2)
    assert found.method == "divide"
    assert optimal_thresholds(scores, labels, n_jobs=2, method="io").risk == found.risk


def test_a_job_that_kills_its_process_ends_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "_summarise_shared", _die)
    monkeypatch.setattr(jobs_module, "_spare", [])
    with pytest.raises(RuntimeError, match="has died 3 times"):
        jobs_module._run_tasks(
            np.zeros(1, np.uint16), np.empty(0), np.zeros((2, 1)), [(0, 1, 0, 1)], 1
        )
    assert jobs_module._spare == []


def _die(*_: Any) -> None:
    os._exit(1)


def test_in_a_background_process_jobs_run_in_threads(
    samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import multiprocess

    scores, labels, w = samples
    expected = optimal_thresholds(scores, labels, w=w)
    daemon = type("Process", (), {"daemon": True})()
    monkeypatch.setattr(multiprocess, "current_process", lambda: daemon)
    monkeypatch.setattr(jobs_module, "LEAST_CELLS", 0)
    monkeypatch.setattr(jobs_module, "_take_workers", None)  # which must not be asked
    found = optimal_thresholds(scores, labels, w=w, n_jobs=3, method="blocked-io")
    np.testing.assert_array_equal(found.thresholds, expected.thresholds)
