"""Budgets of questions: never above, spread over the day, and the same answer again."""

import copy
import itertools
import math
import pickle
import sys
import threading
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamcal.decision import ReviewBudget
from streamcal.decision import budget as module
from streamcal.monitoring import AuditSampler
from tests.programs import cases
from tests.test_interruptions import check_act

DAY = 86_400.0
NOON = datetime(2026, 3, 2, 12)


def day_and_hour(t: float) -> tuple[float, float]:
    return t // DAY, min(t % DAY, math.nextafter(DAY, 0.0)) / 3600.0


class Definition:
    """The rule, from a list of all samples."""

    def __init__(self, per_day: int) -> None:
        self.per_day = per_day
        self.worths: list[float] = []
        self.samples: list[tuple[float, float, bool]] = []  # of days that were not forgotten
        self.days: set[float] = set()  # all that were seen

    def rank_and_share(self, worth: float, t: float) -> tuple[float, float]:
        """Return rank and share of a new sample; a share of 0 for a day that is forgotten."""
        day, hour = day_and_hour(t)
        last, n = self.worths[-module._WINDOW :], len(self.worths)
        equal = 1 + sum(each == worth for each in last)
        fraction = n * (5.0**0.5 - 1.0) / 2.0 % 1.0
        rank = (sum(each > worth for each in last) + fraction * equal) / (len(last) + 1)
        self.worths.append(worth)
        self.days.add(day)
        kept = sorted(self.days)[-8:]
        if day not in kept:
            return rank, 0.0
        before = [each for each in kept if each < day]
        start = min([each[:2] for each in self.samples] + [(day, hour)])

        def counted(h: int) -> int:
            return sum(d in before and int(at) == h for d, at, _ in self.samples)

        def seen(h: int) -> float:
            on_start = min(max(h + 1.0 - start[1], 0.0), 1.0)
            return sum(on_start if d == start[0] else 1.0 for d in before)

        counts, exposed = [counted(h) for h in range(24)], [seen(h) for h in range(24)]
        mean = (sum(counts) + 1.0) / (sum(exposed) + 24.0 / self.per_day)
        rates = [(n + 0.1 * mean) / (e + 0.1) for n, e in zip(counts, exposed, strict=True)]
        slack = max(mean, 1.0) if before else 1.0

        def expected(begin: float, end: float) -> float:
            return sum(
                rate * max(min(end, h + 1.0) - max(begin, h), 0.0) for h, rate in enumerate(rates)
            )

        today = [each for each in self.samples if each[0] == day]
        here = sum(int(each[1]) == int(hour) for each in today)
        begin = start[1] if start[0] == day else 0.0
        hour_begin = max(int(hour), begin)
        so_far = expected(begin, hour_begin)
        factor = (len(today) - here + slack) / (so_far + slack)
        mean_hour = expected(hour_begin, int(hour) + 1)
        if here / factor <= mean_hour:
            rest = mean_hour - here / factor + expected(int(hour) + 1, 24.0)
        else:
            factor = (len(today) + slack) / (expected(begin, hour) + slack)
            rest = expected(hour, 24.0)
        return rank, (self.per_day - sum(each[2] for each in today)) / (rest * factor + 1.0)

    def add(self, t: float, ask: bool) -> None:
        """Add the sample that was just ranked."""
        if t // DAY in sorted(self.days)[-8:]:
            self.samples.append((*day_and_hour(t), ask))


def check(budget: ReviewBudget, samples: list[tuple[float, float]]) -> None:
    """Compare the answers of a budget with the definition."""
    definition = Definition(budget.per_day)
    for i, (worth, t) in enumerate(samples):
        ask = budget.ask_one(i, worth, t=t)
        rank, share = definition.rank_and_share(worth, t)
        if abs(rank - share) > 1e-9:
            assert ask == (rank < share), i
        definition.add(t, ask)


