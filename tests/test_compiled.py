"""What is compiled ahead of time, by itself: `.ci/checked` runs this under sanitizers too.

Random programs run through the kernels and through the oracles; what the last revision on numba
answered is recorded in `recorded/`, with what it was asked.
"""

import copy
import math
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from streamcal.calibration.beta import BetaCalibrator
from streamcal.calibration.blocks import blocks_of, fit_blocks
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.histogram import HistogramCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.stack import PAVStack
from streamcal.calibration.staircase import Staircase, isotonic_fit
from streamcal.kernels import pav
from streamcal.kernels.hedge import Hedge
from streamcal.kernels.histogram import Cells
from streamcal.kernels.isotonic import IsotonicExpert, IsotonicRegression
from streamcal.kernels.score_index import ScoreIndex
from tests import oracles

RECORDED = Path(__file__).parent / "recorded"


def bits(array):
    """Return floats as integers, which tell 0 from -0 and compare NaN."""
    return np.ascontiguousarray(array, np.float64).view(np.int64)


def pav_answers(x, y, w):
    """Ask everything that sums, products, quotients and comparisons answer."""
    grid = np.concatenate([x, x + 0.03, [x.min() - 1, x.max() + 1, np.nan]])
    found = []
    for interpolation in ("linear", "step", "centered"):
        stairs = isotonic_fit(x, y, w, interpolation=interpolation)
        found += [stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers]
        found += [stairs(grid), stairs(grid, outside="nan")]
    found.append(blocks_of(x, y, w).ravel())
    low = x <= np.median(x)
    stairs = fit_blocks(np.concatenate([blocks_of(x[k], y[k], w[k]) for k in (~low, low)]))
    found += [stairs.lower, stairs.values, stairs.centers]
    stack = PAVStack(interpolation="centered")
    for at in np.argsort(x, kind="stable"):
        stack.push(x[at], y[at], w[at])
        found.append(np.array([*map(stack.predict_one, grid[:5]), len(stack)]))
    return np.concatenate([*found, stack.staircase().values])


def test_pav_answers_as_it_did_on_numba():
    with np.load(RECORDED / "pav.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            assert_array_equal(
                bits(pav_answers(*recorded[f"asked{at}"])), bits(recorded[f"answered{at}"])
            )


