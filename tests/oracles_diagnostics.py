"""Diagnostics by their definitions, slow and simple."""

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.isotonic import IsotonicRegression


def smooth_ece_at(y: Any, p: Any, w: Any, sigma: Any, n_points: int = 2001) -> Any:
    """Integrate the smoothed residuals by the midpoint rule, with a Gaussian for each image."""
    t = (np.arange(n_points) + 0.5) / n_points
    residual = w * (y - p) / w.sum()
    n_images = math.ceil(4 * sigma) + 2
    density = np.zeros(n_points)
    for image in range(-n_images, n_images + 1):
        for mirrored in (2 * image + p, 2 * image - p):
            density += np.exp(-0.5 * ((t[:, None] - mirrored) / sigma) ** 2) @ residual
    return np.abs(density).mean() / (sigma * math.sqrt(2 * math.pi))


def smooth_ece(y: Any, p: Any, w: Any) -> Any:
    return brentq(lambda sigma: smooth_ece_at(y, p, w, sigma) - sigma, 2e-3, 1.0, xtol=1e-7)


def spiegelhalter(y: Any, p: Any, w: Any) -> Any:
    """Return (Brier score − its mean) / its deviation under calibration, from the two outcomes."""
    share = w / w.sum()
    happens, fails = (1 - p) ** 2, p**2
    mean = p * happens + (1 - p) * fails
    variance = p * (happens - mean) ** 2 + (1 - p) * (fails - mean) ** 2
    excess = share @ ((y - p) ** 2 - mean)
    deviation = math.sqrt(share**2 @ variance)
    varies = (p > 0) & (p < 1) & (p != 0.5)
    if not varies.any():
        return math.inf if ((p == 1 - y) & (p != 0.5)).any() else 0.0
    return excess / deviation


def log_likelihood(chances: Any, n: Any, means: Any) -> Any:
    chances = np.clip(chances, 1e-300, 1 - 1e-16)
    return float((n * (means * np.log(chances) + (1 - means) * np.log1p(-chances))).sum())


def likelihood_ratio(x: Any, n: Any, means: Any, k: Any, theta: Any) -> Any:
    """Return 2 log of the ratio of the monotone fit to that through (x_k, θ)."""
    free = IsotonicRegression().fit(x, means, sample_weight=n).predict(x)
    bound = np.full(len(x), theta)
    for part, cut in ((slice(0, k), np.minimum), (slice(k + 1, None), np.maximum)):
        if len(x[part]):
            fit = IsotonicRegression().fit(x[part], means[part], sample_weight=n[part])
            bound[part] = cut(fit.predict(x[part]), theta)
    return 2 * (log_likelihood(free, n, means) - log_likelihood(bound, n, means))


def argmax_of_motion(n_draws: Any, seed: int, step: float = 0.01, reach: float = 3.0) -> Any:
    """Draw the argmax of W(t) − t² on a grid: Chernoff's distribution, nearly."""
    rng = np.random.default_rng(seed)
    t = np.arange(1, round(reach / step) + 1) * step
    right, left = (
        np.cumsum(rng.normal(scale=math.sqrt(step), size=(n_draws, len(t))), axis=1) - t**2
        for _ in range(2)
    )
    path = np.concatenate([left[:, ::-1], np.zeros((n_draws, 1)), right], axis=1)
    return np.concatenate([-t[::-1], [0.0], t])[np.argmax(path, axis=1)]


def segment_error(y: Any, p: Any, w: Any) -> tuple[float, float]:
    """Return the range of the cumulative differences, and its deviation under calibration.

    Arrieta-Ibarra et al. (2022), section 2: the differences are cumulated in the order of scores,
    start at 0, and are divided by the total weight. The deviation is equation 4 of Guy et al.
    (2025). Equal scores are one step.
    """
    total, sums = math.fsum(w), [0.0]
    for score in sorted(set(p)):
        at = [i for i in range(len(p)) if p[i] == score]
        sums.append(sums[-1] + math.fsum(w[i] * (y[i] - p[i]) for i in at) / total)
    variance = math.fsum(w[i] ** 2 * p[i] * (1 - p[i]) for i in range(len(p)))
    return max(sums) - min(sums), math.sqrt(variance) / total


def segments_of(rows: Any, groups: Any) -> dict[Any, list[int]]:
    """Return the places of the rows of each segment; ``groups`` are tuples of fields."""
    found: dict[Any, list[int]] = {}
    for i, row in enumerate(rows):
        for fields in groups:
            found.setdefault(tuple((name, row[name]) for name in fields), []).append(i)
    return found
