"""Decisions by enumeration of all outcomes and all labellings."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from operator import add, mul
from typing import Any

import numpy as np

Phi = Callable[[float, float, float, float], float]
Table = tuple[float, float, float, float]


def _ratio(above: float, below: float, zero: float) -> float:
    return above / below if below > 0 else zero


def phi(name: str, zero: float | str, beta: float = 1.0) -> Phi:
    """Return a metric of (tp, fp, fn, tn), written from its definition."""
    whole = 0.0 if zero == "present" else float(zero)

    def means(kind: str, tp: float, fp: float, fn: float, tn: float) -> float:
        rates = []
        for hits, misses in ((tp, fn), (tn, fp)):
            if hits + misses > 0:
                rates.append(hits / (hits + misses))
            elif zero != "present":
                rates.append(float(zero))
        if not rates:
            return 0.0
        if kind == "am":
            return sum(rates) / len(rates)
        if kind == "gmean":
            return math.prod(rates) ** (1 / len(rates))
        if kind == "hmean":
            return len(rates) / sum(1 / r for r in rates) if all(r > 0 for r in rates) else 0.0
        return 1 - sum((1 - r) ** 2 for r in rates) / len(rates)

    def value(tp: float, fp: float, fn: float, tn: float) -> float:
        n = tp + fp + fn + tn
        if name in ("am", "gmean", "hmean", "qmean"):
            return means(name, tp, fp, fn, tn)
        if name == "fbeta":
            return _ratio((1 + beta**2) * tp, (1 + beta**2) * tp + beta**2 * fn + fp, whole)
        if name == "jaccard":
            return _ratio(tp, tp + fp + fn, whole)
        if name == "tversky":
            return _ratio(tp, tp + 0.3 * fp + 0.9 * fn, whole)
        if name == "accuracy":
            return _ratio(tp + tn, n, whole)
        if name == "precision":
            return _ratio(tp, tp + fp, whole)
        if name == "recall":
            return _ratio(tp, tp + fn, whole)
        if name == "specificity":
            return _ratio(tn, tn + fp, whole)
        if name == "mixed":  # (1 + 3u - v + ½p) / (2 + u + v): neither of one sign nor of one cell
            return _ratio(n + 3 * tp - (tp + fp) + 0.5 * (tp + fn), 2 * n + 2 * tp + fp, whole)
        if name == "gtppr":
            p, v = tp + fn, tp + fp
            return tp / math.sqrt(p * v) if p > 0 and v > 0 else whole
        if name == "mcc":
            below = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
            return (tp * tn - fp * fn) / math.sqrt(below) if below > 0 else whole
        if name == "kappa":
            if n == 0:
                return whole
            chance = ((tp + fp) * (tp + fn) + (tn + fp) * (tn + fn)) / n**2
            return ((tp + tn) / n - chance) / (1 - chance) if chance < 1 else whole
        assert name == "sec"
        return -(((fn - fp) / n) ** 2) if n > 0 else whole

    return value


@lru_cache(maxsize=100_000)
def tables(probabilities: tuple[float, ...], labels: tuple[int, ...]) -> dict[Table, float]:
    """Return the confusion tables that labels may have, each with its probability: all outcomes."""
    law: dict[Table, float] = {}
    for y in product((0, 1), repeat=len(probabilities)):
        chance = math.prod(p if y_i else 1 - p for p, y_i in zip(probabilities, y, strict=True))
        if chance > 0:
            tp = sum(map(mul, labels, y))
            fp, fn = sum(labels) - tp, sum(y) - tp
            table = (tp, fp, fn, len(y) - tp - fp - fn)
            law[table] = law.get(table, 0.0) + chance
    return law


def expected(
    probabilities: Sequence[float],
    labels: Sequence[int],
    metric: Phi,
    history: Table = (0, 0, 0, 0),
) -> float:
    """Return the expected metric of a labelling, over all 2^n outcomes."""
    law = tables(tuple(probabilities), tuple(labels))
    return math.fsum(chance * metric(*map(add, table, history)) for table, chance in law.items())


def best(
    probabilities: Sequence[float], metric: Phi, history: Table = (0, 0, 0, 0)
) -> tuple[float, tuple[int, ...]]:
    """Return the best expected metric of all 2^n labellings, and a labelling that has it."""
    return max(
        (expected(probabilities, labels, metric, history), labels)
        for labels in product((0, 1), repeat=len(probabilities))
    )


def best_that_keeps(
    probabilities: Sequence[float],
    metric: Phi,
    targets: Sequence[tuple[Phi, float]],
    history: Table = (0, 0, 0, 0),
    most: int | None = None,
    slack: float = 0.0,
) -> float | None:
    """Return the best expected metric of all labellings that keep targets up to ``slack``."""
    n = len(probabilities)
    phis = [metric, *(phi for phi, _ in targets)]
    by_k = [[_values_of(phi, n, k, history) for phi in phis] for k in range(n + 1)]
    found = None
    for labels in product((0, 1), repeat=n):
        k = sum(labels)
        if most is not None and k > most:
            continue
        chances = np.outer(_law(probabilities, labels, 1), _law(probabilities, labels, 0))
        utility, *kept = (float((chances * values).sum()) for values in by_k[k])
        if all(value >= least - slack for value, (_, least) in zip(kept, targets, strict=True)):
            found = utility if found is None else max(found, utility)
    return found


def _law(probabilities: Sequence[float], labels: Sequence[int], label: int) -> Any:
    """Return the distribution of the number of positives among the samples with a label."""
    law = np.ones(1)
    for p, chosen in zip(probabilities, labels, strict=True):
        if chosen == label:
            law = np.convolve(law, (1.0 - p, p))
    return law


def _values_of(metric: Phi, n: int, k: int, history: Table) -> Any:
    """Return the metric of each table of n samples with k labels 1, by tp and fn."""
    tables = (((tp, k - tp, fn, n - k - fn) for fn in range(n - k + 1)) for tp in range(k + 1))
    return np.array([[metric(*map(add, table, history)) for table in row] for row in tables])


def most_that_keep(probabilities: Sequence[Fraction], least: Fraction, labels: Any) -> int:
    """Return the most samples with a label, of which the share that is right is expected to keep.

    ``labels`` are those that a sample may have: (0, 1) and None, which is no label, for coverage;
    (1,) and None for positives.
    """
    most = 0
    for answers in product((*labels, None), repeat=len(probabilities)):
        right = [
            p if label else 1 - p
            for p, label in zip(probabilities, answers, strict=True)
            if label is not None
        ]
        if sum(right) >= least * len(right):
            most = max(most, len(right))
    return most
