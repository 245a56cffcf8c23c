"""The calibrators that are compared with: beta maps, histograms, temperatures, calibeating."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from river import datasets, linear_model, metrics, naive_bayes, preprocessing
from scipy.optimize import minimize

from streamcal import (
    BetaCalibrator,
    CalibratedClassifier,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    JointCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
)
from tests.contract import calibrator_contract, classifier_contract
from tests.oracles import log_loss

TestBeta = calibrator_contract(
    BetaCalibrator(),
    BetaCalibrator(gamma=0.5, prior=1.0, half_life=50.0),
    weights_repeat=False,
    bounded=True,
)
TestHistogram = calibrator_contract(
    HistogramCalibrator(), weights_repeat=True, bounded=True, monotone=False
)
TestHistogramForgetting = calibrator_contract(
    HistogramCalibrator(n_bins=3, half_life=40.0),
    weights_repeat=False,
    bounded=True,
    monotone=False,
)
TestCalibeating = calibrator_contract(
    PlattCalibrator(calibeating=10),
    PlattCalibrator(calibeating=5, half_life=30.0),
    weights_repeat=False,
    bounded=True,
    monotone=False,
)
TestJointWrapper = classifier_contract(
    CalibratedClassifier(naive_bayes.GaussianNB(), TemperatureCalibrator()),
    CalibratedClassifier(naive_bayes.GaussianNB(), TopLabelCalibrator(PlattCalibrator())),
)

probabilities = st.floats(0.0, 1.0)
weights = st.sampled_from([1.0, 1e-60, 0.3, 1e60])


@pytest.mark.parametrize("bad", [(1.5, 1, 1.0), (0.5, 2, 1.0), (0.5, 1, 0.0), ("0.5", 1, 1.0)])
def test_the_identity_checks_what_it_does_not_learn(bad: Any) -> None:
    calibrator = IdentityCalibrator()
    calibrator.learn_one(0.5, 1, 2.0)
    with pytest.raises((ValueError, TypeError)):
        calibrator.learn_one(*bad)
    assert calibrator.predict_one(1.0 + 1e-12) == 1.0
    assert calibrator.predict_learn_many([0.25, 1.0], [0, 1]).tolist() == [0.25, 1.0]
    assert repr(calibrator.clone()) == repr(calibrator)


# Beta ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [(2.0, 0.5, 0.3), (0.4, 1.5, -0.5)])
def test_beta_finds_its_map(parameters: Any) -> None:
    a, b, c = parameters
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 30_000)
    ideal = 1.0 / (1.0 + np.exp(-(a * np.log(p) - b * np.log1p(-p) + c)))
    y = (rng.uniform(size=30_000) < ideal).astype(float)
    calibrator = BetaCalibrator()
    served = calibrator.predict_learn_many(p, y)
    assert calibrator.parameters == pytest.approx(parameters, abs=0.3)
    assert log_loss(served[200:], y[200:]) < log_loss(ideal[200:], y[200:]) + 0.004
    platt = PlattCalibrator().predict_learn_many(p, y)
    assert log_loss(served[200:], y[200:]) < log_loss(platt[200:], y[200:])


def test_beta_follows_the_formula() -> None:
    """Newton's step as the reference writes it, in matrices."""
    rng = np.random.default_rng(1)
    p, y, w = rng.uniform(0.1, 0.9, 300), rng.integers(0, 2, 300), rng.uniform(0.1, 2.0, 300)
    theta, curvature = np.array([1.0, 1.0, 0.0]), 100.0 * np.eye(3)
    expected = []
    for score, label, weight in zip(p, y, w, strict=True):
        x = np.array([math.log(score), -math.log1p(-score), 1.0])
        q = 1.0 / (1.0 + math.exp(-theta @ x))
        expected.append(q)
        gradient = (q - label) * x
        curvature += weight * np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(curvature, weight * gradient) / 0.1
        theta[:2] = theta[:2].clip(0.0)
    served = BetaCalibrator().predict_learn_many(p, y, w)
    assert served == pytest.approx(expected, rel=1e-9)


def test_a_half_life_follows_a_change() -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, 20_000)
    turned = np.where(np.arange(20_000) < 10_000, p, 0.5 * p)
    y = (rng.uniform(size=20_000) < turned).astype(float)
    for kind in (BetaCalibrator, PlattCalibrator):
        slow, fast = kind(), kind(half_life=300.0)
        late = slice(10_000, 11_000)
        losses = [log_loss(c.predict_learn_many(p, y)[late], y[late]) for c in (slow, fast)]
        assert losses[1] < losses[0]


