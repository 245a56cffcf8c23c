"""States with a correct checksum and wrong content: they must be refused, or work.

This is a script, since it runs with limits: of time (a case that computes longer than `SECONDS`, or
waits for minutes, ends the process; the last line printed names it), of address space, and of the
memory that restoring may allocate for the bytes given. It prints a JSON line for each case that
fails::

    python -m tests.hostile_states N_CASES [CLASS [FIRST_CASE]]
"""

import contextlib
import copy
import functools
import json
import math
import random
import resource
import signal
import sys
import traceback
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from river import compose, linear_model, naive_bayes

import streamcal
from streamcal import (
    BetaCalibrator,
    CalibratedClassifier,
    CalibratedRegressor,
    DecisionClassifier,
    EUMThreshold,
    HedgedCalibrator,
    HistogramCalibrator,
    IsotonicCalibrator,
    PAVStack,
    PlattCalibrator,
    SegmentCalibrator,
    StreamingThresholds,
    TemperatureCalibrator,
    ThresholdClassifier,
    TopLabelCalibrator,
    VennAbersCalibrator,
    _state,
    losses,
)
from streamcal._state import Stateful
from streamcal.calibration.anytime import AnytimeCalibrator
from streamcal.calibration.audited import AuditedCalibrator
from streamcal.calibration.exported import ExportedCalibrator, read_export
from streamcal.calibration.joint import JointCalibrator
from streamcal.calibration.prior_shift import PriorShiftCalibrator
from streamcal.calibration.probability import ProbabilityCalibrator
from streamcal.calibration.tickets import Prediction, Ticket
from streamcal.decision import (
    Metric,
    PredictionSetClassifier,
    ReviewBudget,
    SelectiveClassifier,
    goals,
)
from streamcal.decision._coded_metric import CodedMetric
from streamcal.durable._journal import Journal, learn_again
from streamcal.durable.expiry import Expiry
from streamcal.durable.labels import Event, LabelJoin
from streamcal.durable.timeline import Timeline
from streamcal.losses.ranges import TwoPoint
from streamcal.monitoring import (
    AuditedMean,
    AuditedMetric,
    AuditSampler,
    CalibrationDrift,
    CalibrationTest,
    ForecastComparison,
)
from streamcal.monitoring._bets import Betting
from streamcal.ordinal import CuSumRank, KernelCuSumRank, PACuSumRank, PRank
from streamcal.ordinal._linear import LinearRanker
from streamcal.ordinal._ranks import RankLearner
from tests.invariants import Structure

SECONDS = 20
ADDRESS_SPACE = 2 << 30  # beyond what the process has at the start
ALLOWED, PER_BYTE = 16 << 20, 300

RNG = np.random.default_rng(5)
SCORES = np.round(RNG.random(600), 2).tolist()
WEIGHTS = RNG.uniform(0.1, 3.0, 600).tolist()


class Example(NamedTuple):
    """How to make a learner, how it learns sample ``i``, and the parameters not in its bytes."""

    make: Callable[[], Any]
    teach: Callable[[Any, int], Any]
    given: Callable[[], dict[str, Any]] = dict


def when(learner: Any, n: int | None = None) -> dict[str, Any]:
    """Return a time as a keyword, or those of a batch, if the learner needs it; of its kind."""
    if not getattr(learner, "needs_time", False):
        return {}
    kept = learner.isotonic if isinstance(learner, VennAbersCalibrator) else learner
    t = datetime(2024, 3, 1, tzinfo=UTC)
    time = {"naive": t.replace(tzinfo=None), "aware": t}.get(kept._kind, t.timestamp())
    return {"t": time if n is None else [time] * n}


def timed(learner: Any, i: int) -> None:
    y = float(SCORES[i - 1] < SCORES[i])
    learner.learn_one(SCORES[i], y, WEIGHTS[i], t=60.0 * i)


def timed_late(learner: Any, i: int) -> None:
    ticket = learner.serve_one(SCORES[i]).ticket
    learner.learn_one(SCORES[i], float(i % 2), t=datetime(2024, 3, 1, i % 24), ticket=ticket)


def timed_segments(learner: Any, i: int) -> None:
    x = {"a": i % 7, "b": f"b{i % 40}"}
    learner.learn_one(SCORES[i], float(i % 2), WEIGHTS[i], x=x, t=datetime(2024, 3, 1, i % 24))


def binary(learner: Any, i: int) -> None:
    learner.learn_one(SCORES[i], float(SCORES[i - 1] < SCORES[i]), WEIGHTS[i])


def binary_late(learner: Any, i: int) -> None:
    _, (n_samples, predictions) = learner.serve_one(SCORES[i])
    ticket = Ticket((max(0, n_samples - 3), predictions))  # as if three labels had come in between
    learner.learn_one(SCORES[i], float(SCORES[i - 1] < SCORES[i]), WEIGHTS[i], ticket=ticket)


def segments(learner: Any, i: int) -> None:
    x = {"a": i % 7, "b": f"b{i % 40}"}
    learner.learn_one(SCORES[i], float(SCORES[i - 1] < SCORES[i]), WEIGHTS[i], x=x)


def binary_group(learner: Any, i: int) -> None:
    tickets = [learner.serve_one(score)[1] for score in SCORES[i : i + 3]]
    learner.learn_one(SCORES[i], 1.0)
    learner.learn_group(SCORES[i : i + 3], [float(i % 2)] * 3, WEIGHTS[i], tickets=tickets)


def real(learner: Any, i: int) -> None:
    learner.learn_one(3.0 * SCORES[i], SCORES[i - 1] + SCORES[i], WEIGHTS[i])


