"""Calibration where some labels are asked for with known probabilities."""

import copy
import itertools
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import linear_model, naive_bayes
from sklearn.linear_model import LogisticRegression

from streamcal import (
    CalibratedClassifier,
    CalibratedRegressor,
    HedgedCalibrator,
    IsotonicCalibrator,
    KeyedCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
    TopLabelCalibrator,
    VoteClassifier,
)
from streamcal.calibration import AuditedCalibrator, PriorShiftCalibrator
from streamcal.calibration.tickets import Ticket
from streamcal.durable import Event, LabelJoin, Store, run
from streamcal.monitoring import AuditSampler, CalibrationDrift
from streamcal.sklearn import OnlineCalibratedClassifier
from tests.runner import run as command

FLOOR = 0.05
BAD: list[tuple[Any, type[Exception], str]] = [
    (None, TypeError, "`propensity` must be the probability with which the label was asked for"),
    (0.0, ValueError, "`propensity` must be from 0.05, the `floor`, to 1"),
    (0.049, ValueError, "got 0.049"),
    (1.001, ValueError, "to 1, got 1.001"),
    (math.nan, ValueError, "got nan"),
    ("0.5", TypeError, "`propensity` must be a number"),
]

Sample = tuple[float, float, float, float]


def stream(seed: int, n: int) -> Iterator[Sample]:
    """Labelled samples (score, label, weight, propensity); the selection knows a hidden segment."""
    rng = np.random.default_rng(seed)
    while n:
        score, hidden = rng.random(), rng.random() < 0.3
        propensity = 1.0 if hidden else max(FLOOR, 0.4 * score)
        if rng.random() >= propensity:
            continue
        n -= 1
        label = rng.random() < (0.5 + 0.5 * score if hidden else score**2)
        yield float(score), float(label), float(rng.choice([1.0, 0.5])), float(propensity)


class Slow:
    """The definition, for labels that come at once: two maps, mixed by their likelihood."""

    def __init__(self, calibrator: Any) -> None:
        self.alike, self.corrected, self.weighted = (calibrator.clone() for _ in range(3))
        self.shares = (0.0, 0.001, 0.01)
        self.weights = [np.array([0.5, 0.5]) for _ in self.shares]
        self.likelihood = np.ones(len(self.shares))

    def answers(self, score: float) -> Any:
        corrected = self.corrected.predict_one(self.alike.predict_one(score))
        return np.array([corrected, self.weighted.predict_one(score)]).clip(1e-6, 1.0 - 1e-6)

    def predict_one(self, score: float) -> float:
        of_rows = np.array([row @ self.answers(score) for row in self.weights])
        return float(self.likelihood @ of_rows / self.likelihood.sum())

    def learn_one(self, score: float, y: float, w: float, propensity: float) -> None:
        part = w * FLOOR / propensity
        p = self.answers(score)
        hit = np.where(y == 1.0, p, 1.0 - p)
        for k, (share, row) in enumerate(zip(self.shares, self.weights, strict=True)):
            self.likelihood[k] *= (row @ hit) ** part
            posterior = row * hit**part
            self.weights[k] = (1.0 - share) * posterior / posterior.sum() + share * 0.5
        self.corrected.learn_one(self.alike.predict_one(score), y, part)
        self.alike.learn_one(score, y, w)
        self.weighted.learn_one(score, y, part)


@pytest.mark.parametrize(
    "calibrator", [PlattCalibrator(), IsotonicCalibrator(window=50), HedgedCalibrator()]
)
def test_it_is_two_calibrators_mixed_by_their_likelihood(calibrator: Any) -> None:
    fast, slow = AuditedCalibrator(calibrator, floor=FLOOR), Slow(calibrator)
    for score, y, w, propensity in stream(1, 400):
        if fast.n_samples:
            assert fast.predict_one(score) == pytest.approx(slow.predict_one(score), abs=1e-9)
        fast.learn_one(score, y, w, propensity=propensity)
        slow.learn_one(score, y, w, propensity)


@pytest.mark.parametrize("seed", range(3))
def test_the_weighted_loss_is_near_that_of_the_better_one(seed: int) -> None:
    mixed, parts = AuditedCalibrator(PlattCalibrator(), floor=FLOOR), Slow(PlattCalibrator())
    losses = np.zeros(3)
    for score, y, _, propensity in stream(seed, 3_000):
        p = np.array([mixed.predict_one(score), *parts.answers(score)]).clip(1e-6, 1.0 - 1e-6)
        losses -= FLOOR / propensity * np.log(p if y else 1.0 - p)
        mixed.learn_one(score, y, propensity=propensity)
        parts.learn_one(score, y, 1.0, propensity)
    assert losses[0] <= min(losses[1:]) + math.log(2.0) + math.log(3.0) + 1e-9


