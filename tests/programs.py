"""Random programs for every public learner, metric and store-backed class.

A program makes an instance with random parameters, learns, forgets and predicts, writes the
instance as bytes and continues with a restored one. All results must stay in the range that the
class promises. `CASES` defines the actions for each class; `public_classes` finds the classes in
the package, so that a test can find those without a case.

Under `.ci/checked` they run with kernels that check every index. The script ``python -m
tests.programs [CLASS ...]`` prints how long the programs of each class take.
"""

import atexit
import contextlib
import copy
import inspect
import itertools
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import numpy as np
from river import base

_ACTIONS = {"learn_one", "update", "push", "save"}  # what a class does that is to be covered


def public_classes() -> set[type]:
    """Return the concrete public classes of the package that learn, measure or keep something."""
    import streamcal
    from streamcal._state import Stateful

    found: set[type] = set()
    for module in walk_packages(streamcal.__path__, "streamcal."):
        if module.name.startswith("streamcal.spark"):  # it asks for its extra; it has no learners
            continue
        if "._" in module.name or module.name.startswith("streamcal.kernels"):
            continue
        if module.name in ("streamcal.wrappers.routing", "streamcal.wrappers.strategies"):
            continue  # parts of wrappers
        if module.name == "streamcal.wrappers.precomputed":
            continue  # it learns nothing
        if module.name == "streamcal.calibration.exported":
            continue  # it learns nothing
        for name, value in vars(import_module(module.name)).items():
            own = inspect.isclass(value) and value.__module__ == module.name
            if not own or name.startswith("_") or inspect.isabstract(value):
                continue
            if issubclass(value, Stateful | base.Base) or _ACTIONS & set(dir(value)):
                if value is not Stateful and not issubclass(value, tuple):
                    found.add(value)
    return found


# Draws --------------------------------------------------------------------------------------------


class Draw:
    """Random parameters, scores, labels and weights: mostly ordinary, often extreme."""

    def __init__(self, seed: Any) -> None:
        self.random = random.Random(str(seed))
        self.chance = lambda p: self.random.random() < p
        self.pick = self.random.choice
        self.wild = self.chance(0.5)  # whether weights and parameters may be extreme
        self.grid = self.pick([2, 5, 20, 0, 0])  # scores are multiples of one over this
        self.now = 0.0

    def exponent(self, low: float = -60.0, high: float = 60.0) -> float:
        return float(10.0 ** self.random.uniform(low, high))

    def weight(self) -> Any:
        kind = self.random.random()
        if kind < 0.4:
            return 1.0
        if kind < 0.7 or not self.wild:
            return self.pick([self.random.uniform(0.1, 3.0), 0.3, 0.9, 2, np.float32(0.7), True])
        return self.pick([1e-60, 1e60, self.exponent(), self.exponent(-20, 20)])

    def half_life(self) -> float | None:
        return self.pick([None, None, 0.1, 0.1, 1, 3.0, 20, self.exponent(-1, 4)])

    def half_life_or_time(self) -> Any:
        if self.chance(0.7):
            return self.half_life()
        return self.pick([timedelta(microseconds=1), timedelta(seconds=3), timedelta(days=9_999)])

    def window_or_time(self) -> Any:
        if self.chance(0.7):
            return self.window()
        return self.pick([timedelta(microseconds=1), timedelta(seconds=3), timedelta(days=9_999)])

    def time(self) -> float:
        """A time that mostly goes on, sometimes far, and may go back."""
        self.now += self.pick([0.0, 1e-3, 1.0, 1.0, 5.0, 90.0, -1.0, 1e6])
        if self.wild and self.chance(0.02):
            self.now = self.pick([-1e300, 1e300, 0.0])
        return self.now

    def when(self, calibrator: Any) -> dict[str, Any]:
        """Return the time of a sample as a keyword, if the calibrator needs one."""
        return {"t": self.time()} if calibrator.needs_time else {}

    def times(self, calibrator: Any, n: int) -> dict[str, Any]:
        """Return the times of a batch as a keyword, if the calibrator needs them."""
        return {"t": [self.time() for _ in range(n)]} if calibrator.needs_time else {}

    def window(self) -> Any:
        return self.pick([None, None, 1, 2, 3, 7, 60, np.int64(200)])

    def size(self) -> int:
        return self.pick([1, 2, 3, 7, 60, 200])

    def prior(self) -> float:
        return self.pick([0, 0, 1.0, 0.3, 100] + [1e-60, 1e60, self.exponent()] * self.wild)

    def positive(self, usual: float) -> float:
        if not self.wild:
            return usual
        return self.pick([usual, usual, self.exponent(-3, 3), 1e-60, 1e60, self.exponent()])

    def probability(self) -> Any:
        if self.grid:
            return self.random.randint(0, self.grid) / self.grid
        special = [0.0, 1.0, 5e-324, 1.0 - 2**-53, 1.0 + 1e-12, True, np.float64(0.5), 1e-9]
        return self.pick(special) if self.chance(0.2) else self.random.random()

    def score(self) -> Any:
        if self.grid:
            return float(self.random.randint(-self.grid, self.grid))
        special = [0.0, -0.0, 1.7e308, -1.7e308, 5e-324, np.float32(0.1), 7]
        return self.pick(special) if self.chance(0.1) else self.random.gauss(0.0, 1.0)

    def binary(self) -> Any:
        label = self.chance(0.5)
        kinds = [bool, int, float, np.bool_, np.int64, np.float32, np.float64]
        return self.pick(kinds)(label)

    def share(self) -> Any:
        """A label of a probability: 0, 1, or sometimes a number between."""
        return self.random.random() if self.chance(0.1) else self.binary()

    def batch(self, draw: Callable[[], Any], n: int) -> list[Any]:
        return [draw() for _ in range(n)]

    def frame(self, x: Callable[[], dict[str, float]], n: int) -> Any:
        import pandas as pd

        return pd.DataFrame([x() for _ in range(n)])

    def features(self) -> dict[Any, Any]:
        names = ["a", "b", 7, ("c", 1)]
        kept = [name for name in names if self.chance(0.8)]
        big = self.wild and self.chance(0.1)
        return {
            name: self.pick([0, 1e60, -1e60, 1e-300, self.exponent()])
            if big
            else self.pick([self.random.gauss(0, 1), 1, True, np.float32(0.5)])
            for name in kept
        }

    def labels(self) -> Sequence[Any]:
        return self.pick(
            [(False, True), (0, 1, 2), (1, 2, 3, 4), ("a", "b", "c"), (-1.5, 0.0, 2.5), (1, 2)]
        )


# Cases --------------------------------------------------------------------------------------------


@dataclass
class Case:
    """How programs use one class.

    ``make`` makes a random instance; each of ``acts`` changes it; ``ask`` returns predictions and
    other results, and raises ``AssertionError`` if one is out of range; ``given`` returns the
    parameters that its bytes do not hold.
    """

    make: Callable[[Draw], Any]
    acts: Sequence[Callable[[Draw, Any, list[Any]], Any]]
    ask: Callable[[Any], Any]
    given: Callable[[Any], dict[str, Any]] = field(default=lambda instance: {})
    cost: float = 1.0  # of a program, relative to others


CASES: dict[type, Case] = {}


def taught(kind: type, n_acts: int = 25) -> tuple[Case, Any, list[Any]]:
    """Return the case of a class, an instance after random acts, and what these hold."""
    case, draw = cases()[kind], Draw((kind.__name__, 1))
    instance, held = case.make(draw), list[Any]()
    for _ in range(n_acts):
        draw.pick(case.acts)(draw, instance, held)
    return case, instance, held


class FaultError(AssertionError):
    """A program failed; the message has the call that repeats it."""


def run(kind: type, seed: Any, n_acts: int) -> None:
    """Run one program: random acts, with checks of results and bytes in between."""
    case, draw = cases()[kind], Draw((kind.__name__, seed))
    done: list[str] = []
    try:
        instance, held = case.make(draw), list[Any]()
        done.append(repr(instance) if isinstance(instance, base.Base) else kind.__name__)
        for _ in range(n_acts):
            act = draw.pick(case.acts)
            done.append(getattr(act, "__name__", str(act)))
            act(draw, instance, held)
            if draw.chance(0.05):
                done.append("ask")
                instance = _check_answers(case, instance)
        _check_answers(case, instance)
    except Exception as error:
        last = " ".join(done[-6:])
        raise FaultError(
            f"run({kind.__name__}, {seed!r}, {n_acts}): … {last}: {error!r}"
        ) from error


def _check_answers(case: Case, instance: Any) -> Any:
    """Check an instance and its copy from bytes, whose results must agree; return the copy."""
    from streamcal._state import Stateful

    answers = case.ask(instance)
    if not isinstance(instance, Stateful):
        return instance
    data = instance.to_bytes()
    twin = type(instance).from_bytes(data, **case.given(instance))
    assert twin.to_bytes() == data, "bytes change when they are read and written again"
    assert repr(case.ask(twin)) == repr(answers), "the copy from bytes gives other results"
    return twin


def within(values: Any, low: float, high: float) -> None:
    """Raise unless all values are numbers from ``low`` to ``high``."""
    array = np.asarray(values, np.float64)
    assert ((array >= low) & (array <= high)).all(), f"out of [{low}, {high}]: {array}"


def rising(values: Any, slack: float = 0.0) -> None:
    """Raise unless values do not fall, by more than ``slack`` of their size."""
    array = np.asarray(values, np.float64)
    lower = array[:-1] - slack * np.abs(array[:-1]) if slack else array[:-1]
    assert (lower <= array[1:]).all(), f"falling: {array.tolist()}"


