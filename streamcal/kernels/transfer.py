"""Taking a score index apart and building it again, tree and all.

The slots in order and the shape of the tree say all there is to know but for rounding: an edge of
the staircase is summed in the order in which it was pooled. So to the last bit it takes the sums of
the edges, and what the nodes hold, as well.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels import array_index as index
from streamcal.kernels._compile import READ, kernel
from streamcal.kernels.array_index import (
    CHUNK_HEAD,
    COUNTS,
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
UNSET = np.iinfo(np.int64).min


@kernel("void(float64[::1], int64[::1], float64[:, ::1], int64[::1])")
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


@kernel("int64(float64[::1], int64[::1], int64[::1], float64[:, ::1])")
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


@kernel(f"void(float64[::1], int64[::1], {READ_INTS}, {READ})")
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