def test_a_selection_that_knows_more_than_the_score_is_undone() -> None:
    calibrator, ignorant = AuditedCalibrator(floor=FLOOR), HedgedCalibrator()
    for score, y, _, propensity in stream(4, 20_000):
        calibrator.learn_one(score, y, propensity=propensity)
        ignorant.learn_one(score, y)
    grid = np.linspace(0.1, 0.9, 9)
    truth = 0.3 * (0.5 + 0.5 * grid) + 0.7 * grid**2
    error = np.abs(calibrator.predict_many(grid) - truth).max()
    assert error < 0.06
    assert np.abs(ignorant.predict_many(grid) - truth).max() > 2.0 * error


def test_a_batch_is_its_samples_one_by_one() -> None:
    samples = [*stream(2, 60)]
    scores, y, w, propensity = map(np.array, zip(*samples, strict=True))
    y[::7] = np.nan  # only predicted, whatever the propensity
    propensity[::7] = 7.0
    batch, each = AuditedCalibrator(floor=FLOOR), AuditedCalibrator(floor=FLOOR)
    answers = []
    for i, score in enumerate(scores):
        answers.append(each.predict_one(score))
        if y[i] == y[i]:
            each.learn_one(score, y[i], w[i], propensity=propensity[i])
    served = batch.predict_learn_many(pd.Series(scores), y, w, propensity=propensity)
    assert served.tolist() == answers
    assert batch.to_bytes() == each.to_bytes()


@pytest.mark.parametrize("late", [0, 1, 30])
def test_late_labels_and_their_tickets(late: int) -> None:
    calibrator = AuditedCalibrator(floor=FLOOR)
    without = AuditedCalibrator(floor=FLOOR)
    waiting: list[Any] = []
    for i, (score, y, w, propensity) in enumerate(stream(3, 300)):
        p, ticket = calibrator.serve_one(score)
        assert p == calibrator.predict_one(score)
        kept = json.loads(json.dumps(ticket and ticket.to_json()))
        waiting.append((score, y, w, propensity, kept))
        if i >= late:
            score, y, w, propensity, kept = waiting.pop(0)
            calibrator.learn_one(score, y, w, ticket=Ticket.from_json(kept), propensity=propensity)
            without.learn_one(score, y, w, propensity=propensity)
        if i == 150:
            calibrator = AuditedCalibrator.from_bytes(calibrator.to_bytes())
    same = calibrator.predict_one(0.3) == pytest.approx(without.predict_one(0.3), abs=1e-12)
    assert same == (late == 0)


@pytest.mark.parametrize(("bad", "error", "message"), BAD)
def test_a_bad_propensity_changes_nothing(bad: Any, error: type[Exception], message: str) -> None:
    calibrator = AuditedCalibrator(floor=FLOOR)
    calibrator.learn_one(0.3, 1, propensity=0.5)
    model = CalibratedClassifier(linear_model.LogisticRegression(), calibrator.clone())
    model.learn_one({"a": 1.0}, True, propensity=0.5)
    keyed = KeyedCalibrator(calibrator.clone())
    before = calibrator.to_bytes(), model.to_bytes(), dict(model.classifier.weights)
    many = None if bad is None else [0.5, bad]
    for call in (
        lambda: calibrator.learn_one(0.4, 0, propensity=bad),
        lambda: calibrator.learn_group([0.4, 0.5], [0, 0], propensity=bad),
        lambda: calibrator.learn_many([0.4, 0.5], [0, 0], propensity=many),
        lambda: model.learn_one({"a": 2.0}, False, propensity=bad),
        lambda: model.learn_group([{"a": 2.0}] * 2, [False] * 2, propensity=bad),
        lambda: model.learn_many(
            pd.DataFrame({"a": [1.0, 2.0]}), pd.Series([True, False]), propensity=many
        ),
        lambda: keyed.learn_one("k", 0.4, 0, propensity=bad),
        lambda: keyed.learn_many(["k", "k"], [0.4, 0.5], [0, 0], propensity=many),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        if not isinstance(bad, str):
            assert isinstance(raised.value, error)
            assert message in str(raised.value)
        assert "`propensity` must" in str(raised.value)
    assert (calibrator.to_bytes(), model.to_bytes(), dict(model.classifier.weights)) == before
    assert not len(keyed)


def test_lengths_must_be_equal() -> None:
    with pytest.raises(ValueError, match="`propensity` must have one value per score"):
        AuditedCalibrator().learn_many([0.4, 0.5], [0, 1], propensity=[0.5])


@pytest.mark.parametrize("floor", [0.0, -1.0, 1.5, math.nan])
def test_a_bad_floor_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match="`floor` must lie in"):
        AuditedCalibrator(floor=floor)


