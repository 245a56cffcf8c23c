"""A slow reference of the maps of a `JointHedge`, with curvatures that are solved anew."""

from typing import Any

import numpy as np

CLIP = 1e-6
FADE = 0.5 ** (1 / 5_000)


def logs_of(p: dict[Any, float]) -> dict[Any, float]:
    """Return the logs of clipped probabilities, less their mean."""
    total = sum(max(each, CLIP) for each in p.values())
    logs = {label: np.log(max(each, CLIP) / total) for label, each in p.items()}
    mean = sum(logs.values()) / len(logs)
    return {label: z - mean for label, z in logs.items()}


def normal(p: dict[Any, float]) -> dict[Any, float]:
    """Return clipped probabilities divided by their sum."""
    clipped = {label: min(max(each, CLIP), 1.0) for label, each in p.items()}
    return {label: each / sum(clipped.values()) for label, each in clipped.items()}


def clipped_logs(p: dict[Any, float]) -> dict[Any, float]:
    """Return the logs that a temperature multiplies; it clips the normal probabilities again."""
    return {label: np.log(max(each, CLIP)) for label, each in normal(p).items()}


def softmax(u: dict[Any, float]) -> dict[Any, float]:
    top = max(u.values())
    e = {label: np.exp(each - top) for label, each in u.items()}
    return {label: each / sum(e.values()) for label, each in e.items()}


class Slope:
    """A factor of logs, learned by Newton steps."""

    def __init__(self, gamma: float, prior: float, fade: float) -> None:
        self.gamma, self.prior, self.fade = gamma, prior, fade
        self.value, self.curvature = 1.0, prior

    def learn(self, gradient: float, w: float) -> None:
        self.curvature = self.prior + self.fade * (self.curvature - self.prior)
        self.curvature += w * gradient**2
        self.value -= w * gradient / self.curvature / self.gamma
        self.value = min(max(self.value, 0.01), 100.0)


class MatrixScaling:
    """Logits from a slope and a row of weights for each label, over all the logs and 1."""

    def __init__(self, n_rows: int, gamma: float, prior: float, fade: float) -> None:
        self.n_rows, self.gamma, self.prior, self.fade = n_rows, gamma, prior, fade
        self.slope = Slope(0.5, 10.0, fade)
        self.features: list[tuple[Any, int]] = []
        self.weights: dict[Any, np.ndarray] = {}
        self.curvature = np.array([[prior]])
        self.at = 0

    def vector(self, logs: list[dict[Any, float]]) -> np.ndarray:
        return np.array([1.0] + [logs[row].get(label, 0.0) for label, row in self.features])

    def base(self, logs: list[dict[Any, float]]) -> dict[Any, float]:
        return logs[1 if self.n_rows else 0]

    def predict(self, logs: list[dict[Any, float]]) -> dict[Any, float]:
        x = self.vector(logs)
        u = {k: self.slope.value * z for k, z in self.base(logs).items()}
        return softmax({k: each + self.weights.get(k, 0.0 * x) @ x for k, each in u.items()})

    def learn(self, logs: list[dict[Any, float]], y: Any, w: float) -> None:
        for label in logs[0]:
            if label not in self.weights:
                self.features += [(label, row) for row in range(self.n_rows)]
                self.weights[label] = np.zeros(1)
        d = 1 + len(self.features)
        grown = self.prior * np.eye(d)
        grown[: len(self.curvature), : len(self.curvature)] = self.curvature
        for label, row in self.weights.items():
            self.weights[label] = np.append(row, np.zeros(d - len(row)))
        p, x = self.predict(logs), self.vector(logs)
        h = sum(each * (1.0 - each) for each in p.values()) / len(p)
        reduced = min(w, 1e6 * self.prior / (x @ x) / h) if h else w
        self.curvature = self.fade * grown + reduced * h * np.outer(x, x)
        step = np.linalg.solve(self.curvature, x) * reduced / self.gamma
        for label, each in p.items():
            row = self.weights[label] - step * (each - (label == y))
            self.weights[label] = row.clip(-100.0, 100.0)
        self.curvature[self.at, self.at] += (1.0 - self.fade) * 0.1 * self.prior * d
        self.at = (self.at + 1) % d
        z = self.base(logs)
        self.slope.learn(sum((p[label] - (label == y)) * z[label] for label in p), w)


class Maps:
    """All maps that a `JointHedge` mixes, in its order."""

    def __init__(self) -> None:
        self.temperature = Slope(0.1, 10.0, 1.0)
        self.bias = MatrixScaling(0, 1.0, 10.0, 1.0)
        self.slow = MatrixScaling(2, 1.0, 30.0, FADE)
        self.fast = MatrixScaling(2, 0.5, 100.0, FADE)

    def predict(
        self, raw: dict[Any, float], one_vs_rest: dict[Any, float]
    ) -> list[dict[Any, float]]:
        logs = [logs_of(raw), logs_of(one_vs_rest)]
        tempered = softmax({k: self.temperature.value * z for k, z in clipped_logs(raw).items()})
        matrices = [each.predict(logs) for each in (self.bias, self.slow, self.fast)]
        return [normal(raw), tempered, matrices[0], normal(one_vs_rest), *matrices[1:]]

    def learn(self, raw: dict[Any, float], one_vs_rest: dict[Any, float], y: Any, w: float) -> None:
        logs = [logs_of(raw), logs_of(one_vs_rest)]
        given = clipped_logs(raw)
        tempered = softmax({k: self.temperature.value * z for k, z in given.items()})
        gradient = sum((p - (k == y)) * given[k] for k, p in tempered.items())
        self.temperature.learn(gradient, w)
        for matrix in (self.bias, self.slow, self.fast):
            matrix.learn(logs, y, w)
