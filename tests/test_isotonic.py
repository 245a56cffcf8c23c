"""The streaming staircase against exact arithmetic, SciPy and its own structure."""

import copy
import itertools
import math
import os
import pickle
import sys
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy.optimize import isotonic_regression

from streamcal import IsotonicCalibrator, VennAbersCalibrator, _state, isotonic_fit, losses
from streamcal.calibration import Calibrator
from streamcal.metrics import CORP
from tests import oracles
from tests.invariants import INNER, Structure

PUBLISHED = {
    "Busing 2022": (range(7), [8, 4, 8, 2, 2, 0, 8], None, [4] * 6 + [8]),
    "Busing 2022, weighted": (
        range(7),
        [8, 4, 8, 2, 2, 0, 8],
        [1, 2, 3, 4, 5, 5, 4],
        [2.9] * 6 + [8],
    ),
    "R monotone": (
        range(10),
        [0, 6, 8, 3, 5, 2, 1, 7, 9, 4],
        None,
        [0] + [25 / 6] * 6 + [20 / 3] * 3,
    ),
    "scikit-learn": (range(10), [5, 3, 1, 2, 8, 10, 7, 9, 6, 4], None, [2.75] * 4 + [22 / 3] * 6),
    "scikit-learn, weighted": (
        range(7),
        [1, 41, 51, 1, 2, 5, 24],
        [1, 2, 3, 4, 5, 6, 7],
        [1] + [13.95] * 5 + [24],
    ),
    "isotone, tied": ([0, 1, 1, 2, 3, 4], [0, 0, 1, 0, 0, 1], None, [0, 0.25, 0.25, 0.25, 0.25, 1]),
}


def learned(samples: Any, **parameters: Any) -> IsotonicCalibrator:
    calibrator = IsotonicCalibrator(**parameters)
    for sample in samples:
        calibrator.learn_one(*map(float, sample))
    return calibrator


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_numbers_in_every_order(case: str) -> None:
    scores, y, w, expected = PUBLISHED[case]
    samples = list(zip(scores, y, w or [1] * len(y), strict=True))
    orders: Any = itertools.permutations(range(len(y)))
    if len(y) > 7:
        rng = np.random.default_rng(1)
        orders = [rng.permutation(len(y)) for _ in range(200)]
    for order in orders:
        calibrator = learned([samples[i] for i in order], loss="squared")
        np.testing.assert_allclose([calibrator.predict_one(x) for x in scores], expected)


@pytest.mark.parametrize("loss", ["log", "poisson", "logistic", "linex", "squared"])
@pytest.mark.parametrize("interpolation", ["step", "linear"])
def test_is_the_batch_fit_with_the_prior_as_two_samples(loss: str, interpolation: str) -> None:
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 60, 400) / 10
    y = (rng.random(400) < scores / 6) * 1.0
    y = 2 * y - 1 if loss == "logistic" else y + (loss == "linex") * scores
    w = rng.integers(1, 5, 400) / 4
    calibrator = IsotonicCalibrator(loss=loss, prior=2.0, interpolation=interpolation)
    calibrator.learn_many(scores, y, w)
    x = np.linspace(-1, 7, 333)
    ends = {"log": (1.0, 0.0), "logistic": (1.0, -1.0)}.get(loss)
    samples = (scores, y, w)
    if ends:
        samples = (np.r_[scores, -1e6, 1e6], np.r_[y, ends], np.r_[w, 2.0, 2.0])
    blocks = oracles.isotonic_blocks(*samples, loss=loss)
    stairs = calibrator.staircase()
    np.testing.assert_allclose(stairs.values, [b.value for b in blocks], rtol=1e-12)
    np.testing.assert_allclose(stairs.weights, [b.weight for b in blocks], rtol=1e-12)
    np.testing.assert_allclose(calibrator.predict_many(x), stairs(x), rtol=1e-12)
    one_by_one = [calibrator.predict_one(score) for score in x]
    np.testing.assert_array_equal(calibrator.predict_many(x), one_by_one)
    expected = [oracles.evaluate(blocks, score, interpolation) for score in x]
    np.testing.assert_allclose(calibrator.predict_many(x), expected, rtol=1e-9)


def test_a_prior_that_outweighs_all_samples_leaves_one_block() -> None:
    calibrator = learned([(1, 1), (2, 1), (3, 1)], prior=10.0)
    assert calibrator.staircase().values.tolist() == [13 / 23]
    assert calibrator.predict_one(-5) == calibrator.predict_one(7) == 13 / 23


