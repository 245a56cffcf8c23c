"""Metrics before the labels, against the enumeration of all labels and against draws."""

import math
import pickle
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import metrics as river_metrics
from scipy.special import expit, logit
from sklearn.metrics import log_loss, roc_auc_score

from streamcal.decision import get_metric
from streamcal.metrics import ExpectedMetric, expected_metric

TABLES = ["f1", "f2", "precision", "recall", "accuracy", "jaccard", "mcc", "gmean", "kappa"]


def value_of(name: Any, p: Any, y: Any, chosen: Any) -> float:
    """The metric of samples with all labels."""
    if name == "brier":
        return float(np.mean((y - p) ** 2))
    if name == "log_loss":
        return float(log_loss(y, p, labels=[0, 1]))
    tp, fp = float(np.sum(y * chosen)), float(np.sum((1 - y) * chosen))
    fn = float(np.sum(y)) - tp
    if name == "recall":
        return tp / (tp + fn) if tp + fn else 0.0
    return float(get_metric(name)(tp, fp, fn, len(y) - tp - fp - fn))


def corrected(p: Any, y: Any) -> Any:
    """Probabilities, with log-odds that the known labels correct a little."""
    known = [i for i, label in enumerate(y) if label is not None]
    log_odds = logit(p.clip(0.001, 0.999))
    wanted = np.array([float(y[i]) for i in known]) - p[known]
    design = np.column_stack([np.ones(len(known)), log_odds[known]])
    curvature = design.T @ np.diag(p[known] * (1.0 - p[known])) @ design + 400.0 * np.eye(2)
    step = (np.linalg.inv(curvature) @ (design.T @ wanted)).clip(-0.5, 0.5)
    with np.errstate(divide="ignore"):
        return expit(logit(p) + step[0] + step[1] * log_odds)


def all_labels(p: Any, y: Any) -> Any:
    """Every labelling that agrees with the labels that are known, and its probability."""
    p = corrected(p, y)
    unknown = [i for i, label in enumerate(y) if label is None]
    for drawn in product((0, 1), repeat=len(unknown)):
        labels = np.array([0 if label is None else label for label in y])
        labels[unknown] = drawn
        yield labels, math.prod(p[i] if labels[i] else 1.0 - p[i] for i in unknown)


SAMPLES = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.125, 0.3, 0.5, 0.77, 1.0]),
        st.sampled_from([0, 1, None]),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.parametrize("name", [*TABLES, "brier"])
@given(samples=SAMPLES)
def test_it_is_the_mean_over_all_labellings(name: str, samples: Any) -> None:
    p, y, chosen = (np.array(column, object) for column in zip(*samples, strict=True))
    p, chosen = p.astype(float), chosen.astype(int)
    value, low, high = expected_metric(p, y.tolist(), name, decisions=chosen)
    wanted = sum(mass * value_of(name, p, labels, chosen) for labels, mass in all_labels(p, y))
    assert value == pytest.approx(wanted, abs=1e-9)
    assert low <= value <= high


def test_log_loss_is_the_mean_over_all_labellings() -> None:
    p, y = np.array([0.9, 0.2, 0.7, 0.4]), [1, None, None, 0]
    wanted = sum(mass * value_of("log_loss", p, labels, None) for labels, mass in all_labels(p, y))
    assert expected_metric(p, y, "log loss").value == pytest.approx(wanted)


@pytest.mark.parametrize("name", [*TABLES, "brier", "log_loss", "auc"])
def test_with_all_labels_it_is_the_metric(name: str) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(200).round(1).clip(0.1, 0.9)
    y = (rng.random(200) < p).astype(int)
    wanted = roc_auc_score(y, p) if name == "auc" else value_of(name, p, y, p >= 0.5)
    found = expected_metric(p, y, name)
    assert found == pytest.approx((wanted, wanted, wanted))


