"""Labels that keep targets: against enumeration of all labellings, with and without abstention."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import metrics as river_metrics

from streamcal.decision import (
    AM,
    FBeta,
    GMean,
    HMean,
    Metric,
    Tversky,
    expected_utility,
    maximize,
    utility_curve,
)
from tests import oracles_decision as oracle

SLACK = 1e-11

probability = st.sampled_from([0.0, 1.0, 0.25, 0.5, 0.5, 0.9]) | st.floats(0.0, 1.0)
carried = st.none() | st.tuples(*[st.sampled_from([0.0, 0.0, 1.0, 2.5, 40.0])] * 4)
NAMES = ("accuracy", "precision", "recall", "specificity", "jaccard", "am")
twentieth = st.integers(0, 20).map(lambda i: Fraction(i, 20))


def convention(name: str) -> int:
    """What 0/0 counts as in a target."""
    return 1 if name in ("accuracy", "precision", "recall", "specificity") else 0


GOALS = [
    ("positives", lambda tp, fp, fn, tn: tp + fp),
    ("specificity", oracle.phi("specificity", 0)),
    ("recall", oracle.phi("recall", 0)),
    ("f1", oracle.phi("fbeta", 0)),
    (GMean(), oracle.phi("gmean", 0)),
    ("mcc", oracle.phi("mcc", 0)),
    (Metric(lambda tp, fp, fn, tn: 5 * tp - fp), lambda tp, fp, fn, tn: 5 * tp - fp),
]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(probability, min_size=1, max_size=6),
    st.dictionaries(
        st.sampled_from(NAMES), st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1), max_size=3
    ),
    st.none() | st.integers(0, 6),
    carried,
)
def test_the_best_of_all_labellings_that_keep_the_targets(
    p: Any, least: Any, most: Any, history: Any
) -> None:
    given_targets = {**least, **({} if most is None else {"positives": most})}
    targets = [(oracle.phi(name, convention(name)), value) for name, value in least.items()]
    counts = history or (0, 0, 0, 0)
    for goal, phi in GOALS:
        carries = (0, 0, 0, 0) if goal == "positives" else counts
        within, beyond = (
            best_of(p, phi, targets, counts, carries, most, slack) for slack in (-SLACK, SLACK)
        )
        if beyond is None:
            with pytest.raises(ValueError, match="`subject_to` must be within reach"):
                maximize(p, goal, subject_to=given_targets, counts=history)
            continue
        try:
            found = maximize(p, goal, subject_to=given_targets, counts=history)
        except ValueError:
            assert within is None
            continue
        assert found.bound <= 1e-10 * max(1.0, abs(found.expected))
        near = 2 * found.bound + SLACK
        assert found.expected <= beyond + near
        assert within is None or found.expected >= within - near
        labels = found.labels.astype(int).tolist()
        assert sum(labels) == found.k <= (len(p) if most is None else most)
        assert found.expected == pytest.approx(oracle.expected(p, labels, phi, carries), abs=near)
        assert set(found.subject_to) == set(given_targets)
        for name, value in least.items():
            of_target = oracle.phi(name, convention(name))
            kept = oracle.expected(p, labels, of_target, counts)
            assert kept >= value - near
            assert found.subject_to[name] == pytest.approx(kept, abs=near)


def best_of(
    p: Any, phi: Any, targets: Any, counts: Any, carries: Any, most: Any, slack: float
) -> Any:
    """The oracle, with other counts carried into the goal than into the targets."""

    def moved(of_target: Any) -> Any:
        shift = [a - b for a, b in zip(counts, carries, strict=True)]
        return lambda *table: of_target(*(a + b for a, b in zip(table, shift, strict=True)))

    moved_targets = [(moved(of_target), least) for of_target, least in targets]
    return oracle.best_that_keeps(p, phi, moved_targets, carries, most, slack)


@pytest.mark.parametrize("seed", range(6))
def test_twelve_samples_by_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = [rng.random(12), rng.beta(0.3, 1.0, 12), rng.random(12).round(1)][seed % 3]
    positives, f1 = GOALS[0][1], oracle.phi("fbeta", 0)
    precision, recall = (oracle.phi(name, 1) for name in ("precision", "recall"))
    specificity = oracle.phi("specificity", 0)
    for goal, phi, subject_to, targets, most in [
        ("positives", positives, {"precision": 0.8}, [(precision, 0.8)], None),
        ("specificity", specificity, {"recall": 0.7}, [(recall, 0.7)], None),
        ("f1", f1, {"positives": 2}, [], 2),
        ("f1", f1, {"precision": 0.6, "recall": 0.1}, [(precision, 0.6), (recall, 0.1)], None),
    ]:
        best = oracle.best_that_keeps(p.tolist(), phi, targets, most=most, slack=1e-12)
        if best is None:
            with pytest.raises(ValueError, match="targets that exclude each other"):
                maximize(p, goal, subject_to=subject_to)
            continue
        found = maximize(p, goal, subject_to=subject_to)
        assert found.expected == pytest.approx(best, abs=1e-12)


def test_the_oracle_of_targets_is_that_of_labellings() -> None:
    p, phi = [0.9, 0.3, 0.3, 0.55, 1.0], oracle.phi("fbeta", 0)
    assert oracle.best_that_keeps(p, phi, []) == pytest.approx(oracle.best(p, phi)[0])
    assert oracle.best_that_keeps(p, phi, [(phi, 0.99)]) is None


@settings(max_examples=80, deadline=None)
@given(st.lists(twentieth, max_size=6), twentieth)
def test_numbers_written_as_decimals_reach_targets_that_they_reach(p: Any, least: Any) -> None:
    """As 0.95 and 0.85 reach 0.9, though the floats next to them don't."""
    floats, target = [float(each) for each in p], float(least)
    found = maximize(floats, "positives", subject_to={"precision": target})
    assert found.k == found.expected == oracle.most_that_keep(p, least, (1,))
    answered = maximize(floats, "coverage", subject_to={"accuracy": target})
    most = oracle.most_that_keep(p, least, (0, 1))
    assert answered.expected == (most / len(p) if p else 0.0)
    labels = answered.labels.tolist()
    assert len(p) - labels.count(None) == most
    right = [q if label else 1 - q for q, label in zip(p, labels, strict=True) if label is not None]
    assert sum(right) >= least * most
    assert labels.count(True) == answered.k


