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

Inserting a sample moves every later point by the same vector. A node describes its part of the hull
relative to its own first point, so it changes only if a chunk below it changes.

A *chunk* keeps the hull of its slots, edge by edge. A *node* keeps one edge, its *bridge*: the one
that crosses from the left child's points to the right child's or, where nothing is pooled across
the middle, the last edge of the left child's hull. Its hull consists of the left child's hull up to
the start of the bridge, the bridge, and the right child's hull from the end of the bridge on. Edges
above the bridge are not part of it. Edges are identified by scores, which are exact: an edge covers
the scores ``first`` to ``last``.

Numbers. Each edge stores its own sums and those of the scores before and after it in its chunk or
node. All sums are computed by additions only, never as a difference of two running totals. So a
block of weight 1e-12 between blocks of weight 1e12 keeps its digits, and so does a sample whose
weight has decayed to 2**-200. Integer weights and statistics below 2**53 give exact sums. Slopes
and the tests below are rounded once or twice; a wrong result of a test only concerns edges whose
slopes are equal up to rounding. Equal slopes are pooled.

The search for a bridge walks both children's hulls at once and excludes part of one or of both in
each step (Overmars & van Leeuwen 1981, sec. 3, in the variables of pooling). With an edge e of
the left hull, an edge f of the right one, and g_L(v) = max over left points p of (sums behind p) -
v (weight behind p), g_R(v) the same for what lies before a right point, the pooled mean v* is where
the falling g_L crosses the rising g_R. From g_L at slope(e), g_R at slope(f) and bounds of each at
the other's slope, it follows for at least one of the two slopes on which side of v* it lies.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from streamcal.kernels.score_index cimport (
    LEFT,
    NEW,
    RIGHT,
    SLOTS,
    Chunk,
    Node,
    ScoreIndex,
    Slot,
    find_slot,
    is_chunk,
    out_of_memory,
    prefetch,
)

