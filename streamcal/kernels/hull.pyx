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

A *chunk* keeps the hull of its slots, edge by edge (`push`). A *node* keeps one edge, its *bridge*:
the one that crosses from the left child's points to the right child's or, where nothing is pooled
across the middle, the last edge of the left child's hull. Its hull consists of the left child's
hull up to the start of the bridge, the bridge, and the right child's hull from the end of the
bridge on. Edges above the bridge are not part of it. Edges are identified by scores, which are
exact: an edge covers the scores ``first`` to ``last``. The five scores in two chunks, and the
insertion of a label 1 at 3.5, which changes one chunk, and the sums of the bridge but not its
ends::

             bridge 2..4, mean 1/3                      bridge 2..4, mean 2/4
             /                 \\                        /                 \\
    chunk 1 2           chunk 3 4 5            chunk 1 2           chunk 3 3.5 4 5
    edges 1, 2          edges 3..4, 5          edges 1, 2          edges 3, 3.5..4, 5

    hull: edges 1, 2..4, 5                     hull: edges 1, 2..4, 5

An insertion moves every later point by the same vector. A node describes its part of the hull
relative to its own first point, so it changes only if a chunk below it changes.

Numbers. Each edge stores its own sums and those of the scores before and after it in its chunk or
node. All sums are computed by additions only, never as a difference of two running totals. So a
block of weight 1e-12 between blocks of weight 1e12 keeps its digits, and so does a sample whose
weight has decayed to 2**-200. Integer weights and statistics below 2**53 give exact sums. Slopes
and the tests below are rounded once or twice; a wrong result of a test only concerns edges whose
slopes are equal up to rounding. Equal slopes are pooled.

The search for a bridge (`find_bridge`) walks both children's hulls at once and excludes part of one
or of both in each step (Overmars & van Leeuwen 1981, sec. 3, in the variables of pooling). Let v*
be the slope of the bridge, e an edge of the left hull and f one of the right hull::

    left child  ... ---- e ---- between e and the middle | between the middle and f ---- f ---- ...

The bridge covers e (e is pooled) if slope(e) >= v*, and f if slope(f) <= v*. Be g_L(v) the maximum
over left points p of (sum from p to the middle) - v (weight from p to the middle), which falls in
v, and g_R(v) the maximum over right points q of v (weight from the middle to q) - (sum from the
middle to q), which rises. They meet at v*. At the slope of an edge its own end is the maximum; any
other point gives a lower bound. So one of these four tests decides, for e or for f::

    slope(e) >= slope(f)    e is pooled if g_L(slope(e)) < bound of g_R(slope(e)) by the end of f
                            f is pooled if g_R(slope(f)) < bound of g_L(slope(f)) by the start of e
    slope(e) < slope(f)     e is not if g_L(slope(e)) >= g_R(slope(f))
                            f is not if g_R(slope(f)) >= g_L(slope(e))
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memmove

from streamcal.kernels.memory cimport resize
from streamcal.kernels.prefetch cimport prefetch
from streamcal.kernels.score_index cimport (
    CLEAN,
    LEFT,
    LEFT_CHANGED,
    NEW,
    RIGHT,
    RIGHT_CHANGED,
    SLOTS,
    Chunk,
    Node,
    ScoreIndex,
    Slot,
    find_slot,
    is_chunk,
)
from streamcal.kernels.sums cimport rises

cdef enum:
    EDGE_STEP = 4  # edges that a chunk's room grows by


