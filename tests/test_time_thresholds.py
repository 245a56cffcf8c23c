"""Thresholds that forget by time: half-lives and windows that are timedeltas."""

import copy
import math
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamcal._state import restore
from streamcal._state.format import decode, encode
from streamcal.decision import EUMThreshold, Metric, get_metric
from streamcal.ordinal import StreamingThresholds, optimal_thresholds

START = datetime(2024, 3, 1)
MINUTE = 60.0
Length = Callable[[float], Any]


def counted(n: float) -> float:
    return n


def timed(n: float) -> timedelta:
    return timedelta(seconds=n * MINUTE)


MAKERS: dict[str, Callable[[Length], Any]] = {
    "half-life": lambda length: StreamingThresholds(3, half_life=length(30)),
    "fast": lambda length: StreamingThresholds(3, half_life=length(0.2)),
    "window": lambda length: StreamingThresholds(3, "squared", window=length(60)),
    "both": lambda length: StreamingThresholds(3, window=length(60), half_life=length(7)),
    "min-plus": lambda length: StreamingThresholds(3, "zero-one", half_life=length(30)),
    "min-plus window": lambda length: StreamingThresholds(3, "zero-one", window=length(60)),
    "many labels": lambda length: StreamingThresholds(12, "zero-one", half_life=length(30)),
    "EUM half-life": lambda length: EUMThreshold("f1", half_life=length(30)),
    "EUM fast": lambda length: EUMThreshold("mcc", half_life=length(0.2)),
    "EUM window": lambda length: EUMThreshold("balanced_accuracy", window=length(60)),
    "EUM both": lambda length: EUMThreshold("f1", window=length(60), half_life=length(7)),
    "EUM function": lambda length: EUMThreshold(Metric(f_half), half_life=length(30)),
}


def f_half(tp: float, fp: float, fn: float, tn: float) -> float:
    return tp / (tp + 0.2 * fn + 0.8 * fp)


def stream(learner: Any, n: int, seed: int = 1) -> list[tuple[float, int, float]]:
    """Return samples with ties, whose labels follow the scores, and with weights that differ."""
    rng = np.random.default_rng(seed)
    scores, weights = rng.integers(0, 21, n) / 20.0, rng.uniform(0.5, 2.0, n)
    if isinstance(learner, EUMThreshold):
        labels = (rng.random(n) < scores).astype(int)
    else:
        noisy = np.round(scores * learner.n_labels + rng.normal(0.5, 1.0, n))
        labels = np.clip(noisy, 1, learner.n_labels).astype(int)
    return list(zip(scores.tolist(), labels.tolist(), weights.tolist(), strict=True))


def irregular(n: int, seed: int = 2) -> list[float]:
    """Return times with ties, steps back, and gaps from seconds to a thousand half-lives."""
    rng = np.random.default_rng(seed)
    steps = [0.0, 1.0, 60.0, 90.5, -200.0, 3_600.0, 1e6]
    drawn = rng.choice(steps, n, p=[0.2, 0.2, 0.3, 0.1, 0.1, 0.09, 0.01])
    times: list[float] = (1e6 + np.cumsum(drawn)).tolist()
    return times


def answers(learner: Any) -> list[float]:
    if isinstance(learner, EUMThreshold):
        return [learner.threshold, learner.utility]
    return [*learner.thresholds.tolist(), learner.risk]


def learned_one_by_one(learner: Any, samples: Any, times: Any) -> list[list[float]]:
    found = []
    for sample, t in zip(samples, times, strict=True):
        learner.learn_one(*sample, t=t)
        found.append(answers(learner))
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_at_a_constant_rate_time_is_as_counting(name: str) -> None:
    a, b = MAKERS[name](counted), MAKERS[name](timed)
    assert not a.needs_time
    assert b.needs_time
    samples = stream(a, 700)
    expected = learned_one_by_one(a, samples, [None] * 700)
    found = learned_one_by_one(b, samples, [START + timedelta(minutes=i) for i in range(700)])
    # Where thresholds cost the same, the last bit decides between them.
    np.testing.assert_allclose(
        [each[-1] for each in found], [each[-1] for each in expected], rtol=1e-12, atol=1e-12
    )
    same = [x[:-1] == y[:-1] for x, y in zip(found, expected, strict=True)]
    assert np.mean(same) > 0.95
    assert b.n_scores == a.n_scores


