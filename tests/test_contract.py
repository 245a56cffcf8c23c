"""The classes that fulfil the contract of `tests.contract`, and river's own checks."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from river import (
    base,
    compose,
    ensemble,
    linear_model,
    multiclass,
    naive_bayes,
    preprocessing,
    tree,
)

from streamcal import (
    CalibratedClassifier,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    VennAbersCalibrator,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from tests.contract import calibrator_contract, classifier_contract, river_checks


def scaled(model: base.Classifier) -> compose.Pipeline:
    return preprocessing.StandardScaler() | model


TestIsotonic = calibrator_contract(
    IsotonicCalibrator(), IsotonicCalibrator(prior=5.0, interpolation="step"), weights_repeat=True
)
TestIsotonicSquared = calibrator_contract(
    IsotonicCalibrator(loss="squared"),
    weights_repeat=True,
    bad_labels=(float("nan"), float("inf"), "yes", None),
)
TestIsotonicMargin = calibrator_contract(
    IsotonicCalibrator(loss="logistic"),
    IsotonicCalibrator(loss="exponential", interpolation="step"),
    weights_repeat=True,
    labels=(-1.0, 1.0),
    bad_labels=(float("nan"), 0.0, 2.0, "yes", None),
)
TestIsotonicWindow = calibrator_contract(
    IsotonicCalibrator(window=50),
    IsotonicCalibrator(window=50, interpolation="step"),
    weights_repeat=False,
    bounded=True,
)
TestIsotonicForgetting = calibrator_contract(
    IsotonicCalibrator(half_life=20.0),
    IsotonicCalibrator(half_life=20.0, window=50, interpolation="step"),
    weights_repeat=False,
)
TestVennAbers = calibrator_contract(
    VennAbersCalibrator(), VennAbersCalibrator(prior=0.5, max_scores=1_000), weights_repeat=True
)
TestVennAbersWindow = calibrator_contract(
    VennAbersCalibrator(window=50), weights_repeat=False, bounded=True
)
TestPlatt = calibrator_contract(
    PlattCalibrator(),
    PlattCalibrator(gamma=0.5, prior=1.0, clip=0.01),
    weights_repeat=False,
    bounded=True,
)


class BySegment(base.Base):
    """A `SegmentCalibrator` as a map of scores: the field is the first digits of the score."""

    def __init__(self, calibrator: SegmentCalibrator | None = None) -> None:
        self.calibrator = calibrator
        self.own = SegmentCalibrator(["digits"]) if calibrator is None else calibrator.clone()

    @staticmethod
    def columns(scores: Any) -> dict[str, list[str]]:
        return {"digits": [str(score)[:3] for score in np.ravel(scores)]}

    def predict_one(self, score: Any, x: Any = None) -> float:
        return self.own.predict_one(score, {"digits": str(score)[:3]})

    def learn_one(self, score: Any, y: Any, w: Any = 1.0, **given: Any) -> None:
        self.own.learn_one(score, y, w, x={"digits": str(score)[:3]})

    def predict_many(self, scores: Any, x: Any = None) -> Any:
        return self.own.predict_many(scores, self.columns(scores))

    def learn_many(self, scores: Any, y: Any, w: Any = None, *, x: Any = None) -> None:
        self.own.learn_many(scores, y, w, x=self.columns(scores))

    def predict_learn_many(self, scores: Any, y: Any, w: Any = None, *, x: Any = None) -> Any:
        return self.own.predict_learn_many(scores, y, w, x=self.columns(scores))


PROMISES: Any = {"weights_repeat": False, "monotone": False, "unlabelled": True}
TestSegments = calibrator_contract(cast(Any, BySegment()), **PROMISES)
TestSegmentsBounded = calibrator_contract(
    cast(Any, BySegment(SegmentCalibrator(["digits"], base=PlattCalibrator(), max_terms=5))),
    bounded=True,
    **PROMISES,
)


class ByPropensity(base.Base):
    """An `AuditedCalibrator` as a map of scores: the propensity depends on the score."""

    def __init__(self, calibrator: AuditedCalibrator | None = None) -> None:
        self.calibrator = calibrator
        self.own = AuditedCalibrator(floor=0.1) if calibrator is None else calibrator.clone()

    @staticmethod
    def propensity(score: Any) -> float:
        return 1.0 if isinstance(score, float | int) and score > 0.5 else 0.1

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "own":
            raise AttributeError(name)
        return getattr(self.own, name)

    def learn_one(self, score: Any, y: Any, w: Any = 1.0, **given: Any) -> None:
        self.own.learn_one(score, y, w, propensity=self.propensity(score), **given)

    def propensities(self, scores: Any) -> Any:
        return [self.propensity(score) for score in np.ravel(np.asarray(scores)).tolist()]

    def learn_many(self, scores: Any, y: Any, w: Any = None, **given: Any) -> None:
        self.own.learn_many(scores, y, w, propensity=self.propensities(scores), **given)

    def predict_learn_many(self, scores: Any, y: Any, w: Any = None, **given: Any) -> Any:
        known = self.propensities(scores)
        return self.own.predict_learn_many(scores, y, w, propensity=known, **given)


AUDITED: Any = {"weights_repeat": False, "monotone": False, "unlabelled": True}
TestAudited = calibrator_contract(cast(Any, ByPropensity()), **AUDITED)
TestAuditedBounded = calibrator_contract(
    cast(Any, ByPropensity(AuditedCalibrator(PlattCalibrator(), floor=0.1))),
    bounded=True,
    **AUDITED,
)

TestPriorShift = calibrator_contract(PriorShiftCalibrator(), weights_repeat=False, monotone=False)
TestPriorShiftBounded = calibrator_contract(
    PriorShiftCalibrator(PlattCalibrator()), weights_repeat=False, bounded=True
)

TestBinaryWrapper = classifier_contract(
    CalibratedClassifier(scaled(linear_model.LogisticRegression())),
    CalibratedClassifier(linear_model.PAClassifier(), PlattCalibrator()),
    multiclass=False,
)
TestWrapper = classifier_contract(
    CalibratedClassifier(naive_bayes.GaussianNB()),
    CalibratedClassifier(scaled(tree.HoeffdingTreeClassifier()), PlattCalibrator()),
    CalibratedClassifier(linear_model.SoftmaxRegression(), IsotonicCalibrator(window=100)),
    CalibratedClassifier(naive_bayes.GaussianNB(), PlattCalibrator(), segments=("a", "missing")),
)
TestBoundedWrapper = classifier_contract(
    CalibratedClassifier(linear_model.LogisticRegression(), IsotonicCalibrator(window=100)),
    CalibratedClassifier(linear_model.LogisticRegression(), PlattCalibrator()),
    CalibratedClassifier(
        linear_model.LogisticRegression(),
        SegmentCalibrator(("a", "missing"), base=PlattCalibrator(), max_terms=50),
    ),
    multiclass=False,
    bounded=True,
)

RIVER_MODELS = [
    CalibratedClassifier(scaled(linear_model.LogisticRegression())),
    CalibratedClassifier(naive_bayes.GaussianNB()),
    CalibratedClassifier(tree.HoeffdingTreeClassifier(), PlattCalibrator()),
    CalibratedClassifier(naive_bayes.GaussianNB(), TemperatureCalibrator()),
    CalibratedClassifier(naive_bayes.GaussianNB(), VennAbersCalibrator()),
    # Features of river's data sets for checks, and one that no sample has.
    CalibratedClassifier(
        scaled(linear_model.LogisticRegression()),
        segments=("https", "ip_in_url", "short-line-density-5", "missing"),
    ),
    CalibratedClassifier(naive_bayes.GaussianNB(), segments=("https", "short-line-density-5")),
    CalibratedClassifier(
        multiclass.OneVsRestClassifier(scaled(linear_model.LogisticRegression())),
        IsotonicCalibrator(window=100),
    ),
    CalibratedClassifier(
        ensemble.ADWINBaggingClassifier(linear_model.LogisticRegression(), n_models=3, seed=1),
        PlattCalibrator(),
    ),
]


@pytest.mark.parametrize(
    ("model", "check"),
    [
        pytest.param(model, check, id=f"{model}-{check.__name__}")
        for model in RIVER_MODELS
        for check in river_checks(model)
    ],
)
def test_it_passes_the_checks_of_river(
    model: CalibratedClassifier, check: Callable[[CalibratedClassifier], None]
) -> None:
    check(model.clone())
