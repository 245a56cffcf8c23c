"""Numbers that are none, models that answer otherwise, arrays that change: errors that say so."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import naive_bayes
from river.base import Classifier

from streamcal import (
    BetaCalibrator,
    CalibratedClassifier,
    DecisionClassifier,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    StreamingThresholds,
    isotonic_fit,
    losses,
)
from streamcal.decision import PredictionSetClassifier
from streamcal.metrics import smooth_ece

SIGNALING = Decimal("sNaN")  # comparing it raises


@pytest.mark.parametrize(
    "learner",
    [
        *(HedgedCalibrator(), IsotonicCalibrator(), PlattCalibrator(), BetaCalibrator()),
        *(HistogramCalibrator(), EUMThreshold(), StreamingThresholds(2)),
        SegmentCalibrator(["a"]),
        CalibratedClassifier(naive_bayes.GaussianNB()),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_a_weight_that_can_not_be_compared_is_named(learner: Any) -> None:
    x = {"a": 1.0}
    sample: tuple[Any, ...] = (x, True) if isinstance(learner, Classifier) else (0.5, 1.0)
    given: Any = {"x": x} if isinstance(learner, SegmentCalibrator) else {}
    with pytest.raises(TypeError, match=r"^`w` must be a number, got Decimal\('sNaN'\)$"):
        learner.learn_one(*sample, w=SIGNALING, **given)
    if not isinstance(learner, Classifier):
        with pytest.raises(TypeError, match=r"^`(score|scores)` must .*Decimal"):
            learner.learn_one(SIGNALING, 1.0, **given)


@pytest.mark.parametrize("missing", [SIGNALING, pd.NA], ids=str)
def test_a_label_that_can_not_be_compared_is_named(missing: Any) -> None:
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    with pytest.raises(ValueError, match=f"`y` must be a label, got {missing}"):
        model.learn_one({"a": 1.0}, missing)
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    with pytest.raises(ValueError, match=f"`y` must hold labels, got {missing} at position 1"):
        model.learn_many(frame, pd.Series([True, missing], dtype=object))


class Listed(naive_bayes.GaussianNB):
    """Answers as models of scikit-learn do."""

    def predict_proba_one(self, x: Any) -> Any:
        return [0.25, 0.75]


@pytest.mark.parametrize(
    "wrapper", [CalibratedClassifier, DecisionClassifier, PredictionSetClassifier]
)
def test_a_model_that_returns_a_list_is_told_so(wrapper: Any) -> None:
    message = r"`predict_proba_one` of the model must return a dict from labels, got \[0.25, 0.75\]"
    model = wrapper(Listed())
    with pytest.raises(TypeError, match=message):
        model.predict_one({"a": 1.0})
    with pytest.raises(TypeError, match=message):
        model.learn_one({"a": 1.0}, True)


class Changing(losses.Squared):
    """The squared loss; another thread writes to arrays when the labels have been checked."""

    change: Any = None

    def statistic(self, y: Any) -> Any:
        Changing.change()
        return super().statistic(y)


def test_a_fit_of_scores_that_change_fits_them_or_raises_an_error() -> None:
    scores = np.arange(100.0)

    def swap() -> None:
        scores[:50] = 7.0
        scores[60] = 3.0

    Changing.change = swap
    fitted = isotonic_fit(scores, np.arange(100.0), loss=Changing())
    assert (np.diff(fitted.values) > 0.0).all()

    def spoil() -> None:
        scores[50] = np.nan

    Changing.change = spoil
    with pytest.raises(ValueError, match="`scores` must be finite, got nan"):
        isotonic_fit(scores, np.arange(100.0), loss=Changing())


def test_scores_that_change_while_they_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = np.arange(100.0)[::-1].copy(), np.arange(100.0)
    expected = isotonic_fit(scores, labels).values
    of_numpy = np.argsort

    def argsort(values: Any) -> Any:
        order = of_numpy(values)
        scores[:] = 0.0
        scores[3] = np.nan
        return order

    monkeypatch.setattr(np, "argsort", argsort)
    assert (isotonic_fit(scores, labels).values == expected).all()


@pytest.mark.parametrize("array", ["y_prob", "w"])
def test_an_error_of_probabilities_that_change_names_them(array: str) -> None:
    arrays = {"y_prob": np.full(10, 0.5), "w": np.ones(10)}

    class Label:
        def __eq__(self, other: object) -> bool:
            arrays[array][3] = np.nan
            return True

        __hash__ = object.__hash__

    labels = np.array([Label()] * 10, dtype=object)
    with pytest.raises(ValueError, match=f"`{array}` must be .*, got nan at position 3"):
        smooth_ece(labels, arrays["y_prob"], w=arrays["w"], pos_val=labels[0])
