"""The isotonic staircase as a lower hull, folded up the tree of a score index.

Plot the cumulative-sum diagram of the scores in order: from (0, 0), each score adds the vector
(W, S) of its summed weights and weighted statistics. The blocks of the isotonic regression are the
edges of the diagram's greatest convex minorant, and the slopes of the edges are the means of the
blocks. Five scores, weights 1, with the labels 0 1 0 0 1; the hull has three edges::

     S
     2 |                    *   score 5: label 1
       |                   /
     1 |       *---*----*       scores 2, 3 and 4 are one block of mean 1/3
       |            __--
     0 +---*---.---'------- W   score 1: label 0

Inserting a sample moves every later point by the same vector. So a node that describes its own
stretch of the hull relative to its own first point changes only when something below it changes.

A *chunk* keeps the hull of its slots, edge by edge. A *node* keeps one edge, its *bridge*: the one
that crosses from the left child's points to the right child's or, where nothing is pooled across
the middle, the last edge of the left child's hull. Its hull is the left child's hull up to where
the bridge starts, the bridge, and the right child's hull from where the bridge ends; what lies
under the bridge is ruled out. Edges are told apart by scores, which are exact: an edge covers the
scores ``first`` to ``last``.

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

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from streamcal.kernels.score_index cimport (
    LEFT_DIRTY,
    NEW,
    RIGHT_DIRTY,
    SLOTS,
    Chunk,
    Node,
    ScoreIndex,
    Slot,
    find_slot,
    is_chunk,
    out_of_memory,
)


cdef class Hull(ScoreIndex):
    """A score index whose summaries are hulls; slots hold weights and weighted statistics."""

    def __cinit__(self):
        self.node_bytes = sizeof(Node) + sizeof(Bridge)
        self.chunk_bytes = sizeof(Chunk) + sizeof(ChunkHull)
        self.clear()

    # ------------------------------------------------------------------ folding

    cdef void release_summary(self, Chunk *chunk) noexcept nogil:
        free(hull_of(chunk).edges)

    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil:
        return hull_of(chunk).room * sizeof(Edge)

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Pool the slots of a chunk into edges, given that nothing but ``score`` has changed.

        Pool-adjacent-violators over the slots of the edge where that score is. The edges before it
        are the hull of the slots before, the edges behind it the hull of those behind. Both stay,
        and are pooled with what comes out as far as need be.
        """
        cdef ChunkHull *hull = hull_of(chunk)
        cdef Edge *edges = hull.edges
        cdef Edge made[SLOTS]
        cdef Edge top  # the edge in the making; weight 0 says that there is none
        cdef Edge *e
        cdef Slot *slot
        # Edges up to `kept` stay before the score, edges from `tail` on stay behind it.
        cdef int kept, tail, n_behind, i = 0, stop = chunk.size, n_made = 0
        cdef int n = 0 if score == -INFINITY else hull.n  # edges that are looked at
        tail = n
        while tail > 0 and edges[tail - 1].first > score:
            tail -= 1
        kept = max(tail - 1, 0)
        if tail > 0:
            i = find_slot(chunk, edges[kept].first)
        if tail < n:
            stop = find_slot(chunk, edges[tail].first)
        top.weight = 0.0
        if pool_all(&chunk.slots[i], stop - i, &top):
            i = stop
            pool_back(&top, made, &n_made, edges, &kept)
        while True:
            if i < stop:
                slot = &chunk.slots[i]
                if top.weight > 0.0 and slot.sum * top.weight > top.sum * slot.weight:
                    made[n_made] = top
                    n_made += 1
                    top.weight = 0.0
                if top.weight == 0.0:
                    top.first = slot.score
                    top.weight = slot.weight
                    top.sum = slot.sum
                else:
                    top.weight += slot.weight
                    top.sum += slot.sum
                top.last = slot.score
                i += 1
            elif tail < n:
                e = &edges[tail]
                if top.weight > 0.0 and e.sum * top.weight > top.sum * e.weight:
                    break
                if top.weight == 0.0:
                    top = e[0]
                else:
                    top.weight += e.weight
                    top.sum += e.sum
                    top.last = e.last
                tail += 1
            else:
                break
            pool_back(&top, made, &n_made, edges, &kept)
        if top.weight > 0.0:
            made[n_made] = top
            n_made += 1
        n_behind = n - tail
        self.set_edges(chunk, max(n, kept + n_made + n_behind))
        edges = hull.edges
        memmove(&edges[kept + n_made], &edges[tail], n_behind * sizeof(Edge))
        memcpy(&edges[kept], made, n_made * sizeof(Edge))
        hull.n = kept + n_made + n_behind
        sum_edges(hull)
        return 0

    cdef int set_edges(self, Chunk *chunk, int n) except -1 nogil:
        """Give a chunk room for so many edges, or somewhat more."""
        cdef ChunkHull *hull = hull_of(chunk)
        cdef Edge *edges
        cdef int room = n + n // 4 + 2
        if n > hull.room or room < hull.room // 2:
            edges = <Edge *> realloc(hull.edges, room * sizeof(Edge))
            if edges == NULL:
                return out_of_memory()
            hull.edges = edges
            hull.room = room
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        """Bring the totals and the bridge of a node up to date with its children; O(depth)."""
        cdef Bridge *bridge = bridge_of(node)
        sum_children(node, bridge)
        if node.dirty & NEW or not (renew_bridge(node, bridge) and is_bridge(node, bridge, 0.0)):
            find_bridge(node, bridge)

    cdef int restore_chunk(
        self, Chunk *chunk, const int64_t *lengths, const double *sums
    ) except -1 nogil:
        """Give a chunk edges by how many slots each covers and its sums; return how many."""
        cdef ChunkHull *hull = hull_of(chunk)
        cdef int covered = 0, n = 0
        cdef Edge *edge
        while covered < chunk.size:
            self.set_edges(chunk, n + 1)
            edge = &hull.edges[n]
            edge.first = chunk.slots[covered].score
            covered += <int> lengths[n]
            edge.last = chunk.slots[covered - 1].score
            edge.weight, edge.sum = sums[2 * n], sums[2 * n + 1]
            n += 1
        hull.n = n
        sum_edges(hull)
        return n

    # ------------------------------------------------------------------ asking

    cdef void around(self, double score, Edge **left, Edge **right) noexcept nogil:
        """Find the edges left and right of a score; O(log n).

        Both are the same edge where the score lies on it, and one is NULL beyond the outermost
        scores.
        """
        cdef Cursor cursor = start_at(self.root)
        cdef Edge *edge = seek(&cursor)
        left[0] = right[0] = NULL
        while edge != NULL:
            if score < edge.first:
                right[0] = edge
                edge = go_left(edge, &cursor)
            elif score > edge.last:
                left[0] = edge
                edge = go_right(edge, &cursor)
            else:
                left[0] = right[0] = edge
                return

    cdef Edge *behind(self, double score) noexcept nogil:
        """Return the first edge behind a score, an edge's last score or -inf; O(log n)."""
        cdef Cursor cursor = start_at(self.root)
        cdef Edge *edge
        cdef Edge *found = NULL
        cursor.above = score
        edge = seek(&cursor)
        while edge != NULL:
            found = edge
            edge = go_left(edge, &cursor)
        return found

    cdef Sums pool_front(self, double w, double s, double *last) noexcept nogil:
        """Return the block that a sample (w, s) before all scores would form, and its last score.
        """
        cdef Cursor cursor = start_at(self.root)
        cdef Edge *edge = seek(&cursor)
        cdef Sums pooled, before
        pooled.weight, pooled.sum, last[0] = w, s, -INFINITY
        while edge != NULL:
            before.weight = w + cursor.before.weight + edge.before_weight
            before.sum = s + cursor.before.sum + edge.before_sum
            if before.sum * edge.weight >= edge.sum * before.weight:
                pooled.weight = before.weight + edge.weight
                pooled.sum = before.sum + edge.sum
                last[0] = edge.last
                edge = go_right(edge, &cursor)
            else:
                edge = go_left(edge, &cursor)
        return pooled

    cdef Sums pool_back(self, double w, double s, double *first) noexcept nogil:
        """Return the block that a sample (w, s) behind all would form, and its first score."""
        cdef Cursor cursor = start_at(self.root)
        cdef Edge *edge = seek(&cursor)
        cdef Sums pooled, behind
        pooled.weight, pooled.sum, first[0] = w, s, INFINITY
        while edge != NULL:
            behind.weight = w + cursor.behind.weight + edge.behind_weight
            behind.sum = s + cursor.behind.sum + edge.behind_sum
            if edge.sum * behind.weight >= behind.sum * edge.weight:
                pooled.weight = behind.weight + edge.weight
                pooled.sum = behind.sum + edge.sum
                first[0] = edge.first
                edge = go_left(edge, &cursor)
            else:
                edge = go_right(edge, &cursor)
        return pooled

    cdef Sums totals(self) noexcept nogil:
        """Return the sums of the whole index."""
        return totals_of(self.root)