def isotonic_answers(asked):
    """Learn, take back and ask as a program says; its first row has the window and the prior."""
    (window, prior, *_), *program = asked.tolist()
    calibrator = IsotonicCalibrator(window=int(window) or None, prior=prior)
    answers, live = [], []
    for what, score, y, w in program:
        if what == 0 and live and not window:
            calibrator.unlearn_one(*live.pop(len(live) // 2))
        elif what == 1:
            answers.append(calibrator.predict_one(score))
        elif what == 2:
            answers.extend(calibrator.predict_interval_one(score))
        else:
            calibrator.learn_one(score, y, w)
            live.append((score, y, w))
    stairs = calibrator.staircase()
    found = [stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers]
    return np.concatenate([answers, *found, calibrator.predict_many(np.linspace(-0.1, 1.1, 50))])


def test_isotonic_answers_as_it_did_on_numba():
    with np.load(RECORDED / "isotonic.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            found = isotonic_answers(recorded[f"asked{at}"])
            assert_array_equal(bits(found), bits(recorded[f"answered{at}"]))


def histogram_answers(n_bins, half_life, prior, samples):
    """Learn samples (score, label, weight), and ask after each."""
    calibrator = HistogramCalibrator(n_bins, half_life, prior)
    found = []
    for score, y, w in samples:
        calibrator.learn_one(score, y, w)
        found += [calibrator.predict_one(score), calibrator.predict_one(1.0 - score)]
    return np.concatenate([found, calibrator._freeze()[1]["cells"].ravel()])


def test_histograms_answer_as_they_did_on_numba():
    with np.load(RECORDED / "histogram.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            n_bins, half_life, prior = recorded[f"parameters{at}"].tolist()
            answers = histogram_answers(
                int(n_bins), half_life or None, prior, recorded[f"asked{at}"].tolist()
            )
            assert_array_equal(bits(answers), bits(recorded[f"answered{at}"]))


def test_histograms_have_copies():
    original = HistogramCalibrator(n_bins=2, half_life=9.0)
    for k in range(100):
        original.learn_one(k % 37 / 37, k % 2)
    twins = copy.deepcopy(original), pickle.loads(pickle.dumps(original))
    for twin in (*twins, HistogramCalibrator.from_bytes(original.to_bytes())):
        twin.learn_one(0.5, 1)
        assert twin._freeze()[1]["cells"].tolist() != original._freeze()[1]["cells"].tolist()
    assert len({twin.predict_one(0.4) for twin in twins}) == 1


@pytest.mark.parametrize("seed", range(20))
def test_pav_equals_exact_arithmetic(seed):
    rng = np.random.default_rng(seed)
    stack, pushed = PAVStack(), []
    scores = np.sort(rng.integers(0, 30, 60)).astype(float)
    for x in np.split(scores, np.sort(rng.integers(0, 60, 9))):
        y, w = rng.integers(-3, 4, len(x)).astype(float), rng.integers(1, 4, len(x)).astype(float)
        if len(x) % 2:
            stack.push_many(x, y, w)
        else:
            for sample in zip(x, y, w, strict=True):
                stack.push(*sample)
        pushed += zip(x, y, w, strict=True)
        stack = rng.choice([stack, copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))])
        stack = rng.choice([stack, PAVStack.from_bytes(stack.to_bytes())])
        if pushed:
            blocks = oracles.isotonic_blocks(*zip(*pushed, strict=True))
            stairs = stack.staircase()
            assert_array_equal(stairs.values, [float(block.value) for block in blocks])
            assert_array_equal(stairs.upper, [block.upper for block in blocks])
            assert len(stack) == len(blocks)


def test_read_only_arrays_do():
    x, w, s = np.arange(4.0), np.ones(4), np.array([0.0, 2.0, 1.0, 4.0])
    for array in (x, w, s):
        array.flags.writeable = False
    assert_array_equal(pav.Stack.of(x, w, s).describe()[0][2], [0.0, 1.5, 4.0])
    assert pav.order_of(x) == pav.INCREASING


@pytest.mark.parametrize("n", [1, 7, 64])
@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf, -1.0, 2.0])
def test_a_label_out_of_range_is_found_wherever_it_is(n, bad):
    labels = np.linspace(0.0, 1.0, n)
    assert pav.inside(labels, 0.0, 1.0, True, True)
    assert not pav.inside(labels, 0.0, 1.0, False, True)
    for at in range(n):
        labels[at], good = bad, labels[at]
        assert not pav.inside(labels, 0.0, 1.0, True, True)
        assert pav.inside(labels, -math.inf, math.inf, False, False) == math.isfinite(bad)
        labels[at] = good