def pushed(learner: Any, i: int) -> None:
    learner.push(float(i // 2), SCORES[i], WEIGHTS[i])


def rows(learner: Any, i: int) -> None:
    x = {"a": SCORES[i], 7: SCORES[i - 1], f"only {i % 5}": 1.0}
    learner.learn_one(x, min(3, int(4 * (0.7 * SCORES[i] + 0.3 * SCORES[i - 2]))), WEIGHTS[i])


def raws(learner: Any, i: int) -> None:
    p = SCORES[i]
    raw = {"low": 0.5 * p, "mid": 0.5 * p, ("top", 1): 1.0 - p}
    learner.learn_one(raw, ("low", "mid", ("top", 1))[i % 3], WEIGHTS[i], **when(learner))


def truths(learner: Any, i: int) -> None:
    learner.learn_one({"a": SCORES[i], "b": SCORES[i - 1]}, SCORES[i] > SCORES[i - 2])


def late_truths(learner: Any, i: int) -> None:
    x = {"a": SCORES[i], "b": SCORES[i - 1]}
    selection = learner.serve_one(x)
    if i % 3:  # the others still wait
        learner.learn_one(x, SCORES[i] > SCORES[i - 2], served=selection)


def words(learner: Any, i: int) -> None:
    learner.learn_one({"a": SCORES[i]}, ("low", "mid", "top")[int(2.99 * SCORES[i - 1])])


def ordinals(learner: Any, i: int) -> None:
    learner.learn_one({"a": SCORES[i]}, int(2.99 * SCORES[i - 1]))


def timed_ordinals(learner: Any, i: int) -> None:
    x = {"a": SCORES[i], "b": datetime(2024, 3, 1, i % 24, fold=i % 2)}
    learner.learn_one(x, int(2.99 * SCORES[i - 1]))


def events(join: LabelJoin, i: int) -> None:
    served = None if i % 3 else Prediction(0.25, Ticket((i, (0.25, 0.5))))
    x = None if i % 2 else {"a": i, "b": "é", "c": None}
    join.add(Event(SCORES[i], key=("k", i % 4), id=i, served=served, x=x))
    if i % 2:
        join.add(Event(math.nan, y=1.0, id=i - 1))


def moments(timeline: Timeline, i: int) -> None:
    start, scores = max(timeline.periods().ends, default=0.0), np.array(SCORES[i : i + 100])
    timeline.add(start + 1.0 + np.arange(100), scores, scores**2, scores > 0.5, now=float(i))
    last = timeline.decisions[-1, 0] if len(timeline.decisions) else 0.0
    ends = last + 1.0 + np.arange(100)
    unknown = np.column_stack([ends, scores, np.full(100, np.nan)])
    timeline.serve(unknown, np.column_stack([ends[::2], scores[::2] > 0.5]))
    timeline.updated, timeline.end = float(i), 100 * i


def watched(monitor: CalibrationTest | CalibrationDrift, i: int) -> None:
    monitor.update(i % 3 == 0, SCORES[i], 0.5 if i % 4 else 1.0)


def compared(comparison: ForecastComparison, i: int) -> None:
    comparison.update(i % 3 == 0, SCORES[i], SCORES[i + 1], 0.5 if i % 4 else 1.0)


def chosen(sampler: AuditSampler, i: int) -> None:
    sampler.audit_one((i % 90, "a"), SCORES[i], {"country": "abc"[i % 3] if i % 4 else None})


def budgeted(budget: ReviewBudget, i: int) -> None:
    t = datetime(2024, 3, 1) + timedelta(hours=1.7 * i - 40.0 * (i % 9 == 0))
    budget.ask_one((i % 90, "a"), SCORES[i], t=t)


def audited_labels(calibrator: AuditedCalibrator, i: int) -> None:
    x = {"a": i % 3, "b": str(i % 2)}
    given: Any = {"x": x} if calibrator.fields else {}
    _, ticket = calibrator.serve_one(i % 7 / 7, **given)
    late = ticket if i % 3 else None
    calibrator.learn_one(i % 7 / 7, i % 2, 1.0, ticket=late, propensity=0.5, **given)


def served_late(calibrator: PriorShiftCalibrator, i: int) -> None:
    x = {"a": i % 3, "b": str(i % 2)}
    given: Any = {"x": x} if calibrator.fields else {}
    for j in range(5):  # enough labels that scores count
        _, ticket = calibrator.serve_one((i + j) % 7 / 7, **given)
        calibrator.learn_one((i + j) % 7 / 7, i % 2, ticket=ticket if i % 3 else None, **given)


def audited(mean: AuditedMean, i: int) -> None:
    mean.update(SCORES[i], SCORES[i + 1] if i % 3 == 0 else None, 0.3)


def audited_ratio(metric: AuditedMetric, i: int) -> None:
    metric.update(SCORES[i], i % 2 if i % 3 == 0 else None, 0.3)


def watched_late(test: CalibrationTest, i: int) -> None:
    shares = [{"a": p, "b": 1.0 - p} for p in SCORES[i : i + 3]]
    number = test.add_prediction(shares[0])
    assert number is not None
    if i % 5 == 1:
        test.update_group("a", shares)
    elif number > 1 and i % 3 and i % 5 != 2:
        test.add_label("ab"[i % 2], number - 1)


def expiring(expiry: Expiry, i: int) -> None:
    names = {name for name in expiry.before_mark if len(expiry.before_mark) < 9}
    expiry.count(i % 5)
    expiry.mark, expiry.before_mark = i, {*names, f'key:"k{i}"'}


def logged(journal: Journal, i: int) -> None:
    batches = [({name: list(range(n))}, *each[:3]) for name, n, each in held(journal)]
    groups = {f'key:"k{i % 3}"': [0, 2], f'key:"k{3 + i % 5}"': [1]}
    y = np.array([1.0, 0.0, np.nan if i % 4 else 0.25])
    batches.append((groups, np.array(SCORES[i : i + 3]), y, np.array(WEIGHTS[i : i + 3])))
    names = {name: name for name in [*journal.names, *groups]}
    vars(journal).update(vars(Journal.of(batches, names)))


def logged_with_times(journal: Journal, i: int) -> None:
    batches = [({name: list(range(n))}, *each) for name, n, each in held(journal)]
    groups = {f'key:"k{i % 3}"': [0, 2], f'key:"k{3 + i % 5}"': [1]}
    times = np.arange(3.0 * i, 3.0 * i + 3.0), np.ones(3)
    y = np.array([1.0, 0.0, np.nan if i % 4 else 0.25])
    weights = np.array(WEIGHTS[i : i + 3])
    batches.append((groups, np.array(SCORES[i : i + 3]), y, weights, *times))
    names = {name: name for name in [*journal.names, *groups]}
    vars(journal).update(vars(Journal.of(batches, names)))


def held(journal: Journal) -> list[Any]:
    return [(name, len(each.y), each) for name, each in journal.by_name()]


def use_journal(journal: Journal) -> None:
    for name, samples in journal.by_name():
        assert isinstance(name, str)
        with contextlib.suppress(ValueError):
            learn_again(IsotonicCalibrator(), samples)
        with contextlib.suppress(ValueError):
            learn_again(PlattCalibrator(half_life=timedelta(days=1)), samples)


def nothing(learner: Any, i: int) -> None:
    pass


def labelled(learner: Any, i: int) -> None:
    learner.learn_one(SCORES[i], 1 + min(3, int(4 * SCORES[i - 1])), WEIGHTS[i])


def timed_labels(learner: Any, i: int) -> None:
    label = 1 + min(3, int(4 * SCORES[i - 1]))
    learner.learn_one(SCORES[i], label, WEIGHTS[i], t=datetime(2024, 3, 1, i % 24))


def regressor() -> Any:
    return linear_model.LinearRegression()


def no_dates() -> Any:
    return compose.Discard("b") | regressor()


def logistic() -> Any:
    return linear_model.LogisticRegression()


def of_regressor() -> dict[str, Any]:
    return {"regressor": regressor()}


def of_logistic() -> dict[str, Any]:
    return {"classifier": logistic()}


def of_bayes() -> dict[str, Any]:
    model = naive_bayes.GaussianNB()
    for i in range(60):
        model.learn_one({"a": SCORES[i]}, ("low", "mid", "top")[i % 3])
    return {"classifier": model}


def exported() -> Any:
    calibrator = PlattCalibrator()
    calibrator.learn_one(0.75, 1)
    return read_export(calibrator.export("json"))


EXAMPLES: dict[str, list[Example]] = {
    "AM": [Example(lambda: goals.AM(zero_division="present"), nothing)],
    "AnytimeCalibrator": [
        Example(lambda: AnytimeCalibrator("absolute", window=100, every=30), real),
        Example(lambda: AnytimeCalibrator("absolute", window=timedelta(hours=1), every=30), timed),
        Example(lambda: AnytimeCalibrator(losses.Pinball(tau=0.8), interpolation="step"), real),
    ],
    "BetaCalibrator": [
        Example(lambda: BetaCalibrator(half_life=80.0), binary),
        Example(lambda: BetaCalibrator(half_life=timedelta(hours=1)), timed),
    ],
    "CalibrationDrift": [Example(lambda: CalibrationDrift(50.0), watched)],
    "CalibrationTest": [
        Example(CalibrationTest, watched),
        Example(lambda: CalibrationTest(order="interleaved", horizon=3), watched),
        Example(lambda: CalibrationTest(0.05, None, "interleaved", 2), watched_late),
        Example(lambda: CalibrationTest(0.05, "a", "interleaved", 4), watched_late),
    ],
    "CalibratedClassifier": [
        Example(lambda: CalibratedClassifier(logistic()), truths, of_logistic),
        Example(lambda: CalibratedClassifier(of_bayes()["classifier"]), words, of_bayes),
        Example(
            lambda: CalibratedClassifier(of_bayes()["classifier"], PlattCalibrator()),
            words,
            of_bayes,
        ),
        Example(
            lambda: CalibratedClassifier(of_bayes()["classifier"], TemperatureCalibrator()),
            words,
            of_bayes,
        ),
        Example(
            lambda: CalibratedClassifier(
                logistic(), PlattCalibrator(), drift_detector=CalibrationDrift(50.0)
            ),
            truths,
            of_logistic,
        ),
    ],
    "CalibratedRegressor": [
        Example(lambda: CalibratedRegressor(regressor()), ordinals, of_regressor)
    ],
    "CuSumRank": [
        Example(lambda: CuSumRank(averaging="uniform", window=40), rows),
        Example(lambda: CuSumRank(labels=(0, 1, 2, 3), margin=0.5, window=40), rows),
    ],
    "DecisionClassifier": [
        Example(lambda: DecisionClassifier(logistic(), "f2"), truths, of_logistic),
        Example(
            lambda: DecisionClassifier(logistic(), goals.FBeta(2.0), half_life=30.0),
            truths,
            of_logistic,
        ),
        Example(
            lambda: DecisionClassifier(logistic(), half_life=timedelta(hours=1), time="b"),
            truths,
            of_logistic,
        ),
    ],
    "ExportedCalibrator": [Example(exported, nothing)],
    "EUMThreshold": [
        Example(lambda: EUMThreshold(goals.FBeta(2.0)), binary),
        Example(lambda: EUMThreshold("mcc", window=70, half_life=50.0), binary),
        Example(lambda: EUMThreshold(half_life=timedelta(hours=1)), timed),
        Example(lambda: EUMThreshold(window=timedelta(hours=1)), timed),
    ],
    "SelectiveClassifier": [
        Example(lambda: SelectiveClassifier(logistic()), truths, of_logistic),
        Example(
            lambda: SelectiveClassifier(logistic(), target=0.6, confidence=0.6),
            late_truths,
            of_logistic,
        ),
        Example(
            lambda: SelectiveClassifier(
                logistic(), "precision", 0.6, confidence=0.6, floor=0.5, segments=["b"]
            ),
            truths,
            of_logistic,
        ),
    ],
    "FractionalLinear": [
        Example(lambda: goals.FractionalLinear((0, 2, 0, 0), (0, 0, 1, 1)), nothing)
    ],
    "HedgedCalibrator": [
        Example(lambda: HedgedCalibrator(), binary),
        Example(lambda: HedgedCalibrator(), binary_late),
        Example(lambda: HedgedCalibrator((BetaCalibrator(), IsotonicCalibrator())), binary_late),
        Example(lambda: HedgedCalibrator(), binary_group),
        Example(
            lambda: HedgedCalibrator([PlattCalibrator(half_life=timedelta(days=1))]), timed_late
        ),
        Example(
            lambda: HedgedCalibrator([PlattCalibrator()], share=(0.0, timedelta(days=1))),
            timed_late,
        ),
    ],
    "HistogramCalibrator": [
        Example(lambda: HistogramCalibrator(2, half_life=100.0), binary),
        Example(lambda: HistogramCalibrator(), binary),
        Example(lambda: HistogramCalibrator(half_life=timedelta(hours=1)), timed),
    ],
    "AuditSampler": [
        Example(lambda: AuditSampler(0.3, secret="s", fields=["country"], remember=50), chosen)
    ],
    "AuditedMean": [Example(lambda: AuditedMean(high=2.0), audited)],
    "AuditedMetric": [Example(lambda: AuditedMetric("recall"), audited_ratio)],
    "ReviewBudget": [Example(lambda: ReviewBudget(5, remember=50), budgeted)],
    "ForecastComparison": [Example(ForecastComparison, compared)],
    "IsotonicCalibrator": [
        Example(lambda: IsotonicCalibrator(), binary),
        Example(lambda: IsotonicCalibrator("squared", window=90), real),
        Example(lambda: IsotonicCalibrator("squared", max_scores=150), real),
        Example(lambda: IsotonicCalibrator(losses.Tweedie(power=1.2), half_life=30.0), real),
        Example(lambda: many_scores(), real),
        Example(lambda: IsotonicCalibrator(window=timedelta(hours=1)), timed),
        Example(lambda: IsotonicCalibrator(half_life=timedelta(hours=1)), timed),
    ],
    "Journal": [Example(Journal, logged), Example(Journal, logged_with_times)],
    "KernelCuSumRank": [
        Example(lambda: KernelCuSumRank(budget=12, window=40), rows),
        Example(
            lambda: KernelCuSumRank(
                (0, 1, 2, 3), kernel="polynomial", averaging=20.0, window=40, drop="smallest"
            ),
            rows,
        ),
    ],
    "LabelJoin": [Example(lambda: LabelJoin(20), events)],
    "Metric": [Example(lambda: Metric(profit), nothing, lambda: {"phi": profit})],
    "PACuSumRank": [Example(lambda: PACuSumRank(window=50), rows)],
    "PAVStack": [
        Example(lambda: PAVStack("squared"), pushed),
        Example(lambda: PAVStack("log", interpolation="step"), pushed),
        Example(lambda: PAVStack(losses.Pinball(tau=0.8)), pushed),
        Example(lambda: PAVStack("absolute", interpolation="step"), pushed),
    ],
    "PRank": [Example(lambda: PRank(averaging=20.0, window=40), rows)],
    "PlattCalibrator": [
        Example(lambda: PlattCalibrator(gamma=0.2), binary),
        Example(lambda: PlattCalibrator(calibeating=7, half_life=50.0), binary),
        Example(lambda: PlattCalibrator(calibeating=7, half_life=timedelta(hours=1)), timed),
    ],
    "AuditedCalibrator": [
        Example(lambda: AuditedCalibrator(floor=0.1), audited_labels),
        Example(
            lambda: AuditedCalibrator(SegmentCalibrator(("a", "b"), base=PlattCalibrator())),
            audited_labels,
        ),
    ],
    "PredictionSetClassifier": [
        Example(lambda: PredictionSetClassifier(logistic(), 0.8, score="aps"), truths, of_logistic),
        Example(lambda: PredictionSetClassifier(of_bayes()["classifier"]), words, of_bayes),
    ],
    "PriorShiftCalibrator": [
        Example(PriorShiftCalibrator, served_late),
        Example(
            lambda: PriorShiftCalibrator(SegmentCalibrator(("a", "b"), base=PlattCalibrator())),
            served_late,
        ),
    ],
    "SegmentCalibrator": [
        Example(lambda: SegmentCalibrator(("a", "b")), segments),
        Example(lambda: SegmentCalibrator(("a", "b"), half_life=timedelta(days=9)), timed_segments),
        Example(
            lambda: SegmentCalibrator(
                ("a", "b"), crosses=(("a", "b"),), base=PlattCalibrator(), max_terms=20
            ),
            segments,
        ),
    ],
    "StreamingThresholds": [
        Example(lambda: StreamingThresholds(4), labelled),
        Example(lambda: StreamingThresholds(4, "squared", window=60), labelled),
        Example(lambda: StreamingThresholds(4, "zero-one", half_life=40), labelled),
        Example(lambda: StreamingThresholds(4, half_life=timedelta(hours=1)), timed_labels),
        Example(lambda: StreamingThresholds(4, "zero-one", window=timedelta(1)), timed_labels),
        Example(lambda: StreamingThresholds(10, "zero-one"), labelled),
        Example(
            lambda: StreamingThresholds(4, losses.CostTable((1 - np.eye(4)).tolist())), labelled
        ),
    ],
    "TemperatureCalibrator": [
        Example(lambda: TemperatureCalibrator(), raws),
        Example(lambda: TemperatureCalibrator(half_life=timedelta(hours=1)), raws),
    ],
    "ThresholdClassifier": [
        Example(
            lambda: ThresholdClassifier(regressor(), window=80, every=40), ordinals, of_regressor
        ),
        Example(
            lambda: ThresholdClassifier(regressor(), labels=(0, 1, 2), window=60, every=None),
            ordinals,
            of_regressor,
        ),
        Example(
            lambda: ThresholdClassifier(no_dates(), window=timedelta(hours=2), every=40, time="b"),
            timed_ordinals,
            lambda: {"regressor": no_dates()},
        ),
    ],
    "TopLabelCalibrator": [
        Example(lambda: TopLabelCalibrator(), raws),
        Example(lambda: TopLabelCalibrator(IsotonicCalibrator(window=50)), raws),
    ],
    "Expiry": [Example(lambda: Expiry(7), expiring)],
    "Timeline": [Example(Timeline, moments)],
    "Tversky": [Example(lambda: goals.Tversky(0.3, 0.7), nothing)],
    "VennAbersCalibrator": [
        Example(lambda: VennAbersCalibrator(), binary),
        Example(lambda: VennAbersCalibrator(window=90, half_life=30.0), binary),
        Example(lambda: VennAbersCalibrator(window=timedelta(hours=2)), timed),
    ],
}
AMOUNTS = (0, 1, 2, 40, 300)  # of samples taught


def many_scores() -> IsotonicCalibrator:
    """Return a calibrator whose tree has several nodes."""
    calibrator = IsotonicCalibrator("squared", half_life=5_000.0)
    rng = np.random.default_rng(3)
    scores = rng.random(1_500)
    for score, y in zip(scores.tolist(), (scores + rng.normal(size=1_500)).tolist(), strict=True):
        calibrator.learn_one(score, y)
    return calibrator


def profit(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    return 5.0 * tp - fp


BASES = (Betting, CodedMetric, LinearRanker, RankLearner)  # of classes that have bytes


@functools.cache
def classes() -> dict[str, type[Stateful]]:
    """Return the concrete classes of the package that have bytes, by name."""
    found = {}
    for module in walk_packages(streamcal.__path__, "streamcal."):
        if module.name.startswith(("streamcal.kernels", "streamcal.spark")):
            continue
        for thing in vars(import_module(module.name)).values():
            own = isinstance(thing, type) and thing.__module__ == module.name
            if own and issubclass(thing, Stateful) and not thing.__name__.startswith("_"):
                made = thing._freeze is not Stateful._freeze
                abstract = getattr(thing, "__abstractmethods__", None) or thing in BASES
                if made and not abstract:
                    found[thing.__name__] = thing
    return found


def examples(name: str) -> list[Example]:
    """Return the examples of a class; a class without parameters needs none."""
    return EXAMPLES.get(name) or [Example(classes()[name], nothing)]


# Mutations ----------------------------------------------------------------------------------------

Header = dict[str, Any]
Parts = dict[str, np.ndarray]

DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]
VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 7, 100, 1000, 10**6, 10**9, 10**12, 2**63, 10**30),
    *(10**400, -(10**12), 0.5, 3.0, 3.5, -0.5, 1e-300, 5e-324, 1e16, 1e200, 1.7e308, -1e308),
    *(math.nan, math.inf, -math.inf, "", "x", "squared", "log", "logistic", "poisson", "absolute"),
    *("step", "linear", "zero-one", "oldest", "rbf", "f1", "present"),
    *([], [[]], [1], [None], [math.nan], {}, {"a": 1}, {"tuple": [1, 2]}, {"list": ["a", "b"]}),
    *({"tuple": [{"list": []}]}, {"state": "00"}, {"state": 3}, {"function": "f"}),
    *({"loss": ["log", {}]}, {"loss": ["tweedie", {"power": 1.5}]}, {"loss": "log"}),
    *({"task": ["absolute", {}]}, {"tuple": [0.0, 0.01]}, {"tuple": 5}, DEEP),
]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-300, 5e-324, 1e9, 1e60, 1e200, 1.7e308, -1.7e308]
NUMBERS += [math.nan, math.inf, -math.inf, -(2.0**62), 1e-60]
INTEGERS = [0, 1, -1, 2, 3, 64, 127, 128, 129, 255, 2**31 - 1, 2**31, 2**62, -(2**63)]


