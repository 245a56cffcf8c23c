"""What users write, as type checkers see it: mypy and basedpyright check it.

Here is no `Any`, and no comment that switches a rule off. `assert_type` says what an expression is
for a checker; `tests/test_typed_programs.py` runs the functions.
"""

from pathlib import Path
from typing import assert_type

import numpy as np
import polars as pl
from numpy.typing import NDArray
from river import compose, datasets, evaluate, linear_model, metrics, preprocessing, tree
from river.base.typing import ClfTarget

import streamcal
from streamcal import decision, losses, ordinal
from streamcal.calibration import read_export

Features = dict[str, float]

N_ROWS = 60


def rows() -> list[tuple[Features, bool]]:
    """Return the beginning of a stream."""
    return [({"a": i % 7 / 7, "b": float(i % 3)}, i % 7 > 3) for i in range(N_ROWS)]


def calibrate_a_pipeline() -> float:
    """A pipeline in one line, as in the README."""
    raw = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    model = streamcal.CalibratedClassifier(raw.clone())
    stream = datasets.Phishing().take(N_ROWS)
    print(evaluate.progressive_val_score(stream, model, metrics.LogLoss()))
    return model.predict_proba_one({"empty_server_form_handler": 1.0})[True]


def calibrate_a_model() -> int:
    """Labels at once, labels late, groups, and what a wrapper says of itself."""
    model = streamcal.CalibratedClassifier(
        tree.HoeffdingTreeClassifier(), segments=["b"], on_drift="none"
    )
    for x, y in rows():
        served = model.serve_one(x)
        assert_type(served.calibrated, dict[ClfTarget, float])
        model.learn_one(x, y, served=served)
    model.learn_group([x for x, _ in rows()[:3]], [True, True, True])
    assert_type(model.predict_proba_one({"a": 0.5, "b": 1.0}), dict[ClfTarget, float])
    n_samples: int = model.calibrators[True].n_samples
    return n_samples


def calibrate_scores() -> float:
    """The calibrator of the README, by name of a loss and by a loss."""
    calibrator = streamcal.IsotonicCalibrator(loss="log", interpolation="step")
    for score, label in [(0.2, False), (0.9, True), (0.6, True), (0.7, False)]:
        calibrator.learn_one(score, label)
    assert_type(calibrator.predict_one(0.65), float)
    assert_type(calibrator.predict_many([0.1, 0.2]), NDArray[np.float64])
    other = streamcal.IsotonicCalibrator(losses.Tweedie(power=1.3), window=100)
    other.learn_many([0.5, 1.5], [0.0, 2.0])
    restored = streamcal.IsotonicCalibrator.from_bytes(other.to_bytes())
    assert_type(restored, streamcal.IsotonicCalibrator)
    hedge = streamcal.HedgedCalibrator([calibrator, streamcal.PlattCalibrator()])
    value, ticket = hedge.serve_one(0.4)
    hedge.learn_one(0.4, True, ticket=ticket)
    return value


def calibrate_a_column() -> int:
    """A column of a data frame beside the one that it is made of."""
    calibrator = streamcal.HistogramCalibrator()
    frame = pl.DataFrame({"p": [0.2, 0.9]})
    calibrator.learn_many(frame["p"], [0, 1])
    return frame.with_columns(calibrator.predict_many(frame["p"])).width


def fit_batches() -> list[float]:
    """Isotonic regressions of batches, for losses by name and of one's own."""
    stairs = streamcal.anytime_isotonic(range(7), [8, 4, 8, 2, 2, 0, 8], loss="absolute")
    own = losses.from_function(lambda z, y: (z - y) ** 4, name="quartic")
    quartic = streamcal.anytime_isotonic([1, 2], [0.0, 1.0], loss=own, interpolation="step")
    assert_type(streamcal.isotonic_fit([3, 1, 2], [1, 0, 1])(2.5), float)
    return [float(stairs.values[0]), float(quartic.values[0])]


