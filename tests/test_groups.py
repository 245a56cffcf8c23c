"""Rows that share an outcome: a group counts as one sample."""

import math
import pickle
from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, linear_model

from streamcal import (
    CalibratedClassifier,
    HedgedCalibrator,
    IdentityCalibrator,
    IsotonicCalibrator,
    PlattCalibrator,
    TemperatureCalibrator,
)
from streamcal._state import decode, encode
from streamcal.calibration import Calibrator
from streamcal.calibration.hedged import DEFAULT_PRIOR, default_calibrators
from tests.fixed_model import FixedModel
from tests.oracles_hedged import group_mixtures, log_likelihood
from tests.test_hedged import Picky, members, scripted

SHARES = (0.0, 0.001, 0.01)
Group = tuple[np.ndarray, np.ndarray]


def games(sizes: Any, seed: int = 0) -> list[Group]:
    """Scores that are right about the game, and its outcome for each row."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.2, 0.8, len(sizes))
    won = (rng.uniform(size=len(sizes)) < p).astype(float)
    parts = zip(p, won, sizes, strict=True)
    return [((p + rng.uniform(-0.1, 0.1, m)), np.full(m, y)) for p, y, m in parts]


def serve(hedge: HedgedCalibrator, groups: list[Group], late: int = 0) -> list[np.ndarray]:
    """Return what is served for each group; its labels come after ``late`` other groups."""
    served: list[np.ndarray] = []
    waiting: deque[Any] = deque()
    for scores, y in groups:
        answers = [hedge.serve_one(score) for score in scores.tolist()]
        served.append(np.array([answer for answer, _ in answers]))
        waiting.append((scores, y, [ticket for _, ticket in answers]))
        if len(waiting) > late:
            scores, y, tickets = waiting.popleft()
            hedge.learn_group(scores, y, tickets=tickets)
    return served


def loss(p: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log loss."""
    return -math.fsum(map(log_likelihood, p.tolist(), y.tolist())) / len(y)


def test_groups_are_mixed_as_the_formula_says() -> None:
    groups = games([3, 40, 1, 17, 5, 60, 2, 30] * 3)
    served = serve(hedge := HedgedCalibrator(), groups)
    calibrators, answers = default_calibrators(), []
    for scores, y in groups:
        answers.append(np.column_stack([c.predict_many(scores) for c in calibrators]))
        for calibrator in calibrators:
            calibrator.learn_many(scores, y, np.full(len(y), 1.0 / len(y)))
    labelled = [(each, y) for each, (_, y) in zip(answers, groups, strict=True)]
    expected = group_mixtures(labelled, SHARES, DEFAULT_PRIOR, raw=0)
    assert served[0].tolist() == groups[0][0].tolist()
    for a, b in zip(served[1:], expected[1:], strict=True):
        assert a == pytest.approx(b, rel=1e-9)
    assert hedge.n_samples == len(groups)
    assert hedge.mean_delay == 0.0


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_mean_losses_of_groups_are_within_the_bound(n_calibrators: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, 12)
    answers = rng.choice([0.0, 0.01, 0.3, 0.6, 1.0], size=(sizes.sum(), n_calibrators))
    y = rng.integers(0, 2, sizes.sum()).astype(float)
    hedge, scores = scripted(np.vstack([answers[:1], answers]))
    hedge.learn_one(0.0, 0.5, 1e-60)  # the first sample of all is served as it is
    ends = np.cumsum(sizes)
    groups = [(scores[a + 1 : b + 1], y[a:b]) for a, b in zip(ends - sizes, ends, strict=True)]
    served = serve(hedge, groups)
    total = math.fsum(loss(p, labels) for p, (_, labels) in zip(served, groups, strict=True))
    losses = [
        math.fsum(loss(column[a:b], y[a:b]) for a, b in zip(ends - sizes, ends, strict=True))
        for column in answers.clip(1e-6, 1.0 - 1e-6).T
    ]
    assert total <= min(losses) + math.log(n_calibrators) + math.log(3.0) + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_games_of_a_thousand_rows_do_no_harm(seed: int) -> None:
    """The raw score is right; the first games seem to say that one outcome always comes."""
    groups = games([1_000] * 6, seed)
    scores, y = map(np.concatenate, zip(*groups, strict=True))
    served = np.concatenate(serve(HedgedCalibrator(), groups))
    assert loss(served, y) <= loss(scores, y) - math.log(1.0 - 1_000**-0.5) / 6.0