cdef class Hull(ScoreIndex):
    """A score index whose summaries are hulls; slots hold weights and weighted statistics."""

    def __cinit__(self):
        self.node_bytes = sizeof(Node) + sizeof(Bridge)
        self.chunk_bytes = sizeof(Chunk) + sizeof(ChunkHull)
        self.clear()

    # Folding --------------------------------------------------------------------------------------

    cdef void release_summary(self, Chunk *chunk) noexcept nogil:
        free(hull_of(chunk).edges)

    cdef size_t summary_bytes(self, Chunk *chunk) noexcept nogil:
        return hull_of(chunk).room * sizeof(Edge)

    cdef void prefetch_summary(self, Chunk *chunk) noexcept nogil:
        prefetch(hull_of(chunk).edges, hull_of(chunk).n * sizeof(Edge))

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Pool the slots of a chunk into edges, given that nothing but ``score`` has changed.

        Only the edge of the score is split into its slots, which are pooled again; a score between
        two edges counts to the one before it::

            edges    kept  |  of the score  |  from `tail` on
            slots          |  start .. stop |

        The edges before and after it are already hulls of their slots. They stay, except for those
        that are pooled with the new edges.
        """
        cdef ChunkHull *hull = hull_of(chunk)
        cdef Stack stack
        cdef const Edge *edge
        cdef const Edge *last
        cdef int start = 0, stop = chunk.size, n_made
        # Edges that are still valid, except for that of the score.
        cdef int n_old = 0 if score == -INFINITY else hull.n
        cdef int tail = n_old
        while tail > 0 and hull.edges[tail - 1].first > score:
            tail -= 1
        stack.edges, stack.kept, stack.n_made = hull.edges, max(tail - 1, 0), 0
        if tail > 0:
            start = find_slot(chunk, hull.edges[stack.kept].first)
        if tail < n_old:
            stop = find_slot(chunk, hull.edges[tail].first)
        push_slots(&stack, &chunk.slots[start], stop - start)
        # Nothing is made if the slot was removed and was an edge of its own. Then the edges before
        # and after it meet.
        while tail < n_old:
            edge = &hull.edges[tail]
            if stack.n_made > 0:
                last = top(&stack)
                if rises(last.weight, last.sum, edge.weight, edge.sum):
                    break
            push(&stack, edge.first, edge.last, edge.weight, edge.sum)
            tail += 1
        n_made = stack.kept + stack.n_made
        self.set_edges(hull, max(hull.n, n_made + n_old - tail))
        memmove(&hull.edges[n_made], &hull.edges[tail], (n_old - tail) * sizeof(Edge))
        memcpy(&hull.edges[stack.kept], stack.made, stack.n_made * sizeof(Edge))
        hull.n = n_made + n_old - tail
        sum_edges(hull, stack.kept, n_made)
        return 0

    cdef int set_edges(self, ChunkHull *hull, int n) except -1 nogil:
        """Give a chunk room for ``n`` edges, or somewhat more; its edges must fit."""
        cdef int room = (n + n // 8 + EDGE_STEP - 1) // EDGE_STEP * EDGE_STEP
        if n <= hull.room <= room + EDGE_STEP or room == 0:
            return 0
        resize(<void **> &hull.edges, room, sizeof(Edge))
        hull.room = room
        return 0

    cdef void fold_node(self, Node *node) noexcept nogil:
        """Bring the totals and the bridge of a node up to date with its children; O(depth)."""
        cdef Bridge *bridge = bridge_of(node)
        sum_children(node, bridge, node.dirty)
        if node.dirty & NEW or not (
            renew_bridge(node, bridge, node.dirty) and is_bridge(node, bridge, 0.0)
        ):
            find_bridge(node, bridge)

    cdef int restore_chunk(
        self, Chunk *chunk, const int64_t *lengths, const double *sums
    ) except -1 nogil:
        """Give a chunk edges by how many slots each covers and its sums; return how many."""
        cdef ChunkHull *hull = hull_of(chunk)
        cdef int covered = 0
        cdef Edge *edge
        while covered < chunk.size:
            self.set_edges(hull, hull.n + 1)
            edge = &hull.edges[hull.n]
            edge.first = chunk.slots[covered].score
            covered += <int> lengths[hull.n]
            edge.last = chunk.slots[covered - 1].score
            edge.weight, edge.sum = sums[2 * hull.n], sums[2 * hull.n + 1]
            hull.n += 1
        sum_edges(hull, 0, hull.n)
        return hull.n

    # Finding --------------------------------------------------------------------------------------

    cdef void edges_around(self, double score, Edge **left, Edge **right) noexcept nogil:
        """Find the edges left and right of a score; O(log n).

        Both are the same edge where the score lies on it, and one is NULL beyond the outermost
        scores.
        """
        cdef Cursor cursor = start_at(self.tree.root)
        cdef Edge *edge = find_open_edge(&cursor)
        left[0] = right[0] = NULL
        while edge != NULL:
            if score < edge.first:
                right[0] = edge
                edge = next_open_edge(edge, &cursor, LEFT)
            elif score > edge.last:
                left[0] = edge
                edge = next_open_edge(edge, &cursor, RIGHT)
            else:
                left[0] = right[0] = edge
                return

    cdef Edge *next_edge(self, double score) noexcept nogil:
        """Return the edge after the one that ends at ``score``, NULL if there is none; O(log n).

        After minus infinity comes the first edge.
        """
        cdef Cursor cursor = start_at(self.tree.root)
        cdef Edge *edge
        cdef Edge *found = NULL
        cursor.above = score
        edge = find_open_edge(&cursor)
        while edge != NULL:
            found = edge
            edge = next_open_edge(edge, &cursor, LEFT)
        return found

    cdef Sums pool_front(self, double w, double s, double *end) noexcept nogil:
        """Return the block that a sample (w, s) before all scores would form.

        ``end`` is set to its end, and not changed if the sample is a block by itself.
        """
        return pool_beyond(self.tree.root, LEFT, w, s, end)

    cdef Sums pool_back(self, double w, double s, double *end) noexcept nogil:
        """Do the same for a sample after all scores; set the score where its block starts."""
        return pool_beyond(self.tree.root, RIGHT, w, s, end)

    cdef Sums totals(self) noexcept nogil:
        """Return the sums of the whole index."""
        return totals_of(self.tree.root)


# Edges of a chunk ---------------------------------------------------------------------------------


cdef struct Stack:  # edges in the making: those that stay in front of a score, and new ones
    Edge *edges
    int kept
    Edge made[SLOTS]
    int n_made


cdef inline const Edge *top(const Stack *stack) noexcept nogil:
    """Return the last edge of a stack, which is not empty."""
    if stack.n_made > 0:
        return &stack.made[stack.n_made - 1]
    return &stack.edges[stack.kept - 1]


cdef inline void drop(Stack *stack) noexcept nogil:
    """Remove the last edge of a stack."""
    if stack.n_made > 0:
        stack.n_made -= 1
    else:
        stack.kept -= 1


cdef inline void push(
    Stack *stack, double first, double last, double w, double s
) noexcept nogil:
    """Push an edge on a stack; pool it with those before it as long as slopes do not rise."""
    cdef const Edge *before
    cdef Edge *edge
    while stack.n_made > 0 or stack.kept > 0:
        before = top(stack)
        if rises(before.weight, before.sum, w, s):
            break
        first = before.first
        w += before.weight
        s += before.sum
        drop(stack)
    edge = &stack.made[stack.n_made]
    edge.first, edge.last, edge.weight, edge.sum = first, last, w, s
    stack.n_made += 1


cdef inline void push_slots(Stack *stack, const Slot *slots, int n) noexcept nogil:
    """Push slots on a stack: as one edge if all must be pooled, else one by one."""
    cdef Sums total
    cdef int i
    if pool_all(slots, n, &total):
        push(stack, slots[0].score, slots[n - 1].score, total.weight, total.sum)
        return
    for i in range(n):
        push(stack, slots[i].score, slots[i].score, slots[i].weight, slots[i].sum)


cdef bint pool_all(const Slot *slots, int n, Sums *total) noexcept nogil:
    """Sum up slots if all of them must be pooled into one edge; else return False.

    They must if, for every cut, the mean of the first part is not below that of the rest. In most
    updates an edge is split only to be pooled again; this test is faster than the stack.
    """
    cdef Sums behind[SLOTS]
    cdef double w = 0.0, s = 0.0
    cdef int i
    if n == 0:
        return False
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
    total.weight, total.sum = w + slots[n - 1].weight, s + slots[n - 1].sum
    return True


cdef void sum_edges(ChunkHull *hull, int start, int stop) noexcept nogil:
    """Compute the sums beside each edge of a chunk; edges from start to stop are new."""
    cdef Sums sums = Sums(weight=0.0, sum=0.0)
    cdef Edge *edge
    cdef int j
    if start > 0:
        sums = with_edge(&hull.edges[start - 1].beside[LEFT], &hull.edges[start - 1])
    for j in range(start, hull.n):
        edge = &hull.edges[j]
        edge.beside[LEFT] = sums
        sums = with_edge(&sums, edge)
    sums = Sums(weight=0.0, sum=0.0)
    if stop < hull.n:
        sums = with_edge(&hull.edges[stop].beside[RIGHT], &hull.edges[stop])
    for j in range(stop - 1, -1, -1):
        edge = &hull.edges[j]
        edge.beside[RIGHT] = sums
        sums = with_edge(&sums, edge)
    hull.total = sums


cdef inline Sums with_edge(const Sums *sums, const Edge *edge) noexcept nogil:
    return Sums(weight=sums.weight + edge.weight, sum=sums.sum + edge.sum)


cdef inline Sums sum_of(const Sums *a, const Sums *b) noexcept nogil:
    return Sums(weight=a.weight + b.weight, sum=a.sum + b.sum)


cdef inline double slope_of(const Edge *edge) noexcept nogil:
    return edge.sum / edge.weight


cdef inline double end_of(const Edge *edge, int side) noexcept nogil:
    return edge.first if side == LEFT else edge.last


cdef inline void set_end(Edge *edge, int side, double score) noexcept nogil:
    if side == LEFT:
        edge.first = score
    else:
        edge.last = score


cdef Sums totals_of(Node *node) noexcept nogil:
    """Return the sums of all slots below a node."""
    cdef Bridge *bridge
    if is_chunk(node):
        return hull_of(<Chunk *> node).total
    bridge = bridge_of(node)
    return sum_of(&bridge.total[LEFT], &bridge.total[RIGHT])


# Walking a hull -----------------------------------------------------------------------------------

# A cursor goes down the tree in search of an edge. Its *current* edge is the bridge of a node, or
# the middle one of the open edges of a chunk. An edge is open if it may be the one in question and
# is part of the hull, which edges above a bridge are not.


cdef inline Cursor start_at(Node *node) noexcept nogil:
    """Return a cursor over the whole hull of a node."""
    cdef Cursor cursor
    cursor.above, cursor.below = -INFINITY, INFINITY
    cursor.beside_node[LEFT] = cursor.beside_node[RIGHT] = Sums(weight=0.0, sum=0.0)
    enter_node(&cursor, node)
    return cursor


cdef inline void enter_node(Cursor *cursor, Node *node) noexcept nogil:
    cursor.node = node
    cursor.low = 0
    cursor.high = hull_of(<Chunk *> node).n if is_chunk(node) else 0


cdef inline void turn_cursor(Cursor *cursor, int side) noexcept nogil:
    """Move a cursor to one side of its current edge, which is closed then."""
    cdef int middle, other = 1 - side
    cdef const Sums *total
    if is_chunk(cursor.node):
        middle = (cursor.low + cursor.high) >> 1
        if side == LEFT:
            cursor.high = middle
        else:
            cursor.low = middle + 1
        return
    total = &bridge_of(cursor.node).total[other]
    cursor.beside_node[other] = sum_of(&cursor.beside_node[other], total)
    enter_node(cursor, cursor.node.child[side])


cdef inline Edge *find_open_edge(Cursor *cursor) noexcept nogil:
    """Move a cursor down to an open edge and return it, NULL if there is none."""
    cdef Edge *edge
    while True:
        if not is_chunk(cursor.node):
            edge = &bridge_of(cursor.node).edge
        elif cursor.low < cursor.high:
            edge = &hull_of(<Chunk *> cursor.node).edges[(cursor.low + cursor.high) >> 1]
        else:
            return NULL
        if edge.last >= cursor.below:
            turn_cursor(cursor, LEFT)
        elif edge.first <= cursor.above:
            turn_cursor(cursor, RIGHT)
        else:
            return edge


cdef inline Edge *next_open_edge(const Edge *edge, Cursor *cursor, int side) noexcept nogil:
    """Keep only the edges on one side of an edge open, and find the next open one."""
    turn_cursor(cursor, side)
    if side == LEFT:
        cursor.below = edge.first
    else:
        cursor.above = edge.last
    return find_open_edge(cursor)


cdef inline Sums pool_beyond(Node *root, int side, double w, double s, double *end) noexcept nogil:
    """Return the block that a sample (w, s) would form beyond all scores on a side."""
    cdef Cursor cursor = start_at(root)
    cdef Edge *edge = find_open_edge(&cursor)
    cdef Sums pooled = Sums(weight=w, sum=s), beside
    cdef double outside, inside  # slopes, times both weights
    cdef bint is_pooled
    while edge != NULL:
        beside.weight = w + cursor.beside_node[side].weight + edge.beside[side].weight
        beside.sum = s + cursor.beside_node[side].sum + edge.beside[side].sum
        outside, inside = beside.sum * edge.weight, edge.sum * beside.weight
        is_pooled = outside >= inside if side == LEFT else inside >= outside
        if is_pooled:
            pooled = with_edge(&beside, edge)
            end[0] = end_of(edge, 1 - side)
            edge = next_open_edge(edge, &cursor, 1 - side)
        else:
            edge = next_open_edge(edge, &cursor, side)
    return pooled


# Bridges ------------------------------------------------------------------------------------------


cdef struct Vertex:
    Edge *edge[2]  # the edges left and right of it
    Sums beside_node[2]  # what is left and right of the chunk or node that keeps the inner one


cdef inline bint crosses(const Node *node, const Bridge *bridge) noexcept nogil:
    """Return whether a bridge crosses the middle; if not, it is the left child's last edge."""
    return bridge.edge.last >= node.key


