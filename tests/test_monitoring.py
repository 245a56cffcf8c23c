"""Alarms: bets that are fair as long as probabilities are right, and gain when they are not."""

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import base, linear_model
from scipy.integrate import quad
from scipy.special import expit

from streamcal import CalibratedClassifier, IdentityCalibrator
from streamcal.kernels.bets import Bets
from streamcal.monitoring import CalibrationDrift, CalibrationTest, e_bh
from streamcal.monitoring.calibration import _adjusted
from streamcal.monitoring.fixed_bets import all_bets
from tests.interrupts import InterruptionError, interrupt, points_of

PROBABILITIES = st.one_of(
    st.sampled_from([0.5, 1e-9, 1.0 - 1e-9, 0.1]), st.floats(1e-9, 1.0 - 1e-9)
)
SAMPLES = st.lists(
    st.tuples(PROBABILITIES, st.booleans(), st.sampled_from([1.0, 0.3])), max_size=12
)


def factors(p: float, happened: bool, w: float) -> np.ndarray:
    """Return by what each bet multiplies its stake: the formula of the module."""
    bets, _ = all_bets()
    shift, slope, curve, low, high = bets.T
    z = np.clip(math.log(p) - math.log1p(-p), -30.0, 30.0)
    odds = shift + slope * z + curve * np.clip(z, -4.0, 4.0) ** 2
    ratio = expit(odds) / p if happened else expit(-odds) / (1.0 - p)
    return np.asarray(np.where((low <= z) & (z < high), ratio, 1.0) ** w)


def slow_values(samples: list[Any]) -> tuple[float, float]:
    """Return e-value and Shiryaev–Roberts statistic: one stake for each bet and each beginning."""
    _, prior = all_bets()
    left = [1.0, *(1.0 / (2.0 + math.log(t)) for t in range(1, len(samples) + 1))]
    value, total = left[-1], 0.0
    for begin in range(len(samples)):
        stake = np.prod([factors(*sample) for sample in samples[begin:]], axis=0) @ prior
        value += (left[begin] - left[begin + 1]) * stake
        total += stake
    return value, total


@given(SAMPLES)
def test_stakes_by_each_beginning(samples: list[Any]) -> None:
    test, sums = CalibrationTest(), Bets(*all_bets(), False)
    for p, happened, w in samples:
        test.update(happened, p, w)
        sums.update(p, happened, w)
    value, total = slow_values(samples)
    assert test.log_e_value == pytest.approx(math.log(value), abs=1e-9)
    if samples:
        assert sums.log_value() == pytest.approx(math.log(total), abs=1e-9)


@given(SAMPLES, PROBABILITIES, st.sampled_from([1.0, 0.7, 1e-3]))
def test_bets_are_fair(samples: list[Any], p: float, w: float) -> None:
    """The mean of the next value is the value now, and with a smaller weight at most that."""
    for spends, fresh in ((True, 0.0), (False, 1.0)):
        mean = before = 0.0
        for happened, chance in ((True, p), (False, 1.0 - p)):
            bets = Bets(*all_bets(), spends)
            for each, label, weight in samples:
                bets.update(each, label, weight)
            before = (math.exp(bets.log_value()) if spends or samples else 0.0) + fresh
            bets.update(p, happened, w)
            mean += chance * math.exp(bets.log_value())
        assert mean <= before * (1.0 + 1e-9)
        if w == 1.0:
            assert mean == pytest.approx(before, rel=1e-9)


