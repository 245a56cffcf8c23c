"""Slow references of the ordinal learners, as published: lists of floats, averages as means.

Ranks run from 0 to K − 1 and boundaries from 1 to K − 1, so ``weights[k]`` is that of the boundary
between the ranks k − 1 and k, and ``weights[0]`` stays zero. Features carry their constant last
attribute, if there is one. Shrinkage multiplies every weight, and an average is a sum over copies
of the weights after each sample.
"""

import copy
import math
from collections.abc import Callable, Sequence

Vector = Sequence[float]
Weights = list[list[float]]


def dot(a: Vector, b: Vector) -> float:
    return math.fsum(p * q for p, q in zip(a, b, strict=True))


def scores(weights: Weights, x: Vector) -> list[float]:
    """Return s(x, r) = Σ_{k ≤ r} w_k · x for every rank r."""
    out = [0.0]
    for w in weights[1:]:
        out.append(out[-1] + dot(w, x))
    return out


def decode(values: Vector, last: bool = False) -> int:
    """Return the first argmax, or the last."""
    best = max(values)
    places = [r for r, value in enumerate(values) if value == best]
    return places[-1] if last else places[0]


def absolute(r: int, y: int) -> float:
    return abs(r - y)


class Learner:
    """Perceptron or passive-aggressive steps, with margin re-scaling, shrinkage and averaging."""

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        *,
        rule: str = "perceptron",  # or "PA", "PA-I", "PA-II"
        delta: float = 1.0,
        C: float = 1.0,
        loss: Callable[[int, int], float] = absolute,
        margin: float = 0.0,
        l2: float = 0.0,
        half_life: float = math.inf,
    ) -> None:
        self.weights: Weights = [[0.0] * n_features for _ in range(n_labels)]
        self.rule, self.delta, self.C = rule, delta, C
        self.loss, self.margin, self.l2, self.half_life = loss, margin, l2, half_life
        self.history: list[tuple[float, Weights]] = []
        self.rank_loss = 0.0

    def predict(self, x: Vector) -> int:
        return decode(scores(self.weights, x))

    def learn(self, x: Vector, y: int, w: float = 1.0) -> None:
        self.weights = [[(1.0 - self.l2) * value for value in row] for row in self.weights]
        s = scores(self.weights, x)
        self.rank_loss += w * abs(y - decode(s))
        guess = decode([s[r] + self.margin * self.loss(r, y) for r in range(len(s))])
        if guess != y:
            self.update(x, y, guess, self.step(x, y, guess, s, w))
        self.history.append((w, copy.deepcopy(self.weights)))

    def step(self, x: Vector, y: int, guess: int, s: Vector, w: float) -> float:
        if self.rule == "perceptron":
            return w
        squared = abs(y - guess) * dot(x, x)
        if squared == 0.0:
            return 0.0
        missing = max(0.0, self.delta * self.loss(guess, y) - (s[y] - s[guess]))
        if self.rule == "PA-II":
            return missing / (squared + 0.5 / (self.C * w))
        tau = missing / squared
        return min(tau, self.C * w) if self.rule == "PA-I" else tau

    def update(self, x: Vector, y: int, guess: int, tau: float) -> None:
        sign = 1.0 if y > guess else -1.0
        for k in range(min(y, guess) + 1, max(y, guess) + 1):
            self.weights[k] = [
                value + sign * tau * x_i for value, x_i in zip(self.weights[k], x, strict=True)
            ]

    def average(self) -> Weights:
        """Return the mean of the weights after every sample, the newest counting most."""
        n = len(self.history)
        counts = [w * 2.0 ** ((t - n) / self.half_life) for t, (w, _) in enumerate(self.history, 1)]
        total = math.fsum(counts)
        return [
            [
                math.fsum(c * old[k][i] for c, (_, old) in zip(counts, self.history, strict=True))
                / total
                for i in range(len(self.weights[0]))
            ]
            for k in range(len(self.weights))
        ]


class PRank:
    """Crammer & Singer (2001), figure 1: one direction and thresholds; ``x`` has no constant."""

    def __init__(self, n_features: int, n_labels: int, *, ties: str = "published") -> None:
        self.direction = [0.0] * n_features
        self.thresholds = [0.0] * (n_labels - 1)  # of the boundaries 1 to K − 1
        self.ties = ties

    def predict(self, x: Vector) -> int:
        """Return the first rank whose threshold lies above, which is the last on ties."""
        projection = dot(self.direction, x)
        for r, threshold in enumerate(self.thresholds):
            if projection - threshold < 0.0:
                return r
        return len(self.thresholds)

    def learn(self, x: Vector, y: int) -> None:
        guess = self.predict(x)
        if guess == y:
            return
        projection = dot(self.direction, x)
        total = 0
        for k, threshold in enumerate(self.thresholds):
            side = 1 if y > k else -1
            if self.ties == "published":
                wrong = (projection - threshold) * side <= 0.0
            else:
                wrong = min(y, guess) <= k < max(y, guess)
            if wrong:
                self.thresholds[k] -= side
                total += side
        self.direction = [p + total * x_i for p, x_i in zip(self.direction, x, strict=True)]


class Dual:
    """The paper's figure 5: for each sample seen, how often each boundary was right or wrong."""

    def __init__(self, n_labels: int, kernel: Callable[[Vector, Vector], float]) -> None:
        self.n_labels, self.kernel = n_labels, kernel
        self.atoms: list[tuple[Vector, list[int]]] = []

    def scores(self, x: Vector) -> list[float]:
        out = [0.0]
        for k in range(1, self.n_labels):
            out.append(
                out[-1] + math.fsum(beta[k] * self.kernel(x_i, x) for x_i, beta in self.atoms)
            )
        return out

    def predict(self, x: Vector) -> int:
        return decode(self.scores(x))

    def learn(self, x: Vector, y: int) -> None:
        guess = self.predict(x)
        self.atoms.append((x, [(k <= y) - (k <= guess) for k in range(self.n_labels)]))


def antitonic(values: Vector) -> list[float]:
    """Return the non-increasing sequence nearest to ``values`` by the min-max formula."""
    n = len(values)
    return [
        max(
            min(math.fsum(values[a : b + 1]) / (b - a + 1) for a in range(i + 1))
            for b in range(i, n)
        )
        for i in range(n)
    ]
