"""The ordinal learners, beside river's passive-aggressive classifier of two labels."""

from typing import Any

import numpy as np

from benchmarks.sizes import size

SAMPLES = size(2_000)
BATCH = size(20_000)


def ordinal_data(n: int, n_features: int, n_labels: int) -> tuple[Any, Any]:
    """Return features and ranks that follow them noisily, as arrays."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, n_features))
    direction = rng.normal(size=n_features)
    level = X @ direction + 0.5 * np.linalg.norm(direction) * rng.normal(size=n)
    cuts = np.quantile(level, np.arange(1, n_labels) / n_labels)
    return X, np.searchsorted(cuts, level)


def make(learner: str, n_labels: int) -> Any:
    """Return a learner for the labels 0 to ``n_labels`` − 1."""
    from streamcal.ordinal import CuSumRank, PACuSumRank, PRank

    labels = range(n_labels)
    if learner == "CuSumRank, averaged":
        return CuSumRank(labels, averaging="uniform", margin=1.0)
    return {"CuSumRank": CuSumRank, "PACuSumRank": PACuSumRank, "PRank": PRank}[learner](labels)


class CuSumOneByOne:
    """``SAMPLES`` dicts of ten features, five labels; river's learner has two."""

    params = ("river PAClassifier", "CuSumRank", "CuSumRank, averaged", "PACuSumRank", "PRank")
    param_names = ("learner",)
    number = 1
    warmup_time = 0.0

    def setup(self, learner: str) -> None:
        X, y = ordinal_data(SAMPLES, 10, 5)
        if learner.startswith("river"):
            from river import linear_model

            self.model: Any = linear_model.PAClassifier()
            labels = (y > 2).tolist()
        else:
            self.model = make(learner, 5)
            labels = y.tolist()
        names = [f"feature {i}" for i in range(10)]
        samples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
        self.samples = list(zip(samples, labels, strict=True))
        self.time_learn_one(learner)

    def time_learn_one(self, learner: str) -> None:
        learn_one = self.model.learn_one
        for x, y in self.samples:
            learn_one(x, y)

    def time_predict_one(self, learner: str) -> None:
        predict_one = self.model.predict_one
        for x, _ in self.samples:
            predict_one(x)


class CuSumBatch:
    """``BATCH`` samples in one call: from a data frame, and the compiled loop alone."""

    params = ("10 features, 5 labels", "50 features, 10 labels")
    param_names = ("shape",)
    number = 1
    warmup_time = 0.0

    def setup(self, shape: str) -> None:
        import pandas as pd

        n_features, n_labels = (10, 5) if shape == self.params[0] else (50, 10)
        X, y = ordinal_data(BATCH, n_features, n_labels)
        self.frame = pd.DataFrame(X, columns=[f"feature {i}" for i in range(n_features)])
        self.labels = pd.Series(y)
        self.model = make("CuSumRank, averaged", n_labels)
        self.model.learn_many(self.frame, self.labels)
        self.arguments = ([*self.frame.columns], X, y.tolist(), np.ones(BATCH))

    def time_learn_many(self, shape: str) -> None:
        self.model.learn_many(self.frame, self.labels)

    def time_kernel(self, shape: str) -> None:
        self.model._cusum.learn_many(*self.arguments)


class CuSumProbabilities:
    """``SAMPLES`` predictions of class probabilities, each after one sample was learned."""

    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        self.model = make("CuSumRank, averaged", 5)
        X, y = ordinal_data(SAMPLES, 10, 5)
        names = [f"feature {i}" for i in range(10)]
        samples = [dict(zip(names, row, strict=True)) for row in X.tolist()]
        self.samples = list(zip(samples, y.tolist(), strict=True))
        self.time_predict_proba_and_learn_one()

    def time_predict_proba_and_learn_one(self) -> None:
        for x, y in self.samples:
            self.model.predict_proba_one(x)
            self.model.learn_one(x, y)
