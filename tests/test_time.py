"""Forgetting by time: half-lives and windows that are timedeltas."""

import copy
import math
import pickle
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from streamcal import Calibrator
from streamcal._state import restore
from streamcal._state.format import decode, encode
from streamcal.calibration import (
    AnytimeCalibrator,
    BetaCalibrator,
    HedgedCalibrator,
    HistogramCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TemperatureCalibrator,
    TopLabelCalibrator,
    VennAbersCalibrator,
)
from streamcal.calibration.clock import as_seconds, as_times, pack_time, unpack_time
from streamcal.decision import EUMThreshold
from streamcal.kernels.moments import read_moments
from streamcal.ordinal import StreamingThresholds

START = datetime(2024, 3, 1)
MINUTE = 60.0
Length = Callable[[float], Any]
Make = Callable[[Length], Any]


def counted(n: float) -> float:
    return n


def timed(n: float) -> timedelta:
    return timedelta(seconds=n * MINUTE)


class Own(Calibrator):
    """A calibrator of one's own, which no compiled loop knows, and which forgets by time."""

    def __init__(self, half_life: float | timedelta) -> None:
        self.half_life = half_life
        self.map = IsotonicCalibrator(half_life=half_life)
        self.needs_time = isinstance(half_life, timedelta)

    def learn_one(
        self,
        score: float,
        y: float,
        w: float = 1.0,
        *,
        x: Any = None,
        ticket: Any = None,
        t: Any = None,
    ) -> None:
        self.map.learn_one(score, y, w, t=t)

    def predict_one(self, score: float, x: Any = None) -> float:
        return self.map.predict_one(score) / 2.0 + 0.25

    def _check_labels(self, y: Any) -> Any:
        return self.map._check_labels(y)


def _whole(length: Any) -> Any:
    return length if isinstance(length, timedelta) else int(length)


def mix(length: Length) -> HedgedCalibrator:
    return HedgedCalibrator(
        [
            IdentityCalibrator(),
            PlattCalibrator(half_life=length(40)),
            IsotonicCalibrator(window=length(50)),
            IsotonicCalibrator("squared", half_life=length(25), interpolation="step"),
            BetaCalibrator(),
        ]
    )


def share(length: Length) -> Any:
    """Return the share of a half-life."""
    half_life = length(40)
    return half_life if isinstance(half_life, timedelta) else 1.0 - 2.0 ** (-1.0 / half_life)


MAKERS: dict[str, Make] = {
    "platt": lambda length: PlattCalibrator(half_life=length(40)),
    "calibeating": lambda length: PlattCalibrator(half_life=length(0.5), calibeating=7),
    "beta": lambda length: BetaCalibrator(half_life=length(40)),
    "histogram": lambda length: HistogramCalibrator(5, half_life=length(30)),
    "fast histogram": lambda length: HistogramCalibrator(5, half_life=length(0.1)),
    "isotonic half-life": lambda length: IsotonicCalibrator(half_life=length(30)),
    "isotonic window": lambda length: IsotonicCalibrator("squared", window=length(60)),
    "isotonic both": lambda length: IsotonicCalibrator(window=length(60), half_life=length(10)),
    "isotonic fast": lambda length: IsotonicCalibrator(half_life=length(0.2)),
    "isotonic few": lambda length: IsotonicCalibrator(half_life=length(30), max_scores=8),
    "venn-abers window": lambda length: VennAbersCalibrator(window=length(60)),
    "anytime": lambda length: AnytimeCalibrator("absolute", window=_whole(length(60)), every=25),
    "hedge": mix,
    "hedge of shares": lambda length: HedgedCalibrator(
        [IdentityCalibrator(), PlattCalibrator(), IsotonicCalibrator(window=70)],
        share=(0.0, share(length), 0.01),
    ),
    "hedge of own": lambda length: HedgedCalibrator(
        [Own(half_life=length(30)), PlattCalibrator(half_life=length(40))]
    ),
    "hedge of hedges": lambda length: HedgedCalibrator([mix(length), IdentityCalibrator()]),
}
SEGMENTS: dict[str, Make] = {
    "segments": lambda length: SegmentCalibrator(["shop"], half_life=length(100)),
    "base": lambda length: SegmentCalibrator(["shop"], base=PlattCalibrator(half_life=length(40))),
    "both": lambda length: SegmentCalibrator(
        ["shop"], half_life=length(100), base=PlattCalibrator(half_life=length(40))
    ),
    "own base": lambda length: SegmentCalibrator(
        ["shop"], half_life=length(100), base=Own(half_life=length(30))
    ),
}
VENN_ABERS: dict[str, Make] = {
    "venn-abers": lambda length: VennAbersCalibrator(half_life=length(30))
}
ALL = MAKERS | VENN_ABERS | SEGMENTS


