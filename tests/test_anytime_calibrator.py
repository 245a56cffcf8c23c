"""`AnytimeCalibrator`, solved in this process and in another."""

import copy
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from streamcal import AnytimeCalibrator, anytime_isotonic, losses
from tests.contract import calibrator_contract
from tests.test_worker import until

REAL = (float("nan"), float("inf"), "yes", None)

TestContract = calibrator_contract(
    AnytimeCalibrator("log-cosh", window=60, every=7),
    AnytimeCalibrator(losses.Expectile(tau=0.7), window=100),
    AnytimeCalibrator("squared", window=100, every=3, interpolation="step"),
    weights_repeat=False,
    bounded=True,
    bad_labels=REAL,
)


def stream(n: Any, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.uniform(size=n), 3)
    return scores, 3 * scores + rng.normal(size=n), rng.uniform(0.5, 2, n)


@pytest.mark.parametrize("loss", ["squared", "log-cosh", "absolute"])
def test_the_map_is_that_of_the_window_at_the_last_solve(loss: str) -> None:
    scores, y, w = stream(330)
    calibrator = AnytimeCalibrator(loss, window=100, every=30)
    solved = 0
    for n, sample in enumerate(zip(scores, y, w, strict=True), start=1):
        before = calibrator._staircase
        calibrator.learn_one(*sample)
        if calibrator._staircase is before:
            continue
        solved += 1
        part = slice(max(0, n - 100), n)
        expected = anytime_isotonic(scores[part], y[part], w[part], loss=loss)
        grid = np.linspace(0, 1, 40)
        np.testing.assert_allclose(calibrator.predict_many(grid), expected(grid), atol=1e-7)
    assert calibrator.n_samples == 100
    assert 10 <= solved <= 50


def test_solves_fall_due_as_the_window_grows_and_then_regularly() -> None:
    calibrator = AnytimeCalibrator("squared", window=64, every=8)
    at = []
    for n in range(1, 200):
        before = calibrator._staircase
        calibrator.learn_one(n, float(n % 5))
        if calibrator._staircase is not before:
            at.append(n)
    assert at[:4] == [1, 2, 3, 4]
    assert set(np.diff(at[-10:])) == {8}


def test_solve_serves_a_map_at_once() -> None:
    calibrator = AnytimeCalibrator("absolute", every=1_000)
    with pytest.raises(ValueError, match="`solve` needs at least one learned sample"):
        calibrator.solve()
    with pytest.raises(ValueError, match="`staircase` needs a solved window"):
        calibrator.staircase()
    assert calibrator.half_width == np.inf
    calibrator.learn_many(*stream(90))
    stairs = calibrator.solve()
    scores, y, w = stream(90)
    expected = anytime_isotonic(scores, y, w, loss="absolute")
    np.testing.assert_array_equal(stairs.values, expected.values)
    assert calibrator.staircase() is stairs
    assert calibrator.half_width == 0.0


def test_deadline_serves_what_there_is() -> None:
    calibrator = AnytimeCalibrator("squared", deadline=1e-9)
    scores, y, w = stream(500)
    calibrator.learn_many(scores, y, w)
    stairs = calibrator.staircase()
    exact = anytime_isotonic(scores, y, w, loss="squared", tol=1e-12)
    assert stairs.half_width > 0
    assert stairs.floors.min() <= exact.values.min()
    assert stairs.ceilings.max() >= exact.values.max()


