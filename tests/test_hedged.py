"""The hedge: its guarantee, delayed labels, copies and checks."""

import copy
import json
import math
import pickle
import tracemalloc
from collections import deque
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import (
    BetaCalibrator,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
)
from streamcal._state import decode, encode
from streamcal._validation import as_probability
from streamcal.calibration import Calibrator
from streamcal.calibration.hedged import DEFAULT_PRIOR, default_calibrators
from streamcal.calibration.probability import ProbabilityCalibrator
from streamcal.calibration.tickets import Ticket
from streamcal.kernels.expert import Expert
from tests.contract import calibrator_contract
from tests.oracles_hedged import late_mixtures, mixtures, sequences, total_loss

SHARES = (0.0, 0.001, 0.01)

TestHedged = calibrator_contract(
    HedgedCalibrator(),
    HedgedCalibrator(share=0.0),
    HedgedCalibrator(
        (IsotonicCalibrator(interpolation="step"), *default_calibrators(), IsotonicCalibrator()),
        share=0.05,
    ),
    weights_repeat=False,
)
TestBoundedHedged = calibrator_contract(
    HedgedCalibrator((IdentityCalibrator(), PlattCalibrator(), IsotonicCalibrator(window=100))),
    weights_repeat=False,
    bounded=True,
)


class Scripted(ProbabilityCalibrator):
    """Predicts from a script; a sample's score is its position in the script."""

    def __init__(self, script: tuple[float, ...], length: int = 1_000_000) -> None:
        self.script = script
        self.length = length

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        pass

    def predict_one(self, score: float) -> float:
        return self.script[round(as_probability(score) * self.length)]


def scripted(answers: np.ndarray, **parameters: Any) -> tuple[HedgedCalibrator, np.ndarray]:
    """Return a hedge of scripted calibrators, and the scores that select their lines."""
    calibrators = tuple(Scripted(tuple(column)) for column in answers.T.tolist())
    return HedgedCalibrator(calibrators, **parameters), np.arange(len(answers)) / 1_000_000


def serve(hedge: HedgedCalibrator, scores: np.ndarray, y: np.ndarray, w: Any = None) -> np.ndarray:
    """Predict and learn one by one; the first prediction is that of the mixture, too."""
    served = []
    for i, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        served.append(hedge.predict_one(score))
        hedge.learn_one(score, label, 1.0 if w is None else w[i])
    return np.array(served)


probability = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-9]))
label = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))


