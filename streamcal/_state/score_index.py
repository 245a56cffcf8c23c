"""Reading the state of a score index: its slots in order, the shape of its tree, its window."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state.checks import Arrays, are_in, array_of, require
from streamcal._validation import MOST_COUNT
from streamcal.kernels.score_index import DELTA, INNER, SLOTS

MOST_WEIGHT = 1e120
"""Of the samples that a state holds at one score; products of such sums are finite."""


class Tree(NamedTuple):
    """The shape of a tree over chunks in preorder, INNER or a chunk's size, and its nodes' keys."""

    shape: NDArray[np.int64]
    keys: NDArray[np.float64]


class IndexState(NamedTuple):
    """What the states of all score indexes hold, checked by `read_index`.

    The queue has the samples of the window, three numbers per row: the score, the weight, which is
    0 for a sample that was taken back, and a third.
    """

    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    tree: Tree
    queue: NDArray[np.float64]


def read_index(arrays: Arrays, sums: NDArray[np.float64], window: int | None) -> IndexState:
    """Return the slots, the tree and the window in a state; ``sums`` has a column for each score.

    Raises
    ------
    ValueError
        If they are not possible. What sums and queue hold is for the caller to check.
    """
    scores = array_of(arrays, "scores", None)
    counts = array_of(arrays, "counts", None, dtype=np.int64)
    shape = array_of(arrays, "shape", None, dtype=np.int64)
    tree = Tree(shape, array_of(arrays, "keys", None))
    queue = array_of(arrays, "queue", None, 3)
    require(len(queue) <= (window or 0), "the queue must fit the window")
    _check_slots(scores, sums, counts)
    _check_tree(tree, scores)
    return IndexState(scores, counts, tree, queue)


def check_edges(tree: Tree, lengths: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Raise unless these are edges that cover the chunks of a tree."""
    require(len(lengths) == len(sums), "each edge must have sums")
    require(((lengths > 0) & (lengths <= SLOTS)).all(), "an edge must cover slots")
    require((sums[:, 0] > 0.0).all(), "edges must have weight")
    sizes = tree.shape[tree.shape != INNER]
    ends, starts = np.cumsum(lengths), np.cumsum(sizes) - sizes
    bounds = np.append(starts[1:], sizes.sum())
    require(lengths.sum() == sizes.sum(), "edges must cover all slots")
    require(are_in(bounds[bounds > 0], ends).all(), "edges must cover chunks")


def check_hulls(
    tree: Tree, slots: NDArray[np.float64], lengths: NDArray[np.int64], edges: NDArray[np.float64]
) -> None:
    """Raise unless pooling the slots of each chunk gives these edges, up to rounding.

    ``slots`` and ``edges`` are their sums (W, S), a row each; see `check_edges` for the rest.
    """
    if not len(lengths):
        return
    starts = np.cumsum(lengths) - lengths
    (w, s), (edge_w, edge_s) = slots.T, edges.T
    size = np.add.reduceat(np.abs(s), starts)
    require(
        (np.abs(np.add.reduceat(w, starts) - edge_w) <= 5e-13 * edge_w).all()
        and (np.abs(np.add.reduceat(s, starts) - edge_s) <= 5e-13 * size).all(),
        "edges must have the sums of their slots",
    )
    # Slopes increase from edge to edge of a chunk; pooling compares the same products.
    sizes = tree.shape[tree.shape != INNER]
    inside = ~are_in(starts[1:], np.cumsum(sizes))
    rises = edge_s[1:] * edge_w[:-1] > edge_s[:-1] * edge_w[1:]
    require((rises | ~inside).all(), "edges must rise")
    # Within an edge no first slots have a mean below that of all, or they would not be pooled. In
    # parts of the edge's size, so that one running sum over all edges keeps their digits. A mean
    # may have too few digits for this: 1e-257 / 1e60 is a subnormal number.
    scale = size + np.abs(edge_s)
    scale[scale == 0.0] = 1.0
    of_edge = np.repeat(np.arange(len(lengths)), lengths)
    above = s / scale[of_edge] - (edge_s / scale)[of_edge] * (w / edge_w[of_edge])
    run = np.cumsum(above)
    before = (run[starts] - above[starts])[of_edge]
    # Each product that is compared may be off by the least subnormal number.
    least = np.minimum.reduceat(w, starts)
    lost = SLOTS * np.finfo(np.float64).smallest_subnormal / least / least * edge_w / scale
    require(
        (run - before >= -1e-9 - lost[of_edge]).all(),
        "edges must consist of slots that violate the order",
    )


def _check_slots(
    scores: NDArray[np.float64], sums: NDArray[np.float64], counts: NDArray[np.int64]
) -> None:
    """Raise unless these are slots of a score index; ``sums`` has a column for each score."""
    require(len(counts) == len(scores) == sums.shape[1], "each score must have sums and a count")
    require((np.diff(scores) > 0.0).all(), "scores must increase")
    require((counts > 0).all(), "counts must be positive")
    require(counts.sum(dtype=np.float64) <= MOST_COUNT, "there must be at most 2**53 samples")


def _check_tree(tree: Tree, scores: NDArray[np.float64]) -> None:
    """Raise unless a tree in preorder is complete and balanced, and its keys divide the scores."""
    shape, keys = tree
    require(len(shape) == 2 * len(keys) + 1, "the tree must have one key per node")
    require(((shape == INNER) | (shape >= 0)).all(), "sizes must not be negative")
    require(bool((shape <= SLOTS).all()), f"a chunk must hold at most {SLOTS} scores")
    require(int(shape[shape != INNER].sum()) == len(scores), "sizes must add up")
    require(len(shape) == 1 or bool((shape != 0).all()), "a chunk must not be empty")
    # In preorder each subtree is a run; `open` has right siblings with their lower bounds.
    row, n_keys = 0, 0
    waiting = [(-math.inf, math.inf)]
    for size in shape.tolist():
        require(waiting, "the tree must end with its last chunk")
        low, high = waiting.pop()
        if size == INNER:
            key = float(keys[n_keys])
            require(low < key < high, "keys must be in order")
            n_keys += 1
            waiting += [(key, high), (low, key)]
        elif size:
            require(
                low <= scores[row] and scores[row + size - 1] < high, "keys must separate scores"
            )
            row += size
    require(not waiting, "the tree must be complete")
    # Kernels walk trees with stacks that are long enough for balanced ones. Backwards, the children
    # of a node are counted before the node: the left one last.
    leaves: list[int] = []
    for size in reversed(shape.tolist()):
        if size != INNER:
            leaves.append(1)
            continue
        left, right = leaves.pop(), leaves.pop()
        require(max(left, right) <= DELTA * min(left, right), "the tree must be balanced")
        leaves.append(left + right)


def check_held(
    queue: NDArray[np.float64], scores: NDArray[np.float64], counts: NDArray[np.int64]
) -> None:
    """Raise unless the slots hold exactly the samples of the window."""
    require(are_in(queue, scores).all(), "the window must hold scores of the index")
    n_held = np.bincount(np.searchsorted(scores, queue), minlength=len(scores))
    require((n_held <= counts).all(), "counts must be those of the window")