def test_others_take_no_propensity() -> None:
    model = CalibratedClassifier(linear_model.LogisticRegression(), PlattCalibrator())
    keyed = KeyedCalibrator(PlattCalibrator())
    table = pd.DataFrame({"a": [1.0]})
    for call in (
        lambda: model.learn_one({"a": 1.0}, True, propensity=0.5),
        lambda: model.learn_group([{"a": 1.0}], [True], propensity=0.5),
        lambda: model.learn_many(table, pd.Series([True]), propensity=[0.5]),
        lambda: keyed.learn_one("k", 0.5, 1, propensity=0.5),
        lambda: keyed.learn_many(["k"], [0.5], [1], propensity=[0.5]),
        lambda: run([Event(0.5, 1.0, propensity=0.5)], PlattCalibrator(), lambda *_: None, None),
    ):
        with pytest.raises(TypeError, match=r"a PlattCalibrator takes none; AuditedCalibrator\("):
            call()
    assert not model.calibrators
    assert not len(keyed)


def test_what_can_not_hold_it_says_so() -> None:
    own = AuditedCalibrator()
    for make in (
        lambda: HedgedCalibrator([own]),
        lambda: SegmentCalibrator(["a"], base=own),
        lambda: TopLabelCalibrator(own),
        lambda: AuditedCalibrator(own),
        lambda: CalibratedRegressor(linear_model.LinearRegression(), own),
        lambda: VoteClassifier(naive_bayes.GaussianNB(), own),
        lambda: OnlineCalibratedClassifier(LogisticRegression(), own).fit([[0.0], [1.0]], [0, 1]),
    ):
        with pytest.raises(TypeError, match="must"):
            make()
    with pytest.raises(TypeError, match=r"write AuditedCalibrator\(SegmentCalibrator\(\['a'\]\)\)"):
        CalibratedClassifier(linear_model.LogisticRegression(), own, segments=["a"])


def test_fields_and_groups() -> None:
    calibrator = AuditedCalibrator(SegmentCalibrator(["shop"]), floor=FLOOR)
    assert calibrator.fields == ("shop",)
    for i in range(300):
        shop, y = "ab"[i % 2], float(i % 2)
        x = {"shop": shop}
        _, ticket = calibrator.serve_one(0.5, x)
        calibrator.learn_one(0.5, y, x=x, ticket=ticket, propensity=0.5)
    low, high = (calibrator.predict_one(0.5, {"shop": shop}) for shop in "ab")
    assert low < 0.2 < 0.8 < high
    n = calibrator.n_samples
    calibrator.learn_group([0.5] * 3, [1] * 3, x=[{"shop": "a"}] * 3, propensity=1.0)
    assert calibrator.n_samples == n + 1
    assert calibrator.predict_one(0.5, {"shop": "a"}) > low


def test_copies_learn_on_like_the_original() -> None:
    calibrator = AuditedCalibrator(floor=FLOOR)
    for score, y, w, propensity in stream(5, 50):
        calibrator.learn_one(score, y, w, propensity=propensity)
    twins = [copy.deepcopy(calibrator), AuditedCalibrator.from_bytes(calibrator.to_bytes())]
    for score, y, w, propensity in stream(6, 50):
        for each in (calibrator, *twins):
            each.learn_one(score, y, w, propensity=propensity)
    assert {each.to_bytes() for each in twins} == {calibrator.to_bytes()}
    assert calibrator.clone().n_samples == 0
    assert calibrator.clone().floor == FLOOR


def test_there_is_no_export_but_a_clear_error() -> None:
    with pytest.raises(TypeError, match="bound the error of an AuditedCalibrator"):
        AuditedCalibrator().export("json")


@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_wrapper_passes_propensities_on(n_labels: int) -> None:
    labels = [False, True] if n_labels == 2 else ["a", "b", "c"]
    rng = np.random.default_rng(8)
    model = CalibratedClassifier(naive_bayes.GaussianNB(), AuditedCalibrator(floor=FLOOR))
    plain = CalibratedClassifier(naive_bayes.GaussianNB())
    for i in range(200):
        y = labels[i % n_labels]
        x = {"v": rng.normal(i % n_labels)}
        served = model.serve_one(x)
        if i % 3:
            model.learn_one(x, y, served=served, propensity=float(rng.uniform(FLOOR, 1.0)))
            plain.learn_one(x, y)
    assert sum(model.predict_proba_one({"v": 1.0}).values()) == pytest.approx(1.0)
    learned = {label: each.n_samples for label, each in model.calibrators.items()}
    assert learned == {label: each.n_samples for label, each in plain.calibrators.items()}


