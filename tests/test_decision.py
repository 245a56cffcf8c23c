"""Labels that maximise a metric: every method against enumeration, and against the others."""

import gc
import math
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import metrics as river_metrics

from streamcal.decision import (
    AM,
    GTPPR,
    MCC,
    SEC,
    Accuracy,
    FBeta,
    FractionalLinear,
    GMean,
    HMean,
    Jaccard,
    Kappa,
    Metric,
    QMean,
    Tversky,
    expected_utility,
    get_metric,
    maximize,
    utility_curve,
)
from streamcal.decision.exponentials import OutOfReachError, exponential_sum
from streamcal.decision.goals import METRIC_NAMES
from streamcal.decision.maximization import METHODS
from tests import oracles_decision as oracle

CONVENTIONS = (0, 1, "present")
RECALL = ((0, 1, 0, 0), (0, 0, 0, 1))
MIXED = ((1, 3, -1, 0.5), (2, 1, 1, 0))


def pairs(zero: Any) -> list[Any]:
    """Every metric with what the oracle says it is."""
    return [
        (FBeta(1, zero_division=zero), oracle.phi("fbeta", zero)),
        (FBeta(0.5, zero_division=zero), oracle.phi("fbeta", zero, 0.5)),
        (FBeta(-2, zero_division=zero), oracle.phi("fbeta", zero, 2)),
        (FBeta(0, zero_division=zero), oracle.phi("fbeta", zero, 0)),
        (FBeta(math.pi, zero_division=zero), oracle.phi("fbeta", zero, math.pi)),
        (Jaccard(zero_division=zero), oracle.phi("jaccard", zero)),
        (Tversky(0.3, 0.9, zero_division=zero), oracle.phi("tversky", zero)),
        (Accuracy(zero_division=zero), oracle.phi("accuracy", zero)),
        (FractionalLinear(*RECALL, zero_division=zero), oracle.phi("recall", zero)),
        (FractionalLinear(*MIXED, zero_division=zero), oracle.phi("mixed", zero)),
        (AM(zero_division=zero), oracle.phi("am", zero)),
        (GMean(zero_division=zero), oracle.phi("gmean", zero)),
        (HMean(zero_division=zero), oracle.phi("hmean", zero)),
        (QMean(zero_division=zero), oracle.phi("qmean", zero)),
        (GTPPR(zero_division=zero), oracle.phi("gtppr", zero)),
        (MCC(zero_division=zero), oracle.phi("mcc", zero)),
        (Kappa(zero_division=zero), oracle.phi("kappa", zero)),
        (SEC(zero_division=zero), oracle.phi("sec", zero)),
        (
            Metric(lambda tp, fp, fn, tn: 2 * tp / (2 * tp + fp + fn), zero_division=zero),
            oracle.phi("fbeta", zero),
        ),
    ]


def methods_of(metric: Any) -> list[Any]:
    names = []
    for name in METHODS:
        try:
            maximize([0.5, 0.4], metric, method=name)
        except ValueError:
            continue
        names.append(name)
    return [name for name in names if name != "plug-in"]


probability = st.sampled_from([0.0, 1.0, 0.25, 0.5, 1e-9]) | st.floats(0.0, 1.0)
carried = st.none() | st.tuples(*[st.sampled_from([0.0, 0.0, 1.0, 2.5, 40.0])] * 4)


@pytest.mark.parametrize("zero", CONVENTIONS)
@settings(max_examples=25)
@given(data=st.data(), history=carried)
def test_every_method_finds_the_best_of_all_labellings(
    zero: Any, data: st.DataObject, history: Any
) -> None:
    p = data.draw(st.lists(probability, max_size=6))
    ranked = sorted(p, reverse=True)
    n, counts = len(p), history or (0, 0, 0, 0)
    for metric, phi in pairs(zero):
        best, _ = oracle.best(p, phi, counts)
        curve = [
            oracle.expected(ranked, [1] * k + [0] * (n - k), phi, counts) for k in range(n + 1)
        ]
        for method in methods_of(metric):
            found = maximize(p, metric, counts=history, method=method)
            assert found.bound <= 1e-10
            assert abs(found.expected - best) <= found.bound + 4e-15
            labels = found.labels.astype(int).tolist()
            assert sum(labels) == found.k
            assert oracle.expected(p, labels, phi, counts) >= best - 2 * found.bound - 4e-15
            psi = utility_curve(p, metric, counts=history, method=method)
            np.testing.assert_allclose(psi, curve, rtol=0, atol=found.bound + 4e-15)