cdef inline void sum_children(Node *node, Bridge *bridge, int dirty) noexcept nogil:
    """Bring the totals of a node's children up to date."""
    if dirty & (LEFT_CHANGED | NEW):
        bridge.total[LEFT] = totals_of(node.child[LEFT])
    if dirty & (RIGHT_CHANGED | NEW):
        bridge.total[RIGHT] = totals_of(node.child[RIGHT])


cdef bint renew_bridge(Node *node, Bridge *bridge, int dirty) noexcept nogil:
    """Update the sums of a bridge, and the slopes next to its ends, if its ends are still vertices.

    Else return False. Most updates do not move most bridges. This check walks down each changed
    child once, and only compares scores. A bridge that does not cross is the left child's last
    edge, whichever that is now.
    """
    cdef Edge *edge = &bridge.edge
    if not crosses(node, bridge):
        if dirty & LEFT_CHANGED:
            store_last_edge(node, bridge)
        if dirty & RIGHT_CHANGED:
            bridge.outer_slope[RIGHT] = first_slope(node.child[RIGHT])
            edge.beside[RIGHT] = bridge.total[RIGHT]
        return True
    if dirty & LEFT_CHANGED and not renew_end(node, bridge, LEFT):
        return False
    if dirty & RIGHT_CHANGED and not renew_end(node, bridge, RIGHT):
        return False
    edge.weight = bridge.part[LEFT].weight + bridge.part[RIGHT].weight
    edge.sum = bridge.part[LEFT].sum + bridge.part[RIGHT].sum
    return True


