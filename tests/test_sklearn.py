"""Estimators for scikit-learn: its own checks, its own isotonic regression, and streams."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamcal
from streamcal.sklearn import OnlineCalibratedClassifier, StreamingIsotonicRegression

MODELS = (GaussianNB(), LinearSVC(random_state=0))


def expected_failures(estimator: Any) -> Any:
    """Cross-validation splits other samples if weights replace copies: so it is in scikit-learn."""
    name = "check_sample_weight_equivalence_on_{}_data"
    return dict.fromkeys((name.format("dense"), name.format("sparse")), "splits depend on copies")


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [*map(OnlineCalibratedClassifier, MODELS)], expected_failed_checks=expected_failures
)
def test_it_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def samples(n: Any, seed: int = 0, n_classes: int = 2) -> Any:
    return make_classification(
        n, n_informative=6, n_redundant=10, n_classes=n_classes, flip_y=0.1, random_state=seed
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_fit_is_about_as_good_as_that_of_scikit_learn(model: Any, n_classes: int) -> None:
    X, y = samples(3000, n_classes=n_classes)
    ours = OnlineCalibratedClassifier(model).fit(X[:2000], y[:2000])
    theirs = CalibratedClassifierCV(model, ensemble=False).fit(X[:2000], y[:2000])
    losses = [log_loss(y[2000:], each.predict_proba(X[2000:])) for each in (ours, theirs)]
    assert losses[0] < losses[1] + 0.02


@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_fit_lowers_the_loss_of_a_stream(n_classes: int) -> None:
    X, y = samples(4000, n_classes=n_classes)
    model = OnlineCalibratedClassifier(GaussianNB())
    raw, calibrated = [], []
    for i in range(0, len(y), 100):
        batch, labels = X[i : i + 100], y[i : i + 100]
        if i:
            raw.append(model.estimator_.predict_proba(batch))
            calibrated.append(model.predict_proba(batch))
        model.partial_fit(batch, labels, classes=range(n_classes))
    losses = [log_loss(y[100:], np.concatenate(p)) for p in (calibrated, raw)]
    assert losses[0] < losses[1] - 0.05


def test_a_batch_is_learned_as_the_wrapper_of_river_learns_it() -> None:
    X, y = samples(500)
    frozen = GaussianNB().fit(X[:100], y[:100])
    model = OnlineCalibratedClassifier(FrozenEstimator(frozen))
    calibrator = streamcal.HedgedCalibrator()
    for i in range(100, 500, 50):
        model.partial_fit(X[i : i + 50], y[i : i + 50])
        p = frozen.predict_proba(X[i : i + 50])[:, 1]
        calibrator.learn_many(p, y[i : i + 50])
    expected = calibrator.predict_many(frozen.predict_proba(X)[:, 1])
    assert np.array_equal(model.predict_proba(X)[:, 1], expected)


def test_a_fitted_classifier_is_not_fitted_again() -> None:
    X, y = samples(1000)
    fitted = LogisticRegression().fit(X[:100], y[:100])
    before = fitted.coef_.copy()
    for learn in ("fit", "partial_fit"):
        model = getattr(OnlineCalibratedClassifier(FrozenEstimator(fitted)), learn)(X, y)
        assert np.array_equal(model.estimator_.coef_, before)
        assert model.predict_proba(X).shape == (1000, 2)


def test_a_classifier_without_partial_fit_keeps_its_fit() -> None:
    X, y = samples(1000)
    model = OnlineCalibratedClassifier(LinearSVC()).partial_fit(X[:500], y[:500])
    coefficients, before = model.estimator_.coef_.copy(), model.predict_proba(X)
    model.partial_fit(X[500:], y[500:])
    assert np.array_equal(model.estimator_.coef_, coefficients)
    assert not np.array_equal(model.predict_proba(X), before)


def test_names_of_classes_and_weights() -> None:
    X, y = samples(600)
    names = np.array(["no", "yes"])[y]
    weights = np.tile([1.0, 0.0], 300)
    kept = weights > 0.0
    for calibrator in (None, streamcal.IsotonicCalibrator(), streamcal.TemperatureCalibrator()):
        a, b = (OnlineCalibratedClassifier(GaussianNB(), calibrator) for _ in range(2))
        for i in range(0, 600, 100):
            part, half = slice(i, i + 100), np.flatnonzero(kept[i : i + 100]) + i
            a.partial_fit(X[part], names[part], ["yes", "no"], weights[part])
            b.partial_fit(X[half], names[half], ["no", "yes"])
        assert a.classes_.tolist() == ["no", "yes"]
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-6)
        assert set(a.predict(X)) == {"no", "yes"}


def test_bad_input_is_refused_and_changes_nothing() -> None:
    X, y = samples(200)
    model = OnlineCalibratedClassifier(GaussianNB())
    with pytest.raises(ValueError, match="`classes` must hold all classes"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="`classes` must be"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"`y` must hold classes of \[0 1\], got .*2"):
        model.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match="Negative"):
        model.partial_fit(X, y, sample_weight=-np.ones(200))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.partial_fit(X, y[:-1])
    with pytest.raises(ValueError, match="`y` must hold at least one label"):
        model.partial_fit(X[:0], y[:0])
    assert np.array_equal(model.predict_proba(X), before)
    with pytest.raises(TypeError, match="`calibrator` must be a Calibrator"):
        OnlineCalibratedClassifier(GaussianNB(), "isotonic").fit(X, y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        OnlineCalibratedClassifier(FrozenEstimator(GaussianNB())).fit(X, y)


def test_frames_of_pandas_and_copies() -> None:
    pd = pytest.importorskip("pandas")
    X, y = samples(300)
    frame = pd.DataFrame(X).add_prefix("x")
    model = OnlineCalibratedClassifier(GaussianNB()).fit(frame, pd.Series(y, name="y"))
    assert model.feature_names_in_.tolist() == list(frame.columns)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert not hasattr(clone(model), "estimator_")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_in_and_frames_out(library: str) -> None:
    frames = pytest.importorskip(library)
    X, y = samples(300)
    names = [f"x{i}" for i in range(X.shape[1])]
    frame = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    labels = frames.Series(y)
    model = OnlineCalibratedClassifier(GaussianNB())
    model.partial_fit(frame, labels, classes=[0, 1]).partial_fit(frame, labels)
    expected = model.predict_proba(frame)
    assert type(expected) is np.ndarray  # what the scorers of scikit-learn need
    score = cross_val_score(model, frame, labels, scoring="neg_log_loss", error_score="raise")
    assert np.isfinite(score).all()

    part = frame[100:103]
    answer: Any = model.predict_proba_frame(part)
    assert type(answer) is frames.DataFrame
    assert np.array_equal(answer.to_numpy(), expected[100:103])
    assert list(answer.columns) == ([0, 1] if library == "pandas" else ["0", "1"])
    if library == "pandas":
        assert answer.index.tolist() == [100, 101, 102]
    with pytest.raises(TypeError):
        model.predict_proba_frame(X)

    isotonic = (
        StreamingIsotonicRegression().set_output(transform=library).fit(frame[["x0"]], labels)
    )
    assert type(isotonic.transform(frame[["x0"]])) is frames.DataFrame


@pytest.mark.filterwarnings("ignore:Confidence interval")
@pytest.mark.parametrize("increasing", [True, False, "auto"])
@pytest.mark.parametrize("bounds", [(None, None), (-0.5, 1.5)])
def test_isotonic_regression_is_that_of_scikit_learn(increasing: Any, bounds: Any) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 60))
        X = rng.integers(0, 20, n).astype(float)
        y = rng.normal(size=n) + (0.1 if increasing is True else -0.1) * X
        w = rng.integers(0, 3, n).astype(float)
        w[:2] = 1.0
        options = {
            "increasing": increasing,
            "y_min": bounds[0],
            "y_max": bounds[1],
            "out_of_bounds": ("nan", "clip")[n % 2],
        }
        theirs = IsotonicRegression(**options).fit(X, y, w)
        whole = StreamingIsotonicRegression(**options).fit(X, y, w)
        t = np.linspace(-3, 23, 60)
        np.testing.assert_allclose(whole.predict(t), theirs.predict(t), atol=1e-9)
        parts = StreamingIsotonicRegression(**options | {"increasing": theirs.increasing_})
        for i in range(0, n, 7):
            parts.partial_fit(X[i : i + 7], y[i : i + 7], w[i : i + 7])
            parts.predict([0.0])
        np.testing.assert_allclose(parts.transform(t), theirs.transform(t), atol=1e-9)
        assert (parts.X_min_, parts.X_max_) == (theirs.X_min_, theirs.X_max_)


def test_isotonic_regression_of_the_last_samples() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random(300), rng.random(300)
    model = StreamingIsotonicRegression(window=100, out_of_bounds="clip").partial_fit(X, y)
    expected = IsotonicRegression(out_of_bounds="clip").fit(X[200:], y[200:])
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-9)
    model.fit(X[:50], y[:50])
    expected.fit(X[:50], y[:50])
    np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-9)


def test_values_outside_are_refused_if_asked() -> None:
    model = StreamingIsotonicRegression(out_of_bounds="raise").fit([1.0, 2.0], [0.0, 1.0])
    theirs = IsotonicRegression(out_of_bounds="raise").fit([1.0, 2.0], [0.0, 1.0])
    for t in ([1.5, 3.0], [3.0, 0.5, 0.25]):
        with pytest.raises(ValueError, match="interpolation range") as expected:
            theirs.predict(t)
        with pytest.raises(ValueError, match="interpolation range") as raised:
            model.predict(t)
        assert str(raised.value) == str(expected.value)


def test_an_unfitted_map_says_so_after_the_shape() -> None:
    model = StreamingIsotonicRegression()
    with pytest.raises(ValueError, match="should be a 1d array or 2d array with 1 feature"):
        model.transform([[1.0, 2.0]])
    for call in (model.transform, model.predict):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            call([1.0])


def test_float32_stays_float32() -> None:
    x, y = np.arange(5, dtype=np.float32), [2.0, 1.1, 4.0, 3.0, 5.0]
    model, theirs = StreamingIsotonicRegression().fit(x, y), IsotonicRegression().fit(x, y)
    for fitted in (model, theirs, pickle.loads(pickle.dumps(model))):
        assert fitted.predict([0.5]).dtype == fitted.transform([0.5]).dtype == np.float32
        assert fitted.X_thresholds_.dtype == fitted.y_thresholds_.dtype == np.float32
        assert isinstance(fitted.X_min_, np.float32)
    np.testing.assert_array_equal(model.predict(x), theirs.predict(x))
    one = StreamingIsotonicRegression().fit(x[:1], y[:1])
    assert one.predict([7.0]).dtype == np.float32
    model.partial_fit(x, y)
    assert model.predict(x).dtype == np.float32
    model.partial_fit(x.astype(float), y)  # a double is not rounded
    assert model.predict(x).dtype == np.float64
    model.partial_fit(x, y)
    assert model.predict(x).dtype == np.float64
    assert model.fit(x, y).predict(x).dtype == np.float32


def test_answers_between_denormal_knots_are_finite() -> None:
    x = np.array([0.0, 4.0, 8.0]) * 5e-324
    model = StreamingIsotonicRegression().fit(x, [0.0, 0.5, 1.0])
    answers = model.predict(np.array([1.0, 6.0]) * 5e-324)
    assert ((answers >= [0.0, 0.5]) & (answers <= [0.5, 1.0])).all()


def test_a_batch_of_wrong_weights_is_refused() -> None:
    model = StreamingIsotonicRegression()
    for _ in range(2):
        with pytest.raises(ValueError, match="Negative"):
            model.partial_fit([1.0, 2.0], [0.0, 1.0], [-1.0, -1.0])
        with pytest.raises(ValueError, match="at least one non-zero"):
            model.partial_fit([1.0, 2.0], [0.0, 1.0], [0.0, 0.0])
        model.partial_fit([1.0, 2.0], [0.0, 1.0])


def test_the_wrapper_of_river_points_here() -> None:
    with pytest.raises(TypeError, match=r"from streamcal\.sklearn import OnlineCalibrated"):
        streamcal.CalibratedClassifier(GaussianNB())


def test_a_classifier_that_has_no_probabilities_yet_gets_frequencies() -> None:
    """GaussianNB answers NaN until it has learned all classes."""
    model = OnlineCalibratedClassifier(GaussianNB())
    labels = [1, 1, 0, 1, 2, 2, 0, 1, 2] * 20
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        for n, y in enumerate(labels):
            if n:
                p = model.predict_proba([[0.0], [1.0]])
                assert np.allclose(p.sum(axis=1), 1.0)
            if 0 < n < 5:  # of Krichevsky and Trofimov
                counts = np.bincount(labels[:n], minlength=3)
                np.testing.assert_allclose(p, [(counts + 0.5) / (n + 1.5)] * 2)
                assert model.predict([[0.0]]) == [1]
            model.partial_fit([[y + rng.normal()]], [y], classes=[0, 1, 2])
    assert model.predict([[-2.0], [4.0]]).tolist() == [0, 2]


class Answers(ClassifierMixin, BaseEstimator):
    """Predicts what it is told."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> "Answers":
        self.n_fitted_ = getattr(self, "n_fitted_", 0) + 1
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.array([self.answer] * len(X))


@pytest.mark.parametrize("answer", [(math.nan, 0.5), (0.5, math.inf), (-0.5, 1.5)])
def test_probabilities_that_are_none_are_refused(answer: Any) -> None:
    model = OnlineCalibratedClassifier(Answers(answer)).partial_fit([[1.0]], [0], classes=[0, 1])
    for call in (model.predict, model.predict_proba, lambda X: model.partial_fit(X, [1])):
        with pytest.raises(ValueError, match="`estimator` must have probabilities in"):
            call([[1.0]])
    assert model.estimator_.n_fitted_ == 1