def test_eight_samples_by_enumeration() -> None:
    p = [0.9, 0.05, 0.05, 0.6, 0.33, 0.0, 1.0, 0.2]
    for metric, phi in pairs(0):
        found = maximize(p, metric)
        assert found.expected == pytest.approx(oracle.best(p, phi)[0], abs=1e-12)


@settings(max_examples=30)
@given(st.lists(st.tuples(probability, st.booleans()), max_size=6), carried)
def test_utility_of_any_labels(samples: Any, history: Any) -> None:
    p, labels = [s[0] for s in samples], [s[1] for s in samples]
    for metric, phi in pairs("present"):
        value = expected_utility(p, labels, metric, counts=history)
        chosen = [int(label) for label in labels]
        assert value == pytest.approx(
            oracle.expected(p, chosen, phi, history or (0, 0, 0, 0)), abs=1e-11
        )


@pytest.mark.parametrize("law", ["uniform", "rare", "certain", "half"])
@pytest.mark.parametrize("history", [None, (3.0, 1.5, 0.0, 20.0)])
def test_methods_agree_on_larger_batches(law: str, history: Any) -> None:
    rng = np.random.default_rng(3)
    p = {
        "uniform": rng.random(300),
        "rare": rng.beta(0.3, 6, 300),
        "certain": rng.choice([0.0, 1.0, 0.5], 300),
        "half": np.full(300, 0.5),
    }[law]
    for metric, _ in pairs(0):
        found = [
            maximize(p, metric, counts=history, method=method)
            for method in methods_of(metric)
            if method != "algorithm-1"
        ]
        for other in found[1:]:
            assert abs(other.expected - found[0].expected) <= other.bound + found[0].bound
        direct = expected_utility(p, found[0].labels, metric, counts=history)
        assert abs(direct - found[0].expected) <= found[0].bound + 1e-10
        plug_in = maximize(p, metric, counts=history, method="plug-in")
        assert plug_in.bound == math.inf
        assert plug_in.expected == pytest.approx(found[0].expected, abs=0.05)


@pytest.mark.parametrize("law", ["uniform", "rare"])
def test_methods_agree_on_thousands(law: str) -> None:
    rng = np.random.default_rng(4)
    p = rng.random(2_000) if law == "uniform" else rng.beta(0.3, 6, 2_000)
    for metric, method in [
        (FBeta(1), "algorithm-2"),
        (Jaccard(), "algorithm-2"),
        (AM(), "leave-one-out"),
        (GTPPR(), "leave-one-out"),
        (GMean(), "windows"),
        (HMean(), "windows"),
    ]:
        fast, slow = maximize(p, metric), maximize(p, metric, method=method)
        assert fast.method != slow.method
        assert abs(fast.expected - slow.expected) <= fast.bound + slow.bound
        assert abs(fast.k - slow.k) <= (0 if metric in (FBeta(1), Jaccard()) else 1)


def test_branch_and_bound_evaluates_every_cutoff_as_windows_do() -> None:
    p = np.random.default_rng(5).random(400)
    for metric in (GMean(), HMean()):
        psi = utility_curve(p, metric, method="branch-and-bound")
        np.testing.assert_allclose(psi, utility_curve(p, metric), rtol=0, atol=2e-10)


def test_f1_has_several_maxima() -> None:
    psi = utility_curve([0.99] + [0.27] * 9, "f1")
    assert [round(float(psi[k]), 4) for k in (1, 3, 10)] == [0.4942, 0.4776, 0.4950]
    assert maximize([0.99] + [0.27] * 9, "f1").k == 10


