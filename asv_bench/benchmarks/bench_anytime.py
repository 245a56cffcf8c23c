"""Isotonic regression for losses without a mean, batch and stream."""

import time
from typing import Any

import numpy as np

from benchmarks.sizes import size, sizes


def trend(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Sorted scores and labels: a trend and noise."""
    rng = np.random.default_rng(seed)
    scores = np.arange(n) / n
    return scores, rng.normal(size=n) + 4.0 * scores


class AnytimeLarge:
    """A million presorted samples, 30 rounds; SciPy solves the squared loss exactly."""

    params = (["squared", "log-cosh", "huber", "expectile", "absolute", "scipy"],)
    param_names = ("loss",)
    number = 1
    repeat = (2, 5, 20.0)

    def setup(self, loss: str) -> None:
        from scipy.optimize import isotonic_regression

        from streamcal import anytime_isotonic

        self.scores, self.y = trend(size(1_000_000))
        if loss == "scipy":
            self.solve: Any = lambda: isotonic_regression(self.y)
        else:
            self.solve = lambda: anytime_isotonic(self.scores, self.y, loss=loss, rounds=30)
        self.solve()

    def time_solve(self, loss: str) -> None:
        self.solve()


class AnytimePeers:
    """Ten thousand samples against model-diagnostics, in pure Python."""

    params = (["median", "expectile"], ["streamcal", "model-diagnostics"])
    param_names = ("functional", "package")
    number = 1
    repeat = (1, 5, 10.0)
    timeout = 120

    def setup(self, functional: str, package: str) -> None:
        from streamcal import anytime_isotonic, losses

        self.scores, self.y = trend(size(10_000))
        if package == "streamcal":
            loss = losses.Absolute() if functional == "median" else losses.Expectile(tau=0.8)
            self.solve: Any = lambda: anytime_isotonic(self.scores, self.y, loss=loss)
            self.solve()
        else:
            from model_diagnostics._utils.isotonic import isotonic_regression

            self.solve = lambda: isotonic_regression(self.y, functional=functional, level=0.8)

    def time_solve(self, functional: str, package: str) -> None:
        self.solve()


class AnytimeGrowth:
    """The time per sample as windows grow: log-cosh, 30 rounds."""

    params = (sizes(10_000, 100_000, 1_000_000, 10_000_000),)
    param_names = ("n_samples",)
    timeout = 120

    def setup(self, n_samples: int) -> None:
        from streamcal import anytime_isotonic

        self.solve = anytime_isotonic
        self.scores, self.y = trend(n_samples)
        self.solve(self.scores, self.y, loss="log-cosh", rounds=2)

    def track_ns_per_sample(self, n_samples: int) -> float:
        best = np.inf
        for _ in range(3):
            begin = time.perf_counter()
            self.solve(self.scores, self.y, loss="log-cosh", rounds=30)
            best = min(best, time.perf_counter() - begin)
        return float(1e9 * best / n_samples)

    track_ns_per_sample.unit = "ns"  # type: ignore[attr-defined]


class AnytimeAgain:
    """A window of 10^5 solved again after a tenth has changed, cold and with a warm start."""

    params = (["log-cosh", "squared", "expectile"], ["cold", "warm"])
    param_names = ("loss", "start")
    number = 1
    repeat = (5, 20, 10.0)

    def setup(self, loss: str, start: str) -> None:
        from streamcal import anytime_isotonic

        n = size(100_000)
        self.scores, self.y = trend(n)
        before = anytime_isotonic(self.scores, self.y, loss=loss)
        rng = np.random.default_rng(1)
        changed = rng.choice(n, n // 10, replace=False)
        self.y[changed] = rng.normal(size=n // 10) + 4.0 * self.scores[changed]
        self.solve: Any = lambda: anytime_isotonic(
            self.scores, self.y, loss=loss, start=before if start == "warm" else None
        )
        self.solve()

    def time_solve(self, loss: str, start: str) -> None:
        self.solve()


class AnytimeDeadline:
    """How far beyond 0.05 s a million samples go, in rounds."""

    def setup(self) -> None:
        from streamcal import anytime_isotonic

        self.solve = anytime_isotonic
        self.scores, self.y = trend(size(1_000_000))
        self.solve(self.scores, self.y, loss="log-cosh", rounds=2)

    def track_rounds_late(self) -> float:
        begin = time.perf_counter()
        rounds = self.solve(self.scores, self.y, loss="log-cosh", deadline=0.05).rounds
        taken = time.perf_counter() - begin
        return max(0.0, taken - 0.05) / (taken / max(1, rounds))

    track_rounds_late.unit = "rounds"  # type: ignore[attr-defined]


class AnytimeStream:
    """`learn_one` of a calibrator whose window of 10^5 is solved in the background."""

    timeout = 120

    def track_p99_learn_one(self) -> float:
        from streamcal import AnytimeCalibrator

        n = size(100_000)
        scores, y = trend(n)
        order = np.random.default_rng(2).permutation(n)
        stream = list(zip(scores[order].tolist(), y[order].tolist(), strict=True))
        with AnytimeCalibrator("log-cosh", window=n, background=True) as calibrator:
            calibrator.learn_many(scores, y)
            while calibrator.half_width > 1e-3:  # until the process is up and has solved it once
                calibrator.learn_one(*stream[0])
            taken = []
            for sample in stream[: n // 2]:
                begin = time.perf_counter_ns()
                calibrator.learn_one(*sample)
                taken.append(time.perf_counter_ns() - begin)
        return float(np.quantile(taken, 0.99)) / 1e3

    track_p99_learn_one.unit = "µs"  # type: ignore[attr-defined]
