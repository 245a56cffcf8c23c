"""An ordered index of distinct scores: chunks of sorted slots under a weight-balanced tree.

The same structure as `streamcal.kernels.score_index`, on NumPy arrays, for the kernels that are
still on numba: `streamcal.kernels.prefix_extrema` folds up what ordinal thresholds need, and
`streamcal.kernels.confusion_index` what decisions need.

Slots. A distinct score takes one slot of `SLOT` floats: the score and two floats of the owner, such
as the sums of what was learned at it. Up to `SLOTS` slots lie side by side in a *chunk*, sorted.
Each slot also counts its samples, because a sum of floats from which everything was taken back need
not be 0.

Tree. Chunks are the leaves of a binary tree kept in balance by rotations (Adams 1993, "Efficient
sets: a balancing act": no child outweighs its sibling more than `DELTA` times, weights counted in
leaves). An internal node has a *key*: scores at or above it live on the right. A full chunk first
evens out with a neighbour that has room, and splits in two otherwise; an emptied chunk leaves the
tree, a sparse one joins a neighbour.

Memory. Two arrays hold everything, so that a call from Python passes two: ``data`` (float64) and
``links`` (int64), both one-dimensional::

    data   = [ HEAD floats of the owner | capacity x NODE | capacity x CHUNK ]
    links  = [ META                     | capacity x NODE_LINKS | capacity x CHUNK_LINKS ]

A *code* names a child: node ``i`` is ``i``, chunk ``c`` is ``-1 - c``. Freed nodes and chunks are
chained through their first link. Offsets of single fields are the constants below.

Summaries. Whatever changes below a node marks it and all its ancestors as dirty; the owner of the
summaries refolds dirty nodes, children first. The end of each chunk (`CHUNK_TAIL` floats and more,
as far as slots leave room) is the owner's too. Summaries whose size is not known here stand in a
matrix of the owner's own, with a row for each node and each chunk.
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels._compile import helper, kernel

Data = NDArray[np.float64]
Links = NDArray[np.int64]

SLOT = 3  # score, and what the owner keeps of it
SLOTS = 128  # slots in a chunk at most
DELTA, GAMMA = (
    3,
    2,
)  # balance and rotation parameters; this pair is proven valid (Hirai 2011)

HEAD = 16
NODE = 24
NODE_KEY = 8  # the first eight floats, a cache line, are the owner's; so is what follows the key
CHUNK_HEAD = 2  # owner's totals of a chunk, before the slots
CHUNK_TAIL = 62  # owner's own room behind the last slot
CHUNK = CHUNK_HEAD + SLOT * SLOTS + CHUNK_TAIL

META, OWN_META = 16, 8  # words, and from where on they are the owner's
CAPACITY, ROOT, FREE_NODE, FREE_CHUNK, N_FREE, N_SCORES, FIRST, LAST = range(8)

NODE_LINKS = 5
LEFT, RIGHT, PARENT, LEAVES, DIRTY = range(NODE_LINKS)
CLEAN, LEFT_DIRTY, RIGHT_DIRTY, NEW = 0, 1, 2, 4  # what DIRTY adds up from

CHUNK_LINKS = 5 + SLOTS
CHUNK_PARENT, PREVIOUS, NEXT, SIZE, EDGES = range(5)
COUNTS = 5

NONE = -1
INNER = -1  # a node in the shape of a tree in preorder, where a chunk is its size


@helper
def node_at(i: int) -> int:
    """Where node ``i`` starts in data."""
    return HEAD + NODE * i


@helper
def node_links_at(i: int) -> int:
    """Where node ``i`` starts in links."""
    return META + NODE_LINKS * i


@helper
def chunk_at(links: Links, c: int) -> int:
    """Where chunk ``c`` starts in data."""
    return HEAD + NODE * links[CAPACITY] + CHUNK * c


@helper
def chunk_links_at(links: Links, c: int) -> int:
    """Where chunk ``c`` starts in links."""
    return META + NODE_LINKS * links[CAPACITY] + CHUNK_LINKS * c


@helper
def parent_at(links: Links, code: int) -> int:
    """Where the parent of a child is written in links."""
    if code >= 0:
        return node_links_at(code) + PARENT
    return chunk_links_at(links, -1 - code) + CHUNK_PARENT


@helper
def leaves_of(links: Links, code: int) -> int:
    """Return how many chunks lie below a child."""
    if code >= 0:
        return links[node_links_at(code) + LEAVES]
    return 1


# ------------------------------------------------------------------------------ storage


def allocate(capacity: int) -> tuple[Data, Links]:
    """Return the arrays of an index of ``capacity`` chunks, to be cleared or moved into."""
    return (
        np.zeros(HEAD + capacity * (NODE + CHUNK)),
        np.zeros(META + capacity * (NODE_LINKS + CHUNK_LINKS), np.int64),
    )


@helper
def release(links: Links, start: int, stop: int) -> None:
    """Put nodes and chunks ``start`` to ``stop - 1`` on the free lists, lowest on top."""
    for i in range(stop - 1, start - 1, -1):
        links[node_links_at(i)] = links[FREE_NODE]
        links[FREE_NODE] = i
        _free_chunk(links, i)


@helper
def take_node(links: Links) -> int:
    """Take a node from the free list; there is one for every free chunk."""
    i = links[FREE_NODE]
    links[FREE_NODE] = links[node_links_at(i)]
    return i


@helper
def take_chunk(links: Links) -> int:
    """Take a chunk from the free list, empty."""
    c = links[FREE_CHUNK]
    at = chunk_links_at(links, c)
    links[FREE_CHUNK] = links[at]
    links[N_FREE] -= 1
    links[at + SIZE] = 0
    links[at + EDGES] = 0
    return c


@helper
def _free_chunk(links: Links, c: int) -> None:
    links[chunk_links_at(links, c)] = links[FREE_CHUNK]
    links[FREE_CHUNK] = c
    links[N_FREE] += 1


@kernel("void(float64[::1], int64[::1], int64)")
def clear(data: Data, links: Links, capacity: int) -> None:
    """Make an empty index: one empty chunk as the root, all else free."""
    links[CAPACITY] = capacity
    links[N_SCORES] = 0
    links[FREE_NODE] = NONE
    links[FREE_CHUNK] = NONE
    links[N_FREE] = 0
    release(links, 0, capacity)
    root = take_chunk(links)
    links[chunk_links_at(links, root) + CHUNK_PARENT] = NONE
    links[chunk_links_at(links, root) + PREVIOUS] = NONE
    links[chunk_links_at(links, root) + NEXT] = NONE
    links[ROOT] = -1 - root
    links[FIRST] = root
    links[LAST] = root


@kernel("void(float64[::1], int64[::1], float64[::1], int64[::1], int64)")
def move(data: Data, links: Links, new_data: Data, new_links: Links, capacity: int) -> None:
    """Copy an index into larger arrays; codes keep their meaning."""
    old = links[CAPACITY]
    # Plain loops: slices of arrays would take numba seconds to compile.
    for i in range(META + NODE_LINKS * old):
        new_links[i] = links[i]
    new_links[CAPACITY] = capacity
    by = NODE_LINKS * (capacity - old)
    for i in range(META + NODE_LINKS * old, META + (NODE_LINKS + CHUNK_LINKS) * old):
        new_links[i + by] = links[i]
    for i in range(HEAD + NODE * old):
        new_data[i] = data[i]
    by = NODE * (capacity - old)
    for i in range(HEAD + NODE * old, HEAD + (NODE + CHUNK) * old):
        new_data[i + by] = data[i]
    release(new_links, old, capacity)


# ------------------------------------------------------------------------------ finding


@helper
def find_chunk(data: Data, links: Links, score: float) -> int:
    """Return the chunk whose range of keys holds ``score``; O(log n)."""
    code = links[ROOT]
    while code >= 0:
        side = RIGHT if score >= data[node_at(code) + NODE_KEY] else LEFT
        code = links[node_links_at(code) + side]
    return -1 - code


@helper
def find_slot(data: Data, links: Links, c: int, score: float) -> int:
    """Return the first slot of a chunk whose score is at least ``score``."""
    at = chunk_at(links, c) + CHUNK_HEAD
    low, high = 0, links[chunk_links_at(links, c) + SIZE]
    while low < high:
        middle = (low + high) >> 1
        if data[at + SLOT * middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def holds(data: Data, links: Links, c: int, slot: int, score: float) -> bool:
    """Return whether ``slot`` of a chunk is taken by ``score``."""
    if slot >= links[chunk_links_at(links, c) + SIZE]:
        return False
    return data[chunk_at(links, c) + CHUNK_HEAD + SLOT * slot] == score


# ------------------------------------------------------------------------------ marking


@helper
def mark(links: Links, code: int) -> None:
    """Mark the ancestors of a child as dirty on its side."""
    i = links[parent_at(links, code)]
    while i != NONE:
        node = node_links_at(i)
        bit = LEFT_DIRTY if links[node + LEFT] == code else RIGHT_DIRTY
        if links[node + DIRTY] & bit:
            return
        links[node + DIRTY] |= bit
        code = i
        i = links[node + PARENT]


@helper
def next_dirty(links: Links, i: int) -> int:
    """Return the first dirty node at or below ``i`` whose children are clean."""
    while True:
        left = links[node_links_at(i) + LEFT]
        if left >= 0 and links[node_links_at(left) + DIRTY] != CLEAN:
            i = left
            continue
        right = links[node_links_at(i) + RIGHT]
        if right >= 0 and links[node_links_at(right) + DIRTY] != CLEAN:
            i = right
            continue
        return i


# ------------------------------------------------------------------------------ slots


@helper
def shift_slots(data: Data, links: Links, c: int, slot: int, by: int) -> None:
    """Move the slots from ``slot`` on by ``by`` places; the chunk's size changes with them."""
    at, counts = chunk_at(links, c) + CHUNK_HEAD, chunk_links_at(links, c) + COUNTS
    size = links[chunk_links_at(links, c) + SIZE]
    if by > 0:
        for j in range(SLOT * size - 1, SLOT * slot - 1, -1):
            data[at + j + SLOT * by] = data[at + j]
        for j in range(size - 1, slot - 1, -1):
            links[counts + j + by] = links[counts + j]
    else:
        for j in range(SLOT * slot, SLOT * size):
            data[at + j + SLOT * by] = data[at + j]
        for j in range(slot, size):
            links[counts + j + by] = links[counts + j]
    links[chunk_links_at(links, c) + SIZE] = size + by