class Mutant:
    """Changes a state at random, and records the changes."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.done: list[str] = []

    def mutate(self, data: bytes, depth: int = 0) -> bytes:
        """Return a state with one thing or a few changed, and the right checksum."""
        state = _state.decode_body(data) if depth else _state.decode(data)
        kind, fields = state.kind, copy.deepcopy(state.fields)
        parts: Parts = dict(state.arrays)
        inside = [name for name, part in parts.items() if part.dtype == np.uint8]
        hexed = nested(fields)
        for _ in range(self.rng.choice((1, 1, 1, 1, 2, 3))):
            draw = self.rng.random()
            if inside and depth < 4 and draw < 0.4:
                name = self.rng.choice(inside)
                parts[name] = _state.nest(self._inner(parts[name].tobytes(), depth, name))
            elif hexed and depth < 4 and draw < 0.5:
                path = self.rng.choice(hexed)
                inner = bytes.fromhex(at(fields, path[:-1])["state"])
                at(fields, path[:-1])["state"] = self._parameter(inner).hex()
                hexed = []
            elif draw < 0.75 and parts:
                self._part(parts)
            elif draw < 0.97:
                self._field(fields)
            else:
                return self._raw(kind, fields, parts, depth)
            inside = [n for n in inside if n in parts and parts[n].dtype == np.uint8]
            hexed = nested(fields)
        body = _state.encode_body(kind, fields, parts)
        return body if depth else _state.seal(body)

    def _inner(self, data: bytes, depth: int, name: str) -> bytes:
        try:
            _state.decode_body(data)
        except ValueError:
            return data[:-1]
        self.done.append(f"in {name}:")
        return self.mutate(data, depth + 1)

    def _parameter(self, data: bytes) -> bytes:
        """Change the state of a parameter, which has a checksum of its own."""
        try:
            _state.decode(data)
        except ValueError:
            return data[:-1]
        self.done.append("in a parameter:")
        return self.mutate(data)

    def _field(self, fields: Header) -> None:
        rng = self.rng
        if rng.random() < 0.03:  # all of them at random
            for path in list(paths(fields)):
                if rng.random() < 0.3 and reachable(fields, path):
                    at(fields, path[:-1])[path[-1]] = copy.deepcopy(rng.choice(VALUES))
            self.done.append("fields at random")
            return
        path = rng.choice(list(paths(fields)) or [("extra",)])
        fields.setdefault("extra" if path == ("extra",) else path[0], None)
        above, last = at(fields, path[:-1]), path[-1]
        old, draw = above[last], rng.random()
        if draw < 0.1:
            del above[last]
            self.done.append(f"{path} deleted")
        elif draw < 0.15 and isinstance(above, list):
            above.insert(rng.randrange(len(above) + 1), copy.deepcopy(old))
            self.done.append(f"{path} twice")
        elif draw < 0.2 and isinstance(above, list):
            rng.shuffle(above)
            self.done.append(f"{path[:-1]} shuffled")
        elif draw < 0.23 and isinstance(above, dict):
            above["extra"] = copy.deepcopy(rng.choice(VALUES))
            self.done.append(f"{path[:-1]} has more")
        elif draw < 0.4 and type(old) in (int, float) and abs(old) < 1e300:
            above[last] = rng.choice((old + 1, old - 1, -old, old * 2, float(old), old * 0.5))
            self.done.append(f"{path} = {above[last]!r}")
        else:
            above[last] = copy.deepcopy(rng.choice(VALUES))
            self.done.append(f"{path} = {str(above[last])[:60]}")

    def _part(self, parts: Parts) -> None:
        rng = self.rng
        name = rng.choice(list(parts))
        part, draw = parts[name].copy(), rng.random()
        flat = part.reshape(-1)
        if draw < 0.5 and part.size:
            where = rng.randrange(part.size)
            if part.dtype == np.float64:
                new: Any = rng.choice(
                    [*NUMBERS, -flat[where], flat[where] * (1 + 1e-12)] * 2
                    + [flat[where] + 1, flat[where] * 0.5, flat[where - 1]]
                )
            elif part.dtype == np.int64:
                new = rng.choice([*INTEGERS, int(flat[where]) + 1, int(flat[where]) - 1])
                new = max(min(new, 2**63 - 1), -(2**63))
            else:
                new = rng.randrange(256)
            flat[where] = new
            self.done.append(f"{name}[{where}] = {new!r}")
        elif draw < 0.56 and part.size > 1:
            i, j = rng.randrange(part.size), rng.randrange(part.size)
            flat[i], flat[j] = flat[j], flat[i]
            self.done.append(f"{name}: {i} and {j} swapped")
        elif draw < 0.62 and part.ndim and len(part):
            part = part[: rng.randrange(len(part))]
            self.done.append(f"{name} cut to {len(part)}")
        elif draw < 0.68 and part.ndim:
            part = np.concatenate([part, part[: rng.randrange(1, len(part) + 2)]])
            self.done.append(f"{name} made longer, {part.shape}")
        elif draw < 0.74 and part.ndim and len(part) > 1:
            part = part[rng.sample(range(len(part)), len(part))]
            self.done.append(f"{name} permuted")
        elif draw < 0.8:
            part = rng.choice((part.reshape(-1), part.T, part[None], part[..., None]))
            self.done.append(f"{name} has the shape {part.shape}")
        elif draw < 0.86:
            with np.errstate(all="ignore"):
                part = part.astype(rng.choice((np.float64, np.int64, np.uint8)))
            self.done.append(f"{name} as {part.dtype}")
        elif draw < 0.9:
            part = np.zeros(rng.choice(((0,), (0, 3), (0, 10**12), (), (1,), (3, 3))))
            self.done.append(f"{name} = zeros {part.shape}")
        elif draw < 0.94:
            del parts[name]
            self.done.append(f"no {name}")
            return
        elif draw < 0.97:
            parts["extra"] = part
            self.done.append("one more array")
        else:
            other = rng.choice(list(parts) or [name])
            part = parts[other]
            self.done.append(f"{name} is {other}")
        parts[name] = part

    def _raw(self, kind: str, fields: Header, parts: Parts, depth: int) -> bytes:
        """Break the frame of a state, or put it under the name of another class."""
        rng = self.rng
        parameters = fields.get("parameters", {})
        head: Any = {"kind": kind, "parameters": parameters}
        what = rng.randrange(4)
        body = bytearray(_state.encode_body(kind, {**fields, "parameters": parameters}, parts))
        if what == 0:
            head["kind"] = rng.choice([*classes(), "Stateful", "Calibrator", None, 5, "x"])
        elif what == 1:
            head[rng.choice(list(head))] = rng.choice(VALUES)
        elif what == 2:
            head = rng.choice(VALUES)
        if what < 3:
            others = {name: value for name, value in fields.items() if name != "parameters"}
            fields = rng.choice([others, others, rng.choice(VALUES)])
            body = bytearray(_state.format.body_of(json.dumps(head).encode(), fields, parts))
            self.done.append(f"raw {str(head)[:100]}")
        else:  # a byte of the lengths, or of the list of arrays
            start = len(_state.MAGIC) + 1
            n_head, n_fields, n_list = np.frombuffer(body, "<u4", 3, start).tolist()
            texts = start + 12 + n_head + n_fields
            where = rng.choice(
                [rng.randrange(start, start + 12), texts + rng.randrange(n_list + 1)]
            )
            where = min(where, len(body) - 1)
            body[where] = rng.choice([0, 1, 2, 7, 8, 9, 102, 105, 117, 127, 128, 255])
            self.done.append(f"raw: byte {where} is {body[where]}")
        return bytes(body) if depth else _state.seal(bytes(body))


def paths(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each node of a JSON tree but the root."""
    if len(above) > 12:
        return
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, key))