cdef inline bint renew_end(Node *node, Bridge *bridge, int side) noexcept nogil:
    """Update one end of a bridge and the sums of that child; False if the vertex is gone."""
    cdef int other = 1 - side
    cdef Edge *edge = &bridge.edge
    cdef Edge *inner
    cdef Edge *outer
    cdef Vertex vertex
    cdef Sums inside
    find_vertex(node.child[side], end_of(edge, side), side, &vertex)
    inner, outer = vertex.edge[other], vertex.edge[side]
    if inner == NULL:
        return False
    bridge.under_slope[side] = slope_of(inner)
    if outer != NULL:
        bridge.outer_slope[side] = slope_of(outer)
    else:
        bridge.outer_slope[side] = -INFINITY if side == LEFT else INFINITY
    set_end(edge, side, end_of(inner, side))
    edge.beside[side] = sum_of(&vertex.beside_node[side], &inner.beside[side])
    inside = sum_of(&vertex.beside_node[other], &inner.beside[other])
    bridge.part[side] = with_edge(&inside, inner)
    return True


cdef bint is_bridge(Node *node, Bridge *bridge, double slack) noexcept nogil:
    """Return whether a bridge is still right by the slopes next to its ends.

    Slopes may be in the wrong order if they differ by less than ``slack``.
    """
    cdef double slope
    if not crosses(node, bridge):  # its own slope is below that of the right child's first edge
        return bridge.under_slope[LEFT] - slack < bridge.outer_slope[RIGHT]
    slope = slope_of(&bridge.edge)
    return (
        bridge.outer_slope[LEFT] - slack < slope
        and slope - slack <= bridge.under_slope[LEFT]
        and bridge.under_slope[RIGHT] - slack <= slope
        and slope - slack < bridge.outer_slope[RIGHT]
    )