@pytest.mark.parametrize("name", [*TABLES, "brier", "log_loss", "auc"])
@pytest.mark.parametrize("n", [30, 300])
def test_the_interval_holds_as_often_as_it_says(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    held, errors, n_draws = 0, 0.0, 400
    for _ in range(n_draws):
        p = rng.beta(1.0, 2.0, n)
        y = np.zeros(n, int)
        while y.min() == y.max():
            y = (rng.random(n) < p).astype(int)
        truth = roc_auc_score(y, p) if name == "auc" else value_of(name, p, y, p >= 0.4)
        value, low, high = expected_metric(p, None, name, threshold=0.4)
        held += low - 1e-12 <= truth <= high + 1e-12
        errors += value - truth
    assert 0.86 <= held / n_draws <= 0.97
    assert abs(errors / n_draws) < 0.02


def test_probabilities_that_are_seen_to_be_wrong_widen_it() -> None:
    p, y = np.full(100, 0.4), np.where(np.arange(100) < 50, 0.0, np.nan)
    right = np.where(np.arange(100) < 50, np.arange(100) % 5 < 2, np.nan)
    wrong, calm = expected_metric(p, y, "brier"), expected_metric(p, right, "brier")
    deviation = 50 * 0.4 / math.sqrt(50 * 0.4 * 0.6)
    assert (wrong.high - wrong.low) / (calm.high - calm.low) == pytest.approx(
        deviation / math.sqrt(2.0), rel=0.01
    )


@pytest.mark.parametrize("name", ["f1", "precision", "brier"])
def test_known_labels_correct_the_probabilities_of_the_others(name: str) -> None:
    known, errors = np.arange(1_000) < 500, []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.random(1_000).clip(0.001, 0.999)
        truth = (rng.random(1_000) < expit(logit(p) + 0.5)).astype(float)
        wanted = expected_metric(p, truth, name).value
        found = expected_metric(p, np.where(known, truth, np.nan), name).value
        plain = [
            value_of(name, p, np.where(known, truth, rng.random(1_000) < p), p >= 0.5)
            for _ in range(50)  # labels of the others by their probabilities
        ]
        errors.append([found - wanted, np.mean(plain) - wanted])
    of_corrected, of_plain = np.abs(np.mean(errors, axis=0))
    assert of_corrected < 0.95 * of_plain


def test_unknown_labels_widen_the_interval_the_more_the_fewer_labels_there_are() -> None:
    p = np.full(100, 0.4)
    widths = []
    for n_known in (10, 50, 90):
        y = np.where(np.arange(100) < n_known, np.arange(100) % 5 < 2, np.nan)
        found = expected_metric(p, y, "brier")
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > widths[2] > 0.0
    bare = expected_metric(p[:90], None, "brier")
    inner = (bare.high - bare.low) * 90 / 100  # of the mean over all
    assert widths[0] == pytest.approx(inner * math.sqrt(1 + 90 / 10))


def test_auc_of_one_label_says_nothing() -> None:
    assert expected_metric([0.3, 0.6], [1, 1], "auc") == (0.5, 0.0, 1.0)


def test_ties_count_half_for_auc() -> None:
    p, y = [0.2, 0.2, 0.7, 0.7, 0.7], [0, 1, 0, 1, 1]
    assert expected_metric(p, y, "auc").value == pytest.approx(roc_auc_score(y, p))


def test_metrics_of_river_and_functions_are_taken() -> None:
    p, y = [0.9, 0.2, 0.7], [1, None, 0]
    assert expected_metric(p, y, river_metrics.F1()) == expected_metric(p, y, "f1")
    assert expected_metric(p, y, river_metrics.Recall()) == expected_metric(p, y, "recall")


# The window ---------------------------------------------------------------------------------------


@given(
    steps=st.lists(
        st.tuples(
            st.booleans(), st.integers(0, 15), st.sampled_from([0.1, 0.5, 0.75]), st.booleans()
        ),
        max_size=40,
    )
)
def test_the_window_is_that_of_a_list(steps: Any) -> None:
    metric = ExpectedMetric("f1", window=5)
    rows: list[list[Any]] = []
    for is_label, key, p, y in steps:
        there = [row for row in rows if row[0] == key]
        if is_label:
            assert metric.add_label(key, int(y)) == bool(there)
            for row in there:
                row[2] = int(y)
        elif not there:
            metric.add(key, p)
            rows = [*rows, [key, p, None]][-5:]
    assert (metric.n_samples, metric.n_unknown) == (len(rows), sum(r[2] is None for r in rows))
    if rows:
        wanted = expected_metric([row[1] for row in rows], [row[2] for row in rows], "f1").value
        assert metric.get() == pytest.approx(wanted)
    else:
        assert metric.get() == 0.0
        assert metric.interval == (0.0, 1.0)


def filled() -> ExpectedMetric:
    metric = ExpectedMetric("precision", window=3, threshold=0.4)
    for key, p in [("a", 0.5), ("b", 0.3), ("c", 0.75)]:
        metric.add(key, p)
    metric.add_label("a", 0)
    return metric


@pytest.mark.parametrize(
    "y",
    [
        np.array([True, None, 0], dtype=object),
        pd.Series([True, None, False], dtype=object),
        pd.Series([True, None, False], dtype="boolean"),
        pd.Series([1, None, 0], dtype="Int64"),
        [1, pd.NA, 0],
        (1, math.nan, np.False_),
    ],
)
def test_unknown_labels_may_be_none_nan_or_na(y: Any) -> None:
    p = [0.9, 0.2, 0.75]
    assert expected_metric(p, y) == expected_metric(p, [1, None, 0])


def test_a_masked_label_is_not_taken_for_a_known_one() -> None:
    y: Any = np.ma.array([1, None], mask=[False, True], dtype=object)
    with pytest.raises(ValueError, match="`y` must have no masked values"):
        expected_metric([0.5, 0.5], y)


def test_copies_and_clones() -> None:
    metric = filled()
    assert pickle.loads(pickle.dumps(metric)).expected() == metric.expected()
    clone = metric.clone()
    assert clone.n_samples == 0
    assert (clone.metric, clone.window, clone.threshold) == ("precision", 3, 0.4)


def test_labels_that_come_after_the_window_change_the_interval_only() -> None:
    metric = filled()
    for key in ("d", "e"):  # "a" and "b" leave
        metric.add(key, 0.9, decision=0)
    before = metric.interval
    assert not metric.add_label("z", 1)  # never predicted
    assert not metric.add_label("a", 1)  # labelled before it left
    assert metric.interval == before
    assert not metric.add_label("b", 1)
    assert metric.n_unknown == 3
    assert metric.get() == pytest.approx(0.75)  # only "c" is predicted to be 1


@pytest.mark.parametrize("late", [80, 300, 700])
@pytest.mark.parametrize("share", [0.4, 0.0])
def test_late_labels_widen_the_interval_the_more_the_less_right_they_are(
    late: int, share: float
) -> None:
    metric = ExpectedMetric("brier", window=50)
    for i in range(1_000):
        metric.add(i, 0.4)
        if i >= late:
            assert not metric.add_label(i - late, int(i % 5 < 5 * share))
    bare = expected_metric(np.full(50, 0.4), None, "brier")
    deviation = 25 * 0.4 / math.sqrt(25 * 0.4 * 0.6)  # of the last half window of labels
    factor = math.sqrt(2.0) if share else deviation
    if late > 11 * 50:
        factor = 1.0  # all predictions are forgotten before their labels come
    low, high = metric.interval
    assert high - low == pytest.approx(factor * (bare.high - bare.low))


def test_a_prediction_that_has_left_may_come_again() -> None:
    metric = filled()
    metric.add("d", 0.9)
    metric.add("a", 0.1)  # "a" has left, and "b" leaves
    assert metric.add_label("a", 0)
    assert metric.n_unknown == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.add("a", 0.5), "`key` must be new, got 'a'"),
        (lambda m: m.add("z", 1.5), "`p`"),
        (lambda m: m.add("z", math.nan), "`p`"),
        (lambda m: m.add("z", 0.5, 0.7), "`decision` must be 0 or 1, got 0.7"),
        (lambda m: m.add_label("b", 2), "`y` must be 0 or 1, got 2"),
        (lambda m: m.add_label("b", None), "`y` must be"),
        (lambda m: m.add_label("b", "1"), "`y` must be"),
        (lambda m: m.add([], 0.5), "unhashable"),
    ],
)
def test_what_is_refused_changes_nothing(call: Any, message: str) -> None:
    metric = filled()
    before = pickle.dumps(metric._samples)
    with pytest.raises((TypeError, ValueError), match=message):
        call(metric)
    assert pickle.dumps(metric._samples) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "`p` must hold at least one probability"),
        (([0.5], [0, 1]), "`y`"),
        (([0.5, 0.5], [0, 3]), "`y` must hold 0, 1, and None where it is unknown, got 3.0 at 1"),
        (([1.5],), "`p`"),
        (
            ([0.5], None, "f7x"),
            "`metric` must be one of f1, .*, auc, brier, log_loss, recall, got 'f7x'",
        ),
        (([0.5], None, "f1", [0, 1]), "`decisions`"),
        (([0.5], None, "f1", [0.5]), "`decisions` must hold 0 and 1"),
        (([0.5], None, "f1", None, 2.0), "`threshold`"),
        (([0.5], None, "f1", None, 0.5, 1.0), "`level`"),
    ],
)
def test_bad_arguments_are_named(arguments: Any, message: str) -> None:
    names = ("p", "y", "metric", "decisions", "threshold", "level")
    with pytest.raises((TypeError, ValueError), match=message):
        expected_metric(**dict(zip(names, arguments, strict=False)))