cdef bint pool_all(Slot *slots, int n, Edge *edge) noexcept nogil:
    """Make one edge of slots if all of them are to be pooled; else return False.

    That is so where, cut anywhere, the first part has no smaller mean than the rest.
    """
    cdef Sums behind[SLOTS]
    cdef double w = 0.0, s = 0.0
    cdef int i
    for i in range(n - 1, 0, -1):
        w += slots[i].weight
        s += slots[i].sum
        behind[i].weight, behind[i].sum = w, s
    w = s = 0.0
    for i in range(n - 1):
        w += slots[i].weight
        s += slots[i].sum
        if s * behind[i + 1].weight < behind[i + 1].sum * w:
            return False
    if n == 0:
        return False
    edge.first, edge.last = slots[0].score, slots[n - 1].score
    edge.weight, edge.sum = w + slots[n - 1].weight, s + slots[n - 1].sum
    return True


cdef inline void pool_back(Edge *top, Edge *made, int *n_made, Edge *edges, int *kept) noexcept nogil:
    """Pool an edge with those before it as far as need be: first with those just made."""
    cdef Edge *e
    while n_made[0] > 0 or kept[0] > 0:
        e = &made[n_made[0] - 1] if n_made[0] > 0 else &edges[kept[0] - 1]
        if top.sum * e.weight > e.sum * top.weight:
            return
        top.first = e.first
        top.weight += e.weight
        top.sum += e.sum
        if n_made[0] > 0:
            n_made[0] -= 1
        else:
            kept[0] -= 1