def test_nothing_labelled_may_be_best() -> None:
    found = maximize([0.01, 0.02], FBeta(1, zero_division=1))
    assert (found.k, found.threshold) == (0, math.inf)
    assert found.expected == pytest.approx(0.99 * 0.98)


def test_ties_are_labelled_by_index() -> None:
    found = maximize([0.5, 0.5, 0.5], SEC())
    assert found.k in (1, 2)
    assert found.threshold is None
    assert found.labels.tolist() == [i < found.k for i in range(3)]
    found = maximize([0.2, 0.9, 0.2, 0.9], "accuracy")
    assert found.labels.tolist() == [False, True, False, True]
    assert found.threshold == 0.9


@given(st.permutations(list(range(7))))
@settings(max_examples=10)
def test_permuting_samples_permutes_labels(order: Any) -> None:
    p = np.array([0.9, 0.05, 0.4, 0.6, 0.33, 0.0, 0.2])
    labels = maximize(p, "f1").labels
    np.testing.assert_array_equal(maximize(p[order], "f1").labels, labels[order])


def test_without_samples_the_utility_is_that_of_the_counts() -> None:
    for metric, phi in pairs("present"):
        found = maximize([], metric, counts=(3, 1, 2, 4))
        assert found.labels.shape == (0,)
        assert found.expected == pytest.approx(phi(3, 1, 2, 4))
    assert utility_curve([], "f1").tolist() == [0.0]


def test_river_lists_read_only_arrays_and_integers_are_probabilities() -> None:
    p = np.array([0.9, 0.2, 0.4])
    p.flags.writeable = False
    assert maximize(p, "f1").k == maximize([0.9, 0.2, 0.4], "f1").k
    assert maximize([0, 1, 1], "f1").k == 2
    assert maximize(np.array([[0.9, 0.1], [0.2, 0.8]])[:, 0], "f1").k == 1


def test_rounding_errors_of_probabilities_are_clipped() -> None:
    rounded, exact = [1.0 + 1e-12, 0.4, -1e-12], [1.0, 0.4, 0.0]
    assert maximize(rounded, "f1").expected == maximize(exact, "f1").expected
    assert maximize(rounded[:1], "f1").threshold == 1.0
    assert expected_utility(rounded, [1, 0, 1], "f1") == expected_utility(exact, [1, 0, 1], "f1")


@settings(max_examples=40)
@given(
    st.sampled_from([0.5, 1.0, 2.0]), st.floats(1.0, 40.0), st.sampled_from([1e-13, 1e-12, 1e-8])
)
def test_the_certificate_of_exponential_sums_holds_at_the_integers(
    power: float, log_ratio: float, error: float
) -> None:
    t, w = exponential_sum(power, 2.0**log_ratio, error).terms
    made = exponential_sum(power, 2.0**log_ratio, error)
    assert made.error <= error
    assert (w > 0).all()
    assert (np.diff(t) > 0).all()
    x = np.unique(np.concatenate([np.arange(1.0, 300.0), np.geomspace(1, made.largest, 500)]))
    x = x[x <= made.largest]
    value = np.exp(-np.outer(x, t)) @ w
    np.testing.assert_allclose(value * x**power, 1.0, rtol=0, atol=made.error + 5e-13)


def test_what_is_out_of_reach_of_exponentials_is_done_by_windows() -> None:
    with pytest.raises(OutOfReachError, match="`ratio`"):
        exponential_sum(1.0, 2.0**300)
    found = maximize(np.full(20, 0.3), "f1", counts=(1e-70, 0.0, 0.0, 0.0))
    assert found.method != "exponential-sums"


@pytest.mark.parametrize("name", METRIC_NAMES)
def test_names_stand_for_metrics(name: Any) -> None:
    metric = get_metric(name)
    assert maximize([0.3, 0.6], name).expected == maximize([0.3, 0.6], metric).expected
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert hash(metric) == hash(pickle.loads(pickle.dumps(metric)))
    assert eval(repr(metric)) == metric
    assert metric(3, 1, 2, 4) == metric([3], [1], [2], [4])[0]


