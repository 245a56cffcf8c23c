"""Isotonic regression for losses without a mean, slowly."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
from scipy.optimize import minimize_scalar

from streamcal import losses


def best_value(loss, y, w):
    """The minimiser of one block, by SciPy; between its labels, where the loss has it there."""
    low, high = (min(y), max(y)) if loss.minimized_by_label else (-60.0, 60.0)
    if low == high:
        return float(low)
    y, w = np.array(y), np.array(w)
    options = {"xatol": 1e-12, "maxiter": 1000}
    return minimize_scalar(
        lambda z: float(w @ loss(z, y)), bounds=(low, high), method="bounded", options=options
    ).x


def max_min(groups, loss):
    """The value of each group of samples: max over a <= i of min over b >= i of the best value from
    a to b (Robertson, Wright & Dykstra, *Order Restricted Statistical Inference*, 1988, section 1.4
    for means; the same proof holds for every strictly convex loss).

    ``groups``: a list of (labels, weights), one for each score, in order.
    """
    n = len(groups)
    best = {
        (a, b): best_value(
            loss,
            [label for labels, _ in groups[a : b + 1] for label in labels],
            [weight for _, weights in groups[a : b + 1] for weight in weights],
        )
        for a in range(n)
        for b in range(a, n)
    }
    return [max(min(best[a, b] for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


def quantile_maps(groups, tau):
    """The least and the greatest of all best maps, by trying every map with labels as values.

    Exact: tau and weights become fractions. The best maps form a lattice, whose ends have labels as
    values, so the least one is the least at each score.
    """
    tau = Fraction(tau).limit_denominator(1000)
    candidates = sorted({label for labels, _ in groups for label in labels})

    def cost(z, labels, weights):
        return sum(
            Fraction(w) * (tau if y >= z else tau - 1) * (Fraction(y) - Fraction(z))
            for y, w in zip(labels, weights, strict=True)
        )

    table = [{z: cost(z, *group) for z in candidates} for group in groups]
    costs = {
        values: sum(row[z] for row, z in zip(table, values, strict=True))
        for values in combinations_with_replacement(candidates, len(groups))
    }
    least = min(costs.values())
    best = [values for values, total in costs.items() if total == least]
    return np.min(best, axis=0), np.max(best, axis=0)


def grouped(scores, y, w):
    """One (labels, weights) for each distinct score, in order."""
    groups = {}
    for score, label, weight in sorted(zip(scores, y, w, strict=True)):
        labels, weights = groups.setdefault(score, ([], []))
        labels.append(label)
        weights.append(weight)
    return list(groups.values())


def total_loss(loss: losses.Loss, z, y, w):
    return float(np.dot(w, loss(np.asarray(z), np.asarray(y))))