cdef Sums totals_of(Node *node) noexcept nogil:
    """Return the sums of all slots below a node."""
    cdef Sums sums
    cdef Bridge *bridge
    cdef ChunkHull *hull
    if is_chunk(node):
        hull = hull_of(<Chunk *> node)
        sums.weight, sums.sum = hull.weight, hull.sum
    else:
        bridge = bridge_of(node)
        sums.weight = bridge.left_weight + bridge.right_weight
        sums.sum = bridge.left_sum + bridge.right_sum
    return sums


cdef void sum_edges(ChunkHull *hull) noexcept nogil:
    """Sum up what lies before and behind each edge of a chunk."""
    cdef double w = 0.0, s = 0.0
    cdef Edge *edge
    cdef int j
    for j in range(hull.n):
        edge = &hull.edges[j]
        edge.before_weight, edge.before_sum = w, s
        w += edge.weight
        s += edge.sum
    w = s = 0.0
    for j in range(hull.n - 1, -1, -1):
        edge = &hull.edges[j]
        edge.behind_weight, edge.behind_sum = w, s
        w += edge.weight
        s += edge.sum
    hull.weight, hull.sum = w, s


cdef inline double slope_of(Edge *edge) noexcept nogil:
    return edge.sum / edge.weight


# ---------------------------------------------------------------------- walking a hull