def stream(n: int, seed: int = 1) -> tuple[list[float], list[float], list[float]]:
    """Return scores with ties, labels that follow them, and weights."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 21, n) / 20.0
    labels = (rng.random(n) < scores**2).astype(float)
    return scores.tolist(), labels.tolist(), rng.choice([1.0, 0.5, 2.0], n).tolist()


def irregular(n: int, seed: int = 2) -> list[float]:
    """Return times with ties, steps back, and gaps from seconds to a thousand half-lives."""
    rng = np.random.default_rng(seed)
    steps = rng.choice(
        [0.0, 1.0, 60.0, 90.5, -200.0, 3_600.0, 1e6], n, p=[0.2, 0.2, 0.3, 0.1, 0.1, 0.09, 0.01]
    )
    times: list[float] = (1e6 + np.cumsum(steps)).tolist()
    return times


def fields(calibrator: Any, i: int) -> dict[str, Any]:
    return {"x": {"shop": "abc"[i % 3]}} if calibrator.fields else {}


def columns(calibrator: Any, n: int) -> dict[str, Any]:
    return {"x": {"shop": ["abc"[i % 3] for i in range(n)]}} if calibrator.fields else {}


def learned_one_by_one(calibrator: Any, samples: Any, times: list[Any]) -> list[float]:
    """Predict and learn samples one by one; return the predictions."""
    found = []
    for i, (score, y, w) in enumerate(zip(*samples, strict=True)):
        x = fields(calibrator, i)
        found.append(calibrator.predict_one(score, **x))
        calibrator.learn_one(score, y, w, t=times[i], **x)
    return found


# A constant rate ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_at_a_constant_rate_time_is_as_counting(name: str) -> None:
    samples = stream(600)
    times = [START + timedelta(seconds=i * MINUTE) for i in range(600)]
    expected = MAKERS[name](counted).predict_learn_many(*samples)
    found = MAKERS[name](timed).predict_learn_many(*samples, t=times)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("name", [*SEGMENTS, *VENN_ABERS])
def test_where_counting_looks_one_sample_ahead_time_does_not(name: str) -> None:
    """What counts samples ages by one more before it predicts; a prediction has no time."""
    samples, n = stream(600), 600
    a, b = ALL[name](counted), ALL[name](timed)
    expected = a.predict_learn_many(*samples, **columns(a, n))
    found = b.predict_learn_many(*samples, t=(np.arange(n) * MINUTE), **columns(b, n))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=0.02)
    if name == "venn-abers":  # the maps are the same
        np.testing.assert_allclose(
            b.isotonic.predict_many([0.1, 0.5]), a.isotonic.predict_many([0.1, 0.5]), atol=1e-12
        )


def test_maps_of_all_labels_at_a_constant_rate() -> None:
    raw = {"cat": 0.5, "dog": 0.3, "fox": 0.2}
    for make in (
        lambda length: TemperatureCalibrator(half_life=length(30)),
        lambda length: TopLabelCalibrator(PlattCalibrator(half_life=length(30))),
    ):
        a, b = make(counted), make(timed)
        assert b.needs_time
        assert not a.needs_time
        for i in range(200):
            label = ["cat", "dog", "fox"][i * i % 3]
            a.learn_one(raw, label)
            b.learn_one(raw, label, t=START + timedelta(minutes=i))
            if i % 50 == 0:
                b = pickle.loads(pickle.dumps(b))
                b = type(b).from_bytes(b.to_bytes())
            expected = pytest.approx(list(a.predict_one(raw).values()), abs=1e-12)
            assert list(b.predict_one(raw).values()) == expected
        before = b.to_bytes()
        with pytest.raises(ValueError, match="datetimes without a zone as before, got 5"):
            b.learn_one(raw, "cat", t=5)
        assert b.to_bytes() == before


# Any times ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_batches_and_copies_learn_as_samples_do(name: str) -> None:
    n = 300
    samples, times = stream(n), irregular(n)
    expected = learned_one_by_one(ALL[name](timed), samples, times)
    calibrator, rng, found, start = ALL[name](timed), np.random.default_rng(3), [], 0
    while start < n:
        stop = min(n, start + int(rng.choice([1, 2, 5, 60])))
        part = [column[start:stop] for column in samples]
        x = {
            key: {"shop": ["abc"[i % 3] for i in range(start, stop)]}
            for key in columns(calibrator, 1)
        }
        found += calibrator.predict_learn_many(*part, t=times[start:stop], **x).tolist()
        calibrator = pickle.loads(pickle.dumps(copy.deepcopy(calibrator)))
        if "own" not in name:
            calibrator = Calibrator.from_bytes(calibrator.to_bytes())
        start = stop
    assert found == expected


@pytest.mark.parametrize("name", ALL)
def test_a_time_that_goes_back_counts_as_equal(name: str) -> None:
    samples, times = stream(200), irregular(200)
    latest = np.maximum.accumulate(times).tolist()
    expected = learned_one_by_one(ALL[name](timed), samples, latest)
    assert learned_one_by_one(ALL[name](timed), samples, times) == expected


@pytest.mark.parametrize("name", ALL)
def test_predicting_does_not_advance_the_time(name: str) -> None:
    calibrator, samples = ALL[name](timed), stream(50)
    learned_one_by_one(calibrator, samples, irregular(50))
    before = pickle.dumps(calibrator)
    calibrator.predict_one(0.3, **fields(calibrator, 0))
    calibrator.predict_many([0.3, 0.9], **columns(calibrator, 2))
    assert pickle.dumps(calibrator) == before


def test_predictions_of_a_venn_abers_pair_are_at_the_time_of_the_newest_sample() -> None:
    calibrator = VennAbersCalibrator(half_life=timedelta(hours=1), prior=0.0)
    calibrator.learn_one(0.5, 0, t=0.0)
    calibrator.learn_one(0.5, 0, t=3_600.0)  # weights are 1/2 and 1
    assert calibrator.predict_interval_one(0.5) == (0.0, 1.0 / 2.5)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("venn-abers", "venn-abers window")])
def test_ten_thousand_half_lives_leave_nothing(name: str) -> None:
    calibrator = ALL[name](timed)
    learned_one_by_one(calibrator, stream(200), irregular(200))
    t = 1e9
    for _ in range(3):
        t += 10_000 * 100 * MINUTE
        calibrator.learn_one(0.3, 1.0, t=t, **fields(calibrator, 0))
        assert 0.0 <= calibrator.predict_one(0.3, **fields(calibrator, 0)) <= 1.0
    if isinstance(calibrator, IsotonicCalibrator):
        assert calibrator.samples()[1].tolist() == [1.0]
    if isinstance(calibrator, HistogramCalibrator):
        assert calibrator._kept_scores()[0].tolist() == [0.3]


# Oracles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("window", [None, 600.0])
@pytest.mark.parametrize("half_life", [None, 45.0, 3_000.0])
def test_an_isotonic_map_is_that_of_the_aged_samples(
    seed: int, window: float | None, half_life: float | None
) -> None:
    if window is None and half_life is None:
        return
    rng = np.random.default_rng(seed)
    calibrator = IsotonicCalibrator(
        "squared",
        window=window and timedelta(seconds=window),
        half_life=half_life and timedelta(seconds=half_life),
        interpolation="step",
    )
    held: list[list[float]] = []  # score, label, weight, time
    now = -math.inf
    times = rng.choice(
        [-50.0, 0.0, 1.0, 10.0, 100.0, 700.0], 150, p=[0.1, 0.2, 0.2, 0.3, 0.17, 0.03]
    )
    for t in np.cumsum(times).tolist():
        score, y = float(rng.integers(0, 12)), float(rng.integers(0, 2))
        w = float(rng.choice([1.0, 0.3, 5.0]))
        calibrator.learn_one(score, y, w, t=t)
        now = max(now, t)
        held.append([score, y, w, now])
        held = [row for row in held if window is None or now - row[3] < window]
        if rng.random() < 0.1 and half_life is None:
            score, y, w, _ = held[int(rng.integers(0, len(held)))]
            calibrator.unlearn_one(score, y, w)
            last = max(i for i, row in enumerate(held) if row[:3] == [score, y, w])
            del held[last]  # the newest of equal ones
        if rng.random() < 0.1:
            calibrator = pickle.loads(pickle.dumps(calibrator))
            calibrator = IsotonicCalibrator.from_bytes(calibrator.to_bytes())
        calibrator._regression.check()
        if not held:
            continue
        rows = np.array(held)
        aged = rows[:, 2] * (1.0 if half_life is None else 2.0 ** ((rows[:, 3] - now) / half_life))
        distinct, place = np.unique(rows[:, 0], return_inverse=True)
        weights = np.bincount(place, aged)
        sums = np.bincount(place, aged * rows[:, 1])
        near = weights > 1e-9  # lighter ones are found, too, but with the digits of sums
        found = calibrator.samples()
        np.testing.assert_array_equal(found[0], distinct)
        np.testing.assert_allclose(found[1][near], weights[near], rtol=1e-9)
        fit = isotonic_regression(sums / weights, weights=weights).x
        np.testing.assert_allclose(
            calibrator.predict_many(distinct)[near], fit[near], rtol=0.0, atol=1e-7
        )


def test_platt_curvature_is_that_of_the_aged_samples() -> None:
    half_life, gamma, prior = 300.0, 0.1, 100.0
    calibrator = PlattCalibrator(half_life=timedelta(seconds=half_life), gamma=gamma, prior=prior)
    theta, now = np.array([1.0, 0.0]), -math.inf
    outer: list[np.ndarray] = []
    times: list[float] = []
    for score, y, w, t in zip(*stream(200), irregular(200), strict=True):
        now = max(now, t)
        z = np.array(
            [math.log(p / (1.0 - p)) if (p := min(max(score, 1e-6), 1 - 1e-6)) else 0, 1.0]
        )
        error = 1.0 / (1.0 + math.exp(-float(theta @ z))) - y
        outer.append(w * error**2 * np.outer(z, z))
        times.append(now)
        ages = (now - np.array(times)) / half_life
        curvature = prior * np.eye(2) + np.tensordot(2.0**-ages, np.array(outer), 1)
        theta = theta - np.linalg.solve(curvature, w * error * z) / gamma
        calibrator.learn_one(score, y, w, t=t)
        np.testing.assert_allclose([calibrator.slope, calibrator.intercept], theta, rtol=1e-9)


def test_a_histogram_has_the_means_of_the_aged_samples() -> None:
    calibrator = HistogramCalibrator(1, half_life=timedelta(minutes=7), prior=0.0)
    ages: list[tuple[float, float, float]] = []
    now = -math.inf
    for score, y, w, t in zip(*stream(300), irregular(300), strict=True):
        calibrator.learn_one(round(score * 10) / 10, y, w, t=t)  # no more scores than cells
        now = max(now, t)
        ages.append((w, y, now))
        shares = [w * 2.0 ** ((t - now) / 420.0) for w, _, t in ages]
        mean = math.fsum(s * y for s, (_, y, _) in zip(shares, ages, strict=True))
        assert calibrator.predict_one(0.5) == pytest.approx(mean / math.fsum(shares), abs=1e-9)


def test_a_sample_leaves_the_window_when_it_is_that_old() -> None:
    calibrator = IsotonicCalibrator(window=timedelta(hours=24))
    day = timedelta(days=1)
    calibrator.learn_one(0.2, 0, t=START)
    calibrator.learn_one(0.8, 1, t=START + day - timedelta(microseconds=1))
    assert calibrator.n_samples == 2
    calibrator.learn_one(0.9, 1, t=START + day)
    assert calibrator.samples()[0].tolist() == [0.8, 0.9]
    calibrator.learn_one(0.9, 1, t=START + 9 * day)  # a burst leaves at once
    assert calibrator.n_samples == 1


@pytest.mark.parametrize(
    "make",
    [IsotonicCalibrator, partial(AnytimeCalibrator, "absolute"), partial(StreamingThresholds, 2)],
)
def test_a_window_holds_as_many_samples_as_at_that_rate_where_times_are_rounded(make: Any) -> None:
    rates: list[tuple[float, list[Any]]] = [
        (0.1, [START + timedelta(milliseconds=10 * i) for i in range(100)]),
        (6.0, [0.1 * i for i in range(300)]),
        (10.0, [1e9 + i / 3.0 for i in range(100)]),
        (1e-6, [1e11 + 1e3 * i for i in range(10)]),
    ]
    for window, times in rates:
        learner = make(window=timedelta(seconds=window))
        first, second = (as_seconds(t)[0] for t in times[:2])
        most = max(1, round(window / (second - first)))
        for i, t in enumerate(times):
            learner.learn_one(0.5, 1, t=t)
            assert learner.n_samples == min(i + 1, most)


def test_a_window_that_counts_takes_no_byte_for_times() -> None:
    by_count, by_time = IsotonicCalibrator(window=1_000), IsotonicCalibrator(window=timedelta(1))
    for i in range(1_000):
        by_count.learn_one(i / 1_000, i % 2)
        by_time.learn_one(i / 1_000, i % 2, t=i)
    more = sys.getsizeof(by_time._regression) - sys.getsizeof(by_count._regression)
    assert 8_000 <= more <= 16_000


def test_merged_maps_have_the_weights_of_their_ages() -> None:
    kinds = {"half_life": timedelta(hours=1), "prior": 0.0}
    for first, second in ((0.0, 3_600.0), (3_600.0, 0.0), (0.0, 1e9), (1e9, 0.0)):
        a, b, both = (IsotonicCalibrator(**kinds) for _ in range(3))
        a.learn_one(0.2, 1, t=first)
        b.learn_one(0.2, 0, t=second)
        for t, y in sorted([(first, 1), (second, 0)]):
            both.learn_one(0.2, y, t=t)
        a.merge(b)
        assert a.predict_one(0.2) == pytest.approx(both.predict_one(0.2))
        a.learn_one(0.2, 1, t=2e9)
    c = IsotonicCalibrator(**kinds)
    c.learn_one(0.2, 1, t=START)
    with pytest.raises(ValueError, match="times of one kind"):
        c.merge(b)
    empty = IsotonicCalibrator(**kinds)
    empty.merge(c)
    with pytest.raises(ValueError, match="times of one kind"):
        empty.learn_one(0.2, 1, t=1.0)


def test_a_merge_that_is_refused_changes_no_time() -> None:
    full = IsotonicCalibrator(half_life=timedelta(hours=1), prior=0.0)
    full.learn_one(0.2, 1, t=1e6)
    state = decode(full.to_bytes())
    counts = np.full_like(state.arrays["counts"], 2**53)
    full = IsotonicCalibrator.from_bytes(
        encode(state.kind, state.fields, state.arrays | {"counts": counts})
    )
    for one in (IsotonicCalibrator(half_life=timedelta(hours=1), prior=0.0) for _ in range(2)):
        one.learn_one(0.2, 0, t=0.0)
        before = one.to_bytes()
        with pytest.raises(ValueError, match=r"at most 2\*\*53 samples"):
            one.merge(full)
        assert one.to_bytes() == before


# Hedges -------------------------------------------------------------------------------------------


def test_a_late_label_ages_from_when_it_comes() -> None:
    def make() -> HedgedCalibrator:
        return HedgedCalibrator([IsotonicCalibrator(half_life=timedelta(hours=1), prior=0.0)])

    late, prompt = make(), make()
    for hedge in (late, prompt):
        hedge.learn_one(0.5, 0, t=0.0)
    ticket = late.serve_one(0.5).ticket
    late.learn_one(0.5, 1, ticket=ticket, t=3_600.0)
    prompt.learn_one(0.5, 1, t=3_600.0)
    assert late.predict_one(0.5) == prompt.predict_one(0.5) == pytest.approx(2.0 / 3.0)


def test_a_burst_closes_before_the_time_goes_on() -> None:
    """Labels of a burst age from when each came, though they are learned later."""

    def make() -> HedgedCalibrator:
        return HedgedCalibrator([IsotonicCalibrator(half_life=timedelta(hours=1), prior=0.0)])

    hedge = make()
    tickets = [hedge.serve_one(0.5).ticket for _ in range(2)]
    hedge.learn_one(0.5, 0, ticket=tickets[0], t=START)
    hedge.learn_one(0.5, 0, ticket=tickets[1], t=START)
    assert hedge._held
    hedge = HedgedCalibrator.from_bytes(pickle.loads(pickle.dumps(hedge)).to_bytes())
    assert hedge._held
    assert hedge._kind == "naive"
    hedge.learn_one(0.5, 1, t=START + timedelta(hours=1))
    assert not hedge._held
    assert hedge.predict_one(0.5) == pytest.approx(1.0 / (1.0 + 0.5 * 1.0 * 2.0), abs=0.2)
    with pytest.raises(ValueError, match="times of one kind"):
        hedge.learn_one(0.5, 1, t=START.replace(tzinfo=UTC))


def test_a_group_is_learned_at_one_time() -> None:
    for make in (mix, SEGMENTS["both"]):
        a, b = make(counted), make(timed)
        for i in range(40):
            x = [{"shop": "a"}, {"shop": "b"}] if a.fields else None
            a.learn_group([0.4, 0.6], [i % 2, i % 2], x=x)
            b.learn_group([0.4, 0.6], [i % 2, i % 2], x=x, t=i * MINUTE)
        found = b.predict_one(0.5, {"shop": "a"})
        assert found == pytest.approx(a.predict_one(0.5, {"shop": "a"}), abs=0.02)
        with pytest.raises(TypeError, match="`t` must be the time"):
            b.learn_group([0.4, 0.6], [0, 0], x=[{"shop": "a"}] * 2)


def test_calibrators_of_ones_own_get_the_time_that_was_given() -> None:
    class Recorder(Calibrator):
        needs_time = True

        def __init__(self) -> None:
            self.times: list[Any] = []

        def learn_one(
            self,
            score: float,
            y: float,
            w: float = 1.0,
            *,
            x: Any = None,
            ticket: Any = None,
            t: Any = None,
        ) -> None:
            self.times.append(t)

        def predict_one(self, score: float, x: Any = None) -> float:
            return score

        def _check_labels(self, y: Any) -> Any:
            return np.array(y, dtype=np.float64)

    zone = timezone(timedelta(hours=5))
    given: list[list[Any]] = [
        [START, START + timedelta(microseconds=7)],
        [START.replace(tzinfo=zone), START.replace(tzinfo=zone) + timedelta(days=9)],
        [3.5, 1e9 + 1 / 3],
    ]
    for times in given:
        hedge = HedgedCalibrator([Recorder(), PlattCalibrator()])
        assert hedge.needs_time
        hedge.learn_one(0.5, 1, t=times[0])
        hedge.learn_many([0.5, 0.4], [1, 0], t=times)
        hedge.learn_group([0.5, 0.4], [1, 0], t=times[1])
        recorder: Any
        recorder, platt = hedge._calibrators
        assert recorder.times == [times[0], *times, times[1], times[1]]
        assert not platt.needs_time


# Times that are given -----------------------------------------------------------------------------


def test_what_does_not_need_a_time_ignores_it() -> None:
    for calibrator in (PlattCalibrator(half_life=5), IsotonicCalibrator(), HedgedCalibrator()):
        assert not calibrator.needs_time
        calibrator.learn_one(0.5, 1, t="anything")
        calibrator.learn_many([0.5], [1], t=object())
        twin = calibrator.clone()
        twin.learn_many([0.5, 0.5], [1, 1])
        assert twin.to_bytes() == calibrator.to_bytes()


@pytest.mark.parametrize("name", ALL)
def test_bad_times_change_nothing(name: str) -> None:
    calibrator = ALL[name](timed)
    assert calibrator.needs_time
    x, many = fields(calibrator, 0), columns(calibrator, 2)
    bad: list[Any] = [None, "now", math.nan, math.inf, [1.0], pd.NaT, np.datetime64("NaT"), 10**400]
    for kind in (None, 60.0, START, START.replace(tzinfo=UTC)):
        fresh = ALL[name](timed)
        others = {60.0: [START], START: [60.0, START.replace(tzinfo=UTC)]}.get(kind, [])
        if kind is not None:
            fresh.learn_one(0.5, 1.0, t=kind, **x)
        before = pickle.dumps(fresh)
        for t in [*bad, *others]:
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                fresh.learn_one(0.5, 1.0, t=t, **x)
            good = 60.0 if kind is None else kind
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                fresh.predict_learn_many([0.5, 0.6], [1.0, 0.0], t=[good, t], **many)
            assert pickle.dumps(fresh) == before
        for times in (None, 5.0, [1.0], "ab"):
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                fresh.learn_many([0.5, 0.6], [1.0, 0.0], t=times, **many)
        if kind is not None:
            with pytest.raises(ValueError, match=r"`y`|label"):
                fresh.learn_one(0.5, math.nan, t=kind, **x)
        assert pickle.dumps(fresh) == before


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("times", [(-1e300, 1e300), (0.0, 5e-324), (-1e300, 0.0, 1e300, -1e300)])
def test_extreme_times_are_learned(name: str, times: tuple[float, ...]) -> None:
    a, b, n = ALL[name](timed), ALL[name](timed), 3 * len(times)
    samples = stream(n)
    learned_one_by_one(a, samples, list(times) * 3)
    b.learn_many(*samples, t=list(times) * 3, **columns(b, n))
    for score in (0.2, 0.8):
        value = a.predict_one(score, **fields(a, 0))
        assert 0.0 <= value <= 1.0
        assert b.predict_one(score, **fields(b, 0)) == pytest.approx(value, abs=1e-12)
    if "own" not in name:
        assert Calibrator.from_bytes(a.to_bytes()).to_bytes() == a.to_bytes()
    before = pickle.dumps(a)
    for bad in (-1.1e300, 1e308, np.float64(1e301)):
        with pytest.raises(ValueError, match="or seconds from -1e300 to 1e300"):
            a.learn_one(0.5, 1, t=bad, **fields(a, 0))
        with pytest.raises(ValueError, match="or seconds from -1e300 to 1e300"):
            a.learn_many([0.5, 0.5], [1, 1], t=np.array([1e300, bad]), **columns(a, 2))
    assert pickle.dumps(a) == before


def test_the_message_says_what_to_write() -> None:
    calibrator = PlattCalibrator(half_life=timedelta(days=1))
    with pytest.raises(TypeError, match=r"since PlattCalibrator forgets by time; pass t=datetime"):
        calibrator.learn_one(0.5, 1)
    with pytest.raises(TypeError, match="with a time for each sample"):
        calibrator.learn_many([0.5], [1])


def test_batches_take_times_of_any_container() -> None:
    samples = stream(5)
    naive = [START + timedelta(seconds=7 * i) for i in range(5)]
    aware = [time.replace(tzinfo=timezone(timedelta(hours=-3))) for time in naive]
    kinds: dict[str, list[Any]] = {
        "naive": [naive, pd.Series(naive), np.array(naive, "datetime64[s]"), tuple(naive)],
        "aware": [aware, pd.Series(aware), pd.DatetimeIndex(aware), np.array(aware, object)],
        "seconds": [[0, 7, 14.0, 21, 28], np.arange(0, 35, 7), pd.Series(np.arange(5) * 7.0)],
    }
    for kind, containers in kinds.items():
        for times in containers:
            calibrator = PlattCalibrator(half_life=timedelta(seconds=9))
            calibrator.learn_many(*samples, t=times)
            assert calibrator._kind == kind
            expected = PlattCalibrator(half_life=timedelta(seconds=9))
            for sample, t in zip(zip(*samples, strict=True), list(times), strict=True):
                expected.learn_one(*sample, t=t)
            assert calibrator.slope == expected.slope
            assert list(as_times(times, 5)) == list(times)
    calibrator = PlattCalibrator(half_life=timedelta(seconds=9))
    calibrator.learn_many([], [], t=[])
    assert calibrator._kind is None


def test_arrays_of_arrow_keep_their_zone() -> None:
    pa = pytest.importorskip("pyarrow")
    aware = [START.replace(tzinfo=timezone(timedelta(hours=2))), START.replace(tzinfo=UTC)]
    for times in (pa.array(aware), pa.chunked_array([aware])):
        assert as_times(times, 2).kind == "aware"
        assert list(as_times(times, 2)) == aware
    assert as_times(pa.array([START]), 1).kind == "naive"


@pytest.mark.parametrize("text", ["20000-01-01", "-0001-01-01", "292277026596-01-01T00"])
def test_times_beyond_the_years_of_a_datetime_are_refused(text: str) -> None:
    """They would overflow, or their microseconds would be taken for seconds."""
    far = np.datetime64(text)
    for bad in (lambda: as_seconds(far), lambda: as_times(np.array([far]), 1)):
        with pytest.raises(ValueError, match="`t` must be of the years 1 to 9999"):
            bad()


def test_one_time_is_read_as_those_of_an_array() -> None:
    for year in (1, 1600, 1969, 2024, 2300, 9999):
        for i in range(50):
            t = datetime(year, 1, 1) + timedelta(microseconds=86_399_876_543 * 20 * i // 3)
            array = np.array([t], "datetime64[us]")
            assert as_times(array, 1).seconds[0] == as_seconds(t)[0] == as_seconds(array[0])[0]
    stamp = pd.Timestamp("2020-01-01 00:00:00.123456789")
    for each in (stamp, stamp.tz_localize("UTC")):
        assert as_times(pd.Series([each]), 1).seconds[0] == as_seconds(each)[0]


def test_the_first_and_last_datetimes_are_times() -> None:
    zones = [None, UTC, timezone(timedelta(hours=23)), timezone(timedelta(hours=-23))]
    for t in (each.replace(tzinfo=zone) for each in (datetime.min, datetime.max) for zone in zones):
        times = as_times([t], 1)
        assert as_seconds(unpack_time(pack_time(t))) == pytest.approx(as_seconds(times[0]))
        hedge = mix(timed)
        hedge.learn_many([0.5], [1], t=[t])
        assert mix(timed).from_bytes(hedge.to_bytes()).to_bytes() == hedge.to_bytes()
    for packed in ([3e11, "naive"], [-7e10, "aware"]):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            unpack_time(packed)


@pytest.mark.parametrize("times", [{1.0, 2.0}, frozenset((1.0, 2.0)), {1.0: 0, 2.0: 0}])
def test_times_without_an_order_are_refused(times: Any) -> None:
    with pytest.raises(TypeError, match="`t` must be a sequence"):
        as_times(times, 2)


def test_seconds_are_those_since_1970() -> None:
    assert as_seconds(datetime(1969, 12, 31, 23, 59, 59, 500_000)) == (-0.5, "naive")
    assert as_seconds(np.datetime64("1970-01-01T00:01")) == (60.0, "naive")
    assert as_seconds(pd.Timestamp("1970-01-01 01:00+01:00")) == (0.0, "aware")
    assert as_seconds(True) == (1.0, "seconds")
    assert as_seconds(datetime.min)[0] < as_seconds(datetime.max)[0]


class Unnamed(tzinfo):
    """A zone that has no name."""

    def dst(self, dt: datetime | None) -> None:
        return None

    def tzname(self, dt: datetime | None) -> None:
        return None


class Zone(Unnamed):
    """A zone of a user: a shift, which depends on the fold, or none."""

    def __init__(self, minutes: float | None) -> None:
        self.minutes = minutes

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        if self.minutes is None:
            return None
        return timedelta(minutes=self.minutes + 60 * (dt.fold if dt is not None else 0))


class OfUser(datetime):
    """A datetime of a user."""


SHIFT = st.timedeltas(timedelta(hours=-23), timedelta(hours=22))
ZONES: Any = st.one_of(
    st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), Zone(None)]),
    SHIFT.map(timezone),
    SHIFT.map(lambda shift: Zone(shift.total_seconds() / 60)),
)
YEARS = [
    (datetime.min, datetime.max),
    (datetime(1500, 1, 1), datetime(2500, 1, 1)),
    (datetime(1950, 1, 1), datetime(2050, 1, 1)),
]
MOMENTS: Any = st.builds(
    lambda t, zone, fold, kind: kind.combine(t.date(), t.time(), zone).replace(fold=fold),
    st.sampled_from(YEARS).flatmap(lambda ends: st.datetimes(*ends)),
    ZONES,
    st.sampled_from([0, 1]),
    st.sampled_from([datetime, datetime, datetime, OfUser]),
)


def exact_seconds(t: datetime) -> tuple[float, str]:
    """Return seconds and kind of a time, from integers and one exact quotient."""
    shift = t.utcoffset()
    since = t.replace(tzinfo=None) - datetime(1970, 1, 1) - (shift or timedelta(0))
    count = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return float(Fraction(count, 10**6)), "naive" if shift is None else "aware"


@given(st.lists(MOMENTS, min_size=1, max_size=5))
def test_seconds_are_exact_and_rounded_once(moments: list[datetime]) -> None:
    expected = [exact_seconds(t) for t in moments]
    assert [as_seconds(t) for t in moments] == expected
    for t, (seconds, kind) in zip(moments, expected, strict=True):
        assert kind == "naive" or t.timestamp() == seconds
    if len({kind for _, kind in expected}) > 1:
        with pytest.raises(ValueError, match="`t` must have times of one kind"):
            as_times(moments, len(moments))
        return
    times = as_times(moments, len(moments))
    assert times.seconds.tolist() == [seconds for seconds, _ in expected]
    assert times.kind == expected[0][1]


@pytest.mark.parametrize("year", [1, 4, 100, 400, 1683, 1684, 1900, 2000, 2255, 2256, 9999])
def test_each_day_of_a_year_is_counted(year: int) -> None:
    t = datetime(year, 1, 1, 23, 59, 59, 999_999)
    while t.year == year:
        for zone in (None, UTC):
            assert as_seconds(t.replace(tzinfo=zone)) == exact_seconds(t.replace(tzinfo=zone))
        if t.date() == date.max:
            break
        t += timedelta(days=1)


def test_the_code_of_a_zone_may_do_anything() -> None:
    class Clears(Unnamed):
        def utcoffset(self, dt: datetime | None) -> timedelta:
            times.clear()
            return timedelta(0)

    class Raises(Unnamed):
        def utcoffset(self, dt: datetime | None) -> timedelta:
            raise RuntimeError("no zone")

    times: list[Any] = [START.replace(tzinfo=Clears())] * 3
    assert read_moments(times, np.empty(3)) is None
    calibrator = IsotonicCalibrator(window=timedelta(days=1))
    with pytest.raises(RuntimeError, match="no zone"):
        calibrator.learn_one(0.5, 1, t=START.replace(tzinfo=Raises()))
    assert calibrator._kind is None
    with pytest.raises(ValueError, match="there must be 2 times, got 3"):
        read_moments([1.0] * 3, np.empty(2))


def test_unknown_labels_are_only_predicted() -> None:
    samples, n = stream(90), 90
    times = irregular(n)
    labels = np.array(samples[1])
    labels[::3] = math.nan
    for name in SEGMENTS:
        a, b = ALL[name](timed), ALL[name](timed)
        found = a.predict_learn_many(samples[0], labels, t=times, **columns(a, n))
        for i in range(n):
            x = fields(b, i)
            assert found[i] == b.predict_one(samples[0][i], **x)
            if labels[i] == labels[i]:
                b.learn_one(samples[0][i], labels[i], t=times[i], **x)


@pytest.mark.parametrize("name", MAKERS)
def test_what_reads_a_batch_gives_what_learns_it(name: str) -> None:
    """Stores and wrappers read all contexts first, and then learn parts of them."""
    from streamcal.calibration.context import Contexts

    scores, labels, weights = (np.array(column) for column in stream(40))
    times = irregular(40)
    labels[5:9] = math.nan
    a, b = MAKERS[name](timed), MAKERS[name](timed)
    read = a._read_contexts(Contexts(t=times), 40)
    assert read is not None
    order = np.arange(40) % 2
    for part in (order == 0, order == 1):
        found = a._predict_learn_read(read[part], scores[part], labels[part], weights[part])
        for i, value in zip(np.flatnonzero(part), found, strict=True):
            assert value == b.predict_one(scores[i])
            if labels[i] == labels[i]:
                b.learn_one(scores[i], labels[i], weights[i], t=times[i])


@pytest.mark.parametrize("name", MAKERS | VENN_ABERS)
def test_a_compiled_call_learns_as_a_sample_does(name: str) -> None:
    """Stores learn few samples of many keys by calls that take the seconds."""
    scores, labels, _ = stream(60)
    times = irregular(60)
    a, b = ALL[name](timed), ALL[name](timed)
    assert a._sampler() is None  # the kind of times is not known
    a.learn_one(0.5, 1.0, t=START)
    b.learn_one(0.5, 1.0, t=START)
    call = a._sampler()
    if call is None:
        assert not a._learns_times() or "own" in name or "venn" in name or name == "anytime"
        return
    origin = as_seconds(START)[0]
    for i, (score, y, t) in enumerate(zip(scores, labels, times, strict=True)):
        label, seconds = (math.nan if i % 5 == 4 else y), origin + t
        assert call(score, label, 2.0, seconds) == b.predict_one(score)
        if label == label:
            b.learn_one(score, label, 2.0, t=START + timedelta(seconds=t))
    if "own" not in name:
        assert a.to_bytes() == b.to_bytes()


# Parameters and states ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "length", [timedelta(0), timedelta(days=-1), timedelta(microseconds=-1), pd.Timedelta(1, "ns")]
)
def test_lengths_must_be_at_least_a_microsecond(length: timedelta) -> None:
    for make in (PlattCalibrator, BetaCalibrator, HistogramCalibrator, IsotonicCalibrator):
        with pytest.raises(ValueError, match="`half_life` must be a timedelta of at least 1 micro"):
            make(half_life=length)
    with pytest.raises(ValueError, match="`window` must be a timedelta of at least 1 microsecond"):
        VennAbersCalibrator(window=length)
    with pytest.raises(ValueError, match="`half_life` must be a timedelta of at least 1 micro"):
        SegmentCalibrator(["shop"], half_life=length)
    PlattCalibrator(half_life=timedelta(microseconds=1)).learn_one(0.5, 1, t=0)


def test_a_window_of_time_of_any_convex_loss() -> None:
    calibrator = AnytimeCalibrator("absolute", window=timedelta(minutes=10), every=20)
    samples, times = stream(300), irregular(300)
    for i, (score, y, w) in enumerate(zip(*samples, strict=True)):
        calibrator.learn_one(score, y, w, t=times[i])
        now = max(times[: i + 1])
        latest = np.maximum.accumulate(times[: i + 1])
        held = [row[: i + 1][now - latest < 600.0] for row in map(np.array, samples)]
        assert calibrator._samples.rows.T.tolist() == [column.tolist() for column in held]
    stairs = AnytimeCalibrator("absolute", window=300, every=300)
    stairs.learn_many(*held)
    calibrator.solve()
    stairs.solve()
    grid = np.linspace(-1, 2, 50)
    np.testing.assert_allclose(
        calibrator.predict_many(grid), stairs.predict_many(grid), rtol=0.0, atol=1e-6
    )


@pytest.mark.parametrize(
    "change",
    [
        {"n_learned": 0},
        {"n_learned": 29},
        {"times": None},
        {"times": np.full(30, -1e6)},
        {"samples": None},
    ],
    ids=["none learned", "too few learned", "a time less", "too old", "none held"],
)
def test_crafted_windows_of_any_convex_loss_are_refused(change: Any) -> None:
    calibrator = AnytimeCalibrator("absolute", window=timedelta(minutes=40), every=20)
    for i in range(30):
        calibrator.learn_one(i / 30, i % 2, t=60.0 * i)
    state = decode(calibrator.to_bytes())
    fields, arrays = dict(state.fields), dict(state.arrays)
    for name, value in change.items():
        if name in fields:
            fields[name] = value
        elif value is None:
            arrays[name] = arrays[name][1:]
        else:
            arrays[name] = value
    if "samples" in change:
        arrays["times"] = arrays["times"][:0]
        arrays["samples"] = arrays["samples"][:0]
    with pytest.raises(ValueError, match="`data`"):
        Calibrator.from_bytes(encode(state.kind, fields, arrays))


@pytest.mark.parametrize("name", ALL)
def test_clones_and_states_keep_lengths(name: str) -> None:
    calibrator = ALL[name](timed)
    learned_one_by_one(calibrator, stream(30), irregular(30))
    twin = calibrator.clone()
    assert twin.needs_time
    assert twin._kind is None
    assert twin._parameters().keys() == calibrator._parameters().keys()
    if "own" in name:
        return
    restored = Calibrator.from_bytes(calibrator.to_bytes())
    assert restored.needs_time
    assert restored.to_bytes() == calibrator.to_bytes()
    assert repr(restored) == repr(calibrator)
    with pytest.raises(ValueError, match="numbers of seconds as before"):
        restored.learn_one(0.5, 1, t=START, **fields(restored, 0))


class _Meanwhile:
    """An attribute in whose copy another thread learns the first sample."""

    def __init__(self, learner: Any) -> None:
        self.learn = partial(learner.learn_one, 0.5, 1, t=START)

    def __deepcopy__(self, memo: Any) -> None:
        self.learn()

    def __reduce__(self) -> Any:
        self.learn()
        return int, ()


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))]
)
@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize(
    "make",
    [
        EUMThreshold,
        partial(StreamingThresholds, 3),
        IsotonicCalibrator,
        PlattCalibrator,
        HistogramCalibrator,
    ],
)
def test_a_copy_is_whole_while_the_first_time_is_learned(
    make: Any, where: str, copied: Any
) -> None:
    learner = make(half_life=timedelta(hours=1))
    hook = {"_hook": _Meanwhile(learner)}
    attributes = vars(learner).copy()
    vars(learner).clear()
    vars(learner).update({**hook, **attributes} if where == "first" else {**attributes, **hook})
    twin = copied(learner)
    learner = make(half_life=timedelta(hours=1))
    if twin.to_bytes() != learner.to_bytes():
        with pytest.raises(ValueError, match="datetimes without a zone as before"):
            twin.learn_one(0.5, 1, t=5.0)
    assert restore(twin.to_bytes()).to_bytes() == twin.to_bytes()


@pytest.mark.parametrize("make", [EUMThreshold, partial(StreamingThresholds, 3), PlattCalibrator])
def test_a_state_is_whole_while_the_first_time_is_learned(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = make(half_life=timedelta(hours=1))
    expected = learner.to_bytes()

    def freeze_clock(self: Any, now: float) -> Any:
        learner.learn_one(0.5, 1, t=START)  # as another thread may
        return original(self, now)

    original = type(learner)._freeze_clock
    monkeypatch.setattr(type(learner), "_freeze_clock", freeze_clock)
    found = learner.to_bytes()
    monkeypatch.undo()
    assert found == expected
    restore(found).learn_one(0.5, 1, t=5.0)


BAD_CLOCKS: list[dict[str, Any]] = [
    {"now": math.nan},
    {"now": math.inf},
    {"now": "1"},
    {"now": None},
    {"now": True},
    {"kind": "sundial"},
    {"kind": 1},
    {"kind": ["seconds"]},
]


@pytest.mark.parametrize("name", [n for n in ALL if "own" not in n])
def test_crafted_clocks_are_refused(name: str) -> None:
    calibrator = ALL[name](timed)
    learned_one_by_one(calibrator, stream(30), irregular(30))
    state = decode(calibrator.to_bytes())
    changes = [c for c in BAD_CLOCKS if set(c) <= set(state.fields)]
    assert changes
    for change in [*changes, *({"passed": value} for value in (-1.0, math.nan, "x"))]:
        if set(change) <= set(state.fields):
            data = encode(state.kind, {**state.fields, **change}, state.arrays)
            with pytest.raises(ValueError, match="`data`"):
                Calibrator.from_bytes(data)
    for missing in ("now", "kind"):
        rest = {key: value for key, value in state.fields.items() if key != missing}
        if rest != state.fields:
            with pytest.raises(ValueError, match="`data`"):
                Calibrator.from_bytes(encode(state.kind, rest, state.arrays))


def test_crafted_times_of_a_window_are_refused() -> None:
    calibrator = IsotonicCalibrator(window=timedelta(minutes=10))
    for i in range(20):
        calibrator.learn_one(i / 20, i % 2, t=60.0 * i)
    state = decode(calibrator.to_bytes())
    times = state.arrays["times"]
    assert times.tolist() == [60.0 * i for i in range(10, 20)]
    crafted = [times[:-1], times[::-1].copy(), times - 60.0, times + 1.0, np.full(10, np.nan)]
    crafted += [np.array(times, dtype=np.int64), np.where(times == 600.0, -np.inf, times)]
    for other in crafted:
        data = encode(state.kind, state.fields, {**state.arrays, "times": other})
        with pytest.raises(ValueError, match="`data`"):
            Calibrator.from_bytes(data)
    without = {name: array for name, array in state.arrays.items() if name != "times"}
    with pytest.raises(ValueError, match="`data`"):
        Calibrator.from_bytes(encode(state.kind, state.fields, without))


@pytest.mark.parametrize(
    "packed",
    [[1], ["1", 0, 0], [10**12, 0, 0], [None, 0, 0], 5, [1.5, 0, 0], [0, 0, 0], [math.nan, 0, 0]],
)
def test_crafted_lengths_are_refused(packed: Any) -> None:
    state = decode(PlattCalibrator(half_life=timedelta(days=1)).to_bytes())
    parameters = {**state.fields["parameters"], "half_life": {"timedelta": packed}}
    with pytest.raises(ValueError, match="`data`"):
        Calibrator.from_bytes(
            encode(state.kind, {**state.fields, "parameters": parameters}, state.arrays)
        )


def test_held_labels_need_times() -> None:
    hedge = mix(timed)
    tickets = [hedge.serve_one(0.5).ticket for _ in range(3)]
    for ticket, minute in zip(tickets[:2], (0, 5), strict=True):
        hedge.learn_one(0.5, 0, ticket=ticket, t=START + timedelta(minutes=minute))
    state = decode(hedge.to_bytes())
    begin = (START - datetime(1970, 1, 1)).total_seconds()
    assert state.arrays["times"].tolist() == [begin, begin + 300.0]
    crafted: list[dict[str, Any]] = [
        {"times": np.array([begin])},
        {"times": np.array([begin, np.nan])},
        {"times": np.array([begin, np.inf])},
        {"times": np.array([begin, 2e300])},
        {"times": np.array([[begin, begin]])},
    ]
    for change in crafted:
        with pytest.raises(ValueError, match="`data`"):
            Calibrator.from_bytes(encode(state.kind, state.fields, state.arrays | change))
    with pytest.raises(ValueError, match="`data`"):
        Calibrator.from_bytes(encode(state.kind, state.fields | {"kind": None}, state.arrays))
