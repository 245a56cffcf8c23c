"""Thresholds by enumeration of all of them."""

from collections.abc import Iterator
from itertools import combinations_with_replacement
from typing import Any

import numpy as np


def labellings(scores: Any, n_labels: int) -> Iterator[np.ndarray]:
    """Yield the labels of all choices of sorted thresholds; they count from 1."""
    distinct, group = np.unique(scores, return_inverse=True)
    for cuts in combinations_with_replacement(range(len(distinct) + 1), n_labels - 1):
        yield 1 + np.searchsorted(np.array(cuts), group, side="right")


def total_cost(answers: Any, labels: Any, table: Any, w: Any) -> float:
    """Return the summed cost of answers."""
    return float((w * table[np.asarray(answers) - 1, np.asarray(labels) - 1]).sum())


def least_risk(scores: Any, labels: Any, table: Any, w: Any) -> float:
    """Return the least summed task loss that any thresholds reach."""
    return min(total_cost(answers, labels, table, w) for answers in labellings(scores, len(table)))


def kappa(answers: Any, labels: Any, n_labels: int, w: Any) -> float:
    """Return quadratic weighted kappa; NaN where only one label occurs in both."""
    square = np.square(np.subtract.outer(np.arange(n_labels), np.arange(n_labels)))
    by_truth = np.bincount(np.asarray(labels) - 1, w, n_labels)
    by_answer = np.bincount(np.asarray(answers) - 1, w, n_labels)
    expected = by_answer @ square @ by_truth / np.sum(w)
    return 1.0 - total_cost(answers, labels, square, w) / expected if expected else np.nan


def best_kappa(scores: Any, labels: Any, n_labels: int, w: Any) -> float:
    """Return the greatest kappa that any thresholds reach."""
    return float(
        np.nanmax([kappa(answers, labels, n_labels, w) for answers in labellings(scores, n_labels)])
    )


def independent_cuts(labels: Any, table: Any, w: Any = None) -> np.ndarray:
    """Return the first best cut of each boundary by itself, for labels from 0 in score order."""
    w = np.ones(len(labels)) if w is None else w
    differences = (table[:-1] - table[1:])[:, labels] * w
    prefix = np.concatenate([np.zeros((len(table) - 1, 1)), np.cumsum(differences, axis=1)], axis=1)
    cuts: np.ndarray = prefix.argmin(axis=1)
    return cuts
