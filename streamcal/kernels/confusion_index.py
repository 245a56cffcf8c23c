"""Confusion counts on the score index: the threshold that maximises a metric on past samples.

Each slot sums the weights of the positives and of the negatives at its score, each chunk and node
those below it. With the sums to the right of a subtree this gives the table of any threshold in
O(log n), and bounds the tables of all thresholds in the subtree: true and false positives each lie
between what is to the right of it and that plus its own sums. A metric that grows with the former
and falls with the latter is largest in a corner of that rectangle; so is one that is quasi-linear
in both, such as a ratio of linear forms. So the best threshold is found by branch and bound down
the tree, exactly, and an update costs O(log n).

The two sums of a slot are positives and negatives; the first two of the owner's floats in a node
and in a chunk are the sums below it.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels import array_index as index
from streamcal.kernels._compile import helper, kernel
from streamcal.kernels.array_index import (
    CHUNK_HEAD,
    CLEAN,
    COUNTS,
    DIRTY,
    LAST,
    LEFT,
    N_FREE,
    NONE,
    PREVIOUS,
    RIGHT,
    ROOT,
    SIZE,
    SLOT,
    SLOTS,
    Data,
    Links,
)

Vector = NDArray[np.float64]

KIND, ZERO = 0, 1  # which formula; what 0/0 is, NaN where a class that is absent drops out
NUMERATOR, DENOMINATOR = 2, 6  # four coefficients each: tp, fp, fn, tn
SPEC = 10

FRACTION, AM, GMEAN, HMEAN, QMEAN, GTPPR, MCC, KAPPA, SEC = range(9)


@helper
def utility(spec: Vector, tp: float, fp: float, fn: float, tn: float) -> float:
    """Return the metric of one table."""
    kind, zero = int(spec[KIND]), spec[ZERO]
    if kind == FRACTION:
        below = spec[6] * tp + spec[7] * fp + spec[8] * fn + spec[9] * tn
        if below <= 0.0:
            return zero
        return (spec[2] * tp + spec[3] * fp + spec[4] * fn + spec[5] * tn) / below
    positive, negative = tp + fn, fp + tn
    if kind <= QMEAN:
        return mean_of_rates(kind, zero, tp, positive, tn, negative)
    chosen, rest = tp + fp, fn + tn
    if kind == GTPPR:
        if positive <= 0.0 or chosen <= 0.0:
            return zero
        return tp / (np.sqrt(positive) * np.sqrt(chosen))
    if kind == SEC:
        if positive + negative <= 0.0:
            return zero
        return -(((positive - chosen) / (positive + negative)) ** 2)
    if kind == MCC:
        below = np.sqrt(positive * negative) * np.sqrt(chosen * rest)
    else:
        below = 0.5 * (chosen * negative + positive * rest)
    if below <= 0.0:
        return zero
    return (tp * tn - fp * fn) / below


@helper
def mean_of_rates(
    kind: int, zero: float, tp: float, positive: float, tn: float, negative: float
) -> float:
    """Return the mean of the two classes' rates; a NaN ``zero`` leaves an absent class out."""
    if zero != zero and (positive <= 0.0 or negative <= 0.0):
        if positive <= 0.0 and negative <= 0.0:
            return 0.0
        rate = tn / negative if positive <= 0.0 else tp / positive
        return 1.0 - (1.0 - rate) ** 2 if kind == QMEAN else rate
    hit = tp / positive if positive > 0.0 else zero
    rejected = tn / negative if negative > 0.0 else zero
    if kind == AM:
        return 0.5 * (hit + rejected)
    if kind == GMEAN:
        return np.sqrt(hit * rejected)
    if kind == HMEAN:
        return 2.0 * hit * rejected / (hit + rejected) if hit + rejected > 0.0 else 0.0
    return 1.0 - 0.5 * ((1.0 - hit) ** 2 + (1.0 - rejected) ** 2)


POSITIVE, NEGATIVE = 1, 2  # in a slot
DONE, NEED_ROOM, UNKNOWN = range(3)


@helper
def sums_at(data: Data, links: Links, code: int) -> int:
    """Where the two sums below a child start in data."""
    if code >= 0:
        return index.node_at(code)
    return index.chunk_at(links, -1 - code)


@helper
def _fold(data: Data, links: Links, c: int) -> None:
    """Sum up the slots of a chunk anew, so that nothing drifts, and mark what is above it."""
    at = index.chunk_at(links, c)
    positive, negative = 0.0, 0.0
    for j in range(links[index.chunk_links_at(links, c) + SIZE]):
        positive += data[at + CHUNK_HEAD + SLOT * j + POSITIVE]
        negative += data[at + CHUNK_HEAD + SLOT * j + NEGATIVE]
    data[at], data[at + 1] = positive, negative
    index.mark(links, -1 - c)


@helper
def _refresh(data: Data, links: Links) -> None:
    """Sum up the nodes that are dirty, children first."""
    while links[ROOT] >= 0 and links[index.node_links_at(links[ROOT]) + DIRTY] != CLEAN:
        i = index.next_dirty(links, links[ROOT])
        node, at = index.node_links_at(i), index.node_at(i)
        left = sums_at(data, links, links[node + LEFT])
        right = sums_at(data, links, links[node + RIGHT])
        data[at] = data[left] + data[right]
        data[at + 1] = data[left + 1] + data[right + 1]
        links[node + DIRTY] = CLEAN