@given(
    per_day=st.integers(1, 5),
    samples=st.lists(
        st.tuples(st.sampled_from([0.0, 0.1, 0.5, 2.0]) | st.floats(-1.0, 1.0), st.floats(-2, 12)),
        max_size=60,
    ),
    sort=st.booleans(),
)
def test_answers_are_those_of_the_definition(per_day: int, samples: Any, sort: bool) -> None:
    if sort:
        samples = sorted(samples, key=lambda sample: sample[1])
    check(ReviewBudget(per_day), [(worth, day * DAY) for worth, day in samples])


@pytest.mark.parametrize("window", [50, 1_000])
def test_long_streams_have_the_answers_of_the_definition(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WINDOW", window)
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.3, 11.0, 700)) * DAY + rng.normal(0.0, 3600.0, 700)
    check(ReviewBudget(7), list(zip(rng.random(700), times.tolist(), strict=True)))


@given(
    per_day=st.integers(1, 4),
    times=st.lists(st.floats(0.0, 20.0) | st.floats(3.9, 4.1), max_size=120),
    worth=st.randoms(),
)
def test_no_day_has_more_questions_in_whichever_order_its_samples_come(
    per_day: int, times: list[float], worth: Any
) -> None:
    budget, asked = ReviewBudget(per_day, remember=1), Counter[float]()
    for i, day in enumerate(times):
        asked[day * DAY // DAY] += budget.ask_one(i, worth.random(), t=day * DAY)
        if i % 7 == 3:
            budget = ReviewBudget.from_bytes(budget.to_bytes())
    assert max(asked.values(), default=0) <= per_day
    assert budget.n_asked == asked.total()


def traffic(n_days: int, per_day: int, seed: int = 0) -> list[tuple[int, float]]:
    """Return days and times of a stream that is busy at noon and quiet at night."""
    rng, found = np.random.default_rng(seed), []
    by_hour = 1.1 - np.cos(2.0 * np.pi * np.arange(24) / 24.0)
    for day in range(n_days):
        counts = rng.poisson(per_day * by_hour / by_hour.sum())
        hours = np.sort(np.repeat(np.arange(24), counts) + rng.random(counts.sum()))
        found += [(day, DAY * day + 3600.0 * hour) for hour in hours.tolist()]
    return found


@pytest.mark.parametrize("kind", ["uniform", "equal", "votes"])
def test_questions_are_spread_over_the_samples_of_a_day(kind: str) -> None:
    rng, budget = np.random.default_rng(1), ReviewBudget(per_day=50)
    draw = {
        "uniform": rng.random,
        "equal": lambda: 0.5,
        "votes": lambda: min(votes := rng.binomial(5, 0.5), 5 - votes) / 5.0,
    }[kind]
    asks: dict[int, list[bool]] = {}
    for i, (day, t) in enumerate(traffic(12, 1_000)):
        asks.setdefault(day, []).append(budget.ask_one(i, draw(), t=t))
    for day in range(3, 12):
        used = np.cumsum(asks[day])
        assert 45 <= used[-1] <= 50
        come = np.arange(1, len(used) + 1) / len(used)
        assert np.abs(used / 50.0 - come).max() < 0.25


def test_the_samples_that_are_worth_most_are_asked() -> None:
    rng, budget = np.random.default_rng(2), ReviewBudget(per_day=50)
    found: dict[int, list[tuple[float, bool]]] = {}
    for i, (day, t) in enumerate(traffic(6, 1_000)):
        worth = rng.random()
        found.setdefault(day, []).append((worth, budget.ask_one(i, worth, t=t)))
    for day in range(2, 6):
        worths, asked = map(np.array, zip(*found[day], strict=True))
        assert worths[asked].sum() > 0.95 * np.sort(worths)[-50:].sum()


@given(worths=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40), greater=st.floats(0.0, 1.0))
def test_a_greater_worth_is_asked_where_a_less_one_is(worths: list[float], greater: float) -> None:
    budget = ReviewBudget(per_day=3)
    for i, worth in enumerate(worths):
        twin = copy.deepcopy(budget)
        if budget.ask_one(i, worth, t=1800.0 * i):
            assert twin.ask_one(i, worth + greater, t=1800.0 * i)