@pytest.mark.parametrize("late", [0, 3])
def test_a_group_of_equal_rows_is_one_sample(late: int) -> None:
    """Without the raw score, whose prior depends on the number of rows."""
    rng = np.random.default_rng(1)
    answers, y = rng.uniform(size=(60, 3)), rng.integers(0, 2, 60).astype(float)
    one, scores = scripted(answers)
    other, _ = scripted(answers)
    samples = [(scores[i : i + 1], y[i : i + 1]) for i in range(60)]
    groups = [(np.repeat(scores[i], i % 4 + 1), np.repeat(y[i], i % 4 + 1)) for i in range(60)]
    first = [p[0] for p in serve(one, samples, late)]
    assert first == pytest.approx([p[0] for p in serve(other, groups, late)], rel=1e-9)
    assert other.mean_delay == pytest.approx(one.mean_delay)
    assert other.n_samples == one.n_samples


def test_late_groups_do_no_harm() -> None:
    groups = games(np.random.default_rng(2).integers(20, 200, 150), 2)
    served, y = serve(HedgedCalibrator(), groups, late=8), [y for _, y in groups]
    raw = loss(np.concatenate([scores for scores, _ in groups]), np.concatenate(y))
    assert loss(np.concatenate(served), np.concatenate(y)) <= raw + 0.002


def test_calibrators_learn_rows_with_a_share_of_the_weight() -> None:
    hedge, alone = HedgedCalibrator([PlattCalibrator()]), PlattCalibrator()
    for scores, y in games([5, 9, 30]):
        hedge.learn_group(scores, y, 2.0)
        alone.learn_many(scores, y, np.full(len(y), 2.0 / len(y)))
    assert hedge._calibrators[0].to_bytes() == alone.to_bytes()


@pytest.mark.parametrize("ticketed", [False, True])
def test_a_group_of_one_row_is_a_sample(ticketed: bool) -> None:
    one, other = HedgedCalibrator(), HedgedCalibrator()
    for score, y in zip(np.linspace(0.1, 0.9, 30).tolist(), [0, 1] * 15, strict=True):
        ticket = one.serve_one(score)[1] if ticketed else None
        one.learn_one(score, y, 0.5, ticket=ticket)
        other.learn_group([score], [y], 0.5, tickets=[ticket] if ticketed else None)
    other.learn_group([], [])
    assert other.to_bytes() == one.to_bytes()


def test_without_tickets_the_current_predictions_count() -> None:
    one, other, third = (HedgedCalibrator() for _ in range(3))
    for scores, y in games([4, 7, 2, 9]):
        tickets = [one.serve_one(score)[1] for score in scores]
        one.learn_group(scores, y, tickets=tickets)
        other.learn_group(scores, y)
        third.learn_group(scores, y, tickets=[*tickets[:2], *[None] * (len(y) - 2)])
    assert other.to_bytes() == third.to_bytes() == one.to_bytes()