cdef enum:
    INSIDE = 2  # beside LEFT and RIGHT


cdef inline int side_of(const Edge *edge, double score, int side) noexcept nogil:
    """Return on which side of an edge a place is, or INSIDE.

    The place is right before ``score`` if ``side`` is LEFT, and right after it otherwise.
    """
    if edge.last < score or (side == RIGHT and edge.last == score):
        return RIGHT
    if edge.first > score or (side == LEFT and edge.first == score):
        return LEFT
    return INSIDE


cdef inline int pass_edge(
    Edge *edge, double score, int side, Cursor *cursor, Vertex *vertex
) noexcept nogil:
    """Return on which side of an edge the vertex is; note the edge if it is the nearest so far."""
    cdef int to
    if edge.last >= cursor.below:
        return LEFT
    if edge.first <= cursor.above:
        return RIGHT
    to = side_of(edge, score, side)
    if to == INSIDE:
        return INSIDE
    if to == LEFT:
        cursor.below = edge.first
    else:
        cursor.above = edge.last
    vertex.edge[1 - to] = edge
    if to == side:  # the inner edge
        vertex.beside_node[LEFT] = cursor.beside_node[LEFT]
        vertex.beside_node[RIGHT] = cursor.beside_node[RIGHT]
    return to


cdef inline void find_vertex(Node *node, double score, int side, Vertex *vertex) noexcept nogil:
    """Find the vertex of a node's hull right before ``score`` (LEFT) or right after it (RIGHT).

    A bridge ends there. ``vertex.edge[side]`` is the edge beyond its end, ``vertex.edge[1 - side]``
    the inner one, which is pooled into the bridge. If an edge spans this place it is no vertex, and
    both are NULL. This does the work of `find_open_edge` and `next_open_edge` in one loop, because
    it runs for nearly every level of every update.
    """
    cdef Cursor cursor
    cdef int middle, to
    cdef Bridge *bridge
    cdef ChunkHull *hull
    cursor.above, cursor.below = -INFINITY, INFINITY
    cursor.beside_node[LEFT] = cursor.beside_node[RIGHT] = Sums(weight=0.0, sum=0.0)
    vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
    while not is_chunk(node):
        bridge = bridge_of(node)
        to = pass_edge(&bridge.edge, score, side, &cursor, vertex)
        if to == INSIDE:
            vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
            return
        cursor.beside_node[1 - to] = sum_of(&cursor.beside_node[1 - to], &bridge.total[1 - to])
        node = node.child[to]
    hull = hull_of(<Chunk *> node)
    cursor.low, cursor.high = 0, hull.n
    while cursor.low < cursor.high:
        middle = (cursor.low + cursor.high) >> 1
        to = pass_edge(&hull.edges[middle], score, side, &cursor, vertex)
        if to == INSIDE:
            vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
            return
        if to == LEFT:
            cursor.high = middle
        else:
            cursor.low = middle + 1


