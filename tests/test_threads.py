"""Many threads on one object: each call happens as a whole, in some order."""

import copy
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamcal import (
    AnytimeCalibrator,
    BetaCalibrator,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PAVStack,
    PlattCalibrator,
    StreamingThresholds,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VennAbersCalibrator,
    losses,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from streamcal.decision import Metric
from streamcal.durable import Store
from streamcal.ordinal import CuSumRank, KernelCuSumRank, PACuSumRank, PRank
from tests.invariants import Structure

N_THREADS, N_CALLS = 8, 300


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Let threads take turns as often as can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None]) -> None:
    """Run ``work`` in all threads at once; raise what the first of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(N_THREADS)

    def body(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(N_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def batch(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    scores = rng.integers(0, 400, N_CALLS) / 400
    return scores, (rng.random(N_CALLS) < scores).astype(float)


def use(calibrator: Any, number: int) -> None:
    """Learn and predict, one by one and many at once."""
    scores, labels = batch(number)
    if number % 2:
        calibrator.learn_many(scores, labels)
        answers = calibrator.predict_many(scores)
    else:
        for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
            calibrator.learn_one(score, label)
        answers = np.array([calibrator.predict_one(score) for score in scores.tolist()])
    assert ((answers >= 0.0) & (answers <= 1.0)).all()
    calibrator.to_bytes()


def test_a_lock_that_dies_runs_no_code() -> None:
    """Python loses what a signal handler raises in the callback of a weak reference."""
    hedge = HedgedCalibrator()
    for owner in (hedge, KeyedCalibrator(hedge)):
        assert weakref.getweakrefcount(owner._mutex) == 0


def test_a_staircase_learns_all_samples_in_any_order() -> None:
    calibrator, alone = IsotonicCalibrator(), IsotonicCalibrator()
    together(lambda number: use(calibrator, number))
    for number in range(N_THREADS):
        alone.learn_many(*batch(number))
    Structure(calibrator).check()
    for mine, other in zip(calibrator.samples(), alone.samples(), strict=True):
        np.testing.assert_array_equal(mine, other)
    grid = np.linspace(0, 1, 999)
    np.testing.assert_array_equal(calibrator.predict_many(grid), alone.predict_many(grid))


def test_a_window_holds_as_many_as_it_should() -> None:
    calibrator = IsotonicCalibrator(window=100)
    together(lambda number: use(calibrator, number))
    Structure(calibrator).check()
    assert calibrator.n_samples == 100


def test_samples_are_taken_back_while_others_come() -> None:
    calibrator, empty = VennAbersCalibrator(), VennAbersCalibrator()

    def come_and_go(number: int) -> None:
        samples = list(zip(*map(np.ndarray.tolist, batch(number)), strict=True))
        for sample in samples:
            calibrator.learn_one(*sample)
            low, high = calibrator.predict_interval_one(sample[0])
            assert 0.0 <= low <= high <= 1.0
        for sample in samples:
            calibrator.unlearn_one(*sample)

    together(come_and_go)
    Structure(calibrator.isotonic).check()
    assert calibrator.n_samples == calibrator.isotonic.n_scores == 0
    assert calibrator.to_bytes() == empty.to_bytes()


@pytest.mark.parametrize(
    "calibrator",
    [HedgedCalibrator(), PlattCalibrator(calibeating=5), BetaCalibrator(), HistogramCalibrator()],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_all_else_counts_each_sample_once(calibrator: Any) -> None:
    together(lambda number: use(calibrator, number))
    learned = {
        HedgedCalibrator: lambda: calibrator.n_samples,
        PlattCalibrator: lambda: calibrator._kernel.state()[0][-1],
        BetaCalibrator: lambda: calibrator._kernel.state()[0][-1],
        HistogramCalibrator: lambda: calibrator._kernel.state()[0][:, 1].sum(),
    }[type(calibrator)]()
    assert learned == N_THREADS * N_CALLS


@pytest.mark.parametrize("kind", [AuditedCalibrator, PriorShiftCalibrator])
def test_mixtures_of_two_maps_learn_with_their_tickets(kind: Any) -> None:
    calibrator = kind(HedgedCalibrator([PlattCalibrator(), BetaCalibrator()]))
    given = {"propensity": 0.5} if calibrator.needs_propensity else {}

    def learn(number: int) -> None:
        for score, label in list(zip(*map(np.ndarray.tolist, batch(number)), strict=True))[:40]:
            p, ticket = calibrator.serve_one(score)
            assert 0.0 <= p <= 1.0
            calibrator.learn_one(score, label, ticket=ticket, **given)
            for twin in (copy.deepcopy(calibrator), kind.from_bytes(calibrator.to_bytes())):
                assert {clone.n_samples for clone in twin._clones} == {twin.n_samples}

    together(learn)
    assert calibrator.n_samples == N_THREADS * 40


def test_a_temperature_counts_each_sample_once() -> None:
    calibrator = TemperatureCalibrator()

    def learn(number: int) -> None:
        for score, label in zip(*map(np.ndarray.tolist, batch(number)), strict=True):
            calibrator.learn_one({0: 1.0 - score, 1: score}, int(label))
            answer = calibrator.predict_one({0: 1.0 - score, 1: score})
            assert sum(answer.values()) == pytest.approx(1.0)

    together(learn)
    assert calibrator._kernel.n_samples == N_THREADS * N_CALLS


@pytest.mark.parametrize(
    "model",
    [
        CuSumRank(averaging="uniform", window=100),
        PACuSumRank(margin=1.0, window=100),
        PRank(window=100),
        KernelCuSumRank(budget=20, window=100),
    ],
    ids=lambda model: type(model).__name__,
)
def test_ranks_come_up_in_all_threads(model: Any) -> None:
    """New labels and new features, while others learn, predict and write bytes."""

    def learn(number: int) -> None:
        scores, _ = batch(number)
        frame = pd.DataFrame({"a": scores, f"thread {number}": 1.0})
        labels = (frame["a"] * 10 + number).astype(int)
        if number % 4 == 1 and hasattr(model, "learn_many"):
            model.learn_many(frame, labels)
            assert sum(model.predict_proba_many(frame).iloc[0]) == pytest.approx(1.0)
            assert set(model.predict_many(frame)) <= set(model.known_labels)
            return
        for i, (x, label) in enumerate(zip(frame.to_dict("records"), labels, strict=True)):
            model.learn_one(x, label)
            answers = model.predict_proba_one(x)
            assert sum(answers.values()) == pytest.approx(1.0)
            assert model.predict_one(x) in model.known_labels
            if i % 50 == 0:
                type(model).from_bytes(model.to_bytes())

    together(learn)
    assert model.n_samples == N_THREADS * N_CALLS
    assert model.known_labels == tuple(range(17))
    if isinstance(model, KernelCuSumRank):
        assert model.n_kept == len(model.counts) == 20
    else:
        assert set(model.weights) == {"a", *(f"thread {n}" for n in range(N_THREADS))}
    state = model.to_bytes()
    assert type(model).from_bytes(state).to_bytes() == state


def test_what_is_learned_during_a_merge_is_kept() -> None:
    calibrator = IsotonicCalibrator()
    others = [IsotonicCalibrator() for _ in range(N_THREADS)]
    for number, other in enumerate(others):
        other.learn_many(*batch(number))

    def learn_and_merge(number: int) -> None:
        for score, label in zip(*map(np.ndarray.tolist, batch(number)), strict=True):
            calibrator.learn_one(score, label)
        calibrator.merge(others[number])
        calibrator.learn_many(*batch(number))

    together(learn_and_merge)
    Structure(calibrator).check()
    assert calibrator.n_samples == 3 * N_THREADS * N_CALLS


def test_weights_are_read_whole() -> None:
    hedged = HedgedCalibrator()

    def learn_or_look(number: int) -> None:
        if number < 2:
            hedged.learn_many(np.tile(batch(number)[0], 50), np.tile(batch(number)[1], 50))
        for _ in range(500):
            assert sum(hedged.weights.values()) == pytest.approx(1.0)
            assert sum(hedged.share_weights.values()) == pytest.approx(1.0)

    together(learn_or_look)


def test_hedges_that_serve_while_they_learn_give_tickets_they_take_back() -> None:
    calibrator = HedgedCalibrator()

    def serve(number: int) -> None:
        for score, label in zip(*map(np.ndarray.tolist, batch(number)), strict=True):
            answer, ticket = calibrator.serve_one(score)
            assert 0.0 < answer < 1.0 or ticket.n_samples == 0
            calibrator.learn_one(score, label, ticket=ticket)

    together(serve)
    # Labels of several threads with no prediction between them may be a group: one sample.
    assert calibrator._without_burst()._kernel.n_labels == N_THREADS * N_CALLS
    assert calibrator.n_samples <= N_THREADS * N_CALLS
    assert sum(calibrator.weights.values()) == pytest.approx(1.0)


# Prefix extrema; min-plus products; extrema that may come out unsorted and are solved anew.
ORDINAL = [(5, "absolute"), (4, "zero-one"), (10, "zero-one")]


def ranks(n_labels: int, number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    scores = rng.integers(0, 400, N_CALLS) / 400
    noisy = np.round(scores * n_labels + rng.normal(0.0, 1.0, N_CALLS))
    return scores, np.clip(noisy, 1, n_labels).astype(np.int64)


def use_thresholds(thresholds: StreamingThresholds, number: int) -> None:
    """Learn and predict, one by one and many at once."""
    scores, labels = ranks(thresholds.n_labels, number)
    if number % 2:
        thresholds.learn_many(scores, labels)
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        if not number % 2:
            thresholds.learn_one(score, label)
        assert thresholds.predict_one(score) in range(1, thresholds.n_labels + 1)
    found = thresholds.result()
    assert found.thresholds.tolist() == sorted(found.thresholds)
    assert 0.0 <= found.risk <= thresholds.n_labels * N_THREADS * N_CALLS
    thresholds.to_bytes()


@pytest.mark.parametrize(("n_labels", "loss"), ORDINAL)
def test_thresholds_learn_all_samples_in_any_order(n_labels: int, loss: str) -> None:
    thresholds = StreamingThresholds(n_labels, loss)
    together(lambda number: use_thresholds(thresholds, number))
    alone = StreamingThresholds(n_labels, loss)
    for number in range(N_THREADS):
        alone.learn_many(*ranks(n_labels, number))
    thresholds._index.check()
    assert thresholds.n_samples == alone.n_samples == N_THREADS * N_CALLS
    np.testing.assert_array_equal(thresholds.thresholds, alone.thresholds)
    assert thresholds.risk == alone.risk


@pytest.mark.parametrize(("n_labels", "loss"), ORDINAL)
def test_a_window_of_thresholds_holds_as_many_as_it_should(n_labels: int, loss: str) -> None:
    thresholds = StreamingThresholds(n_labels, loss, window=100, half_life=50.0)
    together(lambda number: use_thresholds(thresholds, number))
    thresholds._index.check()
    assert thresholds.n_samples == 100


@pytest.mark.parametrize(("n_labels", "loss"), ORDINAL)
def test_samples_of_thresholds_are_taken_back_while_others_come(n_labels: int, loss: str) -> None:
    thresholds = StreamingThresholds(n_labels, loss)

    def come_and_go(number: int) -> None:
        samples = list(zip(*map(np.ndarray.tolist, ranks(n_labels, number)), strict=True))
        for sample in samples:
            thresholds.learn_one(*sample)
            assert thresholds.risk >= 0.0
        for sample in samples:
            thresholds.unlearn_one(*sample)
            thresholds.predict_one(sample[0])

    together(come_and_go)
    thresholds._index.check()
    assert thresholds.n_samples == thresholds.n_scores == 0
    assert thresholds.to_bytes() == StreamingThresholds(n_labels, loss).to_bytes()


def jaccard(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    return tp / (tp + fp + fn)


@pytest.mark.parametrize("metric", ["f1", Metric(jaccard)], ids=["coded", "function"])
@pytest.mark.parametrize("window", [None, 300])
def test_thresholds_are_those_of_some_order(metric: Any, window: int | None) -> None:
    eum, alone = EUMThreshold(metric, window=window), EUMThreshold(metric)

    def work(number: int) -> None:
        scores, labels = batch(number)
        if number % 2:
            eum.learn_many(scores, labels)
        for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
            if not number % 2:
                eum.learn_one(score, label)
            assert 0.0 <= eum.utility <= 1.0
            assert isinstance(eum.predict_one(score), bool)
        curve = eum.curve()
        assert len(curve.thresholds) == len(curve.utilities)
        if isinstance(metric, str):
            eum.to_bytes()

    together(work)
    eum._index.check()
    if window is None:
        for number in range(N_THREADS):
            alone.learn_many(*batch(number))
    else:  # the content of the window shows the order
        queue = eum._index.state()[1]["queue"]
        assert len(queue) == window
        alone.learn_many(queue[:, 0], (queue[:, 1] > 0).astype(float))
    for mine, other in zip(eum.curve(), alone.curve(), strict=True):
        np.testing.assert_array_equal(mine, other)
    assert eum.utility == alone.utility


def test_a_window_that_is_solved_anew_holds_the_last_of_all_samples() -> None:
    calibrator = AnytimeCalibrator("absolute", window=10_000, every=500)
    together(lambda number: use(calibrator, number))
    scores, labels, _ = calibrator._freeze()[1]["samples"].T
    expected = [np.concatenate(part) for part in zip(*map(batch, range(N_THREADS)), strict=True)]
    assert sorted(zip(scores, labels, strict=True)) == sorted(zip(*expected, strict=True))
    calibrator.solve()
    assert calibrator.half_width == 0.0


# Copies and answers of one instant ----------------------------------------------------------------


def while_learning(learner: Any, look: Callable[[], None]) -> None:
    """Look again and again while other threads learn, one by one and many at once."""

    def work(number: int) -> None:
        if number:
            use(learner, number)
        else:
            for _ in range(100):
                look()

    together(work)


def of_bytes(calibrator: Any) -> Any:
    return type(calibrator).from_bytes(calibrator.to_bytes())


def of_pickle(calibrator: Any) -> Any:
    return pickle.loads(pickle.dumps(calibrator))


def of_snapshot(calibrator: Any) -> Any:
    snapshot = calibrator.snapshot()
    twin = snapshot._predict._function.__self__
    assert snapshot.n_samples == twin.n_samples
    return twin


COPIES = [copy.deepcopy, of_pickle, of_bytes, of_snapshot]


@pytest.mark.parametrize("twin_of", COPIES, ids=lambda f: f.__name__)
def test_a_copy_of_a_hedge_is_of_one_instant(twin_of: Any) -> None:
    calibrators = [IsotonicCalibrator(), HistogramCalibrator(), IsotonicCalibrator("log")]
    hedged = HedgedCalibrator(calibrators)

    def look() -> None:
        twin = twin_of(hedged)
        first, _, last = twin._calibrators
        assert twin.n_samples == first.n_samples == last.n_samples
        twin.learn_one(0.5, 1.0)  # it learns as a whole, too
        assert twin.n_samples == twin._calibrators[0].n_samples

    while_learning(hedged, look)
    assert hedged.n_samples == (N_THREADS - 1) * N_CALLS


def test_a_snapshot_of_a_staircase_is_of_one_instant() -> None:
    calibrator = IsotonicCalibrator(prior=0.0)
    calibrator.learn_one(0.5, 1.0)

    def look() -> None:
        snapshot: Any = calibrator.snapshot()
        assert snapshot._predict.__self__.weights.sum() == snapshot.n_samples

    while_learning(calibrator, look)


class Meddler(losses.Log):
    """A loss that calls a function whenever a staircase is made of blocks."""

    meddle: Callable[[], None] = staticmethod(lambda: None)

    def link(self, mean: Any) -> Any:
        self.meddle()
        return super().link(mean)


def test_parts_of_the_loss_are_of_one_instant() -> None:
    loss = Meddler()
    calibrator = IsotonicCalibrator(loss)
    calibrator.learn_many([0.9, 0.5, 0.4], [1.0, 0.0, 1.0])
    before = calibrator.corp()
    loss.meddle = lambda: calibrator.learn_one(0.8, 0.0)
    assert calibrator.corp() == before
    assert calibrator.corp() != before


def test_a_merge_takes_another_calibrator_as_it_is_at_one_instant() -> None:
    """Scores are all different, so each that is learned is there or has been merged."""
    other, finished = IsotonicCalibrator(max_scores=8), list[int]()
    scores = np.random.default_rng(1).permutation(80_000).reshape(N_THREADS, 200, 50)

    def work(number: int) -> None:
        while number == 0 and len(finished) < N_THREADS - 1:
            calibrator = IsotonicCalibrator()
            calibrator.merge(other)
            assert calibrator.n_scores + calibrator.n_merged == calibrator.n_samples
        if number:
            for part in scores[number]:
                other.learn_many(part, np.zeros(50))
            finished.append(number)

    together(work)


def test_a_batch_of_a_hedge_is_one_call() -> None:
    n, done, seen = 200_000, threading.Event(), set()
    hedged = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()])

    def learn() -> None:
        hedged.learn_many(np.full(n, 0.5), np.arange(n) % 2)
        done.set()

    thread = threading.Thread(target=learn)
    thread.start()
    while not done.is_set():
        # A property may include a part of the batch: it is read without waiting.
        _, (n_samples, _) = hedged.serve_one(0.5)
        seen.add(n_samples)
    thread.join()
    assert seen <= {0, n}


class Recorder(IdentityCalibrator):
    """Keeps the scores that it has learned."""

    def __init__(self) -> None:
        super().__init__()
        self.learned: list[float] = []

    def learn_one(self, score: float, y: float, w: float = 1.0, **given: Any) -> None:
        self.learned.append(score)


def test_batches_of_a_hedge_do_not_mix() -> None:
    hedged = HedgedCalibrator([Recorder()])

    def learn(number: int) -> None:
        for _ in range(3):
            hedged.learn_many(np.full(50, number / 10), np.ones(50))
            hedged.learn_one(0.9, 1.0)

    together(learn)
    recorder: Any = hedged._calibrators[0]
    lengths: dict[float, list[int]] = {score: [] for score in recorder.learned}
    for score, run in groupby(recorder.learned):
        lengths[score].append(len(list(run)))
    assert all(n % 50 == 0 for score in lengths if score != 0.9 for n in lengths[score])
    assert sum(lengths[0.9]) == 3 * N_THREADS


# Classes of several parts -------------------------------------------------------------------------


@pytest.mark.parametrize("max_live", [None, 3])
def test_calibrators_by_key_learn_each_sample_once(max_live: int | None) -> None:
    keyed = KeyedCalibrator(IsotonicCalibrator(), max_live=max_live)

    def work(number: int) -> None:
        scores, labels = (column[:100] for column in batch(number))
        keys = [f"k{i % 7}" for i in range(100)]
        if number % 2:
            keyed.learn_many(keys, scores, labels)
        for key, score, label in zip(keys, scores.tolist(), labels.tolist(), strict=True):
            if not number % 2:
                keyed.learn_one(key, score, label)
            assert 0.0 <= keyed.predict_one(key, score) <= 1.0
        assert set(keyed) == set(keys)
        assert len(keyed) == 7
        assert keyed.memory_usage > 0
        twin = copy.deepcopy(keyed)
        assert len(twin) == 7

    together(work)
    assert max_live is None or keyed.n_live == max_live
    learned = [keyed.snapshot(key).n_samples for key in keyed]
    assert sum(learned) == N_THREADS * 100


def test_what_is_learned_during_a_save_is_saved_by_the_next(tmp_path: Path) -> None:
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(IsotonicCalibrator(), max_live=3, store=store)

        def work(number: int) -> None:
            scores, labels = batch(number)
            for i, (score, label) in enumerate(zip(scores[:60], labels[:60], strict=True)):
                keyed.learn_one(i % 7, score, label)
                assert i % 7 in keyed
                if i % 10 == number:
                    keyed.save()

        together(work)
        keyed.save()
    with Store(tmp_path / "run.db", read_only=True) as store:
        states = store.load().states
        assert sum(calibrator.n_samples for calibrator in states.values()) == N_THREADS * 60


def test_top_labels_count_each_sample_once() -> None:
    calibrator = TopLabelCalibrator(IsotonicCalibrator())

    def work(number: int) -> None:
        for i in range(100):
            raw = {f"label {i % 30}": 0.7, "other": 0.3}
            calibrator.learn_one(raw, "other")
            assert sum(calibrator.predict_one(raw).values()) == pytest.approx(1.0)
            if i == 10 * number:
                twin = copy.deepcopy(calibrator)
                assert TopLabelCalibrator.from_bytes(twin.to_bytes()).to_bytes() == twin.to_bytes()

    together(work)
    calibrators: Any = calibrator._calibrators.values()
    assert sum(each.n_samples for each in calibrators) == N_THREADS * 100


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_stack_takes_each_sample_once(loss: str) -> None:
    stack = PAVStack(loss)

    def work(number: int) -> None:
        for i in range(40):
            stack.push(1.0, float((i * number) % 7))
            assert 0.0 <= stack.predict_one(1.0) <= 6.0
            assert len(stack) == 1
        stack.push_many(np.ones(40), np.arange(40) % 7)
        for twin in (copy.deepcopy(stack), of_bytes(stack), of_pickle(stack)):
            assert twin.staircase().weights.sum() <= N_THREADS * 80

    together(work)
    assert stack.staircase().weights.sum() == N_THREADS * 80


def test_a_stack_learns_all_or_nothing_while_another_thread_writes_to_its_arrays() -> None:
    n, ended = 20_000, threading.Event()
    x, y = np.arange(float(n)), np.arange(n) % 2.0
    quiet = PAVStack("log")
    quiet.push_many(x, y)

    def write() -> None:
        while not ended.is_set():
            y[n // 2], y[n // 4], x[n // 3] = np.nan, 7.0, -5.0
            y[n // 2], y[n // 4], x[n // 3] = 0.0, 0.0, n // 3

    def push(stack: PAVStack) -> None:
        before = stack.to_bytes()
        try:
            stack.push_many(x, y)
        except ValueError:
            assert stack.to_bytes() == before
        else:
            stairs = stack.staircase()
            assert stairs.weights.sum() == n
            assert ((stairs.values >= 0.0) & (stairs.values <= 1.0)).all()
            assert (np.diff(stairs.values) > 0.0).all()
            assert of_bytes(stack).to_bytes() == stack.to_bytes()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            push(PAVStack("log"))
    finally:
        ended.set()
        writer.join()
    again = PAVStack("log")
    again.push_many(x, y)
    assert again.to_bytes() == quiet.to_bytes()


@pytest.mark.parametrize(("name", "value"), [("x", -5.0), ("x", np.nan), ("y", np.nan), ("y", 1e6)])
def test_arrays_that_change_once_they_were_checked_are_refused(name: str, value: float) -> None:
    """The statistics are asked for after the checks, and before the samples are pooled."""
    n = 1_000
    arrays = {"x": np.arange(float(n)), "y": np.arange(n) % 2.0}

    class Changing(losses.Log):
        def statistic(self, y: Any) -> Any:
            if np.size(y) == n:
                arrays[name][n // 2] = value
            return y

    stack = PAVStack(Changing())
    with pytest.raises(ValueError, match=r"must not be (changed|less)|must be (finite|small)"):
        stack.push_many(arrays["x"], arrays["y"])
    assert len(stack) == 0
    stack.push_many([0.2, 0.5], [0.0, 1.0])
    assert stack.predict_one(0.5) == 1.0


def test_a_prediction_is_not_counted_as_a_score() -> None:
    calibrator, ended = VennAbersCalibrator(), threading.Event()
    calibrator.learn_many(np.arange(100) / 100, np.arange(100) % 2)

    def predict() -> None:
        while not ended.is_set():
            calibrator.predict_one(0.005)

    other = threading.Thread(target=predict)
    other.start()
    try:
        assert {calibrator.isotonic.n_scores for _ in range(100_000)} == {100}
    finally:
        ended.set()
        other.join()


FINALIZER = """
import copy, gc, pickle, sys
from streamcal import EUMThreshold, HistogramCalibrator, IsotonicCalibrator, PAVStack
from streamcal import StreamingThresholds, VennAbersCalibrator

