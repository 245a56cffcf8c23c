import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from streamcal import PlattCalibrator
from streamcal.kernels.platt import project
from tests.oracles import log_loss

probabilities = st.floats(0.0, 1.0)
weights = st.floats(1e-6, 1e6)


def stream(n: int, slope: float, intercept: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose labels follow sigmoid(slope · logit p + intercept)."""
    rng = np.random.default_rng(seed)
    s = rng.normal(0.0, 2.0, n)
    y = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-(slope * s + intercept)))
    return 1.0 / (1.0 + np.exp(-s)), y.astype(float)


def naive(scores: np.ndarray, y: np.ndarray, w: np.ndarray) -> list[float]:
    """The algorithm as the paper writes it, in matrices, without the projection."""
    theta, curvature, predictions = np.array([1.0, 0.0]), 100.0 * np.eye(2), []
    for p, label, weight in zip(scores, y, w, strict=True):
        x = np.array([math.log(p / (1.0 - p)), 1.0])
        m = 1.0 / (1.0 + math.exp(-theta @ x))
        predictions.append(m)
        gradient = (m - label) * x
        curvature += weight * np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(curvature, weight * gradient) / 0.1
    return predictions


def test_follows_the_paper() -> None:
    scores, y = stream(500, 0.5, 1.0)
    w = np.random.default_rng(1).uniform(0.1, 3.0, 500)
    predicted = PlattCalibrator().predict_learn_many(scores, y, w)
    assert predicted[1:] == pytest.approx(naive(scores, y, w)[1:], rel=1e-9)


@pytest.mark.parametrize(("slope", "intercept"), [(0.3, 0.0), (1.0, -1.5), (2.0, 1.0), (-1.0, 0.5)])
def test_finds_a_logistic_map(slope: float, intercept: float) -> None:
    scores, y = stream(20_000, slope, intercept)
    calibrator = PlattCalibrator()
    served = calibrator.predict_learn_many(scores, y)
    assert calibrator.slope == pytest.approx(slope, abs=0.15)
    assert calibrator.intercept == pytest.approx(intercept, abs=0.15)
    ideal = 1.0 / (1.0 + np.exp(-(slope * np.log(scores / (1.0 - scores)) + intercept)))
    assert log_loss(served[100:], y[100:]) < log_loss(ideal[100:], y[100:]) + 0.01


def test_regret_is_small_against_the_best_in_hindsight() -> None:
    scores, y = stream(2_000, 0.4, 0.8, seed=3)
    s = np.log(scores / (1.0 - scores))

    def loss(theta: np.ndarray) -> float:
        return float(np.mean(np.logaddexp(0.0, theta[0] * s + theta[1]) - y * (theta @ [s, s**0])))

    best = minimize(loss, [1.0, 0.0]).fun
    served = PlattCalibrator().predict_learn_many(scores, y)
    assert 2_000 * (log_loss(served, y) - best) < 25.0  # nats


def test_certain_scores_are_safe() -> None:
    calibrator = PlattCalibrator()
    for _ in range(200):
        calibrator.learn_one(0.0, 1.0)
        calibrator.learn_one(1.0, 0.0)
    assert 0.0 < calibrator.predict_one(1.0) < calibrator.predict_one(0.0) < 1.0
    assert calibrator.predict_one(1.0) == calibrator.predict_one(1.0 - 1e-9)


@given(st.lists(st.tuples(probabilities, probabilities, weights), max_size=60), probabilities)
def test_answers_stay_inside(samples: list[tuple[float, float, float]], query: float) -> None:
    calibrator = PlattCalibrator(gamma=0.01, prior=1e-3)
    for score, y, w in samples:
        calibrator.learn_one(score, y, w)
        assert math.hypot(calibrator.slope, calibrator.intercept) <= 100.0 + 1e-6
    if samples:
        assert 0.0 < calibrator.predict_one(query) < 1.0


def test_one_score_for_ever() -> None:
    """The curvature has one direction only: rounding must not turn the other against us."""
    calibrator = PlattCalibrator(prior=1e-6)
    calibrator.learn_many(np.full(5_000, 0.999_999), np.arange(5_000) % 2)
    assert calibrator.predict_one(0.999_999) == pytest.approx(0.5, abs=0.1)


def test_weight_is_that_many_samples_in_one_step() -> None:
    repeated, weighted = PlattCalibrator(), PlattCalibrator()
    scores, y = stream(1_000, 0.5, 0.5)
    for score, label in zip(scores, y, strict=True):
        weighted.learn_one(score, label, 2.0)
        repeated.learn_one(score, label)
        repeated.learn_one(score, label)
    assert weighted.slope == pytest.approx(repeated.slope, abs=0.1)
    assert weighted.intercept == pytest.approx(repeated.intercept, abs=0.1)


def test_overflowing_weight_is_refused() -> None:
    calibrator = PlattCalibrator()
    calibrator.learn_one(0.3, 1)
    before = pickle.dumps(calibrator)
    with pytest.raises(ValueError, match="`w`"):
        calibrator.learn_one(0.3, 0, w=1e200)
    assert pickle.dumps(calibrator) == before


@given(st.lists(st.tuples(probabilities, probabilities, st.sampled_from([1e-60, 1.0, 1e60]))))
def test_any_weights_leave_numbers(samples: list[tuple[float, float, float]]) -> None:
    calibrator = PlattCalibrator()
    for score, y, w in samples:
        calibrator.learn_one(score, y, w)
        assert math.hypot(calibrator.slope, calibrator.intercept) <= 100.0 + 1e-6


def test_labels_may_be_probabilities() -> None:
    calibrator = PlattCalibrator()
    for _ in range(2_000):
        calibrator.learn_one(0.9, 0.3)
    assert calibrator.predict_one(0.9) == pytest.approx(0.3, abs=0.02)


def test_scores_must_be_probabilities() -> None:
    calibrator = PlattCalibrator()
    assert calibrator.predict_one(1.0 + 1e-12) == 1.0  # a sum of probabilities may round so
    for score in (1.01, -0.5):
        with pytest.raises(ValueError, match="`score` must be a probability"):
            calibrator.predict_one(score)
        with pytest.raises(ValueError, match="`score` must be a probability"):
            calibrator.learn_one(score, 1)
        with pytest.raises(
            ValueError, match=r"`scores` must lie in \[0, 1\], got .* at position 1"
        ):
            calibrator.learn_many([0.5, score], [1, 1])
    assert calibrator.predict_one(0.25) == 0.25


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 0.0),
        ("gamma", math.nan),
        ("prior", -1.0),
        ("limit", 1.0),
        ("limit", math.inf),
        ("clip", 0.0),
        ("clip", 0.5),
    ],
)
def test_bad_parameters_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"`{name}`"):
        PlattCalibrator(**{name: value})


@given(
    st.tuples(st.floats(-50, 50), st.floats(-50, 50)).filter(lambda t: math.hypot(*t) > 3.0),
    st.floats(0.1, 100.0),
    st.floats(0.1, 100.0),
    st.floats(-0.95, 0.95),
)
def test_projection_is_the_nearest_point(
    point: tuple[float, float], aa: float, bb: float, correlation: float
) -> None:
    ab = correlation * math.sqrt(aa * bb)
    metric = np.array([[aa, ab], [ab, bb]])
    found = np.array(project(*point, aa, ab, bb, aa * bb - ab * ab, 3.0))
    assert np.hypot(*found) == pytest.approx(3.0)
    angles = np.linspace(0.0, 2.0 * np.pi, 721)
    away = 3.0 * np.array([np.cos(angles), np.sin(angles)]) - np.array(point)[:, None]
    distances = np.einsum("ik,ij,jk->k", away, metric, away)
    mine = (found - point) @ metric @ (found - point)
    assert mine <= distances.min() * (1.0 + 1e-9)