cdef void store_last_edge(Node *node, Bridge *bridge) noexcept nogil:
    """Make the last edge of the left child's hull the bridge of a node."""
    cdef Cursor cursor = start_at(node.child[LEFT])
    cdef Edge *last = find_open_edge(&cursor)
    cdef Edge *edge = &bridge.edge
    while last.beside[RIGHT].weight > 0.0:
        last = next_open_edge(last, &cursor, RIGHT)
    edge[0] = last[0]
    edge.beside[LEFT] = sum_of(&cursor.beside_node[LEFT], &last.beside[LEFT])
    edge.beside[RIGHT] = bridge.total[RIGHT]
    bridge.under_slope[LEFT] = slope_of(last)


cdef double first_slope(Node *node) noexcept nogil:
    """Return the slope of the first edge of a node's hull."""
    cdef Cursor cursor = start_at(node)
    cdef Edge *edge = find_open_edge(&cursor)
    while edge.beside[LEFT].weight > 0.0:
        edge = next_open_edge(edge, &cursor, LEFT)
    return slope_of(edge)


# Finding a bridge ---------------------------------------------------------------------------------


cdef struct Search:  # for the end of a bridge, in the hull of the child on a side
    Cursor cursor
    Edge *edge  # the current edge, NULL if none is open
    double slope
    Sums between  # sums of what is between the edge and the middle
    # The outermost edge that is known to be pooled:
    bint found
    double end
    double under_slope  # its slope: it is the last one under the bridge
    Sums part  # sums of it and of what is between it and the middle
    Sums beyond  # sums of what is on its other side
    double outer_slope  # of the innermost edge that is known not to be pooled


