"""The verdict of a report: what it says is true, and chance is not reported."""

import math
import re
from typing import Any

import numpy as np
import pytest

from streamcal.kernels.mean_bounds import MeanBounds
from streamcal.monitoring import CalibrationTest, ForecastComparison
from streamcal.monitoring.fixed_bets import e_value_in_words
from streamcal.report.table_sections import Scored, verdict_of_table
from streamcal.report.verdict import (
    LEVEL,
    Gain,
    compare,
    evidence_in_words,
    find_gaps,
    gain_in_words,
    gain_of,
    losses_in_words,
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


def test_the_comparison_is_that_of_forecasts() -> None:
    rng = np.random.default_rng(3)
    p, q = rng.random(2_000), rng.random(2_000)
    y = draw(q)
    comparison = ForecastComparison(alpha=LEVEL)
    comparison.update_many(y == 1.0, p, q)
    gain = compare(p, q, y)
    assert gain == (comparison.mean, *comparison.interval)
    assert gain.is_clear
    assert gain_of(MeanBounds()) is None


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (
            Gain(0.02, 0.01, 0.03),
            "lowers the Brier score, by 0.0200 on average (between 0.0100 and",
        ),
        (Gain(-0.02, -0.03, -0.01), "raises the Brier score, by 0.0200 on average (between 0.0100"),
        (Gain(0.01, -0.01, 0.03), "0.0100 lower after calibration; that may be chance (−0.0100 to"),
        (Gain(-0.01, -0.03, 0.01), "0.0100 higher after calibration; that may be chance (−0.0100"),
        (Gain(0.0, -0.1, 0.1), "The Brier score is the same before and after calibration."),
    ],
)
def test_the_gain_in_words(gain: Gain, words: str) -> None:
    assert words in gain_in_words(gain)


def test_few_rows_that_make_the_difference_are_counted() -> None:
    before, after = np.full(2_000, 0.4), np.full(2_000, 0.39)
    before[:12] = 12.0
    assert losses_in_words(before, after).endswith(
        "7 of 2,000 rows make more than half of the difference."
    )
    assert "rows" not in losses_in_words(np.full(2_000, 0.4), after)
    after[5] = 400.0
    assert losses_in_words(before, after).endswith(
        "1 of 2,000 rows makes more than half of the difference."
    )
    assert losses_in_words(after, after).endswith(f"→ {after.mean():.4f}.")


def test_periods_in_which_the_loss_is_lower_are_counted() -> None:
    before, after = np.full(1_250, 0.4), np.full(1_250, 0.3)
    assert losses_in_words(before, after) == "Log loss 0.4000 → 0.3000, lower in all 6 periods."
    assert losses_in_words(after, before) == "Log loss 0.3000 → 0.4000, higher in all 6 periods."
    assert losses_in_words(before[:399], after[:399]) == "Log loss 0.4000 → 0.3000."
    after[:700] = 0.45
    assert losses_in_words(before, after).endswith("lower in 3 of 6 periods.")
    many = np.full(100_000, 0.4)
    assert "in all 10 periods" in losses_in_words(many, many - 0.1)


def test_the_evidence_is_that_of_the_test() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(3_000)
    true = np.where(np.arange(3_000) < 1_500, p, p**2)
    y = draw(true)
    test = CalibrationTest(alpha=LEVEL)
    test.update_many(y == 1.0, p)
    place = "row {}".format
    words = evidence_in_words("p", p, y, place)
    assert test.since is not None
    assert words.startswith(f"The evidence against p begins at about row {test.since}: ")
    largest = e_value_in_words(-math.log(test.p_value))
    assert f"reaches {largest}. By the best bet {test.in_words}" in words
    assert "stays small" in evidence_in_words("p", true, y, place)
    assert "is infinite" in evidence_in_words("p", np.zeros(2), np.ones(2), place)


def test_the_evidence_begins_where_probabilities_are_first_wrong() -> None:
    p = np.random.default_rng(7).random(20_000)
    y = draw(np.where(np.arange(20_000) < 10_000, p**2, np.sqrt(p)))
    words = evidence_in_words("p", p, y, "row {}".format)
    at = int(re.findall(r"about row (\d+)", words)[0])
    assert at < 200


def test_the_verdict_on_a_table() -> None:
    p = np.random.default_rng(5).random(5_000)
    y, rows = draw(p**2), 1.0 + np.arange(5_000)
    first, raw, new = verdict_of_table(Scored(p, p**2, y, rows), "p", "new")
    assert first.startswith("Log loss 0.")
    assert "lower in all 10 periods. Calibration lowers the Brier score, by " in first
    assert raw.startswith("p is too high")
    assert "The evidence against p begins at about row " in raw
    assert new.startswith("new shows no clear miscalibration over all rows together. The evidence")
    assert "The evidence against new stays small" in new
    assert verdict_of_table(Scored(5 * p, p**2, y, rows), "p", "new") == (new,)
    same, *_ = verdict_of_table(Scored(p, p, y, rows), "p", "new")
    assert same.endswith("The Brier score is the same before and after calibration.")


@pytest.mark.parametrize(
    ("p", "text"),
    [
        *((0.0, "0.00"), (1.0, "1.00"), (0.5, "0.50"), (0.055, "0.055"), (3e-5, "0.00003")),
        *((2e-300, "2.0e-300"), (1.0 - 2.0**-53, "1 − 1.1e-16")),
    ],
)
def test_probabilities_have_the_digits_that_matter(p: float, text: str) -> None:
    assert rounded(p) == text