@pytest.mark.parametrize("seed", range(3))
def test_eight_samples_with_abstention_by_enumeration(seed: int) -> None:
    p = np.random.default_rng(seed).random(8)
    exact = [Fraction(each) for each in p.tolist()]
    for least in (0.6, 0.8, 0.95):
        found = maximize(p, "coverage", subject_to={"accuracy": least})
        assert found.expected * 8 == oracle.most_that_keep(exact, Fraction(least), (0, 1))


def test_an_answer_may_be_empty() -> None:
    found = maximize([0.4, 0.9], "positives", subject_to={"precision": 0.95})
    assert found[1:4] == (0, math.inf, 0.0)
    assert found.labels.tolist() == [False, False]
    assert found.subject_to == {"precision": 1.0}
    nobody = maximize([0.4, 0.9], "coverage", subject_to={"accuracy": 0.95})
    assert nobody[1:4] == (0, math.inf, 0.0)
    assert nobody.labels.tolist() == [None, None]
    assert nobody.subject_to == {"accuracy": 1.0}
    assert maximize([0.9, 0.8], "f1", subject_to={"positives": 0}).k == 0


def test_without_samples_there_is_nothing_to_keep() -> None:
    several: list[Any] = [{"precision": 1.0}, {"f1": 0.9}, {"positives": 3, "recall": 1.0}]
    for targets in several:
        for goal in ("positives", "f1"):
            found = maximize([], goal, subject_to=targets)
            assert (found.k, found.expected, found.labels.shape) == (0, 0.0, (0,))
    none = maximize([], "coverage", subject_to={"accuracy": 0.9})
    assert (none.expected, none.labels.shape) == (0.0, (0,))


def test_without_targets_all_samples_are_labelled() -> None:
    nothing: list[Any] = [None, {}]
    for targets in nothing:
        assert maximize([0.0, 0.3], "positives", subject_to=targets).k == 2
        answers = maximize([0.0, 0.5, 0.7], "coverage", subject_to=targets)
        assert answers.labels.tolist() == [False, False, True]
        assert (answers.threshold, answers.expected) == (0.5, 1.0)
        assert maximize([0.7, 0.3], "f1", subject_to=targets)[1:] == maximize([0.7, 0.3], "f1")[1:]


def test_of_equal_probabilities_the_first_are_labelled() -> None:
    found = maximize([0.6, 0.99, 0.6, 0.6], "positives", subject_to={"precision": 0.7})
    assert found.labels.tolist() == [True, True, True, False]
    assert found.threshold is None
    answers = maximize([0.4, 0.99, 0.6, 0.4], "coverage", subject_to={"accuracy": 0.7})
    assert answers.labels.tolist() == [False, True, True, None]
    assert answers.threshold is None
    all_equal = maximize([0.9] * 1_000, "positives", subject_to={"precision": 0.9})
    assert (all_equal.k, all_equal.threshold) == (1_000, 0.9)


