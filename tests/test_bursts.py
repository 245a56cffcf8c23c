"""Labels that arrive together: whether they share an outcome, and how they are learned then."""

import copy
import math
import pickle
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    SegmentCalibrator,
)
from streamcal._state import decode, encode
from streamcal.calibration import Calibrator
from streamcal.calibration.bursts import Evidence
from streamcal.calibration.tickets import Ticket
from streamcal.durable import Event, KeyedCalibrator, LabelJoin, Store, run
from tests.fixed_model import FixedModel
from tests.oracles_bursts import BurstHedge
from tests.oracles_hedged import total_loss

Burst = tuple[np.ndarray, np.ndarray]  # scores and labels that arrive together
SMALL = (IdentityCalibrator(), PlattCalibrator(), IsotonicCalibrator(window=50))


LATER = Ticket((99, (0.5,) * 10))  # of a later state


def games(n: int, seed: int, rows: int = 90) -> list[Burst]:
    """Return games: probabilities while a game goes on, and its outcome in each row.

    The lead is a Brownian motion with a random start; the home team wins if it is positive at the
    end, so that probabilities are those of the outcome.
    """
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        steps = random.normal(size=rows) / math.sqrt(rows)
        lead = 0.8 * random.normal() + np.concatenate([[0.0], np.cumsum(steps)])
        left = 1.0 - np.arange(rows) / rows
        p = [0.5 * math.erfc(-at / math.sqrt(2.0 * t)) for at, t in zip(lead, left, strict=False)]
        found.append((np.array(p), np.full(rows, float(lead[-1] > 0.0))))
    return found