@given(st.lists(st.tuples(probabilities, probabilities, weights), max_size=40), probabilities)
def test_answers_are_probabilities(samples: Any, query: Any) -> None:
    for calibrator in (
        BetaCalibrator(),
        PlattCalibrator(calibeating=4),
        HistogramCalibrator(n_bins=1),
        HistogramCalibrator(half_life=0.1),
    ):
        for score, y, w in samples:
            calibrator.learn_one(score, y, w)
            assert 0.0 <= calibrator.predict_one(query) <= 1.0


# Calibeating --------------------------------------------------------------------------------------


def test_calibeating_is_the_mean_label_of_the_bin() -> None:
    rng = np.random.default_rng(3)
    p, y, w = rng.uniform(size=400), rng.integers(0, 2, 400), rng.uniform(0.1, 2.0, 400)
    base = PlattCalibrator().predict_learn_many(p, y, w)
    served = PlattCalibrator(calibeating=8).predict_learn_many(p, y, w)
    first = base.copy()
    first[0] = 1.0 / (1.0 + math.exp(-math.log(p[0] / (1.0 - p[0]))))
    for t in range(1, 400):
        past = np.flatnonzero((first[:t] * 8).astype(int) == int(base[t] * 8))
        mean = (base[t] + w[past] @ y[past]) / (1.0 + w[past].sum())
        assert served[t] == pytest.approx(mean, rel=1e-9)


def test_calibeating_puts_right_what_platt_cannot() -> None:
    """Labels that are likeliest at middling scores: no logistic map has that shape."""
    rng = np.random.default_rng(4)
    p = rng.uniform(0.05, 0.95, 20_000)
    right = 0.2 + 0.6 * (np.abs(p - 0.5) < 0.2) + 0.15 * p
    y = (rng.uniform(size=20_000) < right).astype(float)
    plain = PlattCalibrator().predict_learn_many(p, y)
    beaten = PlattCalibrator(calibeating=20).predict_learn_many(p, y)
    assert log_loss(beaten, y) < log_loss(plain, y)


# Histogram ----------------------------------------------------------------------------------------


def exact_bins(
    scores: np.ndarray, y: np.ndarray, w: np.ndarray, n_bins: int, query: float
) -> tuple[float, float]:
    """Return the mean label and the mean score in the bin of a query: no sketch, no prior."""
    distinct, at = np.unique(scores, return_inverse=True)
    mass = np.bincount(at, w)
    places = (n_bins * ((np.cumsum(mass) - 0.5 * mass) / mass.sum())).astype(int)
    own = max(int(np.searchsorted(distinct, query, "right")) - 1, 0)
    inside = places[at] == places[own]
    return np.average(y[inside], weights=w[inside]), np.average(scores[inside], weights=w[inside])


@given(
    st.lists(st.tuples(probabilities, st.booleans(), st.floats(0.1, 3.0)), min_size=1, max_size=30),
    st.integers(2, 5),
    probabilities,
)
def test_bins_are_exact_until_cells_are_merged(samples: Any, n_bins: int, query: Any) -> None:
    scores, y, w = np.array(samples, dtype=float).T
    _, at = np.unique(scores, return_inverse=True)
    mass = np.bincount(at, w)
    middles = n_bins * ((np.cumsum(mass) - 0.5 * mass) / mass.sum())
    assume((np.abs(middles - middles.round()) > 1e-9).all())  # else rounding decides
    calibrator = HistogramCalibrator(n_bins=n_bins, prior=0.0)
    calibrator.learn_many(scores, y, w)
    expected, mean = exact_bins(scores, y, w, n_bins, query)
    assert calibrator.predict_one(query) == pytest.approx(expected)
    drawn = HistogramCalibrator(n_bins=n_bins, prior=2.0)
    drawn.learn_many(scores, y, w)
    place = calibrator.predict_one(query)
    low, high = sorted((place, mean))
    assert low - 1e-9 <= drawn.predict_one(query) <= high + 1e-9


def test_the_sketch_keeps_masses_nearly_equal() -> None:
    rng = np.random.default_rng(5)
    scores = rng.beta(0.3, 2.0, 20_000)
    y = (rng.uniform(size=20_000) < np.sqrt(scores)).astype(float)
    calibrator = HistogramCalibrator(n_bins=10)
    calibrator.learn_many(scores, y)
    grid = np.quantile(scores, np.linspace(0.05, 0.95, 10))
    answers = calibrator.predict_many(grid)
    for query, answer in zip(grid, answers, strict=True):
        expected, _ = exact_bins(scores, y, np.ones(20_000), 10, query)
        assert answer == pytest.approx(expected, abs=0.03)
    bins = {calibrator.predict_one(score) for score in scores}
    assert len(bins) == 10