def test_certain_samples_make_room_for_others() -> None:
    found = maximize([1.0, 0.0, 0.5, 1.0], "positives", subject_to={"precision": 0.8})
    assert found.labels.tolist() == [True, False, True, True]
    answers = maximize([1.0, 0.0, 0.5], "coverage", subject_to={"accuracy": 1.0})
    assert answers.labels.tolist() == [True, False, None]
    assert maximize([1.0], "coverage", subject_to={"accuracy": 1.0}).labels.tolist() == [True]
    assert maximize([0.3], "f1", subject_to={"precision": 0.5}).k == 0
    assert maximize([0.3], "f1", subject_to={"precision": 0.3}).k == 1


def test_the_fewest_false_positives_at_a_recall() -> None:
    p = [0.9, 0.8, 0.3, 0.1]
    found = maximize(p, "specificity", subject_to={"recall": 0.6})
    assert found.k == 2
    recall = Tversky(0, 1, zero_division=1)
    assert found.subject_to["recall"] == pytest.approx(expected_utility(p, found.labels, recall))
    assert utility_curve(p, recall)[1] < 0.6
    assert maximize(p, "precision", subject_to={"recall": 0.6}).k == 2
    assert maximize(p, "specificity", subject_to={"recall": 1.0}).k == 4


def test_metrics_may_be_targets() -> None:
    p = [0.9, 0.8, 0.3, 0.1]
    profit = Metric(lambda tp, fp, fn, tn: 2.0 * tp - fp)
    found = maximize(p, "positives", subject_to={profit: 2.5, FBeta(0.5): 0.6})
    assert found.k == 3
    assert found.subject_to[profit] == pytest.approx(2.0 * 2.0 - 1.0)
    theirs = river_metrics.Precision()
    assert maximize(p, "positives", subject_to={theirs: 0.85}).subject_to[theirs] == pytest.approx(
        0.85
    )
    # 0/0 is 0 in this one, so nobody may be left out.
    with pytest.raises(ValueError, match=r"got 0.95 as the least FBeta.* whose .* is 0\.9"):
        maximize(p, "positives", subject_to={FBeta(0): 0.95})


def test_targets_count_earlier_decisions() -> None:
    past = (90.0, 0.0, 0.0, 0.0)
    found = maximize([0.5] * 100, "positives", subject_to={"precision": 0.9}, counts=past)
    assert (found.k, found.expected) == (22, 22.0)
    right = (40.0, 0.0, 0.0, 50.0)
    answers = maximize([0.5] * 100, "coverage", subject_to={"accuracy": 0.9}, counts=right)
    assert answers.expected == 0.22
    with pytest.raises(ValueError, match=r"reach, got 0\.9 as the least accuracy, whose greatest"):
        maximize([0.5], "coverage", subject_to={"accuracy": 0.9}, counts=(0, 9, 9, 0))
    found = maximize([0.99] * 5, "positives", subject_to={"precision": 0.5}, counts=(0, 3, 0, 0))
    assert found.k == 5  # no fewer than 4 reach the target
    assert maximize([0.9], "f1", subject_to={"positives": 1}, counts=(0, 3, 0, 0)).k == 1


@pytest.mark.parametrize("law", ["uniform", "rare", "rounded"])
def test_one_label_more_would_miss_the_target(law: str) -> None:
    rng = np.random.default_rng(6)
    p = {
        "uniform": rng.random(100_000),
        "rare": rng.beta(0.3, 1, 100_000),
        "rounded": rng.random(100_000).round(2),
    }[law]
    found = maximize(p, "positives", subject_to={"precision": 0.95})
    ranked = np.sort(p)[::-1]
    chosen = math.fsum(p[found.labels])
    assert chosen == math.fsum(ranked[: found.k])
    assert chosen / found.k >= 0.95 - 1e-12
    assert found.bound < 1e-12
    assert math.fsum(ranked[: found.k + 1]) / (found.k + 1) < 0.95
    answers = maximize(p, "coverage", subject_to={"accuracy": 0.95})
    answered = np.not_equal(answers.labels, None)
    right = np.where(p > 0.5, p, 1.0 - p)
    assert (answers.labels[answered] == (p > 0.5)[answered]).all()
    assert math.fsum(right[answered]) / answered.sum() >= 0.95 - 1e-12
    assert answers.expected == answered.mean()
    assert right[answered].min() >= right[~answered].max()