def nested(fields: Header) -> list[tuple[Any, ...]]:
    """Return the paths of the states among fields."""
    found = (path for path in paths(fields) if path[-1] == "state")
    return [path for path in found if is_hex(at(fields, path))]


def is_hex(value: Any) -> bool:
    try:
        return isinstance(value, str) and bytes.fromhex(value) != b""
    except ValueError:
        return False


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def reachable(tree: Any, path: tuple[Any, ...]) -> bool:
    try:
        at(tree, path)
        return isinstance(at(tree, path[:-1]), dict | list)
    except (LookupError, TypeError):
        return False


# Use ----------------------------------------------------------------------------------------------


def allowed(condition: bool, action: Callable[[], Any]) -> Any:
    """Call a function that may raise ``ValueError`` only if a condition holds."""
    try:
        return action()
    except ValueError:
        if not condition:
            raise
        return None


def use(learner: Any) -> None:
    """Use a learner in all ways; raise if one fails."""
    repr(learner)
    if isinstance(learner, IsotonicCalibrator):
        use_isotonic(learner)
    elif isinstance(learner, VennAbersCalibrator):
        use_venn_abers(learner)
    elif isinstance(learner, AnytimeCalibrator):
        use_anytime(learner)
    elif isinstance(learner, SegmentCalibrator):
        use_segments(learner)
    elif isinstance(learner, AuditedCalibrator):
        for i in range(3):
            audited_labels(learner, i)
        assert 0.0 <= learner.predict_one(0.3, {"a": 1}) <= 1.0
    elif isinstance(learner, PriorShiftCalibrator):
        for i in range(3):
            served_late(learner, i)
        assert learner.prior is None or 0.0 < learner.prior < 1.0
        assert 0.0 <= learner.predict_one(0.3, {"a": 1}) <= 1.0
    elif isinstance(learner, ExportedCalibrator):
        assert np.isfinite(learner.predict_many(GRID)).all()
        assert learner.predict_one(0.3) == learner.predict_many([0.3])[0]
    elif isinstance(learner, ProbabilityCalibrator):
        use_probability(learner)
    elif isinstance(learner, JointCalibrator):
        for raw in ({"low": 0.2, "mid": 0.5, ("top", 1): 0.3}, {"a": 1.0}, {}):
            check_shares(learner.predict_one(raw))
            learner.learn_one(raw, "mid", 0.5, **when(learner))
            check_shares(learner.predict_one(raw))
    elif isinstance(learner, PAVStack):
        use_stack(learner)
    elif isinstance(learner, RankLearner):
        use_ranks(learner)
    elif isinstance(learner, StreamingThresholds):
        use_thresholds(learner)
    elif isinstance(learner, EUMThreshold):
        for i in range(4):
            assert not math.isnan(learner.threshold)
            assert not math.isnan(learner.utility)
            assert learner.predict_one(0.4) in (None, False, True)
            learner.predict_many([0.1, 0.5])
            learner.curve()
            learner.learn_one(SCORES[i], i % 2, WEIGHTS[i], **when(learner))
        learner.learn_many(SCORES[:30], [1, 0] * 15, **when(learner, 30))
    elif isinstance(learner, Metric):
        assert math.isfinite(learner(3, 1, 2, 4))
        assert math.isfinite(learner(0, 0, 0, 0))
        assert learner == learner
        assert isinstance(hash(learner), int)
    elif isinstance(learner, LabelJoin):
        for i in range(30):
            assert learner.n_waiting >= 0
            learner.add(Event(0.5, id=i))
            learner.add(Event(math.nan, y=1.0, id=i - 3))
            learner.add(Event(math.nan, y=1.0, id=("k", i)))
    elif isinstance(learner, Journal):
        use_journal(learner)
    elif isinstance(learner, CalibrationTest):
        assert 0.0 <= learner.p_value <= 1.0
        assert learner.since is None or 0 <= learner.since <= learner.n_samples
        for i in range(40):
            event = "a" if learner.pos_val is None else learner.pos_val
            if learner.order == "arrival" or i % 3:
                learner.update(event, {event: SCORES[i]})
                learner.update_group(event, [{event: SCORES[i]}] * 2)
            else:
                learner.add_label(event, learner.add_prediction({event: SCORES[i]}))
            assert not math.isnan(learner.log_e_value)
            assert 0 <= learner.n_late <= learner.n_samples
    elif isinstance(learner, CalibrationDrift):
        for i in range(60):
            learner.update(learner.pos_val, {learner.pos_val: SCORES[i]})
            assert not math.isnan(learner.log_statistic)
            assert learner.since is None or 0 <= learner.since <= learner.n_samples
    elif isinstance(learner, AuditSampler):
        for i in range(60):
            audit = learner.audit_one(i, SCORES[i], dict.fromkeys(learner.fields, i % 3))
            assert 0.0 < audit.propensity <= 1.0
        assert learner.n_asked <= learner.n_samples
    elif isinstance(learner, ReviewBudget):
        t = when(learner)["t"]
        for days in range(12):
            later = t + (86_400.0 * days if isinstance(t, float) else timedelta(days=days))
            asks = [learner.ask_one((days, i), SCORES[i], t=later) for i in range(20)]
            assert sum(asks) <= learner.per_day
        assert learner.n_asked <= learner.n_samples
    elif isinstance(learner, AuditedMean):
        for i in range(20):
            learner.update(learner.low, learner.high if i % 3 == 0 else None, 0.7)
            for low, high in (learner.interval_once, learner.interval_always):
                assert learner.low <= low <= high <= learner.high
            assert learner.low <= learner.mean <= learner.high
    elif isinstance(learner, AuditedMetric):
        for i in range(20):
            learner.update(SCORES[i], i % 2 if i % 3 == 0 else None, 0.7)
            for low, high in (learner.interval_once, learner.interval_always):
                assert low <= high
            assert not math.isnan(learner.value)
    elif isinstance(learner, ForecastComparison):
        assert learner.interval[0] <= learner.interval[1]
        for i in range(40):
            learner.update(learner.pos_val, {learner.pos_val: SCORES[i]}, {learner.pos_val: 0.5})
            assert not any(map(math.isnan, [learner.mean, *learner.interval]))
    elif isinstance(learner, Expiry):
        assert 0 < learner.n_left <= learner.expire_after
        assert learner.to_save(9).before_mark == learner.before_mark
        learner.count(learner.n_left)
        assert learner.n_left == learner.expire_after
    elif isinstance(learner, Timeline):
        n = learner.periods().n.sum()
        for i in range(30):
            moments(learner, i)
        assert learner.periods().n.sum() == n + 3_000
        assert len(learner.recent) == 2_000
        assert len(learner.decisions) == 1_000
        assert np.isnan(learner.decisions[:, 2]).sum() == 500
    else:
        use_wrapper(learner)