@pytest.mark.parametrize("metric", [m for zero in CONVENTIONS for m, _ in pairs(zero)[:-1]])
def test_metrics_are_those_of_the_oracle(metric: Any) -> None:
    phi = dict(pairs(metric.zero_division))[metric]
    for table in np.ndindex(3, 3, 3, 3):
        assert metric(*table) == pytest.approx(phi(*table), abs=1e-15)


RIVER = [
    river_metrics.F1(),
    river_metrics.FBeta(2.0),
    river_metrics.Precision(),
    river_metrics.Recall(),
    river_metrics.Jaccard(),
    river_metrics.BalancedAccuracy(),
    river_metrics.MCC(),
    river_metrics.CohenKappa(),
    river_metrics.Accuracy(),
]


@pytest.mark.parametrize("theirs", RIVER, ids=lambda metric: type(metric).__name__)
def test_river_metrics_mean_the_same(theirs: Any) -> None:
    ours = get_metric(theirs)
    for table in np.ndindex(3, 3, 3, 3):
        metric = theirs.clone()
        pairs_of = [(True, True), (False, True), (True, False), (False, False)]
        for (y_true, y_pred), count in zip(pairs_of, table, strict=True):
            for _ in range(count):
                metric.update(y_true, y_pred)
        assert ours(*table) == pytest.approx(metric.get(), abs=1e-12)


@pytest.mark.parametrize(
    "metric",
    [
        river_metrics.FowlkesMallows(),
        river_metrics.GeometricMean(),
        river_metrics.MacroF1(),
        river_metrics.LogLoss(),
        river_metrics.MAE(),
    ],
)
def test_other_river_metrics_are_refused(metric: Any) -> None:
    with pytest.raises(ValueError, match="must be one of river's"):
        get_metric(metric)
    with pytest.raises(ValueError, match="`pos_val`"):
        get_metric(river_metrics.F1(pos_val="yes"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 3, 100])
def test_no_metric_is_kept(method: str, n: int) -> None:
    """A service that makes a metric for each request would fill its memory."""
    probabilities, kept = np.linspace(0.05, 0.9, n), []
    for metric, _ in pairs("present"):
        try:
            maximize(probabilities, metric, method=method, counts=(1.0, 2.0, 3.0, 4.0))
        except ValueError:  # methods do not apply to all metrics
            assert method != "auto"
        kept.append(weakref.ref(metric))
    del metric
    gc.collect()
    assert [ref() for ref in kept if ref() is not None] == []


