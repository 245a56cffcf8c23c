"""Peers of optimal thresholds: NumPy on the loss matrix, and the published DP."""

from typing import Any

import numpy as np

from benchmarks.compiled import compiled

try:
    from streamcal.ordinal.samples import Samples as Samples
except ImportError:  # a revision to compare with may have the older name
    from streamcal.ordinal._samples import Samples as Samples


def samples(n: int, n_labels: int, seed: int = 1) -> tuple[Any, Any]:
    """Return scores in random order and labels (from 1) that follow them noisily."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    noisy = np.round(scores * n_labels + rng.normal(0, n_labels / 10, n))
    return scores, np.clip(noisy, 1, n_labels).astype(np.int64)


def numpy_independent(labels: Any, table: Any) -> Any:
    """Algorithm 3, vectorised over the loss matrix; labels from 0 in score order."""
    losses = table[:, labels]  # (K, N): the faster layout
    prefix = np.cumsum(losses[:-1] - losses[1:], axis=1)
    cuts = prefix.argmin(axis=1)
    best = np.take_along_axis(prefix, cuts[:, None], axis=1)[:, 0]
    return np.where(best < 0.0, cuts + 1, 0)


@compiled
def printed_dp(labels, costs, losses, before, cuts):
    """Algorithm 2 as printed: a loss matrix, a table of risks and one of predecessors."""
    n, n_labels = losses.shape
    for j in range(n):
        for k in range(n_labels):
            losses[j, k] = costs[labels[j], k]
    total = np.zeros(n_labels)
    for j in range(n):
        least, at = np.inf, 0
        for k in range(n_labels):
            if total[k] < least:
                least, at = total[k], k
            before[j, k] = at
            total[k] = least + losses[j, k]
    k = 0
    for label in range(n_labels):
        if total[label] < total[k]:
            k = label
    cuts[k:] = n
    for j in range(n - 1, -1, -1):
        at = before[j, k]
        if at < k:
            cuts[at:k] = j
        k = at
    cuts[:k] = 0
