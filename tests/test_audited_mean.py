"""The mean of audited values: unbiased, with intervals that hold and are as narrow as the law."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, stdtrit

from streamcal.monitoring import AuditedMean, AuditedMetric

SHARE = 0.05


def stream(spread: float, n: int, seed: int) -> tuple[Any, Any, Any]:
    """Probabilities, labels, and which are observed."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(-1.0, spread, n))
    return p, (rng.random(n) < p).astype(float), rng.random(n) < SHARE


def audited(p: Any, y: Any, observed: Any, pi: Any, **parameters: Any) -> AuditedMean:
    mean = AuditedMean(0.1, **parameters)
    for m, v, a, share in zip(p.tolist(), y.tolist(), observed.tolist(), pi.tolist(), strict=True):
        mean.update(m, v if a else None, share)
    return mean


@pytest.mark.parametrize("spread", [1.2, 2.0, 3.0])
def test_one_look_is_as_narrow_as_the_law_and_holds(spread: float) -> None:
    held, ratios, n_draws = 0, [], 60
    for seed in range(n_draws):
        p, y, observed = stream(spread, 4_000, seed)
        low, high = audited(p, y, observed, np.full(len(p), SHARE)).interval_once
        held += low <= y.mean() <= high
        labels = y[observed]
        alone = 2.0 * 1.645 * labels.std() / math.sqrt(len(labels))
        law = math.sqrt(1.0 - (1.0 - SHARE) * p.var() / y.var())
        ratios.append((high - low) / alone / law)
    assert 0.8 <= held / n_draws <= 1.0
    assert np.mean(ratios) <= 1.05


def test_the_interval_for_all_times_holds_at_all_times() -> None:
    wrong = 0
    for seed in range(40):
        p, y, observed = stream(2.0, 1_000, seed)
        mean, total, ever = AuditedMean(0.1), 0.0, False
        for i, (m, v, a) in enumerate(zip(p.tolist(), y.tolist(), observed.tolist(), strict=True)):
            mean.update(m, v if a else None, SHARE)
            total += m
            low, high = mean.interval_always
            ever |= not low <= total / (i + 1) <= high
        wrong += ever
    assert wrong <= 4


def test_wrong_predictions_and_unequal_propensities_leave_it_unbiased() -> None:
    held, errors, n_draws = 0, [], 60
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        p, y, _ = stream(2.0, 4_000, seed)
        pi = np.where(p > 0.5, 0.2, 0.03)
        mean = audited(1.0 - p, y, rng.random(len(p)) < pi, pi)
        low, high = mean.interval_once
        held += low <= y.mean() <= high
        errors.append(mean.mean - y.mean())
    assert held / n_draws >= 0.8
    assert abs(np.mean(errors)) < 3.0 * np.std(errors) / math.sqrt(n_draws)


@pytest.mark.parametrize("n_audits", [5, 10, 17, 30])
@pytest.mark.parametrize("kind", ["base rate", "log loss", "by score"])
def test_one_look_at_few_audits_holds(n_audits: int, kind: str) -> None:
    held, n_draws, top = 0, 150, 7.0 if kind == "log loss" else 1.0
    for seed in range(n_draws):
        p, y, _ = stream(2.0, 20 * n_audits, seed)
        pi = np.full(len(p), SHARE)
        if kind == "by score":
            pi = np.where(np.abs(p - 0.5) < 0.2, 4.0 * SHARE, 0.4 * SHARE)
        predicted, values = p, y
        if kind == "log loss":
            q = p.clip(0.001, 0.999)
            predicted = -q * np.log(q) - (1.0 - q) * np.log(1.0 - q)
            values = -np.log(np.where(y == 1.0, q, 1.0 - q))
        observed = np.random.default_rng(seed + 1_000).random(len(p)) < pi
        low, high = audited(predicted, values, observed, pi, high=top, floor=0.01).interval_once
        held += low <= values.mean() <= high
    assert held / n_draws >= 0.85  # with a fit from ten audits on, and normal quantiles: 0.55 up


def test_with_all_values_it_is_their_mean() -> None:
    p, y, _ = stream(1.0, 500, 0)
    mean = audited(p, y, np.ones(500, bool), np.ones(500))
    assert mean.mean == pytest.approx(y.mean())
    low, high = mean.interval_once
    assert high - low == pytest.approx(2.0 * stdtrit(498, 0.95) * y.std() / math.sqrt(498))


