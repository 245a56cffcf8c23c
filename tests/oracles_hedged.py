"""A slow reference of hedging: a mixture by likelihoods, in logarithms."""

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise, product
from typing import Any

import numpy as np


def dealt(shares: Sequence[float | timedelta], times: Sequence[float]) -> np.ndarray:
    """Return the share after each sample in seconds ``times``: a row per sample, a column each."""
    rows, now = [], times[0]
    for t in times:
        gap, now = max(t - now, 0.0), max(t, now)
        rows.append(
            [
                1.0 - 2.0 ** (-gap / share.total_seconds())
                if isinstance(share, timedelta)
                else share
                for share in shares
            ]
        )
    return np.array(rows)


def log_likelihood(p: float, y: float) -> float:
    """Return the log likelihood of a label, which may be a share."""
    hit = y * math.log(p) if y else 0.0
    return hit + ((1.0 - y) * math.log1p(-p) if y < 1.0 else 0.0)


def mixtures(
    answers: np.ndarray,
    y: np.ndarray,
    shares: Any,
    powers: np.ndarray,
    delay: int = 0,
    clip: float = 1e-6,
    prior: tuple[float, ...] | None = None,
) -> np.ndarray:
    """Return the mixtures of ``answers``, which has a row per sample, a column per calibrator.

    ``shares`` are the same for all samples, or a row for each as `dealt` returns them.
    """
    answers = np.clip(answers, clip, 1.0 - clip)
    n = answers.shape[1]
    start = [1.0] * n if prior is None else list(prior)
    start = [a / math.fsum(start) for a in start]
    by_sample = np.broadcast_to(shares, (len(y), np.shape(shares)[-1])).tolist()
    odds = [0.0 for _ in by_sample[0]]
    weights = [[math.log(a) for a in start] for _ in odds]  # logarithms
    served = []
    for t in range(len(y)):
        if (s := t - delay - 1) >= 0:
            for k, share in enumerate(by_sample[s]):
                v = _normal(weights[k])
                p = math.fsum(a * b for a, b in zip(v, answers[s], strict=True))
                odds[k] += powers[s] * log_likelihood(min(max(p, clip), 1.0 - clip), y[s])
                logs = [powers[s] * log_likelihood(a, y[s]) for a in answers[s].tolist()]
                weights[k] = [a + b for a, b in zip(weights[k], logs, strict=True)]
                if share:
                    pairs = zip(_normal(weights[k]), start, strict=True)
                    weights[k] = [math.log((1.0 - share) * a + share * b) for a, b in pairs]
        u = _normal(odds)
        served.append(
            math.fsum(
                of_row * v * p
                for of_row, logs in zip(u, weights, strict=True)
                for v, p in zip(_normal(logs), answers[t], strict=True)
            )
        )
    return np.array(served)


def late_mixtures(
    answers: np.ndarray,
    y: np.ndarray,
    shares: Any,
    delay: int,
    prior: tuple[float, ...],
    current: np.ndarray,
    raw: int | None = None,
    clip: float = 1e-6,
) -> np.ndarray:
    """Return the mixtures where each label comes ``delay`` > 0 samples late.

    ``raw`` is the column of the raw scores; ``current`` has the shape of ``answers``, and what the
    calibrators predict for a sample when its label arrives. ``shares`` are as in `mixtures`.
    """
    answers, current = np.clip(answers, clip, 1.0 - clip), np.clip(current, clip, 1.0 - clip)
    start = np.array(prior) / math.fsum(prior)
    kinds = ("served, tempered", "served", "current")
    by_sample = np.broadcast_to(shares, (len(y), np.shape(shares)[-1]))
    rows = [(kind, k) for kind in kinds for k in range(by_sample.shape[1])]
    weights = np.tile(start, (len(rows), 1))
    odds, odds_of_raw, eta = np.zeros(len(rows)), 0.0, 1.0
    charged: list[np.ndarray] = []  # what the rows served
    losses: list[np.ndarray] = []
    served = []
    for t in range(len(y)):
        if (s := t - delay) > 0:
            s -= 1
            logs = np.array([log_likelihood(a, y[s]) for a in answers[s].tolist()])
            from_mean = logs - logs.mean()
            losses.append(np.where(abs(from_mean) < 1e-12, 0.0, from_mean))
            eta = 1.0 / variance_ratio(np.array(losses), delay)
            rate = 1.0 / variance_ratio(np.array(losses), delay, about_mean=True)
            odds += rate * np.array([log_likelihood(p, y[s]) for p in charged[s].tolist()])
            odds_of_raw += 0.0 if raw is None else rate * logs[raw]
            logs_now = np.array([log_likelihood(a, y[s]) for a in current[s].tolist()])
            powers = dict(zip(kinds, (eta, 1.0, 1.0), strict=True))
            for k, (kind, column) in enumerate(rows):
                gains = logs_now if kind == "current" else logs
                power, share = powers[kind], by_sample[s, column]
                v = weights[k] * np.exp(power * (gains - gains.max()))
                weights[k] = (1.0 - share * power) * v / v.sum() + share * power * start
        charged.append(weights @ answers[t])
        guard = 0.0 if raw is None else (1.0 - eta) / 2.0
        u = np.exp(np.append(odds, odds_of_raw) - max(odds.max(), odds_of_raw))
        differed = any((values != 0.0).any() for values in losses)
        prior_of = {"served, tempered": 1.0, "served": 1.0, "current": 0.5 if differed else 0.0}
        priors = np.array([prior_of[kind] for kind, _ in rows])
        u *= np.append((1.0 - guard) * priors / priors.sum(), guard)
        answer = 0.0 if raw is None else answers[t, raw]
        served.append(float(u[:-1] @ charged[t] + u[-1] * answer) / u.sum())
    return np.array(served)