def test_a_stack_takes_samples_from_many_threads():
    """Any order of the calls leaves the stack as that order would: here all leave it the same."""
    stack = pav.Stack()
    halves = np.full(500, 0.5)

    def work(label):
        for _ in range(40):
            assert stack.push(7.0, 1.0, label)
            assert stack.extend(np.full(500, 7.0), np.ones(500), halves)
            (lower, upper, _, _, center), finite = stack.describe()
            assert (lower[0], upper[0], center[0], finite) == (7.0, 7.0, 7.0, True)
            assert 0.0 <= stack.find(7.0, False)[1] <= 1.0

    threads = [threading.Thread(target=work, args=(float(k % 2),)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, weight, magnitude = stack.state()
    assert rows[:, 2:4].tolist() == [[8 * 40 * 501.0, 8 * 40 * 250.5]]
    assert (weight, magnitude) == (8 * 40 * 501.0, 8 * 40 * 250.5)


# --- what must not get further than an error


class Wrong(BetaCalibrator):
    """Answers to batches with what it is told to."""

    answers = np.empty(0)

    def predict_learn_many(self, scores, y, w=None):
        return self.answers


@pytest.mark.parametrize(
    "answers",
    [np.full(100_000, 0.5), np.full(3, 0.5), np.full((50, 2), 0.5), np.full(50, math.nan)],
    ids=["more", "fewer", "rows", "NaN"],
)
def test_a_hedge_takes_one_number_for_each_score(answers):
    hedged = HedgedCalibrator([Wrong(), PlattCalibrator()])
    hedged._calibrators[0].answers = answers
    with pytest.raises(ValueError, match="one number per score"):
        hedged.predict_learn_many(np.linspace(0, 1, 50), np.ones(50))
    assert hedged.n_learned == 0


def test_a_hedge_that_calls_itself_says_so():
    class Asking(BetaCalibrator):
        def learn_one(self, score, y, w=1.0):
            hedged.predict_one(score)

    hedged = HedgedCalibrator([Asking()])
    with pytest.raises(RuntimeError, match="same thread"):
        hedged.learn_one(0.5, 1)
    assert hedged.predict_one(0.5) == 0.5


def test_numbers_that_another_thread_wrote_into_a_batch_are_not_learned():
    platt, alone = (PlattCalibrator(calibeating=7)._platt for _ in range(2))
    columns = np.array([[0.5, math.nan, 0.2, 0.3, 0.9], [1, 1, math.nan, 7, 0], [1, 1, 1, 1, 1.0]])
    columns = np.hstack([columns, [[0.4, 0.4, 3.0], [1, 0, 1], [math.inf, math.nan, 1]]])
    platt.predict_learn_many(*columns, np.empty(8))
    for i in (0, 4):
        alone.learn(*columns[:, i])
    for mine, other in zip(platt.state(), alone.state(), strict=True):
        assert_array_equal(mine, other)
    assert math.isnan(platt.predict(math.nan))


def test_no_python_runs_under_the_lock_of_a_staircase():
    """A handler of signals that came in there and asked the same object would wait for good."""
    regression = IsotonicCalibrator(window=50, max_scores=8, half_life=0.2)._regression
    called = []
    sys.setprofile(lambda _, event, what: called.append(event) if event == "call" else None)
    for i in range(300):
        regression.learn(i * 0.37 % 1.0, 1.0, 1.0)
    sys.setprofile(None)
    assert (regression.n_scores, called) == (8, [])
    assert regression.n_merged > 0
    regression.check()


def test_columns_of_different_lengths_are_refused():
    regression = IsotonicCalibrator()._regression
    long, short = np.ones(9), np.ones(1)
    for columns in ((long, short, short), (long, long, short)):
        with pytest.raises(ValueError, match="as many"):
            regression.predict_learn_many(*columns, False, np.empty((0, 3)))
        with pytest.raises(ValueError, match="as many"):
            pav.Stack.of(*columns)
    for out in (np.empty((1, 3)), np.empty((9, 1))):
        with pytest.raises(ValueError, match="shape"):
            regression.bracket_many(long, False, out)
        with pytest.raises(ValueError, match="shape"):
            regression.predict_learn_many(long, long, long, False, out)
    with pytest.raises(ValueError, match="as many"):
        pav.blend(short, short, long)
    with pytest.raises(ValueError, match="four"):
        Cells.restore(1, 1.0, np.ones((3, 2)), 1.0)
    with pytest.raises(ValueError, match="six"):
        pav.Stack.restore(np.ones((3, 2)), 1.0, 1.0)


@pytest.mark.parametrize("kind", [Hedge, IsotonicRegression, IsotonicExpert])
def test_there_are_no_half_made_objects(kind):
    with pytest.raises(TypeError):
        kind.__new__(kind)


def test_objects_of_nothing_are_refused():
    with pytest.raises(TypeError):
        IsotonicExpert(None)
    with pytest.raises(ValueError, match="bin"):
        Cells(0, 1.0)
    with pytest.raises(AssertionError):
        ScoreIndex().check()


def test_a_staircase_takes_read_only_arrays_of_any_layout():
    array = np.arange(6.0)
    array.flags.writeable = False
    assert Staircase(*(array[::2] for _ in range(5)))([1, 2]).tolist() == [1.0, 2.0]