@pytest.mark.parametrize("metric", [GMean(), HMean(), AM()], ids=repr)
@pytest.mark.parametrize("n", [40, 300])
def test_the_best_number_of_those_allowed(metric: Any, n: int) -> None:
    p = np.random.default_rng(7).beta(0.5, 2.0, n)
    psi = utility_curve(p, metric)
    free = int(psi.argmax())
    for most in (0, 1, free // 2, free, n):
        found = maximize(p, metric, subject_to={"positives": most})
        assert found.expected == pytest.approx(psi[: most + 1].max(), abs=2e-10)
    precision = utility_curve(p, FBeta(0, zero_division=1))
    for least in (0.5, 0.7, 0.9):
        found = maximize(p, metric, subject_to={"precision": least})
        assert found.expected == pytest.approx(psi[precision >= least].max(), abs=2e-10)
    recall = utility_curve(p, Tversky(0, 1))
    found = maximize(p, metric, subject_to={"recall": 0.99})
    assert found.k >= int((recall >= 0.99).argmax())
    assert found.expected == pytest.approx(psi[recall >= 0.99].max(), abs=2e-10)


def test_a_higher_target_never_gives_more() -> None:
    p = np.random.default_rng(8).random(500)
    for goal, target in (("positives", "precision"), ("coverage", "accuracy")):
        sizes = [
            maximize(p, goal, subject_to={target: least}).expected
            for least in np.linspace(0.0, 1.0, 41)
        ]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("metric", "subject_to", "message"),
    [
        (
            "f1",
            {"precision": 95},
            r"`subject_to\['precision'\]` .* \[0, 1\], got 95; divide percent",
        ),
        ("positives", {"precision": math.nan}, r"must lie in \[0, 1\], got nan"),
        ("positives", {"precision": "0.9"}, r"`subject_to\['precision'\]` must be a number"),
        ("f1", {"mcc": -2}, r"must lie in \[-1, 1\], got -2"),
        ("f1", {FBeta(): math.inf}, r"must lie in \(-inf, inf\), got inf"),
        ("f1", {"positives": 2.0}, "must be an int of at least 0, got 2.0; write 2"),
        ("f1", {"positives": -1}, "must be an int of at least 0, got -1"),
        ("f1", {"positives": True}, "must be an int of at least 0, got True"),
        ("f1", {"Precision": 0.9}, "`subject_to` must be one of .* positives, got .*'precision'?"),
        ("f1", {"sensitivity": 0.9}, "did you mean 'recall'?"),
        ("f1", {"coverage": 0.9}, "`subject_to` must be one of"),
        ("f1", {None: 0.9}, "the key of `subject_to` must be a name, a Metric or"),
        ("f1", {3: 0.9}, "must be a name, a Metric or a river metric, got 3"),
        ("f1", 0.95, r"`subject_to` must be a dict such as \{'precision': 0.95\}, got 0.95"),
        ("f1", [("precision", 0.95)], "`subject_to` must be a dict"),
        ("coverage", {"precision": 0.9}, r"accuracy alone for 'coverage', got \['precision'\]"),
        ("coverage", {"accuracy": 0.9, "positives": 3}, "accuracy alone for 'coverage'"),
        ("Coverage", {}, "`metric` must be one of f1, .*coverage, got .* did you mean 'coverage'?"),
        (
            "f1",
            {Metric(lambda tp, fp, fn, tn: fp - tp, monotone=False): 0},
            "`subject_to` must have monotone metrics",
        ),
        (
            "f1",
            {"f1": 0.99},
            "`subject_to` must be within reach, got 0.99 as the least f1, whose greatest",
        ),
        (
            "f1",
            {"recall": 0.9, "positives": 1},
            r"got targets that exclude each other, \{'recall': 0.9, 'positives': 1\}",
        ),
    ],
)
def test_targets_that_are_refused(metric: Any, subject_to: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        maximize([0.9, 0.4, 0.2], metric, subject_to=subject_to)


@pytest.mark.parametrize("goal", ["positives", "coverage"])
def test_goals_take_what_metrics_take(goal: Any) -> None:
    p = [1.0 + 1e-12, 0.4, -1e-12]
    assert maximize(p, goal, subject_to={}).k == maximize([1.0, 0.4, 0.0], goal, subject_to={}).k
    for bad in ([0.2, 1.2], [math.nan], [[0.1]], ["a"], np.ma.array([0.1, 0.2], mask=[0, 1])):
        with pytest.raises((TypeError, ValueError), match="`probabilities` must"):
            maximize(bad, goal)
    with pytest.raises(ValueError, match="`method` must be 'auto' or 'closed-form' for"):
        maximize([0.1], goal, method="windows")
    with pytest.raises(ValueError, match="`tol` must lie in"):
        maximize([0.1], goal, tol=1.0)
    with pytest.raises(ValueError, match="`counts` must be"):
        maximize([0.1], goal, counts=(1, 2))
