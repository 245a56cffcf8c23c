"""What is compiled ahead of time, by itself: `.ci/checked` runs this under sanitizers too.

Random programs run through the kernels and through the oracles; what the last revision on numba
answered is recorded in `recorded/`, with what it was asked.
"""

import contextlib
import copy
import math
import pickle
import sys
import threading
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from streamcal.calibration.blocks import blocks_of, fit_blocks
from streamcal.calibration.histogram import HistogramCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.stack import PAVStack
from streamcal.calibration.staircase import isotonic_fit
from streamcal.decision import (
    AM,
    METRIC_NAMES,
    EUMThreshold,
    GMean,
    Tversky,
    expected_utility,
    get_metric,
    maximize,
    utility_curve,
)
from streamcal.kernels import pav
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


METRICS = (*METRIC_NAMES, AM(zero_division=1), GMean(zero_division="present"), Tversky(0.25, 3.0))
# Methods of sums, products, quotients, roots and comparisons; all others take exponentials, too.
EXACT = ("closed-form", "windows", "leave-one-out", "algorithm-2", "algorithm-1")
NEAR = ("exponential-sums", "branch-and-bound")


def decision_answers(p, history, methods):
    """Ask for the curve, by each method that applies, and the optimum of every metric."""
    found = []
    for metric, method in product(METRICS, methods):
        with contextlib.suppress(ValueError):
            curve = utility_curve(p, metric, history=history, method=method)
            decision = maximize(p, metric, history=history, method=method)
            found += [curve, [decision.k, decision.expected]]
    return np.concatenate(found)


def table_answers(p, history):
    """Ask for metrics of tables, of one sample, and of labels that don't follow probabilities."""
    found = []
    for metric in METRICS:
        formula = get_metric(metric)
        found += [formula(*table) for table in (history, history[::-1], [0.0] * 4, 97.0 * p[:4])]
        found += [maximize(p[:1], metric, history=history).expected]
        found += [expected_utility(p, np.arange(len(p)) % 2, metric, history=history)]
    return np.array(found)


def test_decisions_answer_as_they_did_on_numba():
    with np.load(RECORDED / "decisions.npz") as recorded:
        for at in range(len(recorded.files) // 5):
            p, history = recorded[f"p{at}"], recorded[f"history{at}"]
            assert_array_equal(bits(table_answers(p, history)), bits(recorded[f"tables{at}"]))
            exact = decision_answers(p, history, EXACT if len(p) < 100 else EXACT[:3])
            assert_array_equal(bits(exact), bits(recorded[f"exact{at}"]))
            near = decision_answers(p, history, NEAR)
            assert_allclose(near, recorded[f"near{at}"], rtol=1e-12, atol=1e-15)


def threshold_answers(metric, window, half_life, samples):
    """Learn samples (score, label, weight); ask for the best threshold now and then."""
    eum = EUMThreshold(metric, window=window, half_life=half_life)
    found = []
    for at, sample in enumerate(samples):
        eum.learn_one(*sample)
        if at % 7 == 0:
            found += [eum.threshold, eum.utility]
    curve = eum.curve()
    return np.concatenate([found, curve.thresholds, curve.utilities])


def test_best_thresholds_are_what_they_were_on_numba():
    with np.load(RECORDED / "best_thresholds.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            metric, window, half_life = recorded[f"parameters{at}"].tolist()
            answers = threshold_answers(
                metric, int(window) or None, float(half_life) or None, recorded[f"asked{at}"]
            )
            assert_array_equal(bits(answers), bits(recorded[f"answered{at}"]))


@pytest.mark.parametrize("half_life", [None, 0.5])
@pytest.mark.parametrize("window", [1, 6, 40])
@pytest.mark.parametrize("decades", [0, 3, 55])
def test_a_window_holds_the_sums_of_its_samples(window, half_life, decades):
    """Whatever heavy samples have come and gone, and across copies of any kind."""
    rng = np.random.default_rng(window)
    eum, samples = EUMThreshold("f1", window=window, half_life=half_life), []
    for _ in range(4 * window + 90):
        sample = rng.integers(0, 9) / 9, rng.integers(2), 10.0 ** rng.uniform(-decades, decades)
        eum.learn_one(*sample)
        samples.append(sample)
        eum = rng.choice([eum, copy.deepcopy(eum), pickle.loads(pickle.dumps(eum))])
        eum = rng.choice([eum, EUMThreshold.from_bytes(eum.to_bytes())])
        eum._index.check()
        held = {}
        for age, (score, y, w) in enumerate(reversed(samples[-window:])):
            fading = 1.0 if half_life is None else 0.5 ** (age / half_life)
            held.setdefault(score, ([], []))[1 - y].append(w * fading)
        scores, positive, negative, growth, _ = eum._index.walk()
        assert scores.tolist() == sorted(held, reverse=True)
        for found, which in ((positive, 0), (negative, 1)):
            sums = [math.fsum(held[score][which]) for score in scores]
            assert_allclose(found / growth, sums, rtol=1e-14, atol=1e-200)


def test_a_window_takes_no_more_memory_than_it_did():
    """What rounding leaves out is dropped with the samples it belongs to."""
    eum, rng = EUMThreshold("f1", window=50), np.random.default_rng(1)
    scores, labels = rng.integers(0, 20, 3000) / 20, rng.integers(0, 2, 3000)
    eum.learn_many(scores, labels, 10.0 ** rng.uniform(-9, 9, 3000))
    eum.learn_many(np.arange(500.0), np.ones(500))
    fresh = EUMThreshold("f1", window=50)
    fresh.learn_many(np.arange(500.0), np.ones(500))
    assert sys.getsizeof(eum._index) < 2 * sys.getsizeof(fresh._index) + 4_000


def test_trees_of_thresholds_keep_their_order():
    """Scores come up, down and at random, and leave by age: chunks split, join and are dropped."""
    rng = np.random.default_rng(5)
    scores = np.concatenate([np.arange(2000.0), -np.arange(2000.0), rng.normal(size=4000) * 1e3])
    labels = rng.integers(0, 2, len(scores)).astype(float)
    for window in (None, 1500):
        eum = EUMThreshold("jaccard", window=window)
        for part in np.array_split(np.arange(len(scores)), 40):
            eum.learn_many(scores[part], labels[part])
            eum._index.check()
            curve = eum.curve()
            assert eum.utility == curve.utilities.max()
            assert eum.threshold in curve.thresholds[curve.utilities == eum.utility]
        live = scores[-(window or len(scores)) :]
        assert_array_equal(curve.thresholds[1:], np.unique(live)[::-1])


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