# A cursor stands at a node or a chunk of the tree below which the next edge is sought. It keeps the
# range of edges still open if that is a chunk, the scores that open edges must lie strictly
# between, and the sums before and behind it within the hull that is walked.


cdef inline Cursor start_at(Node *node) noexcept nogil:
    """Return a cursor over the whole hull of a node."""
    cdef Cursor cursor
    cursor.above, cursor.below = -INFINITY, INFINITY
    cursor.before.weight = cursor.before.sum = 0.0
    cursor.behind.weight = cursor.behind.sum = 0.0
    enter(&cursor, node)
    return cursor


cdef inline void enter(Cursor *cursor, Node *node) noexcept nogil:
    cursor.node = node
    cursor.low = 0
    cursor.high = hull_of(<Chunk *> node).n if is_chunk(node) else 0


cdef inline void turn_left(Cursor *cursor) noexcept nogil:
    """Move a cursor to what lies left of the edge it stands at."""
    cdef Bridge *bridge
    if is_chunk(cursor.node):
        cursor.high = (cursor.low + cursor.high) >> 1
        return
    bridge = bridge_of(cursor.node)
    cursor.behind.weight += bridge.right_weight
    cursor.behind.sum += bridge.right_sum
    enter(cursor, cursor.node.left)


cdef inline void turn_right(Cursor *cursor) noexcept nogil:
    """Move a cursor to what lies right of the edge it stands at."""
    cdef Bridge *bridge
    if is_chunk(cursor.node):
        cursor.low = ((cursor.low + cursor.high) >> 1) + 1
        return
    bridge = bridge_of(cursor.node)
    cursor.before.weight += bridge.left_weight
    cursor.before.sum += bridge.left_sum
    enter(cursor, cursor.node.right)


cdef inline Edge *seek(Cursor *cursor) noexcept nogil:
    """Move a cursor down to an open edge and return that, NULL where there is none."""
    cdef Edge *edge
    while True:
        if not is_chunk(cursor.node):
            edge = &bridge_of(cursor.node).edge
        elif cursor.low < cursor.high:
            edge = &hull_of(<Chunk *> cursor.node).edges[(cursor.low + cursor.high) >> 1]
        else:
            return NULL
        if edge.last >= cursor.below:
            turn_left(cursor)
        elif edge.first <= cursor.above:
            turn_right(cursor)
        else:
            return edge


cdef inline Edge *go_left(Edge *edge, Cursor *cursor) noexcept nogil:
    """Close an edge and all behind it, and seek the next open one."""
    turn_left(cursor)
    cursor.below = edge.first
    return seek(cursor)


cdef inline Edge *go_right(Edge *edge, Cursor *cursor) noexcept nogil:
    """Close an edge and all before it, and seek the next open one."""
    turn_right(cursor)
    cursor.above = edge.last
    return seek(cursor)


# ---------------------------------------------------------------------- bridges


cdef struct Vertex:
    Edge *left  # the edges left and right of it
    Edge *right
    Sums before  # sums before and behind the chunk or node that keeps the inner one of them
    Sums behind


cdef inline void sum_children(Node *node, Bridge *bridge) noexcept nogil:
    """Bring the totals of a node's children up to date."""
    cdef Sums sums
    if node.dirty & (LEFT_DIRTY | NEW):
        sums = totals_of(node.left)
        bridge.left_weight, bridge.left_sum = sums.weight, sums.sum
    if node.dirty & (RIGHT_DIRTY | NEW):
        sums = totals_of(node.right)
        bridge.right_weight, bridge.right_sum = sums.weight, sums.sum