def test_calibrators_after_an_alarm_learn_with_propensities() -> None:
    model = CalibratedClassifier(
        naive_bayes.GaussianNB(), AuditedCalibrator(floor=FLOOR), drift_detector=CalibrationDrift()
    )
    rng = np.random.default_rng(9)
    for i in range(1_500):
        v = rng.normal()
        y = bool(v > 0.0) if i < 750 else bool(v < 0.0)
        model.learn_one({"v": v}, y, propensity=0.5)
        if i == 700:
            kept = CalibratedClassifier.from_bytes(
                model.to_bytes(), classifier=copy.deepcopy(model.classifier)
            )
            assert kept.predict_proba_one({"v": 0.3}) == model.predict_proba_one({"v": 0.3})
    assert model.n_alarms


@pytest.mark.parametrize("propensity", [np.float32(0.5), Fraction(1, 2), np.int64(1)])
def test_a_wrapper_keeps_propensities_as_numbers(propensity: Any) -> None:
    model = CalibratedClassifier(
        naive_bayes.GaussianNB(), AuditedCalibrator(floor=FLOOR), drift_detector=CalibrationDrift()
    )
    model.learn_one({"v": 1.0}, True, propensity=propensity)
    model.learn_group([{"v": 1.0}] * 2, [False] * 2, propensity=propensity)
    kept = CalibratedClassifier.from_bytes(
        model.to_bytes(), classifier=copy.deepcopy(model.classifier)
    )
    assert kept.to_bytes() == model.to_bytes()


@pytest.mark.parametrize("bad", [0, "", (), Ticket(())])
def test_a_group_takes_no_rubbish_for_tickets(bad: Any) -> None:
    calibrator = AuditedCalibrator(floor=FLOOR)
    with pytest.raises(TypeError, match="`ticket` must be a ticket of"):
        calibrator.learn_group([0.3, 0.4], [1, 1], tickets=[None, bad], propensity=0.5)
    assert not calibrator.n_samples


# A run, with a sampler of audits ------------------------------------------------------------------


def decisions(n: int) -> list[Event]:
    """Scores, each followed by the label of the score before; above 0.7 all are labelled."""
    rng = np.random.default_rng(10)
    scores = rng.random(n)
    labels = (rng.random(n) < scores).astype(float)
    events = []
    for i, score in enumerate(scores.tolist()):
        events.append(Event(score, id=i, propensity=1.0 if score > 0.7 else None))
        if i:
            events.append(Event(math.nan, y=labels[i - 1], id=i - 1))
    return events


class Feed:
    """Reads events, but labels only of scores that were asked for or are always labelled."""

    def __init__(self, n: int) -> None:
        self.all = decisions(n)
        self.asked: dict[Any, bool] = {}

    def read(self, offset: int, n: int) -> list[Event]:
        return [
            event
            if not math.isnan(event.score) or self.asked.get(event.id, False)
            else event._replace(id=("never", event.id), y=0.0)
            for event in self.all[offset : offset + n]
        ]

    def sink(self, offset: int, values: Any, asked: Any) -> None:
        assert asked.dtype == np.bool_
        assert len(values) == len(asked)
        for event, ask in zip(self.all[offset:], asked.tolist(), strict=False):
            if not math.isnan(event.score):
                self.asked[event.id] = ask or event.propensity == 1.0


def setting(path: Path | None) -> dict[str, Any]:
    return {"join": LabelJoin(1_000), "sampler": AuditSampler(0.2, secret="s", floor=FLOOR)}


def test_a_run_asks_learns_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    with Store(tmp_path / "whole.db") as store:
        keyed = KeyedCalibrator(AuditedCalibrator(floor=FLOOR), store=store)
        feed, given = Feed(600), setting(None)
        run(feed, keyed, feed.sink, store, batch_size=1, **given)
        whole = keyed.snapshot(None).predict_one(0.3)
        n_asked = given["sampler"].n_asked
        unsure = sum(event.propensity is None and event.score < 0.7 for event in feed.all)
        assert given["sampler"].n_samples == unsure
        assert abs(n_asked - 0.2 * unsure) < 15
        learned = sum(feed.asked.values()) - feed.asked[599]  # the last label never comes
        assert keyed.snapshot(None).n_samples == learned
    parts = Feed(600)
    for end in (100, 333, 1_199):  # each run is a new process: nothing is kept but the store
        with Store(tmp_path / "parts.db") as store:
            keyed = KeyedCalibrator(AuditedCalibrator(floor=FLOOR), store=store)
            given = setting(None)
            part = Feed(600)
            part.asked = parts.asked
            part.all = part.all[:end]
            run(part, keyed, part.sink, store, batch_size=1, **given)
    assert keyed.snapshot(None).predict_one(0.3) == whole
    assert given["sampler"].n_asked == n_asked
    assert parts.asked == feed.asked


