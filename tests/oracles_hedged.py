"""A slow reference of hedging: a mixture by likelihoods, in logarithms."""

import math
from itertools import pairwise, product

import numpy as np


def log_likelihood(p: float, y: float) -> float:
    """Return the log likelihood of a label, which may be a share."""
    hit = y * math.log(p) if y else 0.0
    return hit + ((1.0 - y) * math.log1p(-p) if y < 1.0 else 0.0)


def mixtures(
    answers: np.ndarray,
    y: np.ndarray,
    shares: tuple[float, ...],
    powers: np.ndarray,
    delay: int = 0,
    clip: float = 1e-6,
    prior: tuple[float, ...] | None = None,
) -> np.ndarray:
    """Return the mixtures of ``answers``, which has a row per sample, a column per calibrator."""
    answers = np.clip(answers, clip, 1.0 - clip)
    n = answers.shape[1]
    start = [1.0] * n if prior is None else list(prior)
    start = [a / math.fsum(start) for a in start]
    odds = [0.0 for _ in shares]
    weights = [start if share else [math.log(a) for a in start] for share in shares]
    served = []
    for t in range(len(y)):
        if (s := t - delay - 1) >= 0:
            for k, share in enumerate(shares):
                v = _normal(weights[k]) if not share else weights[k]
                p = math.fsum(a * b for a, b in zip(v, answers[s], strict=True))
                odds[k] += powers[s] * log_likelihood(min(max(p, clip), 1.0 - clip), y[s])
                logs = [powers[s] * log_likelihood(a, y[s]) for a in answers[s].tolist()]
                if share:
                    v = _normal([math.log(a) + b for a, b in zip(v, logs, strict=True)])
                    dealt = zip(v, start, strict=True)
                    weights[k] = [(1.0 - share) * a + share * b for a, b in dealt]
                else:
                    weights[k] = [a + b for a, b in zip(weights[k], logs, strict=True)]
        u = _normal(odds)
        served.append(
            math.fsum(
                u[k] * v * p
                for k, share in enumerate(shares)
                for v, p in zip(
                    weights[k] if share else _normal(weights[k]), answers[t], strict=True
                )
            )
        )
    return np.array(served)


def _normal(logs: list[float]) -> list[float]:
    top = max(logs)
    powers = [math.exp(a - top) for a in logs]
    return [a / math.fsum(powers) for a in powers]


def sequences(answers: np.ndarray, y: np.ndarray, share: float) -> float:
    """Return −log of the mean likelihood of all sequences of calibrators, by enumeration.

    A sequence starts anywhere with equal probability; after each sample a share of the probability
    goes to all calibrators alike. That is what a hedge with that share loses in all.
    """
    n = answers.shape[1]
    total = 0.0
    for path in product(range(n), repeat=len(y)):
        probability = 1.0 / n
        for before, after in pairwise(path):
            probability *= (1.0 - share) * (before == after) + share / n
        logs = [log_likelihood(answers[t, i], y[t]) for t, i in enumerate(path)]
        total += probability * math.exp(math.fsum(logs))
    return -math.log(total)


def total_loss(p: np.ndarray, y: np.ndarray, w: np.ndarray | float = 1.0) -> float:
    """Return the total log loss."""
    logs = [log_likelihood(a, b) for a, b in zip(p.tolist(), y.tolist(), strict=True)]
    return -math.fsum(np.array(logs) * w)