def stream(n: int, change: int, shift: float, slope: float, seed: int) -> tuple[Any, Any]:
    """Return probabilities and labels; from ``change`` on the odds are others."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    odds = np.where(np.arange(n) < change, z, shift + slope * z)
    return expit(z), rng.random(n) < expit(odds)


@pytest.mark.parametrize(("shift", "slope"), [(0.5, 1.0), (-1.0, 1.0), (0.0, 0.5), (0.0, 2.0)])
def test_wrong_probabilities_are_found(shift: float, slope: float) -> None:
    for seed in range(3):
        p, y = stream(5_000, 2_000, shift, slope, seed)
        test, drift = CalibrationTest(1e-3), CalibrationDrift(10_000_000)
        test.update_many(y[:2_000], p[:2_000])
        assert test.p_value > 1e-3
        test.update_many(y[2_000:], p[2_000:])
        assert test.rejected
        assert test.p_value <= 1e-3
        assert test.since is not None
        assert abs(test.since - 2_000) < 400
        samples = zip(y.tolist(), p.tolist(), strict=True)
        for label, score in samples:
            drift.update(label, score)
            if drift.drift_detected:
                break
        assert 2_000 < drift.n_samples < 3_200
        assert drift.since is not None
        assert abs(drift.since - 2_000) < 400


def test_right_probabilities_raise_few_alarms() -> None:
    rng = np.random.default_rng(0)
    n_alarms = 0
    for _ in range(100):
        p = rng.choice([0.01, 0.3, 0.5, 0.99], size=1_000)
        test = CalibrationTest(alpha=0.05)
        test.update_many(rng.random(1_000) < p, p)
        n_alarms += test.rejected
    assert n_alarms <= 10  # 5 at most are expected


def test_evidence_against_a_right_score_stays_small() -> None:
    p, y = stream(100_000, 100_000, 0.0, 1.0, 1)
    test = CalibrationTest()
    test.update_many(y, p)
    assert test.since is None
    assert test.log_e_value >= -math.log(2.0 + math.log(100_000.0)) - 1e-9


def test_impossible_labels() -> None:
    test, drift = CalibrationTest(), CalibrationDrift()
    for p, happened in ((0.0, False), (1.0, True)):
        test.update(happened, p)
        drift.update(happened, p)
    assert test.log_e_value <= 1e-9
    test.update(True, 0.0)
    drift.update(False, 1.0)
    assert test.log_e_value == math.inf
    assert (test.p_value, test.rejected, drift.drift_detected) == (0.0, True, True)
    test.update(False, 0.4)
    assert test.log_e_value == math.inf
    drift.update(False, 0.4)
    assert (drift.drift_detected, drift.n_samples) == (False, 1)


def test_a_negative_zero_is_zero() -> None:
    for make in (CalibrationTest, CalibrationDrift):
        negative, zero = make(), make()
        for happened in (False, True):
            negative.update(happened, -0.0)
            zero.update(happened, 0.0)
            assert negative.to_bytes() == zero.to_bytes()
        assert type(zero).from_bytes(negative.to_bytes()).to_bytes() == zero.to_bytes()


def test_samples_after_an_impossible_label_count() -> None:
    one, many = CalibrationTest(), CalibrationTest()
    samples = [(True, 0.0), (False, 0.4), (True, 0.7), (False, 1.0), (False, 0.2)]
    for y, p in samples:
        one.update(y, p)
    many.update_many(*zip(*samples, strict=True))
    assert many.to_bytes() == one.to_bytes()
    assert many.n_samples == 5
    assert many.log_lasting_e_value == math.inf
    assert e_bh({"a": many.log_lasting_e_value}) == ["a"]


@given(SAMPLES)
def test_many_are_one_by_one(samples: list[Any]) -> None:
    one, many = CalibrationTest(), CalibrationTest()
    for p, happened, w in samples:
        one.update(happened, p, w)
    if samples:
        p, happened, w = zip(*samples, strict=True)
        many.update_many(np.array(happened), p, w)
    assert one.to_bytes() == many.to_bytes()


def test_a_long_stream_of_gains_stays_finite() -> None:
    test = CalibrationTest()
    test.update_many([True] * 2_000, [0.1] * 2_000)
    before = test.log_e_value
    assert 1_000.0 < before < math.inf
    again = CalibrationTest.from_bytes(test.to_bytes())
    for each in (test, again):
        each.update_many([True] * 100, [0.1] * 100)
    assert test.log_e_value == again.log_e_value > before + 50.0
    assert test.p_value == 0.0


def test_evidence_that_is_lost_again_is_bounded() -> None:
    """The stakes that won fall below the smallest float beside their largest value."""
    p, y = stream(100_000, 100_000, 0.0, 1.0, 6)
    test = CalibrationTest()
    test.update_many([True] * 2_000, [0.3] * 2_000)
    again = CalibrationTest.from_bytes(test.to_bytes())
    for each in (test, again):
        each.update_many(y, p)
        left = 1.0 / (2.0 + math.log(each.n_samples))
        assert math.log(left) - 1e-9 <= each.log_e_value < 0.0
        each.update_many([True] * 2_000, [0.3] * 2_000)
    assert 1_000.0 < test.log_e_value == again.log_e_value < math.inf
    for label in (True, False):
        test.update(label, 0.0)
        assert CalibrationTest.from_bytes(test.to_bytes()).log_e_value == math.inf


@pytest.mark.parametrize("make", [CalibrationTest, lambda: CalibrationDrift(40.0)])
def test_copies_go_on(make: Any) -> None:
    p, y = stream(200, 100, 1.0, 1.0, 5)
    one = make()
    for label, score in zip(y[:120].tolist(), p[:120].tolist(), strict=True):
        one.update(label, score)
    twins = [
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
        type(one).from_bytes(one.to_bytes()),
    ]
    for label, score in zip(y[120:].tolist(), p[120:].tolist(), strict=True):
        for each in (one, *twins):
            each.update(label, score)
    assert {each.to_bytes() for each in twins} == {one.to_bytes()}


def test_labels_and_dicts() -> None:
    named, top = CalibrationTest(pos_val="spam"), CalibrationTest(pos_val=None)
    plain = CalibrationTest()
    for label, p in (("spam", 0.9), ("ham", 0.6), ("spam", 0.7)):
        named.update(label, {"spam": p, "ham": 1.0 - p})
        top.update(label, {"spam": p, "ham": 1.0 - p})
        plain.update(label == "spam", p)
    for each in (named, top):
        assert each.log_e_value == plain.log_e_value
    named.update("spam", {})
    named.update("spam", None)
    assert named.n_samples == 3
    with pytest.raises(ValueError, match="`pos_val` must be a label for `update_many`"):
        top.update_many(["spam"], [0.5])


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((True, 1.5), "`y_pred` must"),
        ((True, math.nan), "`y_pred` must"),
        ((None, 0.5), "`y_true` must"),
        ((math.nan, 0.5), "`y_true` must"),
        ((True, 0.5, 1.5), r"`w` must lie in \(0, 1\]"),
        ((True, 0.5, 0.0), r"`w` must lie in \(0, 1\]"),
        ((True, 0.5, math.nan), "`w` must"),
    ],
)
@pytest.mark.parametrize("make", [CalibrationTest, CalibrationDrift])
def test_bad_samples_change_nothing(make: Any, given_: Any, message: str) -> None:
    monitor = make()
    monitor.update(True, 0.3)
    before = monitor.to_bytes()
    with pytest.raises((ValueError, TypeError), match=message):
        monitor.update(*given_)
    assert monitor.to_bytes() == before


def test_bad_batches_change_nothing() -> None:
    test = CalibrationTest()
    test.update(True, 0.3)
    before = test.to_bytes()
    for bad in (
        ([True, False], [0.5]),
        ([True], [1.5]),
        ([True], [0.5], [2.0]),
        ([True], [0.5], [1.0, 1.0]),
        ([True], [0.5], [math.nan]),
        ([True], [0.5], np.ma.array([1.0], mask=[True])),
        ([True], [0.5], ["1"]),
        ([True], [0.5], [1j]),
        ([True], [0.5], 1.0),
        ([], [], [1.0]),
    ):
        with pytest.raises((ValueError, TypeError), match="must"):
            test.update_many(*bad)
        assert test.to_bytes() == before
    test.update_many([], [])
    assert test.to_bytes() == before


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, math.nan])
def test_bad_parameters(alpha: float) -> None:
    with pytest.raises(ValueError, match="`alpha` must"):
        CalibrationTest(alpha)
    with pytest.raises(ValueError, match="`alpha` must"):
        e_bh({}, alpha)
    with pytest.raises(ValueError, match="`run_length` must"):
        CalibrationDrift(alpha / 2)
    with pytest.raises(ValueError, match="`pos_val` must"):
        CalibrationTest(pos_val=math.nan)


def test_independent_parts_are_multiplied() -> None:
    parts = []
    for seed in (1, 2):
        p, y = stream(60, 0, 1.0, 1.0, seed)
        parts.append(CalibrationTest())
        parts[-1].update_many(y, p)
    both = copy.deepcopy(parts[0])
    both.merge(parts[1])
    total = parts[0].log_e_value + parts[1].log_e_value
    assert both.log_e_value == pytest.approx(total)
    assert both.p_value <= parts[0].p_value
    both.update(True, 0.5)
    alone = copy.deepcopy(parts[0])
    alone.update(True, 0.5)
    assert both.log_e_value == pytest.approx(alone.log_e_value + parts[1].log_e_value)
    for bad, error in ((both, ValueError), (CalibrationDrift(), TypeError)):
        with pytest.raises(error, match="`other` must"):
            both.merge(bad)


def test_a_reset_begins_anew() -> None:
    test = CalibrationTest(alpha=0.1)
    test.update(True, 0.0)
    test.reset()
    assert test.to_bytes() == CalibrationTest(alpha=0.1).to_bytes()


def test_a_detector_begins_anew_after_an_alarm() -> None:
    drift, alarms = CalibrationDrift(run_length=10.0), []
    for at in range(200):
        drift.update(True, 0.1)
        if drift.drift_detected:
            alarms.append(at)
    gaps = {after - before for before, after in itertools.pairwise(alarms)}
    assert len(gaps) == 1
    assert len(alarms) > 5
    assert drift.clone().n_samples == 0


def test_an_interrupted_detector_keeps_its_alarm() -> None:
    """At each point either nothing has happened, or all of it."""
    for p in (0.5, 0.001):  # before an alarm; with one

        def prepare(p: float = p) -> tuple[CalibrationDrift, Any]:
            drift = CalibrationDrift(run_length=5.0)
            if p == 0.5:
                drift.update(True, 0.001)
                assert drift.drift_detected
            return drift, lambda: drift.update(True, p)

        drift, call = prepare()
        before = drift.drift_detected, drift.to_bytes()
        n_points, _ = points_of(call)
        after = drift.drift_detected, drift.to_bytes()
        assert before[0] != after[0]
        for k in range(n_points):
            drift, call = prepare()
            interrupt(call, k, InterruptionError())
            assert (drift.drift_detected, drift.to_bytes()) in (before, after), k


def test_a_group_is_one_sample_to_a_detector() -> None:
    rows, alone, sums = CalibrationDrift(), CalibrationDrift(), Bets(*all_bets(), False)
    for y, p in ((True, 0.25), (False, 0.75), (True, 0.5)):
        rows.update_group(y, [p] * 90)
        alone.update(y, p)
        sums.update_group(np.full(90, p), np.full(90, float(y)), 1.0)
    assert rows.n_samples == 3
    assert rows.log_statistic == pytest.approx(alone.log_statistic)
    assert rows.log_statistic == sums.log_value()
    before = rows.to_bytes()
    rows.update_group(True, [None, {}])
    given_: Any
    for given_ in (
        (True, [0.5, 2.0]),
        (True, 0.5),
        ("spam", [0.5]),
        (None, []),
        (True, [0.5], 0.0),
    ):
        with pytest.raises((ValueError, TypeError), match="must"):
            rows.update_group(*given_)
    assert rows.to_bytes() == before


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.5, 0.9, 1e-9]), st.booleans()), min_size=1),
    PROBABILITIES,
    st.integers(1, 5),
)
def test_a_group_of_a_detector_is_fair(samples: list[Any], p: float, n_rows: int) -> None:
    """Rows that have one outcome multiply what there is by 1 in the mean, or by less."""
    mean = before = 0.0
    for happened, chance in ((True, p), (False, 1.0 - p)):
        bets = Bets(*all_bets(), False)
        for each, label in samples:
            bets.update(each, label, 1.0)
        before = math.exp(bets.log_value())
        bets.update_group(np.full(n_rows, p), np.full(n_rows, float(happened)), 1.0)
        mean += chance * math.exp(bets.log_value())
    assert mean <= (before + 1.0) * (1.0 + 1e-6)


@given(st.lists(st.floats(-5.0, 12.0), max_size=9), st.sampled_from([0.01, 0.05, 0.5]))
def test_e_bh_by_its_definition(values: list[float], alpha: float) -> None:
    found = e_bh(dict(enumerate(values)), alpha)
    n, ranked = len(values), sorted(values, reverse=True)
    fitting = [k for k in range(1, n + 1) if ranked[k - 1] >= math.log(n / (alpha * k))]
    assert len(found) == max(fitting, default=0)
    assert sorted(values[i] for i in found) == sorted(ranked[: len(found)])


def test_the_wrong_labels_of_many_are_named() -> None:
    rng = np.random.default_rng(11)
    labels = ["bird", "cat", "dog", "wolf"]
    confused, right = ({label: CalibrationTest(pos_val=label) for label in labels} for _ in "ab")
    for weights in rng.dirichlet(np.ones(4), size=2_000):
        true = dict(zip(labels, weights.tolist(), strict=True))
        served = true | {"dog": true["wolf"], "wolf": true["dog"]}
        y = labels[rng.choice(4, p=weights)]
        for label in labels:
            confused[label].update(y, served)
            right[label].update(y, true)
    named = e_bh({label: test.log_e_value for label, test in confused.items()})
    assert sorted(named) == ["dog", "wolf"]
    assert e_bh({label: test.log_e_value for label, test in right.items()}) == []


def test_lasting_evidence_is_an_e_value_and_never_falls() -> None:
    """Its mean is at most 1 if the largest e-value has the heaviest tail, P(M ≥ m) = 1 / m."""
    mean, _ = quad(lambda u: math.exp(_adjusted(u) - u), 0.0, 5_000.0, limit=2_000)
    assert 0.99 < mean + 1.0 / 5_000.0 <= 1.0 + 1e-6  # beyond 5,000 there is 1 / u² of it
    grid = [_adjusted(u) for u in np.linspace(0.0, 800.0, 4_001)]
    assert grid == sorted(grid)
    p, y = stream(3_000, 1_000, 1.0, 1.0, 5)
    test, before = CalibrationTest(), -math.inf
    for start in range(0, 3_000, 100):
        part = slice(start, start + 100)
        # Evidence for a while, and then against it.
        test.update_many(y[part] if start < 2_000 else p[part] > 0.5, p[part])
        assert before <= test.log_lasting_e_value <= max(0.0, -math.log(test.p_value or 5e-324))
        before = test.log_lasting_e_value


def test_e_bh_refuses() -> None:
    with pytest.raises(ValueError, match="got nan for 'a'"):
        e_bh({"a": math.nan})
    with pytest.raises(TypeError, match="`log_e_values` must be a mapping"):
        e_bh([1.0])


def test_a_wrapper_shows_it_what_it_serves() -> None:
    rng = np.random.default_rng(3)
    detector = CalibrationDrift(run_length=2_000)
    model = CalibratedClassifier(
        linear_model.LogisticRegression(), drift_detector=detector, on_drift="reset"
    )
    n_before = 0
    for at in range(3_000):
        x = rng.normal()
        wrong = at >= 1_500
        y = bool(rng.random() < expit(-2.0 * x if wrong else 2.0 * x))
        model.predict_proba_one({"x": x})
        model.learn_one({"x": x}, y)
        if at == 1_499:
            n_before = model.n_alarms
    assert model.n_alarms > n_before
    assert detector.n_samples == 0  # the wrapper has a clone


@pytest.mark.parametrize("on_drift", ["shrink", "reset", "none"])
def test_a_wrapper_with_a_detector_goes_on_from_bytes(on_drift: Any) -> None:
    rng = np.random.default_rng(4)
    samples = [
        ({"x": x}, bool(y)) for x, y in zip(rng.random(900), rng.random(900) < 0.4, strict=True)
    ]

    def learn(model: CalibratedClassifier, part: Any) -> list[Any]:
        answers = []
        for x, y in part:
            answers.append(model.predict_proba_one(x))
            model.learn_one(x, y)
        return answers

    model = CalibratedClassifier(
        linear_model.LogisticRegression(), drift_detector=CalibrationDrift(50), on_drift=on_drift
    )
    learn(model, samples[:400])
    twin = CalibratedClassifier.from_bytes(
        model.to_bytes(), classifier=copy.deepcopy(model.classifier)
    )
    assert learn(model, samples[400:]) == learn(twin, samples[400:])
    assert twin.n_alarms == model.n_alarms > 2
    assert twin.to_bytes() == model.to_bytes()


class Right(base.Classifier):
    """A model that is right, and remembers how many samples it has got."""

    def __init__(self) -> None:
        self.n_learned = 0

    def learn_one(self, x: Any, y: Any) -> None:
        self.n_learned += 1

    def predict_proba_one(self, x: Any) -> Any:
        return {False: 1.0 - x["p"], True: x["p"]}


def test_groups_of_a_right_model_raise_no_alarm() -> None:
    rng = np.random.default_rng(0)
    model = CalibratedClassifier(
        Right(), IdentityCalibrator(), drift_detector=CalibrationDrift(20_000)
    )
    for _ in range(200):
        p = rng.random()
        rows = [{"p": p, "minute": minute} for minute in range(90)]
        model.learn_group(rows, [bool(rng.random() < p)] * 90)
    assert model.n_alarms == 0
    for _ in range(60):
        model.learn_group([{"p": 0.1}] * 90, [True] * 89 + [False])
    assert model.n_alarms > 0


@pytest.mark.parametrize(("pos_val", "labels"), [("spam", [False, True]), (True, ["ham", "spam"])])
def test_a_wrapper_refuses_labels_of_another_kind_before_its_model_learns(
    pos_val: Any, labels: list[Any]
) -> None:
    class Model(Right):
        def predict_proba_one(self, x: Any) -> Any:
            return dict.fromkeys(labels, 0.5)

    inner = Model()
    model = CalibratedClassifier(inner, drift_detector=CalibrationDrift(pos_val=pos_val))
    with pytest.raises(ValueError, match="`pos_val` must be one of the labels"):
        model.learn_one({}, labels[0])
    with pytest.raises(ValueError, match="`pos_val` must be one of the labels"):
        model.learn_one({}, labels[0], served=model.serve_one({}))
    with pytest.raises(ValueError, match="`pos_val` must be one of the labels"):
        model.learn_group([{}, {}], labels)
    assert inner.n_learned == 0
    assert not model.calibrators


def test_kernels_check_their_bets() -> None:
    for bets, prior in ((np.ones((2, 4)), np.ones(2)), (np.ones((2, 5)), np.ones(1))):
        with pytest.raises(ValueError, match="five numbers"):
            Bets(bets, prior, True)


def test_infinite_evidence_lasts() -> None:
    test = CalibrationTest()
    test.update(True, 0.0)
    assert test.log_e_value == test.log_lasting_e_value == math.inf
    assert e_bh({"a": test.log_lasting_e_value, "b": 0.0}) == ["a"]