@helper
def copy_slots(data: Data, links: Links, c: int, slot: int, n: int, to: int, place: int) -> None:
    """Copy ``n`` slots of one chunk over the slots of another, from ``place`` on."""
    source, target = chunk_at(links, c) + CHUNK_HEAD, chunk_at(links, to) + CHUNK_HEAD
    for j in range(SLOT * n):
        data[target + SLOT * place + j] = data[source + SLOT * slot + j]
    source, target = (
        chunk_links_at(links, c) + COUNTS,
        chunk_links_at(links, to) + COUNTS,
    )
    for j in range(n):
        links[target + place + j] = links[source + slot + j]


@helper
def open_slot(data: Data, links: Links, c: int, slot: int, score: float) -> None:
    """Insert an empty slot for ``score``; the chunk must have room for it."""
    shift_slots(data, links, c, slot, 1)
    at = chunk_at(links, c) + CHUNK_HEAD + SLOT * slot
    data[at] = score
    for j in range(1, SLOT):
        data[at + j] = 0.0
    links[chunk_links_at(links, c) + COUNTS + slot] = 0
    links[N_SCORES] += 1


@helper
def close_slot(data: Data, links: Links, c: int, slot: int) -> None:
    """Remove a slot."""
    shift_slots(data, links, c, slot + 1, -1)
    links[N_SCORES] -= 1