def test_tickets_from_before_the_first_late_label_are_repeated_for_each_power() -> None:
    hedge = HedgedCalibrator()
    early = [hedge.serve_one(score)[1] for score in (0.2, 0.4, 0.6)]
    hedge.learn_one(0.5, 1)
    hedge.learn_one(0.2, 0, ticket=early[0])
    hedge.learn_group([0.4, 0.6, 0.7], [1, 1, 1], tickets=[*early[1:], hedge.serve_one(0.7)[1]])
    assert hedge.n_samples == 3
    assert hedge.mean_delay == pytest.approx((1.0 + 4.0 / 3.0) / 2.0)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.5, 1.5], [0, 1]), ValueError, "`scores` must lie in"),
        (([0.5, 0.6], [0]), ValueError, r"`y` must have one value per score \(2\), got 1"),
        (([0.5, 0.6], [0, 2]), ValueError, "`y`"),
        (([0.5, 0.6], [0, 1], 0.0), ValueError, "`w` must be"),
        (([0.5, 0.6], [0, 1], 1e-60), ValueError, "`w` must be"),
        (([0.5, 0.6], [0, 1], [1.0, 1.0]), TypeError, "`w` must be"),
        (([0.5], [0], 1.0, [None, None]), ValueError, r"one per score \(1\), got 2"),
        (([0.5, 0.6], [0, 1], 1.0, 3), TypeError, "`tickets` must be a sequence of tickets, got 3"),
        (([0.5, 0.6], [0, 1], 1.0, [None, 3]), TypeError, "`tickets?` must be a"),
        (([0.5, 0.6], [0, 1], 1.0, (1, (0.5,) * 10)), TypeError, "`tickets?` must be a"),
    ],
)
def test_bad_groups_change_nothing(arguments: Any, error: Any, message: str) -> None:
    hedge = HedgedCalibrator()
    hedge.learn_group([0.1, 0.5, 0.7], [0, 1, 1])
    before = pickle.dumps(hedge)
    with pytest.raises(error, match=message):
        hedge.learn_group(*arguments[:3], tickets=arguments[3] if len(arguments) > 3 else None)
    assert pickle.dumps(hedge) == before


def test_copies_continue_as_the_hedge_does() -> None:
    groups = games([20, 3, 50, 8] * 5)
    serve(hedge := HedgedCalibrator(), groups, late=2)
    twins: list[Any] = [
        pickle.loads(pickle.dumps(hedge)),
        Calibrator.from_bytes(hedge.to_bytes()),
        hedge.clone(include_attributes=True),
    ]
    for scores, y in groups:
        for learner in (hedge, *twins):
            learner.learn_group(scores, y)
    hedge.learn_one(0.4, 1)
    for twin in twins:
        twin.learn_one(0.4, 1)
        assert twin.predict_one(0.3) == hedge.predict_one(0.3)
        assert twin.to_bytes() == hedge.to_bytes()


def test_single_samples_may_follow_groups() -> None:
    scores, y = np.tile([0.2, 0.9], 50), np.tile([0.0, 1.0], 50)
    one, many = HedgedCalibrator(), HedgedCalibrator()
    for hedge in (one, many):
        hedge.learn_group([0.3, 0.4, 0.8], [1, 1, 1])
    each = []
    for score, label in zip(scores, y, strict=True):
        each.append(one.predict_one(score))
        one.learn_one(score, label)
    assert many.predict_learn_many(scores, y) == pytest.approx(each, rel=1e-12)
    assert many.predict_one(0.4) == pytest.approx(one.predict_one(0.4), rel=1e-12)


@pytest.mark.parametrize(
    ("grouped", "n_labels", "message"),
    [(True, 2, "n_labels"), (False, 9, "only groups have several labels")],
)
def test_states_with_impossible_numbers_of_labels_are_refused(
    grouped: bool, n_labels: int, message: str
) -> None:
    hedge = HedgedCalibrator([IdentityCalibrator(), IsotonicCalibrator()])
    for _ in range(3):
        hedge.learn_group([0.3, 0.4] if grouped else [0.3], [1, 1] if grouped else [1])
    found = decode(hedge.to_bytes())
    assert found.fields["n_labels"] == (6 if grouped else 3)
    with pytest.raises(ValueError, match=message):
        Calibrator.from_bytes(
            encode(found.kind, {**found.fields, "n_labels": n_labels}, found.arrays)
        )


@pytest.mark.parametrize(
    ("refused", "learned", "counts"),
    [
        (0.2, [0, 0, 0], 0),  # the first row, by the first calibrator: nothing is learned
        (0.3, [1, 1, 1], 1),
        (0.4, [3, 2, 3], 1),
    ],
)
def test_no_row_is_learned_after_one_that_a_calibrator_refuses(
    refused: float, learned: Any, counts: int
) -> None:
    first, second = (refused, 9.0) if refused < 0.4 else (9.0, refused)
    hedge = HedgedCalibrator([Picky((first,)), Picky((second,)), IsotonicCalibrator()])
    with pytest.raises(KeyError, match=str(refused)):
        hedge.learn_group([0.2, 0.3, 0.4, 0.5], [0, 1, 1, 1])
    assert members(hedge) == learned
    assert hedge.n_samples == counts
    assert sum(hedge.weights.values()) == pytest.approx(1.0)


