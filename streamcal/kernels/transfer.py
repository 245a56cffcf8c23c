"""Taking a score index apart and building it again, tree and all.

The slots in order and the shape of the tree say all there is to know but for rounding: an edge of
the staircase is summed in the order in which it was pooled. So to the last bit it takes the sums of
the edges, and what the nodes hold, as well.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels import hull
from streamcal.kernels import score_index as index
from streamcal.kernels._compile import READ, helper, kernel
from streamcal.kernels.hull import SUM, WEIGHT
from streamcal.kernels.isotonic import PENDING, STAGE, STOP
from streamcal.kernels.score_index import (
    CHUNK_HEAD,
    COUNTS,
    EDGES,
    INNER,
    N_FREE,
    NEXT,
    NONE,
    PREVIOUS,
    SIZE,
    SLOT,
    Data,
    Links,
)

READ_INTS = "Array(int64, 1, 'C', True)"
UNSET = np.iinfo(np.int32).min


@kernel("void(float64[::1], int32[::1], float64[:, ::1], int64[::1])")
def dump(data: Data, links: Links, sums: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
    """Write the slots in order: (score, W, S) a row, and how many samples each holds."""
    row = 0
    c = links[index.FIRST]
    while c != NONE:
        at, own = index.chunk_at(links, c) + CHUNK_HEAD, index.chunk_links_at(links, c)
        for i in range(links[own + SIZE]):
            for j in range(SLOT):
                sums[row, j] = data[at + SLOT * i + j]
            counts[row] = links[own + COUNTS + i]
            row += 1
        c = links[own + NEXT]


@kernel("int64(float64[::1], int32[::1], int64[::1], float64[:, ::1])")
def dump_tree(
    data: Data, links: Links, shape: NDArray[np.int64], nodes: NDArray[np.float64]
) -> int:
    """Write the tree in preorder, INNER for a node and its size for a chunk; return its length.

    What the nodes hold comes in the same order.
    """
    n, n_nodes = 0, 0
    code = int(links[index.ROOT])
    while True:
        if code >= 0:
            shape[n] = INNER
            for j in range(index.NODE):
                nodes[n_nodes, j] = data[index.node_at(code) + j]
            n_nodes += 1
            n += 1
            code = int(links[index.node_links_at(code) + index.LEFT])
            continue
        shape[n] = links[index.chunk_links_at(links, -1 - code) + SIZE]
        n += 1
        # Up to the first ancestor that this is left of, and to its right.
        i = int(links[index.parent_at(links, code)])
        while i != NONE and links[index.node_links_at(i) + index.RIGHT] == code:
            code = i
            i = int(links[index.parent_at(links, code)])
        if i == NONE:
            return n
        code = int(links[index.node_links_at(i) + index.RIGHT])


@kernel("int64(float64[::1], int32[::1], int64[::1], float64[:, ::1])")
def dump_edges(
    data: Data, links: Links, lengths: NDArray[np.int64], sums: NDArray[np.float64]
) -> int:
    """Write how many slots each edge of the chunks covers, and its (W, S); return how many."""
    n = 0
    c = links[index.FIRST]
    while c != NONE:
        own = index.chunk_links_at(links, c)
        covered = 0
        for j in range(links[own + EDGES]):
            e = hull.edge_at(links, c, j)
            last = index.find_slot(data, links, c, data[e + hull.LAST_SCORE])
            lengths[n] = last + 1 - covered
            sums[n, 0], sums[n, 1] = data[e + hull.EDGE_W], data[e + hull.EDGE_S]
            covered = last + 1
            n += 1
        c = links[own + NEXT]
    return n


@kernel(f"void(float64[::1], int32[::1], {READ_INTS}, {READ})")
def build_tree(data: Data, links: Links, shape: NDArray[np.int64], keys: Data) -> None:
    """Give a cleared index the tree of `dump_tree`, which must be one, with chunks still empty."""
    n_keys, last = 0, NONE
    parent = NONE
    links[index.FREE_CHUNK] = NONE
    links[index.FREE_NODE] = NONE
    links[N_FREE] = 0
    index.release(links, 0, links[index.CAPACITY])
    for n in range(len(shape)):
        if shape[n] == INNER:
            code = index.take_node(links)
            at = index.node_links_at(code)
            links[at + index.LEFT] = links[at + index.RIGHT] = UNSET
            links[at + index.LEAVES] = 0
            links[at + index.DIRTY] = index.NEW
            data[index.node_at(code) + index.NODE_KEY] = keys[n_keys]
            n_keys += 1
        else:
            c = index.take_chunk(links)
            code = -1 - c
            at = index.chunk_links_at(links, c)
            links[at + PREVIOUS], links[at + NEXT] = last, NONE
            if last == NONE:
                links[index.FIRST] = c
            else:
                links[index.chunk_links_at(links, last) + NEXT] = c
            last = c
        links[index.parent_at(links, code)] = parent
        if parent == NONE:
            links[index.ROOT] = code
        elif links[index.node_links_at(parent) + index.LEFT] == UNSET:
            links[index.node_links_at(parent) + index.LEFT] = code
        else:
            links[index.node_links_at(parent) + index.RIGHT] = code
        if code >= 0:
            parent = code
            continue
        i = parent
        while i != NONE:
            links[index.node_links_at(i) + index.LEAVES] += 1
            i = links[index.node_links_at(i) + index.PARENT]
        while parent != NONE and links[index.node_links_at(parent) + index.RIGHT] != UNSET:
            parent = links[index.node_links_at(parent) + index.PARENT]
    links[index.LAST] = last


@helper
def _append_slot(data: Data, links: Links, c: int, slot_sums: Data, count: int) -> None:
    slot = links[index.chunk_links_at(links, c) + SIZE]
    index.open_slot(data, links, c, slot, slot_sums[0])
    at = index.chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    data[at + WEIGHT], data[at + SUM] = slot_sums[1], slot_sums[2]
    links[index.chunk_links_at(links, c) + COUNTS + slot] = count


@kernel(f"void(float64[::1], int32[::1], {READ_INTS}, float64[:, ::1], int64[::1])")
def fill_tree(
    data: Data,
    links: Links,
    sizes: NDArray[np.int64],
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> None:
    """Fill the empty chunks of a tree with sorted slots; folding is left pending."""
    row = 0
    c = links[index.FIRST]
    for size in sizes:
        for _ in range(size):
            _append_slot(data, links, c, sums[row], counts[row])
            row += 1
        c = links[index.chunk_links_at(links, c) + NEXT]
    links[PENDING], links[STOP] = links[index.FIRST], NONE
    links[STAGE] = 2


@kernel(f"void(float64[::1], int32[::1], {READ_INTS}, float64[:, ::1], float64[:, ::1])")
def fill_edges(
    data: Data,
    links: Links,
    lengths: NDArray[np.int64],
    sums: NDArray[np.float64],
    nodes: NDArray[np.float64],
) -> None:
    """Give a filled tree the edges and nodes that `dump_edges` and `dump_tree` wrote, unfolded."""
    n = 0
    c = links[index.FIRST]
    while c != NONE:
        own, slots = index.chunk_links_at(links, c), index.chunk_at(links, c) + CHUNK_HEAD
        covered, n_edges = 0, 0
        while covered < links[own + SIZE]:
            e = hull.edge_at(links, c, n_edges)
            data[e + hull.FIRST_SCORE] = data[slots + SLOT * covered]
            covered += lengths[n]
            data[e + hull.LAST_SCORE] = data[slots + SLOT * (covered - 1)]
            data[e + hull.EDGE_W], data[e + hull.EDGE_S] = sums[n, 0], sums[n, 1]
            n_edges += 1
            n += 1
        hull.sum_edges(data, links, c, n_edges)
        c = links[own + NEXT]
    # In preorder the left child follows its parent, so a node's row is how many came before it.
    row = 0
    code = int(links[index.ROOT])
    while code >= 0:
        at = index.node_at(code)
        for j in range(index.NODE):
            data[at + j] = nodes[row, j]
        links[index.node_links_at(code) + index.DIRTY] = index.CLEAN
        row += 1
        below = int(links[index.node_links_at(code) + index.LEFT])
        while below < 0:
            # A chunk: up to the first ancestor that this is left of, and to its right.
            i = int(links[index.parent_at(links, below)])
            while i != NONE and links[index.node_links_at(i) + index.RIGHT] == below:
                below = i
                i = int(links[index.parent_at(links, below)])
            if i == NONE:
                code = NONE
                break
            below = int(links[index.node_links_at(i) + index.RIGHT])
        if code != NONE:
            code = below
    links[PENDING], links[STAGE] = NONE, 0