def test_tolerance_reaches_the_solver() -> None:
    calibrator = AnytimeCalibrator("log-cosh", tol=0.25)
    calibrator.learn_many(*stream(300))
    assert 0.0 < calibrator.half_width <= 0.25


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"loss": "best"}, ValueError, "`loss` must be one of"),
        ({"window": 0}, ValueError, "`window` must be a positive int"),
        ({"window": None}, ValueError, "`window` must be a positive int, got None"),
        ({"every": -1}, ValueError, "`every` must be a positive int"),
        ({"every": None}, ValueError, "`every` must be a positive int, got None"),
        ({"tol": 0.0}, ValueError, r"`tol` must lie in \(0, inf\) or None"),
        ({"deadline": "soon"}, TypeError, "`deadline` must be a number"),
        ({"interpolation": "cubic"}, ValueError, "`interpolation` must be one of"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(parameters: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        AnytimeCalibrator(**{"loss": "huber", **parameters})


def broken(z: Any, y: Any) -> Any:
    return jnp.where(y > 100, jnp.nan, 1.0) * (z - y) ** 2


BROKEN = losses.from_function(broken, name="broken", check=False)


def test_a_loss_without_a_derivative_is_reported_and_the_map_stays_in_use() -> None:
    calibrator = AnytimeCalibrator(BROKEN, every=5)
    calibrator.learn_many([1, 2, 3], [0.0, 1.0, 2.0])
    answer = calibrator.predict_one(2)
    with pytest.warns(RuntimeWarning, match="`loss` must have a derivative that is a number"):
        calibrator.learn_one(4, 200.0)
    assert calibrator.predict_one(2) == answer
    assert calibrator.n_samples == 4


# In the background --------------------------------------------------------------------------------


@pytest.fixture
def background() -> Iterator[Any]:
    with AnytimeCalibrator("absolute", window=200, every=20, background=True) as calibrator:
        yield calibrator


def feed(calibrator: Any, until_true: Any, seed: int = 0) -> Any:
    """Go on with a stream until something has happened."""
    samples = iter(zip(*stream(1_000_000, seed), strict=True))

    def step() -> Any:
        calibrator.learn_one(*next(samples))
        return until_true()

    return until(step)


def test_the_background_serves_whole_maps(background: Any) -> None:
    assert background.predict_one(0.5) == 0.5
    feed(background, lambda: background._staircase)
    first = background.staircase()
    feed(background, lambda: background.staircase() is not first, seed=1)
    newest = background.staircase()
    feed(background, lambda: background.staircase().weights.sum() > 190, seed=2)
    assert len(newest) > 1
    assert background.predict_one(0.9) > background.predict_one(0.1)
    window = background._samples.rows
    np.testing.assert_array_equal(
        background.solve().values,
        anytime_isotonic(*window.T[:2], window.T[2], loss="absolute").values,
    )


def test_a_worker_that_dies_is_replaced_and_the_old_map_serves(background: Any) -> None:
    feed(background, lambda: background._staircase)
    answer = background.predict_one(0.5)
    dead = background._worker.pid
    os.kill(dead, signal.SIGKILL)
    until(lambda: not background._worker._running.alive())
    assert background.predict_one(0.5) == answer
    feed(background, lambda: background._worker.pid not in (None, dead), seed=1)
    newest = background.staircase()  # perhaps what the dead one had finished
    feed(background, lambda: background.staircase() is not newest, seed=2)


def test_copies_of_a_busy_calibrator_are_whole(background: Any) -> None:
    feed(background, lambda: background._staircase)
    feed(background, lambda: background._worker.busy)
    for twin in (copy.deepcopy(background), pickle.loads(pickle.dumps(background))):
        assert twin.predict_one(0.4) == background.predict_one(0.4)
        assert twin._worker.pid is None
        twin.solve()
    clone = background.clone()
    assert clone.n_samples == 0
    assert clone._worker.pid is None


def test_closing_twice_and_going_on(background: Any) -> None:
    feed(background, lambda: background._staircase)
    before = background.staircase()
    background.close()
    background.close()
    assert background._worker.pid is None
    feed(background, lambda: background.staircase() is not before, seed=1)


def test_a_solve_that_fails_in_the_background_warns(recwarn: pytest.WarningsRecorder) -> None:
    with AnytimeCalibrator(BROKEN, window=50, every=5, background=True) as calibrator:
        warnings.simplefilter("always")

        def failed() -> Any:
            calibrator.learn_one(1.0, 200.0)
            return recwarn.list

        message = str(until(failed)[0].message)
    assert "the previous map is still served" in message
    assert "`loss` must have a derivative that is a number" in message
    assert calibrator._staircase is None


def test_a_solve_that_fails_between_samples_warns_and_learning_goes_on() -> None:
    calibrator = AnytimeCalibrator(BROKEN, window=50, every=5)
    with pytest.warns(RuntimeWarning, match="the previous map is still served"):
        calibrator.learn_many(np.arange(30.0), np.full(30, 200.0))
    assert calibrator.n_samples == 30
    with pytest.raises(ValueError, match="must have a derivative"):
        calibrator.solve()


@pytest.mark.parametrize("window", [1_000, timedelta(days=1)])
def test_a_signal_handler_that_learns_in_the_middle_of_a_call_harms_nothing(window: Any) -> None:
    """At each line of the code that keeps the samples, a trace calls as a handler would."""
    calibrator = AnytimeCalibrator("absolute", window=window, every=1_000)
    learned: list[float] = []
    refused: list[RuntimeError] = []

    def learn(score: float) -> None:
        calibrator.learn_one(score, 1.0, t=5.0)
        learned.append(score)

    def trace(frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith("_ring.py"):
            return None
        if event == "line":
            sys.settrace(None)
            try:
                learn(0.5)
            except RuntimeError as error:
                refused.append(error)
            sys.settrace(trace)
        return trace

    for _ in range(30):
        sys.settrace(trace)
        try:
            learn(0.25)
        finally:
            sys.settrace(None)
    assert "inside one of its calls" in str(refused[0])
    rows = calibrator._samples.rows
    assert sorted(rows[:, 0]) == sorted(learned)
    assert (rows[:, 1:] == 1.0).all()


def test_background_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="`background` must be True or False, got 'no'"):
        AnytimeCalibrator("absolute", background="no")
