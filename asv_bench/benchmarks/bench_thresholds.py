"""Optimal thresholds: methods and peers, jobs, streams, and a classifier that solves elsewhere."""

import time
from typing import Any

import numpy as np

from benchmarks.compiled import skip_without_numba
from benchmarks.sizes import size


class Table1:
    """DP, IO and later methods, for the K of the paper's data sets; labels in score order.

    The paper's shape (AFAD, CACD, MORPH-2): IO costs what DP costs, parallel IO a fifth of it.
    """

    params = (26, 49, 55)
    param_names = ("n_labels",)
    n = size(100_000)

    def setup(self, n_labels: int) -> None:
        from benchmarks.threshold_peers import Samples, numpy_independent, printed_dp, samples
        from streamcal import losses
        from streamcal.ordinal.thresholds import find_cuts

        self.find_cuts, self.numpy, self.printed = find_cuts, numpy_independent, printed_dp
        self.table = losses.get_task("absolute").table(n_labels)
        self.samples = Samples.of(*samples(self.n, n_labels), n_labels, None, None)
        self.costs = np.ascontiguousarray(self.table.T)
        self.losses = np.empty((self.n, n_labels))
        self.before = np.empty((self.n, n_labels), np.int32)
        self.cuts = np.empty(n_labels - 1, np.int64)
        if self.printed is not None:
            self.time_dp_as_printed(n_labels)

    def _find(self, method: str) -> Any:
        return self.find_cuts(self.samples, self.table, method)

    def time_dp_as_printed(self, n_labels: int) -> None:
        self.printed(self.samples.labels, self.costs, self.losses, self.before, self.cuts)

    time_dp_as_printed.setup = skip_without_numba  # type: ignore[attr-defined]  # asv calls it

    def time_numpy_io(self, n_labels: int) -> None:
        self.numpy(self.samples.labels, self.table)

    def time_dp(self, n_labels: int) -> None:
        self._find("dp")

    def time_io(self, n_labels: int) -> None:
        self._find("io")

    def time_blocked_io(self, n_labels: int) -> None:
        self._find("blocked-io")

    def time_divide(self, n_labels: int) -> None:
        self._find("divide")


class Million:
    """The same for 10^6 samples and 55 labels."""

    params = ("dp", "io", "divide")
    param_names = ("method",)
    number = 1

    def setup(self, method: str) -> None:
        from benchmarks.threshold_peers import Samples, samples
        from streamcal import losses
        from streamcal.ordinal.thresholds import find_cuts

        self.find_cuts = find_cuts
        self.table = losses.get_task("absolute").table(55)
        self.samples = Samples.of(*samples(size(1_000_000), 55), 55, None, None)

    def time_find_cuts(self, method: str) -> None:
        self.find_cuts(self.samples, self.table, method)


class EndToEnd:
    """The whole call, with checks and the sort."""

    params = ("absolute", "zero-one", "quadratic-kappa")
    param_names = ("loss",)

    def setup(self, loss: str) -> None:
        from benchmarks.threshold_peers import samples
        from streamcal import optimal_thresholds

        self.find = optimal_thresholds
        self.scores, self.labels = samples(size(100_000), 10 if loss == "quadratic-kappa" else 55)
        self.find(self.scores, self.labels, loss=loss)

    def time_optimal_thresholds(self, loss: str) -> None:
        self.find(self.scores, self.labels, loss=loss)

    def time_argsort_alone(self, loss: str) -> None:
        np.argsort(self.scores)


class Jobs:
    """IO in one process and in two."""

    params = (1, 2)
    param_names = ("n_jobs",)
    number = 1

    def setup(self, n_jobs: int) -> None:
        from benchmarks.threshold_peers import Samples, samples
        from streamcal import losses
        from streamcal.ordinal._jobs import JobOptions
        from streamcal.ordinal.thresholds import find_cuts

        self.find_cuts, self.where = find_cuts, JobOptions
        self.table = losses.get_task("absolute").table(55)
        self.samples = Samples.of(*samples(size(5_000_000), 55), 55, None, None)
        self.time_io(n_jobs)

    def time_io(self, n_jobs: int) -> None:
        self.find_cuts(self.samples, self.table, "io", self.where(n_jobs))


class Stream:
    """1,000 samples learned, and as many forgotten, in a window of 10^5."""

    params = (5, 10, 26, 55)
    param_names = ("n_labels",)
    number = 1
    warmup_time = 0.0

    def setup(self, n_labels: int) -> None:
        from benchmarks.threshold_peers import samples
        from streamcal import StreamingThresholds

        window = size(100_000)
        scores, labels = samples(window + 50_000, n_labels)
        self.stream = StreamingThresholds(n_labels, window=window)
        self.stream.learn_many(scores[:window], labels[:window])
        self.rest = iter(zip(scores[window:].tolist(), labels[window:].tolist(), strict=True))
        self.time_learn_and_forget(n_labels)
        self.stream.thresholds  # noqa: B018

    def time_learn_and_forget(self, n_labels: int) -> None:
        learn_one = self.stream.learn_one
        for _ in range(1_000):
            learn_one(*next(self.rest))

    def time_read(self, n_labels: int) -> None:
        for _ in range(1_000):
            self.stream.thresholds  # noqa: B018

    def time_predict_one(self, n_labels: int) -> None:
        for _ in range(1_000):
            self.stream.predict_one(0.5)


class WhileSolving:
    """How late `learn_one` is with a re-solve in the background every 1,000 samples."""

    timeout = 120
    n = size(10_000)

    def setup(self) -> None:
        from river import linear_model, preprocessing

        from streamcal import ThresholdClassifier

        def regressor() -> Any:
            return preprocessing.StandardScaler() | linear_model.LinearRegression()

        rng = np.random.default_rng(1)
        features = rng.normal(size=(self.n, 5))
        labels = np.clip(np.round(3 + features.sum(axis=1) / 2), 1, 5).astype(int)
        self.samples = [
            (dict(zip("abcde", row, strict=True)), label)
            for row, label in zip(features.tolist(), labels.tolist(), strict=True)
        ]
        self.bare = regressor()
        self.there = ThresholdClassifier(regressor(), (1, 2, 3, 4, 5), background=True)
        end = time.monotonic() + 30.0
        while self.there.solution is None and time.monotonic() < end:  # until the process is there
            for x, y in self.samples[:2_000]:
                self.there.learn_one(x, y)

    def track_p99_above_the_regressor(self) -> float:
        alone, whole = [], []
        for x, y in self.samples:
            start = time.perf_counter()
            self.bare.predict_one(x)
            self.bare.learn_one(x, y)
            middle = time.perf_counter()
            self.there.learn_one(x, y)
            whole.append(time.perf_counter() - middle)
            alone.append(middle - start)
        return float(np.percentile(whole, 99) - np.percentile(alone, 99)) * 1e6

    track_p99_above_the_regressor.unit = "microseconds"  # type: ignore[attr-defined]

    def teardown(self) -> None:
        self.there._rescorer.worker.close()
