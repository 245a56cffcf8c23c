"""Decisions against the paper's algorithms, and the time of one in a stream."""

from typing import Any

import numpy as np

from benchmarks.sizes import size


def probabilities(law: str, n: int) -> Any:
    """Uniform ones, or rare ones with mean .05."""
    rng = np.random.default_rng(1)
    return rng.random(n) if law == "uniform" else rng.beta(0.3, 6, n)


class Maximize:
    """100,000 labels at once, certified to 1e-10 (G-Mean and H-Mean: the exact cutoff)."""

    params = (
        [
            "f1, uniform",
            "f1, rare",
            "jaccard, rare",
            "am, rare",
            "gtppr, rare",
            "qmean, rare",
            "gmean, uniform",
            "hmean, rare",
        ],
    )
    param_names = ("case",)
    warmup_time = 0.0
    repeat = (2, 10, 10.0)

    def setup(self, case: str) -> None:
        from streamcal.decision import maximize

        self.metric, law = case.split(", ")
        self.p = probabilities(law, size(100_000))
        self.maximize: Any = maximize
        maximize(self.p[:500], self.metric)

    def time_maximize_100_000(self, case: str) -> None:
        self.maximize(self.p, self.metric)


class Targets:
    """100,000 labels that keep a target, and `numpy.argsort` of their probabilities."""

    params = (
        ["precision", "accuracy", "recall", "budget", "argsort"],
        ["uniform", "rounded to 0.01"],
    )
    param_names = ("target", "law")
    warmup_time = 0.0

    def setup(self, target: str, law: str) -> None:
        from streamcal.decision import maximize

        p = probabilities("uniform", size(100_000))
        self.p = p.round(2) if law.startswith("rounded") else p
        goal, subject_to = {
            "precision": ("positives", {"precision": 0.95}),
            "accuracy": ("coverage", {"accuracy": 0.95}),
            "recall": ("specificity", {"recall": 0.9}),
            "budget": ("f1", {"positives": 1_000}),
            "argsort": ("", {}),
        }[target]
        with_targets: Any = maximize
        self.call: Any = lambda p: with_targets(p, goal, subject_to=subject_to)
        if target == "argsort":
            self.call = np.argsort
        self.call(self.p)

    def time_100_000(self, target: str, law: str) -> None:
        self.call(self.p)


class Small:
    """1,000 calls for a handful of samples."""

    params = ([1, 10, 100],)
    param_names = ("n",)
    warmup_time = 0.0

    def setup(self, n: int) -> None:
        from streamcal.decision import maximize

        self.p = probabilities("rare", n)
        self.maximize: Any = maximize
        maximize(self.p, "f1")

    def time_f1_1_000_calls(self, n: int) -> None:
        for _ in range(1_000):
            self.maximize(self.p, "f1")


class AgainstAlgorithm2:
    """F1 at n = 10,000: exponential sums and the paper's Algorithm 2, both compiled."""

    params = (["exponential-sums", "algorithm-2"],)
    param_names = ("method",)
    repeat = (2, 5, 10.0)
    warmup_time = 0.0

    def setup(self, method: str) -> None:
        from streamcal.decision import maximize

        self.p = probabilities("rare", 10_000)
        self.maximize: Any = maximize
        maximize(self.p[:20], "f1", method=method)

    def time_f1(self, method: str) -> None:
        self.maximize(self.p, "f1", method=method)


class AnyMetric:
    """A metric that is a Python function: windows at n = 5,000, the paper's Algorithm 1 at 500."""

    params = (["windows", "algorithm-1"],)
    param_names = ("method",)
    number = 1
    repeat = 2
    warmup_time = 0.0

    def setup(self, method: str) -> None:
        from streamcal.decision import Metric, maximize

        self.p = probabilities("rare", 5_000 if method == "windows" else 500)
        self.metric = Metric(lambda tp, fp, fn, tn: tp / (tp + fp + fn))
        self.maximize: Any = maximize
        maximize(self.p[:20], self.metric, method=method)

    def time_function(self, method: str) -> None:
        self.maximize(self.p, self.metric, method=method)


class Threshold:
    """`EUMThreshold` at 100,000 scores: 1,000 samples, and a threshold after each."""

    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        from streamcal.decision import EUMThreshold

        rng = np.random.default_rng(1)
        scores = rng.random(size(100_000))
        self.eum = EUMThreshold("f1")
        self.eum.learn_many(scores, rng.random(len(scores)) < scores**3)
        self.new = rng.random(1_000).tolist()

    def time_learn_1_000(self) -> None:
        for score in self.new:
            self.eum.learn_one(score, 1)

    def time_learn_and_ask_1_000(self) -> None:
        for score in self.new:
            self.eum.learn_one(score, 1)
            self.eum.threshold  # noqa: B018


