"""How soon tests of other packages find lost calibration, beside `streamcal.monitoring`.

    pip install --no-deps online-cp mapie crepes
    python benchmarks/monitoring_peers.py [--repeats 50] [--plugin 0]

2,500 right forecasts (log odds standard normal), then 2,500 with other odds, as in `monitoring.py`:

* `CalibrationDrift(20_000)` and `CalibrationTest()`;
* online-cp's `ShiryaevRobertsWrapper` with the threshold 20,000, and its `VilleWrapper` with 20,
  each over a `SimpleJumper` that gets the randomised probability integral transform of each label,
  which is uniform while forecasts are right;
* crepes' martingales of the same numbers, as far as 20: `SimpleJumper`, `SleeperStayer` and, on a
  fifth of the streams, `SleeperDrifter`. They take a whole stream at once;
* MAPIE's `OnlineMartingaleTest` in batches of 250, which asks whether conformity scores are
  exchangeable. Its "jumper_martingale" gets the scores of `SplitConformalClassifier`, 1 less the
  probability of the label, or those numbers as the scores of a regression. Its "plugin_martingale"
  gets the numbers, too; it takes minutes for a stream, so it is measured only with ``--plugin``, on
  that many streams with a change;
* MAPIE's `RiskMonitoring` of the accuracy, since its risks are of labels: the threshold from 5,000
  right forecasts before the stream, no tolerance; batches of 500, a
  fifth of the streams.

For each it prints the share of changes that are found, the median delay, the alarms before the
change, and microseconds of the processor for a sample.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from crepes import martingales as crepes
from mapie.classification import SplitConformalClassifier
from mapie.exchangeability_testing import OnlineMartingaleTest, RiskMonitoring
from mapie.regression import SplitConformalRegressor
from numpy.typing import NDArray
from online_cp.martingale import ShiryaevRobertsWrapper, SimpleJumper, VilleWrapper
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

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


def by_crepes(kind: str) -> Callable[..., int | None]:
    """Return what finds after how many samples a martingale of crepes reaches 20."""

    def alarm(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
        values = getattr(crepes, kind)().apply(transformed(p, y, rng))
        at = np.flatnonzero(values >= 20.0)
        return int(at[0]) + 1 if len(at) else None

    return alarm


class Served(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose feature is the probability of the label 1."""

    def __init__(self) -> None:
        self.classes_, self.n_features_in_ = np.array([0, 1]), 1

    def fit(self, x: Vector, y: Vector) -> "Served":
        """Change nothing."""
        return self

    def predict_proba(self, x: Vector) -> Vector:
        """Return the probabilities of both labels."""
        return np.column_stack([1.0 - x[:, 0], x[:, 0]])

    def predict(self, x: Vector) -> Vector:
        """Return the label that is more probable."""
        return (x[:, 0] > 0.5).astype(int)


class Zero(RegressorMixin, BaseEstimator):
    """A fitted regressor that predicts 0, so that a label is its own conformity score."""

    def __init__(self) -> None:
        self.n_features_in_ = 1

    def fit(self, x: Vector, y: Vector) -> "Zero":
        """Change nothing."""
        return self

    def predict(self, x: Vector) -> Vector:
        """Return zeros."""
        return np.zeros(len(x))


def by_exchange(of_labels: bool, method: str = "jumper") -> Callable[..., int | None]:
    """Return what finds after how many samples scores aren't exchangeable, by MAPIE."""

    def alarm(p: Vector, y: Vector, rng: np.random.Generator) -> int | None:
        if of_labels:
            x, values, task = p[:, None], y.astype(int), "classification"
            mapie = SplitConformalClassifier(Served(), prefit=True)
        else:
            x, values, task = np.zeros((len(p), 1)), transformed(p, y, rng), "regression"
            mapie = SplitConformalRegressor(Zero(), prefit=True)
        seed = int(rng.integers(2**31))
        test = OnlineMartingaleTest(
            mapie, task, f"{method}_martingale", warn=False, random_state=seed
        )
        for at in range(0, len(p), 250):
            test.update(x[at : at + 250], values[at : at + 250])
            if test.is_exchangeable is False:
                return max(test.summary()["stopping_time"], test.burn_in)
        return None

    return alarm


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
    parser.add_argument("--plugin", type=int, default=0)
    arguments = parser.parse_args()
    n_repeats, n_fewer = arguments.repeats, max(arguments.repeats // 5, 1)
    # Each with the number of streams, and of samples in a batch.
    peers: dict[str, tuple[Callable[..., int | None], int, int]] = {
        "CalibrationDrift": (by_drift, n_repeats, 1),
        "CalibrationTest": (by_test, n_repeats, 1),
        "online-cp, Shiryaev–Roberts": (by_sum, n_repeats, 1),
        "online-cp, Ville": (by_largest, n_repeats, 1),
        "crepes, SimpleJumper": (by_crepes("SimpleJumper"), n_repeats, N),
        "crepes, SleeperStayer": (by_crepes("SleeperStayer"), n_repeats, N),
        "crepes, SleeperDrifter": (by_crepes("SleeperDrifter"), n_fewer, N),
        "MAPIE, jumper of labels": (by_exchange(True), n_repeats, 250),
        "MAPIE, jumper of transforms": (by_exchange(False), n_repeats, 250),
        "MAPIE, plugin of transforms": (by_exchange(False, "plugin"), arguments.plugin, 250),
        "MAPIE, RiskMonitoring": (by_risk, n_fewer, 500),
    }
    if arguments.plugin:
        peers = {name: peers[name] for name in peers if "plugin" in name}
    for start in (START, 0):
        for change, (shift, slope) in CHANGES.items():
            for name, (alarm, n_streams, n_batch) in peers.items():
                if not n_streams or ("plugin" in name and not start):
                    continue
                rng = np.random.default_rng(0)
                delays, n_early, n_samples, seconds = [], 0, 0, 0.0
                for _ in range(n_streams):
                    p, y = stream(rng, start, shift, slope)
                    begin = time.process_time()
                    at = alarm(p, y, rng)
                    seconds += time.process_time() - begin
                    n_samples += N if at is None else -(-at // n_batch) * n_batch
                    if at is not None and at <= start:
                        n_early += 1
                    else:
                        delays.append(np.inf if at is None else at - start)
                share = np.mean(np.isfinite(delays)) if delays else np.nan
                print(
                    f"{'change' if start else 'from the start'}, {change}, {name}: {share:.2f}"
                    f" found of {len(delays)}, median {np.median(delays or [np.nan]):.0f},"
                    f" {n_early} earlier,"
                    f" {1e6 * seconds / n_samples:.1f} µs a sample",
                    flush=True,
                )


if __name__ == "__main__":
    main()