def group_mixtures(
    groups: list[tuple[np.ndarray, np.ndarray]],
    shares: Any,
    prior: tuple[float, ...],
    raw: int,
    clip: float = 1e-6,
    odds: tuple[float, ...] = (0.0,),
) -> list[np.ndarray]:
    """Return the mixtures for the rows of each group, served with all earlier groups learned.

    A group is the answers, a row per label and a column per calibrator, and the labels; ``raw`` is
    the column of the raw scores; ``odds`` are the log odds of the shares at the start, ``shares``
    are as in `mixtures`.
    """
    by_group = np.broadcast_to(shares, (len(groups), np.shape(shares)[-1]))
    start = np.array(prior) / math.fsum(prior)
    weights, odds_of_raw = np.tile(start, (by_group.shape[1], 1)), 0.0
    log_odds = np.resize(odds, len(weights))
    served: list[np.ndarray] = []
    sizes: list[int] = []
    for (given, y), share in zip(groups, by_group[:, :, None], strict=True):
        answers = np.clip(given, clip, 1.0 - clip)
        others = 1.0 / math.sqrt(np.mean(sizes or [1]))  # the prior of all but the raw score
        u = np.append(
            np.exp(log_odds) * others / len(weights), math.exp(odds_of_raw) * (1.0 - others)
        )
        by_share = answers @ weights.T
        served.append(np.column_stack([by_share, answers[:, raw]]) @ u / u.sum())
        logs = np.where(y[:, None] == 1.0, np.log(answers), np.log1p(-answers)).mean(axis=0)
        log_odds += np.where(y[:, None] == 1.0, np.log(by_share), np.log1p(-by_share)).mean(axis=0)
        odds_of_raw += logs[raw]
        weights = weights * np.exp(logs)
        weights /= weights.sum(axis=1, keepdims=True)
        weights = (1.0 - share) * weights + share * start
        sizes.append(len(y))
    return served


def variance_ratio(
    values: np.ndarray, delay: int, n_blocks: int = 8, about_mean: bool = False
) -> float:
    """Return the variance ratio of the series in the columns, with its start at ``delay`` + 1."""
    window = 4 * delay + 1
    length = math.ceil(window / n_blocks)
    n = len(values) // length * length
    estimate = 0.0
    for blocks in range(1, n_blocks + 1):
        sums, mean = np.zeros(values.shape[1]), values[:n].mean(axis=0) if n and about_mean else 0.0
        for end in range(length, n + 1, length):
            part = values[max(end - blocks * length, 0) : end]
            sums += length * (part.sum(axis=0) ** 2 / len(part) - len(part) * mean**2)
        if n:
            squares = ((values[:n] - mean) ** 2).sum(axis=0)
            ratios = np.divide(sums, squares, out=np.zeros_like(sums), where=squares > 1e-12)
            estimate = max(estimate, ratios.max())
    logs = n * math.log(max(estimate, 1.0)) + window * math.log(delay + 1.0)
    return min(math.exp(logs / (n + window)), window)


def _normal(logs: list[float]) -> list[float]:
    top = max(logs)
    powers = [math.exp(a - top) for a in logs]
    return [a / math.fsum(powers) for a in powers]


def sequences(answers: np.ndarray, y: np.ndarray, share: Any) -> float:
    """Return −log of the mean likelihood of all sequences of calibrators, by enumeration.

    A sequence starts anywhere with equal probability; after each sample a share of the probability
    goes to all calibrators alike. That is what a hedge with that share loses in all. The share is
    the same after all samples, or an array has that after each.
    """
    n, shares = answers.shape[1], np.broadcast_to(share, len(y)).tolist()
    total = 0.0
    for path in product(range(n), repeat=len(y)):
        probability = 1.0 / n
        for (before, after), alpha in zip(pairwise(path), shares, strict=False):
            probability *= (1.0 - alpha) * (before == after) + alpha / n
        logs = [log_likelihood(answers[t, i], y[t]) for t, i in enumerate(path)]
        total += probability * math.exp(math.fsum(logs))
    return -math.log(total)


def total_loss(p: np.ndarray, y: np.ndarray, w: np.ndarray | float = 1.0) -> float:
    """Return the total log loss."""
    logs = [log_likelihood(a, b) for a, b in zip(p.tolist(), y.tolist(), strict=True)]
    return -math.fsum(np.array(logs) * w)