# Classifiers --------------------------------------------------------------------------------------


class Forecast(FixedModel):
    """Predicts the probabilities that are its features."""

    def predict_proba_one(self, x: dict[Any, float]) -> dict[Any, float]:
        return x


def matches(sizes: list[int], seed: int = 0) -> list[tuple[list[dict[Any, float]], Any]]:
    """Probabilities of a fixed model in each minute of a match, and the result."""
    rng = np.random.default_rng(seed)
    found = []
    for m in sizes:
        p = rng.dirichlet((2.0, 1.0, 1.0))
        rows = 0.7 * p + 0.3 * rng.dirichlet((9.0, 9.0, 9.0), m)
        y = ("home", "draw", "away")[rng.choice(3, p=p)]
        found.append(
            ([dict(zip(("home", "draw", "away"), row, strict=True)) for row in rows.tolist()], y)
        )
    return found


def two_labels(match: tuple[list[dict[Any, float]], Any]) -> tuple[list[dict[Any, float]], Any]:
    rows, y = match
    return [{False: 1.0 - row["home"], True: row["home"]} for row in rows], y == "home"


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize("labels", [2, 3])
def test_a_classifier_remembers_what_it_served_for_a_group(late: int, labels: int) -> None:
    """As a hedge with its tickets; with two labels the hedge is the one of True."""
    model, explicit = (CalibratedClassifier(Forecast()) for _ in range(2))
    hedge = HedgedCalibrator()
    waiting: deque[Any] = deque()
    for match in matches([3, 30, 12, 1, 20, 5] * 4):
        rows, y = two_labels(match) if labels == 2 else match
        kept = [explicit.serve_one(x) for x in rows]
        answers = [model.predict_proba_one(x) for x in rows]
        assert answers == [each.calibrated for each in kept]
        scores = [x[True if labels == 2 else "home"] for x in rows]
        tickets = [hedge.serve_one(p)[1] for p in scores]
        waiting.append((rows, y, kept, scores, tickets))
        if len(waiting) > late:
            rows, y, kept, scores, tickets = waiting.popleft()
            model.learn_group(rows, [y] * len(rows))
            explicit.learn_group(rows, [y] * len(rows), served=kept)
            hedge.learn_group(scores, [float(y in (True, "home"))] * len(rows), tickets=tickets)
    own = model.calibrators[True if labels == 2 else "home"]
    assert own.to_bytes() == hedge.to_bytes()
    if labels == 2:
        assert model.to_bytes() == explicit.to_bytes()
    for x in rows:  # a ticket holds what one-vs-rest answered but for the last digit
        found, expected = model.serve_one(x).calibrated, explicit.serve_one(x).calibrated
        assert found == pytest.approx(expected, rel=1e-12)
    assert set(model.calibrators) == ({True} if labels == 2 else {"home", "draw", "away"})
    twin = CalibratedClassifier.from_bytes(model.to_bytes(), classifier=Forecast())
    assert twin.to_bytes() == model.to_bytes()


def test_long_matches_with_three_results_do_no_harm() -> None:
    model, raw, total = CalibratedClassifier(Forecast()), 0.0, 0.0
    for rows, y in matches([400] * 8, seed=3):
        raw -= sum(math.log(x[y]) for x in rows) / 400
        total -= sum(math.log(model.predict_proba_one(x)[y]) for x in rows) / 400
        model.learn_group(rows, [y] * len(rows))
    assert total <= raw - math.log(1.0 - 400**-0.5)


@pytest.mark.parametrize("calibrator", [PlattCalibrator(), TemperatureCalibrator()])
def test_other_calibrators_learn_rows_with_a_share_of_the_weight(calibrator: Any) -> None:
    one, other = (CalibratedClassifier(Forecast(), calibrator) for _ in range(2))
    for rows, y in matches([3, 30, 12]):
        one.learn_group(rows, [y] * len(rows), 2.0)
        for x in rows:
            other.learn_one(x, y, 2.0 / len(rows))
    assert one.to_bytes() == other.to_bytes()