def test_the_estimate_is_that_of_the_terms() -> None:
    rng = np.random.default_rng(3)
    p, y, _ = stream(2.0, 400, 3)
    pi = rng.uniform(0.1, 0.9, 400)
    observed = rng.random(400) < pi
    mean = audited(p, y, observed, pi)
    w = 1.0 / pi[observed]
    design = np.column_stack([np.ones(len(w)), p[observed]]) * w[:, None]
    alpha, beta = np.linalg.lstsq(design, y[observed] * w, rcond=None)[0]
    g = alpha + beta * p
    terms = g + np.where(observed, (y - g) / pi, 0.0)
    assert mean.mean == pytest.approx(terms.mean())
    low, high = mean.interval_once
    k = w.sum() ** 2 / (w @ w)
    deviation = terms.std() * math.sqrt(k / (k - 2.0))
    assert (high - low) / 2.0 == pytest.approx(stdtrit(k - 2.0, 0.95) * deviation / 20.0)


def test_any_range_of_values() -> None:
    rng = np.random.default_rng(0)
    losses = rng.exponential(0.5, 2_000).clip(0.0, 4.0)
    observed = rng.random(2_000) < 0.5
    mean = audited(np.full(2_000, 0.4), losses, observed, np.full(2_000, 0.5), high=4.0)
    low, high = mean.interval_once
    assert low < losses.mean() < high
    assert 0.0 <= mean.interval_always[0] < losses.mean() < mean.interval_always[1] <= 4.0


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 1e-17, 0.999999, 1.0 - 1e-16])
def test_any_alpha_has_intervals(alpha: float) -> None:
    mean, metric = AuditedMean(alpha), AuditedMetric("f1", alpha)
    for _ in range(30):
        mean.update(0.0, 0.0, 0.5)
        metric.update(0.7, 1, 0.5)
        metric.update(0.2, 0, 0.5)
    for low, high in (mean.interval_once, metric.interval_once, metric.interval_always):
        assert 0.0 <= low <= high <= 1.0
    assert mean.interval_once == (0.0, 0.0)


def test_before_anything_is_known() -> None:
    mean = AuditedMean(low=-1.0, high=3.0)
    assert (mean.mean, mean.interval_once, mean.interval_always) == (1.0, (-1.0, 3.0), (-1.0, 3.0))
    mean.update(0.5, None, 0.1)
    assert (mean.mean, mean.interval_once) == (0.5, (-1.0, 3.0))
    assert (mean.n_samples, mean.n_observed) == (1, 0)


ROWS = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.one_of(st.none(), st.floats(0.0, 1.0)), st.floats(0.01, 0.9)),
    max_size=40,
)


@given(rows=ROWS, cut=st.integers(0, 40))
def test_bytes_and_pickles_go_on_alike(rows: Any, cut: int) -> None:
    whole, other = AuditedMean(), AuditedMean()
    for i, row in enumerate(rows):
        if i == cut:
            other = AuditedMean.from_bytes(pickle.loads(pickle.dumps(other)).to_bytes())
        whole.update(*row)
        other.update(*row)
    assert whole.to_bytes() == other.to_bytes()
    for low, high in (whole.interval_once, whole.interval_always):
        assert 0.0 <= low <= high <= 1.0
    assert 0.0 <= whole.mean <= 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1.5,), "`predicted`"),
        ((math.nan, 1.0), "`predicted`"),
        ((0.5, 2.0), "`observed`"),
        ((0.5, "1"), "`observed`"),
        ((0.5, 1.0, 0.0), "`propensity`"),
        ((0.5, 1.0, 0.001), "`propensity`"),
        ((0.5,), "`observed` must be given where `propensity` is 1"),
    ],
)
def test_what_is_refused_changes_nothing(row: Any, message: str) -> None:
    mean = AuditedMean()
    mean.update(0.5, 1.0, 0.5)
    before = mean.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        mean.update(*row)
    assert mean.to_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, "`alpha`"),
        ({"low": 1.0}, "`high` must be greater than `low`"),
        ({"high": math.inf}, "`high`"),
        ({"floor": 0.0}, "`floor`"),
        ({"floor": 1e-4}, "`floor` must be at least"),
    ],
)
def test_bad_parameters_are_named(parameters: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        AuditedMean(**parameters)


@pytest.mark.parametrize("low", [-1e9, 1e7, 1e8])
def test_a_range_far_from_zero_has_the_interval_of_one_at_zero(low: float) -> None:
    rng = np.random.default_rng(5)
    at_zero, far = AuditedMean(0.1), AuditedMean(0.1, low=low, high=low + 1.0)
    for p in rng.random(500):
        y = float(rng.random() < p) if rng.random() < 0.2 else None
        at_zero.update(p, y, 0.2)
        far.update(low + p, None if y is None else low + y, 0.2)
    shown = [far.mean, *far.interval_once, *far.interval_always]
    same = [at_zero.mean, *at_zero.interval_once, *at_zero.interval_always]
    assert np.array(shown) - low == pytest.approx(same, abs=1e-6)
    assert AuditedMean.from_bytes(far.to_bytes()).to_bytes() == far.to_bytes()
