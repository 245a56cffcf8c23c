"""Ratios of a confusion table from audits: right values, and intervals that hold."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from streamcal.decision import FBeta, FractionalLinear, Tversky
from streamcal.monitoring import AuditedMean, AuditedMetric

METRICS = ("precision", "recall", "f1", "accuracy")


def stream(n: int, seed: int, spread: float = 2.0) -> tuple[Any, Any, Any]:
    """Probabilities, labels, and propensities, of which a half are greater."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(-1.0, spread, n))
    return p, (rng.random(n) < p).astype(float), np.where(rng.random(n) < 0.5, 0.05, 0.15)


def audited(metric: Any, p: Any, y: Any, pi: Any, seed: int = 0, **parameters: Any) -> Any:
    observed = np.random.default_rng(1_000 + seed).random(len(p)) < pi
    found = AuditedMetric(metric, 0.1, **parameters)
    for m, label, a, share in zip(
        p.tolist(), y.tolist(), observed.tolist(), pi.tolist(), strict=True
    ):
        found.update(m, label if a else None, share)
    return found


def table(q: Any, chosen: Any) -> tuple[float, float, float, float]:
    """Return the expected confusion table (tp, fp, fn, tn) of probabilities q of the label 1."""
    return (
        float(q[chosen].sum()),
        float((1.0 - q)[chosen].sum()),
        float(q[~chosen].sum()),
        float((1.0 - q)[~chosen].sum()),
    )


def value_of(metric: str, cells: tuple[float, float, float, float]) -> float:
    tp, fp, fn, tn = cells
    return {
        "precision": tp / (tp + fp),
        "recall": tp / (tp + fn),
        "f1": 2.0 * tp / (2.0 * tp + fp + fn),
        "accuracy": (tp + tn) / (tp + fp + fn + tn),
    }[metric]


@pytest.mark.parametrize("metric", METRICS)
def test_one_look_holds(metric: str) -> None:
    held, errors, n_draws = 0, [], 40
    for seed in range(n_draws):
        p, y, pi = stream(4_000, seed)
        found, truth = audited(metric, p, y, pi, seed), value_of(metric, table(y, p >= 0.5))
        low, high = found.interval_once
        held += low <= truth <= high
        errors.append(found.value - truth)
    assert 0.8 <= held / n_draws <= 1.0
    assert abs(np.mean(errors)) < 3.0 * np.std(errors) / math.sqrt(n_draws) + 0.005


@pytest.mark.parametrize("metric", METRICS)
def test_the_interval_for_all_times_holds_at_all_times_while_the_metric_changes(
    metric: str,
) -> None:
    wrong = 0
    for seed in range(20):
        p, _, pi = stream(1_500, seed)
        # The probabilities are wrong in the second half, so the metric falls.
        right = np.where(np.arange(len(p)) < 700, p, 0.25 + 0.5 * p)
        rng = np.random.default_rng(seed)
        y, chosen = (rng.random(len(p)) < right).astype(float), p >= 0.5
        found, ever = AuditedMetric(metric, 0.1), False
        for i in range(len(p)):
            found.update(float(p[i]), float(y[i]) if rng.random() < pi[i] else None, float(pi[i]))
            if i > 20 and i % 10 == 0:
                truth = value_of(metric, table(right[: i + 1], chosen[: i + 1]))
                low, high = found.interval_always
                ever |= not low <= truth <= high
        wrong += ever
    assert wrong <= 2


def test_both_intervals_become_narrow() -> None:
    p, y, pi = stream(30_000, 0)
    found = audited("recall", p, y, pi)
    once, always = (high - low for low, high in (found.interval_once, found.interval_always))
    assert once < 0.05
    assert once < always < 4.0 * once


def test_precision_is_the_mean_among_decisions_1() -> None:
    p, y, pi = stream(3_000, 5)
    observed = np.random.default_rng(1_000).random(len(p)) < pi
    mean, found = AuditedMean(0.1), audited("precision", p, y, pi)
    for i in np.flatnonzero(p >= 0.5).tolist():
        mean.update(p[i], y[i] if observed[i] else None, pi[i])
    assert found.value == pytest.approx(mean.mean)
    assert found.interval_once == pytest.approx(mean.interval_once)


def test_with_all_labels_it_is_the_metric() -> None:
    p, y, _ = stream(500, 1)
    for metric in METRICS:
        found = audited(metric, p, y, np.ones(len(p)))
        assert found.value == pytest.approx(value_of(metric, table(y, p >= 0.5)))
        low, high = found.interval_once
        assert low < found.value < high


def test_the_interval_of_one_look_is_that_of_fieller() -> None:
    p, y, _ = stream(2_000, 2)
    found = audited("recall", p, y, np.ones(len(p)))
    chosen, q = p >= 0.5, float(ndtri(0.95))
    for r in found.interval_once:
        terms = chosen * y - r * y
        among = [(terms[side].sum(), terms[side].var() * side.sum()) for side in (chosen, ~chosen)]
        total, variance = np.sum(among, axis=0)
        assert abs(total) == pytest.approx(q * math.sqrt(variance), rel=3e-3)  # of t, 0.2 % more


def test_labels_that_were_not_seen_may_be_there() -> None:
    precision, recall = AuditedMetric("precision", 0.1), AuditedMetric("recall", 0.1)
    for i in range(400):
        for found in (precision, recall):
            found.update(0.9, 1.0 if i % 2 else None, 0.5)
            found.update(0.1, 0.0 if i % 2 else None, 0.5)
    most = math.log(20.0) / 200  # of the other label among 200 seen ones
    assert precision.interval_once == pytest.approx((1.0 - most, 1.0))
    assert recall.interval_once == pytest.approx((1.0 / (1.0 + most), 1.0), abs=1e-3)