def check_shares(shares: dict[Any, float]) -> None:
    assert all(0.0 <= p <= 1.0 for p in shares.values()), shares
    assert not shares or abs(sum(shares.values()) - 1.0) < 1e-6, shares


GRID = np.linspace(0.0, 1.0, 41)


def use_probability(learner: Any) -> None:
    for i in range(6):
        assert 0.0 <= learner.predict_one(SCORES[i]) <= 1.0, learner.predict_one(SCORES[i])
        learner.learn_one(SCORES[i], i % 2, WEIGHTS[i], **when(learner))
    values = learner.predict_many(GRID)
    assert ((values >= 0.0) & (values <= 1.0)).all(), values
    learner.learn_many(SCORES[:40], np.arange(40) % 2, **when(learner, 40))
    samples = SCORES[:20], np.arange(20) % 2, WEIGHTS[:20]
    values = learner.predict_learn_many(*samples, **when(learner, 20))
    assert ((values >= 0.0) & (values <= 1.0)).all(), values
    assert 0.0 <= learner.snapshot().predict_one(0.3) <= 1.0
    for name in ("slope", "intercept", "weights", "share_weights", "parameters"):
        found = getattr(learner, name, 0.0)
        numbers = found.values() if isinstance(found, dict) else np.ravel(found)
        assert all(map(math.isfinite, numbers)), (name, found)
    if isinstance(learner, HedgedCalibrator):
        _, ticket = learner.serve_one(0.4)
        learner.learn_one(0.4, 1.0, ticket=ticket, **when(learner))
        learner.learn_group([0.2, 0.4], [0.0, 1.0], **when(learner))