def nights(
    n: int, seed: int, shift: float = 0.0, slope: float = 1.0, drift: float = 0.0
) -> list[Burst]:
    """Return nights of 1,000 independent labels under scores with these wrong log odds."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        log_odds = 1.5 * random.normal(size=1_000) - 0.5
        y = random.random(1_000) < 1.0 / (1.0 + np.exp(-log_odds))
        shift += drift * random.normal()
        found.append((1.0 / (1.0 + np.exp(-slope * log_odds - shift)), y.astype(float)))
    return found


def serve(hedge: Any, bursts: list[Burst], *, alone: bool = False) -> float:
    """Serve each burst, then learn its labels; return the mean log loss less the scores'.

    With ``alone`` a prediction follows each label, so that no two of them form a burst.
    """
    lost, n = 0.0, 0
    for scores, y in bursts:
        served = [hedge.serve_one(score) for score in scores.tolist()]
        for (score, label), (_, ticket) in zip(
            zip(scores.tolist(), y.tolist(), strict=True), served, strict=True
        ):
            hedge.learn_one(score, label, ticket=ticket)
            if alone:
                hedge.predict_one(0.5)
        p = np.array([answer for answer, _ in served]).clip(1e-6, 1.0 - 1e-6)
        lost += total_loss(p, y) - total_loss(scores.clip(1e-6, 1.0 - 1e-6), y)
        n += len(y)
    return lost / n


# What is gained, and what is not lost -------------------------------------------------------------


def test_the_first_games_do_little_harm() -> None:
    streams = [games(20, seed) for seed in range(6)]
    one_by_one = [serve(HedgedCalibrator(), stream, alone=True) for stream in streams]
    bursts = [serve(HedgedCalibrator(), stream) for stream in streams]
    assert np.mean(bursts) < 0.006 < 0.015 < np.mean(one_by_one)


def test_games_are_learned_as_groups_that_nobody_declared() -> None:
    hedge, told = HedgedCalibrator(), HedgedCalibrator()
    for scores, y in games(12, 1):
        tickets = [hedge.serve_one(score)[1] for score in scores]
        assert tickets == [told.serve_one(score)[1] for score in scores]
        for score, label, ticket in zip(scores, y, tickets, strict=True):
            hedge.learn_one(score, label, ticket=ticket)
        told.learn_group(scores, y, tickets=tickets)
    assert hedge.n_samples == told.n_samples == 12
    assert hedge.predict_many(np.linspace(0, 1, 9)).tolist() == (
        told.predict_many(np.linspace(0, 1, 9)).tolist()
    )


WRONG = {
    "higher by 1": {"shift": 1.0},
    "lower by 1": {"shift": -1.0},
    "too flat": {"slope": 0.5},
    "drifting": {"drift": 0.3},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_independent_labels_of_a_night_are_learned_as_before(wrong: Any) -> None:
    stream = nights(4, 0, **wrong)
    before, hedge = HedgedCalibrator(), HedgedCalibrator()
    assert serve(hedge, stream) == serve(before, stream, alone=True)
    assert state(hedge) == state(before)


def test_nights_without_rare_positives_are_no_evidence() -> None:
    random = np.random.default_rng(0)
    stream = [(random.uniform(0.02, 0.09, 300), np.zeros(300)) for _ in range(4)]
    before, hedge = HedgedCalibrator(), HedgedCalibrator()
    assert serve(hedge, stream) == serve(before, stream, alone=True)


def test_groups_end_where_labels_turn_out_to_be_independent() -> None:
    random = np.random.default_rng(2)
    hedge = HedgedCalibrator()
    serve(hedge, games(3, 0))
    assert hedge.n_samples == 3
    for _ in range(7):
        scores = random.uniform(0.2, 0.8, 60)
        serve(hedge, [(scores, (random.random(60) < scores).astype(float))])
    assert hedge.n_samples > 60  # no longer one sample for each burst


def state(hedge: HedgedCalibrator) -> tuple[Any, ...]:
    """Return all that a hedge has learned, without what it knows of bursts."""
    found = decode(hedge.to_bytes())
    fields = {name: value for name, value in found.fields.items() if name != "bursts"}
    return fields, {name: array.tolist() for name, array in found.arrays.items()}


# The definition -----------------------------------------------------------------------------------

SCORES = st.sampled_from([0.05, 0.3, 0.5, 0.6, 0.9])
LABELS = st.sampled_from([0.0, 1.0])
WEIGHTS = st.sampled_from([1.0, 1.0, 0.5])
STEPS = st.one_of(
    st.tuples(st.just("serve"), st.lists(SCORES, min_size=1, max_size=30)),
    st.tuples(st.just("burst"), st.lists(SCORES, min_size=1, max_size=40), LABELS),
    st.tuples(st.just("late"), st.integers(1, 40), LABELS),
    st.tuples(st.just("mixed"), st.lists(st.tuples(SCORES, LABELS), min_size=2, max_size=20)),
    st.tuples(st.just("soft"), SCORES, st.sampled_from([0.0, 0.25, 1.0])),
    st.tuples(st.just("learn"), SCORES, LABELS, st.integers(1, 60)),
    st.tuples(st.just("predict"), SCORES),
)


def both(
    steps: list[Any], change: Callable[[HedgedCalibrator], HedgedCalibrator]
) -> Iterator[tuple[HedgedCalibrator, BurstHedge]]:
    """Let a hedge and the reference take the same steps; yield them after each."""
    hedge, slow = HedgedCalibrator(SMALL), BurstHedge(HedgedCalibrator(SMALL))
    waiting: list[tuple[float, Any]] = []

    def served(score: float) -> Any:
        answer, ticket = hedge.serve_one(score)
        assert (answer, ticket) == slow.serve_one(score)
        return ticket

    for kind, *given_ in steps:
        late: list[tuple[float, float, Any]] = []
        if kind == "serve":
            waiting += [(score, served(score)) for score in given_[0]]
        elif kind == "burst":
            late = [(score, given_[1], served(score)) for score in given_[0]]
        elif kind == "mixed":
            late = [(score, y, served(score)) for score, y in given_[0]]
        elif kind == "soft":
            late = [(given_[0], given_[1], served(given_[0]))]
        elif kind == "late":
            taken, waiting = waiting[: given_[0]], waiting[given_[0] :]
            late = [(score, given_[1], ticket) for score, ticket in taken]
        elif kind == "learn":
            for _ in range(given_[2]):
                hedge.learn_one(*given_[:2])
                slow.learn_one(*given_[:2])
        else:
            assert hedge.predict_one(given_[0]) == slow.predict_one(given_[0])
        for at, (score, y, ticket) in enumerate(late):
            hedge.learn_one(score, y, 0.5 + at % 2, ticket=ticket)
            slow.learn_one(score, y, 0.5 + at % 2, ticket=ticket)
            if at % 7 == 3:
                hedge = change(hedge)
        yield hedge, slow


def through_bytes(hedge: HedgedCalibrator) -> HedgedCalibrator:
    twin = HedgedCalibrator.from_bytes(hedge.to_bytes())
    assert isinstance(twin, HedgedCalibrator)
    return twin


CHANGES: dict[str, Callable[[HedgedCalibrator], HedgedCalibrator]] = {
    "none": lambda hedge: hedge,
    "bytes": through_bytes,
    "pickle": lambda hedge: pickle.loads(pickle.dumps(hedge)),
    "copy": copy.deepcopy,
    "clone": lambda hedge: hedge.clone(include_attributes=True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@given(st.lists(STEPS, max_size=25))
def test_bursts_are_learned_as_the_reference_does(change: Any, steps: list[Any]) -> None:
    for hedge, slow in both(steps, change):
        reference = copy.deepcopy(slow)
        reference.close()
        assert hedge.n_samples == reference.hedge.n_samples  # reading closes no burst
        assert hedge.weights == reference.hedge.weights
        assert hedge.mean_delay == reference.hedge.mean_delay


def test_games_of_all_lengths_are_learned_as_the_reference_does() -> None:
    random = np.random.default_rng(5)
    hedge, slow = HedgedCalibrator(SMALL), BurstHedge(HedgedCalibrator(SMALL))
    for seed in range(40):
        stream = games(1, seed, int(random.integers(2, 60)))
        if seed > 20:  # rows become independent
            stream = [(p, (random.random(len(p)) < p).astype(float)) for p, _ in stream]
        assert serve(hedge, stream) == serve(slow, stream)
        slow.close()
        assert hedge.n_samples == slow.hedge.n_samples


@pytest.mark.parametrize(
    "predict",
    [
        lambda hedge: hedge.predict_one(0.4),
        lambda hedge: hedge.serve_one(0.4),
        lambda hedge: hedge.predict_many([0.4]),
        lambda hedge: hedge.predict_learn_many([], []),
    ],
)
def test_any_prediction_closes_a_burst(predict: Any) -> None:
    hedge = HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(60)]
    for i, ticket in enumerate(tickets):
        if i == 30:
            predict(hedge)
        hedge.learn_one(0.6, 1, ticket=ticket)
    assert hedge.n_samples == 2


@pytest.mark.parametrize(
    "read",
    [
        lambda hedge: hedge.n_samples,
        lambda hedge: hedge.weights,
        lambda hedge: hedge.share_weights,
        lambda hedge: hedge.mean_delay,
        lambda hedge: hedge.to_bytes(),
        lambda hedge: hedge.snapshot().predict_one(0.5),
        lambda hedge: hedge._repr_html_(),
        copy.deepcopy,
        repr,
    ],
)
def test_reading_leaves_a_burst_open(read: Any) -> None:
    hedge = HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(60)]
    for ticket in tickets:
        before = hedge.to_bytes()
        read(hedge)
        assert hedge.to_bytes() == before
        hedge.learn_one(0.6, 1, ticket=ticket)
    assert hedge.n_samples == 1


@pytest.mark.parametrize(
    "refused",
    [
        lambda hedge: hedge.predict_one(2.0),
        lambda hedge: hedge.serve_one(math.nan),
        lambda hedge: hedge.predict_many([0.5, 2.0]),
        lambda hedge: hedge.predict_learn_many([0.5], [2.0]),
        lambda hedge: hedge.learn_one(0.5, 3.0),
        lambda hedge: hedge.learn_one(0.5, 1, ticket=LATER),
        lambda hedge: hedge.learn_one(0.5, 1, -1.0, ticket=hedge_ticket()),
        lambda hedge: hedge.learn_group([0.5, 0.5], [1, 2]),
        lambda hedge: hedge.learn_group(
            [0.5, 0.5], [1, 1], tickets=[None, Ticket((99, (0.5,) * 10))]
        ),
    ],
)
def test_a_refused_call_leaves_a_burst_as_it_is(refused: Any) -> None:
    hedge = HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(5)]
    for ticket in tickets:
        hedge.learn_one(0.6, 1, ticket=ticket)
    before = hedge.to_bytes()
    with pytest.raises(ValueError, match="must"):
        refused(hedge)
    assert hedge.to_bytes() == before


def hedge_ticket() -> Any:
    return HedgedCalibrator().serve_one(0.5)[1]


def test_a_ticket_from_after_a_burst_closes_it() -> None:
    """As after a crash: the state is older than the latest tickets."""
    hedge = HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(40)]
    for ticket in tickets:
        hedge.learn_one(0.6, 1, ticket=ticket)
    old = copy.deepcopy(hedge)
    later = [hedge.serve_one(0.6)[1] for _ in range(40)]
    for each in (hedge, old):
        for ticket in later:
            each.learn_one(0.6, 0, ticket=ticket)
    assert old.n_samples == hedge.n_samples == 2
    assert old.to_bytes() == hedge.to_bytes()


def test_history_without_tickets_forms_no_bursts() -> None:
    hedge = HedgedCalibrator()
    for _ in range(3):
        for _ in range(40):
            hedge.learn_one(0.6, 1)
        hedge.predict_one(0.6)
    assert hedge.n_samples == 120
    hedge.learn_many([0.6] * 40, [1] * 40)
    assert hedge.n_samples == 160


def test_rows_of_other_weights_share_their_mean() -> None:
    hedge, told = HedgedCalibrator(), HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(40)]
    for i, ticket in enumerate(tickets):
        hedge.learn_one(0.6, 1, 1.0 + i % 2, ticket=ticket)
    told.learn_group([0.6] * 40, [1] * 40, 1.5, tickets=tickets)
    assert hedge.predict_one(0.6) == told.predict_one(0.6)


def test_rows_of_the_least_weight_can_be_learned() -> None:
    hedge, told = HedgedCalibrator(), HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(40)]
    for ticket in tickets:
        hedge.learn_one(0.6, 1, 1e-60, ticket=ticket)
    told.learn_group([0.6] * 40, [1] * 40, 4e-59, tickets=tickets)
    assert hedge.predict_one(0.6) == told.predict_one(0.6)


def test_a_burst_of_any_length_takes_bounded_memory() -> None:
    hedge = HedgedCalibrator([IdentityCalibrator(), PlattCalibrator()])
    ticket = hedge.serve_one(0.6)[1]
    for _ in range(25_000):
        hedge.learn_one(0.6, 1, ticket=ticket)
    assert len(hedge.to_bytes()) < 2e6
    assert hedge.n_samples == 3


def test_calibrators_that_may_refuse_a_sample_learn_at_once() -> None:
    class Picky(PlattCalibrator):
        def learn_one(self, score: float, y: float, w: float = 1.0) -> None:
            if score > 0.5:
                raise ValueError("too high")
            super().learn_one(score, y, w)

    hedge = HedgedCalibrator([Picky(), IdentityCalibrator()])
    tickets = [hedge.serve_one(0.6)[1] for _ in range(3)]
    for ticket in tickets:
        with pytest.raises(ValueError, match="too high"):
            hedge.learn_one(0.6, 1, ticket=ticket)
        hedge.learn_one(0.4, 1, ticket=ticket)
    assert hedge.n_samples == 3


def test_threads_that_predict_and_learn_lose_no_label() -> None:
    hedge = HedgedCalibrator(SMALL)
    tickets = [hedge.serve_one(0.6)[1] for _ in range(2_000)]
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            hedge.predict_one(0.6)
            hedge.weights  # noqa: B018 (it is computed)

    def learn(part: list[Any]) -> None:
        for ticket in part:
            hedge.learn_one(0.6, 1, ticket=ticket)

    readers = [threading.Thread(target=look) for _ in range(2)]
    writers = [threading.Thread(target=learn, args=(tickets[i::4],)) for i in range(4)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    hedge.predict_one(0.6)
    assert hedge._mixture.kernel.n_labels == 2_000


# States -------------------------------------------------------------------------------------------


def held() -> HedgedCalibrator:
    hedge = HedgedCalibrator()
    tickets = [hedge.serve_one(0.6)[1] for _ in range(3)]
    for ticket in tickets:
        hedge.learn_one(0.6, 1, ticket=ticket)
    return hedge


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 2.0, "in .0, 1."),
        (1, -1.0, "in .0, 1."),
        (2, 0.0, "weights"),
        (3, 7.0, "tickets"),
        (9, 1.5, "in .0, 1."),
    ],
)
def test_labels_that_cannot_have_been_held_are_refused(
    column: int, value: float, message: str
) -> None:
    found = decode(held().to_bytes())
    rows = found.arrays["held"].copy()
    rows[1, column] = value
    with pytest.raises(ValueError, match=message):
        Calibrator.from_bytes(encode(found.kind, found.fields, {**found.arrays, "held": rows}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shared": 1}, "shared"),
        ({"shared": False}, "only possible bursts are held"),
        ({"nats": -1.0}, "nats"),
        ({"n_bursts": 1}, "bursts must have rows"),
        ({"n_measured": 3}, "measured bursts"),
        ({"effect": math.inf}, "effect"),
        ({"measured_from": -2}, "measured_from"),
    ],
)
def test_impossible_evidence_is_refused(change: dict[str, Any], message: str) -> None:
    found = decode(held().to_bytes())
    fields = {**found.fields, "bursts": list((Evidence()._asdict() | change).values())}
    with pytest.raises(ValueError, match=message):
        Calibrator.from_bytes(encode(found.kind, fields, found.arrays))


# Wrapper, segments, keys and engine ---------------------------------------------------------------


class Forecast(FixedModel):
    """Predicts the probability that is a feature."""

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {False: 1.0 - x["p"], True: x["p"]}


def test_a_classifier_learns_the_rows_of_a_game_as_a_group() -> None:
    told, untold = (CalibratedClassifier(Forecast()) for _ in range(2))
    for number, (scores, y) in enumerate(games(6, 1)):
        X = [{"p": p, "game": number} for p in scores.tolist()]
        for x in X:
            assert told.predict_proba_one(x) == untold.predict_proba_one(x)
        labels = [label == 1.0 for label in y.tolist()]
        told.learn_group(X, labels)
        for x, label in zip(X, labels, strict=True):
            untold.learn_one(x, label)
    assert told.calibrators[True].n_samples == untold.calibrators[True].n_samples == 6


def test_calibrators_of_labels_learn_bursts_as_hedges_do() -> None:
    """With tickets through a classifier, and directly, for each of three labels."""
    model = CalibratedClassifier(ThreeLabels())
    hedges = {label: HedgedCalibrator() for label in "abc"}
    random = np.random.default_rng(3)
    for n_rows in (1, 40, 7, 1, 1, 60, 25):
        rows = [{"p": p} for p in random.uniform(0.2, 0.6, n_rows).tolist()]
        served = [model.serve_one(x) for x in rows]
        raw = [model.classifier.predict_proba_one(x) for x in rows]
        tickets = [{label: hedges[label].serve_one(p[label])[1] for label in p} for p in raw]
        y = random.choice(list("abc"))
        for x, p, own, each in zip(rows, raw, tickets, served, strict=True):
            model.learn_one(x, y, served=each)
            for label, hedge in hedges.items():
                hedge.learn_one(p[label], y == label, ticket=own[label])
            assert {label: c.to_bytes() for label, c in model.calibrators.items()} == {
                label: hedge.to_bytes() for label, hedge in hedges.items()
            }
    assert hedges["a"].n_samples < 20


class ThreeLabels(FixedModel):
    """Predicts three labels from one feature."""

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        return {"a": x["p"], "b": 0.3, "c": 0.7 - x["p"]}


def test_segments_learn_labels_one_by_one() -> None:
    calibrator = SegmentCalibrator(["team"])
    tickets = [calibrator.serve_one(0.6, {"team": "a"})[1] for _ in range(40)]
    for i, ticket in enumerate(tickets):
        calibrator.learn_one(0.6, 1, x={"team": "a"}, ticket=ticket)
        assert calibrator.n_samples == i + 1


def events(bursts: list[Burst], keys: str = "ab") -> list[Event]:
    """Return events with late labels: those of a game come at its end, for two keys in turn."""
    found = []
    for i, (scores, y) in enumerate(bursts):
        ids = [f"{i}-{row}" for row in range(len(y))]
        key = keys[i % len(keys)]
        found += [Event(p, key=key, id=name) for p, name in zip(scores.tolist(), ids, strict=True)]
        found += [Event(math.nan, label, id=name) for label, name in zip(y, ids, strict=True)]
    return found


@pytest.mark.parametrize("batch_size", [7, 90, 10_000])
@pytest.mark.parametrize("max_live", [1, None])
def test_the_answers_of_a_run_do_not_depend_on_batches(
    batch_size: int, max_live: int | None, tmp_path: Path
) -> None:
    stream = events(games(6, 3, 20))
    expected: list[float] = []
    hedges = {key: HedgedCalibrator() for key in "ab"}
    tickets: dict[Any, Any] = {}
    for event in stream:
        if math.isnan(event.score):
            key, score, ticket = tickets[event.id]
            hedges[key].learn_one(score, event.y, ticket=ticket)
        else:
            answer, ticket = hedges[event.key].serve_one(event.score)
            tickets[event.id] = event.key, event.score, ticket
            expected.append(answer)
    found: list[float] = []
    with Store(tmp_path / "s.db") as store:
        while store.offset < len(stream):  # each batch is committed, with a burst that is open
            keyed = KeyedCalibrator(HedgedCalibrator(), max_live=max_live, store=store)
            stop = partial(next, iter([False, True]))
            sink = partial(collect, found)
            run(stream, keyed, sink, store, batch_size=batch_size, join=LabelJoin(), stop=stop)
    assert found == expected


def collect(found: list[float], _: int, values: np.ndarray) -> None:
    found += values[~np.isnan(values)].tolist()


def test_a_prediction_of_another_process_leaves_a_burst_open(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), store=store)
        tickets = [keyed.serve_one("a", 0.6)[1] for _ in range(40)]
        for ticket in tickets[:20]:
            keyed.learn_one("a", 0.6, 1, ticket=ticket)
        keyed.save()
        before = store.get_bytes('key:"a"')
        keyed.predict_one("a", 0.3)
        assert not keyed.states()
        keyed.serve_one("a", 0.3)
        assert list(keyed.states().values()) != [before]
        assert list(keyed.states()) == ['key:"a"']


@pytest.mark.parametrize("closed", [True, False])
def test_what_a_copy_has_served_is_learned_though_it_learned_more_samples(closed: bool) -> None:
    """The copy learns three labels one by one; here they become a part of a larger group."""
    hedge = HedgedCalibrator()
    served = [hedge.serve_one(0.6) for _ in range(90)]
    for each in served[:3]:
        hedge.learn_one(0.6, 1, ticket=each.ticket)
    of_copy = copy.deepcopy(hedge).serve_one(0.5)
    for each in served[3:]:
        hedge.learn_one(0.6, 1, ticket=each.ticket)
    if closed:
        hedge.predict_one(0.5)
        assert of_copy.ticket is not None
        assert of_copy.ticket[0] > hedge.n_samples == 1
    hedge.learn_one(0.5, 0, ticket=of_copy.ticket)
    hedge.predict_one(0.5)
    assert hedge.n_samples == 2
    assert hedge.mean_delay >= 0.0
    assert HedgedCalibrator.from_bytes(hedge.to_bytes()).predict_one(0.5) == hedge.predict_one(0.5)
