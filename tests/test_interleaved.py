"""Alarms with late labels, and rows that share an outcome: nobody gains, whoever stops when."""

import copy
import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import expit

from streamcal.kernels.bets import Bets
from streamcal.monitoring import CalibrationTest
from streamcal.monitoring.fixed_bets import all_bets
from tests.test_monitoring import factors, slow_values

HORIZONS = st.integers(1, 4)
CHANCES = st.one_of(st.sampled_from([0.1, 0.7, 1e-9]), st.floats(1e-9, 1.0 - 1e-9))
WEIGHTS = st.sampled_from([1.0, 0.3])
# Probability, label, weight, and how many further predictions come before the label.
LATE = st.lists(st.tuples(CHANCES, st.booleans(), WEIGHTS, st.integers(0, 6)), max_size=12)


def interleaved(horizon: int, **given_: Any) -> CalibrationTest:
    return CalibrationTest(order="interleaved", horizon=horizon, **given_)


def slow_mean(samples: list[Any], known: set[int], horizon: int) -> float:
    """Return the mean of the products after predictions; ``known`` labels came in time."""
    total = 0.0
    for k in range(horizon):
        path: list[Any] = []
        value = 1.0
        for number in range(k, len(samples), horizon):
            p, happened, w, _ = samples[number]
            values = [slow_values([*path, (p, label, w)])[0] for label in (False, True)]
            label = bool(np.argmin(values))
            if number in known and number + horizon <= len(samples):
                label = happened
            else:  # which label is worse must not be a matter of rounding errors
                assume(abs(values[0] - values[1]) > 1e-7 * values[0])
            path.append((p, label, w))
            value = values[label]
        total += value
    return total / horizon


@given(LATE, HORIZONS)
def test_values_by_their_definition(samples: list[Any], horizon: int) -> None:
    test, known, largest = interleaved(horizon), set[int](), 1.0
    for n, (p, _, w, _) in enumerate(samples):
        assert test.add_prediction(p, w) == n
        largest = max(largest, slow_mean(samples[: n + 1], known, horizon))
        for number, (_, label, _, delay) in enumerate(samples[: n + 1]):
            if number + delay != n:
                continue
            test.add_label(label, number)
            if delay < horizon:
                known.add(number)
        value = slow_mean(samples[: n + 1], known, horizon)
        largest = max(largest, value)
        assert test.log_e_value == pytest.approx(math.log(value), abs=1e-8)
    assert test.p_value == pytest.approx(1.0 / largest, rel=1e-8)
    overdue = [t for t in range(len(samples) - horizon) if samples[t][3] >= horizon]
    assert test.n_late == len(overdue)
    assert test.n_samples == len(samples)


@given(LATE, HORIZONS)
def test_only_predictions_have_an_order(samples: list[Any], horizon: int) -> None:
    """Labels within the horizon may come in any order; held ones, in a table, are the same."""
    if not samples:
        return
    table, many, late, reverse = (interleaved(horizon) for _ in range(4))
    p, happened, w, _ = zip(*samples, strict=True)
    many.update_many(np.array(happened), p, w)
    for n, (score, label, weight, _) in enumerate(samples):
        table.update(label, score, weight)
        late.add_prediction(score, weight)
        reverse.add_prediction(score, weight)
        if n + 1 >= horizon:
            late.add_label(happened[n + 1 - horizon], n + 1 - horizon)
        reverse.add_label(label, n)
        assert table.log_e_value == late.log_e_value == reverse.log_e_value
    for number in range(max(len(samples) + 1 - horizon, 0), len(samples))[::-1]:
        late.add_label(happened[number], number)
    assert {each.to_bytes() for each in (table, many, late, reverse)} == {table.to_bytes()}


@given(LATE)
def test_the_least_horizon_is_the_order_of_arrival(samples: list[Any]) -> None:
    arrival, alone = CalibrationTest(), interleaved(1)
    for p, label, w, _ in samples:
        for each in (arrival, alone):
            each.update(label, p, w)
        assert arrival.log_e_value == alone.log_e_value
        assert arrival.p_value == alone.p_value
    assert arrival._bets.since() == alone._bets.since()


def e_value(test: CalibrationTest) -> float:
    return math.exp(test.log_e_value)


