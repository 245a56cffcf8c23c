"""With any samples, weights and removals, values are in range and maps do not decrease.

`tests.programs` tests this for every class; these tests are for each loss.
"""

import contextlib
import inspect
import math
import os
import random
from typing import Any

import numpy as np
import pytest

from streamcal import (
    BetaCalibrator,
    EUMThreshold,
    HistogramCalibrator,
    IsotonicCalibrator,
    PAVStack,
    PlattCalibrator,
    StreamingThresholds,
    TemperatureCalibrator,
    _state,
    anytime_isotonic,
    isotonic_fit,
    losses,
    metrics,
)
from streamcal.isotonic.convex_stack import ConvexBlocks
from streamcal.losses.ranges import Interval
from tests import programs
from tests.programs import Draw, rising, within

N_PROGRAMS = int(os.environ.get("STREAMCAL_SOAK", "10000")) // 1000


def kinds_of(base: type) -> list[type]:
    """Return the concrete losses of this library below ``base``."""
    found, ahead = [], [base]
    while ahead:
        kind = ahead.pop()
        ahead.extend(kind.__subclasses__())
        if kind.__module__.startswith("streamcal.") and not inspect.isabstract(kind):
            found.append(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def default(kind: type) -> Any:
    if kind is losses.FunctionLoss:
        return losses.from_function(lambda z, y: (z - y) ** 2)
    return kind()


MEAN_LOSSES = [default(kind) for kind in kinds_of(losses.MeanLoss)] + [losses.Linex(a=30.0)]
LOSSES = [default(kind) for kind in kinds_of(losses.Loss)]


def samples(draw: Draw, loss: losses.Loss, n: int) -> list[tuple[float, float, float]]:
    label, _, _ = programs._numbers(draw, loss)
    return [(float(draw.pick([0.25, 0.5, 0.75])), label(), float(draw.weight())) for _ in range(n)]


def ends(loss: losses.Loss) -> tuple[float, float]:
    """Return the ends of what the best values of blocks can be."""
    if loss.minimized_by_label and isinstance(loss.y_range, Interval):
        return loss.y_range.clip(-math.inf), loss.y_range.clip(math.inf)
    return loss.z_range.low, loss.z_range.high


@pytest.mark.parametrize("loss", MEAN_LOSSES, ids=str)
def test_values_of_a_stream_that_forgets(loss: losses.MeanLoss) -> None:
    """Weights from 1e-60 to 1e60 at three scores, in a window or taken back one by one."""
    for seed in range(3 * N_PROGRAMS):
        draw = Draw((loss.name, seed))
        calibrator = IsotonicCalibrator(
            loss, prior=draw.prior(), window=draw.window(), half_life=draw.half_life()
        )
        held: list[tuple[float, float, float]] = []
        for sample in samples(draw, loss, 40):
            calibrator.learn_one(*sample)
            held.append(sample)
            if draw.chance(0.3):
                with contextlib.suppress(ValueError):  # not there any more
                    calibrator.unlearn_one(*held.pop(draw.random.randrange(len(held))))
            answers = [calibrator.predict_one(x) for x in (0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0)]
            within(answers, *ends(loss))
            rising(answers)
            if calibrator.n_scores:
                values = calibrator.staircase().values
                within(values, *ends(loss))
                rising(values)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_values_of_batches_and_stacks(loss: losses.Loss) -> None:
    for seed in range(max(1, N_PROGRAMS // 8)):
        draw = Draw((loss.name, seed))
        batch = sorted(samples(draw, loss, 30))
        for interpolation in ("step", "linear"):
            stack = PAVStack(loss, interpolation=interpolation)
            stack.push_many(*zip(*batch, strict=True))
            answers = [stack.predict_one(x) for x in (0.0, 0.25, 0.3, 0.5, 0.6, 0.75, 1.0)]
            assert isinstance(stack._blocks, ConvexBlocks) is not isinstance(loss, losses.MeanLoss)
            fitted = stack.staircase().values
            for values in (answers, fitted):
                within(values, loss.z_range.low, loss.z_range.high)
                rising(values)
        if isinstance(loss, losses.MeanLoss):
            within(isotonic_fit(*zip(*batch, strict=True), loss=loss).values, *ends(loss))


@pytest.mark.parametrize("loss", MEAN_LOSSES, ids=str)
def test_the_range_of_means_is_that_of_labels(loss: losses.MeanLoss) -> None:
    least, most = loss.mean_range
    assert least < most
    draw = Draw(loss.name)
    label, _, _ = programs._numbers(draw, loss)
    within([loss.statistic(float(label())) for _ in range(100)], least, most)
    low, high = loss.link(least), loss.link(most)
    assert loss.z_range.low <= low < high <= loss.z_range.high


# Each as it was found -----------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "labels"), [("log", (0, 1)), ("logistic", (-1, 1))])
@pytest.mark.parametrize("window", [3, None])
def test_what_removal_leaves_stays_in_range(
    loss: str, labels: tuple[int, int], window: int | None
) -> None:
    """The sums of .3 and .9 less .3 and .9 are not 0."""
    calibrator = IsotonicCalibrator(loss, prior=0, window=window)
    low, high = labels
    for y, w in [(high, 0.3), (high, 0.9), (low, 1.0), (low, 1.0), (low, 1.0)]:
        calibrator.learn_one(0.5, y, w)
    if window is None:
        calibrator.unlearn_one(0.5, high, 0.3)
        calibrator.unlearn_one(0.5, high, 0.9)
    expected = 0.0 if loss == "log" else -math.inf
    assert calibrator.predict_one(0.5) == expected
    assert calibrator.predict_many([0.5])[0] == expected
    assert calibrator.staircase().values.tolist() == [expected]


@pytest.mark.parametrize("half_life", [1, 20, 100])
@pytest.mark.parametrize("n_bins", [1, 15])
def test_a_histogram_keeps_to_its_rows(half_life: float, n_bins: int) -> None:
    """Where cells had been merged, what fading away did not clear was counted as a cell."""
    calibrator = HistogramCalibrator(n_bins, half_life=half_life)
    scores = np.random.default_rng(0).random(20_000)
    for start in range(0, len(scores), 50):
        part = scores[start : start + 50]
        calibrator.learn_many(part, part > 0.5)
        cells, *_ = calibrator._kernel.state()
        assert len(cells) <= 16 * n_bins
        assert (np.diff(cells[:, 0]) > 0.0).all()
    again = HistogramCalibrator.from_bytes(calibrator.to_bytes())
    assert again.predict_many(scores[:9]).tolist() == calibrator.predict_many(scores[:9]).tolist()


COUNTED: list[tuple[Any, tuple[float, int]]] = [
    (IsotonicCalibrator(), (0.5, 1)),
    (StreamingThresholds(2), (0.5, 1)),
    (EUMThreshold(), (0.5, 1)),
]


@pytest.mark.parametrize(("learner", "sample"), COUNTED, ids=lambda value: type(value).__name__)
def test_more_than_two_billion_samples_at_one_score(learner: Any, sample: Any) -> None:
    """Counts of 32 bits wrapped, and the bytes were then refused."""
    learner.learn_one(*sample)
    kind, fields, arrays = _state.decode(learner.to_bytes())
    arrays["counts"][:] = 2**31 - 1
    many = type(learner).from_bytes(_state.encode(kind, fields, arrays))
    for _ in range(3):
        many.learn_one(*sample)
    again = type(learner).from_bytes(many.to_bytes())
    assert _state.decode(again.to_bytes()).arrays["counts"].tolist() == [2**31 + 2]
    assert again.n_scores == 1
    assert getattr(again, "n_samples", 2**31 + 2) == 2**31 + 2
    arrays["counts"][:] = 2**53 + 2
    with pytest.raises(ValueError, match="`data` must be"):
        type(learner).from_bytes(_state.encode(kind, fields, arrays))


@pytest.mark.parametrize("clip", [1e-15, 1e-6])
@pytest.mark.parametrize("gamma", [1e-60, 1.0])
@pytest.mark.parametrize("prior", [1e-60, 1.0])
def test_newton_steps_of_heavy_samples_stay_finite(clip: float, gamma: float, prior: float) -> None:
    """NaN, once learned, stays; with calibeating it was an index far outside of memory."""
    calibrator = PlattCalibrator(gamma, prior, limit=1e60, clip=clip, calibeating=3)
    for w in (1e60, 1.0, 1e-60, 1e60):
        for p in (0.0, 1e-9, 0.5, 1.0):
            for y in (0, 1, 0.5):
                calibrator.learn_one(p, y, w)
                within(calibrator.predict_many(np.linspace(0, 1, 9)), 0.0, 1.0)
    with pytest.raises(ValueError, match=r"`clip` must lie in \[1e-15, 0.5\)"):
        PlattCalibrator(clip=1e-20)


@pytest.mark.parametrize("kind", [PlattCalibrator, BetaCalibrator, TemperatureCalibrator])
def test_a_limit_whose_products_overflow_is_refused(kind: Any) -> None:
    kind(limit=1e60)
    with pytest.raises(ValueError, match=r"`limit` must lie in \(1, 1e\+60\]"):
        kind(limit=1e61)


@pytest.mark.parametrize(
    ("metric", "light", "heavy"),
    [
        (metrics.MAE(), (1, 2), (1, 1)),
        (metrics.MacroMAE(), (1, 2), (1, 1)),
        (metrics.QuadraticKappa(), (1, 2), (1, 1)),
        (metrics.ECE(), (True, 0.75), (True, 0.71)),
        (metrics.ECE(strategy="mass"), (True, 0.75), (True, 0.75)),
        (metrics.SmoothECE(), (True, 0.75), (True, 0.75)),
        (metrics.BrierScore(), (True, 0.75), (True, 0.71)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_heavy_sample_that_is_taken_back_leaves_nothing(
    metric: Any, light: tuple[Any, Any], heavy: tuple[Any, Any]
) -> None:
    """Weights that were added up in floats left 0, less than 0, or NaN as the mean."""
    metric.update(*light, 1.0)
    alone = metric.get()
    metric.update(*heavy, 1e30)
    metric.revert(*heavy, 1e30)
    assert metric.get() == alone


def test_a_rolling_window_forgets_what_was_lost_beside_a_heavy_sample() -> None:
    metric, alone = metrics.RollingCORP(window=2), metrics.CORP()
    for w in (1e-20, 1.0, 1e20, 1e-20, 1.0):
        metric.update(True, 0.25, w)
    alone.update(True, 0.25)
    alone.update(True, 0.25, 1e-20)
    assert (metric.mcb, metric.dsc) == (alone.mcb, alone.dsc)


def test_a_window_of_thresholds_knows_what_a_heavy_sample_has_hidden() -> None:
    eum = EUMThreshold("f1", window=3)
    for score, y, w in [(1.0, 1, 1e40), (1.0, 1, 1.0), (0.0, 0, 3.0), (0.0, 1, 1.0)]:
        eum.learn_one(score, y, w)
    assert eum.threshold == 1.0
    assert eum.utility == pytest.approx(2 / 3)


def test_a_window_of_thresholds_is_that_of_its_samples_alone() -> None:
    """Digits were lost in the sum of one class where that of both had kept its own."""
    events = [(0.0, 1, 1e60), (0.5, 1, 2.0), (0.0, 1, 1.0), (0.0, 0, 1e60)]
    eum = EUMThreshold("f1", window=3)
    for event in events:
        eum.learn_one(*event)
    assert eum.utility == pytest.approx(0.8)
    # Each weight is a small part of the one before, so that digits go little by little.
    eum = EUMThreshold("f1", window=2)
    for i in range(12):
        eum.learn_one(1.0, 1, 10.0 ** (-5 * i))
    eum.learn_one(0.0, 0, 1e-55)
    assert (eum.threshold, eum.utility) == (1.0, 1.0)
    assert eum.curve().utilities.tolist() == [0.0, 1.0, pytest.approx(2 / 3)]


@pytest.mark.parametrize("half_life", [None, 0.5])
@pytest.mark.parametrize("exponents", [(0, 59, 30, -30), range(0, -25, -5)], ids=str)
def test_windows_of_thresholds_drawn_at_random(half_life: float | None, exponents: Any) -> None:
    for seed in range(30 * N_PROGRAMS):
        draw = random.Random(seed)
        window = draw.choice([2, 3, 4, 6])
        options: Any = {"window": window, "half_life": half_life}
        eum = EUMThreshold("f1", **options)
        events = []
        for _ in range(draw.randrange(3, 15)):
            weight = draw.choice([1.0, 2.0, 0.3]) * 10.0 ** draw.choice(exponents)
            events.append((draw.choice([0.0, 0.5, 1.0]), draw.randint(0, 1), weight))
            eum.learn_one(*events[-1])
            fresh = EUMThreshold("f1", **options)
            fresh.learn_many(*zip(*events[-window:], strict=True))
            assert eum.utility == pytest.approx(fresh.utility, abs=1e-9), (seed, events)


def test_light_samples_outlast_a_scaling_of_the_weights() -> None:
    """A score was dropped by what it weighed, not by what it had lost."""
    eum = EUMThreshold("f1", half_life=1.0)
    for i in range(200):
        eum.learn_one(float(i % 2), i % 2, 1e-60)
        assert eum.n_scores == min(i + 1, 2)
    assert eum.threshold == 1.0


def test_heavy_samples_do_not_cut_a_tie_in_two() -> None:
    """What is slack beside 1e48 was more than the mark of places that are no cuts."""
    y, w = [-0.1, -1.7, -3.5, 0.9, 2.0], [2e48, 1.5, 1.0, 0.9, 1.0]
    stairs = anytime_isotonic([0, 1, 2, 2, 3], y, w, loss=losses.Pinball(tau=0.8))
    rising(stairs.lower)
    rising(stairs.values)