def use_segments(learner: SegmentCalibrator) -> None:
    for i in range(60):
        x = {"a": i % 9, "b": f"b{i}", "c": None}
        p, ticket = learner.serve_one(SCORES[i], x)
        assert 0.0 <= p <= 1.0, p
        given = {"x": x, "ticket": ticket, **when(learner)}
        learner.learn_one(SCORES[i], i % 2, WEIGHTS[i], **given)
        assert 0.0 <= learner.predict_one(SCORES[i], x) <= 1.0
        assert all(math.isfinite(effect.deviation) for effect in learner.explain_one(x))
    columns = {"a": list(range(40)), "b": ["b"] * 40}
    given = {"x": columns, **when(learner, 40)}
    values = learner.predict_learn_many(SCORES[:40], np.arange(40) % 2, **given)
    assert ((values >= 0.0) & (values <= 1.0)).all(), values
    assert learner.n_terms <= learner.max_terms


def label_of(loss: losses.Loss, i: int) -> float:
    """Return a label in the range of a loss."""
    if isinstance(loss.y_range, TwoPoint):
        return loss.y_range.high if i % 2 else loss.y_range.low
    return loss.y_range.clip(float(i % 2))


def rising(values: np.ndarray, slack: float = 0.0) -> bool:
    return bool((values[1:] >= values[:-1] - slack).all())