@st.composite
def streams(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Answers of some calibrators, labels, and weights of at most 1."""
    n_calibrators, n = draw(st.integers(1, 4)), draw(st.integers(2, 30))
    row = st.lists(probability, min_size=n_calibrators, max_size=n_calibrators)
    answers = np.array(draw(st.lists(row, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(label, min_size=n, max_size=n)))
    w = np.array(draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n)))
    return answers, y, w


@given(streams(), st.sampled_from([(0.0,), (0.3,), (0.0, 0.001, 0.01, 0.1)]), st.booleans())
def test_serves_what_the_formula_says(stream: Any, shares: Any, even: bool) -> None:
    answers, y, w = stream
    prior = None if even else tuple(np.linspace(1.0, 0.1, answers.shape[1]).tolist())
    hedge, scores = scripted(answers, share=shares, prior=prior)
    served = serve(hedge, scores, y, w)
    expected = mixtures(answers, y, shares, w, prior=prior)
    assert served[1:] == pytest.approx(expected[1:], rel=1e-9, abs=1e-12)
    batch, _ = scripted(answers, share=shares, prior=prior)
    assert batch.predict_learn_many(scores, y, w) == pytest.approx(served, rel=1e-9)


@given(streams())
def test_loses_at_most_ln_n_to_the_best(stream: Any) -> None:
    """Also with labels that are shares, and weights of at most 1."""
    answers, y, w = stream
    y, answers, w = np.r_[0.5, y], np.vstack([answers[:1], answers]), np.r_[1e-60, w]
    for shares, slack in (((0.0,), 0.0), (SHARES, math.log(3))):
        hedge, scores = scripted(answers, share=shares)
        served = serve(hedge, scores, y, w)
        losses = [total_loss(a, y[1:], w[1:]) for a in answers[1:].clip(1e-6, 1.0 - 1e-6).T]
        allowed = min(losses) + math.log(answers.shape[1]) + slack
        assert total_loss(served[1:], y[1:], w[1:]) <= allowed + 1e-9


@given(streams())
def test_a_prior_says_how_much_may_be_lost_to_each(stream: Any) -> None:
    answers, y, w = stream
    answers, y, w = np.vstack([answers[:1], answers]), np.r_[0.5, y], np.r_[1e-60, w]
    prior = np.geomspace(1.0, 0.01, answers.shape[1])
    hedge, scores = scripted(answers, share=0.0, prior=tuple(prior))
    loss = total_loss(serve(hedge, scores, y, w)[1:], y[1:], w[1:])
    losses = [total_loss(a, y[1:], w[1:]) for a in answers[1:].clip(1e-6, 1.0 - 1e-6).T]
    assert loss <= min(losses - np.log(prior / prior.sum())) + 1e-9


def test_the_bound_is_reached() -> None:
    """All calibrators but one are certain and wrong: no mixture can lose less than ln N."""
    answers = np.full((2, 8), 1e-6)
    answers[:, 3] = 1.0 - 1e-6
    hedge, scores = scripted(np.vstack([np.full((1, 8), 0.5), answers]), share=0.0)
    served = serve(hedge, scores, np.ones(3))
    assert total_loss(served[1:], np.ones(2)) == pytest.approx(math.log(8), abs=1e-4)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_a_share_is_the_mean_over_all_sequences(share: float) -> None:
    rng = np.random.default_rng(3)
    answers, y = rng.uniform(0.05, 0.95, (7, 3)), np.array([1.0, 0, 0, 1, 1, 0, 1])
    expected = sequences(answers, y, share)
    hedge, scores = scripted(np.vstack([answers[:1], answers]), share=share)
    hedge.learn_one(scores[0], 0.5, 1e-60)  # so that the first answer is the mixture's, too
    served = serve(hedge, scores[1:], y)
    assert total_loss(served, y) == pytest.approx(expected, abs=1e-9)


def test_follows_the_best_sequence() -> None:
    """Three calibrators are best in turn: the bound for 5 changes in 600 samples."""
    rng = np.random.default_rng(0)
    n, changes, n_calibrators = 600, 5, 3
    turn = np.arange(n) * (changes + 1) // n % n_calibrators
    y = (rng.uniform(size=n) < 0.5).astype(float)
    answers = np.full((n, n_calibrators), 0.5)
    answers[np.arange(n), turn] = np.where(y == 1.0, 0.9, 0.1)
    best = total_loss(answers[np.arange(n), turn], y)
    for shares in ((0.01,), SHARES):
        hedge, scores = scripted(answers, share=shares)
        loss = total_loss(serve(hedge, scores, y), y)
        allowed = math.log(len(shares)) + (changes + 1) * math.log(n_calibrators)
        allowed -= changes * math.log(0.01) + (n - changes - 1) * math.log1p(-0.01)
        assert loss <= best + allowed
        assert loss < min(total_loss(a, y) for a in answers.T)


def test_without_sharing_a_calibrator_comes_back_from_any_depth() -> None:
    answers = np.array([[1e-6, 1.0 - 1e-6]] * 400 + [[1.0 - 1e-6, 1e-6]] * 900)
    hedge, scores = scripted(answers, share=0.0)
    hedge.learn_many(scores, np.ones(1_300))  # 5,526 nats behind, then 12,434 won back
    assert list(hedge.weights.values()) == [1.0, 0.0]


@pytest.mark.parametrize("calibrators", [None, (PlattCalibrator(), IsotonicCalibrator(prior=0.5))])
def test_one_call_of_a_hedge_is_its_calibrators_one_by_one(calibrators: Any) -> None:
    rng = np.random.default_rng(5)
    n = 3_000
    scores = np.where(rng.uniform(size=n) < 0.1, 0.0, rng.uniform(size=n))
    y = (rng.uniform(size=n) < 0.2 + 0.5 * scores).astype(float)
    w = rng.integers(1, 5, n) / 4
    members = calibrators or default_calibrators()
    answers = np.array([c.clone().predict_learn_many(scores, y, w) for c in members]).T
    hedge, batch = HedgedCalibrator(calibrators), HedgedCalibrator(calibrators)
    served = serve(hedge, scores, y, w)
    prior = None if calibrators else DEFAULT_PRIOR
    expected = mixtures(answers, y, SHARES, w, prior=prior)
    assert served[1:] == pytest.approx(expected[1:], rel=1e-9)
    assert batch.predict_learn_many(scores, y, w) == pytest.approx(served, rel=1e-12)
    assert list(batch.weights.values()) == pytest.approx(list(hedge.weights.values()), abs=1e-9)
    assert batch.predict_many(scores).tolist() == [batch.predict_one(s) for s in scores.tolist()]


@given(
    st.lists(
        st.tuples(probability, label, st.sampled_from([1.0, 1e-60, 1e-3, 7.0, 1e60])), max_size=40
    ),
    probability,
)
def test_answers_are_numbers_inside(samples: Any, query: Any) -> None:
    hedge = HedgedCalibrator()
    for score, y, w in samples:
        hedge.learn_one(score, y, w)
        assert 1e-7 < hedge.predict_one(query) < 1.0 - 1e-7
        weights = list(hedge.weights.values())
        assert all(weight >= 0.0 for weight in weights)
        assert math.fsum(weights) == pytest.approx(1.0)


def test_weights_can_be_read() -> None:
    hedge = HedgedCalibrator()
    assert hedge.names == (
        "IdentityCalibrator()",
        "PlattCalibrator()",
        "PlattCalibrator(gamma=0.5, prior=10.0, half_life=500.0)",
        "PlattCalibrator(prior=10.0, half_life=100.0)",
        "IsotonicCalibrator(window=200)",
        "IsotonicCalibrator(window=1000)",
        "IsotonicCalibrator(window=10000)",
    )
    even = HedgedCalibrator(default_calibrators())
    assert list(even.weights.values()) == pytest.approx([1.0 / 7.0] * 7)
    first, *_, short, middle, last = hedge.weights.values()
    assert short < middle < last == first
    assert hedge.share_weights == pytest.approx(dict.fromkeys(SHARES, 1.0 / 3.0))
    rng = np.random.default_rng(1)
    scores = rng.uniform(size=2_000)
    hedge.learn_many(scores, rng.uniform(size=2_000) < scores)  # calibrated as they are
    assert max(hedge.weights, key=lambda name: hedge.weights[name]) == "IdentityCalibrator()"
    assert max(hedge.share_weights, key=lambda share: hedge.share_weights[share]) == 0.0
    twins = HedgedCalibrator((PlattCalibrator(), PlattCalibrator(), PlattCalibrator(gamma=1.0)))
    assert twins.names == (
        "PlattCalibrator()",
        "PlattCalibrator() #2",
        "PlattCalibrator(gamma=1.0)",
    )


def test_python_calibrators_are_mixed_like_compiled_ones() -> None:
    class OwnBeta(BetaCalibrator):
        def predict_one(self, score: float) -> float:
            return super().predict_one(score)

    rng = np.random.default_rng(6)
    scores, y = rng.uniform(size=300), rng.uniform(size=300) < 0.3
    hedge, own = (
        HedgedCalibrator((kind(), PlattCalibrator())) for kind in (BetaCalibrator, OwnBeta)
    )
    for score, label_ in zip(scores.tolist(), y.tolist(), strict=True):
        assert hedge.predict_one(score) == own.predict_one(score)
        hedge.learn_one(score, label_)
        own.learn_one(score, label_)
    assert [*hedge.weights.values()] == [*own.weights.values()]
    assert [isinstance(e, Expert) for e in own._mixture.kernel.experts] == [False, True]
    assert all(isinstance(e, Expert) for e in hedge._mixture.kernel.experts)


def test_prototypes_are_left_alone() -> None:
    prototype = PlattCalibrator()
    before = pickle.dumps(prototype)
    hedge = HedgedCalibrator((prototype,))
    hedge.learn_one(0.2, 1)
    assert pickle.dumps(prototype) == before
    assert hedge.clone().n_samples == 0


def test_copies_go_their_own_way() -> None:
    """The kernels' arrays are shared within a copy and with no other, also after they grew."""
    rng = np.random.default_rng(2)
    scores, y = rng.uniform(size=1_500), rng.uniform(size=1_500) < 0.5
    hedge = HedgedCalibrator()
    hedge.learn_many(scores[:500], y[:500])
    for twin in (copy.deepcopy(hedge), pickle.loads(pickle.dumps(hedge))):
        before = hedge.predict_one(0.5)
        served = serve(twin, scores[500:], y[500:])
        assert hedge.predict_one(0.5) == before
        assert serve(copy.deepcopy(hedge), scores[500:], y[500:]).tolist() == served.tolist()


# Delayed labels -----------------------------------------------------------------------------------


def late(
    hedge: HedgedCalibrator, scores: np.ndarray, y: np.ndarray, delay: int, steady: bool = False
) -> np.ndarray:
    """Serve all samples, each learned once ``delay`` others have been served after it.

    With ``steady``, samples of hardly any weight come first, so that no label is less late.
    """
    waiting: deque[tuple[float, float, Ticket]] = deque()
    served = []
    for t, (score, label_) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        answer, ticket = hedge.serve_one(score)
        assert answer == hedge.predict_one(score)
        served.append(answer)
        waiting.append((score, label_, ticket))
        if len(waiting) > delay:
            score, label_, ticket = waiting.popleft()
            hedge.learn_one(score, label_, ticket=ticket)
        elif steady:
            hedge.learn_one(scores[t], 0.5, 1e-60)
    return np.array(served)


def drifting(n: int = 3_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose calibration drifts slowly, with autocorrelated labels."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(size=n)
    shift = np.sin(np.arange(n) / 150.0) * 0.3 + np.sin(np.arange(n) / 7.0) * 0.15
    return scores, (rng.uniform(size=n) < (scores + shift).clip(0.02, 0.98)).astype(float)


def test_tickets_of_immediate_labels_change_nothing() -> None:
    scores, y = drifting(400)
    plain, ticketed = HedgedCalibrator(), HedgedCalibrator()
    assert late(ticketed, scores, y, 0) == pytest.approx(serve(plain, scores, y), rel=1e-12)
    assert ticketed.mean_delay == 0.0


def test_weights_follow_from_the_served_predictions() -> None:
    """The formula on the served predictions."""
    scores, y = drifting(400)
    delay = 20
    hedge = HedgedCalibrator()
    served = late(hedge, scores, y, delay, steady=True)
    assert hedge.mean_delay == delay
    answers, current = [], []
    for calibrator in default_calibrators():
        row = []
        now = np.full(400, np.nan)
        for t in range(400):
            row.append(calibrator.predict_one(scores[t]))
            if t >= delay:
                now[t - delay] = calibrator.predict_one(scores[t - delay])
                calibrator.learn_one(scores[t - delay], y[t - delay])
            else:
                calibrator.learn_one(scores[t], 0.5, 1e-60)
        answers.append(row)
        current.append(now)
    now = np.column_stack(current)
    expected = late_mixtures(np.array(answers).T, y, SHARES, delay, DEFAULT_PRIOR, now, raw=0)
    assert served[delay + 1 :] == pytest.approx(expected[delay + 1 :], rel=1e-9)


def test_labels_that_were_never_late_leave_one_row_for_each_share() -> None:
    """Before and after the first late label the rows agree: it may come at any time."""
    scores, y = drifting(600)
    hedge = HedgedCalibrator()
    hedge.learn_many(scores, y)
    shares = hedge.share_weights
    assert len(hedge.serve_one(0.4).ticket[1]) == 7 + 3
    ticket = hedge.serve_one(0.4)[1]
    hedge.learn_one(0.9, 1, 1e-60)
    hedge.learn_one(0.4, 0, 1e-60, ticket=ticket)  # the first that is late
    assert len(hedge.serve_one(0.4).ticket[1]) == 7 + 9
    assert hedge.share_weights == pytest.approx(shares, rel=1e-9)


def test_late_labels_that_are_independent_count_in_full() -> None:
    """The hedge finds the best calibrator nearly as soon as at once: no power 1 / (d + 1)."""
    rng = np.random.default_rng(4)
    answers = np.array([[0.6, 0.5]] * 4_000)
    y = (rng.uniform(size=4_000) < 0.6).astype(float)
    hedge, scores = scripted(answers)
    served = late(hedge, scores, y, 100)
    assert served[3_000:].mean() > 0.585  # 0.57 with that power


class Maturing(ProbabilityCalibrator):
    """Predicts something else from its hundredth sample on."""

    def __init__(self, before: float, after: float) -> None:
        self.before = before
        self.after = after
        self.n = 0

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        self.n += 1

    def predict_one(self, score: float) -> float:
        as_probability(score)
        return self.after if self.n >= 100 else self.before


def test_a_calibrator_is_judged_by_what_it_has_learned_since_it_served() -> None:
    """By what it served it is the worse one until the labels of later samples have arrived."""
    n, delay = 501, 200
    y = (np.random.default_rng(3).uniform(size=n) < 0.9).astype(float)
    hedge = HedgedCalibrator((Maturing(0.6, 0.6), Maturing(0.02, 0.9)))
    served = late(hedge, np.full(n, 0.5), y, delay)
    assert served[250] < 0.605  # labels up to 50: not yet
    assert served[500] > 0.61  # labels up to 300, served before it had learned 100 samples


def test_a_calibrator_that_cannot_predict_when_a_late_label_comes_leaves_all_as_it_was() -> None:
    class Mute(PlattCalibrator):
        silent = False

        def predict_one(self, score: float) -> float:
            if Mute.silent:
                raise RuntimeError("silent")
            return super().predict_one(score)

        def _compiled(self) -> None:
            return None

    for n_late in (0, 2):  # before the first late label, and after it
        hedge = HedgedCalibrator((Mute(), IdentityCalibrator()))
        tickets = [hedge.serve_one(0.3)[1] for _ in range(3)]
        for ticket in tickets[: n_late + 1]:
            hedge.learn_one(0.3, 1, ticket=ticket)
        before = hedge._copy_state({}), hedge.mean_delay
        Mute.silent = True
        with pytest.raises(RuntimeError, match="silent"):
            hedge.learn_one(0.3, 1, ticket=tickets[0])
        Mute.silent = False
        after = hedge._copy_state({}), hedge.mean_delay
        assert repr(after[0]["_learned"]) == repr(before[0]["_learned"])
        assert after[1] == before[1]


def test_the_delay_is_learned_from_tickets() -> None:
    scores, y = drifting(1_500)
    hedge = HedgedCalibrator()
    late(hedge, scores, y, 30)
    assert hedge.mean_delay == pytest.approx(30.0, abs=0.5)
    late(hedge, scores, y, 0)
    assert hedge.mean_delay < 10.0


def test_a_ticket_may_have_been_stored_as_json() -> None:
    one, other = HedgedCalibrator(), HedgedCalibrator()
    waiting = [one.serve_one(p)[1] for p in (0.2, 0.7, 0.4)]
    for score, ticket in zip((0.2, 0.7, 0.4), waiting, strict=True):
        one.learn_one(score, 1.0, ticket=ticket)
        other.learn_one(
            score, 1.0, ticket=Ticket.from_json(json.loads(json.dumps(ticket.to_json())))
        )
    assert other.mean_delay == 1.5  # of the delays 1 and 2: the first was not late
    assert other.to_bytes() == one.to_bytes()


def test_the_smallest_share_and_prior_leave_weights() -> None:
    hedge = HedgedCalibrator(
        [IdentityCalibrator(), PlattCalibrator()], prior=(1e-60, 1e60), share=(1e-60, 0.5)
    )
    hedge.learn_many([0.9, 0.1] * 50, [0.0, 1.0] * 50, np.where(np.arange(100) % 7, 1.0, 1e60))
    assert sum(hedge.weights.values()) == pytest.approx(1.0)
    assert sum(hedge.share_weights.values()) == pytest.approx(1.0)


def test_the_mean_delay_begins_with_the_first_late_label() -> None:
    """A calibrator that was taught from a file knows the delay of its stream at once."""
    scores, y = drifting(200)
    hedge = HedgedCalibrator()
    hedge.learn_many(scores, y)
    ticket = hedge.serve_one(0.5)[1]
    hedge.learn_one(0.5, 1, ticket=ticket)
    assert hedge.mean_delay == 0.0
    hedge.learn_one(0.5, 1, ticket=ticket)
    assert hedge.mean_delay == 1.0
    hedge.learn_one(0.5, 1)  # at once
    assert hedge.mean_delay == 0.5
    other = hedge.from_bytes(hedge.to_bytes())
    hedge.learn_many([0.5, 0.5], [0, 1])
    assert hedge.mean_delay == 0.25
    other.predict_learn_many([0.5], [0])
    other.learn_one(0.5, 1)
    assert other.mean_delay == 0.25


def test_a_smaller_learning_rate_helps_with_delayed_labels() -> None:
    """Two calibrators are best in turns of 40 samples; labels are 40 late, so following fails."""
    n, delay = 2_000, 40
    turn = np.arange(n) // 40 % 2
    answers = np.where(turn[:, None] == np.arange(2), 0.8, 0.3)
    losses = []
    for known in (False, True):  # tickets hold what was served in both cases
        hedge, scores = scripted(answers)
        waiting: deque[tuple[float, Ticket]] = deque()
        served = []
        for score in scores.tolist():
            answer, ticket = hedge.serve_one(score)
            served.append(answer)
            waiting.append((score, ticket))
            if len(waiting) > delay:
                score, ticket = waiting.popleft()
                n_samples, kept = ticket
                now = n_samples if known else hedge.n_samples
                hedge.learn_one(score, 1, ticket=Ticket((now, kept)))
        losses.append(total_loss(np.array(served[delay:]), np.ones(n - delay)))
    even = total_loss(answers.mean(axis=1), np.ones(n))
    assert losses[1] < even + 110.0
    assert losses[0] > even + 200.0


def test_a_smaller_learning_rate_lacks_the_guarantee_of_interleaving() -> None:
    """Labels one sample late, two calibrators, six samples: more than 2 ln 2 is lost."""
    wrong, right = 1e-6, 1.0 - 1e-6
    answers = [(right, wrong)] * 2 + [(right, right)] + [(wrong, right)] * 3
    hedge, scores = scripted(np.array([(0.5, 0.5), *answers]), share=0.0)
    hedge.learn_one(scores[0], 0.5, 1e-60)
    served = late(hedge, scores[1:], np.ones(6), 1, steady=True)
    best = 2 * -math.log(wrong)
    assert total_loss(served, np.ones(6)) > best + 2.0 * math.log(2.0)


@pytest.mark.parametrize(
    ("served", "error", "message"),
    [
        (0.5, TypeError, "`ticket` must be a ticket of `serve_one` or None, got 0.5"),
        ((1, "abc"), TypeError, "`ticket` must be a ticket of this"),
        ((1, "0101010101"), TypeError, "`ticket` must be a ticket of this"),
        ((1, ("0",) * 10), TypeError, "`ticket` must be a ticket of this"),
        ((1, [0.5] * 10), TypeError, "`ticket` must be a ticket of this"),
        ((1, None), TypeError, "`ticket` must be a ticket of this"),
        (("x", (0.5,) * 10), TypeError, "`ticket` must be a ticket of this"),
        ((1,), TypeError, "`ticket` must be a ticket of this"),
        ((1, bytes(10)), TypeError, "`ticket` must be a ticket of this"),
        ((1, bytearray(80)), TypeError, "`ticket` must be a ticket of this"),
        ((4, (0.5,) * 6), ValueError, "has learned 3 samples, got one after 4"),
        ((-1, (0.5,) * 6), ValueError, "got one after -1"),
        ((1, (0.5,) * 5), ValueError, r"answers in \[0, 1\] of 7 calibrators and of 3 or 9 mix"),
        ((1, (0.5,) * 9 + (math.nan,)), ValueError, r"answers in \[0, 1\]"),
        ((1, (0.5,) * 9 + (1.5,)), ValueError, r"answers in \[0, 1\]"),
    ],
)
def test_bad_ticket(served: Any, error: Any, message: str) -> None:
    hedge = HedgedCalibrator()
    hedge.learn_many([0.1, 0.5, 0.7], [0, 1, 1])
    before = pickle.dumps(hedge)
    with pytest.raises(error, match=message):
        hedge.learn_one(0.5, 1, ticket=Ticket(served) if isinstance(served, tuple) else served)
    assert pickle.dumps(hedge) == before


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        (
            {"share": 1.0},
            ValueError,
            r"`share` must be 0, a number in \[1e-60, 1\) or a timedelta, or several",
        ),
        ({"share": 1e-300}, ValueError, "or several, got 1e-300"),
        ({"share": (0.01, 0.0, 0.01)}, ValueError, "`share` must not hold a value twice"),
        ({"share": (0.1, -0.1)}, ValueError, "`share`"),
        ({"share": ()}, ValueError, "`share`"),
        ({"share": "0.1"}, TypeError, "`share`"),
        ({"share": math.nan}, ValueError, "`share`"),
        ({"prior": (1.0, 2.0)}, ValueError, r"one weight per calibrator \(7\), got 2"),
        ({"prior": (0.0,) * 6}, ValueError, "`prior` must be a positive finite number, got 0.0"),
        ({"prior": 1.0}, TypeError, "`prior` must be a sequence of weights, got 1.0"),
        ({"prior": iter([1.0] * 7)}, TypeError, "`prior` must be a sequence of weights"),
        ({"clip": 0.0}, ValueError, "`clip`"),
        ({"calibrators": ()}, ValueError, "`calibrators` must hold at least one"),
        ({"calibrators": PlattCalibrator()}, TypeError, "`calibrators` must be a sequence"),
        ({"calibrators": 3}, TypeError, "`calibrators` must be a sequence"),
        ({"calibrators": iter([PlattCalibrator()])}, TypeError, "`calibrators` must be a sequence"),
        ({"calibrators": (PlattCalibrator(), 3)}, TypeError, "got 3 at position 1"),
        (
            {"calibrators": (IsotonicCalibrator("logistic"),)},
            ValueError,
            "must accept the labels 0 and 1, but at position 0",
        ),
    ],
)
def test_bad_parameters(parameters: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        HedgedCalibrator(**parameters)


def test_bad_scores_are_refused_before_anything_is_learned() -> None:
    hedge = HedgedCalibrator()
    hedge.learn_one(0.5, 1)
    before = pickle.dumps(hedge)
    with pytest.raises(ValueError, match=r"`score` must be a probability in \[0, 1\], got 1.5"):
        hedge.learn_one(1.5, 1)
    with pytest.raises(ValueError, match=r"`scores` must lie in \[0, 1\], got 1.5 at position 1"):
        hedge.learn_many([0.5, 1.5], [0, 1])
    assert pickle.dumps(hedge) == before
    assert IdentityCalibrator().predict_many([0.25, 1.0]).tolist() == [0.25, 1.0]


class Silent(ProbabilityCalibrator):
    """Answers NaN to scores above one half."""

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None: ...

    def predict_one(self, score: float) -> float:
        return math.nan if score > 0.5 else score


def test_an_answer_that_is_none_is_refused_before_anything_is_learned() -> None:
    hedge = HedgedCalibrator((Silent(), PlattCalibrator()))
    hedge.learn_one(0.25, 1)
    weights = hedge.weights
    for ask in (hedge.predict_one, hedge.serve_one, lambda score: hedge.learn_one(score, 1)):
        with pytest.raises(ValueError, match="`calibrators` must predict numbers, got NaN from"):
            ask(0.75)
    assert hedge.n_samples == 1
    assert hedge.weights == weights


@pytest.mark.parametrize("delay", [0, 3])
def test_a_state_whose_best_share_has_another_log_than_zero_is_refused(delay: int) -> None:
    hedge = HedgedCalibrator()
    late(hedge, np.full(40, 0.3), np.arange(40) % 2, delay)
    fields, arrays = hedge._freeze()
    for log in (5.0, 1e6):
        crafted = {**arrays, "log_odds": np.append(log, arrays["log_odds"][1:])}
        with pytest.raises(ValueError, match="the best share"):
            HedgedCalibrator()._thaw(fields, crafted)
    HedgedCalibrator()._thaw(fields, arrays)


class Picky(Scripted):
    """Raises an error for some scores; counts the samples that it learned."""

    def __init__(self, refused: tuple[float, ...] = (0.99,)) -> None:
        super().__init__((0.5, 0.25))
        self.refused = refused
        self.n_samples = 0

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        if score in self.refused:
            raise KeyError(score)
        self.n_samples += 1

    def predict_one(self, score: float) -> float:
        return (1.0 + self.n_samples) / (3.0 + self.n_samples)


def members(hedge: HedgedCalibrator) -> list[int]:
    return [getattr(calibrator, "n_samples", 0) for calibrator in hedge._calibrators]


PICKY = (Picky((0.5, 0.9)), IsotonicCalibrator("squared"), Picky((0.6, 0.9)), IsotonicCalibrator())


@pytest.mark.parametrize(
    ("refused", "learned", "counts"),
    [
        (0.5, [2, 2, 2, 2], 2),  # by the first one, so nobody learns it
        (0.6, [3, 3, 2, 3], 3),  # by another one, which is the only one that skips it
        (0.9, [2, 2, 2, 2], 2),
    ],
)
def test_a_batch_ends_for_all_where_one_calibrator_refuses_a_sample(
    refused: float, learned: Any, counts: int
) -> None:
    batch, single = HedgedCalibrator(PICKY), HedgedCalibrator(PICKY)
    scores, y = [0.1, 0.2, refused, 0.7], [0, 1, 1, 0]
    with pytest.raises(KeyError, match=str(refused)):
        batch.predict_learn_many(scores, y)
    with pytest.raises(KeyError, match=str(refused)):
        serve(single, np.array(scores), np.array(y))
    for hedge in (batch, single):
        assert hedge.n_samples == counts
        assert members(hedge) == learned
    assert batch.weights == single.weights
    assert batch.predict_one(0.3) == single.predict_one(0.3)
    batch.learn_many([0.3], [1])
    assert members(batch) == [n + 1 for n in learned]


def test_a_batch_after_late_labels_learns_as_row_by_row() -> None:
    """Each label that is not late lowers the mean delay, and so the learning rate changes."""
    rng = np.random.default_rng(4)
    late, scores = rng.random(40).tolist(), rng.random(60)
    batch = HedgedCalibrator()
    tickets = [batch.serve_one(p)[1] for p in late]
    for p, ticket, hit in zip(late, tickets, rng.random(40) < 0.5, strict=True):
        batch.learn_one(p, hit, ticket=ticket)
    y = rng.random(60) < scores**2
    single, before = copy.deepcopy(batch), batch.mean_delay
    assert batch.predict_learn_many(scores, y).tolist() == serve(single, scores, y).tolist()
    assert 0.0 < batch.mean_delay < before
    assert batch.to_bytes() == single.to_bytes()


def test_a_refused_sample_with_a_ticket_changes_nothing() -> None:
    hedge = HedgedCalibrator(PICKY)
    _, ticket = hedge.serve_one(0.5)
    hedge.learn_one(0.1, 1)
    before = hedge.weights, hedge.serve_one(0.3)
    with pytest.raises(KeyError):
        hedge.learn_one(0.5, 1, ticket=ticket)
    assert (hedge.n_samples, hedge.mean_delay) == (1, 0.0)
    assert (hedge.weights, hedge.serve_one(0.3)) == before
    with pytest.raises(KeyError):
        hedge.learn_one(0.6, 1, ticket=ticket)
    assert (hedge.n_samples, hedge.mean_delay) == (2, 1.0)


def test_an_answer_that_is_none_ends_a_batch() -> None:
    hedge = HedgedCalibrator((Silent(), IsotonicCalibrator()))
    with pytest.raises(ValueError, match="`calibrators` must predict numbers, got NaN from"):
        hedge.learn_many([0.1, 0.2, 0.7, 0.3], [0, 1, 1, 0])
    assert hedge.n_samples == 2
    assert members(hedge) == [0, 2]


class Strict(Picky):
    """Refuses labels other than 0 and 1."""

    def _check_labels(self, y: Any) -> np.ndarray:
        labels = super()._check_labels(y)
        if not np.isin(labels, (0.0, 1.0)).all():
            raise ValueError("labels must be 0 or 1")
        return labels


def test_a_batch_with_a_label_that_one_calibrator_refuses_changes_nothing() -> None:
    hedge = HedgedCalibrator((Picky(), Strict(), PlattCalibrator()))
    with pytest.raises(ValueError, match="labels must be 0 or 1"):
        hedge.learn_many([0.1, 0.2, 0.3], [1, 0, 0.5])
    assert hedge.n_samples == 0
    assert members(hedge)[:2] == [0, 0]


# Numbers that hostile states, tickets and interrupts leave ----------------------------------------


def changed(hedge: HedgedCalibrator, **arrays: Any) -> bytes:
    """Return the bytes of a hedge with some arrays replaced."""
    found = decode(hedge.to_bytes())
    return encode(found.kind, found.fields, {**found.arrays, **arrays})


def test_weights_of_zero_are_refused_where_weight_is_shared() -> None:
    hedge = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()], share=0.01)
    hedge.learn_one(0.5, 1)
    with pytest.raises(ValueError, match="shared weights must be positive"):
        Calibrator.from_bytes(changed(hedge, weights=np.array([[1.0, 0.0]])))


