"""The isotonic staircase as a lower hull, folded up the tree of a score index.

Plot the cumulative-sum diagram of the scores in order: from (0, 0), each score adds the vector
(W, S) of its summed weights and weighted statistics. The blocks of the isotonic regression are the
edges of the diagram's greatest convex minorant, their means the slopes. Inserting a sample moves
every later point by the same vector; so a node that describes its own stretch of the hull relative
to its own first point is touched only when something below it changes.

A *chunk* keeps the hull of its slots, edge by edge. A *node* keeps one edge, its *bridge*: the one
that crosses from the left child's points to the right child's or, where nothing is pooled across
the middle, the last edge of the left child's hull. Its hull is the left child's hull up to where
the bridge starts, the bridge, and the right child's hull from where the bridge ends; what lies
under the bridge is ruled out. Edges are told apart by scores, which are exact: an edge covers the
scores FIRST_SCORE..LAST_SCORE.

Numbers. Each edge keeps its own sums and those of what lies before and behind it in its chunk or
node. All of them are sums of terms that were added, never a difference of two running totals: a
block of weight 1e-12 between blocks of weight 1e12 keeps its digits, and so does a sample that
forgetting has left with 2**-200 of its weight. Integer weights and statistics below 2**53 give
exact sums. Slopes and the tests below round once or twice; a wrong turn of a test can only pool, or
leave apart, edges whose slopes agree to rounding. Equal slopes are pooled.

Finding a bridge walks both children's hulls at once and rules out part of one of them, or of both,
in each step (Overmars & van Leeuwen 1981, sec. 3, in the variables of pooling). With an edge e of
the left hull, an edge f of the right one, and g_L(v) = max over left points p of (sums behind p) -
v (weight behind p), g_R(v) the same for what lies before a right point, the pooled mean v* is where
g_L falls through g_R. Knowing g_L at slope(e) and g_R at slope(f), and bounds of each at the
other's slope, tells on which side of v* at least one of the two slopes lies.
"""

from typing import TypeAlias

import numpy as np

from streamcal.kernels._compile import helper
from streamcal.kernels.old_score_index import (
    CHUNK,
    CHUNK_HEAD,
    CLEAN,
    DIRTY,
    EDGES,
    LEFT,
    LEFT_DIRTY,
    N_FREE,
    NEW,
    NEXT,
    NODE_KEY,
    NONE,
    RIGHT,
    RIGHT_DIRTY,
    ROOT,
    SIZE,
    SLOT,
    SLOTS,
    Data,
    Links,
    chunk_at,
    chunk_links_at,
    find_slot,
    mark,
    next_dirty,
    node_at,
    node_links_at,
    parent_at,
    split,
)

# A slot: score, weight, weighted statistic. A chunk's head: totals.
WEIGHT, SUM = 1, 2
TOTAL_W, TOTAL_S = range(2)

# An edge of a chunk; edge j is the j-th record from the chunk's end backwards.
EDGE = 8
FIRST_SCORE, LAST_SCORE, EDGE_W, EDGE_S, BEFORE_W, BEFORE_S, BEHIND_W, BEHIND_S = range(EDGE)

# A node: its bridge as an edge, its key, its children's totals; what the bridge takes from each
# child; and the slopes that hold it in place: of the edges left and right of where it starts in
# the left child's hull, and of where it ends in the right child's.
LEFT_W, LEFT_S, RIGHT_W, RIGHT_S = range(NODE_KEY + 1, NODE_KEY + 5)
LEFT_PART_W, LEFT_PART_S, RIGHT_PART_W, RIGHT_PART_S = range(NODE_KEY + 5, NODE_KEY + 9)
LEFT_OUTER, LEFT_INNER, RIGHT_INNER, RIGHT_OUTER = range(NODE_KEY + 9, NODE_KEY + 13)

INF = np.inf


@helper
def edge_at(links: Links, c: int, j: int) -> int:
    """Where edge ``j`` of chunk ``c`` starts in data."""
    return chunk_at(links, c) + CHUNK - EDGE * (j + 1)


@helper
def has_room(links: Links, c: int) -> bool:
    """Return whether a chunk takes one more slot without touching its edges."""
    at = chunk_links_at(links, c)
    size, edges = links[at + SIZE], links[at + EDGES]
    return size < SLOTS and CHUNK_HEAD + SLOT * (size + 1) + EDGE * edges <= CHUNK


