"""What the bytes of a score index hold: slots in order and the shape of the tree, and checks."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal._state import require
from streamcal._validation import MOST_SAMPLES
from streamcal.kernels.hull import EDGE
from streamcal.kernels.score_index import (
    CAPACITY,
    CHUNK,
    CHUNK_HEAD,
    INNER,
    N_FREE,
    NODE,
    NODE_KEY,
    SLOT,
    SLOTS,
)


class Tree(NamedTuple):
    """The shape of a tree over chunks in preorder, INNER or a chunk's size, and its nodes' keys."""

    shape: NDArray[np.int64]
    keys: NDArray[np.float64]


def balanced(scores: NDArray[np.float64], fill: int) -> Tree:
    """Return a balanced tree over sorted scores, about ``fill`` of them to a chunk.

    Examples
    --------
    >>> balanced(np.arange(5.0), 2)
    Tree(shape=array([-1,  1, -1,  2,  2]), keys=array([1., 3.]))
    """
    n_chunks = max(1, -(-len(scores) // fill))
    bounds = np.arange(n_chunks + 1) * len(scores) // n_chunks
    shape: list[int] = []
    keys: list[float] = []
    waiting = [(0, n_chunks)]
    while waiting:
        start, stop = waiting.pop()
        if stop - start == 1:
            shape.append(int(bounds[stop] - bounds[start]))
            continue
        middle = (start + stop) // 2
        shape.append(INNER)
        keys.append(float(scores[bounds[middle]]))
        waiting += [(middle, stop), (start, middle)]
    return Tree(np.array(shape, np.int64), np.array(keys, np.float64))


def read_tree(
    data: NDArray[np.float64], links: NDArray[np.int64]
) -> tuple[Tree, NDArray[np.float64]]:
    """Return the tree of an index, and all that its nodes hold, a row each."""
    from streamcal.kernels import transfer

    n_chunks = int(links[CAPACITY] - links[N_FREE])
    shape, nodes = np.empty(2 * n_chunks - 1, np.int64), np.empty((n_chunks - 1, NODE))
    transfer.dump_tree(data, links, shape, nodes)
    return Tree(shape, nodes[:, NODE_KEY].copy()), nodes


def check_edges(tree: Tree, lengths: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Raise unless these are edges that cover the chunks of a tree and have room in them."""
    require(lengths.shape == (len(lengths),) and sums.shape == (len(lengths), 2), "shapes differ")
    require(lengths.dtype == np.int64 and sums.dtype == np.float64, "edges must be numbers")
    require((lengths > 0).all() and (lengths <= SLOTS).all(), "an edge must cover slots")
    require(np.isfinite(sums).all() and (sums[:, 0] > 0.0).all(), "edges must have weight")
    sizes = tree.shape[tree.shape != INNER]
    ends, starts = np.cumsum(lengths), np.cumsum(sizes) - sizes
    bounds = np.append(starts[1:], sizes.sum())
    require(np.isin(bounds[bounds > 0], ends).all(), "edges must cover chunks")
    require(lengths.sum() == sizes.sum(), "edges must cover all slots")
    n_edges = np.bincount(np.searchsorted(starts, ends) - 1, minlength=len(starts))
    room = (CHUNK - CHUNK_HEAD - SLOT * sizes) // EDGE
    require((n_edges <= room).all(), "edges must have room")


def check_slots(
    scores: NDArray[np.float64],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    growth: float,
) -> None:
    """Raise unless these are slots of a score index; ``sums`` has a column for each score."""
    n = len(scores)
    require(scores.shape == counts.shape == (n,) and sums.shape[1:] == (n,), "shapes differ")
    require(scores.dtype == sums.dtype == np.float64, "scores must be floats")
    require(counts.dtype == np.int64, "counts must be integers")
    require(np.isfinite(scores).all() and np.isfinite(sums).all(), "sums must be finite")
    require((np.diff(scores) > 0).all(), "scores must increase")
    require((counts > 0).all(), "counts must be positive")
    require(counts.sum(dtype=np.float64) <= MOST_SAMPLES, "there must be at most 2**53 samples")
    require(0 < growth < math.inf, "growth must be positive")


def check_tree(tree: Tree, scores: NDArray[np.float64]) -> None:
    """Raise unless a tree in preorder is whole and its keys part the scores of its chunks."""
    shape, keys = tree
    require(shape.ndim == 1 and shape.dtype == np.int64, "the tree must be a list of sizes")
    require(keys.ndim == 1 and keys.dtype == np.float64, "the keys must be floats")
    require(len(shape) == 2 * len(keys) + 1, "the tree must have one key per node")
    require(((shape == INNER) | (shape >= 0)).all(), "sizes must not be negative")
    require(bool((shape <= SLOTS).all()), f"a chunk must hold at most {SLOTS} scores")
    require(int(shape[shape != INNER].sum()) == len(scores), "sizes must add up")
    require(len(shape) == 1 or bool((shape != 0).all()), "a chunk must not be empty")
    # In preorder each subtree is a run; what is open are right siblings with their lower bounds.
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
            require(len(waiting) < 200, "the tree must be balanced")
        elif size:
            require(low <= scores[row] and scores[row + size - 1] < high, "keys must part scores")
            row += size
    require(not waiting, "the tree must be whole")


def check_queue(queue: NDArray[np.float64], window: int | None) -> None:
    """Raise unless these can be the samples of a window."""
    require(queue.shape == (len(queue), 3) and queue.dtype == np.float64, "the queue has 3 columns")
    require(len(queue) <= (window or 0), "the queue must fit the window")
    require(np.isfinite(queue).all(), "the queue must be finite")