@pytest.mark.parametrize("name", ["window", "threshold", "level", "metric"])
def test_bad_parameters_are_named(name: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"`{name}`|metric"):
        ExpectedMetric(**{name: -1})


def test_an_empty_window_has_no_expectation() -> None:
    with pytest.raises(ValueError, match="a prediction must be added first"):
        ExpectedMetric().expected()


@pytest.mark.parametrize("metric", ["accuracy", "f1", "precision", "auc", "brier"])
@pytest.mark.parametrize("sure", [0.0, 1e-9, 1e-3])
def test_known_labels_contradict_probabilities_that_are_too_sure(metric: str, sure: float) -> None:
    """Of probabilities of 0 and 1 no quantile has a width; a fifth of their labels are others."""
    held, n_draws = 0, 60
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        p = np.where(rng.random(200) < 0.4, 1.0 - sure, sure)
        y = np.where(rng.random(200) < 0.2, p < 0.5, p > 0.5).astype(float)
        known = rng.random(200) < 0.5
        seen = np.where(known, y, np.nan)
        value, low, high = expected_metric(p, seen, metric)
        assert low <= value <= high
        truth = roc_auc_score(y, p) if metric == "auc" else value_of(metric, p, y, p >= 0.5)
        held += low <= truth <= high
    assert held / n_draws >= 0.85
    assert expected_metric([1.0] * 50, [0] * 25 + [None] * 25, "accuracy")[1:] == (0.0, 0.5)


