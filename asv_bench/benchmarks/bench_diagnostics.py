"""Diagnostics: a sample into each metric, its value, and a band for 10,000 predictions."""

import numpy as np

from benchmarks.sizes import size


class Metrics:
    """The metrics after 1,000 predictions."""

    params = (["CORP", "RollingCORP", "SmoothECE", "SpiegelhalterZ", "ECE"],)
    param_names = ("metric",)
    warmup_time = 0.0
    repeat = (2, 10, 5.0)

    def setup(self, metric: str) -> None:
        from streamcal import metrics

        rng = np.random.default_rng(1)
        p = rng.random(1_000)
        self.samples = list(zip((rng.random(1_000) < p).tolist(), p.tolist(), strict=True))
        self.make = getattr(metrics, metric)
        self.metric = self.make()
        for sample in self.samples:
            self.metric.update(*sample)
        self.metric.get()

    def time_1_000_updates(self, metric: str) -> None:
        fresh = self.make()
        for sample in self.samples:
            fresh.update(*sample)

    def time_get(self, metric: str) -> None:
        self.metric.get()


class Expected:
    """The expectation and the interval of a metric of 1,000 decisions, half of them labelled."""

    params = (["f1", "precision", "auc", "brier"],)
    param_names = ("metric",)

    def setup(self, metric: str) -> None:
        from streamcal.metrics import expected_metric

        rng = np.random.default_rng(1)
        self.p = rng.beta(1.0, 2.0, 1_000)
        self.y = np.where(np.arange(1_000) < 500, rng.random(1_000) < self.p, np.nan)
        self.expected_metric = expected_metric

    def time_expected(self, metric: str) -> None:
        self.expected_metric(self.p, self.y, metric)


class Audits:
    """1,000 decisions: whether to ask for a label, and into the mean of what was asked."""

    def setup(self) -> None:
        rng = np.random.default_rng(1)
        self.p = rng.random(1_000).tolist()
        self.y = [
            float(y) if a else None
            for y, a in zip(rng.random(1_000) < 0.5, rng.random(1_000) < 0.05, strict=True)
        ]

    def time_sampler(self) -> None:
        from streamcal.monitoring import AuditSampler

        sampler = AuditSampler(0.02, secret="s")
        for i, p in enumerate(self.p):
            sampler.audit_one(i, p)

    def time_mean(self) -> None:
        from streamcal.monitoring import AuditedMean

        mean = AuditedMean()
        for p, y in zip(self.p, self.y, strict=True):
            mean.update(p, y, 0.05)

    def time_metric(self) -> None:
        from streamcal.monitoring import AuditedMetric

        metric = AuditedMetric("f1")
        for p, y in zip(self.p, self.y, strict=True):
            metric.update(p, y, 0.05)


class AuditedLabels:
    """1,000 labels with propensities, and beside them a hedge that learns the labels alone."""

    params = (["AuditedCalibrator", "HedgedCalibrator"],)
    param_names = ("calibrator",)

    def setup(self, calibrator: str) -> None:
        from streamcal import calibration

        rng = np.random.default_rng(1)
        self.scores = rng.random(1_000).tolist()
        self.y = (rng.random(1_000) < 0.5).astype(float).tolist()
        self.calibrator = getattr(calibration, calibrator)()
        self.given = [{"propensity": 0.5}] if self.calibrator.needs_propensity else [{}]
        self.time_learn(calibrator)

    def time_learn(self, _calibrator: str) -> None:
        (given,) = self.given
        for score, y in zip(self.scores, self.y, strict=True):
            self.calibrator.learn_one(score, y, **given)

    def time_predict(self, _calibrator: str) -> None:
        for score in self.scores:
            self.calibrator.predict_one(score)


class Bands:
    """A band of 10,000 distinct predictions."""

    params = (["consistency", "confidence"], ["resampling", "asymptotic"])
    param_names = ("kind", "method")
    warmup_time = 0.0
    repeat = (2, 5, 5.0)

    def setup(self, kind: str, method: str) -> None:
        from streamcal.metrics import CORP

        rng = np.random.default_rng(1)
        self.metric = CORP()
        p = rng.random(size(10_000))
        for sample in zip((rng.random(len(p)) < p).tolist(), p.tolist(), strict=True):
            self.metric.update(*sample)
        self.metric.band(kind, method=method)

    def time_band(self, kind: str, method: str) -> None:
        self.metric.band(kind, method=method)


class Segments:
    """The errors of some 60 segments of 100,000 predictions, and Meta's MCGrad if it is there."""

    params = (["streamcal", "mcgrad"],)
    param_names = ("library",)
    warmup_time = 0.0
    repeat = (2, 5, 10.0)

    def setup(self, library: str) -> None:
        rng = np.random.default_rng(1)
        self.p = rng.random(size(100_000))
        self.y = (rng.random(len(self.p)) < self.p).astype(float)
        self.columns = {
            "country": rng.integers(10, size=len(self.p)),
            "device": rng.integers(4, size=len(self.p)),
        }
        if library == "mcgrad":
            try:
                import mcgrad.metrics  # noqa: F401
                import pandas  # noqa: F401
            except ImportError:
                raise NotImplementedError("mcgrad is not installed") from None

    def time_errors(self, library: str) -> None:
        if library == "streamcal":
            from streamcal.metrics import multicalibration_error

            multicalibration_error(self.y, self.p, self.columns, pos_val=1)
        else:
            import pandas
            from mcgrad.metrics import MulticalibrationError

            table = pandas.DataFrame({**self.columns, "p": self.p, "y": self.y})
            names = list(self.columns)
            found = MulticalibrationError(
                table, "y", "p", None, names, max_depth=2, max_values_per_segment_feature=100
            )
            found.mce  # noqa: B018
