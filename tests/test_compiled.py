"""The compiled kernels by themselves: `.ci/checked` also runs this under sanitizers.

Random programs run through the kernels and through the oracles. `recorded/` has inputs and
results of an earlier implementation, which was compiled by numba. Answers are the same to the last
bit, except where exponentials or Newton steps are part of them, or counts were differences of sums.
`streaming_thresholds.npz` was recorded again when it was settled which of equally good thresholds
is the answer, and Tversky measures by Algorithm 2 when an error was found. Those of Platt scaling
and of hedges were recorded from the compiled kernels; the batches of hedges that end their records
again, when the mean delay was followed sample by sample in a batch.
"""

import contextlib
import copy
import csv
import faulthandler
import io
import math
import pickle
import signal
import sys
import threading
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamcal.calibration.beta import BetaCalibrator
from streamcal.calibration.hedged import HedgedCalibrator
from streamcal.calibration.histogram import HistogramCalibrator
from streamcal.calibration.identity import IdentityCalibrator
from streamcal.calibration.isotonic import IsotonicCalibrator
from streamcal.calibration.platt import PlattCalibrator
from streamcal.calibration.temperature import TemperatureCalibrator
from streamcal.calibration.venn_abers import VennAbersCalibrator
from streamcal.decision import (
    AM,
    EUMThreshold,
    GMean,
    Tversky,
    expected_utility,
    get_metric,
    maximize,
    utility_curve,
)
from streamcal.decision.goals import METRIC_NAMES
from streamcal.isotonic.blocks import blocks_of, fit_blocks
from streamcal.isotonic.stack import PAVStack
from streamcal.isotonic.staircase import Staircase, isotonic_fit
from streamcal.kernels import csv_rows, histogram, pav
from streamcal.kernels.expected_reciprocals import Reciprocals
from streamcal.kernels.hedge import Hedge
from streamcal.kernels.isotonic import IsotonicExpert, IsotonicRegression
from streamcal.kernels.isotonic_quantiles import Quantiles, greatest_quantiles
from streamcal.kernels.iterative_convex_minorant import WarmStart
from streamcal.kernels.padded_rows import room_for
from streamcal.kernels.score_index import ScoreIndex
from streamcal.kernels.threshold_decomposition import Cells
from streamcal.losses import CostTable, get_task
from streamcal.ordinal import (
    CuSumRank,
    KernelCuSumRank,
    PACuSumRank,
    PRank,
    StreamingThresholds,
    optimal_thresholds,
)
from streamcal.ordinal._jobs import sum_prefixes
from streamcal.ordinal.samples import Samples
from streamcal.ordinal.thresholds import find_cuts
from tests import oracles, oracles_convex

RECORDED = Path(__file__).parent / "recorded"


def bits(array: Any) -> Any:
    """Return floats as integers, which distinguish 0 from -0 and compare NaN."""
    return np.ascontiguousarray(array, np.float64).view(np.int64)


def pav_answers(x: Any, y: Any, w: Any) -> Any:
    """Return all results that only need sums, products, quotients and comparisons."""
    grid = np.concatenate([x, x + 0.03, [x.min() - 1, x.max() + 1, np.nan]])
    found = []
    for interpolation in ("linear", "step"):
        stairs = isotonic_fit(x, y, w, interpolation=interpolation)
        found += [stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers]
        found += [stairs(grid), stairs(grid, outside="nan")]
    found.append(blocks_of(x, y, w).ravel())
    low = x <= np.median(x)
    stairs = fit_blocks(np.concatenate([blocks_of(x[k], y[k], w[k]) for k in (~low, low)]))
    found += [stairs.lower, stairs.values, stairs.centers]
    stack = PAVStack()
    for at in np.argsort(x, kind="stable"):
        stack.push(x[at], y[at], w[at])
        found.append(np.array([*map(stack.predict_one, grid[:5]), len(stack)]))
    return np.concatenate([*found, stack.staircase().values])


def test_pav_answers_as_recorded() -> None:
    with np.load(RECORDED / "pav.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            assert_array_equal(
                bits(pav_answers(*recorded[f"asked{at}"])), bits(recorded[f"answered{at}"])
            )


