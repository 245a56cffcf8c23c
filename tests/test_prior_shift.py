"""Calibration where the share of ones moves, and only the scores say so."""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import base, naive_bayes

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TopLabelCalibrator,
    isotonic_fit,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from streamcal.calibration.prior_shift import SharesOfOnes
from streamcal.calibration.tickets import OtherTicketError, Ticket
from streamcal.durable import Event, LabelJoin, Store, run

Sample = tuple[float, float]


def stream(seed: int, n: int, share: Any = 0.5) -> Iterator[Sample]:
    """Scores and labels; the scores of the ones and of the zeros stay, their shares are given.

    With a share of 0.5 a score is the probability of its label.
    """
    rng = np.random.default_rng(seed)
    for i in range(n):
        y = rng.random() < (share(i) if callable(share) else share)
        yield 1.0 / (1.0 + math.exp(-2.0 * rng.normal(1.0 if y else -1.0))), float(y)


def log_loss(p: float, y: float) -> float:
    return -math.log(p if y else 1.0 - p)


class SlowShares:
    """The definition: weights of all rates and changes in a dict, and all labels in a list."""

    def __init__(self) -> None:
        self.labels: list[tuple[int, float, float]] = []
        self.q = dict.fromkeys(range(112), 0.5)
        self.base = 0.5
        self.changes = [0.2 * k for k in range(-25, 26)]
        total = sum(math.exp(-abs(d)) for d in self.changes)
        self.jumps = [math.exp(-abs(d)) / total for d in self.changes]
        self.rates = [1e-4, 1e-3, 1e-2]
        self.weights = {(r, k): jump / 3.0 for r in range(3) for k, jump in enumerate(self.jumps)}

    @staticmethod
    def bin_of(p: float) -> int:
        p = min(max(p, 1e-6), 1.0 - 1e-6)
        return math.floor((math.log(p / (1.0 - p)) + 14.0) / 0.25)

    def share(self, k: int) -> float:
        odds = self.base / (1.0 - self.base) * math.exp(self.changes[k])
        return odds / (1.0 + odds)

    @property
    def now(self) -> float:
        return sum(weight * self.share(k) for (_, k), weight in self.weights.items())

    def move(self, p: float) -> float:
        if len(self.labels) < 100:
            return p
        now = self.now
        odds = p / (1.0 - p) * now / (1.0 - now) / (self.base / (1.0 - self.base))
        return odds / (1.0 + odds)

    def after_score(self, p: float) -> None:
        if len(self.labels) < 100:
            return
        q, base = self.q[self.bin_of(p)], self.base
        seen = {
            (r, k): weight
            * (q * self.share(k) / base + (1.0 - q) * (1.0 - self.share(k)) / (1.0 - base))
            for (r, k), weight in self.weights.items()
        }
        total = sum(seen.values())
        of_rates = [sum(seen[r, k] for k in range(51)) / total for r in range(3)]
        after = dict.fromkeys(seen, 0.0)
        for (r, k), weight in seen.items():
            within = weight / total / of_rates[r]
            rate = self.rates[r]
            prior = (1.0 - 1e-3) * of_rates[r] + 1e-3 / 3.0
            for to, part in ((k, 1.0 - 20.0 * rate), (k - 1, 10.0 * rate), (k + 1, 10.0 * rate)):
                after[r, min(max(to, 0), 50)] += prior * (1.0 - rate) * part * within
            after[r, k] += prior * rate * self.jumps[k]
        self.weights = after

    def after_label(self, p: float, y: float, w: float) -> None:
        self.labels.append((self.bin_of(p), y, w))
        n = len(self.labels)
        if n < 100 or n % 50:
            return
        counts = np.zeros((2, 112))
        for age, (at, y, w) in enumerate(reversed(self.labels)):
            counts[:, at] += 0.5 ** (age / 10_000.0) * w * np.array([1.0 - y, y])
        ones, total = counts[1], counts.sum(axis=0)
        self.base = float((ones.sum() + 1.0) / (total.sum() + 2.0))
        known = np.flatnonzero(total)
        stairs = isotonic_fit(known, ones[known] / total[known], total[known])
        q = []
        for at in known.tolist():
            block = next(i for i, upper in enumerate(stairs.upper) if at <= upper)
            weight = stairs.weights[block]
            q.append((stairs.values[block] * weight + self.base) / (weight + 1.0))
        self.q = dict(enumerate(np.interp(np.arange(112), known, q).tolist()))