def best_by_stopping(test: CalibrationTest, p: list[float], *, knows: bool) -> float:
    """Return the greatest mean e-value at which one may stop, where two samples share a draw.

    Whoever ``knows`` sees the first label of a pair before the second prediction is made.
    """
    if not p:
        return e_value(test)
    go_on, first = 0.0, 0.0
    for label, chance in ((True, p[0]), (False, 1.0 - p[0])):
        twin = copy.deepcopy(test)
        twin.update(label, p[0])
        first = e_value(twin)
        twin.update(label, p[0])
        best = best_by_stopping(twin, p[1:], knows=knows)
        go_on += chance * (max(first, best) if knows else best)
    return max(e_value(test), go_on if knows else max(first, go_on))


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=4))
def test_nobody_gains_by_stopping(p: list[float]) -> None:
    assert best_by_stopping(interleaved(2), p, knows=False) <= 1.0 + 1e-9


def test_somebody_gains_in_the_order_of_arrival() -> None:
    assert best_by_stopping(CalibrationTest(), [0.5] * 3, knows=True) > 1.1


def best_if_one_label_never_comes(
    test: CalibrationTest, p: list[float], never: bool, horizon: int, labels: tuple[bool, ...] = ()
) -> float:
    """Return the greatest mean e-value at which one may stop, who sees labels that are due."""
    stop = e_value(test)
    if len(labels) == len(p):
        return stop
    go_on = 0.0
    for label, chance in ((True, p[len(labels)]), (False, 1.0 - p[len(labels)])):
        twin, drawn = copy.deepcopy(test), (*labels, label)
        twin.add_prediction(p[len(labels)])
        due = len(drawn) - horizon
        if due >= 0 and drawn[due] is not never:
            twin.add_label(drawn[due], due)
        go_on += chance * best_if_one_label_never_comes(twin, p, never, horizon, drawn)
    return max(stop, go_on)


@given(st.lists(st.floats(0.05, 0.95), min_size=1, max_size=5), st.booleans())
def test_nobody_gains_where_one_label_never_comes(p: list[float], never: bool) -> None:
    assert best_if_one_label_never_comes(interleaved(1), p, never, 1) <= 1.0 + 1e-9