def isotonic_answers(inputs: Any) -> Any:
    """Run a program: learn, remove, predict; its first row has the window and the prior."""
    (window, prior, *_), *program = inputs.tolist()
    pairs = VennAbersCalibrator(window=int(window) or None, prior=prior)
    calibrator = pairs.isotonic
    answers: list[float] = []
    live: list[Any] = []
    for what, score, y, w in program:
        if what == 0 and live and not window:
            calibrator.unlearn_one(*live.pop(len(live) // 2))
        elif what == 1:
            answers.append(calibrator.predict_one(score))
        elif what == 2:
            answers.extend(pairs.predict_interval_one(score))
        else:
            calibrator.learn_one(score, y, w)
            live.append((score, y, w))
    stairs = calibrator.staircase()
    found = [stairs.lower, stairs.upper, stairs.values, stairs.weights, stairs.centers]
    return np.concatenate([answers, *found, calibrator.predict_many(np.linspace(-0.1, 1.1, 50))])


def test_isotonic_answers_as_recorded() -> None:
    with np.load(RECORDED / "isotonic.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            found = isotonic_answers(recorded[f"asked{at}"])
            assert_array_equal(bits(found), bits(recorded[f"answered{at}"]))


def task_of(number: Any, n_labels: Any) -> Any:
    """Return a task loss by number; the last one is a table of costs that is not convex."""
    if number < 3:
        return get_task(["absolute", "squared", "zero-one"][number])
    costs = 7.0 * np.arange(n_labels)[:, None] + 5.0 * np.arange(n_labels)
    return CostTable((costs % 9.0 / 3.0).tolist())


def threshold_answers(n_labels: Any, number: Any, scores: Any, labels: Any, w: Any) -> Any:
    """Cut samples in all ways, and summarise blocks of them."""
    loss, weights = task_of(number, n_labels), w if len(w) else None
    samples = Samples.of(scores, labels.astype(np.int64), n_labels, weights, None)
    table, found = loss.table(n_labels), []
    for method in ("dp", "io", "blocked-io", "divide", "subsequence"):
        cuts = find_cuts(samples, table, method)
        found += [cuts, samples.thresholds(cuts), [samples.risk(table, np.sort(cuts))]]
    differences = np.ascontiguousarray((table[:-1] - table[1:]).T)
    n = len(scores)
    for first, stop in ((0, None), (n // 9, n // 2), (n // 2, None), (n, n)):
        found.extend(sum_prefixes(samples.labels, samples.w, differences, first, stop))
    answer = optimal_thresholds(scores, labels, n_labels, loss=loss, w=weights)
    return np.concatenate([*found, answer.thresholds, [answer.risk]])


def test_thresholds_answer_as_recorded() -> None:
    with np.load(RECORDED / "thresholds.npz") as recorded:
        for at in range(len(recorded.files) // 5):
            n_labels, number = recorded[f"parameters{at}"].tolist()
            inputs = [recorded[f"{name}{at}"] for name in ("scores", "labels", "w")]
            found = threshold_answers(n_labels, number, *inputs)
            assert_array_equal(bits(found), bits(recorded[f"answered{at}"]))


def streaming_answers(parameters: Any, program: Any) -> Any:
    """Run a program of rows (operation, score, label, w): learn, remove, predict."""
    n_labels, number, window, half_life = parameters.tolist()
    stream = StreamingThresholds(
        int(n_labels),
        task_of(int(number), int(n_labels)),
        window=int(window) or None,
        half_life=half_life or None,
    )
    answers, waiting, learned = [], [], []
    for what, score, label, w in program.tolist():
        if what == 3:  # learned with others, later
            waiting.append((score, label, w))
            continue
        if waiting:
            stream.learn_many(*zip(*waiting, strict=True))
            learned += waiting
            waiting.clear()
        if what == 0:
            stream.learn_one(score, label, w)
            learned.append((score, label, w))
        elif what == 1:
            answers.append(stream.predict_one(score) or 0)
        elif len(learned) > 9:
            try:
                stream.unlearn_one(*learned.pop(-1 - len(learned) % 9))
            except ValueError:  # it has left the window, or its weight has decayed
                answers.append(-1)
        if what == 2 and stream.n_scores and score < 0.4:
            answers.extend(stream.thresholds)
            answers.extend((stream.risk, float(stream.n_samples), float(stream.n_scores)))
    answers += stream.predict_many(np.linspace(-1, 2, 50)).tolist()
    _, arrays = stream._freeze()
    held = (arrays[name].ravel() for name in ("scores", "counts", "weights", "queue"))
    return np.concatenate([answers, *held])


def test_streaming_thresholds_answer_as_recorded() -> None:
    # Of labels of equal cost the highest is the answer.
    with np.load(RECORDED / "streaming_thresholds.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            found = streaming_answers(recorded[f"parameters{at}"], recorded[f"asked{at}"])
            assert_array_equal(bits(found), bits(recorded[f"answered{at}"]))


def histogram_answers(n_bins: Any, half_life: Any, prior: Any, samples: Any) -> Any:
    """Learn samples (score, label, weight), and predict after each."""
    calibrator = HistogramCalibrator(n_bins, half_life, prior)
    found = []
    for score, y, w in samples:
        calibrator.learn_one(score, y, w)
        found += [calibrator.predict_one(score), calibrator.predict_one(1.0 - score)]
    return np.concatenate([found, calibrator._freeze()[1]["cells"].ravel()])


def test_histograms_answer_as_recorded() -> None:
    with np.load(RECORDED / "histogram.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            n_bins, half_life, prior = recorded[f"parameters{at}"].tolist()
            answers = histogram_answers(
                int(n_bins), half_life or None, prior, recorded[f"asked{at}"].tolist()
            )
            assert_array_equal(bits(answers), bits(recorded[f"answered{at}"]))


def newton_answers(kind: Any, inputs: Any) -> Any:
    """Learn and predict; the first row has the parameters, the last columns label and weight."""
    (gamma, prior, limit, half_life, clip), samples = inputs[0, :5].tolist(), inputs[1:]
    calibrator = kind(gamma, prior, limit, half_life or None, clip)
    found = []
    for *raw, y, w in samples.tolist():
        if kind is BetaCalibrator:
            found += [calibrator.predict_one(raw[0]), calibrator.predict_one(raw[1])]
            calibrator.learn_one(raw[0], y, w)
            found += calibrator.parameters
        else:
            by_label = dict(enumerate(raw))
            found += calibrator.predict_one(by_label).values()
            calibrator.learn_one(by_label, int(y), w)
            found.append(calibrator.temperature)
    return np.array(found)


@pytest.mark.parametrize("name", ["beta", "temperature"])
def test_newton_steps_are_near_those_recorded(name: str) -> None:
    """Exponentials and logarithms differ by the last bit; the differences must not grow."""
    kind = {"beta": BetaCalibrator, "temperature": TemperatureCalibrator}[name]
    with np.load(RECORDED / f"{name}.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            found = newton_answers(kind, recorded[f"asked{at}"])
            assert_allclose(found, recorded[f"answered{at}"], rtol=1e-9, atol=1e-12)


def platt_answers(inputs: Any) -> Any:
    """Learn and predict; the first row has the parameters, the other ones are samples."""
    (gamma, prior, limit, half_life, calibeating), samples = inputs[0, :5].tolist(), inputs[1:, :3]
    calibrator = PlattCalibrator(
        gamma, prior, limit, half_life=half_life or None, calibeating=int(calibeating)
    )
    found = []
    for score, y, w in samples.tolist():
        found += [calibrator.predict_one(score), calibrator.predict_one(1.0 - score)]
        calibrator.learn_one(score, y, w)
        found += [calibrator.slope, calibrator.intercept]
    return np.array(found)


def hedge_answers(inputs: Any) -> Any:
    """Learn and predict: some labels at once, others with a ticket of earlier, last a batch.

    The first row has the share; further rows are samples, and by how many samples the label is
    late, -1 for no ticket.
    """
    share, samples = float(inputs[0, 0]), inputs[1:]
    members = (
        IdentityCalibrator(),
        PlattCalibrator(),
        IsotonicCalibrator(window=30),
        HistogramCalibrator(10),
    )
    hedge = HedgedCalibrator(members, share=(0.0, share))
    found, tickets = [], []
    for at, (score, y, w, late) in enumerate(samples[:-20].tolist()):
        answer, ticket = hedge.serve_one(score)
        tickets.append((score, ticket))
        if late < 0.0 or at < late:
            hedge.learn_one(score, y, w)
        else:
            old, ticket = tickets[at - int(late)]
            hedge.learn_one(old, y, w, ticket=ticket)
        found += [answer, *hedge.weights.values(), hedge.mean_delay]
    scores, y, w, _ = np.ascontiguousarray(samples[-20:].T)
    batch = hedge.predict_learn_many(scores, y, w)
    return np.concatenate([found, batch, [*hedge.share_weights.values()]])


@pytest.mark.parametrize(("name", "answer"), [("platt", platt_answers), ("hedge", hedge_answers)])
def test_platt_scaling_and_hedges_are_near_those_recorded(name: str, answer: Any) -> None:
    """Exponentials and logarithms differ by the last bit; the differences must not grow."""
    with np.load(RECORDED / f"{name}.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            found = answer(recorded[f"asked{at}"])
            assert_allclose(found, recorded[f"answered{at}"], rtol=1e-9, atol=1e-12)


RANKERS = (
    lambda common, options: CuSumRank(intercept=options[0] > 0.0, l2=options[1], **common),
    lambda common, options: PACuSumRank(
        mode=("PA", "PA-I", "PA-II")[int(options[0])], C=0.25, delta=0.75, l2=options[1], **common
    ),
    lambda common, options: PRank(
        ties=("published", "strict")[int(options[0])], l2=options[1], **common
    ),
    lambda common, options: KernelCuSumRank(
        kernel="polynomial",
        degree=2,
        gamma=0.5,
        budget=int(options[0]) or None,
        drop=("oldest", "smallest")[int(options[1])],
        **common,
    ),
)


def rank_answers(inputs: Any) -> Any:
    """Run a program of rows: operation, label, weight, and four features, NaN if missing.

    Its first row has the learner, how many labels are declared, margin, averaging, window, and two
    options. What was recorded before anything was learned is not answered any more: NaN here.
    """
    (learner, n_labels, margin, averaging, window, *options), *program = inputs.tolist()
    common = {
        "labels": range(int(n_labels)) if n_labels else None,
        "loss": ("absolute", "squared", "zero-one")[len(program) % 3],
        "margin": margin,
        "averaging": {0.0: None, -1.0: "uniform"}.get(averaging, averaging),
        "window": int(window),
    }
    model, found = RANKERS[int(learner)](common, options), []
    for what, y, w, *features in program:
        x = {name: value for name, value in zip("abcd", features, strict=True) if value == value}
        if what == 0:
            found.append(model.predict_one(x))
        elif what == 1:
            p = model.predict_proba_one(x)
            found.extend(p.values() or [None] * int(n_labels))
        else:
            model.learn_one(x, int(y), w)
    if not isinstance(model, KernelCuSumRank):
        rows = np.nan_to_num(inputs[1:, 3:])
        frame = pd.DataFrame(rows, columns=list("abce"))
        model.learn_many(frame, pd.Series(inputs[1:, 1].astype(int)), inputs[1:, 2])
        found.extend(model.predict_many(frame))
        found.extend(np.asarray(model.predict_proba_many(frame)).ravel())
        found.extend(np.ravel([*model.weights.values()]))
        found.extend(model.biases)
    else:
        found.extend(model.counts.ravel())
    return np.array([*found, model.rank_loss, model.n_samples], np.float64)


def test_ranks_are_as_recorded() -> None:
    with np.load(RECORDED / "cusum.npz") as recorded:
        for at in range(len(recorded.files) // 2):
            found = rank_answers(recorded[f"asked{at}"])
            known = ~np.isnan(found)
            assert known.sum() > len(found) / 2
            assert_array_equal(bits(found[known]), bits(recorded[f"answered{at}"][known]))


def test_histograms_have_copies() -> None:
    original = HistogramCalibrator(n_bins=2, half_life=9.0)
    for k in range(100):
        original.learn_one(k % 37 / 37, k % 2)
    twins = copy.deepcopy(original), pickle.loads(pickle.dumps(original))
    for twin in (*twins, HistogramCalibrator.from_bytes(original.to_bytes())):
        twin.learn_one(0.5, 1)
        assert twin._freeze()[1]["cells"].tolist() != original._freeze()[1]["cells"].tolist()
    assert len({twin.predict_one(0.4) for twin in twins}) == 1


# Without those that came later; so did the closed form of precision.
RECORDED_NAMES = tuple(name for name in METRIC_NAMES if name not in ("recall", "specificity"))
METRICS = (*RECORDED_NAMES, AM(zero_division=1), GMean(zero_division="present"), Tversky(0.25, 3.0))
# Methods of sums, products, quotients, roots and comparisons; all others take exponentials, too.
EXACT = ("closed-form", "windows", "leave-one-out", "algorithm-2", "algorithm-1")
NEAR = ("exponential-sums", "branch-and-bound")


def decision_answers(p: Any, history: Any, methods: Any) -> Any:
    """Return the curve, by each method that applies, and the optimum of every metric."""
    found = []
    for metric, method in product(METRICS, methods):
        if (metric, method) == ("precision", "closed-form"):
            continue
        with contextlib.suppress(ValueError):
            curve = utility_curve(p, metric, counts=history, method=method)
            decision = maximize(p, metric, counts=history, method=method)
            found += [curve, [decision.k, decision.expected]]
    return np.concatenate(found)


def table_answers(p: Any, history: Any) -> Any:
    """Return metrics of tables, of one sample, and of labels that don't follow probabilities."""
    found = []
    for metric in METRICS:
        formula = get_metric(metric)
        found += [formula(*table) for table in (history, history[::-1], [0.0] * 4, 97.0 * p[:4])]
        found += [maximize(p[:1], metric, counts=history).expected]
        found += [expected_utility(p, np.arange(len(p)) % 2, metric, counts=history)]
    return np.array(found)


def test_decisions_answer_as_recorded_or_near() -> None:
    with np.load(RECORDED / "decisions.npz") as recorded:
        for at in range(len(recorded.files) // 5):
            p, history = recorded[f"p{at}"], recorded[f"history{at}"]
            assert_array_equal(bits(table_answers(p, history)), bits(recorded[f"tables{at}"]))
            exact = decision_answers(p, history, EXACT if len(p) < 100 else EXACT[:3])
            assert_array_equal(bits(exact), bits(recorded[f"exact{at}"]))
            near = decision_answers(p, history, NEAR)
            assert_allclose(near, recorded[f"near{at}"], rtol=1e-12, atol=1e-15)


def eum_answers(metric: Any, window: Any, half_life: Any, samples: Any) -> tuple[Any, Any]:
    """Learn samples (score, label, weight); return the best threshold at intervals."""
    eum = EUMThreshold(metric, window=window, half_life=half_life)
    found = []
    for at, sample in enumerate(samples):
        eum.learn_one(*sample)
        if at % 7 == 0:
            found += [eum.threshold, eum.utility]
    curve = eum.curve()
    return np.concatenate([found[::2], curve.thresholds]), np.array(
        [*found[1::2], *curve.utilities]
    )


def test_best_thresholds_are_as_recorded() -> None:
    """Utilities but for rounding: the recorded ones took counts as differences of sums.

    A rate that should be 0 was 1e-19 there, so its root, the G-mean, is compared as a square.
    """
    with np.load(RECORDED / "best_thresholds.npz") as recorded:
        for at in range(len(recorded.files) // 3):
            metric, window, half_life = recorded[f"parameters{at}"].tolist()
            asked, answered = recorded[f"asked{at}"], recorded[f"answered{at}"]
            best, utilities = eum_answers(
                metric, int(window) or None, float(half_life) or None, asked
            )
            n_asked = -(-len(asked) // 7)
            before, curve = answered[: 2 * n_asked], answered[2 * n_asked :]
            n = len(curve) // 2
            assert_array_equal(bits(best), bits(np.concatenate([before[::2], curve[:n]])))
            expected = np.concatenate([before[1::2], curve[n:]])
            power = 2 if metric == "gmean" else 1
            assert_allclose(utilities**power, expected**power, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("half_life", [None, 0.5])
@pytest.mark.parametrize("window", [1, 6, 40])
@pytest.mark.parametrize("decades", [0, 3, 55])
def test_a_window_holds_the_sums_of_its_samples(
    window: int, half_life: float | None, decades: int
) -> None:
    """After heavy samples were added and removed, and in copies of any kind."""
    rng = np.random.default_rng(window)
    eum, samples = EUMThreshold("f1", window=window, half_life=half_life), []
    for _ in range(4 * window + 90):
        sample = rng.integers(0, 9) / 9, rng.integers(2), 10.0 ** rng.uniform(-decades, decades)
        eum.learn_one(*sample)
        samples.append(sample)
        eum = rng.choice([eum, copy.deepcopy(eum), pickle.loads(pickle.dumps(eum))])
        eum = rng.choice([eum, EUMThreshold.from_bytes(eum.to_bytes())])
        eum._index.check()
        held: dict[Any, Any] = {}
        for age, (score, y, w) in enumerate(reversed(samples[-window:])):
            fading = 1.0 if half_life is None else 0.5 ** (age / half_life)
            held.setdefault(score, ([], []))[1 - y].append(w * fading)
        scores, positive, negative, growth, _ = eum._index.walk()
        assert scores.tolist() == sorted(held, reverse=True)
        for found, which in ((positive, 0), (negative, 1)):
            sums = [math.fsum(held[score][which]) for score in scores]
            assert_allclose(found / growth, sums, rtol=1e-14, atol=1e-200)


def test_a_window_takes_no_more_memory_than_it_did() -> None:
    """Remainders are dropped with their samples."""
    eum, rng = EUMThreshold("f1", window=50), np.random.default_rng(1)
    scores, labels = rng.integers(0, 20, 3000) / 20, rng.integers(0, 2, 3000)
    eum.learn_many(scores, labels, 10.0 ** rng.uniform(-9, 9, 3000))
    eum.learn_many(np.arange(500.0), np.ones(500))
    fresh = EUMThreshold("f1", window=50)
    fresh.learn_many(np.arange(500.0), np.ones(500))
    assert sys.getsizeof(eum._index) < 2 * sys.getsizeof(fresh._index) + 4_000


def test_trees_of_thresholds_keep_their_order() -> None:
    """Scores ascend, descend and are random, in a window: chunks split, merge and are dropped."""
    rng = np.random.default_rng(5)
    scores = np.concatenate([np.arange(2000.0), -np.arange(2000.0), rng.normal(size=4000) * 1e3])
    labels = rng.integers(0, 2, len(scores)).astype(float)
    for window in (None, 1500):
        eum = EUMThreshold("jaccard", window=window)
        for part in np.array_split(np.arange(len(scores)), 40):
            eum.learn_many(scores[part], labels[part])
            eum._index.check()
            curve = eum.curve()
            assert eum.utility == curve.utilities.max()
            assert eum.threshold in curve.thresholds[curve.utilities == eum.utility]
        live = scores[-(window or len(scores)) :]
        assert_array_equal(curve.thresholds[1:], np.unique(live)[::-1])


@pytest.mark.parametrize("seed", range(20))
def test_pav_equals_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stack, pushed = PAVStack(), list[Any]()
    scores = np.sort(rng.integers(0, 30, 60)).astype(float)
    for x in np.split(scores, np.sort(rng.integers(0, 60, 9))):
        y, w = rng.integers(-3, 4, len(x)).astype(float), rng.integers(1, 4, len(x)).astype(float)
        if len(x) % 2:
            stack.push_many(x, y, w)
        else:
            for sample in zip(x, y, w, strict=True):
                stack.push(*sample)
        pushed += zip(x, y, w, strict=True)
        stack = rng.choice([stack, copy.deepcopy(stack), pickle.loads(pickle.dumps(stack))])
        stack = rng.choice([stack, PAVStack.from_bytes(stack.to_bytes())])
        if pushed:
            blocks = oracles.isotonic_blocks(*zip(*pushed, strict=True))
            stairs = stack.staircase()
            assert_array_equal(stairs.values, [float(block.value) for block in blocks])
            assert_array_equal(stairs.upper, [block.upper for block in blocks])
            assert len(stack) == len(blocks)


def test_read_only_arrays_do() -> None:
    x, w, s = np.arange(4.0), np.ones(4), np.array([0.0, 2.0, 1.0, 4.0])
    for array in (x, w, s):
        array.flags.writeable = False
    assert_array_equal(pav.Stack.of(x, w, s).describe()[0][2], [0.0, 1.5, 4.0])
    assert pav.order_of(x) == pav.INCREASING


@pytest.mark.parametrize("n", [1, 7, 64])
@pytest.mark.parametrize("bad", [math.nan, -math.inf, math.inf, -1.0, 2.0])
def test_a_label_out_of_range_is_found_wherever_it_is(n: int, bad: Any) -> None:
    labels = np.linspace(0.0, 1.0, n)
    assert pav.inside(labels, 0.0, 1.0, True, True)
    assert not pav.inside(labels, 0.0, 1.0, False, True)
    for at in range(n):
        labels[at], good = bad, labels[at]
        assert not pav.inside(labels, 0.0, 1.0, True, True)
        assert pav.inside(labels, -math.inf, math.inf, False, False) == math.isfinite(bad)
        labels[at] = good


def test_a_stack_refuses_samples_that_changed_after_they_were_checked() -> None:
    """Such blocks are not those of labels from 0 to 1."""
    stack = pav.Stack()
    x, y = np.arange(6.0), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    assert stack.extend(x, None, y, 0.0, 1.0)
    before = pickle.dumps(stack)
    for bad in (-0.5, 1.5, 1e300):
        with pytest.raises(ValueError, match="must not be changed while they are learned"):
            stack.extend(x + 6.0, None, np.append(y[:5], bad), 0.0, 1.0)
        assert pickle.dumps(stack) == before
    assert stack.extend(x + 6.0, None, y, 0.0, 1.0)


def test_a_stack_takes_samples_from_many_threads() -> None:
    """The result is that of some order of the calls; here all orders have the same result."""
    stack = pav.Stack()
    halves = np.full(500, 0.5)

    def work(label: Any) -> None:
        for _ in range(40):
            assert stack.push(7.0, 1.0, label)
            assert stack.extend(np.full(500, 7.0), np.ones(500), halves, 0.0, 1.0)
            (lower, upper, _, _, center), finite = stack.describe()
            assert (lower[0], upper[0], center[0], finite) == (7.0, 7.0, 7.0, True)
            assert 0.0 <= stack.find(7.0)[1] <= 1.0

    threads = [threading.Thread(target=work, args=(float(k % 2),)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows, weight, magnitude = stack.state()
    assert rows[:, 2:4].tolist() == [[8 * 40 * 501.0, 8 * 40 * 250.5]]
    assert (weight, magnitude) == (8 * 40 * 501.0, 8 * 40 * 250.5)


def squares(seed: int) -> tuple[Any, Any, Any, Any]:
    """Return labels and weights in score order, the last sample of each score, and the best map."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    x = np.sort(rng.integers(0, rng.choice([3, 30, 1000]), n)).astype(float)
    y, w = rng.integers(-9, 10, n) + x // 10, rng.integers(1, 4, n).astype(float)
    ends = np.append(x[1:] != x[:-1], True).astype(np.uint8)
    stairs = isotonic_fit(x, y, w)
    return y, w, ends, stairs(x, interpolation="step")


def solved(cells: Any, y: Any, w: Any, offset: Any) -> tuple[Any, Any]:
    """Run rounds for the squared loss to the end; return the bounds of each sample."""
    at_hand = np.arange(len(y))
    while cells.n_open:
        if cells.n_open < len(at_hand) // 2:
            at_hand = cells.remove_settled()
            assert cells.n_samples == len(at_hand) == cells.n_open
        z = cells.query_points()
        assert z.shape == (1, room_for(len(at_hand)))
        z = z[0, : len(at_hand)] - offset[at_hand]
        assert cells.split(w[at_hand] * (z - y[at_hand])) == -1
    begins, low, high = cells.bounds()
    counts = np.diff(begins, append=len(y))
    assert begins[0] == 0
    assert (counts > 0).all()
    assert len(cells) == len(begins)
    return np.repeat(low, counts), np.repeat(high, counts)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_cells_close_in_on_the_best_map(seed: int, shifted: bool) -> None:
    y, w, ends, best = squares(seed)
    offset = np.random.default_rng(seed).normal(size=len(y)) if shifted else np.zeros(len(y))
    cells = Cells(ends, offset if shifted else None, y.min(), y.max(), 1e-7, 0.0)
    low, high = solved(cells, y, w, offset)
    assert (low - 1e-12 <= best).all()
    assert (best <= high + 1e-12).all()
    assert (high - low).max() <= 2e-7 * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["near", "far", "random", "one", "infinite"])
@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_for_any_guess(seed: int, kind: str) -> None:
    y, w, ends, best = squares(seed)
    rng = np.random.default_rng(seed)
    begins = np.append(0, np.flatnonzero(ends)[:-1] + 1)
    values = {
        "near": best[begins] + np.sort(rng.normal(size=len(begins))) / 50,
        "far": 1e300 + np.arange(len(begins)),
        "random": np.sort(rng.normal(size=len(begins)) * 9),
        "one": np.zeros(len(begins)),
        "infinite": np.where(np.arange(len(begins)) < 2, -math.inf, math.inf),
    }[kind]
    offset = rng.normal(size=len(y))
    low, high = y.min() - 1.0, y.max() + 1.0
    start = WarmStart(begins, values, ends, offset, low, high, 1e-2)
    for step in range(3):
        start.sides[:] = w * (start.z[:, : len(y)] - offset - y)
        if step < 2:
            assert start.improve(1e-7)
    wrong = start.n_wrong()
    assert kind != "near" or not wrong
    again = start.join()
    assert (wrong > 0) == (len(again) > 0)
    while len(again):
        start.sides[:, again] = w[again] * (start.z[:, again] - offset[again] - y[again])
        again = start.join()
    assert not start.n_wrong()
    floors, ceilings = solved(start.cells(1e-7, 0.0), y, w, offset)
    assert (floors - 1e-12 <= best).all()
    assert (best <= ceilings + 1e-12).all()
    assert (ceilings - floors).max() <= 2e-7 * (1 + 1e-9)


def test_a_guess_without_curvature_stays() -> None:
    ends = np.ones(4, np.uint8)
    start = WarmStart(np.array([0, 2]), np.array([1.0, 2.0]), ends, None, 0.0, 3.0, 0.1)
    inputs = start.z.copy()
    start.sides[:] = [-1.0, 1.0, -1.0, 1.0]
    assert not start.improve(0.01)
    assert_array_equal(start.z, inputs)
    start.sides[:] = math.nan
    assert not start.improve(0.01)
    assert start.n_wrong() == 4


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("tau", [0.2, 0.5])
def test_quantiles_are_the_least_and_the_greatest(seed: int, tau: float) -> None:
    y, w, ends, _ = squares(seed)
    maps = []
    for greatest in (False, True):
        cells = Quantiles(y, w, ends, tau, greatest)
        threads = [threading.Thread(target=cells.run, args=(1000,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        begins, low, high = cells.bounds()
        assert_array_equal(low, high)
        assert (cells.n_open, len(cells)) == (0, len(low))
        maps.append(np.repeat(low, np.diff(begins, append=len(y))))
    groups = np.split(np.arange(len(y)), np.flatnonzero(ends)[:-1] + 1)
    groups = [(y[k].tolist(), w[k].tolist()) for k in groups]
    least, _, greatest = oracles_convex.quantile_maps(groups, tau)
    lasts = np.flatnonzero(ends)
    assert_array_equal(maps[0][lasts], least)
    assert_array_equal(maps[1][lasts], greatest)


def test_cells_refuse_what_does_not_fit() -> None:
    ends, y = np.ones(3, np.uint8), np.zeros(3)
    cells = Cells(ends, None, 0.0, 1.0, 0.1, 0.0)
    for wrong in (
        lambda: cells.split(np.zeros(2)),
        lambda: Cells(ends, np.zeros(2), 0.0, 1.0, 0.1, 0.0),
        lambda: WarmStart(np.array([0, 3]), np.zeros(2), ends, None, 0.0, 1.0, 0.1),
        lambda: WarmStart(np.array([1]), np.zeros(1), ends, None, 0.0, 1.0, 0.1),
        lambda: WarmStart(np.array([0]), np.zeros(2), ends, None, 0.0, 1.0, 0.1),
        lambda: Quantiles(y, y[1:], ends, 0.5, False),
        lambda: Quantiles(y, y, ends[1:], 0.5, False),
        lambda: greatest_quantiles(y, y, 0.5, np.array([2, 1]), np.zeros(2)),
        lambda: greatest_quantiles(y, y, 0.5, np.array([-1]), np.zeros(1)),
        lambda: greatest_quantiles(y, y, 0.5, np.array([0]), np.zeros(2)),
    ):
        with pytest.raises(ValueError, match="must"):
            wrong()
    assert cells.split(np.array([-1.0, math.nan, 1.0])) == 0
    assert cells.bounds()[1].tolist() == [0.0]
    assert sys.getsizeof(cells) > 0
    none = Cells(ends[:0], None, 0.0, 1.0, 0.1, 0.0)
    assert (none.n_open, len(none)) == (0, 0)
    assert Quantiles(y[:0], y[:0], ends[:0], 0.5, True).run(3) == 0


# Input that must raise an error -------------------------------------------------------------------


class Wrong(BetaCalibrator):
    """Predicts batches from a script."""

    answers = np.empty(0)

    def predict_learn_many(self, scores: Any, y: Any, w: Any = None) -> Any:
        return self.answers


@pytest.mark.parametrize(
    "answers",
    [np.full(100_000, 0.5), np.full(3, 0.5), np.full((50, 2), 0.5), np.full(50, math.nan)],
    ids=["more", "fewer", "rows", "NaN"],
)
def test_a_hedge_takes_one_number_for_each_score(answers: Any) -> None:
    hedged = HedgedCalibrator([Wrong(), PlattCalibrator()])
    hedged._calibrators[0].answers = answers  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="one number per score"):
        hedged.predict_learn_many(np.linspace(0, 1, 50), np.ones(50))
    assert hedged.n_samples == 0


def test_a_hedge_that_calls_itself_says_so() -> None:
    class Asking(BetaCalibrator):
        def learn_one(self, score: Any, y: Any, w: float = 1.0) -> None:
            hedged.predict_one(score)

    hedged = HedgedCalibrator([Asking()])
    with pytest.raises(RuntimeError, match="inside one of its calls"):
        hedged.learn_one(0.5, 1)
    assert hedged.predict_one(0.5) == 0.5


# A batch into which another thread writes while it is read: the first and the fifth are samples.
WRITTEN: Any = np.hstack(
    [
        [[0.5, math.nan, 0.2, 0.3, 0.9], [1, 1, math.nan, 7, 0], [1, 1, 1, 1, 1.0]],
        [[0.4, 0.4, 3.0], [1, 0, 1], [math.inf, math.nan, 1]],
        [[0.4, 0.6], [1, 1], [1e300, 1e-300]],
    ]
)


@pytest.mark.parametrize(
    "calibrator",
    [PlattCalibrator(calibeating=7), BetaCalibrator(), HistogramCalibrator(4)],
    ids=lambda calibrator: type(calibrator).__name__,
)
def test_numbers_that_another_thread_wrote_into_a_batch_are_not_learned(calibrator: Any) -> None:
    expert, alone = (calibrator.clone()._kernel for _ in range(2))
    expert.predict_learn_many(*WRITTEN)
    for i in (0, 4):
        alone.learn(*WRITTEN[:, i])
    for mine, other in zip(expert.state(), alone.state(), strict=True):
        assert_array_equal(mine, other)
    assert expert.predict(0.25) == alone.predict(0.25)


def test_a_hedge_does_not_weigh_by_numbers_that_another_thread_wrote() -> None:
    class Overwritten(IdentityCalibrator):
        """Changes the batch after its prediction."""

        def predict_learn_many(self, scores: Any, y: Any, w: Any = None) -> Any:
            answers = super().predict_learn_many(scores, y, w)
            y[1], w[2] = math.nan, math.inf
            return answers

    hedged = HedgedCalibrator([PlattCalibrator(), Overwritten()])
    hedged.predict_learn_many(np.array([0.2, 0.3, 0.4, 0.9]), np.array([0.0, 1, 1, 1]), np.ones(4))
    assert hedged.n_samples == 2
    assert sum(hedged.weights.values()) == pytest.approx(1.0)
    assert 0.0 < hedged.predict_one(0.5) < 1.0


def test_no_python_runs_under_the_lock_of_a_staircase() -> None:
    """A signal handler that ran there and called the same object would wait forever."""
    regression = IsotonicCalibrator(window=50, max_scores=8, half_life=0.2)._regression
    called = []
    sys.setprofile(lambda _, event, what: called.append(event) if event == "call" else None)
    for i in range(300):
        regression.learn(i * 0.37 % 1.0, 1.0, 1.0)
    sys.setprofile(None)
    assert (regression.n_scores, called) == (8, [])
    assert regression.n_merged > 0
    regression.check()


def test_columns_of_different_lengths_are_refused() -> None:
    regression = IsotonicCalibrator()._regression
    long, short = np.ones(9), np.ones(1)
    for columns in ((long, short, short), (long, long, short)):
        with pytest.raises(ValueError, match="as many"):
            regression.predict_learn_many(*columns, False, np.empty((0, 3)))
        with pytest.raises(ValueError, match="as many"):
            pav.Stack.of(*columns)
    for out in (np.empty((1, 3)), np.empty((9, 1))):
        with pytest.raises(ValueError, match="shape"):
            regression.bracket_many(long, False, out)
        with pytest.raises(ValueError, match="shape"):
            regression.predict_learn_many(long, long, long, False, out)
    with pytest.raises(ValueError, match="as many"):
        pav.blend(short, short, long)
    with pytest.raises(ValueError, match="four"):
        histogram.Histogram(1, 1.0, 1.0).restore(np.ones((3, 2)), 1.0)
    with pytest.raises(ValueError, match="six"):
        pav.Stack.restore(np.ones((3, 2)), 1.0, 1.0)


@pytest.mark.parametrize(
    "kind", [Hedge, IsotonicRegression, IsotonicExpert, Cells, WarmStart, Quantiles, Reciprocals]
)
def test_there_are_no_half_made_objects(kind: Any) -> None:
    with pytest.raises(TypeError):
        kind.__new__(kind)


def test_objects_of_nothing_are_refused() -> None:
    with pytest.raises(TypeError):
        IsotonicExpert(None)
    with pytest.raises(ValueError, match="bin"):
        histogram.Histogram(0, 1.0, 1.0)
    with pytest.raises(AssertionError):
        ScoreIndex().check()


def test_a_staircase_takes_read_only_arrays_of_any_layout() -> None:
    array = np.arange(6.0)
    array.flags.writeable = False
    assert Staircase(*(array[::2] for _ in range(5)))([1, 2]).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "learner", [BetaCalibrator(), PlattCalibrator(), PlattCalibrator(calibeating=20)]
)
def test_a_signal_handler_may_use_the_calibrator_whose_state_is_read(learner: Any) -> None:
    """If the lock were held while arrays are made, the handler would wait for it forever."""
    learner.learn_one(0.5, 1)
    answers = set()

    def handle(*_: Any) -> None:
        answers.add((learner.predict_one(0.25), learner.to_bytes()))

    faulthandler.dump_traceback_later(120, exit=True, file=sys.__stderr__)
    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
    try:
        for _ in range(2_000):
            copy.deepcopy(learner)
            learner.to_bytes()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()
    assert answers == {(learner.predict_one(0.25), learner.to_bytes())}


# Rows of CSV --------------------------------------------------------------------------------------


@given(
    text=st.lists(st.sampled_from(["a", "é", '"', ",", "\n", "\r\n", "\r"]), max_size=40).map(
        "".join
    ),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
@settings(deadline=None)
def test_rows_of_csv_in_pieces_are_those_of_the_csv_module(text: str, cuts: list[int]) -> None:
    data = text.encode()
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    state, found = csv_rows.START, []
    for start, stop in pairwise(places):
        rows, state = csv_rows.find_rows(data[start:stop], ord(","), state)
        found += (rows + np.array([start, start, 0])).tolist()
    if state != csv_rows.START:  # the last row has no end
        n_begun, n_cells = state[1:]
        found.append([len(data) - n_begun, len(data), n_cells + 1])
    assert [n_cells for *_, n_cells in found] == [len(row) for row in expected]

    table = np.array(found, np.int64).reshape(-1, 3)
    columns = np.array([0, 2, 3], np.int64)
    for column, (cells, ends) in zip(
        columns, csv_rows.take_cells(data, table, ord(","), columns), strict=True
    ):
        taken = [bytes(cells[a:b]).decode() for a, b in pairwise(ends.tolist())]
        assert taken == [row[column] if column < len(row) else "" for row in expected]
        joined = csv_rows.join_rows(data, table, cells, ends, b";;", b"\r\n")
        copies = [data[a:b].decode() for a, b, _ in found]
        assert joined.decode() == "".join(
            f"{copy};;{cell}\r\n" for copy, cell in zip(copies, taken, strict=True)
        )


@pytest.mark.parametrize("row", [(-1, 2, 1), (0, 5, 1), (3, 2, 1), (2, 2, 1)])
def test_rows_of_csv_that_are_not_in_the_text_are_refused(row: tuple[int, int, int]) -> None:
    rows = np.array([row], np.int64)
    ends, columns = np.array([0, 1], np.int32), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="`rows` must lie in the text"):
        csv_rows.take_cells(b"abcd", rows, ord(","), columns)
    with pytest.raises(ValueError, match="`rows` must lie in the text"):
        csv_rows.join_rows(b"abcd", rows, b"x", ends, b",", b"\n")
    good = np.array([[0, 1, 1]], np.int64)
    for wrong in ([0, 2], [1, 1], [0], [0, -1]):
        with pytest.raises(ValueError, match="`ends` must"):
            csv_rows.join_rows(b"abcd", good, b"x", np.array(wrong, np.int32), b",", b"\n")
    with pytest.raises(ValueError, match="`columns` must increase"):
        csv_rows.take_cells(b"abcd", good, ord(","), np.zeros(2, np.int64))
