"""Alarms of `streamcal.monitoring`: how many are false, and how soon lost calibration is found.

    python benchmarks/monitoring.py [--repeats 200]

* *right*: forecasts of several shapes, 10,000 samples each: the share of streams with an alarm of
  `CalibrationTest` (α = 0.05) at any time.
* *misfit*: the simulation of the safe Hosmer–Lemeshow test (Henzi et al. 2023): x is uniform from
  −3 to 3, the log odds of the label are quadratic in x, those of the forecast linear; J is the
  probability at x = −3. The share of streams with an alarm by the n-th sample, and the median n.
* *change*: 2,500 right forecasts (log odds standard normal), then 2,500 with other odds, or wrong
  ones from the start. `CalibrationDrift(20_000)`, `CalibrationTest`, and river's `ADWIN` and
  `PageHinkley` on the Brier score: the share of streams that are found, with the median delay;
  alarms before the change are counted apart and left out.
* *late*: right forecasts whose labels come up to 48 predictions later, 10,000 samples each: the
  share of streams with an alarm of `CalibrationTest` in each order. Blocks of 48 share one uniform
  draw; or labels are independent, and positive ones come at once. And wrong forecasts, as above.
* *segments*: 100 segments of 200 samples each, 10 of them with log odds that are too low by 1.
  `e_bh` (α = 0.05) after all 20,000 samples, with the e-values then, and with those that last: the
  share of the names that are false, and of the wrong segments that are named, in the mean.
* *run length*: samples to a false alarm of `CalibrationDrift(run_length)`.
"""

import argparse
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import drift
from scipy.optimize import minimize
from scipy.special import expit, logit

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


def right(rng: np.random.Generator, n: int) -> dict[str, Vector]:
    """Return right forecasts of several shapes."""
    hours = np.arange(n) / n
    return {
        "constant": np.full(n, 0.3),
        "extreme": expit(4.0 * rng.normal(size=n)),
        "ties": rng.choice([0.01, 0.1, 0.5, 0.9], size=n),
        "drifting base rate": expit(rng.normal(size=n) + 3.0 * np.sin(6.0 * hours)),
        "uniform": rng.random(n),
    }


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


def segments(n_repeats: int, rng: np.random.Generator) -> None:
    """Print which of 100 segments are named."""
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


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=200)
    n_repeats, rng = parser.parse_args().repeats, np.random.default_rng(0)

    alarms: dict[str, list[bool]] = {}
    for _ in range(n_repeats):
        for name, p in right(rng, 10_000).items():
            y = (rng.random(len(p)) < p).astype(float)
            alarms.setdefault(name, []).append(alarm_of_test(p, y) is not None)
    for name, found in alarms.items():
        print(f"right, {name}: {np.mean(found):.3f} ever alarmed")

    for misfit in (0.027, 0.047, 0.067):
        true, line = quadratic(misfit)
        at = []
        for _ in range(n_repeats):
            x = rng.uniform(-3.0, 3.0, 8_192)
            odds = true[0] + true[1] * x + true[2] * x * x
            y = (rng.random(len(x)) < expit(odds)).astype(float)
            at.append(alarm_of_test(expit(line[0] + line[1] * x), y) or np.inf)
        shares = ", ".join(f"{np.mean(np.array(at) <= 2**k):.2f}" for k in range(10, 14))
        median = np.median(at)
        print(f"misfit {misfit}: alarm by 1024, 2048, 4096, 8192: {shares}; median {median:.0f}")

    makers: dict[str, Callable[[], Any]] = {
        "CalibrationDrift": lambda: CalibrationDrift(20_000),
        "ADWIN": drift.ADWIN,
        "PageHinkley": drift.PageHinkley,
    }
    for start in (2_500, 0):
        for name, (shift, slope) in {"+.5": (0.5, 1.0), "+1": (1.0, 1.0), "½": (0.0, 0.5)}.items():
            delays: dict[str, list[float]] = {each: [] for each in [*makers, "CalibrationTest"]}
            for _ in range(n_repeats):
                z = rng.normal(size=start + 2_500)
                odds = np.where(np.arange(len(z)) < start, z, shift + slope * z)
                p, y = expit(z), (rng.random(len(z)) < expit(odds)).astype(float)
                found_at = {each: alarm_of(make(), p, y) for each, make in makers.items()}
                found_at["CalibrationTest"] = alarm_of_test(p, y)
                for each, at_ in found_at.items():
                    if at_ is None or at_ > start:
                        delays[each].append(np.inf if at_ is None else at_ - start)
            for each, given in delays.items():
                share = np.mean(np.isfinite(given)) if given else np.nan
                print(
                    f"{'change' if start else 'wrong from the start'}, {name}, {each}:"
                    f" {share:.2f} found, median {np.median(given or [np.nan]):.0f},"
                    f" {n_repeats - len(given)} earlier"
                )

    late_and_right(n_repeats)
    late_and_wrong(max(n_repeats // 4, 1))
    segments(n_repeats, rng)
    for run_length in (1_000, 20_000):
        lengths = []
        for _ in range(max(n_repeats // 5, 1)):
            detector, n = CalibrationDrift(run_length), 0
            while not detector.drift_detected:
                n += 1
                p_ = float(expit(rng.normal()))
                detector.update(bool(rng.random() < p_), p_)
            lengths.append(n)
        print(f"run length {run_length}: {np.mean(lengths):.0f} samples in the mean")


if __name__ == "__main__":
    main()
