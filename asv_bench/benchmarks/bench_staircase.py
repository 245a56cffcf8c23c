"""The staircase of a sliding window against refitting, worst cases, and its memory."""

import sys
from typing import Any

import numpy as np

from benchmarks.compiled import skip_without_numba
from benchmarks.sizes import size, sizes

STEPS = size(2_000)


def samples(law: str, n: int, seed: int) -> tuple[Any, Any]:
    """Scores and labels 0 or 1 of a stream that is hard in some way."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    if law == "bernoulli":
        return x, (rng.random(n) < x) * 1.0
    if law == "two-level":  # scores that are right 97 times of 100
        return x, ((x > 0.5) ^ (rng.random(n) < 0.03)) * 1.0
    if law == "noise":
        return x, rng.integers(0, 2, n) * 1.0
    if law == "ascending":
        return np.arange(n) / n + seed, rng.integers(0, 2, n) * 1.0
    if law == "descending":
        return -np.arange(n) / n - seed, rng.integers(0, 2, n) * 1.0
    if law == "equal":
        return np.full(n, 0.5), rng.integers(0, 2, n) * 1.0
    if law == "zero-one":
        return rng.integers(0, 2, n) * 1.0, rng.integers(0, 2, n) * 1.0
    # Gokcesu & Gokcesu, Remark 5: each sample is a new minimum or maximum, and pools or parts all.
    side = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    return side * (np.arange(n) + 1 + seed * n), (side < 0) * 1.0


class Window:
    """``STEPS`` times: learn, forget the oldest, predict; labels Bernoulli or right 97 %."""

    params = (
        ["streamcal", "block-local", "refit"],
        sizes(500, 10_000, 100_000, 1_000_000),
        ["bernoulli", "two-level"],
    )
    param_names = ("method", "window", "labels")
    number = 1
    repeat = (2, 5, 20.0)
    warmup_time = 0.0
    timeout = 300

    def setup(self, method: str, window: int, labels: str) -> None:
        from streamcal import IsotonicCalibrator

        from .peers import BlockLocal, Refit

        if method == "block-local":
            skip_without_numba()
        self.steps = {"refit": max(3, 200_000 // window)}.get(method, STEPS)
        self.steps = min(self.steps, STEPS)
        if method == "block-local" and window == 1_000_000:
            self.steps = 50
        scores, y = samples(labels, window, 1)
        new, new_y = samples(labels, self.steps, 2)
        self.stream = list(zip(scores.tolist(), new.tolist(), new_y.tolist(), strict=False))
        if method == "streamcal":
            self.subject: Any = IsotonicCalibrator(window=window, prior=0.0, max_scores=2_000_000)
            self.subject.learn_many(scores, y)
            self.subject.predict_one(0.5)
        else:
            self.subject = {"block-local": BlockLocal, "refit": Refit}[method](scores, y)
            self.subject.step(*self.stream.pop(0))

    def track_microseconds_per_step(self, method: str, window: int, labels: str) -> float:
        from time import perf_counter

        started = perf_counter()
        if method == "streamcal":
            learn_one, predict_one = self.subject.learn_one, self.subject.predict_one
            for _, score, label in self.stream:
                learn_one(score, label)
                predict_one(score)
        else:
            step = self.subject.step
            for old, score, label in self.stream:
                step(old, score, label)
        return (perf_counter() - started) / len(self.stream) * 1e6

    track_microseconds_per_step.unit = "us"  # type: ignore[attr-defined]


class Laws:
    """`predict_learn_many` by law: 100,000 samples into an empty calibrator."""

    params = (
        "bernoulli",
        "two-level",
        "noise",
        "alternating",
        "ascending",
        "descending",
        "equal",
        "zero-one",
    )
    param_names = ("law",)
    number = 1
    warmup_time = 0.0

    def setup(self, law: str) -> None:
        from streamcal import IsotonicCalibrator

        self.samples = samples(law, size(100_000), 1)
        self.calibrator = IsotonicCalibrator()
        IsotonicCalibrator().learn_many([0.1], [1.0])

    def time_predict_learn_many(self, law: str) -> None:
        self.calibrator.predict_learn_many(*self.samples)


class Million:
    """10^6 distinct scores in random order."""

    timeout = 300
    number = 1
    repeat = 1
    warmup_time = 0.0

    def setup_cache(self) -> Any:
        from streamcal import IsotonicCalibrator

        calibrator = IsotonicCalibrator(max_scores=2_000_000)
        calibrator.learn_many(*samples("bernoulli", size(1_000_000), 1))
        return calibrator

    def setup(self, calibrator: Any) -> None:
        from streamcal import IsotonicCalibrator

        self.scores, self.y = samples("bernoulli", size(1_000_000), 1)
        self.empty = IsotonicCalibrator(max_scores=2_000_000)
        new, new_y = samples("bernoulli", size(20_000), 2)
        self.new = list(zip(new.tolist(), new_y.tolist(), strict=True))
        calibrator.predict_one(0.5)

    def time_predict_learn_many(self, calibrator: Any) -> None:
        self.empty.predict_learn_many(self.scores, self.y)

    def time_learn_one_20_000(self, calibrator: Any) -> None:
        learn_one = calibrator.learn_one
        for score, label in self.new:
            learn_one(score, label)

    def time_predict_one_20_000(self, calibrator: Any) -> None:
        predict_one = calibrator.predict_one
        for score, _ in self.new:
            predict_one(score)

    def track_bytes_per_score(self, calibrator: Any) -> float:
        return sys.getsizeof(calibrator._regression) / calibrator.n_scores

    track_bytes_per_score.unit = "bytes"  # type: ignore[attr-defined]


class VennAbers:
    """A pair per prediction at 10^5 scores, against two refits (the textbook's way)."""

    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        from streamcal import VennAbersCalibrator, isotonic_fit

        self.scores, self.y = samples("bernoulli", size(100_000), 1)
        self.new = samples("bernoulli", 1_000, 2)[0].tolist()
        self.calibrator = VennAbersCalibrator(prior=0.0)
        self.calibrator.learn_many(self.scores, self.y)
        self.calibrator.predict_interval_one(0.5)
        self.fit = isotonic_fit

    def time_pairs_1_000(self) -> None:
        predict_interval_one = self.calibrator.predict_interval_one
        for score in self.new:
            predict_interval_one(score)

    def time_two_refits(self) -> None:
        for label in (0.0, 1.0):
            self.fit(np.append(self.scores, self.new[0]), np.append(self.y, label))(self.new[0])


class VennAbersPeer:
    """The package venn-abers: fit to 10^5 scores, then 1,000 pairs at once; n/a if not installed.

    It comes without a wheel, so no extra of ours names it: ``pip install venn-abers``.
    """

    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        try:
            from venn_abers import VennAbers as Peer
        except ImportError:
            raise NotImplementedError("venn-abers is not installed") from None
        scores, self.y = samples("bernoulli", size(100_000), 1)
        new = samples("bernoulli", 1_000, 2)[0]
        self.scores = np.column_stack([1 - scores, scores])
        self.new = np.column_stack([1 - new, new])
        self.make = Peer

    def time_fit_and_pairs_1_000(self) -> None:
        peer = self.make()
        peer.fit(self.scores, self.y)
        peer.predict_proba(self.new)
