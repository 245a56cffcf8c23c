"""The time of common calls, measured on the tree that is imported.

``PYTHONPATH=TREE python benchmarks/core.py`` prints a JSON object: microseconds per call, the least
of several repeats, unless a name has another unit. Run it in turns with another tree, several
times, and take the best of each.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from river import linear_model
from river.datasets import Bananas
from scipy.optimize import isotonic_regression

import streamcal
from streamcal.ordinal import CuSumRank, StreamingThresholds


def least(function: Callable[[], Any], n_calls: int, n_repeats: int = 7) -> float:
    """Return the least microseconds per call; one run of ``function`` makes ``n_calls``."""
    times = []
    for _ in range(n_repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return round(min(times) / n_calls * 1e6, 3)


def bernoulli(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    """Return uniform scores and labels with these probabilities."""
    scores = rng.random(n)
    return scores, (rng.random(n) < scores).astype(float)


def calibrator(n: int) -> dict[str, float]:
    """Time an isotonic calibrator that holds ``n`` distinct scores."""
    rng = np.random.default_rng(0)
    scores, labels = bernoulli(rng, n)
    calibrator = streamcal.IsotonicCalibrator()
    start = time.perf_counter()
    calibrator.predict_learn_many(scores, labels)
    rate = n / (time.perf_counter() - start)
    queries = (rng.choice(scores, 4000) if n < 10_000 else rng.random(4000)).tolist()
    samples = list(zip(queries, (rng.random(4000) < queries).tolist(), strict=True))

    def learn() -> None:
        for sample in samples:
            calibrator.learn_one(*sample)

    def predict() -> None:
        for score in queries:
            calibrator.predict_one(score)

    return {
        "learn_one": least(learn, 4000),
        "predict_one": least(predict, 4000),
        "predict_learn_many from empty, samples a second": round(rate),
    }


def hedge() -> dict[str, float]:
    """Time a hedge of seven."""
    rng = np.random.default_rng(0)
    hedge = streamcal.HedgedCalibrator()
    hedge.learn_many(*bernoulli(rng, 10_000))
    scores, labels = bernoulli(rng, 2000)
    samples = list(zip(scores.tolist(), labels.tolist(), strict=True))

    def learn() -> None:
        for sample in samples:
            hedge.learn_one(*sample)

    def predict() -> None:
        for score, _ in samples:
            hedge.predict_one(score)

    return {
        "learn_one": least(learn, 2000),
        "predict_one": least(predict, 2000),
        "batch": least(lambda: hedge.predict_learn_many(scores, labels), 2000),
    }


def wrapper(calibrator: streamcal.Calibrator) -> dict[str, float]:
    """Time what the wrapper adds to a logistic regression: to predict and then learn, to each."""
    stream = list(Bananas())
    wrapped = streamcal.CalibratedClassifier(linear_model.LogisticRegression(), calibrator)
    alone = linear_model.LogisticRegression()
    for x, y in stream * 2:
        wrapped.learn_one(x, y)
        alone.learn_one(x, y)
    timed = stream[:2000]

    def both(model: Any) -> float:
        def run() -> None:
            for x, y in timed:
                model.predict_proba_one(x)
                model.learn_one(x, y)

        return least(run, 2000)

    def learning(model: Any) -> float:
        return least(lambda: [model.learn_one(x, y) for x, y in timed], 2000)

    def predicting(model: Any) -> float:  # each waits for a label that does not come
        return least(lambda: [model.predict_proba_one(x) for x, _ in timed], 2000)

    times = {
        f"{name} {what}": time_of(model)
        for what, time_of in (("both", both), ("learn", learning), ("predict", predicting))
        for name, model in (("model", alone), ("wrapper", wrapped))
    }
    added = {
        f"added to {what}": round(times[f"wrapper {what}"] - times[f"model {what}"], 2)
        for what in ("both", "learn", "predict")
    }
    return {**times, **added}


def thresholds(n_labels: int) -> dict[str, float]:
    """Time learning one sample and forgetting one in a window of 100,000."""
    rng, n = np.random.default_rng(0), 100_000
    scores = rng.random(n + 20_000)
    noisy = scores * n_labels + rng.normal(0, n_labels / 8, len(scores))
    labels = np.clip(noisy.astype(int), 0, n_labels - 1) + 1
    learner = StreamingThresholds(n_labels, "absolute", window=n)
    learner.learn_many(scores[:n], labels[:n])
    samples = iter(zip(scores[n:].tolist(), labels[n:].tolist(), strict=True))

    def learn() -> None:
        for _ in range(4000):
            learner.learn_one(*next(samples))

    return {"learn and forget": least(learn, 4000, 5)}


def ranks() -> dict[str, float]:
    """Time a CuSum learner of five labels and five features."""
    rng = np.random.default_rng(0)
    rows = [dict(enumerate(row)) for row in rng.normal(size=(2000, 5)).tolist()]
    samples = list(zip(rows, rng.integers(1, 6, 2000).tolist(), strict=True))
    learner = CuSumRank()
    return {"learn_one": least(lambda: [learner.learn_one(*s) for s in samples], 2000)}


def window(n: int) -> dict[str, float]:
    """Time a step of a window: learn, forget, predict; beside a refit by SciPy."""
    scores, labels = bernoulli(np.random.default_rng(0), n + 20_000)
    calibrator = streamcal.IsotonicCalibrator(window=n)
    calibrator.learn_many(scores[:n], labels[:n])
    samples = iter(zip(scores[n:].tolist(), labels[n:].tolist(), strict=True))

    def step() -> None:
        for _ in range(4000):
            score, label = next(samples)
            calibrator.learn_one(score, label)
            calibrator.predict_one(score)

    in_order = labels[:n][np.argsort(scores[:n])]
    ours, refit = least(step, 4000, 5), least(lambda: isotonic_regression(in_order), 1, 9)
    return {"step": ours, "refit": refit, "refit ÷ step": round(refit / ours)}


def fit(n: int) -> dict[str, float]:
    """Time `isotonic_fit` over SciPy's regression, sorted scores, the median of five ratios."""
    rng = np.random.default_rng(0)
    scores = np.sort(rng.random(n))
    labels, n_calls = scores + rng.normal(0, 0.3, n), max(1, 200_000 // n)
    ratios = [
        least(lambda: [streamcal.isotonic_fit(scores, labels) for _ in range(n_calls)], 1, 3)
        / least(lambda: [isotonic_regression(labels) for _ in range(n_calls)], 1, 3)
        for _ in range(5)
    ]
    return {"ours ÷ SciPy": round(sorted(ratios)[2], 2)}


CASES = {
    **{f"calibrator of {n}": lambda n=n: calibrator(n) for n in (10**3, 10**4, 10**5, 10**6)},
    "hedge": hedge,
    "wrapper, isotonic": lambda: wrapper(streamcal.IsotonicCalibrator()),
    "wrapper, Platt": lambda: wrapper(streamcal.PlattCalibrator()),
    **{f"thresholds of {k} labels": lambda k=k: thresholds(k) for k in (5, 10, 26, 55)},
    "CuSumRank": ranks,
    **{f"window of {n}": lambda n=n: window(n) for n in (10**4, 10**5)},
    **{f"isotonic_fit of {n}": lambda n=n: fit(n) for n in (10**3, 10**4, 10**6)},
}

if __name__ == "__main__":
    wanted = {name: case() for name, case in CASES.items() if not sys.argv[1:] or name in sys.argv}
    print(json.dumps(wanted, indent=1, ensure_ascii=False))