def distribution(answer: dict[Any, float]) -> None:
    """Raise unless probabilities are in [0, 1] and sum to 1."""
    if answer:
        within(list(answer.values()), 0.0, 1.0)
        assert math.isclose(sum(answer.values()), 1.0, abs_tol=1e-9), f"sum {sum(answer.values())}"


def cases() -> dict[type, Case]:
    """Return the case of each class; made once, since that imports all of the package."""
    if not CASES:
        for add in (
            _add_calibrators,
            _add_joint,
            _add_stacks,
            _add_metrics,
            _add_ordinal,
            _add_decisions,
            _add_wrappers,
            _add_alarms,
            _add_stores,
        ):
            add()
    return CASES


# Calibrators --------------------------------------------------------------------------------------

GRID = [0.0, 0.05, 0.2, 0.5, 0.55, 0.9, 1.0]


def ask_probabilities(calibrator: Any, monotone: bool) -> list[float]:
    answers = [calibrator.predict_one(p) for p in GRID]
    many = calibrator.predict_many(GRID).tolist()
    np.testing.assert_allclose(many, answers, rtol=1e-12)  # a hedge mixes in another order
    within(answers + many, 0.0, 1.0)
    if monotone:
        rising(answers)
        rising(many)
    np.testing.assert_allclose(
        calibrator.snapshot().predict_many(GRID), many, rtol=1e-9, atol=1e-300
    )
    return answers