def test_a_label_that_waits_keeps_the_propensity_of_its_score() -> None:
    join = LabelJoin(10)
    join.add(Event(0.4, id="a", propensity=0.25))
    join.add(Event(math.nan, y=1.0, id="b"))
    join = LabelJoin.from_bytes(join.to_bytes())
    late = join.add(Event(math.nan, y=1.0, id="a"))
    assert late is not None
    assert late.propensity == 0.25
    early = join.add(Event(0.6, id="b", propensity=0.5))
    assert early is not None
    assert early.propensity == 0.5


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([Event(0.5, id=1)], ".*must have `propensity`, as `calibrator` needs it"),
        ([Event(0.5, id=1, propensity=0.01)], ".*`propensity` must be from 0.05"),
        ([Event(math.nan, y=1.0, id=1, propensity=0.5)], ".*no `propensity` without a score"),
    ],
)
def test_a_bad_event_is_named(events: list[Event], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"event 0: {message}"):
        run(events, AuditedCalibrator(floor=FLOOR), lambda *_: None, None, join=LabelJoin(10))


def test_a_complete_event_needs_its_propensity() -> None:
    served: list[float] = []

    def sink(_offset: int, values: Any) -> None:
        served.extend(values)

    calibrator = AuditedCalibrator(floor=FLOOR)
    with pytest.raises(TypeError, match="event 0: must have `propensity`"):
        run([Event(0.5, 1.0)], calibrator, sink, None)
    assert run([Event(0.5, 1.0, propensity=0.5), Event(0.5)], calibrator, sink, None) == 2
    assert served[0] == 0.5 < served[1]


def test_a_sampler_is_not_asked_about_a_label_that_is_there() -> None:
    events = [Event(0.5, y=1.0, id=i) for i in range(20)]
    sampler = AuditSampler(0.5, secret="s")
    asked: list[bool] = []

    def sink(_offset: int, _values: Any, asks: Any) -> None:
        asked.extend(asks.tolist())

    run(events, PlattCalibrator(), sink, None, join=LabelJoin(9), sampler=sampler)
    assert sampler.n_samples == sum(asked) == 0
    audited = AuditedCalibrator(floor=FLOOR)
    with pytest.raises(TypeError, match=r"event 0: must have `propensity`.*there is no label yet"):
        run(events, audited, sink, None, join=LabelJoin(9), sampler=sampler)
    known = [event._replace(propensity=1.0) for event in events]
    assert run(known, audited, sink, None, join=LabelJoin(9), sampler=sampler) == 20


@pytest.mark.parametrize("calibrator", [AuditedCalibrator(floor=FLOOR), PlattCalibrator()])
def test_a_sampler_leaves_out_what_is_always_labelled(calibrator: Any) -> None:
    join, sampler = LabelJoin(99), AuditSampler(0.1, secret="s", floor=FLOOR)
    asked: list[bool] = []

    def sink(_offset: int, _values: Any, asks: Any) -> None:
        asked.extend(asks.tolist())

    always = [Event(0.9, id=("always", i), propensity=1.0) for i in range(20)]
    # A retry that does not say so again is left out, too.
    run([*always, Event(0.9, id=("always", 0))], calibrator, sink, None, join=join, sampler=sampler)
    assert sampler.n_samples == sum(asked) == 0
    keyed = KeyedCalibrator(calibrator)
    labels = [Event(math.nan, y=1.0, id=event.id) for event in always]
    run([*always, *labels], keyed, sink, None, join=LabelJoin(99), sampler=sampler)
    assert keyed.snapshot(None).n_samples == 20
    bad = [Event(0.9, id=1, propensity=1.5)]
    with pytest.raises(ValueError, match=r"event 0: `propensity` must .*, got 1.5"):
        run(bad, calibrator, sink, None, join=join, sampler=sampler)


