"""The verdict of a report: what it says is true, and chance is not reported."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from streamcal.report.table_sections import Scored, verdict_of_table
from streamcal.report.verdict import (
    LEVEL,
    Gain,
    compare,
    find_gaps,
    gain_in_words,
    reliability_in_words,
    rounded,
)


def draw(p: np.ndarray, seed: int = 0) -> np.ndarray:
    """Labels of these probabilities."""
    return (np.random.default_rng(seed).random(len(p)) < p).astype(float)


@pytest.mark.parametrize("kind", ["uniform", "rare", "few", "certain"])
def test_calibrated_predictions_are_seldom_blamed(kind: str) -> None:
    """At most in `LEVEL` of all cases; the bound is conservative, so of 300 hardly any is."""
    wrong = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        p = {
            "uniform": rng.random(2_000),
            "rare": rng.random(5_000) * 1e-3,
            "few": rng.random(15),
            "certain": rng.choice([0.0, 0.3, 1.0], 500),
        }[kind]
        wrong += bool(find_gaps(p, draw(p, 1_000 + seed)))
    assert wrong <= 300 * LEVEL


@pytest.mark.parametrize(
    ("true", "words"),
    [
        (lambda p: np.where(p > 0.7, p - 0.25, p), "over-confident above 0.70"),
        (lambda p: 0.5 + 0.6 * (p - 0.5), "over-confident below"),
        (lambda p: np.clip(0.5 + 1.6 * (p - 0.5), 0.0, 1.0), "under-confident below"),
        (lambda p: p**3, "too high"),
        (lambda p: np.where(p < 0.8, p**2, p), "too high below 0.80"),  # on both sides of the mean
        (np.cbrt, "too low everywhere"),
    ],
    ids=["high", "shrunk", "stretched", "cubed", "squared", "root"],
)
def test_each_kind_of_miscalibration_is_named(true: Any, words: str) -> None:
    p = np.random.default_rng(1).random(20_000)
    assert reliability_in_words("p", p, draw(true(p))).startswith(f"p is {words}")


def test_gaps_are_where_the_predictions_are_wrong() -> None:
    p = np.random.default_rng(2).random(50_000)
    y = draw(np.where((p > 0.4) & (p < 0.6), 0.9, p))
    (gap,) = find_gaps(p, y)
    inside = (p >= gap.low) & (p <= gap.high)
    assert gap.predicted == pytest.approx(p[inside].mean())
    assert gap.observed == pytest.approx(y[inside].mean())
    assert (gap.low, gap.high) == pytest.approx((0.4, 0.6), abs=0.01)
    assert gap.where == "from 0.40 to 0.60"


def test_a_sure_and_wrong_prediction_is_blamed() -> None:
    assert find_gaps(np.array([0.0, 0.0]), np.array([0.0, 1.0]))
    assert not find_gaps(np.array([0.5]), np.array([1.0]))
    p = np.repeat([0.0, 0.5, 1.0], 100)
    assert [gap.where for gap in find_gaps(p, np.full(300, 0.5))] == ["at 0", "at 1"]


def test_the_comparison_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    before = 0.5 + 0.05 * rng.random(12)
    after = before - 0.004 + 0.01 * rng.standard_normal(12)
    gain = compare(np.full(12, 300.0), before, after)
    assert gain is not None
    assert gain.p_value == pytest.approx(stats.ttest_rel(before, after).pvalue)
    assert gain.before == pytest.approx(before.mean())
    assert (gain.n_lower, gain.n_last) == (int((after < before)[-10:].sum()), 10)
    # Periods count by their samples: one of twice the length is as good as two equal ones.
    twice = compare(np.full(2, 600.0), before[:2], after[:2])
    assert twice is not None
    assert math.isnan(twice.p_value)
    assert not twice.is_clear


def test_equal_losses_differ_by_chance_only() -> None:
    rng = np.random.default_rng(4)
    clear = 0
    for _ in range(500):
        losses = rng.standard_normal((2, 20))
        gain = compare(np.full(20, 1.0), *losses)
        clear += gain is not None and gain.is_clear
    assert clear <= 500 * LEVEL * 2.5


def test_unknown_losses_are_left_out() -> None:
    unknown = np.full(5, math.nan)
    assert compare(np.ones(5), unknown, np.ones(5)) is None
    some = np.array([math.nan, 0.5, 0.6, 0.5, 0.6])
    gain = compare(np.ones(5), some, np.full(5, 0.4))
    assert gain is not None
    assert gain.n_last == 4
    same = compare(np.ones(5), np.ones(5), np.ones(5))
    assert same is not None
    assert not same.is_clear


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (
            Gain(0.5, 0.55, 0.001, 3, 10),
            "raises the log loss by 10\xa0%, from 0.5000 to 0.5500. It",
        ),
        (Gain(0.5, 0.55, 0.001, 3, 10), "It is higher in 7 of the last 10 periods."),
        (Gain(0.5, 0.4999, 0.001, 10, 10), "by 0.02\xa0%"),
        (Gain(0.0, 0.1, 0.001, 0, 4), "raises the log loss, from 0.0000"),
        (
            Gain(0.53944, 0.3158, LEVEL, 6, 6),
            "Log loss 0.5394 → 0.3158, lower in all 6 periods; too few periods to rule out chance.",
        ),
        (Gain(0.4, 0.5, LEVEL, 0, 4), "0.4000 → 0.5000, higher in all 4 periods; too few periods"),
        (Gain(0.5, 0.4, 0.02, 5, 6), "lower in 5 of 6 periods; the difference may be chance."),
        (Gain(0.4, 0.5, 0.02, 1, 9), "higher in 8 of 9 periods; the difference may be chance."),
        (Gain(0.5, 0.4, 0.02, 10, 10), "lower in 10 of the last 10 periods; the difference may be"),
        (Gain(0.5, 0.5, 1.0, 3, 6), "Log loss 0.5000 → 0.5000, no difference."),
        (Gain(0.5, 0.4, math.nan, 2, 2), "Too few samples to compare the log losses: 0.5000"),
    ],
)
def test_the_gain_in_words(gain: Gain, words: str) -> None:
    assert words in gain_in_words(gain)


def test_the_verdict_on_a_table() -> None:
    p = np.random.default_rng(5).random(5_000)
    y, rows = draw(p**2), 1.0 + np.arange(5_000)
    first, raw, new = verdict_of_table(Scored(p, p**2, y, rows), "p", "new")
    assert first.startswith("Calibration lowers the log loss")
    assert raw.startswith("p is too high")
    assert new == "new shows no clear miscalibration."
    assert verdict_of_table(Scored(5 * p, p**2, y, rows), "p", "new") == (new,)
    same, *_ = verdict_of_table(Scored(p, p, y, rows), "p", "new")
    assert same.endswith(", no difference.")


@pytest.mark.parametrize(
    ("p", "text"),
    [
        *((0.0, "0.00"), (1.0, "1.00"), (0.5, "0.50"), (0.055, "0.055"), (3e-5, "0.00003")),
        *((2e-300, "2.0e-300"), (1.0 - 2.0**-53, "1 − 1.1e-16")),
    ],
)
def test_probabilities_have_the_digits_that_matter(p: float, text: str) -> None:
    assert rounded(p) == text