def use_isotonic(learner: IsotonicCalibrator) -> None:
    loss = learner._loss
    Structure(learner).check()
    for i in range(8):
        score, y = SCORES[i], label_of(loss, i)
        value = learner.predict_one(score)
        assert loss.z_range.low <= value <= loss.z_range.high, value
        learner.learn_one(score, y, WEIGHTS[i], **when(learner))
        if i % 2:
            learner.unlearn_one(score, y, WEIGHTS[i])
    Structure(learner).check()
    scores, weights, sums = learner.samples()
    assert np.isfinite(weights).all()
    assert np.isfinite(sums).all()
    values = learner.predict_many(np.linspace(-1.0, 4.0, 41))
    size = np.abs(values[np.isfinite(values)]).max(initial=1.0)
    assert not np.isnan(values).any()
    assert rising(values, 1e-9 * size), values
    learner.staircase()
    learner.snapshot().predict_one(0.3)
    for score, weight, total in zip(scores[:5], weights, sums, strict=False):
        label = allowed(True, lambda: loss.link(float(total / weight)))  # noqa: B023
        if label is not None and learner.window is None:
            allowed(True, lambda: learner.unlearn_one(score, label, weight))  # noqa: B023
    scores = learner.samples()[0]
    inside = len(scores) and scores[0] >= 0.0 and scores[-1] <= 1.0
    allowed(not isinstance(loss, losses.Log) or not inside, learner.corp)
    labels = [label_of(loss, i) for i in range(60)]
    learner.predict_learn_many(SCORES[:60], labels, WEIGHTS[:60], **when(learner, 60))
    learner.learn_many(SCORES[:60], labels, WEIGHTS[:60], **when(learner, 60))
    if learner.window is None:
        learner.merge(copy.deepcopy(learner))
    Structure(learner).check()
    assert learner.n_samples >= 0
    assert learner.n_merged >= 0


def use_venn_abers(learner: VennAbersCalibrator) -> None:
    for i in range(8):
        p0, p1 = learner.predict_interval_one(SCORES[i])
        assert p0 <= p1 + 1e-9, (p0, p1)
        assert 0.0 <= learner.predict_one(SCORES[i]) <= 1.0
        learner.learn_one(SCORES[i], i % 2, WEIGHTS[i], **when(learner))
        if i % 2:
            learner.unlearn_one(SCORES[i], i % 2, WEIGHTS[i])
    samples = SCORES[:20], np.arange(20) % 2, WEIGHTS[:20]
    learner.predict_learn_many(*samples, **when(learner, 20))
    learner.snapshot().predict_one(0.3)
    if learner.window is None:
        learner.merge(copy.deepcopy(learner))
    use_isotonic(learner.isotonic)


def use_anytime(learner: AnytimeCalibrator) -> None:
    loss = learner._loss
    for i in range(6):
        assert not math.isnan(learner.predict_one(SCORES[i]))
        learner.learn_one(SCORES[i], label_of(loss, i), WEIGHTS[i], **when(learner))
    allowed(learner._staircase is None, learner.staircase)
    learner.solve()
    assert rising(learner.predict_many(GRID))
    labels = [label_of(loss, i) for i in range(50)]
    learner.predict_learn_many(SCORES[:50], labels, **when(learner, 50))
    learner.snapshot().predict_one(0.3)
    assert learner.half_width >= 0.0