def blocks(rng: np.random.Generator, n: int, length: int) -> tuple[Any, Any]:
    """Return right forecasts; the labels of a block are those of one uniform draw."""
    p = expit(rng.normal(size=n))
    return p, np.repeat(rng.random(-(-n // length)), length)[:n] < p


def test_labels_that_share_a_draw() -> None:
    rng, n_alarms, n_others = np.random.default_rng(0), 0, 0
    for _ in range(20):
        p, y = blocks(rng, 1_000, 8)
        test, arrival = interleaved(8), CalibrationTest()
        test.update_many(y, p)
        arrival.update_many(y, p)
        n_alarms += test.rejected
        n_others += arrival.rejected
    assert n_alarms <= 2
    assert n_others >= 5


def test_wrong_probabilities_are_found() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=4_000)
    y = rng.random(4_000) < expit(np.where(np.arange(4_000) < 800, z, z + 1.0))
    test = interleaved(4)
    test.update_many(y[:800], expit(z[:800]))
    assert test.p_value > 0.05
    test.update_many(y[800:], expit(z[800:]))
    assert test.rejected
    assert test.since is not None
    assert abs(test.since - 800) < 300


def test_impossible_labels() -> None:
    test = interleaved(3)
    for label, p in ((False, 0.0), (True, 1.0), (True, 0.0), (False, 0.3), (False, 0.2)):
        test.update(label, p)
    assert test.log_e_value == math.inf
    assert (test.p_value, test.rejected, test.since) == (0.0, True, 0)


def test_memory_is_that_of_the_horizon() -> None:
    test = interleaved(5)
    for number in range(200):
        test.add_prediction(0.3)
        if number % 3:
            test.add_label(True, number)
    size = len(test.to_bytes())
    test.update_many([True] * 100, [0.3] * 100)
    assert abs(len(test.to_bytes()) - size) < 200


# Rows that share an outcome -----------------------------------------------------------------------


@given(LATE, st.lists(CHANCES, min_size=1, max_size=5), st.sampled_from([1.0, 0.4]), st.booleans())
def test_a_group_by_its_definition(
    samples: list[Any], rows: list[float], w: float, label: bool
) -> None:
    """A stake of each beginning is multiplied by powers of all ratios; one sample is counted."""
    test, bets = CalibrationTest(), Bets(*all_bets(), True)
    for p, happened, weight, _ in samples:
        test.update(happened, p, weight)
        bets.update(p, happened, weight)
    largest = test.p_value
    test.update_group(label, rows, w)
    assert test.n_samples == len(samples) + 1
    # Stakes and what is left, from the state of a test that gets a sample on which nothing is won.
    bets.update(0.5, True, 1e-12)
    stakes, (_, left, _, _) = bets.state()
    _, prior = all_bets()
    gains = np.prod([factors(p, label, w / len(rows)) for p in rows], axis=0)
    value = math.log(float(prior @ (stakes[:, 0] * gains)) + left)
    assert test.log_e_value == pytest.approx(value, abs=1e-8)
    assert test.p_value == pytest.approx(min(largest, math.exp(-value)))


@given(st.lists(CHANCES, min_size=1, max_size=5), st.sampled_from([1.0, 0.4]))
def test_groups_are_fair(chances: list[float], w: float) -> None:
    """One draw decides all rows, each of which is right: then no bet gains in the mean."""
    for order, p in (("nested", chances), ("equal", chances[:1] * 3)):
        bounds = sorted({0.0, *p, 1.0})
        mean = 0.0
        for low, high in itertools.pairwise(bounds):
            happened = np.array([low < each for each in p], dtype=np.float64)
            bets = Bets(*all_bets(), True)
            bets.update_group(np.array(p), happened, w)
            mean += (high - low) * math.exp(bets.log_value())
        assert mean <= 1.0 + 1e-9, order


@pytest.mark.parametrize("given_", [{}, {"order": "interleaved", "horizon": 3}])
def test_a_group_of_one_row_is_a_sample(given_: Any) -> None:
    rows, alone = CalibrationTest(**given_), CalibrationTest(**given_)
    for label, p in ((True, 0.3), (False, 0.9), (True, 0.2), (True, 0.4)):
        rows.update_group(label, [p, None, {}], 0.5)
        alone.update(label, p, 0.5)
    rows.update_group(True, [])
    assert rows.to_bytes() == alone.to_bytes()


def test_part_of_a_group_is_not_looked_at() -> None:
    """Its first row alone is worth more than all, by a power that nobody may stop at."""
    rows = [5e-9, 0.77, 0.873]
    test, part = CalibrationTest(), CalibrationTest()
    test.update_group(True, rows)
    part.update(True, rows[0], 1.0 / 3.0)
    assert part.log_e_value > test.log_e_value + 0.05
    assert test.p_value == math.exp(-test.log_e_value)


def test_groups_wait_as_samples_do() -> None:
    test, rng = interleaved(3), np.random.default_rng(4)
    for number in range(40):
        test.update_group(bool(rng.random() < 0.3), [0.3] * (number % 4 + 1))
        copied = CalibrationTest.from_bytes(test.to_bytes())
        assert copied.to_bytes() == test.to_bytes()
        assert copied.log_e_value == test.log_e_value
    test.update_many([True] * 3, [0.5] * 3)
    copied.update_many([True] * 3, [0.5] * 3)
    assert copied.to_bytes() == test.to_bytes()


# Labels, copies, errors ---------------------------------------------------------------------------


def test_labels_and_dicts() -> None:
    named, top, plain = interleaved(2, pos_val="spam"), interleaved(2, pos_val=None), interleaved(2)
    for label, p in (("spam", 0.9), ("ham", 0.6), ("spam", 0.7), ("eggs", 0.8)):
        shares = {"spam": p, "ham": 1.0 - p}
        for each in (named, top):
            each.add_label(label, each.add_prediction(shares))
        plain.update(label == "spam", p)
        assert named.log_e_value == top.log_e_value == plain.log_e_value
    waiting = top.add_prediction({("a", 1): 0.9, "b": 0.1})
    twin = pickle.loads(pickle.dumps(top))
    for each in (top, twin):
        each.add_label("b", each.add_prediction({"b": 0.4, "a": 0.6}))
        each.update_group("b", [{"b": 0.4, "a": 0.6}, {"b": 0.7, "a": 0.3}, {"c": 1.0}])
    assert top.to_bytes() == twin.to_bytes()
    assert top.n_late == 1
    top.add_label(("a", 1), waiting)
    assert top.to_bytes() == twin.to_bytes()
    before = top.n_samples
    assert top.add_prediction({}) is None
    top.add_label("b", None)
    top.update("b", None)
    assert top.n_samples == before


@pytest.mark.parametrize("n", [0, 2, 3, 4, 50])
def test_copies_go_on(n: int) -> None:
    one, rng = interleaved(4, alpha=0.2), np.random.default_rng(n)

    def go_on(test: CalibrationTest, p: list[float]) -> None:
        for score in p:
            number = test.add_prediction(score, 0.5 if score < 0.2 else 1.0)
            assert number is not None
            if number >= 2 and number % 7:
                test.add_label(number % 3 == 0, number - 2)

    go_on(one, rng.random(n).tolist())
    twins = [pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
    twins.append(CalibrationTest.from_bytes(one.to_bytes()))
    assert {each.log_e_value for each in twins} == {one.log_e_value}
    rest = rng.random(20).tolist()
    for each in (one, *twins):
        go_on(each, rest)
    assert {each.to_bytes() for each in twins} == {one.to_bytes()}
    assert {each.n_late for each in twins} == {one.n_late}


def test_independent_parts_are_multiplied() -> None:
    one, other = interleaved(3), CalibrationTest()
    one.update_many([True] * 20, [0.3] * 20)
    other.update_many([True] * 9, [0.4] * 9)
    before, factor = one.log_e_value, other.log_e_value
    swapped = copy.deepcopy(other)
    swapped.merge(one)
    one.merge(other)
    assert one.log_e_value == pytest.approx(before + factor)
    assert swapped.log_e_value == pytest.approx(before + factor)
    assert one.p_value == pytest.approx(math.exp(-before - factor))
    twin = pickle.loads(pickle.dumps(one))
    for each in (one, twin):
        each.update(False, 0.3)
    assert one.log_e_value == twin.log_e_value
    one.reset()
    assert one.to_bytes() == interleaved(3).to_bytes()


@pytest.mark.parametrize(
    ("order", "horizon"),
    [
        ("interleaved", None),
        ("interleaved", 0),
        ("interleaved", 10_001),
        ("interleaved", 2.0),
        ("interleaved", True),
        ("arrival", 1),
        ("late", 1),
    ],
)
def test_bad_parameters(order: str, horizon: Any) -> None:
    with pytest.raises(ValueError, match=r"`(order|horizon)` must be"):
        CalibrationTest(order=order, horizon=horizon)


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("add_prediction", (1.5,), "`y_pred` must"),
        ("add_prediction", (math.nan,), "`y_pred` must"),
        ("add_prediction", (0.5, 1.5), "`w` must lie in"),
        ("add_label", (None, 1), "`y_true` must"),
        ("add_label", (math.nan, 1), "`y_true` must"),
        ("add_label", ("spam", 1), "`pos_val` must"),
        ("add_label", (True, 2), "`number` must be of a prediction that was added"),
        ("add_label", (True, -1), "`number` must be"),
        ("add_label", (True, 0.5), "`number` must be"),
        ("add_label", (True, 0), "`number` must be of a prediction without a label"),
        ("update", (True, 1.5), "`y_pred` must"),
        ("update", (None, 0.5), "`y_true` must"),
        ("update", (True, 0.5, 2.0), "`w` must lie in"),
        ("update_many", ([True, False], [0.5, 1.5]), "must"),
        ("update_many", ([True], [0.5], [2.0]), "`w` must lie in"),
        ("update_group", (True, [0.5, 1.5]), "`y_pred` must"),
        ("update_group", (None, [0.5]), "`y_true` must"),
        ("update_group", ("spam", [0.5]), "`pos_val` must"),
        ("update_group", (True, [0.5], 0.0), "`w` must lie in"),
        ("update_group", (True, 0.5), "`y_preds` must be a sequence"),
        ("update_group", (True, {True: 0.5}), "`y_preds` must be a sequence"),
    ],
)
@pytest.mark.parametrize("horizon", [None, 3])
def test_bad_samples_change_nothing(
    horizon: int | None, name: str, given_: Any, message: str
) -> None:
    test = CalibrationTest() if horizon is None else interleaved(horizon)
    test.update(True, 0.3)
    if horizon is not None:
        test.add_prediction(0.4)
    elif name.startswith("add"):
        message = "`order` must be 'interleaved'"
    before = test.to_bytes()
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(test, name)(*given_)
    assert test.to_bytes() == before


def test_kernels_check_their_groups() -> None:
    for p, happened in (([0.5], [1.0, 0.0]), ([], [])):
        with pytest.raises(ValueError, match="there must be rows"):
            Bets(*all_bets(), True).update_group(np.array(p), np.array(happened), 1.0)