def calibrate_a_regressor() -> float:
    """A pipeline of river whose predictions are calibrated."""
    raw = compose.Pipeline(preprocessing.StandardScaler(), linear_model.LinearRegression())
    model = streamcal.CalibratedRegressor(raw)
    for x, y in rows():
        model.learn_one(x, float(y))
    return model.predict_one({"a": 0.5, "b": 1.0})


def cut_into_labels() -> list[float]:
    """Thresholds of ordinal labels, in a batch, in a stream and behind a pipeline."""
    found = streamcal.optimal_thresholds(
        [0.1, 0.2, 0.3], [1, 2, 3], loss="quadratic-kappa", method="dp"
    )
    assert_type(found, ordinal.Thresholds)
    stream = streamcal.StreamingThresholds(3, loss="zero-one")
    stream.learn_one(0.4, 2)
    assert_type(stream.predict_one(0.4), int | None)
    ranker = ordinal.CuSumRank(loss="squared")
    model = streamcal.ThresholdClassifier(
        preprocessing.StandardScaler() | linear_model.LinearRegression(), loss="absolute"
    )
    features: Features = {"a": 1.0}
    for learner in (ranker, model):
        learner.learn_one(features, 2)
        assert_type(learner.predict_one(features), ClfTarget | None)
    return [float(threshold) for threshold in found.thresholds]


def decide() -> bool:
    """Labels for goals by name, by metric of this library, and by river's."""
    chosen = decision.maximize([0.7, 0.4, 0.35], "f1")
    assert_type(chosen.labels, NDArray[np.bool_])
    decision.maximize([0.7, 0.4], decision.FBeta(2.0))
    decision.maximize([0.7, 0.4], metrics.F1(), method="plug-in")
    targets = {"precision": 0.6}
    most = decision.maximize([0.7, 0.4], "positives", subject_to=targets)
    assert_type(most.labels, NDArray[np.bool_])
    decision.maximize([0.7, 0.4], "f1", subject_to={"positives": 1, decision.FBeta(2.0): 0.1})
    answers = decision.maximize([0.7, 0.4], "coverage", subject_to={"accuracy": 0.6})
    assert_type(answers.labels, NDArray[np.object_])
    model = streamcal.DecisionClassifier(
        preprocessing.StandardScaler() | linear_model.LogisticRegression(), "gmean"
    )
    for x, y in rows():
        model.learn_one(x, y)
    sets = decision.PredictionSetClassifier(model, coverage=0.95, score="aps")
    for x, y in rows():
        answer = sets.predict_set_one(x)
        sets.learn_one(x, y, decided=answer)
    threshold = decision.EUMThreshold("jaccard")
    threshold.learn_one(0.4, True)
    return bool(chosen.labels[0])


def calibrate_keys() -> float:
    """One calibrator for each key."""
    keyed = streamcal.KeyedCalibrator(streamcal.IsotonicCalibrator(window=200))
    keyed.learn_many(["a", "a", "b"], [0.3, 0.9, 0.9], [0, 1, 0])
    return keyed.predict_one("a", 0.9)


def export_a_map() -> float:
    """A map that leaves Python, and comes back."""
    calibrator = streamcal.PlattCalibrator()
    calibrator.learn_many([0.2, 0.6, 0.9], [0, 1, 1])
    text = calibrator.export("json", error=1e-4)
    assert_type(text, str)
    assert_type(calibrator.export("onnx", dtype="float32", error=1e-3), bytes)
    read = read_export(text)
    assert_type(read.predict_one(0.5), float)
    return read.predict_one(0.5)


def draw(path: Path) -> None:
    """The picture of the start page."""
    display = streamcal.plot.ReliabilityDisplay.from_predictions(
        [0, 1, 1], [0.2, 0.7, 0.4], scoring="log", band="confidence", method="asymptotic"
    )
    display.figure_.savefig(path)