kind = sys.argv[1]
learner = globals()[kind](2) if kind == "StreamingThresholds" else globals()[kind]()
for i in range(40):
    if kind == "PAVStack":
        learner.push(i, i % 2)
    else:
        learner.learn_one(i / 40, 1 + i % 2 if kind == "StreamingThresholds" else i % 2)

class Garbage:
    n_finalized = 0

    def __init__(self):
        self.me = self

    def __del__(self):
        learner.to_bytes()
        Garbage.n_finalized += 1

calls = [learner.to_bytes, lambda: copy.deepcopy(learner), lambda: pickle.dumps(learner)]
for name in "samples", "snapshot", "staircase", "curve":
    if hasattr(learner, name):
        calls.append(getattr(learner, name))
gc.collect()
gc.freeze()
for call in calls:
    for n_made in range(60):  # the collector runs when so many objects have been made
        gc.disable()
        Garbage()
        gc.set_threshold(n_made + 1)
        gc.enable()
        call()
        assert gc.isenabled()
gc.collect()
assert Garbage.n_finalized == 60 * len(calls), Garbage.n_finalized
"""


@pytest.mark.parametrize(
    "kind",
    [
        "IsotonicCalibrator",
        "VennAbersCalibrator",
        "HistogramCalibrator",
        "StreamingThresholds",
        "EUMThreshold",
        "PAVStack",
    ],
)
def test_a_finalizer_may_call_the_object_that_is_in_use(kind: str) -> None:
    """The garbage collector starts at any of the objects that a call makes."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", FINALIZER, kind],  # not what lies in this folder
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