def test_thresholds_decisions_and_other_ratios() -> None:
    p, y, pi = stream(2_000, 3)
    wanted = audited("f1", p, y, pi, threshold=0.3)
    found = AuditedMetric(Tversky(0.5, 0.5), 0.1)
    same = AuditedMetric(FractionalLinear((0, 2, 0, 0), (0, 0, 1, 1)), 0.1)
    observed = np.random.default_rng(1_000).random(len(p)) < pi
    for i in range(len(p)):
        row = float(p[i]), y[i] if observed[i] else None, float(pi[i])
        for each in (found, same):
            each.update(*row, decision=int(p[i] >= 0.3))
    for each in (found, same):
        assert each.value == pytest.approx(wanted.value)
        assert each.interval_once == pytest.approx(wanted.interval_once)
        assert each.interval_always == pytest.approx(wanted.interval_always)


def test_before_anything_is_known() -> None:
    found = AuditedMetric("recall")
    assert (found.value, found.interval_once, found.interval_always) == (
        0.0,
        (0.0, 1.0),
        (0.0, 1.0),
    )
    found.update(0.7, None, 0.1)
    assert (found.n_samples, found.n_observed, found.value) == (1, 0, 1.0)
    assert found.interval_once == (0.0, 1.0)
    only_zeros = AuditedMetric("precision")
    for _ in range(30):
        only_zeros.update(0.2, 0.0)
    assert only_zeros.value == 0.0
    assert only_zeros.interval_always == (0.0, 1.0)
    assert only_zeros.interval_once == (0.0, 1.0)


ROWS = st.lists(
    st.tuples(st.floats(0.0, 1.0), st.sampled_from([None, 0.0, 1.0]), st.floats(0.01, 0.9)),
    max_size=40,
)


@given(rows=ROWS, cut=st.integers(0, 40), metric=st.sampled_from([*METRICS, FBeta(2.0)]))
def test_bytes_and_pickles_go_on_alike(rows: Any, cut: int, metric: Any) -> None:
    whole, other = AuditedMetric(metric), AuditedMetric(metric)
    for i, row in enumerate(rows):
        if i == cut:
            other = AuditedMetric.from_bytes(pickle.loads(pickle.dumps(other)).to_bytes())
        whole.update(*row)
        other.update(*row)
    assert whole.to_bytes() == other.to_bytes()
    low, high = whole.interval_once
    assert 0.0 <= low <= whole.value <= high <= 1.0
    low, high = whole.interval_always
    assert 0.0 <= low <= high <= 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((1.5,), "`predicted`"),
        ((math.nan, 1.0), "`predicted`"),
        ((0.5, 0.5), "`observed` must be 0 or 1"),
        ((0.5, "1"), "`observed`"),
        ((0.5, 1.0, 0.0), "`propensity`"),
        ((0.5, 1.0, 0.001), "`propensity`"),
        ((0.5,), "`observed` must be given where `propensity` is 1"),
    ],
)
def test_what_is_refused_changes_nothing(row: Any, message: str) -> None:
    found = AuditedMetric()
    found.update(0.5, 1.0, 0.5)
    before = found.to_bytes()
    with pytest.raises((TypeError, ValueError), match=message):
        found.update(*row)
    with pytest.raises(ValueError, match="`decision` must be 0 or 1"):
        found.update(0.5, 1.0, decision=2)
    assert found.to_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"metric": "auc"}, "`metric` must be a ratio"),
        ({"metric": "mcc"}, "`metric` must be a ratio"),
        ({"metric": "f9"}, "`metric`"),
        ({"alpha": 0.0}, "`alpha`"),
        ({"threshold": 2.0}, "`threshold`"),
        ({"floor": 1e-4}, "`floor`"),
    ],
)
def test_bad_parameters_are_named(parameters: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        AuditedMetric(**parameters)


@pytest.mark.parametrize("kind", [AuditedMean, AuditedMetric])
@pytest.mark.parametrize(("at", "value"), [(9, 1e-320), (0, 1e300), (1, 1e308), (11, 1e300)])
def test_sums_that_no_decisions_have_are_refused(
    kind: Any, at: int, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kind()
    for i in range(300):
        found.update(0.01 * (i % 100), float(i % 2) if i % 3 == 0 else None, 0.3)
    fields, arrays = found._freeze()
    arrays["sums"][..., at] = value
    monkeypatch.setattr(kind, "_freeze", lambda _: (fields, arrays))
    with pytest.raises(ValueError, match="`data` must be what `to_bytes` wrote"):
        kind.from_bytes(found.to_bytes())


@pytest.mark.parametrize("floor", [2.0 / 3.0, 1.0 / 60.0, 1.0 / 3.0])
def test_the_floor_is_not_rounded(floor: float) -> None:
    for kind in (AuditedMean, AuditedMetric):
        found = kind(floor=floor)
        found.update(0.5, 1, floor)
        with pytest.raises(ValueError, match="`propensity` must"):
            found.update(0.5, 1, math.nextafter(floor, 0.0))
    mean = AuditedMean(high=floor)
    mean.update(floor, floor, 0.5)
    with pytest.raises(ValueError, match="`predicted` must lie in"):
        mean.update(floor * (1.0 + 1e-7), None, 0.5)
