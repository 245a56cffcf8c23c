"""Alarms of `streamcal.monitoring`: how many are false, and how soon lost calibration is found.

    python benchmarks/monitoring.py [--repeats 200] [PART ...]

Without a part it prints all of them:

* *right*: forecasts of several shapes, 10,000 samples each: the share of streams with an alarm of
  `CalibrationTest` (α = 0.05) at any time.
* *misfit*: the simulation of the safe Hosmer–Lemeshow test (Henzi et al. 2023): x is uniform from
  −3 to 3, the log odds of the label are quadratic in x, those of the forecast linear; J is the
  probability at x = −3. The share of streams with an alarm by the n-th sample, and the median n.
* *run-length*: samples to a false alarm of `CalibrationDrift` with several thresholds, for right
  forecasts of each shape (those of the change: 6 streams for each repeat, else 2), and the
  threshold with which forecasts of the change have a run length of 20,000.
* *change*: 2,500 right forecasts (log odds standard normal), then 2,500 with other odds, or wrong
  ones from the start. `CalibrationDrift(20_000)`, the same with the threshold of *run-length*,
  `CalibrationTest`, river's `ADWIN` and `PageHinkley` on the Brier score, and the rule of
  PITMonitor: the share of streams that are found, with the median delay; alarms before the change
  are counted apart and left out.
* *calibrator*: alarms of `CalibrationDrift(20_000)` on 200,000 labels of a stream that does not
  change (a stream for each ten repeats): on the true probabilities, and on those that calibrators
  serve, each before it learns the label. Scores are too extreme (log odds doubled, the true ones
  standard normal) or too high (uniform, the true probability is its square).
* *late*: right forecasts whose labels come up to 48 predictions later, 10,000 samples each: the
  share of streams with an alarm of `CalibrationTest` in each order. Blocks of 48 share one uniform
  draw; or labels are independent, and positive ones come at once. And wrong forecasts, as above.
* *segments*: 100 segments of 200 samples each, 10 of them with log odds that are too low by 1.
  `e_bh` (α = 0.05) after all 20,000 samples, with the e-values then, and with those that last: the
  share of the names that are false, and of the wrong segments that are named, in the mean.
"""

import argparse
import bisect
import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import drift
from scipy.optimize import minimize
from scipy.special import expit, logit

from streamcal import HedgedCalibrator, IsotonicCalibrator
from streamcal.monitoring import CalibrationDrift, CalibrationTest, e_bh

Vector = NDArray[np.float64]


def alarm_of_test(p: Vector, y: Vector, **given: Any) -> int | None:
    """Return after how many samples `CalibrationTest` rejects, at α = .05."""
    test = CalibrationTest(**given)
    for start in range(0, len(p), 500):
        before, part = copy.deepcopy(test), slice(start, start + 500)
        test.update_many(y[part], p[part])
        if test.rejected:
            for at, (label, score) in enumerate(zip(y[part], p[part], strict=True), start + 1):
                before.update(label, score)
                if before.rejected:
                    return at
    return None


def alarm_of(detector: Any, p: Vector, y: Vector) -> int | None:
    """Return after how many samples a detector alarms; one of river gets the Brier score."""
    own = isinstance(detector, CalibrationDrift)
    for at, (score, label) in enumerate(zip(p.tolist(), y.tolist(), strict=True)):
        if own:
            detector.update(bool(label), score)
        else:
            detector.update((score - label) ** 2)
        if detector.drift_detected:
            return at + 1
    return None


def alarm_of_pit_monitor(pits: Vector, rng: np.random.Generator, n_bins: int = 100) -> int | None:
    """Return after how many samples PITMonitor alarms, with its defaults (arXiv 2603.13156).

    Each transform is ranked among those before it. A histogram of the ranks so far, with one
    sample in each bin to begin with, is the density that bets on the next one. The stake on a
    change at sample t is 1 / (t (t + 1)); an alarm comes when all stakes are worth 20.
    """
    earlier: list[float] = []
    counts, wealth = [1.0] * n_bins, 0.0
    ties = rng.random(len(pits)).tolist()
    for t, (pit, tie) in enumerate(zip(pits.tolist(), ties, strict=True), 1):
        n_below = bisect.bisect_left(earlier, pit)
        n_equal = bisect.bisect_right(earlier, pit) - n_below
        earlier.insert(n_below, pit)
        at = min(int((n_below + tie * (n_equal + 1)) / t * n_bins), n_bins - 1)
        wealth = (wealth + 1.0 / (t * (t + 1.0))) * counts[at] * n_bins / (n_bins + t - 1.0)
        counts[at] += 1.0
        if wealth >= 20.0:
            return t
    return None