@pytest.mark.parametrize("late", [False, True])
def test_a_label_that_was_not_asked_for_is_not_learned(tmp_path: Path, late: bool) -> None:
    """Who complains, for example, has another label more often than others of this score."""
    n, sampler = 200, AuditSampler(0.2, secret="s", floor=FLOOR)
    scores = [Event(0.5, id=i) for i in range(n)]
    labels = [Event(math.nan, y=1.0, id=i) for i in range(n)]

    def ignore(*_given: Any) -> None:
        pass

    audited, platt = AuditedCalibrator(floor=FLOOR), PlattCalibrator()
    first, second = (scores, labels) if late else (labels, scores)
    with Store(tmp_path / "run.db") as store:
        keyed = KeyedCalibrator(audited, store=store)
        run(first, keyed, ignore, store, join=LabelJoin(1_000), sampler=sampler)
    with Store(tmp_path / "run.db") as store:  # another process
        keyed = KeyedCalibrator(audited, store=store)
        with pytest.warns(UserWarning, match=r"labels were not learned: `sampler` had not asked"):
            run([*first, *second], keyed, ignore, store, join=LabelJoin(1_000), sampler=sampler)
        assert keyed.snapshot(None).n_samples == sampler.n_asked < n
    keyed = KeyedCalibrator(platt)  # it needs no propensities
    run([*first, *second], keyed, ignore, None, join=LabelJoin(1_000), sampler=sampler)
    assert keyed.snapshot(None).n_samples == n


def test_a_sink_must_take_what_it_gets() -> None:
    events, taken = [Event(0.5, id=1)], []
    given = {"join": LabelJoin(5), "sampler": AuditSampler(0.5, secret="s")}
    with pytest.raises(
        TypeError, match=r"`sink` must be a function of \(offset, predictions, asked"
    ):
        run(events, PlattCalibrator(), lambda at, p: taken.append(at), None, **given)
    with pytest.raises(
        TypeError, match=r"`sink` must be .* without a `sampler`, got one of \(a, b"
    ):
        run(events, PlattCalibrator(), lambda a, b, c: taken.append(a), None)
    assert not taken
    run(events, PlattCalibrator(), lambda *all_of_it: taken.append(all_of_it), None, **given)
    assert len(taken[0]) == 3


@pytest.mark.parametrize("secret", ["a", "g"])
def test_a_retry_asks_the_same_when_the_sampler_has_forgotten_it(secret: str) -> None:
    events = [Event(0.5, id="r"), *(Event(0.5, id=i) for i in range(30)), Event(0.5, id="r")]
    sampler, join = AuditSampler(0.3, secret=secret, remember=5), LabelJoin(100)
    asked: list[bool] = []

    def sink(_offset: int, _values: Any, asks: Any) -> None:
        asked.extend(asks.tolist())

    run(events, AuditedCalibrator(floor=FLOOR), sink, None, join=join, sampler=sampler)
    assert asked[0] == asked[-1]
    assert sampler.n_samples == 31


@pytest.mark.parametrize("id", [("a", None), (None,), True, 2.0, np.int64(3), math.inf])
def test_a_sampler_takes_the_ids_of_a_join(id: Any) -> None:
    join, sampler = LabelJoin(9), AuditSampler(1.0, secret="s")
    events = [Event(0.5, id=id), Event(math.nan, y=1.0, id=id)]
    run(events, PlattCalibrator(), lambda *_: None, None, join=join, sampler=sampler)
    assert join.n_joined == sampler.n_samples == 1


def test_a_sampler_must_fit_the_run(tmp_path: Path) -> None:
    sampler, events = AuditSampler(0.5, secret="s", floor=FLOOR), [Event(0.5, id=1)]

    def ignore(*_given: Any) -> None:
        pass

    with pytest.raises(ValueError, match="`join` must be given with a `sampler`"):
        run(events, PlattCalibrator(), ignore, None, sampler=sampler)
    with pytest.raises(TypeError, match=r"`sampler` must be an AuditSampler or None, got 0.2"):
        run(events, PlattCalibrator(), ignore, None, join=LabelJoin(5), sampler=0.2)
    shops = AuditSampler(0.5, secret="s", fields=["shop"])
    with pytest.raises(ValueError, match=r"fields of `calibrator`, \[\], got \['shop'\]"):
        run(events, PlattCalibrator(), ignore, None, join=LabelJoin(5), sampler=shops)
    squared = IsotonicCalibrator("squared")
    with pytest.raises(ValueError, match="`sampler` must have probabilities"):
        run(events, squared, ignore, None, join=LabelJoin(5), sampler=sampler)
    audited = AuditedCalibrator(floor=FLOOR)
    low = AuditSampler(0.5, secret="s", floor=0.04)
    with pytest.raises(ValueError, match=r"`sampler` must have a greater `floor`: .*got 0.04"):
        run(events, audited, ignore, None, join=LabelJoin(5), sampler=low)
    unnamed = [Event(0.5, id=None)]
    with pytest.raises(TypeError, match="event 0: `id` must be text"):
        run(unnamed, PlattCalibrator(), ignore, None, join=LabelJoin(5), sampler=sampler)
    with Store(tmp_path / "run.db") as store:
        run(events, PlattCalibrator(), ignore, store, join=LabelJoin(5), sampler=sampler)
        other = AuditSampler(0.4, secret="s")
        with pytest.raises(ValueError, match="`sampler` must have the parameters of that in"):
            run(events, PlattCalibrator(), ignore, store, join=LabelJoin(5), sampler=other)


