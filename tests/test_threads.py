"""Many threads on one object: each call happens as a whole, in some order."""

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from streamcal import HedgedCalibrator, HistogramCalibrator, IsotonicCalibrator, PlattCalibrator
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
    """Learn and ask, one by one and many at once."""
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


def test_a_staircase_has_learned_all_samples_whatever_their_order() -> None:
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
    calibrator, empty = IsotonicCalibrator(), IsotonicCalibrator()

    def come_and_go(number: int) -> None:
        samples = list(zip(*map(np.ndarray.tolist, batch(number)), strict=True))
        for sample in samples:
            calibrator.learn_one(*sample)
            low, high = calibrator.predict_interval_one(sample[0])
            assert 0.0 <= low <= high <= 1.0
        for sample in samples:
            calibrator.unlearn_one(*sample)

    together(come_and_go)
    Structure(calibrator).check()
    assert calibrator.n_samples == calibrator.n_scores == 0
    assert calibrator.to_bytes() == empty.to_bytes()


@pytest.mark.parametrize(
    "calibrator",
    [HedgedCalibrator(), PlattCalibrator(calibeating=5), HistogramCalibrator()],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_all_else_counts_each_sample_once(calibrator: Any) -> None:
    together(lambda number: use(calibrator, number))
    learned = {
        HedgedCalibrator: lambda: calibrator.n_learned,
        PlattCalibrator: lambda: calibrator._platt.state()[0][5],
        HistogramCalibrator: lambda: calibrator._cells.state()[0][:, 1].sum(),
    }[type(calibrator)]()
    assert learned == N_THREADS * N_CALLS


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
            assert 0.0 < answer < 1.0 or ticket.n_learned == 0
            calibrator.learn_one(score, label, served=ticket)

    together(serve)
    assert calibrator.n_learned == N_THREADS * N_CALLS
    assert sum(calibrator.weights.values()) == pytest.approx(1.0)