cdef inline void start_search(Search *search, Node *node, int side) noexcept nogil:
    search.cursor = start_at(node)
    search.found = False
    search.end = search.under_slope = search.slope = 0.0
    search.part = search.beyond = search.between = Sums(weight=0.0, sum=0.0)
    search.outer_slope = -INFINITY if side == LEFT else INFINITY
    search.edge = find_open_edge(&search.cursor)
    read_edge(search, side)


cdef inline void read_edge(Search *search, int side) noexcept nogil:
    """Store slope and sums of the current edge."""
    cdef int inwards = 1 - side
    if search.edge != NULL:
        search.slope = slope_of(search.edge)
        search.between = sum_of(&search.cursor.beside_node[inwards], &search.edge.beside[inwards])


cdef inline void move_search(Search *search, int side, bint pooled) noexcept nogil:
    """Continue outwards from an edge that is ``pooled``, inwards from any other."""
    cdef Edge *edge = search.edge
    if pooled:
        search.found, search.under_slope, search.end = True, search.slope, end_of(edge, side)
        search.part = with_edge(&search.between, edge)
        search.beyond = sum_of(&search.cursor.beside_node[side], &edge.beside[side])
        search.edge = next_open_edge(edge, &search.cursor, side)
    else:
        search.outer_slope = search.slope
        search.edge = next_open_edge(edge, &search.cursor, 1 - side)
    read_edge(search, side)