def test_labels_that_came_after_the_window_contradict_it_too() -> None:
    metric = ExpectedMetric("accuracy", window=50)
    for i in range(100):
        metric.add(i, 1.0)
    assert metric.expected()[1:] == (1.0, 1.0)
    for i in range(25):
        assert not metric.add_label(i, 0)
    assert metric.expected()[1:] == (0.0, 1.0)


def test_another_label_takes_the_place_of_one_that_came_after_the_window() -> None:
    def told(*labels: int) -> ExpectedMetric:
        metric = ExpectedMetric("accuracy", window=20)
        for i in range(40):
            metric.add(i, 0.9)
        for i in range(20):
            for y in labels:
                assert not metric.add_label(i, y)
        return metric

    assert told(0, 1).interval == told(1).interval != told(0).interval
    assert not told(1).add_label("never added", 1)


def test_an_interval_is_wider_if_probabilities_are_too_sure_on_both_sides() -> None:
    """Their sums are nearly right among equal decisions; their slope is not."""
    held, n_draws = 0, 100
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        q = expit(rng.normal(-1.0, 1.5, 900))
        y = (rng.random(900) < q).astype(float)
        p = expit(1.5 * logit(q))
        metric = ExpectedMetric("brier", window=300)
        for i in range(900):
            metric.add(i, p[i])
        for i in range(300, 600):  # they come after the window
            metric.add_label(i, y[i])
        low, high = metric.interval
        held += low <= float(np.mean((y - p)[-300:] ** 2)) <= high
    assert held / n_draws >= 0.7