cdef enum:
    EDGE_STEP = 4  # edges that a chunk's room grows by


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

    cdef void fetch_summary(self, Chunk *chunk) noexcept nogil:
        prefetch(hull_of(chunk).edges, hull_of(chunk).n * sizeof(Edge))

    cdef int fold_chunk(self, Chunk *chunk, double score) except -1 nogil:
        """Pool the slots of a chunk into edges, given that nothing but ``score`` has changed.

        Only the edge of the score is split into its slots, which are pooled again::

            edges    kept  |  of the score  |  from `tail` on
            slots          |  start .. stop |

        The edges before and after it are already hulls of their slots. They stay, except for those
        that are pooled with the new edges.
        """
        cdef ChunkHull *hull = hull_of(chunk)
        cdef Stack stack
        cdef const Edge *edge
        cdef int n = 0 if score == -INFINITY else hull.n  # edges that are looked at
        cdef int tail = n, start = 0, stop = chunk.size, n_made
        while tail > 0 and hull.edges[tail - 1].first > score:
            tail -= 1
        stack.edges, stack.kept, stack.n_made = hull.edges, max(tail - 1, 0), 0
        if tail > 0:
            start = find_slot(chunk, hull.edges[stack.kept].first)
        if tail < n:
            stop = find_slot(chunk, hull.edges[tail].first)
        push_slots(&stack, &chunk.slots[start], stop - start)
        while tail < n and (
            stack.n_made == 0 or not rises(&stack.made[stack.n_made - 1], &hull.edges[tail])
        ):
            edge = &hull.edges[tail]
            push(&stack, edge.first, edge.last, edge.weight, edge.sum)
            tail += 1
        n_made = stack.kept + stack.n_made
        self.set_edges(hull, max(hull.n, n_made + n - tail))
        memmove(&hull.edges[n_made], &hull.edges[tail], (n - tail) * sizeof(Edge))
        memcpy(&hull.edges[stack.kept], stack.made, stack.n_made * sizeof(Edge))
        hull.n = n_made + n - tail
        sum_edges(hull, stack.kept, n_made)
        return 0

    cdef int set_edges(self, ChunkHull *hull, int n) except -1 nogil:
        """Give a chunk room for ``n`` edges, or somewhat more; its edges must fit."""
        cdef int room = (n + n // 8 + EDGE_STEP - 1) // EDGE_STEP * EDGE_STEP
        cdef Edge *edges
        if n <= hull.room <= room + EDGE_STEP or room == 0:
            return 0
        edges = <Edge *> realloc(hull.edges, room * sizeof(Edge))
        if edges == NULL:
            return out_of_memory()
        hull.edges, hull.room = edges, room
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

    # ------------------------------------------------------------------ finding

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
                edge = go(edge, &cursor, LEFT)
            elif score > edge.last:
                left[0] = edge
                edge = go(edge, &cursor, RIGHT)
            else:
                left[0] = right[0] = edge
                return

    cdef Edge *behind(self, double score) noexcept nogil:
        """Return the first edge after a score, which is an edge's last score or -inf; O(log n)."""
        cdef Cursor cursor = start_at(self.root)
        cdef Edge *edge
        cdef Edge *found = NULL
        cursor.above = score
        edge = seek(&cursor)
        while edge != NULL:
            found = edge
            edge = go(edge, &cursor, LEFT)
        return found

    cdef Sums pool_front(self, double w, double s, double *end) noexcept nogil:
        """Return the block that a sample (w, s) before all scores would form.

        ``end`` is set to its end, and not changed if the sample is a block by itself.
        """
        return pool_beyond(self.root, LEFT, w, s, end)

    cdef Sums pool_back(self, double w, double s, double *end) noexcept nogil:
        """Do the same for a sample after all scores; set the score where its block starts."""
        return pool_beyond(self.root, RIGHT, w, s, end)

    cdef Sums totals(self) noexcept nogil:
        """Return the sums of the whole index."""
        return totals_of(self.root)


# ---------------------------------------------------------------------- edges of a chunk


cdef struct Stack:  # edges in the making: those that stay in front of a score, and new ones
    Edge *edges
    int kept
    Edge made[SLOTS]
    int n_made


cdef inline bint rises(const Edge *edge, const Edge *after) noexcept nogil:
    """Return whether an edge is not pooled with the one before it."""
    return after.sum * edge.weight > edge.sum * after.weight


cdef inline void push(
    Stack *stack, double first, double last, double w, double s
) noexcept nogil:
    """Push an edge on a stack; pool it with those before it as long as slopes do not rise."""
    cdef const Edge *before
    cdef Edge *edge
    while stack.n_made > 0 or stack.kept > 0:
        if stack.n_made > 0:
            before = &stack.made[stack.n_made - 1]
        else:
            before = &stack.edges[stack.kept - 1]
        if s * before.weight > before.sum * w:
            break
        first = before.first
        w += before.weight
        s += before.sum
        if stack.n_made > 0:
            stack.n_made -= 1
        else:
            stack.kept -= 1
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

    They must if, for every cut, the mean of the first part is not below that of the rest.
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


cdef inline Sums both(const Sums *a, const Sums *b) noexcept nogil:
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
    return both(&bridge.total[LEFT], &bridge.total[RIGHT])


# ---------------------------------------------------------------------- walking a hull

# A cursor is at a node or a chunk of the tree, and the next edge is searched below it. It stores
# the range of open edges in a chunk, the scores that bound open edges (exclusive), and the sums
# left and right of its position within the hull.


cdef inline Cursor start_at(Node *node) noexcept nogil:
    """Return a cursor over the whole hull of a node."""
    cdef Cursor cursor
    cursor.above, cursor.below = -INFINITY, INFINITY
    cursor.beside[LEFT] = cursor.beside[RIGHT] = Sums(weight=0.0, sum=0.0)
    enter(&cursor, node)
    return cursor


cdef inline void enter(Cursor *cursor, Node *node) noexcept nogil:
    cursor.node = node
    cursor.low = 0
    cursor.high = hull_of(<Chunk *> node).n if is_chunk(node) else 0


cdef inline void turn(Cursor *cursor, int side) noexcept nogil:
    """Move a cursor to one side of its current edge."""
    cdef int middle, other = 1 - side
    if is_chunk(cursor.node):
        middle = (cursor.low + cursor.high) >> 1
        if side == LEFT:
            cursor.high = middle
        else:
            cursor.low = middle + 1
        return
    cursor.beside[other] = both(&cursor.beside[other], &bridge_of(cursor.node).total[other])
    enter(cursor, cursor.node.child[side])


cdef inline Edge *seek(Cursor *cursor) noexcept nogil:
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
            turn(cursor, LEFT)
        elif edge.first <= cursor.above:
            turn(cursor, RIGHT)
        else:
            return edge


cdef inline Edge *go(const Edge *edge, Cursor *cursor, int side) noexcept nogil:
    """Keep only the edges on one side of an edge open, and find the next open one."""
    turn(cursor, side)
    if side == LEFT:
        cursor.below = edge.first
    else:
        cursor.above = edge.last
    return seek(cursor)


cdef inline Sums pool_beyond(Node *root, int side, double w, double s, double *end) noexcept nogil:
    """Return the block that a sample (w, s) would form beyond all scores on a side."""
    cdef Cursor cursor = start_at(root)
    cdef Edge *edge = seek(&cursor)
    cdef Sums pooled = Sums(weight=w, sum=s), beside
    cdef double outside, inside  # slopes, times both weights
    while edge != NULL:
        beside.weight = w + cursor.beside[side].weight + edge.beside[side].weight
        beside.sum = s + cursor.beside[side].sum + edge.beside[side].sum
        outside, inside = beside.sum * edge.weight, edge.sum * beside.weight
        if outside >= inside if side == LEFT else inside >= outside:
            pooled = with_edge(&beside, edge)
            end[0] = end_of(edge, 1 - side)
            edge = go(edge, &cursor, 1 - side)
        else:
            edge = go(edge, &cursor, side)
    return pooled


# ---------------------------------------------------------------------- bridges


cdef struct Vertex:
    Edge *edge[2]  # the edges left and right of it
    Sums beside[2]  # what is beside the chunk or node that keeps the inner one of them


cdef inline void sum_children(Node *node, Bridge *bridge) noexcept nogil:
    """Bring the totals of a node's children up to date."""
    if node.dirty & (1 << LEFT | NEW):
        bridge.total[LEFT] = totals_of(node.child[LEFT])
    if node.dirty & (1 << RIGHT | NEW):
        bridge.total[RIGHT] = totals_of(node.child[RIGHT])


cdef bint renew_bridge(Node *node, Bridge *bridge) noexcept nogil:
    """Update the sums of a bridge between the same two vertices; False if one no longer exists.

    Most updates do not move most bridges. This check takes one walk down the changed child, which
    only compares scores.
    """
    cdef Edge *edge = &bridge.edge
    if edge.last < node.key:  # nothing was pooled across the middle
        if node.dirty & 1 << LEFT:
            store_last_edge(node, bridge)
        if node.dirty & 1 << RIGHT:
            bridge.outer[RIGHT] = first_slope(node.child[RIGHT])
            edge.beside[RIGHT] = bridge.total[RIGHT]
        return True
    if node.dirty & 1 << LEFT and not renew_end(node, bridge, LEFT):
        return False
    if node.dirty & 1 << RIGHT and not renew_end(node, bridge, RIGHT):
        return False
    edge.weight = bridge.part[LEFT].weight + bridge.part[RIGHT].weight
    edge.sum = bridge.part[LEFT].sum + bridge.part[RIGHT].sum
    return True


cdef inline bint renew_end(Node *node, Bridge *bridge, int side) noexcept nogil:
    """Update one end of a bridge and the sums of that child; False if the vertex is gone.
    """
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
    bridge.inner[side] = slope_of(inner)
    if outer != NULL:
        bridge.outer[side] = slope_of(outer)
    else:
        bridge.outer[side] = -INFINITY if side == LEFT else INFINITY
    set_end(edge, side, end_of(inner, side))
    edge.beside[side] = both(&vertex.beside[side], &inner.beside[side])
    inside = both(&vertex.beside[other], &inner.beside[other])
    bridge.part[side] = with_edge(&inside, inner)
    return True


cdef bint is_bridge(Node *node, Bridge *bridge, double slack) noexcept nogil:
    """Return whether a bridge is still right by the slopes next to its ends.

    Slopes may be in the wrong order if they differ by less than ``slack``.
    """
    cdef double slope
    if bridge.edge.last < node.key:
        return bridge.inner[LEFT] - slack < bridge.outer[RIGHT]
    slope = slope_of(&bridge.edge)
    return (
        bridge.outer[LEFT] - slack < slope
        and slope - slack <= bridge.inner[LEFT]
        and bridge.inner[RIGHT] - slack <= slope
        and slope - slack < bridge.outer[RIGHT]
    )


cdef inline void find_vertex(Node *node, double score, int side, Vertex *vertex) noexcept nogil:
    """Find the vertex of a node's hull right in front of ``score`` (LEFT) or right behind it.

    A bridge has its end there, and the edge on the other side of the vertex is the inner one. If an
    edge crosses this place there is no vertex, and both edges are NULL. This is a shorter `seek`,
    because it runs for nearly every level of every update.
    """
    cdef double above = -INFINITY, below = INFINITY
    cdef int inner = 1 - side, low, high, middle, to
    cdef Sums beside[2]
    cdef Edge *edge
    cdef Bridge *bridge
    cdef ChunkHull *hull
    beside[LEFT] = beside[RIGHT] = Sums(weight=0.0, sum=0.0)
    vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
    while not is_chunk(node):
        bridge = bridge_of(node)
        edge = &bridge.edge
        if edge.last >= below:
            to = LEFT
        elif edge.first <= above:
            to = RIGHT
        else:
            to = where(edge, score, side)
            if to == STRADDLES:
                vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
                return
            if to == LEFT:
                below = edge.first
            else:
                above = edge.last
            vertex.edge[1 - to] = edge
            if inner == 1 - to:
                vertex.beside[LEFT], vertex.beside[RIGHT] = beside[LEFT], beside[RIGHT]
        beside[1 - to] = both(&beside[1 - to], &bridge.total[1 - to])
        node = node.child[to]
    hull = hull_of(<Chunk *> node)
    low, high = 0, hull.n
    while low < high:
        middle = (low + high) >> 1
        edge = &hull.edges[middle]
        if edge.last >= below:
            to = LEFT
        elif edge.first <= above:
            to = RIGHT
        else:
            to = where(edge, score, side)
            if to == STRADDLES:
                vertex.edge[LEFT] = vertex.edge[RIGHT] = NULL
                return
            vertex.edge[1 - to] = edge
            if inner == 1 - to:
                vertex.beside[LEFT], vertex.beside[RIGHT] = beside[LEFT], beside[RIGHT]
        if to == LEFT:
            high = middle
        else:
            low = middle + 1


cdef enum:
    STRADDLES = 2


cdef inline int where(const Edge *edge, double score, int side) noexcept nogil:
    """Return on which side of an edge the place in front of (LEFT) or behind ``score`` is."""
    if edge.last < score or (side == RIGHT and edge.last == score):
        return RIGHT
    if edge.first > score or (side == LEFT and edge.first == score):
        return LEFT
    return STRADDLES


cdef void store_last_edge(Node *node, Bridge *bridge) noexcept nogil:
    """Make the last edge of the left child's hull the bridge of a node."""
    cdef Cursor cursor = start_at(node.child[LEFT])
    cdef Edge *last = seek(&cursor)
    cdef Edge *edge = &bridge.edge
    while last.beside[RIGHT].weight > 0.0:
        last = go(last, &cursor, RIGHT)
    edge[0] = last[0]
    edge.beside[LEFT] = both(&cursor.beside[LEFT], &last.beside[LEFT])
    edge.beside[RIGHT] = bridge.total[RIGHT]
    bridge.inner[LEFT] = slope_of(last)


cdef double first_slope(Node *node) noexcept nogil:
    """Return the slope of the first edge of a node's hull."""
    cdef Cursor cursor = start_at(node)
    cdef Edge *edge = seek(&cursor)
    while edge.beside[LEFT].weight > 0.0:
        edge = go(edge, &cursor, LEFT)
    return slope_of(edge)


# ---------------------------------------------------------------------- finding a bridge


cdef struct Search:  # for the end of a bridge, in the hull of the child on a side
    Cursor cursor
    Edge *edge  # the current edge, NULL if none is open
    double slope
    Sums between  # sums of what is between the edge and the middle
    # The outermost edge that is known to be pooled:
    bint found
    double end
    double inner  # its slope
    Sums part  # sums of it and of what is between it and the middle
    Sums beside  # sums of what is beyond it
    double outer  # slope of the innermost edge that is known not to be pooled


cdef inline void start(Search *search, Node *node, int side) noexcept nogil:
    search.cursor = start_at(node)
    search.found = False
    search.end = search.inner = search.slope = 0.0
    search.part = search.beside = search.between = Sums(weight=0.0, sum=0.0)
    search.outer = -INFINITY if side == LEFT else INFINITY
    search.edge = seek(&search.cursor)
    look(search, side)


cdef inline void look(Search *search, int side) noexcept nogil:
    """Store slope and sums of the current edge."""
    cdef int inwards = 1 - side
    if search.edge != NULL:
        search.slope = slope_of(search.edge)
        search.between = both(&search.cursor.beside[inwards], &search.edge.beside[inwards])


cdef inline void move(Search *search, int side, bint pooled) noexcept nogil:
    """Continue outwards from an edge that is ``pooled``, inwards from any other."""
    cdef Edge *edge = search.edge
    if pooled:
        search.found, search.inner, search.end = True, search.slope, end_of(edge, side)
        search.part = with_edge(&search.between, edge)
        search.beside = both(&search.cursor.beside[side], &edge.beside[side])
        search.edge = go(edge, &search.cursor, side)
    else:
        search.outer = search.slope
        search.edge = go(edge, &search.cursor, 1 - side)
    look(search, side)


cdef void find_bridge(Node *node, Bridge *bridge) noexcept nogil:
    """Find the bridge of a node by walking both children's hulls at once.

    Each step compares an edge e of the left hull with an edge f of the right one. It decides for at
    least one of them whether the bridge covers it (it is pooled), and closes the edges that this
    decides too::

        left child    ... outer | inner ... e |  middle  | f ... inner | outer ...    right child
                                '------- the bridge --------'
    """
    cdef Search left, right
    cdef Edge *edge = &bridge.edge
    start(&left, node.child[LEFT], LEFT)
    start(&right, node.child[RIGHT], RIGHT)
    while True:
        if left.edge != NULL and right.edge != NULL:
            compare(&left, &right)
        elif left.edge != NULL and right.found:  # the line from the right end decides
            move(&left, LEFT, left.slope * (left.between.weight + right.part.weight)
                 >= left.between.sum + right.part.sum)
        elif right.edge != NULL and left.found:
            move(&right, RIGHT, right.slope * (right.between.weight + left.part.weight)
                 <= right.between.sum + left.part.sum)
        else:
            break
    if not (left.found and right.found):  # nothing is pooled across the middle
        store_last_edge(node, bridge)
        bridge.outer[RIGHT] = first_slope(node.child[RIGHT])
        return
    edge.first, edge.last = left.end, right.end
    edge.weight = left.part.weight + right.part.weight
    edge.sum = left.part.sum + right.part.sum
    edge.beside[LEFT], edge.beside[RIGHT] = left.beside, right.beside
    bridge.part[LEFT], bridge.part[RIGHT] = left.part, right.part
    bridge.outer[LEFT], bridge.outer[RIGHT] = left.outer, right.outer
    bridge.inner[LEFT], bridge.inner[RIGHT] = left.inner, right.inner


cdef inline void compare(Search *left, Search *right) noexcept nogil:
    """Decide about the current edge on one side or on both, and continue from there.

    With the names of the module: e is the left edge, f the right one, and the pooled mean is where
    the falling g_L meets the rising g_R. At slope(e), the right points up to the end of f bound
    g_R; at slope(f), the left points from the start of e bound g_L.
    """
    cdef double slope = left.slope, f_slope = right.slope
    cdef double at_e = left.between.sum - slope * left.between.weight  # g_L(slope of e)
    cdef double at_f = f_slope * right.between.weight - right.between.sum  # g_R(slope of f)
    cdef bint falls = slope >= f_slope, e_settled, f_settled
    cdef Sums part
    if falls:  # e and f can't both stay
        part = with_edge(&right.between, right.edge)
        e_settled = at_e < slope * part.weight - part.sum
        part = with_edge(&left.between, left.edge)
        f_settled = at_f < part.sum - f_slope * part.weight
    else:
        e_settled, f_settled = at_e >= at_f, at_f >= at_e
    if not (e_settled or f_settled):  # equal slopes, or sums that overflowed and are no numbers
        e_settled = f_settled = True
    if e_settled:
        move(left, LEFT, falls)
    if f_settled:
        move(right, RIGHT, falls)


# ---------------------------------------------------------------------- bytes

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
    node.dirty = NEW
    sum_children(node, bridge)
    node.dirty = 1 << LEFT | 1 << RIGHT
    bridge.edge.first, bridge.edge.last = first, last
    if not (first <= last and renew_bridge(node, bridge) and is_bridge(node, bridge, slack)):
        return False
    node.dirty = 0
    return bridge.edge.first == first and bridge.edge.last == last and first < node.key