def test_promises_are_checked() -> None:
    with pytest.raises(ValueError, match=r"must not fall as tp grows .* got"):
        Metric(lambda tp, fp, fn, tn: fp - tp)
    metric = Metric(lambda tp, fp, fn, tn: fp - tp, monotone=False)
    assert utility_curve([0.9, 0.1], metric)[0] == 0.0
    with pytest.raises(ValueError, match="`metric` must be monotone"):
        maximize([0.9, 0.1], metric)
    # The paper's condition c1 > d1 holds here, and the metric still falls with TP.
    with pytest.raises(ValueError, match="grows with TP"):
        FractionalLinear((3, 1, 0, 0), (1, 0.5, 0, 0))
    # And here it does not hold, although the metric grows.
    assert FractionalLinear((0, 1, 0, 0), (0, 1, 1, 1))(1, 1, 1, 1) == pytest.approx(1 / 5)
    with pytest.raises(ValueError, match="one sign"):
        FractionalLinear((0, 1, 0, 0), (1, 0, -2, 0))
    with pytest.raises(ValueError, match="`c` must be 0"):
        FractionalLinear((1, 1, 0, 0), (0, 0, 1, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: maximize([0.2, 1.2]), r"`probabilities` must lie in \[0, 1\], got 1.2 at pos.* 1"),
        (lambda: maximize([-0.1]), r"`probabilities` must lie in \[0, 1\], got -0.1 at pos"),
        (lambda: maximize([0.1, math.nan]), "got nan at position 1"),
        (lambda: maximize([[0.1]]), "one-dimensional"),
        (lambda: maximize(["a"]), "must hold real numbers"),
        (lambda: maximize([0.1], "f3"), "`metric` must be one of f1, .* got 'f3'"),
        (lambda: maximize([0.1], 3), "must be a name, a Metric or a river metric"),
        (lambda: maximize([0.1], counts=(1, 2, 3)), "`counts` must be .* got 3 values"),
        (lambda: maximize([0.1], counts=(1, 2, -3, 0)), "`counts` must not be negative"),
        (lambda: maximize([0.1], counts=(1, 2, math.inf, 0)), "`counts` must be finite"),
        (lambda: maximize([0.1], tol=0.0), "`tol` must lie in .1e-13, 0.01."),
        (lambda: maximize([0.1, 0.2], tol=math.nan), "`tol` must lie in .1e-13, 0.01."),
        (lambda: maximize([0.1], method="best"), "`method` must be one of"),
        (lambda: maximize([0.1, 0.2], "mcc", method="algorithm-2"), "applies to MCC"),
        (lambda: maximize([0.1, 0.2], FBeta(math.pi), method="algorithm-2"), "rational"),
        (lambda: expected_utility([0.1], [0, 1]), "one value per probability, got 2 for 1"),
        (lambda: expected_utility([0.1], [2]), "`labels` must hold 0 and 1, got 2.0 at position 0"),
        (lambda: FBeta("1"), "`beta` must be a number"),
        (lambda: FBeta(math.nan), "`beta` must lie in"),
        (lambda: FBeta(1, zero_division=2), "`zero_division` must be 0, 1 or 'present', got 2"),
        (lambda: AM(zero_division=True), "`zero_division` must be"),
        (lambda: Tversky(-1, 0), "`alpha` and `beta` must be at least 0"),
        (lambda: FractionalLinear((1, 2), (1, 0, 0, 0)), "`c` must hold 4 coefficients, got 2"),
        (lambda: Metric(3), "`phi` must be callable"),
        (lambda: Metric(lambda tp, fp, fn, tn: [1.0, 2.0, 3.0]), "one number per table"),
        (lambda: Metric(lambda tp: tp), "must take and return arrays"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    "metric",
    [
        Tversky(1.0, 5.0),
        Tversky(1.0, 1000.0),
        Tversky(0.1, 0.001),
        FBeta(0.01),
        FractionalLinear((0, 1, 0, 0), (0, -15, 1, 20)),
        FractionalLinear((1, 1, -1, -1), (1, 0, -1, 0)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["sure", "half", "random"])
def test_a_miss_may_cost_more_than_a_hit(metric: Metric, kind: str) -> None:
    """Then the parts of large exponents grow while labels are chosen."""
    n = 100
    p = {
        "sure": np.full(n, 0.9999),
        "half": np.where(np.arange(n) < n // 2, 1.0, 0.01),
        "random": np.random.default_rng(0).random(n),
    }[kind]
    expected = maximize(p, metric, method="algorithm-1")
    for method in ("auto", "algorithm-2", "windows"):
        found = maximize(p, metric, method=method)
        slack = found.bound + expected.bound
        assert abs(found.expected - expected.expected) <= slack, method


def test_what_is_out_of_reach_is_left_to_other_methods() -> None:
    p = np.random.default_rng(0).beta(0.1, 0.1, 100)
    for metric in (Tversky(1.0, 100.1 * np.pi), Tversky(1.0, 1e12)):
        for method in ("exponential-sums", "algorithm-2"):
            with pytest.raises(ValueError, match=f"`method` {method} needs"):
                maximize(p, metric, method=method)
        found, expected = maximize(p, metric), maximize(p, metric, method="windows")
        assert found[1:] == expected[1:]