# ------------------------------------------------------------------------------ folding


@helper
def fold_chunk(data: Data, links: Links, c: int, score: float) -> bool:
    """Pool the slots of a chunk into edges, given that nothing but ``score`` has changed.

    Pool-adjacent-violators over the slots of the edge where that score is. The edges before it are
    the hull of the slots before, the edges behind it the hull of those behind; both stay, and are
    pooled with what comes out as far as need be. Returns False, with no edges left, where the edges
    do not fit behind the slots; the chunk must then be split.
    """
    at, own = chunk_at(links, c), chunk_links_at(links, c)
    size, stop = links[own + SIZE], links[own + EDGES]
    slots = at + CHUNK_HEAD
    room = (CHUNK - CHUNK_HEAD - SLOT * size) // EDGE
    end = at + CHUNK - EDGE  # edge j starts at end - EDGE * j

    # Old edges from `tail` to `stop` lie behind the score; `n` edges are known to lie before.
    tail = stop
    while tail > 0 and data[end - EDGE * (tail - 1) + FIRST_SCORE] > score:
        tail -= 1
    n = max(tail - 1, 0)
    i, last_slot = 0, size
    if tail > 0:
        i = find_slot(data, links, c, data[end - EDGE * n + FIRST_SCORE])
    if tail < stop:
        last_slot = find_slot(data, links, c, data[end - EDGE * tail + FIRST_SCORE])

    # The topmost edge is in registers; weight 0 says that there is none.
    first, last, w, s = 0.0, 0.0, 0.0, 0.0
    while True:
        # What comes next: a slot, then an old edge as a whole, then nothing.
        if i < last_slot:
            p = slots + SLOT * i
            next_first, next_last = data[p], data[p]
            next_w, next_s = data[p + WEIGHT], data[p + SUM]
        elif tail < stop:
            p = end - EDGE * tail
            next_first, next_last = data[p + FIRST_SCORE], data[p + LAST_SCORE]
            next_w, next_s = data[p + EDGE_W], data[p + EDGE_S]
        else:
            next_w = 0.0
        if w > 0.0 and (next_w == 0.0 or next_s * w > s * next_w):
            # It lies above the topmost edge, which is therefore done.
            if n == tail and tail < stop:
                gap = room - stop
                for j in range(EDGE * (stop - tail)):
                    data[end - EDGE * (stop - 1 + gap) + j] = data[end - EDGE * (stop - 1) + j]
                tail, stop = tail + gap, stop + gap
            if n == (tail if tail < stop else room):
                links[own + EDGES] = 0
                return False
            e = end - EDGE * n
            data[e + FIRST_SCORE], data[e + LAST_SCORE] = first, last
            data[e + EDGE_W], data[e + EDGE_S] = w, s
            n += 1
            w = 0.0
            if i >= last_slot:
                break
        if w == 0.0:
            if next_w == 0.0:
                break
            first, last, w, s = next_first, next_last, next_w, next_s
        else:
            last, w, s = next_last, w + next_w, s + next_s
        if i < last_slot:
            i += 1
        else:
            tail += 1
        e = end - EDGE * (n - 1)
        while n > 0 and s * data[e + EDGE_W] <= data[e + EDGE_S] * w:
            first = data[e + FIRST_SCORE]
            w += data[e + EDGE_W]
            s += data[e + EDGE_S]
            n -= 1
            e += EDGE
    for j in range(stop - tail):
        for k in range(EDGE):
            data[end - EDGE * (n + j) + k] = data[end - EDGE * (tail + j) + k]
    sum_edges(data, links, c, n + stop - tail)
    return True


@helper
def sum_edges(data: Data, links: Links, c: int, n: int) -> None:
    """Note that a chunk has ``n`` edges, and sum up what lies before and behind each."""
    at = chunk_at(links, c)
    end = at + CHUNK - EDGE
    links[chunk_links_at(links, c) + EDGES] = n
    w, s = 0.0, 0.0
    for j in range(n):
        e = end - EDGE * j
        data[e + BEFORE_W], data[e + BEFORE_S] = w, s
        w += data[e + EDGE_W]
        s += data[e + EDGE_S]
    w, s = 0.0, 0.0
    for j in range(n - 1, -1, -1):
        e = end - EDGE * j
        data[e + BEHIND_W], data[e + BEHIND_S] = w, s
        w += data[e + EDGE_W]
        s += data[e + EDGE_S]
    data[at + TOTAL_W], data[at + TOTAL_S] = w, s