def transformed(p: Vector, y: Vector, rng: np.random.Generator) -> Vector:
    """Return the randomised transforms of labels: uniform numbers while forecasts are right."""
    u = rng.random(len(p))
    return np.where(y == 1.0, 1.0 - p + u * p, u * (1.0 - p))


def right(rng: np.random.Generator, n: int) -> dict[str, Vector]:
    """Return right forecasts of several shapes."""
    hours = np.arange(n) / n
    return {
        "constant": np.full(n, 0.3),
        "extreme": expit(4.0 * rng.normal(size=n)),
        "ties": rng.choice([0.01, 0.1, 0.5, 0.9], size=n),
        "drifting base rate": expit(rng.normal(size=n) + 3.0 * np.sin(6.0 * hours)),
        "log-normal odds": expit(rng.normal(size=n)),
        "uniform": rng.random(n),
    }


def labels_of(rng: np.random.Generator, p: Vector) -> Vector:
    """Return labels for which the probabilities are right."""
    return (rng.random(len(p)) < p).astype(float)


HORIZON = 48  # predictions before which each label comes


def alarms(p: Vector, y: Vector, by_arrival: NDArray[np.intp]) -> dict[str, int | None]:
    """Return after how many samples `CalibrationTest` alarms in each order."""
    return {
        "arrival": alarm_of_test(p[by_arrival], y[by_arrival]),
        "interleaved": alarm_of_test(p, y, order="interleaved", horizon=HORIZON),
    }


def late_and_right(n_repeats: int, n: int = 10_000) -> None:
    """Print how many false alarms there are where labels are late."""
    rng, now = np.random.default_rng(1), np.arange(n)
    found: dict[str, list[dict[str, int | None]]] = {}
    for _ in range(n_repeats):
        p, draws = expit(rng.normal(size=n)), rng.random(n)
        shared = np.repeat(draws[::HORIZON], HORIZON)[:n]
        same = alarms(p, (shared < p).astype(float), now)
        found.setdefault("blocks share a draw", []).append(same)
        y = (draws < p).astype(float)
        by_arrival = np.argsort(np.where(y > 0.0, now, now + HORIZON - 0.5))
        found.setdefault("positives come at once", []).append(alarms(p, y, by_arrival))
    tell(found)


def late_and_wrong(n_repeats: int, n: int = 10_000) -> None:
    """Print how soon wrong forecasts are found where labels are late."""
    rng, now = np.random.default_rng(2), np.arange(n)
    found: dict[str, list[dict[str, int | None]]] = {}
    for _ in range(n_repeats):
        for name, (shift, slope) in {"+.5": (0.5, 1.0), "+1": (1.0, 1.0), "½": (0.0, 0.5)}.items():
            z = rng.normal(size=n)
            y = (rng.random(n) < expit(shift + slope * z)).astype(float)
            found.setdefault(name, []).append(alarms(expit(z), y, now))
    tell(found)


def tell(found: dict[str, list[dict[str, int | None]]]) -> None:
    """Print the share of streams with an alarm, and the median."""
    for name, each in found.items():
        for order in each[0]:
            at = [of[order] or np.inf for of in each]
            print(
                f"late, {name}, {order}: {np.mean(np.isfinite(at)):.3f} alarmed,"
                f" median {np.median(at):.0f}"
            )


def quadratic(misfit: float) -> tuple[Vector, Vector]:
    """Return the coefficients of the log odds of labels and forecasts, as the peers' paper does."""
    at = np.array([[1.0, x, x * x] for x in (-1.5, 3.0, -3.0)])
    true = np.linalg.solve(at, logit([0.05, 0.95, misfit]))
    x = np.linspace(-3.0, 3.0, 20_001)
    pi = expit(true[0] + true[1] * x + true[2] * x * x)

    def loss(line: Vector) -> float:
        odds = line[0] + line[1] * x
        return float(np.mean(np.logaddexp(0.0, odds) - pi * odds))

    return true, minimize(loss, [0.0, 1.0]).x