def test_the_filter_is_that_of_a_hidden_markov_chain() -> None:
    fast, slow = SharesOfOnes.initial(), SlowShares()
    rng = np.random.default_rng(0)
    for i, (p, y) in enumerate(stream(1, 700, lambda i: 0.5 if i < 400 else 0.1)):
        fast = fast.after_score(p)
        slow.after_score(p)
        if rng.random() < 0.6:
            w = float(rng.choice([1.0, 0.25]))
            label = y if i % 5 else 0.7 * y
            fast = fast.after_label(p, label, w)
            slow.after_label(p, label, w)
        assert fast.move(0.3) == pytest.approx(slow.move(0.3), abs=1e-9)
        if fast.is_fitted:
            assert fast.now == pytest.approx(slow.now, abs=1e-9)
    assert fast.now < 0.25


@pytest.mark.parametrize("share", [0.1, 0.3, 0.8])
def test_the_share_is_that_of_em_in_a_batch(share: float) -> None:
    """Saerens, Latinne & Decaestecker 2002, with the true probabilities of the labelled samples."""
    shares = SharesOfOnes.initial()
    for p, y in stream(2, 5_000):
        shares = shares.after_label(p, y, 1.0)
    scores = np.array([p for p, _ in stream(3, 2_000, share)])
    em = 0.5
    for _ in range(200):
        odds = em / (1.0 - em) * scores / (1.0 - scores)
        em = float(np.mean(odds / (1.0 + odds)))
    for p in scores.tolist():
        shares = shares.after_score(p)
    assert em == pytest.approx(share, abs=0.03)
    assert shares.now == pytest.approx(em, abs=0.06)


class Slow:
    """The definition, for labels that come at once: two maps, mixed by their likelihood."""

    def __init__(self, calibrator: Any) -> None:
        self.plain, self.corrected = calibrator.clone(), calibrator.clone()
        self.of_ones = SlowShares()
        self.shares = (0.0, 0.001, 0.01)
        self.weights = [np.array([0.5, 0.5]) for _ in self.shares]
        self.likelihood = np.ones(len(self.shares))

    def answers(self, score: float) -> Any:
        corrected = self.corrected.predict_one(self.of_ones.move(score))
        return np.array([self.plain.predict_one(score), corrected]).clip(1e-6, 1.0 - 1e-6)

    def predict_one(self, score: float) -> float:
        of_rows = np.array([row @ self.answers(score) for row in self.weights])
        return float(self.likelihood @ of_rows / self.likelihood.sum())

    def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
        p = self.answers(score)
        hit = np.where(y == 1.0, p, 1.0 - p)
        for k, (share, row) in enumerate(zip(self.shares, self.weights, strict=True)):
            self.likelihood[k] *= (row @ hit) ** w
            posterior = row * hit**w
            self.weights[k] = (1.0 - share) * posterior / posterior.sum() + share * 0.5
        self.corrected.learn_one(self.of_ones.move(score), y, w)
        self.plain.learn_one(score, y, w)
        self.of_ones.after_score(score)
        self.of_ones.after_label(score, y, w)


@pytest.mark.parametrize(
    "calibrator", [PlattCalibrator(), IsotonicCalibrator(window=50), HedgedCalibrator()]
)
def test_it_is_two_calibrators_mixed_by_their_likelihood(calibrator: Any) -> None:
    fast, slow = PriorShiftCalibrator(calibrator), Slow(calibrator)
    samples = stream(1, 300, lambda i: 0.5 if i < 200 else 0.1)
    for i, (score, y) in enumerate(samples):
        w = 1.0 if i % 3 else 0.5
        if fast.n_samples:
            assert fast.predict_one(score) == pytest.approx(slow.predict_one(score), abs=1e-8)
        fast.learn_one(score, y, w)
        slow.learn_one(score, y, w)


@pytest.mark.parametrize("seed", range(3))
def test_a_correction_that_is_wrong_costs_few_nats(seed: int) -> None:
    """The labels turn round, so that the scores mislead; labels come at once."""
    mixed, alone = PriorShiftCalibrator(PlattCalibrator()), PlattCalibrator()
    losses = np.zeros(2)
    for i, (score, y) in enumerate(stream(seed, 2_000, lambda i: 0.5 if i < 500 else 0.1)):
        y = y if i < 500 else 1.0 - y
        p = np.array([mixed.predict_one(score), alone.predict_one(score)]).clip(1e-6, 1.0 - 1e-6)
        losses -= np.log(p if y else 1.0 - p)
        mixed.learn_one(score, y)
        alone.learn_one(score, y)
    assert losses[0] <= losses[1] + math.log(2.0) + math.log(3.0) + 1e-9