cdef void find_bridge(Node *node, Bridge *bridge) noexcept nogil:
    """Find the bridge of a node by walking both children's hulls at once.

    Each step compares an edge e of the left hull with an edge f of the right one. It decides for at
    least one of them whether the bridge covers it (it is pooled). If so, all edges between it and
    the middle are pooled, too; if not, none beyond it is. Slopes are kept of the edges next to the
    ends of the bridge::

        left child ... not pooled | pooled ... |  middle  | ... pooled | not pooled ... right child
                      outer_slope | under_slope            under_slope | outer_slope
                                  '------------ the bridge ------------'
    """
    cdef Search left, right
    cdef Edge *edge = &bridge.edge
    cdef bint pooled
    start_search(&left, node.child[LEFT], LEFT)
    start_search(&right, node.child[RIGHT], RIGHT)
    while True:
        if left.edge != NULL and right.edge != NULL:
            compare(&left, &right)
        elif left.edge != NULL and right.found:  # the slope to the right end decides
            pooled = (
                left.slope * (left.between.weight + right.part.weight)
                >= left.between.sum + right.part.sum
            )
            move_search(&left, LEFT, pooled)
        elif right.edge != NULL and left.found:
            pooled = (
                right.slope * (right.between.weight + left.part.weight)
                <= right.between.sum + left.part.sum
            )
            move_search(&right, RIGHT, pooled)
        else:
            break
    if not (left.found and right.found):  # nothing is pooled across the middle
        store_last_edge(node, bridge)
        bridge.outer_slope[RIGHT] = first_slope(node.child[RIGHT])
        return
    edge.first, edge.last = left.end, right.end
    edge.weight = left.part.weight + right.part.weight
    edge.sum = left.part.sum + right.part.sum
    edge.beside[LEFT], edge.beside[RIGHT] = left.beyond, right.beyond
    bridge.part[LEFT], bridge.part[RIGHT] = left.part, right.part
    bridge.outer_slope[LEFT], bridge.outer_slope[RIGHT] = left.outer_slope, right.outer_slope
    bridge.under_slope[LEFT], bridge.under_slope[RIGHT] = left.under_slope, right.under_slope


cdef inline void compare(Search *left, Search *right) noexcept nogil:
    """Decide about the current edge on one side or on both, and continue from there.

    These are the four tests at the top of the module: e is the left edge, and f the right one.
    """
    cdef double e_slope = left.slope, f_slope = right.slope
    cdef double g_left = left.between.sum - e_slope * left.between.weight  # g_L(slope(e))
    cdef double g_right = f_slope * right.between.weight - right.between.sum  # g_R(slope(f))
    cdef bint falls = e_slope >= f_slope, e_settled, f_settled
    cdef Sums span
    if falls:
        span = with_edge(&right.between, right.edge)  # from the middle to the far end of f
        e_settled = g_left < e_slope * span.weight - span.sum
        span = with_edge(&left.between, left.edge)  # from the far end of e to the middle
        f_settled = g_right < span.sum - f_slope * span.weight
    else:
        e_settled, f_settled = g_left >= g_right, g_right >= g_left
    if not (e_settled or f_settled):  # equal slopes, or sums that overflowed and are no numbers
        e_settled = f_settled = True
    # If slopes fall, an edge that is settled is pooled; else it is not.
    if e_settled:
        move_search(left, LEFT, falls)
    if f_settled:
        move_search(right, RIGHT, falls)


# Bytes --------------------------------------------------------------------------------------------

# The sums of an edge depend on the order in which its slots were pooled. So a hull that is to be
# equal to the last bit is written as the edges of its chunks with their sums, and as the scores
# where each bridge starts and ends. Everything else follows from these by the rules above.


cdef void copy_bridges(Node *node, double **ends) noexcept nogil:
    """Write first and last score of all bridges in preorder."""
    if is_chunk(node):
        return
    ends[0][0] = bridge_of(node).edge.first
    ends[0][1] = bridge_of(node).edge.last
    ends[0] += 2
    copy_bridges(node.child[LEFT], ends)
    copy_bridges(node.child[RIGHT], ends)


cdef bint restore_bridges(Node *node, const double **ends, double slack) noexcept nogil:
    """Set the ends of the nodes' bridges, in preorder; return False if they are impossible.

    When the bridges were found, sums were rounded in another order, so slopes get some tolerance.
    """
    cdef Bridge *bridge
    cdef double first, last
    if is_chunk(node):
        return True
    first, last = ends[0][0], ends[0][1]
    ends[0] += 2
    if not restore_bridges(node.child[LEFT], ends, slack):
        return False
    if not restore_bridges(node.child[RIGHT], ends, slack):
        return False
    bridge = bridge_of(node)
    sum_children(node, bridge, NEW)
    bridge.edge.first, bridge.edge.last = first, last
    if not (
        first <= last
        and renew_bridge(node, bridge, LEFT_CHANGED | RIGHT_CHANGED)
        and is_bridge(node, bridge, slack)
    ):
        return False
    node.dirty = CLEAN
    return bridge.edge.first == first and bridge.edge.last == last and first < node.key