def segments(n_repeats: int) -> None:
    """Print which of 100 segments are named."""
    rng = np.random.default_rng(3)
    of_segments: dict[str, list[tuple[float, float]]] = {"now": [], "lasting": []}
    for _ in range(n_repeats):
        tests = {name: CalibrationTest() for name in range(100)}
        for name, test in tests.items():
            z = rng.normal(size=200)
            test.update_many((rng.random(200) < expit(z + (name < 10))).astype(float), expit(z))
        for which, values in (
            ("now", {name: test.log_e_value for name, test in tests.items()}),
            ("lasting", {name: test.log_lasting_e_value for name, test in tests.items()}),
        ):
            named = np.array(e_bh(values))
            false = np.mean(named >= 10) if len(named) else 0.0
            of_segments[which].append((float(false), float(np.sum(named < 10)) / 10.0))
    for which, pairs in of_segments.items():
        false, named_share = np.mean(pairs, axis=0)
        print(f"segments, e-values {which}: {false:.4f} of names false, {named_share:.3f} found")


def right_forecasts(n_repeats: int) -> None:
    """Print how many false alarms there are."""
    rng = np.random.default_rng(0)
    alarms: dict[str, list[bool]] = {}
    for _ in range(n_repeats):
        for name, p in right(rng, 10_000).items():
            at = alarm_of_test(p, labels_of(rng, p))
            alarms.setdefault(name, []).append(at is not None)
    for name, found in alarms.items():
        print(f"right, {name}: {np.mean(found):.3f} ever alarmed")


def misfits(n_repeats: int) -> None:
    """Print how soon a quadratic misfit is found."""
    rng = np.random.default_rng(4)
    for misfit in (0.027, 0.047, 0.067):
        true, line = quadratic(misfit)
        at = []
        for _ in range(n_repeats):
            x = rng.uniform(-3.0, 3.0, 8_192)
            y = labels_of(rng, expit(true[0] + true[1] * x + true[2] * x * x))
            at.append(alarm_of_test(expit(line[0] + line[1] * x), y) or np.inf)
        shares = ", ".join(f"{np.mean(np.array(at) <= 2**k):.2f}" for k in range(10, 14))
        median = np.median(at)
        print(f"misfit {misfit}: alarm by 1024, 2048, 4096, 8192: {shares}; median {median:.0f}")


OF_CHANGE = "log-normal odds"  # the shape of the forecasts of a change, before it
THRESHOLDS = (1_000, *range(14_000, 20_001, 500))


def run_lengths(n_streams: int, shape: str) -> NDArray[np.float64]:
    """Return how many right samples come before the alarm of each threshold, of each stream."""
    rng, logs = np.random.default_rng(5), [math.log(each) for each in THRESHOLDS]
    lengths = np.empty((n_streams, len(logs)))
    for of_stream in lengths:
        detector, n, k = CalibrationDrift(THRESHOLDS[-1]), 0, 0
        while k < len(logs):
            p = right(rng, 5_000)[shape]
            for score, label in zip(p.tolist(), labels_of(rng, p).tolist(), strict=True):
                detector.update(bool(label), score)
                n += 1
                while k < len(logs) and detector.log_statistic >= logs[k]:
                    of_stream[k] = n
                    k += 1
                if k == len(logs):
                    break
    return lengths


def measured_threshold(n_repeats: int) -> float:
    """Print run lengths of forecasts as before the change; return the threshold for 20,000."""
    lengths = run_lengths(6 * n_repeats, OF_CHANGE)
    means = np.mean(lengths, axis=0)
    errors = np.std(lengths, axis=0) / math.sqrt(len(lengths))
    for threshold, mean, error in zip(THRESHOLDS, means, errors, strict=True):
        print(f"run length, {OF_CHANGE}, threshold {threshold}: {mean:.0f} ± {error:.0f}")
    found = round(float(np.interp(20_000.0, means, THRESHOLDS)), -2)
    print(f"run length, {OF_CHANGE}: 20,000 with the threshold {found:.0f}", flush=True)
    return found


def run_lengths_of_shapes(n_repeats: int) -> None:
    """Print run lengths of the other shapes."""
    for shape in right(np.random.default_rng(0), 1):
        if shape != OF_CHANGE:
            lengths = run_lengths(2 * n_repeats, shape)
            for threshold in (THRESHOLDS.index(17_000), len(THRESHOLDS) - 1):
                of_threshold = lengths[:, threshold]
                error = np.std(of_threshold) / math.sqrt(len(of_threshold))
                print(
                    f"run length, {shape}, threshold {THRESHOLDS[threshold]}:"
                    f" {np.mean(of_threshold):.0f} ± {error:.0f}",
                    flush=True,
                )