cdef bint renew_bridge(Node *node, Bridge *bridge) noexcept nogil:
    """Renew the sums of a bridge between the same two vertices; False where one is gone.

    Most updates leave most bridges as they are, and to see that takes one walk down the changed
    child that only compares scores.
    """
    cdef Edge *edge = &bridge.edge
    cdef Edge *inner
    cdef Vertex vertex
    if edge.last < node.key:  # nothing was pooled across the middle
        if node.dirty & LEFT_DIRTY:
            store_last_edge(node, bridge)
        if node.dirty & RIGHT_DIRTY:
            bridge.right_outer = first_slope(node.right)
            edge.behind_weight, edge.behind_sum = bridge.right_weight, bridge.right_sum
        return True
    if node.dirty & LEFT_DIRTY:
        find_vertex(node.left, edge.first, False, True, &vertex)
        inner = vertex.right
        if inner == NULL:
            return False
        bridge.left_outer = -INFINITY if vertex.left == NULL else slope_of(vertex.left)
        bridge.left_inner = slope_of(inner)
        edge.first = inner.first
        edge.before_weight = vertex.before.weight + inner.before_weight
        edge.before_sum = vertex.before.sum + inner.before_sum
        bridge.left_part_weight = vertex.behind.weight + inner.behind_weight + inner.weight
        bridge.left_part_sum = vertex.behind.sum + inner.behind_sum + inner.sum
    if node.dirty & RIGHT_DIRTY:
        find_vertex(node.right, edge.last, True, False, &vertex)
        inner = vertex.left
        if inner == NULL:
            return False
        bridge.right_outer = INFINITY if vertex.right == NULL else slope_of(vertex.right)
        bridge.right_inner = slope_of(inner)
        edge.last = inner.last
        bridge.right_part_weight = vertex.before.weight + inner.before_weight + inner.weight
        bridge.right_part_sum = vertex.before.sum + inner.before_sum + inner.sum
        edge.behind_weight = vertex.behind.weight + inner.behind_weight
        edge.behind_sum = vertex.behind.sum + inner.behind_sum
    edge.weight = bridge.left_part_weight + bridge.right_part_weight
    edge.sum = bridge.left_part_sum + bridge.right_part_sum
    return True


cdef bint is_bridge(Node *node, Bridge *bridge, double slack) noexcept nogil:
    """Return whether the slopes next to the ends of a bridge hold it in place.

    Slopes may be in the wrong order if they differ by less than ``slack``.
    """
    cdef double slope
    if bridge.edge.last < node.key:
        return bridge.left_inner - slack < bridge.right_outer
    slope = slope_of(&bridge.edge)
    return (
        bridge.left_outer - slack < slope
        and slope - slack <= bridge.left_inner
        and bridge.right_inner - slack <= slope
        and slope - slack < bridge.right_outer
    )


cdef inline void find_vertex(
    Node *node, double score, bint behind, bint inner_right, Vertex *vertex
) noexcept nogil:
    """Find the vertex of a node's hull in front of ``score``, or right ``behind`` it.

    The inner edge is the one right of it if ``inner_right``, else the one left of it. Where an edge
    straddles the place there is no vertex, and both edges are NULL. This is `seek` with all else
    left out: it runs for nearly every level of every update.
    """
    cdef double above = -INFINITY, below = INFINITY
    cdef Sums before, after
    cdef Edge *edge
    cdef Bridge *bridge
    cdef ChunkHull *hull
    cdef int low, high, middle
    cdef bint to_left
    before.weight = before.sum = after.weight = after.sum = 0.0
    vertex.left = vertex.right = NULL
    vertex.before = vertex.behind = before
    while not is_chunk(node):
        bridge = bridge_of(node)
        edge = &bridge.edge
        if edge.last >= below:
            to_left = True
        elif edge.first <= above:
            to_left = False
        elif edge.last < score or (behind and edge.last == score):
            to_left, vertex.left, above = False, edge, edge.last
            if not inner_right:
                vertex.before, vertex.behind = before, after
        elif edge.first > score or (not behind and edge.first == score):
            to_left, vertex.right, below = True, edge, edge.first
            if inner_right:
                vertex.before, vertex.behind = before, after
        else:
            vertex.left = vertex.right = NULL
            return
        if to_left:
            after.weight += bridge.right_weight
            after.sum += bridge.right_sum
            node = node.left
        else:
            before.weight += bridge.left_weight
            before.sum += bridge.left_sum
            node = node.right
    hull = hull_of(<Chunk *> node)
    low, high = 0, hull.n
    while low < high:
        middle = (low + high) >> 1
        edge = &hull.edges[middle]
        if edge.last >= below:
            high = middle
        elif edge.first <= above:
            low = middle + 1
        elif edge.last < score or (behind and edge.last == score):
            low, vertex.left = middle + 1, edge
            if not inner_right:
                vertex.before, vertex.behind = before, after
        elif edge.first > score or (not behind and edge.first == score):
            high, vertex.right = middle, edge
            if inner_right:
                vertex.before, vertex.behind = before, after
        else:
            vertex.left = vertex.right = NULL
            return