def test_who_has_fewer_samples_than_questions_is_asked_about_all() -> None:
    budget = ReviewBudget(per_day=200)
    asks = [budget.ask_one(i, i % 7, t=3600.0 * i) for i in range(24 * 5)]
    assert all(asks)


def test_a_first_sample_is_asked_about() -> None:
    for hour in range(24):
        assert ReviewBudget(per_day=1).ask_one("a", 0.1, t=datetime(2026, 5, 1, hour))


def test_what_is_left_is_not_carried_over() -> None:
    budget = ReviewBudget(per_day=10)
    for day in range(5):
        budget.ask_one(("quiet", day), 0.5, t=DAY * day)
    asks = [budget.ask_one(i, 0.5, t=5 * DAY + 60.0 * i) for i in range(1_440)]
    assert sum(asks) == 10


def test_a_quiet_weekend_uses_its_budget() -> None:
    rng, budget = np.random.default_rng(3), ReviewBudget(per_day=30)
    asks: Counter[int] = Counter()
    for i, (day, t) in enumerate(traffic(14, 1_000)):
        if day % 7 < 5 or rng.random() < 0.3:
            asks[day] += budget.ask_one(i, rng.random(), t=t)
    assert all(asks[day] >= 26 for day in range(2, 14))


def test_a_stream_that_begins_at_noon_is_paced_in_the_second_morning() -> None:
    """The first morning was not without samples: it was not seen."""
    rng, budget = np.random.default_rng(4), ReviewBudget(per_day=50)
    used = Counter[tuple[int, bool]]()
    for i in range(1_000, 6_000):
        t = i * DAY / 2_000
        used[int(t // DAY), t % DAY < DAY / 2] += budget.ask_one(i, rng.random(), t=t)
    assert 15 <= used[1, True] <= 35
    assert 15 <= used[1, False] <= 35


def test_a_retry_has_the_same_answer_and_counts_once() -> None:
    budget = ReviewBudget(per_day=3, remember=50)
    first = [budget.ask_one(i, i / 50.0, t=NOON) for i in range(50)]
    assert 0 < sum(first) <= 3
    before = budget.to_bytes()
    assert [budget.ask_one(i, 9.0, t=NOON + timedelta(days=i)) for i in range(50)] == first
    assert budget.ask_one(7.0, 0.1, t=NOON) == first[7]  # an equal key
    assert budget.to_bytes() == before
    budget.ask_one("new", 0.4, t=NOON)
    budget.ask_one(0, 0.4, t=NOON)  # forgotten by now
    assert budget.n_samples == 52


_KEYS = itertools.count()


def fill(budget: ReviewBudget, t: Any) -> int:
    """Return how many questions there are about 50 samples, each worth more than those before."""
    keys = itertools.islice(_KEYS, 50)
    return sum(budget.ask_one(key, float(key), t=t) for key in keys)


LAST = timedelta(microseconds=1)


@pytest.mark.parametrize("zone", [None, UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")])
def test_a_day_is_that_which_a_datetime_shows(zone: Any) -> None:
    midnight, budget = datetime(2026, 6, 1, tzinfo=zone), ReviewBudget(per_day=2)
    last = (midnight.replace(tzinfo=None) - LAST).replace(tzinfo=zone)
    assert [fill(budget, t) for t in (last, last, midnight, midnight)] == [2, 0, 2, 0]


def test_days_with_another_number_of_hours_have_the_same_budget() -> None:
    zone, budget = ZoneInfo("Europe/Berlin"), ReviewBudget(per_day=2)
    for day in (date(2026, 3, 29), date(2026, 10, 25)):
        start = datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)
        n_hours = {3: 23, 10: 25}[day.month]
        asked = [fill(budget, (start + timedelta(hours=i)).astimezone(zone)) for i in range(-1, 26)]
        assert asked[0] == 2
        assert sum(asked[1 : 1 + n_hours]) == 2
        assert asked[1 + n_hours] == 2


def test_zones_may_differ() -> None:
    """Each sample counts to the day that it shows."""
    budget, east = ReviewBudget(per_day=2), timezone(timedelta(hours=9))
    t = datetime(2026, 6, 1, 20, tzinfo=UTC)
    assert [fill(budget, each) for each in (t.astimezone(east), t, t.astimezone(east))] == [2, 2, 0]


def test_times_may_be_of_numpy_and_pandas() -> None:
    budget = ReviewBudget(per_day=2)
    times = [np.datetime64("2026-06-01T23:59:59"), pd.Timestamp("2026-06-01 10:00")]
    assert [
        fill(budget, t) for t in (*times, datetime(2026, 6, 1), np.datetime64("2026-06-02"))
    ] == [2, 0, 0, 2]


def test_seconds_have_days_in_utc() -> None:
    budget = ReviewBudget(per_day=2)
    for t in (1.7e9 // DAY * DAY, -DAY, -1e-300, 0.0, 1e300, -1e300):
        assert fill(budget, t) == (0 if t == -1e-300 else 2)


def test_a_sample_of_yesterday_counts_to_yesterday() -> None:
    budget, midnight = ReviewBudget(per_day=5), datetime(2026, 6, 2)
    late = midnight - timedelta(minutes=1)
    assert sum(budget.ask_one(("a", i), 1.0, t=late) for i in range(3)) == 3
    today = fill(budget, midnight)
    assert 0 < today <= 5
    assert fill(budget, late) == 2
    assert today + fill(budget, midnight + timedelta(hours=23)) == 5


def test_a_time_far_ahead_does_not_end_the_questions() -> None:
    budget = ReviewBudget(per_day=5)
    assert fill(budget, datetime(2126, 6, 2)) == 5
    assert [fill(budget, NOON + timedelta(days=i)) for i in range(20)] == [5] * 20


def test_days_that_may_be_forgotten_have_no_questions() -> None:
    budget = ReviewBudget(per_day=5)
    assert [fill(budget, DAY * i) for i in (20, 3, *range(11, 17))] == [5] * 8
    assert fill(budget, DAY * 18) == 5  # the day 3 is forgotten
    before = budget.n_samples
    assert [fill(budget, DAY * i) for i in (3, 4, 10)] == [0, 0, 0]
    assert budget.n_samples == before + 150
    assert fill(budget, DAY * 13) == 0
    assert fill(budget, DAY * 19) == 5


def test_a_question_is_counted_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a worth, an answer and a day make room, too."""
    monkeypatch.setattr(module, "_WINDOW", 5)
    budget = ReviewBudget(2, remember=3)
    for i in range(10):
        budget.ask_one(i, i % 4, t=DAY * i)
    for day in (1, 10):

        def ask(_: Any, twin: ReviewBudget, held: list[Any], day: int = day) -> None:
            twin.ask_one("new", 2.0, t=DAY * day)

        check_act(cases()[ReviewBudget], ask, budget, [])


def test_labels_of_a_budget_and_of_audits_average_to_all() -> None:
    """With the propensity 1 of what the budget asks, as the page about some labels says."""
    rng, excess, variance = np.random.default_rng(5), 0.0, 0.0
    for draw in range(20):
        budget, sampler = ReviewBudget(per_day=30), AuditSampler(0.1, secret=str(draw))
        for i, p in enumerate(rng.beta(0.5, 0.5, 1_000).tolist()):
            asked = budget.ask_one(i, min(p, 1.0 - p), t=300.0 * i)
            ask, propensity = (True, 1.0) if asked else sampler.audit_one(i, p)
            y = rng.random() < p
            excess += y * (ask / propensity - 1.0)
            variance += y * (1.0 / propensity - 1.0)
    assert abs(excess) < 3.0 * math.sqrt(variance)


def test_no_thread_asks_above_the_budget() -> None:
    budget, asked = ReviewBudget(per_day=20), []
    before = sys.getswitchinterval()

    def ask(thread: int) -> None:
        rng = np.random.default_rng(thread)
        for i in range(500):
            t = DAY * (i // 100) + 600.0 * (i % 100)
            asked.append((t // DAY, budget.ask_one((thread, i), rng.random(), t=t)))
            if i % 50 == 0:
                copied = pickle.loads(pickle.dumps(budget))
                assert len(copied._worths) == min(copied.n_samples, 1_000)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert budget.n_samples == len(asked) == 2_000
    assert budget.n_asked == sum(ask for _, ask in asked)
    counts = Counter(day for day, ask in asked if ask)
    assert max(counts.values()) <= 20


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 30), st.floats(0.0, 1.0), st.floats(0.0, 12.0)), max_size=40
    ),
    cut=st.integers(0, 20),
)
def test_bytes_pickles_and_copies_go_on_alike(steps: Any, cut: int) -> None:
    whole, other = (ReviewBudget(3, remember=10) for _ in range(2))
    for i, (key, worth, day) in enumerate(steps):
        if i == cut:
            other = ReviewBudget.from_bytes(other.to_bytes())
        if i == 2 * cut:
            other = pickle.loads(pickle.dumps(other))
        if i == 3 * cut:
            other = copy.deepcopy(other)
        t = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
        assert whole.ask_one(key, worth, t=t) == other.ask_one(key, worth, t=t)
    assert whole.to_bytes() == other.to_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"per_day": 0}, "`per_day` must be a positive int, got 0"),
        ({"per_day": 2.5}, "`per_day` must be a positive int, got 2.5"),
        ({"per_day": "200"}, "`per_day` must be a positive int"),
        ({"remember": 0}, "`remember` must be a positive int, got 0"),
    ],
)
def test_bad_parameters_are_named(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ReviewBudget(**{"per_day": 3, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": []}, "`key` must be text, a number or a tuple"),
        ({"key": "\ud83d\ude00"}, "`key` must have no surrogate pairs"),
        ({"worth": math.nan}, "`worth` must be a finite number, got nan"),
        ({"worth": math.inf}, "`worth` must be a finite number, got inf"),
        ({"worth": "0.5"}, "`worth` must be a number"),
        ({"worth": None}, "`worth` must be a number"),
        ({"t": None}, "`t` must be the time of a sample, since a budget is of a day; pass t="),
        ({"t": "noon"}, "`t` must be a datetime or a number of seconds, got 'noon'"),
        ({"t": date(2026, 3, 2)}, "`t` must be a datetime or a number of seconds"),
        ({"t": pd.NaT}, "`t` must be"),
        ({"t": math.nan}, "`t` must be a datetime or a finite number of seconds, got nan"),
        ({"t": NOON.replace(tzinfo=UTC)}, "`t` must have times of one kind, datetimes without"),
        ({"t": 60.0}, "`t` must have times of one kind, datetimes without"),
    ],
)
def test_what_is_refused_changes_nothing(arguments: Any, message: str) -> None:
    budget = ReviewBudget(3)
    budget.ask_one("a", 0.3, t=NOON)
    before = budget.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        budget.ask_one(**{"key": "b", "worth": 0.5, "t": NOON, **arguments})
    assert budget.to_bytes() == before


def test_a_time_is_needed() -> None:
    with pytest.raises(TypeError, match="'t'"):
        ReviewBudget(3).ask_one("a", 0.5)


def test_parameters_may_be_of_numpy() -> None:
    budget = ReviewBudget(np.int64(7))
    assert ReviewBudget.from_bytes(budget.to_bytes()).per_day == 7