class Budget:
    """Whether to ask a person about each of 1,000 samples, after a week of 10,000."""

    number = 1
    warmup_time = 0.0

    def setup(self) -> None:
        from streamcal.decision import ReviewBudget

        rng = np.random.default_rng(1)
        self.budget = ReviewBudget(200)
        for i, worth in enumerate(rng.random(10_000).tolist()):
            self.budget.ask_one(i, worth, t=60.0 * i)
        self.new = list(enumerate(rng.random(1_000).tolist(), 10_000))

    def time_ask_1_000(self) -> None:
        for i, worth in self.new:
            self.budget.ask_one(i, worth, t=60.0 * i)


class Selective:
    """Answer 1,000 samples under a promise and learn their labels, after 2,000 others."""

    number = 1
    warmup_time = 0.0
    params = (["model", "any stream", "both promises"],)
    param_names = ("what",)

    def setup(self, what: str) -> None:
        from river import linear_model

        from streamcal.decision import SelectiveClassifier

        rng = np.random.default_rng(1)
        p = rng.beta(0.6, 0.4, 3_000)
        labels = rng.random(len(p)) < p
        samples = [
            ({"a": x, "b": 1.0 - x}, y) for x, y in zip(p.tolist(), labels.tolist(), strict=True)
        ]
        self.model: Any = linear_model.LogisticRegression()
        if what != "model":
            confidence = None if what == "any stream" else 0.95
            self.model = SelectiveClassifier(self.model, confidence=confidence)
        for x, y in samples[:2_000]:
            self.model.learn_one(x, y)
        self.new = samples[2_000:]

    def time_answer_and_learn_1_000(self, what: str) -> None:
        for x, y in self.new:
            self.model.predict_one(x)
            self.model.learn_one(x, y)


class Stream:
    """Cumulative F1 of 200 samples with 5 % positives, mean over 300 streams; more is better."""

    params = (["history, blocks", "blocks", "online F-measure", "threshold 1/2"],)
    param_names = ("rule",)

    def setup(self, rule: str) -> None:
        from streamcal.decision import maximize

        self.maximize: Any = maximize

    def track_lost_f1(self, rule: str) -> float:
        return 1.0 - float(np.mean([self.one(rule, seed) for seed in range(300)]))

    def one(self, rule: str, seed: int) -> float:
        rng = np.random.default_rng(seed)
        p = rng.beta(0.3, 5.7, 200)
        y = rng.random(200) < p
        counts = np.zeros(4)
        step = 20 if "blocks" in rule else 1
        for start in range(0, 200, step):
            block, hit = p[start : start + step], y[start : start + step]
            if "blocks" in rule:
                history = counts if rule.startswith("history") else None
                chosen = self.maximize(block, "f1", counts=history).labels
            elif rule == "threshold 1/2":
                chosen = block > 0.5
            else:  # Busa-Fekete et al. (2015): threshold at half of the F1 reached
                total = 2 * counts[0] + counts[1] + counts[2]
                chosen = block > (counts[0] / total if total else 0.0)
            cells = [chosen & hit, chosen & ~hit, ~chosen & hit, ~chosen & ~hit]
            counts += np.sum(cells, axis=1)
        return float(2 * counts[0] / max(2 * counts[0] + counts[1] + counts[2], 1))


class Sets:
    """1,000 segments of images, of seven labels, predicted and learned: probabilities, or sets."""

    params = ("calibrated", "lac", "aps")
    param_names = ("model",)
    number = 1
    warmup_time = 0.0

    def setup(self, model: str) -> None:
        from river import datasets, naive_bayes

        from streamcal import CalibratedClassifier
        from streamcal.decision import PredictionSetClassifier

        self.samples = list(datasets.ImageSegments().take(size(1_000)))
        calibrated: Any = CalibratedClassifier(naive_bayes.GaussianNB())
        for x, y in self.samples:
            calibrated.learn_one(x, y)
        self.learn: Any = calibrated.learn_one
        self.predict: Any = calibrated.predict_proba_one
        if model != "calibrated":
            sets = PredictionSetClassifier(calibrated, score=model)
            self.learn, self.predict = sets.learn_one, sets.predict_set_one

    def time_predict_and_learn(self, model: str) -> None:
        for x, y in self.samples:
            self.predict(x)
            self.learn(x, y)