def test_shares_without_weights_are_refused_before_memory_is_taken() -> None:
    hedge = HedgedCalibrator(share=(0.1, 0.2))
    found = decode(hedge.to_bytes())
    found.fields["parameters"]["share"] = {"tuple": [1e-6 * (i + 1) for i in range(50_000)]}
    tracemalloc.start()
    with pytest.raises(ValueError, match="weights"):
        Calibrator.from_bytes(encode(found.kind, found.fields, found.arrays))
    assert tracemalloc.get_traced_memory()[1] < 30e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "value"), [("sums", 1e200), ("long_run", 1e300), ("log_odds", -1.7e308)]
)
def test_states_that_would_overflow_are_refused(name: str, value: float) -> None:
    hedge = HedgedCalibrator()
    ticket = hedge.serve_one(0.4)[1]
    hedge.learn_one(0.9, 1)
    hedge.learn_one(0.4, 0, ticket=ticket)
    hedge.predict_one(0.4)  # the label is learned
    array = decode(hedge.to_bytes()).arrays[name].copy()
    array.flat[array.argmin()] = value
    with pytest.raises(ValueError, match="must be in range"):
        Calibrator.from_bytes(changed(hedge, **{name: array}))


def test_share_weights_are_numbers_after_a_heavy_late_label() -> None:
    hedge = HedgedCalibrator()
    for i in range(40):
        ticket = hedge.serve_one(0.5)[1]
        hedge.learn_one(0.5, 1)
        hedge.learn_one(0.5, 1)
        hedge.learn_one(0.5, i % 2, 1e6, ticket=ticket)
        assert sum(hedge.share_weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("number", [np.float32, np.int8, np.float64, Fraction])
def test_a_ticket_may_hold_numbers_of_any_type(number: Any) -> None:
    one, other = HedgedCalibrator(), HedgedCalibrator()
    for hedge in (one, other):
        hedge.learn_many([0.2, 0.7] * 50, [0, 1] * 50)
    ticket = one.serve_one(0.4)[1]
    for hedge in (one, other):
        hedge.learn_many([0.2, 0.7] * 60, [0, 1] * 60)
    one.learn_one(0.4, 1, ticket=ticket)
    other.learn_one(0.4, 1, ticket=Ticket((number(100), ticket[1])))
    assert other.to_bytes() == one.to_bytes()


@pytest.mark.parametrize(
    "served", [Ticket((0, (10**400,) * 10)), (0, (0.5,) * 10), {"n_samples": 0, "answers": []}]
)
def test_what_is_no_ticket_changes_nothing(served: Any) -> None:
    hedge = HedgedCalibrator()
    before = hedge.to_bytes()
    with pytest.raises(TypeError, match="`ticket`"):
        hedge.learn_one(0.5, 1, ticket=served)
    assert hedge.to_bytes() == before


class Interrupted(PlattCalibrator):
    """Is interrupted once, as by Ctrl-C."""

    waits = 3

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        type(self).waits -= 1
        if type(self).waits == 0:
            raise KeyboardInterrupt
        super().learn_one(score, y, w)


@pytest.mark.parametrize("waits", range(1, 9))
def test_an_interrupt_of_a_late_label_leaves_a_state_that_can_be_read(waits: int) -> None:
    Interrupted.waits = waits
    hedge = HedgedCalibrator([Interrupted(), Interrupted()])
    tickets = [hedge.serve_one(0.1 * i)[1] for i in range(8)]
    for i in range(8):
        with suppress(KeyboardInterrupt):
            hedge.learn_one(0.1 * i, i % 2, ticket=tickets[i])
    assert Interrupted.waits <= 0
    assert hedge.n_samples == 8 - waits % 2  # the first calibrator can refuse a sample for all
    twin: Any = Calibrator.from_bytes(hedge.to_bytes())
    assert twin.mean_delay == hedge.mean_delay > 3.0
    assert twin.predict_one(0.3) == hedge.predict_one(0.3)