@kernel("int64(float64[::1], int64[::1], float64, float64, float64, int64)")
def change(data: Data, links: Links, score: float, positive: float, negative: float, n: int) -> int:
    """Add to the sums and the count of a score; a score without samples leaves. O(log n)."""
    c = index.find_chunk(data, links, score)
    slot = index.find_slot(data, links, c, score)
    if not index.holds(data, links, c, slot, score):
        if n < 0:
            return UNKNOWN
        if links[index.chunk_links_at(links, c) + SIZE] == SLOTS:
            if links[N_FREE] == 0:
                return NEED_ROOM
            other = index.make_room(data, links, c, slot, score)
            _fold(data, links, c)
            _fold(data, links, other)
            c = index.find_chunk(data, links, score)
            slot = index.find_slot(data, links, c, score)
        index.open_slot(data, links, c, slot, score)
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    counts = index.chunk_links_at(links, c) + COUNTS + slot
    links[counts] += n
    data[at + POSITIVE] = max(0.0, data[at + POSITIVE] + positive)
    data[at + NEGATIVE] = max(0.0, data[at + NEGATIVE] + negative)
    if links[counts] <= 0:
        index.close_slot(data, links, c, slot)
        c = index.settle_after_removal(data, links, c)
    if c != NONE:
        _fold(data, links, c)
    _refresh(data, links)
    return DONE


@kernel("void(float64[::1], int64[::1], float64[:, ::1])")
def walk(data: Data, links: Links, out: Vector) -> None:
    """Write score, positives and negatives of each slot, scores descending; out has a row each."""
    c, row = links[LAST], 0
    while c != NONE:
        at, size = index.chunk_at(links, c) + CHUNK_HEAD, index.chunk_links_at(links, c)
        for j in range(links[size + SIZE] - 1, -1, -1):
            for field in range(SLOT):
                out[row, field] = data[at + SLOT * j + field]
            row += 1
        c = links[size + PREVIOUS]


@helper
def _bound(
    spec: Vector, tp: float, fp: float, more_tp: float, more_fp: float, P: float, N: float
) -> float:
    """Return the most a metric can be while tp and fp grow by no more than so much."""
    if int(spec[KIND]) == SEC and tp + fp <= P <= tp + fp + more_tp + more_fp:
        return 0.0
    best = utility(spec, tp + more_tp, fp, P - tp - more_tp, N - fp)
    best = max(best, utility(spec, tp, fp, P - tp, N - fp))
    best = max(best, utility(spec, tp, fp + more_fp, P - tp, N - fp - more_fp))
    return max(best, utility(spec, tp + more_tp, fp + more_fp, P - tp - more_tp, N - fp - more_fp))


@kernel("UniTuple(float64, 2)(float64[::1], int64[::1], float64[::1])")
def best_threshold(data: Data, links: Links, spec: Vector) -> tuple[float, float]:
    """Return the best threshold (inf: nothing is labelled 1) and the metric there."""
    root = sums_at(data, links, links[ROOT])
    P, N = data[root], data[root + 1]
    threshold, best = np.inf, utility(spec, 0.0, 0.0, P, N)
    # Subtrees that are still open, with the sums to the right of each and its bound. A tree of
    # weight-balanced nodes is at most 2.5 log2(n) deep, and each level leaves one sibling behind.
    codes, open_sums = np.empty(256, np.int64), np.empty((256, 3))
    codes[0] = links[ROOT]
    open_sums[0, 0], open_sums[0, 1], open_sums[0, 2] = 0.0, 0.0, np.inf
    n = 1
    while n > 0:
        n -= 1
        if open_sums[n, 2] <= best:
            continue
        code, tp, fp = codes[n], open_sums[n, 0], open_sums[n, 1]
        if code < 0:
            c = -1 - code
            at = index.chunk_at(links, c) + CHUNK_HEAD
            for j in range(links[index.chunk_links_at(links, c) + SIZE] - 1, -1, -1):
                tp += data[at + SLOT * j + POSITIVE]
                fp += data[at + SLOT * j + NEGATIVE]
                value = utility(spec, tp, fp, max(0.0, P - tp), max(0.0, N - fp))
                if value > best:
                    threshold, best = data[at + SLOT * j], value
            continue
        node = index.node_links_at(code)
        left, right = links[node + LEFT], links[node + RIGHT]
        a, b = sums_at(data, links, left), sums_at(data, links, right)
        below = _bound(spec, tp + data[b], fp + data[b + 1], data[a], data[a + 1], P, N)
        above = _bound(spec, tp, fp, data[b], data[b + 1], P, N)
        # The more promising child goes on top.
        at_left, at_right = (n, n + 1) if below <= above else (n + 1, n)
        codes[at_left], codes[at_right] = left, right
        open_sums[at_left, 0], open_sums[at_left, 1] = tp + data[b], fp + data[b + 1]
        open_sums[at_left, 2] = below
        open_sums[at_right, 0], open_sums[at_right, 1], open_sums[at_right, 2] = tp, fp, above
        n += 2
    return threshold, best