@pytest.mark.parametrize("name", MAKERS)
def test_batches_and_copies_learn_as_samples_do(name: str) -> None:
    n = 300
    samples, times = stream(MAKERS[name](timed), n), irregular(n)
    one = MAKERS[name](timed)
    learner, rng, start = MAKERS[name](timed), np.random.default_rng(3), 0
    while start < n:
        stop = min(n, start + int(rng.choice([1, 2, 5, 60])))
        learned_one_by_one(one, samples[start:stop], times[start:stop])
        scores, labels, weights = zip(*samples[start:stop], strict=True)
        learner.learn_many(scores, labels, weights, t=times[start:stop])
        learner = pickle.loads(pickle.dumps(copy.deepcopy(learner)))
        if name != "EUM function":
            learner = restore(learner.to_bytes())
        start = stop
        # The tree of a batch may have another shape, and round otherwise.
        assert answers(learner)[-1] == pytest.approx(answers(one)[-1], rel=1e-12, abs=1e-12)
        assert learner.n_scores == one.n_scores
        learner._index.check()


@pytest.mark.parametrize("name", MAKERS)
def test_a_time_that_goes_back_counts_as_equal(name: str) -> None:
    samples, times = stream(MAKERS[name](timed), 200), irregular(200)
    expected = learned_one_by_one(MAKERS[name](timed), samples, np.maximum.accumulate(times))
    assert learned_one_by_one(MAKERS[name](timed), samples, times) == expected


@pytest.mark.parametrize("name", MAKERS)
def test_asking_does_not_advance_the_time(name: str) -> None:
    learner = MAKERS[name](timed)
    learned_one_by_one(learner, stream(learner, 50), irregular(50))
    before = pickle.dumps(learner)
    learner.predict_one(0.3)
    learner.predict_many([0.3, 0.9])
    assert pickle.dumps(learner) == before


# Oracles ------------------------------------------------------------------------------------------


def aged(
    samples: Any, times: list[float], window: float | None, half_life: float | None
) -> list[tuple[float, int, float]]:
    """Return the samples that are held, with the weights that they have at the last time."""
    latest = np.maximum.accumulate(times)
    ages = latest[-1] - latest
    held = ages < (math.inf if window is None else window)
    fade = 2.0 ** (-ages / (math.inf if half_life is None else half_life))
    return [
        (score, y, w * float(f))
        for (score, y, w), f, kept in zip(samples, fade, held, strict=True)
        if kept and f > 2.0**-190
    ]


LENGTHS = [(None, 45.0), (None, 3_000.0), (600.0, None), (4_000.0, 500.0)]


@pytest.mark.parametrize(("window", "half_life"), LENGTHS)
@pytest.mark.parametrize("loss", ["absolute", "zero-one"])
@pytest.mark.parametrize("n_labels", [3, 9])
def test_thresholds_are_those_of_the_aged_samples(
    n_labels: int, loss: Any, window: float | None, half_life: float | None
) -> None:
    learner = StreamingThresholds(
        n_labels,
        loss,
        window=window and timedelta(seconds=window),
        half_life=half_life and timedelta(seconds=half_life),
    )
    samples, times = stream(learner, 250), irregular(250)
    for i, t in enumerate(times):
        learner.learn_one(*samples[i], t=t)
        if i % 9 == 0:
            held = aged(samples[: i + 1], times[: i + 1], window, half_life)
            scores, labels, w = map(np.array, zip(*held, strict=True))
            batch = optimal_thresholds(scores, labels, n_labels, loss=loss, w=w)
            assert learner.risk == pytest.approx(batch.risk, rel=1e-9, abs=1e-15)
            if half_life is None:
                assert learner.n_samples == len(held)