cdef void store_last_edge(Node *node, Bridge *bridge) noexcept nogil:
    """Make the last edge of the left child's hull the bridge of a node."""
    cdef Cursor cursor = start_at(node.left)
    cdef Edge *last = seek(&cursor)
    cdef Edge *edge = &bridge.edge
    while last.behind_weight > 0.0:
        last = go_right(last, &cursor)
    edge.first, edge.last = last.first, last.last
    edge.weight, edge.sum = last.weight, last.sum
    edge.before_weight = cursor.before.weight + last.before_weight
    edge.before_sum = cursor.before.sum + last.before_sum
    edge.behind_weight, edge.behind_sum = bridge.right_weight, bridge.right_sum
    bridge.left_inner = slope_of(last)


cdef double first_slope(Node *node) noexcept nogil:
    """Return the slope of the first edge of a node's hull."""
    cdef Cursor cursor = start_at(node)
    cdef Edge *edge = seek(&cursor)
    while edge.before_weight > 0.0:
        edge = go_left(edge, &cursor)
    return slope_of(edge)


cdef void find_bridge(Node *node, Bridge *bridge) noexcept nogil:
    """Find the bridge of a node by walking both children's hulls at once."""
    # What is known to be pooled: on the left from `first` on, with the sums before and inside; on
    # the right up to `last`, with the sums inside and behind. The slopes are those of the nearest
    # edges known to be pooled (inner) and not pooled (outer).
    cdef double first = INFINITY, last = -INFINITY
    cdef Sums before, left, right, behind
    cdef double left_outer = -INFINITY, left_inner = INFINITY
    cdef double right_inner = -INFINITY, right_outer = INFINITY
    # e is an edge of the left hull with the sums behind it, f one of the right with those before.
    cdef Cursor l_cursor = start_at(node.left), r_cursor = start_at(node.right)
    cdef Edge *e = seek(&l_cursor)
    cdef Edge *f = seek(&r_cursor)
    cdef Sums e_behind, f_before
    cdef double e_slope = 0.0, f_slope = 0.0, at_e, at_f
    cdef bint e_pooled, f_pooled, e_moves, f_moves
    before.weight = before.sum = left.weight = left.sum = 0.0
    right = behind = e_behind = f_before = before
    while True:
        if e != NULL:
            e_slope = slope_of(e)
            e_behind.weight = l_cursor.behind.weight + e.behind_weight
            e_behind.sum = l_cursor.behind.sum + e.behind_sum
        if f != NULL:
            f_slope = slope_of(f)
            f_before.weight = r_cursor.before.weight + f.before_weight
            f_before.sum = r_cursor.before.sum + f.before_sum
        e_pooled = f_pooled = False
        if e != NULL and f != NULL:
            at_e = e_behind.sum - e_slope * e_behind.weight  # g_L(slope of e)
            at_f = f_slope * f_before.weight - f_before.sum  # g_R(slope of f)
            if e_slope >= f_slope:
                e_pooled = at_e < e_slope * (f_before.weight + f.weight) - (f_before.sum + f.sum)
                f_pooled = at_f < (e_behind.sum + e.sum) - f_slope * (e_behind.weight + e.weight)
                if not (e_pooled or f_pooled):
                    e_pooled = f_pooled = True
                e_moves, f_moves = e_pooled, f_pooled
            else:
                e_moves, f_moves = at_e >= at_f, at_f >= at_e
                if not (e_moves or f_moves):  # sums that overflowed are no numbers
                    e_moves = f_moves = True
        elif e != NULL and last > -INFINITY:
            # The right end is settled: the line from there decides.
            e_pooled = e_slope * (e_behind.weight + right.weight) >= e_behind.sum + right.sum
            e_moves, f_moves = True, False
        elif f != NULL and first < INFINITY:
            f_pooled = f_slope * (f_before.weight + left.weight) <= f_before.sum + left.sum
            e_moves, f_moves = False, True
        else:
            break
        if e_moves:
            if e_pooled:
                left_inner, first = e_slope, e.first
                before.weight = l_cursor.before.weight + e.before_weight
                before.sum = l_cursor.before.sum + e.before_sum
                left.weight, left.sum = e_behind.weight + e.weight, e_behind.sum + e.sum
                e = go_left(e, &l_cursor)
            else:
                left_outer = e_slope
                e = go_right(e, &l_cursor)
        if f_moves:
            if f_pooled:
                right_inner, last = f_slope, f.last
                right.weight, right.sum = f_before.weight + f.weight, f_before.sum + f.sum
                behind.weight = r_cursor.behind.weight + f.behind_weight
                behind.sum = r_cursor.behind.sum + f.behind_sum
                f = go_right(f, &r_cursor)
            else:
                right_outer = f_slope
                f = go_left(f, &r_cursor)

    if first == INFINITY or last == -INFINITY:  # nothing is pooled across the middle
        store_last_edge(node, bridge)
        bridge.right_outer = first_slope(node.right)
        return
    bridge.edge.first, bridge.edge.last = first, last
    bridge.edge.weight, bridge.edge.sum = left.weight + right.weight, left.sum + right.sum
    bridge.edge.before_weight, bridge.edge.before_sum = before.weight, before.sum
    bridge.edge.behind_weight, bridge.edge.behind_sum = behind.weight, behind.sum
    bridge.left_part_weight, bridge.left_part_sum = left.weight, left.sum
    bridge.right_part_weight, bridge.right_part_sum = right.weight, right.sum
    bridge.left_outer, bridge.left_inner = left_outer, left_inner
    bridge.right_inner, bridge.right_outer = right_inner, right_outer