def late(calibrator: Any, samples: Iterator[Sample], delay: int) -> float:
    """Return the total log loss with labels so many samples late."""
    total, waiting = 0.0, []
    for score, y in samples:
        p, ticket = calibrator.serve_one(score)
        total += log_loss(p, y)
        waiting.append((score, y, ticket))
        if len(waiting) > delay:
            score, y, ticket = waiting.pop(0)
            calibrator.learn_one(score, y, ticket=ticket)
    return total


def test_scores_tell_before_late_labels_do() -> None:
    def share(i: int) -> float:
        return 0.9 if i // 700 % 2 else 0.1

    truth = 0.0
    for i, (score, y) in enumerate(stream(4, 7_000, share)):
        odds = score / (1.0 - score) * share(i) / (1.0 - share(i))
        truth += log_loss(odds / (1.0 + odds), y)
    adapted = late(PriorShiftCalibrator(), stream(4, 7_000, share), 500)
    alone = late(HedgedCalibrator(), stream(4, 7_000, share), 500)
    assert adapted - truth < 0.5 * (alone - truth)


def test_serving_counts_a_score_and_predicting_does_not() -> None:
    calibrator = PriorShiftCalibrator(PlattCalibrator())
    unlearned = calibrator.to_bytes()
    calibrator.serve_one(0.9)
    assert calibrator.to_bytes() == unlearned  # there is nothing to compare it with
    assert calibrator.snapshot().predict_one(0.9) == 0.9
    assert PriorShiftCalibrator().prior is None
    for score, y in stream(5, 400):
        calibrator.learn_one(score, y)
    prior, before = calibrator.prior, calibrator.to_bytes()
    for _ in range(50):
        calibrator.predict_one(0.9)
    calibrator.predict_many([0.9] * 50)
    calibrator.snapshot().predict_many([0.9] * 50)
    assert calibrator.to_bytes() == before
    for _ in range(50):
        expected = calibrator.predict_one(0.9)
        assert calibrator.serve_one(0.9).value == expected
    assert prior is not None
    assert calibrator.prior is not None
    assert calibrator.prior > prior + 0.2
    assert calibrator.n_samples == 400


@pytest.mark.parametrize("delay", [0, 1, 30])
def test_tickets_keep_what_was_served(delay: int) -> None:
    calibrator, without = PriorShiftCalibrator(), PriorShiftCalibrator()
    waiting: list[Any] = []
    for i, (score, y) in enumerate(stream(3, 400)):
        p = calibrator.predict_one(score)
        served, ticket = calibrator.serve_one(score)
        assert p == served
        kept = json.loads(json.dumps(ticket and ticket.to_json()))
        waiting.append((score, y, kept))
        if i >= delay:
            score, y, kept = waiting.pop(0)
            calibrator.learn_one(score, y, ticket=Ticket.from_json(kept))
            without.learn_one(score, y)
        if i == 150:
            calibrator = PriorShiftCalibrator.from_bytes(calibrator.to_bytes())
    same = calibrator.predict_one(0.3) == pytest.approx(without.predict_one(0.3), abs=1e-12)
    assert same == (delay == 0)


@pytest.mark.parametrize("bad", [Ticket(), Ticket((0.5, None, None)), (0.5,), "ticket", 1.0])
def test_a_bad_ticket_changes_nothing(bad: Any) -> None:
    calibrator = PriorShiftCalibrator()
    calibrator.learn_one(0.3, 1)
    before = calibrator.to_bytes()
    with pytest.raises(TypeError, match="`ticket` must be a ticket"):
        calibrator.learn_one(0.3, 1, ticket=bad)
    assert calibrator.to_bytes() == before


def test_a_ticket_of_a_later_state_is_refused() -> None:
    calibrator, later = PriorShiftCalibrator(), PriorShiftCalibrator()
    later.learn_one(0.3, 1)
    before = calibrator.to_bytes()
    with pytest.raises(OtherTicketError):
        calibrator.learn_one(0.3, 1, ticket=later.serve_one(0.3).ticket)
    assert calibrator.to_bytes() == before