def use_stack(learner: PAVStack) -> None:
    loss = learner._loss
    allowed(not len(learner), learner.staircase)
    last = max(learner.staircase().upper[-1], 0.0) if len(learner) else 0.0
    for i in range(6):
        score = min(last + i // 2, 1.7e308)
        learner.push(score, label_of(loss, i), WEIGHTS[i])
        value = learner.predict_one(SCORES[i])
        assert loss.z_range.low <= value <= loss.z_range.high, value
    scores = [min(last + 3.0 + i, 1.7e308) for i in range(40)]
    learner.push_many(scores, [label_of(loss, i) for i in range(40)])
    assert len(learner) == len(learner.staircase())
    values = np.array([learner.predict_one(x) for x in np.linspace(-2.0, last + 50.0, 41)])
    assert rising(values, 1e-9 * np.abs(values[np.isfinite(values)]).max(initial=1.0))


def use_ranks(learner: Any) -> None:
    known = list(learner.known_labels)
    label = known[0] if known else 1
    for i in range(4):
        x = {"a": SCORES[i], 7: 0.5, "new": float(i)}
        answer = learner.predict_one(x)
        assert answer is None or answer in learner.known_labels
        check_shares(learner.predict_proba_one(x))
        learner.learn_one(x, known[i % len(known)] if known else label, WEIGHTS[i])
    if learner.labels is None and not isinstance(learner.known_labels[0], str):
        learner.learn_one({"a": 0.5}, 77, 1.0)
        learner.learn_one({"a": 0.5}, -77, 1.0)
        check_shares(learner.predict_proba_one({"a": 0.5, "other": 1.0}))
    for name in ("weights", "biases", "counts", "thresholds"):
        found = getattr(learner, name, None)
        parts = found.values() if isinstance(found, dict) else [found]
        assert all(part is None or np.isfinite(part).all() for part in parts), (name, found)
    if hasattr(learner, "learn_many"):
        frame = pd.DataFrame({"a": SCORES[:5], "b": SCORES[5:10]})
        y = pd.Series([learner.known_labels[0]] * 5, name="y", dtype=object)
        learner.learn_many(frame, y)
        learner.predict_many(frame)
        learner.predict_proba_many(frame)
    assert learner.n_samples > 0
    assert learner.rank_loss >= 0.0


def use_thresholds(learner: StreamingThresholds) -> None:
    for i in range(6):
        label = 1 + i % learner.n_labels
        found = learner.predict_one(SCORES[i])
        assert found is None or 1 <= found <= learner.n_labels
        learner.learn_one(SCORES[i], label, WEIGHTS[i], **when(learner))
        assert rising(learner.thresholds)
        assert not np.isnan(learner.thresholds).any()
        if i % 2:
            learner.unlearn_one(SCORES[i], label, WEIGHTS[i])
    assert learner.risk >= 0.0
    assert learner.result().risk >= 0.0
    labels = [1 + i % learner.n_labels for i in range(60)]
    learner.learn_many(SCORES[:60], labels, WEIGHTS[:60], **when(learner, 60))
    learner.predict_many(GRID)
    assert learner.n_samples >= 0


def use_wrapper(learner: Any) -> None:
    """Use a wrapper of a river model; the model was given and has learned nothing."""
    if isinstance(learner, CalibratedRegressor):
        loss = learner.calibrator._loss  # type: ignore[attr-defined]
        for i in range(5):
            assert not math.isnan(learner.predict_one({"a": SCORES[i]}))
            learner.learn_one({"a": SCORES[i]}, label_of(loss, i))
        return
    if isinstance(learner, PredictionSetClassifier):
        y = True if learner.score == "aps" else "mid"
        for i in range(5):
            before = learner.n_samples, learner.n_misses
            missed = y not in learner.predict_set_one({"a": SCORES[i]})
            learner.learn_one({"a": SCORES[i]}, y)
            assert (learner.n_samples, learner.n_misses) == (before[0] + 1, before[1] + missed)
            assert 0.0 <= learner.threshold <= 1.0
        return
    label: Any = True
    if isinstance(learner, ThresholdClassifier):
        label = learner._order.labels[0] if learner._order else 1
    elif isinstance(learner, DecisionClassifier):
        label = learner.pos_val
    elif isinstance(learner.classifier, naive_bayes.GaussianNB):
        label = "mid"
    for i in range(5):
        x = {"a": SCORES[i]}
        learner.predict_one(x)
        shares = learner.predict_proba_one(x)
        if isinstance(learner, DecisionClassifier):
            learner.learn_one(x, label, **when(learner))
            continue
        if isinstance(learner, SelectiveClassifier):
            sample = {**x, "b": i}
            selection = learner.serve_one(sample)
            propensity = None if learner.floor is None else 1.0
            selection = learner.ask_one(sample, selection, propensity=propensity)
            learner.learn_one(sample, label, served=selection, propensity=propensity)
            continue
        check_shares(shares)
        learner.learn_one(x, label, **when(learner))
    if isinstance(learner, CalibratedClassifier):
        served = learner.serve_one({"a": 0.5})
        learner.learn_one({"a": 0.5}, label, served=served)
        frame = pd.DataFrame({"a": SCORES[:4]})
        learner.learn_many(frame, pd.Series([label] * 4)) if hasattr(
            learner.classifier, "learn_many"
        ) else None
    elif isinstance(learner, SelectiveClassifier):
        for promise in learner.promises.values():
            assert promise.threshold >= 0.0
            assert promise.n_errors <= promise.n_answers
    elif isinstance(learner, DecisionClassifier):
        assert all(count >= 0.0 for count in learner.counts)
        assert not math.isnan(learner.claim_gap)
    else:
        allowed(learner._score_model is None, lambda: learner.thresholds)
        assert learner.solution is None or learner.solution.risk >= 0.0


# Cases --------------------------------------------------------------------------------------------


class BrokenError(Exception):
    """The failure of a case."""


def try_one(data: bytes, given: Callable[[], dict[str, Any]], found: dict[str, int]) -> None:
    """Restore a state; unless it is refused, use it and check its bytes."""
    arguments = given()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        learner = _state.restore(data, **arguments)
    except ValueError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, MemoryError):
                raise BrokenError("memory was asked for that nobody has") from error
            cause = cause.__cause__
        learner = None
    except TypeError as error:
        # The bytes name a class that wants to be given more, or less.
        if not any(rule in str(error) for rule in ("` must be given", "must be a parameter of")):
            raise
        learner = None
    taken = tracemalloc.get_traced_memory()[1] - before
    if taken > ALLOWED + PER_BYTE * len(data):
        raise BrokenError(f"{len(data)} bytes took {taken} bytes of memory")
    if learner is None:
        found["refused"] += 1
        return
    found["accepted"] += 1
    try:
        round_trip(learner, arguments)
        use(learner)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        if arguments and "/river/" in frames[-1].filename:
            return  # the model was given, and what it does not take is no matter of the state
        raise
    round_trip(learner, arguments)


def round_trip(learner: Any, arguments: dict[str, Any]) -> None:
    data = learner.to_bytes()
    again = _state.restore(data, **{name: arguments[name] for name in arguments})
    if again.to_bytes() != data:
        raise BrokenError("its bytes, restored, are others")


def run(name: str, first: int, n_cases: int) -> dict[str, int]:
    """Try cases of a class; print those that fail."""
    bases = []
    for number, example in enumerate(examples(name)):
        for amount in AMOUNTS if example.teach is not nothing else (0,):
            learner = example.make()
            for i in range(amount):
                example.teach(learner, i)
            bases.append((f"{number}/{amount}", example, learner.to_bytes()))
    found = {"refused": 0, "accepted": 0, "failed": 0}
    for case in range(first, first + n_cases):
        mutant = Mutant(random.Random(f"{name} {case}"))
        label, example, base = bases[case % len(bases)]
        data = mutant.mutate(base)
        note = {"class": name, "case": case, "example": label, "mutation": mutant.done}
        print(json.dumps({"trying": [name, case, label, mutant.done]}), end="\r\n", flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(30 * SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try_one(data, example.given, found)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            found["failed"] += 1
            frames = traceback.extract_tb(error.__traceback__)
            where = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-4:]]
            text = f"{type(error).__name__}: {str(error)[:300]}"
            print(json.dumps({"failed": {**note, "error": text, "at": where}}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    return found


def main(arguments: list[str]) -> None:
    n_cases, *rest = arguments
    names = rest[0].split(",") if rest else sorted(classes())
    first = int(rest[1]) if len(rest) > 1 else 0
    for name in names:  # what is compiled and imported is no memory of a state
        for example in examples(name):
            learner = example.make()
            for i in range(3):
                example.teach(learner, i)
            use(learner)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE,) * 2)
    tracemalloc.start()
    for name in names:
        print(json.dumps({"done": [name, run(name, first, int(n_cases))]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