@pytest.mark.parametrize("kind", [AuditedCalibrator, PriorShiftCalibrator])
def test_a_ticket_of_other_maps_is_refused(kind: Any) -> None:
    maps = (PlattCalibrator(), HedgedCalibrator(), SegmentCalibrator(["k"], base=PlattCalibrator()))
    for own, other in itertools.permutations(maps, 2):
        calibrator, another = kind(own), kind(other)
        x = {"x": {"k": "a"}} if another.fields else {}
        ticket = another.serve_one(0.3, **x).ticket
        given = {"x": {"k": "a"}} if calibrator.fields else {}
        given |= {"propensity": 1.0} if calibrator.needs_propensity else {}
        before = calibrator.to_bytes()
        with pytest.raises((TypeError, ValueError), match="`ticket` must"):
            calibrator.learn_one(0.3, 1, ticket=ticket, **given)
        assert calibrator.to_bytes() == before


# The command line ---------------------------------------------------------------------------------


def table(path: Path, n: int = 400) -> list[tuple[float, float, float, str]]:
    rng = np.random.default_rng(11)
    rows = []
    for _ in range(n):
        p = round(float(rng.random()), 3)
        propensity = 1.0 if p < 0.5 else 0.25
        y = float(rng.random() < p**2) if rng.random() < propensity else math.nan
        rows.append((p, y, propensity, str(rng.choice(["a", "b"]))))
    cells = [(p, "" if y != y else int(y), pi, key) for p, y, pi, key in rows]
    pd.DataFrame(cells, columns=["p", "y", "pi", "k"]).to_csv(path, index=False)
    return rows


@pytest.mark.parametrize("delay", [0, 7])
def test_a_table_has_a_column_of_propensities(tmp_path: Path, delay: int) -> None:
    rows = table(tmp_path / "t.csv")
    result = command(
        *("calibrate", tmp_path / "t.csv", "--score", "p", "--label", "y", "--key", "k"),
        *("--propensity", "pi", "--floor", "0.2", "--out", tmp_path / "out.csv"),
        *(("--delay", delay, "--store", tmp_path / "run.db") if delay else ()),
    )
    assert result.exit_code == 0, result.output
    keyed = KeyedCalibrator(AuditedCalibrator(floor=0.2))
    waiting: list[Any] = []
    values = []
    for i, (p, y, propensity, key) in enumerate(rows):
        while waiting and waiting[0][0] <= i:
            _, score, label, known, name, ticket = waiting.pop(0)
            keyed.learn_one(name, score, label, ticket=ticket, propensity=known)
        value, ticket = keyed.serve_one(key, p)
        values.append(value)
        if delay == 0 and y == y:
            keyed.learn_one(key, p, y, propensity=propensity)
        elif y == y:
            waiting.append((i + delay, p, y, propensity, key, ticket))
    written = pd.read_csv(tmp_path / "out.csv")["calibrated"]
    assert written.tolist() == pytest.approx(values, abs=1e-12)


@pytest.mark.parametrize("options", [[], ["--segment", "k"], ["--delay", "3"]])
def test_rows_without_a_label_need_no_propensity(tmp_path: Path, options: list[str]) -> None:
    table(tmp_path / "t.csv", 90)
    given = ["--score", "p", "--label", "y", "--propensity", "pi", *options]
    command("calibrate", tmp_path / "t.csv", *given, "--out", tmp_path / "all.csv")
    frame = pd.read_csv(tmp_path / "t.csv")
    frame.loc[frame["y"].isna(), "pi"] = [0.0, math.nan] * int(frame["y"].isna().sum() / 2)
    frame.to_csv(tmp_path / "t.csv", index=False)
    command("calibrate", tmp_path / "t.csv", *given, "--out", tmp_path / "labelled.csv")
    one, other = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("all", "labelled"))
    assert one["calibrated"].tolist() == other["calibrated"].tolist()


