"""The time of a sample on its way to calibrators that forget by time: wrappers and joint maps."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import base, compose, linear_model
from sklearn.linear_model import LogisticRegression

from streamcal import (
    BetaCalibrator,
    CalibratedClassifier,
    CalibratedRegressor,
    HedgedCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal.calibration import JointCalibrator, TemperatureCalibrator, TopLabelCalibrator
from streamcal.sklearn import OnlineCalibratedClassifier
from tests.fixed_model import FixedModel
from tests.timed import DecayedMean, expected_mean

START = datetime(2026, 3, 1, 12)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Counting(base.Classifier):
    """Answers the same probability for each label, and keeps what it was taught."""

    def __init__(self, labels: tuple[Any, ...] = (False, True)) -> None:
        self.labels = labels
        self.learned: list[dict[str, Any]] = []

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[str, Any], y: Any, t: Any = None) -> None:
        self.learned.append({"x": x, "y": y, "t": t})

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return dict.fromkeys(self.labels, 1.0 / len(self.labels))


class Batches(FixedModel, base.MiniBatchClassifier):
    def learn_many(self, X: Any, y: Any) -> None:
        pass

    def predict_proba_many(self, X: Any) -> Any:
        return pd.DataFrame({False: np.full(len(X), 0.5), True: np.full(len(X), 0.5)})


TIMES = [0.0, 4.0, 4.0, 3.0, 30.0, 31.5]
LABELS = [True, True, False, True, False, True]
MEAN = expected_mean(list(zip(TIMES, map(float, LABELS), strict=True)))


@pytest.mark.parametrize("as_time", [float, at, lambda s: at(s).replace(tzinfo=UTC)])
def test_the_time_is_a_feature_or_given(as_time: Callable[[float], Any]) -> None:
    by_feature = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    given = CalibratedClassifier(Counting(), DecayedMean())
    for seconds, y in zip(TIMES, LABELS, strict=True):
        by_feature.learn_one({"moment": as_time(seconds)}, y)
        given.learn_one({}, y, t=as_time(seconds))
    assert by_feature.predict_proba_one({})[True] == pytest.approx(MEAN, abs=1e-12)
    assert given.predict_proba_one({})[True] == pytest.approx(MEAN, abs=1e-12)


def test_a_given_time_counts_more_than_the_feature() -> None:
    model = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    other = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    for seconds, y in zip(TIMES, LABELS, strict=True):
        model.learn_one({"moment": 0.0}, y, t=seconds)
        other.learn_one({"moment": seconds}, y)
    assert model.predict_proba_one({}) == other.predict_proba_one({})


def test_the_model_gets_all_features_and_a_time_that_is_given() -> None:
    model = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    model.learn_one({"moment": at(0)}, True)
    model.learn_one({"moment": at(1)}, True, t=at(2))
    assert model.classifier.learned == [
        {"x": {"moment": at(0)}, "y": True, "t": None},
        {"x": {"moment": at(1)}, "y": True, "t": at(2)},
    ]


def test_a_model_that_predicts_by_time_gets_it_with_the_label() -> None:
    class ByTime(FixedModel):
        asked: Any = None

        def predict_proba_one(self, x: Any, t: Any = None) -> Any:
            self.asked = t
            return {False: 0.5, True: 0.5}

    model = ByTime()
    CalibratedClassifier(model, DecayedMean()).learn_one({}, True, t=5.0)
    assert model.asked == 5.0


def test_a_pipeline_discards_the_time() -> None:
    x = {"moment": at(0), "a": 1.0}
    pipeline = compose.Discard("moment") | linear_model.LogisticRegression()
    model = CalibratedClassifier(pipeline, DecayedMean(), time="moment")
    model.learn_one(x, True)
    assert model.predict_proba_one(x)[True] > 0.5
    bare = CalibratedClassifier(linear_model.LogisticRegression(), DecayedMean(), time="moment")
    bare.learn_one({"a": 1.0}, True, t=at(0))
    with pytest.raises(TypeError, match=r"'moment' is datetime.*compose\.Discard"):
        bare.learn_one(x, True)


@pytest.mark.parametrize(
    ("x", "t", "words"),
    [
        ({}, None, r"`x` must have the feature 'moment', which `time` names, unless `t` is given"),
        ({"moment": float("nan")}, None, "the feature 'moment' must be a datetime or a finite"),
        ({"moment": pd.NaT}, None, "the feature 'moment' must be a datetime or a number"),
        ({"moment": None}, None, "the feature 'moment' must be the time at which"),
        ({"moment": "2026-03-01"}, None, "the feature 'moment' must be a datetime or a number"),
        (
            {"moment": at(1).replace(tzinfo=UTC)},
            None,
            "the feature 'moment' must have times of one kind",
        ),
        ({"moment": 5.0}, None, "the feature 'moment' must have times of one kind"),
        ({"moment": at(1)}, float("inf"), "`t` must be a datetime or a finite"),
        ({"moment": at(1)}, 7.0, "`t` must have times of one kind"),
    ],
)
def test_a_wrong_time_is_refused_before_anything_is_learned(x: Any, t: Any, words: str) -> None:
    model = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    model.learn_one({"moment": at(0)}, True)
    before = model.to_bytes()
    with pytest.raises((TypeError, ValueError), match=words):
        model.learn_one(x, True, t=t)
    with pytest.raises((TypeError, ValueError), match=words):
        model.learn_group([{"moment": at(3)}, x], [True, True], t=t)
    assert model.to_bytes() == before
    assert len(model.classifier.learned) == 1


def test_a_time_is_needed() -> None:
    model = CalibratedClassifier(Counting(), DecayedMean())
    with pytest.raises(TypeError, match=r"`t` must be given.*time='moment'"):
        model.learn_one({"moment": 0.0}, True)
    with pytest.raises(TypeError, match=r"`t` must be given.*time='moment'"):
        model.learn_group([{}], [True])
    assert not model.classifier.learned
    regressor = CalibratedRegressor(linear_model.LinearRegression(), DecayedMean())
    with pytest.raises(TypeError, match=r"`t` must be given.*time='moment'"):
        regressor.learn_one({"a": 1.0}, 1.0)
    assert not regressor.regressor.weights


@pytest.mark.parametrize(
    "make",
    [
        lambda **given: CalibratedClassifier(Counting(), PlattCalibrator(half_life=500.0), **given),
        lambda **given: CalibratedRegressor(linear_model.LinearRegression(), **given),
    ],
)
def test_a_feature_without_need_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="`time` must be None unless the calibrator forgets by"):
        make(time="moment")
    with pytest.raises(TypeError, match="`time` must be the name of a feature or None, got 3"):
        make(time=3)
    make().learn_one({"a": 1.0}, True, t="anything, which only a model may need")


def test_parameters_are_kept() -> None:
    model = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    model.learn_one({"moment": at(0)}, True)
    assert model.clone().time == "moment"
    restored = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Counting())
    restored.learn_one({"moment": at(20)}, False)
    model.learn_one({"moment": at(20)}, False)
    assert restored.to_bytes() == model.to_bytes()


# Late labels --------------------------------------------------------------------------------------


def test_a_late_label_decays_from_its_arrival() -> None:
    remembered = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    by_hand = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    served = []
    for seconds in TIMES:
        x = {"moment": seconds}
        remembered.predict_proba_one(x)
        served.append(by_hand.serve_one(x))
    for i, (seconds, y) in enumerate(zip(TIMES, LABELS, strict=True)):
        remembered.learn_one({"moment": seconds}, y, t=100.0 + 7.0 * i)
        by_hand.learn_one({"moment": seconds}, y, t=100.0 + 7.0 * i, served=served[i])
    arrivals = [(100.0 + 7.0 * i, float(y)) for i, y in enumerate(LABELS)]
    expected = pytest.approx(expected_mean(arrivals), abs=1e-12)
    assert remembered.predict_proba_one({})[True] == expected
    assert by_hand.predict_proba_one({})[True] == expected


def test_a_group_has_one_time_that_of_its_last_row() -> None:
    rows = [{"moment": 0.0}, {"moment": 5.0}, {"moment": 9.0}]
    by_feature = CalibratedClassifier(Counting(), DecayedMean(), time="moment")
    given = CalibratedClassifier(Counting(), DecayedMean())
    for model in (by_feature, given):
        model.learn_one({}, False, t=0.0)
    by_feature.learn_group(rows, [True] * 3)
    given.learn_group(rows, [True] * 3, t=9.0)
    assert by_feature.predict_proba_one({}) == given.predict_proba_one({})
    fade = 2.0**-0.9
    assert given.predict_proba_one({})[True] == pytest.approx(1.5 / (2.0 + fade))


# Alarms -------------------------------------------------------------------------------------------


class AlarmAt(base.DriftDetector):
    def __init__(self, n: int) -> None:
        self.n = n
        self.count = 0

    def update(self, x: float) -> None:
        self.count += 1
        self._drift_detected = self.count == self.n


@pytest.mark.parametrize("on_drift", ["shrink", "reset"])
def test_new_calibrators_learn_recent_samples_at_their_times(on_drift: Any) -> None:
    model = CalibratedClassifier(
        Counting(), DecayedMean(), time="moment", drift_detector=AlarmAt(5), on_drift=on_drift
    )
    for seconds, y in zip(TIMES, LABELS, strict=True):
        model.learn_one({"moment": seconds}, y)
    assert model.n_alarms == 1
    pairs = list(zip(TIMES, map(float, LABELS), strict=True))
    kept = pairs if on_drift == "shrink" else pairs[4:]
    expected = pytest.approx(expected_mean(kept), abs=1e-12)
    assert model.predict_proba_one({})[True] == expected


def test_recent_samples_keep_their_times_in_a_state() -> None:
    from streamcal.monitoring import CalibrationDrift

    drift = CalibrationDrift(run_length=100)
    model = CalibratedClassifier(Counting(), DecayedMean(), time="moment", drift_detector=drift)
    stream = [(at(0.37 * i), i < 300 or i % 7 == 0) for i in range(600)]
    for moment, y in stream[:250]:
        model.learn_one({"moment": moment}, y)
    restored = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Counting())
    for moment, y in stream[250:]:
        model.learn_one({"moment": moment}, y)
        restored.learn_one({"moment": moment}, y)
    assert model.n_alarms
    assert restored.to_bytes() == model.to_bytes()


# Batches ------------------------------------------------------------------------------------------


FRAMES: list[Any] = [pd.DataFrame, pl.DataFrame, pa.table]


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("as_time", [float, at])
def test_a_batch_has_a_column_of_times(make: Any, as_time: Any) -> None:
    moments = [as_time(seconds) for seconds in TIMES]
    X = make({"a": [1.0] * 6, "moment": moments})
    y = pd.Series(LABELS)
    model = CalibratedClassifier(Batches(), DecayedMean(), time="moment")
    given = CalibratedClassifier(Batches(), DecayedMean())
    model.learn_many(X, y)
    given.learn_many(X, y, t=X["moment"])
    assert model.calibrate_one({False: 0.5, True: 0.5})[True] == pytest.approx(MEAN, abs=1e-12)
    assert given.calibrate_one({False: 0.5, True: 0.5}) == model.calibrate_one(
        {False: 0.5, True: 0.5}
    )


@pytest.mark.parametrize(
    ("moments", "words"),
    [
        ([at(0), None], "the feature 'moment' must be a datetime or a number"),
        ([0.0, float("nan")], "the feature 'moment' must be a datetime or a finite"),
        ([at(0), 5.0], "the feature 'moment' must have times of one kind, got datetime"),
    ],
)
def test_a_batch_with_a_wrong_time_is_refused(moments: list[Any], words: str) -> None:
    model = CalibratedClassifier(Batches(), DecayedMean(), time="moment")
    X = pd.DataFrame({"moment": pd.Series(moments, dtype=object)})
    with pytest.raises((TypeError, ValueError), match=words):
        model.learn_many(X, pd.Series([True, False]))
    assert not model.calibrators
    with pytest.raises(ValueError, match="`X` must have the column 'moment', which `time` names"):
        model.learn_many(X.rename(columns={"moment": "m"}), pd.Series([True, False]))
    with pytest.raises(ValueError, match=r"`t` must have one time per score \(2\), got 1"):
        model.learn_many(X, pd.Series([True, False]), t=[0.0])
    with pytest.raises(TypeError, match="`t` must be given"):
        CalibratedClassifier(Batches(), DecayedMean()).learn_many(X, pd.Series([True, False]))
    assert not model.calibrators


def test_a_regressor_forgets_by_time() -> None:
    def make(**given: Any) -> Any:
        model = linear_model.LinearRegression(l2=1.0)
        return CalibratedRegressor(compose.Select("a") | model, DecayedMean(), **given)

    by_feature, given, batch = make(time="moment"), make(), make(time="moment")
    for seconds, y in zip(TIMES, LABELS, strict=True):
        by_feature.learn_one({"moment": seconds, "a": 1.0}, float(y), served=0.5)
        given.learn_one({"a": 1.0}, float(y), served=0.5, t=seconds)
    X = pd.DataFrame({"moment": TIMES, "a": 1.0})
    batch.learn_many(X, pd.Series(LABELS).astype(float), served=[0.5] * 6)
    for model in (by_feature, given, batch):
        assert model.calibrate_one(0.5) == pytest.approx(MEAN, abs=1e-12)
    with pytest.raises(ValueError, match="the feature 'moment' must have times of one kind"):
        batch.learn_one({"moment": at(0), "a": 1.0}, 1.0)


def test_scikit_learn_has_no_time() -> None:
    model = OnlineCalibratedClassifier(LogisticRegression(), DecayedMean())
    with pytest.raises(TypeError, match="`calibrator` must forget by samples"):
        model.fit([[0.0], [1.0], [0.0], [1.0]], [0, 1, 0, 1])


# Many labels --------------------------------------------------------------------------------------


class JointMean(JointCalibrator):
    """The decayed share of each label."""

    needs_time = True

    def __init__(self) -> None:
        self.means: dict[Any, DecayedMean] = {}

    def learn_one(self, raw: Any, y: Any, w: float = 1.0, *, t: Any = None) -> None:
        for label in raw:
            mean = self.means.setdefault(label, DecayedMean())
            mean.learn_one(0.0, float(label == y), w, t=t)

    def predict_one(self, raw: Any) -> dict[Any, float]:
        shares = {
            label: self.means[label].predict_one(p) if label in self.means else p
            for label, p in raw.items()
        }
        return {label: p / sum(shares.values()) for label, p in shares.items()}


ABC = ("a", "b", "c")
STREAM = [(0.0, "a"), (3.0, "b"), (3.0, "a"), (20.0, "c"), (19.0, "b"), (26.0, "c")]


@pytest.mark.parametrize("calibrator", [DecayedMean(), JointMean()], ids=["each", "joint"])
def test_all_labels_are_forgotten_by_time(calibrator: Any) -> None:
    model = CalibratedClassifier(Counting(ABC), calibrator, time="moment")
    for seconds, y in STREAM:
        model.learn_one({"moment": seconds}, y)
    third = 1.0 / 3.0
    shares = {
        label: expected_mean([(t, float(y == label)) for t, y in STREAM], score=third)
        for label in ABC
    }
    expected = {label: share / sum(shares.values()) for label, share in shares.items()}
    assert model.predict_proba_one({}) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match=r"the feature 'moment'|`t` must"):
        model.learn_one({"moment": float("nan")}, "a")
    assert len(model.classifier.learned) == len(STREAM)


def test_the_top_label_is_forgotten_by_time() -> None:
    top = TopLabelCalibrator(DecayedMean())
    model = CalibratedClassifier(Counting(ABC), top, time="moment")
    assert top.needs_time
    raw = dict.fromkeys(ABC, 1.0 / 3.0)
    for seconds, y in STREAM:
        top.learn_one(raw, y, t=seconds)
        model.learn_one({"moment": seconds}, y)
    expected = expected_mean([(t, float(y == "a")) for t, y in STREAM], score=1.0 / 3.0)
    assert top.predict_one(raw)["a"] == pytest.approx(expected, abs=1e-12)
    assert model.predict_proba_one({}) == top.predict_one(raw)
    with pytest.raises(ValueError, match="must have times of one kind"):
        top.learn_one(raw, "a", t=at(0))
    with pytest.raises(TypeError, match="`t` must be the time at which a sample is learned"):
        top.learn_one(raw, "a")
    with pytest.raises(ValueError, match="the feature 'moment' must have times of one kind"):
        model.learn_one({"moment": at(0)}, "a")
    model.learn_group([{"moment": 40.0}] * 3, ["a", "b", "c"])
    for label in ABC:
        top.learn_one(raw, label, 1.0 / 3.0, t=40.0)
    assert model.predict_proba_one({}) == top.predict_one(raw)
    counting = TopLabelCalibrator()
    assert not counting.needs_time
    counting.learn_one(raw, "a", t="ignored")


# The library's own calibrators --------------------------------------------------------------------


def seconds_of(n: float) -> timedelta:
    return timedelta(seconds=n)


def share_of(half_life: Any) -> Any:
    return half_life if isinstance(half_life, timedelta) else 1.0 - 2.0 ** (-1.0 / half_life)


OWN: dict[str, Callable[[Callable[[float], Any]], Any]] = {
    "platt": lambda span: PlattCalibrator(half_life=span(50)),
    "isotonic": lambda span: IsotonicCalibrator(half_life=span(50), window=span(200)),
    "hedge": lambda span: HedgedCalibrator([PlattCalibrator(), BetaCalibrator(half_life=span(60))]),
    "shares": lambda span: HedgedCalibrator(
        [PlattCalibrator(), BetaCalibrator()], share=(0.0, share_of(span(40)))
    ),
    "segments": lambda span: SegmentCalibrator(["a"], base=PlattCalibrator(half_life=span(50))),
    "temperature": lambda span: TemperatureCalibrator(half_life=span(50)),
    "top": lambda span: TopLabelCalibrator(PlattCalibrator(half_life=span(50))),
}


class Skewed(Counting):
    """Answers probabilities that depend on the sample."""

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        rest = (1.0 - x["p"]) / (len(self.labels) - 1)
        return {label: x["p"] if at == 0 else rest for at, label in enumerate(self.labels)}


@pytest.mark.parametrize("labels", [(True, False), ABC], ids=["two", "three"])
@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize("name", OWN)
def test_a_constant_rate_gives_what_counting_gives(name: str, delay: int, labels: Any) -> None:
    by_time = CalibratedClassifier(
        Skewed(labels), OWN[name](seconds_of), time="moment", drift_detector=AlarmAt(150)
    )
    counting = CalibratedClassifier(
        Skewed(labels), OWN[name](lambda n: n), drift_detector=AlarmAt(150)
    )
    rng = np.random.default_rng(5)
    scores = rng.uniform(0.51, 0.99, 300).round(3)  # so that the top label is always the first
    xs = [{"p": p, "a": i % 3, "moment": at(i)} for i, p in enumerate(scores)]
    ys = [labels[at] for at in rng.integers(len(labels), size=300)]
    for i, x in enumerate(xs):
        assert by_time.predict_proba_one(x) == pytest.approx(
            counting.predict_proba_one(x), abs=1e-12
        )
        if i >= delay:
            late = {} if not delay else {"t": at(i)}
            by_time.learn_one(xs[i - delay], ys[i - delay], **late)
            counting.learn_one(xs[i - delay], ys[i - delay])
    assert by_time.n_alarms == 1
    restored = CalibratedClassifier.from_bytes(
        CalibratedClassifier(Skewed(labels), OWN[name](seconds_of), time="moment").to_bytes(),
        classifier=Skewed(labels),
    )
    restored.learn_one(xs[0], ys[0])
    assert restored.time == "moment"


@pytest.mark.parametrize("name", OWN)
def test_a_batch_learns_as_one_by_one(name: str) -> None:
    by_one, batch = (
        CalibratedClassifier(Batches(), OWN[name](seconds_of), time="moment") for _ in range(2)
    )
    rng = np.random.default_rng(7)
    moments = (np.datetime64("2026-03-01") + np.cumsum(rng.integers(0, 90, 120))).tolist()
    moments = [datetime(m.year, m.month, m.day) for m in moments]
    X = pd.DataFrame({"moment": moments, "a": rng.integers(0, 3, 120)})
    p = rng.random(120).round(3)
    labels = rng.random(120) < p
    served = pd.DataFrame({False: 1.0 - p, True: p})
    batch.learn_many(X, pd.Series(labels), served=served)
    for x, y, share in zip(X.to_dict("records"), labels.tolist(), p.tolist(), strict=True):
        by_one.learn_one(x, y, served={False: 1.0 - share, True: share})
    raw = {False: 0.3, True: 0.7}
    assert batch.calibrate_one(raw, {"a": 1}) == pytest.approx(by_one.calibrate_one(raw, {"a": 1}))