@pytest.mark.parametrize("bad", [1.5, math.nan, "0.5", None])
def test_a_bad_score_is_not_counted(bad: Any) -> None:
    calibrator = PriorShiftCalibrator(PlattCalibrator())
    for score, y in stream(5, 150):
        calibrator.learn_one(score, y)
    before = calibrator.to_bytes()
    with pytest.raises((TypeError, ValueError), match="`score` must"):
        calibrator.serve_one(bad)
    assert calibrator.to_bytes() == before


@pytest.mark.parametrize(
    ("bad", "message"),
    [("platt", "did you mean"), (0.5, "`calibrator`"), (IsotonicCalibrator, "without brackets")],
)
def test_a_bad_calibrator_is_refused(bad: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        PriorShiftCalibrator(bad)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda own: HedgedCalibrator([own]), r"PriorShiftCalibrator\(HedgedCalibrator\("),
        (lambda own: SegmentCalibrator(["a"], base=own), r"PriorShiftCalibrator\(SegmentCalib"),
        (AuditedCalibrator, "`calibrator` must need no scores without labels"),
        (PriorShiftCalibrator, "`calibrator` must need no scores without labels"),
        (TopLabelCalibrator, "`calibrator` must need no scores without labels"),
    ],
)
def test_what_would_tell_it_no_scores_refuses_it(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(PriorShiftCalibrator(PlattCalibrator()))


def test_no_propensity() -> None:
    keyed = KeyedCalibrator(PriorShiftCalibrator())
    with pytest.raises(TypeError, match="a PriorShiftCalibrator takes none"):
        keyed.learn_one("k", 0.5, 1, propensity=0.5)


@pytest.mark.parametrize("only", [0.0, 1.0])
def test_labels_that_are_all_equal_say_nothing(only: float) -> None:
    calibrator = PriorShiftCalibrator()
    for score, _ in stream(6, 300):
        calibrator.learn_one(score, only)
    prior = calibrator.prior
    for score, _ in stream(7, 300, 0.9):
        calibrator.serve_one(score)
    assert calibrator.prior == pytest.approx(prior, abs=1e-3)


@pytest.mark.parametrize("score", [0.0, 1e-300, 1.0 - 1e-16, 1.0])
def test_extreme_scores_and_weights(score: float) -> None:
    calibrator = PriorShiftCalibrator()
    for i in range(300):
        calibrator.learn_one(score, i % 2, (1e-60, 1e60, 1.0)[i % 3])
        p = calibrator.serve_one((score, 0.5)[i % 2]).value
        assert 0.0 < p < 1.0
    prior = calibrator.prior
    assert prior is not None
    assert 0.0 < prior < 1.0
    assert PriorShiftCalibrator.from_bytes(calibrator.to_bytes()).prior == prior


def test_fields_and_groups() -> None:
    calibrator = PriorShiftCalibrator(SegmentCalibrator(["shop"]))
    assert calibrator.fields == ("shop",)
    for i in range(300):
        shop, y = "ab"[i % 2], float(i % 2)
        x = {"shop": shop}
        _, ticket = calibrator.serve_one(0.5, x)
        calibrator.learn_one(0.5, y, x=x, ticket=ticket)
    low, high = (calibrator.predict_one(0.5, {"shop": shop}) for shop in "ab")
    assert low < 0.2 < 0.8 < high
    n = calibrator.n_samples
    calibrator.learn_group([0.5] * 3, [1] * 3, x=[{"shop": "a"}] * 3)
    assert calibrator.n_samples == n + 1
    assert calibrator.predict_one(0.5, {"shop": "a"}) > low


def test_rows_of_a_group_with_tickets_count_once() -> None:
    served, unserved = PriorShiftCalibrator(), PriorShiftCalibrator()
    for score, y in stream(8, 200):
        served.learn_one(score, y)
        unserved.learn_one(score, y)
    scores = [0.8, 0.9, 0.7]
    tickets = [served._serve(p, {}).ticket for p in scores]
    for p in scores:
        served.serve_one(p)
    served.learn_group(scores, [1, 1, 1], tickets=tickets)
    unserved.learn_group(scores, [1, 1, 1])
    assert served.prior == pytest.approx(unserved.prior, abs=1e-12)


def test_copies_learn_on_like_the_original() -> None:
    calibrator = PriorShiftCalibrator()
    late(calibrator, stream(5, 200), 20)
    twins = [copy.deepcopy(calibrator), PriorShiftCalibrator.from_bytes(calibrator.to_bytes())]
    for each in (calibrator, *twins):
        late(each, stream(6, 200, 0.1), 20)
    assert {each.to_bytes() for each in twins} == {calibrator.to_bytes()}
    assert calibrator.clone().n_samples == 0
    assert calibrator.clone().prior is None


def test_there_is_no_export_but_a_clear_error() -> None:
    with pytest.raises(TypeError, match="can't follow a PriorShiftCalibrator"):
        PriorShiftCalibrator().export("json")


# In wrappers and runs -----------------------------------------------------------------------------


class Fixed(base.Classifier):
    """A model that has learned all it ever will."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn nothing."""

    def predict_proba_one(self, x: Any) -> Any:
        return {True: x["p"], False: 1.0 - x["p"]}


def test_a_wrapper_tells_it_the_scores() -> None:
    model = CalibratedClassifier(Fixed(), PriorShiftCalibrator(PlattCalibrator()))
    for score, y in stream(9, 500):
        model.learn_one({"p": score}, bool(y))
    (own,) = model.calibrators.values()
    prior = own.prior
    for score, _ in stream(10, 300, 0.05):
        model.predict_proba_one({"p": score})
    assert own.prior < prior - 0.2
    now = own.prior
    for score, _ in stream(10, 300, 0.95):
        model.serve_one({"p": score})
    assert own.prior > now + 0.2


def test_more_than_two_labels() -> None:
    model = CalibratedClassifier(naive_bayes.GaussianNB(), PriorShiftCalibrator(PlattCalibrator()))
    rng = np.random.default_rng(8)
    for i in range(300):
        x = {"v": rng.normal(i % 3)}
        served = model.serve_one(x)
        model.learn_one(x, "abc"[i % 3], served=served)
    assert sum(model.predict_proba_one({"v": 1.0}).values()) == pytest.approx(1.0)


def events(n: int) -> list[Event]:
    """Scores and labels that come fifty events later; the share falls at half."""
    samples = [*stream(11, n, lambda i: 0.5 if i < n // 2 else 0.1)]
    made = []
    for i, (score, _) in enumerate(samples):
        made.append(Event(score, id=i))
        if i >= 50:
            made.append(Event(math.nan, y=samples[i - 50][1], id=i - 50))
    return made


class Served:
    """A sink that adds what it gets to a list."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def extend(self, _offset: int, p: Any) -> None:
        self.values.extend(p.tolist())


def test_a_run_goes_on_after_a_restart_as_if_there_had_been_none(tmp_path: Path) -> None:
    values: dict[str, list[float]] = {"whole": [], "parts": []}
    all_events = events(500)
    for name, ends in (("whole", [950]), ("parts", [3, 400, 401, 702, 950])):
        for end in ends:  # each run is a new process: nothing is kept but the store
            with Store(tmp_path / f"{name}.db") as store:
                keyed = KeyedCalibrator(PriorShiftCalibrator(PlattCalibrator()), store=store)
                source = all_events[:end]
                served = Served(values[name])
                run(source, keyed, served.extend, store, batch_size=100, join=LabelJoin(1_000))
    np.testing.assert_array_equal(values["whole"], values["parts"])


def test_a_score_that_a_key_serves_is_saved(tmp_path: Path) -> None:
    with Store(tmp_path / "keys.db") as store:
        keyed = KeyedCalibrator(PriorShiftCalibrator(PlattCalibrator()), store=store)
        for score, y in stream(12, 200):
            keyed.learn_one("a", score, y)
        keyed.save()
        for _ in range(30):
            keyed.serve_one("a", 0.95)
            keyed.serve_one("new", 0.95)
        keyed.save()
        expected = keyed.predict_one("a", 0.3)
        assert list(keyed) == ["a"]
    with Store(tmp_path / "keys.db") as store:
        keyed = KeyedCalibrator(PriorShiftCalibrator(PlattCalibrator()), store=store)
        assert keyed.predict_one("a", 0.3) == expected


def test_keys_of_a_trained_prototype_share_nothing() -> None:
    trained = PriorShiftCalibrator(PlattCalibrator())
    for score, y in stream(13, 200):
        trained.learn_one(score, y)
    keyed = KeyedCalibrator(lambda: copy.deepcopy(trained))
    for _ in range(30):
        keyed.serve_one("a", 0.95)
        keyed.serve_one("b", 0.05)
    assert keyed.predict_one("new", 0.5) == trained.predict_one(0.5)
    alone = copy.deepcopy(trained)
    for _ in range(30):
        alone.serve_one(0.05)
    assert keyed.predict_one("b", 0.5) == alone.predict_one(0.5)