def test_log_loss_is_finite_for_any_samples() -> None:
    calibrator = IsotonicCalibrator()
    calibrator.learn_many(np.arange(1000.0), np.arange(1000) >= 500)
    values = calibrator.predict_many([-1e308, 0, 999, 1e308])
    assert 0 < values[0] == values[1] < 0.01
    assert 0.99 < values[2] == values[3] < 1
    for label in (0, 1):  # even where the prior is lost in rounding
        calibrator = learned([(0.5, label, 1e17)] * 3)
        assert 0 < calibrator.predict_one(0.5) < 1
        assert calibrator.staircase().values.tolist() == [calibrator.predict_one(0.5)]


def laws(name: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels of ``n`` samples by a law that stresses something."""
    x = rng.permutation(n).astype(float)
    return {
        "bernoulli": lambda: (x, (rng.random(n) < x / n) * 1.0),
        "noise": lambda: (x, rng.normal(size=n)),
        "two-level": lambda: (x, ((x > n / 2) ^ (rng.random(n) < 0.03)) * 1.0),
        "increasing": lambda: (x, x**3),
        "decreasing": lambda: (x, -x),
        "ascending": lambda: (np.arange(n) * 1.0, rng.normal(size=n)),
        "descending": lambda: (-np.arange(n) * 1.0, rng.normal(size=n)),
        "ties": lambda: (rng.integers(0, 20, n) / 7, rng.integers(0, 3, n) * 1.0),
        "zero-one": lambda: (rng.integers(0, 2, n) * 1.0, rng.integers(0, 2, n) * 1.0),
        "alternating": lambda: (x[0] + np.arange(n) * (-1.0) ** np.arange(n), x % 2),
        "wide weights": lambda: (x, rng.normal(size=n)),
    }[name]()


LAWS = [
    "bernoulli",
    "noise",
    "two-level",
    "increasing",
    "decreasing",
    "ascending",
    "descending",
    "ties",
    "zero-one",
    "alternating",
    "wide weights",
]


@pytest.mark.parametrize("law", LAWS)
def test_agrees_with_scipy_while_scores_come_and_go(law: str) -> None:
    rng = np.random.default_rng(LAWS.index(law))
    scores, y = laws(law, 3000, rng)
    w = 10.0 ** rng.uniform(-12, 12, 3000) if law == "wide weights" else np.ones(3000)
    calibrator = IsotonicCalibrator(loss="squared")
    gone = 0
    for stop in range(500, 3001, 500):
        calibrator.learn_many(scores[stop - 500 : stop], y[stop - 500 : stop], w[stop - 500 : stop])
        for i in range(gone, stop // 2):
            calibrator.unlearn_one(scores[i], y[i], w[i])
        gone = stop // 2
        Structure(calibrator).check()
        x, inverse = np.unique(scores[gone:stop], return_inverse=True)
        weight = np.bincount(inverse, w[gone:stop])
        mean = np.bincount(inverse, w[gone:stop] * y[gone:stop]) / weight
        expected = isotonic_regression(mean, weights=weight).x
        np.testing.assert_allclose(calibrator.predict_many(x), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            calibrator.staircase().values, np.unique(calibrator.predict_many(x)), rtol=1e-14
        )


finite = st.floats(-1e6, 1e6)
samples = st.tuples(
    st.one_of(st.integers(-6, 6).map(float), finite),
    st.one_of(st.integers(-2, 2).map(float), finite),
    st.one_of(st.sampled_from([0.5, 1.0, 2.0]), st.floats(1e-12, 1e12)),
)


@given(st.lists(samples, min_size=1, max_size=40))
def test_any_samples_get_the_exact_fit(program: list[tuple[float, float, float]]) -> None:
    calibrator = learned(program, loss="squared")
    blocks = oracles.isotonic_blocks(*zip(*program, strict=True))
    for x, *_ in program:
        expected = oracles.evaluate(blocks, x)
        assert calibrator.predict_one(x) == pytest.approx(expected, rel=1e-9, abs=1e-9)


class Program(RuleBasedStateMachine):
    """Random runs of learn and unlearn in blocks, held to the exact fit after each."""

    @initialize(window=st.sampled_from([None, None, 1, 7, 150]), prior=st.sampled_from([0.0, 1.0]))
    def start(self, window: int | None, prior: float) -> None:
        self.calibrator = IsotonicCalibrator(window=window, prior=prior)
        self.window = window
        self.held: list[tuple[float, float, float]] = []

    @rule(
        seed=st.integers(0, 2**32 - 1),
        n=st.sampled_from([1, 2, 10, 200]),
        grid=st.sampled_from([3, 50, 10**6]),
        law=st.sampled_from(["noise", "rising", "falling", "one"]),
        many=st.booleans(),
    )
    def learn(self, seed: int, n: int, grid: int, law: str, many: bool) -> None:
        rng = np.random.default_rng(seed)
        scores = rng.integers(0, grid, n) / grid
        p = {"noise": 0.5, "rising": scores, "falling": 1 - scores, "one": 1.0}[law]
        y = (rng.random(n) < p) * 1.0
        w = rng.choice([0.25, 1.0, 3.0], n)
        if many:
            self.calibrator.learn_many(scores, y, w)
        else:
            for sample in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
                self.calibrator.learn_one(*sample)
        self.held += zip(scores.tolist(), y.tolist(), w.tolist(), strict=True)
        if self.window:
            self.held = self.held[-self.window :]

    @precondition(lambda self: self.held)
    @rule(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.3, 0.9, 1.0]))
    def unlearn(self, seed: int, share: float) -> None:
        if self.window:
            return  # the oracle below forgets by age alone
        rng = np.random.default_rng(seed)
        rng.shuffle(self.held)
        for _ in range(max(1, int(share * len(self.held)))):
            self.calibrator.unlearn_one(*self.held.pop())

    @invariant()
    def is_exact(self) -> None:
        if not hasattr(self, "calibrator"):
            return
        Structure(self.calibrator).check()
        assert self.calibrator.n_samples == len(self.held)
        if not self.held:
            assert self.calibrator.predict_one(0.3) == 0.3
            return
        scores, y, w = map(np.array, zip(*self.held, strict=True))
        if self.calibrator.prior:
            scores, y, w = np.r_[scores, -1, 2], np.r_[y, 1, 0], np.r_[w, 1, 1]
        stairs = isotonic_fit(scores, y, w)
        x = np.linspace(0, 1, 77)
        np.testing.assert_allclose(self.calibrator.predict_many(scores), stairs(scores), rtol=1e-12)
        if not self.calibrator.prior:
            np.testing.assert_allclose(self.calibrator.predict_many(x), stairs(x), rtol=1e-12)


TestProgram = Program.TestCase


def test_integer_sums_are_exact_after_any_history() -> None:
    rng = np.random.default_rng(3)
    scores, y = rng.random(2000).round(3), rng.integers(0, 2, 2000) * 1.0
    calibrator = IsotonicCalibrator()
    calibrator.learn_many(np.r_[rng.random(3000), scores], np.r_[np.zeros(3000), y])
    rng = np.random.default_rng(3)
    rng.random(2000), rng.integers(0, 2, 2000)
    for score in rng.random(3000).tolist():
        calibrator.unlearn_one(score, 0.0)
    np.testing.assert_array_equal(
        calibrator.staircase().values, learned(zip(scores, y, strict=True)).staircase().values
    )


def test_small_weights_keep_their_digits_between_large_ones() -> None:
    calibrator = learned(
        [(1, 0.0, 1e12), (2, 3.0, 1e-12), (3, 1.0, 3e-12), (4, 9.0, 1e12)], loss="squared"
    )
    assert calibrator.predict_one(2) == pytest.approx(1.5, rel=1e-12)


def test_a_window_forgets_a_sample_that_drowned_the_others() -> None:
    calibrator = IsotonicCalibrator(window=2, prior=0.0)
    for sample in [(0.5, 1, 1e17), (0.5, 0, 1.0), (0.9, 1, 1.0)]:
        calibrator.learn_one(*sample)
    assert (calibrator.predict_one(0.5), calibrator.predict_one(0.9)) == (0.0, 1.0)


def test_taking_back_a_sample_that_drowned_the_others_is_not_refused() -> None:
    calibrator = IsotonicCalibrator(prior=0.0)
    for sample in [(0.5, 1, 1e17), (0.5, 0, 1.0), (0.9, 1, 1.0)]:
        calibrator.learn_one(*sample)
    calibrator.unlearn_one(0.5, 1, 1e17)
    assert calibrator.n_samples == 2
    assert 0.0 <= calibrator.predict_one(0.5) <= 1.0
    assert calibrator.predict_one(0.9) == 1.0
    Structure(calibrator).check()


@example([(2, 1, 8), (2, 0, 2), (0, 0, 0), (0, 0, 0), (2, 0, 0), (2, 1, -3), (0, 0, 0)])
@example([(2, 0, 8), (2, 1, 2), (3, 1, 0), (3, 1, 0), (2, 1, 0), (2, 0, -3), (3, 1, 0)])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(-12, 12)), max_size=40))
def test_windows_of_widely_different_weights(program: list[tuple[int, int, int]]) -> None:
    calibrator = IsotonicCalibrator(window=5, prior=0.0)
    samples = [(x, y, 10.0**exponent) for x, y, exponent in program]
    for i, sample in enumerate(samples):
        calibrator.learn_one(*sample)
        stairs = isotonic_fit(*zip(*samples[max(0, i - 4) : i + 1], strict=True), loss="log")
        for x in range(4):
            assert calibrator.predict_one(x) == pytest.approx(stairs(x), rel=1e-6, abs=1e-9)


def test_numbers_beyond_floats_are_refused() -> None:
    calibrator = learned([(0.5, 1)])
    for arguments in [(10**400, 1), (0.5, 10**400), (0.5, 1, 10**400)]:
        with pytest.raises(ValueError, match="must be a finite number, got one beyond 1e308"):
            calibrator.learn_one(*arguments)
    with pytest.raises(ValueError, match="must be a finite number"):
        calibrator.predict_one(10**400)
    assert calibrator.n_samples == 1


def test_a_window_is_the_last_samples() -> None:
    rng = np.random.default_rng(4)
    scores, y = rng.random(400).round(2), rng.random(400)
    calibrator = IsotonicCalibrator("squared", window=90)
    for i, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        calibrator.learn_one(score, label)
        first = max(0, i - 89)
        expected = isotonic_fit(scores[first : i + 1], y[first : i + 1])
        assert calibrator.n_samples == i + 1 - first
        np.testing.assert_allclose(calibrator.staircase().values, expected.values, rtol=1e-12)


def test_a_sample_taken_back_from_a_window_is_not_forgotten_again() -> None:
    calibrator = IsotonicCalibrator(window=3)
    for score, label in [(0.1, 0), (0.2, 1), (0.2, 1)]:
        calibrator.learn_one(score, label)
    calibrator.unlearn_one(0.2, 1)
    with pytest.raises(ValueError, match="must have been learned"):
        calibrator.unlearn_one(0.3, 1)
    for score in (0.4, 0.5, 0.6):
        calibrator.learn_one(score, 0)
    assert calibrator.n_samples == 3
    assert calibrator.staircase().lower.tolist() == [-math.inf]
    Structure(calibrator).check()


@pytest.mark.parametrize(
    "sample", [(0.3, 1, 1), (0.2, 0, 1), (0.2, 1, 2), (0.1, 0, 0.5), (0.1, 1, 1)]
)
def test_unlearning_what_was_not_learned(sample: tuple[float, float, float]) -> None:
    calibrator = learned([(0.1, 0, 1), (0.2, 1, 1)])
    before = pickle.dumps(calibrator)
    with pytest.raises(ValueError, match="must have been learned together"):
        calibrator.unlearn_one(*sample)
    assert pickle.dumps(calibrator) == before


def test_removing_everything_leaves_a_calibrator_like_new() -> None:
    rng = np.random.default_rng(5)
    scores, w = rng.random(1000), rng.random(1000) + 0.1
    calibrator = IsotonicCalibrator()
    for _ in range(2):
        assert calibrator.predict_one(0.25) == 0.25
        with pytest.raises(ValueError, match="at least one learned sample"):
            calibrator.staircase()
        calibrator.learn_many(scores, scores > 0.5, w)
        for i in rng.permutation(1000):
            calibrator.unlearn_one(scores[i], scores[i] > 0.5, w[i])
        Structure(calibrator).check()
        assert calibrator.n_samples == calibrator.n_scores == 0


@pytest.mark.parametrize(
    "calibrator",
    [
        IsotonicCalibrator(window=100),
        IsotonicCalibrator(max_scores=8),
        IsotonicCalibrator(half_life=0.7),
        VennAbersCalibrator(),
    ],
    ids=["window", "max_scores", "half_life", "Venn-Abers"],
)
def test_prequential_is_predict_then_learn(calibrator: Calibrator) -> None:
    rng = np.random.default_rng(6)
    scores = rng.random(300).round(2)
    y = rng.random(300) < scores
    one, many = calibrator.clone(), calibrator.clone()
    expected = []
    for score, label in zip(scores.tolist(), y.tolist(), strict=True):
        expected.append(one.predict_one(score))
        one.learn_one(score, label)
    np.testing.assert_array_equal(many.predict_learn_many(scores, y), expected)
    assert expected[0] == scores[0]


@pytest.mark.parametrize(
    ("scores", "y", "w"),
    [
        ([0.1, math.nan], [0, 1], None),
        ([0.1, 0.2], [0, 2], None),
        ([0.1, 0.2], [0], None),
        ([0.1, 0.2], [0, 1], [1, 0]),
        ([0.1, 0.2], [0, 1], [1, 1e61]),
        ([[0.1, 0.2]], [0, 1], None),
        (["a", "b"], [0, 1], None),
    ],
)
def test_many_refuses_before_it_learns(scores: Any, y: Any, w: Any) -> None:
    calibrator = learned([(0.5, 1)])
    before = pickle.dumps(calibrator)
    for method in (calibrator.learn_many, calibrator.predict_learn_many):
        with pytest.raises((ValueError, TypeError)):
            method(scores, y, w)
    assert pickle.dumps(calibrator) == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"window": 0}, "`window` must be a positive int or None, got 0"),
        ({"window": 2.5}, "`window` must be a positive int or None, got 2.5"),
        ({"prior": -1}, r"`prior` must lie in \[0, 1e\+60\], got -1"),
        ({"prior": math.nan}, r"`prior` must lie in .*, got nan"),
        ({"interpolation": "cubic"}, "`interpolation` must be one of"),
        ({"half_life": 0}, r"`half_life` must lie in \[0.1, inf\) or None, got 0"),
        ({"half_life": math.inf}, "`half_life` must lie in .*, got inf"),
        ({"max_scores": 7}, "`max_scores` must be an int of at least 8, got 7"),
        ({"max_scores": 99.5}, "`max_scores` must be an int of at least 8, got 99.5"),
        ({"max_scores": 99.0}, "`max_scores` must be an int of at least 8, got 99.0"),
        ({"loss": "hinge"}, "`loss` must be one of"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IsotonicCalibrator(**parameters)


def test_extreme_scores_interpolate_finitely() -> None:
    calibrator = learned([(-1.7e308, 0), (1.7e308, 1)], loss="squared")
    assert calibrator.predict_one(0.0) == 0.5
    assert calibrator.predict_one(-1.7e308) == 0.0


def test_memory_follows_the_number_of_scores() -> None:
    rng = np.random.default_rng(7)
    calibrator = IsotonicCalibrator()
    n = 50_000
    calibrator.learn_many(rng.random(n), rng.random(n) < 0.3)
    assert sys.getsizeof(calibrator._regression) / n < 52
    windowed = IsotonicCalibrator(window=1000)
    windowed.learn_many(rng.random(n), rng.random(n) < 0.3)
    assert sys.getsizeof(windowed._regression) < 1000 * (24 + 60)
    assert len(windowed._regression.state()[1]["queue"]) == 1000


def test_a_small_window_takes_little_memory() -> None:
    rng = np.random.default_rng(1)
    assert sys.getsizeof(IsotonicCalibrator(window=200)._regression) <= 400
    calibrator, sizes = IsotonicCalibrator(window=200), []
    for score in rng.random(3000).tolist():
        calibrator.learn_one(score, rng.random() < score)
        sizes.append(sys.getsizeof(calibrator._regression))
    assert np.mean(sizes[1000:]) < 12_000


def test_a_window_forgets_just_what_it_has_learned() -> None:
    """Weights 1 take less room in the window than those that follow, which fit no small float."""
    rng, window = np.random.default_rng(2), 30
    calibrator = IsotonicCalibrator("squared", window=window, prior=0.0)
    stream = [(rng.integers(0, 9) / 9, rng.random(), 1.0) for _ in range(200)]
    for k in range(0, 200, 2):
        stream[k] = (stream[k][0], float(rng.integers(0, 2)), 1.0 if k < 100 else rng.random())
    for k, sample in enumerate(stream):
        calibrator.learn_one(*sample)
        if k == 60:
            calibrator.unlearn_one(*stream[50])
        kept = [stream[i] for i in range(max(0, k + 1 - window), k + 1) if k < 60 or i != 50]
        fresh = IsotonicCalibrator("squared", prior=0.0)
        fresh.learn_many(*zip(*kept, strict=True))
        for found, expected in zip(calibrator.samples(), fresh.samples(), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
        assert calibrator.n_samples == len(kept)


# Forgetting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 10])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_first_batch_that_another_thread_writes_to(column: int, window: int | None) -> None:
    class Overwritten(IsotonicCalibrator):
        def _check_samples(self, *samples: Any) -> Any:
            columns = super()._check_samples(*samples)
            columns[column][1] = np.nan  # after the checks
            return columns

    calibrator = Overwritten(window=window)
    calibrator.learn_many(np.array([0.1, 0.2, 0.3]), np.array([0.0, 1.0, 1.0]), np.ones(3))
    expected = IsotonicCalibrator(window=window)
    expected.learn_many([0.1, 0.3], [0, 1])
    Structure(calibrator).check()
    assert calibrator.n_samples == 2
    assert calibrator.predict_many([0.0, 0.2, 0.5]).tolist() == (
        expected.predict_many([0.0, 0.2, 0.5]).tolist()
    )


@pytest.mark.parametrize("scores", [[0.5], [0.1, 0.2, 0.3, 0.4]])
def test_a_window_forgets_samples_whose_weight_has_vanished(scores: list[float]) -> None:
    calibrator = IsotonicCalibrator(half_life=0.1, window=200)
    for i in range(1500):
        calibrator.learn_one(scores[i % len(scores)], i % 2)
        assert calibrator.n_samples <= 200
    Structure(calibrator).check()
    again = IsotonicCalibrator.from_bytes(calibrator.to_bytes())
    for score in scores * 300:
        calibrator.learn_one(score, 1)
        again.learn_one(score, 1)
    assert calibrator.to_bytes() == again.to_bytes()
    calibrator.learn_many([0.9] * 250, [0] * 250)
    assert calibrator.n_scores == 1


@pytest.mark.parametrize("window", [None, 120])
@pytest.mark.parametrize("half_life", [0.5, 25.0])
def test_a_half_life_is_a_batch_fit_with_decayed_weights(
    window: int | None, half_life: float
) -> None:
    rng = np.random.default_rng(8)
    n = 6000  # over thousands of half-lives, weights are scaled down again and again
    scores, y, w = rng.random(n).round(2), rng.integers(0, 2, n) * 1.0, rng.integers(1, 4, n) * 1.0
    calibrator = IsotonicCalibrator(half_life=half_life, window=window)
    for start in range(0, n, 1500):
        part = slice(start, start + 1500)
        calibrator.learn_many(scores[part], y[part], w[part])
        Structure(calibrator).check()
        stop = start + 1500
        age = np.arange(stop)[::-1]
        weight = w[:stop] * 0.5 ** (age / half_life)
        held = weight > 1e-30
        if window:
            held &= age < window
        x, label, weight = scores[:stop][held], y[:stop][held], weight[held]
        expected = isotonic_fit(np.r_[-1, x, 2], np.r_[1, label, 0], np.r_[1, weight, 1])
        np.testing.assert_allclose(calibrator.predict_many(x), expected(x), rtol=1e-9)
        assert calibrator.staircase().weights.sum() == pytest.approx(weight.sum() + 2, rel=1e-9)


def test_what_has_vanished_is_dropped() -> None:
    calibrator = IsotonicCalibrator(half_life=1.0)
    calibrator.learn_many(np.arange(2000.0), np.zeros(2000))
    assert calibrator.n_scores == calibrator.n_samples < 600
    assert calibrator.staircase().weights.sum() == pytest.approx(4.0)


def test_unlearning_under_forgetting_takes_the_weight_as_it_stands() -> None:
    calibrator = IsotonicCalibrator(half_life=2.0)
    calibrator.learn_one(0.5, 1)
    for score in (0.1, 0.9):
        calibrator.learn_one(score, score > 0.4)
    with pytest.raises(ValueError, match="must have been learned together"):
        calibrator.unlearn_one(0.5, 1)
    calibrator.unlearn_one(0.5, 1, 0.5)
    assert calibrator.n_scores == 2


# Merging ------------------------------------------------------------------------------------------


def test_merged_streams_are_one_stream() -> None:
    rng = np.random.default_rng(10)
    scores, u, w = rng.random(2000).round(2), rng.random(2000), rng.integers(1, 9, 2000) / 8
    y = (u < scores) * 1.0
    whole, left, right = (IsotonicCalibrator() for _ in range(3))
    whole.learn_many(scores, y, w)
    left.learn_many(scores[:700], y[:700], w[:700])
    right.learn_many(scores[700:], y[700:], w[700:])
    before = right.to_bytes()
    left += right
    Structure(left).check()
    np.testing.assert_array_equal(left.staircase().values, whole.staircase().values)
    assert (left.n_samples, left.n_scores) == (whole.n_samples, whole.n_scores)
    assert right.to_bytes() == before
    empty = IsotonicCalibrator()
    empty.merge(left)
    empty.merge(IsotonicCalibrator())
    np.testing.assert_array_equal(empty.staircase().values, whole.staircase().values)


def test_merging_decayed_streams_weighs_both_as_of_now() -> None:
    a, b = IsotonicCalibrator(half_life=10.0), IsotonicCalibrator(half_life=10.0)
    a.learn_many(np.linspace(0, 1, 500), np.zeros(500))
    b.learn_many([0.5] * 3, [1, 1, 1])
    weights = a.staircase().weights.sum() + b.staircase().weights.sum() - 2
    a.merge(b)
    assert a.staircase().weights.sum() == pytest.approx(weights)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (IsotonicCalibrator("squared"), ValueError),
        (IsotonicCalibrator(half_life=3.0), ValueError),
        (IsotonicCalibrator(window=10), ValueError),
        ("another", TypeError),
    ],
)
def test_what_can_not_be_merged(other: Any, error: type[Exception]) -> None:
    calibrator = learned([(0.1, 1), (0.2, 0)])
    before = calibrator.to_bytes()
    with pytest.raises(error):
        calibrator.merge(other)
    assert calibrator.to_bytes() == before


def test_no_more_samples_are_merged_than_a_state_holds() -> None:
    calibrator = learned([(0.1, 1), (0.2, 0)])
    for _ in range(52):
        calibrator.merge(calibrator)
    with pytest.raises(ValueError, match="at most 2\\*\\*53 samples"):
        calibrator.merge(calibrator)
    assert calibrator.n_samples == 2**53
    assert IsotonicCalibrator.from_bytes(calibrator.to_bytes()).n_samples == 2**53


# Bounded memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [None, 400])
def test_scores_are_bounded_and_the_map_stays_near(window: int | None) -> None:
    rng = np.random.default_rng(11)
    scores = rng.random(20_000)
    y = rng.random(20_000) < scores
    bounded = IsotonicCalibrator(max_scores=128, window=window)
    exact = IsotonicCalibrator(window=window)
    for start in range(0, 20_000, 2500):
        part = slice(start, start + 2500)
        for calibrator in (bounded, exact):
            calibrator.learn_many(scores[part], y[part])
        Structure(bounded).check()
        assert bounded.n_scores <= 128
        assert bounded.n_samples == exact.n_samples
    assert bounded.n_merged > 1000
    assert exact.n_merged == 0
    x = np.linspace(0, 1, 200)
    assert np.abs(bounded.predict_many(x) - exact.predict_many(x)).mean() < 0.02
    if window:  # forgets all of it although the scores have moved
        bounded.learn_many(np.full(400, 0.5), np.ones(400))
        assert (bounded.n_scores, bounded.n_samples) == (1, 400)


def test_equal_gaps_and_huge_scores_merge_too() -> None:
    calibrator = IsotonicCalibrator(max_scores=16)
    calibrator.learn_many(np.arange(500.0), np.arange(500) > 250)
    assert calibrator.n_scores <= 16
    calibrator.learn_many(1.7e308 * np.linspace(-1, 1, 50), np.ones(50))
    assert calibrator.n_scores <= 16
    assert calibrator.n_samples == 550
    Structure(calibrator).check()


# --- CORP


def test_corp_of_a_calibrator_is_that_of_the_metric() -> None:
    rng = np.random.default_rng(12)
    scores = rng.random(500).round(2).clip(0.01, 0.99)
    y = rng.random(500) < scores**2
    calibrator, metric = IsotonicCalibrator(prior=3.0), CORP("log")
    calibrator.learn_many(scores, y)
    for score, label in zip(scores.tolist(), y.tolist(), strict=True):
        metric.update(label, score)
    expected = (metric.mean_score, metric.mcb, metric.dsc, metric.unc)
    np.testing.assert_allclose(calibrator.corp(), expected, rtol=1e-10)


def test_corp_of_certain_scores_that_are_right_is_finite() -> None:
    assert learned([(0.0, 0), (1.0, 1)]).corp() == (0.0, 0.0, math.log(2), math.log(2))
    assert learned([(0.0, 0), (0.0, 1), (1.0, 1)]).corp().mcb == math.inf
    with pytest.raises(ValueError, match=r"`corp` needs scores in \[0, 1\]"):
        learned([(0.5, 0), (2.0, 1)]).corp()
    with pytest.raises(ValueError, match="`corp` needs the log loss"):
        learned([(0.5, 0)], loss="squared").corp()


# Bytes --------------------------------------------------------------------------------------------


SETTINGS: list[dict[str, Any]] = [
    {},
    {"loss": "tweedie", "interpolation": "step"},
    {"window": 300, "prior": 0.5},
    {"half_life": 40.0, "window": 300, "max_scores": 200},
    {"loss": losses.Linex(a=0.5), "half_life": 33.0},
]


@pytest.mark.parametrize("parameters", SETTINGS)
@pytest.mark.parametrize("n", [0, 1, 5000])
def test_bytes_restore_a_calibrator_to_the_last_bit(parameters: dict[str, Any], n: int) -> None:
    rng = np.random.default_rng(13)
    scores, y, w = rng.normal(size=n), rng.integers(0, 2, n) * 1.0, rng.random(n) + 0.5
    calibrator = IsotonicCalibrator(**parameters)
    calibrator.learn_many(scores, y, w)
    data = calibrator.to_bytes()
    restored = IsotonicCalibrator.from_bytes(data)
    assert restored._get_params() == calibrator._get_params()
    if "half_life" not in parameters:  # else rounding may pool, or not, in the live one as well
        Structure(restored).check()
    assert restored.to_bytes() == data
    x = np.linspace(-3, 3, 300)
    more, labels = rng.normal(size=700), rng.integers(0, 2, 700) * 1.0
    for each in (calibrator, restored):
        each.learn_many(more, labels, rng.random(700) * 0 + 1.25)
    np.testing.assert_array_equal(restored.predict_many(x), calibrator.predict_many(x))
    assert restored.to_bytes() == calibrator.to_bytes()


def test_bytes_with_a_loss_of_the_user() -> None:
    class Mine(losses.Squared):
        name = "mine"

    calibrator = learned([(1, 2.0), (2, 1.0)], loss=Mine())
    data = calibrator.to_bytes()
    with pytest.raises(ValueError, match="`loss` must be one of"):
        IsotonicCalibrator.from_bytes(data)
    with pytest.raises(ValueError, match="must be the mine loss"):
        IsotonicCalibrator.from_bytes(data, loss=losses.Squared())
    assert IsotonicCalibrator.from_bytes(data, loss=Mine()).predict_one(1) == 1.5


def test_damaged_and_foreign_bytes_are_refused() -> None:
    calibrator = IsotonicCalibrator(window=60)
    rng = np.random.default_rng(14)
    calibrator.learn_many(rng.random(200), rng.random(200) < 0.5)
    data = calibrator.to_bytes()
    for _ in range(1000):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        with pytest.raises(ValueError, match="`data` must be"):
            IsotonicCalibrator.from_bytes(bytes(broken))
        with pytest.raises(ValueError, match="`data` must be"):
            IsotonicCalibrator.from_bytes(data[: rng.integers(len(data))])
    for foreign in (b"", b"PK", pickle.dumps(calibrator), data + b"x"):
        with pytest.raises(ValueError, match="`data` must be"):
            IsotonicCalibrator.from_bytes(foreign)
    for version in (_state.VERSION - 1, _state.VERSION + 1):
        other = bytearray(data)
        other[len(_state.MAGIC)] = version
        with pytest.raises(ValueError, match=f"of version {_state.VERSION}, got version {version}"):
            IsotonicCalibrator.from_bytes(bytes(other))
    with pytest.raises(TypeError, match="`data` must be bytes, got str"):
        IsotonicCalibrator.from_bytes("text")


@pytest.mark.parametrize(
    "forge",
    [
        lambda f, a: a["counts"].__setitem__(0, -1),
        lambda f, a: a["scores"].__setitem__(0, math.nan),
        lambda f, a: a["scores"].__setitem__(0, 7.0),
        lambda f, a: a["sums"].__setitem__((0, 0), -1.0),
        lambda f, a: a["shape"].__setitem__(1, 10**9),
        lambda f, a: a["shape"].__setitem__(-1, INNER),
        lambda f, a: a["keys"].__setitem__(0, -5.0),
        lambda f, a: a["bridges"].__setitem__((0, 0), a["scores"][1]),
        lambda f, a: a.update(queue=np.zeros((9999, 3))),
        lambda f, a: a.update(counts=a["counts"][1:]),
        lambda f, a: a["lengths"].__setitem__(0, 500),
        lambda f, a: a.update(lengths=a["lengths"][1:], edges=a["edges"][1:]),
        lambda f, a: a["edges"].__setitem__((0, 0), 0.0),
        lambda f, a: f["parameters"].update(window="all"),
        lambda f, a: f.update(growth=0.0),
        lambda f, a: f["parameters"].update(loss={"loss": ["os.system", {}]}),
        lambda f, a: f["parameters"].update(prior=-1.0),
        lambda f, a: a.pop("bridges"),
    ],
)
def test_forged_bytes_are_refused(forge: Any) -> None:
    calibrator = IsotonicCalibrator(window=500)
    scores = np.random.default_rng(15).random(400)
    calibrator.learn_many(scores, scores > 0.5)
    kind, fields, arrays = _state.decode(calibrator.to_bytes())
    forge(fields, arrays)
    with pytest.raises(ValueError, match="`data` must be what `to_bytes` wrote"):
        IsotonicCalibrator.from_bytes(_state.encode(kind, fields, arrays))


# A long life --------------------------------------------------------------------------------------


def test_random_operations_keep_the_exact_fit() -> None:
    """A million random operations by STREAMCAL_SOAK=1000000; fewer in the gates."""
    n = int(os.environ.get("STREAMCAL_SOAK", "30000"))
    rng = np.random.default_rng(16)
    calibrator = IsotonicCalibrator(loss="squared")
    held: list[tuple[float, float, float]] = []
    drift = 0.0
    for i in range(n):
        action = rng.random()
        if action < (0.6 if (i // 4000) % 2 == 0 else 0.35) or not held:
            drift += rng.normal() * 1e-3
            score = round(rng.normal() + drift, 3) if action < 0.3 else rng.normal() + drift
            sample = (score, float(rng.integers(0, 3)), float(rng.choice([0.5, 1.0, 4.0])))
            calibrator.learn_one(*sample)
            held.append(sample)
        elif action < 0.9:
            at = int(rng.integers(len(held)))
            held[at], held[-1] = held[-1], held[at]
            calibrator.unlearn_one(*held.pop())
        else:
            calibrator.predict_one(rng.normal())
        if i % (n // 10) == 0 or i == n - 1:
            Structure(calibrator).check()
            if held:
                scores, y, w = map(np.array, zip(*held, strict=True))
                expected = isotonic_fit(scores, y, w)
                np.testing.assert_allclose(
                    calibrator.predict_many(scores), expected(scores), rtol=1e-10
                )
                again = IsotonicCalibrator.from_bytes(calibrator.to_bytes())
                np.testing.assert_array_equal(
                    again.predict_many(scores), calibrator.predict_many(scores)
                )
    twin = copy.deepcopy(calibrator)
    twin.learn_one(0.0, 1.0)
    assert twin.n_samples == calibrator.n_samples + 1
