"""How soon tests of other packages find lost calibration, beside `streamcal.monitoring`.

    pip install online-cp mapie
    python benchmarks/monitoring_peers.py [--repeats 50]

2,500 right forecasts (log odds standard normal), then 2,500 with other odds, as in `monitoring.py`:

* `CalibrationDrift(20_000)` and `CalibrationTest()`;
* online-cp's `ShiryaevRobertsWrapper` with the threshold 20,000, and its `VilleWrapper` with 20,
  each over a `SimpleJumper` that gets the randomised probability integral transform of each label,
  which is uniform while forecasts are right;
* MAPIE's `RiskMonitoring` of the accuracy, since its risks are of labels: the threshold from 5,000
  right forecasts before the stream, no tolerance; batches of 500, a
  fifth of the streams.

For each it prints the share of changes that are found, the median delay, the alarms before the
change, and microseconds for a sample.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from mapie.exchangeability_testing import RiskMonitoring
from numpy.typing import NDArray
from online_cp.martingale import ShiryaevRobertsWrapper, SimpleJumper, VilleWrapper
from scipy.special import expit

from streamcal.monitoring import CalibrationDrift, CalibrationTest

Vector = NDArray[np.float64]
N, START = 5_000, 2_500
CHANGES = {"+.5": (0.5, 1.0), "+1": (1.0, 1.0), "half": (0.0, 0.5)}


def stream(rng: np.random.Generator, start: int, shift: float, slope: float) -> tuple[Vector, ...]:
    """Return forecasts and labels; from ``start`` on the odds are others."""
    z = rng.normal(size=N)
    odds = np.where(np.arange(N) < start, z, shift + slope * z)
    return expit(z), (rng.random(N) < expit(odds)).astype(float)


def by_drift(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
    """Return after how many samples `CalibrationDrift` alarms."""
    detector = CalibrationDrift(20_000)
    for at, (score, label) in enumerate(zip(p.tolist(), y.tolist(), strict=True), 1):
        detector.update(bool(label), score)
        if detector.drift_detected:
            return at
    return None


def by_test(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
    """Return after how many samples `CalibrationTest` alarms."""
    test = CalibrationTest()
    for at, (score, label) in enumerate(zip(p.tolist(), y.tolist(), strict=True), 1):
        test.update(bool(label), score)
        if test.rejected:
            return at
    return None


def transformed(p: Vector, y: Vector, rng: np.random.Generator) -> Vector:
    """Return uniform numbers while forecasts are right."""
    u = rng.random(len(p))
    return np.where(y == 1.0, 1.0 - p + u * p, u * (1.0 - p))


def by_sum(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
    """Return after how many samples the statistic of Shiryaev and Roberts alarms."""
    wrapper = ShiryaevRobertsWrapper(SimpleJumper(store_p_values=False))
    for at, u in enumerate(transformed(p, y, rng).tolist(), 1):
        wrapper.update(u)
        if wrapper.alarm(20_000):
            return at
    return None


def by_largest(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
    """Return after how many samples the martingale reaches 20."""
    wrapper = VilleWrapper(SimpleJumper(store_p_values=False))
    for at, u in enumerate(transformed(p, y, rng).tolist(), 1):
        wrapper.update(u)
        if wrapper.rejected:
            return at
    return None


def by_risk(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
    """Return after how many samples the accuracy is too low."""
    monitor = RiskMonitoring("accuracy", tolerance=0.0, warn=False)
    before, labels = stream(rng, N, 0.0, 1.0)
    monitor.compute_threshold(labels.astype(int), (before > 0.5).astype(int))
    for at in range(0, len(p), 500):
        part = slice(at, at + 500)
        monitor.update(y[part].astype(int), (p[part] > 0.5).astype(int))
        if monitor.harmful_shift_detected:
            return at + 500
    return None


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=50)
    n_repeats = parser.parse_args().repeats
    peers: dict[str, Callable[..., int | None]] = {
        "CalibrationDrift": by_drift,
        "CalibrationTest": by_test,
        "online-cp, Shiryaev–Roberts": by_sum,
        "online-cp, Ville": by_largest,
        "MAPIE, RiskMonitoring": by_risk,
    }
    for start in (START, 0):
        for change, (shift, slope) in CHANGES.items():
            for name, alarm in peers.items():
                rng = np.random.default_rng(0)
                delays, n_early, n_samples, seconds = [], 0, 0, 0.0
                n_streams = max(n_repeats // 5, 1) if alarm is by_risk else n_repeats
                for _ in range(n_streams):
                    p, y = stream(rng, start, shift, slope)
                    begin = time.perf_counter()
                    at = alarm(p, y, rng)
                    seconds += time.perf_counter() - begin
                    n_samples += N if at is None else at
                    if at is not None and at <= start:
                        n_early += 1
                    else:
                        delays.append(np.inf if at is None else at - start)
                share = np.mean(np.isfinite(delays)) if delays else np.nan
                print(
                    f"{'change' if start else 'from the start'}, {change}, {name}: {share:.2f}"
                    f" found, median {np.median(delays or [np.nan]):.0f}, {n_early} earlier,"
                    f" {1e6 * seconds / n_samples:.1f} µs a sample",
                    flush=True,
                )


if __name__ == "__main__":
    main()