@pytest.mark.parametrize(("window", "half_life"), LENGTHS)
@pytest.mark.parametrize("metric", ["f1", "mcc", "gmean"])
def test_a_threshold_is_the_best_of_the_aged_samples(
    metric: Any, window: float | None, half_life: float | None
) -> None:
    learner = EUMThreshold(
        metric,
        window=window and timedelta(seconds=window),
        half_life=half_life and timedelta(seconds=half_life),
    )
    samples, times = stream(learner, 250), irregular(250)
    goal = get_metric(metric)

    def at(held: Any, threshold: float) -> float:
        counts = np.zeros(4)
        for score, y, w in held:
            counts[(0 if y else 1) if score >= threshold else (2 if y else 3)] += w
        return float(goal(*counts))

    for i, t in enumerate(times):
        learner.learn_one(*samples[i], t=t)
        if i % 9 == 0:
            held = aged(samples[: i + 1], times[: i + 1], window, half_life)
            best = max(at(held, each) for each in [math.inf, *{score for score, _, _ in held}])
            assert learner.utility == pytest.approx(best, rel=1e-9, abs=1e-9)
            assert at(held, learner.threshold) == pytest.approx(best, rel=1e-9, abs=1e-9)
            if half_life is None:
                assert learner.n_scores == len({score for score, _, _ in held})


@pytest.mark.parametrize("name", MAKERS)
def test_ten_thousand_half_lives_leave_nothing(name: str) -> None:
    learner = MAKERS[name](timed)
    learned_one_by_one(learner, stream(learner, 200), irregular(200))
    t = 1e9
    for _ in range(3):
        t += 10_000 * 100 * MINUTE
        learner.learn_one(0.3, 1, t=t)
        learner._index.check()
    assert learner.n_scores == 1
    assert answers(learner)[-1] in (0.0, 1.0)


def test_samples_are_taken_back_with_their_present_weight() -> None:
    learner = StreamingThresholds(3, window=timedelta(hours=1), half_life=timedelta(minutes=10))
    learner.learn_one(0.5, 1, 4.0, t=0.0)
    learner.learn_one(0.6, 3, 1.0, t=600.0)
    with pytest.raises(ValueError, match="must have been learned together"):
        learner.unlearn_one(0.5, 1, 4.0)
    learner.unlearn_one(0.5, 1, 2.0)
    assert (learner.n_samples, learner.n_scores) == (1, 1)
    learner.learn_one(0.7, 2, t=3_600.0)  # the place that is free leaves the window
    assert (learner.n_samples, learner.n_scores) == (2, 2)
    learner.learn_one(0.7, 2, t=4_200.0)
    assert (learner.n_samples, learner.n_scores) == (2, 1)


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_bad_times_change_nothing(name: str) -> None:
    bad: list[Any] = [None, "now", math.nan, math.inf, [1.0], pd.NaT, np.datetime64("NaT"), 10**400]
    for kind in (None, 60.0, START, START.replace(tzinfo=UTC)):
        learner = MAKERS[name](timed)
        others = {60.0: [START], START: [60.0, START.replace(tzinfo=UTC)]}.get(kind, [])
        if kind is not None:
            learner.learn_one(0.5, 1, t=kind)
        before = pickle.dumps(learner)
        for t in [*bad, *others]:
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                learner.learn_one(0.5, 1, t=t)
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                learner.learn_many([0.5, 0.6], [1, 1], t=[60.0 if kind is None else kind, t])
        for times in (None, 5.0, [1.0], "ab"):
            with pytest.raises((TypeError, ValueError), match="`t` must"):
                learner.learn_many([0.5, 0.6], [1, 1], t=times)
        for sample, match in [
            ((math.nan, 1), "`score`"),
            ((0.5, 1, 0.0), "`w`"),
            ((1, 99), "`y`"),
            ((0.5, 10**400), "`y`"),
            ((0.5, -(10**400)), "`y`"),
        ]:
            with pytest.raises(ValueError, match=match):
                learner.learn_one(*sample, t=60.0 if kind is None else kind)
        assert pickle.dumps(learner) == before


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("times", [(-1e300, 1e300), (0.0, 5e-324), (-1e300, 0.0, 1e300, -1e300)])
def test_extreme_times_are_learned(name: str, times: tuple[float, ...]) -> None:
    learner = MAKERS[name](timed)
    for t in times * 3:
        learner.learn_one(0.5, 1, t=t)
        learner._index.check()
    assert answers(learner)[-1] in (0.0, 1.0)
    if name != "EUM function":
        assert restore(learner.to_bytes()).to_bytes() == learner.to_bytes()