def changes(n_repeats: int, threshold: float) -> None:
    """Print how soon a change is found, and what was wrong from the start."""
    rng = np.random.default_rng(6)
    makers: dict[str, Callable[[], Any]] = {
        "CalibrationDrift(20_000)": lambda: CalibrationDrift(20_000),
        f"CalibrationDrift({threshold:.0f})": lambda: CalibrationDrift(threshold),
        "ADWIN": drift.ADWIN,
        "PageHinkley": drift.PageHinkley,
    }
    for start in (2_500, 0):
        for name, (shift, slope) in {"+.5": (0.5, 1.0), "+1": (1.0, 1.0), "½": (0.0, 0.5)}.items():
            delays: dict[str, list[float]] = {}
            for _ in range(n_repeats):
                z = rng.normal(size=start + 2_500)
                odds = np.where(np.arange(len(z)) < start, z, shift + slope * z)
                p, y = expit(z), labels_of(rng, expit(odds))
                found_at = {each: alarm_of(make(), p, y) for each, make in makers.items()}
                found_at["CalibrationTest"] = alarm_of_test(p, y)
                pits = transformed(p, y, rng)
                found_at["PITMonitor"] = alarm_of_pit_monitor(pits, rng)
                found_at["PITMonitor, 10 bins"] = alarm_of_pit_monitor(pits, rng, 10)
                for each, at in found_at.items():
                    given = delays.setdefault(each, [])
                    if at is None or at > start:
                        given.append(np.inf if at is None else at - start)
            for each, given in delays.items():
                share = np.mean(np.isfinite(given)) if given else np.nan
                print(
                    f"{'change' if start else 'wrong from the start'}, {name}, {each}:"
                    f" {share:.3f} found, median {np.median(given or [np.nan]):.0f},"
                    f" {n_repeats - len(given)} earlier",
                    flush=True,
                )


def calibrators(n_repeats: int, n: int = 200_000) -> None:
    """Print how many alarms there are on what working calibrators serve."""
    makers: dict[str, Callable[[], Any]] = {
        f"IsotonicCalibrator(window={window})": partial(IsotonicCalibrator, window=window)
        for window in (200, 1_000, 5_000, None)
    }
    makers["HedgedCalibrator()"] = HedgedCalibrator
    rng = np.random.default_rng(7)
    n_alarms: dict[str, list[int]] = {}
    for _ in range(max(n_repeats // 10, 1)):
        z, u = rng.normal(size=n), rng.random(n)
        for stream, (scores, true) in {
            "too extreme": (expit(2.0 * z), expit(z)),
            "too high": (u, u**2),
        }.items():
            y = labels_of(rng, true)
            served = {"true probabilities": true}
            for name, make in makers.items():
                served[name] = np.asarray(make().predict_learn_many(scores, y))
            for name, p in served.items():
                detector, n_of_stream = CalibrationDrift(20_000), 0
                for score, label in zip(p.tolist(), y.tolist(), strict=True):
                    detector.update(bool(label), score)
                    n_of_stream += detector.drift_detected
                n_alarms.setdefault(f"{stream}, {name}", []).append(n_of_stream)
    for name, each in n_alarms.items():
        error = np.std(each) / math.sqrt(len(each))
        print(
            f"calibrator, {name}: {np.mean(each):.1f} ± {error:.1f} alarms,"
            f" from {min(each)} to {max(each)}, {len(each)} streams"
        )


def main() -> None:
    """Print the tables."""
    parts = ("right", "misfit", "run-length", "change", "calibrator", "late", "segments")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"PART must be one of {', '.join(parts)}, got {', '.join(unknown)}")
    n_repeats, chosen = arguments.repeats, arguments.parts or parts

    if "right" in chosen:
        right_forecasts(n_repeats)
    if "misfit" in chosen:
        misfits(n_repeats)
    if "run-length" in chosen or "change" in chosen:
        threshold = measured_threshold(n_repeats)
        if "change" in chosen:
            changes(n_repeats, threshold)
        if "run-length" in chosen:
            run_lengths_of_shapes(n_repeats)
    if "calibrator" in chosen:
        calibrators(n_repeats)
    if "late" in chosen:
        late_and_right(n_repeats)
        late_and_wrong(max(n_repeats // 4, 1))
    if "segments" in chosen:
        segments(n_repeats)


if __name__ == "__main__":
    main()
