"""Slow reference of isotonic regression for losses that are not a `MeanLoss`."""

from fractions import Fraction
from itertools import groupby
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from streamcal import losses


def best_value(loss: Any, y: Any, w: Any) -> Any:
    """The minimiser of one block, by SciPy; between its labels, where the loss has it there."""
    low, high = (min(y), max(y)) if loss.minimized_by_label else (-60.0, 60.0)
    if low == high:
        return float(low)
    y, w = np.array(y), np.array(w)
    options: Any = {"xatol": 1e-12, "maxiter": 1000}
    return minimize_scalar(
        lambda z: float(w @ loss(z, y)), bounds=(low, high), method="bounded", options=options
    ).x


def max_min(groups: Any, loss: Any) -> list[Any]:
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


def quantile_maps(groups: Any, tau: Any) -> Any:
    """The least, the middle and the greatest of all best maps for the pinball loss.

    Exact: tau and weights become fractions. The best maps form a lattice, whose ends have labels as
    values, and are found by dynamic programming over all of these. The middle map moves each block
    of the least one to the middle of the values that it can have as a whole.
    """
    tau = Fraction(tau).limit_denominator(1000)
    values = sorted({label for labels, _ in groups for label in labels})

    def cost(z: Any, labels: Any, weights: Any) -> Any:
        return sum(
            Fraction(w) * (tau if y >= z else tau - 1) * (Fraction(y) - Fraction(z))
            for y, w in zip(labels, weights, strict=True)
        )

    table = [[cost(z, *group) for z in values] for group in groups]
    # after[k][v]: the least cost of groups k and on, if none of them is below values[v].
    after = [[Fraction(0)] * len(values)]
    for row in reversed(table):
        totals = [here + later for here, later in zip(row, after[0], strict=True)]
        after.insert(0, [min(totals[v:]) for v in range(len(values))])

    def trace(end: Any) -> Any:
        path, v = [], 0
        for k, row in enumerate(table):
            best = [u for u in range(v, len(values)) if row[u] + after[k + 1][u] == after[k][v]]
            v = best[end]
            path.append(v)
        return path

    least, greatest = trace(0), trace(-1)
    middle: list[float] = []
    ceiling = len(values) - 1
    for v, block in reversed(
        [(v, list(run)) for v, run in groupby(range(len(least)), least.__getitem__)]
    ):
        totals = [sum(table[k][u] for k in block) for u in range(len(values))]
        ceiling = min(ceiling, max(u for u, total in enumerate(totals) if total == min(totals)))
        middle[:0] = [0.5 * (values[v] + values[ceiling])] * len(block)
    return tuple(
        np.array(x) for x in ([values[v] for v in least], middle, [values[v] for v in greatest])
    )


def grouped(scores: Any, y: Any, w: Any) -> Any:
    """One (labels, weights) for each distinct score, in order."""
    groups: dict[float, tuple[list[float], list[float]]] = {}
    for score, label, weight in sorted(zip(scores, y, w, strict=True)):
        labels, weights = groups.setdefault(score, ([], []))
        labels.append(label)
        weights.append(weight)
    return list(groups.values())


def total_loss(loss: losses.Loss, z: Any, y: Any, w: Any) -> Any:
    return float(np.dot(w, loss(np.asarray(z), np.asarray(y))))