# ---------------------------------------------------------------------- bytes

# The sums of an edge depend on the order in which its slots were pooled. So a hull that is to be
# the same to the last bit is written as the edges of its chunks with their sums, and as the scores
# where each bridge starts and ends. Everything else follows from these by the rules above.


cdef void copy_bridges(Node *node, double **ends) noexcept nogil:
    """Write first and last score of all bridges in preorder."""
    if is_chunk(node):
        return
    ends[0][0] = bridge_of(node).edge.first
    ends[0][1] = bridge_of(node).edge.last
    ends[0] += 2
    copy_bridges(node.left, ends)
    copy_bridges(node.right, ends)


cdef bint restore_bridges(Node *node, const double **ends, double slack) noexcept nogil:
    """Give the nodes bridges with these ends, in preorder; False where they can't have them.

    Sums were rounded in another order when the bridges were found, so slopes get some slack.
    """
    cdef Bridge *bridge
    cdef double first, last
    if is_chunk(node):
        return True
    first, last = ends[0][0], ends[0][1]
    ends[0] += 2
    if not restore_bridges(node.left, ends, slack):
        return False
    if not restore_bridges(node.right, ends, slack):
        return False
    bridge = bridge_of(node)
    node.dirty = NEW
    sum_children(node, bridge)
    node.dirty = LEFT_DIRTY | RIGHT_DIRTY
    bridge.edge.first, bridge.edge.last = first, last
    if not (first <= last and renew_bridge(node, bridge) and is_bridge(node, bridge, slack)):
        return False
    node.dirty = 0
    return bridge.edge.first == first and bridge.edge.last == last and first < node.key