# ------------------------------------------------------------------------------ chunks


@helper
def make_room(data: Data, links: Links, c: int, slot: int, score: float) -> int:
    """Relieve a full chunk before ``score`` enters it at ``slot``; takes one free chunk at most.

    Returns the neighbour whose slots changed as well. A run of ascending or descending scores
    starts a fresh chunk at its end instead of leaving half-full ones behind.
    """
    at = chunk_links_at(links, c)
    size, before, after = links[at + SIZE], links[at + PREVIOUS], links[at + NEXT]
    if slot == size and after == NONE:
        return append_chunk(data, links, score)
    if slot == 0 and before == NONE:
        return split(data, links, c, 0)
    n_before = SLOTS if before == NONE else links[chunk_links_at(links, before) + SIZE]
    n_after = SLOTS if after == NONE else links[chunk_links_at(links, after) + SIZE]
    if size < SLOTS or min(n_before, n_after) > SLOTS * 3 // 4:
        return split(data, links, c, size // 2)
    if n_before < n_after:
        n = (size - n_before) // 2
        copy_slots(data, links, c, 0, n, before, n_before)
        links[chunk_links_at(links, before) + SIZE] = n_before + n
        shift_slots(data, links, c, n, -n)
        _set_key_behind(data, links, before, data[chunk_at(links, c) + CHUNK_HEAD])
        mark(links, -1 - before)
        return before
    n = (size - n_after) // 2
    shift_slots(data, links, after, 0, n)
    copy_slots(data, links, c, size - n, n, after, 0)
    links[at + SIZE] = size - n
    _set_key_behind(data, links, c, data[chunk_at(links, after) + CHUNK_HEAD])
    mark(links, -1 - after)
    return after


@helper
def split(data: Data, links: Links, c: int, slot: int) -> int:
    """Move the slots from ``slot`` on into a new chunk behind ``c``; return the new chunk."""
    size = links[chunk_links_at(links, c) + SIZE]
    new = take_chunk(links)
    copy_slots(data, links, c, slot, size - slot, new, 0)
    links[chunk_links_at(links, new) + SIZE] = size - slot
    links[chunk_links_at(links, c) + SIZE] = slot
    add_leaf(data, links, c, new, data[chunk_at(links, new) + CHUNK_HEAD])
    return new


@helper
def append_chunk(data: Data, links: Links, key: float) -> int:
    """Add an empty chunk behind the last one, for scores from ``key`` on; return it."""
    new = take_chunk(links)
    add_leaf(data, links, links[LAST], new, key)
    return new


@helper
def _set_key_behind(data: Data, links: Links, c: int, key: float) -> None:
    """Set the key that separates a chunk from the next one."""
    code = -1 - c
    i = links[parent_at(links, code)]
    while links[node_links_at(i) + LEFT] != code:
        code = i
        i = links[parent_at(links, code)]
    data[node_at(i) + NODE_KEY] = key


@helper
def settle_after_removal(data: Data, links: Links, c: int) -> int:
    """Unhook a chunk that became empty, or join one that became sparse to a neighbour.

    Returns the chunk that holds the slots now (it needs folding), or NONE where there are none.
    """
    at = chunk_links_at(links, c)
    size, before, after = links[at + SIZE], links[at + PREVIOUS], links[at + NEXT]
    if before == NONE and after == NONE:
        return c
    if size == 0:
        remove_leaf(links, c)
        return NONE
    if size >= SLOTS // 4:
        return c
    if before != NONE and _fit_together(links, before, c):
        return _join(data, links, before, c)
    if after != NONE and _fit_together(links, c, after):
        return _join(data, links, c, after)
    return c


@helper
def _fit_together(links: Links, c: int, after: int) -> bool:
    """Return whether two chunks fill at most five eighths of one, their owner's room included."""
    a, b = chunk_links_at(links, c), chunk_links_at(links, after)
    slots = links[a + SIZE] + links[b + SIZE]
    edges = links[a + EDGES] + links[b + EDGES]
    return slots <= SLOTS * 5 // 8 and edges <= slots // 4 + 4


@helper
def _join(data: Data, links: Links, c: int, after: int) -> int:
    """Move the slots of ``after`` behind those of ``c`` and unhook it; return ``c``."""
    at = chunk_links_at(links, c)
    n, n_after = links[at + SIZE], links[chunk_links_at(links, after) + SIZE]
    copy_slots(data, links, after, 0, n_after, c, n)
    links[at + SIZE] = n + n_after
    parent = links[parent_at(links, -1 - after)]
    if links[node_links_at(parent) + LEFT] == -1 - after:
        # Its sibling, on the right, would inherit its range of scores.
        _set_key_behind(data, links, c, data[node_at(parent) + NODE_KEY])
    remove_leaf(links, after)
    mark(links, -1 - c)
    return c


# ------------------------------------------------------------------------------ tree


@helper
def add_leaf(data: Data, links: Links, c: int, new: int, key: float) -> None:
    """Hook chunk ``new`` in right behind chunk ``c``; scores from ``key`` on belong to it."""
    at, at_new = chunk_links_at(links, c), chunk_links_at(links, new)
    after = links[at + NEXT]
    links[at_new + PREVIOUS], links[at_new + NEXT], links[at + NEXT] = c, after, new
    if after == NONE:
        links[LAST] = new
    else:
        links[chunk_links_at(links, after) + PREVIOUS] = new

    i = take_node(links)
    node = node_links_at(i)
    parent = links[at + CHUNK_PARENT]
    links[node + LEFT], links[node + RIGHT] = -1 - c, -1 - new
    links[node + PARENT], links[node + LEAVES], links[node + DIRTY] = parent, 2, NEW
    data[node_at(i) + NODE_KEY] = key
    links[at + CHUNK_PARENT] = i
    links[at_new + CHUNK_PARENT] = i
    _replace_child(links, parent, -1 - c, i)
    mark(links, i)
    _rebalance(links, parent)


@helper
def remove_leaf(links: Links, c: int) -> None:
    """Unhook chunk ``c``, which must not be the only one, and free it with its parent."""
    at = chunk_links_at(links, c)
    before, after, i = (
        links[at + PREVIOUS],
        links[at + NEXT],
        links[at + CHUNK_PARENT],
    )
    if before == NONE:
        links[FIRST] = after
    else:
        links[chunk_links_at(links, before) + NEXT] = after
    if after == NONE:
        links[LAST] = before
    else:
        links[chunk_links_at(links, after) + PREVIOUS] = before

    node = node_links_at(i)
    sibling = links[node + LEFT] if links[node + RIGHT] == -1 - c else links[node + RIGHT]
    parent = links[node + PARENT]
    _replace_child(links, parent, i, sibling)
    links[parent_at(links, sibling)] = parent
    links[node] = links[FREE_NODE]
    links[FREE_NODE] = i
    _free_chunk(links, c)
    mark(links, sibling)
    _rebalance(links, parent)


@helper
def _replace_child(links: Links, i: int, old: int, new: int) -> None:
    """Put ``new`` where node ``i`` (the index itself when NONE) had the child ``old``."""
    if i == NONE:
        links[ROOT] = new
    elif links[node_links_at(i) + LEFT] == old:
        links[node_links_at(i) + LEFT] = new
    else:
        links[node_links_at(i) + RIGHT] = new


@helper
def _rebalance(links: Links, i: int) -> None:
    """Restore leaf counts and balance from node ``i`` up to the root."""
    while i != NONE:
        node = node_links_at(i)
        left, right = links[node + LEFT], links[node + RIGHT]
        n_left, n_right = leaves_of(links, left), leaves_of(links, right)
        links[node + LEAVES] = n_left + n_right
        if n_right > DELTA * n_left:
            inner, outer = (
                links[node_links_at(right) + LEFT],
                links[node_links_at(right) + RIGHT],
            )
            if leaves_of(links, inner) >= GAMMA * leaves_of(links, outer):
                _rotate(links, right, RIGHT)
            i = _rotate(links, i, LEFT)
        elif n_left > DELTA * n_right:
            outer, inner = (
                links[node_links_at(left) + LEFT],
                links[node_links_at(left) + RIGHT],
            )
            if leaves_of(links, inner) >= GAMMA * leaves_of(links, outer):
                _rotate(links, left, LEFT)
            i = _rotate(links, i, RIGHT)
        i = links[node_links_at(i) + PARENT]


@helper
def _rotate(links: Links, i: int, side: int) -> int:
    """Turn node ``i`` down to ``side``; its other child takes its place and is returned."""
    other = RIGHT + LEFT - side
    node = node_links_at(i)
    top = links[node + other]
    above = node_links_at(top)
    inner = links[above + side]
    parent = links[node + PARENT]

    links[node + other] = inner
    links[parent_at(links, inner)] = i
    links[above + side] = i
    links[node + PARENT] = top
    links[above + PARENT] = parent
    _replace_child(links, parent, i, top)

    links[above + LEAVES] = links[node + LEAVES]
    links[node + LEAVES] = leaves_of(links, links[node + LEFT]) + leaves_of(
        links, links[node + RIGHT]
    )
    links[node + DIRTY] |= NEW
    links[above + DIRTY] |= NEW
    return top