def count(model: CalibratedClassifier, label: Any) -> int:
    """Return how many samples the hedge of a label has learned."""
    calibrator = model.calibrators[label]
    assert isinstance(calibrator, HedgedCalibrator)
    return calibrator.n_samples


def test_labels_may_appear_within_a_group() -> None:
    model = CalibratedClassifier(Forecast())
    rows: list[dict[Any, float]] = [
        {},
        {False: 0.4, True: 0.6},
        {False: 0.3, True: 0.5, "draw": 0.2},
    ]
    for _ in range(3):
        model.learn_group(rows, [True, True, "draw"])
    assert {label: count(model, label) for label in model.calibrators} == {
        False: 3,
        True: 3,
        "draw": 3,
    }


def test_the_model_learns_each_row_with_the_weight_of_the_group() -> None:
    learner, alone = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    model = CalibratedClassifier(learner)
    for i in range(30):
        rows = [{"a": i / 30.0, "b": j / 5.0} for j in range(5)]
        model.learn_group(rows, [i > 10] * 5, 0.5)
        for x in rows:
            alone.learn_one(x, i > 10, 0.5)
    assert learner.weights == alone.weights
    assert count(model, True) == 30


def test_a_drift_detector_gets_the_error_of_each_row() -> None:
    detector = drift.ADWIN()
    model = CalibratedClassifier(Forecast(), drift_detector=detector, on_drift="reset")
    for i in range(120):
        x: dict[Any, float] = {False: 0.1, True: 0.9}
        model.learn_group([x] * 20, [i < 60] * 20)
    assert model.n_alarms > 0
    assert count(model, True) < 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([{"a": 1.0}], [True, False]), r"one value per row of `X` \(1\), got 2"),
        (([{"a": 1.0}], [True], 1.0, []), "got 1 and 0"),
        (([{"a": 1.0}], [None]), "`y`"),
        (([{"a": 1.0}], [True], 0.0), "`w`"),
        (([{"a": 1.0}] * 2, [True] * 2, 1.0, [None, {True: 2.0, False: 0.0}]), "probabilities"),
    ],
)
def test_bad_groups_teach_nothing(arguments: Any, message: str) -> None:
    learner = linear_model.LogisticRegression()
    model = CalibratedClassifier(learner)
    model.learn_group([{"a": 0.5}] * 3, [True] * 3)
    before, weights = model.to_bytes(), dict(learner.weights)
    with pytest.raises(ValueError, match=message):
        model.learn_group(*arguments[:3], served=arguments[3] if len(arguments) > 3 else None)
    assert model.to_bytes() == before
    assert dict(learner.weights) == weights


@pytest.mark.parametrize("segments", [None, ["a"]])
def test_a_wrapper_calls_learn_group_of_a_class_of_your_own(segments: list[str] | None) -> None:
    groups = []

    class Own(HedgedCalibrator):
        def learn_group(self, scores: Any, y: Any, w: float = 1.0, **given: Any) -> None:
            groups.append(len(scores))
            super().learn_group(scores, y, w, **given)

    class Model(FixedModel):
        def predict_proba_one(self, x: dict[Any, float]) -> dict[Any, float]:
            return {False: 1.0 - x["p"], True: x["p"]}

    model = CalibratedClassifier(Model(), Own(), segments=segments)
    for _ in range(2):
        model.learn_group([{"p": 0.3, "a": 1}] * 3, [True] * 3)
    assert groups == [3, 3]
    assert model.calibrators[True].n_samples == 2


def test_what_is_no_group_is_refused() -> None:
    model = CalibratedClassifier(Forecast())
    rows = [{True: 0.3, False: 0.7}] * 2
    with pytest.raises(TypeError, match=r"^`y` must have one value for each row, got True$"):
        model.learn_group(rows, True)
    with pytest.raises(TypeError, match=r"^`X` must be a sequence of features, .* got DataFrame$"):
        model.learn_group(pd.DataFrame(rows), [True] * 2)