@helper
def settle(data: Data, links: Links, c: int, stop: int) -> int:
    """Fold the chunks from ``c`` up to but not including ``stop``, splitting those that overflow.

    Returns NONE when done, else the chunk where it ran out of free chunks; call again from there.
    """
    while c != stop:
        mark(links, -1 - c)
        links[chunk_links_at(links, c) + EDGES] = 0
        if fold_chunk(data, links, c, -INF):
            c = links[chunk_links_at(links, c) + NEXT]
        elif links[N_FREE] == 0:
            return c
        else:
            split(data, links, c, links[chunk_links_at(links, c) + SIZE] // 2)
    return NONE


@helper
def refresh(data: Data, links: Links) -> None:
    """Fold all dirty nodes, children first."""
    i = links[ROOT]
    if i < 0 or links[node_links_at(i) + DIRTY] == CLEAN:
        return
    while i != NONE:
        i = next_dirty(links, i)
        fold_node(data, links, i)
        links[node_links_at(i) + DIRTY] = CLEAN
        i = links[parent_at(links, i)]


@helper
def _store_totals(data: Data, links: Links, code: int, at: int) -> None:
    """Write the totals (W, S) of a child to ``at``."""
    if code >= 0:
        child = node_at(code)
        data[at] = data[child + LEFT_W] + data[child + RIGHT_W]
        data[at + 1] = data[child + LEFT_S] + data[child + RIGHT_S]
    else:
        child = chunk_at(links, -1 - code)
        data[at] = data[child + TOTAL_W]
        data[at + 1] = data[child + TOTAL_S]


# A cursor: the child it stands at, the range of edges still open if that is a chunk, the scores
# that open edges must lie strictly between, and the sums (W, S) before and behind the child within
# the hull being walked.
Cursor: TypeAlias = tuple[int, int, int, float, float, float, float, float, float]
Sums: TypeAlias = tuple[float, float]


@helper
def start(links: Links, code: int) -> Cursor:
    """Return a cursor over the whole hull of a child."""
    return int(code), 0, _n_edges(links, code), -INF, INF, 0.0, 0.0, 0.0, 0.0


@helper
def _n_edges(links: Links, code: int) -> int:
    """Return the number of edges that a child keeps in a chunk; none if it is a node."""
    if code < 0:
        return links[chunk_links_at(links, -1 - code) + EDGES]
    return 0


@helper
def turn_left(data: Data, links: Links, edge: int, cursor: Cursor) -> Cursor:
    """Return the cursor moved to what lies left of the edge it stands at."""
    code, low, high, above, below, before_w, before_s, behind_w, behind_s = cursor
    if code < 0:
        return (
            code,
            low,
            (low + high) >> 1,
            above,
            below,
            before_w,
            before_s,
            behind_w,
            behind_s,
        )
    behind_w += data[edge + RIGHT_W]
    behind_s += data[edge + RIGHT_S]
    code = links[node_links_at(code) + LEFT]
    stop = _n_edges(links, code)
    return code, 0, stop, above, below, before_w, before_s, behind_w, behind_s


@helper
def turn_right(data: Data, links: Links, edge: int, cursor: Cursor) -> Cursor:
    """Return the cursor moved to what lies right of the edge it stands at."""
    code, low, high, above, below, before_w, before_s, behind_w, behind_s = cursor
    if code < 0:
        low = ((low + high) >> 1) + 1
        return code, low, high, above, below, before_w, before_s, behind_w, behind_s
    before_w += data[edge + LEFT_W]
    before_s += data[edge + LEFT_S]
    code = links[node_links_at(code) + RIGHT]
    stop = _n_edges(links, code)
    return code, 0, stop, above, below, before_w, before_s, behind_w, behind_s


@helper
def seek(data: Data, links: Links, cursor: Cursor) -> tuple[int, Cursor]:
    """Move a cursor down to an open edge; return where that is in data (NONE if none) and it."""
    while True:
        code, low, high, above, below = (
            cursor[0],
            cursor[1],
            cursor[2],
            cursor[3],
            cursor[4],
        )
        if code >= 0:
            edge = node_at(code)
        elif low < high:
            edge = edge_at(links, -1 - code, (low + high) >> 1)
        else:
            return NONE, cursor
        if data[edge + LAST_SCORE] >= below:
            cursor = turn_left(data, links, edge, cursor)
        elif data[edge + FIRST_SCORE] <= above:
            cursor = turn_right(data, links, edge, cursor)
        else:
            return edge, cursor


@helper
def go_left(data: Data, links: Links, edge: int, cursor: Cursor) -> tuple[int, Cursor]:
    """Close an edge and all behind it, and seek the next open one."""
    code, low, high, above, _, before_w, before_s, behind_w, behind_s = turn_left(
        data, links, edge, cursor
    )
    below = data[edge + FIRST_SCORE]
    return seek(
        data,
        links,
        (code, low, high, above, below, before_w, before_s, behind_w, behind_s),
    )


@helper
def go_right(data: Data, links: Links, edge: int, cursor: Cursor) -> tuple[int, Cursor]:
    """Close an edge and all before it, and seek the next open one."""
    code, low, high, _, below, before_w, before_s, behind_w, behind_s = turn_right(
        data, links, edge, cursor
    )
    above = data[edge + LAST_SCORE]
    return seek(
        data,
        links,
        (code, low, high, above, below, before_w, before_s, behind_w, behind_s),
    )


@helper
def fold_node(data: Data, links: Links, i: int) -> None:
    """Bring the totals and the bridge of node ``i`` up to date with its children; O(depth)."""
    at, own = node_at(i), node_links_at(i)
    dirty = links[own + DIRTY]
    if dirty & (LEFT_DIRTY | NEW):
        _store_totals(data, links, links[own + LEFT], at + LEFT_W)
    if dirty & (RIGHT_DIRTY | NEW):
        _store_totals(data, links, links[own + RIGHT], at + RIGHT_W)
    if dirty & NEW or not _keep_bridge(data, links, i):
        _find_bridge(data, links, i)


@helper
def _keep_bridge(data: Data, links: Links, i: int) -> bool:
    """Renew the sums of a bridge whose ends still hold; False where they do not.

    Most updates leave most bridges between the same two vertices, and to see that takes one walk
    down the changed child that only compares scores.
    """
    at, own = node_at(i), node_links_at(i)
    dirty, key = links[own + DIRTY], data[at + NODE_KEY]
    if data[at + LAST_SCORE] < key:  # nothing was pooled across the middle
        if dirty & LEFT_DIRTY:
            _store_last_edge(data, links, i)
        if dirty & RIGHT_DIRTY:
            data[at + RIGHT_OUTER] = _first_slope(data, links, links[own + RIGHT])
            data[at + BEHIND_W], data[at + BEHIND_S] = (
                data[at + RIGHT_W],
                data[at + RIGHT_S],
            )
        return data[at + LEFT_INNER] < data[at + RIGHT_OUTER]

    if dirty & LEFT_DIRTY:
        outer, inner, before_w, before_s, behind_w, behind_s = _vertex(
            data, links, links[own + LEFT], data[at + FIRST_SCORE], False
        )
        if inner == NONE:
            return False
        data[at + LEFT_OUTER] = -INF
        if outer != NONE:
            data[at + LEFT_OUTER] = data[outer + EDGE_S] / data[outer + EDGE_W]
        w, s = data[inner + EDGE_W], data[inner + EDGE_S]
        data[at + LEFT_INNER] = s / w
        data[at + FIRST_SCORE] = data[inner + FIRST_SCORE]
        data[at + BEFORE_W] = before_w + data[inner + BEFORE_W]
        data[at + BEFORE_S] = before_s + data[inner + BEFORE_S]
        data[at + LEFT_PART_W] = behind_w + data[inner + BEHIND_W] + w
        data[at + LEFT_PART_S] = behind_s + data[inner + BEHIND_S] + s
    if dirty & RIGHT_DIRTY:
        inner, outer, before_w, before_s, behind_w, behind_s = _vertex(
            data,
            links,
            links[own + RIGHT],
            np.nextafter(data[at + LAST_SCORE], INF),
            True,
        )
        if inner == NONE:
            return False
        data[at + RIGHT_OUTER] = INF
        if outer != NONE:
            data[at + RIGHT_OUTER] = data[outer + EDGE_S] / data[outer + EDGE_W]
        w, s = data[inner + EDGE_W], data[inner + EDGE_S]
        data[at + RIGHT_INNER] = s / w
        data[at + LAST_SCORE] = data[inner + LAST_SCORE]
        data[at + RIGHT_PART_W] = before_w + data[inner + BEFORE_W] + w
        data[at + RIGHT_PART_S] = before_s + data[inner + BEFORE_S] + s
        data[at + BEHIND_W] = behind_w + data[inner + BEHIND_W]
        data[at + BEHIND_S] = behind_s + data[inner + BEHIND_S]
    w = data[at + LEFT_PART_W] + data[at + RIGHT_PART_W]
    s = data[at + LEFT_PART_S] + data[at + RIGHT_PART_S]
    data[at + EDGE_W], data[at + EDGE_S] = w, s
    slope = s / w
    return (
        data[at + LEFT_OUTER] < slope <= data[at + LEFT_INNER]
        and data[at + RIGHT_INNER] <= slope < data[at + RIGHT_OUTER]
    )


@helper
def _vertex(
    data: Data, links: Links, code: int, score: float, inner_left: bool
) -> tuple[int, int, float, float, float, float]:
    """Find the vertex of a child's hull between the scores below ``score`` and the others.

    Returns the edges left and right of it, then the sums (W, S) before and behind the chunk or node
    that keeps the inner one of them: the left edge if ``inner_left``, else the right one. Where an
    edge straddles the place there is no vertex, and both edges are NONE. This is `seek` with all
    else left out: it runs for nearly every level of every update.
    """
    left = right = NONE
    above, below = -INF, INF
    before_w, before_s, behind_w, behind_s = 0.0, 0.0, 0.0, 0.0
    sums = (0.0, 0.0, 0.0, 0.0)
    while code >= 0:
        edge = node_at(code)
        first, last = data[edge + FIRST_SCORE], data[edge + LAST_SCORE]
        if last >= below:
            to_left = True
        elif first <= above:
            to_left = False
        elif last < score:
            to_left, left, above = False, edge, last
            if inner_left:
                sums = (before_w, before_s, behind_w, behind_s)
        elif first >= score:
            to_left, right, below = True, edge, first
            if not inner_left:
                sums = (before_w, before_s, behind_w, behind_s)
        else:
            return NONE, NONE, 0.0, 0.0, 0.0, 0.0
        if to_left:
            behind_w += data[edge + RIGHT_W]
            behind_s += data[edge + RIGHT_S]
            code = links[node_links_at(code) + LEFT]
        else:
            before_w += data[edge + LEFT_W]
            before_s += data[edge + LEFT_S]
            code = links[node_links_at(code) + RIGHT]
    end = edge_at(links, -1 - code, 0)
    low, high = 0, links[chunk_links_at(links, -1 - code) + EDGES]
    while low < high:
        middle = (low + high) >> 1
        edge = end - EDGE * middle
        first, last = data[edge + FIRST_SCORE], data[edge + LAST_SCORE]
        if last >= below:
            high = middle
        elif first <= above:
            low = middle + 1
        elif last < score:
            low, left = middle + 1, edge
            if inner_left:
                sums = (before_w, before_s, behind_w, behind_s)
        elif first >= score:
            high, right = middle, edge
            if not inner_left:
                sums = (before_w, before_s, behind_w, behind_s)
        else:
            return NONE, NONE, 0.0, 0.0, 0.0, 0.0
    return left, right, sums[0], sums[1], sums[2], sums[3]


@helper
def _store_last_edge(data: Data, links: Links, i: int) -> None:
    """Make the last edge of the left child's hull the bridge of node ``i``."""
    at = node_at(i)
    cursor = start(links, links[node_links_at(i) + LEFT])
    edge, cursor = seek(data, links, cursor)
    while data[edge + BEHIND_W] > 0.0:
        edge, cursor = go_right(data, links, edge, cursor)
    w, s = data[edge + EDGE_W], data[edge + EDGE_S]
    data[at + FIRST_SCORE], data[at + LAST_SCORE] = (
        data[edge + FIRST_SCORE],
        data[edge + LAST_SCORE],
    )
    data[at + EDGE_W], data[at + EDGE_S] = w, s
    data[at + BEFORE_W] = cursor[5] + data[edge + BEFORE_W]
    data[at + BEFORE_S] = cursor[6] + data[edge + BEFORE_S]
    data[at + BEHIND_W], data[at + BEHIND_S] = data[at + RIGHT_W], data[at + RIGHT_S]
    data[at + LEFT_INNER] = s / w


@helper
def _first_slope(data: Data, links: Links, code: int) -> float:
    """Return the slope of the first edge of a child's hull."""
    edge, cursor = seek(data, links, start(links, code))
    while data[edge + BEFORE_W] > 0.0:
        edge, cursor = go_left(data, links, edge, cursor)
    return data[edge + EDGE_S] / data[edge + EDGE_W]


@helper
def _find_bridge(data: Data, links: Links, i: int) -> None:
    """Find the bridge of node ``i`` by walking both children's hulls at once."""
    at, own = node_at(i), node_links_at(i)

    # What is known to be pooled: on the left from `first` on, with the sums before and inside; on
    # the right up to `last`, with the sums inside and behind. The slopes are those of the nearest
    # edges known to be pooled (inner) and not pooled (outer).
    first, before_w, before_s, left_w, left_s = INF, 0.0, 0.0, 0.0, 0.0
    last, behind_w, behind_s, right_w, right_s = -INF, 0.0, 0.0, 0.0, 0.0
    left_outer, left_inner, right_inner, right_outer = -INF, INF, -INF, INF

    e, l_cursor = seek(data, links, start(links, links[own + LEFT]))
    f, r_cursor = seek(data, links, start(links, links[own + RIGHT]))
    while True:
        if e != NONE:
            e_w, e_s = data[e + EDGE_W], data[e + EDGE_S]
            e_slope = e_s / e_w
            e_behind_w = l_cursor[7] + data[e + BEHIND_W]
            e_behind_s = l_cursor[8] + data[e + BEHIND_S]
        if f != NONE:
            f_w, f_s = data[f + EDGE_W], data[f + EDGE_S]
            f_slope = f_s / f_w
            f_before_w = r_cursor[5] + data[f + BEFORE_W]
            f_before_s = r_cursor[6] + data[f + BEFORE_S]
        e_pooled = f_pooled = False
        if e != NONE and f != NONE:
            at_e = e_behind_s - e_slope * e_behind_w  # g_L(slope of e)
            at_f = f_slope * f_before_w - f_before_s  # g_R(slope of f)
            if e_slope >= f_slope:
                e_pooled = at_e < e_slope * (f_before_w + f_w) - (f_before_s + f_s)
                f_pooled = at_f < (e_behind_s + e_s) - f_slope * (e_behind_w + e_w)
                if not (e_pooled or f_pooled):
                    e_pooled = f_pooled = True
                e_moves, f_moves = e_pooled, f_pooled
            else:
                e_moves, f_moves = at_e >= at_f, at_f >= at_e
        elif e != NONE and last > -INF:
            # The right end is settled: the line from there decides.
            e_pooled = e_slope * (e_behind_w + right_w) >= e_behind_s + right_s
            e_moves, f_moves = True, False
        elif f != NONE and first < INF:
            f_pooled = f_slope * (f_before_w + left_w) <= f_before_s + left_s
            e_moves, f_moves = False, True
        else:
            break
        if e_moves:
            if e_pooled:
                left_inner, first = e_slope, data[e + FIRST_SCORE]
                before_w = l_cursor[5] + data[e + BEFORE_W]
                before_s = l_cursor[6] + data[e + BEFORE_S]
                left_w, left_s = e_behind_w + e_w, e_behind_s + e_s
                e, l_cursor = go_left(data, links, e, l_cursor)
            else:
                left_outer = e_slope
                e, l_cursor = go_right(data, links, e, l_cursor)
        if f_moves:
            if f_pooled:
                right_inner, last = f_slope, data[f + LAST_SCORE]
                right_w, right_s = f_before_w + f_w, f_before_s + f_s
                behind_w = r_cursor[7] + data[f + BEHIND_W]
                behind_s = r_cursor[8] + data[f + BEHIND_S]
                f, r_cursor = go_right(data, links, f, r_cursor)
            else:
                right_outer = f_slope
                f, r_cursor = go_left(data, links, f, r_cursor)

    if first == INF or last == -INF:  # nothing is pooled across the middle
        _store_last_edge(data, links, i)
        data[at + RIGHT_OUTER] = _first_slope(data, links, links[own + RIGHT])
        return
    data[at + FIRST_SCORE], data[at + LAST_SCORE] = first, last
    data[at + EDGE_W], data[at + EDGE_S] = left_w + right_w, left_s + right_s
    data[at + BEFORE_W], data[at + BEFORE_S] = before_w, before_s
    data[at + BEHIND_W], data[at + BEHIND_S] = behind_w, behind_s
    data[at + LEFT_PART_W], data[at + LEFT_PART_S] = left_w, left_s
    data[at + RIGHT_PART_W], data[at + RIGHT_PART_S] = right_w, right_s
    data[at + LEFT_OUTER], data[at + LEFT_INNER] = left_outer, left_inner
    data[at + RIGHT_INNER], data[at + RIGHT_OUTER] = right_inner, right_outer


# ------------------------------------------------------------------------------ asking


@helper
def edges_around(data: Data, links: Links, score: float) -> tuple[int, int]:
    """Return where the edges left and right of ``score`` are in data; O(log n).

    Both are the same edge where the score lies on it, and one is NONE beyond the outermost scores.
    """
    left = right = NONE
    edge, cursor = seek(data, links, start(links, links[ROOT]))
    while edge != NONE:
        if score < data[edge + FIRST_SCORE]:
            right = edge
            edge, cursor = go_left(data, links, edge, cursor)
        elif score > data[edge + LAST_SCORE]:
            left = edge
            edge, cursor = go_right(data, links, edge, cursor)
        else:
            return edge, edge
    return left, right


@helper
def edge_behind(data: Data, links: Links, score: float) -> int:
    """Return where the first edge behind ``score`` is, an edge's last score or -inf; O(log n)."""
    code, low, high, _, below, before_w, before_s, behind_w, behind_s = start(links, links[ROOT])
    found = NONE
    edge, cursor = seek(
        data,
        links,
        (code, low, high, score, below, before_w, before_s, behind_w, behind_s),
    )
    while edge != NONE:
        found = edge
        edge, cursor = go_left(data, links, edge, cursor)
    return found


@helper
def pool_front(data: Data, links: Links, w: float, s: float) -> tuple[float, float]:
    """Return mean and last score of the block that a sample (w, s) before all scores would form."""
    mean, last = s / w, -INF
    edge, cursor = seek(data, links, start(links, links[ROOT]))
    while edge != NONE:
        before_w = w + cursor[5] + data[edge + BEFORE_W]
        before_s = s + cursor[6] + data[edge + BEFORE_S]
        edge_w, edge_s = data[edge + EDGE_W], data[edge + EDGE_S]
        if before_s * edge_w >= edge_s * before_w:
            mean, last = (
                (before_s + edge_s) / (before_w + edge_w),
                data[edge + LAST_SCORE],
            )
            edge, cursor = go_right(data, links, edge, cursor)
        else:
            edge, cursor = go_left(data, links, edge, cursor)
    return mean, last


@helper
def pool_back(data: Data, links: Links, w: float, s: float) -> tuple[float, float]:
    """Return mean and first score of the block that a sample (w, s) behind all would form."""
    mean, first = s / w, INF
    edge, cursor = seek(data, links, start(links, links[ROOT]))
    while edge != NONE:
        behind_w = w + cursor[7] + data[edge + BEHIND_W]
        behind_s = s + cursor[8] + data[edge + BEHIND_S]
        edge_w, edge_s = data[edge + EDGE_W], data[edge + EDGE_S]
        if edge_s * behind_w >= behind_s * edge_w:
            mean, first = (
                (behind_s + edge_s) / (behind_w + edge_w),
                data[edge + FIRST_SCORE],
            )
            edge, cursor = go_left(data, links, edge, cursor)
        else:
            edge, cursor = go_right(data, links, edge, cursor)
    return mean, first


@helper
def totals(data: Data, links: Links) -> Sums:
    """Return the sums (W, S) of the whole index."""
    code = links[ROOT]
    if code >= 0:
        at = node_at(code)
        w = data[at + LEFT_W] + data[at + RIGHT_W]
        return w, data[at + LEFT_S] + data[at + RIGHT_S]
    at = chunk_at(links, -1 - code)
    return data[at + TOTAL_W], data[at + TOTAL_S]
