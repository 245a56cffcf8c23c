"""Shares of a hedge that are given by time."""

import copy
import math
import pickle
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import (
    BetaCalibrator,
    Calibrator,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal._state import decode, encode
from streamcal.calibration.hedged import default_calibrators
from streamcal.calibration.joint_hedge import JointHedge
from streamcal.calibration.probability import ProbabilityCalibrator
from streamcal.durable import Store
from tests.oracles_hedged import (
    dealt,
    group_mixtures,
    late_mixtures,
    mixtures,
    sequences,
    total_loss,
)
from tests.test_bursts import games
from tests.test_hedged import probability, scripted

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
START = datetime(2026, 3, 1, tzinfo=UTC)

gap = st.one_of(
    st.sampled_from([0.0, -100.0, 1e-300, 1.0, 3_600.0, 1e7, 1e18]), st.floats(0.0, 2e5)
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Answers of some calibrators, labels, and times that may go back."""
    n_calibrators, n = draw(st.integers(1, 4)), draw(st.integers(2, 25))
    row = st.lists(probability, min_size=n_calibrators, max_size=n_calibrators)
    answers = np.array(draw(st.lists(row, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.sampled_from([0.0, 1.0, 0.3]), min_size=n, max_size=n)))
    times: list[float] = np.cumsum(draw(st.lists(gap, min_size=n, max_size=n))).tolist()
    return answers, y, times


def serve(
    hedge: HedgedCalibrator, scores: np.ndarray, y: np.ndarray, times: list[float]
) -> np.ndarray:
    """Predict and learn one by one."""
    served = []
    for score, label, t in zip(scores.tolist(), y.tolist(), times, strict=True):
        served.append(hedge.predict_one(score))
        hedge.learn_one(score, label, t=t)
    return np.array(served)


# What is computed ---------------------------------------------------------------------------------


@given(
    streams(),
    st.sampled_from(
        [(HOUR,), (0.0, HOUR), (0.01, 2 * HOUR, 0.0, DAY), (timedelta(0, 0, 1), 1e-60)]
    ),
    st.booleans(),
)
def test_serves_what_the_formula_says(stream: Any, shares: Any, even: bool) -> None:
    answers, y, times = stream
    prior = None if even else tuple(np.linspace(1.0, 0.1, answers.shape[1]).tolist())
    hedge, scores = scripted(answers, share=shares, prior=prior)
    served = serve(hedge, scores, y, times)
    expected = mixtures(answers, y, dealt(shares, times), np.ones(len(y)), prior=prior)
    assert served[1:] == pytest.approx(expected[1:], rel=1e-9, abs=1e-12)
    batch, _ = scripted(answers, share=shares, prior=prior)
    assert batch.predict_learn_many(scores, y, t=times) == pytest.approx(served, rel=1e-9)
    assert list(hedge.share_weights) == list(shares)


@pytest.mark.parametrize("half_life", [HOUR, 0.1 * HOUR, 30 * DAY])
def test_a_share_is_the_mean_over_all_sequences(half_life: timedelta) -> None:
    """A hedge loses what all sequences lose, which change by the time that has passed."""
    rng = np.random.default_rng(3)
    answers, y = rng.uniform(0.05, 0.95, (7, 3)), np.array([1.0, 0, 0, 1, 1, 0, 1])
    times = [0.0, 0.0, 60.0, 7_200.0, 7_100.0, 7_300.0, 90_000.0]
    expected = sequences(answers, y, dealt([half_life], times)[:, 0])
    hedge, scores = scripted(np.vstack([answers[:1], answers]), share=half_life)
    hedge.learn_one(scores[0], 0.5, 1e-60, t=0.0)  # so that the first answer is the mixture's, too
    assert total_loss(serve(hedge, scores[1:], y, times), y) == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_loses_at_most_the_bound_to_any_sequence(seed: int) -> None:
    """The bound of the docstring, at changes that the answers do not know."""
    rng = np.random.default_rng(seed)
    n, n_calibrators, shares = 60, 3, (0.0, HOUR)
    answers = np.repeat(rng.uniform(0.02, 0.98, (6, n_calibrators)), 10, axis=0)
    y = rng.integers(0, 2, n).astype(float)
    times = np.cumsum(rng.choice([0.0, 5.0, 900.0, 40_000.0], n)).tolist()
    gaps = np.diff(times, prepend=times[0])
    hedge, scores = scripted(np.vstack([answers[:1], answers]), share=shares)
    hedge.learn_one(scores[0], 0.5, 1e-60, t=times[0])
    loss = total_loss(serve(hedge, scores[1:], y, times), y)
    for _ in range(5):
        possible = np.flatnonzero(gaps[:-1] > 0.0)  # a change after such a sample
        changes = np.sort(rng.choice(possible, min(3, len(possible)), replace=False))
        path = rng.integers(0, n_calibrators, len(changes) + 1)[
            np.searchsorted(changes, np.arange(n))
        ]
        of_path = total_loss(answers[np.arange(n), path], y)
        allowed = math.log(len(shares)) + (len(changes) + 1) * math.log(n_calibrators)
        allowed -= math.fsum(math.log(1.0 - 2.0 ** (-g / 3_600.0)) for g in gaps[changes].tolist())
        allowed += (times[-1] - times[0]) / 3_600.0 * math.log(2.0)
        assert loss <= of_path + allowed + 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shares", [(0.0, HOUR), (12 * HOUR, 0.01)])
def test_late_labels_share_by_when_they_come(shares: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, delay = 250, 7
    scores = rng.uniform(size=n)
    y = (rng.uniform(size=n) < (scores + np.sin(np.arange(n) / 9.0) / 3.0)).astype(float)
    times = np.cumsum(rng.choice([0.0, 30.0, -10.0, 2_000.0, 80_000.0], n)).tolist()
    members = [IdentityCalibrator(), PlattCalibrator(), IsotonicCalibrator(window=30)]
    hedge = HedgedCalibrator(members, share=shares)
    waiting: deque[Any] = deque()
    served, answers, current = [], [], np.full((n, 3), np.nan)
    for i in range(n):
        answer, ticket = hedge.serve_one(scores[i])
        served.append(answer)
        answers.append([member.predict_one(scores[i]) for member in members])
        waiting.append(ticket)
        if i < delay:  # hardly any weight, so that no label is less late
            hedge.learn_one(scores[i], 0.5, 1e-60, t=times[0])
            for member in members:
                member.learn_one(scores[i], 0.5, 1e-60)
            continue
        j = i - delay
        current[j] = [member.predict_one(scores[j]) for member in members]
        hedge.learn_one(scores[j], y[j], ticket=waiting.popleft(), t=times[j])
        for member in members:
            member.learn_one(scores[j], y[j])
        if i % 40 == 0:
            hedge = HedgedCalibrator.from_bytes(hedge.to_bytes())
    found = late_mixtures(
        np.array(answers), y, dealt(shares, times), delay, (1.0,) * 3, current, raw=0
    )
    assert served[delay + 1 :] == pytest.approx(found[delay + 1 :], rel=1e-9)


def test_a_group_shares_once() -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 40, 1, 17, 5, 60, 2, 30] * 3
    times = np.cumsum(rng.choice([0.0, 100.0, 5_000.0, -50.0], len(sizes))).tolist()
    hedge, shares = HedgedCalibrator(share=(HOUR, 0.0)), (HOUR, 0.0)
    calibrators, labelled, served = default_calibrators(), [], []
    for size, t in zip(sizes, times, strict=True):
        scores, y = rng.uniform(0.2, 0.8, size), np.full(size, float(rng.integers(0, 2)))
        given = [hedge.serve_one(score) for score in scores.tolist()]
        served.append([answer for answer, _ in given])
        hedge.learn_group(scores, y, tickets=[ticket for _, ticket in given], t=t)
        answers = np.column_stack([each.predict_many(scores) for each in calibrators])
        labelled.append((answers, y))
        for calibrator in calibrators:
            calibrator.learn_many(scores, y, np.full(size, 1.0 / size))
    prior = (1.0, 1.0, 0.5, 0.1, 0.3, 0.5, 1.0)
    expected = group_mixtures(labelled, dealt(shares, times), prior, raw=0)
    for a, b in zip(served[1:], expected[1:], strict=True):
        assert a == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize("last", [100.0, 50.0, -5.0])
def test_a_burst_that_is_a_group_has_the_newest_time(last: float) -> None:
    prototype = HedgedCalibrator([IdentityCalibrator(), BetaCalibrator(half_life=HOUR)], share=HOUR)
    burst, told = prototype.clone(), prototype.clone()
    for i, (scores, y) in enumerate(games(12, 1)):
        tickets = [burst.serve_one(score)[1] for score in scores]
        assert tickets == [told.serve_one(score)[1] for score in scores]
        times = [i * 1_000.0 + t for t in (*[100.0] * (len(y) - 1), last)]
        for score, label, ticket, t in zip(scores, y, tickets, times, strict=True):
            burst.learn_one(score, label, ticket=ticket, t=t)
        told.learn_group(scores, y, tickets=tickets, t=max(times))
    assert burst.n_samples == told.n_samples == 12
    assert burst.weights == told.weights
    assert burst.predict_one(0.1) == told.predict_one(0.1)


# Edges --------------------------------------------------------------------------------------------


def test_between_samples_of_one_time_nothing_is_shared() -> None:
    """As with a share of 0, a calibrator comes back from any depth."""
    answers = np.array([[1e-6, 1.0 - 1e-6]] * 400 + [[1.0 - 1e-6, 1e-6]] * 900)
    hedge, scores = scripted(answers, share=HOUR)
    hedge.learn_many(scores, np.ones(1_300), t=np.zeros(1_300))
    assert list(hedge.weights.values()) == [1.0, 0.0]
    hedge = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()], share=HOUR)
    hedge.learn_many([0.9] * 3, [0.0] * 3, [1e60] * 3, t=[0.0, 0.0, 5e-324])
    for t in (5e-324, 1e-300, 3_600.0):
        hedge = HedgedCalibrator.from_bytes(hedge.to_bytes())
        assert sum(hedge.weights.values()) == pytest.approx(1.0)
        hedge.learn_one(0.1, 1.0, t=t)


def test_half_of_the_weight_is_shared_in_a_half_life() -> None:
    """However many samples came in that time; they say nothing here."""
    for n in (1, 7, 1_000):
        answers = np.full((n + 2, 2), 0.5)
        answers[0] = 0.1, 0.9
        hedge, scores = scripted(answers, share=HOUR)
        times = [0.0, *np.linspace(0.0, 3_600.0, n + 1).tolist()]
        hedge.learn_many(scores, [1.0] * (n + 2), t=times)
        assert list(hedge.weights.values()) == pytest.approx([0.3, 0.7])  # half of 0.1, half of 0.5


def test_after_a_long_time_the_prior_is_all() -> None:
    hedge, scores = scripted(np.full((60, 3), [0.9, 0.5, 0.1]), share=HOUR, prior=(1.0, 2.0, 1.0))
    hedge.learn_many(scores[:59], np.ones(59), t=np.arange(59.0))
    assert hedge.weights[hedge.names[0]] > 0.9
    hedge.learn_one(scores[59], 1.0, t=1e300)
    assert list(hedge.weights.values()) == [0.25, 0.5, 0.25]


def test_a_sample_that_is_refused_does_not_advance_the_time() -> None:
    class Picky(ProbabilityCalibrator):
        def __init__(self, most: float = 0.5) -> None:
            self.most = most

        def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
            if score > self.most:
                raise ArithmeticError("no")

        def predict_one(self, score: float) -> float:
            return 0.9 if self.most < 1.0 else 0.4

    hedge = HedgedCalibrator([Picky(), IdentityCalibrator()], share=HOUR)
    hedge.learn_one(0.1, 1.0, t=0.0)
    before = hedge.weights
    with pytest.raises(ArithmeticError):
        hedge.learn_one(0.7, 1.0, t=1e9)
    with pytest.raises(ArithmeticError):
        hedge.learn_many([0.7, 0.1], [1.0, 1.0], t=[1e9, 1e9])
    assert hedge.weights == before
    other = HedgedCalibrator([Picky(), IdentityCalibrator()], share=HOUR)
    other.learn_one(0.1, 1.0, t=0.0)
    for each in (hedge, other):
        each.learn_one(0.1, 1.0, t=60.0)
    assert hedge.weights == other.weights
    # The first one has learned what the other refuses: the sample counts.
    skipped = HedgedCalibrator([Picky(2.0), Picky()], share=HOUR)
    with pytest.raises(ArithmeticError):
        skipped.learn_many([0.1, 0.7, 0.1], [1.0, 1.0, 1.0], t=[0.0, 3_600.0, 1e9])
    again = HedgedCalibrator([Picky(2.0), Picky()], share=HOUR)
    again.learn_one(0.1, 1.0, t=0.0)
    with pytest.raises(ArithmeticError):
        again.learn_one(0.7, 1.0, t=3_600.0)
    assert skipped.n_samples == again.n_samples == 2
    assert skipped.weights == again.weights
    for each in (skipped, again):
        with pytest.raises(ValueError, match="numbers of seconds as before"):
            each.learn_one(0.1, 1.0, t=START)


# Parameters and states ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (timedelta(0), "`share` must be a timedelta of at least 1 microsecond, got 0.0 seconds"),
        (-HOUR, "`share` must be a timedelta of at least 1 microsecond, got -3600.0 seconds"),
        ((0.0, HOUR, 60 * timedelta(minutes=1)), "`share` must not hold a value twice"),
        ((HOUR, 1.5), "`share` must be 0, a number in .* or a timedelta, or several, got"),
        ((HOUR, "7d"), r"`share` must be a number.*, such as timedelta\(days=7\)"),
        ((HOUR, None), "`share` must be a number, got None"),
    ],
)
def test_wrong_shares_are_refused(share: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        HedgedCalibrator(share=share)


@pytest.mark.parametrize("share", [HOUR, (0.0, HOUR), [DAY, 0.01, HOUR]])
def test_parameters_are_kept(share: Any) -> None:
    hedge = HedgedCalibrator(share=share)
    assert hedge.needs_time
    assert hedge.share == share
    for twin in (
        hedge.clone(),
        copy.deepcopy(hedge),
        pickle.loads(pickle.dumps(hedge)),
        Calibrator.from_bytes(hedge.to_bytes()),
    ):
        assert twin.needs_time
        assert twin.share == share
        assert repr(twin) == repr(hedge)
        assert twin.share_weights == hedge.share_weights
    before = hedge.to_bytes()
    for wrong in (None, "now", math.nan):
        with pytest.raises((TypeError, ValueError), match="`t` must"):
            hedge.learn_one(0.5, 1, t=wrong)
    with pytest.raises(TypeError, match=r"`t` must be the time.*HedgedCalibrator forgets by time"):
        hedge.learn_many([0.5], [1])
    assert hedge.to_bytes() == before


def test_a_state_has_the_newest_time_only_where_a_share_needs_it() -> None:
    for share, timed in ((0.0, False), (HOUR, True)):
        hedge = HedgedCalibrator([PlattCalibrator(half_life=HOUR)], share=share)
        assert ("now" in decode(hedge.to_bytes()).fields) == timed
        hedge.learn_one(0.5, 1, t=START)
        fields = decode(hedge.to_bytes()).fields
        assert fields.get("now") == (START.timestamp() if timed else None)


@pytest.mark.parametrize("now", [None, math.inf, "now", True, 1e301])
def test_a_state_with_a_wrong_time_is_refused(now: Any) -> None:
    hedge = HedgedCalibrator([PlattCalibrator()], share=HOUR)
    hedge.learn_one(0.5, 1, t=60.0)
    state = decode(hedge.to_bytes())
    with pytest.raises(ValueError, match="must be what `to_bytes` wrote"):
        HedgedCalibrator.from_bytes(encode(state.kind, {**state.fields, "now": now}, state.arrays))


# What passes samples on ---------------------------------------------------------------------------


def test_maps_of_all_labels_share_by_time() -> None:
    """A joint hedge has the shares of the hedge it comes from, and its own time."""
    rng = np.random.default_rng(0)
    n, labels = 200, ("a", "b", "c")
    raws = [dict(zip(labels, p, strict=True)) for p in rng.dirichlet([1.0] * 3, n).tolist()]
    times = np.cumsum(rng.choice([0.0, 60.0, -5.0, 9_000.0], n)).tolist()
    shares = (0.0, HOUR)
    hedge = JointHedge(shares, 1e-6)
    answers, served, y = [], [], []
    for i, (raw, t) in enumerate(zip(raws, times, strict=True)):
        mixed, ticket = hedge.serve_one(raw, raw)
        label = labels[int(rng.integers(3))] if i % 2 else max(raw, key=raw.__getitem__)
        y.append(label)
        served.append(mixed[label])
        answers.append(ticket[1][labels.index(label)][:6])
        hedge.learn_one(raw, raw, label, 1.0, t=t)
        if i == 100:
            twin = JointHedge(shares, 1e-6)
            twin.thaw(*hedge.freeze())
            hedge = twin
    expected = mixtures(np.array(answers), np.ones(n), dealt(shares, times), np.ones(n))
    assert served[1:] == pytest.approx(expected[1:], rel=1e-9)


def test_keys_have_times_of_their_own(tmp_path: Path) -> None:
    prototype = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()], share=(0.0, HOUR))
    rng = np.random.default_rng(2)
    rows = [
        ("ab"[int(rng.integers(2))], float(p), float(rng.random() < p**2), START + i * HOUR)
        for i, p in enumerate(rng.random(120))
    ]
    alone = {key: prototype.clone() for key in "ab"}
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(prototype, store=store)
        for i, (key, p, y, t) in enumerate(rows):
            assert keyed.predict_one(key, p) == alone[key].predict_one(p)
            keyed.learn_one(key, p, y, t=t)
            alone[key].learn_one(p, y, t=t)
            if i % 30 == 29:
                keyed.save()
                keyed = KeyedCalibrator(prototype, store=store)
        keys, scores, labels, times = map(list, zip(*rows, strict=True))
        later = [t + 200 * HOUR for t in times]
        keyed.learn_many(keys, scores, labels, t=later)
        for key, p, y, t in zip(keys, scores, labels, later, strict=True):
            alone[key].learn_one(p, y, t=t)
        assert [keyed.predict_one(key, 0.4) for key in "ab"] == (
            [alone[key].predict_one(0.4) for key in "ab"]
        )
        with pytest.raises(TypeError, match="`t` must"):
            keyed.learn_one("a", 0.5, 1)


def test_segments_on_a_hedge_that_shares_by_time() -> None:
    base = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()], share=HOUR)
    segments = SegmentCalibrator(["shop"], base=base)
    assert segments.needs_time
    for i in range(60):
        p, y, t = i % 9 / 9.0, i % 2, START + i * i * timedelta(seconds=7)
        segments.learn_one(p, y, x={"shop": i % 3}, t=t)
        base.learn_one(p, y, t=t)
    assert segments._base.predict_one(0.4) == base.predict_one(0.4)
    assert Calibrator.from_bytes(segments.to_bytes()).to_bytes() == segments.to_bytes()