def test_a_histogram_forgets() -> None:
    calibrator = HistogramCalibrator(n_bins=2, half_life=100.0)
    calibrator.learn_many(np.tile([0.2, 0.8], 20_000), np.tile([0, 1], 20_000))
    assert calibrator.predict_one(0.8) > 0.98
    calibrator.learn_many(np.tile([0.2, 0.8], 1_000), np.tile([1, 0], 1_000))
    assert calibrator.predict_one(0.8) < 0.02


# Temperatures and top labels ----------------------------------------------------------------------


def logits(n: int, temperature: float, n_labels: int = 10, seed: int = 0) -> tuple[Any, Any]:
    """Probabilities of labels that are drawn from them, sharpened by a temperature."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 2.0, (n, n_labels))
    right = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    claimed = np.exp(z / temperature) / np.exp(z / temperature).sum(axis=1, keepdims=True)
    y = (right.cumsum(axis=1) > rng.uniform(size=(n, 1))).argmax(axis=1)
    return [dict(enumerate(row)) for row in claimed.tolist()], y.tolist()


@pytest.mark.parametrize("temperature", [0.4, 1.0, 2.5])
def test_the_temperature_is_found(temperature: float) -> None:
    raw, y = logits(4_000, temperature)
    calibrator = TemperatureCalibrator()
    for p, label in zip(raw, y, strict=True):
        calibrator.learn_one(p, label)
    assert calibrator.temperature == pytest.approx(1.0 / temperature, rel=0.1)

    z = np.log([list(p.values()) for p in raw])

    def loss(beta: np.ndarray) -> float:
        return float(np.mean(np.log(np.exp(beta * z).sum(axis=1)) - beta * z[range(len(y)), y]))

    best = minimize(loss, [1.0]).x[0]
    assert 1.0 / calibrator.temperature == pytest.approx(best, rel=0.05)
    answer = calibrator.predict_one(raw[0])
    scaled = np.exp(z[0] / calibrator.temperature)
    assert list(answer.values()) == pytest.approx((scaled / scaled.sum()).tolist())


@pytest.mark.parametrize(
    "calibrator",
    [
        TemperatureCalibrator(),
        TemperatureCalibrator(half_life=20.0),
        TopLabelCalibrator(),
        TopLabelCalibrator(IsotonicCalibrator(window=50)),
    ],
)
def test_joint_calibrators_keep_their_promises(calibrator: Any) -> None:
    fresh, silent = calibrator.clone(), calibrator.clone()
    raw, y = logits(300, 0.5, n_labels=4)
    for p, label in zip(raw, y, strict=True):
        answer = fresh.predict_one(p)
        assert list(answer) == list(p)
        assert all(type(value) is float and 0.0 <= value <= 1.0 for value in answer.values())
        assert math.fsum(answer.values()) == pytest.approx(1.0, abs=1e-9)
        fresh.learn_one(p, label, 0.5)
        silent.learn_one(p, label, 0.5)
    assert fresh.to_bytes() == silent.to_bytes()  # predicting changes nothing
    restored = JointCalibrator.from_bytes(fresh.to_bytes())
    assert restored.predict_one(raw[0]) == fresh.predict_one(raw[0])
    restored.learn_one(raw[1], y[1])
    fresh.learn_one(raw[1], y[1])
    assert restored.predict_one(raw[0]) == fresh.predict_one(raw[0])
    assert fresh.clone().predict_one(raw[0]) == calibrator.predict_one(raw[0])
    for edge in ({}, {"a": 1.0}, {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 0.0, "new": 0.0}):
        answer = fresh.predict_one(edge)
        assert list(answer) == list(edge)
        assert sum(answer.values()) == pytest.approx(1.0 if edge else 0.0)
        fresh.learn_one(edge, "b")
        fresh.learn_one(edge, "unseen")
    before = pickle.dumps(fresh)
    for bad in ({"a": 1.5, "b": 0.0}, {"a": math.nan}, {"a": "1"}):
        with pytest.raises((ValueError, TypeError), match="`score`"):
            fresh.learn_one(bad, "a")
        with pytest.raises((ValueError, TypeError), match="`score`"):
            fresh.predict_one(bad)
    for w in (0.0, -1.0, math.nan, None):
        with pytest.raises((ValueError, TypeError), match="`w`"):
            fresh.learn_one({"a": 0.5, "b": 0.5}, "a", w)
    assert pickle.dumps(fresh) == before


def test_the_top_label_is_as_often_right_as_it_claims() -> None:
    raw, y = logits(6_000, 0.4, n_labels=5)
    calibrator = TopLabelCalibrator(IsotonicCalibrator())
    claims, hits = [], []
    for p, label in zip(raw, y, strict=True):
        top = max(p, key=p.__getitem__)
        claims.append(calibrator.predict_one(p)[top])
        hits.append(top == label)
        calibrator.learn_one(p, label)
    raw_claims = np.array([max(p.values()) for p in raw[3_000:]])
    assert abs(np.mean(claims[3_000:]) - np.mean(hits[3_000:])) < 0.02
    assert abs(raw_claims.mean() - np.mean(hits[3_000:])) > 0.1


def test_joint_calibrators_in_the_wrapper() -> None:
    """One by one and in batches, restored from bytes, and better than the model alone."""
    pd = pytest.importorskip("pandas")
    stream = list(datasets.ImageSegments().take(1_500))
    model = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    raw, calibrated = metrics.CrossEntropy(), metrics.CrossEntropy()
    wrapped = CalibratedClassifier(model, TemperatureCalibrator())
    for x, y in stream:
        served = wrapped.serve_one(x)
        raw.update(y, served.raw)
        calibrated.update(y, served.calibrated)
        wrapped.learn_one(x, y, served=served)
    assert calibrated.get() < raw.get() - 0.2
    assert wrapped.calibrators == {}
    again = CalibratedClassifier.from_bytes(wrapped.to_bytes(), classifier=wrapped.classifier)
    x, _ = stream[0]
    assert again.predict_proba_one(x) == wrapped.predict_proba_one(x)

    batches = CalibratedClassifier(linear_model.LogisticRegression(), TemperatureCalibrator())
    X = pd.DataFrame({"a": np.linspace(-1.0, 1.0, 50)})
    batches.learn_many(X, pd.Series(X["a"] > 0.1))
    frame = batches.predict_proba_many(X)
    rows = [batches.predict_proba_one(row) for row in X.to_dict("records")]
    assert frame[True].tolist() == pytest.approx([row[True] for row in rows])


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (BetaCalibrator, {"gamma": 0.0}),
        (BetaCalibrator, {"prior": -1.0}),
        (BetaCalibrator, {"limit": 1.0}),
        (BetaCalibrator, {"half_life": 0.0}),
        (BetaCalibrator, {"clip": 0.5}),
        (PlattCalibrator, {"calibeating": -1}),
        (PlattCalibrator, {"calibeating": 2.0}),
        (PlattCalibrator, {"half_life": 0.01}),
        (HistogramCalibrator, {"n_bins": 0}),
        (HistogramCalibrator, {"n_bins": True}),
        (HistogramCalibrator, {"prior": -1.0}),
        (HistogramCalibrator, {"half_life": -1.0}),
        (TemperatureCalibrator, {"gamma": math.nan}),
        (TemperatureCalibrator, {"limit": 0.5}),
        (TopLabelCalibrator, {"calibrator": IsotonicCalibrator("logistic")}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, parameters: Any) -> None:
    with pytest.raises(ValueError, match=f"`{next(iter(parameters))}`"):
        kind(**parameters)


def test_a_top_label_wants_a_calibrator() -> None:
    with pytest.raises(TypeError, match="`calibrator` must be a Calibrator or None, got 3"):
        TopLabelCalibrator(3)


def test_all_of_them_can_be_hedged() -> None:
    rng = np.random.default_rng(6)
    p = rng.uniform(size=2_000)
    y = (rng.uniform(size=2_000) < p**2).astype(float)
    members = (
        IdentityCalibrator(),
        BetaCalibrator(),
        HistogramCalibrator(),
        PlattCalibrator(calibeating=10),
    )
    losses = [log_loss(m.clone().predict_learn_many(p, y).clip(1e-6), y) for m in members]
    served = HedgedCalibrator(members, share=0.0).predict_learn_many(p, y)
    assert 2_000 * (log_loss(served, y) - min(losses)) <= math.log(4) + 1e-3


@pytest.mark.parametrize("joint", [TemperatureCalibrator(), TopLabelCalibrator()], ids=str)
def test_probabilities_of_a_label_that_is_nan_are_refused(joint: JointCalibrator) -> None:
    """NaN does not equal itself, so its probability would be lost."""
    before = joint.to_bytes()
    for raw in ({math.nan: 0.6, "a": 0.4}, {"a": 0.6, np.float64("nan"): 0.4}):
        with pytest.raises(ValueError, match="labels of `raw` must not be NaN"):
            joint.predict_one(raw)
        with pytest.raises(ValueError, match="labels of `raw` must not be NaN"):
            joint.learn_one(raw, "a")
    assert joint.to_bytes() == before
