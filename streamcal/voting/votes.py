"""The votes of a rule that minimise its ranking loss.

A rule covers examples; W_j is the weight of those of class j. It votes v_j for class j, one of a
few values such as -1, 0 and 1. Its loss sums over the pairs of classes, more if their order is
wrong [1]_::

    Z = 1/(c - 1) Σ_{j ≠ k} W_j exp(-(v_j - v_k)/2)
      = 1/(c - 1) [ (Σ_j W_j exp(-v_j/2)) (Σ_k exp(v_k/2)) - Σ_j W_j ]

So Z is a product A·B of two sums over classes, less a constant. A product is least at a vertex of
the lower hull of the points (A, B), and a vertex minimises A + λB for some λ > 0, class by class:
class j takes the value nearest to log(W_j/λ). As λ falls from infinity, classes change from one
value to the next at the breakpoints λ = W_j exp(-(v + v')/2). Sorting these and updating the sums
at each one visits all vertices in O(c log c). The paper's search through all monotone votes takes
O(c²) for three values.

References
----------
.. [1] Nock, R. (2002). Inducing Interpretable Voting Classifiers without Trading Accuracy for
   Simplicity. JAIR 17, "Optimizing Z in our Setting", Lemma 1 and Theorem 6.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal._validation import LARGEST, as_vector, as_weight, check_count

Vector = NDArray[np.float64]
_TIE = 1e-12
_MAX_VALUE = 100.0


class Votes(NamedTuple):
    """The votes of a rule.

    Attributes
    ----------
    votes : ndarray of shape (n_classes,)
        One of the values for each class.
    Z : float
        The loss of these votes, in units of the weights.
    """

    votes: Vector
    Z: float


def optimal_votes(weights: ArrayLike, values: Sequence[float] = (-1, 0, 1)) -> Votes:
    """Return the votes of least loss for examples of one class each, in O(c log c).

    Parameters
    ----------
    weights : array-like of shape (n_classes,)
        Weight of the covered examples of each class, from 0 to 1e60; at least 2 classes.
    values : sequence of floats
        The possible values of a vote, at least one.

    Returns
    -------
    Votes
        Of equally good votes those with the least sum of absolute values.

    Raises
    ------
    ValueError, TypeError
        If weights are negative or not finite, or there are fewer than 2 of them, or no values.

    Examples
    --------
    >>> optimal_votes([1.0, 3.0, 9.0])
    Votes(votes=array([-1.,  0.,  1.]), Z=9.9...)
    """
    W = _as_class_weights(weights)
    steps = _as_values(values)
    c, m = len(W), len(steps)
    if m == 1 or not W.any():
        votes = np.full(c, steps[np.abs(steps).argmin()])
        return Votes(votes, votes_loss(W, votes))
    half = np.exp(0.5 * steps)
    # Breakpoint (j, a): class j leaves value a for value a + 1 once λ is below W_j/(half_a
    # half_a+1).
    products = half[:-1] * half[1:]
    breakpoints = (W[:, None] / products).ravel()
    order = (-breakpoints).argsort(kind="stable")
    a = order % (m - 1)
    A = np.concatenate(
        [[W.sum() / half[0]], W[order // (m - 1)] * (1 / half[1:] - 1 / half[:-1])[a]]
    )
    B = np.concatenate([[c * half[0]], (half[1:] - half[:-1])[a]])
    size = np.concatenate([[c * abs(steps[0])], (np.abs(steps[1:]) - np.abs(steps[:-1]))[a]])
    product = A.cumsum() * B.cumsum()
    least = product.min()
    ties = np.flatnonzero(product <= least * (1.0 + _TIE))
    taken = ties[size.cumsum()[ties].argmin()]
    votes = steps[np.bincount(order[:taken] // (m - 1), minlength=c)]
    return Votes(votes, votes_loss(W, votes))


def search_votes(weights: ArrayLike, values: Sequence[float] = (-1, 0, 1)) -> Votes:
    """Return optimal votes by the paper's search: O(c^(l-1)) for l values, c² for three.

    By its Lemma 1 some optimum is monotone in the weights. So the weights are sorted, and all
    places where one value ends and the next begins are tried; prefix sums make each try O(l). It is
    a reference for `optimal_votes` and has the same parameters.

    Examples
    --------
    >>> search_votes([1.0, 3.0, 9.0]).votes
    array([-1.,  0.,  1.])
    """
    W = _as_class_weights(weights)
    steps = _as_values(values)
    c = len(W)
    order = W.argsort(kind="stable")
    prefix = np.concatenate([[0.0], W[order].cumsum()]).tolist()
    half = np.exp(0.5 * steps).tolist()
    best = None
    for ends in combinations_with_replacement(range(c + 1), len(steps) - 1):
        A = B = 0.0
        start = 0
        for end, x in zip((*ends, c), half, strict=True):
            A += (prefix[end] - prefix[start]) / x
            B += (end - start) * x
            start = end
        if best is None or best[0] > A * B:
            best = (A * B, ends)
    assert best is not None
    votes = np.empty(c)
    votes[order] = np.repeat(steps, np.diff([0, *best[1], c]))
    return Votes(votes, votes_loss(W, votes))


def votes_loss(weights: ArrayLike, votes: ArrayLike) -> float:
    """Return Z of any votes, in O(c).

    Examples
    --------
    >>> round(votes_loss([1.0, 3.0], [0, 1]), 4)
    3.4683
    """
    W, v = _as_class_weights(weights), as_vector(votes, "votes")
    if len(v) != len(W):
        raise ValueError(f"`votes` must have one value per class, got {len(v)} for {len(W)}")
    A, B = W * np.exp(-0.5 * v), np.exp(0.5 * v)
    # Σ A_j B_j = Σ W_j is not part of the loss: leave it out, as subtracting it loses digits.
    return float((A * (B.sum() - B)).sum() / (len(W) - 1))


def two_class_votes(negative: float, positive: float) -> int:
    """Return v_positive - v_negative for two classes and votes -1, 0, 1, in closed form.

    It is the log-odds, rounded to an integer and clipped to ±2.

    Examples
    --------
    >>> two_class_votes(1.0, 4.0)
    1
    """
    W = _as_class_weights([negative, positive])
    if W[1] <= 0.0 or W[0] <= 0.0:
        return 2 * int(W[1] > 0.0) - 2 * int(W[0] > 0.0)
    return max(-2, min(2, round(math.log(W[1]) - math.log(W[0]))))


def multilabel_weights(examples: Iterable[tuple[Iterable[int], float]], n_classes: int) -> Vector:
    """Return class weights for examples of several classes each.

    An example of the classes S with weight w counts as |S| examples of one class with weight w/|S|
    each. The loss of optimal votes for these weights is at most `multilabel_bound` times the least
    loss for the examples themselves.

    Parameters
    ----------
    examples : iterable of (classes, weight)
        The classes are distinct ints from 0 to ``n_classes - 1``, at least one and not all of them.
    n_classes : int
        At least 2.

    Returns
    -------
    ndarray of shape (n_classes,)

    Examples
    --------
    >>> multilabel_weights([({0, 1}, 1.0), ({1}, 2.0)], n_classes=3)
    array([0.5, 2.5, 0. ])
    """
    check_count(n_classes, "n_classes", 2)
    W = np.zeros(n_classes)
    for classes, weight in examples:
        labels = sorted(set(classes))
        if not 0 < len(labels) < n_classes:
            raise ValueError(
                f"`examples` must have from 1 to {n_classes - 1} classes each, got {labels}"
            )
        if labels[0] < 0 or labels[-1] >= n_classes:
            raise ValueError(f"`examples` must have classes below {n_classes}, got {labels}")
        W[labels] += as_weight(weight, "examples") / len(labels)
    return W


def multilabel_bound(n_classes: int, max_classes: int) -> float:
    """Return 1 + e/(c - k), the bound on the loss ratio of `multilabel_weights`.

    Parameters
    ----------
    n_classes : int
        c, at least 2.
    max_classes : int
        k, from 1 to c - 1: no example has more classes.

    Examples
    --------
    >>> round(multilabel_bound(10, 2), 2)
    1.34
    """
    check_count(n_classes, "n_classes", 2)
    if not 0 < max_classes < n_classes:
        raise ValueError(f"`max_classes` must be from 1 to {n_classes - 1}, got {max_classes!r}")
    return 1.0 + math.e / (n_classes - max_classes)


def _as_class_weights(weights: ArrayLike) -> Vector:
    W = as_vector(weights, "weights")
    if len(W) < 2:
        raise ValueError(f"`weights` must have at least 2 classes, got {len(W)}")
    good = (W >= 0.0) & (W <= LARGEST)
    if not good.all():
        at = int(np.argmin(good))
        raise ValueError(f"`weights` must be from 0 to {LARGEST:g}, got {W[at]} at position {at}")
    return W


def _as_values(values: Sequence[float]) -> Vector:
    steps = np.unique(as_vector(values, "values"))
    if not len(steps):
        raise ValueError("`values` must hold at least one vote, got none")
    if np.abs(steps).max() > _MAX_VALUE:
        raise ValueError(f"`values` must be from -100 to 100, got {list(values)}")
    return steps
