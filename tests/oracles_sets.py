"""Prediction sets by the definitions: exact numbers, and all steps taken again for each set."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

Step = tuple[bool, bool]
"""Of a label that was learned: whether its set missed it, and whether the set was free to."""


def scores(probabilities: Mapping[Any, float], score: str) -> dict[Any, Fraction]:
    """Return the score of each label, the most probable label first; ties as they come."""
    order = list(probabilities)
    order.sort(key=lambda label: (-probabilities[label], list(probabilities).index(label)))
    if score == "lac":
        return {label: Fraction(probabilities[label]) for label in order}
    return {
        label: 1 - sum((Fraction(probabilities[above]) for above in order[:at]), Fraction(0))
        for at, label in enumerate(order)
    }


def root_after(steps: Sequence[Step], coverage: float, score: str, step: float) -> float:
    """Return the root of the threshold, below 0 if sets are full, after all these labels."""
    highest = math.sqrt(0.5) if score == "lac" else 1.0
    root = min(math.sqrt(1.0 - coverage), highest)
    for missed, could_hit in steps:
        if not missed:
            root = min(highest, root + step * (1.0 - coverage))
        elif could_hit:
            root -= step * coverage
        elif root > 0.0:
            root = max(0.0, root - step * coverage)
    return root


def set_of(probabilities: Mapping[Any, float], score: str, root: float) -> list[Any]:
    """Return the labels that have a score above the threshold, or are the most probable one."""
    found = scores(probabilities, score)
    if root <= 0.0:
        return list(found)
    threshold = Fraction(root**2)
    return [label for at, (label, s) in enumerate(found.items()) if at == 0 or s > threshold]