def learn_probability(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    sample = draw.probability(), draw.share(), draw.weight()
    calibrator.learn_one(*sample, **draw.when(calibrator))


def learn_probabilities(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    n = draw.pick([0, 1, 2, 9])
    samples = (draw.batch(one, n) for one in (draw.probability, draw.share, draw.weight))
    scores, y, w = (np.array(values, np.float64) for values in samples)
    times = draw.times(calibrator, n)
    if draw.chance(0.5):
        calibrator.learn_many(scores, y, None if draw.chance(0.3) else w, **times)
    else:
        within(calibrator.predict_learn_many(scores, y, w, **times), 0.0, 1.0)


def counting(draw: Draw, make: Callable[[Draw], Any]) -> Any:
    """Return a calibrator that needs no time, which what holds it would have to pass on."""
    calibrator = make(draw)
    while calibrator.needs_time:
        calibrator = make(draw)
    return calibrator


def _numbers(draw: Draw, loss: Any) -> tuple[Callable[[], Any], float, float]:
    """Return a function that draws labels of a loss, and the range of its values."""
    from streamcal.losses.ranges import TwoPoint

    low, high = loss.z_range.low, loss.z_range.high
    if isinstance(loss.y_range, TwoPoint):
        return lambda: draw.pick([loss.y_range.low, loss.y_range.high]), low, high
    if loss.y_range.high == 1.0:
        return draw.share, low, high
    scale = min(100.0, loss.y_range.high)

    def label() -> float:
        if draw.wild and draw.chance(0.1):
            value = draw.pick([-1, 1]) * draw.exponent(-300, 60)
        else:
            value = draw.pick([0.0, 1, 2, draw.random.gauss(0, scale / 50)])
        statistic = getattr(loss, "statistic", float)
        clipped = loss.y_range.clip(value)
        return clipped if abs(statistic(clipped)) <= 1e60 else 0.5

    return label, low, high


def _label_of(draw: Draw, loss: Any) -> Any:
    return _numbers(draw, loss)[0]()


def mean_losses(draw: Draw) -> Any:
    from streamcal import losses

    own = [losses.Tweedie(power=1.2), losses.Linex(a=0.5), losses.Linex(a=30.0)]
    names = ["log", "log", "log", "squared", "poisson", "gamma", "logistic", "exponential"]
    return draw.pick([*own, *names])


def convex_losses(draw: Draw) -> Any:
    from streamcal import losses

    return draw.pick(
        [
            losses.Absolute(),
            losses.Absolute(ties="lower"),
            losses.Pinball(tau=0.8),
            losses.Huber(delta=0.5),
            losses.PseudoHuber(delta=2.0),
            losses.Expectile(tau=0.3),
            losses.LogCosh(),
            losses.Lp(p=1.5),
        ]
    )


def _loss_of(calibrator: Any) -> Any:
    return getattr(calibrator, "isotonic", calibrator)._loss


def _learn_isotonic(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    sample = draw.score(), _label_of(draw, _loss_of(calibrator)), draw.weight()
    calibrator.learn_one(*sample, **draw.when(calibrator))
    held.append(sample)


def _learn_isotonic_many(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    n = draw.pick([0, 1, 2, 40])
    label = partial(_label_of, draw, _loss_of(calibrator))
    x, y, w = (np.array(draw.batch(one, n), np.float64) for one in (draw.score, label, draw.weight))
    times = draw.times(calibrator, n)
    if draw.chance(0.5):
        calibrator.learn_many(x, y, w, **times)
    else:
        calibrator.predict_learn_many(x, y, w, **times)
    held.extend(zip(x, y, w, strict=True))


def _unlearn_isotonic(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    if not held:
        return
    sample = held.pop(draw.random.randrange(len(held)))
    # With a half-life or a window it may have faded or left; next to a weight of 1e60 it is lost.
    with contextlib.suppress(ValueError):
        calibrator.unlearn_one(*sample)


def _pair(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    low, high = calibrator.predict_interval_one(draw.score())
    assert low <= high, f"a pair that falls: {low}, {high}"
    within([low, high], 0.0, 1.0)


def _merge(draw: Draw, calibrator: Any, held: list[Any]) -> None:
    if not calibrator.window and draw.chance(0.2):
        other = calibrator.clone()
        _learn_isotonic_many(draw, other, held)
        calibrator.merge(other)


def _ends(loss: Any) -> tuple[float, float]:
    return loss.z_range.low, loss.z_range.high


SCORES = [-1.7e308, -20.0, -3.0, -1.0, -0.3, 0.0, 1e-9, 0.2, 0.5, 1.0, 2.0, 2.5, 20.0, 1.7e308]


def ask_map(learner: Any, loss: Any) -> list[float]:
    answers = [learner.predict_one(score) for score in SCORES]
    within(answers, *_ends(loss))
    rising(answers)
    if hasattr(learner, "predict_many"):
        many = learner.predict_many(SCORES).tolist()
        np.testing.assert_array_equal(many, answers)
    stairs = None
    with contextlib.suppress(ValueError):  # nothing is learned
        stairs = learner.staircase()
    if stairs is not None:
        within(stairs.values, *_ends(loss))
        rising(stairs.values)
    return answers


def _last_of(stack: Any) -> float:
    """Return the greatest score of a stack, -inf without any."""
    return stack.staircase().upper[-1] if len(stack) else -math.inf


def ask_isotonic(calibrator: Any) -> Any:
    from tests.invariants import Structure

    answers = ask_map(calibrator, calibrator._loss)
    _, w, s = calibrator.samples()
    assert (w > 0.0).all(), f"weights without weight: {w}"
    least, most = calibrator._loss.mean_range
    slack = np.finfo(float).tiny  # a weight times a label near 5e-324 may be rounded to 0
    with np.errstate(over="ignore"):
        inside = (s >= w * least - slack) & (s <= w * most + slack)
    assert inside.all(), f"impossible sums: {s} of {w}"
    assert calibrator.n_samples >= 0
    Structure(calibrator).regression.check()
    return answers, calibrator.n_samples, calibrator.n_scores


def ask_venn_abers(calibrator: Any) -> Any:
    answers = [calibrator.predict_one(score) for score in SCORES]
    within(answers, 0.0, 1.0)
    rising(answers, 1e-12)  # the two ends of a pair rise; merging them rounds once more
    np.testing.assert_array_equal(calibrator.predict_many(SCORES), answers)
    return answers, ask_isotonic(calibrator.isotonic)


def _add_calibrators() -> None:
    from streamcal import calibration as package

    binary = [learn_probability] * 4 + [learn_probabilities]

    learn_isotonic = [
        *[_learn_isotonic] * 8,
        *(_learn_isotonic_many, _unlearn_isotonic, _unlearn_isotonic, _merge),
    ]

    def isotonic(draw: Draw) -> Any:
        return package.IsotonicCalibrator(
            mean_losses(draw),
            window=draw.window_or_time(),
            half_life=draw.half_life_or_time(),
            prior=draw.prior(),
            interpolation=draw.pick(["linear", "linear", "step"]),
            max_scores=draw.pick([8, 30, 1_000_000]),
        )

    CASES[package.IsotonicCalibrator] = Case(
        isotonic,
        [_learn_isotonic] * 8
        + [_learn_isotonic_many, _unlearn_isotonic, _unlearn_isotonic, _merge],
        ask_isotonic,
        cost=2.0,
    )
    CASES[package.VennAbersCalibrator] = Case(
        lambda draw: package.VennAbersCalibrator(
            window=draw.window_or_time(),
            half_life=draw.half_life_or_time(),
            prior=draw.prior(),
            max_scores=draw.pick([8, 30, 1_000_000]),
        ),
        [*learn_isotonic, _pair],
        ask_venn_abers,
        cost=4.0,
    )
    CASES[package.PlattCalibrator] = Case(
        lambda draw: package.PlattCalibrator(
            gamma=draw.positive(0.1),
            prior=draw.positive(100.0),
            limit=draw.pick([1.5, 100.0, 1e60]),
            clip=draw.pick([1e-6, 0.4, 1e-15]),
            calibeating=draw.pick([0, 0, 1, 7]),
            half_life=draw.half_life_or_time(),
        ),
        binary,
        lambda c: ask_probabilities(c, monotone=False),
    )
    CASES[package.BetaCalibrator] = Case(
        lambda draw: package.BetaCalibrator(
            gamma=draw.positive(0.1),
            prior=draw.positive(100.0),
            limit=draw.pick([1.5, 100.0, 1e60]),
            half_life=draw.half_life_or_time(),
            clip=draw.pick([1e-6, 0.4, 1e-15]),
        ),
        binary,
        lambda c: ask_probabilities(c, monotone=True),
    )
    CASES[package.HistogramCalibrator] = Case(
        lambda draw: package.HistogramCalibrator(
            draw.pick([1, 2, 5, np.int64(15)]), draw.half_life_or_time(), draw.prior()
        ),
        binary,
        lambda c: ask_probabilities(c, monotone=False),
        cost=0.4,
    )
    CASES[package.IdentityCalibrator] = Case(
        lambda draw: package.IdentityCalibrator(),
        binary,
        lambda c: ask_probabilities(c, monotone=True),
    )

    def probability_calibrator(draw: Draw) -> Any:
        kinds = [package.PlattCalibrator, package.BetaCalibrator, package.HistogramCalibrator]
        kind = draw.pick([*kinds, package.IdentityCalibrator, None])
        if kind is not None:
            return CASES[kind].make(draw)
        return package.IsotonicCalibrator(
            window=draw.window_or_time(), half_life=draw.half_life_or_time(), prior=draw.prior()
        )

    def hedge(draw: Draw) -> Any:
        team = None
        if draw.chance(0.7):
            team = tuple(probability_calibrator(draw) for _ in range(draw.random.randint(1, 4)))
        return package.HedgedCalibrator(
            team,
            share=draw.pick([0.0, 0.01, (0.0, 0.001, 0.01), 0.9, 1e-60, (0.0, timedelta(0, 9))]),
            clip=draw.pick([1e-6, 1e-3, 0.4]),
        )

    def learn_served(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        score = draw.probability()
        value, ticket = calibrator.serve_one(score)
        within(value, 0.0, 1.0)
        for _ in range(draw.pick([0, 0, 1, 5])):
            learn_probability(draw, calibrator, held)
        when = draw.when(calibrator)
        calibrator.learn_one(score, draw.share(), draw.weight(), ticket=ticket, **when)

    def learn_burst(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        scores = [draw.probability() for _ in range(draw.pick([2, 9, 40]))]
        tickets = [calibrator.serve_one(score)[1] for score in scores]
        y = draw.pick([0.0, 1.0])
        for score, ticket in zip(scores, tickets, strict=True):
            w, when = draw.pick([1.0, 0.3]), draw.when(calibrator)
            calibrator.learn_one(score, y, w, ticket=ticket, **when)

    def learn_group(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        scores = [draw.probability() for _ in range(draw.pick([0, 1, 2, 9]))]
        tickets = [calibrator.serve_one(score)[1] for score in scores]
        if draw.chance(0.5):
            learn_probability(draw, calibrator, held)
        y, w = [draw.share() for _ in scores], max(draw.weight(), 1e-50)
        given = {"tickets": draw.pick([tickets, None]), **draw.when(calibrator)}
        calibrator.learn_group(scores, y, w, **given)

    def ask_hedge(calibrator: Any) -> Any:
        answers = ask_probabilities(calibrator, monotone=False)
        weights = list(calibrator.weights.values())
        within(weights, 0.0, 1.0 + 1e-12)
        assert math.isclose(sum(weights), 1.0, abs_tol=1e-9), f"weights sum to {sum(weights)}"
        return answers, weights

    CASES[package.HedgedCalibrator] = Case(
        hedge, [*binary, learn_served, learn_burst, learn_group], ask_hedge, cost=6.0
    )
    CASES[package.AnytimeCalibrator] = Case(
        lambda draw: package.AnytimeCalibrator(
            draw.pick([convex_losses(draw), mean_losses(draw)]),
            window=draw.window_or_time() or draw.size(),
            every=draw.size(),
            tol=draw.pick([None, 0.1]),
            interpolation=draw.pick(["linear", "step"]),
        ),
        [_learn_isotonic] * 4 + [_learn_isotonic_many],
        lambda c: ask_map(c, c._loss),
        cost=16.0,
    )
    CASES[type(None)] = Case(probability_calibrator, [], lambda c: None)  # for what follows
    _add_segments(probability_calibrator)


def _add_segments(probability_calibrator: Callable[[Draw], Any]) -> None:
    from streamcal.calibration import SegmentCalibrator

    fields = ("a", "b", "c")

    def segment(draw: Draw) -> dict[str, Any]:
        values = ["x", "", "é", 0, 1.5, True, None, math.nan, 2**80, np.int64(3)]
        values += [draw.random.randrange(50) for _ in range(10)]
        return {name: draw.pick(values) for name in fields if draw.chance(0.9)}

    def make(draw: Draw) -> Any:
        return SegmentCalibrator(
            draw.pick([fields, list(fields[:2]), ("b",)]),
            crosses=draw.pick(["auto", ()]),
            base=draw.pick([None, probability_calibrator(draw)]),
            half_life=draw.pick([16_000.0, 1, draw.exponent(-1, 15), timedelta(seconds=9)]),
            max_terms=draw.pick([6, 20, 1_000_000]),
        )

    def learn(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        x = segment(draw)
        sample = draw.probability(), draw.share(), draw.weight()
        calibrator.learn_one(*sample, x=x, **draw.when(calibrator))

    def serve(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        x, p = segment(draw), draw.probability()
        value, ticket = calibrator.serve_one(p, x)
        within(value, 0.0, 1.0)
        held.append((x, p, ticket))
        if draw.chance(0.5):
            x, p, ticket = held.pop(0)
            given = {"x": x, "ticket": ticket, **draw.when(calibrator)}
            calibrator.learn_one(p, draw.share(), draw.weight(), **given)

    def learn_group(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        rows = draw.batch(lambda: segment(draw), n)
        p, y = draw.batch(draw.probability, n), draw.batch(draw.share, n)
        w = min(max(float(draw.weight()), 1e-50), 1e50)  # each row has a part of it
        served = [
            calibrator.serve_one(score, x)[1] if draw.chance(0.5) else None
            for x, score in zip(rows, p, strict=True)
        ]
        calibrator.learn_group(p, y, w, x=rows, tickets=served, **draw.when(calibrator))

    def learn_many(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        rows = draw.batch(lambda: segment(draw), n)
        columns = {name: [row.get(name) for row in rows] for name in fields}
        p, y, w = (draw.batch(one, n) for one in (draw.probability, draw.share, draw.weight))
        given = {"x": columns, **draw.times(calibrator, n)}
        served = calibrator.predict_learn_many(p, y, np.array(w, np.float64), **given)
        within(served, 0.0, 1.0)

    def ask(calibrator: Any) -> Any:
        queries = [(0.1, {"a": "x", "b": 1, "c": None}), (1.0, {"a": 7}), (0.5, {})]
        answers = [calibrator.predict_one(*query) for query in queries]
        within(answers, 0.0, 1.0)
        assert calibrator.n_terms <= calibrator.max_terms
        weights = list(calibrator.weights.values())
        assert math.isclose(sum(weights), 1.0, abs_tol=1e-9), f"weights sum to {sum(weights)}"
        effects = calibrator.explain_one(queries[0][1])
        assert all(math.isfinite(each.log_odds) and each.deviation >= 0.0 for each in effects)
        return answers, weights

    actions = [learn, learn, serve, learn_group, learn_many]
    CASES[SegmentCalibrator] = Case(make, actions, ask, cost=12.0)
    _add_audited(make, segment)
    _add_prior_shift(make, segment)


def ask_two_maps(calibrator: Any) -> Any:
    """Return the answers of a calibrator that mixes two maps, and their weights."""
    x = {"x": {"a": "x"}} if calibrator.fields else {}
    answers = [calibrator.predict_one(p, **x) for p in (0.0, 0.3, 1.0)]
    within(answers, 0.0, 1.0)
    weights = list(calibrator.weights.values())
    assert math.isclose(sum(weights), 1.0, abs_tol=1e-9), f"weights sum to {sum(weights)}"
    return answers, weights


def _add_audited(
    segment_calibrator: Callable[[Draw], Any], segment: Callable[[Draw], dict[str, Any]]
) -> None:
    from streamcal.calibration import AuditedCalibrator, HedgedCalibrator, PlattCalibrator

    def make(draw: Draw) -> Any:
        kinds = [None, PlattCalibrator(), HedgedCalibrator(share=0.01), segment_calibrator(draw)]
        return AuditedCalibrator(draw.pick(kinds), floor=draw.pick([0.005, 0.3, 1]))

    def given_x(draw: Draw, calibrator: Any) -> dict[str, Any]:
        return {"x": segment(draw)} if calibrator.fields else {}

    def propensity(draw: Draw, calibrator: Any) -> Any:
        return draw.pick([1, calibrator.floor, max(calibrator.floor, draw.random.random())])

    def learn(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        given = {"propensity": propensity(draw, calibrator), **given_x(draw, calibrator)}
        sample = draw.probability(), draw.share(), draw.weight()
        calibrator.learn_one(*sample, **given, **draw.when(calibrator))

    def serve(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        x, p = given_x(draw, calibrator), draw.probability()
        value, ticket = calibrator.serve_one(p, **x)
        within(value, 0.0, 1.0)
        held.append((x, p, ticket))
        if draw.chance(0.5):
            x, p, ticket = held.pop(0)
            given = {"propensity": propensity(draw, calibrator), "ticket": ticket, **x}
            sample = p, draw.share(), draw.weight()
            calibrator.learn_one(*sample, **given, **draw.when(calibrator))

    def learn_group(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        p, y = draw.batch(draw.probability, n), draw.batch(draw.share, n)
        w = min(max(float(draw.weight()), 1e-50), 1e50)  # each row has a part of it
        given: dict[str, Any] = {"propensity": propensity(draw, calibrator)}
        if calibrator.fields:
            given["x"] = [segment(draw) for _ in range(n)]
        calibrator.learn_group(p, y, w, **given, **draw.when(calibrator))

    def learn_many(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        p, y, w = (draw.batch(one, n) for one in (draw.probability, draw.share, draw.weight))
        given: dict[str, Any] = {"propensity": [propensity(draw, calibrator) for _ in range(n)]}
        given |= draw.times(calibrator, n)
        if calibrator.fields:
            rows = [segment(draw) for _ in range(n)]
            columns = {name: [row.get(name) for row in rows] for name in calibrator.fields}
            given["x"] = columns
        served = calibrator.predict_learn_many(p, y, np.array(w, np.float64), **given)
        within(served, 0.0, 1.0)

    actions = [learn, learn, serve, learn_group, learn_many]
    CASES[AuditedCalibrator] = Case(make, actions, ask_two_maps, cost=16.0)


def _add_prior_shift(
    segment_calibrator: Callable[[Draw], Any], segment: Callable[[Draw], dict[str, Any]]
) -> None:
    from streamcal.calibration import HedgedCalibrator, PlattCalibrator, PriorShiftCalibrator

    def make(draw: Draw) -> Any:
        kinds = [None, PlattCalibrator(), HedgedCalibrator(share=0.01), segment_calibrator(draw)]
        return PriorShiftCalibrator(draw.pick(kinds))

    def given_x(draw: Draw, calibrator: Any) -> dict[str, Any]:
        return {"x": segment(draw)} if calibrator.fields else {}

    def learn(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        sample = draw.probability(), draw.share(), draw.weight()
        calibrator.learn_one(*sample, **given_x(draw, calibrator), **draw.when(calibrator))

    def serve(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        x, p = given_x(draw, calibrator), draw.probability()
        value, ticket = calibrator.serve_one(p, **x)
        within(value, 0.0, 1.0)
        held.append((x, p, ticket))
        if draw.chance(0.5):
            x, p, ticket = held.pop(0)
            sample = p, draw.share(), draw.weight()
            calibrator.learn_one(*sample, ticket=ticket, **x, **draw.when(calibrator))

    def learn_group(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        p, y = draw.batch(draw.probability, n), draw.batch(draw.share, n)
        w = min(max(float(draw.weight()), 1e-50), 1e50)  # each row has a part of it
        given = {"x": [segment(draw) for _ in range(n)]} if calibrator.fields else {}
        calibrator.learn_group(p, y, w, **given, **draw.when(calibrator))

    def learn_many(draw: Draw, calibrator: Any, held: list[Any]) -> None:
        n = draw.pick([0, 1, 5, 60])  # scores count after a hundred labels
        p, y, w = (draw.batch(one, n) for one in (draw.probability, draw.share, draw.weight))
        given = draw.times(calibrator, n)
        if calibrator.fields:
            rows = [segment(draw) for _ in range(n)]
            given["x"] = {name: [row.get(name) for row in rows] for name in calibrator.fields}
        served = calibrator.predict_learn_many(p, y, np.array(w, np.float64), **given)
        within(served, 0.0, 1.0)

    def ask(calibrator: Any) -> Any:
        return ask_two_maps(calibrator), calibrator.prior

    actions = [learn, learn, serve, learn_group, learn_many]
    CASES[PriorShiftCalibrator] = Case(make, actions, ask, cost=16.0)


def _add_joint() -> None:
    from streamcal import calibration as package
    from streamcal.calibration.joint_hedge import JointHedge

    calibrator = CASES.pop(type(None)).make

    def raw(draw: Draw) -> dict[Any, Any]:
        labels = draw.pick([(False, True), ("a", "b", "c"), (1, 2, 3, 4), ("a",), ()])
        values = [draw.pick([0.0, 1.0, draw.random.random()]) for _ in labels]
        return dict(zip(labels, values, strict=True))

    def learn(draw: Draw, joint: Any, held: list[Any]) -> None:
        probabilities = raw(draw)
        y = draw.pick([*probabilities, "other"])
        joint.learn_one(probabilities, y, draw.weight(), **draw.when(joint))

    def ask(joint: Any) -> Any:
        queries: list[dict[Any, float]] = [
            {"a": 0.2, "b": 0.3, "c": 0.5},
            {False: 0.0, True: 1.0},
            {1: 0.0, 2: 0.0},
            {"a": 0.7},
            {},
        ]
        answers = [joint.predict_one(probabilities) for probabilities in queries]
        for answer, query in zip(answers, queries, strict=True):
            assert list(answer) == list(query)
            distribution(answer)
        return answers

    def claims(draw: Draw, labels: Any) -> dict[Any, float]:
        values = [draw.pick([0.0, 1e-9, 1.0, draw.random.random()]) for _ in labels]
        total = sum(values) or 1.0
        return {label: p / total for label, p in zip(labels, values, strict=True)}

    def learn_vectors(draw: Draw, hedge: Any, held: list[Any]) -> None:
        labels = draw.pick([("a", "b", "c"), (1, 2, 3, 4), ("c", 1, "a")])
        vectors = claims(draw, labels), claims(draw, labels)
        place, served = draw.random.randrange(len(labels)), None
        if draw.chance(0.5):
            held.append((vectors, labels[place], hedge.serve_one(*vectors)[1]))
        if len(held) > 1 and draw.chance(0.2):
            group = [(*vectors, y, served) for vectors, y, served in held]
            held.clear()
            hedge.learn_group(group, max(draw.weight(), 1e-50), draw.exponent(-3, 9))
        elif held and draw.chance(0.4):
            vectors, y, served = held.pop(0)
            hedge.learn_one(*vectors, y, draw.weight(), served, draw.exponent(-3, 9))
        else:
            y = draw.pick([labels[place], "other"])
            hedge.learn_one(*vectors, y, draw.weight(), t=draw.exponent(-3, 9))

    def ask_vectors(hedge: Any) -> Any:
        query = {"a": 0.2, "b": 0.3, "c": 0.5}, {"a": 0.0, "b": 0.0, "c": 1.0}
        other = {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}
        answers = [hedge.predict_one(*query), hedge.predict_one(other, other)]
        for answer in answers:
            distribution(answer)
        assert math.isclose(sum(hedge.weights.values()), 1.0, abs_tol=1e-9)
        return answers

    CASES[JointHedge] = Case(
        lambda draw: JointHedge(*CASES[package.HedgedCalibrator].make(draw)._mixing),
        [learn_vectors],
        ask_vectors,
        cost=3.0,
    )
    CASES[package.TemperatureCalibrator] = Case(
        lambda draw: package.TemperatureCalibrator(
            gamma=draw.positive(0.1),
            prior=draw.positive(10.0),
            limit=draw.pick([1.5, 100.0, 1e60]),
            half_life=draw.half_life(),
            clip=draw.pick([1e-6, 0.4, 1e-15]),
        ),
        [learn],
        ask,
    )
    CASES[package.TopLabelCalibrator] = Case(
        lambda draw: package.TopLabelCalibrator(draw.pick([None, calibrator(draw)])),
        [learn],
        ask,
        cost=8.0,
    )


def _add_stacks() -> None:
    from streamcal import PAVStack

    def push(draw: Draw, stack: Any, held: list[Any]) -> None:
        last = max(_last_of(stack), -50.0)
        score = last + draw.pick([0.0, 0.0, 1.0, draw.random.random()])
        stack.push(score, _label_of(draw, stack._loss), draw.weight())

    def push_many(draw: Draw, stack: Any, held: list[Any]) -> None:
        steps = draw.batch(
            lambda: draw.pick([0.0, 1.0, draw.random.random()]), draw.pick([0, 1, 9])
        )
        x = max(_last_of(stack), -50.0) + np.cumsum(steps)
        label = partial(_label_of, draw, stack._loss)
        y, w = (np.array(draw.batch(one, len(x)), np.float64) for one in (label, draw.weight))
        stack.push_many(x, y, w)

    def ask(stack: Any) -> Any:
        return ask_map(stack, stack._loss), len(stack)

    def stack(draw: Draw) -> Any:
        loss = convex_losses(draw) if draw.chance(0.1) else mean_losses(draw)
        return PAVStack(loss, interpolation=draw.pick(["linear", "step"]))

    CASES[PAVStack] = Case(stack, [push, push, push, push_many], ask, cost=2.5)


# Metrics ------------------------------------------------------------------------------------------


def _add_metrics() -> None:
    from streamcal import metrics as package

    def update(prediction: Callable[[Draw, Any], tuple[Any, Any]]) -> Any:
        def update(draw: Draw, metric: Any, held: list[Any]) -> None:
            sample = (*prediction(draw, metric), draw.weight())
            metric.update(*sample)
            held.append(sample)

        return update

    def revert(draw: Draw, metric: Any, held: list[Any]) -> None:
        if held:
            metric.revert(*held.pop(draw.random.randrange(len(held))))

    def revert_corp(draw: Draw, metric: Any, held: list[Any]) -> None:
        with contextlib.suppress(ValueError):  # lost beside a far heavier one, as it says
            revert(draw, metric, held)

    def revert_recent(draw: Draw, metric: Any, held: list[Any]) -> None:
        with contextlib.suppress(ValueError):  # it has left the window
            revert(draw, metric, held)

    def update_segment(draw: Draw, metric: Any, held: list[Any]) -> None:
        sample = (*binary(draw, metric), draw.weight())
        x = {"a": draw.pick(["x", "y", None]), "b": draw.pick([1, 2.5, True])}
        metric.update(*sample, x=x)
        held.append((sample, x))

    def revert_segment(draw: Draw, metric: Any, held: list[Any]) -> None:
        if held:
            sample, x = held.pop(draw.random.randrange(len(held)))
            with contextlib.suppress(ValueError):  # it has left the window
                metric.revert(*sample, x=x)

    def binary(draw: Draw, metric: Any) -> tuple[Any, Any]:
        p = draw.probability()
        return draw.chance(0.5), draw.pick([p, {False: 1.0 - min(p, 1.0), True: p}])

    def many(draw: Draw, metric: Any) -> tuple[Any, Any]:
        raw = {label: draw.random.random() for label in "abc"}
        total = sum(raw.values())
        return draw.pick("abc"), {label: p / total for label, p in raw.items()}

    def of_kind(draw: Draw, metric: Any) -> tuple[Any, Any]:
        if metric.multiclass is None:
            return binary(draw, metric)
        y, p = many(draw, metric)
        missing = draw.pick("abcd")
        return y, {label: each for label, each in p.items() if label != missing}

    def ranks(draw: Draw, metric: Any) -> tuple[Any, Any]:
        labels = metric.labels or [1, 2, 3, np.int64(4), True]
        return draw.pick(labels), draw.pick(labels)

    def rps(draw: Draw, metric: Any) -> tuple[Any, Any]:
        labels = list(metric.labels or "abc")
        first = draw.random.random()
        return draw.pick(labels), {labels[0]: first, labels[-1]: 1.0 - first}

    def ask(low: float, high: float) -> Callable[[Any], Any]:
        def ask(metric: Any) -> float:
            value = metric.get()
            assert type(value) is float, f"{value!r} is no float"
            within(value, low, high + 1e-9)
            return value

        return ask

    def corp(metric: Any) -> Any:
        split = [metric.mean_score, metric.mcb, metric.dsc, metric.unc]
        within(split, 0.0, math.inf)
        if metric.scoring == "brier":
            within(split, 0.0, 1.0)
        return split

    def z(metric: Any) -> float:
        assert not math.isnan(metric.get())
        within(metric.p_value, 0.0, 1.0)
        return float(metric.p_value)

    acts = [update(binary), update(binary), revert]
    score = ["brier", "log"]
    CASES[package.ECE] = Case(
        lambda draw: package.ECE(
            draw.size(),
            draw.pick(["width", "mass"]),
            max_scores=draw.pick([2, 9, 99]),
            multiclass=draw.pick([None, None, "classwise"]),
        ),
        [update(of_kind), update(of_kind), revert],
        ask(0.0, 1.0),
    )

    def add(draw: Draw, metric: Any, held: list[Any]) -> None:
        metric.add(len(held), float(draw.probability()), draw.pick([None, 0, 1]))
        held.append(len(held))

    def add_label(draw: Draw, metric: Any, held: list[Any]) -> None:
        metric.add_label(draw.random.randrange(len(held) + 1), draw.pick([0, 1, True]))

    def expected(metric: Any) -> Any:
        low, high = metric.interval
        value = metric.get()
        assert not metric.n_samples or low <= value <= high
        within([low, value, high], 0.0, math.inf)
        return value, low, high, metric.n_unknown

    CASES[package.ExpectedMetric] = Case(
        lambda draw: package.ExpectedMetric(
            draw.pick(["f1", "accuracy", "auc", "brier", "log_loss"]), draw.pick([1, 5, 50])
        ),
        [add, add, add_label],
        expected,
        cost=4.0,
    )
    CASES[package.SmoothECE] = Case(
        lambda draw: package.SmoothECE(n_cells=draw.pick([2, 3, 64])), acts, ask(0.0, 1.0), cost=2.0
    )
    CASES[package.CORP] = Case(
        lambda draw: package.CORP(
            draw.pick(score), multiclass=draw.pick([None, None, "classwise"])
        ),
        [update(of_kind), update(of_kind), revert_corp],
        corp,
        cost=4.0,
    )
    CASES[package.RollingCORP] = Case(
        lambda draw: package.RollingCORP(
            draw.size(), draw.pick(score), draw.pick([None, 1, 7]), draw.pick([2, 9])
        ),
        [update(binary), update(binary), revert_recent],
        corp,
        cost=6.0,
    )
    CASES[package.MulticalibrationError] = Case(
        lambda draw: package.MulticalibrationError(
            ["a", "b"], window=draw.pick([None, 5, 50]), min_samples=draw.pick([1, 3])
        ),
        [update_segment, update_segment, revert_segment],
        ask(0.0, math.inf),
        cost=6.0,
    )
    CASES[package.SpiegelhalterZ] = Case(lambda draw: package.SpiegelhalterZ(), acts, z)
    CASES[package.BrierScore] = Case(
        lambda draw: package.BrierScore(draw.pick(["auto", True, False])),
        [update(many), update(many), revert],
        ask(0.0, 2.0),
    )
    CASES[package.RankedProbabilityScore] = Case(
        lambda draw: package.RankedProbabilityScore(draw.pick([None, ("a", "b", "c")])),
        [update(rps), update(rps), revert],
        ask(0.0, 2.0),
    )
    for kind, low, high in (
        (package.MAE, 0.0, 3.0),
        (package.MZE, 0.0, 1.0),
        (package.MacroMAE, 0.0, 3.0),
        (package.OneOffAccuracy, 0.0, 1.0),
        (package.QuadraticKappa, -1.0, 1.0),
    ):
        CASES[kind] = Case(
            lambda draw, kind=kind: kind(draw.pick([None, (0, 1, 2), ("a", "b", "c", "d")])),
            [update(ranks), update(ranks), revert],
            ask(low, high),
        )


# Ordinal ------------------------------------------------------------------------------------------


def _add_ordinal() -> None:
    from streamcal import losses, ordinal
    from streamcal.losses import TaskLoss

    def task(draw: Draw, n_labels: int) -> Any:
        costs = [[draw.random.random() for _ in range(n_labels)] for _ in range(n_labels)]
        names = ["absolute", "squared", "zero-one", losses.AsymmetricError(under=0.3, over=2.0)]
        return draw.pick([*names, losses.CostTable(costs)])

    def thresholds(draw: Draw) -> Any:
        n_labels = draw.pick([2, 3, 8, 9])
        return ordinal.StreamingThresholds(
            n_labels,
            task(draw, n_labels),
            window=draw.window_or_time(),
            half_life=draw.half_life_or_time(),
        )

    def label(draw: Draw, learner: Any) -> Any:
        return draw.pick([int, float, np.int64])(draw.random.randint(1, learner.n_labels))

    def learn(draw: Draw, learner: Any, held: list[Any]) -> None:
        sample = draw.score(), label(draw, learner), draw.weight()
        learner.learn_one(*sample, **draw.when(learner))
        held.append(sample)

    def learn_many(draw: Draw, learner: Any, held: list[Any]) -> None:
        n = draw.pick([0, 1, 40])
        x, w = (
            np.array(draw.batch(draw.score, n), float),
            np.array(draw.batch(draw.weight, n), float),
        )
        y = np.array([int(label(draw, learner)) for _ in range(n)], np.int64)
        learner.learn_many(x, y, w, **draw.times(learner, n))
        held.extend(zip(x.tolist(), y.tolist(), w.tolist(), strict=True))

    def ask_thresholds(learner: Any) -> Any:
        learner._index.check()
        if not learner.n_scores:
            return None
        cuts = learner.thresholds
        rising(cuts)
        assert learner.risk >= 0.0, f"a risk of {learner.risk}"
        answers = [learner.predict_one(score) for score in SCORES]
        within(answers, 1, learner.n_labels)
        assert answers == learner.predict_many(SCORES).tolist()
        return answers, cuts.tolist(), learner.n_samples

    CASES[ordinal.StreamingThresholds] = Case(
        thresholds, [learn] * 6 + [learn_many, _unlearn_isotonic], ask_thresholds, cost=4.0
    )

    def learn_rank(draw: Draw, learner: Any, held: list[Any]) -> None:
        known = held[0] if held else learner.labels or draw.labels()
        held[:] = [known]
        dual = isinstance(learner, ordinal.KernelCuSumRank)
        # Products of large features are no finite numbers, which it says and learns nothing.
        with contextlib.suppress(ValueError) if dual else contextlib.nullcontext():
            learner.learn_one(draw.features(), draw.pick(known), draw.weight())

    def learn_ranks(draw: Draw, learner: Any, held: list[Any]) -> None:
        import pandas as pd

        known = held[0] if held else learner.labels or draw.labels()
        held[:] = [known]
        n = draw.random.randint(1, 5)
        frame = pd.DataFrame({"a": draw.batch(draw.random.random, n), "b": np.ones(n)})
        learner.learn_many(frame, pd.Series(draw.batch(lambda: draw.pick(known), n)), draw.weight())

    def ask_ranks(learner: Any) -> Any:
        answers = []
        far = {"a": -1e60, "b": 1e60} if not isinstance(learner, ordinal.KernelCuSumRank) else {}
        for x in ({}, {"a": 1.0}, far, {"b": 0.3, 7: -2.0}):
            label, probabilities = learner.predict_one(x), learner.predict_proba_one(x)
            distribution(probabilities)
            assert label in probabilities or not probabilities
            answers.append((label, probabilities))
        assert learner.rank_loss >= 0.0
        return answers

    def rank_parameters(draw: Draw, labels: Any) -> dict[str, Any]:
        known = labels and len(labels)
        return {
            "labels": labels,
            "loss": task(draw, known) if known else draw.pick(["absolute", "squared", "zero-one"]),
            "margin": draw.pick([0.0, 0.5, 1e60 if draw.wild else 1.0]),
            "averaging": draw.pick([None, "uniform", 0.1, 20.0]),
            "window": draw.size(),
        }

    def ranker(draw: Draw, kind: type, **drawn: Any) -> Any:
        labels = draw.pick([None, draw.labels()])
        if kind is not ordinal.KernelCuSumRank:
            drawn["l2"] = draw.pick([0.0, 0.01, 0.999])
        return kind(**rank_parameters(draw, labels), **drawn)

    made: dict[type, Callable[[Draw], dict[str, Any]]] = {
        ordinal.CuSumRank: lambda draw: {"intercept": draw.chance(0.5)},
        ordinal.PACuSumRank: lambda draw: {
            "mode": draw.pick(["PA", "PA-I", "PA-II"]),
            "C": draw.positive(1.0),
            "delta": draw.positive(1.0),
        },
        ordinal.PRank: lambda draw: {},
        ordinal.KernelCuSumRank: lambda draw: {
            "kernel": draw.pick(["rbf", "rbf", "linear", "polynomial"]),
            "gamma": draw.pick([1.0, 0.01, 30.0]),
            "budget": draw.pick([1, 2, 9, 60]),
            "drop": draw.pick(["oldest", "smallest"]),
            "intercept": draw.chance(0.5),
        },
    }
    for kind, drawn in made.items():
        frames = [] if kind is ordinal.KernelCuSumRank else [learn_ranks]
        CASES[kind] = Case(
            lambda draw, kind=kind, drawn=drawn: ranker(draw, kind, **drawn(draw)),
            [learn_rank] * 6 + frames,
            ask_ranks,
            cost=4.0,
        )

    class Scores(base.Regressor):
        """A regressor whose prediction is in the sample."""

        def learn_one(self, x: Any, y: Any) -> None:
            pass

        def predict_one(self, x: Any) -> float:
            return float(x.get("a", 0.0))

    def classifier(draw: Draw) -> Any:
        labels = draw.pick([None, (1, 2, 3), ("a", "b")])
        loss: str | TaskLoss = draw.pick(["absolute", "squared", "zero-one"])
        return ordinal.ThresholdClassifier(
            Scores(),
            labels,
            loss=loss,
            window=draw.window_or_time() or 200,
            every=draw.pick([None, 1, 7]),
        )

    def learn_class(draw: Draw, learner: Any, held: list[Any]) -> None:
        known = held[0] if held else learner.labels or draw.labels()
        held[:] = [known]
        x = {"a": draw.score()}
        learner.learn_one(x, draw.pick(known), draw.weight(), **draw.when(learner))

    def ask_class(learner: Any) -> Any:
        answers = []
        for score in SCORES[1:-1]:
            probabilities = learner.predict_proba_one({"a": score})
            distribution(probabilities)
            answers.append((learner.predict_one({"a": score}), probabilities))
        return answers

    CASES[ordinal.ThresholdClassifier] = Case(
        classifier,
        [learn_class],
        ask_class,
        given=lambda learner: {"regressor": learner.regressor},
        cost=12.0,
    )

    def transform(draw: Draw, features: Any, held: list[Any]) -> None:
        x = {key: value for key, value in draw.features().items() if abs(value) < 1e9}
        within(list(features.transform_one(x).values()), -1e9, 1e9)

    CASES[ordinal.RandomFourierFeatures] = Case(
        lambda draw: ordinal.RandomFourierFeatures(
            draw.size(), gamma=draw.pick([1.0, 1e-3, 50.0]), seed=draw.random.randrange(9)
        ),
        [transform],
        lambda features: features.transform_one({"a": 1.0, "b": 0.5}),
    )


# Decisions ----------------------------------------------------------------------------------------


class Oracle(base.Classifier):
    """A classifier whose probability is in the sample."""

    def __init__(self, labels: Sequence[Any] = (False, True)) -> None:
        self.labels = labels

    @property
    def _multiclass(self) -> bool:
        return len(self.labels) > 2

    def learn_one(self, x: Any, y: Any) -> None:
        pass

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Any, float]:
        if len(self.labels) == 2:
            return dict(zip(self.labels, (1.0 - x["p"], x["p"]), strict=True))
        rest = (1.0 - x["p"]) / (len(self.labels) - 1)
        return {label: x["p"] if k == 0 else rest for k, label in enumerate(self.labels)}


def _sample(draw: Draw) -> dict[str, float]:
    return {"p": min(float(draw.probability()), 1.0)}


def _add_decisions() -> None:
    from streamcal import decision

    def profit(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return (2.0 * tp - fp) / (2.0 * (tp + fp + fn + tn))

    def tables(draw: Draw, metric: Any, held: list[Any]) -> None:
        # Counts and sums of weights, up to those of a million of the heaviest samples.
        counts = [draw.pick([0.0, 1.0, 3, draw.exponent(-60, 66)]) for _ in range(4)]
        value = metric(*counts)
        low, high = _metric_range(metric)
        within(value, low, high)

    def ask(metric: Any) -> Any:
        return [metric(*counts) for counts in ((3, 1, 2, 4), (0, 0, 0, 0), (1, 0, 0, 0))]

    zeros: Sequence[Any] = (0, 1, "present")
    for kind in (
        decision.AM,
        decision.Accuracy,
        decision.GMean,
        decision.HMean,
        decision.Jaccard,
        decision.Kappa,
        decision.MCC,
        decision.GTPPR,
        decision.QMean,
        decision.SEC,
    ):
        CASES[kind] = Case(
            lambda draw, kind=kind: kind(zero_division=draw.pick(zeros)), [tables], ask, cost=1.0
        )
    CASES[decision.FBeta] = Case(
        lambda draw: decision.FBeta(draw.pick([1.0, 2.0, 0.1])), [tables], ask, cost=1.0
    )
    CASES[decision.Tversky] = Case(
        lambda draw: decision.Tversky(draw.pick([1.0, 0.1]), draw.pick([1, 5.0])),
        [tables],
        ask,
        cost=1.0,
    )
    CASES[decision.FractionalLinear] = Case(
        lambda draw: decision.FractionalLinear((0, 2, 0, 0), (0, 0, 1, 1)), [tables], ask, cost=1.0
    )
    CASES[decision.Metric] = Case(
        lambda draw: decision.Metric(profit),
        [tables],
        ask,
        given=lambda metric: {"phi": metric.phi},
        cost=1.0,
    )

    from streamcal.decision.goals import METRIC_NAMES

    names = METRIC_NAMES

    def learn(draw: Draw, eum: Any, held: list[Any]) -> None:
        eum.learn_one(draw.score(), draw.binary(), draw.weight(), **draw.when(eum))

    def learn_many(draw: Draw, eum: Any, held: list[Any]) -> None:
        n = draw.pick([0, 1, 30])
        parts = (draw.score, draw.binary, draw.weight)
        batch = (np.array(draw.batch(one, n), np.float64) for one in parts)
        eum.learn_many(*batch, **draw.times(eum, n))

    def ask_eum(eum: Any) -> Any:
        eum._index.check()
        threshold, utility = eum.threshold, eum.utility
        assert not math.isnan(threshold)
        within(utility, *_metric_range(eum._metric))
        curve = eum.curve()
        within(curve.utilities, *_metric_range(eum._metric))
        assert len(curve.thresholds) == eum.n_scores + 1
        assert curve.utilities.max() <= utility + 1e-6, f"{curve.utilities.max()} > {utility}"
        return utility

    CASES[decision.EUMThreshold] = Case(
        lambda draw: decision.EUMThreshold(
            draw.pick(names), window=draw.window_or_time(), half_life=draw.half_life_or_time()
        ),
        [learn] * 6 + [learn_many],
        ask_eum,
        cost=4.0,
    )

    def model(draw: Draw) -> Any:
        return decision.DecisionClassifier(
            Oracle(),
            draw.pick(names),
            history=draw.pick(["labels", "expected", None]),
            half_life=draw.half_life_or_time(),
        )

    def learn_decision(draw: Draw, learner: Any, held: list[Any]) -> None:
        learner.learn_one(_sample(draw), draw.pick([False, True]), **draw.when(learner))

    def learn_batch(draw: Draw, learner: Any, held: list[Any]) -> None:
        n = draw.random.randint(1, 4)
        xs = [_sample(draw) for _ in range(n)]
        learner.learn_batch(xs, [draw.chance(0.5) for _ in xs], **draw.times(learner, n))

    def ask_decision(learner: Any) -> Any:
        answers = [learner.predict_one({"p": p}) for p in GRID]
        assert set(answers) <= {False, True}
        within(list(learner.counts), 0.0, math.inf)
        assert not math.isnan(learner.claim_gap)
        return answers

    CASES[decision.DecisionClassifier] = Case(
        model,
        [learn_decision, learn_decision, learn_batch],
        ask_decision,
        given=lambda learner: {"classifier": learner.classifier},
        cost=4.0,
    )

    def learn_set(draw: Draw, learner: Any, held: list[Any]) -> None:
        x = _sample(draw)
        held.append((x, learner.predict_set_one(x)))
        x, answer = held.pop(draw.random.randrange(len(held)))
        late = draw.pick([{}, {"decided": answer}, {"served": learner.predict_proba_one(x)}])
        labels = learner.classifier.labels
        new = ["new"] if isinstance(labels[0], str) else []
        learner.learn_one(x, draw.pick([*labels, *new]), **late)

    def ask_sets(learner: Any) -> Any:
        answers = [learner.predict_set_one({"p": p}) for p in GRID]
        assert all(answers)
        assert 0 <= learner.n_misses <= learner.n_samples
        within([learner.threshold], 0.0, 1.0)
        return answers

    CASES[decision.PredictionSetClassifier] = Case(
        lambda draw: decision.PredictionSetClassifier(
            Oracle(draw.pick([(False, True), "abc", "abcdefg"])),
            draw.pick([0.5, 0.9, 0.99, 1e-9]),
            score=draw.pick(["lac", "aps"]),
            step=draw.pick([0.005, 0.3, 1, 1e-9]),
        ),
        [learn_set],
        ask_sets,
        given=lambda learner: {"classifier": learner.classifier},
        cost=4.0,
    )

    def selective(draw: Draw) -> Any:
        confidence = draw.pick([None, 0.5, 0.9])
        labels = draw.pick([(False, True), ("a", "b", "c")])
        return decision.SelectiveClassifier(
            Oracle(labels),
            draw.pick(["accuracy", "precision"]),
            draw.pick([0.5, 0.9]),
            confidence=confidence,
            floor=confidence and draw.pick([None, 0.5]),
            segments=draw.pick([None, ("kind",)]),
            pos_val=labels[-1],
        )

    def selective_sample(draw: Draw) -> dict[str, Any]:
        return {**_sample(draw), "kind": draw.pick(["x", "y", None])}

    def learn_selective(draw: Draw, learner: Any, held: list[Any]) -> None:
        x, given = selective_sample(draw), dict[str, Any]()
        if held and draw.chance(0.5):
            x, given["served"] = held.pop(draw.random.randrange(len(held)))
            answer = given["served"].answer
        else:
            answer = learner.predict_one(x)
        if learner.floor is not None and answer is not None:
            given["propensity"] = 1.0 if "served" in given else draw.pick([0.5, 1.0])
        learner.learn_one(x, draw.pick(learner.classifier.labels), **given)

    def serve_selective(draw: Draw, learner: Any, held: list[Any]) -> None:
        x = selective_sample(draw)
        selection = learner.serve_one(x)
        if learner.floor is not None and draw.chance(0.5):
            selection = learner.ask_one(x, selection, propensity=1.0)
        held.append((x, selection))

    def ask_selective(learner: Any) -> Any:
        answers = [learner.predict_one({"p": p, "kind": "x"}) for p in GRID]
        assert set(answers) <= {None, *learner.classifier.labels}
        for promise in learner.promises.values():
            assert promise.threshold >= 0.0
            if promise.most_errors is not None:
                assert promise.n_errors <= promise.most_errors
        return answers, learner.promises

    CASES[decision.SelectiveClassifier] = Case(
        selective,
        [learn_selective, learn_selective, serve_selective],
        ask_selective,
        given=lambda learner: {"classifier": learner.classifier},
        cost=4.0,
    )

    def push(draw: Draw, batcher: Any, held: list[Any]) -> None:
        held.append(len(held))
        released = batcher.push(_sample(draw), held[-1], float(len(held)))
        released += batcher.poll(float(len(held)))
        assert len(batcher) < batcher.batch_size
        assert all(answer.label in (False, True) for answer in released)

    CASES[decision.MicroBatcher] = Case(
        lambda draw: decision.MicroBatcher(
            model(draw), draw.pick([1, 2, 5]), draw.pick([None, 0.0, 3.0])
        ),
        [push],
        lambda batcher: None,
        cost=6.0,
    )

    def ask_person(draw: Draw, budget: Any, held: list[Any]) -> None:
        budget.ask_one(draw.pick(range(40)), float(draw.score()), t=draw.time())

    def ask_budget(budget: Any) -> Any:
        assert 0 <= budget.n_asked <= budget.n_samples
        twin = copy.deepcopy(budget)
        asks = [twin.ask_one(("new", i), 0.5, t=3600.0 * i) for i in range(24)]
        assert sum(asks) <= budget.per_day
        return budget.n_asked, budget.n_samples, asks

    CASES[decision.ReviewBudget] = Case(
        lambda draw: decision.ReviewBudget(draw.pick([1, 5, 1_000]), remember=draw.pick([1, 20])),
        [ask_person],
        ask_budget,
    )


def _metric_range(metric: Any) -> tuple[float, float]:
    """Return the least and the greatest value of a metric of tables with rounded counts."""
    name = type(metric).__name__
    low = {"MCC": -1.0, "Kappa": -1.0, "SEC": -1.0, "Metric": -1.0}.get(name, 0.0)
    high = 1.0
    if name == "FractionalLinear":
        return 0.0, math.inf
    return low - 1e-9, high + 1e-9


# Wrappers -----------------------------------------------------------------------------------------


def _add_wrappers() -> None:
    from river import tree

    from streamcal import calibration
    from streamcal.voting import VoteClassifier
    from streamcal.wrappers import CalibratedClassifier, CalibratedRegressor

    kinds = [
        calibration.PlattCalibrator,
        calibration.BetaCalibrator,
        calibration.HistogramCalibrator,
        calibration.HedgedCalibrator,
        calibration.TemperatureCalibrator,
        calibration.TopLabelCalibrator,
    ]

    def classifier(draw: Draw) -> Any:
        calibrator: Any = calibration.IsotonicCalibrator(
            window=draw.window(), half_life=draw.half_life(), prior=draw.prior()
        )
        segments = draw.pick([None, None, ("p", "missing")])
        if draw.chance(0.7):
            calibrator = counting(draw, CASES[draw.pick(kinds)].make)
        if isinstance(calibrator, calibration.JointCalibrator):
            segments = None
        return CalibratedClassifier(Oracle(draw.labels()), calibrator, segments=segments)

    def learn(draw: Draw, model: Any, held: list[Any]) -> None:
        x, y, w = _sample(draw), draw.pick(model.classifier.labels), draw.weight()
        if draw.chance(0.5):
            model.learn_one(x, y, w)
        else:
            served = model.serve_one(x)
            distribution(served.calibrated)
            model.learn_one(x, y, w, served=served)

    def ask(model: Any) -> Any:
        answers = [model.predict_proba_one({"p": p}) for p in (0.0, 0.1, 0.5, 0.9, 1.0)]
        for answer in answers:
            distribution(answer)
        return answers

    CASES[CalibratedClassifier] = Case(
        classifier, [learn], ask, given=lambda model: {"classifier": model.classifier}, cost=6.0
    )

    class ScoreOfSample(base.Regressor):
        """A regressor whose prediction is in the sample."""

        def learn_one(self, x: Any, y: Any) -> None:
            pass

        def predict_one(self, x: Any) -> float:
            return float(x["score"])

    def regressor(draw: Draw) -> Any:
        kind = draw.pick([calibration.IsotonicCalibrator, calibration.AnytimeCalibrator])
        calibrator = counting(draw, CASES[kind].make)
        loss = calibrator._loss
        while not (loss.z_range.low < 0.0 and loss.y_range.low < 0.0 and loss.y_range.high > 1e9):
            calibrator = counting(draw, CASES[kind].make)
            loss = calibrator._loss
        return CalibratedRegressor(ScoreOfSample(), calibrator)

    def learn_number(draw: Draw, model: Any, held: list[Any]) -> None:
        model.learn_one({"score": draw.score()}, draw.random.gauss(0.0, 2.0), draw.weight())

    def ask_number(model: Any) -> Any:
        answers = [model.predict_one({"score": score}) for score in SCORES]
        within(answers, -1.7e308, 1.7e308)
        rising(answers)
        return answers

    CASES[CalibratedRegressor] = Case(
        regressor,
        [learn_number],
        ask_number,
        given=lambda model: {"regressor": model.regressor},
        cost=6.0,
    )

    def votes(draw: Draw) -> Any:
        calibrator = calibration.IsotonicCalibrator(window=draw.window(), prior=draw.prior())
        return VoteClassifier(tree.HoeffdingTreeClassifier(grace_period=20), calibrator)

    def learn_vote(draw: Draw, model: Any, held: list[Any]) -> None:
        p = draw.random.random()
        model.learn_one({"p": p, "q": draw.random.random()}, draw.random.random() < p)

    def ask_votes(model: Any) -> Any:
        answers = [model.predict_proba_one({"p": p, "q": 0.5}) for p in (0.1, 0.5, 0.9)]
        for answer in answers:
            distribution(answer)
        return answers

    CASES[VoteClassifier] = Case(votes, [learn_vote], ask_votes, cost=6.0)


# Alarms -------------------------------------------------------------------------------------------


def _add_alarms() -> None:
    from streamcal.monitoring import (
        AuditedMean,
        AuditedMetric,
        AuditSampler,
        CalibrationDrift,
        CalibrationTest,
        ForecastComparison,
    )

    def update(draw: Draw, monitor: Any, held: list[Any]) -> None:
        p = float(draw.probability())
        monitor.update(draw.random.random() < p, p, draw.pick([1.0, 0.25]))

    def update_many(draw: Draw, test: Any, held: list[Any]) -> None:
        p = np.array([float(draw.probability()) for _ in range(draw.size())])
        test.update_many(np.array([draw.random.random() < each for each in p.tolist()]), p)

    def update_group(draw: Draw, test: Any, held: list[Any]) -> None:
        p = [float(draw.probability()) for _ in range(draw.pick([1, 2, 5]))]
        test.update_group(draw.chance(p[0]), p, draw.pick([1.0, 0.25]))

    def update_late(draw: Draw, test: Any, held: list[Any]) -> None:
        if test.order == "interleaved":
            held.append(test.add_prediction(float(draw.probability())))
            if draw.chance(0.8):
                test.add_label(draw.chance(0.5), held.pop(draw.random.randrange(len(held))))

    def alarm(draw: Draw) -> Any:
        alpha, horizon = draw.pick([0.05, 0.9]), draw.pick([None, None, 1, 2, 7])
        order = "arrival" if horizon is None else "interleaved"
        return CalibrationTest(alpha, order=order, horizon=horizon)

    def merge(draw: Draw, test: Any, held: list[Any]) -> None:
        other = CalibrationTest()
        update_many(draw, other, held)
        test.merge(other)

    def ask(monitor: Any) -> Any:
        since = monitor.since
        assert since is None or 0 <= since <= monitor.n_samples
        if isinstance(monitor, CalibrationDrift):
            assert not math.isnan(monitor.log_statistic)
            return monitor.log_statistic, since, monitor.drift_detected
        within([monitor.p_value], 0.0, 1.0)
        assert not math.isnan(monitor.log_e_value)
        return monitor.log_e_value, monitor.p_value, since

    CASES[CalibrationTest] = Case(
        alarm, [update, update_many, update_group, update_late, merge], ask
    )
    CASES[CalibrationDrift] = Case(
        lambda draw: CalibrationDrift(draw.pick([2.0, 1e9])), [update], ask
    )

    def compare(draw: Draw, comparison: Any, held: list[Any]) -> None:
        p, q = float(draw.probability()), float(draw.probability())
        y = draw.random.random() < p
        comparison.update(y, p, {True: q, False: 1.0 - q}, draw.pick([1.0, 0.25]))

    def compare_many(draw: Draw, comparison: Any, held: list[Any]) -> None:
        p, q = np.array([[float(draw.probability()) for _ in "pq"] for _ in range(draw.size())]).T
        comparison.update_many(np.array([draw.random.random() < each for each in p]), p, q)

    def ask_which(comparison: Any) -> Any:
        low, high = comparison.interval
        assert low <= comparison.mean + 1e-9
        assert comparison.mean - 1e-9 <= high
        return comparison.interval, comparison.mean, comparison.better

    CASES[ForecastComparison] = Case(
        lambda draw: ForecastComparison(draw.pick(["brier", "log"])),
        [compare, compare_many],
        ask_which,
    )

    def choose(draw: Draw, sampler: Any, held: list[Any]) -> None:
        country = draw.pick(["a", "b", 3, None])
        sampler.audit_one(draw.pick(range(40)), float(draw.probability()), {"country": country})

    def ask_sampler(sampler: Any) -> Any:
        assert 0 <= sampler.n_asked <= sampler.n_samples
        return sampler.n_asked, sampler.n_samples, copy.deepcopy(sampler).audit_one("q", 0.4, {})

    CASES[AuditSampler] = Case(
        lambda draw: AuditSampler(
            draw.pick([0.02, 0.5, 1.0]),
            secret="s",
            fields=("country",),
            remember=draw.pick([1, 20]),
        ),
        [choose],
        ask_sampler,
    )

    def observe(draw: Draw, mean: Any, held: list[Any]) -> None:
        p, seen = float(draw.probability()), draw.chance(0.5)
        mean.update(p, float(draw.chance(p)) if seen else None, draw.pick([0.01, 0.3]))

    def ask_mean(mean: Any) -> Any:
        within([mean.mean, *mean.interval_once, *mean.interval_always], 0.0, 1.0)
        return mean.mean, mean.interval_once, mean.interval_always, mean.n_observed

    CASES[AuditedMean] = Case(lambda draw: AuditedMean(draw.pick([0.05, 0.9])), [observe], ask_mean)

    def ask_ratio(metric: Any) -> Any:
        within([metric.value, *metric.interval_once, *metric.interval_always], 0.0, 1.0)
        return metric.value, metric.interval_once, metric.interval_always, metric.n_observed

    CASES[AuditedMetric] = Case(
        lambda draw: AuditedMetric(draw.pick(["f1", "recall"]), draw.pick([0.05, 0.9])),
        [observe],
        ask_ratio,
    )


# Stores -------------------------------------------------------------------------------------------


def _add_stores() -> None:
    from streamcal import IsotonicCalibrator, PlattCalibrator
    from streamcal.durable.expiry import Expiry
    from streamcal.durable.keyed import KeyedCalibrator
    from streamcal.durable.labels import Event, LabelJoin
    from streamcal.durable.store import Store
    from streamcal.durable.timeline import Timeline

    def name(draw: Draw) -> Any:
        return draw.pick(["a", "b", "", 1, True, 2.5, ("a", 1), None])

    def add(draw: Draw, join: Any, held: list[Any]) -> None:
        score, y = draw.pick([math.nan, draw.probability()]), draw.pick([math.nan, draw.share()])
        x = draw.pick([None, {}, {"a": "é", "b": draw.probability(), "c": True}])
        event = Event(float(score), float(y), float(draw.weight()), name(draw), name(draw), None, x)
        whole = join.add(event)
        assert whole is None or not math.isnan(whole.score + whole.y)

    def ask_join(join: Any) -> Any:
        assert join.n_waiting >= 0
        return join.n_waiting, join.n_joined, join.n_expired, join.n_duplicates

    CASES[LabelJoin] = Case(lambda draw: LabelJoin(draw.size()), [add], ask_join)

    def add_samples(draw: Draw, timeline: Any, held: list[Any]) -> None:
        start, n = max(timeline.periods().ends, default=0.0), draw.size()
        raw, calibrated, y = np.array([[draw.probability() for _ in range(n)] for _ in range(3)])
        timeline.add(start + 1.0 + np.arange(n), raw, calibrated, y > 0.5, now=start)
        last = timeline.decisions[-1, 0] if len(timeline.decisions) else 0.0
        served = np.column_stack([last + 1.0 + np.arange(n), calibrated, np.full(n, np.nan)])
        labels = [[last + 2 * n - draw.size(), draw.pick([0.0, 1.0])] for _ in range(n)]
        timeline.serve(served, np.array(labels).reshape(-1, 2))

    def ask_timeline(timeline: Any) -> Any:
        periods = timeline.periods()
        assert len(timeline.recent) <= periods.n.sum()
        at, served, y = timeline.decisions.T
        assert ((y == 0.0) | (y == 1.0) | np.isnan(y)).all()
        decisions = [at.tolist(), served.tolist(), np.nan_to_num(y, nan=-1.0).tolist()]
        return *(part.tolist() for part in periods), timeline.recent.tolist(), decisions

    def learn_key(draw: Draw, expiry: Any, held: list[Any]) -> None:
        expiry.used.add(name(draw))
        if expiry.n_left > 1:
            expiry.count(1)
        else:
            vars(expiry).update(vars(expiry.next_period(1, draw.size())))
        if draw.chance(0.3):
            vars(expiry).update(vars(expiry.to_save(draw.size())))

    def ask_expiry(expiry: Any) -> Any:
        assert 0 < expiry.n_left <= expiry.expire_after
        expiry.used.clear()  # it is not in the bytes
        expiry.is_noted = True
        return expiry.n_left, expiry.mark, sorted(expiry.used_names())

    CASES[Expiry] = Case(lambda draw: Expiry(draw.size()), [learn_key], ask_expiry)

    CASES[Timeline] = Case(lambda draw: Timeline(), [add_samples], ask_timeline)

    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    count = itertools.count()

    def store() -> Any:
        # Files of a folder that goes with this process.
        return Store(Path(folder.name) / f"{next(count)}.db")

    def calibrator(draw: Draw) -> Any:
        return draw.pick(
            [
                IsotonicCalibrator(window=draw.window(), half_life=draw.half_life()),
                PlattCalibrator(half_life=draw.half_life()),
            ]
        )

    def keyed(draw: Draw) -> Any:
        options = {
            "max_live": draw.pick([None, 1, 2]),
            "store": store() if draw.chance(0.3) else None,
        }
        return KeyedCalibrator(calibrator(draw), **options)

    def learn(draw: Draw, learner: Any, held: list[Any]) -> None:
        learner.learn_one(name(draw), draw.probability(), draw.binary(), draw.weight())

    def learn_many(draw: Draw, learner: Any, held: list[Any]) -> None:
        n = draw.random.randint(0, 5)
        keys = draw.batch(lambda: name(draw), n)
        parts = (draw.probability, draw.binary, draw.weight)
        samples = [np.array(draw.batch(one, n), np.float64) for one in parts]
        within(learner.predict_learn_many(keys, *samples), 0.0, 1.0)

    def ask_keyed(learner: Any) -> Any:
        answers = [learner.predict_one(key, p) for key in ("a", 1, "new") for p in (0.1, 0.9)]
        within(answers, 0.0, 1.0)
        assert len(list(learner)) == len(learner)
        return answers

    CASES[KeyedCalibrator] = Case(keyed, [learn, learn, learn_many], ask_keyed, cost=6.0)

    def save(draw: Draw, kept: Any, held: list[Any]) -> None:
        learner = calibrator(draw)
        learner.learn_many(*(draw.batch(draw.random.random, 5) for _ in range(2)))
        data = learner.to_bytes()
        kept.save({"one": learner}, offset=len(held), notes={"n": len(held)})
        held.append(data)
        assert kept.get_bytes("one") == data
        assert kept.load().offset == len(held) - 1

    CASES[Store] = Case(lambda draw: store(), [save], lambda kept: kept.keys(), cost=20.0)


# Bounds -------------------------------------------------------------------------------------------


def n_programs(kind: type) -> int:
    """Return the number of programs of a class; STREAMCAL_SOAK=10000000 takes an hour."""
    effort = int(os.environ.get("STREAMCAL_SOAK", "10000")) / 1000
    return max(1, round(effort / cases()[kind].cost))


def main() -> int:
    """Run programs of every class, or of those named."""
    faults = 0
    for kind in sorted(cases(), key=lambda kind: kind.__name__):
        if sys.argv[1:] and kind.__name__ not in sys.argv[1:]:
            continue
        began = time.perf_counter()
        for seed in range(n_programs(kind)):
            try:
                with np.errstate(all="ignore"):
                    run(kind, seed, 60)
            except FaultError as fault:
                faults += 1
                print(fault, flush=True)
        ms = 1000 * (time.perf_counter() - began) / n_programs(kind)
        print(f"{kind.__name__}: {n_programs(kind)} programs, {ms:.0f} ms each", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