def test_what_counts_samples_needs_no_time() -> None:
    for learner in (StreamingThresholds(2, half_life=9, window=9), EUMThreshold(window=9)):
        learner.learn_one(0.5, 1, t=START)
        learner.learn_many([0.5], [1], t=None)
        assert "now" not in decode(learner.to_bytes()).fields


@pytest.mark.parametrize(
    "make", [lambda **lengths: StreamingThresholds(3, **lengths), EUMThreshold]
)
@pytest.mark.parametrize("name", ["window", "half_life"])
def test_lengths_must_be_numbers_or_times(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"`{name}` must be a timedelta of at least 1 microsecond"):
        make(**{name: timedelta(0)})
    with pytest.raises((TypeError, ValueError), match=f"`{name}`.*a time is a timedelta"):
        make(**{name: "7d"})
    with pytest.raises(TypeError, match=f"`{name}` must be a number or a timedelta"):
        make(**{name: np.timedelta64(1, "D")})


def test_the_message_says_what_to_write() -> None:
    learner = EUMThreshold(half_life=timedelta(days=1))
    with pytest.raises(TypeError, match=r"since EUMThreshold forgets by time; pass t=datetime"):
        learner.learn_one(0.5, 1)


# States -------------------------------------------------------------------------------------------

STORED = [name for name in MAKERS if name != "EUM function"]


@pytest.mark.parametrize("name", STORED)
def test_clones_and_states_keep_lengths(name: str) -> None:
    learner = MAKERS[name](timed)
    learned_one_by_one(learner, stream(learner, 30), irregular(30))
    twin = learner.clone()
    assert twin.needs_time
    assert twin._kind is None
    restored = restore(learner.to_bytes())
    assert restored.to_bytes() == learner.to_bytes()
    assert (restored.window, restored.half_life) == (learner.window, learner.half_life)
    with pytest.raises(ValueError, match="numbers of seconds as before"):
        restored.learn_one(0.5, 1, t=START)


@pytest.mark.parametrize("name", STORED)
def test_crafted_clocks_are_refused(name: str) -> None:
    learner = MAKERS[name](timed)
    learned_one_by_one(learner, stream(learner, 30), irregular(30))
    state = decode(learner.to_bytes())
    changes: list[dict[str, Any]] = [
        *({"now": value} for value in (math.nan, math.inf, "1", None, True)),
        *({"kind": value} for value in ("sundial", 1, ["seconds"])),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="`data`"):
            restore(encode(state.kind, {**state.fields, **change}, state.arrays))
    for missing in ("now", "kind"):
        rest = {key: value for key, value in state.fields.items() if key != missing}
        with pytest.raises(ValueError, match="`data`"):
            restore(encode(state.kind, rest, state.arrays))


@pytest.mark.parametrize("name", ["window", "min-plus window", "both", "EUM window", "EUM both"])
def test_crafted_times_of_a_window_are_refused(name: str) -> None:
    learner = MAKERS[name](timed)
    for i in range(80):
        learner.learn_one(i / 20, 1, t=60.0 * i)
    state = decode(learner.to_bytes())
    times = state.arrays["times"]
    assert times.tolist() == [60.0 * i for i in range(20, 80)]
    crafted = [times[:-1], times[::-1].copy(), times - 60.0, times + 1.0, np.full(60, np.nan)]
    crafted += [np.array(times, dtype=np.int64), np.where(times == 1_200.0, -np.inf, times)]
    for other in crafted:
        with pytest.raises(ValueError, match="`data`"):
            restore(encode(state.kind, state.fields, {**state.arrays, "times": other}))
    without = {key: array for key, array in state.arrays.items() if key != "times"}
    with pytest.raises(ValueError, match="`data`"):
        restore(encode(state.kind, state.fields, without))