def test_swapped_arguments_of_a_batch_are_refused() -> None:
    with pytest.raises(ValueError, match="`scores` must come before `y`"):
        AuditedCalibrator().learn_many([0, 1], [0.25, 0.75], propensity=[1.0, 1.0])


@pytest.mark.parametrize("changed", [False, True])
def test_a_table_with_propensities_and_segments_may_grow(tmp_path: Path, changed: bool) -> None:
    table(tmp_path / "t.csv", 90)
    whole = (tmp_path / "t.csv").read_text()
    given = ["--score", "p", "--label", "y", "--propensity", "pi", "--segment", "k"]
    command("calibrate", tmp_path / "t.csv", *given, "--out", tmp_path / "whole.csv")
    stored = [*given, "--store", tmp_path / "run.db", "--out", tmp_path / "parts.csv"]
    for n_lines in (30, 60, 91):
        text = "".join(whole.splitlines(keepends=True)[:n_lines])
        if changed and n_lines == 91:
            text = text.replace(",a\n", ",b\n", 1)  # of a row that was learned
        (tmp_path / "t.csv").write_text(text)
        result = command("calibrate", tmp_path / "t.csv", *stored, status=None)
        assert result.exit_code == (1 if changed and n_lines == 91 else 0), result.output
    if changed:
        assert "a table may grow between runs, not change" in " ".join(result.output.split())
    else:
        assert (tmp_path / "parts.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_losses_of_a_table_with_propensities_are_those_of_all_rows(tmp_path: Path) -> None:
    rows = table(tmp_path / "t.csv", 4_000)
    given = ("--score", "p", "--label", "y", "--propensity", "pi", "--floor", "0.2", "--json")
    result = command("calibrate", tmp_path / "t.csv", *given, "--out", tmp_path / "out.csv")
    found = json.loads(result.stderr)
    p, y, propensity = np.array([row[:3] for row in rows]).T
    of_all = np.mean(p**2 * (1.0 - p) ** 2 + (1.0 - p**2) * p**2)  # a label is 1 with p²
    labelled = ~np.isnan(y)
    squares = (p - y)[labelled] ** 2
    w = 1.0 / propensity[labelled]
    before = found["brier_score"]["before"]
    assert before == pytest.approx(squares @ w / w.sum())
    assert abs(before - of_all) < 0.01 < abs(np.mean(squares) - of_all)
    assert found["losses_among"] == "all rows"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--floor", "0.2"], "--floor needs --propensity, got 0.2 without it"),
        (["--propensity", "y"], "--propensity must be another column than --label, got 'y'"),
        (["--propensity", "pi", "--floor", "0.3"], "must be from 0.3 to 1, got '0.25'; --floor"),
        (["--propensity", "pi", "--floor", "2"], "`--floor` must lie in (0, 1], got 2.0"),
        (["--propensity", "pi", "--group", "k"], "--group can't be used with --propensity"),
        (
            ["--propensity", "pi", "--calibrator", "isotonic", "--loss", "squared"],
            "it needs --loss log, got squared",
        ),
    ],
)
def test_a_propensity_that_does_not_fit(tmp_path: Path, options: list[str], message: str) -> None:
    table(tmp_path / "t.csv", 20)
    given = ["--score", "p", "--label", "y", "--out", tmp_path / "out.csv", *options]
    result = command("calibrate", tmp_path / "t.csv", *given, status=None)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out.csv").exists()


def test_huge_weights_leave_weights_that_are_numbers() -> None:
    """All rows of the mixture that have a prior may be ruled out by one sample."""
    learner, sure = AuditedCalibrator(PlattCalibrator(), floor=0.1), 1.0 - 1e-16
    ticket = learner.serve_one(1.0).ticket
    learner.learn_one(0.0, 1.0, 1e60, propensity=1.0)
    learner.learn_one(sure, 0.0, 3.0, propensity=1.0)
    learner.learn_one(1.0, 1.0, 1e60, ticket=ticket, propensity=1.0)
    for score, y in ((sure, 0.0), (sure, 1.0), (0.1, 0.0), (1e-300, 1.0)):
        learner.learn_one(score, y, 1e-60, propensity=1.0)
    learner.learn_one(0.9, 0.0, 1e60, propensity=1.0)
    assert sum(learner.weights.values()) == pytest.approx(1.0)
    assert 0.0 <= learner.predict_one(0.5) <= 1.0
    assert AuditedCalibrator.from_bytes(learner.to_bytes()).weights == learner.weights
